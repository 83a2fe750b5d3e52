"""Consumers that stopped with an error, as kafkajs logs it."""

from __future__ import annotations

from typing import Any

from broker_sim.pipeline.finding import Finding
from broker_sim.pipeline.findings import findings
from broker_sim.pipeline.tables.log_lines import LOG_LINES
from tests.pipeline.facts import facts, rebalance, row
from tests.pipeline.offsets import T0

ERROR = "KafkaJSNonRetriableError: bad record"


def line(what: str, at: float, client: str | None = "app-1", **columns: Any) -> dict[str, Any]:
    place = {"source": "client", "file": "app.log", "line": int(at * 10), "ts_ms": int(T0 + at * 1000)}
    return row(
        LOG_LINES.names, **{"what": what, "group": "billing", "client_id": client, "detail": ERROR, **place, **columns}
    )


def told(*lines: dict[str, Any], **columns: Any) -> Finding:
    (found,) = [one for one in findings(facts(journal=None, crashes=list(lines), **columns)) if one.kind == "crashed"]
    return found


def test_a_consumer_that_does_not_start_again_is_a_warning() -> None:
    found = told(line("crashed", 5), line("restarts", 5.2, "app-2", number=300))
    assert (found.severity, found.certainty, found.group) == ("warn", "certain", "billing")
    assert (
        found.text == f"app-1 of billing stopped with an error at 22:13:25: {ERROR}; no line says that it starts again."
    )
    assert found.lines == ("app.log:50 (billing)",)


def test_one_that_starts_again_is_a_note() -> None:
    found = told(line("crashed", 5), line("restarts", 5.2, None, number=312))
    assert (found.severity, found.text.rpartition("; ")[2]) == ("note", "it starts again after 312 ms.")
    often = [one for at in (5, 25, 45, 65, 85) for one in (line("crashed", at), line("restarts", at + 0.2, number=312))]
    found = told(*often)
    assert found.severity == "warn"
    assert "stopped with an error 5 times from 22:13:25 on" in found.text
    assert found.text.endswith("; it each time starts again.")


def test_the_rebalance_that_began_with_it_is_named() -> None:
    left = rebalance(
        5400, 300, source="log", cause="leave", generation=7, who=["app-1-x"], evidence_lines=["server.log:3"]
    )
    other = rebalance(5100, 300, source="log", cause="leave", generation=6, who=["app-2-x"], who_clients=["app-2"])
    later = rebalance(200_000, 300, source="log", cause="leave", generation=9, who=["app-1-x"])
    found = told(line("crashed", 5), rebalances=[other, left, later])
    assert found.text.endswith(". billing rebalanced for it at 22:13:25.400 (generation 7).")
    assert (found.certainty, found.lines) == ("likely", ("app.log:50 (billing)", "server.log:3 (billing)"))
    assert "rebalanced for it" not in told(line("crashed", 5, None), rebalances=[left]).text
