"""The messages of ``__share_group_state`` (KIP-932)."""

from __future__ import annotations

from kafka_wire.schema import ZERO_UUID, array, int8, int16, int32, int64, message, string, struct, uuid


@message("0", api_key=0)
class ShareSnapshotKey:
    group_id: str = string("0", default="")
    topic_id: bytes = uuid("0", default=ZERO_UUID)
    partition: int = int32("0", default=0)


@struct
class StateBatch:
    first_offset: int = int64(default=0)
    last_offset: int = int64(default=0)
    delivery_state: int = int8(default=0)
    delivery_count: int = int16(default=0)


@message("0", flexible="0+", api_key=0)
class ShareSnapshotValue:
    snapshot_epoch: int = int32(default=0)
    state_epoch: int = int32(default=0)
    leader_epoch: int = int32(default=0)
    start_offset: int = int64(default=0)
    delivery_complete_count: int = int32(tag=0, tagged="0+", default=-1)
    create_timestamp: int = int64(default=0)
    write_timestamp: int = int64(default=0)
    state_batches: list[StateBatch] = array(StateBatch, default_factory=list)


@message("0", api_key=1)
class ShareUpdateKey:
    group_id: str = string("0", default="")
    topic_id: bytes = uuid("0", default=ZERO_UUID)
    partition: int = int32("0", default=0)


@message("0", flexible="0+", api_key=1)
class ShareUpdateValue:
    snapshot_epoch: int = int32(default=0)
    leader_epoch: int = int32(default=0)
    start_offset: int = int64(default=0)
    delivery_complete_count: int = int32(tag=0, tagged="0+", default=-1)
    state_batches: list[StateBatch] = array(StateBatch, default_factory=list)
