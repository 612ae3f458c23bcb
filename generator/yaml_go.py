"""A YAML loader that resolves plain scalars as Go does, and refuses duplicate keys.

kubectl and Argo CD parse with Go's ``sigs.k8s.io/yaml``; PyYAML differs on about one plain scalar
in fifty of the odd kind (``y``, ``1e3``, ``0o17``, ``1:20``, dates).

Source: ``sigs.k8s.io/yaml`` (goyaml.v2 ``resolve.go``), compared over a corpus of scalars.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import yaml

try:
    from yaml import CSafeLoader as _BaseLoader
except ImportError:  # PyYAML built without libyaml: slower, the same result
    from yaml import SafeLoader as _BaseLoader  # type: ignore[assignment]


class _NotPlainError(Exception):
    """A node that PyYAML's own constructor has to build: a merge key, or a key that is no text."""


class GoLoader(_BaseLoader):
    """A safe loader with Go's scalar resolution and duplicate-key errors."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - PyYAML's own class protocol
    plain = False

    def construct_document(self, node: yaml.Node) -> Any:
        """Build a document's value, directly where the text has neither aliases nor tags.

        PyYAML's constructor goes through generators and tables that those need; nearly every
        manifest has neither, and loads in half the time without them.
        """
        if not self.plain:
            return super().construct_document(node)
        try:
            return _plain_value(node)
        except _NotPlainError:
            return super().construct_document(node)

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Apply merge keys as PyYAML does, after checking that no key stands twice."""
        seen: set[tuple[str, str]] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag == "tag:yaml.org,2002:merge":
                continue
            identity = (key.tag, key.value)
            if identity in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key.value!r} stands twice in one mapping", key.start_mark
                )
            seen.add(identity)
        super().flatten_mapping(node)


_STRING, _MAPPING, _SEQUENCE, _NULL = (
    f"tag:yaml.org,2002:{name}" for name in ("str", "map", "seq", "null")
)


def _plain_value(node: yaml.Node) -> Any:
    """The value of a node of a text that has neither aliases nor tags."""
    tag, value = node.tag, node.value
    if tag == _STRING:
        return value
    if tag == _MAPPING:
        out = {}
        for key, child in value:
            if key.tag != _STRING or key.value in out:
                # PyYAML's way knows the other keys, and what to say of one that stands twice.
                raise _NotPlainError
            out[key.value] = _plain_value(child)
        return out
    if tag == _SEQUENCE:
        return [_plain_value(child) for child in value]
    read = _PLAIN_SCALARS.get(tag)
    if read is None:
        raise _NotPlainError
    return read(value)


def _resolver(tag: str, pattern: str, first: str) -> None:
    GoLoader.add_implicit_resolver(
        f"tag:yaml.org,2002:{tag}", re.compile(pattern, re.X), list(first)
    )


_resolver(
    "bool",
    r"^(?:y|Y|yes|Yes|YES|n|N|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF)$",
    "yYnNtTfFoO",
)
_resolver(
    "int", r"^[-+]?(?:0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|(?:0|[1-9][0-9_]*))$", "-+0123456789"
)
_resolver(
    "float",
    r"""^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?
        |[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$""",
    "-+0123456789.",
)
_resolver("merge", r"^<<$", "<")
_resolver("null", r"^(?:~|null|Null|NULL|)$", "~nN\0")
GoLoader.yaml_implicit_resolvers.setdefault("", []).append(
    ("tag:yaml.org,2002:null", re.compile(r"^$"))
)


_BOOLEANS = {
    **dict.fromkeys(("y", "yes", "true", "on"), True),
    **dict.fromkeys(("n", "no", "false", "off"), False),
}


def _bool(text: str) -> bool:
    return _BOOLEANS[text.lower()]


def _int(text: str) -> int:
    text = text.replace("_", "")
    sign = -1 if text.startswith("-") else 1
    digits = text.lstrip("+-")
    if len(digits) > 1 and digits[0] == "0":
        prefix = digits[:2].lower()
        base = {"0b": 2, "0o": 8, "0x": 16}.get(prefix)
        return sign * (int(digits[2:], base) if base else int(digits, 8))
    return sign * int(digits)


def _float(text: str) -> float:
    text = text.lower()
    if text.endswith((".inf", ".nan")):
        return float(text.replace(".", "", 1))
    return float(text)


_PLAIN_SCALARS: dict[str, Callable[[str], Any]] = {
    "tag:yaml.org,2002:bool": _bool,
    "tag:yaml.org,2002:int": _int,
    "tag:yaml.org,2002:float": _float,
    _NULL: lambda text: None,
}


def _constructor(read: Callable[[str], Any]) -> Callable[[GoLoader, yaml.ScalarNode], Any]:
    return lambda loader, node: read(loader.construct_scalar(node))


for _tag, _read in _PLAIN_SCALARS.items():
    if _tag != _NULL:
        GoLoader.add_constructor(_tag, _constructor(_read))
