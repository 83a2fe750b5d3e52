"""Topics in the journal: who created, grew and deleted them; what waits, explanations and timelines say of a misspelt one."""

from __future__ import annotations

import re
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic

from broker_sim import Cluster, WaitTimeout
from broker_sim.explain import explain, recent
from broker_sim.explain.terminal import timeline
from kafka_wire.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from tests.support.wire import Wire


def topic_events(kafka: Cluster) -> list[dict[str, Any]]:
    return [event for event in kafka.journal.events if event["event"] == "topic"]


async def test_each_change_of_a_topic_names_the_client_and_its_request(kafka: Cluster) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka.bootstrap, client_id="ops")
    await admin.start()
    await admin.create_topics([NewTopic("orders", 2, 1)])
    await admin.create_partitions({"orders": NewPartitions(3)})
    await admin.delete_topics(["orders"])
    await admin.close()
    kafka.create_topic("payments", 4)
    kafka.topic("payments").grow_to(5)
    kafka.topic("payments").delete()
    seen = topic_events(kafka)
    assert [
        (e["topic"], e["action"], e["partitions_before"], e["partitions"], e.get("api"), e.get("client_id"))
        for e in seen
    ] == [
        ("orders", "created", 0, 2, "CreateTopics", "ops"),
        ("orders", "partitions added", 2, 3, "CreatePartitions", "ops"),
        ("orders", "deleted", 3, 0, "DeleteTopics", "ops"),
        ("payments", "created", 0, 4, None, None),
        ("payments", "partitions added", 4, 5, None, None),
        ("payments", "deleted", 5, 0, None, None),
    ]
    assert not [e for e in seen if "automatic" in e]
    for event in seen[:3]:
        request = kafka.journal.request(event["request"])
        assert request is not None
        assert request["api"] == event["api"]


async def test_a_delayed_request_of_another_client_has_created_nothing(kafka: Cluster) -> None:
    """Both name the topic, and both are open when it is created."""
    first = await Wire.connect(kafka.bootstrap, client_id="slow")
    second = await Wire.connect(kafka.bootstrap, client_id="quick")
    asked = MetadataRequest([MetadataRequestTopic(name="orders")], allow_auto_topic_creation=True)
    with kafka.order.hold("Metadata", client_id="slow") as hold:
        slow = first.start(asked, 9)
        await hold.arrived()
        await second.send(asked, 9)
        hold.release()
        await slow
    await first.close()
    await second.close()
    [created] = topic_events(kafka)
    assert (created["client_id"], created["automatic"]) == ("quick", True)


@pytest.mark.kafka(internal_topics="on-demand")
async def test_an_internal_topic_is_created_for_the_first_client_that_needs_it(kafka: Cluster) -> None:
    async with AIOKafkaConsumer(bootstrap_servers=kafka.bootstrap, group_id="billing", client_id="app") as consumer:
        consumer.subscribe(["orders"])
        await kafka.group("billing").stable(members=1)
    by = {event["topic"]: (event["api"], event["client_id"], event["automatic"]) for event in topic_events(kafka)}
    assert by == {"orders": ("Metadata", "app", True), "__consumer_offsets": ("FindCoordinator", "app", True)}


MISSPELT = "topic ordres was created automatically, for Metadata of app, with 1 partition; no client has produced to it, only to orders"


@pytest.mark.kafka(topics={"orders": 1})
async def test_what_is_said_of_a_misspelt_topic(kafka: Cluster) -> None:
    async with AIOKafkaConsumer("ordres", bootstrap_servers=kafka.bootstrap, group_id="billing", client_id="app"):
        billing = await kafka.group("billing").reading(members=1)
        async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap) as producer:
            await producer.send_and_wait("orders", b"1")
        kafka.topic("orders").grow_to(2)  # which the group does not read
        with pytest.raises(WaitTimeout) as late:
            await billing.committed_at_least("ordres", 0, 1, timeout="10ms")
        assert MISSPELT in str(late.value)
        with pytest.raises(WaitTimeout) as empty:
            await kafka.topic("ordres").wait(records=1, timeout="10ms")
        assert MISSPELT in empty.value.now
        texts = [
            recent(kafka.journal.events, "billing"),
            billing.explain(),
            timeline(kafka.journal.events, "billing", 200),
        ]
        for text in texts:
            assert MISSPELT.lower() in re.sub(r"\s+", " ", text).lower()
            assert "orders has 2 partitions" not in text
        async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap) as producer:
            await producer.send_and_wait("ordres", b"1")
        assert "no client has produced" not in billing.explain()


@pytest.mark.kafka(as_version="4.1")
async def test_a_group_of_any_protocol_says_who_created_its_topic(kafka: Cluster) -> None:
    kafka.create_topic("orders", 2)
    async with AIOKafkaConsumer("orders", bootstrap_servers=kafka.bootstrap, group_id="billing", client_id="app"):
        await kafka.group("billing").stable(members=1)
        kafka.topic("orders").grow_to(3)
    text = re.sub(r"\s+", " ", kafka.group("billing").explain())
    assert "Topic orders was created by the test, a command or HTTP, with 2 partitions." in text
    assert "Topic orders has 3 partitions now, it had 2, by the test, a command or HTTP." in text


def test_an_epoch_based_groups_topics_are_those_of_its_members() -> None:
    def member(topics: list[str]) -> dict[str, object]:
        return {
            "member": "m",
            "client_id": "app",
            "topics": topics,
            "assignment": {},
            "pending_assignment": {},
            "epoch": 1,
        }

    epochs = {"log": "__consumer_offsets-1", "group": "g", "state": "Stable", "group_epoch": 1, "target_epoch": 1, "size": 1,
              "assignor": "uniform", "cause": {"kind": "load"}}  # fmt: skip
    created = {
        "action": "created",
        "partitions": 1,
        "partitions_before": 0,
        "api": "Metadata",
        "client_id": None,
        "automatic": True,
    }
    events: list[dict[str, object]] = [
        {"seq": 1, "ts_ms": 1, "event": "topic", "topic": "ordres", **created},
        {"seq": 2, "ts_ms": 2, "event": "topic", "topic": "other", **created},
        {"seq": 3, "ts_ms": 3, "event": "epochs", "members": [member(["ordres"])], **epochs},
    ]
    words = "topic ordres was created automatically, for Metadata of a client without a name, with 1 partition; no client has produced"
    assert words in recent(events, "g")
    assert words[1:] in re.sub(r"\s+", " ", explain(events, "g"))
    assert "other" not in recent(events, "g")
