"""What a reviewer must not miss, as sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from generator.diff.conditions import dig
from generator.diff.model import IMPACT_RANK, MISSING, Change, Impact, Verb, gravest, plain_path
from generator.visible import visible

SHOWN = 3
"""Names listed in a sentence before the rest is counted."""


def headlines(
    changes: Iterable[Change], lone_clusters: Mapping[str, Verb]
) -> tuple[tuple[Impact, str], ...]:
    """Return the sentences, gravest first.

    Args:
        changes: all changes, in the order in which they are shown.
        lone_clusters: clusters that came or went as a whole.
    """
    found = list(changes)
    gone = {name for name, verb in lone_clusters.items() if verb is Verb.DELETE}
    every = [change for change in found if change.resource.cluster not in gone]
    lines = _left_clusters([change for change in found if change.resource.cluster in gone])
    for impact, sentence in (
        (Impact.BLOCKED, _blocked),
        (Impact.DATA_LOSS, _data_loss),
        (Impact.RAMDISK_LOSS, _ram_disks),
        (Impact.RESTART, _restarts),
        (Impact.UNKNOWN, _unknown),
    ):
        members = [change for change in every if change.impact is impact]
        if impact is Impact.RAMDISK_LOSS:
            # A replacement that also loses data empties the RAM disks all the same.
            members = [c for c in every if _empties_ram_disks(c)]
        if impact is Impact.RESTART:
            members = [c for c in every if c.impact is impact or _stops_job(c)]
        if members:
            lines.append((impact, sentence(members)))
    lines += [(Impact.LIVE, text) for text in _exceeded(every)]
    lines.sort(key=lambda line: IMPACT_RANK[line[0]])
    notes = [
        *_new_clusters(lone_clusters), *_old_drivers(every), *_bootstraps(every), *_waivers(every),
    ]  # fmt: skip
    return tuple(lines + [(Impact.NONE, visible(text)) for text in notes])


def _exceeded(changes: list[Change]) -> list[str]:
    """Numbers that do not fit: each sentence once, with the resources that it is true of."""
    found: dict[str, list[str]] = {}
    for change in changes:
        for line in change.derived:
            if line.exceeded:
                place = f"{change.resource.title} of {change.resource.cluster or '(top)'}"
                found.setdefault(line.text, []).append(place)
    return [f"{_capital(text)} ({_some(names)})." for text, names in found.items()]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _some(names: Iterable[str]) -> str:
    every = list(dict.fromkeys(names))
    rest = len(every) - SHOWN
    shown = ", ".join(every[:SHOWN])
    return f"{shown} and {rest:,} more" if rest > 0 else shown


def _where(changes: list[Change]) -> str:
    clusters = [change.resource.cluster for change in changes if change.resource.cluster]
    return f" of {_some(clusters)}" if clusters else ""


def _empties_ram_disks(change: Change) -> bool:
    recreated = change.verb in (Verb.REPLACE, Verb.DELETE, Verb.MOVE)
    return change.impact is Impact.RAMDISK_LOSS or (
        recreated
        and change.impact is Impact.DATA_LOSS
        and change.resource.kind == "CheckpointConfiguration"
    )


def _stops_job(change: Change) -> bool:
    return (
        change.resource.kind == "JobSet"
        and change.verb in (Verb.REPLACE, Verb.DELETE)
        and (change.impact is Impact.DATA_LOSS)
    )


def _blocked(changes: list[Change]) -> str:
    rules: dict[str, list[str]] = {}
    for change in changes:
        for field in change.fields:
            if field.impact is Impact.BLOCKED:
                rules.setdefault(field.why, []).append(change.resource.full_name)
    reasons = "; ".join(f"{why} ({_some(names)})" for why, names in list(rules.items())[:SHOWN])
    text = f"{_count(len(changes), 'change')} would not take effect"
    return f"{text}: {reasons}." if reasons else f"{text}."


def _data_loss(changes: list[Change]) -> str:
    reasons: dict[str, list[Change]] = {}
    for change in changes:
        reasons.setdefault(change.why[0] if change.why else "see the change", []).append(change)
    return " ".join(
        f"{_capital(why)}: {_titles(members)}{_where(members)}." for why, members in reasons.items()
    )


def _titles(changes: list[Change]) -> str:
    """``Namespace a, b and 2 more``: the kind once per kind."""
    kinds: dict[str, list[str]] = {}
    for change in changes:
        moved = change.previous if change.verb is Verb.MOVE else None
        goes = moved or change.resource
        kinds.setdefault(goes.kind, []).append(goes.full_name)
    return "; ".join(f"{kind} {_some(names)}" for kind, names in kinds.items())


def _ram_disks(changes: list[Change]) -> str:
    size = _nodes_of(changes)
    how = "is" if len(changes) == 1 else "are"
    verbs = {"deleted" if change.verb is Verb.DELETE else "replaced" for change in changes}
    names = _some(change.resource.name for change in changes)
    return (
        f"RAM disks{size}{_where(changes)} will be emptied: CheckpointConfiguration {names} "
        f"{how} {' or '.join(sorted(verbs))}. Restores read the backup."
    )


def _nodes_of(changes: list[Change]) -> str:
    """`` on 64 nodes (256 chips)``, each node pool once; empty where nothing says."""
    pools = {
        (change.resource.cluster, name): (nodes, chips)
        for change in changes
        for name, nodes, chips in change.pools
    }
    nodes = sum(count for count, _ in pools.values())
    chips = sum(count for _, count in pools.values())
    return f" on {_count(nodes, 'node')} ({_count(chips, 'chip')})" if nodes else ""


def _restarts(changes: list[Change]) -> str:
    jobs = [change for change in changes if change.resource.kind == "JobSet"]
    others = [change for change in changes if change.resource.kind != "JobSet"]
    parts = []
    if jobs:
        chips = sum(change.chips or 0 for change in jobs)
        size = f" on {_count(chips, 'chip')}" if chips else ""
        names = _some((job.previous or job.resource).full_name for job in jobs)
        stops = "stops" if len(jobs) == 1 else "stop"
        parts.append(f"{_count(len(jobs), 'job')}{size}{_where(jobs)} {stops} if running: {names}.")
    if others:
        whys = dict.fromkeys(_capital(change.why[0]) for change in others if change.why)
        names = _some(change.resource.title for change in others)
        parts.append(f"{'; '.join(list(whys)[:SHOWN])}: {names}{_where(others)}.")
    return " ".join(parts)


def _unknown(changes: list[Change]) -> str:
    names = _some(change.resource.title for change in changes)
    return f"No rule says what {_count(len(changes), 'change')} would do; read them: {names}."


def _new_clusters(lone: Mapping[str, Verb]) -> list[str]:
    """Clusters that join the tree."""
    new = sorted(name for name, verb in lone.items() if verb is Verb.ADD)
    return [f"{_count(len(new), 'cluster')} joined the tree: {_some(new)}."] if new else []


def _left_clusters(changes: list[Change]) -> list[tuple[Impact, str]]:
    """Clusters that leave the tree, with what goes if their Applications are deleted."""
    if not changes:
        return []
    gone = sorted({change.resource.cluster for change in changes})
    kinds = Counter(change.resource.kind for change in changes)
    disks = [change for change in changes if change.resource.kind == "CheckpointConfiguration"]
    goes = [
        text
        for text, there in (
            (f"stops {_count(kinds['JobSet'], 'job')}", kinds["JobSet"]),
            (f"empties the RAM disks{_nodes_of(disks)}", disks),
            (
                f"removes {_count(kinds['Namespace'], 'namespace')} and their contents",
                kinds["Namespace"],
            ),
        )
        if there
    ]
    text = (
        f"{_count(len(gone), 'cluster')} left the tree: {_some(gone)}. What runs there goes only "
        "if its Application is deleted too, which an ApplicationSet with applicationsSync "
        "create-update does not do."
    )
    text += f" Deleting it {', '.join(goes)}." if goes else ""
    return [(gravest([change.impact for change in changes]), visible(text))]


def _bootstraps(changes: list[Change]) -> list[str]:
    """Changed commands and Terraform, which nobody runs but a person."""
    clusters = sorted(
        {
            change.resource.cluster
            for change in changes
            if (change.new_file or change.old_file).split("/")[1:2] == ["bootstrap"]
        }
    )
    if not clusters:
        return []
    return [
        f"bootstrap/ of {_some(clusters)} changed: the merge applies the manifests, not this; "
        "somebody has to run it."
    ]


def _old_drivers(changes: list[Change]) -> list[str]:
    """A new GKE version upgrades the nodes, not the checkpointing drivers on them.

    Source: the multi-tier checkpointing guide of GKE, "Upgrade the cluster": the driver's DaemonSet
    stays as it is until the CheckpointConfiguration is created anew.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for change in changes:
        if change.resource.kind != "CheckpointConfiguration" or change.verb is not Verb.CHANGE:
            continue
        for field in change.fields:
            if plain_path(field.path)[2:] == ("stowplan.dev/gke-version",):
                versions = (str(field.old), str(field.new))
                found.setdefault(versions, []).append(change.resource.cluster)
    return [
        f"GKE goes from {old} to {new} on {_some(clusters)}, but checkpointing drivers are not "
        "upgraded with it: bump driverEpoch before or after (that empties the RAM disks)."
        for (old, new), clusters in found.items()
    ]


def _waivers(changes: list[Change]) -> list[str]:
    """A waiver that comes, goes or changes; each text once, with the number of clusters."""
    found: dict[str, list[str]] = {}
    for change in changes:
        if change.resource.kind != "Cluster" or change.resource.group != "stowplan.dev":
            continue
        for field in change.fields:
            if plain_path(field.path)[:2] != ("spec", "waivers"):
                continue
            verb = {"add": "New", "remove": "Dropped"}.get(field.op, "Changed")
            value = field.old if field.new is MISSING else field.new
            for entry in value if isinstance(value, list) else [value]:
                text = f"{verb} waiver: {_waiver(entry, change)}"
                found.setdefault(text, []).append(change.resource.cluster)
    return [f"{text} ({_some(clusters)})" for text, clusters in found.items()]


def _waiver(value: Any, change: Change) -> str:
    if not isinstance(value, dict):
        return f"see {change.new_file}"
    until = dig(value, "expires")
    return (
        f"{dig(value, 'rule')} for {dig(value, 'resource')}, by {dig(value, 'owner')}"
        f"{f', until {until}' if until else ''}: {dig(value, 'reason')}"
    )
