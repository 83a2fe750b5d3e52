"""The journal's files: whole lines, whole files, and what happens when the disk takes no more."""

from __future__ import annotations

import errno
import json
import logging
import os
import sys
import time
from pathlib import Path

import pytest

from broker_sim.common.clock import ManualClock
from broker_sim.common.text import UsageError
from broker_sim.journal import Journal, JournalError, read
from tests.support import processes


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_each_line_is_there_as_soon_as_it_is_written(tmp_path: Path) -> None:
    journal = Journal(ManualClock(1_000), tmp_path / "a" / "b")
    journal.write("mark", text="Grüße, \ud83d half")
    (part,) = (tmp_path / "a" / "b").iterdir()
    assert part.name == "journal-000001.ndjson.part"
    assert json.loads(part.read_bytes()) == {"seq": 1, "ts_ms": 1_000, "event": "mark", "text": "Grüße, \ud83d half"}
    journal.close()
    journal.close()
    assert names(tmp_path / "a" / "b") == ["journal-000001.ndjson"]
    journal.write("mark", text="after the end: in memory alone")
    assert len(list(read(tmp_path / "a" / "b"))) == 1


def test_a_full_file_is_renamed_and_the_next_one_begins(tmp_path: Path) -> None:
    journal = Journal(ManualClock(), tmp_path, keep=2, file_bytes=200)
    for number in range(20):
        journal.write("mark", text=str(number))
    assert names(tmp_path)[0] == "journal-000001.ndjson"
    assert names(tmp_path)[-1].endswith(".part")
    assert len(names(tmp_path)) > 3
    assert [event["seq"] for event in read(tmp_path)] == list(range(1, 21))
    assert len(journal.events) == 2
    journal.close()


def test_only_so_many_files_stay(tmp_path: Path) -> None:
    journal = Journal(ManualClock(), tmp_path, file_bytes=100, files=2)
    for number in range(20):
        journal.write("mark", text=str(number))
    whole = [name for name in names(tmp_path) if name.endswith(".ndjson")]
    assert len(whole) == 2
    assert next(read(tmp_path))["seq"] > 10
    journal.close()


def test_a_later_journal_in_the_directory_leaves_the_earlier_ones_alone(tmp_path: Path) -> None:
    first = Journal(ManualClock(), tmp_path)
    first.write("mark", text="first")
    second = Journal(ManualClock(), tmp_path)
    second.write("mark", text="second")
    second.close()
    first.close()
    assert [event["text"] for event in read(tmp_path)] == ["first", "second"]


def test_a_torn_last_line_is_passed_over(tmp_path: Path) -> None:
    part = tmp_path / "journal-000001.ndjson.part"
    part.write_bytes(b'{"event":"mark","text":"a"}\n{"event":"ma')
    (tmp_path / "journal-000002.ndjson").write_bytes(b'{"event":"mark","text":"b"}\n')
    (tmp_path / "notes.txt").write_text("nothing of ours")
    assert [event["text"] for event in read(tmp_path)] == ["a", "b"]
    assert [event["text"] for event in read(part)] == ["a"]


def test_a_file_that_was_finished_meanwhile_is_found(tmp_path: Path) -> None:
    (tmp_path / "journal-000001.ndjson").write_bytes(b'{"event":"mark","text":"a"}\n')
    assert len(list(read(tmp_path / "journal-000001.ndjson.part"))) == 1


@pytest.mark.parametrize("line", [b"no json\n", b"[1]\n", b"{}\n", b"\xff\n"])
def test_what_is_no_journal_is_named(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "journal-000001.ndjson"
    path.write_bytes(b'{"event":"mark"}\n' + line)
    with pytest.raises(JournalError, match=r"journal-000001.ndjson, line 2 is not an event of a journal"):
        list(read(tmp_path))


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="no journal file in it"):
        list(read(tmp_path))
    with pytest.raises(JournalError, match="none: No such file"):
        list(read(tmp_path / "none"))


def test_a_directory_that_cannot_be_used_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"journal directory .*file can't be used: File exists"):
        Journal(ManualClock(), tmp_path / "file")


@pytest.mark.parametrize("short", [False, True])
def test_a_full_disk_ends_the_file_and_not_the_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, short: bool
) -> None:
    journal = Journal(ManualClock(), tmp_path)
    journal.write("mark", text="one")
    write = os.write

    def full(fd: int, data: bytes) -> int:
        if not short:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(fd, data[:10])

    monkeypatch.setattr(os, "write", full)
    journal.write("mark", text="two")
    journal.write("mark", text="three")
    monkeypatch.undo()
    journal.write("mark", text="four")
    journal.close()
    assert [event["text"] for event in journal.events] == ["one", "two", "three", "four"]
    assert [event["text"] for event in read(tmp_path)] == ["one"]
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert "the journal's files end at" in caplog.text


def test_bytes_and_other_things_have_a_form(tmp_path: Path) -> None:
    journal = Journal(ManualClock(), tmp_path)
    journal.write("mark", text={"key": b"\x00\x01", "ids": {2, 1}, "path": Path("x")})
    assert next(read(tmp_path))["text"] == {"key": {"base64": "AAE="}, "ids": [1, 2], "path": "x"}
    journal.close()


ENDLESS = """
import sys
from broker_sim.common.clock import ManualClock
from broker_sim.journal import Journal
journal = Journal(ManualClock(), sys.argv[1], file_bytes=20_000)
while True:
    journal.write("mark", text="x" * 100)
"""

LIMITED = """
import logging, resource, signal, sys
from broker_sim.common.clock import ManualClock
from broker_sim.journal import Journal
logging.basicConfig(level=logging.ERROR, format="%(message)s")
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
journal = Journal(ManualClock(), sys.argv[1])
for _ in range(200):
    journal.write("mark", text="x" * 100)
journal.close()
print(len(journal.events))
"""


def test_a_killed_process_leaves_whole_lines_without_a_gap(tmp_path: Path) -> None:
    writer = processes.start([sys.executable, "-c", ENDLESS, str(tmp_path)])
    try:
        deadline = time.monotonic() + processes.DEADLINE_S
        while len(names(tmp_path)) < 4:
            if time.monotonic() > deadline:
                processes.hangs(writer, "the fourth journal file")
            assert writer.poll() is None
            time.sleep(0.01)
    finally:
        processes.kill(writer)
    numbers = [event["seq"] for event in read(tmp_path)]
    assert len(numbers) > 300
    assert numbers == list(range(1, len(numbers) + 1))
    growing = [name for name in names(tmp_path) if name.endswith(".part")]
    assert growing in ([], names(tmp_path)[-1:])  # none: it was killed after a rename, before the next file was there


def test_a_file_that_may_grow_no_more_ends_with_a_whole_line(tmp_path: Path) -> None:
    command = [sys.executable, "-c", LIMITED, str(tmp_path)]
    done = processes.run(command, check=True)
    assert done.stdout == "200\n"
    assert done.stderr.count("the journal's files end at") == 1
    (part,) = tmp_path.iterdir()
    assert part.read_bytes().endswith(b"}\n")
    assert 50 < len(list(read(part))) < 100
