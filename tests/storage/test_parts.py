"""The small parts of a log by themselves: indexes, epochs, checkpoints, settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_sim.storage import LogConfig, PartitionLog
from broker_sim.storage.checkpoints import (
    CheckpointError,
    partition_of_dir,
    read_offsets,
    read_rows,
    write_row,
    write_rows,
)
from broker_sim.storage.epochs import EpochCache
from broker_sim.storage.index import OffsetIndex, TimeIndex
from tests.storage.batches import add, batch, fill


def test_an_offset_index_finds_the_entry_at_or_before() -> None:
    index = OffsetIndex()
    for offset, position in ((10, 5000), (20, 9000), (35, 14000)):
        index.append(offset, position)
    assert [index.lookup(offset) for offset in (0, 9, 10, 19, 20, 36, 1000)] == [0, 0, 5000, 5000, 9000, 14000, 14000]
    assert [index.boundary(position) for position in (0, 4999, 5000, 20_000)] == [0, 0, 5000, 14000]
    index.truncate(9000)
    assert (len(index), index.lookup(1000)) == (1, 5000)


def test_an_offset_index_is_read_from_a_preallocated_file() -> None:
    index = OffsetIndex()
    index.append(10, 5000)
    index.append(20, 9000)
    again = OffsetIndex()
    assert again.load(index.tail(0) + bytes(800), 10_000)
    assert list(again.offsets) == [10, 20]
    assert not again.load(index.tail(0), 9000)
    assert not again.load(index.tail(0)[:-1], 10_000)
    assert not again.load(index.tail(1) + index.tail(0), 10_000)


def test_a_time_index_finds_the_last_entry_before() -> None:
    index = TimeIndex()
    for timestamp, offset in ((100, 3), (100, 4), (90, 5), (200, 9), (-1, 12)):
        index.append(timestamp, offset)
    assert list(index.timestamps) == [100, 200]
    assert [index.lookup(timestamp) for timestamp in (0, 100, 101, 200, 201)] == [-1, -1, 3, 3, 9]
    again = TimeIndex()
    assert again.load(index.tail(0) + bytes(120), 9)
    assert list(again.offsets) == [3, 9]
    assert again.load(bytes(120), 9)
    assert len(again) == 0
    assert not again.load(index.tail(0), 8)
    assert not again.load(index.tail(0)[:-1], 9)
    index.truncate(9)
    assert len(index) == 1


def test_a_new_epoch_displaces_what_contradicts_it() -> None:
    changes: list[int] = []
    cache = EpochCache([(0, 0), (1, 10), (2, 20)], lambda: changes.append(1))
    cache.assign(2, 25)
    cache.assign(-1, 30)
    assert changes == []
    cache.assign(3, 15)
    assert cache.entries == [(0, 0), (1, 10), (3, 15)]
    cache.assign(2, 17)
    assert cache.entries == [(0, 0), (1, 10), (2, 17)]
    assert [cache.epoch_of(offset) for offset in (0, 9, 10, 16, 17, 99)] == [0, 0, 1, 1, 2, 2]
    assert EpochCache().epoch_of(0) == -1


def test_an_epoch_that_cannot_be_saved_did_not_begin() -> None:
    def fail() -> None:
        raise OSError("disk")

    cache = EpochCache([(0, 0)], fail)
    with pytest.raises(OSError, match="disk"):
        cache.assign(1, 5)
    assert (cache.entries, cache.latest) == ([(0, 0)], 0)


def test_checkpoints_are_kafkas_text(tmp_path: Path) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    assert read_rows(path) == []
    write_rows(path, [(0, 0), (3, 17)])
    assert path.read_text() == "0\n2\n0 0\n3 17\n"
    assert read_rows(path) == [["0", "0"], ["3", "17"]]
    for text in ("1\n0\n", "0\n1\n", "0\n", "x", "0\n2\n0 0\n"):
        path.write_text(text)
        with pytest.raises(CheckpointError):
            read_rows(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(CheckpointError):
        read_rows(path)


def test_a_row_of_a_shared_checkpoint_leaves_the_others(tmp_path: Path) -> None:
    for name, offset in (("a-0", 5), ("b-c-1", 7), ("a-0", 6), ("b-c-1", None), ("nothing", 3), ("a-0", 6)):
        write_row(tmp_path / name, "some-checkpoint", offset)
    assert read_offsets(tmp_path, "some-checkpoint") == {("a", 0): 6}
    (tmp_path / "some-checkpoint").write_text("0\n1\na b c d\n")
    with pytest.raises(CheckpointError):
        read_offsets(tmp_path, "some-checkpoint")
    write_row(tmp_path / "a-0", "some-checkpoint", 1)
    assert read_offsets(tmp_path, "some-checkpoint") == {("a", 0): 1}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("t-0", ("t", 0)),
        ("a-b-12", ("a-b", 12)),
        ("__consumer_offsets-49", ("__consumer_offsets", 49)),
        ("t", None),
        ("-1", None),
        ("t-", None),
        ("t-x", None),
        ("t-0.0123456789abcdef-delete", None),
    ],
)
def test_log_directories_are_told_by_their_names(name: str, expected: tuple[str, int] | None) -> None:
    assert partition_of_dir(name) == expected


def test_settings_are_read_under_kafkas_names_typed_or_as_text() -> None:
    settings = LogConfig.of(
        {
            "cleanup.policy": "compact, delete",
            "segment.bytes": "1000",
            "retention.ms": -1,
            "min.cleanable.dirty.ratio": "0.25",
            "release": (3, 4),
            "unclean.leader.election.enable": "false",
            "segment.ms": None,
        }
    )
    assert settings.cleanup_policy == {"compact", "delete"}
    assert settings.compacts
    assert settings.deletes
    assert (settings.segment_bytes, settings.retention_ms, settings.min_cleanable_dirty_ratio) == (1000, -1, 0.25)
    assert settings.release == (3, 4)
    assert settings.segment_ms == LogConfig().segment_ms
    assert LogConfig.of({"cleanup.policy": ["delete"]}) == LogConfig()
    with pytest.raises(ValueError, match="invalid literal"):
        LogConfig.of({"segment.bytes": "many"})


def test_a_log_that_is_deleted_leaves_nothing(tmp_path: Path) -> None:
    log = PartitionLog(tmp_path / "t-0")
    add(log, batch("a"))
    log.delete()
    assert not (tmp_path / "t-0").exists()
    memory = PartitionLog(None)
    memory.flush()
    memory.delete()


def test_a_deleted_log_in_memory_lets_go_of_its_batches_at_once() -> None:
    """Topic, partition and log hold each other: a collector that comes rarely would keep every deleted topic."""
    log = PartitionLog(None)
    fill(log, 3)
    segment = log.segments[0]
    log.delete()
    assert list(segment.batches()) == []
