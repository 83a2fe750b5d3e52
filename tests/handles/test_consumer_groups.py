"""Consumer groups of KIP-848 in Python: waits, what is explained, and members that live on while a clock is moved."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from broker_sim.api.cluster import Cluster
from broker_sim.explain import explain, recent
from broker_sim.journal.vocabulary import problems
from kafka_wire.messages.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tests.support.wire import Wire


class Consumer:
    """A member on a connection of its own."""

    def __init__(self, wire: Wire, member: str) -> None:
        self.wire, self.member = wire, member
        self.epoch, self.owned = 0, []

    @classmethod
    async def joined(cls, kafka: Cluster, member: str) -> Consumer:
        kafka.state.ensure_offsets_topic()
        consumer = cls(await Wire.connect(kafka.bootstrap, client_id=f"app-{member}"), member)
        await consumer.beat(rebalance_timeout_ms=60_000, subscribed_topic_names=["orders"])
        return consumer

    async def beat(self, *, gives_up: bool = True, **said: Any) -> ConsumerGroupHeartbeatResponse:
        owned = self.owned if gives_up else None
        request = ConsumerGroupHeartbeatRequest(
            group_id="g", member_id=self.member, member_epoch=self.epoch, topic_partitions=owned, **said
        )
        answer = await self.wire.send(request, 1)
        assert isinstance(answer, ConsumerGroupHeartbeatResponse)
        if answer.error_code == 0:
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                self.owned = answer.assignment.topic_partitions
        return answer


async def test_waits_and_views_know_such_a_group() -> None:
    async with Cluster(topics={"orders": 4}) as kafka:
        group = kafka.group("g")
        a = await Consumer.joined(kafka, "A")
        await group.stable(members=1)
        b = await Consumer.joined(kafka, "B")
        waiting = asyncio.ensure_future(group.stable(members=2, timeout="10s"))
        for _ in range(3):
            await a.beat()
            await b.beat()
        await waiting
        assert group.generation == 2
        assert {m.client_id: m.assignment for m in group.members} == {
            "app-A": {"orders": [0, 1]},
            "app-B": {"orders": [2, 3]},
        }
        assert group.lag().total == 0
        await group.remove("app-B")
        await group.member_gone("app-B")
        assert [problem for event in kafka.journal.events for problem in problems(event)] == []
        await a.wire.close()
        await b.wire.close()


async def test_who_waited_for_whose_partitions_is_told_in_words() -> None:
    async with Cluster(topics={"orders": 4}, clock="manual") as kafka:
        group = kafka.group("g")
        a = await Consumer.joined(kafka, "A")
        b = await Consumer.joined(kafka, "B")
        await a.beat(gives_up=False)
        await kafka.time.advance("12s")
        await b.beat()
        assert "app-B has waited 12 s for orders-2 and orders-3, which app-A has not revoked" in unwrapped(
            group.explain()
        )
        await a.beat()
        await b.beat()
        told = unwrapped(group.explain())
        assert "epoch 2: app-B joined" in told
        assert "app-B waited 12 s for orders-2 and orders-3, which app-A had not revoked" in told
        assert told.startswith("Consumer group g on __consumer_offsets-")
        assert "Stable, epoch 2, 2 members." in told
        assert "app-B waited 12 s" in recent(kafka.journal.events, "g")
        drawn = group.timeline()
        assert "Stable in epoch 2" in drawn
        (states,) = [line for line in drawn.splitlines() if line.startswith("state")]
        assert "▒" in states, "reconciling"
        await a.wire.close()
        await b.wire.close()


async def test_members_live_on_while_time_is_moved_unless_they_are_named() -> None:
    async with Cluster(topics={"orders": 4}, clock="manual") as kafka:
        group = kafka.group("g")
        a = await Consumer.joined(kafka, "A")
        b = await Consumer.joined(kafka, "B")
        await kafka.time.advance("10min")
        assert len(group.members) == 2
        await kafka.time.advance("46s", expire=["app-B"])
        await group.wait(members=1)
        assert [m.client_id for m in group.members] == ["app-A"]
        told = unwrapped(group.explain())
        assert "app-B was removed: its session expired" in told
        await a.wire.close()
        await b.wire.close()


def unwrapped(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize(
    "event",
    [{}, {"members": None}, {"members": [3, {"assignment": 5, "pending_assignment": {"t": "x"}}], "size": "many"}],
)
def test_a_journal_that_lacks_things_is_read_all_the_same(event: dict[str, Any]) -> None:
    assert explain([{"event": "epochs", "group": "g", **event}], "g").startswith("Consumer group g")
