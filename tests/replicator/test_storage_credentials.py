"""Credentials and URLs that the object store's library would choke on, and what it does then."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import pytest
from agent_lab import Lab
from obstore.store import S3Store

from replicator.credentials import CredentialKind, Credentials, StorageConfigError
from replicator.storage import ObjectStorage, StorageError

NOBODY = "http://127.0.0.1:1"
S3 = {"access_key_id": "AKIDEXAMPLE", "secret_access_key": "topsecret"}


def written(path: Path, document: object, encoding: str = "utf-8") -> Path:
    path.write_bytes(json.dumps(document).encode(encoding))
    return path


@pytest.mark.parametrize(
    ("url", "fields"),
    [
        ("s3://bucket", {**S3, "session_token": "topsecret", "region": "eu-west-1"}),
        ("gs://bucket", {"bearer_token": "topsecret"}),
        ("az://bucket", {"account_name": "account", "account_key": "dG9wc2VjcmV0"}),
    ],
)
def test_white_space_around_values_is_forgiven(
    tmp_path: Path, url: str, fields: dict[str, str]
) -> None:
    padded = {key: f" {value}\n" for key, value in {**fields, "endpoint": NOBODY}.items()}
    credentials = Credentials.from_file(written(tmp_path / "c.json", padded))
    assert {**credentials.secret, "endpoint": credentials.endpoint} == {
        **{k: v for k, v in fields.items() if k != "region"},
        "endpoint": NOBODY,
    }
    assert credentials.region == fields.get("region")
    storage = ObjectStorage.open(url, credentials, max_retries=0)
    with pytest.raises(StorageError, match="cannot read"):  # nobody listens there
        asyncio.run(storage.read_bytes("x", limit=10))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({**S3, "access_key_id": "AK\nID"}, "access_key_id: has a space"),
        ({**S3, "secret_access_key": "topsecret\u00e4"}, "secret_access_key: has"),
        ({**S3, "secret_access_key": " \n"}, "secret_access_key: is empty"),
        ({**S3, "session_token": "topsecret\0"}, "session_token: has"),
        ({"bearer_token": "topsecret\nX: y"}, "bearer_token: has"),
        ({"account_name": "a/b", "sas_key": "sig=topsecret"}, "account_name: expected"),
        ({**S3, "region": "a b"}, "region: expected"),
        ({**S3, "region": ""}, "region: expected"),
        ({**S3, "endpoint": ""}, "endpoint: "),
        ({**S3, "endpoint": "notaurl"}, "endpoint: 'notaurl'"),
        ({**S3, "endpoint": "https://"}, "endpoint: "),
        ({**S3, "endpoint": "http://127.0.0.1:99999"}, "endpoint: no URL"),
        ({**S3, "endpoint": "http://127.0.0.1:0"}, "port 0"),
        ({**S3, "endpoint": "http://[x"}, "endpoint: no URL"),
        ({**S3, "endpoint": "ftp://127.0.0.1:1"}, "expected https://HOST"),
        ({**S3, "endpoint": "https://host/a b"}, "endpoint: a space"),
        ({**S3, "endpoint": "https://h\u00f6st"}, "endpoint: a space"),
        ({**S3, "endpoint": "https://host?token=topsecret"}, "a query"),
        ({**S3, "endpoint": "http://user:topsecret@127.0.0.1:1"}, "takes no user or password"),
        ({**S3, "endpoint": "https://topsecret@host"}, "takes no user or password"),
        (
            {"type": "service_account", "gcs_base_url": "https://user:topsecret@host"},
            "gcs_base_url: takes no user",
        ),
        ({"type": "service_account", "gcs_base_url": 7}, "gcs_base_url: "),
    ],
)
def test_what_the_store_would_choke_on_is_refused_by_name_without_its_secret(
    tmp_path: Path, fields: dict[str, str], expected: str
) -> None:
    path = written(tmp_path / "c.json", fields)
    with pytest.raises(StorageConfigError, match=expected) as caught:
        Credentials.from_file(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "topsecret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_service_account_key_in_another_encoding_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "c.json", {"type": "service_account"}, "utf-16")
    with pytest.raises(StorageConfigError, match="not JSON in UTF-8"):
        Credentials.from_file(path)


def test_a_credentials_file_may_be_a_link_but_no_pipe_or_device(tmp_path: Path) -> None:
    written(tmp_path / "real.json", {"bearer_token": "t"})
    (tmp_path / "c.json").symlink_to("real.json")
    assert Credentials.from_file(tmp_path / "c.json").kind is CredentialKind.GCS_TOKEN
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path):
        with pytest.raises(StorageConfigError, match=r"pipe, a device|directory"):
            Credentials.from_file(path)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("s3://buc ket/x", "no bucket's name"),
        ("gs://b:1/x", "no bucket's name"),
        ("az://b\u00e4/x", "no bucket's name"),
        ("gs://[x/y", "the backup URL"),
        ("file://[x", "the backup URL"),
        ("s3://user:topsecret@bucket/x", "takes no user"),
        ("s3://topsecret@bucket/x", "takes no user"),
        ("s3://user:topsecret@[bucket/x", "the backup URL"),
    ],
)
def test_an_unusable_backup_url_is_refused_without_its_password(url: str, expected: str) -> None:
    with pytest.raises(StorageConfigError, match=expected) as caught:
        ObjectStorage.open(url, Credentials(CredentialKind.ANONYMOUS))
    assert "topsecret" not in str(caught.value)


def panicking() -> ObjectStorage:
    """A store whose library panics with every request: it builds no request from this endpoint."""
    store = S3Store(
        "bucket",
        endpoint="notaurl",
        access_key_id="a",
        secret_access_key="b",
        region="r",
        retry_config={"max_retries": 0, "retry_timeout": timedelta(seconds=1)},
    )
    return ObjectStorage(store, "s3://bucket")


@pytest.mark.parametrize(
    "request_",
    [
        lambda storage: storage.list("x"),
        lambda storage: storage.list_directories("x"),
        lambda storage: storage.read_bytes("x", limit=10),
        lambda storage: storage.write_bytes("x", b"y"),
        lambda storage: storage.delete(["x"]),
        lambda storage: storage.hash_file("x", size=1, digest=None),
    ],
    ids=["list", "list_directories", "read_bytes", "write_bytes", "delete", "hash_file"],
)
def test_a_panic_of_the_stores_library_is_a_storage_error(
    request_: Callable[[ObjectStorage], Awaitable[object]],
) -> None:
    async def requested() -> None:
        await request_(panicking())

    with pytest.raises(StorageError, match="s3://bucket/x"):
        asyncio.run(requested())


class Panic(BaseException):
    """As pyo3's, from calls that do not wait."""


def test_a_panic_that_is_no_exception_is_a_storage_error_but_cancelling_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    raised: BaseException = Panic("unwrap on None at http://user:topsecret@host/x\nheaders: ...")

    async def get(*_: object, **__: object) -> None:
        raise raised

    monkeypatch.setattr("obstore.get_async", get)
    with pytest.raises(StorageError) as caught:
        asyncio.run(panicking().read_bytes("x", limit=10))
    assert "topsecret" not in str(caught.value)
    assert "headers" not in str(caught.value)
    raised = asyncio.CancelledError()
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(panicking().read_bytes("x", limit=10))


def test_an_agent_survives_a_panic_of_the_stores_library(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Lab(tmp_path, 1) as lab:
            lab.options = [{"storage": panicking()}]
            await lab.start()
            lab.begin()
            await lab.until(lambda: lab.failed(0), "the refusal", 20)
            assert "backups cannot be read" in lab.failed(0)
            assert "panic" in lab.failed(0)

    asyncio.run(scenario())
