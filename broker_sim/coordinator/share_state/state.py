"""The state of one share group in one partition, `ShareState`, and its changes by records.

Source: ShareGroupOffset.java, ShareCoordinatorShard.handleShareSnapshot and handleShareUpdate (4.x).
"""

from __future__ import annotations

from typing import NamedTuple

from broker_sim.coordinator.shard_loader import OtherRecord
from broker_sim.coordinator.share_state.batches import StateBatch, combined
from kafka_wire import share_state_log as log
from kafka_wire.codec import DecodeError
from kafka_wire.remembered import remembered

NOWHERE = -1
"""The start offset of a group that has read nothing of a partition yet."""
UNCOUNTED = -1
"""The number of completed records if it is not counted (4.1)."""


class ShareKey(NamedTuple):
    """A share group in a partition."""

    group_id: str
    topic_id: bytes
    partition: int


class ShareState(NamedTuple):
    """``snapshot_epoch`` counts the snapshots, ``state_epoch`` is the group's epoch at the initialization, ``leader_epoch`` that of the
    partition leader that writes. Records below ``start_offset`` are completed; ``batches`` has the state of delivered records from
    there on, of which ``complete_count`` are completed. ``updates``: records since the snapshot."""

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    complete_count: int = UNCOUNTED
    batches: tuple[StateBatch, ...] = ()
    created_ms: int = 0
    written_ms: int = 0
    updates: int = 0


class ShareRecord(NamedTuple):
    """A record as the log has it; ``value`` None removes."""

    key: ShareKey
    value: log.Value | None


def applied(state: ShareState | None, value: log.Value | None) -> ShareState | None:
    """The state after a record. An update that no snapshot came before, which compaction may leave, begins as if one had."""
    if value is None:
        return None
    if isinstance(value, log.ShareSnapshotValue):
        return ShareState(
            value.snapshot_epoch,
            value.state_epoch,
            value.leader_epoch,
            value.start_offset,
            value.delivery_complete_count,
            tuple(
                StateBatch(b.first_offset, b.last_offset, b.delivery_state, b.delivery_count)
                for b in value.state_batches
            ),
            value.create_timestamp,
            value.write_timestamp,
        )
    before = state or ShareState(value.snapshot_epoch, 0, value.leader_epoch, value.start_offset)
    start_offset = before.start_offset if value.start_offset == NOWHERE else value.start_offset
    updates = [
        StateBatch(b.first_offset, b.last_offset, b.delivery_state, b.delivery_count) for b in value.state_batches
    ]
    return ShareState(
        before.snapshot_epoch,
        before.state_epoch,
        before.leader_epoch if value.leader_epoch == -1 else value.leader_epoch,
        start_offset,
        value.delivery_complete_count,
        combined([*before.batches, *updates], start_offset),
        before.created_ms,
        before.written_ms,
        before.updates + 1,
    )


def snapshot(state: ShareState) -> log.ShareSnapshotValue:
    """The record's value with the whole state."""
    return log.ShareSnapshotValue(
        snapshot_epoch=state.snapshot_epoch,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.complete_count,
        create_timestamp=state.created_ms,
        write_timestamp=state.written_ms,
        state_batches=listed(state.batches),
    )


def listed(batches: tuple[StateBatch, ...]) -> list[log.StateBatch]:
    """As the log's messages have them."""
    return [log.StateBatch(batch.first, batch.last, batch.state, batch.deliveries) for batch in batches]


def encode(record: ShareRecord) -> tuple[bytes, bytes | None]:
    """Key and value as Kafka writes them; a state ends with the tombstone of its snapshots."""
    value = record.value
    key = _encoded_key(record.key, isinstance(value, log.ShareUpdateValue))
    return key, None if value is None else log.encode_value(value)


@remembered(entries=4096, size=lambda key: len(key.group_id))
def _encoded_key(key: ShareKey, of_update: bool) -> bytes:
    """A partition's updates have all the same key."""
    return log.encode_key((log.ShareUpdateKey if of_update else log.ShareSnapshotKey)(*key))


def decode(key: bytes | None, value: bytes | None) -> ShareRecord:
    """Decode a record of `encode`. Raises OtherRecord for records that Kafka skips, DecodeError for records that it can't read."""
    if key is None:
        raise OtherRecord("without a key")
    read = log.decode_key(key)
    if read is None:
        raise OtherRecord(f"type {int.from_bytes(key[:2], 'big', signed=True)}")
    if not read.group_id:
        raise DecodeError("a share group's state without a group")
    decoded = None if value is None else log.decode_value(read, value)
    return ShareRecord(ShareKey(read.group_id, read.topic_id, read.partition), decoded)
