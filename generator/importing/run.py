"""The import from end to end: read, clean, correct, draft, try, and give the rest to an overlay."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from generator.findings import Finding, Severity
from generator.importing.cleaning import clean, kept
from generator.importing.corrections import correct, name_generated
from generator.importing.draft import cluster, draft, option_of
from generator.importing.folding import folded
from generator.importing.options import Options, fill_placeholders
from generator.importing.overlay import Overlay
from generator.importing.readable import readable, versions_of
from generator.importing.residue import Path as ValuePath
from generator.importing.residue import compare, leaves, shown
from generator.importing.sources import Log, Reading, Source, mapping, read
from generator.importing.target_text import target_text
from generator.importing.trial import Trial, attempt, inherited
from generator.manifest import Manifest
from generator.spelling import plural

_SHOWN_ADDITIONS = 12
_CONTAINERS = (("containers",), ("initContainers",))
_AFTER_RENAME = {
    "CheckpointConfiguration": "delete the old one before the new one is applied: two drivers on "
    "one node conflict",
    "JobSet": "let the old one finish, or delete it",
}

# kind → section of the inventory that an object of it becomes an entry of.
SECTIONS: dict[str, tuple[str, ...]] = {
    "PriorityClass": ("priorities",),
    "WorkloadPriorityClass": ("priorities",),
    "Topology": ("queueing", "topologies"),
    "ResourceFlavor": ("queueing", "flavors"),
    "Cohort": ("queueing", "cohorts"),
    "AdmissionCheck": ("queueing", "admissionChecks"),
    "ClusterQueue": ("queueing", "clusterQueues"),
    "LocalQueue": ("queueing", "localQueues"),
    "Namespace": ("queueing", "namespaces"),
}


@dataclass
class Import:
    """What an import would write, and what it has to say.

    Attributes:
        files: path inside the inventory → text; empty where something is missing.
        findings: what was left out, put right, worked out, or is missing.
        objects: how many objects were taken over.
        compiled: path inside ``compiled/<cluster>/`` → text that compile makes of the files; empty
            where checks refuse it.
    """

    files: dict[str, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    objects: int = 0
    compiled: dict[str, str] = field(default_factory=dict)

    @property
    def incomplete(self) -> bool:
        """Whether nothing may be written."""
        return not self.files


def import_manifests(paths: Sequence[str], options: Options, inventory: Path) -> Import:
    """Work out the inventory files for the manifests below the paths.

    Raises:
        NothingToReadError: a path does not exist, or there is nothing to read.
    """
    result = _imported(paths, options, inventory)
    result.findings = folded(result.findings)
    return result


def _imported(paths: Sequence[str], options: Options, inventory: Path) -> Import:
    log = Log(options.cluster)
    reading = read(paths, log)
    sources, whole = _prepared(reading, options, log)
    if not sources and not log.failed:
        log.missing("no object of a training fleet is in the files", "name files that hold some")
    with tempfile.TemporaryDirectory(prefix="stowplan-import-") as folder:
        scratch = Path(folder)
        shared: dict[str, Any] = {}
        parameters: dict[str, Any] = {}
        if options.classes:
            shared, findings = inherited(scratch, inventory, options.cluster, options.classes)
            log.findings += findings
        if whole and sources:
            parameters = draft(sources, reading.facts, shared, options, log)
        else:
            # Says what else has to be given.
            cluster(reading.facts, mapping(shared.get("cluster")), options, log)
        if log.failed:
            return Import(findings=log.findings)
        head = _head(paths, reading, inventory)
        return _tried(scratch, inventory, parameters, sources, head, options, log)


def _prepared(reading: Reading, options: Options, log: Log) -> tuple[list[Source], bool]:
    """The objects that are imported, cleaned and corrected, each once; whether all can be read."""
    prepared: dict[tuple[str, ...], Source] = {}
    whole = True
    stated = mapping(reading.facts.get("spec"))
    known = mapping(stated.get("versions"))
    versions = versions_of(
        options.settings.get(("versions", "kueue"), known.get("kueue")),
        options.settings.get(("versions", "jobset"), known.get("jobset")),
        options.settings.get(("gkeVersion",), stated.get("gkeVersion")),
    )
    for source in reading.sources:
        if not kept(source, log):
            continue
        name_generated(source, log)
        if not source.kind or not source.name or not source.body.get("apiVersion"):
            log.missing(
                "an object without apiVersion, kind or name",
                "write them, or leave the file out",
                source,
            )
            whole = False
            continue
        clean(source, log)
        filled = fill_placeholders(source, options.placeholders, log)
        correct(source, log)
        # What stands in for a quantity or a count cannot be judged as one.
        whole = filled and readable(source, versions, log) and whole
        first = prepared.setdefault(source.identity, source)
        if first is not source:
            _repeated(first, source, log)
    return list(prepared.values()), whole


def _repeated(first: Source, source: Source, log: Log) -> None:
    if first.body == source.body:
        log.dropped(source, "stands in the files twice, the same both times")
    else:
        where = log.places.find(first.subject)
        log.missing(f"another one of this name is at {where}", "keep one of the two", source)


def _head(paths: Sequence[str], reading: Reading, inventory: Path) -> list[str]:
    names = ["standard input" if path == "-" else path for path in paths]
    listed = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
    lines = []
    if (inventory.parent / "inventory.schema.json").is_file():
        lines.append("yaml-language-server: $schema=../../inventory.schema.json")
    count = plural(len(reading.sources), "object")
    return [*lines, f"Imported by stowplan import from {listed} ({count})."]


def _tried(
    scratch: Path,
    inventory: Path,
    parameters: dict[str, Any],
    sources: list[Source],
    head: list[str],
    options: Options,
    log: Log,
) -> Import:
    target = f"targets/{options.cluster}.yml"
    overlay_name = f"{options.cluster}.jsonnet"
    origins = _origins(sources, log)

    def files(overlay: Overlay) -> dict[str, str]:
        shown_parameters = dict(parameters)
        if overlay:
            shown_parameters["overlays"] = [overlay_name]
        texts = {target: target_text(shown_parameters, origins, head, options.classes)}
        if overlay:
            texts[f"overlays/{overlay_name}"] = overlay.text(options.cluster)
        return texts

    trial = attempt(scratch, inventory, options.cluster, files(Overlay()))
    if trial.compiled is None:
        log.findings += _explained(trial.findings, log, sources)
        return Import(findings=log.findings)
    overlay = _overlay(sources, trial, log)
    written = files(overlay)
    if overlay:
        trial = attempt(scratch, inventory, options.cluster, written)
    assert trial.compiled is not None
    _verify(sources, trial.compiled.manifests, log)
    if log.failed:
        return Import(findings=log.findings)
    # Names in findings are those of the files that are about to be written.
    findings = log.findings + trial.compiled.findings
    return Import(written, findings, len(sources), trial.compiled.files)


def _origins(sources: list[Source], log: Log) -> dict[tuple[str, ...], list[str]]:
    """Inventory entry → what it was made from, for comments."""
    origins: dict[tuple[str, ...], list[str]] = {}
    for source in sources:
        section = SECTIONS.get(source.kind)
        path = source.entry or ((*section, source.name) if section else ())
        if path:
            place = log.places.find(source.subject)
            line = f":{place.line}" if place.line else ""
            origins.setdefault(path, []).append(f"{source.resource}, {place.file}{line}")
    return origins


def _explained(findings: list[Finding], log: Log, sources: list[Source]) -> list[Finding]:
    """Faults of the draft, with the object or the option that each comes from."""
    entries = {source.entry: source for source in sources if source.entry}
    for source in sources:
        section = SECTIONS.get(source.kind)
        if section and not source.entry:
            entries[(*section, source.name)] = source
    explained = []
    for finding in findings:
        path = tuple(str(part) for part in finding.path)
        origin = next((s for e, s in entries.items() if path[: len(e)] == e), None)
        if origin is not None:
            finding = replace(
                finding,
                message=f"{origin.resource}: {finding.message}",
                inventory=None,
                manifest=log.places.find(origin.subject),
            )
        elif option := option_of(path):
            finding = replace(finding, message=f"{option}: {finding.message}", inventory=None)
        explained.append(finding)
    return explained


def _match(source: Source, manifests: list[Manifest]) -> Manifest | None:
    """The manifest that a source has become, None if compile makes none."""
    for manifest in manifests:
        if manifest.kind != source.kind:
            continue
        if source.entry:
            if manifest.section == source.entry:
                return manifest
        elif (manifest.namespace, manifest.name) == (source.namespace, source.name):
            return manifest
    return None


def _overlay(sources: list[Source], trial: Trial, log: Log) -> Overlay:
    """What compile does not make of the sources, and what it makes beyond them."""
    overlay = Overlay()
    additions: dict[str, list[Source]] = {}
    for source in sources:
        built = _match(source, trial.before)
        if built is None:
            place = log.places.find(source.subject)
            overlay.objects.append((f"from {place}", source.body))
            log.add(
                "IMP006", Severity.NOTE, "kept as it is in the overlay: the inventory makes none",
                source=source,
            )  # fmt: skip
            continue
        _residue(source, built, overlay, additions, log)
    _say_additions(additions, sources, trial, log)
    return overlay


def _residue(
    source: Source,
    built: Manifest,
    overlay: Overlay,
    additions: dict[str, list[Source]],
    log: Log,
) -> None:
    residue = compare(source.kind, source.body, built.body)
    if residue.patches:
        overlay.patches[built.resource] = residue.patches
        named = ", ".join(dict.fromkeys(_short(path) for path, _ in residue.patches))
        log.add(
            "IMP006", Severity.NOTE,
            f"kept through the overlay, since the inventory has no field for it: {named}",
            source=source, path=_source_path(residue.patches[0][0], source),
        )  # fmt: skip
    if residue.ours:
        named = ", ".join(shown(path) for path in residue.ours)
        log.dropped(source, f"{named}: compile writes its own")
    added = [(path, value) for path, value in residue.added if path[0] != "metadata"]
    if added:
        additions.setdefault(_listed(added), []).append(source)


def _say_additions(
    additions: dict[str, list[Source]], sources: list[Source], trial: Trial, log: Log
) -> None:
    """What compile writes beyond the sources: the same for several objects is said once."""
    for text, places in additions.items():
        others = [source.resource for source in places[1:]]
        more = f" and {len(others) - 3} more" if len(others) > 3 else ""
        also = f" (and to {', '.join(others[:3])}{more})" if others else ""
        log.add("IMP007", Severity.NOTE, f"compile adds {text}{also}", source=places[0])
    extra = [
        manifest.resource
        for manifest in trial.before
        if not any(_match(source, [manifest]) for source in sources)
    ]
    if extra:
        log.add("IMP007", Severity.NOTE, f"compile makes as well: {', '.join(extra)}")
    moved: dict[tuple[str, str], list[Source]] = {}
    for source in sources:
        built = _match(source, trial.before)
        if built is not None and source.body["apiVersion"] != built.body["apiVersion"]:
            pair = (str(source.body["apiVersion"]), str(built.body["apiVersion"]))
            moved.setdefault(pair, []).append(source)
    for (old, new), places in moved.items():
        log.corrected(
            places[0],
            f"{old} is written as {new}, which the cluster's version prefers"
            + (f" (also for {len(places) - 1} more)" if len(places) > 1 else ""),
            path=("apiVersion",),
        )


def _short(path: ValuePath) -> str:
    """A path as people read it, the long way to a pod left away."""
    text = re.sub(r"^spec\.replicatedJobs\[[^]]*\]\.", "", shown(path))
    return text.replace("template.spec.template.spec.", "pod ")


def _listed(added: list[tuple[ValuePath, Any]]) -> str:
    """Additions, the long way to a pod left away."""
    rows = []
    for whole, given in added:
        for path, value in leaves(given, whole):
            rows.append(f"{_short(path)}: {json.dumps(value)}")
    rows = list(dict.fromkeys(rows))
    more = len(rows) - _SHOWN_ADDITIONS
    return "; ".join(rows[:_SHOWN_ADDITIONS]) + (f"; and {more} more" if more > 0 else "")


def _source_path(path: ValuePath, source: Source) -> tuple[str | int, ...]:
    """A path of the source's own values: list entries by number."""
    node: Any = source.body
    steps: list[str | int] = []
    for step in path:
        if isinstance(step, tuple):
            index = next((i for i, entry in enumerate(node) if entry.get(step[0]) == step[1]), None)
            if index is None:
                break
            steps.append(index)
            node = node[index]
        else:
            steps.append(step)
            node = node.get(step) if isinstance(node, dict) else None
    return tuple(steps)


def _verify(sources: list[Source], manifests: list[Manifest], log: Log) -> None:
    """Nothing that a source states is lost in what compile makes, and no pod gets a container more;
    else nothing is written."""
    for source in sources:
        built = _match(source, manifests)
        if built is None:
            log.missing(
                "compile does not make it, although the overlay adds it",
                "please report this with the manifest",
                source,
            )
            continue
        if built.name != source.name:
            log.renamed(
                source,
                f"compile calls it {built.name}, so in a cluster it is a new object",
                _AFTER_RENAME.get(source.kind, ""),
            )
        residue = compare(source.kind, source.body, built.body)
        more = [path for path, _ in residue.added if path[-2:-1] in _CONTAINERS]
        for path in [*(path for path, _ in residue.patches), *more]:
            log.missing(
                f"{shown(path)} does not come out of compile as it was read",
                "please report this with the manifest",
                source,
                _source_path(path, source),
            )
