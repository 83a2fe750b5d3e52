"""A topology against the topics of the cluster: how many tasks each subtopology has, how many partitions each internal topic, and which
topics are missing or have the wrong number of partitions.

Source: InternalTopicManager, RepartitionTopics, CopartitionedTopicsEnforcer, ChangelogTopics (group-coordinator, 4.4).
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from broker_sim.coordinator.classic.vote import java_order
from broker_sim.coordinator.epochs.refused import Refused
from broker_sim.coordinator.topics import Topics
from kafka_wire.errors import Err
from kafka_wire.messages import offsets_log as log
from kafka_wire.messages.k88_streams_group_heartbeat import TopicInfo
from kafka_wire.messages.k88_streams_group_heartbeat import Topology as RequestedTopology

Topology = log.StreamsGroupTopologyValue

_NAMED = 3  # topics that a status names; of the others the number
_NO_SINK = (
    "Failed to compute number of partitions for all repartition topics, because a repartition source topic is never used as a sink "
    "topic."
)
_LOOP = "Failed to compute number of partitions for all repartition topics. There may be loops in the topology that cannot be resolved."


class StatusCode(enum.IntEnum):
    """What a heartbeat's answer may say of the group beside the tasks (StreamsGroupHeartbeatResponse.Status)."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5
    MISSING_CLIENT_TAGS = 6


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """A repartition or changelog topic as it should be. ``replication_factor``: 0 for the broker's default."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ConfiguredSubtopology:
    """A subtopology whose topics are there or can be made; its internal topics by name."""

    tasks: int
    source_topics: tuple[str, ...]
    repartition_sink_topics: tuple[str, ...]
    repartition_source_topics: Mapping[str, InternalTopic]
    changelog_topics: Mapping[str, InternalTopic]

    @property
    def is_stateful(self) -> bool:
        return bool(self.changelog_topics)


@dataclass(frozen=True, slots=True)
class Configured:
    """What became of a topology. ``problem``: status code and detail where it can't run now; ``missing``: internal topics to create."""

    epoch: int
    subtopologies: Mapping[str, ConfiguredSubtopology] = field(default_factory=dict)
    missing: Mapping[str, InternalTopic] = field(default_factory=dict)
    problem: tuple[StatusCode, str] | None = None

    @property
    def is_ready(self) -> bool:
        """Whether tasks may be assigned."""
        return self.problem is None


class _Misconfigured(Exception):
    """The topics don't fit the topology."""

    def __init__(self, code: StatusCode, words: str) -> None:
        super().__init__(words)
        self.problem = code, words


def from_request(topology: RequestedTopology) -> Topology:
    """The record of a topology that a member brings. Raises Refused for an epoch that no topology has, and for two subtopologies of one
    id, of which Kafka can't make a map."""
    if topology.epoch < 0 or len({one.subtopology_id for one in topology.subtopologies}) < len(topology.subtopologies):
        raise Refused(Err.UNKNOWN_SERVER_ERROR, None)
    return Topology(
        topology.epoch,
        [
            log.Subtopology(
                one.subtopology_id,
                list(one.source_topics),
                list(one.source_topic_regex),
                _infos(one.state_changelog_topics),
                list(one.repartition_sink_topics),
                _infos(one.repartition_source_topics),
                [
                    log.CopartitionGroup(
                        list(group.source_topics), list(group.source_topic_regex), list(group.repartition_source_topics)
                    )
                    for group in one.copartition_groups
                ],
            )
            for one in topology.subtopologies
        ],
    )


def check_copartition_groups(topology: Topology) -> None:
    """Raises Refused where one counts a topic that its subtopology doesn't have: Kafka falls over it, whatever topics exist."""
    for one in topology.subtopologies:
        sources, repartitioned = range(len(one.source_topics)), range(len(one.repartition_source_topics))
        for group in one.copartition_groups:
            if not (
                all(number in sources for number in group.source_topics)
                and all(number in repartitioned for number in group.repartition_source_topics)
            ):
                raise Refused(Err.UNKNOWN_SERVER_ERROR, None)


def _infos(topics: Iterable[TopicInfo]) -> list[log.InternalTopicInfo]:
    return [
        log.InternalTopicInfo(
            topic.name,
            topic.partitions,
            topic.replication_factor,
            [log.TopicConfig(one.key, one.value) for one in topic.topic_configs],
        )
        for topic in topics
    ]


def is_same(one: Topology, other: Topology) -> bool:
    """Whether two topologies are equal, in whatever order their subtopologies stand."""
    return one.epoch == other.epoch and _by_id(one) == _by_id(other)


def _by_id(topology: Topology) -> dict[str, log.Subtopology]:
    return {one.subtopology_id: one for one in topology.subtopologies}


def required_topics(topology: Topology) -> list[str]:
    """The topics that it reads or keeps its state in, sorted by name."""
    found: set[str] = set()
    for one in topology.subtopologies:
        found.update(one.source_topics)
        found.update(topic.name for topic in (*one.repartition_source_topics, *one.state_changelog_topics))
    return sorted(found)


def source_subtopologies(topology: Topology) -> dict[str, str]:
    """Topic that tasks read -> the subtopology that reads it."""
    found: dict[str, str] = {}
    for one in topology.subtopologies:
        for name in (*one.source_topics, *(topic.name for topic in one.repartition_source_topics)):
            found[name] = one.subtopology_id
    return found


def configured(topology: Topology, topics: Topics) -> Configured:
    """The topology on the topics as they are. Raises Refused for one that no topics would make work."""
    try:
        return _configured(topology, topics)
    except _Misconfigured as wrong:
        return Configured(topology.epoch, problem=wrong.problem)


def _configured(topology: Topology, topics: Topics) -> Configured:
    missing = {name for one in topology.subtopologies for name in one.source_topics if name not in topics.by_name}
    if missing:
        words = f"Source topics {_summary(sorted(missing))} are missing."
        raise _Misconfigured(StatusCode.MISSING_SOURCE_TOPICS, words)
    counts = _Counts(topology, topics)
    counts.decide()
    subtopologies = {
        one.subtopology_id: _subtopology(one, counts)
        for one in sorted(topology.subtopologies, key=lambda one: one.subtopology_id)
    }
    internal = {
        topic.name: topic
        for one in subtopologies.values()
        for topic in (*one.repartition_source_topics.values(), *one.changelog_topics.values())
    }
    for name in java_order(required_topics(topology)):
        image, wanted = topics.by_name.get(name), internal.get(name)
        if image is not None and wanted is not None and image.partitions != wanted.partitions:
            raise _Misconfigured(
                StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                f"Existing topic {name} has different number of partitions: expected {wanted.partitions}, "
                f"found {image.partitions}",
            )
    lacking = [name for name in java_order(internal) if name not in topics.by_name]
    problem = None
    if lacking:
        problem = StatusCode.MISSING_INTERNAL_TOPICS, f"Internal topics are missing: {_summary(lacking)}"
    return Configured(topology.epoch, subtopologies, {name: internal[name] for name in lacking}, problem)


def _summary(names: Collection[str]) -> str:
    shown = ", ".join(list(names)[:_NAMED])
    return shown + (f" and {len(names) - _NAMED} additional topics" if len(names) > _NAMED else "")


def _subtopology(one: log.Subtopology, counts: _Counts) -> ConfiguredSubtopology:
    def internal(topics: Iterable[log.InternalTopicInfo]) -> dict[str, InternalTopic]:
        return {
            topic.name: InternalTopic(
                topic.name,
                topic.partitions or counts.decided[topic.name],
                topic.replication_factor,
                {config.key: config.value for config in topic.topic_configs},
            )
            for topic in topics
        }

    return ConfiguredSubtopology(
        counts.most(one),
        tuple(sorted(set(one.source_topics))),
        tuple(sorted(set(one.repartition_sink_topics))),
        internal(one.repartition_source_topics),
        internal(one.state_changelog_topics),
    )


class _Counts:
    """How many partitions the internal topics have, decided one from the other."""

    def __init__(self, topology: Topology, topics: Topics) -> None:
        self._subtopologies, self._topics = topology.subtopologies, topics
        self.decided: dict[str, int] = {}

    def of(self, name: str) -> int:
        """Of a topic that is there, or decided. Raises Refused for another one."""
        image = self._topics.by_name.get(name)
        count = self.decided.get(name) if image is None else image.partitions
        if count is None:
            raise Refused(Err.UNKNOWN_SERVER_ERROR, None)
        return count

    def most(self, one: log.Subtopology) -> int:
        """Of the topics that a subtopology reads."""
        names = [*one.source_topics, *(topic.name for topic in one.repartition_source_topics)]
        if not names:
            raise Refused(Err.STREAMS_INVALID_TOPOLOGY, f"No source topics found for subtopology {one.subtopology_id}")
        return max(self.of(name) for name in names)

    def decide(self) -> None:
        self._repartition_topics()
        for one in self._subtopologies:
            for group in one.copartition_groups:
                self._copartitioned(_names(one, group))
        for one in self._subtopologies:
            most = self.most(one)
            self.decided.update(dict.fromkeys((topic.name for topic in one.state_changelog_topics), most))

    def _repartition_topics(self) -> None:
        decided = self.decided
        sources = [topic for one in self._subtopologies for topic in one.repartition_source_topics]
        decided.update({topic.name: topic.partitions for topic in sources if topic.partitions})
        waits = True
        while waits:
            waits = moved = False
            for one in self._subtopologies:
                for name in one.repartition_sink_topics:
                    if name in decided:
                        continue
                    count = self._upstream(one)
                    if count is None:
                        waits = True
                    else:
                        decided[name], moved = count, True
            if waits and not moved:
                raise Refused(Err.STREAMS_INVALID_TOPOLOGY, _LOOP)
        if any(topic.name not in decided for topic in sources):
            raise Refused(Err.STREAMS_INVALID_TOPOLOGY, _NO_SINK)

    def _upstream(self, one: log.Subtopology) -> int | None:
        """The most partitions of what a subtopology reads, as far as that is decided."""
        found = [self.decided.get(topic.name) for topic in one.repartition_source_topics]
        found += [
            image.partitions for name in one.source_topics if (image := self._topics.by_name.get(name)) is not None
        ]
        return max((count for count in found if count is not None), default=None)

    def _copartitioned(self, names: list[str]) -> None:
        """Topics that are read together have as many partitions each."""
        sources = {topic.name: topic for one in self._subtopologies for topic in one.repartition_source_topics}
        repartition = {name: self.of(name) for name in names if name in sources}
        others = {name: self.of(name) for name in names if name not in sources}
        fixed = [name for name in sources if sources[name].partitions]
        if not names:
            return
        if others:
            count = _same(others)
        elif fixed:
            count = self.of(fixed[0])
            if any(self.of(name) != count for name in fixed):
                raise _differ(repartition)
        else:
            count = max(repartition.values())
        for name, has in repartition.items():
            self.decided[name] = count
            if name in fixed and has != count:
                raise _Misconfigured(
                    StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                    f"Number of partitions [{has}] of repartition topic [{name}] doesn't match number of partitions [{count}] of the "
                    "source topic.",
                )


def _names(one: log.Subtopology, group: log.CopartitionGroup) -> list[str]:
    """The topics of a copartition group, which are named by their places. Raises Refused for places that there are not."""
    try:
        names = [one.source_topics[at] for at in group.source_topics]
        names += [one.repartition_source_topics[at].name for at in group.repartition_source_topics]
    except IndexError:
        raise Refused(Err.UNKNOWN_SERVER_ERROR, None) from None
    return list(dict.fromkeys(names))


def _same(counts: Mapping[str, int]) -> int:
    if len(set(counts.values())) > 1:
        raise _differ(counts)
    return next(iter(counts.values()))


def _differ(counts: Mapping[str, int]) -> _Misconfigured:
    shown = ", ".join(f"{name}={count}" for name, count in sorted(counts.items()))
    return _Misconfigured(
        StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
        f"Following topics do not have the same number of partitions: [{{{shown}}}]",
    )
