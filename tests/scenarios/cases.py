"""Every fault as a short scenario with one consumer, to see what a client does about it; and what there is to say about each fault.

A case is a fault that lasts ``LASTS_S`` on a cluster where one consumer reads and commits all the time.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from broker_sim.scenario.files import loads
from broker_sim.scenario.model import Scenario, parse

LASTS_S = 3
BACK_WITHIN_S = 15

_COMMIT = {"api": "OffsetCommit", "group": "billing"}


@dataclass(frozen=True, slots=True)
class Case:
    """``fault``: an action of a scenario. ``title``: which variant of its fault it is."""

    fault: dict[str, Any]
    title: str
    as_version: str = "4.1"


def _state(log: str, state: str, title: str, as_version: str = "4.1", **arguments: Any) -> Case:
    return Case({"log": log, "state": state, "for": f"{LASTS_S}s", **arguments}, title, as_version)


def _offsets(state: str, **arguments: Any) -> Case:
    return _state("offsets(billing)", state, "the group's offsets partition", **arguments)


def _read(state: str) -> Case:
    return _state("orders-0", state, "one of the two partitions of the topic")


def _rule(title: str, **rule: Any) -> Case:
    return Case({"fault": {"must_hit": False, **rule}}, title)


CASES: dict[str, list[Case]] = {
    "stuck": [
        _state("offsets(billing)", "stuck", "the group's offsets partition, under 4.1"),
        _state("offsets(billing)", "stuck", "the group's offsets partition, under 3.4", "3.4"),
    ],
    "under_min_isr": [
        _state("offsets(billing)", "under_min_isr", "the group's offsets partition, under 4.1"),
        _state("offsets(billing)", "under_min_isr", "the group's offsets partition, under 3.4", "3.4"),
    ],
    "slow": [_offsets("slow", latency="600ms")],
    "storage_error": [_offsets("storage_error"), _read("storage_error")],
    "full": [_offsets("full", free_bytes=0)],
    "readonly": [_offsets("readonly")],
    "too_large": [_offsets("too_large")],
    "not_leader": [_offsets("not_leader"), _read("not_leader")],
    "fenced": [_offsets("fenced"), _read("fenced")],
    "no_leader": [_offsets("no_leader"), _read("no_leader")],
    "loading": [_offsets("loading")],
    "error": [
        _rule("NOT_COORDINATOR on OffsetCommit", **_COMMIT, error="NOT_COORDINATOR", during="3s"),
        _rule("REBALANCE_IN_PROGRESS on one Heartbeat", api="Heartbeat", error="REBALANCE_IN_PROGRESS", times=1),
    ],
    "error_after": [
        _rule("REQUEST_TIMED_OUT after OffsetCommit", **_COMMIT, error_after="REQUEST_TIMED_OUT", during="3s")
    ],
    "delay": [_rule("OffsetCommit, 1 s", **_COMMIT, delay="1s", during="3s")],
    "reply_delay": [_rule("OffsetCommit, 1 s", **_COMMIT, reply_delay="1s", during="3s")],
    "hang": [
        _rule("one OffsetCommit, request timeout 3 s", **_COMMIT, hang=True, times=1),
        _rule("one Fetch, request timeout 3 s", api="Fetch", topic="orders", hang=True, times=1),
    ],
    "drop": [_rule("one OffsetCommit", **_COMMIT, drop=True, times=1)],
    "drop_after": [_rule("one OffsetCommit", **_COMMIT, drop_after=True, times=1)],
    "truncate": [_rule("one response to Fetch", api="Fetch", topic="orders", truncate=20, times=1)],
    "split": [_rule("one response to OffsetCommit, 500 ms", **_COMMIT, split=6, gap="500ms", times=1)],
    "throttle_ms": [_rule("OffsetCommit, 1 s", **_COMMIT, throttle_ms=1000, during="3s")],
}
"""Fault -> the cases that show it."""


def scenario(case: Case) -> Scenario:
    """The case as a scenario; BREAK and HEALED are the names of its steps."""
    client = {
        "name": "app-1",
        "group": "billing",
        "topics": ["orders"],
        "session_timeout": "6s",
        "request_timeout": "3s",
    }
    # JSON is YAML
    return parse(
        loads(
            json.dumps(
                {
                    "name": case.title,
                    "cluster": {"brokers": 2, "as_version": case.as_version, "commit_timeout": "1s"},
                    "topics": [{"name": "orders", "partitions": 2, "records": 20, "rate": "20/s"}],
                    "clients": [{**client, "heartbeat_interval": "300ms", "metadata_max_age": "5s"}],
                    "steps": [
                        {"name": "it works", "when": {"client": "app-1", "reports": "committed", "count": ">=3"}},
                        {"name": BREAK, "do": [case.fault]},
                        {"name": HEALED, "after": f"{LASTS_S}s"},
                        {"when": {"client": "app-1", "reports": "committed", "count": ">=3"}, "within": BACK_WITHIN_S},
                    ],
                    "expect": [{"within": "1s", "group": {"billing": {"state": "Stable", "members": 1}}}],
                }
            )
        )
    )


BREAK, HEALED = "break", "healed"


@dataclass(slots=True)
class Observed:
    """Behaviour of a client during and after a fault, from the journal alone."""

    hears: dict[str, int] = field(default_factory=dict)
    """``OffsetCommit NOT_COORDINATOR`` -> how often it was answered that."""
    tells: list[str] = field(default_factory=list)
    """Events that its application was told of, without the words after the name."""
    read_meanwhile: bool = False
    looked_up: bool = False
    reconnected: bool = False
    joined: int = 0
    """JoinGroup requests after the fault began."""
    back_ms: int | None = None
    """From the end of the fault to the next commit that the application knows to be done; None where there was none."""
    read_again: int = 0
    went_back: bool = False


def observe(events: list[dict[str, Any]]) -> Observed:
    """Return the client's behaviour in a run's events."""
    found = Observed()
    broke = next(event for event in events if event["event"] == "mark" and event["text"] == BREAK)
    healed = next(event for event in events if event["event"] == "mark" and event["text"] == HEALED)
    seen: set[tuple[str, int]] = set()
    highest: dict[str, int] = {}
    for event in events:
        late, kind = event["seq"] > broke["seq"], event["event"]
        if kind == "client":
            _said(found, event, broke, healed, seen)
        elif kind == "offsets":
            for log, offset in event["offsets"].items():
                found.went_back |= offset is not None and offset < highest.get(log, -1)
                highest[log] = max(offset or 0, highest.get(log, -1))
        elif late and kind == "response" and event.get("error"):
            name = f"{event['api']} {event['error']}"
            found.hears[name] = found.hears.get(name, 0) + 1
        elif late and kind == "request":
            found.looked_up |= event["api"] == "FindCoordinator"
            found.joined += event["api"] == "JoinGroup"
        elif late and kind == "connection":
            found.reconnected |= event["action"] == "opened"
    return found


def _said(
    found: Observed, event: dict[str, Any], broke: dict[str, Any], healed: dict[str, Any], seen: set[tuple[str, int]]
) -> None:
    report, at_ms = event["reports"], event["ts_ms"]
    if report == "read":
        at = (event["details"]["log"], event["details"]["offset"])
        found.read_again += at in seen
        seen.add(at)
        # what it had fetched before is no sign that it goes on
        found.read_meanwhile |= broke["ts_ms"] + 1000 < at_ms <= healed["ts_ms"]
    elif event["seq"] > broke["seq"] and report in ("error", "commit_failed"):
        words = event["text"].partition(":")[0]
        if words not in found.tells:
            found.tells.append(words)
    elif report == "committed" and event["seq"] > healed["seq"] and found.back_ms is None:
        found.back_ms = at_ms - healed["ts_ms"]
