"""A member of a streams group (KIP-1071) that speaks the protocol itself: ``python -m broker_sim.scenario.apps.streams_app SETTINGS``.

It heartbeats and nothing else: a task that it is given is its own at once, one that it is to give up it has given up by the next
heartbeat. It reads no records. Its topology has one subtopology, which reads its ``topics``; ``max_poll_interval`` is its rebalance
timeout. Of ``config`` it knows

    topology_epoch: 1         the epoch of its topology, 0 if not given
    changelog: NAME           its subtopology keeps state, in that internal topic
    process: NAME             its process id; its own name if not given
    revokes: false            it never says that it has given up anything

As Kafka Streams it sends no more heartbeats after its topology was refused. Reports: ``assigned`` with all its tasks, ``revoked``,
``lost`` when it is fenced, ``error`` with an error, or with the status of the group when that changes, and at the end ``left``.
"""

from __future__ import annotations

from broker_sim.scenario.apps.common import AppSettings, ScenarioPipe, program, until_told_to_leave
from broker_sim.scenario.apps.heartbeating import ELSEWHERE, FENCED, HeartbeatingMember
from kafka_wire.api_keys import ApiKey
from kafka_wire.errors import Err
from kafka_wire.messages.k88_streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)

_HEARTBEAT = 0
_SUBTOPOLOGY = "0"
_ROLES = ("active", "standby")
_FATAL = (Err.INVALID_REQUEST, Err.STREAMS_INVALID_TOPOLOGY, Err.STREAMS_INVALID_TOPOLOGY_EPOCH)

_ASSIGNMENT_DELAYED = 5
"""StreamsGroupHeartbeatResponse.Status: the group waits for its initial rebalance delay."""

Task = tuple[str, int]
"""A role, and the number of a task."""


class Member(HeartbeatingMember):
    """One thread of an application, in a process of its own unless the file says otherwise."""

    def __init__(self, settings: AppSettings, line: ScenarioPipe) -> None:
        super().__init__(settings, line)
        self.revokes = settings.config.get("revokes", True)
        self.process = str(settings.config.get("process", settings.client_id))
        self.has: set[Task] = set()
        self.is_to_have: set[Task] = set()
        self.status: list[str] = []

    def _topology(self) -> Topology:
        changelog = self.settings.config.get("changelog")
        kept = [] if changelog is None else [TopicInfo(str(changelog))]
        epoch = int(self.settings.config.get("topology_epoch", 0))
        return Topology(epoch, [Subtopology(_SUBTOPOLOGY, list(self.settings.topics), state_changelog_topics=kept)])

    def _request(self) -> StreamsGroupHeartbeatRequest:
        joins = self.epoch == 0
        if self.revokes and not self.hangs_for_s and self.has - self.is_to_have:
            revoked = self.has - self.is_to_have
            self.has &= self.is_to_have
            self.report("revoked", tasks=_named(revoked))
        request = StreamsGroupHeartbeatRequest(
            self.group, self.member_id, self.epoch, instance_id=self.settings.instance_id
        )
        if joins:
            request.topology, request.process_id = self._topology(), self.process
            request.rebalance_timeout_ms = self.settings.ms("max_poll_interval") or 300_000
        if joins or self.revokes:
            request.active_tasks, request.standby_tasks = (self._listed(role) for role in _ROLES)
            request.warmup_tasks = []
        return request

    def _listed(self, role: str) -> list[TaskIds]:
        numbers = sorted(number for has, number in self.has if has == role)
        return [TaskIds(_SUBTOPOLOGY, numbers)] if numbers else []

    async def beat(self) -> bool:
        answer: StreamsGroupHeartbeatResponse = await self.ask(
            ApiKey.STREAMS_GROUP_HEARTBEAT, _HEARTBEAT, self._request(), StreamsGroupHeartbeatResponse
        )
        error = Err(answer.error_code)
        if error is Err.NONE:
            self.epoch = answer.member_epoch
            self._hear(answer)
            return True
        words = f": {answer.error_message}" if answer.error_message else ""
        self.report("error", text=f"StreamsGroupHeartbeat: {error.name}{words}")
        if error in FENCED:
            self.report("lost", tasks=_named(self.has))
            self.epoch, self.has, self.is_to_have = 0, set(), set()
        self.has_failed = error in _FATAL
        return error not in ELSEWHERE

    def _hear(self, answer: StreamsGroupHeartbeatResponse) -> None:
        # a delayed assignment is a step of the group's beginning
        status = [entry.status_detail for entry in answer.status or () if entry.status_code != _ASSIGNMENT_DELAYED]
        if status and status != self.status:
            self.report("error", text=" ".join(status))
        self.status = status
        if answer.active_tasks is None and answer.standby_tasks is None:
            return
        given = zip(_ROLES, (answer.active_tasks, answer.standby_tasks), strict=True)
        self.is_to_have = {
            (role, number) for role, tasks in given for subtopology in tasks or () for number in subtopology.partitions
        }
        if self.is_to_have - self.has:
            self.has |= self.is_to_have
            self.report("assigned", tasks=_named(self.has))

    async def say_goodbye(self) -> None:
        request = StreamsGroupHeartbeatRequest(self.group, self.member_id, -1, instance_id=self.settings.instance_id)
        await self.ask(ApiKey.STREAMS_GROUP_HEARTBEAT, _HEARTBEAT, request, StreamsGroupHeartbeatResponse)


def _named(tasks: set[Task]) -> list[str]:
    """Tasks as Kafka Streams names them, in order: ``0_3``, a standby task ``standby 0_3``."""
    return [f"{'' if role == _ROLES[0] else role + ' '}{_SUBTOPOLOGY}_{number}" for role, number in sorted(tasks)]


async def live(settings: AppSettings, line: ScenarioPipe) -> int:
    """The whole program; its exit code."""
    return await until_told_to_leave(Member(settings, line), line)


if __name__ == "__main__":
    program(live)
