"""Verification of transactional writes by the transaction's coordinator, before they are appended (KIP-890).

A partition without records of the producer's transaction is verified. Clients up to Produce v11 and TxnOffsetCommit v4 have added it
themselves, and the coordinator answers whether it is in the transaction (transaction.partition.verification.enable; Kafka up to 3.4
doesn't ask). With Produce v12 and TxnOffsetCommit v5 the coordinator adds it, whatever that setting is. Meanwhile the batch is
deferred, and no later batch of its producer may overtake it (`ProducerState.verifying`). Since 4.0 the coordinator is not asked about a
producer that the partition knows to be fenced; before, not about one with an open transaction in it, of any epoch: the append refuses
fenced producers. Source: ReplicaManager.maybeSendPartitionsToTransactionCoordinator, UnifiedLog.maybeStartTransactionVerification,
AddPartitionsToTxnManager.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping

from broker_sim.coordinator.transaction.commands import AddPartitions
from broker_sim.handlers import fenced
from broker_sim.requests.context import RequestContext
from kafka_wire.errors import Err

Place = tuple[str, int]
"""Topic and partition."""


class Flow(enum.Enum):
    """The transaction flow of a request's version."""

    OLD = "a partition that isn't in the transaction is INVALID_TXN_STATE"
    ABORTABLE = "it is TRANSACTION_ABORTABLE"
    ADDS = "it is added"


OLD, ABORTABLE, ADDS = Flow.OLD, Flow.ABORTABLE, Flow.ADDS


Writer = tuple[str, int, int]
"""Producer that writes in a transaction: transactional id, producer id, epoch."""


def ask(
    ctx: RequestContext,
    writer: Writer,
    sequences: Mapping[Place, int],
    flow: Flow,
    done: Callable[[Mapping[Place, Err]], None],
) -> bool:
    """Verify partitions, given with the sequence number of the batch, with the transaction coordinator; ``done`` is called with those
    that are refused. Returns False, without a call, if no partition needs verification.
    """
    config, state = ctx.broker.state.config, ctx.broker.state
    if flow is not ADDS and not _verifies(ctx):
        return False
    by_epoch = config.release >= (4, 0)
    refused: dict[Place, Err] = {}
    requested: list[Place] = []
    _, producer_id, epoch = writer
    adds = flow is ADDS
    for place, sequence in sequences.items():
        partition = state.partition(*place)
        if partition is None or partition.leader != ctx.broker.node_id:
            continue  # refused for that, later
        producers = partition.log.producers
        known = producers.entries.get(producer_id)
        if by_epoch and known is not None and epoch < known.epoch:
            refused[place] = Err.INVALID_PRODUCER_EPOCH
        elif not producers.has_open(producer_id, epoch if by_epoch else None):
            producers.verify(producer_id, epoch, sequence, adds=adds, by_epoch=by_epoch)
            requested.append(place)
    if not requested:
        if refused:
            done(refused)
        return bool(refused)
    on_verified = done if not refused else lambda more: done({**refused, **more})
    _Verification(ctx, writer, requested, flow, on_verified).put()
    return True


def _verifies(ctx: RequestContext) -> bool:
    config = ctx.broker.state.config
    return config.release >= (3, 5) and config.bool("transaction.partition.verification.enable")


class _Verification:
    """A request to the coordinator; it is retried later while the last transaction's markers are pending."""

    def __init__(
        self,
        ctx: RequestContext,
        writer: Writer,
        places: list[Place],
        flow: Flow,
        done: Callable[[Mapping[Place, Err]], None],
    ) -> None:
        self.ctx, self.writer, self.places, self.flow, self.done = ctx, writer, places, flow, done
        self.began_ms = ctx.broker.state.clock.wire.now_ms()

    def put(self) -> None:
        transactional_id, producer_id, epoch = self.writer
        coordinators = self.ctx.coordinators.transactions
        shard = coordinators.leading(transactional_id)
        if isinstance(shard, Err):
            self._answered(dict.fromkeys(self.places, shard))
            return
        adds = self.flow is ADDS
        body = AddPartitions(
            transactional_id,
            producer_id,
            epoch,
            self.places,
            verify_only=not adds,
            client_version=2 if adds else 0,
        )
        coordinators.ask(shard, self.ctx, body, self._answered)

    def _answered(self, errors: Mapping[Place, Err]) -> None:
        if self.flow is ADDS and Err.CONCURRENT_TRANSACTIONS in errors.values():
            state = self.ctx.broker.state
            wire, config = state.clock.wire, state.config
            if wire.now_ms() < self.began_ms + config.int("add.partitions.to.txn.retry.backoff.max.ms"):
                wire.call_at_ms(wire.now_ms() + config.int("add.partitions.to.txn.retry.backoff.ms"), self.put)
                return
        self.done({place: self._client_error(error) for place, error in errors.items() if error})

    def _client_error(self, error: Err) -> Err:
        if error is Err.TRANSACTION_ABORTABLE and self.flow is OLD:
            return Err.INVALID_TXN_STATE
        # no version of Produce or TxnOffsetCommit says it: producers know what to do about the other one
        return fenced.client_error(error, knows=False)
