"""Compaction: the last record of every key stays, whatever the course of appends, passes, crashes and restarts."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker_sim.common.slices import Pace
from broker_sim.storage import KafkaStorageError, OutOfOrderSequence, PartitionLog
from kafka_wire import compression
from kafka_wire.record_batch import Codec, ControlType, Record, build_batch, check_crc, control_batch, encode_batch
from tests.storage.batches import (
    NOW_MS,
    FailingFiles,
    add,
    batch,
    config,
    content,
    idempotent,
    keyed,
    keys_and_values,
    log_files,
)
from tests.storage.conftest import MakeLog

COMPACT = {"cleanup_policy": "compact", "segment_bytes": 200, "delete_retention_ms": 1000}


def roll(log: PartitionLog) -> None:
    """Roll the log and append a record to the new active segment: earlier records are no longer in the active one."""
    log.roll(NOW_MS)
    add(log, keyed(("end", "mark")))


def view(log: PartitionLog) -> dict[bytes, bytes]:
    """The table that the log describes."""
    table: dict[bytes, bytes] = {}
    for key, value in keys_and_values(log):
        assert key is not None
        table.pop(key, None)
        if value is not None:
            table[key] = value
    return table


def test_of_every_key_the_last_record_stays_with_its_offset(make_log: MakeLog) -> None:
    log = make_log(**COMPACT)
    for key, value in (("a", "1"), ("b", "1"), ("a", "2"), ("c", "1"), ("b", "2"), ("a", "3")):
        add(log, keyed((key, value)))
    roll(log)
    assert log.compact(NOW_MS)
    assert [(row.offset, row.key, row.value) for row in content(log)][:-1] == [
        (3, b"c", b"1"),
        (4, b"b", b"2"),
        (5, b"a", b"3"),
    ]
    assert log.log_start_offset == 0
    assert add(log, keyed(("next", "1"))).base_offset == 7
    assert content(log)[0].offset == 3


def test_a_batch_keeps_its_first_and_last_offset_and_all_else_of_its_header(make_log: MakeLog) -> None:
    log = make_log(**COMPACT)
    add(log, keyed(("a", "1"), ("b", "1"), ("c", "1"), ("d", "1")), epoch=3)
    before = next(log.batches()).header
    add(log, keyed(("a", "2"), ("d", "2")), epoch=3)
    roll(log)
    log.compact(NOW_MS)
    one = next(log.batches())
    check_crc(one.data, one.position, one.header)
    assert (one.header.base_offset, one.header.last_offset, one.header.record_count) == (0, 3, 2)
    for name in ("leader_epoch", "max_timestamp", "producer_id", "producer_epoch", "base_sequence", "attributes"):
        assert getattr(one.header, name) == getattr(before, name)
    assert [(row.offset, row.timestamp) for row in one.records()] == [(1, NOW_MS), (2, NOW_MS)]


def test_batches_of_which_nothing_changes_stay_as_they_are(make_log: MakeLog) -> None:
    log = make_log(**COMPACT)
    for number in range(6):
        add(log, keyed((f"k{number}", "v")))
    roll(log)
    before = [one.bytes for one in log.batches()]
    log.compact(NOW_MS, force=True)
    assert [one.bytes for one in log.batches()] == before


@pytest.mark.parametrize("codec", list(Codec))
def test_compressed_batches_are_compressed_again(make_log: MakeLog, codec: Codec) -> None:
    log = make_log(**COMPACT)
    rows = [Record(index, NOW_MS + index, b"k%d" % index, b"v", [("h", b"x")]) for index in range(4)]
    add(log, encode_batch(rows, codec=codec))
    add(log, keyed(("k1", "new"), ("k2", None)))
    roll(log)
    log.compact(NOW_MS)
    one = next(log.batches())
    check_crc(one.data, one.position, one.header)
    assert one.header.codec == codec
    assert [(row.offset, row.timestamp, row.key, row.headers) for row in one.records()] == [
        (0, NOW_MS, b"k0", [("h", b"x")]),
        (3, NOW_MS + 3, b"k3", [("h", b"x")]),
    ]


def test_a_tombstone_stays_for_delete_retention_after_the_first_pass(make_log: MakeLog) -> None:
    log = make_log(**COMPACT)
    add(log, keyed(("a", "1"), ("b", "1")))
    add(log, keyed(("a", None)))
    roll(log)
    log.compact(NOW_MS, force=True)
    kept = [one for one in log.batches() if any(row.value is None for row in one.records())]
    assert [one.header.delete_horizon_ms for one in kept] == [NOW_MS + 1000]
    assert [(row.offset, row.key, row.value, row.timestamp) for row in kept[0].records()] == [(2, b"a", None, NOW_MS)]
    log.compact(NOW_MS + 999, force=True)
    assert (b"a", None) in keys_and_values(log)
    log.compact(NOW_MS + 1000, force=True)
    assert (b"a", None) not in keys_and_values(log)
    assert b"b" in view(log)


def test_the_active_segment_and_what_is_young_or_uncommitted_is_left(make_log: MakeLog) -> None:
    log = make_log(**COMPACT, min_compaction_lag_ms=500)
    for number in range(12):
        add(log, keyed(("a", str(number)), timestamp_ms=NOW_MS + number * 100))
    bases = [segment.base_offset for segment in log.segments]
    assert not log.compact(NOW_MS, force=True)
    log.compact(NOW_MS + 1000, force=True)
    young = [row.offset for row in content(log) if row.timestamp > NOW_MS + 500]
    assert young == list(range(6, 12))
    log.config = log.config.with_settings({"min.compaction.lag.ms": 0})
    before = keys_and_values(log)
    log.compact(NOW_MS + 5000, high_watermark=1, force=True)
    assert keys_and_values(log) == before
    log.compact(NOW_MS + 5000, force=True)
    active = [row.offset for row in content(log) if row.offset >= bases[-1]]
    assert active == list(range(bases[-1], 12))


def test_a_pass_waits_until_enough_is_dirty_or_the_lag_is_over(make_log: MakeLog) -> None:
    log = make_log(**COMPACT, max_compaction_lag_ms=10_000)
    for number in range(20):
        add(log, keyed((f"k{number}", "v")))
    roll(log)
    assert log.compact(NOW_MS)
    assert not log.compact(NOW_MS)
    for number in range(4):
        add(log, keyed((f"k{number}", "new")))
    roll(log)
    assert not log.compact(NOW_MS)
    assert log.compact(NOW_MS + 10_001)


def test_neighbouring_segments_become_one(make_log: MakeLog) -> None:
    log = make_log(**COMPACT)
    for number in range(40):
        add(log, keyed((f"k{number % 4}", "v" * 40)))
    log.config = log.config.with_settings({"segment.bytes": 100_000})
    count = len(log.segments)
    assert count > 10
    log.compact(NOW_MS, force=True)
    assert len(log.segments) == 2
    assert len(view(log)) == 4


def test_records_without_a_key_go(make_log: MakeLog) -> None:
    log = make_log(segment_bytes=200)
    add(log, build_batch([(None, b"x"), (b"k", b"v")], NOW_MS))
    roll(log)
    log.config = log.config.with_settings({"cleanup.policy": "compact"})
    log.compact(NOW_MS, force=True)
    assert keys_and_values(log)[0] == (b"k", b"v")


def test_the_last_batch_of_a_producer_leaves_its_header(make_log: MakeLog) -> None:
    log = make_log(**COMPACT)
    for sequence in range(3):
        add(log, idempotent(sequence))
    add(log, keyed(("k", "other")))
    roll(log)
    log.compact(NOW_MS, force=True)
    one = next(log.batches())
    assert (one.header.base_offset, one.header.record_count, one.header.base_sequence) == (2, 0, 2)
    check_crc(one.data, one.position, one.header)
    if log.directory is not None:
        log = PartitionLog(log.directory, log.config)
    assert add(log, idempotent(2)).duplicate
    with pytest.raises(OutOfOrderSequence):
        add(log, idempotent(4))
    log.close()


def test_records_of_aborted_transactions_go_and_never_replace_others(make_log: MakeLog) -> None:
    log = make_log(**COMPACT)
    add(log, keyed(("a", "committed"), ("b", "old")))
    for producer_id, kind in ((5, ControlType.ABORT), (6, ControlType.COMMIT)):
        row = [(b"a" if kind == ControlType.ABORT else b"b", kind.name.encode())]
        add(
            log,
            build_batch(row, NOW_MS, producer_id=producer_id, producer_epoch=0, base_sequence=0, attributes=0x10),
            trusted=True,
        )
        add(log, control_batch(kind, NOW_MS, producer_id=producer_id, producer_epoch=0), trusted=True)
    roll(log)
    log.compact(NOW_MS, force=True)
    data = [(row.key, row.value) for one in log.batches() if not one.header.is_control for row in one.records()]
    assert data[:2] == [(b"a", b"committed"), (b"b", b"COMMIT")]
    assert sum(one.header.is_control for one in log.batches()) == 2


def test_an_open_transaction_stops_compaction_before_it(make_log: MakeLog) -> None:
    log = make_log(**COMPACT)
    add(log, build_batch([(b"a", b"1")], NOW_MS, producer_id=5, producer_epoch=0, attributes=0x10))
    for _ in range(5):
        add(log, keyed(("a", "2")))
    roll(log)
    assert not log.compact(NOW_MS, force=True)


def test_a_missing_codec_leaves_the_log_as_it_is_and_tells_once(
    make_log: MakeLog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    log = make_log(**COMPACT)
    add(log, encode_batch([Record(0, NOW_MS, b"k", b"1")], codec=Codec.ZSTD))
    add(log, keyed(("k", "2")))
    roll(log)
    before = [one.bytes for one in log.batches()]

    def missing(codec: Codec) -> None:
        raise compression.CodecUnavailable(f"{codec.name} needs a library")

    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
        patch.setattr(compression, "_library", missing)
        for _ in range(3):
            assert not log.compact(NOW_MS, force=True)
    assert [one.bytes for one in log.batches()] == before
    assert len(caplog.records) == 1
    assert log.compact(NOW_MS, force=True)


# ------------------------------------------------------------------------------------------------ against a model


PASSES = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.lists(st.tuples(st.integers(0, 6), st.integers(0, 99)), min_size=1, max_size=4)),
        st.tuples(st.just("remove"), st.integers(0, 6)),
        st.tuples(st.just("compact"), st.integers(0, 2000)),
        st.tuples(st.just("reopen"), st.just(0)),
    ),
    max_size=40,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=PASSES, on_disk=st.booleans())
def test_the_log_always_describes_the_same_table_as_a_dict(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, object]], on_disk: bool
) -> None:
    directory = tmp_path_factory.mktemp("log") / "t-0" if on_disk else None
    log = PartitionLog(directory, config(**COMPACT))
    table: dict[bytes, bytes] = {}
    now_ms, end = NOW_MS, 0
    for step, what in steps:
        if step == "put":
            assert isinstance(what, list)
            add(log, keyed(*((f"k{key}", str(value)) for key, value in what)), now_ms=now_ms)
            end += len(what)
            table.update({b"k%d" % key: b"%d" % value for key, value in what})
        elif step == "remove":
            add(log, keyed((f"k{what}", None)), now_ms=now_ms)
            end += 1
            table.pop(b"k%d" % what, None)  # type: ignore[str-bytes-safe]
        elif step == "compact":
            assert isinstance(what, int)
            now_ms += what
            log.compact(now_ms, force=True)
        elif on_disk:
            log.close()
            log = PartitionLog(directory, config(**COMPACT))
        assert view(log) == table
        assert log.log_end_offset == end
        found = [row.offset for row in content(log)]
        assert found == sorted(set(found))
    log.close()


# ------------------------------------------------------------------------------------------------ crashes


class Killed(BaseException):
    """The process ends here."""


class DyingFiles(FailingFiles):
    """Dies at call number `at` of those that change the disk."""

    at = -1

    def _call(self, name: str) -> None:
        super()._call(name)
        if name != "read":
            self.at -= 1
            if self.at == 0:
                raise Killed(name)


@pytest.mark.slow
def test_killed_at_any_step_of_a_pass_nothing_is_lost_and_the_next_pass_finishes_it(tmp_path: Path) -> None:
    origin = tmp_path / "origin-0"
    log = PartitionLog(origin, config(**COMPACT))
    for number in range(10):
        add(log, keyed((f"k{number % 3}", str(number)), (f"once{number}", "v")))
    add(log, keyed(("k1", None)))
    roll(log)
    expected = view(log)
    log.close()
    steps = 0
    for at in range(1, 1000):
        target = tmp_path / "copy-0"
        shutil.copytree(origin, target)
        files = DyingFiles()
        log = PartitionLog(target, config(**COMPACT), files=files)
        files.at = at
        try:
            log.compact(NOW_MS, force=True)
            steps = at
        except Killed:
            pass
        files.at = -1
        again = PartitionLog(target, config(**COMPACT))
        assert view(again) == expected, f"killed at call {at}"
        assert again.log_end_offset == log.log_end_offset
        again.compact(NOW_MS, force=True)
        assert view(again) == expected
        assert not [name for name in log_files(target) if name.endswith((".cleaned", ".swap", ".deleted", ".tmp"))]
        again.close()
        log.close()
        shutil.rmtree(target)
        if steps:
            break
    assert steps > 20


@pytest.mark.parametrize("call", ["write", "rename", "remove", "sync", "truncate"])
def test_a_disk_that_fails_during_a_pass_is_told_and_the_log_goes_on(tmp_path: Path, call: str) -> None:
    files = FailingFiles()
    log = PartitionLog(tmp_path / "t-0", config(**COMPACT), files=files)
    for number in range(30):
        add(log, keyed((f"k{number % 5}", str(number))))
    expected = view(log)
    files.failing = {call}
    with pytest.raises(KafkaStorageError):
        log.compact(NOW_MS, force=True)
    files.failing = set()
    assert view(log) == expected
    add(log, keyed(("k0", "after")))
    log.close()
    assert files.descriptors == set()
    again = PartitionLog(tmp_path / "t-0", config(**COMPACT))
    assert view(again) == expected | {b"k0": b"after"}
    again.close()


def test_where_compaction_had_come_to_is_remembered(tmp_path: Path) -> None:
    log = PartitionLog(tmp_path / "t-0", config(**COMPACT))
    for number in range(20):
        add(log, keyed((f"k{number}", "v")))
    assert log.compact(NOW_MS)
    text = (tmp_path / "cleaner-offset-checkpoint").read_text()
    assert text == f"0\n1\nt 0 {log.segments[-1].base_offset}\n"
    log.close()
    again = PartitionLog(tmp_path / "t-0", config(**COMPACT))
    assert not again.compact(NOW_MS)
    again.close()


def test_a_log_that_compacts_and_deletes_does_both(make_log: MakeLog) -> None:
    log = make_log(**COMPACT | {"cleanup_policy": "compact,delete", "retention_ms": 1000})
    for number in range(30):
        add(log, keyed((f"k{number % 3}", str(number)), timestamp_ms=NOW_MS + number * 100))
    log.compact(NOW_MS, force=True)
    assert len(view(log)) == 3
    assert log.apply_retention(NOW_MS + 3000) > 0
    assert log.log_start_offset > 0
    assert batch("x")


def test_appends_come_between_the_pieces_of_a_pass_and_a_truncation_ends_it(make_log: MakeLog) -> None:
    log = make_log(**COMPACT)
    for number in range(12):
        add(log, keyed((f"k{number % 3}", str(number))))
    job = log.compacting(NOW_MS, Pace(1))
    for _ in range(3):
        next(job)
        add(log, keyed(("more", "v")))
    assert len(list(job)) > 3
    assert view(log) == {b"k0": b"9", b"k1": b"10", b"k2": b"11", b"more": b"v"}
    assert [row.offset for row in content(log)][-3:] == [12, 13, 14]

    for cut in range(1, 30):
        for number in range(12):
            add(log, keyed((f"k{number % 3}", str(number))))
        end = log.log_end_offset
        job = log.compacting(NOW_MS, Pace(1), force=True)
        for _ in range(cut):
            next(job, None)
        before = keys_and_values(log)
        log.truncate_to(end - 1)
        assert list(job) == []
        assert keys_and_values(log) == before[:-1]
        assert log.directory is None or not [name for name in log_files(log.directory) if "cleaned" in name]
        log.delete_records(end - 8)
    log.compact(NOW_MS, force=True)
    assert view(log) == {b"k0": b"9", b"k1": b"10", b"k2": b"8"}
