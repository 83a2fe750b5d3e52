"""Idempotent producers: resends are recognised, gaps and old epochs refused, at every restart too."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_sim.storage import InvalidProducerEpoch, OutOfOrderSequence, PartitionLog
from broker_sim.storage.producer_state import ProducerState, decode_snapshot, encode_snapshot
from kafka_wire.errors import Err
from kafka_wire.record_batch import MAX_SEQUENCE
from tests.storage.batches import NOW_MS, add, batch, config, idempotent, values
from tests.storage.conftest import MakeLog


def test_a_resend_of_one_of_the_last_five_batches_gets_its_offsets_again(make_log: MakeLog) -> None:
    log = make_log()
    for sequence in range(0, 14, 2):
        add(log, idempotent(sequence, 2, timestamp_ms=NOW_MS + sequence))
    for sequence in range(4, 14, 2):
        info = add(log, idempotent(sequence, 2))
        assert info[:3] == (sequence, sequence + 1, NOW_MS + sequence)
        assert info.duplicate
    assert log.log_end_offset == 14
    with pytest.raises(OutOfOrderSequence):
        add(log, idempotent(2, 2))


def test_a_gap_or_a_repeated_part_is_out_of_order(make_log: MakeLog) -> None:
    log = make_log()
    add(log, idempotent(0, 3))
    for sequence in (1, 2, 4, 100):
        with pytest.raises(OutOfOrderSequence) as caught:
            add(log, idempotent(sequence))
        assert caught.value.error == Err.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert add(log, idempotent(3)).base_offset == 3


def test_a_new_epoch_begins_at_zero_and_fences_the_old_one(make_log: MakeLog) -> None:
    log = make_log()
    add(log, idempotent(0, 3))
    with pytest.raises(OutOfOrderSequence):
        add(log, idempotent(3, epoch=1))
    add(log, idempotent(0, epoch=1))
    with pytest.raises(InvalidProducerEpoch) as caught:
        add(log, idempotent(3, epoch=0))
    assert caught.value.error == Err.INVALID_PRODUCER_EPOCH
    assert log.log_end_offset == 4


def test_an_unknown_producer_may_begin_anywhere(make_log: MakeLog) -> None:
    log = make_log()
    assert add(log, idempotent(500)).base_offset == 0
    with pytest.raises(OutOfOrderSequence):
        add(log, idempotent(502))


def test_an_expired_producer_is_unknown(make_log: MakeLog) -> None:
    log = make_log()
    add(log, idempotent(0))
    log.producers.expire(NOW_MS + 999, 1000)
    with pytest.raises(OutOfOrderSequence):
        add(log, idempotent(7))
    log.producers.expire(NOW_MS + 1000, 1000)
    assert add(log, idempotent(7)).base_offset == 1


def test_sequence_numbers_wrap_to_zero(make_log: MakeLog) -> None:
    log = make_log()
    add(log, idempotent(MAX_SEQUENCE - 1))
    add(log, idempotent(MAX_SEQUENCE, 3))
    assert add(log, idempotent(2)).base_offset == 4
    assert add(log, idempotent(MAX_SEQUENCE, 3)).duplicate


def test_producers_do_not_disturb_each_other_nor_batches_without_one(make_log: MakeLog) -> None:
    log = make_log()
    for producer_id in (1, 2):
        add(log, idempotent(0, producer_id=producer_id))
        add(log, batch("plain"))
    for producer_id in (1, 2):
        add(log, idempotent(1, producer_id=producer_id))
    assert log.log_end_offset == 6


@pytest.mark.parametrize("segment_bytes", [150, 1_000_000])
def test_what_is_known_of_producers_survives_a_restart(tmp_path: Path, segment_bytes: int) -> None:
    settings = config(segment_bytes=segment_bytes)
    log = PartitionLog(tmp_path / "t-0", settings)
    for sequence in range(8):
        add(log, idempotent(sequence))
        add(log, idempotent(sequence, producer_id=8, epoch=3))
    log.close()
    again = PartitionLog(tmp_path / "t-0", settings)
    assert add(again, idempotent(7)).duplicate
    assert add(again, idempotent(7, producer_id=8, epoch=3)).duplicate
    with pytest.raises(OutOfOrderSequence):
        add(again, idempotent(9))
    assert add(again, idempotent(8)).base_offset == 16
    again.close()


def test_a_damaged_or_missing_snapshot_costs_a_scan_and_no_knowledge(tmp_path: Path) -> None:
    settings = config(segment_bytes=150)
    for harm in ("damage", "remove"):
        directory = tmp_path / f"{harm}-0"
        log = PartitionLog(directory, settings)
        for sequence in range(8):
            add(log, idempotent(sequence))
        log.close()
        for path in directory.glob("*.snapshot"):
            path.write_bytes(path.read_bytes()[:-1] + b"?") if harm == "damage" else path.unlink()
        again = PartitionLog(directory, settings)
        assert [len(entry.batches) for entry in again.producers.entries.values()] == [5]
        assert add(again, idempotent(4)).duplicate
        again.close()
        assert len(values(again)) == 8


def test_a_snapshot_tells_all_but_the_older_batches() -> None:
    log = PartitionLog(None)
    add(log, idempotent(0, 3))
    add(log, idempotent(0, producer_id=9, epoch=2))
    known = decode_snapshot(encode_snapshot(log.producers))
    assert known is not None
    entry = known.entries[7]
    assert (entry.epoch, entry.last_sequence, entry.last_offset, entry.last_timestamp) == (0, 2, 2, NOW_MS)
    assert list(entry.batches) == list(log.producers.entries[7].batches)
    assert known.entries[9].epoch == 2
    assert decode_snapshot(encode_snapshot(ProducerState())) is not None
    for junk in (b"", b"\0\1", encode_snapshot(log.producers)[:-1], b"\0\2" + encode_snapshot(log.producers)[2:]):
        assert decode_snapshot(junk) is None
