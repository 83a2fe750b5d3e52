"""The same work on a real broker with the JMX exporter and on a simulated one: names, labels and values are equal."""

from __future__ import annotations

import asyncio
import re
import urllib.request
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from broker_sim import Cluster
from broker_sim.metrics import Metrics
from tests.metrics.exposition import Sample, samples
from tests.support.ports import free_ports
from tests.support.real_kafka import RealKafka, jmx_exporter

pytestmark = pytest.mark.real_kafka

CONFIG = {"group.initial.rebalance.delay.ms": 0, "num.partitions": 2}
RULES = r"""lowercaseOutputName: true
rules:
- pattern: "kafka.(\\w+)<type=(.+), name=(.+)PerSec\\w*, (.+)=(.+), (.+)=(.+)><>Count"
  name: kafka_$1_$2_$3_total
  type: COUNTER
  labels: {"$4": "$5", "$6": "$7"}
- pattern: "kafka.(\\w+)<type=(.+), name=(.+)PerSec\\w*, (.+)=(.+)><>Count"
  name: kafka_$1_$2_$3_total
  type: COUNTER
  labels: {"$4": "$5"}
- pattern: "kafka.(\\w+)<type=(.+), name=(.+)PerSec\\w*><>Count"
  name: kafka_$1_$2_$3_total
  type: COUNTER
- pattern: "kafka.server<type=(.+), listener=(.+), networkProcessor=(.+)><>([a-z-]+): .*"
  name: kafka_server_$1_$4
  labels: {listener: "$2", networkProcessor: "$3"}
- pattern: "kafka.server<type=(.+), (state|protocol)=(.+)><>([a-z-]+): .*"
  name: kafka_server_$1_$4
  labels: {"$2": "$3"}
- pattern: "kafka.server<type=(.+-metrics)><>([a-z-]+): .*"
  name: kafka_server_$1_$2
- pattern: "kafka.(.+)<type=(.+), name=(.+), (.+)=(.+), (.+)=(.+)><>Value"
  name: kafka_$1_$2_$3
  labels: {"$4": "$5", "$6": "$7"}
- pattern: "kafka.(.+)<type=(.+), name=(.+)><>Value"
  name: kafka_$1_$2_$3
- pattern: "kafka.(.+)<type=(.+), name=(.+), (.+)=(.*)><>(\\d+)thPercentile"
  name: kafka_$1_$2_$3
  labels: {"$4": "$5", quantile: "0.$6"}
- pattern: "kafka.(.+)<type=(.+), name=(.+), (.+)=(.+)><>Count"
  name: kafka_$1_$2_$3_count
  labels: {"$4": "$5"}
"""
"""Strimzi's rules for the MBeans, and rules for the coordinator's metrics, which Strimzi leaves out."""

PACED = re.compile(
    "kafka_network_requestmetrics_.*|kafka_server_socket_server_metrics_.*|kafka_server_brokertopicmetrics_totalfetchrequests_total"
)
"""Values that depend on how often a client asks."""
LATE = re.compile(
    "kafka_coordinator_group_groupmetadatamanager_numgroups.*|kafka_server_group_coordinator_metrics_.*group_count"
)
"""Gauges that Kafka's coordinator since 4.0 sets every minute."""


async def _work(bootstrap: str) -> None:
    """Fifty records and one member that reads them all and commits."""
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap)
    await producer.start()
    for at in range(50):
        await producer.send_and_wait("orders", b"x" * 100, partition=at % 2)
    await producer.stop()
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap, group_id="billing", auto_offset_reset="earliest", enable_auto_commit=False
    )
    consumer.subscribe(["orders"])
    await consumer.start()
    try:
        read = 0
        while read < 50:
            read += sum(map(len, (await asyncio.wait_for(consumer.getmany(timeout_ms=1000), 30)).values()))
        await consumer.commit({TopicPartition("orders", index): 25 for index in range(2)})
    finally:
        await consumer.stop()


def _real(version: str, directory: Path) -> dict[Sample, float]:
    rules, port = directory / "rules.yml", free_ports(1)
    rules.write_text(RULES)
    agent = f"-javaagent:{jmx_exporter()}=127.0.0.1:{port}:{rules}"
    with RealKafka(version, config=CONFIG, jvm=(agent,)) as kafka:
        asyncio.run(_work(kafka.bootstrap))
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
            return samples(answer.read().decode())


def _simulated(version: str) -> dict[Sample, float]:
    async def run() -> str:
        async with Cluster(as_version=version.rpartition(".")[0], config=CONFIG) as kafka:
            metrics = Metrics(kafka)
            await _work(kafka.bootstrap)
            return metrics.text(broker=1)

    return samples(asyncio.run(run()))


@pytest.mark.parametrize("version", ["3.4.0", "4.1.0"])
def test_a_real_broker_shows_the_same(version: str, tmp_path: Path) -> None:
    real, simulated = _real(version, tmp_path), _simulated(version)
    assert len(simulated) > 300
    assert [sample for sample in simulated if sample not in real] == []
    late = version.startswith("4.")
    differing = {
        sample: (real[sample], value)
        for sample, value in simulated.items()
        if real[sample] != value and not PACED.fullmatch(sample[0]) and not (late and LATE.fullmatch(sample[0]))
    }
    assert differing == {}
