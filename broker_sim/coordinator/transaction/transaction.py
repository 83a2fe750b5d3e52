"""A transactional id: its committed state (`Stored`), and its working state (`Transaction`)."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

NO_PRODUCER_ID = -1
NO_EPOCH = -1
NEVER_MS = -1
LAST_EPOCH = 2**15 - 2
"""The last epoch that a producer is given: one more is left for the marker that fences it."""

Partition = tuple[str, int]


class State(enum.IntEnum):
    """By the numbers that the log has for them (TransactionState.java)."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def kafka_name(self) -> str:
        """The state's name in Kafka's responses: ``CompleteCommit``."""
        return "".join(map(str.capitalize, self.name.split("_")))


EMPTY, ONGOING = State.EMPTY, State.ONGOING
PREPARE_COMMIT, PREPARE_ABORT = State.PREPARE_COMMIT, State.PREPARE_ABORT
COMPLETE_COMMIT, COMPLETE_ABORT = State.COMPLETE_COMMIT, State.COMPLETE_ABORT
"""The states as names of the module: as attributes of their class they cost as much as a call (see `kafka_wire.errors.NO_ERROR`)."""

DECIDED = (PREPARE_COMMIT, PREPARE_ABORT)
"""The decision is in the log; markers are pending at its partitions."""

CLOSED = (EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT)
"""No transaction is open."""


@dataclass(slots=True)
class Stored:
    """One record of the log, never changed. ``client_version`` is the flow of the client that wrote to it last (KIP-890): 0, or 2 where
    every transaction ends with a new epoch. ``started_ms`` is -1 before the first transaction."""

    producer_id: int
    epoch: int
    timeout_ms: int
    state: State
    partitions: tuple[Partition, ...] = ()
    updated_ms: int = 0
    started_ms: int = NEVER_MS
    client_version: int = 0
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID


@dataclass(slots=True, eq=False)
class Transaction:
    """A transactional id at its coordinator. Only the store writes ``stored``; the rest is working state and is lost with the shard.

    ``last_epoch``: the producer's epoch before the present one, which it may use once more (KIP-360); ``last_producer_id``: the same
    for its id. ``last_start_ms``: when its last transaction began. ``fenced_epoch``: the lowest accepted epoch after a fence, also if
    its append failed (KAFKA-9666: otherwise every attempt would increment the epoch again). ``pending``: a transition whose record is
    pending; other requests are answered CONCURRENT_TRANSACTIONS meanwhile.
    """

    transactional_id: str
    stored: Stored
    last_epoch: int = NO_EPOCH
    last_producer_id: int = NO_PRODUCER_ID
    fenced_epoch: int | None = None
    pending: Stored | None = None
    last_start_ms: int = NEVER_MS
    unmarked: dict[Partition, int | None] = field(default_factory=dict)
    """Partitions whose marker has not been written, with the ticket of the attempt that is under way."""

    @property
    def epoch(self) -> int:
        """The one that producers are measured by."""
        return self.stored.epoch if self.fenced_epoch is None else self.fenced_epoch

    @property
    def is_exhausted(self) -> bool:
        """Whether its producer id has no epoch left to give."""
        return self.epoch >= LAST_EPOCH
