"""What the pipeline says of a group is what happened: tables and findings of journals made by hand, on DuckDB."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from broker_sim.pipeline.duck.session import Session
from broker_sim.pipeline.findings import findings
from broker_sim.pipeline.jams import Jams
from broker_sim.pipeline.tables.commit_refusals import COMMIT_REFUSALS, commit_refusals
from broker_sim.pipeline.tables.stuck_partitions import stuck_partitions
from tests.pipeline.facts import Row, facts, row
from tests.pipeline.offsets import T0
from tests.pipeline.support_journal import LOG, Book, arrow, picked, rows, snapshot

UNKNOWN_TOPIC, NOT_AVAILABLE, REFUSED = 3, 15, 19


@pytest.fixture(scope="module")
def duck() -> Session:
    return Session()


def answered(book: Book, member_id: str, told: Mapping[str, int], first: str | None, **fields: Any) -> None:
    """A commit for each of ``told``: partition -> error code; ``first``: the answer's first error."""
    by_topic: dict[str, list[tuple[int, int]]] = {}
    for name, code in told.items():
        topic, _, index = name.rpartition("-")
        by_topic.setdefault(topic, []).append((int(index), code))
    asked = [
        {"name": topic, "partitions": [{"partition_index": index, "committed_offset": 5} for index, _ in parts]}
        for topic, parts in by_topic.items()
    ]
    said = [
        {"name": topic, "partitions": [{"partition_index": index, "error_code": code} for index, code in parts]}
        for topic, parts in by_topic.items()
    ]
    about = {"group": "billing", "member": member_id, "topics": list(told)}
    error = {} if first is None else {"error": first}
    book.call("OffsetCommit", {"group_id": "billing", "topics": asked}, {"topics": said}, member_id, **about, **error)


# ------------------------------------------------------------------------------------------------ errors per partition


def in_part() -> Book:
    book = Book()
    for _ in range(5):
        answered(book, "one", {"ord.a-0": UNKNOWN_TOPIC, "ord.b-0": 0, "ord.b-1": 0}, "UNKNOWN_TOPIC_OR_PARTITION")
        book.later(1000)
    answered(book, "two", {"ord.a-1": UNKNOWN_TOPIC}, "UNKNOWN_TOPIC_OR_PARTITION")
    answered(book, "two", {"ord.b-2": 0}, None)
    return book


def test_commits_that_were_refused_for_one_topic_and_taken_for_another(duck: Session) -> None:
    found = rows(commit_refusals(duck.of_arrow(arrow(in_part().events))), "client_id")
    names = ("client_id", "member", "topic", "error", "commits", "in_part", "taken_topics", "first_ms", "last_ms")
    assert picked(found, *names) == [
        ("one", "one", "ord.a", "UNKNOWN_TOPIC_OR_PARTITION", 5, 5, ["ord.b"], 1_000_000, 1_004_000),
        ("two", "two", "ord.a", "UNKNOWN_TOPIC_OR_PARTITION", 1, 0, None, 1_005_000, 1_005_000),
    ]


def refusal(**columns: Any) -> Row:
    known = {
        "group": "billing",
        "client_id": "app-2",
        "member": "app-2-1",
        "topic": "ord.a",
        "error": "UNKNOWN_TOPIC_OR_PARTITION",
        "commits": 84,
        "in_part": 75,
        "taken_topics": ["ord.b"],
        "first_ms": T0,
        "last_ms": T0 + 60_000,
    }
    return row(COMMIT_REFUSALS.names, **{**known, **columns})


def test_the_finding_names_topic_client_and_the_rest() -> None:
    (found,) = findings(facts(refusals=[refusal()]))
    assert found.text == (
        "84 commits of app-2 in billing for ord.a between 22:13:20 and 22:14:20 were answered UNKNOWN_TOPIC_OR_PARTITION; what 75 of "
        "them committed for ord.b was taken."
    )
    assert " may " in found.advice


def test_an_error_of_the_whole_group_is_no_finding_of_a_topic() -> None:
    told = refusal(error="REBALANCE_IN_PROGRESS", in_part=0, taken_topics=None)
    assert [one.kind for one in findings(facts(refusals=[told]))] == ["nothing"]


def unavailable_second() -> Book:
    book = Book()
    book.step(None, snapshot("Empty", 0), "billing", LOG, api="JoinGroup")
    answered(book, "one", {"orders-0": 0}, None)
    for _ in range(3):
        book.later(2000)
        told = {"ord.a-0": UNKNOWN_TOPIC, "orders-0": NOT_AVAILABLE}
        answered(book, "one", told, "UNKNOWN_TOPIC_OR_PARTITION")
    book.later(2000)
    answered(book, "one", {"ord.a-0": UNKNOWN_TOPIC, "orders-0": 0}, "UNKNOWN_TOPIC_OR_PARTITION")
    return book


def test_the_second_error_of_an_answer_shows_that_there_is_no_coordinator(duck: Session) -> None:
    (found,) = rows(stuck_partitions(duck.of_arrow(arrow(unavailable_second().events))))
    assert (found["log"], found["attempts"], found["errors"]) == (LOG, 3, ["COORDINATOR_NOT_AVAILABLE"])
    assert found["to_ms"] == 1_008_000
    told: list[str] = []
    Jams(told.append).take(arrow(unavailable_second().events).to_pylist())
    assert "COORDINATOR_NOT_AVAILABLE" in " ".join(told)
    assert "UNKNOWN_TOPIC" not in " ".join(told)


def test_a_produce_that_is_refused_for_two_partitions_with_two_errors(duck: Session) -> None:
    book = Book()
    for _ in range(3):
        asked = {"topic_data": [{"name": "orders", "partition_data": [{"index": at} for at in (0, 1)]}]}
        codes = {0: UNKNOWN_TOPIC, 1: REFUSED}
        parts = [{"index": at, "error_code": code, "base_offset": -1} for at, code in codes.items()]
        told = {"responses": [{"name": "orders", "partition_responses": parts}]}
        book.call("Produce", asked, told, error="UNKNOWN_TOPIC_OR_PARTITION", topics=["orders-0", "orders-1"])
        book.later(3000)
    found = rows(stuck_partitions(duck.of_arrow(arrow(book.events))), "log")
    assert picked(found, "log", "errors") == [
        ("orders-0", ["UNKNOWN_TOPIC_OR_PARTITION"]),
        ("orders-1", ["NOT_ENOUGH_REPLICAS"]),
    ]
