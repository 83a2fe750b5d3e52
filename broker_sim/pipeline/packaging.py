"""The archive that takes the pipelines to a cluster: ``broker-sim pipeline package OUT.zip``.

    spark-submit --master spark://HOST:7077 --py-files OUT.zip OUT.py run --input hdfs:///logs --out hdfs:///tables

Rules:
1. It holds broker_sim and protocol as they run here, Python files and templates; `OUT.py` beside it is the program to submit.
2. What it can't hold (compiled libraries) has to be on every machine: `NEEDS`. Where something is missing, importing the pipelines from
   the archive says all of it in one line, with the machine's name. PySpark comes with Spark.
3. The same files make the same archive, byte by byte. A file that is no archive of ours is not written over.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import socket
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from broker_sim.common.commandline import DONE, USAGE, add_command
from broker_sim.common.text import UsageError

__all__ = ["ENTRY", "NEEDS", "Archive", "check_this_machine", "package", "register", "ship"]

NEEDS = {
    "google_crc32c": "google-crc32c",
    "jinja2": "jinja2>=3.1",
    "pyarrow": "pyarrow>=18",
    "pandas": "pandas>=2.2,<3",
}
"""Module -> what to install, on the driver and on every executor: which of them draws the report is the cluster's choice."""

LEAST_PYTHON = (3, 11)

ENTRY = '''\
"""Runs broker-sim's pipelines on a cluster: spark-submit --py-files {archive} {entry} run --input DIR --out DIR"""

from broker_sim.pipeline.__main__ import main

main()
'''

_EXAMPLES = """\
examples:
  broker-sim pipeline package pipelines.zip
      pipelines.zip, and pipelines.py to submit
  spark-submit --master spark://HOST:7077 --py-files pipelines.zip pipelines.py run --input hdfs:///logs --out hdfs:///report
      the report of a data directory, made on a cluster
  pyspark --master yarn --py-files pipelines.zip
      then, there: from broker_sim.pipeline import register; register(spark); spark.read.format("consumer_offsets").load("DIR")

exit codes: 0 it is written, 2 it can't be
"""

_PACKAGES = ("broker_sim", "kafka_wire")
_WHEN = (1980, 1, 1, 0, 0, 0)
_MARK = b"broker-sim "


def register(verbs: Any, name: str) -> None:
    """Add the parser of this verb to those of ``broker-sim pipeline``."""
    verb = add_command(
        verbs,
        name,
        _package,
        help="an archive for spark-submit",
        description="Write what a cluster needs of broker-sim: an archive for --py-files, and beside it the program to submit.",
        epilog=_EXAMPLES,
    )
    verb.add_argument("archive", type=Path, metavar="OUT.zip", help="where to; one that is there is replaced")


def _package(arguments: argparse.Namespace) -> int:
    try:
        sys.stdout.write(f"{package(arguments.archive)}\n")
    except UsageError as error:
        sys.stderr.write(f"broker-sim pipeline package: {error}\n")
        return USAGE
    return DONE


class Archive:
    """Archive that was written: its path and its program's, the number of modules in it, its bytes."""

    def __init__(self, path: Path, entry: Path, modules: int) -> None:
        self.path, self.entry, self.modules = path, entry, modules
        self.bytes = path.stat().st_size

    def __str__(self) -> str:
        return (
            f"{self.path}: {self.modules} modules, {self.bytes / 1e6:.1f} MB\n"
            f"spark-submit --master MASTER --py-files {self.path} {self.entry} run --input DIR --out DIR\n"
            f"needed on every machine: Python {_dotted(LEAST_PYTHON)} or newer with {', '.join(NEEDS.values())}"
        )


def package(path: Path) -> Archive:
    """Write the archive ``path`` (``*.zip``) and its program beside it (``*.py``). Raises UsageError."""
    from broker_sim import __version__

    if path.suffix != ".zip":
        raise UsageError(f"{path}: Spark takes archives of Python whose names end in .zip")
    entry = path.with_suffix(".py")
    _see_that_they_are_ours(path, entry)
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with zipfile.ZipFile(scratch, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.comment = _MARK + __version__.encode()
            modules = 0
            for name, data in _modules():
                archive.writestr(zipfile.ZipInfo(name, _WHEN), data, zipfile.ZIP_DEFLATED)
                modules += name.endswith(".py")
        scratch.replace(path)
        entry.write_text(ENTRY.format(archive=path.name, entry=entry.name))
    except OSError as error:
        scratch.unlink(missing_ok=True)
        raise UsageError(f"{path} can't be written: {error.strerror or error}") from None
    return Archive(path, entry, modules)


def _see_that_they_are_ours(path: Path, entry: Path) -> None:
    if path.exists():
        try:
            with zipfile.ZipFile(path) as archive:
                ours = archive.comment.startswith(_MARK)
        except (OSError, zipfile.BadZipFile):
            ours = False
        if not ours:
            raise UsageError(f"{path} exists and is not an archive of broker-sim; nothing was changed")
    if entry.exists() and "broker_sim.pipeline.__main__" not in entry.read_text(errors="replace"):
        raise UsageError(f"{entry} exists and is not a program of broker-sim; nothing was changed")


def _modules() -> Iterator[tuple[str, bytes]]:
    """Every Python file and template, by its name in the archive; sorted. They may be in an archive themselves."""
    for name in _PACKAGES:
        yield from _files(files(name), name)


def _files(directory: Any, name: str) -> Iterator[tuple[str, bytes]]:
    for item in sorted(directory.iterdir(), key=lambda path: str(path.name)):
        if item.is_dir():
            if item.name != "__pycache__":
                yield from _files(item, f"{name}/{item.name}")
        elif item.name.endswith((".py", ".html")):
            yield f"{name}/{item.name}", item.read_bytes()


def ship(spark: Any) -> None:
    """Send the workers of a cluster this code. Does nothing where it comes from an archive: that has been sent already."""
    if os.path.exists(__file__):
        _SHIPPED.append(tempfile.TemporaryDirectory(prefix="broker-sim-"))
        spark.sparkContext.addPyFile(str(package(Path(_SHIPPED[-1].name) / "broker-sim.zip").path))


_SHIPPED: list[tempfile.TemporaryDirectory[str]] = []
"""Folders of sent archives, which are removed as this process ends: Spark reads them whenever a worker fetches an archive."""


def check_this_machine(needs: Mapping[str, str] = NEEDS, what: str = "pipelines") -> None:
    """Raises ImportError, in one line, unless ``needs`` (module -> what to install) are here."""
    lacks = [wanted for module, wanted in needs.items() if importlib.util.find_spec(module) is None]
    old = [f"Python {_dotted(LEAST_PYTHON)} or newer"] if sys.version_info < LEAST_PYTHON else []
    if lacks or old:
        how = f"; pip install {' '.join(repr(name) for name in lacks)}" if lacks else ""
        raise ImportError(
            f"broker-sim's {what} need {' and '.join(old + lacks)} on every machine of the cluster, and {sys.executable} (Python "
            f"{_dotted(sys.version_info[:2])}) on {socket.gethostname()} has it not{how}; or name another Python in PYSPARK_PYTHON"
        )


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
