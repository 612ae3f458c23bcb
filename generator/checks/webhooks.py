"""Rules that live in admission webhooks or in the API server's code, not in the schemas.

Each rule is a row of :data:`RULES` with its upstream source; ``kueue_rules`` and ``jobset_rules``
hold the code. Rules that need the rest of the cluster are in :mod:`generator.checks.references`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from generator.checks import core_rules, jobset_rules, kueue_rules
from generator.checks.structure import Path
from generator.findings import Finding, Severity
from schemas.kinds.store import KindRef

Fault = tuple[str, str, Path]
"""A message, a fix and the path concerned."""


@dataclass(frozen=True, slots=True)
class WebhookRule:
    """One rule of an admission webhook.

    Attributes:
        kind: the kind that it judges.
        judge: yields the faults of an object that its schema accepts.
        source: the upstream function, ``repository:path#function``.
    """

    kind: str
    judge: Callable[[Mapping[str, Any], str], Iterable[Fault]]
    source: str


_CQ = "kueue:pkg/webhooks/clusterqueue_webhook.go"
_RF = "kueue:pkg/webhooks/resourceflavor_webhook.go"
_JS = "jobset:pkg/webhooks/jobset_webhook.go"
_K8S = "kubernetes:pkg/apis"
_KJ = "kueue:pkg/controller/jobframework/validation.go"

RULES: tuple[WebhookRule, ...] = (
    WebhookRule("ClusterQueue", kueue_rules.resource_groups, f"{_CQ}#validateResourceGroups"),
    WebhookRule("ClusterQueue", kueue_rules.totals, f"{_CQ}#validateTotalFlavors"),
    WebhookRule("ClusterQueue", kueue_rules.preemption, f"{_CQ}#validatePreemption"),
    WebhookRule("ClusterQueue", kueue_rules.fungibility, f"{_CQ}#validateFlavorFungibility"),
    WebhookRule("ClusterQueue", kueue_rules.fair_sharing, "kueue:pkg/webhooks/common.go"),
    WebhookRule("ClusterQueue", kueue_rules.selector, f"{_CQ}#ValidateClusterQueue"),
    WebhookRule("ClusterQueue", kueue_rules.check_flavors, f"{_CQ}#ValidateClusterQueue"),
    WebhookRule("Cohort", kueue_rules.resource_groups, "kueue:pkg/webhooks/cohort_webhook.go"),
    WebhookRule("Cohort", kueue_rules.fair_sharing, "kueue:pkg/webhooks/cohort_webhook.go"),
    WebhookRule("ResourceFlavor", kueue_rules.node_labels, f"{_RF}#ValidateResourceFlavor"),
    WebhookRule("ResourceFlavor", kueue_rules.node_taints, f"{_RF}#validateNodeTaints"),
    WebhookRule("ResourceFlavor", kueue_rules.flavor_tolerations, f"{_RF}#validateTolerations"),
    WebhookRule("JobSet", kueue_rules.job_labels, f"{_KJ}#ValidateJobOnCreate"),
    WebhookRule("Job", kueue_rules.job_labels, f"{_KJ}#ValidateJobOnCreate"),
    WebhookRule("JobSet", jobset_rules.gates, f"{_JS}#ValidateCreate"),
    WebhookRule("JobSet", jobset_rules.network, f"{_JS}#ValidateCreate"),
    WebhookRule("JobSet", jobset_rules.managed_by, f"{_JS}#ValidateCreate"),
    WebhookRule("JobSet", jobset_rules.names, f"{_JS}#ValidateCreate"),
    WebhookRule("JobSet", jobset_rules.pod_templates, f"{_JS}#Default"),
    WebhookRule("JobSet", jobset_rules.depends_on, f"{_JS}#ValidateCreate"),
    WebhookRule("JobSet", jobset_rules.targets, f"{_JS}#ValidateCreate"),
    WebhookRule("JobSet", jobset_rules.failure_rules, f"{_JS}#validateFailurePolicy"),
    WebhookRule("JobSet", jobset_rules.coordinator, f"{_JS}#validateCoordinator"),
    WebhookRule("JobSet", jobset_rules.volume_claims, f"{_JS}#validateVolumeClaimPolicies"),
    WebhookRule("PriorityClass", core_rules.preemption_policy, f"{_K8S}/scheduling/validation"),
    WebhookRule("PriorityClass", core_rules.whole_numbers, f"{_K8S}/scheduling/types.go"),
    WebhookRule("CronJob", core_rules.whole_numbers, f"{_K8S}/batch/types.go"),
    WebhookRule("CronJob", core_rules.cron_job, f"{_K8S}/batch/validation"),
)

_BY_KIND: dict[str, tuple[WebhookRule, ...]] = {
    kind: tuple(rule for rule in RULES if rule.kind == kind) for kind in {r.kind for r in RULES}
}

FILLED_IN: dict[str, tuple[tuple[str, ...], ...]] = {
    "JobSet": (("spec", "failurePolicy", "rules", "*", "name"),),
}
"""Required fields that a mutating webhook fills in before validation, so that leaving them out is
no fault (``jobset_webhook.go#Default``)."""


def webhook_findings(document: Mapping[str, Any], ref: KindRef) -> Iterator[Finding]:
    """Judge an object that its schema accepts by the webhooks of its controller."""
    for rule in _BY_KIND.get(ref.kind, ()):
        for message, fix, path in rule.judge(document, ref.archive):
            yield Finding("SCH014", Severity.ERROR, message, fix, path=path)


def without_filled_in(findings: list[Finding], kind: str) -> list[Finding]:
    """Drop the findings about required fields that a mutating webhook fills in."""
    patterns = FILLED_IN.get(kind, ())
    return [
        finding
        for finding in findings
        if finding.rule != "SCH004" or not any(_matches(finding.path, p) for p in patterns)
    ]


def _matches(path: Path, pattern: tuple[str, ...]) -> bool:
    return len(path) == len(pattern) and all(
        word in ("*", part) for part, word in zip(path, pattern, strict=True)
    )
