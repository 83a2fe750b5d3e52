"""Changes to a cluster, the same on both sides: leaders and coordinators move, brokers go and come.

    ["lead", topic, index, node]     another broker leads a partition, one of its replicas or not
    ["coordinate", group, node]      the same for the group's partition of __consumer_offsets
    ["down", node]  ["up", node]     a broker is shut down in order, and starts again
    ["prefer"]                       every partition is led by its first replica again

Kafka does it by AlterPartitionReassignments and ElectLeaders, which the simulator does not serve: there it is an operation
of `broker-sim serve --control`. What is answered while a move is under way hangs on time: nothing is sent before both
sides have come to rest (settling.py). Node 1 never goes, at Kafka it is the controller.
"""

from __future__ import annotations

import abc
import asyncio
import contextlib
import json
import struct
import time
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

from broker_sim import Cluster
from broker_sim.storage.partition_for import partition_for
from kafka_wire.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from tests.conformance.driver import clock_s
from tests.differential import settling
from tests.differential.normal import SHARED_TOPICS
from tests.differential.symbols import OFFSETS
from tests.support.real_kafka import RealKafka, election_frame, reassignment_frame
from tests.support.wire import Wire

if TYPE_CHECKING:
    from tests.differential.play import Side

DEADLINE_S = 40.0
POLL_S = 0.01


class World(abc.ABC):
    """One side's cluster in the tester's hand. `alive`: the node ids that are up."""

    def __init__(self, nodes: Sequence[int]) -> None:
        self.alive = set(nodes)

    @abc.abstractmethod
    async def lead(self, topic: str, index: int, node: int) -> None:
        """Node `node`, which does not lead it, leads a partition from now on."""

    @abc.abstractmethod
    async def prefer(self) -> None:
        """First replicas lead."""

    async def down(self, node: int) -> None:
        self.alive.discard(node)

    async def up(self, node: int) -> None:
        self.alive.add(node)


class RealWorld(World):
    """A real cluster."""

    def __init__(self, kafka: RealKafka) -> None:
        super().__init__(list(kafka.nodes))
        self._kafka = kafka

    async def lead(self, topic: str, index: int, node: int) -> None:
        """The node becomes the first of the replicas, which is elected, and goes to its place among them: its own, or where it
        was none of them that of the old leader.
        """
        before = await self._partition(topic, index)
        replicas: list[int] = before.replica_nodes
        stranger = node not in replicas
        if stranger:
            leaves = before.leader_id if before.leader_id in replicas else replicas[0]
            replicas = [node if one == leaves else one for one in replicas]
        first = [node, *(one for one in replicas if one != node)]
        await self._tell(reassignment_frame(topic, {index: first}))
        if not stranger:  # one that comes leads as soon as the old leader has gone
            await self._tell(election_frame(topic, [index]))
        await self._until_led(topic, index, node, first)
        if first != replicas:
            await self._tell(reassignment_frame(topic, {index: replicas}))
            await self._until_led(topic, index, node, replicas)

    async def _until_led(self, topic: str, index: int, node: int, replicas: list[int]) -> None:
        give_up = clock_s() + DEADLINE_S
        while True:
            now = await self._partition(topic, index)
            if (now.leader_id, now.replica_nodes) == (node, replicas):
                return
            if clock_s() > give_up:
                raise TimeoutError(f"waited {DEADLINE_S:g} s for node {node} to lead {topic}-{index}, which is {now}")
            await asyncio.sleep(POLL_S)

    async def prefer(self) -> None:
        payload = struct.pack(">hhihbii", 43, 1, 2**30, -1, 0, -1, 20_000)
        await self._tell(struct.pack(">i", len(payload)) + payload)

    async def down(self, node: int) -> None:
        await super().down(node)
        await asyncio.to_thread(self._kafka.nodes[node].stop)

    async def up(self, node: int) -> None:
        self._kafka.nodes[node].start()
        await asyncio.to_thread(self._kafka.nodes[node].wait_ready, time.monotonic() + DEADLINE_S)
        await super().up(node)

    async def _partition(self, topic: str, index: int) -> Any:
        wire = await self._wire()
        answer = await wire.send(MetadataRequest([MetadataRequestTopic(name=topic)]), 8)
        await wire.close()
        return next(row for row in answer.topics[0].partitions if row.partition_index == index)

    async def _tell(self, request: bytes) -> None:
        wire = await self._wire()
        wire.write_raw(request)
        await wire.next_frame()
        await wire.close()

    async def _wire(self) -> Wire:
        return await Wire.connect(f"127.0.0.1:{self._kafka.nodes[1].port}")


class ServedWorld(World):
    """A simulator in another process, by its control address."""

    def __init__(self, nodes: Sequence[int], control: str) -> None:
        super().__init__(nodes)
        self._control = control

    async def lead(self, topic: str, index: int, node: int) -> None:
        await self._post(f"logs/{urllib.parse.quote(topic)}-{index}/leader", broker=node)

    async def prefer(self) -> None:
        await self._post("leaders/preferred")

    async def down(self, node: int) -> None:
        await super().down(node)
        await self._post(f"brokers/{node}/down", graceful=True)

    async def up(self, node: int) -> None:
        await self._post(f"brokers/{node}/up")
        await super().up(node)

    async def _post(self, path: str, **given: object) -> None:
        request = urllib.request.Request(
            f"{self._control}/v1/{path}", json.dumps(given).encode(), {"Content-Type": "application/json"}
        )
        await asyncio.to_thread(lambda: urllib.request.urlopen(request, timeout=DEADLINE_S).read())


class ClusterWorld(World):
    """A simulator in this process."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(list(cluster.state.brokers))
        self._cluster = cluster

    async def lead(self, topic: str, index: int, node: int) -> None:
        self._cluster.log(topic, index).move_to(node)

    async def prefer(self) -> None:
        self._cluster.elect_preferred()

    async def down(self, node: int) -> None:
        await super().down(node)
        await self._cluster.broker_down(node, graceful=True)

    async def up(self, node: int) -> None:
        await self._cluster.broker_up(node)
        await super().up(node)


# ---- deeds


async def perform(sides: Sequence[Side], deed: Sequence[Any]) -> None:
    """Does it on every side, and returns when they have come to rest. Raises TimeoutError, saying what did not come."""
    name, *given = deed
    await asyncio.gather(*(_DEEDS[name](side, *given) for side in sides))


async def _lead(side: Side, topic: str, index: int, node: int) -> None:
    await lead(side, side.scope.text(topic), index, node)


async def _coordinate(side: Side, group: str, node: int) -> None:
    await lead(side, OFFSETS, partition_for(side.scope.text(group), len(side.scope.leaders[OFFSETS])), node)


async def lead(side: Side, topic: str, index: int, node: int) -> None:
    """A partition that is there is led by a broker that is up."""
    leader = side.scope.leaders.get(topic, {}).get(index)
    if leader is None or leader == node or node not in side.world.alive:
        return
    await settling.replicated(side)
    await side.world.lead(topic, index, node)
    await settling.settled(side, [topic], {(topic, index): node})


async def _down(side: Side, node: int) -> None:
    if node in side.world.alive and node != 1:
        await settling.replicated(side)
        await side.world.down(node)
        await settling.settled(side, side.scope.known_topics())


async def _up(side: Side, node: int) -> None:
    if node not in side.world.alive:
        await side.world.up(node)
        await settling.settled(side, side.scope.known_topics())
        await settling.has_producer_ids(side, node)


async def _prefer(side: Side) -> None:
    await settling.replicated(side)
    await side.world.prefer()
    await settling.settled(side, side.scope.known_topics(), preferred=True)


_DEEDS: dict[str, Any] = {"lead": _lead, "coordinate": _coordinate, "down": _down, "up": _up, "prefer": _prefer}


# ---- what several plays share


class Ground:
    """The cluster that plays share: each has the offsets partitions of its groups for itself.

    Partition i of __consumer_offsets is at home at the node i modulo their number. Every play begins with the group g at home
    at node 1 and h at node 2, so that the same steps go to right and wrong coordinators each time that they are played.
    """

    def __init__(self, nodes: Sequence[int], offsets_partitions: int) -> None:
        self.still = asyncio.Lock()
        """Held while anything moves, and while a broker is asked for all of its groups: 4.x fails that while one loads."""
        self._nodes = sorted(nodes)
        self._locks = [asyncio.Lock() for _ in range(offsets_partitions)]

    def home(self, index: int) -> int:
        """The node that leads an offsets partition when a play begins."""
        return self._nodes[index % len(self._nodes)]

    def fits(self, prefix: str) -> bool:
        """Whether a play may have that prefix."""
        homes = [self.home(partition_for(prefix + group, len(self._locks))) for group in settling.GROUPS[:2]]
        return len(self._nodes) == 1 or homes == self._nodes[:2]

    def indexes(self, prefix: str) -> list[int]:
        """The offsets partitions of a play's groups."""
        return sorted({partition_for(prefix + group, len(self._locks)) for group in settling.GROUPS})

    @contextlib.asynccontextmanager
    async def held(self, prefix: str) -> AsyncIterator[None]:
        """Keep the offsets partitions of a play's groups from other plays meanwhile."""
        async with contextlib.AsyncExitStack() as stack:
            for index in self.indexes(prefix):
                await stack.enter_async_context(self._locks[index])
            yield

    async def enter(self, sides: Sequence[Side], prefix: str) -> None:
        """Both sides know who leads, and what is the play's own is at home, whatever an earlier one has left."""
        await asyncio.gather(*(settling.settled(side, [OFFSETS, *SHARED_TOPICS]) for side in sides))
        for index in self.indexes(prefix):
            if any(side.scope.leaders[OFFSETS][index] != self.home(index) for side in sides):
                async with self.still:
                    await asyncio.gather(*(lead(side, OFFSETS, index, self.home(index)) for side in sides))

    async def restore(self, sides: Sequence[Side]) -> None:
        """All brokers are up, and lead what they should."""
        for deed in (*(["up", node] for node in self._nodes), ["prefer"]):
            await perform(sides, deed)
