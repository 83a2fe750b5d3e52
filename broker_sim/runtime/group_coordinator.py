"""The group coordinators of a cluster: `CoordinatorRuntime` for ``__consumer_offsets``, with fast paths for groups.

1. OffsetCommits of one iteration of the event loop are appended as one batch (if the policy shares batches); those that repeat a layout
   are queued before their checks (``commit_batching``).
2. A request that repeats the last one and changes nothing, as Heartbeats do, costs no event (``unchanged``).
3. While a manual clock is advanced, the sessions of members that could send heartbeats are extended (``session_keepalive``).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from broker_sim.common.chance import Chance
from broker_sim.config.settings import BrokerConfig
from broker_sim.coordinator.assignors import ASSIGNORS
from broker_sim.coordinator.group import Group
from broker_sim.coordinator.loader import Loader
from broker_sim.coordinator.outcome import (
    NO_PRODUCER,
    AllocateProducerId,
    CommitOffsets,
    GroupConfigured,
    Offset,
    PersisterRequest,
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
from broker_sim.runtime.commit_batching import BatchedCommit, flush_commits
from broker_sim.runtime.coordinator_kind import CoordinatorKind
from broker_sim.runtime.coordinator_runtime import CoordinatorRuntime
from broker_sim.runtime.journal_observer import GroupObserver
from broker_sim.runtime.session_keepalive import SessionKeepAlive, timer_text
from broker_sim.runtime.shard_context import ShardContext
from broker_sim.storage import partition_for
from broker_sim.storage.producer_state import EndedTransaction
from kafka_wire.api_keys import release
from kafka_wire.remembered import remembered

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
    "streams.task.offset.interval.ms": "streams task_offset_interval_ms",
    "streams.acceptable.recovery.lag": "streams acceptable_recovery_lag",
}
"""Settings of a group by Kafka's names -> those of `ConsumerSettings`, with ``share`` before them of `ShareSettings`, and with
``streams`` of `StreamsSettings`."""

_AT_ONCE = -1
"""The token of requests whose answer is read from the outcome, or that have no answer."""

partition_of = remembered(entries=16384)(partition_for)

GroupShardContext = ShardContext[Shard]


class GroupCoordinator(CoordinatorRuntime[Shard]):
    """The group coordinators of a cluster's brokers. ``chance`` gives the random part of member ids, from a source for each partition,
    so that joins of one partition don't change the ids of another."""

    observer: GroupObserver | None

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
        """Offsets that OffsetCommit v0 stored (in Kafka in ZooKeeper), by group, topic and partition; only OffsetFetch v0 reads it."""
        self.failed_internal_topics: dict[str, str] = {}
        """Internal topics of streams groups that could not be created: name -> why, until one could be."""
        self.coming_internal_topics: set[str] = set()
        """Internal topics that are being created, in pieces."""
        self.keepalive: SessionKeepAlive | None = None
        """Extends sessions while a manual clock is advanced; None for clocks that move by themselves."""

    def observe(self, observer: GroupObserver) -> None:
        """Report every step to ``observer`` from now on, and first the present groups."""
        self._flush_dirty()
        self.observer = observer
        for context in self._contexts.values():
            observer.look(context.shard, context.partition.name, list(context.shard.groups), {"kind": "load"})

    def keep_members_alive(self, is_open: Callable[[Any], bool]) -> None:
        """Extend sessions while a manual clock is advanced (``session_keepalive``). ``is_open``: whether a connection is open."""
        keepalive = self.keepalive = SessionKeepAlive(is_open, self.loaded, self._timers)
        self.request_hook = lambda context, request, ctx: keepalive.on_request(
            context.shard, request.body, ctx, partial(self._step, context, request)
        )

    def pending(self, partition: Partition) -> int:
        """Number of requests that wait until appends to an offsets partition are committed."""
        context = self._contexts.get(partition.index)
        if context is None or context.partition is not partition:
            return 0
        writes = context.shard.writes.values()
        waiting = {
            token for write in writes for token in getattr(write, "tokens", (write.token,)) if token in self._tokens
        }
        for group in context.shard.classic_groups() if context.shard.writes else ():
            waiting |= {m.sync_token for m in group.members.values() if m.sync_token in self._tokens}
        return len(waiting)

    def timer_text(self, index: int, key: TimerKey) -> str:
        """As in ``session of consumer-1 in billing``."""
        return timer_text(index, key, self.shard(index))

    # overrides of the runtime

    def _shares(self, body: object) -> bool:
        return type(body) is CommitOffsets and body.producer is NO_PRODUCER

    def _may_wait(self, context: GroupShardContext, body: object) -> bool:
        return (
            type(body) is CommitOffsets and body.group_id in context.shard.groups
        )  # else an earlier request may create the group

    def _new_context(self, partition: Partition) -> GroupShardContext:
        context = super()._new_context(partition)
        partition.on_transaction_ended = partial(self._transaction_ended, context)
        return context

    def _transaction_ended(self, context: GroupShardContext, ended: EndedTransaction) -> None:
        """Report the marker of a transaction in the shard's log; a loading shard reads it there."""
        partition = context.partition
        if self._contexts.get(partition.index) is not context or context.loading or context.failed:
            return
        if ended.last_offset >= partition.high_watermark:
            self._await_high_watermark(context)
        self._step(
            context, TransactionEnded(ended.producer_id, ended.committed, ended.last_offset, partition.high_watermark)
        )

    def _postponed_deadline(self, context: GroupShardContext, key: TimerKey) -> int | None:
        if key[0] == "transactions" and TRANSACTION_TOPIC in self.state.topics:
            return (
                self.clock.now_ms() + self.settings.open_transaction_timeout_ms
            )  # the transaction coordinator ends them
        return None if self.keepalive is None else self.keepalive.postponed_deadline(context.shard, key)

    def ask_elsewhere(self, context: GroupShardContext, request: PersisterRequest | AllocateProducerId) -> None:
        """Send a share group's request to the share coordinators."""
        assert isinstance(request, PersisterRequest)
        assert self._persister is not None, "share groups need share coordinators"

        def answered(answers: list[Result]) -> None:
            if (
                self._contexts.get(context.partition.index) is context
                and request.ticket in context.shard.persister_callbacks
            ):
                self._step(context, StateAnswered(request.ticket, answers))

        self._persister().ask(request.commands, answered)

    def discard(self, shard: Shard) -> None:
        """Discard the shard's groups: it is unloaded, and a later load reads them from the log."""
        shard.groups.clear()

    def on_started(self, context: GroupShardContext) -> None:
        """Pass the groups' own settings to their shard."""
        for group_id in self.state.entity_configs[Entity.GROUP]:
            if self.partition_of(group_id) is context.partition:
                self._step(context, self._configured(group_id))

    def group_configured(self, group_id: str) -> None:
        """Pass the changed settings of a group to its shard."""
        partition = self.partition_of(group_id)
        context = None if partition is None else self._contexts.get(partition.index)
        if context is not None and not context.loading:
            self._step(context, self._configured(group_id))

    def _configured(self, group_id: str) -> GroupConfigured:
        own = self.state.entity_configs[Entity.GROUP].get(group_id, {})
        return GroupConfigured(
            group_id, {field: _value(name, own[name]) for name, field in _GROUP_CONFIGS.items() if name in own}
        )

    def flush_requests(self, context: GroupShardContext, now_ms: int) -> None:
        """Append and answer the queued commits."""
        flush_commits(self, context, now_ms)

    # repeated requests

    def unchanged(self, shard: Shard, group_id: str, member_id: str) -> Callable[[], bool] | None:
        """For an answer that depends only on the member's group and was given at once: a function that restarts the member's session
        and returns True while the same request would get the same answer; otherwise it returns False and does nothing. None if
        the member is unknown, its answer can change without it (``Group.repeats``), or an observer or a keep-alive is set.

        ``Group.version`` and ``current_of`` cover all changes of the group that can change its answers. The rest is checked here: the
        coordinator is the same, and no write is pending, which answers would wait for.
        """
        group = shard.groups.get(group_id)
        session = None if group is None else group.session_of(member_id)
        if group is None or session is None or self.observer is not None or self.keepalive is not None:
            return None
        if not group.repeats(member_id):
            return None
        context, state = self._contexts[shard.partition], self.state
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
                or context.open_batch
                or context.queued_requests
                or writes
            ):
                return False
            armed.deadline_ms = now_ms() + timeout_ms
            return True

        return again

    def heartbeat_at_once(
        self, shard: Shard, group_id: str, member_id: str, answer: Callable[[Group], A | None]
    ) -> A | None:
        """Answer a heartbeat that extends the member's session and changes nothing else, without a step of the shard. Returns None and
        does nothing if ``answer(group)`` is None or must wait for the log, or if an observer or a keep-alive is set."""
        group, context = shard.groups.get(group_id), self._contexts[shard.partition]
        if group is None or context.open_batch or context.queued_requests or shard.writes or shard.answers_wait:
            return None
        if self.observer is not None or self.keepalive is not None:
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

    def context_of(self, shard: Shard) -> GroupShardContext:
        """The context of a located shard, for :meth:`queue_commit`; valid while ``ClusterState.version`` is the same."""
        return self._contexts[shard.partition]

    def queue_commit(self, context: GroupShardContext, commit: BatchedCommit) -> None:
        """Queue a commit that repeats a layout. It is answered from :meth:`flush_batches`, or later if its records are not committed by
        then."""
        size_bytes = commit.layout.size_bytes
        if context.open_batch or context.queued_bytes + size_bytes > context.partition.log.config.max_message_bytes:
            self._flush(context)
        if not context.queued_requests:
            self._dirty.append(context)
        context.queued_requests.append(commit)
        context.queued_bytes += size_bytes
        buggify = self.state.buggify
        if buggify is not None and buggify.fires("appends alone"):
            self._flush(context)


def _value(name: str, text: str) -> int | tuple[str, ...]:
    """The value of a group's own setting, parsed for the coordinator."""
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
        regex_refresh_interval_ms=(
            config.int("group.consumer.regex.refresh.interval.ms") if config.release >= (4, 1) else None
        ),
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
        **(
            {
                "task_offset_interval_ms": config.int("group.streams.task.offset.interval.ms"),
                "acceptable_recovery_lag": config.int("group.streams.acceptable.recovery.lag"),
            }
            if config.release >= (4, 4)
            else {}
        ),
    )
