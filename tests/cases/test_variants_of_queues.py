"""Variants of the public cases about queues, quotas and Kueue's settings; see clean_cluster."""

import copy

import pytest

from .clean_cluster import Cluster, Variants

KUEUE = "kueue.x-k8s.io/v1beta2"
PRIORITY = "kueue.x-k8s.io/priority-class"
SPOT = {"key": "cloud.google.com/gke-spot", "value": "true", "effect": "NoSchedule"}
variant = Variants()


def test_the_cluster_breaks_no_rule_before_it_is_changed():
    assert Cluster().rules() == set()


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


@pytest.mark.parametrize("name", variant)
def test_a_variant_is_caught_like_the_case_it_is_of(name):
    told, expected = variant.told_and_expected(name)
    assert told & expected
