"""Counts of the wire format that no schema tells of at their greatest, one at a time: the table for whatever asks how long a broker is
held up by them (``tests/server/test_greatest_counts.py`` counts lines). The arrays of requests are in ``benchmarks/fillings.py``.

Rules:
1. A case says what it sends; all of it counts, also what prepares the rest. ``size``: bytes of its greatest request.
2. What the case needs of the broker is in `TOPICS`, and in names of its own (groups, transactional ids), so that cases share a broker.
"""

from __future__ import annotations

import struct
import time
import zlib
from collections.abc import Callable
from itertools import count, starmap
from typing import Any, Protocol

import google_crc32c

from kafka_wire import compression
from kafka_wire.codec import encode
from kafka_wire.compression import Codec
from kafka_wire.frame import encode_request_header, frame
from kafka_wire.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_wire.messages.k01_fetch import FetchRequest
from kafka_wire.messages.k02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafka_wire.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from kafka_wire.messages.k12_heartbeat import HeartbeatRequest
from kafka_wire.messages.k18_api_versions import ApiVersionsRequest
from kafka_wire.messages.k19_create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kafka_wire.record_batch import build_batch, encode_batch
from kafka_wire.wire import uvarint

__all__ = ["CASES", "TOPICS", "Speaker"]

TOPICS = {"wide": 10_000, "records": 1}


class Speaker(Protocol):
    """A connection of a client, and what else a case needs of its broker."""

    def ask(self, request: Any, version: int) -> Any:
        """The answer."""

    def send(self, data: bytes) -> None:
        """A frame, whole; waits for its answer, or until the broker hangs up."""

    def compact(self, topic: str) -> None:
        """Returns when the closed segments of the topic's one partition are compacted."""


Case = Callable[[Speaker, int], None]
CASES: dict[str, Case] = {}


def case(name: str, *arguments: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    def put(function: Callable[..., None]) -> Callable[..., None]:
        CASES[name] = lambda speaker, size: function(speaker, size, *arguments)
        return function

    return put


# ------------------------------------------------------------------------------------------------ tagged fields


def _tags(size: int, tag: int = 100) -> bytes:
    """As many empty tagged fields as fit."""
    return uvarint(size // 2) + bytes((tag, 0)) * (size // 2)


@case("tagged fields of a header")
def header_tags(speaker: Speaker, size: int) -> None:
    head = encode_request_header(12, 4, 1, "c")[:-1]
    speaker.send(frame(head + _tags(size) + encode(HeartbeatRequest("g", 1, "m"), 4)))


@case("tagged fields of a body", HeartbeatRequest("g", 1, "m"), 4)
@case("tagged fields of a body that knows some", FetchRequest(), 17)
@case("tagged fields of a body, ApiVersions", ApiVersionsRequest("a", "1"), 4)
def body_tags(speaker: Speaker, size: int, request: Any, version: int) -> None:
    head = encode_request_header(type(request).__spec__.api_key, version, 1, "c")
    speaker.send(frame(head + encode(request, version)[:-1] + _tags(size)))


@case("tagged fields of an element")
def element_tags(speaker: Speaker, size: int) -> None:
    body = encode(MetadataRequest([MetadataRequestTopic(name="t")], allow_auto_topic_creation=False), 12)
    at = body.index(b"\x02t\0") + 2
    speaker.send(frame(encode_request_header(3, 12, 1, "c") + body[:at] + _tags(size) + body[at + 1 :]))


@case("tagged fields of many elements")
def many_tags(speaker: Speaker, size: int) -> None:
    body = encode(MetadataRequest([MetadataRequestTopic(name="t")], allow_auto_topic_creation=False), 12)
    element = body[1 : body.index(b"\x02t\0") + 2] + b"\x7f" + b"\x64\0" * 127
    many = size // len(element)
    speaker.send(
        frame(
            encode_request_header(3, 12, 1, "c") + uvarint(many + 1) + element * many + body[1 + len(element) - 254 :]
        )
    )


# ------------------------------------------------------------------------------------------------ records

MOST_UNPACKED = 60_000_000


def _now() -> int:
    return int(time.time() * 1000)


def batch(packed: bytes, count: int, codec: Codec) -> bytes:
    """A batch with right header and checksum around records that are packed already."""
    head = bytearray(encode_batch([])[:61])
    head[21:23] = int(codec).to_bytes(2, "big")
    head[23:27], head[57:61] = (count - 1).to_bytes(4, "big"), count.to_bytes(4, "big")
    head[27:35] = head[35:43] = _now().to_bytes(8, "big")
    head[8:12] = (len(head) + len(packed) - 12).to_bytes(4, "big")
    head[17:21] = google_crc32c.value(bytes(head[21:]) + packed).to_bytes(4, "big")
    return bytes(head) + packed


def produce(speaker: Speaker, topic: str, *batches: bytes) -> None:
    for one in batches:
        speaker.ask(
            ProduceRequest(None, -1, 5000, [TopicProduceData(topic, bytes(16), [PartitionProduceData(0, one)])]), 9
        )


def _numbered(count: int, key: Callable[[int], bytes], headers: bytes = b"\0") -> bytes:
    """Records behind one that compaction takes away, so that it makes their batch anew."""
    parts = []
    for number in range(count):
        inside = (
            b"\0\0"
            + _zigzag(number)
            + (key(number) if number else b"\x020")
            + b"\x02v"
            + (headers if number else b"\0")
        )
        parts += (_zigzag(len(inside)), inside)
    return b"".join(parts)


def _zigzag(value: int) -> bytes:
    return uvarint(value << 1)


def _same_keys(size: int, codec: Codec) -> bytes:
    """Records of one key."""
    count = _unpacked(size, codec) // (60 if codec else 12)
    return _fitting(size, count, codec, lambda many: _numbered(many, lambda _: b"\x02k"))


def _own_keys(size: int, codec: Codec) -> bytes:
    count = _unpacked(size, codec) // (240 if codec else 18)
    return _fitting(size, count, codec, lambda many: _numbered(many, lambda n: b"\x0c%06x" % n))


def _fitting(size: int, count: int, codec: Codec, plain: Callable[[int], bytes]) -> bytes:
    """As many records as fit in packed."""
    packed = compression.compress(codec, plain(count))
    if len(packed) > size:
        count = count * size * 95 // 100 // len(packed)
        packed = compression.compress(codec, plain(count))
    return batch(packed, count, codec)


def _unpacked(size: int, codec: Codec) -> int:
    return min(size * 60, MOST_UNPACKED) if codec else size


def _long_key(size: int, codec: Codec) -> bytes:
    key = bytes(_unpacked(size, codec))
    return batch(compression.compress(codec, _numbered(2, lambda _: _zigzag(len(key)) + key)), 2, codec)


def _headers(size: int, codec: Codec) -> bytes:
    count = _unpacked(size, codec) // 2
    return batch(
        compression.compress(codec, _numbered(2, lambda _: b"\x02k", _zigzag(count) + b"\0\1" * count)), 2, codec
    )


def _headers_of_many(size: int, codec: Codec) -> bytes:
    count = _unpacked(size, codec) // 140
    return batch(
        compression.compress(codec, _numbered(count, lambda _: b"\x02k", _zigzag(64) + b"\0\1" * 64)), count, codec
    )


def _gzip_members(size: int, codec: Codec) -> bytes:
    packer = zlib.compressobj(wbits=31)
    empty = packer.compress(b"") + packer.flush()
    one = compression.compress(codec, b"\x10\0\0\0\x02k\x02v\0")
    return batch(empty * (size // len(empty)) + one, 1, codec)


def _snappy_blocks(size: int, codec: Codec) -> bytes:
    blocks = struct.pack(">i", 1) + b"\0"
    first = compression.compress(codec, b"\x10\0\0\0\x02k\x02v\0")
    return batch(first + blocks * (size // 5), 1, codec)


def _frames(size: int, codec: Codec) -> bytes:
    empty = compression.compress(codec, b"")
    one = compression.compress(codec, b"\x10\0\0\0\x02k\x02v\0")
    return batch(empty * (size // len(empty)) + one, 1, codec)


def _tiny_frames(size: int, codec: Codec) -> bytes:
    """A frame for each record's byte."""
    plain = b"\x10\0\0\0\x02k\x02v\0" * (size // 16 // 9)
    return batch(
        b"".join(compression.compress(codec, plain[at : at + 1]) for at in range(len(plain))), size // 16 // 9, codec
    )


def _zstd_windows(size: int, codec: Codec) -> bytes:
    """Frames without content that ask for a window of 128 MiB each."""
    empty = bytes.fromhex("28b52ffd 00 88 010000")
    return batch(empty * (size // len(empty)) + compression.compress(codec, b"\x10\0\0\0\x02k\x02v\0"), 1, codec)


def _zero_blocks(size: int, codec: Codec) -> bytes:
    """Blocks of nothing, or of a byte each."""
    if codec is Codec.ZSTD:
        return batch(bytes.fromhex("28b52ffd 00 58") + b"\0\0\0" * (size // 3) + b"\1\0\0", 1, codec)
    return batch(
        bytes.fromhex("04224d18 60 40 82") + (struct.pack("<I", 1 | 1 << 31) + b"\x10") * (size // 5) + bytes(4),
        1,
        codec,
    )


_ALL = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)
_BATCHES: list[tuple[str, Callable[[int, Codec], bytes], tuple[Codec, ...]]] = [
    ("records of one key", _same_keys, _ALL),
    ("records of a key each", _own_keys, _ALL),
    ("a long key", _long_key, _ALL),
    ("headers of a record", _headers, _ALL),
    ("headers of many records", _headers_of_many, _ALL),
    ("empty members", _gzip_members, (Codec.GZIP,)),
    ("empty blocks", _snappy_blocks, (Codec.SNAPPY,)),
    ("empty frames", _frames, (Codec.LZ4, Codec.ZSTD)),
    ("frames of a byte", _tiny_frames, (Codec.GZIP, Codec.LZ4, Codec.ZSTD)),
    ("frames with large windows", _zstd_windows, (Codec.ZSTD,)),
    ("tiny blocks", _zero_blocks, (Codec.LZ4, Codec.ZSTD)),
]


def _records(speaker: Speaker, size: int, make: Callable[[int, Codec], bytes], codec: Codec) -> None:
    produce(speaker, "records", make(size, codec))
    for at in (_now() - 1000, -3):
        asked = ListOffsetsPartition(0, -1, at)
        speaker.ask(ListOffsetsRequest(-1, 0, [ListOffsetsTopic("records", [asked])]), 7)


def _compaction(speaker: Speaker, size: int, make: Callable[[int, Codec], bytes], codec: Codec) -> None:
    topic = f"compacted-{next(_numbers)}"
    configs = {"cleanup.policy": "compact", "segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.01"}
    speaker.ask(
        CreateTopicsRequest(
            [CreatableTopic(topic, 1, 1, [], list(starmap(CreatableTopicConfig, configs.items())))], 5000
        ),
        7,
    )
    rest = build_batch([(b"0", None), (b"rest", bytes(1_000_000))], _now())
    produce(speaker, topic, make(size, codec), rest, rest)
    speaker.compact(topic)


_numbers = count(1)

for _what, _make, _codecs in _BATCHES:
    for _codec in _codecs:
        CASES[f"{_what}, {_codec.name.lower()}"] = lambda s, n, m=_make, c=_codec: _records(s, n, m, c)  # type: ignore[misc]
        CASES[f"compaction of {_what}, {_codec.name.lower()}"] = lambda s, n, m=_make, c=_codec: _compaction(s, n, m, c)  # type: ignore[misc]
