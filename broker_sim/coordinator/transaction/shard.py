"""One shard: the transactional ids of one ``__transaction_state`` partition, stepped by events.

Rules, in addition to those of ``coordinator.outcome``:

1. Hard state is `transaction.Stored`, and only the store writes it, when a record is committed. A transactional id has at most one
   pending transition; other requests meanwhile are answered CONCURRENT_TRANSACTIONS.
2. Once PrepareCommit or PrepareAbort is committed the transaction ends that way: its client is answered, a marker is appended to each
   partition, with retries, and then the completion is appended to the log. A load continues from the log.
3. An append that times out is given up, and its client may retry; if it is committed nevertheless it only counts at the next load
   (TransactionStateManager). Appends that no request waits for are never given up.
4. An event that takes a producer id has no effect but asking for one (``AllocateProducerId``), and is applied when it comes.
"""

from __future__ import annotations

from collections.abc import Callable

from broker_sim.coordinator.outcome import (
    AllocateProducerId,
    Appended,
    AppendedElsewhere,
    Committed,
    Elected,
    Event,
    Outcome,
    ProducerIdAllocated,
    Request,
    TimerFired,
    TimerKey,
)
from broker_sim.coordinator.transaction import ending, expiry, opening
from broker_sim.coordinator.transaction.commands import AddPartitions, EndTransaction, InitProducerId
from broker_sim.coordinator.transaction.state import NeedsProducerId, TransactionState
from broker_sim.coordinator.transaction.store import TransactionStore


class TransactionShard(TransactionState):
    """The coordinator of one partition of ``__transaction_state``."""

    __slots__ = ()

    def step(self, event: Event, now_ms: int) -> Outcome:
        """Apply one event. Returns timers, appends and replies."""
        self.now_ms = now_ms
        self.out = Outcome()
        if type(event) is ProducerIdAllocated:
            self.allocated, event = event.producer_id, event.event
        try:
            self._apply(event)
        except NeedsProducerId:
            assert isinstance(event, (Request, TimerFired))
            self.out.requests = (AllocateProducerId(event),)
        self.allocated = None
        return self.out

    def _apply(self, event: Event) -> None:
        if type(event) is Request:
            self._request(event.token, event.body)
        elif type(event) is TimerFired:
            _TIMERS[event.key[0]](self, event.key)
        elif type(event) is Appended:
            self.appended(event)
        elif type(event) is Committed:
            self.committed(event.high_watermark, event.error)
        elif type(event) is AppendedElsewhere:
            ending.marked(self, event.ticket, event.error)
        elif type(event) is Elected:
            self.leader_epoch = event.leader_epoch

    def _request(self, token: int, body: object) -> None:
        match body:
            case AddPartitions():
                opening.add_partitions(self, token, body)
            case EndTransaction():
                ending.end_transaction(self, token, body)
            case InitProducerId():
                opening.init_producer_id(self, token, body)
            case _:
                raise TypeError(f"no request of the transaction coordinator: {body!r}")

    def start(self, store: TransactionStore, now_ms: int) -> Outcome:
        """Start from the loaded log: open transactions get their timeouts, decided ones are completed."""
        self.now_ms = self.began_ms = now_ms
        out = self.out = Outcome()
        self.store = store
        for transaction in store.transactions.values():
            ending.resume(self, transaction)
        expiry.arm(self)
        return out

    def stop(self) -> Outcome:
        """Unload the shard: pending requests are answered NOT_COORDINATOR."""
        out = self.out = Outcome()
        self.fail_pending()
        self.markers.clear()
        self.store = TransactionStore()
        out.timers.clear()  # all of them end with it
        out.appends.clear()
        return out


_TIMERS: dict[str | int, Callable[[TransactionShard, TimerKey], None]] = {
    "append": TransactionShard.append_timed_out,
    "timeout": ending.timed_out,
    "markers": ending.try_again,
    "expire": expiry.expire,
}

TIMERS = tuple(str(kind) for kind in _TIMERS)
"""The kinds of timers that a shard arms: the first items of their keys."""
