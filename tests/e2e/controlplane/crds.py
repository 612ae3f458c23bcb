"""Custom resource definitions and webhooks of given Kueue and JobSet versions.

Both come from the module folders through kustomize, as their own installation does, with every
``service`` reference replaced by the URL of the process on loopback.
"""

from __future__ import annotations

import base64
import gzip
import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from . import build
from .client import Client, Manifest

#: The CheckpointConfiguration CRD as it is vendored, with its licence and source beside it.
CHECKPOINT_CRD = Path(__file__).parents[3] / "schemas/upstream/originals/checkpointing-v1.json.gz"

_WEBHOOK_KINDS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


class InstallError(Exception):
    """Definitions of a product could not be read from its module."""


def definitions(
    module: str, version: str, url: str, authority: Path, kubectl: Path
) -> list[Manifest]:
    """The product's CRDs; conversion webhooks point at ``url``."""
    return [
        _redirect(manifest, url, authority)
        for manifest in _kustomize(module, version, "config/components/crd", kubectl)
        if manifest["kind"] == "CustomResourceDefinition"
    ]


def webhooks(
    product: str, module: str, version: str, url: str, authority: Path, kubectl: Path
) -> list[Manifest]:
    """The product's webhook configurations, renamed since all products use the same names."""
    found = []
    for manifest in _kustomize(module, version, "config/components/webhook", kubectl):
        if manifest["kind"] in _WEBHOOK_KINDS:
            name = f"{product}-{manifest['metadata']['name']}"
            found.append(_redirect({**manifest, "metadata": {"name": name}}, url, authority))
    return found


def checkpoint_definition() -> Manifest:
    """The CRD of CheckpointConfiguration; it has no webhook."""
    (definition,) = json.loads(gzip.decompress(CHECKPOINT_CRD.read_bytes()))
    loaded: Manifest = definition
    return loaded


def established(client: Client) -> bool:
    """Whether every CRD of the cluster is served, in discovery and in the OpenAPI documents.

    The three follow one another; kubectl's own validation and our mutations read the last.
    """
    definitions = client.items("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    documents = client.request("GET", "/openapi/v3").body["paths"]
    return all(
        _established(definition)
        and _discovered(client, definition)
        and all(f"apis/{version}" in documents for version in _served(definition))
        for definition in definitions
    )


def _discovered(client: Client, definition: Manifest) -> bool:
    kind = definition["spec"]["names"]["kind"]
    return all(client.serves(version, kind) for version in _served(definition))


def _served(definition: Manifest) -> list[str]:
    """API versions in which a CRD is served."""
    spec = definition["spec"]
    return [
        f"{spec['group']}/{version['name']}" for version in spec["versions"] if version["served"]
    ]


def _established(definition: Manifest) -> bool:
    conditions = (definition.get("status") or {}).get("conditions") or []
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)


@cache
def _kustomize(module: str, version: str, folder: str, kubectl: Path) -> tuple[Manifest, ...]:
    completed = subprocess.run(
        [str(kubectl), "kustomize", folder],
        cwd=build.module_folder(module, version),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    if completed.returncode != 0:
        raise InstallError(f"{module}@{version}: kustomize {folder}: {completed.stderr.strip()}")
    documents = yaml.load_all(completed.stdout, Loader=yaml.CSafeLoader)
    return tuple(document for document in documents if document)


def _redirect(manifest: Manifest, url: str, authority: Path) -> Manifest:
    """Replace every ``clientConfig.service`` below ``manifest`` by a URL and its authority."""
    bundle = base64.b64encode(authority.read_bytes()).decode()

    def rewrite(value: Any) -> Any:
        if isinstance(value, list):
            return [rewrite(item) for item in value]
        if not isinstance(value, dict):
            return value
        if isinstance(value.get("service"), dict) and "name" in value["service"]:
            path = value["service"].get("path", "/")
            return {"url": f"{url}{path}", "caBundle": bundle}
        return {key: rewrite(item) for key, item in value.items()}

    redirected: Manifest = rewrite(manifest)
    return redirected
