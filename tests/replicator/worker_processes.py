"""Jobs of the tests with real clients: a process for each rank, and what each printed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from typing import Any


def run_workers(
    commands: Iterable[Iterable[object]], seconds: float, env: dict[str, str] | None = None
) -> list[tuple[dict[str, Any], str]]:
    """Run scripts with their arguments side by side to their end, which must be a good one.

    Returns:
        for each the JSON of its last line, and its standard error.
    """
    processes = [
        subprocess.Popen(
            [sys.executable, *map(str, command)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=env,
        )
        for command in commands
    ]
    results = []
    for process in processes:
        output, errors = process.communicate(timeout=seconds)
        assert process.returncode == 0, errors[-4000:]
        results.append((json.loads(output.splitlines()[-1]), errors))
    return results
