"""Argo CD beside a running plane: Redis, repo server, application and ApplicationSet controllers.

No API server, no Dex and no user interface: what syncs is all that matters here.
"""

from __future__ import annotations

import base64
import json
import secrets
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import yaml

from . import build, crds, parts, versions
from .client import Client, Manifest
from .plane import Cluster
from .processes import Part, ProcessError, free_port, listens

NAMESPACE = "argocd"
APPLICATION = "argoproj.io/v1alpha1"
#: How often an application is compared with Git; three minutes by default.
RESYNC_S = 5
_CONFIGURATION = (
    "argocd-cm.yaml",
    "argocd-cmd-params-cm.yaml",
    "argocd-gpg-keys-cm.yaml",
    "argocd-rbac-cm.yaml",
    "argocd-secret.yaml",
    "argocd-ssh-known-hosts-cm.yaml",
    "argocd-tls-certs-cm.yaml",
)


def install(cluster: Cluster) -> None:
    """Start Argo CD on a plane of our own, configured as its own manifests do.

    Raises:
        ProcessError: Redis is missing, or a part did not start.
        build.BuildError: the module is not served.
    """
    if cluster.layout is None or cluster.processes is None:
        raise ProcessError("Argo CD is only started on a control plane of our own")
    if shutil.which("redis-server") is None:
        raise ProcessError(
            "redis-server is not on PATH; Argo CD needs it (apt install redis-server)"
        )
    program = versions.argo_cd()
    build.build([program], lambda line: None)
    manifests = build.module_folder(program.module, program.version) / "manifests"
    cluster.ensure_namespace(NAMESPACE)
    for path in sorted((manifests / "crds").glob("*-crd.yaml")):
        cluster.client.create(yaml.safe_load(path.read_text()))
    cluster.wait(lambda: crds.established(cluster.client), 30, "Argo CD's kinds to be served")
    for name in _CONFIGURATION:
        manifest = yaml.safe_load((manifests / "base/config" / name).read_text())
        cluster.client.create(_configured(manifest))
    _start(cluster, cluster.layout)


def register(cluster: Cluster, name: str) -> None:
    """Make the plane known to its Argo CD as ``name``, as ``argocd cluster add`` does.

    Raises:
        ProcessError: the plane is not one that this process runs.
    """
    if cluster.layout is None:
        raise ProcessError("Argo CD is only started on a control plane of our own")
    authority = cluster.layout.certificates.authority.read_bytes()
    config = {
        "bearerToken": parts.token_of(cluster.layout.tokens, "admin"),
        "tlsClientConfig": {"caData": base64.b64encode(authority).decode()},
    }
    cluster.client.create(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": f"cluster-{name}",
                "namespace": NAMESPACE,
                "labels": {"argocd.argoproj.io/secret-type": "cluster"},
            },
            "stringData": {
                "name": name,
                "server": cluster.layout.api_url,
                "config": json.dumps(config),
            },
        }
    )


def refresh(client: Client, application: str) -> None:
    """Ask for a comparison with Git now, its cache left aside."""
    patch = {"metadata": {"annotations": {"argocd.argoproj.io/refresh": "hard"}}}
    client.merge(APPLICATION, "Application", application, patch, NAMESPACE)


def _configured(manifest: Manifest) -> Manifest:
    name = manifest["metadata"]["name"]
    manifest["metadata"]["namespace"] = NAMESPACE
    if name == "argocd-secret":
        # The API server would write it; without it every Application fails.
        key = base64.b64encode(secrets.token_bytes(32)).decode()
        manifest["data"] = {"server.secretkey": key}
    return manifest


def _start(cluster: Cluster, layout: parts.Layout) -> None:
    processes = cluster.processes
    assert processes is not None
    redis, repository, folder = free_port(), free_port(), layout.folder / "argocd"
    folder.mkdir()
    password = secrets.token_hex(16)
    settings = folder / "redis.conf"
    settings.touch(mode=0o600)
    settings.write_text(
        f'port {redis}\nbind 127.0.0.1\nsave ""\ndir {folder}\nrequirepass {password}\n'
    )
    environment = _environment(layout, folder, password)
    kubeconfig = f"--kubeconfig={layout.kubeconfig('admin')}"
    processes.start(
        Part("redis", ["redis-server", str(settings)], lambda: listens(redis), environment)
    )
    processes.start(
        _argo(
            "repo-server",
            [
                "--address=127.0.0.1",
                f"--port={repository}",
                "--metrics-address=127.0.0.1",
                f"--metrics-port={free_port()}",
                f"--redis=127.0.0.1:{redis}",
            ],
            environment,
            lambda: listens(repository),
        )
    )
    processes.start(
        _argo(
            "application-controller",
            [
                kubeconfig,
                f"--namespace={NAMESPACE}",
                f"--repo-server=127.0.0.1:{repository}",
                f"--redis=127.0.0.1:{redis}",
                f"--metrics-port={free_port()}",
                f"--app-resync={RESYNC_S}",
                "--app-resync-jitter=0",
            ],
            environment,
        )
    )
    processes.start(
        _argo(
            "applicationset-controller",
            [
                kubeconfig,
                f"--namespace={NAMESPACE}",
                f"--argocd-repo-server=127.0.0.1:{repository}",
                f"--metrics-addr=127.0.0.1:{free_port()}",
                f"--probe-addr=127.0.0.1:{free_port()}",
                f"--webhook-addr=127.0.0.1:{free_port()}",
            ],
            environment,
        )
    )


def _argo(
    name: str,
    arguments: list[str],
    environment: Mapping[str, str],
    ready: Callable[[], bool] = lambda: True,
) -> Part:
    """One part of Argo CD; the binary chooses its part by an environment variable."""
    binary = str(build.binary_path(versions.argo_cd()))
    chosen = {**environment, "ARGOCD_BINARY_NAME": f"argocd-{name}"}
    return Part(f"argocd-{name}", [binary, *arguments], ready, chosen)


def _environment(layout: parts.Layout, folder: Path, password: str) -> dict[str, str]:
    paths = {}
    for variable, name in (
        ("ARGOCD_TLS_DATA_PATH", "tls"),
        ("ARGOCD_SSH_DATA_PATH", "ssh"),
        ("ARGOCD_GNUPGHOME", "gpg"),
        ("ARGOCD_PLUGINSOCKFILEPATH", "plugins"),
    ):
        (folder / name).mkdir()
        paths[variable] = str(folder / name)
    return {
        **parts.environment(layout),
        **paths,
        "REDIS_PASSWORD": password,
        # The ApplicationSet controller ignores --kubeconfig.
        "KUBECONFIG": str(layout.kubeconfig("admin")),
        "ARGOCD_GPG_ENABLED": "false",
        # https://kubernetes.default.svc then means the kubeconfig's cluster.
        "ARGOCD_FAKE_IN_CLUSTER": "true",
        # The health of each resource then stands in the Application, not in Redis alone.
        "ARGOCD_APPLICATION_CONTROLLER_PERSIST_RESOURCE_HEALTH": "true",
        # Git refuses to read a repository of another user, or without one, unless told.
        "GIT_CONFIG_GLOBAL": str(folder / "gitconfig"),
    }
