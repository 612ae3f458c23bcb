"""What appears in the volume: finished saves, and a new `replicator.yaml` that starts a job."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from typing import TYPE_CHECKING

from replicator.agent.adoption import adopt, unrecorded
from replicator.agent.markers import job_of
from replicator.agent.tier import Tier
from replicator.config import Framework
from replicator.digest import can_read_ocdbt
from replicator.errors import ConfigError, ReplicatorError
from replicator.platform.base import PlatformError
from replicator.protocol import CONFIG_FILE, ReplicatorConfig
from replicator.storage import BackupTierError

if TYPE_CHECKING:
    from replicator.agent.agent import Agent

log = logging.getLogger("replicator.agent")


class Intake:
    """Looks at the volume of one agent, and takes what is there."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._wanted = False
        self._adopting = False
        self._put_aside: list[str] = []  # what the job is to be told of once it has begun

    def something_appeared(self) -> None:
        """Scan soon; however often this is called meanwhile, once."""
        if not self._wanted:
            self._wanted = True
            asyncio.get_running_loop().call_soon(self._scan_once)

    def _scan_once(self) -> None:
        self._wanted = False
        self.scan()

    def scan(self) -> None:
        """Take finished saves, then a new configuration."""
        agent = self._agent
        node, config = agent.node, agent.config
        if node is None:
            return
        try:
            if config is not None and node.state.linked is not None:
                epoch = node.state.linked.epoch
                for step in agent.saves.due(config, epoch):
                    agent.apply(node.saved(step, agent.now()))
                last = node.state.last_step
                for step, workers in agent.saves.incomplete(config, epoch, last).items():
                    agent.apply(node.never_finished(step, workers))
            if node.saves.sealing is None and not self._adopting and agent.watcher.config_ready():
                self._accept()
        except OSError as error:
            agent.die(error)

    def _accept(self) -> None:
        agent = self._agent
        node = agent.node
        assert node is not None
        try:
            platform_uid = agent.settings.platform.job_uid
        except PlatformError as error:
            log.error("the job cannot start yet", extra={"reason": str(error)})
            return  # the next scan tries again
        try:
            config = agent.markers.read_config(dict(agent.settings.environ)).of_run(platform_uid)
        except (ConfigError, ReplicatorError) as error:
            agent.reports.failed(str(error))
            self._consume()
            return
        if unrecorded(agent.store, config):
            self._adopting = True
            agent.spawn(self._adopt(config))
            return
        agent.markers.clean_up()
        agent.saves.forget()
        agent.config = config
        agent.tier = self.tier_for(config)
        node.holdings.replace(agent.store.load(config))
        agent.accepted_at = time.time()
        agent.restoring_since = agent.now()
        job = job_of(config)
        agent.metrics.job_began(len(job.peers))
        if not agent.apply(node.accept(job, secrets.token_hex(8), agent.now())):
            return  # the job may not be on disk: the agent's next life takes the file
        self._consume()
        for text in _remarks(config, job.peers):
            agent.reports.error(f"{CONFIG_FILE}: {text}")
        for text in self._put_aside:
            agent.reports.error(text)
        self._put_aside.clear()
        agent.coordination.supervise()
        agent.spawn(self._begin(agent.tier))
        log.info("job accepted", extra={"job": job.name, "rank": job.rank, "world": job.world})

    async def _begin(self, tier: Tier) -> None:
        """Have the platform ready before the first backup needs it."""
        try:
            await tier.begin()
        except BackupTierError as error:
            log.warning("the platform is not ready", extra={"reason": str(error)})

    def _consume(self) -> None:
        agent = self._agent
        agent.watcher.forget(CONFIG_FILE)
        agent.markers.consume_config()

    async def _adopt(self, config: ReplicatorConfig) -> None:
        """Take over what the public reference left, then look at the configuration again."""
        agent = self._agent
        try:
            self._put_aside += await asyncio.to_thread(adopt, agent.store, config)
        finally:
            self._adopting = False
        self.something_appeared()

    def tier_for(self, config: ReplicatorConfig) -> Tier:
        """The backups of a job."""
        settings = self._agent.settings
        own_folder = settings.storage_is_of_job
        return Tier(
            settings.storage, config, settings.platform, self._agent.metrics, own_folder=own_folder
        )


def _remarks(config: ReplicatorConfig, peers: tuple[int, ...]) -> list[str]:
    """What the job should know of a configuration that was accepted."""
    remarks = []
    if config.ignored_keys:
        remarks.append(f"unknown keys: {', '.join(config.ignored_keys)}")
    if config.peer_ranks is None and len(peers) < config.peers_per_node and peers:
        remarks.append(
            f"peers-per-node asks for {config.peers_per_node} copies, but of {config.nodes} nodes "
            f"only {len(peers)} keep one for node {config.node_rank}: {list(peers)}; peer-ranks "
            "names others"
        )
    shared = config.framework is Framework.ORBAX and config.assume_data_parallelism is not None
    if shared and not can_read_ocdbt():
        remarks.append(
            "tensorstore is not installed, without which equal Orbax checkpoints cannot be told "
            "from others: the replicas of the data keep copies of one another and need twice the "
            "RAM disk; install the agent with the extra 'agent-orbax'"
        )
    return remarks
