"""Match a field's path against the patterns that the tables of rules are written in.

A pattern is the path's map keys with blanks between, list entries left out: ``spec resourceGroups
flavors resources nominalQuota``. ``*`` stands for one key, a last ``**`` for the place itself and
everything below it. The empty pattern stands for the resource as a whole.
"""

from __future__ import annotations

from functools import lru_cache


@lru_cache(maxsize=4096)
def _parts(pattern: str) -> tuple[str, ...]:
    return tuple(pattern.split())


def matches(pattern: str, path: tuple[str, ...]) -> bool:
    """Whether a plain path lies where the pattern says."""
    parts = _parts(pattern)
    if parts and parts[-1] == "**":
        parts = parts[:-1]
        if len(path) < len(parts):
            return False
        path = path[: len(parts)]
    return len(parts) == len(path) and all(
        want in ("*", key) for want, key in zip(parts, path, strict=True)
    )
