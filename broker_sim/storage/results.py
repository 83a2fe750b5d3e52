"""What goes into a log and comes out of it: who appends, where it went, batches and records found."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import NamedTuple

from kafka_wire.record_batch import LENGTH_END, BatchHeader, Record, records


class Origin(enum.Enum):
    """Who appends: a client's batches are checked, the broker's own are not."""

    CLIENT = "client"
    COORDINATOR = "coordinator"


class AppendInfo(NamedTuple):
    """Where an append went. `log_append_time_ms` is -1 for CreateTime; `duplicate` marks a producer's resend."""

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
    """A batch as it stands in the log: `data[position:]` begins with it."""

    header: BatchHeader
    data: bytes
    position: int

    @property
    def bytes(self) -> bytes:
        return self.data[self.position : self.position + self.header.length + LENGTH_END]

    def records(self) -> Iterator[Record]:
        """As kafka_wire.record_batch.records."""
        return records(self.data, self.position, self.header)
