"""Checks over all objects of one cluster together: everything named exists, fits and agrees.

Each module yields ``(subject, finding)``. :func:`check_references` runs them all. Objects here have
passed their schema or are skipped: the readers take what they find and ignore what is malformed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from generator.checks.references import (
    existence,
    fit,
    nodes,
    preemption,
    priorities,
    queues,
    storage,
)
from generator.checks.references.world import Pair, World
from generator.checks.subject import Subject

CHECKS = (
    existence.unique_identities,
    existence.names_exist,
    existence.pod_references,
    existence.namespaces_exist,
    existence.namespaces_admitted,
    existence.namespaces_managed,
    queues.cohorts,
    queues.group_labels,
    queues.flavor_selectors,
    queues.queued_jobs_keep_their_nodes,
    fit.resources_covered,
    fit.jobs_fit_quota,
    fit.jobs_admitted_together,
    fit.quota_within_capacity,
    fit.quota_in_whole_nodes,
    nodes.selectors_match_a_pool,
    nodes.tolerations_cover_taints,
    nodes.checkpointing_covers_jobs,
    nodes.checkpointing_is_disjoint,
    nodes.slices_match_topology,
    priorities.one_global_default,
    priorities.classes_agree,
    priorities.preemption_can_happen,
    preemption.priorities_reach_across_queues,
    preemption.fair_sharing_comes_first,
    storage.checkpoints_below_a_bucket_claim,
)


def check_references(
    subjects: Iterable[Subject], facts: Mapping[str, Any] | None, *, complete: bool | None = None
) -> list[Pair]:
    """Judge the objects of one cluster together.

    Args:
        subjects: every object of the cluster.
        facts: the cluster's facts document (kind ``Cluster``), or None.
        complete: whether ``subjects`` is all that the cluster has of these kinds, so that a name
            that is not there is an error; otherwise it is a note. By default facts mean complete.
    """
    world = World.of(subjects, facts, facts is not None if complete is None else complete)
    return [pair for check in CHECKS for pair in check(world)]
