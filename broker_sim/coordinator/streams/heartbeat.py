"""StreamsGroupHeartbeat: a member joins, sends the topology and its tasks, and gets its assignment.

One request does all of it in Kafka's order, which is that of its records: the member (19), the topology (23), the group epoch (17), the
target assignment (21, 20), the member's current assignment (22). All checks come before the first record. Parts of the heartbeat that
creates a group which are not stored are lost with it, as in Kafka, where the records create another group object: an endpoint, a
shutdown request, changelog offsets, and the topology of StreamsGroupDescribe. Source: GroupMetadataManager.streamsGroupHeartbeat (4.4).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import replace

from broker_sim.coordinator.classic import joining
from broker_sim.coordinator.classic.group import ClassicGroup
from broker_sim.coordinator.classic.vote import java_order
from broker_sim.coordinator.epochs import classic_requests
from broker_sim.coordinator.epochs.expected import Expected, encoded_in_pieces
from broker_sim.coordinator.epochs.holdings import covers, units
from broker_sim.coordinator.epochs.reconcile import LEFT_TEMPORARILY, Current
from broker_sim.coordinator.epochs.refused import Refused
from broker_sim.coordinator.epochs.sessions import restart_session
from broker_sim.coordinator.epochs.writes import Changes, submit
from broker_sim.coordinator.outcome import Client, TimerKey
from broker_sim.coordinator.state import ShardState
from broker_sim.coordinator.streams import departing
from broker_sim.coordinator.streams.advancing import compute_target, move_group, reconcile
from broker_sim.coordinator.streams.endpoints import partitions_by_endpoint
from broker_sim.coordinator.streams.group import (
    ACTIVE,
    LAYOUT,
    ROLES,
    STANDBY,
    WARMUP,
    ReportedOffsets,
    StreamsGroup,
    TaskKey,
    TaskOffsets,
    member_key,
)
from broker_sim.coordinator.streams.requests import Request, Response, StreamsHeartbeat, refusal
from broker_sim.coordinator.streams.topology import Configured, ReceivedTopology, StatusCode, Topology
from kafka_wire import offsets_log as types
from kafka_wire.errors import Err
from kafka_wire.messages import offsets_log as log
from kafka_wire.messages.k11_join_group import JoinGroupRequest
from kafka_wire.messages.k88_streams_group_heartbeat import Status, TaskIds, TaskOffset

Member = log.StreamsGroupMemberMetadataValue
NEW = Member(None, None, topology_epoch=-1)
"""Metadata of a member before its first heartbeat."""

_MANY_TAGS = 1000
"""From which on a member's record is encoded in pieces."""
_TAGS_SINCE = 1  # version whose clients know MISSING_CLIENT_TAGS

Reported = list[tuple[TaskKey, list[int]]] | None


def heartbeat(shard: ShardState, token: int, client: Client, body: StreamsHeartbeat) -> None:
    """A heartbeat behind the common gate and the check of its form."""
    try:
        if body.request.member_epoch < 0:
            departing.leave(shard, token, body.request)
        else:
            _heartbeat(shard, token, client, body)
    except Refused as refused:
        shard.answer(token, refusal(refused.error, refused.words), refusal)


def classic_join(shard: ShardState, token: int, client: Client, request: JoinGroupRequest) -> None:
    """JoinGroup: an empty group gives its place to a classic one."""
    group = shard.groups[request.group_id]
    if group.is_empty:
        joining.join(shard, token, client, request, group)
    else:
        classic_requests.join(shard, token, client, request)


def initial_delay_over(shard: ShardState, key: TimerKey) -> None:
    """The initial rebalance delay of a group has passed: the tasks are assigned to the members that have joined meanwhile."""
    group = shard.groups.get(str(key[1]))
    if not isinstance(group, StreamsGroup):
        return
    group.delayed = False
    group.version += 1
    if group.latest.members and group.shown is not None:
        changes = Changes(group)
        compute_target(shard, changes, group.shown)
        submit(shard, None, changes, None)


def _heartbeat(shard: ShardState, token: int, client: Client, body: StreamsHeartbeat) -> None:
    """In the order of GroupMetadataManager.streamsGroupHeartbeat: all checks precede the first record, so that a refused heartbeat
    changes nothing; then member, topology, group epoch, target, reconciliation, response."""
    request, received = body.request, body.received
    member_id, reported = request.member_id, _reported(request)
    changes = _changes_of(shard, request)
    group = changes.group
    assert isinstance(group, StreamsGroup)
    replaced = _admit(group, request)
    _check_tags(body)
    topology = _topology(group, received)
    if received is not None and topology is received.topology and received.version == shard.topics.version:
        if isinstance(received.result, Refused):
            raise received.result
        group.configured_as(received)
    configured = group.configured(topology, shard.topics)
    _check_tasks(configured, reported)
    is_known, is_alone = shard.groups.get(group.group_id) is group, list(group.latest.members) == [replaced]
    _check_endpoints(group, request, configured, is_known=is_known)
    was_empty, status = not group.latest.members, list(_stale(group, request))
    if changes.before is not None and shard.groups.get(group.group_id) is changes.before:
        shard.store.replace(changes.before, group)
    shard.groups[group.group_id] = group
    if replaced is not None:
        departing.take_over(shard, changes, replaced, member_id)
    before, endpoint = group.latest.current(member_id), _endpoint(group, member_id)
    _put_member(changes, client, body)
    if group.latest.topology is None:
        encoded = None if received is None else received.encoded
        changes.add(types.STREAMS_GROUP_TOPOLOGY, log.StreamsGroupTopologyKey(group.group_id), topology, encoded)
    if is_known:
        group.shown = configured
        _note_offsets(group, request)
    move_group(shard, changes, configured)
    delay_ms = shard.streams_setting(group.group_id, "initial_rebalance_delay_ms")
    if was_empty and delay_ms > 0 and not group.delayed:
        group.delayed = True
        shard.arm(("initial", group.group_id), delay_ms)
    delayed_by = compute_target(shard, changes, configured)
    if delayed_by is not None:
        status.append(Status(StatusCode.ASSIGNMENT_DELAYED, delayed_by))
    after = reconcile(shard, changes, member_id, before, reported)
    group.session_timeout_ms = shard.streams_setting(group.group_id, "session_timeout_ms")
    restart_session(shard, group, member_id)
    if request.shutdown_application:
        departing.shut_down(group, member_id)
    changed = units(before.assigned) != units(after.assigned)
    _count_endpoints(group, member_id, endpoint, changed)
    answer = _answer(shard, group, request, configured, whole=request.member_epoch == 0 or changed)
    status += _more_status(shard, client, group, member_id, configured)
    answer.status = status
    if not is_known:
        answer.endpoint_information_epoch = group.endpoint_epoch = 0
        group.shutdown_by = None
    if is_alone:
        # without the replaced member the group is empty for a moment; this answer is made before
        group.shutdown_by = None
    submit(shard, token, changes, (answer, configured.missing), refusal)


# what may refuse it


def _changes_of(shard: ShardState, request: Request) -> Changes:
    """The group; a member that joins creates it if it does not exist. Raises Refused where it may not."""
    group, group_id = shard.groups.get(request.group_id), request.group_id
    if isinstance(group, StreamsGroup) and not group.is_dead:
        if request.member_epoch == 0:
            _check_size(shard, group, request)
        return Changes(group)
    missing = group is None or group.is_dead
    if request.member_epoch == 0 and missing:
        return Changes(StreamsGroup.made(group_id, shard.settings.policy))
    if request.member_epoch == 0 and isinstance(group, ClassicGroup) and group.is_empty:
        return classic_requests.replaced(group, StreamsGroup.made(group_id, shard.settings.policy))
    words = f"Streams group {group_id} not found." if missing else f"Group {group_id} is not a streams group."
    raise Refused(Err.GROUP_ID_NOT_FOUND, words)


def _check_size(shard: ShardState, group: StreamsGroup, request: Request) -> None:
    members, most = group.latest.members, shard.settings.streams.max_size
    if request.instance_id in group.latest.static_members or request.member_id in members or len(members) < most:
        return
    words = f"The streams group has reached its maximum capacity of {most} members."
    raise Refused(Err.GROUP_MAX_SIZE_REACHED, words)


def _admit(group: StreamsGroup, request: Request) -> str | None:
    """Whether the member may speak for itself now; the id of the static member whose place it takes, if any. Raises Refused."""
    latest, member_id, instance_id = group.latest, request.member_id, request.instance_id
    if request.member_epoch == 0:
        holder = None if instance_id is None else latest.static_members.get(instance_id)
        if holder is not None and latest.current(holder).epoch != LEFT_TEMPORARILY:
            raise Refused(
                Err.UNRELEASED_INSTANCE_ID,
                f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance id is owned by "
                f"{holder} member.",
            )
        return holder
    if instance_id is not None:
        departing.check_instance(group, instance_id, member_id)
    elif member_id not in latest.members:
        raise Refused(Err.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}.")
    _check_epoch(latest.current(member_id), request)
    return None


def _check_epoch(current: Current[TaskKey], request: Request) -> None:
    """The epoch that the member was sent last; or the one before, where the answer was lost: its tasks are among those assigned then.
    Raises Refused."""
    epoch, reported = request.member_epoch, _reported(request)
    if epoch == current.epoch:
        return
    if (
        epoch < current.epoch
        and epoch == current.previous
        and reported is not None
        and covers(current.assigned, reported)
    ):
        return
    than = "greater" if epoch > current.epoch else "smaller"
    raise Refused(
        Err.FENCED_MEMBER_EPOCH,
        f"The streams group member has a {than} member epoch ({epoch}) than the one known by the group coordinator ({current.epoch}). "
        "The member must abandon all its partitions and rejoin.",
    )


def _check_tags(body: StreamsHeartbeat) -> None:
    """Raises Refused for a tag that is named twice: Kafka makes a map of them, and falls over it."""
    if len(body.tags or ()) < len(body.request.client_tags or ()):
        raise Refused(Err.UNKNOWN_SERVER_ERROR, None)


def _topology(group: StreamsGroup, received: ReceivedTopology | None) -> Topology:
    """The group's topology, which the first member brings. Raises Refused for another one."""
    known = group.latest.topology
    if received is None:
        if known is None:
            raise Refused(Err.UNKNOWN_SERVER_ERROR, None)
        return known
    if not received.is_sound:
        raise Refused(Err.UNKNOWN_SERVER_ERROR, None)
    if known is None:
        return received.topology
    if known.epoch <= received.topology.epoch and not received.is_same(known):
        raise Refused(Err.INVALID_REQUEST, "Topology updates are not supported yet.")
    return known


def _check_tasks(configured: Configured, reported: Reported) -> None:
    """Raises Refused for tasks that the topology doesn't have."""
    for key, numbers in reported if reported is not None and configured.is_ready else ():
        subtopology = configured.subtopologies.get(key.subtopology)
        if subtopology is None:
            raise Refused(Err.INVALID_REQUEST, f"Subtopology {key.subtopology} does not exist in the topology.")
        for number in numbers:
            if not 0 <= number < subtopology.tasks:
                raise Refused(
                    Err.INVALID_REQUEST,
                    f"Task {number} for subtopology {key.subtopology} is invalid. "
                    f"Number of tasks for this subtopology: {subtopology.tasks}",
                )


def _check_endpoints(group: StreamsGroup, request: Request, configured: Configured, *, is_known: bool) -> None:
    """Raises Refused if the response would list the endpoints' partitions but the topology doesn't fit the topics, so that no
    subtopologies are configured. Kafka fails with an exception there; only the endpoints' epoch of such a heartbeat is kept."""
    if configured.is_ready or configured.subtopologies:
        return
    member_id, members = request.member_id, group.latest.members
    before = _endpoint(group, member_id)
    endpoint = request.user_endpoint
    after = (
        before
        if endpoint is None and request.member_epoch != 0
        else endpoint and log.Endpoint(endpoint.host, endpoint.port)
    )
    others = any(member.user_endpoint is not None for other, member in members.items() if other != member_id)
    gives_up = bool(group.latest.current(member_id).assigned) and after is not None
    epoch = group.endpoint_epoch + (after != before or gives_up)
    if epoch != request.endpoint_information_epoch and (after is not None or others):
        if is_known:
            group.endpoint_epoch = epoch
            group.version += 1
        raise Refused(Err.UNKNOWN_SERVER_ERROR, None)


def _reported(request: Request) -> Reported:
    """The tasks that the member reports; None if the request has none of the lists."""
    lists = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    if any(listed is None for listed in lists):
        return None
    return [
        (TaskKey(role, task_ids.subtopology_id), task_ids.partitions)
        for role, tasks in zip(ROLES, lists, strict=True)
        for task_ids in tasks or ()
    ]


# what it says


def member_record(before: Member | None, client: Client, body: StreamsHeartbeat) -> Member:
    """The member's record after this heartbeat; ``before``: its record until now."""
    before, request = before or NEW, body.request
    endpoint, joins = request.user_endpoint, request.member_epoch == 0
    after = replace(
        before,
        instance_id=before.instance_id if request.instance_id is None else request.instance_id,
        rack_id=before.rack_id if request.rack_id is None else request.rack_id,
        client_id=client.client_id,
        client_host=client.client_host,
        rebalance_timeout_ms=(
            before.rebalance_timeout_ms if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms
        ),
        topology_epoch=before.topology_epoch if request.topology is None else request.topology.epoch,
        process_id=before.process_id if request.process_id is None else request.process_id,
        client_tags=before.client_tags if body.tags is None else body.tags,
    )
    if endpoint is not None or joins:
        after.user_endpoint = None if endpoint is None else log.Endpoint(endpoint.host, endpoint.port)
    return after


def expecting(
    before: Member | None, client: Client, body: StreamsHeartbeat
) -> Generator[None, None, Expected[Member] | None]:
    """`StreamsHeartbeat.expected` in pieces, for the step that writes the record, unless the member sends another one meanwhile."""
    if body.tags is None or len(body.tags) < _MANY_TAGS:
        return None
    return (yield from encoded_in_pieces(member_record(before, client, body)))


def _put_member(changes: Changes, client: Client, body: StreamsHeartbeat) -> None:
    """Add the member's record, if it has changed."""
    group, request, member_id = changes.group, body.request, body.request.member_id
    known: Member | None = group.latest.members.get(member_id)
    before, after = known or NEW, member_record(known, client, body)
    if known is None or after != known:
        is_moved = (before.topology_epoch, before.rack_id, before.client_tags, before.process_id) != (
            after.topology_epoch,
            after.rack_id,
            after.client_tags,
            after.process_id,
        )
        changes.subscription_changed = request.instance_id is None or is_moved
        encoded = None if body.expected is None else body.expected.bytes_of(after)
        changes.add(LAYOUT.member, member_key(group.group_id, member_id), after, encoded)


def _note_offsets(group: StreamsGroup, request: Request) -> None:
    """Store the changelog offsets that the member reports; the next assignment uses them."""
    offsets, end_offsets = request.task_offsets, request.task_end_offsets
    if offsets is None and end_offsets is None:
        return
    known = group.reported.get(request.member_id, ReportedOffsets())
    group.reported[request.member_id] = ReportedOffsets(
        known.offsets if offsets is None else _task_offsets(offsets),
        known.end_offsets if end_offsets is None else _task_offsets(end_offsets),
    )


def _task_offsets(listed: Iterable[TaskOffset]) -> TaskOffsets:
    return {(task_offset.subtopology_id, task_offset.partition): task_offset.offset for task_offset in listed}


def _endpoint(group: StreamsGroup, member_id: str) -> log.Endpoint | None:
    member = group.latest.members.get(member_id)
    return None if member is None else member.user_endpoint


def _count_endpoints(group: StreamsGroup, member_id: str, before: log.Endpoint | None, changed: bool) -> None:
    """The returned endpoints are other than before, where a member has another one, or other tasks."""
    after = _endpoint(group, member_id)
    if after != before or (changed and after is not None):
        group.endpoint_epoch += 1
        group.version += 1


# what it is answered


def _answer(
    shard: ShardState, group: StreamsGroup, request: Request, configured: Configured, *, whole: bool
) -> Response:
    member_id = request.member_id
    current = group.latest.current(member_id)
    by_role: dict[str, dict[str, list[int]]] = {role: {} for role in ROLES}
    for key, numbers in current.assigned.items():
        by_role[key.role][key.subtopology] = list(numbers)

    def tasks(role: str) -> list[TaskIds] | None:
        named = by_role[role]
        return [TaskIds(name, named[name]) for name in java_order(named)] if whole else None

    endpoints = None
    if group.endpoint_epoch != request.endpoint_information_epoch:
        endpoints = partitions_by_endpoint(group, member_id, configured, shard.topics)
    return Response(
        member_id=member_id,
        member_epoch=current.epoch,
        heartbeat_interval_ms=shard.streams_setting(group.group_id, "heartbeat_interval_ms"),
        task_offset_interval_ms=(
            shard.streams_setting(group.group_id, "task_offset_interval_ms")
            if shard.settings.policy.has_task_offsets
            else 0
        ),
        acceptable_recovery_lag=shard.streams_setting(group.group_id, "acceptable_recovery_lag"),
        active_tasks=tasks(ACTIVE),
        standby_tasks=tasks(STANDBY),
        warmup_tasks=tasks(WARMUP),
        endpoint_information_epoch=group.endpoint_epoch,
        partitions_by_user_endpoint=endpoints,
    )


def _stale(group: StreamsGroup, request: Request) -> Iterable[Status]:
    """The member's topology is older than the group's."""
    known, member = group.latest.topology, group.latest.members.get(request.member_id, NEW)
    epoch = member.topology_epoch if request.topology is None else request.topology.epoch
    if known is not None and epoch < known.epoch:
        words = f"The member's topology epoch {epoch} is behind the group's topology epoch {known.epoch}."
        yield Status(StatusCode.STALE_TOPOLOGY, words)


def _more_status(
    shard: ShardState, client: Client, group: StreamsGroup, member_id: str, configured: Configured
) -> Iterable[Status]:
    """Yield the statuses that explain why the application can't run, and those for its operator."""
    if configured.problem is not None:
        yield Status(*configured.problem)
    if group.shutdown_by is not None:
        words = (
            f"Streams group member {group.shutdown_by} encountered a fatal error and requested a shutdown for the entire "
            "application."
        )
        yield Status(StatusCode.SHUTDOWN_APPLICATION, words)
    wanted: tuple[str, ...] = shard.streams_setting(group.group_id, "rack_aware_tags")
    has = {tag.key for tag in group.latest.members[member_id].client_tags} if wanted else ()
    missing = [tag for tag in wanted if tag not in has]
    if missing and client.api_version >= _TAGS_SINCE:
        words = (
            f"Missing required client tags for rack-aware standby assignment: [{', '.join(missing)}]. Configure them via "
            "'client.tag.<tagKey>' in your Streams config."
        )
        yield Status(StatusCode.MISSING_CLIENT_TAGS, words)
