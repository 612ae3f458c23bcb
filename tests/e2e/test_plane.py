"""The control plane itself: what it leaves behind, what a crash says, another's cluster spared."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from .controlplane.client import ApiError, Client
from .controlplane.plane import KUBECONFIG_VARIABLE, existing, plane
from .controlplane.processes import ProcessError
from .fleets import example_clusters
from .planes import SCENARIO_JOBSET, SCENARIO_KUEUE

pytestmark = pytest.mark.e2e

KINDS = (
    ("v1", "Namespace"),
    ("v1", "Node"),
    ("kueue.x-k8s.io/v1beta2", "ClusterQueue"),
    ("kueue.x-k8s.io/v1beta2", "ResourceFlavor"),
    ("scheduling.k8s.io/v1", "PriorityClass"),
)


@pytest.fixture(autouse=True)
def own_plane_only(existing_kubeconfig: Path | None) -> None:
    if existing_kubeconfig is not None:
        pytest.skip(f"is about planes of our own, {KUBECONFIG_VARIABLE} names a cluster")


def test_a_plane_leaves_nothing_running_and_a_crash_is_reported(
    report: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    with plane(SCENARIO_KUEUE, SCENARIO_JOBSET, report=report) as cluster:
        assert cluster.processes is not None
        assert cluster.layout is not None
        pids, folder = cluster.processes.pids(), cluster.layout.folder
        check_existing_cluster(cluster.kubectl.kubeconfig, cluster.client, monkeypatch)
        cluster.processes.kill("jobset")
        with pytest.raises(ProcessError, match=r"(?s)jobset exited with status -9.*log"):
            cluster.check()
        with pytest.raises(ProcessError, match="jobset exited"):
            cluster.wait(lambda: False, 30, "what never comes")
    assert len(pids) == 7
    assert [pid for pid in pids if alive(pid)] == []
    assert not folder.exists()


def check_existing_cluster(
    kubeconfig: Path, admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster named by its kubeconfig judges manifests and is left as it was."""
    monkeypatch.setenv("KUBECONFIG", "/nonexistent/ambient")
    before = inventory_of(admin)
    with existing(kubeconfig) as other:
        fleet = next(c for c in example_clusters() if c.kueue == SCENARIO_KUEUE)
        queue = next(m for m in fleet.manifests() if m["kind"] == "ClusterQueue")
        assert other.client.verdict(queue).accepted
        spoilt = {**queue, "spec": {**queue["spec"], "cohort": "old-name"}}
        refused = other.client.verdict(spoilt)
        assert not refused.accepted
        assert ".spec.cohort: field not declared in schema" in refused.message
        assert not other.simulated
        other.ensure_namespace("made-for-the-tests")
    with existing(kubeconfig) as again:  # while the first one's namespace still ends
        again.ensure_namespace("made-for-the-tests")
        made = again.client.get("v1", "Namespace", "made-for-the-tests")
        assert "deletionTimestamp" not in made["metadata"]
    assert ends(admin, "made-for-the-tests")
    assert inventory_of(admin) == before


def test_an_existing_cluster_that_does_not_answer_is_named(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: gone\n"
        "contexts: [{name: gone, context: {cluster: gone, user: nobody}}]\n"
        "clusters: [{name: gone, cluster: {server: 'https://127.0.0.1:9'}}]\n"
        "users: [{name: nobody, user: {token: none}}]\n"
    )
    with (
        pytest.raises(ProcessError, match=f"the cluster of {kubeconfig} does not answer"),
        existing(kubeconfig),
    ):
        pytest.fail("a cluster that is not there was reached")


def ends(client: Client, namespace: str) -> bool:
    """Whether a namespace was told to go, and went."""
    deadline = time.monotonic() + 30
    found = client.find("v1", "Namespace", namespace)
    if found is not None and "deletionTimestamp" not in found["metadata"]:
        return False
    while client.find("v1", "Namespace", namespace) is not None:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True


def inventory_of(client: Client) -> dict[tuple[str, str], list[str]]:
    found = {}
    for kind in KINDS:
        try:
            found[kind] = sorted(item["metadata"]["name"] for item in client.items(*kind))
        except ApiError as error:
            pytest.fail(str(error))
    return found


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
