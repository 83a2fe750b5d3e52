"""Consumer groups of KIP-848 by what they write: batches and records of reconciliation, timeouts, static members, regular expressions,
every way between the classic and the consumer protocol, and transactions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from broker_sim.coordinator.epochs.metadata_hash import metadata_hash
from kafka_wire.consumer_protocol import assignment_of
from kafka_wire.errors import Err
from kafka_wire.messages.k11_join_group import JoinGroupRequestProtocol
from kafka_wire.messages.k13_leave_group import LeaveGroupRequest, MemberIdentity
from tests.conformance.consumers import JOIN, Consumers, owning
from tests.conformance.driver import GIVE_UP_S, POLL_S, SHORT_MS, Kafka, Member, clock_s
from tests.conformance.transactional import Producer, committed

pytestmark = [pytest.mark.generations("4.1", "4.4"), pytest.mark.profile("transactions")]

ALL = {"t0": [0, 1, 2]}


async def classic(kafka: Kafka, count: int = 1, *, synced: bool = True, **options: Any) -> list[Member]:
    """Classic members whose leader has given out t0, or has not yet."""
    members = await kafka.joined(count, protocols=[("range", owning(["t0"]))], **options)
    if synced:
        shares = [ALL] if count == 1 else [{"t0": [0, 1]}, {"t0": [2]}]
        given = {one.id: assignment_of(share, as_in=owning(["t0"])) for one, share in zip(members, shares, strict=True)}
        for member in members:
            assert (await member.sync(given if member is members[0] else None)).error_code == Err.NONE
    return members


async def until(what: str, probe: Callable[[], Awaitable[bool]]) -> None:
    """Polls, with a deadline."""
    give_up = clock_s() + GIVE_UP_S
    while not await probe():
        assert clock_s() < give_up, f"waited {GIVE_UP_S:g} s until {what}"
        await asyncio.sleep(POLL_S)


# --- reconciliation and time ----------------------------------------------------------------------------------------------


async def test_g01_what_reconciliation_writes(kafka: Kafka) -> None:
    members = await Consumers(kafka).at_once()
    first = await members.join("A", rack_id="r1", server_assignor="range")
    await members.join("B")
    await members.beat("B", first + 1)
    await members.beat("A", first)
    await members.beat("A", first)
    await members.beat("A", first, topic_partitions=members.owned["A"])
    await members.beat("B", first + 1)
    await members.beat("B", first + 1)
    await members.beat("B", first + 1, subscribed_topic_names=["t1"], server_assignor="range")
    await members.beat("A", first + 1, topic_partitions=members.owned["A"])
    await members.beat("B", first + 2, rack_id="r2", rebalance_timeout_ms=7000)
    await members.beat("A", -1)
    await members.beat("B", first + 2)
    await members.beat("B", -1)
    assert await members.log()


async def test_g02_who_does_not_give_up_in_time_is_expelled(kafka: Kafka) -> None:
    members = await Consumers(kafka).at_once()
    first = await members.join("A", rebalance_timeout_ms=SHORT_MS // 2)
    await members.join("B")
    begun = clock_s()
    assert (await members.beat("A", first)).member_epoch == first

    async def expelled() -> bool:
        return (await members.quietly("A", first)).error_code == Err.UNKNOWN_MEMBER_ID

    await until("A, which heartbeats and gives nothing up, is expelled", expelled)
    assert clock_s() - begun > SHORT_MS / 2000 - 0.1
    assert await members.refused("A", first) is Err.UNKNOWN_MEMBER_ID
    assert (await members.beat("B", first + 1)).member_epoch == first + 2
    assert members.has("B") == [0, 1, 2]
    await members.log()


async def test_g03_who_is_silent_is_expelled(kafka: Kafka) -> None:
    members = await Consumers(kafka).at_once()
    await members.set("consumer.heartbeat.interval.ms", 200)
    await members.set("consumer.session.timeout.ms", SHORT_MS // 2)
    epoch = await members.join("A")
    await members.until_gone("A")
    group = await members.described()
    assert (group.group_state, group.group_epoch) == ("Empty", epoch + 1)
    assert await members.refused("A", epoch) is Err.UNKNOWN_MEMBER_ID
    await members.log()


async def test_g04_a_group_that_reads_nothing_yet(kafka: Kafka) -> None:
    members = await Consumers(kafka).at_once()
    assert await members.join("A", subscribed_topic_names=[]) == 1
    assert await members.join("B", subscribed_topic_names=["nowhere"]) in (1, 2)
    await members.described()
    await members.beat("A", 1, subscribed_topic_names=["t0"])
    await members.described()
    await members.log()


@pytest.mark.generations("4.4")
async def test_g05_assignments_are_not_computed_at_every_join(kafka: Kafka) -> None:
    members = Consumers(kafka)
    await members.set("consumer.assignment.interval.ms", 15_000)
    assert await members.join("A") == 2
    assert members.has("A") == [0, 1, 2]
    assert await members.join("B") == 2
    assert members.has("B") == []
    group = await members.described()
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Assigning", 3, 2)
    await members.set("consumer.assignment.interval.ms", 0)
    assert (await members.beat("B", 2)).member_epoch == 3
    assert (await members.beat("A", 2)).member_epoch == 2
    assert (await members.beat("A", 2, topic_partitions=members.owned["A"])).member_epoch == 3
    await members.beat("B", 3)
    await members.log()


async def test_g06_the_hash_of_what_is_read(kafka: Kafka) -> None:
    members = await Consumers(kafka).at_once()
    epoch = await members.join("A", subscribed_topic_names=["nowhere"])
    epoch = (await members.beat("A", epoch, subscribed_topic_names=["t0", "nowhere"])).member_epoch
    await members.beat("A", epoch, subscribed_topic_names=["t1", "t0"])
    topics = await members.topics("t0", "t1")
    expected = [metadata_hash(names, topics) for names in ((), ("t0",), ("t1", "t0"))]
    assert await members.hashes() == expected


async def test_g23_another_assignor_alone(kafka: Kafka) -> None:
    members = await Consumers(kafka).at_once()
    epoch = await members.join("A", server_assignor="range")
    told = await members.beat("A", epoch, server_assignor="uniform")
    await members.described()
    await members.beat("A", told.member_epoch)
    await members.log()


# --- static members, expressions ------------------------------------------------------------------------------------------


async def test_g07_a_static_member_comes_back_as_another(kafka: Kafka) -> None:
    members = await Consumers(kafka).at_once()
    epoch = await members.join("A", instance_id="i")
    await members.join("B")
    await members.beat("A", epoch)
    await members.beat("A", -2, instance_id="i")
    await members.beat("B", epoch + 1)
    await members.join("C", instance_id="i")
    await members.beat("B", epoch + 1)
    await members.beat("C", -2, instance_id="i")
    await members.join("C", instance_id="i", subscribed_topic_names=["t0", "t1"])
    await members.described()
    await members.log()


async def test_g08_a_static_member_stays_away(kafka: Kafka) -> None:
    members = await Consumers(kafka).at_once()
    await members.set("consumer.heartbeat.interval.ms", 200)
    await members.set("consumer.session.timeout.ms", SHORT_MS // 2)
    await members.join("A", instance_id="i")
    await members.beat("A", -2, instance_id="i")
    await members.until_gone("A")
    await members.log()


async def test_g09_subscriptions_by_expressions(kafka: Kafka) -> None:
    members = await Consumers(kafka).at_once()
    said = {**JOIN, "subscribed_topic_names": None, "subscribed_topic_regex": "t[0]"}
    epoch = await members.join("A", **said)
    assert epoch == 1

    async def resolved() -> bool:
        return any(record.startswith("16") for batch in await members.quiet_log() for record in batch)

    await until("the expression is looked at", resolved)
    epoch = (await members.beat("A", epoch)).member_epoch
    assert members.has("A") == [0, 1, 2]
    assert await members.refused("A", epoch, subscribed_topic_regex="(?=a)") is Err.INVALID_REGULAR_EXPRESSION
    await members.join("B", **said)
    await members.beat("B", epoch + 1, subscribed_topic_regex="", subscribed_topic_names=["t1"])
    await members.beat("A", -1)
    await members.beat("B", epoch + 2)
    await members.log()


# --- both protocols in one group ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2])
async def test_g10_a_stable_classic_group_goes_over(kafka: Kafka, count: int) -> None:
    members = await Consumers(kafka).at_once()
    old = await classic(kafka, count)
    epoch = await members.join("N")
    assert [await one.heartbeat() for one in old] == [Err.REBALANCE_IN_PROGRESS] * count
    owned = [ALL] if count == 1 else [{"t0": [0, 1]}, {"t0": [2]}]
    for one, has in zip(old, owned, strict=True):
        await one.try_join(protocols=_rejoin(has))
        assert (await one.sync()).error_code == Err.NONE
        await one.heartbeat()
        await one.try_join(protocols=_rejoin({"t0": [0]} if one is old[0] else {}))
        await one.sync()
        await one.heartbeat()
    await members.beat("N", epoch)
    await members.described()
    await members.log()


def _rejoin(owned: dict[str, list[int]]) -> list[Any]:
    return [JoinGroupRequestProtocol("range", owning(["t0"], owned))]


async def test_g13_an_empty_classic_group_goes_over(kafka: Kafka) -> None:
    members = await Consumers(kafka).at_once()
    [old] = await classic(kafka)
    await old.commit({("t0", 0): 7})
    await old.leave()
    await members.join("N")
    assert await kafka.committed([("t0", 0)]) == {("t0", 0): 7}
    await members.log()


async def test_g14_a_group_of_offsets_alone_goes_over(kafka: Kafka) -> None:
    members = await Consumers(kafka).at_once()
    await kafka.commit({("t0", 0): 7}, generation_id_or_member_epoch=-1)
    await members.join("N")
    assert await kafka.committed([("t0", 0)]) == {("t0", 0): 7}
    await members.log()


@pytest.mark.parametrize("why", ["another type", "no subscription", "no assignment"])
async def test_g15_what_can_not_go_over(kafka: Kafka, why: str) -> None:
    members = await Consumers(kafka).at_once()
    options: dict[str, Any] = {
        "another type": {"protocol_type": "connect", "protocols": [("range", owning(["t0"]))]},
        "no subscription": {"protocols": [("range", b"\x00")]},
        "no assignment": {"protocols": [("range", owning(["t0"]))]},
    }[why]
    [old] = await kafka.joined(1, **options)
    await old.sync({old.id: b"\x00" if why == "no assignment" else assignment_of(ALL, as_in=b"\0\0")})
    assert await members.refused("N", 0, **JOIN) is Err.GROUP_ID_NOT_FOUND
    assert await old.heartbeat() == Err.NONE


@pytest.mark.parametrize("how", ["heartbeat", "LeaveGroup", "silence"])
async def test_g16_with_its_last_consumer_a_group_is_classic_again(kafka: Kafka, how: str) -> None:
    members = await Consumers(kafka).at_once()
    if how == "silence":
        await members.set("consumer.heartbeat.interval.ms", 200)
        await members.set("consumer.session.timeout.ms", SHORT_MS // 2)
    [old] = await classic(kafka)
    await members.join("N")
    await old.commit({("t0", 0): 5})
    if how == "heartbeat":
        await members.beat("N", -1)
    elif how == "LeaveGroup":
        await kafka.ask(LeaveGroupRequest(kafka.group, members=[MemberIdentity("N")]), 5)
    await kafka.until("PreparingRebalance")
    assert await old.heartbeat() == Err.ILLEGAL_GENERATION  # it never heard of the group's epoch
    assert (await old.try_join(protocols=_rejoin({"t0": [0]}))).error_code == Err.NONE
    await kafka.describe()
    assert await kafka.committed([("t0", 0)]) == {("t0", 0): 5}
    await members.log()


async def test_g17_a_static_member_goes_over_under_its_name(kafka: Kafka) -> None:
    members = await Consumers(kafka).at_once()
    old = await classic(kafka, 2, instances=["i1", "i2"])
    epoch = await members.join("N1", instance_id="i1")
    assert members.has("N1") == [0, 1]
    assert await old[0].heartbeat() == Err.FENCED_INSTANCE_ID
    assert await old[1].heartbeat() == Err.NONE
    await members.join("N2", instance_id="i2")
    await members.beat("N1", epoch)
    await members.described()
    await members.log()


async def test_g18_a_static_member_goes_back_under_its_name(kafka: Kafka) -> None:
    members = await Consumers(kafka).at_once()
    await members.join("A", instance_id="i1")
    await members.join("B", instance_id="i2")
    await members.beat("A", -2, instance_id="i1")
    first = await kafka.member("m1", instance="i1", protocols=[("range", owning(["t0"]))])
    await first.try_join()
    await first.sync()
    await members.described()
    await members.beat("B", -2, instance_id="i2")
    second = await kafka.member("m2", instance="i2", protocols=[("range", owning(["t0"]))])
    joining = await second.enter()

    async def is_classic() -> bool:
        return (await kafka.state()).group_state != "Dead"

    await until("the group is a classic one", is_classic)
    assert (await joining).leader == ""
    assert (await kafka.describe()).group_state == "Stable"
    assert [await one.heartbeat() for one in (first, second)] == [Err.NONE, Err.NONE]
    members.call(first.id, "the first's")
    members.call(second.id, "the second's")
    await members.log()


async def test_g19_a_classic_member_changes_its_protocol(kafka: Kafka) -> None:
    members = await Consumers(kafka).at_once()
    [old] = await classic(kafka)
    await members.join("N")
    if kafka.generation == "4.1":  # which forgives epoch 0 as the one before, and that is 1 here
        assert await members.refused(old.id, 0, **JOIN) is Err.FENCED_MEMBER_EPOCH
        said = {**JOIN, "topic_partitions": await members.listed(t0=[0, 1, 2])}
        assert (await members.beat(old.id, 1, **said)).error_code == Err.NONE
    else:
        assert (await members.beat(old.id, 0, **JOIN)).error_code == Err.NONE
    await members.described()
    await members.log()


async def test_g20_classic_members_come_and_go(kafka: Kafka) -> None:
    members = await Consumers(kafka).at_once()
    first = await members.join("A")
    old = await kafka.member("m1", protocols=[("range", owning(["t0"]))])
    joined = await old.join()
    assert (joined.leader, joined.members, joined.generation_id) == ("", [], first + 1)
    members.call(old.id, "C")
    assert (await old.sync()).error_code == Err.NONE
    assert await old.heartbeat() == Err.NONE
    await members.beat("A", first)
    await members.beat("A", first, topic_partitions=members.owned["A"])
    assert await old.heartbeat() == Err.REBALANCE_IN_PROGRESS
    await old.try_join(protocols=_rejoin({}))
    await old.sync()
    assert await old.heartbeat() == Err.NONE
    assert await old.heartbeat(generation_id=old.generation - 1) == Err.ILLEGAL_GENERATION
    assert (await old.sync(generation_id=old.generation + 1)).error_code == Err.ILLEGAL_GENERATION
    assert await old.commit({("t0", 2): 5}) == {("t0", 2): Err.NONE}
    assert await old.commit({("t0", 2): 5}, generation_id_or_member_epoch=99) == {("t0", 2): Err.ILLEGAL_GENERATION}
    assert (await old.try_join(protocol_type="connect")).error_code == Err.INCONSISTENT_GROUP_PROTOCOL
    await old.leave()
    await members.beat("A", first + 1)
    await members.log()


async def test_g21_an_empty_consumer_group_goes_back(kafka: Kafka) -> None:
    members = await Consumers(kafka).at_once()
    epoch = await members.join("A")
    await members.beat("A", -1)
    [old] = await classic(kafka)
    assert old.generation == 1, epoch
    await members.log()


# --- transactions ---------------------------------------------------------------------------------------------------------


async def test_g22_offsets_in_a_transaction_by_epochs(kafka: Kafka) -> None:
    members = await Consumers(kafka).at_once()
    epoch = await members.join("A")
    producer = await Producer(kafka, kafka.name("tx")).begin()
    await producer.add_offsets(kafka.group)

    async def commit(member: str, generation: int, partition: int = 0) -> Err:
        said = {"group": kafka.group, "member": member, "generation": generation, "partition": partition}
        return await producer.commit("t0", 9, **said)

    assert await commit("A", epoch + 1) is Err.ILLEGAL_GENERATION
    assert await commit("A", epoch - 1) is Err.ILLEGAL_GENERATION
    assert await commit("X", epoch) is Err.UNKNOWN_MEMBER_ID
    assert await commit("A", epoch) is Err.NONE
    assert (await committed(kafka, "t0", group=kafka.group, stable=True))[1] is Err.UNSTABLE_OFFSET_COMMIT
    await members.join("B")
    await members.beat("A", epoch)
    await members.beat("A", epoch, topic_partitions=members.owned["A"])
    late = Err.ILLEGAL_GENERATION if kafka.generation == "4.1" else Err.NONE
    assert await commit("A", epoch) is late
    assert await commit("A", epoch, 2) is Err.ILLEGAL_GENERATION
    assert await commit("", -1) is Err.NONE
    await members.beat("A", -1)
    await members.beat("B", -1)
    await members.log()
