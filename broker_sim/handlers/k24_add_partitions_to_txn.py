"""AddPartitionsToTxn (24): the partitions that a transaction is going to write to.

v0-3 are a client's, with one transaction; v4+ come from brokers, with several, and may only ask whether the partitions are in them.
If one partition of a transaction can't be written to, none is added, and the others get OPERATION_NOT_ATTEMPTED. v0 and v1 don't
know PRODUCER_FENCED.
Source: KafkaApis.handleAddPartitionsToTxnRequest.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from functools import partial

from broker_sim.common.slices import Pace
from broker_sim.coordinator.transaction.commands import AddPartitions
from broker_sim.handlers import fenced
from broker_sim.metadata.topics import INTERNAL_TOPICS
from broker_sim.requests.context import RequestContext
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
_ECHOES_SINCE = (3, 5)
"""Release since which Kafka repeats the request's topics, those without partitions included, if all partitions of a transaction have
one error (AddPartitionsToTxnRequest.errorResponseForTransaction); before, and if errors differ, it answers out of a map."""
_PIECE = 1000
"""Partitions, or transactions, that are looked at before others are served."""

Errors = Mapping[tuple[str, int], Err]
Result = tuple[AddPartitionsToTxnTransaction, Errors, bool]
"""A transaction, its partitions' errors, and whether each entry of the request has a row of its own."""
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
    results: list[Result] = []
    echoes = ctx.broker.state.config.release >= _ECHOES_SINCE

    def answered(requested: AddPartitionsToTxnTransaction, as_a_map: bool, errors: Errors) -> None:
        results.append((requested, errors, echoes and not as_a_map))
        if len(results) == len(transactions):
            ctx.reply_made(_response(ctx.api_version, results))

    if not transactions:
        return AddPartitionsToTxnResponse()
    pace = Pace(_PIECE)
    for transaction in transactions:
        if pace.full():
            yield
        partitions: dict[tuple[str, int], Err] = {}
        refused = False
        for topic in transaction.topics:
            if pace.full():
                yield
            for index in topic.partitions:
                if pace.full():
                    yield
                error = partitions[topic.name, index] = _refusal(ctx, topic.name, index)
                refused = refused or error is not Err.NONE
        done = partial(answered, transaction, refused or transaction.verify_only)
        if refused:
            for at, error in partitions.items():
                if pace.full():
                    yield
                if error is Err.NONE:
                    partitions[at] = Err.OPERATION_NOT_ATTEMPTED
            done(partitions)
        else:
            _add(ctx, transaction, list(partitions), done)
    return None


def _refusal(ctx: RequestContext, topic: str, index: int) -> Err:
    """Clients may not write to internal topics; a group's partition is added by AddOffsetsToTxn."""
    if topic in INTERNAL_TOPICS and ctx.api_version < _BROKERS:
        return Err.TOPIC_AUTHORIZATION_FAILED
    return Err.NONE if ctx.broker.state.partition(topic, index) is not None else Err.UNKNOWN_TOPIC_OR_PARTITION


def _add(
    ctx: RequestContext,
    transaction: AddPartitionsToTxnTransaction,
    partitions: list[tuple[str, int]],
    done: Callable[[Errors], None],
) -> None:
    coordinators = ctx.coordinators.transactions
    named = transaction.transactional_id != ""
    shard = coordinators.locate(ctx.broker, transaction.transactional_id) if named else Err.INVALID_REQUEST
    if isinstance(shard, Err):
        done(dict.fromkeys(partitions, shard))
        return
    body = AddPartitions(
        transaction.transactional_id,
        transaction.producer_id,
        transaction.producer_epoch,
        partitions,
        transaction.verify_only,
        client_version=2 if ctx.api_version >= _BROKERS else 0,
    )
    coordinators.ask(shard, ctx, body, done)


def _response(version: int, results: list[Result]) -> Generator[None, None, Response]:
    rows: list[AddPartitionsToTxnResult] = []
    pace = Pace(_PIECE)
    for transaction, errors, echoes in results:
        if pace.full():
            yield
        topics: list[AddPartitionsToTxnTopicResult] = []
        for name, partitions in _as_asked(transaction) if echoes else (yield from _by_topic(errors, pace)):
            if pace.full():
                yield
            row = AddPartitionsToTxnTopicResult(name)
            topics.append(row)
            for index in partitions:
                if pace.full():
                    yield
                error = fenced.client_error(errors[name, index], knows=version >= _KNOWS_FENCED)
                row.results_by_partition.append(AddPartitionsToTxnPartitionResult(index, error))
        rows.append(AddPartitionsToTxnResult(transaction.transactional_id, topics))
    if version >= _BROKERS:
        return AddPartitionsToTxnResponse(results_by_transaction=rows)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=rows[0].topic_results)


def _as_asked(transaction: AddPartitionsToTxnTransaction) -> Iterable[tuple[str, list[int]]]:
    return ((topic.name, topic.partitions) for topic in transaction.topics)


def _by_topic(errors: Errors, pace: Pace) -> Generator[None, None, Iterable[tuple[str, list[int]]]]:
    topics: dict[str, list[int]] = {}
    for topic, index in errors:
        if pace.full():
            yield
        topics.setdefault(topic, []).append(index)
    return topics.items()
