"""What the API server refuses of core kinds beyond their published schemas.

Source: Kubernetes 1.36, ``pkg/apis/scheduling/validation`` and ``pkg/apis/batch/validation``; the
schemas of core kinds carry no enumerations and no bounds. Each rule was found by an API server's
own verdict (``tests/e2e/test_agreement.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from generator.checks.structure import Path

Fault = tuple[str, str, Path]
Object = Mapping[str, Any]

PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")
HISTORY_LIMITS = ("successfulJobsHistoryLimit", "failedJobsHistoryLimit")
#: Integer fields, which Go does not decode from ``1.0``.
_INTEGERS: dict[str, tuple[Path, ...]] = {
    "PriorityClass": (("value",),),
    "CronJob": tuple(("spec", name) for name in (*HISTORY_LIMITS, "startingDeadlineSeconds")),
}


def preemption_policy(document: Object, _: str) -> Iterator[Fault]:
    """A PriorityClass preempts lower priorities or nobody."""
    policy = document.get("preemptionPolicy")
    if policy is not None and policy not in PREEMPTION_POLICIES:
        yield (
            f"preemptionPolicy is {policy!r}; it is one of {', '.join(PREEMPTION_POLICIES)}",
            "write one of them",
            ("preemptionPolicy",),
        )


def whole_numbers(document: Object, _: str) -> Iterator[Fault]:
    """Integers are written without a fraction, be it ``.0``."""
    for path in _INTEGERS.get(str(document.get("kind")), ()):
        value: Any = document
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        if isinstance(value, float):
            yield (
                f"{'.'.join(map(str, path))} is {value!r}, and the API server reads whole"
                " numbers only",
                f"write {value:.0f}",
                path,
            )


def cron_job(document: Object, _: str) -> Iterator[Fault]:
    """A CronJob names a time zone that exists and keeps no negative number of jobs."""
    spec = document.get("spec")
    if not isinstance(spec, Mapping):
        return
    zone = spec.get("timeZone")
    # A machine without a time zone database cannot tell.
    if isinstance(zone, str) and not _is_zone(zone) and _is_zone("Etc/UTC"):
        yield (
            f"timeZone is {zone!r}, and there is no such time zone",
            "write a name of the tz database, such as Etc/UTC",
            ("spec", "timeZone"),
        )
    for name in HISTORY_LIMITS:
        limit = spec.get(name)
        if isinstance(limit, int) and limit < 0:
            yield f"{name} is {limit}, less than 0", "write 0 or more", ("spec", name)


@cache
def _is_zone(name: str) -> bool:
    """Whether the tz database has a zone; looked up by name, since listing reads every file."""
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # absent; a path; a folder
        return False
    return True
