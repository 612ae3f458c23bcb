"""Settings of Kueue that spread slices over node pools when nodes fail (docs/hotswap.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from generator.diff.conditions import dig
from generator.doctor.look import Look
from generator.doctor.objects import TPU_LABEL, full_name, some
from generator.doctor.reads import KUEUE_CONFIG, KUEUE_NAMESPACE
from generator.findings import Finding, Severity
from generator.yaml_load import YamlError, load_documents

CONFIG_FILE = "controller_manager_config.yaml"
GATE = "TASFailedNodeReplacement"
"""On by default from Kueue 0.14 on."""

_SLICE_PREFIX = "kueue.x-k8s.io/podset-"


def mixing(look: Look) -> Iterator[Finding]:
    """Topology-aware TPU jobs, while Kueue replaces nodes at once or never starts them over."""
    settings = _settings(look)
    placed = _placed_by_kueue(look)
    if settings is None or not placed:
        return
    faults = []
    if dig(settings, "featureGates", GATE) is not False:
        faults.append(f"the feature gate {GATE} is on")
    if not dig(settings, "waitForPodsReady", "recoveryTimeout"):
        faults.append("waitForPodsReady has no recoveryTimeout")
    if faults:
        yield look.finding(
            "DOC032",
            Severity.WARNING,
            f"ConfigMap {KUEUE_NAMESPACE}/{KUEUE_CONFIG}",
            f"{' and '.join(faults)}: when a node fails, Kueue spreads the slices of jobs that it "
            f"places by topology ({some(placed, 2)}) over node pools, and training hangs",
            "turn node replacement off and set a recovery timeout, as docs/hotswap.md shows",
        )


def _settings(look: Look) -> dict[str, Any] | None:
    for item in look.snapshot.items("kueueconfig"):
        text = dig(item, "data", CONFIG_FILE)
        if isinstance(text, str):
            try:
                documents = load_documents(text, CONFIG_FILE)
            except YamlError:
                return None
            if documents and isinstance(documents[0].value, dict):
                return documents[0].value
    return None


def _placed_by_kueue(look: Look) -> list[str]:
    """JobSets that ask Kueue for a topology, where a TPU flavor has one."""
    if not any(
        dig(flavor, "spec", "topologyName")
        and TPU_LABEL in (dig(flavor, "spec", "nodeLabels") or {})
        for flavor in look.snapshot.items("resourceflavors")
    ):
        return []
    return [full_name(jobset) for jobset in look.snapshot.items("jobsets") if _asks(jobset)]


def _asks(jobset: Mapping[str, Any]) -> bool:
    return any(
        str(key).startswith(_SLICE_PREFIX)
        for job in dig(dict(jobset), "spec", "replicatedJobs") or []
        for key in dig(job, "template", "spec", "template", "metadata", "annotations") or {}
    )
