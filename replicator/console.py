"""The console script of both distributions, which may lack what the agent needs.

Nothing else is imported here, so that the script can say what is missing.
"""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, distribution
from typing import Final

AGENT_REQUIREMENTS: Final = frozenset({"inotify_simple", "obstore", "prometheus_client"})
"""Import names of the extra `agent` of replicator/pyproject.toml, `replicator` of the root's."""
CLIENT_REQUIREMENTS: Final = frozenset({"blake3", "yaml"})
"""Import names of what both distributions always bring (unless installed with `--no-deps`)."""


def main() -> int:
    """Run `replicator.cli`, or say which extra is missing."""
    try:
        from replicator.cli import main as run
    except ModuleNotFoundError as error:
        if error.name not in AGENT_REQUIREMENTS | CLIENT_REQUIREMENTS:
            raise
        print(
            f"error: {error.name} is not installed; the agent and its commands need the extra: "
            f"pip install '{_distribution_with_extra()}'",
            file=sys.stderr,
        )
        return 2
    except KeyboardInterrupt:  # the imports take a moment
        return 130
    return run()


def _distribution_with_extra() -> str:
    try:
        distribution("stowplan-replicator")
    except PackageNotFoundError:
        return "stowplan[replicator]"
    return "stowplan-replicator[agent]"
