"""Folders and files by path or URI, on this machine and wherever Arrow can read: what the sources open, they open here.

Rules:
1. A name is a path, a `file:` URI, or a URI that `pyarrow.fs` knows (`hdfs://`, `s3://`, `gs://`, ..; `s3a://` and `s3n://` are `s3://`).
   What can't be opened is a UsageError that says why in one line.
2. `*`, `?` and `[..]` match within one part of a path. Where a folder of that very name exists, it is meant.
3. Only names travel to Spark's workers; each of them opens its own.
4. `pipeline run` looks at what is elsewhere `through` Spark's file systems, with Spark's settings: see `hadoop_files`.
"""

from __future__ import annotations

import fnmatch
import functools
import json
import os
import posixpath
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self
from urllib.parse import unquote, urlsplit

from broker_sim.common.text import UsageError
from broker_sim.storage.files import read_at

__all__ = ["FileEntry", "Source", "base_name", "entry", "expand", "inside", "listing", "names_of", "parent", "through"]

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")  # two letters at least: C: is a drive
_WILD = re.compile(r"[*?\[]")
_SAME = {"s3a": "s3", "s3n": "s3"}


class FileEntry(NamedTuple):
    """File or folder in a folder."""

    name: str
    is_dir: bool
    size: int


def names_of(options: Mapping[str, str]) -> list[str]:
    """The names in a source's options: `path` (several with commas between), or `paths`, the list that Spark's load() makes."""
    if options.get("paths"):
        return [str(name) for name in json.loads(options["paths"])]
    text = options.get("path", "").strip()
    if not text:
        raise UsageError("no path; give one: .load(PATH)")
    if "," in text and not _WILD.search(text) and _exists(text):
        return [text]
    return [name.strip() for name in text.split(",") if name.strip()]


def _exists(name: str) -> bool:
    try:
        return entry(name) is not None
    except UsageError:
        return False


def local_path(name: str) -> str | None:
    """The path on this machine that is meant, None for a URI that leads elsewhere. Raises UsageError."""
    scheme = _SCHEME.match(name)
    if scheme is None:
        return os.path.abspath(os.path.expanduser(name))
    if scheme[1].lower() != "file":
        return None
    parts = urlsplit(name)
    if parts.netloc not in ("", "localhost"):
        raise UsageError(f"{name}: a file: URI of another machine; file:///PATH is this one's")
    return os.path.abspath(unquote(parts.path))


def inside(folder: str, name: str) -> str:
    """The name of something in a folder."""
    return f"{folder.rstrip('/')}/{name}"


def base_name(name: str) -> str:
    """The last part of a path or address."""
    path = local_path(name)
    return os.path.basename(path) if path is not None else posixpath.basename(name.rstrip("/"))


def parent(name: str) -> str:
    """The folder that it is in."""
    path = local_path(name)
    return os.path.dirname(path) if path is not None else name.rstrip("/").rpartition("/")[0]


def _remote(name: str) -> tuple[Any, str]:
    """(pyarrow FileSystem, path in it). Raises UsageError."""
    scheme, _, rest = name.partition("://")
    root, _, path = rest.partition("/")
    uri = f"{_SAME.get(scheme.lower(), scheme.lower())}://{root}"
    system, base = _system(uri)
    return system, posixpath.join(base, path) if base else path


@functools.cache
def _system(uri: str) -> tuple[Any, str]:
    import pyarrow
    from pyarrow import fs

    try:
        system, base = fs.FileSystem.from_uri(f"{uri}/")
    except (pyarrow.ArrowException, OSError, ValueError, ImportError) as error:
        why = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UsageError(f"{uri}: it can't be opened: {why}; mount it, or copy what is to be read to a path") from None
    return system, base.rstrip("/")


class RemoteFiles(Protocol):
    """Access to files that are not on this machine, other than pyarrow's."""

    def entry(self, name: str) -> FileEntry | None: ...
    def listing(self, name: str) -> list[FileEntry]: ...
    def open(self, name: str) -> Any: ...


_elsewhere: ContextVar[RemoteFiles | None] = ContextVar("file systems of remote names", default=None)


@contextmanager
def through(system: RemoteFiles) -> Iterator[None]:
    """Within it, names with a scheme are this system's."""
    token = _elsewhere.set(system)
    try:
        yield
    finally:
        _elsewhere.reset(token)


def entry(name: str) -> FileEntry | None:
    """The file or folder of a name, None if it is missing. Raises UsageError."""
    path, other = local_path(name), _elsewhere.get()
    try:
        if path is not None:
            return _local_entry(Path(path))
        if other is not None:
            return other.entry(name)
        from pyarrow import fs

        system, place = _remote(name)
        info = system.get_file_info([place])[0]
        if info.type == fs.FileType.NotFound:
            return None
        return FileEntry(base_name(name), info.type == fs.FileType.Directory, info.size or 0)
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror or error}") from None


def _local_entry(path: Path) -> FileEntry | None:
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return FileEntry(path.name, path.is_dir(), status.st_size)


def listing(folder: str) -> list[FileEntry]:
    """Entries of a folder, by name, without those that disappear meanwhile. Raises UsageError."""
    path, other = local_path(folder), _elsewhere.get()
    try:
        if path is None and other is not None:
            return other.listing(folder)
        if path is not None:
            entries = [_local_entry(Path(path, name)) for name in sorted(os.listdir(path))]
            return [entry for entry in entries if entry is not None]
        from pyarrow import fs

        system, place = _remote(folder)
        infos = system.get_file_info(fs.FileSelector(place))
        rows = [FileEntry(info.base_name, info.type == fs.FileType.Directory, info.size or 0) for info in infos]
        return sorted(rows)
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror or error}") from None


def expand(name: str) -> list[str]:
    """Paths that match a name with wildcards, in order; a name without them yields itself, absolute. Raises UsageError."""
    path = local_path(name)
    if path is not None:
        name = path
    if not _WILD.search(name) or _exists(name):
        return [name]
    head = name[: _WILD.search(name).start()].rpartition("/")[0]  # type: ignore[union-attr]
    paths = [head]
    for part in name[len(head) + 1 :].split("/"):
        if not _WILD.search(part):
            paths = [inside(folder, part) for folder in paths]
        else:
            paths = [
                inside(folder, child.name)
                for folder in paths
                if (here := entry(folder or "/")) is not None and here.is_dir
                for child in listing(folder or "/")
                if fnmatch.fnmatchcase(child.name, part)
            ]
    return [path for path in paths if _exists(path)]


class Source:
    """An open file of which pieces are read. Raises FileNotFoundError if it was deleted meanwhile, OSError."""

    def __init__(self, name: str) -> None:
        path, other = local_path(name), _elsewhere.get()
        self._fd = -1
        self._file: Any = None
        if path is None and other is not None:
            self._file = other.open(name)
        elif path is not None:
            self._fd = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        else:
            system, place = _remote(name)
            self._file = system.open_input_file(place)

    def size(self) -> int:
        """Bytes that it has now."""
        return os.fstat(self._fd).st_size if self._file is None else int(self._file.size())

    def read(self, position: int, size: int) -> bytes:
        """Up to ``size`` bytes; fewer at the end alone."""
        if self._file is not None:
            return bytes(self._file.read_at(size, position))
        parts = []
        while size > 0 and (part := read_at(self._fd, size, position)):
            parts.append(part)
            size, position = size - len(part), position + len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        elif self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
