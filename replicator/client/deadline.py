"""When a wait ends."""

from __future__ import annotations

import math
import numbers
import time

from replicator.client.errors import ClientArgumentError


def checked_seconds(timeout: float, name: str = "timeout") -> float:
    """A time-out as it was given; 0 and less look once, `math.inf` waits for ever.

    Raises:
        ClientArgumentError: it is no number. A wait for NaN seconds would never end.
    """
    number = isinstance(timeout, numbers.Real) and not isinstance(timeout, bool)
    if not number or math.isnan(timeout):
        raise ClientArgumentError(
            f"{name} is {timeout!r}: expected a number of seconds (math.inf to wait for ever)"
        )
    return timeout


def deadline_after(timeout: float) -> float:
    """The moment on the monotonic clock at which a wait that begins now has to end.

    Raises:
        ClientArgumentError: the time-out is no number.
    """
    return time.monotonic() + checked_seconds(timeout)
