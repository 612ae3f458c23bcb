"""The bootstrap as Config Connector objects, as far as it has words for it.

Checked against the CRDs of k8s-config-connector at cdb85ecf (2026-08-22).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from generator.build.bootstrap.plan import Binding, Plan
from generator.emit_yaml import dump


class Refusal(NamedTuple):
    """Something of the bootstrap that Config Connector cannot express, and why."""

    what: str
    why: str


REFUSALS = (
    Refusal(
        "no StorageBucket",
        "its CRD has no hierarchicalNamespace (k8s-config-connector#2746), and a bucket made "
        "without one fails every backup and must be made again",
    ),
    Refusal(
        "no ContainerCluster",
        "its addonsConfig has no highScaleCheckpointing, so the add-on would stay off",
    ),
    Refusal(
        "no ContainerNodePool",
        "it would refer to a ContainerCluster that is not there",
    ),
)
INSTEAD = "use --format gcloud or terraform for these"


def refusal_notes() -> list[str]:
    """The refusals as lines of text."""
    return [*(f"{refusal.what}: {refusal.why}" for refusal in REFUSALS), INSTEAD]


def files(plan: Plan) -> dict[str, str]:
    """An IAMPolicyMember for each role, each with the refusals as a comment."""
    comment = "".join(f"# {line}\n" for line in refusal_notes())
    members = [_member(plan, binding) for binding in plan.bindings]
    return {
        f"kcc/iampolicymember-{body['metadata']['name']}.yaml": comment + dump(body)
        for body in members
    }


def _member(plan: Plan, binding: Binding) -> dict[str, Any]:
    # A bucket's name may hold '_', which an object's may not; an object's spec cannot be updated,
    # so the role is part of the name.
    bucket = binding.bucket.replace("_", "-")
    role = binding.role.rpartition(".")[2].lower()
    return {
        "apiVersion": "iam.cnrm.cloud.google.com/v1beta1",
        "kind": "IAMPolicyMember",
        "metadata": {
            "name": f"{bucket}.{binding.key}.{role}",
            "labels": {"app.kubernetes.io/managed-by": "stowplan"},
            "annotations": {
                "cnrm.cloud.google.com/project-id": plan.project,
                # The principal is that of every cluster of the project: a person takes it away.
                "cnrm.cloud.google.com/deletion-policy": "abandon",
            },
        },
        "spec": {
            "member": binding.member,
            "role": binding.role,
            "resourceRef": {
                "apiVersion": "storage.cnrm.cloud.google.com/v1beta1",
                "kind": "StorageBucket",
                "external": binding.bucket,
            },
        },
    }
