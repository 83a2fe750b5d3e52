"""Inputs on the file systems that Spark has: `hdfs://`, `s3a://` and whatever else its Hadoop knows, with the settings and credentials
that it has for its output (`--conf spark.hadoop.fs.s3a.access.key=..`).

    with files.through(HadoopFiles(spark)):
        found = inputs.find("s3a://logs/broker-3", None, None)
    rows, skipped = offset_rows(spark, logs, "friday")

Rules:
1. The driver lists, and reads what is small, through its JVM. Segments of `__consumer_offsets` are opened by Spark's own source of
   whole files (`binaryFile`), wherever its tasks run: no worker needs libhdfs, a key or a library of Amazon's. A task holds a segment
   in memory, 100 MiB as Kafka writes them (offsets.topic.segment.bytes), and a copy on its disk while it is decoded.
2. What fails is a UsageError in one line: what is missing, who may not, who does not answer.
3. Errors that can be found without Spark are reported before it starts (`check`).
"""

from __future__ import annotations

import posixpath
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from broker_sim.common.text import UsageError
from broker_sim.pipeline.files import FileEntry
from broker_sim.pipeline.offset_logs import Log
from broker_sim.pipeline.schemas import OFFSET_LOG, SKIPPED
from broker_sim.pipeline.segments import Skipped, log_partition_of, read_offsets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["HadoopFiles", "check", "offset_rows"]

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://([^/]*)(/.*)?")
BUCKETS = ("s3a", "gs", "abfs", "abfss", "wasb", "wasbs")
"""Schemes whose first part is a bucket or a container."""
NEEDS = {"s3a": "hadoop-aws"}
"""Scheme -> the library of Hadoop that has it, and that Spark does not bring."""
_WHY = {
    "UnknownStoreException": "there is no such bucket",
    "AccessDeniedException": "no rights",
    "AccessControlException": "no rights",
    "NoAuthWithAWSException": "no credentials were found",
    "CredentialInitializationException": "no credentials were found",
    "UnknownHostException": "no such host",
    "ConnectException": "no server answers there",
    "UnsupportedFileSystemException": "Spark's Hadoop knows no such file system",
}
"""Java's exceptions, and their meaning in words."""
_BLOCK = 1 << 18


def check(name: str, conf: Mapping[str, str], jars: Callable[[], Iterable[str]]) -> None:
    """Raises UsageError for an address that no Spark could read. ``jars``: names of the jars that Spark has of its own."""
    parts = _URI.fullmatch(name)
    if parts is None:
        raise UsageError(f"--input {name}: not an address (expected hdfs://HOST:PORT/DIR or s3a://BUCKET/DIR)")
    scheme, authority = parts[1].lower(), parts[2]
    if scheme in ("s3", "s3n"):
        raise UsageError(f"--input {name}: Hadoop's name for that is s3a://{authority}{parts[3] or ''}")
    if scheme in BUCKETS and not authority:
        raise UsageError(f"--input {name}: the bucket is missing (expected {scheme}://BUCKET/DIR)")
    library = NEEDS.get(scheme)
    given = [value for key, value in conf.items() if key in ("spark.jars", "spark.jars.packages") or "ClassPath" in key]
    if library is None or any(library in value or "*" in value for value in given):
        return
    own = list(jars())
    if not any(jar.startswith(f"{library}-") for jar in own):
        hadoop = next(
            (match[1] for jar in own if (match := re.match(r"hadoop-client-api-([\d.]+)\.jar", jar))), "VERSION"
        )
        raise UsageError(
            f"--input {name}: {scheme}:// is {library}'s, which Spark does not have:"
            f" --conf spark.jars.packages=org.apache.hadoop:{library}:{hadoop}"
        )


class HadoopFiles:
    """The driver's view, by names with a scheme."""

    def __init__(self, spark: SparkSession) -> None:
        context: Any = spark.sparkContext
        self._jvm, self._conf = context._jvm, context._jsc.hadoopConfiguration()

    def entry(self, name: str) -> FileEntry | None:
        """As `files.entry`, through Hadoop's FileSystem."""

        def found(system: Any, path: Any) -> FileEntry | None:
            if not system.exists(path):
                return None
            return _entry(system.getFileStatus(path))

        result: FileEntry | None = self._asked(name, found)
        return result

    def listing(self, name: str) -> list[FileEntry]:
        """As `files.listing`, through Hadoop's FileSystem."""
        rows: list[FileEntry] = self._asked(
            name, lambda system, path: [_entry(status) for status in system.listStatus(path)]
        )
        return sorted(rows)

    def open(self, name: str) -> _Opened:
        """A file to read pieces of."""
        opened: _Opened = self._asked(
            name, lambda system, path: _Opened(system.open(path), int(system.getFileStatus(path).getLen()))
        )
        return opened

    def _asked(self, name: str, ask: Callable[[Any, Any], Any]) -> Any:
        from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped,unused-ignore]

        try:
            path = self._jvm.org.apache.hadoop.fs.Path(name)
            return ask(path.getFileSystem(self._conf), path)
        except Py4JJavaError as error:
            raise UsageError(f"{name}: {_reason(error.java_exception)}") from None


class _Opened:
    """An open file; as `files.Source` needs it. What is asked for is read in blocks: a call into the JVM costs more than its bytes."""

    def __init__(self, stream: Any, size: int) -> None:
        self._stream, self._size = stream, size
        self._at, self._block = 0, b""

    def size(self) -> int:
        return self._size

    def read_at(self, size: int, position: int) -> bytes:
        """Up to ``size`` bytes. Raises OSError."""
        from py4j.protocol import Py4JJavaError

        begin = position - self._at
        if begin >= 0 and begin + size <= len(self._block):
            return self._block[begin : begin + size]
        try:
            self._stream.seek(min(position, self._size))
            self._at, self._block = position, bytes(self._stream.readNBytes(max(size, _BLOCK)))
        except Py4JJavaError as error:
            raise OSError(_reason(error.java_exception)) from None
        return self._block[:size]

    def close(self) -> None:
        self._stream.close()


def _entry(status: Any) -> FileEntry:
    return FileEntry(str(status.getPath().getName()), bool(status.isDirectory()), int(status.getLen()))


def _reason(java: Any) -> str:
    """Reason of a Java exception, in one line: the first known one in its chain of causes, else Java's own words."""
    words, cause = str(java.toString()).splitlines()[0], java
    for _ in range(10):
        if cause is None:
            break
        kind = str(cause.getClass().getSimpleName())
        message = str(cause.getMessage() or "").splitlines()
        if kind in ("ClassNotFoundException", "NoClassDefFoundError") and message:
            return f"Spark has no {message[0].split()[-1]}: a library is missing (--conf spark.jars.packages=..)"
        if kind in _WHY:
            return f"{_WHY[kind]} ({message[0][:200]})" if message else _WHY[kind]
        cause = cause.getCause()
    return words[:300]


# ------------------------------------------------------------------------------------------------ segments


def offset_rows(spark: SparkSession, logs: Iterable[Log], run_id: str) -> tuple[DataFrame, DataFrame]:
    """Rows of OFFSET_LOG of these logs, and of SKIPPED."""
    bounds = {
        _place(segment.path): (segment.path, segment.base, segment.until) for log in logs for segment in log.segments
    }
    if not bounds:
        return OFFSET_LOG.frame(spark), SKIPPED.frame(spark)
    whole = spark.read.format("binaryFile").load([path for path, *_ in bounds.values()]).select("path", "content")
    rows = whole.mapInArrow(_reader(bounds, run_id, skips=False), OFFSET_LOG.spark())
    unread = whole.mapInArrow(_reader(bounds, run_id, skips=True), SKIPPED.spark())
    return rows, unread


def _place(path: str) -> tuple[str, str]:
    """A segment by its folder and its name, which is how both sides know it: Spark writes addresses anew."""
    folder, name = posixpath.split(path)
    return posixpath.basename(folder), name


Bounds = Mapping[tuple[str, str], tuple[str, int, "int | None"]]


def _reader(bounds: Bounds, run_id: str, *, skips: bool) -> Callable[[Iterable[Any]], Iterator[Any]]:
    def read(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow

        for batch in batches:
            for path, content in zip(batch.column("path"), batch.column("content"), strict=True):
                there, start, end = bounds[_place(path.as_py())]
                skipped: list[Skipped] = []
                for rows in _of_segment(there, content, start, end, run_id, skipped):
                    if not skips:
                        yield rows
                if skips and skipped:
                    lost = [{"run_id": run_id, **entry._asdict(), "file": there} for entry in skipped]
                    yield pyarrow.RecordBatch.from_pylist(lost, SKIPPED.arrow())

    return read


def _of_segment(
    path: str, content: Any, start: int, end: int | None, run_id: str, skipped: list[Skipped]
) -> Iterator[Any]:
    """The rows of one segment's bytes, by the reader of segments on a disk."""
    folder, name = _place(path)
    assert log_partition_of(folder) is not None
    with tempfile.TemporaryDirectory(prefix="broker-sim-") as scratch:
        place = Path(scratch, folder)
        place.mkdir()
        with (place / name).open("wb") as file:
            file.write(content.as_buffer())
        yield from read_offsets(str(place), start=start, end=end, run_id=run_id, skipped=skipped.append)
