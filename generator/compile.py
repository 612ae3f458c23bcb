"""Compile the fleet: render, check and write, many clusters at a time.

``compiled/`` changes only when what is to be written is good. Files are first written beside it
(``compiled/.stowplan-*``), then moved into place cluster by cluster; an error, a full disk or an
interrupt before that leaves the tree as it was.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from generator.build import argocd
from generator.build.argocd import disagreements, fleet_files
from generator.findings import Finding, Location, Severity
from generator.fleet import Fleet
from generator.gitops import Member
from generator.inventory import (
    Classes,
    InventoryError,
    Rendered,
    Renderer,
    Tree,
    discover,
    lint_text,
    outline,
)
from generator.inventory import yaml_finding as as_finding
from generator.output import Output, Staged
from generator.render import ClusterFiles, diagnose, render_cluster, resolve
from generator.state import State
from generator.yaml_load import YamlError, read_text

Progress = Callable[[int, int], None]
_WORTH_A_WORKER = 8
"""Clusters for which another process pays."""


@dataclass(frozen=True)
class Options:
    """What to compile and how.

    Attributes:
        root: the folder that holds ``inventory/`` and ``compiled/``.
        targets: globs of cluster names, empty for all.
        jobs: worker processes; 0 for one a core.
        shard: (index from 1, count): compile only this part of the clusters.
        check: write nothing, report what is stale.
        keep_going: write good clusters although others have errors.
        cache: use and keep ``.stowplan/``, which remembers what was built from what.
    """

    root: Path
    targets: tuple[str, ...] = ()
    jobs: int = 0
    shard: tuple[int, int] = (1, 1)
    check: bool = False
    keep_going: bool = False
    cache: bool = True


@dataclass
class Outcome:
    """What a run did.

    Attributes:
        clusters: how many were asked for.
        built: how many were rendered; the others were as they should be.
        written: files written, relative to the root.
        removed: files removed because nothing makes them any more.
        stale: for ``--check``, files that differ from what the inventory makes.
        foreign: files in ``compiled/`` that stowplan did not write; they are kept.
        findings: everything that was found, sorted.
        failed: clusters with errors.
    """

    clusters: int = 0
    built: int = 0
    written: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    @property
    def has_errors(self) -> bool:
        """Whether anything found is an error."""
        return any(finding.severity is Severity.ERROR for finding in self.findings)


class Builder:
    """Renders and builds single clusters; one per process."""

    def __init__(self, tree: Tree, classes: Classes) -> None:
        self._tree = tree
        self._classes = classes
        self._renderer: Renderer | None = None

    def render(self, name: str) -> Rendered | list[Finding]:
        """Render one target's parameters, or say why they do not render.

        An empty list means that its classes are at fault, whose findings say so already.
        """
        path = self._tree.targets[name]
        shown = self._tree.shown(path)
        try:
            text = read_text(path, shown)
            found = lint_text(text, shown)
            if not found and self._classes.faulty and self._uses_faulty(name, text, shown):
                return []
        except YamlError as error:
            return [as_finding(error, name)]
        if found:
            return [replace(finding, cluster=name) for finding in found]
        if self._renderer is None:
            self._renderer = Renderer(self._tree)
        try:
            return self._renderer.render(name)
        except ValueError as error:
            return diagnose(self._tree, self._classes, name, str(error))

    def _uses_faulty(self, name: str, text: str, shown: str) -> bool:
        """Whether classes of a target have faults of their own, which are reported with them.

        Such a target is not rendered: a loop of classes would overflow reclass-rs' stack.
        """
        used = [used for used, _ in outline(text, shown, name, self._tree.targets[name])]
        return not self._classes.faulty.isdisjoint(self._classes.closure(used))

    def build(self, name: str) -> ClusterFiles:
        """Render, check and emit one target."""
        rendered = self.render(name)
        if isinstance(rendered, list):
            return ClusterFiles(name, findings=rendered)
        return render_cluster(self._tree, self._classes, rendered)


def fleets(tree: Tree, names: list[str]) -> Iterator[tuple[str, Fleet | None, list[Finding]]]:
    """Resolve clusters without building them; None with findings where one does not resolve."""
    classes = Classes.read(tree)
    builder = Builder(tree, classes)
    for name in names:
        rendered = builder.render(name)
        if isinstance(rendered, list):
            yield name, None, classes.findings + rendered
        else:
            fleet, findings = resolve(tree, rendered)
            yield name, fleet, classes.findings + findings


def select(tree: Tree, options: Options) -> list[str]:
    """The clusters that a run is about, sorted.

    Raises:
        InventoryError: a pattern matches no cluster.
    """
    names = sorted(tree.targets)
    if options.targets:
        unmatched = [p for p in options.targets if not fnmatch.filter(names, p)]
        if unmatched:
            raise InventoryError(
                [
                    Finding(
                        "INV001",
                        Severity.ERROR,
                        f"no cluster matches {pattern!r}",
                        "clusters: " + ", ".join(names[:20]) + (", …" if len(names) > 20 else ""),
                        inventory=Location("inventory/targets"),
                    )
                    for pattern in unmatched
                ]
            )
        names = [n for n in names if any(fnmatch.fnmatch(n, p) for p in options.targets)]
    index, count = options.shard
    return names[index - 1 :: count]


def compile_fleet(options: Options, progress: Progress | None = None) -> Outcome:
    """Compile the clusters that the options name.

    Raises:
        InventoryError: the tree itself cannot be used.
        OutputError: ``compiled/`` cannot be written.
    """
    tree = discover(options.root)
    names = select(tree, options)
    output = Output(options.root / "compiled")
    state = State(options.root, tree, enabled=options.cache)
    todo = [name for name in names if not state.is_current(name, output)]
    outcome = Outcome(clusters=len(names), built=len(todo))
    for name in sorted(set(names) - set(todo)):
        outcome.findings += state.findings_of(name)
        outcome.foreign += [f"{name}/{path}" for path in state.foreign_of(name)]
    whole = not options.targets and options.shard == (1, 1)
    try:
        if todo:
            _build_all(tree, options, todo, output, state, outcome, progress)
        if whole and not outcome.has_errors:
            kept = [state.member_of(name) for name in sorted(set(names) - set(todo))]
            _whole_fleet(options, kept, output, outcome)
        _finish(tree, options, whole, output, state, outcome)
    finally:
        output.discard()
    outcome.findings.sort(key=lambda finding: finding.sort_key)
    return outcome


def _build_all(
    tree: Tree,
    options: Options,
    todo: list[str],
    output: Output,
    state: State,
    outcome: Outcome,
    progress: Progress | None,
) -> None:
    classes = Classes.read(tree)
    outcome.findings += classes.findings
    if not options.check:
        output.open()
    total = len(todo)
    for done, (staged, findings) in enumerate(_staged(tree, classes, todo, output, options), 1):
        outcome.findings += findings
        if staged.failed:
            outcome.failed.append(staged.cluster)
        else:
            state.remember(staged, findings)
            output.add(staged)
        if progress is not None:
            progress(done, total)


def _whole_fleet(
    options: Options, kept: list[Member | None], output: Output, outcome: Outcome
) -> None:
    """Stage what no single cluster determines; only a run over the whole fleet knows it."""
    built = [staged.member for staged in output.staged]
    members = sorted((m for m in (*kept, *built) if m is not None), key=lambda m: m.cluster)
    outcome.findings += disagreements(members)
    if outcome.has_errors:
        return
    files = fleet_files(members)
    staged = output.stage(argocd.FOLDER, files, [], may_be_empty=True)
    if staged.changed and not options.check and output.staging is None:
        output.open()
        staged = output.stage(argocd.FOLDER, files, [], may_be_empty=True)
    output.add(staged)


def _staged(
    tree: Tree, classes: Classes, todo: list[str], output: Output, options: Options
) -> Iterator[tuple[Staged, list[Finding]]]:
    """Build clusters, in this process or in workers, results in the order of ``todo``."""
    jobs = min(options.jobs or os.cpu_count() or 1, -(-len(todo) // _WORTH_A_WORKER))
    worker = _Worker(tree, classes, output)
    if jobs <= 1:
        yield from map(worker, todo)
        return
    from generator.processes import InOrder

    yield from InOrder(worker, worker.lost, jobs).results(todo)


class _Worker:
    """Builds a cluster and stages its files."""

    def __init__(self, tree: Tree, classes: Classes, output: Output) -> None:
        self._tree = tree
        self._builder = Builder(tree, classes)
        self._output = output

    def __call__(self, name: str) -> tuple[Staged, list[Finding]]:
        built = self._builder.build(name)
        inputs = list(dict.fromkeys([*built.sources, *built.libraries]))
        staged = self._output.stage(built.cluster, built.files, inputs)
        staged.member = built.member
        staged.day = built.day
        return staged, built.findings

    def lost(self, name: str, how: str) -> tuple[Staged, list[Finding]]:
        """What is said of a cluster whose building ended the process that did it."""
        finding = Finding(
            "INV095",
            Severity.ERROR,
            f"the cluster could not be built: {how}",
            "after SIGKILL, memory may have run out: give it more, or lower -j; else report this",
            cluster=name,
            inventory=Location(self._tree.shown(self._tree.targets[name])),
        )
        return Staged(name, failed=True), [finding]


def _finish(
    tree: Tree, options: Options, whole: bool, output: Output, state: State, outcome: Outcome
) -> None:
    """Move what is good into place, or say what would change."""
    blocked = outcome.has_errors
    keep = set(tree.targets) if whole else None
    outcome.foreign = sorted({*outcome.foreign, *output.foreign_files(keep)})
    if options.check:
        outcome.stale = output.stale(keep)
        return
    if blocked and not options.keep_going:
        return
    outcome.written, outcome.removed = output.commit(keep if not blocked else None)
    state.save(output)
