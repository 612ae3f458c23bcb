"""From a cluster to a snapshot: refusals, servers that die, what is kept, files that are none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from generator.doctor import rbac
from generator.doctor.collect import collect
from generator.doctor.diagnose import diagnose
from generator.doctor.kubectl import NoClusterError, RefusedError
from generator.doctor.reads import READS
from generator.doctor.snapshot import SnapshotError, dump, kept, load

from .fleet import GROUPS, healthy, wanted


class FakeClient:
    """A cluster in memory; paths that ``refusals`` name are refused."""

    context = "fake"

    def __init__(self, refusals: dict[str, Exception] | None = None) -> None:
        self.refusals = refusals or {}
        self.asked: list[str] = []

    def get(self, path: str) -> dict[str, Any]:
        self._ask(path)
        if path == "/version":
            return {"gitVersion": "v1.36.3"}
        if path == "/apis":
            builtin = {
                read.group: ["v1"] for read in READS if read.group and read.group not in GROUPS
            }
            served = builtin | {group: versions for group, (versions, _) in GROUPS.items()}
            return {
                "groups": [
                    {"name": name, "versions": [{"version": v} for v in versions]}
                    for name, versions in served.items()
                ]
            }
        for group, (_, kinds) in GROUPS.items():
            if path.startswith(f"/apis/{group}/"):
                return {"resources": [{"kind": kind} for kind in kinds]}
        raise RefusedError("NotFound", path)

    def items(self, path: str, query: dict[str, str]) -> list[dict[str, Any]]:
        self._ask(path)
        return [{"metadata": {"name": path}}]

    def _ask(self, path: str) -> None:
        self.asked.append(path)
        for part, error in self.refusals.items():
            if part in path:
                raise error


def test_everything_in_the_table_is_read_and_an_absent_optional_object_is_none() -> None:
    snapshot = collect(FakeClient())
    assert set(snapshot.objects) == {read.key for read in READS}
    assert snapshot.items("kueueconfig") == []
    assert snapshot.unread == []


def test_objects_are_read_in_the_version_that_they_are_compiled_in() -> None:
    client = FakeClient()
    collect(client, api_versions={"kueue.x-k8s.io": "v1beta1"})
    assert "/apis/kueue.x-k8s.io/v1beta1/clusterqueues" in client.asked
    other = FakeClient()
    collect(other, api_versions={"kueue.x-k8s.io": "v1beta9"})
    assert "/apis/kueue.x-k8s.io/v1beta2/clusterqueues" in other.asked


def test_secrets_are_never_asked_for() -> None:
    client = FakeClient()
    collect(client, wanted().singles())
    assert not [path for path in client.asked if "secret" in path.lower()]


def test_a_refused_kind_is_noted_and_the_rest_is_read() -> None:
    refusal = RefusedError("Forbidden", "workloads is forbidden")
    snapshot = collect(FakeClient({"/workloads": refusal}))
    (unread,) = snapshot.unread
    assert (unread.key, unread.reason) == ("workloads", "Forbidden")
    assert len(snapshot.objects) == len(READS) - 1


def test_a_user_who_may_read_nothing_is_told_instead_of_calling_the_cluster_healthy() -> None:
    refusal = RefusedError("Forbidden", 'nodes is forbidden: User "eve" cannot list')
    paths = dict.fromkeys((f"/{read.plural}" for read in READS), refusal)
    with pytest.raises(NoClusterError, match=r'refuses every read \(.*"eve".*--rbac prints'):
        collect(FakeClient(paths))
    kept = READS[0].plural
    snapshot = collect(FakeClient({path: no for path, no in paths.items() if path != f"/{kept}"}))
    assert set(snapshot.objects) == {READS[0].key}


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("/version", {"hello": 1}),
        ("/version", {}),
        ("/apis", {}),
        ("/apis", {"groups": None}),
        ("/apis", {"groups": [{"name": "x"}]}),
        ("/apis", {"groups": ["x"]}),
    ],
)
def test_something_else_than_an_api_server_is_not_called_an_empty_cluster(
    path: str, answer: dict[str, Any]
) -> None:
    class Other(FakeClient):
        def get(self, asked: str) -> dict[str, Any]:
            return answer if asked == path else super().get(asked)

    with pytest.raises(NoClusterError, match="is no Kubernetes API server"):
        collect(Other())
    with pytest.raises(NoClusterError, match="is no Kubernetes API server"):
        collect(FakeClient({path: RefusedError("NotFound", "404")}))


def test_kinds_of_a_version_that_is_gone_by_now_are_missing() -> None:
    gone = RefusedError("NotFound", "no such version")
    snapshot = collect(FakeClient({"/apis/jobset.x-k8s.io/v1alpha2": gone}))
    assert snapshot.serves("jobset.x-k8s.io", "JobSet") == []
    assert [(u.key, u.reason) for u in snapshot.unread] == [("jobsets", "NotServed")]


@pytest.mark.parametrize("reason", ["Forbidden", "TooManyRequests", "ServiceUnavailable"])
def test_kinds_that_are_not_listed_are_not_called_missing(reason: str) -> None:
    client = FakeClient({"/apis/kueue.x-k8s.io/v1beta2": RefusedError(reason, "no")})
    with pytest.raises(
        NoClusterError, match=r"refuses to say what it serves in kueue\.x-k8s\.io/v1beta2"
    ):
        collect(client)


@pytest.mark.parametrize(
    "error",
    [NoClusterError("connection refused"), RefusedError("ServiceUnavailable", "etcd is away")],
)
def test_a_server_that_dies_half_way_ends_the_run(error: Exception) -> None:
    with pytest.raises(NoClusterError, match=r"stopped answering on the read of workloads\.kueue"):
        collect(FakeClient({"/workloads": error}))


def test_a_snapshot_survives_saving_and_gives_the_same_report(tmp_path: Path) -> None:
    snapshot = healthy()
    snapshot.objects["nodes"].pop()
    path = tmp_path / "seen.json"
    path.write_text(dump(snapshot))
    again = load(path)
    assert again == snapshot
    before, after = diagnose(snapshot, wanted()), diagnose(again, wanted())
    assert after.findings == before.findings


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "no JSON"),
        ("[]", "expected what stowplan doctor --save wrote"),
        ('{"kind": "DoctorSnapshot", "apiVersion": "stowplan.dev/v9"}', "expected stowplan.dev/v1"),
        ('{"kind": "DoctorSnapshot", "apiVersion": "stowplan.dev/v1alpha1"}', "damaged"),
    ],
)
def test_a_file_that_is_no_snapshot_is_refused(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "seen.json"
    path.write_text(content)
    with pytest.raises(SnapshotError, match=said):
        load(path)


def test_objects_that_are_none_are_refused(tmp_path: Path) -> None:
    value = json.loads(dump(healthy()))
    value["objects"]["nodes"] = ["pool-a-0"]
    path = tmp_path / "seen.json"
    path.write_text(json.dumps(value))
    with pytest.raises(SnapshotError, match=r"objects\.nodes"):
        load(path)


def test_of_a_pod_only_what_is_looked_at_is_kept() -> None:
    pod = {
        "metadata": {"name": "p", "namespace": "n", "annotations": {"secret.test/key": "s3cret"}},
        "spec": {
            "nodeName": "x",
            "containers": [{"name": "c", "args": ["--token=s3cret"], "image": "i"}],
        },
        "status": {"phase": "Running"},
    }
    small = kept("jobpods", pod)
    assert "s3cret" not in json.dumps(small)
    assert small["spec"] == {"nodeName": "x", "containers": [{"name": "c"}]}


def test_arguments_named_like_credentials_become_digests_once() -> None:
    args = ["train.py", "--api-key=s3cret", "--hf-token", "s3cret", "tokenizer=t5", "steps=10", 7]
    small = kept("jobsets", {"metadata": {}, "spec": {"args": args}})
    assert "s3cret" not in json.dumps(small)
    assert small["spec"]["args"][4:] == ["tokenizer=t5", "steps=10", 7]
    assert small["spec"]["args"][1].startswith("--api-key=sha256:")
    assert small["spec"]["args"][2] == "--hf-token"
    assert kept("jobsets", small) == small


def test_kubectls_own_copy_of_an_object_is_left_out() -> None:
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": "s3cret", "a": "b"}
    item = kept("clusterqueues", {"metadata": {"name": "q", "annotations": annotations}})
    assert item["metadata"]["annotations"] == {"a": "b"}


class TestRoles:
    def test_they_only_list_and_get_and_never_touch_secrets(self) -> None:
        for manifest in rbac.manifests(wanted().singles(), {"kind": "User", "name": "x"}):
            for rule in manifest.get("rules", []):
                assert set(rule["verbs"]) <= {"get", "list"}
                assert "secrets" not in rule["resources"]
                assert "*" not in [*rule["resources"], *rule["apiGroups"]]

    def test_every_read_is_covered_where_it_is_made(self) -> None:
        singles = wanted().singles()
        roles = rbac.manifests(singles, {"kind": "User", "name": "x"})
        rules = {
            (role["metadata"].get("namespace", ""), group, resource, tuple(rule["verbs"]))
            for role in roles
            for rule in role.get("rules", [])
            for group in rule["apiGroups"]
            for resource in rule["resources"]
        }
        for read in (*READS, *singles):
            verbs = ("get",) if read.name else ("list",)
            assert (read.namespace, read.group, read.plural, verbs) in rules

    @pytest.mark.parametrize(
        ("text", "subject"),
        [
            ("User:a@b.c", {"kind": "User", "name": "a@b.c"}),
            ("ServiceAccount:ns/x", {"kind": "ServiceAccount", "namespace": "ns", "name": "x"}),
        ],
    )
    def test_subjects_are_read(self, text: str, subject: dict[str, str]) -> None:
        assert rbac.subject_of(text).items() >= subject.items()

    @pytest.mark.parametrize("text", ["", "me", "Robot:x", "User:", "ServiceAccount:x"])
    def test_other_subjects_are_refused(self, text: str) -> None:
        with pytest.raises(ValueError, match="expected"):
            rbac.subject_of(text)
