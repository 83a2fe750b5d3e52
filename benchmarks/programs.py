"""The programs written in Go, built into a cache: the load generator (``kload``) and a bare kfake (``kfake``)."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

_HERE = Path(__file__).parent


class Unavailable(Exception):
    """A program or library that a system needs is not installed; the text says which."""


def cache_dir() -> Path:
    """Directory in which built programs are kept between runs: below env BROKER_SIM_CACHE, else ~/.cache/broker-sim."""
    return Path(os.environ.get("BROKER_SIM_CACHE") or Path.home() / ".cache" / "broker-sim") / "benchmarks"


def built(name: str) -> Path:
    """The program of ``benchmarks/NAME``, built where it is missing or older than its sources. Raises Unavailable."""
    source = _HERE / name
    target = cache_dir() / name
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        newest = max(path.stat().st_mtime for path in source.iterdir())
        if not target.exists() or target.stat().st_mtime < newest:
            _build(source, target)
    return target


def _build(source: Path, target: Path) -> None:
    if shutil.which("go") is None:
        raise Unavailable("go is not installed")
    done = subprocess.run(
        ["go", "build", "-o", str(target), "."],
        cwd=source,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if done.returncode != 0:
        raise Unavailable(f"go build of {source.name} failed: {done.stderr.strip()[-500:]}")
    os.utime(target)
