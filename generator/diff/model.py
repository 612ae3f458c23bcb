"""The words of a diff: verbs, impact classes, resources, field changes, and the report."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from generator.findings import Finding
from generator.visible import visible


class Verb(StrEnum):
    """What happens to a resource."""

    ADD = "add"
    CHANGE = "change"
    REPLACE = "replace"
    DELETE = "delete"
    MOVE = "move"


SIGNS = {
    Verb.ADD: "+",
    Verb.CHANGE: "~",
    Verb.REPLACE: "±",
    Verb.DELETE: "-",
    Verb.MOVE: ">",
}
PAST = {
    Verb.ADD: "added",
    Verb.CHANGE: "changed",
    Verb.REPLACE: "replaced",
    Verb.DELETE: "deleted",
    Verb.MOVE: "moved",
}


class Impact(StrEnum):
    """What a change does to a running cluster, gravest first."""

    BLOCKED = "blocked"
    DATA_LOSS = "data-loss"
    RAMDISK_LOSS = "ramdisk-loss"
    RESTART = "restart"
    UNKNOWN = "unknown"
    REQUEUE = "requeue"
    LIVE = "live"
    COSMETIC = "cosmetic"
    NONE = "none"


IMPACT_RANK = {impact: rank for rank, impact in enumerate(Impact)}
"""0 is the gravest."""

MEANING = {
    Impact.BLOCKED: "it would not take effect: the API refuses it or the controller ignores it",
    Impact.DATA_LOSS: "stored data is deleted or no longer found",
    Impact.RAMDISK_LOSS: "the RAM disks of the nodes are emptied; a restore reads the backup",
    Impact.RESTART: "a running job stops",
    Impact.UNKNOWN: "no rule covers this field or kind; read it",
    Impact.REQUEUE: "waiting workloads are sorted or admitted anew; what runs goes on",
    Impact.LIVE: "controllers take it over while everything runs",
    Impact.COSMETIC: "labels, annotations and descriptions that nothing acts on",
    Impact.NONE: "nothing in the cluster changes",
}


QUIET = (Impact.COSMETIC, Impact.NONE)
"""Classes of which nothing in a cluster takes notice."""


def gravest(impacts: list[Impact]) -> Impact:
    """Return the gravest of the given classes, ``none`` for an empty list."""
    return min(impacts, key=IMPACT_RANK.__getitem__, default=Impact.NONE)


class Item(NamedTuple):
    """An entry of a list in a path: its key where the list has one, else its place.

    Attributes:
        key: the value of the list's key fields, or the entry's index as text.
        old: its index in the base's list, None where it was not there.
        new: its index in the head's list, None where it is gone.
    """

    key: str
    old: int | None
    new: int | None


Path = tuple[str | Item, ...]


class _Missing:
    """The value on a side where there is none; distinct from an explicit null."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Any = _Missing()


def plain_path(path: Path) -> tuple[str, ...]:
    """Drop the list entries of a path: what the tables of rules are written in."""
    return tuple(part for part in path if isinstance(part, str))


def show_path(path: Path) -> str:
    """Write a path for people: ``spec.resourceGroups[google.com/tpu].flavors[v6e].nominalQuota``.

    A map key with a dot or slash stands in brackets, as a list key does.
    """
    text = ""
    for part in path:
        if isinstance(part, Item):
            text += f"[{visible(part.key)}]"
        elif part and all(c.isalnum() or c in "_-" for c in part):
            text += f".{part}" if text else part
        else:
            text += f"[{visible(part)}]"
    return text


def pointer(path: Path, side: str) -> str | None:
    """Write a path as a JSON pointer (RFC 6901) into the ``old`` or ``new`` object.

    None where that side has no such place.
    """
    text = ""
    for part in path:
        token = part if isinstance(part, str) else getattr(part, side)
        if token is None:
            return None
        text += "/" + str(token).replace("~", "~0").replace("/", "~1")
    return text


class Resource(NamedTuple):
    """A resource's identity.

    Attributes:
        cluster: the first folder under the tree, empty for a file at its top.
        group: API group, empty for the core group.
        kind: ``File`` for what is no Kubernetes object.
        namespace: empty for a cluster-scoped one.
        name: the object's name, or the file's path inside the cluster's folder where it has none.
    """

    cluster: str
    group: str
    kind: str
    namespace: str
    name: str

    @property
    def title(self) -> str:
        """``JobSet team-a/llama``; the cluster is shown apart."""
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else self.short

    @property
    def short(self) -> str:
        """``JobSet llama``."""
        return f"{self.kind} {self.name}"

    @property
    def full_name(self) -> str:
        """``team-a/llama`` or ``llama``."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True)
class ImmutableRule:
    """Why a field cannot be changed in place.

    Attributes:
        rule: what refuses the change.
        remedy: what to do instead.
        source: the document or upstream file that says so.
    """

    rule: str
    remedy: str
    source: str


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One field's change.

    Attributes:
        path: where; list entries by key.
        op: ``add``, ``remove``, ``change`` or ``order`` (the same entries in another order).
        old: the base's value, :data:`MISSING` where there is none.
        new: the head's value, :data:`MISSING` where there is none.
        depth: how many parts of the path exist on both sides; smaller than ``len(path) - 1`` where
            a whole block came or went.
        impact: what it does.
        why: the rule's sentence.
        source: where the rule stands.
        immutable: the rule that forbids the change in place, if one does.
        follows: it only carries the resource's new name along.
    """

    path: Path
    op: str
    old: Any
    new: Any
    depth: int = 0
    impact: Impact = Impact.UNKNOWN
    why: str = ""
    source: str = ""
    immutable: ImmutableRule | None = None
    follows: bool = False

    @property
    def sides(self) -> tuple[Any, Any]:
        """Old and new for people: of ``steps=300`` under ``args[steps]`` only the ``300``."""
        last = self.path[-1] if self.path else ""
        if self.op != "change" or not isinstance(last, Item):
            return self.old, self.new
        name = f"{last.key}="
        if any(not isinstance(v, str) or not v.startswith(name) for v in (self.old, self.new)):
            return self.old, self.new
        return self.old.removeprefix(name), self.new.removeprefix(name)


@dataclass(frozen=True, slots=True)
class Derived:
    """A number that a reviewer would compute by hand.

    Attributes:
        name: stable id, such as ``ramdisk-ratio``.
        path: the field beside which it is shown, empty for the whole resource.
        text: one line for people.
        old: the number before, None where there is none.
        new: the number after, None where there is none.
        unit: what is counted.
        exceeded: the number after is beyond what there is, or short of what is needed.
    """

    name: str
    path: str
    text: str
    old: float | None = None
    new: float | None = None
    unit: str = ""
    exceeded: bool = False


@dataclass(frozen=True, slots=True)
class Change:
    """What happens to one resource.

    Attributes:
        verb: add, change, replace, delete, move.
        resource: the identity after the change; the one before it for a deletion.
        previous: the identity before, where it differs.
        old_file: path in the base tree, empty for an addition.
        new_file: path in the head tree, empty for a deletion.
        fields: what changed, in the order of the object.
        impact: the gravest of the verb's and the fields'.
        why: the sentences of the rules that give that impact.
        source: where the verb's rule stands; empty where only fields count.
        derived: numbers beside the raw ones.
        old_body: the base's object.
        new_body: the head's object.
        nodes: nodes touched (pods, for a JobSet), None where unknown.
        chips: accelerator chips of the nodes or jobs touched, None where unknown.
        pools: name, nodes and chips of each node pool touched, so that sums count each once.
    """

    verb: Verb
    resource: Resource
    previous: Resource | None
    old_file: str
    new_file: str
    fields: tuple[FieldChange, ...]
    impact: Impact
    why: tuple[str, ...]
    source: str = ""
    derived: tuple[Derived, ...] = ()
    old_body: Any = MISSING
    new_body: Any = MISSING
    nodes: int | None = None
    chips: int | None = None
    pools: tuple[tuple[str, int, int], ...] = ()

    @property
    def id(self) -> str:
        """Stable id, also the anchor in the HTML page."""
        part = self.resource
        return "/".join((part.cluster, part.group, part.kind, part.namespace, part.name))


@dataclass(frozen=True, slots=True)
class Group:
    """Changes that are the same but for their place.

    Attributes:
        changes: the members, in stable order; the first is shown in full.
        varies: the members share verb, kind and fields, but not the values.
        whole_cluster: every resource of a cluster that came or went as a whole.
    """

    changes: tuple[Change, ...]
    varies: bool = False
    whole_cluster: bool = False

    @property
    def first(self) -> Change:
        """The one to show."""
        return self.changes[0]

    @property
    def impact(self) -> Impact:
        """The gravest impact of the members."""
        return gravest([change.impact for change in self.changes])

    @property
    def clusters(self) -> tuple[str, ...]:
        """The clusters concerned, each once, in order."""
        return tuple(dict.fromkeys(change.resource.cluster for change in self.changes))


@dataclass(frozen=True, slots=True)
class Report:
    """The whole difference of two trees.

    Attributes:
        base: how the base is shown, such as ``origin/main@4f2c1e9``.
        head: how the head is shown.
        groups: gravest first, then cluster, kind, name.
        unchanged: resources that are the same on both sides.
        respelled: files that differ only in comments, order or spelling.
        documents: files for people that changed (``README.md``); shown by number only.
        clusters: cluster folders on either side.
        findings: what could not be read or looks half-written; never an error of the head, which
            stops the diff.
        headlines: what a reviewer must not miss, as sentences with their impact.
    """

    base: str
    head: str
    groups: tuple[Group, ...]
    unchanged: int
    respelled: int
    documents: int
    clusters: int
    findings: tuple[Finding, ...] = ()
    headlines: tuple[tuple[Impact, str], ...] = ()
    verbs: Counter[Verb] = field(default_factory=Counter)
    impacts: Counter[Impact] = field(default_factory=Counter)

    @property
    def changes(self) -> tuple[Change, ...]:
        """Every change, in the order of the groups."""
        return tuple(change for group in self.groups for change in group.changes)
