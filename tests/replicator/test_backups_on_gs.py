"""The backup tier on fake-gcs-server on loopback, with a proxy in front that makes it fail.

obstore speaks Google's XML API. fake-gcs-server lists, serves and deletes objects by it, but takes a
plain PUT only as one to a signed URL, and forgets the ETag in its answer: the proxy mends both.
"""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import time
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
from replicator.storage import ObjectStorage
from tests.go_binaries import FAKE_GCS_SERVER


@pytest.fixture(scope="module")
def gs_server() -> Iterator[str]:
    binary = FAKE_GCS_SERVER.find()
    if binary is None:
        pytest.skip(FAKE_GCS_SERVER.missing)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    place = f"127.0.0.1:{port}"
    server = subprocess.Popen(
        [
            binary, "-backend=memory", "-scheme=http", "-host=127.0.0.1", f"-port={port}",
            f"-public-host={place}", "-log-level=error",
        ]
    )  # fmt: skip
    try:
        wait_for(port, server)
        yield f"http://{place}"
    finally:
        server.kill()
        server.wait()


def wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 30
    while server.poll() is None and time.monotonic() < until:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    pytest.fail(f"fake-gcs-server did not start: exit status {server.poll()}")


@pytest.fixture
def proxy(gs_server: str) -> Iterator[FaultProxy]:
    def as_signed(method: str, path: str) -> str:
        return f"{path}?X-Goog-Algorithm=GOOG4-RSA-SHA256" if method == "PUT" else path

    def etag(method: str, body: bytes) -> dict[str, str]:
        return {"ETag": json.loads(body).get("etag", "")} if method == "PUT" else {}

    with FaultProxy(gs_server, translate=as_signed, complete=etag) as running:
        yield running


@pytest.fixture
def backups(gs_server: str, proxy: FaultProxy, request: pytest.FixtureRequest) -> JobBackups:
    """A job's backups in a fresh bucket, behind the proxy."""
    bucket = f"bucket-{zlib.crc32(request.node.nodeid.encode())}"
    make = urllib.request.Request(
        f"{gs_server}/storage/v1/b?project=test",
        data=json.dumps({"name": bucket}).encode(),
        headers={"Content-Type": "application/json"},
    )
    urllib.request.urlopen(make, timeout=10).close()
    token = Credentials(CredentialKind.GCS_TOKEN, {"bearer_token": "hidden-secret"}, proxy.url)
    limits = {"timeout": timedelta(seconds=5), "retry_timeout": timedelta(seconds=5)}
    return JobBackups(
        ObjectStorage.open(f"gs://{bucket}/dir", token, max_retries=2, **limits), "job"
    )


def test_a_backup_comes_back_byte_for_byte(backups: JobBackups, tmp_path: Path) -> None:
    asyncio.run(comes_back_byte_for_byte(backups, tmp_path))


def test_throttling_is_waited_out(backups: JobBackups, proxy: FaultProxy, tmp_path: Path) -> None:
    asyncio.run(waits_throttling_out(backups, proxy, tmp_path, "job"))


def test_an_upload_torn_for_good_never_completes_a_backup(
    backups: JobBackups, proxy: FaultProxy, tmp_path: Path
) -> None:
    asyncio.run(torn_upload_never_completes(backups, proxy, tmp_path, "manifest"))


def test_a_vanished_object_is_missing_not_transient(
    backups: JobBackups, proxy: FaultProxy, tmp_path: Path
) -> None:
    asyncio.run(vanished_object_is_missing(backups, proxy, tmp_path, "1%5F0%2Edistcp"))


@pytest.mark.parametrize("fault", [Fault.SLOW_DOWNLOAD, Fault.CUT_DOWNLOAD])
def test_a_slow_or_broken_download_comes_through_whole(
    backups: JobBackups, proxy: FaultProxy, tmp_path: Path, fault: Fault
) -> None:
    async def scenario() -> None:
        manifests = await store_backup(backups, tmp_path, size=400_000)
        step = await only_step(backups)
        proxy.rule = on_path("distcp", fault, times=1, method="GET")
        await backups.download_shard(NAME, step, 1, 0, tmp_path / "r")
        assert proxy.faults(fault) == 1
        assert verify(tmp_path / "r", manifests[1]) == ()

    asyncio.run(scenario())


def test_a_byte_changed_on_the_way_is_never_accepted(
    backups: JobBackups, proxy: FaultProxy, tmp_path: Path
) -> None:
    asyncio.run(changed_byte_is_never_accepted(backups, proxy, tmp_path, "distcp"))
