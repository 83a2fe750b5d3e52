"""The last value of each key: what the load of a log asks of a batch, without making an object of a record that a later one supersedes.

A coordinator's log is mostly commits of the same few partitions, and only the last one of each counts: Kafka's compaction drops the
others, and a log that has not been compacted yet is full of them. `last_values` goes over them at some 0.7 us each; to decode one and
apply it takes ten times as long.

A consumer commits the same partitions again and again, so its batches have the same keys at the same places and differ in the values
alone. `BatchLayouts` keeps what surrounds the values of such a batch; of the next one three calls in C compare it, cut the values out
and store them, in a fifth of the time.
"""

from __future__ import annotations

from collections.abc import Container, Generator, Iterable, Iterator
from struct import Struct

from kafka_wire.record_batch import (
    CODEC_MASK,
    CONTROL_BIT,
    HEADER_BYTES,
    LENGTH_END,
    TRANSACTIONAL_BIT,
    BatchHeader,
    InvalidRecord,
    UnreadableRecords,
    signed_varint,
)
from kafka_wire.record_checks import record_at, varint_at, walking

__all__ = ["BatchLayouts", "KeyValue", "is_plain", "last_values"]

KeyValue = tuple[int, bytes | None, bytes | None]
"""Offset, key and value of a record; a tombstone has no value."""
_AT_ONCE = 10
"""Superseded records that take the time of one which is read."""


_NOT_PLAIN = CODEC_MASK | CONTROL_BIT | TRANSACTIONAL_BIT


def is_plain(header: BatchHeader) -> bool:
    """Whether `last_values` may go over a batch: it is not compressed, and of no transaction."""
    return not header.attributes & _NOT_PLAIN


def last_values(
    data: bytes, pos: int, header: BatchHeader, latest: dict[bytes, bytes | None], versions: Container[int]
) -> Generator[KeyValue | None, None, None]:
    """Iterate over the records of the uncompressed batch at ``pos``: a value whose key is in ``latest`` replaces the entry there.
    All other records are yielded, and also tombstones and values that don't begin with one of ``versions`` (int16), have
    headers, or are 8 KiB or longer. None is yielded after a number of replaced ones, so that the caller can pause. The caller
    may change ``latest`` between records.

    Of a record that is superseded later only the sizes and the version are validated: most commits of an offsets log are, and
    decoding them would take most of a coordinator's load. Raises InvalidRecord.
    """
    at, stop = pos + HEADER_BYTES, pos + header.length + LENGTH_END
    superseded = 0
    try:
        for _ in range(header.record_count):
            begin = at
            byte = data[at]
            if byte < 128:
                end = at + 1 + (byte >> 1)
                at += 2
            else:
                size, at = signed_varint(data, at, 5)
                end = at + size
                at += 1
            while data[at] > 127:  # the timestamp's delta
                at += 1
            at += 1
            while data[at] > 127:  # the offset's
                at += 1
            size, at = data[at + 1], at + 2
            if size > 127:
                size, at = size & 0x7F | data[at] << 7, at + 1
            value_at = at + (size >> 1)
            key = data[at:value_at]
            if key in latest and end <= stop:
                size, value_at = data[value_at], value_at + 1
                if size > 127:
                    size, value_at = size & 0x7F | data[value_at] << 7, value_at + 1
                # an odd size is a tombstone's, or no size at all; what stands behind the value is the number of headers
                if (
                    size & 1 == 0
                    and size > 3
                    and value_at + (size >> 1) + 1 == end
                    and not data[end - 1] | data[value_at]
                    and data[value_at + 1] in versions
                ):
                    latest[key] = data[value_at : end - 1]
                    at = end
                    superseded += 1
                    if superseded == _AT_ONCE:
                        superseded = 0
                        yield None
                    continue
            at, record = yield from _read(data, begin, stop, header.base_offset)
            yield record
    except IndexError:
        raise InvalidRecord("a record reaches beyond the end of its batch") from None
    if at != stop:
        raise InvalidRecord("Incorrect declared batch size, records still remaining in file")


def _read(data: bytes, at: int, stop: int, base_offset: int) -> Generator[None, None, tuple[int, KeyValue]]:
    """Return the end of the record at ``at`` and its offset, key and value; yields after a piece of its headers."""
    try:
        record = yield from walking(data, at, stop, True)
    except UnreadableRecords as error:
        raise InvalidRecord(str(error)) from None
    key = value = None
    _, at = varint_at(data, record.key_at, 5)
    if record.key_size >= 0:
        key = data[at : at + record.key_size]
        at += record.key_size
    if record.value_size >= 0:
        _, at = varint_at(data, at, 5)
        value = data[at : at + record.value_size]
    return record.end, (base_offset + record.offset_delta, key, value)


# ------------------------------------------------------------------------------------------------ layouts

_MOST_LAYOUTS = 4096
"""Layouts that are kept. One of ten records takes 3 KiB."""
_MOST_RECORDS = 64
"""A batch of more records is left to `last_values`, which pauses within it."""
_MOST_UNUSED = 256
"""So many more layouts are made than batches were read with one: it costs as much as three batches of `last_values`."""
_VERSION_BYTES = 2


class _Layout:
    """Batches of one length with these keys in this order. ``values``: where each one's value begins and ends, counted from the first
    record on; ``records``: the records of a batch with them."""

    __slots__ = ("around", "equal", "keys", "length", "names", "values")

    def __init__(self, length: int, keys: list[bytes], values: list[tuple[int, int]], records: bytes) -> None:
        self.length, self.keys, self.names = length, keys, frozenset(keys)
        around = inside = ""
        done = 0
        for begin, end in values:
            around += f"{begin + _VERSION_BYTES - done}s{end - begin - _VERSION_BYTES}x"
            inside += f"{begin - done}x{end - begin}s"
            done = end
        self.around, self.values = Struct(f"{around}{len(records) - done}s"), Struct(inside)
        self.equal = self.around.unpack(records)


class BatchLayouts:
    """Reads a log's batches by their layouts, and those of unknown ones record by record.

    ``latest``: key -> value; the caller may remove and add keys at any time. ``versions``: of values that may be stored there, int16.
    """

    def __init__(self, latest: dict[bytes, bytes | None], versions: Container[int]) -> None:
        self.latest, self.versions = latest, versions
        self.reads = 0
        """Number of batches that were read with a layout."""
        self._layouts: dict[bytes, _Layout] = {}  # by the bytes of the first record up to the end of its key
        self._beginnings: dict[int, int] = {}  # length of a batch -> how many bytes these are
        self._made = 0

    def last_values(self, data: bytes, pos: int, header: BatchHeader) -> Iterable[KeyValue | None]:
        """As the function of this name: the records of the plain batch at ``pos`` that are not stored in ``latest``; none if it has a
        known layout. Raises InvalidRecord."""
        return () if self._replaces(data, pos, header) else self._read(data, pos, header)

    def _read(self, data: bytes, pos: int, header: BatchHeader) -> Iterator[KeyValue | None]:
        all_stored = True
        for record in last_values(data, pos, header, self.latest, self.versions):
            all_stored &= record is None
            yield record
        if all_stored:
            self._learn(data, pos, header)

    def _replaces(self, data: bytes, pos: int, header: BatchHeader) -> bool:
        """Whether the batch has a known layout and all its keys are in ``latest``: its values are stored there then."""
        size = self._beginnings.get(header.length)
        if size is None:
            return False
        at = pos + HEADER_BYTES
        layout = self._layouts.get(data[at : at + size])
        if layout is None or layout.length != header.length or len(layout.keys) != header.record_count:
            return False
        if layout.around.unpack_from(data, at) != layout.equal or not self.latest.keys() >= layout.names:
            return False
        self.latest.update(zip(layout.keys, layout.values.unpack_from(data, at), strict=True))
        self.reads += 1
        return True

    def _learn(self, data: bytes, pos: int, header: BatchHeader) -> None:
        """Keep the layout of a batch all of whose values were stored: no record has headers, and each value has one of ``versions``."""
        if not 0 < header.record_count <= _MOST_RECORDS or self._made - self.reads >= _MOST_UNUSED:
            return
        first = at = pos + HEADER_BYTES
        stop = pos + header.length + LENGTH_END
        keys, values, beginning = [], [], b""
        for _ in range(header.record_count):
            try:
                record = record_at(data, at, stop, True)
            except (InvalidRecord, UnreadableRecords):  # less than that is validated of a value that is stored
                return
            _, key_at = varint_at(data, record.key_at, 5)
            key_end, at = key_at + record.key_size, record.end
            keys.append(data[key_at:key_end])
            beginning = beginning or data[first:key_end]
            values.append((at - 1 - record.value_size - first, at - 1 - first))
        if len(self._layouts) >= _MOST_LAYOUTS and beginning not in self._layouts:
            return
        for (
            key
        ) in keys:  # from now on these objects are the keys in ``latest``: to find one by identity takes half the time
            self.latest[key] = self.latest.pop(key)
        self._layouts[beginning] = _Layout(header.length, keys, values, data[first:stop])
        self._beginnings[header.length] = len(beginning)
        self._made += 1
