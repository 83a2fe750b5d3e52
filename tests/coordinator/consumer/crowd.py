"""Consumer groups under glass: heartbeats by hand, and what they leave in the log in few words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from broker_sim.coordinator.consumer.group import ConsumerGroup
from broker_sim.coordinator.outcome import TopicsChanged
from broker_sim.coordinator.policy import ConsumerSettings, policy_of
from broker_sim.coordinator.topics import TopicImage
from kafka_wire.errors import Err
from kafka_wire.messages.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from tests.coordinator.harness import Core
from tests.support.epoch_records import short

Held = dict[str, list[int]]


def topic_id(name: str) -> bytes:
    return name.encode().ljust(16, b"\0")


def name_of(topic: bytes) -> str:
    return topic.rstrip(b"\0").decode()


class Crowd(Core):
    """A shard of a release, which knows topic ``t`` of three partitions."""

    def __init__(self, release: tuple[int, int] = (4, 1), topics: Mapping[str, int] | None = None, **settings: Any):
        interval_ms = 1000 if release >= (4, 3) else 0
        consumer = {"session_timeout_ms": 10_000, "assignment_interval_ms": interval_ms}
        mine = {key: settings.pop(key) for key in list(settings) if key in ConsumerSettings.__dataclass_fields__}
        super().__init__(
            policy=policy_of("java", release), consumer=ConsumerSettings(**{**consumer, **mine}), **settings
        )
        self.topics({"t": 3} if topics is None else topics)
        self.seen = 0

    def topics(self, topics: Mapping[str, int | None]) -> None:
        self.step(
            TopicsChanged(
                {name: None if count is None else TopicImage(topic_id(name), count) for name, count in topics.items()}
            )
        )

    def reloaded(self, topics: Mapping[str, int]) -> Crowd:
        """Return a new coordinator that has loaded this one's log, with the topics that there are now."""
        other = Crowd.__new__(Crowd)
        vars(other).update(vars(self.reload()), seen=len(self.log))
        other.topics(topics)
        return other

    def hb(
        self, member: str, epoch: int, owned: Held | None = None, *, group: str = "g", **more: Any
    ) -> ConsumerGroupHeartbeatResponse:
        """A heartbeat's answer; a join reads ``t`` unless it says otherwise."""
        answer = self.answers[self.start(member, epoch, owned, group=group, **more)]
        assert isinstance(answer, ConsumerGroupHeartbeatResponse)
        return answer

    def start(self, member: str, epoch: int, owned: Held | None = None, *, group: str = "g", **more: Any) -> int:
        """As `hb`, for one that may be deferred; its token."""
        if epoch == 0:
            more = {"rebalance_timeout_ms": 5000, "subscribed_topic_names": ["t"], **more}
            owned = {} if owned is None else owned
        listed = (
            None if owned is None else [TopicPartitions(topic_id(name), numbers) for name, numbers in owned.items()]
        )
        return self.request(
            ConsumerGroupHeartbeatRequest(
                group_id=group, member_id=member, member_epoch=epoch, topic_partitions=listed, **more
            ),
            version=1,
        )

    def told(self, *args: Any, **more: Any) -> tuple[int, Held | None]:
        """A heartbeat's epoch and assignment; it goes well."""
        answer = self.hb(*args, **more)
        assert answer.error_code == Err.NONE, (Err(answer.error_code), answer.error_message)
        given = answer.assignment
        return answer.member_epoch, None if given is None else {
            name_of(one.topic_id): one.partitions for one in given.topic_partitions
        }

    def refused(self, *args: Any, **more: Any) -> Err:
        """The error of a heartbeat."""
        answer = self.hb(*args, **more)
        assert answer.error_code != Err.NONE
        assert (answer.member_id, answer.member_epoch, answer.assignment) == (None, 0, None)
        return Err(answer.error_code)

    def written(self) -> list[str]:
        """Records that the log has got since the last call."""
        records, self.seen = self.log[self.seen :], len(self.log)
        return [short(key, value, name_of) for key, value in records]

    def consumer(self, group: str = "g") -> ConsumerGroup:
        found = self.shard.groups[group]
        assert isinstance(found, ConsumerGroup)
        return found

    def state(self, group: str = "g") -> str:
        found = self.shard.groups.get(group)
        return "-" if found is None else found.state_name
