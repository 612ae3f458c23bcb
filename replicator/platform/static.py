"""Peers from a file: for bare machines, laptops and tests.

```yaml
agents: ["10.0.0.1:4242", "10.0.0.2:4242"]   # any order; ranks come from replicator.yaml
job-uid: "2026-11-30-a"                       # optional: tells two runs of one name apart
```
"""

from __future__ import annotations

from pathlib import Path

import yaml

from replicator.agent.channel import split_address
from replicator.agent.files import read_given
from replicator.config import is_safe_job_name
from replicator.errors import ProtocolError
from replicator.platform.base import PlatformError
from replicator.yaml_fields import problem_of

MAX_FILE_BYTES = 4 * 1024 * 1024
"""Room for more than 100,000 addresses."""


class StaticPlatform:
    """All agents' addresses from a file that is read anew for every question."""

    def __init__(self, path: Path, job_uid: str = "") -> None:
        self._path = path
        self._uid = job_uid
        self.agents()  # a bad file is an error at start, not at the first failure

    def agents(self) -> list[str]:
        """The addresses in the file's order.

        Raises:
            PlatformError: the file cannot be used.
        """
        return self._read()[0]

    @property
    def job_uid(self) -> str:
        """The one given, else the `job-uid` of the file, or empty.

        Raises:
            PlatformError: the file cannot be used now; somebody may be writing it.
        """
        return self._uid or self._read()[1]

    async def coordinators(self, job: str) -> list[str]:
        """Every agent: they are asked, and the one with rank 0 says so."""
        return self.agents()

    async def publish(self, job: str, address: str, since: float) -> None:
        """Nothing to do: agents ask one another."""

    async def withdraw(self, job: str) -> None:
        """Nothing to do."""

    async def begin(self, job: str) -> None:
        """Nothing to do."""

    def _read(self) -> tuple[list[str], str]:
        try:
            content = read_given(self._path, MAX_FILE_BYTES)
        except FileNotFoundError:
            raise PlatformError(f"{self._path}: no such file; expected a list of agents") from None
        except OSError as error:
            raise PlatformError(f"{self._path}: {error.strerror or error}") from None
        return _parse(content, str(self._path))


def _parse(content: bytes, shown: str) -> tuple[list[str], str]:
    if len(content) > MAX_FILE_BYTES:
        raise PlatformError(f"{shown}: larger than {MAX_FILE_BYTES} bytes")
    try:
        document = yaml.load(content, Loader=yaml.CSafeLoader)
    except yaml.YAMLError as error:
        problem = problem_of(error)
        where = f"{shown}:{problem.line}:{problem.column}"
        raise PlatformError(f"{where}: {problem.message}") from None
    except (ValueError, RecursionError) as error:  # a date that is none, say
        raise PlatformError(f"{shown}: {' '.join(str(error).split())}") from None
    if not isinstance(document, dict) or not set(document) <= {"agents", "job-uid"}:
        raise PlatformError(f"{shown}: expected a mapping with agents and, optionally, job-uid")
    agents, uid = document.get("agents"), document.get("job-uid", "")
    if not isinstance(agents, list) or not agents:
        raise PlatformError(f"{shown}: agents: expected a list of host:port, found {agents!a:.80}")
    try:
        for address in agents:
            split_address(str(address))
    except ProtocolError as error:
        raise PlatformError(f"{shown}: agents: {error}") from None
    if uid != "" and not (isinstance(uid, str) and is_safe_job_name(uid)):
        raise PlatformError(f"{shown}: job-uid: expected letters, digits, '.', '_' and '-'")
    return [str(address) for address in agents], uid
