"""The pipeline on folders of incidents, and on those that are kept in `recorded/`; on DuckDB, so that it needs no Java."""

from __future__ import annotations

import io
import re
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from broker_sim.pipeline.progress import Steps
from broker_sim.pipeline.run import RunOptions, pipeline
from tests.incidents.ledger import Ledger
from tests.incidents.score import Score, judge
from tests.incidents.truth import witnesses

_ANY_PATH = re.compile(rb"/(?:root|work|tmp|home|Users)/(?:[\w.@+-]+/)*([\w.@+-]*)")
"""Paths of the machine that the brokers ran on: their directories, and jar after jar of the class path."""

__all__ = ["findings_of", "pack", "recorded", "scores", "unpack"]


def findings_of(folder: Path, out: Path, *, logs: bool = True, client_logs: bool = True) -> list[dict[str, Any]]:
    """Return the findings of `broker-sim pipeline run` for a folder; `logs`: with the brokers' logs and, by default, the clients'."""
    given: dict[str, Any] = {
        "out": str(out),
        "input": str(folder / "data"),
        "look_for_journal": False,
        "engine": "duckdb",
        "overwrite": True,
    }
    known = {one.name for one in fields(RunOptions)}
    if logs and "broker_logs" in known:
        given |= {
            "broker_logs": (str(folder / "logs" / "brokers"),),
            "client_logs": (str(folder / "logs" / "clients"),) if client_logs else (),
        }
    outcome = pipeline(RunOptions(**given), Steps(sys.stderr, quiet=True))
    return [one.to_dict() for one in outcome.findings]


def recorded() -> list[Path]:
    """The folders that are kept, packed."""
    return sorted((Path(__file__).parent / "recorded").glob("*.tar.xz"))


def pack(folder: Path, to: Path) -> None:
    """Keeps of a folder what tells of groups: no data, no index files, which are large and say nothing more."""
    with tarfile.open(to, "w:xz", preset=9) as packed:
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder)
            if path.is_file() and (
                name.parts[0] != "data" or (name.parts[1].startswith("__") and path.suffix == ".log")
            ):
                content = path.read_bytes()
                if name.parts[0] == "logs":
                    content = _ANY_PATH.sub(rb"/opt/kafka/\1", content)
                one = tarfile.TarInfo(f"{folder.name}/{name}")
                one.size = len(content)
                packed.addfile(one, io.BytesIO(content))


def unpack(packed: Path, into: Path) -> Path:
    with tarfile.open(packed) as file:
        file.extractall(into, filter="data")
    return into / packed.name.removesuffix(".tar.xz")


def scores(folders: Sequence[Path], *, logs: bool = True) -> Iterator[Score]:
    """Yield the score of each folder, one after the other."""
    with tempfile.TemporaryDirectory() as scratch:
        for folder in folders:
            found = findings_of(folder, Path(scratch) / folder.name, logs=logs)
            yield judge(folder.name, Ledger.read(folder), found, witnesses(folder))
