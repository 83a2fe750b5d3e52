"""The group coordinators of a cluster: `CoordinatorRuntime` over ``__consumer_offsets``, and what groups need of it beyond.

1. OffsetCommits of one turn of the loop are appended as one batch (where the policy shares batches); those that repeat a layout are
   collected before they are looked at (``commit_batching``).
2. A request that repeats the last one and changes nothing, as Heartbeats do, costs no event (``unchanged``).
3. While somebody moves the clock by hand, members that could heartbeat are kept alive (``session_keepalive``).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, TypeVar

from broker_sim.common.chance import Chance
from broker_sim.config.settings import BrokerConfig
from broker_sim.coordinator.assignors import ASSIGNORS
from broker_sim.coordinator.group import Group
from broker_sim.coordinator.loader import Loader
from broker_sim.coordinator.outcome import (
    NOBODY,
    Ask,
    CommitOffsets,
    GroupConfigured,
    Offset,
    StateAnswered,
    TimerKey,
    TransactionEnded,
)
from broker_sim.coordinator.policy import ConsumerSettings, Settings, ShareSettings, StreamsSettings, policy_of
from broker_sim.coordinator.shard import Shard
from broker_sim.coordinator.share_state.commands import Result
from broker_sim.metadata.cluster_state import OFFSETS_TOPIC, ClusterState, Partition
from broker_sim.metadata.entity_configs import Entity
from broker_sim.metadata.topics import TRANSACTION_TOPIC
from broker_sim.runtime.commit_batching import LateCommit, commit_turn
from broker_sim.runtime.coordinator_kind import CoordinatorKind
from broker_sim.runtime.coordinator_runtime import CoordinatorRuntime, Slot
from broker_sim.runtime.journal_observer import GroupWatch
from broker_sim.runtime.session_keepalive import Presence, timer_text
from broker_sim.storage import partition_for
from broker_sim.storage.producer_state import EndedTransaction
from kafka_wire.api_keys import release

if TYPE_CHECKING:
    from broker_sim.runtime.share_state_coordinator import Persister

A = TypeVar("A")

_GROUP_CONFIGS = {
    "consumer.session.timeout.ms": "session_timeout_ms",
    "consumer.heartbeat.interval.ms": "heartbeat_interval_ms",
    "consumer.assignment.interval.ms": "assignment_interval_ms",
    "share.session.timeout.ms": "share session_timeout_ms",
    "share.heartbeat.interval.ms": "share heartbeat_interval_ms",
    "share.assignment.interval.ms": "share assignment_interval_ms",
    "streams.session.timeout.ms": "streams session_timeout_ms",
    "streams.heartbeat.interval.ms": "streams heartbeat_interval_ms",
    "streams.assignment.interval.ms": "streams assignment_interval_ms",
    "streams.initial.rebalance.delay.ms": "streams initial_rebalance_delay_ms",
    "streams.num.standby.replicas": "streams standby_replicas",
    "streams.rack.aware.assignment.tags": "streams rack_aware_tags",
}
"""Settings of a group by Kafka's names -> those of `ConsumerSettings`, with ``share`` before them of `ShareSettings`, and with
``streams`` of `StreamsSettings`."""

_AT_ONCE = -1
"""The token of requests whose answer is read from the outcome, or that have none."""

partition_of = lru_cache(maxsize=65536)(partition_for)

GroupSlot = Slot[Shard]


class GroupCoordinator(CoordinatorRuntime[Shard]):
    """The group coordinators of a cluster's brokers. ``chance`` gives the random part of member ids, at each partition its own:
    who comes to one group changes the ids of no other."""

    watch: GroupWatch | None

    def __init__(
        self,
        state: ClusterState,
        *,
        chance: Chance | None = None,
        persister: Callable[[], Persister] | None = None,
    ) -> None:
        self.settings = replace(settings_of(state.config), started_ms=state.clock.now_ms())
        self._persister = persister
        chance = chance or Chance.system()
        super().__init__(
            state,
            CoordinatorKind(
                topic=OFFSETS_TOPIC,
                partition_of=partition_of,
                new_shard=lambda index: Shard(index, self.settings, partial(_new_id, chance.at(str(index)))),
                new_loader=lambda: Loader(self.settings),
                load_error_disowns=self.settings.policy.load_error_disowns,
                appends_need_min_isr=self.settings.policy.appends_need_min_isr,
            ),
        )
        self.max_metadata_chars = state.config.int("offset.metadata.max.bytes")
        self.legacy_offsets: dict[tuple[str, str, int], Offset] = {}
        """What OffsetCommit v0 stored (ZooKeeper's part, once): by group, topic and partition; read by OffsetFetch v0 alone."""
        self.failed_internal_topics: dict[str, str] = {}
        """Internal topics of streams groups that could not be created: name -> why, until one could be."""
        self.coming_internal_topics: set[str] = set()
        """Those that are being created, in pieces."""
        self.presence: Presence | None = None
        """Keeps members alive while somebody moves the clock; None beside a clock that moves by itself."""

    def observe(self, watch: GroupWatch) -> None:
        """Let ``watch`` see every step from here on, and first what there is."""
        self._flush_dirty()
        self.watch = watch
        for slot in self._slots.values():
            watch.look(slot.shard, slot.partition.name, list(slot.shard.groups), {"kind": "load"})

    def keep_members_alive(self, is_open: Callable[[Any], bool]) -> None:
        """The clock is going to be moved by hand: see ``session_keepalive``. ``is_open`` tells whether a connection still is."""
        presence = self.presence = Presence(is_open, self.loaded, self._timers)
        self.hear = lambda slot, request, ctx: presence.heard(
            slot.shard, request.body, ctx, partial(self._step, slot, request)
        )

    def pending(self, partition: Partition) -> int:
        """How many requests wait until what was appended to an offsets partition is committed."""
        slot = self._slots.get(partition.index)
        if slot is None or slot.partition is not partition:
            return 0
        writes = slot.shard.writes.values()
        waiting = {
            token for write in writes for token in getattr(write, "tokens", (write.token,)) if token in self._tokens
        }
        for group in slot.shard.classic_groups() if slot.shard.writes else ():
            waiting |= {m.sync_token for m in group.members.values() if m.sync_token in self._tokens}
        return len(waiting)

    def timer_text(self, index: int, key: TimerKey) -> str:
        """As in ``session of consumer-1 in billing``."""
        return timer_text(index, key, self.shard(index))

    # what the runtime asks

    def _shares(self, body: Any) -> bool:
        return type(body) is CommitOffsets and body.producer is NOBODY

    def _may_wait(self, slot: GroupSlot, body: Any) -> bool:
        return type(body) is CommitOffsets and body.group_id in slot.shard.groups  # else one before may make the group

    def _new_slot(self, partition: Partition) -> GroupSlot:
        slot = super()._new_slot(partition)
        partition.on_transaction_ended = partial(self._transaction_ended, slot)
        return slot

    def _transaction_ended(self, slot: GroupSlot, ended: EndedTransaction) -> None:
        """The marker of a transaction is in a shard's log, which a shard that is being loaded will find there."""
        partition = slot.partition
        if self._slots.get(partition.index) is not slot or slot.loading or slot.failed:
            return
        if ended.last_offset >= partition.high_watermark:
            self._await_high_watermark(slot)
        self._step(
            slot, TransactionEnded(ended.producer_id, ended.committed, ended.last_offset, partition.high_watermark)
        )

    def _spared(self, slot: GroupSlot, key: TimerKey) -> int | None:
        if key[0] == "transactions" and TRANSACTION_TOPIC in self.state.topics:
            return self.clock.now_ms() + self.settings.open_transaction_timeout_ms  # their coordinator ends them
        return None if self.presence is None else self.presence.spares(slot.shard, key)

    def ask_others(self, slot: GroupSlot, ask: Ask) -> None:
        """Share groups ask the share coordinators."""
        assert self._persister is not None, "there are share coordinators where there are share groups"

        def answered(answers: list[Result]) -> None:
            if self._slots.get(slot.partition.index) is slot and ask.ticket in slot.shard.asked:
                self._step(slot, StateAnswered(ask.ticket, answers))

        self._persister().ask(ask.commands, answered)

    def lost(self, shard: Shard) -> None:
        """Its groups are no more."""
        shard.groups.clear()

    def begun(self, slot: GroupSlot) -> None:
        """Which settings groups have of their own."""
        for group_id in self.state.entity_configs[Entity.GROUP]:
            if self.partition_of(group_id) is slot.partition:
                self._step(slot, self._configured(group_id))

    def group_configured(self, group_id: str) -> None:
        """A group has other settings of its own than before: its shard is told."""
        partition = self.partition_of(group_id)
        slot = None if partition is None else self._slots.get(partition.index)
        if slot is not None and not slot.loading:
            self._step(slot, self._configured(group_id))

    def _configured(self, group_id: str) -> GroupConfigured:
        own = self.state.entity_configs[Entity.GROUP].get(group_id, {})
        return GroupConfigured(
            group_id, {field: _value(name, own[name]) for name, field in _GROUP_CONFIGS.items() if name in own}
        )

    def flush_requests(self, slot: GroupSlot, now_ms: int) -> None:
        """Commit what was collected."""
        commit_turn(self, slot, now_ms)

    # requests that come again and again

    def unchanged(self, shard: Shard, group_id: str, member_id: str) -> Callable[[], bool] | None:
        """For an answer to a member that hangs on nothing but its group, and was given at once: a function that returns True while the
        same request would be answered so again, and restarts the member's session; else it returns False and has done nothing. None
        where there is no such member, or somebody watches.

        ``Group.version`` and ``current_of`` are all that the group's requests are answered by; what is outside of the group - who
        coordinates, that nothing is on its way into the log, behind which answers wait - is looked at here.
        """
        group = shard.groups.get(group_id)
        session = None if group is None else group.session_of(member_id)
        if group is None or session is None or self.watch is not None or self.presence is not None:
            return None
        slot, state = self._slots[shard.partition], self.state
        armed = self._timers.armed((shard.partition, session[0]))
        if armed is None:
            return None
        version, state_version = group.version, state.version
        timeout_ms, now_ms, writes = session[1], self.clock.now_ms, shard.writes
        current, current_of = group.current_of(member_id), group.current_of

        def again() -> bool:
            if (
                group.version != version
                or (current is not None and current_of(member_id) is not current)
                or state.version != state_version
                or not armed.alive
                or slot.open
                or slot.turn
                or writes
            ):
                return False
            armed.deadline_ms = now_ms() + timeout_ms
            return True

        return again

    def heard_at_once(
        self, shard: Shard, group_id: str, member_id: str, answer: Callable[[Group], A | None]
    ) -> A | None:
        """The answer to a heartbeat that changes nothing but the end of the member's session: the group is asked, and the shard is not
        stepped. None, and nothing done, if ``answer(group)`` is None, if it has to wait for the log, or if events are observed."""
        group, slot = shard.groups.get(group_id), self._slots[shard.partition]
        if group is None or slot.open or slot.turn or shard.writes or shard.behind_writes:
            return None
        if self.watch is not None or self.presence is not None:
            return None
        answered = answer(group)
        session = None if answered is None else group.session_of(member_id)
        armed = None if session is None else self._timers.armed((shard.partition, session[0]))
        if session is None or armed is None:
            return None
        deadline_ms = self.clock.now_ms() + session[1]
        if deadline_ms < armed.deadline_ms:
            return None
        armed.deadline_ms = deadline_ms
        return answered

    def slot_of(self, shard: Shard) -> GroupSlot:
        """Where to :meth:`commit_later` for a shard that was located: its own as long as the state's version stays."""
        return self._slots[shard.partition]

    def commit_later(self, slot: GroupSlot, commit: LateCommit) -> None:
        """Collect a commit that repeats a layout for this turn; it is answered from :meth:`flush_turn`, or later where the log holds
        it up by then."""
        size_bytes = commit.layout.size_bytes
        if slot.open or slot.turn_bytes + size_bytes > slot.partition.log.config.max_message_bytes:
            self._flush(slot)
        if not slot.turn:
            self._dirty.append(slot)
        slot.turn.append(commit)
        slot.turn_bytes += size_bytes
        buggify = self.state.buggify
        if buggify is not None and buggify.fires("appends alone"):
            self._flush(slot)


def _value(name: str, text: str) -> int | tuple[str, ...]:
    """A setting of a group's own as the coordinator has it."""
    if name == "streams.rack.aware.assignment.tags":
        return tuple(tag.strip() for tag in text.split(",") if tag.strip())
    return int(text)


def _new_id(rng: random.Random) -> str:
    raw = rng.getrandbits(128)
    text = f"{raw & ~(0xF << 76) | (4 << 76):032x}"  # version 4, as Java's UUID.randomUUID
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def settings_of(config: BrokerConfig) -> Settings:
    """The coordinator's settings out of the broker's configs."""
    return Settings(
        policy=policy_of(config.coordinator, release(config.as_version)),
        initial_rebalance_delay_ms=config.int("group.initial.rebalance.delay.ms"),
        min_session_timeout_ms=config.int("group.min.session.timeout.ms"),
        max_session_timeout_ms=config.int("group.max.session.timeout.ms"),
        max_group_size=config.int("group.max.size"),
        commit_timeout_ms=config.int("offsets.commit.timeout.ms"),
        offsets_retention_ms=config.int("offsets.retention.minutes") * 60_000,
        offsets_retention_check_interval_ms=config.int("offsets.retention.check.interval.ms"),
        reads_later_records=release(config.as_version) >= (3, 5),
        consumer=_consumer_settings(config) if config.has_consumer_protocol else ConsumerSettings(),
        share=_share_settings(config) if config.has_share_groups else ShareSettings(),
        streams=_streams_settings(config) if config.has_streams_groups else StreamsSettings(),
    )


def _consumer_settings(config: BrokerConfig) -> ConsumerSettings:
    named = {
        name.rpartition(".")[2].removesuffix("Assignor").lower(): None
        for name in config.list("group.consumer.assignors")
    }
    return ConsumerSettings(
        session_timeout_ms=config.int("group.consumer.session.timeout.ms"),
        heartbeat_interval_ms=config.int("group.consumer.heartbeat.interval.ms"),
        assignment_interval_ms=(config.int("group.consumer.assignment.interval.ms") if config.release >= (4, 3) else 0),
        max_size=config.int("group.consumer.max.size"),
        assignors=tuple(name for name in named if name in ASSIGNORS) or ("uniform", "range"),
        migration_policy=config.str("group.consumer.migration.policy").lower(),
    )


def _share_settings(config: BrokerConfig) -> ShareSettings:
    return ShareSettings(
        session_timeout_ms=config.int("group.share.session.timeout.ms"),
        heartbeat_interval_ms=config.int("group.share.heartbeat.interval.ms"),
        assignment_interval_ms=config.int("group.share.assignment.interval.ms") if config.release >= (4, 3) else 0,
        max_size=config.int("group.share.max.size"),
    )


def _streams_settings(config: BrokerConfig) -> StreamsSettings:
    return StreamsSettings(
        session_timeout_ms=config.int("group.streams.session.timeout.ms"),
        heartbeat_interval_ms=config.int("group.streams.heartbeat.interval.ms"),
        assignment_interval_ms=config.int("group.streams.assignment.interval.ms") if config.release >= (4, 3) else 0,
        initial_rebalance_delay_ms=config.int("group.streams.initial.rebalance.delay.ms"),
        standby_replicas=config.int("group.streams.num.standby.replicas"),
        max_size=config.int("group.streams.max.size"),
        rack_aware_tags=(
            tuple(config.list("group.streams.rack.aware.assignment.tags")) if config.release >= (4, 4) else ()
        ),
    )
