"""The bootstrap as ``gcloud`` commands: in order, each only where it is needed, each checked.

Flags: ``gcloud`` 528.0.0, held by ``arguments.yaml`` beside this file. Whether something
exists is asked with ``list``, which answers with nothing; a ``describe`` that fails could as well
be a missing permission.
"""

from __future__ import annotations

from generator.build.bootstrap.plan import ADDONS, BucketPlan, NodePoolPlan, Plan
from generator.build.bootstrap.shell import Script

ADDON_FIELDS = {
    "HighScaleCheckpointing": "addonsConfig.highScaleCheckpointingConfig.enabled",
    "GcsFuseCsiDriver": "addonsConfig.gcsFuseCsiDriverConfig.enabled",
}
"""Add-on → field of ``gcloud container clusters describe``."""
_USUAL_ADDONS = ("HorizontalPodAutoscaling", "HttpLoadBalancing")
"""On by default, but ``--addons`` switches off what it does not name (``gcloud container clusters
create --help``)."""
_HIERARCHY = (
    "A hierarchical namespace makes renames of directories atomic, without which backups fail;",
    "it cannot be turned on later.",
)
_BINDINGS = Script.quoted(
    "--flatten=bindings[].members",
    "--format=csv[no-heading](bindings.role,bindings.members,bindings.condition.title)",
)
"""A line ``role,member,condition`` for each member of each binding."""


def files(plan: Plan) -> dict[str, str]:
    """``gcloud.sh``."""
    script = Script(
        f"Creates or updates cluster {plan.cluster}, its buckets, roles and node pools. May be run",
        "again at any time: what is there is checked and kept. Needs gcloud and kubectl.",
        "PLAN=1 bash gcloud.sh prints the commands that change something, and runs none of them.",
    )
    _functions(script, plan)
    _project(script, plan)
    _cluster(script, plan)
    if plan.buckets:
        script.lines("", "# Buckets that PLAN would make.", "missing=''")
    for bucket in plan.buckets:
        _bucket(script, plan, bucket)
    _bindings(script, plan)
    _policies(script, plan)
    _pools(script, plan)
    script.step("JobSet and Kueue")
    script.lines(
        'if [[ -n "$cluster" || -z "$PLAN" ]]; then',
        f'  PLAN="$PLAN" {script.quoted("bash", script.beside("controllers.sh"))}',
        "fi",
    )
    if ADDONS[0] in plan.addons:
        script.lines(
            "printf '\\ndone; once the manifests are synced, each node has a driver (5/5):\\n"
            "  kubectl get pod --namespace gke-managed-checkpointing\\n'"
        )
    return {"gcloud.sh": script.text()}


def _place(plan: Plan) -> tuple[str, ...]:
    return (f"--project={plan.project}", f"--location={plan.location}")


def _functions(script: Script, plan: Plan) -> None:
    script.function(
        "cluster_fact",
        "a field of the cluster; nothing while PLAN is set and there is none",
        'if [[ -n "$PLAN" && -z "$cluster" ]]; then return 0; fi',
        script.quoted("gcloud", "container", "clusters", "describe", plan.cluster, *_place(plan))
        + ' --format="value($1)"',
    )
    if plan.pools:
        script.function(
            "pool_fact",
            "a field of a node pool; nothing while PLAN is set and there is none",
            'if [[ -n "$PLAN" ]] && ! grep -Fxq -- "$1" <<<"$pools"; then return 0; fi',
            'gcloud container node-pools describe "$1" '
            + script.quoted(f"--cluster={plan.cluster}", *_place(plan))
            + ' --format="value($2)"',
        )
    if plan.bindings:
        script.function(
            "has_role",
            "yes if a member has a role on a bucket without a condition: bucket, member, role",
            "local policy",
            'if [[ " $missing " == *" $1 "* ]]; then printf no; return 0; fi',
            f'policy="$(gcloud storage buckets get-iam-policy "$1" {_BINDINGS})" || return 1',
            'if grep -Fxq -- "$3,$2," <<<"$policy"; then printf yes; else printf no; fi',
        )


def _project(script: Script, plan: Plan) -> None:
    script.step(f"Project {plan.project}", "IAM principals are written with its number.")
    script.capture(
        "found", "gcloud", "projects", "describe", plan.project, "--format=value(projectNumber)"
    )
    script.expect(f"number of project {plan.project}", plan.project_number)


def _node_account(plan: Plan) -> tuple[str, ...]:
    return (f"--service-account={plan.node_service_account}",) if plan.node_service_account else ()


def _cluster(script: Script, plan: Plan) -> None:
    place, name = _place(plan), plan.cluster
    script.step(f"Cluster {name}")
    script.capture(
        "cluster", "gcloud", "container", "clusters", "list", *place,
        f"--filter=name={name}", "--format=value(name)",
    )  # fmt: skip
    options = {
        "cluster-version": plan.gke_version,
        "node-locations": ",".join(plan.node_locations),
        "machine-type": plan.system_nodes.machine_type,
        "num-nodes": str(plan.system_nodes.nodes_per_zone),
        "network": plan.network,
        "subnetwork": plan.subnetwork,
        "workload-pool": plan.workload_pool,
        "addons": ",".join((*plan.addons, *_USUAL_ADDONS)) if plan.addons else "",
    }
    create = [f"--{option}={value}" for option, value in options.items() if value]
    script.when(
        '[[ -z "$cluster" ]]',
        "gcloud", "container", "clusters", "create", name, *place, *create, *_node_account(plan),
    )  # fmt: skip
    script.lines('if [[ -n "$cluster" ]]; then')
    _update(
        script,
        plan,
        "workloadIdentityConfig.workloadPool",
        plan.workload_pool,
        f"--workload-pool={plan.workload_pool}",
    )
    for addon in plan.addons[::-1]:
        _update(script, plan, ADDON_FIELDS[addon], "True", f"--update-addons={addon}=ENABLED")
    script.lines("fi")
    script.expect(
        "workload pool", plan.workload_pool, '"$(cluster_fact workloadIdentityConfig.workloadPool)"'
    )
    for addon in plan.addons:
        script.expect(f"add-on {addon}", "True", f'"$(cluster_fact {ADDON_FIELDS[addon]})"')
    script.lines(
        'version="$(cluster_fact currentMasterVersion)"',
        f'if [[ -n "$version" && "$version" != {script.quoted(plan.gke_version)} ]]; then',
        f"  printf 'note: the control plane runs %s, the inventory says {plan.gke_version}; "
        'an upgrade is left to you\\n\' "$version"',
        "fi",
    )


def _update(script: Script, plan: Plan, field: str, wanted: str, option: str) -> None:
    """Update the cluster where a field is not as it must be."""
    script.capture("found", "cluster_fact", field, indent="  ")
    script.lines(f'  if [[ "$found" != {script.quoted(wanted)} ]]; then')
    script.run(
        "gcloud", "container", "clusters", "update", plan.cluster, *_place(plan), option,
        indent="    ",
    )  # fmt: skip
    script.lines("  fi")


def _bucket(script: Script, plan: Plan, bucket: BucketPlan) -> None:
    url = f"gs://{bucket.name}"
    if bucket.create:
        script.step(
            f"Bucket {bucket.name}",
            *(_HIERARCHY if bucket.hierarchical else ()),
        )
        script.capture(
            "found", "gcloud", "storage", "buckets", "list", f"--project={plan.project}",
            f"--filter=name={bucket.name}", "--format=value(name)",
        )  # fmt: skip
        script.when(
            '[[ -z "$found" ]]',
            "gcloud", "storage", "buckets", "create", url, f"--project={plan.project}",
            f"--location={bucket.location}", "--uniform-bucket-level-access",
            *(("--enable-hierarchical-namespace",) if bucket.hierarchical else ()),
            "--public-access-prevention",
            f"--soft-delete-duration={bucket.soft_delete_days * 86400}s",
        )  # fmt: skip
        script.lines(
            'if [[ -z "$found" && -n "$PLAN" ]]; then',
            f"  missing+={script.quoted(f' {url}')}",
            "else",
        )
    else:
        script.step(f"Bucket {bucket.name}", f"It is made by the bootstrap of {bucket.created_by}.")
    indent = "  " if bucket.create else ""
    facts = [("uniform access", "iamConfiguration.uniformBucketLevelAccess.enabled")]
    if bucket.hierarchical:
        facts.insert(0, ("hierarchical namespace", "hierarchicalNamespace.enabled"))
    for what, field in facts:
        script.capture(
            "found", "gcloud", "storage", "buckets", "describe", url, "--raw",
            f"--format=value({field})", indent=indent,
        )  # fmt: skip
        script.lines(f'{indent}expect {script.quoted(f"{what} of {url}", "True")} "$found"')
    if bucket.create:
        script.lines("fi")


def _bindings(script: Script, plan: Plan) -> None:
    if not plan.bindings:
        return
    script.step(
        "Roles on the buckets",
        "A principal names a service account of every cluster of the project: they share one "
        "workload",
        "identity pool.",
    )
    for binding in plan.bindings:
        url = f"gs://{binding.bucket}"
        words = (url, binding.member, binding.role)
        script.comment(binding.why)
        script.capture("found", "has_role", *words)
        script.when(
            '[[ "$found" != yes ]]',
            "gcloud", "storage", "buckets", "add-iam-policy-binding", url,
            f"--member={binding.member}", f"--role={binding.role}", "--condition=None",
        )  # fmt: skip
        again = f'"$({script.quoted("has_role", *words)})"'
        script.expect(f"{binding.role} on {url} for {binding.key}", "yes", again)


def _policies(script: Script, plan: Plan) -> None:
    for policy, topology in plan.policies.items():
        script.step(
            f"Workload policy {policy}", "It places the nodes of a slice; this machine wants one."
        )
        script.capture(
            "found", "gcloud", "compute", "resource-policies", "list", f"--project={plan.project}",
            f"--filter=name={policy} AND region~/{plan.region}$", "--format=value(name)",
        )  # fmt: skip
        script.when(
            '[[ -z "$found" ]]',
            "gcloud", "compute", "resource-policies", "create", "workload-policy", policy,
            f"--project={plan.project}", f"--region={plan.region}", "--type=HIGH_THROUGHPUT",
            f"--accelerator-topology={topology}",
        )  # fmt: skip


def _pools(script: Script, plan: Plan) -> None:
    if not plan.pools:
        return
    place = (f"--cluster={plan.cluster}", *_place(plan))
    script.lines("", "pools=''", 'if [[ -n "$cluster" ]]; then')
    script.capture(
        "pools", "gcloud", "container", "node-pools", "list", *place, "--format=value(name)",
        indent="  ",
    )  # fmt: skip
    script.lines("fi")
    for pool in plan.pools:
        notes = [f"One node pool for each slice of {pool.topology}."] if pool.topology else []
        if pool.gpu:
            notes.append(
                "Network interfaces for GPUDirect are a matter of your VPC: add them here."
            )
        script.step(f"Node pool {pool.name}", *notes)
        for name in pool.gke_names:
            script.when(
                f'! grep -Fxq -- {script.quoted(name)} <<<"$pools"',
                "gcloud", "container", "node-pools", "create", name, *place,
                *_pool_options(plan, pool),
            )  # fmt: skip
        for name in pool.gke_names:
            for what, wanted, field in _pool_facts(pool):
                fact = f'"$({script.quoted("pool_fact", name, field)})"'
                script.expect(f"{what} of {name}", wanted, fact)


def _pool_facts(pool: NodePoolPlan) -> list[tuple[str, str, str]]:
    """What, its value, its field in ``gcloud container node-pools describe``."""
    facts = [
        ("machine type", pool.machine_type, "config.machineType"),
        ("workload metadata", "GKE_METADATA", "config.workloadMetadataConfig.mode"),
    ]
    if pool.policy:
        facts.append(("workload policy", pool.policy, "placementPolicy.policyName"))
    elif pool.topology:
        facts.append(("topology", pool.topology, "placementPolicy.tpuTopology"))
    return facts


def _pool_options(plan: Plan, pool: NodePoolPlan) -> list[str]:
    labels = ",".join(f"{key}={value}" for key, value in pool.labels.items())
    taints = ",".join(f"{t.key}={t.value}:{t.effect}" for t in pool.taints)
    gpu = pool.gpu
    options = {
        "machine-type": pool.machine_type,
        "num-nodes": str(pool.nodes_per_zone),
        "node-locations": ",".join(pool.zones),
        "tpu-topology": None if pool.policy else pool.topology,
        "placement-policy": pool.policy,
        "accelerator": f"type={gpu.name},count={gpu.per_node},gpu-driver-version=latest"
        if gpu
        else None,
        "reservation-affinity": "specific" if pool.reservation else None,
        "reservation": pool.reservation,
        "node-labels": labels,
        "node-taints": taints,
        "workload-metadata": "GKE_METADATA",
    }
    return [
        *(f"--{option}={value}" for option, value in options.items() if value),
        *(["--spot"] if pool.spot else []),
        *_node_account(plan),
    ]
