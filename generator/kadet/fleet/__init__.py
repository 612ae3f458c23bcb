"""Kapitan's target ``argocd``: the whole fleet's objects, as ``stowplan compile`` writes them.

``kapitan compile`` empties ``compiled/`` and writes what its targets return. Without this target
the folder ``compiled/argocd/`` would be gone afterwards.
"""

from __future__ import annotations

from typing import Any

from generator.build.argocd import disagreements, fleet_files
from generator.findings import Severity
from generator.kadet import render_target


def main(input_params: dict[str, Any]) -> dict[str, str]:
    """Kapitan's entry point: the files of ``compiled/argocd/`` by path.

    Raises:
        kapitan.errors.CompileError: a cluster has errors, or two disagree.
    """
    from kapitan import cached
    from kapitan.errors import CompileError

    from generator.inventory import FLEET_TARGETS

    names = sorted(set(cached.global_inv) - FLEET_TARGETS)
    results = [render_target(name)[1] for name in names]
    findings = [finding for result in results for finding in result.findings]
    failed = sorted({f.cluster for f in findings if f.severity is Severity.ERROR})
    if failed:
        raise CompileError(f"the whole fleet's objects wait for {', '.join(failed)}")
    members = [result.member for result in results if result.member is not None]
    wrong = disagreements(members)
    if wrong:
        raise CompileError(
            "\n".join(f"{finding.message}\n    fix: {finding.fix}" for finding in wrong)
        )
    return fleet_files(members)
