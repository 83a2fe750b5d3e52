"""OffsetDelete and DeleteGroups of a share group.

Source: GroupMetadataManager, GroupCoordinatorService.deleteShareGroups (4.x).
"""

from __future__ import annotations

from collections.abc import Sequence

from broker_sim.coordinator import offsets
from broker_sim.coordinator.epochs.writes import Changes, submit
from broker_sim.coordinator.outcome import Client, DeleteGroup, DeleteOffsets
from broker_sim.coordinator.share import partitions
from broker_sim.coordinator.share.group import ShareGroup
from broker_sim.coordinator.share_state.commands import Result
from broker_sim.coordinator.state import ShardState
from kafka_wire.errors import Err


def delete_offsets(shard: ShardState, token: int, client: Client, request: DeleteOffsets) -> None:
    """OffsetDelete: it has no committed offsets."""
    shard.answer(token, (Err.GROUP_ID_NOT_FOUND, {}))


def delete_group(shard: ShardState, token: int, client: Client, request: DeleteGroup) -> None:
    """DeleteGroups: the share coordinators forget it first."""
    group = shard.groups[request.group_id]
    assert isinstance(group, ShareGroup)
    latest = group.latest
    if not group.is_empty or shard.answers_wait:
        offsets.delete_group(shard, token, client, request)
        return
    topics = partitions.joined(latest.initialized, latest.initializing)
    changes = Changes(group)
    if topics or (latest.has_record and shard.settings.policy.share_deletion_clears_state):
        deleting = {**latest.deleting, **{topic_id: topic.name for topic_id, topic in topics.items()}}
        partitions.record(changes, initializing={}, initialized={}, deleting=deleting)
    if not topics:
        submit(shard, None, changes, None)
        offsets.delete_group(shard, token, client, request)
        return

    def answer_request(shard: ShardState, answers: Sequence[Result]) -> None:
        error = next((result.error for result in answers if result.error is not Err.NONE), Err.NONE)
        if error is Err.NONE:
            offsets.delete_group(shard, token, client, request)
        else:
            shard.reply(token, error)

    deletion = partitions.StateDeletion(group, topics, answer_request, group_ends=True)
    commands = partitions.delete_commands(group.group_id, topics)
    shard.write(partitions.PersisterWrite(None, changes, None, None, commands, deletion))
