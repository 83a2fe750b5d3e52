"""A topology against the topics of the cluster: how many tasks each subtopology has, how many partitions each internal topic, and which
topics are missing or have the wrong number of partitions.

Source: InternalTopicManager, RepartitionTopics, CopartitionedTopicsEnforcer, ChangelogTopics (group-coordinator, 4.4).
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from heapq import heappop, heappush
from itertools import chain
from operator import attrgetter
from typing import Any

from broker_sim.common.slices import Pace, at_once, chunked, distinct, in_order
from broker_sim.coordinator.classic.vote import java_ordering
from broker_sim.coordinator.epochs.refused import Refused
from broker_sim.coordinator.topics import Topics
from kafka_wire.errors import Err
from kafka_wire.messages import offsets_log as log
from kafka_wire.messages.k88_streams_group_heartbeat import TopicInfo
from kafka_wire.messages.k88_streams_group_heartbeat import Topology as RequestedTopology
from kafka_wire.offsets_log import encoding_value

Topology = log.StreamsGroupTopologyValue

_PIECE = 2000  # subtopologies, topics and copartition groups that are looked at before others are served
_SUBTOPOLOGY = 20  # what one takes that is configured or compared, in these
MOST_TASKS = 10_000
"""Kafka has no limit. Tasks are assigned in one step here, and a megabyte of subtopologies that read a topic of 10,000 partitions would
have 500 million."""
_NAMED = 3  # topics that a status names; of the others the number
_NAME = attrgetter("name")
_FIELDS = [attrgetter(field.name) for field in fields(log.Subtopology)]
_NO_SINK = (
    "Failed to compute number of partitions for all repartition topics, because a repartition source topic is never used as a sink "
    "topic."
)
_LOOP = "Failed to compute number of partitions for all repartition topics. There may be loops in the topology that cannot be resolved."


class StatusCode(enum.IntEnum):
    """Status codes in a heartbeat's response (StreamsGroupHeartbeatResponse.Status)."""

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
    """A topology that was configured for the topics. ``problem``: status code and detail if it can't run now; ``missing``: internal
    topics to create."""

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


@dataclass(slots=True)
class ReceivedTopology:
    """A topology that a member has sent, as the value of the group's record, and its configuration for the topics at their ``version``.
    Not ``is_sound``: Kafka fails with an exception at its epoch, or at two subtopologies with one id. ``same``: the group's topology,
    if this one equals it; ``encoded``: the value of the group's record, if one is written."""

    topology: Topology
    is_sound: bool
    version: int
    result: Configured | Refused | None = None
    same: Topology | None = None
    encoded: bytes | None = None

    def is_same(self, known: Topology) -> bool:
        """Whether it is equal to the group's."""
        return self.same is known or is_same(known, self.topology)


def receiving(
    requested: RequestedTopology, topics: Topics, known: Topology | None = None
) -> Generator[None, None, ReceivedTopology]:
    """Read a topology, in pieces; the group, which has the topology ``known`` now, then does the rest in one step."""
    pace, topology, ids = Pace(_PIECE), Topology(requested.epoch, []), set[str]()
    for subtopology in requested.subtopologies:
        row = log.Subtopology(
            subtopology.subtopology_id,
            subtopology.source_topics,
            subtopology.source_topic_regex,
            [],
            subtopology.repartition_sink_topics,
            [],
            [],
        )
        ids.add(subtopology.subtopology_id)
        topology.subtopologies.append(row)
        if pace.full():
            yield
        row.state_changelog_topics = yield from _infos(subtopology.state_changelog_topics, pace)
        row.repartition_source_topics = yield from _infos(subtopology.repartition_source_topics, pace)
        for group in subtopology.copartition_groups:
            if pace.full():
                yield
            row.copartition_groups.append(
                log.CopartitionGroup(group.source_topics, group.source_topic_regex, group.repartition_source_topics)
            )
    received = ReceivedTopology(
        topology, topology.epoch >= 0 and len(ids) == len(topology.subtopologies), topics.version
    )
    if received.is_sound:
        try:
            yield from _check_copartition_groups(topology, pace)
            received.result = yield from configuring(topology, topics)
        except Refused as refused:
            received.result = refused
        if known is None:
            received.encoded = yield from encoding_value(0, topology)
        elif (yield from _comparing(known, topology, pace)):
            received.same = known
    return received


def _check_copartition_groups(topology: Topology, pace: Pace) -> Generator[None, None, None]:
    """Raises Refused if a copartition group names a topic that its subtopology doesn't have: Kafka fails with an exception, whatever
    topics exist."""
    for subtopology in topology.subtopologies:
        sources, repartitioned = (
            range(len(subtopology.source_topics)),
            range(len(subtopology.repartition_source_topics)),
        )
        if pace.full():
            yield
        for group in subtopology.copartition_groups:
            if pace.full(1 + len(group.source_topics) + len(group.repartition_source_topics)):
                yield
            if not (_are_in(sources, group.source_topics) and _are_in(repartitioned, group.repartition_source_topics)):
                raise Refused(Err.UNKNOWN_SERVER_ERROR, None)


def _are_in(places: range, numbers: list[int]) -> bool:
    return not numbers or (min(numbers) >= 0 and max(numbers) < len(places))


def _infos(topics: Iterable[TopicInfo], pace: Pace) -> Generator[None, None, list[log.InternalTopicInfo]]:
    rows: list[log.InternalTopicInfo] = []
    for topic in topics:
        if pace.full():
            yield
        configs: list[log.TopicConfig] = []
        for config in topic.topic_configs:
            if pace.full():
                yield
            configs.append(log.TopicConfig(config.key, config.value))
        rows.append(log.InternalTopicInfo(topic.name, topic.partitions, topic.replication_factor, configs))
    return rows


def is_same(topology: Topology, other: Topology) -> bool:
    """Whether two topologies are equal, in any order of their subtopologies."""
    return at_once(_comparing(topology, other, Pace(_PIECE)))


def _comparing(topology: Topology, other: Topology, pace: Pace) -> Generator[None, None, bool]:
    if topology.epoch != other.epoch:
        return False
    by_id, others = _by_id(topology), _by_id(other)
    if by_id.keys() != others.keys():
        return False
    for subtopology_id, own in by_id.items():
        if pace.full(_SUBTOPOLOGY):
            yield
        other_one = others[subtopology_id]
        for field_of in _FIELDS:
            rows, other_rows = field_of(own), field_of(other_one)
            if not isinstance(rows, list):
                if rows != other_rows:
                    return False
                continue
            if not (yield from _equal(rows, other_rows, pace)):
                return False
    return True


def _equal(rows: Sequence[Any], others: Sequence[Any], pace: Pace) -> Generator[None, None, bool]:
    """Whether two lists are equal; the settings of an internal topic may be as many as its topology is long."""
    if len(rows) != len(others):
        return False
    if rows and isinstance(rows[0], log.InternalTopicInfo):
        for mine, other in zip(rows, others, strict=True):
            if pace.full():
                yield
            if replace(mine, topic_configs=[]) != replace(other, topic_configs=[]):
                return False
            if not (yield from _equal(mine.topic_configs, other.topic_configs, pace)):
                return False
        return True
    for at in range(0, len(rows), _PIECE):
        if pace.full(min(_PIECE, len(rows) - at)):
            yield
        if rows[at : at + _PIECE] != others[at : at + _PIECE]:
            return False
    return True


def _by_id(topology: Topology) -> dict[str, log.Subtopology]:
    return {subtopology.subtopology_id: subtopology for subtopology in topology.subtopologies}


def required_topics(topology: Topology) -> list[str]:
    """The topics that it reads or keeps its state in."""
    return list(dict.fromkeys(_required(topology)))


def _required(topology: Topology) -> Iterator[str]:
    return chain.from_iterable(map(_required_by, topology.subtopologies))


def _required_by(subtopology: log.Subtopology) -> Iterator[str]:
    return chain(
        subtopology.source_topics,
        map(_NAME, subtopology.repartition_source_topics),
        map(_NAME, subtopology.state_changelog_topics),
    )


def source_subtopologies(topology: Topology) -> dict[str, str]:
    """Topic that tasks read -> the subtopology that reads it."""
    readers: dict[str, str] = {}
    for subtopology in topology.subtopologies:
        for name in (*subtopology.source_topics, *(topic.name for topic in subtopology.repartition_source_topics)):
            readers[name] = subtopology.subtopology_id
    return readers


def configuring(topology: Topology, topics: Topics) -> Generator[None, None, Configured]:
    """The topology on the topics as they are, in pieces. Raises Refused for one that no topics would make work."""
    try:
        return (yield from _configuring(topology, topics, Pace(_PIECE)))
    except _Misconfigured as wrong:
        return Configured(topology.epoch, problem=wrong.problem)


def _configuring(topology: Topology, topics: Topics, pace: Pace) -> Generator[None, None, Configured]:
    missing: set[str] = set()
    for subtopology in topology.subtopologies:
        for names in chunked(subtopology.source_topics, _PIECE):
            if pace.full(len(names)):
                yield
            missing.update(name for name in names if name not in topics.by_name)
        if pace.full():
            yield
    if missing:
        words = f"Source topics {_summary((yield from in_order(missing)))} are missing."
        raise _Misconfigured(StatusCode.MISSING_SOURCE_TOPICS, words)
    if any(
        topic.partitions < 0
        for subtopology in topology.subtopologies
        for topic in subtopology.repartition_source_topics
    ):
        raise Refused(Err.UNKNOWN_SERVER_ERROR, None)  # Kafka falls over it
    counts = _Counts(topology, topics, pace)
    yield from counts.deciding()
    subtopologies: dict[str, ConfiguredSubtopology] = {}
    internal: dict[str, InternalTopic] = {}
    tasks = 0
    for subtopology in sorted(topology.subtopologies, key=lambda item: item.subtopology_id):
        made = subtopologies[subtopology.subtopology_id] = yield from _subtopology(subtopology, counts, pace)
        tasks += made.tasks
        if tasks > MOST_TASKS:
            words = f"The topology has more than {MOST_TASKS:,} tasks, which are all that the simulator assigns."
            raise Refused(Err.STREAMS_INVALID_TOPOLOGY, words)
        for topic in (*made.repartition_source_topics.values(), *made.changelog_topics.values()):
            if pace.full():
                yield
            internal[topic.name] = topic
    required = yield from in_order((yield from distinct(_required(topology))))
    for name in (yield from java_ordering(required)):
        if pace.full():
            yield
        image, wanted = topics.by_name.get(name), internal.get(name)
        if image is not None and wanted is not None and image.partitions != wanted.partitions:
            raise _Misconfigured(
                StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                f"Existing topic {name} has different number of partitions: expected {wanted.partitions}, "
                f"found {image.partitions}",
            )
    lacking = [name for name in (yield from java_ordering(internal)) if name not in topics.by_name]
    problem = None
    if lacking:
        problem = StatusCode.MISSING_INTERNAL_TOPICS, f"Internal topics are missing: {_summary(lacking)}"
    return Configured(topology.epoch, subtopologies, {name: internal[name] for name in lacking}, problem)


def _summary(names: Collection[str]) -> str:
    shown = ", ".join(list(names)[:_NAMED])
    return shown + (f" and {len(names) - _NAMED} additional topics" if len(names) > _NAMED else "")


def _subtopology(
    subtopology: log.Subtopology, counts: _Counts, pace: Pace
) -> Generator[None, None, ConfiguredSubtopology]:
    def internal(topics: Iterable[log.InternalTopicInfo]) -> Generator[None, None, dict[str, InternalTopic]]:
        by_name: dict[str, InternalTopic] = {}
        for topic in topics:
            configs: dict[str, str] = {}
            for config in topic.topic_configs:
                if pace.full():
                    yield
                configs[config.key] = config.value
            if pace.full():
                yield
            count = topic.partitions or counts.decided[topic.name]
            by_name[topic.name] = InternalTopic(topic.name, count, topic.replication_factor, configs)
        return by_name

    if pace.full(_SUBTOPOLOGY):
        yield
    return ConfiguredSubtopology(
        (yield from counts.most(subtopology)),
        tuple((yield from in_order((yield from distinct(subtopology.source_topics))))),
        tuple((yield from in_order((yield from distinct(subtopology.repartition_sink_topics))))),
        (yield from internal(subtopology.repartition_source_topics)),
        (yield from internal(subtopology.state_changelog_topics)),
    )


class _Counts:
    """Numbers of partitions of internal topics, decided one from the other. The time for that grows with the topology's size alone:
    a subtopology is looked at again only where something that it waits for has been decided."""

    def __init__(self, topology: Topology, topics: Topics, pace: Pace) -> None:
        self._subtopologies, self._topics, self._pace = topology.subtopologies, topics, pace
        self._sources: dict[str, log.InternalTopicInfo] = {}
        self._fixed: list[str] = []
        self.decided: dict[str, int] = {}

    def of(self, name: str) -> int:
        """Number of partitions of a topic that exists or is decided. Raises Refused for another one."""
        image = self._topics.by_name.get(name)
        count = self.decided.get(name) if image is None else image.partitions
        if count is None:
            raise Refused(Err.UNKNOWN_SERVER_ERROR, None)
        return count

    def most(self, subtopology: log.Subtopology) -> Generator[None, None, int]:
        """Largest number of partitions of the topics that a subtopology reads, in pieces. Raises Refused if it reads none."""
        most = -1
        for names in chunked(
            chain(subtopology.source_topics, map(_NAME, subtopology.repartition_source_topics)), _PIECE
        ):
            if self._pace.full(len(names)):
                yield
            most = max(most, *map(self.of, names))
        if most < 0:
            raise Refused(
                Err.STREAMS_INVALID_TOPOLOGY, f"No source topics found for subtopology {subtopology.subtopology_id}"
            )
        return most

    def deciding(self) -> Generator[None, None, None]:
        """In pieces. Raises Refused, _Misconfigured."""
        yield from self._repartition_topics()
        differs: bool | None = None  # those of a fixed number stay as they are
        for subtopology in self._subtopologies:
            for group in subtopology.copartition_groups:
                if self._pace.full(1 + len(group.source_topics) + len(group.repartition_source_topics)):
                    yield
                names = _names(subtopology, group)
                if differs is None and self._fixed and names:
                    differs = len({self.of(name) for name in self._fixed}) > 1
                self._copartitioned(names, differs=bool(differs))
        for subtopology in self._subtopologies:
            most = yield from self.most(subtopology)
            for topics in chunked(subtopology.state_changelog_topics, _PIECE):
                if self._pace.full(len(topics)):
                    yield
                self.decided.update(dict.fromkeys(map(_NAME, topics), most))
            if self._pace.full():
                yield

    def _repartition_topics(self) -> Generator[None, None, None]:
        """Kafka goes over the subtopologies again and again, until a round decides nothing: `due` has those whose turn it is, by round
        and place."""
        decided, readers = self.decided, (yield from self._readers())
        due = [(0, place) for place, item in enumerate(self._subtopologies) if item.repartition_sink_topics]
        waiting: set[int] = set()
        while due:
            turn, place = heappop(due)
            subtopology = self._subtopologies[place]
            names: list[str] = []
            for some in chunked(subtopology.repartition_sink_topics, _PIECE):
                if self._pace.full(len(some)):
                    yield
                names += [name for name in some if name not in decided]
            if not names:
                continue
            count = yield from self._upstream(subtopology)
            if count is None:
                waiting.add(place)
                continue
            for name in names:
                if self._pace.full():
                    yield
                decided[name] = count
                for reader in readers.get(name, ()):
                    if reader in waiting:
                        waiting.remove(reader)
                        heappush(due, (turn if reader > place else turn + 1, reader))
        if any(name not in decided for place in waiting for name in self._subtopologies[place].repartition_sink_topics):
            raise Refused(Err.STREAMS_INVALID_TOPOLOGY, _LOOP)
        if any(name not in decided for name in self._sources):
            raise Refused(Err.STREAMS_INVALID_TOPOLOGY, _NO_SINK)

    def _readers(self) -> Generator[None, None, dict[str, list[int]]]:
        """Readers by repartition topic: the places of the subtopologies that read it and write another one. The topics themselves are
        stored, and those with a fixed number of partitions are decided."""
        readers: dict[str, list[int]] = {}
        for place, subtopology in enumerate(self._subtopologies):
            if self._pace.full():
                yield
            for topic in subtopology.repartition_source_topics:
                if self._pace.full():
                    yield
                self._sources[topic.name] = topic
                if subtopology.repartition_sink_topics:
                    readers.setdefault(topic.name, []).append(place)
        self._fixed = [name for name, topic in self._sources.items() if topic.partitions]
        self.decided.update({name: self._sources[name].partitions for name in self._fixed})
        return readers

    def _upstream(self, subtopology: log.Subtopology) -> Generator[None, None, int | None]:
        """The maximum number of partitions of a subtopology's source topics that are known so far."""
        most = -1
        for names in chunked(map(_NAME, subtopology.repartition_source_topics), _PIECE):
            if self._pace.full(len(names)):
                yield
            most = max(most, *(self.decided.get(name, -1) for name in names))
        by_name = self._topics.by_name
        for names in chunked(subtopology.source_topics, _PIECE):
            if self._pace.full(len(names)):
                yield
            most = max(most, *(by_name[name].partitions for name in names if name in by_name), -1)
        return None if most < 0 else most

    def _copartitioned(self, names: list[str], *, differs: bool) -> None:
        """Topics that are read together have as many partitions each; ``differs``: those that the topology fixes have not."""
        sources = self._sources
        repartition = {name: self.of(name) for name in names if name in sources}
        others = {name: self.of(name) for name in names if name not in sources}
        if not names:
            return
        if others:
            count = _same(others)
        elif self._fixed:
            count = self.of(self._fixed[0])
            if differs:
                raise _differ(repartition)
        else:
            count = max(repartition.values())
        for name, has in repartition.items():
            self.decided[name] = count
            if sources[name].partitions and has != count:
                raise _Misconfigured(
                    StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                    f"Number of partitions [{has}] of repartition topic [{name}] doesn't match number of partitions [{count}] of the "
                    "source topic.",
                )


def _names(subtopology: log.Subtopology, group: log.CopartitionGroup) -> list[str]:
    """The topics of a copartition group, which are named by their places. Raises Refused for places that there are not."""
    try:
        names = [subtopology.source_topics[at] for at in group.source_topics]
        names += [subtopology.repartition_source_topics[at].name for at in group.repartition_source_topics]
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
