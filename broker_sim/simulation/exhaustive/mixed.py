"""A group with members of both protocols, in all orders: it goes over to the new protocol and back, and nothing has two holders.

The world of `consumer`, with a member that speaks the classic protocol: it joins, syncs and heartbeats as ever, leads where the group
is a classic one, and where it is not says by joining again what it has given up (KIP-848, the upgrade of a running group).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from broker_sim.coordinator.outcome import Heartbeat, LeaveGroup, Leaver
from broker_sim.coordinator.policy import Settings
from broker_sim.simulation.exhaustive.consumer import GROUP, REBALANCE_MS, TOPIC, ConsumerWorld
from broker_sim.simulation.exhaustive.explorer import Action
from kafka_wire.codec import encode
from kafka_wire.consumer_protocol import assigned_partitions, assignment_of
from kafka_wire.errors import Err
from kafka_wire.messages.consumer_protocol import ConsumerProtocolSubscription
from kafka_wire.messages.consumer_protocol import ConsumerProtocolSubscriptionTopicPartition as Owned
from kafka_wire.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafka_wire.messages.k14_sync_group import SyncGroupRequest, SyncGroupRequestAssignment

__all__ = ["MixedWorld"]

_SESSION_MS = 6000
_VERSIONS = {"join": 9, "sync": 5, "beat": 4, "leave": 5}
_SUBSCRIPTION_VERSION = 1


@dataclass(slots=True)
class _Classic:
    """Local state of a classic member; as `consumer`'s member."""

    name: str
    member_id: str = ""
    generation: int = -1
    stage: str = "out"  # or "joined", which owes a SyncGroup, or "in"
    line_up: tuple[str, ...] = ()  # as the leader received it
    holds: tuple[int, ...] = ()
    assigned: tuple[int, ...] = ()
    waits: int | None = None
    last_asked: str = ""

    def forget(self) -> None:
        """Reset the member, as if its client were started anew: it owns no partitions."""
        self.member_id, self.generation, self.stage, self.line_up, self.holds, self.assigned = "", -1, "out", (), (), ()
        self.waits, self.last_asked = None, ""

    def subscription(self) -> bytes:
        """Encode the subscription: the topic, and the partitions that the member keeps."""
        owned = [Owned(TOPIC, list(self.assigned))] if self.assigned else []
        body = encode(ConsumerProtocolSubscription([TOPIC], None, owned), _SUBSCRIPTION_VERSION)
        return _SUBSCRIPTION_VERSION.to_bytes(2, "big") + body


class MixedWorld(ConsumerWorld):
    """A and C: one of each protocol."""

    def __init__(self, settings: Settings, *, faults: bool = True) -> None:
        super().__init__(settings, ("A",), faults=faults)
        self.classic = _Classic("C")
        self._ours: dict[int, tuple[str, str]] = {}  # its requests: what, and its id then

    def actions(self) -> Sequence[Action]:
        """See `explorer.World`."""
        classic = self.classic
        if classic.waits is not None:
            may = ["again", "restart"]
        elif classic.generation < 0:
            may = ["join"]
        else:
            may = ["join", "sync", "beat", "leave", "restart"]
        return [*((classic.name, what) for what in may), *super().actions()]

    def _do(self, action: Action) -> None:
        if action[0] != self.classic.name:
            super()._do(action)
            return
        what = self.classic.last_asked if action[1] == "again" else action[1]
        if what == "restart":
            self.classic.forget()
            self._trace("C starts anew, without having left")
        else:
            self._ask(self.classic, what)

    def _ask(self, member: _Classic, what: str) -> None:
        body: Any
        if what == "join":
            member.holds = member.assigned
            protocols = [JoinGroupRequestProtocol("range", member.subscription())]
            body = JoinGroupRequest(GROUP, _SESSION_MS, REBALANCE_MS, member.member_id, None, "consumer", protocols)
        elif what == "sync":
            everything = assignment_of({TOPIC: list(range(self.environment.partitions))}, as_in=member.subscription())
            given = [
                SyncGroupRequestAssignment(member_id, everything)
                for member_id in member.line_up
                if member_id == member.member_id
            ]
            body = SyncGroupRequest(GROUP, member.generation, member.member_id, None, "consumer", "range", given)
        elif what == "beat":
            body = Heartbeat(GROUP, member.generation, member.member_id, None)
        else:
            member.holds = member.assigned = ()
            body = LeaveGroup(GROUP, [Leaver(member.member_id, None)])
        self._trace(
            f"C: {what} as {member.member_id or '-'} in generation {member.generation} with {list(member.holds)}"
        )
        token = self.environment.request(body, _VERSIONS[what], member.name)
        self._ours[token] = what, member.member_id
        member.waits, member.last_asked = token, what

    def _receive(self) -> None:
        answers = self.environment.answers
        for token in [token for token in self._ours if token in answers]:
            (what, member_id), answer = self._ours.pop(token), answers.pop(token)
            error = answer[0] if what == "leave" else answer if what == "beat" else Err(answer.error_code)
            self._trace(f"C: its {what} is answered {error.name}")
            if token == self.classic.waits and member_id == self.classic.member_id:
                self.classic.waits = None
                self._heard(self.classic, what, answer, error)
        super()._receive()

    @staticmethod
    def _heard(member: _Classic, what: str, answer: Any, error: Err) -> None:
        if what == "leave":
            member.forget()  # it has stopped working, whatever it receives
        elif error is Err.MEMBER_ID_REQUIRED:
            member.member_id = answer.member_id
        elif error is Err.UNKNOWN_MEMBER_ID:
            member.forget()
        elif error is not Err.NONE:
            member.stage = "out"
            if what == "sync":
                # An assignment that can't be stored is taken from all (resetAndPropagateAssignmentError): who worked on, as
                # cooperative members do, would share a partition with one of the new protocol that joins now, as it may in Kafka.
                member.holds = member.assigned = ()
        elif what == "join":
            member.member_id, member.generation, member.stage = answer.member_id, answer.generation_id, "joined"
            member.line_up = tuple(member.member_id for member in answer.members)
        elif what == "sync":
            member.stage = "in"
            member.assigned = tuple(sorted((assigned_partitions(answer.assignment) or {}).get(TOPIC, ())))
            member.holds = tuple(sorted({*member.holds, *member.assigned}))

    def _workers(self) -> list[tuple[str, str, tuple[int, ...]]]:
        return [*super()._workers(), (self.classic.name, self.classic.member_id, self.classic.holds)]

    def _more(self) -> list[Hashable]:
        return [self.classic, list(self._ours.values())]

    def _behave(self) -> None:
        super()._behave()
        if self.classic.waits is None:
            self.take(("C", {"out": "join", "joined": "sync", "in": "beat"}[self.classic.stage]))
            if self.classic.holds != self.classic.assigned and self.classic.waits is None:
                self.take(("C", "join"))  # it has given up what it was asked to revoke

    def _nobody(self) -> bool:
        group = self.environment.shard.groups.get(GROUP)
        return group is None or group.is_idle
