"""CheckpointConfiguration.

Source: ``crd/checkpointconfiguration.yaml`` of the public controller,
GoogleCloudPlatform/high-scale-checkpointing-controller.
"""

from __future__ import annotations

from typing import Literal

from schemas.manifests.base import KubernetesObject, ManifestModel, Toleration

CSI_DRIVER = "multitier-checkpoint.csi.storage.gke.io"
"""The CSI driver of the checkpoint volume."""


class CheckpointConfigurationSpec(ManifestModel):
    """What the driver on each node is started with."""

    cloud_storage_bucket_name: str
    node_selector: dict[str, str]
    tolerations: list[Toleration] | None = None
    in_memory_volume_size: str
    csi_ephemeral_limit: str | None = None
    enable_external_jax_process_ids: bool | None = None
    gcs_fuse_mount_options: list[str] | None = None


class CheckpointConfiguration(KubernetesObject):
    """The RAM disks of a cluster's nodes. Cluster-scoped; the controller acts on creation only."""

    api_version: Literal["checkpointing.gke.io/v1"] = "checkpointing.gke.io/v1"
    kind: Literal["CheckpointConfiguration"] = "CheckpointConfiguration"
    spec: CheckpointConfigurationSpec
