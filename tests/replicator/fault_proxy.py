"""A small HTTP proxy on loopback that makes an object store misbehave on demand."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from email.message import Message
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


class Fault(Enum):
    THROTTLE = "answer 503 SlowDown"
    TEAR_UPLOAD = "read half of the request's body, then hang up"
    VANISH = "answer 404"
    CUT_DOWNLOAD = "send half of the response's body, then hang up"
    SLOW_DOWNLOAD = "send the response's body in small pieces with pauses"
    STALL = "never answer"
    FLIP_BYTE = "change one byte of the response's body"


@dataclass
class FaultProxy:
    """Forwards to `upstream`; `rule(method, path)` picks a fault for a request, or None."""

    upstream: str
    rule: Callable[[str, str], Fault | None] = lambda _method, _path: None
    seen: list[tuple[str, str, Fault | None]] = field(default_factory=list)
    on_headers: Callable[[Message], object] = lambda _headers: None
    translate: Callable[[str, str], str] = lambda _method, path: path
    """The path that `upstream` expects for a request."""
    complete: Callable[[str, bytes], dict[str, str]] = lambda _method, _body: {}
    """Headers that `upstream` forgets in its answer to a request of this method."""

    def __enter__(self) -> FaultProxy:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do(self) -> None:
                proxy._serve(self)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = do  # noqa: N815

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._closing = threading.Event()
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}"

    def faults(self, fault: Fault) -> int:
        return sum(1 for _, _, found in self.seen if found is fault)

    def _serve(self, request: BaseHTTPRequestHandler) -> None:
        fault = self.rule(request.command, request.path)
        self.on_headers(request.headers)
        self.seen.append((request.command, request.path, fault))
        length = int(request.headers.get("Content-Length", 0))
        if fault is Fault.TEAR_UPLOAD:
            request.rfile.read(length // 2)
            self._hang_up(request)
            return
        body = request.rfile.read(length)
        if fault is Fault.STALL:
            self._closing.wait(30)
            self._hang_up(request)
            return
        if fault in (Fault.THROTTLE, Fault.VANISH):
            code = 503 if fault is Fault.THROTTLE else 404
            request.send_response(code)
            request.send_header("Content-Length", "0")
            request.end_headers()
            return
        self._forward(request, body, fault)

    def _forward(self, request: BaseHTTPRequestHandler, body: bytes, fault: Fault | None) -> None:
        target = urlsplit(self.upstream)
        connection = http.client.HTTPConnection(target.hostname or "", target.port, timeout=20)
        headers = {
            name: value
            for name, value in request.headers.items()
            if name.lower() not in ("connection", "host")
        }
        path = self.translate(request.command, request.path)
        connection.request(request.command, path, body or None, headers)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        request.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "connection", "content-length", "date"):
                request.send_header(name, value)
        for name, value in self.complete(request.command, content).items():
            request.send_header(name, value)
        declared = answer.getheader("Content-Length") if request.command == "HEAD" else None
        request.send_header("Content-Length", declared or str(len(content)))
        request.end_headers()
        if request.command == "HEAD":
            return
        if fault is Fault.FLIP_BYTE and content:
            middle = len(content) // 2
            content = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
        if fault is Fault.CUT_DOWNLOAD:
            request.wfile.write(content[: len(content) // 2])
            self._hang_up(request)
        elif fault is Fault.SLOW_DOWNLOAD:
            for start in range(0, len(content), max(1, len(content) // 20)):
                request.wfile.write(content[start : start + max(1, len(content) // 20)])
                request.wfile.flush()
                time.sleep(0.01)
        else:
            request.wfile.write(content)

    @staticmethod
    def _hang_up(request: BaseHTTPRequestHandler) -> None:
        request.close_connection = True
        try:
            request.wfile.flush()
            request.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def on_path(
    part: str, fault: Fault, *, times: int = 10**9, method: str | None = None
) -> Callable[[str, str], Fault | None]:
    """A rule: the first `times` requests whose path holds `part` suffer `fault`."""
    left = [times]

    def rule(found_method: str, path: str) -> Fault | None:
        if part not in path or (method is not None and found_method != method) or left[0] <= 0:
            return None
        left[0] -= 1
        return fault

    return rule
