"""Ctrl-C ends ``pipeline run`` with one line and exit code 130, wherever it comes."""

from __future__ import annotations

import logging
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest
from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped,unused-ignore]

from broker_sim.cli.main import main
from broker_sim.pipeline import commands
from broker_sim.pipeline.progress import gateway_is_quiet
from broker_sim.pipeline.run import at_work
from broker_sim.scenario.commands import shipped
from tests.support import processes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TELLS = (
    "import logging\ntry:\n    1 / 0\nexcept Exception:\n    logging.exception('Exception while sending command.')\n"
)


@pytest.mark.spark
@pytest.mark.parametrize("after", ["starting Spark", "reading"])
def test_in_a_job_of_spark_s(after: str, tmp_path: Path) -> None:
    played = [
        "run",
        str(shipped() / "crash-without-leave.yaml"),
        "--virtual",
        "--quiet",
        "--data",
        str(tmp_path / "data"),
    ]
    assert main(played) == 0
    words = [
        "--engine",
        "spark",
        "--master",
        "local[1]",
        "--input",
        str(tmp_path / "data"),
        "--out",
        str(tmp_path / "out"),
    ]
    process = processes.start(
        [sys.executable, "-m", "broker_sim", "pipeline", "run", *words],
        preexec_fn=lambda: signal.signal(
            signal.SIGINT, signal.default_int_handler
        ),  # a shell's background job ignores it
    )
    processes.line_with(process, after, of="stderr")
    process.send_signal(signal.SIGINT)
    told, problems = processes.finish(process, "the run to end after a signal")
    lines = [line for line in problems.splitlines() if not line.endswith(" s)")]  # steps that ended before
    assert (process.returncode, told, lines) == (130, "", ["broker-sim pipeline run: interrupted"])


def test_a_session_that_cannot_be_stopped_afterwards() -> None:
    class Session:
        def stop(self) -> None:
            raise Py4JNetworkError("Answer from Java side is empty")

    with pytest.raises(KeyboardInterrupt), at_work(cast("SparkSession", Session()), stop=True):
        raise KeyboardInterrupt


def test_before_anything_began(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(arguments: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, "_run", interrupted)
    assert main(["pipeline", "run", "--input", "here", "--out", "there"]) == 130
    assert capsys.readouterr().err == "broker-sim pipeline run: interrupted\n"


def test_the_gateway_logs_nothing_and_others_do(caplog: pytest.LogCaptureFixture) -> None:
    with gateway_is_quiet():
        exec(compile(TELLS, "/site-packages/py4j/java_gateway.py", "exec"))
        logging.getLogger("py4j.clientserver").error("Error while receiving.")
        exec(compile(TELLS, "/site-packages/mine/py4j_like.py", "exec"))
    assert [Path(one.pathname).name for one in caplog.records] == ["py4j_like.py"]
    exec(compile(TELLS, "/site-packages/py4j/java_gateway.py", "exec"))
    assert len(caplog.records) == 2, "outside of the block all is as it was"
