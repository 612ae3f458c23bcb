"""Coordinator discovery and mounts, against a fake driver that speaks the public proto (protobuf).

Its behaviour is the public driver's (see replicator/platform/gke.py): `GetCoordinator` waits until
there is a coordinator, names that no ConfigMap may have are refused, mounts replace one another.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from agent_lab import Lab

from replicator.platform.base import PlatformError
from replicator.platform.gke import GkePlatform, decode_string, encode_strings, registered_name
from replicator.storage import ObjectStorage

grpc = pytest.importorskip("grpc", reason="grpcio is not installed (extra gke)")
descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2", reason="needs protobuf")

from google.protobuf import descriptor_pool, message_factory  # noqa: E402

# Field names and numbers as in rpc/replication.proto of the public replicator (3a24fd1).
MESSAGES = {
    "RegisterCoordinatorRequest": ("job_name", "ip"),
    "RegisterCoordinatorResponse": (),
    "GetCoordinatorRequest": ("job_name",),
    "GetCoordinatorResponse": ("ip",),
    "UnregisterCoordinatorRequest": ("job_name", "ip"),
    "UnregisterCoordinatorResponse": (),
    "MountGCSBucketRequest": ("local_mountpoint",),
    "MountGCSBucketResponse": (),
    "UnmountAllPeersRequest": (),
    "UnmountAllPeersResponse": (),
}
NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def message_classes():
    file = descriptor_pb2.FileDescriptorProto(
        name="replication.proto", package="replication", syntax="proto3"
    )
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, field in enumerate(fields, 1):
            message.field.add(
                name=field,
                number=number,
                type=descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
                label=descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL,
            )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"replication.{name}"))
        for name in MESSAGES
    }


CLASSES = message_classes()


class FakeDriver:
    """One address per job name, like the driver's ConfigMaps; a bucket, and where it is mounted.

    Several drivers (nodes) of one cluster share `jobs` and `bucket`.
    """

    def __init__(self, bucket: Path, remote: Path, jobs: dict[str, str] | None = None):
        self.jobs = {} if jobs is None else jobs
        self.bucket, self.remote = bucket, remote
        self.calls: list[str] = []
        self.broken = False
        self.peers = ["peer-of-an-earlier-replicator"]
        self.mounted: str | None = None
        methods = (
            "RegisterCoordinator",
            "GetCoordinator",
            "UnregisterCoordinator",
            "MountGCSBucket",
            "UnmountAllPeers",
        )
        handlers = {
            name: grpc.unary_unary_rpc_method_handler(
                getattr(self, name),
                request_deserializer=CLASSES[f"{name}Request"].FromString,
                response_serializer=CLASSES[f"{name}Response"].SerializeToString,
            )
            for name in methods
        }
        self.server = grpc.server(ThreadPoolExecutor(8))
        service = grpc.method_handlers_generic_handler("replication.ReplicationService", handlers)
        self.server.add_generic_rpc_handlers((service,))
        self.port = self.server.add_insecure_port("127.0.0.1:0")
        self.server.start()

    def stop(self):
        self.server.stop(None)
        self.unmount()

    def _check(self, context, name):
        if self.broken:
            context.abort(grpc.StatusCode.UNAVAILABLE, "the API server is away")
        if NAME.fullmatch(name) is None:
            context.abort(grpc.StatusCode.INTERNAL, f"creating configmap: {name!r} is invalid")

    def RegisterCoordinator(self, request, context):  # noqa: N802
        self._check(context, request.job_name)
        self.calls.append("register")
        self.jobs[request.job_name] = request.ip
        return CLASSES["RegisterCoordinatorResponse"]()

    def GetCoordinator(self, request, context):  # noqa: N802
        self._check(context, request.job_name)
        while not self.jobs.get(request.job_name) and context.is_active():
            time.sleep(0.01)
        return CLASSES["GetCoordinatorResponse"](ip=self.jobs.get(request.job_name, ""))

    def UnregisterCoordinator(self, request, context):  # noqa: N802
        self.calls.append("unregister")
        if self.jobs.get(request.job_name) == request.ip:
            self.jobs[request.job_name] = ""
        return CLASSES["UnregisterCoordinatorResponse"]()

    def MountGCSBucket(self, request, context):  # noqa: N802
        if self.broken or not request.local_mountpoint or "/" in request.local_mountpoint:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "bad mountpoint")
        self.calls.append("mount")
        self.unmount()
        folder = self.bucket / request.local_mountpoint
        folder.mkdir(parents=True, exist_ok=True)
        if MAY_MOUNT:
            subprocess.run(["mount", "--bind", str(folder), str(self.remote)], check=True)
        self.mounted = request.local_mountpoint
        return CLASSES["MountGCSBucketResponse"]()

    def unmount(self):
        if self.mounted is not None and MAY_MOUNT:
            subprocess.run(["umount", "-l", str(self.remote)], check=True)
        self.mounted = None

    def UnmountAllPeers(self, request, context):  # noqa: N802
        self.calls.append("unmount peers")
        self.peers.clear()
        return CLASSES["UnmountAllPeersResponse"]()


def may_mount() -> bool:
    """Whether this process may bind one directory to another, as the driver does."""
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        command = ["mount", "--bind", one, other]
        mount = shutil.which("mount")
        done = mount and subprocess.run(command, capture_output=True, check=False).returncode == 0
        if done:
            subprocess.run(["umount", other], check=True)
        return bool(done)


MAY_MOUNT = may_mount()


@pytest.fixture
def driver(tmp_path):
    (tmp_path / "remote").mkdir()
    fake = FakeDriver(tmp_path / "bucket", tmp_path / "remote")
    yield fake
    fake.stop()


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setattr("replicator.platform.gke.WAIT_SECONDS", 0.3)


def platform(driver, **more) -> GkePlatform:
    return GkePlatform(target=f"127.0.0.1:{driver.port}", **more)


def test_messages_are_the_public_ones():
    made = CLASSES["RegisterCoordinatorRequest"](job_name="llama", ip="tcp://10.0.0.1:4242")
    assert encode_strings("llama", "tcp://10.0.0.1:4242") == made.SerializeToString()
    long = CLASSES["GetCoordinatorResponse"](ip="x" * 300)
    assert decode_string(long.SerializeToString()) == "x" * 300
    assert decode_string(b"") == ""


@pytest.mark.parametrize(
    "junk", [b"\x08\x01", b"\x0a\x05ab", b"\x0a", b"\xff" * 9, b"\x0a\x01\xff"]
)
def test_junk_from_the_driver_is_a_clear_error(junk):
    with pytest.raises(PlatformError, match="driver"):
        decode_string(junk)


def test_the_coordinator_is_registered_found_and_withdrawn(driver):
    async def scenario():
        one = platform(driver)
        with pytest.raises(PlatformError, match="no agent coordinates"):
            await one.coordinators("llama")
        for _ in range(3):
            await one.publish("llama", "10.0.0.1:4242", 1.0)
        assert driver.jobs == {"llama": "tcp://10.0.0.1:4242"}
        assert driver.calls == ["register"]
        assert await platform(driver).coordinators("llama") == ["10.0.0.1:4242"]
        await one.withdraw("llama")
        assert driver.jobs == {"llama": ""}

    asyncio.run(scenario())


def test_an_older_agent_does_not_take_the_job_back(driver, monkeypatch):
    monkeypatch.setattr("replicator.platform.gke.CHECK_SECONDS", 0.0)

    async def scenario():
        old, young = platform(driver), platform(driver)
        await old.publish("llama", "10.0.0.1:4242", 1.0)
        await young.publish("llama", "10.0.0.2:4242", 2.0)
        with pytest.raises(PlatformError, match=r"younger agent at 10\.0\.0\.2:4242"):
            await old.publish("llama", "10.0.0.1:4242", 1.0)
        assert driver.jobs == {"llama": "tcp://10.0.0.2:4242"}

    asyncio.run(scenario())


def test_a_registration_that_was_lost_is_made_again(driver, monkeypatch):
    """The driver then does not answer at all who the coordinator is."""
    monkeypatch.setattr("replicator.platform.gke.CHECK_SECONDS", 0.0)

    async def scenario():
        one = platform(driver)
        await one.publish("llama", "10.0.0.1:4242", 1.0)
        driver.jobs["llama"] = ""  # somebody unregistered it, or deleted the ConfigMap
        await one.publish("llama", "10.0.0.1:4242", 1.0)
        assert driver.jobs == {"llama": "tcp://10.0.0.1:4242"}

    asyncio.run(scenario())


def test_whoever_waits_for_a_coordinator_is_told_as_soon_as_there_is_one(driver, monkeypatch):
    monkeypatch.setattr("replicator.platform.gke.WAIT_SECONDS", 20.0)

    async def scenario():
        waiting = asyncio.create_task(platform(driver).coordinators("llama"))
        await asyncio.sleep(0.2)
        assert not waiting.done()
        await platform(driver).publish("llama", "10.0.0.1:4242", 1.0)
        assert await asyncio.wait_for(waiting, 5) == ["10.0.0.1:4242"]

    asyncio.run(scenario())


@pytest.mark.parametrize("job", ["Llama_7B", "llama..7b", "-x-", "a" * 300])
def test_a_job_whose_name_no_configmap_may_have_is_found_all_the_same(driver, job):
    async def scenario():
        await platform(driver).publish(job, "10.0.0.1:4242", 1.0)
        assert await platform(driver).coordinators(job) == ["10.0.0.1:4242"]

    asyncio.run(scenario())
    assert registered_name(job) != registered_name(job + "x")
    assert registered_name("llama-7b.x") == "llama-7b.x"


def test_the_driver_releases_peers_and_mounts_the_jobs_folder(driver):
    async def scenario():
        await platform(driver, mounts=True).begin("llama")
        assert driver.calls == ["unmount peers", "mount"]
        assert driver.mounted == "llama"
        assert not driver.peers
        await platform(driver).begin("other")
        assert driver.mounted == "llama"  # without --gke-bucket-mount nothing is mounted
        driver.broken = True
        with pytest.raises(PlatformError, match="MountGCSBucket: INVALID_ARGUMENT"):
            await platform(driver, mounts=True).begin("llama")

    asyncio.run(scenario())


def test_a_driver_that_does_not_answer_is_a_platform_error(driver):
    async def scenario():
        driver.broken = True
        with pytest.raises(PlatformError, match="UNAVAILABLE: the API server is away"):
            await platform(driver).coordinators("llama")

    asyncio.run(scenario())


@pytest.mark.skipif(not MAY_MOUNT, reason="binding directories needs root")
def test_backups_go_through_the_drivers_mount_and_come_back(tmp_path):
    """Two nodes with a driver each and one bucket; at first the bucket cannot be mounted."""
    drivers = []
    for index in range(2):
        remote = tmp_path / f"remote{index}"
        remote.mkdir()
        jobs = drivers[0].jobs if drivers else None
        drivers.append(FakeDriver(tmp_path / "bucket", remote, jobs))

    async def scenario():
        async with Lab(tmp_path) as lab:
            for index, driver in enumerate(drivers):
                driver.broken = True
                lab.options[index] = {
                    "platform": platform(driver, mounts=True),
                    "storage": ObjectStorage.open(driver.remote.as_uri(), create=False),
                    "storage_is_of_job": True,
                }
            await lab.start()
            lab.begin(backup_interval_steps=1, backup_interval_minutes=None)
            await asyncio.sleep(0.5)
            assert lab.marker(0) is None  # backups cannot be read: starting anew would be a guess
            for driver in drivers:
                driver.broken = False
            assert await lab.wait_restored() is None
            saved = await lab.replicate(1)
            job = tmp_path / "bucket" / lab.job
            await lab.until(lambda: list(job.glob("*/backup.seal")), "the backup")
            for index in range(2):
                await lab.wipe(index)
            await lab.start()
            assert await lab.restored() == 1
            assert [lab.data(index) for index in range(2)] == [saved[0], saved[1]]

    try:
        asyncio.run(asyncio.wait_for(scenario(), 60))
    finally:
        for driver in drivers:
            driver.stop()


def test_agents_find_one_another_through_the_driver(driver, tmp_path):
    async def scenario():
        async with Lab(tmp_path) as lab:
            for index in range(2):
                lab.options[index] = {"platform": platform(driver)}
            await lab.start()
            assert await lab.restored() is None
            await lab.replicate(1)
            assert await lab.restored() == 1

    asyncio.run(asyncio.wait_for(scenario(), 60))
