"""Objects for Config Connector and Flux: ours are not for the cluster, anybody else's get a note."""

from __future__ import annotations

import pytest

from generator.checks.schema import check_object, is_local
from schemas.versions import Versions

GROUPS = [
    ("iam.cnrm.cloud.google.com/v1beta1", "IAMPolicyMember"),
    ("kustomize.toolkit.fluxcd.io/v1", "Kustomization"),
    ("source.toolkit.fluxcd.io/v1", "GitRepository"),
]


@pytest.mark.parametrize(("api_version", "kind"), GROUPS)
def test_only_what_stowplan_wrote_is_passed_over(api_version: str, kind: str) -> None:
    body = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}, "spec": {}}
    assert not is_local(body)
    assert "SCH012" in {finding.rule for finding in check_object(body, Versions.of())[0]}
    body["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "stowplan"}
    assert is_local(body)
