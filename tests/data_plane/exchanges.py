"""The same requests to any broker, and their answers in a shape that can be compared.

`run(wire, release)` puts some 300 requests of the data plane to a fresh broker, one after the other, and gives their
answers by name. What differs from broker to broker by nature is normalised (talk.py): ids, ports, times, sizes of disks,
the order of lists that Kafka keeps in hash tables.
"""

from __future__ import annotations

import asyncio
import struct
import time
from typing import Any

import google_crc32c

from kafka_wire.messages import k01_fetch as f
from kafka_wire.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_wire.messages.k02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafka_wire.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from kafka_wire.messages.k19_create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kafka_wire.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from kafka_wire.messages.k21_delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kafka_wire.messages.k22_init_producer_id import InitProducerIdRequest
from kafka_wire.messages.k23_offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kafka_wire.messages.k29_describe_acls import DescribeAclsRequest
from kafka_wire.messages.k30_create_acls import AclCreation, CreateAclsRequest
from kafka_wire.messages.k31_delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kafka_wire.messages.k32_describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafka_wire.messages.k33_alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from kafka_wire.messages.k35_describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from kafka_wire.messages.k37_create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kafka_wire.messages.k44_incremental_alter_configs import AlterableConfig as Step
from kafka_wire.messages.k44_incremental_alter_configs import AlterConfigsResource as StepsOf
from kafka_wire.messages.k44_incremental_alter_configs import IncrementalAlterConfigsRequest
from kafka_wire.messages.k60_describe_cluster import DescribeClusterRequest
from kafka_wire.messages.k75_describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
    TopicRequest,
)
from kafka_wire.record_batch import build_batch
from tests.data_plane.talk import Release, Talk
from tests.support.wire import Wire

TOPICS: dict[str, dict[str, str]] = {
    "plain": {},
    "other": {},
    "quiet": {},
    "compacted": {"cleanup.policy": "compact"},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
    "small": {"max.message.bytes": "200"},
    "strict": {"min.insync.replicas": "2"},
}


def patched(data: bytes, at: int, form: str, value: int) -> bytes:
    """A batch with a field of its header changed, its CRC right."""
    changed = bytearray(data)
    struct.pack_into(form, changed, at, value)
    struct.pack_into(">I", changed, 17, google_crc32c.value(bytes(changed[21:])))
    return bytes(changed)


async def run(wire: Wire, release: Release) -> dict[str, str]:
    """Every answer by name."""
    talk = Talk(wire, release)
    await _topics(talk)
    await _metadata(talk)
    await _produce(talk)
    await _idempotent(talk)
    await _list_offsets(talk)
    await _fetch(talk)
    await _sessions(talk)
    await _delete_records(talk)
    await _acls(talk)
    await _configs(talk)
    if release >= (4, 0):
        await _describe(talk)
    await _partitions(talk)
    await _delete(talk)
    return talk.answers


async def _known(talk: Talk, *names: str) -> None:
    """Wait until the broker tells of topics that its controller has created."""
    deadline = time.monotonic() + 60
    while True:
        answer = await talk.wire.send(MetadataRequest([MetadataRequestTopic(name=name) for name in names]), 12)
        if all(topic.error_code == 0 and topic.partitions for topic in answer.topics):
            talk.ids.update({topic.name: topic.topic_id for topic in answer.topics})
            return
        assert time.monotonic() < deadline, f"{names} did not become known"
        await asyncio.sleep(0.05)


def _creatable(name: str, partitions: int = 1, factor: int = 1, **settings: str | None) -> CreatableTopic:
    configs = [CreatableTopicConfig(key.replace("_", "."), value) for key, value in settings.items()]
    return CreatableTopic(name, partitions, factor, [], configs)


def _assigned(*replicas: tuple[int, list[int]], partitions: int = -1, factor: int = -1) -> CreatableTopic:
    return CreatableTopic("given", partitions, factor, [CreatableReplicaAssignment(*one) for one in replicas], [])


async def _acls(talk: Talk) -> None:
    rule, pattern = AclCreation(2, "t", 3, "User:a", "*", 3, 3), DeleteAclsFilter(2, "t", 3, None, None, 1, 1)
    for version in range(1, 4):
        await talk.ask("all", DescribeAclsRequest(1, None, 1, None, None, 1, 1), version)
        await talk.ask("two", CreateAclsRequest([rule, rule]), version)
        await talk.ask("one", DeleteAclsRequest([pattern]), version)
        await talk.ask("none", CreateAclsRequest([]), version)


async def _topics(talk: Talk) -> None:
    cases = {
        "empty name": _creatable(""),
        "dots": _creatable(".."),
        "long name": _creatable("x" * 250),
        "space": _creatable("a b"),
        "no partitions": _creatable("t", 0),
        "no replicas": _creatable("t", 1, 0),
        "three replicas": _creatable("t", 1, 3),
        "both wrong": _creatable("t", 0, 3),
        "defaults": _creatable("defaults", -1, -1),
        "numbers beside replicas": _assigned((0, [1]), partitions=1),
        "factor beside replicas": _assigned((0, [1]), factor=1),
        "gap": _assigned((1, [1])),
        "no brokers": _assigned((0, [])),
        "unknown broker": _assigned((0, [9])),
        "broker twice": _assigned((0, [1, 1])),
        "negative broker": _assigned((0, [-1])),
        "partition twice": _assigned((0, [1]), (0, [1])),
        "replicas": _assigned((0, [1]), (1, [1])),
        "unknown setting": _creatable("t", foo="1"),
        "bad value": _creatable("t", retention_ms="x"),
        "null value": _creatable("t", retention_ms=None),
        "out of range": _creatable("t", segment_ms="0"),
        "bad list": _creatable("t", cleanup_policy="burn"),
        "bad boolean": _creatable("t", preallocate="yes"),
        "bad double": _creatable("t", min_cleanable_dirty_ratio="1.5"),
        "lags": _creatable("t", min_compaction_lag_ms="10", max_compaction_lag_ms="5"),
        "throttled": _creatable("t", leader_replication_throttled_replicas="x"),
        "setting before replicas": _creatable("t", 1, 3, foo="1"),
        "too many": _creatable("t", 10_001),
        "exists": _creatable("defaults", 0),
    }
    for tag, topic in cases.items():
        await talk.ask(tag, CreateTopicsRequest([topic], 5000), 5)
    for tag, counts in {"in one": [10_000], "in two": [5001, 5001], "just not": [4999, 4999]}.items():
        topics = [_creatable(f"many{at}", count) for at, count in enumerate(counts)]
        await talk.ask(f"too many {tag}", CreateTopicsRequest(topics, 5000, True), 4)
    settings = {name: [CreatableTopicConfig(*one) for one in own.items()] for name, own in TOPICS.items()}
    made = [CreatableTopic(name, 2, 1, [], own) for name, own in settings.items()]
    await talk.ask("the topics", CreateTopicsRequest(made, 5000), 4)
    await talk.ask("only checked", CreateTopicsRequest([_creatable("t", 2)], 5000, True), 4)
    await talk.ask("twice", CreateTopicsRequest([_creatable("t"), _creatable("t")], 5000), 7)
    await talk.ask("siblings", CreateTopicsRequest([_creatable("x.y"), _creatable("x_y")], 5000), 4)
    await talk.ask("none", CreateTopicsRequest([], 5000), 7)
    await _known(talk, *TOPICS, "defaults", "given", "x.y", "x_y")


async def _metadata(talk: Talk) -> None:
    def ask(*names: str, create: bool = False, **options: bool) -> MetadataRequest:
        topics = [MetadataRequestTopic(name=name) for name in names]
        return MetadataRequest(topics, allow_auto_topic_creation=create, **options)

    for version in (4, 9, 12):
        await talk.ask("known and unknown", ask("plain", "nobody", "plain", "a b", ""), version)
    await talk.ask("none", ask(), 12)
    await talk.ask("created", ask("created", create=True), 9)
    await talk.ask("names that cannot be", ask("a b", "", create=True), 9)
    operations = {"include_topic_authorized_operations": True, "include_cluster_authorized_operations": True}
    await talk.ask("operations", ask("plain", "nobody", **operations), 8)
    by_id = {
        "unknown id": [MetadataRequestTopic(b"1" * 16, None)] * 2,
        "id": [MetadataRequestTopic(talk.ids["plain"], None)],
        "id beside a name": [MetadataRequestTopic(talk.ids["plain"], "other")],
        "neither": [MetadataRequestTopic(bytes(16), None)],
    }
    for tag, topics in by_id.items():
        await talk.ask(tag, MetadataRequest(topics), 12)
    await talk.ask("id too early", MetadataRequest(by_id["id beside a name"]), 10)
    await talk.ask("null too early", MetadataRequest(by_id["neither"]), 10)


def _produce_to(
    topic: str, records: bytes, *, partition: int = 0, acks: int = -1, tx: str | None = None
) -> ProduceRequest:
    return ProduceRequest(
        tx, acks, 3000, [TopicProduceData(topic, partition_data=[PartitionProduceData(partition, records)])]
    )


async def _produce(talk: Talk) -> None:
    good = talk.batch()
    unchanged = {
        "leader's acks": _produce_to("plain", good, acks=1),
        "acks 2": _produce_to("plain", good, acks=2),
        "unknown topic": _produce_to("nobody", good),
        "unknown partition": _produce_to("plain", good, partition=7),
        "negative partition": _produce_to("plain", good, partition=-1),
        "empty": _produce_to("plain", b""),
        "two batches": _produce_to("plain", good + good),
        "short": _produce_to("plain", good[:10]),
        "crc": _produce_to("plain", good[:-1] + b"!"),
        "magic 1": _produce_to("plain", patched(good, 16, ">b", 1)),
        "count": _produce_to("plain", patched(good, 57, ">i", 5)),
        "last offset": _produce_to("plain", patched(good, 23, ">i", 7)),
        "base offset": _produce_to("plain", patched(good, 0, ">q", 5)),
        "no records": _produce_to("plain", patched(patched(good, 57, ">i", 0), 23, ">i", -1)),
        "control": _produce_to("plain", talk.batch(attributes=0x20)),
        "transactional, unnamed": _produce_to("plain", talk.batch(attributes=0x10, producer_id=99, producer_epoch=0)),
        "codec 5": _produce_to("plain", talk.batch(attributes=5)),
        "key missing": _produce_to("compacted", build_batch([(None, b"v")], talk.start_ms)),
        "tombstone": _produce_to("compacted", build_batch([(b"k", None)], talk.start_ms)),
        "broker's time": _produce_to("stamped", good),
        "too large": _produce_to("small", build_batch([(b"k", b"v" * 300)], talk.start_ms)),
        "far in the past": _produce_to("plain", talk.batch(at_ms=5)),
        "without time": _produce_to("plain", talk.batch(at_ms=-1)),
        "too few replicas": _produce_to("strict", good),
        "too few replicas, leader's acks": _produce_to("strict", good, acks=1),
        "nothing": ProduceRequest(None, -1, 1000, []),
    }
    for tag, request in unchanged.items():
        await talk.ask(tag, request, 9)
    for version in (3, 5, 7, 8):
        await talk.ask("good", _produce_to("plain", good), version)
        await talk.ask("crc", _produce_to("plain", good[:-1] + b"!"), version)
    await talk.ask("zstd", _produce_to("plain", talk.batch(attributes=4)), 6)
    twice = [PartitionProduceData(0, good), PartitionProduceData(1, good), PartitionProduceData(0, good)]
    await talk.ask(
        "a partition twice", ProduceRequest(None, -1, 1000, [TopicProduceData("other", partition_data=twice)]), 9
    )
    for count in (3, 1):
        await talk.ask(f"{count} more", _produce_to("other", talk.batch(count)), 9)
    if talk.release >= (4, 0):
        for tag, topic_id in {"id": talk.ids["plain"], "unknown id": b"1" * 16, "no id": bytes(16)}.items():
            request = _produce_to("", good)
            request.topic_data[0].topic_id = topic_id
            await talk.ask(tag, request, 13)


async def _producer_id(talk: Talk) -> int:
    """A producer id; a broker that has just started may have none yet."""
    deadline = time.monotonic() + 60
    while True:
        answer = await talk.wire.send(InitProducerIdRequest(None, 1000), 4)
        if answer.error_code == 0:
            return int(answer.producer_id)
        assert time.monotonic() < deadline, f"no producer id: error {answer.error_code}"
        await asyncio.sleep(0.05)


async def _idempotent(talk: Talk) -> None:
    mine = await _producer_id(talk)
    steps = {
        "first": (mine, 0, 0, 2),
        "again": (mine, 0, 0, 2),
        "gap": (mine, 0, 5, 2),
        "next": (mine, 0, 2, 2),
        "an older one again": (mine, 0, 0, 2),
        "another size": (mine, 0, 2, 1),
        "third": (mine, 0, 4, 2),
        "new epoch, old sequence": (mine, 1, 5, 2),
        "new epoch": (mine, 1, 0, 2),
        "old epoch": (mine, 0, 6, 2),
        "unknown producer, late sequence": (mine + 500, 0, 7, 2),
        "negative sequence": (mine, 0, -1, 2),
    }
    for tag, (producer, epoch, sequence, count) in steps.items():
        batch = talk.batch(count, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)
        await talk.ask(f"producer, {tag}", _produce_to("quiet", batch), 9)
    await talk.ask("empty transactional id", InitProducerIdRequest("", 1000), 4)
    await talk.ask("id without epoch", InitProducerIdRequest(None, 1000, 5, -1), 4)
    await talk.ask("epoch without id", InitProducerIdRequest(None, 1000, -1, 5), 4)


def _offset(topic: str, timestamp: int, *, partition: int = 0, epoch: int = -1, most: int = 1) -> ListOffsetsRequest:
    return ListOffsetsRequest(
        -1, 0, [ListOffsetsTopic(topic, [ListOffsetsPartition(partition, epoch, timestamp, most)])]
    )


async def _list_offsets(talk: Talk) -> None:
    times = {"the past": 0, "now": talk.start_ms, "the future": talk.start_ms + 10**9}
    newest = 10 if talk.release >= (4, 0) else 7
    for version in (1, 4, newest):
        for timestamp in range(-1, -8, -1):
            await talk.ask(f"timestamp {timestamp}", _offset("other", timestamp), version)
        for tag, timestamp in times.items():
            await talk.ask(tag, _offset("other", timestamp), version)
    for timestamp in (-1, -2, -3, 0):
        await talk.ask(f"empty log, timestamp {timestamp}", _offset("strict", timestamp, partition=1), 7)
    cases = {
        "unknown topic": _offset("nobody", -1),
        "unknown partition": _offset("other", -1, partition=9),
        "newer epoch": _offset("other", -1, epoch=9),
        "this epoch": _offset("other", -1, epoch=0),
        "twice": ListOffsetsRequest(-1, 0, [ListOffsetsTopic("other", [ListOffsetsPartition(0, -1, -1)] * 2)]),
        "read committed": ListOffsetsRequest(-1, 1, _offset("other", -1).topics),
        "isolation level 9": ListOffsetsRequest(-1, 9, _offset("other", -1).topics),
        "debugging": ListOffsetsRequest(-2, 0, _offset("other", -1).topics),
    }
    for tag, request in cases.items():
        await talk.ask(tag, request, 7)
    if talk.release < (4, 0):
        for timestamp in (-1, -2, -3, 0):
            await talk.ask(f"old style, timestamp {timestamp}", _offset("other", timestamp, most=5), 0)
        await talk.ask("old style, the future", _offset("other", times["the future"], most=1), 0)
        await talk.ask("old style, none", _offset("other", -1, most=0), 0)
        await talk.ask("old style, empty log", _offset("strict", -1, partition=1, most=5), 0)
    for tag, (topic, epoch, current) in {
        "epoch 0": ("other", 0, -1),
        "epoch -1": ("other", -1, -1),
        "epoch 5": ("other", 5, -1),
        "older client": ("other", 0, -5),
        "newer client": ("other", 0, 5),
        "unknown topic": ("nobody", 0, -1),
    }.items():
        partition = OffsetForLeaderPartition(0, current, epoch)
        await talk.ask(tag, OffsetForLeaderEpochRequest(-1, [OffsetForLeaderTopic(topic, [partition])]), 4)


def _fetch_of(topic: str, offset: int, *, partition: int = 0, limit: int = 1 << 20, **options: Any) -> f.FetchRequest:
    fields = {name: options.pop(name) for name in ("current_leader_epoch", "last_fetched_epoch") if name in options}
    one = f.FetchPartition(partition, fetch_offset=offset, partition_max_bytes=limit, **fields)
    options.setdefault("session_epoch", -1)
    return f.FetchRequest(
        min_bytes=1,
        max_bytes=options.pop("max_bytes", 1 << 20),
        topics=[f.FetchTopic(topic, partitions=[one])],
        **options,
    )


async def _fetch(talk: Talk) -> None:
    for version in (4, 5, 7, 11, 12):
        await talk.ask("from the start", _fetch_of("other", 0), version)
    cases = {
        "the end": _fetch_of("other", 6),
        "beyond the end": _fetch_of("other", 99),
        "negative": _fetch_of("other", -1),
        "inside a batch": _fetch_of("other", 3),
        "unknown topic": _fetch_of("nobody", 0),
        "unknown partition": _fetch_of("other", 0, partition=9),
        "newer client": _fetch_of("other", 0, current_leader_epoch=9),
        "negative epoch": _fetch_of("other", 0, current_leader_epoch=-2),
        "read committed": _fetch_of("other", 0, isolation_level=1),
        "read committed beyond the end": _fetch_of("other", 99, isolation_level=1),
        "isolation level 9": _fetch_of("other", 0, isolation_level=9),
        "a byte of the partition": _fetch_of("other", 0, limit=1),
        "no byte of the partition": _fetch_of("other", 0, limit=0),
        "a negative limit": _fetch_of("other", 0, limit=-1),
        "a byte in all": _fetch_of("other", 0, max_bytes=1),
        "last epoch 0": _fetch_of("other", 2, last_fetched_epoch=0),
        "last epoch 5": _fetch_of("other", 2, last_fetched_epoch=5),
        "last epoch 0 of an empty log": _fetch_of("strict", 0, partition=1, last_fetched_epoch=0),
        "a follower's": _fetch_of("other", 0, replica_id=9),
    }
    for tag, request in cases.items():
        await talk.ask(tag, request, 12)
    two = _fetch_of("other", 0, max_bytes=1)
    two.topics[0].partitions.append(f.FetchPartition(1, partition_max_bytes=1 << 20))
    await talk.ask("the first batch alone", two, 12)
    await talk.ask("nothing", f.FetchRequest(session_epoch=-1), 12)
    for tag, topic_id in {"id": talk.ids["other"], "unknown id": b"1" * 16, "no id": bytes(16)}.items():
        request = _fetch_of("", 0)
        request.topics[0].topic_id = topic_id
        await talk.ask(tag, request, 13)
        if talk.release >= (4, 0):
            await talk.ask(tag, request, 17)


async def _sessions(talk: Talk) -> None:
    def go_on(epoch: int, session_id: int, *, forget: tuple[int, ...] = ()) -> f.FetchRequest:
        request = f.FetchRequest(min_bytes=1, max_bytes=1 << 20, session_id=session_id, session_epoch=epoch)
        request.forgotten_topics_data = [f.ForgottenTopic("other", bytes(16), list(forget))] if forget else []
        return request

    def changed(epoch: int, session_id: int, *offsets: int) -> f.FetchRequest:
        request = go_on(epoch, session_id)
        partitions = [f.FetchPartition(n, fetch_offset=at, partition_max_bytes=1 << 20) for n, at in enumerate(offsets)]
        request.topics = [f.FetchTopic("other", partitions=partitions)]
        return request

    session = (await talk.ask("session, begun", changed(0, 0, 0, 0), 12)).session_id
    steps = {
        "unread": go_on(1, session),
        "beyond the end": changed(2, session, 99_999),
        "still beyond": go_on(3, session),
        "read": changed(4, session, 6, 2),
        "quiet": go_on(5, session),
        "wrong epoch": go_on(9, session),
        "unknown": go_on(1, 77_777),
        "goes on": go_on(6, session),
        "forgets one": go_on(7, session, forget=(1,)),
    }
    for tag, request in steps.items():
        await talk.ask(f"session, {tag}", request, 12)
    await talk.ask("session, by id", go_on(8, session), 13)
    for partition in (0, 1):
        await talk.wire.send(_produce_to("other", talk.batch(1), partition=partition), 9)
    await talk.ask("session, news", go_on(8, session), 12)
    await talk.ask("session, forgets all", go_on(9, session, forget=(0,)), 12)
    await talk.ask("session, gone", go_on(10, session), 12)
    again = (await talk.ask("session, another", changed(0, 0, 0), 12)).session_id
    await talk.ask("session, ended", changed(-1, again, 0), 12)
    await talk.ask("session, after its end", go_on(1, again), 12)
    await talk.ask("session, of nothing", go_on(0, 0), 12)
    await talk.ask("session, epoch without id", go_on(5, 0), 12)


async def _delete_records(talk: Talk) -> None:
    def before(topic: str, offset: int, partition: int = 0) -> DeleteRecordsRequest:
        return DeleteRecordsRequest([DeleteRecordsTopic(topic, [DeleteRecordsPartition(partition, offset)])], 3000)

    cases = {
        "up to 3": before("other", 3),
        "up to 2": before("other", 2),
        "all": before("plain", -1),
        "beyond the end": before("other", 99),
        "negative": before("other", -2),
        "unknown topic": before("nobody", 0),
        "unknown partition": before("other", 0, 9),
        "compacted": before("compacted", 0),
        "empty": before("strict", 0, 1),
    }
    for tag, request in cases.items():
        await talk.ask(tag, request, 2)
    await talk.ask("deleted", _fetch_of("other", 0), 12)
    await talk.ask("left", _fetch_of("other", 3), 12)
    for timestamp in (-1, -2, 0):
        await talk.ask(f"after deletion, timestamp {timestamp}", _offset("other", timestamp), 7)
    await talk.ask("after deletion", _produce_to("other", talk.batch()), 9)


async def _configs(talk: Talk) -> None:
    for tag, (kind, name, keys) in {
        "one": (2, "compacted", ["cleanup.policy"]),
        "unknown key": (2, "compacted", ["nope"]),
        "several": (2, "plain", ["retention.ms", "segment.ms", "max.message.bytes", "flush.ms"]),
        "unknown topic": (2, "nobody", None),
        "no topic": (2, "", None),
        "broker": (4, "1", ["num.partitions", "log.retention.ms", "log.cleaner.min.cleanable.ratio"]),
        "another broker": (4, "9", None),
        "no number": (4, "x", None),
        "kind 5": (5, "x", None),
        "no logger": (8, "", None),
    }.items():
        for version in (1, 4):
            request = DescribeConfigsRequest([DescribeConfigsResource(kind, name, keys)], True, False)
            await talk.ask(tag, request, version)

    async def replace(tag: str, kind: int, name: str, *settings: tuple[str, str | None]) -> None:
        resource = AlterConfigsResource(kind, name, [AlterableConfig(*one) for one in settings])
        await talk.ask(tag, AlterConfigsRequest([resource]), 2)

    await replace("topic", 2, "defaults", ("retention.ms", "7"))
    await replace("unknown topic", 2, "nobody", ("retention.ms", "7"))
    await replace("bad value", 2, "defaults", ("retention.ms", "x"))
    await replace("null", 2, "defaults", ("retention.ms", None))
    await replace("unknown key", 2, "defaults", ("foo", "x"))
    await replace("key twice", 2, "defaults", ("retention.ms", "1"), ("retention.ms", "2"))
    await replace("broker", 4, "1", ("log.cleaner.threads", "2"))
    await replace("not dynamic", 4, "1", ("num.partitions", "2"))
    await replace("bad broker value", 4, "1", ("log.cleaner.threads", "x"))
    await replace("another broker", 4, "9", ("log.cleaner.threads", "2"))
    await replace("no number", 4, "x", ("log.cleaner.threads", "2"))
    await replace("logger", 8, "1", ("root", "INFO"))
    await replace("broker, nothing", 4, "1")

    async def step(tag: str, kind: int, name: str, *changes: tuple[str, int, str | None]) -> None:
        resource = StepsOf(kind, name, [Step(*one) for one in changes])
        await talk.ask(tag, IncrementalAlterConfigsRequest([resource]), 1)

    await step("set", 2, "defaults", ("retention.ms", 0, "7"))
    await step("delete", 2, "defaults", ("retention.ms", 1, None))
    await step("append", 2, "defaults", ("cleanup.policy", 2, "compact"))
    await step("append again", 2, "defaults", ("cleanup.policy", 2, "compact"))
    await step("subtract", 2, "defaults", ("cleanup.policy", 3, "delete"))
    await step("append to a number", 2, "defaults", ("retention.ms", 2, "7"))
    await step("append nonsense", 2, "defaults", ("cleanup.policy", 2, "foo"))
    await step("operation 9", 2, "defaults", ("retention.ms", 9, "7"))
    await step("null", 2, "defaults", ("retention.ms", 0, None))
    await step("key twice", 2, "defaults", ("retention.ms", 0, "1"), ("retention.ms", 1, None))
    await step("delete an unknown key", 2, "defaults", ("foo", 1, None))
    await step("no topic", 2, "", ("retention.ms", 0, "7"))
    await step("all brokers", 4, "", ("message.max.bytes", 0, "2000000"))
    await step("listeners of all", 4, "", ("listeners", 0, "PLAINTEXT://:1"))
    await step("unknown logger", 8, "1", ("nope", 0, "INFO"))
    await step("root logger", 8, "1", ("root", 1, None))
    await step("kind 0", 0, "1", ("root", 0, "INFO"))
    twice = [StepsOf(2, "defaults", [Step("retention.ms", 0, "7")])] * 2
    await talk.ask("resource twice", IncrementalAlterConfigsRequest(twice), 1)


async def _describe(talk: Talk) -> None:
    for version, kind in ((0, 1), (1, 1), (1, 2), (1, 7), (2, 1)):
        await talk.ask(f"endpoint {kind}", DescribeClusterRequest(True, kind, version == 2), version)

    async def pages(tag: str, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> None:
        start = None if cursor is None else DescribeTopicPartitionsRequestCursor(*cursor)
        await talk.ask(tag, DescribeTopicPartitionsRequest([TopicRequest(name) for name in names], limit, start), 0)

    await pages("topics", "plain", "nobody", "a b", "other", "plain")
    await pages("a limit", "plain", "other", limit=1)
    await pages("a limit at a topic's end", "plain", "other", limit=2)
    await pages("no limit", "plain", limit=0)
    await pages("cursor", "plain", "other", cursor=("other", 1))
    await pages("cursor beyond", "plain", cursor=("plain", 9))
    await pages("negative cursor", "plain", cursor=("plain", -1))
    await pages("cursor elsewhere", "plain", cursor=("zzz", 0))
    asked = [DescribableLogDirTopic("strict", [1, 7]), DescribableLogDirTopic("nobody", [0])]
    await talk.ask("some", DescribeLogDirsRequest(asked), 4)
    await talk.ask("none", DescribeLogDirsRequest([]), 4)


async def _partitions(talk: Talk) -> None:
    async def grow(tag: str, name: str, count: int, *replicas: list[int]) -> None:
        given = [CreatePartitionsAssignment(nodes) for nodes in replicas] or None
        await talk.ask(tag, CreatePartitionsRequest([CreatePartitionsTopic(name, count, given)], 5000), 3)

    await grow("unknown topic", "nobody", 3)
    await grow("the same", "given", 2)
    await grow("less", "given", 1)
    await grow("negative", "given", -1)
    await grow("too few replicas", "given", 5, [1])
    await grow("unknown broker", "given", 3, [9])
    await grow("no brokers", "given", 3, [])
    await grow("more", "given", 3)
    await grow("far too many", "given", 20_000)
    twice = [CreatePartitionsTopic("given", count, None) for count in (8, 9)]
    await talk.ask("twice", CreatePartitionsRequest(twice, 5000), 3)


async def _delete(talk: Talk) -> None:
    async def delete(tag: str, *states: DeleteTopicState) -> None:
        await talk.ask(tag, DeleteTopicsRequest(list(states), [], 5000), 6)

    await talk.ask("unknown", DeleteTopicsRequest([], ["nobody", ""], 5000), 5)
    await delete("unknown id", DeleteTopicState(None, b"1" * 16))
    await delete("both", DeleteTopicState("given", b"1" * 16))
    await delete("neither", DeleteTopicState(None))
    await delete("name twice", DeleteTopicState("given"), DeleteTopicState("given"))
    await delete("id twice", *[DeleteTopicState(None, talk.ids["given"])] * 2)
    await delete("name and id", DeleteTopicState(None, talk.ids["given"]), DeleteTopicState("given"))
    await delete("by name and by id", DeleteTopicState(None, talk.ids["given"]), DeleteTopicState("defaults"))
