"""A producer of transactions on Kafka's wire: ``python -m broker_sim.scenario.apps.transactional_app SETTINGS``; see the package.

It writes a record to every partition of its topics, waits for ``work``, and commits; then the next transaction, ``interval`` later.
What it can't write within ``request_timeout`` it aborts. ``hang`` stops it in the midst of a transaction, with its records written.

It speaks both flows (KIP-890), which client libraries do not yet: ``transaction_version`` 1, where partitions are added ahead and
an epoch is for a producer's life, or 2, where Produce adds them and every transaction ends with a new epoch; without it the newest
that the brokers offer. After an abort of its own under version 1 it asks for the next epoch, as Java's producer does (KIP-360).
Reports: ``begun``, ``committed``, ``aborted``, ``fenced`` (it sends nothing more, and waits for the command ``leave``), ``error``,
``left``.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

from broker_sim.common.clock import RealClock
from broker_sim.scenario.apps.common import AppSettings, Orders, ScenarioPipe, program
from broker_sim.scenario.wire import Wire
from kafka_wire import record_batch
from kafka_wire.api_keys import ApiKey
from kafka_wire.errors import Err
from kafka_wire.messages.k00_produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from kafka_wire.messages.k03_metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kafka_wire.messages.k10_find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafka_wire.messages.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafka_wire.messages.k22_init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafka_wire.messages.k24_add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from kafka_wire.messages.k26_end_txn import EndTxnRequest, EndTxnResponse

_METADATA, _FIND, _INIT, _ADD = 7, 3, 4, 3
_PRODUCE, _END = {1: 7, 2: 12}, {1: 3, 2: 5}
_END_OF_TWO = 5
"""From this version of EndTxn on brokers know the second flow."""

_RETRY_S = 0.05
_TRANSACTION = 1
"""Key type of FindCoordinator for a transactional id."""

_AGAIN = (Err.CONCURRENT_TRANSACTIONS, Err.COORDINATOR_LOAD_IN_PROGRESS, Err.UNKNOWN_SERVER_ERROR)
_ELSEWHERE = (Err.NOT_COORDINATOR, Err.COORDINATOR_NOT_AVAILABLE)
_FENCED = (Err.PRODUCER_FENCED, Err.INVALID_PRODUCER_EPOCH, Err.INVALID_PRODUCER_ID_MAPPING)
_LOST = (OSError, EOFError, asyncio.IncompleteReadError)


class Fenced(Exception):
    """The producer is fenced: another producer has the id, or the coordinator has ended the transaction."""


class NotWritten(Exception):
    """A record that is not known to be in the log."""


class Producer(Orders):
    """A transactional producer: one transaction after the other until it leaves or is fenced."""

    def __init__(self, settings: AppSettings, line: ScenarioPipe) -> None:
        super().__init__()
        self.settings, self.report = settings, line.report
        assert settings.transactional_id is not None
        self.id: str = settings.transactional_id
        self.timeout_ms = settings.ms("transaction_timeout") or 60_000
        self.patience_s = (settings.ms("request_timeout") or 30_000) / 1000
        self.pause_s = 1.0 if settings.ms("interval") is None else (settings.ms("interval") or 0) / 1000
        self.version = settings.transaction_version or 0
        self.clock = RealClock()
        self.coordinator = Wire(settings.client_id, settings.security)
        self.leaders: dict[tuple[str, int], tuple[str, int]] = {}
        self.wires: dict[tuple[str, int], Wire] = {}
        self.given_up: list[Wire] = []  # an answer may come yet, and a broker may have the request: they stay open
        self.producer = -1, -1
        self.sequences: dict[tuple[str, int], int] = {}

    async def run(self) -> None:
        """Run one transaction after the other until the command ``leave``. Raises Fenced."""
        await self.begin_anew((-1, -1))
        for number in itertools.count(1):
            if self.leaving:
                return
            await self.transaction(number)
            await asyncio.sleep(self.pause_s)

    async def transaction(self, number: int) -> None:
        """Produce the records of one transaction and end it."""
        committed = True
        try:
            await self.write(number)
        except NotWritten as error:
            self.report("error", text=str(error))
            committed = False
        self.report("begun", number=number)
        while self.hang_s:
            hang, self.hang_s = self.hang_s, 0.0
            await asyncio.sleep(hang)
        if self.settings.work_s:
            await asyncio.sleep(self.settings.work_s)
        await self.end(committed=committed)
        self.report("committed" if committed else "aborted", number=number)
        if not committed and self.version == 1:
            await self.begin_anew(self.producer)

    # the coordinator

    async def ask(self, api: int, version: int, request: Any, answer: type[Any], error_of: Any) -> Any:
        """Send a request to the coordinator, and again after a lost connection, a timeout or a retriable error; returns the
        response. Raises Fenced; other errors are reported, and end the app."""
        while True:
            try:
                async with asyncio.timeout(self.patience_s):
                    response = await self.coordinator.ask(api, version, request, answer)
            except (*_LOST, TimeoutError, AssertionError):
                await self._find()
                continue
            error: Err = error_of(response)
            if error is Err.NONE:
                return response
            if error in _FENCED:
                raise Fenced(f"{ApiKey(api).kafka_name}: {error.name}")
            if error not in (*_AGAIN, *_ELSEWHERE):
                raise RuntimeError(f"{ApiKey(api).kafka_name}: {error.name}")
            await asyncio.sleep(_RETRY_S)
            if error in _ELSEWHERE:
                await self._find()

    async def _find(self) -> None:
        hosts = itertools.cycle(self.settings.bootstrap.split(","))
        while True:
            host, _, port = next(hosts).rpartition(":")
            try:
                await self.coordinator.connect(host, int(port))
                if not self.version:
                    versions = await self.coordinator.ask(
                        ApiKey.API_VERSIONS, 0, ApiVersionsRequest(), ApiVersionsResponse
                    )
                    most = {api.api_key: api.max_version for api in versions.api_keys}
                    self.version = 2 if most.get(ApiKey.END_TXN, 0) >= _END_OF_TWO else 1
                coordinator = await self.coordinator.ask(
                    ApiKey.FIND_COORDINATOR,
                    _FIND,
                    FindCoordinatorRequest(self.id, _TRANSACTION),
                    FindCoordinatorResponse,
                )
                if coordinator.error_code == Err.NONE:
                    await self.coordinator.connect(coordinator.host, coordinator.port)
                    return
            except _LOST:
                pass
            await asyncio.sleep(_RETRY_S)

    async def begin_anew(self, expected: tuple[int, int]) -> None:
        """The next epoch; ``expected``: the producer id and epoch that it has."""
        await self._find()
        request = InitProducerIdRequest(self.id, self.timeout_ms, *expected)
        response = await self.ask(
            ApiKey.INIT_PRODUCER_ID, _INIT, request, InitProducerIdResponse, lambda answer: Err(answer.error_code)
        )
        self._has((response.producer_id, response.producer_epoch))

    def _has(self, producer: tuple[int, int]) -> None:
        if producer != self.producer:
            self.sequences.clear()
        self.producer = producer

    async def end(self, *, committed: bool) -> None:
        """EndTxn, until it is answered."""
        version = _END[self.version]
        request = EndTxnRequest(self.id, *self.producer, committed)
        response = await self.ask(
            ApiKey.END_TXN, version, request, EndTxnResponse, lambda answer: Err(answer.error_code)
        )
        if self.version == 2:
            self._has((response.producer_id, response.producer_epoch))

    # the partitions

    async def write(self, number: int) -> None:
        """A record to each partition. Raises NotWritten, Fenced."""
        await self._look_up()
        if self.version == 1:
            topics: dict[str, AddPartitionsToTxnTopic] = {}
            for topic, index in self.leaders:
                topics.setdefault(topic, AddPartitionsToTxnTopic(topic)).partitions.append(index)
            request = AddPartitionsToTxnRequest([], self.id, *self.producer, list(topics.values()))
            await self.ask(ApiKey.ADD_PARTITIONS_TO_TXN, _ADD, request, AddPartitionsToTxnResponse, _first_error)
        for place in self.leaders:
            await self._produce(place, number)

    async def _look_up(self) -> None:
        while True:
            topics = [MetadataRequestTopic(name=topic) for topic in self.settings.topics]
            try:
                metadata = await self.coordinator.ask(
                    ApiKey.METADATA, _METADATA, MetadataRequest(topics), MetadataResponse
                )
            except _LOST:
                await self._find()
                continue
            brokers = {broker.node_id: (broker.host, broker.port) for broker in metadata.brokers}
            leaders = {
                (topic.name, partition.partition_index): brokers.get(partition.leader_id)
                for topic in metadata.topics
                for partition in topic.partitions
            }
            self.leaders = {place: leader for place, leader in sorted(leaders.items()) if leader is not None}
            if leaders and len(self.leaders) == len(leaders):
                return
            await asyncio.sleep(_RETRY_S)

    async def _produce(self, place: tuple[str, int], number: int) -> None:
        topic, index = place
        name, sequence = f"{topic}-{index}", self.sequences.get(place, 0)
        batch = record_batch.build_batch(
            [(self.id.encode(), f"{self.id} {number}".encode())],
            self.clock.now_ms(),
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            base_sequence=sequence,
            attributes=record_batch.TRANSACTIONAL_BIT,
        )
        data = TopicProduceData(topic, partition_data=[PartitionProduceData(index, batch)])
        request = ProduceRequest(self.id, -1, round(self.patience_s * 1000), [data])
        at = self.leaders[place]
        try:
            wire = self.wires.get(at)
            if wire is None:
                wire = self.wires[at] = Wire(self.settings.client_id, self.settings.security)
                await wire.connect(*at)
            async with asyncio.timeout(self.patience_s):
                response = await wire.ask(ApiKey.PRODUCE, _PRODUCE[self.version], request, ProduceResponse)
        except (*_LOST, TimeoutError) as failure:
            lost = self.wires.pop(at, None)
            if lost is not None:
                self.given_up.append(lost)
            raise NotWritten(f"Produce to {name}: {type(failure).__name__}") from None
        error = Err(response.responses[0].partition_responses[0].error_code)
        if error in _FENCED:
            raise Fenced(f"Produce: {error.name}")
        if error is not Err.NONE:
            raise NotWritten(f"Produce to {name}: {error.name}")
        self.sequences[place] = sequence + 1


def _first_error(response: AddPartitionsToTxnResponse) -> Err:
    errors = [
        Err(result.partition_error_code)
        for topic in response.results_by_topic_v3_and_below
        for result in topic.results_by_partition
    ]
    return next((error for error in errors if error is not Err.NONE), Err.NONE)


async def live(settings: AppSettings, line: ScenarioPipe) -> int:
    """The whole program; its exit code."""
    producer = Producer(settings, line)
    line.listen(producer.obey)
    try:
        await producer.run()
    except Fenced as error:
        line.report("fenced", text=str(error))
        await producer.left.wait()
    except RuntimeError as error:
        line.report("error", text=str(error))
        return 1
    finally:
        for wire in (producer.coordinator, *producer.wires.values(), *producer.given_up):
            wire.close()
    line.report("left")
    return 0


if __name__ == "__main__":
    program(live)
