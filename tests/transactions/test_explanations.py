"""The explanation of a transactional id: what was refused and why, which faults and clock steps delayed it, and who ended it."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from broker_sim import Cluster
from broker_sim.explain import explain
from broker_sim.explain.picture import html
from broker_sim.explain.transaction_text import explain_transactions
from broker_sim.journal import problems
from broker_sim.journal.files import plain
from broker_sim.pipeline.transaction_logs import rows_of_journal
from kafka_wire.errors import Err
from kafka_wire.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafka_wire.messages.k13_leave_group import LeaveGroupRequest, MemberIdentity
from kafka_wire.messages.k14_sync_group import SyncGroupRequest
from kafka_wire.messages.k22_init_producer_id import InitProducerIdRequest
from kafka_wire.messages.k24_add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kafka_wire.messages.k25_add_offsets_to_txn import AddOffsetsToTxnRequest
from kafka_wire.messages.k26_end_txn import EndTxnRequest
from kafka_wire.messages.k27_write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kafka_wire.messages.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kafka_wire.messages.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.support.wire import Wire
from tests.transactions.test_cluster import DATA, TX, Client, cluster
from tests.transactions.test_handles import hanging
from tests.transactions.test_journal import GROUP, end, produce, stage


def words(kafka: Cluster, transactional_id: str | None = TX) -> str:
    return " ".join(text_of(kafka, transactional_id).split())


def text_of(kafka: Cluster, transactional_id: str | None = TX) -> str:
    """Each paragraph on a line of its own."""
    return explain_transactions(kafka.journal.events, transactional_id, 10_000, kafka.state.clock.now_ms())


def told(kafka: Cluster, start: str) -> list[str]:
    """The paragraphs that begin with these words, without their time."""
    lines = text_of(kafka).splitlines()
    return [line[14:] for line in lines if line[14:].startswith(start)]


@asynccontextmanager
async def client(kafka: Cluster, name: str) -> AsyncIterator[Client]:
    """Client on a connection of its own."""
    wire = await Wire.connect(kafka.bootstrap, client_id=name)
    try:
        yield Client(wire)
    finally:
        await wire.close()


@asynccontextmanager
async def unanswered(request: Coroutine[Any, Any, Any]) -> AsyncIterator[None]:
    """A request under way; its client gives up in the end."""
    task = asyncio.ensure_future(request)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


# --- faults, states, the clock -------------------------------------------------------------------------------------------

RULES: dict[str, tuple[str, dict[str, Any], str]] = {
    "a hanging EndTxn": ("EndTxn", {"hang": True}, "held back the EndTxn (commit) that wire had sent after 0 ms"),
    "a dropped EndTxn": ("EndTxn", {"drop": True}, "dropped the EndTxn (commit) that wire had sent after 0 ms"),
    "a refused EndTxn": (
        "EndTxn",
        {"error": "COORDINATOR_NOT_AVAILABLE"},
        "answered the EndTxn (commit) that wire had sent after 0 ms with COORDINATOR_NOT_AVAILABLE",
    ),
    "an EndTxn that arrives late": ("EndTxn", {"delay": "40s"}, "held back the EndTxn (commit) that wire had sent"),
    "a hanging Produce": ("Produce", {"hang": True}, "held back the Produce that wire had sent after 0 ms"),
    "a hanging TxnOffsetCommit": (
        "TxnOffsetCommit",
        {"hang": True},
        f"held back the TxnOffsetCommit for {GROUP} that wire had sent after 0 ms",
    ),
}


@pytest.mark.parametrize("name", RULES)
async def test_a_rule_that_hit_a_request_is_the_cause_of_a_timeout(name: str) -> None:
    api, rule, clause = RULES[name]
    async with cluster(clock="manual") as (kafka, producer):
        kafka.observe()
        kafka.offsets_log(GROUP)
        assert [await producer.init(20_000), await producer.add()] == [Err.NONE] * 2
        kafka.fault(api, transactional_id=TX, **rule)
        ask = {
            "EndTxn": end(producer, commit=True),
            "Produce": produce(producer),
            "TxnOffsetCommit": stage(producer, 3),
        }
        request = ask.pop(api)
        for other in ask.values():
            other.close()
        async with unanswered(request):
            await kafka.journal.next(event="fault", since=0)
            for step in ("15s", "30s"):
                await kafka.time.advance(step)
            await kafka.transaction(TX).state_is("CompleteAbort")
            text = words(kafka)
            fault = f'the fault "{api} transactional_id={TX}: '
            assert f"timeout of 20 s, after 30 s: {fault}" in text
            assert f'" {clause}' in text
            assert "; the clock was advanced by 45 s in 2 steps meanwhile." in text
            assert f'  The fault "{api}' in text_of(kafka)
            (row,) = rows_of_journal(json.dumps(event, default=plain).encode() for event in kafka.journal.events)
            assert row["cause"] in text, "the pipeline names the same cause"
            assert clause in row["cause"]


async def test_a_hanging_request_before_any_transaction_is_part_of_the_history() -> None:
    """With transaction version 2 a transaction begins with its first write: if a rule keeps that, none begins."""
    async with cluster(clock="manual") as (kafka, producer):
        kafka.observe()
        assert await producer.init() is Err.NONE
        kafka.fault("Produce", transactional_id=TX, hang=True)
        async with unanswered(produce(producer)):
            await kafka.journal.next(event="fault", since=0)
            await kafka.time.advance("45s")
            (line,) = told(kafka, "Produce of wire")
            assert line.startswith('Produce of wire has no response after 45 s: the fault "Produce ')
            assert "0 transactions" in words(kafka)


async def test_a_transaction_without_a_fault_timed_out_after_its_producers_last_request() -> None:
    async with cluster(clock="manual") as (kafka, producer):
        kafka.observe()
        assert [await producer.init(20_000), await produce(producer)] == [Err.NONE] * 2
        await kafka.time.advance("30s")
        last = "the last request of wire was a Produce after 0 ms"
        assert f": {last}; it stayed connected and sent no EndTxn; the clock was advanced by 30 s meanwhile." in words(
            kafka
        )
        async with client(kafka, "dies") as dying:
            while await dying.init(20_000) is Err.CONCURRENT_TRANSACTIONS:
                pass
            assert await produce(dying) is Err.NONE
        await kafka.journal.next(event="connection", action="closed", since=0)
        await kafka.time.advance("30s")
        last = "the last request of dies was a Produce after 0 ms, and it closed its connections after 0 ms without an EndTxn"
        assert f": {last}; the clock was advanced by 30 s meanwhile." in words(kafka)


async def test_the_states_of_logs_that_a_transaction_met() -> None:
    async with cluster(clock="manual") as (kafka, producer):
        kafka.observe()
        assert [await producer.init(), await produce(producer)] == [Err.NONE] * 2
        log = kafka.log("__transaction_state")
        log.stuck()
        async with unanswered(end(producer, commit=True)):
            await kafka.journal.next("EndTxn", since=0)
            for _ in range(16):
                await kafka.time.advance("2s")
            text = words(kafka)
            assert (
                "The EndTxn (commit) of wire was answered COORDINATOR_NOT_AVAILABLE after 30 s, 30 s after it had"
                in text
            )
            refused = "the log __transaction_state-0 refused the record (REQUEST_TIMED_OUT)"
            assert f"arrived: {refused}; __transaction_state-0 was stuck." in text
            assert "Meanwhile __transaction_state-0 was stuck for 32 s." in text
            assert "The clock was advanced by 32 s in 16 steps." in text
            log.heal()
            assert "__transaction_state-0 was stuck from" in words(kafka)
            with kafka.log(*DATA).no_leader():
                await kafka.time.advance("3s")
            assert "orders-0 was no_leader for 3 s" in words(kafka)


STREAMS_ID = "app-7b2c1d1e-1"
"""As Kafka Streams names the transactional id of a thread: application.id, process id, number of the thread."""


@pytest.mark.parametrize("by_epochs", [False, True], ids=["classic group", "epoch-based group"])
async def test_the_explanation_of_a_group_names_the_fault_of_its_transaction(by_epochs: bool) -> None:
    """A Streams application: its group is the application.id, each thread has a transactional id of its own."""
    async with cluster(clock="manual", as_version="4.1") as (kafka, producer):
        kafka.observe()
        kafka.offsets_log("app")
        if by_epochs:
            member = ConsumerGroupHeartbeatRequest("app", "thread-1", 0, rebalance_timeout_ms=30_000)
            member.subscribed_topic_names, member.topic_partitions = ["orders"], []
            assert (await producer.wire.send(member, 1)).error_code == Err.NONE
        wire = producer.wire
        init = await wire.send(InitProducerIdRequest(STREAMS_ID, 20_000), 4)
        its = init.producer_id, init.producer_epoch
        topics = [TxnOffsetCommitRequestTopic(DATA[0], partitions=[TxnOffsetCommitRequestPartition(DATA[1], 4)])]
        staged = await wire.send(TxnOffsetCommitRequest(STREAMS_ID, "app", *its, topics=topics), 5)
        assert staged.topics[0].partitions[0].error_code == Err.NONE
        kafka.fault("EndTxn", hang=True)
        async with unanswered(wire.send(EndTxnRequest(STREAMS_ID, *its, True), 5)):
            await kafka.journal.next(event="fault", since=0)
            await kafka.time.advance("45s")
            cause = 'the fault "EndTxn: never answer" held back the EndTxn (commit) that wire had sent after 0 ms'
            assert cause in words(kafka, STREAMS_ID)
            assert cause in explain(kafka.journal.events, "app", width=10_000)


# --- refusals ------------------------------------------------------------------------------------------------------------


async def commit(kafka: Cluster, producer: Client) -> None:
    """A transaction that is complete (version 1)."""
    assert [await producer.add(), await producer.end()] == [Err.NONE] * 2
    await kafka.transaction(TX).wait(state="CompleteCommit")


async def test_each_api_is_refused_with_the_client_that_fenced_it_while_no_transaction_is_open() -> None:
    async with cluster() as (kafka, a), client(kafka, "b") as b:
        kafka.observe()
        kafka.offsets_log(GROUP)
        assert await a.init() is Err.NONE
        await commit(kafka, a)
        assert await b.init() is Err.NONE
        await commit(kafka, b)
        assert await a.add() is Err.PRODUCER_FENCED
        assert await a.end() is Err.PRODUCER_FENCED
        assert await produce(a) is Err.INVALID_PRODUCER_EPOCH
        assert await stage(a, 3) is Err.INVALID_PRODUCER_EPOCH
        assert (await a.wire.send(AddOffsetsToTxnRequest(TX, *a.id, GROUP), 3)).error_code == Err.PRODUCER_FENCED
        init = InitProducerIdRequest(TX, 60_000, *a.id)
        assert (await a.wire.send(init, 4)).error_code == Err.PRODUCER_FENCED
        topics = [AddPartitionsToTxnTopic(DATA[0], [DATA[1]])]
        several = [AddPartitionsToTxnTransaction("other", 5, 0, topics=topics)]
        several.append(AddPartitionsToTxnTransaction(TX, *a.id, topics=topics))
        await a.wire.send(AddPartitionsToTxnRequest(several), 5)
        text = words(kafka)
        assert "2 committed" in text
        fenced = "b had initialized the id at "
        for request in (
            *("AddPartitionsToTxn of wire", "EndTxn (commit) of wire", f"AddOffsetsToTxn of wire for {GROUP}"),
            "InitProducerId of wire",
        ):
            (line,) = told(kafka, request)
            assert f"{request} was answered PRODUCER_FENCED" in line
            assert f": {fenced}" in line
            assert line.endswith(" and got epoch 1; the request had epoch 0.")
        for request in ("Produce of wire", f"TxnOffsetCommit of wire for {GROUP}"):
            (line,) = told(kafka, request)
            assert line.startswith(f"{request} was answered INVALID_PRODUCER_EPOCH: {fenced}")
        assert "(×2, until" in told(kafka, "AddPartitionsToTxn of wire")[0], "of several transactions' one is this id's"
        (line,) = told(kafka, "b initialized")
        assert line == f"b initialized the id and got epoch 1 of producer {a.id[0]}, which fenced the producer of wire."
        assert (
            "AddPartitionsToTxn of wire was answered INVALID_PRODUCER_ID_MAPPING: no producer has initialized"
            in words(kafka, "other")
        )


async def test_a_refused_transaction_state_is_not_a_fence() -> None:
    async with cluster() as (kafka, producer):
        kafka.observe()
        assert await producer.init() is Err.NONE
        assert await producer.end() is Err.INVALID_TXN_STATE
        none_open = "EndTxn (commit) of wire was answered INVALID_TXN_STATE: no transaction was open"
        assert f"{none_open}: its producer had added no partition to one." in words(kafka)
        await commit(kafka, producer)
        assert await producer.end(commit=False) is Err.INVALID_TXN_STATE
        assert "INVALID_TXN_STATE: no transaction was open: the last one had been committed at " in words(kafka)
        assert "fenced" not in words(kafka)
        assert kafka.transaction(TX).history()[0].fenced == []


async def test_the_reasons_of_other_refusals() -> None:
    async with cluster() as (kafka, producer):
        kafka.observe()
        assert await producer.init(10**9) is Err.INVALID_TRANSACTION_TIMEOUT
        assert "transaction.timeout.ms of 1000000000 is not between 1 and transaction.max.timeout.ms" in words(kafka)
        assert await producer.init() is Err.NONE
        with kafka.log("__transaction_state").under_min_isr():
            assert await producer.add() is Err.COORDINATOR_NOT_AVAILABLE
        assert "the log __transaction_state-0 refused the record (NOT_ENOUGH_REPLICAS)" in words(kafka)
        with kafka.log("__transaction_state").loading():
            assert await producer.end() is Err.COORDINATOR_LOAD_IN_PROGRESS
        assert "COORDINATOR_LOAD_IN_PROGRESS: the coordinator of the id was reading its log" in words(kafka)
        await kafka.transaction(TX).wait(state="Empty")
        assert await producer.add() is Err.NONE
        with kafka.log(*DATA).no_leader():
            assert await producer.end() is Err.NONE
            for _ in range(2):
                assert await producer.add() is Err.CONCURRENT_TRANSACTIONS
        (line,) = told(kafka, "AddPartitionsToTxn of wire was answered CONCURRENT_TRANSACTIONS")
        assert line.endswith(": the markers of the last transaction were pending for orders-0.")
        assert " (×2, until " in line


async def join(wire: Wire, member: str = "") -> tuple[str, int]:
    """A member of the group, and its generation."""
    protocols = [JoinGroupRequestProtocol("range", b"")]
    request = JoinGroupRequest(GROUP, 30_000, 30_000, member, protocol_type="consumer", protocols=protocols)
    answer = await wire.send(request, 5)
    if answer.error_code == Err.MEMBER_ID_REQUIRED:
        return await join(wire, answer.member_id)
    assert answer.error_code == Err.NONE
    await wire.send(SyncGroupRequest(GROUP, answer.generation_id, answer.member_id), 4)
    return str(answer.member_id), int(answer.generation_id)


async def commit_as(producer: Client, member: str, generation: int) -> Err:
    topics = [TxnOffsetCommitRequestTopic(DATA[0], partitions=[TxnOffsetCommitRequestPartition(DATA[1], 4)])]
    answer = await producer.wire.send(
        TxnOffsetCommitRequest(TX, GROUP, *producer.id, generation, member, topics=topics), 5
    )
    return Err(answer.topics[0].partitions[0].error_code)


async def test_a_commit_that_the_group_refused_is_the_cause_of_the_abort() -> None:
    async with cluster() as (kafka, producer), client(kafka, "reader") as reader:
        kafka.observe()
        kafka.offsets_log(GROUP)
        member, generation = await join(reader.wire)
        assert [await producer.init(), await produce(producer)] == [Err.NONE] * 2
        assert await commit_as(producer, member, generation + 3) is Err.ILLEGAL_GENERATION
        assert await end(producer, commit=False) is Err.NONE
        await kafka.transaction(TX).wait(state="CompleteAbort")
        text = words(kafka)
        assert f": the group {GROUP} is in generation {generation} since" in text
        assert (
            f"; the request had generation {generation + 3}. Aborted by the EndTxn of wire, after its TxnOffsetCommit"
            in text
        )
        leave = LeaveGroupRequest(GROUP, members=[MemberIdentity(member)])
        assert (await reader.wire.send(leave, 4)).error_code == Err.NONE
        assert await produce(producer) is Err.NONE
        assert await commit_as(producer, member, generation) is Err.UNKNOWN_MEMBER_ID
        assert await end(producer, commit=False) is Err.NONE
        await kafka.transaction(TX).wait(state="CompleteAbort")
        text = words(kafka)
        assert f"The TxnOffsetCommit of wire for {GROUP} was answered UNKNOWN_MEMBER_ID after" in text
        assert f": {member} had been removed from the group {GROUP} at " in text
        assert (
            ", as it had left. Aborted by the EndTxn of wire, after its TxnOffsetCommit for ledger had been answered"
            in text
        )
        shown = " ".join(explain(kafka.journal.events, GROUP, width=10_000).split())
        assert (
            "Aborted by the EndTxn of wire, after its TxnOffsetCommit for ledger had been answered UNKNOWN_MEMBER_ID"
            in shown
        )


async def test_the_reason_of_a_commit_that_an_epoch_based_group_refused() -> None:
    async with cluster(as_version="4.1") as (kafka, producer), client(kafka, "reader") as reader:
        kafka.observe()
        kafka.offsets_log(GROUP)

        async def heartbeat(member: str, epoch: int) -> Any:
            request = ConsumerGroupHeartbeatRequest(GROUP, member, epoch, rebalance_timeout_ms=30_000)
            request.subscribed_topic_names, request.topic_partitions = ["orders"], []
            answer = await reader.wire.send(request, 1)
            assert answer.error_code == Err.NONE
            return answer

        joined = await heartbeat("bm", 0)
        member, epoch = joined.member_id, joined.member_epoch
        assert [await producer.init(), await produce(producer)] == [Err.NONE] * 2
        refused = await commit_as(producer, member, 77)
        assert refused in (Err.STALE_MEMBER_EPOCH, Err.ILLEGAL_GENERATION)
        text = words(kafka)
        assert f"{refused.name} after" in text
        assert f": bm is in epoch {epoch} of the group {GROUP}; the request had epoch 77." in text
        await heartbeat("bm", -1)
        assert await commit_as(producer, member, epoch) is Err.UNKNOWN_MEMBER_ID
        assert f": bm had been removed from the group {GROUP} at " in words(kafka)
        assert ", as it had left." in words(kafka)


async def test_what_a_journal_does_not_have_is_not_guessed() -> None:
    async with cluster() as (kafka, a), client(kafka, "b") as b:
        assert [await a.init(), await b.init()] == [Err.NONE] * 2
        kafka.observe()
        assert await a.add() is Err.PRODUCER_FENCED
        assert "PRODUCER_FENCED: its epoch had been fenced before the journal began." in words(kafka)


# --- ends ----------------------------------------------------------------------------------------------------------------


async def test_an_id_that_expired_and_a_coordinator_that_is_unloaded_are_ends() -> None:
    async with cluster(clock="manual") as (kafka, producer):
        kafka.observe()
        assert await producer.init() is Err.NONE
        await commit(kafka, producer)
        await kafka.time.advance("8d")
        assert await producer.add() is Err.INVALID_PRODUCER_ID_MAPPING
        text = words(kafka)
        assert text.startswith(f"Transactional id {TX} on __transaction_state-0: Dead. 1 transaction")
        assert "The id expired, unused for transactional.id.expiration.ms" in text
        assert "was answered INVALID_PRODUCER_ID_MAPPING: the id had expired at " in text
        old = producer.id
        assert await producer.init() is Err.NONE
        new, producer.id = producer.id, old
        assert await producer.add() is Err.INVALID_PRODUCER_ID_MAPPING
        assert f"the id has producer {new[0]} since " in words(kafka)
        assert f"; the request had producer {old[0]}." in words(kafka)
        await kafka.broker_down(1)
        text = words(kafka)
        assert "Broker 1 went down." in text
        assert (
            "The coordinator of __transaction_state-0 was unloaded: until it is loaded again, no broker knows" in text
        )


def test_the_death_of_all_brokers_is_an_end() -> None:
    about = {"log": "__transaction_state-1", "transactional_id": TX, "producer_id": 1, "epoch": 0, "partitions": []}
    about |= {"timeout_ms": 9000, "started_ms": -1, "cause": {"kind": "request", "request": 1, "api": "InitProducerId"}}
    events = [
        {"seq": 1, "ts_ms": 0, "event": "transaction", "action": "producer", "state": "Empty", **about},
        {"seq": 2, "ts_ms": 5, "event": "cluster", "action": "killed", "process": 1},
    ]
    assert "The process of all brokers was killed, and the coordinator of the id with it." in explain_transactions(
        events, TX, 10_000
    )


# --- whose act it was ----------------------------------------------------------------------------------------------------


async def test_an_abort_by_hand_and_by_an_admin_is_named() -> None:
    async with cluster() as (kafka, producer), client(kafka, "admin-7") as admin:
        kafka.observe()
        handle = kafka.transaction(TX)
        assert [await producer.init(), await produce(producer)] == [Err.NONE] * 2
        await handle.abort()
        await handle.wait(state="CompleteAbort")
        (row,) = rows_of_journal(json.dumps(event, default=plain).encode() for event in kafka.journal.events)
        assert (row["result"], row["began_by"], row["ended_by"]) == ("fenced", "wire", "broker-sim")
        assert "Aborted from the test, the command line or HTTP, which fenced its producer, after" in words(kafka)
        assert "another producer" not in words(kafka)
        await handle.abort()
        assert "An abort from the test, the command line or HTTP fenced the producer of wire, with epoch 2" in words(
            kafka
        )
        while await producer.init() is not Err.NONE:
            pass
        assert await produce(producer) is Err.NONE
        assert await admin.init(1) is Err.CONCURRENT_TRANSACTIONS
        await handle.wait(state="CompleteAbort")
        assert await admin.init(1) is Err.NONE
        admins = (
            "Aborted by the InitProducerId of admin-7, which initialized the same id and began no transaction with it"
        )
        assert f"{admins} (as Admin.fenceProducers does), after" in words(kafka)
        assert await produce(admin) is Err.NONE
        assert "Aborted by the InitProducerId of admin-7, which initialized the same id as its next producer," in words(
            kafka
        )


async def test_a_second_connection_of_the_same_client_is_said_to_be_that() -> None:
    async with cluster() as (kafka, producer), client(kafka, "wire") as again:
        kafka.observe()
        assert [await producer.init(), await produce(producer)] == [Err.NONE] * 2
        while await again.init() is not Err.NONE:
            await kafka.transaction(TX).wait(state="CompleteAbort")
        assert await producer.end() is Err.PRODUCER_FENCED
        same = "as a producer with the same client id initialized the same id (its next process, or a second one),"
        assert f"Aborted by the InitProducerId of wire, {same}" in words(kafka)
        assert ": the InitProducerId of another connection of wire had aborted its transaction at" in words(kafka)


async def test_markers_of_an_admin_in_an_open_transaction_are_part_of_it() -> None:
    """`kafka-transactions abort` writes to the partition, and the coordinator does not learn of it."""
    async with cluster() as (kafka, producer), client(kafka, "admin-7") as admin:
        kafka.observe()
        assert [await producer.init(), await produce(producer)] == [Err.NONE] * 2
        marker = WritableTxnMarker(*producer.id, False, [WritableTxnMarkerTopic(DATA[0], [DATA[1]])])
        await admin.wire.send(WriteTxnMarkersRequest([marker]), 1)
        assert await end(producer, commit=True) is Err.NONE
        await kafka.transaction(TX).wait(state="CompleteCommit")
        assert "admin-7 wrote an abort marker to orders-0 after" in words(kafka)


async def test_a_marker_that_the_test_sent_is_its_own_act() -> None:
    async with cluster() as (kafka, producer):
        kafka.observe()
        assert [await producer.init(), await produce(producer)] == [Err.NONE] * 2
        await kafka.log(*DATA).abort_transaction(producer.id[0])
        event = next(event for event in kafka.journal.events if event.get("action") == "sent by hand")
        assert problems(event) == []
        by_hand = "The test, the command line or HTTP wrote an abort marker to orders-0 after"
        assert by_hand in words(kafka)
        hanging(kafka)
        await kafka.log(*DATA).abort_transaction(99)
        assert "it hangs, and read_committed" in words(kafka, None)
        assert "A marker of the test, the command line or HTTP ended it." in words(kafka, None)


async def test_a_group_shows_what_its_transactional_producer_was_refused_outside_of_transactions() -> None:
    async with cluster() as (kafka, a), client(kafka, "b") as b:
        kafka.observe()
        kafka.offsets_log(GROUP)
        assert [await a.init(), await stage(a, 3), await end(a, commit=True)] == [Err.NONE] * 3
        await kafka.transaction(TX).wait(state="CompleteCommit")
        assert await b.init() is Err.NONE
        assert await a.add() is Err.PRODUCER_FENCED
        line = "AddPartitionsToTxn of wire was answered PRODUCER_FENCED: b had initialized the id at "
        assert f"{TX}: {line}" in explain(kafka.journal.events, GROUP, width=10_000)
        assert line in html(kafka.journal.events, GROUP)


async def test_a_journal_with_damaged_events_has_an_explanation() -> None:
    async with cluster(clock="manual") as (kafka, producer):
        kafka.observe()
        assert [await producer.init(20_000), await produce(producer)] == [Err.NONE] * 2
        kafka.fault("EndTxn", times=1, error="NOT_COORDINATOR")
        assert await end(producer, commit=True) is Err.NOT_COORDINATOR
        await kafka.time.advance("30s")
        assert await producer.add() is not Err.NONE
        events = list(kafka.journal.events)
    chance = random.Random(7)
    junk: list[Any] = [None, 5, "x", [], {}, [1], {"a": 1}, True, -1, 1.5, [[]], [{}], 2**70]
    for _ in range(500):
        damaged = [dict(event) for event in events]
        for _ in range(3):
            event = chance.choice(damaged)
            key = chance.choice(list(event))
            inner = event[key]
            if isinstance(inner, dict) and inner:
                event[key] = {**inner, chance.choice(list(inner)): chance.choice(junk)}
            else:
                event[key] = chance.choice(junk)
        assert "in the journal" in explain_transactions(damaged)
