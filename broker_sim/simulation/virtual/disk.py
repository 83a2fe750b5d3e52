"""A disk in memory for brokers that can lose power: what the kernel has, and what would be there after it.

    disk = SimDisk(seed=7)
    log = PartitionLog(Path("/data/orders-0"), files=disk)
    disk = disk.killed()                    # the process ended, the page cache stays
    disk = disk.power_lost()                # what was not synced: lost, torn or kept
    with disk.fault("full", free_bytes=100): ...

Rules:
1. A file has two images: its bytes as everybody reads them, and those that are durable. A write is durable once its file was synced.
   After a loss of power the writes since then are there, or lost, or there up to some byte, or in some of their sectors.
2. A directory's entries are durable once the directory was synced. Later creations, renames and removals survive mostly up to one of
   them, in their order, as in a journal, and now and then any of them without the others (btrfs); directories don't know of each other.
   A new file has its name before it has its bytes; where it takes the place of another by renaming, its bytes come first (ext4,
   ``auto_da_alloc``), but not always (XFS).
3. After a sync that failed, what it was to make durable never will be (as Linux has it): only what is written again can.
4. What happens to a path is drawn from (seed, path, how many times) and nothing else: a fault that is taken away leaves all other draws
   as they were.
5. A process that died in the midst of a call gets `ProcessKilled` from it and from every later one.
"""

from __future__ import annotations

import errno
import fnmatch
import os
from asyncio import CancelledError
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from broker_sim.common.text import UsageError, unknown
from broker_sim.simulation.virtual.disk_model import (
    CALLS,
    DISK_FAULTS,
    SECTOR,
    Directory,
    DiskFault,
    DiskImage,
    File,
    Node,
    torn,
)
from broker_sim.storage.files import Closable, Files

__all__ = ["DISK_FAULTS", "SECTOR", "DiskFault", "ProcessKilled", "SimDisk"]

_CAPACITY = 1 << 40


class ProcessKilled(CancelledError):
    """Raised in the code of a process that has died, in the middle of a disk call; a cancellation, so that no handler treats it as
    an error."""


class _Lock:
    def __init__(self, disk: SimDisk, path: str) -> None:
        self._disk, self._path = disk, path

    def close(self) -> None:
        locked = self._disk._image.locked
        if locked.get(self._path) is self._disk:
            del locked[self._path]


# --- the disk -------------------------------------------------------------------------------------------------------------


class SimDisk(Files):
    """See the module. One object is what one process has of it: `killed` and `power_lost` return what the next one finds."""

    real = False

    def __init__(self, seed: object = 0) -> None:
        super().__init__(max_open=1 << 20)
        self._image = DiskImage(seed)
        self._open: dict[int, File] = {}
        self._next_fd = 3
        self.dead = False
        """Whether its process is."""
        self.on_stall: Callable[[DiskFault], object] = lambda fault: None
        """A call has to wait for the end of this fault: its process is blocked until then."""
        self.calls = 0
        """Calls that change something, so far."""
        self._last_call: int | None = None
        self._dies: Callable[[], object] = lambda: None

    # --- its end

    def killed(self) -> SimDisk:
        """End the disk's process as if killed: all written data stays. Returns the disk of the next process."""
        return self._next()

    def power_lost(self) -> SimDisk:
        """The machine is without power; what was not durable may be lost."""
        self._image.lose_power()
        return self._next()

    def _next(self) -> SimDisk:
        self.dead = True
        self._last_call = 0
        self._open.clear()
        fresh = SimDisk(None)
        fresh._image = self._image
        fresh._image.locked.clear()
        return fresh

    def die_in(self, calls: int, dies: Callable[[], object]) -> None:
        """In the midst of the ``calls``-th call from now on that changes something ``dies()`` is called, to end the process."""
        if calls < 1:
            raise UsageError(f"calls are counted from 1, not from {calls}")
        self._last_call, self._dies = self.calls + calls, dies

    def cancel_death(self) -> None:
        """Cancel the planned death of the process (`die_in`)."""
        self._last_call = None

    # --- what goes wrong

    def fault(
        self,
        kind: str,
        *,
        paths: str = "*",
        free_bytes: int = 0,
        calls: Iterable[str] = ("write", "sync"),
        until_s: float | None = None,
    ) -> DiskFault:
        """Something is wrong from now on: see ``DISK_FAULTS``. Raises UsageError."""
        if kind not in DISK_FAULTS:
            raise unknown("fault of a disk", kind, DISK_FAULTS)
        for call in calls:
            if call not in CALLS:
                raise unknown("call of a disk", call, CALLS)
        fault = DiskFault(self._image, kind, paths, free_bytes, tuple(calls), until_s)
        self._image.faults.append(fault)
        return fault

    @property
    def faults(self) -> list[DiskFault]:
        """Faults of the disk right now."""
        return list(self._image.faults)

    def flip_bit(self, paths: str) -> str:
        """A bit of a file that fits turns over, where it lies; returns where that was. Raises UsageError where no bytes are."""
        there = [file for file in self._files() if file.data and fnmatch.fnmatchcase(file.path, paths)]
        if not there:
            raise UsageError(f"no non-empty file matches {paths}")
        chance = self._image.chance("rot", paths)
        file = chance.choice(there)
        file.persist()
        at = chance.randrange(len(file.data))
        bit = 1 << chance.randrange(8)
        file.data[at] ^= bit
        file.durable[at] ^= bit
        return f"{file.path} at {at}"

    def fsync_all(self) -> None:
        """Make all data written so far durable, as sync(1) does."""
        for node in self._image.dirs.values():
            node.persist()
        for file in self._files():
            file.persist()

    def image(self, *, durable: bool = False) -> dict[str, bytes]:
        """The bytes of every file by its path, in their order."""
        return {file.path: bytes(file.durable if durable else file.data) for file in self._files()}

    def _files(self) -> Iterator[File]:
        for path in sorted(self._image.dirs):
            if path:
                node = self._image.dirs[path]
                yield from (child for _, child in sorted(node.names.items()) if isinstance(child, File))

    # --- every call

    def _change(self, call: str, path: str) -> None:
        """Before a call that changes something."""
        self.calls += 1
        dies = self._last_call is not None and self.calls >= self._last_call
        if dies and self._image.chance("die", path).random() < 0.5:
            self._die()
        if self._image.faults:
            self._suffer(call, path)

    def _changed(self) -> None:
        """After one that was the last."""
        if self._last_call is not None and self.calls >= self._last_call:
            self._die()

    def _die(self) -> None:
        self._last_call = None
        self._dies()
        raise ProcessKilled("the process died here")

    def _suffer(self, call: str, path: str) -> None:
        for fault in list(self._image.faults):
            if not fault.hits(call, path):
                continue
            if fault.kind == "stalls":
                self.on_stall(fault)
            elif fault.kind == "fails":
                raise OSError(errno.EIO, os.strerror(errno.EIO), path)
            elif fault.kind == "readonly":
                raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
            elif call == "mkdir" and fault.free_bytes <= 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    def _room(self, file: File, end: int, size: int) -> int:
        """Number of bytes of a write of ``size``, up to ``end``, that the disk takes. Raises OSError where it is full."""
        for fault in self._image.faults:
            if fault.kind == "full" and fault.hits("write", file.path):
                growth = max(end - len(file.data), 0)
                if growth > fault.free_bytes:
                    size -= growth - fault.free_bytes
                    growth = fault.free_bytes
                    if size <= 0:
                        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), file.path)
                fault.free_bytes -= growth
        return size

    def _file(self, fd: int) -> File:
        file = self._open.get(fd)
        if file is None:
            if self.dead:
                raise ProcessKilled("a call by a process that is dead")
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return file

    def _at(self, path: Path) -> tuple[Directory, str, Node | None]:
        """The directory, the name in it, and what has it."""
        if self.dead:
            raise ProcessKilled("a call by a process that is dead")
        head, _, name = os.fspath(path).rpartition("/")
        directory = self._image.dirs.get(head)
        if directory is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return directory, name, directory.names.get(name)

    # --- Files

    def open(self, path: Path, *, create: bool = False) -> int:
        directory, name, node = self._at(path)
        if isinstance(node, Directory):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if node is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
            self._change("create", os.fspath(path))
            node = File(os.fspath(path))
            directory.change((name, node))
            self._changed()
        fd = self._next_fd
        self._next_fd = fd + 1
        self._open[fd] = node
        return fd

    def close(self, fd: int) -> None:
        self._open.pop(fd, None)

    def write(self, fd: int, data: bytes, position: int) -> int:
        file = self._file(fd)
        self.calls += 1
        size = len(data)
        if self._image.faults:
            self._suffer("write", file.path)
            size = self._room(file, position + size, size)
        if self._last_call is not None and self.calls >= self._last_call:
            size = torn(position, size, self._image.chance("torn", file.path))
            file.change((position, data[:size]))
            self._die()
        file.change((position, data if size == len(data) else data[:size]))
        return size

    def read(self, fd: int, size: int, position: int) -> bytes:
        file = self._file(fd)
        if self._image.faults:
            self._suffer("read", file.path)
        return bytes(file.data[position : position + size])

    def size(self, fd: int) -> int:
        return len(self._file(fd).data)

    def make_private(self, path: Path) -> None:
        """There is one user."""

    def truncate(self, fd: int, size: int) -> None:
        file = self._file(fd)
        if size == len(file.data):
            return
        self._change("truncate", file.path)
        for fault in self._image.faults:
            if fault.kind == "full":
                fault.free_bytes += max(len(file.data) - size, 0)
        file.change((size, None))
        self._changed()

    def sync(self, fd: int) -> None:
        file = self._file(fd)
        try:
            self._change("sync", file.path)
        except OSError:
            file.done += len(file.pending)
            file.pending.clear()
            raise
        file.persist()
        self._changed()

    def sync_dir(self, path: Path) -> None:
        node = self._dir(path)
        self._change("sync", node.path)
        node.persist()
        self._changed()

    def rename(self, old: Path, new: Path) -> None:
        directory, name, node = self._at(old)
        target, fresh, replaced = self._at(new)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(old))
        if target is not directory or (isinstance(node, Directory) and replaced is not None):
            raise OSError(errno.EXDEV, "it is renamed within its directory here, one with files over nothing", str(old))
        self._change("rename", os.fspath(old))
        first = node if replaced is not None and isinstance(node, File) else None
        directory.change((name, None), (fresh, node), first=first)
        self._image.moved(node, os.fspath(new))
        self._changed()

    def remove(self, path: Path) -> None:
        directory, name, node = self._at(path)
        if node is None:
            return
        if isinstance(node, Directory):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        self._change("remove", os.fspath(path))
        directory.change((name, None))
        self._changed()

    def _dir(self, path: Path) -> Directory:
        if self.dead:
            raise ProcessKilled("a call by a process that is dead")
        directory = self._image.dirs.get(os.fspath(path))
        if directory is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return directory

    def names(self, path: Path) -> list[str]:
        return sorted(self._dir(path).names)

    def odd_names(self, path: Path) -> list[str]:
        return []

    def exists(self, path: Path) -> bool:
        directory = self._image.dirs.get(os.path.dirname(path))
        return directory is not None and os.path.basename(path) in directory.names

    def is_dir(self, path: Path) -> bool:
        return os.fspath(path) in self._image.dirs

    def add_dir(self, path: Path) -> None:
        directory, name, node = self._at(path)
        if isinstance(node, Directory):
            return
        self._change("mkdir", os.fspath(path))
        node = self._image.dirs[os.fspath(path)] = Directory(os.fspath(path))
        directory.change((name, node))
        self._changed()

    def drop_dir(self, path: Path) -> None:
        directory, name, node = self._at(path)
        if not isinstance(node, Directory) or node.names:
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), str(path))
        self._change("remove", os.fspath(path))
        directory.change((name, None))
        del self._image.dirs[os.fspath(path)]
        self._changed()

    def read_file(self, path: Path) -> bytes:
        _, _, node = self._at(path)
        if not isinstance(node, File):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        if self._image.faults:
            self._suffer("read", node.path)
        return bytes(node.data)

    def space(self, path: Path) -> tuple[int, int]:
        used = sum(len(file.data) for file in self._files())
        full = [fault.free_bytes for fault in self._image.faults if fault.kind == "full"]
        return _CAPACITY, min([_CAPACITY - used, *full])

    def lock(self, path: Path) -> Closable:
        fd = self.open(path, create=True)
        self.close(fd)
        owner = self._image.locked.setdefault(os.fspath(path), self)
        if owner is not self:
            raise BlockingIOError(errno.EWOULDBLOCK, os.strerror(errno.EWOULDBLOCK), str(path))
        return _Lock(self, os.fspath(path))
