"""Flux beside a running plane: source-controller and kustomize-controller."""

from __future__ import annotations

import time
from collections.abc import Mapping

import yaml

from . import build, crds, parts, versions
from .client import Client
from .plane import Cluster
from .processes import Part, ProcessError, free_port, listens

NAMESPACE = "flux-system"
SOURCE = "source.toolkit.fluxcd.io/v1"
KUSTOMIZE = "kustomize.toolkit.fluxcd.io/v1"


def install(cluster: Cluster) -> None:
    """Start Flux's two controllers on a plane of our own, with the CRDs of their modules.

    Raises:
        ProcessError: a part did not start.
        build.BuildError: a module is not served.
    """
    if cluster.layout is None or cluster.processes is None:
        raise ProcessError("Flux is only started on a control plane of our own")
    build.build(list(versions.flux()), lambda line: None)
    cluster.ensure_namespace(NAMESPACE)
    for program in versions.flux():
        folder = build.module_folder(program.module, program.version) / "config/crd/bases"
        for path in sorted(folder.glob("*.yaml")):
            cluster.client.create(yaml.safe_load(path.read_text()))
    cluster.wait(lambda: crds.established(cluster.client), 30, "Flux's kinds to be served")
    layout = cluster.layout
    storage = layout.folder / "flux"
    storage.mkdir()
    port = free_port()
    environment = {
        **parts.environment(layout),
        "KUBECONFIG": str(layout.kubeconfig("admin")),
        "RUNTIME_NAMESPACE": NAMESPACE,
    }
    arguments = {
        "source-controller": [
            f"--storage-path={storage}",
            f"--storage-addr=127.0.0.1:{port}",
            f"--storage-adv-addr=127.0.0.1:{port}",
        ],
        "kustomize-controller": ["--requeue-dependency=1s"],
    }
    for program in versions.flux():
        cluster.processes.start(_controller(program, arguments[program.name], environment))


def _controller(
    program: versions.GoProgram, arguments: list[str], environment: Mapping[str, str]
) -> Part:
    health = free_port()
    command = [
        str(build.binary_path(program)),
        "--enable-leader-election=false",
        "--metrics-addr=0",
        f"--health-addr=127.0.0.1:{health}",
        *arguments,
    ]
    return Part(program.name, command, lambda: listens(health), environment)


def reconcile_source(client: Client, name: str) -> str:
    """Have a GitRepository look for commits now, as ``flux reconcile source git`` does.

    Returns:
        What its ``lastHandledReconcileAt`` says once it has.
    """
    return _ask(client, SOURCE, "GitRepository", name)


def reconcile_layer(client: Client, name: str) -> str:
    """Have a Kustomization be applied now, as ``flux reconcile kustomization`` does."""
    return _ask(client, KUSTOMIZE, "Kustomization", name)


def _ask(client: Client, api_version: str, kind: str, name: str) -> str:
    stamp = str(time.time())
    patch = {"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": stamp}}}
    client.merge(api_version, kind, name, patch, NAMESPACE)
    return stamp
