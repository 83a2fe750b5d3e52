"""A real broker's past: groups of every kind, made by clients of every kind, and what the broker says of them later.

`live` what happened while the broker ran, `Past` what the tests need to know of it, `ask_all` what any broker answers.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import random
import shutil
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import confluent_kafka

from kafka_wire.codec import encode
from kafka_wire.errors import Err
from kafka_wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
)
from kafka_wire.messages.k02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafka_wire.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from kafka_wire.messages.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kafka_wire.messages.k12_heartbeat import HeartbeatRequest
from kafka_wire.messages.k15_describe_groups import DescribeGroupsRequest
from kafka_wire.messages.k16_list_groups import ListGroupsRequest
from kafka_wire.messages.k19_create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kafka_wire.messages.k20_delete_topics import DeleteTopicsRequest
from kafka_wire.messages.k42_delete_groups import DeleteGroupsRequest
from kafka_wire.messages.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.conformance.driver import (
    Kafka,
    Member,
    create_topic,
    offsets_topic_ready,
    rejoin_all,
    subscription,
    topic_known,
)
from tests.support.real_kafka import RealKafka
from tests.support.wire import Wire

OFFSETS_PARTITIONS = 3
GROUPS = (
    "simple",
    "live",
    "static",
    "emptied",
    "deleted",
    "again",
    "txn-committed",
    "txn-aborted",
    "txn-open",
    "txn-overtaken",
    "txn-twice",
)
FILLERS = ("filler-a", "filler-b", "filler-c", "filler-d", "filler-e")
NEWER = ("newer", "newer-left")
"""Groups of the KIP-848 protocol, of 4.1 alone."""

SESSION_MS = 600_000


@dataclass
class Past:
    """State that the clients left: the members of each group, and their generations."""

    members: list[tuple[str, str, str | None, int]] = field(default_factory=list)
    """Group, member id, instance id, generation."""
    keep: list[Any] = field(default_factory=list)
    """Clients that must live until the logs are copied."""


@dataclass
class Answers:
    """Answers of a broker to requests about everything, in a form that can be compared."""

    groups: dict[str, Any] = field(default_factory=dict)
    offsets: dict[str, Any] = field(default_factory=dict)
    stable: dict[str, Any] = field(default_factory=dict)
    """Errors of an OffsetFetch with require_stable, by partition."""
    heartbeats: list[Any] = field(default_factory=list)
    listed: set[tuple[str, str, str]] = field(default_factory=set)
    topics: dict[str, Any] = field(default_factory=dict)


# --- making it ----------------------------------------------------------------------------------------------------------


async def live(kafka: RealKafka) -> Past:
    """Everything that happens before the broker stops."""
    past = Past()
    hand = Kafka(kafka.version[:3], "kafka", {1: kafka.bootstrap}, "unused")
    try:
        for name, partitions in (("orders", 4), ("audit", 2)):
            await create_topic(hand.watch, name, partitions)
            await topic_known(hand.watch, name, partitions)
        await _settled(hand)
        await asyncio.to_thread(_produce, kafka.bootstrap)
        await offsets_topic_ready(hand.watch)
        for group in (*GROUPS, *FILLERS):
            await offsets_of(await hand.wire(), group)
        await _plain(hand)
        await _with_members(hand, past)
        await asyncio.to_thread(_transactions, kafka.bootstrap, past)
        assert await hand.commit({("orders", 0): 9}, group="txn-overtaken") == {("orders", 0): Err.NONE}
        await asyncio.to_thread(past.keep.pop(0))  # now its transaction commits
        if kafka.version.startswith("4"):
            await asyncio.to_thread(_newer, kafka.bootstrap, past)
        await _fill(hand)
        await _plain_later(hand)
    finally:
        await hand.close()
    return past


async def _settled(hand: Kafka) -> None:
    """A topic with settings of its own, and one that is gone again."""
    configs = [CreatableTopicConfig("cleanup.policy", "compact"), CreatableTopicConfig("max.message.bytes", "5000")]
    wanted = [CreatableTopic("settled", 3, 1, [], configs), CreatableTopic("doomed", 1, 1)]
    answer = await hand.watch(CreateTopicsRequest(wanted, timeout_ms=10_000), 5)
    assert [topic.error_code for topic in answer.topics] == [Err.NONE] * 2
    await topic_known(hand.watch, "settled", 3)
    await hand.watch(DeleteTopicsRequest(topic_names=["doomed"], timeout_ms=10_000), 5)


def _produce(bootstrap: str) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "compression.type": "lz4"})
    for number in range(40):
        producer.produce("orders", f"value {number}", str(number), partition=number % 4)
    assert producer.flush(20) == 0


async def _plain(hand: Kafka) -> None:
    for offset in range(5):
        await hand.commit({("orders", p): (offset + p, f"note {p}") for p in range(4)}, group="simple")
    await hand.commit({("audit", 1): 2}, group="simple")
    await hand.commit({("orders", 0): 1, ("orders", 1): 2}, group="txn-open")
    for group in ("deleted", "again"):
        await hand.commit({("orders", 0): 5, ("audit", 0): 6}, group=group)
    gone = [OffsetDeleteRequestTopic("orders", [OffsetDeleteRequestPartition(3)])]
    answer = await hand.watch(OffsetDeleteRequest("simple", gone), 0)
    assert answer.topics[0].partitions[0].error_code == Err.NONE
    answer = await hand.watch(DeleteGroupsRequest(["deleted", "again"]), 2)
    assert [result.error_code for result in answer.results] == [Err.NONE] * 2


async def _plain_later(hand: Kafka) -> None:
    """Behind the fillers, so that it lies in another segment than what it replaces."""
    await hand.commit({("orders", 1): (33, "late")}, group="simple")
    await hand.commit({("orders", 2): 7}, group="again")


def assignment(topics: dict[str, list[int]]) -> bytes:
    """As consumers exchange it."""
    parts = [ConsumerProtocolAssignmentTopicPartition(topic, partitions) for topic, partitions in topics.items()]
    return b"\x00\x01" + encode(ConsumerProtocolAssignment(parts), 1)


async def _stable(hand: Kafka, group: str, count: int = 2, **options: Any) -> list[Member]:
    protocols = [("range", subscription("orders", "audit"))]
    members = await hand.joined(count, group=group, session_ms=SESSION_MS, protocols=protocols, **options)
    await _sync(members)
    return members


async def _sync(members: list[Member]) -> None:
    """The leader, the first, hands out every partition of both topics."""
    count = len(members)
    assignments = {
        member.id: assignment({"audit": [*range(n, 2, count)], "orders": [*range(n, 4, count)]})
        for n, member in enumerate(members)
    }
    for member in members:
        answer = await member.sync(assignments if member is members[0] else None)
        assert answer.error_code == Err.NONE


async def _with_members(hand: Kafka, past: Past) -> None:
    members = await _stable(hand, "live")
    await members[0].commit({("orders", 0): 3, ("orders", 1): 4})
    for _ in range(2):
        await rejoin_all(members)
        await _sync(members)
    await members[1].commit({("orders", 1): (8, "later")})
    _remember(past, members)

    members = await _stable(hand, "static", instances=["instance-1", None])
    await members[0].commit({("audit", 0): 1})
    _remember(past, members)

    member = (await _stable(hand, "emptied", 1))[0]
    await member.commit({("orders", 0): 2})
    await member.leave()


def _remember(past: Past, members: Iterable[Member]) -> None:
    past.members += [(m.group, m.id, m.instance, m.generation) for m in members]


def _transactions(bootstrap: str, past: Past) -> None:
    """Committed, aborted, overtaken by a plain commit, twice in a row, and never ended."""

    def begin(group: str, offset: int, producer: Any = None) -> Any:
        if producer is None:
            settings = {"transactional.id": f"t-{group}", "transaction.timeout.ms": 600_000, "log_level": 0}
            producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, **settings})
            producer.init_transactions(30)
        consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
        producer.begin_transaction()
        position = [confluent_kafka.TopicPartition("orders", 0, offset)]
        producer.send_offsets_to_transaction(position, consumer.consumer_group_metadata(), 30)
        consumer.close()
        return producer

    begin("txn-committed", 5).commit_transaction(30)
    begin("txn-aborted", 5).abort_transaction(30)
    twice = begin("txn-twice", 5)
    twice.abort_transaction(30)
    begin("txn-twice", 6, twice).commit_transaction(30)
    overtaken = begin("txn-overtaken", 5)
    past.keep += [lambda: overtaken.commit_transaction(30), begin("txn-open", 5)]


def _newer(bootstrap: str, past: Past) -> None:
    for group in NEWER:
        settings = {"group.id": group, "group.protocol": "consumer", "auto.offset.reset": "earliest", "log_level": 0}
        consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, **settings})
        consumer.subscribe(["orders"])
        deadline = time.monotonic() + 60
        while not consumer.assignment():
            assert time.monotonic() < deadline, f"waited 60 s for an assignment of {group}"
            consumer.poll(0.1)
        consumer.commit(offsets=[confluent_kafka.TopicPartition("orders", 1, 6)], asynchronous=False)
        if group == "newer":
            past.keep.append(consumer)
        else:
            consumer.close()


async def _fill(hand: Kafka) -> None:
    """Enough of records that replace one another to roll every partition's segments several times."""
    chance = random.Random(4)

    def note() -> str:
        return base64.b64encode(chance.randbytes(3000)).decode()  # nothing that a codec could make small

    for number in range(12 if hand.old else 40):
        for group in FILLERS:
            offsets = {("orders", p): (number, note()) for p in range(4)} | {("audit", 0): (number, note())}
            errors = await hand.commit(offsets, group=group)
            assert set(errors.values()) == {Err.NONE}


async def commit_some(kafka: RealKafka) -> None:
    """Commits of one group, each worth compressing."""
    hand = Kafka(kafka.version[:3], "kafka", {1: kafka.bootstrap}, "packed")
    try:
        await create_topic(hand.watch, "orders", 2)
        await topic_known(hand.watch, "orders", 2)
        await offsets_topic_ready(hand.watch)
        await offsets_of(await hand.wire(), "packed")
        for offset in range(42):
            errors = await hand.commit({("orders", p): (offset + p, "x" * 500) for p in range(2)})
            assert set(errors.values()) == {Err.NONE}
    finally:
        await hand.close()


def copy_of(source: Path, target: Path, *, only: Callable[[str], bool] = lambda name: True) -> Path:
    """A copy of a data directory's entries.

    Files that go while it is made are left out: the broker writes each checkpoint beside its place and renames it there, and the
    cleaner deletes segments.
    """
    target.mkdir()
    for entry in sorted(source.iterdir()):
        if not only(entry.name):
            continue
        if not entry.is_dir():
            _copy_if_there(entry, target)
            continue
        (target / entry.name).mkdir()
        for file in sorted(entry.iterdir()):
            _copy_if_there(file, target / entry.name)
    return target


def _copy_if_there(file: Path, folder: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        shutil.copy(file, folder)


# --- asking -------------------------------------------------------------------------------------------------------------


async def ask_all(bootstrap: str, past: Past, groups: Iterable[str]) -> Answers:
    """Everything that the comparison looks at, once the coordinator has loaded it."""
    wire = await Wire.connect(bootstrap)
    answers = Answers()
    try:
        for group in groups:
            answers.offsets[group] = await offsets_of(wire, group)
            answers.groups[group] = await described(wire, group)
            answers.stable[group] = await unstable_in(wire, group)
        for group, member_id, instance_id, generation in past.members:
            for number in (generation, generation - 1):
                request = HeartbeatRequest(group, number, member_id, instance_id)
                answers.heartbeats.append((group, Err((await wire.send(request, 4)).error_code).name))
        listed = (await wire.send(ListGroupsRequest(), 4)).groups
        answers.listed = {(one.group_id, one.protocol_type, one.group_state) for one in listed}
        for topic in ("orders", "audit"):
            answers.topics[topic] = await topic_of(wire, topic)
    finally:
        await wire.close()
    return answers


async def offsets_of(wire: Wire, group: str) -> dict[tuple[str, int], tuple[int, int, str]]:
    """All committed offsets, with leader epoch and metadata; waits while the coordinator loads."""
    deadline = time.monotonic() + 60
    while True:
        fetched = await wire.send(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=None)]), 8)
        answer = fetched.groups[0]
        if answer.error_code not in (Err.COORDINATOR_LOAD_IN_PROGRESS, Err.NOT_COORDINATOR):
            break
        assert time.monotonic() < deadline, f"waited 60 s for the coordinator of {group}: {Err(answer.error_code).name}"
        await asyncio.sleep(0.02)
    assert answer.error_code == Err.NONE
    return {
        (topic.name, p.partition_index): (p.committed_offset, p.committed_leader_epoch, p.metadata)
        for topic in answer.topics
        for p in topic.partitions
    }


async def unstable_in(wire: Wire, group: str) -> dict[tuple[str, int], tuple[int, str]]:
    """Return the offsets and errors of OffsetFetch with require_stable for orders-0 and orders-1."""
    asked = OffsetFetchRequestGroup(group, topics=[OffsetFetchRequestTopics("orders", partition_indexes=[0, 1])])
    answer = (await wire.send(OffsetFetchRequest(groups=[asked], require_stable=True), 8)).groups[0]
    assert answer.error_code == Err.NONE
    return {
        (topic.name, p.partition_index): (p.committed_offset, Err(p.error_code).name)
        for topic in answer.topics
        for p in topic.partitions
    }


async def described(wire: Wire, group: str) -> Any:
    found = (await wire.send(DescribeGroupsRequest([group]), 5)).groups[0]
    assert found.error_code == Err.NONE
    members = sorted(
        (m.member_id, m.group_instance_id, m.client_id, m.client_host, m.member_metadata, m.member_assignment)
        for m in found.members
    )
    return found.group_state, found.protocol_type, found.protocol_data, members


async def topic_of(wire: Wire, topic: str) -> Any:
    """Id and log ends."""
    told = (await wire.send(MetadataRequest([MetadataRequestTopic(bytes(16), topic)]), 12)).topics[0]
    assert told.error_code == Err.NONE
    wanted = [ListOffsetsPartition(p.partition_index, timestamp=-1) for p in told.partitions]
    ends = (await wire.send(ListOffsetsRequest(-1, topics=[ListOffsetsTopic(topic, wanted)]), 5)).topics[0]
    return told.topic_id, {p.partition_index: p.offset for p in ends.partitions}
