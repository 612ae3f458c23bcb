"""Every rule by id: what it asks for, why, how to mend it, and where the fact comes from.

Policy rules describe themselves in their ``# METADATA``; the others stand here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from generator.checks.inventory_rules import INVENTORY
from generator.checks.live_rules import LIVE
from generator.checks.policy_metadata import policy_rules
from generator.checks.rule_table import BUILT_IN
from generator.findings import Severity

FAMILIES = {
    "INV": "The inventory (stowplan compile)",
    "YML": "YAML",
    "SCH": "Schemas and webhooks",
    "REF": "References between objects",
    "SIZ": "Sizing of the RAM disk",
    "MTC": "Multi-tier checkpointing",
    "JOB": "JobSets",
    "KUE": "Kueue",
    "PRI": "Priorities",
    "SEC": "Security",
    "OPS": "Operations",
    "POL": "The policy engine",
    "WVR": "Waivers",
    "DOC": "A live cluster (stowplan doctor)",
}


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule as ``stowplan explain`` shows it.

    Attributes:
        id: stable id.
        title: what must hold, one sentence.
        severity: the severity that it reports, the highest where it depends.
        why: what goes wrong otherwise.
        fix: what to do.
        reference: the source of the fact.
        source: the file that decides it, relative to the repository.
    """

    id: str
    title: str
    severity: Severity
    why: str
    fix: str
    reference: str
    source: str

    @property
    def family(self) -> str:
        """The family's title."""
        return FAMILIES[self.id[:3]]


@lru_cache(maxsize=1)
def all_rules() -> dict[str, Rule]:
    """Every rule, in the order of the families and ids."""
    rules = [Rule(*row) for row in (*INVENTORY, *BUILT_IN, *LIVE)]
    rules += [
        Rule(r.id, r.title, r.severity, r.why, r.fix, r.reference, f"policies/{r.file}")
        for r in policy_rules().values()
    ]
    order = list(FAMILIES)
    rules.sort(key=lambda rule: (order.index(rule.id[:3]), rule.id))
    return {rule.id: rule for rule in rules}


def page(rule: Rule) -> str:
    """The rule's page in ``docs/rules`` and the text of ``stowplan explain``."""
    return "\n".join(
        [
            f"# {rule.id}: {rule.title}",
            "",
            f"Family: {rule.family}. Severity: {rule.severity}. Decided in: `{rule.source}`.",
            "",
            "## Why",
            "",
            rule.why,
            "",
            "## Fix",
            "",
            rule.fix,
            "",
            "## Reference",
            "",
            rule.reference,
            "",
        ]
    )


def index(rules: Iterable[Rule]) -> str:
    """The index page of ``docs/rules``."""
    lines = ["# Rules", "", "Written by `python -m generator.checks.rule_docs` from the rules.", ""]
    family = ""
    for rule in rules:
        if rule.family != family:
            family = rule.family
            lines += [
                "",
                f"## {family}",
                "",
                "| rule | severity | what must hold |",
                "|---|---|---|",
            ]
        lines.append(f"| [{rule.id}]({rule.id}.md) | {rule.severity} | {rule.title} |")
    return "\n".join(lines).replace("\n\n\n", "\n\n") + "\n"
