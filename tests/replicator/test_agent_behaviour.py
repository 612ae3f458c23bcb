"""What an agent does beyond the fault table: layouts, limits, clocks, markers."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import re
import sys
import time
import urllib.request
from pathlib import Path

import pytest
import tensorstore
from agent_lab import QUICK, SIZE, Lab, go, tree

from replicator.agent import tier
from replicator.agent.bandwidth import Bandwidth
from replicator.agent.space import NoSpaceError, Space
from replicator.agent.tier import name_backup
from replicator.demo.cluster import finish_save, prepare_save
from replicator.digest import read_content, reference_hash
from replicator.manifest import ShardManifest


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


def write_ocdbt(step: Path, values: dict[str, bytes]) -> None:
    """An OCDBT store as Orbax writes it; data files get random names, so no two are alike."""
    store = tensorstore.KvStore.open(
        {"driver": "ocdbt", "base": {"driver": "file", "path": f"{step}/state/"}}
    ).result()
    for key, value in values.items():
        store.write(key, value).result()


@pytest.mark.parametrize("installed", [True, False])
def test_equal_orbax_values_in_files_that_differ_need_no_copy(tmp_path, installed, monkeypatch):
    """A RAM disk for TPUs has no room for copies (2.2x); without tensorstore the job is told."""
    if not installed:
        monkeypatch.setitem(sys.modules, "tensorstore", None)
    values = {f"w/{i}": bytes([i]) * 300_000 for i in range(3)}

    async def scenario():
        async with Lab(tmp_path) as lab:
            lab.framework = "orbax"
            await lab.start()
            await lab.restored(assume_data_parallelism=2)
            told = "tensorstore is not installed, without which equal Orbax checkpoints"
            assert [told in lab.errors(node) for node in range(2)] == [not installed] * 2
            for node in range(2):
                step = lab.local(node) / "5.tmp"
                step.mkdir()
                write_ocdbt(step, values)
            saved = [tree(lab.local(node) / "5.tmp") for node in range(2)]
            assert saved[0].keys() != saved[1].keys()
            for node in range(2):
                finish_save(lab.local(node), 5)
            await lab.until(lambda: lab.replicated() == 5, "replication")
            data = [len(list(lab.local(node).glob("*.data"))) for node in range(2)]
            assert data == ([1, 1] if installed else [2, 2])
            await lab.wipe(1)
            await lab.start(1)
            assert await lab.restored(assume_data_parallelism=2) == 5
            assert lab.data(1) == saved[0 if installed else 1]

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


def test_a_job_that_is_restarted_before_its_last_node_came_starts_as_a_whole(tmp_path):
    """Released with its old start, a node would leave the others in a run it cannot join again."""

    async def scenario():
        patient = dataclasses.replace(QUICK, join=60.0, settle=15.0)
        async with Lab(tmp_path, 3, timing=patient) as lab:
            await lab.start()
            await lab.restored()
            await lab.replicate(1)
            lab.begin()
            (lab.local(2) / "replicator.yaml").unlink()  # its pod did not come up
            await lab.until(lambda: not (lab.local(0) / "replicator.yaml").exists(), "its start")
            await lab.until(lambda: not (lab.local(1) / "replicator.yaml").exists(), "its start")
            await asyncio.sleep(0.5)
            lab.write_config(0, lab.config(0))
            lab.write_config(2, lab.config(2))
            configs = [lab.local(index) / "replicator.yaml" for index in range(3)]
            await lab.until(lambda: not any(c.exists() for c in configs), "the first new starts")
            await asyncio.sleep(2)
            assert [lab.marker(index) for index in range(3)] == [None] * 3
            lab.write_config(1, lab.config(1))
            assert await lab.wait_restored() == 1
            await lab.replicate(2)

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
