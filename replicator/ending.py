"""How a command ends that was told to: in order, with what it began cleaned up."""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import NoReturn


def heeded(*numbers: signal.Signals) -> list[signal.Signals]:
    """Those that nobody has this process ignore, as `nohup` does with a hangup."""
    return [number for number in numbers if signal.getsignal(number) != signal.SIG_IGN]


def end_in_order() -> None:
    """Have SIGTERM and SIGHUP end this process by SystemExit, so that what it began ends with it.

    A hangup that is ignored already (nohup) stays so, and a second signal does not cut the
    cleaning short.
    """
    numbers = heeded(signal.SIGTERM, signal.SIGHUP)

    def end(number: int, _: FrameType | None) -> NoReturn:
        for each in numbers:
            signal.signal(each, signal.SIG_IGN)
        sys.exit(128 + number)

    for number in numbers:
        signal.signal(number, end)
