"""Write plain values as YAML that every reader reads alike.

Written by hand because it is the generator's hot path: libyaml's dumper is several times slower on
a fleet, and both PyYAML dumpers leave strings bare that Go's parser reads as numbers or booleans
(``y``, ``1e3``, ``08``; pyyaml#247). The rule here is the safe direction: a string is plain only if
it matches a narrow pattern and no reader's keyword, else it is double-quoted in JSON's escapes,
which are YAML's as well. Sequences are indented, long strings are not folded, multi-line text is a
literal block where that is exact.
"""

from __future__ import annotations

import json
import re
from typing import Any

_PLAIN = re.compile(
    r"(?:--?)?[A-Za-z_/][-A-Za-z0-9_./@+=,]*(?:[:][-A-Za-z0-9_./@+=,]+)*"
    r"(?: [-A-Za-z0-9_./@+=,()]+)*"
    r"|[1-9][0-9]*(?:[KMGTPE]i|m)"  # quantities
    r"|[1-9][0-9]*(?:x[1-9][0-9]*)+"  # topologies
    r"|[0-9]+\.[0-9]+\.[0-9]+(?:-[A-Za-z][A-Za-z0-9.]*)?"  # versions
)
_KEYWORDS = frozenset("y n yes no on off true false null none nan inf .inf .nan ~ = <<".split())
_BLOCK_SAFE = re.compile(
    r"[^\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]*"
)
_strings: dict[str, str] = {}


def scalar(value: str) -> str:
    """Write one string on one line, quoted unless every YAML reader takes it for that string."""
    known = _strings.get(value)
    if known is None:
        plain = _PLAIN.fullmatch(value) is not None and value.lower() not in _KEYWORDS
        known = value if plain else _quoted(value)
        if len(_strings) < 65_536:
            _strings[value] = known
    return known


def _quoted(value: str) -> str:
    """JSON's string, with the escapes that YAML needs beyond JSON's."""
    text = json.dumps(value, ensure_ascii=False)
    return re.sub(
        r"[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]",
        lambda m: f"\\u{ord(m[0]):04x}",
        text,
    )


def _inline(value: Any) -> str | None:
    """Write what fits behind a key: scalars and empty collections; None for the rest."""
    if isinstance(value, str):
        return None if "\n" in value and _is_block(value) else scalar(value)
    if value is True:
        return "true"
    if value is False:
        return "false"
    if value is None:
        return "null"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, dict):
        return None if value else "{}"
    if isinstance(value, list | tuple):
        return None if value else "[]"
    if isinstance(value, float):
        return _float(value)
    raise TypeError(f"a manifest cannot hold a {type(value).__name__}")


def _float(value: float) -> str:
    text = json.dumps(value, allow_nan=False)
    return text if "e" not in text or "." in text.split("e")[0] else text.replace("e", ".0e")


def _is_block(value: str) -> bool:
    """Whether a literal block reproduces the text exactly and stays readable."""
    first = value.lstrip("\n")
    return (
        value.strip() != ""
        and not first.startswith((" ", "\t"))
        and not value.startswith("\n")
        and _BLOCK_SAFE.fullmatch(value) is not None
    )


def _block(value: str, indent: str, out: list[str]) -> None:
    body = value.rstrip("\n")
    trailing = len(value) - len(body)
    out.append({0: "|-\n", 1: "|\n"}.get(trailing, "|+\n"))
    for line in body.split("\n"):
        out.append(f"{indent}{line}\n" if line else "\n")
    out.append("\n" * (trailing - 1))


def _write(value: Any, indent: str, out: list[str]) -> None:
    """Write a non-empty collection, each line beginning with indent."""
    if isinstance(value, dict):
        _write_mapping(value, indent, out)
    else:
        _write_sequence(value, indent, out)


def _write_mapping(value: dict[str, Any], indent: str, out: list[str]) -> None:
    known = _strings
    deeper = indent + "  "
    for key, item in value.items():
        head = known.get(key) or scalar(key)
        kind = item.__class__
        # Nearly every value is a string seen before; a multi-line one never is in the table.
        text = known.get(item) if kind is str else None
        if text is None:
            if kind is dict and item:
                out.append(f"{indent}{head}:\n")
                _write_mapping(item, deeper, out)
                continue
            if kind is list and item:
                out.append(f"{indent}{head}:\n")
                _write_sequence(item, deeper, out)
                continue
            text = _inline(item)
        if text is not None:
            out.append(f"{indent}{head}: {text}\n")
        elif isinstance(item, str):
            out.append(f"{indent}{head}: ")
            _block(item, deeper, out)
        else:
            out.append(f"{indent}{head}:\n")
            _write(item, deeper, out)


def _write_sequence(value: list[Any], indent: str, out: list[str]) -> None:
    known = _strings
    deeper = indent + "  "
    for item in value:
        text = known.get(item) if item.__class__ is str else _inline(item)
        if text is None:
            text = _inline(item)
        if text is not None:
            out.append(f"{indent}- {text}\n")
        elif isinstance(item, str):
            out.append(f"{indent}- ")
            _block(item, deeper, out)
        else:
            start = len(out)
            _write(item, deeper, out)
            # The first line of the nested collection moves up behind the dash.
            out[start] = f"{indent}- {out[start][len(deeper) :]}"


def dump(value: dict[str, Any]) -> str:
    """Return the YAML text of one object; keys keep their order, anchors are never written.

    Raises:
        TypeError: the object holds something that is no JSON value.
        ValueError: a float is not finite.
    """
    if not value:
        return "{}\n"
    out: list[str] = []
    _write(value, "", out)
    return "".join(out)


def dump_list(value: list[dict[str, Any]]) -> str:
    """Return the YAML text of a list of objects, such as a JSON patch.

    Raises:
        TypeError, ValueError: as :func:`dump`.
    """
    if not value:
        return "[]\n"
    out: list[str] = []
    _write(value, "", out)
    return "".join(out)
