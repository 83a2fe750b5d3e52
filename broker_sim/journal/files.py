"""The journal's files: one JSON object a line, a new file when one is full, ``.part`` behind the name until it is whole."""

from __future__ import annotations

import base64
import json
import logging
import os
import re
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from broker_sim.common.text import UsageError
from broker_sim.journal.vocabulary import Event

_FLAGS = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)  # Windows has the second alone

__all__ = ["JournalError", "JournalFiles", "plain", "read"]

log = logging.getLogger("broker_sim.journal")


class JournalError(ValueError):
    """A file that is no journal; the text names it and the line."""


_NAME = re.compile(r"journal-(\d{6,})\.ndjson(\.part)?")


class JournalFiles:
    """Journal files in one directory; numbers continue after an earlier journal's."""

    def __init__(self, directory: Path, file_bytes: int, keep: int | None) -> None:
        self._directory, self._file_bytes, self._keep = directory, file_bytes, keep
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._number = max((number for number, _ in _listed(directory)), default=0)
            self._fd = self._open()
        except OSError as error:
            raise UsageError(f"journal directory {directory} can't be used: {error.strerror or error}") from None

    @property
    def _path(self) -> Path:
        return self._directory / f"journal-{self._number:06}.ndjson"

    def _open(self) -> int:
        self._number, self._size = self._number + 1, 0
        part = self._path.with_name(self._path.name + ".part")
        return os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, 0o644)

    def write(self, record: Event) -> bool:
        """Write one line; returns False if the disk fails, after which no more files are written."""
        try:
            line = _encoded(record)
            written = os.write(self._fd, line)
            if written < len(line):
                os.ftruncate(self._fd, self._size)  # no torn line stays, as far as the disk allows
                raise OSError(0, "the disk is full")
            self._size += written
            if self._size >= self._file_bytes:
                self.close()
                self._forget()
                self._fd = self._open()
        except (OSError, TypeError, ValueError) as error:
            log.error("the journal's files end at %s: %s", self._path, getattr(error, "strerror", None) or error)
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1
            return False
        return True

    def close(self) -> None:
        """Complete the current file: it loses the suffix ``.part``."""
        fd, self._fd = self._fd, -1
        os.close(fd)
        self._path.with_name(self._path.name + ".part").rename(self._path)

    def _forget(self) -> None:
        if self._keep is not None:
            whole = [path for _, path in _listed(self._directory) if path.suffix != ".part"]
            for path in whole[: len(whole) - self._keep]:
                path.unlink(missing_ok=True)


def _encoded(record: Event) -> bytes:
    try:
        return json.dumps(record, default=plain, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
    except UnicodeEncodeError:  # half of a surrogate pair, out of a Java string
        return json.dumps(record, default=plain, separators=(",", ":")).encode() + b"\n"


def plain(value: object) -> object:
    """Convert a value for which JSON has no form."""
    if isinstance(value, bytes | bytearray | memoryview):
        return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, set | frozenset | deque):
        return sorted(value, key=str) if not isinstance(value, deque) else list(value)
    return str(value)


def _listed(directory: Path) -> list[tuple[int, Path]]:
    """The journal files of a directory by number; the complete one if both exist."""
    result = {}
    for path in sorted(directory.iterdir(), reverse=True):
        match = _NAME.fullmatch(path.name)
        if match is not None:
            result[int(match[1])] = path
    return sorted(result.items())


def read(source: str | os.PathLike[str]) -> Iterator[Event]:
    """The events of a journal file, or of all of a directory in order, growing ones included. Raises JournalError for a file that isn't
    there or is no journal; a torn last line is passed over. Events of earlier versions have their present names."""
    path = Path(source)
    try:
        paths = [file for _, file in _listed(path)] if path.is_dir() else [path]
        if not paths:
            raise JournalError(f"{path}: no journal file in it (expected journal-000001.ndjson, ...)")
        for file_path in paths:
            yield from _read_file(file_path)
    except OSError as error:
        raise JournalError(f"{path}: {error.strerror or error}") from None


def _read_file(path: Path) -> Iterator[Event]:
    if not path.exists() and path.suffix == ".part":
        path = path.with_suffix("")  # it was finished meanwhile
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.endswith(b"\n"):
                return
            try:
                record = json.loads(line)
            except ValueError:
                record = None
            if not isinstance(record, dict) or "event" not in record:
                raise JournalError(
                    f"{path}, line {number} is not an event of a journal (a JSON object with the key event)"
                )
            yield record
