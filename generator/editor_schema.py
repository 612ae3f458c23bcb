"""JSON Schema of an inventory file, for editors (yaml-language-server).

An inventory file holds a part of a target's parameters, and reclass has a syntax of its own: any
value may be a ``${reference}``, any key may carry ``~`` (override) or ``=`` (constant), and nothing
is required in one file because another may say it. The models' schema is loosened accordingly.
"""

from __future__ import annotations

from typing import Any

from schemas.inventory import Parameters

REFERENCE = {"type": "string", "pattern": r"\$\{.+\}"}
_NAMES = {"type": "array", "items": {"type": "string"}}


def inventory_schema() -> dict[str, Any]:
    """The schema of one file of ``inventory/targets`` or ``inventory/classes``."""
    schema = Parameters.model_json_schema(by_alias=True, mode="validation")
    definitions = {name: _loosened(body) for name, body in schema.pop("$defs").items()}
    parameters = _loosened(schema)
    parameters["properties"] |= {
        "kapitan": {"type": "object", "description": "Kapitan's own parameters."},
    }
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "stowplan inventory file",
        "description": "A target (one cluster) or a class of the inventory.",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "classes": {
                **_NAMES,
                "description": "Classes to merge, in order; dots stand for folders.",
            },
            "applications": _NAMES,
            "environment": {"type": "string"},
            "exports": {"type": "object"},
            "parameters": parameters,
        },
        "definitions": definitions,
    }


def _loosened(schema: dict[str, Any]) -> dict[str, Any]:
    """An object's schema with nothing required, marked keys allowed and references everywhere."""
    loose = {key: value for key, value in schema.items() if key not in {"required", "title"}}
    if "properties" in loose:
        loose["properties"] = {key: _value(body) for key, body in loose["properties"].items()}
        if loose.get("additionalProperties") is False:
            loose["patternProperties"] = {"^[~=]": {}}
    return loose


def _value(schema: Any) -> Any:
    """A value's schema, or a reference in its place."""
    if not isinstance(schema, dict):
        return schema
    body = {
        key: _moved(value) if key == "$ref" else value
        for key, value in schema.items()
        if key not in {"title", "default"}
    }
    for key in ("items", "additionalProperties"):
        if key in body:
            body[key] = _value(body[key])
    if "prefixItems" in body:
        body["prefixItems"] = [_value(item) for item in body["prefixItems"]]
    if "anyOf" in body:
        options = [_value_option(option) for option in body.pop("anyOf")]
        return {**body, "anyOf": [*options, REFERENCE]}
    if not body or (body.get("type") == "string" and "enum" not in body and "const" not in body):
        return body
    notes = {key: body.pop(key) for key in ("description",) if key in body}
    return {**notes, "anyOf": [body, REFERENCE]}


def _value_option(option: Any) -> Any:
    """One of several: the reference is added once for all of them."""
    loosened = _value(option)
    if isinstance(loosened, dict) and set(loosened) == {"anyOf"}:
        return loosened["anyOf"][0]
    return loosened


def _moved(reference: str) -> str:
    return reference.replace("#/$defs/", "#/definitions/")
