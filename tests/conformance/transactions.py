"""The hands of the conformance tests of transactions: a transactional producer, request by request, and what its coordinator wrote."""

from __future__ import annotations

import asyncio
from typing import Any

from kafka_wire.errors import Err
from kafka_wire.messages.k10_find_coordinator import FindCoordinatorRequest
from kafka_wire.messages.k22_init_producer_id import InitProducerIdRequest
from kafka_wire.messages.k24_add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kafka_wire.messages.k25_add_offsets_to_txn import AddOffsetsToTxnRequest
from kafka_wire.messages.k26_end_txn import EndTxnRequest
from kafka_wire.messages.k65_describe_transactions import DescribeTransactionsRequest
from kafka_wire.record_batch import batches, records
from kafka_wire.transaction_log import decode_key, decode_value
from tests.conformance.driver import GIVE_UP_S, POLL_S, Kafka, clock_s
from tests.conformance.logs import fetch_all, offsets_partition

TRANSACTIONS = "__transaction_state"
PARTITIONS = 4
STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")
Id = tuple[int, int]
"""Producer id and epoch."""

NOBODY: Id = (-1, -1)
_NOT_YET = (
    Err.COORDINATOR_LOAD_IN_PROGRESS,
    Err.COORDINATOR_NOT_AVAILABLE,
    Err.NOT_COORDINATOR,
    Err.CONCURRENT_TRANSACTIONS,
)


class Producer:
    """A transactional id of the test's own; ``id`` is what it was given last."""

    def __init__(self, kafka: Kafka, name: str = "", timeout_ms: int = 60_000) -> None:
        self.kafka = kafka
        self.name = kafka.name(name) if name else kafka.group
        self.timeout_ms = timeout_ms
        self.id: Id = NOBODY

    async def begin(self, *, deadline_s: float = GIVE_UP_S) -> Producer:
        """Wait for the coordinator and get an id (not recorded): the next epoch, once no transaction is open or being ended."""
        watch, give_up = self.kafka.watch, clock_s() + deadline_s
        while True:
            found = await watch(FindCoordinatorRequest(key_type=1, coordinator_keys=[self.name]), 4)
            taken = await watch(InitProducerIdRequest(None, 1000), 4)
            # producer id 0 would look like none in what is recorded
            if found.coordinators[0].error_code == Err.NONE and taken.producer_id >= 0:
                answer = await watch(InitProducerIdRequest(self.name, self.timeout_ms), 4)
                if answer.error_code == Err.NONE:
                    self.id = answer.producer_id, answer.producer_epoch
                    return self
                assert answer.error_code in _NOT_YET, Err(answer.error_code)
            if clock_s() > give_up:
                raise TimeoutError(f"waited {deadline_s} s for {self.name} to be initialised")
            await asyncio.sleep(POLL_S)

    def neighbour(self) -> str:
        """An id that nobody has, in its own partition: the coordinator of that is there."""
        names = (f"{self.kafka.group}-{number}" for number in range(1000))
        own = offsets_partition(self.name, PARTITIONS)
        return next(name for name in names if offsets_partition(name, PARTITIONS) == own)

    def epoch(self, by: int) -> Id:
        """Return the producer's id with another epoch."""
        return self.id[0], self.id[1] + by

    async def init(self, own: Id = NOBODY, *, version: int = 4, timeout_ms: int | None = None) -> tuple[Err, int]:
        """InitProducerId: the error and the epoch. Where there is none ``id`` is what was given."""
        request = InitProducerIdRequest(self.name, self.timeout_ms if timeout_ms is None else timeout_ms, *own)
        answer = await self.kafka.ask(request, version)
        if answer.error_code == Err.NONE:
            self.id = answer.producer_id, answer.producer_epoch
        return Err(answer.error_code), answer.producer_epoch

    async def add(self, *at: tuple[str, int], own: Id | None = None, version: int = 3) -> dict[tuple[str, int], Err]:
        """AddPartitionsToTxn as clients send it."""
        own = self.id if own is None else own
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=own[0],
            v3_and_below_producer_epoch=own[1],
            v3_and_below_topics=_topics(at or (("t0", 0),)),
        )
        answer = await self.kafka.ask(request, version)
        return {
            (topic.name, row.partition_index): Err(row.partition_error_code)
            for topic in answer.results_by_topic_v3_and_below
            for row in topic.results_by_partition
        }

    async def add_one(self, own: Id | None = None, version: int = 3) -> Err:
        """The same of t0-0."""
        return (await self.add(own=own, version=version))["t0", 0]

    def asks(self, *at: tuple[str, int], own: Id | None = None, verify: bool = True) -> AddPartitionsToTxnTransaction:
        """Entry for this id in a broker's request, AddPartitionsToTxn v4+."""
        own = self.id if own is None else own
        return AddPartitionsToTxnTransaction(self.name, *own, verify, _topics(at))

    async def offsets(self, group: str, *, own: Id | None = None, version: int = 3) -> Err:
        """AddOffsetsToTxn."""
        request = AddOffsetsToTxnRequest(self.name, *(self.id if own is None else own), group)
        return Err((await self.kafka.ask(request, version)).error_code)

    async def end(self, commit: bool = True, *, own: Id | None = None, version: int) -> Err:
        """EndTxn; from v5 on ``id`` is what the answer tells, where it is no error."""
        answer = await self.kafka.ask(self.ending(commit, self.id if own is None else own), version)
        if version >= 5 and answer.error_code == Err.NONE:
            self.id = answer.producer_id, answer.producer_epoch
        return Err(answer.error_code)

    def ending(self, commit: bool, own: Id) -> EndTxnRequest:
        """EndTxn under any producer id and epoch."""
        return EndTxnRequest(self.name, *own, commit)

    async def state(self) -> Any:
        """As DescribeTransactions shows it."""
        return (await self.kafka.ask(DescribeTransactionsRequest([self.name]), 0)).transaction_states[0]

    async def until(self, *states: str, deadline_s: float = GIVE_UP_S) -> str:
        """Polls until it is in one of these states (not recorded)."""
        give_up = clock_s() + deadline_s
        while True:
            answer = await self.kafka.watch(DescribeTransactionsRequest([self.name]), 0)
            seen: str = answer.transaction_states[0].transaction_state
            if seen in states:
                return seen
            if clock_s() > give_up:
                raise TimeoutError(f"waited {deadline_s} s for {self.name} to be {' or '.join(states)}; it is {seen}")
            await asyncio.sleep(POLL_S)

    async def reach(self, state: str, version: int) -> None:
        """Bring a fresh one into a state, by EndTxn of that version (not recorded)."""
        await self.begin()
        if state == "Empty":
            return
        recording, self.kafka.recording.exchanges = self.kafka.recording.exchanges, []
        try:
            assert await self.add_one() is Err.NONE
            if state != "Ongoing":
                assert await self.end(state == "CompleteCommit", version=version) is Err.NONE
                await self.until(state)
        finally:
            self.kafka.recording.exchanges = recording

    async def log(self, last: str | None = None) -> list[dict[str, Any]]:
        """Records that the coordinator has written for the id (noted, to be compared); ``last``: the state to wait for. The first
        producer id is 0 there, others are numbered."""
        if last is not None:
            await self.until(last)
        rows: list[dict[str, Any]] = []
        data = await fetch_all(self.kafka.watch, TRANSACTIONS, offsets_partition(self.name, PARTITIONS))
        for at, header in batches(data):
            for record in records(data, at, header):
                assert record.key is not None
                assert record.value is not None
                key = decode_key(record.key)
                if key is not None and key.transactional_id == self.name:
                    rows.append(_row(record.value, header.record_count))
        named: dict[int, int | str] = {-1: -1, rows[0]["producer_id"]: 0}
        for row in rows:
            for field in ("producer_id", "previous_producer_id", "next_producer_id"):
                row[field] = named.setdefault(row[field], f"another {len(named) - 1}")
        self.kafka.recording.note(f"records of {TRANSACTIONS}", rows)
        return rows


def _row(value: bytes, together: int) -> dict[str, Any]:
    read = decode_value(value)
    topics = None
    if read.transaction_partitions is not None:
        topics = sorted([topic.topic, sorted(topic.partition_ids)] for topic in read.transaction_partitions)
    return {
        "version": int.from_bytes(value[:2], "big"),
        "together": together,
        "state": STATES[read.transaction_status],
        "epoch": read.producer_epoch,
        "partitions": topics,
        "timeout_ms": read.transaction_timeout_ms,
        "started": read.transaction_start_timestamp_ms >= 0,
        "client_version": read.client_transaction_version,
        "producer_id": read.producer_id,
        "previous_producer_id": read.previous_producer_id,
        "next_producer_id": read.next_producer_id,
    }


def _topics(at: tuple[tuple[str, int], ...]) -> list[AddPartitionsToTxnTopic]:
    topics: dict[str, AddPartitionsToTxnTopic] = {}
    for topic, index in at:
        topics.setdefault(topic, AddPartitionsToTxnTopic(topic)).partitions.append(index)
    return list(topics.values())
