"""Two jobs of one name: where they would meet, and why they may not.

A replicator knows a job by its name alone: the coordinator is looked up by it (the agents' Lease,
or the ConfigMap of GKE's driver), data on a node and folders of backups are named after it. Neither
the namespace nor the JobSet's name takes part, since a job must be found again when both are new.
"""

from __future__ import annotations

from collections.abc import Iterator

from generator.fleet import Fleet
from generator.jobs import NAME_FLAGS, Job, checkpoint_name, jobs_of, name_flag
from generator.problems import Problem
from generator.provenance import ValuePath
from schemas.inventory.checkpointing import Checkpointing


def names_are_apart(fleet: Fleet) -> Iterator[Problem]:
    """Every checkpointed workload of the cluster goes by a name of its own, fit for a folder."""
    taken: dict[tuple[str, str], str] = {}
    for name, workload in fleet.spec.workloads.items():
        config = (
            fleet.spec.checkpointing.get(workload.checkpoint.configuration)
            if workload.checkpoint is not None
            else None
        )
        if config is None:
            continue
        job = jobs_of(fleet, name)[0]
        saved = checkpoint_name(job)
        if "/" in saved or not saved.strip("."):
            yield _no_folder(job, saved)
            continue
        met = [
            (place, other)
            for place in meeting_places(config)
            if (other := taken.setdefault((place, saved), name)) != name
        ]
        if met:
            yield _same_name(fleet, job, saved, met)


def meeting_places(config: Checkpointing) -> list[str]:
    """Where jobs of one name find each other, in words."""
    folder = config.backup_place
    if config.agent is None:
        return ["at the driver's coordinator", f"in the backups of {folder}"]
    return [
        f"at the Lease of the agents in namespace {config.agent.namespace}",
        f"in the backups of {folder}",
    ]


def _same_name(fleet: Fleet, job: Job, saved: str, met: list[tuple[str, str]]) -> Problem:
    other = met[0][1]
    places = " and ".join(place for place, who in met if who == other)
    namespace = fleet.spec.workloads[other].namespace
    beside = "" if namespace == job.spec.namespace else f" in namespace {namespace!r}"
    path, fix = _said(job, "of its own")
    return Problem(
        "INV074",
        path,
        f"its checkpoints go by the name {saved!r}, as those of workload {other!r}{beside} do: "
        f"the two would meet {places}, and restore each other's checkpoints",
        fix,
    )


def _no_folder(job: Job, saved: str) -> Problem:
    path, fix = _said(job, "that is one name, not a path")
    return Problem(
        "INV075",
        path,
        f"its checkpoints go by the name {saved!r}, which cannot be one folder of the backups",
        fix,
    )


def _said(job: Job, what: str) -> tuple[ValuePath, str]:
    """Where a job's name stands, and how it is changed."""
    path: ValuePath = ("workloads", job.workload, "checkpoint")
    flag = name_flag(job)
    if flag is not None:
        name = NAME_FLAGS[job.spec.framework]
        return flag[0], f"write a {name} {what} (it wins over jobName)"
    said = job.spec.checkpoint is not None and job.spec.checkpoint.job_name is not None
    return (*path, "jobName") if said else path, f"write a jobName {what}"
