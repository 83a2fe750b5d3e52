"""A transactional producer by hand, on whatever target: what it does is noted by name and by the errors that it is answered."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, replace
from typing import Any

from kafka_wire.errors import Err
from kafka_wire.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_wire.messages.k02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafka_wire.messages.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kafka_wire.messages.k10_find_coordinator import FindCoordinatorRequest
from kafka_wire.messages.k22_init_producer_id import InitProducerIdRequest
from kafka_wire.messages.k24_add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kafka_wire.messages.k25_add_offsets_to_txn import AddOffsetsToTxnRequest
from kafka_wire.messages.k26_end_txn import EndTxnRequest
from kafka_wire.messages.k27_write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kafka_wire.messages.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kafka_wire.messages.k61_describe_producers import DescribeProducersRequest, TopicRequest
from kafka_wire.record_batch import batches, build_batch
from kafka_wire.schema import ZERO_UUID
from tests.conformance.driver import Kafka, clock_s

DEADLINE_S = 30
TOPIC_IDS_SINCE = 13
_NOW_PENDING = (Err.CONCURRENT_TRANSACTIONS, Err.COORDINATOR_NOT_AVAILABLE, Err.NOT_COORDINATOR)


@dataclass
class Producer:
    """A producer id and epoch of a transactional id; `shifted` and `under` return others."""

    kafka: Kafka
    transactional_id: str
    producer_id: int = -1
    epoch: int = -1

    async def begin(self) -> Producer:
        """InitProducerId, until it is answered well."""
        give_up = clock_s() + DEADLINE_S
        while True:
            await self.kafka.watch(FindCoordinatorRequest(self.transactional_id, 1), 3)
            answer = await self.kafka.watch(InitProducerIdRequest(self.transactional_id, 60_000), 4)
            if answer.error_code == Err.NONE:
                self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
                return self
            assert answer.error_code in (*_NOW_PENDING, Err.COORDINATOR_LOAD_IN_PROGRESS), Err(answer.error_code)
            assert clock_s() < give_up, f"InitProducerId is answered {Err(answer.error_code).name} to the end"
            await asyncio.sleep(0.02)

    def shifted(self, by: int) -> Producer:
        """Return a producer with another epoch."""
        return replace(self, epoch=self.epoch + by)

    def under(self, transactional_id: str) -> Producer:
        """Return a producer that names another transactional id."""
        return replace(self, transactional_id=transactional_id)

    def _note(self, what: str, value: Any) -> Any:
        plain = value.name if isinstance(value, Err) else value
        self.kafka.recording.note(
            what,
            [each.name if isinstance(each, Err) else each for each in plain]
            if isinstance(plain, list | tuple)
            else plain,
        )
        return value

    async def add(self, topic: str, *partitions: int) -> None:
        """AddPartitionsToTxn v3, once the last transaction is over."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(topic, list(partitions))],
        )
        give_up = clock_s() + DEADLINE_S
        while True:
            answer = await self.kafka.watch(request, 3)
            codes = {row.partition_error_code for row in answer.results_by_topic_v3_and_below[0].results_by_partition}
            if codes == {Err.NONE}:
                return
            assert codes == {Err.CONCURRENT_TRANSACTIONS}, codes
            assert clock_s() < give_up, "its last transaction never ends"
            await asyncio.sleep(0.01)

    async def add_offsets(self, group: str) -> None:
        """AddOffsetsToTxn v3, likewise."""
        request = AddOffsetsToTxnRequest(self.transactional_id, self.producer_id, self.epoch, group)
        give_up = clock_s() + DEADLINE_S
        while (code := (await self.kafka.watch(request, 3)).error_code) != Err.NONE:
            assert code == Err.CONCURRENT_TRANSACTIONS, Err(code)
            assert clock_s() < give_up, "its last transaction never ends"
            await asyncio.sleep(0.01)

    async def produce(
        self,
        topic: str,
        sequence: int,
        *,
        version: int = 9,
        partition: int = 0,
        count: int = 1,
        in_transaction: bool = True,
    ) -> Err:
        """Produce a batch and return the error of the answer: error, text and offset are noted."""
        data = build_batch(
            [(b"k", b"v")] * count,
            int(time.time() * 1000),
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            attributes=0x10 if in_transaction else 0,
        )
        topics = [TopicProduceData(topic, partition_data=[PartitionProduceData(partition, data)])]
        request = ProduceRequest(self.transactional_id if in_transaction else None, -1, 10_000, topics)
        answer = (await self.kafka.watch(request, version)).responses[0].partition_responses[0]
        error = Err(answer.error_code)
        self._note(f"produce v{version}", [error, answer.base_offset, answer.error_message])
        return error

    async def end(self, *, commit: bool = True, topic: str = "", partition: int = 0) -> None:
        """EndTxn v3, and the marker's coming in `topic`."""
        answer = await self.kafka.watch(EndTxnRequest(self.transactional_id, self.producer_id, self.epoch, commit), 3)
        assert answer.error_code == Err.NONE, Err(answer.error_code)
        give_up = clock_s() + DEADLINE_S
        while topic and await ends(self.kafka, topic, partition) is None:
            assert clock_s() < give_up, f"no marker has come to {topic}-{partition}"
            await asyncio.sleep(0.01)

    async def commit(
        self,
        topic: str,
        offset: int,
        *,
        group: str,
        version: int = 3,
        member: str = "",
        generation: int = -1,
        instance: str | None = None,
        partition: int = 0,
        metadata: str = "",
        topic_id: bytes = ZERO_UUID,
    ) -> Err:
        """TxnOffsetCommit; its error is noted. ``topic_id``: from v6 on in place of the topic's name."""
        part = TxnOffsetCommitRequestPartition(partition, offset, -1, metadata)
        request = TxnOffsetCommitRequest(
            self.transactional_id,
            group,
            self.producer_id,
            self.epoch,
            generation,
            member,
            instance,
            [TxnOffsetCommitRequestTopic(topic, topic_id, [part])],
        )
        [told] = (await self.kafka.watch(request, version)).topics
        assert (told.name, told.topic_id) == (topic, topic_id)
        error: Err = self._note(f"TxnOffsetCommit v{version}", Err(told.partitions[0].error_code))
        return error

    async def mark(
        self, topic: str, *, epoch: int, coordinator_epoch: int, partition: int = 0, flow: int | None = None
    ) -> Err:
        """WriteTxnMarkers v1, or v2 with the version of transactions that it speaks of; its error is noted."""
        marker = WritableTxnMarker(
            self.producer_id, epoch, False, [WritableTxnMarkerTopic(topic, [partition])], coordinator_epoch, flow or 0
        )
        answer = await self.kafka.watch(WriteTxnMarkersRequest([marker]), 1 if flow is None else 2)
        error: Err = self._note("marker", Err(answer.markers[0].topics[0].partitions[0].error_code))
        return error


async def offset_of_end(kafka: Kafka, topic: str, isolation_level: int, partition: int = 0) -> int:
    """ListOffsets of the latest."""
    asked = ListOffsetsPartition(partition, timestamp=-1)
    answer = await kafka.watch(ListOffsetsRequest(-1, isolation_level, [ListOffsetsTopic(topic, [asked])]), 7)
    offset: int = answer.topics[0].partitions[0].offset
    return offset


async def ends(kafka: Kafka, topic: str, partition: int = 0) -> int | None:
    """Return the end of the log for both isolation levels; None if they differ."""
    high, stable = [await offset_of_end(kafka, topic, level, partition) for level in (0, 1)]
    return high if high == stable else None


async def both_ends(kafka: Kafka, topic: str, partition: int = 0) -> tuple[int, int]:
    """High watermark and last stable offset; noted."""
    high, stable = [await offset_of_end(kafka, topic, level, partition) for level in (0, 1)]
    kafka.recording.note("ends", [high, stable])
    return high, stable


async def seen(kafka: Kafka, topic: str, isolation_level: int, offset: int = 0) -> tuple[list[int], list[int] | None]:
    """(first offset of every batch, first offset of every aborted transaction) that a fetch brings; noted."""
    wanted = FetchTopic(topic, partitions=[FetchPartition(0, fetch_offset=offset, partition_max_bytes=1 << 20)])
    request = FetchRequest(
        max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, isolation_level=isolation_level, topics=[wanted]
    )
    request.session_epoch = -1
    answer = (await kafka.watch(request, 11)).responses[0].partitions[0]
    told = answer.aborted_transactions
    aborted = None if told is None else [one.first_offset for one in told]
    found = [header.base_offset for _, header in batches(answer.records or b"")]
    kafka.recording.note("fetch", [found, aborted, answer.high_watermark, answer.last_stable_offset])
    return found, aborted


async def committed(kafka: Kafka, topic: str, *, group: str, stable: bool) -> tuple[int, Err]:
    """OffsetFetch v8 of partition 0; noted."""
    wanted = OffsetFetchRequestGroup(group, topics=[OffsetFetchRequestTopics(topic, partition_indexes=[0])])
    answer = (await kafka.watch(OffsetFetchRequest(groups=[wanted], require_stable=stable), 8)).groups[0]
    part = answer.topics[0].partitions[0]
    kafka.recording.note("committed", [part.committed_offset, Err(part.error_code).name])
    return part.committed_offset, Err(part.error_code)


async def producers(kafka: Kafka, topic: str) -> list[tuple[int, int, int, int]]:
    """(epoch above the first one's, last sequence, coordinator epoch, start of its transaction) by DescribeProducers; noted."""
    answer = await kafka.watch(DescribeProducersRequest([TopicRequest(topic, [0, 99])]), 0)
    there, nowhere = answer.topics[0].partitions
    assert nowhere.error_code == Err.UNKNOWN_TOPIC_OR_PARTITION
    rows = [(one.last_sequence, one.coordinator_epoch, one.current_txn_start_offset) for one in there.active_producers]
    kafka.recording.note("producers", [list(row) for row in rows])
    return rows  # type: ignore[return-value]
