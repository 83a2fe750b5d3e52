"""Records by their time, for ListOffsets, in pieces: each function yields after some milliseconds' work.

Source: UnifiedLog.fetchOffsetByTimestamp, LogValidator (what a log remembers of its largest timestamp).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import TYPE_CHECKING

from broker_sim.storage.errors import FAILURES
from broker_sim.storage.log_config import LogConfig
from broker_sim.storage.results import LogBatch, TimestampOffset
from broker_sim.storage.segment import Segment
from kafka_wire.record_batch import CODEC_MASK, TIMESTAMP_TYPE_BIT
from kafka_wire.record_times import times

if TYPE_CHECKING:
    from broker_sim.storage.log import PartitionLog

EXACT_LATEST_SINCE = (3, 8)


Search = Generator[None, None, TimestampOffset | None]


def finding(log: PartitionLog, search: Callable[[], Search]) -> Search:
    """The result of a search in the log; it is repeated if segments were removed or truncated between two pieces, and it failed for
    that. Raises CorruptLog, KafkaStorageError."""
    while True:
        before = [(segment, segment.size) for segment in log.segments]
        try:
            return (yield from search())
        except FAILURES as error:
            present = {id(segment) for segment in log.segments}
            if all(id(segment) in present and segment.size >= size for segment, size in before):
                raise log.failure(error) from error


def first_not_before(segments: Iterable[Segment], timestamp: int, start: int, config: LogConfig) -> Search:
    """The first record at or after offset `start` whose timestamp (ms) is >= `timestamp`. Raises RecordBatchError, OSError."""
    for batch in _batches(segments, timestamp, start):
        located = yield from batch.finding(timestamp, start, config)
        if located is not None:
            return located
    return None


def latest(segments: Iterable[Segment], config: LogConfig, epoch: int) -> Search:
    """The first record with the largest timestamp, be it -1; None in an empty log. Raises RecordBatchError, OSError.

    Before 3.8 Kafka has only what it knew at the append: the last offset of a batch that is packed or has the broker's
    time, under `epoch`, the log's own.
    """
    segments = list(segments)
    timestamp = max(segment.max_timestamp for segment in segments)
    located = yield from first_not_before(segments, timestamp, 0, config)
    if located is None or timestamp < 0 or config.release >= EXACT_LATEST_SINCE:
        return located
    batch = next(_batches(segments, timestamp, 0))
    if batch.header.attributes & (CODEC_MASK | TIMESTAMP_TYPE_BIT):
        return TimestampOffset(timestamp, batch.header.last_offset, epoch)
    before = 0
    for record in times(batch.data, batch.position, batch.header):
        if record is None:
            yield
        elif record[1] == timestamp:
            break
        else:
            before += 1
    return TimestampOffset(timestamp, batch.header.base_offset + before, epoch)  # counted, whatever a record says


def _batches(segments: Iterable[Segment], timestamp: int, start: int) -> Iterator[LogBatch]:
    for segment in segments:
        if segment.max_timestamp >= timestamp:
            for header, data, position in segment.batches_from_timestamp(timestamp):
                if header.max_timestamp >= timestamp and header.last_offset >= start:
                    yield LogBatch(header, data, position)
