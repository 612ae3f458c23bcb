"""Which backups to keep: grandfather, father, son.

`plan` is a pure function of names and times; `prune` applies it. A rule keeps one backup per hour,
day, ISO week, month or year (UTC), for as many of the newest such periods as asked for or for all
of them. A backup that no rule keeps is deleted, except that these are never touched: the newest
complete backup, the one that `restore.version` names, an incomplete one of the last day (it may
be in progress), one that cannot be listed, one from the future (a clock is wrong), and names that
are no backups.
"""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from replicator.backups import BackupNotFoundError, JobBackups
from replicator.errors import ReplicatorError

ALWAYS: Final = -1
"""Instead of a count: keep one backup of every period there is."""
INCOMPLETE_GRACE: Final = datetime.timedelta(days=1)
"""Age from which an incomplete backup counts as abandoned rather than as in progress."""


class RetentionError(ReplicatorError, ValueError):
    """A retention policy that cannot be meant, or a state in which pruning would be unsafe."""


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """How many periods of each length keep a backup; 0 = none, `ALWAYS` = every one."""

    hourly: int = 0
    daily: int = 0
    weekly: int = 0
    monthly: int = 0
    yearly: int = 0
    prefer_recent: bool = False
    """Keep the newest backup of a period rather than the oldest."""

    def __post_init__(self) -> None:
        counts = {name: getattr(self, name) for name in _PERIODS}
        for name, count in counts.items():
            if count < ALWAYS:
                raise RetentionError(f"{name}: expected 'always' or a number from 0, found {count}")
        if not any(counts.values()):
            raise RetentionError(f"no rule keeps anything; set at least one of {', '.join(counts)}")


def parse_count(text: str) -> int:
    """Read a rule's count: a number from 0, or `always`.

    Raises:
        RetentionError: anything else.
    """
    if text.strip().lower() == "always":
        return ALWAYS
    if text.isascii() and text.isdigit() and len(text) <= 6:
        return int(text)
    raise RetentionError(f"expected 'always' or a number from 0, found {text!r}")


@dataclass(frozen=True, slots=True)
class BackupRecord:
    """What pruning knows of one backup."""

    name: str
    time: datetime.datetime
    complete: bool
    nodes: int = 0
    """World size."""
    world_known: bool = True
    """False for the public reference's backups: nothing in them says how many nodes there were,
    so one that lacks the highest ranks looks like a complete one of a smaller job."""
    readable: bool = True
    """False where nothing can be said of what it holds; it cannot be deleted in order either."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a backup stays, and why."""

    name: str
    keep: bool
    reason: str


_PERIODS: Final[Mapping[str, Callable[[datetime.datetime], tuple[int, ...]]]] = {
    "hourly": lambda t: (t.year, t.month, t.day, t.hour),
    "daily": lambda t: (t.year, t.month, t.day),
    "weekly": lambda t: t.isocalendar()[:2],
    "monthly": lambda t: (t.year, t.month),
    "yearly": lambda t: (t.year,),
}


def plan(
    backups: Iterable[BackupRecord],
    policy: RetentionPolicy,
    *,
    now: datetime.datetime,
    protected: str | None = None,
) -> tuple[Decision, ...]:
    """Decide about every backup, newest first.

    Args:
        backups: all of one job's.
        policy: the rules. Only complete backups fill a period, and none from the future does:
            the public replicator names what it writes later, with the clock right again, before it.
        now: to tell abandoned backups from those in progress; with a time zone.
        protected: the backup that `restore.version` names.
    """
    records = sorted(backups, key=lambda record: record.time, reverse=True)
    complete = [record for record in records if record.complete]
    until_now = [record for record in complete if record.time <= now]
    reasons: dict[str, list[str]] = defaultdict(list)
    for name, reason in (*_newest(complete), *_newest(until_now)):
        if reason not in reasons[name]:
            reasons[name].append(reason)
    if protected is not None:
        reasons[protected].append("named by restore.version")
    for rule, period in _PERIODS.items():
        for name in _kept_by(until_now, period, getattr(policy, rule), policy.prefer_recent):
            reasons[name].append(rule)
    for record in records:
        if not record.complete and now - record.time < INCOMPLETE_GRACE:
            reasons[record.name].append("incomplete but recent, maybe in progress")
        elif not record.readable:
            reasons[record.name].append("cannot be listed")
        elif record.time > now:
            reasons[record.name].append("from the future")
        elif not complete:
            # Somebody may still want to rescue shards by hand, and nothing else is left.
            reasons[record.name].append("no complete backup to fall back on")
    return tuple(
        Decision(record.name, True, ", ".join(reasons[record.name]))
        if record.name in reasons
        else Decision(record.name, False, "no rule keeps it" if record.complete else "incomplete")
        for record in records
    )


def _newest(newest_first: list[BackupRecord]) -> Iterator[tuple[str, str]]:
    """What no rule may take away of these complete backups, and why."""
    if newest_first:
        yield newest_first[0].name, "newest complete"
    guessed: set[int] = set()
    for record in newest_first:
        if not record.world_known and record.nodes not in guessed:
            guessed.add(record.nodes)
            yield record.name, f"newest that looks complete with {record.nodes} nodes"


def _kept_by(
    newest_first: list[BackupRecord],
    period: Callable[[datetime.datetime], tuple[int, ...]],
    count: int,
    prefer_recent: bool,
) -> list[str]:
    chosen: dict[tuple[int, ...], str] = {}
    for record in newest_first:
        key = period(record.time)
        if key not in chosen or not prefer_recent:
            chosen[key] = record.name
    names = list(chosen.values())
    return names if count == ALWAYS else names[:count]


@dataclass(frozen=True, slots=True)
class PruneResult:
    """What was decided, and which of it was carried out."""

    decisions: tuple[Decision, ...]
    deleted: tuple[str, ...]


async def prune(
    backups: JobBackups,
    policy: RetentionPolicy,
    *,
    now: datetime.datetime,
    dry_run: bool = True,
) -> PruneResult:
    """Delete the backups of a job that no rule keeps; by default only say which.

    Safe to stop at any point and to repeat.

    Raises:
        RetentionError: restore.version is unreadable or names a backup that is not there or not
            complete, so nobody can tell what must stay; or it changed meanwhile. Nothing (more) is
            deleted.
        StorageError: a backup could not be judged or deleted.
    """
    protected = await _protected(backups)
    records = []
    for name in await backups.names():
        try:
            index = await backups.index(name)
        except BackupNotFoundError:
            continue  # another prune was faster
        step = index.newest_complete
        records.append(
            BackupRecord(
                name,
                index.time,
                index.complete,
                step.nodes if step is not None else 0,
                world_known=index.ours,
                readable=not index.unreadable,
            )
        )
    if protected is not None:
        _check_restorable(protected, records)
    decisions = plan(records, policy, now=now, protected=protected)
    deleted: list[str] = []
    for decision in decisions:
        if decision.keep or dry_run:
            continue
        if await _protected(backups) != protected:
            raise RetentionError(
                f"restore.version changed while pruning; stopped before {decision.name}"
            )
        await backups.delete(decision.name)
        deleted.append(decision.name)
    return PruneResult(decisions, tuple(deleted))


def _check_restorable(protected: str, records: list[BackupRecord]) -> None:
    """The start that restore.version asks for would be refused: somebody has to look first."""
    named = next((record for record in records if record.name == protected), None)
    if named is None or not named.complete:
        what = "is not there" if named is None else "is not complete"
        raise RetentionError(f"restore.version names {protected}, which {what}; fix it first")


async def _protected(backups: JobBackups) -> str | None:
    try:
        return await backups.read_restore_version()
    except ValueError as error:
        raise RetentionError(f"{error}; fix or remove it first") from error
