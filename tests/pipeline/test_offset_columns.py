"""Columns are what protocol's decoders give record by record: on records as brokers write them, odd ones, and broken ones."""

from __future__ import annotations

import struct
from typing import Any

import numpy
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from broker_sim.pipeline import record_places
from broker_sim.pipeline.offset_columns import Decoded, RowSelection, SegmentOrigin, decode, decode_plainly
from broker_sim.pipeline.record_places import Piece, places_of
from broker_sim.pipeline.schemas import KINDS, OFFSET_LOG
from kafka_wire.messages import offsets_log as messages
from kafka_wire.messages.offsets_log import GroupMetadataValue, MemberMetadata, OffsetCommitValue
from kafka_wire.offsets_log import (
    encode_key,
    encode_value,
    group_key,
    group_value,
    offset_commit_key,
    offset_commit_value,
)
from kafka_wire.record_batch import Codec, ControlType, Record, build_batch, control_batch, encode_batch, varint
from tests.importing.logs import NOW_MS, commit, gone, group_of

ORIGIN = SegmentOrigin("run", 12, 100)
WANTED = RowSelection(ORIGIN)
TRANSACTIONAL, CONTROL, LOG_APPEND_TIME = 0x10, 0x20, 0x08
INT64 = struct.Struct(">q")


def piece(*batches: bytes, position: int = 0) -> Piece:
    at, total = [], 0
    for batch in batches:
        at.append(total)
        total += len(batch)
    return Piece(b"".join(batches), position, at, 0)


def rows(decoded: Decoded) -> list[dict[str, Any]]:
    return list(decoded.rows.to_pylist())


def both(given: Piece, wanted: RowSelection = WANTED) -> list[dict[str, Any]]:
    """The rows, after a look whether both ways give them."""
    quick, plain = decode(given, wanted), decode_plainly(given, wanted)
    assert quick.rows.schema == wanted.table.arrow()
    assert rows(quick) == rows(plain)
    assert sorted(quick.faults) == sorted(plain.faults)
    quick.rows.validate(full=True)
    return rows(quick)


def usual(given: Piece) -> bool:
    """Whether no record had to be read plainly."""
    from broker_sim.pipeline import offset_columns

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(offset_columns, "row_of", None)
        try:
            decode(given, WANTED)
        except TypeError:
            return False
        return True


# ------------------------------------------------------------------------------------------------ any records at all

texts = st.text(max_size=12) | st.text(alphabet="ab-é", min_size=120, max_size=140)
int64s = st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 300)
times = st.integers(-1, 2**45) | int64s
int32s = st.integers(-(2**31), 2**31 - 1) | st.integers(-1, 300)
junk = st.binary(max_size=40)


@st.composite
def commit_pairs(draw: Any) -> tuple[bytes, bytes | None]:
    key = encode_key(draw(st.sampled_from([0, 1])), messages.OffsetCommitKey(draw(texts), draw(texts), draw(int32s)))
    if draw(st.integers(0, 5)) == 0:
        return key, None
    version = draw(st.integers(0, 4))
    value = OffsetCommitValue(draw(int64s), -1, draw(texts), draw(times))
    if version >= 3:
        value.leader_epoch = draw(int32s)
    if version == 1:
        value.expire_timestamp = draw(int64s)
    if version == 4 and draw(st.integers(0, 5)) == 0:
        value.topic_id = draw(st.binary(min_size=16, max_size=16))
    return key, encode_value(version, value)


@st.composite
def group_pairs(draw: Any) -> tuple[bytes, bytes | None]:
    key = group_key(draw(texts))
    if draw(st.booleans()):
        return key, None
    members = [
        MemberMetadata(draw(texts), None, draw(texts), draw(texts), subscription=draw(junk), assignment=draw(junk))
        for _ in range(draw(st.integers(0, 3)))
    ]
    protocol_type = draw(st.sampled_from(["consumer", "connect", ""]))
    leader = draw(st.none() | texts)
    value = GroupMetadataValue(protocol_type, draw(int32s), draw(st.none() | texts), leader, -1, members)
    return key, encode_value(draw(st.integers(2, 4)), value)


@st.composite
def odd_pairs(draw: Any) -> tuple[bytes | None, bytes | None]:
    """Good ones cut, changed in a byte, or nothing that was ever good."""
    key, value = draw(commit_pairs())
    how = draw(st.integers(0, 4))
    if how == 0:
        key = key[: draw(st.integers(0, len(key)))]
    elif how == 1:
        key += draw(junk)
    elif how == 2 and value:
        at = draw(st.integers(0, len(value) - 1))
        value = value[:at] + bytes([draw(st.integers(0, 255))]) + value[at + 1 :]
    elif how == 3 and value:
        value = value[: draw(st.integers(0, len(value)))]
    else:
        return draw(st.none() | junk), draw(st.none() | junk)
    return key, value


@st.composite
def some_batches(draw: Any) -> bytes:
    kind = draw(st.integers(0, 9))
    base = draw(st.integers(0, 2**40))
    if kind == 0:
        return control_batch(
            draw(st.sampled_from(ControlType)), NOW_MS, producer_id=7, producer_epoch=1, base_offset=base
        )
    count = draw(st.integers(0, 6))
    one = st.one_of(commit_pairs(), commit_pairs(), group_pairs(), odd_pairs())
    offset, found = base, []
    for _ in range(count):
        key, value = draw(one)
        headers = draw(st.sampled_from([(), (), (), (("h", b"x"), ("n", None))]))
        found.append(Record(offset, draw(times) % 2**62, key, value, headers))
        offset += draw(st.sampled_from([1, 1, 1, 3, 70, 20_000]))
    attributes = draw(st.sampled_from([0, 0, 0, TRANSACTIONAL, LOG_APPEND_TIME, CONTROL | TRANSACTIONAL]))
    return encode_batch(
        found,
        base_offset=base,
        last_offset=offset,
        leader_epoch=draw(int32s),
        codec=draw(st.sampled_from([Codec.NONE, Codec.NONE, *Codec])),
        producer_id=draw(int64s),
        producer_epoch=draw(st.integers(-1, 30_000)),
        attributes=attributes,
        delete_horizon_ms=draw(st.none() | st.integers(0, 2**42)),
    )


@pytest.mark.slow
@given(st.lists(some_batches(), max_size=5))
def test_columns_equal_those_of_the_decoders(batches: list[bytes]) -> None:
    both(piece(*batches, position=1000))


@pytest.mark.slow
@given(st.lists(some_batches(), min_size=1, max_size=3), st.data())
def test_so_they_are_where_bytes_have_changed(batches: list[bytes], data: st.DataObject) -> None:
    """Behind a right CRC nothing is sure, either: a producer may write what it likes."""
    index = data.draw(st.integers(0, len(batches) - 1))
    batch = bytearray(batches[index])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(
            st.sampled_from([22, *range(23, 35), *range(57, len(batch))]) if len(batch) > 61 else st.just(22)
        )
        batch[at] = data.draw(st.integers(0, 255))
    batches[index] = bytes(batch)
    both(piece(*batches))


@pytest.mark.slow
@given(st.lists(some_batches(), min_size=1, max_size=3), st.integers(0, 2**41), st.integers(0, 2**41))
def test_offsets_are_those_in_the_range(batches: list[bytes], start: int, more: int) -> None:
    wanted = RowSelection(ORIGIN, start, start + more)
    given = piece(*batches)
    inside = [row for row in both(given) if start <= row["log_offset"] < start + more]
    assert both(given, wanted) == inside


@pytest.mark.slow
@given(some_batches(), st.lists(st.sampled_from(OFFSET_LOG.names), min_size=1, unique=True))
@example(build_batch([commit("g", "t", 0, 1)], NOW_MS), ["group"])
def test_some_columns_alone(batch: bytes, names: list[str]) -> None:
    given = piece(batch)
    narrow = both(given, RowSelection(ORIGIN, table=OFFSET_LOG.only(names)))
    assert narrow == [{name: row[name] for name in names} for row in both(given)]


@given(
    st.lists(st.lists(st.sampled_from([0, 1, 5, 5, 5, 63, 64, 8191, 8192, 2_000_000]), max_size=6), max_size=6),
    st.data(),
)
@pytest.mark.slow
def test_records_are_found_by_their_lengths(sizes: list[list[int]], data: st.DataObject) -> None:
    """Records of one length or of many; no record is found in a batch with a wrong record count, or whose lengths don't add up."""
    payload, starts, stops, told, expected = b"", [], [], [], []
    for batch in sizes:
        starts.append(len(payload))
        mine = []
        for size in batch:
            mine.append(len(payload))
            payload += varint(size) + bytes(size)
        payload += b"\x02" * (cut := data.draw(st.sampled_from([0, 0, 0, 1])))  # a byte too many, that ends beyond
        stops.append(len(payload))
        told.append(len(batch) + data.draw(st.sampled_from([0, 0, 0, 1, -1])))
        expected.append([] if cut else mine)
    found, counts = places_of(payload, numpy.array(starts, int), numpy.array(stops, int), numpy.array(told, int))
    assert counts.tolist() == [len(mine) for mine in expected]
    assert found.tolist() == [place for mine in expected for place in mine]


# ------------------------------------------------------------------------------------------------ what rows say


@pytest.mark.parametrize("version", range(5))
def test_a_commit(version: int) -> None:
    value = encode_value(version, OffsetCommitValue(42, 3 if version >= 3 else -1, "note", NOW_MS))
    given = piece(
        build_batch([(offset_commit_key("billing", "orders", 7), value)], NOW_MS + 5, base_offset=100, leader_epoch=6)
    )
    (row,) = both(given)
    assert usual(given)
    assert row["record_ts"].isoformat() == "2023-11-14T22:13:20.005000+00:00"
    assert row["commit_ts"].isoformat() == "2023-11-14T22:13:20+00:00"
    told = {name: value for name, value in row.items() if value is not None and not name.endswith("_ts")}
    expected = {
        "run_id": "run", "log_partition": 12, "log_offset": 100, "record_ts_ms": NOW_MS + 5, "leader_epoch": 6,
        "producer_id": -1, "producer_epoch": -1, "is_txn": False, "kind": "commit",
        "key_version": 1, "value_version": version, "group": "billing", "topic": "orders", "partition": 7,
        "committed_offset": 42, "metadata": "note", "commit_ts_ms": NOW_MS, "segment": 100, "position": 0,
    }  # fmt: skip
    expected |= {"committed_leader_epoch": 3} if version >= 3 else {}
    expected |= {"expire_ts_ms": -1} if version == 1 else {}
    assert told == expected


def test_tombstones_and_groups() -> None:
    pairs = [commit("g", "t", 1, None), gone("g"), group_of("g", 7, "a", "b"), group_of("h", 3)]
    first, second, third, last = both(piece(build_batch(pairs, NOW_MS)))
    assert (first["kind"], first["group"], first["topic"], first["partition"]) == ("commit_tombstone", "g", "t", 1)
    assert first["value_version"] is None
    assert first["committed_offset"] is None
    assert (second["kind"], second["group"], second["members"]) == ("group_tombstone", "g", None)
    assert (third["kind"], third["generation"], third["protocol"], third["leader"]) == ("group", 7, "range", "a")
    assert third["state_ts_ms"] == NOW_MS
    assert [member["member_id"] for member in third["members"]] == ["a", "b"]
    assert third["members"][0]["topics"] == ["orders"]
    assert third["members"][0]["client_host"] == "/10.0.0.1"
    assert third["members"][0]["assigned"] is None  # b"a" is no assignment
    assert (last["generation"], last["members"], last["leader"]) == (3, [], None)


def test_transactions_and_their_markers() -> None:
    given = piece(
        build_batch([commit("g", "t", 0, 5)], NOW_MS, producer_id=9, producer_epoch=2, attributes=TRANSACTIONAL),
        control_batch(ControlType.COMMIT, NOW_MS, producer_id=9, producer_epoch=2, base_offset=1),
        control_batch(ControlType.ABORT, NOW_MS, producer_id=10, producer_epoch=0, base_offset=2),
    )
    found = [(row["kind"], row["is_txn"], row["producer_id"], row["producer_epoch"]) for row in both(given)]
    assert found == [("commit", True, 9, 2), ("txn_commit", True, 9, 2), ("txn_abort", True, 10, 0)]
    assert usual(given)


def test_kip_848_records_and_unknown_ones_stay_as_they_are() -> None:
    pairs: list[tuple[bytes | None, bytes | None]] = [
        (
            encode_key(3, messages.ConsumerGroupMetadataKey("g")),
            encode_value(0, messages.ConsumerGroupMetadataValue(4)),
        ),
        (
            encode_key(8, messages.ConsumerGroupCurrentMemberAssignmentKey("g", "m")),
            encode_value(
                0,
                messages.ConsumerGroupCurrentMemberAssignmentValue(
                    5, 4, 0, [messages.TopicPartitions(bytes(range(16)), [0, 1])], []
                ),
            ),
        ),
        (encode_key(5, messages.ConsumerGroupMemberMetadataKey("g", "m")), None),
        (b"\x00\x63?", b"\x00\x01!"),
        (b"\x00\x0b\x00\x01s", b""),
        (None, b"x"),
        (b"\x01", None),
    ]
    found = both(piece(build_batch(pairs, NOW_MS)))
    assert {row["kind"] for row in found} == {"other"}
    assert [row["record_type"] for row in found] == [
        "ConsumerGroupMetadata", "ConsumerGroupCurrentMemberAssignment", "ConsumerGroupMemberMetadata", "type 99",
        "ShareGroupMetadata", None, None,
    ]  # fmt: skip
    assert [row["key_version"] for row in found] == [3, 8, 5, 99, 11, None, None]
    assert [row["generation"] for row in found[:2]] == [4, 5]
    assert [row["member"] for row in found[1:3]] == ["m", "m"]
    assert '"assignedPartitions": [{"topicId": "AAECAwQFBgcICQoLDA0ODw", "partitions": [0, 1]}]' in found[1]["detail"]
    assert [(row["raw_key"], row["raw_value"]) for row in found] == pairs


def test_a_value_of_an_unknown_version_is_kept_and_reported() -> None:
    key, value = commit("g", "t", 0, 5)
    assert value is not None
    given = piece(build_batch([(key, b"\x00\x09" + value[2:]), commit("g", "t", 1, 6)], NOW_MS, base_offset=50))
    first, second = both(given)
    assert (first["kind"], first["value_version"], first["raw_value"]) == ("other", 9, b"\x00\x09" + value[2:])
    assert second["kind"] == "commit"
    (fault,) = decode(given, WANTED).faults
    assert not fault.lost
    assert fault.reason == "record at offset 50: OffsetCommitValue has no version 9 (0-4)"


def test_names_that_are_not_utf8_are_readable_all_the_same() -> None:
    key = b"\x00\x01\x00\x02\xffg\x00\x01t\x00\x00\x00\x01"
    given = piece(build_batch([(key, offset_commit_value(3, 1, 0, "", 1)), commit("ok", "t", 1, 1)], NOW_MS))
    assert [row["group"] for row in both(given)] == ["\ufffdg", "ok"]


def test_moments_that_no_calendar_has_are_numbers_alone() -> None:
    pairs = [(offset_commit_key("g", "t", 0), offset_commit_value(3, 1, 0, "", ms)) for ms in (-1, 2**62, -(2**63), 0)]
    found = both(piece(build_batch(pairs, -1)))
    assert [row["commit_ts_ms"] for row in found] == [-1, 2**62, -(2**63), 0]
    assert [row["commit_ts"] is None for row in found] == [True, True, True, False]
    assert {row["record_ts"] for row in found} == {None}


def test_a_batch_that_lies_about_its_records_is_left_out_with_the_reason() -> None:
    good = build_batch([commit("g", "t", 0, 1)], NOW_MS)
    two = bytearray(build_batch([commit("g", "t", 0, 2)], NOW_MS, base_offset=1))
    two[60] = 2  # records, it says
    given = piece(good, bytes(two), good)
    assert [row["committed_offset"] for row in both(given)] == [1, 1]
    (fault,) = decode(given, WANTED).faults
    assert (fault.batch, fault.lost) == (1, True)
    assert fault.reason == "Invalid record size: 0"


def test_a_codec_whose_library_is_missing_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    packed = encode_batch([Record(0, NOW_MS, *commit("g", "t", 0, 1))], codec=Codec.ZSTD)
    monkeypatch.setitem(sys.modules, "cramjam", None)
    given = piece(packed)
    assert both(given) == []
    assert "zstd needs the library cramjam" in decode(given, WANTED).faults[0].reason


def test_more_than_positions_can_hold_is_read_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = [encode_batch([Record(n, NOW_MS, *commit("g", "t", n, n))], codec=Codec.GZIP) for n in range(5)]
    monkeypatch.setattr(record_places, "MOST_UNPACKED", 150)
    assert not usual(piece(*packed))
    assert [row["committed_offset"] for row in both(piece(*packed))] == list(range(5))


def test_records_of_brokers_take_the_fast_path() -> None:
    """A record for which the quick way isn't enough costs thirty times as much."""
    pairs = [
        commit(f"group-{n}", f"orders-{n % 3}", n, n if n % 5 else None, version)
        for n in range(300)
        for version in (3, 4)
    ]
    batches = [
        encode_batch([Record(n, NOW_MS + n, *pair) for n, pair in enumerate(pairs)], codec=codec) for codec in Codec
    ]
    assert usual(piece(*batches))
    assert usual(piece(build_batch([(offset_commit_key("g", "t", 0), offset_commit_value(4, 1, 0, "n" * 500, 1))], 1)))
    with_id = offset_commit_key("g", "t", 0), offset_commit_value(4, 1, 0, "n" * 500, 1, topic_id=b"\1" * 16)
    assert usual(piece(build_batch([with_id], NOW_MS)))
    assert [row["committed_offset"] for row in both(piece(build_batch([with_id], NOW_MS)))] == [1]
    for odd in (
        with_id[1][:-19] + b"\1\1\x10" + b"\1" * 16,
        with_id[1][:-19] + b"\2\0\x10" + b"\1" * 16,
        with_id[1][:-1],
    ):
        assert not usual(piece(build_batch([(with_id[0], odd)], NOW_MS)))
    assert {row["kind"] for row in both(piece(*batches))} <= set(KINDS)
    assert group_value(3, GroupMetadataValue())  # groups are read plainly
    assert not usual(piece(build_batch([group_of("g", 1)], NOW_MS)))
