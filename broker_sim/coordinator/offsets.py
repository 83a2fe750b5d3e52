"""Committed offsets: the doCommitOffsets checks, deletion, expiry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from broker_sim.coordinator.classic.group import ClassicGroup
from broker_sim.coordinator.group import Group
from broker_sim.coordinator.outcome import (
    NOBODY,
    Append,
    Client,
    CommitOffsets,
    CommitsLogged,
    CommitTurn,
    DeleteGroup,
    DeleteOffsets,
    Layout,
    Offset,
    Producer,
    RepeatedCommit,
    StableFetch,
    TimerKey,
    TopicsChanged,
    TransactionEnded,
)
from broker_sim.coordinator.policy import Policy
from broker_sim.coordinator.records import OffsetRecord, Record
from broker_sim.coordinator.state import Held, ShardState, Write
from kafka_wire.errors import Err
from kafka_wire.record_batch import NO_SEQUENCE


class CommitWrite(Write):
    """An OffsetCommit's records; ``encoded``: as they go to the log, if that is known already."""

    __slots__ = ("encoded",)
    mergeable = True

    def __init__(
        self, token: int, records: list[Record], answer: Any, encoded: list[tuple[bytes, bytes | None]] | None
    ) -> None:
        super().__init__(token, records, answer)
        self.encoded = encoded

    def append(self, ticket: int, policy: Policy) -> Append:
        """What goes to the log."""
        encoded, self.encoded = self.encoded, None  # not kept while the log is waited for
        return super().append(ticket, policy) if encoded is None else Append(ticket, encoded, policy.shares_batches)


class CommitTurnWrite(Write):
    """Repeated commits of one turn: the same, without an object for each record. ``tokens`` are their requests'."""

    __slots__ = ("commits", "tokens")

    def __init__(self, tokens: Sequence[int], commits: Sequence[RepeatedCommit]) -> None:
        self.token, self.tokens, self.commits = tokens[0], tokens, commits
        self.last_offset = -1
        self.any_isr = False

    @property
    def records(self) -> list[Record]:  # type: ignore[override]
        """For those who look at what is on its way."""
        return [
            OffsetRecord(commit.layout.command.group_id, topic, partition, offset)
            for commit in self.commits
            for topic, partition, offset in commit.offsets()
        ]

    def append(self, ticket: int, policy: Policy) -> Append:
        """Its records are written where the batch is."""
        return Append(ticket, [], commits=self.commits)

    @property
    def count(self) -> int:
        """How many records the commits are."""
        return _records_of(self.commits)

    def done(self, shard: ShardState) -> None:
        """Publish the offsets."""
        _publish(shard, self.commits, self.last_offset)
        self._answer(shard, Err.NONE)

    def refuse(self, shard: ShardState, error: Err) -> None:
        """Nothing of it was written, or not in time."""
        self._answer(shard, shard.settings.policy.commit_errors.get(error, error))

    def _answer(self, shard: ShardState, error: Err) -> None:
        if self.token is not None:
            replies = shard.out.replies
            for token in self.tokens:
                replies.append((token, error))


def _records_of(commits: Iterable[RepeatedCommit]) -> int:
    return sum(len(commit.layout.partitions) for commit in commits)


def _publish(shard: ShardState, commits: Sequence[RepeatedCommit], last_offset: int) -> None:
    """Repeated commits are committed, the last of their records at ``last_offset``."""
    if not shard.store.transactions:
        for commit in commits:
            shard.store.replay_commit(commit)
        return
    at = last_offset + 1 - _records_of(commits)
    for commit in commits:
        shard.store.replay_commit(commit, at)
        at += len(commit.layout.partitions)


class TransactionalCommitWrite(CommitWrite):
    """A TxnOffsetCommit's records: in a batch of their own, which says whose transaction they are in. They wait for its end."""

    __slots__ = ("producer",)
    mergeable = False

    def __init__(
        self,
        token: int,
        records: list[Record],
        answer: Any,
        encoded: list[tuple[bytes, bytes | None]] | None,
        producer: Producer,
    ) -> None:
        super().__init__(token, records, answer, encoded)
        self.producer = producer

    def append(self, ticket: int, policy: Policy) -> Append:
        """What goes to the log."""
        append = super().append(ticket, policy)
        append.mergeable, append.base_sequence, append.producer = False, NO_SEQUENCE, self.producer
        return append

    def publish(self, shard: ShardState) -> None:
        """They are staged."""
        for at, record in enumerate(self.records, self.last_offset + 1 - self.count):
            shard.store.replay(record, at, self.producer.producer_id)


class EndTransactionWrite(Write):
    """The marker of a transaction, which its coordinator has appended: it takes its turn among the writes before and behind it."""

    __slots__ = ("committed", "producer_id")

    def __init__(self, producer_id: int, committed: bool, offset: int) -> None:
        super().__init__(None, [])
        self.producer_id, self.committed, self.last_offset = producer_id, committed, offset

    def publish(self, shard: ShardState) -> None:
        """What is staged counts, or is gone."""
        shard.store.end_transaction(self.producer_id, committed=self.committed)

    def failed(self, shard: ShardState, error: Err) -> None:
        """The log has it, whatever is said of its replicas."""
        if error is Err.NOT_ENOUGH_REPLICAS_AFTER_APPEND:
            self.publish(shard)


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
            shard.groups[request.group_id] = ClassicGroup(
                request.group_id, state_ts_ms=-1, visible_from=shard.last_written + 2
            )
        shard.answer(token, error)
        return
    group_id = request.group_id
    records: list[Record] = [OffsetRecord(group_id, topic, partition, o) for topic, partition, o in request.offsets]
    late = _late(shard, request)
    if late:
        records = [record for record in records if (record.topic, record.partition) not in late]  # type: ignore[union-attr]
        if not records:
            shard.answer(token, late)
            return
    if request.producer.producer_id != NOBODY.producer_id:
        encoded = None if late else request.encoded
        shard.write(TransactionalCommitWrite(token, records, late or Err.NONE, encoded, request.producer))
        return
    if shard.settings.policy.refused_commits_stay_pending:
        _stick(shard.groups[group_id], request)
    shard.write(CommitWrite(token, records, late or Err.NONE, None if late else request.encoded))


def _late(shard: ShardState, request: CommitOffsets) -> Mapping[tuple[str, int], Err]:
    """The partitions of a commit that passes for which its epoch is too old."""
    group = shard.groups.get(request.group_id)
    return {} if group is None else group.late_commits(request, shard.topics)


def _stick(group: Group, request: CommitOffsets) -> None:
    """GroupMetadataManager.storeOffsets takes down the refused partitions with the others, and nobody strikes them off."""
    for topic, partition, _ in request.offsets:
        group.stuck_commits.pop((topic, partition), None)
    group.stuck_commits.update(dict.fromkeys(request.too_long))


def commit_turn(shard: ShardState, token: int, client: Client, request: CommitTurn) -> None:
    """The same for the repeated commits of a turn. Nothing changes the groups in between, so one look at each layout is enough."""
    errors: dict[Layout, Err] = {}
    tokens: list[int] = []
    commits: list[RepeatedCommit] = []
    for each, repeated in enumerate(request.commits, token):
        layout = repeated.layout
        error = errors.get(layout)
        if error is None:
            error = errors[layout] = _refusal(shard, layout.command)
        if error is Err.NONE and _late(shard, layout.command):
            commit(shard, each, client, replace(layout.command, offsets=repeated.offsets(), encoded=None))
        elif error is Err.NONE:
            tokens.append(each)
            commits.append(repeated)
        else:
            shard.reply(each, error)
    if tokens:
        shard.write(CommitTurnWrite(tokens, commits))


def commits_logged(shard: ShardState, event: CommitsLogged) -> None:
    """The same where all is known: OffsetFetch shows them from here on."""
    shard.last_written = event.last_offset
    shard.high_watermark = max(event.high_watermark, shard.high_watermark)
    _publish(shard, event.commits, event.last_offset)


def transaction_ended(shard: ShardState, event: TransactionEnded) -> None:
    """A marker stands in the log: it counts behind all that was written before it."""
    shard.last_written = max(shard.last_written, event.offset)
    shard.writes[shard.next_ticket] = EndTransactionWrite(event.producer_id, event.committed, event.offset)
    shard.next_ticket += 1


def _refusal(shard: ShardState, request: CommitOffsets) -> Err:
    """The group's own checks. Where a commit passes (NONE), its member's session starts anew, but for one in a transaction."""
    group, policy = shard.groups.get(request.group_id), shard.settings.policy
    in_transaction = request.producer is not NOBODY
    if group is None:
        if policy.simple_group_exists_at_once and (request.generation < 0 or in_transaction):
            shard.groups[request.group_id] = ClassicGroup(request.group_id, state_ts_ms=-1)
        if request.generation < 0:
            return Err.NONE
        if in_transaction:
            return policy.absent_group_commit_in_transaction
        return policy.absent_group_commit_v9 if request.epoch_errors else Err.ILLEGAL_GENERATION
    error = group.validate_commit(request)
    if in_transaction:
        return error
    session = group.session_of(request.member_id) if error is Err.NONE else None
    if session is not None:
        shard.arm(*session)
    return error


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
    if group is None or group.is_dead:
        shard.reply(token, (Err.GROUP_ID_NOT_FOUND, results))
        return
    if not group.is_empty and not group.reads_topics:
        shard.reply(token, (Err.NON_EMPTY_GROUP, results))
        return
    records: list[Record] = []
    committed, more_coming = group.offsets, group.has_more_coming
    for topic, partition in request.partitions:
        if not group.is_empty and group.subscribed(topic):
            results[topic, partition] = Err.GROUP_SUBSCRIBED_TO_TOPIC
            continue
        results[topic, partition] = Err.NONE
        staged = more_coming and _forget_coming(shard, group, topic, partition)
        if staged or partition in committed.get(topic, ()):
            records.append(OffsetRecord(group.group_id, topic, partition, None))
    if Err.NONE in results.values():
        records += _end_of_emptied(shard, group, len(records))
    _bury(shard, DeleteOffsetsWrite(token, records, (Err.NONE, results)))


def delete_group(shard: ShardState, token: int, client: Client, request: DeleteGroup) -> None:
    """DeleteGroups for one group: only an empty one goes, with all its offsets."""
    group = shard.groups.get(request.group_id)
    if shard.settings.policy.deletion_begins_when_committed and shard.behind_writes:
        shard.hold(HeldDeletion(token, client, request))
    elif group is None or group.is_dead:
        shard.reply(token, Err.GROUP_ID_NOT_FOUND)
    elif not group.is_empty:
        shard.reply(token, Err.NON_EMPTY_GROUP)
    else:
        records = _offset_tombstones(group, staged_too=shard.settings.policy.tombstones_end_staged)
        shard.remove_group(group)
        _bury(shard, TombstonesWrite(token, records + group.tombstones(shard.settings.policy), [group]))


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
        coming_for = dict.fromkeys(key for key in (*group.staged, *group.stuck_commits) if key[0] in deleted)
        staged = [key for key in coming_for if _forget_coming(shard, group, *key)]
        keys = dict.fromkeys([*((topic, p) for topic in deleted for p in group.offsets.get(topic, ())), *staged])
        gone: list[Record] = [OffsetRecord(group.group_id, topic, p, None) for topic, p in keys]
        records += [*gone, *_end_of_emptied(shard, group, len(gone))]
    if records:
        _bury(shard, Write(None, records))


def _forget_coming(shard: ShardState, group: Group, topic: str, partition: int) -> bool:
    """What is on its way to a partition's offset comes no more; whether it takes a tombstone to say so."""
    group.stuck_commits.pop((topic, partition), None)
    if shard.settings.policy.tombstones_end_staged:
        return (topic, partition) in group.staged
    shard.store.forget_staged(group, topic, partition)
    return False


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
    if not shard.settings.policy.clean_up_removes_group or not group.is_empty or _count(group) > removed:
        return []
    if group.has_more_coming or group.group_id in _in_flight(shard):
        return []  # more is on its way
    tombstone = group.tombstones(shard.settings.policy)
    shard.remove_group(group)
    return tombstone


def _in_flight(shard: ShardState) -> set[str]:
    return {r.group_id for write in shard.writes.values() for r in write.records}


def _count(group: Group) -> int:
    return sum(len(partitions) for partitions in group.offsets.values())


def _offset_tombstones(group: Group, *, staged_too: bool) -> list[Record]:
    keys = [(topic, partition) for topic, partitions in group.offsets.items() for partition in partitions]
    if staged_too and group.staged:
        keys = list(dict.fromkeys([*keys, *group.staged]))
    return [OffsetRecord(group.group_id, topic, partition, None) for topic, partition in keys]


# expiry


def arm_expiry(shard: ShardState) -> None:
    """The next clean-up of this shard."""
    interval_ms, started_ms = shard.settings.offsets_retention_check_interval_ms, shard.settings.started_ms
    since_ms = 0
    if started_ms is not None and shard.settings.policy.clean_up_counts_from_start:
        since_ms = (shard.now_ms - started_ms) % interval_ms
    shard.arm(("expire",), interval_ms - since_ms)


def expire(shard: ShardState, key: TimerKey) -> None:
    """Offsets past their retention get tombstones; empty groups without offsets go (GroupMetadataManager.cleanupGroupMetadata)."""
    records: list[Record] = []
    ended: list[Group] = []
    keeps_staged = shard.settings.policy.tombstones_end_staged
    in_flight = _in_flight(shard)
    for group in list(shard.groups.values()):
        if group.group_id in in_flight:
            continue  # a write is on its way: the next round sees what came of it
        expired: list[Record] = [
            OffsetRecord(group.group_id, topic, partition, None)
            for topic, partitions in group.offsets.items()
            for partition, offset in partitions.items()
            if (topic, partition) not in group.stuck_commits
            and not (keeps_staged and (topic, partition) in group.staged)
            and _is_expired(shard, group, topic, offset)
        ]
        records += expired
        if group.is_empty and _count(group) == len(expired) and not group.has_more_coming and not group.never_expires:
            records += group.tombstones(shard.settings.policy)
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
    since = group.retention_begins_ms(topic, offset)
    if since is None:
        return False
    if offset.expire_ts_ms != -1:
        return shard.now_ms >= offset.expire_ts_ms
    return shard.now_ms - since >= shard.settings.offsets_retention_ms
