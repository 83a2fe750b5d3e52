"""The face for incidents: what is there when, what a seed fixes, and that a cluster ends whatever is in force."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from broker_sim import Cluster, ClusterError, ClusterThread, UsageError
from tests.handles.members import TOPIC, Member
from tests.support.wire import WireClosedError

SOON: dict[str, object] = {"group.initial.rebalance.delay.ms": 0}


async def ids(**options: object) -> list[object]:
    """Return the random ids of a cluster: its own, a topic's, a member's."""
    async with Cluster(topics={TOPIC: 1}, config=SOON, **options) as kafka:  # type: ignore[arg-type]
        member = await Member.connect(kafka)
        await member.enter()
        await member.close()
        return [kafka.state.cluster_id, kafka.state.topics[TOPIC].topic_id, member.member_id]


async def test_a_seed_fixes_what_is_left_to_chance() -> None:
    first = await ids(seed=7)
    assert await ids(seed=7) == first
    assert await ids(seed=7, journal=True, clock="manual") == first
    others = [*await ids(seed=8), *await ids()]
    assert not set(map(str, first)) & set(map(str, others))


def test_seed_and_rng_exclude_each_other() -> None:
    with pytest.raises(ClusterError, match="give one of them"):
        Cluster(seed=1, rng=random.Random(1))


async def test_nobody_watches_until_somebody_looks() -> None:
    async with Cluster(config=SOON) as kafka:
        assert not kafka.observed
        assert [server.tap for server in kafka.servers] == [None]
        journal = kafka.observe()
        assert kafka.observe() is kafka.journal is journal
        assert kafka.observed
        assert None not in [server.tap for server in kafka.servers]


async def test_the_journal_stays_when_the_cluster_ends(tmp_path: Path) -> None:
    kafka = Cluster(topics={TOPIC: 1}, config=SOON, journal=tmp_path)
    for _ in range(2):
        async with kafka:
            journal = kafka.journal
            member = await Member.connect(kafka)
            await member.enter()
            await member.close()
        assert kafka.journal is journal
        assert [event for event in journal.events if event["event"] == "group"]
        assert kafka.observed
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) > 1000


async def test_a_journal_that_can_not_be_kept(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    kafka = Cluster(journal=tmp_path / "file")
    with pytest.raises(ClusterError):
        await kafka.start()
    assert kafka.servers == []


async def test_what_needs_a_running_cluster_says_so() -> None:
    kafka = Cluster()
    for look in ("state", "runtime", "time", "journal", "faults", "order", "conditions"):
        with pytest.raises(ClusterError, match="not running"):
            getattr(kafka, look)
    for call in (kafka.observe, lambda: kafka.group("g"), lambda: kafka.log("t"), lambda: kafka.broker(1)):
        with pytest.raises(ClusterError, match="not running"):
            call()
    with pytest.raises(ClusterError, match="not running"):
        await kafka.broker_down(1)


async def test_names_that_are_not_there() -> None:
    async with Cluster(topics={"orders": 2}) as kafka:
        for wrong, why in (
            (lambda: kafka.log("order", 0), "did you mean 'orders'"),
            (lambda: kafka.log("orders", 2), "expected 0 to 1"),
            (lambda: kafka.broker(2), "no broker 2; expected 1"),
            (lambda: kafka.topic("oders"), "did you mean 'orders'"),
            (lambda: kafka.fault("OffsetComit", error="NOT_COORDINATOR"), "did you mean"),
        ):
            with pytest.raises(UsageError, match=why):
                wrong()
        assert kafka.topic("payments", partitions=3).partitions == 3
        assert kafka.topic("payments", partitions=5).partitions == 3


@pytest.mark.parametrize("clock", ["real", "manual"])
async def test_a_cluster_ends_whatever_is_in_force(clock: str, tmp_path: Path) -> None:
    kafka = Cluster(brokers=2, topics={TOPIC: 2}, config=SOON, clock=clock, data_dir=tmp_path)
    async with kafka:
        member, waiting = await Member.connect(kafka), await Member.connect(kafka, client_id="held")
        await member.enter()
        kafka.fault("Heartbeat", hang=True)
        kafka.fault("Metadata", delay="1h", must_hit=False)
        kafka.log(TOPIC, 0).no_leader(for_="1h")
        kafka.log(TOPIC, 1).readonly()
        kafka.offsets_log("audit").loading(for_="1h")
        jam = kafka.offsets_log("billing").stuck()
        commit = member.commit(5)
        hold = kafka.order.hold("JoinGroup")
        join = waiting.join()
        await jam.pending(1)
        await hold.arrived(1)
        await kafka.broker_down(2 if kafka.offsets_log("billing").leader == 1 else 1, noticed_after="1h")
    for request in (commit, join):
        with pytest.raises(WireClosedError):
            await request
    await member.close()
    await waiting.close()
    async with kafka:
        assert kafka.conditions.of() == []
        assert [partition.leader > 0 for partition in kafka.state.topics[TOPIC].partitions] == [True, True]
        assert kafka.faults.list() == []


def test_the_face_from_another_thread() -> None:
    with ClusterThread(topics={"orders": 1}, clock="manual", seed=1) as kafka:
        with kafka.offsets_log("billing").stuck():
            assert kafka.offsets_log("billing").states == ["stuck"]
        assert kafka.offsets_log("billing").states == []
        assert kafka.time.mode == "manual"
        assert kafka.observed
    with pytest.raises(ClusterError, match="not running"):
        kafka.group("billing")
