"""Variants of the public cases about jobs, pods and checkpoints; see clean_cluster."""

import pytest

from .clean_cluster import Variants

QUEUE_NAME, PRIORITY = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class"
TOPOLOGY, ACCELERATOR = "cloud.google.com/gke-tpu-topology", "cloud.google.com/gke-tpu-accelerator"
EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
GCSFUSE = {"csi": {"driver": "gcsfuse.csi.storage.gke.io"}}
variant = Variants()


@variant("ar-005 Force among other options", "JOB006")
def _(c):
    annotations = c.jobset["metadata"].setdefault("annotations", {})
    annotations["argocd.argoproj.io/sync-options"] = "Prune=false, Force=true"


@variant("ar-005 Replace for a whole Application", "OPS005")
def _(c):
    c.add(
        "argoproj.io/v1alpha1",
        "Application",
        "fleet",
        {
            "project": "default",
            "source": {"repoURL": "https://git.example/f.git", "path": "."},
            "destination": {"server": "https://kubernetes.default.svc"},
            "syncPolicy": {"syncOptions": ["Replace=true"]},
        },
    )


@variant("cpc-002 another spelling", "SCH002")
def _(c):
    spec = c.of("CheckpointConfiguration")["spec"]
    spec["gcsfuseMountOptions"] = spec.pop("gcsFuseMountOptions")


@variant("cpc-005 the same selector", "REF026")
def _(c):
    c.again("CheckpointConfiguration", "second-configuration")


@variant("cpc-005 other keys of the same nodes", "REF026")
def _(c):
    second = c.again("CheckpointConfiguration", "second-configuration")
    second["spec"]["nodeSelector"] = {ACCELERATOR: "tpu-v6e-slice", TOPOLOGY: "4x4"}


@variant("cpc-008 as two words", "MTC031")
def _(c):
    c.mount_bucket(**GCSFUSE)
    c.container["args"] += ["--output-dir", "/gcs/run"]


@variant("cpc-008 inside a shell script", "MTC031")
def _(c):
    c.mount_bucket(**GCSFUSE)
    words = " ".join(c.container["args"])
    script = f"python3 train.py base_output_directory=/gcs/run \\\n  {words}"
    c.container.update(command=["sh", "-c", script], args=[])


@variant("cpc-008 in a variable", "MTC031")
def _(c):
    c.mount_bucket(**GCSFUSE)
    c.container["env"] = [{"name": "CHECKPOINT_DIR", "value": "/gcs/ck"}]


@variant("cpc-008 through a claim", "REF034")
def _(c):
    c.mount_bucket(persistentVolumeClaim={"claimName": "bucket"})
    c.container["args"].append("base_output_directory=/gcs/run")
    shared = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    csi = {**GCSFUSE["csi"], "volumeHandle": "acme-runs"}
    c.add("v1", "PersistentVolume", "pv", {**shared, "capacity": {"storage": "1Gi"}, "csi": csi})
    size = {"requests": {"storage": "1Gi"}}
    claim = {**shared, "volumeName": "pv", "resources": size}
    c.add("v1", "PersistentVolumeClaim", "bucket", claim)["metadata"]["namespace"] = "team-a"


@variant("doc-001 on the pod template", "KUE002")
def _(c):
    c.template.setdefault("metadata", {})["annotations"] = {QUEUE_NAME: "training"}


@variant("doc-001 on the Job template", "KUE002")
def _(c):
    c.job["metadata"] = {"annotations": {QUEUE_NAME: "training"}}


@variant("doc-001 as a field", "SCH002")
def _(c):
    c.jobset["spec"]["queueName"] = "training"


@variant("doc-003 on the Job template", "KUE002")
def _(c):
    c.job["metadata"] = {"labels": {PRIORITY: "high"}}


@variant("doc-003 a misspelled key", "KUE003")
def _(c):
    c.jobset["metadata"]["labels"]["kueue.x-k8s.io/priorityclass"] = "high"


@variant("js-001 the replicated job's name is long", "SCH014")
def _(c):
    c.replicated["name"] = "s" * 60


@variant("js-001 the number of replicas takes the room", "SCH014")
def _(c):
    c.jobset["metadata"]["name"] = "l" * 48
    c.replicated["replicas"] = 1000


@variant("js-004 left to the default", "JOB001")
def _(c):
    del c.job["spec"]["backoffLimit"]


@variant("js-004 on GPUs", "JOB001")
def _(c):
    c.job["spec"]["backoffLimit"] = 3
    c.container["resources"] = {"limits": {"nvidia.com/gpu": 8}}


@variant("js-006 an empty key", "JOB015")
def _(c):
    c.jobset["metadata"]["annotations"][EXCLUSIVE] = ""


@variant("js-010 the policy Default", "JOB007")
def _(c):
    c.pod["dnsPolicy"] = "Default"


@variant("py-001 a variable", "SCH003")
def _(c):
    c.container["env"] = [{"name": "A", "value": True}, {"name": "B", "value": 1000.0}]


@variant("py-001 a label", "SCH003")
def _(c):
    c.jobset["metadata"]["labels"]["commit"] = 1e5


@variant("tp-002 on v5e", "JOB013")
def _(c):
    c.pod["nodeSelector"] = {ACCELERATOR: "tpu-v5-lite-podslice", TOPOLOGY: "2x4"}


@variant("tp-002 half of the hosts", "JOB009")
def _(c):
    c.job["spec"] |= {"parallelism": 2, "completions": 2}


@variant("tp-003 an empty topology", "JOB012")
def _(c):
    c.pod["nodeSelector"][TOPOLOGY] = ""


@variant("tp-007 the accelerator's own taint in the flavor", "REF024")
def _(c):
    taint = {"key": "google.com/tpu", "value": "present", "effect": "NoSchedule"}
    c.of("ResourceFlavor")["spec"]["nodeTaints"] = [taint]
    c.pod["tolerations"] = []


@pytest.mark.parametrize("name", variant)
def test_a_variant_is_caught_like_the_case_it_is_of(name):
    told, expected = variant.told_and_expected(name)
    assert told & expected
