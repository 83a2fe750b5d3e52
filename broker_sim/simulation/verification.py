"""Whether a cluster's groups came back, and whether anything was lost: what ``sim.check`` asks, as seen at the brokers.

Rules:
1. The bounds are Kafka's: the longest session and rebalance timeouts that members of a group have sent to its coordinator.
2. What was acknowledged to a producer is in the log, and what is in the log the group has read and committed.
3. It must stay so a while: a group that is Stable between two rebalances is not well.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from broker_sim.common.text import UsageError, duration_text, unknown
from broker_sim.explain import recent
from broker_sim.simulation import cluster
from broker_sim.simulation.checks import answers
from broker_sim.simulation.checks import invariants as invariants_of
from broker_sim.simulation.checks.answers import InvariantBroken
from broker_sim.simulation.checks.invariants import Invariants
from broker_sim.simulation.checks.liveness import NotAlive, Unsafe, bound_s

if TYPE_CHECKING:
    from broker_sim.simulation.cluster import SimCluster
    from broker_sim.simulation.protocols import RunControl

__all__ = ["BROKEN_BY_FAULTS", "ClusterVerifier", "invariants"]

BROKEN_BY_FAULTS = ("deferred requests are answered",)
"""Invariants that are not judged, as faults may break them: rules hang requests."""

_LOOK_S = 0.5
"""Virtual time between two looks."""
_QUIET_S = 3.0
"""So long it must stay as it should be."""


@dataclass(frozen=True, slots=True)
class Violation:
    """Deviation from the required state: in a word or two, and in a sentence; the group it is about."""

    short: str
    text: str
    group: str | None = None


@cache
def invariants() -> tuple[str, ...]:
    """The names of all that there are, as the modules that check them call them."""
    names: dict[str, None] = {}
    for module in (answers, invariants_of, cluster):
        for node in ast.walk(ast.parse(inspect.getsource(module))):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in _TELL:
                first = node.args[0] if node.args else None
                if isinstance(first, ast.Constant) and isinstance(first.value, str):
                    names[first.value] = None
    return tuple(sorted(names))


_TELL = ("fail", "_fail", "InvariantBroken")


class ClusterVerifier:
    """Listens to one cluster's journal from its start. ``waive``: invariants that are not judged; ``watch`` False: none are."""

    def __init__(self, sim: RunControl, kafka: SimCluster, *, waive: Collection[str], watch: bool) -> None:
        for name in waive:
            if name not in invariants():
                raise unknown("invariant", name, invariants())
        self.sim, self.kafka = sim, kafka
        self._timeouts: dict[str, tuple[int, int]] = {}  # group -> the longest session and rebalance timeout, ms
        self._ends: dict[
            tuple[bytes, int], int
        ] = {}  # topic id, partition -> behind the last record that was acknowledged
        self._invariants = Invariants(kafka, self.breach, waive=(*BROKEN_BY_FAULTS, *waive)) if watch else None

    def event(self, event: dict[str, Any]) -> None:
        """Check an event of the journal."""
        kind = event["event"]
        if kind == "group":
            if event["after"] is not None:
                self._note_timeouts(event["group"], event["after"]["members"])
        elif kind == "response" and event["api"] == "Produce" and event["body"] is not None:
            self._note_produced(event["body"])
        elif kind == "cluster" and event["action"] == "power lost":
            self._ends.clear()  # what was not synced may be lost; the cluster itself checks the rest

    def _note_timeouts(self, group: str, members: Iterable[Mapping[str, Any]]) -> None:
        session, rebalance = self._timeouts.get(group, (0, 0))
        for member in members:
            session = max(session, member["session_timeout_ms"])
            rebalance = max(rebalance, member["rebalance_timeout_ms"])
        self._timeouts[group] = session, rebalance

    def _note_produced(self, body: Mapping[str, Any]) -> None:
        for answer in body["responses"]:
            topic = self.kafka.state.topics.get(answer.get("name", ""))
            if topic is None:  # it has been deleted, or the answer names it by its id alone
                continue
            for response in answer["partition_responses"]:
                if response["error_code"] == 0 and response["base_offset"] >= 0:
                    place = topic.topic_id, response["index"]
                    self._ends[place] = max(self._ends.get(place, 0), response["base_offset"] + 1)

    def breach(self, error: InvariantBroken) -> None:
        """An invariant is broken: the run ends, with the history of the group."""
        groups = [group for group in self._timeouts if group in str(error)]
        for group in groups[:1]:
            error.add_note(recent(self.kafka.journal.events, group))
        self.sim.fail(error)

    # --- after the healing

    def expected(self, groups: Mapping[str, int | None] | Iterable[str] | None) -> dict[str, int | None]:
        """Groups and their members, None for any number. Raises UsageError."""
        if groups is None:
            return dict.fromkeys(self._timeouts)
        if isinstance(groups, str):
            raise UsageError(f"groups= is a mapping like {{{groups!r}: 3}}, or a list of names")
        wanted = dict(groups) if isinstance(groups, Mapping) else dict.fromkeys(groups)
        for name, members in wanted.items():
            if members is not None and (isinstance(members, bool) or not isinstance(members, int) or members < 0):
                raise UsageError(f"groups: {name}: {members!r} is not a number of members")
            if name not in self._timeouts and members != 0:
                raise unknown("group", name, self._timeouts)
        return wanted

    def bound_s(self, groups: Iterable[str], request_timeout_s: float) -> float:
        """Virtual seconds in which everything must be well after the healing."""
        known = [self._timeouts[group] for group in groups if group in self._timeouts]
        return bound_s(
            session_s=max((session for session, _ in known), default=0) / 1000,
            rebalance_s=max((rebalance for _, rebalance in known), default=0) / 1000,
            request_s=request_timeout_s,
            initial_delay_s=self.kafka.state.config.int("group.initial.rebalance.delay.ms") / 1000,
        )

    def converge(
        self, groups: Mapping[str, int | None], within_s: float, lag: int | None, also: Callable[[], object] | None
    ) -> float:
        """Let time pass until all is well and stays so; returns the virtual seconds that it took. Raises NotAlive, Unsafe."""
        sim = self.sim
        began_s = sim.elapsed_s
        quiet_s: float | None = None
        while True:
            violations = [
                violation for name, members in groups.items() for violation in self._lacking(name, members, lag)
            ]
            if also is not None and not also():
                violations.append(Violation("condition", f"{_name(also)} does not hold"))
            now_s = sim.elapsed_s
            quiet_s = None if violations else now_s if quiet_s is None else quiet_s
            if quiet_s is not None and now_s - quiet_s >= _QUIET_S:
                break
            if violations and now_s - began_s >= within_s:
                raise self._not_alive(violations, within_s)
            sim.run_for(_LOOK_S)
        self._nothing_is_lost()
        if self._invariants is not None:
            self._invariants.finish()
        return quiet_s - began_s

    def _lacking(self, name: str, wanted: int | None, lag: int | None) -> list[Violation]:
        if self.kafka.dead:
            return [Violation("brokers", "the brokers are down: their disk does not let them start")]
        group = self.kafka.group(name)
        state, members = group.state, group.members
        right = ("Empty", "Dead") if wanted == 0 else ("Stable",)
        if state not in right:
            waiting = "".join(f"; {m.member_id} waits in {m.deferred}" for m in members if m.deferred)
            text = f"group {name!r} is {state}, not {right[0]}, with {len(members)} members{waiting}"
            return [Violation(f"state {state}", text, name)]
        if wanted is not None and len(members) != wanted:
            names = ", ".join(f"{m.member_id} ({m.client_id})" for m in members)
            return [Violation("members", f"group {name!r} has {len(members)} members, not {wanted}: {names}", name)]
        if lag is None:
            return []
        committed = group.committed()
        topics = dict.fromkeys([topic for m in members for topic in m.topics or ()] + [topic for topic, _ in committed])
        return [
            Violation("lag", f"group {name!r} has committed {done} of {end} in {topic}-{index}", name)
            for topic in topics
            for index, end in self._log_ends(topic)
            if (done := committed.get((topic, index), 0)) < end - lag
        ]

    def _log_ends(self, topic: str) -> list[tuple[int, int]]:
        known_topic = self.kafka.state.topics.get(topic)
        return (
            []
            if known_topic is None
            else [(partition.index, partition.log_end_offset) for partition in known_topic.partitions]
        )

    def _nothing_is_lost(self) -> None:
        for (topic_id, index), end in self._ends.items():
            topic = self.kafka.state.topics_by_id.get(topic_id)  # None: it has been deleted
            log = None if topic is None else topic.partitions[index]
            if log is not None and log.log_end_offset < end:
                there = f"{log.name} ends at {log.log_end_offset}"
                text = f"lost record: {there}; offset {end - 1} was acknowledged to a producer"
                error = Unsafe(text)
                error.broken = "lost record"
                raise error

    def _not_alive(self, violations: list[Violation], within_s: float) -> NotAlive:
        lines = [
            f"{duration_text(within_s * 1000)} after everything was healed:",
            *(f"  {violation.text}" for violation in violations),
        ]
        if violations[-1].short == "lag":
            lines.append(
                "  (lag=None does not ask for that: for groups that read from the end, or with a producer that continues)"
            )
        for group in dict.fromkeys(violation.group for violation in violations if violation.group is not None):
            lines += ["", self.kafka.group(group).explain()]
        error = NotAlive("\n".join(lines))
        error.lacking = violations[0].short
        return error


def _name(condition: Callable[[], object]) -> str:
    return str(getattr(condition, "__qualname__", condition))
