from datetime import date

import pytest

from generator.checks.waivers import apply_waivers, parse_waivers
from generator.findings import Finding, Severity

TODAY = date(2026, 12, 1)
FINDING = Finding("JOB012", Severity.ERROR, "m", cluster="dev", resource="JobSet team-a/llama-1")
WAIVER = {
    "rule": "JOB012",
    "resource": "JobSet team-a/llama-*",
    "reason": "moving to the new pool",
    "owner": "team-a",
    "expires": "2027-03-31",
}


def waivers(*entries, cluster="dev"):
    parsed, faults = parse_waivers(list(entries), {"JOB012", "SCH002"}, cluster=cluster)
    assert faults == []
    return parsed


def test_a_waiver_hides_a_finding_and_lists_it():
    standing, waived = apply_waivers([FINDING], waivers(WAIVER), TODAY)
    assert standing == []
    assert [(item.finding, item.waiver.owner) for item in waived] == [(FINDING, "team-a")]


def test_a_waiver_holds_on_its_last_day_and_not_after():
    held = waivers({**WAIVER, "expires": "2026-12-01"})
    assert apply_waivers([FINDING], held, TODAY)[0] == []
    standing, waived = apply_waivers([FINDING], held, date(2026, 12, 2))
    assert [finding.rule for finding in standing] == ["JOB012", "WVR002"]
    assert waived == []


@pytest.mark.parametrize(
    "change",
    [{"resource": "JobSet team-b/*"}, {"resource": "jobset team-a/*"}],
    ids=["another namespace", "another case"],
)
def test_a_waiver_that_hides_nothing_is_an_error(change):
    standing, _ = apply_waivers([FINDING], waivers({**WAIVER, **change}), TODAY)
    assert [finding.rule for finding in standing] == ["JOB012", "WVR003"]


def test_a_clusters_waiver_ends_at_the_cluster():
    standing, _ = apply_waivers([FINDING], waivers(WAIVER, cluster="prod"), TODAY)
    assert [finding.rule for finding in standing] == ["JOB012", "WVR003"]


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ({k: v for k, v in WAIVER.items() if k != "reason"}, "has no reason"),
        ({**WAIVER, "owner": ""}, "has no owner"),
        ({**WAIVER, "expires": "soon"}, "is no date"),
        ({**WAIVER, "rule": "JOB112"}, "unknown rule JOB112"),
        ({**WAIVER, "rule": "SCH002"}, "cannot be waived"),
        ({**WAIVER, "until": "x"}, "unknown field 'until'"),
        ("JOB012", "is no mapping"),
    ],
)
def test_a_wrong_waiver_is_named_and_hides_nothing(entry, says):
    parsed, [fault] = parse_waivers([entry], {"JOB012", "SCH002"})
    assert parsed == []
    assert fault.rule == "WVR001"
    assert says in fault.message


def test_waivers_that_are_no_list_are_named():
    assert parse_waivers({"rule": "x"}, set())[1][0].message == "waivers is no list"
