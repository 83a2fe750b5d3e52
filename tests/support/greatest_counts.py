"""Counts that no schema of a request tells of at their greatest, one at a time: the table for whatever asks how long a broker is
held up by them (``tests/server/test_greatest_counts.py`` counts lines, ``benchmarks --only hostile`` measures). They stand in tagged
fields, in records and what these are packed in, in what members exchange; and some need a state: a member, a transaction, a share
session. The arrays of requests by themselves are in ``benchmarks/fillings.py``.

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
from kafka_wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from kafka_wire.messages.k02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafka_wire.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from kafka_wire.messages.k10_find_coordinator import FindCoordinatorRequest
from kafka_wire.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafka_wire.messages.k12_heartbeat import HeartbeatRequest
from kafka_wire.messages.k13_leave_group import LeaveGroupRequest, MemberIdentity
from kafka_wire.messages.k14_sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kafka_wire.messages.k15_describe_groups import DescribeGroupsRequest
from kafka_wire.messages.k18_api_versions import ApiVersionsRequest
from kafka_wire.messages.k19_create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kafka_wire.messages.k22_init_producer_id import InitProducerIdRequest
from kafka_wire.messages.k24_add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kafka_wire.messages.k26_end_txn import EndTxnRequest
from kafka_wire.messages.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kafka_wire.messages.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kafka_wire.messages.k66_list_transactions import ListTransactionsRequest
from kafka_wire.messages.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_wire.messages.k69_consumer_group_describe import ConsumerGroupDescribeRequest
from kafka_wire.messages.k76_share_group_heartbeat import ShareGroupHeartbeatRequest
from kafka_wire.messages.k78_share_fetch import AcknowledgementBatch, ShareFetchRequest
from kafka_wire.messages.k78_share_fetch import FetchPartition as ShareFetchPartition
from kafka_wire.messages.k78_share_fetch import FetchTopic as ShareFetchTopic
from kafka_wire.messages.k79_share_acknowledge import (
    AcknowledgementBatch as Acknowledged,
)
from kafka_wire.messages.k79_share_acknowledge import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from kafka_wire.record_batch import build_batch, encode_batch
from kafka_wire.wire import uvarint

__all__ = ["CASES", "TOPICS", "Case", "Speaker", "batch", "case", "found"]

TOPICS = {"wide": 10_000, "records": 1, "shared": 1} | {f"n{number:0240d}": 1 for number in range(200)}


class Speaker(Protocol):
    """A connection of a client, and what else a case needs of its broker."""

    def ask(self, request: Any, version: int) -> Any:
        """The answer."""

    def send(self, data: bytes) -> None:
        """A frame, whole; waits for its answer, or until the broker hangs up."""

    def compact(self, topic: str, written: int) -> None:
        """Returns when the closed segments of the topic's one partition are compacted; ``written``: bytes of its batches before."""


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
    batches = (make(size, codec), rest, rest)
    produce(speaker, topic, *batches)
    speaker.compact(topic, sum(map(len, batches)))


_numbers = count(1)

for _what, _make, _codecs in _BATCHES:
    for _codec in _codecs:
        CASES[f"{_what}, {_codec.name.lower()}"] = lambda s, n, m=_make, c=_codec: _records(s, n, m, c)  # type: ignore[misc]
        CASES[f"compaction of {_what}, {_codec.name.lower()}"] = lambda s, n, m=_make, c=_codec: _compaction(s, n, m, c)  # type: ignore[misc]


# ------------------------------------------------------------------------------------------------ classic groups


def _subscription(topics: int, user: int = 0, owned: int = 0) -> bytes:
    out = struct.pack(">hi", 1, topics) + b"\0\1t" * topics + struct.pack(">i", user) + bytes(user)
    return out + struct.pack(">i", owned) + (b"\0\1t" + bytes(4)) * owned


def found(speaker: Speaker, name: str, kind: int) -> None:
    """Repeat FindCoordinator of a key until its coordinator is returned without an error."""
    while speaker.ask(FindCoordinatorRequest(name, kind), 3).error_code:
        pass


def _joined(speaker: Speaker, group: str, protocols: list[JoinGroupRequestProtocol]) -> tuple[str, int]:
    found(speaker, group, 0)

    def join(member: str) -> Any:
        return speaker.ask(JoinGroupRequest(group, 30_000, 30_000, member, None, "consumer", protocols), 7)

    answer = join(join("").member_id)
    return answer.member_id, answer.generation_id


def _group(
    speaker: Speaker,
    group: str,
    protocols: list[JoinGroupRequestProtocol],
    assignments: list[SyncGroupRequestAssignment],
) -> None:
    """A member joins, and is described; a member of the new protocol comes, for which the group goes over; the first leaves."""
    member, generation = _joined(speaker, group, protocols)
    mine = [SyncGroupRequestAssignment(member, b""), *assignments]
    speaker.ask(SyncGroupRequest(group, generation, member, None, "consumer", "range", mine), 5)
    speaker.ask(HeartbeatRequest(group, generation, member), 4)
    speaker.ask(DescribeGroupsRequest([group]), 5)
    gone = OffsetDeleteRequestTopic("wide", [OffsetDeleteRequestPartition(0)])
    speaker.ask(OffsetDeleteRequest(group, [gone]), 0)
    speaker.ask(ConsumerGroupHeartbeatRequest(group, "new", 0, None, None, 30_000, ["records"], None, None, []), 1)
    speaker.ask(LeaveGroupRequest(group, "", [MemberIdentity(member)]), 5)


@case("topics of a subscription", "topics")
@case("user data of a subscription", "user")
@case("owned partitions of a subscription", "owned")
def subscriptions(speaker: Speaker, size: int, what: str) -> None:
    size = size * 9 // 10
    made = {"topics": (size // 3, 0, 0), "user": (1, size, 0), "owned": (1, 0, size // 7)}[what]
    _group(speaker, f"g {what}", [JoinGroupRequestProtocol("range", _subscription(*made))], [])


@case("protocols of a member")
def protocols(speaker: Speaker, size: int) -> None:
    many = [JoinGroupRequestProtocol(f"{n:x}", b"") for n in range(size * 9 // 10 // 10)]
    _group(speaker, "g protocols", [JoinGroupRequestProtocol("range", _subscription(1)), *many], [])


@case("assignments of a leader, to nobody")
def assignments(speaker: Speaker, size: int) -> None:
    many = [SyncGroupRequestAssignment(f"{n:06x}", b"") for n in range(size // 10)]
    _group(speaker, "g assignments", [JoinGroupRequestProtocol("range", _subscription(1))], many)


@case("an assignment of very many partitions")
def assigned(speaker: Speaker, size: int) -> None:
    count = size * 9 // 10 // 4
    numbers = struct.pack(f">i{count}i", count, *[n % 10_000 for n in range(count)])
    long = struct.pack(">hih", 0, 1, 4) + b"wide" + numbers + b"\xff" * 4
    one, protocols = "g assigned", [JoinGroupRequestProtocol("range", _subscription(1))]
    member, generation = _joined(speaker, one, protocols)
    mine = [SyncGroupRequestAssignment(member, long)]
    speaker.ask(SyncGroupRequest(one, generation, member, None, "consumer", "range", mine), 5)
    speaker.ask(ConsumerGroupHeartbeatRequest(one, "new", 0, None, None, 30_000, ["wide"], None, None, []), 1)
    speaker.ask(LeaveGroupRequest(one, "", [MemberIdentity(member)]), 5)


@case("members that leave")
def leaving(speaker: Speaker, size: int) -> None:
    member, _ = _joined(speaker, "g leaving", [JoinGroupRequestProtocol("range", _subscription(1))])
    speaker.ask(LeaveGroupRequest("g leaving", "", [MemberIdentity(f"{n:x}") for n in range(size // 10)]), 5)
    speaker.ask(LeaveGroupRequest("g leaving", "", [MemberIdentity(member)] * (size // 40)), 5)


# ------------------------------------------------------------------------------------------------ groups of epochs


def _beat(speaker: Speaker, group: str, **how: Any) -> Any:
    found(speaker, group, 0)
    request = ConsumerGroupHeartbeatRequest(group, "m", 0, rebalance_timeout_ms=30_000, topic_partitions=[])
    for name, value in how.items():
        setattr(request, name, value)
    return speaker.ask(request, 1)


def _gone(speaker: Speaker, group: str) -> None:
    speaker.ask(ConsumerGroupDescribeRequest([group], False), 1)
    _beat(speaker, group, member_epoch=-1, topic_partitions=None)


@case("topic names of a heartbeat, unknown", lambda n: f"{n:x}")
@case("topic names of a heartbeat, equal", lambda n: "wide")
def heartbeat_topics(speaker: Speaker, size: int, name: Callable[[int], str]) -> None:
    group = "e " + name(0)
    answer = _beat(speaker, group, subscribed_topic_names=[name(n) for n in range(size // 7)])
    _beat(speaker, group, member_epoch=answer.member_epoch, topic_partitions=None)
    _gone(speaker, group)


@case("partitions of a member", "uniform")
@case("partitions of a member, by range", "range")
def heartbeat_partitions(speaker: Speaker, size: int, assignor: str) -> None:
    group = "e " + assignor
    _beat(speaker, group, subscribed_topic_names=["wide"], server_assignor=assignor)
    second = _beat(speaker, group, subscribed_topic_names=["wide"], server_assignor=assignor, member_id="m2")
    owned = second.assignment.topic_partitions if second.assignment else []
    _beat(speaker, group, member_id="m2", member_epoch=second.member_epoch, topic_partitions=owned * (size // 40_000))
    _beat(speaker, group, member_id="m2", member_epoch=-1, topic_partitions=None)
    _gone(speaker, group)


_REGEXES: dict[str, Callable[[int], str]] = {
    "alternatives": lambda n: "|".join(["n0*1x"] * (n // 6)),
    "nested repetitions": lambda n: "(0{0,200}){0,200}n",
    "stars": lambda n: "n" + "0*" * (n // 2 - 1) + "x",
    "groups in groups": lambda n: "(" * (n // 2) + ")" * (n // 2),
    "braces": lambda n: "a{" * (n // 2),
    "flags": lambda n: "(?i)" * (n // 4),
    "named groups": lambda n: "".join(f"(?P<n{k}>)" for k in range(n // 12)),
    "classes": lambda n: "[a-z]" * (n // 5),
    "a class of ranges": lambda n: "[" + "a-z" * (n // 3 - 1) + "]",
    "a quotation": lambda n: r"\Q" + "n0" * (n // 2 - 2) + r"\E",
    "classes of unicode": lambda n: r"\pL" * (n // 3),
    "questions": lambda n: "n?" * (n // 4) + "n" * (n // 4),
    "dots": lambda n: "(.*)*" * (n // 5),
}


for _name, _text in _REGEXES.items():

    @case(f"regular expression: {_name}", _name, _text)
    def expressions(speaker: Speaker, size: int, name: str, text: Callable[[int], str]) -> None:
        group = f"e regex {name}"
        answer = _beat(speaker, group, subscribed_topic_regex=text(min(size, 32_000)))
        if not answer.error_code:
            _beat(speaker, group, member_epoch=answer.member_epoch, topic_partitions=None)
            _gone(speaker, group)
        found(speaker, "nnnn", 1)
        speaker.ask(
            InitProducerIdRequest("nnnn", 60_000), 4
        )  # else there is no id to match, unless another case has made some
        speaker.ask(ListTransactionsRequest([], [], -1, text(min(size, 32_000))), 2)


# ------------------------------------------------------------------------------------------------ shares


_MEMBER = "A" * 22


def _share_member(speaker: Speaker, group: str, topics: list[str]) -> bytes:
    found(speaker, group, 0)
    speaker.ask(ShareGroupHeartbeatRequest(group, _MEMBER, 0, None, topics), 1)
    answer = speaker.ask(MetadataRequest([MetadataRequestTopic(name="shared")], allow_auto_topic_creation=False), 12)
    topic_id: bytes = answer.topics[0].topic_id
    return topic_id


@case("topic names of a share group's heartbeat")
def share_topics(speaker: Speaker, size: int) -> None:
    _share_member(speaker, "s topics", [f"{n:x}" for n in range(size // 7)])
    for _ in range(3):
        _share_member(speaker, "s wide", ["wide"])


@case("acknowledged batches, in a fetch", "fetch", False)
@case("acknowledged batches", "acknowledge", False)
@case("types of an acknowledged batch", "acknowledge", True)
def acknowledged(speaker: Speaker, size: int, how: str, types: bool) -> None:
    group = f"s {how} {types}"
    topic_id = _share_member(speaker, group, ["shared"])
    count = size if types else size // 19

    def fetch(epoch: int, *partitions: ShareFetchPartition) -> Any:
        asked = [ShareFetchTopic(topic_id, list(partitions))] if partitions else []
        request = ShareFetchRequest(group, _MEMBER, epoch, 500, 1, 1 << 26, 2_000_000, 500, topics=asked)
        return speaker.ask(request, 1)

    fetch(0, ShareFetchPartition(0))
    produce(speaker, "shared", *[build_batch([(b"k", b"v")] * 20_000, _now()) for _ in range(1 + count // 20_000)])
    answers = [fetch(epoch) for epoch in (1, 2)]
    acquired = [
        one
        for answer in answers
        for topic in answer.responses
        for part in topic.partitions
        for one in part.acquired_records
    ]
    first = min((one.first_offset for one in acquired), default=0)
    ranges = [(first, first + count - 1, [1] * count)] if types else [(first + n, first + n, [1]) for n in range(count)]
    if how == "fetch":
        rows = [AcknowledgementBatch(*one) for one in ranges]
        fetch(3, ShareFetchPartition(0, acknowledgement_batches=rows))
    else:
        told = AcknowledgePartition(0, [Acknowledged(*one) for one in ranges])
        speaker.ask(ShareAcknowledgeRequest(group, _MEMBER, 3, topics=[AcknowledgeTopic(topic_id, [told])]), 1)


# ------------------------------------------------------------------------------------------------ transactions


@case("partitions of a transaction, and their end", False)
@case("partitions of a transaction, all at once", True)
def transaction(speaker: Speaker, size: int, grouped: bool) -> None:
    name = f"t {grouped}"
    found(speaker, name, 1)
    found(speaker, f"{name} group", 0)
    began = speaker.ask(InitProducerIdRequest(name, 60_000), 4)
    identity = (began.producer_id, began.producer_epoch)
    topics = [AddPartitionsToTxnTopic("wide", list(range(10_000)))]
    if grouped:
        speaker.ask(AddPartitionsToTxnRequest([AddPartitionsToTxnTransaction(name, *identity, False, topics)]), 4)
    else:
        speaker.ask(AddPartitionsToTxnRequest([], name, *identity, topics), 3)
    rows = [TxnOffsetCommitRequestPartition(n % 10_000, 1, -1, "") for n in range(size // 18)]
    offsets = [TxnOffsetCommitRequestTopic("wide", partitions=rows)]
    speaker.ask(TxnOffsetCommitRequest(name, f"{name} group", *identity, topics=offsets), 4)
    speaker.ask(EndTxnRequest(name, *identity, True), 3)


# ------------------------------------------------------------------------------------------------ sessions


@case("partitions of a fetch session")
def fetch_session(speaker: Speaker, size: int) -> None:
    rows = [FetchPartition(n, fetch_offset=0, partition_max_bytes=1) for n in range(min(10_000, size // 34))]
    answer = speaker.ask(
        FetchRequest(min_bytes=0, max_bytes=1, session_epoch=0, topics=[FetchTopic("wide", partitions=rows)]), 12
    )
    sid = answer.session_id
    speaker.ask(FetchRequest(min_bytes=0, max_bytes=1, session_id=sid, session_epoch=1), 12)
    gone = [ForgottenTopic("wide", partitions=[n % 10_000 for n in range(size // 4)])]
    speaker.ask(FetchRequest(min_bytes=0, max_bytes=1, session_id=sid, session_epoch=2, forgotten_topics_data=gone), 12)
