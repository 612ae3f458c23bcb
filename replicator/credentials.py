"""Who writes backups: credentials given by name, and the object store opened with just those."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final
from urllib.parse import SplitResult, unquote, urlsplit

from obstore.exceptions import BaseError
from obstore.store import AzureStore, GCSStore, LocalStore, S3Store

from replicator.errors import ReplicatorError

MAX_CREDENTIALS_BYTES: Final = 64 * 1024


class StorageConfigError(ReplicatorError, ValueError):
    """A backup URL or its credentials cannot be used as given."""


class CredentialKind(StrEnum):
    """Where the right to write backups comes from."""

    ANONYMOUS = "anonymous"
    """Unsigned requests, for public test buckets and local servers."""
    PLATFORM = "platform"
    """The machine's own identity (for example GKE Workload Identity), found by the cloud's rules.

    Only ever used when asked for by this name.
    """
    GCS_KEY = "gcs-key"
    GCS_TOKEN = "gcs-token"
    S3_KEY = "s3-key"
    AZURE_KEY = "azure-key"
    AZURE_SAS = "azure-sas"


@dataclass(frozen=True, slots=True)
class Credentials:
    """One identity, and for S3-compatible servers where they are; secrets stay out of `repr`."""

    kind: CredentialKind
    secret: dict[str, str] = field(default_factory=dict, repr=False)
    endpoint: str | None = None
    """Base URL of the service where it is not the cloud's own; plain http on loopback only."""
    region: str | None = None

    @classmethod
    def from_option(cls, option: str) -> Credentials:
        """Read the value of `--backup-credentials`: `anonymous`, `platform`, or a JSON file's path.

        Raises:
            StorageConfigError: the file cannot be read, or what it holds is not known.
        """
        if option in (CredentialKind.ANONYMOUS, CredentialKind.PLATFORM):
            return cls(CredentialKind(option))
        return cls.from_file(Path(option))

    @classmethod
    def from_file(cls, path: Path) -> Credentials:
        """Read a JSON file: a Google service account key, or the keys named in `_FILE_FORMS`.

        Raises:
            StorageConfigError: the file cannot be read, or what it holds is not known.
        """
        try:
            with path.open("rb") as file:
                content = file.read(MAX_CREDENTIALS_BYTES + 1)
        except OSError as error:
            raise StorageConfigError(f"{path}: {error.strerror}") from error
        if len(content) > MAX_CREDENTIALS_BYTES:
            raise StorageConfigError(f"{path}: larger than {MAX_CREDENTIALS_BYTES} bytes")
        try:
            document = json.loads(content)
        except (ValueError, RecursionError):
            # The decoder's message may quote the content.
            raise StorageConfigError(f"{path}: not JSON") from None
        if not isinstance(document, dict):
            raise StorageConfigError(f"{path}: expected a JSON object")
        if document.get("type") == "service_account":
            key = {"service_account_key": content.decode("utf-8")}
            return cls(CredentialKind.GCS_KEY, key)
        return cls._from_fields(path, document)

    @classmethod
    def _from_fields(cls, path: Path, document: dict[str, Any]) -> Credentials:
        endpoint, region = document.pop("endpoint", None), document.pop("region", None)
        texts = (*document.values(), *(v for v in (endpoint, region) if v is not None))
        if not all(isinstance(value, str) for value in texts):
            raise StorageConfigError(f"{path}: every value must be text")
        for kind, required, optional in _FILE_FORMS:
            if required <= document.keys() <= required | optional:
                return cls(kind, document, endpoint, region)
        forms = "; ".join(", ".join(sorted(required)) for _, required, _ in _FILE_FORMS)
        raise StorageConfigError(
            f"{path}: expected a Google service account key, or the keys of one of: {forms} "
            "(each with endpoint, region where needed)"
        )


_FILE_FORMS: Final[tuple[tuple[CredentialKind, frozenset[str], frozenset[str]], ...]] = (
    (
        CredentialKind.S3_KEY,
        frozenset({"access_key_id", "secret_access_key"}),
        frozenset({"session_token"}),
    ),
    (CredentialKind.GCS_TOKEN, frozenset({"bearer_token"}), frozenset()),
    (CredentialKind.AZURE_KEY, frozenset({"account_name", "account_key"}), frozenset()),
    (CredentialKind.AZURE_SAS, frozenset({"account_name", "sas_key"}), frozenset()),
)

_SCHEMES: Final[dict[str, tuple[Any, frozenset[CredentialKind]]]] = {
    "gs": (GCSStore, frozenset({CredentialKind.GCS_KEY, CredentialKind.GCS_TOKEN})),
    "s3": (S3Store, frozenset({CredentialKind.S3_KEY})),
    "az": (AzureStore, frozenset({CredentialKind.AZURE_KEY, CredentialKind.AZURE_SAS})),
}
_FOR_ALL: Final = frozenset({CredentialKind.ANONYMOUS, CredentialKind.PLATFORM})
_ENDPOINT_KEYS: Final = {"gs": "base_url", "s3": "endpoint", "az": "endpoint"}
_CLOUD_VARIABLES: Final = ("AWS_", "GOOGLE_", "AZURE_", "GCS_")


def open_object_store(
    url: str,
    credentials: Credentials | None,
    *,
    timeout: timedelta,
    retry_timeout: timedelta,
    max_retries: int,
    create: bool,
) -> Any:
    """The obstore store for a backup URL; see `ObjectStorage.open` for the arguments.

    Raises:
        StorageConfigError: unusable URL, or credentials that do not fit it.
    """
    parts = urlsplit(url)
    if parts.query or parts.fragment or parts.username or parts.password:
        raise StorageConfigError("a backup URL takes no user, password, query or fragment")
    if parts.scheme == "file":
        return _open_local(parts, url, create)
    if parts.scheme not in _SCHEMES:
        known = ", ".join(f"{scheme}://" for scheme in ("file", *_SCHEMES))
        raise StorageConfigError(f"{url}: expected one of {known}")
    if not parts.netloc:
        raise StorageConfigError(f"{url}: the bucket's name is missing")
    store_class, kinds = _SCHEMES[parts.scheme]
    if credentials is None:
        raise StorageConfigError(
            f"{url}: needs credentials: a key file, 'anonymous', or 'platform' (the machine's own)"
        )
    if credentials.kind not in kinds | _FOR_ALL:
        raise StorageConfigError(f"{url}: {credentials.kind.value} credentials do not fit")
    options = _options(parts.scheme, credentials)
    client = {
        "timeout": timeout,
        "connect_timeout": min(timeout, timedelta(seconds=10)),
        "allow_http": _is_loopback(credentials.endpoint),
    }
    retry = {"max_retries": max_retries, "retry_timeout": retry_timeout}
    prefix = unquote(parts.path).strip("/") or None
    try:
        with _ambient_variables(credentials.kind is CredentialKind.PLATFORM):
            return store_class(
                parts.netloc,
                prefix=prefix,
                client_options=client,
                retry_config=retry,
                **options,
            )
    except (BaseError, ValueError) as error:
        first = (str(error).splitlines() or ["unusable"])[0]
        raise StorageConfigError(f"{url}: {first}") from None


def _open_local(parts: SplitResult, url: str, create: bool) -> Any:
    path = unquote(parts.path)
    if parts.netloc not in ("", "localhost") or not path.startswith("/"):
        raise StorageConfigError(f"{url}: expected file:///absolute/path")
    if not create and not Path(path).is_dir():
        raise StorageConfigError(f"{url}: no such directory")
    try:
        return LocalStore(path, mkdir=create, automatic_cleanup=True)
    except (BaseError, OSError, ValueError) as error:
        first = (str(error).splitlines() or ["unusable"])[0]
        raise StorageConfigError(f"{url}: {first}") from None


def _options(scheme: str, credentials: Credentials) -> dict[str, Any]:
    options: dict[str, Any] = dict(credentials.secret)
    if credentials.kind is CredentialKind.ANONYMOUS:
        options["skip_signature"] = True
    if credentials.endpoint is not None:
        if urlsplit(credentials.endpoint).scheme == "http" and not _is_loopback(
            credentials.endpoint
        ):
            raise StorageConfigError("plain http is for loopback addresses; use an https endpoint")
        options[_ENDPOINT_KEYS[scheme]] = credentials.endpoint
    if scheme == "s3" and credentials.kind is not CredentialKind.PLATFORM:
        options["region"] = credentials.region or "us-east-1"
    return options


def _is_loopback(endpoint: str | None) -> bool:
    host = urlsplit(endpoint or "").hostname
    if host is None:
        return False
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


_environment_lock: Final = threading.Lock()


@contextmanager
def _ambient_variables(wanted: bool) -> Iterator[None]:
    """Hide the clouds' variables from the library, which has no switch to ignore them.

    Without this a stray AWS_ENDPOINT_URL or session token would mix with the credentials given.
    """
    if wanted:
        yield
        return
    with _environment_lock:
        hidden = {k: v for k, v in os.environ.items() if k.upper().startswith(_CLOUD_VARIABLES)}
        for name in hidden:
            del os.environ[name]
        try:
            yield
        finally:
            os.environ.update(hidden)
