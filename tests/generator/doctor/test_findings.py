"""Every rule of the doctor, planted in a healthy cluster; the healthy one has none."""

from __future__ import annotations

import copy
import random

import pytest

from generator.checks.live_rules import LIVE
from generator.doctor.diagnose import diagnose
from generator.doctor.reads import READS

from .faults import cluster, drift, drivers, placement, queues
from .faults.plant import Case, find, refuse
from .fleet import healthy, wanted

CASES = (*cluster.CASES, *drivers.CASES, *queues.CASES, *placement.CASES, *drift.CASES)


def test_a_healthy_cluster_has_no_finding() -> None:
    report = diagnose(healthy(), wanted())
    assert report.findings == []


def test_without_a_folder_the_same_cluster_has_none_either() -> None:
    assert diagnose(healthy()).findings == []


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_planted_fault_is_found_and_told(case: Case) -> None:
    found = find(case.plant, case.rule)
    fitting = [f for f in found if all(text in f.message for text in case.says)]
    assert fitting, [f.message for f in found]
    finding = fitting[0]
    assert finding.severity is case.severity
    assert case.resource in finding.resource
    assert case.fix in finding.fix


def test_every_rule_of_a_live_cluster_is_planted() -> None:
    assert {case.rule for case in CASES} == {row[0] for row in LIVE}


def test_what_cannot_be_read_is_not_called_missing() -> None:
    """Refused pods must not look like missing drivers, nor refused queues like missing ones."""
    for read in READS:
        snapshot = healthy()
        refuse(read.key)(snapshot)
        found = diagnose(snapshot, wanted()).findings
        assert {f.rule for f in found} == {"DOC001"}, read.key


# Which cluster it is shows in names; who may not read them has the wrong folder compared.
@pytest.mark.parametrize("case", [case for case in CASES if case.rule != "DOC009"], ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_with_half_of_the_rights_it_says_less_and_nothing_else(case: Case, seed: int) -> None:
    whole = healthy()
    case.plant(whole)
    partial = copy.deepcopy(whole)
    keys = sorted(partial.objects)
    for key in random.Random(seed).sample(keys, len(keys) // 2):
        refuse(key)(partial)
    known = {(f.rule, f.resource) for f in diagnose(whole, wanted()).findings}
    told = [f for f in diagnose(partial, wanted()).findings if f.rule != "DOC001"]
    assert [f for f in told if (f.rule, f.resource) not in known] == []


def test_what_is_not_examined_for_want_of_rights_is_named() -> None:
    found = find(refuse("jobpods"), "DOC001")
    told = next(f for f in found if f.resource == "the doctor")
    assert "stuck slices" in told.message
    assert "spread slices" in told.message
    assert "ClusterQueues" not in told.message
