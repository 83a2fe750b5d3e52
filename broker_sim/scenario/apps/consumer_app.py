"""A member of a consumer group (KIP-848) on the wire protocol: ``python -m broker_sim.scenario.apps.consumer_app SETTINGS``.

It only sends heartbeats: it owns an assigned partition at once, and has revoked a partition by its next heartbeat. It reads no
records. ``assignor`` is the coordinator's; ``max_poll_interval`` its rebalance timeout; ``config`` has faults that real clients had or
have:

    revokes: false            it never reports that it has revoked a partition
    repeats: false            after a lost response its next heartbeat is that after a received one, without the partitions that it owns

Reports: ``assigned`` with its whole assignment, ``revoked``, ``lost`` when it is fenced, ``error``, and at the end ``left``.
"""

from __future__ import annotations

from broker_sim.scenario.apps.common import AppSettings, ScenarioPipe, program, until_told_to_leave
from broker_sim.scenario.apps.heartbeating import ELSEWHERE, FENCED, HeartbeatingMember
from kafka_wire.api_keys import ApiKey
from kafka_wire.errors import Err
from kafka_wire.messages.k03_metadata import MetadataRequest, MetadataResponse
from kafka_wire.messages.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

_METADATA, _HEARTBEAT = 12, 1

Unit = tuple[bytes, int]


_LEAVES, _LEAVES_FOR_A_WHILE = -1, -2
"""Member epochs of the last heartbeat: of a dynamic member, and of a static one, which keeps its assignment for its session."""


class Member(HeartbeatingMember):
    """One process: a member id of its own."""

    def __init__(self, settings: AppSettings, line: ScenarioPipe) -> None:
        super().__init__(settings, line)
        self.revokes = settings.config.get("revokes", True)
        self.repeats = settings.config.get("repeats", True)
        self.names: dict[bytes, str] = {}
        self.has: set[Unit] = set()
        self.is_to_have: set[Unit] = set()

    def _request(self) -> ConsumerGroupHeartbeatRequest:
        settings, joins = self.settings, self.epoch == 0
        if self.revokes and not self.hangs_for_s:
            self._give_up()
        regex = settings.pattern
        says_all = joins or (self.in_doubt and self.repeats)
        owned = None
        if says_all or (self.revokes and not self.in_doubt):
            owned = [] if joins else self._listed()
        return ConsumerGroupHeartbeatRequest(
            self.group,
            self.member_id,
            self.epoch,
            instance_id=settings.instance_id,
            rebalance_timeout_ms=(settings.ms("max_poll_interval") or 300_000) if says_all else -1,
            subscribed_topic_names=(settings.topics if regex is None else []) if says_all else None,
            subscribed_topic_regex=(regex or "") if says_all else None,
            server_assignor=settings.assignor if says_all else None,
            topic_partitions=owned,
        )

    def _give_up(self) -> None:
        revoked = self.has - self.is_to_have
        if revoked:
            self.has &= self.is_to_have
            self.report("revoked", partitions=self._logs(revoked))

    def _listed(self) -> list[TopicPartitions]:
        by_topic: dict[bytes, list[int]] = {}
        for topic_id, index in sorted(self.has):
            by_topic.setdefault(topic_id, []).append(index)
        return [TopicPartitions(topic_id, numbers) for topic_id, numbers in by_topic.items()]

    def _logs(self, units: set[Unit]) -> list[str]:
        return sorted(f"{self.names.get(topic_id, topic_id.hex())}-{index}" for topic_id, index in units)

    async def beat(self) -> bool:
        """False where the coordinator is elsewhere."""
        request, self.in_doubt = self._request(), True
        answer: ConsumerGroupHeartbeatResponse = await self.ask(
            ApiKey.CONSUMER_GROUP_HEARTBEAT, _HEARTBEAT, request, ConsumerGroupHeartbeatResponse
        )
        self.in_doubt = False
        error = Err(answer.error_code)
        if error is Err.NONE:
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                assigned = answer.assignment.topic_partitions
                await self._take({(topic.topic_id, index) for topic in assigned for index in topic.partitions})
            return True
        self.report("error", text=f"ConsumerGroupHeartbeat: {error.name}")
        if error in FENCED:
            self.report("lost", partitions=self._logs(self.has))
            self.epoch, self.has, self.is_to_have = 0, set(), set()
        return error not in ELSEWHERE

    async def _take(self, units: set[Unit]) -> None:
        """Store the assignment ``units``; it owns the new ones at once, and reports all that it owns."""
        if any(topic_id not in self.names for topic_id, _ in units):
            metadata: MetadataResponse = await self.ask(
                ApiKey.METADATA, _METADATA, MetadataRequest(None), MetadataResponse
            )
            self.names |= {topic.topic_id: topic.name or "" for topic in metadata.topics}
        self.is_to_have = units
        if units - self.has:
            self.has |= units
            self.report("assigned", partitions=self._logs(self.has))

    async def say_goodbye(self) -> None:
        instance = self.settings.instance_id
        epoch = _LEAVES if instance is None else _LEAVES_FOR_A_WHILE  # as Java's, which keep their assignment so
        request = ConsumerGroupHeartbeatRequest(self.group, self.member_id, epoch, instance_id=instance)
        await self.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, _HEARTBEAT, request, ConsumerGroupHeartbeatResponse)


async def live(settings: AppSettings, line: ScenarioPipe) -> int:
    """The whole program; its exit code."""
    return await until_told_to_leave(Member(settings, line), line)


if __name__ == "__main__":
    program(live)
