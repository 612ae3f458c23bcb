"""Derive ``schemas/upstream/converted`` from the vendored originals: ``make codegen``.

Each release becomes one archive with a member per kind and an ``index.json``, so that a process
reads and compiles only the kinds that it meets. ``--check`` rewrites nothing and fails when the
archives do not say what the originals say.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import sys
import zipfile
from pathlib import Path
from typing import Any

from schemas.kinds.convert import (
    OBJECT_META,
    build_tree,
    close_definition,
    closure,
    convert_crd_version,
    list_payload,
    to_json_schema,
)
from schemas.kinds.core import CLUSTER_SCOPED, CORE_OVERRIDES

UPSTREAM = Path(__file__).resolve().parent.parent / "upstream"
_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


def convert_crds(crds: list[dict[str, Any]]) -> dict[str, Any]:
    """Members of a release of custom kinds, by ``apiVersion/Kind``."""
    members: dict[str, Any] = {}
    for crd in crds:
        for version in crd["spec"]["versions"]:
            if version.get("served"):
                converted = convert_crd_version(crd, version)
                members[f"{converted['apiVersion']}/{converted['kind']}"] = converted
    return members


def convert_core(original: dict[str, Any]) -> dict[str, Any]:
    """Members of one Kubernetes minor, by ``apiVersion/Kind``."""
    definitions = {
        name: CORE_OVERRIDES.get(name) or close_definition(definition)
        for name, definition in original["definitions"].items()
    }
    definitions[_META] = OBJECT_META
    members = {}
    for gvk, name in original["kinds"].items():
        api_version, _, kind = gvk.rpartition("/")
        root = dict(definitions[name])
        root["properties"] = {
            **root["properties"],
            "apiVersion": {"type": "string", "enum": [api_version]},
            "kind": {"type": "string", "enum": [kind]},
        }
        schema = to_json_schema(root)
        schema["$defs"] = {
            used: to_json_schema(definitions[used])
            for used in closure(definitions, [name])
            if used != name
        }
        members[gvk] = {
            "apiVersion": api_version,
            "kind": kind,
            "namespaced": kind not in CLUSTER_SCOPED,
            "custom": False,
            "deprecated": False,
            "schema": schema,
            "lists": build_tree(root, list_payload, definitions),
            "defaults": {},
            "nullable": {},
            "cel": {},
        }
    return members


def convert(path: Path) -> dict[str, Any]:
    """Convert one vendored original."""
    original = json.loads(gzip.decompress(path.read_bytes()))
    return convert_core(original) if isinstance(original, dict) else convert_crds(original)


def archive(members: dict[str, Any]) -> bytes:
    """Pack members with fixed dates, so that the same content gives the same archive."""
    index = {
        name: {key: member[key] for key in ("namespaced", "deprecated")}
        for name, member in sorted(members.items())
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as target:
        for name, value in [("index", index), *sorted(members.items())]:
            entry = zipfile.ZipInfo(f"{name}.json")
            entry.compress_type = zipfile.ZIP_DEFLATED
            text = json.dumps(value, separators=(",", ":"), sort_keys=True)
            target.writestr(entry, text, compresslevel=9)
    return buffer.getvalue()


def contents(data: bytes) -> dict[str, bytes]:
    """The members of an archive, uncompressed: two compressors may differ, the contents may not."""
    with zipfile.ZipFile(io.BytesIO(data)) as source:
        return {name: source.read(name) for name in source.namelist()}


def stale() -> list[str]:
    """Names of the archives that do not say what their original says."""
    return [
        target.name
        for target, data in derive()
        if not target.exists() or contents(target.read_bytes()) != contents(data)
    ]


def derive() -> list[tuple[Path, bytes]]:
    """Every archive with the content that it should have."""
    out = []
    for path in sorted((UPSTREAM / "originals").glob("*.json.gz")):
        target = UPSTREAM / "converted" / f"{path.name.removesuffix('.json.gz')}.zip"
        out.append((target, archive(convert(path))))
    return out


def main(arguments: list[str] | None = None) -> int:
    """Write the archives, or with ``--check`` say which are stale."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, fail when stale")
    if parser.parse_args(arguments).check:
        names = stale()
        if names:
            print(f"stale, run make codegen: {', '.join(names)}", file=sys.stderr)
        return 1 if names else 0
    for target, data in derive():
        if not target.exists() or contents(target.read_bytes()) != contents(data):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
    return 0


if __name__ == "__main__":
    sys.exit(main())
