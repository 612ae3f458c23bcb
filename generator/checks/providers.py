"""Who replicates: keys that mean something for one provider only, and what each one needs."""

from __future__ import annotations

from collections.abc import Iterator

from generator.problems import Problem
from generator.self_hosted import SERVICE_NAME_MAX, service_name
from schemas.inventory import Parameters
from schemas.inventory.checkpointing import Checkpointing

ONLY_FOR: dict[str, tuple[tuple[str, str], ...]] = {
    "gke": (
        ("mount_options", "backups are written by URL, no bucket is mounted"),
        ("csi_ephemeral_limit", "there is no CSI driver"),
        ("enable_external_jax_process_ids", "there is no CSI driver to hand out ids"),
        ("driver_epoch", "there is no driver; agents are updated in place and keep the RAM disk"),
    ),
    "self-hosted": (("agent", "GKE's driver runs its own replicator"),),
}
"""Provider → its own keys, each with why the other provider has no use for it."""

NEEDED: dict[str, tuple[tuple[str, str], ...]] = {
    "gke": (
        (
            "hierarchical_namespace",
            "write hierarchicalNamespace: true once the bucket has one; without it every backup "
            "fails",
        ),
    ),
    "self-hosted": (("agent", "write agent: with its image and keySecret"),),
}
"""Provider → the keys that it cannot do without, each with the fix."""


def alias(key: str) -> str:
    """A key as it stands in the inventory."""
    return Checkpointing.model_fields[key].alias or key


def provider_problems(spec: Parameters) -> Iterator[Problem]:
    """Every key that does not fit its configuration's provider."""
    for name, config in spec.checkpointing.items():
        path = ("checkpointing", name)
        given = config.model_fields_set
        for provider, keys in ONLY_FOR.items():
            for key, why in keys:
                if provider != config.provider and key in given:
                    yield Problem(
                        "INV037",
                        (*path, alias(key)),
                        f"{alias(key)} is for provider {provider}, but {name!r} has provider "
                        f"{config.provider}: {why}",
                        f"remove it, or write provider: {provider}",
                        key=True,
                    )
        for key, fix in NEEDED[config.provider]:
            if getattr(config, key) is None:
                yield Problem(
                    "INV037",
                    path,
                    f"provider {config.provider} needs {alias(key)}",
                    fix,
                    key=True,
                )
        if config.provider == "self-hosted":
            yield from _self_hosted(name, config)


def _self_hosted(name: str, config: Checkpointing) -> Iterator[Problem]:
    path = ("checkpointing", name)
    if config.retention.tool == "backup-warden":
        # It deletes whole directories by age; a backup of ours may share its shards with another
        # rank's, and is only complete with its seal.
        yield Problem(
            "INV037",
            (*path, "retention"),
            "backup-warden does not know which backups of the self-hosted replicator are complete",
            "write tool: replicator and the replicator's image, or tool: none",
            key=True,
        )
    if len(service_name(name)) > SERVICE_NAME_MAX:
        room = len(name) - (len(service_name(name)) - SERVICE_NAME_MAX)
        yield Problem(
            "INV036",
            path,
            f"its agents' Service would be called {service_name(name)}: "
            f"{len(service_name(name))} characters, at most {SERVICE_NAME_MAX} are allowed",
            f"shorten the name to {room} characters",
            key=True,
        )
