import json
import re
import subprocess
from pathlib import Path

import pytest

from generator.checks.policy import (
    KINDS,
    ConftestEngine,
    PolicyError,
    RegorusEngine,
    engine_for,
    policy_files,
    policy_folder,
)
from generator.checks.policy_metadata import parse_rules, policy_rules, rule_heads
from generator.checks.reading import read_groups
from generator.checks.rule_docs import stale
from generator.checks.run import judge
from generator.checks.subject import Subject
from generator.yaml_load import load_documents
from schemas.versions import Versions
from tests.go_binaries import CONFTEST

VERSIONS = Versions.of()
ROOT = policy_folder()
REPOSITORY = Path(__file__).resolve().parents[2]
TESTS = sorted(ROOT.rglob("*_test.rego"))
CASES = sorted((REPOSITORY / "tests" / "cases").rglob("*.yaml"))


@pytest.fixture(scope="session")
def conftest():
    binary = CONFTEST.find()
    if binary is None:
        pytest.skip(CONFTEST.missing)
    return binary


def bodies():
    for path in CASES:
        if path.parent.name == "documents" or path.name in ("case.yaml", "not-in-a-file.yaml"):
            continue
        for document in load_documents(path.read_text("utf-8"), str(path)):
            # As the checks hand an object on: without values of a wrong type.
            yield from (item.readable for item in judge([Subject(document.value)], VERSIONS, None))


def test_both_engines_find_the_same_in_every_case(conftest):
    objects = list(bodies())
    assert len(objects) > 500
    embedded = engine_for().judge(objects)
    assert {result.rule for results in embedded for result in results} == set(policy_rules())
    assert ConftestEngine(conftest).judge(objects) == embedded


def test_both_engines_take_thresholds_from_data(conftest):
    data = {"settings": {"thresholds": {"tpu_ram_disk_factor": 3}}}
    body = load_documents((REPOSITORY / "tests/cases/rules/SIZ001/right.yaml").read_text(), "x")
    objects = [body[0].value]
    for engine in (RegorusEngine(data=data), ConftestEngine(conftest, data=data)):
        [[result]] = engine.judge(objects)
        assert result.rule == "SIZ001"
        assert result.fix == "write at least 192Gi"


def ram_disk_of(peers, checkpoint, size):
    """A CheckpointConfiguration on GPU nodes whose sizes are in GiB."""
    body = load_documents((REPOSITORY / "tests/cases/rules/SIZ002/right.yaml").read_text(), "x")
    configuration = body[0].value
    notes = configuration["metadata"]["annotations"]
    notes["stowplan.dev/peers"] = str(peers)
    notes["stowplan.dev/local-checkpoint-size"] = f"{checkpoint}Gi"
    configuration["spec"]["inMemoryVolumeSize"] = f"{size}Gi"
    return configuration


def test_the_least_ram_disk_is_exact_to_the_gibibyte():
    # 3.3 for each copy: whole at every tenth GiB. In binary fractions 170 * 23.1 is above 3927.
    wanted = [(n, c, c * 33 * (1 + n) // 10) for n in range(9) for c in range(10, 400, 10)]
    engine = engine_for()
    enough = engine.judge([ram_disk_of(*case) for case in wanted])
    assert [r for results in enough for r in results if r.rule == "SIZ002"] == []
    short = engine.judge([ram_disk_of(n, c, least - 1) for n, c, least in wanted])
    fixes = [r.fix for results in short for r in results if r.rule == "SIZ002"]
    assert fixes == [f"write at least {least}Gi" for _, _, least in wanted]


@pytest.mark.parametrize(
    ("rule", "old", "new"),
    [
        ("MTC029", "backup_interval_minutes=5", "backup_interval_minutes=05"),
        ("MTC013", 'backup-interval-minutes: "10"', 'backup-interval-minutes: "010"'),
        ("SIZ002", 'peers: "1"', 'peers: "01"'),
        ("JOB009", 'gke-tpu-topology: "4x4"', 'gke-tpu-topology: "04x04"'),
        ("MTC011", 'gke-version: "1.32.3-gke.1000000"', 'gke-version: "1.032.3-gke.1000000"'),
    ],
)
def test_numbers_with_zeroes_in_front_are_numbers(conftest, rule, old, new):
    text = (REPOSITORY / f"tests/cases/rules/{rule}/wrong.yaml").read_text("utf-8")
    assert old in text
    objects = [document.value for document in load_documents(text.replace(old, new), "x")]
    embedded = engine_for().judge(objects)
    assert rule in {result.rule for results in embedded for result in results}
    assert ConftestEngine(conftest).judge(objects) == embedded


def test_the_settings_file_states_the_defaults():
    text = (ROOT / "settings.yaml").read_text("utf-8")
    data = load_documents(text, "settings.yaml")[0].value
    objects = list(bodies())[:200]
    assert RegorusEngine(data=data).judge(objects) == engine_for().judge(objects)


def test_conftest_verify_is_green(conftest):
    done = subprocess.run(
        [conftest, "verify", "--policy", str(ROOT), "--show-builtin-errors", "--output", "json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    passed = sum(entry["successes"] for entry in json.loads(done.stdout))
    assert passed == sum(len(test_names(path)) for path in TESTS)


def conftest_test(conftest, namespace, *paths):
    command = [conftest, "test", "--policy", str(ROOT), "--namespace", namespace]
    done = subprocess.run(
        [*command, "--output", "json", *map(str, paths)],
        capture_output=True,
        text=True,
        check=False,
    )
    return {
        result["metadata"]["id"]
        for entry in json.loads(done.stdout)
        for group in ("failures", "warnings")
        for result in entry.get(group) or []
    }


CONCERNS = sorted(path.stem for path in (ROOT / "main").glob("*.rego") if path.stem != "main")


def test_a_namespace_is_a_concern_and_all_of_them_are_main(conftest):
    wrong = sorted((REPOSITORY / "tests" / "cases" / "rules").glob("*/wrong.yaml"))
    by_concern = {name: conftest_test(conftest, f"main.{name}", *wrong) for name in CONCERNS}
    packages = {rule.id: rule.package.rpartition(".")[2] for rule in policy_rules().values()}
    for name, found in by_concern.items():
        assert found == {rule for rule, package in packages.items() if package == name}
    assert conftest_test(conftest, "main", *wrong) == set(packages)


def test_one_concern_says_nothing_of_another_concerns_kinds(conftest):
    fine = REPOSITORY / "tests/cases/rules/REF020/right.yaml"
    assert [conftest_test(conftest, f"main.{name}", fine) for name in CONCERNS] == [
        set() for _ in CONCERNS
    ]


COMPILED = REPOSITORY / "compiled"
needs_fleet = pytest.mark.skipif(not COMPILED.is_dir(), reason="no rendered fleet in this tree")


@needs_fleet
def test_both_engines_find_the_same_in_the_whole_fleet(conftest):
    subjects = [s for group in read_groups([str(COMPILED)]) for s in group.subjects]
    objects = [item.readable for item in judge(subjects, VERSIONS, None)]
    assert objects
    assert ConftestEngine(conftest).judge(objects) == engine_for().judge(objects)


@needs_fleet
def test_conftest_is_silent_on_the_fleet(conftest):
    done = subprocess.run(
        [conftest, "test", "--policy", str(ROOT), "--output", "json", str(COMPILED)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    loud = [
        (entry["filename"], result["msg"])
        for entry in json.loads(done.stdout)
        for result in [*entry.get("failures", []), *entry.get("warnings", [])]
        if result["metadata"]["severity"] != "note"
    ]
    assert loud == []


def test_names(path):
    return re.findall(r"^(test_\w+) if", path.read_text("utf-8"), re.M)


test_names.__test__ = False


def test_the_policies_own_tests_pass_in_the_embedded_engine():
    from regorus import Engine

    engine = Engine()
    for path in [*policy_files(), *TESTS]:
        engine.add_policy(str(path), path.read_text("utf-8"))
    engine.set_input_json("{}")
    failed = []
    count = 0
    for path in TESTS:
        package = re.search(r"^package ([\w.]+)", path.read_text("utf-8"), re.M)[1]
        for name in test_names(path):
            count += 1
            if engine.eval_rule_as_json(f"data.{package}.{name}") != "true":
                failed.append(name)
    assert failed == []
    assert count >= 2 * len(policy_rules())


def test_every_rule_has_a_test_beside_it():
    for rule in policy_rules().values():
        beside = (ROOT / rule.file.replace(".rego", "_test.rego")).read_text("utf-8")
        for form in ("wrong", "right"):
            assert f"test_{rule.id.lower()}_{form} if" in beside


def test_every_rule_is_collected_by_its_concern_and_every_concern_by_main():
    main = (ROOT / "main" / "main.rego").read_text("utf-8")
    for path in policy_files():
        if path.parent.name not in ("main", "lib"):
            concern = (ROOT / "main" / f"{path.parent.name}.rego").read_text("utf-8")
            for package, head in rule_heads(path.read_text("utf-8")):
                kind, _, suffix = head.partition("_")
                assert f"in data.{package}.{head}\n" in concern
                assert f"in data.main.{path.parent.name}.{kind}\n" in main
                assert suffix in KINDS


FORBIDDEN = {
    r"%d|%x|%o|%b|%T|%f|%e|%g|%\d|%-": "verbs that engines print differently",
    r"\bcrypto\.|\brego\.metadata|\bjson\.match_schema|\byaml\.|\bopa\.runtime|\bhttp\.send": (
        "builtins that an engine lacks"
    ),
    r"\bparse_config": "builtins of conftest alone",
    r'[^"]\$"': "template strings",
    r"^\s*import data\.": "imports of packages, which one engine evaluates whole",
    r"\btime\.now_ns|\brand\.|\buuid\.": "builtins whose result changes from run to run",
}


@pytest.mark.parametrize("path", policy_files(), ids=lambda path: path.name)
@pytest.mark.parametrize("pattern", FORBIDDEN, ids=FORBIDDEN.get)
def test_policies_keep_to_what_every_engine_evaluates_alike(path, pattern):
    code = re.sub(r"^\s*#.*$", "", path.read_text("utf-8"), flags=re.M)
    code = re.sub(r"`[^`]*`", "``", code)
    assert not re.findall(pattern, code, re.M)


@pytest.mark.parametrize("path", policy_files(), ids=lambda path: path.name)
def test_parse_bytes_is_always_guarded(path):
    # One failing builtin fails the whole query in the embedded engine.
    text = path.read_text("utf-8")
    assert text.count("units.parse_bytes") == (1 if path.name == "objects.rego" else 0)


def test_rule_pages_are_current():
    assert stale(REPOSITORY / "docs" / "rules") == []


HEAD = 'deny_jobset contains data.stowplan.lib.error("JOB999", "x", "y", []) if true\n'


@pytest.mark.parametrize(
    "text",
    [
        "package p\n" + HEAD,
        "package p\n# METADATA\n# title: x\n" + HEAD,
        "package p\n# METADATA\n# title: x\n# description: why\n# custom:\n#   id: JOB998\n"
        "#   severity: error\n#   fix: z\n#   reference: r\n" + HEAD,
        "package p\n# METADATA\n# title: x\n# description: why\n# custom:\n#   id: JOB999\n"
        "#   severity: warning\n#   fix: z\n#   reference: r\n" + HEAD,
    ],
    ids=["no block", "incomplete", "another id", "another severity"],
)
def test_a_rule_and_its_metadata_must_agree(text):
    with pytest.raises(PolicyError):
        parse_rules(text, "p.rego")


def test_a_broken_policy_is_an_error_not_a_traceback(tmp_path):
    (tmp_path / "x.rego").write_text("package x\ndeny_any contains y if {")
    with pytest.raises(PolicyError, match=r"x\.rego"):
        RegorusEngine(tmp_path)


def test_a_missing_binary_is_named():
    with pytest.raises(PolicyError, match="no 'no-such-conftest' on PATH"):
        ConftestEngine("no-such-conftest").judge([{"kind": "X"}])


def test_an_unknown_engine_is_named():
    with pytest.raises(PolicyError, match="choose one of"):
        engine_for("opa")


def test_an_object_that_nests_too_deeply_for_the_engine_is_a_policy_error():
    value = None
    for _ in range(500):
        value = {"a": value}
    with pytest.raises(PolicyError):
        engine_for().judge([{"apiVersion": "v1", "kind": "X", "spec": value}])
