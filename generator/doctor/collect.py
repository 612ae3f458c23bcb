"""Read a cluster into a snapshot.

What is refused is noted and the rest is read; a server that stops answering ends the run, since
half a picture would show faults that are none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from generator.doctor.kubectl import NoClusterError, RefusedError
from generator.doctor.reads import CHECKPOINTING, JOBSET, KUEUE, READS, Read
from generator.doctor.snapshot import Snapshot, Unread, kept

NOT_SERVED, NOT_FOUND, FORBIDDEN = "NotServed", "NotFound", "Forbidden"
GROUPS_WITH_KINDS = (KUEUE, JOBSET, CHECKPOINTING)
"""Groups whose kinds are looked up one by one: a CRD may be missing."""

_UNREACHABLE = frozenset({"ServiceUnavailable", "Timeout", "ServerTimeout", "TooManyRequests"})
_NO_API_SERVER = "what answers at the kubeconfig's address is no Kubernetes API server"
PARALLEL = 6
"""Requests at once: each starts a kubectl, and most of it is waiting for the network."""


class Client(Protocol):
    """What is needed of a cluster."""

    @property
    def context(self) -> str:
        """Name of the context."""

    def get(self, path: str) -> dict[str, Any]:
        """One GET request."""

    def items(self, path: str, query: dict[str, str]) -> Iterable[dict[str, Any]]:
        """All objects of a list."""


def collect(
    client: Client,
    singles: Iterable[Read] = (),
    api_versions: dict[str, str] | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Snapshot:
    """Read everything.

    Args:
        client: the cluster.
        singles: further objects, by name.
        api_versions: group → the version that the compiled cluster is written in; read in that
            where it is served, so that fields have the same names.
        progress: told how many reads of how many are done.

    Raises:
        NoClusterError: the server does not answer, stopped answering on the way, or forbids all.
    """
    snapshot = Snapshot(client.context)
    snapshot.version, snapshot.served = _discover(client)
    for group in GROUPS_WITH_KINDS:
        for version in snapshot.served.get(group, []):
            snapshot.kinds[f"{group}/{version}"] = _kinds(client, group, version)
    reads = [*READS, *singles]
    preferred = api_versions or {}
    pool = ThreadPoolExecutor(PARALLEL)
    try:
        answers = [
            pool.submit(_read, client, read, snapshot, preferred.get(read.group, ""))
            for read in reads
        ]
        for number, (read, answer) in enumerate(zip(reads, answers, strict=True)):
            progress(number, len(reads))
            try:
                found = answer.result()
            except NoClusterError as error:
                raise NoClusterError(
                    f"the API server stopped answering on the read of {read.title} "
                    f"({number} of {len(reads)} reads were done): {error}"
                ) from None
            if isinstance(found, Unread):
                snapshot.unread.append(found)
            elif found is not None:
                snapshot.objects[read.key] = found
    finally:  # on Ctrl-C too: what has not begun never will
        pool.shutdown(wait=False, cancel_futures=True)
    _refuse_blindness(snapshot)
    return snapshot


def _refuse_blindness(snapshot: Snapshot) -> None:
    """A report of nothing would read like one of a healthy cluster."""
    forbidden = [unread for unread in snapshot.unread if unread.reason == FORBIDDEN]
    if forbidden and not snapshot.objects:
        raise NoClusterError(
            f"the API server refuses every read ({forbidden[0].message}); stowplan doctor --rbac "
            "prints the roles that it needs"
        )


def _discover(client: Client) -> tuple[str, dict[str, list[str]]]:
    try:
        version = client.get("/version")
        groups = client.get("/apis")
    except RefusedError as error:
        if error.reason == NOT_FOUND:
            raise NoClusterError(_NO_API_SERVER) from None
        raise NoClusterError(f"the API server refuses to say what it serves ({error})") from None
    served: dict[str, list[str]] = {"": ["v1"]}
    try:
        for group in groups["groups"]:
            served[str(group["name"])] = [str(entry["version"]) for entry in group["versions"]]
        return str(version["gitVersion"]), served
    except (KeyError, TypeError):
        raise NoClusterError(_NO_API_SERVER) from None


def _kinds(client: Client, group: str, version: str) -> list[str]:
    try:
        answer = client.get(f"/apis/{group}/{version}")
    except RefusedError as error:
        if error.reason == NOT_FOUND:
            return []  # gone since the groups were listed
        # Kinds that are not listed would be called missing.
        raise NoClusterError(
            f"the API server refuses to say what it serves in {group}/{version} ({error})"
        ) from None
    return sorted({str(resource["kind"]) for resource in answer.get("resources") or []})


def _read(
    client: Client, read: Read, snapshot: Snapshot, preferred: str
) -> list[dict[str, Any]] | Unread | None:
    """The objects of one read, or why there are none; None where it does not matter."""
    version = _version(read, snapshot, preferred)
    if version is None:
        missing = Unread(read.key, read.title, NOT_SERVED, f'no matches for kind "{read.kind}"')
        return None if read.optional else missing
    path = read.path(version)
    try:
        found = [client.get(path)] if read.name else client.items(path, dict(read.query))
        return [kept(read.key, item) for item in found]
    except RefusedError as error:
        if error.reason in _UNREACHABLE:
            raise NoClusterError(str(error)) from None
        if read.optional and error.reason == NOT_FOUND:
            return []
        return Unread(read.key, read.title, error.reason, error.message)


def _version(read: Read, snapshot: Snapshot, preferred: str) -> str | None:
    """The version to read in, None where the server has none."""
    if read.group in GROUPS_WITH_KINDS:
        served = snapshot.serves(read.group, read.kind)
    else:
        served = snapshot.served.get(read.group, [])
    for version in (preferred, *read.versions):
        if version and version in served:
            return version
    return None
