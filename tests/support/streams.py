"""A member of a streams group (KIP-1071) as raw requests, one process each."""

from __future__ import annotations

from kafka_wire.messages.k88_streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from tests.support.wire import Wire

GROUP = "g"
PLAIN = [Subtopology("0", ["orders"])]
COUNTS = [Subtopology("0", ["orders"], state_changelog_topics=[TopicInfo("counts-changelog")])]


class App:
    """A member on a connection of its own."""

    def __init__(self, wire: Wire, name: str, topology: Topology, instance: str | None) -> None:
        self.wire, self.name, self.topology, self.instance = wire, name, topology, instance
        self.epoch = 0
        self.tasks: dict[str, list[TaskIds]] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}

    @classmethod
    async def joined(
        cls, bootstrap: str, name: str, subtopologies: list[Subtopology], epoch: int = 0, instance: str | None = None
    ) -> App:
        wire = await Wire.connect(bootstrap, client_id=name)
        app = cls(wire, name, Topology(epoch, subtopologies), instance)
        await app.beat()
        return app

    async def beat(self, *, revokes: bool = True) -> StreamsGroupHeartbeatResponse:
        request = StreamsGroupHeartbeatRequest(GROUP, self.name, self.epoch, instance_id=self.instance)
        if self.epoch == 0:
            request.topology, request.process_id, request.rebalance_timeout_ms = (
                self.topology,
                self.instance or self.name,
                60_000,
            )
        if self.epoch == 0 or revokes:
            request.active_tasks, request.standby_tasks, request.warmup_tasks = self.tasks.values()
        answer = await self.wire.send(request, 1)
        assert isinstance(answer, StreamsGroupHeartbeatResponse)
        if answer.error_code == 0:
            self.epoch = answer.member_epoch
            given = {role: getattr(answer, role) for role in self.tasks}
            self.tasks |= {role: tasks for role, tasks in given.items() if tasks is not None}
        return answer

    async def leave(self, epoch: int = -1) -> None:
        """For good; a static member with -2 for now."""
        self.epoch = epoch
        assert (await self.beat(revokes=False)).error_code == 0
