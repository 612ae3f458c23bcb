"""Check rendered parameters against the inventory models, in plain words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from generator.findings import path_text
from generator.foreign_keys import ours
from generator.problems import Problem
from generator.spelling import nearest
from schemas.inventory import FOREIGN_KEYS, Parameters
from schemas.inventory.field_docs import field_docs

_EXPECTED: dict[str, str] = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "decimal_type": "a number",
    "is_instance_of": "a number",
}
_BOUNDS: dict[str, str] = {
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "too_short": "at least {min_length} of them",
    "too_long": "at most {max_length} of them",
    "literal_error": "{expected}",
}
_TRUTHY = frozenset("y yes on true".split())
_FALSY = frozenset("n no off false".split())


def validate(parameters: dict[str, Any]) -> tuple[Parameters | None, list[Problem]]:
    """Build the typed parameters, or say everything that is wrong with them."""
    own = {key: value for key, value in parameters.items() if key not in FOREIGN_KEYS}
    try:
        return Parameters.model_validate(own), []
    except ValidationError as error:
        problems = [_problem(detail) for detail in error.errors(include_url=False)]
        return None, _without_echoes(problems)


def _without_echoes(problems: list[Problem]) -> list[Problem]:
    """Leave out "X is missing" where the same mapping holds a misspelt X."""
    misspelt = {
        (*problem.path[:-1], problem.fix.removeprefix("write "))
        for problem in problems
        if problem.rule == "INV011"
    }
    return [p for p in problems if p.rule != "INV012" or p.path not in misspelt]


def _problem(detail: ErrorDetails) -> Problem:
    kind, found = detail["type"], detail["input"]
    path = tuple(part for part in detail["loc"] if part != "[key]")
    context = detail.get("ctx", {})
    on_key = "[key]" in detail["loc"] or kind == "extra_forbidden"
    if kind == "stowplan":
        return Problem("INV010", path, str(context["message"]), str(context["fix"]), key=on_key)
    if kind == "extra_forbidden":
        return _unknown_key(path)
    if kind == "missing":
        return Problem("INV012", path, f"{path_text(path)} is required and missing", _example(path))
    if kind in _BOUNDS:
        wanted = _BOUNDS[kind].format(**context)
        fix = ""
        if kind == "literal_error" and isinstance(found, str):
            options = [part.strip("' ") for part in wanted.replace(" or ", ", ").split(",")]
            near = nearest(found, options)
            fix = f"write {near}" if near else ""
        shown = f"{len(found)} entries" if kind in {"too_short", "too_long"} else _shown(found)
        return Problem("INV013", path, f"found {shown}, expected {wanted}", fix, key=on_key)
    if kind in _EXPECTED:
        return _wrong_type(path, _EXPECTED[kind], found)
    return Problem("INV015", path, f"{_shown(found)}: {detail['msg']}", key=on_key)


def _wrong_type(path: tuple[str | int, ...], wanted: str, found: Any) -> Problem:
    fix = ""
    if wanted == "text" and isinstance(found, bool | int | float):
        fix = f'quote it: "{_shown(found)}"'
    elif wanted == "true or false" and isinstance(found, str):
        word = found.lower()
        fix = "write true" if word in _TRUTHY else "write false" if word in _FALSY else ""
    elif wanted == "a list" and isinstance(found, str):
        fix = f"write [{found}]"
    elif wanted == "a mapping" and found is not None:
        fix = "write keys below it, indented further"
    elif isinstance(found, dict):
        fix = "write a value behind the colon, and nothing indented below it"
    elif wanted == "a whole number" and isinstance(found, str) and found.isdigit():
        fix = f"write it without quotes: {int(found)}"
    if found is None:
        return Problem(
            "INV014", path, f"found nothing, expected {wanted}", "write a value, or remove the key"
        )
    return Problem("INV014", path, f"found {_shown(found)}, expected {wanted}", fix)


def _unknown_key(path: tuple[str | int, ...]) -> Problem:
    *parent, key = path
    known = sorted(_keys_at(tuple(parent)))
    near = nearest(str(key), known)
    where = path_text(tuple(parent)) or "parameters"
    carried = ours(str(parent[0]), str(key)) if parent else None
    if carried:
        fix = f"write {carried}"
    elif near:
        fix = f"write {near}"
    elif not parent:
        fix = f"the sections are {', '.join(known)}; your own variables go under vars"
    else:
        fix = f"the keys of {where} are {', '.join(known)}"
    return Problem("INV011", path, f"unknown key {str(key)!r} in {where}", fix, key=True)


def _keys_at(path: tuple[str | int, ...]) -> Iterable[str]:
    """The keys that the inventory models allow at a path."""
    model: Any = Parameters
    for part in path:
        model = _inner(model, part)
        if model is None:
            return ()
    if isinstance(model, type) and issubclass(model, BaseModel):
        return [info.alias or name for name, info in model.model_fields.items()]
    return ()


def _inner(annotation: Any, part: str | int) -> Any:
    """The type behind one step of a path: a model's field, a mapping's value, a list's item."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        for name, info in annotation.model_fields.items():
            if (info.alias or name) == part:
                return _unwrap(info.annotation)
        return None
    arguments = get_args(annotation)
    if not arguments:
        return None
    return _unwrap(arguments[-1] if isinstance(part, str) else arguments[0])


def _unwrap(annotation: Any) -> Any:
    """Strip ``Annotated`` and ``| None``."""
    while True:
        arguments = get_args(annotation)
        if hasattr(annotation, "__metadata__"):
            annotation = arguments[0]
        elif type(None) in arguments:
            annotation = next(a for a in arguments if a is not type(None))
        else:
            return annotation


def _example(path: tuple[str | int, ...]) -> str:
    """What to write for a missing key: its docstring's first sentence helps more than its type."""
    model: Any = Parameters
    for part in path[:-1]:
        model = _inner(model, part)
    if isinstance(model, type) and issubclass(model, BaseModel):
        for name, info in model.model_fields.items():
            if (info.alias or name) == path[-1] and (text := field_docs(model).get(name)):
                first = text.replace("\n", " ").split(". ")[0].rstrip(".")
                return f"write {path[-1]}: {first[0].lower()}{first[1:]}"
    return ""


def _shown(value: Any) -> str:
    """A value as a message shows it, in YAML's spelling and of bounded length."""
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return (
            f"a mapping ({', '.join(map(str, list(value)[:3]))}{', …' if len(value) > 3 else ''})"
        )
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 80 else f"{text[:77]}…"
