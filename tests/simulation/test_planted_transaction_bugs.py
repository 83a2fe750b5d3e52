"""Proof that sweeps find bugs of transactions: each planted one is found, within the number of seeds that stands beside it."""

from __future__ import annotations

import logging

import pytest

from broker_sim.simulation.sweeps.trial import Case, run
from tests.simulation.mutations import Mutation
from tests.simulation.mutations_transactions import MUTATIONS, Plan

pytestmark = pytest.mark.slow

SECONDS = 10.0
"""Virtual seconds of each run, with faults; the healing comes on top."""


@pytest.mark.parametrize(("planted", "workload", "plan"), MUTATIONS, ids=[each.name for each, *_ in MUTATIONS])
def test_a_planted_bug_is_found(
    planted: Mutation,
    workload: str,
    plan: Plan | None,
    record_property: pytest.RecordProperty,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.CRITICAL + 1)
    with planted.planted():
        for seed in range(planted.seeds):
            outcome = run(Case(workload, seed, SECONDS, plan=plan))
            if outcome.failure is not None:
                record_property("runs", seed + 1)
                record_property("failure", outcome.failure)
                return
    pytest.fail(f"{planted.name} was not found in {planted.seeds} seeds of {workload!r}")


SWEPT = list({repr(each[1:]): each[1:] for each in MUTATIONS}.values())


@pytest.mark.parametrize(("workload", "plan"), SWEPT, ids=range(len(SWEPT)))
def test_the_same_runs_are_clean_without_it(workload: str, plan: Plan | None) -> None:
    for seed in range(10):
        outcome = run(Case(workload, seed, SECONDS, plan=plan))
        assert outcome.failure is None, outcome.text


def test_a_planted_bug_leaves_nothing_behind() -> None:
    for planted, *_ in MUTATIONS:
        with planted.planted():
            pass
    assert run(Case("transactions", 1, 3.0)).failure is None
