"""Kapitan's target ``argocd``: the whole fleet's objects, as ``stowplan compile`` writes them.

``kapitan compile`` empties ``compiled/`` and writes what its targets return. Without this target
the folder ``compiled/argocd/`` would be gone afterwards. Targets cannot hand anything to each other
(each may be compiled in a process of its own), so the clusters' objects are built once more here to
know their kinds; they are checked and written out only by their own targets.
"""

from __future__ import annotations

from typing import Any

from generator.build.argocd import disagreements, fleet_files
from generator.findings import Severity
from generator.kadet import rendered_target
from generator.render import cluster_member


def main(input_params: dict[str, Any]) -> dict[str, str]:
    """Kapitan's entry point: the files of ``compiled/argocd/`` by path.

    Raises:
        kapitan.errors.CompileError: a cluster has errors, or two disagree.
    """
    from kapitan import cached
    from kapitan.errors import CompileError

    from generator.inventory import FLEET_TARGETS

    members, findings = [], []
    for name in sorted(set(cached.global_inv) - FLEET_TARGETS):
        tree, _, rendered = rendered_target(name)
        found, faults = cluster_member(tree, rendered)
        findings += faults
        if found is not None:
            members.append(found)
    failed = sorted({f.cluster for f in findings if f.severity is Severity.ERROR})
    if failed:
        raise CompileError(f"the whole fleet's objects wait for {', '.join(failed)}")
    wrong = disagreements(members)
    if wrong:
        raise CompileError(
            "\n".join(f"{finding.message}\n    fix: {finding.fix}" for finding in wrong)
        )
    return fleet_files(members)
