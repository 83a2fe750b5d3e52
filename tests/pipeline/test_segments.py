"""Segment files: all that is good is read, in order and once; what isn't is told with file, position and reason."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_sim.common.text import UsageError
from broker_sim.pipeline import record_places, segments
from broker_sim.pipeline.offset_columns import decode
from broker_sim.pipeline.segments import Skipped, next_offset, read_offsets, segments_of
from kafka_wire.record_batch import Codec, ControlType, control_batch
from tests.importing.logs import NOW_MS, batch_of, commit, group_of, write_log

OFFSETS = "__consumer_offsets"


def batch(at: int, count: int = 3, **options: Any) -> bytes:
    """Commits whose offsets are those of the log."""
    return batch_of([commit("g", "t", at + n, at + n) for n in range(count)], at, **options)


def log(directory: Path, *files: tuple[int, bytes]) -> str:
    return str(write_log(directory, OFFSETS, 3, *files))


def read(folder: str, **options: Any) -> tuple[list[int], list[Skipped]]:
    """The log offsets that were read, and what was skipped (files by their names alone)."""
    skipped: list[Skipped] = []
    found = [
        offset
        for rows in read_offsets(folder, skipped=skipped.append, **options)
        for offset in rows["log_offset"].to_pylist()
    ]
    return found, [one._replace(file=Path(one.file).name) for one in skipped]


# ------------------------------------------------------------------------------------------------ good logs


def test_a_log_of_several_segments(tmp_path: Path) -> None:
    folder = log(tmp_path, (0, batch(0) + batch(3)), (6, batch(6)), (9, b""))
    assert read(folder) == (list(range(9)), [])
    (first, *_) = read_offsets(folder, run_id="monday")
    assert set(first["run_id"].to_pylist()) == {"monday"}
    assert set(first["log_partition"].to_pylist()) == {3}
    assert first["segment"].to_pylist() == [0] * 6
    assert first["position"].to_pylist() == [0] * 3 + [len(batch(0))] * 3
    assert first["committed_offset"].to_pylist() == first["log_offset"].to_pylist()


@pytest.mark.parametrize("codec", list(Codec))
def test_every_codec(codec: Codec, tmp_path: Path) -> None:
    assert read(log(tmp_path, (0, batch(0, 40, codec=codec) + batch(40)))) == (list(range(43)), [])


def test_records_after_compaction(tmp_path: Path) -> None:
    """Gaps between and within batches, batches without records, delete horizons."""
    emptied = batch_of([], 200, last_offset=250)
    horizon = batch_of([commit("g", "t", 0, None)], 251, delete_horizon_ms=NOW_MS)
    folder = log(tmp_path, (0, batch(100) + emptied + horizon), (900, batch(1000) + batch(5000)))
    offsets, skipped = read(folder)
    assert offsets == [100, 101, 102, 251, 1000, 1001, 1002, 5000, 5001, 5002]
    assert skipped == []


def test_a_range_of_offsets(tmp_path: Path) -> None:
    folder = log(tmp_path, (0, batch(0, 5) + batch(5, 5)), (10, batch(10, 5)))
    everything = range(15)
    for start in everything:
        for end in range(start, 17):
            assert read(folder, start=start, end=end)[0] == list(everything[start:end])
    assert read(folder, start=99)[0] == []


def test_small_pieces_give_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"".join(batch(at, 1 + at % 7) for at in range(0, 400, 7))
    folder = log(tmp_path, (0, data + b"torn"))
    whole = read(folder)
    for size in (61, 64, 100, 1000):
        monkeypatch.setattr(segments, "PIECE_BYTES", size)
        assert read(folder) == whole


def test_no_more_than_a_piece_is_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def watched(piece: Any, wanted: Any) -> Any:
        sizes.append(len(piece.data))
        return decode(piece, wanted)

    monkeypatch.setattr(segments, "decode", watched)
    monkeypatch.setattr(segments, "PIECE_BYTES", 4096)
    folder = log(tmp_path, (0, b"".join(batch(at) for at in range(0, 3000, 3))))
    assert len(read(folder)[0]) == 3000
    assert max(sizes) <= 4096
    assert len(sizes) >= 50


def test_compressed_batches_are_unpacked_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []

    def watched(piece: Any, wanted: Any) -> Any:
        counts.append(len(piece.at))
        return decode(piece, wanted)

    monkeypatch.setattr(segments, "decode", watched)
    monkeypatch.setattr(record_places, "PACKED_BYTES", 1000)
    packed = b"".join(batch(at, 10, codec=Codec.ZSTD) for at in range(0, 1000, 10))
    folder = log(tmp_path, (0, packed), (1000, batch(1000)))
    assert read(folder) == (list(range(1003)), [])
    assert len(counts) > 10
    assert max(counts) <= 1000 // len(batch(0, 10, codec=Codec.ZSTD)) + 1


def test_groups_and_markers_are_in_their_places(tmp_path: Path) -> None:
    marker = control_batch(ControlType.COMMIT, NOW_MS, producer_id=1, producer_epoch=0, base_offset=4)
    mixed = batch_of([commit("g", "t", 0, 1), group_of("g", 1), commit("g", "t", 0, 2), (b"\0\x63", b"")], 0)
    (rows,) = read_offsets(log(tmp_path, (0, mixed + marker)))
    assert rows["kind"].to_pylist() == ["commit", "group", "commit", "other", "txn_commit"]


# ------------------------------------------------------------------------------------------------ files of a log


def names(folder: str) -> list[str]:
    return [Path(segment.path).name for segment in segments_of(folder)]


def test_leftovers_of_cleaning_are_nothing(tmp_path: Path) -> None:
    folder = log(tmp_path, (0, batch(0)), (3, batch(3)))
    for name in (
        "00000000000000000000.log.deleted",
        "00000000000000000003.log.cleaned",
        "00000000000000000000.snapshot",
    ):
        (Path(folder) / name).write_bytes(batch(0))
    (Path(folder) / "notes.log").write_bytes(b"mine")
    assert names(folder) == [f"{0:020d}.log", f"{3:020d}.log"]
    assert read(folder) == (list(range(6)), [])


def test_a_swap_file_replaces_its_segments(tmp_path: Path) -> None:
    """A crash, or a copy in the wrong moment: the old segments may be there still, or gone already."""
    folder = log(tmp_path, (0, batch(0)), (3, batch(3)), (6, batch(6)))
    cleaned = batch(1, 1) + batch(4, 2)
    (Path(folder) / f"{0:020d}.log.swap").write_bytes(cleaned)
    expected = [1, 4, 5, 6, 7, 8]
    assert read(folder) == (expected, [])
    (Path(folder) / f"{0:020d}.log").unlink()
    assert read(folder) == (expected, [])
    (Path(folder) / f"{3:020d}.log").unlink()
    assert read(folder) == (expected, [])


def test_the_swap_of_a_split_that_was_not_finished_is_nothing(tmp_path: Path) -> None:
    folder = log(tmp_path, (0, batch(0) + batch(3)))
    (Path(folder) / f"{3:020d}.log.swap").write_bytes(batch(3))
    (Path(folder) / f"{0:020d}.log.cleaned").write_bytes(batch(0))
    assert names(folder) == [f"{0:020d}.log"]


def test_offsets_that_two_segments_have_are_read_once(tmp_path: Path) -> None:
    folder = log(tmp_path, (0, batch(0) + batch(3) + batch(6)), (3, batch(3) + batch(6)))
    assert read(folder) == (list(range(9)), [])


def test_a_segment_that_is_deleted_while_it_is_read(tmp_path: Path) -> None:
    """The cleaner puts one for two: the rest is found in the new one."""
    folder = log(tmp_path, (0, batch(0)), (3, batch(3)), (6, batch(6)))
    reading = read_offsets(folder)
    found = next(reading)["log_offset"].to_pylist()
    (Path(folder) / f"{3:020d}.log").unlink()
    (Path(folder) / f"{0:020d}.log").unlink()
    (Path(folder) / f"{0:020d}.log").write_bytes(batch(1, 1) + batch(4, 1))
    found += [offset for rows in reading for offset in rows["log_offset"].to_pylist()]
    assert found == [0, 1, 2, 4, 6, 7, 8]


def test_a_swap_that_gets_its_name_while_the_folder_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(log(tmp_path, (3, batch(3))))
    swap = folder / f"{0:020d}.log.swap"
    swap.write_bytes(batch(0))

    def renamed(segment: Any) -> Any:
        swap.rename(folder / f"{0:020d}.log")
        return next_offset(segment)

    monkeypatch.setattr(segments, "next_offset", renamed)
    assert names(str(folder)) == [f"{0:020d}.log", f"{3:020d}.log"]


@pytest.mark.parametrize("name", ["orders-3", "elsewhere"])
def test_a_folder_of_something_else_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(UsageError, match=r"orders, not of __consumer_offsets|its name is not that of a partition"):
        list(read_offsets(str(tmp_path / name)))


class Refusing(segments.Source):
    """Source whose second segment belongs to another user."""

    def __init__(self, name: str) -> None:
        if name.endswith(f"{3:020d}.log"):
            raise PermissionError(13, "Permission denied")
        super().__init__(name)


def test_a_file_without_read_permission_is_reported_and_the_rest_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = log(tmp_path, (0, batch(0)), (3, batch(3)), (6, batch(6)))
    monkeypatch.setattr(segments, "Source", Refusing)
    offsets, (skipped,) = read(folder)
    assert offsets == [0, 1, 2, 6, 7, 8]
    assert skipped == (f"{3:020d}.log", None, None, "it can't be read: Permission denied")


# ------------------------------------------------------------------------------------------------ bad bytes

FIRST = len(batch(0))


def damaged(data: bytes, at: int, change: bytes = b"\xff") -> bytes:
    return data[:at] + change + data[at + len(change) :]


def test_a_torn_tail(tmp_path: Path) -> None:
    for index, size in enumerate((8, 16, 30, 61, FIRST - 1)):
        folder = log(tmp_path / str(index), (0, batch(0) + batch(3)[:size]))
        offsets, (skipped,) = read(folder)
        assert offsets == [0, 1, 2]
        assert skipped[:3] == (f"{0:020d}.log", FIRST, size)
        assert f"{size} bytes are too few" in skipped.reason or f"where {size} are left" in skipped.reason


def test_a_batch_with_a_wrong_crc(tmp_path: Path) -> None:
    bad = damaged(batch(3), 70)
    offsets, (skipped,) = read(log(tmp_path, (0, batch(0) + bad + batch(6)), (9, batch(9))))
    assert offsets == [0, 1, 2, 6, 7, 8, 9, 10, 11]
    assert skipped[:3] == (f"{0:020d}.log", FIRST, len(bad))
    assert skipped.reason.startswith("Record is corrupt (stored crc = ")


@pytest.mark.parametrize("length", [0, 13, 48, 60, 5000, 2**31 - 1, -5])
def test_a_batch_with_a_wrong_length(length: int, tmp_path: Path) -> None:
    """The CRC doesn't cover it; the next batch has to be looked for."""
    bad = damaged(batch(3), 8, struct.pack(">i", length))
    folder = log(tmp_path, (0, batch(0) + bad + batch(6) + batch(9)))
    offsets, (skipped,) = read(folder)
    assert offsets == [0, 1, 2, *range(6, 12)]
    assert skipped[1:3] == (FIRST, len(bad))


def test_a_hole_of_garbage(tmp_path: Path) -> None:
    for index, garbage in enumerate((b"\x02" * 300, bytes(200), bytes(range(256)) * 20)):
        folder = log(tmp_path / str(index), (0, batch(0) + garbage + batch(3)))
        offsets, (skipped,) = read(folder)
        assert offsets == list(range(6))
        assert skipped[1:3] == (FIRST, len(garbage))


def test_a_preallocated_file_ends_in_zeros_without_a_report(tmp_path: Path) -> None:
    assert read(log(tmp_path, (0, batch(0) + bytes(10_000)))) == ([0, 1, 2], [])


def test_offsets_that_go_back_are_damage(tmp_path: Path) -> None:
    offsets, (skipped,) = read(log(tmp_path, (0, batch(0) + batch(1) + batch(3))))
    assert offsets == list(range(6))
    assert skipped.reason == "a batch of offset 1 where 3 is the least"


@pytest.mark.parametrize("magic", [0, 1])
def test_old_message_formats_are_reported_as_such(magic: int, tmp_path: Path) -> None:
    tail = struct.pack(">bb", magic, 0) + (b"\0" * 8 if magic else b"") + struct.pack(">ii", -1, -1)
    body = struct.pack(">I", zlib.crc32(tail)) + tail
    old = b"".join(struct.pack(">qi", offset, len(body)) + body for offset in range(4))
    offsets, (skipped,) = read(log(tmp_path, (0, old + batch(4))))
    assert offsets == [4, 5, 6]
    assert skipped == (
        f"{0:020d}.log",
        0,
        len(old),
        f"message format v{magic}, which Kafka wrote before 0.11, is not read",
    )


def test_a_record_that_cannot_be_decoded_is_a_row_and_reported(tmp_path: Path) -> None:
    key, value = commit("g", "t", 0, 1)
    assert value is not None
    (rows,) = read_offsets(log(tmp_path, (0, batch_of([(key, b"\0\x09" + value)], 7))))
    assert rows["kind"].to_pylist() == ["other"]
    _, (skipped,) = read(str(tmp_path / f"{OFFSETS}-3"))
    assert skipped[1:3] == (0, 0)
    assert skipped.reason == "record at offset 7: OffsetCommitValue has no version 9 (0-4)"


def test_a_damaged_batch_that_looks_like_an_old_message_costs_no_other_one(tmp_path: Path) -> None:
    whole = [batch(at) for at in range(0, 30, 3)]
    content = damaged(b"".join(whole), FIRST + 11, b"\xbb\0\0\0\0\0")  # a length two bytes shorter, and format 0
    offsets, (skipped,) = read(log(tmp_path, (0, content)))
    assert offsets == [0, 1, 2, *range(6, 30)]
    assert "before 0.11" not in skipped.reason


@given(st.data())
def test_no_damage_costs_more_than_the_batches_it_hit(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Any bytes overwritten anywhere: every batch that is as it was is read, none twice, and what isn't is told."""
    whole = [batch(at) for at in range(0, 30, 3)]
    edges = [0]
    for one in whole:
        edges.append(edges[-1] + len(one))
    at = data.draw(st.integers(0, edges[-1] - 1))
    change = data.draw(st.binary(min_size=1, max_size=60))[: edges[-1] - at]
    content = damaged(b"".join(whole), at, change)
    folder = log(tmp_path_factory.mktemp("log"), (0, content))
    offsets, skipped = read(folder)
    intact = [n for n in range(len(whole)) if content[edges[n] : edges[n + 1]] == whole[n]]
    covered = [n for n in range(len(whole)) if content[edges[n] + 16 : edges[n + 1]] == whole[n][16:]]
    assert [offset for offset in offsets if offset // 3 in intact] == [3 * n + k for n in intact for k in range(3)]
    assert offsets == sorted(set(offsets))
    lost = sum(one.bytes or 0 for one in skipped)
    assert lost >= sum(len(whole[n]) for n in range(len(whole)) if n not in covered)  # by the CRC
    assert lost <= sum(len(whole[n]) for n in range(len(whole)) if n not in intact)


def test_a_wrong_offset_is_found_by_the_batches_after_it(tmp_path: Path) -> None:
    """The CRC does not cover it."""
    for index, wrong in enumerate((4, 5, 7, 2**31, 2**40, 2**62)):
        bad = damaged(batch(3), 0, struct.pack(">q", wrong))
        offsets, (skipped,) = read(
            log(tmp_path / str(index), (0, batch(0) + bad + batch(6) + batch(9)), (12, batch(12)))
        )
        assert offsets == [0, 1, 2, *range(6, 15)]
        assert skipped[1:3] == (FIRST, len(bad))
        assert f"a batch of offset {wrong}" in skipped.reason


# ------------------------------------------------------------------------------------------------ where a log ends


def ends(folder: str, known: Any = None) -> tuple[int, int]:
    found = next_offset(segments_of(folder)[-1], known)
    return found.offset, found.position


def test_the_end_of_a_log_is_found_by_its_headers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"".join(batch(at) for at in range(0, 90, 3))
    folder = log(tmp_path, (0, data))
    for size in (64, 300, 1 << 20):
        monkeypatch.setattr(segments, "PIECE_BYTES", size)
        assert ends(folder) == (90, len(data))


def test_an_incomplete_batch_is_not_read_yet(tmp_path: Path) -> None:
    folder = log(tmp_path, (0, batch(0)))
    path = Path(folder) / f"{0:020d}.log"
    known = next_offset(segments_of(folder)[-1])
    for size in range(FIRST):
        path.write_bytes(batch(0) + batch(3)[:size])
        assert ends(folder, known) == (3, FIRST)
    path.write_bytes(batch(0) + batch(3))
    assert ends(folder, known) == ends(folder) == (6, 2 * FIRST)
    path.write_bytes(batch(0, 2))  # not the file that it was
    assert ends(folder, known)[0] == 2


def test_an_empty_segment_ends_where_it_begins(tmp_path: Path) -> None:
    assert ends(log(tmp_path, (0, batch(0)), (3, b""))) == (3, 0)


def hints(offsets: Sequence[int], position: int, **options: Any) -> Any:
    return {"start": offsets[0], "hint": (0, position), **options}


def test_a_hint_saves_the_way_and_is_not_believed(tmp_path: Path) -> None:
    folder = log(tmp_path, (0, batch(0) + batch(3) + batch(6)))
    for position in (FIRST, 0, 2 * FIRST, 17, 10**9):
        assert read(folder, **hints([3], position))[0] == [3, 4, 5, 6, 7, 8]
