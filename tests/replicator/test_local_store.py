"""One node's volume: what it takes, keeps aside, promises and forgets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from replicator.agent.files import remove
from replicator.agent.store import LocalStore, StoreError
from replicator.config import ReplicatorConfig, parse_config
from replicator.core.model import CheckpointId, Content, Key, ShardId
from replicator.manifest import ShardManifest

CONFIG = parse_config(
    b"job-name: job\nframework: pytorch.distributed\nnode-rank: 0\nnodes: 2\npeers-per-node: 1\n"
    b"backup-interval-minutes: 30\n"
)


def at(step: int, run: int = 1) -> CheckpointId:
    return CheckpointId(run, step)


def own(step: int, run: int = 1) -> Key:
    return Key(at(step, run), ShardId(0, 0))


@pytest.fixture
def store(tmp_path: Path):
    made = LocalStore(tmp_path)
    made.prepare()
    yield made
    made.close()


def write(store: LocalStore, step: int, content: bytes = b"data") -> None:
    (store.root / str(step)).mkdir()
    (store.root / str(step) / "file").write_bytes(content)


def save(store: LocalStore, checkpoint: CheckpointId, content: bytes = b"data") -> Content:
    write(store, checkpoint.step, content)
    return store.seal(CONFIG, checkpoint)[0]


def copies(store: LocalStore, config: ReplicatorConfig = CONFIG) -> set[Key]:
    return {Key(copy.checkpoint, copy.shard) for copy in store.load(config)}


def data(store: LocalStore) -> list[Path]:
    return sorted(store.root.glob("*.data"))


# ---- saves -------------------------------------------------------------------------------------


def test_a_rejected_save_is_kept_in_place_of_the_one_rejected_before(store):
    for step in (3, 4):
        write(store, step, b"%d" % step)
        store.reject(CONFIG, step)
    (aside,) = store.quarantine.iterdir()
    assert (aside / "file").read_bytes() == b"4"
    write(store, 5)
    store.claim(CONFIG, 5)  # it was being taken
    store.reject(CONFIG, 5)
    assert [entry.name for entry in store.quarantine.iterdir()] == ["rejected-job-s5-n0-w0.save"]


def test_two_equal_saves_are_stored_once_and_deleted_with_the_last(store):
    save(store, at(1))
    save(store, at(2))
    assert len(data(store)) == 1
    assert copies(store) == {own(1), own(2)}
    assert [path for path in store.delete([own(1)]) if path.exists()] == []
    assert store.verify(own(2)) == ""
    (trash,) = store.delete([own(2)])
    assert trash.exists()
    assert data(store) == []


def test_a_step_directory_that_is_a_link_is_no_save(store, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (store.root / "7").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="a link"):
        store.seal(CONFIG, at(7))
    assert (tmp_path / "elsewhere").is_dir()


def test_a_save_that_an_agent_died_in_is_taken_again(store):
    """The record is there, the last rename was not made."""
    content = save(store, at(1))
    (path,) = data(store)
    path.rename(store.root / "job-s1-n0-w0.save")
    assert copies(store) == set()
    assert not list(store.root.glob("*.manifest"))
    assert store.seal(CONFIG, at(1))[0] == content


# ---- copies ------------------------------------------------------------------------------------


def incoming(store: LocalStore, content: bytes) -> Path:
    place = store.scratch()
    place.mkdir()
    (place / "file").write_bytes(content)
    return place


def test_a_copy_replaces_data_of_its_name_that_no_record_vouches_for(store):
    save(store, at(1))
    manifest = store.records[own(1)]
    store.delete([own(1)])
    leftover = store.data_path(manifest)
    leftover.mkdir()
    (leftover / "file").write_bytes(b"torn")
    store.keep(own(1), manifest, incoming(store, b"data"), 2)
    assert store.verify(own(1)) == ""


def test_a_second_copy_of_the_same_data_takes_no_room(store):
    save(store, at(1))
    other = Key(at(1), ShardId(1, 0))
    store.keep(other, store.records[own(1)], incoming(store, b"data"), 2)
    assert len(data(store)) == 1
    assert list(store.incoming.iterdir()) == []
    assert copies(store) == {own(1), other}


def test_only_data_that_this_process_has_hashed_counts_as_verified(store):
    stored = save(store, at(1)).manifest
    assert store.was_verified(stored)
    store.load(CONFIG)  # another start: bytes may have changed since
    assert not store.was_verified(stored)
    (data(store)[0] / "file").write_bytes(b"DATA")
    assert "content" in (store.verify(own(1)) or "")
    assert not store.was_verified(stored)
    (data(store)[0] / "file").write_bytes(b"data")
    assert store.verify(own(1)) == ""
    assert store.was_verified(stored)
    store.delete([own(1)])
    assert not store.was_verified(stored)


def test_nothing_is_recorded_under_another_name_where_its_data_has_gone(store):
    content = save(store, at(1))
    other = Key(at(1), ShardId(1, 0))
    remove(data(store)[0])
    assert store.alias(other, content, 2) is False
    assert store.alias(other, replace_manifest(content, "D" + "0" * 64), 2) is False
    assert other not in store.records


def replace_manifest(content: Content, manifest: str) -> Content:
    return content._replace(manifest=manifest)


def test_a_copy_of_another_world_size_says_so(store):
    save(store, at(1))
    store.keep(Key(at(1), ShardId(1, 0)), store.records[own(1)], incoming(store, b"data"), 4)
    worlds = {copy.shard.rank: copy.world for copy in store.load(CONFIG)}
    assert worlds == {0: 2, 1: 4}


# ---- what goes, and what is kept aside ---------------------------------------------------------


def test_what_is_put_aside_keeps_its_data_and_its_record(store):
    save(store, at(1), b"precious")
    store.put_aside([own(1)])
    (folder,) = store.quarantine.glob("*.data")
    assert (folder / "file").read_bytes() == b"precious"
    record = ShardManifest.from_bytes(folder.with_suffix(".manifest").read_bytes())
    assert record.step == 1
    assert copies(store) == set()
    assert not list(store.root.glob("*.meta"))


def test_the_meta_of_a_step_names_the_run_that_is_left(store):
    """The same step of two runs goes by one `.meta`."""
    first = save(store, at(1, run=1), b"one")
    second = save(store, at(1, run=2), b"two")
    meta = store.root / "job-s1-n0-w0.meta"
    assert meta.read_text() == second.manifest
    store.delete([own(1, run=2)])
    assert meta.read_text() == first.manifest
    store.delete([own(1, run=1)])
    assert not meta.exists()


def test_a_record_under_the_name_of_another_shard_is_none(store):
    save(store, at(1))
    record = next(store.root.glob("*.manifest"))
    record.rename(store.root / "job-s1-n1-w0.e1.manifest")
    assert copies(store) == set()


# ---- the volume --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [".stowplan", ".stowplan/incoming", ".stowplan/quarantine"])
def test_a_link_in_place_of_a_folder_of_ours_is_refused(tmp_path, name):
    volume, elsewhere = tmp_path / "volume", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "theirs").touch()
    path = volume / name
    path.parent.mkdir(parents=True)
    path.symlink_to(elsewhere)
    with pytest.raises(StoreError, match="is a link"):
        LocalStore(volume).prepare()
    assert [entry.name for entry in elsewhere.iterdir()] == ["theirs"]


def test_what_a_crash_left_half_way_is_cleared(store):
    incoming(store, b"half")
    (store.private / "state.tmp").touch()
    store.close()
    again = LocalStore(store.root)
    again.prepare()
    assert list(again.incoming.iterdir()) == []
    assert not (store.private / "state.tmp").exists()
    again.close()


def test_a_job_uid_does_not_change_what_data_is_called(store):
    stored = save(store, at(1)).manifest
    (again,) = store.seal(replace(CONFIG, job_uid="run-2"), written(store, at(2)))
    assert again.manifest == stored


def written(store: LocalStore, checkpoint: CheckpointId) -> CheckpointId:
    write(store, checkpoint.step)
    return checkpoint
