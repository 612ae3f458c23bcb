"""Compare two objects field by field.

Pure functions over plain values. A missing key and an explicit null are the same, as the API server
treats them; an integer and a string are not, except as quantities.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable
from difflib import SequenceMatcher
from typing import Any

from generator.diff.list_keys import DEFAULTS, ListRule, is_quantity, list_rule
from generator.diff.model import MISSING, FieldChange, Item, Path, plain_path
from schemas.quantity import QuantityError, parse_quantity

MAX_ALIGNED = 2_000
"""Entries of a list without keys that are aligned; longer ones are compared by index, as alignment
takes quadratic time."""

_COMMON_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage"})
"""Left out of a group's key where it covers others as well: they would name every group alike."""


def fingerprint(value: Any) -> str:
    """Return a text that is equal for equal values and only for those."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)


def same_scalar(old: Any, new: Any, path: tuple[str, ...]) -> bool:
    """Whether two scalars mean the same at this place."""
    if type(old) is type(new) and old == new:
        return True
    if isinstance(old, bool) or isinstance(new, bool) or not is_quantity(path):
        return False
    if not isinstance(old, str | int) or not isinstance(new, str | int):
        return False
    try:
        return parse_quantity(str(old)) == parse_quantity(str(new))
    except QuantityError:
        return False


def compare(old: Any, new: Any, group: str, kind: str) -> list[FieldChange]:
    """Return the changes between two objects of one kind, in the order of the new object."""
    comparison = _Comparison(group, kind)
    comparison.values(old, new, (), 0)
    return comparison.changes


class _Comparison:
    """One walk through two objects."""

    def __init__(self, group: str, kind: str) -> None:
        self._group = group
        self._kind = kind
        self.changes: list[FieldChange] = []

    def _report(self, path: Path, op: str, old: Any, new: Any, depth: int) -> None:
        self.changes.append(FieldChange(path, op, old, new, depth))

    def values(self, old: Any, new: Any, path: Path, depth: int) -> None:
        """Compare whatever stands at a path; depth counts the parts that both sides have."""
        if old is None:
            old = MISSING
        if new is None:
            new = MISSING
        if old is new:
            return
        if isinstance(old, dict) and isinstance(new, dict):
            self._maps(old, new, path)
        elif isinstance(old, list) and isinstance(new, list):
            self._lists(old, new, path)
        elif old is MISSING or new is MISSING:
            self._one_sided(old, new, path, depth)
        elif not same_scalar(old, new, plain_path(path)):
            self._report(path, "change", old, new, len(path))

    def _one_sided(self, old: Any, new: Any, path: Path, depth: int) -> None:
        """Report a value that one side lacks; a map is reported leaf by leaf."""
        present = new if old is MISSING else old
        if isinstance(present, dict) and present:
            for key, value in present.items():
                pair = (MISSING, value) if old is MISSING else (value, MISSING)
                self.values(*pair, (*path, str(key)), depth)
        else:
            self._report(path, "add" if old is MISSING else "remove", old, new, depth)

    def _maps(self, old: dict[Any, Any], new: dict[Any, Any], path: Path) -> None:
        depth = len(path)
        for key, value in new.items():
            self.values(old.get(key, MISSING), value, (*path, str(key)), depth)
        for key, value in old.items():
            if key not in new:
                self.values(value, MISSING, (*path, str(key)), depth)

    def _lists(self, old: list[Any], new: list[Any], path: Path) -> None:
        if old == new and fingerprint(old) == fingerprint(new):
            return
        rule = list_rule(self._group, self._kind, plain_path(path))
        entries = [*old, *new]
        if any(isinstance(entry, dict | list) for entry in entries):
            self._keyed(old, new, path, rule)
        elif rule is not None and rule.scalars in ("set", "options"):
            self._scalar_set(old, new, path, options=rule.scalars == "options")
        else:
            self._sequence(old, new, path)

    def _keyed(self, old: list[Any], new: list[Any], path: Path, rule: ListRule | None) -> None:
        keys = rule.keys if rule and rule.keys else ("name",)
        before, after = _index(old, keys), _index(new, keys)
        if before is None or after is None:
            self._sequence(old, new, path)
            return
        for was, now in _pair(before, after, loose=rule is not None and rule.loose):
            i = before[was] if was is not None else None
            j = after[now] if now is not None else None
            here = (*path, Item(now or was or "", i, j))
            if i is not None and j is not None:
                self.values(old[i], new[j], here, len(here))
            elif j is not None:
                self._report(here, "add", MISSING, new[j], len(path))
            elif i is not None:
                self._report(here, "remove", old[i], MISSING, len(path))
        if rule is not None and rule.ordered:
            self._order(list(before), list(after), path)

    def _order(self, before: list[str], after: list[str], path: Path) -> None:
        """Report common entries that stand in another order."""
        common = set(before) & set(after)
        was = [key for key in before if key in common]
        now = [key for key in after if key in common]
        if was != now:
            self._report(path, "order", was, now, len(path))

    def _scalar_set(self, old: list[Any], new: list[Any], path: Path, *, options: bool) -> None:
        before = {_option(v) if options else fingerprint(v): i for i, v in enumerate(old)}
        after = {_option(v) if options else fingerprint(v): i for i, v in enumerate(new)}
        if options and (len(before) < len(old) or len(after) < len(new)):
            self._scalar_set(old, new, path, options=False)
            return
        for key in dict.fromkeys([*after, *before]):
            i, j = before.get(key), after.get(key)
            was = MISSING if i is None else old[i]
            now = MISSING if j is None else new[j]
            if i is None or j is None or fingerprint(was) != fingerprint(now):
                op = "add" if i is None else "remove" if j is None else "change"
                self._report(
                    (*path, Item(_entry_name(key, was, now), i, j)), op, was, now, len(path)
                )

    def _sequence(self, old: list[Any], new: list[Any], path: Path) -> None:
        """Align two lists as texts are aligned, and compare what stands in the same place."""
        before, after = [fingerprint(v) for v in old], [fingerprint(v) for v in new]
        if len(before) > 1 and before != after and Counter(before) == Counter(after):
            self._report(path, "order", old, new, len(path))
            return
        names = _entry_names(old), _entry_names(new)
        for i, j in _align(before, after, *names):
            was = MISSING if i is None else old[i]
            now = MISSING if j is None else new[j]
            plain = not isinstance(was if now is MISSING else now, dict | list)
            here = (*path, Item(_place_name(i, j, *names, plain=plain), i, j))
            if i is not None and j is not None:
                self.values(was, now, here, len(here))
            else:
                self._report(here, "add" if i is None else "remove", was, now, len(path))


def _index(entries: list[Any], keys: tuple[str, ...]) -> dict[str, int] | None:
    """Return key → index, or None where an entry has no key or two share one."""
    index: dict[str, int] = {}
    for number, entry in enumerate(entries):
        if not isinstance(entry, dict):
            return None
        parts = [_key_text(entry.get(key, DEFAULTS.get(key))) for key in keys]
        if not any(parts):
            return None
        key = "/".join(part for part in parts if part)
        if key in index:
            return None
        index[key] = number
    return index


def _key_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        names = sorted(str(entry) for entry in value)
        return ",".join([name for name in names if name not in _COMMON_RESOURCES] or names)
    return str(value)


def _pair(
    before: dict[str, int], after: dict[str, int], *, loose: bool
) -> list[tuple[str | None, str | None]]:
    """Match entries by key; loosely, those left over on both sides are matched in order."""
    gone = [key for key in before if key not in after]
    partner: dict[str, str | None] = {}
    if loose:
        fresh = [key for key in after if key not in before]
        partner = dict(zip(fresh, gone, strict=False))
        gone = gone[len(fresh) :]
    pairs: list[tuple[str | None, str | None]] = [
        (key if key in before else partner.get(key), key) for key in after
    ]
    return pairs + [(key, None) for key in gone]


def _option(value: Any) -> str:
    """Return the name in ``name=value``, ``name:value`` or ``a:b:value``; else the whole."""
    if not isinstance(value, str):
        return fingerprint(value)
    if "://" in value.partition("=")[0]:
        return value
    name, equals, _ = value.partition("=")
    if equals and " " not in name and "\n" not in name:
        return name
    head, colon, _ = value.rpartition(":")
    return head if colon and " " not in head and "\n" not in head else value


def _entry_names(values: list[Any]) -> list[str]:
    """Name the entries of a command line: ``steps`` of ``steps=100``, ``--hourly`` of the ``24``
    behind it; an entry without a name of its own is named by its whole."""
    names: list[str] = []
    flag = ""
    for value in values:
        text = value if isinstance(value, str) else ""
        is_flag = text.startswith("-") and "=" not in text
        if flag and text and not text.startswith("-"):
            names.append(flag)
        else:
            names.append(f"{text} itself" if is_flag else _option(value))
        flag = text if is_flag else ""
    return names


def _place_name(
    i: int | None, j: int | None, old: list[str], new: list[str], *, plain: bool
) -> str:
    """Name a place in a sequence: by the entry's name where it is plain and no side has the name
    twice, else by number."""
    was = old[i] if i is not None else None
    now = new[j] if j is not None else None
    name = now if now is not None else was
    single = name is not None and old.count(name) <= 1 and new.count(name) <= 1
    if single and i is not None and j is not None and was == now:
        return str(name)
    if single and plain and (i is None or j is None):
        flag = str(name).removesuffix(" itself")
        return str(name) if flag in (*old, *new) else flag
    return str(j if j is not None else i)


def _entry_name(key: str, old: Any, new: Any) -> str:
    value = old if new is MISSING else new
    return value if isinstance(value, str) and key == fingerprint(value) else key


def _align(
    before: list[str], after: list[str], old_names: list[str], new_names: list[str]
) -> list[tuple[int | None, int | None]]:
    """Pair the places of two sequences: equal entries first, then, between those, by option name,
    then by position where as many went as came."""
    if max(len(before), len(after)) > MAX_ALIGNED:
        longest = max(len(before), len(after))
        return [
            (i if i < len(before) else None, i if i < len(after) else None) for i in range(longest)
        ]
    pairs: list[tuple[int | None, int | None]] = []
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for op, i1, i2, j1, j2 in matcher.get_opcodes():
        if op == "equal":
            continue
        pairs += _align_block(range(i1, i2), range(j1, j2), old_names, new_names)
    return pairs


def _align_block(
    old: range, new: range, old_names: list[str], new_names: list[str]
) -> list[tuple[int | None, int | None]]:
    if len(old) == len(new):
        return list(zip(old, new, strict=True))
    waiting: dict[Hashable, list[int]] = {}
    for i in old:
        waiting.setdefault(old_names[i], []).append(i)
    pairs: list[tuple[int | None, int | None]] = []
    taken: set[int] = set()
    for j in new:
        candidates = waiting.get(new_names[j])
        if candidates:
            i = candidates.pop(0)
            taken.add(i)
            pairs.append((i, j))
        else:
            pairs.append((None, j))
    return pairs + [(i, None) for i in old if i not in taken]
