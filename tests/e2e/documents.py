"""The documents' fleet as we compile it, and variations of it that the scenarios need."""

from __future__ import annotations

import copy
from typing import Any

from .controlplane.client import Manifest
from .controlplane.kwok import POOL_LABEL
from .fleets import example_cluster

#: The compiled cluster that is the documents' example.
CLUSTER = "tpu-v6e-docs"
WORKLOAD_ANNOTATION = "stowplan.dev/workload"
HIGH_WORKLOAD, LOW_WORKLOAD = "high-jax-trillium", "low-jax-trillium"
SLICE_PODS = 4
#: Pods of each of the two JobSets: two slices of four hosts.
PODS = 2 * SLICE_PODS
SLICE_CHIPS = 16
EXCLUSIVE_TOPOLOGY = "alpha.jobset.sigs.k8s.io/exclusive-topology"
KUEUE, JOBSET = "kueue.x-k8s.io/v1beta2", "jobset.x-k8s.io/v1alpha2"
TPU = "google.com/tpu"
#: Quota of what is not scarce in these scenarios.
PLENTY = "1P"


def fleet() -> list[Manifest]:
    """What we compile for the documents' example: quota for both JobSets, a pool for each slice."""
    return example_cluster(CLUSTER).manifests()


def run_name(workload: str) -> str:
    """Name of the JobSet that runs a workload; it carries a hash."""
    return next(
        str(manifest["metadata"]["name"])
        for manifest in fleet()
        if manifest["metadata"].get("annotations", {}).get(WORKLOAD_ANNOTATION) == workload
    )


HIGH, LOW = run_name(HIGH_WORKLOAD), run_name(LOW_WORKLOAD)


def topology_aware(manifests: list[Manifest]) -> list[Manifest]:
    """The same fleet placed by Kueue instead of JobSet's exclusive topology."""
    changed = copy.deepcopy(manifests)
    for manifest in changed:
        if manifest["kind"] == "ResourceFlavor":
            manifest["spec"]["topologyName"] = "gke"
        if manifest["kind"] == "JobSet":
            del manifest["metadata"]["annotations"][EXCLUSIVE_TOPOLOGY]
            template = manifest["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
            template["metadata"] = {
                "annotations": {
                    "kueue.x-k8s.io/podset-slice-required-topology": POOL_LABEL,
                    "kueue.x-k8s.io/podset-slice-size": str(SLICE_PODS),
                }
            }
    levels = [{"nodeLabel": POOL_LABEL}, {"nodeLabel": "kubernetes.io/hostname"}]
    topology = {
        "apiVersion": KUEUE,
        "kind": "Topology",
        "metadata": {"name": "gke"},
        "spec": {"levels": levels},
    }
    return [topology, *changed]


def jobset(
    name: str, queue: str = "default-queue", priority: str = "low", slices: int = 1
) -> Manifest:
    """A JobSet like the documents' with another name, queue, priority and number of slices."""
    found = next(m for m in fleet() if m["metadata"]["name"] == LOW)
    found["metadata"]["name"] = name
    labels = found["metadata"]["labels"]
    labels["kueue.x-k8s.io/queue-name"] = queue
    labels["kueue.x-k8s.io/priority-class"] = f"{priority}-priority-job"
    job = found["spec"]["replicatedJobs"][0]
    job["replicas"] = slices
    job["template"]["spec"]["template"]["spec"]["priorityClassName"] = f"{priority}-priority-job"
    return found


def without_jobsets(manifests: list[Manifest]) -> list[Manifest]:
    return [manifest for manifest in manifests if manifest["kind"] != "JobSet"]


def queues(name: str, slices: int, **spec: Any) -> list[Manifest]:
    """A ClusterQueue with quota for so many slices, and its LocalQueue ``<name>-queue``.

    Args:
        name: name of the ClusterQueue.
        slices: nominal quota in slices.
        spec: further fields of the ClusterQueue, such as ``cohortName`` and ``preemption``.
    """
    quota = {TPU: str(slices * SLICE_CHIPS), **dict.fromkeys(("cpu", "memory"), PLENTY)}
    resources = [{"name": name, "nominalQuota": amount} for name, amount in quota.items()]
    cluster_queue = {
        "apiVersion": KUEUE,
        "kind": "ClusterQueue",
        "metadata": {"name": name},
        "spec": {
            "namespaceSelector": {},
            "resourceGroups": [
                {
                    "coveredResources": list(quota),
                    "flavors": [{"name": "tpu-v6e-slice", "resources": resources}],
                }
            ],
            **spec,
        },
    }
    local_queue = {
        "apiVersion": KUEUE,
        "kind": "LocalQueue",
        "metadata": {"name": f"{name}-queue", "namespace": "default"},
        "spec": {"clusterQueue": name},
    }
    return [cluster_queue, local_queue]
