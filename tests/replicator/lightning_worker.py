"""One node of a Lightning DDP job on gloo: lightning_worker.py DIR NODE NODES PORT ROOT STEPS FULL.

At step FULL of node 1 its disk has no room (0: never). Started by test_client_lightning.py; prints
one line of JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path
from typing import Any

DIRECTORY, NODE, NODES, PORT, ROOT, STEPS, FULL = sys.argv[1:8]
os.environ.update(
    MASTER_ADDR="127.0.0.1",
    MASTER_PORT=PORT,
    GLOO_SOCKET_IFNAME="lo",
    TORCHELASTIC_RUN_ID="test",
    RANK=NODE,
    LOCAL_RANK="0",
    GROUP_RANK=NODE,
    WORLD_SIZE=NODES,
    LOCAL_WORLD_SIZE="1",
)

import lightning.pytorch as pl  # noqa: E402
import torch  # noqa: E402
from lightning.pytorch.strategies import DDPStrategy  # noqa: E402
from lightning_line import Line  # noqa: E402
from small_volumes import no_large_files  # noqa: E402

from replicator.client import Framework, ReplicatorClient, ReplicatorConfig  # noqa: E402
from replicator.client.lightning import (  # noqa: E402
    ReplicatorCheckpointIO,
    every_node_saves,
)


class NoRoom(pl.Callback):
    """Before the checkpoint callback, which Lightning puts last, until the step that follows."""

    def __init__(self) -> None:
        self.limit = contextlib.ExitStack()

    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
        if NODE == "1" and trainer.global_step == int(FULL):
            self.limit.enter_context(no_large_files())

    def on_train_batch_start(self, *_: Any) -> None:
        self.limit.close()


def main() -> dict[str, object]:
    config = ReplicatorConfig(
        "line", Framework.PYTORCH_DISTRIBUTED, int(NODE), int(NODES), None, 1, 30, None
    )
    client = ReplicatorClient(DIRECTORY, config)
    restored = client.start(handshake_timeout=20, restore_timeout=20)
    checkpoint_io = ReplicatorCheckpointIO(client, restored, on_save_error="warn")
    strategy = every_node_saves(DDPStrategy)(
        checkpoint_io=checkpoint_io, process_group_backend="gloo"
    )
    torch.manual_seed(0)
    model = Line(rate=0.01)
    trainer = pl.Trainer(
        accelerator="cpu",
        devices=1,
        num_nodes=int(NODES),
        strategy=strategy,
        max_steps=int(STEPS),
        callbacks=[
            NoRoom(),
            pl.callbacks.ModelCheckpoint(dirpath=Path(ROOT), every_n_train_steps=2, save_top_k=-1),
        ],
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(model, ckpt_path=checkpoint_io.restored_path())
    return {
        "restored": None if restored is None else restored.step,
        "step": trainer.global_step,
        "weight": model.layer.weight.detach().flatten().tolist(),
    }


if __name__ == "__main__":
    print(json.dumps(main()))
