"""One replicated job's pod as the settings of a workload."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from generator.build.frameworks import CONTAINER_NAMES, rendezvous, torchrun
from generator.fleet import Pool
from generator.importing.pools import amount, main_container, node_labels, pod_spec
from generator.importing.queues import plain_amount, toleration
from generator.importing.sources import entries, mapping, texts
from schemas.manifests.checkpointing import CSI_DRIVER
from schemas.manifests.core import EnvVar
from schemas.quantity import format_quantity

_TOPOLOGY_REQUESTS = {
    "kueue.x-k8s.io/podset-required-topology": "required",
    "kueue.x-k8s.io/podset-preferred-topology": "preferred",
    "kueue.x-k8s.io/podset-slice-required-topology": "sliceRequired",
}
_SLICE_SIZE = "kueue.x-k8s.io/podset-slice-size"
SHARED_MEMORY = "shared-memory"
CHECKPOINT_VOLUME = "checkpoint"


@dataclass(frozen=True)
class PodReading:
    """A replicated job's pod, what it runs on and how it will be written.

    Attributes:
        job: the replicated job.
        pod: its pod spec.
        container: the container that trains.
        pool: its node pool, None where its selector names none.
        framework: ``jax``, ``pytorch`` or ``custom``.
        topology_aware: the ``topologyAware`` section, empty without one.
    """

    job: dict[str, Any]
    pod: dict[str, Any]
    container: dict[str, Any]
    pool: Pool | None
    framework: str
    topology_aware: dict[str, Any]

    @classmethod
    def of(cls, job: dict[str, Any], pool: Pool | None, noted: str | None) -> PodReading:
        """Read a replicated job; volume and container names that compile chooses are put in."""
        pod = pod_spec(job)
        container = main_container(pod)
        framework = noted if noted in CONTAINER_NAMES else _framework(job, container, pool)
        return cls(job, pod, container, pool, framework, _topology_aware(job))

    @property
    def container_name(self) -> str:
        """The name that compile gives the container."""
        return CONTAINER_NAMES[self.framework]

    @property
    def metadata(self) -> dict[str, Any]:
        """The pod template's metadata."""
        spec = mapping(mapping(self.job.get("template")).get("spec"))
        return mapping(mapping(spec.get("template")).get("metadata"))


def _framework(job: dict[str, Any], container: dict[str, Any], pool: Pool | None) -> str:
    """jax on TPU; pytorch only where compile writes the same command and rendezvous."""
    if pool is None or pool.accelerator is None:
        return "custom"
    if pool.is_tpu:
        return "jax"
    parallelism = mapping(mapping(job.get("template")).get("spec")).get("parallelism", 1)
    own = {v.name: v for v in rendezvous(str(job.get("name")), int(parallelism))}
    given = {str(v.get("name")): v for v in entries(container.get("env"))}
    if all(_same_variable(own[name], given.get(name)) for name in own):
        return "pytorch"
    return "custom"


def _same_variable(variable: EnvVar, given: dict[str, Any] | None) -> bool:
    return given == variable.model_dump(by_alias=True, exclude_none=True)


def _topology_aware(job: dict[str, Any]) -> dict[str, Any]:
    spec = mapping(mapping(job.get("template")).get("spec"))
    notes = mapping(mapping(mapping(spec.get("template")).get("metadata")).get("annotations"))
    request = {field: str(notes[key]) for key, field in _TOPOLOGY_REQUESTS.items() if key in notes}
    size = notes.get(_SLICE_SIZE)
    if ("sliceRequired" in request) != (size is not None):
        return {}
    if size is not None and str(size) != str(spec.get("parallelism", 1)):
        return {}
    return request


def rename_volumes(pod: dict[str, Any]) -> list[tuple[str, str]]:
    """Give the checkpoint volume and /dev/shm the names that compile gives them.

    Returns:
        Old and new names.
    """
    volumes = entries(pod.get("volumes"))
    mounts = [m for c in entries(pod.get("containers")) for m in entries(c.get("volumeMounts"))]
    renamed = []
    for volume in volumes:
        old, new = str(volume.get("name")), None
        if mapping(volume.get("csi")).get("driver") == CSI_DRIVER:
            new = CHECKPOINT_VOLUME
        elif mapping(volume.get("emptyDir")).get("sizeLimit") and any(
            m == {"name": old, "mountPath": "/dev/shm"} for m in mounts
        ):
            new = SHARED_MEMORY
        if new is None or new == old or any(v.get("name") == new for v in volumes):
            continue
        volume["name"] = new
        for mount in mounts:
            if mount.get("name") == old:
                mount["name"] = new
        renamed.append((old, new))
    return renamed


def checkpoint_directory(reading: PodReading) -> str | None:
    """Where the multi-tier volume is mounted, None where it is not."""
    for volume in entries(reading.pod.get("volumes")):
        if mapping(volume.get("csi")).get("driver") == CSI_DRIVER:
            for mount in entries(reading.container.get("volumeMounts")):
                if mount.get("name") == volume.get("name"):
                    return str(mount.get("mountPath", "")).rstrip("/") or "/"
    return None


def settings(reading: PodReading, checkpointed: bool) -> dict[str, Any]:
    """The pod settings of the inventory that give this pod."""
    container, pod = reading.container, reading.pod
    entry: dict[str, Any] = {}
    if container.get("image"):
        entry["image"] = container["image"]
    command = texts(container.get("command"))
    per_node = reading.pool.accelerator.per_node if reading.pool and reading.pool.accelerator else 0
    if command and not (reading.framework == "pytorch" and command == torchrun(per_node)):
        entry["command"] = command
    if args := texts(container.get("args")):
        entry["args"] = args
    if env := _env(reading):
        entry["env"] = env
    if resources := _resources(mapping(container.get("resources"))):
        entry["resources"] = resources
    if container.get("workingDir"):
        entry["workingDir"] = container["workingDir"]
    entry |= _volumes(reading, checkpointed)
    if pod.get("serviceAccountName"):
        entry["serviceAccount"] = pod["serviceAccountName"]
    entry |= _nodes(reading)
    entry |= _labels(reading)
    if "terminationGracePeriodSeconds" in pod:
        entry["terminationGracePeriodSeconds"] = pod["terminationGracePeriodSeconds"]
    return entry


def _env(reading: PodReading) -> dict[str, Any]:
    """Variables that the inventory can say; others come back through the overlay."""
    own: dict[str, EnvVar] = {}
    if reading.framework == "pytorch":
        parallelism = mapping(mapping(reading.job.get("template")).get("spec")).get(
            "parallelism", 1
        )
        own = {v.name: v for v in rendezvous(str(reading.job.get("name")), int(parallelism))}
    env: dict[str, Any] = {}
    for variable in entries(reading.container.get("env")):
        name = str(variable.get("name"))
        if name in own and _same_variable(own[name], variable):
            continue
        value = _env_value(variable)
        if value is not None:
            env[name] = value
    return env


def _env_value(variable: dict[str, Any]) -> Any:
    source = mapping(variable.get("valueFrom"))
    if not source:
        return str(variable.get("value", ""))
    for key, field in (("secretKeyRef", "secret"), ("configMapKeyRef", "configMap")):
        reference = mapping(source.get(key))
        if reference:
            plain = {"name": reference.get("name"), "key": reference.get("key")}
            return {field: plain} if reference == plain else None
    if path := mapping(source.get("fieldRef")).get("fieldPath"):
        return {"field": path}
    return None


def _resources(given: dict[str, Any]) -> dict[str, Any]:
    limits, requests = mapping(given.get("limits")), mapping(given.get("requests"))
    found: dict[str, Any] = {}
    for key, field in (
        ("cpu", "cpu"),
        ("memory", "memory"),
        ("ephemeral-storage", "ephemeralStorage"),
    ):
        value = requests.get(key, limits.get(key))
        if value is not None:
            found[field] = plain_amount(value) if key == "cpu" else _with_unit(str(value))
    return found


def _with_unit(text: str) -> str:
    """Memory with its unit written, as the inventory wants it."""
    return format_quantity(amount(text), binary=True) if text.isdigit() else text


def _volumes(reading: PodReading, checkpointed: bool) -> dict[str, Any]:
    """Volumes and mounts, less those that follow from the checkpoint and from sharedMemory."""
    volumes = entries(reading.pod.get("volumes"))
    mounts = entries(reading.container.get("volumeMounts"))
    entry: dict[str, Any] = {}
    taken: set[str] = {CHECKPOINT_VOLUME} if checkpointed else set()
    shared = next((v for v in volumes if v.get("name") == SHARED_MEMORY), None)
    empty = mapping((shared or {}).get("emptyDir"))
    mounted = {"name": SHARED_MEMORY, "mountPath": "/dev/shm"} in mounts
    if mounted and empty.get("medium") == "Memory" and empty.get("sizeLimit"):
        entry["sharedMemory"] = str(empty["sizeLimit"])
        taken.add(SHARED_MEMORY)
    if rest := [v for v in volumes if v.get("name") not in taken]:
        entry["volumes"] = rest
    # Volumes of JobSet's volumeClaimPolicies are not the pod's: their mounts go into the overlay.
    known = {v.get("name") for v in volumes} - taken
    if rest := [m for m in mounts if m.get("name") in known]:
        entry["volumeMounts"] = rest
    return entry


def _nodes(reading: PodReading) -> dict[str, Any]:
    pool, pod = reading.pool, reading.pod
    entry: dict[str, Any] = {}
    own = pool.selector if pool else {}
    more = {k: v for k, v in node_labels(pod.get("nodeSelector")).items() if own.get(k) != v}
    if more:
        entry["nodeSelector"] = more
    follow = {(t.key, t.effect) for t in pool.taints} if pool else set()
    tolerations = [
        toleration(t)
        for t in entries(pod.get("tolerations"))
        if not (t.get("operator") == "Exists" and (t.get("key"), t.get("effect")) in follow)
    ]
    if tolerations:
        entry["tolerations"] = tolerations
    usual = pool is not None and pool.accelerator is not None
    if bool(pod.get("hostNetwork")) != usual:
        entry["hostNetwork"] = bool(pod.get("hostNetwork"))
    return entry


def _labels(reading: PodReading) -> dict[str, Any]:
    entry: dict[str, Any] = {}
    if labels := {k: str(v) for k, v in mapping(reading.metadata.get("labels")).items()}:
        entry["labels"] = labels
    said = {*_TOPOLOGY_REQUESTS, _SLICE_SIZE} if reading.topology_aware else set()
    notes = mapping(reading.metadata.get("annotations"))
    if more := {k: str(v) for k, v in notes.items() if k not in said}:
        entry["annotations"] = more
    return entry
