"""From two trees to a report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from generator.diff.cluster_facts import Side
from generator.diff.compare import compare
from generator.diff.conditions import Case
from generator.diff.derived import NEEDS, derive
from generator.diff.grouping import group_changes
from generator.diff.headlines import headlines
from generator.diff.impact import field_impact, whole_impact
from generator.diff.match import Pair, match
from generator.diff.model import (
    MISSING,
    QUIET,
    Change,
    FieldChange,
    Impact,
    Report,
    Resource,
    Verb,
    gravest,
    plain_path,
)
from generator.diff.resources import DOCUMENTS, FILE_KIND, Loaded, Parser, cluster_of
from generator.diff.tree import Tree
from generator.findings import Finding, Location, Severity

_UNREADABLE = "the base's file cannot be read, so nothing is known about the change"
_OWN_NAME = (("metadata", "name"), ("metadata", "namespace"))


class UnreadableHeadError(Exception):
    """The head holds files that cannot be compared; carries every finding."""

    def __init__(self, findings: list[Finding]) -> None:
        super().__init__(f"{len(findings)} files of the head cannot be compared")
        self.findings = findings


def build_report(base: Tree, head: Tree) -> Report:
    """Compare two trees.

    Raises:
        UnreadableHeadError: files of the head that changed cannot be read or parsed; a report
            without them would hide changes.
    """
    return _Builder(base, head).report()


class _Builder:
    """One comparison."""

    def __init__(self, base: Tree, head: Tree) -> None:
        self._base, self._head = base, head
        parser = Parser()
        self._old, self._new = Side(base, parser), Side(head, parser)
        self._findings: list[Finding] = []
        self._compared: dict[tuple[Any, ...], list[FieldChange]] = {}
        self._respelled = 0

    def report(self) -> Report:
        """Do it."""
        changed = [
            path
            for path in self._base.files.keys() | self._head.files.keys()
            if self._base.files.get(path) != self._head.files.get(path)
        ]
        documents = {path for path in changed if path.lower().endswith(DOCUMENTS)}
        paths = sorted(set(changed) - documents)
        new = self._load_head(paths)
        old = self._load_base(paths, new)
        lone = self._lone_clusters()
        pairs = match(old, new, lone)
        self._preload(pairs)
        renames = _renames(pairs)
        changes = [change for pair in pairs if (change := self._change(pair, renames))]
        groups = group_changes(changes, lone)
        ordered = [change for group in groups for change in group.changes]
        self._look_for_half_written()
        everything = self._base.files.keys() | self._head.files.keys()
        unchanged = sum(
            not path.lower().endswith(DOCUMENTS)
            for path, content in self._head.files.items()
            if self._base.files.get(path) == content
        )
        return Report(
            base=self._base.label,
            head=self._head.label,
            groups=groups,
            unchanged=unchanged + self._respelled,
            respelled=self._respelled,
            documents=len(documents),
            clusters=_count_clusters(everything),
            findings=tuple(self._findings),
            headlines=headlines(ordered, lone),
            verbs=Counter(change.verb for change in ordered),
            impacts=Counter(change.impact for change in ordered),
        )

    def _load_head(self, paths: list[str]) -> list[Loaded]:
        loaded = self._new.load(path for path in paths if path in self._head.files)
        faults = [item for item in loaded.values() if isinstance(item, Finding)]
        faults += [item for item in self._head.skipped if item.severity is Severity.ERROR]
        self._findings += [i for i in self._head.skipped if i.severity is not Severity.ERROR]
        if faults:
            raise UnreadableHeadError(sorted(faults, key=lambda finding: finding.sort_key))
        resources = [item for items in loaded.values() if isinstance(items, list) for item in items]
        self._look_for_twins(resources)
        return resources

    def _load_base(self, paths: list[str], new: list[Loaded]) -> list[Loaded]:
        """Load the base; a file that is no YAML there must not block the change that mends it."""
        heads: dict[str, list[Loaded]] = {}
        for item in new:
            heads.setdefault(item.file, []).append(item)
        resources: list[Loaded] = []
        loaded = self._old.load(path for path in paths if path in self._base.files)
        for path, items in loaded.items():
            if isinstance(items, list):
                resources += items
                continue
            self._findings.append(
                replace(items, severity=Severity.WARNING, message=f"base: {items.message}")
            )
            cluster = cluster_of(path)
            own = path[len(cluster) + 1 :] if cluster else path
            stand_ins = [i.resource for i in heads.get(path, [])] or [
                Resource(cluster, "", FILE_KIND, "", own)
            ]
            resources += [Loaded(resource, path, MISSING) for resource in stand_ins]
        return resources

    def _preload(self, pairs: list[Pair]) -> None:
        wanted = {
            (item.resource.cluster, NEEDS[item.resource.kind])
            for pair in pairs
            for item in (pair.old, pair.new)
            if item is not None and item.resource.kind in NEEDS
        }
        self._old.preload(sorted(wanted))
        self._new.preload(sorted(wanted))

    def _lone_clusters(self) -> dict[str, Verb]:
        """Clusters that only one side has."""
        old = {cluster_of(path) for path in self._base.files}
        new = {cluster_of(path) for path in self._head.files}
        if not old - {""} or not new - {""}:
            return {}
        found = dict.fromkeys(new - old, Verb.ADD)
        return {**found, **dict.fromkeys(old - new, Verb.DELETE)}

    def _change(self, pair: Pair, renames: dict[str, dict[str, str]]) -> Change | None:
        shown = pair.new or pair.old
        if shown is None:
            return None
        resource = shown.resource
        verb = Verb.MOVE if _moved_file(pair) else pair.verb
        fields, impact, whys, source = self._effects(pair, shown, renames)
        if verb is Verb.CHANGE and not fields and impact is Impact.NONE:
            self._respelled += 1
            return None
        previous = pair.old.resource if pair.old and pair.old.resource != resource else None
        numbers = derive(verb, pair.old, pair.new, self._old, self._new)
        return Change(
            verb=verb,
            resource=resource,
            previous=previous,
            old_file=pair.old.file if pair.old else "",
            new_file=pair.new.file if pair.new else "",
            fields=tuple(fields),
            impact=impact,
            why=whys,
            source=source,
            derived=numbers.lines,
            old_body=pair.old.body if pair.old else MISSING,
            new_body=pair.new.body if pair.new else MISSING,
            nodes=numbers.nodes,
            chips=numbers.chips,
            pools=tuple((pool.name, pool.nodes, pool.chips) for pool in numbers.pools),
        )

    def _effects(
        self, pair: Pair, shown: Loaded, renames: dict[str, dict[str, str]]
    ) -> tuple[list[FieldChange], Impact, tuple[str, ...], str]:
        """Return fields, class, reasons and source."""
        group, kind = shown.resource.group, shown.resource.kind
        if pair.old is not None and pair.old.body is MISSING:
            return [], Impact.UNKNOWN, (_UNREADABLE,), ""
        old_body = pair.old.body if pair.old else MISSING
        new_body = pair.new.body if pair.new else MISSING
        versions = self._versions(shown) if kind == "ResourceFlavor" else {}
        whole_case = Case(None, old_body, new_body, versions, shown.resource.name)
        whole, why, source = Impact.NONE, "", ""
        if pair.verb is not Verb.CHANGE:
            whole, why, source = whole_impact(group, kind, pair.verb, whole_case)
        elif _moved_file(pair):
            whole, why, source = _file_move_impact(pair, group, kind, whole_case)
        if pair.old is None or pair.new is None:
            return [], whole, (why,), source
        fields = [
            field_impact(group, kind, pair.verb, replace(whole_case, change=change), whole)
            for change in self._compare(pair.old, pair.new)
            if pair.verb is Verb.CHANGE or plain_path(change.path) not in _OWN_NAME
        ]
        fields = [
            _follow(change, pair.verb, renames.get(shown.resource.cluster, {})) for change in fields
        ]
        impact = gravest([whole, *(change.impact for change in fields)])
        whys = dict.fromkeys([why] if why and whole is impact else [])
        whys.update(dict.fromkeys(f.why for f in fields if f.impact is impact and not f.follows))
        if why:
            whys.setdefault(why)
        return fields, impact, tuple(sentence for sentence in whys if sentence), source

    def _versions(self, shown: Loaded) -> dict[str, str]:
        return self._new.facts(shown.resource.cluster).versions

    def _compare(self, old: Loaded, new: Loaded) -> list[FieldChange]:
        """Compare two objects; equal pairs of contents only once."""
        # Parsed values live as long as the parser, so their identities do not repeat.
        key = (id(old.body), id(new.body), new.resource.group, new.resource.kind)
        known = self._compared.get(key)
        if known is None:
            known = self._compared[key] = compare(old.body, new.body, *key[2:])
        return known

    def _look_for_twins(self, resources: list[Loaded]) -> None:
        """Warn of one object in two files: the last one applied would win."""
        first: dict[Resource, Loaded] = {}
        for item in resources:
            other = first.setdefault(item.resource, item)
            if other is not item:
                self._findings.append(
                    Finding(
                        "DIF003",
                        Severity.WARNING,
                        f"{item.resource.title} is also in {other.file}; the one applied last wins",
                        "keep one of the two",
                        cluster=item.resource.cluster,
                        manifest=Location(item.file),
                    )
                )

    def _look_for_half_written(self) -> None:
        """Warn of a cluster that had its facts and lost them but not its manifests."""
        present = {cluster_of(path) for path in self._head.files}
        for path in self._base.files:
            cluster, _, name = path.partition("/")
            if name == "cluster.yaml" and path not in self._head.files and cluster in present:
                self._findings.append(
                    Finding(
                        "DIF004",
                        Severity.WARNING,
                        "the head's folder has manifests but no cluster.yaml; it looks "
                        "half-written, and numbers that need it are left out",
                        "compile again",
                        cluster=cluster,
                        manifest=Location(path),
                    )
                )


def _count_clusters(paths: Iterable[str]) -> int:
    """Count the folders with facts; in a tree that has none, all of them."""
    every = list(paths)
    known = {cluster for path in every if path == f"{(cluster := cluster_of(path))}/cluster.yaml"}
    return len(known or {cluster for path in every if (cluster := cluster_of(path))})


def _layer(path: str) -> str:
    return path.rpartition("/")[0]


def _moved_file(pair: Pair) -> bool:
    """Whether the same object lies in another file."""
    return (
        pair.verb is Verb.CHANGE
        and pair.old is not None
        and pair.new is not None
        and pair.old.file != pair.new.file
    )


def _file_move_impact(pair: Pair, group: str, kind: str, case: Case) -> tuple[Impact, str, str]:
    """Judge an object that moved to another file under the same identity.

    Each folder is an Argo CD Application of its own, so another folder means that one Application
    prunes the object, perhaps before the other applies it.
    """
    if pair.old and pair.new and _layer(pair.old.file) == _layer(pair.new.file):
        return Impact.NONE, "only the file's name changed", ""
    impact, why, source = whole_impact(group, kind, Verb.DELETE, case)
    note = "another folder is another Argo CD Application: the old one prunes the object"
    return impact, f"{note}; {why}", source


def _renames(pairs: list[Pair]) -> dict[str, dict[str, str]]:
    """Return, per cluster, the names that were replaced by others."""
    found: dict[str, dict[str, str]] = {}
    for pair in pairs:
        if pair.old is None or pair.new is None:
            continue
        was, now = pair.old.resource, pair.new.resource
        if was.name != now.name and was.kind != FILE_KIND:
            found.setdefault(now.cluster, {})[was.name] = now.name
    return found


def _follow(change: FieldChange, verb: Verb, renames: dict[str, str]) -> FieldChange:
    """Mark a field that only carries a new name along, unless a rule gives that a weight.

    What is recreated carries new names as a matter of course; in place, a new name in a field has
    an effect of its own.
    """
    old, new = change.old, change.new
    if change.impact is Impact.DATA_LOSS or (verb is Verb.CHANGE and change.impact not in QUIET):
        return change
    if not renames or not isinstance(old, str) or not isinstance(new, str):
        return change
    for was, now in renames.items():
        if was in old and old.replace(was, now) == new:
            return replace(change, follows=True)
    return change
