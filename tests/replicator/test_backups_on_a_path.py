from __future__ import annotations

import asyncio
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from backup_cases import NAME, make_shard, manifest_of, seal_of, store_backup, tree_of

from replicator import backups as backups_module
from replicator.backup_seal import BackupSeal
from replicator.backups import BackupIncompleteError, BackupNotFoundError, JobBackups
from replicator.content import DataError
from replicator.digest import verify
from replicator.errors import ManifestError, ProtocolError
from replicator.storage import (
    PART_BYTES,
    ObjectStorage,
    StorageConfigError,
    StorageError,
    StoredDataError,
    part_size,
)

FIXTURES = Path(__file__).parent / "fixtures" / "reference"


def open_at(path: Path, job: str = "job") -> JobBackups:
    return JobBackups(ObjectStorage.open(f"file://{path}"), job)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "bucket"


def test_a_backup_comes_back_byte_for_byte(store: Path, tmp_path: Path) -> None:
    async def scenario() -> None:
        backups = open_at(store)
        manifests = await store_backup(backups, tmp_path)
        assert await backups.names() == (NAME,)
        index = await backups.index(NAME)
        assert index.complete, index.problems
        step = index.newest_complete
        assert step is not None
        assert (step.step, step.nodes, step.workers_per_node, step.epoch) == (3, 2, 1, 1)
        assert step.size == sum(m.total_size for m in manifests)
        assert await backups.verify(NAME, step) == ()
        for rank, manifest in enumerate(manifests):
            target = tmp_path / f"restored-{rank}"
            shard = await backups.download_shard(NAME, step, rank, 0, target)
            assert shard.manifest == manifest
            assert verify(target, manifest) == ()
            assert tree_of(target) == tree_of(tmp_path / NAME / f"shard-3-{rank}")

    asyncio.run(scenario())


def test_the_layout_is_the_references(store: Path, tmp_path: Path) -> None:
    """Same names at the same places as in the recorded backup, beside our own files."""
    asyncio.run(store_backup(open_at(store), tmp_path))
    ours = store / "job" / NAME
    theirs = next((FIXTURES / "fixture-torch").iterdir())
    own = {"backup.format", "backup.seal"}
    names = [p.name for p in ours.iterdir() if p.suffix != ".manifest" and p.name not in own]
    expected = [p.name.replace("fixture-torch", "job") for p in theirs.iterdir()]
    assert sorted(n for n in names if n.endswith(".meta")) == sorted(
        n for n in expected if n.endswith(".meta")
    )
    for rank in range(2):
        stored = (ours / f"job-s3-n{rank}-w0.meta").read_text()
        assert len(stored) == 65
        assert (ours / f"{stored}.data" / f"__{rank}_0.distcp").is_file()
        recorded = (theirs / f"fixture-torch-s3-n{rank}-w0.meta").read_text()
        assert (theirs / f"{recorded}.data" / f"__{rank}_0.distcp").is_file()


def test_nothing_half_way_looks_complete(store: Path, tmp_path: Path) -> None:
    async def scenario() -> None:
        backups = open_at(store)
        shards = [make_shard(tmp_path, rank) for rank in range(2)]
        manifests = [manifest_of(shard, rank) for rank, shard in enumerate(shards)]
        for shard, manifest in zip(shards, manifests, strict=True):
            await backups.put_shard(NAME, manifest, shard)
            index = await backups.index(NAME)
            assert not index.complete
            assert "not sealed" in index.problems[0]
            assert not list((store / "job" / NAME).glob("*.meta")), "the reference would see it"
        await backups.seal(NAME, seal_of(manifests))
        assert (await backups.index(NAME)).complete
        await backups.seal(NAME, seal_of(manifests))
        assert (await backups.index(NAME)).complete

    asyncio.run(scenario())


def test_a_seal_over_a_missing_shard_is_refused(store: Path, tmp_path: Path) -> None:
    async def scenario() -> None:
        backups = open_at(store)
        shards = [make_shard(tmp_path, rank) for rank in range(2)]
        manifests = [manifest_of(shard, rank) for rank, shard in enumerate(shards)]
        await backups.put_shard(NAME, manifests[0], shards[0])
        with pytest.raises(BackupIncompleteError, match="has no manifest"):
            await backups.seal(NAME, seal_of(manifests))
        assert not (store / "job" / NAME / "backup.seal").exists()
        assert not list((store / "job" / NAME).glob("*.meta"))

    asyncio.run(scenario())


def test_shards_of_two_runs_are_never_sealed_together(store: Path, tmp_path: Path) -> None:
    async def scenario() -> None:
        backups = open_at(store)
        shards = [make_shard(tmp_path, rank) for rank in range(2)]
        old, new = manifest_of(shards[0], 0, epoch=1), manifest_of(shards[1], 1, epoch=2)
        await backups.put_shard(NAME, old, shards[0])
        await backups.put_shard(NAME, new, shards[1])
        for seal in (seal_of([old, new]), seal_of([new, old])):
            with pytest.raises(BackupIncompleteError, match="belongs to"):
                await backups.seal(NAME, seal)

    asyncio.run(scenario())


def test_replicas_share_data_that_one_of_them_stores(store: Path, tmp_path: Path) -> None:
    async def scenario() -> None:
        backups = open_at(store)
        shard = make_shard(tmp_path, 1)
        manifest = manifest_of(shard, 1)
        await backups.put_shard(NAME, manifest, shard)
        stored = manifest.storage_name
        shared = replace(seal_of([manifest, manifest_of(shard, 0)]))
        assert shared.shards == {(0, 0): stored, (1, 0): stored}
        await backups.seal(NAME, shared)
        step = (await backups.index(NAME)).newest_complete
        assert step is not None
        assert step.size == manifest.total_size
        await backups.download_shard(NAME, step, 0, 0, tmp_path / "r0")
        assert tree_of(tmp_path / "r0") == tree_of(shard)

    asyncio.run(scenario())


def damage_truncate(data: Path) -> None:
    path = next(data.glob("*.distcp"))
    path.write_bytes(path.read_bytes()[:-1])


def damage_flip(data: Path) -> None:
    path = next(data.glob("*.distcp"))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


def damage_remove(data: Path) -> None:
    next(data.glob("*.distcp")).unlink()


@pytest.mark.parametrize("damage", [damage_truncate, damage_remove])
def test_lost_bytes_make_a_backup_incomplete(store: Path, tmp_path: Path, damage: object) -> None:
    async def scenario() -> None:
        backups = open_at(store)
        manifests = await store_backup(backups, tmp_path)
        damage(store / "job" / NAME / f"{manifests[1].storage_name}.data")  # type: ignore[operator]
        index = await backups.index(NAME)
        assert not index.complete
        assert "1 of 3 files are not as saved" in index.problems[0]
        with pytest.raises(BackupIncompleteError, match="not as saved"):
            await backups.force_restore(NAME)
        assert not (store / "job" / "restore.version").exists()

    asyncio.run(scenario())


def test_a_flipped_byte_is_found_by_verify_and_never_restored(store: Path, tmp_path: Path) -> None:
    async def scenario() -> None:
        backups = open_at(store)
        manifests = await store_backup(backups, tmp_path)
        damage_flip(store / "job" / NAME / f"{manifests[1].storage_name}.data")
        index = await backups.index(NAME)
        assert index.complete, "sizes alone cannot tell"
        step = index.newest_complete
        assert step is not None
        (problem,) = await backups.verify(NAME, step)
        assert "__1_0.distcp: BLAKE3" in problem
        await backups.download_shard(NAME, step, 0, 0, tmp_path / "good")
        with pytest.raises(StoredDataError, match="BLAKE3") as caught:
            await backups.download_shard(NAME, step, 1, 0, tmp_path / "bad")
        assert not caught.value.transient
        assert not caught.value.missing

    asyncio.run(scenario())


@pytest.mark.parametrize("name", ["backup.seal", "job-s3-n1-w0.manifest", "job-s3-n1-w0.meta"])
@pytest.mark.parametrize("how", ["remove", "damage"])
def test_a_lost_or_damaged_small_file_makes_a_backup_incomplete(
    store: Path, tmp_path: Path, name: str, how: str
) -> None:
    async def scenario() -> None:
        backups = open_at(store)
        await store_backup(backups, tmp_path)
        path = store / "job" / NAME / name
        if how == "remove":
            path.unlink()
        else:
            path.write_bytes(path.read_bytes().replace(b"a", b"b").replace(b"1", b"2"))
        index = await backups.index(NAME)
        assert not index.complete
        assert index.problems

    asyncio.run(scenario())


@pytest.mark.parametrize("name", ["backup.seal", "job-s3-n1-w0.manifest", "job-s3-n1-w0.meta"])
def test_a_small_file_that_is_huge_is_a_problem_of_its_backup_only(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("replicator.backups.MAX_MANIFEST_BYTES", 100_000)

    async def scenario() -> None:
        backups = open_at(store)
        await store_backup(backups, tmp_path, name="2026-11-30_08-00", step=1)
        await store_backup(backups, tmp_path)
        (store / "job" / NAME / name).write_bytes(b"x" * 200_000)
        assert not (await backups.index(NAME)).complete
        found = await backups.newest_complete()
        assert found is not None
        assert found[0].name == "2026-11-30_08-00"

    asyncio.run(scenario())


def test_the_manifest_of_another_shard_is_no_manifest(store: Path, tmp_path: Path) -> None:
    async def scenario() -> None:
        backups = open_at(store)
        await store_backup(backups, tmp_path)
        folder = store / "job" / NAME
        shutil.copy(folder / "job-s3-n0-w0.manifest", folder / "job-s3-n1-w0.manifest")
        index = await backups.index(NAME)
        assert any("manifest of another shard" in problem for problem in index.problems)

    asyncio.run(scenario())


def test_an_incomplete_backup_is_passed_over_for_the_one_before(
    store: Path, tmp_path: Path
) -> None:
    async def scenario() -> None:
        backups = open_at(store)
        await store_backup(backups, tmp_path, name="2026-11-30_08-00", step=1)
        await store_backup(backups, tmp_path, name="2026-11-30_09-00", step=2)
        (store / "job" / "2026-11-30_09-00" / "backup.seal").unlink()
        (store / "job" / "not-a-backup").mkdir()
        found = await backups.newest_complete()
        assert found is not None
        assert (found[0].name, found[1].step) == ("2026-11-30_08-00", 1)
        assert await open_at(store, "other").newest_complete() is None

    asyncio.run(scenario())


def test_local_data_that_changed_since_its_manifest_is_not_backed_up(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(size: int) -> None:
        backups = open_at(store)
        shard = make_shard(tmp_path / str(size), 0, size=size)
        manifest = manifest_of(shard, 0)
        damage_flip(shard)
        with pytest.raises(StoredDataError, match="changed since its manifest"):
            await backups.put_shard(NAME, manifest, shard)
        assert not list((store / "job" / NAME).glob("*.manifest"))
        assert not list((store / "job" / NAME).glob("*.data/*.distcp"))

    monkeypatch.setattr("replicator.storage.PART_BYTES", 6 * 1024 * 1024)
    for size in (2000, 20 * 1024 * 1024):
        asyncio.run(scenario(size))


def test_a_file_of_several_parts_comes_back(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("replicator.storage.PART_BYTES", 1024 * 1024)
    moved = []

    async def throttle(count: int) -> None:
        moved.append(count)

    async def scenario() -> None:
        backups = JobBackups(ObjectStorage.open(f"file://{store}", throttle=throttle), "job")
        (manifest, _) = await store_backup(backups, tmp_path, size=3_500_000)
        step = (await backups.index(NAME)).newest_complete
        assert step is not None
        moved.clear()
        await backups.download_shard(NAME, step, 0, 0, tmp_path / "r")
        assert sum(moved) == manifest.total_size
        assert verify(tmp_path / "r", manifest) == ()

    asyncio.run(scenario())


@pytest.mark.parametrize("job", ["fixture-files", "fixture-torch", "fixture-orbax"])
def test_a_backup_of_the_reference_restores(job: str, tmp_path: Path) -> None:

    async def scenario() -> None:
        backups = open_at(FIXTURES, job)
        (name,) = await backups.names()
        workers = 2 if job == "fixture-files" else 1
        index = await backups.index(name, nodes=2, workers_per_node=workers)
        assert index.complete, index.problems
        assert not index.ours
        step = index.newest_complete
        assert step is not None
        assert step.step == (7 if job == "fixture-orbax" else 3)
        assert len(step.shards) == 2 * workers
        assert await backups.verify(name, step) == ()
        for rank, worker in step.shards:
            target = tmp_path / f"{rank}-{worker}"
            shard = await backups.download_shard(name, step, rank, worker, target)
            assert shard.manifest is None
            source = FIXTURES / job / name / f"{step.shards[rank, worker]}.data"
            if source.is_dir():
                assert tree_of(target) == tree_of(source)
            else:
                assert target.read_bytes() == source.read_bytes()
        assert (await backups.index(name)).complete, "world size taken from the ranks found"

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("nodes", "expected"), [(1, "is there, but the job has 1 nodes"), (3, "1 of 3 shards are miss")]
)
def test_a_backup_of_the_reference_of_another_world_size_is_not_complete(
    nodes: int, expected: str
) -> None:
    async def scenario() -> None:
        backups = open_at(FIXTURES, "fixture-torch")
        (name,) = await backups.names()
        index = await backups.index(name, nodes=nodes, workers_per_node=1)
        assert expected in index.problems[0]

    asyncio.run(scenario())


@pytest.mark.parametrize("job", ["fixture-files", "fixture-torch"])
def test_damage_in_a_backup_of_the_reference_is_found(
    job: str, store: Path, tmp_path: Path
) -> None:
    async def scenario() -> None:
        shutil.copytree(FIXTURES / job, store / job)
        backups = open_at(store, job)
        (name,) = await backups.names()
        data = sorted((store / job / name).glob("*.data"))[0]
        victim = next(data.glob("*.distcp")) if data.is_dir() else data
        victim.write_bytes(victim.read_bytes()[:-1] + b"?")
        step = (await backups.index(name)).newest_complete
        assert step is not None
        (problem,) = await backups.verify(name, step)
        assert "its content hashes to" in problem
        key = next(k for k, stored in step.shards.items() if data.name.startswith(stored))
        with pytest.raises(StoredDataError, match="its content hashes to"):
            await backups.download_shard(name, step, *key, tmp_path / "x")
        if data.is_dir():
            shutil.rmtree(data)
        else:
            data.unlink()
        assert "is missing" in (await backups.index(name)).problems[0]

    asyncio.run(scenario())


def test_restore_version_is_written_only_for_a_complete_backup(store: Path, tmp_path: Path) -> None:
    async def scenario() -> None:
        backups = open_at(store)
        await store_backup(backups, tmp_path)
        assert await backups.read_restore_version() is None
        for unknown in ("2020-01-01_00-00", "../x", ""):
            with pytest.raises(BackupNotFoundError):
                await backups.force_restore(unknown)
        assert await backups.read_restore_version() is None
        assert (await backups.force_restore(NAME)).step == 3
        assert (store / "job" / "restore.version").read_bytes() == NAME.encode()
        assert await backups.read_restore_version() == NAME
        assert not await backups.clear_restore_version("2020-01-01_00-00")
        assert await backups.read_restore_version() == NAME
        assert await backups.clear_restore_version(NAME)
        assert not await backups.clear_restore_version(NAME)
        (store / "job" / "restore.version").write_text("latest")
        with pytest.raises(ProtocolError, match="found 'latest'"):
            await backups.read_restore_version()

    asyncio.run(scenario())


def test_a_backup_deleted_half_way_never_looks_complete(store: Path, tmp_path: Path) -> None:
    class StopError(Exception):
        pass

    async def scenario() -> None:
        backups = open_at(store)
        await store_backup(backups, tmp_path)
        storage = backups._storage
        count = len(await storage.list("job"))
        delete = storage.delete
        for survivors in range(count - 1, 0, -1):

            async def one_then_stop(paths: object) -> None:
                for path in paths:  # type: ignore[attr-defined]
                    await delete([path])
                    raise StopError

            storage.delete = one_then_stop  # type: ignore[method-assign, assignment]
            with pytest.raises(StopError):
                await backups.delete(NAME)
            assert len(await storage.list("job")) == survivors
            assert not (await backups.index(NAME)).complete
        storage.delete = delete  # type: ignore[method-assign]
        await backups.delete(NAME)
        await backups.delete(NAME)
        assert await storage.list("job") == {}

    asyncio.run(scenario())


def test_names_that_would_leave_the_job_are_refused(store: Path, tmp_path: Path) -> None:
    with pytest.raises(ProtocolError):
        open_at(store, "../other")

    async def scenario() -> None:
        backups = open_at(store)
        shard = make_shard(tmp_path, 0)
        manifest = manifest_of(shard, 0)
        with pytest.raises(ProtocolError):
            await backups.put_shard("../x", manifest, shard)
        with pytest.raises(ProtocolError):
            await backups.put_shard(NAME, replace(manifest, job_name="other"), shard)
        with pytest.raises(ProtocolError):
            await backups.delete("..")
        with pytest.raises(BackupNotFoundError):
            await backups.index("..")

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "change",
    [
        {"nodes": 3},
        {"step": -1},
        {"job_name": "../x"},
        {"shards": {(0, 0): "x", (1, 0): "y"}},
        {"shards": {(0, 0): "a" * 64, (2, 0): "a" * 64}},
    ],
)
def test_a_seal_that_cannot_be_is_refused(change: dict[str, object]) -> None:
    good = BackupSeal("job", None, 1, 3, 2, 1, {(0, 0): "a" * 64, (1, 0): "D" + "b" * 64})
    assert BackupSeal.from_bytes(good.to_bytes()) == good
    with pytest.raises(ManifestError):
        replace(good, **change)  # type: ignore[arg-type]
    with pytest.raises(ManifestError):
        BackupSeal.from_bytes(good.to_bytes().replace(b'"step":3', b'"step":4'))


@pytest.mark.parametrize(
    "url",
    [
        "/just/a/path",
        "ftp://x/y",
        "file://host/x",
        "file:relative",
        "s3://",
        "s3://b?x=1",
        "gs://u:p@b",
    ],
)
def test_an_unusable_url_is_a_clear_error(url: str) -> None:
    with pytest.raises(StorageConfigError):
        ObjectStorage.open(url)


def test_an_object_of_any_size_fits_into_the_parts_that_stores_take() -> None:
    for size in (0, 1, PART_BYTES * 9000, PART_BYTES * 9000 + 1, 5 * 2**40):
        assert part_size(size) >= PART_BYTES
        assert -(-size // part_size(size)) <= 10_000


def test_a_path_that_is_only_read_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(StorageConfigError, match="no such directory"):
        ObjectStorage.open(f"file://{tmp_path}/typo", create=False)
    assert not (tmp_path / "typo").exists()


def test_an_unusable_path_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageConfigError):
        ObjectStorage.open(f"file://{tmp_path}/file/below")


def test_a_file_where_a_folder_must_be_is_a_storage_error(store: Path, tmp_path: Path) -> None:
    async def scenario() -> None:
        backups = open_at(store)
        (store / "job").write_bytes(b"")
        shard = make_shard(tmp_path, 0)
        with pytest.raises(StorageError, match="cannot write") as caught:
            await backups.put_shard(NAME, manifest_of(shard, 0), shard)
        assert caught.value.transient

    asyncio.run(scenario())


def test_a_folder_swapped_for_a_link_while_downloading_is_not_followed(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    target = tmp_path / "r"

    async def scenario() -> None:
        backups = open_at(store)
        await store_backup(backups, tmp_path)
        step = (await backups.index(NAME)).newest_complete
        assert step is not None
        make = backups_module.make_folders

        def make_then_swap(root: Path, names: set[str]) -> None:
            make(root, names)
            (root / "sub").rmdir()
            (root / "sub").symlink_to(outside)

        monkeypatch.setattr(backups_module, "make_folders", make_then_swap)
        with pytest.raises(DataError, match="symbolic link"):
            await backups.download_shard(NAME, step, 0, 0, target)
        assert list(outside.iterdir()) == []

    asyncio.run(scenario())


def test_an_existing_destination_is_left_alone(store: Path, tmp_path: Path) -> None:
    async def scenario() -> None:
        backups = open_at(store)
        await store_backup(backups, tmp_path)
        step = (await backups.index(NAME)).newest_complete
        assert step is not None
        target = tmp_path / "there"
        target.mkdir()
        (target / "mine").write_bytes(b"1")
        with pytest.raises(FileExistsError):
            await backups.download_shard(NAME, step, 0, 0, target)
        assert tree_of(target) == {"mine": b"1"}

    asyncio.run(scenario())
