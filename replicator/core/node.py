"""One node's state machine: event in, effects out. It does no I/O and reads no clock.

A node without a job is idle. A new `replicator.yaml` makes it join; the coordinator's plan makes
it fetch and verify; once prepared it waits for the commit, links, and from then on takes saves.
All decisions that need the view of more than one node are the coordinator's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from replicator.core import effects as fx
from replicator.core import messages as msg
from replicator.core.holdings import Holdings
from replicator.core.model import (
    CheckpointId,
    Content,
    Copy,
    Failure,
    Job,
    Key,
    Origin,
    ShardId,
    Source,
    Timing,
)
from replicator.core.saves import Saves, never_finished
from replicator.core.starts import Starts
from replicator.core.state import NodeState, hello
from replicator.core.transfers import Transfers

MAX_TOLD = 1000
"""Errors that are remembered so as not to be written again."""
HELLO_PAUSE = 1.0
"""Seconds between two hellos that the coordinator could not use yet."""
LOST_BEFORE_LINK = (
    "this node's copy proved bad after all nodes had agreed to restore it; it was put aside, and a "
    "restart of the job restores it from another copy"
)
"""Why a node cannot follow a commit: it was found out between its consent and the commit."""
NO_ROOM = (
    "the volume has no room for the next save beside the step that is being stored; a larger RAM "
    "disk, fewer saves or a faster network would leave the backup its time"
)


class Node:
    """The state machine. Every method returns effects to be carried out in order."""

    def __init__(
        self, state: NodeState, copies: Iterable[Copy], address: str, timing: Timing
    ) -> None:
        self.state = state
        self.holdings = Holdings(copies)
        self.saves = Saves()
        self.address = address
        self.timing = timing
        self.connected = False
        self._needs: set[ShardId] = set()
        self._plan: msg.Plan | None = None
        self._transfers = Transfers()
        self._backup = ""  # the latest that this node has a part in
        self._heard = self._sent = 0.0
        self._hello_at: float | None = None
        self._not_yet = ""  # why the coordinator cannot use our hello
        self._starts = Starts()
        self._joined_at: float | None = None
        self._lost_at: float | None = None
        self._told: set[str] = set()

    # ---- events from this machine ---------------------------------------------------------------

    def start(self, now: float, age: float = 0.0) -> list[fx.NodeEffect]:
        """The agent has started with its persisted state and what it found on its disk.

        Args:
            now: monotonic seconds.
            age: how many seconds ago the job's `replicator.yaml` was accepted.
        """
        job, checkpoint = self.state.job, self.state.checkpoint
        if job is None:
            return []
        self._starts.found(self.state, job, age, now)
        self._joined_at = now if self.state.linked is None else None
        self._lost_at = now
        whole = checkpoint is None or self.holdings.holds(checkpoint, _own_shards(job))
        if self.state.prepared is None or self.state.linked is not None or whole:
            return [fx.Reconnect()]
        # What a commit would link has gone since: it must be planned anew.
        self.state = replace(self.state, prepared=None)
        return [fx.Persist(self.state), fx.Reconnect()]

    def accept(self, job: Job, attempt: str, now: float) -> list[fx.NodeEffect]:
        """A valid `replicator.yaml` starts (or restarts) the job; leftovers were cleaned up."""
        in_vain, waited = self._starts.another(job, now)
        self.state = NodeState(job, attempt, in_vain, waited, self.state.epoch)
        self.saves.forget()
        self.holdings.a_new_run()
        self._needs.clear()
        self._plan = None
        self._backup = ""
        self._told.clear()
        self._hello_at = None
        self._not_yet = ""
        self._joined_at = self._lost_at = now
        self.connected = False  # whatever is still under way belongs to the earlier start
        effects = [*self._transfers.stop(), fx.Persist(self.state)]
        return [*effects, *self._check_own(job), fx.Reconnect()]

    def _check_own(self, job: Job) -> Iterator[fx.NodeEffect]:
        """Begin to verify what will most likely be restored; the others may be a while."""
        own = _own_shards(job)
        newest = self.holdings.newest(own)
        if newest is None:
            return iter(())
        keys = [Key(newest, shard) for shard in own]
        held = self.holdings.copies
        local = Source(Origin.LOCAL, job.rank)
        return self._transfers.check(fx.GetCopy(key, *held[key], local) for key in keys)

    def saved(self, step: int, now: float) -> list[fx.NodeEffect]:
        """The application has finished saving a step (all workers)."""
        if self.state.job is None or self.state.linked is None:
            return []  # not ours yet: the shell scans again after linking
        self.saves.add(step)
        return self._seal_next()

    def _seal_next(self) -> list[fx.NodeEffect]:
        if self.state.job is None or self.state.linked is None:
            return []
        effects = self.saves.next(self.state.linked, self.state.last_step, self.state.job.workers)
        if any(isinstance(effect, fx.RejectSave) for effect in effects):
            self.holdings.something_is_put_aside()
        return effects

    def never_finished(self, step: int, workers: Iterable[int]) -> list[fx.NodeEffect]:
        """A step that these workers did not save, while a later one is whole."""
        self.holdings.something_is_put_aside()
        return never_finished(step, workers)

    def sealed(
        self, checkpoint: CheckpointId, contents: tuple[Content, ...], now: float
    ) -> list[fx.NodeEffect]:
        """A save is hashed and in place."""
        self.saves.sealing = None
        job = self.state.job
        if job is None:
            return []
        for worker, content in enumerate(contents):
            self.holdings.copies[Key(checkpoint, ShardId(job.rank, worker))] = (content, job.world)
        effects: list[fx.NodeEffect] = []
        if self.state.linked is not None and checkpoint.epoch == self.state.linked.epoch:
            self.state = replace(self.state, last_step=max(checkpoint.step, self.state.last_step))
            effects.append(fx.Persist(self.state))
            effects += self._send(msg.Sealed(checkpoint, contents), now)
        return effects + self._seal_next()

    def seal_failed(self, checkpoint: CheckpointId, detail: str) -> list[fx.NodeEffect]:
        """The save could not be taken; the application goes on, unprotected for this step."""
        self.saves.sealing = None
        self.holdings.something_is_put_aside()  # by the shell, where it gives the save up
        text = f"step {checkpoint.step} could not be taken over: {detail}"
        return [*self._tell_once(text), *self._seal_next()]  # it is tried again

    def copied(self, key: Key, content: Content, world: int, now: float) -> list[fx.NodeEffect]:
        """A copy is on this disk, verified."""
        self.holdings.copies[key] = (content, world)
        return self._got(key, content, now) if self._transfers.done(key) else []

    def _got(self, key: Key, content: Content, now: float) -> list[fx.NodeEffect]:
        effects = self._send(msg.Have(key.checkpoint, key.shard, content), now)
        plan = self._plan
        if plan is not None and key.checkpoint == plan.checkpoint and key.shard in self._needs:
            self._needs.discard(key.shard)
            effects += self._prepared(plan, now)
        return effects

    def copy_failed(
        self, key: Key, source: Source, failure: Failure, detail: str, now: float
    ) -> list[fx.NodeEffect]:
        """A copy could not be made, or a local one proved bad (then it is taken out of use)."""
        asked_for = self._transfers.failed(key)
        if asked_for is None:
            return []
        effects: list[fx.NodeEffect] = []
        if source.origin is Origin.LOCAL and failure in (Failure.CORRUPT, Failure.MISSING):
            effects += self._take_out(key, detail)
        if asked_for:
            effects += self._send(msg.CopyFailed(*key, source, failure, detail[:500]), now)
        if failure is not Failure.TRANSIENT:
            step, rank = key.checkpoint.step, key.shard.rank
            text = f"step {step} of node {rank}: {failure} ({source.origin}): {detail}"
            effects += self._tell_once(text, about=f"{key} {failure} {source.origin}")
        return effects

    def _take_out(self, key: Key, detail: str) -> list[fx.NodeEffect]:
        bad = self.holdings.take_out(key)
        if not bad:
            return []
        effects: list[fx.NodeEffect] = [fx.Quarantine(bad, detail)]
        job, checkpoint = self.state.job, self.state.checkpoint
        own = job is not None and any((k[0], k.shard.rank) == (checkpoint, job.rank) for k in bad)
        if own and self.state.prepared is not None and self.state.linked is None:
            self.state = replace(self.state, prepared=None)  # it may be what a commit would link
            effects.insert(0, fx.Persist(self.state))
        return effects

    def uploaded(self, name: str, problem: str, now: float) -> list[fx.NodeEffect]:
        """This node's part of a backup is stored, or could not be."""
        effects = self._send(msg.BackupDone(name, problem[:500]), now)
        if problem:
            effects.append(fx.WriteError(f"backup {name}: {problem}"))
        return effects

    def no_room(self, now: float) -> list[fx.NodeEffect]:
        """The next save would not fit: training goes before backups, so this one is given up."""
        if not self._backup:
            return []
        name, self._backup = self._backup, ""
        done = msg.BackupDone(name, NO_ROOM, no_room=True)
        return [fx.StopUploads(), *self._send(done, now)]

    # ---- events from the connection -------------------------------------------------------------

    def link_up(self, now: float) -> list[fx.NodeEffect]:
        """A connection to the coordinator is up, authenticated."""
        if self.state.job is None:
            return []
        self.connected = True
        self._heard = now
        self._hello_at = None
        self._not_yet = ""
        self._plan = None
        self._needs.clear()
        # Before the hello: then nothing is stored any more of a backup that nobody knows of.
        stop = [fx.StopUploads(), *self._transfers.stop_for(None)]
        return [*stop, *self._send(self._hello(now), now)]

    def link_down(self, now: float) -> list[fx.NodeEffect]:
        """The connection is gone."""
        if not self.connected:
            return []
        self.connected = False
        self._hello_at = None
        self._lost_at = now
        return [fx.Reconnect()] if self.state.job is not None else []

    def _hello(self, now: float) -> msg.Hello:
        age = now - self._starts.accepted_at
        return hello(self.state, age, self.address, self.holdings.inventory())

    def received(self, message: msg.ToNode, now: float) -> list[fx.NodeEffect]:
        """A message from the coordinator, already decoded and authenticated."""
        if not self.connected or self.state.job is None:
            return []
        self._heard = now
        handler = _HANDLERS.get(type(message))
        return handler(self, message, now) if handler is not None else []

    def _on_plan(self, plan: msg.Plan, now: float) -> list[fx.NodeEffect]:
        if self.state.linked is not None:
            return []  # the application runs: no plan can concern it
        known, self._plan = self._plan, plan
        if known is not None and known.run == plan.run:  # confirmed
            announced = fx.Announce(plan.checkpoint, plan.backup)
            return [announced, *self._prepared(plan, now)]
        self._needs = set(plan.needs)
        self.state = replace(
            self.state,
            epoch=max(self.state.epoch, plan.run.epoch),
            prepared=None,
            checkpoint=plan.checkpoint,
            forced=plan.forced,
        )
        effects = [*self._transfers.stop_for(plan.checkpoint), fx.Persist(self.state)]
        if not plan.tentative:  # the application must not hear of a step that may yet change
            effects.append(fx.Announce(plan.checkpoint, plan.backup))
        return effects + self._prepared(plan, now)

    def _prepared(self, plan: msg.Plan, now: float) -> list[fx.NodeEffect]:
        """Say so once all that the plan needs is here, and the plan is certain."""
        if self._needs or plan.tentative:
            return []
        self.state = replace(self.state, prepared=plan.run)
        return [fx.Persist(self.state), *self._send(msg.Prepared(plan.run), now)]

    def _on_fetch(self, fetch: msg.Fetch, now: float) -> list[fx.NodeEffect]:
        key = Key(fetch.checkpoint, fetch.shard)
        held = self.holdings.copies.get(key)
        if fetch.source.origin is not Origin.LOCAL and held is not None:
            if held[0] == fetch.content and key.shard not in self._needs:
                return self._send(msg.Have(key.checkpoint, key.shard, held[0]), now)
        elif fetch.source.origin is Origin.LOCAL and held is None:
            return self._send(
                msg.CopyFailed(*key, fetch.source, Failure.MISSING, "no such copy here"), now
            )
        elif held is not None and self._transfers.take_verified(key):
            return self._got(key, held[0], now)
        copy = fx.GetCopy(key, fetch.content, fetch.world, fetch.source)
        return self._transfers.start(copy)

    def _on_commit(self, commit: msg.Commit, now: float) -> list[fx.NodeEffect]:
        state = self.state
        if state.linked is not None or state.job is None:
            return []
        if state.prepared != commit.run:
            return self._give_up(LOST_BEFORE_LINK)  # all others are released and cannot come back
        effects = self._transfers.end_checks()
        if commit.checkpoint is None:
            effects += self.holdings.put_all_aside("no checkpoint could be restored as a whole")
        effects.append(fx.Link(commit.checkpoint, state.job.workers))
        self.state = replace(state, linked=commit.run, last_step=-1)
        self._starts.restored()
        self._joined_at = None
        self._plan = None
        effects.append(fx.Persist(self.state))
        useless = [key for key in self.holdings.copies if key.checkpoint in commit.discard]
        return effects + self.holdings.delete(useless)

    def _on_progress(self, progress: msg.Progress, now: float) -> list[fx.NodeEffect]:
        if self.state.linked != progress.run:
            return []
        return [*self.holdings.forget_old(progress), *self._room_beside_backup(progress)]

    def _room_beside_backup(self, progress: msg.Progress) -> Iterator[fx.NodeEffect]:
        """An older step that is kept for its backup must leave room for one more save."""
        newest = progress.replicated
        if not self._backup or newest is None or all(held >= newest for held in progress.held):
            return
        copies = self.holdings.copies.items()  # equal data is there once
        sizes = {c.manifest: c.size for key, (c, _) in copies if key.checkpoint == newest}
        yield fx.CheckRoom(sum(sizes.values()))

    def _on_backup(self, order: msg.StartBackup, now: float) -> list[fx.NodeEffect]:
        job = self.state.job
        assert job is not None
        own = _own_shards(job)
        self._backup = order.name
        if not self.holdings.holds(order.checkpoint, own):
            return self.uploaded(order.name, f"node {job.rank} no longer holds it", now)
        return [fx.Upload(order.name, order.checkpoint, order.upload, own)]

    def _on_report(self, report: msg.Report, now: float) -> list[fx.NodeEffect]:
        return [fx.WriteError(report.text)]

    def _on_refuse(self, refuse: msg.Refuse, now: float) -> list[fx.NodeEffect]:
        if self.state.linked is not None:
            return [fx.WriteError(refuse.text)]
        return self._give_up(refuse.text)

    def _give_up(self, text: str) -> list[fx.NodeEffect]:
        self.state = NodeState(epoch=self.state.epoch)
        self.connected = False
        self._joined_at = None
        stop = self._transfers.stop()
        return [*stop, fx.Persist(self.state), fx.WriteFailed(text), fx.Reconnect()]

    def _on_not_yet(self, answer: msg.NotYet, now: float) -> list[fx.NodeEffect]:
        self._hello_at = now + HELLO_PAUSE
        self._not_yet = answer.text
        return self._tell_once(answer.text)

    def _on_ping(self, ping: msg.Ping, now: float) -> list[fx.NodeEffect]:
        return []

    # ---- time -----------------------------------------------------------------------------------

    def tick(self, now: float) -> list[fx.NodeEffect]:
        """Called about once a second: heartbeats and deadlines."""
        job = self.state.job
        if job is None:
            return []
        effects: list[fx.NodeEffect] = []
        if self._joined_at is not None and (why := self._why_given_up(job, now - self._joined_at)):
            return self._give_up(why)
        if not self.connected:
            if self._lost_at is not None and now - self._lost_at > self.timing.silence:
                effects += self._tell_once(
                    "the coordinator does not answer; new saves are not replicated until it does"
                )
            return effects
        if now - self._heard > self.timing.silence:
            return self.link_down(now)
        if self._hello_at is not None and now >= self._hello_at:
            self._hello_at = None
            self._not_yet = ""
            return self._send(self._hello(now), now)
        if now - self._sent >= self.timing.heartbeat:
            effects += self._send(msg.Ping(), now)
        return effects

    def _why_given_up(self, job: Job, waited: float) -> str:
        """Why the wait for the restore is over; empty while it is not.

        A coordinator that counts this node in has its own deadlines; past all of them it has lost
        sight of the node.
        """
        alone = self._not_yet
        if not self.connected:
            alone = f"no coordinator (node 0 of job {job.name}) answered"
        whole = self.timing.join + self.timing.restore
        limit = whole if self.state.prepared else self.timing.join
        if alone and waited > limit:
            return f"not part of the job after {limit:.0f} s: {alone}"
        if waited > whole + self.timing.silence:
            return f"no restore within {waited:.0f} s; nothing was deleted"
        return ""

    def _tell_once(self, text: str, about: str = "") -> list[fx.NodeEffect]:
        """An error for the job, unless the same (or one about the same) was written before."""
        about = about or text
        if about in self._told:
            return []
        if len(self._told) >= MAX_TOLD:
            self._told.clear()
        self._told.add(about)
        return [fx.WriteError(text)]

    def _send(self, message: msg.ToCoordinator, now: float) -> list[fx.NodeEffect]:
        if not self.connected:
            return []
        self._sent = now
        return [fx.Send(message)]


def _own_shards(job: Job) -> tuple[ShardId, ...]:
    return tuple(ShardId(job.rank, worker) for worker in range(job.workers))


_HANDLERS: dict[type[Any], Callable[[Node, Any, float], list[fx.NodeEffect]]] = {
    msg.Plan: Node._on_plan,
    msg.Fetch: Node._on_fetch,
    msg.Commit: Node._on_commit,
    msg.Progress: Node._on_progress,
    msg.StartBackup: Node._on_backup,
    msg.Report: Node._on_report,
    msg.Refuse: Node._on_refuse,
    msg.NotYet: Node._on_not_yet,
    msg.Ping: Node._on_ping,
}
