"""The least RBAC that the doctor needs, written from the table of its reads."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from generator.doctor.reads import READS, Read
from generator.emit_yaml import dump

NAME = "stowplan-doctor"
SUBJECT_KINDS = ("User", "Group", "ServiceAccount")
_API = "rbac.authorization.k8s.io"


def manifests(singles: Iterable[Read], subject: dict[str, str]) -> list[dict[str, Any]]:
    """Roles and bindings; reading what is served (discovery) is everybody's already.

    Args:
        singles: objects of a compiled cluster that are read by name.
        subject: who gets them: an RBAC subject.
    """
    places: dict[str, list[Read]] = defaultdict(list)
    for read in (*READS, *singles):
        places[read.namespace].append(read)
    out = []
    for namespace, reads in sorted(places.items()):
        metadata = {"name": NAME, **({"namespace": namespace} if namespace else {})}
        kind = "Role" if namespace else "ClusterRole"
        out.append(
            {
                "apiVersion": f"{_API}/v1",
                "kind": kind,
                "metadata": metadata,
                "rules": rules(reads),
            }
        )
        out.append(
            {
                "apiVersion": f"{_API}/v1",
                "kind": f"{kind}Binding",
                "metadata": dict(metadata),
                "roleRef": {"apiGroup": _API, "kind": kind, "name": NAME},
                "subjects": [subject],
            }
        )
    return out


def rules(reads: Iterable[Read]) -> list[dict[str, Any]]:
    """The rules of one role: lists by kind, single objects by name."""
    listed: dict[str, set[str]] = defaultdict(set)
    named: dict[tuple[str, str], set[str]] = defaultdict(set)
    for read in reads:
        if read.name:
            named[read.group, read.plural].add(read.name)
        else:
            listed[read.group].add(read.plural)
    out: list[dict[str, Any]] = [
        {"apiGroups": [group], "resources": sorted(plurals), "verbs": ["list"]}
        for group, plurals in sorted(listed.items())
    ]
    out += [
        {
            "apiGroups": [group],
            "resources": [plural],
            "resourceNames": sorted(names),
            "verbs": ["get"],
        }
        for (group, plural), names in sorted(named.items())
    ]
    return out


def text(singles: Iterable[Read], subject: dict[str, str]) -> str:
    """The manifests as YAML documents."""
    return "---\n".join(dump(manifest) for manifest in manifests(singles, subject))


def subject_of(value: str) -> dict[str, str]:
    """Read ``Group:NAME``, ``User:NAME`` or ``ServiceAccount:NAMESPACE/NAME``.

    Raises:
        ValueError: it is none of them.
    """
    kind, colon, name = value.partition(":")
    if kind not in SUBJECT_KINDS or not colon or not name:
        raise ValueError(
            f"{value!r}: expected Group:NAME, User:NAME or ServiceAccount:NAMESPACE/NAME"
        )
    if kind != "ServiceAccount":
        return {"kind": kind, "name": name, "apiGroup": _API}
    namespace, slash, account = name.partition("/")
    if not slash or not namespace or not account:
        raise ValueError(f"{value!r}: expected ServiceAccount:NAMESPACE/NAME")
    return {"kind": kind, "name": account, "namespace": namespace}
