from __future__ import annotations

import datetime

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from replicator.protocol import (
    CheckpointName,
    ConfigError,
    NameKind,
    Prerestore,
    ProtocolError,
    data_name,
    format_backup_name,
    no_checkpoint_marker,
    parse_backup_name,
    parse_checkpoint_name,
    parse_data_name,
    parse_meta,
    parse_prerestore,
    parse_restore_version,
    parse_step_directory,
    survives_cleanup,
    temporary_name,
)

HASH = "ab" * 32


def test_the_sample_name_of_the_reference() -> None:
    name = CheckpointName("jobName", 5, 0, 2, NameKind.SAVE)
    assert str(name) == "jobName-s5-n0-w2.save"
    assert parse_checkpoint_name("jobName-s5-n0-w2.save") == name
    assert str(name.of_kind(NameKind.META)) == "jobName-s5-n0-w2.meta"


@given(
    job=st.from_regex(r"\A[A-Za-z0-9]([A-Za-z0-9._-]{0,30}[A-Za-z0-9])?\Z"),
    step=st.integers(0, 2**63 - 1),
    node=st.integers(0, 10**6),
    worker=st.integers(0, 1000),
    kind=st.sampled_from(NameKind),
)
def test_a_written_name_reads_back(
    job: str, step: int, node: int, worker: int, kind: NameKind
) -> None:
    name = CheckpointName(job, step, node, worker, kind)
    assert parse_checkpoint_name(str(name)) == name
    assert parse_checkpoint_name(str(name), job) == name
    assert parse_checkpoint_name(str(name), job + "x") is None


def test_a_job_may_be_named_like_a_checkpoint() -> None:
    name = CheckpointName("a-s1-n0-w0.meta", 2, 3, 4, NameKind.META)
    assert parse_checkpoint_name(str(name)) == name


@pytest.mark.parametrize(
    "text",
    [
        "j-s5-n0-w2",
        "j-s5-n0-w2.data",
        "j-s05-n0-w2.save",
        "j-s-5-n0-w2.save",
        "j-s5-n0-w2.save.tmp",
        "j-s5-n0-w2.SAVE",
        "j-s5-n0-w2.save\n",
        "../j-s5-n0-w2.save",
        "a/j-s5-n0-w2.save",
        "-s5-n0-w2.save",
        "j-s9223372036854775808-n0-w2.save",
        "j-s٥-n0-w2.save",
    ],
)
def test_other_names_are_not_checkpoints(text: str) -> None:
    assert parse_checkpoint_name(text) is None


def test_an_unsafe_name_cannot_be_built() -> None:
    with pytest.raises(ProtocolError):
        CheckpointName("../x", 1, 0, 0, NameKind.META)
    with pytest.raises(ProtocolError):
        CheckpointName("x", -1, 0, 0, NameKind.META)


def test_the_no_checkpoint_marker_is_the_restore_name_of_step_0() -> None:
    assert str(no_checkpoint_marker("j", 3, 1)) == "j-s0-n3-w1.restore"


@pytest.mark.parametrize("value", [HASH, f"D{HASH}"])
def test_data_names(value: str) -> None:
    assert parse_data_name(data_name(value)) == value
    assert parse_meta(value.encode()) == value
    assert parse_meta(f" {value}\n".encode()) == value


@pytest.mark.parametrize(
    "value", ["", HASH[1:], HASH.upper(), f"E{HASH}", f"{HASH}/..", f"d{HASH}"]
)
def test_what_is_no_hash_is_never_made_a_name(value: str) -> None:
    with pytest.raises(ProtocolError):
        data_name(value)
    with pytest.raises(ProtocolError):
        parse_meta(value.encode())
    assert parse_data_name(f"{value}.data") is None


def test_a_meta_file_that_is_no_text_is_refused() -> None:
    for content in (b"\xff" * 64, b"a" * 10**6):
        with pytest.raises(ProtocolError):
            parse_meta(content)


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("0", 0),
        ("7", 7),
        ("07", None),
        ("-7", None),
        ("7.tmp", None),
        ("1" * 20, None),
        ("²", None),
    ],
)
def test_step_directories(name: str, step: int | None) -> None:
    assert parse_step_directory(name) == step


def test_temporary_names_differ_per_writer_and_are_never_final() -> None:
    final = data_name(HASH)
    first, second = temporary_name(final, "a1"), temporary_name(final, "b2")
    assert first != second
    for name in (first, second):
        assert parse_data_name(name) is None
        assert not survives_cleanup(name)
    with pytest.raises(ProtocolError):
        temporary_name(final, "../x")


@pytest.mark.parametrize(
    ("name", "stays"),
    [
        ("replicator.yaml", True),
        ("jax-init-info.txt", True),
        (f"{HASH}.data", True),
        ("j-s5-n0-w2.meta", True),
        ("j-s5-n0-w2.manifest", True),
        ("j-s5-n0-w2.save", False),
        ("j-s5-n0-w2.restore", False),
        ("replicator.errors", False),
        ("replicator.prerestore", False),
        ("5", False),
    ],
)
def test_what_a_start_of_the_replicator_leaves_alone(name: str, stays: bool) -> None:
    assert survives_cleanup(name) is stays


@pytest.mark.parametrize(
    "value",
    [Prerestore(), Prerestore(0), Prerestore(7), Prerestore(7, "2026-11-30_09-48")],
)
def test_prerestore_reads_as_clients_read_it(value: Prerestore) -> None:
    content = value.to_bytes()
    assert parse_prerestore(content) == value
    expected = {"restore-step": value.step, "restore-backup": value.backup}
    assert yaml.safe_load(content) == {k: v for k, v in expected.items() if v is not None}


def test_prerestore_of_the_reference_reads() -> None:
    assert parse_prerestore(b"{}\n") == Prerestore()
    text = b"restore-backup: 2026-11-30_09-48\nrestore-step: 12\n"
    assert parse_prerestore(text) == Prerestore(12, "2026-11-30_09-48")


@pytest.mark.parametrize(
    "content", [b"", b"restore-step: x", b"restore-step: [1]", b"restore-backup: ../x", b"[1]"]
)
def test_a_bad_prerestore_is_an_error_with_its_place(content: bytes) -> None:
    with pytest.raises(ConfigError, match=r"^replicator\.prerestore:1:\d+: "):
        parse_prerestore(content)


def test_backup_names_are_utc_minutes() -> None:
    zone = datetime.timezone(datetime.timedelta(hours=2))
    when = datetime.datetime(2026, 3, 1, 1, 5, 59, tzinfo=zone)
    assert format_backup_name(when) == "2026-02-28_23-05"
    expected = datetime.datetime(2026, 2, 28, 23, 5, tzinfo=datetime.UTC)
    assert parse_backup_name("2026-02-28_23-05") == expected
    with pytest.raises(ProtocolError):
        format_backup_name(when.replace(tzinfo=None))


@pytest.mark.parametrize(
    "name", ["2026-02-30_00-00", "2026-2-28_23-05", "2026-02-28_24-00", "x", "٢٠٢٦-02-28_23-05"]
)
def test_what_is_no_backup_name(name: str) -> None:
    assert parse_backup_name(name) is None


def test_restore_version_forgives_white_space_only() -> None:
    assert parse_restore_version(b" 2026-02-28_23-05 \n") == "2026-02-28_23-05"
    for content in (b"", b"\n", b"../x", b"2026-02-28_23-05 extra", b"\xff", b"a" * 9999):
        with pytest.raises(ProtocolError, match="expected a backup's name"):
            parse_restore_version(content)
