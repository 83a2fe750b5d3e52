"""Sites where brokers may do what they seldom do: all of them are in the code, each fires, none breaks anything, and off is off."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest

import broker_sim
from broker_sim.common.buggify import PROBABILITY, SITES, Buggify
from broker_sim.common.text import UsageError
from broker_sim.simulation.checks.answers import Answers, SentRequest
from broker_sim.simulation.faults.kinds import Fault
from broker_sim.simulation.faults.swarm import habits
from broker_sim.simulation.sweeps.trial import Case, run

ROOT = Path(broker_sim.__file__).parent


def all_on(probability: float) -> list[Fault]:
    return [Fault(0.0, "buggify", {"site": name, "probability": probability}) for name in SITES]


def test_the_table_is_what_the_code_has() -> None:
    used: dict[str, set[str]] = {}
    for path in ROOT.rglob("*.py"):
        for name in re.findall(r'buggify\.fires\(\s*"([^"]+)"', path.read_text()):
            used.setdefault(name, set()).add(".".join(path.relative_to(ROOT).with_suffix("").parts))
    used["reads byte by byte"] = {"network.connection"}  # by way of `Buggify.splits`
    assert set(used) == set(SITES)
    for site in SITES.values():
        module, _, function = site.where.rpartition(".")
        assert module in used[site.name]
        assert f"def {function}(" in Path(importlib.import_module(f"broker_sim.{module}").__file__ or "").read_text()
        assert site.what


MOVES = [Fault(9, "move", {"log": "offsets(billing)", "step": 1})]


@pytest.mark.parametrize("name", SITES)
def test_a_site_fires_and_breaks_nothing(name: str) -> None:
    workload = "hostile" if name in ("commits by events", "lingers", "takes no short way") else "group"
    site = Fault(0.0, "buggify", {"site": name, "probability": 0.7})
    for seed in range(5):
        outcome = run(Case(workload, seed, 10.0, as_version="4.1", journal=False, plan=(site, *MOVES)))
        assert outcome.failure is None, outcome.text
        if outcome.hits.get(f"site {name}"):
            return
    pytest.fail(f"{name} has never fired")


@pytest.mark.slow
@pytest.mark.parametrize("workload", ["group", "hostile", "idempotent"])
@pytest.mark.parametrize("journal", [False, True], ids=["short ways", "journal"])
def test_all_together_break_nothing(workload: str, journal: bool) -> None:
    for seed in range(3):
        plan = (*all_on(0.4), *MOVES)
        outcome = run(Case(workload, seed, 10.0, journal=journal, plan=plan))
        assert outcome.failure is None, outcome.text
        assert sum(count for name, count in outcome.hits.items() if name.startswith("site ")) > 20


def test_a_site_that_is_off_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sites' code runs and does nothing: the run is the one without them, but for the timers that turn the sites on."""
    without = run(Case("hostile", 5, 8.0, journal=True, plan=()))
    never = run(Case("hostile", 5, 8.0, journal=True, plan=tuple(all_on(0.0))))
    assert (never.journal_hash, never.steps - len(SITES)) == (without.journal_hash, without.steps)


def test_the_sites_of_a_run_are_drawn_and_each_has_its_own_chance() -> None:
    drawn = [habits(seed) for seed in range(200)]
    assert 60 < sum(not plan for plan in drawn) < 140
    assert {fault.args["site"] for plan in drawn for fault in plan} == set(SITES)
    busy = [len(plan) for plan in drawn if plan]
    assert 0.7 * PROBABILITY < sum(busy) / len(busy) / len(SITES) < 1.4 * PROBABILITY
    alone, both = Buggify(1), Buggify(1)
    alone.on("lingers")
    for name in ("fires late", "lingers"):
        both.on(name)
    fired = []
    for _ in range(50):
        both.fires("fires late")
        fired.append(alone.fires("lingers") == both.fires("lingers"))
    assert all(fired)
    assert 0 < alone.fired["lingers"] < 30


def test_a_site_that_there_is_none_of() -> None:
    with pytest.raises(UsageError, match="no site 'linger'; did you mean 'lingers'"):
        Buggify(1).on("linger")


@pytest.mark.parametrize("seed", range(4))
def test_the_short_ways_answer_as_the_general_one(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every request of members and of the hostile client, and when it was answered what."""
    heard: list[list[str]] = []
    sent = Answers.sent

    def noted(answers: Answers, *args: Any) -> SentRequest:
        ask = sent(answers, *args)
        asks.append(ask)
        return ask

    monkeypatch.setattr(Answers, "sent", noted)
    for probability in (0.0, 1.0):
        asks: list[SentRequest] = []
        site = Fault(0.0, "buggify", {"site": "takes no short way", "probability": probability})
        outcome = run(Case("hostile", seed, 10.0, journal=False, order="fifo", plan=(site, *MOVES)))
        assert outcome.failure is None, outcome.text
        heard.append([f"{ask} {ask.got_s:.6f} {ask.version}" for ask in asks])
    assert len(heard[0]) > 200
    assert heard[0] == heard[1]
