"""A prober of records: it writes to topics of its own in every way there is, and reads what must be there.

Topics are made with settings that the seed draws, are deleted and made again under the same name. Producers are idempotent or
not, repeat themselves, leave a gap, come with an old epoch. See `Prober`, `LogModel`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from broker_sim.simulation.checks.log_model import Head, LogModel, SentRecord
from broker_sim.simulation.workloads.probing.prober import Prober, standing
from kafka_wire.errors import Err
from kafka_wire.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_wire.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest
from kafka_wire.messages.k19_create_topics import CreatableTopicConfig as Setting
from kafka_wire.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from kafka_wire.messages.k22_init_producer_id import InitProducerIdRequest
from kafka_wire.record_batch import Codec, Record, encode_batch

if TYPE_CHECKING:
    from broker_sim.metadata.cluster_state import Partition

__all__ = ["LogProber", "OwnTopic", "SentBatch"]

ALL, LEADER, NONE = -1, 1, 0
KEPT_BATCHES = 5
_LARGEST = 1200
"""max.message.bytes of topics that have a small one; no batch but those made for it is larger."""

_DIFFERENCE, _FAR_MS = "message.timestamp.difference.max.ms", 60_000
"""Setting for the age and the advance of records, before there was one for each; value of topics that have such a setting."""

_CODECS = (Codec.NONE, Codec.NONE, Codec.NONE, Codec.GZIP)


def _most_bytes(row: SentRecord) -> int:
    """Most bytes that a record takes in a batch: its key and the rest are short."""
    return 60 + len(row.value or b"") + sum(len(value or b"") for _, value in row.headers)


@dataclass(slots=True)
class SentBatch:
    """Records that are sent to one partition at once."""

    rows: list[SentRecord]
    head: Head
    base: int = -1


@dataclass(slots=True)
class OwnTopic:
    """A topic of the prober's. ``made_s``: when; ``last_ms``: of each log, the latest time of a record; ``pending``: a batch of an
    idempotent producer that was not answered, which it sends again before anything else."""

    name: str
    topic_id: bytes
    settings: dict[str, str]
    factor: int
    logs: list[LogModel]
    made_s: float
    producer: tuple[int, int] | None = None
    sequences: dict[int, int] = field(default_factory=dict)
    recent: dict[int, list[SentBatch]] = field(default_factory=dict)
    pending: dict[int, SentBatch] = field(default_factory=dict)

    @property
    def append_time(self) -> bool:
        return self.settings.get("message.timestamp.type") == "LogAppendTime"

    def takes_less(self, when: str) -> bool:
        """Whether records of long "before" now, or long "after" it, are refused."""
        return f"message.timestamp.{when}.max.ms" in self.settings or _DIFFERENCE in self.settings

    def retention_ms(self, log: LogModel) -> int | None:
        """None if no record of the log is deleted within a run."""
        return int(self.settings["retention.ms"]) if log.deletes else None


class LogProber(Prober):
    """Produces to topics of its own in every allowed and invalid way, and checks the responses with `LogModel`."""

    MOST_TOPICS = 2

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.topics: list[OwnTopic] = []
        self.deleted: list[OwnTopic] = []
        """Deleted, for certain."""
        self._count = 0
        self.endpoints: list[tuple[int, str, int]] = []
        """Leaders that the last answer has named."""

    def begin(self) -> None:
        """Begin a new process: the topics are kept; the results of open requests are in doubt."""
        super().begin()
        for topic in self.topics:
            for log in topic.logs:
                if log.doubts:
                    log.doubtful()

    def partition(self, topic: OwnTopic, index: int) -> Partition | None:
        """As the cluster has it."""
        existing = self.state.topics.get(topic.name)
        if existing is None or existing.topic_id != topic.topic_id or index >= len(existing.partitions):
            return None
        return existing.partitions[index]

    def own(self) -> tuple[OwnTopic, int] | None:
        """The log of one partition."""
        if not self.topics:
            return None
        topic = self.rng.choice(self.topics)
        return topic, self.rng.randrange(len(topic.logs))

    # --- topics

    def _settings(self) -> dict[str, str]:
        rng = self.rng
        settings: dict[str, str] = {}
        policy = rng.choice(("delete", "delete", "compact", "retention", "retention"))
        if policy == "compact":
            settings |= {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "700"}
            settings["delete.retention.ms"] = rng.choice(("0", "500", "100000"))
        if policy == "retention":
            settings |= {"retention.ms": rng.choice(("1200", "2500")), "segment.ms": rng.choice(("300", "900"))}
        if policy == "delete" and rng.random() < 0.5:
            settings["segment.ms"] = rng.choice(("200", "1000"))
        if rng.random() < 0.2:
            settings["message.timestamp.type"] = "LogAppendTime"
        if rng.random() < 0.3:
            named = ("before", "after") if self.state.config.release >= (3, 6) else ()
            names = [f"message.timestamp.{when}.max.ms" for when in named if rng.random() < 0.7]
            settings |= dict.fromkeys(names if named else [_DIFFERENCE], str(_FAR_MS))
        if rng.random() < 0.3:
            settings["max.message.bytes"] = str(_LARGEST)
        if rng.random() < 0.2:
            settings["min.insync.replicas"] = "2"
        if rng.random() < 0.3:
            settings["index.interval.bytes"] = rng.choice(("1", "100"))
        return settings

    async def make(self, name: str | None = None) -> OwnTopic | None:
        """A topic; None where it is not known whether it was made."""
        self._count += 1
        name = name or f"{self.name}-{self._count}"
        count = self.rng.randint(1, 4)
        factor = self.rng.randint(1, len(self.context.kafka.hosts))
        settings = self._settings()
        rows = [Setting(key, value) for key, value in settings.items()]
        begun_s = self.calm.now_s()
        asked = CreateTopicsRequest([CreatableTopic(name, count, factor, [], rows)], 1000)
        version = self.pick(CreateTopicsRequest, 2)
        answer = (await self.request_once(asked, version, self.broker())).topics[0]
        if self.calm.since(begun_s):
            self.expect("topics are created as requested", f"CreateTopics of {name}, {settings}", answer.error_code, 0)
            if version >= 5 and answer.error_code == 0:
                actual = answer.num_partitions, answer.replication_factor
                self.expect("topics are created as requested", f"{name}: partitions, replicas", actual, (count, factor))
                own = {config.name: config.value for config in answer.configs or () if config.config_source == 1}
                self.expect("topics are created as requested", f"{name}: settings", own, settings)
        if answer.error_code != 0:
            return None
        there = self.state.topics.get(name)
        if there is None:
            self.breach("topics are created as requested", f"{name} is not there")
            return None
        if version >= 7:
            self.expect("topics are created as requested", f"{name}: id", answer.topic_id, there.topic_id)
        if any(old.topic_id == there.topic_id for old in self.deleted):
            self.breach("topic ids are never reused", f"{name} has that of one that was deleted")
        compacts, deletes = settings.get("cleanup.policy") == "compact", "retention.ms" in settings
        logs = [LogModel(f"{name}-{index}", compacts=compacts, deletes=deletes) for index in range(count)]
        for partition in there.partitions:
            if len(partition.replicas) != factor or len(set(partition.replicas)) != factor:
                self.breach("topics are created as requested", f"{partition.name} has replicas {partition.replicas}")
        topic = OwnTopic(name, there.topic_id, settings, factor, logs, begun_s)
        self.topics.append(topic)
        return topic

    async def _do_make_a_topic(self) -> None:
        if len(self.topics) < self.MOST_TOPICS:
            await self.make()
        elif self.rng.random() < 0.1:
            await self.end(self.rng.choice(self.topics), again=self.rng.random() < 0.5)

    async def end(self, topic: OwnTopic, *, again: bool) -> None:
        """Delete it; ``again``: and make another one of that name."""
        self.topics.remove(topic)
        version, begun_s = self.pick(DeleteTopicsRequest), self.calm.now_s()
        request = DeleteTopicsRequest(topic_names=[topic.name], timeout_ms=1000)
        if version >= 6:
            by_id = self.rng.random() < 0.5
            request = DeleteTopicsRequest(
                [DeleteTopicState(None, topic.topic_id) if by_id else DeleteTopicState(topic.name)], timeout_ms=1000
            )
        answer = (await self.request_once(request, version, self.broker())).responses[0]
        if self.calm.since(begun_s):
            self.expect("deleted topics are removed", f"DeleteTopics of {topic.name}", answer.error_code, 0)
        if answer.error_code == 0:
            self.deleted.append(topic)
            if topic.name in self.state.topics:
                self.breach("deleted topics are removed", f"{topic.name} is there")
            if again:
                await self.make(topic.name)

    # --- writing

    async def _do_write(self) -> None:
        chosen = self.own()
        if chosen is None:
            return
        topic, index = chosen
        partition = self.partition(topic, index)
        if partition is None or partition.leader < 0:
            return
        batch = topic.pending.get(index)
        if batch is None:
            batch = await self._batch(topic, index)
            topic.logs[index].sent(batch.rows)
        acks = ALL if batch.head.producer >= 0 else self.rng.choice((ALL, ALL, LEADER, NONE))
        await self.write(topic, index, batch, acks)

    async def _batch(self, topic: OwnTopic, index: int) -> SentBatch:
        rng, now_ms = self.rng, self.state.clock.now_ms()
        log = topic.logs[index]
        rows = []
        for _ in range(rng.choice((1, 1, 1, 2, 5))):
            key = b"k%d" % rng.randrange(6) if log.compacts or rng.random() < 0.5 else None
            late_ms = rng.choice((0, 0, rng.randrange(1000))) if topic.retention_ms(log) is None else 0
            headers: tuple[tuple[str, bytes | None], ...] = (("h", b"1"), ("none", None)) if rng.random() < 0.1 else ()
            value: bytes | None = self.value()
            if log.compacts and rng.random() < 0.2:  # a tombstone, identified by its header
                headers, value = (("n", value),), None
            rows.append(SentRecord(-2 if topic.append_time else now_ms - late_ms, key, value, headers))
        while len(rows) > 1 and sum(map(_most_bytes, rows)) > _LARGEST - 100:
            rows.pop()
        codec = rng.choice(_CODECS)
        if topic.producer is None and rng.random() < 0.3:
            version = self.pick(InitProducerIdRequest)
            answer = await self.request_once(InitProducerIdRequest(None), version, self.broker())
            if answer.error_code == 0:
                self.fresh_producer(answer.producer_id)
                topic.producer = answer.producer_id, answer.producer_epoch
        if topic.producer is None or rng.random() < 0.2:
            return SentBatch(rows, Head(-1, -1, -1, int(codec)))
        return SentBatch(rows, Head(*topic.producer, topic.sequences.get(index, 0), int(codec)))

    def fresh_producer(self, producer_id: int) -> None:
        """Expect that no InitProducerId has returned this producer id before."""
        known = self.context.producers
        if producer_id in known:
            self.breach("producer ids are never reused", f"{producer_id} was given before")
        known.add(producer_id)

    def encoded(self, batch: SentBatch) -> bytes:
        """The batch as bytes, as a producer sends it."""
        now_ms = self.state.clock.now_ms()
        rows = [
            Record(number, now_ms if row.timestamp == -2 else row.timestamp, row.key, row.value, row.headers)
            for number, row in enumerate(batch.rows)
        ]
        producer, epoch, sequence, codec = batch.head
        return encode_batch(
            rows, codec=Codec(codec), producer_id=producer, producer_epoch=epoch, base_sequence=sequence
        )

    async def produce(
        self, topic: OwnTopic, index: int, data: bytes, acks: int, broker: int, version: int | None = None
    ) -> Any:
        """The answer of one partition; None for acks=0. Raises OSError."""
        version = self.pick(ProduceRequest, 3) if version is None else version
        rows = [PartitionProduceData(index, data)]
        request = ProduceRequest(None, acks, 1500, [TopicProduceData(topic.name, topic.topic_id, rows)])
        if acks == NONE:
            line = await self.line(broker)
            line.start_unanswered(request, version)
            return None
        answer = await self.request_once(request, version, broker)
        self.endpoints = [(endpoint.node_id, endpoint.host, endpoint.port) for endpoint in answer.node_endpoints]
        row = answer.responses[0].partition_responses[0]
        self.expect(
            "responses match their requests", "Produce: partition", (len(answer.responses), row.index), (1, index)
        )
        return row

    async def write(self, topic: OwnTopic, index: int, batch: SentBatch, acks: int) -> None:
        """Send it and learn what has become of it."""
        log, partition = topic.logs[index], self.partition(topic, index)
        before, begun_s = standing(partition), self.calm.now_s()
        if partition is None:
            return
        idempotent = batch.head.producer >= 0
        if idempotent:
            topic.pending[index] = batch
        try:
            answer = await self.produce(topic, index, self.encoded(batch), acks, partition.leader)
            if answer is None:
                await self._unanswered(topic, index, batch, before, begun_s)
                return
            now = self.partition(topic, index)
        except OSError:
            log.doubtful()
            raise
        unmoved = before is not None and before == standing(now)
        steady = unmoved and self.calm.since(begun_s)
        error = Err(answer.error_code)
        if steady:
            wanted = Err.NONE if self._has_enough(topic, acks) else Err.NOT_ENOUGH_REPLICAS
            if not self.expect("valid batches are accepted", f"Produce to {log.name}", error, wanted):
                return
        if error is Err.NONE:
            self._written(topic, index, batch, answer, sure=acks == ALL or steady, unmoved=unmoved)
        elif steady:
            log.refused(batch.rows)
            topic.pending.pop(index, None)
        elif not idempotent:
            log.doubtful()
        else:
            log.doubtful()  # it is sent again

    def _has_enough(self, topic: OwnTopic, acks: int) -> bool:
        if acks != ALL or self.state.config.release >= (3, 9):
            return True
        return topic.factor >= int(topic.settings.get("min.insync.replicas", "1"))

    def _written(
        self, topic: OwnTopic, index: int, batch: SentBatch, answer: Any, *, sure: bool, unmoved: bool
    ) -> None:
        """``unmoved``: the leader epoch is that of the append; an answer may come after the next one began."""
        log = topic.logs[index]
        partition = self.partition(topic, index)
        topic.pending.pop(index, None)
        batch.base = answer.base_offset
        if not sure:  # acks=1, and the leader may have lost it
            log.doubtful()
            return
        epoch = partition.leader_epoch if partition is not None and log.exact and unmoved else -1
        wrong = log.acknowledged(answer.base_offset, batch.rows, head=batch.head, epoch=epoch)
        if wrong is not None:
            self.breach("a batch is stored at its acknowledged offset", wrong)
        if batch.head.producer >= 0:
            topic.sequences[index] = batch.head.sequence + len(batch.rows)
            topic.recent.setdefault(index, []).append(batch)
        log.committed(answer.base_offset + len(batch.rows))
        if topic.append_time and answer.log_append_time_ms < 0:
            self.breach("Produce returns the log append time", f"{log.name}: {answer.log_append_time_ms}")
        latest_ms = max(row.timestamp for row in batch.rows)
        if not topic.append_time and answer.log_append_time_ms not in (
            -1,
            latest_ms,
        ):  # a resend gets the first append's offset
            self.breach("Produce returns the log append time", f"{log.name}: {answer.log_append_time_ms}, must be -1")

    async def _unanswered(
        self, topic: OwnTopic, index: int, batch: SentBatch, before: tuple[object, ...] | None, begun_s: float
    ) -> None:
        """acks=0: what comes behind it over the same connection finds it there."""
        log = topic.logs[index]
        log.doubtful()
        end = log.end
        if log.doubts.keys() != dict.fromkeys(batch.rows).keys() or before is None:
            return
        answer = await self.list_offset(topic, index, -1)
        partition = self.partition(topic, index)
        steady = before == standing(partition) and self.calm.since(begun_s)
        if answer is None or partition is None or not steady or self.calm.odd:
            return
        wanted = end + len(batch.rows)
        if self.expect("records with acks=0 are written", f"{log.name}: the end", answer.offset, wanted):
            log.acknowledged(end, batch.rows, epoch=partition.leader_epoch)
            log.exact = True

    async def list_offset(self, topic: OwnTopic, index: int, timestamp: int) -> Any:
        """ListOffsets of one partition at ``timestamp`` (ms, or Kafka's negative constants); implemented by `ReadingProber`."""
        raise NotImplementedError

    # --- what must be refused

    async def _do_write_what_is_refused(self) -> None:
        chosen = self.own()
        partition = None if chosen is None else self.partition(*chosen)
        if chosen is None or partition is None or standing(partition) is None:
            return
        topic, index = chosen
        before, begun_s = standing(partition), self.calm.now_s()
        kinds = sorted(name for name in dir(self) if name.startswith("_refused_"))
        made = await getattr(self, self.rng.choice(kinds))(topic, index, partition)
        if made is None:
            return
        data, wanted, acks, broker, version = made
        if not self._has_enough(topic, acks) and wanted is not Err.NOT_LEADER_OR_FOLLOWER:
            acks = LEADER
        elsewhere = wanted is Err.NOT_LEADER_OR_FOLLOWER and not topic.append_time
        if elsewhere:
            topic.logs[index].doubtful()
        answer = await self.produce(topic, index, data, acks, broker, version)
        if not (before == standing(self.partition(topic, index)) and self.calm.since(begun_s)):
            if answer.error_code == 0 and acks == ALL and not elsewhere:
                self.breach("invalid requests are refused", f"{topic.name}-{index}: taken, must be {wanted.name}")
            return
        refused = self.expect(
            "invalid requests are refused", f"Produce to {topic.name}-{index}", Err(answer.error_code), wanted
        )
        if elsewhere and refused:
            topic.logs[index].refused(list(topic.logs[index].doubts))
            topic.logs[index].exact = True
        if wanted is Err.NOT_LEADER_OR_FOLLOWER and version is not None and version >= 10:
            actual = answer.current_leader.leader_id, answer.current_leader.leader_epoch
            self.expect(
                "errors name the current leader", "Produce: leader", actual, (partition.leader, partition.leader_epoch)
            )
            ends = self.endpoints
            host = self.context.kafka.hosts[partition.leader - 1]
            self.expect(
                "errors name the current leader", "Produce: where it is", ends, [(partition.leader, host, 9092)]
            )

    def _some(self, size: int = 0, sequence: int = -1, producer: tuple[int, int] = (-1, -1), count: int = 1) -> bytes:
        now_ms = self.state.clock.now_ms()
        value = b"refused" + b"x" * size
        rows = [Record(number, now_ms, b"k", value) for number in range(count)]
        return encode_batch(rows, producer_id=producer[0], producer_epoch=producer[1], base_sequence=sequence)

    async def _refused_acks(self, topic: OwnTopic, index: int, partition: Partition) -> Any:
        return self._some(), Err.INVALID_REQUIRED_ACKS, 2, partition.leader, None

    async def _refused_nowhere(self, topic: OwnTopic, index: int, partition: Partition) -> Any:
        """Produce to a topic that was deleted, by its name or its id."""
        if not self.deleted:
            return None
        old = self.rng.choice(self.deleted)
        version = self.pick(ProduceRequest, 3)
        if version < 13 and old.name in self.state.topics:
            return None
        request = ProduceRequest(
            None, ALL, 1000, [TopicProduceData(old.name, old.topic_id, [PartitionProduceData(0, self._some())])]
        )
        begun_s = self.calm.now_s()
        row = (await self.request_once(request, version, partition.leader)).responses[0].partition_responses[0]
        if self.calm.since(begun_s) and (version >= 13 or old.name not in self.state.topics):
            wanted = Err.UNKNOWN_TOPIC_ID if version >= 13 else Err.UNKNOWN_TOPIC_OR_PARTITION
            self.expect("deleted topics are removed", f"Produce v{version} to {old.name}", Err(row.error_code), wanted)
        return None

    async def _refused_elsewhere(self, topic: OwnTopic, index: int, partition: Partition) -> Any:
        others = [node for node in self.state.brokers if node != partition.leader]
        if not others or topic.append_time or not topic.logs[index].exact:
            return None
        row = SentRecord(self.state.clock.now_ms(), b"k", self.value())
        topic.logs[index].sent([row])  # by then that broker may lead
        data = encode_batch([Record(0, row.timestamp, row.key, row.value)])
        return data, Err.NOT_LEADER_OR_FOLLOWER, ALL, self.rng.choice(others), self.pick(ProduceRequest, 3)

    async def _refused_damaged(self, topic: OwnTopic, index: int, partition: Partition) -> Any:
        data = bytearray(self._some())
        data[-2] ^= 1
        return bytes(data), Err.CORRUPT_MESSAGE, ALL, partition.leader, None

    async def _refused_large(self, topic: OwnTopic, index: int, partition: Partition) -> Any:
        if "max.message.bytes" not in topic.settings:
            return None
        over = _LARGEST + 1 - len(self._some())
        data = self._some(over - 2)
        while len(data) <= _LARGEST:
            over += 1
            data = self._some(over - 2)
        return data, Err.MESSAGE_TOO_LARGE, ALL, partition.leader, None

    async def _refused_time(self, topic: OwnTopic, index: int, partition: Partition) -> Any:
        """A record from before or after what the topic takes; one in the middle of others, too."""
        if topic.append_time:
            return None
        now_ms, far = self.state.clock.now_ms(), 2 * _FAR_MS
        times = [time for name, time in (("before", now_ms - far), ("after", now_ms + far)) if topic.takes_less(name)]
        if not times:
            return None
        wrong = self.rng.choice(times)
        rows = [Record(number, time, b"k", b"late") for number, time in enumerate((now_ms, wrong, now_ms))]
        return encode_batch(rows), Err.INVALID_TIMESTAMP, ALL, partition.leader, None

    async def _refused_keyless(self, topic: OwnTopic, index: int, partition: Partition) -> Any:
        if not topic.logs[index].compacts:
            return None
        rows = [Record(0, self.state.clock.now_ms(), None, b"keyless")]
        return encode_batch(rows), Err.INVALID_RECORD, ALL, partition.leader, None

    async def _refused_gap(self, topic: OwnTopic, index: int, partition: Partition) -> Any:
        if topic.producer is None or index in topic.pending or index not in topic.sequences:
            return None
        sequence = topic.sequences[index] + self.rng.choice((1, 2, 100))
        return self._some(0, sequence, topic.producer), Err.OUT_OF_ORDER_SEQUENCE_NUMBER, ALL, partition.leader, None

    async def _refused_epoch(self, topic: OwnTopic, index: int, partition: Partition) -> Any:
        if topic.producer is None or index in topic.pending or index not in topic.sequences or topic.producer[1] < 1:
            return None
        if topic.recent[index][-1].head.epoch < topic.producer[1]:
            return None
        old = topic.producer[0], topic.producer[1] - 1
        return self._some(0, 0, old), Err.INVALID_PRODUCER_EPOCH, ALL, partition.leader, None

    # --- producers who repeat themselves

    async def _do_repeat(self) -> None:
        """Send one of the last batches of a producer again: the response is the same as before, and nothing is written."""
        chosen = self.own()
        partition = None if chosen is None else self.partition(*chosen)
        if chosen is None or partition is None:
            return
        topic, index = chosen
        recent = topic.recent.get(index)
        if not recent or index in topic.pending:
            return
        kept = (
            KEPT_BATCHES if not self.context.kafka.kind_of_disk else 1
        )  # a start from the disk knows the last one alone
        batch = self.rng.choice(
            [candidate for candidate in recent[-kept:] if candidate.head.epoch == recent[-1].head.epoch]
        )
        before, begun_s = standing(partition), self.calm.now_s()
        if before is None:
            return
        answer = await self.produce(topic, index, self.encoded(batch), ALL, partition.leader)
        if (
            before == standing(self.partition(topic, index))
            and self.calm.since(begun_s)
            and self._has_enough(topic, ALL)
        ):
            actual = Err(answer.error_code), answer.base_offset
            self.expect(
                "duplicate batches are recognized",
                f"{topic.name}-{index}: error, offset",
                actual,
                (Err.NONE, batch.base),
            )

    async def _do_begin_an_epoch(self) -> None:
        """The producer has bumped its epoch: its sequences begin anew."""
        owned = [topic for topic in self.topics if topic.producer is not None and not topic.pending]
        if owned and self.rng.random() < 0.2:
            topic = self.rng.choice(owned)
            assert topic.producer is not None
            topic.producer = topic.producer[0], topic.producer[1] + 1
            topic.sequences = dict.fromkeys(topic.sequences, 0)
