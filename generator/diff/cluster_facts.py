"""What a side's ``cluster.yaml`` and flavors say of hardware, read only where a change needs it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from generator.diff.conditions import dig, entries
from generator.diff.resources import Loaded, Parser
from generator.diff.tree import Tree
from generator.findings import Finding


@dataclass(frozen=True, slots=True)
class NodePool:
    """Nodes of one kind.

    Attributes:
        name: the inventory's name.
        nodes: how many.
        labels: node labels.
        resource: the accelerator's resource name, empty for a CPU pool.
        per_node: chips or GPUs on a node.
        machine_type: such as ``ct6e-standard-4t``.
    """

    name: str
    nodes: int
    labels: dict[str, str]
    resource: str
    per_node: int
    machine_type: str

    @property
    def chips(self) -> int:
        """Accelerators of the whole pool."""
        return self.nodes * self.per_node


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """A cluster as its ``cluster.yaml`` describes it; empty where there is none."""

    pools: tuple[NodePool, ...] = ()
    versions: dict[str, str] = field(default_factory=dict)

    def selected(self, labels: dict[str, Any]) -> tuple[NodePool, ...]:
        """Return the pools whose nodes carry all the labels; none for an empty selector, which
        would mean every node."""
        if not labels:
            return ()
        return tuple(
            pool
            for pool in self.pools
            if all(pool.labels.get(key) == value for key, value in labels.items())
        )


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def facts_from(body: Any) -> ClusterFacts:
    """Read the facts from the object in ``cluster.yaml``; what is missing or odd counts as none."""
    spec = dig(body, "spec")
    pools = []
    for entry in entries(spec, "nodePools"):
        if not isinstance(entry, dict):
            continue
        labels = entry.get("labels")
        machine = str(entry.get("machineType", ""))
        known = {str(k): str(v) for k, v in labels.items()} if isinstance(labels, dict) else {}
        known.setdefault("node.kubernetes.io/instance-type", machine)
        pools.append(
            NodePool(
                str(entry.get("name", "")),
                _count(entry.get("nodes")),
                known,
                str(dig(entry, "accelerator", "resource") or ""),
                _count(dig(entry, "accelerator", "perNode")),
                machine,
            )
        )
    versions = dig(spec, "versions")
    return ClusterFacts(
        tuple(pools),
        {str(k): str(v) for k, v in versions.items()} if isinstance(versions, dict) else {},
    )


class Side:
    """One tree, with its files read on demand and once."""

    def __init__(self, tree: Tree, parser: Parser) -> None:
        self._tree = tree
        self._parser = parser
        self._facts: dict[str, ClusterFacts] = {}
        self._files: dict[str, list[Loaded] | Finding] = {}
        self._names: dict[str, list[str]] | None = None

    def load(self, paths: Iterable[str]) -> dict[str, list[Loaded] | Finding]:
        """Return each file's resources, or the finding that says why not."""
        wanted = list(dict.fromkeys(paths))
        missing = [path for path in wanted if path not in self._files and path in self._tree.files]
        for path, content in self._tree.read(missing):
            self._files[path] = self._parser.load(path, content)
        return {path: self._files[path] for path in wanted if path in self._files}

    def preload(self, wanted: Iterable[tuple[str, tuple[str, ...]]]) -> None:
        """Read in one go what the numbers of many changes will ask for.

        Args:
            wanted: cluster and kinds; the kind ``Cluster`` stands for ``cluster.yaml``.
        """
        self.load(path for cluster, kinds in wanted for path in self._paths(cluster, kinds))

    def _paths(self, cluster: str, kinds: tuple[str, ...]) -> list[str]:
        """Find a cluster's files of some kinds by their names, ``<kind>-….yaml``."""
        if self._names is None:
            self._names = {}
            for path in self._tree.files:
                self._names.setdefault(path.partition("/")[0], []).append(path)
        starts = tuple(f"{kind.lower()}-" for kind in kinds if kind != "Cluster")
        found = (
            [
                path
                for path in self._names.get(cluster, [])
                if path.rpartition("/")[2].startswith(starts)
            ]
            if starts
            else []
        )
        return sorted(found) + ([f"{cluster}/cluster.yaml"] if "Cluster" in kinds else [])

    def facts(self, cluster: str) -> ClusterFacts:
        """Return a cluster's facts."""
        known = self._facts.get(cluster)
        if known is None:
            path = f"{cluster}/cluster.yaml"
            loaded = self.load([path]).get(path)
            body = loaded[0].body if isinstance(loaded, list) and loaded else None
            known = self._facts[cluster] = facts_from(body)
        return known

    def objects(self, cluster: str, kinds: tuple[str, ...]) -> list[Loaded]:
        """Return a cluster's resources of some kinds."""
        return [
            item
            for loaded in self.load(self._paths(cluster, kinds)).values()
            if isinstance(loaded, list)
            for item in loaded
            if item.resource.kind in kinds
        ]
