"""Batches that differ from an earlier one in their values alone, as a consumer's commits do: read without a look at each record.

A consumer commits the same partitions again and again, so its batches have the same keys at the same places. `BatchLayouts` keeps
what surrounds the values of such a batch. Of the next one three calls in C compare it, cut the values out and store them: a fifth of
what `last_values` takes, which goes over the records one by one.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from struct import Struct

from kafka_wire.last_values import KeyValue, last_values
from kafka_wire.record_batch import HEADER_BYTES, LENGTH_END, BatchHeader, InvalidRecord, UnreadableRecords
from kafka_wire.record_checks import record_at, varint_at

__all__ = ["BatchLayouts"]

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
        """How many batches were read with a layout."""
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
