"""Writes the events of transactions into the journal: the steps of their coordinators, and the partitions whose last stable offset they
hold back.

    observer = TransactionObserver(journal)
    outcome = observer.step(shard, "__transaction_state-12", event, now_ms)     # in place of shard.step(event, now_ms)
    stable = StableOffsetObserver(journal, state)                                     # from now on, of all partitions of data

Rules:
1. As in `journal_observer`: it looks at a shard before and after a step and never changes it.
2. A ``transaction`` event is written when the record is committed, with the state that clients see then. Its cause is the request or
   the timer that asked for it.
3. A partition is checked whenever it changes (the observer is one of its waiters). A last stable offset below the high watermark is
   reported once, with the transaction that holds it; its advance is reported when another transaction holds it, or none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from broker_sim.coordinator.outcome import (
    Appended,
    AppendedElsewhere,
    Committed,
    Event,
    Outcome,
    ProducerIdAllocated,
    Request,
    TimerFired,
)
from broker_sim.coordinator.transaction.commands import AddPartitions, EndTransaction, InitProducerId
from broker_sim.coordinator.transaction.shard import TransactionShard
from broker_sim.coordinator.transaction.state import TransactionWrite
from broker_sim.coordinator.transaction.transaction import DECIDED, Partition, State, Stored, Transaction
from broker_sim.journal import Journal
from kafka_wire.errors import Err

if TYPE_CHECKING:
    from broker_sim.metadata import topics
    from broker_sim.metadata.cluster_state import ClusterState
    from broker_sim.runtime.asking import Asking

Cause = dict[str, Any]

_APIS = {InitProducerId: "InitProducerId", AddPartitions: "AddPartitionsToTxn", EndTransaction: "EndTxn"}

_Refused = tuple[str, Stored, Err]
"""Transactional id, the state that the log did not take, and its error."""


class TransactionObserver:
    """The journal's eye on all shards of a cluster's transaction coordinators."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.requests: dict[int, tuple[int, str, str]] = {}
        """Token of a request that is not answered -> its number in the journal, its API and client id."""
        self._causes: dict[tuple[int, str], Cause] = {}  # of the transition that is under way, by shard and id
        self._tries: dict[
            tuple[int, str, Partition], tuple[int, Err]
        ] = {}  # of markers: how often sent, the last error

    def step(self, shard: TransactionShard, log: str, event: Event, now_ms: int) -> Outcome:
        """``shard.step(event, now_ms)``, with its traces."""
        cause = self._cause(event)
        if type(event) is TimerFired:
            self._timer(log, event, now_ms)
        writes, marker = dict(shard.writes), None
        if type(event) is AppendedElsewhere:
            marker = shard.markers.get(event.ticket)
        before = {
            write.record.transactional_id: None if known is None else known.stored
            for write in writes.values()
            for known in (shard.transactions.get(write.record.transactional_id),)
        }
        outcome = shard.step(event, now_ms)
        if marker is not None and type(event) is AppendedElsewhere:
            transaction, at = marker
            self._answered(shard, log, transaction, at, event.error)
        ended = [write for ticket, write in writes.items() if ticket not in shard.writes]
        error = _error_of(event)
        for write in ended:
            self._ended(shard, log, write, before[write.record.transactional_id], error, cause)
        for ticket, write in shard.writes.items():
            if ticket not in writes:
                key = shard.partition, write.record.transactional_id
                if cause["kind"] in ("request", "timer") or key not in self._causes:
                    self._causes[key] = cause
        self._sent(shard, log, outcome)
        return outcome

    def _ended(
        self,
        shard: TransactionShard,
        log: str,
        write: TransactionWrite,
        before: Stored | None,
        error: Err,
        cause: Cause,
    ) -> None:
        """A record is committed, or given up."""
        transactional_id, stored = write.record.transactional_id, write.record.value
        key = shard.partition, transactional_id
        why = self._causes.get(key, cause)
        known = shard.transactions.get(transactional_id)
        pending = None if known is None else known.pending
        if pending is None or pending.state not in DECIDED:
            self._causes.pop(key, None)
        if error is not Err.NONE:
            state = stored.state if stored is not None else State.DEAD
            self._write(log, transactional_id, "refused", stored, cause=why, state=state.kafka_name, error=error.name)
        elif stored is None:
            self._write(log, transactional_id, "expired", None, cause=why, state=State.DEAD.kafka_name)
        else:
            action, fields = _action(before, stored, why)
            self._write(log, transactional_id, action, stored, cause=why, state=stored.state.kafka_name, **fields)

    def _write(self, log: str, transactional_id: str, action: str, stored: Stored | None, **fields: Any) -> None:
        partitions = fields.pop("partitions", None)
        if partitions is None:
            partitions = [] if stored is None else list(map(_name, stored.partitions))
        self.journal.write(
            "transaction",
            log=log,
            transactional_id=transactional_id,
            action=action,
            producer_id=-1 if stored is None else stored.producer_id,
            epoch=-1 if stored is None else stored.epoch,
            partitions=partitions,
            timeout_ms=-1 if stored is None else stored.timeout_ms,
            started_ms=-1 if stored is None else stored.started_ms,
            **fields,
        )

    def _sent(self, shard: TransactionShard, log: str, outcome: Outcome) -> None:
        """Report markers that are about to be appended to their partitions."""
        for append in outcome.appends:
            if append.to is not None and append.ticket in shard.markers:
                transaction, at = shard.markers[append.ticket]
                key = shard.partition, transaction.transactional_id, at
                tries, error = self._tries.get(key, (0, Err.NONE))
                self._tries[key] = tries + 1, error
                if not tries:
                    self._marker(log, transaction, at, "sent")

    def _answered(self, shard: TransactionShard, log: str, transaction: Transaction, at: Partition, error: Err) -> None:
        """Report the result of an attempt to write a marker; of its retries only those with another error than before."""
        key = shard.partition, transaction.transactional_id, at
        tries, before = self._tries.get(key, (1, Err.NONE))
        if error is Err.NONE:
            self._tries.pop(key, None)
            self._marker(log, transaction, at, "written", tries=tries)
            return
        self._tries[key] = tries, error
        if error is not before:
            self._marker(log, transaction, at, "failed", tries=tries, error=error.name)

    def _marker(self, log: str, transaction: Transaction, at: Partition, action: str, **fields: Any) -> None:
        stored = transaction.stored
        self.journal.write(
            "marker",
            log=log,
            transactional_id=transaction.transactional_id,
            partition=_name(at),
            action=action,
            result="commit" if stored.state in (State.PREPARE_COMMIT, State.COMPLETE_COMMIT) else "abort",
            producer_id=stored.producer_id,
            epoch=stored.epoch,
            **fields,
        )

    # calls of the runtime

    def asked(self, token: int, ctx: Asking) -> None:
        """A request is about to be stepped."""
        self.requests[token] = ctx.request_id, ctx.name, ctx.client_id or ""

    def answered(self, token: int) -> None:
        """A request has its answer."""
        self.requests.pop(token, None)

    def appended(
        self, log: str, shard: TransactionShard, tickets: list[int], last_offset: int, error: Err, end: int
    ) -> None:
        """An append was done, or failed; ``end`` is the high watermark. Called before the shard gets the result."""
        records = [shard.writes[ticket].record for ticket in tickets if ticket in shard.writes]
        fields: dict[str, Any] = {} if error is Err.NONE else {"error": error.name}
        causes = [self._causes.get((shard.partition, record.transactional_id), {}) for record in records]
        self.journal.write(
            "append",
            log=log,
            requests=[cause["request"] for cause in causes if cause.get("request")],
            kinds=list(dict.fromkeys("tombstone" if record.value is None else "transaction" for record in records)),
            groups=[],
            transactional_ids=list(dict.fromkeys(record.transactional_id for record in records)),
            records=len(records),
            base_offset=last_offset - len(records) + 1 if error is Err.NONE else -1,
            last_offset=last_offset,
            high_watermark=end,
            **fields,
        )

    def committed(self, log: str, shard: TransactionShard, high_watermark: int) -> None:
        """The high watermark has advanced. Called before the shard gets it."""
        ids = [w.record.transactional_id for w in shard.writes.values() if w.last_offset < high_watermark]
        self.journal.write(
            "committed",
            log=log,
            high_watermark=high_watermark,
            groups=[],
            transactional_ids=list(dict.fromkeys(ids)),
        )

    def loading(self, log: str) -> None:
        """A log is being read."""
        self.journal.write("load", log=log, action="started")

    def loaded(self, shard: TransactionShard, log: str, records: int, skipped: int, *, failed: str) -> None:
        """The shard has read its log, or ``failed`` to."""
        if failed:
            self.journal.write("load", log=log, action="failed", error=failed)
            return
        ids = shard.transactions
        self.journal.write(
            "load", log=log, action="finished", transactional_ids=len(ids), records=records, skipped=skipped
        )
        self.look(shard, log)

    def look(self, shard: TransactionShard, log: str) -> None:
        """Report the open and decided transactions of a shard: when the observer is set, or the shard was loaded."""
        for transactional_id, transaction in shard.transactions.items():
            if transaction.stored.state is State.ONGOING or transaction.stored.state in DECIDED:
                state = transaction.stored.state.kafka_name
                self._write(log, transactional_id, "found", transaction.stored, cause={"kind": "load"}, state=state)

    def unloading(self, shard: TransactionShard) -> Callable[[str], None]:
        """The shard is about to be unloaded; the returned function is called afterwards, with its log's name."""
        ids = len(shard.transactions)
        for key in [key for key in self._causes if key[0] == shard.partition]:
            del self._causes[key]
        self._tries = {key: tries for key, tries in self._tries.items() if key[0] != shard.partition}

        def unloaded(log: str) -> None:
            self.journal.write("load", log=log, action="unloaded", transactional_ids=ids)

        return unloaded

    # causes

    def _timer(self, log: str, event: TimerFired, now_ms: int) -> None:
        kind, *rest = event.key
        fields: dict[str, Any] = {}
        if rest:
            fields["ticket" if kind == "append" else "transactional_id"] = rest[0]
        self.journal.write("timer", log=log, timer=kind, due_ms=now_ms, **fields)

    def _cause(self, event: Event) -> Cause:
        if type(event) is ProducerIdAllocated:
            event = event.event
        if type(event) is Request:
            number, api, client_id = self.requests.get(event.token, (0, "", ""))
            whose = {} if number or not client_id else {"client_id": client_id}
            return {"kind": "request", "request": number, "api": api or _APIS[type(event.body)], **whose}
        if type(event) is TimerFired:
            return {"kind": "timer", "timer": event.key[0]}
        if type(event) is Appended:
            return {"kind": "append", "error": None if event.error is Err.NONE else event.error.name}
        if type(event) is Committed:
            return {"kind": "committed", "high_watermark": event.high_watermark}
        if type(event) is AppendedElsewhere:
            return {"kind": "markers"}
        return {"kind": "topics"}


def _action(before: Stored | None, after: Stored, cause: Cause) -> tuple[str, dict[str, Any]]:
    """The action of a committed record's event, and its further fields."""
    was = State.EMPTY if before is None else before.state
    if after.state is State.ONGOING:
        if was is not State.ONGOING or before is None:
            return "begun", {}
        had = set(before.partitions)
        return "added", {"partitions": [_name(partition) for partition in after.partitions if partition not in had]}
    if after.state in DECIDED:
        return "prepared", {"result": _result(after, cause)}
    if after.state in (State.COMPLETE_COMMIT, State.COMPLETE_ABORT):
        partitions = [] if before is None else list(map(_name, before.partitions))
        return "completed", {"partitions": partitions}
    return "producer", {}


def _result(after: Stored, cause: Cause) -> str:
    if cause.get("timer") == "timeout":
        return "timed out"
    if cause.get("api") == "InitProducerId":
        return "fenced"
    return "commit" if after.state is State.PREPARE_COMMIT else "abort"


def _error_of(event: Event) -> Err:
    """The error of a write that was pending before the event and is not any more."""
    if type(event) in (Appended, Committed):
        return event.error  # type: ignore[union-attr]
    return Err.REQUEST_TIMED_OUT if type(event) is TimerFired and event.key[0] == "append" else Err.NONE


def _name(partition: Partition) -> str:
    return f"{partition[0]}-{partition[1]}"


# --- the logs of data -------------------------------------------------------------------------------------------------


class StableOffsetObserver:
    """The journal's eye on the last stable offsets of all partitions of data."""

    def __init__(self, journal: Journal, state: ClusterState) -> None:
        self.journal, self._state = journal, state
        self._holders: dict[topics.Partition, tuple[int, int]] = {}
        self._watched: set[topics.Partition] = set()
        self.topics_changed(list(state.topics))
        state.on_topics_changed.append(self.topics_changed)

    def topics_changed(self, names: Iterable[str]) -> None:
        """Topics were created, extended or deleted."""
        for name in names:
            topic = self._state.topics.get(name)
            if topic is None:
                self._watched = {partition for partition in self._watched if not partition.deleted}
                continue
            if topic.internal:
                continue
            for partition in topic.partitions:
                if partition not in self._watched:
                    self._watched.add(partition)
                    partition.add_waiter(partial(self.look, partition))
                    self.look(partition)

    def look(self, partition: topics.Partition) -> None:
        """Report which transaction holds the last stable offset, if that has changed."""
        log = partition.log
        before = self._holders.get(partition)
        if before is None and not log.producers.open and not log.ended.uncommitted:
            return  # nearly always
        holder = None if partition.deleted else _holder(partition)
        if holder == before:
            return
        if holder is None:
            del self._holders[partition]
        else:
            self._holders[partition] = holder
        entry = None if holder is None else log.producers.entries.get(holder[0])
        self.journal.write(
            "last_stable_offset",
            log=partition.name,
            action="unblocked" if holder is None else "blocked",
            last_stable_offset=partition.last_stable_offset,
            high_watermark=partition.high_watermark,
            producer_id=None if holder is None else holder[0],
            epoch=None if entry is None else entry.epoch,
        )


def _holder(partition: topics.Partition) -> tuple[int, int] | None:
    """The producer id of the transaction that the last stable offset waits for, and its first offset; None if it equals the high
    watermark."""
    log = partition.log
    holder = next(iter(log.producers.open.items()), None)
    for ended in log.ended.uncommitted:
        if ended.last_offset >= partition.high_watermark and (holder is None or ended.first_offset < holder[1]):
            holder = ended.producer_id, ended.first_offset
    return holder
