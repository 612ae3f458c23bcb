"""Agents as processes, killed with SIGKILL at random moments: no replicated step is lost."""

from __future__ import annotations

import random
import subprocess
import sys
import time

import pytest
from agent_lab import tree

from replicator.demo.cluster import DemoCluster, finish_save, prepare_save

SIZE = 4 * 1024 * 1024
QUICK = ("--round-timeout", "20", "--join-timeout", "60")


@pytest.fixture
def cluster(tmp_path):
    with DemoCluster(tmp_path, 3, extra=QUICK) as made:
        made.start_all()
        yield made


def save(cluster, step):
    saved = {}
    for node in cluster.nodes:
        prepare_save(node.local, node.index, step, SIZE, 4)
        saved[node.index] = tree(node.local / f"{step}.tmp")
        finish_save(node.local, step)
    return saved


def data(cluster, index):
    found = cluster.restored(index)
    assert found is not None
    return tree(found[1].resolve())


def revive(cluster):
    for node in cluster.nodes:
        if node.process is None or node.process.poll() is not None:
            cluster.start(node.index)
    for node in cluster.nodes:
        cluster.wait_ready(node.index)


@pytest.mark.parametrize("seed", range(3))
def test_kills_at_random_points_lose_nothing_that_was_replicated(cluster, seed):
    pick = random.Random(seed)
    cluster.begin(backup_interval_steps=2, backup_interval_minutes=None)
    cluster.wait_restored()
    saved = {1: save(cluster, 1)}
    cluster.wait_replicated(1)
    newest = 1
    for step in range(2, 5):
        saved[step] = save(cluster, step)
        time.sleep(pick.random() * 0.15)  # somewhere in hashing, copying, receipts, deletion
        for index in pick.sample(range(3), pick.choice((1, 1, 2, 3))):
            cluster.kill(index)
        seen = cluster.replicated_step()
        revive(cluster)
        cluster.begin(backup_interval_steps=2, backup_interval_minutes=None)
        restored = cluster.wait_restored()
        assert restored in (newest, step)
        assert restored >= (seen or 0)
        for index in range(3):
            assert data(cluster, index) == saved[restored][index]
        newest = restored
        if restored < step:
            saved[step] = save(cluster, step)
            cluster.wait_replicated(step)
            newest = step


def test_the_agent_alone_may_be_killed_while_training_goes_on(cluster):
    cluster.begin()
    cluster.wait_restored()
    for step, index in ((1, 0), (2, 1), (3, 2)):
        save(cluster, step)
        cluster.kill(index)
        cluster.start(index)
        cluster.wait_replicated(step)
    assert not any(cluster.failed(index) for index in range(3))


def test_a_wiped_node_and_a_killed_coordinator_at_once(cluster):
    cluster.begin()
    cluster.wait_restored()
    saved = save(cluster, 1)
    cluster.wait_replicated(1)
    cluster.kill(0)
    cluster.kill(2)
    cluster.wipe(2)
    revive(cluster)
    cluster.begin()
    assert cluster.wait_restored() == 1
    assert [data(cluster, index) for index in range(3)] == [saved[index] for index in range(3)]


def test_a_second_agent_on_the_same_volume_is_refused(cluster):
    node = cluster.nodes[0]
    command = [
        *(sys.executable, "-m", "replicator", "agent", "--local-dir", str(node.local)),
        *("--key-file", str(cluster.root / "key"), "--peers", str(cluster.root / "peers.yaml")),
        *("--port", "0"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == f"error: another agent uses {node.local}"
    assert "Traceback" not in done.stderr


def test_status_shows_what_an_agent_does(cluster):
    cluster.begin()
    cluster.wait_restored()
    save(cluster, 4)
    cluster.wait_replicated(4)
    http = f"127.0.0.1:{cluster.nodes[0].http}"
    command = [sys.executable, "-m", "replicator", "status", "--http", http]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0
    assert "phase: running" in done.stdout
    assert "coordinator replicated step: 4" in done.stdout
    cluster.kill(0)
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: no agent answers at {http}")


@pytest.mark.parametrize(
    ("arguments", "words", "status"),
    [
        (["--local-dir", "/nonexistent"], "is no directory", 1),
        (["--local-dir", ".", "--peers", "/nonexistent"], "no such file", 2),
        (["--local-dir", ".", "--backup", "ftp://x"], "ftp", 2),
        (["--local-dir", ".", "--bind", "192.0.2.1"], "assign", 1),
        (["--local-dir", ".", "--bind", "0.0.0.0"], "needs --advertise", 2),
        (
            ["--local-dir", ".", "--advertise", "nowhere"],
            "--advertise: expected HOST:PORT, found",
            2,
        ),
        (["--local-dir", ".", "--platform", "kubernetes"], "only in a pod", 2),
    ],
)
def test_unusable_arguments_give_one_clear_line(tmp_path, arguments, words, status):
    key = tmp_path / "key"
    key.write_text("k" * 40)
    key.chmod(0o600)
    peers = tmp_path / "peers.yaml"
    peers.write_text('agents: ["127.0.0.1:1"]\n')
    local = tmp_path / "local"
    local.mkdir()
    given = [str(local) if a == "." else a for a in arguments]
    command = [sys.executable, "-m", "replicator", "agent", "--key-file", str(key), "--port", "0"]
    if "--peers" not in given and "--platform" not in given:
        command += ["--peers", str(peers)]
    done = subprocess.run(
        [*command, *given], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == status
    assert words in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
