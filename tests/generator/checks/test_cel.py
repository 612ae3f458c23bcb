import pytest

from generator.checks.cel import check_transition, create_faults, create_tree
from schemas.kinds.store import kinds_of, read_kind
from schemas.versions import Versions
from tests.generator.checks.objects import REMOVED, changed, jobset

VERSIONS = Versions.of(kueue="0.17.0", jobset="0.11.1")
JOBSET = read_kind(kinds_of(VERSIONS)["jobset.x-k8s.io/v1alpha2", "JobSet"])


def flavor(**spec):
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ResourceFlavor",
        "metadata": {"name": "v6e"},
        "spec": spec,
    }


def test_changing_a_present_block_of_a_jobset_breaks_its_transition_rule():
    new = changed(jobset(), ("spec", "failurePolicy", "maxRestarts"), 4)
    [fault] = check_transition(jobset(), new, JOBSET)
    assert fault.path == ("spec", "failurePolicy")
    assert fault.message == "Value is immutable"


def test_adding_or_removing_the_whole_block_meets_no_transition_rule():
    # Tried on a real API server: the rule needs a former self.
    without = changed(jobset(), ("spec", "failurePolicy"), REMOVED)
    assert check_transition(without, jobset(), JOBSET) == []
    assert check_transition(jobset(), without, JOBSET) == []


def test_writing_a_default_out_is_no_change():
    old = changed(jobset(), ("spec", "failurePolicy", "restartStrategy"), REMOVED)
    new = changed(jobset(), ("spec", "failurePolicy", "restartStrategy"), "Recreate")
    assert check_transition(old, new, JOBSET) == []


@pytest.mark.parametrize(
    ("kueue", "field", "refused"),
    [
        ("0.19.2", "nodeTaints", False),
        ("0.19.2", "nodeLabels", True),
        ("0.15.0", "nodeTaints", True),
    ],
)
def test_a_flavor_with_a_topology_freezes_what_its_release_freezes(kueue, field, refused):
    kind = read_kind(kinds_of(Versions.of(kueue))["kueue.x-k8s.io/v1beta2", "ResourceFlavor"])
    old = flavor(nodeLabels={"a": "b"}, topologyName="t")
    new = changed(old, ("spec", field), [] if field == "nodeTaints" else {"a": "c"})
    assert bool(check_transition(old, new, kind)) is refused


def test_transition_rules_are_skipped_for_a_new_object():
    assert create_tree({"r": [{"rule": "self == oldSelf"}]}) == {}


def test_a_rule_that_does_not_compile_is_reported_not_dropped():
    [fault] = create_faults(
        {}, {"r": [{"rule": "quantity(self.a).isGreaterThan(", "message": "m"}]}
    )
    assert "cannot be compiled" in fault.error


def test_an_expression_that_fails_counts_as_a_rejection():
    [fault] = create_faults({}, {"r": [{"rule": "self.missing == 1", "message": "no"}]})
    assert fault.message == "no"
    assert not fault.error


def test_a_message_expression_is_evaluated():
    rule = {"rule": "self.a > 1", "messageExpression": "'a is ' + string(self.a)", "message": "m"}
    [fault] = create_faults({"a": 1}, {"r": [rule]})
    assert fault.message == "a is 1"
