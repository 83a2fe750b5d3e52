"""Idempotent producers of one log: sequence numbers, epochs, the last batches for recognising a resend.

Rules:
1. `check` refuses or recognises a batch and changes nothing; `update` accounts for one that is in the log.
2. A resend of one of the last five batches of a producer is answered with the offsets that it got.
3. A producer that is not known (never was, expired, its records deleted) may begin with any sequence number (KIP-360).
Source: ProducerStateManager, ProducerAppendInfo, ProducerStateEntry (storage).
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

import google_crc32c

from broker_sim.storage.errors import InvalidProducerEpoch, OutOfOrderSequence
from kafka_wire.record_batch import MAX_SEQUENCE, NO_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, BatchHeader

KEPT_BATCHES = 5

_SNAPSHOT_HEAD = struct.Struct(">hI")
_SNAPSHOT_ENTRY = struct.Struct(">qhiqiqiq")


class ProducedBatch(NamedTuple):
    """What is kept of a batch; sequences wrap after 2**31 - 1."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class ProducerEntry:
    """One producer: its epoch, its last batches, the start of its open transaction (-1: none)."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_timestamp", "producer_id", "transaction_start")

    def __init__(self, producer_id: int, epoch: int = NO_EPOCH) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.batches: deque[ProducedBatch] = deque(maxlen=KEPT_BATCHES)
        self.last_timestamp = -1
        self.coordinator_epoch = -1
        self.transaction_start = -1

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else -1


class ProducerState:
    """All producers of a log."""

    def __init__(self) -> None:
        self.entries: dict[int, ProducerEntry] = {}

    def check(self, header: BatchHeader) -> ProducedBatch | None:
        """The earlier batch that `header` (from a client) repeats, or None for one that may be appended.

        Raises InvalidProducerEpoch, OutOfOrderSequence.
        """
        entry = self.entries.get(header.producer_id)
        if entry is None:
            return None
        if header.producer_epoch == entry.epoch:
            wanted = (header.base_sequence, header.last_sequence)
            for batch in entry.batches:
                if (batch.first_sequence, batch.last_sequence) == wanted:
                    return batch
        elif header.producer_epoch < entry.epoch:
            raise InvalidProducerEpoch(
                f"Epoch of producer {header.producer_id} is {header.producer_epoch}, "
                f"which is smaller than the last seen epoch {entry.epoch}"
            )
        elif entry.epoch != NO_EPOCH:
            if header.base_sequence != 0:
                raise OutOfOrderSequence(
                    f"Invalid sequence number for new epoch of producer {header.producer_id}: "
                    f"{header.producer_epoch} (request epoch), {header.base_sequence} (seq. number), "
                    f"{entry.epoch} (current producer epoch)"
                )
            return None
        if entry.epoch != NO_EPOCH and not follows(entry.last_sequence, header.base_sequence):
            raise OutOfOrderSequence(
                f"Out of order sequence number for producer {header.producer_id}: {header.base_sequence} "
                f"(incoming seq. number), {entry.last_sequence} (current end sequence number)"
            )
        return None

    def update(self, header: BatchHeader, base_offset: int, control_coordinator_epoch: int | None = None) -> None:
        """Account for a batch at `base_offset`; a control batch ends the producer's transaction."""
        producer_id = header.producer_id
        if producer_id == NO_PRODUCER_ID:
            return
        entry = self.entries.get(producer_id)
        if entry is None:
            entry = self.entries[producer_id] = ProducerEntry(producer_id, header.producer_epoch)
        elif entry.epoch != header.producer_epoch:
            entry.batches.clear()
            entry.epoch = header.producer_epoch
        entry.last_timestamp = header.max_timestamp
        if header.is_control:
            entry.transaction_start = -1
            if control_coordinator_epoch is not None:
                entry.coordinator_epoch = control_coordinator_epoch
            return
        last_offset = base_offset + header.last_offset_delta
        entry.batches.append(
            ProducedBatch(header.base_sequence, header.last_sequence, base_offset, last_offset, header.max_timestamp)
        )
        if header.is_transactional and entry.transaction_start < 0:
            entry.transaction_start = base_offset

    def replay(self, headers: Iterable[BatchHeader]) -> None:
        """Account for batches as they stand in the log."""
        for header in headers:
            self.update(header, header.base_offset)

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Forget producers that were silent for `expiration_ms` and have no open transaction."""
        gone = [
            entry.producer_id
            for entry in self.entries.values()
            if entry.transaction_start < 0 and now_ms - entry.last_timestamp >= expiration_ms
        ]
        for producer_id in gone:
            del self.entries[producer_id]

    @property
    def first_unstable_offset(self) -> int | None:
        """Where the earliest open transaction began."""
        starts = [entry.transaction_start for entry in self.entries.values() if entry.transaction_start >= 0]
        return min(starts, default=None)


def encode_snapshot(state: ProducerState) -> bytes:
    """The producers as Kafka's `.snapshot` file holds them: version 1, CRC-32C of the rest, one entry each."""
    entries = [
        _SNAPSHOT_ENTRY.pack(
            entry.producer_id,
            entry.epoch,
            entry.last_sequence,
            entry.last_offset,
            last.last_offset - last.first_offset if (last := entry.batches[-1] if entry.batches else None) else 0,
            entry.last_timestamp,
            entry.coordinator_epoch,
            entry.transaction_start,
        )
        for entry in state.entries.values()
    ]
    body = struct.pack(">i", len(entries)) + b"".join(entries)
    return _SNAPSHOT_HEAD.pack(1, google_crc32c.value(body)) + body


def decode_snapshot(data: bytes) -> ProducerState | None:
    """The opposite; None for bytes that are no such file. Of the last batches only the very last is in it."""
    if len(data) < _SNAPSHOT_HEAD.size + 4:
        return None
    version, crc = _SNAPSHOT_HEAD.unpack_from(data)
    body = data[_SNAPSHOT_HEAD.size :]
    (count,) = struct.unpack_from(">i", body)
    if version != 1 or crc != google_crc32c.value(body) or len(body) != 4 + count * _SNAPSHOT_ENTRY.size:
        return None
    state = ProducerState()
    for row in _SNAPSHOT_ENTRY.iter_unpack(body[4:]):
        producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator_epoch, start = row
        entry = state.entries[producer_id] = ProducerEntry(producer_id, epoch)
        entry.last_timestamp = timestamp
        entry.coordinator_epoch = coordinator_epoch
        entry.transaction_start = start
        if last_sequence >= 0:
            first_sequence = (last_sequence - delta) & MAX_SEQUENCE
            entry.batches.append(
                ProducedBatch(first_sequence, last_sequence, last_offset - delta, last_offset, timestamp)
            )
    return state


def follows(last_sequence: int, sequence: int) -> bool:
    """Whether `sequence` is the one after `last_sequence`, with the wrap to 0."""
    return sequence == last_sequence + 1 or (sequence == 0 and last_sequence == MAX_SEQUENCE)
