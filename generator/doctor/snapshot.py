"""What the doctor saw: a plain value that can be saved, sent and judged again.

Secrets are never read, values of environment variables and arguments named like credentials are
replaced by a digest, and of pods, nodes and events only the fields that a check looks at are kept.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from generator.diff.conditions import dig
from generator.doctor.objects import EXCLUSIVE_TOPOLOGY

API_VERSION, KIND = "stowplan.dev/v1alpha1", "DoctorSnapshot"
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_DIGEST = "sha256:"
_CREDENTIAL = re.compile(r"token(?!iz)|secret|passw|api.?key|credential", re.IGNORECASE)


class SnapshotError(Exception):
    """A file that is no snapshot, or one of another version."""


@dataclass(frozen=True, slots=True)
class Unread:
    """Something that the server did not give.

    Attributes:
        key: the read's key.
        title: what it is, for people.
        reason: the server's reason, such as ``Forbidden``; ``NotServed`` for a missing kind.
        message: the server's text.
    """

    key: str
    title: str
    reason: str
    message: str


@dataclass(slots=True)
class Snapshot:
    """One look at a cluster.

    Attributes:
        context: the kubeconfig's context that was asked.
        taken: when, in UTC.
        version: the API server's version, such as ``v1.33.4-gke.1245000``.
        served: API group → the versions that the server has; the core's group is empty.
        kinds: ``group/version`` → kinds, for the groups that matter here.
        objects: the read's key → the objects.
        unread: what could not be read.
    """

    context: str = ""
    taken: datetime = field(default_factory=lambda: datetime.now(UTC).replace(microsecond=0))
    version: str = ""
    served: dict[str, list[str]] = field(default_factory=dict)
    kinds: dict[str, list[str]] = field(default_factory=dict)
    objects: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    unread: list[Unread] = field(default_factory=list)

    def has(self, key: str) -> bool:
        """Whether a read succeeded."""
        return key in self.objects

    def items(self, key: str) -> list[dict[str, Any]]:
        """The objects of a read; none where it failed."""
        return self.objects.get(key, [])

    def serves(self, group: str, kind: str) -> list[str]:
        """The versions in which the server has a kind."""
        return [v for v in self.served.get(group, []) if kind in self.kinds.get(f"{group}/{v}", [])]

    def age_s(self, stamp: Any) -> float:
        """Seconds from a timestamp of the API to the moment of the snapshot; 0 without one."""
        try:
            moment = datetime.fromisoformat(str(stamp))
        except ValueError:
            return 0.0
        if moment.tzinfo is None:
            return 0.0
        return (self.taken - moment).total_seconds()


# Paths of what is kept; ``*`` goes through a list. Metadata's name and namespace always are.
_POD = (
    "metadata uid",
    "metadata labels",
    "metadata deletionTimestamp",
    "metadata creationTimestamp",
    f"metadata annotations {EXCLUSIVE_TOPOLOGY}",
    "spec nodeName",
    "spec nodeSelector",
    "spec schedulingGates",
    "spec priorityClassName",
    "status phase",
    "status reason",
    "status conditions",
    "status containerStatuses * name",
    "status containerStatuses * ready",
    "status containerStatuses * restartCount",
    "status containerStatuses * state",
    "status initContainerStatuses * name",
    "status initContainerStatuses * ready",
    "status initContainerStatuses * state",
    "spec containers * name",
)
_EVENT = (
    "involvedObject",
    "reason",
    "type",
    "message",
    "count",
    "lastTimestamp",
    "eventTime",
    "series lastObservedTime",
    "metadata creationTimestamp",
)
_DEPLOYMENT = (
    "spec replicas",
    "spec template spec containers * name",
    "spec template spec containers * image",
    "spec template spec containers * resources",
    "status",
)
_WEBHOOK = (
    "webhooks * name",
    "webhooks * failurePolicy",
    "webhooks * clientConfig service",
    "webhooks * rules",
)
KEPT: dict[str, tuple[str, ...]] = {
    "nodes": (
        "metadata labels",
        "metadata creationTimestamp",
        "metadata deletionTimestamp",
        "spec taints",
        "spec unschedulable",
        "status conditions",
        "status allocatable",
        "status nodeInfo kubeletVersion",
    ),
    "jobpods": _POD,
    "driverpods": _POD,
    "daemonsets": ("metadata labels", "metadata creationTimestamp", "status"),
    "mountevents": _EVENT,
    "configevents": _EVENT,
    "kueuedeployments": _DEPLOYMENT,
    "jobsetdeployments": _DEPLOYMENT,
    "kueueendpoints": ("metadata labels", "endpoints * conditions"),
    "jobsetendpoints": ("metadata labels", "endpoints * conditions"),
    "mutatingwebhooks": _WEBHOOK,
    "validatingwebhooks": _WEBHOOK,
    "csidrivers": ("metadata labels",),
}
"""Read → what is kept of its objects; the others are compared with Git and kept whole."""


def kept(key: str, item: Mapping[str, Any]) -> dict[str, Any]:
    """What the snapshot keeps of an object."""
    if key not in KEPT:
        return dict(redacted(item))
    out: dict[str, Any] = {}
    for path in ("metadata name", "metadata namespace", *KEPT[key]):
        _copy(item, out, path.split())
    return out


def _copy(source: Any, target: dict[str, Any], path: list[str]) -> None:
    head, *rest = path
    if not isinstance(source, Mapping) or head not in source:
        return
    value = source[head]
    if not rest:
        target[head] = value
    elif rest[0] == "*":
        if isinstance(value, list):
            entries = target.setdefault(head, [{} for _ in value])
            for entry, copy in zip(value, entries, strict=True):
                _copy(entry, copy, rest[1:])
    else:
        _copy(value, target.setdefault(head, {}), rest)


def redacted(value: Any, under: str = "") -> Any:
    """A copy without kubectl's own copy, without values of environment variables, and without
    arguments that are named like credentials.

    A digest takes the place of each value, so that a difference still shows; the same is done to
    the compiled object before the two are compared. Redacting twice changes nothing.
    """
    if isinstance(value, Mapping):
        return {
            key: digest(entry)
            if key == "value" and under == "env" and isinstance(entry, str)
            else redacted(entry, str(key))
            for key, entry in value.items()
            if key != _LAST_APPLIED
        }
    if isinstance(value, list):
        if under in ("args", "command"):
            return _arguments(value)
        return [redacted(entry, under) for entry in value]
    return value


def _arguments(values: list[Any]) -> list[Any]:
    """A command line: ``--api-key=…`` and what follows a bare ``--api-key`` become digests."""
    out: list[Any] = []
    secret_next = False
    for value in values:
        text = value if isinstance(value, str) else ""
        name, equals, rest = text.partition("=")
        telling = bool(_CREDENTIAL.search(name)) and " " not in name
        if telling and equals:
            out.append(f"{name}={digest(rest)}")
        else:
            out.append(digest(value) if secret_next and text else value)
        secret_next = telling and not equals and name.startswith("-")
    return out


def digest(text: str) -> str:
    """What stands for a value that is not shown."""
    if not text or text.startswith(_DIGEST):
        return text
    return f"{_DIGEST}{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def dump(snapshot: Snapshot) -> str:
    """The snapshot as JSON, an object a line."""
    head = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "context": snapshot.context,
        "taken": snapshot.taken.isoformat(),
        "version": snapshot.version,
        "served": snapshot.served,
        "kinds": snapshot.kinds,
        "unread": [
            {"key": u.key, "title": u.title, "reason": u.reason, "message": u.message}
            for u in snapshot.unread
        ],
    }
    text = json.dumps(head, indent=1, sort_keys=True)[:-2] + ',\n "objects": {'
    for number, (key, items) in enumerate(sorted(snapshot.objects.items())):
        lines = ",\n".join(f"   {json.dumps(item, sort_keys=True)}" for item in items)
        text += ("," if number else "") + f"\n  {json.dumps(key)}: [\n{lines}\n  ]"
    return text + "\n }\n}\n"


def load(path: Path) -> Snapshot:
    """Read a saved snapshot.

    Raises:
        SnapshotError: it is none.
        OSError: the file cannot be read.
    """
    try:
        value = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise SnapshotError(f"{path}: no JSON: {error}") from None
    if not isinstance(value, dict) or value.get("kind") != KIND:
        raise SnapshotError(f"{path}: expected what stowplan doctor --save wrote ({KIND})")
    if value.get("apiVersion") != API_VERSION:
        raise SnapshotError(
            f"{path}: a snapshot of {value.get('apiVersion')}, expected {API_VERSION}"
        )
    return _from_value(value, path)


def _from_value(value: dict[str, Any], path: Path) -> Snapshot:
    try:
        snapshot = Snapshot(
            str(value["context"]),
            datetime.fromisoformat(value["taken"]),
            str(value["version"]),
            dict(value["served"]),
            dict(value["kinds"]),
            {str(key): list(items) for key, items in value["objects"].items()},
            [Unread(**entry) for entry in value["unread"]],
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SnapshotError(f"{path}: a damaged snapshot ({error!r})") from None
    for key, items in snapshot.objects.items():
        if not all(isinstance(dig(item, "metadata"), dict) for item in items):
            raise SnapshotError(f"{path}: a damaged snapshot: objects.{key} holds no objects")
    if snapshot.taken.tzinfo is None:
        raise SnapshotError(f"{path}: a damaged snapshot: taken has no time zone")
    return snapshot
