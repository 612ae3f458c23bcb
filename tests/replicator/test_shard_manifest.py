from __future__ import annotations

import dataclasses
import json

import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from replicator.manifest import ManifestError, ManifestFile, ShardManifest

DIGEST = "0" * 64
GOOD = ShardManifest(
    job_name="j",
    job_uid="u-1",
    step=3,
    node_rank=1,
    worker=0,
    nodes=2,
    workers_per_node=1,
    data_hash="D" + "a" * 64,
    files=(ManifestFile("a/b", 3, DIGEST), ManifestFile("c", 0, DIGEST)),
    empty_directories=("d/e",),
    assume_data_parallelism=2,
    epoch=4,
)


def resealed(shard: object) -> bytes:
    """A document with a fitting checksum, so that only its content can be wrong."""
    body = json.dumps(shard, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    return b'{"blake3":"%s","shard":%s}\n' % (blake3(body).hexdigest().encode(), body)


def document() -> dict[str, object]:
    loaded: dict[str, object] = json.loads(GOOD.to_bytes())["shard"]
    return loaded


def test_what_is_written_reads_back() -> None:
    assert ShardManifest.from_bytes(GOOD.to_bytes()) == GOOD
    assert resealed(document()) == GOOD.to_bytes()


def test_a_single_file_has_one_entry_without_a_path() -> None:
    single = dataclasses.replace(
        GOOD, data_hash="b" * 64, files=(ManifestFile("", 9, "b" * 64),), empty_directories=()
    )
    assert ShardManifest.from_bytes(single.to_bytes()) == single
    assert not single.is_directory
    assert single.storage_name == "b" * 64


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "..",
        "a/../b",
        ".",
        "a//b",
        "",
        "a/",
        "a\x00b",
        "a\nb",
        "x" * 256,
        "a/" * 3000 + "b",
    ],
)
def test_a_path_that_could_leave_the_directory_is_refused(path: str) -> None:
    with pytest.raises(ManifestError):
        dataclasses.replace(GOOD, files=(ManifestFile(path, 1, DIGEST),), empty_directories=())
    with pytest.raises(ManifestError):
        ShardManifest.from_bytes(
            resealed({**document(), "files": [[path, 1, DIGEST]], "empty-directories": []})
        )


@pytest.mark.parametrize(
    "change",
    [
        {"files": [["b", 1, DIGEST], ["a", 1, DIGEST]]},
        {"files": [["a", 1, DIGEST], ["a", 1, DIGEST]]},
        {"files": [["a", 1, DIGEST], ["a/b", 1, DIGEST]]},
        {"files": [["d/e", 1, DIGEST]]},
        {"files": [["a", -1, DIGEST]]},
        {"files": [["a", True, DIGEST]]},
        {"files": [["a", 1, "zz"]]},
        {"files": [["a", 1]]},
        {"files": {"a": 1}},
        {"files": [["\ud800", 1, DIGEST]]},
        {"empty-directories": [1]},
        {"job-name": "../x"},
        {"job-uid": "a/b"},
        {"step": -1},
        {"step": True},
        {"step": 2**63},
        {"epoch": -1},
        {"nodes": 0},
        {"node-rank": 2},
        {"worker": 1},
        {"data-hash": "x"},
        {"data-hash": "a" * 64},
        {"format": 2},
        {"unknown": 1},
    ],
)
def test_a_document_that_is_not_a_manifest_is_refused(change: dict[str, object]) -> None:
    try:
        content = resealed({**document(), **change})
    except UnicodeEncodeError:
        body = json.dumps({**document(), **change}).encode()
        content = b'{"blake3":"","shard":%s}' % body
    with pytest.raises(ManifestError):
        ShardManifest.from_bytes(content)


@given(st.integers(0, len(GOOD.to_bytes()) - 1), st.integers(1, 255))
def test_any_changed_byte_is_noticed(position: int, flip: int) -> None:
    content = bytearray(GOOD.to_bytes())
    content[position] ^= flip
    with pytest.raises(ManifestError):
        ShardManifest.from_bytes(bytes(content))


@given(st.integers(0, len(GOOD.to_bytes()) - 1))
def test_a_truncated_manifest_is_noticed(length: int) -> None:
    with pytest.raises(ManifestError):
        ShardManifest.from_bytes(GOOD.to_bytes()[:length])


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"[" * 100_000, b'{"blake3":1,"shard":2}'])
def test_other_content_is_refused(content: bytes) -> None:
    with pytest.raises(ManifestError):
        ShardManifest.from_bytes(content)


def test_the_content_digest_covers_names_and_content_but_not_who_saved_it() -> None:
    other_node = dataclasses.replace(GOOD, node_rank=0, step=9, epoch=0, job_uid=None)
    assert other_node.content_digest == GOOD.content_digest
    renamed = dataclasses.replace(
        GOOD, files=(ManifestFile("a/x", 3, DIGEST), ManifestFile("c", 0, DIGEST))
    )
    assert renamed.content_digest != GOOD.content_digest
    assert GOOD.content_digest.startswith("D")
    assert GOOD.storage_name == GOOD.content_digest
