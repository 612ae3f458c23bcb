"""What a start of a job finds in the volume: the protocol's own, other jobs', and other people's."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from agent_lab import Lab, go

from replicator.agent.leftovers import Fate, Kind, clear_config, clear_leftovers, fate
from replicator.digest import read_content, reference_hash

HASH = "D" + "0" * 64
FILE, FOLDER, LINK, FOREIGN, OTHER = (
    Kind.FILE,
    Kind.DIRECTORY,
    Kind.LINK,
    Kind.FOREIGN_LINK,
    Kind.OTHER,
)


@pytest.mark.parametrize(
    ("name", "removed", "aside"),
    [
        ("replicator.failed", {FILE, LINK, FOREIGN, OTHER}, {FOLDER}),
        ("replicator.errors", {FILE, LINK, FOREIGN, OTHER}, {FOLDER}),
        ("replicator.prerestore", {FILE, LINK, FOREIGN, OTHER}, {FOLDER}),
        ("job-s5-n0-w0.restore", {FILE, LINK, FOREIGN, OTHER}, {FOLDER}),
        ("job-s5-n0-w0.save", {FILE, FOLDER, LINK, FOREIGN}, set()),
        ("42", {FOLDER, LINK}, {FOREIGN}),
        ("step=42", {LINK}, {FOREIGN, FOLDER}),
        ("42.tmp", set(), {FOLDER}),
        ("job-s5-n0-w0.save.tmp", set(), {FILE, FOLDER}),
        ("42.orbax-checkpoint-tmp", {FOLDER}, set()),
        ("42.orbax-checkpoint-tmp-1700000000", {FOLDER}, set()),
        ("42.pending", {FOLDER}, set()),
        ("42.pending.3", {FOLDER}, set()),
        ("job-s5-n0-w0.save.pending", {FILE, FOLDER}, set()),
        ("replicator.yaml.tmp", {FILE}, set()),
        ("replicator.failed.0123abcd.tmp", {FILE}, set()),
        ("job-s5-n0-w0.meta.tmp", {FILE}, set()),
        (f"{HASH}.data.tmp", {FILE, FOLDER}, set()),
        ("notes.tmp", set(), set()),
        ("007", set(), set()),
        ("42.pending.txt", set(), set()),
        ("step=42-unfinished", set(), set()),
        ("jax-init-info.txt", set(), set()),
        ("replicator.yaml", set(), set()),
        ("job-s5-n0-w0.meta", set(), set()),
        ("job-s5-n0-w0.manifest", set(), set()),
        (f"{HASH}.data", set(), set()),
        (".stowplan", set(), set()),
    ],
)
def test_a_name_and_a_kind_of_file_decide(name, removed, aside):
    found = {kind: fate(name, kind) for kind in Kind}
    wanted = {
        kind: Fate.REMOVE if kind in removed else Fate.ASIDE if kind in aside else Fate.LEAVE
        for kind in Kind
    }
    assert found == wanted


def test_what_is_somebody_elses_stays_through_starts_and_saves(tmp_path):
    async def scenario():
        async with Lab(tmp_path) as lab:
            local = lab.local(0)
            (local / "mylink").symlink_to("/data/not-mounted-now")
            (local / "notes.tmp").write_text("mine")
            (local / "42").write_text("a file of this name")
            (local / "step=7").mkdir()
            (local / "step=7" / "precious").write_text("x")
            (local / "9").symlink_to("/data/elsewhere")
            await lab.start()
            await lab.restored()
            quarantine = local / ".stowplan" / "quarantine"
            assert (quarantine / "leftover-step=7" / "precious").read_text() == "x"
            assert (quarantine / "leftover-9").readlink() == Path("/data/elsewhere")
            await lab.replicate(1)
            await lab.replicate(2)
            await lab.until(lambda: not list(quarantine.iterdir()), "the quarantine's release")
            await lab.replicate(3)
            assert (local / "mylink").readlink() == Path("/data/not-mounted-now")
            assert (local / "notes.tmp").read_text() == "mine"
            assert (local / "42").read_text() == "a file of this name"

    go(scenario())


def test_a_job_that_fails_while_it_saves_does_not_fill_the_memory(tmp_path):
    async def scenario():
        async with Lab(tmp_path, 1) as lab:
            local = lab.local(0)
            await lab.start()
            for step in (5, 5, 6):
                (local / f"step={step}").mkdir()
                (local / f"step={step}" / "half").write_bytes(bytes(1000))
                await lab.restored()
                aside = [entry.name for entry in (local / ".stowplan" / "quarantine").iterdir()]
                assert aside == [f"leftover-step={step}"]

    go(scenario())


@pytest.mark.parametrize("other_job", [False, True])
def test_what_our_client_left_half_written_is_cleared(tmp_path, other_job):
    async def scenario():
        async with Lab(tmp_path, 1) as lab:
            await lab.start()
            await lab.restored()
            await lab.replicate(4)
            local = lab.local(0)
            for name in ("5.pending", "6.pending.1"):
                (local / name).mkdir()
                (local / name / "big").write_bytes(bytes(100_000))
            (local / "job-s5-n0-w0.save.pending").write_bytes(bytes(100_000))
            await lab.restored(**({"job_name": "other"} if other_job else {}))
            assert [entry.name for entry in local.iterdir() if "pending" in entry.name] == []

    go(scenario())


@pytest.mark.parametrize("name", ["step=1", "1", "job-s1-n0-w0.restore"])
def test_a_restore_link_under_any_name_goes_with_its_data(tmp_path, name):
    async def scenario():
        async with Lab(tmp_path) as lab:
            await lab.start()
            await lab.restored()
            await lab.replicate(1)
            await lab.restored()
            local, marker = lab.local(0), lab.marker(0)
            assert marker is not None
            marker.rename(local / name)
            (local / "elsewhere").symlink_to((local / name).readlink())
            await lab.replicate(2)
            await lab.replicate(3)
            await lab.until(lambda: not (local / name).is_symlink(), "the dangling link to go")
            assert (local / "elsewhere").is_symlink(), "not a name of the protocol"

    go(scenario())


def reference_data(local: Path, content: bytes) -> str:
    """Data as the public reference names it; returns its hash, for a `.meta`."""
    save = local / "written"
    save.mkdir()
    (save / "x").write_bytes(content)
    stored = reference_hash(read_content(save))
    save.rename(local / f"{stored}.data")
    return stored


def test_the_reference_data_of_another_job_is_kept_aside_and_released(tmp_path):
    async def scenario():
        async with Lab(tmp_path) as lab:
            local = lab.local(0)
            stored = reference_data(local, b"1" * 5000)
            (local / "old-s12-n0-w0.meta").write_text(stored)
            (local / "old-s11-n0-w0.meta").write_text("no hash")
            await lab.start()
            assert await lab.restored() is None
            quarantine = local / ".stowplan" / "quarantine"
            (data,) = quarantine.glob("*.data")
            assert (data / "x").read_bytes() == b"1" * 5000
            assert {entry.name for entry in quarantine.glob("*.meta")} == {
                "old-s11-n0-w0.meta",
                "old-s12-n0-w0.meta",
            }
            assert not list(local.glob("old-*"))
            await lab.replicate(1)
            await lab.until(lambda: not list(quarantine.iterdir()), "the quarantine's release")

    go(scenario())


@pytest.mark.parametrize("framework", ["orbax", "pytorch.distributed"])
def test_the_reference_data_that_cannot_be_verified_is_kept_aside_and_told(
    tmp_path, monkeypatch, framework
):
    """For Orbax's that needs tensorstore, which not every image of the agent has."""
    monkeypatch.setitem(sys.modules, "tensorstore", None)

    async def scenario():
        async with Lab(tmp_path) as lab:
            lab.framework = framework
            for node in range(2):
                data = lab.local(node) / f"{HASH}.data"
                (data / "ocdbt").mkdir(parents=True)
                (data / "ocdbt" / "manifest.ocdbt").write_bytes(b"x")
                (lab.local(node) / f"job-s12-n{node}-w0.meta").write_text(HASH)
            await lab.start()
            assert await lab.restored() is None
            for node in range(2):
                told = lab.errors(node)
                assert f"step 12 of node {node} worker 0, which another replicator left" in told
                reason = "its content hashes to D"
                assert ("tensorstore is not installed" if framework == "orbax" else reason) in told
                assert len(list(lab.local(node).glob(".stowplan/quarantine/*.data"))) == 1

    go(scenario())


def test_the_reference_data_that_this_job_has_too_stays(tmp_path):
    async def scenario():
        async with Lab(tmp_path, 1) as lab:
            local = lab.local(0)
            stored = reference_data(local, b"1" * 5000)
            for job in ("old", "job"):
                (local / f"{job}-s12-n0-w0.meta").write_text(stored)
            await lab.start()
            assert await lab.restored() == 12
            assert lab.data(0) == {"x": b"1" * 5000}

    go(scenario())


def test_a_directory_called_as_the_configuration_costs_nothing_that_a_start_put_aside(
    tmp_path: Path,
) -> None:
    root, quarantine = tmp_path / "volume", tmp_path / "aside"
    quarantine.mkdir()
    (root / "step=7").mkdir(parents=True)
    clear_leftovers(root, quarantine)
    for content in ("older", "newer"):
        (root / "replicator.yaml").mkdir()
        (root / "replicator.yaml" / "x").write_text(content)
        clear_config(root / "replicator.yaml", quarantine)
    assert {entry.name for entry in quarantine.iterdir()} == {
        "leftover-step=7",
        "leftover-replicator.yaml",
    }
    assert (quarantine / "leftover-replicator.yaml" / "x").read_text() == "newer"
