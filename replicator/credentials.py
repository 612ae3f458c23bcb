"""Who writes backups: credentials given by name, and the object store opened with just those."""

from __future__ import annotations

import json
import os
import re
import threading
from asyncio import CancelledError
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final
from urllib.parse import SplitResult, unquote, urlsplit

from obstore.store import AzureStore, GCSStore, LocalStore, S3Store

from replicator.agent.files import read_given
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

    def __post_init__(self) -> None:
        """Refuse what the store would choke on with its first request.

        Raises:
            StorageConfigError: names the field, never a secret.
        """
        for name, value in self.secret.items():
            if name not in _FREE_TEXT and not _PRINTABLE.fullmatch(value):
                raise StorageConfigError(
                    f"{name}: {_why_not(value)}; expected printable ASCII without spaces"
                )
        if self.region is not None and not _NAME.fullmatch(self.region):
            raise StorageConfigError(
                f"region: expected letters, digits, '.', '_' and '-', found {self.region[:80]!r}"
            )
        account = self.secret.get("account_name")
        if account is not None and not _NAME.fullmatch(account):
            raise StorageConfigError(
                f"account_name: expected letters, digits and '-', found {account[:80]!r}"
            )
        if self.endpoint is not None:
            _check_endpoint(self.endpoint)

    @classmethod
    def from_option(cls, option: str) -> Credentials:
        """Read the value of `--backup-credentials`: `anonymous`, `platform`, or a JSON file's path.

        Raises:
            StorageConfigError: the file cannot be read, or what it holds is not known.
        """
        if option in _FOR_ALL:
            return cls(CredentialKind(option))
        return cls.from_file(Path(option))

    @classmethod
    def from_file(cls, path: Path) -> Credentials:
        """Read a JSON file: a Google service account key, or the keys named in `_FILE_FORMS`.

        Raises:
            StorageConfigError: the file cannot be read, or what it holds is not known.
        """
        try:
            content = read_given(path, MAX_CREDENTIALS_BYTES)
        except OSError as error:
            hint = ""
            if isinstance(error, FileNotFoundError):
                hint = f"; expected a key file, or one of {', '.join(_FOR_ALL)}"
            raise StorageConfigError(f"{path}: {error.strerror or error}{hint}") from error
        if len(content) > MAX_CREDENTIALS_BYTES:
            raise StorageConfigError(f"{path}: larger than {MAX_CREDENTIALS_BYTES} bytes")
        try:
            text = content.decode("utf-8-sig")
            document = json.loads(text)
        except (ValueError, RecursionError):
            # The decoder's message may quote the content.
            raise StorageConfigError(f"{path}: not JSON in UTF-8") from None
        if not isinstance(document, dict):
            raise StorageConfigError(f"{path}: expected a JSON object")
        try:
            if document.get("type") == "service_account":
                return cls._from_account_key(document, text)
            return cls._from_fields(document)
        except StorageConfigError as error:
            raise StorageConfigError(f"{path}: {error}") from None

    @classmethod
    def _from_account_key(cls, document: dict[str, Any], text: str) -> Credentials:
        base_url = document.get("gcs_base_url")  # the library's own way to say an endpoint
        if base_url is not None:
            _check_endpoint(base_url if isinstance(base_url, str) else "", "gcs_base_url")
        return cls(CredentialKind.GCS_KEY, {"service_account_key": text})

    @classmethod
    def _from_fields(cls, document: dict[str, Any]) -> Credentials:
        if not all(isinstance(value, str) for value in document.values() if value is not None):
            raise StorageConfigError("every value must be text")
        # Files made from a Kubernetes Secret or with an editor often end their values in a newline.
        fields = {key: value.strip() for key, value in document.items() if value is not None}
        endpoint, region = fields.pop("endpoint", None), fields.pop("region", None)
        for kind, required, optional in _FILE_FORMS:
            if required <= fields.keys() <= required | optional:
                return cls(kind, fields, endpoint, region)
        forms = "; ".join(", ".join(sorted(required)) for _, required, _ in _FILE_FORMS)
        raise StorageConfigError(
            f"expected a Google service account key, or the keys of one of: {forms} "
            "(each with endpoint, region where needed)"
        )


_PRINTABLE: Final = re.compile(r"[!-~]+")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_BUCKET: Final = re.compile(r"[A-Za-z0-9$][A-Za-z0-9._-]{0,254}")
"""Of buckets in all three clouds; Azure has containers named $root and $web."""
_FREE_TEXT: Final = frozenset({"service_account_key"})


def _why_not(value: str) -> str:
    if not value:
        return "is empty"
    return "has a space, a line break, or a character outside ASCII in it"


def _check_endpoint(endpoint: str, field_name: str = "endpoint") -> None:
    """Raise StorageConfigError unless it is the base URL of a service; it is never shown whole."""
    try:
        parts = urlsplit(endpoint)
        port, host = parts.port, parts.hostname or ""
    except ValueError:
        raise StorageConfigError(
            f"{field_name}: no URL, or no such port; {_ENDPOINT_EXPECTED}"
        ) from None
    if parts.username is not None or parts.password is not None or "@" in parts.netloc:
        raise StorageConfigError(f"{field_name}: takes no user or password; {_ENDPOINT_EXPECTED}")
    if not _PRINTABLE.fullmatch(endpoint) or parts.query or parts.fragment or port == 0:
        raise StorageConfigError(
            f"{field_name}: a space, a character outside ASCII, a query, a fragment or port 0 is "
            f"in it; {_ENDPOINT_EXPECTED}"
        )
    if parts.scheme not in ("http", "https") or not _HOST.fullmatch(host):
        raise StorageConfigError(f"{field_name}: {endpoint[:80]!r}; {_ENDPOINT_EXPECTED}")
    if parts.scheme == "http" and not _is_loopback(endpoint):
        raise StorageConfigError("plain http is for loopback addresses; use an https endpoint")


_HOST: Final = re.compile(r"[A-Za-z0-9._-]+|[0-9A-Fa-f:.]+")
_ENDPOINT_EXPECTED: Final = "expected https://HOST, https://HOST:PORT or https://HOST/PATH"


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
_FOR_ALL: Final = (CredentialKind.ANONYMOUS, CredentialKind.PLATFORM)
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
    try:
        parts = urlsplit(url)
    except ValueError:
        # Its text may quote a password in the URL.
        raise StorageConfigError("the backup URL has brackets or letters no URL can have") from None
    if parts.query or parts.fragment or "@" in parts.netloc:
        raise StorageConfigError(
            "a backup URL takes no user, password, query or fragment: expected "
            "SCHEME://BUCKET/DIR, with ? and # in a directory's name as %3F and %23"
        )
    if parts.scheme == "file":
        return _open_local(parts, url, create)
    if parts.scheme not in _SCHEMES:
        known = ", ".join(f"{scheme}://" for scheme in ("file", *_SCHEMES))
        # Where an @ is, it may be a password's.
        shown = "the backup URL" if "@" in url else url or "the backup URL is empty"
        raise StorageConfigError(f"{shown}: expected one of {known}")
    if not parts.netloc:
        raise StorageConfigError(f"{url}: the bucket's name is missing")
    if not _BUCKET.fullmatch(parts.netloc):
        raise StorageConfigError(f"{url}: {parts.netloc[:80]!r} is no bucket's name")
    store_class, kinds = _SCHEMES[parts.scheme]
    if credentials is None:
        raise StorageConfigError(
            f"{url}: needs credentials: a key file, 'anonymous', or 'platform' (the machine's own)"
        )
    if credentials.kind not in kinds | set(_FOR_ALL):
        raise StorageConfigError(
            f"{url}: {credentials.kind.value} credentials do not fit; expected "
            f"one of {', '.join((*sorted(kinds), *_FOR_ALL))}"
        )
    options = _options(parts.scheme, credentials)
    client = {
        "timeout": timeout,
        "connect_timeout": min(timeout, timedelta(seconds=10)),
        "allow_http": _is_loopback(credentials.endpoint),
    }
    retry = {"max_retries": max_retries, "retry_timeout": retry_timeout}
    prefix = unquote(parts.path).strip("/") or None
    with (
        store_errors(lambda text: StorageConfigError(f"{url}: {text}")),
        _ambient_variables(credentials.kind is CredentialKind.PLATFORM),
    ):
        return store_class(
            parts.netloc,
            prefix=prefix,
            client_options=client,
            retry_config=retry,
            **options,
        )


def _open_local(parts: SplitResult, url: str, create: bool) -> Any:
    path = unquote(parts.path)
    if parts.netloc not in ("", "localhost") or not path.startswith("/"):
        raise StorageConfigError(f"{url}: expected file:///absolute/path")
    with store_errors(lambda text: StorageConfigError(f"{url}: {text}")):
        if create or Path(path).is_dir():
            return LocalStore(path, mkdir=create, automatic_cleanup=True)
    raise StorageConfigError(f"{url}: no such directory")


@contextmanager
def store_errors(named: Callable[[str], ReplicatorError]) -> Iterator[None]:
    """Whatever the store's library raises becomes the error that `named` makes of its first line.

    Beside its own errors that is what Python raises below it, and a panic of its Rust code, which
    comes as an exception of its own and, from calls that do not wait, as no `Exception` at all.
    """
    try:
        yield
    except (ReplicatorError, GeneratorExit, KeyboardInterrupt, SystemExit, CancelledError):
        raise
    except BaseException as error:
        raise named(_shown(str(error)) or type(error).__name__) from None


def _shown(text: str) -> str:
    """The first line, with the service's own word for it where its answer in XML has one.

    What else follows may hold request headers.
    """
    first, _, answer = (text.strip().splitlines() or [""])[0].partition("<?xml")
    code = _ERROR_CODE.search(text)
    return _USER_INFO.sub("://***@", f"{first}{code[1]}" if answer and code else first)


_ERROR_CODE: Final = re.compile(r"<Code>([A-Za-z]{1,60})</Code>")
_USER_INFO: Final = re.compile(r"://[^/\s@]*@")


def _options(scheme: str, credentials: Credentials) -> dict[str, Any]:
    options: dict[str, Any] = dict(credentials.secret)
    if credentials.kind is CredentialKind.ANONYMOUS:
        options["skip_signature"] = True
    if credentials.endpoint is not None:
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
