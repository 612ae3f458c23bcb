"""Read a cluster into a snapshot.

What is refused is noted and the rest is read; a server that stops answering ends the run, since
half a picture would show faults that are none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from generator.doctor.kubectl import NoClusterError, RefusedError
from generator.doctor.reads import CHECKPOINTING, JOBSET, KUEUE, READS, Read
from generator.doctor.snapshot import Snapshot, Unread, kept

NOT_SERVED, NOT_FOUND = "NotServed", "NotFound"
GROUPS_WITH_KINDS = (KUEUE, JOBSET, CHECKPOINTING)
"""Groups whose kinds are looked up one by one: a CRD may be missing."""

_UNREACHABLE = frozenset({"ServiceUnavailable", "Timeout", "ServerTimeout", "TooManyRequests"})
_UNAUTHENTICATED = "Unauthorized"


class Client(Protocol):
    """What is needed of a cluster."""

    @property
    def context(self) -> str:
        """Name of the context."""

    def get(self, path: str) -> dict[str, object]:
        """One GET request."""

    def items(self, path: str, query: dict[str, str]) -> list[dict[str, object]]:
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
        NoClusterError: the server does not answer, or stopped answering on the way.
    """
    snapshot = Snapshot(client.context)
    snapshot.version, snapshot.served = _discover(client)
    for group in GROUPS_WITH_KINDS:
        for version in snapshot.served.get(group, []):
            snapshot.kinds[f"{group}/{version}"] = _kinds(client, group, version)
    reads = [*READS, *singles]
    for number, read in enumerate(reads):
        progress(number, len(reads))
        try:
            _read(client, read, snapshot, (api_versions or {}).get(read.group, ""))
        except NoClusterError as error:
            raise NoClusterError(
                f"the API server stopped answering while {read.title} was read (the "
                f"{number + 1}th of {len(reads)} reads): {error}"
            ) from None
    return snapshot


def _discover(client: Client) -> tuple[str, dict[str, list[str]]]:
    try:
        version = client.get("/version")
        groups = client.get("/apis")
    except RefusedError as error:
        raise NoClusterError(f"the API server refuses to say what it serves ({error})") from None
    served: dict[str, list[str]] = {"": ["v1"]}
    listed = groups.get("groups")
    for group in listed if isinstance(listed, list) else []:
        served[str(group["name"])] = [str(entry["version"]) for entry in group["versions"]]
    return str(version.get("gitVersion", "")), served


def _kinds(client: Client, group: str, version: str) -> list[str]:
    try:
        answer = client.get(f"/apis/{group}/{version}")
    except RefusedError:
        return []  # an aggregated API whose server is away; its kinds count as not served
    resources = answer.get("resources")
    return sorted({str(r["kind"]) for r in (resources if isinstance(resources, list) else [])})


def _read(client: Client, read: Read, snapshot: Snapshot, preferred: str) -> None:
    version = _version(read, snapshot, preferred)
    if version is None:
        if not read.optional:
            note = Unread(read.key, read.title, NOT_SERVED, f'no matches for kind "{read.kind}"')
            snapshot.unread.append(note)
        return
    try:
        path = read.path(version)
        found = [client.get(path)] if read.name else client.items(path, dict(read.query))
    except RefusedError as error:
        if error.reason in _UNREACHABLE:
            raise NoClusterError(str(error)) from None
        if error.reason == _UNAUTHENTICATED:
            raise NoClusterError(f"the server does not accept the credentials ({error})") from None
        if read.optional and error.reason == NOT_FOUND:
            snapshot.objects[read.key] = []
        else:
            note = Unread(read.key, read.title, error.reason, error.message)
            snapshot.unread.append(note)
        return
    snapshot.objects[read.key] = [kept(read.key, dict(item)) for item in found]


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
