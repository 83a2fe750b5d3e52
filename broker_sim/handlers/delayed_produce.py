"""Responses that wait until appended records are committed: those of Produce with acks=-1 and of WriteTxnMarkers.

Source: DelayedProduce.scala, Partition.checkEnoughReplicasReachOffset.
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from broker_sim.metadata.cluster_state import Partition
from broker_sim.requests.context import RequestContext
from kafka_wire.errors import Err


class Row(Protocol):
    """The row of a partition in a response."""

    error_code: int


R = TypeVar("R")


class DelayedProduce(Generic[R]):
    """A response some of whose records are not committed yet. ``waiting``: their partitions, the offset after the last record, and the
    row of the response, which gets an error and otherwise stays as it is: the records are in the log all the same."""

    def __init__(self, ctx: RequestContext, response: R, waiting: list[tuple[Partition, int, Row]]) -> None:
        self.ctx, self.response, self.waiting = ctx, response, waiting
        self.partitions = [partition for partition, _, _ in waiting]

    def start(self, timeout_ms: int) -> R | None:
        """The response if it is complete; None if it is given later: when the records are committed, or after the timeout."""
        self._look()
        if self.waiting and timeout_ms <= 0:
            self._expire()
        if not self.waiting:
            return self.response
        clock = self.ctx.broker.state.clock
        self.timer = clock.call_at_ms(clock.now_ms() + timeout_ms, self._timed_out)
        for partition in self.partitions:
            partition.add_waiter(self._changed)
        self.ctx.on_disconnect(self._stop)
        return None

    def _look(self) -> None:
        """Complete the rows of partitions whose outcome is known."""
        still: list[tuple[Partition, int, Row]] = []
        for partition, end, row in self.waiting:
            error = partition.outcome(end, self.ctx.broker.node_id)
            if error is None:
                still.append((partition, end, row))
            elif error is not Err.NONE:
                row.error_code = error
            elif len(partition.isr) < self.ctx.broker.state.min_isr(partition):
                row.error_code = Err.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        self.waiting = still

    def _changed(self) -> None:
        self._look()
        if not self.waiting:
            self._reply()

    def _timed_out(self) -> None:
        self._expire()
        self._reply()

    def _expire(self) -> None:
        for _, _, row in self.waiting:
            row.error_code = Err.REQUEST_TIMED_OUT
        self.waiting = []

    def _reply(self) -> None:
        self._stop()
        self.ctx.reply(self.response)

    def _stop(self) -> None:
        self.timer.cancel()
        for partition in self.partitions:
            partition.remove_waiter(self._changed)
