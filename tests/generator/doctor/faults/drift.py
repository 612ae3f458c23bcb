"""What differs from ``compiled/``: objects missing, changed, left over."""

from __future__ import annotations

from generator.doctor.snapshot import Snapshot

from .. import fleet
from ..fleet import jobset
from .plant import HIGH, NOTE, WARNING, Case, drop, patch


def leftover(snapshot: Snapshot) -> None:
    old = jobset("high-jax-trillium-00000000", **{"app.kubernetes.io/managed-by": "stowplan"})
    snapshot.objects["jobsets"].append(old)
    snapshot.objects["workloads"].append(fleet.workload(old, "0"))


CASES = (
    Case(
        "DOC050",
        drop("localqueues", "default-queue"),
        ("in compiled/ and not in the cluster",),
        "LocalQueue default/default-queue",
    ),
    Case(
        "DOC051",
        patch("checkpointconfigurations", "spec/inMemoryVolumeSize", "20Gi"),
        ("spec.inMemoryVolumeSize is '20Gi', and Git has '44Gi'",),
        severity=WARNING,
    ),
    Case("DOC052", leftover, ("high-jax-trillium-00000000",), severity=NOTE),
    Case("DOC050", drop("jobsets", HIGH), ("not in the cluster",), f"JobSet default/{HIGH}"),
)
