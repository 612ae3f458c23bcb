"""Compare our verdicts with a real API server's, and say where they differ."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from .controlplane.client import Client, Manifest, Verdict
from .mutation import Mutation

#: What we say of a manifest: messages of the errors, none when it is accepted.
Judge = Callable[[Manifest], Sequence[str]]


@dataclass(frozen=True)
class Disagreement:
    """One manifest that we and the server judge differently.

    Attributes:
        ours: our errors; empty when we accept.
        theirs: the server's message; empty when it accepts.
    """

    kind: str
    change: str
    ours: str
    theirs: str

    @property
    def direction(self) -> str:
        return "only we reject" if self.ours else "only the server rejects"


@dataclass(frozen=True)
class KnownDifference:
    """A difference that stays, and why.

    Attributes:
        direction: as in :class:`Disagreement`.
        pattern: regular expression for the rejecting side's message.
        reason: for the committed table.
    """

    direction: str
    pattern: str
    reason: str

    def covers(self, disagreement: Disagreement) -> bool:
        message = disagreement.ours or disagreement.theirs
        return disagreement.direction == self.direction and bool(re.search(self.pattern, message))


def verdict(client: Client, manifest: Manifest) -> Verdict:
    """What the server says to creating the object, with strict field validation, unstored."""
    return client.creation_verdict(manifest)


def compare(client: Client, judge: Judge, mutations: Iterable[Mutation]) -> list[Disagreement]:
    """All mutations that the two sides judge differently."""
    found = []
    for mutation in mutations:
        theirs = verdict(client, mutation.manifest)
        ours = judge(mutation.manifest)
        if bool(ours) == theirs.accepted:
            found.append(
                Disagreement(
                    mutation.kind,
                    mutation.change,
                    "; ".join(ours),
                    theirs.message or ("" if theirs.accepted else f"HTTP {theirs.code}"),
                )
            )
    return found


def table(disagreements: Iterable[Disagreement]) -> str:
    """A Markdown table, one row a disagreement."""
    lines = ["| kind | change | who rejects | message |", "|---|---|---|---|"]
    for row in sorted(disagreements, key=lambda item: (item.direction, item.kind, item.change)):
        message = (row.ours or row.theirs)[:240]
        cells = (row.kind, row.change, row.direction, message)
        lines.append("| " + " | ".join(_cell(cell) for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _cell(value: str) -> str:
    return value.replace("|", "\\|").replace("\n", " ")
