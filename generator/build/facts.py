"""``cluster.yaml``: what a check, a diff or a policy needs to know of a cluster beside its
manifests.

It is no Kubernetes object of any cluster; the annotation ``config.kubernetes.io/local-config`` (a
convention of kustomize and kpt) says so, and it lies outside the layers that are synced.
"""

from __future__ import annotations

from typing import Any

from generator.fleet import Fleet, Pool
from schemas.quantity import GIB

LOCAL = {"config.kubernetes.io/local-config": "true"}


def facts(fleet: Fleet) -> dict[str, Any]:
    """The facts of one cluster as plain values."""
    cluster = fleet.spec.cluster
    labels = {"environment": cluster.environment, **dict(sorted(cluster.labels.items()))}
    return {
        "apiVersion": "stowplan.dev/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": cluster.name, "labels": labels, "annotations": LOCAL},
        "spec": {
            "project": {"id": cluster.project.id, "number": cluster.project.number},
            "location": cluster.location,
            "nodeLocations": list(cluster.node_locations),
            "mode": cluster.mode,
            "gkeVersion": cluster.gke_version,
            "versions": {
                "kueue": cluster.versions.kueue,
                "jobset": cluster.versions.jobset,
            },
            "apiVersions": {"kueue": fleet.kueue_api, "jobset": "jobset.x-k8s.io/v1alpha2"},
            "nodePools": [_pool(pool) for pool in fleet.pools.values()],
            "waivers": [
                {
                    "rule": waiver.rule,
                    "resource": waiver.resource,
                    "reason": waiver.reason,
                    "owner": waiver.owner,
                    "expires": waiver.expires.isoformat(),
                }
                for waiver in fleet.spec.waivers
            ],
        },
    }


def _pool(pool: Pool) -> dict[str, Any]:
    machine = pool.machine
    row: dict[str, Any] = {"name": pool.name, "machineType": machine.name}
    if machine.accelerator is not None:
        row["accelerator"] = {
            "type": machine.accelerator.type,
            "name": machine.accelerator.name,
            "resource": machine.accelerator.resource,
            "perNode": machine.accelerator.per_node,
        }
    if pool.spec.topology is not None:
        row["topology"] = pool.spec.topology
    taints = [{"key": t.key, "value": t.value, "effect": t.effect} for t in pool.taints]
    return {
        **row,
        "nodesPerSlice": pool.nodes_per_slice,
        "slices": pool.slices,
        "nodes": pool.nodes,
        "memory": f"{int(machine.memory // GIB)}Gi",
        "allocatableMemory": f"{int(machine.allocatable_memory // GIB)}Gi",
        "cpu": str(machine.vcpus),
        "spot": pool.spec.spot,
        "labels": pool.labels,
        "taints": taints,
    }
