"""The output folder of a run: made, refused or emptied before anything is read, on a disk or on whatever file system Spark can open.

Rules:
1. A folder that holds anything is refused. With ``overwrite`` what an earlier run made there is removed, by the list in its marker, and
   nothing else; a folder without a marker is refused all the same.
2. The marker is written before the first table, so that an interrupted run can be overwritten, too.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

from broker_sim.common.text import UsageError

__all__ = ["MADE", "MARKER", "Folder", "is_remote"]

MARKER = "broker-sim-pipeline.json"
MADE = ("tables", "report.html", "findings.txt", "findings.json")
"""Files and folders that a run makes beside its marker."""

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://?")


def is_remote(path: str) -> bool:
    """Whether it is a path for Hadoop's file systems (``hdfs://..``, ``s3a://..``), not of this machine."""
    return _SCHEME.match(path) is not None and not path.startswith("file:")


class Folder:
    """``path``: as it was given; ``where``: the address for Spark; local ones need no session."""

    def __init__(self, path: str, files: Any) -> None:
        self.path, self._files = path, files
        self.where = files.where

    @classmethod
    def local(cls, path: str) -> Folder:
        return cls(path, _Local(Path(re.sub(r"^file:(//)?", "", path))))

    @classmethod
    def remote(cls, path: str, spark: Any) -> Folder:
        return cls(path, _Hadoop(path, spark))

    def check(self, *, overwrite: bool) -> None:
        """Raises UsageError where it can't be written to; changes nothing. On a disk that is tried: rights alone don't show file
        systems that take no files, and Spark's start costs ten seconds."""
        files = self._files
        held = files.names()
        if held is None:
            raise UsageError(f"--out {self.path}: that is a file, not a folder")
        files.try_to_write()
        if not held:
            return
        if not overwrite:
            raise UsageError(
                f"--out {self.path}: the folder exists and is not empty; --overwrite replaces what an earlier run made in it"
            )
        if MARKER not in held:
            raise UsageError(
                f"--out {self.path}: no run of the pipeline made this folder (it has no {MARKER}); nothing was removed"
            )

    def prepare(self, run_id: str, *, overwrite: bool) -> None:
        """Empty it of an earlier run, and put the marker into it. Raises UsageError."""
        self.check(overwrite=overwrite)
        for name in self._made():
            self._files.remove(name)
        self.write(MARKER, json.dumps({"made": list(MADE), "run_id": run_id}) + "\n")

    def _made(self) -> list[str]:
        if MARKER not in (self._files.names() or ()):
            return []
        try:
            listed = json.loads(self._files.read(MARKER))["made"]
        except (ValueError, KeyError, TypeError):
            return []
        return [name for name in MADE if name in listed]  # never a name that only the marker has

    def names(self) -> list[str] | None:
        """Names in the folder; [] if it does not exist, None if it is a file."""
        names: list[str] | None = self._files.names()
        return names

    def read(self, name: str) -> str | None:
        """A text file in it, None if it is missing."""
        return str(self._files.read(name)) if name in (self._files.names() or ()) else None

    def write(self, name: str, text: str) -> None:
        """A text file in it. Raises UsageError."""
        self._files.write(name, text)

    def table(self, name: str, run_id: str) -> str:
        """Folder for a table's files of a run."""
        return f"{self.where}/tables/{name}/run_id={run_id}"


class _Local:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.where = path.absolute().as_uri()

    def names(self) -> list[str] | None:
        if not self.path.exists():
            return []
        return [entry.name for entry in self.path.iterdir()] if self.path.is_dir() else None

    def read(self, name: str) -> str:
        return (self.path / name).read_text(encoding="utf-8")

    def write(self, name: str, text: str) -> None:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            (self.path / name).write_text(text, encoding="utf-8")
        except OSError as error:
            raise UsageError(f"--out {self.path}: {error.strerror or error}") from None

    def try_to_write(self) -> None:
        """Make the folder and a file in it, and take away what was not there before. Raises UsageError."""
        missing = [folder for folder in (self.path, *self.path.parents) if not folder.exists()]
        probe = self.path / f"{MARKER}.tried"
        try:
            try:
                self.path.mkdir(parents=True, exist_ok=True)
                probe.touch()
            finally:
                probe.unlink(missing_ok=True)
                for folder in missing:
                    if folder.is_dir():
                        folder.rmdir()
        except OSError as error:
            raise UsageError(f"--out {self.path}: {error.strerror or error}") from None

    def remove(self, name: str) -> None:
        path = self.path / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


class _Hadoop:
    def __init__(self, path: str, spark: Any) -> None:
        self.where = path.rstrip("/")
        self._jvm = spark.sparkContext._jvm
        self._root = self._jvm.org.apache.hadoop.fs.Path(self.where)
        try:
            self._system = self._root.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
        except Exception as error:  # py4j's, with Java's own words in its first line
            raise UsageError(f"--out {path}: {_first_line(error)}") from None

    def _at(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._root, name)

    def names(self) -> list[str] | None:
        if not self._system.exists(self._root):
            return []
        if not self._system.getFileStatus(self._root).isDirectory():
            return None
        return [status.getPath().getName() for status in self._system.listStatus(self._root)]

    def read(self, name: str) -> str:
        stream = self._system.open(self._at(name))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def try_to_write(self) -> None:
        """Spark runs already: the marker is the first that is written."""

    def write(self, name: str, text: str) -> None:
        try:
            stream = self._system.create(self._at(name), True)
            stream.write(bytearray(text.encode()))
            stream.close()
        except Exception as error:
            raise UsageError(f"--out {self.where}: {_first_line(error)}") from None

    def remove(self, name: str) -> None:
        self._system.delete(self._at(name), True)


def _first_line(error: Exception) -> str:
    java = getattr(error, "java_exception", None)
    words = str(java.toString()) if java is not None else str(error)
    return words.splitlines()[0] if words else type(error).__name__
