"""Names around the retention of backups, shared by the builder and the checks."""

from __future__ import annotations

from schemas.inventory import Parameters


def cron_job_name(config: str) -> str:
    """The CronJob that prunes the backups of one checkpointing configuration."""
    return f"retention-{config}"


def job_names(spec: Parameters, config: str) -> list[str]:
    """The names under which the workloads of a configuration write backups, sorted."""
    return sorted(
        {
            workload.checkpoint.job_name or name
            for name, workload in spec.workloads.items()
            if workload.checkpoint is not None and workload.checkpoint.configuration == config
        }
    )
