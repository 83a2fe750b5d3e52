"""Records of a topic, as a consumer would get them: `StoredRecord`, `stored_records`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from broker_sim.common.text import UsageError
from broker_sim.fields.kafka import READ_COMMITTED
from broker_sim.storage.errors import StorageError
from kafka_wire.compression import CodecUnavailable
from kafka_wire.record_batch import RecordBatchError

if TYPE_CHECKING:
    from broker_sim.metadata.cluster_state import Partition

__all__ = ["StoredRecord", "stored_records"]


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record of a log. ``timestamp_ms``: the producer's time or the broker's (message.timestamp.type); ``headers``: (name, value) in
    order; ``producer_id``: that of an idempotent or transactional producer, else -1."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    producer_id: int
    transactional: bool


def stored_records(partition: Partition, isolation: str, offset: int | None = None) -> Iterator[StoredRecord]:
    """The records from ``offset`` on (default: the log start offset) up to the high watermark or, with read_committed, to the last
    stable offset. Raises UsageError if they can't be read: their codec's library is missing, the log fails."""
    log, is_committed = partition.log, isolation == READ_COMMITTED
    start = max(log.log_start_offset, offset or 0)
    stop = partition.last_stable_offset if is_committed else partition.high_watermark
    if start >= stop:
        return
    aborted = log.ended.overlapping(start, stop) if is_committed else ()
    try:
        for batch in log.batches(start):
            header = batch.header
            if header.base_offset >= stop:
                return
            if header.is_control:
                continue
            gone = [one for one in aborted if one.producer_id == header.producer_id] if header.is_transactional else ()
            for record in batch.records():
                if not start <= record.offset < stop:
                    continue
                if any(one.first_offset <= record.offset <= one.last_offset for one in gone):
                    continue
                yield StoredRecord(
                    partition.topic.name,
                    partition.index,
                    record.offset,
                    record.timestamp,
                    record.key,
                    record.value,
                    tuple(record.headers),
                    header.producer_id,
                    header.is_transactional,
                )
    except (StorageError, RecordBatchError, CodecUnavailable) as error:
        raise UsageError(f"{partition.name} can't be read: {error}") from None
