"""Transactions in a log: where readers stop, what they are told to pass over, and that a restart changes nothing of it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_sim.simulation.virtual.disk import ProcessKilled, SimDisk
from broker_sim.storage import InvalidProducerEpoch, LogConfig, Origin, PartitionLog, recovery
from broker_sim.storage.errors import InvalidTransactionState, StorageError, TransactionCoordinatorFenced
from broker_sim.storage.producer_state import decode_snapshot, encode_snapshot
from broker_sim.storage.recovery import logger
from broker_sim.storage.transactions import ENTRY, AbortedTransaction, decode_entries, encode_entries
from kafka_wire.control_records import control_record
from kafka_wire.end_markers import BatchProducer, marker_of
from kafka_wire.errors import Err
from kafka_wire.record_batch import ControlType, build_batch, control_batch, parse_header, record_bodies
from tests.storage.batches import NOW_MS, add, batch, config, idempotent
from tests.storage.conftest import MakeLog
from tests.storage.transactions import end, known, read_committed, stable_offset, write


@pytest.mark.parametrize("seed", range(40))
def test_a_batch_of_encoded_records_is_that_batch(make_log: MakeLog, seed: int) -> None:
    """`append_records` beside `append` of the broker's own batches: the same log, the same producers, the same refusals."""
    rng = random.Random(seed)
    settings = {
        "segment_bytes": rng.choice([400, 1 << 20]),
        "max_message_bytes": rng.choice([130, 1 << 20]),
        "message_timestamp_type": rng.choice(["CreateTime"] * 4 + ["LogAppendTime"]),
    }
    whole, encoded = make_log(**settings), make_log(**settings)
    for step in range(60):
        now_ms, sequence = NOW_MS + step, rng.choice([-1, 0])
        pairs: list[tuple[bytes | None, bytes | None]] = [
            (b"k", b"v" * rng.randrange(30)) for _ in range(rng.randint(1, 4))
        ]
        within, attributes = None, 0
        if rng.random() < 0.8:
            within, attributes = BatchProducer(rng.randrange(3), rng.randrange(2)), 0x10
            if rng.random() < 0.4:
                pairs = [control_record(rng.choice(list(ControlType)), rng.randrange(2))]
                within, attributes = replace(within, marker=marker_of(*pairs[0])), 0x30
        who = {} if within is None else {"producer_id": within.producer_id, "producer_epoch": within.epoch}
        batch_ = build_batch(pairs, now_ms, base_sequence=sequence, attributes=attributes, **who)

        def given(batch_: bytes = batch_, now_ms: int = now_ms) -> int:
            info = whole.append(batch_, leader_epoch=3, now_ms=now_ms, origin=Origin.COORDINATOR)
            return info.last_offset

        def taken(
            pairs: list[tuple[bytes | None, bytes | None]] = pairs,
            now_ms: int = now_ms,
            sequence: int = sequence,
            within: BatchProducer | None = within,
            size: int = len(batch_),
        ) -> int:
            last_offset, bytes_ = encoded.append_records(record_bodies(pairs), len(pairs), 3, now_ms, sequence, within)
            assert bytes_ == size
            return last_offset

        assert _outcome(whole, given) == _outcome(encoded, taken)
    assert len(whole.segments) == len(encoded.segments)
    assert whole.read(0, 1 << 20) == encoded.read(0, 1 << 20)
    assert known(whole) == known(encoded)


def _outcome(log: PartitionLog, append: Callable[[], int]) -> int | str:
    try:
        return append()
    except StorageError as error:
        return f"{type(error).__name__}: {error}".replace(log.name, "")


def values(log: PartitionLog, **how: int) -> list[str]:
    return [(row.value or b"").decode() for row in read_committed(log, **how)]


def test_a_reader_stops_before_the_earliest_open_transaction(make_log: MakeLog) -> None:
    log = make_log()
    add(log, batch("before"))
    write(log, 1, "a")
    write(log, 2, "b")
    add(log, batch("between"))
    assert stable_offset(log) == 1
    end(log, 1, commit=True)
    assert stable_offset(log) == 2
    assert values(log) == ["before", "a"]
    end(log, 2, commit=True)
    assert stable_offset(log) == log.log_end_offset == 6
    assert values(log) == ["before", "a", "b", "between"]


def test_what_was_aborted_is_told_while_others_are_open_too(make_log: MakeLog) -> None:
    log = make_log()
    write(log, 3, "open")
    write(log, 1, "a", "b")
    end(log, 1, commit=False)
    write(log, 1, "c", sequence=2)
    end(log, 1, commit=True)
    assert log.ended.aborted == [AbortedTransaction(1, 1, 3, 0)]
    end(log, 3, commit=False)
    assert log.ended.aborted[1] == AbortedTransaction(3, 0, 6, 7)
    assert values(log) == ["c"]
    assert [one.producer_id for one in log.ended.overlapping(0, 1)] == [3]
    assert [one.producer_id for one in log.ended.overlapping(4, 9)] == [3]
    assert [one.producer_id for one in log.ended.overlapping(3, 9)] == [1, 3]


def test_a_transaction_goes_on_over_batches_and_segments(make_log: MakeLog) -> None:
    log = make_log(segment_bytes=200)
    for number in range(6):
        write(log, 1, f"x{number}", sequence=number)
        add(log, batch(f"plain{number}"))
    end(log, 1, commit=False)
    assert len(log.segments) > 3
    assert values(log) == [f"plain{number}" for number in range(6)]
    assert values(log, max_bytes=100) == [f"plain{number}" for number in range(6)]


def test_a_marker_of_an_earlier_producer_or_coordinator_is_refused(make_log: MakeLog) -> None:
    log = make_log()
    write(log, 1, "a", epoch=4)
    with pytest.raises(InvalidProducerEpoch) as old:
        end(log, 1, commit=True, epoch=3)
    assert old.value.error == Err.INVALID_PRODUCER_EPOCH
    end(log, 1, commit=False, epoch=5, coordinator_epoch=7)
    with pytest.raises(TransactionCoordinatorFenced) as zombie:
        end(log, 1, commit=False, epoch=5, coordinator_epoch=6)
    assert zombie.value.error == Err.TRANSACTION_COORDINATOR_FENCED
    assert end(log, 1, commit=False, epoch=5, coordinator_epoch=7) == 2  # one without a transaction is written, too
    assert [one.last_offset for one in log.ended.aborted] == [1]
    with pytest.raises(InvalidProducerEpoch):
        write(log, 1, "zombie", epoch=4, sequence=1)
    assert write(log, 1, "b", epoch=5) == 3


def test_a_producer_writes_nothing_beside_its_open_transaction(make_log: MakeLog) -> None:
    log = make_log()
    write(log, 1, "a")
    with pytest.raises(InvalidTransactionState) as refused:
        add(log, idempotent(1, producer_id=1))
    assert refused.value.error == Err.INVALID_TXN_STATE
    end(log, 1, commit=True)
    add(log, idempotent(1, producer_id=1))


def test_a_batch_without_a_producer_is_in_no_transaction(make_log: MakeLog) -> None:
    log = make_log()
    add(log, build_batch([(b"k", b"v")], NOW_MS, producer_id=-1, producer_epoch=-1, base_sequence=-1, attributes=0x10))
    assert stable_offset(log) == 1


def test_nothing_overtakes_a_batch_about_which_the_coordinator_is_asked(make_log: MakeLog) -> None:
    log = make_log()
    log.producers.verify(1, 0, 0, adds=False)
    with pytest.raises(Exception, match="earliest seen sequence"):
        write(log, 1, "b", sequence=1)
    assert not log.producers.has_open(1, 0)
    write(log, 1, "a")
    assert log.producers.has_open(1, 0)
    assert not log.producers.has_open(1, 1)
    write(log, 1, "b", sequence=1)


def test_a_batch_of_a_later_epoch_takes_the_place_of_an_earlier_one_that_is_held_back(make_log: MakeLog) -> None:
    """Measured on 4.1.0 and 4.4.0, with Produce v3, v6 and v13: whether a version adds the partition or not."""
    log = make_log()
    for adds in (False, True):
        log.producers.verifying.clear()
        log.producers.verify(1, 0, 0, adds=adds)
        log.producers.verify(1, 1, 1, adds=not adds)
        log.producers.verify(1, 1, 4, adds=True)
        assert log.producers.verifying[1].lowest_sequence == 1


@pytest.mark.parametrize(("epoch", "is_taken"), [(-32768, False), (-2, False), (-1, True), (0, True)])
def test_a_producer_that_is_not_known_has_no_epoch_below_none(make_log: MakeLog, epoch: int, is_taken: bool) -> None:
    """Measured on 3.4.0, 4.1.0 and 4.4.0."""
    log = make_log()
    header = parse_header(idempotent(0, epoch=max(epoch, 0)))._replace(producer_epoch=epoch)
    if is_taken:
        assert log.producers.check(header) is None
        return
    with pytest.raises(InvalidProducerEpoch):
        log.producers.check(header)


def test_a_marker_ends_the_question_that_a_refused_batch_has_left(make_log: MakeLog) -> None:
    """A batch of a later epoch was refused by the coordinator; the next transaction goes on with its sequence all the same."""
    log = make_log()
    write(log, 1, "a")
    log.producers.verify(1, 1, 0, adds=False)
    end(log, 1, commit=True)
    write(log, 1, "b", sequence=1)


def test_the_snapshot_tells_of_open_transactions(make_log: MakeLog) -> None:
    log = make_log()
    write(log, 2, "b", own=True)
    write(log, 1, "a")
    end(log, 9, commit=True, epoch=3, coordinator_epoch=5)
    again = decode_snapshot(encode_snapshot(log.producers))
    assert again is not None
    assert list(again.open.items()) == [(2, 0), (1, 1)]
    assert again.entries[2].last_offset == 0
    assert again.entries[9].coordinator_epoch == 5
    assert encode_snapshot(again) == encode_snapshot(log.producers)


# --- files


def test_a_txnindex_stands_beside_a_segment_with_aborted_transactions_alone(tmp_path: Path) -> None:
    log = PartitionLog(tmp_path / "t-0", config(segment_bytes=10_000))
    write(log, 1, "a")
    end(log, 1, commit=True)
    assert not list((tmp_path / "t-0").glob("*.txnindex"))
    write(log, 1, "b", sequence=1)
    end(log, 1, commit=False)
    data = (tmp_path / "t-0" / f"{0:020d}.txnindex").read_bytes()
    assert data == bytes.fromhex("00000000000000000001000000000000000200000000000000030000000000000004")
    assert decode_entries(data, 0) == log.ended.aborted
    log.roll(NOW_MS)
    write(log, 1, "c", sequence=2)
    end(log, 1, commit=False)
    assert [path.name for path in sorted((tmp_path / "t-0").glob("*.txnindex"))] == [
        f"{0:020d}.txnindex",
        f"{4:020d}.txnindex",
    ]
    log.close()


@pytest.mark.parametrize("harm", ["cut", "version", "order", "remove the last", "nothing"])
def test_a_txnindex_that_can_not_be_right_is_made_anew_from_the_log(
    tmp_path: Path, harm: str, caplog: pytest.LogCaptureFixture
) -> None:
    directory, settings = tmp_path / "t-0", config(segment_bytes=400)
    log = PartitionLog(directory, settings)
    for number in range(12):
        write(log, number % 3, f"a{number}", sequence=number // 3)
        end(log, number % 3, commit=number % 4 == 0)
    before = known(log)
    log.close()
    files = sorted(directory.glob("*.txnindex"))
    assert len(files) > 3
    data = files[1].read_bytes()
    if harm == "cut":
        files[1].write_bytes(data[:-3])
    elif harm == "version":
        files[1].write_bytes(b"\x00\x09" + data[2:])
    elif harm == "order":
        files[1].write_bytes(data + data[: ENTRY.size])
    elif harm == "remove the last":
        files[-1].unlink()
    again = PartitionLog(directory, settings)
    assert known(again) == before
    again.close()
    assert files[1].read_bytes() == data
    assert ("is invalid" in caplog.text) == (harm in ("cut", "version", "order"))


def test_a_log_that_was_closed_knows_its_transactions_without_reading_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "LEFT_ACTIVE_BYTES", 1000)
    log = PartitionLog(tmp_path / "t-0", config(index_interval_bytes=300))
    for number in range(12):
        write(log, number % 3, f"a{number}", sequence=number // 3)
        end(log, number % 3, commit=number % 4 == 0)
    write(log, 5, "open")
    before = known(log)
    log.close()
    again = PartitionLog(tmp_path / "t-0", config(index_interval_bytes=300))
    assert len(again.segments) == 2
    assert known(again) == before
    end(again, 5, commit=True)
    again.close()


def test_entries_are_read_as_they_were_written() -> None:
    entries = [AbortedTransaction(7, 0, 5, 6), AbortedTransaction(2**40, 3, 9, 4)]
    assert decode_entries(encode_entries(entries), 0) == entries
    assert decode_entries(encode_entries(entries), 6) is None  # its first marker is before the segment
    assert decode_entries(encode_entries(entries), 0, next_offset=9) is None
    assert decode_entries(b"", 0) == []


def test_cutting_the_log_opens_a_transaction_again(make_log: MakeLog) -> None:
    log = make_log()
    write(log, 1, "a")
    end(log, 1, commit=False)
    log.truncate_to(1)
    assert (stable_offset(log), log.ended.aborted) == (0, [])
    end(log, 1, commit=True)
    assert values(log) == ["a"]


# --- any course of events


class Course:
    """Producers write and end transactions; a model knows what a reader must get."""

    def __init__(self, log: PartitionLog, rng: random.Random) -> None:
        self.log, self.rng = log, rng
        self.rows: list[tuple[int, str, list[bool | None]]] = []
        """Offset, value, and how its transaction ended: [None] as long as it is open, [True] for what is in none."""
        self.epochs = dict.fromkeys((1, 2, 3), 0)
        self.sequences = dict.fromkeys((1, 2, 3), 0)
        self.open: dict[int, list[bool | None]] = {}
        self.since: dict[int, int] = {}

    def step(self) -> None:
        draw, log, producer = self.rng.random(), self.log, self.rng.choice((1, 2, 3))
        if draw < 0.5:
            count = self.rng.choice((1, 1, 3))
            names = [f"v{log.log_end_offset + each}" for each in range(count)]
            at = write(log, producer, *names, epoch=self.epochs[producer], sequence=self.sequences[producer])
            self.sequences[producer] += count
            fate = self.open.setdefault(producer, [None])
            self.since.setdefault(producer, at)
            self.rows += [(at + each, name, fate) for each, name in enumerate(names)]
        elif draw < 0.65:
            at = add(log, batch(f"v{log.log_end_offset}")).base_offset
            self.rows.append((at, f"v{at}", [True]))
        elif draw < 0.95:
            commit = self.rng.random() < 0.5
            if self.rng.random() < 0.4:  # transaction version 2, or a fence
                self.epochs[producer] += 1
                self.sequences[producer] = 0
            end(log, producer, commit=commit, epoch=self.epochs[producer])
            self.since.pop(producer, None)
            self.open.pop(producer, [None])[0] = commit
        else:
            log.roll(NOW_MS)

    def stable(self) -> int:
        return min(self.since.values(), default=self.log.log_end_offset)

    def visible(self) -> list[str]:
        return [value for offset, value, fate in self.rows if fate[0] and offset < self.stable()]


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**9), in_memory=st.booleans(), segment_bytes=st.sampled_from((300, 900, 100_000)))
def test_readers_of_both_isolations_get_what_they_must(seed: int, in_memory: bool, segment_bytes: int) -> None:
    rng = random.Random(seed)
    disk = SimDisk(seed)
    settings_ = config(segment_bytes=segment_bytes, index_interval_bytes=rng.choice((0, 200, 4096)))
    path = Path("/data/t-0")
    disk.make_dir(path)
    course = Course(PartitionLog(None if in_memory else path, settings_, files=disk), rng)
    for _ in range(80):
        course.step()
        if rng.random() < 0.1:
            log = course.log
            assert stable_offset(log) == course.stable()
            assert values(log, max_bytes=rng.choice((1, 150, 500, 1 << 20))) == course.visible()
            everything = [row for one in log.batches() if not one.header.is_control for row in one.records()]
            assert [row.offset for row in everything] == [offset for offset, _, _ in course.rows]


def drawn(rng: random.Random, log: PartitionLog) -> tuple[bytes, bool]:
    """Some batch that may be appended to `log`, and whether it is the broker's own."""
    producer = rng.choice((1, 2, 3))
    entry = log.producers.entries.get(producer)
    epoch, sequence = (0, 0) if entry is None else (entry.epoch, entry.last_sequence + 1)
    draw, value = rng.random(), f"v{log.log_end_offset}".encode()
    if draw < 0.5:
        pairs = [(b"key%d" % rng.randrange(6), value)] * rng.choice((1, 1, 3))
        return build_batch(
            pairs, NOW_MS, producer_id=producer, producer_epoch=epoch, base_sequence=sequence, attributes=0x10
        ), False
    if draw < 0.65:
        return build_batch([(b"key%d" % rng.randrange(6), value)], NOW_MS), False
    kind = ControlType.COMMIT if rng.random() < 0.5 else ControlType.ABORT
    epoch += rng.random() < 0.4
    return control_batch(
        kind, NOW_MS, producer_id=producer, producer_epoch=epoch, coordinator_epoch=rng.choice((3, 3, 4))
    ), True


def twin_of(batches: list[tuple[bytes, bool]], log_config: LogConfig) -> PartitionLog:
    """A log in memory with all of these."""
    log = PartitionLog(None, log_config)
    for data, own in batches:
        add(log, data, trusted=own)
    return log


@pytest.mark.parametrize("seed", range(30))
def test_a_log_that_is_opened_after_a_kill_knows_what_one_does_that_never_was_killed(seed: int) -> None:
    """Kills happen in any call of the disk. A compacted log may have fewer aborted transactions, never others."""
    rng, disk, path = random.Random(f"{seed} kills"), SimDisk(seed), Path("/data/t-0")
    disk.make_dir(path)
    compacts = seed % 2 == 0
    log_config = config(
        segment_bytes=rng.choice((300, 700)),
        index_interval_bytes=0,
        cleanup_policy="compact" if compacts else "delete",
        min_cleanable_dirty_ratio=0.0,
        delete_retention_ms=rng.choice((0, 10)),
    )
    logger.disabled = True
    done: list[tuple[bytes, bool]] = []
    twin, live, now_ms = twin_of(done, log_config), PartitionLog(path, log_config, files=disk), NOW_MS
    try:
        for _ in range(10):
            disk.die_in(rng.randint(1, 80), lambda: None)
            try:
                while True:
                    now_ms += 5
                    if rng.random() < 0.1:
                        live.compact(now_ms, force=True) if compacts else live.roll(now_ms)
                        continue
                    try:
                        batch_, own = drawn(rng, twin)
                        add(twin, batch_, trusted=own)
                    except TransactionCoordinatorFenced:
                        continue
                    done.append((batch_, own))
                    add(live, batch_, trusted=own)
            except ProcessKilled:
                disk = disk.killed()
                live = PartitionLog(path, log_config, files=disk)
            if live.log_end_offset < twin.log_end_offset:  # what it died in has not happened
                done.pop()
                twin = twin_of(done, log_config)
            *wanted, aborted, stable = known(twin)
            *got, told, stops = known(live)
            assert (got, stops) == (wanted, stable)
            assert told == aborted if not compacts else set(told) <= set(aborted)  # type: ignore[call-overload]
            visible = [row.offset for row in read_committed(twin)]
            shown = [row.offset for row in read_committed(live)]
            assert shown == visible if not compacts else set(shown) <= set(visible)
            if compacts:
                latest = {row.key: row.value for row in read_committed(twin)}
                assert {row.key: row.value for row in read_committed(live)} == latest
    finally:
        logger.disabled = False
