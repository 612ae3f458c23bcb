"""A cluster that breaks no rule, and the ways in which tests change one thing in it.

The public cases stand for kinds of faults, and each variant is one of a kind in other words than
the report's own.
"""

import copy
from pathlib import Path

from generator.checks.policy import engine_for
from generator.checks.run import check_cluster, versions_of
from generator.checks.subject import Subject
from generator.yaml_load import load_documents
from schemas.versions import Versions

CLEAN = Path(__file__).parent / "rules" / "REF020" / "right.yaml"
BODIES = [document.value for document in load_documents(CLEAN.read_text("utf-8"), "right.yaml")]
CONFIG = "config.kueue.x-k8s.io/v1beta2"


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


class Variants(dict):
    """Name of a variant → the change that makes it, and the rules of which one must answer."""

    def __call__(self, name, *rules):
        def keep(change):
            self[name] = (change, set(rules))
            return change

        return keep

    def told_and_expected(self, name):
        """The rules that the changed cluster breaks, and those of which one must be among them."""
        change, rules = self[name]
        cluster = Cluster()
        change(cluster)
        return cluster.rules(), rules
