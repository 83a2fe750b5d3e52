"""Incidents of share groups (KIP-932): the verdict of each file holds in virtual time, and is broken where the story is another one."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_sim.scenario.commands import shipped
from broker_sim.scenario.model import read
from broker_sim.scenario.runner import ScenarioOptions
from broker_sim.scenario.virtual import play
from tests.support.sampling import sampled

OTHERWISE = {
    "share-group-poison-record": (
        "config: {group.share.delivery.count.limit: 3}",
        "config: {group.share.delivery.count.limit: 5}",
    ),
    "share-group-consumer-dies-with-locks": (
        "group.share.record.lock.duration.ms: 3000",
        "group.share.record.lock.duration.ms: 60000",
    ),
    "share-group-fetch-answer-is-lost": ("drop_after: true", "delay: 10ms"),
}
"""File -> what is changed of it, so that its story comes out otherwise."""


@pytest.mark.parametrize("name", OTHERWISE)
def test_the_verdict_holds(name: str) -> None:
    outcome = play(read(shipped() / f"{name}.yaml"), ScenarioOptions(seed=5))
    assert outcome.code == 0, outcome.report()


@pytest.mark.parametrize("name", sampled(OTHERWISE, 2))
def test_it_is_broken_if_the_cause_differs(name: str, tmp_path: Path) -> None:
    told = (shipped() / f"{name}.yaml").read_text()
    as_it_is, otherwise = OTHERWISE[name]
    assert as_it_is in told
    path = tmp_path / f"{name}.yaml"
    path.write_text(told.replace(as_it_is, otherwise))
    outcome = play(read(path), ScenarioOptions(seed=5))
    assert outcome.code in (1, 3), outcome.report()  # broken, or what it waits for never comes
