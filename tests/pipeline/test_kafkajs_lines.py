"""Logs of kafkajs, as its default logger writes them: lines of kafkajs 2.2.4 beside Kafka 4.1.0 while one of two consumers was stopped
for longer than its session, a third had a wrong password, and the broker was killed; the other lines have the words of its source."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from broker_sim.pipeline.lines import client_lines
from tests.pipeline.test_log_lines import rows

MEMBER = "app-1-68433ae5-3e65-4499-abff-faa251a555dc"
OF_GROUP = {"groupId": "billing", "memberId": MEMBER}
OF_CONNECTION = {"broker": "10.0.0.1:9092", "clientId": "app-1"}
AT_MS = 1796066405447


def line(message: str, **fields: Any) -> str:
    head = {"level": "ERROR", "timestamp": "2026-11-30T19:20:05.447Z", "logger": "kafkajs", "message": message}
    return json.dumps({**head, **fields}, separators=(",", ":"))


@pytest.mark.parametrize(
    ("message", "fields", "what", "columns"),
    [
        (
            "[ConsumerGroup] Consumer has joined the group",
            {**OF_GROUP, "leaderId": MEMBER, "isLeader": True, "memberAssignment": {"orders": [0, 1]}, "duration": 981},
            "synced",
            {"group": "billing", "client_id": "app-1", "member": MEMBER},
        ),
        (
            "[Runner] The group is rebalancing, re-joining",
            {**OF_GROUP, "error": "The group is rebalancing, so a rejoin is needed"},
            "rejoins",
            {"group": "billing", "member": MEMBER, "detail": "The group is rebalancing, so a rejoin is needed"},
        ),
        (
            "[Runner] The coordinator is not aware of this member, re-joining the group",
            {**OF_GROUP, "error": "The coordinator is not aware of this member"},
            "session lost",
            {"group": "billing", "client_id": "app-1", "detail": "The coordinator is not aware of this member"},
        ),
        (
            "[Consumer] Crash: KafkaJSNumberOfRetriesExceeded: Connection error: connect ECONNREFUSED 10.0.0.1:9092",
            {"groupId": "billing", "retryCount": 2, "stack": "KafkaJSNonRetriableError\n  Caused by: x"},
            "crashed",
            {
                "group": "billing",
                "detail": "KafkaJSNumberOfRetriesExceeded: Connection error: connect ECONNREFUSED 10.0.0.1:9092",
            },
        ),
        (
            "[Consumer] Restarting the consumer in 312ms",
            {"groupId": "billing", "retryCount": 5, "retryTime": 312},
            "restarts",
            {"group": "billing", "number": 312},
        ),
        (
            "[Connection] Response SaslAuthenticate(key: 36, version: 1)",
            {
                **OF_CONNECTION,
                "error": "Authentication failed: Invalid username or password",
                "correlationId": 2,
                "size": 71,
            },
            "authentication failed",
            {
                "client_id": "app-1",
                "address": "10.0.0.1:9092",
                "detail": "Authentication failed: Invalid username or password",
            },
        ),
        (
            "[Connection] Connection error: self-signed certificate in certificate chain",
            {**OF_CONNECTION, "stack": "Error: x"},
            "handshake failed",
            {
                "client_id": "app-1",
                "address": "10.0.0.1:9092",
                "detail": "self-signed certificate in certificate chain",
            },
        ),
        (
            "[Connection] Response OffsetCommit(key: 8, version: 5)",
            {**OF_CONNECTION, "error": "Specified group generation id is not valid", "correlationId": 7, "size": 30},
            "commit failed",
            {"client_id": "app-1", "detail": "Specified group generation id is not valid"},
        ),
        (
            "[Connection] Response Heartbeat(key: 12, version: 3)",
            {
                **OF_CONNECTION,
                "error": "This is not the correct coordinator for this group",
                "correlationId": 7,
                "size": 10,
            },
            "coordinator lost",
            {"client_id": "app-1", "detail": "This is not the correct coordinator for this group"},
        ),
        (
            "[ConsumerGroup] Offset out of range, resetting to default offset",
            {"topic": "orders", "partition": 1, **OF_GROUP},
            "out of range",
            {"group": "billing", "topic": "orders", "partition": 1},
        ),
        (
            "[Connection] Response EndTxn(key: 26, version: 1)",
            {
                **OF_CONNECTION,
                "error": "Producer attempted an operation with an old epoch. Either there is a newer producer with the same"
                " transactionalId, or the producer's transaction has been expired by the broker",
            },
            "producer fenced",
            {"client_id": "app-1", "group": None},
        ),
    ],
)
def test_kafkajs_lines(
    tmp_path: Path, message: str, fields: dict[str, Any], what: str, columns: dict[str, Any]
) -> None:
    (row,) = rows(tmp_path, "client", line(message, **fields))
    assert (row["what"], row["ts_ms"], row["level"]) == (what, AT_MS, "ERROR")
    assert {name: row.get(name) for name in columns} == columns
    assert what in client_lines.KINDS


def test_a_healthy_run_has_no_row_but_its_join(tmp_path: Path) -> None:
    found = rows(
        tmp_path,
        "client",
        line("[Consumer] Starting", groupId="billing"),
        line(
            "[Connection] Response GroupCoordinator(key: 10, version: 2)",
            **OF_CONNECTION,
            error="The group coordinator is not available",
        ),
        line("[ConsumerGroup] Consumer has joined the group", **OF_GROUP),
        line("[Runner] consumer not running, exiting", **OF_GROUP),
        line("[Consumer] Stopped", groupId="billing"),
    )
    assert [row["what"] for row in found] == ["synced"]


def test_a_line_without_a_client_has_the_only_one_of_its_file(tmp_path: Path) -> None:
    crash = line("[Consumer] Crash: KafkaJSNoBrokerAvailableError: No broker available", groupId="billing")
    joined = line("[ConsumerGroup] Consumer has joined the group", **OF_GROUP)
    other = line(
        "[ConsumerGroup] Consumer has joined the group", groupId="billing", memberId=MEMBER.replace("app-1", "app-2")
    )
    assert [row.get("client_id") for row in rows(tmp_path, "client", joined, crash)] == ["app-1", "app-1"]
    assert [row.get("client_id") for row in rows(tmp_path, "client", joined, other, crash)] == ["app-1", "app-2", None]
