from __future__ import annotations

import asyncio
import datetime
import os
from pathlib import Path

import pytest
from backup_cases import store_backup
from hypothesis import given
from hypothesis import strategies as st

from replicator.backups import JobBackups
from replicator.protocol import format_backup_name
from replicator.retention import (
    ALWAYS,
    BackupRecord,
    RetentionError,
    RetentionPolicy,
    parse_count,
    plan,
    prune,
)
from replicator.storage import ObjectStorage

NOW = datetime.datetime(2026, 11, 30, 12, 0, tzinfo=datetime.UTC)


def record(*ago: float, complete: bool = True, **more: object) -> BackupRecord:
    """A backup some days and hours before NOW."""
    days, hours = (*ago, 0.0)[:2]
    time = NOW - datetime.timedelta(days=days, hours=hours)
    return BackupRecord(format_backup_name(time), time, complete, **more)  # type: ignore[arg-type]


def kept(backups: list[BackupRecord], policy: RetentionPolicy, **more: object) -> set[str]:
    decisions = plan(backups, policy, now=NOW, **more)  # type: ignore[arg-type]
    assert {d.name for d in decisions} == {b.name for b in backups}
    return {d.name for d in decisions if d.keep}


def test_one_backup_of_each_of_the_newest_hours() -> None:
    backups = [record(0, quarter / 4) for quarter in range(16)]
    names = kept(backups, RetentionPolicy(hourly=2, prefer_recent=True))
    assert names == {"2026-11-30_12-00", "2026-11-30_11-45"}


def test_the_oldest_of_a_period_stays_unless_recent_ones_are_preferred() -> None:
    backups = [record(1, hours) for hours in (0, 2, 4)] + [record(0)]
    oldest = kept(backups, RetentionPolicy(daily=ALWAYS))
    assert oldest == {"2026-11-30_12-00", "2026-11-29_08-00"}
    newest = kept(backups, RetentionPolicy(daily=ALWAYS, prefer_recent=True))
    assert newest == {"2026-11-30_12-00", "2026-11-29_12-00"}


def test_grandfather_father_son() -> None:
    backups = [record(days) for days in range(800)]
    policy = RetentionPolicy(daily=3, weekly=2, monthly=2, yearly=ALWAYS, prefer_recent=True)
    assert kept(backups, policy) == {
        "2026-11-30_12-00",  # daily, weekly, monthly and yearly at once
        "2026-11-29_12-00",  # daily, and the newest of ISO week 48
        "2026-11-28_12-00",
        "2026-10-31_12-00",
        "2025-12-31_12-00",
        "2024-12-31_12-00",
    }


def test_a_week_is_an_iso_week_across_the_new_year() -> None:
    days = [datetime.datetime(2026, 12, 31, tzinfo=datetime.UTC)]
    days.append(datetime.datetime(2027, 1, 1, tzinfo=datetime.UTC))
    backups = [BackupRecord(format_backup_name(day), day, True) for day in days]
    decisions = plan(backups, RetentionPolicy(weekly=ALWAYS, prefer_recent=True), now=days[1])
    assert [d.keep for d in decisions] == [True, False]


def test_the_newest_complete_backup_stays_whatever_the_rules_say() -> None:
    backups = [record(400), record(500), record(390, complete=False)]
    assert kept(backups, RetentionPolicy(hourly=0, yearly=0, daily=0, weekly=1)) == {
        backups[0].name
    }
    stays = plan(backups, RetentionPolicy(weekly=1), now=NOW)
    assert "newest complete" in next(d.reason for d in stays if d.name == backups[0].name)


def test_the_backup_that_restore_version_names_stays() -> None:
    backups = [record(0), record(1), record(2)]
    policy = RetentionPolicy(daily=1)
    assert kept(backups, policy) == {backups[0].name}
    assert kept(backups, policy, protected=backups[2].name) == {backups[0].name, backups[2].name}


def test_incomplete_backups_go_when_a_day_old_and_fill_no_period() -> None:
    backups = [
        record(0, 1, complete=False),
        record(0, 23.9, complete=False),
        record(1, 1, complete=False),
        record(2),
    ]
    assert kept(backups, RetentionPolicy(daily=1)) == {b.name for b in backups} - {backups[2].name}


def test_without_a_complete_backup_nothing_goes() -> None:
    backups = [record(days, complete=False) for days in range(5)]
    assert kept(backups, RetentionPolicy(daily=1)) == {b.name for b in backups}


def test_backups_from_the_future_stay_and_take_no_place_from_others() -> None:
    """Those of the public replicator may hold an older step than all that a right clock dated."""
    backups = [record(-400), record(-2), record(0), record(0, 1), record(1), record(400)]
    for policy in (RetentionPolicy(yearly=2, prefer_recent=True), RetentionPolicy(hourly=1)):
        decided = {d.name: d for d in plan(backups, policy, now=NOW)}
        assert decided[backups[0].name].reason == "newest complete, from the future"
        assert decided[backups[1].name].reason == "from the future"
        assert decided[backups[2].name].reason.startswith("newest complete, ")
    assert kept(backups, RetentionPolicy(yearly=2, prefer_recent=True)) == {
        backups[i].name for i in (0, 1, 2, 5)
    }
    assert kept(backups, RetentionPolicy(daily=1)) == {backups[i].name for i in (0, 1, 2, 3)}


def test_a_guess_from_the_future_is_not_the_only_one_that_stays() -> None:
    backups = [record(days, nodes=4, world_known=False) for days in (-2, 1, 2)]
    decided = plan(backups, RetentionPolicy(hourly=1), now=NOW)
    assert [d.keep for d in decided] == [True, True, False]
    assert "newest that looks complete with 4 nodes" in decided[1].reason


def test_where_the_world_size_is_a_guess_the_newest_of_each_guess_stays() -> None:
    """A torn backup of 4 nodes that lacks rank 3 looks like a complete one of 3 nodes."""
    torn = record(0, nodes=3, world_known=False)
    whole = record(1, nodes=4, world_known=False)
    older = record(2, nodes=4, world_known=False)
    names = kept([torn, whole, older], RetentionPolicy(hourly=1, prefer_recent=True))
    assert names == {torn.name, whole.name}


@given(
    ages=st.lists(st.integers(-100, 20_000), min_size=1, max_size=40, unique=True),
    incomplete=st.sets(st.integers(0, 39)),
    counts=st.lists(st.integers(ALWAYS, 4), min_size=5, max_size=5).filter(any),
    prefer_recent=st.booleans(),
    pick=st.integers(0, 39),
)
def test_what_must_never_go_never_goes(
    ages: list[int], incomplete: set[int], counts: list[int], prefer_recent: bool, pick: int
) -> None:
    backups = [record(0, age, complete=i not in incomplete) for i, age in enumerate(ages)]
    protected = backups[pick % len(backups)].name
    policy = RetentionPolicy(*counts, prefer_recent=prefer_recent)
    names = kept(backups, policy, protected=protected)
    assert protected in names
    complete = [b for b in backups if b.complete]
    if complete:
        assert max(complete, key=lambda b: b.time).name in names
    else:
        assert names == {b.name for b in backups}
    for rule, count in zip(("hour", "day"), counts[:2], strict=True):
        form = "%Y-%m-%d_%H" if rule == "hour" else "%Y-%m-%d"
        periods = {b.time.strftime(form) for b in complete}
        covered = {b.time.strftime(form) for b in complete if b.name in names}
        assert len(covered) >= (len(periods) if count == ALWAYS else min(count, len(periods)))
    again = kept([b for b in backups if b.name in names], policy, protected=protected)
    assert again == names, "pruning twice is pruning once"


def test_a_policy_that_keeps_nothing_is_refused() -> None:
    with pytest.raises(RetentionError, match="no rule keeps anything"):
        RetentionPolicy()
    with pytest.raises(RetentionError, match="expected 'always' or a number"):
        RetentionPolicy(daily=-2)


@pytest.mark.parametrize(
    ("text", "count"), [("0", 0), ("12", 12), ("always", ALWAYS), ("Always", -1)]
)
def test_counts(text: str, count: int) -> None:
    assert parse_count(text) == count


@pytest.mark.parametrize("text", ["", "-1", "all", "1.5", "٣", "9" * 20])
def test_other_counts_are_refused(text: str) -> None:
    with pytest.raises(RetentionError):
        parse_count(text)


@pytest.fixture
def backups(tmp_path: Path) -> JobBackups:
    opened = JobBackups(ObjectStorage.open(f"file://{tmp_path}/bucket"), "job")

    async def fill() -> None:
        for day in (20, 21, 22):
            await store_backup(opened, tmp_path, name=f"2026-11-{day}_10-00", step=day)

    asyncio.run(fill())
    return opened


POLICY = RetentionPolicy(daily=1, prefer_recent=True)


def test_prune_only_says_what_it_would_do(backups: JobBackups) -> None:
    result = asyncio.run(prune(backups, POLICY, now=NOW))
    assert result.deleted == ()
    assert [d.keep for d in result.decisions] == [True, False, False]
    assert len(asyncio.run(backups.names())) == 3


def test_prune_deletes_when_told(backups: JobBackups, tmp_path: Path) -> None:
    result = asyncio.run(prune(backups, POLICY, now=NOW, dry_run=False))
    assert result.deleted == ("2026-11-21_10-00", "2026-11-20_10-00")
    assert asyncio.run(backups.names()) == ("2026-11-22_10-00",)
    assert asyncio.run(backups.index("2026-11-22_10-00")).complete
    left = [
        p for p in (tmp_path / "bucket").rglob("*") if p.is_file() and "2026-11-22" not in str(p)
    ]
    assert left == []


def test_prune_spares_what_restore_version_names(backups: JobBackups) -> None:
    asyncio.run(backups.force_restore("2026-11-20_10-00"))
    result = asyncio.run(prune(backups, POLICY, now=NOW, dry_run=False))
    assert result.deleted == ("2026-11-21_10-00",)


@pytest.mark.parametrize("content", ["", "latest", "2019-01-01_00-00"])
def test_prune_refuses_while_restore_version_makes_no_sense(
    backups: JobBackups, tmp_path: Path, content: str
) -> None:
    (tmp_path / "bucket" / "job" / "restore.version").write_text(content)
    with pytest.raises(RetentionError, match=r"restore\.version"):
        asyncio.run(prune(backups, POLICY, now=NOW, dry_run=False))
    assert len(asyncio.run(backups.names())) == 3


def make_odd(path: Path, what: str) -> None:
    """Something in place of a small file that no reader can use."""
    if what == "directory":
        path.mkdir()
    elif what == "dangling link":
        path.symlink_to("nowhere")
    elif what == "link loop":
        path.symlink_to(path.name)
    elif what == "pipe":
        os.mkfifo(path)
    else:
        path.write_bytes(b"2026-11-22_10-00" + b" " * 9000)


ODD = ["directory", "dangling link", "link loop", "pipe", "huge"]


@pytest.mark.parametrize("what", ODD)
def test_prune_refuses_while_restore_version_is_unreadable(
    backups: JobBackups, tmp_path: Path, what: str
) -> None:
    make_odd(tmp_path / "bucket" / "job" / "restore.version", what)
    with pytest.raises(RetentionError, match=r"restore\.version is unreadable"):
        asyncio.run(asyncio.wait_for(prune(backups, POLICY, now=NOW, dry_run=False), 10))
    assert len(asyncio.run(backups.names())) == 3


def test_prune_refuses_while_restore_version_names_an_incomplete_backup(
    backups: JobBackups, tmp_path: Path
) -> None:
    asyncio.run(backups.force_restore("2026-11-20_10-00"))
    (tmp_path / "bucket" / "job" / "2026-11-20_10-00" / "backup.seal").unlink()
    for dry_run in (True, False):
        with pytest.raises(RetentionError, match="2026-11-20_10-00, which is not complete"):
            asyncio.run(prune(backups, POLICY, now=NOW, dry_run=dry_run))
    assert len(asyncio.run(backups.names())) == 3


def test_prune_leaves_what_cannot_be_listed(backups: JobBackups, tmp_path: Path) -> None:
    odd = tmp_path / "bucket" / "job" / "2026-11-21_10-00"
    (odd / "loop").symlink_to("..")
    result = asyncio.run(prune(backups, POLICY, now=NOW, dry_run=False))
    assert result.deleted == ("2026-11-20_10-00",)
    assert [d.reason for d in result.decisions if d.name == odd.name] == ["cannot be listed"]
    assert (odd / "backup.seal").exists()


def test_prune_stops_when_restore_version_appears_meanwhile(
    backups: JobBackups, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete = backups.delete

    async def delete_then_force(name: str) -> None:
        await delete(name)
        await backups.force_restore("2026-11-20_10-00")

    monkeypatch.setattr(backups, "delete", delete_then_force)
    with pytest.raises(RetentionError, match="changed while pruning"):
        asyncio.run(prune(backups, POLICY, now=NOW, dry_run=False))
    assert asyncio.run(backups.names()) == ("2026-11-22_10-00", "2026-11-20_10-00")
