"""Committed offsets that go back, or cease to stand."""

from __future__ import annotations

import asyncio

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from tests.incidents.stage import Group, Stage

__all__ = ["KINDS", "RETENTION_MIN"]

RETENTION_MIN = 1
"""offsets.retention.minutes of these plays: the shortest there is."""


async def _closed(stage: Stage, group: Group) -> None:
    await group.close()
    await stage.empty(group)


async def _back(group: Group) -> None:
    for member in [one for one in group.members if not one.lives]:
        await group.again(member)
    await group.settled()


async def reset(stage: Stage) -> None:
    """kafka-consumer-groups --reset-offsets while the group is stopped."""
    group = await stage.group(members=2, rate=20)
    await stage.any_time(20, 40)
    await _closed(stage, group)
    await stage.any_time(1, 5)
    to = stage.rng.choice(("--to-earliest", "--shift-by -40"))
    with group.event("reset", f"kafka-consumer-groups --reset-offsets {to}", to=to):
        await stage.consumer_groups(
            "--group", group.name, "--reset-offsets", *to.split(), "--topic", group.topic, "--execute"
        )
    await stage.any_time(1, 5)
    await _back(group)
    await stage.any_time(10, 20)


async def reset_by_program(stage: Stage) -> None:
    """The same through an admin client of a program."""
    group = await stage.group(members=2, rate=20)
    await stage.any_time(20, 40)
    await _closed(stage, group)
    offsets = {str(part): 3 + part for part in range(group.partitions)}
    with group.event("reset", "AlterConsumerGroupOffsets of an admin client", offsets=offsets):
        places = [TopicPartition(group.topic, int(part), offset) for part, offset in offsets.items()]
        asked = [ConsumerGroupTopicPartitions(group.name, places)]
        await asyncio.to_thread(stage.admin.alter_consumer_group_offsets(asked)[group.name].result, 30)
    await stage.any_time(1, 5)
    await _back(group)
    await stage.any_time(10, 20)


async def rewind(stage: Stage) -> None:
    """A consumer seeks back by itself, and commits from there on."""
    group = await stage.group(members=1, rate=20, partitions=3)
    await stage.any_time(25, 45)
    client = group.members[0].options.client_id
    with group.event("rewind", "a member sought back, and committed that", back=40, client=client):
        group.members[0].tell("seek", back=40)
        await group.members[0].did("seek")
    await stage.any_time(15, 25)


async def old_commit(stage: Stage) -> None:
    """A late batch commits what was read long before; the consumer reads on, and commits higher again."""
    group = await stage.group(members=1, rate=20, partitions=3)
    await stage.any_time(25, 45)
    client = group.members[0].options.client_id
    with group.event("old commit", "a member committed an older position once", back=30, client=client):
        group.members[0].tell("old", back=30)
        await group.members[0].did("old")
    await stage.any_time(15, 25)


async def expiry(stage: Stage) -> None:
    """A stopped group's offsets expire (offsets.retention.minutes), and it comes back."""
    group = await stage.group(members=1, clients=("aiokafka", "confluent"))
    await stage.any_time(5, 15)
    await _closed(stage, group)
    await _expired(stage, group)
    await stage.any_time(3, 8)
    if stage.rng.random() < 0.7:
        await _back(group)
        await stage.any_time(8, 12)


async def expiry_assigned(stage: Stage) -> None:
    """The same of a consumer that never joined: its offsets expire although the process lives."""
    group = await stage.group(members=1, join=False, clients=("aiokafka", "confluent"))
    await stage.any_time(5, 15)
    group.members[0].tell("mute", on=True)
    await group.members[0].did("mute")
    await _expired(stage, group)
    await stage.any_time(3, 8)
    group.members[0].tell("mute", on=False)
    await stage.any_time(8, 12)


async def _expired(stage: Stage, group: Group) -> None:
    """Returns when the broker has no offsets of the group any more; the event is that moment."""

    def gone() -> bool:
        asked = [ConsumerGroupTopicPartitions(group.name)]
        found = stage.admin.list_consumer_group_offsets(asked)[group.name].result(20)
        return not [place for place in found.topic_partitions if place.offset >= 0]

    with group.event("expiry", "its offsets expired", retention_minutes=RETENTION_MIN) as event:
        began = event.start_ms
        await asyncio.to_thread(
            stage.poll_until, f"the offsets of {group.name} to expire", gone, 60 * RETENTION_MIN + 60
        )
    event.start_ms, event.detail["stopped_ms"] = event.end_ms - 3000, began


async def group_deletion(stage: Stage) -> None:
    group = await stage.group(members=2)
    await stage.any_time(15, 35)
    await _closed(stage, group)
    await stage.any_time(1, 5)
    with group.event("group deletion", "kafka-consumer-groups --delete"):
        await stage.consumer_groups("--group", group.name, "--delete")
    if stage.rng.random() < 0.5:
        await stage.any_time(3, 6)
        await _back(group)
    await stage.any_time(8, 12)


async def offset_deletion(stage: Stage) -> None:
    group = await stage.group(members=2)
    await stage.any_time(15, 35)
    await _closed(stage, group)
    with group.event("offset deletion", "kafka-consumer-groups --delete-offsets"):
        await stage.consumer_groups("--group", group.name, "--delete-offsets", "--topic", group.topic)
    await stage.any_time(1, 5)
    await _back(group)
    await stage.any_time(8, 12)


KINDS = (reset, reset_by_program, rewind, old_commit, expiry, expiry_assigned, group_deletion, offset_deletion)
