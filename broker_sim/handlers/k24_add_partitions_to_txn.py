"""AddPartitionsToTxn (24): the partitions that a transaction is going to write to.

v0-3 are a client's, with one transaction; v4+ come from brokers, with several, and may only ask whether the partitions are in them.
Where a partition of a transaction can't be written to none is added, and the others are told OPERATION_NOT_ATTEMPTED. v0 and v1 don't
know PRODUCER_FENCED.
Source: KafkaApis.handleAddPartitionsToTxnRequest.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from functools import partial

from broker_sim.common.slices import Pace
from broker_sim.coordinator.transaction.commands import AddPartitions
from broker_sim.handlers import fenced
from broker_sim.handlers.context import RequestContext
from broker_sim.metadata.topics import INTERNAL_TOPICS
from kafka_wire.errors import Err
from kafka_wire.messages.k24_add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

_BROKERS = 4
_KNOWS_FENCED = 2
_PIECE = 1000
"""Partitions, or transactions, that are looked at before others are served."""

Errors = Mapping[tuple[str, int], Err]
Response = AddPartitionsToTxnResponse


def handle(ctx: RequestContext, request: AddPartitionsToTxnRequest) -> Response | None:
    """The answer goes out with that of the last transaction; each has its place in the order in which it got its own."""
    if ctx.api_version >= _BROKERS:
        transactions = request.transactions
    else:
        transactions = [
            AddPartitionsToTxnTransaction(
                request.v3_and_below_transactional_id,
                request.v3_and_below_producer_id,
                request.v3_and_below_producer_epoch,
                topics=request.v3_and_below_topics,
            )
        ]
    response: Response | None = ctx.in_pieces(_add_all(ctx, transactions))
    return response


def _add_all(
    ctx: RequestContext, transactions: list[AddPartitionsToTxnTransaction]
) -> Generator[None, None, Response | None]:
    results: list[tuple[str, Errors]] = []

    def answered(transactional_id: str, errors: Errors) -> None:
        results.append((transactional_id, errors))
        if len(results) == len(transactions):
            ctx.reply_made(_response(ctx.api_version, results))

    if not transactions:
        return AddPartitionsToTxnResponse()
    pace = Pace(_PIECE)
    for one in transactions:
        if pace.full():
            yield
        partitions: dict[tuple[str, int], None] = {}
        refused: dict[tuple[str, int], Err] = {}
        for topic in one.topics:
            for index in topic.partitions:
                if pace.full():
                    yield
                partitions[topic.name, index] = None
                error = _refusal(ctx, topic.name, index)
                if error is not Err.NONE:
                    refused[topic.name, index] = error
        done = partial(answered, one.transactional_id)
        if refused:
            done({at: refused.get(at, Err.OPERATION_NOT_ATTEMPTED) for at in partitions})
        else:
            _add(ctx, one, list(partitions), done)
    return None


def _refusal(ctx: RequestContext, topic: str, index: int) -> Err:
    """Clients may not write to internal topics; a group's partition is added by AddOffsetsToTxn."""
    if topic in INTERNAL_TOPICS and ctx.api_version < _BROKERS:
        return Err.TOPIC_AUTHORIZATION_FAILED
    return Err.NONE if ctx.broker.state.partition(topic, index) is not None else Err.UNKNOWN_TOPIC_OR_PARTITION


def _add(
    ctx: RequestContext,
    one: AddPartitionsToTxnTransaction,
    partitions: list[tuple[str, int]],
    done: Callable[[Errors], None],
) -> None:
    coordinators = ctx.broker.transactions
    named = one.transactional_id != ""
    shard = coordinators.locate(ctx.broker, one.transactional_id) if named else Err.INVALID_REQUEST
    if isinstance(shard, Err):
        done(dict.fromkeys(partitions, shard))
        return
    body = AddPartitions(
        one.transactional_id,
        one.producer_id,
        one.producer_epoch,
        partitions,
        one.verify_only,
        client_version=2 if ctx.api_version >= _BROKERS else 0,
    )
    coordinators.ask(shard, ctx, body, done)


def _response(version: int, results: list[tuple[str, Errors]]) -> Generator[None, None, Response]:
    rows: list[AddPartitionsToTxnResult] = []
    pace = Pace(_PIECE)
    for transactional_id, errors in results:
        if pace.full():
            yield
        topics: dict[str, AddPartitionsToTxnTopicResult] = {}
        for (topic, index), error in errors.items():
            if pace.full():
                yield
            told = fenced.told(error, knows=version >= _KNOWS_FENCED)
            row = topics.setdefault(topic, AddPartitionsToTxnTopicResult(topic))
            row.results_by_partition.append(AddPartitionsToTxnPartitionResult(index, told))
        rows.append(AddPartitionsToTxnResult(transactional_id, list(topics.values())))
    if version >= _BROKERS:
        return AddPartitionsToTxnResponse(results_by_transaction=rows)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=rows[0].topic_results)
