"""Time and records of a ShareFetch's response: min_bytes, segments, deleted records, aborted transactions."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

from kafka_wire.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_wire.messages.k21_delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kafka_wire.record_batch import build_batch
from tests.shares.harness import TOPIC, configure, produce
from tests.shares.test_share_groups import RELEASE, cluster, connect, request
from tests.storage.transactions import end, write

SOON = {"max_wait_ms": 60_000}
"""A fetch with it that is not answered at once fails its test."""


async def test_min_bytes_counts_the_log_from_the_fetch_offset_to_the_high_watermark() -> None:
    async with cluster(clock="manual") as (kafka, ann):
        await ann.join()
        assert await ann.acquired(min_bytes=0, **SOON) == [], "nothing is wanted"
        await produce(ann.wire, 1, 1, 1, 1)
        size = kafka.state.topics[TOPIC].partitions[0].log.size_bytes // 4
        assert await ann.acquired(min_bytes=3 * size, max_records=1, **SOON) == [(0, 0, 1)], "of four small batches"
        assert await ann.acquired(min_bytes=3 * size, max_records=1, **SOON) == [(1, 1, 1)], "of just as many bytes"
        waiting = ann.wire.start(request(ann, min_bytes=3 * size), ann.version)
        await produce(await connect(kafka.bootstrap), 1)
        assert [one.last_offset for one in (await waiting).responses[0].partitions[0].acquired_records] == [4]
        ann.session_epoch += 1
        await ann.acknowledge((1, 1, [RELEASE]))
        assert await ann.acquired(min_bytes=4 * size, **SOON) == [(1, 1, 2)], "acquired records behind it count, too"
        await ann.acknowledge((4, 4, [RELEASE]))
        waiting = ann.wire.start(request(ann, min_bytes=2 * size), ann.version)
        await produce(await connect(kafka.bootstrap), 1)
        acquired = (await waiting).responses[0].partitions[0].acquired_records
        assert [(one.first_offset, one.delivery_count) for one in acquired] == [(4, 2), (5, 1)], (
            "a released one waits, too"
        )


async def test_min_bytes_is_at_most_max_bytes_and_counts_in_one_segment() -> None:
    async with cluster() as (kafka, ann):
        await ann.join()
        await produce(ann.wire, 1, 1)
        assert await ann.acquired(min_bytes=10**6, max_bytes=100, max_records=1, **SOON) == [(0, 0, 1)]
        kafka.state.topics[TOPIC].partitions[0].log.roll(0)
        await produce(ann.wire, 1)
        assert await ann.acquired(min_bytes=10**6, max_bytes=10**6, max_records=1, **SOON) == [(1, 1, 1)], (
            "older segment"
        )
        assert await ann.acquired(min_bytes=10**6, max_bytes=10**6, max_wait_ms=1) == [(2, 2, 1)], "the time is up"


async def test_a_fetch_below_the_log_start_offset_is_answered_at_once_and_the_next_one_has_records() -> None:
    async with cluster() as (_, ann):
        await ann.join()
        assert await ann.acquired() == []
        await produce(ann.wire, 1, 1, 1, 1)
        delete = DeleteRecordsRequest([DeleteRecordsTopic(TOPIC, [DeleteRecordsPartition(0, 2)])], 5000)
        assert (await ann.wire.send(delete, 2)).topics[0].partitions[0].low_watermark == 2
        assert await ann.acquired(min_bytes=10**6, **SOON) == []
        assert await ann.acquired(**SOON) == [(2, 3, 1)]


async def test_released_records_that_compaction_has_removed_are_archived() -> None:
    async with cluster() as (kafka, ann):
        await ann.join()
        partition = kafka.state.topics[TOPIC].partitions[0]
        for _ in range(3):
            rows = [PartitionProduceData(0, build_batch([(b"key", b"value")], int(time.time() * 1000)))]
            data = [TopicProduceData(TOPIC, partition_data=rows)]
            await ann.wire.send(ProduceRequest(acks=-1, timeout_ms=5000, topic_data=data), 9)
        assert await ann.acquired(max_records=2, share_acquire_mode=1) == [(0, 1, 1)]
        await ann.acknowledge((0, 1, [RELEASE]))
        settings = partition.log.config
        partition.log.config = replace(settings, cleanup_policy=frozenset({"compact"}))
        partition.log.roll(0)
        assert partition.log.compact(int(time.time() * 1000), force=True)
        partition.log.config = settings
        assert await ann.acquired(**SOON) == [(2, 2, 1)]
        waiting = ann.wire.start(request(ann), ann.version)
        await produce(await connect(kafka.bootstrap), 1)
        assert [one.first_offset for one in (await waiting).responses[0].partitions[0].acquired_records] == [3]


async def test_a_fetch_waits_where_compaction_has_removed_all_records_up_to_the_high_watermark() -> None:
    async with cluster() as (kafka, ann):
        await ann.join()
        partition = kafka.state.topics[TOPIC].partitions[0]
        for value in (b"value", b"value", None):
            rows = [PartitionProduceData(0, build_batch([(b"key", value)], int(time.time() * 1000)))]
            data = [TopicProduceData(TOPIC, partition_data=rows)]
            await ann.wire.send(ProduceRequest(acks=-1, timeout_ms=5000, topic_data=data), 9)
        assert await ann.acquired(max_records=1, share_acquire_mode=1) == [(0, 0, 1)]
        settings = partition.log.config
        partition.log.config = replace(settings, cleanup_policy=frozenset({"compact"}), delete_retention_ms=0)
        partition.log.roll(0)
        for later_ms in (0, 1000):  # the first pass removes the records, the second one the tombstone
            assert partition.log.compact(int(time.time() * 1000) + later_ms, force=True)
        partition.log.config = settings
        assert (partition.high_watermark, partition.log.size_bytes) == (3, 0)
        begin_s = asyncio.get_running_loop().time()
        assert await ann.acquired(max_wait_ms=500) == []
        assert asyncio.get_running_loop().time() - begin_s > 0.4, "the next fetch would be answered as fast, and so on"
        waiting = ann.wire.start(request(ann), ann.version)
        await produce(await connect(kafka.bootstrap), 1)
        assert [one.first_offset for one in (await waiting).responses[0].partitions[0].acquired_records] == [3]


async def test_of_a_producer_s_transactions_the_records_of_the_aborted_ones_are_left_out() -> None:
    async with cluster() as (kafka, ann):
        await configure(ann.wire, share_isolation_level="read_committed")
        await ann.join()
        partition = kafka.state.topics[TOPIC].partitions[0]
        for sequence, commit in enumerate((False, True, False, True)):
            write(partition.log, 5, "record", sequence=sequence)
            end(partition.log, 5, commit=commit)
        partition.advance_high_watermark()
        assert await ann.acquired() == [(1, 3, 1), (5, 7, 1)], "of transactions 0-1, 2-3, 4-5 and 6-7"
