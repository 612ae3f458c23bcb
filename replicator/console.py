"""The console script of the slim distribution, which may lack what the agent needs."""

from __future__ import annotations

import sys
from typing import Final

AGENT_REQUIREMENTS: Final = frozenset({"inotify_simple", "obstore", "prometheus_client"})
"""Import names of the extra `agent` of replicator/pyproject.toml."""


def main() -> int:
    """Run `replicator.cli`, or say which extra is missing."""
    try:
        from replicator.cli import main as run
    except ModuleNotFoundError as error:
        if error.name not in AGENT_REQUIREMENTS:
            raise
        print(
            f"error: {error.name} is not installed; the agent and its commands need the extra: "
            "pip install 'stowplan-replicator[agent]'",
            file=sys.stderr,
        )
        return 2
    return run()
