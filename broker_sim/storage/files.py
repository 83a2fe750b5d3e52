"""The seam between the brokers and the disk: every system call for a data directory goes through `Files`.

A test, or the simulated disk, passes a subclass; the rest of the code does not distinguish them.
Errors are the OSError of the call; `append` leaves the file as long as it was before.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pathlib import Path


_NO_LINKS = getattr(os, "O_NOFOLLOW", 0)
_FLAGS = os.O_RDWR | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0) | _NO_LINKS
"""Flags of an open file. Without O_BINARY, which only Windows has, "\\n" would be two bytes there."""


class Closable(Protocol):
    """An object with a file descriptor that it can open again."""

    def close(self) -> None: ...


class Files:
    """Plain files by descriptor and path.

    At most `max_open` log files stay open at a time: the one opened longest ago is closed for the next.
    """

    real = True
    """Whether the paths are those of the machine, so that others can be given them."""

    can_remove_open = sys.platform != "win32"
    """Whether a file that is open can be removed, and renamed. A reader that is slow keeps none open where it can't."""

    def __init__(self, max_open: int | None = None) -> None:
        self._max_open = max_open
        self._holders: dict[Closable, None] = {}

    def opened(self, holder: Closable) -> None:
        """`holder` has opened a descriptor to keep."""
        self._holders[holder] = None
        if self._max_open is None:
            self._max_open = max(_most_descriptors() // 2, 16)
        if len(self._holders) > self._max_open:
            next(iter(self._holders)).close()

    def closed(self, holder: Closable) -> None:
        """`holder` is about to close it."""
        self._holders.pop(holder, None)

    def open(self, path: Path, *, create: bool = False) -> int:
        """Descriptor for reading and writing; `create` makes an absent file. A link is not followed: that is ELOOP."""
        if not _NO_LINKS and path.is_symlink():
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        return os.open(path, _FLAGS | (os.O_CREAT if create else 0), 0o644)

    def close(self, fd: int) -> None:
        os.close(fd)

    def write(self, fd: int, data: bytes, position: int) -> int:
        """One pwrite: the number of bytes written, which a full disk makes smaller than asked."""
        if hasattr(os, "pwrite"):
            return os.pwrite(fd, data, position)
        os.lseek(fd, position, os.SEEK_SET)
        return os.write(fd, data)

    def read(self, fd: int, size: int, position: int) -> bytes:
        return read_at(fd, size, position)

    def size(self, fd: int) -> int:
        return os.fstat(fd).st_size

    def make_private(self, path: Path) -> None:
        """From now on the file's owner alone may read it."""
        path.chmod(0o600)

    def truncate(self, fd: int, size: int) -> None:
        os.ftruncate(fd, size)

    def sync(self, fd: int) -> None:
        getattr(os, "fdatasync", os.fsync)(fd)  # macOS and Windows have fsync alone

    def sync_dir(self, path: Path) -> None:
        """Make creations and renames in a directory durable, where the system can."""
        if not hasattr(os, "O_DIRECTORY"):
            return
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def rename(self, old: Path, new: Path) -> None:
        os.replace(old, new)

    def remove(self, path: Path) -> None:
        """A file goes, if it is there."""
        path.unlink(missing_ok=True)

    def names(self, path: Path) -> list[str]:
        """The names in a directory, sorted."""
        return sorted(os.listdir(path))

    def odd_names(self, path: Path) -> list[str]:
        """Entries of a directory that are neither a file nor a directory: links, pipes, devices. Sorted."""
        with os.scandir(path) as entries:
            return sorted(
                entry.name
                for entry in entries
                if not (entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False))
            )

    def exists(self, path: Path) -> bool:
        return os.path.exists(path)

    def is_dir(self, path: Path) -> bool:
        return os.path.isdir(path)

    def make_dir(self, path: Path, *, sync: bool = False) -> None:
        """A directory, and those above it, unless they are there; with `sync` they survive a loss of power."""
        if not self.is_dir(path):
            if not self.exists(path.parent):
                self.make_dir(path.parent, sync=sync)
            self.add_dir(path)
            if sync:
                self.sync_dir(path.parent)

    def add_dir(self, path: Path) -> None:
        """A directory in one that is there; it may be there already."""
        path.mkdir(exist_ok=True)

    def drop_dir(self, path: Path) -> None:
        """Remove an empty directory. Raises OSError if it is not empty."""
        path.rmdir()

    def read_file(self, path: Path) -> bytes:
        """Read a whole file. Raises FileNotFoundError."""
        return path.read_bytes()

    def space(self, path: Path) -> tuple[int, int]:
        """Bytes that the file system of `path` has in all, and those that are free."""
        import shutil

        total, _, free = shutil.disk_usage(path)
        return total, free

    def lock(self, path: Path) -> Closable:
        """Create the file, and lock it until it is closed. Raises BlockingIOError if another process has the lock."""
        if path.is_symlink() or (path.exists() and not path.is_file()):
            raise OSError(f"{path} is a link, or not a regular file")
        handle = path.open("a")
        try:
            _lock(handle.fileno())
        except OSError as error:
            handle.close()
            raise BlockingIOError(*error.args) from None
        return handle

    def remove_dir(self, path: Path, *, last: str = "") -> None:
        """A directory goes with all that is in it, the file `last` behind the others."""
        for name in sorted(self.names(path), key=lambda name: name == last):
            try:
                self.remove(path / name)
            except (IsADirectoryError, PermissionError):
                if not self.is_dir(path / name):  # a file that a process of Windows has open
                    raise
                import shutil

                shutil.rmtree(path / name)
        self.drop_dir(path)

    def append(self, fd: int, data: bytes, position: int) -> None:
        """Append all of `data` at `position`, the file's end, or nothing: a partial write is cut off before the error."""
        try:
            done = self.write(fd, data, position)
            while done < len(data):
                done += self.write(fd, data[done:], position + done)
        except OSError:
            # If even this fails the next append overwrites the rest: it goes to the same position.
            with contextlib.suppress(OSError):
                self.truncate(fd, position)
            raise

    def replace_file(self, path: Path, data: bytes, *, sync: bool = False, private: bool = False) -> None:
        """Put `data` in the place of the file, atomically; with `sync` a loss of power leaves the one or the other. `private`: only
        its owner may read it.

        An error leaves no half of it: but where only the last sync of the directory failed the new file is in its place.
        """
        fresh = path.with_name(path.name + ".tmp")
        try:
            fd = self.open(fresh, create=True)
            try:
                if private:
                    self.make_private(fresh)
                self.truncate(fd, 0)
                self.append(fd, data, 0)
                if sync:
                    self.sync(fd)
            finally:
                self.close(fd)
            self.rename(fresh, path)
        except OSError:
            with contextlib.suppress(OSError):
                self.remove(fresh)  # on a full disk it would be in the way of the next one
            raise
        if sync:
            self.sync_dir(path.parent)


def read_at(fd: int, size: int, position: int) -> bytes:
    """One pread. Without it, as on Windows, the file's position changes: one thread at a time."""
    if hasattr(os, "pread"):
        return os.pread(fd, size, position)
    os.lseek(fd, position, os.SEEK_SET)
    return os.read(fd, size)


def _lock(fd: int) -> None:
    """Lock a file against other clusters and against a JVM, or raise OSError."""
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)  # its first byte: Java locks all that a file can have
        return
    import fcntl

    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)  # against other clusters, of this process too
    if sys.platform != "darwin":  # where one kind of lock excludes the other, of the same process too
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)  # against a JVM: what Java locks is the other kind


def _most_descriptors() -> int:
    """Maximum number of descriptors that the process may open."""
    try:
        import resource
    except ImportError:  # Windows, whose C library has this limit
        return 512
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


FILES = Files()
