"""The beginning of a healthy cluster is no incident: its first FindCoordinator is refused while __consumer_offsets is created."""

from __future__ import annotations

import json
from typing import Any

import pytest

from broker_sim import Cluster, Err
from broker_sim.explain import explain, recent
from broker_sim.explain.terminal import timeline
from broker_sim.journal import plain
from broker_sim.pipeline.duck.session import DuckSession
from broker_sim.pipeline.findings import findings
from broker_sim.pipeline.stuck_alerts import StuckAlerts
from broker_sim.pipeline.tables.stuck_partitions import stuck_partitions
from kafka_wire.messages.k10_find_coordinator import FindCoordinatorRequest
from tests.handles.members import TOPIC, Member
from tests.pipeline.facts import facts
from tests.pipeline.support_journal import LOG, Book, arrow, rows, snapshot
from tests.support.wire import Wire

NOT_AVAILABLE, LOADING = "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS"


def of_table(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        row for row in rows(stuck_partitions(DuckSession().of_arrow(arrow(events)))) if row["log_partition"] is not None
    ]


def periods(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the periods of `stuck_partitions`; assert that a watch of the same events reports them, too."""
    found = of_table(events)
    said: list[str] = []
    StuckAlerts(said.append).add_rows(arrow(events).to_pylist())
    assert bool(said) == bool(found)
    return found


def answer(book: Book, api: str, error: str | None = None, group: str = "billing", **fields: Any) -> None:
    book.call(api, {"group_id": group}, {}, group=group, **fields, **({"error": error} if error else {}))


def lives(book: Book, group: str = "billing") -> None:
    book.step(None, snapshot("Empty", 0), group, LOG, api="JoinGroup")


@pytest.fixture
async def first_run() -> list[dict[str, Any]]:
    """A client that asks again after a second, as librdkafka does, joins, and commits; the journal of it."""
    config = {"group.initial.rebalance.delay.ms": 0}
    async with Cluster(topics={TOPIC: 4}, clock="manual", config=config, seed=1) as kafka:
        kafka.observe()
        wire = await Wire.connect(kafka.broker(1).address, client_id="app")
        lookup = FindCoordinatorRequest(key="billing")
        assert (await wire.start(lookup, 3)).error_code == Err.COORDINATOR_NOT_AVAILABLE
        await kafka.time.advance(1500)
        assert (await wire.start(lookup, 3)).error_code == Err.NONE
        member = await Member.connect(kafka, client_id="app")
        await member.enter()
        await member.commit(5)
        await wire.close()
        await member.close()
        return [json.loads(json.dumps(event, default=plain)) for event in kafka.journal.events]


async def test_a_healthy_first_run_is_told_without_a_failure(first_run: list[dict[str, Any]]) -> None:
    assert [event["api"] for event in first_run if event.get("error") == NOT_AVAILABLE] == ["FindCoordinator"]
    assert periods(first_run) == []
    for words in (recent(first_run, "billing"), explain(first_run, "billing"), timeline(first_run, "billing")):
        assert NOT_AVAILABLE not in words
    assert "failed" not in explain(first_run, "billing")


async def test_a_second_refusal_and_one_by_a_rule_are_no_part_of_a_healthy_first_run(
    first_run: list[dict[str, Any]],
) -> None:
    at = next(place for place, event in enumerate(first_run) if event.get("error") == NOT_AVAILABLE)
    number = first_run[at]["request"]
    request = next(event for event in first_run[:at] if event.get("request") == number)
    again = [request | {"request": 1000}, first_run[at] | {"request": 1000}]
    assert f"FindCoordinator of app: {NOT_AVAILABLE} at once" in recent(
        [*first_run[: at + 1], *again, *first_run[at + 1 :]], "billing"
    )
    rule = {
        "seq": 0,
        "ts_ms": first_run[at]["ts_ms"],
        "event": "fault",
        "fault": 1,
        "rule": "error",
        "request": number,
        "verdict": "error",
    }
    assert f"{NOT_AVAILABLE} at once [fault: error]" in recent([*first_run[:at], rule, *first_run[at:]], "billing")


def test_a_client_that_looks_for_a_coordinator_before_its_partition_exists_meets_no_incident() -> None:
    book = Book()
    answer(book, "FindCoordinator", NOT_AVAILABLE)
    book.later(5000)
    lives(book)
    answer(book, "OffsetCommit")
    assert periods(book.events) == []


def test_requests_to_a_coordinator_that_never_answered_are_an_incident_all_the_same() -> None:
    book = Book()
    answer(book, "JoinGroup", LOADING)
    book.later(5000)
    lives(book)
    answer(book, "OffsetCommit")
    found = of_table(book.events)  # a watch does not know the group's partition yet
    assert [(row["stuck_ms"], row["commits"]) for row in found] == [(5000, 0)]


def test_a_coordinator_that_is_found_ends_what_looking_for_it_began() -> None:
    book = Book()
    lives(book)
    book.later(1000)
    answer(book, "Heartbeat", "NOT_COORDINATOR")
    book.later(500)
    answer(book, "FindCoordinator")
    book.later(60_000)  # nothing to commit
    answer(book, "OffsetCommit")
    assert periods(book.events) == []


def test_a_coordinator_that_is_found_does_not_end_what_refused_commits_began() -> None:
    book = Book()
    lives(book)
    book.later(1000)
    answer(book, "OffsetCommit", "NOT_COORDINATOR")
    answer(book, "FindCoordinator")
    book.later(5000)
    answer(book, "OffsetCommit")
    assert [(row["stuck_ms"], row["attempts"], row["commits"]) for row in periods(book.events)] == [(5000, 1, 1)]


def test_a_coordinator_that_is_not_found_is_not_told_as_commits_that_failed() -> None:
    book = Book()
    lives(book)
    book.later(1000)
    for _ in range(5):
        answer(book, "FindCoordinator", NOT_AVAILABLE)
        book.later(1000)
    answer(book, "FindCoordinator")
    (finding,) = (found for found in findings(facts(stuck=periods(book.events))) if found.kind == "stuck")
    assert finding.severity == "warn"
    assert finding.text.startswith("billing found no coordinator between ")
    assert "replicas" not in finding.advice
    assert finding.advice.startswith("No commit was refused.")
