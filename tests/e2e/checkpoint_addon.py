"""A stand-in for GKE's multi-tier checkpointing add-on, whose module the Go proxy does not serve.

It does what the public controller does with a CheckpointConfiguration (GoogleCloudPlatform/
high-scale-checkpointing-controller, ``pkg/multitier-controller/controller.go``): a finalizer and a
DaemonSet named after the UID when the object is created, nothing at all when it is edited, nothing
while drivers of another configuration are on its nodes, and on deletion the drivers go before the
finalizer does. What is on a node's RAM disk lives as long as the driver's pod.
"""

from __future__ import annotations

import threading
from types import TracebackType

import urllib3

from .controlplane.client import ApiError, Client, Manifest
from .controlplane.plane import Cluster

CONFIG_API = "checkpointing.gke.io/v1"
CHECKPOINTING = "gke-managed-checkpointing"
#: GKE's documentation shows a driver's pod as 5/5 Running.
CONTAINERS = 5
FINALIZER = "checkpointing.gke.io/checkpoint-target-protection"
_OWNER_LABEL = "e2e/configuration"
_INTERVAL_S = 0.3


class CheckpointAddon:
    """The controller, running in a thread while the context lasts."""

    def __init__(self, cluster: Cluster) -> None:
        cluster.ensure_namespace(CHECKPOINTING)
        self._client = cluster.client
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> CheckpointAddon:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopping.set()
        self._thread.join(timeout=10)

    def _run(self) -> None:
        while not self._stopping.wait(_INTERVAL_S):
            try:
                for config in self._client.items(CONFIG_API, "CheckpointConfiguration"):
                    self._reconcile(config)
            except (ApiError, urllib3.exceptions.HTTPError):
                # A conflict, or a server that is about to stop: seen again in the next round.
                continue

    def _reconcile(self, config: Manifest) -> None:
        metadata = config["metadata"]
        driver = driver_name(config)
        exists = self._client.find("apps/v1", "DaemonSet", driver, CHECKPOINTING) is not None
        if "deletionTimestamp" in metadata:
            if exists:
                self._client.delete("apps/v1", "DaemonSet", driver, CHECKPOINTING)
            elif not driver_pods(self._client, metadata["uid"]):
                self._set_finalizers(metadata["name"], [])
        elif FINALIZER not in metadata.get("finalizers", []):
            self._set_finalizers(metadata["name"], [FINALIZER])
        elif not exists and not self._taken(config):
            self._client.create(driver_daemon_set(config))

    def _taken(self, config: Manifest) -> bool:
        """Whether drivers of another configuration are on the nodes that this one selects."""
        return any(
            pod["spec"].get("nodeSelector") == config["spec"]["nodeSelector"]
            for pod in driver_pods(self._client)
        )

    def _set_finalizers(self, name: str, finalizers: list[str]) -> None:
        patch = {"metadata": {"finalizers": finalizers}}
        self._client.merge(CONFIG_API, "CheckpointConfiguration", name, patch)


def driver_name(config: Manifest) -> str:
    """Name of the DaemonSet of a configuration, and the stem of its pods' names."""
    return f"multitier-driver-{config['metadata']['uid']}"


def driver_pods(client: Client, uid: str = "") -> list[Manifest]:
    """The drivers' pods, of one configuration or of all."""
    selector = f"{_OWNER_LABEL}={uid}" if uid else _OWNER_LABEL
    return client.items("v1", "Pod", CHECKPOINTING, selector)


def ram_disks(client: Client) -> dict[str, str]:
    """Node → UID of the driver's pod that runs there: another pod is another, empty, RAM disk."""
    return {
        pod["spec"]["nodeName"]: str(pod["metadata"]["uid"])
        for pod in driver_pods(client)
        if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
    }


def driver_daemon_set(config: Manifest) -> Manifest:
    """What the add-on makes of a CheckpointConfiguration."""
    labels = {_OWNER_LABEL: config["metadata"]["uid"]}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": driver_name(config), "namespace": CHECKPOINTING},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "nodeSelector": config["spec"]["nodeSelector"],
                    "tolerations": config["spec"]["tolerations"],
                    "containers": [
                        {"name": f"part-{index}", "image": "driver"} for index in range(CONTAINERS)
                    ],
                },
            },
        },
    }
