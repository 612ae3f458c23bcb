"""One cluster from rendered parameters to the text of its files: the road's middle, pure but for
overlays."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any

from generator.build import bootstrap, build, flux
from generator.build.controllers import component, jobset_patch
from generator.build.facts import facts
from generator.build.index import index
from generator.checks.consistency import resolve_fleet
from generator.checks.refs import unstamped
from generator.emit_yaml import dump, dump_list
from generator.findings import Finding, Location, Severity
from generator.fleet import Fleet
from generator.gitops import Member, member
from generator.inventory import Classes, Rendered, Tree, yaml_finding
from generator.manifest import HEADER, LAYERS, Manifest
from generator.problems import Problem, located
from generator.provenance import Provenance
from generator.run_names import named
from generator.validate import validate
from generator.yaml_load import YamlError, read_text


@dataclass
class ClusterFiles:
    """What one target became.

    Attributes:
        cluster: the target's name.
        files: path inside ``compiled/<cluster>/`` → text; empty if there are errors.
        findings: everything that was found.
        manifests: the objects behind the files.
        sources: inventory files that made it, relative to the tree's root.
        libraries: files that its overlays may import.
        member: what the whole fleet's objects need to know of it.
        day: the day on which its waivers were judged, empty if it has none.
        has_bootstrap: whether its ``bootstrap/`` can be written.
    """

    cluster: str
    files: dict[str, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    manifests: list[Manifest] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    libraries: list[str] = field(default_factory=list)
    member: Member | None = None
    day: str = ""
    has_bootstrap: bool = True

    @property
    def failed(self) -> bool:
        """Whether an error keeps it from being written."""
        return any(finding.severity is Severity.ERROR for finding in self.findings)


def render_cluster(tree: Tree, classes: Classes, rendered: Rendered) -> ClusterFiles:
    """Turn one target's parameters into files, or into findings that say why not."""
    result = ClusterFiles(rendered.name)
    fleet = _build_into(result, tree, rendered)
    if fleet is None or result.failed:
        return result
    cluster_facts = facts(fleet)
    texts = {manifest.path: manifest.text for manifest in result.manifests}
    result.findings += _checked(tree, rendered, cluster_facts, result.manifests, texts)
    if not result.failed:
        result.member = member(fleet, result.manifests)
        result.files = _files(tree, classes, rendered, fleet, cluster_facts, result, texts)
        for path, text in result.files.items():
            result.findings += unstamped(rendered.name, path, text)
    return result


def cluster_member(tree: Tree, rendered: Rendered) -> tuple[Member | None, list[Finding]]:
    """What the whole fleet's objects need to know of one cluster, without checks or files.

    A fraction of the work of :func:`render_cluster`, which makes the same entry.
    """
    result = ClusterFiles(rendered.name)
    fleet = _build_into(result, tree, rendered)
    if fleet is None or result.failed:
        return None, result.findings
    return member(fleet, result.manifests), result.findings


def _build_into(result: ClusterFiles, tree: Tree, rendered: Rendered) -> Fleet | None:
    """Build the objects, overlays and names included; None where nothing can be looked up."""
    result.sources = [tree.shown(path) for path in rendered.files]
    fleet, result.findings = resolve(tree, rendered)
    if fleet is None:
        return None
    unwritten = _without_bootstrap(fleet)
    result.has_bootstrap = not unwritten
    result.findings += _located(tree, rendered, unwritten)
    if fleet.spec.waivers:
        result.day = date.today().isoformat()
    manifests = build(fleet)
    for overlay in fleet.spec.overlays:
        from generator.overlays import apply

        manifests, found = apply(tree.root, overlay, facts(fleet), manifests)
        result.findings += found
        result.sources.append(f"inventory/overlays/{overlay}")
    if fleet.spec.overlays:
        folder = tree.folder / "overlays"
        result.libraries = [tree.shown(p) for p in sorted(folder.rglob("*")) if p.is_file()]
    result.manifests = [named(manifest) for manifest in manifests]
    if flux.is_used(fleet):
        result.manifests = [flux.marked(manifest) for manifest in result.manifests]
    return fleet


def _checked(
    tree: Tree,
    rendered: Rendered,
    cluster_facts: dict[str, Any],
    manifests: list[Manifest],
    texts: dict[str, str],
) -> list[Finding]:
    """What the checks say of the manifests, each finding with its section's place."""
    # Loaded here: engines must not be started before a fork.
    from generator.checks.compiled import check_manifests

    provenance: list[Provenance] = []

    def locate(section: tuple[str, ...]) -> Location:
        if not provenance:
            provenance.append(Provenance(tree, rendered.files))
        return provenance[0].find(section, key=True).where

    return check_manifests(cluster_facts, manifests, texts, locate, date.today())


def resolve(tree: Tree, rendered: Rendered) -> tuple[Fleet | None, list[Finding]]:
    """Check one target's parameters and look everything up; None where that is impossible."""
    spec, problems = validate(rendered.parameters)
    fleet: Fleet | None = None
    if spec is not None:
        fleet, problems = resolve_fleet(spec, rendered.name)
    return fleet, _located(tree, rendered, problems)


def _located(tree: Tree, rendered: Rendered, problems: list[Problem]) -> list[Finding]:
    if not problems:
        return []
    provenance = Provenance(tree, rendered.files)
    return [located(problem, rendered.name, provenance) for problem in problems]


def _without_bootstrap(fleet: Fleet) -> list[Problem]:
    """Why a cluster's ``bootstrap/`` is not written; its manifests are, so these are warnings."""
    return [
        replace(
            problem,
            message=f"{problem.message}; bootstrap/ is not written",
            severity=Severity.WARNING,
        )
        for problem in bootstrap.problems(fleet)
    ]


def _files(
    tree: Tree,
    classes: Classes,
    rendered: Rendered,
    fleet: Fleet,
    cluster_facts: dict[str, Any],
    result: ClusterFiles,
    texts: dict[str, str],
) -> dict[str, str]:
    headers: dict[str, str] = {}

    def header(*sections: str) -> str:
        text = headers.get("/".join(sections))
        if text is None:
            text = headers["/".join(sections)] = _header(tree, classes, rendered, sections)
        return text

    by_layer = sorted(result.manifests, key=lambda m: (LAYERS.index(m.layer), m.path))
    files = {m.path: header(m.section[0] if m.section else "") + texts[m.path] for m in by_layer}
    files["cluster.yaml"] = header("cluster") + dump(cluster_facts)
    files["controllers/kustomization.yaml"] = header("") + dump(component())
    files["controllers/jobset-controller-resources.yaml"] = header("") + dump_list(jobset_patch())
    commands = bootstrap.bootstrap_files(fleet) if result.has_bootstrap else {}
    for path, text in commands.items():
        files[path] = bootstrap.with_header(header(*bootstrap.SECTIONS), text)
    for path, text in flux.files(fleet, by_layer).items():
        files[path] = header("cluster", "gitops") + text
    files["README.md"] = index(
        fleet, by_layer, result.sources, [path for path in files if path.startswith("bootstrap/")]
    )
    return files


def _header(tree: Tree, classes: Classes, rendered: Rendered, sections: tuple[str, ...]) -> str:
    """What generated a file, and which inventory files say something of its sections."""
    *used, target = rendered.files
    named_files = [
        tree.shown(path)
        for path in used
        if not classes.sections.get(path, frozenset()).isdisjoint(sections)
    ]
    if "overlays" in sections:
        named_files.append("inventory/overlays")
    sources = [*named_files, tree.shown(target)]
    return f"{HEADER}; edit the inventory, not this file.\n" + "".join(
        f"# from {source}\n" for source in sources
    )


def diagnose(tree: Tree, classes: Classes, name: str, message: str) -> list[Finding]:
    """Say why a target does not render, with places that reclass itself does not give."""
    from generator.render_faults import explain

    path = tree.targets[name]
    shown = tree.shown(path)
    try:
        text = read_text(path, shown)
    except YamlError as error:
        return [yaml_finding(error, name)]
    return explain(tree, classes, name, text, message)
