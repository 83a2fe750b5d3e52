"""Lasting states of a partition: what each does to appends, reads, leadership and coordinators, and how it ends."""

from __future__ import annotations

from typing import Any

import pytest

from broker_sim.common.chance import Chance
from broker_sim.common.text import UsageError
from broker_sim.faults.conditions import KINDS, PartitionFaults
from broker_sim.metadata import leader_election
from broker_sim.metadata.cluster_state import OFFSETS_TOPIC, Partition
from kafka_wire.errors import Err
from kafka_wire.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_wire.messages.k02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafka_wire.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from kafka_wire.messages.k09_offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from kafka_wire.record_batch import build_batch
from tests.runtime.test_runtime import Groups

LATEST = -1


class Ailing(Groups):
    """A cluster whose partitions can be put into states."""

    def __init__(self, **options: Any) -> None:
        super().__init__(brokers=2, **options)
        self.conditions = PartitionFaults(self.state, lambda _: self.runtime, Chance.seeded(1))
        self.partition = self.state.topics["t"].partitions[0]

    def produce(self, acks: int = -1, size: int = 10, timeout_ms: int = 1000) -> Any:
        batch = build_batch([(b"k", b"v" * size)], self.clock.now_ms())
        data = [TopicProduceData("t", partition_data=[PartitionProduceData(0, batch)])]
        ctx = self.start(ProduceRequest(None, acks, timeout_ms, data), 9, broker=self.partition.leader)
        return ctx.response.responses[0].partition_responses[0] if ctx.response else ctx

    def error_of_produce(self, acks: int = -1, size: int = 10) -> Err:
        return Err(self.produce(acks, size).error_code)

    def error_of_fetch(self, epoch: int = -1) -> Err:
        topics = [FetchTopic("t", partitions=[FetchPartition(0, epoch, 0, partition_max_bytes=1 << 20)])]
        answer = self.call(
            FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, topics=topics), 12, broker=self.partition.leader
        )
        return Err(answer.responses[0].partitions[0].error_code)

    def error_of_list(self) -> Err:
        topics = [ListOffsetsTopic("t", [ListOffsetsPartition(0, -1, LATEST)])]
        answer = self.call(ListOffsetsRequest(-1, 0, topics), 7, broker=self.partition.leader)
        return Err(answer.topics[0].partitions[0].error_code)

    def log_of(self, group: str) -> Partition:
        found = self.runtime.partition_of(group)
        assert found is not None
        return found

    def answer_of_commit(self, group: str, offset: int) -> Err | None:
        """Return the error code of a commit; None while it waits."""
        ctx, returned = self.commit(group, offset, broker=max(1, self.log_of(group).leader))
        if returned is not None and ctx.response is None:
            self.runtime.flush_batches()
        return Err(ctx.response.topics[0].partitions[0].error_code) if ctx.response else None

    def fetched(self, group: str) -> int:
        asked = OffsetFetchRequest(group, [OffsetFetchRequestTopic("t", [0])])
        return int(self.call(asked, 7, broker=self.log_of(group).leader).topics[0].partitions[0].committed_offset)


@pytest.mark.parametrize(
    ("state", "append", "read"),
    [
        ("storage_error", Err.KAFKA_STORAGE_ERROR, Err.KAFKA_STORAGE_ERROR),
        ("full", Err.KAFKA_STORAGE_ERROR, Err.NONE),
        ("readonly", Err.KAFKA_STORAGE_ERROR, Err.NONE),
        ("too_large", Err.MESSAGE_TOO_LARGE, Err.NONE),
        ("not_leader", Err.NOT_LEADER_OR_FOLLOWER, Err.NOT_LEADER_OR_FOLLOWER),
        ("fenced", Err.FENCED_LEADER_EPOCH, Err.NONE),
    ],
)
def test_a_state_that_refuses_appends_and_reads_ends_without_a_trace(state: str, append: Err, read: Err) -> None:
    sim = Ailing()
    assert sim.error_of_produce() is Err.NONE
    one = sim.conditions.set(sim.partition, state)
    assert (sim.error_of_produce(), sim.error_of_produce(acks=1)) == (append, append)
    assert (sim.error_of_fetch(), sim.error_of_list()) == (read, read)
    assert sim.partition.log_end_offset == 1
    sim.conditions.heal(one)
    sim.conditions.heal(one)
    assert (sim.error_of_produce(), sim.error_of_fetch(), sim.error_of_list()) == (Err.NONE,) * 3
    assert sim.partition.high_watermark == 2


def test_who_names_a_fenced_epoch_is_told() -> None:
    sim = Ailing()
    sim.conditions.set(sim.partition, "fenced")
    assert sim.error_of_fetch(epoch=0) is Err.FENCED_LEADER_EPOCH


def test_a_full_disk_takes_what_still_fits() -> None:
    sim = Ailing()
    sim.conditions.set(sim.partition, "full", free_bytes=300)
    assert sim.error_of_produce(size=1000) is Err.KAFKA_STORAGE_ERROR
    assert sim.error_of_produce(size=100) is Err.NONE
    assert sim.error_of_produce(size=100) is Err.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize(("as_version", "answer"), [("3.9", Err.NOT_COORDINATOR), ("4.1", Err.NOT_COORDINATOR)])
@pytest.mark.parametrize("state", ["storage_error", "full", "readonly", "not_leader"])
def test_a_coordinator_whose_log_refuses_appends(as_version: str, answer: Err, state: str) -> None:
    sim = Ailing(as_version=as_version)
    assert sim.answer_of_commit("g", 1) is Err.NONE
    sim.conditions.set(sim.log_of("g"), state)
    assert sim.answer_of_commit("g", 2) is answer
    assert sim.fetched("g") == 1


def test_a_slow_log_commits_each_append_after_its_latency_in_order() -> None:
    sim = Ailing()
    sim.conditions.set(sim.partition, "slow", latency="200ms", jitter="100ms")
    first, second = sim.produce(), sim.produce()
    assert sim.produce(acks=1).error_code == Err.NONE
    sim.clock.advance(199)
    assert sim.partition.high_watermark == 0
    sim.clock.advance(101)
    assert first.response is not None
    assert second.response is not None
    assert sim.partition.high_watermark == 3


def test_a_slow_log_healed_commits_at_once() -> None:
    sim = Ailing()
    one = sim.conditions.set(sim.partition, "slow", latency="30s")
    waiting = sim.produce()
    sim.conditions.heal(one)
    assert waiting.response is not None
    sim.clock.advance(60_000)
    assert sim.partition.high_watermark == 1


@pytest.mark.parametrize("as_version", ["3.4", "4.1"])
def test_who_comes_back_into_the_isr_needs_a_leader_for_it(as_version: str) -> None:
    """The leader dies while it alone is in sync: the others are behind it, whatever is healed, and nobody leads until it is back."""
    sim = Ailing(as_version=as_version, config={"default.replication.factor": 2})
    sim.state.create_topic("two", 1, replication_factor=2)
    partition = sim.state.topics["two"].partitions[0]
    leader, other = partition.replicas
    state = sim.conditions.set(partition, "under_min_isr")
    leader_election.fence(sim.state, leader)
    assert partition.leader == -1
    sim.conditions.heal(state)
    assert (partition.leader, other in partition.isr) == (-1, False)
    leader_election.revive(sim.state, leader)
    assert (partition.leader, sorted(partition.isr)) == (leader, sorted([leader, other]))


def test_under_min_isr_refuses_acks_all_and_shows_the_isr() -> None:
    sim = Ailing()
    sim.conditions.set(sim.partition, "under_min_isr")
    assert sim.error_of_produce() is Err.NOT_ENOUGH_REPLICAS
    assert sim.error_of_produce(acks=1) is Err.NONE
    assert sim.partition.high_watermark == 0  # 4.x: it stands still
    assert sim.partition.isr == [sim.partition.leader]


def test_a_partition_without_a_leader_has_no_coordinator_and_gets_the_same_one_back() -> None:
    sim = Ailing()
    assert sim.answer_of_commit("g", 1) is Err.NONE
    log = sim.log_of("g")
    leader, epoch = log.leader, log.leader_epoch
    one = sim.conditions.set(log, "no_leader")
    assert sim.answer_of_commit("g", 2) is Err.NOT_COORDINATOR
    name = [MetadataRequestTopic(name=OFFSETS_TOPIC)]
    shown = sim.call(MetadataRequest(name), 9).topics[0].partitions[log.index]
    assert (shown.error_code, shown.leader_id) == (Err.LEADER_NOT_AVAILABLE, -1)
    sim.conditions.heal(one)
    assert (log.leader, log.leader_epoch) == (leader, epoch + 2)


def test_a_coordinator_loads_until_the_state_ends() -> None:
    sim = Ailing()
    assert sim.answer_of_commit("g", 7) is Err.NONE
    sim.conditions.set(sim.log_of("g"), "loading", for_="6s")
    assert sim.answer_of_commit("g", 8) is Err.COORDINATOR_LOAD_IN_PROGRESS
    sim.clock.advance(5999)
    assert sim.answer_of_commit("g", 8) is Err.COORDINATOR_LOAD_IN_PROGRESS
    sim.clock.advance(1)
    sim.clock.advance(0)  # the log is read
    assert sim.fetched("g") == 7
    assert sim.answer_of_commit("g", 8) is Err.NONE


@pytest.mark.parametrize(("as_version", "at_once"), [("3.9", Err.COORDINATOR_NOT_AVAILABLE), ("4.1", None)])
def test_an_isr_that_shrinks_while_a_commit_waits(as_version: str, at_once: Err | None) -> None:
    sim = Ailing(as_version=as_version)
    log = sim.log_of("g")
    sim.conditions.set(log, "stuck", isr_shrinks_after="2s")
    ctx, _ = sim.commit("g", 1, broker=log.leader)
    sim.clock.advance(2000)
    answer = Err(ctx.response.topics[0].partitions[0].error_code) if ctx.response else None
    assert answer is at_once


def test_states_of_one_aspect_exclude_each_other_and_others_go_together() -> None:
    sim = Ailing()
    sim.conditions.set(sim.partition, "stuck")
    with pytest.raises(UsageError, match="t-0 is stuck already, which excludes slow"):
        sim.conditions.set(sim.partition, "slow", latency="1s")
    full = sim.conditions.set(sim.partition, "full")
    assert sim.error_of_produce(acks=1) is Err.KAFKA_STORAGE_ERROR
    sim.conditions.heal(full)
    assert sim.error_of_produce(acks=1) is Err.NONE
    assert sim.partition.high_watermark == 0
    sim.conditions.set(sim.partition, "slow", latency="1s", replace=True)
    assert [one.kind.name for one in sim.conditions.of(sim.partition)] == ["slow"]
    sim.conditions.heal_all()
    assert sim.conditions.of() == []
    assert sim.error_of_produce() is Err.NONE


@pytest.mark.parametrize(
    ("state", "args", "words"),
    [
        ("stuk", {}, "no state 'stuk'; did you mean 'stuck'?"),
        ("stuck", {"isr_shrink_after": "1s"}, "did you mean 'isr_shrinks_after'?"),
        ("slow", {}, "needs a latency"),
        ("slow", {"latency": "soon"}, "latency: 'soon' is not a duration"),
        ("full", {"free_bytes": -1}, "free_bytes: -1 is not a number of bytes"),
        ("loading", {}, "only a partition of __consumer_offsets or __share_group_state or __transaction_state can"),
        ("stuck", {"for_": "x"}, "for: 'x' is not a duration"),
    ],
)
def test_what_can_not_be_is_said_in_one_line_and_changes_nothing(state: str, args: dict[str, Any], words: str) -> None:
    sim = Ailing()
    with pytest.raises(UsageError) as told:
        sim.conditions.set(sim.partition, state, **args)
    assert words in str(told.value)
    assert sim.conditions.of() == []
    assert sim.error_of_produce() is Err.NONE


def test_a_state_on_a_deleted_topic_ends_quietly() -> None:
    sim = Ailing()
    one = sim.conditions.set(sim.partition, "stuck", for_="1s")
    sim.state.delete_topic("t")
    sim.clock.advance(2000)
    assert not one.active


def test_every_kind_says_what_it_is() -> None:
    assert all(kind.description and kind.name == name for name, kind in KINDS.items())
