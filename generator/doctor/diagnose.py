"""Run every check whose reads succeeded, and say of the others why they did not run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from generator.checks.report import Report
from generator.doctor import (
    apis,
    controllers,
    drift,
    drivers,
    kueue_settings,
    mounts,
    placement,
    priorities,
    queues,
    workloads,
)
from generator.doctor.collect import NOT_SERVED
from generator.doctor.look import Look
from generator.doctor.snapshot import Snapshot
from generator.doctor.wanted import Wanted
from generator.findings import Finding, Severity


@dataclass(frozen=True, slots=True)
class Check:
    """One examination.

    Attributes:
        title: what it looks for, for people.
        run: the findings.
        needs: the reads without which it would tell untruths.
    """

    title: str
    run: Callable[[Look], Iterator[Finding]]
    needs: tuple[str, ...] = ()


CHECKS: tuple[Check, ...] = (
    Check("kinds and versions", apis.kinds_served),
    Check("the server's version", apis.kubernetes_version),
    Check("the Cloud Storage FUSE add-on", apis.fuse_driver, ("csidrivers",)),
    Check("controllers", controllers.controllers_run),
    Check("memory of the JobSet controller", controllers.jobset_memory, ("jobsetdeployments",)),
    Check("webhooks", controllers.webhooks_answer, ("mutatingwebhooks", "validatingwebhooks")),
    Check(
        "driver DaemonSets",
        drivers.daemonsets_exist,
        ("checkpointconfigurations", "daemonsets", "configevents"),
    ),
    Check(
        "overlapping CheckpointConfigurations",
        drivers.one_config_a_node,
        ("checkpointconfigurations", "nodes"),
    ),
    Check(
        "driver pods",
        drivers.drivers_ready,
        ("checkpointconfigurations", "nodes", "driverpods", "daemonsets"),
    ),
    Check("mount failures", mounts.failed_mounts, ("mountevents", "driverpods")),
    Check("ClusterQueues", queues.cluster_queues, ("clusterqueues",)),
    Check("LocalQueues", queues.local_queues, ("localqueues",)),
    Check("pending workloads", workloads.pending, ("workloads",)),
    Check("JobSets without a Workload", workloads.without_workload, ("jobsets", "workloads")),
    Check("stuck slices", placement.stuck_slices, ("jobpods", "nodes")),
    Check("spread slices", placement.spread_slices, ("jobpods", "nodes")),
    Check("unready nodes", placement.unready_nodes, ("jobpods", "nodes")),
    Check("Kueue's settings", kueue_settings.mixing, ("kueueconfig", "resourceflavors", "jobsets")),
    Check("priority classes", priorities.missing_classes, ("priorityclasses",)),
    Check("differences from compiled/", drift.drifted),
    Check("leftovers", drift.leftover),
)


def diagnose(snapshot: Snapshot, wanted: Wanted | None = None) -> Report:
    """Judge a snapshot.

    Args:
        snapshot: the live cluster.
        wanted: the compiled one; without it nothing is compared with Git.
    """
    look = Look(snapshot, wanted)
    found = list(apis.right_cluster(look))
    if found:
        # Facts and objects of another cluster would lead to wrong commands and deletions.
        look = Look(snapshot, title=look.cluster)
    refused = {unread.key for unread in snapshot.unread if unread.reason != NOT_SERVED}
    unserved = {unread.key for unread in snapshot.unread if unread.reason == NOT_SERVED}
    skipped: list[str] = []
    for check in CHECKS:
        if refused & set(check.needs):
            skipped.append(check.title)
        elif not unserved & set(check.needs):
            found += check.run(look)
    found += _unread(look, skipped)
    report = Report(
        sorted(found, key=lambda finding: finding.sort_key),
        objects=sum(len(items) for items in snapshot.objects.values()),
        clusters=[look.cluster],
        title="stowplan doctor",
        scope=_scope(look),
    )
    return report


def _scope(look: Look) -> str:
    snapshot = look.snapshot
    count = sum(len(items) for items in snapshot.objects.values())
    against = "" if look.wanted else ", not compared with any compiled/"
    return f"{count} live objects of {snapshot.context or 'a cluster'}{against}"


def _unread(look: Look, skipped: list[str]) -> Iterator[Finding]:
    refused = [unread for unread in look.snapshot.unread if unread.reason != NOT_SERVED]
    for unread in refused:
        yield look.finding(
            "DOC001",
            Severity.WARNING,
            unread.title,
            f"could not be read ({unread.reason}): {unread.message}",
            "stowplan doctor --rbac prints the roles that it needs"
            if unread.reason == "Forbidden"
            else "",
        )
    if skipped:
        yield look.finding(
            "DOC001",
            Severity.WARNING,
            "the doctor",
            f"not examined, for want of what could not be read: {', '.join(skipped)}",
        )
