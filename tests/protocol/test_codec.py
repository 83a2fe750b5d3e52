"""The codec's rules one by one, on bytes written out by hand."""

from __future__ import annotations

import sys
import traceback

import pytest

from kafka_wire.codec import (
    DecodeError,
    EncodeError,
    UnknownVersionError,
    decode,
    decode_from,
    decoder,
    encode,
    encode_into,
    source,
)
from kafka_wire.messages.k01_fetch import FetchableTopicResponse, FetchRequest, FetchResponse, FetchTopic, PartitionData
from kafka_wire.messages.k03_metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kafka_wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kafka_wire.messages.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_wire.messages.k13_leave_group import LeaveGroupRequest
from kafka_wire.messages.k14_sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kafka_wire.messages.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse, FinalizedFeatureKey
from kafka_wire.schema import Versions, array, float64, message, nested, string, struct, uint16, uint32
from kafka_wire.wire import read_uvarint, string_length, uvarint
from tests.support import processes


def test_a_heartbeat_is_these_bytes() -> None:
    heartbeat = HeartbeatRequest("g", 5, "m", None)
    assert encode(heartbeat, 0).hex(" ") == "00 01 67 00 00 00 05 00 01 6d"
    assert encode(heartbeat, 3).hex(" ") == "00 01 67 00 00 00 05 00 01 6d ff ff"
    assert encode(heartbeat, 4).hex(" ") == "02 67 00 00 00 05 02 6d 00 00"
    assert encode(HeartbeatResponse(7, 25), 0).hex(" ") == "00 19"
    assert encode(HeartbeatResponse(7, 25), 1).hex(" ") == "00 00 00 07 00 19"
    assert encode(HeartbeatResponse(7, 25), 4).hex(" ") == "00 00 00 07 00 19 00"


def test_fields_of_other_versions_keep_their_defaults() -> None:
    partition = OffsetCommitRequestPartition(1, 2, 3, 4, "x")
    request = OffsetCommitRequest("g", 7, "m", "i", 99, [OffsetCommitRequestTopic("t", partitions=[partition])])
    oldest = decode(OffsetCommitRequest, 0, encode(request, 0))
    assert oldest.generation_id_or_member_epoch == -1
    assert oldest.member_id == ""
    assert oldest.group_instance_id is None
    assert oldest.topics[0].partitions == [OffsetCommitRequestPartition(1, 2, -1, -1, "x")]
    assert decode(OffsetCommitRequest, 1, encode(request, 1)).topics[0].partitions[0].commit_timestamp == 4
    assert decode(OffsetCommitRequest, 3, encode(request, 3)).retention_time_ms == 99
    assert decode(OffsetCommitRequest, 5, encode(request, 5)).retention_time_ms == -1


@pytest.mark.parametrize("version", [-1, 5, 100, 2**40])
def test_an_unknown_version_is_an_error_both_ways(version: int) -> None:
    with pytest.raises(UnknownVersionError, match="HeartbeatRequest has no version"):
        decode(HeartbeatRequest, version, bytes(100))
    with pytest.raises(UnknownVersionError, match="HeartbeatRequest has no version"):
        encode(HeartbeatRequest(), version)


# --- lengths and nulls -----------------------------------------------------------------------------------------------


def test_every_cut_of_a_message_is_refused() -> None:
    for version in (0, 3, 4):
        body = encode(HeartbeatRequest("group", 5, "member", "instance"), version)
        for end in range(len(body)):
            with pytest.raises(DecodeError):
                decode(HeartbeatRequest, version, body[:end])


@pytest.mark.parametrize(
    ("version", "data", "reason"),
    [
        (0, "ffff 00000005 0001 6d", "group_id is null"),
        (0, "8000 00000005 0001 6d", "group_id is null"),
        (0, "7fff 00000005 0001 6d", "group_id has the length 32767, 7 bytes are left"),
        (4, "00 00000005 02 6d 00 00", "group_id is null"),
        (4, "7f 00000005 02 6d 00 00", "group_id has the length 126"),
        (4, "ffffffff07 00000005 02 6d 00 00", "group_id has the length 2147483646"),
        (4, "8080808008 00000005 02 6d 00 00", "group_id has the length 2147483647"),
        (4, "ffffffffff01 00000005", "longer than 5 bytes"),
        (4, "02 67 00000005 02 6d 00 05", "ends early"),
        (4, "02 67 00000005 02 6d 00 01 00 7f", "tag 0 claims 127 bytes, 0 are left"),
        (4, "02 67 00000005 02 6d 00 01 00 ffffffff0f", "tag 0 claims -1 bytes"),
        (4, "", "ends early"),
    ],
)
def test_what_is_wrong_is_said(version: int, data: str, reason: str) -> None:
    with pytest.raises(DecodeError, match=f"HeartbeatRequest v{version}: .*{reason}"):
        decode(HeartbeatRequest, version, bytes.fromhex(data))


def test_any_negative_length_is_null_where_null_is_allowed() -> None:
    head = "0001 67 00000005 0001 6d"
    assert decode(HeartbeatRequest, 3, bytes.fromhex(head + "ffff")).group_instance_id is None
    assert decode(HeartbeatRequest, 3, bytes.fromhex(head + "8005")).group_instance_id is None
    assert decode(HeartbeatRequest, 4, bytes.fromhex("02 67 00000005 02 6d ffffffff0f 00")).group_instance_id is None
    assert decode(MetadataRequest, 1, bytes.fromhex("80000000")).topics is None
    assert decode(MetadataRequest, 1, bytes.fromhex("00000000")).topics == []


def test_overlong_varints_are_fine() -> None:
    assert decode(HeartbeatRequest, 4, bytes.fromhex("8280808000 67 00000005 8200 6d 8000 8000")).group_id == "g"
    assert read_uvarint(bytes.fromhex("808000"), 0) == (0, 3)
    assert read_uvarint(bytes.fromhex("ffffffff7f"), 0) == (-1, 5)  # bits above the 32nd are dropped


@pytest.mark.parametrize("length", [126, 127, 128, 16382, 16383, 16384, 32767])
def test_lengths_around_the_sizes_of_a_varint(length: int) -> None:
    text = "x" * length
    for version in (3, 4):
        assert decode(HeartbeatRequest, version, encode(HeartbeatRequest(text), version)).group_id == text


def test_a_string_has_at_most_32767_bytes() -> None:
    for version in (3, 4):
        with pytest.raises(EncodeError, match="HeartbeatRequest"):
            encode(HeartbeatRequest("x" * 32768), version)
        with pytest.raises(EncodeError, match="HeartbeatRequest"):
            encode(HeartbeatRequest("ä" * 16384), version)
    assert len(string_length("name", 32768)) == 3
    too_long = uvarint(32769) + b"x" * 32768 + bytes.fromhex("00000005 02 6d 00 00")
    with pytest.raises(DecodeError, match="group_id has the length 32768"):
        decode(HeartbeatRequest, 4, too_long)


def test_an_array_has_as_many_elements_as_fit() -> None:
    with pytest.raises(DecodeError, match="topics has the length 2147483647"):
        decode(MetadataRequest, 1, bytes.fromhex("7fffffff") + bytes(100))
    with pytest.raises(DecodeError, match="topics has the length 51"):
        decode(MetadataRequest, 1, bytes.fromhex("00000033") + bytes(100))  # an empty string has two bytes
    assert len(decode(MetadataRequest, 1, bytes.fromhex("00000032") + bytes(100)).topics or []) == 50


def test_bytes_behind_the_message_are_left_alone() -> None:
    body = encode(HeartbeatResponse(1, 2), 4)
    assert decode_from(HeartbeatResponse, 4, b"??" + body + b"!!", 2) == (HeartbeatResponse(1, 2), 2 + len(body))


def test_null_bytes_and_empty_bytes_differ() -> None:
    body = encode(SyncGroupRequest(assignments=[SyncGroupRequestAssignment("m", b"")]), 5)
    assert decode(SyncGroupRequest, 5, body).assignments[0].assignment == b""
    with pytest.raises(EncodeError, match="assignment is None"):
        encode(SyncGroupRequest(assignments=[SyncGroupRequestAssignment("m", None)]), 5)  # type: ignore[arg-type]


# --- text ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("ff", "\ufffd"),
        ("61 c3 62", "a\ufffdb"),
        ("ed a0 80", "\ufffd"),  # an encoded surrogate: one for Java, three for Python
        ("ed a0 41", "\ufffdA"),
        ("f0 9f 98", "\ufffd"),
        ("c0 80", "\ufffd\ufffd"),
    ],
)
def test_what_is_not_utf8_is_replaced_as_java_does_it(raw: str, text: str) -> None:
    data = bytes.fromhex(raw)
    assert decode(LeaveGroupRequest, 0, bytes((0, len(data))) + data + bytes.fromhex("0001 6d")).group_id == text


def test_damaged_text_hides_no_other_damage() -> None:
    with pytest.raises(DecodeError, match="ends early"):
        decode(LeaveGroupRequest, 0, bytes.fromhex("0001 ff 00"))


# --- tags ------------------------------------------------------------------------------------------------------------


def _heartbeat_with_tags(section: str) -> HeartbeatRequest:
    return decode(HeartbeatRequest, 4, bytes.fromhex("02 67 00000005 02 6d 00" + section))


@pytest.mark.parametrize("section", ["01 00 00", "02 05 01 ff 05 01 ff", "02 09 00 03 02 ffff", "81 00 ac02 8100 ff"])
def test_unknown_tags_are_skipped_in_any_order(section: str) -> None:
    assert _heartbeat_with_tags(section) == HeartbeatRequest("g", 5, "m", None)


def test_known_tags_are_read_among_unknown_ones() -> None:
    body = encode(ApiVersionsResponse(finalized_features_epoch=3), 3)
    assert body.hex(" ") == "00 00 01 00 00 00 00 01 01 08 00 00 00 00 00 00 00 03"
    tagged = bytes.fromhex("00 00 01 00 00 00 00 03 07 01 ff 01 08 00 00 00 00 00 00 00 03 63 00")
    assert decode(ApiVersionsResponse, 3, tagged) == ApiVersionsResponse(finalized_features_epoch=3)


def test_a_tag_of_another_version_is_refused() -> None:
    body = encode(FetchRequest(topics=[FetchTopic("t")]), 12)
    cluster_id = bytes.fromhex("01 01 02 6161")  # tag 1 is the replica state from version 15 on
    with pytest.raises(DecodeError, match=r"tag 1 \(replica_state\) is not valid in this version"):
        decode(FetchRequest, 12, body[:-1] + cluster_id)


def test_tagged_fields_are_written_only_where_they_differ_and_in_order() -> None:
    assert encode(ApiVersionsResponse(), 3).endswith(b"\0")
    features = [FinalizedFeatureKey("f", 2, 1)]
    both = encode(ApiVersionsResponse(finalized_features=features, finalized_features_epoch=1), 3)
    assert both.hex(" ").endswith("02 01 08 00 00 00 00 00 00 00 01 02 08 02 02 66 00 02 00 01 00")
    assert decode(ApiVersionsResponse, 3, both).finalized_features == features


# --- encoding --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "version", "reason"),
    [
        (HeartbeatRequest(None), 0, "group_id is None"),  # type: ignore[arg-type]
        (HeartbeatRequest(generation_id=2**31), 0, "format requires"),
        (HeartbeatRequest(generation_id="1"), 0, "required argument is not an integer"),  # type: ignore[arg-type]
        (HeartbeatRequest(b"g"), 0, "encode"),  # type: ignore[arg-type]
        (HeartbeatRequest("\ud800"), 0, "surrogates not allowed"),
        (MetadataRequest(None), 0, "topics is None"),
        (MetadataRequest([MetadataRequestTopic(b"short")]), 10, "topic_id is no uuid of 16 bytes"),
        (MetadataRequest([None]), 1, "name"),  # type: ignore[list-item]
        (SyncGroupRequest(assignments=[SyncGroupRequestAssignment("m", "text")]), 0, "str"),  # type: ignore[arg-type]
        (FetchResponse(node_endpoints=[1]), 16, "host"),  # type: ignore[list-item]
    ],
)
def test_what_can_not_be_written_is_said(value: object, version: int, reason: str) -> None:
    with pytest.raises(EncodeError, match=f"{type(value).__name__} v{version}: .*{reason}"):
        encode(value, version)


def test_large_byte_fields_are_handed_on_uncopied() -> None:
    batch = bytes(100_000)
    pieces: list[bytes] = []
    encode_into(
        FetchResponse(responses=[FetchableTopicResponse("t", partitions=[PartitionData(records=batch)])]),
        12,
        pieces.append,
    )
    assert any(piece is batch for piece in pieces)


# --- what the schema language can say and few messages do ----------------------------------------------------------------


@struct
class Inner:
    value: float = float64(default=0.5)
    late: int = uint32("1+", default=3)


@message("0-1", flexible="1+")
class Everything:
    inner: Inner | None = nested(Inner, nullable="0+", default=None)
    ids: list[bytes] = array("uuid", default_factory=list)
    port: int = uint16(default=1)
    plain: str = string(default="", flexible="none")
    second: list[Inner] = array(Inner, "1+", tag=1, tagged="1+", default_factory=list)
    first: Inner | None = nested(Inner, "1+", tag=0, tagged="1+", nullable="1+", default=None)


def test_rare_kinds_of_fields() -> None:
    everything = Everything(Inner(1.5, 7), [bytes(16), b"x" * 16], 65535, "p", [Inner()], Inner(2.0, 2**32 - 1))
    assert decode(Everything, 1, encode(everything, 1)) == everything
    assert decode(Everything, 1, encode(Everything(), 1)) == Everything()
    assert encode(Everything(plain="p"), 1).hex(" ") == "ff 01 00 01 00 01 70 00"
    assert encode(Everything(Inner(0.0), plain="p"), 0).hex(" ") == "01 " + "00 " * 8 + "00 00 00 00 00 01 00 01 70"
    oldest = Everything(Inner(1.5), [b"y" * 16], 2, "q")
    assert decode(Everything, 0, encode(oldest, 0)) == oldest


def test_tags_are_written_in_ascending_order() -> None:
    body = encode(Everything(second=[Inner()], first=Inner()), 1)
    assert body.endswith(
        bytes.fromhex("02 00 0e 01 3fe0000000000000 00000003 00 01 0e 02 3fe0000000000000 00000003 00")
    )


def test_a_wrong_uuid_in_an_array_is_refused() -> None:
    with pytest.raises(EncodeError, match="ids is no uuid"):
        encode(Everything(ids=[bytes(15)]), 0)


# --- the compiled functions ------------------------------------------------------------------------------------------


def test_the_source_can_be_read() -> None:
    text = source(OffsetCommitResponse, 8)
    assert "def decode_OffsetCommitResponse_v8(b, p, n):" in text
    assert "def encode_OffsetCommitResponse_v8(m, w):" in text
    compile(text, "source", "exec")


def test_a_traceback_shows_the_compiled_line() -> None:
    with pytest.raises(IndexError) as caught:
        decoder(HeartbeatRequest, 4)(b"", 0, 0)
    assert "l = b[p]" in "".join(traceback.format_exception(caught.value))


def test_nothing_is_compiled_before_it_is_used() -> None:
    code = (
        "import kafka_wire.codec as c\n"
        "from kafka_wire.messages.k12_heartbeat import HeartbeatRequest as H\n"
        "assert not c._decoders and not c._encoders\n"
        "c.decode(H, 4, c.encode(H(), 4))\n"
        "assert len(c._decoders) == len(c._encoders) == 1\n"
    )
    done = processes.run([sys.executable, "-c", code])
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("text", "inside", "outside"), [("3+", 3, 2), ("0-2", 2, 3), ("1", 1, 2), ("2-2", 2, 1)])
def test_version_ranges(text: str, inside: int, outside: int) -> None:
    versions = Versions.parse(text)
    assert inside in versions
    assert outside not in versions
    assert Versions.parse(str(versions)) == versions


def test_no_version_is_in_the_empty_range() -> None:
    assert 0 not in Versions.parse("none")
    assert str(Versions.parse("none")) == "none"
    with pytest.raises(ValueError):
        Versions.parse("x+")


def test_decoding_requests_of_a_client_that_knows_more_than_we_do() -> None:
    """ApiVersions v3 with tags of a future version: what we know is read."""
    body = encode(ApiVersionsRequest("client", "1.0"), 3)
    assert decode(ApiVersionsRequest, 3, body[:-1] + bytes.fromhex("01 2a 02 abcd")).client_software_name == "client"
    assert decode(MetadataResponse, 0, encode(MetadataResponse(), 0)) == MetadataResponse()
