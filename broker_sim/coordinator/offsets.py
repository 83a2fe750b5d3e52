"""Committed offsets: the doCommitOffsets checks, deletion, expiry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from broker_sim.coordinator.classic.group import ClassicGroup
from broker_sim.coordinator.group import Group
from broker_sim.coordinator.outcome import (
    NO_PRODUCER,
    Append,
    BatchProducer,
    Client,
    CommitBatch,
    CommitOffsets,
    CommitsLogged,
    DeleteGroup,
    DeleteOffsets,
    Offset,
    RepeatedCommit,
    RepeatedLayout,
    StableFetch,
    TimerKey,
    TopicsChanged,
    TransactionEnded,
)
from broker_sim.coordinator.policy import Policy
from broker_sim.coordinator.records import OffsetRecord, Record
from broker_sim.coordinator.state import DeferredReply, ShardState, Write
from kafka_wire.errors import NO_ERROR, Err


class CommitWrite(Write):
    """An OffsetCommit's records; ``encoded``: keys and values as bytes, if they are encoded already."""

    __slots__ = ("encoded",)
    mergeable = True

    def __init__(
        self, token: int, records: list[Record], answer: Any, encoded: list[tuple[bytes, bytes | None]] | None
    ) -> None:
        super().__init__(token, records, answer)
        self.encoded = encoded

    def append(self, ticket: int, policy: Policy) -> Append:
        """The append that writes the records, with the encoded keys and values if there are any."""
        encoded, self.encoded = self.encoded, None  # not kept while the log is waited for
        return super().append(ticket, policy) if encoded is None else Append(ticket, encoded, policy.shares_batches)


class CommitBatchWrite(Write):
    """The records of a `CommitBatch`, without an object for each record. ``tokens`` are those of its requests."""

    __slots__ = ("commits", "tokens")

    def __init__(self, tokens: Sequence[int], commits: Sequence[RepeatedCommit]) -> None:
        self.token, self.tokens, self.commits = tokens[0], tokens, commits
        self.last_offset = -1
        self.any_isr = False

    @property
    def records(self) -> list[Record]:  # type: ignore[override]
        """The records as objects, for code that inspects pending writes."""
        return [
            OffsetRecord(commit.layout.command.group_id, topic, partition, offset)
            for commit in self.commits
            for topic, partition, offset in commit.offsets()
        ]

    def append(self, ticket: int, policy: Policy) -> Append:
        """The append that writes the commits, whose records are encoded with the batch."""
        return Append(ticket, [], commits=self.commits)

    @property
    def count(self) -> int:
        """Number of records of the commits."""
        return _records_of(self.commits)

    def done(self, shard: ShardState) -> None:
        """Publish the committed offsets and answer the requests."""
        _publish(shard, self.commits, self.last_offset)
        self._answer(shard, NO_ERROR)

    def failed(self, shard: ShardState, error: Err) -> None:
        """Answer the requests with the error: the records were not appended, or not committed in time."""
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
    """A TxnOffsetCommit's records, in a batch of their own with the producer's id, and 0 as its base sequence each time. They stay
    pending until its transaction ends. Source: CoordinatorRuntime.maybeAllocateNewBatch, GroupMetadataManager.storeOffsets."""

    __slots__ = ("producer",)
    mergeable = False

    def __init__(
        self,
        token: int,
        records: list[Record],
        answer: Any,
        encoded: list[tuple[bytes, bytes | None]] | None,
        producer: BatchProducer,
    ) -> None:
        super().__init__(token, records, answer, encoded)
        self.producer = producer

    def append(self, ticket: int, policy: Policy) -> Append:
        """The append that writes the records, in a batch of their own with the transactional producer's id."""
        append = super().append(ticket, policy)
        append.mergeable, append.base_sequence, append.producer = False, 0, self.producer
        return append

    def publish(self, shard: ShardState) -> None:
        """Add them to the group's pending transactional offsets."""
        for at, record in enumerate(self.records, self.last_offset + 1 - self.count):
            shard.store.replay(record, at, self.producer.producer_id)


class EndTransactionWrite(Write):
    """The marker of a transaction, which its coordinator has appended; it is applied in the order of the shard's writes."""

    __slots__ = ("committed", "producer_id")

    def __init__(self, producer_id: int, committed: bool, offset: int) -> None:
        super().__init__(None, [])
        self.producer_id, self.committed, self.last_offset = producer_id, committed, offset

    def publish(self, shard: ShardState) -> None:
        """Commit or drop the producer's pending offsets."""
        shard.store.end_transaction(self.producer_id, committed=self.committed)

    def counts_in_log(self, shard: ShardState) -> bool:
        return True


class DeleteOffsetsWrite(Write):
    """OffsetDelete's tombstones; the answer carries an error per partition."""

    __slots__ = ()

    def failure(self, error: Err) -> tuple[Err, dict[tuple[str, int], Err]]:
        return error, {}


def commit(shard: ShardState, token: int, client: Client, request: CommitOffsets) -> None:
    """OffsetCommit after the checks of topics: the group's checks in Kafka's order, then the append."""
    error = _refusal(shard, request)
    if error is not NO_ERROR:
        shard.reply(token, error)
        return
    if (
        not request.offsets
    ):  # all of it was refused for its metadata; yet it makes the group, which is seen with the next write
        if request.group_id not in shard.groups:
            shard.groups[request.group_id] = ClassicGroup(
                request.group_id, state_ts_ms=-1, visible_at_high_watermark=shard.next_high_watermark
            )
        shard.answer(token, error)
        return
    group_id = request.group_id
    records: list[Record] = [OffsetRecord(group_id, topic, partition, o) for topic, partition, o in request.offsets]
    late = _stale_partitions(shard, request)
    if late:
        records = [record for record in records if (record.topic, record.partition) not in late]  # type: ignore[union-attr]
        if not records:
            shard.answer(token, late)
            return
    if request.producer.producer_id != NO_PRODUCER.producer_id:
        encoded = None if late else request.encoded
        shard.write(TransactionalCommitWrite(token, records, late or NO_ERROR, encoded, request.producer))
        return
    if shard.settings.policy.refused_commits_stay_pending:
        _add_never_settled(shard.groups[group_id], request)
    shard.write(CommitWrite(token, records, late or NO_ERROR, None if late else request.encoded))


def _stale_partitions(shard: ShardState, request: CommitOffsets) -> Mapping[tuple[str, int], Err]:
    """The partitions of a valid commit whose epoch is too old for them, with their error."""
    group = shard.groups.get(request.group_id)
    return {} if group is None else group.stale_partitions(request, shard.topics)


def _add_never_settled(group: Group, request: CommitOffsets) -> None:
    """GroupMetadataManager.storeOffsets adds the refused partitions to the pending commits too, and never removes them."""
    for topic, partition, _ in request.offsets:
        group.never_settled_commits.pop((topic, partition), None)
    group.never_settled_commits.update(dict.fromkeys(request.too_long))


def commit_batch(shard: ShardState, token: int, client: Client, request: CommitBatch) -> None:
    """As :func:`commit` for a batch of repeated commits. No event comes between them, so each layout is checked once."""
    errors: dict[RepeatedLayout, Err] = {}
    tokens: list[int] = []
    commits: list[RepeatedCommit] = []
    for request_token, repeated in enumerate(request.commits, token):
        layout = repeated.layout
        error = errors.get(layout)
        if error is None:
            error = errors[layout] = _refusal(shard, layout.command)
        if error is NO_ERROR and _stale_partitions(shard, layout.command):
            commit(shard, request_token, client, replace(layout.command, offsets=repeated.offsets(), encoded=None))
        elif error is NO_ERROR:
            tokens.append(request_token)
            commits.append(repeated)
        else:
            shard.reply(request_token, error)
    if tokens:
        shard.write(CommitBatchWrite(tokens, commits))


def commits_logged(shard: ShardState, event: CommitsLogged) -> None:
    """Publish repeated commits that the runtime has checked and that are committed already."""
    shard.last_written = event.last_offset
    shard.high_watermark = max(event.high_watermark, shard.high_watermark)
    _publish(shard, event.commits, event.last_offset)


def transaction_ended(shard: ShardState, event: TransactionEnded) -> None:
    """A marker was appended: it is applied after all earlier writes."""
    shard.last_written = max(shard.last_written, event.offset)
    shard.writes[shard.ticket()] = EndTransactionWrite(event.producer_id, event.committed, event.offset)


def _refusal(shard: ShardState, request: CommitOffsets) -> Err:
    """The error of the group's checks. A valid commit (NONE) restarts its member's session, unless it is in a transaction."""
    group, policy = shard.groups.get(request.group_id), shard.settings.policy
    in_transaction = request.producer is not NO_PRODUCER
    if group is None:
        if policy.simple_group_exists_at_once and (request.generation < 0 or in_transaction):
            shard.groups[request.group_id] = ClassicGroup(request.group_id, state_ts_ms=-1)
        if request.generation < 0:
            return NO_ERROR
        if in_transaction:
            return Err.GROUP_ID_NOT_FOUND if request.epoch_errors else policy.absent_group_commit_in_transaction
        return policy.absent_group_commit_v9 if request.epoch_errors else Err.ILLEGAL_GENERATION
    error = group.validate_commit(request)
    if in_transaction:
        return error
    session = group.session_of(request.member_id) if error is NO_ERROR else None
    if session is not None:
        shard.arm(*session)
    return error


def uncommitted_offsets(shard: ShardState, group_id: str) -> set[tuple[str, int]]:
    """The partitions whose commits are appended but not committed yet (OffsetFetch with require_stable)."""
    if not shard.writes:
        return set()
    return {
        (r.topic, r.partition)
        for write in shard.writes.values()
        if write.token is not None
        for r in write.records
        if isinstance(r, OffsetRecord) and r.group_id == group_id and r.value is not None
    }


def unstable_offsets(shard: ShardState, group_id: str) -> set[tuple[str, int]]:
    """The partitions with offsets in open transactions, and those of refused commits that stay pending (OffsetFetch with
    require_stable)."""
    group = shard.groups.get(group_id)
    return set() if group is None else {*group.pending_txn_offsets, *group.never_settled_commits}


def transactions_aborted(shard: ShardState, key: TimerKey) -> None:
    """Abort the transactions that were open in the loaded log and that no coordinator has ended."""
    shard.store.abort_transactions()


def delete_offsets(shard: ShardState, token: int, client: Client, request: DeleteOffsets) -> None:
    """OffsetDelete: tombstones for partitions of topics that no member subscribes to."""
    group = shard.groups.get(request.group_id)
    results: dict[tuple[str, int], Err] = {}
    if group is None or group.is_dead:
        shard.reply(token, (Err.GROUP_ID_NOT_FOUND, results))
        return
    if not group.is_empty and not group.reads_topics:
        shard.reply(token, (Err.NON_EMPTY_GROUP, results))
        return
    records: list[Record] = []
    committed, has_pending = group.offsets, group.has_pending_offsets
    for topic, partition in request.partitions:
        if not group.is_empty and group.subscribed(topic):
            results[topic, partition] = Err.GROUP_SUBSCRIBED_TO_TOPIC
            continue
        results[topic, partition] = NO_ERROR
        needs_tombstone = has_pending and _discard_pending(shard, group, topic, partition)
        if needs_tombstone or partition in committed.get(topic, ()):
            records.append(OffsetRecord(group.group_id, topic, partition, None))
    if NO_ERROR in results.values():
        records += _tombstones_of_emptied(shard, group, len(records))
    _append_tombstones(shard, DeleteOffsetsWrite(token, records, (NO_ERROR, results)))


def delete_group(shard: ShardState, token: int, client: Client, request: DeleteGroup) -> None:
    """DeleteGroups for one group: deletes an empty group with all its offsets."""
    group = shard.groups.get(request.group_id)
    if shard.settings.policy.deletion_begins_when_committed and shard.answers_wait:
        shard.defer(DeferredDeletion(token, client, request))
    elif group is None or group.is_dead:
        shard.reply(token, Err.GROUP_ID_NOT_FOUND)
    elif not group.is_empty:
        shard.reply(token, Err.NON_EMPTY_GROUP)
    else:
        records = _offset_tombstones(group, with_pending=shard.settings.policy.tombstones_end_pending_txn_offsets)
        shard.remove_group(group)
        _append_tombstones(shard, TombstonesWrite(token, records + group.tombstones(shard.settings.policy), [group]))


class TombstonesWrite(Write):
    """Tombstones of offsets and groups. If the append fails, except by a timeout, a coordinator that waits for it restores the
    groups."""

    __slots__ = ("groups",)

    def __init__(self, token: int | None, records: list[Record], groups: Iterable[Group]) -> None:
        super().__init__(token, records)
        self.groups = groups

    def revert(self, shard: ShardState) -> None:
        """Restore the groups, if the coordinator waited for the tombstones."""
        if shard.settings.policy.tombstones_are_awaited:
            for group in self.groups:
                shard.store.revert(group, None)


class DeferredDeletion(DeferredReply):
    """A deferred DeleteGroups: it begins when the writes before it are committed."""

    __slots__ = ("client", "request")

    def __init__(self, token: int, client: Client, request: DeleteGroup) -> None:
        super().__init__(token, None)
        self.client, self.request = client, request

    def done(self, shard: ShardState) -> None:
        """Begin the deletion; the writes before it are committed."""
        assert self.token is not None
        delete_group(shard, self.token, self.client, self.request)


def stable_fetch(shard: ShardState, token: int, client: Client, request: StableFetch) -> None:
    """OffsetFetch with require_stable: answered after the pending writes."""
    errors = shard.settings.policy.stable_fetch_errors
    if shard.answers_wait:
        shard.defer(DeferredFetch(token, NO_ERROR, lambda error: errors.get(error, error)))
    else:
        shard.reply(token, NO_ERROR)


class DeferredFetch(DeferredReply):
    """A deferred OffsetFetch with require_stable; its errors are not those of commits."""

    __slots__ = ()

    def failed(self, shard: ShardState, error: Err) -> None:
        """Answer with the error, mapped for OffsetFetch."""
        shard.reply(self.token, self.failure(error))


def topics_changed(shard: ShardState, event: TopicsChanged) -> None:
    """Delete the offsets of a deleted topic in all groups; and, if a policy says so, groups that are left without offsets."""
    deleted = [topic for topic, partitions in event.topics.items() if partitions is None]
    records: list[Record] = []
    for group in list(shard.groups.values()) if deleted else ():
        pending = dict.fromkeys(
            key for key in (*group.pending_txn_offsets, *group.never_settled_commits) if key[0] in deleted
        )
        with_tombstone = [key for key in pending if _discard_pending(shard, group, *key)]
        keys = dict.fromkeys(
            [*((topic, p) for topic in deleted for p in group.offsets.get(topic, ())), *with_tombstone]
        )
        tombstones: list[Record] = [OffsetRecord(group.group_id, topic, p, None) for topic, p in keys]
        records += [*tombstones, *_tombstones_of_emptied(shard, group, len(tombstones))]
    if records:
        _append_tombstones(shard, Write(None, records))


def _discard_pending(shard: ShardState, group: Group, topic: str, partition: int) -> bool:
    """Drop the pending offsets of a partition. Returns whether that needs a tombstone."""
    group.never_settled_commits.pop((topic, partition), None)
    if shard.settings.policy.tombstones_end_pending_txn_offsets:
        return (topic, partition) in group.pending_txn_offsets
    shard.store.discard_pending_txn_offset(group, topic, partition)
    return False


def _append_tombstones(shard: ShardState, write: Write) -> None:
    """Append tombstones. The request is answered at once if there are none, or if Kafka doesn't wait for them."""
    if write.records and shard.settings.policy.tombstones_are_awaited:
        shard.write(write)
        return
    if write.records:
        shard.reply(write.token, write.answer)
        write.token = None
        _publish_then_append(shard, write)
    elif write.token is not None:
        shard.answer(write.token, write.answer, write.failure)


def _publish_then_append(shard: ShardState, write: Write) -> None:
    """Append tombstones that no request waits for: their effect is published before the append, even if that fails
    (GroupMetadataManager.cleanupGroupMetadata)."""
    write.publish(shard)
    write.any_isr = True
    shard.write(write)


def _tombstones_of_emptied(shard: ShardState, group: Group, removed: int) -> list[Record]:
    """The tombstones of an empty group that is left without offsets when it loses ``removed`` of them, if the policy deletes it then;
    else none."""
    if not shard.settings.policy.clean_up_removes_group or not group.is_empty or _count(group) > removed:
        return []
    if group.has_pending_offsets or group.group_id in _in_flight(shard):
        return []  # more offsets are pending
    tombstone = group.tombstones(shard.settings.policy)
    shard.remove_group(group)
    return tombstone


def _in_flight(shard: ShardState) -> set[str]:
    return {r.group_id for write in shard.writes.values() for r in write.records}


def _count(group: Group) -> int:
    return sum(len(partitions) for partitions in group.offsets.values())


def _offset_tombstones(group: Group, *, with_pending: bool) -> list[Record]:
    keys = [(topic, partition) for topic, partitions in group.offsets.items() for partition in partitions]
    if with_pending and group.pending_txn_offsets:
        keys = list(dict.fromkeys([*keys, *group.pending_txn_offsets]))
    return [OffsetRecord(group.group_id, topic, partition, None) for topic, partition in keys]


# expiry


def arm_expiry(shard: ShardState) -> None:
    """Arm the timer of the next clean-up of this shard."""
    interval_ms, started_ms = shard.settings.offsets_retention_check_interval_ms, shard.settings.started_ms
    since_ms = 0
    if started_ms is not None and shard.settings.policy.clean_up_counts_from_start:
        since_ms = (shard.now_ms - started_ms) % interval_ms
    shard.arm(("expire",), interval_ms - since_ms)


def expire(shard: ShardState, key: TimerKey) -> None:
    """Delete offsets past their retention, and empty groups without offsets (GroupMetadataManager.cleanupGroupMetadata)."""
    records: list[Record] = []
    ended: list[Group] = []
    keeps_pending = shard.settings.policy.tombstones_end_pending_txn_offsets
    in_flight = _in_flight(shard)
    for group in list(shard.groups.values()):
        if group.group_id in in_flight:
            continue  # a write is pending: the next clean-up looks again
        expired: list[Record] = [
            OffsetRecord(group.group_id, topic, partition, None)
            for topic, partitions in group.offsets.items()
            for partition, offset in partitions.items()
            if (topic, partition) not in group.never_settled_commits
            and not (keeps_pending and (topic, partition) in group.pending_txn_offsets)
            and _is_expired(shard, group, topic, offset)
        ]
        records += expired
        if (
            group.is_empty
            and _count(group) == len(expired)
            and not group.has_pending_offsets
            and not group.never_expires
        ):
            records += group.tombstones(shard.settings.policy)
            shard.remove_group(group)
            ended.append(group)
    if records:
        write = TombstonesWrite(None, records, ended)
        if shard.settings.policy.tombstones_are_awaited:
            shard.write(write)
        else:
            _publish_then_append(shard, write)
    arm_expiry(shard)


def _is_expired(shard: ShardState, group: Group, topic: str, offset: Offset) -> bool:
    since = group.retention_begins_ms(topic, offset)
    if since is None:
        return False
    if offset.expire_ts_ms != -1:
        return shard.now_ms >= offset.expire_ts_ms
    return shard.now_ms - since >= shard.settings.offsets_retention_ms
