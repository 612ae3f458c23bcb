"""The cluster, its versions and its node pools."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from schemas.catalog import AcceleratorType
from schemas.inventory.base import (
    InventoryModel,
    LabelKey,
    Labels,
    Memory,
    Name,
    Taint,
    fault,
    placeholder_in,
)

_PROJECT_ID = re.compile(r"(?:[a-z0-9.-]+:)?[a-z][-a-z0-9]{4,28}[a-z0-9]")
_GKE_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)-gke\.(\d+)")
_VERSION = re.compile(r"\d+\.\d+\.\d+")
_LOCATION = re.compile(r"[a-z]+-[a-z]+\d+(-[a-z])?")


def _project_id(value: str) -> str:
    if placeholder_in(value):
        raise fault(f"{value!r} is a placeholder from the documents", "write the project's id")
    if not _PROJECT_ID.fullmatch(value):
        raise fault(f"{value!r} is no project id: 6 to 30 lower-case letters, digits and '-'")
    return value


def _project_number(value: Any) -> Any:
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if isinstance(text, str) and placeholder_in(text):
        raise fault(f"{text!r} is a placeholder from the documents", "write the project's number")
    if isinstance(text, str) and not re.fullmatch(r"[1-9]\d{5,18}", text):
        raise fault(
            f"{text!r} is no project number: it is digits only",
            "gcloud projects describe PROJECT --format='value(projectNumber)' prints it",
        )
    return text


def _gke_version(value: str) -> str:
    if not _GKE_VERSION.fullmatch(value):
        raise fault(f"{value!r} is no GKE version", "write it in full, such as 1.33.4-gke.1245000")
    return value


def gke_version_key(version: str) -> tuple[int, ...]:
    """Return a GKE version as numbers that compare in the order of releases."""
    match = _GKE_VERSION.fullmatch(version)
    assert match is not None
    return tuple(int(part) for part in match.groups())


def _version(value: Any) -> Any:
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise fault(f"{value} is a number to YAML", f"write all three parts, such as {value}.0")
    if isinstance(value, str) and not _VERSION.fullmatch(value.removeprefix("v")):
        raise fault(f"{value!r} is no version", "write it in full, such as 0.17.0")
    return value.removeprefix("v") if isinstance(value, str) else value


def _location(value: str) -> str:
    if placeholder_in(value):
        raise fault(f"{value!r} is a placeholder from the documents", "write a region or zone")
    if not _LOCATION.fullmatch(value):
        raise fault(f"{value!r} is no region or zone", "write one such as us-east5 or us-east5-b")
    return value


_SERVICE_ACCOUNT = re.compile(r"[a-z0-9][-a-z0-9.]{0,62}@[-a-z0-9.]+\.(?:gserviceaccount\.com)")


def _service_account(value: str) -> str:
    if placeholder_in(value):
        raise fault(f"{value!r} is a placeholder from the documents", "write the account's address")
    if not _SERVICE_ACCOUNT.fullmatch(value):
        raise fault(
            f"{value!r} is no service account's address",
            "write one such as nodes@my-project.iam.gserviceaccount.com",
        )
    return value


def _mode(value: Any) -> Any:
    if isinstance(value, str) and value.lower() == "autopilot":
        raise fault(
            "multi-tier checkpointing has no support for Autopilot clusters",
            "create a Standard cluster and write mode: standard",
        )
    return value


Version = Annotated[str, BeforeValidator(_version)]
Location = Annotated[str, AfterValidator(_location)]
MachineType = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]*$")]
ResourcePath = Annotated[str, Field(pattern=r"^[a-z][-a-z0-9./:]*[a-z0-9]$")]
"""A short name such as ``training``, or ``projects/HOST/regions/REGION/subnetworks/NAME``."""


class Project(InventoryModel):
    """The Google Cloud project that the cluster belongs to."""

    id: Annotated[str, AfterValidator(_project_id)]
    """The project's id, also the name of its workload identity pool."""
    number: Annotated[str, BeforeValidator(_project_number, json_schema_input_type=str | int)]
    """The project's number; IAM principals are written with it."""


class Versions(InventoryModel):
    """Versions of what runs in the cluster; they choose API versions and schemas."""

    kueue: Version
    """Kueue's version, such as 0.17.0."""
    jobset: Version
    """JobSet's version, such as 0.11.1."""
    kueue_api: Literal["v1beta1", "v1beta2"] | None = None
    """Kueue's API version, where it must not be the newest that the cluster serves."""


class SystemNodes(InventoryModel):
    """Nodes for what is no training job: JobSet's and Kueue's controllers, DNS, metrics."""

    machine_type: MachineType = "e2-standard-4"
    """Their machine type; GKE's page asks for e2-standard-4 or larger under large training jobs."""
    nodes_per_zone: int = Field(default=2, gt=0)
    """How many in each zone."""


class Cluster(InventoryModel):
    """The cluster itself."""

    name: Name
    """Its name, the same as the target file's."""
    project: Project
    """The Google Cloud project."""
    location: Location
    """Region or zone of the control plane."""
    node_locations: tuple[Location, ...] = Field(default=(), strict=False)
    """Zones of the nodes; the accelerators' capacity lives there."""
    mode: Annotated[Literal["standard"], BeforeValidator(_mode)] = "standard"
    """``standard``; multi-tier checkpointing does not run on Autopilot."""
    gke_version: Annotated[str, AfterValidator(_gke_version)]
    """The control plane's version in full."""
    versions: Versions
    """Versions of Kueue and JobSet."""
    network: ResourcePath | None = None
    """The VPC network for the bootstrap; the project's ``default`` unless given."""
    subnetwork: ResourcePath | None = None
    """The subnetwork for the bootstrap."""
    system_nodes: SystemNodes = SystemNodes()
    """Nodes for what is no training job, for the bootstrap."""
    node_service_account: Annotated[str, AfterValidator(_service_account)] | None = None
    """The nodes' Google service account; Compute Engine's default account unless given."""
    environment: Name = "default"
    """The environment that the cluster belongs to, such as ``prod``; one Argo CD project each."""
    labels: Labels = Field(default_factory=dict)
    """Further labels for reports and Argo CD's generators."""


class HandAccelerator(InventoryModel):
    """An accelerator that the catalog does not know."""

    type: AcceleratorType
    """``tpu`` or ``gpu``."""
    name: str
    """The value of GKE's accelerator label on its nodes."""
    per_node: int = Field(gt=0)
    """Chips or GPUs per node."""


class HandMachine(InventoryModel):
    """A machine type that the catalog does not know, described in full."""

    accelerator: HandAccelerator | None = None
    """What it carries, absent for a machine without accelerators."""
    vcpus: int = Field(gt=0)
    """Virtual CPUs."""
    memory: Memory
    """The machine's memory."""
    topologies: tuple[str, ...] = Field(default=(), strict=False)
    """Slice topologies, for a TPU."""


class NodePool(InventoryModel):
    """Nodes of one machine type. A multi-host TPU pool is one GKE node pool per slice."""

    machine_type: str
    """The Compute Engine machine type."""
    machine: HandMachine | None = None
    """The machine's facts, only where the catalog does not know the type."""
    topology: str | None = None
    """The slice topology, such as ``4x4``; TPU only and then required."""
    slices: int | None = Field(default=None, gt=0)
    """How many slices (TPU)."""
    nodes: int | None = Field(default=None, gt=0)
    """How many nodes (GPU and CPU)."""
    spot: bool = False
    """Spot VMs."""
    reservation: Annotated[str, Field(pattern=r"^[a-z][-a-zA-Z0-9/_]*$")] | None = None
    """The reservation that the nodes come from: its name, or ``projects/…/reservations/…``."""
    zones: tuple[Location, ...] = Field(default=(), strict=False)
    """The nodes' zones, for the bootstrap; the cluster's nodeLocations unless given. A slice of
    several hosts lies in one zone."""
    labels: Labels = Field(default_factory=dict)
    """Further labels of the nodes."""
    taints: tuple[Taint, ...] = Field(default=(), strict=False)
    """Further taints of the nodes; GKE sets the accelerator's own."""
    select_by: tuple[LabelKey, ...] = Field(default=(), strict=False)
    """Keys of ``labels`` that workloads select this pool by, beside accelerator and topology."""

    @model_validator(mode="after")
    def _selects_by_own_labels(self) -> Self:
        for key in self.select_by:
            if key not in self.labels:
                known = ", ".join(sorted(self.labels)) or "none"
                raise fault(f"selectBy names {key!r}, which is no label of this pool ({known})")
        return self
