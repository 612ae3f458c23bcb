"""Coordinator discovery against a fake driver that speaks the public proto through protobuf."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from agent_lab import Lab

from replicator.platform.base import PlatformError
from replicator.platform.gke import GkePlatform, decode_string, encode_strings

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
}


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
    """One address per job name, like the driver's ConfigMaps."""

    def __init__(self):
        self.jobs: dict[str, str] = {}
        self.calls: list[str] = []
        self.broken = False
        handlers = {
            name: grpc.unary_unary_rpc_method_handler(
                getattr(self, name),
                request_deserializer=CLASSES[f"{name}Request"].FromString,
                response_serializer=CLASSES[f"{name}Response"].SerializeToString,
            )
            for name in ("RegisterCoordinator", "GetCoordinator", "UnregisterCoordinator")
        }
        self.server = grpc.server(ThreadPoolExecutor(4))
        service = grpc.method_handlers_generic_handler("replication.ReplicationService", handlers)
        self.server.add_generic_rpc_handlers((service,))
        self.port = self.server.add_insecure_port("127.0.0.1:0")
        self.server.start()

    def RegisterCoordinator(self, request, context):  # noqa: N802
        self.calls.append("register")
        self.jobs[request.job_name] = request.ip
        return CLASSES["RegisterCoordinatorResponse"]()

    def GetCoordinator(self, request, context):  # noqa: N802
        if self.broken:
            context.abort(grpc.StatusCode.UNAVAILABLE, "the API server is away")
        if request.job_name not in self.jobs:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such job")
        return CLASSES["GetCoordinatorResponse"](ip=self.jobs[request.job_name])

    def UnregisterCoordinator(self, request, context):  # noqa: N802
        self.calls.append("unregister")
        if self.jobs.get(request.job_name) == request.ip:
            del self.jobs[request.job_name]
        return CLASSES["UnregisterCoordinatorResponse"]()


@pytest.fixture
def driver():
    fake = FakeDriver()
    yield fake
    fake.server.stop(None)


def platform(driver) -> GkePlatform:
    return GkePlatform(target=f"127.0.0.1:{driver.port}")


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
        assert driver.jobs == {}

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


def test_a_driver_that_does_not_answer_is_a_platform_error(driver):
    async def scenario():
        driver.broken = True
        with pytest.raises(PlatformError, match="UNAVAILABLE: the API server is away"):
            await platform(driver).coordinators("llama")

    asyncio.run(scenario())


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
