"""What the manifests do not hold and the user gives on the command line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from generator.importing.sources import Log, Source, ValuePath
from schemas.inventory.base import placeholder_in

_POOL = re.compile(
    r"(?P<name>[^=]+)=(?P<machine>[^:]+)(?::(?P<topology>\d+x\d+(?:x\d+)?))?:(?P<count>[1-9]\d*)"
)
_VARIABLE = re.compile(r"(?<!\$)\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)\}")
_FREE_TEXT = frozenset({"command", "args", "annotations", "data", "description"})
_COUNTS = frozenset(
    "replicas parallelism completions backoffLimit maxRestarts ttlSecondsAfterFinished "
    "terminationGracePeriodSeconds".split()
)
"""Keys whose value is a whole number, so that a variable in their place stands for one."""
_MAX_PLACEHOLDERS = 64
"""Of one text; a value that holds its own placeholder does not go on for ever."""


@dataclass(frozen=True)
class Options:
    """The answers.

    Attributes:
        cluster: the cluster's name.
        settings: ``cluster`` values by inventory path: project id, location, versions.
        node_pools: name → ``nodePools`` entry.
        placeholders: placeholder of the documents → what it stands for.
        priorities: class name → value, for classes that are in none of the files.
        ram_disks: configuration → ``inMemoryVolumeSize``.
        checkpoint_sizes: configuration → ``localCheckpointSize``.
        hierarchical_namespace: whether the bucket has one; None where it was not said.
        backup_minutes: minutes between backups.
        period_steps: steps between local checkpoints.
        classes: inventory classes that the target shall name.
    """

    cluster: str
    settings: dict[tuple[str, ...], Any] = field(default_factory=dict)
    node_pools: dict[str, dict[str, Any]] = field(default_factory=dict)
    placeholders: dict[str, str] = field(default_factory=dict)
    priorities: dict[str, int] = field(default_factory=dict)
    ram_disks: dict[str, str] = field(default_factory=dict)
    checkpoint_sizes: dict[str, str] = field(default_factory=dict)
    hierarchical_namespace: bool | None = None
    backup_minutes: int | None = None
    period_steps: int | None = None
    classes: tuple[str, ...] = ()


def parse_node_pool(text: str) -> tuple[str, dict[str, Any]]:
    """Read ``NAME=MACHINE:TOPOLOGY:SLICES`` (TPU) or ``NAME=MACHINE:NODES``.

    Raises:
        ValueError: the text has another form.
    """
    match = _POOL.fullmatch(text)
    if match is None:
        raise ValueError(
            f"{text!r} is not NAME=MACHINE:TOPOLOGY:SLICES, such as v6e=ct6e-standard-4t:4x4:2, "
            "or NAME=MACHINE:NODES, such as h100=a3-megagpu-8g:16"
        )
    pool: dict[str, Any] = {"machineType": match["machine"]}
    if match["topology"]:
        pool |= {"topology": match["topology"], "slices": int(match["count"])}
    else:
        pool["nodes"] = int(match["count"])
    return match["name"], pool


def fill_placeholders(source: Source, values: dict[str, str], log: Log) -> bool:
    """Put the given values where documents have placeholders and recipes have variables.

    Returns:
        Whether none is left; those that are left are named.
    """
    whole, filled = True, False
    left: dict[str, ValuePath] = {}
    for holder, key, path in _strings(source.body, ()):
        text = holder[key]
        for _ in range(_MAX_PLACEHOLDERS):
            found = _unfilled(text, path, values)
            if found is None:
                break
            word, what = found.strip("<>${}"), "a placeholder of the documents"
            if found.startswith("$"):
                what = "a variable that a script fills in (envsubst)"
            value = values.get(word, values.get(word.replace(" ", "_")))
            if value is None:
                log.missing(
                    f"{found} is {what}", f"add --set {word.replace(' ', '_')}=VALUE", source, path
                )
                whole = False
                break
            number = text == found and key in _COUNTS and value.isdigit()
            text = text.replace(found, value)
            if number:
                holder[key] = int(text)
                break
            holder[key] = text
            filled = filled or found.startswith("$")
        for match in _VARIABLE.finditer(text):
            left.setdefault(match[0], path)
    if filled and whole and left:
        log.derived(
            f"{', '.join(left)}: left to the shell in the container",
            "add --set NAME=VALUE for each that a script was to fill in",
            source,
            next(iter(left.values())),
        )
    return whole


def _unfilled(text: str, path: ValuePath, values: dict[str, str]) -> str | None:
    """The first placeholder or variable of a text that is to be filled in.

    What a shell in the container fills in stays as it is, unless a value was given for it.
    """
    found = placeholder_in(text)
    if found is not None:
        return found
    for match in _VARIABLE.finditer(text):
        if match["name"] in values or not _read_by_a_shell(path):
            return match[0]
    return None


def _read_by_a_shell(path: ValuePath) -> bool:
    return any(key in _FREE_TEXT for key in path) or path[-1] == "value"


def _strings(value: Any, path: ValuePath) -> Iterator[tuple[Any, Any, ValuePath]]:
    pairs: Iterator[tuple[Any, Any]]
    if isinstance(value, dict):
        pairs = iter(list(value.items()))
    elif isinstance(value, list):
        pairs = iter(enumerate(value))
    else:
        return
    for key, item in pairs:
        if isinstance(item, str):
            yield value, key, (*path, key)
        else:
            yield from _strings(item, (*path, key))


def parsed_pairs(
    texts: list[str], what: str, convert: Callable[[str], Any] = str
) -> dict[str, Any]:
    """Read ``NAME=VALUE`` options.

    Raises:
        ValueError: an option has no ``=``, or its value is of the wrong kind.
    """
    pairs: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            raise ValueError(f"{text!r} is not NAME=VALUE, for {what}")
        try:
            pairs[name] = convert(value)
        except ValueError:
            raise ValueError(f"{value!r} is no whole number, for {what}") from None
    return pairs
