"""Lightning through the replicator: a `CheckpointIO`, and strategies that save on every node.

Lightning lets only global rank 0 write, but a step counts as saved when *every* node has saved it:
use `every_node_saves(DDPStrategy)` (or mix `EveryNodeSaves` into a strategy of your own) with
`ReplicatorCheckpointIO`. Checkpoint callbacks keep working; the path they choose is not used, the
step inside the checkpoint is.

Needs torch and lightning (or pytorch_lightning).
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any, Final

from replicator.client.errors import ClientError, SaveError
from replicator.client.session import ReplicatorClient
from replicator.client.volume import Restored

CHECKPOINT_FILE: Final = "checkpoint.pt"


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
    """Mixed into a strategy: the first rank of each node saves, not of the whole job."""

    checkpoint_io: Any
    local_rank: int

    def save_checkpoint(
        self, checkpoint: dict[str, Any], filepath: Any, storage_options: Any = None
    ) -> None:
        """See Lightning's `Strategy.save_checkpoint`."""
        if self.local_rank == 0:
            self.checkpoint_io.save_checkpoint(
                checkpoint, filepath, storage_options=storage_options
            )

    def remove_checkpoint(self, filepath: Any) -> None:
        """See Lightning's `Strategy.remove_checkpoint`; what old data goes, the replicator
        decides."""


def every_node_saves(strategy: type) -> type:
    """A strategy class that saves on every node: `every_node_saves(DDPStrategy)(...)`."""
    return type(f"EveryNode{strategy.__name__}", (EveryNodeSaves, strategy), {})


class ReplicatorCheckpointIO(_checkpoint_io.TorchCheckpointIO):  # type: ignore[misc]
    """Saves to the node's replicator and loads what it restored."""

    def __init__(self, client: ReplicatorClient, restored: Restored | None = None) -> None:
        """Use a client that has started.

        Args:
            client: this node's.
            restored: what `client.start()` gave; then pass `restored_path()` as `ckpt_path`
                to `fit`.
        """
        super().__init__()
        self._client = client
        self._restored = restored
        self._handed_over: tuple[int, frozenset[str]] | None = None  # the last step, what it held

    def restored_path(self) -> str | None:
        """For `Trainer.fit(ckpt_path=...)`: the restored checkpoint, or None to begin anew."""
        if self._restored is None:
            return None
        return str(self._restored.path / CHECKPOINT_FILE)

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None
    ) -> None:
        """Write a checkpoint locally and hand it over; `path` is not used.

        Callbacks write one step under several names (`save_last=True`): it is handed over once.

        Raises:
            SaveError: it could not be written or handed over, or has no step.
            ReplicatorFailedError: the replicator gave up since the last call.
        """
        step = checkpoint.get("global_step")
        if not isinstance(step, int):
            raise SaveError("the checkpoint holds no global_step")
        content = frozenset(checkpoint)
        if self._handed_over is not None:
            last, held = self._handed_over
            if last == step and content <= held:  # not weights alone before, and all of it now
                return
        with self._client.save(step) as pending:
            try:
                super().save_checkpoint(checkpoint, pending / CHECKPOINT_FILE)
            except ClientError:
                raise
            except Exception as error:  # torch reports a full disk as RuntimeError
                raise SaveError(f"step {step}: {error}") from error
        self._handed_over = step, content

    def remove_checkpoint(self, path: Any) -> None:
        """Removes nothing that the replicator holds; it decides what old data goes."""
        if Path(path).parent != self._client.volume.directory:
            super().remove_checkpoint(path)
