"""Any damage to any file of a log directory: the log opens, tells, serves what still reads, and takes appends."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker_sim.storage import CorruptLog, PartitionLog, StorageError
from kafka_wire.errors import Err
from kafka_wire.record_batch import check_crc
from tests.storage.batches import NOW_MS, add, batch, config, fill, idempotent, values

SETTINGS = config(segment_bytes=3000, index_interval_bytes=300)


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A data directory with one log of several segments, indexes, snapshots and epochs."""
    data_dir = tmp_path_factory.mktemp("damage")
    log = PartitionLog(data_dir / "t-0", SETTINGS)
    for epoch in range(4):
        for number in range(15):
            add(log, idempotent(15 * epoch + number, timestamp_ms=NOW_MS + log.log_end_offset), epoch=epoch)
        fill(log, 10, step_ms=1)
    log.delete_records(7)
    log.close()
    yield data_dir
    shutil.rmtree(data_dir)


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_log_with_any_damage_opens_and_goes_on(
    origin: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    data_dir = tmp_path_factory.mktemp("copy") / "data"
    shutil.copytree(origin, data_dir)
    paths = sorted(path for path in data_dir.rglob("*") if path.is_file())
    for _ in range(data.draw(st.integers(1, 4))):
        damage(data.draw(st.sampled_from(paths)), data)
    log = PartitionLog(data_dir / "t-0", SETTINGS)
    step = max((log.log_end_offset - log.log_start_offset) // 15, 1)  # offsets are not under the checksum: may be far
    for offset in range(log.log_start_offset, log.log_end_offset, step):
        try_to(lambda at=offset: log.read(at, 500))  # type: ignore[misc]
        try_to(lambda at=offset: log.offset_for_timestamp(NOW_MS + at))  # type: ignore[misc]
    try_to(lambda: log.max_timestamp())
    end = log.log_end_offset
    assert add(log, batch("on"), epoch=9).base_offset == end
    log.close()
    again = PartitionLog(data_dir / "t-0", SETTINGS)
    assert again.log_end_offset == end + 1
    assert again.read(end, 1000)
    again.close()
    shutil.rmtree(data_dir)


def damage(path: Path, data: st.DataObject) -> None:
    old = path.read_bytes() if path.exists() else b""
    kind = data.draw(st.sampled_from(["flip", "cut", "zeros", "append", "remove"]))
    at = data.draw(st.integers(0, max(len(old) - 1, 0)))
    if kind == "flip":
        path.write_bytes(old[:at] + bytes([data.draw(st.integers(0, 255))]) + old[at + 1 :])
    elif kind == "cut":
        path.write_bytes(old[:at])
    elif kind == "zeros":
        path.write_bytes(old[:at] + bytes(len(old) - at))
    elif kind == "append":
        path.write_bytes(old + data.draw(st.binary(max_size=100)))
    else:
        path.unlink(missing_ok=True)


def try_to(call: object) -> None:
    """Damage inside a finished segment may be met on reading: then it is told, and as nothing else."""
    assert callable(call)
    try:
        call()
    except StorageError as error:
        assert error.error in (Err.CORRUPT_MESSAGE, Err.OFFSET_OUT_OF_RANGE)  # noqa: PT017


def test_damage_inside_a_finished_segment_is_told_on_reading_and_the_rest_is_served(
    origin: Path, tmp_path: Path
) -> None:
    shutil.copytree(origin, tmp_path / "data")
    path = sorted((tmp_path / "data" / "t-0").glob("*.log"))[1]
    raw = bytearray(path.read_bytes())
    raw[8:12] = bytes(4)  # the first batch's length: nothing after it in this segment can be found without the index
    path.write_bytes(raw)
    log = PartitionLog(tmp_path / "data" / "t-0", SETTINGS)
    base = int(path.stem)
    with pytest.raises(CorruptLog) as caught:
        list(log.batches(base))
    assert caught.value.error == Err.CORRUPT_MESSAGE
    later = log.segments[2].base_offset
    for one in log.batches(later):
        check_crc(one.data, one.position, one.header)
    assert [one.header.base_offset for one in log.batches(later)][-1] == log.log_end_offset - 1
    log.close()


def test_without_snapshots_damage_in_the_middle_is_found_at_open(
    origin: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.copytree(origin, tmp_path / "data")
    directory = tmp_path / "data" / "t-0"
    for path in directory.glob("*.snapshot"):
        path.unlink()
    victim = sorted(directory.glob("*.log"))[1]
    raw = bytearray(victim.read_bytes())
    raw[400] ^= 0xFF
    victim.write_bytes(raw)
    log = PartitionLog(directory, SETTINGS)
    assert "stored crc" in caplog.text
    assert ".damaged" in caplog.text
    assert log.log_end_offset == 100
    assert 50 < len(values(log)) < 93
    log.close()


def test_a_segment_that_cannot_be_indexed_is_told_at_every_read_and_not_shortened(origin: Path, tmp_path: Path) -> None:
    shutil.copytree(origin, tmp_path / "data")
    directory = tmp_path / "data" / "t-0"
    victim = sorted(directory.glob("*.log"))[1]
    raw = bytearray(victim.read_bytes())
    raw[16] = 9  # the magic of its first batch
    victim.write_bytes(raw)
    index = victim.with_suffix(".index")
    entries = index.read_bytes()
    index.write_bytes(entries[8:16] + entries[:8] + entries[16:])  # out of order but for the last: seen when it is used
    log = PartitionLog(directory, SETTINGS)
    size = log.size_bytes
    for _ in range(3):
        with pytest.raises(CorruptLog):
            log.read(int(victim.stem) + 3, 1000)
        assert log.size_bytes == size
    log.close()
