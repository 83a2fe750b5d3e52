"""TxnOffsetCommit: what is looked at before the group is, and its way through the group's log."""

from __future__ import annotations

import pytest

from broker_sim.coordinator.queries import committed
from broker_sim.runtime.group_coordinator import GroupCoordinator
from broker_sim.runtime.transaction_coordinator import TransactionCoordinator
from kafka_wire.errors import Err
from kafka_wire.messages.k22_init_producer_id import InitProducerIdRequest
from kafka_wire.messages.k26_end_txn import EndTxnRequest
from kafka_wire.messages.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kafka_wire.messages.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.support.ctx import FakeContext, Sim

TX, GROUP = "billing", "readers"


class World:
    """A broker with both coordinators, and one producer."""

    def __init__(self) -> None:
        config = {"transaction.state.log.num.partitions": 1, "offsets.topic.num.partitions": 1}
        self.sim = Sim(topics={"t": 2}, config={**config, "offset.metadata.max.bytes": 10}, as_version="4.4")
        state = self.sim.state
        state.ensure_internal_topic("__transaction_state")
        self.log = state.ensure_offsets_topic().partitions[0]
        self.sim.coordinators.transactions = TransactionCoordinator(state)
        self.groups = self.sim.coordinators.groups = GroupCoordinator(state)
        answer = self.sim.call(InitProducerIdRequest(TX, 60_000), 4)
        self.producer = answer.producer_id, answer.producer_epoch

    def start(
        self,
        *partitions: tuple[int, int, str],
        version: int = 5,
        group: str = GROUP,
        topic: str = "t",
        member: tuple[str, int] = ("", -1),
    ) -> FakeContext:
        """``partitions``: index, offset, metadata."""
        known = self.sim.state.topics.get(topic)
        parts = [TxnOffsetCommitRequestPartition(index, offset, -1, text) for index, offset, text in partitions]
        asked = TxnOffsetCommitRequestTopic(topic, bytes(16) if known is None else known.topic_id, parts)
        member_id, epoch = member
        request = TxnOffsetCommitRequest(TX, group, *self.producer, epoch, member_id, topics=[asked])
        return self.sim.start(request, version)

    def errors(self, *partitions: tuple[int, int, str], **more: object) -> list[Err]:
        ctx = self.start(*partitions, **more)  # type: ignore[arg-type]
        assert ctx.answered
        return [Err(one.error_code) for topic in ctx.response.topics for one in topic.partitions]

    def end(self, *, commit: bool) -> None:
        answer = self.sim.call(EndTxnRequest(TX, *self.producer, commit), 5)
        assert answer.error_code == Err.NONE
        self.producer = answer.producer_id, answer.producer_epoch

    def offsets(self) -> dict[str, dict[int, int]]:
        shard = self.groups.shard(0)
        assert shard is not None
        return {t: {p: o.offset for p, o in parts.items()} for t, parts in committed(shard, GROUP).items()}


def test_offsets_count_with_their_transaction() -> None:
    world = World()
    assert world.errors((0, 5, ""), (1, 6, "")) == [Err.NONE, Err.NONE]
    assert world.offsets() == {}
    world.end(commit=True)
    assert world.offsets() == {"t": {0: 5, 1: 6}}
    world.sim.clock.advance(1)  # the transaction's log is told that the markers are there
    assert world.errors((0, 9, "")) == [Err.NONE]
    world.end(commit=False)
    assert world.offsets() == {"t": {0: 5, 1: 6}}


def test_each_of_its_batches_has_the_base_sequence_0() -> None:
    """So that the log's state of the producer ends with the number of the last batch's records (as 3.4.0 to 4.4.0 have it)."""
    world = World()
    world.errors((0, 5, ""), (1, 6, ""))
    world.errors((0, 7, ""))
    world.errors((1, 8, ""), (0, 9, ""), (0, 9, ""))
    batches = [batch.header for batch in world.log.log.batches() if batch.header.producer_id >= 0]
    assert [(header.base_sequence, header.record_count) for header in batches] == [(0, 2), (0, 1), (0, 3)]
    assert world.log.log.producers.entries[world.producer[0]].last_sequence == 2
    world.end(commit=True)
    assert world.offsets() == {"t": {0: 9, 1: 8}}


def test_while_the_group_s_log_is_stuck_nothing_of_it_counts() -> None:
    """And when it goes on everything comes in its order: the offsets, their marker."""
    world = World()
    world.errors((0, 5, ""))
    world.log.high_watermark_frozen = True
    late = world.start((1, 6, ""))
    assert not late.answered
    world.end(commit=True)
    assert world.offsets() == {}
    world.log.unfreeze_high_watermark()
    assert [one.error_code for one in late.response.topics[0].partitions] == [Err.NONE]
    assert world.offsets() == {"t": {0: 5, 1: 6}}


@pytest.mark.parametrize(
    ("of", "errors"),
    [
        ({"group": ""}, [Err.INVALID_GROUP_ID]),
        ({"topic": "nowhere"}, [Err.UNKNOWN_TOPIC_OR_PARTITION]),
        ({"topic": "nowhere", "version": 6}, [Err.UNKNOWN_TOPIC_ID]),
        ({"version": 6}, [Err.NONE]),
        ({"version": 4}, [Err.TRANSACTION_ABORTABLE]),
        ({"version": 3}, [Err.INVALID_TXN_STATE]),
    ],
)
def test_what_is_refused(of: dict[str, object], errors: list[Err]) -> None:
    assert World().errors((0, 5, ""), **of) == errors


def test_metadata_that_is_too_long_is_one_partition_s_error() -> None:
    """Unknown partitions come first in the answer (TxnOffsetCommitResponse.Builder.merge)."""
    world = World()
    assert world.errors((0, 5, "x" * 11), (1, 6, ""), (7, 8, "")) == [
        Err.UNKNOWN_TOPIC_OR_PARTITION,
        Err.OFFSET_METADATA_TOO_LARGE,
        Err.NONE,
    ]
    world.end(commit=True)
    assert world.offsets() == {"t": {1: 6}}


@pytest.mark.parametrize(("version", "error"), [(5, Err.ILLEGAL_GENERATION), (6, Err.GROUP_ID_NOT_FOUND)])
def test_a_group_that_does_not_exist_has_an_error_of_its_own_since_v6(version: int, error: Err) -> None:
    """OffsetMetadataManager.validateTransactionalOffsetCommit of 4.4.0."""
    assert World().errors((0, 5, ""), version=version, member=("m", 3)) == [error]


@pytest.mark.parametrize(("version", "error"), [(5, Err.ILLEGAL_GENERATION), (6, Err.STALE_MEMBER_EPOCH)])
def test_a_stale_epoch_has_an_error_of_its_own_since_v6(version: int, error: Err) -> None:
    """The same."""
    world = World()
    joined = world.sim.call(ConsumerGroupHeartbeatRequest(GROUP, "m", 0, None, None, 60_000, ["t"], None, None, []), 1)
    assert joined.error_code == Err.NONE
    assert world.errors((0, 5, ""), version=version, member=("m", joined.member_epoch)) == [Err.NONE]
    assert world.errors((0, 5, ""), version=version, member=("m", joined.member_epoch + 1)) == [error]
