"""DescribeGroups, ListGroups and DeleteGroups (catalogue 129-137)."""

from __future__ import annotations

import pytest

from kafka_wire.errors import Err
from kafka_wire.messages.k15_describe_groups import DescribeGroupsRequest
from kafka_wire.messages.k16_list_groups import ListGroupsRequest
from kafka_wire.messages.k42_delete_groups import DeleteGroupsRequest
from tests.conformance.driver import Kafka, listed, subscription

T = ("t0", 0)
NOT_ASKED = -(2**31)


async def delete(kafka: Kafka, *groups: str, version: int = 2) -> list[tuple[str, Err]]:
    answer = await kafka.ask(DeleteGroupsRequest(list(groups)), version)
    return [(item.group_id, Err(item.error_code)) for item in answer.results]


# ---- DescribeGroups


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4, 5])
async def test_133_unknown_group_is_dead(kafka: Kafka, version: int) -> None:
    shown = await kafka.describe(version=version)
    assert (shown.error_code, shown.group_state) == (Err.NONE, "Dead")
    assert (shown.protocol_type, shown.protocol_data, shown.members) == ("", "", [])


async def test_133_v6_unknown_group_is_not_found(kafka: Kafka) -> None:
    wire = await kafka.wire()
    if kafka.old:
        wire.start(DescribeGroupsRequest([kafka.group]), 6)
        await wire.closed()
        return
    shown = (await wire.send(DescribeGroupsRequest([kafka.group]), 6)).groups[0]
    assert shown.error_code == Err.GROUP_ID_NOT_FOUND
    assert shown.error_message == f"Group {kafka.group} not found."
    assert shown.group_state == "Dead"


async def test_133_empty_group_id(kafka: Kafka) -> None:
    await kafka.forget("")
    shown = await kafka.describe("")
    assert shown.error_code == Err.NONE


@pytest.mark.parametrize("version", [0, 3, 5])
async def test_134_stable_group_in_full(kafka: Kafka, version: int) -> None:
    m1, m2 = await kafka.stable(2)
    shown = await kafka.describe(version=version)
    assert (shown.group_state, shown.protocol_type, shown.protocol_data) == ("Stable", "consumer", "range")
    members = {member.member_id: member for member in shown.members}
    assert set(members) == {m1.id, m2.id}
    assert members[m2.id].member_metadata == subscription("t0")
    assert members[m2.id].member_assignment == b"to-m2"
    assert (members[m2.id].client_id, members[m2.id].client_host) == ("m2", "/127.0.0.1")


@pytest.mark.parametrize("version", [3, 4, 5])
async def test_134_static_instance_ids_since_v4(kafka: Kafka, version: int) -> None:
    await kafka.stable(instances=["i1"])
    shown = await kafka.describe(version=version)
    assert shown.members[0].group_instance_id == ("i1" if version >= 4 else None)


async def test_134_metadata_is_of_the_chosen_protocol(kafka: Kafka) -> None:
    [m1] = await kafka.joined(protocols=[("a", subscription("t0")), ("b", subscription("t1"))])
    await m1.sync({m1.id: b"x"})
    shown = await kafka.describe()
    assert (shown.protocol_data, shown.members[0].member_metadata) == ("a", subscription("t0"))


async def test_134_completing_hides_protocol_and_metadata(kafka: Kafka) -> None:
    await kafka.joined(2)
    shown = await kafka.describe()
    assert (shown.group_state, shown.protocol_type, shown.protocol_data) == ("CompletingRebalance", "consumer", "")
    assert [(member.member_metadata, member.member_assignment) for member in shown.members] == [(b"", b"")] * 2


async def test_134_preparing_hides_protocol_and_metadata(kafka: Kafka) -> None:
    m1, m2 = await kafka.stable(2)
    parked = m1.start_join()
    await kafka.until("PreparingRebalance")
    shown = await kafka.describe()
    assert (shown.group_state, shown.protocol_type, shown.protocol_data) == ("PreparingRebalance", "consumer", "")
    assert {member.member_metadata for member in shown.members} == {b""}
    assignments = {member.member_assignment for member in shown.members}
    assert assignments == kafka.pick(old={b""}, new={b"to-m1", b"to-m2"})
    await m2.join()
    await parked


async def test_134_empty_group_keeps_its_protocol_type(kafka: Kafka) -> None:
    [m1] = await kafka.stable()
    await m1.leave()
    await kafka.until("Empty")
    shown = await kafka.describe()
    assert (shown.protocol_type, shown.protocol_data, shown.members) == ("consumer", "", [])


@pytest.mark.parametrize("version", [3, 5])
async def test_134_authorized_operations(kafka: Kafka, version: int) -> None:
    await kafka.stable()
    without = await kafka.ask(DescribeGroupsRequest([kafka.group]), version)
    assert without.groups[0].authorized_operations == NOT_ASKED
    asked = await kafka.ask(DescribeGroupsRequest([kafka.group], include_authorized_operations=True), version)
    assert asked.groups[0].authorized_operations > 0


async def test_134_authorized_operations_of_an_unknown_group(kafka: Kafka) -> None:
    asked = await kafka.ask(DescribeGroupsRequest([kafka.group], include_authorized_operations=True), 5)
    assert asked.groups[0].group_state == "Dead"


async def test_134_several_groups_and_one_twice(kafka: Kafka) -> None:
    a, b = kafka.name("a"), kafka.name("b")
    await kafka.commit({T: 1}, group=a)
    answer = await kafka.ask(DescribeGroupsRequest([b, a, b]), 5)
    kafka.ignore("groups", because="the order is that of the offsets partitions' answers")
    states = [(group.group_id, group.group_state) for group in answer.groups]
    assert sorted(states) == sorted([(b, "Dead"), (a, "Empty"), (b, "Dead")])


async def test_134_no_groups(kafka: Kafka) -> None:
    assert (await kafka.ask(DescribeGroupsRequest([]), 5)).groups == []


# ---- ListGroups


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
async def test_136_groups_are_listed(kafka: Kafka, version: int) -> None:
    simple = kafka.name("simple")
    await kafka.stable()
    await kafka.commit({T: 1}, group=simple)
    found = await listed(kafka, version=version)
    assert {name: group.protocol_type for name, group in found.items()} == {kafka.group: "consumer", simple: ""}
    states = {group.group_state for group in found.values()}
    assert states == ({"Stable", "Empty"} if version >= 4 else {""})


async def test_136_rebalancing_groups_are_listed(kafka: Kafka) -> None:
    m1, m2 = await kafka.joined(2)
    assert (await listed(kafka))[kafka.group].group_state == "CompletingRebalance"
    await m1.sync()
    await m2.sync()
    parked = m1.start_join()
    await kafka.until("PreparingRebalance")
    assert (await listed(kafka))[kafka.group].group_state == "PreparingRebalance"
    await m2.join()
    await parked


async def test_136_state_filter(kafka: Kafka) -> None:
    simple = kafka.name("simple")
    await kafka.stable()
    await kafka.commit({T: 1}, group=simple)
    assert set(await listed(kafka, states_filter=["Stable"])) == {kafka.group}
    assert set(await listed(kafka, states_filter=["Empty"])) == {simple}
    assert set(await listed(kafka, states_filter=["Empty", "Stable"])) == {kafka.group, simple}
    assert set(await listed(kafka, states_filter=[])) == {kafka.group, simple}


async def test_136_state_filter_case(kafka: Kafka) -> None:
    await kafka.stable()
    assert set(await listed(kafka, states_filter=["stable"])) == kafka.pick(old=set(), new={kafka.group})
    assert set(await listed(kafka, states_filter=["STABLE"])) == kafka.pick(old=set(), new={kafka.group})


async def test_136_state_filter_is_trimmed(kafka: Kafka) -> None:
    await kafka.stable()
    assert set(await listed(kafka, states_filter=[" Stable "])) == kafka.pick(old=set(), new={kafka.group})


async def test_136_unknown_state_lists_nothing(kafka: Kafka) -> None:
    await kafka.stable()
    assert await listed(kafka, states_filter=["NoSuchState"]) == {}


async def test_136_unknown_state_beside_a_known_one(kafka: Kafka) -> None:
    await kafka.stable()
    assert set(await listed(kafka, states_filter=["NoSuchState", "Stable"])) == {kafka.group}


async def test_136_type_filter_v5(kafka: Kafka) -> None:
    await kafka.stable()
    wire = await kafka.wire()
    if kafka.old:
        wire.start(ListGroupsRequest(types_filter=["classic"]), 5)
        await wire.closed()
        return
    for types, expected in [
        (["classic"], {kafka.group}),
        (["CLASSIC"], {kafka.group}),
        (["consumer"], set()),
        (["nonsense"], set()),
        (["consumer", "classic"], {kafka.group}),
        ([], {kafka.group}),
    ]:
        found = await listed(kafka, version=5, types_filter=types)
        assert set(found) == expected, types
        assert {group.group_type for group in found.values()} <= {"classic"}


async def test_136_pending_only_group_is_listed(kafka: Kafka) -> None:
    member = await kafka.member()
    await member.ask_id()
    await kafka.until("Empty")
    found = await listed(kafka)
    assert (found[kafka.group].group_state, found[kafka.group].protocol_type) == ("Empty", "")


async def test_136_unknown_groups_are_not_listed(kafka: Kafka) -> None:
    await kafka.committed([T])
    await kafka.describe()
    assert await listed(kafka) == {}


# ---- DeleteGroups


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_130_unknown_group(kafka: Kafka, version: int) -> None:
    assert await delete(kafka, kafka.group, version=version) == [(kafka.group, Err.GROUP_ID_NOT_FOUND)]


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_130_empty_group_is_deleted_with_its_offsets(kafka: Kafka, version: int) -> None:
    [m1] = await kafka.stable()
    await m1.commit({T: 5})
    await m1.leave()
    assert await delete(kafka, kafka.group, version=version) == [(kafka.group, Err.NONE)]
    assert await kafka.committed([T]) == {T: -1}
    assert (await kafka.describe()).group_state == "Dead"
    assert await delete(kafka, kafka.group, version=version) == [(kafka.group, Err.GROUP_ID_NOT_FOUND)]


async def test_130_simple_group_is_deleted(kafka: Kafka) -> None:
    await kafka.commit({T: 5})
    assert await delete(kafka, kafka.group) == [(kafka.group, Err.NONE)]
    assert await kafka.committed([T]) == {T: -1}


async def test_130_stable_group_is_not_empty(kafka: Kafka) -> None:
    [m1] = await kafka.stable()
    assert await delete(kafka, kafka.group) == [(kafka.group, Err.NON_EMPTY_GROUP)]
    assert await m1.heartbeat() == Err.NONE


async def test_130_rebalancing_group_is_not_empty(kafka: Kafka) -> None:
    m1, m2 = await kafka.joined(2)
    assert await delete(kafka, kafka.group) == [(kafka.group, Err.NON_EMPTY_GROUP)]
    await m1.sync()
    await m2.sync()
    parked = m1.start_join()
    await kafka.until("PreparingRebalance")
    assert await delete(kafka, kafka.group) == [(kafka.group, Err.NON_EMPTY_GROUP)]
    await m2.join()
    await parked


async def test_130_group_of_a_pending_member_alone(kafka: Kafka) -> None:
    member = await kafka.member()
    await member.ask_id()
    await kafka.until("Empty")
    assert await delete(kafka, kafka.group) == [(kafka.group, Err.NONE)]
    assert (await member.try_join()).error_code == Err.UNKNOWN_MEMBER_ID


async def test_130_deleted_group_starts_again_at_generation_1(kafka: Kafka) -> None:
    [m1] = await kafka.stable()
    await m1.leave()
    await delete(kafka, kafka.group)
    m2 = await kafka.member("m2")
    assert (await m2.join()).generation_id == 1


async def test_129_empty_group_id(kafka: Kafka) -> None:
    """Legal in itself: what comes back depends on whether such a group was ever used."""
    await kafka.forget("")
    await kafka.commit({("t1", 0): 1}, group="")
    assert await delete(kafka, "") == [("", Err.NONE)]
    assert await delete(kafka, "") == [("", Err.GROUP_ID_NOT_FOUND)]


async def test_132_batch_of_groups(kafka: Kafka) -> None:
    simple, none = kafka.name("simple"), kafka.name("none")
    await kafka.stable()
    await kafka.commit({T: 1}, group=simple)
    kafka.ignore("results", because="the order is that of a hash map, and of the offsets partitions")
    results = dict(await delete(kafka, simple, kafka.group, none))
    assert results == {simple: Err.NONE, kafka.group: Err.NON_EMPTY_GROUP, none: Err.GROUP_ID_NOT_FOUND}


async def test_132_same_group_twice(kafka: Kafka) -> None:
    await kafka.commit({T: 1})
    results = await delete(kafka, kafka.group, kafka.group)
    assert results == kafka.pick(old=[(kafka.group, Err.NONE)], new=[(kafka.group, Err.NONE)])
