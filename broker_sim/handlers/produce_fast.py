"""Produce's fast path: one batch for one partition, read from the frame and answered in bytes.

Rules:
1. It answers what `k00_produce.handle` would answer, to the byte, or leaves the request to it: anything but a plain
   success - acks=0, several partitions, tagged fields, a held partition, many records, any error - is left, before
   anything has happened.
2. A batch that the log refuses has left no trace, so the refusal too is left to the general path, which finds it again.
"""

from __future__ import annotations

import struct
from functools import partial
from typing import cast

from broker_sim.common.slices import first_piece
from broker_sim.metadata.cluster_state import Broker, Partition
from broker_sim.metadata.topics import INTERNAL_TOPICS
from broker_sim.requests.context import ConnectionLike, FastHandler
from broker_sim.storage import StorageError
from broker_sim.storage.validation import is_short, may_be_quick
from kafka_wire.record_batch import TRANSACTIONAL_BIT, RecordBatchError, produce_batch
from kafka_wire.wire import read_uvarint

_ACKS = struct.Struct(">hi")  # acks, timeout
_OLD_HEAD = struct.Struct(">hhiih")  # transactional id's length, acks, timeout, number of topics, length of the name
_OLD_PARTITION = struct.Struct(">iii")  # number of partitions, index, length of the records
_INDEX = struct.Struct(">i")
_ONE = struct.pack(">i", 1)

_ALL, _LEADER = -1, 1

_Found = tuple[int, bytes, int]
"""acks; the frame's bytes with topic and partition; the position of the records, which extend to the frame's end except
for the three empty tag sections of the flexible versions.
"""


def _compact_request(frame: bytes, at: int, by_id: bool) -> _Found | None:
    """The one batch of a request of version 9 and up; None for any other shape."""
    if frame[at] != 0 or frame[at + 7] != 2:
        return None  # a transactional id, or not one topic
    acks, _ = _ACKS.unpack_from(frame, at + 1)
    start = at + 8
    size = 16 if by_id else frame[start]
    at = start + size
    if not 2 <= size <= 127 or frame[at] != 2:
        return None  # a name that is empty or long, or not one partition
    length, records = read_uvarint(frame, at + 5)
    if length == 0 or records + length + 2 != len(frame) or frame[-3:] != b"\0\0\0":
        return None  # null, cut short, or tagged fields
    return acks, frame[start : at + 5], records


def _old_request(frame: bytes, at: int, _: bool) -> _Found | None:
    """The same for versions 3 to 8."""
    if len(frame) < at + 28:
        return None  # no topic, or none with a partition
    tid, acks, _timeout, topics, size = _OLD_HEAD.unpack_from(frame, at)
    if tid != -1 or topics != 1 or size <= 0:
        return None
    start = at + 12
    at = start + 2 + size
    if len(frame) < at + 12:
        return None
    partitions, _index, length = _OLD_PARTITION.unpack_from(frame, at)
    if partitions != 1 or length < 0 or at + 12 + length != len(frame):
        return None
    return acks, frame[start : at + 8], at + 12


def _find(broker: Broker, key: bytes, version: int) -> Partition | None:
    """The partition that the key names, where this broker takes any client's batches for it with any acks."""
    state = broker.state
    (index,) = _INDEX.unpack_from(key, len(key) - 4)
    if version >= 13:
        topic = state.topics_by_id.get(key[:16])
    else:
        topic = state.topics.get(str(key[1:-5] if version >= 9 else key[2:-8], "utf-8", "replace"))
    if topic is None or not 0 <= index < len(topic.partitions) or topic.name in INTERNAL_TOPICS:
        return None
    partition: Partition = topic.partitions[index]
    if partition.leader != broker.node_id or len(partition.isr) < state.min_isr(partition):
        return None
    return partition


def _answer(version: int, connection: ConnectionLike, frame: bytes, body: int, correlation_id: int) -> bytes | None:
    flexible = version >= 9
    request = (_compact_request if flexible else _old_request)(frame, body, version >= 13)
    if request is None:
        return None
    acks, key, at = request
    broker = connection.broker
    state = broker.state
    known = state.answers.get((broker.node_id, version, key))
    if known is None:
        partition = _find(broker, key, version)
        if partition is None:
            return None
        state.keep_answer((broker.node_id, version, key), partition)
    else:
        partition = cast(Partition, known)
    if acks != _LEADER and (acks != _ALL or partition.high_watermark_frozen):
        return None
    records = frame[at:-3] if flexible else frame[at:]
    try:
        header = produce_batch(records, version)
        if header.attributes & TRANSACTIONAL_BIT or not may_be_quick(header):
            return None
        now_ms, checked = state.clock.now_ms(), None
        if not is_short(header):
            checked = first_piece(partition.checking(records, now_ms=now_ms, header=header))
            if checked is None:
                return None
        info = partition.append(records, now_ms=now_ms, header=header, checked=checked)
    except (RecordBatchError, StorageError):
        return None
    time_ms = info.max_timestamp if info.duplicate else info.log_append_time_ms
    start = partition.log.log_start_offset
    if flexible:
        return b"".join((b"\x02", key, _NEW.pack(0, info.base_offset, time_ms, start, 1, 0, 0, 0, 0, 0)))
    return _encode_old(version, key, info.base_offset, time_ms, start)


_NEW = struct.Struct(
    ">hqqqbbbbib"
)  # error, offsets and time; no record errors, no message, no tags; throttle time; no tags
_V8 = struct.Struct(">hqqqihi")
_V5 = struct.Struct(">hqqqi")
_V3 = struct.Struct(">hqqi")


def _encode_old(version: int, key: bytes, base: int, time_ms: int, start: int) -> bytes:
    """One topic, one partition, no error; throttle time 0."""
    if version == 8:
        return _ONE + key + _V8.pack(0, base, time_ms, start, 0, -1, 0)
    if version >= 5:
        return _ONE + key + _V5.pack(0, base, time_ms, start, 0)
    return _ONE + key + _V3.pack(0, base, time_ms, 0)


FAST: dict[int, FastHandler] = {version: partial(_answer, version) for version in range(3, 14)}
