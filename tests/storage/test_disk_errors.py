"""A disk that is full or fails: the append is answered with an error and leaves nothing, all else goes on."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from broker_sim.storage import KafkaStorageError, PartitionLog
from broker_sim.storage.files import Files
from kafka_wire.errors import Err
from tests.storage.batches import NOW_MS, FailingFiles, add, batch, config, content, fill, idempotent, values


def test_a_disk_that_fills_up_within_a_batch_loses_that_batch_alone(tmp_path: Path) -> None:
    files = FailingFiles()
    log = PartitionLog(tmp_path / "t-0", files=files)
    fill(log, 5)
    size = log.size_bytes
    for space in (0, 1, 50, len(batch("lost")) - 1):
        files.space = space
        with pytest.raises(KafkaStorageError) as caught:
            add(log, batch("lost"))
        assert caught.value.error == Err.KAFKA_STORAGE_ERROR
        assert "No space left" in str(caught.value)
        assert os.path.getsize(tmp_path / "t-0" / f"{0:020d}.log") == size
        assert len(values(log)) == 5
    files.space = None
    assert add(log, batch("after")).base_offset == 5
    log.close()
    assert values(PartitionLog(tmp_path / "t-0"))[5:] == [b"after"]


def test_a_partial_write_that_goes_on_is_no_error(tmp_path: Path) -> None:
    class Slow(Files):
        def write(self, fd: int, data: bytes, position: int) -> int:
            return super().write(fd, data[:7], position)

    log = PartitionLog(tmp_path / "t-0", files=Slow())
    fill(log, 5)
    log.close()
    assert content(PartitionLog(tmp_path / "t-0")) == content(log)


def test_a_torn_write_that_cannot_be_cut_off_is_overwritten(tmp_path: Path) -> None:
    files = FailingFiles()
    log = PartitionLog(tmp_path / "t-0", files=files)
    fill(log, 5)
    files.space, files.failing = 60, {"truncate"}
    with pytest.raises(KafkaStorageError):
        add(log, batch("lost" * 100))
    assert len(values(log)) == 5
    files.space, files.failing = None, set()
    add(log, batch("x"))
    assert [row.offset for row in content(log)] == list(range(6))
    log.close()
    assert values(PartitionLog(tmp_path / "t-0"))[5:] == [b"x"]


def test_a_producer_may_send_again_what_failed(tmp_path: Path) -> None:
    files = FailingFiles()
    log = PartitionLog(tmp_path / "t-0", files=files)
    add(log, idempotent(0))
    files.space = 20
    with pytest.raises(KafkaStorageError):
        add(log, idempotent(1))
    files.space = None
    info = add(log, idempotent(1))
    assert (info.base_offset, info.duplicate) == (1, False)
    log.close()


@pytest.mark.parametrize("space", [0, 4, 30])
def test_a_segment_that_cannot_be_begun_leaves_the_log_as_it_was(tmp_path: Path, space: int) -> None:
    files = FailingFiles()
    log = PartitionLog(tmp_path / "t-0", config(segment_bytes=1000), files=files)
    fill(log, 5)
    files.space = space
    with pytest.raises(KafkaStorageError):
        add(log, batch("y" * 300))
    files.space = None
    assert (log.log_end_offset, len(values(log))) == (5, 5)
    add(log, batch("y" * 300))
    fill(log, 10)
    log.close()
    again = PartitionLog(tmp_path / "t-0", config(segment_bytes=1000))
    assert content(again) == content(log)


def test_retention_makes_room_on_a_disk_that_is_full(tmp_path: Path) -> None:
    files = FailingFiles()
    log = PartitionLog(tmp_path / "t-0", config(segment_bytes=1000, retention_bytes=1500), files=files)
    fill(log, 40)
    before = len(log.segments)
    files.space = 0
    with pytest.raises(KafkaStorageError):  # room was made, and this disk does not notice
        log.apply_retention(NOW_MS)
    assert len(log.segments) < before - 5
    assert log.log_start_offset == int(min((tmp_path / "t-0").glob("*.log")).stem) > 0


def test_a_log_that_cannot_be_cut_begins_where_it_began(tmp_path: Path) -> None:
    """Neither noted nor removed: whoever was told another start would see it go back after a kill."""

    class ReadOnly(FailingFiles):
        broken = False

        def _fail(self) -> None:
            if self.broken:
                raise OSError(errno.EROFS, "read-only file system")

        def remove(self, path: Path) -> None:
            self._fail()
            super().remove(path)

        def replace_file(self, *args: Any, **options: Any) -> None:
            self._fail()
            super().replace_file(*args, **options)

    files = ReadOnly()
    settings = config(segment_bytes=1000, retention_bytes=1500)
    log = PartitionLog(tmp_path / "t-0", settings, files=files)
    fill(log, 40)
    before = content(log)
    files.broken = True
    with pytest.raises(KafkaStorageError):
        log.apply_retention(NOW_MS)
    assert log.log_start_offset == 0
    assert content(log) == before
    again = PartitionLog(tmp_path / "t-0", settings)
    assert again.log_start_offset == 0
    files.broken = False
    log.apply_retention(NOW_MS)
    assert log.log_start_offset > 0


def test_a_removal_that_was_cut_short_is_finished_and_leaves_no_hole(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = PartitionLog(tmp_path / "t-0", config(segment_bytes=1000))
    fill(log, 40)
    bases = [segment.base_offset for segment in log.segments]
    log.close()
    (tmp_path / "log-start-offset-checkpoint").write_text(f"0\n1\nt 0 {bases[3]}\n")
    (tmp_path / "t-0" / f"{bases[1]:020d}.log").unlink()
    again = PartitionLog(tmp_path / "t-0", config(segment_bytes=1000))
    assert [segment.base_offset for segment in again.segments] == bases[3:]
    assert len(values(again)) == 40 - bases[3]
    assert caplog.messages == []


def test_a_sync_that_fails_takes_the_batch_back(tmp_path: Path) -> None:
    files = FailingFiles()
    log = PartitionLog(tmp_path / "t-0", sync=True, files=files)
    fill(log, 2)
    files.failing = {"sync"}
    with pytest.raises(KafkaStorageError):
        add(log, batch("lost"))
    files.failing = set()
    assert add(log, batch("kept")).base_offset == 2
    assert len(values(log)) == 3
    log.close()


def test_with_sync_every_append_waits_for_the_disk_and_a_new_segment_for_its_directory(tmp_path: Path) -> None:
    files = FailingFiles()
    log = PartitionLog(tmp_path / "t-0", config(segment_bytes=1000), sync=True, files=files)
    files.calls.clear()
    fill(log, 1)
    assert files.calls[-2:] == ["write", "sync"]
    fill(log, 4)
    assert "sync_dir" not in files.calls[-8:]
    fill(log, 1)
    assert len(log.segments) == 2
    assert "sync_dir" in files.calls[-8:]
    log.close()


def test_without_sync_a_small_append_is_one_system_call(tmp_path: Path) -> None:
    files = FailingFiles()
    log = PartitionLog(tmp_path / "t-0", files=files)
    fill(log, 1)
    files.calls.clear()
    fill(log, 500)
    assert files.calls == ["write"] * 500
    log.close()


def test_a_large_read_is_one_system_call_and_a_search_for_its_start(tmp_path: Path) -> None:
    files = FailingFiles()
    log = PartitionLog(tmp_path / "t-0", files=files)
    fill(log, 300, size=10_000)
    files.calls.clear()
    assert len(log.read(100, 1 << 20)) > 1_000_000
    assert files.calls == ["read", "read"]
    log.close()


def test_a_read_that_fails_is_told_and_the_next_one_works(tmp_path: Path) -> None:
    files = FailingFiles()
    log = PartitionLog(tmp_path / "t-0", files=files)
    fill(log, 3)
    files.failing = {"read"}
    with pytest.raises(KafkaStorageError):
        log.read(0, 1000)
    with pytest.raises(KafkaStorageError):
        log.offset_for_timestamp(0)
    files.failing = set()
    assert len(values(log)) == 3
    log.close()


def test_a_directory_that_cannot_be_used_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(KafkaStorageError):
        PartitionLog(tmp_path / "file" / "t-0")
    with pytest.raises(KafkaStorageError):
        PartitionLog(tmp_path / "file")


def test_many_logs_share_few_descriptors(tmp_path: Path) -> None:
    files = Files(max_open=8)
    logs = [PartitionLog(tmp_path / f"t-{number}", files=files) for number in range(30)]
    for _ in range(3):
        for log in logs:
            fill(log, 1)
    opened = [name for name in os.listdir("/proc/self/fd") if _target(name).startswith(str(tmp_path))]
    assert len(opened) <= 8
    assert all(len(values(log)) == 3 for log in logs)
    for log in logs:
        log.close()


def _target(fd: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return ""


def test_what_was_acknowledged_survives_sigkill(tmp_path: Path) -> None:
    program = textwrap.dedent(
        """
        import sys
        from pathlib import Path
        from broker_sim.storage import LogConfig, PartitionLog
        from kafka_wire.record_batch import build_batch
        log = PartitionLog(Path(sys.argv[1]), LogConfig(segment_bytes=20_000))
        while True:
            info = log.append(build_batch([(None, b"%d" % log.log_end_offset)], 1), leader_epoch=0, now_ms=1)
            sys.stdout.write(f"{info.base_offset}\\n")
            sys.stdout.flush()
        """
    )
    expected = -1
    for _ in range(3):
        with subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path / "t-0")], stdout=subprocess.PIPE, text=True, cwd=Path.cwd()
        ) as child:
            assert child.stdout is not None
            for line in child.stdout:
                acknowledged = int(line)
                if acknowledged > expected + 400:
                    child.send_signal(signal.SIGKILL)
                    break
            rest = child.stdout.read().splitlines()
        told = [line for line in rest if line.isdigit()]
        expected = int(told[-1]) if told and rest[-1].isdigit() else acknowledged
        log = PartitionLog(tmp_path / "t-0")
        assert log.log_end_offset > acknowledged
        assert values(log) == [b"%d" % number for number in range(log.log_end_offset)]
        expected = log.log_end_offset - 1
        log.close()
