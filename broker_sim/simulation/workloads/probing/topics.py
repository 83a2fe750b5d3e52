"""A prober of topics: they are made, grown, described, given other settings and deleted, and what the cluster says of itself
is what brokers do. See `Prober`.

What a topic is this prober knows, as it alone has made it. Who leads and who is in sync is the cluster's matter, and watched by
`checks.leaders`; here it is asked whether Metadata, DescribeTopicPartitions and DescribeCluster return the state.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from broker_sim.simulation.workloads.probing.prober import Prober
from kafka_wire.errors import Err
from kafka_wire.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from kafka_wire.messages.k18_api_versions import ApiVersionsRequest
from kafka_wire.messages.k19_create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from kafka_wire.messages.k19_create_topics import CreatableTopicConfig as Setting
from kafka_wire.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from kafka_wire.messages.k32_describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafka_wire.messages.k35_describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from kafka_wire.messages.k37_create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kafka_wire.messages.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafka_wire.messages.k60_describe_cluster import DescribeClusterRequest
from kafka_wire.messages.k75_describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
    TopicRequest,
)
from kafka_wire.schema import ZERO_UUID

if TYPE_CHECKING:
    from broker_sim.metadata.cluster_state import Topic

__all__ = ["TopicProber"]

_TOPIC = 2
_SET, _DELETE = 0, 1
_OWN = 1
"""A setting's source: the topic's own."""
_MADE = "topics are made by the rules"
_TOLD = "metadata is as it is"
_SETTINGS = {
    "retention.ms": ("1000000", "2000000", "604800000"),
    "max.message.bytes": ("1000", "900000", "1048588"),
    "cleanup.policy": ("delete", "compact", "delete"),
    "min.insync.replicas": ("1", "2", "1"),
    "segment.ms": ("5000", "90000", "604800000"),
}
"""Two values that may be set, and the default."""


@dataclass(slots=True)
class _Mine:
    """A topic as it must be."""

    name: str
    topic_id: bytes
    count: int
    factor: int
    settings: dict[str, str] = field(default_factory=dict)


class TopicProber(Prober):
    """Creates, grows, configures and deletes topics of its own, and checks what the cluster's metadata says of them."""

    PAUSE_S = 0.05

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.topics: list[_Mine] = []
        self.deleted: list[_Mine] = []
        self._number = 0
        self._begun_s, self._version = 0.0, -1

    def watch(self) -> None:
        """From here on it counts whether something happens."""
        self._begun_s, self._version = self.calm.now_s(), self.state.version

    def is_quiet(self, *, unchanged: bool = True) -> bool:
        """Whether nothing was wrong since, and, with ``unchanged``, nothing in the cluster is another than it was."""
        return self.calm.since(self._begun_s) and (not unchanged or self._version == self.state.version)

    def fresh(self) -> str:
        """A topic name that no topic has had."""
        self._number += 1
        return f"{self.name}-t{self._number}"

    # --- making

    async def _create(self, *topics: CreatableTopic, validate_only: bool = False) -> list[tuple[Any, int]]:
        version = self.pick(CreateTopicsRequest, 2)
        answer = await self.request_once(CreateTopicsRequest(list(topics), 1000, validate_only), version, self.broker())
        actual = [topic.name for topic in answer.topics]
        self.expect(_MADE, "CreateTopics: topics", actual, [topic.name for topic in topics])
        return [(topic, version) for topic in answer.topics]

    async def _do_make(self) -> None:
        if len(self.topics) >= 4:
            return
        count, factor = self.rng.randint(1, 4), self.rng.randint(1, len(self.state.brokers))
        name, settings = self.fresh(), {}
        for key, values in _SETTINGS.items():
            if self.rng.random() < 0.3:
                settings[key] = self.rng.choice(values[:2])
        rows = [Setting(key, value) for key, value in settings.items()]
        by_hand: list[list[int]] = []
        if self.rng.random() < 0.3:
            by_hand = [self.rng.sample(sorted(self.state.brokers), factor) for _ in range(count)]
        assigned = [CreatableReplicaAssignment(index, nodes) for index, nodes in enumerate(by_hand)]
        asked = CreatableTopic(name, -1 if by_hand else count, -1 if by_hand else factor, assigned, rows)
        self.watch()
        before = self.state.next_leader
        only = self.rng.random() < 0.2
        ((answer, version),) = await self._create(asked, validate_only=only)
        if not self.is_quiet(unchanged=False):
            return
        if not self.expect(_MADE, f"CreateTopics v{version} of {name}", Err(answer.error_code), Err.NONE):
            return
        if version >= 5:
            actual = answer.num_partitions, answer.replication_factor
            self.expect(_MADE, f"{name}: partitions, replicas", actual, (count, factor))
        there = self.state.topics.get(name)
        self.expect(_MADE, f"{name} is there (validate only: {only})", there is not None, not only)
        if there is None or only:
            return
        replicas = [partition.replicas for partition in there.partitions]
        leaders = [partition.leader for partition in there.partitions]
        self.expect(_MADE, f"{name}: the first replica leads", leaders, [nodes[0] for nodes in replicas])
        if by_hand:
            self.expect(_MADE, f"{name}: replicas by hand", replicas, by_hand)
        else:
            self._check_spread(name, replicas, count, factor, before)
        self.topics.append(_Mine(name, there.topic_id, count, factor, settings))

    def _check_spread(self, name: str, replicas: list[list[int]], count: int, factor: int, before: int) -> None:
        """Each partition's replicas are of different brokers, and leaders are spread evenly."""
        good = all(
            len(set(nodes)) == factor == len(nodes) and set(nodes) <= set(self.state.brokers) for nodes in replicas
        )
        self.expect(_MADE, f"{name}: {count} x {factor} replicas {replicas}", (len(replicas), good), (count, True))
        leads = [sum(nodes[0] == node for nodes in replicas) for node in self.state.brokers]
        if max(leads) - min(leads) > 1:
            self.breach(_MADE, f"{name}: leaders are uneven, {replicas} behind {before}")

    async def _do_make_what_is_refused(self) -> None:
        brokers = len(self.state.brokers)
        known = self.rng.choice(self.topics).name if self.topics else "orders"
        cases: dict[str, tuple[CreatableTopic, Err]] = {
            "there": (CreatableTopic(known, 1, 1), Err.TOPIC_ALREADY_EXISTS),
            "name": (CreatableTopic("what a name", 1, 1), Err.INVALID_TOPIC_EXCEPTION),
            "long": (CreatableTopic("x" * 250, 1, 1), Err.INVALID_TOPIC_EXCEPTION),
            "none": (CreatableTopic(self.fresh(), 0, 1), Err.INVALID_PARTITIONS),
            "factor": (CreatableTopic(self.fresh(), 1, brokers + 1), Err.INVALID_REPLICATION_FACTOR),
            "no factor": (CreatableTopic(self.fresh(), 1, 0), Err.INVALID_REPLICATION_FACTOR),
            "setting": (CreatableTopic(self.fresh(), 1, 1, [], [Setting("no.setting", "1")]), Err.INVALID_CONFIG),
            "value": (CreatableTopic(self.fresh(), 1, 1, [], [Setting("retention.ms", "x")]), Err.INVALID_CONFIG),
            "null": (CreatableTopic(self.fresh(), 1, 1, [], [Setting("retention.ms", None)]), Err.INVALID_CONFIG),
            "twice": (
                CreatableTopic(self.fresh(), -1, -1, [CreatableReplicaAssignment(0, [1, 1])]), Err.INVALID_REPLICA_ASSIGNMENT
            ),
            "nobody": (
                CreatableTopic(self.fresh(), -1, -1, [CreatableReplicaAssignment(0, [99])]), Err.INVALID_REPLICA_ASSIGNMENT
            ),
        }  # fmt: skip
        what = self.rng.choice(sorted(cases))
        asked, wanted = cases[what]
        self.watch()
        ((answer, _),) = await self._create(asked)
        if self.is_quiet(unchanged=False):
            self.expect(_MADE, f"CreateTopics of {asked.name[:20]} ({what})", Err(answer.error_code), wanted)
            if asked.name != known and asked.name in self.state.topics:
                self.breach(_MADE, f"{asked.name[:20]} was refused, and is there")

    async def _do_make_one_twice(self) -> None:
        """CreateTopics with a duplicate name: expect one error for that name, and that the others are created."""
        twice, once = self.fresh(), self.fresh()
        asked = [CreatableTopic(name, 1, 1) for name in (twice, once, twice)]
        self.watch()
        version = self.pick(CreateTopicsRequest, 2)
        answer = await self.request_once(CreateTopicsRequest(asked, 1000, False), version, self.broker())
        if self.is_quiet(unchanged=False):
            actual = {topic.name: Err(topic.error_code) for topic in answer.topics}
            self.expect(_MADE, "CreateTopics with a name twice", actual, {twice: Err.INVALID_REQUEST, once: Err.NONE})
            there = twice in self.state.topics, once in self.state.topics
            self.expect(_MADE, "CreateTopics with a name twice: what is there", there, (False, True))

    async def _do_grow(self) -> None:
        if not self.topics:
            return
        mine = self.rng.choice(self.topics)
        count = self.rng.choice((mine.count + 1, mine.count + 2, mine.count, mine.count - 1))
        if count > 8:
            return
        only = self.rng.random() < 0.2
        request = CreatePartitionsRequest([CreatePartitionsTopic(mine.name, count, None)], 1000, only)
        self.watch()
        answer = await self.request_once(request, self.pick(CreatePartitionsRequest), self.broker())
        row = answer.results[0]
        if not self.is_quiet(unchanged=False):
            if row.error_code == 0 and not only and count > mine.count:
                mine.count = count
            elif not only and count > mine.count:
                self.topics.remove(mine)
            return
        wanted = Err.NONE if count > mine.count else Err.INVALID_PARTITIONS
        self.expect(
            "CreatePartitions follows the broker's rules",
            f"{mine.name} to {count}",
            (row.name, Err(row.error_code)),
            (mine.name, wanted),
        )
        if wanted is Err.NONE and not only:
            mine.count = count
        there = self.state.topics[mine.name].partitions
        self.expect("CreatePartitions follows the broker's rules", f"{mine.name}: partitions", len(there), mine.count)
        factors = {len(partition.replicas) for partition in there}
        self.expect("CreatePartitions follows the broker's rules", f"{mine.name}: replicas", factors, {mine.factor})

    async def _do_delete(self) -> None:
        if not self.topics or self.rng.random() < 0.5:
            return
        mine = self.topics.pop(self.rng.randrange(len(self.topics)))
        version = self.pick(DeleteTopicsRequest)
        by_id = version >= 6 and self.rng.random() < 0.5
        state = DeleteTopicState(None, mine.topic_id) if by_id else DeleteTopicState(mine.name)
        request = DeleteTopicsRequest([state] if version >= 6 else [], [mine.name], 1000)
        for again in (False, True):
            self.watch()
            row = (await self.request_once(request, version, self.broker())).responses[0]
            if not self.is_quiet(unchanged=False):
                return
            missing = Err.UNKNOWN_TOPIC_ID if by_id else Err.UNKNOWN_TOPIC_OR_PARTITION
            wanted = missing if again else Err.NONE
            self.expect(
                "deleted topics are removed", f"DeleteTopics v{version} of {mine.name}", Err(row.error_code), wanted
            )
        if mine.name in self.state.topics or mine.topic_id in self.state.topics_by_id:
            self.breach("deleted topics are removed", f"{mine.name} is there")
        self.deleted.append(mine)

    # --- what the cluster says of itself

    def _partitions(self, topic: Topic) -> list[tuple[Any, ...]]:
        """As Metadata must return them."""
        down = [node for node, broker in self.state.brokers.items() if not broker.alive]
        return [
            (
                Err.NONE if partition.leader >= 0 else Err.LEADER_NOT_AVAILABLE,
                partition.index, partition.leader, partition.leader_epoch,
                sorted(partition.replicas), sorted(partition.isr), sorted(node for node in partition.replicas if node in down),
            )
            for partition in topic.partitions
        ]  # fmt: skip

    def _described(self, rows: Any, *, epochs: bool = True, offline: bool = True) -> list[tuple[Any, ...]]:
        return [
            (
                Err(row.error_code), row.partition_index, row.leader_id, row.leader_epoch if epochs else -1,
                sorted(row.replica_nodes), sorted(row.isr_nodes), sorted(row.offline_replicas) if offline else [],
            )
            for row in rows
        ]  # fmt: skip

    def _brokers(self) -> list[tuple[int, str, int]]:
        hosts = self.context.kafka.hosts
        return [(node, hosts[node - 1], 9092) for node, broker in self.state.brokers.items() if broker.alive]

    async def _do_ask_for_metadata(self) -> None:
        # one request and all that its response must contain; most fields depend on the version, so the checks can't be a table
        version = self.pick(MetadataRequest, 1)
        every, by_id = self.rng.random() < 0.3, version >= 12 and self.rng.random() < 0.5
        some = self.rng.sample(self.topics, self.rng.randint(0, len(self.topics)))
        old = self.deleted[-1] if self.deleted else None
        asked = None
        if not every:
            asked = [
                MetadataRequestTopic(wanted_topic.topic_id, None)
                if by_id
                else MetadataRequestTopic(ZERO_UUID, wanted_topic.name)
                for wanted_topic in some
            ]
            if old is not None:
                asked.append(
                    MetadataRequestTopic(old.topic_id, None) if by_id else MetadataRequestTopic(ZERO_UUID, old.name)
                )
        self.watch()
        if version < 4 and not every and self.deleted:
            self.deleted.pop()  # it may make what it asks for
        answer = await self.request_once(MetadataRequest(asked, version < 4), version, self.broker())
        if (version < 4 and not every and old is not None) or not self.is_quiet():
            return
        brokers = [(broker.node_id, broker.host, broker.port) for broker in answer.brokers]
        self.expect(_TOLD, "Metadata: brokers", brokers, self._brokers())
        self.expect(_TOLD, "Metadata: the controller", answer.controller_id, self.state.controller_id)
        if version >= 2:
            self.expect(_TOLD, "Metadata: the cluster", answer.cluster_id, self.state.cluster_id)
        shown = {topic.topic_id if by_id and topic.error_code else topic.name: topic for topic in answer.topics}
        self.expect(_TOLD, "Metadata: topics", len(shown), len(self.state.topics) if asked is None else len(asked))
        for mine in self.topics if every else some:
            row = shown.get(mine.name)
            if row is None:
                self.breach(_TOLD, f"Metadata v{version}: {mine.name} is left out")
                continue
            head = Err(row.error_code), row.topic_id if version >= 10 else mine.topic_id, len(row.partitions)
            self.expect(_TOLD, f"Metadata v{version} of {mine.name}", head, (Err.NONE, mine.topic_id, mine.count))
            actual = self._described(row.partitions, epochs=version >= 7, offline=version >= 5)
            wanted = [
                (
                    *partition[:3],
                    partition[3] if version >= 7 else -1,
                    *partition[4:6],
                    partition[6] if version >= 5 else [],
                )
                for partition in self._partitions(self.state.topics[mine.name])
            ]
            self.expect(_TOLD, f"Metadata v{version} of {mine.name}", actual, wanted)
        if asked is not None and old is not None:
            row = shown.get(old.topic_id if by_id else old.name)
            error = Err.UNKNOWN_TOPIC_ID if by_id else Err.UNKNOWN_TOPIC_OR_PARTITION
            self.expect(_TOLD, f"Metadata of {old.name}, deleted", row and Err(row.error_code), error)

    async def _do_ask_what_is_spoken(self) -> None:
        """ApiVersions: expect the versions of the release for every client; an unknown version of the request gets a response of
        version 0."""
        self.watch()
        version = self.pick(ApiVersionsRequest)
        answer = await self.request_once(ApiVersionsRequest("prober", "1.0"), version, self.broker())
        if self.is_quiet():
            rule = "supported API versions are advertised"
            actual = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
            wanted = dict(self._spoken)
            if 0 in wanted:  # librdkafka looks for old ones (KAFKA-18659)
                wanted[0] = (0, wanted[0][1])
            self.expect(rule, f"ApiVersions v{version}: error", Err(answer.error_code), Err.NONE)
            self.expect(rule, f"ApiVersions v{version}", actual, wanted)

    async def _do_describe_the_cluster(self) -> None:
        if not self.supports(DescribeClusterRequest):
            return
        self.watch()
        version = self.pick(DescribeClusterRequest)
        answer = await self.request_once(DescribeClusterRequest(), version, self.broker())
        if self.is_quiet():
            brokers = [(broker.broker_id, broker.host, broker.port) for broker in answer.brokers]
            self.expect(_TOLD, "DescribeCluster: brokers", sorted(brokers), sorted(self._brokers()))
            actual = Err(answer.error_code), answer.cluster_id
            self.expect(_TOLD, "DescribeCluster", actual, (Err.NONE, self.state.cluster_id))

    async def _do_page_through_partitions(self) -> None:
        """DescribeTopicPartitions gives all of them, some at a time."""
        if not self.supports(DescribeTopicPartitionsRequest) or not self.topics:
            return
        self.watch()
        names, limit = [topic.name for topic in self.topics], self.rng.choice((1, 2, 3, 100))
        pages: dict[str, list[Any]] = {}
        cursor = None
        for _ in range(60):
            request = DescribeTopicPartitionsRequest([TopicRequest(name) for name in names], limit, cursor)
            answer = await self.request_once(request, 0, self.broker())
            if not self.is_quiet():
                return
            got = sum(len(topic.partitions) for topic in answer.topics)
            if got > limit:
                self.breach(_TOLD, f"DescribeTopicPartitions: {got} partitions, {limit} were asked for")
            for topic in answer.topics:
                pages.setdefault(topic.name, []).extend(topic.partitions)
            if answer.next_cursor is None:
                break
            cursor = DescribeTopicPartitionsRequestCursor(
                answer.next_cursor.topic_name, answer.next_cursor.partition_index
            )
        for mine in self.topics:
            wanted = self._partitions(self.state.topics[mine.name])
            self.expect(
                _TOLD, f"DescribeTopicPartitions of {mine.name}", self._described(pages.get(mine.name, [])), wanted
            )

    async def _do_describe_log_dirs(self) -> None:
        if not self.topics:
            return
        mine, broker = self.rng.choice(self.topics), self.broker()
        every = self.rng.random() < 0.3
        asked = None if every else [DescribableLogDirTopic(mine.name, list(range(mine.count)))]
        self.watch()
        answer = await self.request_once(DescribeLogDirsRequest(asked), self.pick(DescribeLogDirsRequest), broker)
        if self.is_quiet():
            rows = {topic.name: topic for topic in answer.results[0].topics} if answer.results else {}
            actual = (
                [(partition.partition_index, partition.partition_size) for partition in rows[mine.name].partitions]
                if mine.name in rows
                else []
            )
            there = [replica for replica in self.state.topics[mine.name].partitions if broker in replica.replicas]
            wanted = [(replica.index, replica.log.size_bytes) for replica in there]
            self.expect(_TOLD, f"DescribeLogDirs of {mine.name} at {broker}", sorted(actual), wanted)
            here = {t.name for t in self.state.topics.values() if any(broker in p.replicas for p in t.partitions)}
            shown = {name for name, row in rows.items() if row.partitions}
            self.expect(_TOLD, f"DescribeLogDirs at {broker}: topics", shown, here if every else here & {mine.name})

    # --- settings

    async def _do_change_settings(self) -> None:
        if not self.topics:
            return
        mine = self.rng.choice(self.topics)
        changes: list[AlterableConfig] = []
        after = dict(mine.settings)
        for key in self.rng.sample(sorted(_SETTINGS), self.rng.randint(1, 3)):
            if self.rng.random() < 0.4:
                changes.append(AlterableConfig(key, _DELETE, None))
                after.pop(key, None)
            else:
                value = self.rng.choice(_SETTINGS[key][:2])
                changes.append(AlterableConfig(key, _SET, value))
                after[key] = value
        wrong = self.rng.random() < 0.2
        if wrong:
            changes.append(AlterableConfig("retention.ms" if self.rng.random() < 0.5 else "no.setting", _SET, "x"))
            if len({change.name for change in changes}) < len(changes):
                return
        only = self.rng.random() < 0.2
        asked = IncrementalAlterConfigsRequest([AlterConfigsResource(_TOPIC, mine.name, changes)], only)
        self.watch()
        answer = await self.request_once(asked, self.pick(IncrementalAlterConfigsRequest), self.broker())
        row = answer.responses[0]
        if not self.is_quiet(unchanged=False):
            self.topics.remove(mine)
            return
        wanted = Err.INVALID_CONFIG if wrong else Err.NONE
        self.expect(
            "settings changes follow the broker's rules", f"{mine.name}: {changes}", Err(row.error_code), wanted
        )
        if not wrong and not only:
            mine.settings = after
        await self._settings_of(mine)

    async def _do_look_at_settings(self) -> None:
        if self.topics:
            await self._settings_of(self.rng.choice(self.topics))

    async def _settings_of(self, mine: _Mine) -> None:
        keys = self.rng.choice((None, sorted(_SETTINGS)[:2]))
        version = self.pick(DescribeConfigsRequest, 1)
        asked = DescribeConfigsRequest([DescribeConfigsResource(_TOPIC, mine.name, keys)], self.rng.random() < 0.5)
        self.watch()
        row = (await self.request_once(asked, version, self.broker())).results[0]
        if not self.is_quiet(unchanged=False) or mine not in self.topics:
            return
        name = "described configs match the settings"
        self.expect(name, f"DescribeConfigs v{version} of {mine.name}", Err(row.error_code), Err.NONE)
        actual = {config.name: (config.value, config.config_source == _OWN) for config in row.configs}
        for key, values in _SETTINGS.items():
            if keys is None or key in keys:
                own = mine.settings.get(key)
                wanted = (own, True) if own is not None else (values[2], False)
                self.expect(name, f"{mine.name}: {key}", actual.get(key), wanted)
        if keys is not None:
            self.expect(name, f"{mine.name}: keys", sorted(actual), sorted(keys))
