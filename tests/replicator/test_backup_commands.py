from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
from pathlib import Path

import pytest
from backup_cases import NAME, store_backup

from replicator.backup_cli import add_commands
from replicator.backups import JobBackups
from replicator.storage import ObjectStorage

FIXTURES = Path(__file__).parent / "fixtures" / "reference"


def run(*arguments: str) -> int:
    parser = argparse.ArgumentParser(prog="stowplan-replicator")
    add_commands(parser.add_subparsers(required=True))
    parsed = parser.parse_args(list(arguments))
    status: int = parsed.run(parsed)
    return status


@pytest.fixture
def where(tmp_path: Path) -> list[str]:
    backups = JobBackups(ObjectStorage.open(f"file://{tmp_path}/bucket"), "job")

    async def fill() -> None:
        await store_backup(backups, tmp_path, name=NAME, step=3)
        await store_backup(backups, tmp_path, name="2026-11-30_10-00", step=4)

    asyncio.run(fill())
    (tmp_path / "bucket" / "job" / "2026-11-30_10-00" / "backup.seal").unlink()
    return ["--backup", f"file://{tmp_path}/bucket", "--job", "job"]


def test_ls_shows_what_is_complete_and_what_is_not(
    where: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("restore-from", NAME, *where) == 0
    capsys.readouterr()
    assert run("backups", "ls", *where) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("2026-11-30_10-00  INCOMPLETE")
    assert "not sealed" in lines[2]
    assert lines[3].startswith(f"{NAME}  complete")
    assert lines[3].endswith("<- restore.version")
    assert run("backups", "ls", "--format", "json", *where) == 0
    rows = json.loads(capsys.readouterr().out)["backups"]
    assert [(row["name"], row["complete"], row["step"]) for row in rows] == [
        ("2026-11-30_10-00", False, 4),
        (NAME, True, 3),
    ]


def test_output_that_is_not_taken_is_no_error_of_the_backups(
    where: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever prints for all commands says so; it is not "no space left" where the backups are."""
    for command in (["backups", "ls"], ["backups", "verify", NAME], ["prune", "--daily", "1"]):
        with Path("/dev/full").open("w", buffering=1) as full, monkeypatch.context() as patched:
            patched.setattr("sys.stdout", full)
            with pytest.raises(OSError, match="No space left on device") as caught:
                run(*command, *where)
            assert caught.value.filename is None
            with contextlib.suppress(OSError):
                full.close()
    assert "error" not in capsys.readouterr().err


def test_ls_warns_of_a_restore_version_that_names_nothing(
    where: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    version = tmp_path / "bucket" / "job" / "restore.version"
    for content, expected in (("2019-01-01_00-00", "is not there"), ("x", "expected a backup's")):
        version.write_text(content)
        assert run("backups", "ls", *where) == 1
        assert expected in capsys.readouterr().err


def test_ls_shows_the_others_beside_a_backup_and_a_restore_version_that_cannot_be_read(
    where: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = tmp_path / "bucket" / "job"
    (job / "2026-11-30_10-00" / "up").symlink_to("..")
    os.mkfifo(job / "restore.version")
    assert run("backups", "ls", *where) == 1
    shown = capsys.readouterr()
    assert "restore.version is unreadable" in shown.err
    lines = shown.out.splitlines()
    assert lines[1].startswith("2026-11-30_10-00  INCOMPLETE")
    assert "cannot list" in lines[2]
    assert lines[3].startswith(f"{NAME}  complete")
    assert run("backups", "verify", "latest", *where) == 0
    assert run("backups", "verify", "2026-11-30_10-00", *where) == 1
    assert "cannot list" in capsys.readouterr().out


def test_verify_reads_every_byte(
    where: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("backups", "verify", "latest", *where) == 0
    assert f"{NAME}: step 3, " in capsys.readouterr().out
    assert run("backups", "verify", "2026-11-30_10-00", *where) == 1
    assert "not sealed" in capsys.readouterr().out
    victim = next((tmp_path / "bucket" / "job" / NAME).glob("*.data/*.distcp"))
    content = bytearray(victim.read_bytes())
    content[7] ^= 1
    victim.write_bytes(bytes(content))
    assert run("backups", "verify", NAME, *where) == 1
    assert f"{victim.name}: BLAKE3" in capsys.readouterr().out
    assert run("restore-from", NAME, "--verify", *where) == 1
    assert not (tmp_path / "bucket" / "job" / "restore.version").exists()


def test_restore_from_refuses_what_cannot_be_restored(
    where: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, expected in (
        ("2026-11-30_10-00", "is not complete"),
        ("2020-01-01_00-00", "has no backup"),
        ("../x", "is no backup's name"),
    ):
        assert run("restore-from", name, *where) == 1
        error = capsys.readouterr().err
        assert expected in error
        assert "Traceback" not in error
    assert not (tmp_path / "bucket" / "job" / "restore.version").exists()


@pytest.mark.parametrize("told", [["--nodes", "7"], ["--workers-per-node", "3"]])
def test_restore_from_refuses_a_backup_that_a_job_of_this_size_cannot_restore(
    where: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], told: list[str]
) -> None:
    forced = tmp_path / "bucket" / "job" / "restore.version"
    assert run("restore-from", NAME, *told, *where) == 1
    assert "step 3 was saved by 2 nodes of 1 workers" in capsys.readouterr().err
    assert not forced.exists()
    assert run("restore-from", NAME, "--nodes", "2", "--workers-per-node", "1", *where) == 0
    assert forced.exists()


def test_prune_says_what_it_would_delete_and_deletes_only_when_told(
    where: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    backups = JobBackups(ObjectStorage.open(f"file://{tmp_path}/bucket"), "job")
    asyncio.run(store_backup(backups, tmp_path, name="2025-01-01_00-00", step=1))
    asyncio.run(store_backup(backups, tmp_path, name="2025-01-01_01-00", step=2))
    assert run("prune", "--yearly", "always", *where) == 0
    output = capsys.readouterr().out
    assert "delete  2025-01-01_01-00  no rule keeps it" in output
    assert f"keep    {NAME}  newest complete, yearly" in output
    assert "nothing deleted; add --delete" in output
    assert "2025-01-01_01-00" in asyncio.run(backups.names())
    assert run("prune", "--yearly", "always", "--delete", *where) == 0
    assert "2025-01-01_01-00" not in asyncio.run(backups.names())
    assert NAME in asyncio.run(backups.names())


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["prune"], "no rule keeps anything"),
        (["backups", "ls", "--backup", "s3://bucket/x"], "needs credentials"),
        (["backups", "ls", "--backup", "nothing"], "nothing: expected one of file://"),
        (["backups", "ls", "--backup", ""], "the backup URL is empty: expected one of file://"),
        (["backups", "ls", "--job", "../x"], "cannot be used in paths"),
        (
            ["backups", "ls", "--backup-credentials", "/none"],
            "; expected a key file, or one of anonymous, platform",
        ),
    ],
)
def test_unusable_arguments_are_one_line_and_status_2(
    where: list[str], capsys: pytest.CaptureFixture[str], arguments: list[str], expected: str
) -> None:
    command = arguments[:2] if arguments[0] == "backups" else arguments[:1]
    assert run(*command, *where, *arguments[len(command) :]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert expected in error
    assert len(error.splitlines()) == 1


def test_a_count_that_is_none_is_a_usage_error(
    where: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        run("prune", "--daily", "some", *where)
    assert stopped.value.code == 2
    assert "--daily: expected 'always' or a number from 0, found 'some'" in capsys.readouterr().err


def test_backups_of_the_reference_are_listed_and_verified(
    capsys: pytest.CaptureFixture[str],
) -> None:
    where = ["--backup", f"file://{FIXTURES}", "--job", "fixture-torch"]
    assert run("backups", "ls", "--format", "json", *where) == 0
    (row,) = json.loads(capsys.readouterr().out)["backups"]
    assert (row["writer"], row["complete"], row["nodes"]) == ("checkpoint-replicator", True, 2)
    assert run("backups", "verify", "latest", "--nodes", "2", *where) == 0
    assert "file names not covered" in capsys.readouterr().out
    assert run("backups", "verify", row["name"], "--nodes", "4", *where) == 1
    assert "2 of 4 shards are missing" in capsys.readouterr().out
