"""One rank of a torch job on gloo: torch_worker.py ACTION LOCAL_DIR NODE NODES LOCAL LOCALS PORT.

Started by test_client_torch.py; prints one line of JSON.
"""

from __future__ import annotations

import datetime
import json
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist

from replicator.client import Framework, ReplicatorClient, ReplicatorConfig, dcp


def state_of(rank: int, factor: float) -> dict[str, object]:
    generator = torch.Generator().manual_seed(rank)
    return {
        "weight": torch.randn(50, 40, generator=generator) * factor,
        "shared": torch.arange(10.0) * factor,
        "step": int(factor),
    }


def main() -> dict[str, object]:
    action, directory = sys.argv[1], Path(sys.argv[2])
    node, nodes, local, locals_, port = (int(text) for text in sys.argv[3:8])
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    rank, world = node * locals_ + local, nodes * locals_
    dist.init_process_group(
        "gloo", rank=rank, world_size=world, timeout=datetime.timedelta(seconds=60)
    )
    config = ReplicatorConfig(
        "torch-job", Framework.PYTORCH_DISTRIBUTED, node, nodes, None, 1, None, 1
    )
    client = ReplicatorClient(directory, config)
    restored = dcp.start(client, local, handshake_timeout=20, restore_timeout=20)
    result: dict[str, object] = {"restored": None if restored is None else restored.step}
    if action == "save":
        dcp.save(client, state_of(rank, 5.0), 5, local, locals_, hand_over_timeout=20)
        dist.barrier()
    elif action == "load":
        assert restored is not None
        state = state_of(rank, 0.0)
        dcp.load(restored, state, local)
        expected = state_of(rank, 5.0)
        result["equal"] = all(
            torch.equal(state[key], expected[key])  # type: ignore[arg-type]
            for key in ("weight", "shared")
        )
        result["step"] = state["step"]
        dist.barrier()
    dist.destroy_process_group()
    return result


if __name__ == "__main__":
    print(json.dumps(main()))
