"""Sub-commands of a running agent: `agent` and `status`."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import sys
from dataclasses import replace
from http.client import HTTPException
from typing import Any, Final

from replicator import collector
from replicator.agent.agent import Agent
from replicator.agent.channel import split_address
from replicator.agent.logs import configure
from replicator.agent.security import read_key
from replicator.agent.settings import AgentSettings
from replicator.agent.status import fetch_status
from replicator.agent.tls import PeerTls
from replicator.arguments import path, port, seconds, whole_number
from replicator.backup_cli import add_backup_arguments, open_storage
from replicator.config import is_safe_job_name
from replicator.core.model import Timing
from replicator.credentials import StorageConfigError
from replicator.ending import heeded
from replicator.errors import ProtocolError, ReplicatorError
from replicator.platform.base import Platform
from replicator.platform.gke import GkePlatform
from replicator.platform.kubernetes import KubernetesPlatform
from replicator.platform.static import StaticPlatform
from replicator.storage import ObjectStorage

DEFAULT_PORT = 4242
STATUS_SECONDS = 5.0
HASH_THREADS = min(4, len(os.sched_getaffinity(0)))
_PLATFORMS = {
    "static": {"peers"},
    "kubernetes": {"namespace", "service"},
    "gke": set[str](),
}
"""The options that are for one platform only."""
_UNITS = {"": 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


def parse_size(text: str) -> int:
    """Bytes from a number with `Ki`, `Mi`, `Gi` or `Ti`, as in Kubernetes.

    Raises:
        argparse.ArgumentTypeError: anything else.
    """
    match = re.fullmatch(r"([1-9][0-9]{0,12})(Ki|Mi|Gi|Ti)?", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no size; expected e.g. 64Mi, 2Gi or bytes")
    return int(match[1]) * _UNITS[match[2] or ""]


DEADLINES: Final = {
    "join": "for all ranks to come",
    "restore": "to agree on a restore",
    "round": "for all receipts of a step",
    "transfer": "for one copy in a restore or a round",
    "backup": "for all nodes to store a backup",
}


def add_commands(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `agent` and `status`."""
    text = "run the replicator of one node"
    agent = subparsers.add_parser("agent", help=text, description=text)
    agent.add_argument(
        "--local-dir", required=True, type=path, metavar="DIR", help="the checkpoint volume"
    )
    add_backup_arguments(agent, required=False)
    agent.add_argument(
        "--gke-bucket-mount",
        type=path,
        metavar="DIR",
        help="in place of --backup: where GKE's driver mounts the job's folder of the bucket",
    )
    agent.add_argument(
        "--platform",
        choices=tuple(_PLATFORMS),
        default="static",
        help="how the coordinator is found (default: static)",
    )
    agent.add_argument("--peers", type=path, metavar="FILE", help="agents, for --platform static")
    agent.add_argument(
        "--namespace", metavar="NAME", help="of the Lease, for --platform kubernetes"
    )
    agent.add_argument(
        "--service",
        default="",
        metavar="HOST:PORT",
        help="headless Service of all agents (kubernetes)",
    )
    agent.add_argument("--job-uid", default="", metavar="UID", help="tells runs of one name apart")
    agent.add_argument("--key-file", type=path, metavar="FILE", help="secret shared by all agents")
    agent.add_argument("--tls-cert", type=path, metavar="FILE", help="this agent's certificate")
    agent.add_argument("--tls-key", type=path, metavar="FILE", help="the certificate's key")
    agent.add_argument("--tls-ca", type=path, metavar="FILE", help="who signs peers' certificates")
    agent.add_argument(
        "--tls-name",
        default="",
        metavar="NAME",
        help="DNS name in all agents' certificates",
    )
    agent.add_argument(
        "--bind",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="address of the interface to use (default: 127.0.0.1)",
    )
    agent.add_argument(
        "--port", type=port, default=DEFAULT_PORT, help=f"for peers (default: {DEFAULT_PORT})"
    )
    agent.add_argument("--advertise", default="", metavar="HOST:PORT", help="as peers reach it")
    agent.add_argument("--http", metavar="HOST:PORT", help="serve /metrics, /healthz, /status")
    agent.add_argument("--capacity", type=parse_size, metavar="SIZE", help="cap on bytes in DIR")
    agent.add_argument(
        "--bandwidth", type=parse_size, metavar="SIZE", help="cap on bytes a second to peers"
    )
    agent.add_argument(
        "--hash-threads",
        type=whole_number(1, 1024),
        default=HASH_THREADS,
        metavar="COUNT",
        help="threads that hash one shard (default: 4, or as many as there are cores)",
    )
    for name in DEADLINES:
        default = getattr(Timing(), name)
        agent.add_argument(
            f"--{name}-timeout",
            type=seconds,
            default=default,
            metavar="SECONDS",
            help=f"deadline {DEADLINES[name]} (default: {default:.0f})",
        )
    agent.add_argument("--log-format", choices=("json", "text"), default="json")
    agent.add_argument("--log-level", choices=("debug", "info", "warning", "error"), default="info")
    agent.set_defaults(run=_run_agent)
    text = "show what a running agent does"
    status = subparsers.add_parser("status", help=text, description=text)
    status.add_argument("--http", required=True, metavar="HOST:PORT", help="the agent's --http")
    status.add_argument("--format", choices=("text", "json"), default="text")
    status.set_defaults(run=_status)


def _settings(arguments: argparse.Namespace) -> AgentSettings:
    if arguments.bind in ("0.0.0.0", "::") and not arguments.advertise:
        raise StorageConfigError(
            f"--bind {arguments.bind} needs --advertise HOST:PORT, the address that peers can reach"
        )
    _check_names(arguments)
    _check_platform(arguments)
    storage = None
    if arguments.gke_bucket_mount is not None:
        storage = _mounted_bucket(arguments)
    elif arguments.backup is not None:
        storage = open_storage(arguments)
    elif arguments.backup_credentials is not None:
        raise StorageConfigError("--backup-credentials: expected with --backup URL, found alone")
    http_host, http_port = "127.0.0.1", None
    if arguments.http is not None:
        http_host, http_port = _address("--http", arguments.http)
    timing = replace(
        Timing(),
        **{name: getattr(arguments, f"{name}_timeout") for name in DEADLINES},
    )
    tls = _tls(arguments)
    if tls is None and arguments.key_file is None:
        raise StorageConfigError(
            "expected --key-file FILE, or --tls-cert, --tls-key and --tls-ca (or all of them): "
            "peers must prove who they are"
        )
    return AgentSettings(
        local_dir=arguments.local_dir,
        secret=b"" if arguments.key_file is None else read_key(arguments.key_file),
        tls=tls,
        platform=_platform(arguments),
        storage=storage,
        storage_is_of_job=arguments.gke_bucket_mount is not None,
        host=arguments.bind,
        port=arguments.port,
        advertise=arguments.advertise,
        http_host=http_host,
        http_port=http_port,
        capacity=arguments.capacity,
        bandwidth=arguments.bandwidth,
        threads=arguments.hash_threads,
        timing=timing,
        environ=dict(os.environ),
    )


def _check_names(arguments: argparse.Namespace) -> None:
    """Raise ProtocolError where an option names a host or a run that cannot be one."""
    bind, name = arguments.bind, arguments.tls_name
    _address("--bind", bind, f"[{bind}]:1" if ":" in bind else f"{bind}:1", "a host's address")
    if name:
        _address("--tls-name", name, f"{name}:1", "a DNS name")
    if arguments.advertise:
        _address("--advertise", arguments.advertise)
    uid = arguments.job_uid
    if uid and not is_safe_job_name(uid):
        raise ProtocolError(
            f"--job-uid: expected letters, digits, '.', '_' and '-', found {uid[:80]!a}"
        )


def _address(
    option: str, found: str, as_address: str = "", expected: str = "HOST:PORT"
) -> tuple[str, int]:
    """Host and port, or ProtocolError with the option's name and what it expects."""
    try:
        return split_address(as_address or found)
    except ProtocolError:
        raise ProtocolError(f"{option}: expected {expected}, found {found[:80]!a}") from None


def _check_platform(arguments: argparse.Namespace) -> None:
    """Raise StorageConfigError where an option stands that the platform would not look at."""
    given = {name for name in set[str]().union(*_PLATFORMS.values()) if getattr(arguments, name)}
    if stray := sorted(given - _PLATFORMS[arguments.platform]):
        raise StorageConfigError(f"--{stray[0]}: not for --platform {arguments.platform}")


def _mounted_bucket(arguments: argparse.Namespace) -> ObjectStorage:
    if arguments.platform != "gke" or arguments.backup is not None:
        raise StorageConfigError("--gke-bucket-mount: only with --platform gke, without --backup")
    mount = arguments.gke_bucket_mount.absolute()
    return ObjectStorage.open(mount.as_uri(), create=False)


def _tls(arguments: argparse.Namespace) -> PeerTls | None:
    files = (arguments.tls_cert, arguments.tls_key, arguments.tls_ca)
    if not any((*files, arguments.tls_name)):
        return None
    if None in files:
        raise StorageConfigError("--tls-cert, --tls-key and --tls-ca: expected all three")
    return PeerTls(*files, name=arguments.tls_name)


def _platform(arguments: argparse.Namespace) -> Platform:
    if arguments.platform == "static":
        if arguments.peers is None:
            raise StorageConfigError("--platform static needs --peers FILE")
        return StaticPlatform(arguments.peers, arguments.job_uid)
    if arguments.platform == "gke":
        return GkePlatform(arguments.job_uid, mounts=arguments.gke_bucket_mount is not None)
    return KubernetesPlatform.in_cluster(arguments.namespace, arguments.job_uid, arguments.service)


def _run_agent(arguments: argparse.Namespace) -> int:
    configure(arguments.log_format, arguments.log_level)
    try:
        settings = _settings(arguments)
    except (ReplicatorError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    try:
        asyncio.run(_serve(settings))
    except ReplicatorError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        where = "" if error.filename is None else f"{error.filename}: "
        print(f"error: {where}{error.strerror or error}", file=sys.stderr)
        return 1
    return 0


async def _serve(settings: AgentSettings) -> None:
    """Run until SIGTERM, SIGINT, or SIGHUP where nobody (as `nohup` does) has it ignored."""
    collector.calm()
    loop = asyncio.get_running_loop()
    task = asyncio.create_task(Agent(settings).run())
    for number in (signal.SIGTERM, signal.SIGINT, *heeded(signal.SIGHUP)):
        loop.add_signal_handler(number, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        if not task.cancelled():
            raise


def _status(arguments: argparse.Namespace) -> int:
    try:
        host, number = _address("--http", arguments.http)
    except ProtocolError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    try:
        document = _ask(host, number)
    except (OSError, ValueError, RecursionError, HTTPException, ReplicatorError) as error:
        cause = getattr(error, "reason", None) or error
        reason = getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
        shown = " ".join(str(reason).split())[:200]  # it may be anything's answer
        text = ascii(f"no agent answers at {arguments.http[:80]}: {shown}")[1:-1]
        print(f"error: {text}", file=sys.stderr)
        return 1
    print(json.dumps(document, indent=2) if arguments.format == "json" else _as_text(document))
    return 0


def _ask(host: str, number: int) -> dict[str, Any]:
    """The status document of the agent that serves it there.

    Raises:
        ProtocolError: something else than an agent answers.
        OSError, ValueError, RecursionError, HTTPException: nothing does, or no JSON comes.
    """
    document = fetch_status(host, number, STATUS_SECONDS)
    if not _is_status(document):
        raise ProtocolError("what answers there is no agent: its /status is another document")
    return dict(document)


def _is_status(document: Any) -> bool:
    """Whether this has what `_as_text` shows in a form of its own."""
    if not isinstance(document, dict) or not {"address", "phase", "copies"} <= document.keys():
        return False
    copies, coordinator = document["copies"], document.get("coordinator")
    return (
        isinstance(copies, list)
        and all(isinstance(copy, dict) and {"step", "run"} <= copy.keys() for copy in copies)
        and (coordinator is None or isinstance(coordinator, dict))
    )


def _as_text(document: dict[str, Any]) -> str:
    lines = []
    for key, value in document.items():
        if key == "copies":
            value = ", ".join(f"step {c['step']} (run {c['run']})" for c in value) or "none"
        if key == "coordinator":
            for inner, detail in (value or {}).items():
                lines.append(f"coordinator {inner.replace('_', ' ')}: {_shown(detail)}")
            continue
        lines.append(f"{key.replace('_', ' ')}: {_shown(value)}")
    return "\n".join(lines)


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
