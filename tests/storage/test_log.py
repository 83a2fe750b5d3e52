"""Operations of a log, alike on disk and in memory: append, read, roll, look up, shrink."""

from __future__ import annotations

import pytest

from broker_sim.common.slices import at_once
from broker_sim.storage import (
    KafkaStorageError,
    OffsetOutOfRange,
    Origin,
    PartitionLog,
    RecordListTooLarge,
    RecordTooLarge,
)
from broker_sim.storage.positions import bytes_between
from kafka_wire.errors import Err
from kafka_wire.record_batch import (
    Codec,
    CorruptRecord,
    InvalidRecord,
    InvalidTimestamp,
    Record,
    build_batch,
    check_crc,
    encode_batch,
    parse_header,
    records,
    stamp,
)
from tests.storage.batches import NOW_MS, add, batch, content, fill, idempotent, keyed, offsets, values
from tests.storage.conftest import MakeLog


def test_an_empty_log_begins_and_ends_at_zero(make_log: MakeLog) -> None:
    log = make_log()
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (0, 0, 0)
    assert log.read(0, 1000) == b""
    assert log.offset_for_timestamp(0) is None
    assert log.max_timestamp() is None
    assert log.end_offset_for_epoch(0) == (-1, -1)


def test_appended_batches_get_offsets_and_epoch_and_nothing_else_changes(make_log: MakeLog) -> None:
    log = make_log()
    first, second = batch("a", "b", "c"), batch("d")
    assert add(log, first, epoch=3)[:3] == (0, 2, NOW_MS)
    info = add(log, second, epoch=4)
    assert (info.base_offset, info.last_offset, info.log_append_time_ms, info.duplicate) == (3, 3, -1, False)
    assert log.log_end_offset == 4
    assert log.read(0, 10_000) == stamp(first, 0, 3) + stamp(second, 3, 4)


def test_several_batches_in_one_append_follow_each_other(make_log: MakeLog) -> None:
    log = make_log()
    info = add(log, batch("a", "b") + batch("c") + batch("d", "e"))
    assert (info.base_offset, info.last_offset) == (0, 4)
    assert values(log) == [b"a", b"b", b"c", b"d", b"e"]
    assert offsets(log.read(2, 10_000)) == [2, 3, 4]


def test_a_read_begins_with_the_batch_that_holds_the_offset(make_log: MakeLog) -> None:
    log = make_log()
    add(log, batch("a", "b", "c"))
    add(log, batch("d"))
    assert offsets(log.read(1, 10_000)) == [0, 1, 2, 3]
    assert offsets(log.read(3, 10_000)) == [3]
    assert log.read(4, 10_000) == b""


def test_a_read_holds_whole_batches_up_to_the_limit_but_at_least_one(make_log: MakeLog) -> None:
    log = make_log()
    fill(log, 50)
    size = len(log.read(10, 1))
    assert offsets(log.read(0, 1)) == [0]
    assert log.read(0, 1, min_one_batch=False) == b""
    assert offsets(log.read(10, 3 * size + 10)) == [10, 11, 12]
    assert offsets(log.read(10, 3 * size)) == [10, 11, 12]


def test_bytes_between_two_offsets_are_those_of_the_batches_of_one_segment(make_log: MakeLog) -> None:
    log = make_log()
    sizes = [len(batch("a", "b")), len(batch("c")), len(batch("d"))]
    add(log, batch("a", "b") + batch("c"))
    assert bytes_between(log, 0, 3) == sum(sizes[:2])
    assert bytes_between(log, 1, 2) == sizes[0], "from the beginning of the batch that contains the offset"
    assert bytes_between(log, 1, 1) == bytes_between(log, 3, 3) == 0
    log.roll(NOW_MS)
    add(log, batch("d"))
    assert bytes_between(log, 0, 3) == sum(sizes[:2]), "the end of the first segment"
    assert bytes_between(log, 2, 4) is None
    assert bytes_between(log, 3, 4) == sizes[2]


def test_a_read_stops_before_the_high_watermark(make_log: MakeLog) -> None:
    log = make_log()
    fill(log, 20)
    assert offsets(log.read(5, 1_000_000, up_to_offset=9)) == [5, 6, 7, 8]
    assert log.read(9, 1_000_000, up_to_offset=9) == b""
    assert log.read(12, 1_000_000, up_to_offset=9) == b""
    assert offsets(log.read(18, 1_000_000, up_to_offset=99)) == [18, 19]


@pytest.mark.parametrize("size", [10, 5000])
def test_reading_on_from_the_last_offset_sees_every_batch_once(make_log: MakeLog, size: int) -> None:
    log = make_log(segment_bytes=200_000)
    fill(log, 300, size=size)
    for limit in (1, 1000, 70_000, 1 << 20):
        seen: list[int] = []
        while len(seen) < 300:
            seen += offsets(log.read(len(seen), limit))
        assert seen == list(range(300))


def test_reads_outside_the_log_are_refused(make_log: MakeLog) -> None:
    log = make_log()
    fill(log, 3)
    for offset in (-1, 4):
        with pytest.raises(OffsetOutOfRange) as caught:
            log.read(offset, 100)
        assert caught.value.error == Err.OFFSET_OUT_OF_RANGE


# ------------------------------------------------------------------------------------------------ bad batches


def refused(log: PartitionLog, data: bytes, kind: type[Exception], error: Err) -> None:
    before = (log.log_end_offset, log.size_bytes)
    with pytest.raises(kind) as caught:
        add(log, data)
    assert caught.value.error == error  # type: ignore[attr-defined]
    assert (log.log_end_offset, log.size_bytes) == before
    assert add(log, batch("next")).base_offset == before[0]


def test_bad_batches_are_refused_with_kafkas_errors_and_leave_no_trace(make_log: MakeLog) -> None:
    log = make_log()
    good = batch("a", "b")
    refused(log, good[:-1] + b"?", CorruptRecord, Err.CORRUPT_MESSAGE)
    refused(log, good[:-3], CorruptRecord, Err.CORRUPT_MESSAGE)
    refused(log, stamp(good, 5, 0), InvalidRecord, Err.INVALID_RECORD)
    control = build_batch([(b"\0\0\0\0", b"")], NOW_MS, attributes=0x30)
    refused(log, control, InvalidRecord, Err.INVALID_RECORD)
    without_sequence = build_batch([(None, b"")], NOW_MS, producer_id=5, producer_epoch=0, base_sequence=-1)
    refused(log, without_sequence, InvalidRecord, Err.INVALID_RECORD)
    gap = encode_batch([Record(0, 1, None, b"a"), Record(2, 1, None, b"b")])
    refused(log, gap, InvalidRecord, Err.INVALID_RECORD)
    refused(log, encode_batch([]), InvalidRecord, Err.INVALID_RECORD)


def test_a_batch_above_max_message_bytes_is_refused(make_log: MakeLog) -> None:
    log = make_log(max_message_bytes=200)
    refused(log, batch("x" * 200), RecordTooLarge, Err.MESSAGE_TOO_LARGE)


def test_an_append_above_segment_bytes_is_refused(make_log: MakeLog) -> None:
    log = make_log(segment_bytes=300)
    refused(log, batch("x" * 300), RecordListTooLarge, Err.RECORD_LIST_TOO_LARGE)


def test_a_compacted_log_wants_a_key_in_every_record(make_log: MakeLog) -> None:
    log = make_log(cleanup_policy="compact")
    with pytest.raises(InvalidRecord) as caught:
        add(log, build_batch([(b"k", b""), (None, b"")], NOW_MS))
    assert (caught.value.error, [index for index, _ in caught.value.record_errors]) == (Err.INVALID_RECORD, [1])
    assert add(log, keyed(("k", "v"))).base_offset == 0


def test_timestamps_out_of_the_topics_bounds_are_refused(make_log: MakeLog) -> None:
    log = make_log(message_timestamp_before_max_ms=1000, message_timestamp_after_max_ms=500)
    for timestamp in (NOW_MS - 1001, NOW_MS + 501):
        with pytest.raises(InvalidTimestamp) as caught:
            add(log, batch("a", timestamp_ms=timestamp))
        assert [index for index, _ in caught.value.record_errors] == [0]
    add(log, batch("a", timestamp_ms=NOW_MS - 1000))
    add(log, batch("a", timestamp_ms=NOW_MS + 500))
    add(log, batch("a", timestamp_ms=-1))


def test_a_producer_may_not_set_the_append_time(make_log: MakeLog) -> None:
    data = build_batch([(None, b"")], NOW_MS, attributes=8)
    refused(make_log(message_timestamp_type="LogAppendTime"), data, InvalidTimestamp, Err.INVALID_TIMESTAMP)
    refused(make_log(release=(3, 4)), data, InvalidTimestamp, Err.INVALID_TIMESTAMP)
    log = make_log()
    add(log, data)
    one = next(log.batches())
    assert not one.header.is_log_append_time
    check_crc(one.data, one.position, one.header)


def test_the_coordinators_batches_are_not_checked_again(make_log: MakeLog) -> None:
    log = make_log(cleanup_policy="compact")
    damaged = bytearray(keyed(("k", "v")))
    damaged[20] ^= 1
    assert add(log, bytes(damaged), trusted=True).base_offset == 0


# ------------------------------------------------------------------------------------------------ time


def test_log_append_time_is_stamped_into_the_batch(make_log: MakeLog) -> None:
    log = make_log(message_timestamp_type="LogAppendTime")
    info = log.append(batch("a", "b", timestamp_ms=5), leader_epoch=0, now_ms=NOW_MS + 9)
    assert (info.max_timestamp, info.log_append_time_ms) == (NOW_MS + 9, NOW_MS + 9)
    assert {record.timestamp for record in content(log)} == {NOW_MS + 9}
    assert parse_header(log.read(0, 1000)).is_log_append_time
    for one in log.batches():
        check_crc(one.data, one.position, one.header)


def test_the_first_record_at_or_after_a_time_is_found(make_log: MakeLog) -> None:
    log = make_log(segment_bytes=3000)
    fill(log, 100, step_ms=10)
    assert len(log.segments) > 3
    for number in (0, 1, 17, 50, 98, 99):
        for early in (0, 1, 9):
            found = log.offset_for_timestamp(NOW_MS + number * 10 - early)
            assert found is not None
            assert (found.offset, found.timestamp) == (number, NOW_MS + number * 10)
    assert log.offset_for_timestamp(NOW_MS + 991) is None


def test_the_record_itself_is_found_inside_a_batch_compressed_or_not(make_log: MakeLog) -> None:
    for codec in Codec:
        log = make_log()
        rows = [Record(index, NOW_MS + index, None, b"v" * 50) for index in range(20)]
        add(log, encode_batch(rows, codec=codec))
        found = log.offset_for_timestamp(NOW_MS + 13)
        assert found == (NOW_MS + 13, 13, 0)


def test_out_of_order_times_are_found_by_the_first_that_is_late_enough(make_log: MakeLog) -> None:
    log = make_log()
    for timestamp in (100, 300, 200, 300, 50):
        add(log, batch("v", timestamp_ms=timestamp))
    assert log.offset_for_timestamp(150) == (300, 1, 0)
    assert log.offset_for_timestamp(60) == (100, 0, 0)
    assert log.max_timestamp() == (300, 1, 0)


def test_a_lookup_by_time_does_not_see_deleted_records(make_log: MakeLog) -> None:
    log = make_log()
    fill(log, 10, step_ms=10)
    log.delete_records(4)
    assert log.offset_for_timestamp(NOW_MS) == (NOW_MS + 40, 4, 0)


@pytest.mark.parametrize("change", ["nothing", "cut", "deleted", "more"])
@pytest.mark.parametrize("largest", [False, True])
def test_what_happens_to_a_log_between_two_pieces_of_a_lookup_does_not_harm_it(
    make_log: MakeLog, change: str, largest: bool
) -> None:
    """A record of many headers is gone through in pieces, between which others are served."""
    log = make_log(segment_bytes=30_000)
    headers: list[tuple[str, bytes | None]] = [("", None)] * 5000
    for number in range(6):
        add(log, encode_batch([Record(0, NOW_MS, b"k", b"", headers), Record(1, NOW_MS + number, b"k", b"v")]))
    assert len(log.segments) > 1
    job = log.finding_max_timestamp() if largest else log.finding_timestamp(NOW_MS + 4, 0)
    next(job)
    if change == "cut":
        log.truncate_to(4)
    elif change == "deleted":
        log.delete_records(7)
        log.apply_retention(NOW_MS)
    elif change == "more":
        fill(log, 3, step_ms=1000)
    found = at_once(job)
    if change == "nothing":
        assert found == ((NOW_MS + 5, 11, 0) if largest else (NOW_MS + 4, 9, 0))
    elif found is not None:
        assert found.timestamp >= NOW_MS
    assert at_once(log.finding_max_timestamp() if largest else log.finding_timestamp(NOW_MS + 4, 0)) == (
        log.max_timestamp() if largest else log.offset_for_timestamp(NOW_MS + 4, start=0)
    )


# ------------------------------------------------------------------------------------------------ segments


def test_segments_roll_by_size(make_log: MakeLog) -> None:
    log = make_log(segment_bytes=1000)
    fill(log, 20)
    assert [segment.base_offset for segment in log.segments] == [0, 5, 10, 15]
    assert all(segment.size <= 1000 for segment in log.segments)
    assert len(values(log)) == 20


def test_segments_roll_by_the_time_between_their_first_batch_and_the_next(make_log: MakeLog) -> None:
    log = make_log(segment_ms=1000)
    for after in (0, 1000, 1001, 1500, 2001, 2002):
        add(log, batch("v", timestamp_ms=NOW_MS + after))
    assert [segment.base_offset for segment in log.segments] == [0, 2, 5]


def test_a_change_of_settings_holds_from_the_next_append_on(make_log: MakeLog) -> None:
    log = make_log()
    fill(log, 20)
    assert len(log.segments) == 1
    log.config = log.config.with_settings({"segment.bytes": "1000"})
    fill(log, 20)
    assert len(log.segments) > 3
    assert len(values(log)) == 40


# ------------------------------------------------------------------------------------------------ shrinking


def test_deleted_records_move_the_start_and_whole_segments_go(make_log: MakeLog) -> None:
    log = make_log(segment_bytes=1000)
    fill(log, 20)
    assert log.delete_records(7) == 7
    assert [segment.base_offset for segment in log.segments] == [5, 10, 15]
    assert log.log_start_offset == 7
    with pytest.raises(OffsetOutOfRange):
        log.read(6, 1000)
    assert offsets(log.read(7, 1))[-1] == 7
    assert log.delete_records(3) == 7
    assert log.delete_records(20) == 20
    assert (len(log.segments), log.log_end_offset) == (1, 20)
    with pytest.raises(OffsetOutOfRange):
        log.delete_records(21)
    assert add(log, batch("next")).base_offset == 20


def test_retention_by_time_removes_old_segments_and_even_the_active_one(make_log: MakeLog) -> None:
    log = make_log(segment_bytes=1000, retention_ms=1000)
    fill(log, 20, step_ms=100)
    assert log.apply_retention(NOW_MS + 900 + 1000) == 1
    assert log.log_start_offset == 5
    assert log.apply_retention(NOW_MS + 900 + 1000) == 0
    assert log.apply_retention(NOW_MS + 1_000_000) == 3
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (20, 20, 0)
    assert log.apply_retention(NOW_MS + 2_000_000) == 0
    assert add(log, batch("next")).base_offset == 20


def test_retention_by_size_keeps_at_least_that_much(make_log: MakeLog) -> None:
    log = make_log(segment_bytes=1000, retention_bytes=2000)
    fill(log, 20)
    sizes = [segment.size for segment in log.segments]
    log.apply_retention(NOW_MS)
    assert log.size_bytes >= 2000 > log.size_bytes - sizes[0]


def test_retention_spares_what_is_not_committed_and_logs_that_only_compact(make_log: MakeLog) -> None:
    log = make_log(segment_bytes=1000, retention_ms=1000)
    fill(log, 20)
    assert log.apply_retention(NOW_MS + 10_000, high_watermark=7) == 1
    assert log.log_start_offset == 5
    log.config = log.config.with_settings({"cleanup.policy": "compact"})
    assert log.apply_retention(NOW_MS + 10_000) == 0


@pytest.mark.parametrize("keep", [0, 1, 7, 10, 12, 20])
def test_truncation_drops_the_offset_and_all_after_it(make_log: MakeLog, keep: int) -> None:
    log = make_log(segment_bytes=1000)
    fill(log, 20)
    log.truncate_to(keep)
    assert log.log_end_offset == keep
    assert [record.offset for record in content(log)] == list(range(keep))
    assert add(log, batch("next")).base_offset == keep
    assert values(log)[-1] == b"next"


def test_truncation_inside_a_batch_drops_the_batch(make_log: MakeLog) -> None:
    log = make_log()
    add(log, batch("a", "b"))
    add(log, batch("c", "d", "e"))
    log.truncate_to(3)
    assert log.log_end_offset == 2


def test_truncation_forgets_the_producers_batches_too(make_log: MakeLog) -> None:
    log = make_log()
    add(log, idempotent(0))
    add(log, idempotent(1))
    log.truncate_to(1)
    assert add(log, idempotent(1)).base_offset == 1


# ------------------------------------------------------------------------------------------------ epochs


def test_end_offsets_of_epochs_follow_the_rules_of_offset_for_leader_epoch(make_log: MakeLog) -> None:
    log = make_log()
    for epoch, count in ((2, 3), (3, 2), (7, 4)):
        for _ in range(count):
            add(log, batch("v"), epoch=epoch)
    assert log.latest_epoch == 7
    assert log.end_offset_for_epoch(-1) == (-1, -1)
    assert log.end_offset_for_epoch(1) == (1, 0)
    assert log.end_offset_for_epoch(2) == (2, 3)
    assert log.end_offset_for_epoch(3) == (3, 5)
    assert log.end_offset_for_epoch(5) == (3, 5)
    assert log.end_offset_for_epoch(7) == (7, 9)
    assert log.end_offset_for_epoch(8) == (-1, -1)
    log.assign_epoch(9)
    assert log.end_offset_for_epoch(7) == (7, 9)
    assert log.end_offset_for_epoch(9) == (9, 9)


def test_epochs_follow_the_logs_start_and_end(make_log: MakeLog) -> None:
    log = make_log()
    for epoch in (0, 0, 1, 1, 2, 2):
        add(log, batch("v"), epoch=epoch)
    log.delete_records(3)
    assert log.epochs.entries == [(1, 3), (2, 4)]
    log.truncate_to(4)
    assert log.epochs.entries == [(1, 3)]


def test_iterating_batches_gives_each_with_its_records(make_log: MakeLog) -> None:
    log = make_log(segment_bytes=500)
    for number in range(10):
        add(log, keyed((f"k{number}", "v"), ("other", None)), trusted=True)
    log.delete_records(5)
    found = list(log.batches())
    assert [one.header.base_offset for one in found] == list(range(4, 20, 2))
    assert list(records(found[0].bytes)) == list(found[0].records())
    assert [one.header.base_offset for one in log.batches(11)] == [10, 12, 14, 16, 18]


def test_the_origins_are_the_two_that_append() -> None:
    assert {origin.value for origin in Origin} == {"client", "coordinator"}
    assert KafkaStorageError("x").error == Err.KAFKA_STORAGE_ERROR
