"""Random changes to good manifests, by seed: slips of the pen and values from the API's schema."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .controlplane.client import Client, Manifest

Path = tuple[str | int, ...]

STRINGS = (
    "a",
    "demo",
    "Never",
    "1",
    "0.5",
    "64Gi",
    "64GB",
    "500m",
    "",
    "a_b",
    "Two Words",
    "-a",
    "a.b/c",
    "example.com/gpu",
    "x" * 70,
    "https://example.com",
    "30s",
)
INTEGERS = (-1, 0, 1, 2, 3, 100, 2**31 - 1, 2**31, 2**40)
#: Deeper values than this are left empty.
DEPTH = 5


@dataclass(frozen=True)
class Mutation:
    """A changed manifest and what was done to it."""

    manifest: Manifest
    change: str

    @property
    def kind(self) -> str:
        return str(self.manifest.get("kind"))


class Mutator:
    """Makes mutations of manifests; the same seed gives the same mutations.

    Args:
        schemas: OpenAPI schemas by API version and kind, to insert fields that exist.
        seed: of the random numbers.
    """

    def __init__(self, schemas: Mapping[tuple[str, str], Schemas], seed: int) -> None:
        self._schemas = schemas
        self._random = random.Random(seed)

    def mutate(self, manifest: Manifest) -> Mutation:
        """One manifest with one change, sometimes two."""
        changed = copy.deepcopy(manifest)
        changes = [self._change(changed)]
        if self._random.random() < 0.2:
            changes.append(self._change(changed))
        return Mutation(changed, "; ".join(changes))

    def _change(self, manifest: Manifest) -> str:
        schemas = self._schemas.get((str(manifest.get("apiVersion")), str(manifest.get("kind"))))
        if schemas is not None and self._random.random() < 0.45:
            done = self._insert(manifest, schemas)
            if done:
                return done
        while True:
            path = self._random.choice(list(paths(manifest)))
            operation = self._random.choice(OPERATIONS)
            done = operation(manifest, path, self._random)
            if done:
                return f"{text(path)}: {done}"

    def _insert(self, manifest: Manifest, schemas: Schemas) -> str:
        """Set an optional field of the schema that the manifest leaves out."""
        places = [
            (path, schema)
            for path, schema in schemas.objects(manifest)
            if set(schema.get("properties", {})) - set(at(manifest, path))
        ]
        places = [place for place in places if place[0] != ()]
        if not places:
            return ""
        path, schema = self._random.choice(places)
        target = at(manifest, path)
        name = self._random.choice(sorted(set(schema["properties"]) - set(target)))
        target[name] = schemas.value(schema["properties"][name], self._random)
        return f"{text((*path, name))}: set to {target[name]!r}"[:200]


class Schemas:
    """The OpenAPI schema of one kind, with its references."""

    def __init__(self, root: dict[str, Any], components: Mapping[str, Any]) -> None:
        self._root = root
        self._components = components

    def resolve(self, schema: dict[str, Any]) -> dict[str, Any]:
        while True:
            reference = schema.get("$ref") or next(
                (part["$ref"] for part in schema.get("allOf", []) if "$ref" in part), None
            )
            if reference is None:
                return schema
            schema = self._components[reference.rpartition("/")[2]]

    def objects(self, manifest: Manifest) -> Iterator[tuple[Path, dict[str, Any]]]:
        """Every mapping of the manifest that has named fields, with its schema."""
        yield from self._objects(manifest, self._root, ())

    def _objects(
        self, value: Any, schema: dict[str, Any], path: Path
    ) -> Iterator[tuple[Path, dict[str, Any]]]:
        schema = self.resolve(schema)
        if isinstance(value, dict) and "properties" in schema:
            yield path, schema
            for key, item in value.items():
                if key in schema["properties"]:
                    yield from self._objects(item, schema["properties"][key], (*path, key))
        elif isinstance(value, list) and "items" in schema:
            for index, item in enumerate(value):
                yield from self._objects(item, schema["items"], (*path, index))

    def value(self, schema: dict[str, Any], rng: random.Random, depth: int = 0) -> Any:
        """A value of about the right shape: mostly of the right type, seldom well chosen."""
        schema = self.resolve(schema)
        if "enum" in schema and rng.random() < 0.85:
            return rng.choice(schema["enum"])
        if schema.get("x-kubernetes-int-or-string") or "oneOf" in schema or "anyOf" in schema:
            return rng.choice((*STRINGS, *INTEGERS))
        make: _Maker = _MAKERS.get(str(schema.get("type")), _MAKERS["object"])
        return make(self, schema, rng, depth)

    def _string(self, schema: dict[str, Any], rng: random.Random, depth: int) -> str:
        return rng.choice(STRINGS)

    def _integer(self, schema: dict[str, Any], rng: random.Random, depth: int) -> int:
        return rng.choice(INTEGERS)

    def _number(self, schema: dict[str, Any], rng: random.Random, depth: int) -> float:
        return rng.choice((0.5, 1, -1))

    def _boolean(self, schema: dict[str, Any], rng: random.Random, depth: int) -> bool:
        return rng.random() < 0.5

    def _array(self, schema: dict[str, Any], rng: random.Random, depth: int) -> list[Any]:
        if depth > DEPTH:
            return []
        count = rng.choice((0, 1, 1, 1, 2))
        return [self.value(schema["items"], rng, depth + 1) for _ in range(count)]

    def _object(self, schema: dict[str, Any], rng: random.Random, depth: int) -> dict[str, Any]:
        properties = schema.get("properties", {})
        if depth > DEPTH:
            return {}
        if not properties:
            values = schema.get("additionalProperties")
            if not isinstance(values, dict):
                return {}
            return {rng.choice(STRINGS): self.value(values, rng, depth + 1)}
        chosen = set(schema.get("required", []))
        if rng.random() < 0.1:
            chosen = set()
        chosen |= {name for name in properties if rng.random() < 0.25}
        return {
            name: self.value(properties[name], rng, depth + 1)
            for name in sorted(chosen)
            if name in properties
        }


_Maker = Callable[[Schemas, dict[str, Any], random.Random, int], Any]
_MAKERS: dict[str, _Maker] = {
    "string": Schemas._string,
    "integer": Schemas._integer,
    "number": Schemas._number,
    "boolean": Schemas._boolean,
    "array": Schemas._array,
    "object": Schemas._object,
}


def fetch_schemas(client: Client, manifests: list[Manifest]) -> dict[tuple[str, str], Schemas]:
    """The server's own schemas of the kinds of ``manifests``."""
    found = {}
    for api_version in sorted({manifest["apiVersion"] for manifest in manifests}):
        prefix = "apis" if "/" in api_version else "api"
        components = client.request("GET", f"/openapi/v3/{prefix}/{api_version}").body
        schemas = components["components"]["schemas"]
        for schema in schemas.values():
            for key in schema.get("x-kubernetes-group-version-kind", []):
                version = f"{key['group']}/{key['version']}" if key["group"] else key["version"]
                found[version, key["kind"]] = Schemas(schema, schemas)
    return found


def paths(value: Any, prefix: Path = ()) -> Iterator[Path]:
    """Paths of all values below ``value``."""
    items: Iterator[tuple[str | int, Any]] = iter(())
    if isinstance(value, dict):
        items = iter(value.items())
    elif isinstance(value, list):
        items = iter(enumerate(value))
    for key, item in items:
        yield (*prefix, key)
        yield from paths(item, (*prefix, key))


def at(value: Any, path: Path) -> Any:
    for key in path:
        value = value[key]
    return value


def text(path: Path) -> str:
    """``spec.flavors[0].name``."""
    parts = (f"[{key}]" if isinstance(key, int) else f".{key}" for key in path)
    return "".join(parts).removeprefix(".")


# Each operation changes the value at a path and says how, or leaves it and says nothing.


def _drop(root: Manifest, path: Path, rng: random.Random) -> str:
    del at(root, path[:-1])[path[-1]]
    return "removed"


def _misspell(root: Manifest, path: Path, rng: random.Random) -> str:
    parent, key = at(root, path[:-1]), path[-1]
    if not isinstance(key, str) or len(key) < 3:
        return ""
    spot = rng.randrange(len(key) - 1)
    wrong = key[:spot] + key[spot + 1] + key[spot] + key[spot + 2 :]
    if wrong == key or wrong in parent:
        return ""
    parent[wrong] = parent.pop(key)
    return f"misspelt {wrong}"


def _unknown(root: Manifest, path: Path, rng: random.Random) -> str:
    target = at(root, path)
    if not isinstance(target, dict):
        return ""
    target["unheardOf"] = rng.choice((1, "x", True))
    return "unknown field added"


def _replace(root: Manifest, path: Path, rng: random.Random) -> str:
    old = at(root, path)
    new = rng.choice((*STRINGS, *INTEGERS, True, False, None, [], {}, 0.5, [old], {"a": old}))
    if new == old and type(new) is type(old):
        return ""
    at(root, path[:-1])[path[-1]] = copy.deepcopy(new)
    return f"{_short(old)} replaced by {_short(new)}"


def _respell(root: Manifest, path: Path, rng: random.Random) -> str:
    old = at(root, path)
    if not isinstance(old, str) or not old:
        return ""
    new = rng.choice(
        (old.upper(), f"{old} ", f"{old}-", old[: len(old) // 2], f"{old}.", old * 12, f"1{old}")
    )
    if new == old:
        return ""
    at(root, path[:-1])[path[-1]] = new
    return f"{_short(old)} respelt {_short(new)}"


def _retype(root: Manifest, path: Path, rng: random.Random) -> str:
    old = at(root, path)
    if isinstance(old, bool):
        new: Any = rng.choice((str(old).lower(), int(old)))
    elif isinstance(old, int):
        new = rng.choice((str(old), float(old), -old - 1, old + 1))
    elif isinstance(old, str):
        new = rng.choice((int(old) if old.isdigit() else 1, [old], {"value": old}))
    else:
        return ""
    at(root, path[:-1])[path[-1]] = new
    return f"{_short(old)} retyped {_short(new)}"


def _twice(root: Manifest, path: Path, rng: random.Random) -> str:
    target = at(root, path)
    if not isinstance(target, list) or not target:
        return ""
    target.append(copy.deepcopy(target[0]))
    return "first item repeated"


def _swap(root: Manifest, path: Path, rng: random.Random) -> str:
    other = rng.choice(list(paths(root)))
    if other[: len(path)] == path or path[: len(other)] == other:
        return ""
    at(root, path[:-1])[path[-1]] = copy.deepcopy(at(root, other))
    return f"replaced by the value of {text(other)}"


OPERATIONS: tuple[Callable[[Manifest, Path, random.Random], str], ...] = (
    _drop,
    _misspell,
    _unknown,
    _replace,
    _respell,
    _retype,
    _twice,
    _swap,
)


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
