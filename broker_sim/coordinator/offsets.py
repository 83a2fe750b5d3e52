"""Committed offsets: the doCommitOffsets checks, deletion, expiry."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from broker_sim.coordinator import rebalance
from broker_sim.coordinator.blocks import CommitBlocks, CommitShape
from broker_sim.coordinator.group import COMMIT_ANSWER, Group, State
from broker_sim.coordinator.outcome import (
    Append,
    Client,
    CommitOffsets,
    DeleteGroup,
    DeleteOffsets,
    Offset,
    StableFetch,
    TimerKey,
    TopicsChanged,
)
from broker_sim.coordinator.policy import Policy
from broker_sim.coordinator.records import GroupRecord, OffsetRecord, Record
from broker_sim.coordinator.state import Held, ShardState, Write
from kafka_wire.errors import Err


class CommitWrite(Write):
    """An OffsetCommit's records."""

    __slots__ = ()
    mergeable = True


class BlocksWrite(Write):
    """The commits of a turn that repeat their layouts: the same, without an object for each record. ``tokens`` are their requests'."""

    __slots__ = ("blocks", "tokens")

    def __init__(self, tokens: Sequence[int], blocks: CommitBlocks) -> None:
        self.token, self.tokens, self.blocks = tokens[0], tokens, blocks
        self.last_offset = -1
        self.any_isr = False

    @property
    def records(self) -> list[Record]:  # type: ignore[override]
        """For those who look at what is on its way."""
        return [
            OffsetRecord(shape.command.group_id, topic, partition, offset)
            for shape, chunks, *_ in self.blocks.commits
            for topic, partition, offset in shape.offsets(chunks, self.blocks.commit_ts_ms)
        ]

    def append(self, ticket: int, policy: Policy) -> Append:
        """Its records are built where the batch is."""
        return Append(ticket, [], blocks=self.blocks)

    def done(self, shard: ShardState) -> None:
        """Publish the offsets."""
        for shape, chunks, *_ in self.blocks.commits:
            shard.store.replay_commit(shape, chunks, self.blocks.commit_ts_ms)
        self._answer(shard, Err.NONE)

    def refuse(self, shard: ShardState, error: Err) -> None:
        """Nothing of it was written, or not in time."""
        self._answer(shard, shard.settings.policy.commit_errors.get(error, error))

    def _answer(self, shard: ShardState, error: Err) -> None:
        if self.token is not None:
            replies = shard.out.replies
            for token in self.tokens:
                replies.append((token, error))


class DeleteOffsetsWrite(Write):
    """OffsetDelete's tombstones; the answer carries an error per partition."""

    __slots__ = ()

    def failure(self, error: Err) -> tuple[Err, dict[tuple[str, int], Err]]:
        return error, {}


def commit(shard: ShardState, token: int, client: Client, request: CommitOffsets) -> None:
    """OffsetCommit behind the checks of topics: the group's own checks in Kafka's order, then the append."""
    error = _refusal(shard, request)
    if error is not Err.NONE:
        shard.reply(token, error)
        return
    if (
        not request.offsets
    ):  # all of it was refused for its metadata; yet it makes the group, which is seen with the next write
        if request.group_id not in shard.groups:
            shard.groups[request.group_id] = Group(
                request.group_id, state_ts_ms=-1, visible_from=shard.last_written + 2
            )
        shard.answer(token, error)
        return
    group_id = request.group_id
    records: list[Record] = [OffsetRecord(group_id, topic, partition, o) for topic, partition, o in request.offsets]
    if shard.settings.policy.refused_commits_stay_pending:
        _stick(shard.groups[group_id], request)
    shard.write(CommitWrite(token, records))


def _stick(group: Group, request: CommitOffsets) -> None:
    """GroupMetadataManager.storeOffsets takes down the refused partitions with the others, and nobody strikes them off."""
    for topic, partition, _ in request.offsets:
        group.stuck_commits.pop((topic, partition), None)
    group.stuck_commits.update(dict.fromkeys(request.too_long))


def commit_blocks(shard: ShardState, token: int, client: Client, request: CommitBlocks) -> None:
    """The same for the commits of a turn. Nothing changes the groups in between, so one look at each shape is enough."""
    if len(request.commits) == 1:
        refusal = _block_refusal(shard, request.commits[0][0])
        if refusal is Err.NONE:
            shard.write(BlocksWrite((token,), request))
        else:
            shard.reply(token, refusal)
        return
    errors = {shape: _block_refusal(shard, shape) for shape in dict.fromkeys(one[0] for one in request.commits)}
    tokens: Sequence[int] = range(token, token + len(request.commits))
    if any(error is not Err.NONE for error in errors.values()):
        refusals = [errors[one[0]] for one in request.commits]
        for each, error in zip(tokens, refusals, strict=True):
            if error is not Err.NONE:
                shard.reply(each, error)
        tokens = [each for each, error in zip(tokens, refusals, strict=True) if error is Err.NONE]
        request = CommitBlocks(
            [one for one, error in zip(request.commits, refusals, strict=True) if error is Err.NONE],
            request.commit_ts_ms,
        )
    if tokens:
        shard.write(BlocksWrite(tokens, request))


def _block_refusal(shard: ShardState, shape: CommitShape) -> Err:
    """As ``_refusal``. What has passed passes again as long as the group, its state and generation and the member are the same."""
    command, passed = shape.command, shape.passed
    if passed is not None:
        group, state, generation, member, session = passed
        if (
            group.state is state
            and group.generation == generation
            and shard.groups.get(command.group_id) is group
            and group.members.get(command.member_id) is member
        ):
            shard.out.timers.append((session, shard.now_ms + member.session_timeout_ms))
            return Err.NONE
        shape.passed = None
    error = _refusal(shard, command)
    known = shard.groups.get(command.group_id)
    joined = None if known is None else known.members.get(command.member_id)
    if error is Err.NONE and known is not None and joined is not None and command.instance_id is None:
        shape.passed = known, known.state, known.generation, joined, rebalance.session_key(known, joined)
    return error


def _refusal(shard: ShardState, request: CommitOffsets) -> Err:
    """The group's own checks. Where a commit passes (NONE), its member's session starts anew."""
    group = shard.groups.get(request.group_id)
    if group is None:
        if request.generation >= 0:
            return shard.settings.policy.absent_group_commit_v9 if request.epoch_errors else Err.ILLEGAL_GENERATION
        if shard.settings.policy.simple_group_exists_at_once:
            shard.groups[request.group_id] = Group(request.group_id, state_ts_ms=-1)
        return Err.NONE
    error = _commit_error(group, request)
    if error is Err.NONE:
        member = group.members.get(request.member_id)
        if member is not None:
            rebalance.restart_session(shard, group, member)
    return error


def _commit_error(group: Group, request: CommitOffsets) -> Err:
    """doCommitOffsets: who may commit into this group now."""
    if group.state is State.DEAD:
        return Err.COORDINATOR_NOT_AVAILABLE
    if request.generation < 0 and group.state is State.EMPTY:
        return Err.NONE  # assign mode, or an admin: the member id is not looked at
    if request.generation >= 0 or request.member_id or request.instance_id is not None:
        error = group.check_member(request.member_id, request.instance_id)
        if error is not Err.NONE:
            return error
        if request.generation != group.generation:
            return Err.ILLEGAL_GENERATION
    else:
        return Err.UNKNOWN_MEMBER_ID  # assign mode on a group that has members
    return COMMIT_ANSWER[group.state]


def unstable(shard: ShardState, group_id: str) -> set[tuple[str, int]]:
    """The partitions whose commits are still on their way into the log (OffsetFetch with require_stable)."""
    if not shard.writes:
        return set()
    return {
        (r.topic, r.partition)
        for write in shard.writes.values()
        if write.token is not None
        for r in write.records
        if isinstance(r, OffsetRecord) and r.group_id == group_id and r.value is not None
    }


def coming(shard: ShardState, group_id: str) -> set[tuple[str, int]]:
    """The partitions that a transaction without an end has committed (OffsetFetch with require_stable), and those of refused
    commits that count as being on their way."""
    group = shard.groups.get(group_id)
    return set() if group is None else {*group.staged, *group.stuck_commits}


def transactions_aborted(shard: ShardState, key: TimerKey) -> None:
    """Nobody has ended the transactions that were open in the log: their coordinator does, and nothing of them shows."""
    shard.store.abort_transactions()


def delete_offsets(shard: ShardState, token: int, client: Client, request: DeleteOffsets) -> None:
    """OffsetDelete: tombstones for what no member reads."""
    group = shard.groups.get(request.group_id)
    results: dict[tuple[str, int], Err] = {}
    if group is None or group.state is State.DEAD:
        shard.reply(token, (Err.GROUP_ID_NOT_FOUND, results))
        return
    if group.state is not State.EMPTY and group.protocol_type != "consumer":
        shard.reply(token, (Err.NON_EMPTY_GROUP, results))
        return
    records: list[Record] = []
    committed, more_coming = group.offsets, group.has_more_coming
    for topic, partition in request.partitions:
        if group.state is not State.EMPTY and group.subscribed(topic):
            results[topic, partition] = Err.GROUP_SUBSCRIBED_TO_TOPIC
            continue
        results[topic, partition] = Err.NONE
        if more_coming:
            group.forget_coming(topic, partition)
        if partition in committed.get(topic, ()):
            records.append(OffsetRecord(group.group_id, topic, partition, None))
    if Err.NONE in results.values():
        records += _end_of_emptied(shard, group, len(records))
    _bury(shard, DeleteOffsetsWrite(token, records, (Err.NONE, results)))


def delete_group(shard: ShardState, token: int, client: Client, request: DeleteGroup) -> None:
    """DeleteGroups for one group: only an empty one goes, with all its offsets."""
    group = shard.groups.get(request.group_id)
    if shard.settings.policy.deletion_begins_when_committed and shard.behind_writes:
        shard.hold(HeldDeletion(token, client, request))
    elif group is None or group.state is State.DEAD:
        shard.reply(token, Err.GROUP_ID_NOT_FOUND)
    elif group.state is not State.EMPTY:
        shard.reply(token, Err.NON_EMPTY_GROUP)
    else:
        records = _offset_tombstones(group)
        shard.remove_group(group)
        _bury(shard, TombstonesWrite(token, records + _group_tombstone(shard, group), [group]))


class TombstonesWrite(Write):
    """What ends offsets, and groups with them. Where the log refuses it, and isn't merely late, a coordinator that waits for it has the
    groups back."""

    __slots__ = ("buried",)

    def __init__(self, token: int | None, records: list[Record], buried: Iterable[Group]) -> None:
        super().__init__(token, records)
        self.buried = buried

    def revert(self, shard: ShardState) -> None:
        """The groups are there again."""
        if shard.settings.policy.tombstones_are_awaited:
            for group in self.buried:
                shard.store.dig_up(group)


class HeldDeletion(Held):
    """A DeleteGroups that has not begun."""

    __slots__ = ("client", "request")

    def __init__(self, token: int, client: Client, request: DeleteGroup) -> None:
        super().__init__(token, None)
        self.client, self.request = client, request

    def done(self, shard: ShardState) -> None:
        """Begin."""
        assert self.token is not None
        delete_group(shard, self.token, self.client, self.request)


def stable_fetch(shard: ShardState, token: int, client: Client, request: StableFetch) -> None:
    """OffsetFetch with require_stable: behind what is on its way."""
    errors = shard.settings.policy.stable_fetch_errors
    if shard.behind_writes:
        shard.hold(HeldFetch(token, Err.NONE, lambda error: errors.get(error, error)))
    else:
        shard.reply(token, Err.NONE)


class HeldFetch(Held):
    """A require_stable OffsetFetch; its errors are not those of commits."""

    __slots__ = ()

    def refuse(self, shard: ShardState, error: Err) -> None:
        """Its own errors."""
        shard.reply(self.token, self.failure(error))


def topics_changed(shard: ShardState, event: TopicsChanged) -> None:
    """Offsets of a deleted topic go at once, in all groups; with them groups that have none, this topic's or another's, where losing
    them ends a group."""
    deleted = [topic for topic, partitions in event.topics.items() if partitions is None]
    records: list[Record] = []
    for group in list(shard.groups.values()) if deleted else ():
        for topic, partition in [key for key in (*group.staged, *group.stuck_commits) if key[0] in deleted]:
            group.forget_coming(topic, partition)
        gone: list[Record] = [
            OffsetRecord(group.group_id, topic, p, None) for topic in deleted for p in group.offsets.get(topic, ())
        ]
        records += [*gone, *_end_of_emptied(shard, group, len(gone))]
    if records:
        _bury(shard, Write(None, records))


def _bury(shard: ShardState, write: Write) -> None:
    """Append tombstones; without any, or where Kafka doesn't wait for them, the answer goes out now."""
    if write.records and shard.settings.policy.tombstones_are_awaited:
        shard.write(write)
        return
    if write.records:
        shard.reply(write.token, write.answer)
        write.token = None
        _forget_at_once(shard, write)
    elif write.token is not None:
        shard.answer(write.token, write.answer, write.failure)


def _forget_at_once(shard: ShardState, write: Write) -> None:
    """Tombstones that nobody waits for: what they remove is out of memory before they are appended, whatever becomes of them
    (GroupMetadataManager.cleanupGroupMetadata)."""
    write.publish(shard)
    write.any_isr = True
    shard.write(write)


def _end_of_emptied(shard: ShardState, group: Group, removed: int) -> list[Record]:
    """What ends a group that is empty and is left without offsets when it loses ``removed`` of them, if it has any; where that ends
    it at once."""
    if not shard.settings.policy.clean_up_removes_group or group.state is not State.EMPTY or _count(group) > removed:
        return []
    if group.has_more_coming or group.group_id in _in_flight(shard):
        return []  # more is on its way
    tombstone = _group_tombstone(shard, group)
    shard.remove_group(group)
    return tombstone


def _group_tombstone(shard: ShardState, group: Group) -> list[Record]:
    """A group that never was through a generation has no record in Kafka 3.x."""
    if group.generation == 0 and shard.settings.policy.empty_group_tombstone_needs_generation:
        return []
    return [GroupRecord(group.group_id, None)]


def _in_flight(shard: ShardState) -> set[str]:
    return {r.group_id for write in shard.writes.values() for r in write.records}


def _count(group: Group) -> int:
    return sum(len(partitions) for partitions in group.offsets.values())


def _offset_tombstones(group: Group) -> list[Record]:
    return [
        OffsetRecord(group.group_id, topic, partition, None)
        for topic, partitions in group.offsets.items()
        for partition in partitions
    ]


# expiry


def arm_expiry(shard: ShardState) -> None:
    """The next clean-up of this shard."""
    shard.arm(("expire",), shard.settings.offsets_retention_check_interval_ms)


def expire(shard: ShardState, key: TimerKey) -> None:
    """Offsets past their retention get tombstones; empty groups without offsets go (GroupMetadataManager.cleanupGroupMetadata)."""
    records: list[Record] = []
    ended: list[Group] = []
    in_flight = _in_flight(shard)
    for group in list(shard.groups.values()):
        if group.group_id in in_flight:
            continue  # a write is on its way: the next round sees what came of it
        expired: list[Record] = [
            OffsetRecord(group.group_id, topic, partition, None)
            for topic, partitions in group.offsets.items()
            for partition, offset in partitions.items()
            if (topic, partition) not in group.stuck_commits and _is_expired(shard, group, topic, offset)
        ]
        records += expired
        if group.state is State.EMPTY and _count(group) == len(expired) and not group.has_more_coming:
            records += _group_tombstone(shard, group)
            shard.remove_group(group)
            ended.append(group)
    if records:
        write = TombstonesWrite(None, records, ended)
        if shard.settings.policy.tombstones_are_awaited:
            shard.write(write)
        else:
            _forget_at_once(shard, write)
    arm_expiry(shard)


def _is_expired(shard: ShardState, group: Group, topic: str, offset: Offset) -> bool:
    now, retention = shard.now_ms, shard.settings.offsets_retention_ms
    if group.protocol_type is None or group.protocol_type == "":
        since = offset.commit_ts_ms  # a simple group
    elif group.state is State.EMPTY:
        since = group.state_ts_ms if group.state_ts_ms >= 0 else offset.commit_ts_ms
    elif group.protocol_type == "consumer" and group.state is State.STABLE and not group.subscribed(topic):
        since = offset.commit_ts_ms
    else:
        return False
    if offset.expire_ts_ms >= 0:
        return now >= offset.expire_ts_ms
    return now - since >= retention
