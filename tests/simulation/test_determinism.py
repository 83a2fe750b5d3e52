"""The same seed gives the same run, in any process: to the event of the journal and the callback of the loop."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from broker_sim.simulation import simulate
from broker_sim.simulation.hashseed import is_pinned, pinned_environment
from tests.simulation.workload import begin, two_minutes


def in_fresh_processes(arguments: Sequence[str], hash_seeds: Sequence[str]) -> list[dict[str, Any]]:
    """What `workload` tells, run side by side under each of the hash seeds."""
    command = [sys.executable, "-m", "tests.simulation.workload", *arguments]
    environment = {name: value for name, value in pinned_environment().items() if name != "PYTHONHASHSEED"}
    running = [
        subprocess.Popen(
            command, env={**environment, "PYTHONHASHSEED": seed}, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for seed in hash_seeds
    ]
    told = []
    for process in running:
        out, err = process.communicate(timeout=50)
        assert process.returncode == 0, err.decode()
        told.append(json.loads(out))
    return told


def _same(told: list[dict[str, Any]]) -> None:
    assert len({one["journal"] for one in told}) == 1
    assert len({one["schedule"] for one in told}) == 1


@pytest.mark.parametrize("order", ["fifo", "tasks"])
def test_fresh_processes_with_other_hash_seeds_run_the_same(order: str) -> None:
    _same(in_fresh_processes(["two", "7", order], ["1", "2", "random"]))


def test_twenty_minutes_are_the_same_in_two_processes() -> None:
    _same(in_fresh_processes(["twenty", "7"], ["1", "random"]))


def test_the_same_seed_again_in_one_process_is_the_same_run_and_others_are_not() -> None:
    def run(seed: int) -> tuple[str, str]:
        with simulate(seed) as sim:
            begin(sim)
            sim.run_for(12)
            return sim.journal_hash, sim.schedule_hash

    first = run(1)
    others = [run(seed) for seed in range(2, 7)]
    assert run(1) == first
    assert len({first, *others}) == 6


def test_runs_differ_from_the_first_difference_on_and_not_before() -> None:
    def hashes(crash: bool) -> list[str]:
        with simulate(4) as sim:
            begin(sim)
            sim.run_for(10)
            found = [sim.journal_hash]
            if crash:
                sim.crash("c1")
            sim.run_for(5)
            return [*found, sim.journal_hash]

    (before, after), (before_too, after_too) = hashes(False), hashes(True)
    assert before == before_too
    assert after != after_too


def test_the_order_of_tasks_changes_the_schedule_and_loses_nothing() -> None:
    with simulate(7, order="tasks") as sim:
        group = two_minutes(sim)
        assert not group.lost()


def test_a_pinned_hash_seed_is_seen() -> None:
    code = "from broker_sim.simulation.hashseed import is_pinned, pin; import os; print(is_pinned()); pin(); print(is_pinned())"
    for seed, expected in (("random", "False\nTrue"), ("0", "True\nTrue"), ("77", "True\nTrue")):
        out = subprocess.run(
            [sys.executable, "-c", code],
            env={**pinned_environment(), "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
        )
        printed = out.stdout.split()
        assert printed[:2] == expected.split() or printed == ["False", "True", "True"], out
    assert is_pinned() in (True, False)
