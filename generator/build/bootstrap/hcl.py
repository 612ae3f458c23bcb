"""HCL as ``terraform fmt`` writes it: values, blocks, and nothing that needs a template.

Source of the form: HCL native syntax specification; ``hclwrite`` aligns the ``=`` of attributes on
lines that follow each other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

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


def string(text: str) -> str:
    """A quoted string in which nothing is interpolated."""
    return json.dumps(text, ensure_ascii=False).replace("${", "$${").replace("%{", "%%{")


def expression(value: Value) -> str:
    """A value on one line; maps are written by :func:`render`."""
    if isinstance(value, Reference):
        return value.text
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return string(value)
    if isinstance(value, Mapping):
        raise TypeError("a map has lines of its own")
    return "[" + ", ".join(expression(item) for item in value) + "]"


def render(blocks: Sequence[Block]) -> str:
    """A file's text."""
    return "\n".join("".join(f"{line}\n" for line in _block(block, "")) for block in blocks)


def _block(block: Block, indent: str) -> Iterator[str]:
    for line in block.comment:
        yield f"{indent}# {line}"
    head = " ".join([block.type, *(string(label) for label in block.labels)])
    if not block.body:
        yield f"{indent}{head} {{}}"
        return
    yield f"{indent}{head} {{"
    run: list[tuple[str, Value]] = []
    first = True
    for item in block.body:
        if not isinstance(item, Block) and not isinstance(item[1], Mapping):
            run.append(item)
            continue
        if run:
            yield from _aligned(run, indent + "  ")
            run, first = [], False
        if not first:
            yield ""
        first = False
        if isinstance(item, Block):
            yield from _block(item, indent + "  ")
        else:
            yield from _map(item[0], item[1], indent + "  ")  # type: ignore[arg-type]
    if run:
        if not first:
            yield ""
        yield from _aligned(run, indent + "  ")
    yield f"{indent}}}"


def _aligned(pairs: Sequence[tuple[str, Value]], indent: str) -> Iterator[str]:
    width = max(len(name) for name, _ in pairs)
    for name, value in pairs:
        yield f"{indent}{name:<{width}} = {expression(value)}"


def _map(name: str, value: Mapping[str, Value], indent: str) -> Iterator[str]:
    yield f"{indent}{name} = {{"
    pairs = [(key if _NAME.fullmatch(key) else string(key), item) for key, item in value.items()]
    yield from _aligned(pairs, indent + "  ")
    yield f"{indent}}}"
