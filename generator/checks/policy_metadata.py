"""Read the ``# METADATA`` blocks of the policies: the rules' titles, reasons and references.

The blocks are OPA annotations: a comment block of YAML right above a rule. ``custom`` carries what
OPA has no field for: ``id``, ``severity``, ``fix``, ``reference`` and, where the schema check says
the same with more detail, ``schema: true``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from generator.checks.policy import PolicyError, policy_files, policy_folder
from generator.findings import Severity
from generator.yaml_load import YamlError, load_documents

_PACKAGE = re.compile(r"^package ([\w.]+)", re.M)
_HEAD = re.compile(
    r"^((?:deny|warn)_[a-z]+) contains "
    r"data\.stowplan\.lib\.(error|warning|note)\(\"([A-Z]{3}[0-9]{3})\"",
    re.M,
)


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """One policy rule as its author describes it.

    Attributes:
        id: stable id such as ``KUE005``.
        title: one sentence, what must hold.
        why: what goes wrong otherwise.
        fix: what to write instead.
        severity: how bad it is.
        reference: where the fact comes from.
        package: the Rego package.
        head: the rule's name, such as ``deny_clusterqueue``.
        schema: whether the schema check reports the same with more detail.
        file: the policy file, relative to the policies' folder.
    """

    id: str
    title: str
    why: str
    fix: str
    severity: Severity
    reference: str
    package: str
    head: str
    schema: bool
    file: str


def rule_heads(text: str) -> list[tuple[str, str]]:
    """Every ``(package, rule name)`` of a policy file's deny and warn rules."""
    package = _PACKAGE.search(text)
    return [(package[1], head[0]) for head in _HEAD.findall(text)] if package else []


def parse_rules(text: str, file: str) -> list[PolicyRule]:
    """Read the annotated rules of one policy file.

    Raises:
        PolicyError: a deny or warn rule has no block, the block lacks a field, or the two disagree.
    """
    package = _PACKAGE.search(text)
    name = package[1] if package else ""
    rules: list[PolicyRule] = []
    block: list[str] = []
    inside = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() == "# METADATA":
            block, inside = [], True
        elif inside and line.startswith("#"):
            block.append(line[2:])
        else:
            inside = False
            head = _HEAD.match(line)
            if head:
                if block:
                    rules.append(_rule(_described(block, file), name, head[1], file, number))
                    block = []
                rule = rules[-1] if rules else None
                if rule is None or (rule.id, rule.severity, rule.head) != (
                    head[3],
                    Severity(head[2]),
                    head[1],
                ):
                    # A rule's further bodies follow it without a block of their own.
                    raise PolicyError(
                        f"{file}:{number}: {head[3]} does not match the METADATA above it"
                    )
    return rules


def _described(block: list[str], file: str) -> Any:
    try:
        documents = load_documents("\n".join(block), file)
    except YamlError as error:
        raise PolicyError(f"a METADATA block of {file} is no YAML: {error.message}") from None
    return documents[0].value if documents else None


def _rule(block: Any, package: str, head: str, file: str, number: int) -> PolicyRule:
    try:
        custom = block["custom"]
        return PolicyRule(
            id=custom["id"],
            title=block["title"],
            why=" ".join(block["description"].split()),
            fix=" ".join(custom["fix"].split()),
            severity=Severity(custom["severity"]),
            reference=custom["reference"],
            package=package,
            head=head,
            schema=bool(custom.get("schema", False)),
            file=file,
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise PolicyError(f"{file}:{number}: METADATA of {head}: {error!r}") from None


@lru_cache(maxsize=4)
def policy_rules(folder: Path | None = None) -> dict[str, PolicyRule]:
    """Every policy rule by id; a rule with several bodies has one block each.

    Raises:
        PolicyError: the policies cannot be read.
    """
    root = folder or policy_folder()
    rules: dict[str, PolicyRule] = {}
    for path in policy_files(folder):
        for rule in parse_rules(path.read_text("utf-8"), path.relative_to(root).as_posix()):
            rules.setdefault(rule.id, rule)
    return rules
