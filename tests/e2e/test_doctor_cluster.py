"""``stowplan doctor`` on a cluster that is itself at fault: controllers, nodes, kinds, no server.

The later tests leave less and less of the plane that all of them share.
"""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from .controlplane.client import Manifest
from .controlplane.plane import Cluster
from .controlplane.processes import ProcessError
from .documents import HIGH, TPU, fleet
from .fleets import COMPILED
from .patient import Patient, write_kubeconfig

pytestmark = pytest.mark.e2e

CSI_API, FUSE_DRIVER = "storage.k8s.io/v1", "gcsfuse.csi.storage.gke.io"
JOBSET_NAMESPACE, CONTROLLER = "jobset-system", "jobset-controller-manager"


def test_a_controller_without_a_replica_is_told_and_then_its_version_and_memory(
    patient: Patient,
) -> None:
    """No node takes a pod that does not tolerate the accelerator's taint."""
    client = patient.cluster.client
    resource = f"Deployment {JOBSET_NAMESPACE}/{CONTROLLER}"
    client.create(controller("registry.example/jobset:v0.8.0", "500Mi"))
    try:
        patient.wait_for("DOC004", resource=resource, message="has no available replica")
        tolerant = {"tolerations": [{"key": TPU, "operator": "Exists"}]}
        patch = {"spec": {"template": {"spec": tolerant}}}
        client.merge("apps/v1", "Deployment", CONTROLLER, patch, JOBSET_NAMESPACE)
        patient.wait_for("DOC003", resource=resource, message="JobSet 0.8.0 runs, and the inven")
        patient.wait_for("DOC007", resource=resource, message="memory limit is 500Mi")
    finally:
        client.delete("apps/v1", "Deployment", CONTROLLER, JOBSET_NAMESPACE)


def controller(image: str, memory: str) -> Manifest:
    """The Deployment of JobSet's release, as far as the doctor looks at it."""
    labels = {"control-plane": "controller-manager"}
    limits = {"limits": {"memory": memory}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": CONTROLLER, "namespace": JOBSET_NAMESPACE},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "manager", "image": image, "resources": limits}]},
            },
        },
    }


def test_a_gke_cluster_without_the_cloud_storage_fuse_add_on_is_told_what_enables_it(
    patient: Patient, tmp_path: Path
) -> None:
    """Of the cluster only its version is played, since other clusters need no such add-on."""
    client = patient.cluster.client
    on_gke = replace(patient, kubectl=kubectl_of_a_gke_cluster(patient.cluster, tmp_path))
    found = on_gke.wait_for("DOC006", resource=f"CSIDriver {FUSE_DRIVER}")
    assert "backups cannot be mounted" in found["message"]
    assert found["fix"].startswith("gcloud container clusters update ")
    assert "--update-addons=GcsFuseCsiDriver=ENABLED" in found["fix"]
    # What the add-on registers.
    driver = {
        "apiVersion": CSI_API,
        "kind": "CSIDriver",
        "metadata": {"name": FUSE_DRIVER},
        "spec": {"attachRequired": False, "podInfoOnMount": True},
    }
    client.create(driver)
    try:
        on_gke.wait_without("DOC006")
    finally:
        client.delete(CSI_API, "CSIDriver", FUSE_DRIVER)


def kubectl_of_a_gke_cluster(cluster: Cluster, folder: Path) -> Path:
    """The plane's kubectl behind a script that gives the API server's version as GKE's."""
    script = folder / "kubectl"
    version = json.dumps({"gitVersion": "v1.36.3-gke.1000000"})
    script.write_text(
        "#!/bin/sh\nfor last; do :; done\n"
        f'test "$last" != /version || {{ echo {shlex.quote(version)}; exit; }}\n'
        f'exec {shlex.quote(str(cluster.kubectl.binary))} "$@"\n'
    )
    script.chmod(0o700)
    return script


def test_what_git_does_not_hold_any_more_is_named(patient: Patient) -> None:
    client = patient.cluster.client
    old = next(m for m in fleet() if m["kind"] == "WorkloadPriorityClass")
    old["metadata"]["name"] = "last-years"
    client.create(old)
    try:
        found = patient.wait_for("DOC052", resource="WorkloadPriorityClass last-years")
        assert "not in compiled/" in found["message"]
    finally:
        client.delete(old["apiVersion"], old["kind"], "last-years")


def test_the_context_of_another_cluster_is_told(plane: Patient, tmp_path: Path) -> None:
    """GKE's contexts carry project and location; the folder's are others."""
    content = yaml.safe_load(plane.cluster.kubectl.kubeconfig.read_text())
    content["contexts"][0]["name"] = "gke_other-project_us-west1_prod"
    other = replace(
        plane,
        kubeconfig=write_kubeconfig(tmp_path, content),
        context="gke_other-project_us-west1_prod",
    )
    resource = f"context {other.context}"
    other.wait_for("DOC009", resource=resource, message="project other-project")
    other.wait_for("DOC009", resource=resource, message="location us-west1")


def test_the_folder_of_another_cluster_is_told_and_not_compared(
    plane: Patient, tmp_path: Path
) -> None:
    """The plane's context says nothing; the names of queues, flavors and jobs do."""
    report = tmp_path / "report.json"
    other = COMPILED / "gpu-h100-prod"
    assert plane.ask(str(other), "--format=json", f"--output={report}") == 1
    (told_of,) = (f for f in json.loads(report.read_text())["findings"] if f["severity"] != "note")
    assert told_of["rule"] == "DOC009"
    assert "configurations and jobs of gpu-h100-prod is there" in told_of["message"]


def test_a_node_that_is_not_ready_and_holds_pods_is_named(plane: Patient) -> None:
    client = plane.cluster.client
    pods = client.items("v1", "Pod", "default", f"jobset.sigs.k8s.io/jobset-name={HIGH}")
    node = pods[0]["spec"]["nodeName"]
    # Its kubelet, which is kwok, leaves it alone from now on.
    client.merge("v1", "Node", node, {"metadata": {"labels": {"type": None}}})
    conditions = [{"type": "Ready", "status": "False", "reason": "KubeletNotReady"}]
    client.merge("v1", "Node", node, {"status": {"conditions": conditions}}, subresource="status")
    found = plane.wait_for("DOC026", resource=f"Node {node}")
    assert f"default/{pods[0]['metadata']['name']}" in found["message"]


def test_kinds_that_are_missing_are_told_with_what_brings_them(plane: Patient) -> None:
    without_kind(plane, "workloadpriorityclasses.kueue.x-k8s.io")
    found = plane.wait_for("DOC002", resource="Kueue")
    assert "Kueue is half installed: the server has no WorkloadPriorityClass" in found["message"]
    without_kind(plane, "checkpointconfigurations.checkpointing.gke.io")
    off = plane.wait_for("DOC002", resource="CheckpointConfiguration")
    assert 'no matches for kind "CheckpointConfiguration"' in off["message"]
    assert off["fix"].startswith("gcloud container clusters update ")
    assert "HighScaleCheckpointing=ENABLED" in off["fix"]


def without_kind(plane: Patient, name: str) -> None:
    api, kind = "apiextensions.k8s.io/v1", "CustomResourceDefinition"
    client = plane.cluster.client
    client.delete(api, kind, name)
    plane.cluster.wait(lambda: client.find(api, kind, name) is None, 60, f"the end of {name}")


def test_an_api_server_that_dies_half_way_ends_the_examination_in_one_line(
    plane: Patient, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Half a picture would show faults that are none, so nothing is judged and nothing saved."""
    killer = kubectl_that_kills_the_server(plane.cluster, tmp_path, at_call=15)
    saved = tmp_path / "snapshot.json"
    assert replace(plane, kubectl=killer).ask(f"--save={saved}") == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert re.fullmatch(
        r"stowplan doctor: the API server stopped answering on the read of .* \(\d+ of \d+ reads"
        r" were done\): .*; nothing was judged",
        said.err.splitlines()[-1],
    )
    assert not saved.exists()
    # A killed process closes its socket, which kubectl notices, before it counts as ended.
    with pytest.raises(ProcessError, match=r"kube-apiserver exited with status -9.*log"):
        plane.cluster.wait(lambda: False, 30, "the end of the API server")


def kubectl_that_kills_the_server(cluster: Cluster, folder: Path, at_call: int) -> Path:
    """The plane's kubectl behind a script that kills the API server before one of its calls."""
    assert cluster.processes is not None
    pid = cluster.processes.pid("kube-apiserver")
    script, calls = folder / "kubectl", folder / "calls"
    script.write_text(
        f"#!/bin/sh\necho >> {shlex.quote(str(calls))}\n"
        f"test $(wc -l < {shlex.quote(str(calls))}) -lt {at_call} || kill -9 {pid} 2>/dev/null\n"
        f'exec {shlex.quote(str(cluster.kubectl.binary))} "$@"\n'
    )
    script.chmod(0o700)
    return script
