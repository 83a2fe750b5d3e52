"""The prompt in a simulated world: forth, back, and what can be asked there."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from broker_sim.simulation.faults.kinds import Fault
from broker_sim.simulation.sweeps.shell import HELP, Shell
from broker_sim.simulation.sweeps.trial import Case
from tests.simulation.planted import commits_are_not_loaded
from tests.support import processes

CASE = Case(
    "alone", 5, 8.0, as_version="4.1", order="fifo", journal=True,
    plan=(Fault(5.0, "crash", {"host": "c1", "reset": True, "for_s": 1.0}),),
)  # fmt: skip


def said(case: Case, until_s: float, *commands: str) -> str:
    lines = iter([f"{command}\n" for command in commands])
    told: list[str] = []
    Shell(case, until_s, read=lambda: next(lines, ""), write=told.append).run()
    return "".join(told)


def answers(text: str) -> list[float]:
    """Return the times in s at which the simulation stood, in the order of the shell's answers."""
    return [float(at) for at in re.findall(r"^([\d.]+) s: the last of", text, re.MULTILINE)]


def test_it_stands_at_the_moment_and_goes_on_and_back() -> None:
    text = said(CASE, 4.2, "until 5.5", "back 1s", "back", "until 2", "until 6s")
    assert answers(text) == [4.2, 5.5, 4.5, 3.5, 2.0, 6.0]


def test_a_step_is_an_event_more() -> None:
    text = said(CASE, 4.0, "step", "step 3", "events 2")
    first, second, third = (int(number) for number in re.findall(r"the last of (\d+) events was", text))
    assert (second - first, third - second) == (1, 3) or second > first, text
    assert len(text.splitlines()) == 3 * 2 + 2


def test_looking_tells_of_hosts_groups_requests_logs_and_faults() -> None:
    text = said(
        CASE, 4.2, "hosts", "hosts c1", "flight", "groups", "explain billing", "timeline billing", "logs", "faults", "help",
        'kafka.group("billing").state', "sim.hosts['c1'].state",
    )  # fmt: skip
    for told in (
        "c1: up", "await consumer.start()", "JoinGroup v5 of 'c1' (group 'billing') at broker 1", "3 members, waiting: ",
        "The rebalance after generation 0 began because", "* leader", "orders-0: leader 1", "to come: 5 s: crash host c1",
        HELP.splitlines()[0], "'PreparingRebalance'", "'up'",
    ):  # fmt: skip
        assert told in text, told


def test_going_back_is_the_same_run_again() -> None:
    ask = ("events 30", "back 2s", "until 6.5s", "events 30")
    text = said(CASE, 6.5, *ask)
    blocks = [block.splitlines() for block in re.split(r"^[\d.]+ s: the last of.*\n", text, flags=re.MULTILINE)[1:]]
    assert len(blocks) == 3
    assert blocks[0] == blocks[2]
    assert len(blocks[0]) == 31


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("until", "the time is missing (expected e.g. until 12.5s)"),
        ("until soon", "the time"),
        ("hosts nobody", "no host 'nobody'; expected one of broker-1, c1"),
        ("explain", "the group is missing; expected one of billing"),
        ("step x", "'x' is not a number"),
        ("foo bar", "'foo' is not a command or an expression; help lists the commands"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
    ],
)
def test_what_can_not_be_meant_is_told_in_a_line(wrong: str, told: str) -> None:
    text = said(CASE, 4.2, wrong, "faults")
    assert told in text
    assert "to come: 5 s" in text


def test_where_it_fails_the_world_can_be_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    commits_are_not_loaded(monkeypatch)
    failing = Case(
        "group", 5, 15.0, as_version="4.1", plan=(Fault(12.0, "move", {"log": "offsets(billing)", "step": 1}),)
    )
    text = said(failing, float("inf"), "hosts", "on", "back 1s", "groups")
    assert re.search(r"^12\.\d+ s: it fails: invariant: ", text, re.MULTILINE)
    assert "the run has ended; use back, or until with an earlier time" in text
    assert 11 <= answers(text)[0] < 12


@pytest.mark.slow
def test_on_the_command_line_it_reads_commands_from_stdin(tmp_path: Path) -> None:
    file = tmp_path / "case.json"
    file.write_text(json.dumps(CASE.to_dict()))

    def called(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "broker_sim", "simulate", *arguments]
        return processes.run(command, input=stdin)

    shell = called("--replay", str(file), "--until", "4.2s", "--shell", stdin="until 5\nflight\non\n")
    assert shell.returncode == 0, shell.stderr
    assert answers(shell.stdout) == [4.2, 5.0]
    assert "it ends, clean" in shell.stdout
    told = called("--replay", str(file), "--until", "3")
    assert told.returncode == 0, told.stderr
    assert "c1: up" in told.stdout
    wrong = called("--until", "3")
    assert (wrong.returncode, wrong.stderr) == (
        2, "broker-sim simulate: --shell and --until need a saved failure; add --replay FILE\n",
    )  # fmt: skip
