"""Impact rows: JobSets and checkpointing."""

from __future__ import annotations

from generator.diff.impact_rows.row import COMES, GOES, IS_RECREATED, Row
from generator.diff.model import Impact

_JOBSET = ("jobset.x-k8s.io", "JobSet")
_CPC = ("checkpointing.gke.io", "CheckpointConfiguration")
_JOBSET_DOC = "jobset.sigs.k8s.io/docs/concepts"
_JOBSET_TYPES = "kubernetes-sigs/jobset api/jobset/v1alpha2/jobset_types.go"
_JOBSET_WEBHOOK = "kubernetes-sigs/jobset pkg/webhooks/jobset_webhook.go (ValidateUpdate)"
_MTC_DOC = (
    "docs.cloud.google.com/kubernetes-engine/docs/how-to/machine-learning/training/"
    "multi-tier-checkpointing"
)
_CPC_CONTROLLER = (
    "GoogleCloudPlatform/high-scale-checkpointing-controller pkg/multitier-controller/controller.go"
)
_KUEUE_JOBS = "kubernetes-sigs/kueue pkg/controller/jobframework/validation.go"

JOBSET_ROWS = (
    Row(*_JOBSET, "", Impact.LIVE, "the job is queued at the next sync", _JOBSET_DOC, COMES),
    Row(*_JOBSET, "", Impact.RESTART, "the job and its pods are deleted", _JOBSET_DOC, GOES),
    Row(
        *_JOBSET,
        "",
        Impact.RESTART,
        "the old run is deleted, a running job stops, and the new run is queued",
        _JOBSET_WEBHOOK,
        IS_RECREATED,
    ),
    *(
        Row(
            *_JOBSET,
            f"spec replicatedJobs template spec template spec containers {field}",
            Impact.DATA_LOSS,
            "backups are filed under the job's name: under another one the new run finds none and "
            "starts from step 0",
            _MTC_DOC,
            IS_RECREATED,
            "names-backups",
        )
        for field in ("args", "command")
    ),
    Row(
        *_JOBSET,
        "spec suspend",
        Impact.RESTART,
        "suspending deletes the running pods",
        _JOBSET_TYPES,
        when="suspends",
    ),
    Row(*_JOBSET, "spec suspend", Impact.LIVE, "the job may start", _JOBSET_TYPES),
    Row(
        *_JOBSET,
        "spec ttlSecondsAfterFinished",
        Impact.LIVE,
        "a finished JobSet is deleted after this time; Argo CD then creates it again and the "
        "training runs anew",
        "argoproj/argo-cd#8586",
    ),
    *(
        Row(
            *_JOBSET,
            f"spec {block} **",
            Impact.LIVE,
            "adding or removing the whole block is accepted on a live JobSet",
            f"{_JOBSET_TYPES}: the CEL rule compares old and new only where both are set",
            when="block-moved",
        )
        for block in (
            "network",
            "successPolicy",
            "failurePolicy",
            "startupPolicy",
            "volumeClaimPolicies",
        )
    ),
    Row(
        *_JOBSET,
        "spec coordinator **",
        Impact.LIVE,
        "child Jobs and pods get the label at the next restart",
        _JOBSET_TYPES,
    ),
    Row(
        *_JOBSET,
        "metadata labels kueue.x-k8s.io/priority-class",
        Impact.REQUEUE,
        "Kueue gives the workload the new priority",
        _KUEUE_JOBS,
        when="value-only",
    ),
    Row(
        *_JOBSET,
        "metadata labels kueue.x-k8s.io/priority-class",
        Impact.BLOCKED,
        "the label cannot be removed, nor added to a running job",
        _KUEUE_JOBS,
    ),
    Row(
        *_JOBSET,
        "metadata annotations alpha.jobset.sigs.k8s.io/exclusive-topology",
        Impact.LIVE,
        "read when child Jobs are created: nothing moves before the next restart",
        "kubernetes-sigs/jobset pkg/webhooks",
    ),
)
CPC_ROWS = (
    Row(
        *_CPC,
        "",
        Impact.LIVE,
        "a driver starts on each node and takes its RAM disk",
        _CPC_CONTROLLER,
        COMES,
    ),
    Row(
        *_CPC,
        "",
        Impact.RAMDISK_LOSS,
        "the driver is removed and the RAM disks are freed",
        _MTC_DOC,
        GOES,
    ),
    Row(
        *_CPC,
        "",
        Impact.RAMDISK_LOSS,
        "the controller acts only when the object is created, so it is replaced: RAM disks are "
        "emptied and the next restore reads the backup",
        _CPC_CONTROLLER,
        IS_RECREATED,
    ),
    Row(
        *_CPC,
        "metadata annotations stowplan.dev/driver-epoch",
        Impact.RAMDISK_LOSS,
        "a new epoch: the driver is installed anew, at the version of the cluster",
        _MTC_DOC,
        IS_RECREATED,
    ),
    Row(
        *_CPC,
        "spec cloudStorageBucketName",
        Impact.DATA_LOSS,
        "backups in the old place are no longer found while the RAM disks are emptied: jobs start "
        "from step 0 unless the backups are copied first",
        _MTC_DOC,
        IS_RECREATED,
    ),
)
