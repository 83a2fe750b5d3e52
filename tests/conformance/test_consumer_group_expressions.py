"""Consumer groups whose members subscribe by regular expressions, and classic members beside them: when the group epoch moves."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kafka_wire.errors import Err
from kafka_wire.messages.k13_leave_group import LeaveGroupRequest, MemberIdentity
from tests.conformance.consumers import Consumers, owning
from tests.conformance.driver import GIVE_UP_S, POLL_S, Kafka, Member, clock_s

pytestmark = pytest.mark.generations("4.1", "4.4")

_RESOLVED = "16"


async def resolved(members: Consumers, count: int = 1) -> None:
    """Polls until the group's log has so many results of expressions: they are looked at behind the heartbeat's answer."""
    give_up = clock_s() + GIVE_UP_S
    while True:
        lines = [line for batch in await members.quiet_log() for line in batch]
        found = [line for line in lines if line.startswith(_RESOLVED) and "gone" not in line]
        if len(found) >= count:
            return
        assert clock_s() < give_up, f"waited {GIVE_UP_S:g} s for {count} results, there are {found}"
        await asyncio.sleep(POLL_S)


async def noted(members: Consumers) -> None:
    """The group as described, without the order of what Kafka keeps in hash maps."""
    group = await members.seen()
    shown = [
        [
            one.member_id,
            one.instance_id,
            one.member_epoch,
            one.member_type,
            one.subscribed_topic_regex,
            sorted(one.subscribed_topic_names),
            sorted((topic.topic_name, topic.partitions) for topic in one.assignment.topic_partitions),
            sorted((topic.topic_name, topic.partitions) for topic in one.target_assignment.topic_partitions),
        ]
        for one in group.members
    ]
    named = members.kafka.recording.named
    rows = sorted(str([named.get(row[0], row[0]), *row[1:]]) for row in shown)
    members.kafka.recording.note("group", [group.group_state, group.group_epoch, group.assignment_epoch, *rows])


async def log_noted(members: Consumers) -> None:
    """The group's records, however many share a batch."""
    members.kafka.recording.note("log", [line for batch in await members.quiet_log() for line in batch])


def by(expression: str, *names: str) -> dict[str, Any]:
    """Fields of a joining member's subscription."""
    return {"subscribed_topic_names": list(names), "subscribed_topic_regex": expression}


async def subscribed(kafka: Kafka, expression: str, *names: str) -> tuple[Consumers, int]:
    """A group of one member, which has what its subscription gives; and its epoch."""
    members = await Consumers(kafka).at_once()
    epoch = await members.join("A", **by(expression, *names))
    await resolved(members)
    epoch = (await members.beat("A", epoch)).member_epoch
    epoch = (await members.beat("A", epoch, topic_partitions=members.owned.get("A", []))).member_epoch
    await noted(members)
    return members, epoch


async def test_c20_an_expression_that_matches_nothing(kafka: Kafka) -> None:
    members, epoch = await subscribed(kafka, "nothing.*")
    assert epoch == 1
    await log_noted(members)


@pytest.mark.parametrize("names", [(), ("t0",)], ids=["alone", "beside_names"])
async def test_c21_an_expression_is_given_up(kafka: Kafka, names: tuple[str, ...]) -> None:
    members, epoch = await subscribed(kafka, "t0", *names)
    await members.beat("A", epoch, subscribed_topic_regex="")
    await noted(members)
    await members.beat("A", epoch)
    await noted(members)
    await log_noted(members)


async def test_c22_an_expression_is_given_up_whose_topics_another_member_names(kafka: Kafka) -> None:
    members = await Consumers(kafka).at_once()
    other = await members.join("B", subscribed_topic_names=["t0"])
    epoch = await members.join("A", **by("t0"))
    await resolved(members)
    epoch = (await members.beat("A", epoch)).member_epoch
    await members.beat("B", other)
    await members.beat("A", epoch, subscribed_topic_regex="")
    await noted(members)


async def test_c23_an_expression_is_replaced_by_one_that_is_resolved(kafka: Kafka) -> None:
    members, epoch = await subscribed(kafka, "t[01]")
    await members.join("B", **by("t0"))
    await noted(members)
    await members.beat("A", epoch, subscribed_topic_regex="t0")
    await noted(members)


async def test_c24_the_same_topics_by_name_and_by_an_expression_besides(kafka: Kafka) -> None:
    members, _ = await subscribed(kafka, "t1", "t0")
    await members.join("B", subscribed_topic_names=["t0"])
    await noted(members)


async def test_c25_a_missing_topic_that_one_member_names(kafka: Kafka) -> None:
    members = await Consumers(kafka).at_once()
    await members.join("A", subscribed_topic_names=["t0"])
    await members.join("B", subscribed_topic_names=["t0", "t9"])
    await noted(members)


async def classic_beside(kafka: Kafka, **said: Any) -> tuple[Consumers, Member]:
    """A group of a consumer member and a classic one, which has joined and asked for no assignment yet."""
    members = await Consumers(kafka).at_once()
    await members.join("A")
    client = await kafka.member(protocols=[("range", owning(["t0"]))], **said)
    await client.join()
    members.call(client.id, "C")
    return members, client


async def test_c26_a_classic_member_leaves_three_times_at_once(kafka: Kafka) -> None:
    _, client = await classic_beside(kafka)
    answer = await kafka.ask(LeaveGroupRequest(kafka.group, members=[MemberIdentity(client.id)] * 3), 5)
    assert [one.error_code for one in answer.members] == [Err.NONE] * 3


async def test_c27_an_instance_id_without_characters(kafka: Kafka) -> None:
    members, _ = await classic_beside(kafka, instance="")
    await noted(members)


async def test_c28_a_classic_member_that_has_no_time_to_ask_for_its_assignment(kafka: Kafka) -> None:
    members, client = await classic_beside(kafka, rebalance_ms=-1)
    await members.until_gone(client.id)
    await noted(members)


async def test_c29_a_classic_member_takes_the_place_of_one_with_an_expression(kafka: Kafka) -> None:
    members = await Consumers(kafka).at_once()
    await members.join("B")
    epoch = await members.join("A", **by("t1"), instance_id="i")
    await resolved(members)
    await members.beat("A", epoch, instance_id="i")
    client = await kafka.member(protocols=[("range", owning(["t0"]))], instance="i")
    await client.join()
    members.call(client.id, "C")
    await noted(members)


async def test_c30_a_member_without_topics_gets_an_expression(kafka: Kafka) -> None:
    """The later releases record its assignment, which is empty, once more, with its epoch as the previous one."""
    members = await Consumers(kafka).at_once()
    epoch = await members.join("A", subscribed_topic_names=[])
    await members.beat("A", epoch, subscribed_topic_regex="nothing.*")
    await resolved(members)
    await log_noted(members)


async def test_c31_an_expression_is_replaced_after_another_member_has_left(kafka: Kafka) -> None:
    """The one that left is no change of topics: the epoch stays."""
    members, epoch = await subscribed(kafka, "t[01]")
    await members.join("B", subscribed_topic_names=["t1"])
    await members.beat("B", -1)
    before = (await members.seen()).group_epoch
    await members.beat("A", epoch, subscribed_topic_regex="nothing.*")
    await noted(members)
    assert (await members.seen()).group_epoch == before


@pytest.mark.parametrize("assignor", ["range", "uniform"])
async def test_c32_a_member_without_topics_joins_behind_an_expression_that_was_resolved(
    kafka: Kafka, assignor: str
) -> None:
    """The member's heartbeat moves nothing, so that the target counts with the subscription type of the one member before."""
    members = await Consumers(kafka).at_once()
    await members.join("B", **by("t0"), server_assignor=assignor)
    await resolved(members)
    await members.join("A", subscribed_topic_names=[])
    await noted(members)
    await log_noted(members)


async def test_c33_a_member_with_an_expression_joins_after_one_with_an_expression_has_left(kafka: Kafka) -> None:
    """As a member leaves, the topics of its expression still count, so that the group is one of different subscriptions."""
    members = await Consumers(kafka).at_once()
    await members.join("A", subscribed_topic_names=["t0"])
    epoch = await members.join("B", **by("t1"))
    await resolved(members)
    await members.beat("B", epoch)
    await members.beat("B", -1)
    await members.join("C", **by("t1"))
    await noted(members)
    await log_noted(members)
