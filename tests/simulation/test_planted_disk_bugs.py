"""Proof that the simulated disk finds bugs: each planted one is found, within the number of seeds that stands beside it; logs and
brokers as they are stand over the same seeds and more."""

from __future__ import annotations

import logging

import pytest

from broker_sim.simulation.faults.swarm import SWARM, draw
from broker_sim.simulation.sweeps.trial import WORKLOADS, Case, CaseOutcome, run
from tests.simulation.log_life import log_life
from tests.simulation.mutations_disk import CLUSTER_MUTATIONS, LOG_MUTATIONS, DiskMutation

pytestmark = pytest.mark.slow

WAYS = ({}, {"sync": True}, {"power": True}, {"sync": True, "power": True})


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL + 1)


@pytest.mark.parametrize("planted", LOG_MUTATIONS, ids=lambda each: each.name)
def test_a_bug_in_a_log_is_found(planted: DiskMutation, record_property: pytest.RecordProperty) -> None:
    with planted.planted():
        for seed in range(planted.seeds):
            told = log_life(seed, **planted.where)
            if told is not None:
                record_property("lives", seed + 1)
                record_property("told", told)
                return
    pytest.fail(f"{planted.name} was not found in {planted.seeds} seeds")


@pytest.mark.parametrize("way", WAYS, ids=lambda way: " ".join(way) or "kill")
def test_a_log_as_it_is_loses_nothing(way: dict[str, bool]) -> None:
    for seed in range(150):
        assert log_life(seed, **way) is None, seed


def deadly(workload: str, seed: int) -> CaseOutcome:
    """A run of deaths, broken disks and elections: what a cluster keeps on its disk changes."""
    kinds = [name for name in SWARM if name.startswith(("cluster.", "disk.", "elect", "move"))]
    plan = draw(seed, 20.0, WORKLOADS[workload].targets(), kinds=kinds)
    return run(Case(workload, seed, 20.0, as_version="4.1", order="fifo", journal=True, calm=True, plan=tuple(plan)))


@pytest.mark.long
@pytest.mark.parametrize("planted", CLUSTER_MUTATIONS, ids=lambda each: each.name)
def test_a_bug_in_what_a_cluster_keeps_is_found(planted: DiskMutation, record_property: pytest.RecordProperty) -> None:
    with planted.planted():
        for seed in range(planted.seeds):
            outcome = deadly(planted.where, seed)
            if outcome.failure is not None:
                record_property("runs", seed + 1)
                record_property("failure", outcome.failure)
                return
    pytest.fail(f"{planted.name} was not found in {planted.seeds} seeds")


@pytest.mark.long
@pytest.mark.parametrize("workload", ["disk", "power"])
def test_a_cluster_as_it_is_loses_nothing(workload: str) -> None:
    for seed in range(10):
        outcome = deadly(workload, seed)
        assert outcome.failure is None, (seed, outcome.text)
        assert outcome.begun


def test_there_are_enough_of_them_and_they_leave_nothing_behind() -> None:
    every = [*LOG_MUTATIONS, *CLUSTER_MUTATIONS]
    assert len({each.name for each in every}) == len(every) >= 15
    for planted in every:
        with planted.planted():
            pass
    assert log_life(0) is None
