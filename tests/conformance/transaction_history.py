"""Records in __transaction_state when the brokers of the profile "transactions-past" start: the past of their transactional ids.

As in history.py. An id is found by its `base`; producer ids are far above those that a broker hands out. Records of version 1 are in a
partition of their own: 3.x can't read them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from kafka_wire.messages.transaction_log import PartitionsSchema
from kafka_wire.transaction_log import TransactionLogValue, encode_key, encode_value
from tests.conformance.logs import offsets_partition
from tests.conformance.transactions import PARTITIONS, STATES, TRANSACTIONS

VERSION_1 = 3
LAST_EPOCH = 2**15 - 2
"""The last one that a producer is given (TransactionMetadata.isEpochExhausted)."""
_FIRST_PRODUCER_ID = 800_000
_LONG_MS = 600_000
_FLOWS = ("old", "new")


@dataclass
class PastId:
    """The record of one transactional id."""

    base: str
    state: str
    epoch: int
    partitions: tuple[tuple[str, int], ...] = ()
    version: int = 0
    timeout_ms: int = 60_000
    age_ms: int = 0
    next_producer: bool = False
    """Whether the id has a next producer id, another one to go on with."""
    producer_id: int = field(default=-1, init=False)
    log = TRANSACTIONS

    @property
    def transactional_id(self) -> str:
        """Transactional id that is in the right partition for the version."""
        names = (f"{self.base}-{number}" for number in range(1000))
        return next(name for name in names if (offsets_partition(name, PARTITIONS) == VERSION_1) is (self.version == 1))

    @property
    def partition(self) -> int:
        """Partition of the transactional id."""
        return offsets_partition(self.transactional_id, PARTITIONS)

    @property
    def records(self) -> list[tuple[bytes, bytes | None]]:
        """The one record of the transactional id."""
        then_ms = int(time.time() * 1000) - self.age_ms
        tagged: dict[str, Any] = {}
        if self.version == 1:
            tagged = {
                "client_transaction_version": 2,
                "previous_producer_id": self.producer_id,
                "next_producer_id": self.producer_id + 500 if self.next_producer else -1,
            }
        empty = self.state == "Empty"
        value = TransactionLogValue(
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            transaction_timeout_ms=self.timeout_ms,
            transaction_status=STATES.index(self.state),
            transaction_partitions=None if empty else [PartitionsSchema(name, [at]) for name, at in self.partitions],
            transaction_last_update_timestamp_ms=then_ms,
            transaction_start_timestamp_ms=-1 if empty else then_ms,
            **tagged,
        )
        return [(encode_key(self.transactional_id), encode_value(self.version, value))]


def transaction_history() -> Iterator[PastId]:
    """The past of the profile."""
    for number, past in enumerate(_past()):
        past.producer_id = _FIRST_PRODUCER_ID + number
        yield past


def _past() -> Iterator[PastId]:
    yield PastId("last-epoch-but-one", "Empty", LAST_EPOCH - 1)
    yield PastId("last-epoch-named", "Empty", LAST_EPOCH)
    yield PastId("last-epoch-fenced", "Empty", LAST_EPOCH)
    yield PastId("last-epoch-late", "Ongoing", LAST_EPOCH, (("t0", 1),), timeout_ms=1000, age_ms=_LONG_MS)
    for flow in _FLOWS:
        for ends in ("commit", "abort"):
            yield PastId(f"last-epoch-{flow}-{ends}", "Empty", LAST_EPOCH)
    yield PastId("last-epoch-abort-of-none", "Empty", LAST_EPOCH)
    yield PastId("open", "Ongoing", 5, (("t0", 1), ("t1", 0)))
    yield PastId("open-long-ago", "Ongoing", 5, (("t0", 1),), age_ms=_LONG_MS)
    for state in ("PrepareCommit", "PrepareAbort"):
        yield PastId(f"decided-{state}", state, 5, (("nowhere", 0), ("t1", 1)))
        yield PastId(f"decided-by-none-{state}", state, 5)
    yield PastId("decided-with-another-id", "PrepareCommit", LAST_EPOCH + 1, (("t1", 1),), 1, next_producer=True)
    yield PastId("decided-new", "PrepareAbort", 6, (("t1", 1),), 1)
    for state in ("CompleteCommit", "CompleteAbort"):
        for flow in _FLOWS:
            yield PastId(f"ended-{state}-{flow}", state, 7, (), int(flow == "new"))


def past_id(base: str) -> PastId:
    """The past of an id."""
    return next(past for past in transaction_history() if past.base == base)
