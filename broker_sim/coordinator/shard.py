"""One shard: the groups of one ``__consumer_offsets`` partition, of all kinds, stepped by events.

``step`` is the only entry. It dispatches requests by their type, results of appends to their writes, and timers by the kind in their
key. Queries that change nothing are in ``queries``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from broker_sim.coordinator import offsets
from broker_sim.coordinator.classic import joining, membership, rebalance, syncing
from broker_sim.coordinator.classic.group import ClassicGroup
from broker_sim.coordinator.consumer import classic_members, heartbeat, lifecycle, subscriptions
from broker_sim.coordinator.consumer.group import ConsumerGroup
from broker_sim.coordinator.epochs import classic_requests
from broker_sim.coordinator.epochs.group import EpochGroup
from broker_sim.coordinator.epochs.reconcile import UNREVOKED
from broker_sim.coordinator.group import Group
from broker_sim.coordinator.outcome import (
    Appended,
    Client,
    CommitBatch,
    CommitOffsets,
    CommitsLogged,
    Committed,
    DeleteGroup,
    DeleteOffsets,
    Event,
    GroupConfigured,
    Heartbeat,
    LeaveGroup,
    Outcome,
    Request,
    StableFetch,
    StateAnswered,
    TimerFired,
    TimerKey,
    TopicsChanged,
    TransactionEnded,
)
from broker_sim.coordinator.share import heartbeat as share_heartbeat
from broker_sim.coordinator.share import offsets as share_offsets
from broker_sim.coordinator.share import partitions as share_partitions
from broker_sim.coordinator.share import requests as share_requests
from broker_sim.coordinator.share.group import ShareGroup
from broker_sim.coordinator.state import ShardState
from broker_sim.coordinator.store import GroupStore
from broker_sim.coordinator.streams import departing as streams_departing
from broker_sim.coordinator.streams import heartbeat as streams_heartbeat
from broker_sim.coordinator.streams.group import StreamsGroup
from broker_sim.coordinator.streams.requests import StreamsHeartbeat
from kafka_wire.errors import NO_ERROR, Err
from kafka_wire.messages.k11_join_group import JoinGroupRequest
from kafka_wire.messages.k14_sync_group import SyncGroupRequest
from kafka_wire.messages.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_wire.messages.k76_share_group_heartbeat import ShareGroupHeartbeatRequest


class Shard(ShardState):
    """The coordinator of one offsets partition."""

    __slots__ = ()

    def step(self, event: Event, now_ms: int) -> Outcome:
        """Apply one event. Returns timers, appends and replies."""
        self.now_ms = now_ms
        out = self.out = Outcome()
        if type(event) is Request:
            self._request(event)
        elif type(event) is Appended:
            self.appended(event)
        elif type(event) is CommitsLogged:
            offsets.commits_logged(self, event)
        elif type(event) is TimerFired:
            _TIMERS[event.key[0]](self, event.key)
        elif type(event) is Committed:
            self.committed(event.high_watermark, event.error)
        elif type(event) is TopicsChanged:
            deleted = [image.topic_id for name in event.topics if (image := self.topics.by_name.get(name)) is not None]
            self.topics.change(event.topics)
            offsets.topics_changed(self, event)
            share_partitions.forget_topics(
                self, [topic_id for topic_id in deleted if topic_id not in self.topics.names]
            )
        elif type(event) is StateAnswered:
            self.persister_callbacks.pop(event.ticket).answered(self, event.answers)
        elif type(event) is TransactionEnded:
            offsets.transaction_ended(self, event)
            if event.offset < event.high_watermark:
                self.committed(event.high_watermark, NO_ERROR)
        elif type(event) is GroupConfigured:
            self.group_configs[event.group_id] = event.values
            if (group := self.groups.get(event.group_id)) is not None:
                group.version += 1  # heartbeats are answered with the new interval
        return out

    def _request(self, event: Request) -> None:
        token, client, body = event.token, event.client, event.body
        match body:  # the most frequent first
            case CommitBatch():
                offsets.commit_batch(self, token, client, body)
            case CommitOffsets():
                offsets.commit(self, token, client, body)
            case Heartbeat():
                self._kind(body.group_id).heartbeat(self, token, client, body)
            case StableFetch():
                offsets.stable_fetch(self, token, client, body)
            case JoinGroupRequest():
                self._kind(body.group_id).join(self, token, client, body)
            case SyncGroupRequest():
                self._kind(body.group_id).sync(self, token, client, body)
            case ConsumerGroupHeartbeatRequest():
                heartbeat.heartbeat(self, token, client, body)
            case ShareGroupHeartbeatRequest():
                share_heartbeat.heartbeat(self, token, client, body)
            case StreamsHeartbeat():
                streams_heartbeat.heartbeat(self, token, client, body)
            case heartbeat.LongConsumerHeartbeat():
                heartbeat.long_heartbeat(self, token, client, body)
            case share_heartbeat.LongShareHeartbeat():
                share_heartbeat.long_heartbeat(self, token, client, body)
            case LeaveGroup():
                self._kind(body.group_id).leave(self, token, client, body)
            case DeleteOffsets():
                self._kind(body.group_id).delete_offsets(self, token, client, body)
            case DeleteGroup():
                self._kind(body.group_id).delete_group(self, token, client, body)
            case share_offsets.AlterOffsets():
                share_offsets.alter(self, token, client, body)
            case share_offsets.ForgetOffsets():
                share_offsets.delete(self, token, client, body)
            case _:
                raise TypeError(f"no request of the group coordinator: {body!r}")

    def _kind(self, group_id: str) -> GroupKind:
        """The handlers of a group; those of classic groups for one that does not exist."""
        group = self.groups.get(group_id)
        return _CLASSIC if group is None else _KINDS[type(group)]

    def start(self, store: GroupStore, now_ms: int) -> Outcome:
        """Start from the loaded log: sessions are restarted, a group that is too large rebalances, the expiry timer is armed."""
        self.now_ms = now_ms
        out = self.out = Outcome()
        self.take_over(store)
        for group in self.groups.values():
            _KINDS[type(group)].begin(self, group)
        if store.transactions:
            self.arm(("transactions",), self.settings.open_transaction_timeout_ms)
        offsets.arm_expiry(self)
        return out

    def stop(self) -> Outcome:
        """Unload the shard: deferred JoinGroups and SyncGroups and pending writes are answered NOT_COORDINATOR."""
        out = self.out = Outcome()
        self.fail_pending()
        for group in self.groups.values():
            _KINDS[type(group)].unload(self, group)
        self.groups.clear()
        self.persister_callbacks.clear()
        self.store.pending_deletion.clear()
        out.requests = ()
        return out

    def _not_encoded(self, key: TimerKey) -> None:
        """A write with a record that could not be encoded; Kafka fails at the same place, after it has replayed the records."""
        assert isinstance(key[1], int)
        self.fail(key[1], Err.UNKNOWN_SERVER_ERROR)


class GroupKind(NamedTuple):
    """The functions for groups of one kind. ``begin``: after a group was loaded; ``unload``: before the shard is unloaded, answers
    deferred requests; ``session_expired``: the session of a member has expired. The others handle the requests whose handler depends on
    the group's kind; by default as for a classic group."""

    begin: Callable[[Shard, Any], None]
    unload: Callable[[Shard, Any], None]
    session_expired: Callable[[Shard, Any, str], None]
    revocation_expired: Callable[[Shard, Any, str], None] = lambda shard, group, member_id: None
    """A member of it did not revoke in time what it was asked to revoke."""
    heartbeat: Callable[[Shard, int, Client, Heartbeat], None] = membership.heartbeat
    join: Callable[[Shard, int, Client, JoinGroupRequest], None] = joining.join
    sync: Callable[[Shard, int, Client, SyncGroupRequest], None] = syncing.sync
    leave: Callable[[Shard, int, Client, LeaveGroup], None] = membership.leave
    delete_group: Callable[[Shard, int, Client, DeleteGroup], None] = offsets.delete_group
    delete_offsets: Callable[[Shard, int, Client, DeleteOffsets], None] = offsets.delete_offsets


_CLASSIC = GroupKind(membership.begin, membership.unload, membership.session_expired)

_KINDS: dict[type[Group], GroupKind] = {
    ClassicGroup: _CLASSIC,
    ConsumerGroup: GroupKind(
        lifecycle.begin,
        lifecycle.unload,
        lifecycle.session_expired,
        lifecycle.revocation_expired,
        heartbeat=classic_members.heartbeat,
        join=classic_members.join,
        sync=classic_members.sync,
        leave=classic_members.leave,
    ),
    ShareGroup: GroupKind(
        share_heartbeat.begin,
        share_heartbeat.unload,
        share_heartbeat.session_expired,
        heartbeat=classic_requests.heartbeat,
        join=classic_requests.join,
        sync=classic_requests.sync,
        leave=classic_requests.leave,
        delete_group=share_requests.delete_group,
        delete_offsets=share_requests.delete_offsets,
    ),
    StreamsGroup: GroupKind(
        streams_departing.begin,
        streams_departing.unload,
        streams_departing.remove_member,
        streams_departing.remove_member,
        heartbeat=classic_requests.heartbeat,
        join=streams_heartbeat.classic_join,
        sync=classic_requests.sync,
        leave=classic_requests.leave,
    ),
}


def _session_expired(shard: Shard, key: TimerKey) -> None:
    group = shard.groups.get(str(key[1]))
    if group is not None:
        _KINDS[type(group)].session_expired(shard, group, str(key[2]))


def _revocation_expired(shard: Shard, key: TimerKey) -> None:
    group, member_id = shard.groups.get(str(key[1])), str(key[2])
    if not isinstance(group, EpochGroup) or member_id not in group.latest.members:
        return
    if group.latest.current(member_id).state is UNREVOKED:
        _KINDS[type(group)].revocation_expired(shard, group, member_id)


_TIMERS: dict[str | int, Callable[[Shard, TimerKey], None]] = {
    "session": _session_expired,
    "revocation": _revocation_expired,
    "initial": streams_heartbeat.initial_delay_over,
    "patterns": subscriptions.refresh,
    "join": classic_members.join_expired,
    "unsynced": classic_members.sync_expired,
    "pending": membership.pending_expired,
    "rebalance": rebalance.rebalance_timed_out,
    "sync": syncing.pending_sync_expired,
    "append": Shard.append_timed_out,
    "unwritable": Shard._not_encoded,
    "expire": offsets.expire,
    "transactions": offsets.transactions_aborted,
}

TIMERS = tuple(str(kind) for kind in _TIMERS)
"""The kinds of timers that a shard arms: the first items of their keys."""
