"""`/metrics`, `/healthz` and `/status` over plain HTTP, for probes and scrapes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from replicator.agent.sockets import cannot_listen

MAX_REQUEST_BYTES = 8192
REQUEST_SECONDS = 5.0

Page = Callable[[], tuple[int, str, bytes]]

_REASONS = {200: "OK", 404: "Not Found", 503: "Service Unavailable"}


def json_page(status: int, document: dict[str, Any]) -> tuple[int, str, bytes]:
    """A page with a JSON document."""
    return status, "application/json", json.dumps(document, indent=1).encode() + b"\n"


class HttpServer:
    """Serves a few pages; anything that is no short GET request is closed."""

    def __init__(self, pages: dict[str, Page]) -> None:
        self._pages = pages
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen; returns the port (for port 0, the one that was given).

        Raises:
            OSError: the address cannot be bound.
        """
        try:
            self._server = await asyncio.start_server(
                self._serve, host, port, limit=MAX_REQUEST_BYTES
            )
        except OSError as error:
            raise cannot_listen(host, port, error) from None
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                request = await reader.readuntil(b"\r\n\r\n")
                method, _, rest = request.partition(b" ")
                path = rest.partition(b" ")[0].partition(b"?")[0].decode("ascii", "replace")
                page = self._pages.get(path) if method == b"GET" else None
                status, kind, body = (404, "text/plain", b"") if page is None else page()
                head = (
                    f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: {kind}\r\n"
                    f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
                )
                writer.write(head.encode() + body)
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # whoever asked is gone or speaks something else
        finally:
            writer.close()
