from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from generator.diff.build import UnreadableHeadError, build_report
from generator.diff.git import DiffError
from generator.diff.model import Impact, Report, Verb
from generator.diff.tree import FolderTree, open_trees
from generator.yaml_load import MAX_FILE_BYTES
from tests.generator.diff import fleet


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with one commit of one cluster."""
    root = tmp_path / "repo"
    fleet.write(root / "compiled", {"a": fleet.cluster("a")})
    fleet.git(root, "init", "-q")
    fleet.commit(root)
    return root


def change_quota(root: Path, quota: int = 64) -> None:
    path = root / "compiled/a" / fleet.path_of(fleet.cluster_queue())
    path.write_text(fleet.dump(fleet.cluster_queue(quota)))


def report(
    root: Path, base: str, head: str | None = None, path: str = "compiled", merge: bool = False
) -> Report:
    return build_report(*open_trees(base, head, path, merge_base=merge, cwd=root))


def test_a_clean_work_tree_is_its_commit(checkout: Path) -> None:
    found = report(checkout, "HEAD")
    assert (found.groups, found.unchanged) == ((), 7)


def test_an_edit_in_the_work_tree_shows(checkout: Path) -> None:
    change_quota(checkout)
    assert [c.resource.kind for c in report(checkout, "HEAD").changes] == ["ClusterQueue"]


def test_untracked_and_deleted_files_show(checkout: Path) -> None:
    fleet.write(checkout / "compiled", {"a": fleet.cluster("a"), "b": fleet.cluster("b")})
    (checkout / "compiled/a" / fleet.path_of(fleet.jobset())).unlink()
    verbs = report(checkout, "HEAD").verbs
    assert (verbs[Verb.ADD], verbs[Verb.DELETE]) == (7, 1)


def test_two_commits(checkout: Path) -> None:
    change_quota(checkout)
    fleet.commit(checkout)
    found = report(checkout, "HEAD~1", "HEAD")
    assert len(found.changes) == 1
    assert found.base.startswith("HEAD~1@")


def test_a_commit_against_a_folder(checkout: Path, tmp_path: Path) -> None:
    other = fleet.write(tmp_path / "other", {"a": fleet.cluster("a")})
    assert report(checkout, "HEAD", str(other)).groups == ()


def test_a_folder_may_be_a_check_out(checkout: Path, tmp_path: Path) -> None:
    other = fleet.write(tmp_path / "old/compiled", {"a": fleet.cluster("a")}).parent
    assert report(checkout, str(other), str(checkout)).groups == ()


def test_a_path_elsewhere_is_not_looked_for_in_a_folder(checkout: Path, tmp_path: Path) -> None:
    """Else both sides would be one and the same folder, and equal."""
    other = fleet.write(tmp_path / "other", {"b": fleet.cluster("b")})
    found = report(checkout, str(other), str(checkout / "compiled"), path=str(other))
    assert found.verbs[Verb.ADD] == 7


def test_from_a_folder_below_the_root(checkout: Path) -> None:
    change_quota(checkout)
    below = checkout / "compiled"
    assert len(report(below, "HEAD", path=".").changes) == 1
    fleet.commit(checkout)
    assert len(report(below, "HEAD~1", "HEAD", path=".").changes) == 1


def test_a_work_tree_outside_git_against_a_folder(tmp_path: Path) -> None:
    fleet.write(tmp_path / "compiled", {"a": fleet.cluster("a")})
    fleet.write(tmp_path / "old", {"a": fleet.cluster("a")})
    assert report(tmp_path, "./old").groups == ()


def test_a_base_without_a_tree_is_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "README").write_text("x")
    fleet.git(tmp_path, "init", "-q")
    fleet.commit(tmp_path)
    fleet.write(tmp_path / "compiled", {"a": fleet.cluster("a")})
    assert report(tmp_path, "HEAD").verbs[Verb.ADD] == 7


def test_the_merge_base_leaves_out_what_others_did(checkout: Path) -> None:
    fleet.git(checkout, "checkout", "-q", "-b", "topic")
    change_quota(checkout)
    fleet.commit(checkout)
    fleet.git(checkout, "checkout", "-q", "main")
    (checkout / "compiled/a" / fleet.path_of(fleet.jobset())).unlink()
    fleet.commit(checkout)
    assert len(report(checkout, "main", "topic").changes) == 2
    assert len(report(checkout, "main", "topic", merge=True).changes) == 1


def test_odd_file_names_are_read(checkout: Path) -> None:
    odd = checkout / "compiled/a" / os.fsdecode(b'we"ird \xff\n\xc3\xa9.yaml')
    odd.write_text(fleet.dump(fleet.cluster_queue(name="odd")))
    assert report(checkout, "HEAD").verbs[Verb.ADD] == 1
    fleet.commit(checkout)
    assert report(checkout, "HEAD").groups == ()
    assert report(checkout, "HEAD~1", "HEAD").verbs[Verb.ADD] == 1


def test_crlf_conversion_by_git_is_no_change(checkout: Path) -> None:
    (checkout / ".gitattributes").write_text("*.yaml text eol=crlf\n")
    fleet.commit(checkout)
    (checkout / "compiled/a/cluster.yaml").unlink()
    fleet.git(checkout, "checkout", "--", "compiled")
    assert b"\r\n" in (checkout / "compiled/a/cluster.yaml").read_bytes()
    assert report(checkout, "HEAD").groups == ()


def test_a_sha256_repository(tmp_path: Path) -> None:
    fleet.write(tmp_path / "compiled", {"a": fleet.cluster("a")})
    fleet.git(tmp_path, "init", "-q", "--object-format=sha256")
    fleet.commit(tmp_path)
    (tmp_path / "compiled/a/cluster.yaml").touch()
    found = report(tmp_path, "HEAD")
    assert (found.groups, found.respelled) == ((), 0)


def test_git_runs_no_program_of_the_repository(checkout: Path, tmp_path: Path) -> None:
    """`core.fsmonitor` names a program that git would run on reading the index."""
    mark = tmp_path / "ran"
    hook = tmp_path / "hook.sh"
    hook.write_text(f"#!/bin/sh\ntouch {mark}\n")
    hook.chmod(0o755)
    fleet.git(checkout, "config", "core.fsmonitor", str(hook))
    report(checkout, "HEAD")
    assert not mark.exists()


# What is wrong with the input


def failure(
    root: Path, base: str, head: str | None = None, path: str = "compiled", merge: bool = False
) -> str:
    with pytest.raises(DiffError) as caught:
        report(root, base, head, path, merge)
    return f"{caught.value.message} | {caught.value.fix}"


def test_not_a_repository(tmp_path: Path) -> None:
    (tmp_path / "compiled").mkdir()
    assert "is not in a Git repository" in failure(tmp_path, "main")


def test_git_is_missing(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert "git was not found" in failure(checkout, "HEAD")


@pytest.mark.parametrize("ref", ["nonsense", "--upload-pack=x", "", "a\nb"])
def test_an_unknown_ref(checkout: Path, ref: str) -> None:
    assert "names no commit" in failure(checkout, ref)


def test_a_shallow_clone_says_what_to_fetch(checkout: Path, tmp_path: Path) -> None:
    change_quota(checkout)
    fleet.commit(checkout)
    clone = tmp_path / "clone"
    fleet.git(tmp_path, "clone", "-q", "--depth=1", f"file://{checkout}", str(clone))
    text = failure(clone, "HEAD~1")
    assert "shallow" in text
    assert "fetch-depth: 0" in text


def test_no_common_ancestor(checkout: Path) -> None:
    fleet.git(checkout, "checkout", "-q", "--orphan", "other")
    fleet.commit(checkout, "another beginning")
    assert "no common ancestor" in failure(checkout, "main", "other", merge=True)


def test_a_name_that_is_both_folder_and_branch(checkout: Path) -> None:
    fleet.git(checkout, "branch", "compiled")
    text = failure(checkout, "compiled")
    assert "refs/heads/compiled" in text
    assert report(checkout, "refs/heads/compiled").groups == ()
    assert report(checkout, "./compiled").groups == ()


@pytest.mark.parametrize("path", ["../elsewhere", "/etc"])
def test_a_path_outside_the_repository(checkout: Path, path: str) -> None:
    assert "outside the repository" in failure(checkout, "HEAD", "HEAD", path=path)


def test_a_head_without_a_tree(checkout: Path) -> None:
    assert "has no rendered/" in failure(checkout, "HEAD", "HEAD", path="rendered")
    assert "there is no rendered/" in failure(checkout, "HEAD", path="rendered")


def test_a_folder_that_is_none(checkout: Path) -> None:
    assert "is no folder" in failure(checkout, "./nowhere")


def test_merge_base_of_folders(checkout: Path) -> None:
    assert "needs two Git refs" in failure(checkout, "./compiled", merge=True)


def findings(root: Path) -> list[str]:
    with pytest.raises(UnreadableHeadError) as caught:
        report(root, "HEAD")
    return [f"{finding.where}: {finding.message}" for finding in caught.value.findings]


def test_every_unreadable_file_of_the_head_is_named(checkout: Path) -> None:
    (checkout / "compiled/a/cluster.yaml").write_text("a: [1\n")
    (checkout / "compiled/a/b.yaml").write_text("a: 1\na: 2\n")
    (checkout / "compiled/a/c.yaml").write_bytes(b"a: \xff\n")
    found = findings(checkout)
    assert len(found) == 3
    assert found[0].startswith("a/b.yaml:2: the key 'a' stands twice")
    assert found[1].startswith("a/c.yaml:1: byte 0xff is not UTF-8")
    assert found[2].startswith("a/cluster.yaml:")


def test_conflict_markers_are_recognised(checkout: Path) -> None:
    (checkout / "compiled/a/x.yaml").write_text("a: 1\n<<<<<<< HEAD\nb: 2\n=======\n")
    with pytest.raises(UnreadableHeadError) as caught:
        report(checkout, "HEAD")
    assert "conflict markers" in caught.value.findings[0].fix


def test_a_hundred_megabytes_are_refused_unread(checkout: Path) -> None:
    big = checkout / "compiled/a/big.yaml"
    with big.open("wb") as stream:
        stream.truncate(100 * 1024 * 1024)
    assert "104,857,600 bytes; at most" in findings(checkout)[0]
    fleet.commit(checkout)
    with pytest.raises(UnreadableHeadError):
        report(checkout, "HEAD~1", "HEAD")
    big.unlink()
    assert report(checkout, "HEAD").findings[0].message.startswith("base: the file has 104,857,600")


def test_a_hundred_megabytes_that_did_not_change_do_not_matter(checkout: Path) -> None:
    line = b"a: " + b"x" * 997 + b"\n"
    (checkout / "compiled/a/big.yaml").write_bytes(line * (MAX_FILE_BYTES // len(line) + 1))
    fleet.commit(checkout)
    change_quota(checkout)
    assert len(report(checkout, "HEAD").changes) == 1


def test_an_alias_bomb_is_refused(checkout: Path) -> None:
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    (checkout / "compiled/a/bomb.yaml").write_text("\n".join(rows))
    assert "aliases expand" in findings(checkout)[0]


def test_deep_nesting_is_refused(checkout: Path) -> None:
    (checkout / "compiled/a/deep.yaml").write_text("[" * 5000 + "]" * 5000)
    assert len(findings(checkout)) == 1


def test_a_base_that_is_no_yaml_does_not_block_its_mending(checkout: Path) -> None:
    path = checkout / "compiled/a" / fleet.path_of(fleet.cluster_queue())
    path.write_text("kind: [\n")
    fleet.commit(checkout)
    change_quota(checkout)
    found = report(checkout, "HEAD")
    assert [(c.verb, c.impact) for c in found.changes] == [(Verb.CHANGE, Impact.UNKNOWN)]
    assert "base: " in found.findings[0].message


def test_a_half_written_cluster_is_warned_of(checkout: Path) -> None:
    (checkout / "compiled/a/cluster.yaml").unlink()
    (finding,) = report(checkout, "HEAD").findings
    assert "half-written" in finding.message


def test_links_are_not_followed(checkout: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.yaml"
    secret.write_text("apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n")
    (checkout / "compiled/a/link.yaml").symlink_to(secret)
    (checkout / "compiled/loop").symlink_to(checkout)
    found = report(checkout, "HEAD")
    assert found.changes == ()
    assert sorted(str(finding.where) for finding in found.findings) == ["a/link.yaml", "loop"]
    fleet.commit(checkout)
    assert report(checkout, "HEAD~1", "HEAD").changes == ()


def test_hidden_files_are_passed_over(checkout: Path) -> None:
    """A compile in progress writes into a hidden folder beside the clusters."""
    fleet.write(checkout / "compiled/.tmp-1", {"b": fleet.cluster("b")})
    assert report(checkout, "HEAD").groups == ()


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_a_file_without_permission_is_named(checkout: Path) -> None:
    path = checkout / "compiled/a/cluster.yaml"
    path.write_text("x: 1")
    path.chmod(0)
    assert "cannot be read" in findings(checkout)[0]


def test_objects_without_names_and_strange_documents(checkout: Path) -> None:
    folder = checkout / "compiled/a"
    (folder / "nameless.yaml").write_text("apiVersion: v1\nkind: ConfigMap\ndata: {a: '1'}\n")
    (folder / "patch.yaml").write_text("- op: add\n  path: /a\n  value: 1\n")
    (folder / "scalar.yaml").write_text("just text\n")
    (folder / "empty.yaml").write_text("# nothing\n")
    (folder / "odd.yaml").write_text("apiVersion: 3\nkind: [a]\nmetadata: text\n")
    (folder / "run.sh").write_text("echo one\n")
    (folder / "data.bin").write_bytes(b"\x00\xff")
    fleet.commit(checkout)
    assert report(checkout, "HEAD").groups == ()
    (folder / "nameless.yaml").write_text("apiVersion: v1\nkind: ConfigMap\ndata: {a: '2'}\n")
    (folder / "patch.yaml").write_text("- op: add\n  path: /a\n  value: 2\n")
    (folder / "scalar.yaml").write_text("other text\n")
    (folder / "odd.yaml").write_text("apiVersion: 3\nkind: [a]\nmetadata: other\n")
    (folder / "run.sh").write_text("echo two\n")
    (folder / "data.bin").write_bytes(b"\x00\xfe\xfe")
    names = {(c.verb, c.resource.kind, c.resource.name) for c in report(checkout, "HEAD").changes}
    assert names == {
        (Verb.CHANGE, "ConfigMap", "nameless.yaml"),
        (Verb.CHANGE, "File", "patch.yaml"),
        (Verb.CHANGE, "File", "scalar.yaml"),
        (Verb.CHANGE, "File", "odd.yaml"),
        (Verb.CHANGE, "File", "run.sh"),
        (Verb.CHANGE, "File", "data.bin"),
    }


def test_a_list_is_its_items(checkout: Path) -> None:
    body = {"apiVersion": "v1", "kind": "List", "items": [fleet.cluster_queue(name="x")]}
    (checkout / "compiled/a/list.yaml").write_text(fleet.dump(body))
    assert [c.resource.name for c in report(checkout, "HEAD").changes] == ["x"]


def test_two_files_with_one_object_are_warned_of(checkout: Path) -> None:
    for name in ("one", "two"):
        (checkout / f"compiled/a/{name}.yaml").write_text(
            fleet.dump(fleet.cluster_queue(name="twin"))
        )
    found = report(checkout, "HEAD")
    assert "is also in a/one.yaml" in found.findings[0].message


def test_pages_for_people_are_only_counted(checkout: Path) -> None:
    (checkout / "compiled/a/README.md").write_text("# a\n")
    found = report(checkout, "HEAD")
    assert (found.groups, found.documents) == ((), 1)


def test_content_ids_are_gits(checkout: Path) -> None:
    tree = FolderTree(checkout / "compiled", "x")
    path = "compiled/a/cluster.yaml"
    done = subprocess.run(
        ["git", "hash-object", path], cwd=checkout, capture_output=True, text=True, check=True
    )
    assert tree.files["a/cluster.yaml"] == done.stdout.strip()
