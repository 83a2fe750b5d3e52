"""The source `sim_journal`: files and what is wrong with them, ranges, batches, streams over restarts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from broker_sim.common.text import UsageError
from broker_sim.pipeline.journal_files import (
    JournalFile,
    JournalUnreadable,
    Range,
    complete_to,
    find,
    lines,
    number_journals,
    refusal,
    tasks,
)
from broker_sim.pipeline.journal_source import JournalOptions, JournalReader, JournalStream, SkippedJournalReader
from broker_sim.pipeline.tables.events import EVENTS, skipped
from tests.pipeline.support_journal import line, played, write

SCENARIO = "crash-without-leave"


def mark(seq: int, text: str = "x", **more: Any) -> dict[str, Any]:
    return {"seq": seq, "ts_ms": 1000 + seq, "event": "mark", "text": text, **more}


def marks(path: Path, first: int, count: int) -> Path:
    return write(path, (mark(first + number) for number in range(count)))


def found(path: Path, *, run_id: str | None = None) -> list[JournalFile]:
    return number_journals(find([str(path)], run_id))


def read(path: Path | str, **options: str) -> list[dict[str, Any]]:
    """The rows of a batch, without Spark."""
    reader = JournalReader(JournalOptions.of({"path": str(path), **options}), list(EVENTS.names))
    return [row for task in reader.partitions() for batch in reader.read(task) for row in batch.to_pylist()]


def streamed(stream: JournalStream, start: Any, end: Any) -> list[dict[str, Any]]:
    """The rows between two offsets, as JSON would keep them."""
    start, end = json.loads(json.dumps(start)), json.loads(json.dumps(end))
    return [row for task in stream.partitions(start, end) for batch in stream.read(task) for row in batch.to_pylist()]


def stream_of(path: Path, **options: str) -> JournalStream:
    return JournalStream(JournalOptions.of({"path": str(path), **options}), list(EVENTS.names))


# ------------------------------------------------------------------------------------------------ files


def test_a_directory_is_a_run(tmp_path: Path) -> None:
    marks(tmp_path / "friday" / "journal-000002.ndjson.part", 4, 2)
    marks(tmp_path / "friday" / "journal-000001.ndjson", 1, 3)
    (tmp_path / "friday" / "cluster.json").write_text("{}")
    rows = read(tmp_path / "friday")
    assert [(row["run_id"], row["journal"], row["seq"]) for row in rows] == [
        ("friday", 1, number) for number in range(1, 6)
    ]


def test_directories_below_are_runs_of_their_own(tmp_path: Path) -> None:
    marks(tmp_path / "a" / "journal-000001.ndjson", 1, 1)
    marks(tmp_path / "b" / "c" / "journal-000001.ndjson", 1, 1)
    marks(tmp_path / "b" / "seed-17.ndjson", 1, 1)
    assert [one.run_id for one in found(tmp_path)] == ["a", "b/c", "b/seed-17"]


def test_a_pattern_a_list_and_one_file(tmp_path: Path) -> None:
    one = marks(tmp_path / "a" / "journal-000001.ndjson", 1, 1)
    two = marks(tmp_path / "b" / "journal-000001.ndjson", 1, 1)
    assert [file.run_id for file in found(tmp_path / "*")] == ["a", "b"]
    assert [row["run_id"] for row in read(f"{one},{two}")] == ["a", "b"]
    assert [row["run_id"] for row in read(two.as_uri())] == ["b"]
    assert [row["run_id"] for row in read(two, runId="mine")] == ["mine"]


def test_the_whole_file_counts_where_its_part_is_there_too(tmp_path: Path) -> None:
    marks(tmp_path / "j" / "journal-000001.ndjson", 1, 2)
    marks(tmp_path / "j" / "journal-000001.ndjson.part", 1, 1)
    assert len(read(tmp_path / "j")) == 2


def test_a_part_that_has_become_whole_since(tmp_path: Path) -> None:
    part = marks(tmp_path / "j" / "journal-000001.ndjson.part", 1, 3)
    reader = JournalReader(JournalOptions.of({"path": str(tmp_path / "j")}), ["seq"])
    planned = reader.partitions()
    part.rename(part.with_suffix(""))
    assert sum(batch.num_rows for task in planned for batch in reader.read(task)) == 3
    assert [one.name for one in found(part)] == [str(part.with_suffix(""))]


def test_the_journal_of_a_second_process_is_distinguished(tmp_path: Path) -> None:
    for number, first in ((1, 1), (2, 4), (3, 1), (4, 4)):
        marks(tmp_path / "j" / f"journal-{number:06}.ndjson", first, 3)
    assert [(one.number, one.journal) for one in found(tmp_path / "j")] == [(1, 1), (2, 1), (3, 3), (4, 3)]


def test_deleted_files_do_not_change_the_offsets_of_a_stream(tmp_path: Path) -> None:
    files = [
        marks(tmp_path / "j" / f"journal-{number:06}.ndjson", first, 3) for number, first in ((1, 1), (2, 4), (3, 7))
    ]
    stream = stream_of(tmp_path / "j")
    end = stream.latestOffset(stream.initialOffset())
    files[0].unlink()
    marks(tmp_path / "j" / "journal-000004.ndjson", 10, 3)
    later = stream_of(tmp_path / "j").latestOffset(end)
    assert {Path(name).name[-8]: journal for name, journal in later["journals"].items()} == {
        str(n): 1 for n in (1, 2, 3, 4)
    }


@pytest.mark.parametrize("text", ["", "mode=failfast", "body=maybe", "tasks=0", "startingOffsets=now"])
def test_invalid_options_of_the_source(tmp_path: Path, text: str) -> None:
    name, _, value = text.partition("=")
    with pytest.raises(UsageError) as told:
        JournalOptions.of({"path": str(tmp_path), name: value} if name else {})
    assert "\n" not in str(told.value)


def test_where_there_is_nothing(tmp_path: Path) -> None:
    with pytest.raises(JournalUnreadable, match=r"missing: there is no such file or directory$"):
        read(tmp_path / "missing")
    (tmp_path / "empty").mkdir()
    with pytest.raises(JournalUnreadable, match=r"empty: no journal files"):
        read(tmp_path / "empty")
    assert stream_of(tmp_path / "empty").latestOffset()["positions"] == {}


# ------------------------------------------------------------------------------------------------ what is wrong with them


def test_unreadable_lines_are_reported_and_the_rest_is_read(tmp_path: Path) -> None:
    path = tmp_path / "j" / "journal-000001.ndjson"
    path.parent.mkdir()
    bad = [
        b"{not json",
        b"[1, 2]",
        b'{"event": "mark", "ts_ms": 1}',
        b"\xff\xfe",
        b'{"event": 7, "seq": 1, "ts_ms": 1}',
    ]
    good = [line(mark(number)) for number in range(1, 7)]
    mixed = [one for pair in zip(good, [*bad, b""], strict=True) for one in pair]
    path.write_bytes(b"\n".join(mixed) + b"\n")
    rows = read(path)
    assert [row["seq"] for row in rows if row["type"] == "mark"] == [1, 2, 3, 4, 5, 6]
    told = [(row["position"], row["bytes"], row["text"], row["file"]) for row in rows if row["type"] == "skipped"]
    data = path.read_bytes()
    assert [data[position : position + size] for position, size, _, _ in told] == bad
    assert {file for *_, file in told} == {str(path)}
    reasons = [reason for _, _, reason, _ in told]
    assert reasons[0].startswith("no JSON: ")
    assert reasons[1:3] == ["no event of a journal: not an object", "no event of a journal: seq missing"]
    assert reasons[4] == "no event of a journal: its kind is no text"


def test_half_a_last_line(tmp_path: Path) -> None:
    path = marks(tmp_path / "j" / "journal-000001.ndjson.part", 1, 3)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])  # only its end is missing
    assert [row["type"] for row in read(path)] == ["mark"] * 3
    path.write_bytes(whole[:-10])
    *_, last = read(path)
    position = whole[:-1].rfind(b"\n") + 1
    assert (last["type"], last["position"], last["text"]) == (
        "skipped",
        position,
        "the file ends in the middle of this line",
    )


def test_a_newer_schema_is_read_as_far_as_it_is_known(tmp_path: Path) -> None:
    events = [
        mark(1, hue="blue"),
        {"seq": 2, "ts_ms": 1002, "event": "quota", "group": "billing", "client_id": "app"},
        {
            "seq": 3,
            "ts_ms": 1003,
            "event": "timer",
            "log": 7,
            "timer": ["session"],
            "due_ms": "soon",
            "group": "billing",
        },
    ]
    rows = read(write(tmp_path / "j" / "journal-000001.ndjson", events))
    assert [(row["type"], row["unknown"], row["group"], row["text"]) for row in rows] == [
        ("mark", ["hue"], None, "x"),
        ("quota", ["event quota"], "billing", None),
        ("timer", None, "billing", None),
    ]
    assert [json.loads(row["body"]) for row in rows] == events


def test_numbers_and_texts_that_columns_can_not_hold(tmp_path: Path) -> None:
    events = [
        {"seq": 1, "ts_ms": 10**17, "event": "mark", "text": "x"},
        {
            "seq": 2,
            "ts_ms": 1,
            "event": "connection",
            "broker": 2**40,
            "connection": 2**61,
            "peer": "\ud800",
            "action": "opened",
        },
    ]
    path = tmp_path / "j" / "journal-000001.ndjson"
    path.parent.mkdir()
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    far, odd = read(path)
    assert (far["ts"], far["ts_ms"]) == (None, 10**17)
    assert (odd["broker"], odd["connection"], odd["client_host"]) == (None, 2**61, "\\ud800")


@pytest.mark.parametrize("content", [b"hello\nworld\n", b"\x00\x01\x02" * 1000 + b"\n", b'{"level": "info"}\n' * 50])
def test_a_file_without_journal_events(tmp_path: Path, content: bytes) -> None:
    other = tmp_path / "j" / "other.ndjson"
    other.parent.mkdir()
    other.write_bytes(content)
    with pytest.raises(JournalUnreadable) as told:
        read(tmp_path / "j")
    assert str(told.value).startswith(f"{other} is no journal: none of its first lines is an event")
    assert "\n" not in str(told.value)
    marks(tmp_path / "j" / "journal-000001.ndjson", 1, 2)
    rows = read(tmp_path / "j", runId="r")
    assert sorted(row["type"] for row in rows) == ["mark", "mark", "skipped"]
    (row,) = [row for row in rows if row["type"] == "skipped"]
    assert (row["file"], row["position"], row["bytes"]) == (str(other), None, len(content))
    reader = SkippedJournalReader(JournalOptions.of({"path": str(tmp_path / "j"), "runId": "r"}))
    assert [one[:4] for task in reader.partitions() for one in reader.read(task)] == [
        ("r", str(other), None, len(content))
    ]


def test_no_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "big.ndjson"
    path.write_bytes(b"x" * (5 << 20))
    assert refusal(found(path)[0]) == "no journal: no line ends within 4 MiB"


# ------------------------------------------------------------------------------------------------ ranges


def test_ranges_cut_anywhere_give_every_line_once(tmp_path: Path) -> None:
    path = tmp_path / "j" / "journal-000001.ndjson"
    write(path, (mark(number, "é" * (number % 7)) for number in range(1, 40)))
    file = found(path)[0]
    expected = list(lines(Range(file, 0, file.size)))
    assert [whole for *_, whole in expected] == [True] * 39
    for cut in range(file.size + 1):
        assert [*lines(Range(file, 0, cut)), *lines(Range(file, cut, file.size))] == expected


def test_tasks_have_about_the_same_bytes() -> None:
    sizes = [100, 5, 5, 300, 90]
    ranges = [Range(JournalFile(f"f{n}", "r", n, size), 0, size) for n, size in enumerate(sizes)]
    for number in (1, 2, 3, 7):
        shares = tasks(ranges, number, least=1)
        assert len(shares) <= number
        assert max(sum(one.end - one.start for one in share) for share in shares) <= -(-sum(sizes) // number) * 1.3
        for file in ranges:
            mine = [(one.start, one.end) for share in shares for one in share if one.file == file.file]
            assert mine[0][0] == 0
            assert mine[-1][1] == file.end
            assert all(left[1] == right[0] for left, right in pairwise(mine))
    assert tasks([], 4) == [[]]


def test_the_end_of_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "j.ndjson"
    path.write_bytes(b"one\ntwo\nthr")
    file = found(path)[0]
    assert complete_to(file, 0) == 8
    assert complete_to(file, 8) == 8
    assert [complete_to(file, 0, most) for most in (1, 4, 5, 11)] == [4, 4, 8, 8]


# ------------------------------------------------------------------------------------------------ streams, without Spark


def test_a_stream_over_a_file_that_grows_and_is_rotated(tmp_path: Path) -> None:
    """Reads after every few bytes, from a new reader each time: every line once."""
    events = [mark(number, "x" * (number % 5)) for number in range(1, 30)]
    data = b"".join(line(event) + b"\n" for event in events)
    directory = tmp_path / "j"
    directory.mkdir()
    position, seen = JournalStream(JournalOptions.of({"path": str(directory)}), ["seq"]).initialOffset(), []
    first, second = data[: data.index(b"\n", 600) + 1], data[data.index(b"\n", 600) + 1 :]
    for number, part in ((1, first), (2, second)):
        path = directory / f"journal-{number:06}.ndjson.part"
        for start in range(0, len(part), 37):
            with path.open("ab") as out:
                out.write(part[start : start + 37])
            stream = stream_of(directory)
            end = stream.latestOffset(position)
            seen += [row["seq"] for row in streamed(stream, position, end)]
            position = json.loads(json.dumps(end))
        path.rename(path.with_suffix(""))
    assert seen == [event["seq"] for event in events]
    assert set(position["journals"].values()) == {1}
    stream = stream_of(directory)
    assert stream.latestOffset(position) == position
    assert streamed(stream, position, position) == []


def test_a_stream_waits_for_the_end_of_a_line(tmp_path: Path) -> None:
    path = marks(tmp_path / "j" / "journal-000001.ndjson.part", 1, 2)
    with path.open("ab") as out:
        out.write(line(mark(3))[:-4])
    stream = stream_of(tmp_path / "j")
    end = stream.latestOffset(stream.initialOffset())
    assert [row["seq"] for row in streamed(stream, stream.initialOffset(), end)] == [1, 2]
    with path.open("ab") as out:
        out.write(line(mark(3))[-4:] + b"\n")
    assert [row["seq"] for row in streamed(stream, end, stream.latestOffset(end))] == [3]


def test_a_stream_s_limit_and_its_start(tmp_path: Path) -> None:
    class Limit:
        max_bytes = 100

    marks(tmp_path / "j" / "journal-000001.ndjson", 1, 40)
    stream, position, sizes = stream_of(tmp_path / "j"), stream_of(tmp_path / "j").initialOffset(), []
    while (end := stream.latestOffset(position, Limit())) != position:
        sizes.append(len(streamed(stream, position, end)))
        position = end
    assert sum(sizes) == 40
    assert set(sizes[:-1]) <= {2, 3}
    late = stream_of(tmp_path / "j", startingOffsets="latest")
    assert late.latestOffset(late.initialOffset()) == late.initialOffset()
    late.prepareForTriggerAvailableNow()
    marks(tmp_path / "j" / "journal-000002.ndjson", 41, 5)
    assert late.latestOffset({"positions": {}, "journals": {}}) == position


def test_files_that_a_stream_can_no_longer_read(tmp_path: Path) -> None:
    gone, short = (marks(tmp_path / "j" / f"journal-{number:06}.ndjson", number * 10, 5) for number in (1, 2))
    stream = stream_of(tmp_path / "j")
    end = stream.latestOffset(stream.initialOffset())
    gone.unlink()
    size = short.stat().st_size
    short.write_bytes(short.read_bytes()[:10])
    rows = streamed(stream, stream.initialOffset(), end)
    assert [(row["type"], row["file"], row["text"]) for row in rows] == [
        ("skipped", str(gone), "the file was deleted"),
        ("skipped", str(short), f"the file had {size} bytes and has 10 now"),
    ]


# ------------------------------------------------------------------------------------------------ on Spark


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Path]:
    """A real run's journal in two files, the second one growing."""
    events = played(SCENARIO).events
    write(tmp_path / "run" / "journal-000001.ndjson", events[:400])
    write(tmp_path / "run" / "journal-000002.ndjson.part", events[400:])
    return tmp_path / "run"


@pytest.mark.spark
def test_batch_and_stream_give_the_same_rows_over_a_restart(spark: Any, journal: Path, tmp_path: Path) -> None:
    events = played(SCENARIO).events
    with (journal / "journal-000002.ndjson.part").open("ab") as out:
        out.write(b"{garbage\n" + line(mark(10**6))[:9])
    batch = spark.read.format("sim_journal").load(str(journal))
    assert batch.schema == EVENTS.spark()
    told = {(row.position, row.reason) for row in skipped(batch).collect()}
    assert len(told) == 2
    assert {
        (row.position, row.reason) for row in spark.read.format("sim_journal_skipped").load(str(journal)).collect()
    } == told

    def more() -> None:
        source = spark.readStream.format("sim_journal").option("maxBytesPerTrigger", "100000").load(str(journal))
        writer = source.select("seq", "type").writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start(str(tmp_path / "out"))
        query.awaitTermination(60)
        assert query.exception() is None

    more()
    with (journal / "journal-000002.ndjson.part").open("ab") as out:
        out.write(line(mark(10**6))[9:] + b"\n")
    (journal / "journal-000002.ndjson.part").rename(journal / "journal-000002.ndjson")
    more()
    rows = [(row.seq, row.type) for row in spark.read.parquet(str(tmp_path / "out")).collect()]
    assert sorted(row for row in rows if row[1] != "skipped") == sorted(
        [*((event["seq"], event["event"]) for event in events), (10**6, "mark")]
    )
    assert [row for row in rows if row[1] == "skipped"] == [(None, "skipped")]


@pytest.mark.spark
def test_an_error_of_one_line(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="missing: there is no such file or directory"):
        spark.read.format("sim_journal").load(str(tmp_path / "missing")).collect()
    with pytest.raises(Exception, match=r"no option .* of sim_journal"):
        spark.read.format("sim_journal").option("boddy", "true").load(str(tmp_path)).collect()
