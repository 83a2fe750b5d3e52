"""A group's ``History`` out of a journal's events: one pass, one method for each kind of event; unknown kinds are passed over.

Rules:
1. The coordinator's actions are its ``group`` events: members, waiting requests, states and generations are read from there.
   Requests and responses say why, how long and with what words; they may come before or after the ``group`` event that they caused.
2. What a rebalance is says ``rebalances``. Put to it here: who came and went, what the members' requests were answered, what the log
   said, what else was on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

from broker_sim.common.text import visible
from broker_sim.explain.causes import Causes, delay_of
from broker_sim.explain.cluster_events import ClusterEvents
from broker_sim.explain.deliveries import ShareGroupReader as Deliveries
from broker_sim.explain.epoch_steps import EpochSteps, from_epochs, note_holdings
from broker_sim.explain.events import Call, Event, GroupSnapshot, items, names_in, number, table, text
from broker_sim.explain.first_lookup import FirstLookup
from broker_sim.explain.model import Arrival, Disconnected, History, MemberInfo, Rebalance, Removal, Replacement, Span
from broker_sim.explain.offsets import Offsets
from broker_sim.explain.rebalance_series import rebalance_series
from broker_sim.explain.rebalances import COMPLETING, DEAD, PREPARING, STABLE, Cause, GroupStep, Rebalances, begins
from broker_sim.explain.refusals import Refusals
from broker_sim.explain.short_ids import short_names
from broker_sim.explain.topic_events import TopicEvents
from broker_sim.explain.transactions import TransactionReader, concern, outside

__all__ = ["history"]

COMMITS = ("OffsetCommit", "TxnOffsetCommit")
ASKS_TO_REJOIN = "REBALANCE_IN_PROGRESS"


def history(events: Iterable[Event], group: str) -> History:
    """Read everything that concerns ``group``. An event that is not an object is passed over."""
    reader = _HistoryReader(visible(group))
    for event in events:
        if isinstance(event, Mapping):
            reader.take(event)
    return reader.finish()


class _HistoryReader:
    def __init__(self, group: str) -> None:
        self.history = History(group)
        self.group = group
        self.calls: dict[int, Call] = {}
        self.causes = Causes(self.history)
        self.rebalances = Rebalances(Rebalance, self.causes.closed_ms)
        self.history.rebalances = self.rebalances.rebalances
        self.ts_ms = self.loaded_ms = 0
        self.order = 0  # how many events were read
        self.started = False
        self.early_hits: dict[int, list[str]] = {}
        self.around = ClusterEvents(self.history)
        self.transactions = TransactionReader(self.around)
        self.deliveries = Deliveries(group)
        self.offsets = Offsets(self.history)
        self.failed_commits: deque[Call] = deque(maxlen=100)
        self.first_lookup = FirstLookup()
        self.refusals = Refusals()
        self.topics = TopicEvents()
        self.by_epochs: GroupSnapshot | None = None  # its members, where it is an epoch-based group
        self.epoch_steps = EpochSteps()
        self.came_back: tuple[GroupSnapshot, Cause] | None = None  # to the classic protocol, just now
        self.handlers = {
            "request": self._request,
            "response": self._response,
            "connection": self._connection,
            "group": self._group,
            "epochs": self._epochs,
            "timer": self._timer,
            "append": self._append,
            "committed": self._committed,
            "offsets": self._offsets,
            "offsets_deleted": self._offsets_deleted,
            "fault": self._fault,
            "topic": self._topic,
        }

    def take(self, event: Event) -> None:
        ts_ms = number(event, "ts_ms")
        if ts_ms is not None:
            self.ts_ms = max(ts_ms, self.ts_ms)
        if not self.started and ts_ms is not None:
            self.started = True
            self.history.first_ms = self.rebalances.since_ms = self.ts_ms
            self.history.begins_in_the_middle = (number(event, "seq") or 1) > 1
        self.order += 1
        self.around.take(event, self.ts_ms, self.order)
        self.transactions.take(event, self.ts_ms, self.order)
        self.deliveries.take(event)
        self.topics.take(event, self.ts_ms, self.order)
        self.offsets.take(event, self.calls.get(number(event, "request") or 0), self.ts_ms, self.order)
        handler = self.handlers.get(str(event.get("event")))
        if handler is not None:
            handler(event)
        self.first_lookup.take(event, self.history)

    # --- requests -------------------------------------------------------------------------------------------------------

    def _request(self, event: Event) -> None:
        if text(event, "group") != self.group:
            if event.get("api") == "CreatePartitions":
                self.causes.partitions_asked(event)
            elif event.get("api") == "DeleteTopics":
                self.causes.topics_asked(event)
            return
        call = Call.of(event, self.ts_ms)
        call.faults += self.early_hits.pop(call.request, [])
        self._name(call)
        self.calls[call.request] = call
        self.history.calls.append(call)
        rebalance = self.rebalances.open
        if call.api == "SyncGroup" and rebalance is not None and rebalance.closed_ms is not None and call.member:
            rebalance.syncs[call.member] = call
            if call.member == rebalance.leader and call.generation in (None, rebalance.generation):
                rebalance.leader_sync = call
        if rebalance is not None and call.faults:
            rebalance.faults.append(call)
        self.causes.note_call(call)
        self.refusals.asked(call)

    def _name(self, call: Call) -> None:
        """A static member's request without its id is the member's that has the instance; an event names the instance in its place."""
        snapshot = self.history.now or self.by_epochs
        if call.member in ("", call.instance) and call.instance and call.api != "JoinGroup" and snapshot is not None:
            for name, member_row in snapshot.members.items():
                if member_row.get("instance") == call.instance:
                    call.member = name

    def _response(self, event: Event) -> None:
        call = self.calls.pop(number(event, "request") or 0, None)
        if call is None:
            if event.get("api") == "Metadata":
                self.causes.note_partition_counts(event, self.ts_ms, self.order)
            elif event.get("api") == "CreatePartitions":
                self.causes.partitions_created(event, self.ts_ms, self.order)
            elif event.get("api") == "DeleteTopics":
                self.causes.topics_deleted(event, self.ts_ms)
            return
        call.answered(event, self.ts_ms)
        self.causes.answered(call)
        self.refusals.answered(call, event, None if self.history.now is None else self.history.now.size)
        if call.failed and call.api in COMMITS:
            self.failed_commits.append(call)
        if not call.member:
            call.member = text(table(event, "body"), "member_id") or ""
        rebalance = self.rebalances.open
        cut = call.api == "JoinGroup" and call.error not in (None, "MEMBER_ID_REQUIRED")
        if cut and rebalance is not None and rebalance.closed_ms is None and call.ts_ms >= rebalance.began_ms:
            rebalance.cut_joins.append(call)
        if ASKS_TO_REJOIN in call.errors and rebalance is not None and call.member and rebalance.closed_ms is None:
            rebalance.prompted.setdefault(call.member, (self.ts_ms, call.api))

    def _connection(self, event: Event) -> None:
        host, peer = text(event, "host"), text(event, "peer")
        if host and peer:
            self.history.hosts[peer] = host
        if event.get("action") == "closed":
            self.causes.closed(number(event, "connection"), self.ts_ms)

    def _epochs(self, event: Event) -> None:
        if text(event, "group") == self.group:
            self.history.log = text(event, "log") or self.history.log
            self.history.epochs.append((self.ts_ms, text(event, "state") or "", number(event, "group_epoch") or 0))
            step = self.epoch_steps.take(event)
            self.refusals.stepped(step)
            note_holdings(self.history.holdings, step)
            self.came_back = from_epochs(step) if step.classic_members else None
            after = GroupSnapshot.of(event)
            if after is not None:
                after.completed(self.by_epochs, None)  # of a large group the removed members are not in the event
                self._note_members(self.by_epochs, after)
                self.by_epochs = after

    # --- the group ------------------------------------------------------------------------------------------------------

    def _group(self, event: Event) -> None:
        if text(event, "group") != self.group:
            return
        self.history.log = text(event, "log") or self.history.log
        self.history.existed = True
        shown, after = GroupSnapshot.of(event.get("before")), GroupSnapshot.of(event.get("after"))
        before = self._before(shown)
        if after is not None:
            after.completed(before, shown)
        if (
            before is None
            and after is not None
            and table(event, "cause").get("kind") == "load"
            and not self.around.just_loaded
        ):
            before = after  # the journal has begun just now, and says what is there
        cause = self.causes.of(table(event, "cause"), before, after, self.calls, self.ts_ms)
        if cause.kind in ("loaded", "unloaded"):
            self.loaded_ms = self.ts_ms
        came_back, self.came_back = self.came_back, None
        if came_back is not None and before is None and after is not None:
            before, cause = came_back
        self._note_members(before, after)
        self._note_replacements(before, after)
        if before is not None and not self.history.states and came_back is None:
            self.history.states.append((self.history.first_ms, before.state, before.generation))
        self._step(GroupStep(self.ts_ms, before, after, cause))
        state = (self.ts_ms, DEAD, 0) if after is None else (self.ts_ms, after.state, after.generation)
        if not self.history.states or self.history.states[-1][1:] != state[1:]:
            self.history.states.append(state)
        self.history.now = after

    def _before(self, shown: GroupSnapshot | None) -> GroupSnapshot | None:
        """Snapshot before a step: the last one, which has all members of a large group, if it fits the event's; else the event's."""
        last = self.history.now
        if last is None or shown is None:
            return shown
        same = last.state == shown.state and last.generation == shown.generation and last.size == shown.size
        return last if same or not shown.whole else shown

    def _note_members(self, before: GroupSnapshot | None, after: GroupSnapshot | None) -> None:
        seen = self.history.members
        for snapshot in (before, after):
            for name, member_row in () if snapshot is None else snapshot.members.items():
                self.topics.read([*names_in(member_row, "topics"), *table(member_row, "assignment")])
                info = seen.get(name)
                if info is None:
                    info = seen[name] = MemberInfo(
                        name, first_ms=self.ts_ms if snapshot is after else self.history.first_ms
                    )
                    info.client_id, info.client_host = (
                        text(member_row, "client_id") or "",
                        text(member_row, "client_host") or "",
                    )
                    info.instance = text(member_row, "instance")
                    info.session_timeout_ms = number(member_row, "session_timeout_ms")
                    info.rebalance_timeout_ms = number(member_row, "rebalance_timeout_ms")
        now: Iterable[str] = () if after is None else after.members
        for name in () if before is None else before.members.keys() - set(now):
            seen[name].last_ms = self.ts_ms
        for name in now:
            seen[name].last_ms = None

    def _note_replacements(self, before: GroupSnapshot | None, after: GroupSnapshot | None) -> None:
        if before is None or after is None:
            return
        for old, new, instance in replaced(before, after):
            rebalanced = begins(before, after)
            had, has = names_in(before.members[old], "topics"), names_in(after.members[new], "topics")
            others = {topic for name, row in after.members.items() if name != new for topic in names_in(row, "topics")}
            added = [topic for topic in has if topic not in had]
            lost, unread = (
                [topic for topic in had if topic not in has],
                [topic for topic in added if topic not in others],
            )
            replacement = Replacement(self.ts_ms, instance, old, new, rebalanced, self.order, added, lost, unread)
            self.history.replacements.append(replacement)

    def _step(self, step: GroupStep) -> None:
        """``rebalances`` finds the rebalance; the members that joined and left are added here."""
        for turn, rebalance in self.rebalances.take(step):
            if turn == "found":
                self._add_rebalance(rebalance, step)
            elif turn == "began":
                self._began(rebalance, step)
            elif turn == "within":
                self._within(rebalance, step)
            elif turn == "closed":
                self._closed(rebalance, step)
            elif turn == "ended" and step.after is not None:
                rebalance.delay_ms = max(map(delay_of, step.after.members.values()), default=0)
        if step.after is None or step.after.state == DEAD:
            self.causes.group_removed(step.cause, step.before, self.order)

    def _add_rebalance(self, rebalance: Rebalance, step: GroupStep) -> None:
        rebalance.order = self.order
        before = step.before
        assert before is not None
        for name in before.waiting("JoinGroup"):
            rebalance.arrivals[name] = Arrival(name, self.history.first_ms)
        if before.state == COMPLETING:
            rebalance.members, rebalance.leader, rebalance.protocol = (
                list(before.members),
                before.leader,
                before.protocol,
            )
        else:
            rebalance.expected = list(before.members)

    def _began(self, rebalance: Rebalance, step: GroupStep) -> None:
        rebalance.order = self.order
        before, after = step.before, step.after
        assert after is not None
        rebalance.expected = [name for name in ([] if before is None else before.members) if name in after.members]
        self._arrive(rebalance, before, after, step.cause)
        self._remove(rebalance, before, after, step.cause)

    def _within(self, rebalance: Rebalance, step: GroupStep) -> None:
        assert step.after is not None
        self._arrive(rebalance, step.before, step.after, step.cause)
        self._remove(rebalance, step.before, step.after, step.cause)

    def _arrive(self, rebalance: Rebalance, before: GroupSnapshot | None, after: GroupSnapshot, cause: Cause) -> None:
        """JoinGroups that this step deferred, or with which it ended the join phase."""
        old: Mapping[str, Mapping[str, Any]] = {} if before is None else before.members
        came = [
            name
            for name, member_row in after.members.items()
            if member_row.get("deferred") == "JoinGroup"
            and (name not in old or old[name].get("deferred") != "JoinGroup")
        ]
        if cause.call is not None and cause.call.api == "JoinGroup":
            came += [name for name in after.members if name not in old]
            came += [cause.call.member] if cause.call.member in after.members else []
        for name in dict.fromkeys(came):
            call = cause.call if cause.call is not None and cause.call.member in ("", name) else None
            rebalance.arrivals[name] = Arrival(name, self.ts_ms, call)
            info = self.history.members.get(name)
            if call is not None and not call.member:
                call.member = name
            if info is not None and call is not None:
                info.client_id, info.client_host = (
                    call.client_id or info.client_id,
                    call.client_host or info.client_host,
                )
        others_in = all(member_row.get("deferred") == "JoinGroup" for member_row in after.members.values())
        for name in after.pending if others_in and not rebalance.from_empty else ():
            rebalance.pending_from_ms.setdefault(name, self.ts_ms)

    def _remove(self, rebalance: Rebalance, before: GroupSnapshot | None, after: GroupSnapshot, cause: Cause) -> None:
        if before is None:
            return
        moved = {old for old, _, _ in replaced(before, after)}
        why = {
            "session_expired": "session",
            "left": "left",
            "sync_timeout": "sync_timeout",
            "rebalance_timer": "rebalance_timeout",
            "max_size_reached": "max_size_reached",
        }.get(cause.kind, "unknown")
        for name in before.members:
            if name not in after.members and name not in moved:
                rebalance.arrivals.pop(name, None)
                removal = Removal(name, self.ts_ms, why)
                removal.calls = self.causes.requests_since(name, rebalance.began_ms)
                removal.deleted = dict(self.causes.deleted)
                rebalance.removals.append(removal)
        for name, since in rebalance.pending_from_ms.items():
            if name not in after.pending or after.state != PREPARING:
                rebalance.pending_waits_ms.setdefault(name, self.ts_ms - since)

    def _closed(self, rebalance: Rebalance, step: GroupStep) -> None:
        """The join phase ends: with the next generation, or an empty group."""
        after, cause = step.after, step.cause
        assert after is not None
        rebalance.closed_by = (
            "timer" if cause.kind == "rebalance_timer" else "joined" if cause.call is not None else "departed"
        )
        rebalance.members, rebalance.protocol = list(after.members), after.protocol
        rebalance.silent_static = [
            name
            for name, member_row in after.members.items()
            if text(member_row, "instance") and name not in rebalance.arrivals and rebalance.whole
        ]
        for name, arrival in rebalance.arrivals.items():
            if name in rebalance.prompted and rebalance.prompted[name][0] <= arrival.ts_ms:
                arrival.prompted_ms, arrival.prompted_by = rebalance.prompted[name]

    # --- timers and the log ---------------------------------------------------------------------------------------------

    def _timer(self, event: Event) -> None:
        rebalance = self.rebalances.open
        if rebalance is None or rebalance.closed_ms is not None or text(event, "group") != self.group:
            return
        if event.get("timer") == "rebalance":
            rebalance.timer_fired += 1

    def _append(self, event: Event) -> None:
        if self.group not in names_in(event, "groups"):
            return
        self.history.log = text(event, "log") or self.history.log
        rebalance = self.rebalances.open or (self.history.rebalances[-1] if self.history.rebalances else None)
        if rebalance is None or rebalance.leader_sync is None or rebalance.appended_ms is not None:
            return
        if "group" not in items(event, "kinds"):
            return
        rebalance.appended_ms, rebalance.append_error = self.ts_ms, text(event, "error")
        high_watermark, last = number(event, "high_watermark"), number(event, "last_offset")
        rebalance.append_committed = high_watermark is None or last is None or high_watermark > last

    def _committed(self, event: Event) -> None:
        if (
            self.group in names_in(event, "groups")
            and self.rebalances.open is not None
            and self.rebalances.open.appended_ms is not None
        ):
            self.rebalances.open.append_committed = True

    def _offsets(self, event: Event) -> None:
        if text(event, "group") != self.group:
            return
        self.history.log = text(event, "log") or self.history.log
        request, offsets = number(event, "request"), table(event, "offsets")
        call = self.calls.get(request or 0)
        if call is None:  # a commit that was answered before: too late, then
            call = next((c for c in self.failed_commits if c.request == request or c.offsets == offsets), None)
        if call is not None:
            call.stored_ms = self.ts_ms
            call.stored.update(map(str, offsets))
            if call in self.failed_commits:
                self.failed_commits.remove(call)

    def _offsets_deleted(self, event: Event) -> None:
        if text(event, "group") == self.group and event.get("reason") == "topic deleted":
            for log in names_in(event, "partitions"):
                self.causes.deleted.setdefault(log.rpartition("-")[0], self.ts_ms)

    def _topic(self, event: Event) -> None:
        """A topic was created, grown or deleted."""
        name = text(event, "topic") or ""
        if event.get("action") == "deleted":
            self.causes.deleted.setdefault(name, self.ts_ms)
        elif event.get("action") == "partitions added":
            self.causes.partitions_added(event, name, self.ts_ms, self.order)

    # --- what was on ----------------------------------------------------------------------------------------------------

    def _fault(self, event: Event) -> None:
        request, name = number(event, "request"), str(event.get("fault"))
        verdict = text(event, "verdict") or text(event, "rule") or "fault"
        call = self.calls.get(request or 0)
        if call is not None:
            call.faults.append(verdict)
            self.around.hit(name)
            if self.rebalances.open is not None:
                self.rebalances.open.faults.append(call)
        elif request is not None:
            self.early_hits[request] = [*self.early_hits.get(request, []), verdict]

    def _disconnected(self) -> list[Disconnected]:
        """Members of a Stable group whose connection was closed since the group was loaded; each that is alive comes back."""
        now, result = self.history.now, []
        for name, member_row in now.members.items() if now is not None and now.state == STABLE else ():
            closed_ms, call = self.causes.closed_ms(name), self.causes.last_call.get(name)
            if call is None or closed_ms is None or closed_ms < self.loaded_ms or self.ts_ms - closed_ms < 1000:
                continue
            session_ms = number(member_row, "session_timeout_ms")
            ends_ms = None if session_ms is None else call.ts_ms + session_ms
            result.append(Disconnected(name, closed_ms, ends_ms, _assigned(member_row)))
        return result

    # --- the end --------------------------------------------------------------------------------------------------------

    def finish(self) -> History:
        past = self.history
        past.last_ms = self.ts_ms
        past.incidents += [*self.causes.incidents, *self.topics.incidents()]
        past.incidents += [grown for topic, grown in self.causes.grown_incidents if self.topics.concerns(topic)]
        past.nothing_to_read = self.topics.nothing_to_read()
        for call in past.calls:  # members that never got into the group have a lane and a name as well
            if call.member and call.member not in past.members:
                info = MemberInfo(call.member, call.client_id, call.client_host, call.instance, first_ms=call.ts_ms)
                info.admitted = False
                info.last_ms = call.answered_ms or call.ts_ms
                past.members[call.member] = info
        past.disconnected = self._disconnected()
        past.names = short_names(past.members.values(), past.hosts)
        self.refusals.finish()
        self.offsets.finish()
        self.around.finish()
        clients = [info.client_id for info in past.members.values()]
        past.deliveries = self.deliveries if self.deliveries.partitions else None
        self.transactions.finish(past.last_ms)
        past.transactions, past.blocked = concern(self.transactions, self.group, clients, past.last_ms)
        past.transaction_requests = outside(self.transactions, self.group, past.transactions)
        for rebalance in past.rebalances:
            rebalance.conditions = [span for span in past.spans if span.kind != "fault" and _overlap(span, rebalance)]
        for rebalance, following in pairwise(past.rebalances):
            rebalance.following = following
        past.series = rebalance_series(past.rebalances)
        return past


def _assigned(member_row: Event) -> list[str]:
    """The partitions of a member of a classic group, in order."""
    places = [
        (str(topic), index) for topic, some in table(member_row, "assignment").items() for index in _numbers(some)
    ]
    return [f"{topic}-{index}" for topic, index in sorted(places)]


def _numbers(value: object) -> list[int]:
    return [one for one in value if isinstance(one, int)] if isinstance(value, list) else []


def replaced(before: GroupSnapshot, after: GroupSnapshot) -> list[tuple[str, str, str]]:
    """Static members with a new member id: (old id, new id, instance)."""
    removed = {
        text(member_row, "instance"): name for name, member_row in before.members.items() if name not in after.members
    }
    removed.pop(None, None)
    if not removed:
        return []
    return [
        (removed[instance], name, instance)
        for name, member_row in after.members.items()
        if name not in before.members and (instance := text(member_row, "instance")) in removed and instance is not None
    ]


def _overlap(span: Span, rebalance: Rebalance) -> bool:
    return (span.to_ms is None or span.to_ms >= rebalance.began_ms) and (
        rebalance.ended_ms is None or span.from_ms <= rebalance.ended_ms
    )
