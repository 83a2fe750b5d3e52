"""Opening a log directory: repair what a crash left, truncate damaged logs, and log a warning for each.

Rules:
1. The last segment is read whole and every CRC checked: what a crash tore is at its end, and is cut at the last good
   batch. Earlier segments were finished when they were rolled: their indexes and last batches have to fit together;
   one that doesn't fit is read whole as well. So a big log opens in the time that its last segment takes, and after a
   clean shutdown at once: a log that is closed rolls an active segment of `LEFT_ACTIVE_BYTES` or more.
2. Each truncation is logged: one warning with the file, the position, the number of bytes and the reason. If the removed part has
   a batch with a right CRC (damage, not a torn write), it is kept beside the log as `<name>.<position>.damaged`.
   Offsets without a segment are logged as well, unless compaction may have removed them.
   A batch's CRC covers neither its base offset nor its leader epoch: both are believed as far as the batches around it agree, the epoch
   of the last batch in any case (after a loss of power the checkpoint of the epochs may not have it). A base offset that contradicts
   the batch before and the batch after is put right in the file, for the batch itself is whole.
3. Kafka cuts damaged logs at the first bad batch too, but deletes every later segment with it (its replicas have
   them). Here the later segments stay: readers pass over the gap as over one that compaction left.
4. Leftovers: `.cleaned` and `.deleted` files go, a `.swap` takes the place of the segments that it replaces, indexes
   without a log go. Files of a real broker that mean nothing here (.snapshot elsewhere, checkpoints) stay.
5. Producers, open transactions included, are those of the newest snapshot at a segment's start, and of what was written
   from there on. Aborted transactions are in the `.txnindex` of the earlier segments; if one is invalid, all is read
      again from an earlier snapshot.
Source: LogLoader, LogSegment.recover, ProducerStateManager (storage).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import google_crc32c

from broker_sim.storage import checkpoints
from broker_sim.storage.epochs import EpochCache
from broker_sim.storage.files import Files
from broker_sim.storage.log_config import LogConfig
from broker_sim.storage.producer_state import ProducerState, decode_snapshot
from broker_sim.storage.segment import MAX_RELATIVE_OFFSET, READ_BYTES, DiskSegment, Segment
from broker_sim.storage.transactions import AbortedTransaction, decode_entries
from kafka_wire.end_markers import end_marker
from kafka_wire.record_batch import (
    CRC_END,
    HEADER_BYTES,
    LENGTH_END,
    MAGIC_END,
    BatchHeader,
    RecordBatchError,
    check_crc,
    parse_header,
)

if TYPE_CHECKING:
    from pathlib import Path

logger = logging.getLogger(__name__)

SEGMENT_KINDS = ("log", "index", "timeindex")

LEFT_ACTIVE_BYTES = 4 << 20
"""The size from which a log that is closed rolls its active segment (bytes): 4 MiB of small batches are read in some 20 ms.

Kafka marks a clean shutdown (`.kafka_cleanshutdown`) and believes the active segments then, whatever became of the files meanwhile.
A finished segment is believed as far as its index and last batches agree with it, by the rules that hold for all others.
"""

MAGIC_AT = MAGIC_END - 1
OFFSET_DIGITS = 20
MAX_OFFSET = 2**63 - 2**32
"""No log begins beyond: its records have to have offsets, too."""

MAX_EPOCH = 2**31 - 2**16
"""A later leader epoch is damage (a batch's CRC does not cover it); it counts as unknown."""


@dataclass
class Recovered:
    """The result of opening a log directory: its segments, producers and offsets."""

    segments: list[DiskSegment] = field(default_factory=list)
    producers: ProducerState = field(default_factory=ProducerState)
    aborted: list[AbortedTransaction] = field(default_factory=list)
    epochs: list[tuple[int, int]] = field(default_factory=list)
    epochs_changed: bool = False
    log_start_offset: int = 0
    clean_end_offset: int = 0


def recover(directory: Path, config: LogConfig, files: Files, now_ms: int) -> Recovered:
    """Read a log directory, repairing it. Raises OSError."""
    sweep(directory, config, files, now_ms)
    recovered = Recovered()
    bases = segment_bases(directory, files)
    saved = _saved_epochs(directory, files)
    aborted, sound = _aborted(directory, bases, files)
    recovered.producers, replay_from = _snapshot_before(directory, bases[:sound], files)
    scanned: list[tuple[int, int]] = []  # (epoch, first offset) from the batches of the segments that were read whole
    for base in bases:
        segment = open_segment(directory, base, config, files, now_ms)
        size = files.size(segment.fd)
        replays = base >= replay_from
        if base == bases[-1] or replays or saved is None or not segment.adopt_finished(size):
            ended: list[AbortedTransaction] = []
            scanned += _scan(
                segment,
                size,
                files,
                recovered.producers if replays else None,
                ended,
                compacted=config.compacts,
            )
            _put_right(segment, aborted, ended if replays else None)
            if base != bases[-1]:
                segment.became_inactive()
                segment.flush(True)
        if base != bases[-1]:
            segment.close()
        recovered.aborted += aborted.get(base, ())
        recovered.segments.append(segment)
    _recover_start(directory, recovered, config, files, now_ms)
    if not config.compacts:
        _report_gaps(directory, recovered.segments)
    _recover_epochs(recovered, saved, scanned)
    return recovered


def open_segment(
    directory: Path, base: int, config: LogConfig, files: Files, now_ms: int, suffix: str = ""
) -> DiskSegment:
    """The segment at `base`, of which nothing has been read yet."""
    return DiskSegment(
        directory,
        base,
        created_ms=now_ms,
        index_interval=config.index_interval_bytes,
        max_index_bytes=config.segment_index_bytes,
        files=files,
        suffix=suffix,
    )


def segment_bases(directory: Path, files: Files, suffix: str = "") -> list[int]:
    """Base offsets of the segments in a log directory, ascending. A file that only looks like one is passed over."""
    ending = f".log{suffix}"
    names = (name.removesuffix(ending) for name in files.names(directory) if name.endswith(ending))
    return sorted(base for name in names if (base := _base_of(name)) is not None)


def _base_of(stem: str) -> int | None:
    """The base offset in a segment's name, twenty digits; None for another name."""
    base = int(stem) if len(stem) == OFFSET_DIGITS and stem.isascii() and stem.isdigit() else MAX_OFFSET + 1
    return base if base <= MAX_OFFSET else None


def _report_gaps(directory: Path, segments: Sequence[Segment]) -> None:
    for before, after in pairwise(segments):
        if before.next_offset < after.base_offset:
            logger.warning(
                "%s: the offsets %d to %d are missing (a segment's file is missing or was truncated): readers continue at %d",
                directory,
                before.next_offset,
                after.base_offset - 1,
                after.base_offset,
            )


# ------------------------------------------------------------------------------------------------ leftovers


def sweep(directory: Path, config: LogConfig, files: Files, now_ms: int) -> None:
    """Finish or undo what a crash interrupted (rule 4). Raises OSError."""
    for name in files.names(directory):
        if name.endswith((".cleaned", ".deleted", ".tmp")):
            files.remove(directory / name)
    for base in segment_bases(directory, files, ".swap"):
        _complete_swap(directory, base, config, files, now_ms)
    present = files.names(directory)
    for name in present:
        if name.endswith(".log") and _base_of(name.removesuffix(".log")) is None:
            logger.warning("ignoring %s: the name of a segment must be its base offset, in 20 digits", directory / name)
    logs = {name.removesuffix(".log") for name in present if name.endswith(".log")}
    for name in present:
        stem, _, kind = name.rpartition(".")
        if kind == "swap" or (kind in ("index", "timeindex", "txnindex") and stem not in logs):
            files.remove(directory / name)


def _complete_swap(directory: Path, base: int, config: LogConfig, files: Files, now_ms: int) -> None:
    """A compacted segment was complete when it became `.swap`: remove the segments that it replaces and rename it."""
    swap = open_segment(directory, base, config, files, now_ms, ".swap")
    size = files.size(swap.fd)
    _scan(swap, size, files, None, [])
    files.sync_dir(directory)  # what another process has renamed, and not yet waited for
    bases = segment_bases(directory, files)
    # The segments it replaces begin within its offsets, and the first has its base. An emptied one replaces that alone.
    for old in bases:
        if old == base or base < old < swap.next_offset:
            open_segment(directory, old, config, files, now_ms).delete()
    swap.became_inactive()
    swap.flush(True)
    files.sync_dir(directory)
    swap.rename("")
    swap.close()


# ------------------------------------------------------------------------------------------------ batches


def _scan(
    segment: DiskSegment,
    size: int,
    files: Files,
    producers: ProducerState | None,
    aborted: list[AbortedTransaction],
    *,
    compacted: bool = True,
) -> list[tuple[int, int]]:
    """Read a segment whole, rebuild its indexes, cut it at the first bad batch; its leader epochs. Where the producers before it
    are known, those in it are, and `aborted` gets what its markers abort. `compacted`: offsets may be missing between batches.
    """
    epochs: list[tuple[int, int]] = []
    segment.reset()
    why = ""
    whole = False  # whether the batch that is cut has a right CRC
    try:
        for header, data, pos, following in _with_next(segment.scan(0, size)):
            base: int | None = header.base_offset
            if base != segment.next_offset or header.last_offset_delta < 0:
                base = _believed_base(header, segment, following, compacted)
            if base is None:
                why, whole = f"offset {header.base_offset} where {segment.next_offset} is the least", True
                break
            if base + header.last_offset_delta - segment.base_offset > MAX_RELATIVE_OFFSET:
                why, whole = f"offset {base + header.last_offset_delta} is too far from the segment's first", True
                break
            if base != header.base_offset:
                logger.warning(
                    "%s: the batch at position %d has base offset %d, which contradicts the batches around it; corrected to %d",
                    segment.log_path,
                    segment.size,
                    header.base_offset,
                    base,
                )
                files.write(segment.fd, base.to_bytes(8, "big"), segment.size)
                header = header._replace(base_offset=base)
            segment.note(header.size, header.last_offset, header.max_timestamp)
            if producers is not None and header.producer_id >= 0:
                marker = end_marker(data, pos, header) if header.is_control else None
                ended = producers.update(header, header.base_offset, marker)
                if ended is not None and not ended.committed:
                    aborted.append(AbortedTransaction(*ended[:4]))
            highest = MAX_EPOCH if following is None else min(following.leader_epoch, MAX_EPOCH)
            if header.leader_epoch <= highest and (not epochs or header.leader_epoch > epochs[-1][0]):
                epochs.append((header.leader_epoch, header.base_offset))
    except RecordBatchError as error:
        why = str(error)
    if segment.size < size:
        _cut(segment, size, why, files, keep=whole)
    return epochs


def _with_next(
    batches: Iterator[tuple[BatchHeader, bytes, int]],
) -> Iterator[tuple[BatchHeader, bytes, int, BatchHeader | None]]:
    """(header, buffer, position in it, header of the next batch) of every batch with a right CRC; the next one is None for the last
    of them. Raises RecordBatchError behind it where a bad one follows.
    """
    held: tuple[BatchHeader, bytes, int] | None = None
    failed: RecordBatchError | None = None
    try:
        for header, data, pos in batches:
            check_crc(data, pos, header)
            if held is not None:
                yield *held, header
            held = header, data, pos
    except RecordBatchError as error:
        failed = error
    if held is not None:
        yield *held, None
    if failed is not None:
        raise failed


def _believed_base(
    header: BatchHeader, segment: DiskSegment, following: BatchHeader | None, compacted: bool
) -> int | None:
    """The base offset of the batch at the segment's end: its own, or one that fits between the batch before and the one after where
    its own does not; None where none fits.

    The record offsets are relative to it, so that a batch is whole at any base offset. Of several that fit, the one that a single
    flipped bit explains is taken, else the lowest: the order is right in any case.
    """
    base, delta, least = header.base_offset, header.last_offset_delta, segment.next_offset
    if delta < 0:
        return None
    if following is not None:
        most = following.base_offset - delta - 1
        if base >= least and (base <= most or most < least):
            return base  # the next batch continues behind it, or is the odd one itself
        if most < least:
            return None
        return next((near for bit in range(63) if least <= (near := base ^ 1 << bit) <= most), least)
    ahead = least < base <= segment.base_offset + MAX_RELATIVE_OFFSET - delta
    if base == least or (ahead and compacted):
        return base
    if (base ^ least).bit_count() == 1:
        return least
    return base if base > least else None


def _cut(segment: DiskSegment, size: int, why: str, files: Files, *, keep: bool) -> None:
    position = segment.size
    kept = ""
    if keep or _has_good_batch(segment, position, size, files):
        path = segment.log_path.with_name(f"{segment.log_path.name}.{position}.damaged")
        _copy(segment, position, size, path, files)
        kept = f"; it has whole batches, so that all of it is kept in {path.name}"
    logger.warning(
        "%s: cut at position %d (offset %d), %d bytes removed: %s%s",
        segment.log_path,
        position,
        segment.next_offset,
        size - position,
        why,
        kept,
    )
    files.truncate(segment.fd, position)


def _has_good_batch(segment: DiskSegment, start: int, end: int, files: Files) -> bool:
    """Whether the bytes from `start` to `end` have a whole batch with a right CRC: one that begins behind `start`, at any position, or
    one that reaches from there to the end, whatever its length and magic say.
    """
    head = files.read(segment.fd, HEADER_BYTES, start)
    if len(head) == HEADER_BYTES:
        crc, seen = int.from_bytes(head[MAGIC_END:CRC_END], "big"), 0
        for at in range(start + CRC_END, end, READ_BYTES):
            seen = google_crc32c.extend(seen, files.read(segment.fd, min(READ_BYTES, end - at), at))
        if crc == seen:
            return True
    for window in range(start + 1, end, READ_BYTES):
        data = files.read(segment.fd, READ_BYTES + HEADER_BYTES, window)
        magic = data.find(b"\x02", MAGIC_AT)
        while 0 <= magic < READ_BYTES + MAGIC_AT:
            at = magic - MAGIC_AT
            if _is_good_batch(segment, window + at, data[at : at + HEADER_BYTES], end, files):
                return True
            magic = data.find(b"\x02", magic + 1)
    return False


def _is_good_batch(segment: DiskSegment, position: int, head: bytes, end: int, files: Files) -> bool:
    if len(head) < HEADER_BYTES:
        return False
    base, length = int.from_bytes(head[:8], "big"), int.from_bytes(head[8:12], "big")
    near = segment.next_offset <= base <= segment.base_offset + MAX_RELATIVE_OFFSET  # else each byte 2 might cost a CRC
    if not near or not HEADER_BYTES <= length + LENGTH_END <= end - position:
        return False
    data = files.read(segment.fd, length + LENGTH_END, position)
    try:
        check_crc(data, 0, parse_header(data))
    except RecordBatchError:
        return False
    return True


def _copy(segment: DiskSegment, start: int, end: int, target: Path, files: Files) -> None:
    fd = files.open(target, create=True)
    try:
        files.truncate(fd, 0)
        for position in range(start, end, READ_BYTES):
            data = files.read(segment.fd, min(READ_BYTES, end - position), position)
            files.append(fd, data, position - start)
    finally:
        files.close(fd)


# ------------------------------------------------------------------------------------------------ what goes with them


def _recover_start(directory: Path, recovered: Recovered, config: LogConfig, files: Files, now_ms: int) -> None:
    """The log's start from its checkpoint; a start beyond the end leaves an empty log there, as in Kafka. Segments that end before
    it were about to be removed.
    """
    saved = _saved_offset(directory, checkpoints.LOG_START_FILE, files)
    recovered.clean_end_offset = _saved_offset(directory, checkpoints.CLEANER_FILE, files) or 0
    if not recovered.segments:
        recovered.clean_end_offset = 0
        for name in checkpoints.PARTITION_FILES:  # of a log that had the same name
            checkpoints.write_row(directory, name, None, files=files, sync=True)  # it would hide what is written now
        return
    first, end = recovered.segments[0].base_offset, recovered.segments[-1].next_offset
    recovered.log_start_offset = first if saved is None else max(first, saved)
    if recovered.log_start_offset > end:
        logger.warning(
            "%s: its start %d is beyond its end %d; it is emptied", directory, recovered.log_start_offset, end
        )
        fresh = open_segment(directory, recovered.log_start_offset, config, files, now_ms)
        fresh.create()  # first: a log without segments would begin at 0
        files.sync_dir(directory)
        for segment in recovered.segments:
            segment.delete()
        recovered.segments[:] = [fresh]
        recovered.producers, recovered.aborted = ProducerState(), []
    while len(recovered.segments) > 1 and recovered.segments[1].base_offset <= recovered.log_start_offset:
        recovered.segments.pop(0).delete()
    first = recovered.segments[0].base_offset
    recovered.aborted = [transaction for transaction in recovered.aborted if transaction.last_offset >= first]


def _saved_offset(directory: Path, name: str, files: Files) -> int | None:
    key = checkpoints.partition_of_dir(directory.name)
    return (checkpoints.offsets_or_none(directory.parent, name, files) or {}).get(key) if key else None


def _saved_epochs(directory: Path, files: Files) -> list[tuple[int, int]] | None:
    """The entries (leader epoch, start offset) of leader-epoch-checkpoint; None if the file is missing or invalid."""
    try:
        rows = checkpoints.read_rows(directory / checkpoints.LEADER_EPOCH_FILE, files)
        entries = [(int(epoch), int(start)) for epoch, start in rows]
        ascending = all(entry < next_ and entry[1] < next_[1] for entry, next_ in pairwise(entries))
        if not ascending or any(not (0 <= epoch <= MAX_EPOCH and start >= 0) for epoch, start in entries):
            raise ValueError("the checkpoint contains an invalid epoch")
        return entries or None
    except ValueError as error:
        logger.warning("%s: leader epochs are read from the batches again: %s", directory, error)
        return None


def _recover_epochs(recovered: Recovered, saved: list[tuple[int, int]] | None, scanned: list[tuple[int, int]]) -> None:
    end = recovered.segments[-1].next_offset if recovered.segments else recovered.log_start_offset
    starts = {epoch: start for epoch, start in saved or [] if start <= end}  # a leader may have begun at the very end
    for epoch, start in scanned:
        if epoch >= 0:
            starts[epoch] = min(start, starts.get(epoch, start))
    cache = EpochCache(sorted(starts.items()))
    cache.truncate_from_start(recovered.log_start_offset)
    recovered.epochs = cache.entries
    recovered.epochs_changed = recovered.epochs != (saved or [])


def _snapshot_before(directory: Path | None, bases: Sequence[int], files: Files) -> tuple[ProducerState, int]:
    """The producers of the newest snapshot at a segment's base, and that base: what comes from there on is to replay."""
    for base in reversed(bases if directory is not None else []):
        assert directory is not None
        try:
            known = decode_snapshot(files.read_file(directory / f"{base:020d}.snapshot"))
        except FileNotFoundError:
            continue
        if known is not None:
            return known, base
    return ProducerState(), 0


def _aborted(directory: Path, bases: Sequence[int], files: Files) -> tuple[dict[int, list[AbortedTransaction]], int]:
    """The aborted transactions in the `.txnindex` files by segment, and the number of segments before the first invalid file."""
    present = {name for name in files.names(directory) if name.endswith(".txnindex")}
    result: dict[int, list[AbortedTransaction]] = {}
    sound = len(bases)
    for number, base in enumerate(bases):
        name = f"{base:020d}.txnindex"
        if name in present:
            entries = decode_entries(files.read_file(directory / name), base)
            if entries is None and sound == len(bases):
                sound = number + 1
                if number + 1 < len(bases):
                    logger.warning("%s is invalid; it is rebuilt from the log", directory / name)
            result[base] = entries or []
    return result, sound


def _put_right(
    segment: DiskSegment, aborted: dict[int, list[AbortedTransaction]], ended: list[AbortedTransaction] | None
) -> None:
    """A segment was read whole: write its `.txnindex` with its aborted transactions (`ended`), or with the remaining ones of its
    file."""
    base = segment.base_offset
    aborted_here = aborted.get(base)
    known = (
        [transaction for transaction in aborted_here or () if transaction.last_offset < segment.next_offset]
        if ended is None
        else ended
    )
    if aborted_here is not None or known:
        aborted[base] = known
        segment.save_aborted(known)


def rebuild_producers(
    directory: Path | None, segments: Sequence[Segment], files: Files, before: ProducerState
) -> ProducerState:
    """Producers at the end of these segments, in the place of those ``before``. Raises OSError, RecordBatchError."""
    state, start = _snapshot_before(directory, [segment.base_offset for segment in segments], files)
    for segment in segments:
        if segment.base_offset >= start:
            state.replay(segment.batches())
    state.on_known = before.on_known
    if state.entries:
        state.on_known()
    return state
