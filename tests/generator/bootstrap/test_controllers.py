"""``kubectl kustomize`` reads what installs JobSet and Kueue, with the controller's resources."""

from __future__ import annotations

import http.server
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.generator.bootstrap.conftest import CLUSTERS, COMPILED

KUBECTL = shutil.which("kubectl")
pytestmark = pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")

RELEASE = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: %s, namespace: %s}
spec:
  selector: {matchLabels: {control-plane: controller-manager}}
  template:
    metadata: {labels: {control-plane: controller-manager}}
    spec:
      containers:
        - name: manager
          image: registry.example/manager:v1
          resources: {limits: {cpu: 500m, memory: 128Mi}}
---
apiVersion: v1
kind: Namespace
metadata: {name: %s}
"""


class Releases(http.server.BaseHTTPRequestHandler):
    """The two manifests, at the paths of the releases."""

    def do_GET(self) -> None:
        name = self.path.split("/")[2]
        text = RELEASE % (f"{name}-controller-manager", f"{name}-system", f"{name}-system")
        self.send_response(200 if self.path.endswith("/manifests.yaml") else 404)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:
        return


@pytest.fixture
def releases() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Releases) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def build(folder: Path) -> list[dict]:
    assert KUBECTL is not None
    answer = subprocess.run(
        [KUBECTL, "kustomize", str(folder)], capture_output=True, text=True, timeout=60, check=False
    )
    assert answer.returncode == 0, answer.stderr
    return list(yaml.safe_load_all(answer.stdout))


@pytest.mark.parametrize("cluster", CLUSTERS[:1])
def test_the_jobset_controller_gets_what_multi_tier_checkpointing_asks_for(
    cluster: str, releases: str, tmp_path: Path
) -> None:
    copy = tmp_path / cluster
    shutil.copytree(COMPILED / cluster, copy)
    for name in ("jobset", "kueue"):
        file = copy / "bootstrap" / name / "kustomization.yaml"
        text = file.read_text()
        assert "https://github.com/kubernetes-sigs/" in text
        file.write_text(text.replace("https://github.com", releases))
    deployments = {
        body["metadata"]["name"]: body["spec"]["template"]["spec"]["containers"][0]["resources"]
        for name in ("jobset", "kueue")
        for body in build(copy / "bootstrap" / name)
        if body["kind"] == "Deployment"
    }
    assert deployments == {
        "jobset-controller-manager": {
            "limits": {"memory": "2Gi"},
            "requests": {"cpu": "1", "memory": "1Gi"},
        },
        "kueue-controller-manager": {"limits": {"cpu": "500m", "memory": "128Mi"}},
    }


def test_the_versions_are_those_of_the_inventory() -> None:
    for cluster in CLUSTERS:
        folder = COMPILED / cluster
        versions = yaml.safe_load((folder / "cluster.yaml").read_text())["spec"]["versions"]
        for name in ("jobset", "kueue"):
            body = yaml.safe_load((folder / "bootstrap" / name / "kustomization.yaml").read_text())
            assert body["resources"] == [
                f"https://github.com/kubernetes-sigs/{name}/releases/download/"
                f"v{versions[name]}/manifests.yaml"
            ]
