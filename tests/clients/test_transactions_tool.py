"""Kafka's own ``kafka-transactions``, of 3.4 and 4.1, and ``kafka-dump-log`` on what the transaction coordinator writes."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_sim import ClusterThread
from broker_sim.explain.transaction_text import explain_transactions
from broker_sim.explain.transactions import transactions
from kafka_wire.record_batch import TRANSACTIONAL_BIT, build_batch
from tests.clients.test_kafka_tools import MAIN
from tests.support.real_kafka import java_tool

pytestmark = [pytest.mark.clients]  # may have to fetch Kafka first

TOOL = "org.apache.kafka.tools.TransactionsCommand"
DUMP = "kafka.tools.DumpLogSegments"
TOPIC, TX = "orders", "billing"


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[ClusterThread]:
    """A broker as 3.4, where nobody looks whether a transaction that writes is one that its coordinator knows."""
    config = {"transaction.state.log.num.partitions": 1}
    with ClusterThread(topics={TOPIC: 1}, as_version="3.4", config=config, data_dir=tmp_path) as thread:
        yield thread


@pytest.fixture(params=list(MAIN))
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def run(kafka: ClusterThread, version: str, *args: str) -> list[list[str]]:
    """Rows of the table that the tool prints, the head first."""
    done = java_tool(version, TOOL, "--bootstrap-server", kafka.bootstrap, *args)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    return [line.split() for line in lines]


def begin(kafka: ClusterThread) -> tuple[int, int]:
    """A transaction of ``billing`` that is open, by its coordinator; its producer id and epoch."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": TX})
    producer.init_transactions(20)
    shard = kafka.run(lambda cluster: cluster.transactions.shard(0))
    stored = shard.transactions[TX].stored
    return stored.producer_id, stored.epoch


def test_transactional_ids_are_listed_and_described(kafka: ClusterThread, version: str) -> None:
    producer_id, _ = begin(kafka)
    head, *rows = run(kafka, version, "list")
    assert head == ["TransactionalId", "Coordinator", "ProducerId", "TransactionState"]
    assert rows == [[TX, "1", str(producer_id), "Empty"]]
    head, row = run(kafka, version, "describe", "--transactional-id", TX)
    told = dict(zip(head, row, strict=False))
    assert (told["CoordinatorId"], told["TransactionalId"], told["TransactionState"]) == ("1", TX, "Empty")


def hang(kafka: ClusterThread) -> None:
    """Data of a transaction of which no coordinator knows: it has been open for a day."""
    then_ms = int(time.time() * 1000) - 86_400_000
    batch = build_batch([(None, b"hangs")], then_ms, producer_id=777, producer_epoch=3, attributes=TRANSACTIONAL_BIT)

    def append(cluster: object) -> None:
        partition = cluster.state.partition(TOPIC, 0)  # type: ignore[attr-defined]
        partition.append(batch, now_ms=then_ms)

    kafka.run(append)


def test_a_transaction_that_hangs_is_found_and_aborted(kafka: ClusterThread, version: str) -> None:
    kafka.observe()
    hang(kafka)
    begin(kafka)
    head, row = run(kafka, version, "find-hanging", "--broker-id", "1")
    told = dict(zip(head, row, strict=False))
    assert (told["Topic"], told["Partition"], told["ProducerId"], told["ProducerEpoch"]) == (TOPIC, "0", "777", "3")
    assert told["StartOffset"] == "0"
    stable = kafka.run(lambda cluster: cluster.state.partition(TOPIC, 0).last_stable_offset)
    assert stable == 0
    run(kafka, version, "abort", "--topic", TOPIC, "--partition", "0", "--start-offset", "0")
    stable = kafka.run(lambda cluster: cluster.state.partition(TOPIC, 0).last_stable_offset)
    assert stable == 2
    assert [row for row in run(kafka, version, "find-hanging", "--broker-id", "1") if "777" in row] == []
    (stray,) = transactions(kafka.journal.events).hanging
    assert (stray.producer_id, stray.offset, str(stray.ended_by)[:5]) == (777, 0, "admin")
    assert "it hangs, and read_committed consumers get no later records" in explain_transactions(
        kafka.journal.events, width=9999
    )


def test_the_transaction_log_is_read_by_kafka_dump_log(version: str, tmp_path: Path) -> None:
    """In the format of its own release: 4.x has tagged fields."""
    config = {"transaction.state.log.num.partitions": 1}
    with ClusterThread(as_version=version, config=config, data_dir=tmp_path) as kafka:
        producer_id, epoch = begin(kafka)
    (segment,) = (tmp_path / "__transaction_state-0").glob("*.log")
    done = java_tool(version, DUMP, "--transaction-log-decoder", "--print-data-log", "--files", str(segment))
    assert done.returncode == 0, done.stderr
    assert re.search(rf"transactional_?[iI]d\W+{TX}", done.stdout), done.stdout
    assert re.search(rf"producerId\W+{producer_id}\b.*producerEpoch\W+{epoch}\b.*(state=Empty|Status\W+0)", done.stdout)
