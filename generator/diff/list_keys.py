"""How the entries of each list are told apart: a table.

Kubernetes marks a list as a map (``x-kubernetes-list-type: map`` with its keys), a set, or atomic.
A diff by index would show every later entry as changed when one is inserted; a diff by key shows
the one. Lists that the table does not name are matched by ``name`` where every entry has one of its
own, else aligned as text is.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ListRule:
    """How to match the entries of one list.

    Attributes:
        keys: the fields that tell entries apart; empty for a list of scalars.
        ordered: whether the order means something to the reader of the list.
        scalars: ``set`` (order and repeats mean nothing), ``options`` (as a set, but
            ``name=value`` or ``name:value`` entries are matched by name) or ``sequence``.
        loose: entries left over on both sides are paired in order, because the key itself is
            something that people edit.
        source: what says so.
    """

    keys: tuple[str, ...] = ()
    ordered: bool = False
    scalars: str = "sequence"
    loose: bool = False
    source: str = ""


_CORE = "k8s.io/api/core/v1/types.go, listType markers"
_JOBSET = "kubernetes-sigs/jobset api/jobset/v1alpha2/jobset_types.go"
_QUEUE = "kubernetes-sigs/kueue apis/kueue/v1beta2/clusterqueue_types.go"
_FLAVOR = "kubernetes-sigs/kueue apis/kueue/v1beta2/resourceflavor_types.go"
_ARGO = "argoproj/argo-cd pkg/apis/application/v1alpha1/types.go"
_STOWPLAN = "stowplan.dev/v1alpha1 Cluster"

BY_KIND: dict[tuple[str, str, str], ListRule] = {
    ("jobset.x-k8s.io", "JobSet", "spec replicatedJobs"): ListRule(
        ("name",), ordered=True, source=_JOBSET
    ),
    ("jobset.x-k8s.io", "JobSet", "spec failurePolicy rules"): ListRule(
        ("name",), ordered=True, source=f"{_JOBSET}: rules are tried in order"
    ),
    ("jobset.x-k8s.io", "JobSet", "spec replicatedJobs dependsOn"): ListRule(
        ("name",), source=_JOBSET
    ),
    ("kueue.x-k8s.io", "ClusterQueue", "spec resourceGroups"): ListRule(
        ("coveredResources",), loose=True, source=f"{_QUEUE}: atomic, so matched by what it covers"
    ),
    ("kueue.x-k8s.io", "ClusterQueue", "spec resourceGroups coveredResources"): ListRule(
        scalars="set", source=_QUEUE
    ),
    ("kueue.x-k8s.io", "ClusterQueue", "spec resourceGroups flavors"): ListRule(
        ("name",), ordered=True, source=f"{_QUEUE}: flavors are tried in order"
    ),
    ("kueue.x-k8s.io", "ClusterQueue", "spec resourceGroups flavors resources"): ListRule(
        ("name",), source=_QUEUE
    ),
    ("kueue.x-k8s.io", "Cohort", "spec resourceGroups"): ListRule(
        ("coveredResources",), loose=True, source=_QUEUE
    ),
    ("kueue.x-k8s.io", "Cohort", "spec resourceGroups coveredResources"): ListRule(
        scalars="set", source=_QUEUE
    ),
    ("kueue.x-k8s.io", "Topology", "spec levels"): ListRule(
        ("nodeLabel",), ordered=True, source="kubernetes-sigs/kueue topology_types.go: widest first"
    ),
    ("kueue.x-k8s.io", "ResourceFlavor", "spec nodeTaints"): ListRule(
        ("key", "effect"), source=_FLAVOR
    ),
    ("checkpointing.gke.io", "CheckpointConfiguration", "spec gcsFuseMountOptions"): ListRule(
        scalars="options", source="high-scale-checkpointing-controller: options, joined"
    ),
    ("stowplan.dev", "Cluster", "spec nodePools"): ListRule(("name",), source=_STOWPLAN),
    ("stowplan.dev", "Cluster", "spec nodePools taints"): ListRule(
        ("key", "effect"), source=_STOWPLAN
    ),
    ("stowplan.dev", "Cluster", "spec nodeLocations"): ListRule(scalars="set", source=_STOWPLAN),
    ("stowplan.dev", "Cluster", "spec waivers"): ListRule(("rule", "resource"), source=_STOWPLAN),
    ("argoproj.io", "AppProject", "spec destinations"): ListRule(
        ("name", "server", "namespace"), source=_ARGO
    ),
    ("argoproj.io", "AppProject", "spec clusterResourceWhitelist"): ListRule(
        ("group", "kind"), source=_ARGO
    ),
    ("argoproj.io", "AppProject", "spec namespaceResourceWhitelist"): ListRule(
        ("group", "kind"), source=_ARGO
    ),
    ("argoproj.io", "AppProject", "spec sourceRepos"): ListRule(scalars="set", source=_ARGO),
    ("rbac.authorization.k8s.io", "RoleBinding", "subjects"): ListRule(
        ("kind", "namespace", "name"), source="k8s.io/api/rbac/v1/types.go"
    ),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding", "subjects"): ListRule(
        ("kind", "namespace", "name"), source="k8s.io/api/rbac/v1/types.go"
    ),
    ("", "Service", "spec ports"): ListRule(("port", "protocol"), source=_CORE),
}
"""(group, kind, path without list entries) → rule."""

BY_FIELD: dict[str, ListRule] = {
    "containers": ListRule(("name",), source=_CORE),
    "initContainers": ListRule(
        ("name",), ordered=True, source=f"{_CORE}: init containers run in order"
    ),
    "volumes": ListRule(("name",), source=_CORE),
    "volumeMounts": ListRule(("mountPath",), source=_CORE),
    "volumeDevices": ListRule(("devicePath",), source=_CORE),
    "env": ListRule(("name",), source=_CORE),
    "ports": ListRule(("containerPort", "protocol"), source=_CORE),
    "tolerations": ListRule(
        ("key", "effect"), source=f"{_CORE}: atomic, each toleration stands for itself"
    ),
    "imagePullSecrets": ListRule(("name",), source=_CORE),
    "schedulingGates": ListRule(("name",), source=_CORE),
    "resourceClaims": ListRule(("name",), source=_CORE),
    "hostAliases": ListRule(("ip",), source=_CORE),
    "topologySpreadConstraints": ListRule(("topologyKey", "whenUnsatisfiable"), source=_CORE),
    "ownerReferences": ListRule(("uid",), source="k8s.io/apimachinery meta/v1/types.go"),
    "finalizers": ListRule(scalars="set", source="k8s.io/apimachinery meta/v1/types.go"),
    "accessModes": ListRule(scalars="set", source=_CORE),
    "command": ListRule(scalars="sequence", ordered=True, source=_CORE),
    "args": ListRule(scalars="sequence", ordered=True, source=_CORE),
    "syncOptions": ListRule(scalars="options", source=_ARGO),
    "ignoreDifferences": ListRule(("group", "kind", "name"), source=_ARGO),
    "jqPathExpressions": ListRule(scalars="set", source=_ARGO),
    "jsonPointers": ListRule(scalars="set", source=_ARGO),
}
"""Field name → rule, for fields that mean the same in every kind (pod specs above all)."""

DEFAULTS = {"protocol": "TCP"}
"""Key fields that may be left out, with what the API server then writes."""

QUANTITY_FIELDS = frozenset(
    {
        "nominalQuota",
        "borrowingLimit",
        "lendingLimit",
        "inMemoryVolumeSize",
        "csiEphemeralLimit",
        "sizeLimit",
        "memory",
        "allocatableMemory",
        "cpu",
        "storage",
        "divisor",
    }
)
"""Fields that hold a quantity wherever they stand."""

QUANTITY_MAPS = frozenset({"requests", "limits", "capacity", "hard", "overhead"})
"""Maps whose every value is a quantity."""


def list_rule(group: str, kind: str, path: tuple[str, ...]) -> ListRule | None:
    """Return the rule for a list, None where the table has none."""
    return BY_KIND.get((group, kind, " ".join(path))) or BY_FIELD.get(path[-1] if path else "")


def is_quantity(path: tuple[str, ...]) -> bool:
    """Whether the value at a path is a Kubernetes quantity."""
    if not path or path[0] == "metadata":
        return False
    return path[-1] in QUANTITY_FIELDS or (len(path) > 1 and path[-2] in QUANTITY_MAPS)
