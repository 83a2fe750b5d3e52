"""Members of a streams group on one shard, in virtual time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from broker_sim.common.slices import at_once
from broker_sim.coordinator.outcome import Client, GroupConfigured, Request, TopicsChanged
from broker_sim.coordinator.policy import JAVA_SINCE, Policy, StreamsSettings
from broker_sim.coordinator.records import EpochRecord, decode
from broker_sim.coordinator.shard import Shard
from broker_sim.coordinator.streams.group import StreamsGroup
from broker_sim.coordinator.streams.requests import Answer, StreamsHeartbeat, reading_tags
from broker_sim.coordinator.streams.topology import InternalTopic, StatusCode, receiving
from broker_sim.coordinator.topics import TopicImage
from kafka_wire.errors import Err
from kafka_wire.messages.k88_streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from tests.coordinator.harness import Core

LATEST = JAVA_SINCE[0][1]
POLICIES = {"4.2": JAVA_SINCE[2][1], "4.3": JAVA_SINCE[1][1], "4.4": LATEST}
CLIENT = Client("app", "/127.0.0.1", 1)
TIMEOUT_MS = 5000

PLAIN = Topology(0, [Subtopology("0", ["t"])])
"""One subtopology without state, on a topic of two partitions."""

COUNTING = Topology(
    0,
    [
        Subtopology("0", ["t"], repartition_sink_topics=["rep"]),
        Subtopology("1", repartition_source_topics=[TopicInfo("rep")], state_changelog_topics=[TopicInfo("log")]),
    ],
)
"""A repartition topic between two subtopologies, the second of which keeps state."""


@dataclass
class Thread:
    """State of a member: its epoch and its tasks, by role."""

    epoch: int = 0
    tasks: dict[str, list[TaskIds]] = field(default_factory=lambda: {"active": [], "standby": [], "warmup": []})
    status: list[StatusCode] = field(default_factory=list)

    @property
    def active(self) -> dict[str, list[int]]:
        return {one.subtopology_id: one.partitions for one in self.tasks["active"]}

    @property
    def standby(self) -> dict[str, list[int]]:
        return {one.subtopology_id: one.partitions for one in self.tasks["standby"]}


class Streams(Core):
    """Topic ``t`` has two partitions; internal topics are created where the test says so (`create`)."""

    def __init__(self, policy: Policy = LATEST, **settings: Any) -> None:
        super().__init__(policy=policy, streams=StreamsSettings(**settings))
        self.threads: dict[str, Thread] = {}
        self.missing: Mapping[str, InternalTopic] = {}
        self.topic("t", 2)

    def topic(self, name: str, partitions: int | None) -> None:
        image = None if partitions is None else TopicImage(name.encode().ljust(16, b"\0"), partitions)
        self.step(TopicsChanged({name: image}))

    def create(self) -> list[str]:
        """Create the internal topics that the last answer misses, and return their names."""
        for name, topic in self.missing.items():
            self.topic(name, topic.partitions)
        return list(self.missing)

    def configure(self, **values: Any) -> None:
        """The group's own settings."""
        self.step(GroupConfigured("g", {f"streams {name}": value for name, value in values.items()}))

    def ask(self, body: Any) -> Any:
        token = next(self.tokens)
        self.step(Request(token, CLIENT, body))
        return self.answers.get(token)

    def beat(self, member: str, epoch: int | None = None, **said: Any) -> StreamsGroupHeartbeatResponse:
        """A heartbeat with the member's epoch, as long as nothing else is said."""
        thread = self.threads.setdefault(member, Thread())
        at = thread.epoch if epoch is None else epoch
        request = StreamsGroupHeartbeatRequest("g", member, at, **said)
        received = None if request.topology is None else at_once(receiving(request.topology, self.shard.topics))
        answered: Answer = self.ask(StreamsHeartbeat(request, received, at_once(reading_tags(request))))
        answer, self.missing = answered
        if answer.error_code == Err.NONE:
            thread.epoch = answer.member_epoch
            thread.status = [StatusCode(one.status_code) for one in answer.status or ()]
            if answer.active_tasks is not None:
                lists = (answer.active_tasks, answer.standby_tasks, answer.warmup_tasks)
                thread.tasks = {role: tasks or [] for role, tasks in zip(thread.tasks, lists, strict=True)}
        return answer

    def join(self, member: str, topology: Topology = PLAIN, **said: Any) -> Thread:
        fields: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
        fields |= {"rebalance_timeout_ms": TIMEOUT_MS, "topology": topology, "process_id": f"p-{member}", **said}
        answer = self.beat(member, 0, **fields)
        assert answer.error_code == Err.NONE, answer
        return self.threads[member]

    def acknowledge(self, member: str) -> Thread:
        """A heartbeat that says which tasks the member has."""
        tasks = self.threads[member].tasks
        answer = self.beat(
            member, active_tasks=tasks["active"], standby_tasks=tasks["standby"], warmup_tasks=tasks["warmup"]
        )
        assert answer.error_code == Err.NONE, answer
        return self.threads[member]

    def settle(self, *members: str, rounds: int = 6) -> None:
        """Heartbeats of all, until nothing changes."""
        for _ in range(rounds):
            for member in members:
                self.acknowledge(member)

    def group(self) -> StreamsGroup:
        group = self.shard.groups["g"]
        assert isinstance(group, StreamsGroup)
        return group

    def written(self, since: int = 0) -> list[tuple[int, Any]]:
        records = [decode(key, value, later=True, epochs=range(24)) for key, value in self.log[since:]]
        return [(one.type, one.value) for one in records if isinstance(one, EpochRecord)]

    def kinds(self, since: int = 0) -> Sequence[int]:
        return [kind for kind, _ in self.written(since)]


def reloaded(core: Streams) -> Streams:
    """The group as another coordinator has it that has loaded the log."""
    other = core.reload()
    again = Streams(core.settings.policy)
    again.__dict__.update({**core.__dict__, "shard": other.shard, "timers": other.timers, "answers": {}})
    assert isinstance(again.shard, Shard)
    for name, image in core.shard.topics.by_name.items():
        again.step(TopicsChanged({name: image}))
    return again
