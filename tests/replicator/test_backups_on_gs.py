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
from backup_cases import NAME, make_shard, manifest_of, seal_of, store_backup, tree_of
from fault_proxy import Fault, FaultProxy, on_path

from replicator.backups import JobBackups
from replicator.credentials import CredentialKind, Credentials
from replicator.digest import verify
from replicator.storage import ObjectStorage, StorageError, StoredDataError
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
    async def scenario() -> None:
        assert await backups.names() == ()
        manifests = await store_backup(backups, tmp_path)
        assert await backups.names() == (NAME,)
        index = await backups.index(NAME)
        assert index.complete, index.problems
        step = index.newest_complete
        assert step is not None
        assert await backups.verify(NAME, step) == ()
        for rank, manifest in enumerate(manifests):
            await backups.download_shard(NAME, step, rank, 0, tmp_path / f"r{rank}")
            assert verify(tmp_path / f"r{rank}", manifest) == ()
            assert tree_of(tmp_path / f"r{rank}") == tree_of(tmp_path / NAME / f"shard-3-{rank}")
        await backups.force_restore(NAME)
        assert await backups.read_restore_version() == NAME
        assert await backups.clear_restore_version(NAME)
        await backups.delete(NAME)
        assert await backups.names() == ()

    asyncio.run(scenario())


def test_throttling_is_waited_out(backups: JobBackups, proxy: FaultProxy, tmp_path: Path) -> None:
    async def scenario() -> None:
        proxy.rule = on_path("job", Fault.THROTTLE, times=2)
        await store_backup(backups, tmp_path, nodes=1)
        assert proxy.faults(Fault.THROTTLE) == 2
        assert (await backups.index(NAME)).complete

    asyncio.run(scenario())


def test_an_upload_torn_for_good_never_completes_a_backup(
    backups: JobBackups, proxy: FaultProxy, tmp_path: Path
) -> None:
    async def scenario() -> None:
        proxy.rule = on_path("manifest", Fault.TEAR_UPLOAD, method="PUT")
        shard = make_shard(tmp_path, 0)
        manifest = manifest_of(shard, 0, nodes=1)
        with pytest.raises(StorageError, match="cannot write") as caught:
            await backups.put_shard(NAME, manifest, shard)
        assert "hidden-secret" not in str(caught.value)
        assert proxy.faults(Fault.TEAR_UPLOAD) >= 1
        assert await backups.newest_complete() is None
        proxy.rule = on_path("", Fault.TEAR_UPLOAD, times=0)
        await backups.put_shard(NAME, manifest, shard)
        await backups.seal(NAME, seal_of([manifest]))
        assert (await backups.index(NAME)).complete, "the same call again mends it"

    asyncio.run(scenario())


def test_a_vanished_object_is_missing_not_transient(
    backups: JobBackups, proxy: FaultProxy, tmp_path: Path
) -> None:
    async def scenario() -> None:
        await store_backup(backups, tmp_path)
        step = (await backups.index(NAME)).newest_complete
        assert step is not None
        proxy.rule = on_path("1%5F0%2Edistcp", Fault.VANISH)
        with pytest.raises(StoredDataError, match="no such object") as caught:
            await backups.download_shard(NAME, step, 1, 0, tmp_path / "r")
        assert caught.value.missing
        assert not caught.value.transient

    asyncio.run(scenario())


@pytest.mark.parametrize("fault", [Fault.SLOW_DOWNLOAD, Fault.CUT_DOWNLOAD])
def test_a_slow_or_broken_download_comes_through_whole(
    backups: JobBackups, proxy: FaultProxy, tmp_path: Path, fault: Fault
) -> None:
    async def scenario() -> None:
        manifests = await store_backup(backups, tmp_path, size=400_000)
        step = (await backups.index(NAME)).newest_complete
        assert step is not None
        proxy.rule = on_path("distcp", fault, times=1, method="GET")
        await backups.download_shard(NAME, step, 1, 0, tmp_path / "r")
        assert proxy.faults(fault) == 1
        assert verify(tmp_path / "r", manifests[1]) == ()

    asyncio.run(scenario())


def test_a_byte_changed_on_the_way_is_never_accepted(
    backups: JobBackups, proxy: FaultProxy, tmp_path: Path
) -> None:
    async def scenario() -> None:
        await store_backup(backups, tmp_path)
        step = (await backups.index(NAME)).newest_complete
        assert step is not None
        proxy.rule = on_path("distcp", Fault.FLIP_BYTE, method="GET")
        with pytest.raises(StoredDataError, match="BLAKE3"):
            await backups.download_shard(NAME, step, 0, 0, tmp_path / "r")

    asyncio.run(scenario())
