"""What can be seen of a running cluster and done to it: the journal, rules for requests, states of logs, its time, its brokers.

    kafka.observe()                          # from now on everything is in kafka.journal; all below do this by themselves
    kafka.group("billing"), kafka.log("orders", 0), kafka.offsets_log("billing"), kafka.broker(2), kafka.topic("orders")
    kafka.fault("OffsetCommit", error="NOT_COORDINATOR", times=3), kafka.order.hold("JoinGroup")
    await kafka.time.advance("46s", expire=["consumer-2"])
    await kafka.broker_down(2); await kafka.broker_up(2); await kafka.restart(2)

Rules:
1. Nothing of this is loaded or paid for before somebody asks: until then requests take their shortest way.
2. What is in force ends with the cluster. The journal can be read after that.
3. A broker that is down keeps its port: connecting to it is refused.
4. What Kafka's controller does by itself afterwards it does here, too: leaders go back to the preferred replicas within
   leader.imbalance.check.interval.seconds, unless auto.leader.rebalance.enable is false.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Unpack

from broker_sim.api.time_control import TimeControl
from broker_sim.common.clock import Timer
from broker_sim.network.server import BrokerServer

if TYPE_CHECKING:
    from broker_sim.api.handles import BrokerHandle, GroupHandle, LogHandle, TopicHandle
    from broker_sim.faults.conditions import Conditions
    from broker_sim.faults.order import Order
    from broker_sim.faults.registry import Fault, Faults
    from broker_sim.faults.rules import RuleKeys
    from broker_sim.faults.selectors import ApiName
    from broker_sim.faults.tap import RequestTap
    from broker_sim.journal import Journal
    from broker_sim.metadata.cluster_state import ClusterState, Partition
    from broker_sim.runtime.group_coordinator import GroupCoordinator

__all__ = ["ClusterError", "Incidents"]


class ClusterError(Exception):
    """A cluster that can't start as asked, or is not running; the text is one line for people."""


class Incidents:
    """The part of `cluster.Cluster` that watches and breaks."""

    def __init__(
        self, rng: random.Random | None, seed: int | None, journal: bool | str | os.PathLike[str] = False
    ) -> None:
        if rng is not None and seed is not None:
            raise ClusterError("seed and rng are two ways to say the same: give one of them")
        self._given_rng, self.seed = rng, seed
        self._journal_where = journal
        self.servers: list[BrokerServer] = []
        self._state: ClusterState | None = None
        self._runtime: GroupCoordinator | None = None
        self._time: TimeControl | None = None
        self._journal: Journal | None = None
        self._tap: RequestTap | None = None
        self._faults: Faults | None = None
        self._order: Order | None = None
        self._conditions: Conditions | None = None
        self._balancing: Timer | None = None
        self._unnoticed: dict[int, Timer] = {}  # brokers that are gone, and the controller does not know yet

    @property
    def state(self) -> ClusterState:
        """Topics, partitions and settings. Raises ClusterError where the cluster is not running."""
        if self._state is None:
            raise ClusterError("the cluster is not running")
        return self._state

    @property
    def runtime(self) -> GroupCoordinator:
        """The group coordinators, made at the first call. Raises ClusterError where the cluster is not running."""
        if self._runtime is None:
            self._runtime = self._make_runtime()
            self._runtime.start()
        return self._runtime

    def _make_runtime(self) -> GroupCoordinator:
        from broker_sim.coordinator.outcome import TopicsChanged
        from broker_sim.metadata.cluster_state import OFFSETS_TOPIC
        from broker_sim.runtime.group_coordinator import GroupCoordinator

        state = self.state
        runtime = GroupCoordinator(state, rng=self._rng_for("members"))

        def moved(partition: Partition) -> None:
            if partition.topic.name == OFFSETS_TOPIC:
                runtime.reload(partition)

        state.on_topics_changed.append(lambda changed: runtime.topics_changed(TopicsChanged(changed)))
        state.on_leader_changed.append(moved)
        for broker in state.brokers.values():
            broker.runtime = runtime
        if self.time.mode == "manual":
            runtime.keep_members_alive(self._is_open)
        if self._tap is not None:
            self._watch(runtime)
        return runtime

    def _is_open(self, connection: Any) -> bool:
        return any(connection in server.connections for server in self.servers)

    def _rng_for(self, what: str) -> random.Random | None:
        """The generator for one kind of chance. With a seed each kind has its own: more of one leaves the others as they are."""
        return self._given_rng if self.seed is None else random.Random(f"{self.seed} {what}")

    # --- time -----------------------------------------------------------------------------------------------------------

    @property
    def time(self) -> TimeControl:
        """The brokers' time: see ``time_control``. Raises ClusterError where the cluster is not running."""
        if self._time is None or self._state is None:
            raise ClusterError("the cluster is not running")
        return self._time

    def _begin(self, state: ClusterState) -> None:
        """There is a state; it is not loaded yet."""
        self._state = state
        self._time = TimeControl(state.clock, lambda: self._runtime)
        state.on_election.append(self._balance_later)

    # --- the journal ----------------------------------------------------------------------------------------------------

    @property
    def observed(self) -> bool:
        """Whether there is a journal."""
        return self._journal is not None

    @property
    def journal(self) -> Journal:
        """What has happened since somebody first looked; it stays when the cluster stops."""
        return self._journal if self._journal is not None and self._state is None else self.observe()

    def observe(self) -> Journal:
        """Watch from now on, if nobody does yet, and return the journal. Raises ClusterError where the cluster is not running,
        UsageError for a directory that can't be used."""
        if self._tap is not None and self._journal is not None:
            return self._journal
        from broker_sim.faults.order import Order
        from broker_sim.faults.registry import Faults
        from broker_sim.faults.tap import RequestTap

        state = self.state
        journal = self._journal = self._new_journal()
        checks: Any = {"as_version": state.as_version, "brokers": lambda: list(state.brokers)}
        self._faults = Faults(state.clock, self._rng_for("faults") or random.Random(), journal, **checks)
        self._order = Order(journal, **checks)
        self._tap = RequestTap(state, state.clock, journal, self._faults, self._order)
        self._tap.host_of = self._host_of
        for server in self.servers:
            server.tap = self._tap
        self.time.journal = self.conditions.journal = journal
        state.on_election.append(self._elected)
        if self._runtime is not None:
            self._watch(self._runtime)
        return journal

    def _host_of(self, peer: str) -> str | None:
        """The name of a client's host by its address as Kafka shows it, where hosts have names."""
        return None

    def _new_journal(self) -> Journal:
        from broker_sim.journal import Journal

        where = self._journal_where
        return Journal(self.state.clock, None if isinstance(where, bool) else where)

    def _watch(self, runtime: GroupCoordinator) -> None:
        from broker_sim.runtime.journal_observer import GroupWatch

        assert self._journal is not None
        runtime.observe(GroupWatch(self._journal))

    def _elected(self, partition: Partition, reason: str) -> None:
        self._write(
            "leader", log=partition.name, leader=partition.leader, epoch=partition.leader_epoch, reason=reason or "set"
        )

    def _write(self, event: str, **fields: Any) -> None:
        if self._journal is not None and self._tap is not None:
            self._journal.write(event, **fields)

    # --- what is broken -------------------------------------------------------------------------------------------------

    @property
    def conditions(self) -> Conditions:
        """The states that logs are in."""
        if self._conditions is None:
            from broker_sim.faults.conditions import Conditions

            rng = self._rng_for("states") or random.Random()
            self._conditions = Conditions(self.state, lambda: self.runtime, rng, self._journal)
        return self._conditions

    @property
    def faults(self) -> Faults:
        """The rules for requests."""
        self.observe()
        assert self._faults is not None
        return self._faults

    def fault(self, api: ApiName | None = None, **keys: Unpack[RuleKeys]) -> Fault:
        """Install a rule for requests: ``kafka.fault("OffsetCommit", group="billing", error="NOT_COORDINATOR")``. It is in force at
        once, until its ``with`` block ends or ``remove()``. Raises UsageError."""
        return self.faults.add(api, **keys)

    @property
    def order(self) -> Order:
        """Requests held back, let go one by one, recorded and replayed."""
        self.observe()
        assert self._order is not None
        return self._order

    # --- handles --------------------------------------------------------------------------------------------------------

    def group(self, group_id: str) -> GroupHandle:
        """A consumer group, which need not be there yet."""
        from broker_sim.api.handles import GroupHandle

        return GroupHandle(self._cluster, group_id)

    def log(self, topic: str, partition: int = 0) -> LogHandle:
        """A partition's log. Raises UsageError where there is none."""
        from broker_sim.api.handles import LogHandle
        from broker_sim.api.handles.topics import find_partition

        return LogHandle(self._cluster, find_partition(self.state, topic, partition))

    def offsets_log(self, group_id: str) -> LogHandle:
        """The partition of ``__consumer_offsets`` behind a group; the topic is created where there is none."""
        from broker_sim.api.handles import LogHandle

        self.state.ensure_offsets_topic()
        partition = self.runtime.partition_of(group_id)
        assert partition is not None
        return LogHandle(self._cluster, partition)

    def topic(self, name: str, partitions: int | None = None) -> TopicHandle:
        """A topic; with ``partitions`` it is created where there is none (-1: the broker's default number). Raises UsageError."""
        from broker_sim.api.handles import TopicHandle

        if partitions is not None and name not in self.state.topics:
            self.state.create_topic(name, partitions)
        return TopicHandle(self._cluster, name)

    def broker(self, node_id: int) -> BrokerHandle:
        """A broker. Raises UsageError where there is none."""
        from broker_sim.api.handles import BrokerHandle

        return BrokerHandle(self._cluster, node_id)

    @property
    def _cluster(self) -> Any:
        return self

    # --- brokers --------------------------------------------------------------------------------------------------------

    async def broker_down(self, node_id: int, *, graceful: bool = False, noticed_after: object = 0) -> None:
        """Take a broker down: its connections are reset, then other in-sync replicas lead what it led, coordinators with them.

        ``graceful``: they lead first, and what is answered is written. ``noticed_after``: so long nobody knows, and metadata names it
        still, as Kafka's does until broker.session.timeout.ms (9 s) has passed. Nothing happens where it is down. Raises UsageError.
        """
        from broker_sim.common.text import duration_ms
        from broker_sim.metadata import leader_election

        state, server = self.state, self._server(node_id)
        unnoticed_ms = duration_ms(noticed_after, "noticed_after")
        if not server.listening:
            return
        self._write("broker", broker=node_id, action="down")
        if graceful:
            leader_election.step_down(state, node_id)
        await server.pause(graceful=graceful)
        state.brokers[node_id].fetch_sessions = None
        if unnoticed_ms > 0 and not graceful:
            clock = state.clock
            self._unnoticed[node_id] = clock.call_at_ms(clock.now_ms() + unnoticed_ms, self._notice, node_id)
        else:
            leader_election.fence(state, node_id)

    def _notice(self, node_id: int) -> None:
        """The controller learns that a broker is gone, if it did not yet."""
        from broker_sim.metadata import leader_election

        timer = self._unnoticed.pop(node_id, None)
        if timer is not None:
            timer.cancel()
            leader_election.fence(self.state, node_id)

    async def broker_up(self, node_id: int, *, elect: str | None = None) -> None:
        """Bring a broker up at the port it had: its replicas are in sync again, and it leads what had no leader. ``elect="preferred"``:
        every partition is led by its first replica again. Nothing happens where it is up. Raises UsageError, OSError."""
        from broker_sim.common.text import unknown
        from broker_sim.metadata import leader_election

        if elect not in (None, "preferred"):
            raise unknown("election", elect, ["preferred"])
        state, server = self.state, self._server(node_id)
        if not server.listening:
            self._notice(node_id)
            await server.resume()
            leader_election.revive(state, node_id)
            self._write("broker", broker=node_id, action="up")
        if elect is not None:
            leader_election.elect_preferred(state)

    async def restart(self, node_id: int, *, graceful: bool = True) -> None:
        """Take a broker down and up: what it alone led has no leader meanwhile, and its coordinators start from their logs. Raises
        UsageError."""
        await self.broker_down(node_id, graceful=graceful)
        await self.broker_up(node_id)
        self._write("broker", broker=node_id, action="restarted")

    async def restart_all(self, *, graceful: bool = False) -> None:
        """All brokers go at once and come again: every partition has the leader that it had, in a new epoch, and every coordinator
        starts from its log. Brokers that are down come up too."""
        from broker_sim.metadata import leader_election

        state = self.state
        led = {partition: partition.leader for partition in state.partitions()}
        in_sync = {partition: partition.isr for partition in state.partitions()}
        for node_id, broker in state.brokers.items():
            if self._server(node_id).listening:
                self._write("broker", broker=node_id, action="down")
                await self._server(node_id).pause(graceful=graceful)
                broker.fetch_sessions = None
            self._notice(node_id)
        for broker in state.brokers.values():
            broker.alive = False
        with state.together():
            for partition in led:
                state.set_leader(partition, -1, "all brokers are down")
        for node_id in state.brokers:
            await self._server(node_id).resume()
            self._write("broker", broker=node_id, action="up")
        for broker in state.brokers.values():
            broker.alive = True
        with state.together():
            state.has_changed()
            for partition, leader in led.items():
                partition.isr = in_sync[partition]
                if leader >= 0 and not partition.deleted:
                    state.set_leader(partition, leader, "all brokers are up")
        for node_id in state.brokers:
            leader_election.revive(state, node_id)

    def _server(self, node_id: int) -> BrokerServer:
        from broker_sim.metadata import leader_election

        leader_election.check_broker(self.state, node_id)
        return next(server for server in self.servers if server.broker.node_id == node_id)

    def _balance_later(self, partition: Partition, reason: str) -> None:
        """A new leader: where it is not the preferred one the controller will look at it."""
        if self._balancing is None and partition.leader != partition.replicas[0]:
            clock = self.state.clock
            pause_ms = self.state.config.int("leader.imbalance.check.interval.seconds") * 1000
            self._balancing = clock.call_at_ms(clock.now_ms() + pause_ms, self._balance)

    def _balance(self) -> None:
        self._balancing = None
        if self.state.config.bool("auto.leader.rebalance.enable"):
            self.elect_preferred()

    def move_leader(self, partition: Partition, node_id: int) -> None:
        """Let another broker lead a partition; a coordinator moves with its partition. Raises UsageError: it is down, it leads
        already."""
        from broker_sim.metadata import leader_election

        leader_election.move(self.state, partition, node_id)

    def elect(self, partition: Partition, node_id: int | None = None) -> None:
        """A new leader epoch: of the leader there is, or of ``node_id``, an in-sync replica; clients that name the old epoch hear
        FENCED_LEADER_EPOCH. Raises UsageError."""
        from broker_sim.metadata import leader_election

        leader_election.elect(self.state, partition, node_id)

    def elect_preferred(self) -> int:
        """Every partition is led by its first replica, where that is alive and in sync; returns how many changed."""
        from broker_sim.metadata import leader_election

        return leader_election.elect_preferred(self.state)

    # --- the end --------------------------------------------------------------------------------------------------------

    def _end_incidents(self, close: Callable[[], object]) -> None:
        """What is in force ends; ``close()`` in between ends the runtime and the logs; the journal is closed last."""
        for timer in (self._balancing, *self._unnoticed.values()):
            if timer is not None:
                timer.cancel()
        self._balancing = None
        self._unnoticed.clear()
        conditions, self._conditions = self._conditions, None
        self._tap = self._faults = self._order = None
        try:
            if conditions is not None:
                conditions.heal_all()
        finally:
            try:
                close()
            finally:
                if self._journal is not None:
                    self._journal.close()
