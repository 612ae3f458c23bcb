"""Faults by path, before their place in a file has been looked up."""

from __future__ import annotations

from dataclasses import dataclass

from generator.findings import Finding, Severity
from generator.provenance import Provenance, ValuePath


@dataclass(frozen=True, slots=True)
class Problem:
    """A fault of the inventory at a path of the rendered parameters.

    Attributes:
        rule: stable id.
        path: where, inside ``parameters``.
        message: what was found and what was expected.
        fix: what to write.
        key: the key is at fault rather than its value.
        severity: errors keep the cluster from being written.
    """

    rule: str
    path: ValuePath
    message: str
    fix: str = ""
    key: bool = False
    severity: Severity = Severity.ERROR


def located(problem: Problem, cluster: str, provenance: Provenance) -> Finding:
    """Turn a problem into a finding with its place."""
    place = provenance.find(problem.path, key=problem.key)
    return Finding(
        problem.rule,
        problem.severity,
        problem.message,
        problem.fix,
        cluster=cluster,
        path=problem.path,
        inventory=place.where,
        via=place.via,
    )
