"""``stowplan size``: where a RAM disk's size comes from, or what another one would need."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from pathlib import Path

from generator.checks.consistency import gib
from generator.cli.terminal import print_findings
from generator.compile import Options, select
from generator.fleet import Fleet, RamDisk
from generator.inventory import InventoryError, discover
from generator.jobs import largest_pod_memory
from schemas.catalog import Machine, machines
from schemas.quantity import GIB, QuantityError, parse_quantity
from schemas.sizing import (
    GPU_FACTOR_PER_COPY,
    factor,
    local_checkpoint,
    peers_that_fit,
    ram_disk_gib,
)


def _bytes(text: str) -> Decimal:
    try:
        value = parse_quantity(text)
    except QuantityError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if text[-1:].isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} has no unit; write one such as {text}Gi")
    return value


def _number(text: str) -> Decimal:
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise argparse.ArgumentTypeError(f"{text!r} is no number") from None
    if not value.is_finite() or value <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no number above zero")
    return value


def _count(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number")
    return int(text)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("cluster", nargs="?", help="a cluster of the inventory; all without it")
    parser.add_argument("-C", "--directory", default=".", metavar="DIR", help="default: here")
    what_if = parser.add_argument_group("what if (needs no inventory)")
    what_if.add_argument("--machine", metavar="TYPE", help="machine type, such as a3-megagpu-8g")
    what_if.add_argument(
        "--checkpoint", type=_bytes, metavar="SIZE", help="what one node saves, such as 64Gi"
    )
    what_if.add_argument(
        "--parameters", type=_number, metavar="N", help="or: parameters of the model, such as 70e9"
    )
    what_if.add_argument(
        "--bytes-per-parameter", type=_number, default=Decimal(12), metavar="N",
        help="bytes saved for each (default: 12, weights and Adam state)",
    )  # fmt: skip
    what_if.add_argument(
        "--nodes-per-replica", type=_count, metavar="N", help="nodes that a replica is spread over"
    )
    what_if.add_argument("--peers", type=_count, default=1, help="copies on peers (default: 1)")
    what_if.add_argument("--pod-memory", type=_bytes, metavar="SIZE", help="what a pod asks for")


def run(arguments: argparse.Namespace) -> int:
    """Explain sizes."""
    if arguments.machine or arguments.checkpoint or arguments.parameters:
        return _what_if(arguments)
    return _inventory(arguments)


def _usage(message: str) -> int:
    print(f"error: {message}", file=sys.stderr)
    return 2


def _what_if(arguments: argparse.Namespace) -> int:
    if arguments.machine is None:
        return _usage("--machine is missing; it decides the factor and the room")
    machine = machines().get(arguments.machine)
    if machine is None or machine.accelerator is None:
        known = ", ".join(sorted(machines()))
        return _usage(f"{arguments.machine!r} is not in the catalog; it has {known}")
    checkpoint = arguments.checkpoint
    if checkpoint is None:
        if arguments.parameters is None or not arguments.nodes_per_replica:
            return _usage("give --checkpoint, or --parameters with --nodes-per-replica")
        checkpoint = local_checkpoint(
            arguments.parameters, arguments.bytes_per_parameter, arguments.nodes_per_replica
        )
    times = factor(machine.accelerator.type, arguments.peers)
    size = ram_disk_gib(checkpoint, times.value)
    explanation = _explanation(
        machine, checkpoint, arguments.peers, size * GIB, arguments.pod_memory
    )
    print(*explanation, sep="\n")
    taken = size * GIB + (arguments.pod_memory or 0)
    return 0 if taken <= machine.allocatable_memory else 1


def _explanation(
    machine: Machine,
    checkpoint: Decimal | None,
    peers: int,
    disk: Decimal,
    pod: Decimal | None,
    agent: Decimal = Decimal(0),
) -> Iterator[str]:
    """The sum, a line each."""
    assert machine.accelerator is not None
    times = factor(machine.accelerator.type, peers)
    kind = machine.accelerator.type
    copies = f", {peers} peer{'s' * (peers != 1)}" if kind == "gpu" else ""
    origin = "derived: 3.3 for each copy" if times.derived else "GKE documentation"
    if checkpoint is not None:
        least = ram_disk_gib(checkpoint, times.value)
        yield f"  local checkpoint    {gib(checkpoint)} a node"
        yield f"  factor              {times.value} ({kind.upper()}{copies}; {origin})"
        yield f"  RAM disk, least     {least}Gi"
        if disk != least * GIB:
            yield f"  RAM disk, given     {gib(disk)} ({disk / checkpoint:.2f} times)"
    else:
        yield f"  RAM disk, given     {gib(disk)}; the checkpoint's size is not said"
    room = machine.allocatable_memory
    yield f"  node                {gib(room)} allocatable of {gib(machine.memory)} ({machine.name})"
    if agent:
        yield f"  agent               {gib(agent)} (self-hosted replicator)"
    room -= agent
    yield f"  left for pods       {gib(room - disk)}"
    if pod is not None:
        rest = room - disk - pod
        verdict = f"{gib(rest)} to spare" if rest >= 0 else f"{gib(-rest)} TOO MUCH"
        yield f"  pods ask for        {gib(pod)}: {verdict}"
    if kind == "gpu" and checkpoint is not None:
        fit = peers_that_fit(checkpoint, room - (pod or 0))
        if fit < 0:
            yield f"  peers that fit      none: not even one copy ({GPU_FACTOR_PER_COPY} times)"
        else:
            yield f"  peers that fit      {fit}"


def _inventory(arguments: argparse.Namespace) -> int:
    from generator.compile import fleets

    try:
        tree = discover(Path(arguments.directory).absolute())
        wanted = (arguments.cluster,) if arguments.cluster else ()
        names = select(tree, Options(tree.root, targets=wanted))
    except InventoryError as error:
        print_findings(error.findings)
        return 2
    failed = False
    for name, fleet, findings in fleets(tree, names):
        print_findings(findings)
        if fleet is None:
            failed = True
            continue
        for disk in fleet.ram_disks.values():
            print(f"{name}: checkpointing.{disk.name}", *_lines(fleet, disk), sep="\n")
    return 1 if failed else 0


def _lines(fleet: Fleet, disk: RamDisk) -> Iterator[str]:
    model = disk.spec.model
    if model is not None:
        yield (
            f"  model               {_short(model.parameters)} parameters x "
            f"{_short(model.bytes_per_parameter)} bytes / {model.nodes_per_replica} nodes"
        )
    yield from _explanation(
        disk.pool.machine,
        disk.checkpoint,
        disk.spec.peers,
        disk.bytes,
        largest_pod_memory(fleet, disk),
        disk.node_bytes - disk.bytes,
    )


def _short(number: Decimal) -> str:
    """7000000000 as 7e9, 12 as 12."""
    text = number.normalize().to_eng_string().replace("E+", "e")
    return f"{int(number)}" if "e" in text and number < 10_000 else text
