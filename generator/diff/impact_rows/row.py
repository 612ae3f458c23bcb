"""What a row of the impact table says."""

from __future__ import annotations

from dataclasses import dataclass

from generator.diff.model import Impact, Verb

ANY = "*"
"""Stands for any group or kind."""

COMES_OR_GOES = (Verb.ADD, Verb.DELETE)
COMES = (Verb.ADD,)
GOES = (Verb.DELETE,)
IS_RECREATED = (Verb.REPLACE, Verb.MOVE)


@dataclass(frozen=True, slots=True)
class Row:
    """One row.

    Attributes:
        group: API group, or :data:`ANY`.
        kind: kind, or :data:`ANY`.
        path: pattern of the field's path (see :mod:`generator.diff.patterns`); empty for the whole.
        impact: the class.
        why: one sentence for the reviewer, without a full stop.
        source: where it is written.
        verbs: the verbs that it speaks of; for a field, of the resource's verb; empty for any.
        when: a condition of :mod:`generator.diff.conditions`.
    """

    group: str
    kind: str
    path: str
    impact: Impact
    why: str
    source: str
    verbs: tuple[Verb, ...] = ()
    when: str = ""
