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


def fill_placeholders(source: Source, values: dict[str, str], log: Log) -> None:
    """Put the given values where the documents have placeholders; name those that are left."""
    for holder, key, path in _strings(source.body, ()):
        text = holder[key]
        for _ in range(8):
            found = placeholder_in(text)
            if found is None:
                break
            word = found.strip("<>")
            value = values.get(word, values.get(word.replace(" ", "_")))
            if value is None:
                log.missing(
                    f"{found} is a placeholder of the documents",
                    f"add --set {word.replace(' ', '_')}=VALUE",
                    source,
                    path,
                )
                break
            text = text.replace(found, value)
        holder[key] = text


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
