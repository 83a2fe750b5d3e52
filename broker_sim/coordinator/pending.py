"""Writes of a shard that its log has not committed yet: the base of all shards, whatever they coordinate.

The life of a write:

1. A step requests its append (``out.appends``) and stores it by its ticket: `LogShard.writes` is in the order of the appends.
2. ``Appended`` gives it the offset of its last record, or fails it. If the record is committed already, the write is done at once;
   otherwise the timer ``("append", ticket)`` is armed.
3. ``Committed``: all writes below the high watermark are done, in their order, or fail with NOT_ENOUGH_REPLICAS_AFTER_APPEND.
4. The timer fails the write with REQUEST_TIMED_OUT.

A write that fails is answered with the error, and what was changed ahead of the log is reverted. But the records of 3 and 4 are in the
log, and those of 4 may still be committed. A coordinator of Kafka's CoordinatorRuntime applies what the log has, whatever became of the
request (`PendingWrite.counts_in_log`); one that waits for a delayed produce gives the records up until the next load.

A reply of a request that wrote nothing, and that must not overtake earlier writes, is a write without records (`LogShard.defer`).

Source: CoordinatorRuntime.java (DeferredEventQueue), ReplicaManager.appendRecords with TransactionStateManager.scala and, up to 3.x,
GroupMetadataManager.scala.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from broker_sim.coordinator.outcome import Appended, Outcome, TimerKey
from kafka_wire.errors import NO_ERROR, Err

S = TypeVar("S")


class PendingWrite(Generic[S]):
    """A write of a shard ``S``. ``last_offset``: the offset of its last record, -1 before it is appended; ``token``: the request that
    waits for it, None without one."""

    __slots__ = ("last_offset", "token")
    awaited = True
    """Whether the write may time out."""

    def __init__(self, token: int | None) -> None:
        self.token, self.last_offset = token, -1

    @property
    def count(self) -> int:
        """Number of its records."""
        return 1

    def done(self, shard: S) -> None:
        """The records are committed: apply them and answer the request."""
        raise NotImplementedError

    def failed(self, shard: S, error: Err) -> None:
        """Answer the request with ``error``, mapped for its client."""
        raise NotImplementedError

    def publish(self, shard: S) -> None:
        """Apply the records."""

    def revert(self, shard: S) -> None:
        """Undo what was changed ahead of the log."""

    def counts_in_log(self, shard: S) -> bool:
        """Whether records that are in the log are applied although the write has failed."""
        return False


W = TypeVar("W", bound=PendingWrite[Any])


@dataclass(slots=True, eq=False)
class LogShard(Generic[W]):
    """A shard whose state is in a log: its pending writes, its outcome, and the time of its step in ms."""

    writes: dict[int, W] = field(init=False, default_factory=dict)  # by ticket, in the order of their append
    unplaced: list[int] = field(
        init=False, default_factory=list
    )  # deferred replies that wait for an append of this step
    high_watermark: int = field(init=False, default=0)
    last_written: int = field(init=False, default=-1)  # the offset of the last appended record
    next_ticket: int = field(init=False, default=0)
    now_ms: int = field(init=False, default=0)
    out: Outcome = field(init=False, default_factory=Outcome)

    @property
    def append_timeout_ms(self) -> int:
        """Time within which an append must be committed."""
        raise NotImplementedError

    @property
    def in_flight(self) -> bool:
        """Whether a write or a deferred reply is pending."""
        return bool(self.writes)

    @property
    def is_behind(self) -> bool:
        """Whether records are appended, or about to be, that are not committed."""
        return self.last_written >= self.high_watermark or bool(self.out.appends)

    @property
    def next_high_watermark(self) -> int:
        """The high watermark at which the next record is committed: from it on readers see what this step does ahead of its record."""
        return self.last_written + 2

    # what a step does

    def reply(self, token: int | None, answer: Any) -> None:
        """Answer a request; without effect for the token None: no request waits any more."""
        if token is not None:
            self.out.replies.append((token, answer))

    def arm(self, key: TimerKey, delay_ms: int) -> None:
        """Arm a timer, or move it."""
        self.out.timers.append((key, self.now_ms + delay_ms))

    def cancel(self, key: TimerKey) -> None:
        """Disarm a timer, if it is armed."""
        self.out.timers.append((key, None))

    def ticket(self) -> int:
        """The ticket of the next append."""
        ticket = self.next_ticket
        self.next_ticket += 1
        return ticket

    def defer(self, reply: W) -> None:
        """Let ``reply`` wait for the append of this step, without one for the last append before."""
        ticket = self.ticket()
        self.writes[ticket] = reply
        if self.out.appends:
            self.unplaced.append(ticket)
        else:
            reply.last_offset = self.last_written
            self.arm(("append", ticket), self.append_timeout_ms)

    # results of the log

    def appended(self, event: Appended) -> None:
        """The append of one write, or of several that share a batch, was done or has failed."""
        error, last_offset = event.error, event.last_offset
        if error is NO_ERROR:
            self.last_written = last_offset
            if event.high_watermark > self.high_watermark:
                self.high_watermark = event.high_watermark
            if not event.more and not self.unplaced and last_offset < self.high_watermark:
                write = self.writes.pop(event.ticket)  # the usual case
                write.last_offset = last_offset
                write.done(self)
                return
            self._place(last_offset, (event.ticket, *event.more))
        unplaced, self.unplaced = self.unplaced, []
        for ticket in (event.ticket, *event.more, *unplaced):
            if error is not NO_ERROR:
                self.fail(ticket, error)
            elif last_offset < self.high_watermark:
                self.writes.pop(ticket).done(self)
            else:
                write = self.writes[ticket]
                if write.last_offset < 0:
                    write.last_offset = last_offset
                if write.awaited:
                    self.arm(("append", ticket), self.append_timeout_ms)

    def _place(self, last_offset: int, tickets: tuple[int, ...]) -> None:
        """Give each write of a batch the offset of its own last record."""
        for ticket in reversed(tickets):
            write = self.writes[ticket]
            write.last_offset = last_offset
            last_offset -= write.count

    def committed(self, high_watermark: int, error: Err) -> None:
        """The high watermark has advanced; ``error``: too few replicas are in sync."""
        self.high_watermark = max(self.high_watermark, high_watermark)
        for ticket, write in list(self.writes.items()):
            if 0 <= write.last_offset < self.high_watermark:
                self.cancel(("append", ticket))
                if error is NO_ERROR:
                    del self.writes[ticket]  # later ones are still pending while it is done
                    write.done(self)
                elif write.counts_in_log(self):
                    del self.writes[ticket]
                    write.publish(self)
                    write.failed(self, error)
                else:
                    self.fail(ticket, error)

    def append_timed_out(self, key: TimerKey) -> None:
        """A write was not committed in time."""
        ticket = int(key[1])
        write = self.writes.get(ticket)
        if write is None:
            return
        if not write.counts_in_log(self):
            del self.writes[ticket]
        write.failed(self, Err.REQUEST_TIMED_OUT)
        write.token = None

    def fail(self, ticket: int, error: Err) -> None:
        """A write's records are not in the log, or do not count."""
        write = self.writes.pop(ticket)
        write.failed(self, error)
        write.revert(self)

    def fail_pending(self) -> None:
        """The shard is unloaded: its partition has another leader."""
        for ticket in list(self.writes):
            self.fail(ticket, Err.NOT_LEADER_OR_FOLLOWER)
