"""Batches and logs as the storage tests want them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from broker_sim.storage import AppendInfo, LogConfig, Origin, PartitionLog
from broker_sim.storage.files import Files
from kafka_wire.record_batch import Record, build_batch, records

NOW_MS = 1_700_000_000_000


def batch(*values: bytes | str, timestamp_ms: int = NOW_MS) -> bytes:
    """A batch of records without keys, one for each value."""
    return build_batch([(None, to_bytes(value)) for value in values], timestamp_ms)


def keyed(*pairs: tuple[str, str | None], timestamp_ms: int = NOW_MS) -> bytes:
    """A batch of (key, value) records; value None is a tombstone."""
    rows = [(key.encode(), None if value is None else value.encode()) for key, value in pairs]
    return build_batch(rows, timestamp_ms)


def idempotent(
    sequence: int, count: int = 1, *, producer_id: int = 7, epoch: int = 0, timestamp_ms: int = NOW_MS
) -> bytes:
    """A batch of an idempotent producer."""
    return build_batch(
        [(b"k", b"%d" % (sequence + index)) for index in range(count)],
        timestamp_ms,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )


def to_bytes(value: bytes | str) -> bytes:
    return value.encode() if isinstance(value, str) else value


def add(log: PartitionLog, data: bytes, *, epoch: int = 0, now_ms: int = NOW_MS, trusted: bool = False) -> AppendInfo:
    """Append as a client (or as the coordinator, unchecked)."""
    origin = Origin.COORDINATOR if trusted else Origin.CLIENT
    return log.append(data, leader_epoch=epoch, now_ms=now_ms, origin=origin)


def content(log: PartitionLog) -> list[Record]:
    """Every record of the log, from its start."""
    return [record for one in log.batches() for record in one.records() if record.offset >= log.log_start_offset]


def values(log: PartitionLog) -> list[bytes | None]:
    return [record.value for record in content(log)]


def keys_and_values(log: PartitionLog) -> list[tuple[bytes | None, bytes | None]]:
    return [(record.key, record.value) for record in content(log)]


def offsets(data: bytes) -> list[int]:
    """Offsets of the records in the batches of a read."""
    from kafka_wire.record_batch import batches

    return [record.offset for pos, header in batches(data) for record in records(data, pos, header)]


def fill(log: PartitionLog, count: int, *, size: int = 100, step_ms: int = 0, trusted: bool = True) -> None:
    """Append `count` batches of one record whose value is its number, padded to `size` bytes."""
    for number in range(log.log_end_offset, log.log_end_offset + count):
        add(log, batch(b"%d" % number + b"." * size, timestamp_ms=NOW_MS + number * step_ms), trusted=trusted)


def config(**settings: object) -> LogConfig:
    """Settings by Kafka's names with underscores for dots."""
    return LogConfig.of({name.replace("_", "."): value for name, value in settings.items()})


def log_files(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


class FailingFiles(Files):
    """A disk of which the test decides when it fails and how."""

    def __init__(self) -> None:
        super().__init__()
        self.space: int | None = None
        """Bytes that can still be written; None: any number."""
        self.failing: set[str] = set()
        """Names of the calls that fail."""
        self.calls: list[str] = []
        self.bytes_read = 0
        self.descriptors: set[int] = set()
        """Open file descriptors."""

    def open(self, path: Path, *, create: bool = False) -> int:
        fd = super().open(path, create=create)
        self.descriptors.add(fd)
        return fd

    def close(self, fd: int) -> None:
        self.descriptors.remove(fd)
        super().close(fd)

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if name in self.failing:
            raise OSError(5, "Input/output error")

    def write(self, fd: int, data: bytes, position: int) -> int:
        self._call("write")
        if self.space is not None:
            if self.space == 0:
                raise OSError(28, "No space left on device")
            data = data[: self.space]
            self.space -= len(data)
        return super().write(fd, data, position)

    def read(self, fd: int, size: int, position: int) -> bytes:
        self._call("read")
        data = super().read(fd, size, position)
        self.bytes_read += len(data)
        return data

    def truncate(self, fd: int, size: int) -> None:
        self._call("truncate")
        super().truncate(fd, size)

    def sync(self, fd: int) -> None:
        self._call("sync")
        super().sync(fd)

    def sync_dir(self, path: Path) -> None:
        self._call("sync_dir")
        super().sync_dir(path)

    def rename(self, old: Path, new: Path) -> None:
        self._call("rename")
        super().rename(old, new)

    def remove(self, path: Path) -> None:
        self._call("remove")
        super().remove(path)


def pairs_of(rows: Iterable[Record]) -> Sequence[tuple[int, bytes | None, bytes | None]]:
    return [(row.offset, row.key, row.value) for row in rows]
