"""One test for each fault that the public reference was seen to fail on, with real agents."""

from __future__ import annotations

import contextlib
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from agent_lab import QUICK, Lab, go, tree

from replicator.agent.server import PeerServer
from replicator.backup_seal import BackupSeal


def backups_of(lab: Lab) -> list[str]:
    job = lab.backup_dir / lab.job
    if not job.is_dir():
        return []
    return sorted(p.name for p in job.iterdir() if (p / "backup.seal").exists())


# ---- f1: a node dies while a step is replicated ------------------------------------------------


def test_f1_a_node_dying_in_a_round_keeps_the_previous_step_and_is_reported(tmp_path):
    async def scenario():
        async with Lab(tmp_path) as lab:
            await lab.start()
            assert await lab.restored() is None
            saved = await lab.replicate(1)
            await lab.kill(1)
            lab.save_on(0, 2)  # node 1 never saves it
            await lab.until(lambda: "step 2 is not replicated" in lab.errors(0), "the report")
            assert "node(s) 1 did not save it" in lab.errors(0)
            metrics = lab.agents[0].metrics.render()
            assert b"stowplan_replicator_failed_rounds_total 1.0" in metrics
            assert {(1, 0), (1, 1)} <= lab.copies(0)
            await lab.wipe(1)
            await lab.start(1)
            assert await lab.restored() == 1
            assert [lab.data(i) for i in range(2)] == [saved[0], saved[1]]
            await lab.until(lambda: lab.replicated() == 1, "redundancy after the restore")
            assert (1, 0) in lab.copies(1)  # the replaced node holds its peer's copy again

    go(scenario())


def test_f1_a_node_that_dies_in_the_middle_of_its_transfers_is_replaced(tmp_path):
    """Half of a copy has arrived on the survivor, and half of another left it."""

    async def scenario():
        async with Lab(tmp_path) as lab:
            size = 4 * 1024 * 1024
            await lab.start()
            await lab.restored()
            saved = await lab.replicate(1, size)
            for index in range(2):
                await lab.kill(index)
                lab.options[index] = {"bandwidth": 1024 * 1024}
            await lab.start()
            lab.save(2, size)
            growing = lab.local(0) / ".stowplan" / "incoming"
            await lab.until(
                lambda: sum(f.stat().st_size for f in growing.rglob("*.distcp")) > size // 8,
                "half of a copy",
            )
            await lab.wipe(1)
            await lab.until(lambda: not list(growing.iterdir()), "the half copy to be cleared")
            await lab.until(lambda: "step 2 is not replicated" in lab.errors(0), "the report")
            assert {(1, 0), (1, 1)} <= lab.copies(0)
            assert (2, 1) not in lab.copies(0)
            lab.options[0] = lab.options[1] = {}
            await lab.kill(0)
            await lab.start()
            assert await lab.restored() == 1
            assert [lab.data(index) for index in range(2)] == [saved[0], saved[1]]

    go(scenario())


# ---- f2: the coordinator dies ------------------------------------------------------------------


def test_f2_nodes_report_a_dead_coordinator_and_go_on_when_it_is_back(tmp_path):
    async def scenario():
        async with Lab(tmp_path) as lab:
            await lab.start()
            await lab.restored()
            await lab.replicate(1)
            await lab.kill(0)
            lab.save_on(1, 2)
            await lab.until(lambda: "coordinator does not answer" in lab.errors(1), "the report")
            lab.save_on(0, 2)
            await lab.start(0)  # its supervisor starts it again: no new replicator.yaml
            await lab.until(lambda: lab.replicated() == 2, "replication to go on")
            assert lab.marker(0) is not None
            assert {(2, 0), (2, 1)} <= lab.copies(0) & lab.copies(1)

    go(scenario())


def test_f2_a_step_saved_while_a_living_coordinator_was_out_of_reach_is_replicated(tmp_path):
    async def scenario():
        async with Lab(tmp_path) as lab:
            await lab.start()
            await lab.restored()
            await lab.replicate(1)
            lab.gates[0].set("closed")
            await lab.until(lambda: not any(a.node.connected for a in lab.agents), "the cut")
            lab.save(2)
            await lab.until(lambda: all((2, i) in lab.copies(i) for i in range(2)), "the saves")
            lab.gates[0].set("open")
            await lab.until(lambda: lab.replicated() == 2, "step 2 to be replicated")

    go(scenario())


# ---- f3: a peer cannot be reached after the restore --------------------------------------------


def test_f3_an_agent_that_restarts_goes_on_without_a_new_configuration(tmp_path):
    async def scenario():
        async with Lab(tmp_path) as lab:
            await lab.start()
            await lab.restored()
            lab.gates[1].set("closed")
            await lab.kill(1)
            await lab.start(1)
            lab.save(1)
            await lab.until(lambda: "step 1 is not replicated" in lab.errors(0), "the report")
            lab.gates[1].set("open")
            await lab.until(lambda: lab.replicated() == 1, "the copy to be made after all")
            assert not lab.failed(0)
            assert not lab.failed(1)

    go(scenario())


def test_a_stalled_peer_does_not_hold_up_the_report_and_is_used_again_later(tmp_path):
    async def scenario():
        async with Lab(tmp_path) as lab:
            await lab.start()
            await lab.restored()
            await lab.replicate(1)
            lab.gates[1].set("stalled")
            lab.save(2)
            await lab.until(lambda: "step 2 is not replicated" in lab.errors(0), "the report")
            assert {(1, 0), (1, 1)} <= lab.copies(0)
            assert lab.replicated() == 1
            lab.gates[1].set("open")
            await lab.until(lambda: lab.replicated() == 2, "replication to go on")

    go(scenario())


# ---- f4: corrupt data --------------------------------------------------------------------------


def flip(path: Path) -> None:
    """Change one byte of the first file, leaving its size and times as they are."""
    file = next(p for p in sorted(path.rglob("*")) if p.is_file() and p.stat().st_size > 1000)
    before = file.stat()
    with file.open("r+b") as opened:
        opened.seek(500)
        byte = opened.read(1)
        opened.seek(500)
        opened.write(bytes([byte[0] ^ 1]))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def empty(path: Path) -> None:
    shutil.rmtree(path)
    path.mkdir()


def truncate(path: Path) -> None:
    file = next(p for p in sorted(path.rglob("*")) if p.is_file() and p.stat().st_size > 1000)
    os.truncate(file, 700)


@pytest.mark.parametrize("damage", [flip, empty, truncate])
def test_f4_a_damaged_copy_is_never_linked_and_the_replica_is_used(tmp_path, damage):
    async def scenario():
        async with Lab(tmp_path) as lab:
            await lab.start()
            await lab.restored()
            saved = await lab.replicate(1)
            damage(lab.data_of(0, 1, 0))
            assert await lab.restored() == 1
            assert lab.data(0) == saved[0]
            assert "corrupt" in lab.errors(0)

    go(scenario())


def test_f4_a_damaged_replica_is_not_taken_for_a_lost_node(tmp_path):
    """Wiped node, and its only replica is damaged: an older step or backup, never bad data."""

    async def scenario():
        async with Lab(tmp_path) as lab:
            await lab.start()
            await lab.restored(backup_interval_steps=1, backup_interval_minutes=None)
            saved = await lab.replicate(1)
            await lab.until(lambda: len(backups_of(lab)) == 1, "the backup")
            await lab.wipe(1)
            flip(lab.data_of(0, 1, 1))
            await lab.start(1)
            assert await lab.restored() == 1
            assert lab.data(1) == saved[1]  # from the backup

    go(scenario())


def test_f4_with_every_copy_of_a_shard_damaged_the_job_starts_anew_and_keeps_the_rest(tmp_path):
    async def scenario():
        async with Lab(tmp_path) as lab:
            await lab.start()
            await lab.restored()
            await lab.replicate(1)
            flip(lab.data_of(0, 1, 1))
            flip(lab.data_of(1, 1, 1))
            assert await lab.restored() is None
            kept = list((lab.local(0) / ".stowplan" / "quarantine").glob("*.data"))
            assert len(kept) == 2  # the damaged copy, and the good shard that is useless alone
            assert "not deleted" in lab.errors(0)

    go(scenario())


# ---- f5: a fetch fails -------------------------------------------------------------------------


def test_f5_no_link_appears_while_a_source_cannot_be_reached_and_then_it_does(tmp_path):
    async def scenario():
        async with Lab(tmp_path, 3) as lab:
            await lab.start()
            await lab.restored()
            saved = await lab.replicate(1)
            await lab.wipe(2)
            holder = next(i for i in range(2) if (1, 2) in lab.copies(i))
            other = 1 - holder
            assert (1, 2) not in lab.copies(other)
            await lab.start(2)
            with refusing_readers(lab, holder):
                lab.begin()
                await lab.until(
                    lambda: "node 2 cannot get its data of step 1" in lab.errors(2), "the report"
                )
                assert lab.marker(2) is None
                assert lab.marker(0) is None  # nobody starts before all can
            assert await lab.wait_restored() == 1
            assert lab.data(2) == saved[2]

    go(scenario())


def test_f5_a_backup_serves_where_the_only_source_is_never_reached(tmp_path):
    async def scenario():
        async with Lab(tmp_path, 3) as lab:
            often = {"backup_interval_steps": 1, "backup_interval_minutes": None}
            await lab.start()
            await lab.restored(**often)
            saved = await lab.replicate(1)
            await lab.until(lambda: backups_of(lab), "the backup")
            await lab.wipe(2)
            holder = next(i for i in range(2) if (1, 2) in lab.copies(i))
            await lab.start(2)
            with refusing_readers(lab, holder):
                assert await lab.restored(**often) == 1
            assert lab.data(2) == saved[2]

    go(scenario())


@contextlib.contextmanager
def refusing_readers(lab: Lab, index: int):
    """The agent talks to its coordinator, but nobody can read data from it."""
    agent = lab.agents[index]
    assert agent is not None
    original = PeerServer._serve_data

    async def serve(self, channel):
        await (channel.finish() if self is agent.server else original(self, channel))

    PeerServer._serve_data = serve
    try:
        yield
    finally:
        PeerServer._serve_data = original


# ---- f6: the peer's memory is full -------------------------------------------------------------


def test_f6_a_full_peer_stops_the_old_step_from_being_deleted(tmp_path):
    async def scenario():
        async with Lab(tmp_path) as lab:
            size = 1024 * 1024
            lab.options[1] = {"capacity": 4 * size}
            await lab.start()
            await lab.restored()
            saved = await lab.replicate(1, size)
            blob = lab.local(1) / "other.bin"
            blob.write_bytes(bytes(size))
            lab.save(2, size)
            await lab.until(lambda: "no-space" in lab.errors(1), "the report")
            await lab.until(lambda: "step 2 is not replicated" in lab.errors(0), "the failed round")
            assert lab.replicated() == 1
            assert {(1, 0), (1, 1)} <= lab.copies(0)
            assert {(1, 0), (1, 1)} <= lab.copies(1)
            await lab.wipe(0)
            await lab.start(0)
            assert await lab.restored() == 1
            assert lab.data(0) == saved[0]

    go(scenario())


# ---- f8, f9, f10: configuration ----------------------------------------------------------------


def test_f8_backups_by_steps(tmp_path):
    async def scenario():
        async with Lab(tmp_path) as lab:
            await lab.start()
            await lab.restored(backup_interval_steps=10, backup_interval_minutes=None)
            await lab.replicate(1)
            await lab.until(lambda: len(backups_of(lab)) == 1, "the first backup")
            await lab.replicate(5)
            await lab.replicate(11)
            await lab.until(lambda: len(backups_of(lab)) == 2, "the second backup")

    go(scenario())


def test_a_step_that_is_stored_is_not_stored_again_by_every_restart(tmp_path):
    async def scenario():
        async with Lab(tmp_path) as lab:
            await lab.start()
            often = {"backup_interval_steps": 2, "backup_interval_minutes": None}
            await lab.restored(**often)
            await lab.replicate(4)
            await lab.until(lambda: len(backups_of(lab)) == 1, "the first backup")
            for _ in range(3):
                assert await lab.restored(**often) == 4
                await lab.until(lambda: lab.replicated() == 4, "step 4 to be replicated")
            await lab.replicate(5)  # too early
            await lab.replicate(6)
            await lab.until(lambda: len(backups_of(lab)) == 2, "the second backup")
            seals = [lab.backup_dir / lab.job / name / "backup.seal" for name in backups_of(lab)]
            assert [BackupSeal.from_bytes(seal.read_bytes()).step for seal in seals] == [4, 6]

    go(scenario())


def test_f9_peer_ranks_win_over_a_count(tmp_path):
    async def scenario():
        async with Lab(tmp_path, 3) as lab:
            await lab.start()
            for index in range(3):
                peer = (index + 1) % 3
                lab.write_config(index, lab.config(index, peer_ranks=[peer], peers_per_node=2))
            await lab.wait_restored()
            await lab.replicate(1)
            assert [lab.copies(i) for i in range(3)] == [
                {(1, 0), (1, 2)},
                {(1, 0), (1, 1)},
                {(1, 1), (1, 2)},
            ]

    go(scenario())


BAD_CONFIGS = {
    "empty": b"",
    "malformed": b"job-name: [",
    "a list": b"- job-name: x\n",
    "missing keys": b"job-name: x\n",
    "rank beyond nodes": None,
    "no nodes": None,
    "unknown framework": None,
    "path in the name": None,
    "peer out of range": None,
    "huge": b"job-name: x\n" + b"# padding\n" * 700_000,
    "alias bomb": b"a: &a [x,x,x,x,x,x,x,x,x]\n"
    + b"".join(
        b"%c: &%c [%s]\n" % (98 + i, 98 + i, b",".join([b"*%c" % (97 + i)] * 9)) for i in range(9)
    ),
}
BAD_KEYS = {
    "rank beyond nodes": {"node_rank": 2},
    "no nodes": {"nodes": 0},
    "unknown framework": {"framework": "tensorflow"},
    "path in the name": {"job_name": "../../evil"},
    "peer out of range": {"peer_ranks": [7]},
}


@pytest.mark.parametrize("case", BAD_CONFIGS)
def test_f10_a_bad_configuration_is_consumed_with_the_reason_and_the_agent_lives(tmp_path, case):
    async def scenario():
        async with Lab(tmp_path) as lab:
            await lab.start()
            text = BAD_CONFIGS[case]
            lab.write_config(0, lab.config(0, **BAD_KEYS[case]) if text is None else text)
            config = lab.local(0) / "replicator.yaml"
            await lab.until(lambda: not config.exists(), "the file to be consumed", 5)
            assert "replicator.yaml:" in lab.failed(0)
            assert lab.marker(0) is None
            assert await lab.restored() is None  # a good one works afterwards

    go(scenario())


def test_f10_what_is_no_regular_file_is_refused_too(tmp_path):
    async def scenario():
        async with Lab(tmp_path) as lab:
            await lab.start()
            secret = tmp_path / "secret"
            secret.write_text(lab.config(0))  # it would do, were it no link
            (lab.local(0) / "replicator.yaml").symlink_to(secret)
            await lab.until(lambda: lab.failed(0), "the refusal")
            assert "no regular file" in lab.failed(0)
            assert secret.read_text() == lab.config(0)
            assert not (lab.local(0) / "replicator.yaml").is_symlink()

    go(scenario())


# ---- f11: stale temporary files ----------------------------------------------------------------


def test_f11_stale_temporary_files_are_no_copies_and_are_cleared(tmp_path):
    async def scenario():
        async with Lab(tmp_path) as lab:
            await lab.start()
            await lab.restored()
            saved = await lab.replicate(1)
            await lab.kill(1)
            stored = lab.data_of(0, 1, 0).name
            stale = [
                lab.local(1) / f"{stored}.tmp",
                lab.local(1) / ".stowplan" / "incoming" / "half",
            ]
            for path in stale:
                path.mkdir(parents=True)
                (path / "file").write_bytes(b"half a copy")
            shutil.rmtree(lab.local(1) / stored)  # the real copy is gone
            await lab.start(1)
            await lab.until(lambda: (1, 0) in lab.copies(1), "the copy to be made again")
            assert tree(lab.data_of(1, 1, 0)) == saved[0]
            assert await lab.restored() == 1
            assert not any(path.exists() for path in stale)

    go(scenario())


# ---- f12: two jobs of one name -----------------------------------------------------------------


def test_f12_a_second_job_of_the_same_name_does_not_join_the_first(tmp_path):
    async def scenario():
        async with Lab(tmp_path) as lab:
            await lab.start()
            await lab.restored()
            saved = await lab.replicate(1)
            async with Lab(tmp_path / "second", 2) as other:
                other.write_peers([f"127.0.0.1:{lab.gates[0].port}"])
                other.job = lab.job
                await other.start(1)
                other.write_config(1, other.config(1))
                await other.until(lambda: "is taken" in other.errors(1), "the refusal")
                await other.until(lambda: "is taken" in other.failed(1), "the end of its wait")
                assert other.marker(1) is None
            await lab.replicate(2)
            assert await lab.restored() == 2
            assert lab.data(1) != saved[1]

    (tmp_path / "second").mkdir()
    go(scenario())


@pytest.mark.parametrize(
    ("uid", "words"), [("run-b", "another run of job"), (None, "uid of node 1 is not set")]
)
def test_f12_a_job_uid_tells_two_runs_apart(tmp_path, uid, words):
    async def scenario():
        async with Lab(tmp_path) as lab:
            await lab.start()
            lab.write_config(0, lab.config(0, job_uid="run-a"))
            lab.write_config(1, lab.config(1, job_uid=uid))
            await lab.until(lambda: words in lab.errors(1), "the refusal")
            assert lab.marker(0) is None
            assert lab.marker(1) is None
            lab.write_config(1, lab.config(1, job_uid="run-a"))
            assert await lab.wait_restored() is None

    go(scenario())


def test_a_rank_that_starts_anew_while_the_others_run_on_is_told_so(tmp_path):
    async def scenario():
        async with Lab(tmp_path, timing=replace(QUICK, join=1.0)) as lab:
            await lab.start()
            await lab.restored()
            await lab.replicate(1)
            lab.write_config(1, lab.config(1))
            await lab.until(lambda: lab.failed(1), "the end of its wait")
            assert "still in the previous run: [0]" in lab.failed(1)
            assert not (lab.local(1) / "replicator.prerestore").exists()
            assert not lab.failed(0)
            assert await lab.restored() == 1

    go(scenario())


# ---- f13, f14: backups -------------------------------------------------------------------------


async def two_backups(lab: Lab) -> dict[int, dict[int, dict[str, bytes]]]:
    """Steps 1 and 2, each in a backup of its own."""
    await lab.start()
    await lab.restored(backup_interval_steps=1, backup_interval_minutes=None)
    saved = {}
    for step in (1, 2):
        saved[step] = await lab.replicate(step)
        await lab.until(lambda: len(backups_of(lab)) == step, f"backup {step}")  # noqa: B023
    return saved


async def lose_everything(lab: Lab) -> None:
    for index in range(lab.size):
        await lab.wipe(index)
    await lab.start()


@pytest.mark.parametrize("what", ["seal", "meta", "file", "flip", "empty"])
def test_f13_an_incomplete_or_damaged_backup_is_passed_over(tmp_path, what):
    async def scenario():
        async with Lab(tmp_path) as lab:
            saved = await two_backups(lab)
            newest = lab.backup_dir / lab.job / backups_of(lab)[-1]
            await lose_everything(lab)
            if what == "seal":
                (newest / "backup.seal").unlink()
            elif what == "meta":
                next(newest.glob("*.meta")).unlink()
            elif what == "empty":
                shutil.rmtree(newest)
                newest.mkdir()
            elif what == "file":
                next(newest.glob("*.data/*.distcp")).unlink()
            else:
                flip(next(newest.glob("*.data")))
            assert await lab.restored() == 1
            assert [lab.data(i) for i in range(2)] == [saved[1][0], saved[1][1]]

    go(scenario())


def test_f14_a_forced_version_is_restored_and_then_forgotten(tmp_path):
    async def scenario():
        async with Lab(tmp_path) as lab:
            saved = await two_backups(lab)
            forced = lab.backup_dir / lab.job / "restore.version"
            forced.write_text(f"  {backups_of(lab)[0]}\n")
            assert await lab.restored() == 1
            assert [lab.data(i) for i in range(2)] == [saved[1][0], saved[1][1]]
            assert forced.exists()  # until the run has saved something newer
            await lab.replicate(2)
            await lab.until(lambda: not forced.exists(), "restore.version to go")

    go(scenario())


@pytest.mark.parametrize("content", ["2001-01-01_00-00", "", "latest", "../../etc"])
def test_f14_a_bad_forced_version_is_refused_and_deletes_nothing(tmp_path, content):
    async def scenario():
        async with Lab(tmp_path) as lab:
            await two_backups(lab)
            forced = lab.backup_dir / lab.job / "restore.version"
            forced.write_text(content)
            before = [lab.copies(i) for i in range(2)]
            lab.begin()
            await lab.until(lambda: lab.failed(0) and lab.failed(1), "the refusal")
            assert "restore.version" in lab.failed(0)
            assert forced.exists()
            assert [lab.copies(i) for i in range(2)] == before
            forced.unlink()
            assert await lab.restored() == 2

    go(scenario())


# ---- f15: another number of nodes --------------------------------------------------------------


@pytest.mark.parametrize(("before", "after"), [(3, 2), (2, 3)])
def test_f15_a_changed_node_count_is_refused_and_deletes_nothing(tmp_path, before, after):
    async def scenario():
        async with Lab(tmp_path, max(before, after)) as lab:
            lab.size = before
            await lab.start()
            await lab.restored()
            await lab.replicate(1)
            held = [lab.copies(i) for i in range(before)]
            lab.size = after
            if after > before:
                await lab.start(*range(before, after))
            lab.begin()
            await lab.until(lambda: all(lab.failed(i) for i in range(after)), "the refusal")
            assert f"saved by {before} nodes, but this job runs {after}" in lab.failed(0)
            count = min(before, after)
            assert [lab.copies(i) for i in range(count)] == held[:count]
            lab.size = max(before, after)

    go(scenario())


@pytest.mark.parametrize(("before", "after"), [(3, 2), (2, 3)])
def test_f15_a_backup_of_another_node_count_is_refused_too(tmp_path, before, after):
    async def scenario():
        async with Lab(tmp_path, max(before, after)) as lab:
            often = {"backup_interval_steps": 1, "backup_interval_minutes": None}
            lab.size = before
            await lab.start()
            await lab.restored(**often)
            await lab.replicate(1)
            await lab.until(lambda: backups_of(lab), "the backup")
            lab.size = max(before, after)
            await lose_everything(lab)
            lab.size = after
            lab.begin(**often)
            await lab.until(lambda: all(lab.failed(i) for i in range(after)), "the refusal")
            assert f"saved by {before} nodes, but this job runs {after}" in lab.failed(0)
            assert len(backups_of(lab)) == 1
            lab.size = max(before, after)

    go(scenario())


# ---- f16, f17: steps ---------------------------------------------------------------------------


def test_f16_a_step_that_goes_back_is_refused_and_the_newer_one_stays(tmp_path):
    async def scenario():
        async with Lab(tmp_path) as lab:
            await lab.start()
            await lab.restored()
            await lab.replicate(10)
            lab.save(5)
            await lab.until(lambda: "saved after step 10" in lab.errors(0), "the report")
            assert {(10, 0), (10, 1)} <= lab.copies(0)
            await lab.replicate(11)

    go(scenario())


def test_f16_the_same_step_again_in_one_run_is_refused_and_the_first_stays(tmp_path):
    """Shards of two saves of one step must not mix: a node may have been quick, another slow."""

    async def scenario():
        async with Lab(tmp_path) as lab:
            await lab.start()
            await lab.restored()
            saved = await lab.replicate(10)
            lab.save(10)
            await lab.until(
                lambda: all("saved after step 10" in lab.errors(i) for i in (0, 1)), "the reports"
            )
            assert await lab.restored() == 10
            assert [lab.data(index) for index in range(2)] == [saved[0], saved[1]]
            saved = await lab.replicate(11)  # after a restart a step may be saved once more
            assert await lab.restored() == 11

    go(scenario())


def test_f16_different_steps_on_the_nodes_are_reported(tmp_path):
    async def scenario():
        async with Lab(tmp_path) as lab:
            await lab.start()
            await lab.restored()
            await lab.replicate(1)
            lab.save_on(0, 2)
            lab.save_on(1, 3)
            await lab.until(lambda: "is not replicated" in lab.errors(1), "the report")
            assert "did not save it; other steps that were saved" in lab.errors(1)
            assert {(1, 0), (1, 1)} <= lab.copies(0)

    go(scenario())


def test_f17_step_zero_is_a_step(tmp_path):
    async def scenario():
        async with Lab(tmp_path) as lab:
            await lab.start()
            assert await lab.restored() is None
            saved = await lab.replicate(0)
            assert await lab.restored() == 0
            assert [lab.data(i) for i in range(2)] == [saved[0], saved[1]]
            await lab.replicate(1)

    go(scenario())


# ---- f19: equal contents under different names -------------------------------------------------


def test_f19_equal_contents_under_different_names_are_told_apart(tmp_path):
    async def scenario():
        async with Lab(tmp_path) as lab:
            await lab.start()
            await lab.restored()
            for index in range(2):
                step = lab.local(index) / "7.tmp"
                step.mkdir()
                (step / f"__{index}_0.distcp").write_bytes(b"the same on both")
            for index in range(2):
                (lab.local(index) / "7.tmp").rename(lab.local(index) / "7")
            await lab.until(lambda: lab.replicated() == 7, "replication")
            await lab.wipe(1)
            await lab.start(1)
            assert await lab.restored() == 7
            assert [list(lab.data(i)) for i in range(2)] == [["__0_0.distcp"], ["__1_0.distcp"]]

    go(scenario())


# ---- f21: a save that nobody watched -----------------------------------------------------------


def test_f21_a_save_made_while_the_agent_was_down_is_taken(tmp_path):
    async def scenario():
        async with Lab(tmp_path) as lab:
            await lab.start()
            await lab.restored()
            await lab.kill(0)
            await lab.kill(1)
            lab.save(1)
            await lab.start()
            await lab.until(lambda: lab.replicated() == 1, "the save to be taken")

    go(scenario())


# ---- everything at once ------------------------------------------------------------------------


def test_everything_restarting_at_once_with_one_node_lost(tmp_path):
    async def scenario():
        async with Lab(tmp_path, 4) as lab:
            await lab.start()
            await lab.restored()
            saved = await lab.replicate(3)
            for index in range(4):
                await lab.kill(index)
            await lab.wipe(2)
            await lab.start()
            assert await lab.restored() == 3
            assert [lab.data(i) for i in range(4)] == [saved[i] for i in range(4)]

    go(scenario())


def test_ranks_may_move_between_nodes_at_a_restart(tmp_path):
    async def scenario():
        async with Lab(tmp_path, 3) as lab:
            await lab.start()
            await lab.restored()
            saved = await lab.replicate(3)
            moved = {0: 2, 1: 0, 2: 1}
            for index in range(3):
                lab.write_config(index, lab.config(moved[index]))
            assert await lab.wait_restored() == 3
            assert [lab.data(index) for index in range(3)] == [saved[moved[i]] for i in range(3)]

    go(scenario())


def test_without_a_peer_the_job_is_told_that_it_is_unprotected(tmp_path):
    async def scenario():
        async with Lab(tmp_path, 1) as lab:
            await lab.start()
            await lab.restored()
            await lab.until(lambda: "unprotected" in lab.errors(0), "the warning")
            await lab.replicate(1)
            assert await lab.restored() == 1

    go(scenario())
