"""Events of transactions in the journal: steps, markers, pending offsets of groups, readers that wait."""

from __future__ import annotations

from broker_sim import Cluster
from kafka_wire import record_batch
from kafka_wire.errors import Err
from kafka_wire.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafka_wire.messages.k26_end_txn import EndTxnRequest
from kafka_wire.messages.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.transactions.test_cluster import DATA, TX, Client, cluster, ended

GROUP = "ledger"


async def produce(client: Client) -> Err:
    """A record in the transaction, which it adds its partition to (TV2)."""
    records = record_batch.build_batch(
        [(b"k", b"v")], 1_000, producer_id=client.id[0], producer_epoch=client.id[1], attributes=1 << 4
    )
    data = TopicProduceData(DATA[0], partition_data=[PartitionProduceData(DATA[1], records)])
    answer = await client.wire.send(ProduceRequest(TX, -1, 5_000, [data]), 12)
    return Err(answer.responses[0].partition_responses[0].error_code)


async def stage(client: Client, offset: int) -> Err:
    """An offset for the group in the transaction (TV2)."""
    topics = [TxnOffsetCommitRequestTopic(DATA[0], partitions=[TxnOffsetCommitRequestPartition(DATA[1], offset)])]
    answer = await client.wire.send(TxnOffsetCommitRequest(TX, GROUP, *client.id, topics=topics), 5)
    return Err(answer.topics[0].partitions[0].error_code)


async def commit_plainly(client: Client, offset: int) -> Err:
    topics = [OffsetCommitRequestTopic(DATA[0], partitions=[OffsetCommitRequestPartition(DATA[1], offset)])]
    answer = await client.wire.send(OffsetCommitRequest(GROUP, -1, topics=topics), 8)
    return Err(answer.topics[0].partitions[0].error_code)


async def end(client: Client, *, commit: bool) -> Err:
    """With a new epoch (TV2)."""
    answer = await client.wire.send(EndTxnRequest(TX, *client.id, commit), 5)
    client.id = answer.producer_id, answer.producer_epoch
    return Err(answer.error_code)


def told(kafka: Cluster) -> list[str]:
    """Return the journal's events of transactions, each in a few words."""
    words = []
    for event in kafka.journal.events:
        kind = event["event"]
        if kind == "transaction":
            ends = f" {event['result']}" if "result" in event else ""
            words.append(f"{event['action']}{ends}: {event['state']} {event['epoch']} {' '.join(event['partitions'])}")
        elif kind == "marker":
            words.append(f"marker {event['action']} {event['partition']} {event['result']}")
        elif kind == "last_stable_offset":
            words.append(f"{event['log']} {event['action']} at {event['last_stable_offset']}")
        elif kind in ("pending_offsets", "offsets"):
            words.append(f"{event.get('action', 'published')} {event['offsets']}")
    return [word.replace(kafka.offsets_log(GROUP).name, "offsets") for word in words]


async def test_a_transaction_from_its_producer_to_its_last_marker() -> None:
    async with cluster() as (kafka, client):
        kafka.observe()
        kafka.offsets_log(GROUP)
        ok = Err.NONE
        assert [await client.init(), await produce(client), await produce_again(client), await stage(client, 7)] == [
            ok,
            ok,
            Err.OUT_OF_ORDER_SEQUENCE_NUMBER,
            ok,
        ]
        assert await end(client, commit=True) is ok
        await ended(kafka, "CompleteCommit")
        heard = told(kafka)
        assert heard[:7] == [
            "producer: Empty 0 ",
            "begun: Ongoing 0 orders-0",
            "orders-0 blocked at 0",
            "added: Ongoing 0 offsets",
            "pending {'orders-0': 7}",
            "prepared commit: PrepareCommit 1 orders-0 offsets",
            "marker sent orders-0 commit",
        ]
        assert sorted(heard[7:-1]) == [
            "marker sent offsets commit",
            "marker written offsets commit",
            "marker written orders-0 commit",
            "orders-0 unblocked at 2",
            "published {'orders-0': 7}",
        ]
        assert heard[-1] == "completed: CompleteCommit 1 orders-0 offsets"
        causes = {e["action"]: e["cause"].get("api") for e in kafka.journal.events if e["event"] == "transaction"}
        assert causes == {
            "producer": "InitProducerId",
            "begun": "Produce",
            "added": "TxnOffsetCommit",
            "prepared": "EndTxn",
            "completed": None,
        }
        appends = [e for e in kafka.journal.events if e["event"] == "append" and e["kinds"] == ["transaction"]]
        assert [e["transactional_ids"] for e in appends] == [[TX]] * 5
        published = [e for e in kafka.journal.events if e["event"] == "offsets"]
        assert [e["producer_id"] for e in published] == [client.id[0]]


async def produce_again(client: Client) -> Err:
    """The same sequence number in another batch: it is none of the transaction."""
    records = record_batch.build_batch(
        [(b"k", b"w")], 2_000, producer_id=client.id[0], producer_epoch=client.id[1], base_sequence=5, attributes=1 << 4
    )
    data = TopicProduceData(DATA[0], partition_data=[PartitionProduceData(DATA[1], records)])
    answer = await client.wire.send(ProduceRequest(TX, -1, 5_000, [data]), 12)
    return Err(answer.responses[0].partition_responses[0].error_code)


async def test_an_abort_discards_pending_offsets_and_a_later_commit_supersedes_them() -> None:
    async with cluster() as (kafka, client):
        kafka.observe()
        kafka.offsets_log(GROUP)
        assert [await client.init(), await stage(client, 3), await end(client, commit=False)] == [Err.NONE] * 3
        await ended(kafka, "CompleteAbort")
        assert "aborted {'orders-0': 3}" in told(kafka)
        assert [await stage(client, 4), await commit_plainly(client, 9), await end(client, commit=True)] == [
            Err.NONE
        ] * 3
        await ended(kafka, "CompleteCommit")
        assert "superseded {'orders-0': 4}" in told(kafka)
        assert kafka.group(GROUP).committed() == {("orders", 0): 9}


async def test_why_a_transaction_was_aborted_in_spite_of_its_producer() -> None:
    async with cluster(clock="manual") as (kafka, client):
        kafka.observe()
        assert [await client.init(timeout_ms=20_000), await produce(client)] == [Err.NONE] * 2
        await kafka.time.advance("30s")
        assert await client.init() is Err.NONE
        assert await produce(client) is Err.NONE
        assert await client.init() is Err.CONCURRENT_TRANSACTIONS
        await kafka.time.advance("1s")
        ends = [e for e in kafka.journal.events if e["event"] == "transaction" and e["action"] == "prepared"]
        assert [(e["result"], e["cause"]["kind"]) for e in ends] == [("timed out", "timer"), ("fenced", "request")]
        timers = [e for e in kafka.journal.events if e["event"] == "timer" and e["timer"] == "timeout"]
        assert [e["transactional_id"] for e in timers] == [TX]


async def test_a_log_that_refuses_a_marker_that_waits_and_a_coordinator_that_loads() -> None:
    async with cluster() as (kafka, client):
        assert [await client.init(), await produce(client)] == [Err.NONE] * 2
        kafka.observe()
        with kafka.log("__transaction_state").under_min_isr():
            assert await end(client, commit=True) is Err.COORDINATOR_NOT_AVAILABLE
        client.id = client.id[0] if client.id[0] >= 0 else 0, 0
        with kafka.log(*DATA).no_leader():
            assert await end(client, commit=True) is Err.NONE
            partition = kafka.state.partition("__transaction_state", 0)
            assert partition is not None
            kafka.transactions.reload(partition)
        await ended(kafka, "CompleteCommit")
        heard = told(kafka)
        assert heard[:3] == [
            "orders-0 blocked at 0",  # as it was found
            "found: Ongoing 0 orders-0",
            "refused: PrepareCommit 1 orders-0",
        ]
        assert "marker failed orders-0 commit" in heard
        assert "found: PrepareCommit 1 orders-0" in heard
        assert heard[-1] == "completed: CompleteCommit 1 orders-0"
        loads = [(e["action"], e.get("transactional_ids")) for e in kafka.journal.events if e["event"] == "load"]
        assert loads == [("unloaded", 1), ("started", None), ("finished", 1)]
        refused = next(e for e in kafka.journal.events if e["event"] == "transaction" and e["action"] == "refused")
        assert refused["error"] == "NOT_ENOUGH_REPLICAS"


async def test_the_next_transaction_holds_the_last_stable_offset_where_the_first_one_ends() -> None:
    async with cluster() as (kafka, client):
        other = Client(client.wire)
        kafka.observe()
        assert [await client.init(), await produce(client)] == [Err.NONE] * 2
        records = record_batch.build_batch([(b"k", b"v")], 1_000, producer_id=99, producer_epoch=0, attributes=1 << 4)
        partition = kafka.state.partition(*DATA)
        assert partition is not None
        partition.append(records, now_ms=1_000)  # of somebody that no coordinator knows
        assert await end(client, commit=True) is Err.NONE
        await ended(kafka, "CompleteCommit")
        held = [e for e in kafka.journal.events if e["event"] == "last_stable_offset"]
        assert [(e["action"], e["last_stable_offset"], e["high_watermark"], e["producer_id"]) for e in held] == [
            ("blocked", 0, 1, client.id[0]),
            ("blocked", 1, 3, 99),
        ]
        kafka.state.delete_topic(DATA[0])
        assert [e["action"] for e in kafka.journal.events if e["event"] == "last_stable_offset"] == [
            "blocked",
            "blocked",
            "unblocked",
        ]
        assert other.wire is client.wire
