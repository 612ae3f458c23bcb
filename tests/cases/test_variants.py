"""The public cases stand for kinds of faults: each kind in other words than the report's own.

Every variant changes one thing in a cluster that breaks no rule, and names the rules of which one
must answer.
"""

import copy
from pathlib import Path

import pytest

from generator.checks.policy import engine_for
from generator.checks.run import check_cluster, versions_of
from generator.checks.subject import Subject
from generator.yaml_load import load_documents
from schemas.versions import Versions

CLEAN = Path(__file__).parent / "rules" / "REF020" / "right.yaml"
BODIES = [document.value for document in load_documents(CLEAN.read_text("utf-8"), "right.yaml")]
KUEUE, CONFIG = "kueue.x-k8s.io/v1beta2", "config.kueue.x-k8s.io/v1beta2"
QUEUE_NAME, PRIORITY = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class"
TOPOLOGY, ACCELERATOR = "cloud.google.com/gke-tpu-topology", "cloud.google.com/gke-tpu-accelerator"
EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
VARIANTS = {}


class Cluster:
    """The clean cluster's objects, to be changed in place."""

    def __init__(self):
        self.bodies = copy.deepcopy(BODIES)

    def of(self, kind):
        return next(body for body in self.bodies if body["kind"] == kind)

    def add(self, api_version, kind, name, spec=None, **body):
        made = {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **body}
        self.bodies.append(made if spec is None else {**made, "spec": spec})
        return made

    def again(self, kind, name):
        made = copy.deepcopy(self.of(kind))
        made["metadata"]["name"] = name
        self.bodies.append(made)
        return made

    def configuration(self, **fields):
        waiting = {"timeout": "1h", "recoveryTimeout": "1h"}
        body = {"apiVersion": CONFIG, "kind": "Configuration", "waitForPodsReady": waiting}
        self.bodies.append({**body, **fields})

    @property
    def jobset(self):
        return self.of("JobSet")

    @property
    def replicated(self):
        return self.jobset["spec"]["replicatedJobs"][0]

    @property
    def job(self):
        return self.replicated["template"]

    @property
    def template(self):
        return self.job["spec"]["template"]

    @property
    def pod(self):
        return self.template["spec"]

    @property
    def container(self):
        return self.pod["containers"][0]

    @property
    def queue(self):
        return self.of("ClusterQueue")["spec"]

    @property
    def group(self):
        return self.queue["resourceGroups"][0]

    def quota(self, resource):
        quotas = self.group["flavors"][0]["resources"]
        return next(quota for quota in quotas if quota["name"] == resource)

    def uncover(self, resource):
        quota = self.quota(resource)
        self.group["coveredResources"].remove(resource)
        self.group["flavors"][0]["resources"].remove(quota)
        return quota

    def mount_bucket(self, **source):
        self.pod["volumes"].append({"name": "bucket", **source})
        self.container["volumeMounts"].append({"name": "bucket", "mountPath": "/gcs"})
        kept = [a for a in self.container["args"] if not a.startswith("base_output_directory")]
        self.container["args"] = kept

    def rules(self):
        facts = self.of("Cluster")
        versions, _ = versions_of(facts, Versions.of())
        pairs = check_cluster(
            [Subject(body) for body in self.bodies],
            facts=facts,
            versions=versions,
            engine=engine_for(),
        )
        return {finding.rule for _, finding in pairs}


def variant(name, *rules):
    def keep(change):
        VARIANTS[name] = (change, set(rules))
        return change

    return keep


GCSFUSE = {"csi": {"driver": "gcsfuse.csi.storage.gke.io"}}
SPOT = {"key": "cloud.google.com/gke-spot", "value": "true", "effect": "NoSchedule"}


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


@variant("cq-004 memory alone apart", "KUE018")
def _(c):
    memory = c.uncover("memory")
    flavor = c.again("ResourceFlavor", "cpu-pool")
    flavor["spec"] = {"nodeLabels": {"cloud.google.com/gke-nodepool": "cpu"}}
    flavors = [{"name": "cpu-pool", "resources": [memory]}]
    c.queue["resourceGroups"].append({"coveredResources": ["memory"], "flavors": flavors})


@variant("cq-008 a chip and a half", "KUE020")
def _(c):
    c.quota("google.com/tpu")["nominalQuota"] = "1500m"


@variant("cq-008 no multiple of a node", "REF031")
def _(c):
    c.quota("google.com/tpu")["nominalQuota"] = 62


@variant("cq-008 no multiple of a slice", "REF031")
def _(c):
    c.quota("google.com/tpu")["nominalQuota"] = 40


@variant("cq-008 a resource that nobody has", "KUE021")
def _(c):
    c.group["coveredResources"].append("gpu")
    c.group["flavors"][0]["resources"].append({"name": "gpu", "nominalQuota": 8})


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


@variant("kq-001 an expression that leaves the namespace out", "REF010")
def _(c):
    expression = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["team-a"]}
    c.queue["namespaceSelector"] = {"matchExpressions": [expression]}


@variant("kq-001 a label that the namespace lacks", "REF010")
def _(c):
    c.queue["namespaceSelector"] = {"matchLabels": {"kueue": "on"}}


@variant("kq-002 a plain Job", "KUE004")
def _(c):
    made = c.add("batch/v1", "Job", "plain", copy.deepcopy(c.job["spec"]))
    made["metadata"]["namespace"] = "team-a"


@variant("kq-003 another label key", "REF012")
def _(c):
    flavor = c.again("ResourceFlavor", "spot")
    flavor["spec"]["nodeLabels"] = {"cloud.google.com/gke-spot": "true"}
    second = copy.deepcopy(c.group["flavors"][0])
    second["name"] = "spot"
    c.group["flavors"].append(second)


@variant("kq-005 only a resource that the queue lacks", "REF019", "REF018")
def _(c):
    c.container["resources"] = {"requests": {"ephemeral-storage": "1Gi"}}


@variant("kq-007 the toleration of everything", "KUE022")
def _(c):
    c.of("ResourceFlavor")["spec"] |= {
        "nodeTaints": [SPOT],
        "tolerations": [{"operator": "Exists"}],
    }


@variant("kq-009 the second of two jobs", "REF024")
def _(c):
    taint = {"key": "team", "value": "x", "effect": "NoSchedule"}
    c.of("ResourceFlavor")["spec"]["nodeTaints"] = [taint]
    second = copy.deepcopy(c.replicated)
    second["name"] = "driver"
    c.pod.setdefault("tolerations", []).append({"key": "team", "operator": "Exists"})
    c.jobset["spec"]["replicatedJobs"].append(second)


@variant("kq-014 memory is what is not covered", "REF018")
def _(c):
    c.uncover("memory")
    c.container["resources"]["requests"] = {"memory": "10Gi"}


@variant("kq-016 the label is missing", "PRI004")
def _(c):
    del c.jobset["metadata"]["labels"][PRIORITY]


@variant("kq-019 another policy inside the queue", "KUE016")
def _(c):
    rules = {"withinClusterQueue": "LowerOrNewerEqualPriority", "reclaimWithinCohort": "Any"}
    c.queue.update(cohortName="all", preemption=rules)


BORROWING = {
    "withinClusterQueue": "LowerPriority",
    "reclaimWithinCohort": "Any",
    "borrowWithinCohort": {"policy": "LowerPriority"},
}


@variant("kq-022 a weight of one queue", "KUE017")
def _(c):
    c.queue.update(cohortName="all", fairSharing={"weight": "500m"}, preemption=BORROWING)


@variant("kq-022 for all of Kueue", "REF032")
def _(c):
    c.configuration(fairSharing={"preemptionStrategies": ["LessThanOrEqualToFinalShare"]})
    c.queue.update(cohortName="all", preemption=BORROWING)


@variant("kq-026 beside other queues", "KUE024")
def _(c):
    c.again("LocalQueue", "default")


@variant("kq-028 a label that the namespace lacks", "REF028")
def _(c):
    c.configuration(managedJobsNamespaceSelector={"matchLabels": {"kueue": "managed"}})


@variant("kq-029 a timeout alone", "OPS004")
def _(c):
    c.configuration(waitForPodsReady={"timeout": "5m"})


@variant("kq-029 less time to restart than to start", "OPS004")
def _(c):
    c.configuration(waitForPodsReady={"timeout": "30m", "recoveryTimeout": "1m"})


@variant("kq-032 what a queue lends", "SCH014", "SCH008", "KUE012")
def _(c):
    c.queue.pop("cohortName", None)
    c.quota("google.com/tpu")["lendingLimit"] = 1


@variant("kq-032 what a cohort lends", "SCH014", "SCH008", "KUE013")
def _(c):
    quota = {"name": "google.com/tpu", "nominalQuota": 1, "lendingLimit": 1}
    flavors = [{"name": "v6e", "resources": [quota]}]
    group = {"coveredResources": ["google.com/tpu"], "flavors": flavors}
    c.add(KUEUE, "Cohort", "all", {"resourceGroups": [group]})


@variant("kq-035 by the toleration", "JOB018")
def _(c):
    toleration = {"key": "cloud.google.com/gke-queued", "operator": "Exists"}
    c.pod.setdefault("tolerations", []).append(toleration)


QUEUED = {
    "provisioningClassName": "queued-provisioning.gke.io",
    "managedResources": ["google.com/tpu"],
    "parameters": {"maxRunDurationSeconds": "3600"},
}


@variant("kq-035 by the queue's admission check", "REF033")
def _(c):
    what = {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": "dws"}
    controller = {"controllerName": "kueue.x-k8s.io/provisioning-request", "parameters": what}
    c.add(KUEUE, "AdmissionCheck", "dws", controller)
    c.add(KUEUE, "ProvisioningRequestConfig", "dws", QUEUED)
    c.queue["admissionChecksStrategy"] = {"admissionChecks": [{"name": "dws"}]}


@variant("kq-037 without managed resources", "KUE026")
def _(c):
    kept = {key: value for key, value in QUEUED.items() if key != "managedResources"}
    c.add(KUEUE, "ProvisioningRequestConfig", "dws", kept)


@variant("kq-039 the new name in the old version", "SCH002")
def _(c):
    c.of("ClusterQueue")["apiVersion"] = "kueue.x-k8s.io/v1beta1"
    c.queue["cohortName"] = "all"


@variant("kq-039 a cohort's parent", "SCH002")
def _(c):
    c.add(KUEUE, "Cohort", "all", {"parent": "root"})


@variant("kq-041 the topology", "REF005")
def _(c):
    c.of("ResourceFlavor")["spec"]["topologyName"] = "nowhere"


@variant("kq-041 the WorkloadPriorityClass", "REF007")
def _(c):
    c.jobset["metadata"]["labels"][PRIORITY] = "hihg"


@variant("kq-041 the PriorityClass", "REF008")
def _(c):
    c.pod["priorityClassName"] = "hihg"


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


def test_the_cluster_breaks_no_rule_before_it_is_changed():
    assert Cluster().rules() == set()


@pytest.mark.parametrize("name", VARIANTS)
def test_a_variant_is_caught_like_the_case_it_is_of(name):
    change, rules = VARIANTS[name]
    cluster = Cluster()
    change(cluster)
    assert cluster.rules() & rules
