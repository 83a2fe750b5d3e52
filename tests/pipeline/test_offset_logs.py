"""Names lead to logs; what they don't lead to is told; bytes are shared out evenly."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_sim.common.text import UsageError
from broker_sim.pipeline import files
from broker_sim.pipeline.offset_logs import LEAST_BYTES, FoundLogs, Log, find_logs, packed, share_out
from broker_sim.pipeline.segments import SegmentFile
from tests.importing.logs import batch_of, commit, write_log

OFFSETS = "__consumer_offsets"
DATA = batch_of([commit("g", "t", 0, 1)], 0)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory with three logs of groups and one of data."""
    for index in (0, 1, 12):
        write_log(tmp_path / "data", OFFSETS, index, (0, DATA))
    write_log(tmp_path / "data", "orders", 0, (0, DATA))
    (tmp_path / "data" / "meta.properties").write_text("version=1\n")
    return tmp_path / "data"


def keys(found: FoundLogs) -> list[str]:
    return [log.key for log in found.logs]


def why(found: FoundLogs) -> list[tuple[str, str]]:
    return [(Path(one.file).name, one.reason) for one in found.skipped]


def test_a_data_directory(data: Path) -> None:
    found = find_logs([str(data)])
    assert keys(found) == ["data/0", "data/1", "data/12"]
    assert found.skipped == []
    assert keys(find_logs([str(data)], "monday")) == ["monday/0", "monday/1", "monday/12"]


def test_a_folder_a_file_and_relative_paths(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert keys(find_logs([str(data / f"{OFFSETS}-12")])) == ["data/12"]
    assert keys(find_logs([f"{data}/{OFFSETS}-12/"])) == ["data/12"]
    assert keys(find_logs([str(data / f"{OFFSETS}-1" / f"{0:020d}.log")])) == ["data/1"]
    monkeypatch.chdir(data)
    assert keys(find_logs(["."])) == ["data/0", "data/1", "data/12"]
    assert keys(find_logs([f"{OFFSETS}-0"])) == ["data/0"]


def test_patterns_and_uris(data: Path) -> None:
    assert keys(find_logs([f"{data}/{OFFSETS}-1*"])) == ["data/1", "data/12"]
    assert keys(find_logs([f"{data.parent}/da?a/{OFFSETS}-[01]"])) == ["data/0", "data/1"]
    assert keys(find_logs([f"{data.parent}/*"])) == ["data/0", "data/1", "data/12"]
    assert keys(find_logs([data.as_uri()])) == ["data/0", "data/1", "data/12"]
    assert keys(find_logs([f"file:{data}/{OFFSETS}-*/*.log"])) == ["data/0", "data/1", "data/12"]


def test_a_name_that_looks_like_a_pattern_is_itself_first(tmp_path: Path) -> None:
    write_log(tmp_path / "a[1]", OFFSETS, 4, (0, DATA))
    assert keys(find_logs([str(tmp_path / "a[1]")])) == ["a[1]/4"]


def test_the_names_in_options(data: Path) -> None:
    assert files.names_of({"path": "a, b"}) == ["a", "b"]
    assert files.names_of({"paths": '["a,b", "c"]'}) == ["a,b", "c"]
    odd = data.with_name("x, y")
    odd.mkdir()
    assert files.names_of({"path": str(odd)}) == [str(odd)]
    with pytest.raises(UsageError, match="no path"):
        files.names_of({})


@pytest.mark.parametrize("name", ["nowhere", "nowhere/*", "file:///nowhere/at/all"])
def test_a_name_that_leads_nowhere(name: str, data: Path) -> None:
    with pytest.raises(UsageError, match="no such file or folder"):
        find_logs([str(data), name])


def test_directories_that_are_no_logs_are_reported(data: Path) -> None:
    (data.parent / "empty").mkdir()
    (data.parent / "loose").mkdir()
    (data.parent / "loose" / f"{0:020d}.log").write_bytes(DATA)
    (data / f"{OFFSETS}-7").mkdir()
    (data / f"{OFFSETS}-1" / "notes.txt").write_text("mine")
    named = [
        data / "orders-0",
        data.parent / "empty",
        data.parent / "loose",
        data / f"{OFFSETS}-7",
        data / "meta.properties",
    ]
    assert why(find_logs([str(one) for one in named])) == [
        ("orders-0", "a partition of the topic orders, not of __consumer_offsets"),
        ("empty", "no __consumer_offsets-N folder in it"),
        ("loose", "segments in a folder without their partition in its name, as __consumer_offsets-12 does"),
        ("__consumer_offsets-7", "no segments in it"),
        ("meta.properties", "not a segment in a __consumer_offsets-N folder"),
    ]


def test_folders_that_kafka_was_deleting_are_reported(data: Path) -> None:
    name = f"{OFFSETS}-3.{'0' * 32}-"
    for ending in ("delete", "future", "stray"):
        (data / f"{name}{ending}").mkdir()
    reasons = ["Kafka was deleting it", "an unfinished move between disks", "Kafka no longer knew it"]
    found = find_logs([str(data)])
    assert [reason for _, reason in why(found)] == reasons
    assert keys(found) == ["data/0", "data/1", "data/12"]


def test_a_folder_without_read_permission_is_reported(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    list_all = files.listing

    def refusing(folder: str) -> list[files.FileEntry]:
        if folder.endswith("-1"):
            raise UsageError(f"{folder}: Permission denied")
        return list_all(folder)

    monkeypatch.setattr(files, "listing", refusing)
    found = find_logs([str(data)])
    assert keys(found) == ["data/0", "data/12"]
    assert why(found) == [(f"{OFFSETS}-1", "it can't be read: Permission denied")]


def test_copies_of_several_brokers_are_one_log(tmp_path: Path) -> None:
    short = write_log(tmp_path / "broker-1", OFFSETS, 5, (0, DATA))
    write_log(tmp_path / "broker-2", OFFSETS, 5, (0, DATA), (9, DATA))
    both = [str(tmp_path / "broker-1"), str(tmp_path / "broker-2")]
    found = find_logs(both, "friday")
    assert [Path(log.path).parent.name for log in found.logs] == ["broker-2"]
    (skipped,) = found.skipped
    assert skipped.file == str(short)
    assert skipped.reason.startswith("another copy of it reaches as far or further: ")
    assert keys(find_logs(both)) == ["broker-1/5", "broker-2/5"]  # two runs, unless told


def test_the_same_log_named_twice_is_read_once(data: Path) -> None:
    found = find_logs([str(data), str(data / f"{OFFSETS}-1")])
    assert keys(found) == ["data/0", "data/1", "data/12"]
    assert [len(log.segments) for log in found.logs] == [1, 1, 1]
    assert found.skipped == []


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("nonsense://host/x", "nonsense://host: it can't be opened: .*nonsense"),
        ("file://elsewhere/x", "a file: URI of another machine"),
    ],
)
def test_files_that_cannot_be_opened_are_one_line(name: str, says: str) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        find_logs([name])
    assert "\n" not in str(caught.value)


def test_another_file_system(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one of Arrow's: what is opened goes through its interface alone."""
    from pyarrow import fs

    from broker_sim.pipeline.segments import read_offsets

    def remote(uri: str) -> tuple[Any, str]:
        assert uri == "s3://bucket"
        return fs.SubTreeFileSystem(str(data.parent), fs.LocalFileSystem()), ""

    monkeypatch.setattr(files, "_system", remote)
    found = find_logs(["s3a://bucket/data"])
    assert keys(found) == ["data/0", "data/1", "data/12"]
    assert keys(find_logs([f"s3a://bucket/d*/{OFFSETS}-1?"])) == ["data/12"]
    assert sum(rows.num_rows for log in found.logs for rows in read_offsets(log.path)) == 3
    with pytest.raises(UsageError, match="no such file or folder"):
        find_logs(["s3a://bucket/elsewhere"])


# ------------------------------------------------------------------------------------------------ sharing out


def log_of(partition: int, *sizes: int) -> Log:
    bases = range(0, 100 * len(sizes), 100)
    untils = [*bases[1:], None]
    segments = tuple(
        SegmentFile(f"{base}", base, size, until) for base, size, until in zip(bases, sizes, untils, strict=True)
    )
    return Log("run", partition, f"/{partition}", segments)


@given(
    st.lists(st.lists(st.integers(0, 4 * LEAST_BYTES), min_size=1, max_size=8), max_size=60),
    st.integers(1, 16),
)
def test_every_segment_is_in_one_share(sizes: list[list[int]], tasks: int) -> None:
    logs = [log_of(index, *one) for index, one in enumerate(sizes)]
    shares = share_out(logs, tasks)
    assert len(shares) <= tasks
    assert all(shares)
    slices = sorted(
        ((one.path, one.start, one.end) for share in shares for one in share), key=lambda s: (int(s[0][1:]), s[1])
    )
    for log in logs:
        mine = [(start, end) for path, start, end in slices if path == log.path]
        assert mine[0][0] == 0
        assert mine[-1][1] is None
        assert all(end == start for (_, end), (start, _) in itertools.pairwise(mine))


def test_shares_are_even() -> None:
    shares = share_out([log_of(index, *[1 << 20] * (1 + index % 3)) for index in range(50)], 4)
    sizes = [sum(one.size for one in share) for share in shares]
    assert len(sizes) == 4
    assert max(sizes) / min(sizes) < 1.1


def test_one_large_log_is_cut_between_its_segments() -> None:
    shares = share_out([log_of(0, *[1 << 20] * 10)], 2)
    assert [[(one.start, one.end) for one in share] for share in shares] == [[(0, 500)], [(500, None)]]


def test_little_is_one_task() -> None:
    assert len(share_out([log_of(index, 1000) for index in range(50)], 8)) == 1
    assert share_out([], 8) == []
    assert packed([], 3) == []


def test_nothing_but_names_is_kept_open(data: Path) -> None:
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("counts open files in /proc")
    before = len(os.listdir("/proc/self/fd"))
    find_logs([str(data)])
    assert len(os.listdir("/proc/self/fd")) == before
