"""The processes of a control plane: how each is called and when it is ready."""

from __future__ import annotations

import http.client
import os
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from . import build, versions
from .certs import Certificates
from .processes import Part, free_port, listens

#: Priority and fairness of a busy server is of no interest here; a plane serves one test run.
SERVICE_RANGE = "10.96.0.0/16"


@dataclass(frozen=True)
class Ports:
    """Loopback ports of one plane, all free when chosen."""

    etcd: int = field(default_factory=free_port)
    etcd_peer: int = field(default_factory=free_port)
    api: int = field(default_factory=free_port)
    jobset_webhook: int = field(default_factory=free_port)
    jobset_health: int = field(default_factory=free_port)
    kueue_webhook: int = field(default_factory=free_port)
    kueue_health: int = field(default_factory=free_port)


@dataclass(frozen=True)
class Layout:
    """What the parts of one plane share."""

    folder: Path
    certificates: Certificates
    ports: Ports
    tokens: Path

    def kubeconfig(self, user: str) -> Path:
        return self.folder / f"{user}.kubeconfig"

    @property
    def api_url(self) -> str:
        return f"https://127.0.0.1:{self.ports.api}"


def write_kubeconfig(layout: Layout, user: str, token: str) -> Path:
    """A kubeconfig of ``user`` for the plane's API server, readable by its owner only."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "e2e",
        "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": user}}],
        "clusters": [
            {
                "name": "e2e",
                "cluster": {
                    "server": layout.api_url,
                    "certificate-authority": str(layout.certificates.authority),
                },
            }
        ],
        "users": [{"name": user, "user": {"token": token}}],
    }
    path = layout.kubeconfig(user)
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(content))
    return path


def etcd(layout: Layout) -> Part:
    ports, certificates = layout.ports, layout.certificates
    url, peer = f"https://127.0.0.1:{ports.etcd}", f"https://127.0.0.1:{ports.etcd_peer}"
    files = (str(certificates.certificate), str(certificates.key), str(certificates.authority))
    command = [
        str(build.binary_path(versions.etcd())),
        f"--data-dir={layout.folder / 'etcd'}",
        f"--listen-client-urls={url}",
        f"--advertise-client-urls={url}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync=true",
        "--client-cert-auth=true",
        "--peer-client-cert-auth=true",
    ]
    for prefix in ("", "peer-"):
        command += [
            f"--{prefix}cert-file={files[0]}",
            f"--{prefix}key-file={files[1]}",
            f"--{prefix}trusted-ca-file={files[2]}",
        ]
    ready = https_ok(ports.etcd, "/health", certificates, client_certificate=True)
    return Part("etcd", command, ready, environment(layout))


def api_server(layout: Layout) -> Part:
    ports, certificates = layout.ports, layout.certificates
    command = [
        str(_kubernetes("kube-apiserver")),
        f"--etcd-servers=https://127.0.0.1:{ports.etcd}",
        f"--etcd-cafile={certificates.authority}",
        f"--etcd-certfile={certificates.certificate}",
        f"--etcd-keyfile={certificates.key}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={ports.api}",
        f"--tls-cert-file={certificates.certificate}",
        f"--tls-private-key-file={certificates.key}",
        f"--token-auth-file={layout.tokens}",
        "--anonymous-auth=false",
        "--authorization-mode=RBAC",
        "--endpoint-reconciler-type=none",
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-signing-key-file={certificates.service_account_key}",
        f"--service-account-key-file={certificates.service_account_key}",
        # GKE runs this plugin: pods that ask for google.com/tpu get the toleration of its taint.
        "--enable-admission-plugins=ExtendedResourceToleration",
        "--allow-privileged=true",
    ]
    token = token_of(layout.tokens, "admin")
    ready = https_ok(ports.api, "/readyz", certificates, token)
    return Part("kube-apiserver", command, ready, environment(layout))


def controller_manager(layout: Layout) -> Part:
    certificates = layout.certificates
    command = [
        str(_kubernetes("kube-controller-manager")),
        f"--kubeconfig={layout.kubeconfig('controller-manager')}",
        "--leader-elect=false",
        "--secure-port=0",
        f"--service-account-private-key-file={certificates.service_account_key}",
        f"--root-ca-file={certificates.authority}",
        "--use-service-account-credentials=true",
        # With the default of 20 requests a second it takes five seconds to begin.
        "--kube-api-qps=200",
        "--kube-api-burst=400",
        "--controllers=*,-ttl,-nodeipam,-cloud-node-lifecycle,-service-lb-controller",
    ]
    return Part("kube-controller-manager", command, _at_once, environment(layout))


def scheduler(layout: Layout) -> Part:
    command = [
        str(_kubernetes("kube-scheduler")),
        f"--kubeconfig={layout.kubeconfig('scheduler')}",
        "--leader-elect=false",
        "--secure-port=0",
    ]
    return Part("kube-scheduler", command, _at_once, environment(layout))


def jobset(layout: Layout, version: str) -> Part:
    ports = layout.ports
    configuration = {
        "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        **_controller_settings(layout, ports.jobset_webhook, ports.jobset_health),
    }
    path = _write(layout.folder / "jobset.yaml", configuration)
    command = [
        str(build.binary_path(versions.jobset(version))),
        f"--config={path}",
        f"--kubeconfig={layout.kubeconfig('jobset')}",
    ]
    ready = _both(_http_ok(ports.jobset_health), ports.jobset_webhook)
    return Part("jobset", command, ready, environment(layout))


def kueue(layout: Layout, version: str, settings: Mapping[str, Any]) -> Part:
    """Kueue; ``settings`` are further fields of its Configuration, gates included."""
    ports = layout.ports
    gates = {"VisibilityOnDemand": False, **settings.get("featureGates", {})}
    configuration = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": "kueue-system",
        **_controller_settings(layout, ports.kueue_webhook, ports.kueue_health),
        "integrations": {"frameworks": ["batch/job", "jobset.x-k8s.io/jobset"]},
        **settings,
        "featureGates": gates,
    }
    path = _write(layout.folder / "kueue.yaml", configuration)
    metrics = layout.folder / versions.KUEUE_METRICS_CERTS
    if not metrics.exists():
        metrics.symlink_to(layout.certificates.serving)
    command = [
        str(build.binary_path(versions.kueue(version))),
        f"--config={path}",
        f"--kubeconfig={layout.kubeconfig('kueue')}",
        "--zap-log-level=2",
    ]
    ready = _both(_http_ok(ports.kueue_health), ports.kueue_webhook)
    return Part("kueue", command, ready, environment(layout))


def kwok(layout: Layout, stages: Path) -> Part:
    command = [
        str(build.binary_path(versions.kwok())),
        f"--kubeconfig={layout.kubeconfig('kwok')}",
        f"--config={stages}",
        "--manage-all-nodes=false",
        "--manage-nodes-with-label-selector=type=kwok",
        "--node-lease-duration-seconds=40",
        "--node-ip=127.0.0.1",
        "--server-address=",
    ]
    return Part("kwok", command, _at_once, environment(layout))


def token_of(tokens: Path, user: str) -> str:
    """The token of ``user`` in a static token file."""
    for line in tokens.read_text().splitlines():
        token, name, *_ = line.split(",")
        if name == user:
            return token
    raise KeyError(user)


def https_ok(
    port: int,
    path: str,
    certificates: Certificates,
    token: str = "",
    client_certificate: bool = False,
) -> Callable[[], bool]:
    """A probe: does the loopback server answer 200 on ``path``?"""

    def ready() -> bool:
        context = ssl.create_default_context(cafile=str(certificates.authority))
        if client_certificate:
            context.load_cert_chain(certificates.certificate, certificates.key)
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=2, context=context)
        return _answers_ok(connection, path, token)

    return ready


def _http_ok(port: int) -> Callable[[], bool]:
    return lambda: _answers_ok(http.client.HTTPConnection("127.0.0.1", port, timeout=2), "/readyz")


def _answers_ok(connection: http.client.HTTPConnection, path: str, token: str = "") -> bool:
    try:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        connection.request("GET", path, headers=headers)
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def _both(probe: Callable[[], bool], port: int) -> Callable[[], bool]:
    return lambda: listens(port) and probe()


def _at_once() -> bool:
    """For parts that serve nothing: what they do shows in the API."""
    return True


def _controller_settings(layout: Layout, webhook: int, health: int) -> dict[str, Any]:
    return {
        "internalCertManagement": {"enable": False},
        "leaderElection": {"leaderElect": False},
        "webhook": {
            "host": "127.0.0.1",
            "port": webhook,
            "certDir": str(layout.certificates.serving),
        },
        "metrics": {"bindAddress": "0"},
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
    }


def _kubernetes(name: str) -> Path:
    (program,) = (program for program in versions.COMMON if program.name == name)
    return build.binary_path(program)


def _write(path: Path, content: Mapping[str, Any]) -> Path:
    path.write_text(yaml.safe_dump(dict(content)))
    return path


def environment(layout: Layout) -> dict[str, str]:
    """No ambient kubeconfig, proxy or credential reaches a part."""
    return {
        "PATH": os.environ.get("PATH", ""),
        "HOME": str(layout.folder),
        "TMPDIR": str(layout.folder),
    }
