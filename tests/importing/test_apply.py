"""Groups that were described are imported as clients and Kafka's tools saw them: in Python, and by `broker-sim serve`."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from broker_sim.api.cluster import Cluster
from broker_sim.common.text import UsageError
from broker_sim.metadata.cluster_state import ClusterState
from broker_sim.migration.group_import import apply, read_describe, read_files
from kafka_wire.consumer_protocol import subscribed_topics
from kafka_wire.errors import Err
from kafka_wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_wire.messages.k12_heartbeat import HeartbeatRequest
from tests.cluster.test_cli import Served
from tests.conformance.driver import Kafka
from tests.importing.past import assignment, described, offsets_of, topic_of
from tests.support import processes
from tests.support.wire import Wire

TABLES = Path(__file__).parent / "tables"
VERSIONS = ("3.4", "4.1")


def one(**fields: Any) -> str:
    return json.dumps({"group": "g", **fields})


def offset(partition: int, offset: int | None, **fields: Any) -> dict[str, Any]:
    return {"topic": "orders", "partition": partition, **({} if offset is None else {"offset": offset}), **fields}


def snapshot(state: ClusterState) -> list[tuple[str, int, int]]:
    """All logs and their ends."""
    return [(p.topic.name, p.index, p.log_end_offset) for p in state.partitions()]


async def refusal(cluster: Cluster, text: str) -> str:
    """Return the reason why a text isn't imported; assert that the cluster is unchanged."""
    before = snapshot(cluster.state)
    with pytest.raises(UsageError) as caught:
        apply(cluster.state, cluster.runtime, read_describe(text))
    assert snapshot(cluster.state) == before
    return str(caught.value)


@pytest.mark.parametrize("version", VERSIONS)
async def test_groups_are_as_they_were_described(version: str) -> None:
    imported = read_files(TABLES / f"{version}-{kind}.txt" for kind in ("offsets", "members-verbose", "state"))
    async with Cluster(as_version=version) as cluster:
        told = apply(cluster.state, cluster.runtime, imported)
        assert "billing: Stable with 2 members, 6 committed offsets" in told
        assert "gone: Empty, 4 committed offsets" in told
        wire = await Wire.connect(cluster.bootstrap)
        assert {key: found[0] for key, found in (await offsets_of(wire, "billing")).items()} == {
            **{("orders", p): 10 for p in range(4)},
            **{("audit-log", p): 0 for p in range(2)},
        }
        state, kind, protocol, members = await described(wire, "billing")
        assert (state, kind, protocol) == ("Stable", "consumer", "roundrobin")
        by_client = {client: (instance, host, meta, bytes_) for _, instance, client, host, meta, bytes_ in members}
        instance, host, metadata, assigned = by_client["worker b"]
        assert (instance, host, assigned) == ("inst-1", "/127.0.0.1", assignment({"orders": [0, 2]}))
        assert subscribed_topics(metadata) == ["orders"]
        idle = (await described(wire, "idle"))[3]
        assert [subscribed_topics(member[4]) for member in idle] == [["audit-log"]] * 4
        assert await offsets_of(wire, "idle") == {}
        assert (await topic_of(wire, "orders"))[1] == dict.fromkeys(range(4), 10)
        await wire.close()


async def test_members_go_on_where_they_were() -> None:
    members = [{"member": "m-1", "client_id": "m", "assignment": {"orders": [0]}, "session_timeout_ms": 10_000}]
    async with Cluster(config={"group.initial.rebalance.delay.ms": 0}) as cluster:
        apply(cluster.state, cluster.runtime, read_describe(one(generation=7, members=members, offsets=[offset(0, 5)])))
        kafka = Kafka("4.1", "sim", {1: cluster.bootstrap}, "g")
        await kafka.until("Stable", members=1)
        member = await kafka.member()
        member.id, member.generation = "m-1", 7
        assert await member.heartbeat() == Err.NONE
        assert await member.heartbeat(generation_id=6) == Err.ILLEGAL_GENERATION
        assert await member.commit({("orders", 0): 6}) == {("orders", 0): Err.NONE}
        joined = await member.join()
        assert (joined.generation_id, joined.leader) == (8, "m-1")
        await kafka.close()


async def test_lag_is_as_it_was_and_consumers_pass_over_what_is_gone() -> None:
    async with Cluster() as cluster:
        offsets = [offset(0, 1000, end=5000), offset(1, None, end=3 << 31)]
        apply(cluster.state, cluster.runtime, read_describe(one(offsets=offsets)))
        wire = await Wire.connect(cluster.bootstrap)
        assert (await topic_of(wire, "orders"))[1] == {0: 5000, 1: 3 << 31}
        wanted = [FetchPartition(0, fetch_offset=1000, partition_max_bytes=1 << 20)]
        answer = await wire.send(FetchRequest(max_wait_ms=0, topics=[FetchTopic("orders", partitions=wanted)]), 11)
        found = answer.responses[0].partitions[0]
        assert (found.error_code, found.high_watermark, len(found.records)) == (Err.NONE, 5000, 61)
        await wire.close()


async def test_it_is_in_the_log_and_outlives_the_cluster(tmp_path: Path) -> None:
    text = one(generation=3, members=[{"member": "a"}], offsets=[offset(1, 5, end=9, leader_epoch=2, metadata="note")])
    for number in range(2):
        async with Cluster(data_dir=tmp_path) as cluster:
            if number == 0:
                apply(cluster.state, cluster.runtime, read_describe(text))
            wire = await Wire.connect(cluster.bootstrap)
            assert await offsets_of(wire, "g") == {("orders", 1): (5, 2, "note")}
            assert (await wire.send(HeartbeatRequest("g", 3, "a"), 4)).error_code == Err.NONE
            assert (await topic_of(wire, "orders"))[1] == {0: 0, 1: 9}
            await wire.close()


async def test_into_a_cluster_that_is_at_work() -> None:
    """The cluster's other groups stay, and topics get as many partitions as are needed."""
    async with Cluster(topics={"orders": 1}, config={"offsets.topic.num.partitions": 1}) as cluster:
        kafka = Kafka("4.1", "sim", {1: cluster.bootstrap}, "before")
        wire = await Wire.connect(cluster.bootstrap)
        cluster.state.ensure_offsets_topic()
        assert await offsets_of(wire, "before") == {}
        assert await kafka.commit({("orders", 0): 3}) == {("orders", 0): Err.NONE}
        apply(cluster.state, cluster.runtime, read_describe(one(offsets=[offset(2, 5)])))
        assert await offsets_of(wire, "before") == {("orders", 0): (3, -1, "")}
        assert await offsets_of(wire, "g") == {("orders", 2): (5, -1, "")}
        assert (await topic_of(wire, "orders"))[1] == {0: 0, 1: 0, 2: 5}
        assert "group 'g' exists already" in await refusal(cluster, one(offsets=[offset(0, 1)]))
        await wire.close()
        await kafka.close()


async def test_a_log_that_has_records_is_left_as_it_is() -> None:
    async with Cluster() as cluster:
        first = apply(cluster.state, cluster.runtime, read_describe(one(offsets=[offset(0, 5)])))
        again = apply(cluster.state, cluster.runtime, read_describe(one(group="h", offsets=[offset(0, 9)])))
        assert first == ["g: Empty, 1 committed offset"]
        assert "orders-0: its log is not empty and ends at 5, not at 9" in again


async def test_more_offsets_than_one_batch_holds() -> None:
    async with Cluster() as cluster:
        offsets = [offset(partition, partition, metadata="x" * 900) for partition in range(3000)]
        apply(cluster.state, cluster.runtime, read_describe(one(offsets=offsets)))
        wire = await Wire.connect(cluster.bootstrap)
        assert await offsets_of(wire, "g") == {("orders", p): (p, -1, "x" * 900) for p in range(3000)}
        await wire.close()


@pytest.mark.parametrize(
    ("fields", "note"),
    [
        ({"state": "Dead"}, "g: there was no such group; nothing is imported"),
        (
            {"state": "PreparingRebalance", "members": [{"member": "a"}]},
            "g: it was PreparingRebalance; a group that is",
        ),
        ({"state": "Stable", "offsets": [offset(0, 1)]}, "g: it was Stable, but its members were not described"),
    ],
)
async def test_what_cannot_be_as_it_was_is_told(fields: dict[str, Any], note: str) -> None:
    async with Cluster() as cluster:
        assert note in apply(cluster.state, cluster.runtime, read_describe(one(**fields)))[0]


async def test_a_group_of_the_newer_protocol_becomes_a_classic_one() -> None:
    async with Cluster() as cluster:
        imported = read_files(TABLES / f"4.1-{kind}.txt" for kind in ("offsets", "state-verbose")).only("newer")
        assert apply(cluster.state, cluster.runtime, imported)[0].startswith(
            "newer: it used the newer protocol (KIP-848)"
        )
        wire = await Wire.connect(cluster.bootstrap)
        assert len(await offsets_of(wire, "newer")) == 4
        assert (await described(wire, "newer"))[:3] == ("Stable", "consumer", "range")
        await wire.close()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (one(state="Empty", members=[{"member": "a"}]), "group 'g' is Empty and has 1 members"),
        (one(offsets=[offset(0, 1), {"topic": "a.b", "partition": 0}]), "collides with existing topic: a_b"),
        (one(offsets=[offset(0, 1, metadata="x" * 4097)]), "group 'g': metadata of orders-0 is too long"),
        (one(group="g" * 40_000, offsets=[offset(0, 1)]), "can't be written"),
        (
            one(members=[{"member": "a", "topics": ["t" * 30_000] * 40}]),
            "exceeds message.max.bytes; increase that setting",
        ),
    ],
)
async def test_what_cannot_be_imported_changes_nothing(text: str, message: str) -> None:
    async with Cluster(topics={"a_b": 1}) as cluster:
        assert message in await refusal(cluster, text)


# --- broker-sim serve ---------------------------------------------------------------------------------------------------------


async def test_serve_begins_with_what_was_described() -> None:
    files = [word for kind in ("offsets", "state") for word in ("--import-describe", str(TABLES / f"4.1-{kind}.txt"))]
    served = Served(*files)
    try:
        wire = await Wire.connect(served.bootstrap)
        assert len(await offsets_of(wire, "billing")) == 6
        await wire.close()
        code, rest, errors = served.end(signal.SIGTERM)
    finally:
        served.close()
    assert (code, rest) == (0, "")
    assert "imported billing: Stable with 2 members, 6 committed offsets" in errors.splitlines()


def test_serve_refuses_what_it_cannot_read_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "ticket.txt"
    file.write_text(
        "GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID\nbilling orders\n"
    )
    command = [sys.executable, "-m", "broker_sim", "serve", "--import-describe", str(file)]
    done = processes.run(command)
    assert (done.returncode, done.stdout) == (2, "")
    [line] = done.stderr.splitlines()
    assert line.startswith(
        f"broker-sim serve: {file}: line 2: 'billing orders' has 2 values where 9 columns are expected"
    )
