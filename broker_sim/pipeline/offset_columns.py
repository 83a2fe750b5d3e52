"""Many records of `__consumer_offsets` at once, decoded into columns: no Python object for a record, a field or a row.

How it works: `record_places` finds where records begin; everything behind that is arithmetic on arrays of positions. Strings are cut
out of the batch's bytes by Arrow.

Rules:
1. Only what is read here to the last byte is taken: commits (keys 0 and 1, values 0-4), their tombstones, the markers of
   transactions. Every other record, and every batch that is odd in any way, goes to `offset_records`, whose rows these are equal to.
2. A batch that can't be read is reported with the reason and skipped as a whole.
3. What is kept is bounded by the size of the piece that is handed in.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy
import pyarrow

from broker_sim.pipeline.offset_records import FARTHEST_MS, Row, row_of, topic_id_text
from broker_sim.pipeline.record_places import Array, Piece, headers_at, payload_of, places_of, varints
from broker_sim.pipeline.schemas import KINDS, OFFSET_LOG, TableSchema
from kafka_wire import compression
from kafka_wire.record_batch import (
    CONTROL_BIT,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Record,
    RecordBatchError,
    records,
)

__all__ = ["DecodeFault", "Decoded", "RowSelection", "SegmentOrigin", "decode", "decode_plainly"]

COMMIT, COMMIT_TOMBSTONE, TXN_COMMIT, TXN_ABORT = (
    KINDS.index(kind) for kind in ("commit", "commit_tombstone", "txn_commit", "txn_abort")
)
_OTHER = -1  # a record for offset_records
_KINDS = pyarrow.array(KINDS)
_TOPIC_ID_TAG = numpy.array([1, 0, 16], numpy.uint8)
"""Behind a commit's timestamp where the topic's id follows: one tagged field, the first there is, of 16 bytes."""
_TOPIC_ID_BYTES = 16
_MOMENTS = ("record_ts", "commit_ts", "state_ts")


@dataclass(frozen=True)
class SegmentOrigin:
    """The run, partition and segment file of records."""

    run_id: str
    log_partition: int
    segment: int
    """Base offset of the file."""


class DecodeFault(NamedTuple):
    """A batch, or a record of it, that could not be read."""

    batch: int
    """Number of the batch in the piece."""
    reason: str
    lost: bool
    """Whether its rows are missing; if not, the record is there as `other`."""


class Decoded(NamedTuple):
    """Rows (a pyarrow.RecordBatch), and what could not be read."""

    rows: Any
    faults: list[DecodeFault]


@dataclass(frozen=True)
class RowSelection:
    """Selection of the rows of a segment: those of the offsets in [start, end), with the columns of ``table``."""

    origin: SegmentOrigin
    start: int = 0
    end: int = 2**63 - 1
    table: TableSchema = OFFSET_LOG


def decode(piece: Piece, wanted: RowSelection) -> Decoded:
    """The rows of a piece, in order, and what could not be read of it."""
    if not piece.at:
        return Decoded(_of_rows((), wanted), [])
    headers = headers_at(piece.data, piece.at) if piece.headers is None else piece.headers
    payload, starts, stops, odd = payload_of(piece, headers)
    places, counts = places_of(payload, starts, stops, headers["record_count"].astype(numpy.int64))
    odd |= counts != headers["record_count"]
    rows = _Rows(payload, places, counts, headers)
    odd[rows.batch[rows.odd]] = True
    if odd.any():
        rows.keep(~odd[rows.batch])
    rows.keep((rows.offset >= wanted.start) & (rows.offset < wanted.end))
    slow, faults = _slow_rows(piece, numpy.flatnonzero(odd), headers, rows, wanted)
    rows.keep(rows.kind != _OTHER)
    quick = rows.columns(piece, wanted)
    if not slow:
        return Decoded(quick, faults)
    both = pyarrow.Table.from_batches([quick, _of_rows(slow, wanted)])
    order = numpy.concatenate([rows.place, numpy.array([place for place, _ in slow], numpy.int64)])
    taken = both.take(pyarrow.array(numpy.argsort(order, kind="stable"))).combine_chunks()
    return Decoded(taken.to_batches()[0], faults)


def decode_plainly(piece: Piece, wanted: RowSelection) -> Decoded:
    """Decode a piece record by record, with the protocol's decoders alone: `decode` is checked against this."""
    faults: list[DecodeFault] = []
    placed: list[tuple[int, Row]] = []
    for index, header in enumerate(headers_at(piece.data, piece.at)):
        placed += _rows_of(piece, index, BatchHeader._make(header.item()), wanted, faults)
    return Decoded(_of_rows(placed, wanted), faults)


# ------------------------------------------------------------------------------------------------ the plain way


Placed = tuple[int, Row]
"""A row, and its place among all rows of the piece: the batch's number and the record's."""


def _slow_rows(
    piece: Piece, odd: Array, headers: Array, rows: _Rows, wanted: RowSelection
) -> tuple[list[Placed], list[DecodeFault]]:
    """Everything that arrays don't read: odd batches whole, and the other records of good ones."""
    faults: list[DecodeFault] = []
    slow: list[Placed] = []
    for index in odd.tolist():
        slow += _rows_of(piece, index, BatchHeader._make(headers[index].item()), wanted, faults)
    for place in numpy.flatnonzero(rows.kind == _OTHER).tolist():
        index = int(rows.batch[place])
        row, why = row_of(rows.record(place), BatchHeader._make(headers[index].item()))
        row["position"] = piece.position + piece.at[index]
        slow.append((int(rows.place[place]), row))
        if why is not None:
            faults.append(DecodeFault(index, f"record at offset {row['log_offset']}: {why}", False))
    return slow, faults


def _rows_of(
    piece: Piece, index: int, header: BatchHeader, wanted: RowSelection, faults: list[DecodeFault]
) -> list[Placed]:
    """The rows of a batch, read plainly."""
    mine: list[Placed] = []
    doubts: list[DecodeFault] = []
    try:
        for number, record in enumerate(records(piece.data, piece.at[index], header)):
            row, why = row_of(record, header)
            if not wanted.start <= row["log_offset"] < wanted.end:
                continue
            row["position"] = piece.position + piece.at[index]
            mine.append(((index << 32) + number, row))
            if why is not None:
                doubts.append(DecodeFault(index, f"record at offset {row['log_offset']}: {why}", False))
    except (RecordBatchError, compression.CodecUnavailable) as error:
        faults.append(DecodeFault(index, str(error), True))
        return []
    faults += doubts
    return mine


def _of_rows(placed: Iterable[Placed], wanted: RowSelection) -> Any:
    origin = wanted.origin
    common = {"run_id": origin.run_id, "log_partition": origin.log_partition, "segment": origin.segment}
    rows = [row | common for _, row in placed]
    schema = wanted.table.arrow()
    columns = []
    for field in schema:
        if field.name in _MOMENTS:
            columns.append(_moments([row.get(f"{field.name}_ms") for row in rows], field.type))
        else:
            columns.append(pyarrow.array([row.get(field.name) for row in rows], field.type))
    return pyarrow.RecordBatch.from_arrays(columns, schema=schema)


def _moments(all_ms: Iterable[int | None], kind: Any) -> Any:
    return pyarrow.array(
        [None if ms is None or not 0 <= ms <= FARTHEST_MS else ms * 1000 for ms in all_ms], pyarrow.int64()
    ).cast(kind)


# ------------------------------------------------------------------------------------------------ from records to columns


class _Rows:
    """Records by their positions; every array has one element for each."""

    def __init__(self, payload: bytes, first: Array, counts: Array, headers: Array) -> None:
        self.payload = payload
        self.whole = numpy.frombuffer(payload or b"\0", numpy.uint8)
        self.headers = headers
        self.batch = batch = numpy.repeat(numpy.arange(len(counts)), counts)
        self.place = (batch << 32) + numpy.arange(batch.size) - numpy.repeat(numpy.cumsum(counts) - counts, counts)
        """Order among all rows of the piece."""
        length, body, odd = varints(self.whole, first, 5)
        end = body + length
        time, at, bad = varints(self.whole, body + 1, 9)
        delta, at, worse = varints(self.whole, at, 5)
        odd |= bad | worse
        self.key_size, self.key, bad = varints(self.whole, at, 5)
        self.value_size, self.value, worse = varints(self.whole, self.key + numpy.maximum(self.key_size, 0), 5)
        odd |= bad | worse | (length < 0) | (self.key + self.key_size > end)
        behind = self.value + numpy.maximum(self.value_size, 0)
        odd |= (behind + 1 != end) | (self.whole.take(behind, mode="clip") != 0)
        self.odd = odd
        """Records that the plain way has to look at, with all of their batch."""
        self.offset = self.of_batch("base_offset", numpy.int64) + delta
        append_time = ((headers["attributes"] & TIMESTAMP_TYPE_BIT) != 0)[batch]
        self.timestamp = self.of_batch("base_timestamp", numpy.int64) + time
        if append_time.any():
            self.timestamp = numpy.where(append_time, self.of_batch("max_timestamp", numpy.int64), self.timestamp)
        self.kind = numpy.full(batch.size, _OTHER)
        self._classify()

    def of_batch(self, name: str, dtype: Any) -> Array:
        """A field of each record's batch."""
        values: Array = self.headers[name].astype(dtype)[self.batch]
        return values

    def window(self, kind: str) -> Array:
        """The big-endian numbers at every byte of the payload."""
        dtype = numpy.dtype(kind)
        return numpy.ndarray((max(0, len(self.payload) - dtype.itemsize + 1),), dtype, self.payload, 0, (1,))

    def keep(self, which: Array) -> None:
        """Forget all but these records."""
        if which.all():
            return
        for name, array in vars(self).items():
            if isinstance(array, numpy.ndarray) and name not in ("whole", "headers"):
                setattr(self, name, array[which])

    def record(self, index: int) -> Record:
        """The record as protocol gives it."""
        key, value = self._bytes(self.key, self.key_size, index), self._bytes(self.value, self.value_size, index)
        return Record(int(self.offset[index]), int(self.timestamp[index]), key, value)

    def _bytes(self, at: Array, size: Array, index: int) -> bytes | None:
        if size[index] < 0:
            return None
        first = int(at[index])
        return self.payload[first : first + int(size[index])]

    # -------------------------------------------------------------------------------------------- which records are usual

    def _classify(self) -> None:
        size = self.batch.size
        zero = numpy.zeros(size, numpy.int64)
        self.key_version, self.value_version = zero.copy(), zero.copy()
        self.group_size, self.topic_size = zero.copy(), zero.copy()
        self.partition, self.metadata, self.metadata_size, self.numbers = (zero.copy() for _ in range(4))
        self.topic_id = zero.copy()  # where it stands, 0 for a commit without one
        control = (self.headers["attributes"][self.batch] & CONTROL_BIT) != 0
        has_key = ~self.odd & (self.key_size >= 4) & ((self.value_size < 0) | (self.value_size >= 2))
        who = numpy.flatnonzero(has_key)
        int16 = self.window(">i2")
        self.key_version[who] = int16[self.key[who]]
        have = who[self.value_size[who] >= 0]
        self.value_version[have] = int16[self.value[have]]
        self._classify_markers(who[control[who]], int16)
        commits = who[~control[who]]
        self._classify_commits(commits[(self.key_version[commits] == 0) | (self.key_version[commits] == 1)], int16)

    def _classify_markers(self, who: Array, int16: Array) -> None:
        ends = int16[self.key[who] + 2]
        good = (self.key_version[who] >= 0) & ((ends == 0) | (ends == 1))
        self.kind[who[good]] = numpy.where(ends[good] == 1, TXN_COMMIT, TXN_ABORT)

    def _classify_commits(self, who: Array, int16: Array) -> None:
        """Classify those of the records ``who`` whose key and value are commits to the last byte."""
        key, size = self.key[who], self.key_size[who]
        group = int16[key + 2].astype(numpy.int64)
        good = (size >= 10) & (group >= 0) & (group <= size - 10)
        who, key, size, group = who[good], key[good], size[good], group[good]
        topic = int16[key + 4 + group].astype(numpy.int64)
        good = (topic >= 0) & (topic == size - 10 - group)
        who, key, group, topic = who[good], key[good], group[good], topic[good]
        self.group_size[who], self.topic_size[who] = group, topic
        self.partition[who] = self.window(">i4")[key + 6 + group + topic]
        tombstones = self.value_size[who] < 0
        self.kind[who[tombstones]] = COMMIT_TOMBSTONE
        self._classify_values(who[~tombstones], int16)

    def _classify_values(self, who: Array, int16: Array) -> None:
        value, size, version = self.value[who], self.value_size[who], self.value_version[who]
        good = (version >= 0) & (version <= 4) & (size >= 20)  # 20: version, offset, no metadata, timestamp
        who, value, size, version = who[good], value[good], size[good], version[good]
        text = value + numpy.where(version >= 3, 14, 10)  # where the size of the metadata stands
        compact = version == 4
        length = numpy.where(compact, self.whole[text].astype(numpy.int64) - 1, int16[text])
        begin = text + numpy.where(compact, 1, 2)
        two = numpy.flatnonzero(compact & (length >= 127))  # a size of two bytes
        if two.size:
            high = self.whole[text[two] + 1].astype(numpy.int64)
            length[two] = numpy.where(high < 128, ((length[two] + 1) & 127 | high << 7) - 1, -1)
            begin[two] += 1
        behind = value + size - (begin + length) - numpy.where(version == 1, 16, 8)  # the timestamps
        named = compact & (length >= 0) & (behind == _TOPIC_ID_TAG.size + _TOPIC_ID_BYTES)
        good = (length >= 0) & ((behind == numpy.where(compact, 1, 0)) | named)
        tags = numpy.where(compact & good, value + size - behind, 0)
        good &= ~compact | (self.whole[tags] == numpy.where(named, _TOPIC_ID_TAG[0], 0))
        for at in range(1, _TOPIC_ID_TAG.size):
            good &= ~named | (self.whole[numpy.where(named, tags + at, 0)] == _TOPIC_ID_TAG[at])
        who = who[good]
        self.metadata[who], self.metadata_size[who] = begin[good], length[good]
        self.numbers[who] = begin[good] + length[good]
        self.topic_id[who] = numpy.where(named, tags + _TOPIC_ID_TAG.size, 0)[good]
        self.kind[who] = COMMIT

    # -------------------------------------------------------------------------------------------- columns

    def columns(self, piece: Piece, wanted: RowSelection) -> Any:
        """The usual records, that are all that is kept by now."""
        made = _Columns(self, piece, wanted.origin)
        schema = wanted.table.arrow()
        return pyarrow.RecordBatch.from_arrays([made.column(field) for field in schema], schema=schema)


class _Columns:
    """Arrow arrays out of kept rows; each is made when it is asked for."""

    def __init__(self, rows: _Rows, piece: Piece, origin: SegmentOrigin) -> None:
        self.rows, self.piece, self.origin = rows, piece, origin
        self.size = rows.batch.size
        self.is_commit = rows.kind == COMMIT
        self.has_key = self.is_commit | (rows.kind == COMMIT_TOMBSTONE)

    def column(self, field: Any) -> Any:
        make = getattr(self, f"_{field.name}", None)
        return pyarrow.nulls(self.size, field.type) if make is None else make()

    def _run_id(self) -> Any:
        return pyarrow.repeat(pyarrow.scalar(self.origin.run_id), self.size)

    def _log_partition(self) -> Any:
        return pyarrow.array(numpy.full(self.size, self.origin.log_partition, numpy.int32))

    def _segment(self) -> Any:
        return pyarrow.array(numpy.full(self.size, self.origin.segment, numpy.int64))

    def _position(self) -> Any:
        positions = numpy.array(self.piece.at, numpy.int64) + self.piece.position
        return pyarrow.array(positions[self.rows.batch])

    def _log_offset(self) -> Any:
        return pyarrow.array(self.rows.offset)

    def _record_ts(self) -> Any:
        return _times(self.rows.timestamp, None)

    def _record_ts_ms(self) -> Any:
        return pyarrow.array(self.rows.timestamp)

    def _leader_epoch(self) -> Any:
        return pyarrow.array(self.rows.of_batch("leader_epoch", numpy.int32))

    def _producer_id(self) -> Any:
        return pyarrow.array(self.rows.of_batch("producer_id", numpy.int64))

    def _producer_epoch(self) -> Any:
        return pyarrow.array(self.rows.of_batch("producer_epoch", numpy.int32))

    def _is_txn(self) -> Any:
        flags = (self.rows.headers["attributes"] & TRANSACTIONAL_BIT) != 0
        return pyarrow.array(flags[self.rows.batch])

    def _kind(self) -> Any:
        if self.is_commit.all():
            return pyarrow.repeat(pyarrow.scalar(KINDS[COMMIT]), self.size)
        return _KINDS.take(pyarrow.array(self.rows.kind))

    def _key_version(self) -> Any:
        return pyarrow.array(self.rows.key_version.astype(numpy.int32))

    def _value_version(self) -> Any:
        return pyarrow.array(self.rows.value_version.astype(numpy.int32), mask=self.rows.value_size < 0)

    def _group(self) -> Any:
        return self._text(self.rows.key + 4, self.rows.group_size, self.has_key)

    def _topic(self) -> Any:
        return self._text(self.rows.key + 6 + self.rows.group_size, self.rows.topic_size, self.has_key)

    def _metadata(self) -> Any:
        return self._text(self.rows.metadata, self.rows.metadata_size, self.is_commit)

    def _topic_id(self) -> Any:
        named = self.rows.topic_id > 0
        if not named.any():
            return pyarrow.nulls(self.size, pyarrow.string())
        at = self.rows.topic_id[named]
        ids, which = numpy.unique(
            self.rows.whole[at[:, None] + numpy.arange(_TOPIC_ID_BYTES)], axis=0, return_inverse=True
        )
        texts = pyarrow.array([topic_id_text(topic_id.tobytes()) for topic_id in ids], pyarrow.string())
        index = numpy.zeros(self.size, numpy.int64)
        index[named] = which.reshape(-1)
        return texts.take(pyarrow.array(index, mask=~named))

    def _partition(self) -> Any:
        return pyarrow.array(self.rows.partition.astype(numpy.int32), mask=~self.has_key)

    def _committed_offset(self) -> Any:
        return self._number(">i8", self.rows.value + 2, self.is_commit)

    def _committed_leader_epoch(self) -> Any:
        return self._number(">i4", self.rows.value + 10, self.is_commit & (self.rows.value_version >= 3))

    def _commit_ts(self) -> Any:
        return _times(self._gathered(">i8", self.rows.numbers, self.is_commit), self.is_commit)

    def _commit_ts_ms(self) -> Any:
        return self._number(">i8", self.rows.numbers, self.is_commit)

    def _expire_ts_ms(self) -> Any:
        return self._number(">i8", self.rows.numbers + 8, self.is_commit & (self.rows.value_version == 1))

    def _gathered(self, kind: str, at: Array, which: Array) -> Array:
        window = self.rows.window(kind)
        native = window.dtype.newbyteorder("=")
        if which.all():
            return window[at].astype(native)
        out = numpy.zeros(self.size, native)
        out[which] = window[at[which]]
        return out

    def _number(self, kind: str, at: Array, which: Array) -> Any:
        values = self._gathered(kind, at, which)
        return pyarrow.array(values) if which.all() else pyarrow.array(values, mask=~which)

    def _text(self, at: Array, size: Array, which: Array) -> Any:
        """Strings cut out of the payload. Every other element is what lies between two of them, so nothing is copied twice."""
        everywhere = bool(which.all())
        who = slice(None) if everywhere else numpy.flatnonzero(which)
        edges = numpy.empty(2 * at[who].size + 1, numpy.int32)
        edges[:-1:2] = at[who]
        edges[1::2] = at[who] + size[who]
        edges[-1] = edges[-2] if edges.size > 1 else 0
        buffers = [None, pyarrow.py_buffer(edges), pyarrow.py_buffer(self.rows.payload)]
        cut = pyarrow.Array.from_buffers(pyarrow.binary(), edges.size - 1, buffers)
        if everywhere:
            taken = pyarrow.array(numpy.arange(0, edges.size - 1, 2))
        else:
            index = numpy.zeros(self.size, numpy.int64)
            index[who] = numpy.arange(0, edges.size - 1, 2)
            taken = pyarrow.array(index, mask=~which)
        texts = cut.take(taken)
        try:
            return texts.cast(pyarrow.string())
        except pyarrow.ArrowInvalid:  # not all of it is UTF-8
            return pyarrow.array(
                [raw and raw.decode("utf-8", "replace") for raw in texts.to_pylist()], pyarrow.string()
            )


def _times(all_ms: Array, which: Array | None) -> Any:
    """Timestamps out of ms; null if they are missing or outside of the calendar's range."""
    unknown = (all_ms < 0) | (all_ms > FARTHEST_MS)
    if which is not None:
        unknown |= ~which
    kind = pyarrow.timestamp("us", tz="UTC")
    if not unknown.any():
        return pyarrow.array(all_ms * 1000).cast(kind)
    return pyarrow.array(numpy.where(unknown, 0, all_ms) * 1000, mask=unknown).cast(kind)
