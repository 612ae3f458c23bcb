"""Pieces of inventory that put the example fleet's RAM disks into the replicator's hands."""

from __future__ import annotations

GIVEN = "      retention: ${vars:retention}\n"
"""What a pool's class says of its retention: the line to be replaced."""
AGENT = """      provider: self-hosted
      agent:
        image: ${vars:registry}/stowplan-replicator:0.1.0
        keySecret: {name: replicator-key, key: shared}
"""
RETENTION = """      retention:
        tool: replicator
        image: ${vars:registry}/stowplan-replicator:0.1.0
        delete: true
"""
SELF_HOSTED = AGENT + RETENTION


def configuration(name: str, pool: str, size: str, directory: str, namespace: str = "") -> str:
    """One more configuration, with agents of its own."""
    agents = f"        namespace: {namespace}\n" if namespace else ""
    return f"""    {name}:
{AGENT}{agents}      bucket: ${{vars:bucket}}
      directory: {directory}
      nodePool: {pool}
      localCheckpointSize: {size}
      backup: ${{vars:backup}}
      retention: {{tool: none}}
"""
