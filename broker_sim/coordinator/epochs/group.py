"""An epoch-based group as the shard sees it: `EpochGroup`, on which each kind's own is."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Self, TypeVar

from broker_sim.coordinator.epochs.metadata_hash import metadata_hash
from broker_sim.coordinator.epochs.reconcile import UNREVOKED, Current
from broker_sim.coordinator.epochs.state import EpochState, Layout
from broker_sim.coordinator.group import Group
from broker_sim.coordinator.outcome import TimerKey
from broker_sim.coordinator.policy import Policy
from broker_sim.coordinator.records import EpochRecord
from broker_sim.coordinator.topics import Topics
from kafka_wire.errors import Err
from kafka_wire.group_states import GroupState
from kafka_wire.messages.k15_describe_groups import DescribedGroup

S = TypeVar("S", bound=EpochState[Any, Any])


@dataclass(slots=True, eq=False)
class EpochGroup(Group, Generic[S]):
    """``stored`` is hard state; ``latest`` and the rest are working state. ``session_timeout_ms``: of its members, as of their last
    request. Each kind names the class of its ``states``, and the ``layout`` and types of its records."""

    states: ClassVar[type[Any]]
    layout: ClassVar[Layout[Any]]
    record_types: ClassVar[frozenset[int]]
    """The types of its records (`kafka_wire.offsets_log` has their names)."""
    answers_are_independent: ClassVar[bool] = True
    """Whether a member's responses do not depend on the epochs and assignments of others, once it has reached the target epoch."""

    stored: S = field(kw_only=True)
    latest: S = field(kw_only=True)
    session_timeout_ms: int = 45_000
    assignor: str | None = None  # which one made the target
    ended: bool = False
    _hashed: tuple[S, int, int, int] | None = None  # of which subscriptions and topics the hash is, and it

    @classmethod
    def made(cls, group_id: str, policy: Policy) -> Self:
        """Create a group of which no record is known."""
        stored, latest = (cls.states(cls.layout, policy.first_epoch) for _ in range(2))
        stored.counts_names = False
        return cls(group_id, stored=stored, latest=latest)

    @staticmethod
    @abstractmethod
    def is_read(policy: Policy) -> bool:
        """Whether a release reads its records."""

    @property
    def is_dead(self) -> bool:
        return self.ended

    @property
    def is_empty(self) -> bool:
        return not self.latest.members

    @property
    def is_idle(self) -> bool:
        return not self.latest.members

    @property
    def state_name(self) -> str:
        return state_name(self.stored)

    def session_of(self, member_id: str) -> tuple[TimerKey, int] | None:
        if member_id not in self.latest.members:
            return None
        return session_key(self.group_id, member_id), self.session_timeout_ms

    def timers_of(self, member_id: str) -> list[tuple[TimerKey, int]]:
        """The timers that run for a member, with their times in ms."""
        session = self.session_of(member_id)
        timers = [] if session is None else [session]
        if self.latest.current(member_id).state is UNREVOKED:
            timeout_ms: int = self.latest.members[member_id].rebalance_timeout_ms
            timers.append((revocation_key(self.group_id, member_id), timeout_ms))
        return timers

    def resume(self) -> bool:
        """Set the latest state to the stored one."""
        self.latest = self.stored.copy()
        return self.stored.is_known

    def end(self) -> None:
        self.ended = True
        self.version += 1

    def current_of(self, member_id: str) -> Current[Any] | None:
        return self.latest.currents.get(member_id)

    def apply(self, record: EpochRecord) -> None:
        """Apply a record to ``latest``. ``version`` does not count that a member's epoch or assignment follows another one."""
        is_own = record.type == self.layout.current and record.value is not None
        if not (is_own and self.answers_are_independent) or record.key.member_id not in self.latest.currents:
            self.version += 1
        self.latest.replay(record)

    def repeats(self, member_id: str) -> bool:
        """Whether the response to a request that says nothing new stays the same; not for a member that waits for partitions, as other
        members release them."""
        return self.is_settled and self.latest.current(member_id).is_at(self.latest.target_epoch)

    def described(self, policy: Policy) -> DescribedGroup:
        """An error row of DescribeGroups: it is no classic group."""
        return DescribedGroup(
            error_code=Err.GROUP_ID_NOT_FOUND,
            error_message=f"Group {self.group_id} is not a classic group.",
            group_id=self.group_id,
            group_state=GroupState.DEAD.value,
        )

    def metadata_hash(self, topics: Topics) -> int:
        """The metadata hash of the topics that the group reads."""
        latest = self.latest
        if self._hashed is not None and self._hashed[:3] == (latest, latest.subscription_version, topics.version):
            return self._hashed[3]
        value = metadata_hash(latest.topics(), topics)
        self._hashed = (latest, latest.subscription_version, topics.version, value)
        return value

    @property
    @abstractmethod
    def is_settled(self) -> bool:
        """Whether a repeated heartbeat changes nothing, however much time passes."""


def session_key(group_id: str, member_id: str) -> TimerKey:
    """The timer of a member's session."""
    return ("session", group_id, member_id)


def revocation_key(group_id: str, member_id: str) -> TimerKey:
    """The timer of a member that has been asked to revoke something."""
    return ("revocation", group_id, member_id)


def state_name(state: EpochState[Any, Any]) -> str:
    """Kafka's name of where a group is."""
    if not state.members:
        return "Empty"
    if state.group_epoch > state.target_epoch:
        return "Assigning"
    if all(state.current(member_id).is_at(state.target_epoch) for member_id in state.members):
        return "Stable"
    return "Reconciling"
