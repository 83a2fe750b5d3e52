"""One group, two protocols: a classic group becomes a consumer group when the first member of the new kind joins it, and a classic one
again when the last of them goes. In between members of both kinds are in it (``classic_members``).

Source: GroupMetadataManager.convertToConsumerGroup, convertToClassicGroup, and validateOnlineUpgrade in its words (4.x).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from typing import NamedTuple

from broker_sim.coordinator.classic.group import ClassicGroup, State
from broker_sim.coordinator.classic.group import Member as ClassicMember
from broker_sim.coordinator.classic.rebalance import (
    answer_join,
    answer_sync,
    join_error,
    prepare_rebalance,
    restart_session,
    sync_error,
)
from broker_sim.coordinator.consumer import timers
from broker_sim.coordinator.consumer.group import (
    LAYOUT,
    ConsumerGroup,
    current_key,
    current_value,
    member_key,
    target_key,
    target_value,
)
from broker_sim.coordinator.epochs.holdings import Units, units_of
from broker_sim.coordinator.epochs.reconcile import STABLE, Current
from broker_sim.coordinator.epochs.refused import Refused
from broker_sim.coordinator.epochs.sessions import cancel_session
from broker_sim.coordinator.epochs.writes import Changes
from broker_sim.coordinator.records import EpochRecord, GroupRecord, Record
from broker_sim.coordinator.state import ShardState
from broker_sim.coordinator.topics import Topics, in_order
from kafka_wire import offsets_log as types
from kafka_wire.consumer_protocol import Subscription, assigned_partitions, assignment_of, subscription_of
from kafka_wire.errors import Err
from kafka_wire.messages import offsets_log as log

# from classic


def check_room(shard: ShardState, members: Container[str], count: int, member_id: str) -> None:
    """Whether a consumer group of these members, ``count`` of them, has room for that one. Raises Refused."""
    most = shard.settings.consumer.max_size
    if count >= most and member_id not in members:
        words = f"The consumer group has reached its maximum capacity of {most} members."
        raise Refused(Err.GROUP_MAX_SIZE_REACHED, words)


def to_consumer(shard: ShardState, group: ClassicGroup, member_id: str) -> Changes:
    """A consumer group in the place of a classic one, whose members it has, for a member that joins. Raises Refused where that can't
    be."""
    cannot = f"Cannot upgrade classic group {group.group_id} to consumer group because "
    if shard.settings.consumer.migration_policy not in ("bidirectional", "upgrade"):
        raise Refused(Err.GROUP_ID_NOT_FOUND, f"{cannot}online upgrade is disabled.")
    if group.protocol_type != "consumer":
        raise Refused(Err.GROUP_ID_NOT_FOUND, f"{cannot}the group does not use the consumer embedded protocol.")
    if len(group.members) > shard.settings.consumer.max_size:
        raise Refused(Err.GROUP_ID_NOT_FOUND, f"{cannot}the group size exceeds the consumer group maximum size.")
    if group.protocol is None and group.members:
        # ConsumerGroup.fromClassicGroup throws, and has answered the requests by then
        _answer_deferred(shard, group)
        raise Refused(Err.UNKNOWN_SERVER_ERROR, None)
    members: dict[str, tuple[ClassicMember, Subscription, dict[str, list[int]]]] = {}
    for member in group.members.values():
        metadata = member.metadata(group.protocol) or (member.protocols[0][1] if member.protocols else b"")
        subscription = subscription_of(metadata)
        has = assigned_partitions(member.assignment) if member.assignment else {}
        if subscription is None or has is None:
            raise Refused(Err.GROUP_ID_NOT_FOUND, f"{cannot}the embedded consumer protocol is malformed.")
        members[member.member_id] = member, subscription, has
    check_room(shard, members, len(members), member_id)
    _answer_deferred(shard, group)
    for key in ("rebalance", "sync"):
        shard.cancel((key, group.group_id))
    for pending in group.pending_members:
        shard.cancel(("pending", group.group_id, pending))
    made = ConsumerGroup.made(group.group_id, shard.settings.policy)
    made.adopt_offsets_of(group)
    changes = Changes(made, [GroupRecord(group.group_id, None)], group)
    _take_members(shard, changes, members, group.generation)
    return changes


def _answer_deferred(shard: ShardState, group: ClassicGroup) -> None:
    for member in group.members.values():
        answer_join(shard, group, member, join_error(member.join_version, Err.REBALANCE_IN_PROGRESS, member.member_id))
        answer_sync(shard, member, sync_error(Err.REBALANCE_IN_PROGRESS))


def _take_members(
    shard: ShardState,
    changes: Changes,
    members: dict[str, tuple[ClassicMember, Subscription, dict[str, list[int]]]],
    generation: int,
) -> None:
    group = changes.group
    assert isinstance(group, ConsumerGroup)
    group_id = group.group_id
    for member_id, (member, subscription, _) in members.items():
        value = log.ConsumerGroupMemberMetadataValue(
            instance_id=member.instance_id,
            rack_id=subscription.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=in_order(subscription.topics),
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            server_assignor=None,
            classic_member_metadata=log.ClassicMemberMetadata(
                member.session_timeout_ms, [log.ClassicProtocol(*pair) for pair in member.protocols]
            ),
        )
        changes.add(LAYOUT.member, member_key(group_id, member_id), value)
    metadata = log.ConsumerGroupMetadataValue(generation, group.metadata_hash(shard.topics))
    changes.add(LAYOUT.group, log.ConsumerGroupMetadataKey(group_id), metadata)
    owned = {member_id: held_by_id(shard.topics, has) for member_id, (_, _, has) in members.items()}
    for member_id, has in owned.items():
        changes.add(LAYOUT.target, target_key(group_id, member_id), target_value(has))
    target = log.ConsumerGroupTargetAssignmentMetadataValue(generation)
    changes.add(LAYOUT.target_metadata, log.ConsumerGroupTargetAssignmentMetadataKey(group_id), target)
    with_epochs = shard.settings.policy.assignment_epochs_are_stored
    for member_id, has in owned.items():
        assigned = {topic_id: dict.fromkeys(numbers, generation) for topic_id, numbers in has.items()}
        current = Current(generation, generation, STABLE, assigned)
        changes.add(LAYOUT.current, current_key(group_id, member_id), current_value(current, with_epochs=with_epochs))
        shard.arm(("session", group_id, member_id), members[member_id][0].session_timeout_ms)


def held_by_id(topics: Topics, has: dict[str, list[int]]) -> dict[bytes, tuple[int, ...]]:
    """The owned partitions by topic id, without those of deleted topics."""
    existing = [(topics.by_name[name], numbers) for name, numbers in has.items() if name in topics.by_name]
    return units_of((image.topic_id, [n for n in numbers if 0 <= n < image.partitions]) for image, numbers in existing)


# back to classic


def becomes_classic(
    shard: ShardState, group: ConsumerGroup, leaving_ids: Sequence[str], *, replaced: bool = False
) -> bool:
    """Whether the members that stay when these leave are classic members and may continue as a classic group. ``replaced``: a classic
    member takes the place of the leaving one."""
    stay = [member for member_id, member in group.latest.members.items() if member_id not in leaving_ids]
    if any(member.classic_member_metadata is None for member in stay) or not (stay or replaced):
        return False
    allowed = shard.settings.consumer.migration_policy in ("bidirectional", "downgrade")
    return allowed and len(stay) + replaced <= shard.settings.max_group_size


class Downgrade(NamedTuple):
    """Generation of the classic group that a consumer group becomes, and the assignment of the member that replaces its last member
    of the consumer protocol, both from before that member's request (ClassicGroup.fromConsumerGroup reads the state without the
    request's records)."""

    generation: int
    member_id: str
    target: Units[bytes]


def have_common_protocol(
    group: ConsumerGroup, leaving_ids: Sequence[str], joining: Sequence[Sequence[str]] = ()
) -> bool:
    """Whether the classic members that stay, and those joining, have a protocol in common by Kafka's count, for which a name that a
    member has twice counts twice. Else the vote of the classic group throws, and the request fails (ClassicGroup.selectProtocol)."""
    lists = [*joining]
    for member_id, member in group.latest.members.items():
        if member_id not in leaving_ids and member.classic_member_metadata is not None:
            lists.append([protocol.name for protocol in member.classic_member_metadata.supported_protocols])
    return len(lists) in Counter(name for names in lists for name in names).values()


def to_classic(
    shard: ShardState,
    group: ConsumerGroup,
    leaving_ids: Sequence[str],
    *,
    downgrade: Downgrade | None = None,
    rebalances: bool = True,
) -> tuple[ClassicGroup, list[Record]]:
    """Convert a consumer group to a classic group with the members that stay, which begins with a rebalance if it ``rebalances``. Its
    records end the one and begin the other, in the order of GroupMetadataManager.convertToClassicGroup: a load replays them one by
    one."""
    latest, group_id = group.latest, group.group_id
    order = [*leaving_ids, *(member_id for member_id in latest.members if member_id not in leaving_ids)]
    records: list[Record] = [EpochRecord(LAYOUT.current, current_key(group_id, member_id), None) for member_id in order]
    records += [EpochRecord(LAYOUT.target, target_key(group_id, member_id), None) for member_id in order]
    target, *rest = group.tombstones(shard.settings.policy)
    records.append(target)
    records += [EpochRecord(LAYOUT.member, member_key(group_id, member_id), None) for member_id in order]
    records += [
        EpochRecord(
            types.CONSUMER_GROUP_REGULAR_EXPRESSION, log.ConsumerGroupRegularExpressionKey(group_id, pattern), None
        )
        for pattern in latest.matched
    ]
    records += rest
    made = ClassicGroup(group_id, state=State.STABLE, state_ts_ms=shard.now_ms)
    made.adopt_offsets_of(group)
    made.generation = latest.group_epoch if downgrade is None else downgrade.generation
    made.protocol_type = "consumer"
    for member_id, member in latest.members.items():
        cancel_session(shard, group, member_id)
        timers.cancel_revocation(shard, group, member_id)
        timers.cancel_join(shard, group, member_id)
        timers.cancel_sync(shard, group, member_id)
        classic = member.classic_member_metadata
        if member_id in leaving_ids or classic is None:
            continue
        protocols = [(protocol.name, protocol.metadata) for protocol in classic.supported_protocols]
        replaces = downgrade is not None and member_id == downgrade.member_id
        given = downgrade.target if replaces and downgrade is not None else latest.target(member_id)
        made.add(
            ClassicMember(
                member_id=member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                session_timeout_ms=classic.session_timeout_ms,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                protocol_type="consumer",
                protocols=protocols,
                assignment=assignment_bytes(shard.topics, member, given),  # got already or not
            )
        )
    made.protocol = made.vote(shard.settings.policy.votes_are_counted_in)
    made.fix_subscriptions()
    records.append(made.record())
    made.visible_at_high_watermark = shard.next_high_watermark
    shard.store.replace(group, made)
    for classic_member in made.members.values():
        restart_session(shard, made, classic_member)
    if rebalances:
        prepare_rebalance(shard, made)
    return made, records


def assignment_bytes(topics: Topics, member: log.ConsumerGroupMemberMetadataValue, given: Units[bytes]) -> bytes:
    """A member's assignment in SyncGroup's response, encoded with the version of the member's own subscription."""
    has = {topics.names[topic]: numbers for topic, numbers in given.items() if topic in topics.names}
    classic = member.classic_member_metadata
    metadata = classic.supported_protocols[0].metadata if classic and classic.supported_protocols else b""
    return assignment_of(has, as_in=metadata)
