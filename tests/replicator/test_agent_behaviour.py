"""What an agent does beyond the fault table: layouts, limits, clocks, markers."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import json
import os
import re
import secrets
import subprocess
import time
import urllib.request

import pytest
from agent_lab import SIZE, Lab, tree

from replicator.agent import tier
from replicator.agent.bandwidth import Bandwidth
from replicator.agent.files import Reserve
from replicator.agent.space import NoSpaceError, Space
from replicator.agent.tier import name_backup
from replicator.core.effects import Persist, WriteError
from replicator.demo.cluster import finish_save, prepare_save
from replicator.digest import read_content, reference_hash
from replicator.manifest import ShardManifest


def go(scenario):
    asyncio.run(asyncio.wait_for(scenario, 60))


def test_files_per_worker_are_replicated_and_restored(tmp_path):
    async def scenario():
        async with Lab(tmp_path) as lab:
            lab.framework = "pytorch"
            await lab.start()
            lab.begin(workers_per_node=2)
            markers = [
                lab.local(node) / f"job-s0-n{node}-w{worker}.restore"
                for node in range(2)
                for worker in range(2)
            ]
            await lab.until(lambda: all(m.exists() for m in markers), "markers")
            assert all(m.read_bytes() == b"" for m in markers)
            for node in range(2):
                for worker in range(2):
                    path = lab.local(node) / f"job-s3-n{node}-w{worker}.save"
                    path.write_bytes(f"{node}.{worker}".encode() * 1000)
            await lab.until(lambda: lab.replicated() == 3, "replication")
            await lab.wipe(1)
            await lab.start(1)
            lab.begin(workers_per_node=2)
            restored = [
                lab.local(node) / f"job-s3-n{node}-w{worker}.restore"
                for node in range(2)
                for worker in range(2)
            ]
            await lab.until(lambda: all(r.exists() for r in restored), "restore")
            found = [r.read_bytes()[:3].decode() for r in restored]
            assert found == ["0.0", "0.1", "1.0", "1.1"]

    go(scenario())


@pytest.mark.parametrize("identical", [True, False])
def test_data_parallel_replicas_are_shared_only_where_they_are_equal(tmp_path, identical):
    """Equal replicas need no bytes moved; where the promise is broken, real copies are made."""

    async def scenario():
        async with Lab(tmp_path) as lab:
            await lab.start()
            await lab.restored(assume_data_parallelism=2)
            for node in range(2):
                step = lab.local(node) / "5.tmp"
                step.mkdir()
                content = b"the same" if identical else b"rank %d" % node
                (step / "shard").write_bytes(content * 10_000)
            for node in range(2):
                finish_save(lab.local(node), 5)
            await lab.until(lambda: lab.replicated() == 5, "replication")
            data = list(lab.local(0).glob("*.data"))
            assert len(data) == (1 if identical else 2)
            expected = tree(lab.data_of(1, 5, 1))
            await lab.wipe(1)
            await lab.start(1)
            assert await lab.restored(assume_data_parallelism=2) == 5
            assert lab.data(1) == expected

    go(scenario())


def test_every_copy_has_a_manifest_that_names_run_and_world(tmp_path):
    async def scenario():
        async with Lab(tmp_path) as lab:
            await lab.start()
            await lab.restored()
            await lab.replicate(1)
            await lab.restored()
            await lab.replicate(2)
            record = lab.local(1) / "job-s2-n0-w0.e2.manifest"
            manifest = ShardManifest.from_bytes(record.read_bytes())
            assert (manifest.epoch, manifest.step, manifest.node_rank, manifest.nodes) == (
                2,
                2,
                0,
                2,
            )
            data = lab.local(1) / f"{manifest.storage_name}.data"
            assert {f.path: f.size for f in manifest.files} == {
                name: len(content) for name, content in tree(data).items()
            }
            meta = lab.local(1) / "job-s2-n0-w0.meta"
            assert meta.read_text() == manifest.storage_name

    go(scenario())


def test_old_steps_go_once_a_newer_one_is_replicated(tmp_path):
    async def scenario():
        async with Lab(tmp_path) as lab:
            await lab.start()
            await lab.restored()
            for step in (1, 2, 3):
                await lab.replicate(step)
            for node in range(2):
                await lab.until(lambda n=node: lab.copies(n) == {(3, 0), (3, 1)}, "deletion")
                assert len(list(lab.local(node).glob("*.data"))) == 2
                incoming = lab.local(node) / ".stowplan" / "incoming"
                await lab.until(lambda i=incoming: not list(i.iterdir()), "removal")

    go(scenario())


def test_a_new_configuration_cleans_up_but_leaves_foreign_files_alone(tmp_path):
    async def scenario():
        async with Lab(tmp_path) as lab:
            await lab.start()
            await lab.restored()
            await lab.replicate(1)
            local = lab.local(0)
            (local / "notes.txt").write_text("mine")
            (local / "jax-init-info.txt").write_text("0\nh:1\n")
            (local / "1").symlink_to(next(local.glob("*.data")).name)  # a renamed restore link
            (local / "9.orbax-checkpoint-tmp-1").mkdir()
            (local / "replicator.errors").write_text("old")
            assert await lab.restored() == 1
            assert (local / "notes.txt").read_text() == "mine"
            assert (local / "jax-init-info.txt").exists()
            assert not (local / "1").is_symlink()
            assert not (local / "9.orbax-checkpoint-tmp-1").exists()
            assert "old" not in lab.errors(0)

    go(scenario())


def test_a_save_with_a_link_inside_is_refused_and_nothing_outside_is_read(tmp_path):
    async def scenario():
        async with Lab(tmp_path) as lab:
            await lab.start()
            await lab.restored()
            await lab.replicate(1)
            secret = tmp_path / "secret"
            secret.write_text("secret")
            prepare_save(lab.local(0), 0, 2, SIZE, 2)
            (lab.local(0) / "2.tmp" / "link").symlink_to(secret)
            finish_save(lab.local(0), 2)
            await lab.until(lambda: "symbolic link" in lab.errors(0), "the report")
            await lab.until(lambda: "put aside" in lab.errors(0), "the save to be put aside", 15)
            await lab.replicate(3)
            assert secret.read_text() == "secret"

    go(scenario())


def test_fewer_peers_than_were_asked_for_are_reported(tmp_path):
    """With none at all the coordinator says so: "unprotected"."""

    async def scenario():
        async with Lab(tmp_path, 3) as lab:
            await lab.start()
            await lab.restored(peers_per_node=2)
            few = "asks for 2 copies, but of 3 nodes only 1 keep one for node"
            assert [few in lab.errors(index) for index in range(3)] == [True, False, True]

    go(scenario())


def test_a_configuration_for_another_job_keeps_the_first_ones_data_aside(tmp_path):
    async def scenario():
        async with Lab(tmp_path) as lab:
            await lab.start()
            await lab.restored()
            await lab.replicate(1)
            assert await lab.restored(job_name="other") is None
            aside = lab.local(0) / ".stowplan" / "quarantine"
            assert len(list(aside.glob("*.data"))) == 2
            lab.save(1)
            await lab.until(lambda: lab.replicated() == 1, "the other job's step")
            await lab.until(lambda: not list(aside.iterdir()), "the room to be given back")

    go(scenario())


def test_the_reference_replicators_files_are_taken_over(tmp_path):
    """Left by the public reference: `.meta` and `.data`, named by its hash, without manifests."""

    async def scenario():
        async with Lab(tmp_path) as lab:
            for node in range(2):
                step = lab.local(node) / "step"
                step.mkdir()
                (step / f"__{node}_0.distcp").write_bytes(b"%d" % node * 5000)
                name = reference_hash(read_content(step))
                step.rename(lab.local(node) / f"{name}.data")
                (lab.local(node) / f"job-s12-n{node}-w0.meta").write_text(name)
            await lab.start()
            assert await lab.restored() == 12
            assert [list(lab.data(n)) for n in range(2)] == [["__0_0.distcp"], ["__1_0.distcp"]]
            await lab.until(lambda: lab.replicated() == 12, "redundancy")

    go(scenario())


def test_metrics_health_and_status_are_served(tmp_path):
    async def scenario():
        async with Lab(tmp_path) as lab:
            lab.options[0] = {"http_port": 0}
            await lab.start()
            await lab.restored(backup_interval_steps=1, backup_interval_minutes=None)
            await lab.replicate(1)
            seals = lambda: list(lab.backup_dir.glob("*/*/backup.seal"))  # noqa: E731
            await lab.until(seals, "the backup")
            agent = lab.agents[0]
            assert agent is not None

            def get(path):
                url = f"http://127.0.0.1:{agent.http_port}{path}"
                with urllib.request.urlopen(url, timeout=5) as answer:
                    return answer.read().decode()

            metrics = await asyncio.to_thread(get, "/metrics")
            assert "stowplan_replicator_replicated_step 1.0" in metrics
            expected = {
                *("MountGcsBucket", "CoordinatorRegistration", "CheckpointRestore", "PeerMount"),
                *("CheckpointReplicationTotal", "CheckpointReplication", "CheckpointBackup"),
            }
            assert operations(metrics) == dict.fromkeys(expected, "OK")
            assert "duration_hashing_dir_count 1.0" in metrics
            assert await asyncio.to_thread(get, "/healthz") == "ok\n"
            assert '"phase": "running"' in await asyncio.to_thread(get, "/status")

    go(scenario())


def operations(metrics: str) -> dict[str, str]:
    """The reference's operations that were timed at least once, and how they ended."""
    count = r'node_operations_seconds_count\{.*code="(\w+)".*method_name="(\w+)"\} [1-9]'
    return {method: code for code, method in re.findall(count, metrics)}


def test_the_restore_from_a_peer_and_a_failed_restore_are_timed_too(tmp_path):
    async def scenario():
        async with Lab(tmp_path) as lab:
            await lab.start()
            await lab.restored()
            await lab.replicate(1)
            await lab.wipe(1)
            await lab.start(1)
            assert await lab.restored() == 1
            agent = lab.agents[1]
            assert agent is not None
            seen = operations(agent.metrics.render().decode())
            assert seen["RestorePeerMount"] == seen["CheckpointRestore"] == "OK"
            lab.size = 1
            lab.begin()
            await lab.until(lambda: lab.failed(0), "the refusal: another number of nodes")
            other = lab.agents[0]
            assert other is not None
            assert operations(other.metrics.render().decode())["CheckpointRestore"] == "UNKNOWN"
            lab.size = 2

    go(scenario())


# ---- clocks ------------------------------------------------------------------------------------


class _Clock(datetime.datetime):
    """A wall clock that can be set."""

    at = datetime.datetime(2026, 11, 30, 7, 15, tzinfo=datetime.UTC)

    @classmethod
    def now(cls, tz=None):
        return cls.at


def test_a_clock_that_jumped_back_does_not_make_the_newest_backup_look_old(monkeypatch):
    monkeypatch.setattr(tier.datetime, "datetime", _Clock)
    assert name_backup("") == "2026-11-30_07-15"
    assert name_backup("2026-11-30_07-15") == "2026-11-30_07-16"
    assert name_backup("2031-01-01_23-59") == "2031-01-02_00-00"


def test_wall_clock_jumps_do_not_disturb_a_run(tmp_path, monkeypatch):
    async def scenario():
        async with Lab(tmp_path) as lab:
            await lab.start()
            await lab.restored()
            await lab.replicate(1)
            real = time.time
            for jump in (-86_400 * 400, 86_400 * 400):
                monkeypatch.setattr(time, "time", lambda j=jump: real() + j)
                step = 2 if jump < 0 else 3
                await lab.replicate(step)
                assert await lab.restored() == step

    go(scenario())


# ---- limits ------------------------------------------------------------------------------------


def test_the_bandwidth_cap_holds_over_all_transfers():
    cap = Bandwidth(1_000_000)
    delays = [cap.delay(500_000) for _ in range(6)]
    assert delays[0] == 0.0
    assert 1.0 < delays[-1] < 3.0
    assert Bandwidth(None).delay(10**12) == 0.0


def test_a_slow_link_replicates_in_the_end(tmp_path):
    async def scenario():
        async with Lab(tmp_path) as lab:
            for index in range(2):
                lab.options[index] = {"bandwidth": 2 * 1024 * 1024}
            await lab.start()
            await lab.restored()
            began = time.monotonic()
            await lab.replicate(1, 4 * 1024 * 1024)
            assert time.monotonic() - began > 0.8

    go(scenario())


@contextlib.contextmanager
def small_tmpfs(path, options):
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(path)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip("mounting is not permitted here")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=False)


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small tmpfs needs root")


@needs_root
def test_a_full_memory_disk_is_reported_and_survived(tmp_path):
    size = 16 * 1024 * 1024

    async def scenario(small):
        async with Lab(tmp_path) as lab:
            assert lab.local(1) == small
            await lab.start()
            await lab.restored()
            await lab.replicate(1, size // 5)
            (small / "filler").write_bytes(bytes(size // 3))
            lab.save_on(0, 2, size // 5)
            lab.save_on(1, 2, size // 5)
            await lab.until(lambda: "no-space" in lab.errors(1), "the report")
            assert lab.replicated() == 1
            with contextlib.suppress(OSError), (small / "more").open("wb", buffering=0) as more:
                while True:  # not one page is left
                    more.write(bytes(4096))
            lab.save_on(0, 3, size // 5)
            state = small / ".stowplan" / "state.json"
            agent = lab.agents[1]
            assert agent is not None
            before = state.stat().st_mtime_ns
            agent.apply([Persist(agent.node.state), WriteError("room for this")])
            assert state.stat().st_mtime_ns > before
            assert "room for this" in lab.errors(1)
            (small / "more").unlink()
            (small / "filler").unlink()
            lab.save_on(1, 3, size // 5)
            await lab.until(lambda: lab.replicated() == 3, "replication to go on")

    with small_tmpfs(tmp_path / "job-node1", f"size={size}") as small:
        go(scenario(small))


def fill_with_files(directory):
    """Make empty files until the volume takes no more; returns them."""
    made = []
    with contextlib.suppress(OSError):
        while True:
            path = directory / f"full-{secrets.token_hex(4)}"
            path.touch()
            made.append(path)
    return made


@needs_root
def test_a_volume_that_takes_no_more_files_is_reported_and_survived(tmp_path):
    async def scenario(small):
        async with Lab(tmp_path) as lab:
            await lab.start()
            await lab.restored()
            await lab.replicate(1)
            full = fill_with_files(small)
            lab.save_on(0, 2)  # its copy does not fit on node 1
            await lab.until(lambda: "No space left" in lab.errors(1), "the report")
            await asyncio.sleep(0.5)  # several ticks, which look after the reserve
            assert not lab.tasks[1].done()
            await lab.kill(1)
            full += fill_with_files(small)
            await lab.start(1)
            # With no file to spare: a restore's marker, the state and the errors still fit.
            full += fill_with_files(small)
            full.pop().rename(small / "replicator.yaml.tmp")
            (small / "replicator.yaml.tmp").write_text(lab.config(1))
            (small / "replicator.yaml.tmp").rename(small / "replicator.yaml")
            lab.write_config(0, lab.config(0))
            assert await lab.wait_restored() == 1
            for path in full:
                path.unlink()
            await lab.replicate(3)

    with small_tmpfs(tmp_path / "job-node1", "size=64m,nr_inodes=60") as small:
        go(scenario(small))


@needs_root
def test_the_reserve_of_a_full_volume_is_taken_when_there_is_room_again(tmp_path):
    with small_tmpfs(tmp_path / "small", "size=1m,nr_inodes=20") as small:
        reserve = Reserve(small / "reserve")
        full = fill_with_files(small)
        reserve.fill()
        assert not list(small.glob("reserve*"))
        with pytest.raises(OSError, match="No space left"):
            reserve.write_whole(small / "vital", b"x", small)
        for path in full:
            path.unlink()
        reserve.fill()
        assert len(list(small.glob("reserve*"))) == Reserve.FILES
        fill_with_files(small)
        for number in range(Reserve.FILES - 1):
            reserve.write_whole(small / f"vital-{number}", b"", small)
        assert (small / "reserve").exists()  # the room in it was not what lacked
        reserve.replace_link(small / "link", "vital-0", small)
        assert (small / "link").exists()


def test_data_whose_record_is_damaged_is_kept_aside_and_another_copy_used(tmp_path):
    async def scenario():
        async with Lab(tmp_path) as lab:
            await lab.start()
            await lab.restored()
            saved = await lab.replicate(1)
            await lab.kill(0)
            record = lab.local(0) / "job-s1-n0-w0.e1.manifest"
            record.write_bytes(record.read_bytes()[:-20])
            await lab.start(0)
            assert await lab.restored() == 1
            assert lab.data(0) == saved[0]  # pulled from the peer
            assert list((lab.local(0) / ".stowplan" / "quarantine").glob("*.data"))

    go(scenario())


def test_without_inotify_saves_are_found_by_scans(tmp_path, monkeypatch):
    def none_left(*_, **__):
        raise OSError(24, "inotify instance limit reached")

    monkeypatch.setattr("inotify_simple.INotify", none_left)

    async def scenario():
        async with Lab(tmp_path) as lab:
            await lab.start()
            await lab.restored()
            await lab.replicate(1)
            assert await lab.restored() == 1

    go(scenario())


def test_a_fault_in_the_core_ends_the_agent_instead_of_leaving_it_half_alive(tmp_path, monkeypatch):
    async def scenario():
        async with Lab(tmp_path) as lab:
            await lab.start()
            await lab.restored()
            await lab.replicate(1)
            task, agent = lab.tasks[1], lab.agents[1]
            assert task is not None
            assert agent is not None
            monkeypatch.setattr(agent.node, "received", lambda *_: 1 / 0)
            await asyncio.wait({task}, timeout=10)
            assert isinstance(task.exception(), ZeroDivisionError)
            lab.tasks[1] = None
            await lab.start(1)
            await lab.replicate(2)

    go(scenario())


def test_room_promised_to_two_equal_copies_is_given_back_by_each(tmp_path):
    space = Space(tmp_path, capacity=10 * 2**20)
    one, other = space.reserve(4 * 2**20), space.reserve(4 * 2**20)
    space.release(other)
    one.written = 2**20
    space.release(one)
    for _ in range(20):
        space.release(space.reserve(8 * 2**20))
    with pytest.raises(NoSpaceError, match="are free"):
        space.reserve(10 * 2**20)


@pytest.mark.parametrize("what", ["directory", "pipe"])
def test_a_restore_version_that_cannot_be_read_refuses_the_start(tmp_path, what):
    async def scenario():
        async with Lab(tmp_path) as lab:
            await lab.start()
            await lab.restored()
            await lab.replicate(1)
            before = [lab.copies(index) for index in range(2)]
            version = lab.backup_dir / lab.job / "restore.version"
            version.parent.mkdir(exist_ok=True)
            version.mkdir() if what == "directory" else os.mkfifo(version)
            lab.begin()
            await lab.until(lambda: lab.failed(0) and lab.failed(1), "the refusal")
            assert "restore.version is unreadable" in lab.failed(0)
            assert lab.marker(0) is None
            assert [lab.copies(index) for index in range(2)] == before

    go(scenario())


DAMAGE = {
    "cut off": lambda text: text[: len(text) // 2],
    "no text": lambda _: b"\xff\xfe",
    "a list": lambda _: b"[]",
    "empty": lambda _: b"",
    "deep": lambda _: b"[" * 100_000,
    "config is a number": lambda text: json.dumps({**json.loads(text), "config": 5}),
    "config is none of ours": lambda text: json.dumps({**json.loads(text), "config": "x: ["}),
    "infinite epoch": lambda text: json.dumps({**json.loads(text), "epoch": float("inf")}),
    "odd run": lambda text: json.dumps({**json.loads(text), "linked": ["a", 1]}),
    "short pair": lambda text: json.dumps({**json.loads(text), "checkpoint": [1]}),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_a_damaged_state_is_told_to_the_job_and_put_aside(tmp_path, damage):
    async def scenario():
        async with Lab(tmp_path, 1) as lab:
            await lab.start()
            await lab.restored()
            await lab.replicate(1)
            await lab.kill(0)
            state = lab.local(0) / ".stowplan" / "state.json"
            damaged = damage(state.read_bytes())
            damaged = damaged.encode() if isinstance(damaged, str) else damaged
            state.write_bytes(damaged)
            await lab.start(0)
            assert "the agent's state is damaged and was put aside" in lab.errors(0)
            assert "until replicator.yaml is written again" in lab.errors(0)
            assert state.with_name("state.json.damaged").read_bytes() == damaged
            await lab.kill(0)
            await lab.start(0)
            assert lab.errors(0).count("damaged") == 1  # told once
            assert await lab.restored() == 1  # nothing was lost with it
            await lab.replicate(2)

    go(scenario())


def test_directories_in_place_of_the_agents_files_are_replaced(tmp_path):
    async def scenario():
        async with Lab(tmp_path, 1) as lab:
            local = lab.local(0)
            (local / ".stowplan" / "state.json" / "x").mkdir(parents=True)
            await lab.start()
            assert "the agent's state is damaged" in lab.errors(0)
            (local / "replicator.failed" / "x").mkdir(parents=True)
            (local / "replicator.yaml.tmp").write_text("x: [")
            (local / "replicator.yaml.tmp").rename(local / "replicator.yaml")
            await lab.until((local / "replicator.failed").is_file, "the refusal")
            assert "replicator.yaml:2:1:" in lab.failed(0)
            await lab.until(lambda: not (local / "replicator.yaml").exists(), "consumption")
            await lab.restored()
            state = local / ".stowplan" / "state.json"
            state.unlink()
            (state / "x").mkdir(parents=True)
            (local / "replicator.errors").unlink(missing_ok=True)
            (local / "replicator.errors" / "x").mkdir(parents=True)
            await lab.replicate(1)
            assert state.is_file()
            lab.agents[0].reports.error("heard")
            assert lab.errors(0) == "heard\n"

    go(scenario())


def test_backups_without_a_location_are_told_once_a_start(tmp_path):
    async def scenario():
        async with Lab(tmp_path) as lab:
            lab.options = [{"storage": None}, {"storage": None}]
            await lab.start()
            for step in (1, 2, 3):
                if step in (1, 3):
                    await lab.restored(backup_interval_steps=1, backup_interval_minutes=None)
                await lab.replicate(step)
                await lab.until(
                    lambda: all("no backup location" in lab.errors(i) for i in range(2)), "it"
                )
                await asyncio.sleep(0.3)
                for index in range(2):
                    assert lab.errors(index).count("no backup location (--backup)") == 1

    go(scenario())


@pytest.mark.parametrize("kind", ["pipe", "directory"])
def test_a_configuration_that_is_no_file_is_refused_and_consumed(tmp_path, kind):
    async def scenario():
        async with Lab(tmp_path, 1) as lab:
            await lab.start()
            path = lab.local(0) / "replicator.yaml"
            os.mkfifo(path) if kind == "pipe" else path.mkdir()
            await lab.until(lambda: lab.failed(0), "the refusal")
            assert "replicator.yaml: no regular file" in lab.failed(0)
            await lab.until(lambda: not path.exists(), "consumption")

    go(scenario())
