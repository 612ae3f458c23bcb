"""A thin, read-only client of a cluster: ``kubectl get --raw`` and nothing else.

kubectl knows every way to sign in (GKE's plugin included), so no credential passes through here.
Only GET requests are ever made, and every call carries an explicit context.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from generator.doctor.access import Access, explained, html_page
from generator.doctor.objects import full_name

PAGE = 500
"""Objects of one answer; the API server is asked for the rest with ``continue``."""

EXPIRED = "Expired"
"""The reason of HTTP 410: what a ``continue`` speaks of has been compacted."""

_STATUS = re.compile(r"Error from server \((?P<reason>\w+)\): (?P<message>.*)", re.DOTALL)
_GRACE_S = 5.0
"""How much longer than its own request time-out kubectl may take (sign-in plugins, start)."""


class NoClusterError(Exception):
    """There is no cluster to ask: no kubectl, context or kubeconfig, or nobody answers."""


class RefusedError(Exception):
    """The API server answered, and it did not give what was asked for.

    Attributes:
        reason: the Status object's reason, such as ``Forbidden`` or ``NotFound``.
        message: its text.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason
        self.message = message


class _FailedError(Exception):
    """kubectl did not get an answer; the text is what it said instead."""


@dataclass(frozen=True, slots=True)
class Kubectl:
    """One context of one kubeconfig.

    Attributes:
        context: name of the context; empty asks kubectl's current one, see :meth:`bound`.
        kubeconfig: a file, empty for kubectl's own choice.
        program: the kubectl binary.
        timeout_s: seconds that one request may take.
    """

    context: str = ""
    kubeconfig: str = ""
    program: str = "kubectl"
    timeout_s: float = 30.0

    def bound(self) -> Kubectl:
        """The same with the current context by name, so that it cannot change on the way.

        Raises:
            NoClusterError: there is no such kubeconfig, or no current context.
        """
        if self.kubeconfig and not Path(self.kubeconfig).is_file():
            # kubectl takes a file that is missing for an empty one.
            raise NoClusterError(f"{self.kubeconfig}: there is no such kubeconfig")
        if self.context:
            return self
        name = self._run("config", "current-context").strip()
        return Kubectl(name, self.kubeconfig, self.program, self.timeout_s)

    def server(self) -> str:
        """The address of the context's API server, from the kubeconfig alone.

        Raises:
            NoClusterError: the kubeconfig has no such context.
        """
        template = "jsonpath={.clusters[0].cluster.server}"
        return self._run("config", "view", "--minify", "--output", template).strip()

    def get(self, path: str) -> dict[str, Any]:
        """One GET request.

        Raises:
            RefusedError: the server answered with an error.
            NoClusterError: it did not answer.
        """
        text = self._run("get", "--raw", path)
        try:
            answer = json.loads(text)
        except ValueError as error:
            page = html_page(text)
            raise NoClusterError(page or f"{path}: the answer is no JSON ({error})") from None
        if not isinstance(answer, dict):
            raise NoClusterError(f"{path}: the answer is no object")
        return answer

    def items(self, path: str, query: Mapping[str, str]) -> Iterator[dict[str, Any]]:
        """All objects of a list; a page at a time is held, since pods are large and can be many.

        After some minutes the API server forgets where a page ended (etcd compacts every five);
        then the list is asked for in one piece.

        Raises:
            RefusedError: see :meth:`get`.
            NoClusterError: see :meth:`get`.
        """
        given: set[str] = set()
        paged = {**query, "limit": str(PAGE)}
        asked: Mapping[str, str] | None = paged
        while asked is not None:
            try:
                answer = self.get(f"{path}?{urlencode(asked, quote_via=quote)}")
            except RefusedError as refused:
                if "continue" not in asked or refused.reason != EXPIRED:
                    raise
                asked = query
                continue
            if "items" not in answer:
                raise NoClusterError(f"{path}: the answer is no list")
            for item in answer["items"] or []:
                if (name := full_name(item)) not in given:
                    given.add(name)
                    yield item
            position = (answer.get("metadata") or {}).get("continue", "")
            asked = {**paged, "continue": position} if position else None

    def _run(self, *arguments: str) -> str:
        command = [self.program, f"--request-timeout={self.timeout_s:g}s"]
        if self.kubeconfig:
            command.append(f"--kubeconfig={self.kubeconfig}")
        if self.context:
            command.append(f"--context={self.context}")
        try:
            return _output([*command, *arguments], self.timeout_s + _GRACE_S)
        except _FailedError as error:
            raise NoClusterError(explained(str(error), self._access())) from None

    def _access(self) -> Access:
        if self.kubeconfig:
            return Access(
                self.context, self.kubeconfig, f" --kubeconfig={shlex.quote(self.kubeconfig)}"
            )
        ambient = os.environ.get("KUBECONFIG")
        return Access(self.context, f"{ambient} (KUBECONFIG)" if ambient else "~/.kube/config")


def _output(command: Sequence[str], timeout_s: float) -> str:
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        raise NoClusterError(f"{command[0]} cannot be run: {error.strerror}") from None
    with process:
        try:
            said, complained = process.communicate(timeout=timeout_s)
        except BaseException as error:
            # With its sign-in plugins, which would outlive it.
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise NoClusterError(f"no answer within {timeout_s:.0f} s") from None
            raise
    if process.returncode == 0:
        return said
    refused = _STATUS.search(complained)
    if refused and not html_page(complained):
        raise RefusedError(refused["reason"], refused["message"].strip())
    # Questions, such as that for a user's name, are on the standard output.
    text = f"{said}{complained}".strip()
    raise _FailedError(text or f"{command[0]} ended with {process.returncode}")
