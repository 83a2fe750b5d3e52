"""Driver for confluent-kafka (librdkafka). The protocol is line_protocol's."""

from __future__ import annotations

import functools
import sys
from typing import Any

import confluent_kafka
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_STORED,
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from line_protocol import LATER, POLL_S, Request, ThreadedMember, answer, octets, renamed, serve_threaded, text

CONNECTION: dict[str, Any] = {"bootstrap.servers": sys.argv[1]}
"""Settings of the clients' connections: bootstrap servers and security."""
CALL_S = 20.0
STRATEGIES = {"range": "range", "roundrobin": "roundrobin", "cooperative-sticky": "cooperative-sticky"}


def partitions_of(request: Request) -> list[TopicPartition]:
    return [TopicPartition(topic, partition) for topic, partition in request["partitions"]]


def pairs(partitions: list[TopicPartition]) -> list[list[Any]]:
    return [[p.topic, p.partition] for p in partitions]


def error_of(error: KafkaError) -> dict[str, str]:
    return {"type": error.name(), "message": error.str()}


class Member(ThreadedMember):
    def open(self) -> None:
        options = self.options
        config: dict[str, Any] = {
            **CONNECTION,
            "group.id": options.get("group") or "unused-by-an-assigned-consumer",
            "client.id": options["member"],
            "auto.offset.reset": {"none": "error"}.get(options["reset"], options["reset"]),
            "enable.auto.commit": options["auto_commit"],
            "auto.commit.interval.ms": options["auto_commit_interval_ms"],
            "isolation.level": options["isolation"],
            "max.poll.interval.ms": options["max_poll_interval_ms"],
            "session.timeout.ms": options["session_timeout_ms"],
            "heartbeat.interval.ms": options["heartbeat_interval_ms"],
            "topic.metadata.refresh.interval.ms": options["metadata_max_age_ms"],
            "partition.assignment.strategy": STRATEGIES[options["strategy"]],
            "fetch.wait.max.ms": 100,
            **options.get("config", {}),
            "on_commit": self.committed_callback,
        }
        if config.get("group.protocol") == "consumer":  # the broker's business, and refused here
            for name in ("session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy"):
                del config[name]
        if "security.protocol" in config:
            config["error_cb"] = lambda error: self.seen.failed(error_of(error))
        if options.get("instance"):
            config["group.instance.id"] = options["instance"]
        self.consumer = Consumer(config)
        self.awaiting_commit: list[Request] = []
        callbacks = {"on_assign": self.on_assign, "on_revoke": self.on_revoke, "on_lost": self.on_revoke}
        if options.get("assign"):
            # without a group there is no committed offset to ask for: say where to start
            outside = {"earliest": OFFSET_BEGINNING, "latest": OFFSET_END}[options["reset"]]
            start = OFFSET_STORED if options.get("group") else outside
            self.consumer.assign([TopicPartition(topic, partition, start) for topic, partition in options["assign"]])
        elif options.get("broker_pattern"):  # an expression that begins so goes to the broker as it is
            self.consumer.subscribe([f"^{options['broker_pattern']}$"], **callbacks)
        elif options.get("pattern"):
            self.consumer.subscribe([options["pattern"]], **callbacks)
        else:
            self.consumer.subscribe(options["topics"], **callbacks)

    def on_assign(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.seen.assigned.append(pairs(partitions))

    def on_revoke(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.seen.revoked.append(pairs(partitions))

    def poll(self) -> None:
        message = self.consumer.poll(POLL_S)
        self.seen.assignment = pairs(self.consumer.assignment())
        if message is None:
            return
        if message.error():
            self.seen.failed(error_of(message.error()))
            return
        self.seen.records.append(
            [
                message.topic(),
                message.partition(),
                message.offset(),
                text(message.key()),
                text(message.value()),
                message.timestamp()[1],
            ]
        )

    def committed_callback(self, error: KafkaError | None, _partitions: list[TopicPartition]) -> None:
        if self.awaiting_commit:
            answer(self.awaiting_commit.pop(0), error=None if error is None else KafkaException(error))

    def commit(self, request: Request) -> Any:
        arguments: dict[str, Any] = {}
        if request.get("offsets") is not None:
            arguments["offsets"] = [
                TopicPartition(topic, partition, offset, metadata)
                for topic, partition, offset, metadata in request["offsets"]
            ]
        if request["how"] == "async":
            self.awaiting_commit.append(request)
            self.consumer.commit(asynchronous=True, **arguments)
            return LATER
        for partition in self.consumer.commit(asynchronous=False, **arguments):
            if partition.error:
                raise KafkaException(partition.error)
        return None

    def committed(self, request: Request) -> Any:
        found = self.consumer.committed(partitions_of(request), timeout=CALL_S)
        return [[p.topic, p.partition, max(p.offset, -1), p.metadata or ""] for p in found]

    def position(self, request: Request) -> Any:
        return [[p.topic, p.partition, p.offset] for p in self.consumer.position(partitions_of(request))]

    def seek_timestamp(self, request: Request) -> Any:
        wanted = [TopicPartition(t, p, request["timestamp_ms"]) for t, p in request["partitions"]]
        found = self.consumer.offsets_for_times(wanted, timeout=CALL_S)
        for partition in found:
            self.consumer.seek(partition)
        return [[p.topic, p.partition, p.offset] for p in found]

    def leave(self, _request: Request) -> None:
        self.consumer.close()
        self.seen.assignment = []
        self.finished = True


def hello(_request: Request) -> Any:
    version = f"{confluent_kafka.__version__} (librdkafka {confluent_kafka.libversion()[0]})"
    return {"client": "confluent-kafka", "version": version}


def produce(request: Request) -> Any:
    producer = Producer(
        {
            **CONNECTION,
            "acks": request.get("acks", "all"),
            "compression.type": request.get("compression") or "none",
            "enable.idempotence": request.get("idempotent", False),
            "message.max.bytes": 4_000_000,
            "linger.ms": 5,
        }
    )
    results: list[Any] = [None] * len(request["records"])

    def delivered(index: int) -> Any:
        def callback(error: KafkaError | None, message: confluent_kafka.Message) -> None:
            results[index] = error or [message.partition(), message.offset()]

        return callback

    for index, record in enumerate(request["records"]):
        arguments = {name: record[name] for name in ("partition", "timestamp") if record.get(name) is not None}
        producer.produce(
            request["topic"],
            key=octets(record.get("key")),
            value=octets(record["value"]),
            headers=[(name, value.encode()) for name, value in record.get("headers", [])],
            on_delivery=delivered(index),
            **arguments,
        )
    if left := producer.flush(CALL_S):
        raise TimeoutError(f"{left} records were not delivered")
    for result in results:
        if isinstance(result, KafkaError):
            raise KafkaException(result)
    return results


class Transactional:
    """A producer with a transactional id, and whether a transaction is open."""

    def __init__(self, request: Request) -> None:
        options = {"transactional.id": request["transactional_id"], "transaction.timeout.ms": request["timeout_ms"]}
        self.producer = Producer({**CONNECTION, "linger.ms": 5, **options})
        self.producer.init_transactions(CALL_S)
        self.is_open = False


transactional_producers: dict[str, Transactional] = {}


def transactional(request: Request) -> None:
    transactional_producers[request["name"]] = Transactional(request)


def transaction(request: Request) -> None:
    one = transactional_producers[request["name"]]
    producer = one.producer
    if not one.is_open:
        producer.begin_transaction()
        one.is_open = True
    for record in request["records"]:
        producer.produce(record["topic"], value=octets(record["value"]), partition=record["partition"])
    producer.flush(CALL_S)
    if request.get("offsets"):
        group = Consumer({**CONNECTION, "group.id": request["group"]})
        offsets = [TopicPartition(*offset) for offset in request["offsets"]]
        producer.send_offsets_to_transaction(offsets, group.consumer_group_metadata(), CALL_S)
        group.close()
    if request["end"] == "open":
        return
    one.is_open = False
    if request["end"] == "commit":
        producer.commit_transaction(CALL_S)
    else:
        producer.abort_transaction(CALL_S)


def transform(request: Request) -> int:
    consumer = Consumer(
        {
            **CONNECTION,
            "group.id": request["group"],
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": request["session_timeout_ms"],
            "heartbeat.interval.ms": 300,
        }
    )
    consumer.subscribe([request["source"]])
    producer = Transactional(request).producer
    moved = turn = 0
    while True:
        records = [record for record in consumer.consume(5, 0.5) if record.error() is None]
        if not records:
            continue
        producer.begin_transaction()
        for record in records:
            producer.produce(request["sink"], value=record.value())
        producer.flush(CALL_S)
        if moved >= request["count"]:
            left_open.append((consumer, producer))
            return moved
        position = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(position, consumer.consumer_group_metadata(), CALL_S)
        turn += 1
        if turn % 3 == 0:
            producer.abort_transaction(CALL_S)
            for record in reversed(records):
                consumer.seek(TopicPartition(record.topic(), record.partition(), record.offset()))
            continue
        producer.commit_transaction(CALL_S)
        moved += len(records)
        if moved >= request["count"] and request["leave"] != "open":
            consumer.close()
            return moved


left_open: list[Any] = []


@functools.cache
def admin() -> AdminClient:
    """Return the one admin client of the process: its futures fail when it is collected."""
    return AdminClient({**CONNECTION})


def done(futures: dict[Any, Any]) -> Any:
    return [future.result(CALL_S) for future in futures.values()]


def create_topic(request: Request) -> None:
    config = request.get("configs") or {}
    done(admin().create_topics([NewTopic(request["topic"], request["partitions"], 1, config=config)]))


def create_partitions(request: Request) -> None:
    done(admin().create_partitions([NewPartitions(request["topic"], request["total"])]))


def delete_records(request: Request) -> None:
    done(admin().delete_records([TopicPartition(request["topic"], request["partition"], request["before"])]))


def group_offsets(request: Request) -> Any:
    wanted = [ConsumerGroupTopicPartitions(request["group"], partitions_of(request))]
    (group,) = done(admin().list_consumer_group_offsets(wanted))
    return [[p.topic, p.partition, max(p.offset, -1), p.metadata or ""] for p in group.topic_partitions]


def list_groups(_request: Request) -> Any:
    return sorted(group.group_id for group in admin().list_consumer_groups().result(CALL_S).valid)


def describe_group(request: Request) -> Any:
    (group,) = done(admin().describe_consumer_groups([request["group"]]))
    return {
        "state": group.state.name.replace("_", ""),
        "protocol": group.partition_assignor,
        "members": [
            {
                "client_id": member.client_id,
                "instance": member.group_instance_id or None,
                "assignment": pairs(member.assignment.topic_partitions),
            }
            for member in group.members
        ],
    }


def delete_group(request: Request) -> None:
    done(admin().delete_consumer_groups([request["group"]]))


SETTINGS = {
    "bootstrap.servers": "bootstrap",
    "security.protocol": "protocol",
    "sasl.mechanism": "mechanism",
    "sasl.username": "user",
    "sasl.password": "password",
    "ssl.ca.location": "ca",
    "ssl.certificate.location": "certificate",
    "ssl.key.location": "certificate",
}


def connect(request: Request) -> None:
    CONNECTION.clear()
    CONNECTION.update(renamed(request, SETTINGS))
    if request.get("mechanism") == "OAUTHBEARER":
        principal = {"sasl.oauthbearer.config": f"principal={request['user']}"}
        CONNECTION.update({"enable.sasl.oauthbearer.unsecure.jwt": True, **principal})
    admin.cache_clear()


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
