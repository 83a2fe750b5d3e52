"""Failing cases made small, always in the same way, within their budget."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest

from broker_sim.simulation import Simulation
from broker_sim.simulation.faults.kinds import Fault, FaultPlan
from broker_sim.simulation.sweeps import seeds
from broker_sim.simulation.sweeps.shrink import ddmin, shrink
from broker_sim.simulation.sweeps.trial import WORKLOADS, Case, CaseOutcome, case_from, run
from broker_sim.simulation.workloads.deeds import Deed, Deeds
from tests.simulation.planted import LOST, commits_are_not_loaded


def faults(*numbers: int) -> tuple[Fault, ...]:
    return tuple(Fault(number, "elect", {"log": f"orders-{number}"}) for number in numbers)


@pytest.mark.parametrize("needed", [(), (0,), (7,), (15,), (0, 15), (3, 4), (1, 8, 13), tuple(range(16))])
def test_ddmin_finds_what_is_needed(needed: tuple[int, ...]) -> None:
    asked: list[int] = []

    def fails(part: tuple[Fault, ...]) -> bool:
        asked.append(len(part))
        return all(fault in part for fault in faults(*needed))

    assert ddmin(faults(*range(16)), fails) == faults(*needed)
    assert len(asked) < 80


def _attempt(case: Case) -> CaseOutcome:
    """Fails where c2 is crashed for 2 s or more, before 20 s, with two consumers or more; without any pause in another way."""
    plan: FaultPlan = list(case.plan or ())
    crash = [f for f in plan if f.args.get("host") == "c2" and f.args["for_s"] >= 2 and f.t_s < 20]
    failure = (
        "lost" if crash and len({"c1", "c2", "c3"}.difference(case.absent)) >= 2 and case.duration_s > 13 else None
    )
    return CaseOutcome(case, failure if any(f.kind == "pause" for f in plan) else "other")


def _big() -> Case:
    plan = [Fault(number + 0.123, "elect", {"log": "orders-0"}) for number in range(10)]
    plan.insert(3, Fault(8.777, "crash", {"host": "c2", "for_s": 17.31}))
    plan.append(Fault(12.345, "pause", {"host": "c1", "for_s": 8.888}))
    return Case("group", 1, members=3, as_version="4.1", order="tasks", journal=True, plan=tuple(plan))


def test_faults_clients_times_and_jitter_go_as_far_as_the_failure_stays_the_same() -> None:
    small = shrink(_big(), "lost", attempt=_attempt)
    case = small.case
    assert small.outcome.failure == "lost"
    assert small.done
    assert small.before == 12
    assert (case.calm, case.order, case.brokers, case.noisy) == (True, "fifo", 1, None)
    assert len(case.absent) == 2
    assert "p1" in case.absent

    assert case.duration_s < 30
    crash, pause = case.plan or ()
    assert (crash.t_s, crash.kind, crash.args["host"]) == (1.0, "crash", "c2")
    assert 2 <= crash.args["for_s"] < 4
    assert (pause.t_s, pause.kind) == (2.0, "pause")
    assert pause.args["for_s"] < 1


def test_the_same_case_is_shrunk_to_the_same_and_no_run_is_done_twice() -> None:
    asked: list[Case] = []

    def attempt(case: Case) -> CaseOutcome:
        asked.append(case)
        return _attempt(case)

    first, again = shrink(_big(), "lost", attempt=attempt), shrink(_big(), "lost", attempt=_attempt)
    assert first == again
    assert len(asked) == first.runs
    assert len(set(map(repr, asked))) == first.runs


def test_a_budget_ends_it_with_the_best_until_then() -> None:
    small = shrink(_big(), "lost", budget=9, attempt=_attempt)
    assert not small.done
    assert small.runs == 9
    assert small.outcome.failure == "lost"
    assert len(small.case.plan or ()) < 12


@pytest.mark.parametrize(("cpu_s", "wall_s", "done"), [(1.0, 31.0, True), (31.0, 31.0, False), (1.0, 301.0, False)])
def test_a_busy_machine_takes_nothing_from_a_budget(
    cpu_s: float, wall_s: float, done: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Budgets count the CPU seconds of the runs; ten times as many real seconds are the limit for runs that wait."""
    runs = 0

    def fails(sim: Simulation) -> None:
        nonlocal runs
        runs += 1
        raise AssertionError("always")

    monkeypatch.setattr(seeds, "_cpu_s", lambda: runs * cpu_s)
    monkeypatch.setattr(seeds, "_wall_s", lambda: runs * wall_s)
    found = seeds.Search(fails, repeat=0, budget_s=30).first(range(1))
    assert found is not None
    assert found.done is done


def test_a_failure_that_nothing_explains_is_left_as_it_is() -> None:
    case = _big()
    small = shrink(case, "lost", attempt=lambda one: CaseOutcome(one, "lost" if one == case else None))
    assert small.case == case


def test_deeds_and_noise_go_where_they_are_not_needed() -> None:
    done = [("c1", number) for number in range(1, 40)] + [("c2", number) for number in range(1, 30)]

    def attempt(case: Case) -> CaseOutcome:
        """Fails where the tasks of c1 are left to chance and two deeds are done."""
        noisy = not case.calm and case.order == "tasks" and (case.noisy is None or "c1" in case.noisy)
        deeds = [deed for deed in done if (case.deeds is None or deed in case.deeds) and deed[0] not in case.absent]
        fails = noisy and ("c1", 7) in deeds and ("c2", 23) in deeds
        return CaseOutcome(case, "wrong" if fails else None, deeds=deeds)

    small = shrink(Case("lives", 1, as_version="4.1", order="tasks", journal=True, plan=()), "wrong", attempt=attempt)
    assert small.done
    assert small.case.deeds == (("c1", 7), ("c2", 23))
    assert (small.case.noisy, small.case.absent) == (("c1",), ("c3",))
    assert case_from(json.loads(json.dumps(small.case.to_dict()))) == small.case


def test_a_deed_that_is_left_out_leaves_the_others_as_they_were() -> None:
    def drawn(only: list[Deed] | None) -> dict[Deed, float]:
        book, rng, found = Deeds(5, only), random.Random(), {}
        for client in ("c1", "c2", "c1", "c1"):
            number = book.begin(client, rng)
            if book.does(client, number):
                found[client, number] = rng.random()
                rng.random()
        assert book.done == list(found)
        return found

    everything = drawn(None)
    assert len(set(everything.values())) == 4
    some: list[Deed] = [("c1", 1), ("c1", 3)]
    assert drawn(some) == {deed: everything[deed] for deed in some}


def test_clients_and_deeds_that_are_taken_away_are_not_there() -> None:
    case = Case("lives", 3, 2.0, plan=(), as_version="4.1", order="fifo", journal=False)
    whole = run(case)
    part = run(replace(case, absent=("c1", "c2"), deeds=tuple(whole.deeds[:40])))
    assert whole.failure is part.failure is None
    assert {client for client, _ in whole.deeds} == {"c1", "c2", "c3"}
    assert {client for client, _ in part.deeds} == {"c3"}
    assert set(part.deeds) <= set(whole.deeds[:40])
    assert part.steps < whole.steps / 2


@pytest.mark.parametrize("workload", ["group", "mixed", "hostile", "cooperative", "several"])
def test_who_is_absent_is_missed_by_nobody(workload: str) -> None:
    absent = tuple(name for name in WORKLOADS[workload].hosts() if name not in ("c1", "p1"))
    assert (
        run(Case(workload, 1, 3.0, plan=(), as_version="4.1", order="fifo", journal=True, absent=absent)).failure
        is None
    )


@pytest.mark.slow
def test_a_planted_bug_is_found_and_comes_down_to_one_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    commits_are_not_loaded(monkeypatch)
    found = next(outcome for seed in range(40) if (outcome := run(Case("alone", seed, 15.0))).failure)
    assert found.failure in LOST
    small = shrink(found.case, found.failure, budget=40)
    assert small.outcome.failure == found.failure
    assert len(small.case.plan or ()) <= 2
    monkeypatch.undo()
    assert run(small.case).failure is None
