"""The table `events`: what becomes of each kind of line, nothing of it lost; its views by call and by partition."""

from __future__ import annotations

import json
from typing import Any

import pytest

from broker_sim.journal.vocabulary import EVENTS as KINDS
from broker_sim.pipeline.journal_events import LineSource, row_of
from broker_sim.pipeline.schemas import SKIPPED
from broker_sim.pipeline.tables.events import EVENTS, by_partition, calls, skipped
from kafka_wire.api_keys import ApiKey
from tests.pipeline.support_journal import (
    SCENARIOS,
    Book,
    arrow,
    frame,
    large,
    line,
    member,
    picked,
    played,
    rows,
    snapshot,
)
from tests.support.sampling import sampled

WHERE = LineSource("run", 1, "journal")


def read(event: dict[str, Any]) -> dict[str, Any]:
    """The row of an event, structs as dicts; what is null left out."""
    (row,) = arrow([event]).to_pylist()
    always = ("run_id", "journal", "seq", "ts", "ts_ms", "file", "position", "body")
    return {name: value for name, value in row.items() if value is not None and name not in always}


def parts(row: dict[str, Any]) -> list[dict[str, Any]]:
    """The partitions of a row; what is null left out."""
    return [{name: value for name, value in one.items() if value is not None} for one in row["partitions"]]


# ------------------------------------------------------------------------------------------------ kinds


def test_an_offset_commit_of_several_partitions() -> None:
    book = Book()
    book.commit("app-1", 4, {"orders-0": 7, "orders-11": 9, "a-b-2": 1})
    asked, answered = (read(event) for event in book.events)
    partitions = asked["partitions"]
    del asked["partitions"], asked["broker"], asked["connection"], asked["client_host"]
    assert asked == {
        "type": "request",
        "request": 1,
        "api": "OffsetCommit",
        "api_key": ApiKey.OFFSET_COMMIT,
        "api_version": 3,
        "client_id": "app-1",
        "group": "billing",
        "member": "app-1",
        "generation": 4,
    }
    assert [(one["topic"], one["partition"], one["offset"]) for one in partitions] == [
        ("orders", 0, 7),
        ("orders", 11, 9),
        ("a-b", 2, 1),
    ]
    assert answered == {
        "type": "response",
        "request": 1,
        "api": "OffsetCommit",
        "api_key": 8,
        "error_code": 0,
        "took_ms": 0,
    }


def test_one_partition_has_columns_of_its_own() -> None:
    book = Book()
    book.fetch("app", 40, 3, partition=5)
    asked, answered = (read(event) for event in book.events)
    assert (asked["topic"], asked["partition"], asked["offset"]) == ("orders", 5, 40)
    assert parts(asked) == [{"topic": "orders", "partition": 5, "offset": 40}]
    told = {"topic": "orders", "partition": 5, "high_watermark": 1000, "records": 3, "error_code": 0}
    assert parts(answered) == [told]


def test_a_step_of_a_group() -> None:
    book = Book()
    one = member("one", "orders-0", "orders-3", instance="web-1", client="web")
    book.step(
        snapshot("Stable", 4, one, member("two")), snapshot("PreparingRebalance", 4, one), timer="session", member="two"
    )
    row = read(book.events[0])
    before, after = row.pop("members_before"), row.pop("members_after")
    assert row == {
        "type": "group",
        "group": "billing",
        "log": "__consumer_offsets-9",
        "coordinator_partition": 9,
        "state_from": "Stable",
        "state_to": "PreparingRebalance",
        "generation_from": 4,
        "generation": 4,
        "size_before": 2,
        "size_after": 1,
        "leader": "one",
        "protocol": "range",
        "cause": "session_expired",
        "cause_members": ["two"],
        "member": "two",
        "timer": "session",
    }
    assert [one["member"] for one in before] == ["one", "two"]
    assert after == [
        {
            "member": "one",
            "client_id": "web",
            "client_host": "/127.0.0.1",
            "instance": "web-1",
            "deferred": None,
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 60_000,
            "topics": ["orders"],
            "assignment": ["orders-0", "orders-3"],
        }
    ]


OTHERS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (
        {
            "event": "append",
            "log": "__consumer_offsets-3",
            "requests": [7, 8],
            "kinds": ["offsets"],
            "groups": ["a", "b"],
        }
        | {"records": 2, "base_offset": 5, "last_offset": 6, "high_watermark": 5},
        {
            "log": "__consumer_offsets-3",
            "coordinator_partition": 3,
            "requests": [7, 8],
            "kinds": ["offsets"],
            "groups": ["a", "b"],
        }
        | {"records": 2, "base_offset": 5, "last_offset": 6, "high_watermark": 5},
    ),
    (
        {
            "event": "append",
            "log": "__consumer_offsets-3",
            "requests": [],
            "kinds": ["group"],
            "groups": ["a"],
            "records": 1,
        }
        | {"base_offset": -1, "last_offset": -1, "high_watermark": 5, "error": "NOT_ENOUGH_REPLICAS"},
        {
            "log": "__consumer_offsets-3",
            "coordinator_partition": 3,
            "requests": [],
            "kinds": ["group"],
            "groups": ["a"],
            "group": "a",
        }
        | {
            "records": 1,
            "base_offset": -1,
            "last_offset": -1,
            "high_watermark": 5,
            "error": "NOT_ENOUGH_REPLICAS",
            "error_code": 19,
        },
    ),
    (
        {"event": "state", "log": "orders-0", "state": "stuck", "args": {"a": 1}, "action": "set"},
        {"log": "orders-0", "condition": "stuck", "action": "set"},
    ),
    (
        {"event": "leader", "log": "orders-0", "leader": -1, "epoch": 4, "reason": "all are down"},
        {"log": "orders-0", "broker": -1, "epoch": 4, "text": "all are down"},
    ),
    (
        {"event": "fault", "fault": 3, "rule": "OffsetCommit: drop", "request": 9, "verdict": "drop"},
        {"fault": 3, "text": "drop", "request": 9},
    ),
    (
        {"event": "connection", "broker": 1, "connection": 4, "peer": "/10.0.0.1", "action": "closed"},
        {"broker": 1, "connection": 4, "client_host": "/10.0.0.1", "action": "closed"},
    ),
    (
        {
            "event": "client",
            "client": "app-1",
            "reports": "assigned",
            "text": "",
            "details": {"partitions": ["orders-0", "orders-1"]},
        },
        {"client_id": "app-1", "reports": "assigned"},
    ),
    (
        {
            "event": "client",
            "client": "app-1",
            "reports": "read",
            "text": "",
            "details": {"log": "orders-0", "offset": 5},
        },
        {"client_id": "app-1", "reports": "read", "topic": "orders", "partition": 0, "offset": 5},
    ),
    (
        {"event": "timer", "log": "__consumer_offsets-3", "timer": "session", "group": "a", "member": "m", "due_ms": 7},
        {"log": "__consumer_offsets-3", "coordinator_partition": 3, "timer": "session", "group": "a", "member": "m"},
    ),
    ({"event": "mark", "text": "jam"}, {"text": "jam"}),
]


@pytest.mark.parametrize(("event", "expected"), OTHERS, ids=lambda one: str(one.get("event", "")))
def test_other_kinds(event: dict[str, Any], expected: dict[str, Any]) -> None:
    row = read({"seq": 1, "ts_ms": 5, **event})
    assert row.pop("type") == event["event"]
    row.pop("partitions", None)
    assert row == expected


def test_published_offsets_and_deleted_ones() -> None:
    event = {"seq": 1, "ts_ms": 5, "event": "offsets", "log": "__consumer_offsets-3", "group": "a", "request": 3}
    row = read({**event, "offsets": {"orders-0": 7, "orders-1": None}})
    assert parts(row) == [{"topic": "orders", "partition": 0, "offset": 7}, {"topic": "orders", "partition": 1}]


def test_a_fetch_that_names_topics_by_their_ids() -> None:
    book = Book()
    body = {
        "topics": [
            {
                "topic_id": "Zm9v",
                "partitions": [{"partition": 0, "fetch_offset": 1}, {"partition": 2, "fetch_offset": 3}],
            }
        ]
    }
    book.request("Fetch", body, topics=["orders-0", "orders-2"])
    assert parts(read(book.events[0])) == [
        {"topic": "orders", "topic_id": "Zm9v", "partition": 0, "offset": 1},
        {"topic": "orders", "topic_id": "Zm9v", "partition": 2, "offset": 3},
    ]


def test_a_request_about_several_groups() -> None:
    book = Book()
    groups = [{"group_id": name, "topics": [{"name": "orders", "partition_indexes": [0, 1]}]} for name in ("a", "b")]
    book.request("OffsetFetch", {"groups": groups}, group="a")
    row = read(book.events[0])
    assert "group" not in row
    assert row["groups"] == ["a", "b"]
    assert [(one["group"], one["partition"]) for one in row["partitions"]] == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]


@pytest.mark.parametrize("name", sampled([*SCENARIOS, "large"], 3))
def test_every_event_of_a_real_run_is_a_row_and_nothing_is_lost(name: str) -> None:
    events = large().events if name == "large" else played(name).events
    table = arrow(events).to_pylist()
    assert [row["seq"] for row in table] == [event["seq"] for event in events]
    assert {row["type"] for row in table} <= set(KINDS)
    assert all(row["unknown"] is None for row in table)
    assert [json.loads(row["body"]) for row in table] == [json.loads(line(event)) for event in events]
    for row, event in zip(table, events, strict=True):
        if row["type"] == "group":
            assert row["cause"] is not None
            assert row["size_after"] == (event["after"] or {}).get("size")
        if row["type"] in ("request", "response"):
            assert row["api_key"] is not None
        if row["type"] == "response":
            assert (row["error_code"] == 0) == (row["error"] is None and row["action"] is None)


def test_rows_name_columns_alone() -> None:
    for event in played("stuck-offsets-partition-4.1").events:
        assert set(row_of(line(event), 0, WHERE)) <= set(EVENTS.names)


# ------------------------------------------------------------------------------------------------ views


def a_book() -> Book:
    book = Book()
    book.call(
        "Metadata", {}, {"topics": [{"name": "orders", "topic_id": "Zm9v", "partitions": [{"partition_index": 0}]}]}
    )
    book.commit("app-1", 4, {"orders-0": 7, "orders-1": 9})
    answered = {"responses": [{"topic_id": "Zm9v", "partitions": [{"partition_index": 0, "error_code": 0}]}]}
    book.call("Fetch", {}, answered)
    book.request("Heartbeat", {"group_id": "billing", "generation_id": 4, "member_id": "app-1"}, group="billing")
    return book


@pytest.mark.spark
def test_calls_partitions_and_skipped_lines(spark: Any) -> None:
    book = a_book()
    book.commit("app-1", 4, {"orders-0": 8}, error="ILLEGAL_GENERATION")
    events = frame(spark, run=[*book.events, {"no": "event"}])
    found = rows(calls(events, "OffsetCommit", "Heartbeat"), "seq")
    assert picked(found, "api", "request", "error", "error_code", "answered_seq") == [
        ("OffsetCommit", 2, None, 0, 4),
        ("Heartbeat", 4, None, None, None),
        ("OffsetCommit", 5, "ILLEGAL_GENERATION", 22, 9),
    ]
    table = rows(by_partition(events), "seq", "partition")
    assert picked(table, "type", "api", "topic", "partition", "offset", "group") == [
        ("response", "Metadata", "orders", 0, None, None),
        ("request", "OffsetCommit", "orders", 0, 7, "billing"),
        ("request", "OffsetCommit", "orders", 1, 9, "billing"),
        ("response", "Fetch", "orders", 0, None, None),
        ("request", "OffsetCommit", "orders", 0, 8, "billing"),
    ]
    bad = skipped(events)
    assert bad.columns == list(SKIPPED.names)
    assert picked(rows(bad), "file", "position", "bytes", "reason") == [
        ("run/journal-000001.ndjson", 9, 14, "no event of a journal: event and seq and ts_ms missing")
    ]
