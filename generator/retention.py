"""Names around the retention of backups, shared by the builder and the checks."""

from __future__ import annotations

from generator.fleet import Fleet
from generator.jobs import checkpoint_name, jobs_of


def cron_job_name(config: str) -> str:
    """The CronJob that prunes the backups of one checkpointing configuration."""
    return f"retention-{config}"


def job_names(fleet: Fleet, config: str) -> list[str]:
    """The names under which the workloads of a configuration write backups, sorted."""
    return sorted(
        {
            checkpoint_name(job)
            for name, workload in fleet.spec.workloads.items()
            if workload.checkpoint is not None and workload.checkpoint.configuration == config
            for job in jobs_of(fleet, name)
        }
    )
