"""A transactional id in the user's hand: how it stands, waits, deeds, and its story; a log of data with a transaction that hangs."""

from __future__ import annotations

from typing import Any

import pytest

from broker_sim import Cluster, OpenTransaction, TransactionHandle, WaitTimeout
from broker_sim.common.text import UsageError
from broker_sim.control.operations import NotThere, check, perform
from broker_sim.coordinator.transaction.transaction import State
from broker_sim.explain.transaction_text import explain_transactions
from broker_sim.explain.transactions import transactions
from broker_sim.fields.kafka import TRANSACTION_STATE
from kafka_wire import record_batch
from kafka_wire.errors import Err
from kafka_wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from tests.support.wire import Wire
from tests.transactions.test_cluster import DATA, TX, Client, cluster, markers
from tests.transactions.test_journal import end, produce


def hanging(kafka: Cluster, producer_id: int = 99) -> None:
    """A batch of a transaction that no coordinator knows."""
    partition = kafka.state.partition(*DATA)
    assert partition is not None
    records = record_batch.build_batch(
        [(b"k", b"v")], 1_000, producer_id=producer_id, producer_epoch=3, attributes=1 << 4
    )
    partition.append(records, now_ms=kafka.state.clock.now_ms())


async def begin(kafka: Cluster, client: Client, timeout_ms: int = 60_000) -> TransactionHandle:
    kafka.observe()
    assert [await client.init(timeout_ms), await produce(client)] == [Err.NONE] * 2
    return kafka.transaction(TX)


def test_the_names_of_states_are_those_of_the_coordinator() -> None:
    for state in (*State,):
        if state is not State.PREPARE_EPOCH_FENCE:  # nobody writes it
            assert TRANSACTION_STATE.read(state.kafka_name) == state.kafka_name


async def test_how_it_stands_and_waits_for_how_it_shall() -> None:
    async with cluster() as (kafka, client):
        orders = kafka.transaction(TX)
        assert (orders.state, orders.producer_id, orders.epoch, orders.timeout_ms) == ("Dead", -1, -1, None)
        await begin(kafka, client)
        assert await orders.ongoing() is orders
        assert (orders.producer_id, orders.epoch, orders.timeout_ms) == (*client.id, 60_000)
        assert (orders.partitions, orders.coordinator) == ([DATA], 1)
        assert orders.state_log.name == "__transaction_state-0"
        with orders.state_log.loading():
            assert orders.state == "Unknown"
            assert "COORDINATOR_LOAD_IN_PROGRESS" in repr(orders)
        await orders.ongoing()
        with kafka.log(*DATA).no_leader():
            assert await end(client, commit=True) is Err.NONE
            assert (orders.state, orders.partitions) == ("PrepareCommit", [DATA])
        await orders.wait(state="completecommit", epoch=1)
        await orders.state_is("CompleteCommit")
        assert orders.partitions == []


async def test_a_wait_in_vain_says_how_it_stands() -> None:
    async with cluster() as (kafka, client):
        await begin(kafka, client)
        with pytest.raises(WaitTimeout) as late:
            await kafka.transaction(TX).wait(state="CompleteAbort", timeout="20ms")
        assert f"transactional id {TX!r}: state CompleteAbort: not within 20 ms" in str(late.value)
        assert f"now: Ongoing, epoch 0 of producer {client.id[0]} in orders-0" in str(late.value)
        with pytest.raises(WaitTimeout, match="no transactional id 'biling'; did you mean 'billing'\\?"):
            await kafka.transaction("biling").ongoing(timeout="20ms")
        with pytest.raises(UsageError, match="did you mean 'CompleteAbort'"):
            await kafka.transaction(TX).wait(state="CompletAbort")


async def test_an_abort_fences_the_producer() -> None:
    async with cluster() as (kafka, client):
        orders = await begin(kafka, client)
        await orders.abort()
        await orders.state_is("CompleteAbort")
        assert await client.end() is Err.PRODUCER_FENCED
        assert [each.result for each in orders.history()] == ["fenced"]
        text = " ".join(orders.explain().split())
        assert "Aborted from the test, the command line or HTTP, which fenced its producer," in text
        assert "PRODUCER_FENCED after" in text
        assert ": an abort from the test, the command line or HTTP had fenced it at " in text
        with pytest.raises(UsageError, match="'nobody' can't be aborted: it is Dead"):
            await kafka.transaction("nobody").abort()


async def test_a_transaction_that_hangs_is_found_and_aborted() -> None:
    async with cluster() as (kafka, client):
        await begin(kafka, client)
        hanging(kafka)
        log = kafka.log(*DATA)
        of_client, stray = log.open_transactions
        assert (of_client.transactional_id, of_client.hangs) == (TX, False)
        assert (stray.producer_id, stray.epoch, stray.first_offset, stray.transactional_id) == (99, 3, 1, None)
        assert isinstance(stray, OpenTransaction)
        assert await end(client, commit=True) is Err.NONE
        await kafka.transaction(TX).state_is("CompleteCommit")
        assert (log.last_stable_offset, log.high_watermark) == (1, 3)
        (row,) = (await perform(kafka, "transaction.hanging"))["hanging"]
        assert (row["log"], row["producer_id"], row["first_offset"]) == ("orders-0", 99, 1)
        with pytest.raises(UsageError, match="no open transaction of producer 98; it has 99"):
            await log.abort_transaction(98)
        told = await perform(kafka, "transaction.abort_hanging", {"log": "orders-0", "producer_id": 99})
        assert told == {"log": "orders-0", "last_stable_offset": 4, "high_watermark": 4}
        assert (await perform(kafka, "transaction.hanging"))["hanging"] == []
        assert markers(kafka)[-1] == (99, 3)


async def test_the_operations_on_transactional_ids() -> None:
    async with cluster() as (kafka, client):
        assert (await perform(kafka, "transaction.list"))["transactions"] == []
        for operation in ("transaction.get", "transaction.explain", "transaction.abort"):
            with pytest.raises(NotThere, match="no transactional id 'biling'; none exists"):
                await perform(kafka, operation, {"transactional_id": "biling"})
        await begin(kafka, client)
        (row,) = (await perform(kafka, "transaction.list"))["transactions"]
        assert row == {
            "transactional_id": TX,
            "state": "Ongoing",
            "producer_id": client.id[0],
            "epoch": 0,
            "partitions": ["orders-0"],
            "timeout_ms": 60_000,
            "coordinator": 1,
            "log": "__transaction_state-0",
        }
        assert await perform(kafka, "transaction.get", {"transactional_id": TX}) == row
        with pytest.raises(UsageError, match="no condition to wait for"):
            check("transaction.wait", {"transactional_id": TX})
        assert (await perform(kafka, "transaction.abort", {"transactional_id": TX}))["epoch"] == 1
        ended = {"transactional_id": TX, "state": "CompleteAbort"}
        assert (await perform(kafka, "transaction.wait", ended))["partitions"] == []
        told = (await perform(kafka, "transaction.explain", {"transactional_id": TX}))["text"]
        epoch = f"CompleteAbort, epoch 1 of producer {row['producer_id']}"  # the one that fenced the producer
        assert told.startswith(f"Transactional id {TX} on __transaction_state-0: {epoch}. ")


async def test_a_log_is_named_by_the_transactional_id_that_lives_in_it() -> None:
    async with cluster() as (kafka, client):
        with pytest.raises(
            NotThere,
            match=r"no transactional id 'billing'; none exists \(--ahead, over HTTP ahead=true, allows",
        ):
            await perform(kafka, "log.get", {"log": f"transactions({TX})"})
        stuck = {"log": f"transactions({TX})", "state": "stuck", "ahead": True}
        assert (await perform(kafka, "state.set", stuck))["log"] == "__transaction_state-0"
        await perform(kafka, "state.heal", {"log": f"transactions({TX})", "ahead": True})
        assert await client.init() is Err.NONE
        moved = await perform(kafka, "leader.elect", {"log": f"transactions({TX})"})
        assert moved["leader_epoch"] == 1
        await kafka.transaction(TX).wait(state="Empty")


# --- the story ------------------------------------------------------------------------------------------------------------


async def read(client: Client, offset: int) -> Any:
    """A read_committed Fetch from there."""
    topics = [FetchTopic(DATA[0], partitions=[FetchPartition(DATA[1], fetch_offset=offset)])]
    return await client.wire.send(FetchRequest(max_bytes=1 << 20, isolation_level=1, topics=topics), 11)


async def test_the_story_of_one_that_timed_out_and_of_who_waited() -> None:
    async with cluster(clock="manual") as (kafka, client):
        orders = await begin(kafka, client, timeout_ms=20_000)
        await read(client, 0)
        await kafka.time.advance("30s")
        assert await client.end() is Err.PRODUCER_FENCED
        (one,) = orders.history()
        assert (one.result, one.over, one.timeout_ms) == ("timed out", True, 20_000)
        (held,) = one.blocked
        assert (held.log, held.offset, list(held.readers)) == ("orders-0", 0, ["wire"])
        assert held.to_ms is not None
        assert held.to_ms - held.from_ms >= 20_000
        text = " ".join(orders.explain().split())
        assert "begun by wire in epoch 0." in text
        assert "Aborted by its coordinator, as it was open for longer than its timeout of 20 s" in text
        assert "It held the last stable offset of orders-0 at 0 for " in text
        assert ": wire waited there for " in text
        assert (
            "The EndTxn (commit) of wire was answered PRODUCER_FENCED after 30 s: its coordinator had aborted" in text
        )


async def test_a_producer_that_was_fenced_is_told_so_however_many_transactions_its_successor_has_had() -> None:
    async with cluster() as (kafka, client):
        orders = await begin(kafka, client)
        successor = Client(await Wire.connect(kafka.bootstrap, client_id="successor"))
        while await successor.init() is not Err.NONE:  # what was open is to be aborted first
            await orders.wait(state="CompleteAbort")
        for _ in range(2):
            assert [await successor.add(), await successor.end()] == [Err.NONE] * 2
            await orders.wait(state="CompleteCommit")
        assert await client.end() is Err.PRODUCER_FENCED
        fenced, *others = orders.history()
        assert [(who.client_id, error) for _, who, error in fenced.fenced] == [("wire", "PRODUCER_FENCED")]
        assert [one.result for one in others] == ["commit", "commit"]
        assert [one.fenced for one in others] == [[], []]
        text = " ".join(orders.explain().split())
        assert "The EndTxn (commit) of wire was answered PRODUCER_FENCED" in text
        assert ": the InitProducerId of successor had aborted its transaction at " in text
        await successor.wire.close()


async def test_the_story_of_a_marker_that_could_not_be_written() -> None:
    async with cluster(clock="manual") as (kafka, client):
        orders = await begin(kafka, client)
        with kafka.log(*DATA).no_leader():
            assert await end(client, commit=True) is Err.NONE
            await kafka.time.advance("5s")
            assert "Its marker for orders-0 is not written after 5 s (LEADER_NOT_AVAILABLE" in " ".join(
                orders.explain().split()
            )
        await kafka.time.advance("1s")
        text = " ".join(orders.explain().split())
        assert "Committed by the EndTxn of wire after 0 ms." in text
        assert "Its marker for orders-0 was written after 5" in text
        assert "(LEADER_NOT_AVAILABLE, tried " in text
        assert "after its end was decided." in text


async def test_the_story_of_an_abort_that_was_lost() -> None:
    async with cluster(as_version="3.4") as (kafka, client):
        kafka.observe()
        assert [await client.init(), await client.add()] == [Err.NONE] * 2
        hanging(kafka, client.id[0] + 1)  # before its own
        await kafka.transaction(TX).ongoing()
        found = transactions(kafka.journal.events)
        (stray,) = found.hanging
        assert (stray.hangs, stray.lost_abort, stray.producer_id) == (True, False, client.id[0] + 1)
        assert "in a transaction that no coordinator knows: it hangs" in " ".join(
            explain_transactions(kafka.journal.events).split()
        )
        assert explain_transactions(kafka.journal.events, "biling").endswith("Did you mean 'billing'?")


def test_what_is_no_journal_of_ours_tells_nothing_and_breaks_nothing() -> None:
    for kind in ("transaction", "marker", "pending_offsets", "last_stable_offset", "request", "response"):
        for event in ({"event": kind}, {"event": kind, "transactional_id": 5, "action": [], "log": {}, "offsets": 3}):
            assert transactions([event]).transactions == []
    assert explain_transactions([]).startswith("0 transactions in the journal")
