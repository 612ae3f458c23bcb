"""Make a plane empty again: what was there at the start stays, everything else is deleted."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote

from .client import ApiError, Client

#: Records that servers keep for themselves; they hold nothing that a test could trip over.
_RECORDS = frozenset({"events", "leases"})
#: Owners of other objects go first, so that nothing is made again.
_OWNERS = ("jobsets", "daemonsets", "cronjobs", "deployments")
PAUSE_S = 0.3


@dataclass(frozen=True)
class Stored:
    """One object: where it is and which it is."""

    path: str
    plural: str
    uid: str
    leaving: bool


def stored(client: Client) -> dict[str, Stored]:
    """Every object that can be listed and deleted, by UID."""
    found: dict[str, Stored] = {}
    for base, plural, namespaced in _collections(client):
        for item in client.request("GET", f"{base}/{plural}").body["items"]:
            metadata = item["metadata"]
            within = f"/namespaces/{quote(metadata['namespace'], safe='')}" if namespaced else ""
            path = f"{base}{within}/{plural}/{quote(metadata['name'], safe='')}"
            leaving = "deletionTimestamp" in metadata
            found[metadata["uid"]] = Stored(path, plural, metadata["uid"], leaving)
    return found


def emptied(client: Client, original: dict[str, Stored], seconds: float) -> bool:
    """Delete what is not in ``original``; whether that worked, with nothing original lost."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        now = stored(client)
        if original.keys() - now.keys():
            return False
        added = [item for uid, item in now.items() if uid not in original]
        if not added:
            return True
        for item in sorted(added, key=lambda item: item.plural not in _OWNERS):
            if not item.leaving:
                _delete(client, item)
        time.sleep(PAUSE_S)
    return False


def _delete(client: Client, item: Stored) -> None:
    query = {"propagationPolicy": "Background", "gracePeriodSeconds": "0"}
    try:
        client.request("DELETE", item.path, query=query)
    except ApiError as error:
        if error.code not in (404, 409):  # gone already, or busy: the next round tells
            raise


def _collections(client: Client) -> Iterator[tuple[str, str, bool]]:
    """Path of the API version, plural and whether namespaced, of each kind of object, once."""
    groups = client.request("GET", "/apis").body["groups"]
    versions = ["/api/v1", *(f"/apis/{g['preferredVersion']['groupVersion']}" for g in groups)]
    for base in versions:
        for resource in client.request("GET", base).body["resources"]:
            plural = resource["name"]
            if {"list", "delete"} <= set(resource["verbs"]) and plural not in _RECORDS:
                yield base, plural, resource["namespaced"]
