"""Explanations of groups with a cooperative assignor: each partition that moves costs a second rebalance."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from broker_sim import Cluster
from kafka_wire.codec import encode
from kafka_wire.messages.consumer_protocol import (
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)
from kafka_wire.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tests.handles.members import TOPIC, Member

pytestmark = pytest.mark.kafka(topics={TOPIC: 8}, clock="manual")


class Cooperative(Member):
    """A member that tells what it owns."""

    owned: tuple[int, ...] = ()

    def join(self) -> asyncio.Future[Any]:
        parts = [ConsumerProtocolSubscriptionTopicPartition(TOPIC, list(self.owned))] if self.owned else []
        subscription = b"\0\1" + encode(ConsumerProtocolSubscription(topics=[TOPIC], owned_partitions=parts), 1)
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol("cooperative-sticky", subscription)],
        )
        return self.wire.start(request, 5)


async def rebalance(first: Cooperative, second: Cooperative, plan: dict[Cooperative, tuple[int, ...]]) -> None:
    """The first joins, the second after it, and they are assigned that."""
    joins = [first.join(), second.join()]
    answers = [await join for join in joins]
    for member, answer in zip((first, second), answers, strict=True):
        member.generation = answer.generation_id
    leader = next(one for one, answer in zip((first, second), answers, strict=True) if answer.leader == one.member_id)
    told = {one.member_id: list(parts) for one, parts in plan.items()}
    await asyncio.gather(*(one.sync(told if one is leader else None) for one in (first, second)))
    for one, parts in plan.items():
        one.owned = parts


def because(kafka: Cluster) -> list[str]:
    """Return the cause of each rebalance of the group."""
    lines = kafka.group("billing").history().rebalances
    return [" ".join([one.cause.kind, one.cause.metadata]).strip() for one in lines]


async def test_the_cause_of_a_rejoin_names_the_revoked_partitions(kafka: Cluster) -> None:
    kafka.observe()
    a = await Cooperative.connect(kafka, client_id="app-1")
    b = await Cooperative.connect(kafka, client_id="app-2")
    await a.enter((0, 1, 2, 3, 4, 5, 6, 7))
    a.owned = (0, 1, 2, 3, 4, 5, 6, 7)
    b.member_id = (await b.join()).member_id
    await rebalance(b, a, {a: (0, 1), b: ()})
    await rebalance(a, b, {a: (0, 1), b: (2, 3, 4, 5, 6, 7)})
    await rebalance(b, a, {a: (0, 1), b: (2, 3, 4, 5, 6)})
    await rebalance(b, a, {a: (0, 1, 7), b: (2, 3, 4, 5, 6)})
    assert because(kafka) == [
        "first_member",
        "joined",
        "leader_rejoined with orders-2, orders-3, orders-4, orders-5 and 2 more revoked",
        "metadata_changed with orders-2, orders-3, orders-4, orders-5 and 2 more added",
        "metadata_changed with orders-7 revoked",
    ]
    told = " ".join(kafka.group("billing").explain().split())
    assert "because app-2 joined again with orders-7 revoked" in told
    assert "the leader app-1 joined again with orders-2, orders-3, orders-4, orders-5 and 2 more revoked" in told
    assert "other metadata" not in told
    for member in (a, b):
        await member.wire.close()
