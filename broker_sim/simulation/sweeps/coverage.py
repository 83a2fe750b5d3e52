"""What a run has reached: states of groups, why they rebalanced, what clients were told. A sweep that never reaches a thing tests
nothing of it; its summary says so.

    coverage = Coverage(kafka)          # listens to the journal; without one there is nothing to hear
    coverage.reached                    # {"state Stable": 4, "JoinGroup MEMBER_ID_REQUIRED": 3, "rebalance: timer session": 1, ...}
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from broker_sim.coordinator.classic.group import State
from broker_sim.faults.conditions import KINDS as STATES
from kafka_wire.errors import Err

if TYPE_CHECKING:
    from broker_sim.api.cluster import Cluster
    from broker_sim.simulation.faults.kinds import Injection

__all__ = ["EXPECTED", "Coverage", "hits_of"]

_PREPARING = State.PREPARING_REBALANCE.value

_TOLD = {
    "JoinGroup": "MEMBER_ID_REQUIRED UNKNOWN_MEMBER_ID FENCED_INSTANCE_ID NOT_COORDINATOR COORDINATOR_NOT_AVAILABLE"
    " COORDINATOR_LOAD_IN_PROGRESS GROUP_MAX_SIZE_REACHED",
    "SyncGroup": "REBALANCE_IN_PROGRESS UNKNOWN_MEMBER_ID ILLEGAL_GENERATION FENCED_INSTANCE_ID NOT_COORDINATOR"
    " COORDINATOR_NOT_AVAILABLE",
    "Heartbeat": "REBALANCE_IN_PROGRESS UNKNOWN_MEMBER_ID ILLEGAL_GENERATION FENCED_INSTANCE_ID NOT_COORDINATOR"
    " COORDINATOR_NOT_AVAILABLE",
    "OffsetCommit": "REBALANCE_IN_PROGRESS UNKNOWN_MEMBER_ID ILLEGAL_GENERATION FENCED_INSTANCE_ID NOT_COORDINATOR"
    " COORDINATOR_NOT_AVAILABLE REQUEST_TIMED_OUT",
    "OffsetFetch": "NOT_COORDINATOR",
    "LeaveGroup": "UNKNOWN_MEMBER_ID",
    "FindCoordinator": "COORDINATOR_NOT_AVAILABLE",
    "Fetch": "NOT_LEADER_OR_FOLLOWER",
    "Produce": "NOT_LEADER_OR_FOLLOWER",
}

EXPECTED: tuple[str, ...] = (
    *(f"state {state.value}" for state in State),
    *(f"rebalance: {why}" for why in ("JoinGroup", "LeaveGroup", "timer session", "timer sync", "append")),
    *(f"{api} {error}" for api, errors in _TOLD.items() for error in errors.split()),
    *("load", "timer pending", "timer append"),
    *(f"log {name}" for name in STATES),
)  # fmt: skip
"""What a sweep over all workloads is to reach; what it has not is named in its summary."""


class Coverage:
    """See the module."""

    def __init__(self, kafka: Cluster) -> None:
        self.reached: Counter[str] = Counter()
        self._seen: dict[int, str] = {}
        if kafka.observed:
            kafka.journal.subscribe(self._event)

    def _event(self, event: Mapping[str, Any]) -> None:
        kind = event["event"]
        if kind == "response":
            error = event.get("error")
            if error is not None:
                self.reached[f"{event['api']} {error}"] += 1
            elif event["api"] == "OffsetCommit":
                self._partitions(event["api"], event.get("body"), "topics", "partitions")
            elif event["api"] == "Fetch":
                self._partitions(event["api"], event.get("body"), "responses", "partitions")
            elif event["api"] == "Produce":
                self._partitions(event["api"], event.get("body"), "responses", "partition_responses")
        elif kind == "group":
            self._group(event)
        elif kind == "timer":
            self.reached[f"timer {event['timer']}"] += 1
        elif kind == "state" and event["action"] == "set":
            self.reached[f"log {event['state']}"] += 1
        elif kind == "load" and event["action"] != "started":
            self.reached["load"] += 1

    def _partitions(self, api: str, body: Any, topics: str, partitions: str) -> None:
        for topic in (body or {}).get(topics) or ():
            for each in topic[partitions]:
                code = each["error_code"]
                if code:
                    self.reached[f"{api} {Err(code).name}"] += 1

    def _group(self, event: Mapping[str, Any]) -> None:
        before, after, cause = event["before"], event["after"], event["cause"]
        old = None if before is None else before["state"]
        new = State.DEAD.value if after is None else after["state"]
        if new != old:
            self.reached[f"state {new}"] += 1
            if new == _PREPARING:
                why = cause.get("api") or (f"timer {cause['timer']}" if "timer" in cause else cause["kind"])
                self.reached[f"rebalance: {why}"] += 1


def hits_of(injection: Injection) -> dict[str, int]:
    """The faults that came about, by kind and what they did: ``{"state stuck": 1, "rule drop": 2, "crash": 1}``."""
    hits: Counter[str] = Counter()
    for fault in injection.begun:
        hits[" ".join([fault.kind, *_aspect(fault.kind, fault.args)])] += 1
    return dict(hits)


def _aspect(kind: str, args: Mapping[str, Any]) -> list[str]:
    if kind == "state":
        return [args["state"]]
    if kind == "rule":
        return [name for name in _VERDICTS if name in args][:1]
    if kind == "buggify":
        return [args["site"]]
    if kind == "link":
        return [name for name in args if name.endswith(("_ms", "chunks", "loss"))][:1]
    return []


_VERDICTS = (
    "error",
    "error_after",
    "delay",
    "reply_delay",
    "hang",
    "drop",
    "drop_after",
    "truncate",
    "split",
    "throttle_ms",
)
