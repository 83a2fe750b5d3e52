"""Producers of one log: sequence numbers, epochs, the last batches for recognising a resend, and their transactions.

Rules:
1. `check` and its like refuse or recognise a batch and change nothing; `update` accounts for one that is in the log.
2. A resend of one of the last five batches of a producer is answered with the offsets that it got.
3. A producer that is not known (never was, expired, its records deleted) may begin with any sequence number (KIP-360); with 0 alone
   where its partitions are added to its transaction on the way (Produce v12, KIP-890).
4. A producer has one transaction at most in a log. Its first transactional batch opens it, a marker ends it, and nothing
   else: `update` returns the transaction that a marker ends. The state is a function of the log.
5. `verifying` holds what is asked of a transaction's coordinator meanwhile (KIP-890). It is of this process, not of the log.
Source: ProducerStateManager, ProducerAppendInfo, ProducerStateEntry, VerificationStateEntry (storage).
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

import google_crc32c

from broker_sim.storage.errors import (
    InvalidProducerEpoch,
    InvalidTransactionState,
    OutOfOrderSequence,
    TransactionCoordinatorFenced,
)
from kafka_wire.end_markers import BatchProducer, EndMarker, end_marker
from kafka_wire.record_batch import (
    CONTROL_BIT,
    MAX_SEQUENCE,
    NO_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_BIT,
    BatchHeader,
)

KEPT_BATCHES = 5

_SNAPSHOT_HEAD = struct.Struct(">hI")
_SNAPSHOT_ENTRY = struct.Struct(">qhiqiqiq")
_NO_COORDINATOR = -1
"""The coordinator's epoch before a producer's first marker (ProducerStateEntry.empty)."""


class ProducedBatch(NamedTuple):
    """The remembered part of a batch; sequences wrap after 2**31 - 1."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class EndedTransaction(NamedTuple):
    """A transaction whose marker is in the log, at `last_offset`; `first_offset` is where its first record is.

    `stable_offset`: where the earliest one begins that is open behind it, else the offset behind the marker.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    stable_offset: int
    committed: bool


class Verification(NamedTuple):
    """A producer's first batch of a transaction is held back while its coordinator is asked; no later one may overtake it."""

    epoch: int
    lowest_sequence: int
    adds: bool
    """Whether the partition is added to the transaction on the way: then a producer that isn't known begins at 0. It is what the first
    of its batches here was."""


class ProducerEntry:
    """One producer: its epoch, its last batches, the start of its open transaction (-1: none)."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_timestamp", "producer_id", "transaction_start")

    def __init__(self, producer_id: int, epoch: int = NO_EPOCH) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.batches: deque[ProducedBatch] = deque(maxlen=KEPT_BATCHES)
        self.last_timestamp = -1
        self.coordinator_epoch = _NO_COORDINATOR
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
        self.open: dict[int, int] = {}
        """First offset of each open transaction, by producer id; the earliest comes first."""
        self.verifying: dict[int, Verification] = {}
        self.on_known: Callable[[], object] = lambda: None
        """Called when a log that knew no producer knows one: from then on there is something to expire."""

    def check(self, header: BatchHeader) -> ProducedBatch | None:
        """The earlier batch that `header` (from a client) repeats, or None for one that may be appended.

        Raises InvalidProducerEpoch, OutOfOrderSequence, InvalidTransactionState.
        """
        entry = self.entries.get(header.producer_id)
        if entry is None:
            if header.producer_epoch < NO_EPOCH:
                raise _old_epoch(header.producer_id, header.producer_epoch, NO_EPOCH)
            self._check_not_overtaking(header)
            held = self.verifying.get(header.producer_id)
            if held is not None and held.adds and header.base_sequence != 0:
                raise OutOfOrderSequence(
                    f"Invalid sequence number for producer {header.producer_id}: {header.base_sequence} (incoming seq. number); it has "
                    "no state here, and begins with 0 in a transaction that it does not add partitions to itself"
                )
            return None
        epoch, known = header.producer_epoch, entry.epoch
        if epoch == known:
            wanted = (header.base_sequence, header.last_sequence)
            for batch in entry.batches:
                if (batch.first_sequence, batch.last_sequence) == wanted:
                    return batch
        elif epoch < known:
            raise _old_epoch(header.producer_id, epoch, known)
        if self.verifying:
            self._check_not_overtaking(header)
        if epoch != known and known != NO_EPOCH and header.base_sequence != 0:
            raise OutOfOrderSequence(
                f"Invalid sequence number for new epoch of producer {header.producer_id}: {epoch} (request epoch), "
                f"{header.base_sequence} (seq. number), {known} (current producer epoch)"
            )
        if epoch == known != NO_EPOCH and not follows(entry.last_sequence, header.base_sequence):
            raise OutOfOrderSequence(
                f"Out of order sequence number for producer {header.producer_id}: {header.base_sequence} "
                f"(incoming seq. number), {entry.last_sequence} (current end sequence number)"
            )
        if entry.transaction_start >= 0 and not header.attributes & TRANSACTIONAL_BIT:
            raise InvalidTransactionState(f"Expected transactional write from producer {header.producer_id}")
        return None

    def check_own(self, batch: BatchProducer) -> None:
        """Check a batch that the broker itself appends: TxnOffsetCommit's, whose sequence is not checked, or a marker.

        A marker of a later epoch ends the transaction, too: its coordinator has fenced the producer. Raises
        InvalidProducerEpoch, TransactionCoordinatorFenced.
        """
        producer_id, epoch, marker = batch.producer_id, batch.epoch, batch.marker
        entry = self.entries.get(producer_id)
        known = NO_EPOCH if entry is None else entry.epoch
        if epoch < known:
            raise _old_epoch(producer_id, epoch, known)
        current = _NO_COORDINATOR if entry is None else entry.coordinator_epoch
        if marker is not None and marker.coordinator_epoch < current:
            raise TransactionCoordinatorFenced(
                f"Invalid coordinator epoch for producerId {producer_id}: {marker.coordinator_epoch} (zombie), "
                f"{current} (current)"
            )

    def update(self, header: BatchHeader, base_offset: int, marker: EndMarker | None = None) -> EndedTransaction | None:
        """Account for a batch at `base_offset`; `marker` is that of a control batch. The transaction that it ends."""
        producer_id, attributes = header.producer_id, header.attributes
        if producer_id == NO_PRODUCER_ID or (attributes & CONTROL_BIT and marker is None):
            return None  # a marker that compaction has emptied says nothing any more
        timestamp, transactional = header.max_timestamp, attributes & TRANSACTIONAL_BIT
        batch: ProducedBatch | EndMarker | None = marker
        if batch is None:
            sequences, last_offset = (
                (header.base_sequence, header.last_sequence),
                base_offset + header.last_offset_delta,
            )
            batch = ProducedBatch(*sequences, base_offset, last_offset, timestamp)
        return self._add(producer_id, header.producer_epoch, base_offset, timestamp, batch, transactional)

    def update_own(
        self, within: BatchProducer, base_sequence: int, base_offset: int, last_offset: int, now_ms: int
    ) -> EndedTransaction | None:
        """As `update`, for a batch of the broker's own."""
        batch: ProducedBatch | EndMarker | None = within.marker
        if batch is None:
            last_sequence = base_sequence
            if base_sequence != NO_SEQUENCE:
                last_sequence = (base_sequence + last_offset - base_offset) & MAX_SEQUENCE
            batch = ProducedBatch(base_sequence, last_sequence, base_offset, last_offset, now_ms)
        return self._add(within.producer_id, within.epoch, base_offset, now_ms, batch, TRANSACTIONAL_BIT)

    def _add(
        self,
        producer_id: int,
        epoch: int,
        offset: int,
        timestamp: int,
        batch: ProducedBatch | EndMarker,
        transactional: int,
    ) -> EndedTransaction | None:
        entry = self.entries.get(producer_id)
        if entry is None:
            entry = self.entries[producer_id] = ProducerEntry(producer_id, epoch)
            if len(self.entries) == 1:
                self.on_known()
        elif entry.epoch != epoch:
            entry.batches.clear()
            entry.epoch = epoch
        entry.last_timestamp = timestamp
        if self.verifying and transactional:
            self.verifying.pop(producer_id, None)  # data or marker: what was asked about before is over
        if isinstance(batch, EndMarker):
            return self._end(entry, offset, batch)
        entry.batches.append(batch)
        if transactional and entry.transaction_start < 0:
            entry.transaction_start = self.open[producer_id] = offset
        return None

    def _end(self, entry: ProducerEntry, offset: int, marker: EndMarker) -> EndedTransaction | None:
        entry.coordinator_epoch = marker.coordinator_epoch
        first, entry.transaction_start = entry.transaction_start, -1
        if first < 0:
            return None  # it has written nothing here
        del self.open[entry.producer_id]
        stable = next(iter(self.open.values()), offset + 1)
        return EndedTransaction(entry.producer_id, first, offset, stable, marker.committed)

    def replay(self, batches: Iterable[tuple[BatchHeader, bytes, int]]) -> None:
        """Account for batches of the log. Raises RecordBatchError."""
        for header, data, pos in batches:
            if header.producer_id >= 0:
                self.update(header, header.base_offset, end_marker(data, pos, header) if header.is_control else None)

    def has_open(self, producer_id: int, epoch: int | None) -> bool:
        """Whether the producer has an open transaction in this log, so that its next batch needs no verification by the transaction
        coordinator. `epoch` None: with any epoch."""
        entry = self.entries.get(producer_id)
        return entry is not None and entry.transaction_start >= 0 and epoch in (None, entry.epoch)

    def verify(self, producer_id: int, epoch: int, sequence: int, *, adds: bool, by_epoch: bool = True) -> None:
        """A batch is held back until the coordinator has answered; ``adds``: which adds the partition to the transaction as well;
        ``by_epoch``: a batch of a later epoch takes the place of an earlier one's (since 4.0)."""
        known = self.verifying.get(producer_id)
        if known is None:
            self.verifying[producer_id] = Verification(epoch, sequence, adds)
            return
        lower = sequence < known.lowest_sequence and (epoch == known.epoch or not adds)
        if lower or (by_epoch and epoch > known.epoch):
            self.verifying[producer_id] = Verification(epoch, sequence, known.adds)

    def _check_not_overtaking(self, header: BatchHeader) -> None:
        held = self.verifying.get(header.producer_id)
        if held is not None and header.base_sequence > held.lowest_sequence:
            raise OutOfOrderSequence(
                f"Out of order sequence number for producer {header.producer_id}: {header.base_sequence} "
                f"(incoming seq. number), {held.lowest_sequence} (earliest seen sequence)"
            )

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Remove producers that were idle for `expiration_ms` and have no open transaction."""
        expired = [
            entry.producer_id
            for entry in self.entries.values()
            if entry.transaction_start < 0 and now_ms - entry.last_timestamp >= expiration_ms
        ]
        for producer_id in expired:
            del self.entries[producer_id]


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
        if last_offset >= 0:
            first_sequence = (last_sequence - delta) & MAX_SEQUENCE if last_sequence >= 0 else NO_SEQUENCE
            entry.batches.append(
                ProducedBatch(first_sequence, last_sequence, last_offset - delta, last_offset, timestamp)
            )
    open_transactions = [
        (entry.transaction_start, entry.producer_id) for entry in state.entries.values() if entry.transaction_start >= 0
    ]
    state.open = {producer_id: start for start, producer_id in sorted(open_transactions)}
    return state


def _old_epoch(producer_id: int, epoch: int, known: int) -> InvalidProducerEpoch:
    return InvalidProducerEpoch(
        f"Epoch of producer {producer_id} is {epoch}, which is smaller than the last seen epoch {known}"
    )


def follows(last_sequence: int, sequence: int) -> bool:
    """Whether `sequence` is the one after `last_sequence`, with the wrap to 0."""
    return sequence == last_sequence + 1 or (sequence == 0 and last_sequence == MAX_SEQUENCE)
