"""Driver for aiokafka: one task per member. The protocol is line_protocol's."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from typing import Any

import aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, OffsetAndMetadata, TopicPartition
from aiokafka.abc import AbstractTokenProvider
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.helpers import create_ssl_context
from line_protocol import (
    LATER,
    POLL_S,
    PYTHON_SETTINGS,
    Request,
    Snapshot,
    answer,
    log_to_stderr,
    octets,
    renamed,
    text,
    unsecured_token,
)

CONNECTION: dict[str, Any] = {"bootstrap_servers": sys.argv[1]}
"""Settings of the clients' connections: bootstrap servers and security."""
STRATEGIES = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}
background: set[asyncio.Task[Any]] = set()


def partitions_of(request: Request) -> list[TopicPartition]:
    return [TopicPartition(topic, partition) for topic, partition in request["partitions"]]


def pairs(partitions: Any) -> list[list[Any]]:
    return [[p.topic, p.partition] for p in partitions]


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, seen: Snapshot) -> None:
        self.seen = seen

    async def on_partitions_assigned(self, assigned: Any) -> None:
        self.seen.assigned.append(pairs(assigned))

    async def on_partitions_revoked(self, revoked: Any) -> None:
        self.seen.revoked.append(pairs(revoked))


class Member:
    def __init__(self, options: Request) -> None:
        self.options = options
        self.seen = Snapshot()
        self.polling: asyncio.Task[None] | None = None
        self.may_poll = asyncio.Event()
        self.may_poll.set()

    async def open(self) -> None:
        options = self.options
        self.consumer = AIOKafkaConsumer(
            **CONNECTION,
            group_id=options.get("group"),
            group_instance_id=options.get("instance"),
            client_id=options["member"],
            auto_offset_reset=options["reset"],
            enable_auto_commit=options["auto_commit"],
            auto_commit_interval_ms=options["auto_commit_interval_ms"],
            max_poll_interval_ms=options["max_poll_interval_ms"],
            session_timeout_ms=options["session_timeout_ms"],
            heartbeat_interval_ms=options["heartbeat_interval_ms"],
            isolation_level=options["isolation"],
            metadata_max_age_ms=options["metadata_max_age_ms"],
            partition_assignment_strategy=[STRATEGIES[options["strategy"]]],
            fetch_max_wait_ms=100,
        )
        listener = Listener(self.seen)
        if options.get("assign"):
            self.consumer.assign([TopicPartition(topic, partition) for topic, partition in options["assign"]])
        elif options.get("pattern"):
            self.consumer.subscribe(pattern=options["pattern"], listener=listener)
        else:
            self.consumer.subscribe(options["topics"], listener=listener)
        await self.consumer.start()
        self.polling = asyncio.create_task(self.poll())

    async def poll(self) -> None:
        while True:
            await self.may_poll.wait()
            try:
                batches = await self.consumer.getmany(timeout_ms=int(POLL_S * 1000))
            except Exception as error:
                self.seen.failed(error)
                await asyncio.sleep(POLL_S)
                continue
            for records in batches.values():
                self.seen.records.extend(
                    [r.topic, r.partition, r.offset, text(r.key), text(r.value), r.timestamp] for r in records
                )

    async def stall(self, _request: Request) -> None:
        self.may_poll.clear()

    async def resume(self, _request: Request) -> None:
        self.may_poll.set()

    async def state(self, _request: Request) -> Any:
        self.seen.assignment = pairs(self.consumer.assignment())
        return self.seen.view()

    async def commit(self, request: Request) -> Any:
        offsets = None
        if request.get("offsets") is not None:
            offsets = {
                TopicPartition(topic, partition): OffsetAndMetadata(offset, metadata)
                for topic, partition, offset, metadata in request["offsets"]
            }
        if request["how"] == "sync":
            await self.consumer.commit(offsets)
            return None
        task = asyncio.create_task(self.consumer.commit(offsets))
        background.add(task)

        def committed(finished: asyncio.Task[Any]) -> None:
            background.discard(finished)
            answer(request, error=finished.exception())

        task.add_done_callback(committed)
        return LATER

    async def committed(self, request: Request) -> Any:
        found = [(p, await self.consumer.committed(p)) for p in partitions_of(request)]
        return [[p.topic, p.partition, -1 if offset is None else offset, ""] for p, offset in found]

    async def position(self, request: Request) -> Any:
        return [[p.topic, p.partition, await self.consumer.position(p)] for p in partitions_of(request)]

    async def seek_timestamp(self, request: Request) -> Any:
        found = await self.consumer.offsets_for_times(dict.fromkeys(partitions_of(request), request["timestamp_ms"]))
        for partition, at in found.items():
            if at is None:
                await self.consumer.seek_to_end(partition)
            else:
                self.consumer.seek(partition, at.offset)
        return [[p.topic, p.partition, at.offset if at else -1] for p, at in found.items()]

    async def leave(self, _request: Request) -> None:
        if self.polling is not None:
            self.polling.cancel()
            await asyncio.gather(self.polling, return_exceptions=True)
        await self.consumer.stop()


async def hello(_request: Request) -> Any:
    return {"client": "aiokafka", "version": aiokafka.__version__}


async def produce(request: Request) -> Any:
    acks = request.get("acks", "all")
    producer = AIOKafkaProducer(
        **CONNECTION,
        acks=acks if acks == "all" else int(acks),
        compression_type=request.get("compression"),
        enable_idempotence=request.get("idempotent", False),
        max_request_size=4_000_000,
        linger_ms=5,
    )
    await producer.start()
    try:
        futures = [
            await producer.send(
                request["topic"],
                key=octets(record.get("key")),
                value=octets(record["value"]),
                partition=record.get("partition"),
                timestamp_ms=record.get("timestamp"),
                headers=[(name, value.encode()) for name, value in record.get("headers", [])],
            )
            for record in request["records"]
        ]
        return [[done.partition, done.offset] if done else None for done in await asyncio.gather(*futures)]
    finally:
        await producer.stop()


transactional_producers: dict[str, AIOKafkaProducer] = {}
open_transactions: set[str] = set()


async def transactional(request: Request) -> None:
    producer = AIOKafkaProducer(
        **CONNECTION,
        transactional_id=request["transactional_id"],
        transaction_timeout_ms=request["timeout_ms"],
    )
    await producer.start()
    transactional_producers[request["name"]] = producer


async def transaction(request: Request) -> None:
    name, producer = request["name"], transactional_producers[request["name"]]
    if name not in open_transactions:
        await producer.begin_transaction()
        open_transactions.add(name)
    for record in request["records"]:
        await producer.send_and_wait(record["topic"], octets(record["value"]), partition=record["partition"])
    if request.get("offsets"):
        offsets = {TopicPartition(topic, partition): offset for topic, partition, offset in request["offsets"]}
        await producer.send_offsets_to_transaction(offsets, request["group"])
    if request["end"] == "open":
        return
    open_transactions.discard(name)
    await (producer.commit_transaction() if request["end"] == "commit" else producer.abort_transaction())


async def transform(request: Request) -> int:
    consumer = AIOKafkaConsumer(
        request["source"],
        **CONNECTION,
        group_id=request["group"],
        isolation_level="read_committed",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        session_timeout_ms=request["session_timeout_ms"],
        heartbeat_interval_ms=300,
        partition_assignment_strategy=[RangePartitionAssignor],
    )
    await consumer.start()
    await transactional({**request, "name": "transform"})
    producer = transactional_producers.pop("transform")
    moved = turn = 0
    while True:
        batches = await consumer.getmany(timeout_ms=500, max_records=5)
        if not batches:
            continue
        await producer.begin_transaction()
        records = [record for batch in batches.values() for record in batch]
        for record in records:
            await producer.send_and_wait(request["sink"], record.value)
        if moved >= request["count"]:
            return moved  # what is open stays so
        offsets = {partition: batch[-1].offset + 1 for partition, batch in batches.items()}
        await producer.send_offsets_to_transaction(offsets, request["group"])
        turn += 1
        if turn % 3 == 0:
            await producer.abort_transaction()
            for partition, batch in batches.items():
                consumer.seek(partition, batch[0].offset)
            continue
        await producer.commit_transaction()
        moved += len(records)
        if moved >= request["count"] and request["leave"] != "open":
            await consumer.stop()
            await producer.stop()
            return moved


class Admin:
    async def __aenter__(self) -> AIOKafkaAdminClient:
        self.client = AIOKafkaAdminClient(**CONNECTION)
        await self.client.start()
        return self.client

    async def __aexit__(self, *_: object) -> None:
        await self.client.close()


def checked(response: Any) -> None:
    """aiokafka's admin gives the raw response: its errors are in the rows."""
    for row in response.topic_errors:
        error = aiokafka.errors.for_code(row[1])
        if error is not aiokafka.errors.NoError:
            raise error(row[0])


async def create_topic(request: Request) -> None:
    async with Admin() as admin:
        topic = NewTopic(request["topic"], request["partitions"], 1, topic_configs=request.get("configs") or {})
        checked(await admin.create_topics([topic]))


async def create_partitions(request: Request) -> None:
    async with Admin() as admin:
        checked(await admin.create_partitions({request["topic"]: NewPartitions(request["total"])}))


async def delete_records(request: Request) -> None:
    async with Admin() as admin:
        before = RecordsToDelete(before_offset=request["before"])
        await admin.delete_records({TopicPartition(request["topic"], request["partition"]): before})


async def group_offsets(request: Request) -> Any:
    async with Admin() as admin:
        found = await admin.list_consumer_group_offsets(request["group"], partitions=partitions_of(request))
        return [[p.topic, p.partition, c.offset, c.metadata] for p, c in found.items()]


async def list_groups(_request: Request) -> Any:
    async with Admin() as admin:
        return sorted(group[0] for group in await admin.list_consumer_groups())


async def describe_group(request: Request) -> Any:
    async with Admin() as admin:
        (response,) = await admin.describe_consumer_groups([request["group"]])
    (group,) = response.groups
    _error, _group_id, state, _protocol_type, protocol, members, *_rest = group
    return {
        "state": state,
        "protocol": protocol,
        "members": [
            {"client_id": re.sub("-[0-9a-f-]{36}$", "", member[0]), "instance": None, "assignment": None}
            for member in members
        ],
    }


class Tokens(AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, user: str) -> None:
        self.user = user

    async def token(self) -> str:
        return unsecured_token(self.user)


async def connect(request: Request) -> None:
    CONNECTION.clear()
    CONNECTION.update(renamed(request, PYTHON_SETTINGS))
    if request.get("mechanism") == "OAUTHBEARER":
        CONNECTION["sasl_oauth_token_provider"] = Tokens(request["user"])
    if request["protocol"].endswith("SSL"):
        files = {"certfile": request.get("certificate"), "keyfile": request.get("certificate")}
        CONNECTION["ssl_context"] = create_ssl_context(cafile=request.get("ca"), **files)


GLOBAL = (
    *(hello, connect, produce, transactional, transaction, transform, create_topic, create_partitions, delete_records),
    *(group_offsets, list_groups, describe_group),
)


async def serve() -> None:
    log_to_stderr()
    operations = {operation.__name__: operation for operation in GLOBAL}
    members: dict[str, Member] = {}
    reader = asyncio.StreamReader(limit=2**24)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)

    async def perform(request: Request) -> None:
        op = request["op"]
        try:
            if op in operations:
                value = await operations[op](request)
            elif op == "start":
                members[request["member"]] = member = Member(request)
                value = await member.open()
            else:
                value = await getattr(members[request["member"]], op)(request)
        except Exception as error:
            answer(request, error=error)
            return
        if value is not LATER:
            answer(request, value)

    async for line in reader:
        task = asyncio.create_task(perform(json.loads(line)))
        background.add(task)
        task.add_done_callback(background.discard)


if __name__ == "__main__":
    asyncio.run(serve())
