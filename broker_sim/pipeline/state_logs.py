"""The logs of coordinators besides `__consumer_offsets` (`__transaction_state`, `__share_group_state`) and of data topics, batch by
batch: pure reading, no Spark.

Rules:
1. An unreadable record ends the reading of its file, since each record of these logs continues the state of the last one; it is
   reported with file and byte, and the next file is read.
2. A header with a length beyond the end of its file is reported, too: the file was copied during a write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from broker_sim.common.text import UsageError
from broker_sim.pipeline.files import Source
from broker_sim.pipeline.segments import SegmentFile, Skipped, segments_of
from kafka_wire.record_batch import (
    HEADER_BYTES,
    BatchHeader,
    Record,
    RecordBatchError,
    check_crc,
    parse_header,
    records,
)

__all__ = ["ReportSkipped", "batch_headers", "records_of"]

ReportSkipped = Callable[[Skipped], object]
_BLOCK = 1 << 20


def batch_headers(
    folder: str, report: ReportSkipped = lambda skipped: None
) -> Iterator[tuple[BatchHeader, Callable[[], bytes]]]:
    """(header, a function that reads its batch) of a log, without the records."""
    try:
        segments = segments_of(folder)
    except (OSError, UsageError) as error:
        report(Skipped(folder, None, None, str(error)))
        return
    for segment in segments:
        yield from _of_file(segment, report)


def _of_file(segment: SegmentFile, report: ReportSkipped) -> Iterator[tuple[BatchHeader, Callable[[], bytes]]]:
    try:
        with Source(segment.path) as file:
            at, size = 0, file.size()
            while at < size:
                head = file.read(at, min(HEADER_BYTES, size - at))
                if not head.strip(b"\0"):  # the rest of a preallocated file
                    return
                header = _header(head, size - at)
                if header is None:
                    report(
                        Skipped(
                            segment.path,
                            at,
                            size - at,
                            "no whole batch begins here; what follows in this file is not read",
                        )
                    )
                    return
                yield header, lambda at=at, header=header: file.read(at, header.size)  # type: ignore[misc]
                at += header.size
    except (OSError, UsageError) as error:
        report(Skipped(segment.path, None, None, str(getattr(error, "strerror", None) or error)))


def _header(head: bytes, left: int) -> BatchHeader | None:
    if len(head) < HEADER_BYTES:
        return None
    # the header alone is at hand: what it says of its length is held against the file
    length = int.from_bytes(head[8:12], "big", signed=True)
    if length + 12 > left or length <= 0:
        return None
    try:
        return parse_header(head + bytes(max(length + 12 - len(head), 0)) if length < _BLOCK else head, 0, length + 12)
    except RecordBatchError:
        return None


def records_of(folder: str, report: ReportSkipped = lambda skipped: None) -> Iterator[tuple[Record, BatchHeader]]:
    """The records of a log, control records left out."""
    for header, read in batch_headers(folder, report):
        if header.is_control:
            continue
        try:
            batch = read()
            check_crc(batch, 0, header)
            rows = list(records(batch, 0))
        except RecordBatchError as error:
            report(Skipped(folder, None, header.size, f"the batch at offset {header.base_offset}: {error}"))
            continue
        for record in rows:
            yield record, header
