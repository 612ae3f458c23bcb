"""Which tests stay together when they are spread over processes, and which begin first.

pytest-xdist's own groups need a mark on each test and, in version 3.8, a pytest before 9.2.
"""

from __future__ import annotations

import functools
import re

from xdist.scheduler import LoadScopeScheduling

from .fleets import example_clusters

#: Files whose tests need an empty plane each, so that any process may run any of them.
SCENARIOS = ("test_hotswap.py", "test_advice.py", "test_queueing.py")
#: Files whose parameter says which plane a test needs: a cluster's name, or a version.
BY_PARAMETER = ("test_acceptance.py", "test_agreement.py")
#: What takes minutes, the longest first: begun last it would be waited for alone.
LONGEST_FIRST = (
    "test_gitops.py",
    "test_hotswap.py",
    "test_flux.py",
    "test_advice.py",
    "test_doctor.py",
    "test_doctor_cluster.py",
)


class OnePlaneEach(LoadScopeScheduling):
    """Tests that share a plane go to one process, in order; everything else to whoever is free."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


def group_of(nodeid: str) -> str:
    """The same text for all tests that share a plane.

    A scenario stands alone; the tests of any other file may build on one another.
    """
    file, parameter = file_of(nodeid), _parameter(nodeid)
    if file in SCENARIOS:
        return nodeid
    if file in BY_PARAMETER:
        return f"{file} {_kueue_of().get(parameter, parameter)}"
    return file


def place_of(nodeid: str) -> int:
    """Sorts what takes long before what does not."""
    file = file_of(nodeid)
    return LONGEST_FIRST.index(file) if file in LONGEST_FIRST else len(LONGEST_FIRST)


def file_of(nodeid: str) -> str:
    return nodeid.partition("::")[0].rpartition("/")[2]


def _parameter(nodeid: str) -> str:
    found = re.search(r"\[(.*)\]$", nodeid)
    return found[1] if found else ""


@functools.cache
def _kueue_of() -> dict[str, str]:
    """Name of each example cluster → its version of Kueue."""
    return {cluster.name: cluster.kueue for cluster in example_clusters()}
