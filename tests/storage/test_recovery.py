"""Recovery of a log directory: kills at any byte, torn tails, lost indexes, damage, leftovers of a crash."""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker_sim.storage import PartitionLog, recovery
from broker_sim.storage.recovery import LEFT_ACTIVE_BYTES
from kafka_wire.record_batch import HEADER_BYTES, batches, build_batch, parse_header
from tests.storage.batches import (
    NOW_MS,
    FailingFiles,
    add,
    batch,
    config,
    content,
    fill,
    keyed,
    log_files,
    pairs_of,
    values,
)

FIRST = "00000000000000000000"


def fresh(directory: Path, **settings: object) -> PartitionLog:
    return PartitionLog(directory, config(**settings))


def filled(directory: Path, count: int = 20, **settings: object) -> PartitionLog:
    log = fresh(directory, **settings)
    fill(log, count)
    return log


def test_a_log_that_was_never_closed_is_read_back_whole(tmp_path: Path) -> None:
    log = filled(tmp_path / "t-0", segment_bytes=1000)
    again = fresh(tmp_path / "t-0", segment_bytes=1000)
    assert content(again) == content(log)
    assert (again.log_end_offset, again.size_bytes) == (log.log_end_offset, log.size_bytes)
    assert again.epochs.entries == [(0, 0)]


def test_the_files_are_kafkas(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    log = filled(directory, 8, segment_bytes=1000)
    log.close()
    second = f"{5:020d}"
    assert log_files(directory) == [
        f"{FIRST}.index",
        f"{FIRST}.log",
        f"{FIRST}.timeindex",
        f"{second}.index",
        f"{second}.log",
        f"{second}.snapshot",
        f"{second}.timeindex",
        "leader-epoch-checkpoint",
    ]
    assert (directory / "leader-epoch-checkpoint").read_text() == "0\n1\n0 0\n"


def test_index_entries_point_at_batches_one_for_each_interval(tmp_path: Path) -> None:
    log = filled(tmp_path / "t-0", 200, index_interval_bytes=1000)
    log.close()
    data = (tmp_path / "t-0" / f"{FIRST}.log").read_bytes()
    index = (tmp_path / "t-0" / f"{FIRST}.index").read_bytes()
    assert len(index) % 8 == 0
    assert len(data) // 1400 <= len(index) // 8 <= len(data) // 1000
    for at in range(0, len(index), 8):
        offset, position = (int.from_bytes(index[at + i : at + i + 4], "big") for i in (0, 4))
        assert parse_header(data, position).last_offset == offset


@pytest.mark.parametrize("segment_bytes", [2_000, 1_000_000])
def test_cut_at_any_byte_the_log_keeps_every_whole_batch_before(tmp_path: Path, segment_bytes: int) -> None:
    log = filled(tmp_path / "t-0", 10, segment_bytes=segment_bytes)
    path = Path(log.segments[-1].log_path)  # type: ignore[attr-defined]
    base, size = log.segments[-1].base_offset, log.segments[-1].size
    ends = [0]
    for header, _, _ in log.segments[-1].batches():
        ends.append(ends[-1] + header.size)
    log.close()
    for cut in range(0, size + 1, 7):
        target = tmp_path / "copy-0"
        shutil.copytree(tmp_path / "t-0", target)
        os.truncate(target / path.name, cut)
        again = fresh(target, segment_bytes=segment_bytes)
        whole = sum(end <= cut for end in ends) - 1
        assert again.log_end_offset == base + whole
        assert [row.offset for row in content(again)] == list(range(base + whole))
        assert add(again, batch("next")).base_offset == base + whole
        again.close()
        shutil.rmtree(target)


def test_a_torn_tail_is_cut_with_one_line_that_says_where_and_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = filled(tmp_path / "t-0", 3)
    size = log.size_bytes
    log.close()
    path = tmp_path / "t-0" / f"{FIRST}.log"
    with path.open("ab") as file:
        file.write(batch("torn")[:-5])
    with caplog.at_level(logging.WARNING):
        again = fresh(tmp_path / "t-0")
    assert len(caplog.records) == 1
    message = caplog.records[0].getMessage()
    assert message.startswith(f"{path}: cut at position {size} (offset 3), {len(batch('torn')) - 5} bytes removed: ")
    assert (again.log_end_offset, path.stat().st_size) == (3, size)
    assert not list((tmp_path / "t-0").glob("*.damaged"))
    again.close()
    caplog.clear()
    fresh(tmp_path / "t-0").close()
    assert not caplog.records


def test_a_tail_of_zeros_is_cut(tmp_path: Path) -> None:
    log = filled(tmp_path / "t-0", 3)
    log.close()
    with (tmp_path / "t-0" / f"{FIRST}.log").open("ab") as file:
        file.write(bytes(10_000))
    assert len(values(fresh(tmp_path / "t-0"))) == 3


def test_damage_before_good_batches_is_cut_and_all_that_was_cut_is_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = filled(tmp_path / "t-0", 10)
    log.close()
    path = tmp_path / "t-0" / f"{FIRST}.log"
    data = bytearray(path.read_bytes())
    position = 4 * (len(data) // 10)
    data[position + 80] ^= 0xFF
    path.write_bytes(data)
    again = fresh(tmp_path / "t-0")
    assert again.log_end_offset == 4
    kept = tmp_path / "t-0" / f"{FIRST}.log.{position}.damaged"
    assert kept.read_bytes() == data[position:]
    assert kept.name in caplog.text
    assert "stored crc" in caplog.text
    add(again, batch("next"))
    again.close()
    assert len(values(fresh(tmp_path / "t-0"))) == 5


@pytest.mark.parametrize("compacted", [False, True])
@pytest.mark.parametrize("victim", [4, 9], ids=["middle", "last"])
def test_a_flipped_bit_in_a_batch_header_loses_nothing_or_keeps_all_that_is_cut(
    tmp_path: Path, victim: int, compacted: bool
) -> None:
    settings = {"cleanup_policy": "compact" if compacted else "delete"}
    log = fresh(tmp_path / "origin-0", **settings)
    for number in range(
        10
    ):  # three records each, so that a base offset that is one too high is one that no batch can have
        add(log, keyed(*((f"k{number}", f"{number}.{n}") for n in range(3))), epoch=number // 3)
    log.close()
    origin = tmp_path / "origin-0"
    whole = bytes((origin / f"{FIRST}.log").read_bytes())
    expected, epochs = content(fresh(origin, **settings)), (origin / "leader-epoch-checkpoint").read_text()
    position = list(batches(whole))[victim][0]
    uncovered = {*range(8), *range(12, 16)}  # base offset and leader epoch
    for bit in range(8 * HEADER_BYTES):
        directory = tmp_path / f"t-{bit}"
        shutil.copytree(origin, directory)
        data = bytearray(whole)
        data[position + bit // 8] ^= 128 >> bit % 8
        path = directory / f"{FIRST}.log"
        path.write_bytes(data)
        again = fresh(directory, **settings)
        kept = directory / f"{FIRST}.log.{position}.damaged"
        if bit // 8 in uncovered:
            same = expected
            if (
                victim == 9
                and compacted
                and data[position + bit // 8] > whole[position + bit // 8]
                and 4 <= bit // 8 < 8
            ):
                # the last batch of a log in which offsets may be missing: nothing contradicts a higher offset
                same = expected[:27] + content(again)[27:]
                assert len(same) == 30
            assert content(again) == same, bit
            assert not kept.exists(), bit
            if victim == 4 or bit // 8 < 8:  # nothing contradicts a higher epoch of the last batch
                assert (directory / "leader-epoch-checkpoint").read_text() == epochs, bit
        else:
            assert content(again) == expected[: 3 * victim], bit
            if victim == 4 or bit // 8 in (
                8,
                9,
                10,
                11,
                16,
            ):  # length and magic leave the rest of the batch with a right CRC
                assert kept.read_bytes() == data[position:], bit
        again.close()
        shutil.rmtree(directory)


@pytest.mark.parametrize("wrong", [0, 2**40, 2**62 + 5])
def test_a_base_offset_that_is_far_off_is_put_right_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, wrong: int
) -> None:
    filled(tmp_path / "t-0", 10).close()
    path = tmp_path / "t-0" / f"{FIRST}.log"
    data = bytearray(path.read_bytes())
    position = 4 * (len(data) // 10)
    data[position : position + 8] = wrong.to_bytes(8, "big")
    path.write_bytes(data)
    assert [row.offset for row in content(fresh(tmp_path / "t-0"))] == list(range(10))
    assert f"the batch at position {position} has base offset {wrong}" in caplog.text
    assert "corrected to 4" in caplog.text


def test_a_batch_that_no_offset_fits_is_kept_with_all_behind_it(tmp_path: Path) -> None:
    filled(tmp_path / "t-0", 10).close()
    path = tmp_path / "t-0" / f"{FIRST}.log"
    data = path.read_bytes()
    half = len(data) // 2
    path.write_bytes(data + data[half:])  # five batches twice, all with a right CRC
    assert fresh(tmp_path / "t-0").log_end_offset == 10
    assert (tmp_path / "t-0" / f"{FIRST}.log.{len(data)}.damaged").read_bytes() == data[half:]


def test_whole_batches_behind_more_than_a_mebibyte_of_damage_are_kept(tmp_path: Path) -> None:
    log = filled(tmp_path / "t-0", 3, max_message_bytes=2 << 20)
    add(log, batch(b"." * (3 << 19)), trusted=True)
    fill(log, 2)
    log.close()
    path = tmp_path / "t-0" / f"{FIRST}.log"
    data = bytearray(path.read_bytes())
    at = data.find(b"." * 1000, 1000)
    data[at] ^= 1
    path.write_bytes(data)
    assert fresh(tmp_path / "t-0").log_end_offset == 3
    [kept] = (tmp_path / "t-0").glob("*.damaged")
    assert len(kept.read_bytes()) > 3 << 19


def test_damage_in_an_earlier_segment_leaves_a_gap_and_the_later_segments(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = filled(tmp_path / "t-0", 20, segment_bytes=1000)
    log.close()
    path = tmp_path / "t-0" / f"{FIRST}.log"
    size = path.stat().st_size
    os.truncate(path, size - 10)
    again = fresh(tmp_path / "t-0", segment_bytes=1000)
    assert [row.offset for row in content(again)] == [0, 1, 2, 3, *range(5, 20)]
    assert "cut at position" in caplog.text
    assert [row.offset for row in content(fresh(tmp_path / "t-0"))] == [0, 1, 2, 3, *range(5, 20)]


def test_a_segment_that_is_gone_is_told_with_its_offsets(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = filled(tmp_path / "t-0", 20, segment_bytes=1000)
    first, last = log.segments[1].base_offset, log.segments[1].next_offset - 1
    log.segments[1].delete()
    log.close()
    again = fresh(tmp_path / "t-0", segment_bytes=1000)
    assert [row.offset for row in content(again)] == [*range(first), *range(last + 1, 20)]
    [told] = caplog.messages
    assert told == (
        f"{tmp_path / 't-0'}: the offsets {first} to {last} are missing (a segment's file is missing or was truncated): readers "
        f"continue at {last + 1}"
    )


def test_gaps_that_compaction_may_have_left_are_not_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = fresh(tmp_path / "t-0", segment_bytes=1000, cleanup_policy=frozenset({"compact"}))
    for _ in range(30):
        log.append(build_batch([(b"key", b"x" * 100)], NOW_MS), leader_epoch=0, now_ms=NOW_MS)
    log.compact(NOW_MS, force=True)
    log.close()
    again = fresh(tmp_path / "t-0", segment_bytes=1000, cleanup_policy=frozenset({"compact"}))
    assert again.segments[0].next_offset < again.segments[1].base_offset
    assert caplog.messages == []


@pytest.mark.parametrize("name", ["9" * 20, "9" * 21, "5", f"{2**63 - 1:020d}", "x"])
def test_a_file_that_is_called_as_no_segment_is_passed_over_and_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    log = filled(tmp_path / "t-0", 3)
    log.close()
    (tmp_path / "t-0" / f"{name}.log").write_bytes(b"")
    again = fresh(tmp_path / "t-0")
    assert (again.log_end_offset, len(values(again))) == (3, 3)
    assert "the name of a segment must be its base offset" in caplog.text
    assert (tmp_path / "t-0" / f"{name}.log").exists()


@pytest.mark.parametrize("offset", [10**30, 2**63, -1])
def test_a_start_that_no_log_can_have_is_not_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, offset: int
) -> None:
    filled(tmp_path / "t-0", 3).close()
    (tmp_path / "log-start-offset-checkpoint").write_text(f"0\n1\nt 0 {offset}\n")
    assert len(values(fresh(tmp_path / "t-0"))) == 3
    assert "log-start-offset-checkpoint is not used" in caplog.text


@pytest.mark.parametrize("harm", ["remove", "empty", "zeros", "garbage", "cut"])
@pytest.mark.parametrize("kind", ["index", "timeindex"])
def test_indexes_are_rebuilt_where_they_are_lost_or_wrong(tmp_path: Path, kind: str, harm: str) -> None:
    directory = tmp_path / "t-0"
    log = fresh(directory, segment_bytes=20_000, index_interval_bytes=500)
    fill(log, 400, step_ms=10)
    log.close()
    good = {path.name: path.read_bytes() for path in directory.glob(f"*.{kind}")}
    assert len(good) > 2
    for path in directory.glob(f"*.{kind}"):
        if harm == "remove":
            path.unlink()
        else:
            old = path.read_bytes()
            path.write_bytes(
                {"empty": b"", "zeros": bytes(960), "garbage": b"\x7f" * 96, "cut": old[: len(old) - 5]}[harm]
            )
    again = fresh(directory, segment_bytes=20_000, index_interval_bytes=500)
    for number in (0, 123, 250, 399):
        assert pairs_of(content(again))[number][0] == number
        assert again.offset_for_timestamp(NOW_MS + number * 10) == (NOW_MS + number * 10, number, 0)
        assert parse_header(again.read(number, 1)).base_offset == number
    again.close()
    assert {path.name: path.read_bytes() for path in directory.glob(f"*.{kind}")} == good


def test_an_index_of_a_finished_segment_that_is_wrong_inside_is_noticed_when_it_is_used(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    log = fresh(directory, segment_bytes=20_000, index_interval_bytes=500)
    fill(log, 400)
    log.close()
    path = directory / f"{FIRST}.index"
    good = path.read_bytes()
    path.write_bytes(good[8:16] + good[:8] + good[16:])
    again = fresh(directory, segment_bytes=20_000, index_interval_bytes=500)
    assert parse_header(again.read(40, 1)).base_offset == 40
    assert path.read_bytes() == good


def test_opening_a_big_clean_log_reads_its_last_segment_and_little_else(tmp_path: Path) -> None:
    log = filled(tmp_path / "t-0", 2000, segment_bytes=20_000)
    log.close()
    assert len(log.segments) > 15
    files = FailingFiles()
    again = PartitionLog(tmp_path / "t-0", config(segment_bytes=20_000), files=files)
    assert files.calls.count("read") <= 4 * len(again.segments)
    assert again.log_end_offset == 2000
    again.close()


def test_a_log_that_was_closed_opens_without_reading_its_last_segment(tmp_path: Path) -> None:
    log = fresh(tmp_path / "t-0")
    while log.size_bytes < LEFT_ACTIVE_BYTES:
        fill(log, 100, size=4000, step_ms=1)
    end = log.log_end_offset
    log.close()
    files = FailingFiles()
    again = PartitionLog(tmp_path / "t-0", config(), files=files)
    assert files.bytes_read < LEFT_ACTIVE_BYTES // 100
    assert (again.log_end_offset, [each.base_offset for each in again.segments]) == (end, [0, end])
    fill(again, 1)
    assert len(content(again)) == end + 1
    again.close()
    assert len(PartitionLog(tmp_path / "t-0", config()).segments) == 2  # a small one is left as it is


def test_damage_at_the_end_of_a_log_that_was_closed_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "LEFT_ACTIVE_BYTES", 1000)
    filled(tmp_path / "t-0", 20, index_interval_bytes=500).close()
    path = tmp_path / "t-0" / f"{FIRST}.log"
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert values(fresh(tmp_path / "t-0")) == [b"%d" % number + b"." * 100 for number in range(19)]


@pytest.mark.parametrize("call", ["write", "sync", "sync_dir", "rename"])
def test_a_disk_that_fails_as_a_log_is_closed_costs_the_next_start_some_reading(
    tmp_path: Path, call: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(recovery, "LEFT_ACTIVE_BYTES", 1000)
    files = FailingFiles()
    log = PartitionLog(tmp_path / "t-0", config(), files=files)
    fill(log, 20)
    files.failing = {call}
    log.close()
    assert "the next start rebuilds them" in caplog.text
    assert not files.descriptors
    assert len(content(fresh(tmp_path / "t-0"))) == 20


def test_leftovers_of_a_crash_are_swept(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    log = filled(directory, 10, segment_bytes=1000)
    log.close()
    before = log_files(directory)
    for name in (f"{FIRST}.log.cleaned", f"{FIRST}.index.cleaned", f"{9:020d}.log.deleted", f"{7:020d}.index"):
        (directory / name).write_bytes(b"junk")
    (directory / "leader-epoch-checkpoint.tmp").write_bytes(b"junk")
    again = fresh(directory, segment_bytes=1000)
    assert len(values(again)) == 10
    assert log_files(directory) == before


def test_files_of_a_real_broker_that_mean_nothing_here_stay(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    filled(directory, 3).close()
    names = [f"{3:020d}.snapshot", "partition.metadata", "remote_log_snapshot"]
    for name in names:
        (directory / name).write_bytes(b"")
    again = fresh(directory)
    assert len(values(again)) == 3
    assert set(names) <= set(log_files(directory))


def test_a_start_that_was_moved_is_remembered_for_each_log(tmp_path: Path) -> None:
    for number in (0, 1):
        log = filled(tmp_path / f"a-b-{number}")
        log.delete_records(5 + number)
        log.close()
    assert (tmp_path / "log-start-offset-checkpoint").read_text() == "0\n2\na-b 0 5\na-b 1 6\n"
    assert [fresh(tmp_path / f"a-b-{number}").log_start_offset for number in (0, 1)] == [5, 6]
    fresh(tmp_path / "a-b-0").delete()
    assert fresh(tmp_path / "a-b-0").log_start_offset == 0
    shutil.rmtree(tmp_path / "a-b-1")
    again = fresh(tmp_path / "a-b-1")
    assert (again.log_start_offset, again.log_end_offset) == (0, 0)
    assert (tmp_path / "log-start-offset-checkpoint").read_text() == "0\n0\n"


def test_a_start_beyond_the_end_leaves_an_empty_log_there(tmp_path: Path) -> None:
    log = filled(tmp_path / "t-0", 10)
    log.delete_records(8)
    log.close()
    os.truncate(tmp_path / "t-0" / f"{FIRST}.log", 100)
    again = fresh(tmp_path / "t-0")
    assert (again.log_start_offset, again.log_end_offset) == (8, 8)
    assert add(again, batch("next")).base_offset == 8
    again.close()
    assert values(fresh(tmp_path / "t-0")) == [b"next"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0\n9\n0 0\n",
        "7\n1\n0 0\n",
        "0\n1\nx y\n",
        f"0\n1\n{2**31 - 1} 0\n",
        "0\n1\n-5 0\n",
        "0\n3\n1 0\n4 2\n6 1\n",
        "0\n3\n1 0\n4 2\n6 3",
        "0\n1\n7 -1\n",
        None,
    ],
)
def test_lost_leader_epochs_are_read_from_the_batches(tmp_path: Path, text: str | None) -> None:
    log = fresh(tmp_path / "t-0", segment_bytes=1_000)
    for epoch in (1, 1, 4, 6, 6):
        add(log, batch("v"), epoch=epoch)
    expected = log.epochs.entries
    log.close()
    path = tmp_path / "t-0" / "leader-epoch-checkpoint"
    path.unlink() if text is None else path.write_text(text)
    again = fresh(tmp_path / "t-0")
    assert again.epochs.entries == expected == [(1, 0), (4, 2), (6, 3)]
    assert path.read_text() == "0\n3\n1 0\n4 2\n6 3\n"


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 5), st.integers(0, 300)),
        st.tuples(st.just("reopen"), st.just(0), st.just(0)),
        st.tuples(st.just("kill"), st.floats(0, 1), st.just(0)),
        st.tuples(st.just("delete"), st.floats(0, 1), st.just(0)),
        st.tuples(st.just("truncate"), st.floats(0, 1), st.just(0)),
    ),
    max_size=30,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS, segment_bytes=st.sampled_from([400, 1500, 1_000_000]))
def test_any_course_of_appends_restarts_and_kills_keeps_the_prefix(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, float, int]], segment_bytes: int
) -> None:
    directory = tmp_path_factory.mktemp("log") / "t-0"
    log = fresh(directory, segment_bytes=segment_bytes)
    model: list[bytes] = []
    start = 0
    for step, amount, size in steps:
        if step == "append":
            fresh_values = [b"%d" % (len(model) + index) + b"x" * size for index in range(int(amount))]
            if len(batch(*fresh_values)) > segment_bytes:
                continue
            assert add(log, batch(*fresh_values)).base_offset == len(model)
            model += fresh_values
        elif step == "delete":
            start = max(start, int(amount * len(model)))
            assert log.delete_records(start) == start
        elif step == "truncate":
            log.truncate_to(start + int(amount * (len(model) - start)))
            del model[log.log_end_offset :]
        elif step == "reopen":
            log.close()
            log = fresh(directory, segment_bytes=segment_bytes)
        else:  # the process is gone without a word, and the last write may be torn anywhere
            last = log.segments[-1]
            torn = int(amount * last.size)
            log.close()
            os.truncate(last.log_path, torn)  # type: ignore[attr-defined]
            log = fresh(directory, segment_bytes=segment_bytes)
            assert log.log_end_offset <= max(len(model), start)
            if log.log_end_offset == start > len(model[: log.log_end_offset]):
                model += [b""] * (start - len(model))
            del model[log.log_end_offset :]
        assert (log.log_start_offset, log.log_end_offset) == (start, len(model))
        assert values(log) == model[start:]
    log.close()
