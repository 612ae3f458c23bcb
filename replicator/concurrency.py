"""Many small asynchronous tasks, a few at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


async def gather(limit: int, coroutines: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Results in order, at most `limit` running; the first error stops the rest and is raised.

    The coroutines are taken one by one as there is room: give a generator.
    """
    results: dict[int, T] = {}
    waiting = iter(enumerate(coroutines))

    async def work() -> None:
        for index, coroutine in waiting:
            results[index] = await coroutine

    tasks = [asyncio.ensure_future(work()) for _ in range(limit)]
    try:
        await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
    return [results[index] for index in range(len(results))]
