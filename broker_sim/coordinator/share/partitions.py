"""The state of share partitions: initialized by the share coordinators before a partition is assigned, altered, and deleted.

For each change the group's record of partitions (15) is written first, then the share coordinators get their requests, then the record
is written with the result. A coordinator that loads the group finds pending changes in the record and repeats the requests. Source:
GroupMetadataManager.maybeCreateInitializeShareGroupStateRequest, initializeShareGroupState, uninitializeShareGroupState;
GroupCoordinatorService (4.x).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from broker_sim.coordinator.epochs.writes import Changes, EpochWrite, submit
from broker_sim.coordinator.share.group import ShareGroup, Topic, TopicState, partitions_key, partitions_value
from broker_sim.coordinator.share_state.commands import Command, Delete, Initialize, Result
from broker_sim.coordinator.share_state.state import NOWHERE, ShareKey
from broker_sim.coordinator.state import PersisterCallback, ShardState
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
    """Add the group's record of partitions, with the given changes."""
    group = changes.group
    assert isinstance(group, ShareGroup)
    latest = group.latest
    value = partitions_value(
        latest.initializing if initializing is None else initializing,
        latest.initialized if initialized is None else initialized,
        latest.deleting if deleting is None else deleting,
    )
    changes.add(types.SHARE_GROUP_STATE_PARTITION_METADATA, partitions_key(group.group_id), value)


def uninitialized(shard: ShardState, group: ShareGroup, *, again: bool = False) -> Topic:
    """The subscribed partitions whose state is neither initialized nor being initialized; with ``again`` also the latter."""
    latest, result = group.latest, Topic()
    by_name, begun = shard.topics.by_name, Topic() if again else latest.initializing
    for name in sorted(by_name.keys() & latest.named.keys()):
        image = by_name[name]
        has = {*_numbers(latest.initialized, image.topic_id), *_numbers(begun, image.topic_id)}
        missing = tuple(number for number in range(image.partitions) if number not in has)
        if missing:
            result[image.topic_id] = TopicState(name, missing)
    return result


def _numbers(topics: Wanted, topic_id: bytes) -> tuple[int, ...]:
    return topics[topic_id].partitions if topic_id in topics else ()


def joined(some: Wanted, others: Wanted) -> Topic:
    """The partitions of both, by topic id."""
    together = dict(some)
    for topic_id, topic in others.items():
        numbers = {*_numbers(together, topic_id), *topic.partitions}
        together[topic_id] = TopicState(topic.name, tuple(sorted(numbers)))
    return together


def without(some: Wanted, others: Wanted) -> Topic:
    """The partitions of ``some`` that are not in ``others``."""
    left = Topic()
    for topic_id, topic in some.items():
        excluded = frozenset(_numbers(others, topic_id))
        numbers = tuple(number for number in topic.partitions if number not in excluded)
        if numbers:
            left[topic_id] = TopicState(topic.name, numbers)
    return left


# initialization


def is_overdue(shard: ShardState, group: ShareGroup) -> bool:
    """Whether states have been initializing for so long that they are requested again: the record of the result was refused, or the
    share coordinators never answered (GroupMetadataManager.subscribedTopicsChangeMap)."""
    if not group.latest.initializing:
        return False
    timeout_ms, retry_ms = shard.settings.commit_timeout_ms, shard.settings.policy.share_initialization_retry_ms
    wait_ms = 2 * timeout_ms if retry_ms is None else max(retry_ms, timeout_ms)
    return shard.now_ms >= group.initializing_since_ms + wait_ms


def begin(shard: ShardState, changes: Changes, wanted: Wanted) -> None:
    """Record that these partitions are being initialized."""
    group = changes.group
    assert isinstance(group, ShareGroup)
    group.initializing_since_ms = shard.now_ms
    record(changes, initializing=joined(group.latest.initializing, wanted))


def start_offsets(shard: ShardState, group: ShareGroup, missing: Wanted) -> dict[tuple[bytes, int], int] | None:
    """Start offsets of partitions that are not initialized, if the release starts those of a known topic at 0; else None."""
    if not shard.settings.policy.added_share_partitions_start_at_0:
        return None
    known = {*group.latest.initialized, *group.latest.initializing}
    return {
        (topic_id, number): 0 if topic_id in known else NOWHERE
        for topic_id, topic in missing.items()
        for number in topic.partitions
    }


class PersisterWrite(EpochWrite):
    """A request's records, upon which the share coordinators are asked."""

    __slots__ = ("callback", "commands")

    def __init__(
        self,
        token: int | None,
        changes: Changes,
        answer: Any,
        refusal: Callable[[Err], Any] | None,
        commands: Sequence[Command],
        callback: PersisterCallback,
    ) -> None:
        super().__init__(token, changes, answer, refusal)
        self.commands, self.callback = commands, callback

    def done(self, shard: ShardState) -> None:
        super().done(shard)
        shard.ask_persister(self.commands, self.callback)


def initialize_commands(
    group_id: str, state_epoch: int, wanted: Wanted, offsets: Mapping[tuple[bytes, int], int] | None = None
) -> list[Command]:
    """The commands that initialize the states of partitions, at the offsets given; without them the start offsets are not set yet."""
    return [
        Initialize(
            ShareKey(group_id, topic_id, number),
            state_epoch,
            NOWHERE if offsets is None else offsets[topic_id, number],
        )
        for topic_id, topic in wanted.items()
        for number in topic.partitions
    ]


class StateInitialization:
    """States that are being initialized; the record gets the result. ``on_answered``: called then, with the share coordinators'
    answers."""

    __slots__ = ("group", "on_answered", "wanted")

    def __init__(
        self,
        group: ShareGroup,
        wanted: Wanted,
        on_answered: Callable[[ShardState, Sequence[Result]], object] | None = None,
    ) -> None:
        self.group, self.wanted, self.on_answered = group, wanted, on_answered

    def answered(self, shard: ShardState, answers: Sequence[Result]) -> None:
        """Record the initialized partitions; failed ones are requested again at the next heartbeat."""
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


def delete_commands(group_id: str, topics: Wanted) -> list[Command]:
    """The commands that delete the states of these partitions."""
    return [
        Delete(ShareKey(group_id, topic_id, number))
        for topic_id, topic in topics.items()
        for number in topic.partitions
    ]


class StateDeletion:
    """States of topics that are being deleted; afterwards the record drops the topics, unless it ends with the group. ``on_answered``:
    called then, with the share coordinators' answers."""

    __slots__ = ("group", "group_ends", "on_answered", "topics")

    def __init__(
        self,
        group: ShareGroup,
        topics: Wanted,
        on_answered: Callable[[ShardState, Sequence[Result]], object] | None = None,
        *,
        group_ends: bool = False,
    ) -> None:
        self.group, self.topics, self.on_answered, self.group_ends = group, topics, on_answered, group_ends

    def answered(self, shard: ShardState, answers: Sequence[Result]) -> None:
        group = self.group
        stays = not self.group_ends and shard.groups.get(group.group_id) is group
        if stays and all(result.error is Err.NONE for result in answers):
            changes = Changes(group)
            left = {id_: name for id_, name in group.latest.deleting.items() if id_ not in self.topics}
            record(changes, deleting=left)
            submit(shard, None, changes, None)
        if self.on_answered is not None:
            self.on_answered(shard, answers)


def resume(shard: ShardState, group: ShareGroup) -> None:
    """Repeat the pending initialization requests after the group was loaded. Not if a partition below 0 is among them, which
    AlterShareGroupOffsets may have left: Kafka's persister refuses all of them."""
    latest = group.latest
    group.initializing_since_ms = shard.now_ms
    wanted = {topic_id: topic for topic_id, topic in latest.initializing.items() if topic.partitions}
    if wanted and all(min(topic.partitions) >= 0 for topic in wanted.values()):
        shard.ask_persister(
            initialize_commands(group.group_id, latest.group_epoch, wanted), StateInitialization(group, wanted)
        )


def forget_topics(shard: ShardState, topic_ids: Iterable[bytes]) -> None:
    """Drop deleted topics from the groups' records. The share coordinators delete the states themselves."""
    deleted = dict.fromkeys(topic_ids)
    for group in list(shard.groups.values()):
        if not isinstance(group, ShareGroup):
            continue
        latest = group.latest
        if not any(
            id_ in topics for topics in (latest.initializing, latest.initialized, latest.deleting) for id_ in deleted
        ):
            continue
        changes = Changes(group)
        record(
            changes,
            initializing={id_: topic for id_, topic in latest.initializing.items() if id_ not in deleted},
            initialized={id_: topic for id_, topic in latest.initialized.items() if id_ not in deleted},
            deleting={id_: name for id_, name in latest.deleting.items() if id_ not in deleted},
        )
        submit(shard, None, changes, None)
