"""Jsonnet in a process of its own: what never ends, or takes all memory, takes only that along.

The interpreter is Go's. An endless recursion with ``tailstrict`` overflows Go's stack, which ends
the process that it runs in.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from generator.processes import die_with_parent, ending

TIME_LIMIT_S = 60
"""How long one evaluation may take."""
MEMORY_LIMIT = 4 << 30
"""Bytes of data that the interpreter may have."""


class JsonnetError(Exception):
    """An evaluation failed; the text is the interpreter's."""


class UnboundedError(JsonnetError):
    """An evaluation did not come to an end; the text says what became of it."""


@dataclass
class _Interpreter:
    process: subprocess.Popen[bytes]

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Send a request and wait for its answer.

        Raises:
            UnboundedError: the process ended, or took too long.
        """
        assert self.process.stdin is not None
        deadline = time.monotonic() + TIME_LIMIT_S
        with contextlib.suppress(BrokenPipeError):  # it ended, which its silence says as well
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._line(deadline))
        return answer

    def _line(self, deadline: float) -> bytes:
        assert self.process.stdout is not None
        file = self.process.stdout.fileno()
        poller = select.poll()
        poller.register(file, select.POLLIN)
        parts: list[bytes] = []
        while not parts or not parts[-1].endswith(b"\n"):
            if not poller.poll(max(0.0, deadline - time.monotonic()) * 1000):
                raise UnboundedError(f"the overlay was not done after {TIME_LIMIT_S} seconds")
            parts.append(os.read(file, 1 << 16))
            if not parts[-1]:
                code = self.process.wait()
                raise UnboundedError(f"the overlay cannot be evaluated: {ending(code)}")
        return b"".join(parts)

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


_interpreters: dict[int, _Interpreter] = {}
"""This process' interpreter, under its id: a fork has none yet."""


def evaluate(shown: str, code: str, values: dict[str, Any], folder: Path) -> str:
    """Evaluate a program and return its JSON text.

    Args:
        shown: how the program is called in errors.
        code: the program, a function.
        values: the function's arguments.
        folder: where imports are looked up; nothing outside it is read.

    Raises:
        JsonnetError, UnboundedError: see there.
    """
    request = {"shown": shown, "code": code, "values": values, "folder": str(folder)}
    mine = os.getpid()
    if mine not in _interpreters:
        _interpreters.clear()
        # -P: a folder called generator in the user's tree is not ours.
        command = [sys.executable, "-P", "-c", f"from {__name__} import serve; serve({mine})"]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        _interpreters[mine] = _Interpreter(process)
        atexit.register(_close, mine)
    try:
        answer = _interpreters[mine].ask(request)
    except BaseException:  # an interrupt as well: its answer would be the next one's
        _close(mine)
        raise
    if "error" in answer:
        raise JsonnetError(answer["error"])
    return str(answer["text"])


def _close(process: int) -> None:
    if process == os.getpid() and process in _interpreters:
        _interpreters.pop(process).close()


def serve(parent: int) -> None:
    """Answer requests, one a line, until there are no more."""
    die_with_parent(parent)
    import _gojsonnet

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # stowplan handles an interrupt
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    limit = MEMORY_LIMIT if most == resource.RLIM_INFINITY else min(MEMORY_LIMIT, most)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for line in sys.stdin.buffer:
        request = json.loads(line)
        folder = Path(request["folder"])

        def imported(base: str, wanted: str, folder: Path = folder) -> tuple[str, bytes]:
            for start in (Path(base), folder):
                target = (start / wanted).resolve()
                if target.is_relative_to(folder) and target.is_file():
                    return str(target), target.read_bytes()
            raise RuntimeError(f"{wanted} is not below inventory/{folder.name}")

        try:
            text = _gojsonnet.evaluate_snippet(
                request["shown"],
                request["code"],
                tla_codes={name: json.dumps(value) for name, value in request["values"].items()},
                import_callback=imported,
            )
            answer = {"text": text}
        except RuntimeError as error:
            answer = {"error": str(error)}
        sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
        sys.stdout.buffer.flush()
