"""Coverage of a run: states of groups, causes of rebalances, errors in responses. A sweep does not test what it never reaches; its
summary lists that.

    coverage = Coverage(kafka)          # listens to the journal; without one there is nothing to hear
    coverage.reached                    # {"state Stable": 4, "JoinGroup MEMBER_ID_REQUIRED": 3, "rebalance: timer session": 1, ...}
    coverage.features                   # {"Heartbeat UNKNOWN_MEMBER_ID in Stable | crash", "Stable -> PreparingRebalance by ...", ...}

``reached`` is for people. Features are what seeds are guided by (`guide`): the steps of each kind of group and of transactions with
their causes, errors by the state of the group that was asked, each alone and with every fault that is on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from broker_sim.coordinator.classic.group import State
from broker_sim.faults.conditions import KINDS as STATES

if TYPE_CHECKING:
    from broker_sim.api.cluster import Cluster
    from broker_sim.simulation.faults.kinds import Fault, Injection

__all__ = ["EXPECTED", "OPEN", "Coverage", "hits_of"]

OPEN = {
    "rebalance": "members are waited for",
    "sync": "the leader's assignment is waited for",
    "unreleased": "a member has not given up a partition that is another's",
    "prepared": "a transaction has its end, and not its markers",
    "blocked": "an open transaction blocks the last stable offset",
    "pending offsets": "a transaction has pending offsets",
    "loading": "a coordinator was unloaded or loads",
    "late": "an append has come to its time",
    "leaderless": "a log has another leader, or none",
}
"""Open situations in which a run is worth more than one future, by name."""

_PREPARING = State.PREPARING_REBALANCE.value
_COMPLETING = State.COMPLETING_REBALANCE.value

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
"""Coverage that a sweep over all workloads must reach; its summary names what is missing."""


class Coverage:
    """Counts what a run of ``kafka`` reaches, from its journal; nothing if the cluster has none."""

    def __init__(self, kafka: Cluster) -> None:
        self.reached: Counter[str] = Counter()
        self.features: set[str] = set()
        self.lasting: Mapping[int, Fault] = {}
        """Faults that are on."""
        self.opened: Callable[[str, str], object] | None = None
        """Called when a state of ``OPEN`` begins, with the active faults."""
        self._states: dict[str, str] = {}  # of groups
        self._asked: dict[int, str] = {}  # request -> the group that it asks
        self._on: tuple[tuple[int, ...], tuple[str, ...]] = ((), ())
        if kafka.observed:
            kafka.journal.subscribe(self._event)

    def _event(self, event: Mapping[str, Any]) -> None:
        heard = _HEARD.get(event["event"])
        if heard is not None:
            heard(self, event)

    def _request(self, event: Mapping[str, Any]) -> None:
        body = event.get("body")
        group = body.get("group_id") if isinstance(body, Mapping) else None
        if group is not None:
            self._asked[event["request"]] = group

    def _response(self, event: Mapping[str, Any]) -> None:
        group = self._asked.pop(event["request"], None)
        error = event.get("error")
        if error is not None:  # the first one, at the top or of a row
            self.reached[f"{event['api']} {error}"] += 1
            state = "" if group is None else f" in {self._states.get(group)}"
            self._come_to(f"{event['api']} {error}{state}")

    def _timer(self, event: Mapping[str, Any]) -> None:
        self.reached[f"timer {event['timer']}"] += 1
        self._come_to(f"timer {event['timer']} in {self._states.get(event.get('group', ''))}")
        if event["timer"] == "append":
            self._open("late")

    def _state(self, event: Mapping[str, Any]) -> None:
        if event["action"] == "set":
            self.reached[f"log {event['state']}"] += 1

    def _load(self, event: Mapping[str, Any]) -> None:
        if event["action"] != "started":
            self.reached["load"] += 1
        self._come_to(f"load {event['action']}")
        self._open("loading")

    def _leader(self, event: Mapping[str, Any]) -> None:
        self._come_to(f"leader {event['reason']}")
        self._open("leaderless")

    def _transaction(self, event: Mapping[str, Any]) -> None:
        why = event["cause"].get("api") or event["cause"]["kind"]
        self._come_to(f"transaction {event['action']} {event.get('state')} by {why} {event.get('error') or ''}")
        if event["action"] == "prepared":
            self._open("prepared")

    def _marker(self, event: Mapping[str, Any]) -> None:
        self._come_to(f"marker {event['action']} {event.get('error') or ''}")

    def _stable_offset(self, event: Mapping[str, Any]) -> None:
        if event["action"] == "blocked":
            self._open("blocked")

    def _pending_offsets(self, event: Mapping[str, Any]) -> None:
        self._come_to(f"offsets {event['action']}")
        self._open("pending offsets")

    def _epochs(self, event: Mapping[str, Any]) -> None:
        group, state, cause = event["group"], event["state"], event["cause"]
        old = self._states.get(group)
        self._states[group] = state
        why = cause.get("api") or cause.get("timer") or cause["kind"]
        self._come_to(f"epochs {old} -> {state} by {why}")
        for pending in ("pending_revocation", "pending_assignment"):
            if any(member[pending] for member in event["members"]):
                self._come_to(f"a member has {pending} in {state} by {why}")
                self._open("unreleased")

    # --- features

    def _come_to(self, what: str) -> None:
        self.features.add(what)
        for fault in self._faults():
            self.features.add(f"{what} | {fault}")

    def _open(self, what: str) -> None:
        if self.opened is not None:
            self.opened(what, ", ".join(self._faults()))

    def _faults(self) -> tuple[str, ...]:
        """The kinds of faults that are on."""
        numbers = tuple(self.lasting)
        if self._on[0] != numbers:
            self._on = numbers, tuple(sorted({name_of(fault) for fault in self.lasting.values()}))
        return self._on[1]

    def _group(self, event: Mapping[str, Any]) -> None:
        before, after, cause = event["before"], event["after"], event["cause"]
        old = None if before is None else before["state"]
        new = State.DEAD.value if after is None else after["state"]
        why = cause.get("api") or (f"timer {cause['timer']}" if "timer" in cause else cause["kind"])
        self._states[event["group"]] = new
        self._come_to(f"{old} -> {new} by {why}")
        if new == _PREPARING:
            self._open("rebalance")
        elif new == _COMPLETING:
            self._open("sync")
        if new != old:
            self.reached[f"state {new}"] += 1
            if new == _PREPARING:
                self.reached[f"rebalance: {why}"] += 1


_HEARD: Mapping[str, Callable[[Coverage, Mapping[str, Any]], None]] = {
    "request": Coverage._request,
    "response": Coverage._response,
    "group": Coverage._group,
    "timer": Coverage._timer,
    "state": Coverage._state,
    "load": Coverage._load,
    "leader": Coverage._leader,
    "transaction": Coverage._transaction,
    "marker": Coverage._marker,
    "last_stable_offset": Coverage._stable_offset,
    "pending_offsets": Coverage._pending_offsets,
    "epochs": Coverage._epochs,
}


def name_of(fault: Fault) -> str:
    """Name of a fault by its kind and effect: ``state stuck``."""
    return " ".join([fault.kind, *_aspect(fault.kind, fault.args)])


def hits_of(injection: Injection) -> dict[str, int]:
    """The faults that came about, by kind and what they did: ``{"state stuck": 1, "rule drop": 2, "crash": 1}``."""
    hits: Counter[str] = Counter()
    for fault in injection.begun:
        hits[name_of(fault)] += 1
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
