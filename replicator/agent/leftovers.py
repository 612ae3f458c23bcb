"""What an earlier start of a job has left in the volume, and what becomes of it.

The public reference deletes everything that it does not know. Here a name *and* a kind of file
decide: what is the protocol's own goes, what may be somebody's data is put aside, and everything
else is left alone.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Final

from replicator.agent.files import remove
from replicator.protocol import (
    NameKind,
    parse_checkpoint_name,
    parse_data_name,
    parse_step_directory,
)

QUARANTINE: Final = "quarantine"
"""Directory beside the agent's scratch space for what is kept aside rather than deleted."""
ASIDE_PREFIX: Final = "leftover-"


class Kind(StrEnum):
    """What a directory entry is. `LINK` is a link to a checkpoint's data, as a restore makes it."""

    FILE = "file"
    DIRECTORY = "directory"
    LINK = "link"
    FOREIGN_LINK = "foreign link"
    OTHER = "other"


class Fate(StrEnum):
    """What a new start of a job does with an entry."""

    LEAVE = "leave"
    REMOVE = "remove"
    ASIDE = "put aside"


_ANY_LINK: Final = {Kind.LINK: Fate.REMOVE, Kind.FOREIGN_LINK: Fate.REMOVE}
_MARKER: Final = {
    **_ANY_LINK,
    Kind.FILE: Fate.REMOVE,
    Kind.OTHER: Fate.REMOVE,
    Kind.DIRECTORY: Fate.ASIDE,
}
_UNFINISHED: Final = {Kind.FILE: Fate.REMOVE, Kind.DIRECTORY: Fate.REMOVE}
_STEP_LINK: Final = {Kind.LINK: Fate.REMOVE, Kind.FOREIGN_LINK: Fate.ASIDE}

_REPORT: Final = r"replicator\.(prerestore|errors|failed)"
_SHARD: Final = r".+-s[0-9]+-n[0-9]+-w[0-9]+\."
_RULES: Final[tuple[tuple[re.Pattern[str], dict[Kind, Fate]], ...]] = tuple(
    (re.compile(pattern), fates)
    for pattern, fates in (
        # The replicator's markers. A restore link goes wherever it points: the job loads from it.
        (_REPORT, _MARKER),
        (_SHARD + "restore", _MARKER),
        # Saves that no agent has taken over.
        (_SHARD + "save", {**_ANY_LINK, **_UNFINISHED}),
        (r"0|[1-9][0-9]{0,18}", {**_STEP_LINK, Kind.DIRECTORY: Fate.REMOVE}),  # a link: Orbax's
        # `replicator.yaml` and reports on their way (Orbax; our client).
        (rf"(replicator\.yaml|{_REPORT})(\.[0-9a-f]+)?\.tmp", {Kind.FILE: Fate.REMOVE}),
        # Unfinished: Orbax's steps, our client's saves, the public reference's files and copies.
        (r"[0-9]+\.orbax-checkpoint-tmp.*", {Kind.DIRECTORY: Fate.REMOVE}),
        (r"[0-9]+\.pending(\.[0-9]+)?", {Kind.DIRECTORY: Fate.REMOVE}),
        (_SHARD + r"save\.pending(\.[0-9]+)?", _UNFINISHED),
        (_SHARD + r"(meta|manifest|restore)\.tmp", {Kind.FILE: Fate.REMOVE}),
        (r"D?[0-9a-f]{64}\.data\.tmp", _UNFINISHED),
        # The NeMo client writes into `step=N` and renames restore links to it; `N.tmp` and
        # `….save.tmp` are what launch scripts use. Somebody else's directory may be called so too.
        (r"step=[0-9]+", {**_STEP_LINK, Kind.DIRECTORY: Fate.ASIDE}),
        (r"[0-9]+\.tmp", {Kind.DIRECTORY: Fate.ASIDE}),
        (_SHARD + r"save\.tmp", {Kind.FILE: Fate.ASIDE, Kind.DIRECTORY: Fate.ASIDE}),
    )
)


def fate(name: str, kind: Kind) -> Fate:
    """What a new start of a job does with an entry of the volume's root."""
    for pattern, fates in _RULES:
        if pattern.fullmatch(name):
            return fates.get(kind, Fate.LEAVE)
    return Fate.LEAVE


def kind_of(entry: Path) -> Kind:
    """What an entry is; links are not followed."""
    mode = entry.lstat().st_mode
    if stat.S_ISLNK(mode):
        ours = parse_data_name(str(entry.readlink())) is not None
        return Kind.LINK if ours else Kind.FOREIGN_LINK
    if stat.S_ISDIR(mode):
        return Kind.DIRECTORY
    return Kind.FILE if stat.S_ISREG(mode) else Kind.OTHER


def clear_leftovers(root: Path, quarantine: Path) -> None:
    """Make the volume's root ready for a new start of a job.

    What is put aside takes the place of what an earlier start put aside: a job that fails again
    and again while it saves must not fill the memory.
    """
    fates = _fates(root)
    _put_aside([entry for entry, what in fates if what is Fate.ASIDE], quarantine)
    for entry, what in fates:
        if what is Fate.REMOVE:
            remove(entry)


def clear_config(path: Path, quarantine: Path) -> None:
    """Take `replicator.yaml` away. A directory of that name may be somebody's data.

    It takes the place of an older such directory only, not of what a start has put aside.
    """
    if path.is_dir() and not path.is_symlink():
        aside = quarantine / f"{ASIDE_PREFIX}{path.name}"
        remove(aside)
        path.rename(aside)
    else:
        remove(path)


def _put_aside(entries: list[Path], quarantine: Path) -> None:
    if entries:
        for older in quarantine.glob(f"{ASIDE_PREFIX}*"):
            remove(older)
    for entry in entries:
        entry.rename(quarantine / f"{ASIDE_PREFIX}{entry.name}")


def _fates(root: Path) -> list[tuple[Path, Fate]]:
    found = []
    for entry in root.iterdir():
        try:
            found.append((entry, fate(entry.name, kind_of(entry))))
        except FileNotFoundError:
            continue  # the job has just taken it
    return found


def dangling_restore_links(root: Path) -> Iterator[Path]:
    """Restore links, under the names that jobs give them too, whose data has been deleted."""
    for entry in root.iterdir():
        try:
            ours = is_restore_link_name(entry.name) and kind_of(entry) is Kind.LINK
            if ours and not entry.exists():
                yield entry
        except FileNotFoundError:
            continue


def is_restore_link_name(name: str) -> bool:
    """`<job>-sN-nR-wW.restore`, or what Orbax (`N`) and the NeMo client (`step=N`) make of it."""
    shard = parse_checkpoint_name(name)
    if shard is not None:
        return shard.kind is NameKind.RESTORE
    return parse_step_directory(name.removeprefix("step=")) is not None
