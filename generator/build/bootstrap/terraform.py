"""The bootstrap as Terraform, for the provider ``hashicorp/google``.

Every argument stands in ``arguments.yaml`` beside this file with its source. JobSet and
Kueue are not Terraform's: a provider for the cluster that the same state creates cannot be planned
before the cluster exists, so ``controllers.sh`` installs them afterwards.
"""

from __future__ import annotations

import re

from generator.build.bootstrap.hcl import Block, Reference, Value, render
from generator.build.bootstrap.plan import BucketPlan, NodePoolPlan, Plan

PROVIDER_VERSION = ">= 7.44.0, < 8.0.0"
"""cluster-toolkit#5996 pins the first: ``high_scale_checkpointing_config`` is in it."""
TERRAFORM_VERSION = ">= 1.5.0"

_CLUSTER = "google_container_cluster"
_POOL = "google_container_node_pool"
_BUCKET = "google_storage_bucket"
_EFFECTS = {
    "NoSchedule": "NO_SCHEDULE",
    "PreferNoSchedule": "PREFER_NO_SCHEDULE",
    "NoExecute": "NO_EXECUTE",
}
Body = tuple["tuple[str, Value] | Block", ...]


def files(plan: Plan) -> dict[str, str]:
    """The root module, a file a concern."""
    blocks = {
        "versions.tf": _versions(plan),
        "cluster.tf": _cluster(plan),
        "node-pools.tf": _pools(plan),
        "storage.tf": _storage(plan),
    }
    return {f"terraform/{name}": render(found) for name, found in blocks.items() if found}


def modules(plan: Plan) -> list[Block]:
    """Every block of the module, for checks."""
    return [*_versions(plan), *_cluster(plan), *_pools(plan), *_storage(plan)]


def identifier(text: str) -> str:
    """A name for a resource inside the module."""
    name = re.sub(r"[^a-z0-9_-]", "-", text)
    return name if name[0].isalpha() else f"b-{name}"


def _resource(kind: str, name: str, *body: tuple[str, Value] | Block, note: str = "") -> Block:
    comment = (note,) if note else ()
    return Block("resource", body, (kind, name), comment)


def _given(**arguments: Value | None) -> Body:
    """Arguments that are set, in order."""
    return tuple((name, value) for name, value in arguments.items() if value is not None)


def _enabled(block: str) -> Block:
    return Block(block, (("enabled", True),))


def _versions(plan: Plan) -> list[Block]:
    google: dict[str, Value] = {"source": "hashicorp/google", "version": PROVIDER_VERSION}
    return [
        Block(
            "terraform",
            (
                ("required_version", TERRAFORM_VERSION),
                Block("required_providers", (("google", google),)),
            ),
        ),
        Block("provider", (("project", plan.project), ("region", plan.region)), ("google",)),
    ]


def _cluster(plan: Plan) -> list[Block]:
    addons = {
        "GcsFuseCsiDriver": "gcs_fuse_csi_driver_config",
        "HighScaleCheckpointing": "high_scale_checkpointing_config",
    }
    enabled = tuple(_enabled(block) for addon, block in addons.items() if addon in plan.addons)
    cluster = _resource(
        _CLUSTER,
        "cluster",
        *_given(
            name=plan.cluster,
            location=plan.location,
            node_locations=_further_zones(plan) or None,
            min_master_version=plan.gke_version,
            network=plan.network,
            subnetwork=plan.subnetwork,
            remove_default_node_pool=True,
            initial_node_count=1,
            deletion_protection=True,
        ),
        Block("workload_identity_config", (("workload_pool", plan.workload_pool),)),
        *((Block("addons_config", enabled),) if enabled else ()),
    )
    system = _resource(
        _POOL,
        "system",
        ("name", "system"),
        ("cluster", Reference(f"{_CLUSTER}.cluster.id")),
        ("node_count", plan.system_nodes.nodes_per_zone),
        Block(
            "node_config",
            (
                *_given(
                    machine_type=plan.system_nodes.machine_type,
                    service_account=plan.node_service_account,
                ),
                *_node_identity(),
            ),
        ),
        note="JobSet's and Kueue's controllers, DNS, metrics.",
    )
    return [cluster, system]


def _further_zones(plan: Plan) -> list[Value]:
    """The nodes' zones; of a zonal cluster only those beside its own (provider documentation)."""
    return [zone for zone in plan.node_locations if zone != plan.location]


def _node_identity() -> Body:
    return (
        ("oauth_scopes", ["https://www.googleapis.com/auth/cloud-platform"]),
        Block("workload_metadata_config", (("mode", "GKE_METADATA"),)),
    )


def _pools(plan: Plan) -> list[Block]:
    blocks: list[Block] = []
    for pool in plan.pools:
        if pool.policy:
            blocks.append(
                _resource(
                    "google_compute_resource_policy",
                    identifier(pool.name),
                    ("name", pool.policy),
                    ("region", plan.region),
                    Block(
                        "workload_policy",
                        (
                            ("type", "HIGH_THROUGHPUT"),
                            ("accelerator_topology", str(pool.topology)),
                        ),
                    ),
                    note="This machine's slices are placed by a workload policy.",
                )
            )
        blocks.append(_pool(plan, pool))
    return blocks


def _pool(plan: Plan, pool: NodePoolPlan) -> Block:
    several = len(pool.gke_names) > 1 or pool.gke_names[0] != pool.name
    head: Body = (("name", pool.name),)
    if several:
        names = ", ".join(f'"{name}"' for name in pool.gke_names)
        head = (
            ("for_each", Reference(f"toset([{names}])")),
            ("name", Reference("each.key")),
        )
    return _resource(
        _POOL,
        identifier(pool.name),
        *head,
        ("cluster", Reference(f"{_CLUSTER}.cluster.id")),
        ("node_locations", list(pool.zones)),
        ("node_count", pool.nodes_per_zone),
        *_placement(pool),
        Block("node_config", _node_config(plan, pool)),
        note=f"One node pool for each slice of {pool.topology}." if pool.topology else "",
    )


def _placement(pool: NodePoolPlan) -> Body:
    if pool.policy:
        name = Reference(f"google_compute_resource_policy.{identifier(pool.name)}.name")
        return (Block("placement_policy", (("type", "COMPACT"), ("policy_name", name))),)
    if pool.topology:
        return (Block("placement_policy", (("type", "COMPACT"), ("tpu_topology", pool.topology))),)
    return ()


def _node_config(plan: Plan, pool: NodePoolPlan) -> Body:
    body: Body = _given(
        machine_type=pool.machine_type,
        spot=True if pool.spot else None,
        service_account=plan.node_service_account,
    )
    if pool.labels:
        labels: dict[str, Value] = dict(pool.labels)
        body += (("labels", labels),)
    body += _node_identity()
    if pool.gpu:
        driver = Block("gpu_driver_installation_config", (("gpu_driver_version", "LATEST"),))
        card: Body = (("type", pool.gpu.name), ("count", pool.gpu.per_node), driver)
        body += (Block("guest_accelerator", card),)
    if pool.reservation:
        affinity: Body = (
            ("consume_reservation_type", "SPECIFIC_RESERVATION"),
            ("key", "compute.googleapis.com/reservation-name"),
            ("values", [pool.reservation]),
        )
        body += (Block("reservation_affinity", affinity),)
    for taint in pool.taints:
        parts: Body = (
            ("key", taint.key),
            ("value", taint.value),
            ("effect", _EFFECTS.get(taint.effect, taint.effect)),
        )
        body += (Block("taint", parts),)
    return body


def _storage(plan: Plan) -> list[Block]:
    blocks = [_bucket(bucket) for bucket in plan.buckets]
    for binding in plan.bindings:
        owner = next(bucket for bucket in plan.buckets if bucket.name == binding.bucket)
        blocks.append(
            _resource(
                "google_storage_bucket_iam_member",
                identifier(f"{binding.bucket}-{binding.key}"),
                ("bucket", Reference(f"{_address(owner)}.name")),
                ("role", binding.role),
                ("member", binding.member),
                # The workload identity pool of a project comes with its first cluster.
                ("depends_on", [Reference(f"{_CLUSTER}.cluster")]),
                note=f"{binding.why[0].upper()}{binding.why[1:]}.",
            )
        )
    return blocks


def _address(bucket: BucketPlan) -> str:
    return f"{'' if bucket.create else 'data.'}{_BUCKET}.{identifier(bucket.name)}"


def _bucket(bucket: BucketPlan) -> Block:
    labels = (_BUCKET, identifier(bucket.name))
    if not bucket.create:
        checks: Body = (Block("lifecycle", (_hierarchy_check(bucket),)),)
        return Block(
            "data",
            (("name", bucket.name), *(checks if bucket.hierarchical else ())),
            labels,
            (f"Made by the bootstrap of {bucket.created_by}.",),
        )
    hierarchy = (_enabled("hierarchical_namespace"),) if bucket.hierarchical else ()
    note = "A hierarchical namespace cannot be turned on later: a change makes a new bucket."
    return Block(
        "resource",
        (
            ("name", bucket.name),
            ("location", bucket.location),
            ("uniform_bucket_level_access", True),
            ("public_access_prevention", "enforced"),
            *hierarchy,
            Block(
                "soft_delete_policy",
                (("retention_duration_seconds", bucket.soft_delete_days * 86400),),
            ),
            Block("lifecycle", (("prevent_destroy", True),)),
        ),
        labels,
        (note,) if bucket.hierarchical else (),
    )


def _hierarchy_check(bucket: BucketPlan) -> Block:
    message = f"Bucket {bucket.name} has no hierarchical namespace: every backup would fail."
    return Block(
        "postcondition",
        (
            ("condition", Reference("try(self.hierarchical_namespace[0].enabled, false)")),
            ("error_message", message),
        ),
    )
