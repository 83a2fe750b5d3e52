"""Reasons why requests of a transactional id were refused: the coordinator's, with the client that fenced the producer, as clauses.

Rules:
1. A reason is read from what the journal has of the id up to the response: initializations, decisions, expirations. Where the journal
   begins later than the cause the reason says only what is certain.
2. Reasons are clauses: they follow a colon.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

from broker_sim.common.text import clock
from broker_sim.explain.events import Call, Event, GroupSnapshot, items, number, table, text
from broker_sim.explain.phrases import shortened
from broker_sim.explain.transaction_model import (
    FENCING,
    EpochChange,
    Sender,
    TransactionalId,
    TransactionHistory,
    TransactionRequest,
)

__all__ = ["BY_HAND", "HAND", "GroupMembers", "reason", "takeovers"]

HAND = "the test, the command line or HTTP"
BY_HAND = f"an abort from {HAND}"
"""Words for an InitProducerId whose sender is inside (`Sender.is_inside`)."""
_NOT_OPEN = ("INVALID_TXN_STATE", "TRANSACTION_ABORTABLE")
_OF_LOADS = {
    "NOT_COORDINATOR": "the coordinator of {} is on another broker, or was unloaded",
    "COORDINATOR_LOAD_IN_PROGRESS": "the coordinator of {} was reading its log",
    "COORDINATOR_NOT_AVAILABLE": "{} had no available coordinator",
}


class GroupMembers:
    """The members and generations of groups, to the extent that a refused TxnOffsetCommit needs them."""

    def __init__(self) -> None:
        self._members: dict[str, dict[str, str | None]] = {}  # group -> member id -> its instance
        self._generation: dict[str, tuple[int, int]] = {}  # group -> generation, since when
        self._epochs: dict[tuple[str, str], int] = {}  # of members of epoch-based groups
        self._removed: dict[tuple[str, str], tuple[int, str]] = {}  # when, and why

    def group(self, event: Event, ts_ms: int) -> None:
        """A ``group`` event."""
        name, after = text(event, "group") or "", GroupSnapshot.of(event.get("after"))
        before = GroupSnapshot.of(event.get("before"))
        if after is not None:
            after.completed(before, before)
            if self._generation.get(name, (-1, 0))[0] != after.generation:
                self._generation[name] = after.generation, ts_ms
        shown = {} if after is None else {m: text(row, "instance") for m, row in after.members.items()}
        if after is not None and not after.whole:
            gone = set() if before is None else before.members.keys() - after.members.keys()
            shown = {m: i for m, i in self._members.get(name, {}).items() if m not in gone} | shown
        self._became(name, shown, table(event, "cause"), ts_ms)

    def epochs(self, event: Event, ts_ms: int) -> None:
        """An ``epochs`` event; of a large group it has only the changed members, and none is taken for removed."""
        name = text(event, "group") or ""
        rows = [row for row in items(event, "members") if isinstance(row, Mapping)]
        shown = {member: text(row, "instance") for row in rows if (member := text(row, "member"))}
        for row in rows:
            if (epoch := number(row, "epoch")) is not None:
                self._epochs[name, text(row, "member") or ""] = epoch
        if event.get("state") != "Dead" and (number(event, "size") or 0) > len(shown):
            shown = {**self._members.get(name, {}), **shown}
        self._became(name, shown, table(event, "cause"), ts_ms)

    def _became(self, group: str, members: dict[str, str | None], cause: Event, ts_ms: int) -> None:
        for member in self._members.get(group, {}).keys() - members.keys():
            self._removed[group, member] = ts_ms, _why_removed(cause)
        self._members[group] = members

    def reason(self, error: str, call: Call) -> str:
        """Reason why the group refused a TxnOffsetCommit; "" for other errors."""
        group, member = call.group or "", call.member
        if error == "UNKNOWN_MEMBER_ID":
            removed = self._removed.get((group, member))
            if removed is None:
                return f"the group {group} has no member {member}" if member else ""
            return f"{member} had been removed from the group {group} at {clock(removed[0])}{removed[1]}"
        if error in ("ILLEGAL_GENERATION", "STALE_MEMBER_EPOCH", "FENCED_MEMBER_EPOCH"):
            epoch, now = self._epochs.get((group, member)), self._generation.get(group)
            if epoch is not None:
                return f"{member} is in epoch {epoch} of the group {group}; the request had epoch {call.generation}"
            is_in = "" if now is None else f"the group {group} is in generation {now[0]} since {clock(now[1])}; "
            return f"{is_in}the request had generation {call.generation}"
        if error == "FENCED_INSTANCE_ID":
            others = [m for m, instance in self._members.get(group, {}).items() if instance == call.instance]
            whose = f"belongs to the member {others[0]} now" if others else "belongs to another member"
            return f"the instance {call.instance} of the group {group} {whose}"
        return ""


def _why_removed(cause: Event) -> str:
    if cause.get("kind") == "timer":
        why = {"session": "its session had expired", "rebalance": "it had not rejoined", "sync": "it had not synced"}
        words = why.get(text(cause, "timer") or "")
        return f", as {words}" if words else ""
    if cause.get("kind") != "request":
        return ""
    leaves = ("LeaveGroup", "ConsumerGroupHeartbeat", "StreamsGroupHeartbeat")
    return ", as it had left" if cause.get("api") in leaves else ""


def reason(
    known: TransactionalId,
    request: TransactionRequest,
    open_: TransactionHistory | None,
    groups: GroupMembers,
    ts_ms: int,
) -> str:
    """Reason why a request was refused, as a clause; "" if its error says all, or if the journal lacks the cause. ``open_``: the
    transaction of the id that is open or whose markers are pending."""
    call = request.call
    ranked = sorted(call.errors, key=lambda name: (name == "OPERATION_NOT_ATTEMPTED", name not in FENCING, name))
    error = ranked[0] if ranked else ""
    if error in FENCING:
        return _fenced(known, request, error)
    if error in _NOT_OPEN:
        return _not_open(known, request, open_)
    if error == "CONCURRENT_TRANSACTIONS":
        return _concurrent(request, open_, ts_ms)
    if error == "INVALID_TRANSACTION_TIMEOUT":
        asked = number(call.body, "transaction_timeout_ms")
        return f"its transaction.timeout.ms of {asked} is not between 1 and transaction.max.timeout.ms"
    not_stored = known.not_stored.get(call.request)
    if not_stored is not None:
        where = f"the log {known.log}" if known.log else "the coordinator's log"
        return f"{where} refused the record ({not_stored})"
    if error in _OF_LOADS and call.api != "Produce":
        return _OF_LOADS[error].format(f"the group {call.group}" if call.api == "TxnOffsetCommit" else "the id")
    return groups.reason(error, call) if call.api == "TxnOffsetCommit" else ""


def takeovers(known: TransactionalId) -> Iterator[tuple[EpochChange, EpochChange]]:
    """Initializations by another client than the last one's while no transaction was open, each with the one before."""
    holder: EpochChange | None = None
    for before, change in pairwise([None, *known.epochs]):
        if change is None or change.how != "initialized":
            continue
        by = change.by
        after_fence = before is not None and before.how == "fenced" and (by is None or not by.is_inside)
        taken = holder is not None and by is not None and (holder.by is None or not by.is_client_of(holder.by))
        if taken and holder is not None and not after_fence:
            yield change, holder
        holder = change


def _fenced(known: TransactionalId, request: TransactionRequest, error: str) -> str:
    its, last = request.producer, known.epochs[-1] if known.epochs else None
    had = f"; the request had epoch {its[1]}" if its is not None else ""
    if known.expired_ms is not None and (last is None or last.ts_ms <= known.expired_ms):
        return f"the id had expired at {clock(known.expired_ms)}"
    if last is None:
        unknown = error == "INVALID_PRODUCER_ID_MAPPING"
        return "no producer has initialized the id" if unknown else "its epoch had been fenced before the journal began"
    if its is not None and its[0] != last.producer_id:
        since = next(change for change in known.epochs if change.producer_id == last.producer_id)
        words = f"the id has producer {last.producer_id} since {clock(since.ts_ms)}{_of(since.by)}"
        if known.expired_ms is not None and known.expired_ms <= since.ts_ms:
            words += f", after it had expired at {clock(known.expired_ms)}"
        return f"{words}; the request had producer {its[0]}"
    if its is not None and its[1] > last.epoch:
        return f"the id is in epoch {last.epoch}{had}, which it has not got"
    change = _successor(known, request)
    return "another producer had initialized the id" + had if change is None else _changed(change, request) + had


def _of(by: Sender | None) -> str:
    return "" if by is None else f", by the {by.api} of {by.words}"


def _successor(known: TransactionalId, request: TransactionRequest) -> EpochChange | None:
    """The change that made the request's epoch an old one."""
    its = request.producer
    if its is not None:
        return next((change for change in known.epochs if (change.producer_id, change.epoch) > its), None)
    # Produce: the journal does not have the epoch of its batches
    return next(
        (
            change
            for change in reversed(known.epochs)
            if change.how == "timed out" or (change.by is not None and not change.by.is_client_of(request.sender))
        ),
        next((change for change in reversed(known.epochs) if change.by is not None), None),
    )


def _changed(change: EpochChange, request: TransactionRequest) -> str:
    at, by = clock(change.ts_ms), change.by
    if change.how == "timed out":
        return (
            f"its coordinator had aborted its transaction at {at}, which was open for longer than its timeout, and fenced it"
            f" with epoch {change.epoch}"
        )
    if change.how in ("commit", "abort"):
        return f"its transaction had ended at {at}, with the next epoch {change.epoch} (KIP-890)"
    if by is None:
        return f"the id was in epoch {change.epoch} at {at}, which another producer had got"
    if by.is_inside:
        return f"{BY_HAND} had fenced it at {at}, with epoch {change.epoch}"
    who = by.words
    if by.is_client_of(request.sender):
        same = by.connection == request.sender.connection
        who = f"{who} itself" if same else f"another connection of {who}"
    if change.how == "fenced":
        return (
            f"the InitProducerId of {who} had aborted its transaction at {at} and fenced it with epoch {change.epoch}"
        )
    return f"{who} had initialized the id at {at} and got epoch {change.epoch}"


def _not_open(known: TransactionalId, request: TransactionRequest, open_: TransactionHistory | None) -> str:
    """INVALID_TXN_STATE and TRANSACTION_ABORTABLE: no transaction is open that the request belongs to."""
    call = request.call
    if call.api in ("Produce", "TxnOffsetCommit") and open_ is not None:
        where = (
            f" {shortened(call.topics)}" if call.topics and call.api == "Produce" else " the group's offsets partition"
        )
        return f"its transaction has not got{where}"
    last = known.last
    if last is None or last.decided_ms is None:
        return "no transaction was open: its producer had added no partition to one"
    ended = {"commit": "committed", "abort": "aborted", "fenced": "aborted"}.get(last.result, "aborted by its timeout")
    by = "" if last.ended_by is None else f" by the {last.ended_by.api} of {last.ended_by.words}"
    return f"no transaction was open: the last one had been {ended} at {clock(last.decided_ms)}{by}"


def _concurrent(request: TransactionRequest, open_: TransactionHistory | None, ts_ms: int) -> str:
    if open_ is None:
        return "a change of the id was not stored yet"
    if open_.decided_ms is None:
        if request.call.api == "InitProducerId":
            return "the open transaction is aborted first"
        return "a change of the id was not stored yet"
    if request.call.api == "InitProducerId" and open_.decided_ms == ts_ms and open_.result == "fenced":
        return "the open transaction is aborted first"
    missing = [marker.partition for marker in open_.markers.values() if marker.written_ms is None]
    waits = f" for {shortened(missing)}" if missing else ""
    return f"the markers of the last transaction were pending{waits}"
