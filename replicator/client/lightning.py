"""Lightning through the replicator: a `CheckpointIO`, and strategies that save on every node.

Lightning lets only global rank 0 write, but a step counts as saved when *every* node has saved it:
use `every_node_saves(DDPStrategy)` (or mix `EveryNodeSaves` into a strategy of your own) with
`ReplicatorCheckpointIO`. Checkpoint callbacks keep working; the path they choose is not used, the
step inside the checkpoint is.

Nothing in a training program stands between a callback and `Trainer.fit`, so that a `SaveError`
ends the training, unless `on_save_error="warn"` says that it goes on.

Needs torch and lightning (or pytorch_lightning).
"""

from __future__ import annotations

import importlib
import logging
from pathlib import Path
from typing import Any, Final, Literal, get_args

from replicator.client.errors import (
    ClientArgumentError,
    ClientError,
    SaveError,
    root_cause,
    what_it_says,
)
from replicator.client.session import ReplicatorClient
from replicator.client.volume import Restored, whole_number

OnSaveError = Literal["raise", "warn"]

CHECKPOINT_FILE: Final = "checkpoint.pt"

_log = logging.getLogger("replicator.client")


def _import_first(*names: str) -> Any:
    for name in names:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not name.startswith(error.name):
                raise
    raise ImportError(f"none of {', '.join(names)} is installed")


_checkpoint_io: Final[Any] = _import_first(
    "lightning.pytorch.plugins.io", "pytorch_lightning.plugins.io"
)


class EveryNodeSaves:
    """Mixed into a strategy: the first rank of each node saves, not only that of the whole job."""

    checkpoint_io: Any
    local_rank: int

    def save_checkpoint(
        self, checkpoint: dict[str, Any], filepath: Any, storage_options: Any = None
    ) -> None:
        """See Lightning's `Strategy.save_checkpoint`."""
        if _holds_weights_alone(checkpoint):  # a file for everybody, which one rank writes
            inherited: Any = super()
            inherited.save_checkpoint(checkpoint, filepath, storage_options=storage_options)
        elif self.local_rank == 0:
            self.checkpoint_io.save_checkpoint(
                checkpoint, filepath, storage_options=storage_options
            )


def _holds_weights_alone(checkpoint: dict[str, Any]) -> bool:
    """Whether Lightning was asked for `save_weights_only`; else the list is there, if empty."""
    return "optimizer_states" not in checkpoint


def every_node_saves(strategy: type) -> type:
    """A strategy class that saves on every node: `every_node_saves(DDPStrategy)(...)`."""
    return type(f"EveryNode{strategy.__name__}", (EveryNodeSaves, strategy), {})


class ReplicatorCheckpointIO(_checkpoint_io.TorchCheckpointIO):  # type: ignore[misc]
    """Saves to the node's replicator and loads what it restored.

    A checkpoint of the weights alone (`save_weights_only=True`) is no state that training could be
    resumed from: it is written to the path that its callback chose, as without a replicator.
    """

    def __init__(
        self,
        client: ReplicatorClient,
        restored: Restored | None = None,
        *,
        on_save_error: OnSaveError = "raise",
    ) -> None:
        """Use a client that has started.

        Args:
            client: this node's.
            restored: what `client.start()` gave; then pass `restored_path()` as `ckpt_path`
                to `fit`.
            on_save_error: what a step does that cannot be saved, as on a full RAM disk: `raise`
                ends the training; with `warn` it is logged as an error and training goes on. The
                step then is complete on no node but those that saved it, so it is never restored;
                earlier ones are. A replicator that gave up is raised either way.

        Raises:
            ClientArgumentError: `on_save_error` is neither.
        """
        super().__init__()
        if on_save_error not in get_args(OnSaveError):
            expected = " or ".join(repr(word) for word in get_args(OnSaveError))
            raise ClientArgumentError(f"on_save_error is {on_save_error!r}: expected {expected}")
        self._client = client
        self._restored = restored
        self._on_save_error = on_save_error
        self._failed_in_a_row = 0
        self._handed_over: int | None = None  # the last step

    def restored_path(self) -> str | None:
        """For `Trainer.fit(ckpt_path=...)`: the restored checkpoint, or None to begin anew."""
        if self._restored is None:
            return None
        return str(self._restored.path / CHECKPOINT_FILE)

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None
    ) -> None:
        """Write a checkpoint locally and hand it over; `path` is used for weights alone.

        Callbacks write one step under several names (`save_last=True`): it is handed over once. The
        steps of a run grow; the replicator puts aside one that does not.

        Raises:
            SaveError: it has no step; or, unless `on_save_error` is `warn`, it could not be written
                or handed over.
            ReplicatorFailedError: the replicator gave up since the last call.
        """
        if _holds_weights_alone(checkpoint):
            super().save_checkpoint(checkpoint, path, storage_options)
            return
        if "global_step" not in checkpoint:
            raise SaveError("the checkpoint holds no global_step, by which it is handed over")
        step = whole_number(checkpoint["global_step"], "global_step", SaveError)
        try:
            self._save(step, checkpoint)
        except SaveError as error:
            if self._on_save_error == "raise":
                raise
            self._failed_in_a_row += 1
            _log.error(
                "training goes on without a checkpoint (failed saves in a row: %d): %s",
                self._failed_in_a_row,
                error,
            )
        else:
            self._failed_in_a_row = 0

    def _save(self, step: int, checkpoint: dict[str, Any]) -> None:
        if self._handed_over == step:
            return
        with self._client.save(step) as pending:
            try:
                super().save_checkpoint(checkpoint, pending / CHECKPOINT_FILE)
            except ClientError:
                raise
            except Exception as error:
                cause = root_cause(error)
                raise SaveError(f"step {step}: {what_it_says(cause)}") from cause
        self._handed_over = step

    def remove_checkpoint(self, path: Any) -> None:
        """Removes nothing that the replicator holds; it decides what old data goes."""
        if self._client.volume.directory not in Path(path).absolute().parents:
            super().remove_checkpoint(path)
