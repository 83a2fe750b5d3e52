"""Positions of the records of whole batches: found for many batches at once, with as little work for each record as possible.

Rules:
1. Nothing is believed: a place is one where a record's length leads to the next record, or to the end of its batch.
2. A batch with wrong header fields is one without records here; `kafka_wire.record_batch` then has the reason.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy

from kafka_wire import compression
from kafka_wire.record_batch import CODEC_MASK, HEADER_BYTES, LENGTH_END

__all__ = ["HEADER", "Array", "Piece", "headers_at", "payload_of", "places_of", "portions", "varints"]

PACKED_BYTES = 1 << 17
"""Compressed bytes that are unpacked at once: commits take up to twenty times as many."""

MOST_UNPACKED = 1 << 30
"""Unpacked bytes that are processed at once, at most: positions have 31 bits. Larger ones are made to do harm, and read plainly."""

Array = numpy.ndarray[Any, Any]

HEADER = numpy.dtype(
    [
        ("base_offset", ">i8"),
        ("length", ">i4"),
        ("leader_epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp", ">i8"),
        ("max_timestamp", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("record_count", ">i4"),
    ]
)
"""The fields of `kafka_wire.record_batch.BatchHeader`, as they lie in a file."""


class Piece(NamedTuple):
    """Whole batches whose CRC is right, in a part of a file."""

    data: bytes
    position: int
    """Position of ``data`` in the file."""
    at: list[int]
    """Positions in ``data`` at which the batches begin."""
    next_offset: int
    """One past the last of them."""
    headers: Any = None
    """Headers of the batches (an array of HEADER), if they have been read already."""

    def size_of(self, batch: int) -> int:
        """The size of a batch in bytes."""
        return int.from_bytes(self.data[self.at[batch] + 8 : self.at[batch] + LENGTH_END], "big") + LENGTH_END


def headers_at(data: bytes, at: Sequence[int]) -> Array:
    """The headers of the batches that begin there."""
    everywhere = numpy.ndarray((max(0, len(data) - HEADER_BYTES + 1),), HEADER, data, 0, (1,))
    headers: Array = everywhere[numpy.array(at, numpy.int64)]
    return headers


def portions(piece: Piece) -> Iterator[Piece]:
    """The piece in parts that are not much more unpacked than it is packed; itself, where nothing in it is compressed."""
    headers = headers_at(piece.data, piece.at) if piece.headers is None else piece.headers
    if not piece.at or not (headers["attributes"] & CODEC_MASK).any():
        yield piece._replace(headers=headers)
        return
    ends = numpy.cumsum(headers["length"].astype(numpy.int64)) // PACKED_BYTES
    cuts = [0, *(numpy.flatnonzero(numpy.diff(ends)) + 1).tolist(), len(piece.at)]
    for first, last in itertools.pairwise(cuts):
        header = headers[last - 1]
        behind = int(header["base_offset"]) + int(header["last_offset_delta"]) + 1
        yield piece._replace(at=piece.at[first:last], headers=headers[first:last], next_offset=behind)


def payload_of(piece: Piece, headers: Array) -> tuple[bytes, Array, Array, Array]:
    """Bytes in which the records lie uncompressed, where those of each batch begin and end, and which can't be unpacked."""
    data = piece.data
    begin = numpy.array(piece.at, numpy.int64)
    end = begin + headers["length"] + LENGTH_END
    begin += HEADER_BYTES
    odd = numpy.zeros(begin.size, bool)
    codecs = headers["attributes"] & CODEC_MASK
    if not codecs.any():
        return data, begin, end, odd
    parts: list[bytes] = []
    total = 0
    for index, codec in enumerate(codecs.tolist()):
        part = data[begin[index] : end[index]]
        if codec:
            try:
                part = compression.decompress(compression.Codec(codec), part)
            except (ValueError, compression.CodecUnavailable):  # the general path reports why
                part, odd[index] = b"", True
        if total + len(part) > MOST_UNPACKED:
            part, odd[index] = b"", True
        total += len(part)
        parts.append(part)
    stops = numpy.cumsum([len(part) for part in parts])
    return b"".join(parts), numpy.concatenate([[0], stops[:-1]]), stops, odd


def places_of(payload: bytes, starts: Array, stops: Array, declared: Array) -> tuple[Array, Array]:
    """Positions of the records (of their lengths), and the number of records of each batch; 0 if their lengths don't add up.

    Most batches have records of one length, so that is tried first, for all batches at once: it is right where every record says that
    it ends where the next one begins.
    """
    sizes = stops - starts
    even = (declared > 0) & (sizes >= declared)
    even[even] = sizes[even] % declared[even] == 0
    counts = numpy.where(even, declared, 0)
    step = numpy.repeat(sizes // numpy.maximum(declared, 1), counts)
    batch = numpy.repeat(numpy.arange(counts.size), counts)
    number = numpy.arange(batch.size) - numpy.repeat(numpy.cumsum(counts) - counts, counts)
    guessed = starts[batch] + number * step
    length, body, long = varints(numpy.frombuffer(payload or b"\0", numpy.uint8), guessed, 5)
    even[batch[long | (body + length != guessed + step)]] = False
    rest = numpy.flatnonzero(~even)
    if not rest.size:
        return guessed, counts
    walked, walked_counts = _walk(payload, starts[rest].tolist(), stops[rest].tolist())
    kept = guessed[even[batch]]
    counts[rest] = walked_counts
    result = numpy.empty(int(counts.sum()), numpy.int64)
    guessed_ones = numpy.repeat(even, counts)
    result[guessed_ones], result[~guessed_ones] = kept, walked
    return result, counts


def _walk(payload: bytes, starts: Sequence[int], stops: Sequence[int]) -> tuple[list[int], list[int]]:
    """Positions of the records (of their lengths), and the number of records of each batch; 0 if their lengths don't add up."""
    places: list[int] = []
    counts: list[int] = []
    append = places.append
    for at, stop in zip(starts, stops, strict=True):
        before = len(places)
        try:
            while at < stop:
                append(at)
                low = payload[at]
                if low < 128:
                    at += (low >> 1) + 1
                else:
                    high = payload[at + 1]
                    if high < 128:
                        at += (high << 6 | (low & 127) >> 1) + 2
                    else:
                        at = _behind(payload, at)
        except IndexError:
            at = -1
        if at != stop:
            del places[before:]
        counts.append(len(places) - before)
    return places, counts


def _behind(payload: bytes, at: int) -> int:
    """End of a record whose length takes more than two bytes. Raises IndexError."""
    length = shift = 0
    for place in range(at, at + 5):
        length |= (payload[place] & 127) << shift
        if payload[place] < 128:
            return place + 1 + (length >> 1)
        shift += 7
    raise IndexError


def varints(whole: Array, at: Array, most: int) -> tuple[Array, Array, Array]:
    """The zigzag varints at these positions, where they end, and which are longer than ``most`` bytes (and not read)."""
    value = whole.take(at, mode="clip").astype(numpy.int64)
    end = at + 1
    long = numpy.flatnonzero(value >= 128)
    too_long = numpy.zeros(at.size, bool)
    if long.size:
        value[long] &= 127
        shift = 7
        while long.size:
            if shift == 7 * most:
                too_long[long] = True
                break
            more = whole.take(end[long], mode="clip").astype(numpy.int64)
            value[long] |= (more & 127) << shift
            end[long] += 1
            long = long[more >= 128]
            shift += 7
    return (value >> 1) ^ -(value & 1), end, too_long
