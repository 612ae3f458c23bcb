"""The overlay file: what the inventory has no field for, added to what compile makes."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from generator.importing.residue import Path

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KEYWORDS = frozenset(
    "assert else error false for function if import importstr importbin in local null tailstrict "
    "then self super true".split()
)
_WIDTH = 88

_FUNCTIONS = """\
// Puts a value where a path leads; a step {key: value} picks the list entry that has it.
local put(node, path, value) =
  if std.length(path) == 0 then value
  else if std.isObject(path[0]) then
    local step = path[0], key = std.objectFields(step)[0];
    local fits(entry) = std.get(entry, key) == step[key];
    if std.length(std.filter(fits, node)) > 0
    then [if fits(entry) then put(entry, path[1:], value) else entry for entry in node]
    else node + [put(step, path[1:], value)]
  else
    local empty = if std.length(path) > 1 && std.isObject(path[1]) then [] else {};
    node { [path[0]]: put(std.get(node, path[0], empty), path[1:], value) };

local name(object) =
  local namespace = std.get(object.metadata, 'namespace', '');
  object.kind + ' ' + (if namespace == '' then '' else namespace + '/') + object.metadata.name;

local patched(object) = std.foldl(
  function(result, patch) put(result, patch.at, patch.value),
  std.get(patches, name(object), []),
  object
);

function(cluster, manifests) [patched(object) for object in manifests] + objects
"""


@dataclass
class Overlay:
    """What an overlay file will hold.

    Attributes:
        patches: resource → values and where they go.
        objects: whole objects, with a comment each.
    """

    patches: dict[str, list[tuple[Path, Any]]] = field(default_factory=dict)
    objects: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.patches or self.objects)

    def text(self, cluster: str) -> str:
        """The file."""
        lines = [
            f"// What the import of {cluster} found and the inventory has no field for.",
            "// stowplan compile applies it; delete what you do not need.",
            "",
            "// resource, as compile names it before its hash → values and where they go.",
            "local patches = {",
        ]
        for resource, patches in self.patches.items():
            lines.append(f"  {_string(resource)}: [")
            for path, value in patches:
                steps = [{step[0]: step[1]} if isinstance(step, tuple) else step for step in path]
                at = ", ".join(jsonnet(step, 0) for step in steps)
                lines.append("    {")
                lines.append(f"      at: [{at}],")
                lines.append(f"      value: {jsonnet(value, 6)},")
                lines.append("    },")
            lines.append("  ],")
        lines += [
            "};",
            "",
            "// Objects of kinds that the inventory does not make.",
            "local objects = [",
        ]
        for comment, body in self.objects:
            lines.append(f"  // {comment}")
            lines.append(f"  {jsonnet(body, 2)},")
        lines += ["];", ""]
        return "\n".join(lines) + "\n" + _FUNCTIONS


def _string(value: str) -> str:
    """A jsonnet string: single quotes, JSON's escapes."""
    if "'" in value:
        return json.dumps(value, ensure_ascii=False)
    inner = json.dumps(value, ensure_ascii=False)[1:-1].replace('\\"', '"')
    return f"'{inner}'"


def _key(key: str) -> str:
    return key if _IDENTIFIER.fullmatch(key) and key not in _KEYWORDS else _string(key)


def jsonnet(value: Any, indent: int) -> str:
    """A value as jsonnet, on one line where it fits."""
    if isinstance(value, str):
        return _string(value)
    if not isinstance(value, dict | list) or not value:
        return json.dumps(value)
    flat = _flat(value)
    if len(flat) + indent <= _WIDTH:
        return flat
    inner = " " * (indent + 2)
    if isinstance(value, dict):
        rows = [f"{inner}{_key(k)}: {jsonnet(v, indent + 2)},\n" for k, v in value.items()]
        return "{\n" + "".join(rows) + " " * indent + "}"
    if all(isinstance(item, int | float) for item in value):
        return "[\n" + _filled([_flat(item) for item in value], inner) + " " * indent + "]"
    rows = [f"{inner}{jsonnet(v, indent + 2)},\n" for v in value]
    return "[\n" + "".join(rows) + " " * indent + "]"


def _filled(items: list[str], inner: str) -> str:
    """Numbers in lines that are as full as they may be."""
    lines, line = [], inner
    for item in items:
        if len(line) + len(item) + 1 > _WIDTH:
            lines.append(line.rstrip())
            line = inner
        line += f"{item}, "
    return "".join(f"{text}\n" for text in [*lines, line.rstrip()])


def _flat(value: Any) -> str:
    if isinstance(value, dict):
        inner = ", ".join(f"{_key(k)}: {_flat(v)}" for k, v in value.items())
        return "{ " + inner + " }" if value else "{}"
    if isinstance(value, list):
        return "[" + ", ".join(_flat(v) for v in value) + "]"
    return _string(value) if isinstance(value, str) else json.dumps(value)
