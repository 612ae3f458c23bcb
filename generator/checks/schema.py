"""Say offline what the API server would say to one object.

The steps are the API server's own for a create with strict field validation: find the kind, refuse
unknown fields, drop nulls, validate, compare keyed lists, fill defaults, evaluate CEL; then the
rules that the admission webhooks of Kueue and JobSet add, and what the kubelet's pod validation
would refuse later in a template.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

from generator.checks import cel, pod_spec, webhooks
from generator.checks.metadata import metadata_findings
from generator.checks.schema_errors import schema_findings
from generator.checks.structure import (
    Tree,
    as_json,
    duplicates,
    prune_nulls,
    with_defaults,
)
from generator.findings import Finding, Severity, path_text
from schemas.kinds.store import KindRef, kinds_of, read_kind
from schemas.versions import Versions

LOCAL_GROUPS = ("kustomize.config.k8s.io/", "stowplan.dev/")
"""API groups of files that tools read and no cluster sees."""

SHARED_GROUPS = frozenset({"argoproj.io"})
"""Groups in which other projects (Argo Workflows, Rollouts) keep kinds that are not vendored."""

OTHER_PLANES = (
    "iam.cnrm.cloud.google.com/",
    "kustomize.toolkit.fluxcd.io/",
    "source.toolkit.fluxcd.io/",
)
"""API groups of Config Connector and Flux. Their schemas are not vendored; what stowplan itself
writes of them is held by the builders' tests, and anybody else's gets a note that says so."""

MANAGED_BY = "app.kubernetes.io/managed-by"

LOCAL_CONFIG = "config.kubernetes.io/local-config"
"""Annotation by which kustomize and kpt mark an object that is not for a cluster."""


@dataclass(frozen=True, slots=True)
class CompiledKind:
    """One kind, ready to judge objects. Built once per process."""

    ref: KindRef
    schema: dict[str, Any]
    validator: Any
    lists: Tree
    defaults: Tree
    nullable: Tree
    rules: Tree
    custom: bool


@lru_cache(maxsize=512)
def compiled_kind(ref: KindRef) -> CompiledKind:
    """Compile the schema of a kind."""
    # Loaded on first use, in the process that needs it: never before a fork.
    from jsonschema_rs import Draft202012Validator

    kind = read_kind(ref)
    rules = cel.create_tree(kind["cel"])
    return CompiledKind(
        ref=ref,
        schema=kind["schema"],
        validator=Draft202012Validator(kind["schema"], validate_formats=True),
        lists=kind["lists"],
        defaults=cel.needed_defaults(kind["defaults"], rules),
        nullable=kind["nullable"],
        rules=rules,
        custom=kind["custom"],
    )


def is_local(document: Mapping[str, Any]) -> bool:
    """Whether a document is configuration for a tool, not an object for a cluster."""
    api_version = str(document.get("apiVersion", ""))
    if api_version.startswith(LOCAL_GROUPS):
        return True
    metadata = document.get("metadata")
    if api_version.startswith(OTHER_PLANES):
        labels = metadata.get("labels") if isinstance(metadata, Mapping) else None
        return isinstance(labels, Mapping) and labels.get(MANAGED_BY) == "stowplan"
    annotations = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    return isinstance(annotations, Mapping) and annotations.get(LOCAL_CONFIG) == "true"


def check_schema(document: Mapping[str, Any], versions: Versions) -> list[Finding]:
    """Judge one object as the API server of a cluster with these versions would.

    Never raises on bad content. Findings carry the path inside the object; the caller knows the
    file.
    """
    return [] if is_local(document) else check_object(document, versions)[0]


def check_object(
    document: Mapping[str, Any], versions: Versions
) -> tuple[list[Finding], Mapping[str, Any]]:
    """Judge one object, and return it as the API server reads it: without the nulls it drops."""
    try:
        try:
            return _check(document, versions)
        except ValueError as error:
            if "Recursion limit" in str(error):
                raise RecursionError from None
            # YAML can say more than JSON; Go's reader turns the rest into JSON first.
            return _check(as_json(document), versions)
    except RecursionError:
        pass
    kept = {key: document.get(key) for key in ("apiVersion", "kind") if key in document}
    return [
        Finding(
            "SCH003",
            Severity.ERROR,
            "the object is nested too deeply to be judged (about 250 levels)",
            "flatten it: no kind of Kubernetes nests like that",
        )
    ], kept


def _check(
    document: Mapping[str, Any], versions: Versions
) -> tuple[list[Finding], Mapping[str, Any]]:
    ref = kinds_of(versions).get((str(document.get("apiVersion")), str(document.get("kind"))))
    if ref is None:
        return [_unknown_kind(document, versions)], prune_nulls(document, {})
    kind = compiled_kind(ref)
    findings: list[Finding] = []
    value: Any = document
    if not kind.validator.is_valid(document):
        value = prune_nulls(document, kind.nullable)
        for error in kind.validator.iter_errors(value):
            findings.extend(schema_findings(error, ref.kind, kind.schema))
        findings = webhooks.without_filled_in(findings, ref.kind)
    broken = bool(findings)
    findings.extend(_duplicate_findings(value, kind))
    if kind.rules and not broken:
        # CEL runs only on a structurally valid object, here as in the API server.
        findings.extend(_cel_findings(with_defaults(value, kind.defaults), kind))
    findings.extend(metadata_findings(value, ref))
    if not broken:
        said = [finding.path for finding in findings]
        findings.extend(
            finding
            for finding in webhooks.webhook_findings(value, ref)
            # Where CEL has refused the block already, the webhook's words on it add nothing.
            if not any(finding.path[: len(path)] == path for path in said if path)
        )
        findings.extend(pod_spec.pod_findings(value, ref.kind))
    if ref.deprecated:
        findings.append(_deprecated(ref, versions))
    return findings, value


def _deprecated(ref: KindRef, versions: Versions) -> Finding:
    served = sorted(
        other.api_version
        for other in kinds_of(versions).values()
        if other.kind == ref.kind and other.archive == ref.archive and not other.deprecated
    )
    return Finding(
        "SCH009",
        Severity.WARNING,
        f"{ref.api_version} of {ref.kind} is deprecated: the API server accepts it with a warning",
        f"write apiVersion: {served[-1]}" if served else "",
        path=("apiVersion",),
    )


def _unknown_kind(document: Mapping[str, Any], versions: Versions) -> Finding:
    api_version, kind = document.get("apiVersion"), document.get("kind")
    if not isinstance(api_version, str) or not isinstance(kind, str) or not api_version or not kind:
        missing = "apiVersion" if not isinstance(api_version, str) or not api_version else "kind"
        return Finding(
            "SCH001",
            Severity.ERROR,
            f"{missing} is missing or no string: no API server can tell what this is",
            f"add {missing}",
            path=(missing,),
        )
    known = kinds_of(versions)
    group = api_version.rpartition("/")[0]
    same_kind = [ref for (_, name), ref in known.items() if name == kind]
    same_group = [ref for (v, _), ref in known.items() if v.rpartition("/")[0] == group]
    if not same_group:
        offered = [ref.api_version for ref in same_kind]
        of_kind = {v for v, name in known if name == kind}
        near = get_close_matches(api_version, of_kind, 1, 0.8)
        if offered or near:
            right = (offered or near)[0]
            return Finding(
                "SCH001",
                Severity.ERROR,
                f"no such API: {api_version} {kind}",
                f"write apiVersion: {right}",
                path=("apiVersion",),
            )
        return _not_judged(api_version, kind)
    versions_here = sorted({ref.api_version for ref in same_group if ref.kind == kind})
    if versions_here:
        archive = next(ref.archive for ref in same_group if ref.kind == kind)
        return Finding(
            "SCH001",
            Severity.ERROR,
            f"{archive} does not serve {kind} as {api_version}",
            f"write apiVersion: {versions_here[-1]}",
            path=("apiVersion",),
        )
    names = sorted({ref.kind for ref in same_group})
    near = get_close_matches(kind, names, 1, 0.6)
    served = any(version == api_version for version, _ in known)
    if not near and (not served or group in SHARED_GROUPS):
        return _not_judged(api_version, kind)
    return Finding(
        "SCH001",
        Severity.ERROR,
        f"{api_version} has no kind {kind}",
        f"write kind: {near[0]}" if near else f"known there: {', '.join(names[:12])}",
        path=("kind",),
    )


def _not_judged(api_version: str, kind: str) -> Finding:
    return Finding(
        "SCH012",
        Severity.NOTE,
        f"no schema for {api_version} {kind}: its fields were not judged",
        "",
        path=("kind",),
    )


_NATIVE_REFUSED = frozenset(
    {"containers", "initContainers", "volumes", "volumeMounts", "volumeDevices", "hostAliases"}
)
"""Keyed lists of built-in kinds whose duplicates the API server itself refuses; in the others the
last entry wins and only server-side apply refuses (``k8s.io/kubernetes/pkg/apis/core/validation``).
"""


def _duplicate_findings(value: Any, kind: CompiledKind) -> Iterator[Finding]:
    for path, entry in duplicates(value, kind.lists):
        shown = ", ".join(f"{k}: {v}" if k else repr(v) for k, v in entry.items())
        hard = kind.custom or str(path[-2]) in _NATIVE_REFUSED
        yield Finding(
            "SCH007",
            Severity.ERROR if hard else Severity.WARNING,
            f"{path_text(path)} repeats an entry ({shown}): "
            + ("the API server refuses it" if hard else "server-side apply refuses it"),
            "merge the two or remove one",
            path=path,
        )


def _cel_findings(value: Any, kind: CompiledKind) -> Iterator[Finding]:
    for fault in cel.create_faults(value, kind.rules):
        if fault.error:
            yield Finding(
                "SCH008",
                Severity.WARNING,
                f"a rule of the schema was not judged: {fault.rule} {fault.error}",
                "",
                path=fault.path,
            )
        else:
            where = path_text(fault.path)
            yield Finding(
                "SCH008",
                Severity.ERROR,
                f"{where}: {fault.message}" if where else fault.message,
                f"the rule is: {' '.join(fault.rule.split())}",
                path=fault.path,
            )
