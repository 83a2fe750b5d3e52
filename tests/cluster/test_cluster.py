"""Starting, stopping and restarting clusters in one process."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from broker_sim import Cluster, ClusterError
from broker_sim.api.cluster_thread import ClusterThread
from broker_sim.common.clock import ManualClock
from kafka_wire.errors import Err
from kafka_wire.messages.k03_metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kafka_wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafka_wire.messages.k09_offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from kafka_wire.messages.k10_find_coordinator import FindCoordinatorRequest
from kafka_wire.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafka_wire.messages.k18_api_versions import ApiVersionsRequest
from tests.support import processes
from tests.support.ports import free_ports
from tests.support.wire import Wire, WireClosedError, within

SOON: dict[str, object] = {"group.initial.rebalance.delay.ms": 0}


async def metadata(bootstrap: str, *topics: str) -> MetadataResponse:
    wire = await Wire.connect(bootstrap)
    try:
        wanted = [MetadataRequestTopic(name=name) for name in topics] or None
        response: MetadataResponse = await wire.send(MetadataRequest(topics=wanted), 12)
        return response
    finally:
        await wire.close()


async def coordinator(bootstrap: str, group: str) -> Wire:
    """A connection to the group's coordinator, asked for until there is one."""
    wire = await Wire.connect(bootstrap)
    while True:
        found = (await wire.send(FindCoordinatorRequest(key_type=0, coordinator_keys=[group]), 4)).coordinators[0]
        if found.error_code == Err.NONE:
            await wire.close()
            return await Wire.connect(f"{found.host}:{found.port}")
        assert found.error_code == Err.COORDINATOR_NOT_AVAILABLE


async def commit(bootstrap: str, group: str, topic: str, offset: int) -> Err:
    wire = await coordinator(bootstrap, group)
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        topics=[OffsetCommitRequestTopic(name=topic, partitions=[partition])],
    )
    while True:
        response = await wire.send(request, 8)
        error = Err(response.topics[0].partitions[0].error_code)
        if error is not Err.COORDINATOR_LOAD_IN_PROGRESS:
            await wire.close()
            return error


async def committed(bootstrap: str, group: str, topic: str) -> int:
    wire = await coordinator(bootstrap, group)
    request = OffsetFetchRequest(
        group_id=group, topics=[OffsetFetchRequestTopic(name=topic, partition_indexes=[0])], require_stable=True
    )
    while True:
        response = await wire.send(request, 7)
        if response.error_code != Err.COORDINATOR_LOAD_IN_PROGRESS:
            await wire.close()
            offset: int = response.topics[0].partitions[0].committed_offset
            return offset


async def test_every_broker_listens_and_knows_the_others() -> None:
    async with Cluster(brokers=3, topics={"orders": 6}) as kafka:
        addresses = kafka.bootstrap.split(",")
        assert len(set(addresses)) == 3
        for address in addresses:
            response = await metadata(address, "orders")
            assert [f"{b.host}:{b.port}" for b in response.brokers] == addresses
            assert len(response.topics[0].partitions) == 6
            assert {p.leader_id for p in response.topics[0].partitions} == {1, 2, 3}


async def test_clusters_side_by_side_know_nothing_of_each_other() -> None:
    async with Cluster(topics={"a": 1}) as one, Cluster(topics={"b": 2}, as_version="3.4") as two:
        first, second = await metadata(one.bootstrap), await metadata(two.bootstrap)
        assert ([t.name for t in first.topics], [t.name for t in second.topics]) == (["a"], ["b"])
        assert first.cluster_id != second.cluster_id
        assert await commit(one.bootstrap, "g", "a", 7) is Err.NONE
        assert await committed(one.bootstrap, "g", "a") == 7
        assert await committed(two.bootstrap, "g", "b") == -1


async def test_create_topic_is_seen_at_once() -> None:
    async with Cluster() as kafka:
        kafka.create_topic("payments", 3, configs={"cleanup.policy": "compact"})
        response = await metadata(kafka.bootstrap, "payments")
        assert len(response.topics[0].partitions) == 3


async def test_nobody_answers_after_stop() -> None:
    async with Cluster() as kafka:
        address = kafka.bootstrap
        wire = await Wire.connect(address)
        await wire.send(ApiVersionsRequest(), 0)
    await wire.closed()
    await wire.close()
    with pytest.raises(ConnectionRefusedError):
        await Wire.connect(address)


async def test_stop_drops_parked_requests_and_leaves_no_timer() -> None:
    clock = ManualClock()
    async with Cluster(clock=clock) as kafka:
        wire = await coordinator(kafka.bootstrap, "g")
        join = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        parked = wire.start(join, 3)
        async with asyncio.timeout(60):  # until the request is parked
            while not kafka.runtime._tokens:
                await asyncio.sleep(0)
    with pytest.raises(WireClosedError):
        await within(parked, 60, "the end of a parked JoinGroup")
    await wire.close()
    assert clock.next_deadline_ms() is None


async def test_without_a_host_it_listens_on_all_addresses() -> None:
    async with Cluster(host="") as kafka:
        for host in ("127.0.0.1", "127.0.0.2"):
            await (await Wire.connect(f"{host}:{kafka.brokers[0].port}")).close()


async def test_stop_and_start_again_take_the_same_ports() -> None:
    kafka = Cluster(brokers=2, topics={"orders": 2})
    await kafka.start()
    address, cluster_id = kafka.bootstrap, kafka.state.cluster_id
    await kafka.stop()
    await kafka.stop()
    await kafka.start()
    try:
        assert kafka.bootstrap == address
        assert kafka.state.cluster_id != cluster_id, "in memory nothing stays"
        assert [t.name for t in (await metadata(address)).topics] == ["orders"]
    finally:
        await kafka.stop()


async def test_what_needs_a_running_cluster_says_so() -> None:
    kafka = Cluster()
    for ask in (lambda: kafka.bootstrap, lambda: kafka.create_topic("a"), lambda: kafka.runtime):
        with pytest.raises(ClusterError, match="not running"):
            ask()
    async with kafka:
        with pytest.raises(ClusterError, match="running already"):
            await kafka.start()


async def test_a_data_directory_is_taken_up_where_it_ended(tmp_path: Path) -> None:
    async with Cluster(topics={"orders": 3}, data_dir=tmp_path / "new" / "data") as kafka:
        before = await metadata(kafka.bootstrap, "orders")
        assert await commit(kafka.bootstrap, "g", "orders", 42) is Err.NONE
    async with Cluster(topics={"orders": 9}, data_dir=tmp_path / "new" / "data") as kafka:
        after = await metadata(kafka.bootstrap, "orders")
        assert after.cluster_id == before.cluster_id
        assert after.topics[0].topic_id == before.topics[0].topic_id
        assert len(after.topics[0].partitions) == 3, "a topic that is there is left as it is"
        assert await committed(kafka.bootstrap, "g", "orders") == 42


class TestErrors:
    """One ClusterError with one line, and nothing is left behind."""

    async def fails(self, text: str, **options: Any) -> None:
        with pytest.raises(ClusterError, match=text) as caught:
            async with Cluster(**options):
                pass
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize(
        ("as_version", "setting", "value", "text"),
        [
            (
                "4.1",
                "offsets.topic.segment.bytes",
                100_000,
                "offsets.topic.segment.bytes=100000.* at least 1048576.* no group",
            ),
            ("3.4", "offsets.topic.segment.bytes", 13, "offsets.topic.segment.bytes=13.* at least 14.* no group"),
            ("4.1", "offsets.topic.replication.factor", 2, "replication.factor=2, but there is 1 broker.* no group"),
            ("4.1", "offsets.topic.compression.codec", 9, "offsets.topic.compression.codec"),
        ],
    )
    async def test_settings_of_which_no_offsets_topic_can_be_made(
        self, as_version: str, setting: str, value: int, text: str
    ) -> None:
        await self.fails(text, as_version=as_version, config={setting: value})

    async def test_the_offsets_topic_that_is_there_needs_no_such_setting(self, tmp_path: Path) -> None:
        async with Cluster(data_dir=tmp_path / "data") as kafka:
            kafka.state.ensure_offsets_topic()
        async with Cluster(data_dir=tmp_path / "data", config={"offsets.topic.segment.bytes": 100_000}) as kafka:
            assert kafka.state.why_never("__consumer_offsets") is None

    async def test_what_transactions_alone_need_is_a_warning(self, caplog: pytest.LogCaptureFixture) -> None:
        async with Cluster(config={"transaction.state.log.replication.factor": 3}):
            assert "no transaction would work" in caplog.text

    async def test_port_in_use(self) -> None:
        async with Cluster() as kafka:
            port = kafka.brokers[0].port
            await self.fails(f"port {port} of 127.0.0.1 is in use", port=port)

    async def test_the_ports_taken_before_are_given_back(self) -> None:
        first = free_ports(2)
        with socket.create_server(("127.0.0.1", first + 1)):
            await self.fails(f"port {first + 1} of 127.0.0.1 is in use", brokers=2, port=first)
            with socket.create_server(("127.0.0.1", first)):
                pass

    @pytest.mark.parametrize("port", [-1, 65536])
    async def test_no_port(self, port: int) -> None:
        await self.fails(f"port: {port} is not a whole number from 0 to 65535", brokers=2, port=port)

    async def test_port_out_of_range(self) -> None:
        await self.fails("port 65535 is invalid for 2 brokers", brokers=2, port=65535)

    async def test_no_brokers(self) -> None:
        await self.fails("brokers: 0 is not a whole number from 1", brokers=0)

    async def test_unknown_host(self) -> None:
        await self.fails("can't listen on 203.0.113.1", host="203.0.113.1")

    async def test_no_host_name(self) -> None:
        await self.fails("can't listen on ä..ö, port 0: it is not a host name", host="ä..ö")

    async def test_unknown_setting(self) -> None:
        await self.fails(r"group\.initial\.rebalance\.delay\.ms", config={"group.initial.rebalance.delay": 0})

    async def test_wrong_value(self) -> None:
        await self.fails("Not a number", config={"num.partitions": "many"})

    async def test_unknown_release(self) -> None:
        await self.fails("2.8", as_version="2.8")

    @pytest.mark.parametrize(("name", "partitions"), [("a/b", 1), ("..", 1), ("orders", 0), ("x" * 250, 1)])
    async def test_bad_topic(self, name: str, partitions: int) -> None:
        await self.fails("topic ", topics={name: partitions})

    async def test_data_directory_in_use(self, tmp_path: Path) -> None:
        async with Cluster(data_dir=tmp_path):
            await self.fails(f"{tmp_path}: in use by another cluster", data_dir=tmp_path)
        async with Cluster(data_dir=tmp_path):
            pass

    async def test_data_directory_that_is_a_file(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        await self.fails("file can't be used: it is a file", data_dir=tmp_path / "file")
        await self.fails("can't be used: Not a directory", data_dir=tmp_path / "file" / "data")

    async def test_data_directory_that_is_no_cluster(self, tmp_path: Path) -> None:
        (tmp_path / "cluster.json").write_text("[]")
        await self.fails("cluster.json", data_dir=tmp_path)
        assert (tmp_path / "cluster.json").read_text() == "[]"


class TestThread:
    """A cluster beside code without an event loop."""

    def test_serves_and_stops(self) -> None:
        with ClusterThread(brokers=2, topics={"orders": 4}) as kafka:
            kafka.create_topic("more", 1)
            response = asyncio.run(metadata(kafka.bootstrap))
            assert [t.name for t in response.topics] == ["orders", "more"]
            assert kafka.run(lambda cluster: len(cluster.brokers)) == 2
            host, port = kafka.bootstrap.split(",")[0].split(":")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, int(port)))

    def test_errors_come_out_and_the_thread_is_gone(self) -> None:
        with ClusterThread() as kafka:
            port = int(kafka.bootstrap.split(":")[1])
            other = ClusterThread(port=port)
            with pytest.raises(ClusterError, match="is in use"):
                other.start()
            with pytest.raises(ClusterError, match="not running"):
                other.run(lambda cluster: None)

    def test_starts_again_after_stop(self) -> None:
        kafka = ClusterThread()
        kafka.stop()
        with kafka:
            first = kafka.bootstrap
        with kafka:
            assert kafka.bootstrap == first


async def test_starting_writes_no_warnings(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        async with Cluster(brokers=3, topics={"a": 1}):
            pass
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_cluster_starts_before_its_coordinators_are_imported() -> None:
    """Clients can connect early: what is needed for requests of groups comes behind (`load_handlers`)."""
    code = "import asyncio, sys; from broker_sim import Cluster; cluster = Cluster(); asyncio.run(cluster.start()); "
    code += (
        "print([m for m in sys.modules if m.startswith(('broker_sim.coordinator.outcome', 'kafka_wire.messages.k'))])"
    )
    done = processes.run([sys.executable, "-c", code], check=True)
    assert done.stdout == "[]\n"
