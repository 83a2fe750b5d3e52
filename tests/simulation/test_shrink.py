"""Failing cases made small, always in the same way, within their budget."""

from __future__ import annotations

import pytest

from broker_sim.simulation.faults.kinds import Fault, FaultPlan
from broker_sim.simulation.sweeps.shrink import ddmin, shrink
from broker_sim.simulation.sweeps.trial import Case, Outcome, run
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


def _attempt(case: Case) -> Outcome:
    """Fails where c2 is crashed for 2 s or more, before 20 s, with two members or more; without any pause in another way."""
    plan: FaultPlan = list(case.plan or ())
    crash = [f for f in plan if f.args.get("host") == "c2" and f.args["for_s"] >= 2 and f.t_s < 20]
    failure = "lost" if crash and (case.members or 0) >= 2 and case.duration_s > 13 else None
    return Outcome(case, failure if any(f.kind == "pause" for f in plan) else "other")


def _big() -> Case:
    plan = [Fault(number + 0.123, "elect", {"log": "orders-0"}) for number in range(10)]
    plan.insert(3, Fault(8.777, "crash", {"host": "c2", "for_s": 17.31}))
    plan.append(Fault(12.345, "pause", {"host": "c1", "for_s": 8.888}))
    return Case("group", 1, members=5, as_version="4.1", order="tasks", journal=True, plan=tuple(plan))


def test_faults_clients_times_and_jitter_go_as_far_as_the_failure_stays_the_same() -> None:
    small = shrink(_big(), "lost", attempt=_attempt)
    case = small.case
    assert small.outcome.failure == "lost"
    assert small.done
    assert small.before == 12
    assert (case.calm, case.order, case.members) == (True, "fifo", 2)
    assert case.duration_s < 30
    crash, pause = case.plan or ()
    assert (crash.t_s, crash.kind, crash.args["host"]) == (9.0, "crash", "c2")
    assert 2 <= crash.args["for_s"] < 4
    assert (pause.t_s, pause.kind) == (12.0, "pause")
    assert pause.args["for_s"] < 1


def test_the_same_case_is_shrunk_to_the_same_and_no_run_is_done_twice() -> None:
    asked: list[Case] = []

    def attempt(case: Case) -> Outcome:
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


def test_a_failure_that_nothing_explains_is_left_as_it_is() -> None:
    case = _big()
    small = shrink(case, "lost", attempt=lambda one: Outcome(one, "lost" if one == case else None))
    assert small.case == case


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
