"""Each folder is a scenario: ``wrong.yaml`` breaks what it is named for, ``right.yaml`` does not.

Folders of ``public`` carry a ``case.yaml`` with the rules and the report that they come from.
"""

from datetime import date
from pathlib import Path

import pytest
import yaml

from generator.checks.policy import engine_for
from generator.checks.policy_metadata import policy_rules
from generator.checks.reading import read_groups
from generator.checks.report import check_groups
from generator.checks.rules import all_rules
from generator.findings import Severity
from generator.yaml_load import load_documents
from schemas.versions import Versions

CASES = Path(__file__).parent
VERSIONS = Versions.of(kueue="0.17.0", jobset="0.11.1", kubernetes="1.33")
RULES = sorted(folder for folder in (CASES / "rules").iterdir())
PUBLIC = sorted(folder for folder in (CASES / "public").iterdir() if folder.is_dir())


def findings(path):
    report = check_groups(
        read_groups([str(path)]),
        versions=VERSIONS,
        engine=engine_for(),
        today=date(2026, 12, 1),
    )
    return report.findings


def rules_of(path):
    return {finding.rule for finding in findings(path)}


def policy_results(path):
    """What the policies alone say, also where the schema check would say it better."""
    bodies = [d.value for d in load_documents(path.read_text("utf-8"), str(path))]
    return {result.rule for results in engine_for().judge(bodies) for result in results}


@pytest.mark.parametrize("folder", RULES, ids=lambda folder: folder.name)
def test_the_wrong_form_breaks_the_rule(folder):
    rule = folder.name
    described = policy_rules().get(rule)
    found = rules_of(folder / "wrong.yaml")
    if described and described.schema:
        assert rule in policy_results(folder / "wrong.yaml")
        assert any(other.startswith("SCH") for other in found)
    else:
        assert rule in found


@pytest.mark.parametrize("folder", RULES, ids=lambda folder: folder.name)
def test_the_right_form_breaks_nothing(folder):
    left = [f for f in findings(folder / "right.yaml") if f.severity is not Severity.NOTE]
    assert left == []
    assert folder.name not in rules_of(folder / "right.yaml")
    assert folder.name not in policy_results(folder / "right.yaml")


def test_every_rule_has_a_case():
    without = {"POL001", "WVR001", "WVR002", "WVR003", "YML001", "YML002", "YML003"}
    # Those have tests of their own: test_run, test_waivers and test_tolerant; the rules of a live
    # cluster have theirs in tests/generator/doctor, those of the inventory in tests/generator.
    of_files = {rule for rule in all_rules() if not rule.startswith(("DOC", "INV"))}
    assert {folder.name for folder in RULES} == of_files - without


@pytest.mark.parametrize("folder", PUBLIC, ids=lambda folder: folder.name)
def test_a_public_case_is_caught_in_its_wrong_form_only(folder):
    expected = set(yaml.safe_load((folder / "case.yaml").read_text("utf-8"))["rules"])
    assert expected <= rules_of(folder / "wrong.yaml")
    right = findings(folder / "right.yaml")
    assert [f for f in right if f.severity is not Severity.NOTE or f.rule in expected] == []


def test_public_cases_that_no_file_can_show_say_why():
    listed = yaml.safe_load((CASES / "public" / "not-in-a-file.yaml").read_text("utf-8"))
    assert all(entry["reason"] and entry["report"] for entry in listed.values())
    assert not set(listed) & {folder.name for folder in PUBLIC}


DOCUMENTS = {
    "checkpoint.yaml": {"YML002", "OPS001", "SIZ007", "MTC010", "SCH010"},
    "checkpoint-indented-page.yaml": {"YML002", "OPS001", "SIZ007", "MTC010", "SCH010"},
    "kueue.yaml": {"YML003", "SCH002", "SCH004", "SCH009", "KUE010", "KUE023"},
    "hotswap.yaml": {"YML003", "OPS001", "KUE004"},
    "kueue-and-hotswap.yaml": {
        "YML003",  # the separators are indented with everything else
        "SCH002",  # preemption.reclaimOutOfCohort
        "SCH004",  # coveredResources
        "SCH009",  # v1beta1
        "KUE001",  # the queue name is an annotation
        "KUE002",  # priority-class on the pod template
        "KUE003",  # managed-by on the pod template
        "KUE010",  # no namespaceSelector
        "REF017",  # two priorities, no preemption
        "REF021",  # quota 32, two jobs of 32: queue and Hotswap never meet
        "OPS001",
    },
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_documents_as_printed_have_each_fault_named(name):
    found = findings(CASES / "documents" / name)
    assert DOCUMENTS[name] <= {finding.rule for finding in found}
    assert all(finding.manifest and finding.manifest.line for finding in found)


def test_the_broken_indentation_of_the_tolerations_is_named_with_its_line():
    [finding] = [f for f in findings(CASES / "documents" / "checkpoint.yaml") if f.rule == "YML002"]
    assert finding.manifest.line == 11
    assert "'operator' is indented by 8 spaces" in finding.message
    assert "indent it by 6 spaces" in finding.fix


def test_both_faults_of_the_documents_cluster_queue_are_reported_at_once():
    found = findings(CASES / "documents" / "kueue.yaml")
    texts = [f.message for f in found if f.resource == "ClusterQueue tpu-training-cq"]
    assert any("spec.resourceGroups[0].coveredResources is required" in text for text in texts)
    assert any("spec.preemption.reclaimOutOfCohort" in text for text in texts)
