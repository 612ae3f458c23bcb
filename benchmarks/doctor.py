"""Time ``stowplan doctor`` on a large cluster: ``python -m benchmarks.doctor`` (needs Go; minutes).

A control plane as for ``make e2e`` holds the documents' fleet, 2,000 simulated TPU nodes with a
checkpoint driver on each, and 8,000 pods of JobSets, whose templates are the compiled ones. The
doctor is a process of its own; what is told is its wall time and the peak of its memory, without
kubectl's, and the same for judging alone.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.e2e.checkpoint_addon import CHECKPOINTING, CONFIG_API, driver_daemon_set
from tests.e2e.controlplane.client import Client, Manifest
from tests.e2e.controlplane.kwok import NodePool, ready_nodes, tpu_v6e_pool
from tests.e2e.controlplane.plane import Cluster, plane
from tests.e2e.documents import CLUSTER, SLICE_PODS, fleet
from tests.e2e.fleets import COMPILED, example_cluster
from tests.e2e.patient import apply

RUNS = 3
WRITERS = 8
DOCTOR = """
import sys
from pathlib import Path
from generator.cli.main import main
code = main(sys.argv[1:])
(peak,) = (x for x in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in x)
print(peak, file=sys.stderr)
sys.exit(code)
"""
"""The command, then the peak of its memory in kB; what wait4 tells is no less than the parent's."""


def main() -> None:
    """Build the cluster and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=2000)
    parser.add_argument("--pods", type=int, default=8000, help="pods of JobSets")
    wanted = parser.parse_args()
    compiled = example_cluster(CLUSTER)
    with plane(compiled.kueue, compiled.jobset) as cluster, tempfile.TemporaryDirectory() as folder:
        populate(cluster, wanted.nodes, wanted.pods)
        saved = Path(folder) / "snapshot.json"
        access = [
            f"--kubeconfig={cluster.kubectl.kubeconfig}",
            f"--kubectl={cluster.kubectl.binary}",
        ]
        report("reading and judging", [*access, f"--save={saved}"])
        report("judging alone", [f"--from={saved}"])
        print(f"snapshot: {saved.stat().st_size / 1e6:.0f} MB")


def populate(cluster: Cluster, nodes: int, pods: int) -> None:
    """Make the cluster, and wait until its nodes are ready and its drivers run."""
    client = cluster.client
    started = time.monotonic()
    pools = [tpu_v6e_pool(f"pool-{number}", SLICE_PODS) for number in range(nodes // SLICE_PODS)]
    names = [name for pool in pools for name in pool.node_names()]
    create(client, nodes_of(pools))
    cluster.wait(lambda: ready_nodes(client) >= set(names), 300, "nodes to be ready")
    cluster.ensure_namespace(CHECKPOINTING)
    manifests = fleet()
    apply(cluster, manifests)
    (config,) = (m for m in manifests if m["kind"] == "CheckpointConfiguration")
    live = client.get(CONFIG_API, "CheckpointConfiguration", config["metadata"]["name"])
    client.create(driver_daemon_set(live))
    jobset = next(m for m in manifests if m["kind"] == "JobSet")
    create(client, itertools.islice(pods_of(jobset, itertools.cycle(names)), pods))
    cluster.wait(lambda: len(running(client, CHECKPOINTING)) >= len(names), 600, "drivers to run")
    cluster.wait(lambda: len(running(client, "default")) >= pods, 600, "pods to run")
    print(f"cluster: {len(names)} nodes, {pods} pods, {time.monotonic() - started:.0f} s to make")


def nodes_of(pools: Iterable[NodePool]) -> Iterator[Manifest]:
    """The nodes of all pools."""
    return (pool.manifest(name) for pool in pools for name in pool.node_names())


def pods_of(jobset: Manifest, nodes: Iterable[str]) -> Iterator[Manifest]:
    """Pods as JobSet makes them, bound to the nodes in turn."""
    (job,) = jobset["spec"]["replicatedJobs"]
    template = job["template"]["spec"]["template"]
    for number, node in enumerate(nodes):
        pod = copy.deepcopy(template)
        labels = {
            "jobset.sigs.k8s.io/jobset-name": f"large-{number // (16 * SLICE_PODS)}",
            "jobset.sigs.k8s.io/replicatedjob-name": job["name"],
            "jobset.sigs.k8s.io/job-index": str(number // SLICE_PODS),
        }
        pod["metadata"] = {"name": f"large-{number}", "namespace": "default", "labels": labels}
        pod["spec"] = {**pod["spec"], "nodeName": node}
        yield {"apiVersion": "v1", "kind": "Pod", **pod}


def create(client: Client, manifests: Iterable[Manifest]) -> None:
    """Create objects, several at once."""
    with ThreadPoolExecutor(WRITERS) as writers:
        for _ in writers.map(client.create, manifests):
            pass


def running(client: Client, namespace: str) -> list[str]:
    """Names of the pods that run."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    answer = client.request("GET", path, query={"fieldSelector": "status.phase=Running"})
    return [pod["metadata"]["name"] for pod in answer.body["items"]]


def report(title: str, arguments: list[str]) -> None:
    """Run the doctor a few times and print the middle of the times and the highest peak."""
    seconds, peaks = [], []
    for _ in range(RUNS):
        started = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-c", DOCTOR, "doctor", str(COMPILED / CLUSTER), *arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        seconds.append(time.monotonic() - started)
        if done.returncode not in (0, 1):
            raise SystemExit(f"the doctor ended with {done.returncode}: {done.stderr}")
        peaks.append(int(done.stderr.split()[-2]) / 1024)
    print(f"{title}: {statistics.median(seconds):.1f} s, at most {max(peaks):.0f} MiB")


if __name__ == "__main__":
    main()
