"""Is what the manifests are written in there: kinds, versions, the right cluster?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from generator.diff.resources import group_of
from generator.doctor.look import GKE_CONTEXT, Look
from generator.doctor.objects import labels_of, name_of, some
from generator.doctor.ownership import MANAGED_BY
from generator.doctor.reads import BY_KIND, CHECKPOINTING, JOBSET, KUEUE
from generator.doctor.wanted import Wanted
from generator.findings import Finding, Severity
from schemas.versions import minor_of

_E, _W, _N = Severity.ERROR, Severity.WARNING, Severity.NOTE

LEAST_GKE = (1, 32, 4, 1415000)
"""First GKE version that offers multi-tier checkpointing for a new cluster (GKE documentation)."""


@dataclass(frozen=True, slots=True)
class Product:
    """One API that the fleet needs.

    Attributes:
        title: what people call it.
        group: its API group.
        kinds: kinds without which it does not work.
    """

    title: str
    group: str
    kinds: tuple[str, ...]


_RIGHT_ONE = "give the right --context, or the folder of the cluster that it is"
_NAMED_AFTER_CLUSTER = (
    (KUEUE, "ClusterQueue"),
    (KUEUE, "ResourceFlavor"),
    (CHECKPOINTING, "CheckpointConfiguration"),
    (JOBSET, "JobSet"),
)
"""Kinds whose names differ between clusters; those of priority classes are the same in all."""

PRODUCTS = (
    Product(
        "Kueue",
        KUEUE,
        ("ClusterQueue", "LocalQueue", "ResourceFlavor", "Workload", "WorkloadPriorityClass"),
    ),
    Product("JobSet", JOBSET, ("JobSet",)),
    Product("multi-tier checkpointing", CHECKPOINTING, ("CheckpointConfiguration",)),
)


def right_cluster(look: Look) -> Iterator[Finding]:
    """The context and the objects are those of the compiled cluster, where there is one."""
    if look.wanted:
        yield from _context(look)
        yield from _objects_of_another(look, look.wanted)


def _context(look: Look) -> Iterator[Finding]:
    """A context of GKE names project and location; ``cluster.yaml`` does too."""
    context = GKE_CONTEXT.fullmatch(look.snapshot.context)
    if not context:
        return
    facts = {"project": look.fact("project", "id"), "location": look.fact("location")}
    for what, value in facts.items():
        if value and value != context[what]:
            yield look.finding(
                "DOC009",
                _E,
                f"context {look.snapshot.context}",
                f"the context is a cluster of {what} {context[what]}, and "
                f"{look.cluster} is one of {value}: this is another cluster, and it is not "
                "compared with compiled/",
                _RIGHT_ONE,
            )


def _objects_of_another(look: Look, wanted: Wanted) -> Iterator[Finding]:
    """None of what is named after the cluster is there, and stowplan has written others."""
    names: set[tuple[str, str]] = set()
    live: set[tuple[str, str]] = set()
    written: list[str] = []
    for group, kind in _NAMED_AFTER_CLUSTER:
        key = BY_KIND[group, kind].key
        names |= {(kind, subject.name) for subject in wanted.of_kind(kind)}
        for item in look.snapshot.items(key):
            live.add((kind, name_of(item)))
            if labels_of(item).get(MANAGED_BY) == "stowplan":
                written.append(f"{kind} {name_of(item)}")
        if not look.snapshot.has(key) and look.snapshot.serves(group, kind):
            return  # not allowed to see them
    if names and written and not names & live:
        yield look.finding(
            "DOC009",
            _E,
            f"context {look.snapshot.context}",
            f"none of the {len(names)} queues, flavors, configurations and jobs of {look.cluster} "
            f"is there, and stowplan has written others ({some(written, 2)}): this is another "
            "cluster, and it is not compared with compiled/",
            _RIGHT_ONE,
        )


def kinds_served(look: Look) -> Iterator[Finding]:
    """Every kind is served, in the version that the manifests are written in."""
    for product in PRODUCTS:
        used = _used_kinds(look, product.group)
        missing = [
            kind
            for kind in dict.fromkeys((*product.kinds, *used))
            if not look.snapshot.serves(product.group, kind)
        ]
        if missing:
            yield _missing(look, product, missing, needed=bool(used) or look.wanted is None)
        yield from _versions(look, product, used)


def _used_kinds(look: Look, group: str) -> dict[str, str]:
    """Kinds of a group that the compiled cluster uses, with the API version."""
    used = {}
    for subject in look.wanted.subjects if look.wanted else ():
        api_version = str(subject.body.get("apiVersion", ""))
        if group_of(api_version) == group:
            used[subject.kind] = api_version
    return used


def _missing(look: Look, product: Product, missing: list[str], needed: bool) -> Finding:
    group = product.group
    absent = not any(look.snapshot.serves(group, kind) for kind in product.kinds)
    if group == CHECKPOINTING:
        severity = _E if needed and look.wanted else _N
        return look.finding(
            "DOC002",
            severity,
            "CheckpointConfiguration",
            "the multi-tier checkpointing add-on is off: applying answers 'no matches for kind "
            '"CheckpointConfiguration" in version "checkpointing.gke.io/v1"\'',
            "gcloud container clusters update "
            f"{look.gke_name} --update-addons=HighScaleCheckpointing=ENABLED,"
            f"GcsFuseCsiDriver=ENABLED --location={look.location} --project={look.project}",
        )
    how = "is not installed" if absent else "is half installed"
    return look.finding(
        "DOC002",
        _E if needed else _N,
        product.title,
        f"{product.title} {how}: the server has no {', '.join(missing)} of {group}",
        f"apply the manifests of the {product.title} release as a whole (server-side: some CRDs "
        "are too large for a client-side apply)",
    )


def _versions(look: Look, product: Product, used: dict[str, str]) -> Iterator[Finding]:
    for kind, api_version in used.items():
        served = look.snapshot.serves(product.group, kind)
        if served and api_version.rpartition("/")[2] not in served:
            yield look.finding(
                "DOC002",
                _E,
                kind,
                f"the manifests are written in {api_version}, and the server has "
                f"{', '.join(served)} only",
                f"upgrade {product.title} in the cluster, or set the version that it runs in the "
                "inventory and compile",
            )


def kubernetes_version(look: Look) -> Iterator[Finding]:
    """The server is the version that the inventory names, and new enough for checkpointing."""
    live = look.snapshot.version.removeprefix("v")
    stated = str(look.fact("gkeVersion") or "")
    if stated and minor_of(live) and minor_of(live) != minor_of(stated):
        yield look.finding(
            "DOC003",
            _W,
            "cluster",
            f"the API server is {live}, and the inventory says {stated}",
            "set gke.version in the inventory and compile: schemas and checks follow it",
        )
    uses = _used_kinds(look, CHECKPOINTING) or look.snapshot.items("checkpointconfigurations")
    version = gke_version(live)
    if uses and version and version < LEAST_GKE:
        yield look.finding(
            "DOC003",
            _E,
            "cluster",
            f"GKE {live} is older than 1.32.4-gke.1415000, the first with multi-tier checkpointing",
            "upgrade the cluster",
        )


def gke_version(text: str) -> tuple[int, int, int, int] | None:
    """Read ``1.33.4-gke.1245000``; None for a version that is not GKE's."""
    head, dash, build = text.partition("-gke.")
    parts = [*head.split("."), build]
    if not dash or len(parts) != 4 or not all(part.isdigit() for part in parts):
        return None
    major, minor, patch, number = (int(part) for part in parts)
    return major, minor, patch, number


def fuse_driver(look: Look) -> Iterator[Finding]:
    """The Cloud Storage FUSE add-on has registered its CSI driver."""
    if not (
        _used_kinds(look, CHECKPOINTING) or look.snapshot.items("checkpointconfigurations")
    ) or not gke_version(look.snapshot.version.removeprefix("v")):
        return
    names = {item["metadata"]["name"] for item in look.snapshot.items("csidrivers")}
    if "gcsfuse.csi.storage.gke.io" not in names:
        yield look.finding(
            "DOC006",
            _E,
            "CSIDriver gcsfuse.csi.storage.gke.io",
            "the Cloud Storage FUSE CSI driver is not registered: backups cannot be mounted",
            f"gcloud container clusters update {look.gke_name} "
            f"--update-addons=GcsFuseCsiDriver=ENABLED --location={look.location} "
            f"--project={look.project}",
        )
