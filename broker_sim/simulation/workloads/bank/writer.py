"""A transactional producer that speaks the wire protocol itself, in both versions of transactions.

Version 1 adds its partitions and its group to a transaction before it writes; its epoch stays from one to the next. ``careful``, as
Java's since 2.5: where it has given up a request it takes a new epoch when the transaction is aborted (KIP-360); who is not goes on
with the sequence number that was not acknowledged, as the older ones. Version 2 just writes, and each transaction has an epoch of its
own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from broker_sim.simulation.workloads.bank.book import Attempt
from broker_sim.simulation.workloads.raw import GROUP, TOPIC, RawClient, RawConnection
from kafka_wire.api_keys import advertised
from kafka_wire.errors import Err
from kafka_wire.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_wire.messages.k10_find_coordinator import FindCoordinatorRequest
from kafka_wire.messages.k22_init_producer_id import InitProducerIdRequest
from kafka_wire.messages.k24_add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kafka_wire.messages.k25_add_offsets_to_txn import AddOffsetsToTxnRequest
from kafka_wire.messages.k26_end_txn import EndTxnRequest
from kafka_wire.messages.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kafka_wire.record_batch import TRANSACTIONAL_BIT, Record, encode_batch

__all__ = ["AbortableError", "FencedError", "TransactionalWriter"]

_VERSIONS: dict[int, dict[Any, tuple[int, int]]] = {
    1: {
        ProduceRequest: (3, 11),
        InitProducerIdRequest: (3, 5),
        AddPartitionsToTxnRequest: (0, 3),
        AddOffsetsToTxnRequest: (0, 3),
        EndTxnRequest: (0, 4),
        TxnOffsetCommitRequest: (3, 4),
    },
    2: {
        ProduceRequest: (12, 12),
        InitProducerIdRequest: (3, 5),
        EndTxnRequest: (5, 5),
        TxnOffsetCommitRequest: (5, 5),
    },
}
"""By the version of transactions, those that clients use; TxnOffsetCommit has the group's generation since v3 (KIP-447)."""

_FIND = 3
_TRANSACTION = 1
_PATIENCE_S, _GIVES_UP_S, _PAUSE_S = 1.2, 5.0, 0.1
_TRIES = 3
_LINGERS_S = 12.0
"""Time for which the connection of an abandoned request stays open, in seconds."""

_MOVED = {Err.NOT_COORDINATOR, Err.COORDINATOR_NOT_AVAILABLE}
_AGAIN = {
    *_MOVED, Err.COORDINATOR_LOAD_IN_PROGRESS, Err.CONCURRENT_TRANSACTIONS, Err.NOT_LEADER_OR_FOLLOWER,
    Err.UNKNOWN_TOPIC_OR_PARTITION, Err.NOT_ENOUGH_REPLICAS, Err.NOT_ENOUGH_REPLICAS_AFTER_APPEND, Err.REQUEST_TIMED_OUT,
    Err.KAFKA_STORAGE_ERROR, Err.NETWORK_EXCEPTION,
}  # fmt: skip
_UNSURE = {Err.REQUEST_TIMED_OUT, Err.NOT_ENOUGH_REPLICAS_AFTER_APPEND, *_MOVED}
"""Errors after which the request may still have been executed."""
_ABORTABLE = {
    Err.TRANSACTION_ABORTABLE, Err.INVALID_TXN_STATE, Err.MESSAGE_TOO_LARGE, Err.ILLEGAL_GENERATION,
    Err.UNKNOWN_MEMBER_ID, Err.FENCED_INSTANCE_ID, Err.REBALANCE_IN_PROGRESS, Err.UNKNOWN_SERVER_ERROR, Err.RECORD_LIST_TOO_LARGE,
    Err.OPERATION_NOT_ATTEMPTED,
}  # fmt: skip


class AbortableError(Exception):
    """The transaction can only be aborted."""


class FencedError(Exception):
    """The producer must begin anew."""


class TransactionalWriter:
    """See the module. What it asks goes over connections of its own."""

    def __init__(self, client: RawClient, transactional_id: str, flow: int, *, careful: bool, timeout_ms: int) -> None:
        self.client, self.transactional_id, self.flow, self.careful = client, transactional_id, flow, careful
        self.timeout_ms = timeout_ms
        self.producer_id, self.epoch = -1, -1
        self._sequences: dict[tuple[str, int], int] = {}
        self._added: set[tuple[str, int]] = set()
        self._coordinators: dict[int, int] = {}
        self._gave_up = False
        spoken = advertised(client.context.kafka.state.as_version)
        self._versions = {
            kind: client.rng.randint(low, min(high, spoken[kind.__spec__.api_key][1]))
            for kind, (low, high) in _VERSIONS[flow].items()
        }

    # --- asking

    async def _request(self, request: Any, broker: int, number: int) -> Any:
        """Send and wait for the response; who gets none leaves the connection as it is. Raises OSError."""
        if broker < 0:
            raise ConnectionRefusedError("no broker leads")
        line = await self.client.line(broker, number)
        version = _FIND if isinstance(request, FindCoordinatorRequest) else self._versions[type(request)]
        try:
            return await asyncio.wait_for(line.start(request, version), _PATIENCE_S)
        except TimeoutError:
            self.client.leave(broker, number)
            asyncio.get_running_loop().call_later(_LINGERS_S, _hang_up, line)
            raise

    async def _find(self, key: str, kind: int) -> int:
        """The node id of the coordinator of a transactional id or a group, -1 if no broker returns one. Raises OSError."""
        if kind not in self._coordinators:
            broker = self.client.rng.randint(1, len(self.client.context.kafka.hosts))
            answer = await self._request(FindCoordinatorRequest(key, kind), broker, 3)
            if answer.error_code:
                return -1
            self._coordinators[kind] = answer.node_id
        return self._coordinators[kind]

    async def _coordinator(
        self, attempt: Attempt | None, request: Any, error_of: Callable[[Any], int], kind: int = _TRANSACTION
    ) -> tuple[Err, Any]:
        """Ask a coordinator until it has a word to say; REQUEST_TIMED_OUT where it had none."""
        loop = asyncio.get_running_loop()
        until_s, unsure = loop.time() + _GIVES_UP_S, False
        while loop.time() < until_s:
            if attempt is not None:
                attempt.unanswered += 1
            try:
                broker = await self._find(self.transactional_id if kind == _TRANSACTION else GROUP, kind)
                answer = await self._request(request, broker, 2 + kind)
            except OSError:
                unsure = True
                self._coordinators.pop(kind, None)
            else:
                error = Err(error_of(answer))
                unsure = unsure or error in _UNSURE
                if attempt is not None:
                    attempt.unanswered -= 1
                if error not in _AGAIN:
                    if unsure:
                        self._doubts(attempt)  # the first of them may come yet
                    return error, answer
                if error in _MOVED:
                    self._coordinators.pop(kind, None)
            await asyncio.sleep(_PAUSE_S)
        self._doubts(attempt)
        return Err.REQUEST_TIMED_OUT, None

    def _doubts(self, attempt: Attempt | None) -> None:
        """Record that a request may come, or take effect, late."""
        self._gave_up = True
        if attempt is not None:
            attempt.given_up = True

    # --- a producer's life

    async def begin(self, *, goes_on: bool = False) -> None:
        """Get an epoch: a new producer, or one that ``goes_on`` and says which it had. Raises FencedError."""
        mine = (self.producer_id, self.epoch) if goes_on else (-1, -1)
        request = InitProducerIdRequest(self.transactional_id, self.timeout_ms, *mine)
        error, answer = await self._coordinator(None, request, _code)
        if error is not Err.NONE:
            raise FencedError(error.name)
        self._epoch(answer.producer_id, answer.producer_epoch)

    def _epoch(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self.producer_id, self.epoch):
            self._sequences.clear()
            self._gave_up = False
        self.producer_id, self.epoch = producer_id, epoch

    def opens(self, attempt: Attempt) -> None:
        """A transaction begins; who has given up a request under this epoch may meet it there."""
        attempt.given_up = self._gave_up
        self._added.clear()

    async def write(self, attempt: Attempt, topic: str, index: int, values: Sequence[bytes]) -> None:
        """One batch. Raises AbortableError, FencedError."""
        await self._add(attempt, topic, index)
        at, client = (topic, index), self.client
        sequence, now_ms = self._sequences.get(at, 0), client.context.kafka.state.clock.now_ms()
        data = encode_batch(
            [Record(number, now_ms, None, value) for number, value in enumerate(values)],
            producer_id=self.producer_id, producer_epoch=self.epoch, base_sequence=sequence, attributes=TRANSACTIONAL_BIT,
        )  # fmt: skip
        request = ProduceRequest(
            self.transactional_id,
            -1,
            1000,
            [TopicProduceData(topic, partition_data=[PartitionProduceData(index, data)])],
        )
        self._sequences[at] = sequence + len(values)
        unsure = False
        for _ in range(_TRIES):
            attempt.unanswered += 1
            partition = client.context.kafka.state.partition(topic, index)
            try:
                answer = await self._request(request, -1 if partition is None else partition.leader, 1)
            except OSError:
                unsure = True
            else:
                attempt.unanswered -= 1
                error = Err(answer.responses[0].partition_responses[0].error_code)
                unsure = unsure or error in _UNSURE
                if error is Err.NONE:
                    attempt.acked[at] = None
                    return
                if error not in _AGAIN:
                    self._not_written(attempt, at, sequence, unsure)
                    raise AbortableError(error.name) if error in _ABORTABLE else FencedError(error.name)
            await asyncio.sleep(_PAUSE_S)
        self._not_written(attempt, at, sequence, unsure)
        raise AbortableError("not acknowledged")

    def _not_written(self, attempt: Attempt, at: tuple[str, int], sequence: int, unsure: bool) -> None:
        self._sequences[at] = sequence
        if unsure:
            self._doubts(attempt)

    async def _add(self, attempt: Attempt, topic: str, index: int) -> None:
        if self.flow == 2 or (topic, index) in self._added:
            return
        request = AddPartitionsToTxnRequest(
            [], self.transactional_id, self.producer_id, self.epoch, [AddPartitionsToTxnTopic(topic, [index])]
        )
        error, _ = await self._coordinator(
            attempt,
            request,
            lambda answer: answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code,
        )
        _check(error)
        self._added.add((topic, index))

    async def commit_offsets(
        self, attempt: Attempt, offsets: Mapping[int, int], member: str, instance: str | None, generation: int
    ) -> None:
        """The group's next offsets, which carry the attempt's name. Raises AbortableError, FencedError."""
        if self.flow == 1:
            request = AddOffsetsToTxnRequest(self.transactional_id, self.producer_id, self.epoch, GROUP)
            error, _ = await self._coordinator(attempt, request, _code)
            _check(error)
        rows = [TxnOffsetCommitRequestPartition(index, offset, -1, attempt.name) for index, offset in offsets.items()]
        commit = TxnOffsetCommitRequest(
            self.transactional_id, GROUP, self.producer_id, self.epoch, generation, member, instance,
            [TxnOffsetCommitRequestTopic(TOPIC, partitions=rows)],
        )  # fmt: skip
        error, _ = await self._coordinator(
            attempt, commit, lambda answer: answer.topics[0].partitions[0].error_code, kind=0
        )
        _check(error)
        attempt.offsets.update(offsets)

    async def end(self, attempt: Attempt, *, commits: bool) -> None:
        """Commit or abort. Raises FencedError: it may have ended in any way."""
        request = EndTxnRequest(self.transactional_id, self.producer_id, self.epoch, commits)
        error, answer = await self._coordinator(attempt, request, _code)
        if error is Err.INVALID_TXN_STATE and not commits:
            error = Err.NONE  # nothing of it has reached the coordinator
        if error is not Err.NONE:
            raise FencedError(error.name)
        attempt.reported = commits
        if self.flow == 2 and answer is not None and answer.producer_id >= 0:
            self._epoch(answer.producer_id, answer.producer_epoch)
        elif self._gave_up and not commits and self.careful:
            await self.begin(goes_on=True)


def _code(answer: Any) -> int:
    code: int = answer.error_code
    return code


def _check(error: Err) -> None:
    """Raise what an error means."""
    if error is not Err.NONE:
        raise AbortableError(error.name) if error in _ABORTABLE or error in _AGAIN else FencedError(error.name)


def _hang_up(line: RawConnection) -> None:
    if not line.lost:
        line.close()
