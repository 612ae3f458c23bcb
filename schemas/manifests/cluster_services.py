"""Kinds beside training jobs: a DaemonSet, its Service, rights, network policy and volumes.

Defaults that the API server fills in are written out, so that Git and the live object agree.
Source: k8s.io/kubernetes ``pkg/apis/{apps,core,networking,rbac}/v1/defaults.go``.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from schemas.manifests.base import KubernetesObject, LabelSelector, ManifestModel
from schemas.manifests.core import PodTemplateSpec


class DaemonSetSpec(ManifestModel):
    """A DaemonSet's spec."""

    selector: LabelSelector
    update_strategy: dict[str, Any]
    revision_history_limit: int = 10
    template: PodTemplateSpec


class DaemonSet(KubernetesObject):
    """One pod on each node that its template selects."""

    api_version: Literal["apps/v1"] = "apps/v1"
    kind: Literal["DaemonSet"] = "DaemonSet"
    spec: DaemonSetSpec


class ServiceSpec(ManifestModel):
    """A Service's spec."""

    type: Literal["ClusterIP"] = "ClusterIP"
    cluster_ip: str | None = Field(default=None, alias="clusterIP")
    publish_not_ready_addresses: bool | None = None
    internal_traffic_policy: Literal["Cluster", "Local"] = "Cluster"
    session_affinity: Literal["None"] = "None"
    selector: dict[str, str]
    ports: list[dict[str, Any]]


class Service(KubernetesObject):
    """A Service."""

    api_version: Literal["v1"] = "v1"
    kind: Literal["Service"] = "Service"
    spec: ServiceSpec


class Role(KubernetesObject):
    """Rights in one namespace."""

    api_version: Literal["rbac.authorization.k8s.io/v1"] = "rbac.authorization.k8s.io/v1"
    kind: Literal["Role"] = "Role"
    rules: list[dict[str, Any]]


class RoleBinding(KubernetesObject):
    """Who has a Role."""

    api_version: Literal["rbac.authorization.k8s.io/v1"] = "rbac.authorization.k8s.io/v1"
    kind: Literal["RoleBinding"] = "RoleBinding"
    role_ref: dict[str, str]
    subjects: list[dict[str, str]]


class NetworkPolicySpec(ManifestModel):
    """A NetworkPolicy's spec."""

    pod_selector: LabelSelector
    policy_types: list[str]
    ingress: list[dict[str, Any]]


class NetworkPolicy(KubernetesObject):
    """Who may reach a pod."""

    api_version: Literal["networking.k8s.io/v1"] = "networking.k8s.io/v1"
    kind: Literal["NetworkPolicy"] = "NetworkPolicy"
    spec: NetworkPolicySpec


class PersistentVolumeSpec(ManifestModel):
    """A directory of the node as a volume."""

    access_modes: list[str]
    capacity: dict[str, str]
    claim_ref: dict[str, str]
    host_path: dict[str, str]
    persistent_volume_reclaim_policy: Literal["Retain"] = "Retain"
    storage_class_name: str = ""
    volume_mode: Literal["Filesystem"] = "Filesystem"


class PersistentVolume(KubernetesObject):
    """A volume; cluster-scoped, and nearly all of it is immutable."""

    api_version: Literal["v1"] = "v1"
    kind: Literal["PersistentVolume"] = "PersistentVolume"
    spec: PersistentVolumeSpec


class PersistentVolumeClaimSpec(ManifestModel):
    """A claim for one volume by name."""

    access_modes: list[str]
    resources: dict[str, dict[str, str]]
    storage_class_name: str = ""
    volume_mode: Literal["Filesystem"] = "Filesystem"
    volume_name: str


class PersistentVolumeClaim(KubernetesObject):
    """A namespace's right to a volume."""

    api_version: Literal["v1"] = "v1"
    kind: Literal["PersistentVolumeClaim"] = "PersistentVolumeClaim"
    spec: PersistentVolumeClaimSpec
