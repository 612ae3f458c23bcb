"""Which built-in kinds of Kubernetes are vendored, and facts that their schemas leave out.

Sources: the Kubernetes API reference (scope of each kind) and
``k8s.io/apimachinery/pkg/api/resource/quantity.go`` (the grammar of a quantity).
"""

from __future__ import annotations

from typing import Any

CORE_GROUPS: dict[str, tuple[str, ...]] = {
    "": ("v1",),
    "admissionregistration.k8s.io": ("v1",),
    "apps": ("v1",),
    "autoscaling": ("v1", "v2"),
    "batch": ("v1",),
    "coordination.k8s.io": ("v1",),
    "discovery.k8s.io": ("v1",),
    "networking.k8s.io": ("v1",),
    "node.k8s.io": ("v1",),
    "policy": ("v1",),
    "rbac.authorization.k8s.io": ("v1",),
    "resource.k8s.io": ("v1", "v1beta1", "v1beta2"),
    "scheduling.k8s.io": ("v1",),
    "storage.k8s.io": ("v1",),
}
"""Groups and versions whose kinds are vendored: what GKE serves without an alpha cluster."""

NOT_MANIFESTS = frozenset(
    {
        "APIGroup",
        "APIGroupList",
        "APIResourceList",
        "APIVersions",
        "Binding",
        "ComponentStatus",
        "DeleteOptions",
        "Eviction",
        "Scale",
        "Status",
        "TokenRequest",
        "WatchEvent",
    }
)
"""Kinds of the API's own machinery that nobody keeps in a file."""

CLUSTER_SCOPED = frozenset(
    {
        "CSIDriver",
        "CSINode",
        "ClusterRole",
        "ClusterRoleBinding",
        "DeviceClass",
        "IPAddress",
        "IngressClass",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
        "MutatingWebhookConfiguration",
        "Namespace",
        "Node",
        "PersistentVolume",
        "PriorityClass",
        "ResourceSlice",
        "RuntimeClass",
        "ServiceCIDR",
        "StorageClass",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "ValidatingWebhookConfiguration",
        "VolumeAttachment",
        "VolumeAttributesClass",
    }
)

QUANTITY_PATTERN = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
"""The pattern that controller-gen writes for a quantity into every CRD; used for core kinds too."""

CORE_OVERRIDES: dict[str, dict[str, Any]] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {
        "type": ["number", "string"],
        "pattern": QUANTITY_PATTERN,
    },
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {"x-kubernetes-int-or-string": True},
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1": {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
    },
    "io.k8s.apimachinery.pkg.runtime.RawExtension": {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
    },
}
"""Definitions whose meaning plain OpenAPI cannot say."""
