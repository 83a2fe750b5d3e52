"""Causes of the coordinator's steps: the cause in a step's ``group`` event, with the earlier requests of its clients."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Set
from itertools import takewhile
from typing import Any

from broker_sim.common.answers import rows
from broker_sim.common.text import duration_text, visible
from broker_sim.explain.events import Call, Event, GroupSnapshot, items, names_in, number, table, text
from broker_sim.explain.model import History, Incident
from broker_sim.explain.phrases import caller, shortened
from broker_sim.explain.rebalances import COMPLETING, EMPTY, PREPARING, STABLE, Cause, Kind
from broker_sim.explain.topic_events import done_by

__all__ = ["BY_HANDLE", "CONVERTED", "HANDLE", "Causes", "owned"]


CONVERTED = "the group was upgraded to the consumer protocol (KIP-848)"

BY_HANDLE = 0
"""The number of a request in the cause of a step where no client has sent it: a handle of a test, or the control API."""
HANDLE = "the test (a handle, or the control API)"

REFUSALS = {"ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID"}
"""Errors after which a client rejoins the group."""

TIMERS: dict[str, Kind] = {
    "session": "session_expired",
    "sync": "sync_timeout",
    "pending": "pending_expired",
    "rebalance": "rebalance_timer",
    "expire": "deleted",
}
"""The kind of cause of each timer of a group. The timer `append` has several: see `_by_timer`."""


class Causes:
    """Remembers what explains later events: each member's last request and its connection, closed connections, grown topics."""

    def __init__(self, past: History) -> None:
        self.past = past
        self.last_call: dict[str, Call] = {}
        self.calls: dict[str, list[Call]] = defaultdict(list)  # the requests of each member
        self.last_refusal: dict[str, Call] = {}  # the last answer of each member that made it join again
        self.closed_at: dict[int, int] = {}
        self.asked: dict[int, list[tuple[str, int]]] = {}
        self.doomed: dict[int, list[str]] = {}  # what a DeleteTopics names
        self.partitions: dict[str, int] = {}  # of each topic, as far as responses have it
        self.deleted: dict[str, int] = {}  # topic -> when
        self.grown: list[tuple[int, str, str]] = []  # when, which topic, from what to what
        self.grown_incidents: list[tuple[str, Incident]] = []  # until it is known which topics are the group's
        self.incidents: list[Incident] = []

    # what is remembered

    def note_call(self, call: Call) -> None:
        if call.member:
            self.last_call[call.member] = call
            self.calls[call.member].append(call)

    def answered(self, call: Call) -> None:
        if call.errors & REFUSALS and call.api in ("Heartbeat", "OffsetCommit", "TxnOffsetCommit", "SyncGroup"):
            self.last_refusal[call.member] = call

    def requests_since(self, member: str, since_ms: int) -> list[Call]:
        """A member's requests from a moment on, the last one first."""
        return list(takewhile(lambda call: call.ts_ms >= since_ms, reversed(self.calls.get(member, []))))

    def closed(self, connection: int | None, ts_ms: int) -> None:
        if connection is not None:
            self.closed_at[connection] = ts_ms

    def partitions_asked(self, event: Event) -> None:
        """A CreatePartitions; a topic of it counts once it was answered without an error for that topic."""
        self.asked[number(event, "request") or 0] = [
            (name, total)
            for topic in items(table(event, "body"), "topics")
            if isinstance(topic, Mapping) and (name := text(topic, "name")) and (total := number(topic, "count"))
        ]

    def partitions_created(self, event: Event, ts_ms: int, order: int) -> None:
        requested = self.asked.pop(number(event, "request") or 0, [])
        results = rows(table(event, "body"), {}) if text(event, "error") is not None else []
        if results or text(event, "error") is None:
            failed = {row.topic for row in results if row.error}
            for name, total in requested:
                if name not in failed:
                    self._has(name, total, ts_ms, order, asked=True)

    def partitions_added(self, event: Event, name: str, ts_ms: int, order: int) -> None:
        """A ``topic`` event: the topic has more partitions now."""
        self.partitions.setdefault(name, number(event, "partitions_before") or 0)
        self._has(name, number(event, "partitions") or 0, ts_ms, order, asked=True, by=done_by(event))

    def topics_asked(self, event: Event) -> None:
        """Note the topics that a DeleteTopics request names."""
        body = table(event, "body")
        names = [
            name for topic in items(body, "topics") if isinstance(topic, Mapping) and (name := text(topic, "name"))
        ]
        self.doomed[number(event, "request") or 0] = [
            *names,
            *names_in(body, "topic_names"),
            *names_in(event, "topics"),
        ]

    def topics_deleted(self, event: Event, ts_ms: int) -> None:
        """The response of a DeleteTopics: topics without an error are deleted."""
        requested = self.doomed.pop(number(event, "request") or 0, [])
        errors = {row.topic: row.error for row in rows(table(event, "body"), {})}
        for name in requested:
            if not errors.get(name, text(event, "error") or ""):
                self.deleted[name] = ts_ms

    def note_partition_counts(self, event: Event, ts_ms: int, order: int) -> None:
        """A Metadata response: the partitions of a topic, or more of them than before."""
        for topic in items(table(event, "body"), "topics"):
            if (
                isinstance(topic, Mapping)
                and (name := text(topic, "name"))
                and (total := len(items(topic, "partitions")))
            ):
                self._has(name, total, ts_ms, order, asked=False)

    def _has(self, name: str, total: int, ts_ms: int, order: int, *, asked: bool, by: str = "") -> None:
        before = self.partitions.get(name)
        self.partitions[name] = max(total, before or 0)
        if before is None and not asked:
            return
        if before is None or total > before:
            size = f"{total} partitions" if before is None else f"{before} to {total} partitions"
            self.grown.append((ts_ms, name, f"{name} ({size})"))
            words = f"topic {name} has {total} partitions now" + ("" if before is None else f", it had {before}")
            words += f", by {by}" if by else ""
            self.grown_incidents.append((name, Incident("grown", ts_ms, words, order)))

    # why

    def of(
        self,
        cause: Event,
        before: GroupSnapshot | None,
        after: GroupSnapshot | None,
        calls: Mapping[int, Call],
        ts_ms: int,
    ) -> Cause:
        """The cause of a ``group`` event, from its ``cause`` and the snapshots around it."""
        result = self._of(cause, before, after, calls, ts_ms)
        if result.kind in ("unknown", "session_expired") and (before is None) != (after is None) and by_epochs(cause):
            result.kind, result.members = "converted", []
        result.protocol_type = next(
            (snapshot.protocol_type for snapshot in (after, before) if snapshot and snapshot.protocol_type), ""
        )
        return result

    def _of(
        self,
        cause: Event,
        before: GroupSnapshot | None,
        after: GroupSnapshot | None,
        calls: Mapping[int, Call],
        ts_ms: int,
    ) -> Cause:
        kind = cause.get("kind")
        if kind == "request":
            call = calls.get(number(cause, "request") or 0) or self._recent(number(cause, "request"))
            return self._by_request(cause, before, after, call, ts_ms)
        if kind == "timer":
            return self._by_timer(cause, before, after, ts_ms)
        if kind in ("append", "committed"):
            error = text(cause, "error")
            failed = (error not in (None, "NONE")) or (
                before is not None and after is not None and before.state == COMPLETING and after.state == PREPARING
            )
            return Cause("append_failed" if failed else "appended", ts_ms, error=None if error == "NONE" else error)
        if kind == "topics":
            return Cause("deleted", ts_ms)
        if kind == "load":
            rebalances = after is not None and after.state == PREPARING
            return Cause("over_capacity" if rebalances else "loaded", ts_ms)
        if kind == "unload":
            return Cause("unloaded", ts_ms)
        return Cause("unknown", ts_ms)

    def _recent(self, request: int | None) -> Call | None:
        """A request that was answered before the step was written."""
        for call in reversed(self.past.calls[-50:]):
            if call.request == request:
                return call
        return None

    def _by_request(
        self, cause: Event, before: GroupSnapshot | None, after: GroupSnapshot | None, call: Call | None, ts_ms: int
    ) -> Cause:
        api = text(cause, "api") or (call.api if call is not None else "")
        old: Mapping[str, Mapping[str, Any]] = {} if before is None else before.members
        new: Mapping[str, Mapping[str, Any]] = {} if after is None else after.members
        added, removed = [name for name in new if name not in old], [name for name in old if name not in new]
        result = Cause("unknown", ts_ms, call=call, reason=None if call is None else call.reason)
        if api == "LeaveGroup":
            result.kind, result.members = "left", removed
            result.by = _by_whom(cause, call, {text(old[name], "client_id") for name in removed})
        elif api == "JoinGroup":
            self._by_join(result, text(cause, "member"), before, after, added, removed)
        elif api == "DeleteGroups":
            result.kind, result.by = "deleted", _by_whom(cause, call, set())
        return result

    def _by_join(
        self,
        result: Cause,
        member: str | None,
        before: GroupSnapshot | None,
        after: GroupSnapshot | None,
        added: list[str],
        removed: list[str],
    ) -> None:
        old: Mapping[str, Mapping[str, Any]] = {} if before is None else before.members
        new: Mapping[str, Mapping[str, Any]] = {} if after is None else after.members
        old_instances = {text(old[name], "instance"): name for name in removed}
        if added and removed and text(new[added[0]], "instance") in old_instances:
            result.kind, result.members = "replaced", added
        elif added:
            result.kind = "first_member" if before is None or (before.state == EMPTY and not old) else "joined"
            result.members = added
        elif removed:
            result.kind, result.members = "max_size_reached", removed
        else:
            name = member or ("" if result.call is None else result.call.member)
            result.members = [name] if name else []
            if name not in new:
                result.kind = "unknown"  # MEMBER_ID_REQUIRED: the client has got a member id, and has not joined yet
                return
            self._by_rejoin(result, name, before, old.get(name, {}), new[name])

    def _by_rejoin(
        self, result: Cause, name: str, before: GroupSnapshot | None, old: Mapping[str, Any], new: Mapping[str, Any]
    ) -> None:
        had, has = names_in(old, "topics"), names_in(new, "topics")
        if isinstance(old.get("topics"), list) and isinstance(new.get("topics"), list):
            result.added_topics = [topic for topic in has if topic not in had]
            result.lost_topics = [topic for topic in had if topic not in has]
        if before is not None and before.state in (STABLE, COMPLETING):
            since = self.past.rebalances[-1].began_ms if self.past.rebalances else 0
            result.grown_topics = list(
                dict.fromkeys(words for ts, topic, words in self.grown if ts >= since and topic in has)
            )
        result.metadata = (
            worker_changes(table(old, "worker"), table(new, "worker"))
            or self._delay_passed(result.ts_ms)
            or self._owned_changes(name, result.call)
        )
        changed = bool(result.added_topics or result.lost_topics)
        refusal = self.last_refusal.get(name)
        if (
            refusal is not None
            and self.past.rebalances
            and (refusal.answered_ms or 0) >= self.past.rebalances[-1].began_ms
        ):
            result.after = refusal
        leads = before is not None and before.leader == name
        if before is not None and before.state == PREPARING:
            result.kind = "rejoined"
        else:
            result.kind = "leader_rejoined" if leads and not changed else "metadata_changed"

    def _delay_passed(self, ts_ms: int) -> str:
        """Whether a worker of Connect joins again as the delay of the last assignment has passed."""
        last = self.past.rebalances[-1] if self.past.rebalances else None
        if last is None or not last.delay_ms or last.ended_ms is None or ts_ms - last.ended_ms < last.delay_ms:
            return ""
        return f"when its delay of {duration_text(last.delay_ms)} had passed"

    def _owned_changes(self, member: str, call: Call | None) -> str:
        """The partitions that a member has revoked since its last JoinGroup, or else got: steps of a cooperative assignor."""
        if call is None:
            return ""
        before = (
            join for join in reversed(self.calls[member]) if join.api == "JoinGroup" and join.request < call.request
        )
        last = next((join for join in before if not join.failed), None)
        if last is None:
            return ""
        had, has = owned(last.body), owned(call.body)
        for some, became in ((had - has, "revoked"), (has - had, "added")):
            if some:
                return f"with {shortened(f'{topic}-{partition}' for topic, partition in sorted(some))} {became}"
        return ""

    def _by_timer(self, cause: Event, before: GroupSnapshot | None, after: GroupSnapshot | None, ts_ms: int) -> Cause:
        timer = text(cause, "timer")
        old: Mapping[str, Mapping[str, Any]] = {} if before is None else before.members
        new: Mapping[str, Mapping[str, Any]] = {} if after is None else after.members
        removed = [name for name in old if name not in new]
        if timer == "append":
            if before is not None and after is not None and before.state == COMPLETING and after.state == PREPARING:
                return Cause("append_failed", ts_ms, error="REQUEST_TIMED_OUT")
            return Cause("appended", ts_ms)
        result = Cause(TIMERS.get(timer or "", "unknown"), ts_ms, members=removed)
        if timer == "pending" and (member := text(cause, "member")):
            result.members = [member]
        if timer == "session":
            result.members = removed or [member for member in [text(cause, "member")] if member]
            for member in result.members[:1]:
                result.last_call = self.last_call.get(member)
                result.closed_ms = self.closed_ms(member)
        return result

    def closed_ms(self, member: str) -> int | None:
        """Time at which the connection of a member's last request so far was closed; None if it is open, or unknown."""
        call = self.last_call.get(member)
        return None if call is None or call.connection is None else self.closed_at.get(call.connection)

    def group_removed(self, cause: Cause, before: GroupSnapshot | None, order: int) -> None:
        """The group was deleted, or unloaded from this coordinator."""
        if cause.kind != "unloaded":
            by = f" by {cause.by}" if cause.by else ""
            words = f"the group was deleted{by}" if cause.kind == "deleted" else "the group became Dead"
            if cause.kind == "converted":
                words = CONVERTED
            self.incidents.append(Incident("deleted", cause.ts_ms, words, order))
            return
        waited = 0 if before is None else len(before.waiting("JoinGroup")) + len(before.waiting("SyncGroup"))
        answered = f"; its {waited} deferred requests were answered NOT_COORDINATOR" if waited > 1 else ""
        answered = "; its deferred request was answered NOT_COORDINATOR" if waited == 1 else answered
        self.incidents.append(Incident("moved", cause.ts_ms, f"the group's coordinator was unloaded{answered}", order))


def _by_whom(cause: Event, call: Call | None, clients: Set[str | None]) -> str:
    """Sender of the request of a step other than these clients; "" if one of them sent it, or if the journal lacks the request."""
    if number(cause, "request") == BY_HANDLE:
        return HANDLE
    if call is None or not call.client_id or call.client_id in clients:
        return ""
    return f"{caller(call.client_id, call.client_host)} ({call.api})"


def by_epochs(cause: Event) -> bool:
    """Whether it is a request or a timer of a consumer group: a classic group that it creates or removes was converted."""
    return text(cause, "api") == "ConsumerGroupHeartbeat" or text(cause, "timer") in (
        "revocation",
        "join",
        "unsynced",
        "session",
    )


def owned(join: Event) -> set[tuple[str, int]]:
    """The partitions that a JoinGroup says its member owns, by the protocol that it prefers."""
    for protocol in items(join, "protocols"):
        topics = table(table(protocol, "metadata"), "owned_partitions") if isinstance(protocol, Mapping) else {}
        return {
            (visible(str(topic)), partition)
            for topic, some in topics.items()
            if isinstance(some, list)
            for partition in some
        }
    return set()


def delay_of(member: Mapping[str, Any]) -> int:
    """Delay in ms of the next assignment by the leader of Connect's workers; 0 for other members."""
    return number(table(member, "worker"), "delay_ms") or 0


def worker_changes(old: Event, new: Event) -> str:
    """Changes of a Connect worker's metadata, as a phrase: ``with config offset 7 (it was 5)``; "" without one."""
    changes = []
    for key, called in (("config_offset", "config offset"), ("url", "url")):
        if key in old and key in new and old[key] != new[key]:
            changes.append(f"{called} {visible(str(new[key]))} (it was {visible(str(old[key]))})")
    return f"with {' and '.join(changes)}" if changes else ""
