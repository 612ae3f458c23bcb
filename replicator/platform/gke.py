"""The checkpointing driver that GKE runs on every node: coordinator discovery and mounts.

The driver answers on a local gRPC port (`replication.ReplicationService` of the public
checkpoint-replicator, commit 3a24fd1, rpc/replication.proto). Read from its public source
(high-scale-checkpointing-controller 3b9737b, pkg/replication):

* It keeps one coordinator address per job in a ConfigMap of the job's name. `GetCoordinator` does
  not answer before there is one: it waits as long as its caller does.
* `MountGCSBucket` binds the job's folder of the bucket to one fixed path, in place of the folder
  that was there before, and makes the folder where there is none.
* `SetReplicationPeer` mounts another node's memory by NFS, hard and without authentication. Our
  agents move data themselves; what an earlier replicator left mounted is released by
  `UnmountAllPeers`, since a hard mount of a node that is gone hangs whoever looks at it.

All messages of those calls hold strings only, so their encoding stands here in a few lines instead
of generated code; `grpcio` (extra `gke`) does the transport.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import re
from typing import Any

from replicator.agent.channel import split_address
from replicator.errors import ProtocolError
from replicator.platform.base import PlatformError, object_name

DRIVER = "localhost:2112"
SERVICE = "/replication.ReplicationService/"
CALL_SECONDS = 10.0
WAIT_SECONDS = 3.0
"""How long the driver may wait for a coordinator; of several that wait it wakes one at a time."""
MOUNT_SECONDS = 60.0
CHECK_SECONDS = 5.0
SCHEME = "tcp://"
MAX_TEXT = 4096
_OBJECT_NAME = re.compile(
    r"(?!.{254})[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
)

log = logging.getLogger("replicator.gke")


def encode_strings(*values: str) -> bytes:
    """A protobuf message whose fields 1, 2, ... are strings; empty ones are left out, as in proto3.

    Raises:
        PlatformError: a value is longer than `MAX_TEXT` bytes.
    """
    out = bytearray()
    for number, value in enumerate(values, 1):
        content = value.encode()
        if len(content) > MAX_TEXT:
            raise PlatformError(f"driver: a text of {len(content)} bytes")
        if content:
            out += bytes([number << 3 | 2]) + _varint(len(content)) + content
    return bytes(out)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def decode_string(message: bytes) -> str:
    """Field 1 of a protobuf message as text; empty where it is not set. Other fields are skipped.

    Raises:
        PlatformError: not such a message.
    """
    found, at = b"", 0
    while at < len(message):
        tag, at = _read_varint(message, at)
        if tag & 7 != 2:
            raise PlatformError("driver: an answer with fields that are no text")
        size, at = _read_varint(message, at)
        if size > MAX_TEXT or at + size > len(message):
            raise PlatformError("driver: a truncated answer")
        if tag >> 3 == 1:
            found = message[at : at + size]
        at += size
    try:
        return found.decode()
    except UnicodeDecodeError:
        raise PlatformError("driver: an answer that is no text") from None


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(message) and shift < 35:
        byte = message[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
    raise PlatformError("driver: a truncated answer")


def registered_name(job: str) -> str:
    """The job's name where it can name a ConfigMap, as the driver makes one; else one like it."""
    return job if _OBJECT_NAME.fullmatch(job) else object_name(job)


class GkePlatform:
    """Asks the driver on this node. The last agent that registered a job is its coordinator."""

    def __init__(self, job_uid: str = "", target: str = DRIVER, *, mounts: bool = False) -> None:
        """Connect lazily.

        Args:
            job_uid: identity of the job's run, where it is known.
            target: the driver's address.
            mounts: have the driver mount each job's folder of the bucket.

        Raises:
            PlatformError: grpcio is not installed.
        """
        try:
            self._grpc: Any = importlib.import_module("grpc")
        except ImportError:
            raise PlatformError("--platform gke needs grpcio; install the extra 'gke'") from None
        split_address(target)
        self._target = target
        self._uid = job_uid
        self._channel: Any = None
        self._registered: dict[str, tuple[str, float]] = {}  # job: (address, since)
        self._checked: dict[str, float] = {}
        self._mounts = mounts

    @property
    def job_uid(self) -> str:
        """As given on the command line."""
        return self._uid

    async def coordinators(self, job: str) -> list[str]:
        """The address that the driver has for the job."""
        found = await self._current(job)
        if not found:
            raise PlatformError(f"no agent coordinates job {job} yet")
        return [found]

    async def publish(self, job: str, address: str, since: float) -> None:
        """Register once for each start of the job; afterwards only see that it still stands.

        Another address there means that a younger agent has registered: it is left alone.
        """
        now = asyncio.get_running_loop().time()
        mine = (address, since)
        if self._registered.get(job) == mine:
            if now - self._checked[job] < CHECK_SECONDS:
                return
            current = await self._current(job)
            self._checked[job] = now
            if current == address:
                return
            if current:
                raise PlatformError(f"job {job} is coordinated by the younger agent at {current}")
        await self._call(
            "RegisterCoordinator", encode_strings(registered_name(job), SCHEME + address)
        )
        self._registered[job], self._checked[job] = mine, now

    async def withdraw(self, job: str) -> None:
        """Unregister what this agent registered."""
        mine = self._registered.pop(job, None)
        if mine is not None:
            await self._call(
                "UnregisterCoordinator", encode_strings(registered_name(job), SCHEME + mine[0])
            )

    async def begin(self, job: str) -> None:
        """Release peers' memory that is mounted here, then have the job's bucket folder mounted."""
        try:
            await self._call("UnmountAllPeers", b"", MOUNT_SECONDS)
        except PlatformError as error:  # nothing of ours depends on it
            log.warning("peers' mounts are still there", extra={"reason": str(error)})
        if self._mounts:
            await self._call("MountGCSBucket", encode_strings(job), MOUNT_SECONDS)

    async def _current(self, job: str) -> str:
        """The registered address, or empty where there is none (or none that can be used)."""
        request = encode_strings(registered_name(job))
        answer = await self._call("GetCoordinator", request, WAIT_SECONDS)
        if answer is None:
            return ""
        address = decode_string(answer).removeprefix(SCHEME)
        try:
            split_address(address)
        except ProtocolError:
            return ""
        return address

    async def _call(
        self, method: str, request: bytes, seconds: float = CALL_SECONDS
    ) -> bytes | None:
        """One call; None where the driver has waited in vain for a coordinator."""
        if self._channel is None:
            self._channel = self._grpc.aio.insecure_channel(self._target)
        call = self._channel.unary_unary(SERVICE + method)
        try:
            return bytes(await call(request, timeout=seconds))
        except self._grpc.aio.AioRpcError as error:
            waited = (self._grpc.StatusCode.DEADLINE_EXCEEDED, self._grpc.StatusCode.NOT_FOUND)
            if method == "GetCoordinator" and error.code() in waited:
                return None
            text = f"{error.code().name}: {str(error.details())[:200]}"
            raise PlatformError(f"driver at {self._target}: {method}: {text}") from None
