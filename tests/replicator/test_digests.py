from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from blake3 import blake3

from replicator import content, digest
from replicator.config import Framework, parse_config
from replicator.digest import (
    DataError,
    MismatchKind,
    OrbaxHashUnavailableError,
    build_manifest,
    data_hash,
    orbax_hash,
    read_content,
    reference_hash,
    verify,
)
from replicator.manifest import ManifestError, ShardManifest
from replicator.protocol import parse_data_name

FIXTURES = Path(__file__).parent / "fixtures" / "reference"
CONFIG = parse_config(
    b"job-name: j\nframework: pytorch.distributed\nnode-rank: 0\nnodes: 2\npeers-per-node: 1\n"
    b"backup-interval-minutes: 30\n"
)


def tree(root: Path, files: dict[str, bytes], empty: tuple[str, ...] = ()) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    for name in empty:
        (root / name).mkdir(parents=True)
    return root


def manifest_of(path: Path) -> ShardManifest:
    content = read_content(path)
    name = data_hash(path, Framework.PYTORCH_DISTRIBUTED, content)
    return build_manifest(content, CONFIG, step=3, worker=0, data_hash=name, epoch=1)


def hexed(data: bytes) -> str:
    return blake3(data).hexdigest()


def recorded(job: str) -> list[Path]:
    return sorted(p for p in FIXTURES.glob(f"{job}/*/*.data"))


@pytest.mark.parametrize("job", ["fixture-files", "fixture-torch"])
@pytest.mark.parametrize("threads", [1, 3])
def test_hashes_recorded_from_the_reference(job: str, threads: int) -> None:
    found = recorded(job)
    assert found
    for path in found:
        assert reference_hash(read_content(path, threads=threads)) == parse_data_name(path.name)


def test_the_orbax_hash_recorded_from_the_reference() -> None:
    (path,) = recorded("fixture-orbax")
    assert orbax_hash(path) == parse_data_name(path.name)
    assert data_hash(path, Framework.ORBAX, read_content(path)) == parse_data_name(path.name)


def test_without_tensorstore_an_orbax_hash_is_a_typed_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(name: str) -> object:
        raise ImportError(name)

    monkeypatch.setattr(digest.importlib, "import_module", missing)
    (path,) = recorded("fixture-orbax")
    with pytest.raises(OrbaxHashUnavailableError, match="extra 'agent-orbax'"):
        orbax_hash(path)


@pytest.mark.parametrize(
    ("size", "at_once"), [(0, 8), (1000, 8), (40 * 2**20, 3), (200 * 2**20, 1)]
)
def test_large_values_are_not_read_ahead(size: int, at_once: int) -> None:
    """Orbax may write an array of gigabytes as one value, and the agent's memory is limited."""
    value = bytes(size)

    class Store:
        """Values that are held from `read` until `result` was taken, and the most at a time."""

        held = most = 0

        def list(self) -> Store:
            return self

        def read(self, key: bytes) -> Store:
            Store.held += 1
            Store.most = max(Store.most, Store.held)
            return self

        def result(self) -> Any:
            if Store.held == 0:
                return [b"%02d" % number for number in range(20)]
            Store.held -= 1
            return SimpleNamespace(value=value)

    names = "".join(f"{b'%02d' % number!s}\t{hexed(value)}\n" for number in range(20))
    assert digest._hash_entries(Store(), 2) == "D" + hexed(names.encode())
    assert (Store.most, Store.held) == (at_once, 0)


def test_a_small_value_after_a_large_one_lets_no_more_be_read_ahead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(digest, "READ_AHEAD_BYTES", 100)
    sizes = {b"%02d" % number: 70 if number == 0 else 1 for number in range(20)}
    reading: list[int] = []
    most = 0

    class Read:
        def __init__(self, size: int) -> None:
            self.size = size

        def result(self) -> Any:
            reading.remove(self.size)
            return SimpleNamespace(value=bytes(self.size))

    class Store:
        def list(self) -> Any:
            return SimpleNamespace(result=lambda: list(sizes))

        def read(self, key: bytes) -> Read:
            nonlocal most
            reading.append(sizes[key])
            most = max(most, len(reading))
            return Read(sizes[key])

    digest._hash_entries(Store(), 1)
    assert (most, reading) == (1, [])


def test_a_step_without_an_ocdbt_store_is_hashed_as_a_directory(tmp_path: Path) -> None:
    root = tree(tmp_path / "7", {"default/x": b"1"})
    content = read_content(root)
    assert orbax_hash(root) is None
    assert data_hash(root, Framework.ORBAX, content) == reference_hash(content)


def test_the_reference_hash_of_nested_and_empty_directories(tmp_path: Path) -> None:
    root = tree(tmp_path / "d", {"a": b"1", "s/b": b"2", "s/t/c": b"3"}, ("e/f",))
    inner = "D" + hexed(hexed(b"3").encode())
    middle = "D" + hexed("\n".join(sorted([hexed(b"2"), inner])).encode())
    empty = "D" + hexed(("D" + hexed(b"")).encode())
    expected = "D" + hexed("\n".join(sorted([hexed(b"1"), middle, empty])).encode())
    assert reference_hash(read_content(root)) == expected


def test_directories_that_differ_in_names_only_share_the_reference_hash_but_no_manifest(
    tmp_path: Path,
) -> None:
    first = tree(tmp_path / "n0", {"__0_0.distcp": b"same"})
    second = tree(tmp_path / "n1", {"__1_0.distcp": b"same"})
    one, two = manifest_of(first), manifest_of(second)
    assert one.data_hash == two.data_hash
    assert one.content_digest != two.content_digest
    assert {m.kind for m in verify(second, one)} == {MismatchKind.MISSING, MismatchKind.UNEXPECTED}


def test_a_large_file_is_hashed_alike_by_any_number_of_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(content, "CHUNK_BYTES", 1000)
    monkeypatch.setattr(content, "PARALLEL_FILE_BYTES", 5000)
    data = os.urandom(12_345)
    root = tree(
        tmp_path / "d", {"large": data, "small": data[:10], "tiny": b"", "exact": data[:1000]}
    )
    for threads in (1, 4):
        hashes = {f.path: (f.size, f.blake3) for f in read_content(root, threads=threads).files}
        assert hashes["large"] == (12_345, hexed(data))
        assert hashes["exact"] == (1000, hexed(data[:1000]))
        assert hashes["tiny"] == (0, hexed(b""))


def test_good_data_verifies(tmp_path: Path) -> None:
    root = tree(tmp_path / "d", {"a": b"1", "s/b": b"22"}, ("e",))
    assert verify(root, manifest_of(root)) == ()
    single = tmp_path / "file"
    single.write_bytes(b"abc")
    assert verify(single, manifest_of(single)) == ()


@pytest.mark.parametrize(
    ("damage", "path", "kind"),
    [
        (lambda root: (root / "s/b").write_bytes(b"23"), "s/b", MismatchKind.CONTENT),
        (lambda root: (root / "s/b").write_bytes(b"2"), "s/b", MismatchKind.SIZE),
        (lambda root: (root / "s/b").write_bytes(b""), "s/b", MismatchKind.SIZE),
        (lambda root: (root / "a").unlink(), "a", MismatchKind.MISSING),
        (lambda root: (root / "new").write_bytes(b""), "new", MismatchKind.UNEXPECTED),
        (lambda root: (root / "e").rmdir(), "e", MismatchKind.MISSING),
        (lambda root: (root / "e2").mkdir(), "e2", MismatchKind.UNEXPECTED),
        (lambda root: (root / "a").rename(root / "A"), "A", MismatchKind.UNEXPECTED),
    ],
)
def test_damage_is_named(tmp_path: Path, damage: object, path: str, kind: MismatchKind) -> None:
    root = tree(tmp_path / "d", {"a": b"1", "s/b": b"22"}, ("e",))
    manifest = manifest_of(root)
    damage(root)  # type: ignore[operator]
    assert (path, kind) in {(m.path, m.kind) for m in verify(root, manifest)}


def test_emptied_missing_and_swapped_data_is_found(tmp_path: Path) -> None:
    root = tree(tmp_path / "d", {"a": b"1", "b": b"2"})
    manifest = manifest_of(root)
    assert len(verify(tree(tmp_path / "empty", {}), manifest)) == 2
    assert verify(tmp_path / "nowhere", manifest)[0].kind is MismatchKind.MISSING
    file = tmp_path / "file"
    file.write_bytes(b"1")
    assert verify(file, manifest)[0].kind is MismatchKind.UNEXPECTED
    single = manifest_of(file)
    assert verify(root, single)[0].kind is MismatchKind.UNEXPECTED
    assert verify(tmp_path / "nowhere", single)[0].kind is MismatchKind.MISSING


def test_links_and_special_files_are_never_checkpoint_data(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"s")
    root = tree(tmp_path / "d", {"a": b"1"})
    manifest = manifest_of(root)
    (root / "link").symlink_to(secret)
    with pytest.raises(DataError, match="symbolic link"):
        read_content(root)
    assert verify(root, manifest)[0].kind is MismatchKind.UNREADABLE
    (root / "link").unlink()
    os.mkfifo(root / "fifo")
    with pytest.raises(DataError, match="not a regular file"):
        read_content(root)
    outside = tmp_path / "outside"
    outside.symlink_to(root)
    with pytest.raises(DataError, match="symbolic link"):
        read_content(outside)
    assert verify(outside, manifest)[0].kind is MismatchKind.UNREADABLE


def test_a_file_swapped_for_a_link_between_listing_and_reading_is_refused(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"s")
    link = tmp_path / "link"
    link.symlink_to(secret)
    with pytest.raises(DataError, match="symbolic link"):
        digest.hash_file(link)


def test_a_folder_swapped_for_a_link_between_listing_and_reading_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = tree(tmp_path / "secrets", {"key": b"top secret"})
    root = tree(tmp_path / "d", {"sub/key": b"mine"})
    listing = content._list_tree

    def list_then_swap(*arguments: Any) -> Any:
        result = listing(*arguments)
        (root / "sub").rename(tmp_path / "moved")
        (root / "sub").symlink_to(secrets)
        return result

    monkeypatch.setattr(content, "_list_tree", list_then_swap)
    with pytest.raises(DataError, match="symbolic link"):
        read_content(root)


def test_a_file_that_changes_while_it_is_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"x" * 100)
    real = os.readv

    def shrink(fd: int, buffers: list[memoryview]) -> int:
        os.truncate(path, 10)
        return real(fd, buffers)

    monkeypatch.setattr(content.os, "readv", shrink)
    with pytest.raises(DataError, match="changed while it was read"):
        digest.hash_file(path)


def test_a_name_that_cannot_be_restored_elsewhere_is_refused(tmp_path: Path) -> None:
    root = tree(tmp_path / "d", {"a\nb": b"1"})
    with pytest.raises(ManifestError, match="unsafe path"):
        read_content(root)
    broken = tree(tmp_path / "e", {})
    Path(os.fsdecode(os.fsencode(broken) + b"/\xff")).write_bytes(b"")
    with pytest.raises(ManifestError):
        read_content(broken)


def test_directories_nested_too_deep_are_refused(tmp_path: Path) -> None:
    root = tree(tmp_path / "d", {"/".join("x" * (content.MAX_DEPTH + 1)) + "/f": b""})
    with pytest.raises(DataError, match="nested deeper"):
        read_content(root)


def test_a_manifest_holds_the_world_it_was_saved_in(tmp_path: Path) -> None:
    config = dataclasses.replace(CONFIG, nodes=4, node_rank=3, workers_per_node=8, job_uid="u")
    root = tree(tmp_path / "d", {"a": b"1"})
    content = read_content(root)
    made = build_manifest(
        content, config, step=5, worker=7, data_hash=reference_hash(content), epoch=2
    )
    assert (made.nodes, made.workers_per_node, made.job_uid, made.epoch) == (4, 8, "u", 2)
    assert ShardManifest.from_bytes(made.to_bytes()) == made
