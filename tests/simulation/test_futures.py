"""Worlds that are forked from a rare moment, and what guides seeds: a future is its case, and the same run from the beginning."""

from __future__ import annotations

import os
import random
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from broker_sim import simulate
from broker_sim.common.text import UsageError
from broker_sim.simulation.faults.kinds import Fault, inject
from broker_sim.simulation.sweeps.futures import Follow
from broker_sim.simulation.sweeps.guide import Guide, varied
from broker_sim.simulation.sweeps.shrink import shrink
from broker_sim.simulation.sweeps.sweep import SweepOptions, sweep
from broker_sim.simulation.sweeps.trial import Case, CaseOutcome, case_from, run, settled, waived
from broker_sim.simulation.sweeps.turns import Branch, Turned, flat
from broker_sim.simulation.virtual.forking import Fork, Gone, why_not
from broker_sim.simulation.virtual.loop import SimLoop
from tests.simulation.planted import commits_are_not_loaded


@pytest.mark.slow
@pytest.mark.parametrize("workload", ["hostile", "tellers", "consumer-groups", "kept"])
def test_a_future_is_the_same_run_from_the_beginning(workload: str) -> None:
    follow = Follow(branches=2, most=1)
    case = Case(workload, 3, 3.0, journal=True)
    first = run(case, follow=follow)
    plain = run(case)
    assert (first.schedule_hash, first.journal_hash) == (plain.schedule_hash, plain.journal_hash)
    assert len(first.futures) == 2
    assert len({first.schedule_hash, *(each.schedule_hash for each in first.futures)}) == 3, "they are other runs"
    for each in first.futures:
        again = run(case_from(each.case.to_dict()))
        assert (again.journal_hash, again.schedule_hash) == (each.journal_hash, each.schedule_hash)
        assert (again.failure, again.features, again.steps) == (each.failure, each.features, each.steps)


HARM = (
    Fault(1.545, "crash", {"host": "broker-2", "reset": False, "for_s": 0.179, "noticed_after_s": 1}),
    Fault(1.85, "state", {"log": "offsets(billing)", "state": "stuck", "for_s": 0.731, "isr_shrinks_after": 7.698}),
    Fault(2.873, "rule", {"api": "SyncGroup", "for_s": 9.18, "probability": 0.7, "delay": 0.725}),
    Fault(3.218, "rule", {"api": "Produce", "for_s": 4.962, "probability": 0.3, "truncate": 26}),
)


@pytest.mark.slow
@pytest.mark.parametrize("forked", [False, True])
def test_what_a_turn_brings_explains_what_comes_of_it(monkeypatch: pytest.MonkeyPatch, forked: bool) -> None:
    monkeypatch.setattr("broker_sim.simulation.sweeps.trial.drawn", lambda *_: HARM)
    case = Case("lives", 800003, 6.0, members=3, as_version="3.4", order="fifo", journal=True, plan=())
    at_s = 1.3030004501342773
    if forked:
        (future,) = run(case, follow=Follow(branches=1, at=(at_s,))).futures
    else:
        future = run(replace(case, turns=(Branch(at_s, 0),)))
    assert future.case.turns == (Branch(at_s, 0, HARM),)
    assert future.failure is None, future.text


def test_faults_that_a_turn_takes_away_explain_nothing() -> None:
    hangs = Fault(1.0, "rule", {"api": "JoinGroup", "hang": True, "for_s": 1.0})
    later, other = replace(hangs, t_s=3.0), Fault(4.0, "elect", {"log": "orders-0"})
    told: list[tuple[Fault, ...]] = []
    case = Case("group", 1, plan=(hangs, later), turns=(Branch(2.0, 0, (other,)), Branch(3.5, 0, ())))
    with simulate(1) as sim:
        sim.cluster()
        Turned(sim, case, inject(sim, ()), told.append)
        sim.run_for(5)
    assert told == [(hangs, other), (hangs,)]
    assert waived(told[-1]) == ("deferred requests are answered",)
    assert waived((other,)) == ()


@pytest.mark.slow
def test_moments_that_were_followed_are_not_followed_again() -> None:
    follow = Follow(branches=1, most=100)
    case = Case("hostile", 3, 2.0, journal=True)
    first = run(case, follow=follow)
    assert first.futures
    assert sorted(follow.known.values()) == [1] * len(first.futures)
    assert run(case, follow=follow).futures == []


@pytest.mark.slow
def test_moments_may_be_given() -> None:
    out = run(Case("hostile", 3, 2.0, journal=False), follow=Follow(branches=1, at=(0.5, 1.25)))
    assert [each.case.turns[-1].at_s for each in out.futures] == [0.5, 1.25]


@pytest.mark.slow
def test_a_future_with_a_planted_bug_fails_again_from_the_beginning_and_is_made_small(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    commits_are_not_loaded(monkeypatch)
    failed: list[CaseOutcome] = []
    for seed in range(8):  # without a fault no log is loaded
        if not failed:
            first = run(Case("group", seed, 8.0, journal=True, plan=()), follow=Follow(branches=4, at=(4.0,)))
            assert first.failure is None
            failed = [each for each in first.futures if each.failure is not None]
    assert failed, "no future of eight seeds loads a log"
    again = run(failed[0].case)
    assert again.failure == failed[0].failure
    assert again.text == failed[0].text
    assert failed[0].failure is not None
    small = shrink(failed[0].case, failed[0].failure, budget=40)
    assert small.outcome.failure == failed[0].failure
    faults = [*(small.case.plan or ()), *(fault for turn in small.case.turns for fault in turn.plan or ())]
    assert len(faults) <= small.before + len(failed[0].case.turns[-1].plan or ())


def test_threads_can_not_be_forked() -> None:
    said: list[str] = []

    def work() -> None:
        threading.Event().wait(1)

    with simulate(1) as sim:
        assert why_not(sim.loop) == ""
        sim.host("one").spawn_sync(work)
        sim.loop.pause(sim.loop.time() + 0.5, lambda: said.append(why_not(sim.loop)))
        sim.run_for(2)
    assert said == ["threads are at work in it, and a fork has only one"]


def test_a_child_that_dies_or_is_silent_is_told() -> None:
    loop = SimLoop(1)
    died = Fork(loop)
    if died.child:
        os._exit(7)
    with pytest.raises(Gone, match="status"):
        died.wait(150)
    silent = Fork(loop)
    if silent.child:
        while True:
            threading.Event().wait(60)
    with pytest.raises(Gone, match="nothing for"):
        silent.wait(0.05)
    loop.close()


def test_what_is_asked_at_a_pause_changes_nothing_of_the_run() -> None:
    def lived(looks: list[float]) -> tuple[str, list[float]]:
        seen: list[float] = []
        with simulate(5) as sim:
            for at_s in looks:
                sim.loop.pause(sim.loop.time() + at_s, lambda: seen.append(sim.elapsed_s))
            kafka = sim.cluster(topics={"orders": 1})
            kafka.topic("orders").fill(3)
            sim.run_for(2)
            return sim.schedule_hash, seen

    plain, _ = lived([])
    looked, seen = lived([1.0, 0.25, 1.0])
    assert looked == plain
    assert len(seen) == 3
    assert seen == sorted(seen)


def test_a_turn_is_data() -> None:
    case = settled(Case("group", 4, 10.0, turns=(Branch(2.5, 0), Branch(4.0, 1))))
    assert case_from(case.to_dict()) == case
    assert all(fault.t_s >= turn.at_s for turn in case.turns for fault in turn.plan or ())
    one = flat(case)
    assert one.turns == ()
    assert all(fault in (one.plan or ()) for fault in case.turns[-1].plan or ())
    with pytest.raises(UsageError, match="a turn has"):
        case_from({"workload": "group", "seed": 1, "turns": [7]})


def _outcome(case: Case, *features: str, **more: Any) -> CaseOutcome:
    return CaseOutcome(
        replace(case, plan=(Fault(1.0, "elect", {"log": "orders-0"}),)), features=frozenset(features), **more
    )


def test_what_came_to_something_new_is_varied_and_nothing_else() -> None:
    def guided() -> list[Case]:
        guide = Guide()
        assert guide.note(_outcome(Case("group", 1), "a", "b")) == 2
        assert guide.note(_outcome(Case("alone", 2), "a")) == 0
        assert guide.note(_outcome(Case("alone", 2), "c", failure="lost")) == 1
        return [guide.next(Case(name, seed)) for seed in range(40) for name in ("group", "alone")]

    cases = guided()
    assert cases == guided()
    groups, others = cases[::2], cases[1::2]
    assert all(case.plan is None for case in others), "what is there already, and what fails, is not varied"
    fresh = [case for case in groups if case.plan is None]
    assert 10 < len(fresh) < 30
    worlds = {case.seed == 1 for case in groups if case.plan is not None}
    assert worlds == {True, False}, "in the same world, and in others"


def test_how_much_is_varied_is_learnt() -> None:
    guide = Guide()
    assert guide.varies == pytest.approx(0.5)
    for number in range(100):
        guide.note(_outcome(Case("group", number), f"drawn {number}", cpu_s=0.1))
        guide.note(_outcome(Case("group", number), cpu_s=0.1), varied=True)
    assert guide.varies < 0.2
    for number in range(400):
        guide.note(_outcome(Case("group", number), cpu_s=0.1))
        guide.note(_outcome(Case("group", number), f"varied {number}", cpu_s=0.1), varied=True)
    assert guide.varies > 0.8


def test_variations_are_plans() -> None:
    one, other = Fault(1.0, "pause", {"host": "c1", "for_s": 2.0}), Fault(3.0, "elect", {"log": "orders-0"})
    plans = [varied((one,), (other,), 10.0, random.Random(seed)) for seed in range(200)]
    assert len(set(map(repr, plans))) > 50
    assert any(other in plan for plan in plans)
    assert () in plans
    for plan in plans:
        assert list(plan) == sorted(plan, key=lambda fault: fault.t_s)
        assert all(0 <= fault.t_s <= 10 for fault in plan)


@pytest.mark.slow
def test_a_sweep_is_guided_and_forks(tmp_path: Path) -> None:
    options = SweepOptions(("hostile",), range(6), duration_s=2.0, repeat=0.0, corpus=tmp_path, guided=True, fork=2)
    summary = sweep(options)
    assert summary.failures == {}
    assert summary.futures > 0
    assert summary.runs == 6 + summary.futures == summary.wanted
    assert len(summary.features) > 20
    assert summary.to_dict()["futures"] == summary.futures
    with pytest.raises(UsageError, match="corpus"):
        sweep(replace(options, corpus=None))
