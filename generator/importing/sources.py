"""The objects that are imported, where each value was read, and what is said about them."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import yaml

from generator.checks.reading import FACTS_GROUP, FACTS_KIND, read_groups
from generator.checks.subject import Subject
from generator.findings import Finding, Location, Severity
from generator.yaml_load import YamlError, iter_nodes, locate

ValuePath = tuple[str | int, ...]


class Places:
    """Looks up where a value stands; each text is parsed once for it."""

    def __init__(self) -> None:
        self._roots: dict[int, list[yaml.Node | None]] = {}

    def find(self, subject: Subject, path: ValuePath = ()) -> Location:
        """The place of a value, or of its nearest parent that exists."""
        document = subject.document
        if document is None:
            return Location(subject.file)
        roots = self._roots.get(id(document.text))
        if roots is None:
            try:
                roots = list(iter_nodes(document.text, document.file))
            except YamlError:
                roots = []
            self._roots[id(document.text)] = roots
        if document.index >= len(roots):
            return Location(document.file)
        root = roots[document.index]
        key, value, depth = locate(root, (*subject.base, *path))
        # A key tells more than a mapping's first line, which is the line below it.
        node = (key if depth else None) or value or root
        if node is None:
            return Location(document.file)
        return Location(document.file, node.start_mark.line + 1, node.start_mark.column + 1)


@dataclass
class Source:
    """One object on its way into the inventory.

    Attributes:
        body: its values; cleaned and corrected in place.
        subject: the object as it was read, for names and places.
        entry: the inventory entry that makes it, such as ``("workloads", "llama")``; empty where
            kind and name are enough to know it again.
    """

    body: dict[str, Any]
    subject: Subject
    entry: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """The object's kind."""
        return str(self.body.get("kind", ""))

    @property
    def group(self) -> str:
        """The object's API group, empty for the core group."""
        return str(self.body.get("apiVersion", "")).rpartition("/")[0]

    @property
    def metadata(self) -> dict[str, Any]:
        """The object's metadata."""
        return mapping(self.body.setdefault("metadata", {}))

    @property
    def name(self) -> str:
        """The object's name."""
        return str(self.metadata.get("name", ""))

    @property
    def namespace(self) -> str:
        """The object's namespace, empty where none is written."""
        return str(self.metadata.get("namespace") or "")

    @property
    def spec(self) -> dict[str, Any]:
        """The object's spec."""
        return mapping(self.body.setdefault("spec", {}))

    @property
    def annotations(self) -> dict[str, Any]:
        """The object's annotations."""
        return mapping(self.metadata.get("annotations"))

    @property
    def labels(self) -> dict[str, Any]:
        """The object's labels."""
        return mapping(self.metadata.get("labels"))

    @property
    def resource(self) -> str:
        """How findings name it."""
        name = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {name}"

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """Group, kind, namespace and name: what makes it the same object in any file."""
        return self.group, self.kind, self.namespace, self.name


def mapping(value: Any) -> dict[str, Any]:
    """A value if it is a mapping, else an empty one."""
    return value if isinstance(value, dict) else {}


def entries(value: Any) -> list[dict[str, Any]]:
    """The mappings of a list; none for anything else."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def texts(value: Any) -> list[str]:
    """The texts of a list; none for anything else."""
    return [str(entry) for entry in value] if isinstance(value, list) else []


@dataclass
class Log:
    """What the import has to say, with places.

    Attributes:
        cluster: the cluster's name.
        findings: in the order in which they came up.
    """

    cluster: str
    findings: list[Finding] = field(default_factory=list)
    places: Places = field(default_factory=Places)

    def add(
        self,
        rule: str,
        severity: Severity,
        message: str,
        fix: str = "",
        source: Source | None = None,
        path: ValuePath = (),
    ) -> None:
        """Say something of an object, or of the import as a whole."""
        self.findings.append(
            Finding(
                rule,
                severity,
                f"{source.resource}: {message}" if source else message,
                fix,
                resource=source.resource if source else "",
                path=path,
                manifest=self.places.find(source.subject, path) if source else None,
            )
        )

    def dropped(
        self,
        source: Source,
        message: str,
        fix: str = "",
        path: ValuePath = (),
        *,
        loud: bool = False,
    ) -> None:
        """Say that something is not taken over, and why."""
        severity = Severity.WARNING if loud else Severity.NOTE
        self.add("IMP001", severity, message, fix, source, path)

    def corrected(self, source: Source, message: str, fix: str = "", path: ValuePath = ()) -> None:
        """Say that something was wrong and is written in its right form."""
        self.add("IMP002", Severity.WARNING, message, fix, source, path)

    def derived(
        self, message: str, fix: str = "", source: Source | None = None, path: ValuePath = ()
    ) -> None:
        """Say from what a value that stands nowhere was worked out."""
        self.add("IMP003", Severity.NOTE, message, fix, source, path)

    def missing(
        self, message: str, fix: str, source: Source | None = None, path: ValuePath = ()
    ) -> None:
        """Say what has to be given before anything can be written."""
        self.add("IMP004", Severity.ERROR, message, fix, source, path)

    def renamed(self, source: Source, message: str, fix: str = "") -> None:
        """Say that a name is another one in what compile writes."""
        self.add("IMP005", Severity.NOTE, message, fix, source)

    @property
    def failed(self) -> bool:
        """Whether anything keeps the import from being written."""
        return any(finding.severity is Severity.ERROR for finding in self.findings)


@dataclass
class Reading:
    """What the files hold.

    Attributes:
        sources: the objects, facts left out.
        facts: the cluster's ``cluster.yaml``, empty without one.
        files: how many files were read.
    """

    sources: list[Source]
    facts: dict[str, Any]
    files: int


def read(paths: Sequence[str], log: Log) -> Reading:
    """Read every object below the paths; layouts that had to be mended are said.

    Raises:
        NothingToReadError: a path does not exist, or nothing is there to read.
    """
    groups = read_groups(paths)
    with_facts = [group for group in groups if group.facts is not None]
    if len(with_facts) > 1:
        names = ", ".join(group.cluster for group in with_facts)
        log.missing(f"the files are of several clusters: {names}", "import one cluster at a time")
    sources: list[Source] = []
    for group in groups:
        log.findings += [_mended(finding) for finding in group.findings]
        sources += [
            Source(copy.deepcopy(dict(subject.body)), subject) for subject in group.subjects
        ]
    facts = dict(with_facts[0].facts or {}) if with_facts else {}
    return Reading(
        [source for source in sources if not _is_facts(source)],
        facts,
        sum(group.files for group in groups),
    )


def _is_facts(source: Source) -> bool:
    return source.kind == FACTS_KIND and source.group == FACTS_GROUP.rstrip("/")


def _mended(finding: Finding) -> Finding:
    """A fault of the layout that reading got over is a correction, not an error."""
    if finding.rule not in {"YML002", "YML003"}:
        return finding
    return replace(finding, severity=Severity.WARNING)


def by_kind(sources: Sequence[Source], kind: str) -> Iterator[Source]:
    """The objects of one kind."""
    return (source for source in sources if source.kind == kind)
