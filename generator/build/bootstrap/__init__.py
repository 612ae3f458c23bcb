"""What makes a cluster ready for the compiled manifests, as files to be reviewed and then run.

The same plan in three tongues: ``gcloud`` commands, Terraform, and Config Connector where it has
words for it. All of it is text from a resolved fleet; nothing here talks to a cloud.
"""

from __future__ import annotations

from generator.build.bootstrap import controllers, gcloud, kcc, terraform
from generator.build.bootstrap.plan import Plan, plan, problems
from generator.fleet import Fleet

FOLDER = "bootstrap"
SECTIONS = ("buckets", "checkpointing", "cluster", "nodePools")
"""Sections of the inventory that the files are made from."""

FORMATS = {"gcloud": gcloud.files, "terraform": terraform.files, "kcc": kcc.files}
"""Format → its files by path inside ``bootstrap/``, headers not yet put on top."""


def bootstrap_files(fleet: Fleet) -> dict[str, str]:
    """Every file of ``bootstrap/`` by path inside the cluster's folder, for a cluster of which
    :func:`problems` says nothing."""
    whole = plan(fleet)
    files = dict(controllers.files(whole))
    for render in FORMATS.values():
        files.update(render(whole))
    return {f"{FOLDER}/{path}": files[path] for path in sorted(files)}


def with_header(header: str, text: str) -> str:
    """Put the header on top, behind a script's first line."""
    if text.startswith("#!"):
        first, _, rest = text.partition("\n")
        return f"{first}\n{header}{rest}"
    return header + text


__all__ = [
    "FOLDER",
    "FORMATS",
    "SECTIONS",
    "Plan",
    "bootstrap_files",
    "plan",
    "problems",
    "with_header",
]
