"""Dead letters (KIP-1191) of share groups, while their partition changes. What they say is measured in tests/conformance."""

from __future__ import annotations

import asyncio

import pytest

from broker_sim import Cluster
from broker_sim.metadata.entity_configs import Entity
from broker_sim.runtime import dead_letters
from broker_sim.runtime.dead_letters import REJECTED, DeadLetters, Letters

LETTERS, GROUP = "dlq.orders", "g"
DEADLINE_S = 60


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pauses between attempts are those of a program, which a test's clock does not move."""
    monkeypatch.setattr(dead_letters, "_BACKOFF_MS", 1)


@pytest.mark.parametrize("replicas", [1, 2], ids=["the log moves along", "the follower is behind"])
async def test_letters_that_a_new_leader_may_not_have_are_written_again(replicas: int) -> None:
    async with Cluster(2, {"orders": 1}, as_version="4.4") as kafka:
        enabled = {"errors.deadletterqueue.group.enable": "true"}
        topic = kafka.state.create_topic(LETTERS, 1, replication_factor=replicas, configs=enabled)
        kafka.state.entity_configs[Entity.GROUP][GROUP] = {"errors.deadletterqueue.topic.name": LETTERS}
        [partition] = topic.partitions
        sent: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        letters = Letters(GROUP, kafka.state.topics["orders"].partitions[0], 0, 1, 1, REJECTED)
        with kafka.log(LETTERS, 0).stuck():
            DeadLetters(kafka.state).send(letters, lambda where, problem: sent.put_nowait((where, problem)))
            assert (partition.log_end_offset, partition.high_watermark) == (2, 0)
            kafka.move_leader(partition)
            assert partition.log_end_offset == (2 if replicas == 1 else 0)
            assert sent.empty()
        async with asyncio.timeout(DEADLINE_S):
            assert await sent.get() == (partition.name, "")
        assert partition.log_end_offset == (4 if replicas == 1 else 2)


async def test_letters_whose_topic_is_deleted_are_given_up() -> None:
    async with Cluster(1, {"orders": 1}, as_version="4.4") as kafka:
        enabled = {"errors.deadletterqueue.group.enable": "true"}
        kafka.state.create_topic(LETTERS, 1, configs=enabled)
        kafka.state.entity_configs[Entity.GROUP][GROUP] = {"errors.deadletterqueue.topic.name": LETTERS}
        sent: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        letters = Letters(GROUP, kafka.state.topics["orders"].partitions[0], 0, 1, 1, REJECTED)
        kafka.log(LETTERS, 0).stuck()
        DeadLetters(kafka.state).send(letters, lambda where, problem: sent.put_nowait((where, problem)))
        kafka.state.delete_topic(LETTERS)
        async with asyncio.timeout(DEADLINE_S):
            where, problem = await sent.get()
        assert (where, problem) == ("", f"{LETTERS}-0: UNKNOWN_TOPIC_OR_PARTITION")
