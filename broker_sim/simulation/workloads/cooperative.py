"""Members that rebalance cooperatively (KIP-429): they keep what they have while the group rebalances, and a partition that is to move
is given up in one generation and handed out in the next.

aiokafka has no such assignor, so these speak the protocol themselves. They check the protocol's guarantee that no partition has two
owners at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from broker_sim.simulation.checks.answers import InvariantBroken
from broker_sim.simulation.workloads.raw import GROUP, REBALANCE_MS, SESSION_MS, TOPIC, Member
from kafka_wire.codec import decode, encode
from kafka_wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)
from kafka_wire.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafka_wire.messages.k14_sync_group import SyncGroupRequest, SyncGroupRequestAssignment

__all__ = ["Cooperative", "share"]

_SUBSCRIPTION = 2
"""Version with owned partitions and their generation."""


def share(owned: Mapping[str, tuple[int, list[int]]], parts: int) -> dict[str, list[int]]:
    """The cooperative assignment: member id -> partitions. ``owned``: member id -> (generation, partitions owned in it). A
    partition is assigned to its target, but not before its present owner has revoked it. Of two members that claim one, the later
    generation wins."""
    owner: dict[int, tuple[int, str]] = {}
    for member, (generation, partitions) in owned.items():
        for index in partitions:
            if index < parts and owner.get(index, (-2, ""))[0] < generation:
                owner[index] = generation, member
    most = {member: parts // len(owned) + (place < parts % len(owned)) for place, member in enumerate(sorted(owned))}
    wanted: dict[str, list[int]] = {member: [] for member in owned}
    free = []
    for index in range(parts):
        member = owner.get(index, (-2, ""))[1]
        if member and len(wanted[member]) < most[member]:
            wanted[member].append(index)
        else:
            free.append(index)
    for index in free:
        member = next(name for name in sorted(wanted) if len(wanted[name]) < most[name])
        if index not in owner:
            wanted[member].append(index)
        else:
            most[member] -= 1  # the next generation gives it to whom has room
    return wanted


class Cooperative(Member):
    """See the module. ``mine``: the partitions that it works on."""

    mine: list[int]

    async def run(self) -> None:
        """Be a member of the group until the host is stopped."""
        self.mine = []
        self.context.working.pop(self.name, None)
        await super().run()

    def _join_request(self) -> JoinGroupRequest:
        owned = [ConsumerProtocolSubscriptionTopicPartition(TOPIC, self.mine)] if self.mine else []
        subscription = ConsumerProtocolSubscription([TOPIC], None, owned, self.generation if self.member else -1)
        metadata = _SUBSCRIPTION.to_bytes(2, "big") + encode(subscription, _SUBSCRIPTION)
        protocols = [JoinGroupRequestProtocol("cooperative-sticky", metadata)]
        return JoinGroupRequest(GROUP, SESSION_MS, REBALANCE_MS, self.member, self.instance, "consumer", protocols)

    def _sync_request(self, answer: Any) -> SyncGroupRequest:
        assignments = []
        if answer.members:
            owned = {member.member_id: _owned(member.metadata) for member in answer.members}
            for name, parts in share(owned, self.context.partitions).items():
                given = ConsumerProtocolAssignment([ConsumerProtocolAssignmentTopicPartition(TOPIC, parts)])
                assignments.append(SyncGroupRequestAssignment(name, b"\0\0" + encode(given, 0)))
        return SyncGroupRequest(
            GROUP, self.generation, self.member, self.instance, "consumer", "cooperative-sticky", assignments
        )

    def _synced(self, answer: Any) -> list[int] | None:
        """Take what is new; None where something is to be given up first, which the next JoinGroup tells."""
        given = decode(ConsumerProtocolAssignment, 0, answer.assignment[2:]) if answer.assignment else None
        mine = sorted(index for topic in (given.assigned_partitions if given else ()) for index in topic.partitions)
        kept = [index for index in self.mine if index in mine]
        revokes = len(kept) < len(self.mine)
        self.mine = mine
        self._work()
        return None if revokes else mine

    def _lost(self) -> None:
        """Record that the member has left the group: it has no partitions."""
        super()._lost()
        self.mine = []
        self._work()

    def _work(self) -> None:
        """Note the partitions of the member: no other member may have one of them in the same generation."""
        working = self.context.working
        working[self.name] = self.generation, frozenset(self.mine)
        for name, (generation, parts) in working.items():
            both = parts & frozenset(self.mine)
            if name != self.name and both and generation == self.generation:
                what = f"{self.name} and {name} work on {sorted(both)} in generation {generation}"
                self.context.answers.report(InvariantBroken("a partition has one owner", what))


def _owned(metadata: bytes) -> tuple[int, list[int]]:
    subscription = decode(ConsumerProtocolSubscription, _SUBSCRIPTION, metadata[2:])
    return subscription.generation_id, [index for topic in subscription.owned_partitions for index in topic.partitions]
