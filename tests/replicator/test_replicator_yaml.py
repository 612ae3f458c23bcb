from __future__ import annotations

import dataclasses
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator.config import (
    MAX_CONFIG_BYTES,
    Framework,
    ReplicatorConfig,
    default_peers,
    parse_config,
)
from replicator.config_fields import EXPANDABLE_PREFIX, expandable_environment
from replicator.errors import ConfigError

ORBAX = """job-name: run-1
framework: orbax
assume-data-parallelism: 2
node-rank: 1
nodes: 4
peer-ranks: [3]
backup-interval-minutes: 30"""

NEMO = """job-name: llama
framework: pytorch.distributed
node-rank: 0
nodes: 2
peers-per-node: 1
backup-interval-minutes: 30
"""


def problems(text: str | bytes, **kwargs: object) -> list[str]:
    content = text.encode() if isinstance(text, str) else text
    with pytest.raises(ConfigError) as caught:
        parse_config(content, **kwargs)  # type: ignore[arg-type]
    assert len(str(caught.value).splitlines()) == len(caught.value.problems)
    return str(caught.value).splitlines()


def with_line(key: str, value: str | None, base: str = NEMO) -> str:
    lines = [line for line in base.splitlines() if not line.startswith(f"{key}:")]
    return "\n".join(lines if value is None else [*lines, f"{key}: {value}"]) + "\n"


def test_the_file_that_orbax_writes() -> None:
    config = parse_config(ORBAX.encode())
    assert config == ReplicatorConfig(
        job_name="run-1",
        framework=Framework.ORBAX,
        node_rank=1,
        nodes=4,
        peer_ranks=(3,),
        peers_per_node=1,
        backup_interval_minutes=30.0,
        backup_interval_steps=None,
        workers_per_node=1,
        master_port=4242,
        assume_data_parallelism=2,
    )
    assert config.replication_peers() == (3,)


def test_orbax_with_one_slice_names_no_peers() -> None:
    config = parse_config(with_line("peer-ranks", "[]", ORBAX).encode())
    assert config.peer_ranks == ()
    assert config.replication_peers() == ()


def test_the_file_that_the_nemo_client_writes() -> None:
    config = parse_config(NEMO.encode())
    assert (config.peer_ranks, config.peers_per_node) == (None, 1)
    assert config.replication_peers() == (1,)


def test_no_peers_is_an_empty_list_whichever_way_it_is_said() -> None:
    config = parse_config(with_line("peers-per-node", "0").encode())
    assert (config.peer_ranks, config.replication_peers()) == ((), ())
    assert "peer-ranks: []" in config.to_yaml()
    assert parse_config(config.to_yaml().encode()) == config


def test_several_workers_a_node_are_for_files() -> None:
    text = with_line("framework", "pytorch", with_line("workers-per-node", "8"))
    assert parse_config(text.encode()).workers_per_node == 8


def test_more_peers_than_there_are_nodes_are_accepted() -> None:
    """As by the public replicator, whose NeMo client asks for one even where there is one node."""
    alone = with_line("nodes", "1", with_line("node-rank", "0"))
    assert parse_config(alone.encode()).replication_peers() == ()
    for asked in (4, 5, 100_000):
        text = with_line("nodes", "4", with_line("peers-per-node", str(asked)))
        config = parse_config(text.encode())
        assert config.peers_per_node == asked
        assert sorted((*config.replication_peers(), config.node_rank)) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("nodes", "asked", "groups", "least", "most"),
    [
        (3, 1, None, 1, 1),
        (3, 2, None, 1, 2),
        (4, 3, None, 2, 3),
        (64, 8, None, 8, 8),
        (8, 2, 4, 2, 2),
        (8, 3, 2, 1, 1),
        (8, 2, 1, 0, 0),
    ],
)
def test_the_peers_that_the_page_promises(
    nodes: int, asked: int, groups: int | None, least: int, most: int
) -> None:
    """docs/replicator-client.md: fewer than asked where neighbours coincide."""
    base = with_line("nodes", str(nodes), with_line("peers-per-node", str(asked)))
    found = set()
    for rank in range(nodes):
        text = with_line("node-rank", str(rank), base)
        if groups is not None:
            text = with_line("assume-data-parallelism", str(groups), text)
        found.add(len(parse_config(text.encode()).replication_peers()))
    assert (min(found), max(found)) == (least, most)


def test_ranks_win_where_a_file_names_and_counts_peers() -> None:
    text = with_line("peer-ranks", "[2, 3]", with_line("nodes", "4"))
    config = parse_config(text.encode())
    assert (config.peer_ranks, config.peers_per_node) == ((2, 3), 2)


def test_backups_counted_in_steps() -> None:
    text = with_line("backup-interval-minutes", None) + "backup-interval-steps: 500\n"
    config = parse_config(text.encode())
    assert (config.backup_interval_minutes, config.backup_interval_steps) == (None, 500)


@pytest.mark.parametrize(("text", "minutes"), [("0", 0.0), ("0.5", 0.5), ("1440", 1440.0)])
def test_backup_minutes(text: str, minutes: float) -> None:
    config = parse_config(with_line("backup-interval-minutes", text).encode())
    assert config.backup_interval_minutes == minutes


def test_a_job_name_of_digits_stays_text() -> None:
    assert parse_config(with_line("job-name", "007").encode()).job_name == "007"


def test_integers_may_be_quoted() -> None:
    assert parse_config(with_line("nodes", '"4"').encode()).nodes == 4


def test_a_null_value_counts_as_absent() -> None:
    assert parse_config(with_line("assume-data-parallelism", "null").encode()) == parse_config(
        NEMO.encode()
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (with_line("job-name", None), "1:1: job-name: missing; expected the job's name"),
        (with_line("framework", "jax"), "6:12: framework: 'jax' is not known; expected one of"),
        (with_line("node-rank", "2"), "6:12: node-rank: 2 is out of range; with nodes: 2"),
        (with_line("nodes", "0"), "6:8: nodes: expected a whole number from 1 to"),
        (with_line("nodes", "1e3"), "6:8: nodes: expected a whole number from 1 to"),
        (with_line("nodes", "[2]"), "6:1: nodes: expected a single value, found a list"),
        (with_line("peers-per-node", None), "peers-per-node: missing; expected this or peer-ranks"),
        (with_line("peer-ranks", "[0]"), "peer-ranks: holds the node's own rank 0"),
        (with_line("peer-ranks", "[1, 1]"), "peer-ranks: more than once: rank 1"),
        (
            with_line("peer-ranks", "[1, 2]"),
            "7:17: peer-ranks: expected a whole number from 0 to 1",
        ),
        (with_line("peer-ranks", "1"), "peer-ranks: expected a list of node ranks"),
        (
            with_line("backup-interval-minutes", None),
            "missing; expected this or backup-interval-st",
        ),
        (with_line("backup-interval-minutes", "-1"), "expected a number from 0 to"),
        (with_line("backup-interval-minutes", ".inf"), "expected a number from 0 to"),
        (with_line("backup-interval-steps", "5"), "both backup intervals are set"),
        (with_line("backup-interval-steps", "0"), "backup-interval-steps: expected a whole number"),
        (with_line("assume-data-parallelism", "3"), "3 does not divide nodes: 2"),
        (with_line("master-port", "70000"), "master-port: expected a whole number from 1 to 65535"),
        (with_line("workers-per-node", "0"), "workers-per-node: expected a whole number from 1"),
        (
            with_line("workers-per-node", "2"),
            "workers-per-node: 2 cannot be with framework pytorch.distributed, whose steps are one "
            "directory a node; expected 1",
        ),
        (
            with_line("workers-per-node", "2", ORBAX),
            "workers-per-node: 2 cannot be with framework orbax",
        ),
        (with_line("backup-intervall-steps", "5"), "did you mean backup-interval-steps?"),
        (NEMO + "nodes: 2\n", "7:1: 'nodes' is set twice (first in line 4)"),
        (with_line("job-uid", "a/b"), "job-uid: expected letters"),
    ],
)
def test_a_bad_value_is_named_with_its_place(text: str, expected: str) -> None:
    found = problems(text)
    assert any(expected in line for line in found), found
    assert all(line.startswith("replicator.yaml:") for line in found)


@pytest.mark.parametrize(
    "name",
    ["../../evil", "a/b", "", ".", "..", "-a", "a-", "a b", "a\\nb", "$x y", "*", "ä", "x" * 181],
)
def test_a_job_name_that_is_no_file_name_is_refused(name: str) -> None:
    assert any("job-name" in line for line in problems(with_line("job-name", f'"{name}"')))


def test_every_problem_is_reported_at_once_in_file_order() -> None:
    text = (
        "job-name: a/b\nframework: x\nnode-rank: 9\nnodes: 4\n"
        "peer-ranks: [1, 1, 8]\nmaster-port: 0\n"
    )
    lines = problems(text, source="vol/replicator.yaml")
    assert [line.split(":")[1] for line in lines] == ["1", "1", "2", "3", "5", "5", "6"]
    assert all(line.startswith("vol/replicator.yaml:") for line in lines)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "the file is empty"),
        (b" \n", "the file is empty"),
        (b"- 1\n", "expected a mapping of keys to values, found a list"),
        (b"just text", "expected a mapping of keys to values, found a single value"),
        (b"a: {b: c}\n", "expected a value or a list for 'a', found a mapping"),
        (b"a: [[1]]\n", "expected a single value in the list 'a', found a list"),
        (b"? [a]\n: b\n", "expected a key, found a list"),
        (b"a: &x b\n", "1:4: anchors and aliases are not accepted"),
        (b"a: !!python/name:os.system x\n", "is not accepted"),
        (b"a: b\n---\nc: d\n", "2:1: a second YAML document"),
        (b"a: [1\n", "not valid YAML"),
        (b"a: b: c\n", "1:5: not valid YAML"),
        (b"a: \x00\n", "not valid YAML"),
        (b"a: b\nc: \xff\n", "2:4: not UTF-8 text"),
        ("a: b".encode("utf-16"), "not UTF-8 text"),
        (b"a: b\n" * MAX_CONFIG_BYTES, "larger than the limit"),
    ],
)
def test_content_that_is_no_flat_mapping(content: bytes, expected: str) -> None:
    found = problems(content)
    assert expected in found[0]


def test_an_alias_bomb_costs_nothing() -> None:
    levels = [b"a0: &a0 [x, x]"] + [
        b"a%d: &a%d [%s]" % (i, i, b", ".join([b"*a%d" % (i - 1)] * 9)) for i in range(1, 60)
    ]
    start = time.process_time()
    problems(b"\n".join(levels))
    assert time.process_time() - start < 1


@pytest.mark.parametrize(
    "content",
    [
        b"".join(b"nodes%d: 1\n" % i for i in range(20_000)),
        b"nodes: 4\npeer-ranks: [" + b"x," * 120_000 + b"1]",
        b"a: !" + b"t" * 250_000 + b" x",
        b"a: b\n" * 50_000,
    ],
    ids=["keys", "list", "tag", "twice"],
)
def test_no_content_costs_much_time_or_makes_a_long_report(content: bytes) -> None:
    start = time.process_time()
    report = "\n".join(problems(content))
    assert time.process_time() - start < 2
    assert len(report) < 20_000


def test_deep_nesting_is_refused_without_recursion() -> None:
    assert "found a list" in problems(b"a: " + b"[" * 100)[0]
    assert "nesting" in problems(b"a: " + b"[" * 50_000)[0]


def test_variables_are_expanded_from_the_closed_list() -> None:
    environ = {
        "NODE_RANK": "1",
        "JOBSET_NAME": "train",
        "REPLICATOR_JOB_X": "7",
        "SECRET": "s3cr3t",
    }
    text = with_line("node-rank", "${NODE_RANK}", with_line("job-name", "$JOBSET_NAME-a"))
    text = with_line("master-port", '"42${REPLICATOR_JOB_X}"', text)
    config = parse_config(text.encode(), environ=environ)
    assert (config.job_name, config.node_rank, config.master_port) == ("train-a", 1, 427)


@pytest.mark.parametrize("reference", ["$SECRET", "${SECRET}", "$UNSET", "$", "${}", "${A B}"])
def test_other_variables_are_errors_and_never_shown(reference: str) -> None:
    found = problems(with_line("job-name", reference), environ={"SECRET": "s3cr3t"})
    assert "is not set for the replicator, or is not one that a job may use" in found[0]
    assert "s3cr3t" not in "".join(found)


def test_framework_and_ranks_take_no_variables() -> None:
    environ = {"NODE_NAME": "orbax", "NNODES": "1"}
    assert "not expanded" in problems(with_line("framework", "$NODE_NAME"), environ=environ)[0]
    assert "peer-ranks" in problems(with_line("peer-ranks", "[$NNODES]"), environ=environ)[0]


def test_an_expanded_value_is_checked_like_any_other() -> None:
    found = problems(with_line("job-name", "$POD_NAME"), environ={"POD_NAME": "../x"})
    assert "cannot be used in file names" in found[0]


def test_only_listed_variables_leave_the_agents_environment() -> None:
    environ = {"AWS_SECRET_ACCESS_KEY": "x", "NODE_RANK": "0", f"{EXPANDABLE_PREFIX}A": "b"}
    assert expandable_environment(environ).keys() == {"NODE_RANK", f"{EXPANDABLE_PREFIX}A"}


def test_a_key_from_the_future_is_kept_for_the_report() -> None:
    assert parse_config((NEMO + "zstd-level: 3\n").encode()).ignored_keys == ("zstd-level",)


@given(
    nodes=st.integers(1, 300),
    count=st.integers(0, 8),
    dp=st.integers(1, 8),
    data=st.data(),
)
def test_default_peers_are_other_nodes_each_once(
    nodes: int, count: int, dp: int, data: st.DataObject
) -> None:
    rank = data.draw(st.integers(0, nodes - 1))
    for groups in (None, dp):
        peers = default_peers(rank, nodes, count, groups)
        assert len(set(peers)) == len(peers) <= count
        assert rank not in peers
        assert all(0 <= peer < nodes for peer in peers)


@pytest.mark.parametrize(
    ("rank", "nodes", "count", "dp", "expected"),
    [
        # The public reference's _get_node_peer_ranks, commit 3a24fd1, without the node itself.
        (0, 4, 1, None, (1,)),
        (2, 4, 1, None, (3,)),
        (0, 8, 3, None, (1, 2, 4)),
        (5, 8, 2, 4, (3, 7)),
        (0, 8, 3, 4, (6, 2, 4)),
        (0, 1, 1, None, ()),
        (0, 4, 1, 1, ()),
    ],
)
def test_default_peers_of_the_reference(
    rank: int, nodes: int, count: int, dp: int | None, expected: tuple[int, ...]
) -> None:
    assert default_peers(rank, nodes, count, dp) == expected


@given(
    st.builds(
        ReplicatorConfig,
        job_name=st.from_regex(r"\A[A-Za-z0-9]([A-Za-z0-9._-]{0,20}[A-Za-z0-9])?\Z"),
        framework=st.sampled_from(Framework),
        node_rank=st.integers(0, 3),
        nodes=st.just(4),
        peer_ranks=st.none(),
        peers_per_node=st.integers(1, 5),
        backup_interval_minutes=st.integers(0, 5000).map(lambda n: n / 4),
        backup_interval_steps=st.none(),
        workers_per_node=st.just(1),
        master_port=st.integers(1, 65535),
        assume_data_parallelism=st.sampled_from([None, 1, 2, 4]),
        job_uid=st.sampled_from([None, "a1b2"]),
    )
)
def test_what_is_written_reads_back_equal(config: ReplicatorConfig) -> None:
    assert parse_config(config.to_yaml().encode()) == config
    others = tuple(rank for rank in range(4) if rank != config.node_rank)
    named = dataclasses.replace(
        config,
        peer_ranks=others,
        peers_per_node=3,
        backup_interval_minutes=None,
        backup_interval_steps=9,
    )
    assert parse_config(named.to_yaml().encode()) == named
    files = dataclasses.replace(config, framework=Framework.PYTORCH, workers_per_node=16)
    assert parse_config(files.to_yaml().encode()) == files


@given(st.binary(max_size=200))
def test_any_bytes_give_a_config_or_a_config_error(content: bytes) -> None:
    try:
        config = parse_config(content)
    except ConfigError as error:
        outcome: object = error.problems
    else:
        outcome = config.job_name
    assert outcome
