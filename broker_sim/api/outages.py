"""Brokers that go down and come up again, and leaders that move: what happens to them, and what Kafka's controller does then.

Rules:
1. A broker that is down keeps its port: connecting to it is refused.
2. What Kafka's controller does by itself afterwards it does here, too: leaders go back to the preferred replicas within
   leader.imbalance.check.interval.seconds, unless auto.leader.rebalance.enable is false.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from broker_sim.common.clock import Timer
from broker_sim.common.text import duration_ms, unknown
from broker_sim.metadata import leader_election
from broker_sim.metadata.cluster_state import ClusterState, Partition
from broker_sim.network.server import BrokerServer

__all__ = ["Outages"]


class Outages:
    """Outages of one run of a cluster. ``servers``: of all its brokers, as far as they are made; ``write`` notes an event in the
    journal, if there is one."""

    def __init__(self, state: ClusterState, servers: Sequence[BrokerServer], write: Callable[..., object]) -> None:
        self._state, self._servers, self._write = state, servers, write
        self._balancing: Timer | None = None
        self._unnoticed: dict[int, Timer] = {}  # brokers that stopped, which the controller has not noticed yet
        state.on_election.append(self._balance_later)

    async def broker_down(self, node_id: int, *, graceful: bool = False, noticed_after: object = 0) -> None:
        """As `Cluster.broker_down`."""
        state, server = self._state, self._server(node_id)
        unnoticed_ms = duration_ms(noticed_after, "noticed_after")
        if not server.listening:
            return
        self._write("broker", broker=node_id, action="down")
        if graceful:
            leader_election.step_down(state, node_id)
        await self._stop(server, graceful=graceful)
        if unnoticed_ms > 0 and not graceful:
            clock = state.clock
            self._unnoticed[node_id] = clock.call_at_ms(clock.now_ms() + unnoticed_ms, self._notice, node_id)
        else:
            leader_election.fence(state, node_id)

    async def _stop(self, server: BrokerServer, *, graceful: bool) -> None:
        """End its process: its connections, and its coordinators, whichever broker the controller takes for the leader."""
        broker = server.broker
        broker.running = False
        await server.pause(graceful=graceful)
        broker.fetch_sessions = None
        for callback in broker.on_stopped:
            callback(broker)

    async def _start(self, server: BrokerServer) -> None:
        await server.resume()
        server.broker.running = True

    def _notice(self, node_id: int) -> None:
        """The controller notices that a broker stopped, unless it has already."""
        timer = self._unnoticed.pop(node_id, None)
        if timer is not None:
            timer.cancel()
            leader_election.fence(self._state, node_id)

    async def broker_up(self, node_id: int, *, elect: str | None = None) -> None:
        """As `Cluster.broker_up`."""
        if elect not in (None, "preferred"):
            raise unknown("election", elect, ["preferred"])
        state, server = self._state, self._server(node_id)
        if not server.listening:
            self._notice(node_id)
            await self._start(server)
            leader_election.revive(state, node_id)
            self._write("broker", broker=node_id, action="up")
        if elect is not None:
            leader_election.elect_preferred(state)

    async def restart(self, node_id: int, *, graceful: bool = True) -> None:
        """As `Cluster.restart`."""
        await self.broker_down(node_id, graceful=graceful)
        await self.broker_up(node_id)
        self._write("broker", broker=node_id, action="restarted")

    async def restart_all(self, *, graceful: bool = False) -> None:
        """As `Cluster.restart_all`."""
        state = self._state
        led = {partition: partition.leader for partition in state.partitions()}
        in_sync = {partition: partition.isr for partition in state.partitions()}
        for node_id in state.brokers:
            if self._server(node_id).listening:
                self._write("broker", broker=node_id, action="down")
                await self._stop(self._server(node_id), graceful=graceful)
            self._notice(node_id)
        for broker in state.brokers.values():
            broker.alive = False
        with state.together():
            for partition in led:
                state.set_leader(partition, -1, "all brokers are down")
        for node_id in state.brokers:
            await self._start(self._server(node_id))
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
        leader_election.check_broker(self._state, node_id)
        return next(server for server in self._servers if server.broker.node_id == node_id)

    def _balance_later(self, partition: Partition, reason: str) -> None:
        """A new leader: where it is not the preferred one the controller will look at it."""
        if self._balancing is None and partition.leader != partition.replicas[0]:
            clock = self._state.clock
            pause_ms = self._state.config.int("leader.imbalance.check.interval.seconds") * 1000
            self._balancing = clock.call_at_ms(clock.now_ms() + pause_ms, self._balance)

    def _balance(self) -> None:
        self._balancing = None
        if self._state.config.bool("auto.leader.rebalance.enable"):
            self.elect_preferred()

    def move_leader(self, partition: Partition, node_id: int | None = None) -> None:
        """As `Cluster.move_leader`."""
        leader_election.move(self._state, partition, node_id)

    def elect(self, partition: Partition, node_id: int | None = None) -> None:
        """As `Cluster.elect`."""
        leader_election.elect(self._state, partition, node_id)

    def elect_preferred(self) -> int:
        """As `Cluster.elect_preferred`."""
        return leader_election.elect_preferred(self._state)

    def end(self) -> None:
        """Cancel all timers."""
        for timer in (self._balancing, *self._unnoticed.values()):
            if timer is not None:
                timer.cancel()
        self._balancing = None
        self._unnoticed.clear()
