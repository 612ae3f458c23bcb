"""Record what happens to pods, nodes, workloads and JobSets while a scenario runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import urllib3

from .controlplane.client import ApiError, Client, Manifest
from .controlplane.kwok import POOL_LABEL

WATCH_S = 3
JOBSET_LABEL = "jobset.sigs.k8s.io/jobset-name"
JOB_INDEX_LABEL = "jobset.sigs.k8s.io/job-index"
REPLICATED_JOB_LABEL = "jobset.sigs.k8s.io/replicatedjob-name"
POD_INDEX_LABEL = "batch.kubernetes.io/job-completion-index"


@dataclass
class Span:
    """One state of one object over time, in seconds since the scenario began.

    Attributes:
        lane: what the object is called on the page; pods of one rank share a lane.
        kind: Pod, Node, Workload or JobSet.
        state: such as Running, Pending, Gated, Terminating, Admitted, Evicted.
        detail: the node pool of a pod, the reason of a condition.
        end: None while it lasts.
    """

    lane: str
    kind: str
    identity: str
    state: str
    detail: str
    start: float
    end: float | None = None


@dataclass(frozen=True)
class Mark:
    """Something the scenario did, or a moment that it waited for."""

    at: float
    text: str


@dataclass
class Timeline:
    """A recorded scenario."""

    title: str
    spans: list[Span] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    duration: float = 0.0
    story: str = ""


class Recorder:
    """Watches a cluster in the background; a context manager around a scenario."""

    def __init__(self, client: Client, title: str, story: str = "") -> None:
        self.timeline = Timeline(title, story=story)
        self._client = client
        self._started = time.monotonic()
        self._lock = threading.Lock()
        self._open: dict[str, Span] = {}
        self._pools: dict[str, str] = {}
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._follow, args=(*row,), daemon=True)
            for row in (
                ("v1", "Node", self._node),
                ("v1", "Pod", self._pod),
                (_kueue_version(client), "Workload", self._workload),
                ("jobset.x-k8s.io/v1alpha2", "JobSet", self._jobset),
            )
        ]

    def __enter__(self) -> Recorder:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.timeline.duration = self.now()
        self._stop.set()
        for thread in self._threads:
            thread.join(WATCH_S + 5)
        with self._lock:
            for span in self._open.values():
                span.end = self.timeline.duration

    def now(self) -> float:
        """Seconds since the scenario began."""
        return time.monotonic() - self._started

    def mark(self, text: str) -> float:
        """Note something on the time axis, and say when that was."""
        at = self.now()
        self.timeline.marks.append(Mark(at, text))
        return at

    def _follow(
        self, api_version: str, kind: str, state_of: Callable[[Manifest], tuple[str, str, str]]
    ) -> None:
        known: set[str] = set()
        version = ""
        while not self._stop.is_set():
            try:
                if not version:
                    objects, version = self._client.list_version(api_version, kind)
                    present = {item["metadata"]["uid"] for item in objects}
                    for gone in known - present:
                        self._close(gone)
                    known = present
                    for item in objects:
                        self._observe(kind, item, state_of)
                for event, item in self._client.watch(api_version, kind, version, WATCH_S):
                    if event == "ERROR":
                        version = ""
                        break
                    version = item["metadata"]["resourceVersion"]
                    if event == "DELETED":
                        known.discard(item["metadata"]["uid"])
                        self._close(item["metadata"]["uid"])
                    else:
                        known.add(item["metadata"]["uid"])
                        self._observe(kind, item, state_of)
            except (ApiError, urllib3.exceptions.HTTPError):
                version = ""
                self._stop.wait(0.5)

    def _observe(
        self, kind: str, item: Manifest, state_of: Callable[[Manifest], tuple[str, str, str]]
    ) -> None:
        lane, state, detail = state_of(item)
        identity = item["metadata"]["uid"]
        with self._lock:
            current = self._open.get(identity)
            if current and (current.state, current.detail) == (state, detail):
                return
            if current:
                current.end = self.now()
            span = Span(lane, kind, identity, state, detail, self.now())
            self._open[identity] = span
            self.timeline.spans.append(span)

    def _close(self, identity: str) -> None:
        with self._lock:
            span = self._open.pop(identity, None)
            if span:
                span.end = self.now()

    def _node(self, node: Manifest) -> tuple[str, str, str]:
        name = node["metadata"]["name"]
        self._pools[name] = node["metadata"]["labels"].get(POOL_LABEL, "")
        if node["spec"].get("unschedulable"):
            return name, "Cordoned", self._pools[name]
        return name, "Ready" if _condition(node, "Ready") else "NotReady", self._pools[name]

    def _pod(self, pod: Manifest) -> tuple[str, str, str]:
        labels = pod["metadata"].get("labels", {})
        parts = [labels.get(key, "") for key in (JOBSET_LABEL, JOB_INDEX_LABEL, POD_INDEX_LABEL)]
        lane = "-".join(parts) if all(parts) else pod["metadata"]["name"]
        return lane, pod_state(pod), self._pools.get(pod["spec"].get("nodeName", ""), "")

    def _workload(self, workload: Manifest) -> tuple[str, str, str]:
        owners = workload["metadata"].get("ownerReferences", [])
        lane = owners[0]["name"] if owners else workload["metadata"]["name"]
        return lane, *workload_state(workload)

    def _jobset(self, jobset: Manifest) -> tuple[str, str, str]:
        status = jobset.get("status", {})
        state = "Suspended" if jobset["spec"].get("suspend") else "Active"
        return jobset["metadata"]["name"], state, f"restarts: {status.get('restarts', 0)}"


def pod_state(pod: Manifest) -> str:
    """Terminating, Gated, or the pod's phase."""
    if pod["metadata"].get("deletionTimestamp"):
        return "Terminating"
    if pod["spec"].get("schedulingGates"):
        return "Gated"
    return str(pod.get("status", {}).get("phase", "Pending"))


def workload_state(workload: Manifest) -> tuple[str, str]:
    """What Kueue thinks of a workload, and the reason that it gives."""
    for kind, state in (
        ("Finished", "Finished"),
        ("Evicted", "Evicted"),
        ("Admitted", "Admitted"),
        ("QuotaReserved", "QuotaReserved"),
    ):
        condition = _condition(workload, kind)
        if condition:
            reason = condition.get("reason", "")
            return state, "" if reason in (kind, "ByTest") else reason
    return "Pending", ""


def _condition(item: Manifest, kind: str) -> dict[str, Any] | None:
    """The condition of that type, when it is True."""
    for condition in item.get("status", {}).get("conditions", []):
        if condition["type"] == kind and condition["status"] == "True":
            found: dict[str, Any] = condition
            return found
    return None


def _kueue_version(client: Client) -> str:
    """The API version of Kueue that the server prefers."""
    preferred = client.request("GET", "/apis/kueue.x-k8s.io").body["preferredVersion"]
    return str(preferred["groupVersion"])
