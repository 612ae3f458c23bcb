"""The rules of ``stowplan doctor``: what must hold in a live cluster. Columns as in rule_table."""

from __future__ import annotations

from generator.checks.references.rule_table import Row
from generator.findings import Severity

_E, _W, _N = Severity.ERROR, Severity.WARNING, Severity.NOTE
_DOCTOR = "generator/doctor"
_MTC = "GKE documentation, multi-tier checkpointing"
_KUEUE = "Kueue, apis/kueue/v1beta2 and pkg/scheduler/flavorassigner"
_PLANE = "docs/hotswap.md, played on a real control plane (tests/e2e/test_hotswap.py)"

LIVE: tuple[Row, ...] = (
    (
        "DOC001",
        "The doctor can read what it examines",
        _W,
        "What the API server refuses to show is not examined; the rest is.",
        "Grant the roles that stowplan doctor --rbac prints.",
        "Kubernetes documentation, RBAC",
        f"{_DOCTOR}/diagnose.py",
    ),
    (
        "DOC002",
        "Every kind is served, in the version that the manifests use",
        _E,
        "Applying answers 'no matches for kind'. For CheckpointConfiguration that means that the "
        "add-on HighScaleCheckpointing is off; for Kueue and JobSet that some CRDs are missing.",
        "Enable the add-on or install the whole release; the message has the command.",
        f"{_MTC}, troubleshooting",
        f"{_DOCTOR}/apis.py",
    ),
    (
        "DOC003",
        "The cluster runs the versions that the inventory names",
        _W,
        "Manifests are written and judged for the versions of the inventory. Another minor version "
        "may refuse or drop fields, and GKE before 1.32.4-gke.1415000 has no multi-tier "
        "checkpointing.",
        "Correct the inventory and compile, or upgrade the cluster.",
        f"{_MTC}; Kueue and JobSet changelogs",
        f"{_DOCTOR}/controllers.py",
    ),
    (
        "DOC004",
        "The controllers of Kueue and JobSet run",
        _E,
        "CRDs without their controller accept objects that nobody acts on.",
        "Install the whole release and see why its pods do not start.",
        "Kueue and JobSet installation manifests",
        f"{_DOCTOR}/controllers.py",
    ),
    (
        "DOC005",
        "Admission webhooks are registered and answer",
        _E,
        "Without Kueue's webhook a JobSet is not suspended and runs outside its quota. A "
        "registered webhook that nobody answers makes the API server refuse every change.",
        "Apply the webhook configurations; see that the controller's pods are ready.",
        "Kubernetes documentation, dynamic admission control",
        f"{_DOCTOR}/controllers.py",
    ),
    (
        "DOC006",
        "The Cloud Storage FUSE CSI driver is registered",
        _E,
        "The checkpoint driver mounts the bucket through it.",
        "Enable the add-on GcsFuseCsiDriver.",
        _MTC,
        f"{_DOCTOR}/apis.py",
    ),
    (
        "DOC007",
        "The JobSet controller has memory for large jobs",
        _W,
        "With the default limit it is killed when it starts large JobSets.",
        "Install it with the component in compiled/CLUSTER/controllers.",
        _MTC,
        f"{_DOCTOR}/controllers.py",
    ),
    (
        "DOC009",
        "The context is the cluster that the folder describes",
        _E,
        "Compared with another cluster's manifests everything differs, and a fix would be applied "
        "to the wrong cluster; so nothing is compared then.",
        "Give the right --context or folder.",
        "gcloud container clusters get-credentials names contexts gke_PROJECT_LOCATION_NAME",
        f"{_DOCTOR}/apis.py",
    ),
    (
        "DOC010",
        "Every accelerator node has a checkpoint driver pod",
        _E,
        "On a node without it, pods with the checkpoint volume wait in ContainerCreating.",
        "Tolerate the nodes' taints in the CheckpointConfiguration, and let it select them.",
        _MTC,
        f"{_DOCTOR}/drivers.py",
    ),
    (
        "DOC011",
        "Driver pods are 5/5 Running",
        _E,
        "A driver that is not whole serves no volume.",
        "Describe the pod; mount failures are reported as DOC012 and DOC013.",
        _MTC,
        f"{_DOCTOR}/drivers.py",
    ),
    (
        "DOC012",
        "The drivers may use their bucket",
        _E,
        "Mounting fails with PermissionDenied until the drivers' Kubernetes service account has "
        "roles/storage.objectUser on the bucket.",
        "Run the command in the message.",
        f"{_MTC}, permissions and troubleshooting",
        f"{_DOCTOR}/mounts.py",
    ),
    (
        "DOC013",
        "No pod waits for a volume",
        _E,
        "A pod whose volume cannot be mounted never starts, and its whole job waits.",
        "See the event in the message.",
        f"{_MTC}, troubleshooting",
        f"{_DOCTOR}/mounts.py",
    ),
    (
        "DOC014",
        "No node is selected by two CheckpointConfigurations",
        _E,
        "The add-on reports a Conflict and installs only one of the drivers.",
        "Delete the object that is not in Git.",
        "high-scale-checkpointing-controller, pkg/multitier-controller/controller.go",
        f"{_DOCTOR}/drivers.py",
    ),
    (
        "DOC015",
        "Every CheckpointConfiguration has its driver DaemonSet",
        _E,
        "The add-on refuses an empty bucket or a malformed size in its own log only, and waits "
        "while another configuration's drivers are unscheduled or in conflict.",
        "Mend the object and re-create it: edits are ignored.",
        "high-scale-checkpointing-controller, pkg/multitier-controller",
        f"{_DOCTOR}/drivers.py",
    ),
    (
        "DOC020",
        "ClusterQueues are active",
        _E,
        "An inactive queue admits nothing.",
        "The condition's reason says what is missing.",
        _KUEUE,
        f"{_DOCTOR}/queues.py",
    ),
    (
        "DOC021",
        "LocalQueues lead to an active ClusterQueue",
        _E,
        "What is submitted to such a queue waits for ever.",
        "Apply the ClusterQueue, or re-create the LocalQueue.",
        _KUEUE,
        f"{_DOCTOR}/queues.py",
    ),
    (
        "DOC022",
        "Every pending workload can be admitted one day",
        _E,
        "It asks for more than the queue can ever hold, for a resource that no group covers, or "
        "its queue, namespace or node labels do not fit.",
        "The message says which resource and flavor, and by how much.",
        _KUEUE,
        f"{_DOCTOR}/workloads.py",
    ),
    (
        "DOC023",
        "A workload waits for its turn",
        _N,
        "Waiting is what a queue is for; the message says for what, and who holds it.",
        "Nothing, or raise its Kueue priority.",
        _KUEUE,
        f"{_DOCTOR}/workloads.py",
    ),
    (
        "DOC024",
        "Kueue has made a Workload of every queued JobSet",
        _E,
        "Without one the JobSet stays suspended, or runs outside its quota.",
        "Apply the WorkloadPriorityClass that it names; let Kueue manage the namespace.",
        "Kueue, pkg/controller/jobframework",
        f"{_DOCTOR}/workloads.py",
    ),
    (
        "DOC025",
        "Pods of admitted jobs find a node",
        _E,
        "The job holds its quota and does not run: the quota counts on nodes that are missing, "
        "full, tainted or labelled otherwise.",
        "Mend the nodes, or lower the quota to what there is.",
        "Kubernetes documentation, assigning pods to nodes",
        f"{_DOCTOR}/placement.py",
    ),
    (
        "DOC026",
        "Nodes that hold pods of jobs are ready",
        _W,
        "Pods stay on a node that is not ready for five minutes and then until it is deleted.",
        "Wait for the repair, or delete the Node object.",
        _PLANE,
        f"{_DOCTOR}/placement.py",
    ),
    (
        "DOC030",
        "No slice waits in a wounded node pool",
        _E,
        "With JobSet's exclusive topology the followers of a leader that found a free node in a "
        "pool with a lost node are bound to that pool: one of them waits for ever, and nothing is "
        "preempted.",
        "Cordon the rest of the pool and delete one of the slice's pods there.",
        _PLANE,
        f"{_DOCTOR}/placement.py",
    ),
    (
        "DOC031",
        "Every TPU slice runs in one node pool",
        _E,
        "Kueue may spread a slice when it replaces nodes at once. Everything is Running, and "
        "training hangs, since such a slice has no interconnect.",
        "Deactivate the workload and activate it again once its pods are gone.",
        _PLANE,
        f"{_DOCTOR}/placement.py",
    ),
    (
        "DOC032",
        "Kueue does not replace nodes of TPU slices at once",
        _W,
        "With the default feature gates the next lost node spreads slices over node pools.",
        "Turn node replacement off and set waitForPodsReady.recoveryTimeout.",
        _PLANE,
        f"{_DOCTOR}/kueue_settings.py",
    ),
    (
        "DOC040",
        "Priority classes that jobs name exist",
        _E,
        "Pods that name a missing PriorityClass are refused; of a JobSet that names a missing "
        "WorkloadPriorityClass Kueue makes no Workload.",
        "Apply the class.",
        "Kubernetes admission plugin Priority; Kueue, pkg/util/priority",
        f"{_DOCTOR}/priorities.py",
    ),
    (
        "DOC050",
        "Every object of compiled/ is in the cluster",
        _E,
        "It was not synced, was refused, or was deleted by hand.",
        "Let Argo CD sync, or apply the file and read the answer.",
        "this project",
        f"{_DOCTOR}/drift.py",
    ),
    (
        "DOC051",
        "Live objects are as compiled/ says",
        _W,
        "A change by hand is lost at the next sync, or lives on where Git says nothing about the "
        "field.",
        "Put it into the inventory, or undo it.",
        "Kubernetes documentation, server-side apply (managedFields)",
        f"{_DOCTOR}/drift.py",
    ),
    (
        "DOC052",
        "Nothing that stowplan wrote is left over",
        _N,
        "Old runs and configurations stay until their pruning is confirmed.",
        "Confirm the pruning when their jobs have ended.",
        "this project",
        f"{_DOCTOR}/drift.py",
    ),
)
