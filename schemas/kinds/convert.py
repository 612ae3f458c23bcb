"""Turn an upstream schema into what the checks run on.

A CustomResourceDefinition carries OpenAPI with Kubernetes' extensions; the API server gives it a
meaning that plain JSON Schema has not: closed objects (strict decoding), int-or-string, keyed
lists, defaults, pruned nulls and CEL rules. This module splits one such schema into

* a closed JSON Schema (draft 2020-12) that says what strict decoding and structural validation say,
* three sparse trees that follow the schema's shape and hold only what the JSON Schema cannot:
  ``lists`` (keyed lists and sets), ``defaults`` and ``cel``.

A tree node is a mapping with ``p`` (children by property), ``i`` (child of every item), ``a``
(child of every value of an open map) and its payload.

Sources: Kubernetes documentation "Extend the Kubernetes API with CustomResourceDefinitions"
(structural schemas, pruning, defaulting, nullable) and
``k8s.io/apiextensions-apiserver/pkg/apiserver/schema``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

Schema = dict[str, Any]
Tree = dict[str, Any]

_COPIED = (
    "enum",
    "pattern",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "uniqueItems",
)
_INT32 = (-(2**31), 2**31 - 1)
_CHECKED_FORMATS = {"date-time", "byte"}
_STRING_MAP: Schema = {"type": "object", "additionalProperties": {"type": "string"}}

OBJECT_META: Schema = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "generateName": {"type": "string"},
        "namespace": {"type": "string"},
        "labels": _STRING_MAP,
        "annotations": _STRING_MAP,
        "finalizers": {"type": "array", "items": {"type": "string"}},
        "ownerReferences": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "apiVersion": {"type": "string"},
                    "kind": {"type": "string"},
                    "name": {"type": "string"},
                    "uid": {"type": "string"},
                    "controller": {"type": "boolean"},
                    "blockOwnerDeletion": {"type": "boolean"},
                },
                "required": ["apiVersion", "kind", "name", "uid"],
            },
        },
        "managedFields": {
            "type": "array",
            "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
        "creationTimestamp": {"type": "string", "format": "date-time"},
        "deletionTimestamp": {"type": "string", "format": "date-time"},
        "deletionGracePeriodSeconds": {"type": "integer", "format": "int64"},
        "generation": {"type": "integer", "format": "int64"},
        "resourceVersion": {"type": "string"},
        "selfLink": {"type": "string"},
        "uid": {"type": "string"},
    },
}
"""``k8s.io/apimachinery`` ``meta/v1.ObjectMeta``: CRDs leave it out, the API server knows it."""


def _types(schema: Schema) -> list[str]:
    """The JSON types that a value may have, ``null`` only where the schema says nullable."""
    if schema.get("x-kubernetes-int-or-string"):
        types = ["integer", "string"]
    else:
        declared = schema.get("type", [])
        types = [declared] if isinstance(declared, str) else [t for t in declared if t != "null"]
    if types and schema.get("nullable"):
        types = [*types, "null"]
    return types


def _bounds(schema: Schema, out: Schema) -> None:
    if schema.get("format") == "int32" and schema.get("type") == "integer":
        low, high = _INT32
        out["minimum"] = max(low, schema.get("minimum", low))
        out["maximum"] = min(high, schema.get("maximum", high))


def to_json_schema(schema: Schema, *, closed: bool = True) -> Schema:
    """Convert one structural schema node and everything below it.

    Args:
        schema: an OpenAPI v3 structural schema, or a core definition whose ``$ref`` points into
            ``#/$defs/``.
        closed: refuse undeclared properties, as strict decoding does; False below ``anyOf`` and the
            like, which only ever add conditions.
    """
    if "$ref" in schema:
        return {"$ref": schema["$ref"]}
    out: Schema = {}
    types = _types(schema)
    if types:
        out["type"] = types[0] if len(types) == 1 else types
    out.update({key: schema[key] for key in _COPIED if key in schema})
    if schema.get("format") in _CHECKED_FORMATS:
        out["format"] = schema["format"]
    _bounds(schema, out)
    properties: dict[str, Schema] = schema.get("properties", {})
    if properties:
        out["properties"] = {
            name: to_json_schema(child, closed=closed) for name, child in properties.items()
        }
    required = [
        name for name in schema.get("required", []) if "default" not in properties.get(name, {})
    ]
    if required:
        out["required"] = required
    if isinstance(schema.get("items"), dict):
        out["items"] = to_json_schema(schema["items"], closed=closed)
    extra = schema.get("additionalProperties")
    if isinstance(extra, dict):
        out["additionalProperties"] = to_json_schema(extra, closed=closed)
    elif closed and _closes(schema):
        out["additionalProperties"] = False
    if not schema.get("x-kubernetes-int-or-string"):
        for word in ("allOf", "anyOf", "oneOf"):
            if word in schema:
                out[word] = [to_json_schema(branch, closed=False) for branch in schema[word]]
    if "not" in schema:
        out["not"] = to_json_schema(schema["not"], closed=False)
    return out


def _closes(schema: Schema) -> bool:
    """Whether undeclared properties of this object are pruned (and so refused when strict)."""
    return (
        schema.get("type") == "object"
        and schema.get("additionalProperties") is not True
        and not schema.get("x-kubernetes-preserve-unknown-fields")
        and not schema.get("x-kubernetes-embedded-resource")
    )


def close_definition(schema: Schema) -> Schema:
    """Prepare a core definition: the published files mark every field nullable; the API server
    treats a null there as an absent field, which the checks do by pruning.
    """
    out = {key: value for key, value in schema.items() if key not in {"$id", "$schema"}}
    declared = out.get("type")
    if isinstance(declared, list):
        kept = [name for name in declared if name != "null"]
        out["type"] = kept[0] if len(kept) == 1 else kept
    if "$ref" in out:
        return {"$ref": "#/$defs/" + str(out["$ref"]).rpartition("/")[2]}
    if "properties" in out:
        out["properties"] = {k: close_definition(v) for k, v in out["properties"].items()}
        out.setdefault("type", "object")
    for word in ("items", "additionalProperties"):
        if isinstance(out.get(word), dict):
            out[word] = close_definition(out[word])
    if "oneOf" in out and {branch.get("type") for branch in out["oneOf"]} == {"string", "integer"}:
        return {"x-kubernetes-int-or-string": True}
    return out


Payload = Callable[[Schema], Tree]


def build_tree(
    schema: Schema, payload: Payload, definitions: dict[str, Schema] | None = None
) -> Tree:
    """Build the sparse tree of one payload; an empty mapping where there is nothing to say.

    Recursive definitions are followed once: none of the kinds here nests a keyed list in itself.
    """
    return _tree(schema, payload, definitions or {}, ())


def _tree(
    schema: Schema, payload: Payload, definitions: dict[str, Schema], seen: tuple[str, ...]
) -> Tree:
    while "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        if name in seen:
            return {}
        seen = (*seen, name)
        schema = definitions[name]
    node = payload(schema)
    children = {
        name: child
        for name, below in sorted(schema.get("properties", {}).items())
        if (child := _tree(below, payload, definitions, seen))
    }
    if children:
        node["p"] = children
    for word, slot in (("items", "i"), ("additionalProperties", "a")):
        below = schema.get(word)
        if isinstance(below, dict) and (child := _tree(below, payload, definitions, seen)):
            node[slot] = child
    return node


def list_payload(schema: Schema) -> Tree:
    """``k``: the keys that must be unique among a list's items; ``set``: the items themselves."""
    kind = schema.get("x-kubernetes-list-type")
    if kind == "map" and schema.get("x-kubernetes-list-map-keys"):
        items = schema.get("items", {}).get("properties", {})
        keys = schema["x-kubernetes-list-map-keys"]
        defaults = {k: items[k]["default"] for k in keys if "default" in items.get(k, {})}
        return {"k": keys, **({"d": defaults} if defaults else {})}
    return {"set": True} if kind == "set" else {}


def default_payload(schema: Schema) -> Tree:
    """``d``: the value that the API server fills in when the field is absent."""
    return {"d": schema["default"]} if "default" in schema else {}


def cel_payload(schema: Schema) -> Tree:
    """``r``: the node's ``x-kubernetes-validations``."""
    rules = schema.get("x-kubernetes-validations")
    return {"r": rules} if rules else {}


def shape_payload(schema: Schema) -> Tree:
    """``n``: the field may be null, so a null stays; elsewhere the API server drops it."""
    return {"n": True} if schema.get("nullable") else {}


def convert_crd_version(crd: Schema, version: Schema) -> dict[str, Any]:
    """Convert one served version of a CustomResourceDefinition."""
    group, names = crd["spec"]["group"], crd["spec"]["names"]
    api_version = f"{group}/{version['name']}"
    root: Schema = dict(version["schema"]["openAPIV3Schema"])
    root["properties"] = {
        **root.get("properties", {}),
        "apiVersion": {"type": "string", "enum": [api_version]},
        "kind": {"type": "string", "enum": [names["kind"]]},
        "metadata": OBJECT_META,
    }
    return {
        "apiVersion": api_version,
        "kind": names["kind"],
        "namespaced": crd["spec"]["scope"] == "Namespaced",
        "custom": True,
        "deprecated": bool(version.get("deprecated")),
        "schema": to_json_schema(root),
        "lists": build_tree(root, list_payload),
        "defaults": build_tree(root, default_payload),
        "nullable": build_tree(root, shape_payload),
        "cel": build_tree(root, cel_payload),
    }


def closure(definitions: dict[str, Schema], roots: Iterable[str]) -> list[str]:
    """Every definition that the roots reach, sorted."""
    found: set[str] = set()
    todo = list(roots)
    while todo:
        name = todo.pop()
        if name in found:
            continue
        found.add(name)
        todo.extend(_references(definitions[name]))
    return sorted(found)


def _references(value: Any) -> Iterable[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"].rpartition("/")[2]
        for child in value.values():
            yield from _references(child)
    elif isinstance(value, list):
        for child in value:
            yield from _references(child)
