"""One process of a JAX job on CPU: orbax_worker.py ACTION LOCAL_DIR PROCESS PROCESSES PORT STEP.

Started by test_client_orbax.py; prints one line of JSON.
"""

from __future__ import annotations

import json
import os
import sys

ACTION, DIRECTORY = sys.argv[1], sys.argv[2]
PROCESS, PROCESSES, PORT, STEP = (int(text) for text in sys.argv[3:7])
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"

from replicator.client import orbax as replicator_orbax  # noqa: E402


def main() -> dict[str, object]:
    replicator_orbax.initialize_on_cpu(
        DIRECTORY,
        "orbax-job",
        process_id=PROCESS,
        processes=PROCESSES,
        coordinator_address=f"127.0.0.1:{PORT}",
        slices=PROCESSES,
        backup_interval_steps=1,
    )
    import jax
    import numpy as np
    from etils import epath
    from jax.sharding import Mesh, NamedSharding, PartitionSpec
    from orbax.checkpoint import args as ocp_args
    from orbax.checkpoint.experimental.emergency import replicator_checkpoint_manager as rcm

    # Replicated over the processes (data), split over the devices of each (x).
    mesh = Mesh(np.array(jax.devices()).reshape(PROCESSES, -1), ("data", "x"))
    sharding = NamedSharding(mesh, PartitionSpec("x"))

    def array(factor: float) -> jax.Array:
        values = np.arange(64, dtype=np.float32).reshape(8, 8) * factor
        return jax.make_array_from_callback(values.shape, sharding, lambda index: values[index])

    result: dict[str, object] = {"process": jax.process_index()}
    with rcm.ReplicatorCheckpointManager(
        epath.Path(DIRECTORY),
        options=rcm.ReplicatorCheckpointManagerOptions(),
        global_mesh=mesh,
    ) as manager:
        result["latest"] = latest = manager.latest_step()
        if latest is not None:
            target = {"w": jax.ShapeDtypeStruct((8, 8), np.float32, sharding=sharding)}
            restored = manager.restore(
                latest, args=ocp_args.Composite(state=ocp_args.PyTreeRestore(target))
            )["state"]["w"]
            expected = array(float(latest))
            result["equal"] = all(
                np.array_equal(a.data, b.data)
                for a, b in zip(
                    restored.addressable_shards, expected.addressable_shards, strict=True
                )
            )
        if ACTION == "save":
            manager.save(
                STEP, args=ocp_args.Composite(state=ocp_args.PyTreeSave({"w": array(float(STEP))}))
            )
            manager.wait_until_finished()
    return result


if __name__ == "__main__":
    print(json.dumps(main()))
