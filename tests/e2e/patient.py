"""A cluster under examination by ``stowplan doctor``, asked through its command line."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from generator.cli.main import main

from .checkpoint_addon import CHECKPOINTING, CONFIG_API, driver_daemon_set
from .controlplane.client import Manifest
from .controlplane.kwok import add_pool, ready_nodes, tpu_v6e_pool
from .controlplane.plane import Cluster
from .documents import CLUSTER, HIGH, LOW, PODS, fleet
from .fleets import COMPILED

FOLDER = COMPILED / CLUSTER
POOLS = [tpu_v6e_pool(f"pool-{letter}") for letter in "abcd"]


@dataclass(frozen=True)
class Patient:
    """A cluster, and how the doctor gets to it.

    Attributes:
        cluster: the plane.
        folder: where reports are written.
        kubeconfig: another kubeconfig than the plane's own, such as one with fewer rights.
        context: the context to name.
        kubectl: another program than the plane's own kubectl.
    """

    cluster: Cluster
    folder: Path
    kubeconfig: Path | None = None
    context: str = "e2e"
    kubectl: Path | None = None

    def ask(self, *arguments: str) -> int:
        """Run the doctor through its command line, as a user would, and return its exit code."""
        return main(
            [
                "doctor",
                f"--kubeconfig={self.kubeconfig or self.cluster.kubectl.kubeconfig}",
                f"--context={self.context}",
                f"--kubectl={self.kubectl or self.cluster.kubectl.binary}",
                *arguments,
            ]
        )

    def findings(self, code: int | None = None) -> list[dict[str, Any]]:
        """What the doctor finds, compared with the compiled folder."""
        report = self.folder / "report.json"
        answer = self.ask(str(FOLDER), "--format=json", f"--output={report}")
        assert answer == code if code is not None else answer in (0, 1)
        return list(json.loads(report.read_text())["findings"])

    def wait_for(self, rule: str, seconds: float = 60, **wanted: str) -> dict[str, Any]:
        """Ask until there is a finding of a rule whose fields hold the texts given."""

        def found() -> dict[str, Any] | None:
            return next((f for f in self.findings() if matches(f, rule, wanted)), None)

        try:
            return dict(self.cluster.wait(found, seconds, f"{rule} {wanted}"))
        except TimeoutError as error:
            raise AssertionError(f"{error}: {told(self.findings())}") from None

    def wait_without(self, *rules: str, seconds: float = 60) -> None:
        """Ask until there is no finding of these rules."""
        try:
            self.cluster.wait(
                lambda: not [f for f in self.findings() if f["rule"] in rules], seconds, str(rules)
            )
        except TimeoutError as error:
            raise AssertionError(f"{error}: {told(self.findings())}") from None


def matches(finding: dict[str, Any], rule: str, wanted: dict[str, str]) -> bool:
    return finding["rule"] == rule and all(text in finding[key] for key, text in wanted.items())


def told(findings: list[dict[str, Any]]) -> str:
    return "\n".join(
        f"{f['severity']} {f['rule']} {f['resource']}: {f['message']}" for f in findings
    )


def faults(findings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Findings that are more than notes; the plane's Kubernetes is newer than the fleet's."""
    return [f for f in findings if f["severity"] != "note" and f["rule"] != "DOC003"]


def healthy_fleet(cluster: Cluster, folder: Path) -> Patient:
    """The documents' fleet on nodes of its own, both jobs running, with a driver on every node."""
    for pool in POOLS:
        add_pool(cluster.client, pool)
    names = {name for pool in POOLS for name in pool.node_names()}
    cluster.wait(lambda: ready_nodes(cluster.client) >= names, 90, "nodes to be ready")
    cluster.ensure_namespace(CHECKPOINTING)
    apply(cluster, fleet())
    config = next(m for m in fleet() if m["kind"] == "CheckpointConfiguration")
    install_driver(cluster, config["metadata"]["name"])
    cluster.wait(lambda: running(cluster, HIGH) and running(cluster, LOW), 120, "both jobs run")
    return Patient(cluster, folder)


def apply(cluster: Cluster, manifests: list[Manifest]) -> None:
    for manifest in manifests:
        namespace = manifest["metadata"].get("namespace")
        if namespace and namespace != "default":
            cluster.ensure_namespace(namespace)
        cluster.client.apply(manifest, force=True)


def install_driver(cluster: Cluster, config: str) -> None:
    """Do what the add-on does, and wait until every node has its driver."""
    driver = driver_daemon_set(cluster.client.get(CONFIG_API, "CheckpointConfiguration", config))
    cluster.client.create(driver)
    name = driver["metadata"]["name"]
    cluster.wait(
        lambda: (
            cluster.client.get("apps/v1", "DaemonSet", name, CHECKPOINTING)
            .get("status", {})
            .get("numberReady")
            == sum(pool.nodes for pool in POOLS)
        ),
        60,
        "driver pods on all nodes",
    )


def running(cluster: Cluster, name: str, number: int = PODS) -> bool:
    """Whether a JobSet has so many pods and all of them run."""
    pods = cluster.client.items("v1", "Pod", "default", f"jobset.sigs.k8s.io/jobset-name={name}")
    return len(pods) == number and all(pod["status"].get("phase") == "Running" for pod in pods)


def run_advice(cluster: Cluster, command: str) -> str:
    """Run a command as the doctor words it, with the plane's kubectl, and return what it says."""
    program, *arguments = shlex.split(command)
    assert program == "kubectl"
    done = cluster.kubectl.run(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def write_kubeconfig(folder: Path, content: dict[str, Any]) -> Path:
    target = folder / "kubeconfig"
    target.touch(mode=0o600)
    target.write_text(yaml.safe_dump(content))
    return target
