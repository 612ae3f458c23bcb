"""Messages as bytes: JSON of the core's dataclasses, decoded strictly.

Whatever arrives is checked against the types of the message, with limits on every list, number and
string, before the core sees it. Anything else raises WireError and closes the connection.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import types
import typing
from enum import StrEnum
from typing import Any, TypeVar

from replicator.core import messages as msg
from replicator.core.model import Content
from replicator.errors import ProtocolError
from replicator.manifest import MAX_FILES
from replicator.protocol import is_safe_job_name

MAX_FRAME_BYTES = 16 * 1024 * 1024
MAX_TEXT = 4096
MAX_ITEMS = MAX_FILES
MAX_NUMBER = 2**63 - 1
PROTOCOL_VERSION = 2

_HEX = frozenset("0123456789abcdef")

M = TypeVar("M")


class WireError(ProtocolError):
    """A frame that is no message of this protocol."""


_TO_COORDINATOR: dict[str, type[Any]] = {t.__name__: t for t in typing.get_args(msg.ToCoordinator)}
_TO_NODE: dict[str, type[Any]] = {t.__name__: t for t in typing.get_args(msg.ToNode)}


def encode(message: object) -> bytes:
    """A message as one frame's payload."""
    fields = {f.name: _plain(getattr(message, f.name)) for f in _fields(type(message))}
    return json.dumps({"type": type(message).__name__, **fields}, separators=(",", ":")).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def decode_to_coordinator(payload: bytes) -> msg.ToCoordinator:
    """What a node may say.

    Raises:
        WireError: anything else.
    """
    message = _decode(payload, _TO_COORDINATOR)
    if isinstance(message, msg.Hello):
        _check_hello(message)
    return typing.cast("msg.ToCoordinator", message)


def decode_to_node(payload: bytes) -> msg.ToNode:
    """What a coordinator may say.

    Raises:
        WireError: anything else.
    """
    return typing.cast("msg.ToNode", _decode(payload, _TO_NODE))


def decode_json(payload: bytes) -> dict[str, Any]:
    """A frame that holds one JSON object.

    Raises:
        WireError: anything else.
    """
    try:
        document = json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise WireError(f"not JSON: {type(error).__name__}") from None
    if not isinstance(document, dict):
        raise WireError("not a JSON object")
    return document


def _decode(payload: bytes, known: dict[str, type[Any]]) -> object:
    document = decode_json(payload)
    name = document.pop("type", None)
    kind: Any = known.get(name) if isinstance(name, str) else None
    if kind is None:
        raise WireError(f"unknown message {str(name)[:40]!r}")
    hints = _hints(kind)
    if document.keys() != hints.keys():
        raise WireError(f"{name}: wrong fields")
    values = {key: _value(hints[key], document[key], f"{name}.{key}") for key in hints}
    return kind(**values)


@functools.cache
def _hints(kind: type[Any]) -> dict[str, Any]:
    """The types of a message's fields. Finding them out takes longer than all the rest."""
    return typing.get_type_hints(kind)


def _fields(kind: type[Any]) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(kind)


def _value(hint: Any, value: Any, where: str) -> Any:
    """The value as the type says, or WireError."""
    origin = typing.get_origin(hint)
    if origin in (types.UnionType, typing.Union):
        options = [a for a in typing.get_args(hint) if a is not type(None)]
        return None if value is None else _value(options[0], value, where)
    if origin is tuple:
        return _list(typing.get_args(hint)[0], value, where)
    if hint is bool:
        return _checked(isinstance(value, bool), value, where)
    if hint is int:
        good = isinstance(value, int) and not isinstance(value, bool)
        return _checked(good and -1 <= value <= MAX_NUMBER, value, where)
    if hint is str:
        return _checked(isinstance(value, str) and len(value) <= MAX_TEXT, value, where)
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        try:
            return hint(value)
        except ValueError:
            raise WireError(f"{where}: not a {hint.__name__}") from None
    return _named_tuple(hint, value, where)


def _checked(good: bool, value: Any, where: str) -> Any:
    if not good:
        raise WireError(f"{where}: not acceptable")
    return value


def _list(item: Any, value: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(value, list) or len(value) > MAX_ITEMS:
        raise WireError(f"{where}: not a list, or too long")
    return tuple(_value(item, one, where) for one in value)


def _named_tuple(hint: Any, value: Any, where: str) -> Any:
    hints = _hints(hint)
    if not isinstance(value, list) or len(value) != len(hints):
        raise WireError(f"{where}: not a {hint.__name__}")
    made = hint(
        *(_value(h, v, f"{where}.{n}") for (n, h), v in zip(hints.items(), value, strict=True))
    )
    if isinstance(made, Content) and not (is_hash(made.digest) and is_hash(made.manifest)):
        raise WireError(f"{where}: not a hash")
    return made


def is_hash(text: str) -> bool:
    """64 hexadecimal digits, with `D` before for directories: safe in a path."""
    digits = text.removeprefix("D")
    return len(digits) == 64 and _HEX.issuperset(digits)


def _check_hello(hello: msg.Hello) -> None:
    if not is_safe_job_name(hello.job) or (hello.uid and not is_safe_job_name(hello.uid)):
        raise WireError("Hello: unsafe job name or uid")
    if hello.world < 1 or hello.workers < 1 or hello.rank < 0:
        raise WireError("Hello: impossible numbers")
    if len(hello.peers) > hello.world:
        raise WireError("Hello: more peers than nodes")
