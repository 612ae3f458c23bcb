"""What stands behind the volumes that a job mounts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from generator.checks.references.world import Pair, World, namespace_of
from generator.findings import Finding, Severity

GCSFUSE = "gcsfuse.csi.storage.gke.io"
_OUTPUT = re.compile(
    r"(?<!\S)(--checkpoint[-_]dir|--output-dir|base_output_directory|checkpoint_dir)[= ]+(\S+)"
)
_VARIABLE = re.compile(r"(?i)(checkpoint|ckpt).*(dir|path)")


def checkpoints_below_a_bucket_claim(world: World) -> Iterator[Pair]:
    """No checkpoint is written through a claim whose volume is a bucket mounted by gcsfuse.

    A mount of the bucket itself shows in the job alone, so a policy judges it (MTC031).
    """
    claims = _bucket_claims(world)
    if not claims:
        return
    for workload, sets in world.workloads:
        for pods in sets:
            volumes = {
                volume.get("name")
                for volume in pods.spec.get("volumes") or []
                if isinstance(volume, dict) and (namespace_of(workload), _claim(volume)) in claims
            }
            for number, container in enumerate(pods.spec.get("containers") or []):
                for name, directory in _written(container, volumes) if volumes else ():
                    yield (
                        workload,
                        Finding(
                            "REF034",
                            Severity.WARNING,
                            f"{name}={directory} is below a claim of a bucket mounted by gcsfuse: "
                            "each save copies and deletes its objects",
                            "write the gs:// path",
                            path=(*pods.path, "spec", "containers", number),
                        ),
                    )


def _bucket_claims(world: World) -> set[tuple[str, str]]:
    buckets = {
        volume.name
        for volume in world.all("PersistentVolume")
        if (volume.spec.get("csi") or {}).get("driver") == GCSFUSE
    }
    return {
        (claim.namespace or "default", claim.name)
        for claim in world.all("PersistentVolumeClaim")
        if claim.spec.get("volumeName") in buckets
    }


def _claim(volume: Mapping[str, Any]) -> str:
    source = volume.get("persistentVolumeClaim")
    return str(source.get("claimName")) if isinstance(source, dict) else ""


def _written(container: Any, volumes: set[Any]) -> Iterator[tuple[str, str]]:
    """Names and values of arguments and variables that point below a mount of the volumes."""
    if not isinstance(container, dict):
        return
    mounts = [
        str(mount.get("mountPath")).rstrip("/")
        for mount in container.get("volumeMounts") or []
        if isinstance(mount, dict) and mount.get("name") in volumes
    ]
    words = [*(container.get("command") or []), *(container.get("args") or [])]
    found = _OUTPUT.findall(" ".join(str(word) for word in words))
    found += [
        (str(variable.get("name")), str(variable.get("value")))
        for variable in container.get("env") or []
        if isinstance(variable, dict) and _VARIABLE.search(str(variable.get("name")))
    ]
    for name, directory in found:
        if any(f"{directory}/".startswith(f"{mount}/") for mount in mounts):
            yield name, directory
