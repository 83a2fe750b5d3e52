"""The runtime between the pure shards and the logs: turns, failing disks, loading, who coordinates what."""

from __future__ import annotations

import errno
import importlib
import os
from pathlib import Path
from typing import Any

import pytest

from broker_sim.common.chance import Chance
from broker_sim.metadata.cluster_state import OFFSETS_TOPIC
from broker_sim.runtime.asking import DEFERRED
from broker_sim.runtime.group_coordinator import GroupCoordinator, partition_of
from broker_sim.runtime.log_reading import log_batches, records_of
from broker_sim.runtime.timers import KeyedTimers
from kafka_wire.errors import Err
from kafka_wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafka_wire.messages.k09_offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from kafka_wire.messages.k10_find_coordinator import FindCoordinatorRequest
from kafka_wire.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafka_wire.messages.k12_heartbeat import HeartbeatRequest
from kafka_wire.messages.k14_sync_group import SyncGroupRequest
from kafka_wire.messages.k16_list_groups import ListGroupsRequest
from tests.support.ctx import FakeContext, Sim

CONFIG = {"offsets.topic.num.partitions": 4, "group.initial.rebalance.delay.ms": 0}


class Groups(Sim):
    """A cluster without a network, with its coordinators."""

    def __init__(self, **options: Any) -> None:
        super().__init__(config=CONFIG | options.pop("config", {}), **options)
        if "t" not in self.state.topics:
            self.state.create_topic("t", 3)
        if OFFSETS_TOPIC not in self.state.topics:
            self.state.ensure_offsets_topic()
        self.runtime = self.coordinators.groups = GroupCoordinator(self.state, chance=Chance.seeded(1))
        self.runtime.start()

    def send(self, request: Any, version: int, *, broker: int = 1) -> tuple[FakeContext, Any]:
        """The context, and what the handler returned: a response is replied already, DEFERRED stays for the turn."""
        name = type(request).__module__.rpartition(".")[2]
        handler = importlib.import_module(f"broker_sim.handlers.{name}")
        ctx = FakeContext(self.state.brokers[broker], self.coordinators, type(request).__spec__.api_key, version, "c")
        returned = handler.handle(ctx, request)
        if returned is not None and returned is not DEFERRED:
            ctx.reply(returned)
        return ctx, returned

    def commit(self, group: str, offset: int, *, partition: int = 0, broker: int = 1) -> tuple[FakeContext, Any]:
        parts = [OffsetCommitRequestPartition(partition, offset)]
        return self.send(
            OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic("t", partitions=parts)]), 8, broker=broker
        )

    def committed(self, group: str, partition: int = 0) -> int:
        ctx, _ = self.send(OffsetFetchRequest(group, [OffsetFetchRequestTopic("t", [partition])]), 7)
        assert ctx.response.error_code == 0, Err(ctx.response.error_code)
        offset: int = ctx.response.topics[0].partitions[0].committed_offset
        return offset

    def log_of(self, group: str) -> Any:
        partition = self.runtime.partition_of(group)
        assert partition is not None
        return partition


def error_of(ctx: FakeContext) -> Err:
    return Err(ctx.response.topics[0].partitions[0].error_code)


def test_commits_of_one_turn_share_a_batch_in_4_x() -> None:
    sim = Groups(as_version="4.1")
    sim.commit("g", 0)
    sim.runtime.flush_batches()  # the first one makes the group, and is not waited with
    contexts = [sim.commit("g", offset) for offset in (1, 2, 3)]
    assert [returned for _, returned in contexts] == [DEFERRED] * 3
    assert not any(ctx.answered for ctx, _ in contexts)
    sim.runtime.flush_batches()
    assert [error_of(ctx) for ctx, _ in contexts] == [Err.NONE] * 3
    assert [batch.header.record_count for batch in sim.log_of("g").log.batches()] == [1, 3]
    assert sim.committed("g") == 3


def test_every_commit_has_its_own_batch_in_3_x() -> None:
    sim = Groups(as_version="3.4")
    contexts = [sim.commit("g", offset) for offset in (1, 2, 3)]
    assert all(ctx.answered for ctx, _ in contexts)
    assert [batch.header.record_count for batch in sim.log_of("g").log.batches()] == [1, 1, 1]


def test_another_event_of_the_shard_does_not_overtake_the_turns_commits() -> None:
    sim = Groups()
    ctx, _ = sim.commit("g", 1)
    sim.send(HeartbeatRequest("g", 1, "m"), 4)
    assert ctx.answered
    assert sim.committed("g") == 1


def test_a_held_partition_keeps_commits_waiting_until_their_timeout() -> None:
    sim = Groups()
    sim.log_of("g").high_watermark_frozen = True
    ctx, returned = sim.commit("g", 1)
    assert returned is None
    sim.clock.advance(4999)
    assert not ctx.answered
    sim.clock.advance(1)
    assert error_of(ctx) is Err.COORDINATOR_NOT_AVAILABLE
    late, _ = sim.commit("g", 2)
    sim.log_of("g").unfreeze_high_watermark()
    assert error_of(late) is Err.NONE
    assert sim.committed("g") == 2


def test_a_full_disk_fails_the_commit_and_the_coordinator_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sim = Groups(data_dir=tmp_path, as_version="3.4")
    assert error_of(sim.commit("g", 1)[0]) is Err.NONE
    real = os.pwrite

    def full(fd: int, data: bytes, position: int) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    assert error_of(sim.commit("g", 2)[0]) is Err.NOT_COORDINATOR
    monkeypatch.setattr(os, "pwrite", real)
    assert error_of(sim.commit("g", 3)[0]) is Err.NONE
    assert sim.committed("g") == 3
    sim.state.close()


def test_a_restart_loads_the_groups_and_says_so_while_it_loads(tmp_path: Path) -> None:
    sim = Groups(data_dir=tmp_path)
    join, _ = sim.send(
        JoinGroupRequest("live", 10_000, 10_000, "", None, "consumer", [JoinGroupRequestProtocol("range", b"m")]), 3
    )
    sim.clock.advance(0)
    member = join.response.member_id
    sim.send(SyncGroupRequest("live", 1, member), 3)
    for n in range(5000):
        sim.commit("g", n, partition=n % 3)
    sim.runtime.flush_batches()
    sim.runtime.close()
    sim.state.close()

    again = Groups(data_dir=tmp_path)
    ctx, _ = again.commit("g", 1)
    assert error_of(ctx) is Err.COORDINATOR_LOAD_IN_PROGRESS
    beat, _ = again.send(HeartbeatRequest("live", 1, member), 4)
    assert beat.response.error_code == Err.NONE  # stay calm
    listed, _ = again.send(ListGroupsRequest(), 4)
    assert listed.response.error_code == Err.COORDINATOR_LOAD_IN_PROGRESS
    again.clock.advance(10)
    assert [again.committed("g", partition) for partition in range(3)] == [4998, 4999, 4997]
    listed, _ = again.send(ListGroupsRequest(), 4)
    assert {(g.group_id, g.group_state) for g in listed.response.groups} == {("g", "Empty"), ("live", "Stable")}
    again.clock.advance(10_000)
    listed, _ = again.send(ListGroupsRequest(["Stable"]), 4)
    assert listed.response.groups == []
    again.state.close()


def test_the_other_brokers_are_not_the_coordinator() -> None:
    sim = Groups(brokers=2)
    owner = sim.log_of("g").leader
    other = 3 - owner
    assert error_of(sim.commit("g", 1, broker=other)[0]) is Err.NOT_COORDINATOR
    found, _ = sim.send(FindCoordinatorRequest(coordinator_keys=["g", "g", ""]), 4, broker=other)
    assert [(c.key, c.error_code) for c in found.response.coordinators] == [("g", 0), ("g", 0), ("", 0)]
    assert found.response.coordinators[0].node_id == owner


def test_a_client_that_goes_away_while_parked_leaves_nothing() -> None:
    sim = Groups(config={"group.initial.rebalance.delay.ms": 3000})
    ctx, _ = sim.send(
        JoinGroupRequest("g", 10_000, 10_000, "", None, "consumer", [JoinGroupRequestProtocol("range", b"")]), 3
    )
    assert len(sim.runtime._tokens) == 1
    ctx.disconnect()
    assert len(sim.runtime._tokens) == 0
    sim.clock.advance(3000)
    assert not ctx.answered


def test_deleting_a_topic_drops_its_offsets() -> None:
    sim = Groups()
    sim.state.on_topics_changed.append(sim.runtime.topics_changed)
    sim.commit("g", 1)
    sim.runtime.flush_batches()
    sim.state.delete_topic("t")
    assert [record[2] for batch in log_batches(sim.log_of("g")) for record in records_of(batch)][-1] is None
    assert sim.committed("g") == -1


def test_offset_commit_v0_is_kept_apart() -> None:
    sim = Groups(as_version="3.4")
    parts = [OffsetCommitRequestPartition(0, 7)]
    ctx, _ = sim.send(OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic("t", partitions=parts)]), 0)
    assert error_of(ctx) is Err.NONE
    assert sim.committed("g") == -1
    fetched, _ = sim.send(OffsetFetchRequest("g", [OffsetFetchRequestTopic("t", [0, 1])]), 0)
    assert [(p.committed_offset, p.error_code) for p in fetched.response.topics[0].partitions] == [(7, 0), (-1, 3)]


def test_partition_of_is_javas_hash() -> None:
    assert [partition_of(g, 50) for g in ("", "g", "foo", "test-group", "my-group", "polygenelubricants")] == [
        0,
        3,
        24,
        12,
        12,
        0,
    ]


def test_keyed_timers_fire_once_at_their_last_deadline_in_order() -> None:
    sim = Sim()
    fired: list[tuple[int, str]] = []
    start = sim.clock.now_ms()
    timers: KeyedTimers[str] = KeyedTimers(sim.clock, lambda key: fired.append((sim.clock.now_ms() - start, key)))
    timers.set("a", start + 10)
    timers.set("b", start + 20)
    timers.set("c", start + 20)
    timers.set("a", start + 30)  # moved back
    timers.set("c", start + 5)  # moved forward
    timers.set("d", start + 7)
    timers.cancel("d")
    assert list(timers) == [(start + 5, "c"), (start + 20, "b"), (start + 30, "a")]
    sim.clock.advance(100)
    assert fired == [(5, "c"), (20, "b"), (30, "a")]
    assert len(timers) == 0
