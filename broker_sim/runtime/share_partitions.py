"""Runs the share partitions (`SharePartition`) of the partitions' leaders, from load to unload.

Rules:

1. A partition is loaded from the share coordinator when a share group's member first fetches it from its leader. It is unloaded when
   the leader or its epoch changes, or when a connection is closed and no session reads it for the group any more; the next fetch loads
   the stored state, and writes of the former leader are refused.
2. A change of records is written by the share coordinator before it is reported; if that is refused the change is undone.
3. Locks end on the brokers' clock.
4. Archived records are first copied to the group's dead letter topic, if it has one (`dead_letters`).
5. Waiting fetches are called when any record may be available, or when there is an error.

Source: SharePartitionManager.java, SharePartition.java (4.x).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from broker_sim.common.slices import Job, Pace, ended
from broker_sim.coordinator.share_partition.inflight import Acquired
from broker_sim.coordinator.share_partition.partition import Limits, PartitionPolicy, SharePartition
from broker_sim.coordinator.share_partition.sessions import ShareSession, ShareSessions, TopicPartition
from broker_sim.coordinator.share_partition.transition import Reason, Transition
from broker_sim.coordinator.share_state.commands import Found, Read, Result, Write
from broker_sim.coordinator.share_state.state import NOWHERE, UNCOUNTED, ShareKey
from broker_sim.metadata.cluster_state import Broker, ClusterState, Partition
from broker_sim.metadata.entity_configs import Entity, duration_ms
from broker_sim.runtime.dead_letters import REJECTED, TOO_OFTEN, DeadLetters, Letters
from broker_sim.runtime.share_state_coordinator import Persister
from broker_sim.runtime.timers import KeyedTimers
from kafka_wire.errors import Err

if TYPE_CHECKING:
    from broker_sim.runtime.share_observer import ShareObserver

log = logging.getLogger("broker_sim.coordinator")

__all__ = ["LivePartition", "SharePartitions"]

_CLIENT_ERRORS: dict[Err, Err] = {
    Err.NOT_COORDINATOR: Err.COORDINATOR_NOT_AVAILABLE,
    Err.COORDINATOR_NOT_AVAILABLE: Err.COORDINATOR_NOT_AVAILABLE,
    Err.COORDINATOR_LOAD_IN_PROGRESS: Err.COORDINATOR_NOT_AVAILABLE,
    Err.GROUP_ID_NOT_FOUND: Err.GROUP_ID_NOT_FOUND,
    Err.UNKNOWN_TOPIC_OR_PARTITION: Err.UNKNOWN_TOPIC_OR_PARTITION,
    Err.FENCED_LEADER_EPOCH: Err.NOT_LEADER_OR_FOLLOWER,
    Err.FENCED_STATE_EPOCH: Err.NOT_LEADER_OR_FOLLOWER,
}
"""The share coordinator's error -> the member's; the others become UNKNOWN_SERVER_ERROR (SharePartition.fetchPersisterError)."""

_FENCED = frozenset(
    {Err.FENCED_LEADER_EPOCH, Err.FENCED_STATE_EPOCH, Err.UNKNOWN_TOPIC_OR_PARTITION, Err.GROUP_ID_NOT_FOUND}
)
"""Errors after which what is held is of no use any more."""


_PIECE = 2000
"""Records that a session gives back before others are served."""


def _ignore(error: Err) -> None:
    """The callback of writes that no request waits for."""


@dataclass(eq=False, slots=True)
class LivePartition:
    """A share group's partition at its leader. ``share`` is None until it is loaded; ``error``: why it can't be used;
    ``is_loading``: whether the share coordinator was asked; ``looked_at``: the fetch offset from which a fetch looked at the log
    last."""

    key: ShareKey
    partition: Partition
    leader_epoch: int
    state_epoch: int = 0
    share: SharePartition | None = None
    error: Err = Err.NONE
    read_committed: bool = False
    is_loading: bool = False
    looked_at: int = -1
    waiters: dict[Callable[[], object], None] = field(default_factory=dict)
    lock_timer: tuple[int, tuple[str, ShareKey]] = field(init=False)

    def __post_init__(self) -> None:
        self.lock_timer = self.key.partition, ("lock", self.key)

    def is_led_by(self, node_id: int) -> bool:
        """Whether a broker leads the partition, in the leader epoch in which it was loaded. A deleted one has no leader."""
        return self.partition.leader == node_id and self.partition.leader_epoch == self.leader_epoch

    def wake(self) -> None:
        """Call the waiting fetches: records may be available, or there is an error."""
        for waiter in list(self.waiters):
            if waiter in self.waiters:
                waiter()


class SharePartitions:
    """Share partitions of all brokers of a cluster, and the share sessions of each broker."""

    def __init__(self, state: ClusterState, persister: Persister) -> None:
        self.state, self.clock, self._persister = state, state.clock, persister
        self._letters = DeadLetters(state)
        self._live: dict[tuple[str, bytes, int], LivePartition] = {}  # by ShareKey
        self._sessions: dict[int, ShareSessions] = {}
        self.timers: KeyedTimers[tuple[int, tuple[str, ShareKey]]] = KeyedTimers(self.clock, self._fire)
        self.fired: list[str] | None = None
        """Descriptions of the timers that have fired; None if they are not collected."""
        self.observer: ShareObserver | None = None
        release = state.config.release
        self.policy = PartitionPolicy(
            closed_session_uncounted=release < (4, 2),
            completed_leave_room=release >= (4, 2),
            bad_records_come_alone=release >= (4, 2),
            neighbours_are_joined=release >= (4, 2),
            old_words=release < (4, 2),
            ids_are_uuids=release < (4, 2),
        )
        state.on_leader_changed.append(self._leader_changed)
        for broker in state.brokers.values():
            broker.on_closed.append(self._closed)
            broker.on_stopped.append(self._stopped)

    def close(self) -> None:
        """The cluster ends: no lock does."""
        self.timers.clear()
        self._live.clear()
        self._sessions.clear()
        self.state.on_leader_changed.remove(self._leader_changed)

    def observe(self, observer: ShareObserver) -> None:
        """Have a journal written from here on."""
        self.observer = observer
        for live in self.loaded():
            observer.loaded(live)

    def timer_text(self, index: int, key: tuple[str, ShareKey]) -> str:
        """As in ``lock of group billing on orders-3``."""
        topic = self.state.topics_by_id.get(key[1].topic_id)
        return f"lock of group {key[1].group_id} on {'a deleted topic' if topic is None else topic.name}-{key[1].partition}"

    # settings

    def _setting(self, group_id: str, name: str) -> str | None:
        return self.state.entity_configs[Entity.GROUP].get(group_id, {}).get(name)

    def _int(self, group_id: str, name: str) -> int:
        own = self._setting(group_id, name)
        return self.state.config.int(f"group.{name}") if own is None else int(own)

    def lock_ms(self, group_id: str) -> int:
        """The duration of the group's acquisition locks, in ms."""
        return self.limits(group_id).lock_ms

    def limits(self, group_id: str) -> Limits:
        """The group's limits, as set now."""
        key = ("limits of a share group", group_id)
        known = self.state.answers.get(key)
        if known is not None:
            return cast(Limits, known)
        limits = Limits(
            self._int(group_id, "share.record.lock.duration.ms"),
            self._int(group_id, "share.delivery.count.limit"),
            self._int(group_id, "share.partition.max.record.locks"),
            self._letters.wanted(group_id),
        )
        self.state.keep_answer(key, limits)
        return limits

    def renews(self, group_id: str) -> bool:
        """Whether members of a group may renew their locks."""
        return self._setting(group_id, "share.renew.acknowledge.enable") != "false"

    # partitions

    def all_of(self, broker: Broker, group_id: str, requested: Iterable[TopicPartition]) -> list[LivePartition | Err]:
        """A group's partitions, those that ``broker`` leads: loaded, or to be loaded (`load`)."""
        known, node_id = self._live.get, broker.node_id
        result: list[LivePartition | Err] = []
        for topic_id, index in requested:
            live = known((group_id, topic_id, index))
            if live is not None:
                partition = live.partition
                if live.is_led_by(node_id) and not partition.read_error:
                    result.append(live)
                    continue
            result.append(self._led(node_id, ShareKey(group_id, topic_id, index)))
        return result

    def _led(self, node_id: int, key: ShareKey) -> LivePartition | Err:
        """The partition of ``key`` if that broker leads it; to be loaded again if its leader epoch is another one."""
        topic = self.state.topics_by_id.get(key.topic_id)
        if topic is None or not 0 <= key.partition < len(topic.partitions):
            return Err.UNKNOWN_TOPIC_OR_PARTITION
        partition = topic.partitions[key.partition]
        if partition.read_error is not Err.NONE:
            return partition.read_error
        if partition.leader != node_id:
            return Err.NOT_LEADER_OR_FOLLOWER
        live = self._live.get(key)
        if live is not None and live.leader_epoch != partition.leader_epoch:
            self._drop(live, Err.NOT_LEADER_OR_FOLLOWER)
            live = None
        if live is None:
            live = self._live[key] = LivePartition(key, partition, partition.leader_epoch)
        return live

    def known(self, broker: Broker, group_id: str, at: TopicPartition) -> LivePartition | None:
        """A group's share partition, if any member has fetched from it and ``broker`` still leads it."""
        live = self._live.get(ShareKey(group_id, *at))
        return live if live is not None and live.is_led_by(broker.node_id) else None

    def live(self, key: ShareKey) -> LivePartition | None:
        """The same, by all that names it."""
        return self._live.get(key)

    def loaded(self) -> list[LivePartition]:
        """All loaded share partitions."""
        return [live for live in self._live.values() if live.share is not None]

    def load(self, live: LivePartition) -> None:
        """Load a partition from the share coordinator, unless that has begun: waiting fetches are called then."""
        if live.is_loading:
            return
        live.is_loading = True

        def on_read(answer: Found) -> None:
            if self._live.get(live.key) is not live:
                return
            if answer.error is not Err.NONE:
                log.warning("share group %s on %s: %s", live.key.group_id, live.partition.name, answer.error.name)
                self._drop(live, _CLIENT_ERRORS.get(answer.error, Err.UNKNOWN_SERVER_ERROR))
                return
            group_id = live.key.group_id
            live.read_committed = self._setting(group_id, "share.isolation.level") == "read_committed"
            start, reset = answer.start_offset, ""
            if start == NOWHERE:
                reset = self._setting(group_id, "share.auto.offset.reset") or "latest"
                start = self._first_offset(live, reset)
            live.state_epoch = answer.state_epoch
            live.share = SharePartition.loaded(self.policy, self.limits(group_id), start, answer.batches)
            if self.observer is not None:
                self.observer.loaded(live, reset)
            for first, last, delivery in live.share.archiving():
                often = delivery.deliveries >= live.share.limits.deliveries
                self._send_letters(live, first, last, delivery.deliveries, TOO_OFTEN if often else REJECTED)
            live.wake()

        self._persister.ask_one(Read(live.key, live.leader_epoch), on_read)

    def _first_offset(self, live: LivePartition, reset: str) -> int:
        """The start offset of a group that has read nothing of the partition; ``reset``: its share.auto.offset.reset."""
        partition = live.partition
        end = partition.last_stable_offset if live.read_committed else partition.high_watermark
        if reset == "earliest":
            return partition.log_start_offset
        if reset == "latest":
            return end
        since = self.clock.now_ms() - duration_ms(reset.removeprefix("by_duration:"))
        located = partition.log.offset_for_timestamp(since)
        return end if located is None or located.offset >= end else located.offset

    def _drop(self, live: LivePartition, error: Err) -> None:
        """Unload a partition: waiting fetches get the error, and the next fetch loads it again."""
        if self._live.get(live.key) is live:
            del self._live[live.key]
        self.timers.cancel(live.lock_timer)
        if self.observer is not None:
            self.observer.unloaded(live, error)
        live.error = error
        live.wake()

    def _leader_changed(self, partition: Partition) -> None:
        for live in [live for live in self._live.values() if live.partition is partition]:
            self._drop(live, Err.NOT_LEADER_OR_FOLLOWER)

    def _stopped(self, broker: Broker) -> None:
        """Drop the partitions that a stopped broker had loaded: the next leader loads their stored state."""
        for live in [live for live in self._live.values() if live.is_led_by(broker.node_id)]:
            self._drop(live, Err.NOT_LEADER_OR_FOLLOWER)

    # what becomes of records

    def acquire(
        self,
        live: LivePartition,
        member: str,
        read: Sequence[tuple[int, int]],
        *,
        batch_size: int,
        max_records: int,
        exactly: bool,
        request: int,
    ) -> list[Acquired]:
        """Acquire available records among those that were read: see `SharePartition.acquire`. ``request``: its number in the
        journal."""
        share, now_ms = live.share, self.clock.now_ms()
        assert share is not None
        acquired = share.acquire(member, read, now_ms, batch_size=batch_size, max_records=max_records, exactly=exactly)
        if acquired and self.observer is not None:
            self.observer.acquired(live, member, acquired, request, now_ms)
        self.arm_lock_timer(live)
        return acquired

    def write(
        self,
        live: LivePartition,
        moved: Transition,
        on_written: Callable[[Err], object] = _ignore,
        request: int = 0,
        *,
        letter: tuple[str, str] = ("", ""),
    ) -> None:
        """Store a transition; ``on_written`` is called with the member's error. ``request``: its number in the journal, 0 without a
        request."""
        share = live.share
        assert share is not None
        if moved.renewed and self.observer is not None:
            self.observer.moved(live, Transition(renewed=moved.renewed), request)
        if not moved.changes:
            self.arm_lock_timer(live)
            on_written(Err.NONE)
            return

        def answered(answer: Result) -> None:
            error = answer.error
            if error:
                share.undo(moved)
            else:
                share.settle(moved)
            if self.observer is not None:
                self.observer.moved(live, Transition(moved.changes), request, error, letter=letter)
            if not error:
                self._write_letters(live, moved)
            if self._live.get(live.key) is live:
                if error and error in _FENCED:
                    self._drop(live, _CLIENT_ERRORS[error])
                else:
                    self.arm_lock_timer(live)
                    live.wake()
            on_written(_CLIENT_ERRORS.get(error, Err.UNKNOWN_SERVER_ERROR) if error else error)

        self._persister.ask_one(self._command(live, moved), answered)

    def _write_letters(self, live: LivePartition, moved: Transition) -> None:
        """Write the dead letters of a stored transition to the group's dead letter topic."""
        for archived in moved.archiving:
            why = REJECTED if archived.why is Reason.REJECTED else TOO_OFTEN
            self._send_letters(live, archived.first, archived.last, archived.delivery.deliveries, why)

    def _send_letters(self, live: LivePartition, first: int, last: int, deliveries: int, why: str) -> None:
        def sent(where: str, problem: str) -> None:
            if live.share is not None and self._live.get(live.key) is live:
                self.write(live, live.share.lettered(first, last), letter=(where, problem))

        self._letters.send(Letters(live.key.group_id, live.partition, first, last, deliveries, why), sent)

    def _command(self, live: LivePartition, moved: Transition) -> Write:
        count = moved.complete_count if self.policy.completed_leave_room else UNCOUNTED
        return Write(live.key, live.state_epoch, live.leader_epoch, moved.start_offset, moved.batches, count)

    def arm_lock_timer(self, live: LivePartition) -> None:
        """Be there when the next lock ends."""
        share, key = live.share, live.lock_timer
        deadline_ms = None if share is None else share.next_deadline_ms()
        if deadline_ms is None:
            self.timers.cancel(key)
        elif self.timers.deadline_ms(key) != deadline_ms:
            self.timers.cancel(key)
            self.timers.set(key, deadline_ms)

    def _fire(self, key: tuple[int, tuple[str, ShareKey]]) -> None:
        live = self._live.get(key[1][1])
        if live is None or live.share is None:
            return
        if self.fired is not None:
            self.fired.append(self.timer_text(*key))
        self._expired(live, live.share, live.share.expire(self.clock.now_ms()))

    def expire_now(self, live: LivePartition, members: Iterable[str]) -> None:
        """The locks of these members end now, by an operator's hand."""
        if live.share is not None:
            self._expired(live, live.share, live.share.expire_of(members))

    def _expired(self, live: LivePartition, share: SharePartition, ended: list[Transition]) -> None:
        """Locks have ended: that counts at once, and is written down."""
        if self.observer is not None:
            for moved in ended:
                self.observer.moved(live, moved, 0)

        def answered(answers: list[Result]) -> None:
            for moved, answer in zip(ended, answers, strict=True):
                if answer.error is Err.NONE:
                    share.settle(moved)
                    self._write_letters(live, moved)
                else:  # it counts all the same, and the next leader finds the records as they were delivered before
                    log.warning("a lock's end on %s can't be stored: %s", live.partition.name, answer.error.name)

        self._persister.ask([self._command(live, moved) for moved in ended], answered)
        self.arm_lock_timer(live)
        live.wake()

    # sessions

    def sessions(self, broker: Broker) -> ShareSessions:
        """The share sessions of a broker."""
        sessions = self._sessions.get(broker.node_id)
        if sessions is None:
            most = self.state.config.int("group.share.max.share.sessions")
            sessions = self._sessions[broker.node_id] = ShareSessions(most)
        return sessions

    def end_session(self, broker: Broker, session: ShareSession) -> None:
        """End a session: the records that its member has acquired are released."""
        self.sessions(broker).end(session)
        self._start(self._closing(broker, [session], ()))

    def _start(self, job: Job) -> None:
        if not ended(job):
            self.state.slices.add(job, ended)

    def _closing(self, broker: Broker, sessions: Sequence[ShareSession], groups: Sequence[str]) -> Job:
        """Release the records of sessions that have ended, and unload the partitions of groups that have none any more."""
        pace = Pace(_PIECE)
        for session in sessions:
            for at in list(session.partitions):
                live = self._live.get(ShareKey(session.key.group_id, *at))
                if live is not None and live.share is not None and live.partition.leader == broker.node_id:
                    self.write(live, (yield from live.share.releasing(session.key.member_id, pace)))
        unread = [group_id for group_id in groups if not self.sessions(broker).has_any(group_id)]
        for live in list(self._live.values()) if unread else ():
            if live.key.group_id in unread and live.partition.leader == broker.node_id:
                self._drop(live, Err.NOT_LEADER_OR_FOLLOWER)

    def _closed(self, broker: Broker, connection: object) -> None:
        """A connection was closed: end the sessions that were opened on it. A group whose last session ended with a final request has
        its partitions loaded until then (ShareSessionCache.ClientConnectionDisconnectListener)."""
        sessions = self._sessions.get(broker.node_id)
        if sessions is not None:
            closed, groups = sessions.close(connection)
            if broker.running and (closed or groups):
                self._start(self._closing(broker, closed, groups))
