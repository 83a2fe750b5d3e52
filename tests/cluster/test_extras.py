"""Extras that are not installed are reported in one line with the way to install them, and exit code 2; all else works without."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import processes

WITHOUT = """\
import sys
sys.modules.update(dict.fromkeys(sys.argv[1].split(",")))
from broker_sim.cli.main import main
sys.argv[1:] = sys.argv[2:]
sys.exit(main())
"""


def run(without: str, *words: str) -> subprocess.CompletedProcess[str]:
    """A command where some modules are missing."""
    command = [sys.executable, "-c", WITHOUT, without, *words]
    return processes.run(command)


PIPELINE = "duckdb,numpy,pandas,pyarrow,pyspark"


@pytest.mark.parametrize(
    ("without", "words", "told"),
    [
        (PIPELINE, "pipeline run --input x --out y", "'broker-sim[pipeline]'"),
        (PIPELINE, "pipeline watch --input x --out y", "'broker-sim[pipeline]'"),
        (PIPELINE, "reproduce --input x --out y", "'broker-sim[pipeline]'"),
        ("numpy", "pipeline run --input x --out y", "numpy"),
        (
            "aiokafka",
            "demo",
            "broker-sim demo: it needs aiokafka, which is not installed: python -m pip install 'broker-sim[demo]'",
        ),
        ("aiokafka", "run crash-without-leave", "python -m pip install 'broker-sim[demo]'"),
        ("kafka", "run crash-without-leave --client kafka-python", "python -m pip install kafka-python"),
        ("confluent_kafka", "run crash-without-leave --client confluent", "python -m pip install confluent-kafka"),
        ("aiohttp", "serve --control 0", "python -m pip install 'broker-sim[control]'"),
    ],
)
def test_what_is_missing_is_one_line_with_its_remedy(without: str, words: str, told: str, tmp_path: Path) -> None:
    words = words.replace(" x", f" {tmp_path}").replace(" y", f" {tmp_path / 'out'}")
    done = run(without, *words.split())
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert told in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_module_of_our_own_that_is_missing_is_no_extra() -> None:
    done = run("broker_sim.demo", "demo")
    assert done.returncode == 1
    assert "ModuleNotFoundError" in done.stderr


def test_all_else_works_without_them() -> None:
    done = run(
        f"{PIPELINE},aiokafka,aiohttp,kafka,confluent_kafka,uvloop,cramjam", "scenario", "check", "crash-without-leave"
    )
    assert done.returncode == 0, done.stderr
