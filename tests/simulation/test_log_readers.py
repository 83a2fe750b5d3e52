"""The readers of internal logs in sweeps: what compaction removed, and what is written at one moment, breaks no rule."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from broker_sim.metadata.topics import SHARE_STATE_TOPIC
from broker_sim.simulation.checks.answers import InvariantBroken
from broker_sim.simulation.checks.epochs import EpochLog
from broker_sim.simulation.checks.share_log import ARCHIVED, ShareLog
from kafka_wire import offsets_log, share_state_log
from kafka_wire.messages import offsets_log as schema
from kafka_wire.record_batch import Record, batches, encode_batch, records
from kafka_wire.share_state_log import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
    StateBatch,
)

TOPIC = bytes(range(16))


class Batch:
    """A batch of a log, as its readers get it."""

    def __init__(self, offset: int, at_ms: int, pairs: list[tuple[bytes, bytes | None]]) -> None:
        rows = [Record(offset + number, at_ms, key, value) for number, (key, value) in enumerate(pairs)]
        self.data = encode_batch(rows, base_offset=offset)
        (_, self.header) = next(iter(batches(self.data)))

    def records(self) -> list[Record]:
        return list(records(self.data))


def partition(*written: Batch) -> Any:
    """A partition with these batches, all of them committed."""
    log = SimpleNamespace(
        log_start_offset=0,
        batches=lambda start: (batch for batch in written if batch.header.next_offset > start),
    )
    return SimpleNamespace(index=0, high_watermark=written[-1].header.next_offset, log=log)


def member(name: str) -> tuple[bytes, bytes]:
    key = offsets_log.encode_key(
        offsets_log.CONSUMER_GROUP_MEMBER_METADATA, schema.ConsumerGroupMemberMetadataKey("g", name)
    )
    return key, offsets_log.encode_value(0, schema.ConsumerGroupMemberMetadataValue(client_id=name))


def holds(name: str, *numbers: int) -> tuple[bytes, bytes]:
    key = offsets_log.encode_key(
        offsets_log.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT, schema.ConsumerGroupCurrentMemberAssignmentKey("g", name)
    )
    parts = [schema.TopicPartitions(TOPIC, list(numbers))] if numbers else []
    return key, offsets_log.encode_value(0, schema.ConsumerGroupCurrentMemberAssignmentValue(0, 0, 0, parts, []))


@pytest.mark.parametrize("is_removed", [False, True])
def test_a_batch_that_compaction_removed_whole_may_have_released_a_partition(is_removed: bool) -> None:
    found: list[InvariantBroken] = []
    offset = 5 if is_removed else 4
    written = partition(
        Batch(0, 1, [member("ann"), holds("ann", 0)]), Batch(2, 2, [member("bob"), holds("bob")]),
        Batch(offset, 3, [holds("bob", 0)]), Batch(offset + 1, 4, [holds("ann")]),
    )  # fmt: skip
    EpochLog("g", lambda: written, found.append, 0).catch_up()
    assert [error.name for error in found] == ([] if is_removed else ["a partition has one owner"])


@pytest.mark.parametrize("is_one_moment", [False, True])
def test_updates_of_one_moment_do_not_show_that_the_start_offset_lags(is_one_moment: bool) -> None:
    snapshot = share_state_log.encode_key(ShareSnapshotKey("g", TOPIC, 0))
    update = share_state_log.encode_key(ShareUpdateKey("g", TOPIC, 0))
    begin = share_state_log.encode_value(ShareSnapshotValue(0, 1, 0, 0, -1, 0, 0, []))
    written = [Batch(0, 1, [(snapshot, begin)])]
    for number in range(10):
        value = ShareUpdateValue(0, 0, 0, -1, [StateBatch(number, number, ARCHIVED, 3)])
        at_ms = 2 if is_one_moment else 2 + number
        written.append(Batch(number + 1, at_ms, [(update, share_state_log.encode_value(value))]))
    found: list[InvariantBroken] = []
    state: Any = SimpleNamespace(topics={SHARE_STATE_TOPIC: SimpleNamespace(partitions=[partition(*written)])})
    ShareLog("g", state, found.append, 3, counts_all=True).catch_up()
    assert {error.name for error in found} == (
        set() if is_one_moment else {"the share-partition start offset keeps up"}
    )
