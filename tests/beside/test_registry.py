"""A schema registry on the broker: producers and consumers of Python and Java share Avro schemas through it, and it still has them
after it and the broker were killed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.beside.programs import UP_S
from tests.beside.registry import Registry, java_avro
from tests.clients.simulator import Simulator
from tests.support.processes import finish, line, start
from tests.support.real_kafka import free_port

pytestmark = [pytest.mark.clients, pytest.mark.timeout(400)]  # may have to fetch the registry first

ORDER = """
{"type": "record", "name": "Order", "namespace": "shop",
 "fields": [{"name": "id", "type": "string"}, {"name": "amount", "type": "long"}]}
"""


def produce(bootstrap: str, registry: Registry, topic: str, *ids: str) -> None:
    """With confluent-kafka's Avro serializer, which registers the schema under ``<topic>-value``."""
    from confluent_kafka import Producer
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    producer = Producer({"bootstrap.servers": bootstrap})
    with SchemaRegistryClient({"url": registry.confluent}) as client:
        serialize = AvroSerializer(client, ORDER)
        for id_ in ids:
            value = serialize({"id": id_, "amount": 5}, SerializationContext(topic, MessageField.VALUE))
            producer.produce(topic, key=id_, value=value)
    assert producer.flush(UP_S) == 0


def consume(bootstrap: str, registry: Registry, topic: str, count: int) -> list[Any]:
    """So many orders from the beginning, decoded with the schemas of the registry."""
    from confluent_kafka import Consumer
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroDeserializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "python-avro", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    orders: list[Any] = []
    with SchemaRegistryClient({"url": registry.confluent}) as client:
        deserialize = AvroDeserializer(client)
        while len(orders) < count:
            message = consumer.poll(UP_S)
            assert message is not None, f"{len(orders)} of {count} orders, and no more for {UP_S:.0f} s"
            assert message.error() is None, message.error()
            orders.append(deserialize(message.value(), SerializationContext(topic, MessageField.VALUE)))
    consumer.close()
    return orders


def schemas_of(registry: Registry) -> list[Any]:
    """The first version of each subject, with its schema and id."""
    subjects = sorted(registry.ask("/apis/ccompat/v7/subjects"))
    return [registry.ask(f"/apis/ccompat/v7/subjects/{subject}/versions/1") for subject in subjects]


def test_python_and_java_share_schemas_that_outlive_the_registry_and_the_broker(tmp_path: Path) -> None:
    config = {"group.initial.rebalance.delay.ms": 0}
    broker = Simulator(tmp_path / "broker.log", config, data=tmp_path / "data", port=free_port())
    with broker:
        with Registry(broker.bootstrap, tmp_path) as registry:
            registry.ready()
            produce(broker.bootstrap, registry, "orders", "py-1", "py-2")
            for order in ("java-1", "java-2"):
                run = start(java_avro(registry, broker.bootstrap, "orders", order))
                _, errors = finish(run, "the Java producer to end")
                assert run.returncode == 0, errors
            written = sorted(order["id"] for order in consume(broker.bootstrap, registry, "orders", 4))
            assert written == ["java-1", "java-2", "py-1", "py-2"]
            schemas = schemas_of(registry)
            registry.kill()
        broker.kill()
        broker.start()
        with Registry(broker.bootstrap, tmp_path) as registry:
            registry.ready()
            assert schemas_of(registry) == schemas
            reader = start(java_avro(registry, broker.bootstrap, "orders"), stdin=-1)
            read = sorted(line(reader, "an order").strip() for _ in range(4))
            finish(reader, "the Java consumer to end", input="\n")
            assert read == ["java-1 7", "java-2 7", "py-1 5", "py-2 5"]
