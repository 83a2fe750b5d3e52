"""Metadata of topics on a simulated disk that refuses calls and loses power: only acknowledged changes, and all of them, are there."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker_sim.metadata.topics import KafkaError
from broker_sim.simulation.virtual.disk import ProcessKilled, SimDisk
from broker_sim.storage.files import Files
from kafka_wire.errors import Err
from tests.data_plane.helpers import fill
from tests.simulation.metadata_life import metadata_life
from tests.support.ctx import Sim

HOME = Path("/data")


@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.parametrize("power", [False, True])
def test_a_cluster_dies_in_any_call_and_knows_what_it_has_acknowledged(sync: bool, power: bool) -> None:
    for seed in range(15):
        told = metadata_life(seed, sync=sync, power=power)
        assert told is None, f"seed {seed}: {told}"


class Refuses(SimDisk):
    """Disk whose changing calls fail from the ``at``-th on, ``times`` of them."""

    at = times = 0
    errno = errno.ENOSPC

    def _change(self, call: str, path: str) -> None:
        super()._change(call, path)
        self._refuse(path)

    def write(self, fd: int, data: bytes, position: int) -> int:
        self._refuse(self._file(fd).path)
        return super().write(fd, data, position)

    def _refuse(self, path: str) -> None:
        self.at -= 1
        if -self.times < self.at <= 0 and self.times:
            raise OSError(self.errno, os.strerror(self.errno), path)


def begun(disk: Files) -> Sim:
    sim = Sim(data_dir=HOME, files=disk, topics={"orders": 2})
    fill(sim, "orders", 3, partition=1)
    return sim


CHANGES: dict[str, Callable[[Sim], object]] = {
    "create": lambda sim: sim.state.create_topic("new", 3, configs={"retention.ms": "5"}),
    "grow": lambda sim: sim.state.create_partitions("orders", 4),
    "alter": lambda sim: sim.state.alter_topic("orders", {"retention.ms": "5"}),
    "delete": lambda sim: sim.state.delete_topic("orders"),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("times", [1, 1000])
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_a_change_that_any_call_of_the_disk_refuses_leaves_nothing(change: str, times: int, error: int) -> None:
    """The disk works again after that call, or not before the process has ended."""
    refusals = 0
    for at in range(1, 200):
        disk = Refuses(at)
        sim = begun(disk)
        before = {name: (len(t.partitions), dict(t.configs)) for name, t in sim.state.topics.items()}
        disk.at, disk.times, disk.errno = at, times, error
        try:
            CHANGES[change](sim)
        except KafkaError as refused:
            refusals += refused.error is Err.KAFKA_STORAGE_ERROR
            assert {name: (len(t.partitions), t.configs) for name, t in sim.state.topics.items()} == before
            again = Sim(data_dir=HOME, files=disk.killed())
            assert {name: (len(t.partitions), t.configs) for name, t in again.state.topics.items()} == before
            assert again.state.topics["orders"].partitions[1].log_end_offset == 3
        else:
            again = Sim(data_dir=HOME, files=disk.killed())
            assert {
                n: (len(t.partitions), t.configs.get("retention.ms")) for n, t in again.state.topics.items()
            } == AFTER[change]
        names = [name for name in again.state.disk.files.names(HOME) if again.state.disk.files.is_dir(HOME / name)]
        assert names == sorted(partition.name for partition in again.state.partitions())
        assert not again.state.disk.adopted
        if disk.at > 0:
            break
    assert refusals >= 4
    assert at < 199


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_during_which_power_is_lost_in_any_call_has_happened_or_not(change: str) -> None:
    outcomes = set()
    for seed in range(3):
        for at in range(1, 200):
            disk = SimDisk(f"{seed} {at}")
            sim = begun(disk)
            disk.fsync_all()
            before, topics = sim.state, set()
            disk.die_in(at, lambda: None)
            try:
                CHANGES[change](sim)
            except ProcessKilled:
                topics = {"before", "after"}
            else:
                topics = {"after"}
            found = Sim(data_dir=HOME, files=disk.power_lost()).state
            now = {name: (len(t.partitions), t.configs.get("retention.ms")) for name, t in found.topics.items()}
            outcome = "before" if now == {"orders": (2, None)} else "after"
            assert outcome in topics
            assert now in ({"orders": (2, None)}, AFTER[change])
            if "orders" in now:
                assert found.topics["orders"].partitions[1].log_end_offset == 3
                assert found.topics["orders"].topic_id == before_id(before)
            outcomes.add(outcome)
            if topics == {"after"}:
                break
        assert at < 199
    assert outcomes == {"before", "after"}


def before_id(state: object) -> bytes:
    topics = {topic.name: topic_id for topic_id, topic in state.topics_by_id.items()}  # type: ignore[attr-defined]
    return topics.get("orders", b"")


AFTER: dict[str, dict[str, tuple[int, str | None]]] = {
    "create": {"orders": (2, None), "new": (3, "5")},
    "grow": {"orders": (4, None)},
    "alter": {"orders": (2, "5")},
    "delete": {},
}


# --- on a real disk ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of a megabyte."""
    home = tmp_path / "small"
    home.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", home], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("only root can mount a file system of its own")
    yield home
    subprocess.run(["umount", home], check=True)


def fill_up(home: Path, leave: int) -> Path:
    """A file that leaves so many pages of the file system."""
    ballast = home / "ballast"
    page = bytes(4096)
    with ballast.open("wb", buffering=0) as handle, contextlib.suppress(OSError):
        while handle.write(page) == len(page):
            pass
    os.truncate(ballast, max(ballast.stat().st_size // 4096 - leave, 0) * 4096)
    return ballast


def test_a_topic_that_a_full_disk_refuses_does_not_come_back(small: Path) -> None:
    refused = 0
    for leave in range(9):
        home = small / f"data{leave}"
        sim = Sim(data_dir=home, topics={"orders": 1})
        ballast = fill_up(small, leave)
        try:
            sim.state.create_topic("new", 3)
        except KafkaError as error:
            refused += error.error is Err.KAFKA_STORAGE_ERROR
        known, left = list(sim.state.topics), sorted(path.name for path in home.iterdir() if path.is_dir())
        ballast.unlink()
        again = Sim(data_dir=home)
        for state in (again.state, sim.state):
            state.close()  # whatever comes: it is to be unmounted
        assert left == sorted(partition.name for partition in sim.state.partitions())
        assert (list(again.state.topics), again.state.disk.adopted) == (known, False)
    assert refused >= 3


# --- directories that nobody knows ------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("killed_logs")
def test_a_stray_directory_does_not_make_a_cluster_somebody_elses(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = Sim(topics={"orders": 1}, data_dir=tmp_path / "other")
    fill(source, "orders", 4)
    source.state.close()
    sim = Sim(topics={"t": 1}, data_dir=tmp_path / "ours")
    sim.state.close()
    (tmp_path / "other" / "orders-0").rename(tmp_path / "ours" / "orders-0")
    (tmp_path / "ours" / "photos-2024").mkdir()
    (tmp_path / "ours" / "photos-2024" / "beach.jpg").write_bytes(b"sea")

    again = Sim(data_dir=tmp_path / "ours")
    assert (list(again.state.topics), again.state.disk.adopted) == (["t"], False)
    told = [line for line in caplog.messages if "is not served and left unchanged" in line]
    assert len(told) == 1
    assert "orders-0" in told[0]
    assert "--data" in told[0]
    assert (tmp_path / "ours" / "photos-2024" / "beach.jpg").exists()

    again.state.create_topic("orders", 1)  # the name is free, and what was there is not lost
    assert again.state.topics["orders"].partitions[0].log_end_offset == 0
    [aside] = (tmp_path / "ours").glob("orders-0.*-stray")
    assert (aside / f"{0:020d}.log").stat().st_size > 0
    assert aside.name in caplog.messages[-1]


@pytest.mark.usefixtures("killed_logs")
def test_a_partition_that_was_never_acknowledged_brings_no_records_of_another_topic(tmp_path: Path) -> None:
    """A log that a deletion could not remove is not there again under the same name."""
    sim = Sim(topics={"t": 1}, data_dir=tmp_path)
    fill(sim, "t", 4)
    kept = sim.state.disk.drop_log
    sim.state.disk.drop_log = lambda partition: None  # type: ignore[method-assign]
    sim.state.delete_topic("t")
    sim.state.disk.drop_log = kept  # type: ignore[method-assign]
    assert (tmp_path / "t-0").exists()
    assert sim.state.create_topic("t", 1).partitions[0].log_end_offset == 0
    sim.state.close()
    assert Sim(data_dir=tmp_path).state.topics["t"].partitions[0].log_end_offset == 0
