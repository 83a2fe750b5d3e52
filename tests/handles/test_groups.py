"""A group in the hand: how it stands, waits, probes, removals."""

from __future__ import annotations

import asyncio

import pytest

from broker_sim import Cluster, Err, UsageError, WaitTimeout
from broker_sim.control.on_journal import recent_histories
from broker_sim.journal import groups_in
from broker_sim.storage import partition_for
from kafka_wire.messages.k13_leave_group import LeaveGroupRequest, MemberIdentity
from kafka_wire.messages.k16_list_groups import ListGroupsRequest
from tests.handles.members import Member, commit_error

pytestmark = pytest.mark.kafka(topics={"orders": 3})


def test_a_group_that_is_not_there_is_dead(kafka_server: object) -> None:
    group = kafka_server.group("nobody")  # type: ignore[attr-defined]
    assert (group.state, group.generation, group.members, group.coordinator) == ("Dead", 0, [], 1)
    assert (group.committed(), group.lag(), group.generations) == ({}, {}, 0)


async def test_a_group_is_shown_as_it_is(kafka: Cluster, app: Member) -> None:
    billing = kafka.group("billing")
    (member,) = billing.members
    assert (billing.state, billing.generation, billing.coordinator, billing.generations) == ("Stable", 1, 1, 1)
    assert (member.member_id, member.client_id, member.leader, member.deferred) == (app.member_id, "app", True, None)
    assert (member.topics, member.assignment) == (["orders"], {"orders": [0]})
    assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (10_000, 60_000)
    assert billing.offsets_log.name == f"__consumer_offsets-{partition_for('billing', 50)}"
    assert repr(billing) == "<group 'billing': Stable, generation 1, 1 members>"


async def test_lag_counts_what_is_committed_assigned_and_subscribed(kafka: Cluster, app: Member) -> None:
    billing = kafka.group("billing")
    kafka.topic("orders").fill(9)
    assert (billing.lag(), billing.lag().total) == ({("orders", 0): 3, ("orders", 1): 3, ("orders", 2): 3}, 9)
    await app.commit(1)
    await app.commit(2, partition=1)
    assert billing.committed() == {("orders", 0): 1, ("orders", 1): 2}
    assert billing.lag() == {("orders", 0): 2, ("orders", 1): 1, ("orders", 2): 3}
    kafka.state.delete_topic("orders")
    assert billing.lag() == {}


async def test_stable_waits_for_members_and_generation(kafka: Cluster, app: Member) -> None:
    billing = kafka.group("billing")
    assert await billing.stable(members=1) is billing
    coming = asyncio.create_task(billing.stable(members=2, generation=2))
    rebalancing = asyncio.create_task(billing.state_is("CompletingRebalance"))
    second = await Member.connect(kafka, client_id="second")
    second.member_id = (await second.join()).member_id
    joined, rejoined = second.join(), app.join()
    second.generation, app.generation = (await joined).generation_id, (await rejoined).generation_id
    synced = second.sync()
    await rebalancing
    assert not coming.done()
    app.sync({app.member_id: [0], second.member_id: [1, 2]})
    await synced
    assert (await coming).generation == 2
    assert [m.assignment for m in billing.members] == [{"orders": [0]}, {"orders": [1, 2]}]
    assert billing.generations == 2
    await billing.generation_is(2)
    await second.close()


async def test_a_state_that_lasts_for_a_moment_is_not_missed(kafka: Cluster) -> None:
    passed = asyncio.create_task(kafka.group("billing").state_is("PreparingRebalance"))
    await asyncio.sleep(0)
    member = await Member.connect(kafka)
    await member.enter()
    assert (await passed).state == "Stable"
    await member.close()


async def test_commits_are_waited_for(kafka: Cluster, app: Member) -> None:
    billing = kafka.group("billing")
    kafka.topic("orders").fill(9)
    published = billing.commit()  # counts from here on
    reached = asyncio.create_task(billing.committed_at_least("orders", 0, 2))
    low = asyncio.create_task(billing.lag_below(8))
    await asyncio.sleep(0)
    app.generation = (await app.join()).generation_id
    await app.sync({app.member_id: [0, 1, 2]})
    await app.commit(1)
    assert not reached.done()
    assert not low.done()
    assert await published == {("orders", 0): 1}
    await app.commit(3)
    await asyncio.gather(reached, low)
    await billing.committed_at_least({("orders", 0): 3})


async def test_members_that_leave_are_waited_for(kafka: Cluster, app: Member) -> None:
    billing = kafka.group("billing")
    gone = asyncio.create_task(billing.member_gone("app"))
    await asyncio.sleep(0)
    leave = LeaveGroupRequest(group_id="billing", members=[MemberIdentity(app.member_id)])
    await app.wire.send(leave, 4)
    await gone
    assert (await billing.empty()).members == []


@pytest.mark.parametrize("instance", [None, "i-1"])
async def test_a_member_can_be_removed(kafka: Cluster, instance: str | None) -> None:
    member = await Member.connect(kafka, instance=instance)
    await member.enter()
    billing = kafka.group("billing")
    with pytest.raises(UsageError, match=r"no member 'ap' of group 'billing'; did you mean 'app'\?"):
        await billing.remove("ap")
    await billing.remove(instance or "app")
    await billing.empty()
    assert commit_error(await member.commit(1)) is Err.UNKNOWN_MEMBER_ID
    await member.close()


async def test_a_wait_in_vain_tells_how_it_stands_and_what_happened(kafka: Cluster, app: Member) -> None:
    await app.commit(1)
    with pytest.raises(WaitTimeout) as failure:
        await kafka.group("billing").stable(members=2, timeout="30ms")
    text = str(failure.value)
    assert text.startswith(
        "group 'billing': state Stable, members 2: not within 30 ms\nnow: Stable, generation 1, 1 members"
    )
    assert "committed {orders-0: 1}, lag -1" in text
    assert "group billing: Stable in generation 1, 1 member: app (leader)" in text


async def test_names_that_are_none_are_refused(kafka: Cluster) -> None:
    billing = kafka.group("billing")
    with pytest.raises(UsageError, match=r"no group state 'stabel'; did you mean 'Stable'\?"):
        await billing.state_is("stabel")
    with pytest.raises(UsageError, match="no group state 'Done'"):
        await billing.wait(state="Done")
    with pytest.raises(UsageError, match="committed_at_least takes"):
        await billing.committed_at_least("orders", 0)
    assert await billing.state_is("dead") is billing, "in any case, as everywhere"


@pytest.mark.parametrize("as_version", ["3.9", "4.1"])
async def test_a_probe_commits_beside_the_group_and_leaves_nothing(as_version: str) -> None:
    async with Cluster(as_version=as_version, config={"offsets.topic.num.partitions": 4}) as kafka:
        billing = kafka.group("billing")
        probe = await billing.commit_probe()
        assert (probe.ok, probe.error, probe.log) == (True, Err.NONE, billing.offsets_log.name)
        assert probe.group != "billing"
        assert kafka.group(probe.group).offsets_log.name == probe.log
        assert (billing.state, kafka.group(probe.group).state) == ("Dead", "Dead")
        member = await Member.connect(kafka)
        assert (await member.wire.send(ListGroupsRequest(), 4)).groups == []
        assert probe.group not in groups_in(kafka.journal.events)
        assert any(event.get("group") == probe.group for event in kafka.journal.events)  # it is there, for whoever asks
        assert probe.group not in recent_histories(kafka.journal)
        with billing.offsets_log.not_leader():
            assert not (await billing.commit_probe()).ok
        with billing.offsets_log.no_leader():
            assert (await billing.commit_probe()).error is Err.COORDINATOR_NOT_AVAILABLE
            assert billing.coordinator is None
            assert billing.state == "Unknown"
        await kafka.journal.next(event="load", action="finished", since=0)
        with (
            billing.offsets_log.stuck(),
            pytest.raises(WaitTimeout, match="an answer to a commit in __consumer_offsets"),
        ):
            await billing.commit_probe(timeout="30ms")
        assert (await billing.commit_probe()).ok
        await member.close()


async def test_a_wait_for_a_group_that_nobody_has_says_who_is_meant(kafka: Cluster, app: Member) -> None:
    with pytest.raises(WaitTimeout, match="no group 'biling'; did you mean 'billing'\\?"):
        await kafka.group("biling").stable(timeout="20ms")
    with pytest.raises(WaitTimeout, match="now: no group 'zzz'\n"):
        await kafka.group("zzz").stable(timeout="20ms")
    await kafka.group("billing").stable(members=1)
    with pytest.raises(WaitTimeout, match="now: Stable, generation 1"):
        await kafka.group("billing").stable(members=2, timeout="20ms")


async def test_history_explains(kafka: Cluster, app: Member) -> None:
    billing = kafka.group("billing")
    assert [one.generation for one in billing.history().rebalances] == [1]
    assert "eneration 1" in billing.explain()
    assert billing.explain(generation=1).startswith("Generation 1 began")
    assert "app" in billing.timeline()
