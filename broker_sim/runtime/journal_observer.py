"""Writes the events of groups into the journal: the coordinator's steps, seen from outside.

    observer = GroupObserver(journal)
    outcome = observer.step(shard, "__consumer_offsets-12", event, now_ms)     # in place of shard.step(event, now_ms)

Rules:
1. It looks at a shard before and after a step and never changes it.
2. A ``group`` event is written if a step changed the group's snapshot. Heartbeats and commits only restart sessions: they are not
   compared.
3. The cost of a snapshot grows with the group, and so does its event: of a group larger than WHOLE the event has only the changed
   members (``size`` is the number of all).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from broker_sim.coordinator.classic.group import ANSWERED_STILL_COUNTED, ClassicGroup, Member
from broker_sim.coordinator.epochs.group import EpochGroup
from broker_sim.coordinator.offsets import EndTransactionWrite, TransactionalCommitWrite
from broker_sim.coordinator.outcome import (
    Appended,
    CommitBatch,
    CommitOffsets,
    Committed,
    Event,
    Heartbeat,
    Offset,
    Outcome,
    Request,
    StableFetch,
    TimerFired,
    TopicsChanged,
    TransactionEnded,
)
from broker_sim.coordinator.records import GroupRecord, OffsetRecord, Record
from broker_sim.coordinator.shard import Shard
from broker_sim.coordinator.state import Write
from broker_sim.journal import Journal
from broker_sim.runtime.epoch_snapshot import GONE, changes, epochs
from kafka_wire.connect_protocol import PROTOCOL_TYPE as CONNECT
from kafka_wire.connect_protocol import runs_on, work_of, worker_state
from kafka_wire.consumer_protocol import assigned_partitions, subscribed_topics
from kafka_wire.errors import Err
from kafka_wire.messages.k11_join_group import JoinGroupRequest
from kafka_wire.messages.k14_sync_group import SyncGroupRequest
from kafka_wire.messages.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_wire.remembered import remembered

if TYPE_CHECKING:
    from broker_sim.runtime.asking import Asking

WHOLE = 64
"""Members that a snapshot shows all of."""

_QUIET = (Heartbeat, CommitOffsets, CommitBatch, StableFetch)
_APIS = {
    JoinGroupRequest: "JoinGroup",
    SyncGroupRequest: "SyncGroup",
    ConsumerGroupHeartbeatRequest: "ConsumerGroupHeartbeat",
}

Snapshot = dict[str, Any]


class GroupObserver:
    """The journal's eye on all shards of a cluster."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.requests: dict[int, tuple[int, str]] = {}
        """Token of a request that is not answered -> its number in the journal and its API."""
        self._known: dict[tuple[int, str], Snapshot] = {}  # what was last seen of a group, by shard and group id
        self._epochs: dict[tuple[int, str], Snapshot] = {}  # the same, of consumer groups
        self._epoch_causes: dict[tuple[int, str], dict[str, Any]] = {}  # who has written to them last
        self._deletions: dict[tuple[int, int], dict[str, Any]] = {}  # why offsets are deleted, by shard and ticket

    def step(self, shard: Shard, log: str, event: Event, now_ms: int) -> Outcome:
        """``shard.step(event, now_ms)``, with its traces."""
        if type(event) is TimerFired:
            self._timer(log, event, now_ms)
        if type(event) is Request and isinstance(event.body, _QUIET):
            return shard.step(event, now_ms)
        before = list(shard.groups)
        writes = dict(shard.writes)
        pending = _pending_offsets(shard) if shard.store.transactions else None
        outcome = shard.step(event, now_ms)
        for ticket, write in shard.writes.items():
            if ticket not in writes and _deletes(write):
                self._deletions[shard.partition, ticket] = self._why(event)
        ended = {t: w for t, w in writes.items() if t not in shard.writes}
        why = {ticket: self._deletions.pop((shard.partition, ticket), None) for ticket in ended}
        published = list(ended.values()) if _publishes(event) else []
        touched = _touched(event, writes, published)
        if touched is None or len(before) != len(shard.groups):
            touched = dict.fromkeys([*(touched or ()), *before, *shard.groups])
        for write in published:
            self._offsets(log, write)
        for ticket, write in ended.items() if published else ():
            if (reason := why[ticket]) is not None:
                self._deleted(log, write, reason)
        if pending:
            self._transactions(shard, log, pending, {**_ends(writes.values()), **_ends_at_once(event)})
        if touched:
            self.look(shard, log, touched, self._cause(event))
        return outcome

    def look(self, shard: Shard, log: str, groups: Iterable[str], cause: dict[str, Any]) -> None:
        """Write the groups whose snapshot has changed since the last one."""
        for group_id in groups:
            key = (shard.partition, group_id)
            self._look_at_epochs(shard, log, group_id, cause)
            group = shard.classic(group_id)
            before = self._known.get(key)
            after = None if group is None else snapshot(group)
            if before == after:
                continue
            if after is None:
                del self._known[key]
            else:
                self._known[key] = after
            self.journal.write(
                "group", log=log, group=group_id, cause=cause, before=_shown(before, after), after=_shown(after, before)
            )

    def _look_at_epochs(self, shard: Shard, log: str, group_id: str, cause: dict[str, Any]) -> None:
        key = (shard.partition, group_id)
        group = shard.groups.get(group_id)
        before = self._epochs.get(key)
        if isinstance(group, EpochGroup):
            after = epochs(group, shard.topics)
            self._epochs[key] = after
        elif before is None:
            return
        else:
            after = GONE
            del self._epochs[key]
            self._epoch_causes.pop(key, None)
        if cause["kind"] in ("request", "timer"):
            self._epoch_causes[key] = cause  # what it writes is seen when the log has it
        elif cause["kind"] in ("append", "committed"):
            cause = self._epoch_causes.get(key, cause)
        if after != before:
            self.journal.write("epochs", log=log, group=group_id, cause=cause, **changes(before, after, WHOLE))

    def asked(self, token: int, ctx: Asking) -> None:
        """A request is about to be stepped."""
        self.requests[token] = ctx.request_id, ctx.name

    def answered(self, token: int) -> None:
        """A request has its answer."""
        self.requests.pop(token, None)

    def loading(self, log: str) -> None:
        """A log is being read."""
        self.journal.write("load", log=log, action="started")

    def appended(self, log: str, shard: Shard, tickets: list[int], last_offset: int, error: Err, end: int) -> None:
        """An append was done, or failed; ``end`` is the high watermark. Called before the shard gets the result."""
        writes = [shard.writes[ticket] for ticket in tickets]
        records = [record for write in writes for record in write.records]
        tokens = [token for write in writes for token in tokens_of(write)]
        fields: dict[str, Any] = {} if error is Err.NONE else {"error": error.name}
        self.journal.write(
            "append",
            log=log,
            requests=[self.requests[token][0] for token in tokens if token in self.requests],
            kinds=list(dict.fromkeys(map(_kind, records))),
            groups=list(dict.fromkeys(record.group_id for record in records)),
            records=len(records),
            base_offset=last_offset - len(records) + 1 if error is Err.NONE else -1,
            last_offset=last_offset,
            high_watermark=end,
            **fields,
        )

    def committed(self, log: str, shard: Shard, high_watermark: int) -> None:
        """The high watermark has advanced. Called before the shard gets it."""
        groups = [r.group_id for w in shard.writes.values() if w.last_offset < high_watermark for r in w.records]
        self.journal.write("committed", log=log, high_watermark=high_watermark, groups=list(dict.fromkeys(groups)))

    def loaded(self, shard: Shard, log: str, records: int, skipped: int, *, failed: str) -> None:
        """The shard has read its log, or ``failed`` to."""
        groups = list(shard.groups)
        if failed:
            self.journal.write("load", log=log, action="failed", error=failed)
        else:
            self.journal.write("load", log=log, action="finished", groups=len(groups), records=records, skipped=skipped)
        self.look(shard, log, groups, {"kind": "load"})

    def unloading(self, shard: Shard) -> Callable[[str], None]:
        """The shard is about to be unloaded with its groups; the returned function is called afterwards, with its log's name."""
        groups = list(shard.groups)

        def unloaded(log: str) -> None:
            self.journal.write("load", log=log, action="unloaded", groups=len(groups))
            self.look(shard, log, groups, {"kind": "unload"})

        return unloaded

    def _timer(self, log: str, event: TimerFired, now_ms: int) -> None:
        kind, *rest = event.key
        fields: dict[str, Any] = {}
        if kind == "append":
            fields["ticket"] = rest[0]
        elif rest:
            fields["group"] = rest[0]
            if len(rest) > 1:
                fields["member"] = rest[1]
        self.journal.write("timer", log=log, timer=kind, due_ms=now_ms, **fields)

    def _offsets(self, log: str, write: Write) -> None:
        groups: dict[str, dict[str, int]] = {}
        for record in write.records:
            if isinstance(record, OffsetRecord) and record.value is not None:
                groups.setdefault(record.group_id, {})[f"{record.topic}-{record.partition}"] = record.value.offset
        tokens = [token for token in tokens_of(write) if token in self.requests]
        request = {"request": self.requests[tokens[0]][0]} if len(tokens) == 1 else {}
        for group_id, offsets in groups.items():
            if isinstance(write, TransactionalCommitWrite):
                producer_id = write.producer.producer_id
                fields = {"action": "pending", "producer_id": producer_id, **request}
                self.journal.write("pending_offsets", log=log, group=group_id, offsets=offsets, **fields)
            else:
                self.journal.write("offsets", log=log, group=group_id, offsets=offsets, **request)

    def _deleted(self, log: str, write: Write, why: dict[str, Any]) -> None:
        groups: dict[str, list[str]] = {}
        for record in write.records:
            if isinstance(record, OffsetRecord) and record.value is None:
                groups.setdefault(record.group_id, []).append(f"{record.topic}-{record.partition}")
        for group_id, partitions in groups.items():
            self.journal.write("offsets_deleted", log=log, group=group_id, partitions=partitions, **why)

    def _why(self, event: Event) -> dict[str, Any]:
        """Reason for which a step deletes offsets, as fields of the journal's event."""
        if type(event) is Request:
            number, _ = self.requests.get(event.token, (0, ""))
            return {"reason": "requested", "request": number} if number else {"reason": "requested"}
        if type(event) is TopicsChanged:
            return {"reason": "topic deleted"}
        return {"reason": "expired" if type(event) is TimerFired and event.key[0] == "expire" else "unknown"}

    def _transactions(self, shard: Shard, log: str, pending: _PendingOffsets, committed: dict[int, bool]) -> None:
        """Report transactions that have ended in a step, with their offsets that are committed now."""
        for producer_id, groups in pending.items():
            if producer_id in shard.store.transactions:
                continue
            for group_id, offsets in groups.items():
                group = shard.groups.get(group_id)
                committed_offsets = {} if group is None else group.offsets
                shown = {
                    f"{t}-{p}": offset.offset
                    for (t, p), offset in offsets.items()
                    if committed_offsets.get(t, {}).get(p) is offset
                }
                left = {f"{t}-{p}": offset.offset for (t, p), offset in offsets.items() if f"{t}-{p}" not in shown}
                if shown:
                    fields = {"producer_id": producer_id}
                    self.journal.write("offsets", log=log, group=group_id, offsets=shown, **fields)
                if left:
                    action = "superseded" if committed.get(producer_id, False) else "aborted"
                    self.journal.write(
                        "pending_offsets", log=log, group=group_id, offsets=left, action=action, producer_id=producer_id
                    )

    def _cause(self, event: Event) -> dict[str, Any]:
        if type(event) is Request:
            number, api = self.requests.get(event.token, (0, ""))
            cause = {
                "kind": "request",
                "request": number,
                "api": api or _APIS.get(type(event.body), type(event.body).__name__),
            }
            member = getattr(event.body, "member_id", None) or getattr(event.body, "group_instance_id", None)
            return {**cause, "member": member} if member else cause
        if type(event) is TimerFired:
            kind, *rest = event.key
            cause = {"kind": "timer", "timer": kind}
            if kind != "append" and rest:
                cause["group"] = rest[0]
                if len(rest) > 1:
                    cause["member"] = rest[1]
            return cause
        if type(event) is Appended:
            return {"kind": "append", "error": None if event.error is Err.NONE else event.error.name}
        if type(event) is Committed:
            return {"kind": "committed", "high_watermark": event.high_watermark}
        return {"kind": "marker" if type(event) is TransactionEnded else "topics"}


_PendingOffsets = dict[int, dict[str, dict[tuple[str, int], Offset]]]
"""Producer id -> group -> partition -> what its open transaction commits there."""


def _pending_offsets(shard: Shard) -> _PendingOffsets:
    result: _PendingOffsets = {}
    for producer_id, places in shard.store.transactions.items():
        for group_id, topic, partition in places:
            group = shard.groups.get(group_id)
            pending = None if group is None else group.pending_txn_offsets.get((topic, partition))
            if pending is not None and producer_id in pending.by_producer:
                _, offset = pending.by_producer[producer_id]
                result.setdefault(producer_id, {}).setdefault(group_id, {})[topic, partition] = offset
    return result


def _ends(writes: Iterable[Write]) -> dict[int, bool]:
    """Producer id -> whether it commits, of markers that wait for earlier writes."""
    return {write.producer_id: write.committed for write in writes if isinstance(write, EndTransactionWrite)}


def _ends_at_once(event: Event) -> dict[int, bool]:
    return {event.producer_id: event.committed} if type(event) is TransactionEnded else {}


def tokens_of(write: Write) -> list[int]:
    """The requests that wait for a write."""
    many = getattr(write, "tokens", None)
    if many is not None:
        return list(many)
    return [] if write.token is None else [write.token]


def snapshot(group: ClassicGroup) -> Snapshot:
    """A group as the journal shows it."""
    return {
        "state": group.state.value,
        "generation": group.generation,
        "protocol_type": group.protocol_type,
        "protocol": group.protocol,
        "leader": group.leader,
        "size": len(group.members),
        "members": [_member(group, member) for member in group.members.values()],
        "pending": list(group.pending_members),
    }


def _member(group: ClassicGroup, member: Member) -> dict[str, Any]:
    tokens = {"JoinGroup": member.join_token, "SyncGroup": member.sync_token}
    deferred = next((api for api, token in tokens.items() if token not in (None, ANSWERED_STILL_COUNTED)), None)
    consumer = member.protocol_type == "consumer"
    metadata = member.metadata(group.protocol) or (member.protocols[0][1] if member.protocols else b"")
    worker = {"worker": _worker(metadata, member.assignment)} if member.protocol_type == CONNECT else {}
    return {
        "member": member.member_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "instance": member.instance_id,
        "deferred": deferred,
        "session_timeout_ms": member.session_timeout_ms,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "topics": _topics(metadata) if consumer else None,
        "assignment": _partitions(member.assignment) if consumer else None,
        **worker,
    }


def _worker(metadata: bytes, assignment: bytes) -> dict[str, Any] | None:
    """A worker of Connect: its url and config offset, the connectors and tasks that run on it; None where that can't be read."""
    worker, given = _worker_state(metadata), _work(assignment) if assignment else None
    if worker is None:
        return None
    connectors, tasks = (worker.connectors, worker.tasks) if given is None else runs_on(worker, given)
    delay = {"delay_ms": given.delay_ms} if given is not None and given.delay_ms > 0 else {}
    return {"url": worker.url, "config_offset": worker.config_offset, "connectors": connectors, "tasks": tasks, **delay}


_of_members = remembered(entries=1024, longest=2048)
_topics, _partitions = _of_members(subscribed_topics), _of_members(assigned_partitions)
_worker_state, _work = _of_members(worker_state), _of_members(work_of)
"""The same bytes are looked at again at every step of a group's, and most members subscribe to the same."""


def _shown(snapshot: Snapshot | None, other: Snapshot | None) -> Snapshot | None:
    """The snapshot as it is written: of a large group only the members that are missing or different in ``other``."""
    if snapshot is None or snapshot["size"] <= WHOLE:
        return snapshot
    known = {member["member"]: member for member in other["members"]} if other else {}
    return {**snapshot, "members": [member for member in snapshot["members"] if known.get(member["member"]) != member]}


def _kind(record: Record) -> str:
    if record.value is None:
        return "tombstone"
    return "group" if isinstance(record, GroupRecord) else "offsets"


def _deletes(write: Write) -> bool:
    return any(isinstance(record, OffsetRecord) and record.value is None for record in write.records)


def _publishes(event: Event) -> bool:
    return type(event) in (Appended, Committed) and event.error is Err.NONE  # type: ignore[union-attr]


def _touched(event: Event, writes: dict[int, Write], published: list[Write]) -> dict[str, None] | None:
    """The groups that an event may have changed; None for all."""
    if type(event) is TopicsChanged:
        return None
    if type(event) is Request:
        group_id = getattr(event.body, "group_id", None)
        return None if group_id is None else {group_id: None}
    if type(event) is TimerFired:
        kind, *rest = event.key
        if kind == "append":
            write = writes.get(int(rest[0]))
            return {} if write is None else _groups(write)
        return {str(rest[0]): None} if rest else None
    if type(event) is Appended:
        touched: dict[str, None] = {}
        for ticket in (event.ticket, *event.more):
            touched.update(_groups(writes[ticket]))
        return touched
    return dict.fromkeys(group for write in published or writes.values() for group in _groups(write))


def _groups(write: Write) -> dict[str, None]:
    named: dict[str, None] = {record.group_id: None for record in write.records}
    own = getattr(write, "group_id", None)
    return {own: None, **named} if own else named
