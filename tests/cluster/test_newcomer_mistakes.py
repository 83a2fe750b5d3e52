"""Mistakes of the first hour: each error is one line with the wrong value and what is allowed, before anything runs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from broker_sim import Cluster, UsageError
from broker_sim.cli.main import main
from tests.support import processes

COMMANDS = {
    "run crash-without-leave --timeline x.pdf": "broker-sim run: --timeline: 'x.pdf' is not the name of a picture "
    "(expected *.html or *.svg)",
    "run crash-without-leave --virtual --client confluentt": "broker-sim run: 'confluentt' is neither a kind of client nor a program; "
    "did you mean 'confluent'?",
    "run folder": "broker-sim run: folder: a directory, not a scenario file (`broker-sim scenario list DIR` lists its files)",
    "run crash-without-leav": "broker-sim run: crash-without-leav: no such file or scenario; did you mean 'crash-without-leave'?",
    "scenario list folder": "broker-sim scenario list: folder: no *.yaml in it",
    "scenario list nowhere": "broker-sim scenario list: nowhere: not a directory",
    "scenario check": "broker-sim scenario check: FILE is missing",
    "serve --data file": "broker-sim serve: data directory file can't be used: it is a file",
    "serve --as-version 3.10": "broker-sim serve: no Kafka release '3.10' (expected 3.4 to 3.9, or 4.0 to 4.4)",
    "demo --as-version 2.8": "broker-sim demo: --as-version: no Kafka release '2.8' (expected 3.4 to 3.9, or 4.0 to 4.4)",
    "group billing --control ftp://x": "broker-sim group get: control server 'ftp://x' is not an address (expected http://HOST:PORT",
    "explain billing --journal file": "broker-sim explain: file: a journal without events",
    "journal --journal file": "broker-sim journal read: file: a journal without events",
    "timeline billing --journal folder": "broker-sim timeline: folder: no journal file in it (expected journal-000001.ndjson",
    "pipeline run --input nowhere --out out": "broker-sim pipeline run: --input nowhere: no such directory",
    "pipeline run --input file --out out": "broker-sim pipeline run: --input file: not a directory",
    "pipeline run --input folder --out out": "broker-sim pipeline run: --input folder: no directory __consumer_offsets-N in it",
    "simulate group --seeds 5..1": "broker-sim simulate: argument --seeds: '5..1' is an empty range of seeds (expected e.g. 0..1000)",
}


@pytest.mark.parametrize("words", COMMANDS)
def test_a_command_names_the_value_and_what_is_allowed(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    try:
        code = main(words.split())
    except SystemExit as exit_:  # argparse
        code = int(str(exit_.code))
    printed = capsys.readouterr()
    assert (code, printed.out) == (2, "")
    assert printed.err.startswith(COMMANDS[words])
    assert printed.err.count("\n") == 1


async def test_a_wait_for_what_is_not_a_number_is_refused_at_once() -> None:
    async with Cluster() as kafka:
        with pytest.raises(UsageError, match="members: 'two' is not a whole number from 0"):
            await kafka.group("billing").stable(members="two")  # type: ignore[arg-type]
        with pytest.raises(UsageError, match=r"advance needs a manual clock \(clock='manual', serve --clock manual\)"):
            await kafka.time.advance("5s")


def test_a_run_whose_progress_is_no_longer_read_continues(tmp_path: Path) -> None:
    code = (
        "import os, sys; read, write = os.pipe(); os.close(read); os.dup2(write, 2);"
        " from broker_sim.cli.main import main; sys.exit(main(['run', 'crash-without-leave', '--virtual', '--seed', '1']))"
    )
    done = processes.run([sys.executable, "-c", code], cwd=tmp_path)
    assert done.returncode == 0
    assert "held after" in done.stdout
