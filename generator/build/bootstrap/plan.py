"""What is to exist before the first manifest is synced: one plan for all formats.

Sources: GKE documentation, "Multi-Tier Checkpointing" (add-ons, workload identity, bucket, roles),
"Plan TPUs in GKE" (one node pool a slice), "About Ironwood (TPU7x) in GKE" (workload policies).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from generator.build import retention
from generator.fleet import Fleet, Pool, RamDisk
from generator.problems import Problem
from generator.retention import job_names
from generator.self_hosted import ACCOUNT
from schemas.catalog import Accelerator
from schemas.inventory.base import Taint
from schemas.inventory.buckets import BucketSettings
from schemas.inventory.cluster import SystemNodes

ADDONS = ("HighScaleCheckpointing", "GcsFuseCsiDriver")
"""Add-ons of multi-tier checkpointing; the API refuses the first without the second."""

AGENT = ("gke-managed-checkpointing", "gke-checkpointing-multitier-node")
"""Namespace and service account of the driver's pods, which write the backups."""

USER, VIEWER = "roles/storage.objectUser", "roles/storage.objectViewer"

GKE_NAME_MAX = 40
"""GKE API reference, ``Cluster.name`` and ``NodePool.name``."""
POLICY_NAME_MAX = 63
"""Compute Engine API reference, ``resourcePolicies.name`` (RFC 1035)."""


@dataclass(frozen=True)
class NodePoolPlan:
    """One row of the inventory's node pools, and the pools that GKE makes of it.

    Attributes:
        name: the inventory's name.
        gke_names: the pools in GKE, one a slice for multi-host TPU.
        machine_type: of each node.
        nodes_per_zone: nodes of one GKE pool in each of its zones.
        zones: where its nodes lie.
        topology: of a multi-host slice, None for any other pool.
        policy: the workload policy that places the slice, for machines that need one.
        gpu: what each node carries, None for TPU and CPU pools.
    """

    name: str
    gke_names: tuple[str, ...]
    machine_type: str
    nodes_per_zone: int
    zones: tuple[str, ...]
    topology: str | None
    policy: str | None
    gpu: Accelerator | None
    spot: bool
    reservation: str | None
    labels: dict[str, str]
    taints: tuple[Taint, ...]


@dataclass(frozen=True)
class BucketPlan:
    """A bucket.

    Attributes:
        name: without ``gs://``.
        location: where it is made.
        create: whether this cluster's bootstrap makes it; otherwise it only checks it.
        created_by: the cluster that makes it.
        soft_delete_days: how long deleted objects can be brought back.
        hierarchical: whether it needs a hierarchical namespace.
    """

    name: str
    location: str
    create: bool
    created_by: str
    soft_delete_days: int
    hierarchical: bool


@dataclass(frozen=True)
class Binding:
    """A role that somebody has on a bucket.

    Attributes:
        key: a short name, unique among a bucket's.
        why: what it is for.
    """

    bucket: str
    key: str
    member: str
    role: str
    why: str


@dataclass(frozen=True)
class Plan:
    """Everything that the bootstrap of one cluster makes or checks."""

    cluster: str
    project: str
    project_number: str
    location: str
    region: str
    node_locations: tuple[str, ...]
    gke_version: str
    network: str | None
    subnetwork: str | None
    system_nodes: SystemNodes
    node_service_account: str | None
    addons: tuple[str, ...]
    pools: tuple[NodePoolPlan, ...]
    buckets: tuple[BucketPlan, ...]
    bindings: tuple[Binding, ...]
    jobset: str
    kueue: str

    @property
    def workload_pool(self) -> str:
        """The workload identity pool, which all clusters of a project share."""
        return f"{self.project}.svc.id.goog"

    @property
    def policies(self) -> dict[str, str]:
        """Workload policy → topology."""
        return {pool.policy: str(pool.topology) for pool in self.pools if pool.policy}


def region_of(location: str) -> str:
    """The region of a region or zone."""
    return "-".join(location.split("-")[:2])


def plan(fleet: Fleet) -> Plan:
    """The plan of a fleet's cluster; the fleet must have no :func:`problems`."""
    cluster = fleet.spec.cluster
    return Plan(
        cluster=cluster.name,
        project=cluster.project.id,
        project_number=cluster.project.number,
        location=cluster.location,
        region=region_of(cluster.location),
        node_locations=cluster.node_locations,
        gke_version=cluster.gke_version,
        network=cluster.network,
        subnetwork=cluster.subnetwork,
        system_nodes=cluster.system_nodes,
        node_service_account=cluster.node_service_account,
        addons=_addons(fleet),
        pools=tuple(_pool(fleet, pool) for pool in fleet.pools.values()),
        buckets=tuple(_bucket(fleet, name) for name in _bucket_names(fleet)),
        bindings=tuple(_bindings(fleet)),
        jobset=cluster.versions.jobset,
        kueue=cluster.versions.kueue,
    )


def _addons(fleet: Fleet) -> tuple[str, ...]:
    """The driver's add-ons; only Cloud Storage FUSE where nothing but a retention job wants it."""
    disks = list(fleet.ram_disks.values())
    if any(not disk.self_hosted for disk in disks):
        return ADDONS
    mounts = any(disk.spec.retention.tool == "backup-warden" for disk in disks)
    return ADDONS[1:] if mounts else ()


def _zones(fleet: Fleet, pool: Pool) -> tuple[str, ...]:
    """Where a pool's nodes lie; empty where that is not said."""
    cluster = fleet.spec.cluster
    zonal = (cluster.location,) if cluster.location.count("-") == 2 else ()
    return pool.spec.zones or cluster.node_locations or zonal


def _pool(fleet: Fleet, pool: Pool) -> NodePoolPlan:
    zones = _zones(fleet, pool)
    nodes = pool.nodes_per_slice if pool.is_multi_host else pool.nodes
    gpu = pool.accelerator if pool.accelerator and pool.accelerator.type == "gpu" else None
    policy = f"{fleet.spec.cluster.name}-{pool.name}"
    return NodePoolPlan(
        name=pool.name,
        gke_names=pool.gke_pools,
        machine_type=pool.machine.name,
        nodes_per_zone=nodes // len(zones),
        zones=zones,
        topology=pool.spec.topology if pool.is_multi_host else None,
        policy=policy if pool.is_multi_host and pool.machine.workload_policy else None,
        gpu=gpu,
        spot=pool.spec.spot,
        reservation=pool.spec.reservation,
        labels=dict(sorted(pool.spec.labels.items())),
        taints=pool.spec.taints,
    )


def _bucket_names(fleet: Fleet) -> list[str]:
    return sorted({disk.spec.bucket for disk in fleet.ram_disks.values()})


def _disks_on(fleet: Fleet, bucket: str) -> list[RamDisk]:
    return [disk for disk in fleet.ram_disks.values() if disk.spec.bucket == bucket]


def _bucket(fleet: Fleet, name: str) -> BucketPlan:
    cluster = fleet.spec.cluster
    settings = fleet.spec.buckets.get(name, BucketSettings())
    owner = settings.created_by or cluster.name
    return BucketPlan(
        name=name,
        location=settings.location or region_of(cluster.location),
        create=owner == cluster.name,
        created_by=owner,
        soft_delete_days=settings.soft_delete_days,
        hierarchical=any(not disk.self_hosted for disk in _disks_on(fleet, name)),
    )


def _bindings(fleet: Fleet) -> Iterator[Binding]:
    """Who may do what on each bucket, each once, the widest role of an account."""
    cluster = fleet.spec.cluster
    project = cluster.project
    identities = (
        f"principal://iam.googleapis.com/projects/{project.number}/locations/global/"
        f"workloadIdentityPools/{project.id}.svc.id.goog/subject"
    )
    node = cluster.node_service_account or f"{project.number}-compute@developer.gserviceaccount.com"
    for bucket in _bucket_names(fleet):
        for key, (namespace, account) in _writers(fleet, bucket).items():
            yield Binding(
                bucket,
                key,
                f"{identities}/ns/{namespace}/sa/{account}",
                USER,
                "the replicator writes backups and reads them",
            )
        yield Binding(
            bucket,
            "nodes",
            f"serviceAccount:{node}",
            VIEWER,
            "the nodes' own account reads the bucket",
        )
        for namespace, deletes in sorted(_retention(fleet, bucket).items()):
            yield Binding(
                bucket,
                f"retention-{namespace}",
                f"{identities}/ns/{namespace}/sa/{retention.SERVICE_ACCOUNT}",
                USER if deletes else VIEWER,
                "retention deletes old backups" if deletes else "retention lists old backups",
            )


def _writers(fleet: Fleet, bucket: str) -> dict[str, tuple[str, str]]:
    """Key of the binding → namespace and service account of what writes backups to a bucket.

    Agents of the self-hosted replicator with credentials of their own need no role here.
    """
    found: dict[str, tuple[str, str]] = {}
    for disk in _disks_on(fleet, bucket):
        agent = disk.spec.agent
        if not disk.self_hosted:
            found["checkpointing-agent"] = AGENT
        elif agent is not None and agent.credentials_secret is None:
            found[f"replicator-{agent.namespace}"] = (agent.namespace, ACCOUNT)
    return found


def _retention(fleet: Fleet, bucket: str) -> dict[str, bool]:
    """Namespaces whose retention job works on a bucket → whether it deletes."""
    found: dict[str, bool] = {}
    for disk in fleet.ram_disks.values():
        tool = disk.spec.retention
        if disk.spec.bucket == bucket and tool.tool != "none" and job_names(fleet, disk.name):
            found[tool.namespace] = found.get(tool.namespace, False) or tool.delete
    return found


def problems(fleet: Fleet) -> list[Problem]:
    """Why there can be no bootstrap of this cluster, empty if there can."""
    found = list(_name_problems(fleet))
    for pool in fleet.pools.values():
        found += _pool_problems(fleet, pool)
    return found


def _name_problems(fleet: Fleet) -> Iterator[Problem]:
    cluster = fleet.spec.cluster.name
    names = [(("cluster", "name"), "cluster", cluster, GKE_NAME_MAX)]
    for pool in fleet.pools.values():
        path = ("nodePools", pool.name)
        names.append((path, "node pool", max(pool.gke_pools, key=len), GKE_NAME_MAX))
        if pool.is_multi_host and pool.machine.workload_policy:
            names.append((path, "workload policy", f"{cluster}-{pool.name}", POLICY_NAME_MAX))
    for path, what, name, limit in names:
        if len(name) > limit:
            yield Problem(
                "INV100",
                path,
                f"the {what} would be called {name}: {len(name)} characters, GKE allows {limit}",
                "choose a shorter name",
                key=True,
            )
        elif not name[0].isalpha():
            yield Problem(
                "INV100",
                path,
                f"the {what} would be called {name}; Google Cloud wants a letter first",
                "let the name begin with a letter",
                key=True,
            )


def _pool_problems(fleet: Fleet, pool: Pool) -> Iterator[Problem]:
    path = ("nodePools", pool.name)
    zones = _zones(fleet, pool)
    if not zones or (pool.is_multi_host and len(zones) != 1):
        kind = "slices of several hosts lie in one zone" if pool.is_multi_host else "it has nodes"
        where = "none is said" if not zones else f"{', '.join(zones)} are said"
        yield Problem(
            "INV101",
            path,
            f"the zone of node pool {pool.name!r} is open: {kind}, {where}",
            "write zones: [the zone of the capacity] here, or nodeLocations of the cluster",
            key=True,
        )
    elif not pool.is_multi_host and pool.nodes % len(zones):
        yield Problem(
            "INV101",
            path,
            f"{pool.nodes} nodes do not divide over {len(zones)} zones ({', '.join(zones)})",
            "write zones: with those that it is in",
            key=True,
        )
    if pool.spec.spot and pool.spec.reservation:
        yield Problem(
            "INV102",
            (*path, "reservation"),
            "spot VMs cannot come from a reservation",
            "keep spot or reservation",
            key=True,
        )
