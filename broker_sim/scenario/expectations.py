"""Matchers: what a scenario waits for, expects or forbids.

A matcher is a map in the file and a question to the run:

    {group: billing, state: Stable, members: 3, generation: ">=2", lag_below: 500, committed: {orders-0: 50}, reading: true}
    {api: OffsetCommit, error: REQUEST_TIMED_OUT, group: billing, count: ">=2"}      # requests, or with error/answered their answers
    {event: timer, timer: session, count: 1}                                         # any event of the journal, by its fields
    {client: app-1, reports: commit_failed, text: "*RebalanceInProgress*"}           # a client's report
    {fault: lost, hits: 2}
    {group: billing, committed: decreased}                                           # for never

``Matcher.seen(event)`` is fed with every event once, in order; ``holds(run)`` answers now.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Protocol

from broker_sim.common.answers import errors_of
from broker_sim.common.text import UsageError, nearest, unknown
from broker_sim.coordinator import shard
from broker_sim.coordinator.transaction import shard as transaction_shard
from broker_sim.fields.kafka import GROUP_STATE, ApiName, ErrorCode
from broker_sim.fields.kinds import Choice, Count, FieldKind
from broker_sim.journal import EVENTS
from broker_sim.scenario.files import Table, count, flag, table_of, text
from kafka_wire.errors import Err

if TYPE_CHECKING:
    from broker_sim.api.cluster import Cluster
    from broker_sim.api.handles.consumption import Consumption

__all__ = ["Matcher", "ScenarioState", "matcher_of", "matchers_of"]

Event = dict[str, Any]

_GLOB = re.compile(r"[*?\[]")


class ScenarioState(Protocol):
    """State of a running scenario, as matchers read it."""

    kafka: Cluster
    faults: dict[str, Any]
    """The scenario's faults by name."""

    def request_of(self, event: Event) -> Event | None:
        """The request that an event belongs to."""


class Matcher:
    """One matcher; see the module."""

    what = ""
    """In words."""

    where = ""
    """``file:line`` of it."""

    def begin(self) -> None:
        """Forget what was seen: count from here."""

    def seen(self, event: Event, run: ScenarioState) -> None:
        """An event of the journal."""

    def holds(self, run: ScenarioState) -> bool:
        raise NotImplementedError

    def now(self, run: ScenarioState) -> str:
        """The present state of the matcher, as text for reports and errors."""
        return ""


class GroupMatcher(Matcher):
    """A group as it is now."""

    def __init__(self, group: str, table: Table) -> None:
        self.group = group
        self.state = table.take("state", GROUP_STATE, None)
        self.members = table.take("members", count, None)
        self.generation = table.take("generation", count, None)
        self.lag_below = table.take("lag_below", Count(1), None)
        self.committed = table.take("committed", _offsets, None)
        self.leader = table.take("leader", text, None)
        self.reading = table.take("reading", flag, False)
        self._consumption: Consumption | None = None
        asked = {key: value for key, value in table.plain().items() if key in _OF_GROUPS}
        if not asked:
            _guess(table, _OF_GROUPS)
            raise table.error(f"no condition for {group}; expected one of {', '.join(_OF_GROUPS)}")
        self.what = f"group {group}: " + ", ".join(f"{key} {value}" for key, value in asked.items())

    def seen(self, event: Event, run: ScenarioState) -> None:
        if self._consumption is not None:
            self._consumption.see(event)

    def _obstacle_to_reading(self, run: ScenarioState) -> str | None:
        from broker_sim.api.handles.consumption import Consumption

        if self._consumption is None:
            self._consumption = Consumption(self.group, run.kafka.observe().events)
        return run.kafka.group(self.group).obstacle_to_reading(self._consumption)

    def holds(self, run: ScenarioState) -> bool:
        group = run.kafka.group(self.group)
        members = group.members
        return (
            (self.state is None or group.state == self.state)
            and (self.members is None or self.members(len(members)))
            and (self.generation is None or self.generation(group.generation))
            and (
                self.leader is None
                or any(self.leader in (m.client_id, m.instance_id, m.member_id) for m in members if m.leader)
            )
            and (self.committed is None or self._committed(run))
            and (self.lag_below is None or group.lag().below(self.lag_below))
            and (not self.reading or self._obstacle_to_reading(run) is None)
        )

    def _committed(self, run: ScenarioState) -> bool:
        offsets = {
            f"{topic}-{index}": offset for (topic, index), offset in run.kafka.group(self.group).committed().items()
        }
        return all(at_least <= offsets.get(log, -1) for log, at_least in (self.committed or {}).items())

    def now(self, run: ScenarioState) -> str:
        group = run.kafka.group(self.group)
        parts = [f"it is {group.state} with {len(group.members)} members in generation {group.generation}"]
        parts += [group.lag().obstacle(self.lag_below)] if self.lag_below is not None else []
        parts += [self._obstacle_to_reading(run) or ""] if self.reading else []
        return ", ".join(part for part in parts if part)


class EventMatcher(Matcher):
    """Events of the journal, counted."""

    def __init__(self, table: Table) -> None:
        self.count = table.take("count", count, count(">=1"))
        answered = table.take("answered", flag, False) or "error" in table
        self.fields = table.rest()
        kind = self.fields.pop("event", None)
        if kind is None:
            kind = "response" if answered else "request"
        if not isinstance(kind, str) or kind not in EVENTS:
            raise table.error(str(unknown("event", str(kind), EVENTS)), "event")
        known = {name.rstrip("?") for name in EVENTS[kind]}
        if kind == "response":
            known |= {name.rstrip("?") for name in EVENTS["request"]}
        for key in list(self.fields):
            if key not in known:
                raise table.error(f"{kind}: {unknown('field', key, sorted({*known, 'count'}))}", key)
            if key in _NAMES:
                self.fields[key] = table.take(key, _known(key))
        self.kind, self.hits = kind, 0
        self.what = f"{kind}: " + ", ".join(f"{key} {value}" for key, value in self.fields.items())

    def begin(self) -> None:
        self.hits = 0

    def seen(self, event: Event, run: ScenarioState) -> None:
        if event["event"] != self.kind:
            return
        whole = event
        if self.kind == "response":
            whole = {**(run.request_of(event) or {}), **event}
            if event.get("error") is not None:
                whole["error"] = errors_of(event)  # an answer may have one error for each partition
            elif (
                self.fields.get("error") == Err.NONE.name and "action" not in event
            ):  # a dropped response is no success
                whole["error"] = Err.NONE.name
        if all(_matches(whole.get(key), wanted) for key, wanted in self.fields.items()):
            self.hits += 1

    def holds(self, run: ScenarioState) -> bool:
        return self.count(self.hits)

    def now(self, run: ScenarioState) -> str:
        return f"it occurred {self.hits} time{'' if self.hits == 1 else 's'}"


class ClientMatcher(EventMatcher):
    """Reports of a client of the scenario: ``reports``, ``text`` and their number."""

    def __init__(self, table: Table) -> None:
        self.count = table.take("count", count, count(">=1"))
        client = self.client = table.take("client", text)
        reports = table.take("reports", _report, "*")
        words = table.take("text", text, "*")
        self.kind, self.hits = "client", 0
        self.fields = {"client": client, "reports": reports, "text": words}
        self.what = f"client {client} reports {reports}" + ("" if words == "*" else f" {words}")


class FaultMatcher(Matcher):
    """The number of requests that a rule of the scenario has matched: ``{fault: NAME, hits: 2}``."""

    def __init__(self, table: Table) -> None:
        self.name, self.hits = table.take("fault", text), table.take("hits", count, count(">=1"))
        self.what = f"fault {self.name} hits"

    def holds(self, run: ScenarioState) -> bool:
        return self.name in run.faults and self.hits(run.faults[self.name].hits)

    def now(self, run: ScenarioState) -> str:
        return (
            f"it matched {run.faults[self.name].hits} requests"
            if self.name in run.faults
            else "it is not installed yet"
        )


class OffsetRegression(Matcher):
    """A committed offset that became smaller."""

    def __init__(self, group: str) -> None:
        self.group, self.what = group, f"a committed offset of {group} decreased"
        self.highest: dict[str, int] = {}
        self.fallen = ""

    def seen(self, event: Event, run: ScenarioState) -> None:
        if event["event"] != "offsets" or event["group"] != self.group:
            return
        for log, offset in event["offsets"].items():
            if offset < self.highest.get(log, -1) and not self.fallen:
                self.fallen = f"{log} decreased from {self.highest[log]} to {offset}"
            self.highest[log] = max(offset, self.highest.get(log, -1))

    def holds(self, run: ScenarioState) -> bool:
        return bool(self.fallen)

    def now(self, run: ScenarioState) -> str:
        return self.fallen


def matcher_of(table: Table) -> Matcher:
    """The matcher that a map describes. Raises WrongFile."""
    if "client" in table and "event" not in table and "api" not in table:
        matcher: Matcher = ClientMatcher(table)
    elif "fault" in table and "event" not in table:
        matcher = FaultMatcher(table)
    elif "api" in table or "event" in table:
        matcher = EventMatcher(table)
    elif "group" in table:
        matcher = _of_group(table.take("group", text), table)
    else:
        _guess(table, (*_HEADS, "never", "happened"))
        raise table.error(f"{table.what} has no subject; expected one of {', '.join(_HEADS)}")
    table.done()
    matcher.where = table.place
    return matcher


def _of_group(group: str, table: Table) -> Matcher:
    """The matcher of a group's committed offsets that decrease, or of the group's present state."""
    if table.peek("committed") != "decreased":
        return GroupMatcher(group, table)
    table.take("committed", lambda value: value)
    return OffsetRegression(group)


def _guess(table: Table, known: tuple[str, ...]) -> None:
    """Raise WrongFile for the first key that was probably meant to be one of these, and isn't."""
    for key in table.names():
        meant = nearest(key, known)
        if meant not in (None, key):
            raise table.error(f"{table.what} has no key {key!r}; did you mean {meant!r}?", key)


def matchers_of(table: Table) -> list[Matcher]:
    """As ``matcher_of``; ``group: {billing: {...}, audit: {...}}`` is one for each."""
    nested = table.peek("group")
    if not isinstance(nested, Table):
        return [matcher_of(table)]
    table.take("group", lambda value: value)
    matchers: list[Matcher] = []
    for name in nested.names():
        inner = nested.take(name, lambda value: table_of(value, "a group"))
        matchers.append(_of_group(name, inner))
        inner.done()
        matchers[-1].where = nested.where(name)
    table.done()
    return matchers


_OF_GROUPS = ("state", "members", "generation", "lag_below", "committed", "leader", "reading")
_HEADS = ("group", "api", "event", "client", "fault")
_TIMERS = tuple(dict.fromkeys((*shard.TIMERS, *transaction_shard.TIMERS)))
_REPORTS = (
    *("started", "exited", "assigned", "revoked", "lost", "read", "committed", "commit_failed", "error", "left"),
    *("begun", "aborted", "fenced"),
)
_NAMES: dict[str, FieldKind[Any]] = {"api": ApiName(), "error": ErrorCode(none=True), "timer": Choice(_TIMERS)}
"""The fields of events whose values are known beforehand."""


def _known(key: str) -> Callable[[Any], str]:
    """Reads a field whose values are known beforehand; a pattern stays as it is."""

    def read(value: object) -> str:
        if isinstance(value, str) and _GLOB.search(value):
            return value
        name = _NAMES[key].read(value, key)
        return name.name if isinstance(name, Err) else str(name)

    return read


def _report(value: object) -> str:
    word = text(value)
    close = nearest(word, _REPORTS)
    if word not in _REPORTS and close is not None:
        raise unknown(
            "report of a client", word, _REPORTS
        )  # another one that is far from all may be a foreign program's
    return word


def _matches(value: object, wanted: object) -> bool:
    if isinstance(wanted, str) and isinstance(value, str):
        return fnmatchcase(value, wanted)
    if isinstance(value, list) and not isinstance(wanted, list):
        return any(_matches(item, wanted) for item in value)
    return bool(value == wanted)


def _offsets(value: object) -> dict[str, int]:
    if isinstance(value, str):
        raise UsageError(
            f"{value!r} is neither 'decreased' nor a map of partitions to offsets, such as {{orders-0: 5}}"
        )
    table = table_of(value, "committed")
    return {log: table.take(log, Count(0)) for log in table.names()}
