"""Groups whose members are no consumers: Connect's workers, schema registries, anybody's own. Nobody subscribes "
"there."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from broker_sim import Cluster
from broker_sim.explain import explain, recent
from broker_sim.pipeline.duck.session import DuckSession
from broker_sim.pipeline.findings import findings
from broker_sim.pipeline.tables.rebalances import rebalances
from kafka_wire.codec import encode
from kafka_wire.connect_protocol import (
    ConnectAssignment,
    ConnectorAssignment,
    ConnectWorkerState,
    work_of,
    worker_state,
)
from kafka_wire.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafka_wire.messages.k14_sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.explain.test_real_groups import parked
from tests.pipeline.facts import facts
from tests.pipeline.support_journal import arrow, rows
from tests.support.wire import Wire

pytestmark = pytest.mark.kafka(clock="manual", config={"group.initial.rebalance.delay.ms": 0})


class Worker:
    """A member of any protocol type on a raw connection."""

    def __init__(self, wire: Wire, kind: str, protocol: str) -> None:
        self.wire, self.kind, self.protocol, self.member_id = wire, kind, protocol, ""

    @classmethod
    async def connect(
        cls, kafka: Cluster, client_id: str, kind: str = "connect", protocol: str = "sessioned"
    ) -> Worker:
        address = kafka.broker(kafka.offsets_log("workers").leader).address
        return cls(await Wire.connect(address, client_id=client_id), kind, protocol)

    def join(self, metadata: bytes) -> asyncio.Future[Any]:
        request = JoinGroupRequest(
            group_id="workers",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            member_id=self.member_id,
            protocol_type=self.kind,
            protocols=[JoinGroupRequestProtocol(self.protocol, metadata)],
        )
        return self.wire.start(request, 3)

    async def enter(self, metadata: bytes, work: bytes = b"") -> None:
        await self.synced(await self.join(metadata), work)

    async def synced(self, joined: Any, work: bytes) -> None:
        assert joined.error_code == 0
        self.member_id = joined.member_id
        given = [SyncGroupRequestAssignment(one.member_id, work) for one in joined.members]
        request = SyncGroupRequest("workers", joined.generation_id, self.member_id, assignments=given)
        assert (await self.wire.send(request, 2)).error_code == 0


def state(name: str, offset: int, has: bytes | None = None) -> bytes:
    return b"\0\2" + encode(ConnectWorkerState(f"http://{name}:8083/", offset, has), 2)


def work(*tasks: int, revoked: Sequence[int] = (), delay_ms: int = 0) -> bytes:
    given, stops = [ConnectorAssignment("jdbc", list(tasks))], [ConnectorAssignment("jdbc", list(revoked))]
    return b"\0\2" + encode(
        ConnectAssignment(0, "w-1", "http://w-1:8083/", 5, given, stops if revoked else None, delay_ms), 2
    )


def whole(words: str) -> None:
    for word in ("subscription", "topic", "poll", "consumer "):
        assert word not in words, words


async def two_workers(kafka: Cluster) -> tuple[Worker, Worker]:
    one, two = await Worker.connect(kafka, "w-1"), await Worker.connect(kafka, "w-2")
    await one.enter(state("w-1", 5), work(-1, 0, 1))
    joins = [two.join(state("w-2", 5))]
    await parked(kafka, 1)
    joins.append(one.join(state("w-1", 5)))
    other, mine = await asyncio.gather(*joins)
    two.member_id = other.member_id
    await one.synced(mine, work(-1, 0, 1))
    return one, two


async def test_a_worker_is_shown_with_its_url_offset_connectors_and_tasks(kafka: Cluster) -> None:
    one, two = await two_workers(kafka)
    (view, _) = kafka.group("workers").members
    assert (view.topics, view.assignment) == (None, None)
    assert view.worker == {
        "url": "http://w-1:8083/",
        "config_offset": 5,
        "connectors": ["jdbc"],
        "tasks": {"jdbc": [0, 1]},
    }
    (event,) = [e for e in kafka.journal.events if e["event"] == "request" and e["api"] == "JoinGroup"][:1]
    nothing: dict[str, Any] = {"connectors": [], "tasks": {}}
    assert event["body"]["protocols"][0]["metadata"] == {"url": "http://w-1:8083/", "config_offset": 5, **nothing}
    for worker in (one, two):
        await worker.wire.close()


async def test_a_worker_keeps_what_it_has_to_what_it_is_given(kafka: Cluster) -> None:
    """An assignment has only what changes (IncrementalCooperativeAssignor); what a worker has is in its JoinGroup."""
    one = await Worker.connect(kafka, "w-1")
    await one.enter(state("w-1", 5), work(-1, 0, 1))
    await one.enter(state("w-1", 5, work(-1, 0, 1)), work(2, revoked=[-1, 0]))
    (view,) = kafka.group("workers").members
    assert view.worker is not None
    assert (view.worker["connectors"], view.worker["tasks"]) == ([], {"jdbc": [1, 2]})
    await one.enter(state("w-1", 6, work(1, 2)), work())
    (view,) = kafka.group("workers").members
    assert view.worker is not None
    assert view.worker["tasks"] == {"jdbc": [1, 2]}
    await one.wire.close()


async def test_the_delay_of_the_next_assignment_is_named(kafka: Cluster) -> None:
    one = await Worker.connect(kafka, "w-1")
    await one.enter(state("w-1", 5), work(-1, 0, delay_ms=300_000))
    words = explain(kafka.journal.events, "workers", width=100_000)
    assert (
        "The leader delays its next assignment by 5 min: until then the connectors and tasks of lost workers wait"
        in words
    )
    await one.enter(state("w-1", 5), work(1, delay_ms=299_000))
    assert "joined again." in explain(kafka.journal.events, "workers", width=100_000)
    await kafka.time.advance("299s")
    await one.enter(state("w-1", 5), work())
    words = explain(kafka.journal.events, "workers", width=100_000)
    assert "joined again when its delay of 4 min 59 s had passed" in words
    await one.wire.close()


async def test_a_killed_worker_is_described_without_topics(kafka: Cluster) -> None:
    one, two = await two_workers(kafka)
    two.wire.abort()
    joining = one.join(state("w-1", 6))  # a leader that joins again waits for the other's session
    await parked(kafka, 1)
    await kafka.time.advance(12, expire=[two.member_id], wait=0)
    await one.synced(await joining, work(-1, 0, 1))
    events = kafka.journal.events
    words = explain(events, "workers", width=100_000)
    whole(words)
    whole(recent(events, "workers"))
    assert "joined again with config offset 6 (it was 5)" in words
    assert "waited until the session of w-2 expired" in words
    table = rows(rebalances(DuckSession().of_arrow(arrow(events))), "started_ms")
    assert {row["protocol_type"] for row in table} == {"connect"}
    for found in findings(facts(rebalances=table)):
        if found.kind != "nothing":
            whole(f"{found.text} {found.advice}")
    await one.wire.close()


async def test_metadata_of_another_protocol_is_not_decoded(kafka: Cluster) -> None:
    one = await Worker.connect(kafka, "registry-1", "sr", "v0")
    two = await Worker.connect(kafka, "registry-2", "sr", "v0")
    await one.enter(b'{"host":"registry-1"}')
    joins = [two.join(b'{"host":"registry-2"}')]
    await parked(kafka, 1)
    joins.append(one.join(b'{"host":"registry-1"}'))
    other, mine = await asyncio.gather(*joins)
    two.member_id = other.member_id
    await one.synced(mine, b"")
    joining = two.join(b'{"host":"elsewhere"}')
    await parked(kafka, 1)
    words = explain(kafka.journal.events, "workers", width=100_000)
    whole(words)
    assert "registry-2 at /127.0.0.1 joined again with other metadata." in words
    assert [view.worker for view in kafka.group("workers").members] == [None, None]
    table = rows(rebalances(DuckSession().of_arrow(arrow(kafka.journal.events))), "started_ms")
    assert table[-1]["protocol_type"] == "sr"
    joining.cancel()
    for worker in (one, two):
        await worker.wire.close()


def test_invalid_metadata() -> None:
    assert (worker_state(b""), worker_state(b"\0\7xx"), worker_state(b"\0\1\0"), work_of(b"\0")) == (None,) * 4
    eager = ConnectAssignment(1, "m", "http://m/", 3, [ConnectorAssignment("jdbc", [0])])
    read = work_of(b"\0\0" + encode(eager, 0))
    assert read is not None
    assert (read.error, read.connectors, read.tasks, read.revoked) == (1, [], {"jdbc": [0]}, {})
