"""The backup tier on Azurite, Microsoft's blob storage emulator (npm: azurite), on loopback.

Skipped where `azurite-blob` is not on the PATH.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path

import pytest
from backup_cases import comes_back_byte_for_byte

from replicator.backups import JobBackups
from replicator.credentials import CredentialKind, Credentials
from replicator.storage import ObjectStorage, StorageError

# Azurite's published account; its key is no secret.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    program = shutil.which("azurite-blob")
    if program is None:
        pytest.skip("needs azurite-blob on the PATH (npm install azurite)")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    location = tmp_path_factory.mktemp("azurite")
    command = [program, "--blobHost", "127.0.0.1", "--blobPort", str(port), "--silent"]
    command += ["--location", str(location), "--skipApiVersionCheck", "--disableTelemetry"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        url = f"http://127.0.0.1:{port}/{ACCOUNT}"
        create_container(url, "box", time.monotonic() + 30)
        yield url
    finally:
        process.terminate()
        process.wait(10)


def create_container(url: str, name: str, deadline: float) -> None:
    """A Create Container request, signed with the account's key."""
    date, version = formatdate(usegmt=True), "2021-08-06"
    resource = f"/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"
    headers = f"x-ms-date:{date}\nx-ms-version:{version}\n"
    text = "PUT" + "\n" * 12 + headers + resource
    digest = hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()
    signature = base64.b64encode(digest).decode()
    request = urllib.request.Request(
        f"{url}/{name}?restype=container",
        method="PUT",
        headers={
            "x-ms-date": date,
            "x-ms-version": version,
            "Authorization": f"SharedKey {ACCOUNT}:{signature}",
        },
    )
    while True:
        try:
            with urllib.request.urlopen(request, timeout=10):
                return
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read()) from error
        except OSError:
            assert time.monotonic() < deadline, "azurite did not start"
            time.sleep(0.1)


def open_at(endpoint: str, key: str = KEY) -> ObjectStorage:
    secret = {"account_name": ACCOUNT, "account_key": key}
    credentials = Credentials(CredentialKind.AZURE_KEY, secret, endpoint)
    return ObjectStorage.open("az://box/dir", credentials, max_retries=1)


def test_a_backup_comes_back_byte_for_byte(
    endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("replicator.storage.PART_BYTES", 5 * 1024 * 1024)
    backups = JobBackups(open_at(endpoint), "job")
    asyncio.run(comes_back_byte_for_byte(backups, tmp_path, size=11 * 1024 * 1024))


def test_a_wrong_key_is_an_error_that_does_not_show_it(endpoint: str) -> None:
    wrong = base64.b64encode(b"wrong" * 13).decode()
    with pytest.raises(StorageError) as caught:
        asyncio.run(open_at(endpoint, wrong).list("job"))
    assert wrong not in str(caught.value)
