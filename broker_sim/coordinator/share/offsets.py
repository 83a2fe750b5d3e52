"""Alteration and deletion of the start offsets of an empty share group: AlterShareGroupOffsets and DeleteShareGroupOffsets.

Source: GroupCoordinatorService.alterShareGroupOffsets and deleteShareGroupOffsets, GroupMetadataManager.completeAlterShareGroupOffsets,
sharePartitionsEligibleForOffsetDeletion (4.x).
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence
from dataclasses import dataclass, field

from broker_sim.common.slices import Pace, at_once
from broker_sim.coordinator.epochs.refused import Refused
from broker_sim.coordinator.epochs.writes import Changes, submit
from broker_sim.coordinator.outcome import Client
from broker_sim.coordinator.share import partitions
from broker_sim.coordinator.share.group import ShareGroup, Topic, TopicState
from broker_sim.coordinator.share_state.commands import Result
from broker_sim.coordinator.state import ShardState
from broker_sim.coordinator.topics import Topics
from kafka_wire.errors import Err
from kafka_wire.messages.k91_alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from kafka_wire.messages.k92_delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from kafka_wire.uuids import uuid_text

_REFUSED_BELOW = "Initialize share group parameters has invalid partitionId -"
_PIECE = 2000
"""Topics and partitions that are looked up before others are served."""


@dataclass(slots=True)
class AlterOffsets:
    """An AlterShareGroupOffsets whose topics were looked up at ``version`` of the shard's topics: the ``answer`` so far, its ``rows``
    of existing partitions, and their new start ``offsets``. ``begun``: the partitions in the group's record; of a topic that is named
    twice the second's. ``below``: topic id and number of a partition below 0, which Kafka accepts until the persister refuses it."""

    group_id: str
    request: AlterShareGroupOffsetsRequest
    version: int
    answer: AlterShareGroupOffsetsResponse = field(default_factory=AlterShareGroupOffsetsResponse)
    rows: dict[tuple[str, int], AlterShareGroupOffsetsResponsePartition] = field(default_factory=dict)
    wanted: Topic = field(default_factory=Topic)
    begun: Topic = field(default_factory=Topic)
    offsets: dict[tuple[bytes, int], int] = field(default_factory=dict)
    below: tuple[bytes, int] | None = None


def _below(topic_id: bytes, numbers: Collection[int]) -> tuple[bytes, int] | None:
    """The partition below 0 that Kafka meets first: a java.util.HashSet has -1 first, then -2."""
    below = [number for number in numbers if number < 0]
    return (topic_id, max(below)) if below else None


def altering(topics: Topics, request: AlterShareGroupOffsetsRequest) -> Generator[None, None, AlterOffsets]:
    """Look up the partitions of the request, in pieces; `alter` then takes one step."""
    result, pace = AlterOffsets(request.group_id, request, topics.version), Pace(_PIECE)
    unknown = Err.UNKNOWN_TOPIC_OR_PARTITION
    answers_by_name: dict[
        str, tuple[AlterShareGroupOffsetsResponseTopic, set[int]]
    ] = {}  # one that is named twice has one row
    unknown_topics: dict[str, tuple[AlterShareGroupOffsetsResponseTopic, set[int]]] = {}
    for topic in request.topics:
        if pace.full():
            yield
        image = topics.by_name.get(topic.topic_name)
        known = unknown_topics if image is None else answers_by_name
        answer_topic, numbers = known.get(topic.topic_name) or (
            AlterShareGroupOffsetsResponseTopic(topic.topic_name),
            set(),
        )
        named: set[int] = set()
        if image is not None or topic.partitions:
            if topic.topic_name not in known:
                result.answer.responses.append(answer_topic)
            known[topic.topic_name] = answer_topic, numbers
        if image is not None:
            answer_topic.topic_id = image.topic_id
        for partition in topic.partitions:
            if pace.full():
                yield
            row = AlterShareGroupOffsetsResponsePartition(partition.partition_index)
            answer_topic.partitions.append(row)
            if image is None or partition.partition_index >= image.partitions:
                row.error_code, row.error_message = unknown, unknown.text
            else:
                named.add(partition.partition_index)
                result.rows[topic.topic_name, partition.partition_index] = row
                result.offsets[image.topic_id, partition.partition_index] = partition.start_offset
        numbers |= named
        if image is not None:
            result.begun[image.topic_id] = TopicState(topic.topic_name, tuple(sorted(named)))
    for name, (answer_topic, numbers) in answers_by_name.items():
        if pace.full(1 + len(numbers)):
            yield
        if result.below is None:
            result.below = _below(answer_topic.topic_id, numbers)
        result.wanted[answer_topic.topic_id] = TopicState(name, tuple(sorted(numbers)))
    return result


def alter(shard: ShardState, token: int, client: Client, body: AlterOffsets) -> None:
    """AlterShareGroupOffsets: set the start offsets of an empty group, which is created if it is missing."""
    if body.version != shard.topics.version:  # topics have changed since
        body = at_once(altering(shard.topics, body.request))
    answer, wanted, rows = body.answer, body.wanted, body.rows
    if not shard.settings.policy.share_offsets_may_be_altered:
        answer.responses = [row for row in answer.responses if row.topic_name not in shard.topics.by_name]
        shard.answer(token, answer)
        return
    try:
        group = _group_of(shard, body.group_id)
    except Refused as refused:
        shard.answer(token, _refused_alter(refused.error, refused.words), _refused_alter)
        return
    if not wanted:
        shard.answer(token, answer, _refused_alter)
        return
    changes = Changes(group)
    shard.groups[group.group_id] = group
    partitions.begin(shard, changes, body.begun)
    if body.below is not None:  # what is recorded by then stays
        topic_id, number = body.below
        words = f"{_REFUSED_BELOW} {body.group_id} {uuid_text(topic_id)} {number}"
        submit(shard, token, changes, _refused_alter(Err.UNKNOWN_SERVER_ERROR, words), _refused_alter)
        return
    if not any(topic.partitions for topic in wanted.values()):
        submit(shard, token, changes, answer, _refused_alter)
        return

    def answer_request(shard: ShardState, answers: Sequence[Result]) -> None:
        results = iter(answers)
        for topic in wanted.values():
            for number in topic.partitions:
                result, row = next(results), rows[topic.name, number]
                row.error_code, row.error_message = result.error, result.words
        shard.reply(token, answer)

    initialization = partitions.StateInitialization(group, wanted, answer_request)
    commands = partitions.initialize_commands(group.group_id, group.latest.group_epoch, wanted, body.offsets)
    shard.write(partitions.PersisterWrite(None, changes, None, None, commands, initialization))


def _group_of(shard: ShardState, group_id: str) -> ShareGroup:
    group = shard.groups.get(group_id)
    if group is None or group.is_dead:
        return ShareGroup.made(group_id, shard.settings.policy)
    if not isinstance(group, ShareGroup):
        raise Refused(Err.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group.")
    if not group.is_empty:
        raise Refused(Err.NON_EMPTY_GROUP, Err.NON_EMPTY_GROUP.text)
    return group


def _refused_alter(error: Err, words: str | None = None) -> AlterShareGroupOffsetsResponse:
    return AlterShareGroupOffsetsResponse(error_code=error, error_message=words)


@dataclass(slots=True)
class ForgetOffsets:
    """A DeleteShareGroupOffsets whose topics were looked up, in the group and among the topics at ``version``: the topics to delete,
    their ``rows`` by topic id, and the rows of refused topics. A topic that is named twice has one row, as in Kafka, which sends one
    request for each topic to the share coordinators."""

    group_id: str
    request: DeleteShareGroupOffsetsRequest
    version: tuple[ShareGroup, int, int] | None
    removed: Topic = field(default_factory=Topic)
    rows: dict[bytes, DeleteShareGroupOffsetsResponseTopic] = field(default_factory=dict)
    refused: list[DeleteShareGroupOffsetsResponseTopic] = field(default_factory=list)


def _version(shard: ShardState, group_id: str) -> tuple[ShareGroup, int, int] | None:
    group = shard.groups.get(group_id)
    return (group, group.version, shard.topics.version) if isinstance(group, ShareGroup) and group.is_empty else None


def forgetting(shard: ShardState, request: DeleteShareGroupOffsetsRequest) -> Generator[None, None, ForgetOffsets]:
    """Look up the topics of the request, in pieces; `delete` then takes one step."""
    result = ForgetOffsets(request.group_id, request, _version(shard, request.group_id))
    if result.version is None:
        return result
    latest, topics, pace = result.version[0].latest, shard.topics.by_name, Pace(_PIECE)
    if not latest.has_record:
        return result  # Kafka looks at no topic then, and returns none
    unknown = Err.UNKNOWN_TOPIC_OR_PARTITION
    for topic in request.topics:
        if pace.full():
            yield
        name, image = topic.topic_name, topics.get(topic.topic_name)
        if image is None:
            row = DeleteShareGroupOffsetsResponseTopic(name, error_code=unknown, error_message=unknown.text)
            result.refused.append(row)
        elif image.topic_id in latest.initialized or image.topic_id in latest.deleting:
            if image.topic_id not in result.removed:
                whole = TopicState(name, tuple(range(image.partitions)))
                result.removed[image.topic_id] = latest.initialized.get(image.topic_id, whole)
            result.rows[image.topic_id] = DeleteShareGroupOffsetsResponseTopic(name, image.topic_id)
        else:
            words = "There is no offset information to delete."
            result.refused.append(DeleteShareGroupOffsetsResponseTopic(name, error_code=unknown, error_message=words))
    return result


def delete(shard: ShardState, token: int, client: Client, body: ForgetOffsets) -> None:
    """DeleteShareGroupOffsets: remove the state of topics of an empty group."""
    group = shard.groups.get(body.group_id)
    if group is None or group.is_dead:
        words = f"Group {body.group_id} not found."
        shard.answer(token, _refused_delete(Err.GROUP_ID_NOT_FOUND, words), _refused_delete)
        return
    if not isinstance(group, ShareGroup):
        words = f"Group {body.group_id} is not a share group."
        shard.answer(token, _refused_delete(Err.GROUP_ID_NOT_FOUND, words), _refused_delete)
        return
    if not group.is_empty:
        shard.answer(token, _refused_delete(Err.NON_EMPTY_GROUP, Err.NON_EMPTY_GROUP.text), _refused_delete)
        return
    if body.version != _version(shard, body.group_id):  # it is another since
        body = at_once(forgetting(shard, body.request))
    latest, deleted, rows = group.latest, body.removed, body.rows
    answer = DeleteShareGroupOffsetsResponse(responses=[*rows.values(), *body.refused])
    if not (deleted or latest.has_record):
        shard.answer(token, answer, _refused_delete)
        return

    def answer_request(shard: ShardState, answers: Sequence[Result]) -> None:
        results = iter(answers)
        for topic_id, topic in deleted.items():
            failed = [result for result in (next(results) for _ in topic.partitions) if result.error is not Err.NONE]
            if failed:
                row = rows[topic_id]
                row.error_code, row.error_message = failed[0].error, failed[0].words
        shard.reply(token, answer)

    changes = Changes(group)
    partitions.record(
        changes,
        initialized={id_: topic for id_, topic in latest.initialized.items() if id_ not in deleted},
        deleting={**latest.deleting, **{id_: topic.name for id_, topic in deleted.items()}},
    )
    if not deleted:  # the record is written all the same
        submit(shard, token, changes, answer, _refused_delete)
        return
    deletion = partitions.StateDeletion(group, deleted, answer_request)
    commands = partitions.delete_commands(group.group_id, deleted)
    shard.write(partitions.PersisterWrite(None, changes, None, None, commands, deletion))


def _refused_delete(error: Err, words: str | None = None) -> DeleteShareGroupOffsetsResponse:
    return DeleteShareGroupOffsetsResponse(error_code=error, error_message=words)
