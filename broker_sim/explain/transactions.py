"""What became of transactions: who began them, how they ended and by whom, how long it took, and which readers they blocked.

    found = transactions(events)               # every transaction of the journal, and what no coordinator knew of

It is read from the journal's events ``transaction``, ``marker``, ``pending_offsets`` and ``last_stable_offset``; requests have their
senders.
A reader waits where its last read_committed Fetch begins at the last stable offset while a transaction holds that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from broker_sim.common.answers import errors_of, named_topics
from broker_sim.explain.events import Event, items, names_in, number, table, text

__all__ = [
    "BlockedStableOffset",
    "JournalTransactions",
    "Marker",
    "TransactionHistory",
    "TransactionReader",
    "concern",
    "transactions",
]

WORTH_TELLING_MS = 1000
"""A reader that waits less than that waits for any transaction, as it is meant to."""
_FENCING = ("INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED", "INVALID_PRODUCER_ID_MAPPING", "INVALID_TXN_STATE")
_NOT_ITS_OWN = ("fenced", "timed out")
"""Results that were not its producer's."""


@dataclass(slots=True)
class Sender:
    """The sender of a request: its API, client id, host and connection."""

    api: str
    client_id: str
    client_host: str
    connection: int | None = None

    @property
    def words(self) -> str:
        return self.client_id or "a client without an id"


@dataclass(slots=True)
class Marker:
    """One on its way. ``tries``: how often it was sent; ``error``: the last one."""

    partition: str
    sent_ms: int
    written_ms: int | None = None
    tries: int = 0
    error: str | None = None


@dataclass(slots=True, eq=False)
class BlockedStableOffset:
    """A last stable offset that did not move. ``transaction``: whose; None where no coordinator knew of one: it hangs. ``readers``: who
    waited there, by client id, since when. ``ended_by``: the transaction whose marker ended it, or the client that sent one."""

    log: str
    offset: int
    from_ms: int
    producer_id: int | None
    transaction: TransactionHistory | None = None
    to_ms: int | None = None
    readers: dict[str, int] = field(default_factory=dict)
    ended_by: TransactionHistory | str | None = None
    order: int = 0

    @property
    def hangs(self) -> bool:
        return self.transaction is None

    @property
    def lost_abort(self) -> bool:
        """What came too late for its own transaction, which was over, was committed with the next one (KIP-890)."""
        return self.hangs and isinstance(self.ended_by, TransactionHistory) and self.ended_by.result == "commit"


@dataclass(slots=True, eq=False)
class TransactionHistory:
    """One transaction. Times are ms of the brokers' clock; ``begun_ms`` None where the journal begins later. ``result``: ``commit``,
    ``abort``, ``fenced``, ``timed out``, "" while it is open."""

    transactional_id: str
    log: str
    producer_id: int
    epoch: int
    begun_ms: int | None
    began_by: Sender | None = None
    timeout_ms: int | None = None
    partitions: list[str] = field(default_factory=list)
    pending_offsets: dict[str, dict[str, int]] = field(default_factory=dict)
    result: str = ""
    decided_ms: int | None = None
    ended_by: Sender | None = None
    completed_ms: int | None = None
    markers: dict[str, Marker] = field(default_factory=dict)
    blocked: list[BlockedStableOffset] = field(default_factory=list)
    refused: list[tuple[int, str, str]] = field(default_factory=list)  # when, the state that the log refused, its error
    found_ms: list[int] = field(default_factory=list)  # when another coordinator took it over
    fenced: list[tuple[int, Sender, str]] = field(default_factory=list)  # whom it was no longer theirs, and the error
    order: int = 0

    @property
    def over(self) -> bool:
        return self.completed_ms is not None

    def lasted_ms(self, until_ms: int) -> int | None:
        """From its beginning to its last marker, or to ``until_ms``."""
        return None if self.begun_ms is None else (self.completed_ms or until_ms) - self.begun_ms


@dataclass(slots=True)
class JournalTransactions:
    """All transactions of a journal, in the order in which they began."""

    transactions: list[TransactionHistory]
    hanging: list[BlockedStableOffset]
    states: dict[str, str]
    """Transactional id -> Kafka's name of its last state."""
    producers: dict[str, tuple[int, int]]
    """Transactional id -> its last (producer id, epoch): after a timeout the epoch that fenced the producer."""
    first_ms: int
    last_ms: int

    def of(self, transactional_id: str) -> list[TransactionHistory]:
        return [transaction for transaction in self.transactions if transaction.transactional_id == transactional_id]


class TransactionReader:
    """Reads them, event by event."""

    def __init__(self) -> None:
        self.transactions: list[TransactionHistory] = []
        self.hanging: list[BlockedStableOffset] = []
        self.states: dict[str, str] = {}
        self.producers: dict[str, tuple[int, int]] = {}
        self._open: dict[str, TransactionHistory] = {}
        self._last: dict[str, TransactionHistory] = {}
        self._blocked: dict[str, BlockedStableOffset] = {}
        self._asked: dict[int, tuple[Sender, str | None]] = {}
        self._position: dict[
            tuple[str, str], tuple[int, int]
        ] = {}  # of readers: (client id, partition) -> offset, since
        self._markers_of: Sender | None = None
        self._ts_ms = self._order = 0
        self._handlers = {
            "request": self._request,
            "response": self._response,
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

    # who asks

    def _request(self, event: Event) -> None:
        api, client = text(event, "api") or "?", text(event, "client_id") or ""
        owner = text(event, "transactional_id")
        body = table(event, "body")
        if owner is not None or api == "WriteTxnMarkers":
            who = Sender(api, client, text(event, "client_host") or "", number(event, "connection"))
            self._asked[number(event, "request") or 0] = who, owner
            if api == "WriteTxnMarkers":
                self._markers_of = who
        elif api == "Fetch" and number(body, "isolation_level") == 1:
            self._reads(client, body, named_topics(body, names_in(event, "topics")))

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
        asked = self._asked.pop(number(event, "request") or 0, None)
        error = next((code for code in errors_of(event) if code in _FENCING), None)
        if asked is None:
            return
        who, owner = asked
        if who is self._markers_of:
            self._markers_of = None
        if owner is None or error is None:
            return
        last = self._open.get(owner) or self._last.get(owner)
        if last is None or last.result not in _NOT_ITS_OWN:
            last = self._taken_from(who, owner)
        if last is not None:
            last.fenced.append((self._ts_ms, who, error))

    def _taken_from(self, who: Sender, owner: str) -> TransactionHistory | None:
        """The last transaction that was ended for this client: others may have come under the same id before it asks again."""
        for transaction in reversed(self.transactions):
            if (
                transaction.transactional_id == owner
                and transaction.result in _NOT_ITS_OWN
                and transaction.began_by is not None
            ):
                began = transaction.began_by
                if (began.client_id, began.client_host) == (who.client_id, who.client_host):
                    return transaction
        return None

    def _who(self, event: Event) -> Sender | None:
        asked = self._asked.get(number(table(event, "cause"), "request") or 0)
        return None if asked is None else asked[0]

    # what the coordinator does

    def _transaction(self, event: Event) -> None:
        name, action = text(event, "transactional_id"), text(event, "action")
        if name is None or action is None:
            return
        self.states[name] = text(event, "state") or ""
        current = self._open.get(name)
        if action == "refused":
            self.states.pop(name, None) if current is None else None
            if current is not None:
                current.refused.append((self._ts_ms, text(event, "state") or "", text(event, "error") or ""))
            return
        producer_id = number(event, "producer_id")
        if producer_id is not None and producer_id >= 0:  # not of `expired`
            self.producers[name] = producer_id, number(event, "epoch") or 0
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
        elif action == "completed":
            current.completed_ms = self._ts_ms
            del self._open[name]
            self._last[name] = current

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
        self.transactions.append(made)
        self._open[name] = made
        for blocked in self._blocked.values():  # as it was found: the logs are looked at before their coordinators
            if blocked.transaction is None and blocked.producer_id == made.producer_id and action == "found":
                self._give(blocked, made)
        return made

    def _marker(self, event: Event) -> None:
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
    """What concerns a group: the transactions that commit for it, those whose end its members (``clients``: their client ids) waited
    for long enough to be reported; and the last stable offsets at which they waited, of transactions that hang, too."""
    ours = set(clients)

    def waited(blocked: BlockedStableOffset) -> bool:
        return any(
            name in ours and (blocked.to_ms or until_ms) - since >= WORTH_TELLING_MS
            for name, since in blocked.readers.items()
        )

    mine = [
        transaction
        for transaction in result.transactions
        if group in transaction.pending_offsets or any(map(waited, transaction.blocked))
    ]
    blocked = [blocked for transaction in mine for blocked in transaction.blocked if waited(blocked)]
    return mine, [*blocked, *filter(waited, result.hanging)]


def transactions(events: Iterable[Event]) -> JournalTransactions:
    """Every transaction of a journal."""
    reader, first_ms, last_ms = TransactionReader(), None, 0
    for order, event in enumerate(events, 1):
        if isinstance(event, Mapping):
            ts_ms = number(event, "ts_ms")
            last_ms = max(last_ms, ts_ms or 0)
            first_ms = last_ms if first_ms is None else first_ms
            reader.take(event, last_ms, order)
    return JournalTransactions(
        reader.transactions, reader.hanging, reader.states, reader.producers, first_ms or 0, last_ms
    )
