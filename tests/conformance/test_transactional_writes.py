"""Transactions at the partitions and in groups: what is let in, what readers see, what is staged. Their coordinator's own answers are
tested beside it (tests/transactions)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_wire.errors import Err
from kafka_wire.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from kafka_wire.messages.k27_write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kafka_wire.messages.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kafka_wire.schema import ZERO_UUID
from tests.conformance.driver import Kafka
from tests.conformance.transactional import Producer, both_ends, committed, ends, offset_of_end, producers, seen

pytestmark = pytest.mark.generations("3.4", "4.1", "4.4")
TX1 = 9


async def start(kafka: Kafka) -> tuple[Producer, str]:
    """A producer of this test alone, and a topic."""
    topic = await kafka.topic(kafka.name("t"), 3)
    producer = await Producer(kafka, kafka.name("x")).begin()
    return await producer.begin(), topic  # so that there is an earlier epoch


async def test_txn_1_a_partition_that_was_not_added(kafka: Kafka) -> None:
    """Kafka 3.4 takes it, and it holds the last stable offset for ever; since 3.6 the coordinator is asked (KIP-890)."""
    producer, topic = await start(kafka)
    assert await producer.produce(topic, 0) is kafka.pick(old=Err.NONE, new=Err.INVALID_TXN_STATE)
    if not kafka.old:
        assert await producer.produce(topic, 0, version=10) is Err.INVALID_TXN_STATE
        assert await producer.produce(topic, 0, version=11) is Err.TRANSACTION_ABORTABLE
    assert await both_ends(kafka, topic) == kafka.pick(old=(1, 0), new=(0, 0))


async def test_txn_2_a_partition_that_the_batch_adds(kafka: Kafka) -> None:
    """Produce v12, where there is one."""
    producer, topic = await start(kafka)
    if kafka.old:
        await producer.add(topic, 0)
    version = kafka.pick(old=TX1, new=12)
    assert await producer.produce(topic, 0, version=version) is Err.NONE
    assert await producer.produce(topic, 1, version=version) is Err.NONE
    assert await both_ends(kafka, topic) == (2, 0)
    await producer.end(topic=topic)
    assert await both_ends(kafka, topic) == (3, 3)


async def test_txn_3_sequences_and_epochs_in_a_transaction(kafka: Kafka) -> None:
    producer, topic = await start(kafka)
    await producer.add(topic, 0)
    assert await producer.produce(topic, 0) is Err.NONE
    assert await producer.produce(topic, 0) is Err.NONE
    assert await producer.produce(topic, 5) is Err.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert await producer.shifted(-1).produce(topic, 1) is Err.INVALID_PRODUCER_EPOCH
    assert await producer.produce(topic, 1, in_transaction=False) is Err.INVALID_TXN_STATE
    # of a later epoch than the coordinator knows: where that isn't asked, it takes the transaction over
    assert await producer.shifted(1).produce(topic, 0) is kafka.pick(old=Err.NONE, new=Err.INVALID_PRODUCER_EPOCH)
    after = await producer.produce(topic, 1, in_transaction=False)
    assert after is kafka.pick(old=Err.INVALID_PRODUCER_EPOCH, new=Err.OUT_OF_ORDER_SEQUENCE_NUMBER)


async def test_txn_4_a_batch_without_a_producer_is_in_no_transaction(kafka: Kafka) -> None:
    producer, topic = await start(kafka)
    nobody = Producer(kafka, producer.transactional_id)
    assert await nobody.produce(topic, -1) is Err.NONE
    assert await both_ends(kafka, topic) == (1, 1)


async def test_txn_5_readers_of_both_isolations(kafka: Kafka) -> None:
    first, topic = await start(kafka)
    second = await Producer(kafka, kafka.name("y")).begin()
    await first.add(topic, 0)
    await second.add(topic, 0)
    await first.produce(topic, 0)
    await second.produce(topic, 0)
    await first.end(commit=False)
    while await offset_of_end(kafka, topic, 1) < 1:
        pass
    assert await seen(kafka, topic, 1) == ([0], [0])
    await second.end(commit=True, topic=topic)
    assert await seen(kafka, topic, 1) == ([0, 1, 2, 3], [0])
    assert await seen(kafka, topic, 1, offset=3) == ([3], [])
    assert await seen(kafka, topic, 0) == ([0, 1, 2, 3], None)
    await second.add(topic, 0)
    await second.produce(topic, 1)
    await second.end(commit=False, topic=topic)
    assert await seen(kafka, topic, 1) == ([0, 1, 2, 3, 4, 5], [0, 4])


async def test_txn_6_markers_from_outside(kafka: Kafka) -> None:
    producer, topic = await start(kafka)
    await producer.add(topic, 0)
    await producer.produce(topic, 0)
    epoch = producer.epoch
    assert await producers(kafka, topic) == [(0, -1, 0)]
    assert await producer.mark(topic, epoch=epoch, coordinator_epoch=5) is Err.NONE
    assert await both_ends(kafka, topic) == (2, 2)
    assert await producers(kafka, topic) == [(0, 5, -1)]
    assert await producer.mark(topic, epoch=epoch - 1, coordinator_epoch=5) is Err.INVALID_PRODUCER_EPOCH
    assert await producer.mark(topic, epoch=epoch, coordinator_epoch=4) is Err.TRANSACTION_COORDINATOR_FENCED
    assert await producer.mark(topic, epoch=epoch + 1, coordinator_epoch=5) is Err.NONE
    assert await both_ends(kafka, topic) == (3, 3)
    assert await producers(kafka, topic) == [(-1, 5, -1)]
    assert await producer.mark(topic, epoch=epoch, coordinator_epoch=5, partition=99) is Err.UNKNOWN_TOPIC_OR_PARTITION


async def test_txn_7_offsets_that_were_not_announced(kafka: Kafka) -> None:
    producer, topic = await start(kafka)
    assert await producer.commit(topic, 5, group=kafka.group) is kafka.pick(old=Err.NONE, new=Err.INVALID_TXN_STATE)
    if not kafka.old:
        assert await producer.commit(topic, 5, group=kafka.group, version=4) is Err.TRANSACTION_ABORTABLE
        assert await producer.commit(topic, 5, group=kafka.group, version=5) is Err.NONE
    assert await committed(kafka, topic, group=kafka.group, stable=True) == (-1, Err.UNSTABLE_OFFSET_COMMIT)


async def test_txn_8_staged_offsets_and_plain_ones(kafka: Kafka) -> None:
    """Between a transaction's offset and a plain one the later record counts, whenever the transaction ends."""
    producer, topic = await start(kafka)
    group = kafka.group
    for late, wanted in ((False, 30), (True, 20)):
        await producer.add_offsets(group)
        if late:
            assert set((await kafka.commit({(topic, 0): 30})).values()) == {Err.NONE}
        assert await producer.commit(topic, 20, group=group) is Err.NONE
        if not late:
            assert set((await kafka.commit({(topic, 0): 30})).values()) == {Err.NONE}
        assert await committed(kafka, topic, group=group, stable=False) == (30, Err.NONE)
        assert await committed(kafka, topic, group=group, stable=True) == (-1, Err.UNSTABLE_OFFSET_COMMIT)
        await ended(producer, topic, group)
        assert await committed(kafka, topic, group=group, stable=True) == (wanted, Err.NONE)
    await producer.add_offsets(group)
    await producer.commit(topic, 99, group=group)
    await ended(producer, topic, group, commit=False)
    assert await committed(kafka, topic, group=group, stable=True) == (20, Err.NONE)


async def ended(producer: Producer, topic: str, group: str, *, commit: bool = True) -> None:
    """End the transaction, and wait until the group has its end."""
    await producer.end(commit=commit)
    while True:
        recording, producer.kafka.recording.exchanges = producer.kafka.recording.exchanges, []
        _, error = await committed(producer.kafka, topic, group=group, stable=True)
        producer.kafka.recording.exchanges = recording
        if error is Err.NONE:
            return


async def test_txn_9_a_group_that_is_deleted_meanwhile(kafka: Kafka) -> None:
    producer, topic = await start(kafka)
    group = kafka.group
    await producer.add_offsets(group)
    await producer.commit(topic, 5, group=group)
    await kafka.commit({(topic, 0): 2})
    await kafka.forget(group)
    assert await committed(kafka, topic, group=group, stable=True) == (-1, Err.NONE)
    await ended(producer, topic, group)
    assert await committed(kafka, topic, group=group, stable=True) == (-1, Err.NONE)


async def test_txn_10_an_offset_that_is_deleted_meanwhile(kafka: Kafka) -> None:
    producer, topic = await start(kafka)
    group = kafka.group
    await kafka.commit({(topic, 0): 3})
    await producer.add_offsets(group)
    await producer.commit(topic, 9, group=group)
    deleted = OffsetDeleteRequest(
        group, [OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(0), OffsetDeleteRequestPartition(1)])]
    )
    assert (await kafka.ask(deleted, 0)).error_code == Err.NONE
    assert await committed(kafka, topic, group=group, stable=True) == (-1, Err.NONE)
    await ended(producer, topic, group)
    assert await committed(kafka, topic, group=group, stable=True) == (-1, Err.NONE)


async def test_txn_11_who_may_commit_in_a_transaction(kafka: Kafka) -> None:
    producer, topic = await start(kafka)
    group = kafka.group
    for each in (group, kafka.name("new"), kafka.name("simple"), kafka.name("other")):
        await producer.add_offsets(each)
    absent = kafka.pick(old=Err.UNKNOWN_MEMBER_ID, new=Err.ILLEGAL_GENERATION)
    assert await producer.commit(topic, 5, group=kafka.name("new"), member="zz", generation=3) is absent
    assert await producer.commit(topic, 5, group=kafka.name("other"), generation=3) is absent
    assert await producer.commit(topic, 5, group=kafka.name("simple")) is Err.NONE
    assert await producer.commit(topic, 5, group="") is Err.INVALID_GROUP_ID
    assert await producer.commit("nowhere", 5, group=group) is Err.UNKNOWN_TOPIC_OR_PARTITION
    assert (
        await producer.commit(topic, 5, group=kafka.name("simple"), metadata="x" * 200) is Err.OFFSET_METADATA_TOO_LARGE
    )
    [member] = await kafka.stable()
    generation = member.generation
    one = {"group": group, "member": member.id}
    assert await producer.commit(topic, 5, **one, generation=generation) is Err.NONE
    assert await producer.commit(topic, 5, **one, generation=generation - 1) is Err.ILLEGAL_GENERATION
    assert await producer.commit(topic, 5, **one, generation=generation + 1) is Err.ILLEGAL_GENERATION
    assert await producer.commit(topic, 5, **one) is Err.ILLEGAL_GENERATION
    assert await producer.commit(topic, 5, **one, generation=generation, instance="q") is Err.UNKNOWN_MEMBER_ID
    assert await producer.commit(topic, 5, group=group, instance="q") is Err.UNKNOWN_MEMBER_ID
    for version in (0, 2, 3):
        assert await producer.commit(topic, 5, group=group, version=version) is Err.NONE
    await member.enter()
    await kafka.until("CompletingRebalance")
    assert await producer.commit(topic, 5, **one, generation=generation + 1) is Err.NONE
    assert await ends(kafka, topic) == 0


async def test_txn_12_epochs_of_who_commits_in_a_transaction(kafka: Kafka) -> None:
    producer, topic = await start(kafka)
    group = kafka.group
    await producer.add_offsets(group)
    assert await producer.commit(topic, 5, group=group) is Err.NONE
    assert await producer.shifted(-1).commit(topic, 5, group=group) is Err.INVALID_PRODUCER_EPOCH
    assert await producer.under("nobody").commit(topic, 5, group=group) is Err.NONE
    later = await producer.shifted(1).commit(topic, 5, group=group)
    assert later is kafka.pick(old=Err.NONE, new=Err.INVALID_PRODUCER_EPOCH)


@pytest.mark.generations("4.4")
async def test_txn_13_markers_that_say_which_version_of_transactions_they_end(kafka: Kafka) -> None:
    """WriteTxnMarkers v2 (KIP-1228): in version 2 the marker of an open transaction has an epoch above that of its records."""
    producer, topic = await start(kafka)
    await producer.produce(topic, 0, version=12)
    epoch = producer.epoch
    marked = [await producer.mark(topic, epoch=epoch, coordinator_epoch=5, flow=flow) for flow in (3, 2, 1, 2, 0)]
    assert marked == [Err.INVALID_PRODUCER_EPOCH, Err.INVALID_PRODUCER_EPOCH, Err.NONE, Err.NONE, Err.NONE]
    assert await both_ends(kafka, topic) == (4, 4)
    for flow in (0, 1, 2):
        assert await producer.mark(topic, epoch=epoch - 1, coordinator_epoch=5, flow=flow) is Err.INVALID_PRODUCER_EPOCH
        assert (
            await producer.mark(topic, epoch=epoch, coordinator_epoch=4, flow=flow)
            is Err.TRANSACTION_COORDINATOR_FENCED
        )
    later = producer.shifted(1)
    await later.produce(topic, 0)
    assert await producer.mark(topic, epoch=epoch + 2, coordinator_epoch=5, flow=2) is Err.NONE
    assert await producers(kafka, topic) == [(-1, 5, -1)]
    assert await producer.mark(topic, epoch=epoch + 2, coordinator_epoch=5, flow=2) is Err.NONE  # it is sent once more
    assert await producer.mark("nowhere", epoch=9, coordinator_epoch=5, flow=2) is Err.UNKNOWN_TOPIC_OR_PARTITION
    await both_ends(kafka, topic)


@pytest.mark.generations("4.4")
async def test_txn_18_markers_of_a_version_that_is_not_known(kafka: Kafka) -> None:
    """-1 is what brokers say inside where they don't know it: no marker may."""
    producer, topic = await start(kafka)
    stranger = Producer(kafka, "", producer.producer_id + 100_000)
    for flow in (127, -2, -128, -1):
        await stranger.mark(topic, epoch=3, coordinator_epoch=5, flow=flow)
        await both_ends(kafka, topic)
    await stranger.mark(topic, epoch=2, coordinator_epoch=5, flow=-1)
    await stranger.mark(topic, epoch=3, coordinator_epoch=4, flow=-1)
    await stranger.mark("nowhere", epoch=3, coordinator_epoch=4, flow=-1)
    other = replace(stranger, producer_id=stranger.producer_id + 1)
    await other.mark(topic, epoch=3, coordinator_epoch=5, flow=-1)
    two = [
        WritableTxnMarker(one.producer_id, 3, False, [WritableTxnMarkerTopic(topic, [0])], 5)
        for one in (stranger, other)
    ]
    two[0].transaction_version = -1
    for markers in (two, two[::-1]):
        answer = await kafka.watch(WriteTxnMarkersRequest(markers), 2)
        told = [Err(one.topics[0].partitions[0].error_code) for one in answer.markers]
        assert sorted(told) == [Err.UNKNOWN_SERVER_ERROR, Err.NONE]
        await both_ends(kafka, topic)


@pytest.mark.generations("4.4")
async def test_txn_14_offsets_of_topics_by_their_ids(kafka: Kafka) -> None:
    """TxnOffsetCommit v6."""
    producer, topic = await start(kafka)
    group = kafka.group
    described = await kafka.watch(MetadataRequest([MetadataRequestTopic(name=topic)]), 12)
    topic_id = described.topics[0].topic_id
    by_id = {"group": group, "version": 6, "topic_id": topic_id}
    assert await producer.commit("", 5, **by_id) is Err.NONE
    assert await producer.commit("", 5, **by_id, partition=9) is Err.UNKNOWN_TOPIC_OR_PARTITION
    assert await producer.commit("", 5, **{**by_id, "topic_id": b"\1" * 16}) is Err.UNKNOWN_TOPIC_ID
    assert await producer.commit("", 5, **{**by_id, "topic_id": ZERO_UUID}) is Err.UNKNOWN_TOPIC_ID
    assert await producer.commit("", 5, **by_id, metadata="x" * 200) is Err.OFFSET_METADATA_TOO_LARGE
    assert await producer.commit("", 5, **by_id, member="zz", generation=3) is Err.UNKNOWN_MEMBER_ID
    assert await producer.shifted(-1).commit("", 5, **by_id) is Err.INVALID_PRODUCER_EPOCH
    assert await committed(kafka, topic, group=group, stable=True) == (-1, Err.UNSTABLE_OFFSET_COMMIT)
    await ended(producer, topic, group)
    assert await committed(kafka, topic, group=group, stable=True) == (5, Err.NONE)


async def test_txn_15_a_new_epoch_begins_at_sequence_0(kafka: Kafka) -> None:
    """With Produce v12 the partition is in the transaction before the batch is refused: it gets a marker."""
    producer, topic = await start(kafka)
    await producer.add(topic, 0)
    await producer.produce(topic, 0)
    await producer.end(topic=topic)
    await producer.begin()
    version = kafka.pick(old=TX1, new=12)
    if kafka.old:
        await producer.add(topic, 0)
    assert await producer.produce(topic, 1, version=version) is Err.OUT_OF_ORDER_SEQUENCE_NUMBER
    await both_ends(kafka, topic)
    await producer.end(commit=False)
    while await offset_of_end(kafka, topic, 0) < 3:
        pass
    assert await both_ends(kafka, topic) == (3, 3)


async def test_txn_16_the_last_five_batches_of_an_idempotent_producer(kafka: Kafka) -> None:
    producer, topic = await start(kafka)
    kind = {"in_transaction": False}
    assert await producer.produce(topic, 7, **kind) is Err.NONE  # who is not known begins anywhere
    for sequence in range(8, 15):
        assert await producer.produce(topic, sequence, **kind) is Err.NONE
    assert await producer.produce(topic, 10, **kind) is Err.NONE
    assert await producer.produce(topic, 9, **kind) is Err.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert await producer.produce(topic, 14, count=2, **kind) is Err.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert await producer.produce(topic, 16, **kind) is Err.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert await producer.shifted(1).produce(topic, 15, **kind) is Err.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert await producer.shifted(1).produce(topic, 0, **kind) is Err.NONE
    assert await producer.produce(topic, 15, **kind) is Err.INVALID_PRODUCER_EPOCH
    assert await both_ends(kafka, topic) == (9, 9)


async def test_txn_17_sequences_begin_again_behind_the_last(kafka: Kafka) -> None:
    producer, topic = await start(kafka)
    last = 2**31 - 1
    assert await producer.produce(topic, last - 1, in_transaction=False) is Err.NONE
    assert await producer.produce(topic, last, count=2, in_transaction=False) is Err.NONE  # its second one is 0
    assert await producer.produce(topic, 1, in_transaction=False) is Err.NONE
    assert await producer.produce(topic, last, count=2, in_transaction=False) is Err.NONE
    assert await both_ends(kafka, topic) == (4, 4)
