"""The blocking client and the async one under the same calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest
from fake_replicator import CONFIG

from replicator.client import AsyncReplicatorClient, ReplicatorClient, ReplicatorConfig


class Blocking:
    """The blocking client."""

    def __init__(self, directory: Path, config: ReplicatorConfig = CONFIG) -> None:
        self.client: Any = ReplicatorClient(directory, config)

    def call(self, name: str, *args: Any, **options: Any) -> Any:
        return getattr(self.client, name)(*args, **options)

    def save(self, step: Any, **options: Any) -> None:
        with self.client.save(step, **options):
            pytest.fail("the body must not run")

    def fail_in_save(self, step: int, error: BaseException) -> None:
        """Have the body of a save raise."""
        with self.client.save(step):
            raise error


class Async(Blocking):
    """The one for asyncio, each call in a loop of its own."""

    def __init__(self, directory: Path, config: ReplicatorConfig = CONFIG) -> None:
        self.client = AsyncReplicatorClient(directory, config)

    def call(self, name: str, *args: Any, **options: Any) -> Any:
        async def run() -> Any:
            found = getattr(self.client, name)(*args, **options)
            return await found if isinstance(found, Awaitable) else found

        return asyncio.run(run())

    def save(self, step: Any, **options: Any) -> None:
        async def run() -> None:
            async with self.client.save(step, **options):
                pytest.fail("the body must not run")

        asyncio.run(run())

    def fail_in_save(self, step: int, error: BaseException) -> None:
        async def run() -> None:
            async with self.client.save(step):
                raise error

        asyncio.run(run())


both = pytest.mark.parametrize("kind", [Blocking, Async])


def names(path: Path) -> set[str]:
    return {entry.name for entry in path.iterdir()}
