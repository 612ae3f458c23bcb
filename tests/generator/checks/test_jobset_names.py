"""The name budget, at the lengths that JobSet's own webhook was measured to accept and refuse."""

import pytest

from generator.checks.jobset_rules import name_budget
from generator.checks.schema import check_schema
from schemas.versions import Versions
from tests.generator.checks.objects import REMOVED, changed, jobset

VERSIONS = Versions.of(jobset="0.12.0")
RJOB = ("spec", "replicatedJobs", 0)


def named(length, completions=4, **spec):
    body = changed(jobset("j" * length, **spec), (*RJOB, "name"), "slice-job")
    for field in ("completions", "parallelism"):
        body = changed(body, (*RJOB, "template", "spec", field), completions or 4)
    if completions is None:
        body = changed(body, (*RJOB, "template", "spec", "completions"), REMOVED)
    return body


def refused(body):
    return any(f.rule == "SCH014" for f in check_schema(body, VERSIONS))


@pytest.mark.parametrize(("completions", "longest"), [(4, 43), (16, 42), (None, 51)])
def test_a_name_fits_up_to_the_measured_length(completions, longest):
    assert name_budget("slice-job", 2, completions) == longest
    assert not refused(named(longest, completions))
    assert refused(named(longest + 1, completions))


def test_a_coordinator_halves_the_room():
    chosen = {"replicatedJob": "slice-job", "jobIndex": 0, "podIndex": 0}
    assert not refused(named(24, coordinator=chosen))
    assert refused(named(25, coordinator=chosen))
