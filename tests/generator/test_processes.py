"""Work shared among processes that may die."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generator.processes import InOrder, _serve, ending, shares

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="the work is a function of this file: needs fork"
)
ITEMS = [f"{number:02}" for number in range(60)]


def work(item: str) -> str:
    return f"{item} by {os.getpid()}"


def lost(item: str, how: str) -> str:
    return f"{item} lost: {how}"


def by(result: str) -> str:
    return result.rpartition(" ")[2]


def test_results_come_in_the_order_of_the_items_from_several_processes() -> None:
    results = list(InOrder(work, lost, 2).results(ITEMS))
    assert [result.partition(" ")[0] for result in results] == ITEMS
    assert len({by(result) for result in results}) == 2
    assert str(os.getpid()) not in {by(result) for result in results}
    assert multiprocessing.active_children() == []


def test_an_item_that_kills_its_process_is_lost_and_no_other() -> None:
    def some_kill(item: str) -> str:
        if item in ("07", "59"):
            os.kill(os.getpid(), signal.SIGKILL)
        return work(item)

    results = list(InOrder(some_kill, lost, 2).results(ITEMS))
    assert [result for result in results if "lost" in result] == [
        "07 lost: its process was ended by SIGKILL",
        "59 lost: its process was ended by SIGKILL",
    ]
    assert [result.partition(" ")[0] for result in results] == ITEMS


def test_what_a_killed_worker_had_in_hand_is_done_again(tmp_path: Path) -> None:
    def dies_once(item: str) -> str:
        mark = tmp_path / "died"
        if item == "30" and not mark.exists():
            mark.touch()
            os._exit(9)
        return work(item)

    results = list(InOrder(dies_once, lost, 2).results(ITEMS))
    assert (tmp_path / "died").exists()
    assert [result.partition(" by ")[0] for result in results] == ITEMS


def test_a_worker_may_die_in_the_midst_of_its_answer(tmp_path: Path) -> None:
    def large(item: str) -> str:
        mark = tmp_path / "died"
        if item == "10" and not mark.exists():
            time.sleep(0.3)  # the first share, with the other worker, is done before
            mark.touch()
            signal.signal(signal.SIGALRM, lambda *_: os._exit(9))
            signal.setitimer(signal.ITIMER_REAL, 0.3)
        return work(item).ljust(1 << 20)  # more than a pipe holds

    results = InOrder(large, lost, 2).results(ITEMS)
    got = [next(results)]
    time.sleep(1)  # nobody reads while the second share's answer is sent
    assert (tmp_path / "died").exists()
    got += results
    assert [result.partition(" by ")[0] for result in got] == ITEMS


def test_what_the_work_raises_is_raised_and_nobody_is_left() -> None:
    def fails(item: str) -> str:
        if item == "20":
            raise FileNotFoundError(item)
        return work(item)

    with pytest.raises(FileNotFoundError, match="20"):
        list(InOrder(fails, lost, 2).results(ITEMS))
    assert multiprocessing.active_children() == []


def test_results_that_nobody_wants_any_more_are_not_waited_for() -> None:
    def slow(item: str) -> str:
        if item > "01":
            time.sleep(600)
        return work(item)

    results = InOrder(slow, lost, 2).results(["00", "01", "02", "03"])
    assert next(results).startswith("00 ")
    assert len(multiprocessing.active_children()) == 2
    results.close()
    assert multiprocessing.active_children() == []


@given(st.integers(0, 3000), st.integers(1, 64))
def test_shares_cover_all_once_and_get_smaller(count: int, jobs: int) -> None:
    sizes = [len(share) for share in shares(count, jobs)]
    assert [place for share in shares(count, jobs) for place in share] == list(range(count))
    assert sizes == sorted(sizes, reverse=True)
    assert max(sizes, default=0) <= 24


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (-9, "its process was ended by SIGKILL"),
        (3, "its process ended with code 3"),
        (-99, "its process ended with code -99"),
    ],
)
def test_how_a_process_ended(code: int, said: str) -> None:
    assert ending(code) == said


def test_a_worker_whose_parent_dies_with_its_answer_unread_ends_quietly(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The kernel says "connection reset" then, and not that the pipe's end is reached."""
    ours, theirs = multiprocessing.Pipe()
    worker = multiprocessing.get_context("fork").Process(
        target=_serve, args=(work, theirs, [ours], os.getpid()), daemon=True
    )
    worker.start()
    theirs.close()
    ours.send(["01"])
    assert ours.poll(30)
    ours.close()
    worker.join(30)
    assert worker.exitcode == 0
    assert "Traceback" not in capfd.readouterr().err
