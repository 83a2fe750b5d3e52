"""What the rooms of the core share: a shard's state, the ways to act on the world, and writes that wait for the log."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from broker_sim.coordinator.classic.group import ClassicGroup
from broker_sim.coordinator.group import Group
from broker_sim.coordinator.outcome import Append, Ask, Outcome, TimerKey
from broker_sim.coordinator.policy import Policy, Settings
from broker_sim.coordinator.records import Record, encode
from broker_sim.coordinator.share_state.commands import Command, Result
from broker_sim.coordinator.store import GroupStore
from broker_sim.coordinator.topics import Topics
from kafka_wire.errors import Err


class Write:
    """The common part: ``done`` replays the records, ``failed`` answers the mapped error. Subclasses add what their request needs.

    ``token`` is the request that waits, None for nobody's; ``answer`` what it is told when all went well. A write whose timeout was
    answered may still be taken by the log: ``token`` is None then, and ``done`` only replays.
    """

    __slots__ = ("answer", "any_isr", "last_offset", "records", "token")
    mergeable = False

    def __init__(self, token: int | None, records: list[Record], answer: Any = Err.NONE) -> None:
        self.token, self.records, self.answer = token, records, answer
        self.last_offset = -1
        self.any_isr = False  # tombstones that nobody waits for are appended with acks=0

    def append(self, ticket: int, policy: Policy) -> Append:
        """What goes to the log."""
        records = [encode(record, policy.commit_value_version) for record in self.records]
        base_sequence = 0 if self.mergeable else policy.group_record_sequence
        return Append(ticket, records, self.mergeable and policy.shares_batches, base_sequence, any_isr=self.any_isr)

    def done(self, shard: ShardState) -> None:
        """The records are committed."""
        self.publish(shard)
        shard.reply(self.token, self.answer)

    def publish(self, shard: ShardState) -> None:
        """What the log has counts from here on."""
        replay = shard.store.replay
        if not shard.store.transactions:  # nobody asks which of two commits is the later one
            for record in self.records:
                replay(record)
            return
        for at, record in enumerate(self.records, self.last_offset + 1 - self.count):
            replay(record, at)

    @property
    def count(self) -> int:
        """How many records it has; the last of them is at ``last_offset``, once the log has them."""
        return len(self.records)

    def failed(self, shard: ShardState, error: Err) -> None:
        """The records were not written, or not in time (REQUEST_TIMED_OUT: the log may have them yet); ``error`` is the log's own."""
        self.refuse(shard, error)
        if error is not Err.REQUEST_TIMED_OUT:
            self.revert(shard)

    def revert(self, shard: ShardState) -> None:
        """Undo what was changed ahead of the log."""

    def refuse(self, shard: ShardState, error: Err) -> None:
        """Tell who waits."""
        shard.reply(self.token, self.failure(shard.settings.policy.commit_errors.get(error, error)))

    def failure(self, error: Err) -> Any:
        """The answer that carries ``error``."""
        return error


class Held(Write):
    """Nothing to write, but an answer that waits until all that was written before it is committed. ``refusal(error)`` is the answer
    where that fails, None where it is the error itself; ``error`` is the client's."""

    __slots__ = ("refusal",)

    def __init__(self, token: int, answer: Any, refusal: Callable[[Err], Any] | None = None) -> None:
        super().__init__(token, [], answer)
        self.refusal = refusal

    def failure(self, error: Err) -> Any:
        return error if self.refusal is None else self.refusal(error)


class HeldParked(Held):
    """A JoinGroup or SyncGroup that is parked in its member while it is behind uncommitted writes: committed, it waits on for its
    group; where they fail or are late it is cut off."""

    __slots__ = ("group_id",)

    def __init__(self, group_id: str, token: int) -> None:
        super().__init__(token, None)
        self.group_id = group_id

    def done(self, shard: ShardState) -> None:
        """It waits for nothing but its group now."""


class Asking(Protocol):
    """What goes on when the share coordinators have answered."""

    def answered(self, shard: ShardState, answers: Sequence[Result]) -> None:
        """They have, in the order in which they were asked."""


@dataclass(slots=True, eq=False)
class ShardState:
    """What one offsets partition's coordinator knows. ``new_id`` yields the random part of member ids."""

    partition: int
    settings: Settings
    new_id: Callable[[], str]
    store: GroupStore = field(init=False)
    groups: dict[str, Group] = field(init=False)  # the store's
    writes: dict[int, Write] = field(default_factory=dict)  # by ticket, in the order of their append
    high_watermark: int = 0
    last_written: int = -1  # the offset of the last record that the log has taken
    unplaced: list[int] = field(default_factory=list)  # tickets of Held that wait for an append of this very step
    now_ms: int = 0
    out: Outcome = field(default_factory=Outcome)
    next_ticket: int = 0
    topics: Topics = field(default_factory=Topics)
    group_configs: dict[str, Mapping[str, Any]] = field(default_factory=dict)  # what groups have of their own
    asked: dict[int, Asking] = field(default_factory=dict)  # by ticket: what waits for the share coordinators

    def __post_init__(self) -> None:
        self.take_over(GroupStore(self.settings.policy))

    def take_over(self, store: GroupStore) -> None:
        """What the log has made is this shard's from here on."""
        self.store, self.groups = store, store.groups

    def classic(self, group_id: str) -> ClassicGroup | None:
        """The group of that id, if there is one and it is a classic one."""
        group = self.groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def classic_groups(self) -> list[ClassicGroup]:
        """Those of all its groups that are classic ones."""
        return [group for group in self.groups.values() if isinstance(group, ClassicGroup)]

    def consumer_setting(self, group_id: str, name: str) -> int:
        """A setting of a consumer group, by the name of the field of `ConsumerSettings`: its own, else the broker's."""
        own = self.group_configs.get(group_id)
        value: int = getattr(self.settings.consumer, name)
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

    def ask(self, commands: Sequence[Command], asking: Asking) -> None:
        """Ask the share coordinators; ``asking`` goes on when they have answered."""
        ticket = self.next_ticket
        self.next_ticket += 1
        self.asked[ticket] = asking
        self.out.asks = [*self.out.asks, Ask(ticket, commands)]

    @property
    def in_flight(self) -> bool:
        """Whether anything is appended and not committed, or waits for that."""
        return bool(self.writes)

    def reply(self, token: int | None, answer: Any) -> None:
        """Answer a request; None is a request that was answered before, or nobody's."""
        if token is not None:
            self.out.replies.append((token, answer))

    def answer(self, token: int, answer: Any, refusal: Callable[[Err], Any] | None = None) -> None:
        """Answer a request that could write: at once, or where the policy says so behind what was written before."""
        if self.behind_writes:
            self.hold(Held(token, answer, refusal))
        else:
            self.out.replies.append((token, answer))

    @property
    def behind_writes(self) -> bool:
        """Whether answers wait now."""
        if self.last_written < self.high_watermark and not self.out.appends:
            return False
        return self.settings.policy.answers_wait_for_writes

    def hold(self, held: Write) -> None:
        """Let ``held`` wait for the append of this step, else for the last one before."""
        ticket = self.next_ticket
        self.next_ticket += 1
        self.writes[ticket] = held
        if self.out.appends:
            self.unplaced.append(ticket)
        else:
            held.last_offset = self.last_written
            self.arm(("append", ticket), self.settings.commit_timeout_ms)

    def arm(self, key: TimerKey, delay_ms: int) -> None:
        """Arm a timer, or move it."""
        self.out.timers.append((key, self.now_ms + delay_ms))

    def cancel(self, key: TimerKey) -> None:
        """Disarm a timer, if it is armed."""
        self.out.timers.append((key, None))

    def write(self, write: Write) -> None:
        """Hand a write's records to the log."""
        ticket = self.next_ticket
        self.next_ticket += 1
        self.out.appends.append(write.append(ticket, self.settings.policy))
        self.writes[ticket] = write

    def remove_group(self, group: Group) -> None:
        """A group goes, ahead of its tombstone: where that is awaited who reads what is committed still sees it."""
        if self.settings.policy.tombstones_are_awaited:
            self.store.bury(group)
        else:
            self.store.forget(group)
