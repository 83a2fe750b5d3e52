"""Incidents of each kind of group, and of transactions: simulated, reproduced from their logs alone, and compared by their cause."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from broker_sim.cli.main import main
from broker_sim.pipeline.finding import Finding
from broker_sim.reproduce.causes import Cause, cause_of
from broker_sim.reproduce.epoch_timeline import LEFT, REMOVED, SESSION
from broker_sim.reproduce.evidence import Evidence
from broker_sim.reproduce.group_timeline import Act, GroupTimeline
from broker_sim.reproduce.incident import _why_not, recurs
from broker_sim.reproduce.similarity import compare
from broker_sim.scenario.commands import shipped
from broker_sim.scenario.model import read
from broker_sim.scenario.runner import ScenarioOptions
from broker_sim.scenario.virtual import play

INCIDENTS = Path(__file__).parent / "incidents"

KNOWN = {
    "crash-without-leave": ("departed", "crash of app-2"),
    "offset-decreases": ("regression", "commit in orders-0"),
    "consumer-group-member-is-fenced": ("session expired", "session expired of app-1"),
    "consumer-group-member-never-revokes": ("rebalance timeout", "not revoked of app-1"),
    "consumer-crash": ("session expired", "session expired of app-1"),
    "consumer-never-revokes-among-three": ("storm", "not revoked of app-3"),
    "consumer-offset-decreases": ("regression", "commit in orders-0 and orders-1"),
    "consumer-offsets-set": ("reset", "commit from outside in orders-0 and orders-1"),
    "consumer-group-deleted": ("deleted offsets", "delete group from outside in orders-0 and orders-1"),
    "streams-offset-decreases": ("regression", "commit in orders-0 and orders-1"),
    "static-rolling-restart": ("static bounce", "crash of app-1 and app-2"),
    "rolling-restart": ("storm", "leave of app-1, app-2 and app-3"),
    "streams-not-revoked": ("storm", "not revoked of app-2"),
    "streams-offsets-deleted": ("deleted offsets", "delete group from outside in orders-0 and orders-1"),
    "consumer-hangs": ("slow rebalance", "hang of app-1"),
    "streams-hangs": ("slow rebalance", "hang of app-1"),
    "share-hangs": ("redelivered", "acknowledged, lock expired in orders-0"),
    "share-group-fetch-answer-is-lost": ("redelivered", "acknowledged, released in orders-0"),
    "share-group-consumer-dies-with-locks": ("redelivered", "acknowledged, lock expired in orders-0"),
    "share-group-poison-record": ("archived", "archived, released in orders-0"),
    "share-reject": ("archived", "archived, rejected in orders-0 and orders-1"),
    "share-crash": ("session expired", "session expired of app-1"),
    "streams-member-never-revokes-its-task": ("rebalance timeout", "not revoked of app-1"),
    "streams-crash": ("session expired", "session expired of app-1"),
    "streams-not-ready": ("not ready", "topology without its topics"),
    "transaction-zombie-is-fenced": ("transaction", "transaction, fenced of orders-app in payments-0"),
    "transaction-hanging-3.4": ("transaction", "transaction, late record of producer-0 in payments-1"),
    "transaction-lost-abort-3.4": ("transaction", "transaction, lost abort of producer-0 in payments-1"),
    "transaction-marker-without-a-leader": (
        "transaction",
        "transaction, slow markers of orders-app in payments-0 and payments-1",
    ),
    "transaction-timed-out": ("transaction", "transaction, timed out of pay-app in payments-0 and payments-1"),
    "transaction-timeout-in-a-rebalance": (
        "transaction",
        "transaction, timed out of ledger-1 in offsets of ledger and payments",
    ),
    "transaction-with-offsets-open": (
        "transaction",
        "transaction, unended of billing-tx in offsets of billing and payments",
    ),
    "transaction-with-offsets-long": (
        "transaction",
        "transaction, commit of billing-tx in offsets of billing and payments",
    ),
    "transaction-with-offsets-fenced": (
        "transaction",
        "transaction, fenced of billing-tx in offsets of billing and payments",
    ),
    "transaction-long": ("transaction", "transaction, commit of pay-app in payments-0 and payments-1"),
}
"""A scenario, included or of this folder -> the kind of its finding, and the cause."""


@pytest.mark.slow
@pytest.mark.parametrize("name", KNOWN)
def test_it_is_reproduced_from_its_log_alone(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = INCIDENTS / f"{name}.yaml"
    play(read(own if own.exists() else shipped() / f"{name}.yaml"), ScenarioOptions(data=tmp_path / "data"))
    out = tmp_path / "out"
    code = main(["reproduce", "--input", str(tmp_path / "data"), "--out", str(out), "--json", "--quiet"])
    result = json.loads(capsys.readouterr().out)
    assert (result["kind"], result["cause"]) == KNOWN[name]
    assert result["alike"] >= 0.5
    assert (code, result["happened"]) == (0, True)
    # what was written holds when it is run again
    assert result["verdict_code"] == 0
    assert play(read(out / "incident.yaml")).code == 0


def test_a_finding_with_another_cause_is_not_the_same() -> None:
    finding = Finding("session expired", "warn", 130, "The session of app-1 expired.", group="billing", at_ms=5000)
    real = GroupTimeline("billing", 0, 10_000, acts=[Act(1000, "crash", "app-1", removed=True)])
    for acts in ([Act(1000, "crash", "app-2", removed=True)], []):
        recurrence = recurs(finding, real, [finding], GroupTimeline("billing", 0, 10_000, acts=acts), 0)
        assert recurrence.again is None
        assert recurrence.cause == Cause("crash", frozenset(["app-1"]))
        assert recurrence.other is not None
    assert recurs(finding, real, [finding], real, 0).again is finding


def test_a_cause_is_the_same_for_half_of_the_clients_and_partitions() -> None:
    cause = Cause("crash", frozenset("ab"), frozenset(["orders-0"]))
    assert cause.same_as(Cause("crash", frozenset("a"), frozenset(["orders-0"])))
    assert not cause.same_as(Cause("crash", frozenset("c"), frozenset(["orders-0"])))
    assert not cause.same_as(Cause("crash", frozenset("ab"), frozenset(["orders-1"])))
    assert not cause.same_as(Cause("leave", frozenset("ab"), frozenset(["orders-0"])))
    assert Cause(REMOVED).same_as(Cause(LEFT))
    assert not Cause(SESSION).same_as(Cause(LEFT))
    assert not Cause("hang").same_as(Cause("crash"))
    assert Cause("hang").same_as(Cause("crash"), less_known=True)


def test_the_cause_of_an_expired_session_is_about_the_member_that_the_finding_names() -> None:
    """A member that crashed since is not the cause: its session expires later."""
    acts = [Act(1000, "crash", name, removed=True) for name in ("app-1", "app-1.2", "app-10")]
    timeline = GroupTimeline("billing", 0, 20_000, acts=acts)
    for name in ("app-1", "app-1.2", "app-10"):
        for text in (f"The session of {name} in billing expired.", f"It expired: that of {name}."):
            finding = Finding("session expired", "warn", 130, text, group="billing", at_ms=7000)
            assert cause_of(finding, timeline) == Cause("crash", frozenset([name]))


def test_a_poison_record_is_not_a_storm() -> None:
    poison = Finding("poison", "bad", 600, "A record ends its consumers.", group="billing", at_ms=1000)
    storm = Finding("storm", "warn", 100, "billing had 9 generations.", group="billing", at_ms=1000)
    timeline = GroupTimeline("billing", 0, 10_000, acts=[Act(1000, "crash", "app-1", removed=True)])
    assert cause_of(poison, timeline) == cause_of(storm, timeline)
    assert recurs(poison, timeline, [storm], timeline, 0).again is None


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("lag", "a lag is a consequence: choose the finding that caused it"),
        ("stalled", "members of groups with epochs do not commit offsets in a scenario"),
        ("static bounce", "static members of groups with epochs come back without a new epoch, which is not simulated"),
        ("transaction", "it is not in the input"),
    ],
)
def test_the_reason_is_the_groups_own(kind: str, reason: str) -> None:
    findings = [Finding(kind, "warn", 130, "It happened.", group=group, at_ms=1000) for group in ("other", "billing")]
    assert _why_not(Evidence("", findings, 0, 1000, {}), "billing").endswith(f"; {kind} (00:00:01.000): {reason}")
    assert _why_not(Evidence("", findings[:1], 0, 1000, {}), "billing").startswith("nothing unusual")


def test_no_events_are_no_similarity() -> None:
    nothing = compare(GroupTimeline("billing", 0, 1000), GroupTimeline("billing", 0, 1000))
    assert (nothing.share, nothing.is_enough) == (0.0, False)
    assert "neither the log nor the simulation has events" in nothing.text()
