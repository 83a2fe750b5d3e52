"""Arguments and results of a log's calls: the origin of an append, its offsets, batches and records found."""

from __future__ import annotations

import enum
from collections.abc import Generator, Iterator
from typing import NamedTuple

from broker_sim.storage.log_config import LogConfig
from kafka_wire.record_batch import CODEC_MASK, LENGTH_END, BatchHeader, Record, UnsupportedCompression, records
from kafka_wire.record_times import times


class Origin(enum.Enum):
    """Origin of an append: a client's batches are checked, the broker's own are not."""

    CLIENT = "client"
    COORDINATOR = "coordinator"


CLIENT = Origin.CLIENT
"""A name of the module, as each Produce looks at it (see `kafka_wire.errors.NO_ERROR`)."""


class AppendInfo(NamedTuple):
    """Offsets and times of an append. `log_append_time_ms` is -1 for CreateTime; `duplicate` marks a producer's resend."""

    base_offset: int
    last_offset: int
    max_timestamp: int
    log_append_time_ms: int
    duplicate: bool = False


class TimestampOffset(NamedTuple):
    """A record found by its time (ms)."""

    timestamp: int
    offset: int
    leader_epoch: int


class LogBatch(NamedTuple):
    """A batch in the log's format: `data[position:]` begins with it."""

    header: BatchHeader
    data: bytes
    position: int

    @property
    def bytes(self) -> bytes:
        return self.data[self.position : self.position + self.header.length + LENGTH_END]

    def records(self) -> Iterator[Record]:
        """The decoded records of the batch, as `kafka_wire.record_batch.records` returns them."""
        return records(self.data, self.position, self.header)

    def finding(self, timestamp: int, start: int, config: LogConfig) -> Generator[None, None, TimestampOffset | None]:
        """The first record at or after offset ``start`` whose timestamp (ms) is >= ``timestamp``; of a batch whose codec's library is
        missing the first offset. In pieces: yields after each. Raises RecordBatchError."""
        header = self.header
        # Kafka unpacks such a batch to its end, and fails where any of it can't be read
        to_its_end = bool(header.attributes & CODEC_MASK) and config.release < (4, 4)
        result: TimestampOffset | None = None
        try:
            for record in times(self.data, self.position, header, max_bytes=config.compression_max_bytes):
                if record is None:
                    yield
                elif result is None and record[1] >= timestamp and record[0] >= start:
                    result = TimestampOffset(record[1], record[0], header.leader_epoch)
                    if not to_its_end:
                        break
        except UnsupportedCompression:
            return TimestampOffset(header.max_timestamp, max(header.base_offset, start), header.leader_epoch)
        return result
