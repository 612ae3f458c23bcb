"""Copies that one node is making: those it was asked for, and checks of its own shards.

As soon as the job starts a node begins to hash what it will most likely restore, its own newest
shards. It needs nobody for that, and the other ranks may be a while. These checks are not asked
for by anyone, so nobody is told how they end: the order to verify the same copy finds it done, or
joins it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from replicator.core import effects as fx
from replicator.core.model import CheckpointId, Key, Origin


class Transfers:
    """What is under way, by the name of the copy; at most one of each."""

    def __init__(self) -> None:
        self._in_flight: dict[Key, fx.GetCopy] = {}
        self._unasked: set[Key] = set()  # of those in flight
        self._verified: set[Key] = set()  # unasked checks that ended well, not yet asked for

    def start(self, copy: fx.GetCopy) -> list[fx.NodeEffect]:
        """Begin what the coordinator asks for, unless it is under way already."""
        key = copy.key
        if key in self._unasked and copy.source.origin is not Origin.LOCAL:
            effects = self._give_up_checks()  # the copy that is here is not what is wanted
        elif key in self._in_flight:
            self._unasked.discard(key)  # now it is asked for
            return []
        else:
            effects = []
        self._in_flight[key] = copy
        return [*effects, copy]

    def _give_up_checks(self) -> list[fx.NodeEffect]:
        """Copies stop all together; those that were asked for begin again."""
        for key in self._unasked:
            del self._in_flight[key]
        self._unasked.clear()
        return [fx.CancelCopies(), *self._in_flight.values()]

    def stop(self) -> list[fx.NodeEffect]:
        """Stop everything and forget what it led to."""
        self._verified.clear()
        return self._stop()

    def _stop(self) -> list[fx.NodeEffect]:
        self._in_flight.clear()
        self._unasked.clear()
        return [fx.CancelCopies()]

    def stop_for(self, checkpoint: CheckpointId | None) -> list[fx.NodeEffect]:
        """Nothing that was asked for so far is wanted; checks go on if they may serve for this."""
        useful = {key for key in self._unasked if checkpoint in (None, key.checkpoint)}
        if self._in_flight and self._in_flight.keys() == useful:
            return []
        return self._stop()

    # ---- checks on one's own account ------------------------------------------------------------

    def check(self, copies: Iterable[fx.GetCopy]) -> Iterator[fx.NodeEffect]:
        """Verify local copies before anybody asks."""
        for copy in copies:
            self._in_flight[copy.key] = copy
            self._unasked.add(copy.key)
            yield copy

    def take_verified(self, key: Key) -> bool:
        """Whether the copy has just been verified unasked. True once only.

        Whoever asks again has a reason to doubt it.
        """
        if key not in self._verified:
            return False
        self._verified.discard(key)
        return True

    def end_checks(self) -> list[fx.NodeEffect]:
        """The restore is over: what was not asked for by now never will be."""
        self._verified.clear()
        return self._give_up_checks() if self._unasked else []

    # ---- results --------------------------------------------------------------------------------

    def done(self, key: Key) -> bool:
        """A copy is made; whether somebody is to be told."""
        self._in_flight.pop(key, None)
        if key not in self._unasked:
            self._verified.discard(key)
            return True
        self._unasked.discard(key)
        self._verified.add(key)
        return False

    def failed(self, key: Key) -> bool | None:
        """A copy could not be made; whether somebody is to be told, None if it is not expected."""
        if self._in_flight.pop(key, None) is None:
            return None
        asked_for = key not in self._unasked
        self._unasked.discard(key)
        return asked_for
