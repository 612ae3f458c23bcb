"""The backup tier on moto's S3 server on loopback, with a proxy in front that makes it fail."""

from __future__ import annotations

import asyncio
import logging
import os
import urllib.request
import zlib
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from backup_cases import (
    NAME,
    changed_byte_is_never_accepted,
    comes_back_byte_for_byte,
    make_shard,
    manifest_of,
    only_step,
    store_backup,
    torn_upload_never_completes,
    vanished_object_is_missing,
    waits_throttling_out,
)
from fault_proxy import Fault, FaultProxy, on_path

from replicator.backups import JobBackups
from replicator.credentials import CredentialKind, Credentials
from replicator.digest import verify
from replicator.storage import ObjectStorage, StorageConfigError, StorageError

moto_server = pytest.importorskip("moto.server", reason="needs moto[server]")


@pytest.fixture(scope="module")
def s3_server() -> Iterator[str]:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = moto_server.ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def proxy(s3_server: str) -> Iterator[FaultProxy]:
    with FaultProxy(s3_server) as running:
        yield running


def credentials(endpoint: str) -> Credentials:
    secret = {"access_key_id": "test", "secret_access_key": "hidden-secret"}
    return Credentials(CredentialKind.S3_KEY, secret, endpoint, "us-east-1")


def storage_at(endpoint: str, bucket: str = "bkt", **options: object) -> ObjectStorage:
    settings: dict[str, object] = {
        "timeout": timedelta(seconds=5),
        "retry_timeout": timedelta(seconds=5),
        "max_retries": 3,
        **options,
    }
    url = f"s3://{bucket}/dir"
    return ObjectStorage.open(url, credentials(endpoint), **settings)  # type: ignore[arg-type]


@pytest.fixture
def bucket(s3_server: str, request: pytest.FixtureRequest) -> str:
    """A fresh bucket, made with a bare signed-by-nobody PUT (moto does not check signatures)."""
    name = f"b{zlib.crc32(request.node.nodeid.encode())}"
    call = urllib.request.Request(f"{s3_server}/{name}", method="PUT")
    with urllib.request.urlopen(call, timeout=10):
        return name


def test_a_backup_comes_back_byte_for_byte(proxy: FaultProxy, bucket: str, tmp_path: Path) -> None:
    backups = JobBackups(storage_at(proxy.url, bucket), "job")
    asyncio.run(comes_back_byte_for_byte(backups, tmp_path))


@pytest.mark.parametrize(
    "key", ["job/", f"job/{NAME}/", "job/2026-12-01_08-00/", "job//x", f"job/{NAME}/x//y"]
)
def test_an_object_that_a_console_or_a_person_left_does_not_hide_a_backup(
    s3_server: str, bucket: str, tmp_path: Path, key: str
) -> None:
    """Web consoles make empty objects whose names end in a slash, for what they show as folders."""

    async def scenario() -> None:
        backups = JobBackups(storage_at(s3_server, bucket), "job")
        await store_backup(backups, tmp_path)
        call = urllib.request.Request(f"{s3_server}/{bucket}/{key}", data=b"", method="PUT")
        urllib.request.urlopen(call, timeout=10).close()
        assert NAME in await backups.names()
        found = await backups.newest_complete()
        assert found is not None
        assert (found[0].name, found[1].step) == (NAME, 3)

    asyncio.run(scenario())


def test_gs_speaks_the_same_requests_with_a_bearer_token(
    proxy: FaultProxy, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Google's XML API is S3's but for the signature, so moto's server can stand in for it.

    It has what fake-gcs-server lacks (see test_backups_on_gs.py): uploads in parts.
    """
    monkeypatch.setenv("GOOGLE_BEARER_TOKEN", "ambient")
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT_KEY", "{}")
    monkeypatch.setattr("replicator.storage.PART_BYTES", 5 * 1024 * 1024)
    authorizations: set[str | None] = set()
    proxy.on_headers = lambda headers: authorizations.add(headers.get("Authorization"))

    async def scenario() -> None:
        token = Credentials(CredentialKind.GCS_TOKEN, {"bearer_token": "given"}, proxy.url)
        storage = ObjectStorage.open(f"gs://{bucket}/dir", token, max_retries=1)
        backups = JobBackups(storage, "job")
        manifests = await store_backup(backups, tmp_path, size=11 * 1024 * 1024)
        step = await only_step(backups)
        assert await backups.verify(NAME, step) == ()
        await backups.download_shard(NAME, step, 1, 0, tmp_path / "r")
        assert verify(tmp_path / "r", manifests[1]) == ()
        await backups.delete(NAME)
        assert await backups.names() == ()

    asyncio.run(scenario())
    assert authorizations == {"Bearer given"}


def test_a_large_file_goes_up_in_parts(
    proxy: FaultProxy, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("replicator.storage.PART_BYTES", 5 * 1024 * 1024)

    async def scenario() -> None:
        backups = JobBackups(storage_at(proxy.url, bucket), "job")
        (manifest,) = await store_backup(backups, tmp_path, nodes=1, size=11 * 1024 * 1024)
        assert any("partNumber=2" in path for _, path, _ in proxy.seen)
        step = await only_step(backups)
        await backups.download_shard(NAME, step, 0, 0, tmp_path / "r")
        assert verify(tmp_path / "r", manifest) == ()

    asyncio.run(scenario())


def test_throttling_is_waited_out(proxy: FaultProxy, bucket: str, tmp_path: Path) -> None:
    backups = JobBackups(storage_at(proxy.url, bucket), "job")
    asyncio.run(waits_throttling_out(backups, proxy, tmp_path, "/job/"))


def test_throttling_without_end_is_a_transient_error(
    proxy: FaultProxy, bucket: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        backups = JobBackups(storage_at(proxy.url, bucket), "job")
        proxy.rule = on_path("", Fault.THROTTLE)
        shard = make_shard(tmp_path, 0)
        for action in (
            backups.names(),
            backups.index(NAME),
            backups.read_restore_version(),
            backups.put_shard(NAME, manifest_of(shard, 0), shard),
            backups.newest_complete(),
        ):
            with pytest.raises(StorageError) as caught:
                await action
            assert caught.value.transient
            assert "hidden-secret" not in str(caught.value)
            assert len(str(caught.value).splitlines()) == 1

    asyncio.run(scenario())


def test_a_bucket_that_is_not_there_is_said_in_the_words_of_the_service(s3_server: str) -> None:
    backups = JobBackups(storage_at(s3_server, "nowhere"), "job")
    with pytest.raises(StorageError) as caught:
        asyncio.run(backups.names())
    assert str(caught.value).endswith("404 Not Found: NoSuchBucket")


@pytest.mark.parametrize("part", [".distcp", ".manifest", "backup.format"])
def test_an_upload_torn_for_good_never_completes_a_backup(
    proxy: FaultProxy, bucket: str, tmp_path: Path, part: str
) -> None:
    backups = JobBackups(storage_at(proxy.url, bucket, max_retries=1), "job")
    asyncio.run(torn_upload_never_completes(backups, proxy, tmp_path, part))


def test_a_torn_multipart_upload_leaves_no_object(
    proxy: FaultProxy, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("replicator.storage.PART_BYTES", 5 * 1024 * 1024)

    async def scenario() -> None:
        storage = storage_at(proxy.url, bucket, max_retries=1)
        backups = JobBackups(storage, "job")
        proxy.rule = on_path("partNumber=2", Fault.TEAR_UPLOAD)
        shard = make_shard(tmp_path, 0, size=11 * 1024 * 1024)
        with pytest.raises(StorageError):
            await backups.put_shard(NAME, manifest_of(shard, 0, nodes=1), shard)
        assert not [path for path in await storage.list("job") if path.endswith(".distcp")]

    asyncio.run(scenario())


def test_a_vanished_object_is_missing_not_transient(
    proxy: FaultProxy, bucket: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        backups = JobBackups(storage_at(proxy.url, bucket), "job")
        step = await vanished_object_is_missing(backups, proxy, tmp_path, "__1_0.distcp")
        assert "no such object" in (await backups.verify(NAME, step))[0]
        proxy.rule = on_path("n1-w0.manifest", Fault.VANISH, method="GET")
        index = await backups.index(NAME)
        assert any("vanished" in problem for problem in index.problems)

    asyncio.run(scenario())


@pytest.mark.parametrize("max_retries", [0, 3])
def test_a_download_that_breaks_off_is_taken_up_again(
    proxy: FaultProxy, bucket: str, tmp_path: Path, max_retries: int
) -> None:
    async def scenario() -> None:
        backups = JobBackups(storage_at(proxy.url, bucket, max_retries=max_retries), "job")
        (manifest,) = await store_backup(backups, tmp_path, nodes=1, size=4_000_000)
        step = await only_step(backups)
        proxy.rule = on_path(".distcp", Fault.CUT_DOWNLOAD, times=2)
        await backups.download_shard(NAME, step, 0, 0, tmp_path / "r")
        assert proxy.faults(Fault.CUT_DOWNLOAD) == 2
        assert verify(tmp_path / "r", manifest) == ()

    asyncio.run(scenario())


def test_a_download_that_always_breaks_off_is_a_transient_error(
    proxy: FaultProxy, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("replicator.storage.READ_ATTEMPTS", 2)

    async def scenario() -> None:
        backups = JobBackups(storage_at(proxy.url, bucket, max_retries=1), "job")
        await store_backup(backups, tmp_path, nodes=1)
        step = await only_step(backups)
        proxy.rule = on_path(".distcp", Fault.CUT_DOWNLOAD)
        with pytest.raises(StorageError, match="cannot read") as caught:
            await backups.download_shard(NAME, step, 0, 0, tmp_path / "cut")
        assert caught.value.transient
        proxy.rule = on_path(".distcp", Fault.STALL)
        slow = JobBackups(
            storage_at(proxy.url, bucket, timeout=timedelta(milliseconds=300), max_retries=0), "job"
        )
        with pytest.raises(StorageError, match="cannot read") as caught:
            await slow.download_shard(NAME, step, 0, 0, tmp_path / "r")
        assert caught.value.transient

    asyncio.run(scenario())


def test_a_slow_download_comes_through(proxy: FaultProxy, bucket: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        backups = JobBackups(storage_at(proxy.url, bucket), "job")
        (manifest,) = await store_backup(backups, tmp_path, nodes=1, size=500_000)
        step = await only_step(backups)
        proxy.rule = on_path(".distcp", Fault.SLOW_DOWNLOAD)
        await backups.download_shard(NAME, step, 0, 0, tmp_path / "r")
        assert proxy.faults(Fault.SLOW_DOWNLOAD) == 1
        assert verify(tmp_path / "r", manifest) == ()

    asyncio.run(scenario())


def test_a_byte_changed_on_the_way_is_never_accepted(
    proxy: FaultProxy, bucket: str, tmp_path: Path
) -> None:
    backups = JobBackups(storage_at(proxy.url, bucket), "job")
    asyncio.run(changed_byte_is_never_accepted(backups, proxy, tmp_path, ".distcp"))


def test_credentials_in_the_environment_are_never_used(
    proxy: FaultProxy, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ambient-key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "ambient")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "ambient-token")
    monkeypatch.setenv("AWS_BUCKET", "elsewhere")
    storage = storage_at(proxy.url, bucket)
    assert os.environ["AWS_SESSION_TOKEN"] == "ambient-token", "put back for everybody else"
    headers: list[str] = []
    proxy.on_headers = lambda found: headers.append(str(found))
    assert asyncio.run(storage.list_directories("")) == ()
    assert "Credential=test/" in headers[0]
    assert "ambient" not in headers[0]


@pytest.mark.parametrize("scheme", ["s3", "gs", "az"])
def test_a_cloud_needs_credentials_by_name(scheme: str) -> None:
    with pytest.raises(StorageConfigError, match="needs credentials"):
        ObjectStorage.open(f"{scheme}://bucket/dir")


def test_credentials_of_another_cloud_do_not_fit() -> None:
    with pytest.raises(
        StorageConfigError, match="s3-key credentials do not fit; expected one of gcs-key"
    ):
        ObjectStorage.open("gs://bucket/dir", credentials("http://127.0.0.1:1"))


def test_plain_http_is_for_loopback_only() -> None:
    with pytest.raises(StorageConfigError, match="loopback"):
        ObjectStorage.open("s3://bucket/dir", credentials("http://10.0.0.1:9000"))


def test_secrets_stay_out_of_repr() -> None:
    assert "hidden-secret" not in repr(credentials("http://127.0.0.1:1"))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("{", "not JSON"),
        ("[]", "expected a JSON object"),
        ('{"access_key_id": "a"}', "expected a Google service account key, or the keys"),
        ('{"access_key_id": "a", "secret_access_key": 5}', "every value must be text"),
        ('{"bearer_token": "topsecret", "typo": "x"}', "expected a Google service account key"),
        (" " * 70_000, "larger than"),
    ],
)
def test_a_bad_credentials_file_is_named_without_its_content(
    tmp_path: Path, content: str, expected: str
) -> None:
    path = tmp_path / "credentials.json"
    path.write_text(content)
    with pytest.raises(StorageConfigError, match=expected) as caught:
        Credentials.from_option(str(path))
    assert str(path) in str(caught.value)
    assert "topsecret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "secret", "kind"),
    [
        ("gs://b/x", {"bearer_token": "s3cret"}, CredentialKind.GCS_TOKEN),
        (
            "s3://b/x",
            {"access_key_id": "a", "secret_access_key": "s3cret", "session_token": "t"},
            CredentialKind.S3_KEY,
        ),
        (
            "az://b/x",
            {"account_name": "a", "account_key": "czNjcmV0"},
            CredentialKind.AZURE_KEY,
        ),
        ("az://b/x", {"account_name": "a", "sas_key": "sv=1&sig=s3cret"}, CredentialKind.AZURE_SAS),
        ("gs://b/x", {}, CredentialKind.ANONYMOUS),
        ("s3://b/x", {}, CredentialKind.ANONYMOUS),
    ],
)
def test_a_store_opens_with_what_it_is_given(
    url: str, secret: dict[str, str], kind: CredentialKind
) -> None:
    opened = ObjectStorage.open(url, Credentials(kind, secret))
    assert "s3cret" not in repr(opened._store)


def test_a_broken_service_account_key_is_an_error_that_does_not_show_it(tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    path.write_text('{"type": "service_account", "private_key": "s3cret", "client_email": "x"}')
    with pytest.raises(StorageConfigError) as caught:
        ObjectStorage.open("gs://b/x", Credentials.from_option(str(path)))
    assert "s3cret" not in str(caught.value)


def test_credential_files(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    cases = {
        '{"access_key_id": "a", "secret_access_key": "b", "region": "r"}': CredentialKind.S3_KEY,
        '{"type": "service_account", "private_key": "x"}': CredentialKind.GCS_KEY,
        '{"bearer_token": "t"}': CredentialKind.GCS_TOKEN,
        '{"account_name": "a", "account_key": "b"}': CredentialKind.AZURE_KEY,
        '{"account_name": "a", "sas_key": "b"}': CredentialKind.AZURE_SAS,
    }
    for content, kind in cases.items():
        path.write_text(content)
        assert Credentials.from_option(str(path)).kind is kind
    assert Credentials.from_option("anonymous").kind is CredentialKind.ANONYMOUS
    assert Credentials.from_option("platform").kind is CredentialKind.PLATFORM
    with pytest.raises(StorageConfigError, match="No such file"):
        Credentials.from_option(str(tmp_path / "none.json"))
