"""Kafka's own ``kafka-dump-log --offsets-decoder`` reads the offsets log of real clients, and says the same as we do."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from broker_sim.api.cluster import Cluster
from broker_sim.storage.log import PartitionLog
from kafka_wire.messages.k42_delete_groups import DeleteGroupsRequest
from kafka_wire.messages.offsets_log import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue
from kafka_wire.offsets_log import decode_key, decode_value
from tests.durability.groups import commit_request, coordinator_is_there
from tests.support.real_kafka import java_tool, kafka_libs
from tests.support.wire import Wire

CONFIG = {
    "offsets.topic.num.partitions": 3,
    "group.initial.rebalance.delay.ms": 0,
}


async def live_a_little(data: Path, as_version: str) -> None:
    """Two consumers share a topic, commit and leave; an admin commits with metadata; a group is deleted: every record kind."""
    async with Cluster(topics={"orders": 4}, as_version=as_version, config=CONFIG, data_dir=data) as kafka:
        producer = AIOKafkaProducer(bootstrap_servers=kafka.bootstrap)
        await producer.start()
        for n in range(40):
            await producer.send_and_wait("orders", b"x", partition=n % 4)
        await producer.stop()
        consumers = [
            AIOKafkaConsumer(
                "orders",
                bootstrap_servers=kafka.bootstrap,
                group_id="billing",
                client_id=f"consumer-{n}",
                auto_offset_reset="earliest",
                enable_auto_commit=False,
            )
            for n in range(2)
        ]
        await asyncio.gather(*(consumer.start() for consumer in consumers))
        for consumer in consumers:
            await asyncio.wait_for(consumer.getone(), 60)
        for consumer in consumers:
            await consumer.commit()
            await consumer.stop()
        wire = await Wire.connect(kafka.bootstrap)
        for group in ("αβγ-group", "doomed"):
            await coordinator_is_there(wire, group)
            await wire.send(commit_request(group, "orders", dict.fromkeys(range(4), 7)), 8)
        assert (await wire.send(DeleteGroupsRequest(["doomed"]), 2)).results[0].error_code == 0
        await wire.close()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A data directory for each generation."""
    directories = {as_version: tmp_path_factory.mktemp(as_version) for as_version in ("3.4", "4.1")}
    for as_version, directory in directories.items():
        asyncio.run(live_a_little(directory, as_version))
    return directories


def our_reading(partition: Path) -> list[tuple[object, object]]:
    log = PartitionLog(partition)
    try:
        out: list[tuple[object, object]] = []
        for batch in log.batches():
            for record in batch.records():
                assert record.key is not None
                kind, key = decode_key(record.key)
                value = None if record.value is None else decode_value(kind, record.value)
                out.append((key, value))
        return out
    finally:
        log.close()


@pytest.mark.real_kafka
@pytest.mark.parametrize(
    ("as_version", "version"),
    [
        ("3.4", "3.4.0"),
        ("3.4", "4.1.0"),
        ("4.1", "4.1.0"),
    ],  # 3.4's tool can't read what Kafka 4.1 writes (value version 4)
)
def test_dump_log_reads_every_file(data: dict[str, Path], as_version: str, version: str) -> None:
    kafka_libs(version)
    partitions = sorted(data[as_version].glob("__consumer_offsets-*"))
    assert len(partitions) == 3
    seen = 0
    for partition in partitions:
        dumped: list[str] = []
        for segment in sorted(partition.glob("*.log")):
            result = java_tool(version, "kafka.tools.DumpLogSegments", "--files", str(segment), "--offsets-decoder")
            assert "Exception" not in result.stdout + result.stderr, result.stderr
            assert "isvalid: false" not in result.stdout
            dumped += [line for line in result.stdout.splitlines() if " key: " in line]
        ours = our_reading(partition)
        assert len(dumped) == len(ours)
        for line, (key, value) in zip(dumped, ours, strict=True):
            agree_3_4(line, key, value) if version == "3.4.0" else agree_4_1(line, key, value)
        seen += len(ours)
    assert seen >= 15


def agree_3_4(line: str, key: object, value: object) -> None:
    if isinstance(key, OffsetCommitKey):
        assert f"key: offset_commit::group={key.group},partition={key.topic}-{key.partition} payload: " in line
        if isinstance(value, OffsetCommitValue):
            assert f"payload: offset={value.offset}" in line
        else:
            assert "<DELETE>" in line
    else:
        assert isinstance(key, GroupMetadataKey)
        assert f"key: group_metadata::group={key.group} payload: " in line
        if isinstance(value, GroupMetadataValue):
            shown = json.loads(line.partition("payload: ")[2])
            assert (shown["protocolType"], shown["generationId"]) == (value.protocol_type, value.generation)


def agree_4_1(line: str, key: object, value: object) -> None:
    match = re.search(r"key: (\{.*?\}\}) payload: (.*)", line)
    assert match is not None, line
    shown = json.loads(match[1])
    if isinstance(key, OffsetCommitKey):
        assert shown == {"type": "1", "data": {"group": key.group, "topic": key.topic, "partition": key.partition}}
    else:
        assert isinstance(key, GroupMetadataKey)
        assert shown == {"type": "2", "data": {"group": key.group}}
    if value is None:
        assert match[2] == "<DELETE>"
        return
    payload = json.loads(match[2])["data"]
    if isinstance(value, OffsetCommitValue):
        assert (payload["offset"], payload["metadata"]) == (value.offset, value.metadata)
        assert payload["commitTimestamp"] == value.commit_timestamp
    else:
        assert isinstance(value, GroupMetadataValue)
        assert (payload["generation"], payload["leader"]) == (value.generation, value.leader)
        assert [m["memberId"] for m in payload["members"]] == [m.member_id for m in value.members]
