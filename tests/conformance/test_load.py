"""Loading __consumer_offsets after a crash (catalogue 39, 147, 148, 151-156, 159).

history.load_history tells what was in the log.
"""

from __future__ import annotations

import pytest

from kafka_wire.errors import Err
from kafka_wire.messages.k15_describe_groups import DescribedGroup
from tests.conformance.driver import Kafka, Member, fetch_request, stays_parked, subscription
from tests.conformance.history import past_group

pytestmark = pytest.mark.profile("load")
T, T1, U = ("t0", 0), ("t0", 1), ("t1", 1)


async def shown(kafka: Kafka, base: str) -> DescribedGroup:
    return await kafka.describe(past_group("load", base))


async def offsets(kafka: Kafka, base: str) -> dict[tuple[str, int], int]:
    return await kafka.committed(None, group=past_group("load", base))


async def old_member(kafka: Kafka, base: str, name: str, generation: int = 5, **options: object) -> Member:
    """A client that was in the group before the crash, with its id and generation."""
    member = await kafka.member(name, group=past_group("load", base), **options)
    member.id, member.generation = f"{name}-id", generation
    return member


async def test_147_offsets_alone(kafka: Kafka) -> None:
    group = await shown(kafka, "offsets-only")
    assert (group.group_state, group.protocol_type) == ("Empty", "")
    assert await offsets(kafka, "offsets-only") == {T: 5, U: 6}


async def test_147_group_alone(kafka: Kafka) -> None:
    group = await shown(kafka, "group-only")
    assert (group.group_state, group.protocol_type, group.protocol_data) == ("Stable", "consumer", "range")
    members = {member.member_id: member for member in group.members}
    assert set(members) == {"a-id", "b-id"}
    assert members["b-id"].member_metadata == subscription("t0")
    assert members["b-id"].member_assignment == b"to-b"
    assert (members["b-id"].client_id, members["b-id"].client_host) == ("b", "/127.0.0.1")
    assert await offsets(kafka, "group-only") == {}


async def test_147_group_and_offsets(kafka: Kafka) -> None:
    assert (await shown(kafka, "both")).group_state == "Stable"
    assert await offsets(kafka, "both") == {T: 5, T1: 6}


async def test_147_members_go_on_where_they_were(kafka: Kafka) -> None:
    member = await old_member(kafka, "going-on", "a")
    assert await member.heartbeat() == Err.NONE
    assert await member.heartbeat(generation_id=4) == Err.ILLEGAL_GENERATION
    assert (await member.sync()).assignment == b"to-a"
    assert await member.commit({("t0", 2): 8}) == {("t0", 2): Err.NONE}


async def test_147_emptied_group(kafka: Kafka) -> None:
    group = await shown(kafka, "emptied")
    assert (group.group_state, group.protocol_type, group.members) == ("Empty", "consumer", [])
    assert await offsets(kafka, "emptied") == {T: 5}


async def test_147_emptied_group_goes_on_with_its_generation(kafka: Kafka) -> None:
    member = await kafka.member(group=past_group("load", "no-type-joined"), join_version=3)
    assert (await member.join()).generation_id == 1
    await member.leave()


async def test_s3_5_later_record_wins(kafka: Kafka) -> None:
    assert await offsets(kafka, "later-wins") == {T: 4}


async def test_s3_5_later_group_record_wins(kafka: Kafka) -> None:
    group = await shown(kafka, "later-generation")
    assert [member.member_id for member in group.members] == ["b-id"]
    member = await old_member(kafka, "later-generation", "b", 4)
    assert await member.heartbeat() == Err.NONE


async def test_148_tombstone_of_an_offset(kafka: Kafka) -> None:
    assert await offsets(kafka, "forgotten-offset") == {T1: 6}


async def test_148_commit_after_a_tombstone(kafka: Kafka) -> None:
    assert await offsets(kafka, "forgotten-then-again") == {T: 9}


async def test_148_tombstones_of_a_group_and_its_offsets(kafka: Kafka) -> None:
    assert (await shown(kafka, "ended")).group_state == "Dead"
    assert await offsets(kafka, "ended") == {}


async def test_148_tombstone_of_a_group_that_has_offsets(kafka: Kafka) -> None:
    group = await shown(kafka, "ended-with-offsets")
    assert (group.group_state, group.members) == (kafka.pick(old="Empty", new="Dead"), [])
    assert await offsets(kafka, "ended-with-offsets") == kafka.pick(old={T: 5}, new={})


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
async def test_154_offset_values_of_every_version(kafka: Kafka, version: int) -> None:
    group = past_group("load", f"commit-v{version}")
    answer = await kafka.ask(fetch_request(group, [T], 8), 8)
    found = answer.groups[0].topics[0].partitions[0]
    if version == 4 and kafka.old:
        assert found.committed_offset == -1
        return
    assert (found.committed_offset, found.metadata) == (10 + version, f"v{version}")
    assert found.committed_leader_epoch == (7 if version >= 3 else -1)


async def test_154_offset_value_with_an_unknown_tagged_field(kafka: Kafka) -> None:
    assert await offsets(kafka, "commit-v4-tagged") == kafka.pick(old={}, new={T: 5})


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
async def test_155_group_values_of_every_version(kafka: Kafka, version: int) -> None:
    group = await shown(kafka, f"group-v{version}")
    if version == 4 and kafka.old:
        assert group.group_state == "Dead"
        return
    assert (group.group_state, [member.member_id for member in group.members]) == ("Stable", ["a-id"])
    member = await old_member(kafka, f"group-v{version}", "a")
    assert await member.heartbeat() == Err.NONE


async def test_156_static_member(kafka: Kafka) -> None:
    group = await shown(kafka, "static")
    assert {member.member_id: member.group_instance_id for member in group.members} == {"a-id": "i1", "b-id": None}
    member = await old_member(kafka, "static", "a", instance="i1")
    assert await member.heartbeat() == Err.NONE
    assert await member.heartbeat(member_id="other") == Err.FENCED_INSTANCE_ID


async def test_156_faulty_consumer_metadata(kafka: Kafka) -> None:
    group = await shown(kafka, "faulty-metadata")
    assert (group.group_state, group.members[0].member_metadata) == ("Stable", b"?")


async def test_156_other_protocol_type(kafka: Kafka) -> None:
    group = await shown(kafka, "other-type")
    assert (group.group_state, group.protocol_type) == ("Stable", "connect")


async def test_s3_5_empty_protocol_type_is_none(kafka: Kafka) -> None:
    assert (await shown(kafka, "no-type")).protocol_type == ""
    assert await offsets(kafka, "no-type") == {T: 5}


async def test_039_group_over_its_size_rebalances(kafka: Kafka) -> None:
    group = await shown(kafka, "over-size")
    assert (group.group_state, len(group.members)) == ("PreparingRebalance", 3)


async def test_015_last_to_rejoin_an_over_size_group_is_turned_away(kafka: Kafka) -> None:
    members = [await old_member(kafka, "over-size-rejoined", name) for name in "abc"]
    first = members[0].start_join()
    await stays_parked(first)
    second = members[1].start_join()
    await stays_parked(second)
    answer = await members[2].try_join()
    assert (answer.error_code, answer.member_id) == (Err.GROUP_MAX_SIZE_REACHED, "")
    if not kafka.old:  # again it forgets to complete the join phase, until something else happens in the group
        await stays_parked(first, second, ms=300)
        await members[1].leave(wire=await members[1].second_wire())
        assert (await second).error_code == Err.UNKNOWN_MEMBER_ID
        assert ((await first).generation_id, len((await first).members)) == (6, 1)
        return
    assert [(await task).generation_id for task in (first, second)] == [6, 6]
    assert len((await first).members) == 2


async def test_s3_5_loaded_members_have_sessions(kafka: Kafka) -> None:
    group = past_group("load", "short-session")
    await kafka.until("Empty", group=group)
    member = await old_member(kafka, "short-session", "a")
    assert await member.heartbeat() == Err.UNKNOWN_MEMBER_ID


async def test_152_record_larger_than_the_load_buffer(kafka: Kafka) -> None:
    group = await shown(kafka, "large")
    assert len(group.members[0].member_metadata) == 60_010


async def test_159_unknown_record_type(kafka: Kafka) -> None:
    """4.1 skips it; 3.4 serves the partition without anything that it held."""
    expected = kafka.pick(old={}, new={T: 5})
    assert await offsets(kafka, "before-unknown-key") == expected
    assert await offsets(kafka, "after-unknown-key") == expected


async def test_153_unknown_value_version(kafka: Kafka) -> None:
    """3.4 serves the partition without it; 4.1 gives the partition up."""
    group = past_group("load", "unknown-value")
    answer = await kafka.ask(fetch_request(group, None, 8), 8)
    assert answer.groups[0].error_code == kafka.pick(old=Err.NONE, new=Err.NOT_COORDINATOR)
    assert answer.groups[0].topics == []


async def test_151_torn_tail_of_the_log(kafka: Kafka) -> None:
    assert await offsets(kafka, "cut-tail") == {T: 5}
    group = past_group("load", "cut-tail")
    assert await kafka.commit({T1: 6}, group=group) == {T1: Err.NONE}
    assert await kafka.committed([T, T1], group=group) == {T: 5, T1: 6}
