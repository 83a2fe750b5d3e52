"""`group.protocol=consumer` (KIP-848) with the clients that have it, unmodified, and Kafka's own tool that shows such groups."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.clients.clients import CLIENTS, Client, marks
from tests.clients.driver import Member, eventually
from tests.clients.rig import Garage
from tests.clients.scenarios import Lab, of, share_out
from tests.support.real_kafka import java_tool

ABLE = [client for client in CLIENTS if client.name in ("java-4.1", "confluent-kafka", "franz-go")]
CONSUMER = {"group.protocol": "consumer"}
LIBRDKAFKA = pytest.mark.parametrize(
    "lab",
    [pytest.param(c, id="librdkafka", marks=marks(c)) for c in ABLE if c.name == "confluent-kafka"],
    indirect=True,
)


@pytest.fixture(params=[pytest.param(client, id=client.name, marks=marks(client)) for client in ABLE])
def lab(request: pytest.FixtureRequest, garage: Garage) -> Iterator[Lab]:
    client: Client = request.param
    lab = Lab(client, garage.driver(client), lambda: garage.new(client))
    yield lab
    lab.close()


def all_read(members: list[Member], values: list[str]) -> None:
    """Waits until these members have read every value, and each of them once."""
    eventually(
        "every record is read by exactly one member",
        lambda: Counter(value for member in members for value in member.values()),
        Counter(values).__eq__,
    )


def test_members_share_a_topic_and_read_every_record_once(lab: Lab) -> None:
    topic, group = lab.topic(4), lab.group()
    options: dict[str, Any] = {"group": group, "topics": [topic], "config": CONSUMER}
    first = lab.member(**options)
    share_out([first], of(topic, *range(4)))
    second = lab.member(**options)
    owned = share_out([first, second], of(topic, *range(4)))
    assert [len(mine) for mine in owned] == [2, 2]
    values = lab.fill(topic, 4, 5)
    eventually(
        "every record is read by exactly one member",
        lambda: Counter(value for member in (first, second) for value in member.values()),
        Counter(values).__eq__,
    )


def test_what_one_committed_the_next_goes_on_from(lab: Lab) -> None:
    topic, group = lab.topic(2), lab.group()
    options: dict[str, Any] = {"group": group, "topics": [topic], "config": CONSUMER}
    member = lab.member(**options)
    values = lab.fill(topic, 2, 3, "old")
    eventually("it has read all", lambda: sorted(member.values()), sorted(values).__eq__)
    member.commit()
    member.leave()
    assert lab.committed(group, topic, 2) == {0: 3, 1: 3}
    again = lab.member(**options)
    new = lab.fill(topic, 2, 2, "new")
    eventually("it has read what is new", lambda: sorted(again.values()), sorted(new).__eq__)


@LIBRDKAFKA
def test_who_is_killed_is_followed_from_what_it_committed(lab: Lab) -> None:
    topic, group = lab.topic(4), lab.group()
    options: dict[str, Any] = {"group": group, "topics": [topic], "config": CONSUMER}
    victim = lab.process()
    survivor = lab.member(**options)
    killed = lab.member(victim, **options)
    share_out([survivor, killed], of(topic, *range(4)))
    old = lab.fill(topic, 4, 3, "old")
    all_read([survivor, killed], old)
    for member in (survivor, killed):
        member.commit()
    mine = survivor.values()
    victim.crash()
    survivor.owns(of(topic, *range(4)))
    new = lab.fill(topic, 4, 2, "new")
    all_read([survivor], [*mine, *new])
    survivor.commit()
    assert lab.committed(group, topic, 4) == dict.fromkeys(range(4), 5)


@LIBRDKAFKA
def test_a_static_member_comes_back_to_what_it_had(lab: Lab) -> None:
    topic, group = lab.topic(4), lab.group()
    options: dict[str, Any] = {"group": group, "topics": [topic], "config": CONSUMER}
    first = lab.member(instance="one", **options)
    first.owns(of(topic, *range(4)))
    second = lab.member(instance="two", **options)
    owned = share_out([first, second], of(topic, *range(4)))
    rebalances = len(first.state()["assigned"])
    second.leave()
    again = lab.member(instance="two", **options)
    again.owns(owned[1])
    again.reads(value for value in lab.fill(topic, 4, 1) if (topic, int(value.split("-")[1])) in owned[1])
    assert first.assignment() == owned[0]
    assert len(first.state()["assigned"]) == rebalances, "a static member's restart rebalanced the group"


@LIBRDKAFKA
def test_the_broker_finds_the_topics_of_an_expression(lab: Lab) -> None:
    stem, group = lab.name("topics"), lab.group()
    topics = [lab.topic(2, f"{stem}-{name}") for name in ("eu", "us")]
    lab.topic(1, f"{stem}-asia")
    pattern = f"{re.escape(stem)}-(eu|us|uk)"
    members = [lab.member(group=group, topics=[], broker_pattern=pattern, config=CONSUMER) for _ in range(2)]
    share_out(members, of(topics[0], 0, 1) | of(topics[1], 0, 1))
    all_read(members, [value for topic in topics for value in lab.fill(topic, 2, 2, topic)])


@LIBRDKAFKA
def test_a_group_is_rolled_to_the_new_protocol_and_back(lab: Lab) -> None:
    topic, group = lab.topic(4), lab.group()
    options: dict[str, Any] = {"group": group, "topics": [topic]}
    members = [lab.member(**options), lab.member(**options)]
    left: list[Member] = []
    values: list[str] = []
    for step, config in enumerate([None, CONSUMER, CONSUMER, {}, {}]):
        if config is not None:
            left.append(members.pop(0))
            left[-1].leave()
            members.append(lab.member(**options, config=config))
        share_out(members, of(topic, *range(4)))
        values += lab.fill(topic, 4, 2, f"step{step}")
        everybody = [*left, *members]
        all_read(everybody, values)
        for member in members:
            member.commit()
        assert lab.committed(group, topic, 4) == dict.fromkeys(range(4), 2 * (step + 1))


@pytest.mark.clients
def test_kafkas_tool_shows_such_a_group(garage: Garage) -> None:
    (java,) = (client for client in ABLE if client.name == "java-4.1")
    lab = Lab(java, garage.driver(java), lambda: garage.new(java))
    try:
        topic, group = lab.topic(3), lab.group()
        member = lab.member(group=group, topics=[topic], config=CONSUMER)
        share_out([member], of(topic, 0, 1, 2))
        tool = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
        asked = ["--bootstrap-server", garage.target.bootstrap, "--describe", "--group", group]
        shown = java_tool("4.1.0", tool, *asked, "--state", "--verbose").stdout
        row = next(line.split() for line in shown.splitlines() if line.startswith(group))
        assert row[3:] == ["uniform", "Stable", "1", "1", "1"]
        shown = java_tool("4.1.0", tool, *asked, "--members", "--verbose").stdout
        assert f"{topic}:0,1,2" in shown
        listed = java_tool("4.1.0", tool, *asked[:2], "--list", "--type").stdout
        assert [group, "Consumer"] in [line.split() for line in listed.splitlines()]
    finally:
        lab.close()
