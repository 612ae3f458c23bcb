"""HCL as ``terraform fmt`` writes it: values, blocks, and nothing that needs a template.

Source of the form: HCL native syntax specification; ``hclwrite`` aligns the ``=`` of attributes on
lines that follow each other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Reference:
    """An expression such as ``google_storage_bucket.backups.name``; never made from user text."""

    text: str


Value = str | int | bool | Reference | Sequence["Value"] | Mapping[str, "Value"]


@dataclass(frozen=True)
class Block:
    """A block: type, labels and what is in it, in order.

    Attributes:
        type: such as ``resource``.
        body: attributes as (name, value) pairs, and blocks.
        labels: such as the resource's type and name.
        comment: lines above it.
    """

    type: str
    body: tuple[tuple[str, Value] | Block, ...]
    labels: tuple[str, ...] = ()
    comment: tuple[str, ...] = ()


@lru_cache(maxsize=4096)
def string(text: str) -> str:
    """A quoted string in which nothing is interpolated."""
    return json.dumps(text, ensure_ascii=False).replace("${", "$${").replace("%{", "%%{")


def expression(value: Value) -> str:
    """A value on one line; maps are written by :func:`render`."""
    if isinstance(value, str):
        return string(value)
    if isinstance(value, Reference):
        return value.text
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Mapping):
        raise TypeError("a map has lines of its own")
    return "[" + ", ".join(expression(item) for item in value) + "]"


def render(blocks: Sequence[Block]) -> str:
    """A file's text."""
    lines: list[str] = []
    for block in blocks:
        if lines:
            lines.append("")
        _block(block, "", lines)
    return "".join(f"{line}\n" for line in lines)


def _block(block: Block, indent: str, out: list[str]) -> None:
    for line in block.comment:
        out.append(f"{indent}# {line}")
    head = " ".join([block.type, *map(string, block.labels)])
    if not block.body:
        out.append(f"{indent}{head} {{}}")
        return
    out.append(f"{indent}{head} {{")
    opened = len(out)
    deeper = indent + "  "
    run: list[tuple[str, Value]] = []

    def flush() -> None:
        if run:
            _separate(out, opened)
            _aligned(run, deeper, out)
            run.clear()

    for item in block.body:
        if isinstance(item, Block):
            flush()
            _separate(out, opened)
            _block(item, deeper, out)
        elif isinstance(item[1], dict):
            flush()
            _separate(out, opened)
            _map(item[0], item[1], deeper, out)
        else:
            run.append(item)
    flush()
    out.append(f"{indent}}}")


def _separate(out: list[str], opened: int) -> None:
    """An empty line, but not at the top of a block."""
    if len(out) > opened:
        out.append("")


def _aligned(pairs: Sequence[tuple[str, Value]], indent: str, out: list[str]) -> None:
    width = max([len(name) for name, _ in pairs])
    for name, value in pairs:
        out.append(f"{indent}{name:<{width}} = {expression(value)}")


def _map(name: str, value: Mapping[str, Value], indent: str, out: list[str]) -> None:
    out.append(f"{indent}{name} = {{")
    pairs = [(key if _NAME.fullmatch(key) else string(key), item) for key, item in value.items()]
    _aligned(pairs, indent + "  ", out)
    out.append(f"{indent}}}")
