"""A group goes over to the consumer protocol in the midst of a rebalance, or back while classic members rejoin; static members, too."""

from __future__ import annotations

import re

import pytest

from kafka_wire.consumer_protocol import assignment_of
from kafka_wire.errors import Err
from kafka_wire.messages.k11_join_group import JoinGroupRequestProtocol
from kafka_wire.messages.k13_leave_group import LeaveGroupRequest, MemberIdentity
from tests.conformance.consumers import JOIN, Consumers, owning
from tests.conformance.driver import Kafka, Member, rejoin_all, stays_parked
from tests.conformance.test_consumer_group_records import classic

pytestmark = [pytest.mark.generations("4.1", "4.4"), pytest.mark.profile("transactions")]

INSTANCES = pytest.mark.parametrize("instances", [None, ["i1", "i2"]], ids=["dynamic", "static"])
SHARES: list[dict[str, list[int]]] = [{"t0": [0, 1]}, {"t0": [2]}]


def rejoin(**owned: list[int]) -> list[JoinGroupRequestProtocol]:
    return [JoinGroupRequestProtocol("range", owning(["t0"], owned))]


async def settle(member: Member, **owned: list[int]) -> None:
    """Rejoin as a classic member does once it is told to; whatever the answers are, they are recorded."""
    await member.heartbeat()
    await member.try_join(protocols=rejoin(**owned))
    await member.sync()
    await member.heartbeat()


async def written(members: Consumers) -> None:
    """The group's records, but for the leader of a group that has come back: it is the first of a hash map, by ids that are drawn."""
    found = [[re.sub(r" leader \S+", " leader", line) for line in batch] for batch in await members.quiet_log()]
    members.kafka.recording.note("log", found)


async def end(kafka: Kafka, members: Consumers) -> None:
    """Record the descriptions of the group in both protocols, and the records that were written."""
    await kafka.describe()
    await members.described()
    await written(members)


@INSTANCES
async def test_x01_up_while_members_rejoin(kafka: Kafka, instances: list[str] | None) -> None:
    """One waits in JoinGroup, the other has not heard of the rebalance."""
    members = await Consumers(kafka).at_once()
    first, second = await classic(kafka, 2, instances=instances)
    waits = await first.enter(protocols=rejoin(t0=[0, 1]))
    await kafka.until("PreparingRebalance")
    epoch = await members.join("N")
    assert Err((await waits).error_code) is Err.REBALANCE_IN_PROGRESS
    await kafka.describe()
    await settle(first, t0=[0, 1])
    await settle(second, t0=[2])
    await members.beat("N", epoch)
    await settle(first, t0=[0])
    await members.beat("N", epoch)
    await end(kafka, members)


@INSTANCES
@pytest.mark.parametrize("before", [False, True], ids=["the first time", "again"])
async def test_x02_up_while_the_assignment_is_awaited(kafka: Kafka, instances: list[str] | None, before: bool) -> None:
    """The follower waits in SyncGroup; nobody has been assigned anything yet, or what they had in the generation before."""
    members = await Consumers(kafka).at_once()
    old = await classic(kafka, 2, synced=before, instances=instances)
    if before:
        await rejoin_all(old)
    first, second = old
    waits = second.start_sync()
    await stays_parked(waits)
    epoch = await members.join(
        "N", server_assignor="range"
    )  # which goes by member ids, where uniform goes by a hash map
    assert Err((await waits).error_code) is Err.REBALANCE_IN_PROGRESS
    assert (
        Err((await first.sync({first.id: assignment_of(SHARES[0], as_in=owning(["t0"]))})).error_code) is not Err.NONE
    )
    await first.commit({("t0", 0): 3})
    await settle(first, t0=[0, 1])
    await settle(second, t0=[2])
    await members.beat("N", epoch)
    await kafka.describe()
    await written(members)


async def test_x03_up_while_a_member_is_to_come_with_its_id(kafka: Kafka) -> None:
    members = await Consumers(kafka).at_once()
    [first] = await classic(kafka)
    late = await kafka.member("late", protocols=[("range", owning(["t0"]))])
    await late.ask_id()
    epoch = await members.join("N")
    await late.try_join()
    await late.sync()
    await settle(first, t0=[0, 1, 2])
    await members.beat("N", epoch)
    await settle(late)
    await end(kafka, members)


@INSTANCES
async def test_x04_up_as_a_static_member_changes_its_protocol_amid_a_rebalance(
    kafka: Kafka, instances: list[str] | None
) -> None:
    """The one that waits in JoinGroup is replaced, or one that does not."""
    members = await Consumers(kafka).at_once()
    first, second = await classic(kafka, 2, instances=["i1", "i2"])
    waits = await first.enter(protocols=rejoin(t0=[0, 1]))
    await kafka.until("PreparingRebalance")
    epoch = await members.join("N", instance_id="i1" if instances is None else "i2")
    await waits
    await first.heartbeat()
    await second.heartbeat()
    await settle(second if instances is None else first)
    await members.beat("N", epoch)
    await end(kafka, members)


@INSTANCES
async def test_x05_down_while_members_rejoin(kafka: Kafka, instances: list[str] | None) -> None:
    """The first member has joined the group's new epoch and revoked a partition, the second has not heard of it."""
    members = await Consumers(kafka).at_once()
    first, second = await classic(kafka, 2, instances=instances)
    epoch = await members.join("N")
    await settle(first, t0=[0, 1])
    await members.beat("N", -1)
    await kafka.until("PreparingRebalance")
    await kafka.describe()
    await first.heartbeat()
    await second.heartbeat()
    await first.sync()
    await first.commit({("t0", 0): 3})
    await second.commit({("t0", 2): 3})
    waits = await first.enter(protocols=rejoin(t0=[0]))
    await stays_parked(waits)
    await kafka.describe()
    await second.leave()
    await waits
    await first.sync({first.id: assignment_of({"t0": [0, 1, 2]}, as_in=b"\0\0")})
    await first.heartbeat()
    await members.beat("N", epoch)
    await kafka.describe()
    await written(members)


@INSTANCES
async def test_x06_down_and_up_again_before_all_have_rejoined(kafka: Kafka, instances: list[str] | None) -> None:
    members = await Consumers(kafka).at_once()
    first, second = await classic(kafka, 2, instances=instances)
    await members.join("N")
    await settle(first, t0=[0, 1])
    await members.beat("N", -1)
    waits = await first.enter(protocols=rejoin(t0=[0]))
    await stays_parked(waits)
    epoch = await members.join("M")
    await waits
    await settle(second, t0=[2])
    await settle(first, t0=[0])
    await members.beat("M", epoch)
    await end(kafka, members)


async def test_x07_down_as_a_static_consumer_is_away(kafka: Kafka) -> None:
    """A static consumer that left for now is still a member; it is removed when LeaveGroup names its instance."""
    members = await Consumers(kafka).at_once()
    [first] = await classic(kafka)
    epoch = await members.join("N", instance_id="i9")
    await settle(first, t0=[0, 1, 2])
    await members.beat("N", -2, instance_id="i9")
    await kafka.describe()
    await first.heartbeat()
    await kafka.ask(LeaveGroupRequest(kafka.group, members=[MemberIdentity("", "i9")]), 5)
    await kafka.until("PreparingRebalance")
    await settle(first, t0=[0])
    await members.beat("N", epoch)
    await kafka.describe()
    await written(members)


async def test_x08_down_as_a_classic_member_replaces_the_last_static_consumer_amid_a_rebalance(kafka: Kafka) -> None:
    """The other classic member has still to join the new epoch."""
    members = await Consumers(kafka).at_once()
    [first] = await classic(kafka)
    await members.join("N", instance_id="i9")
    back = await kafka.member("back", instance="i9", protocols=[("range", owning(["t0"]))])
    answer = await back.try_join()
    members.call(answer.member_id, "the one that came back")
    await kafka.describe()
    await back.heartbeat()
    await back.sync()
    await first.heartbeat()
    waits = await first.enter(protocols=rejoin(t0=[0, 1, 2]))
    await kafka.until("PreparingRebalance")
    await kafka.describe()
    await back.heartbeat()
    await back.leave()
    await waits
    await kafka.describe()
    await written(members)


async def test_x09_all_classic_members_leave_amid_a_changeover(kafka: Kafka) -> None:
    """A consumer group is left; then the last member leaves it in the midst of a downgrade."""
    members = await Consumers(kafka).at_once()
    first, second = await classic(kafka, 2)
    epoch = await members.join("N")
    await settle(first, t0=[0, 1])
    await first.leave()
    await second.leave()
    await members.beat("N", epoch)
    await members.described()
    late = await kafka.member("late", protocols=[("range", owning(["t0"]))])
    await late.join()
    members.call(late.id, "late")
    await members.beat("N", -1)
    await kafka.until("PreparingRebalance")
    await late.leave()
    await kafka.describe()
    await written(members)


POLICIES = pytest.mark.parametrize(
    "policy",
    [pytest.param(name, marks=pytest.mark.profile(f"policy-{name}")) for name in ("upgrade", "downgrade", "disabled")],
)
"""group.consumer.migration.policy."""


@POLICIES
async def test_x10_up_by_policy(kafka: Kafka, policy: str) -> None:
    """A group that may not go over refuses the member; one that is empty goes over in any case."""
    members = await Consumers(kafka).at_once()
    [first] = await classic(kafka)
    answer = await members.beat("N", 0, **JOIN)
    assert (answer.error_code == Err.NONE) is (policy == "upgrade")
    await first.heartbeat()
    await first.leave()
    await members.beat("N", 0, **JOIN)
    await end(kafka, members)


@POLICIES
async def test_x11_down_by_policy(kafka: Kafka, policy: str) -> None:
    """Classic members that have joined are no classic group by themselves where that may not go back. Since 4.4 none joins where the
    policy is disabled, but where no consumer member is left."""
    members = await Consumers(kafka).at_once()
    epoch = await members.join("N")
    first = await kafka.member("m1", protocols=[("range", owning(["t0"]))])
    first.id = (await first.try_join()).member_id
    if not first.id:
        assert policy == "disabled"
        await members.beat("N", -1)
        await first.join()
        await first.sync()
        await kafka.describe()
        await members.log()
        return
    members.call(first.id, "m1")
    await first.join()
    await first.sync()
    await members.beat("N", epoch + 1, topic_partitions=[])
    await settle(first)
    await members.beat("N", -1)
    await kafka.describe()
    await members.described()
    await first.heartbeat()
    await first.leave()
    await members.described()
    late = await kafka.member("late", protocols=[("range", owning(["t0"]))])
    await late.join()
    await kafka.describe()
    await written(members)


@POLICIES
async def test_x12_a_static_member_goes_back_by_policy(kafka: Kafka, policy: str) -> None:
    """The last consumer member is replaced by a classic one."""
    members = await Consumers(kafka).at_once()
    await members.join("N", instance_id="i9")
    back = await kafka.member("back", instance="i9", protocols=[("range", owning(["t0"]))])
    answer = await back.try_join()
    assert bool(answer.member_id) or policy == "disabled"
    if answer.member_id:
        members.call(answer.member_id, "the one that came back")
        await back.heartbeat()
        await back.sync()
    await kafka.describe()
    await members.described()
    await written(members)


@pytest.mark.profile("small-classic")
async def test_x13_down_where_a_classic_group_would_be_too_large(kafka: Kafka) -> None:
    """The group stays a consumer group until it has shrunk: then the next member that leaves downgrades it."""
    members = await Consumers(kafka).at_once()
    await members.join("N")
    first, second, third = [
        await kafka.member(name, protocols=[("range", owning(["t0"]))], join_version=3) for name in ("m1", "m2", "m3")
    ]
    for one in (first, second):
        await one.join()
        members.call(one.id, one.name)
    await third.try_join()
    await members.refused("M", 0, **JOIN)
    await members.beat("N", -1)
    await kafka.describe()
    await members.described()
    await second.leave()
    await kafka.describe()
    await members.described()
    await first.heartbeat()
    await written(members)


@pytest.mark.profile("small-consumer")
async def test_x14_up_where_a_consumer_group_would_be_too_large(kafka: Kafka) -> None:
    members = await Consumers(kafka).at_once()
    first, second = await classic(kafka, 2)
    await members.beat("N", 0, **JOIN)
    await first.heartbeat()
    await second.leave()
    await members.beat("N", 0, **JOIN)
    late = await kafka.member("late", protocols=[("range", owning(["t0"]))])
    await late.try_join()
    await settle(first, t0=[0, 1])
    await first.leave()
    await members.described()
    await written(members)


@pytest.mark.parametrize("reads", [["t0"], ["t1"]], ids=["the same topic", "another topic"])
@pytest.mark.parametrize("protocol", ["range", ""], ids=["range", "a protocol without a name"])
async def test_x15_down_as_a_classic_member_replaces_the_last_consumer(
    kafka: Kafka, reads: list[str], protocol: str
) -> None:
    """With another subscription 4.2 and later rebalance the classic group instead of computing an assignment."""
    members = await Consumers(kafka).at_once()
    await members.join("N", instance_id="i9", subscribed_topic_names=["t0"])
    back = await kafka.member("back", instance="i9", protocols=[(protocol, owning(reads))])
    answer = await back.try_join()
    assert answer.error_code == Err.NONE
    assert answer.protocol_name == (protocol or None)
    members.call(answer.member_id, "the one that came back")
    await kafka.describe()
    await back.heartbeat()
    await back.sync()
    await back.try_join()
    await kafka.describe()
    await written(members)


async def test_x16_down_where_no_protocol_is_common(kafka: Kafka) -> None:
    """A name that a member has twice counts twice: the vote of the classic group throws, and so fails what would make it one."""
    members = await Consumers(kafka).at_once()
    epoch = await members.join("N", instance_id="i9")
    twice = [("range", owning(["t0"])), ("range", owning(["t0"]))]
    back = await kafka.member("back", instance="i9", protocols=twice)
    assert (await back.try_join()).error_code == Err.UNKNOWN_SERVER_ERROR
    second = await kafka.member("second", instance="i8", protocols=twice)
    answer = await second.try_join()
    assert answer.error_code == Err.NONE
    members.call(answer.member_id, "the second")
    assert await members.refused("N", -1, instance_id="i9") is Err.UNKNOWN_SERVER_ERROR
    assert (await kafka.ask(LeaveGroupRequest(kafka.group, members=[MemberIdentity("N", "i9")]), 5)).error_code == -1
    assert await members.refused("N", epoch, instance_id="i9") is Err.NONE
    await members.described()
    await members.beat("N", -1, instance_id="i9")
    await members.described()
    await written(members)


async def test_x17_up_while_the_group_has_no_protocol(kafka: Kafka) -> None:
    """The vote of the join phase has failed: the conversion fails as well, but has answered the JoinGroup that waits."""
    members = await Consumers(kafka).at_once()
    twice = [("range", owning(["t0"])), ("range", owning(["t0"]))]
    first = await kafka.member("first", protocols=twice, instance="i7")
    waits = first.start_join()
    await stays_parked(waits)
    assert await members.refused("N", 0, **JOIN) is Err.UNKNOWN_SERVER_ERROR
    assert (await waits).error_code == Err.REBALANCE_IN_PROGRESS
