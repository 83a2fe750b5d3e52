"""Driver for kafka-python 3.x. The protocol is line_protocol's."""

from __future__ import annotations

import re
import sys
from typing import Any

import kafka
from kafka import ConsumerRebalanceListener, KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewPartitions, NewTopic
from kafka.consumer.group import ConsumerGroupMetadata
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.structs import OffsetAndMetadata
from line_protocol import (
    LATER,
    PYTHON_SETTINGS,
    Request,
    Snapshot,
    ThreadedMember,
    answer,
    octets,
    renamed,
    serve_threaded,
    text,
    unsecured_token,
)

CONNECTION: dict[str, Any] = {"bootstrap_servers": sys.argv[1]}
"""Settings of the clients' connections: bootstrap servers and security."""
CALL_S = 20.0
POLL_MS = 400  # not less: a rejoin that outlives the poll() it began in is forgotten (see clients.py)
STRATEGIES = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}


def partitions_of(request: Request) -> list[TopicPartition]:
    return [TopicPartition(topic, partition) for topic, partition in request["partitions"]]


def pairs(partitions: Any) -> list[list[Any]]:
    return [[p.topic, p.partition] for p in partitions]


class Listener(ConsumerRebalanceListener):
    def __init__(self, seen: Snapshot) -> None:
        self.seen = seen

    def on_partitions_assigned(self, assigned: Any) -> None:
        self.seen.assigned.append(pairs(assigned))

    def on_partitions_revoked(self, revoked: Any) -> None:
        self.seen.revoked.append(pairs(revoked))


class Member(ThreadedMember):
    def open(self) -> None:
        options = self.options
        self.consumer = KafkaConsumer(
            **CONNECTION,
            group_id=options.get("group"),
            group_instance_id=options.get("instance"),
            client_id=options["member"],
            auto_offset_reset=options["reset"],
            enable_auto_commit=options["auto_commit"] and options.get("group") is not None,
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
            self.consumer.subscribe(pattern=re.compile(options["pattern"]), listener=listener)
        else:
            self.consumer.subscribe(options["topics"], listener=listener)

    def poll(self) -> None:
        batches = self.consumer.poll(timeout_ms=POLL_MS)
        self.seen.assignment = pairs(self.consumer.assignment())
        for records in batches.values():
            self.seen.records.extend(
                [r.topic, r.partition, r.offset, text(r.key), text(r.value), r.timestamp] for r in records
            )

    def commit(self, request: Request) -> Any:
        offsets = None
        if request.get("offsets") is not None:
            offsets = {
                TopicPartition(topic, partition): OffsetAndMetadata(offset, metadata, -1)
                for topic, partition, offset, metadata in request["offsets"]
            }
        if request["how"] == "sync":
            self.consumer.commit(offsets)
            return None

        def committed(_offsets: Any, response: Any) -> None:
            answer(request, error=response if isinstance(response, Exception) else None)

        self.consumer.commit_async(offsets, callback=committed)
        return LATER

    def committed(self, request: Request) -> Any:
        found = [(p, self.consumer.committed(p, metadata=True)) for p in partitions_of(request)]
        return [[p.topic, p.partition, c.offset if c else -1, c.metadata if c else ""] for p, c in found]

    def position(self, request: Request) -> Any:
        return [[p.topic, p.partition, self.consumer.position(p)] for p in partitions_of(request)]

    def seek_timestamp(self, request: Request) -> Any:
        found = self.consumer.offsets_for_times(dict.fromkeys(partitions_of(request), request["timestamp_ms"]))
        for partition, at in found.items():
            if at is None:
                self.consumer.seek_to_end(partition)
            else:
                self.consumer.seek(partition, at.offset)
        return [[p.topic, p.partition, at.offset if at else -1] for p, at in found.items()]

    def leave(self, _request: Request) -> None:
        self.consumer.close()
        self.seen.assignment = []
        self.finished = True


def hello(_request: Request) -> Any:
    return {"client": "kafka-python", "version": kafka.__version__}


def produce(request: Request) -> Any:
    acks = request.get("acks", "all")
    producer = KafkaProducer(
        **CONNECTION,
        acks=acks if acks == "all" else int(acks),
        compression_type=request.get("compression"),
        enable_idempotence=request.get("idempotent", False),
        max_request_size=4_000_000,
        linger_ms=5,
    )
    try:
        futures = [
            producer.send(
                request["topic"],
                key=octets(record.get("key")),
                value=octets(record["value"]),
                partition=record.get("partition"),
                timestamp_ms=record.get("timestamp"),
                headers=[(name, value.encode()) for name, value in record.get("headers", [])],
            )
            for record in request["records"]
        ]
        producer.flush(CALL_S)
        return [[done.partition, done.offset] for done in (future.get(CALL_S) for future in futures)]
    finally:
        producer.close()


transactional_producers: dict[str, KafkaProducer] = {}
open_transactions: set[str] = set()


def transactional(request: Request) -> None:
    producer = KafkaProducer(
        **CONNECTION,
        transactional_id=request["transactional_id"],
        transaction_timeout_ms=request["timeout_ms"],
        linger_ms=5,
    )
    producer.init_transactions()
    transactional_producers[request["name"]] = producer


def transaction(request: Request) -> None:
    name, producer = request["name"], transactional_producers[request["name"]]
    if name not in open_transactions:
        producer.begin_transaction()
        open_transactions.add(name)
    for record in request["records"]:
        sent = producer.send(record["topic"], value=octets(record["value"]), partition=record["partition"])
        sent.get(CALL_S)
    if request.get("offsets"):
        offsets = {
            TopicPartition(topic, partition): OffsetAndMetadata(offset, "", -1)
            for topic, partition, offset in request["offsets"]
        }
        producer.send_offsets_to_transaction(offsets, ConsumerGroupMetadata(request["group"], -1, "", None))
    if request["end"] == "open":
        return
    open_transactions.discard(name)
    if request["end"] == "commit":
        producer.commit_transaction()
    else:
        producer.abort_transaction()


def transform(request: Request) -> int:
    consumer = KafkaConsumer(
        request["source"],
        **CONNECTION,
        group_id=request["group"],
        isolation_level="read_committed",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        session_timeout_ms=request["session_timeout_ms"],
        heartbeat_interval_ms=300,
    )
    transactional({**request, "name": "transform"})
    producer = transactional_producers.pop("transform")
    moved = turn = 0
    while True:
        batches = consumer.poll(timeout_ms=POLL_MS, max_records=5)
        if not batches:
            continue
        producer.begin_transaction()
        records = [record for batch in batches.values() for record in batch]
        for record in records:
            producer.send(request["sink"], value=record.value).get(CALL_S)
        if moved >= request["count"]:
            left_open.append((consumer, producer))
            return moved
        offsets = {at: OffsetAndMetadata(batch[-1].offset + 1, "", -1) for at, batch in batches.items()}
        producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
        turn += 1
        if turn % 3 == 0:
            producer.abort_transaction()
            for at, batch in batches.items():
                consumer.seek(at, batch[0].offset)
            continue
        producer.commit_transaction()
        moved += len(records)
        if moved >= request["count"] and request["leave"] != "open":
            consumer.close()
            producer.close()
            return moved


left_open: list[Any] = []


def with_admin(work: Any) -> Any:
    admin = KafkaAdminClient(**CONNECTION)
    try:
        return work(admin)
    finally:
        admin.close()


def create_topic(request: Request) -> None:
    topic = NewTopic(request["topic"], request["partitions"], 1, topic_configs=request.get("configs") or {})
    with_admin(lambda admin: admin.create_topics([topic]))


def create_partitions(request: Request) -> None:
    with_admin(lambda admin: admin.create_partitions({request["topic"]: NewPartitions(request["total"])}))


def delete_records(request: Request) -> None:
    before = {TopicPartition(request["topic"], request["partition"]): request["before"]}
    with_admin(lambda admin: admin.delete_records(before))


def group_offsets(request: Request) -> Any:
    group = request["group"]
    found = with_admin(lambda admin: admin.list_group_offsets({group: partitions_of(request)}))[group]
    return [[p.topic, p.partition, c.offset, c.metadata] for p, c in found.items()]


def list_groups(_request: Request) -> Any:
    return sorted(group["group_id"] for group in with_admin(lambda admin: admin.list_groups()))


def describe_group(request: Request) -> Any:
    group = with_admin(lambda admin: admin.describe_groups([request["group"]]))[request["group"]]
    return {
        "state": group["group_state"],
        "protocol": group["protocol_data"],
        "members": [
            {
                "client_id": member["client_id"],
                "instance": member["group_instance_id"],
                "assignment": [
                    [assigned["topic"], partition]
                    for assigned in member["member_assignment"]["assigned_partitions"]
                    for partition in assigned["partitions"]
                ],
            }
            for member in group["members"]
        ],
    }


def delete_group(request: Request) -> None:
    result = with_admin(lambda admin: admin.delete_groups([request["group"]]))[request["group"]]
    if result != "OK":
        raise RuntimeError(result)


SETTINGS = {
    **PYTHON_SETTINGS,
    "ssl_cafile": "ca",
    "ssl_certfile": "certificate",
    "ssl_keyfile": "certificate",
}


class Tokens(AbstractTokenProvider):
    def __init__(self, user: str) -> None:
        self.user = user

    def token(self) -> str:
        return unsecured_token(self.user)


def connect(request: Request) -> None:
    CONNECTION.clear()
    CONNECTION.update(renamed(request, SETTINGS))
    CONNECTION["bootstrap_timeout_ms"] = 2000
    if request.get("mechanism") == "OAUTHBEARER":
        CONNECTION["sasl_oauth_token_provider"] = Tokens(request["user"])


OPERATIONS = (
    hello,
    connect,
    produce,
    transactional,
    transaction,
    transform,
    create_topic,
    create_partitions,
    delete_records,
)
GROUP_OPERATIONS = (group_offsets, list_groups, describe_group, delete_group)

if __name__ == "__main__":
    serve_threaded({operation.__name__: operation for operation in OPERATIONS + GROUP_OPERATIONS}, Member)
