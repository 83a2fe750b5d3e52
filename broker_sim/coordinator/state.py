"""The state of a group coordinator's shard, and its writes: what the modules for requests of groups share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from broker_sim.coordinator.classic.group import ClassicGroup
from broker_sim.coordinator.group import Group
from broker_sim.coordinator.outcome import Append, PersisterRequest
from broker_sim.coordinator.pending import LogShard, PendingWrite
from broker_sim.coordinator.policy import Policy, Settings
from broker_sim.coordinator.records import Record, encode
from broker_sim.coordinator.share_state.commands import Command, Result
from broker_sim.coordinator.store import GroupStore
from broker_sim.coordinator.topics import Topics
from kafka_wire.codec import EncodeError
from kafka_wire.errors import NO_ERROR, Err


class Write(PendingWrite["ShardState"]):
    """A pending write of records of groups: ``done`` replays them, ``failed`` answers with the mapped error. Subclasses add what their
    request needs; ``answer`` is its answer on success."""

    __slots__ = ("answer", "any_isr", "records")
    mergeable = False

    def __init__(self, token: int | None, records: list[Record], answer: Any = NO_ERROR) -> None:
        self.token, self.records, self.answer = token, records, answer
        self.last_offset = -1
        self.any_isr = False  # tombstones that no request waits for are appended with acks=0

    def append(self, ticket: int, policy: Policy) -> Append:
        """The append of its encoded records."""
        records = [encode(record, policy.commit_value_version) for record in self.records]
        base_sequence = 0 if self.mergeable else policy.group_record_sequence
        return Append(ticket, records, self.mergeable and policy.shares_batches, base_sequence, any_isr=self.any_isr)

    def done(self, shard: ShardState) -> None:
        """Publish the committed records and answer the request."""
        self.publish(shard)
        shard.reply(self.token, self.answer)

    def publish(self, shard: ShardState) -> None:
        """Replay the records into the store."""
        replay = shard.store.replay
        if not shard.store.transactions:  # positions are only needed to order commits and transactions
            for record in self.records:
                replay(record)
            return
        for at, record in enumerate(self.records, self.last_offset + 1 - self.count):
            replay(record, at)

    @property
    def count(self) -> int:
        return len(self.records)

    def counts_in_log(self, shard: ShardState) -> bool:
        return shard.settings.policy.late_append_is_published

    def failed(self, shard: ShardState, error: Err) -> None:
        """Answer the request with the error, mapped for the client."""
        shard.reply(self.token, self.failure(shard.settings.policy.commit_errors.get(error, error)))

    def failure(self, error: Err) -> Any:
        """The response for ``error``, which is already mapped for the client; a write whose response is not the bare error
        overrides it."""
        return error


class DeferredReply(Write):
    """An answer that waits until all earlier writes are committed (Kafka: purgatory). ``refusal(error)`` makes the answer if they fail;
    None: it is the error itself. ``error`` is mapped for the client."""

    __slots__ = ("refusal",)

    def __init__(self, token: int, answer: Any, refusal: Callable[[Err], Any] | None = None) -> None:
        super().__init__(token, [], answer)
        self.refusal = refusal

    def counts_in_log(self, shard: ShardState) -> bool:
        return False

    def failure(self, error: Err) -> Any:
        return error if self.refusal is None else self.refusal(error)


class DeferredMemberRequest(DeferredReply):
    """A deferred JoinGroup or SyncGroup of a member that also waits for earlier writes. When these are committed it keeps waiting for
    its group; if they fail or time out it is answered with the error."""

    __slots__ = ("group_id",)

    def __init__(self, group_id: str, token: int) -> None:
        super().__init__(token, None)
        self.group_id = group_id

    def done(self, shard: ShardState) -> None:
        """Keep waiting for the group."""


class PersisterCallback(Protocol):
    """An operation that continues when the share coordinators have answered."""

    def answered(self, shard: ShardState, answers: Sequence[Result]) -> None:
        """Continue with the answers, in the order of the commands."""


@dataclass(slots=True, eq=False)
class ShardState(LogShard[Write]):
    """The state of one offsets partition's coordinator. ``new_id`` returns the random part of a member id."""

    partition: int
    settings: Settings
    new_id: Callable[[], str]
    store: GroupStore = field(init=False)
    groups: dict[str, Group] = field(init=False)  # the store's
    topics: Topics = field(default_factory=Topics)
    group_configs: dict[str, Mapping[str, Any]] = field(default_factory=dict)  # the groups' own settings
    persister_callbacks: dict[int, PersisterCallback] = field(
        default_factory=dict
    )  # ticket -> operation that waits for the share coordinators
    resolving: dict[str, None] = field(default_factory=dict)  # groups whose expressions are to be resolved, in order

    def __post_init__(self) -> None:
        self.take_over(GroupStore(self.settings.policy))

    def take_over(self, store: GroupStore) -> None:
        """Use the store that was built from the log."""
        self.store, self.groups = store, store.groups

    def classic(self, group_id: str) -> ClassicGroup | None:
        """The group of that id if it is a classic group, else None."""
        group = self.groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def classic_groups(self) -> list[ClassicGroup]:
        return [group for group in self.groups.values() if isinstance(group, ClassicGroup)]

    def consumer_setting(self, group_id: str, name: str) -> int:
        """A setting of a consumer group, by the name of the field of `ConsumerSettings`: its own, else the broker's."""
        value: int = getattr(self.settings.consumer, name)
        own = self.group_configs.get(group_id) if self.group_configs else None
        return value if own is None else own.get(name, value)

    def share_setting(self, group_id: str, name: str) -> int:
        """A setting of a share group, by the name of the field of `ShareSettings`: its own, else the broker's."""
        own = self.group_configs.get(group_id)
        value: int = getattr(self.settings.share, name)
        return value if own is None else own.get(f"share {name}", value)

    def streams_setting(self, group_id: str, name: str) -> Any:
        """A setting of a streams group, by the name of the field of `StreamsSettings`: its own, else the broker's."""
        own = self.group_configs.get(group_id)
        value = getattr(self.settings.streams, name)
        return value if own is None else own.get(f"streams {name}", value)

    def ask_persister(self, commands: Sequence[Command], callback: PersisterCallback) -> None:
        """Send commands to the share coordinators; ``callback`` continues with their answers."""
        ticket = self.ticket()
        self.persister_callbacks[ticket] = callback
        self.out.requests = [*self.out.requests, PersisterRequest(ticket, commands)]

    @property
    def append_timeout_ms(self) -> int:
        return self.settings.commit_timeout_ms

    def answer(self, token: int, answer: Any, refusal: Callable[[Err], Any] | None = None) -> None:
        """Answer a request that could write: at once, or, if the policy says so, after all earlier writes are committed."""
        if self.answers_wait:
            self.defer(DeferredReply(token, answer, refusal))
        else:
            self.out.replies.append((token, answer))

    @property
    def answers_wait(self) -> bool:
        """Whether answers must wait for earlier writes."""
        return self.is_behind and self.settings.policy.answers_wait_for_writes

    def write(self, write: Write) -> None:
        """Request the append of a write's records. The write is completed by its ticket, when the log has committed or refused
        them; after this step, if a record can't be written: a text is too long for its field."""
        ticket = self.ticket()
        self.writes[ticket] = write
        try:
            self.out.appends.append(write.append(ticket, self.settings.policy))
        except EncodeError:
            self.arm(("unwritable", ticket), 0)

    def remove_group(self, group: Group) -> None:
        """Delete a group ahead of its tombstone. If the tombstone is awaited, readers of committed state still see the group."""
        if self.settings.policy.tombstones_are_awaited:
            self.store.replace(group, None)
        else:
            self.store.discard(group)
