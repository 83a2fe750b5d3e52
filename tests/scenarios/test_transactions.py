"""The incidents of transactions that come with broker-sim, in virtual time: they hold where they should, and break where they must."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from broker_sim.coordinator.store import GroupStore
from broker_sim.coordinator.transaction import ending, shard
from broker_sim.explain import explain
from broker_sim.explain.picture import html, svg
from broker_sim.explain.terminal import timeline
from broker_sim.explain.transaction_text import explain_transactions
from broker_sim.explain.transactions import JournalTransactions, transactions
from broker_sim.scenario.commands import shipped
from broker_sim.scenario.files import loads
from broker_sim.scenario.model import parse, read
from broker_sim.scenario.runner import HELD, ScenarioOptions, ScenarioOutcome
from broker_sim.scenario.virtual import play
from tests.support.sampling import sampled

NAMES = sorted(path.stem for path in shipped().glob("transaction-*.yaml"))
OF_ONE_RELEASE = {"transaction-hanging-3.4", "transaction-lost-abort-3.4", "transaction-lost-abort-4.1"}
"""Scenarios about behaviour that KIP-890 has changed."""


@cache
def played(name: str, as_version: str | None = None) -> ScenarioOutcome:
    return play(read(shipped() / f"{name}.yaml"), ScenarioOptions(as_version=as_version))


def changed(name: str, *changes: tuple[str, str], **options: Any) -> ScenarioOutcome:
    """The scenario with other words."""
    text = (shipped() / f"{name}.yaml").read_text()
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return play(parse(loads(text)), ScenarioOptions(**options))


def test_there_is_one_for_each_incident() -> None:
    assert [name.removeprefix("transaction-") for name in NAMES] == [
        "coordinator-dies-in-a-commit",
        "end-answer-is-lost",
        "hanging-3.4",
        "lost-abort-3.4",
        "lost-abort-4.1",
        "marker-without-a-leader",
        "state-stuck",
        "timeout-in-a-rebalance",
        "zombie-is-fenced",
    ]


@pytest.mark.parametrize(
    ("name", "as_version"),
    sampled(
        (
            (name, version)
            for name in NAMES
            for version in ((None,) if name in OF_ONE_RELEASE else (None, "3.4", "3.9", "4.1", "4.4"))
        ),
        3,
    ),
)
def test_it_holds_under_every_release_that_it_is_about(name: str, as_version: str | None) -> None:
    outcome = played(name, as_version)
    assert (outcome.code, outcome.ended) == (HELD, {}), outcome.report()


@pytest.mark.parametrize("seed", sampled(range(1, 6), 4))
@pytest.mark.parametrize("name", NAMES)
def test_no_seed_breaks_it(name: str, seed: int) -> None:
    outcome = play(read(shipped() / f"{name}.yaml"), ScenarioOptions(seed=seed), order="tasks", invariants=True)
    assert outcome.code == HELD, outcome.report()


def test_the_changes_of_kip_890_break_the_scenarios_of_the_other_release() -> None:
    assert played("transaction-hanging-3.4", "4.1").code != HELD
    assert played("transaction-lost-abort-3.4", "4.1").code != HELD
    assert played("transaction-lost-abort-4.1", "3.4").code != HELD


@pytest.mark.parametrize(
    ("name", "old", "new"),
    sampled(
        [
            ("hanging-3.4", "do: {op: transaction.abort_hanging, log: payments-1, producer_id: 0}", "after: 1s"),
            ("hanging-3.4", "delay: 3s", "delay: 500ms"),
            ("lost-abort-3.4", "delay: 3s", "delay: 500ms"),
            ("lost-abort-4.1", "delay: 3s", "delay: 500ms"),
            (
                "zombie-is-fenced",
                "transactional_id: orders-app, interval: 1s, start",
                "transactional_id: other, interval: 1s, start",
            ),
            ("zombie-is-fenced", "config: {isolation_level: read_committed}", "config: {}"),
            ("coordinator-dies-in-a-commit", "do: {broker: 1, action: down}", "do: {mark: nothing is done}"),
            ("coordinator-dies-in-a-commit", "do: {log: payments-1, state: stuck}", "do: {mark: nothing is done}"),
            ("end-answer-is-lost", "fault: {api: EndTxn", "fault: {api: DescribeGroups"),
            ("marker-without-a-leader", "do: {log: payments-1, state: no_leader}", "do: {mark: nothing is done}"),
            ("state-stuck", "do: {log: transactions(orders-app), state: stuck}", "do: {mark: nothing is done}"),
            (
                "timeout-in-a-rebalance",
                "do: {client: ledger-1, action: freeze, for: 15s}",
                "do: {mark: nothing is done}",
            ),
            ("timeout-in-a-rebalance", "transaction_timeout: 6s", "transaction_timeout: 60s"),
        ],
        3,
    ),
)
def test_without_its_incident_it_breaks(name: str, old: str, new: str) -> None:
    shortened = ("within: 60s", "within: 20s")
    text = (shipped() / f"transaction-{name}.yaml").read_text()
    outcome = changed(f"transaction-{name}", (old, new), *([shortened] if shortened[0] in text else []))
    assert outcome.code != HELD, outcome.report()


def never(*_: Any, **__: Any) -> None:
    """In place of what should have been done."""


def commits_what_was_aborted(store: GroupStore, producer_id: int, *, committed: bool) -> None:
    _end_transaction(store, producer_id, committed=True)


def goes_on(transaction: Any, *_: Any) -> bool:
    """Accept a producer with any epoch."""
    return True


_end_transaction = GroupStore.end_transaction

BUGS: dict[str, tuple[str, object, str, Callable[..., Any]]] = {
    "a timeout ends nothing": ("timeout-in-a-rebalance", shard._TIMERS, "timeout", never),
    "an abort publishes offsets": (
        "timeout-in-a-rebalance", GroupStore, "end_transaction", commits_what_was_aborted,
    ),
    "a decided transaction is forgotten at a load": ("coordinator-dies-in-a-commit", ending, "resume", never),
    "a marker is tried once": ("marker-without-a-leader", shard._TIMERS, "markers", never),
    "any epoch is heard": ("zombie-is-fenced", ending, "_epoch_holds", goes_on),
}  # fmt: skip
"""Planted bugs of a coordinator -> scenario whose verdict shows it, and module or class, attribute and replacement that plant it."""


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_breaks_it(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, place, what, planted = BUGS[bug]
    if isinstance(place, dict):
        monkeypatch.setitem(place, what, planted)
    else:
        monkeypatch.setattr(place, what, planted)
    text = (shipped() / f"transaction-{name}.yaml").read_text()
    outcome = changed(f"transaction-{name}", *([("within: 60s", "within: 20s")] if "within: 60s" in text else []))
    assert outcome.code != HELD, f"nobody has noticed: {bug}"


# --- the story -----------------------------------------------------------------------------------------------------------


def found(name: str) -> JournalTransactions:
    return transactions(played(f"transaction-{name}").events)


def words(name: str) -> str:
    return " ".join(explain_transactions(played(f"transaction-{name}").events).split())


def test_the_history_of_each_transaction() -> None:
    (stray,) = found("hanging-3.4").hanging
    assert (stray.log, stray.offset, stray.lost_abort, list(stray.readers)) == ("payments-1", 1, False, ["reader"])
    (lost,) = found("lost-abort-3.4").hanging
    assert lost.lost_abort
    assert "became part of the next one (KIP-890)." in words("lost-abort-3.4")
    assert found("lost-abort-4.1").hanging == []
    fenced = [one for one in found("zombie-is-fenced").transactions if one.result == "fenced"]
    assert [(one.began_by.client_id, one.ended_by.client_id) for one in fenced if one.began_by and one.ended_by] == [
        ("zombie", "successor")
    ]
    (taken_over,) = found("coordinator-dies-in-a-commit").transactions
    assert (taken_over.result, len(taken_over.found_ms), taken_over.over) == ("commit", 1, True)
    assert "Another coordinator loaded its decision and continued with it" in words("coordinator-dies-in-a-commit")
    assert "Its marker for payments-1 was written after 10" in words("marker-without-a-leader")
    assert "The log refused PrepareCommit" in words("state-stuck")
    (timed_out, _) = found("timeout-in-a-rebalance").transactions
    assert (timed_out.result, timed_out.pending_offsets) == ("timed out", {"ledger": {"orders-0": 5}})


@pytest.mark.parametrize("name", NAMES)
def test_explanation_and_timeline_of_a_group_agree(name: str) -> None:
    events = played(name).events
    story, drawn = " ".join(explain(events, "audit", width=10_000).split()), timeline(events, "audit", 140)
    held = "waited there for" in story
    assert held is (name not in ("transaction-lost-abort-4.1", "transaction-end-answer-is-lost")), story
    assert ("read_committed blocked at" in drawn) is held
    for picture in (svg(events, "audit"), html(events, "audit")):
        assert ("read_committed blocked at" in picture) is held


def test_a_lane_for_each_transactional_id_that_commits_for_the_group() -> None:
    events = played("transaction-timeout-in-a-rebalance").events
    drawn = timeline(events, "ledger", 140).splitlines()
    lanes = [line[2:].split()[0] for line in drawn if line[2:].startswith("ledger-")]
    assert sorted(lanes) == ["ledger-1", "ledger-1", "ledger-2", "ledger-2"], (
        "members, and transactional ids beneath them"
    )
    assert "transaction open" in timeline(events, "ledger", 140)
    assert "ledger-1's transaction" in explain(events, "ledger")
    assert "transactional id on __transaction_state-" in svg(events, "ledger")
