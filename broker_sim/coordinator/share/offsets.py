"""Where an empty share group begins, made otherwise and forgotten: AlterShareGroupOffsets and DeleteShareGroupOffsets.

Source: GroupCoordinatorService.alterShareGroupOffsets and deleteShareGroupOffsets, GroupMetadataManager.completeAlterShareGroupOffsets,
sharePartitionsEligibleForOffsetDeletion (4.x).
"""

from __future__ import annotations

from collections.abc import Sequence

from broker_sim.coordinator.epochs.refused import Refused
from broker_sim.coordinator.epochs.writes import Changes, submit
from broker_sim.coordinator.outcome import Client
from broker_sim.coordinator.share import partitions
from broker_sim.coordinator.share.group import LAYOUT, ShareGroup, Topic, TopicState
from broker_sim.coordinator.share_state.commands import Result
from broker_sim.coordinator.state import ShardState
from kafka_wire.errors import Err
from kafka_wire.messages import offsets_log as log
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


def alter(shard: ShardState, token: int, client: Client, request: AlterShareGroupOffsetsRequest) -> None:
    """An empty group, or one that is made by this, begins elsewhere."""
    rows: dict[tuple[str, int], AlterShareGroupOffsetsResponsePartition] = {}
    answer = AlterShareGroupOffsetsResponse()
    wanted, offsets = Topic(), {}
    for topic in request.topics:
        image = shard.topics.by_name.get(topic.topic_name)
        told = AlterShareGroupOffsetsResponseTopic(topic.topic_name)
        answer.responses.append(told)
        for one in topic.partitions:
            row = AlterShareGroupOffsetsResponsePartition(one.partition_index)
            told.partitions.append(row)
            if image is None or not 0 <= one.partition_index < image.partitions:
                row.error_code, row.error_message = Err.UNKNOWN_TOPIC_OR_PARTITION, Err.UNKNOWN_TOPIC_OR_PARTITION.text
            else:
                rows[topic.topic_name, one.partition_index] = row
                offsets[image.topic_id, one.partition_index] = one.start_offset
        if image is not None:
            told.topic_id = image.topic_id
            numbers = {one.partition_index for one in topic.partitions if 0 <= one.partition_index < image.partitions}
            if numbers:
                wanted[image.topic_id] = TopicState(topic.topic_name, tuple(sorted(numbers)))
    if not shard.settings.policy.share_offsets_may_be_altered:
        answer.responses = [one for one in answer.responses if one.topic_name not in shard.topics.by_name]
        shard.answer(token, answer)
        return
    try:
        group = _group_of(shard, request.group_id)
    except Refused as refused:
        shard.answer(token, _refused_alter(refused.error, refused.words), _refused_alter)
        return
    changes = Changes(group)
    shard.groups[group.group_id] = group
    if not group.latest.is_known:
        key = log.ShareGroupMetadataKey(group.group_id)
        changes.add(LAYOUT.group, key, log.ShareGroupMetadataValue(group.latest.group_epoch, 0))
    if not wanted:
        submit(shard, token, changes, answer, _refused_alter)
        return
    partitions.begin(changes, wanted)

    def told_all(shard: ShardState, answers: Sequence[Result]) -> None:
        each = iter(answers)
        for topic in wanted.values():
            for number in topic.partitions:
                result, row = next(each), rows[topic.name, number]
                row.error_code, row.error_message = result.error, result.words
        shard.reply(token, answer)

    making = partitions.Making(group, wanted, told_all)
    commands = partitions.made_by(group.group_id, group.latest.group_epoch, wanted, offsets)
    shard.write(partitions.AskingWrite(None, changes, None, None, commands, making))


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


def delete(shard: ShardState, token: int, client: Client, request: DeleteShareGroupOffsetsRequest) -> None:
    """An empty group forgets topics."""
    group = shard.groups.get(request.group_id)
    if group is None or group.is_dead:
        words = f"Group {request.group_id} not found."
        shard.answer(token, _refused_delete(Err.GROUP_ID_NOT_FOUND, words), _refused_delete)
        return
    if not isinstance(group, ShareGroup):
        words = f"Group {request.group_id} is not a share group."
        shard.answer(token, _refused_delete(Err.GROUP_ID_NOT_FOUND, words), _refused_delete)
        return
    if not group.is_empty:
        shard.answer(token, _refused_delete(Err.NON_EMPTY_GROUP, Err.NON_EMPTY_GROUP.text), _refused_delete)
        return
    latest, gone = group.latest, Topic()
    rows: list[DeleteShareGroupOffsetsResponseTopic] = []
    refused: list[DeleteShareGroupOffsetsResponseTopic] = []
    unknown = Err.UNKNOWN_TOPIC_OR_PARTITION
    for topic in request.topics:
        name, image = topic.topic_name, shard.topics.by_name.get(topic.topic_name)
        if image is None:
            refused.append(DeleteShareGroupOffsetsResponseTopic(name, error_code=unknown, error_message=unknown.text))
        elif image.topic_id in latest.initialized or image.topic_id in latest.deleting:
            gone[image.topic_id] = latest.initialized.get(
                image.topic_id, TopicState(name, tuple(range(image.partitions)))
            )
            rows.append(DeleteShareGroupOffsetsResponseTopic(name, image.topic_id))
        else:
            words = "There is no offset information to delete."
            refused.append(DeleteShareGroupOffsetsResponseTopic(name, error_code=unknown, error_message=words))
    answer = DeleteShareGroupOffsetsResponse(responses=[*rows, *refused])
    if not gone:
        shard.answer(token, answer, _refused_delete)
        return

    def told_all(shard: ShardState, answers: Sequence[Result]) -> None:
        each = iter(answers)
        for row, topic in zip(rows, gone.values(), strict=True):
            failed = [one for one in (next(each) for _ in topic.partitions) if one.error is not Err.NONE]
            if failed:
                row.error_code, row.error_message = failed[0].error, failed[0].words
        shard.reply(token, answer)

    changes = Changes(group)
    partitions.record(
        changes,
        initialized={id_: one for id_, one in latest.initialized.items() if id_ not in gone},
        deleting={**latest.deleting, **{id_: one.name for id_, one in gone.items()}},
    )
    removing = partitions.Removing(group, gone, told_all)
    commands = partitions.removed_by(group.group_id, gone)
    shard.write(partitions.AskingWrite(None, changes, None, None, commands, removing))


def _refused_delete(error: Err, words: str | None = None) -> DeleteShareGroupOffsetsResponse:
    return DeleteShareGroupOffsetsResponse(error_code=error, error_message=words)
