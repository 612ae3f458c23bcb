"""Peers in a Kubernetes cluster: a Lease names the coordinator, a headless Service the agents.

The Lease is the fast way and needs get, create and update on `leases` in one namespace; nothing
else is asked of the API server. The Service (optional) is the way out when the Lease cannot be
read: its addresses are all agents, which then answer for themselves.
"""

from __future__ import annotations

import asyncio
import datetime
import http.client
import json
import math
import os
import re
import socket
import ssl
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from replicator.agent.channel import split_address
from replicator.agent.files import read_given
from replicator.config import is_safe_job_name
from replicator.errors import ProtocolError
from replicator.platform.base import PlatformError, object_name

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
LEASE_SECONDS = 15
RENEW_SECONDS = 5.0
REQUEST_SECONDS = 10.0
MAX_ANSWER_BYTES = 1024 * 1024
SINCE = "stowplan.dev/since"
"""Annotation of the Lease: when its holder took the job, in seconds since 1970."""
MAX_TOKEN_BYTES = 64 * 1024
_TOKEN = re.compile(rb"[!-~]+")
_TIME = "%Y-%m-%dT%H:%M:%S.%fZ"


class _ConflictError(PlatformError):
    """Somebody else wrote the Lease meanwhile."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """An API server does not send its callers elsewhere, and the token would go there too."""

    def redirect_request(self, *_: Any) -> None:
        """Refuse: the answer is an error like any other."""


@dataclass(slots=True)
class KubernetesPlatform:
    """Talks to one API server about the Leases of one namespace."""

    server: str
    namespace: str
    token_file: Path | None = None
    ca_file: Path | None = None
    service: str = ""  # host:port of the headless Service
    uid: str = ""
    _renewed: dict[str, tuple[str, float]] = field(default_factory=dict)  # as whom, and when
    _watched: dict[str, tuple[str, float]] = field(default_factory=dict)  # Lease, unchanged since

    @classmethod
    def in_cluster(
        cls,
        namespace: str | None = None,
        job_uid: str = "",
        service: str = "",
        account: Path = ACCOUNT,
    ) -> KubernetesPlatform:
        """With the pod's own service account.

        Raises:
            PlatformError: not in a pod, or the account is not mounted.
        """
        host = os.environ.get("KUBERNETES_SERVICE_HOST", "")
        port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
        if not host:
            raise PlatformError(
                "--platform kubernetes works only in a pod: KUBERNETES_SERVICE_HOST is not set"
            )
        try:
            namespace = namespace or (account / "namespace").read_text().strip()
        except OSError as error:
            raise PlatformError(f"{account}: {error.strerror}; is the account mounted?") from None
        shown = f"[{host}]" if ":" in host else host
        server = f"https://{shown}:{port}"
        return cls(server, namespace, account / "token", account / "ca.crt", service, job_uid)

    def __post_init__(self) -> None:
        if not is_safe_job_name(self.namespace):
            raise PlatformError(f"{self.namespace[:80]!r} is no namespace")
        if self.uid and not is_safe_job_name(self.uid):
            raise PlatformError("--job-uid: expected letters, digits, '.', '_' and '-'")
        if self.service:
            split_address(self.service)

    @property
    def job_uid(self) -> str:
        """As given on the command line."""
        return self.uid

    async def coordinators(self, job: str) -> list[str]:
        """The Lease's holder, then (where a Service is given) every agent."""
        found: list[str] = []
        problem: PlatformError | None = None
        try:
            lease = await asyncio.to_thread(self._request, "GET", lease_name(job), None)
            found = [holder] if lease is not None and (holder := _holder(lease)) else []
        except PlatformError as error:
            problem = error
        if self.service:
            found += [a for a in await self._service_addresses() if a not in found]
        if not found:
            raise problem or PlatformError(f"no agent coordinates job {job} yet")
        return found

    async def _service_addresses(self) -> list[str]:
        host, port = split_address(self.service)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                infos = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, TimeoutError):
            return []
        hosts = sorted({str(info[4][0]) for info in infos})
        return [f"[{h}]:{port}" if ":" in h else f"{h}:{port}" for h in hosts]

    async def publish(self, job: str, address: str, since: float) -> None:
        """Take or renew the Lease.

        Raises:
            PlatformError: a younger agent holds it, or the API server does not answer.
        """
        now = asyncio.get_running_loop().time()
        if now - self._renewed.get(job, ("", -math.inf))[1] < RENEW_SECONDS:
            return
        try:
            await asyncio.to_thread(self._take, job, address, since)
        except _ConflictError:
            await asyncio.to_thread(self._take, job, address, since)
        self._renewed[job] = (address, now)

    def _take(self, job: str, address: str, since: float) -> None:
        name = lease_name(job)
        lease = self._request("GET", name, None)
        if lease is None:
            self._request("POST", "", _lease(name, self.namespace, job, address, since))
            return
        holder = _holder(lease)
        live = not _expired(lease) and not self._has_stood_still(job, lease)
        if holder not in ("", address) and _since(lease) > since and live:
            raise PlatformError(f"job {job} is coordinated by the younger agent at {holder}")
        fresh = _lease(name, self.namespace, job, address, since)
        fresh["metadata"]["resourceVersion"] = _part(lease, "metadata").get("resourceVersion")
        self._request("PUT", name, fresh)

    def _has_stood_still(self, job: str, lease: dict[str, Any]) -> bool:
        """Whether nobody has written the Lease for as long as it lasts, as seen from here.

        Its time of renewal may lie in the future: the holder's clock may have been wrong.
        """
        now, state = time.monotonic(), json.dumps(lease, sort_keys=True)
        if self._watched.get(job, ("", 0.0))[0] != state:
            self._watched[job] = (state, now)
        return now - self._watched[job][1] > LEASE_SECONDS

    async def withdraw(self, job: str) -> None:
        """Leave the Lease without a holder, if this agent has it still."""
        mine = self._renewed.pop(job, None)
        if mine is not None:
            await asyncio.to_thread(self._withdraw, job, mine[0])

    async def begin(self, job: str) -> None:
        """Nothing to do: the volume is mounted, the bucket is reached by URL."""

    def _withdraw(self, job: str, address: str) -> None:
        name = lease_name(job)
        lease = self._request("GET", name, None)
        if lease is not None and _holder(lease) == address:
            lease["spec"]["holderIdentity"] = ""
            self._request("PUT", name, lease)

    def _request(
        self, method: str, name: str, body: dict[str, Any] | None
    ) -> dict[str, Any] | None:
        """One call; None for a Lease that does not exist."""
        base = f"{self.server}/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases"
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if self.token_file is not None:
            headers["Authorization"] = f"Bearer {_read(self.token_file)}"
        content = None if body is None else json.dumps(body).encode()
        url = f"{base}/{name}" if name else base
        request = urllib.request.Request(url, data=content, headers=headers, method=method)
        try:
            context = None
            if self.ca_file is not None:
                context = ssl.create_default_context(cafile=str(self.ca_file))
            opener = urllib.request.build_opener(
                _NoRedirect, urllib.request.HTTPSHandler(context=context)
            )
            with opener.open(request, timeout=REQUEST_SECONDS) as answer:
                document = json.loads(answer.read(MAX_ANSWER_BYTES))
        except urllib.error.HTTPError as error:
            if error.code == 404 and method == "GET":
                return None
            raise _http_problem(error, method, name) from None
        except (OSError, ValueError, RecursionError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or str(error) or type(error).__name__
            raise PlatformError(
                f"API server: {method} lease {name}: {' '.join(str(reason).split())[:200]}"
            ) from None
        if not isinstance(document, dict):
            raise PlatformError(f"API server: {method} lease {name}: no object in the answer")
        return document


def _http_problem(error: urllib.error.HTTPError, method: str, name: str) -> PlatformError:
    if error.code == 409:
        return _ConflictError(f"API server: lease {name} was changed meanwhile")
    hint = ""
    if error.code == 403:
        hint = "; the service account needs get, create and update on leases"
    return PlatformError(f"API server: {method} lease {name}: HTTP {error.code}{hint}")


def _read(path: Path) -> str:
    """The token, anew for each request: the kubelet rotates it."""
    try:
        token = read_given(path, MAX_TOKEN_BYTES).strip()
    except OSError as error:
        raise PlatformError(f"{path}: {error.strerror or error}") from None
    if not _TOKEN.fullmatch(token):  # http.client would show it in its error
        raise PlatformError(f"{path}: no token; expected one line of printable ASCII")
    return token.decode()


def lease_name(job: str) -> str:
    """Of a job's Lease."""
    return object_name(job, "stowplan-replicator-")


def _lease(name: str, namespace: str, job: str, address: str, since: float) -> dict[str, Any]:
    now = datetime.datetime.now(datetime.UTC).strftime(_TIME)
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {"app.kubernetes.io/name": "stowplan-replicator"},
            "annotations": {SINCE: f"{since:.3f}", "stowplan.dev/job": job},
        },
        "spec": {
            "holderIdentity": address,
            "leaseDurationSeconds": LEASE_SECONDS,
            "renewTime": now,
        },
    }


def _part(lease: dict[str, Any], name: str) -> dict[str, Any]:
    """A mapping in a Lease; empty where something else stands there."""
    value = lease.get(name)
    return value if isinstance(value, dict) else {}


def _holder(lease: dict[str, Any]) -> str:
    """The holder, if it is an address; whatever else may stand there is nobody."""
    holder = _part(lease, "spec").get("holderIdentity")
    try:
        split_address(holder if isinstance(holder, str) else "")
    except ProtocolError:
        return ""
    return str(holder)


def _since(lease: dict[str, Any]) -> float:
    try:
        since = float(_part(_part(lease, "metadata"), "annotations")[SINCE])
    except (KeyError, TypeError, ValueError):
        return 0.0
    return since if math.isfinite(since) else 0.0


def _expired(lease: dict[str, Any]) -> bool:
    spec = _part(lease, "spec")
    try:
        renewed = datetime.datetime.strptime(spec["renewTime"], _TIME).replace(tzinfo=datetime.UTC)
        seconds = datetime.timedelta(seconds=float(spec["leaseDurationSeconds"]))
    except (KeyError, TypeError, ValueError, OverflowError):
        return True
    return datetime.datetime.now(datetime.UTC) - renewed > seconds
