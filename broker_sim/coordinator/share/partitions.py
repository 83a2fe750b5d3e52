"""Partitions' state: made by the share coordinators before anybody is given a partition, made anew elsewhere, and removed.

Each is told in the group's record of partitions first (15), then the share coordinators are asked, then the record says what came of
it. A coordinator that takes over finds in the record what was under way, and asks again. Source: GroupMetadataManager.
maybeCreateInitializeShareGroupStateRequest, initializeShareGroupState, uninitializeShareGroupState; GroupCoordinatorService (4.x).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from broker_sim.coordinator.epochs.writes import Changes, EpochWrite, submit
from broker_sim.coordinator.share.group import ShareGroup, Topic, TopicState, partitions_key, partitions_value
from broker_sim.coordinator.share_state.commands import Command, Delete, Initialize, Result
from broker_sim.coordinator.share_state.state import NOWHERE, ShareKey
from broker_sim.coordinator.state import Asking, ShardState
from kafka_wire import offsets_log as types
from kafka_wire.errors import Err

Wanted = Mapping[bytes, TopicState]


def record(
    changes: Changes,
    *,
    initializing: Wanted | None = None,
    initialized: Wanted | None = None,
    deleting: Mapping[bytes, str] | None = None,
) -> None:
    """The group's record of partitions, with what is otherwise than it was."""
    group = changes.group
    assert isinstance(group, ShareGroup)
    latest = group.latest
    value = partitions_value(
        latest.initializing if initializing is None else initializing,
        latest.initialized if initialized is None else initialized,
        latest.deleting if deleting is None else deleting,
    )
    changes.add(types.SHARE_GROUP_STATE_PARTITION_METADATA, partitions_key(group.group_id), value)


def lacking(shard: ShardState, group: ShareGroup) -> Topic:
    """Partitions that members read, and whose state is neither there nor being made."""
    latest, result = group.latest, Topic()
    by_name = shard.topics.by_name
    for name in sorted(by_name.keys() & latest.named.keys()):
        image = by_name[name]
        has = {*_numbers(latest.initialized, image.topic_id), *_numbers(latest.initializing, image.topic_id)}
        lacks = tuple(number for number in range(image.partitions) if number not in has)
        if lacks:
            result[image.topic_id] = TopicState(name, lacks)
    return result


def _numbers(topics: Wanted, topic_id: bytes) -> tuple[int, ...]:
    return topics[topic_id].partitions if topic_id in topics else ()


def joined(some: Wanted, others: Wanted) -> Topic:
    """All of both."""
    together = dict(some)
    for topic_id, topic in others.items():
        numbers = {*_numbers(together, topic_id), *topic.partitions}
        together[topic_id] = TopicState(topic.name, tuple(sorted(numbers)))
    return together


def without(some: Wanted, others: Wanted) -> Topic:
    """What of the one isn't in the other."""
    left = Topic()
    for topic_id, topic in some.items():
        gone = frozenset(_numbers(others, topic_id))
        numbers = tuple(number for number in topic.partitions if number not in gone)
        if numbers:
            left[topic_id] = TopicState(topic.name, numbers)
    return left


# making


def begin(changes: Changes, wanted: Wanted) -> None:
    """The record says that these are being made."""
    group = changes.group
    assert isinstance(group, ShareGroup)
    record(changes, initializing=joined(group.latest.initializing, wanted))


class AskingWrite(EpochWrite):
    """A request's records, upon which the share coordinators are asked."""

    __slots__ = ("asking", "commands")

    def __init__(
        self,
        token: int | None,
        changes: Changes,
        answer: Any,
        refusal: Callable[[Err], Any] | None,
        commands: Sequence[Command],
        asking: Asking,
    ) -> None:
        super().__init__(token, changes, answer, refusal)
        self.commands, self.asking = commands, asking

    def done(self, shard: ShardState) -> None:
        super().done(shard)
        shard.ask(self.commands, self.asking)


def made_by(
    group_id: str, state_epoch: int, wanted: Wanted, offsets: Mapping[tuple[bytes, int], int] | None = None
) -> list[Command]:
    """What makes states, at the offsets given, else nowhere yet."""
    return [
        Initialize(
            ShareKey(group_id, topic_id, number),
            state_epoch,
            NOWHERE if offsets is None else offsets[topic_id, number],
        )
        for topic_id, topic in wanted.items()
        for number in topic.partitions
    ]


class Making:
    """States that are being made: what the record says when they are, or when they could not be. ``on_answered``: who is answered then,
    with what the share coordinators say of each."""

    __slots__ = ("group", "on_answered", "wanted")

    def __init__(
        self,
        group: ShareGroup,
        wanted: Wanted,
        on_answered: Callable[[ShardState, Sequence[Result]], object] | None = None,
    ) -> None:
        self.group, self.wanted, self.on_answered = group, wanted, on_answered

    def answered(self, shard: ShardState, answers: Sequence[Result]) -> None:
        """What was made is there; what was not is asked for again at the next heartbeat."""
        group = self.group
        if shard.groups.get(group.group_id) is group:
            made = Topic()
            results = iter(answers)
            for topic_id, topic in self.wanted.items():
                numbers = tuple(number for number in topic.partitions if next(results).error is Err.NONE)
                if numbers:
                    made[topic_id] = TopicState(topic.name, numbers)
            changes = Changes(group)
            record(
                changes,
                initializing=without(group.latest.initializing, self.wanted),
                initialized=joined(group.latest.initialized, made),
            )
            submit(shard, None, changes, None)
        if self.on_answered is not None:
            self.on_answered(shard, answers)


# removing


def removed_by(group_id: str, topics: Wanted) -> list[Command]:
    """What removes states."""
    return [
        Delete(ShareKey(group_id, topic_id, number))
        for topic_id, topic in topics.items()
        for number in topic.partitions
    ]


class Removing:
    """States of topics that are being removed: the record forgets the topics when they are gone. ``on_answered``: who is answered
    then."""

    __slots__ = ("group", "on_answered", "topics")

    def __init__(
        self,
        group: ShareGroup,
        topics: Wanted,
        on_answered: Callable[[ShardState, Sequence[Result]], object] | None = None,
    ) -> None:
        self.group, self.topics, self.on_answered = group, topics, on_answered

    def answered(self, shard: ShardState, answers: Sequence[Result]) -> None:
        group = self.group
        if shard.groups.get(group.group_id) is group and all(result.error is Err.NONE for result in answers):
            changes = Changes(group)
            left = {id_: name for id_, name in group.latest.deleting.items() if id_ not in self.topics}
            record(changes, deleting=left)
            submit(shard, None, changes, None)
        if self.on_answered is not None:
            self.on_answered(shard, answers)


def go_on(shard: ShardState, group: ShareGroup) -> None:
    """A coordinator has taken over: what the one before was at is asked for again. Not where a partition below 0 is among it, as
    AlterShareGroupOffsets may have left one: Kafka's persister refuses all of it."""
    latest = group.latest
    wanted = {topic_id: topic for topic_id, topic in latest.initializing.items() if topic.partitions}
    if wanted and all(min(topic.partitions) >= 0 for topic in wanted.values()):
        shard.ask(made_by(group.group_id, latest.group_epoch, wanted), Making(group, wanted))


def forget_topics(shard: ShardState, topic_ids: Iterable[bytes]) -> None:
    """Topics are no more: nothing of them is assigned again. Their state ends with the share coordinators, which see for themselves."""
    gone = dict.fromkeys(topic_ids)
    for group in list(shard.groups.values()):
        if not isinstance(group, ShareGroup):
            continue
        latest = group.latest
        if not any(
            id_ in topics for topics in (latest.initializing, latest.initialized, latest.deleting) for id_ in gone
        ):
            continue
        changes = Changes(group)
        record(
            changes,
            initializing={id_: topic for id_, topic in latest.initializing.items() if id_ not in gone},
            initialized={id_: topic for id_, topic in latest.initialized.items() if id_ not in gone},
            deleting={id_: name for id_, name in latest.deleting.items() if id_ not in gone},
        )
        submit(shard, None, changes, None)
