"""Spark's own JVM connector as one more unmodified client: batch and Structured Streaming, reading and writing.

The jars are Spark's and Kafka's (tests/support/spark_jars.py); nothing of them is changed, and nothing of the simulator knows Spark.
Three brokers, as Kafka 4.1 and as 3.4. What was on the wire is read in the journal, what was written in the simulator's logs.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from broker_sim.api.cluster import Cluster
from broker_sim.api.cluster_thread import ClusterThread
from broker_sim.scenario.apps.common import AppSettings, ScenarioPipe
from broker_sim.scenario.apps.transactional_app import Producer
from broker_sim.storage import Origin
from kafka_wire.messages.k21_delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kafka_wire.record_batch import TRANSACTIONAL_BIT, ControlType, batches, build_batch, control_batch, records
from tests.support.ports import free_ports
from tests.support.spark_jars import connector_jars
from tests.support.wire import Wire

pytestmark = [pytest.mark.spark, pytest.mark.timeout(150), pytest.mark.usefixtures("connector")]

VERSIONS = ("4.1", "3.4")
_EACH = [VERSIONS[0], *(pytest.param(version, marks=pytest.mark.long) for version in VERSIONS[1:])]
BROKERS = 3
WAIT_S = 30.0
EARLIEST, LATEST = -2, -1


@pytest.fixture(scope="module")
def connector() -> None:
    """Skips where the jars can't be had; the session of `conftest.py` has them on its class path."""
    connector_jars()


@pytest.fixture(scope="module")
def clusters() -> Iterator[dict[str, ClusterThread]]:
    """Clusters that run as long as the module: Spark keeps its producers and consumers, which would look for them."""
    config = {"group.initial.rebalance.delay.ms": 0}
    running = {version: ClusterThread(BROKERS, as_version=version, config=config).start() for version in VERSIONS}
    for kafka in running.values():
        kafka.observe()
    yield running
    for kafka in running.values():
        kafka.stop()


@pytest.fixture(params=_EACH)
def kafka(request: pytest.FixtureRequest, clusters: dict[str, ClusterThread]) -> ClusterThread:
    return clusters[request.param]


@pytest.fixture
def topic(kafka: ClusterThread, request: pytest.FixtureRequest) -> str:
    """A name of the test's own; no topic yet."""
    return request.node.originalname.removeprefix("test_").replace("_", "-")[:60]


KEPT = {"retention.ms": "-1"}
"""For records of 1970: retention looks 30 s after the cluster began, in the midst of whichever test runs then."""


# ------------------------------------------------------------------------------------------------ batch


def test_a_batch_reads_all_columns_from_the_earliest_to_the_latest(
    spark: Any, kafka: ClusterThread, topic: str
) -> None:
    kafka.create_topic(topic, 3)
    kafka.topic(topic).fill(30)
    since = last_seq(kafka)

    frame = reading(spark, kafka, subscribe=topic, includeHeaders="true").load()

    assert frame.columns == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]
    rows = frame.collect()
    assert sorted((row.partition, row.offset, bytes(row.key), bytes(row.value)) for row in rows) == [
        (n % 3, n // 3, b"key-%d" % n, f"{topic}-{n}".encode())
        for n in sorted(range(30), key=lambda n: (n % 3, n // 3))
    ]
    assert {(row.topic, row.timestampType, row.headers) for row in rows} == {(topic, 0, None)}
    asked = apis(kafka, since)
    assert {"ApiVersions", "Metadata", "ListOffsets", "Fetch"} <= asked
    assert not asked & {"JoinGroup", "OffsetCommit"}, "a batch keeps no offsets in a group"


def test_a_batch_reads_between_explicit_offsets(spark: Any, kafka: ClusterThread, topic: str) -> None:
    kafka.create_topic(topic, 3)
    kafka.topic(topic).fill(30)
    starting = {topic: {"0": 4, "1": EARLIEST, "2": 10}}
    ending = {topic: {"0": 6, "1": LATEST, "2": LATEST}}

    frame = reading(
        spark, kafka, subscribe=topic, startingOffsets=json.dumps(starting), endingOffsets=json.dumps(ending)
    ).load()

    assert offsets(frame) == [(0, 4), (0, 5), *((1, offset) for offset in range(10))]


def test_a_batch_reads_assigned_partitions(spark: Any, kafka: ClusterThread, topic: str) -> None:
    kafka.create_topic(topic, 3)
    kafka.topic(topic).fill(9)

    assert offsets(reading(spark, kafka, assign=json.dumps({topic: [0, 2]})).load()) == [
        (partition, offset) for partition in (0, 2) for offset in range(3)
    ]


def test_a_batch_reads_by_timestamp(spark: Any, kafka: ClusterThread, topic: str) -> None:
    kafka.create_topic(topic, 2, configs=KEPT)
    for partition in range(2):
        for number in range(5):
            append(kafka, topic, partition, build_batch([(None, b"%d" % number)], 1_000 + 100 * number))
    by_partition = {topic: {"0": 1_250, "1": 1_100}}

    for_all = reading(spark, kafka, subscribe=topic, startingTimestamp="1101", endingTimestamp="1400").load()
    each = reading(spark, kafka, subscribe=topic, startingOffsetsByTimestamp=json.dumps(by_partition)).load()

    assert offsets(for_all) == [(partition, offset) for partition in range(2) for offset in (2, 3)]
    assert offsets(each) == [(0, 3), (0, 4), (1, 1), (1, 2), (1, 3), (1, 4)]


def test_a_timestamp_behind_the_last_record_is_an_error_or_the_latest_as_asked(
    spark: Any, kafka: ClusterThread, topic: str
) -> None:
    kafka.create_topic(topic, 1, configs=KEPT)
    append(kafka, topic, 0, build_batch([(None, b"early")], 1_000))

    latest = reading(
        spark, kafka, subscribe=topic, startingTimestamp="2000", startingOffsetsByTimestampStrategy="latest"
    )
    assert offsets(latest.load()) == []
    strict = reading(spark, kafka, subscribe=topic, startingTimestamp="2000").option(
        "fetchOffset.retryIntervalMs", "10"
    )
    with pytest.raises(Exception, match="No offset matched from request"):
        strict.load().collect()


def test_more_tasks_than_partitions_read_each_record_once(spark: Any, kafka: ClusterThread, topic: str) -> None:
    kafka.create_topic(topic, 2)
    kafka.topic(topic).fill(60)

    frame = reading(spark, kafka, subscribe=topic, minPartitions="6").load()

    assert frame.rdd.getNumPartitions() == 6
    assert offsets(frame) == [(partition, offset) for partition in range(2) for offset in range(30)]


def test_a_batch_writes_keys_values_headers_topics_and_partitions(spark: Any, kafka: ClusterThread, topic: str) -> None:
    one, other = f"{topic}.1", f"{topic}.2"
    kafka.create_topic(one, 1)
    kafka.create_topic(other, 2)
    since = last_seq(kafka)
    header = [("trace", bytearray(b"17")), ("empty", None)]
    rows = [
        (one, "a", "first", header, None),
        (one, None, "second", None, None),
        (other, "c", None, None, 1),
        (other, "d", "fourth", None, 0),
    ]
    schema = "topic string, key string, value string, headers array<struct<key: string, value: binary>>, partition int"

    writing(spark.createDataFrame(rows, schema).coalesce(1), kafka, includeHeaders="true").save()

    assert logged(kafka, one, 0) == [
        (b"a", b"first", [("trace", b"17"), ("empty", None)]),
        (None, b"second", []),
    ]
    assert (logged(kafka, other, 0), logged(kafka, other, 1)) == ([(b"d", b"fourth", [])], [(b"c", None, [])])
    assert "Produce" in apis(kafka, since)
    assert "InitProducerId" in apis(kafka, 0), "Kafka's producer is idempotent unless told otherwise; Spark keeps it"


def test_a_committed_transaction_is_read_and_its_marker_is_not(spark: Any, kafka: ClusterThread, topic: str) -> None:
    kafka.create_topic(topic, 1, configs=KEPT)
    ours = {"producer_id": 4711, "producer_epoch": 0}
    append(kafka, topic, 0, build_batch([(b"k", b"before")], 1_000, base_sequence=-1))
    append(kafka, topic, 0, build_batch([(b"k", b"1"), (b"k", b"2")], 1_000, attributes=TRANSACTIONAL_BIT, **ours))
    append(kafka, topic, 0, control_batch(ControlType.COMMIT, 1_001, **ours), Origin.COORDINATOR)
    append(kafka, topic, 0, build_batch([(b"k", b"after")], 1_002, base_sequence=-1))

    for level in ("read_committed", "read_uncommitted"):
        options = {"subscribe": topic, "kafka.isolation.level": level}
        assert offsets(reading(spark, kafka, **options).load()) == [(0, 0), (0, 1), (0, 2), (0, 4)]
    levels = {row["body"]["isolation_level"] for row in requests(kafka, "Fetch", topic)}
    assert levels == {0, 1}


def test_read_committed_waits_for_open_transactions_and_skips_aborted_ones(
    spark: Any, kafka: ClusterThread, topic: str, tmp_path: Path
) -> None:
    """A producer of transactions, in the flow that this release has, and Spark's source in a batch and in a stream."""
    kafka.create_topic(topic, 1)
    committed = {"subscribe": topic, "kafka.isolation.level": "read_committed"}
    with asyncio.Runner() as runner, transactional(runner, kafka, topic) as producer:
        runner.run(producer.transaction(1))  # offset 0, its marker 1
        runner.run(producer.write(2))
        runner.run(producer.end(committed=False))  # offset 2, its marker 3
        runner.run(producer.write(3))  # offset 4, open
        assert kafka.log(topic).last_stable_offset == 4
        assert offsets(reading(spark, kafka, **committed).load()) == [(0, 0)]
        everything = committed | {"kafka.isolation.level": "read_uncommitted"}
        assert offsets(reading(spark, kafka, **everything).load()) == [(0, 0), (0, 2), (0, 4)]
        seen = Seen()
        drain(streaming(spark, kafka, **committed), seen, tmp_path)
        assert seen.offsets == [(0, 0)]
        runner.run(producer.end(committed=True))
        kafka.transaction(producer.id).state_is("CompleteCommit")
        drain(streaming(spark, kafka, **committed), seen, tmp_path)
        assert seen.offsets == [(0, 0), (0, 4)]
    assert offsets(reading(spark, kafka, **committed).load()) == [(0, 0), (0, 4)]


@contextmanager
def transactional(runner: asyncio.Runner, kafka: ClusterThread, topic: str) -> Iterator[Producer]:
    """A producer with its first epoch."""
    settings = {"bootstrap": kafka.bootstrap, "client_id": "orders-app", "topics": [topic], "transactional_id": topic}

    async def begin() -> Producer:
        producer = Producer(AppSettings(json.dumps(settings)), Quiet())
        await producer.begin_anew((-1, -1))
        return producer

    producer = runner.run(begin())
    try:
        yield producer
    finally:
        for wire in (producer.coordinator, *producer.wires.values()):
            wire.close()


class Quiet(ScenarioPipe):
    """Nobody listens."""

    def report(self, says: str, **details: Any) -> None:
        pass


# ------------------------------------------------------------------------------------------------ streams


def test_a_stream_takes_no_more_offsets_than_its_limit(
    spark: Any, kafka: ClusterThread, topic: str, tmp_path: Path
) -> None:
    kafka.create_topic(topic, 2)
    kafka.topic(topic).fill(20)
    seen = Seen()

    drain(streaming(spark, kafka, subscribe=topic, maxOffsetsPerTrigger="6"), seen, tmp_path)

    assert [len(batch) for batch in seen.batches if batch] == [6, 6, 6, 2]
    assert seen.offsets == every(2, 10)


def test_a_stream_resumes_at_its_checkpoint_after_its_own_restart_and_the_brokers(
    spark: Any, topic_version: str, tmp_path: Path
) -> None:
    port, data = free_ports(BROKERS), tmp_path / "data"
    seen, checkpoint = Seen(), tmp_path / "checkpoint"

    def served() -> ClusterThread:
        return ClusterThread(BROKERS, {"orders": 2}, as_version=topic_version, data_dir=data, port=port)

    with served() as kafka:
        kafka.topic("orders").fill(10)
        drain(streaming(spark, kafka, subscribe="orders"), seen, checkpoint)
        kafka.topic("orders").fill(6)
        drain(streaming(spark, kafka, subscribe="orders"), seen, checkpoint)
        assert seen.offsets == every(2, 8)
        kafka.topic("orders").fill(4)
    with served() as kafka:
        drain(streaming(spark, kafka, subscribe="orders"), seen, checkpoint)
        assert seen.offsets == every(2, 10), "each record once, whoever was started again"


def test_a_running_stream_outlives_a_restart_of_the_brokers(spark: Any, topic_version: str, tmp_path: Path) -> None:
    port, data, seen = free_ports(BROKERS), tmp_path / "data", Seen()

    with ClusterThread(BROKERS, as_version=topic_version, data_dir=data, port=port) as kafka:
        kafka.create_topic("orders", 2, replication_factor=BROKERS)
        kafka.topic("orders").fill(10)
        query = started(streaming(spark, kafka, subscribe="orders"), seen, tmp_path / "checkpoint")
        try:
            until("the first records", lambda: seen.offsets == every(2, 5))
            kafka.stop()
            kafka.start()
            kafka.topic("orders").fill(10)
            until("the records behind the restart", lambda: seen.offsets == every(2, 10), query)
            kafka.broker(leader_id(kafka, "orders", 0)).down()
            kafka.topic("orders").fill(10)
            until("the records behind a leader's death", lambda: seen.offsets == every(2, 15), query)
        finally:
            query.stop()


def test_a_stream_writes_the_records_that_it_reads(spark: Any, topic_version: str, tmp_path: Path) -> None:
    topics = {"source": 2, "target": 1}
    with ClusterThread(BROKERS, topics, as_version=topic_version) as kafka:  # that nobody watches: the shorter ways
        kafka.topic("source").fill(10)
        frame = streaming(spark, kafka, subscribe="source").load()
        frame = frame.selectExpr("key", "upper(CAST(value AS STRING)) AS value")

        for _ in range(2):
            writer = frame.writeStream.format("kafka").option("kafka.bootstrap.servers", kafka.bootstrap)
            writer = writer.option("topic", "target").option("checkpointLocation", str(tmp_path))
            finish(writer.trigger(availableNow=True).start())

        assert not kafka.observed
        assert sorted(logged(kafka, "target", 0)) == [(b"key-%d" % n, b"SOURCE-%d" % n, []) for n in range(10)]


def test_a_topic_that_is_created_while_a_pattern_is_read_is_read_too(
    spark: Any, kafka: ClusterThread, topic: str, tmp_path: Path
) -> None:
    kafka.create_topic(f"{topic}.a", 1)
    kafka.create_topic("not-asked-for", 1)
    kafka.topic(f"{topic}.a").fill(2)
    seen = Seen()

    query = started(streaming(spark, kafka, subscribePattern=f"{topic}\\..*"), seen, tmp_path)
    try:
        until("the first topic", lambda: len(seen.rows) == 2, query)
        kafka.create_topic(f"{topic}.b", 2)
        kafka.topic(f"{topic}.b").fill(3)
        until("the second topic", lambda: len(seen.rows) == 5, query)
    finally:
        query.stop()

    assert sorted(row[:2] for row in seen.rows) == [
        (f"{topic}.a", 0),
        (f"{topic}.a", 0),
        (f"{topic}.b", 0),
        (f"{topic}.b", 0),
        (f"{topic}.b", 1),
    ]


@pytest.mark.parametrize("fails", [True, False])
def test_records_deleted_before_they_were_read_fail_the_stream_or_are_left_out_as_asked(
    spark: Any, kafka: ClusterThread, topic: str, fails: bool, tmp_path: Path
) -> None:
    name = f"{topic}-{fails}"
    kafka.create_topic(name, 1)
    kafka.topic(name).fill(4)
    seen, options = Seen(), {"subscribe": name, "failOnDataLoss": str(fails).lower()}
    drain(streaming(spark, kafka, **options), seen, tmp_path)
    kafka.topic(name).fill(6)
    asyncio.run(delete_records(leader_of(kafka, name, 0), name, 0, before=7))

    if fails:
        with pytest.raises(Exception, match=r"(?s)KAFKA_DATA_LOSS|data may have been lost"):
            drain(streaming(spark, kafka, **options), seen, tmp_path)
        assert seen.offsets == [(0, offset) for offset in range(4)]
    else:
        drain(streaming(spark, kafka, **options), seen, tmp_path)
        assert seen.offsets == [(0, offset) for offset in (0, 1, 2, 3, 7, 8, 9)]


def test_the_deprecated_way_to_fetch_offsets_joins_a_group(
    spark: Any, kafka: ClusterThread, topic: str, tmp_path: Path
) -> None:
    kafka.create_topic(topic, 2)
    kafka.topic(topic).fill(10)
    since, seen, group = last_seq(kafka), Seen(), f"spark-{topic}"
    spark.conf.set("spark.sql.streaming.kafka.useDeprecatedOffsetFetching", "true")
    try:
        drain(streaming(spark, kafka, subscribe=topic, groupIdPrefix=group), seen, tmp_path)
    finally:
        spark.conf.unset("spark.sql.streaming.kafka.useDeprecatedOffsetFetching")

    assert seen.offsets == every(2, 5)
    of_group = [row for row in kafka.journal.since(since) if str(row.get("group", "")).startswith(group)]
    asked = [row["api"] for row in of_group if row["event"] == "request"]
    assert list(dict.fromkeys(asked))[:4] == ["FindCoordinator", "JoinGroup", "SyncGroup", "OffsetFetch"]
    assert asked[-1] == "LeaveGroup"
    assert not {"OffsetCommit"} & set(asked), "the checkpoint holds its offsets"
    states = [(row["after"] or {}).get("state") for row in of_group if row["event"] == "group"]
    assert "Stable" in states
    assert states[-1] in ("Empty", None), "it has left"


@pytest.fixture(params=_EACH)
def topic_version(request: pytest.FixtureRequest) -> str:
    """The Kafka to behave as, for a cluster of the test's own."""
    return str(request.param)


# ------------------------------------------------------------------------------------------------ with Spark


class Seen:
    """Batches that a stream delivered, in order, each row a (topic, partition, offset)."""

    def __init__(self) -> None:
        self.batches: list[list[tuple[str, int, int]]] = []

    def take(self, frame: Any, batch_id: int) -> None:
        self.batches.append([(row.topic, row.partition, row.offset) for row in frame.collect()])

    @property
    def rows(self) -> list[tuple[str, int, int]]:
        return [row for batch in self.batches for row in batch]

    @property
    def offsets(self) -> list[tuple[int, int]]:
        """Partition and offset of all of them, sorted: one that came twice stands here twice."""
        return sorted(row[1:] for row in self.rows)


def every(partitions: int, count: int) -> list[tuple[int, int]]:
    """Partition and offset of ``count`` records in each of ``partitions``."""
    return [(partition, offset) for partition in range(partitions) for offset in range(count)]


def reading(spark: Any, kafka: ClusterThread, **options: str) -> Any:
    return spark.read.format("kafka").option("kafka.bootstrap.servers", kafka.bootstrap).options(**options)


def streaming(spark: Any, kafka: ClusterThread, **options: str) -> Any:
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", kafka.bootstrap)
    return reader.option("startingOffsets", "earliest").options(**options)


def writing(frame: Any, kafka: ClusterThread, **options: str) -> Any:
    return frame.write.format("kafka").option("kafka.bootstrap.servers", kafka.bootstrap).options(**options)


def started(reader: Any, seen: Seen, checkpoint: Path, **trigger: Any) -> Any:
    writer = reader.load().writeStream.foreachBatch(seen.take).option("checkpointLocation", str(checkpoint))
    return writer.trigger(**(trigger or {"processingTime": "0 seconds"})).start()


def drain(reader: Any, seen: Seen, checkpoint: Path) -> None:
    """Read everything that is there, then stop."""
    finish(started(reader, seen, checkpoint, availableNow=True))


def finish(query: Any) -> None:
    assert query.awaitTermination(WAIT_S), f"the stream was not through after {WAIT_S} s: {query.status}"


def offsets(frame: Any) -> list[tuple[int, int]]:
    return sorted((row.partition, row.offset) for row in frame.select("partition", "offset").collect())


def until(what: str, holds: Callable[[], bool], query: Any = None) -> None:
    deadline = time.monotonic() + WAIT_S
    while not holds():
        if query is not None and query.exception() is not None:
            raise AssertionError(f"waited for {what}; the stream ended: {query.exception()}")
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {WAIT_S} s for {what}")
        time.sleep(0.02)


# ------------------------------------------------------------------------------------------------ with the simulator


def append(kafka: ClusterThread, topic: str, index: int, batch: bytes, origin: Origin = Origin.CLIENT) -> None:
    """As a producer's batch that passed all checks."""

    def work(cluster: Cluster) -> None:
        partition = cluster.state.partition(topic, index)
        assert partition is not None
        partition.append(batch, now_ms=cluster.state.clock.now_ms(), origin=origin)

    kafka.run(work)


def logged(
    kafka: ClusterThread, topic: str, index: int
) -> list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]]:
    """Key, value and headers of the records in a partition's log, in order."""

    def read(cluster: Cluster) -> bytes:
        partition = cluster.state.partition(topic, index)
        assert partition is not None
        return partition.log.read(0, 1 << 20)

    data = kafka.run(read)
    return [
        (record.key, record.value, list(record.headers))
        for position, header in batches(data)
        for record in records(data, position, header)
    ]


def leader_id(kafka: ClusterThread, topic: str, index: int) -> int:
    return int(kafka.log(topic, index).leader)


def leader_of(kafka: ClusterThread, topic: str, index: int) -> str:
    """Return the ``host:port`` of the partition's leader."""
    return str(kafka.broker(leader_id(kafka, topic, index)).address)


async def delete_records(address: str, topic: str, index: int, before: int) -> None:
    wire = await Wire.connect(address)
    try:
        asked = DeleteRecordsTopic(topic, [DeleteRecordsPartition(index, before)])
        answer = await wire.send(DeleteRecordsRequest([asked], 5_000), 2)
        assert answer.topics[0].partitions[0].error_code == 0
    finally:
        await wire.close()


def last_seq(kafka: ClusterThread) -> int:
    events = kafka.journal.since(0)
    return int(events[-1]["seq"]) if events else 0


def requests(kafka: ClusterThread, api: str, topic: str) -> list[dict[str, Any]]:
    """The requests of ``api`` in which ``topic`` is named."""
    return [
        row
        for row in kafka.journal.since(0)
        if row["event"] == "request" and row["api"] == api and topic in str(row.get("topics"))
    ]


def apis(kafka: ClusterThread, since: int) -> set[str]:
    """Return the APIs of the requests after event ``since``."""
    return {row["api"] for row in kafka.journal.since(since) if row["event"] == "request"}
