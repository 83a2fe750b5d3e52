"""The simulated disk by itself, and logs on it: two images of every file, what a death leaves of them, what can be wrong with it."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from broker_sim.common.text import UsageError
from broker_sim.simulation.virtual.disk import ProcessKilled, SimDisk
from broker_sim.storage import KafkaStorageError, PartitionLog
from tests.storage.batches import NOW_MS, add, batch, config, fill, idempotent, values

HOME = Path("/data")
LOG = HOME / "orders-0"
SEGMENT = LOG / f"{0:020d}.log"


def home(seed: object = 0) -> SimDisk:
    """A disk with a directory that is durable."""
    disk = SimDisk(seed)
    disk.make_dir(HOME, sync=True)
    return disk


def put(disk: SimDisk, name: str, data: bytes, *, sync: bool = False, durable_name: bool = True) -> int:
    fd = disk.open(HOME / name, create=True)
    if durable_name:
        disk.sync_dir(HOME)
    disk.append(fd, data, disk.size(fd))
    if sync:
        disk.sync(fd)
    return fd


def log_on(disk: SimDisk, *, sync: bool = False, **settings: int) -> PartitionLog:
    return PartitionLog(LOG, config(**settings), files=disk, sync=sync)


# --- what a death leaves ---------------------------------------------------------------------------------------------------


def test_what_was_written_is_there_for_the_next_process() -> None:
    disk = home()
    fd = put(disk, "a", b"hello")
    fresh = disk.killed()
    assert fresh.read_file(HOME / "a") == b"hello"
    for call in (lambda: disk.write(fd, b"x", 0), lambda: disk.read_file(HOME / "a"), lambda: disk.names(HOME)):
        with pytest.raises(ProcessKilled):
            call()
    with pytest.raises(OSError, match="Bad file descriptor"):
        fresh.read(fd, 1, 0)


def test_what_was_synced_outlives_the_power_and_what_was_not_is_kept_lost_or_torn() -> None:
    whole, news, fates = bytes(range(256)) * 2, b"n" * 3000, Counter[str]()
    for seed in range(200):
        disk = home(seed)
        put(disk, "a", whole, sync=True)
        put(disk, "a", news)
        found = disk.power_lost().read_file(HOME / "a")
        assert found.startswith(whole)
        rest = found[len(whole) :]
        fates["lost" if not rest else "kept" if rest == news else "cut" if rest.strip(b"n") == b"" else "torn"] += 1
        assert set(rest) <= set(b"n\0")
    assert set(fates) == {"lost", "kept", "cut", "torn"}
    assert min(fates.values()) >= 10


def test_a_file_may_have_its_name_before_its_bytes_and_mostly_not_where_it_replaces_another() -> None:
    new, over = Counter[bytes | None](), Counter[bytes | None]()
    for seed in range(150):
        disk = home(seed)
        put(disk, "old", b"one", sync=True)
        disk.replace_file(HOME / "old", b"two")
        disk.replace_file(HOME / "new", b"two")
        disk = disk.power_lost()
        over[disk.read_file(HOME / "old")] += 1
        new[disk.read_file(HOME / "new") if disk.exists(HOME / "new") else None] += 1
    assert over[b"one"] + over[b"two"] > 140
    assert {b"", b"one", b"two"} <= set(over)
    assert "two" not in {data.decode() for data in over if data not in (b"one", b"two")}
    assert {None, b"", b"two"} <= set(new)


def test_of_a_directory_the_changes_up_to_one_of_them_are_there_and_now_and_then_any_of_them() -> None:
    seen = Counter[str]()
    for seed in range(200):
        disk = home(seed)
        for name in "abcd":
            disk.close(disk.open(HOME / name, create=True))
        disk.remove(HOME / "a")
        seen["".join(disk.power_lost().names(HOME))] += 1
    usual = {"", "a", "ab", "abc", "abcd", "bcd"}
    assert usual < set(seen)
    assert sum(seen[names] for names in usual) > 150


def test_a_file_that_was_renamed_is_not_there_under_two_names() -> None:
    left = set()
    for seed in range(200):
        disk = home(seed)
        put(disk, "a", b"x", sync=True)
        disk.rename(HOME / "a", HOME / "b")
        disk.rename(HOME / "b", HOME / "c")
        left.add("".join(disk.power_lost().names(HOME)))
    assert left == {"a", "b", "c"}


def test_a_directory_that_is_renamed_has_all_that_was_in_it() -> None:
    disk = home()
    disk.make_dir(LOG / "deep", sync=True)
    disk.replace_file(LOG / "deep" / "file", b"x", sync=True)
    disk.rename(LOG, HOME / "aside")
    assert not disk.is_dir(LOG)
    assert disk.read_file(HOME / "aside" / "deep" / "file") == b"x"
    disk.sync_dir(HOME)
    assert disk.power_lost().read_file(HOME / "aside" / "deep" / "file") == b"x"


def test_a_directory_that_nobody_has_synced_may_be_gone_with_all_that_is_in_it() -> None:
    found = set()
    for seed in range(40):
        disk = home(seed)
        disk.make_dir(HOME / "deep")
        disk.replace_file(HOME / "deep" / "file", b"x", sync=True)
        found.add(disk.power_lost().exists(HOME / "deep" / "file"))
    assert found == {True, False}


def test_what_a_failed_sync_was_to_make_durable_never_will_be() -> None:
    for seed in range(20):
        disk = home(seed)
        fd = put(disk, "a", b"first", sync=True)
        disk.append(fd, b"second", 5)
        with disk.fault("fails", calls=["sync"]), pytest.raises(OSError, match="Input/output"):
            disk.sync(fd)
        disk.append(fd, b"third", 11)
        disk.sync(fd)
        assert disk.power_lost().read_file(HOME / "a") == b"first" + bytes(6) + b"third"


def test_a_process_dies_in_the_midst_of_a_call() -> None:
    sizes = set()
    for seed in range(60):
        disk = home(seed)
        fd = put(disk, "a", b"")
        died: list[str] = []
        disk.die_in(2, lambda died=died: died.append("dead"))  # type: ignore[misc]
        disk.write(fd, b"x" * 100, 0)
        with pytest.raises(ProcessKilled):
            disk.append(fd, b"y" * 1000, 100)
        assert died
        found = disk.killed().read_file(HOME / "a")
        assert found == b"x" * 100 + b"y" * (len(found) - 100)
        sizes.add(len(found))
    assert len(sizes) > 20
    assert max(sizes) <= 1100


@pytest.mark.parametrize("call", ["rename", "remove", "truncate", "add_dir", "open"])
def test_a_call_in_whose_midst_a_process_dies_has_happened_or_not(call: str) -> None:
    ways: dict[str, Callable[[SimDisk], object]] = {
        "rename": lambda disk: disk.rename(HOME / "a", HOME / "b"),
        "remove": lambda disk: disk.remove(HOME / "a"),
        "truncate": lambda disk: disk.truncate(disk.open(HOME / "a"), 0),
        "add_dir": lambda disk: disk.add_dir(HOME / "b"),
        "open": lambda disk: disk.open(HOME / "b", create=True),
    }
    outcomes = set()
    for seed in range(30):
        disk = home(seed)
        put(disk, "a", b"x")
        disk.die_in(1, lambda: None)
        with pytest.raises(ProcessKilled):
            ways[call](disk)
        disk = disk.killed()
        outcomes.add((tuple(disk.names(HOME)), sum(map(len, disk.image().values()))))
    assert len(outcomes) == 2


# --- what can be wrong with it ----------------------------------------------------------------------------------------------


def test_a_full_disk_takes_what_fits_and_then_nothing() -> None:
    disk = home()
    fd = put(disk, "a", b"12345")
    with disk.fault("full", free_bytes=3):
        assert disk.write(fd, b"abcdef", 5) == 3
        with pytest.raises(OSError) as caught:
            disk.write(fd, b"def", 8)
        assert caught.value.errno == errno.ENOSPC
        assert disk.write(fd, b"54321", 0) == 5, "what is there may be overwritten"
        assert disk.space(HOME)[1] == 0
        disk.truncate(fd, 6)
        assert disk.write(fd, b"xyz", 6) == 2
    assert disk.write(fd, b"xyz", 6) == 3


def test_faults_hit_what_fits_their_pattern_while_they_last() -> None:
    disk = home()
    a, b = put(disk, "a", b"1"), put(disk, "b", b"1")
    broken = disk.fault("fails", paths="*/a", calls=["read", "write"])
    for call in (lambda: disk.read(a, 1, 0), lambda: disk.write(a, b"2", 0), lambda: disk.read_file(HOME / "a")):
        with pytest.raises(OSError, match="Input/output"):
            call()
    assert disk.read(b, 1, 0) == b"1"
    disk.sync(a)
    broken.heal()
    broken.heal()
    assert disk.read(a, 1, 0) == b"1"
    with disk.fault("readonly"):
        for change in (
            lambda: disk.write(a, b"2", 0),
            lambda: disk.remove(HOME / "a"),
            lambda: disk.add_dir(HOME / "c"),
        ):
            with pytest.raises(OSError, match="Read-only"):
                change()
        assert disk.read(a, 1, 0) == b"1"
    assert disk.faults == []


def test_what_can_not_be_meant_is_said() -> None:
    disk = home()
    with pytest.raises(UsageError, match="did you mean 'full'"):
        disk.fault("ful")
    with pytest.raises(UsageError, match="call of a disk"):
        disk.fault("fails", calls=["seek"])
    with pytest.raises(UsageError, match="counted from 1"):
        disk.die_in(0, lambda: None)
    with pytest.raises(UsageError, match="no non-empty file"):
        disk.flip_bit("*.log")


def test_one_process_at_a_time_has_the_lock() -> None:
    disk = home()
    held = disk.lock(HOME / ".lock")
    other = SimDisk()
    other._image = disk._image
    with pytest.raises(BlockingIOError):
        other.lock(HOME / ".lock")
    held.close()
    other.lock(HOME / ".lock").close()
    disk.lock(HOME / ".lock")
    disk.killed().lock(HOME / ".lock")


def test_another_fault_elsewhere_changes_nothing_of_what_happens_here() -> None:
    def life(more: bool) -> bytes:
        disk = home(3)
        put(disk, "a", b"x" * 5000)
        if more:
            put(disk, "b", b"y" * 5000)
            disk.fault("fails", paths="*/b").heal()
        return disk.power_lost().read_file(HOME / "a")

    assert life(False) == life(True)


# --- logs on it -------------------------------------------------------------------------------------------------------------


def test_a_log_on_it_is_byte_by_byte_the_one_on_a_real_disk(tmp_path: Path) -> None:
    disk = home()
    for directory, files in ((LOG, {"files": disk}), (tmp_path / "orders-0", {})):
        log = PartitionLog(directory, config(segment_bytes=2000, index_interval_bytes=100), **files)  # type: ignore[arg-type]
        fill(log, 60)
        log.close()
    real = {path.name: path.read_bytes() for path in (tmp_path / "orders-0").iterdir()}
    assert {path.rpartition("/")[2]: data for path, data in disk.image().items()} == real


@pytest.mark.parametrize("sync", [False, True])
def test_a_log_loses_nothing_by_a_kill_in_the_midst_of_any_call(sync: bool) -> None:
    calls = 0
    for at_call in range(1, 400):
        disk = home(at_call)
        log, acked = log_on(disk, sync=sync, segment_bytes=400), list[bytes]()
        disk.die_in(at_call, lambda: None)
        try:
            for number in range(12):
                add(log, batch(b"%d" % number))
                acked.append(b"%d" % number)
            log.flush()
        except ProcessKilled:
            calls += 1
        else:
            break
        found = values(log_on(disk.killed(), sync=sync, segment_bytes=400))
        assert found[: len(acked)] == acked
        assert found in (acked, [*acked, b"%d" % len(acked)])
    assert calls > 30


def test_what_a_synced_log_has_acknowledged_outlives_the_power() -> None:
    for seed in range(60):
        disk = home(seed)
        disk.make_dir(LOG, sync=True)
        log, acked = log_on(disk, sync=True, segment_bytes=500), list[bytes]()
        disk.die_in(20 + 2 * seed, lambda: None)
        with suppress(ProcessKilled):
            for number in range(100):
                add(log, batch(b"%d" % number))
                acked.append(b"%d" % number)
        assert len(acked) < 100
        disk = disk.power_lost()
        found = values(log_on(disk, sync=True, segment_bytes=500))
        assert found[: len(acked)] == acked
        assert len(found) <= len(acked) + 1


def test_of_a_log_that_is_not_synced_the_beginning_outlives_the_power() -> None:
    left = set()
    for seed in range(120):
        disk = home(seed)
        log = log_on(disk, segment_bytes=3000)
        fill(log, 30)
        before = values(log)
        found = values(log_on(disk.power_lost(), segment_bytes=3000))
        assert found == before[: len(found)]
        left.add(len(found))
    assert {0, 30} < left
    assert len(left) > 6


def test_what_a_killed_process_had_not_synced_is_durable_before_it_is_served() -> None:
    """Else it could be read, and be gone later: a hole, if its segment was rolled by then."""
    for seed in range(30):
        disk = home(seed)
        disk.make_dir(LOG, sync=True)
        log = log_on(disk, sync=True, segment_bytes=300)
        fill(log, 2)
        disk.die_in(2, lambda: None)
        with pytest.raises(ProcessKilled):
            fill(log, 1)  # in the midst of its sync: all of it is written
        log = log_on(disk.killed(), sync=True, segment_bytes=300)
        served = values(log)
        disk = log.files  # type: ignore[assignment]
        assert values(log_on(disk.power_lost(), sync=True)) == served


def test_a_bit_that_turns_over_is_found_by_its_crc(caplog: pytest.LogCaptureFixture) -> None:
    disk = home()
    log = log_on(disk)
    fill(log, 20)
    log.close()
    assert str(SEGMENT) in disk.flip_bit("*.log")
    found = values(log_on(disk.killed()))
    assert len(found) < 20
    assert "cut at position" in caplog.text


def test_an_append_that_the_disk_refuses_leaves_nothing() -> None:
    disk = home()
    log = log_on(disk)
    fill(log, 3)
    for kind in ("full", "fails", "readonly"):
        with disk.fault(kind, paths="*.log"), pytest.raises(KafkaStorageError):
            fill(log, 1)
        assert len(values(log)) == 3
    fill(log, 1)
    assert len(values(log_on(disk.killed()))) == 4


# --- what it has found ------------------------------------------------------------------------------------------------------


def dying(prepare: Callable[[PartitionLog], object], deed: Callable[[PartitionLog], object]) -> Iterator[PartitionLog]:
    """The log as a new process finds it after another one has died in the first, the second ... call of ``deed``."""
    for at_call in range(1, 100):
        disk = home(at_call)
        log = log_on(disk, segment_bytes=400)
        prepare(log)
        disk.die_in(at_call, lambda: None)
        try:
            deed(log)
        except ProcessKilled:
            yield log_on(disk.killed(), segment_bytes=400)
        else:
            return
    raise AssertionError("it never ends")


def test_a_log_that_is_cut_below_its_start_begins_nowhere_else() -> None:
    def deleted(log: PartitionLog) -> None:
        log.append(batch(*"abcdefghij"), leader_epoch=0, now_ms=NOW_MS)
        log.delete_records(7)

    found = [(log.log_start_offset, log.log_end_offset) for log in dying(deleted, lambda log: log.truncate_to(8))]
    assert set(found) <= {(7, 10), (7, 7)}, "offset 0 would be given again"
    assert (7, 7) in found


def test_a_log_that_is_cut_before_its_first_segment_begins_there() -> None:
    def shortened(log: PartitionLog) -> None:
        fill(log, 12)
        log.delete_records(9)

    found = {(log.log_start_offset, log.log_end_offset) for log in dying(shortened, lambda log: log.truncate_to(1))}
    assert all(start in (1, 9) and (start, end) != (0, 0) for start, end in found), found


def test_a_log_whose_start_is_beyond_its_end_forgets_its_producers() -> None:
    """As Kafka's does: what they have written is not there, and they go on where they are."""
    disk = home()
    log = log_on(disk)
    add(log, idempotent(0))
    log.close()
    row = b"0\n1\norders 0 40\n"
    disk.replace_file(HOME / "log-start-offset-checkpoint", row)
    log = log_on(disk.killed())
    assert (log.log_start_offset, log.log_end_offset) == (40, 40)
    assert add(log, idempotent(17)).base_offset == 40


def test_a_time_index_that_has_lost_its_end_is_seen_through() -> None:
    disk = home()
    log = log_on(disk, index_interval_bytes=0)
    fill(log, 8, step_ms=10)
    log.roll(NOW_MS)
    log.close()
    fd = disk.open(LOG / f"{0:020d}.timeindex")
    disk.truncate(fd, 24)
    log = log_on(disk.killed())
    found = log.offset_for_timestamp(NOW_MS + 60)
    assert found is not None
    assert found.offset == 6
    assert log.segments[0].max_timestamp == NOW_MS + 70
