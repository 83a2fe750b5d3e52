"""The log of one partition: segments on disk or in memory under one set of rules.

Rules:
1. No clock, no thread, no event loop: time comes in as `now_ms` (wall clock), and a call is done when it returns.
2. An append is there whole or not at all. On an OSError nothing of it stays, KafkaStorageError is raised, and the log goes on.
3. What was acknowledged survives the end of the process at any instant; with `sync` that of the machine too.
4. Batches are never re-encoded on the way in or out, but by compaction and for message.timestamp.type=LogAppendTime.
5. The active segment is the last one; it is neither compacted nor deleted before it is rolled.
Source: UnifiedLog, LocalLog (storage).
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TYPE_CHECKING

from broker_sim.common.slices import Pace, at_once
from broker_sim.storage import by_time, checkpoints, recovery, retention
from broker_sim.storage.epochs import EpochCache
from broker_sim.storage.errors import (
    FAILURES,
    CorruptLog,
    KafkaStorageError,
    OffsetOutOfRange,
    RecordListTooLarge,
    StorageError,
)
from broker_sim.storage.files import FILES, Files
from broker_sim.storage.log_config import LogConfig
from broker_sim.storage.memory import MemorySegment
from broker_sim.storage.producer_state import ProducerState, encode_snapshot
from broker_sim.storage.record_slices import RecordSlice, whole
from broker_sim.storage.results import CLIENT, AppendInfo, LogBatch, Origin, TimestampOffset
from broker_sim.storage.segment import MAX_RELATIVE_OFFSET, READ_BYTES, Mark, Segment, should_roll
from broker_sim.storage.transactions import AbortedTransaction, EndedTransactions
from broker_sim.storage.validation import check_client_batch, check_size
from kafka_wire.end_markers import BatchProducer, EndMarker, end_marker
from kafka_wire.record_batch import (
    LENGTH_END,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    RecordBatchError,
    batch_of,
    batches,
    parse_header,
    stamp,
    stamp_append_time,
    stamp_create_time,
    stamp_max_timestamp,
)

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["AppendInfo", "LogBatch", "Origin", "PartitionLog", "TimestampOffset"]
logger = logging.getLogger(__name__)


class PartitionLog:
    """One partition's records, from log_start_offset to log_end_offset (exclusive).

    `directory` None keeps them in memory. An existing directory is recovered first (see recovery), a missing one is
    made. `sync`: an append returns when the disk has it. Raises KafkaStorageError where the directory can't be used.
    """

    def __init__(
        self,
        directory: Path | None,
        config: LogConfig | None = None,
        *,
        name: str = "",
        now_ms: int = 0,
        sync: bool = False,
        files: Files = FILES,
    ) -> None:
        self.directory = directory
        self.name = name or (directory.name if directory is not None else "in memory")
        """topic-partition, for the texts of errors."""
        self.config = LogConfig() if config is None else config
        self.sync = sync
        self.files = files
        self.segments: list[Segment] = []
        """Oldest first, the active one last; changed by the log and its cleaner alone."""
        self._bases: list[int] = []
        self.clean_end_offset = 0
        """Offset at which the last compaction ended; Kafka's cleaner-offset-checkpoint keeps it."""
        self.uncleanable = False
        self._stop_compaction: Callable[[], object] = lambda: None
        self.on_sealed: Callable[[], object] = lambda: None  # at each roll of a compacted log
        self._epochs_safe = False  # whether a loss of power leaves the epochs' checkpoint as it is
        self.producers = ProducerState()
        self.ended = EndedTransactions()
        self.epochs = EpochCache(changed=self._save_epochs)
        self.log_start_offset = self.log_end_offset = 0
        if directory is None:
            self._add_segment(MemorySegment(0, now_ms))
        else:
            self._open(directory, now_ms)

    def _open(self, directory: Path, now_ms: int) -> None:
        try:
            self.files.make_dir(directory)
            recovered = recovery.recover(directory, self.config, self.files, now_ms)
            self.epochs = EpochCache(recovered.epochs, self._save_epochs)
            if recovered.epochs_changed:
                self._save_epochs()
            self.producers, self.ended = recovered.producers, EndedTransactions(recovered.aborted)
            for segment in recovered.segments:
                segment.sync_appends = self.sync
                self._add_segment(segment)
            self.log_start_offset, self.clean_end_offset = recovered.log_start_offset, recovered.clean_end_offset
            if not self.segments:
                self._add_segment(self._new_segment(recovered.log_start_offset, now_ms))
            elif self.sync:  # what a process that was killed had not synced yet is served from now on
                self.segments[-1].sync()
                self.files.sync_dir(directory)
        except OSError as error:
            raise KafkaStorageError(f"{directory}: {error}") from error
        self.log_end_offset = self.segments[-1].next_offset

    def failure(self, error: Exception) -> StorageError:
        kind = KafkaStorageError if isinstance(error, OSError) else CorruptLog
        return kind(f"{self.directory or self.name}: {error}")

    # -------------------------------------------------------------------------------------------- appending

    def append(
        self,
        batch: bytes,
        *,
        leader_epoch: int,
        now_ms: int,
        origin: Origin = Origin.CLIENT,
        header: BatchHeader | None = None,
        checked: int | None = None,
    ) -> AppendInfo:
        """Add one or more concatenated batches at the end, under `leader_epoch`. `header` is that of the (first) batch,
        where the caller has read it; `checked` is what `checking` returned for it. All batches are checked before one is
        written, as in UnifiedLog.append: a refused one changes nothing.
        Raises RecordBatchError (bad batch), RecordTooLarge, RecordListTooLarge, KafkaStorageError, what `ProducerState` refuses.
        """
        config = self.config
        first = parse_header(batch) if header is None else header
        if first.length + LENGTH_END == len(batch):
            own_time = not config.is_log_append_time and not first.attributes & TIMESTAMP_TYPE_BIT
            if own_time and origin is CLIENT:
                return self._append_one(batch, first, leader_epoch, now_ms, checked)
            heads = [(0, first)]
        else:
            heads = list(batches(batch))
        markers: dict[int, EndMarker | None] = {}
        for pos, header in heads:
            if origin is not CLIENT:
                check_size(header, config, self.name)
                if header.producer_id >= 0:
                    markers[pos] = marker = end_marker(batch, pos, header) if header.is_control else None
                    self.producers.check_own(BatchProducer(header.producer_id, header.producer_epoch, marker))
                continue
            if checked is None:
                check_client_batch(batch, pos, header, config, now_ms, self.name)
            earlier = self.producers.check(header) if header.producer_id >= 0 else None
            if earlier is not None:
                return AppendInfo(earlier.first_offset, earlier.last_offset, earlier.timestamp, -1, True)
        base = end = self.log_end_offset
        parts: list[bytes] = []
        marks: list[Mark] = []
        latest = -1
        for pos, header in heads:
            size = header.length + LENGTH_END
            single = batch if size == len(batch) else batch[pos : pos + size]
            timestamp = header.max_timestamp
            if config.is_log_append_time:
                timestamp = now_ms
                single = stamp_append_time(single, now_ms)
            elif header.attributes & TIMESTAMP_TYPE_BIT:
                single = stamp_create_time(single)
            parts.append(stamp(single, end, leader_epoch))
            end += header.last_offset_delta + 1
            marks.append((size, end - 1, timestamp))
            latest = max(latest, timestamp)
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        self._write(data, marks, leader_epoch, latest, now_ms)
        self._account(heads, base, markers)
        return AppendInfo(base, end - 1, latest, now_ms if config.is_log_append_time else -1)

    def _account(self, heads: list[tuple[int, BatchHeader]], offset: int, markers: dict[int, EndMarker | None]) -> None:
        """Update producers and ended transactions with batches in the log from `offset` on; `markers`: theirs, by position."""
        for pos, header in heads:
            ended = self.producers.update(header, offset, markers.get(pos)) if header.producer_id >= 0 else None
            if ended is not None:
                self.ended.add(ended, self.segments[-1])
            offset += header.last_offset_delta + 1

    def _append_one(
        self, batch: bytes, header: BatchHeader, leader_epoch: int, now_ms: int, checked: int | None
    ) -> AppendInfo:
        """The way of nearly every Produce: one batch, with its producer's times."""
        latest = check_client_batch(batch, 0, header, self.config, now_ms, self.name) if checked is None else checked
        if latest != header.max_timestamp:  # it lies, and Kafka puts the truth there
            batch, header = stamp_max_timestamp(batch, latest), header._replace(max_timestamp=latest)
        idempotent = header.producer_id >= 0
        earlier = self.producers.check(header) if idempotent else None
        if earlier is not None:
            return AppendInfo(earlier.first_offset, earlier.last_offset, earlier.timestamp, -1, True)
        base = self.log_end_offset
        last = base + header.last_offset_delta
        self._write(stamp(batch, base, leader_epoch), [(len(batch), last, latest)], leader_epoch, latest, now_ms)
        if idempotent:
            self.producers.update(header, base)
        return AppendInfo(base, last, latest, -1)

    def append_records(
        self,
        bodies: Sequence[bytes],
        count: int,
        leader_epoch: int,
        now_ms: int,
        base_sequence: int = 0,
        within: BatchProducer | None = None,
    ) -> tuple[int, int]:
        """Append one batch of the broker's own from ``count`` encoded records (`record_batch.batch_of`); returns its last offset and
        its bytes. Its effect and its exceptions are those of `append` with that batch."""
        config, base, segment = self.config, self.log_end_offset, self.segments[-1]
        if within is None:
            data = batch_of(bodies, count, now_ms, base, leader_epoch, base_sequence=base_sequence)
        else:
            head = within.producer_id, within.epoch, base_sequence, within.attributes
            data = batch_of(bodies, count, now_ms, base, leader_epoch, *head)
        size, last = len(data), base + count - 1
        if config.is_log_append_time or size > config.max_message_bytes:
            info = self.append(data, leader_epoch=leader_epoch, now_ms=now_ms, origin=Origin.COORDINATOR)
            return info.last_offset, size
        if within is not None:
            self.producers.check_own(within)
        first = segment.first_timestamp
        if (  # what _write does, for a batch that needs neither a new segment nor a new epoch
            first is not None
            and 0 <= now_ms - first <= config.segment_ms
            and segment.size + size <= config.segment_bytes
            and not segment.index_full
            and last - segment.base_offset <= MAX_RELATIVE_OFFSET
            and leader_epoch == self.epochs.latest
        ):
            try:
                segment.append_one(data, last, now_ms)
            except FAILURES as error:
                raise self.failure(error) from error
            self.log_end_offset = last + 1
        else:
            self._write(data, [(size, last, now_ms)], leader_epoch, now_ms, now_ms)
        if within is not None and (ended := self.producers.update_own(within, base_sequence, base, last, now_ms)):
            self.ended.add(ended, self.segments[-1])
        return last, size

    def _write(self, data: bytes, marks: list[Mark], leader_epoch: int, latest: int, now_ms: int) -> None:
        if len(data) > self.config.segment_bytes:
            raise RecordListTooLarge(
                f"Message batch size is {len(data)} bytes in append, which exceeds the maximum configured segment "
                f"size of {self.config.segment_bytes}."
            )
        try:
            segment = self.segments[-1]
            if should_roll(segment, self.config, len(data), marks[-1][1], latest, now_ms):
                segment = self._roll(now_ms)
            if not segment.size:
                segment.created_ms = now_ms
            if leader_epoch != self.epochs.latest:
                self.epochs.assign(leader_epoch, self.log_end_offset)
            if len(marks) == 1:
                segment.append_one(data, *marks[0][1:])
            else:
                segment.append(data, marks)
        except FAILURES as error:
            raise self.failure(error) from error
        self.log_end_offset = marks[-1][1] + 1

    def roll(self, now_ms: int) -> None:
        """Begin a new segment, unless the active one is empty. Raises KafkaStorageError."""
        try:
            if self.segments[-1].size:
                self._roll(now_ms)
        except FAILURES as error:
            raise self.failure(error) from error

    def _roll(self, now_ms: int) -> Segment:
        """Close the active segment and begin one at the log's end. Raises OSError; the log is unchanged then."""
        active = self.segments[-1]
        active.became_inactive()
        if self.directory is not None:
            self.ended.save(active, self.log_end_offset)
            active.flush(True)  # what the next start won't read whole is on the disk: else a hole could be left
            self.sync_names()
            self._save_epochs(sync=True)
            snapshot = self.directory / f"{self.log_end_offset:020d}.snapshot"
            self.files.replace_file(snapshot, encode_snapshot(self.producers), sync=self.sync)
        fresh = self._new_segment(self.log_end_offset, now_ms)
        self._add_segment(fresh)
        if self.config.compacts:
            self.on_sealed()
        return fresh

    def _new_segment(self, base_offset: int, now_ms: int) -> Segment:
        if self.directory is None:
            return MemorySegment(base_offset, now_ms)
        segment = recovery.open_segment(self.directory, base_offset, self.config, self.files, now_ms)
        segment.sync_appends = self.sync
        try:
            segment.create()
            if self.sync:
                self.sync_names()
        except OSError:
            segment.discard()
            raise
        return segment

    def _add_segment(self, segment: Segment) -> None:
        at = bisect_right(self._bases, segment.base_offset)
        self.segments.insert(at, segment)
        self._bases.insert(at, segment.base_offset)

    # -------------------------------------------------------------------------------------------- reading

    def read(
        self, offset: int, max_bytes: int, *, up_to_offset: int | None = None, min_one_batch: bool = True
    ) -> bytes:
        """Whole batches from the one that holds `offset`, at most `max_bytes` of them (but one even if it is larger,
        unless min_one_batch is false), none that reaches `up_to_offset`. Empty where there is nothing to read yet.

        Raises OffsetOutOfRange (before the log's start, after its end), CorruptLog, KafkaStorageError.
        """
        try:
            return whole(self.read_slice(offset, max_bytes, up_to_offset=up_to_offset, min_one_batch=min_one_batch))
        except FAILURES as error:
            raise self.failure(error) from error

    def read_slice(
        self, offset: int, max_bytes: int, *, up_to_offset: int | None = None, min_one_batch: bool = True
    ) -> bytes | RecordSlice:
        """As `read`, but a large result is a slice of the file that is read when it is sent; its owner closes it."""
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRange(
                f"Received request for offset {offset}, but we only have log segments from offset "
                f"{self.log_start_offset} to {self.log_end_offset}."
            )
        if offset == self.log_end_offset or (up_to_offset is not None and offset >= up_to_offset):
            return b""
        try:
            for segment in self._segments_from(offset):
                data = segment.slice(offset, max_bytes, up_to_offset, min_one_batch)
                if data or (segment.next_offset > offset and segment.size and not min_one_batch):
                    return data
        except FAILURES as error:
            raise self.failure(error) from error
        return b""

    def batches(self, offset: int | None = None) -> Iterator[LogBatch]:
        """Every batch from `offset` (default: the log's start) to the end that the log has at the time of each read.

        Raises OffsetOutOfRange, CorruptLog, KafkaStorageError.
        """
        at = self.log_start_offset if offset is None else offset
        while data := self.read(at, READ_BYTES):
            try:
                for pos, header in batches(data):
                    yield LogBatch(header, data, pos)
                    at = header.next_offset
            except RecordBatchError as error:
                raise self.failure(error) from error

    def aborted_within(self, offset: int, size: int) -> list[AbortedTransaction]:
        """The aborted transactions that have records in the `size` bytes that a read from `offset` gave."""
        if not self.ended.aborted:
            return []
        try:
            return self.ended.within(self._segments_from(offset), offset, size, self.log_end_offset)
        except FAILURES as error:
            raise self.failure(error) from error

    def _segments_from(self, offset: int) -> list[Segment]:
        return self.segments[max(bisect_right(self._bases, offset) - 1, 0) :]

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments' batches."""
        return sum(segment.size for segment in self.segments)

    # -------------------------------------------------------------------------------------------- lookup by time

    def offset_for_timestamp(self, timestamp: int, start: int | None = None) -> TimestampOffset | None:
        """The first record at or after `start` (the log's start) whose timestamp (ms) is >= `timestamp`, or None.

        Inside a batch whose codec's library is missing it is the first offset. Raises CorruptLog, KafkaStorageError.
        """
        return at_once(self.finding_timestamp(timestamp, self.log_start_offset if start is None else start))

    def max_timestamp(self) -> TimestampOffset | None:
        """The first record with the log's largest timestamp (KIP-734), be it before the start; before 3.8 not always the first
        (`by_time.latest`). None in an empty log. Raises CorruptLog, KafkaStorageError."""
        return at_once(self.finding_max_timestamp())

    def finding_timestamp(self, timestamp: int, start: int) -> Generator[None, None, TimestampOffset | None]:
        """`offset_for_timestamp` in pieces: yields after each."""
        return by_time.finding(
            self, lambda: by_time.first_not_before(self._segments_from(start), timestamp, start, self.config)
        )

    def finding_max_timestamp(self) -> Generator[None, None, TimestampOffset | None]:
        """`max_timestamp` in pieces: yields after each."""
        return by_time.finding(self, lambda: by_time.latest(self.segments, self.config, self.epochs.latest))

    # -------------------------------------------------------------------------------------------- leader epochs

    @property
    def latest_epoch(self) -> int:
        """The latest leader epoch that the log knows, -1 without one."""
        return self.epochs.latest

    def assign_epoch(self, epoch: int) -> None:
        """A leader of `epoch` takes over at the log's end. Raises KafkaStorageError."""
        try:
            self.epochs.assign(epoch, self.log_end_offset)
        except FAILURES as error:
            raise self.failure(error) from error

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """OffsetForLeaderEpoch's (epoch, end offset); (-1, -1) where the log doesn't know."""
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    def _save_epochs(self, *, sync: bool = False) -> None:
        if self.directory is not None and not (sync and self._epochs_safe):
            path, safe = self.directory / checkpoints.LEADER_EPOCH_FILE, sync or self.sync
            checkpoints.write_rows(path, self.epochs.entries, files=self.files, sync=safe)
            self._epochs_safe = safe

    # -------------------------------------------------------------------------------------------- shrinking

    def delete_records(self, offset: int) -> int:
        """Let the log begin at `offset`; segments wholly before it are removed. The log's start then.

        Raises OffsetOutOfRange (after the log's end), KafkaStorageError.
        """
        if not 0 <= offset <= self.log_end_offset:
            raise OffsetOutOfRange(f"Cannot delete records up to {offset}: the log ends at {self.log_end_offset}.")
        try:
            if offset > self.log_start_offset:
                self._note(checkpoints.LOG_START_FILE, offset)
                self._start_at(offset)
        except FAILURES as error:
            raise self.failure(error) from error
        return self.log_start_offset

    def apply_retention(self, now_ms: int, *, high_watermark: int | None = None) -> int:
        """Remove old segments by retention.ms, retention.bytes (cleanup.policy with `delete`) and the log's start. Returns the number
        of removed segments; uncommitted records stay.

        Raises KafkaStorageError.
        """
        committed = self.log_end_offset if high_watermark is None else high_watermark
        before = len(self.segments)
        try:
            if self.config.deletes:
                count = retention.due(self.segments, self.config, committed, now_ms)
                if count == len(self.segments):
                    self._roll(now_ms)  # even the active segment is old: it ends here
                    before += 1
                if count:
                    start = max(self.log_start_offset, self._bases[count])
                    try:
                        self._note(checkpoints.LOG_START_FILE, start)
                    except OSError:  # a full disk, to make room on: there the log begins with what could not be removed
                        self._drop_first(max(bisect_right(self._bases, start) - 1, 0))
                    self._start_at(start)
        except FAILURES as error:
            raise self.failure(error) from error
        return before - len(self.segments)

    def _note(self, name: str, offset: int | None) -> None:
        if self.directory is not None:  # synced, as it is of all logs
            checkpoints.write_row(self.directory, name, offset, files=self.files, sync=True)

    def sync_names(self) -> None:
        """Make created, renamed and removed files durable before later changes. Raises OSError."""
        if self.directory is not None:
            self.files.sync_dir(self.directory)

    def _start_at(self, offset: int) -> None:
        """Set the log start offset, and remove the segments that end before it (never the last one)."""
        self.log_start_offset = offset
        self._drop_first(max(bisect_right(self._bases, offset) - 1, 0))
        self.epochs.truncate_from_start(offset)

    def truncate_to(self, offset: int) -> None:
        """Drop everything from the batch with `offset` on, as a follower does (whole batches only).

        With an `offset` before its start the log begins again there. Raises KafkaStorageError.
        """
        if offset >= self.log_end_offset:
            return
        self._stop_compaction()
        try:
            start = min(offset, self.log_start_offset)
            if self._bases[0] > offset:  # first: a log without segments would begin at 0
                self._add_segment(self._new_segment(start, 0))
                self.sync_names()
            while self._bases[-1] > offset:
                self.segments.pop().delete()
                self._bases.pop()
                self.sync_names()  # each before the one in front of it, and all before what is new: else a hole could be left
            self.segments[-1].truncate_to(offset)
            self.segments[-1].sync()
            if self.segments[-1].next_offset < start:
                self._add_segment(self._new_segment(start, 0))
                self._drop_first(len(self.segments) - 1)
            self.log_end_offset = self.segments[-1].next_offset
            if self.log_start_offset > start:
                self.log_start_offset = start
                self._note(checkpoints.LOG_START_FILE, None)
            if self.clean_end_offset > self.log_end_offset:
                self.set_clean_end_offset(self.log_end_offset)
            self.epochs.truncate_from_end(self.log_end_offset)
            self.producers = recovery.rebuild_producers(self.directory, self.segments, self.files, self.producers)
            self.ended.truncate_to(self.log_end_offset, self.segments[-1])
        except FAILURES as error:
            self.log_end_offset = min(self.log_end_offset, self.segments[-1].next_offset)  # as far as it got
            raise self.failure(error) from error

    def _drop_first(self, count: int) -> None:
        if count:
            self._stop_compaction()
        for _ in range(count):
            self.segments[0].delete()
            del self.segments[0], self._bases[0]
            self.log_start_offset = max(self.log_start_offset, self._bases[0])
            self.ended.forget_before(self._bases[0])

    def compact(self, now_ms: int, *, high_watermark: int | None = None, force: bool = False) -> bool:
        """Keep the last record of every key (cleanup.policy with `compact`), if enough of the log is dirty or `force`. Returns whether
        anything was rewritten. Raises KafkaStorageError; the log is as it was then."""
        return at_once(self.compacting(now_ms, Pace(1), high_watermark=high_watermark, force=force))

    def compacting(
        self, now_ms: int, pace: Pace, *, high_watermark: int | None = None, force: bool = False
    ) -> Generator[None, None, bool]:
        """`compact` in pieces of `pace`: yields after each. It ends without a result where segments go away meanwhile."""
        from broker_sim.storage.cleaner import Pass

        self._stop_compaction()
        cleaning = Pass(self, now_ms, high_watermark, force, pace)
        self._stop_compaction = cleaning.stop
        return cleaning.job

    def set_clean_end_offset(self, offset: int) -> None:
        """Remember where compaction has come to. Raises OSError."""
        self.clean_end_offset = offset
        self._note(checkpoints.CLEANER_FILE, offset)

    def put_cleaned(self, old: Sequence[Segment], fresh: Segment, aborted: Sequence[AbortedTransaction]) -> None:
        """Replace the segments `old` by a compacted one; `aborted`: the aborted transactions whose markers it still contains."""
        replaced = slice(at := self.segments.index(old[0]), at + len(old))
        self.segments[replaced], self._bases[replaced] = [fresh], [fresh.base_offset]
        self.ended.replace(fresh.base_offset, old[-1].next_offset, aborted)

    def delete(self) -> None:
        """Remove the log and its directory for good. Raises KafkaStorageError."""
        self._stop_compaction()
        self.producers.entries.clear()
        for segment in self.segments:
            segment.close()
            if self.directory is None:
                segment.delete()  # the batches go now: topic, partition and log hold each other until a collector comes by
        if self.directory is not None:
            try:
                for name in checkpoints.PARTITION_FILES:
                    checkpoints.write_row(self.directory, name, None, files=self.files)
                self.files.remove_dir(self.directory, last=checkpoints.PARTITION_FILE)  # it has their producer
            except FAILURES as error:
                raise self.failure(error) from error

    def flush(self) -> None:
        """Everything to the disk, indexes too. Raises KafkaStorageError."""
        try:
            self.segments[-1].flush(True)
        except FAILURES as error:
            raise self.failure(error) from error

    def close(self) -> None:
        """Write buffered data and close the files; with a full disk the next start reads more."""
        self._stop_compaction()
        self.on_sealed = lambda: None
        try:
            if self.directory is not None and self.segments[-1].size >= recovery.LEFT_ACTIVE_BYTES:
                self._roll(0)
            self.segments[-1].flush(False)
        except OSError as error:
            logger.warning("%s: its indexes could not be written; the next start rebuilds them: %s", self.name, error)
        finally:
            for segment in self.segments:
                segment.close()
