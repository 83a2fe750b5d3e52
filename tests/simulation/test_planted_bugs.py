"""Proof that simulation finds bugs: each planted one is found, within the number of seeds that stands beside it; the broker as it is
stands over the same seeds. Every other seed runs without a journal, on the brokers' short ways."""

from __future__ import annotations

import logging

import pytest

from broker_sim.simulation.hostile import Report, rough_life
from tests.simulation.mutations import MUTATIONS, Mutation

SOUND = range(30)
"""Seeds of the broker as it is; a sweep runs more."""


def run(seed: int, journal: bool | None) -> Report:
    return rough_life(seed, journal=seed % 2 == 1 if journal is None else journal)


@pytest.mark.parametrize("planted", MUTATIONS, ids=lambda each: each.name)
def test_a_planted_bug_is_found(
    planted: Mutation, record_property: pytest.RecordProperty, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    with planted.planted():
        for seed in range(planted.seeds):
            report = run(seed, planted.journal)
            if report.broken is not None:
                record_property("runs", seed + 1)
                record_property("invariant", report.broken.name)
                assert str(report.broken).startswith(report.broken.name)
                return
    pytest.fail(f"{planted.name} was not found in {planted.seeds} seeds")


def test_there_are_enough_of_them() -> None:
    assert len(MUTATIONS) >= 15
    assert len({each.name for each in MUTATIONS}) == len(MUTATIONS)


@pytest.mark.parametrize("journal", [False, True], ids=["short ways", "journal"])
def test_the_broker_as_it_is_breaks_nothing(journal: bool) -> None:
    checked = 0
    for seed in SOUND:
        report = rough_life(seed, journal=journal)
        if report.broken is not None:
            raise report.broken
        checked += report.checked
    assert checked > 300 * len(SOUND)


def test_a_planted_bug_leaves_nothing_behind() -> None:
    for planted in MUTATIONS:
        with planted.planted():
            pass
    assert rough_life(0).broken is None
