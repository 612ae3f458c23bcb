"""Who can preempt whom between the queues of a cohort: variants of one cluster."""

import copy
from pathlib import Path

import pytest

from generator.checks.references.fit import quota_in_whole_nodes
from generator.checks.references.preemption import priorities_reach_across_queues
from generator.checks.references.world import World
from generator.checks.subject import Subject
from generator.yaml_load import load_documents

CASE = Path(__file__).resolve().parents[2] / "cases" / "rules" / "REF030" / "wrong.yaml"
BODIES = [document.value for document in load_documents(CASE.read_text("utf-8"), "wrong.yaml")]


class Cluster:
    """The case's cluster, to be changed in one place and judged."""

    def __init__(self):
        self.bodies = copy.deepcopy(BODIES)

    def of(self, kind, name):
        found = [b for b in self.bodies if b["kind"] == kind and b["metadata"]["name"] == name]
        return found[0]

    def tpu(self, queue, nominal):
        [group] = self.of("ClusterQueue", queue)["spec"]["resourceGroups"]
        group["flavors"][0]["resources"][0]["nominalQuota"] = nominal

    def notes(self):
        world = World.of([Subject(body) for body in self.bodies], None, True)
        return [(s.name, f.message) for s, f in priorities_reach_across_queues(world)]


@pytest.fixture
def cluster():
    return Cluster()


def test_the_note_stands_on_the_queue_of_the_higher_job_and_names_what_is_kept(cluster):
    [(queue, message)] = cluster.notes()
    assert queue == "research"
    assert "one of 1000 in ClusterQueue batch" in message
    assert "takes back only what batch borrows" in message
    assert "32 google.com/tpu of v6e" in message


def test_without_reclaim_nothing_of_another_queue_is_preempted(cluster):
    del cluster.of("ClusterQueue", "research")["spec"]["preemption"]
    [(_, message)] = cluster.notes()
    assert "preempts nothing of other queues (reclaimWithinCohort is Never)" in message


def test_a_lower_job_that_borrows_is_within_reach(cluster):
    cluster.tpu("batch", 0)
    assert cluster.notes() == []


def test_a_queue_that_holds_its_own_jobs_needs_nobody_elses_quota(cluster):
    cluster.tpu("research", 64)
    assert cluster.notes() == []


def test_equal_priorities_expect_nothing(cluster):
    for name in ("high", "low"):
        cluster.of("WorkloadPriorityClass", name)["value"] = 7
    assert cluster.notes() == []


def test_pod_priorities_count_where_the_job_has_no_workload_priority(cluster):
    for name in ("llama-high", "llama-low"):
        del cluster.of("JobSet", name)["metadata"]["labels"]["kueue.x-k8s.io/priority-class"]
    [(_, message)] = cluster.notes()
    assert "a job of priority 2000000 here" in message


def test_queues_of_different_cohorts_do_not_meet(cluster):
    cluster.of("ClusterQueue", "batch")["spec"]["cohortName"] = "other"
    assert cluster.notes() == []


def cohort(name, parent):
    return {"kind": "Cohort", "metadata": {"name": name}, "spec": {"parentName": parent}}


def test_cohorts_below_one_parent_do_meet(cluster):
    cluster.of("ClusterQueue", "batch")["spec"]["cohortName"] = "other"
    cluster.bodies += [cohort("other", "root"), cohort("all", "root")]
    assert len(cluster.notes()) == 1


def test_cohorts_that_are_each_others_parents_end(cluster):
    cluster.bodies += [cohort("other", "all"), cohort("all", "other")]
    assert len(cluster.notes()) == 1


def test_another_flavor_is_no_common_quota(cluster):
    [group] = cluster.of("ClusterQueue", "batch")["spec"]["resourceGroups"]
    group["flavors"][0]["name"] = "v5p"
    assert cluster.notes() == []


class Quotas(Cluster):
    """The same cluster, asked what of its quotas nobody can use."""

    def notes(self):
        facts = self.of("Cluster", "dev")
        world = World.of([Subject(body) for body in self.bodies], facts, True)
        return [(s.name, f.severity.value, f.fix) for s, f in quota_in_whole_nodes(world)]


def test_what_a_queue_has_left_another_of_its_cohort_may_borrow():
    cluster = Quotas()
    cluster.tpu("research", 30)
    assert cluster.notes() == [("research", "warning", "write 28 or 32")]
    cluster.tpu("batch", 34)
    assert cluster.notes() == []


def test_a_queue_alone_uses_whole_slices():
    cluster = Quotas()
    for name in ("research", "batch"):
        del cluster.of("ClusterQueue", name)["spec"]["cohortName"]
    cluster.tpu("research", 40)
    assert cluster.notes() == [("research", "note", "write 32 or 48")]
    cluster.tpu("research", 41)
    assert cluster.notes() == [("research", "warning", "write 40 or 44")]
