"""The same seed gives the same run, in any process: to the event of the journal and the callback of the loop."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from broker_sim.simulation import simulate
from broker_sim.simulation.virtual.hashseed import is_pinned, pinned_environment
from tests.simulation.workload import begin, twenty_minutes, two_minutes
from tests.support import processes


def in_fresh_processes(
    arguments: Sequence[str],
    hash_seeds: Sequence[str],
    meanwhile: Callable[[], object] = lambda: None,
    module: str = "tests.simulation.workload",
) -> list[dict[str, Any]]:
    """Return the module's output under each of the hash seeds, run side by side."""
    running = [
        processes.start([sys.executable, "-m", module, *arguments], env={**os.environ, "PYTHONHASHSEED": seed})
        for seed in hash_seeds
    ]
    meanwhile()
    told = []
    for process in running:
        out, err = processes.finish(process, f"{module} to tell its run")
        assert process.returncode == 0, err
        told.append(json.loads(out))
    return told


@pytest.mark.slow
@pytest.mark.parametrize("order", ["fifo", "tasks"])
def test_fresh_processes_with_other_hash_seeds_run_the_same(order: str) -> None:
    told = in_fresh_processes(["two", "7", order], ["1", "2", "random"])
    assert len({one["journal"] for one in told}) == 1
    assert len({one["schedule"] for one in told}) == 1


@pytest.mark.long
def test_twenty_minutes_take_a_few_cpu_seconds_and_are_the_same_in_another_process(
    record_property: Callable[[str, object], None],
) -> None:
    own: dict[str, Any] = {}

    def here() -> None:
        started = time.process_time()
        with simulate(7, trace=True) as sim:
            group = twenty_minutes(sim)
            own.update(journal=sim.journal_hash, schedule=sim.schedule_hash)
            assert sim.elapsed_s == 1200
            assert not sim.errors
            assert group.stable(3)
            assert group.lost() == set()
            assert group.producer.sent > 1190
            told = [[len(parts) for _, parts in one.assignments] for one in group.consumers]
            assert [counts[-1] for counts in told] == [4, 4, 4]
            assert (told[1][1], told[2][1]) == (6, 6), "while the first one hung the others shared its partitions"
            generations = [each["generation"] for each in group.history()]
            assert generations == sorted(generations)
        own["cpu_s"] = time.process_time() - started

    [other] = in_fresh_processes(["twenty", "7"], ["random"], here)
    assert (other["journal"], other["schedule"]) == (own["journal"], own["schedule"])
    record_property("virtual seconds per CPU second", round(1200 / own["cpu_s"]))
    assert own["cpu_s"] < 20, f"{1200 / own['cpu_s']:.0f} virtual seconds per CPU second"


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_the_order_of_tasks_changes_the_schedule_and_loses_nothing() -> None:
    with simulate(7, order="tasks") as sim:
        group = two_minutes(sim)
        assert not group.lost()


@pytest.mark.slow
def test_a_pinned_hash_seed_is_seen() -> None:
    code = "from broker_sim.simulation.virtual.hashseed import is_pinned, pin; import os; print(is_pinned()); pin(); print(is_pinned())"
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
