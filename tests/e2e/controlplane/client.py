"""A small client of the Kubernetes API that keeps what kubectl hides: codes and warnings."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import urllib3
import yaml
from urllib3.connection import HTTPConnection
from urllib3.connectionpool import HTTPConnectionPool

Manifest = dict[str, Any]

FIELD_MANAGER = "stowplan-e2e"
TIMEOUT_S = 30.0
#: Times that a request is sent while the server answers 429.
PATIENCE = 20


class ApiError(Exception):
    """The API server refused a request.

    Attributes:
        code: HTTP status.
        reason: the machine-readable reason of the Status object, such as ``Invalid``.
    """

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(f"{code} {reason}: {message}")
        self.code = code
        self.reason = reason
        self.message = message


@dataclass(frozen=True)
class Answer:
    """A successful answer: the body and the texts of its ``Warning`` headers."""

    body: Manifest
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class Verdict:
    """What the API server thinks of a manifest, without storing it."""

    accepted: bool
    message: str
    code: int
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class _Resource:
    plural: str
    namespaced: bool


class Client:
    """Calls one API server, either over TLS with a token or through ``kubectl proxy``."""

    def __init__(self, pool: HTTPConnectionPool, headers: Mapping[str, str]) -> None:
        self._pool = pool
        self._headers = dict(headers)
        self._resources: dict[tuple[str, str], _Resource] = {}

    @classmethod
    def with_token(cls, port: int, token: str, authority: Path) -> Client:
        """A client of a server on loopback that shows a certificate of ``authority``."""
        pool = urllib3.HTTPSConnectionPool(
            "127.0.0.1", port, ca_certs=str(authority), maxsize=16, timeout=TIMEOUT_S
        )
        return cls(pool, {"Authorization": f"Bearer {token}"})

    @classmethod
    def over_socket(cls, path: Path) -> Client:
        """A client of ``kubectl proxy --unix-socket``, which authenticates for us."""
        return cls(_SocketPool(path), {})

    def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> Answer:
        """One request.

        Raises:
            ApiError: any status of 400 and above.
            urllib3.exceptions.HTTPError: the server cannot be reached.
        """
        response = self._send(method, _with_query(path, query), body, content_type)
        try:
            answer = json.loads(response.data)
        except ValueError:
            answer = {"message": response.data.decode(errors="replace")[:500]}
        if response.status >= 400:
            raise ApiError(
                response.status, answer.get("reason", ""), answer.get("message", str(answer))
            )
        return Answer(answer, _warnings(response))

    def _send(
        self, method: str, url: str, body: bytes | None, content_type: str
    ) -> urllib3.BaseHTTPResponse:
        """One request, repeated while the server asks for patience (429), as after a new CRD."""
        headers = {**self._headers, "Content-Type": content_type, "Accept": "application/json"}
        for attempt in range(PATIENCE):
            if attempt:
                time.sleep(0.5)
            response = self._pool.request(method, url, body=body, headers=headers, retries=False)
            if response.status != 429:
                break
        return response

    def get(self, api_version: str, kind: str, name: str, namespace: str = "") -> Manifest:
        """One object; ``namespace`` is needed for a namespaced kind."""
        return self.request("GET", self._path(api_version, kind, namespace, name)).body

    def find(self, api_version: str, kind: str, name: str, namespace: str = "") -> Manifest | None:
        """The object, or None when there is none."""
        try:
            return self.get(api_version, kind, name, namespace)
        except ApiError as error:
            if error.code == 404:
                return None
            raise

    def items(
        self, api_version: str, kind: str, namespace: str = "", selector: str = ""
    ) -> list[Manifest]:
        query = {"labelSelector": selector} if selector else None
        answer = self.request("GET", self._path(api_version, kind, namespace), query=query)
        return list(answer.body["items"])

    def create(self, manifest: Manifest) -> Answer:
        path = self._path_of(manifest, with_name=False)
        return self.request("POST", path, json.dumps(manifest).encode())

    def delete(
        self,
        api_version: str,
        kind: str,
        name: str,
        namespace: str = "",
        grace_s: int | None = None,
    ) -> None:
        """Ask for deletion in the background; an absent object is no error."""
        query = {"propagationPolicy": "Background"}
        if grace_s is not None:
            query["gracePeriodSeconds"] = str(grace_s)
        try:
            self.request("DELETE", self._path(api_version, kind, namespace, name), query=query)
        except ApiError as error:
            if error.code != 404:
                raise

    def merge(
        self,
        api_version: str,
        kind: str,
        name: str,
        patch: Manifest,
        namespace: str = "",
        subresource: str = "",
    ) -> Manifest:
        """JSON merge patch of an object or of its subresource."""
        path = self._path(api_version, kind, namespace, name)
        return self.request(
            "PATCH",
            f"{path}/{subresource}" if subresource else path,
            json.dumps(patch).encode(),
            content_type="application/merge-patch+json",
        ).body

    def apply(
        self,
        manifest: Manifest,
        text: bytes | None = None,
        dry_run: bool = False,
        force: bool = False,
        manager: str = FIELD_MANAGER,
    ) -> Answer:
        """Server-side apply with strict field validation.

        Args:
            manifest: says what and where; also the body unless ``text`` is given.
            text: the YAML file as it is, so that the server judges duplicates and scalars too.
            dry_run: run admission and validation, store nothing.
            force: take over fields that other managers own.
            manager: field manager.
        """
        query = {"fieldManager": manager, "fieldValidation": "Strict"}
        if dry_run:
            query["dryRun"] = "All"
        if force:
            query["force"] = "true"
        return self.request(
            "PATCH",
            self._path_of(manifest),
            text if text is not None else json.dumps(manifest).encode(),
            query,
            "application/apply-patch+yaml",
        )

    def verdict(self, manifest: Manifest, text: bytes | None = None) -> Verdict:
        """Server-side dry-run apply: accepted or not, why, and with which warnings."""
        try:
            answer = self.apply(manifest, text, dry_run=True, force=True)
        except ApiError as error:
            return Verdict(False, error.message, error.code, ())
        except NoSuchKindError as error:
            return Verdict(False, str(error), 404, ())
        return Verdict(True, "", 200, answer.warnings)

    def creation_verdict(self, manifest: Manifest) -> Verdict:
        """Server-side dry-run create with strict field validation.

        An object that exists already counts as accepted: validation comes before that refusal.
        """
        query = {"dryRun": "All", "fieldValidation": "Strict", "fieldManager": FIELD_MANAGER}
        try:
            path = self._path_of(manifest, with_name=False)
            answer = self.request("POST", path, json.dumps(manifest).encode(), query)
        except ApiError as error:
            if error.reason == "AlreadyExists":
                return Verdict(True, "", error.code, ())
            return Verdict(False, error.message, error.code, ())
        except NoSuchKindError as error:
            return Verdict(False, str(error), 404, ())
        return Verdict(True, "", 200, answer.warnings)

    def watch(
        self, api_version: str, kind: str, resource_version: str, seconds: int
    ) -> Iterator[tuple[str, Manifest]]:
        """Events of all objects of a kind from a resource version on, for at most ``seconds``."""
        query = {
            "watch": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(seconds),
        }
        response = self._pool.request(
            "GET",
            _with_query(self._path(api_version, kind), query),
            headers={**self._headers, "Accept": "application/json"},
            retries=False,
            preload_content=False,
            timeout=seconds + TIMEOUT_S,
        )
        buffered = b""
        try:
            for chunk in response.stream(65536):
                *lines, buffered = (buffered + chunk).split(b"\n")
                for line in lines:
                    event = json.loads(line)
                    yield event["type"], event["object"]
        finally:
            response.release_conn()

    def list_version(self, api_version: str, kind: str) -> tuple[list[Manifest], str]:
        """All objects of a kind and the resource version to watch from."""
        body = self.request("GET", self._path(api_version, kind)).body
        return list(body["items"]), body["metadata"]["resourceVersion"]

    def serves(self, api_version: str, kind: str) -> bool:
        """Whether discovery lists a kind."""
        try:
            self._resource(api_version, kind)
        except NoSuchKindError:
            return False
        return True

    def _path_of(self, manifest: Manifest, with_name: bool = True) -> str:
        metadata = manifest.get("metadata")
        if not isinstance(metadata, dict):
            metadata = {}
        return self._path(
            str(manifest.get("apiVersion")),
            str(manifest.get("kind")),
            str(metadata.get("namespace") or "default"),
            str(metadata.get("name")) if with_name else "",
        )

    def _path(self, api_version: str, kind: str, namespace: str = "", name: str = "") -> str:
        resource = self._resource(api_version, kind)
        path = _group_path(api_version)
        if resource.namespaced and namespace:
            path += f"/namespaces/{quote(namespace, safe='')}"
        path += f"/{resource.plural}"
        return f"{path}/{quote(name, safe='')}" if name else path

    def _resource(self, api_version: str, kind: str) -> _Resource:
        key = (api_version, kind)
        if key not in self._resources:
            try:
                answer = self.request("GET", _group_path(api_version))
            except ApiError as error:
                if error.code == 404:
                    raise NoSuchKindError(api_version, kind) from None
                raise
            for entry in answer.body.get("resources", []):
                if "/" not in entry["name"]:
                    resource = _Resource(entry["name"], entry["namespaced"])
                    self._resources[api_version, entry["kind"]] = resource
        if key not in self._resources:
            raise NoSuchKindError(api_version, kind)
        return self._resources[key]


class NoSuchKindError(Exception):
    """The server serves no such kind, as ``kubectl`` says: no matches for kind."""

    def __init__(self, api_version: str, kind: str) -> None:
        super().__init__(f'no matches for kind "{kind}" in version "{api_version}"')


def read_manifest(path: Path) -> Manifest:
    """The one resource of a YAML file."""
    manifest = yaml.load(path.read_text(), Loader=yaml.CSafeLoader)
    if not isinstance(manifest, dict):
        raise ValueError(f"{path}: one Kubernetes resource expected")
    return manifest


def _group_path(api_version: str) -> str:
    quoted = quote(api_version, safe="/")
    return f"/apis/{quoted}" if "/" in api_version else f"/api/{quoted}"


def _with_query(path: str, query: Mapping[str, str] | None) -> str:
    if not query:
        return path
    return path + "?" + "&".join(f"{key}={quote(value, safe='')}" for key, value in query.items())


def _warnings(response: urllib3.BaseHTTPResponse) -> tuple[str, ...]:
    """Texts of the Warning headers: ``299 - "text"``."""
    return tuple(
        header.split(" ", 2)[2].strip('"').replace('\\"', '"')
        for header in response.headers.getlist("Warning")
    )


class _SocketConnection(HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost")
        self._socket_path = path

    def connect(self) -> None:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(TIMEOUT_S)
        connection.connect(str(self._socket_path))
        self.sock = connection


class _SocketPool(HTTPConnectionPool):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", maxsize=16, timeout=TIMEOUT_S)
        self._socket_path = path

    def _new_conn(self) -> HTTPConnection:
        return _SocketConnection(self._socket_path)
