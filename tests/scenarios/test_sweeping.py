"""One scenario with many seeds: what holds, what does not, and the command that shows it again."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from broker_sim.common.text import UsageError
from broker_sim.scenario.commands import find
from broker_sim.scenario.sweeping import Sweep, sweep, text_of
from tests.scenarios.test_virtual import CONSUMER
from tests.support import processes
from tests.support.command import command

SOMETIMES = CONSUMER.replace("{name: app,", "{name: app, count: 2,").replace("members: 1}", "members: 2}")
SOMETIMES += "  - {happened: {group: billing, leader: app-1}, within: 1s}\n"
"""The expectation holds for seeds that start app-1 first."""


def cli(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "broker_sim", *words]
    return processes.run(command)


@pytest.mark.slow
def test_a_scenario_that_holds_holds_with_every_seed() -> None:
    seen: list[int] = []
    found = sweep(find("crash-without-leave"), range(5, 25), jobs=2, progress=lambda each: seen.append(each.runs))
    assert (found.code, found.runs, found.wanted, found.failures) == (0, 20, 20, [])
    assert seen[-1] == 20
    assert 1 <= sum(found.sequences.values()) == 20
    assert found.virtual_s > 20 * 5
    assert text_of(found).startswith("a consumer crashes without a word: 20 seeds: 20 held; ")


@pytest.mark.slow
def test_a_share_is_played_twice() -> None:
    found = sweep(find("not-coordinator-on-offset-fetch"), range(60), jobs=2)
    assert found.repeated > 0
    assert found.code == 0


@pytest.mark.slow
def test_failing_seeds_are_reported_with_the_command_that_repeats_them(tmp_path: Path) -> None:
    path = tmp_path / "sometimes.yaml"
    path.write_text(SOMETIMES)
    found = sweep(path, range(12), jobs=2)
    broken = [one.seed for one in found.failures]
    assert broken == sorted(broken)
    assert 0 < len(broken) < 12
    assert (found.codes[1], found.code) == (len(broken), 1)
    told = text_of(found)
    assert f"broken with the seeds {', '.join(map(str, broken))}\n" in told
    again = next(line for line in told.splitlines() if line.startswith("  again: "))
    done = cli(*shlex.split(again.removeprefix("  again: broker-sim ")), "--quiet")
    assert (done.returncode, "BROKEN  happened: group billing: leader app-1" in done.stdout) == (1, True)
    holds = next(seed for seed in range(12) if seed not in broken)
    assert cli("run", str(path), "--virtual", "--seed", str(holds), "--quiet").returncode == 0


@pytest.mark.slow
def test_other_clients_and_versions_are_swept_as_well() -> None:
    found = sweep(find("offset-fetch-while-loading"), range(3), jobs=1, clients={"*": "kafka-python"}, as_version="3.9")
    assert found.code == 0
    assert sweep(find("offset-fetch-while-loading"), range(3), jobs=1).codes == {1: 3}


def test_many_seeds_are_named_in_part() -> None:
    from broker_sim.scenario.sweeping import Failed

    found = Sweep(Path("x.yaml"), 20, "x", 20, failures=[Failed(seed, 3, "late\nlater") for seed in range(20)])
    found.codes[3] = 20
    assert "late with the seeds 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 8 more\n" in text_of(found)


@pytest.mark.slow
@pytest.mark.parametrize("verb", [pytest.param("run", marks=pytest.mark.slow), "simulate"])
def test_the_commands_print_json(verb: str) -> None:
    path = str(find("leader-changes"))
    words = [verb, path, *(["--virtual"] if verb == "run" else []), "--seeds", "0..4", "--jobs", "2", "--json"]
    done = cli(*words)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["wanted"], told["held"], told["broken"], told["late"], told["failures"]) == (4, 4, 0, 0, [])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["run", "leader-changes", "--seeds", "0..4"], "--seeds needs virtual time"),
        (["run", "leader-changes", "--virtual", "--seeds", "0..4", "--seed", "1"], "--seed is for one run"),
        (["run", "leader-changes", "--virtual", "--seeds", "4..4"], "an empty range of seeds"),
        (["run", "leader-changes", "--virtual", "--seeds", "0..4", "--client", "confluent"], "the client app-1 is confluent"),
        (["simulate", "group", "incident.yaml"], "group is a workload; it can't be combined with scenario files"),
        (["simulate", "incident.yaml"], "incident.yaml: No such file or directory"),
        (["simulate", "scenarios/leader-changes.yaml", "--shrink"], "--shrink is for workloads"),
    ],
)  # fmt: skip
def test_scenarios_that_cannot_be_swept_are_one_line(words: list[str], told: str) -> None:
    done = command(*words)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert told in done.stderr


def test_errors_of_a_swept_file_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(CONSUMER.replace("steps:", "stepps:"))
    with pytest.raises(UsageError, match=r"wrong.yaml:5: the file has no key 'stepps'"):
        sweep(path, range(2))
    path.write_text(CONSUMER.replace("expect", "  - {name: move, do: {topic: nowhere, fill: 1}}\nexpect"))
    with pytest.raises(UsageError, match=r"wrong.yaml:\d+: .*nowhere"):
        sweep(path, range(2))
