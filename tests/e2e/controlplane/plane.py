"""The whole control plane as one context manager, or an existing cluster in its place."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from generator.doctor.controllers import (
    JOBSET_CONTROLLER,
    KUEUE_CONTROLLER,
    Controller,
    image_version,
)

from . import build, certs, crds, kwok, parts, versions
from .client import ApiError, Client
from .processes import Part, ProcessError, Processes

_USERS = ("admin", "controller-manager", "scheduler", "jobset", "kueue", "kwok")

KUBECONFIG_VARIABLE = "STOWPLAN_E2E_KUBECONFIG"


@dataclass(frozen=True)
class Kubectl:
    """The kubectl binary bound to one kubeconfig; the ambient one is never read.

    Attributes:
        cache: folder for what it keeps of a server, which goes with the plane.
    """

    binary: Path
    kubeconfig: Path
    cache: Path

    def run(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run kubectl and return what it said; the caller judges the exit status."""
        environment = {key: value for key, value in os.environ.items() if key != "KUBECONFIG"}
        return subprocess.run(
            [
                str(self.binary),
                f"--kubeconfig={self.kubeconfig}",
                f"--cache-dir={self.cache}",
                *arguments,
            ],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            env=environment,
            timeout=120,
        )


@dataclass(frozen=True)
class Cluster:
    """What a test needs of a cluster.

    Attributes:
        kueue: version with its leading v; empty when unknown (an existing cluster).
        jobset: likewise.
        simulated: nodes are ours to make and to lose.
        processes: the parts that run; of an existing cluster only the proxy.
        layout: files and ports of a plane of our own.
        created_namespaces: those that :meth:`ensure_namespace` made, in order.
    """

    client: Client
    kubectl: Kubectl
    kueue: str
    jobset: str
    simulated: bool
    processes: Processes | None = field(default=None, repr=False)
    layout: parts.Layout | None = field(default=None, repr=False)
    created_namespaces: list[str] = field(default_factory=list, repr=False)

    def check(self) -> None:
        """Raise when a part of our own plane has died.

        Raises:
            ProcessError: with the end of that part's log.
        """
        if self.processes is not None:
            self.processes.check()

    def wait(self, condition: Callable[[], Any], seconds: float, what: str) -> Any:
        """Poll until ``condition`` answers something true, and return that.

        Raises:
            TimeoutError: after ``seconds``.
            ProcessError: a part of the plane died meanwhile.
        """
        deadline = time.monotonic() + seconds
        while True:
            found = condition()
            if found:
                return found
            self.check()
            if time.monotonic() > deadline:
                raise TimeoutError(f"not within {seconds:.0f} s: {what}")
            time.sleep(0.2)

    def ensure_namespace(self, name: str) -> None:
        """Create the namespace unless it exists, and wait for its default service account.

        One that is being deleted refuses whatever is made in it, so its end is waited for first.
        """
        self.wait(lambda: not self._ends(name), 90, f"the end of namespace {name}")
        try:
            self.client.create(
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            )
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
        else:
            self.created_namespaces.append(name)
        self.wait(
            lambda: self.client.find("v1", "ServiceAccount", "default", name),
            90,
            f"service account default in namespace {name}",
        )

    def _ends(self, namespace: str) -> bool:
        found = self.client.find("v1", "Namespace", namespace)
        return found is not None and "deletionTimestamp" in found["metadata"]


def programs(kueue: str, jobset: str) -> list[versions.GoProgram]:
    """Everything that a plane with these versions runs."""
    return [*versions.COMMON, versions.jobset(jobset), versions.kueue(kueue)]


@contextmanager
def plane(
    kueue: str,
    jobset: str,
    kueue_settings: Mapping[str, Any] | None = None,
    report: Callable[[str], None] = print,
    logs: Path | None = None,
) -> Iterator[Cluster]:
    """Run a control plane of our own.

    Args:
        kueue: Kueue version, such as ``v0.19.2``.
        jobset: JobSet version.
        kueue_settings: further fields of Kueue's Configuration.
        report: gets a line for each thing that takes long.
        logs: folder that keeps the logs of all parts; by default they go with the plane.

    Raises:
        build.BuildError: a part could not be built.
        ProcessError: a part crashed or did not get ready.
    """
    build.build(programs(kueue, jobset), report)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="stowplan-e2e-") as name:
        layout = _layout(Path(name))
        processes = Processes(layout.folder)
        try:
            cluster = _start(layout, processes, kueue, jobset, kueue_settings or {})
            report(f"control plane: up in {time.monotonic() - started:.0f} s")
            yield cluster
        finally:
            processes.stop()
            if logs is not None:
                _keep_logs(layout.folder, logs)


@contextmanager
def existing(kubeconfig: Path) -> Iterator[Cluster]:
    """The cluster of ``kubeconfig``'s current context, reached through ``kubectl proxy``.

    Namespaces that were made for the tests go when it is left, however that happens.

    Raises:
        ProcessError: kubectl is missing or the cluster does not answer.
    """
    found = shutil.which("kubectl")
    if found is None:
        raise ProcessError(f"{KUBECONFIG_VARIABLE} is set, but kubectl is not on PATH")
    with tempfile.TemporaryDirectory(prefix="stowplan-e2e-") as name:
        kubectl = Kubectl(Path(found), kubeconfig.resolve(), Path(name) / "kubectl")
        address = Path(name) / "api"
        processes = Processes(Path(name))
        client = Client.over_socket(address)
        command = [
            found,
            f"--kubeconfig={kubectl.kubeconfig}",
            "proxy",
            f"--unix-socket={address}",
        ]
        environment = {key: value for key, value in os.environ.items() if key != "KUBECONFIG"}
        part = Part("kubectl-proxy", command, address.exists, environment)
        try:
            processes.start(part)
            try:
                client.request("GET", "/version")
                kueue = _running_version(client, KUEUE_CONTROLLER)
                jobset = _running_version(client, JOBSET_CONTROLLER)
            except ApiError as error:
                raise ProcessError(
                    f"the cluster of {kubeconfig} does not answer: {error}"
                ) from None
            cluster = Cluster(client, kubectl, kueue, jobset, False, processes)
            try:
                yield cluster
            finally:
                for namespace in cluster.created_namespaces:
                    client.delete("v1", "Namespace", namespace)
        finally:
            processes.stop()


def _running_version(client: Client, controller: Controller) -> str:
    """The version in the image tag of a controller, empty where that is not known."""
    try:
        found = client.find("apps/v1", "Deployment", controller.deployment, controller.namespace)
    except ApiError as error:
        if error.code == 403:
            return ""
        raise
    containers = found["spec"]["template"]["spec"]["containers"] if found else []
    version = image_version(containers)
    return f"v{version}" if version else ""


def _layout(folder: Path) -> parts.Layout:
    certificates = certs.issue(folder / "certificates")
    tokens = folder / "tokens.csv"
    tokens.touch(mode=0o600)
    rows = [f'{secrets.token_hex(16)},{user},{user},"system:masters"' for user in _USERS]
    tokens.write_text("\n".join(rows) + "\n")
    layout = parts.Layout(folder, certificates, parts.Ports(), tokens)
    for user in _USERS:
        parts.write_kubeconfig(layout, user, parts.token_of(tokens, user))
    return layout


def _start(
    layout: parts.Layout,
    processes: Processes,
    kueue: str,
    jobset: str,
    kueue_settings: Mapping[str, Any],
) -> Cluster:
    binary = build.binary_path(
        next(program for program in versions.COMMON if program.name == "kubectl")
    )
    products = _products(layout, kueue, jobset)
    with ThreadPoolExecutor(len(products)) as readers:  # while the servers start
        definitions = [
            readers.submit(crds.definitions, *product[1:], binary) for product in products
        ]
        processes.start(parts.etcd(layout))
        processes.start(parts.api_server(layout))
        processes.start(parts.controller_manager(layout))
        processes.start(parts.scheduler(layout))
    client = Client.with_token(
        layout.ports.api, parts.token_of(layout.tokens, "admin"), layout.certificates.authority
    )
    kubectl = Kubectl(binary, layout.kubeconfig("admin"), layout.folder / "kubectl")
    cluster = Cluster(client, kubectl, kueue, jobset, True, processes, layout)
    for definition in (
        *chain(*(found.result() for found in definitions)),
        crds.checkpoint_definition(),
    ):
        client.create(definition)
    for namespace in ("default", "kueue-system", "jobset-system"):
        cluster.ensure_namespace(namespace)
    cluster.wait(lambda: crds.established(client), 90, "custom resources to be served")
    processes.start(parts.kwok(layout, kwok.write_stages(layout.folder / "stages.yaml")))
    processes.start(parts.jobset(layout, jobset))
    processes.start(parts.kueue(layout, kueue, kueue_settings))
    for product in products:
        for configuration in crds.webhooks(*product, kubectl.binary):
            client.create(configuration)
    cluster.wait(lambda: _webhooks_answer(client), 90, "the admission webhooks to answer")
    return cluster


def _products(
    layout: parts.Layout, kueue: str, jobset: str
) -> Sequence[tuple[str, str, str, str, Path]]:
    """Name, module, version, webhook URL and its authority of each product."""
    authority = layout.certificates.authority
    rows = (
        (versions.jobset(jobset), layout.ports.jobset_webhook),
        (versions.kueue(kueue), layout.ports.kueue_webhook),
    )
    return [
        (program.name, program.module, program.version, f"https://127.0.0.1:{port}", authority)
        for program, port in rows
    ]


def _webhooks_answer(client: Client) -> bool:
    """Whether JobSet's and Kueue's webhooks both take part in admission."""
    probe = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {
            "name": "probe",
            "namespace": "default",
            "labels": {"kueue.x-k8s.io/queue-name": "probe"},
        },
        "spec": {
            "replicatedJobs": [
                {
                    "name": "probe",
                    "template": {
                        "spec": {
                            "template": {"spec": {"containers": [{"name": "c", "image": "c"}]}}
                        }
                    },
                }
            ]
        },
    }
    try:
        spec = client.apply(probe, dry_run=True).body["spec"]
    except ApiError as error:
        if error.code == 500:
            return False
        raise
    return "successPolicy" in spec and spec.get("suspend") is True


def _keep_logs(source: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for log in source.glob("*.log"):
        shutil.copy2(log, target / log.name)
