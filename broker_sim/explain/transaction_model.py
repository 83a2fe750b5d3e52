"""Data of a transactional id's history: its transactions, its requests that failed, the epochs of its producers. Times are ms of the
brokers' clock."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from broker_sim.explain.events import Call

if TYPE_CHECKING:
    from broker_sim.explain.model import Span

__all__ = [
    "FENCING",
    "NOT_ITS_OWN",
    "WORTH_TELLING_MS",
    "BlockedStableOffset",
    "EpochChange",
    "Marker",
    "Sender",
    "TransactionHistory",
    "TransactionRequest",
    "TransactionalId",
]

WORTH_TELLING_MS = 1000
"""A reader that waits less than that waits for any transaction, as it is meant to."""
FENCING = ("INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED", "INVALID_PRODUCER_ID_MAPPING")
"""Errors of a producer whose epoch or producer id is not the present one."""
NOT_ITS_OWN = ("fenced", "timed out")
"""Results that were not its producer's."""
RETRIED = {
    *("CONCURRENT_TRANSACTIONS", "COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR"),
    *("UNKNOWN_TOPIC_OR_PARTITION", "LEADER_NOT_AVAILABLE", "NOT_LEADER_OR_FOLLOWER"),
}
"""Errors after which a producer sends the same request again."""


@dataclass(slots=True)
class Sender:
    """The sender of a request: its API, client id, host and connection; without a connection it is the cluster's own process."""

    api: str
    client_id: str
    client_host: str
    connection: int | None = None

    @property
    def words(self) -> str:
        return self.client_id or "a client without an id"

    @property
    def is_inside(self) -> bool:
        """Whether no client sent it: `TransactionHandle.abort`, or the operation of the command line and of HTTP."""
        return self.connection is None and not self.client_host

    def is_client_of(self, other: Sender) -> bool:
        """Whether both are of a client with the same client id and host."""
        return (self.client_id, self.client_host) == (other.client_id, other.client_host)


@dataclass(slots=True)
class Marker:
    """Transaction marker for a partition. ``tries``: how often it was sent; ``error``: the last one."""

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
        """Whether records that came too late for their own transaction, which was over, were committed with the next one (KIP-890)."""
        return self.hangs and isinstance(self.ended_by, TransactionHistory) and self.ended_by.result == "commit"


@dataclass(slots=True, eq=False)
class TransactionRequest:
    """A request of a transactional id that was refused, was hit by a rule, or waited long. ``producer``: its producer id and epoch, if
    it has them; ``rules``: the rules that hit it; ``reason``: why it was refused, as a clause; ``spans``: states of logs meanwhile."""

    call: Call
    transactional_id: str
    sender: Sender
    producer: tuple[int, int] | None = None
    rules: list[str] = field(default_factory=list)
    reason: str = ""
    transaction: TransactionHistory | None = None
    spans: list[Span] = field(default_factory=list)
    order: int = 0

    @property
    def is_fenced(self) -> bool:
        return bool(self.call.errors & set(FENCING))

    @property
    def name(self) -> str:
        """``EndTxn (commit)``, ``TxnOffsetCommit for billing``."""
        return f"{self._api}{self._for}"

    @property
    def words(self) -> str:
        """``EndTxn (commit) of app-1``, ``TxnOffsetCommit of app-1 for billing``."""
        return f"{self._api} of {self.sender.words}{self._for}"

    @property
    def _api(self) -> str:
        committed = self.call.body.get("committed")
        if self.call.api == "EndTxn" and isinstance(committed, bool):
            return f"EndTxn ({'commit' if committed else 'abort'})"
        return self.call.api

    @property
    def _for(self) -> str:
        return f" for {self.call.group}" if self.call.group else ""

    def waited_ms(self, until_ms: int) -> int:
        """From its arrival to its response, or to ``until_ms``."""
        return (until_ms if self.call.answered_ms is None else self.call.answered_ms) - self.call.ts_ms

    @property
    def is_serious(self) -> bool:
        """Whether its client does not simply send it again, or a rule caused that."""
        return bool(self.rules) or self.call.action is not None or bool(self.call.errors - RETRIED)


@dataclass(slots=True)
class EpochChange:
    """An id got another epoch or producer id. ``how``: ``initialized``; ``fenced``, ``timed out``, ``commit``, ``abort``: it ended a
    transaction so; "": it was found."""

    ts_ms: int
    producer_id: int
    epoch: int
    how: str
    by: Sender | None = None
    order: int = 0


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
    requests: list[TransactionRequest] = field(default_factory=list)  # of its producer, that did not go well
    foreign_markers: list[tuple[int, Sender, str]] = field(default_factory=list)  # when, by which client, where
    last_request: TransactionRequest | None = None  # the last one of its producer before its end was decided
    connections: set[int] = field(default_factory=set)  # of its producer
    closed_ms: int | None = None  # when the last of them was closed, before its end was decided
    advanced_ms: list[int] = field(default_factory=list)  # the steps of the clock while it was open
    spans: list[Span] = field(default_factory=list)  # the states of its logs meanwhile
    reused: bool = False  # whether the client that fenced it has used the id afterwards
    order: int = 0

    @property
    def over(self) -> bool:
        return self.completed_ms is not None

    @property
    def fenced(self) -> list[tuple[int, Sender, str]]:
        """Fenced requests: time of the response, sender, and error."""
        return [
            (request.call.answered_ms or request.call.ts_ms, request.sender, min(request.call.errors & set(FENCING)))
            for request in self.requests
            if request.is_fenced
        ]

    def lasted_ms(self, until_ms: int) -> int | None:
        """From its beginning to its last marker, or to ``until_ms``."""
        return None if self.begun_ms is None else (self.completed_ms or until_ms) - self.begun_ms


@dataclass(slots=True, eq=False)
class TransactionalId:
    """The life of a transactional id. ``requests``: those that did not go well, outside of its transactions; ``ends``: when it ended,
    and how, as a sentence; ``hits``: faults that hit its requests, by their number."""

    transactional_id: str
    first_ms: int
    order: int
    log: str | None = None
    epochs: list[EpochChange] = field(default_factory=list)
    requests: list[TransactionRequest] = field(default_factory=list)
    ends: list[tuple[int, int, str]] = field(default_factory=list)
    expired_ms: int | None = None
    hits: list[str] = field(default_factory=list)
    last: TransactionHistory | None = None  # the last transaction that was decided
    not_stored: dict[int, str] = field(default_factory=dict)  # number of a request -> the log's error
