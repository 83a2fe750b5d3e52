"""Watches a group from outside, as an operator would: its state and members by DescribeGroups, its generations by reading the group's
own records in ``__consumer_offsets``, which a consumer can read like any topic."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import GroupCoordinatorNotAvailableError, KafkaError

from broker_sim.demo.consumer import GROUP
from broker_sim.demo.processes import OFFSETS_PARTITIONS
from broker_sim.storage.partition_for import partition_for
from kafka_wire import offsets_log
from kafka_wire.codec import decode
from kafka_wire.messages.consumer_protocol import ConsumerProtocolAssignment

OFFSETS_TOPIC = "__consumer_offsets"
POLL_S = 0.03
BROKER_ID = 1


class GroupPoller:
    """Calls ``on_group(state, client ids)`` when either has changed, and ``on_generation(number, client id -> partitions)`` for each
    generation that the coordinator has written."""

    def __init__(
        self,
        bootstrap: str,
        on_group: Callable[[str, list[str]], None],
        on_generation: Callable[[int, dict[str, list[int]]], None],
    ) -> None:
        self.on_group, self.on_generation = on_group, on_generation
        self.state = ""
        self.clients: list[str] = []
        self.newest = 0
        self.admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap, client_id="watch")
        self.reader = AIOKafkaConsumer(
            bootstrap_servers=bootstrap, client_id="watch", auto_offset_reset="earliest", fetch_max_wait_ms=100
        )
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Begin to watch. The group needn't exist yet."""
        await self.admin.start()
        await self.reader.start()
        while True:  # the first question creates __consumer_offsets; as in Kafka, it is answered "not yet"
            with contextlib.suppress(GroupCoordinatorNotAvailableError):
                await self.admin.find_coordinator(GROUP)
                break
            await asyncio.sleep(POLL_S)
        self.reader.assign([TopicPartition(OFFSETS_TOPIC, partition_for(GROUP, OFFSETS_PARTITIONS))])
        self._tasks = [asyncio.create_task(self._poll()), asyncio.create_task(self._read())]

    async def stop(self) -> None:
        """Stop polling and close the connections."""
        for task in self._tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await self.reader.stop()
        await self.admin.close()

    def check(self) -> None:
        """Raises what has ended the watching, if anything has."""
        for task in self._tasks:
            if task.done():
                task.result()

    async def committed(self) -> dict[int, int]:
        """The group's committed offsets as the broker answers them (OffsetFetch)."""
        answer = await self.admin.list_consumer_group_offsets(GROUP, group_coordinator_id=BROKER_ID)
        return {partition.partition: value.offset for partition, value in answer.items()}

    async def _poll(self) -> None:
        while True:
            with contextlib.suppress(KafkaError, OSError):  # while the broker is down there is no answer
                (answer,) = await self.admin.describe_consumer_groups([GROUP], group_coordinator_id=BROKER_ID)
                error, _, state, _, _, members, *_ = answer.groups[0]
                clients = sorted(member[-4] for member in members)  # client id, host, metadata, assignment
                if error == 0 and (state, clients) != (self.state, self.clients):
                    self.state, self.clients = state, clients
                    self.on_group(state, clients)
            await asyncio.sleep(POLL_S)

    async def _read(self) -> None:
        async for record in self.reader:
            kind, key = offsets_log.decode_key(record.key)
            if kind != offsets_log.GROUP_METADATA or key.group != GROUP:
                continue
            value = offsets_log.decode_value(kind, record.value)
            if value is not None and value.generation > self.newest:
                self.newest = value.generation
                self.on_generation(value.generation, {m.client_id: _partitions(m.assignment) for m in value.members})


def _partitions(assignment: bytes) -> list[int]:
    if not assignment:
        return []
    assigned = decode(ConsumerProtocolAssignment, 0, assignment, 2).assigned_partitions
    return sorted(partition for topic in assigned for partition in topic.partitions)
