"""A classic group and its members: state, and the tables of the responses in each state.

The states are Kafka's; ``TRANSITIONS`` lists where each may come from (GroupState.scala, ClassicGroupState.java). A group holds no
timers and no callbacks: timers are keyed by ids, deferred requests are tokens in the members.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import ClassVar

from broker_sim.coordinator.classic.vote import ORDERS, winner
from broker_sim.coordinator.group import Group
from broker_sim.coordinator.outcome import NO_PRODUCER, CommitOffsets, Offset, TimerKey
from broker_sim.coordinator.policy import Policy
from broker_sim.coordinator.records import GroupRecord, Record
from kafka_wire.consumer_protocol import subscribed_topics
from kafka_wire.errors import NO_ERROR, Err
from kafka_wire.group_states import GroupState
from kafka_wire.messages.k11_join_group import JoinGroupRequestProtocol, JoinGroupResponseMember
from kafka_wire.messages.k15_describe_groups import DescribedGroup, DescribedGroupMember
from kafka_wire.messages.offsets_log import GroupMetadataValue, MemberMetadata

NO_MEMBER = ""
NO_GENERATION = -1
ANSWERED_STILL_COUNTED = -2
"""The token of a deferred request that was answered with an error but that the coordinator still counts as waiting."""


State = GroupState
EMPTY, PREPARING_REBALANCE, COMPLETING_REBALANCE, STABLE, DEAD = State
"""The states as names of the module: as attributes of their class they cost as much as a call (see `kafka_wire.errors.NO_ERROR`)."""

TRANSITIONS: dict[State, tuple[State, ...]] = {
    EMPTY: (PREPARING_REBALANCE,),
    PREPARING_REBALANCE: (STABLE, COMPLETING_REBALANCE, EMPTY),
    COMPLETING_REBALANCE: (PREPARING_REBALANCE,),
    STABLE: (COMPLETING_REBALANCE,),
    DEAD: (STABLE, PREPARING_REBALANCE, COMPLETING_REBALANCE, EMPTY, DEAD),
}
"""State -> the states it may be entered from."""

HEARTBEAT_ANSWER: dict[State, Err] = {
    EMPTY: Err.UNKNOWN_MEMBER_ID,
    PREPARING_REBALANCE: Err.REBALANCE_IN_PROGRESS,
    COMPLETING_REBALANCE: NO_ERROR,
    STABLE: NO_ERROR,
    DEAD: Err.COORDINATOR_NOT_AVAILABLE,
}
"""The answer to a Heartbeat of a member with the right generation."""

SYNC_ANSWER: dict[State, Err] = {
    EMPTY: Err.UNKNOWN_MEMBER_ID,
    PREPARING_REBALANCE: Err.REBALANCE_IN_PROGRESS,
    COMPLETING_REBALANCE: NO_ERROR,  # deferred until the leader's assignment is stored
    STABLE: NO_ERROR,  # the present assignment
    DEAD: Err.COORDINATOR_NOT_AVAILABLE,
}
"""The answer to a SyncGroup of a member with the right generation and protocol."""

COMMIT_ANSWER: dict[State, Err] = {
    EMPTY: NO_ERROR,
    PREPARING_REBALANCE: NO_ERROR,
    COMPLETING_REBALANCE: Err.REBALANCE_IN_PROGRESS,
    STABLE: NO_ERROR,
    DEAD: Err.COORDINATOR_NOT_AVAILABLE,
}
"""The answer to an OffsetCommit whose member and generation are right (doCommitOffsets)."""


@dataclass(slots=True, eq=False)
class Member:
    """A member of a group. ``join_token`` and ``sync_token`` are its deferred requests; the ``join_version`` is the API version of the
    last JoinGroup, which its answer must fit."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: list[tuple[str, bytes]]
    assignment: bytes = b""
    join_token: int | None = None
    join_version: int = 9
    sync_token: int | None = None
    is_new: bool = False

    def metadata(self, protocol: str | None) -> bytes:
        """The member's metadata for ``protocol``; b"" if it doesn't support it."""
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        return b""

    def matches(self, protocols: list[JoinGroupRequestProtocol]) -> bool:
        """Whether these protocols are those of the member's last JoinGroup (MemberMetadata.matches)."""
        return self.protocols == [(protocol.name, protocol.metadata) for protocol in protocols]

    @property
    def has_deferred_request(self) -> bool:
        """Whether a JoinGroup or SyncGroup of it is deferred: its session can't expire then, unless the member is new."""
        return self.join_token is not None or self.sync_token is not None


@dataclass(slots=True, eq=False)
class ClassicGroup(Group):
    """A classic group; a group that only commits (assign mode, an admin) has no members. ``stored`` is hard state, too."""

    kind: ClassVar[str] = "classic"

    state: State = EMPTY
    state_ts_ms: int = (
        0  # when the state was entered: goes into the group's record, and rules the expiry of an empty group
    )
    generation: int = 0
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    members: dict[str, Member] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)  # instance id -> member id
    pending_members: dict[str, int] = field(
        default_factory=dict
    )  # ids given with MEMBER_ID_REQUIRED -> session timeout in ms
    pending_sync: dict[str, None] = field(default_factory=dict)  # members without a SyncGroup in this generation
    joining: int = 0  # members with a deferred JoinGroup
    supporters: dict[str, int] = field(default_factory=dict)  # protocol -> how many members support it
    stored: GroupMetadataValue | None = None  # the group's record as the log has it
    new_member_added: bool = False  # a member joined within the initial rebalance delay
    initial_delay_left_ms: int = 0  # how much longer the initial delay may still be extended
    in_initial_delay: bool = False
    initial_delay_ms: int = 0  # the delay that runs now
    was_empty: bool = False  # the state before PreparingRebalance was Empty
    join_phase_failed: bool = False  # the join phase ended without a common protocol and is never completed
    _subscriptions: list[bytes] | None = None  # the subscriptions that this generation began with, not looked at yet
    _topics: frozenset[str] | None = None  # and the topics in them; None: all there are

    def enter(self, state: State, now_ms: int) -> None:
        """Change state; raises ValueError for a transition that Kafka doesn't have."""
        if self.state not in TRANSITIONS[state]:
            raise ValueError(f"group {self.group_id} can't go from {self.state.value} to {state.value}")
        self.was_empty = self.state is EMPTY
        self.state, self.state_ts_ms = state, now_ms
        self.version += 1

    def begin_generation(self) -> None:
        """The join phase is over."""
        self.generation += 1
        self.version += 1
        self.pending_sync.clear()

    # members

    def add(self, member: Member) -> None:
        """A new member; the first one gives the group its protocol type and becomes its leader."""
        self.version += 1
        if not self.members:
            self.protocol_type = member.protocol_type
        self.members[member.member_id] = member
        self._count_protocols(member, 1)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id
        if member.join_token is not None:
            self.joining += 1
        self.pending_members.pop(member.member_id, None)

    def remove(self, member_id: str) -> Member | None:
        """Forget a member (its deferred tokens are the caller's); the oldest remaining one leads if it was the leader."""
        member = self.members.pop(member_id, None)
        if member is None:
            return None
        self.version += 1
        self._count_protocols(member, -1)
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member_id:
            del self.static_members[member.instance_id]
        if member.join_token is not None:
            self.joining -= 1
        self.pending_sync.pop(member_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        return member

    def replace_static(self, old_id: str, new_id: str) -> Member:
        """Give the static member ``old_id`` a new id: slot, leadership and assignment go with it."""
        self.version += 1
        member = self.members.pop(old_id)
        member.member_id = new_id
        self.members[new_id] = member
        assert member.instance_id is not None
        self.static_members[member.instance_id] = new_id
        if self.leader == old_id:
            self.leader = new_id
        if old_id in self.pending_sync:
            del self.pending_sync[old_id]
            self.pending_sync[new_id] = None
        return member

    def check_member(self, member_id: str, instance_id: str | None) -> Err:
        """``validateMember``: FENCED_INSTANCE_ID, UNKNOWN_MEMBER_ID or NONE. A pending member is not a member."""
        if instance_id is not None:
            known = self.static_members.get(instance_id)
            if known is None:
                return Err.UNKNOWN_MEMBER_ID
            if known != member_id:
                return Err.FENCED_INSTANCE_ID
        return NO_ERROR if member_id in self.members else Err.UNKNOWN_MEMBER_ID

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest of the members'."""
        return max([m.rebalance_timeout_ms for m in self.members.values()], default=0)

    # what every kind of group answers (`Group`)

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def listed_protocol_type(self) -> str:
        return self.protocol_type or ""

    @property
    def is_dead(self) -> bool:
        return self.state is DEAD

    @property
    def is_empty(self) -> bool:
        return self.state is EMPTY

    @property
    def is_idle(self) -> bool:
        return not self.members and not self.pending_members

    @property
    def reads_topics(self) -> bool:
        return self.protocol_type == "consumer"

    def validate_commit(self, request: CommitOffsets) -> Err:
        """doCommitOffsets: who may commit into this group now."""
        if self.state is DEAD:
            return Err.COORDINATOR_NOT_AVAILABLE
        if request.generation < 0 and self.state is EMPTY:
            return NO_ERROR  # assign mode, or an admin: the member id is not looked at
        in_transaction = request.producer is not NO_PRODUCER
        if request.names_member:
            error = self.check_member(request.member_id, request.instance_id)
            if error is not NO_ERROR:
                return error
            if request.generation != self.generation:
                return Err.ILLEGAL_GENERATION
        elif not in_transaction:
            return Err.UNKNOWN_MEMBER_ID  # assign mode on a group that has members
        return NO_ERROR if in_transaction else COMMIT_ANSWER[self.state]

    def validate_fetch(self, member_id: str | None, member_epoch: int) -> Err:
        """Always NONE: classic groups accept every OffsetFetch, in any state."""
        return NO_ERROR

    def session_of(self, member_id: str) -> tuple[TimerKey, int] | None:
        member = self.members.get(member_id)
        return None if member is None else (("session", self.group_id, member_id), member.session_timeout_ms)

    def subscribed(self, topic: str) -> bool:
        """Whether the group reads a topic. A group of another protocol type, one before its first generation and one with a
        subscription that can't be parsed count as reading every topic."""
        if self._subscriptions is not None:
            self._topics, self._subscriptions = _topics_of(self._subscriptions), None
        return self._topics is None or topic in self._topics

    def retention_begins_ms(self, topic: str, offset: Offset) -> int | None:
        """For a simple group the commit timestamp; for an empty one when it became empty; for topics that a Stable consumer group does
        not read the commit timestamp (KIP-211)."""
        if self.protocol_type is None or self.protocol_type == "":
            return offset.commit_ts_ms
        if self.state is EMPTY:
            return self.state_ts_ms if self.state_ts_ms >= 0 else offset.commit_ts_ms
        if self.protocol_type == "consumer" and self.state is STABLE and not self.subscribed(topic):
            return offset.commit_ts_ms
        return None

    def tombstones(self, policy: Policy) -> list[Record]:
        """A group that never was through a generation has no record in Kafka 3.x."""
        if self.generation == 0 and policy.empty_group_tombstone_needs_generation:
            return []
        return [GroupRecord(self.group_id, None)]

    def described(self, policy: Policy) -> DescribedGroup:
        """The group's row in DescribeGroups, without pending members. Members' metadata and assignments are included if the group is
        Stable (4.x keeps assignments during a rebalance)."""
        stable = self.state is STABLE
        shows_assignment = stable or policy.assignment_shown_while_preparing
        return DescribedGroup(
            group_id=self.group_id,
            group_state=self.state.value,
            protocol_type=self.protocol_type or "",
            protocol_data=(self.protocol or "") if stable else "",
            members=[
                DescribedGroupMember(
                    member_id=m.member_id,
                    group_instance_id=m.instance_id,
                    client_id=m.client_id,
                    client_host=m.client_host,
                    member_metadata=m.metadata(self.protocol) if stable else b"",
                    member_assignment=m.assignment if shows_assignment else b"",
                )
                for m in self.members.values()
            ],
        )

    def end(self) -> None:
        self.state = DEAD
        self.version += 1

    # the log

    def store(self, value: GroupMetadataValue) -> None:
        """Set the group's committed record; called by `store`."""
        self.stored = value

    def assign(self) -> None:
        """Members have the assignments that are stored."""
        for stored in self.stored.members if self.stored is not None else ():
            member = self.members.get(stored.member_id)
            if member is not None:
                member.assignment = stored.assignment

    def record(self, assignments: dict[str, bytes] | None = None) -> GroupRecord:
        """The group's record for the log, with other assignments if given."""
        members = [
            MemberMetadata(
                member_id=m.member_id,
                group_instance_id=m.instance_id,
                client_id=m.client_id,
                client_host=m.client_host,
                rebalance_timeout=m.rebalance_timeout_ms,
                session_timeout=m.session_timeout_ms,
                subscription=m.metadata(self.protocol),
                assignment=m.assignment if assignments is None else assignments[m.member_id],
            )
            for m in self.members.values()
        ]
        value = GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol,
            leader=self.leader,
            current_state_timestamp=self.state_ts_ms,
            members=members,
        )
        return GroupRecord(self.group_id, value)

    def resume(self) -> bool:
        """Stable with members and Empty without."""
        value = self.stored
        if value is None:
            return False
        self.generation, self.state_ts_ms = value.generation, value.current_state_timestamp
        for m in value.members:
            self.add(
                Member(
                    member_id=m.member_id,
                    instance_id=m.group_instance_id,
                    client_id=m.client_id,
                    client_host=m.client_host,
                    session_timeout_ms=m.session_timeout,
                    rebalance_timeout_ms=m.rebalance_timeout,
                    protocol_type=value.protocol_type,
                    protocols=[(value.protocol or "", m.subscription)],
                    assignment=m.assignment,
                )
            )
        self.protocol_type = value.protocol_type or None
        self.protocol = value.protocol
        self.leader = value.leader if value.leader in self.members else next(iter(self.members), None)
        self.state = STABLE if self.members else EMPTY
        self.fix_subscriptions()
        return True

    # protocols

    def _count_protocols(self, member: Member, step: int) -> None:
        supporters = self.supporters
        for name, _ in member.protocols:  # each time that it is named: Kafka counts so, too
            supporters[name] = supporters.get(name, 0) + step

    def set_timeouts(self, member: Member, session_ms: int, rebalance_ms: int) -> None:
        """Set a member's session timeout and rebalance timeout, both in ms."""
        if member.session_timeout_ms != session_ms:
            self.version += 1
        member.session_timeout_ms, member.rebalance_timeout_ms = session_ms, rebalance_ms

    def set_protocols(self, member: Member, protocols: list[tuple[str, bytes]]) -> None:
        """Set a member's protocols, in the order of its preference, with its metadata for each."""
        if member.protocols == protocols:
            return
        if [name for name, _ in member.protocols] != [name for name, _ in protocols]:
            self._count_protocols(member, -1)
            member.protocols = protocols
            self._count_protocols(member, 1)
        else:
            member.protocols = protocols

    def supports(self, protocol_type: str, protocols: list[JoinGroupRequestProtocol]) -> bool:
        """Whether a joiner with these protocols fits the members that are there."""
        if self.state is EMPTY:
            return protocol_type != "" and bool(protocols)
        if protocol_type != self.protocol_type:
            return False
        everybody, supporters = len(self.members), self.supporters
        for protocol in protocols:  # noqa: SIM110 - a generator costs more than what it looks at
            if (
                supporters.get(protocol.name, 0) == everybody
            ):  # also None, if all members have left and only a member id is pending
                return True
        return False

    def vote(self, counted_in: str) -> str | None:
        """The protocol with most votes among those that all members support, each of which votes for the first in its own list. Ties
        go to the first in the order of the map that the votes are ``counted_in`` (``Policy.votes_are_counted_in``). None where members
        support none in common: one named its protocols twice, and Kafka then counts twice.
        """
        common = [name for name, count in self.supporters.items() if count == len(self.members)]
        if len(common) <= 1:
            return common[0] if common else None
        votes: Counter[str] = Counter()
        for member in self.members.values():
            votes[next((name for name, _ in member.protocols if name in common), common[0])] += 1
        return winner(votes, ORDERS[counted_in](votes))

    def fix_subscriptions(self) -> None:
        """Store the members' subscriptions when a generation begins or is loaded: they are the topics of the group until the next
        generation, whatever members join or leave meanwhile (computeSubscribedTopics)."""
        self._subscriptions, self._topics = None, None
        if self.protocol_type == "consumer" and (self.protocol is not None or not self.members):
            self._subscriptions = [member.metadata(self.protocol) for member in self.members.values()]

    def described_members(self) -> list[JoinGroupResponseMember]:
        """The members in the leader's JoinGroup response: each member's metadata for the chosen protocol."""
        return [
            JoinGroupResponseMember(m.member_id, m.instance_id, m.metadata(self.protocol))
            for m in self.members.values()
        ]


def _topics_of(subscriptions: list[bytes]) -> frozenset[str] | None:
    topics: list[str] = []
    for subscription in subscriptions:
        subscribed = subscribed_topics(subscription)
        if subscribed is None:
            return None
        topics += subscribed
    return frozenset(topics)
