"""One shard: the groups of one ``__consumer_offsets`` partition, of whatever kind, stepped by events.

``step`` is the only way in. It dispatches requests to the rooms of the core, answers of the log to the write that waits for them, and
timers by the kind in their key. Queries that change nothing are in ``queries``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from broker_sim.coordinator import offsets
from broker_sim.coordinator.classic import joining, membership, rebalance, syncing
from broker_sim.coordinator.classic.group import ClassicGroup
from broker_sim.coordinator.group import Group
from broker_sim.coordinator.outcome import (
    Appended,
    CommitOffsets,
    CommitsLogged,
    Committed,
    CommitTurn,
    DeleteGroup,
    DeleteOffsets,
    Event,
    Heartbeat,
    LeaveGroup,
    Outcome,
    Request,
    StableFetch,
    TimerFired,
    TimerKey,
    TopicsChanged,
)
from broker_sim.coordinator.state import Held, ShardState
from broker_sim.coordinator.store import GroupStore
from kafka_wire.errors import Err
from kafka_wire.messages.k11_join_group import JoinGroupRequest
from kafka_wire.messages.k14_sync_group import SyncGroupRequest


class Shard(ShardState):
    """The coordinator of one offsets partition."""

    __slots__ = ()

    def step(self, event: Event, now_ms: int) -> Outcome:
        """Apply one event and say what to do about it."""
        self.now_ms = now_ms
        out = self.out = Outcome()
        if type(event) is Request:
            _REQUESTS[type(event.body)](self, event.token, event.client, event.body)
        elif type(event) is Appended:
            self._appended(event)
        elif type(event) is CommitsLogged:
            offsets.commits_logged(self, event)
        elif type(event) is TimerFired:
            _TIMERS[event.key[0]](self, event.key)
        elif type(event) is Committed:
            self._committed(event.high_watermark, event.error)
        elif type(event) is TopicsChanged:
            offsets.topics_changed(self, event)
        return out

    def start(self, store: GroupStore, now_ms: int) -> Outcome:
        """Take over what the log has made: sessions begin anew, a group that is too large rebalances, the expiry timer is armed."""
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
        """The partition moves away: whoever waits in a JoinGroup or SyncGroup is told NOT_COORDINATOR, and so are writes in flight."""
        out = self.out = Outcome()
        for write in self.writes.values():
            write.failed(self, Err.NOT_LEADER_OR_FOLLOWER)
        for group in self.groups.values():
            _KINDS[type(group)].unload(self, group)
        self.writes.clear()
        self.groups.clear()
        self.store.buried.clear()
        return out

    # answers of the log

    def _appended(self, event: Appended) -> None:
        error, last_offset = event.error, event.last_offset
        if error is Err.NONE:
            self.last_written = last_offset
            if event.high_watermark > self.high_watermark:
                self.high_watermark = event.high_watermark
            if not event.more and not self.unplaced and last_offset < self.high_watermark:
                self.writes.pop(event.ticket).done(self)  # the usual case
                return
        unplaced, self.unplaced = self.unplaced, []
        for ticket in (event.ticket, *event.more, *unplaced):
            if error is not Err.NONE:
                self.writes.pop(ticket).failed(self, error)
            elif last_offset < self.high_watermark:
                self.writes.pop(ticket).done(self)
            else:
                self.writes[ticket].last_offset = last_offset
                self.arm(("append", ticket), self.settings.commit_timeout_ms)

    def _committed(self, high_watermark: int, error: Err) -> None:
        self.high_watermark = max(self.high_watermark, high_watermark)
        for ticket, write in list(self.writes.items()):
            if 0 <= write.last_offset < self.high_watermark:
                del self.writes[ticket]
                self.cancel(("append", ticket))
                if error is Err.NONE:
                    write.done(self)
                else:
                    write.failed(self, error)

    def _append_timed_out(self, key: TimerKey) -> None:
        ticket = key[1]
        assert isinstance(ticket, int)
        write = self.writes.get(ticket)
        if write is None:
            return
        if not self.settings.policy.late_append_is_published or isinstance(write, Held):
            del self.writes[ticket]
        write.failed(self, Err.REQUEST_TIMED_OUT)
        write.token = None


class GroupKind(NamedTuple):
    """What a shard does with the groups of a kind. ``begin``: one was loaded from the log; ``unload``: the shard goes, and who waits in
    it is told so."""

    begin: Callable[[Shard, Any], None]
    unload: Callable[[Shard, Any], None]


_KINDS: dict[type[Group], GroupKind] = {ClassicGroup: GroupKind(membership.begin, membership.unload)}

_REQUESTS: dict[type, Callable[..., None]] = {
    Heartbeat: membership.heartbeat,
    JoinGroupRequest: joining.join,
    SyncGroupRequest: syncing.sync,
    LeaveGroup: membership.leave,
    CommitOffsets: offsets.commit,
    CommitTurn: offsets.commit_turn,
    DeleteOffsets: offsets.delete_offsets,
    DeleteGroup: offsets.delete_group,
    StableFetch: offsets.stable_fetch,
}

_TIMERS: dict[str | int, Callable[[Shard, TimerKey], None]] = {
    "session": membership.session_expired,
    "pending": membership.pending_expired,
    "rebalance": rebalance.rebalance_timed_out,
    "sync": syncing.pending_sync_expired,
    "append": Shard._append_timed_out,
    "expire": offsets.expire,
    "transactions": offsets.transactions_aborted,
}
