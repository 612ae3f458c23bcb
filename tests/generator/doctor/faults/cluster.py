"""The cluster itself: what it serves, which versions run, whether controllers answer."""

from __future__ import annotations

from generator.doctor.snapshot import Snapshot

from ..fleet import condition, unserve
from .plant import NOTE, WARNING, Case, first, patch, refuse


def checkpointing_off(snapshot: Snapshot) -> None:
    unserve(snapshot, "checkpointing.gke.io", "CheckpointConfiguration")


def no_webhooks(snapshot: Snapshot) -> None:
    del snapshot.objects["mutatingwebhooks"][0]


def bare_crds(snapshot: Snapshot) -> None:
    snapshot.objects["jobsetdeployments"].clear()
    snapshot.objects["jobsets"].clear()


def renamed(snapshot: Snapshot, *kinds: str) -> None:
    """Let objects have other names, as those of another cluster have."""
    for key in kinds or ("clusterqueues", "resourceflavors", "checkpointconfigurations", "jobsets"):
        for item in snapshot.objects[key]:
            item["metadata"]["name"] += "-of-another"


CLUSTER_UPDATE = (
    "gcloud container clusters update train-1 --update-addons=HighScaleCheckpointing=ENABLED,"
    "GcsFuseCsiDriver=ENABLED --location=us-east5 --project=acme-training"
)

CASES = (
    Case("DOC001", refuse("clusterqueues"), ("clusterqueues is forbidden",), severity=WARNING),
    Case(
        "DOC002",
        checkpointing_off,
        ('no matches for kind "CheckpointConfiguration" in version "checkpointing.gke.io/v1"',),
        fix=CLUSTER_UPDATE,
    ),
    Case(
        "DOC002",
        lambda s: unserve(s, "kueue.x-k8s.io", "WorkloadPriorityClass", "Workload"),
        ("Kueue is half installed", "Workload, WorkloadPriorityClass"),
        resource="Kueue",
    ),
    Case(
        "DOC002",
        lambda s: unserve(s, "jobset.x-k8s.io", "JobSet"),
        ("JobSet is not installed",),
    ),
    Case(
        "DOC002",
        lambda s: s.served.update({"kueue.x-k8s.io": ["v1beta1"]}),
        ("written in kueue.x-k8s.io/v1beta2, and the server has v1beta1 only",),
        resource="ClusterQueue",
    ),
    Case(
        "DOC003",
        lambda s: setattr(s, "version", "v1.32.3-gke.1170000"),
        ("older than 1.32.4-gke.1415000",),
    ),
    Case(
        "DOC003",
        lambda s: setattr(s, "version", "v1.34.1-gke.1"),
        ("the API server is 1.34.1-gke.1, and the inventory says 1.33.4-gke.1245000",),
        severity=WARNING,
    ),
    Case(
        "DOC003",
        patch("kueuedeployments", "spec/template/spec/containers/0/image", "r/kueue:v0.19.2"),
        ("Kueue 0.19.2 runs, and the inventory says 0.17.0",),
        severity=WARNING,
    ),
    Case(
        "DOC003",
        patch("kueuedeployments", "spec/template/spec/containers/0/image", "r:5/kueue:v0.17.3"),
        ("Kueue 0.17.3 runs",),
        severity=NOTE,
    ),
    Case(
        "DOC004",
        patch(
            "kueuedeployments",
            "status",
            {"conditions": [condition("Available", "False", "", "no quota")]},
        ),
        ("no available replica: no quota",),
        resource="Deployment kueue-system/kueue-controller-manager",
    ),
    Case(
        "DOC004",
        lambda s: (s.objects["kueuedeployments"].clear(), first(s, "clusterqueues").pop("status")),
        ("Kueue is half installed", "nobody has answered"),
    ),
    Case("DOC005", no_webhooks, ("no admission webhook takes part in workloads",), "Kueue"),
    Case(
        "DOC005",
        patch("jobsetendpoints", "endpoints/0/conditions/ready", False),
        ("nobody answers JobSet's webhooks",),
        "Service jobset-system/jobset-webhook-service",
    ),
    Case("DOC006", lambda s: s.objects["csidrivers"].clear(), ("is not registered",)),
    Case(
        "DOC007",
        patch(
            "jobsetdeployments", "spec/template/spec/containers/0/resources/limits/memory", "128Mi"
        ),
        ("memory limit is 128Mi",),
        severity=WARNING,
    ),
    Case(
        "DOC009",
        lambda s: setattr(s, "context", "gke_acme-training_us-central1_train-1"),
        ("location us-central1", "us-east5"),
    ),
    Case(
        "DOC009",
        renamed,
        ("none of the 5 queues, flavors, configurations and jobs of tpu-v6e-docs is there",),
        "context gke_acme-training_us-east5_train-1",
        fix="the folder of the cluster that it is",
    ),
    Case("DOC004", bare_crds, ("nothing shows whether the controller runs",), severity=WARNING),
)
