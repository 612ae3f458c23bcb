"""Kapitan refs (``?{gkms:team/token:15675ffa}``) in values pass through as they stand.

Kapitan stamps a token that lacks the hash of its ref file; stowplan does not read ref files, so the
two ways of compiling would differ. Source: kapitan ``refs/base.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from generator.findings import Finding, Location, Severity

_TOKEN = re.compile(r"\?\{(?P<backend>\w+):(?P<rest>[\w\-.@=/:]+)(?:\|\|[^}]*)?\}")
_STAMPED = re.compile(r".+:(?:[0-9a-f]{8}|embedded)")


def unstamped(cluster: str, path: str, text: str) -> Iterator[Finding]:
    """Warn of each token in a file's text that has no hash."""
    if "?{" not in text:
        return
    for match in _TOKEN.finditer(text):
        if _STAMPED.fullmatch(match["rest"]):
            continue
        line = text.count("\n", 0, match.start()) + 1
        column = match.start() - text.rfind("\n", 0, match.start())
        yield Finding(
            "INV090",
            Severity.WARNING,
            f"the ref {match[0]} has no hash; kapitan compile would add one, stowplan does not",
            "write the token as kapitan compile prints it, with the hash at its end",
            cluster=cluster,
            manifest=Location(f"compiled/{cluster}/{path}", line, column),
        )
