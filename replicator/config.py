"""`replicator.yaml`: what a training job asks of the replicator on its node.

The file comes from whoever can write to the checkpoint volume, so it is read as hostile input:
bounded in size and depth, without anchors, aliases or tags, and every problem is reported at once
with its position.
"""

from __future__ import annotations

import difflib
import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from replicator.config_fields import FieldReader, expandable_environment
from replicator.errors import ConfigError, Problem, ProtocolError
from replicator.yaml_fields import MAX_BYTES, read_fields, show

MAX_CONFIG_BYTES: Final = MAX_BYTES
MAX_NODES: Final = 100_000
MAX_WORKERS_PER_NODE: Final = 1024
MAX_JOB_NAME_LENGTH: Final = 180
"""Characters; leaves room for `-s<step>-n<rank>-w<worker>.restore.tmp` within 255 bytes."""
MAX_BACKUP_INTERVAL_MINUTES: Final = 366 * 24 * 60
DEFAULT_MASTER_PORT: Final = 4242
DEFAULT_WORKERS_PER_NODE: Final = 1

_JOB_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_NUMBER: Final = re.compile(r"(?:0|[1-9][0-9]{0,8})(?:\.[0-9]{1,6})?")


class Framework(StrEnum):
    """How a checkpoint is laid out in the local directory; values as in `replicator.yaml`."""

    PYTORCH = "pytorch"
    """One file per worker, named `<job>-s<step>-n<node>-w<worker>.save` by the application."""
    PYTORCH_DISTRIBUTED = "pytorch.distributed"
    """One directory per node, renamed to the bare step number when complete."""
    ORBAX = "orbax"
    """As above, holding an OCDBT store."""


_DIRECTORIES: Final = (Framework.PYTORCH_DISTRIBUTED, Framework.ORBAX)


@dataclass(frozen=True, slots=True)
class ReplicatorConfig:
    """One node's view of a training job, as read from a valid `replicator.yaml`."""

    job_name: str
    framework: Framework
    node_rank: int
    nodes: int
    peer_ranks: tuple[int, ...] | None
    """Ranks named one by one; None where the file gave only a number of peers."""
    peers_per_node: int
    """Copies asked for beside the node's own; the length of `peer_ranks` where those are given."""
    backup_interval_minutes: float | None
    """Exactly one of the two intervals is set; 0 minutes: a backup at every replicated step."""
    backup_interval_steps: int | None
    workers_per_node: int = DEFAULT_WORKERS_PER_NODE
    master_port: int = DEFAULT_MASTER_PORT
    assume_data_parallelism: int | None = None
    """Groups of nodes that the job promises to hold the same data; None = no promise."""
    job_uid: str | None = None
    """Identity of one run of the job (our extension; the public reference ignores the key)."""
    ignored_keys: tuple[str, ...] = ()
    """Keys nobody here knows; kept so that the agent can report them in `replicator.errors`."""

    def replication_peers(self) -> tuple[int, ...]:
        """Ranks that hold copies of this node's shard, nearest first.

        Fewer than `peers_per_node` where a small job's neighbours coincide (see `default_peers`).
        """
        if self.peer_ranks is not None:
            return self.peer_ranks
        # Asked for more than there are, the public reference names the node itself as a peer.
        count = min(self.peers_per_node, self.nodes)
        return default_peers(self.node_rank, self.nodes, count, self.assume_data_parallelism)

    def of_run(self, platform_uid: str) -> ReplicatorConfig:
        """The same with the job UID that counts: the platform's, where it knows one.

        Raises:
            ProtocolError: the platform's cannot stand in a manifest.
        """
        if not platform_uid:
            return self
        if not is_safe_job_name(platform_uid):
            raise ProtocolError(
                f"the job UID {show(platform_uid)} that this agent was given cannot be used; "
                "expected letters, digits, '.', '_' and '-'"
            )
        return replace(self, job_uid=platform_uid)

    def to_yaml(self) -> str:
        """The file's text; `parse_config` of it gives an equal value (but for `ignored_keys`)."""
        lines = [
            f"job-name: {json.dumps(self.job_name)}",
            f"framework: {self.framework.value}",
            f"node-rank: {self.node_rank}",
            f"nodes: {self.nodes}",
            f"workers-per-node: {self.workers_per_node}",
            f"master-port: {self.master_port}",
        ]
        ranks = () if (self.peer_ranks, self.peers_per_node) == (None, 0) else self.peer_ranks
        if ranks is not None:
            # Also for no peers at all: the public reference divides by a peers-per-node of 0.
            lines.append(f"peer-ranks: [{', '.join(map(str, ranks))}]")
        else:
            lines.append(f"peers-per-node: {self.peers_per_node}")
        optional: tuple[tuple[str, object], ...] = (
            ("backup-interval-minutes", _plain_number(self.backup_interval_minutes)),
            ("backup-interval-steps", self.backup_interval_steps),
            ("assume-data-parallelism", self.assume_data_parallelism),
            ("job-uid", None if self.job_uid is None else json.dumps(self.job_uid)),
        )
        lines.extend(f"{key}: {value}" for key, value in optional if value is not None)
        return "\n".join(lines) + "\n"


def _plain_number(value: float | None) -> str | None:
    """Decimal notation, without the exponent that `str` would use for small values."""
    return None if value is None else f"{value:.6f}".rstrip("0").rstrip(".")


def default_peers(
    rank: int, nodes: int, peers_per_node: int, assume_data_parallelism: int | None
) -> tuple[int, ...]:
    """The ranks that hold copies of `rank`'s shard where the job named none itself.

    Same layout as the public reference (coordinator.py, commit 3a24fd1), so that a mixed fleet
    agrees: with data parallelism the same column of the rows below and above in turn (-1, +1, -2,
    ...); else the neighbour `rank ^ 1`, then ranks evenly spread over the ring. Never the node
    itself and no rank twice, so the result may be shorter than `peers_per_node` (at most `nodes -
    1`).
    """
    wanted = min(peers_per_node, nodes - 1)
    if wanted <= 0:
        return ()
    if assume_data_parallelism:
        row = nodes // assume_data_parallelism
        offsets = [(i // 2 + 1) * (1 if i % 2 else -1) * row for i in range(peers_per_node)]
        candidates = [(rank + offset) % nodes for offset in offsets]
    else:
        distance = nodes // peers_per_node
        candidates = [(rank ^ 1) % nodes]
        candidates += [(rank + distance * i) % nodes for i in range(1, peers_per_node)]
    return tuple(dict.fromkeys(peer for peer in candidates if peer != rank))[:wanted]


def is_safe_job_name(name: str) -> bool:
    """Whether a job name can stand in a file name, a path segment and a file-name pattern."""
    return len(name) <= MAX_JOB_NAME_LENGTH and _JOB_NAME.fullmatch(name) is not None


def parse_config(
    content: bytes,
    *,
    environ: Mapping[str, str] | None = None,
    source: str = "replicator.yaml",
) -> ReplicatorConfig:
    """Read a `replicator.yaml`.

    Args:
        content: the file's bytes; read at most `MAX_CONFIG_BYTES + 1`, more is refused anyway.
        environ: variables that `EXPANDED_KEYS` may refer to; names outside
            `EXPANDABLE_VARIABLES` are not seen even when present. None expands nothing, so that
            any reference is an error.
        source: the name to show in errors.

    Raises:
        ConfigError: with every problem found.
    """
    problems: list[Problem] = []
    fields = read_fields(content, problems)
    if not fields and problems:
        raise ConfigError(source, tuple(problems))
    reader = FieldReader(fields, expandable_environment(environ or {}), problems)
    config = _build(reader)
    if problems or config is None:
        problems.sort(key=lambda p: (p.line, p.column))
        raise ConfigError(source, tuple(problems))
    return config


def _build(reader: FieldReader) -> ReplicatorConfig | None:
    job_name = _job_name(reader)
    framework = _framework(reader)
    nodes = reader.required_integer("nodes", 1, MAX_NODES)
    node_rank = reader.required_integer("node-rank", 0, MAX_NODES - 1)
    workers = reader.integer("workers-per-node", 1, MAX_WORKERS_PER_NODE)
    if workers is not None and workers > 1 and framework in _DIRECTORIES:
        # The public reference accepts it, and then waits for saves that no client can make.
        reader.problem(
            "workers-per-node",
            f"{workers} cannot be with framework {framework}, whose steps are one directory a "
            "node; expected 1 (also where several ranks of a node share the directory)",
        )
    port = reader.integer("master-port", 1, 65535)
    dp = reader.integer("assume-data-parallelism", 1, MAX_NODES)
    minutes, steps = _intervals(reader)
    peer_ranks, peers_per_node = _peers(reader, node_rank, nodes)
    job_uid = reader.text("job-uid")
    if job_uid is not None and not is_safe_job_name(job_uid):
        reader.problem("job-uid", "expected letters, digits, '.', '_' and '-'")
    if nodes is not None:
        _check_against_nodes(reader, nodes, node_rank, dp)
    ignored = _unknown_keys(reader)
    if (
        job_name is None
        or framework is None
        or nodes is None
        or node_rank is None
        or peers_per_node is None
    ):
        return None
    return ReplicatorConfig(
        job_name=job_name,
        framework=framework,
        node_rank=node_rank,
        nodes=nodes,
        peer_ranks=peer_ranks,
        peers_per_node=peers_per_node,
        backup_interval_minutes=minutes,
        backup_interval_steps=steps,
        workers_per_node=DEFAULT_WORKERS_PER_NODE if workers is None else workers,
        master_port=DEFAULT_MASTER_PORT if port is None else port,
        assume_data_parallelism=dp,
        job_uid=job_uid,
        ignored_keys=ignored,
    )


def _job_name(reader: FieldReader) -> str | None:
    name = reader.required_text("job-name", "the job's name")
    if name is None or is_safe_job_name(name):
        return name
    reader.problem(
        "job-name",
        f"{show(name)} cannot be used in file names; expected 1 to {MAX_JOB_NAME_LENGTH} letters, "
        "digits, '.', '_' and '-', beginning and ending with a letter or digit",
    )
    return None


def _framework(reader: FieldReader) -> Framework | None:
    known = ", ".join(framework.value for framework in Framework)
    name = reader.required_text("framework", f"one of {known}")
    if name is None:
        return None
    try:
        return Framework(name)
    except ValueError:
        reader.problem("framework", f"{show(name)} is not known; expected one of {known}")
        return None


def _intervals(reader: FieldReader) -> tuple[float | None, int | None]:
    steps = reader.integer("backup-interval-steps", 1, 2**31)
    text = reader.text("backup-interval-minutes")
    minutes = None
    if text is not None:
        if _NUMBER.fullmatch(text) and float(text) <= MAX_BACKUP_INTERVAL_MINUTES:
            minutes = float(text)
        else:
            reader.problem(
                "backup-interval-minutes",
                f"expected a number from 0 to {MAX_BACKUP_INTERVAL_MINUTES}, found {show(text)}",
            )
    given = [
        key
        for key in ("backup-interval-minutes", "backup-interval-steps")
        if key in reader.fields and not reader.fields[key].is_null
    ]
    if len(given) == 2:
        reader.problem(given[1], "both backup intervals are set; keep one of them")
    elif not given:
        reader.problem("backup-interval-minutes", "missing; expected this or backup-interval-steps")
    return minutes, steps


def _peers(
    reader: FieldReader, node_rank: int | None, nodes: int | None
) -> tuple[tuple[int, ...] | None, int | None]:
    """The peers, named or counted; where a file has both, the ranks win, as in the reference."""
    ranks = reader.integers("peer-ranks", 0, (nodes or MAX_NODES) - 1)
    count = reader.integer("peers-per-node", 0, MAX_NODES)
    if ranks is not None:
        if node_rank in ranks:
            reader.problem(
                "peer-ranks", f"holds the node's own rank {node_rank}; expected other nodes"
            )
        repeated = sorted(rank for rank, times in Counter(ranks).items() if times > 1)
        if repeated:
            reader.problem(
                "peer-ranks", f"more than once: rank {', '.join(map(str, repeated[:8]))}"
            )
        return ranks, len(ranks)
    if count is None and not {"peer-ranks", "peers-per-node"} & reader.fields.keys():
        reader.problem("peers-per-node", "missing; expected this or peer-ranks")
    return (() if count == 0 else None), count


def _check_against_nodes(
    reader: FieldReader, nodes: int, node_rank: int | None, dp: int | None
) -> None:
    if node_rank is not None and node_rank >= nodes:
        reader.problem(
            "node-rank",
            f"{node_rank} is out of range; with nodes: {nodes} expected 0 to {nodes - 1}",
        )
    if dp is not None and nodes % dp:
        reader.problem(
            "assume-data-parallelism", f"{dp} does not divide nodes: {nodes} into equal groups"
        )


def _unknown_keys(reader: FieldReader) -> tuple[str, ...]:
    """Keys nobody knows: an error where one is nearly a known key, else left for the agent to
    report.

    A newer client may write keys that do not exist yet, and must still be able to train; a
    misspelt key would silently change how well the data is protected.
    """
    unknown = [key for key in reader.fields if key not in reader.taken]
    for key in unknown:
        if nearest := difflib.get_close_matches(key[:80], reader.taken, n=1, cutoff=0.8):
            reader.key_problem(key, f"unknown key {show(key)}; did you mean {nearest[0]}?")
    return tuple(unknown)
