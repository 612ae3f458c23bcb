"""Evaluate ``x-kubernetes-validations`` as the API server does.

Rules that mention ``oldSelf`` are transition rules: they are skipped for a new object and judged by
:func:`transition_faults`, which the diff calls with the old and the new object. A rule that this
evaluator cannot compile is reported, never dropped.

Sources: Kubernetes documentation "Common Expression Language in Kubernetes" and "Transition
rules"; ``k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from generator.checks.structure import Path, Tree, with_defaults

_NAMES = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")
_WHOLE_OBJECTS = re.compile(r"\b(self|[a-z])\s*[!=]=\s*(self|oldSelf|[a-z])\b(?![.(])")


@dataclass(frozen=True, slots=True)
class CelFault:
    """A rule that an object breaks.

    Attributes:
        path: where the rule stands.
        message: the schema author's message, or the rule's text.
        rule: the expression.
        error: why it could not be judged; empty for a rule that is simply false.
    """

    path: Path
    message: str
    rule: str
    error: str = ""


@lru_cache(maxsize=1)
def _environment() -> Any:
    # Loaded on first use: the library takes 30 ms that `stowplan --help` should not pay.
    from cel_expr_python import cel  # type: ignore[import-untyped]

    return cel.NewEnv(variables={"self": cel.Type.DYN, "oldSelf": cel.Type.DYN})


@lru_cache(maxsize=1024)
def compiled(rule: str) -> Any:
    """Compile one rule; an error text stands for a rule that does not compile."""
    try:
        return _environment().compile(rule)
    except (RuntimeError, ValueError) as error:
        return str(error).splitlines()[0]


def is_transition(rule: str) -> bool:
    """Whether a rule compares with the object's former state."""
    return "oldSelf" in rule


def create_tree(tree: Tree) -> Tree:
    """The part of a rule tree that applies to a new object."""
    node: Tree = {}
    rules = [rule for rule in tree.get("r", []) if not is_transition(rule["rule"])]
    if rules:
        node["r"] = rules
    children = {k: below for k, v in tree.get("p", {}).items() if (below := create_tree(v))}
    if children:
        node["p"] = children
    for slot in ("i", "a"):
        if slot in tree and (below := create_tree(tree[slot])):
            node[slot] = below
    return node


def needed_defaults(defaults: Tree, rules: Tree) -> Tree:
    """The part of a default tree that the rules of a kind can see.

    A default matters to a rule only if the rule names the field, or compares whole objects.
    """
    names, whole = _mentioned(rules)
    return defaults if whole else _keep(defaults, names)


def _mentioned(rules: Tree) -> tuple[set[str], bool]:
    names: set[str] = set()
    whole = False
    for rule in rules.get("r", []):
        names.update(_NAMES.findall(rule["rule"]))
        whole = whole or bool(_WHOLE_OBJECTS.search(rule["rule"]))
    for name, below in rules.get("p", {}).items():
        found, compares = _mentioned(below)
        names |= found | {name}
        whole = whole or compares
    for slot in ("i", "a"):
        if slot in rules:
            found, compares = _mentioned(rules[slot])
            names |= found
            whole = whole or compares
    return names, whole


def _keep(defaults: Tree, names: set[str]) -> Tree:
    node: Tree = {}
    if "d" in defaults:
        node["d"] = defaults["d"]
    children = {
        name: below
        for name, child in defaults.get("p", {}).items()
        if name in names and (below := _keep(child, names))
    }
    if children:
        node["p"] = children
    for slot in ("i", "a"):
        if slot in defaults and (below := _keep(defaults[slot], names)):
            node[slot] = below
    return node


def create_faults(value: Any, rules: Tree, path: Path = ()) -> Iterator[CelFault]:
    """Judge a new object, its defaults filled in, by the rules that are no transition rules."""
    for rule in rules.get("r", []):
        fault = _judge(rule, {"self": value}, path)
        if fault:
            yield fault
    if isinstance(value, dict):
        for name, below in rules.get("p", {}).items():
            if value.get(name) is not None:
                yield from create_faults(value[name], below, (*path, name))
        if "a" in rules:
            for name, child in value.items():
                yield from create_faults(child, rules["a"], (*path, name))
    elif isinstance(value, list) and "i" in rules:
        for position, child in enumerate(value):
            yield from create_faults(child, rules["i"], (*path, position))


def transition_faults(
    old: Any, new: Any, rules: Tree, lists: Tree, path: Path = ()
) -> Iterator[CelFault]:
    """Judge a change by the transition rules.

    As in Kubernetes, a rule applies only where a value has a former self: a field that was there
    before, or the entry of a keyed list with the same keys. A block that is added or removed as a
    whole therefore meets no transition rule of its own.

    Args:
        old: the live object, defaults filled in.
        new: the object to be applied, defaults filled in.
        rules: the kind's ``cel`` tree.
        lists: the kind's ``lists`` tree, which tells which entries correlate.
        path: where the two stand.
    """
    for rule in rules.get("r", []):
        if is_transition(rule["rule"]):
            fault = _judge(rule, {"self": new, "oldSelf": old}, path)
            if fault:
                yield fault
    if isinstance(new, dict) and isinstance(old, dict):
        for name, below in rules.get("p", {}).items():
            if new.get(name) is not None and old.get(name) is not None:
                child_lists = lists.get("p", {}).get(name, {})
                yield from transition_faults(
                    old[name], new[name], below, child_lists, (*path, name)
                )
    elif isinstance(new, list) and isinstance(old, list) and "i" in rules and lists.get("k"):
        keys = lists["k"]
        former = {repr([item.get(k) for k in keys]): item for item in old}
        for position, item in enumerate(new):
            before = former.get(repr([item.get(k) for k in keys]))
            if before is not None:
                yield from transition_faults(
                    before, item, rules["i"], lists.get("i", {}), (*path, position)
                )


def check_transition(old: Any, new: Any, kind: dict[str, Any]) -> list[CelFault]:
    """Judge a change of one object by its kind's transition rules (see :mod:`schemas.kinds.store`).

    Defaults are filled in on both sides first, so that writing a default out is no change.
    """
    defaults = kind["defaults"]
    return list(
        transition_faults(
            with_defaults(old, defaults), with_defaults(new, defaults), kind["cel"], kind["lists"]
        )
    )


def _judge(rule: dict[str, Any], variables: dict[str, Any], path: Path) -> CelFault | None:
    text = rule["rule"]
    program = compiled(text)
    message = rule.get("message") or text.strip()
    if isinstance(program, str):
        return CelFault(path, message, text, f"cannot be compiled: {program}")
    answer = program.eval(data=variables).value()
    if answer is True:
        return None
    if answer is False:
        return CelFault(path, _own_message(rule, variables) or message, text)
    # The API server treats an expression that fails, such as a missing key, as a rejection.
    return CelFault(path, message, text)


def _own_message(rule: dict[str, Any], variables: dict[str, Any]) -> str:
    expression = rule.get("messageExpression")
    program = compiled(expression) if expression else ""
    if isinstance(program, str):
        return ""
    answer = program.eval(data=variables).value()
    return answer if isinstance(answer, str) else ""
