"""Records of __consumer_offsets: the bytes of real brokers, every version both ways, and what is unknown or damaged."""

from __future__ import annotations

from inspect import getgeneratorlocals
from random import Random
from typing import Any

import pytest

from kafka_wire import offsets_log
from kafka_wire.codec import DecodeError, EncodeError, encode
from kafka_wire.messages.offsets_log import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    CopartitionGroup,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    StreamsGroupTopologyValue,
    Subtopology,
)
from kafka_wire.offsets_log import (
    UnknownValueVersionError,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
    encoding_value,
    group_key,
    group_value,
    offset_commit_key,
    offset_commit_value,
)
from tests.protocol.generate import MESSAGES, random_message, versions
from tests.protocol.mutate import mutate

GROUP_WITH_MEMBER = GroupMetadataValue(
    "consumer", 2, "range", "m1", 1700000000000, [MemberMetadata("m1", "i1", "c", "/127.0.0.1", 60, 45, b"sub", b"asg")]
)


# --- what real brokers wrote ----------------------------------------------------------------


def test_a_commit_is_that_of_a_4_1_broker() -> None:
    """Group g34 commits offset 5 of t1-0; the record's key and value within the batch of 107 bytes."""
    assert offset_commit_key("g34", "t1", 0).hex(" ", 2) == "00 0100 0367 3334 0002 7431 0000 0000"
    committed_at = 1700000000000
    value = offset_commit_value(4, 5, -1, "", committed_at)
    assert value == bytes.fromhex("0004 0000000000000005 ffffffff 01") + committed_at.to_bytes(8) + b"\0"
    record = offset_commit_key("g34", "t1", 0), value
    assert (len(record[0]), len(record[1])) == (0x1E // 2, 0x30 // 2)  # their zigzag varints in the batch: 1e and 30
    assert 61 + 1 + 1 + 1 + 1 + 1 + len(record[0]) + 1 + len(record[1]) + 1 == 107


def test_an_empty_simple_group_has_24_bytes() -> None:
    value = group_value(3, GroupMetadataValue("", 0, None, None, 1700000000000, []))
    assert value.hex(" ") == "00 03 00 00 00 00 00 00 ff ff ff ff 00 00 01 8b cf e5 68 00 00 00 00 00"


# --- both ways -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("metadata", ["", "x", "grün", "x" * 126, "x" * 127, "x" * 4096])
def test_commit_values_of_every_version(version: int, metadata: str) -> None:
    value = offset_commit_value(version, 2**40, 9, metadata, 1700000000000, 1800000000000)
    expected = OffsetCommitValue(2**40, 9 if version >= 3 else -1, metadata, 1700000000000)
    expected.expire_timestamp = 1800000000000 if version == 1 else -1
    assert decode_value(1, value) == decode_value(0, value) == expected


@pytest.mark.parametrize("version", [3, 4])
def test_the_fast_paths_write_what_the_schema_says(version: int) -> None:
    rng = Random(f"fast {version}")
    for _ in range(300):
        message: OffsetCommitValue = random_message(rng, OffsetCommitValue, version)
        message.topic_id = rng.choice([bytes(16), rng.randbytes(16)]) if version >= 4 else bytes(16)
        ours = offset_commit_value(
            version,
            message.offset,
            message.leader_epoch,
            message.metadata,
            message.commit_timestamp,
            topic_id=message.topic_id,
        )
        assert ours == encode_value(version, message)
        key: OffsetCommitKey = random_message(rng, OffsetCommitKey, 0)
        assert offset_commit_key(key.group, key.topic, key.partition) == encode_key(1, key)
        assert group_key(key.group) == encode_key(2, GroupMetadataKey(key.group))


@pytest.mark.parametrize("version", range(5))
def test_group_values_of_every_version(version: int) -> None:
    group = decode_value(2, group_value(version, GROUP_WITH_MEMBER))
    assert (group.protocol_type, group.generation, group.protocol, group.leader) == ("consumer", 2, "range", "m1")
    assert group.current_state_timestamp == (1700000000000 if version >= 2 else -1)
    (member,) = group.members
    assert member.rebalance_timeout == (60 if version >= 1 else -1)
    assert member.group_instance_id == ("i1" if version >= 3 else None)
    assert (member.session_timeout, member.subscription, member.assignment) == (45, b"sub", b"asg")


def test_keys_of_every_type() -> None:
    of_log = [cls for cls in MESSAGES if cls.__module__ == "kafka_wire.messages.offsets_log"]
    keys: dict[int, Any] = {cls.__spec__.api_key: cls for cls in of_log if cls.__name__.endswith("Key")}  # type: ignore[attr-defined]
    values: dict[int, Any] = {cls.__spec__.api_key: cls for cls in of_log if cls.__name__.endswith("Value")}  # type: ignore[attr-defined]
    assert keys.keys() == values.keys() == {*range(1, 9), *range(10, 18), *range(19, 24)}
    rng = Random("keys")
    for record_type, cls in keys.items():
        key = random_message(rng, cls, 0)
        assert decode_key(encode_key(record_type, key)) == (record_type, key)
        for version in versions(values[record_type]):
            value = random_message(rng, values[record_type], version)
            assert decode_value(record_type, encode_value(version, value)) == value


def test_a_legacy_commit_key_is_read_as_one() -> None:
    assert decode_key(b"\0\0" + offset_commit_key("g", "t", 3)[2:]) == (0, OffsetCommitKey("g", "t", 3))


def test_a_tombstone_has_no_message() -> None:
    for record_type in (0, 1, 2, 3, 8, 16, 10, 17, 99):
        assert decode_value(record_type, None) is None


# --- unknown and damaged ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("record_type", [9, 18, 24, 1000, -1])
def test_an_unknown_type_is_named_and_not_read(record_type: int) -> None:
    assert decode_key(record_type.to_bytes(2, signed=True) + b"anything") == (record_type, None)
    assert decode_value(record_type, b"anything") is None


@pytest.mark.parametrize(
    ("record_type", "version"), [(0, 5), (1, 5), (2, 5), (2, -1), (3, 1), (4, 1), (5, 1), (7, 1), (16, 1)]
)
def test_an_unknown_value_version_is_an_error(record_type: int, version: int) -> None:
    with pytest.raises(UnknownValueVersionError, match=f"has no version {version}"):
        decode_value(record_type, version.to_bytes(2, signed=True) + bytes(50))


@pytest.mark.parametrize("key", [b"", b"\0", b"\0\1", b"\0\1\0\5ab", b"\0\2\xff\xff", b"\0\1\0\1g\0\1t\0\0\0"])
def test_a_damaged_key_is_refused(key: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_key(key)


@pytest.mark.parametrize("value", [b"", b"\0", b"\0\3", b"\0\4\0\0"])
def test_a_damaged_value_is_refused(value: bytes) -> None:
    for record_type in (0, 1, 2):
        with pytest.raises(DecodeError):
            decode_value(record_type, value)


def test_damaged_records_raise_nothing_else() -> None:
    rng = Random("records")
    values = [offset_commit_value(version, 5, 1, "meta", 7) for version in range(5)]
    values += [group_value(version, GROUP_WITH_MEMBER) for version in range(5)]
    keys = [offset_commit_key("group", "topic", 1), group_key("group")]
    for _ in range(20_000):
        try:
            decode_key(mutate(rng, rng.choice(keys), rng.choice(keys)))
            decode_value(rng.choice([0, 1, 2]), mutate(rng, rng.choice(values), rng.choice(values)))
        except DecodeError:
            continue


def test_what_can_not_be_written_is_refused() -> None:
    for version in range(-1, 6):
        with pytest.raises(EncodeError):
            offset_commit_value(version, 2**63, 0, "", 0)
        with pytest.raises(EncodeError):
            offset_commit_value(version, 0, 0, None, 0)  # type: ignore[arg-type]
        with pytest.raises(EncodeError):
            offset_commit_value(version, 0, 0, "\ud800", 0)
        with pytest.raises(EncodeError):
            offset_commit_value(version, 0, 0, "x" * 40_000, 0)
    with pytest.raises(EncodeError):
        offset_commit_key("x" * 40_000, "t", 0)
    with pytest.raises(EncodeError):
        offset_commit_key("g", "t", 2**31)
    with pytest.raises(EncodeError):
        group_key("\ud800")
    with pytest.raises(EncodeError):
        group_value(5, GROUP_WITH_MEMBER)
    with pytest.raises(EncodeError, match="is not the key of record type 2"):
        encode_key(2, OffsetCommitKey())


def test_a_long_value_is_joined_in_pieces() -> None:
    """A value of a million parts was joined at once, which took 100 ms."""
    groups = [CopartitionGroup() for _ in range(50_000)]
    topology = StreamsGroupTopologyValue(0, [Subtopology("0", copartition_groups=groups)])
    job = encoding_value(0, topology)
    value, most = b"", 0
    while not value:
        try:
            next(job)
        except StopIteration as done:
            value = done.value
        else:
            held = getgeneratorlocals(job)
            most = max(most, len(held["parts"]), len(held["pieces"]))
    assert value == encode_value(0, topology)
    assert most <= 50


def test_the_rebalance_log_of_a_kip_848_group() -> None:
    key = encode_key(offsets_log.CONSUMER_GROUP_METADATA, ConsumerGroupMetadataKey("g"))
    assert key == bytes.fromhex("0003 0001 67")
    assert decode_value(3, encode_value(0, ConsumerGroupMetadataValue(7))) == ConsumerGroupMetadataValue(7)
    assert encode(ConsumerGroupMetadataValue(7), 0) == bytes.fromhex("00000007 00")
