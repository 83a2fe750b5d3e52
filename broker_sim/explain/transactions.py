"""History of transactions: who began them, how they ended and by whom, how long it took, and which readers they blocked; and which
requests of their producers were refused, or had no response, and why.

    found = transactions(events)               # every transaction of the journal, and what no coordinator knew of

It is read from the journal's events ``transaction``, ``marker``, ``pending_offsets`` and ``last_stable_offset``; requests have their
senders. Rules that hit a request, states of logs and steps of the clock come from `ClusterEvents`, as those of groups.
A reader waits where its last read_committed Fetch begins at the last stable offset while a transaction holds that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from broker_sim.common.answers import named_topics, rows
from broker_sim.explain.cluster_events import ClusterEvents
from broker_sim.explain.events import Call, Event, items, names_in, number, table, text
from broker_sim.explain.model import History, Span
from broker_sim.explain.transaction_model import (
    NOT_ITS_OWN,
    WORTH_TELLING_MS,
    BlockedStableOffset,
    EpochChange,
    Marker,
    Sender,
    TransactionalId,
    TransactionHistory,
    TransactionRequest,
)
from broker_sim.explain.transaction_reasons import HAND, GroupMembers, reason

__all__ = [
    "TRANSACTION_APIS",
    "WORTH_TELLING_MS",
    "BlockedStableOffset",
    "JournalTransactions",
    "Marker",
    "TransactionHistory",
    "TransactionReader",
    "TransactionRequest",
    "concern",
    "outside",
    "transactions",
]

TRANSACTION_APIS = ("InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn", "Produce")
"""Requests of which each refusal is part of the history; of others only those that a rule hit."""


@dataclass(slots=True)
class JournalTransactions:
    """All transactions of a journal, in the order in which they began."""

    transactions: list[TransactionHistory]
    hanging: list[BlockedStableOffset]
    states: dict[str, str]
    """Transactional id -> Kafka's name of its last state."""
    producers: dict[str, tuple[int, int]]
    """Transactional id -> its last (producer id, epoch): after a timeout the epoch that fenced the producer."""
    ids: dict[str, TransactionalId]
    around: ClusterEvents
    """Rules, states of logs, the clock."""
    first_ms: int
    last_ms: int

    def of(self, transactional_id: str) -> list[TransactionHistory]:
        return [transaction for transaction in self.transactions if transaction.transactional_id == transactional_id]


class TransactionReader:
    """Reads them, event by event. ``around`` is given each event before."""

    def __init__(self, around: ClusterEvents) -> None:
        self.around = around
        self.transactions: list[TransactionHistory] = []
        self.hanging: list[BlockedStableOffset] = []
        self.states: dict[str, str] = {}
        self.producers: dict[str, tuple[int, int]] = {}
        self.ids: dict[str, TransactionalId] = {}
        self._open: dict[str, TransactionHistory] = {}
        self._blocked: dict[str, BlockedStableOffset] = {}
        self._asked: dict[int, list[TransactionRequest]] = {}
        self._senders: dict[int, Sender] = {}
        self._position: dict[
            tuple[str, str], tuple[int, int]
        ] = {}  # of readers: (client id, partition) -> offset, since
        self._markers_of: Sender | None = None
        self._groups = GroupMembers()
        self._ts_ms = self._order = 0
        self._handlers = {
            "request": self._request,
            "response": self._response,
            "connection": self._connection,
            "fault": self._fault,
            "clock": self._clock,
            "load": self._load,
            "cluster": self._cluster,
            "group": lambda event: self._groups.group(event, self._ts_ms),
            "epochs": lambda event: self._groups.epochs(event, self._ts_ms),
            "transaction": self._transaction,
            "marker": self._marker,
            "pending_offsets": self._pending_offsets,
            "last_stable_offset": self._stable_offset,
        }

    def take(self, event: Event, ts_ms: int, order: int) -> None:
        """An event of any kind; ``order``: its number in the journal."""
        handler = self._handlers.get(str(event.get("event")))
        if handler is not None:
            self._ts_ms, self._order = ts_ms, order
            handler(event)

    def finish(self, last_ms: int) -> None:
        """The journal ends at ``last_ms``: requests without a response, and the states of logs that requests and transactions met."""
        self._ts_ms = last_ms
        for request in [request for requests in self._asked.values() for request in requests]:
            if request.rules or (
                request.call.api in TRANSACTION_APIS and request.waited_ms(self._ts_ms) >= WORTH_TELLING_MS
            ):
                self._put(request)
        for transaction in self.transactions:
            until_ms = transaction.completed_ms or self._ts_ms
            logs = [transaction.log, *transaction.partitions]
            transaction.spans = self._spans(logs, transaction.begun_ms or 0, until_ms)
            for request in transaction.requests:
                self._note_spans(request, transaction.log)
        for known in self.ids.values():
            for request in known.requests:
                self._note_spans(request, known.log)

    def _note_spans(self, request: TransactionRequest, log: str | None) -> None:
        call = request.call
        logs = call.topics if call.api == "Produce" else [log or ""]
        request.spans = self._spans(logs, call.ts_ms, call.answered_ms or self._ts_ms)

    def _spans(self, logs: Iterable[str], from_ms: int, to_ms: int) -> list[Span]:
        return [
            span
            for log in dict.fromkeys(logs)
            for _, span in self.around.log_spans.get(log, ())
            if span.from_ms <= to_ms and (span.to_ms is None or span.to_ms > from_ms) and span.to_ms != span.from_ms
        ]

    def _known(self, name: str) -> TransactionalId:
        known = self.ids.get(name)
        if known is None:
            known = self.ids[name] = TransactionalId(name, self._ts_ms, self._order)
        return known

    # who asks

    def _request(self, event: Event) -> None:
        api, client = text(event, "api") or "?", text(event, "client_id") or ""
        owner = text(event, "transactional_id")
        body = table(event, "body")
        if owner is not None or api == "WriteTxnMarkers":
            who = Sender(api, client, text(event, "client_host") or "", number(event, "connection"))
            request = number(event, "request") or 0
            self._senders[request] = who
            if owner is not None:
                asked = self._asked[request] = []
                for name, producer in _producers(owner, body):
                    asked.append(TransactionRequest(Call.of(event, self._ts_ms), name, who, producer))
                    self._arrived(asked[-1])
            else:
                self._markers_of = who
                self._foreign_markers(who, body)
        elif api == "Fetch" and number(body, "isolation_level") == 1:
            self._reads(client, body, named_topics(body, names_in(event, "topics")))

    def _arrived(self, request: TransactionRequest) -> None:
        request.order = self._order
        current = self._open.get(request.transactional_id)
        if request.call.api not in TRANSACTION_APIS or current is None or not _is_of(request, current):
            return
        request.transaction = current
        if not current.result:
            current.last_request = request
            if request.sender.connection is not None:
                current.connections.add(request.sender.connection)

    def _foreign_markers(self, who: Sender, body: Event) -> None:
        """Markers that a client writes: `kafka-transactions abort` does."""
        for marker in items(body, "markers"):
            current = self._of(number(marker, "producer_id")) if isinstance(marker, Mapping) else None
            for topic in items(marker, "topics") if current is not None else ():
                for index in items(topic, "partition_indexes") if isinstance(topic, Mapping) else ():
                    kind = "a commit" if marker.get("transaction_result") is True else "an abort"
                    where = f"{kind} marker to {text(topic, 'name')}-{index}"
                    assert current is not None
                    current.foreign_markers.append((self._ts_ms, who, where))

    def _reads(self, client: str, body: Event, names: Mapping[str, str]) -> None:
        for topic in items(body, "topics"):
            name = text(topic, "topic") if isinstance(topic, Mapping) else None
            name = name or (names.get(text(topic, "topic_id") or "") if isinstance(topic, Mapping) else None)
            for partition in items(topic, "partitions") if name else ():
                offset, index = number(partition, "fetch_offset"), number(partition, "partition")
                log = f"{name}-{index}"
                if offset is None or self._position.get((client, log), (-1, 0))[0] == offset:
                    continue
                self._position[client, log] = offset, self._ts_ms
                blocked = self._blocked.get(log)
                if blocked is not None and blocked.offset == offset:
                    blocked.readers.setdefault(client, self._ts_ms)

    def _response(self, event: Event) -> None:
        number_of = number(event, "request") or 0
        sender = self._senders.get(number_of)
        if event.get("action") != "not answered":  # what it has begun may end later
            self._senders.pop(number_of, None)
        if sender is not None and sender is self._markers_of:
            self._markers_of = None
        for request in self._asked.pop(number_of, ()):
            call = request.call
            call.answered(_part(event, request.transactional_id), self._ts_ms)
            if call.api not in TRANSACTION_APIS and not request.rules:
                continue
            if call.failed or request.rules or (call.took_ms or 0) >= WORTH_TELLING_MS:
                known = self._known(request.transactional_id)
                if call.errors:
                    current = self._open.get(request.transactional_id)
                    request.reason = reason(known, request, current, self._groups, self._ts_ms)
                self._put(request)

    def _put(self, request: TransactionRequest) -> None:
        """A request that did not go well: to its transaction, or else to its id."""
        name, current = request.transactional_id, self._open.get(request.transactional_id)
        if request.transaction is None and current is not None and _is_of(request, current):
            request.transaction = current  # it began with this request
        if request.is_fenced and request.transaction is None:
            request.transaction = self._taken_from(request)
        if request.call.errors == {"CONCURRENT_TRANSACTIONS"} and not request.rules:
            request.transaction = None  # it waits for the end of an earlier one
        known = self._known(name)
        (known.requests if request.transaction is None else request.transaction.requests).append(request)

    def _taken_from(self, request: TransactionRequest) -> TransactionHistory | None:
        """The last transaction that was ended for this producer: others may have come under the same id before it asks again."""
        for transaction in reversed(self.transactions):
            if transaction.transactional_id != request.transactional_id or transaction.result not in NOT_ITS_OWN:
                continue
            began, its = transaction.began_by, (transaction.producer_id, transaction.epoch)
            if request.producer is None or began is None:
                same = began is None or began.is_client_of(request.sender)
            else:
                same = request.producer == its or (request.producer[0] == -1 and began.is_client_of(request.sender))
            if same:
                return transaction
        return None

    def _fault(self, event: Event) -> None:
        for request in self._asked.get(number(event, "request") or 0, ()):
            request.rules.append(text(event, "rule") or text(event, "verdict") or "fault")
            request.call.faults.append(text(event, "verdict") or request.rules[-1])
            self._known(request.transactional_id).hits.append(str(event.get("fault")))

    def _connection(self, event: Event) -> None:
        if event.get("action") != "closed":
            return
        connection = number(event, "connection")
        for current in self._open.values():
            if connection in current.connections and not current.result:
                current.connections.discard(connection)
                if not current.connections:
                    current.closed_ms = self._ts_ms

    def _clock(self, event: Event) -> None:
        ms = number(event, "ms")
        for current in self._open.values() if ms is not None else ():
            if not current.result:
                current.advanced_ms.append(ms or 0)

    def _load(self, event: Event) -> None:
        log, action = text(event, "log"), event.get("action")
        for known in self.ids.values() if action == "unloaded" else ():
            if log is not None and known.log == log and self.states.get(known.transactional_id) != "Dead":
                words = f"the coordinator of {log} was unloaded: until it is loaded again, no broker knows the id"
                known.ends.append((self._ts_ms, self._order, words))

    def _cluster(self, event: Event) -> None:
        what = {
            "killed": "the process of all brokers was killed",
            "power lost": "the machines of all brokers lost power",
        }
        words = what.get(text(event, "action") or "")
        for known in self.ids.values() if words is not None else ():
            if self.states.get(known.transactional_id) != "Dead":
                known.ends.append((self._ts_ms, self._order, f"{words}, and the coordinator of the id with it"))

    def _who(self, event: Event) -> Sender | None:
        cause = table(event, "cause")
        request = number(cause, "request") or 0
        if request == 0 and text(cause, "client_id") is not None:
            return Sender(text(cause, "api") or "", text(cause, "client_id") or "", "")
        return self._senders.get(request)

    # what the coordinator does

    def _transaction(self, event: Event) -> None:
        name, action = text(event, "transactional_id"), text(event, "action")
        if name is None or action is None:
            return
        known, current = self._known(name), self._open.get(name)
        known.log = text(event, "log") or known.log
        if action == "refused":
            error, state = text(event, "error") or "", text(event, "state") or ""
            known.not_stored[number(table(event, "cause"), "request") or 0] = error
            if current is not None:
                current.refused.append((self._ts_ms, state, error))
            return
        self.states[name] = text(event, "state") or ""
        self._epoch(known, event, action)
        if action in ("begun", "found") and current is None:
            current = self._begin(event, name, action)
        if current is None:
            if action == "prepared":  # an abort without a transaction: its producer asked for an epoch
                current = self._begin(event, name, action)
                current.begun_ms = self._ts_ms
            else:
                return
        if action == "found":
            current.found_ms.append(self._ts_ms)
        elif action == "added":
            current.partitions += [
                partition for partition in names_in(event, "partitions") if partition not in current.partitions
            ]
        if action == "prepared" or (action == "found" and not current.result and "Prepare" in self.states[name]):
            current.result = text(event, "result") or ("commit" if self.states[name] == "PrepareCommit" else "abort")
            current.decided_ms, current.ended_by = self._ts_ms, self._who(event)
            current.epoch = current.epoch if current.epoch >= 0 else number(event, "epoch") or 0
            known.last = current
        elif action == "completed":
            current.completed_ms = self._ts_ms
            del self._open[name]

    def _epoch(self, known: TransactionalId, event: Event, action: str) -> None:
        """The producer id and epoch of an id after a step, and its end."""
        producer_id, epoch = number(event, "producer_id"), number(event, "epoch") or 0
        if action == "expired":
            known.expired_ms = self._ts_ms
            words = "the id expired, unused for transactional.id.expiration.ms, and its coordinator forgot its producer"
            known.ends.append((self._ts_ms, self._order, words))
        name = known.transactional_id
        if producer_id is None or producer_id < 0:  # of `expired`
            self.producers.pop(name, None)
            return
        if self.producers.get(name) != (producer_id, epoch) or action == "producer":
            how = "initialized" if action == "producer" else (text(event, "result") or "")
            known.epochs.append(EpochChange(self._ts_ms, producer_id, epoch, how, self._who(event), self._order))
        self.producers[name] = producer_id, epoch

    def _begin(self, event: Event, name: str, action: str) -> TransactionHistory:
        started = number(event, "started_ms")
        made = TransactionHistory(
            name,
            text(event, "log") or "",
            number(event, "producer_id") or 0,
            number(event, "epoch") or 0,
            self._ts_ms if action == "begun" else started if started is not None and started >= 0 else None,
            self._who(event) if action == "begun" else None,
            number(event, "timeout_ms"),
            names_in(event, "partitions"),
            order=self._order,
        )
        self._began_with(made, event)
        self.transactions.append(made)
        self._open[name] = made
        for blocked in self._blocked.values():  # as it was found: the logs are looked at before their coordinators
            if blocked.transaction is None and blocked.producer_id == made.producer_id and action == "found":
                self._give(blocked, made)
        return made

    def _began_with(self, made: TransactionHistory, event: Event) -> None:
        """Add the requests that began a transaction to it, and note whether the client that fenced the one before uses the id now."""
        for request in self._asked.get(number(table(event, "cause"), "request") or 0, ()):
            request.transaction, made.last_request = made, request
            if request.sender.connection is not None:
                made.connections.add(request.sender.connection)
        before = self._known(made.transactional_id).last
        if before is not None and before.ended_by is not None and made.began_by is not None:
            before.reused = made.began_by.is_client_of(before.ended_by)

    def _marker(self, event: Event) -> None:
        if event.get("action") == "sent by hand":
            self._sent_by_hand(event)
            return
        current, partition = self._open.get(text(event, "transactional_id") or ""), text(event, "partition")
        if current is None or partition is None:
            return
        marker = current.markers.setdefault(partition, Marker(partition, self._ts_ms))
        action = event.get("action")
        if action == "written":
            marker.written_ms = self._ts_ms
        elif action == "failed":
            marker.error = text(event, "error")
        marker.tries = max(marker.tries, number(event, "tries") or 0)

    def _sent_by_hand(self, event: Event) -> None:
        """`LogHandle.abort_transaction`, and the operation of the command line and of HTTP."""
        who, current = Sender("WriteTxnMarkers", HAND, ""), self._of(number(event, "producer_id"))
        self._markers_of = who
        if current is not None:
            what = f"an abort marker to {text(event, 'partition')}"
            current.foreign_markers.append((self._ts_ms, who, what))

    def _pending_offsets(self, event: Event) -> None:
        producer_id, group = number(event, "producer_id"), text(event, "group")
        if event.get("action") != "pending" or group is None:
            return
        current = self._of(producer_id)
        if current is not None:
            offsets = {str(log): at for log, at in table(event, "offsets").items() if isinstance(at, int)}
            current.pending_offsets.setdefault(group, {}).update(offsets)

    def _of(self, producer_id: int | None) -> TransactionHistory | None:
        return next(
            (transaction for transaction in self._open.values() if transaction.producer_id == producer_id), None
        )

    # what waits for it

    def _stable_offset(self, event: Event) -> None:
        log, offset = text(event, "log"), number(event, "last_stable_offset")
        if log is None or offset is None:
            return
        before = self._blocked.pop(log, None)
        if before is not None:
            before.to_ms = self._ts_ms
            ended = self._of(before.producer_id)
            if ended is not None and ended.result:
                before.ended_by = ended
            elif self._markers_of is not None:
                before.ended_by = self._markers_of.words
        if self._markers_of is not None and self._markers_of.is_inside:
            self._markers_of = None
        if event.get("action") != "blocked":
            return
        producer_id = number(event, "producer_id")
        blocked = self._blocked[log] = BlockedStableOffset(log, offset, self._ts_ms, producer_id, order=self._order)
        for (client, where), (at, _) in self._position.items():
            if where == log and at == offset:
                blocked.readers[client] = self._ts_ms
        transaction = self._of(producer_id)
        if transaction is not None and (not transaction.result or log not in transaction.markers):
            self._give(blocked, transaction)
        else:
            self.hanging.append(blocked)

    def _give(self, blocked: BlockedStableOffset, transaction: TransactionHistory) -> None:
        blocked.transaction = transaction
        transaction.blocked.append(blocked)
        if blocked in self.hanging:
            self.hanging.remove(blocked)


def concern(
    result: TransactionReader, group: str, clients: Iterable[str], until_ms: int
) -> tuple[list[TransactionHistory], list[BlockedStableOffset]]:
    """Transactions that concern a group: the ones that commit for it, or should have, those whose end its members (``clients``: their
    client ids) waited for long enough to be reported; and the last stable offsets at which they waited, of transactions that hang,
    too."""
    ours = set(clients)

    def waited(blocked: BlockedStableOffset) -> bool:
        return any(
            name in ours and (blocked.to_ms or until_ms) - since >= WORTH_TELLING_MS
            for name, since in blocked.readers.items()
        )

    mine = [
        transaction
        for transaction in result.transactions
        if group in transaction.pending_offsets
        or any(map(waited, transaction.blocked))
        or any(request.call.group == group and request.is_serious for request in transaction.requests)
    ]
    blocked = [blocked for transaction in mine for blocked in transaction.blocked if waited(blocked)]
    return mine, [*blocked, *filter(waited, result.hanging)]


def outside(result: TransactionReader, group: str, mine: Iterable[TransactionHistory]) -> list[TransactionRequest]:
    """The requests outside of transactions that concern a group with the transactions ``mine``: refused ones of the same ids, and those
    that a rule hit; without the group's own TxnOffsetCommits, which are among its commits."""
    names = {transaction.transactional_id for transaction in mine}
    return [
        request
        for name in result.ids
        if name in names
        for request in result.ids[name].requests
        if request.is_serious and not (request.call.api == "TxnOffsetCommit" and request.call.group == group)
    ]


def transactions(events: Iterable[Event], until_ms: int = 0) -> JournalTransactions:
    """Every transaction of a journal. ``until_ms``: the present time of a running cluster, if it is after the last event."""
    past = History("")
    around = ClusterEvents(past)
    reader, first_ms, last_ms = TransactionReader(around), None, 0
    for order, event in enumerate(events, 1):
        if isinstance(event, Mapping):
            ts_ms = number(event, "ts_ms")
            last_ms = max(last_ms, ts_ms or 0)
            if first_ms is None:
                first_ms = past.first_ms = last_ms
            around.take(event, last_ms, order)
            reader.take(event, last_ms, order)
    past.last_ms = last_ms = max(last_ms, until_ms)
    reader.finish(last_ms)
    return JournalTransactions(
        *(reader.transactions, reader.hanging, reader.states, reader.producers, reader.ids, around),
        first_ms or 0,
        last_ms,
    )


def _producers(owner: str, body: Event) -> Iterator[tuple[str, tuple[int, int] | None]]:
    """The transactional ids that a request names, each with its producer id and epoch."""
    named = [row for row in items(body, "transactions") if isinstance(row, Mapping)]
    for row in named:
        yield text(row, "transactional_id") or owner, _producer(row, "")
    if not named:
        yield owner, _producer(body, "") or _producer(body, "v3_and_below_")


def _producer(body: Event, prefix: str) -> tuple[int, int] | None:
    producer_id, epoch = number(body, f"{prefix}producer_id"), number(body, f"{prefix}producer_epoch")
    return None if producer_id is None or epoch is None or producer_id < 0 else (producer_id, epoch)


def _part(event: Event, owner: str) -> Event:
    """A response, of several transactions' the one about this."""
    body = table(event, "body")
    results = [row for row in items(body, "results_by_transaction") if isinstance(row, Mapping)]
    if len(results) <= 1:
        return event
    mine = {**body, "results_by_transaction": [row for row in results if text(row, "transactional_id") == owner]}
    errors = [row.error for row in rows(mine, {}) if row.error]
    return {**event, "body": mine, "error": errors[0] if errors else None}


def _is_of(request: TransactionRequest, transaction: TransactionHistory) -> bool:
    """Whether it is a request of the transaction's own producer."""
    if request.producer is not None:
        return request.producer == (transaction.producer_id, transaction.epoch)
    began = transaction.began_by
    return request.call.api == "Produce" and (began is None or began.is_client_of(request.sender))
