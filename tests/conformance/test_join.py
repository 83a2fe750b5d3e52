"""JoinGroup: its checks and what it does in each state (catalogue 2-12, 27-32, 37, 38, 41)."""

from __future__ import annotations

import pytest

from kafka_wire.errors import Err
from kafka_wire.messages.k11_join_group import JoinGroupRequestProtocol
from tests.conformance.driver import SHORT_MS, Kafka, rejoin_all, stays_parked, subscription, sync_all


async def test_002_empty_group_id_is_invalid(kafka: Kafka) -> None:
    member = await kafka.member(group="")
    answer = await member.try_join()
    assert answer.error_code == Err.INVALID_GROUP_ID
    assert answer.generation_id == -1


@pytest.mark.parametrize("session_ms", [99, 60_001])
async def test_003_session_timeout_out_of_range(kafka: Kafka, session_ms: int) -> None:
    member = await kafka.member(session_ms=session_ms)
    answer = await member.try_join()
    assert answer.error_code == Err.INVALID_SESSION_TIMEOUT
    assert (await kafka.describe()).group_state == "Dead"


@pytest.mark.parametrize("session_ms", [100, 60_000])
async def test_003_session_timeout_at_the_limits_is_accepted(kafka: Kafka, session_ms: int) -> None:
    member = await kafka.member(session_ms=session_ms)
    assert (await member.join()).generation_id == 1


async def test_004_known_member_id_and_no_group(kafka: Kafka) -> None:
    member = await kafka.member()
    answer = await member.try_join(member_id="nobody")
    assert answer.error_code == Err.UNKNOWN_MEMBER_ID
    assert answer.member_id == "nobody"
    assert (await kafka.describe()).group_state == "Dead"


async def test_005_unknown_member_id_in_a_live_group(kafka: Kafka) -> None:
    await kafka.stable()
    stranger = await kafka.member("stranger")
    answer = await stranger.try_join(member_id="nobody")
    assert answer.error_code == Err.UNKNOWN_MEMBER_ID
    assert answer.member_id == "nobody"
    assert (await kafka.describe()).group_state == "Stable"


async def test_007_empty_protocol_type(kafka: Kafka) -> None:
    member = await kafka.member(protocol_type="")
    answer = await member.try_join()
    assert answer.error_code == Err.INCONSISTENT_GROUP_PROTOCOL
    assert answer.member_id == ""


async def test_007_no_protocols(kafka: Kafka) -> None:
    member = await kafka.member(protocols=[])
    answer = await member.try_join()
    assert answer.error_code == Err.INCONSISTENT_GROUP_PROTOCOL


async def test_007_rejected_join_leaves_an_empty_group(kafka: Kafka) -> None:
    member = await kafka.member(protocol_type="")
    await member.try_join()
    await kafka.until("Empty")  # 4.1 answers before the record of the new group is committed
    assert (await kafka.describe()).group_state == "Empty"


async def test_008_other_protocol_type(kafka: Kafka) -> None:
    await kafka.stable()
    other = await kafka.member("other", protocol_type="connect")
    answer = await other.try_join()
    assert answer.error_code == Err.INCONSISTENT_GROUP_PROTOCOL
    assert (await kafka.describe()).group_state == "Stable"


async def test_008_other_protocol_type_after_the_group_emptied(kafka: Kafka) -> None:
    [m1] = await kafka.stable()
    await m1.leave()
    other = await kafka.member("other", protocol_type="connect")
    await other.join()
    assert (await kafka.describe()).protocol_type == "connect"


async def test_009_no_common_protocol(kafka: Kafka) -> None:
    [m1] = await kafka.stable()
    other = await kafka.member("other", protocols=[("sticky", b"")])
    answer = await other.try_join()
    assert answer.error_code == Err.INCONSISTENT_GROUP_PROTOCOL
    assert await m1.heartbeat() == Err.NONE


async def test_009_no_common_protocol_on_the_second_join(kafka: Kafka) -> None:
    [m1] = await kafka.stable()
    other = await kafka.member("other")
    await other.ask_id()
    answer = await other.try_join(protocols=[JoinGroupRequestProtocol("sticky", b"")])
    assert answer.error_code == Err.INCONSISTENT_GROUP_PROTOCOL
    assert answer.member_id == other.id
    assert await m1.heartbeat() == Err.NONE


async def test_009_even_a_sole_member_must_keep_a_protocol_it_had(kafka: Kafka) -> None:
    [m1] = await kafka.stable()
    answer = await m1.try_join(protocols=[JoinGroupRequestProtocol("sticky", b"s")])
    assert answer.error_code == Err.INCONSISTENT_GROUP_PROTOCOL
    m1.protocols = [("sticky", b"s"), ("range", b"r")]
    joined = await m1.join()
    assert (joined.generation_id, joined.protocol_name) == (2, "sticky")


async def test_009_rejoin_with_protocols_that_others_lack(kafka: Kafka) -> None:
    m1, _ = await kafka.stable(2)
    answer = await m1.try_join(protocols=[JoinGroupRequestProtocol("sticky", b"s")])
    assert answer.error_code == Err.INCONSISTENT_GROUP_PROTOCOL
    assert (await kafka.describe()).group_state == "Stable"


@pytest.mark.parametrize("version", [6, 7, 9])
async def test_010_errors_carry_no_protocol(kafka: Kafka, version: int) -> None:
    member = await kafka.member()
    answer = await member.try_join(version=version, member_id="nobody")
    assert answer.protocol_type is None
    assert answer.protocol_name == ("" if version < 7 else None)
    assert (answer.generation_id, answer.leader, answer.members) == (-1, "", [])


@pytest.mark.parametrize("version", [5, 6, 7, 8, 9])
async def test_011_success_carries_protocol_type_since_v7(kafka: Kafka, version: int) -> None:
    member = await kafka.member(join_version=version)
    answer = await member.join()
    assert answer.protocol_type == ("consumer" if version >= 7 else None)
    assert answer.protocol_name == "range"


@pytest.mark.parametrize("version", [0, 1, 2, 3])
async def test_012_old_versions_join_at_once(kafka: Kafka, version: int) -> None:
    member = await kafka.member(join_version=version)
    answer = await member.try_join()
    assert answer.error_code == Err.NONE
    assert answer.member_id.startswith("m1-")
    assert answer.leader == answer.member_id
    assert [item.member_id for item in answer.members] == [answer.member_id]


@pytest.mark.parametrize("version", [4, 5, 6, 9])
async def test_012_member_id_is_required_since_v4(kafka: Kafka, version: int) -> None:
    member = await kafka.member(join_version=version)
    answer = await member.try_join()
    assert answer.error_code == Err.MEMBER_ID_REQUIRED
    assert answer.member_id.startswith("m1-")
    assert answer.generation_id == -1
    member.id = answer.member_id
    again = await member.try_join()
    assert again.error_code == Err.NONE
    assert again.member_id == answer.member_id


async def test_012_pending_member_is_not_shown(kafka: Kafka) -> None:
    member = await kafka.member()
    await member.ask_id()
    await kafka.until("Empty")
    shown = await kafka.describe()
    assert (shown.group_state, shown.members) == ("Empty", [])


async def test_012_member_id_is_made_of_the_client_id(kafka: Kafka) -> None:
    wire = await kafka.wire(None)
    member = await kafka.member()
    answer = await wire.send(member.join_request(), 9)
    assert answer.error_code == Err.MEMBER_ID_REQUIRED
    kafka.ignore("member_id", because="a null client id has no stable prefix")
    assert len(answer.member_id) >= 37


async def test_027_follower_unchanged_in_stable_no_rebalance(kafka: Kafka) -> None:
    m1, m2 = await kafka.stable(2)
    answer = await m2.join()
    assert (answer.generation_id, answer.members, answer.leader) == (2, [], m1.id)
    assert (await kafka.describe()).group_state == "Stable"


async def test_028_follower_changed_in_stable_rebalances(kafka: Kafka) -> None:
    m1, m2 = await kafka.stable(2)
    m2.protocols = [("range", subscription("t0", "t1"))]
    parked = await m2.enter()
    await kafka.until("PreparingRebalance")
    await stays_parked(parked)
    answer = await m1.join()
    assert answer.generation_id == 3
    assert {item.member_id: item.metadata for item in answer.members}[m2.id] == subscription("t0", "t1")
    assert (await parked).generation_id == 3


async def test_029_leader_unchanged_in_stable_rebalances(kafka: Kafka) -> None:
    m1, m2 = await kafka.stable(2)
    parked = await m1.enter()
    await kafka.until("PreparingRebalance")
    assert await m2.heartbeat() == Err.REBALANCE_IN_PROGRESS
    assert (await m2.join()).generation_id == 3
    answer = await parked
    assert answer.generation_id == 3
    assert len(answer.members) == 2


async def test_029_sole_leader_rejoins_at_once(kafka: Kafka) -> None:
    [m1] = await kafka.stable()
    assert (await m1.join()).generation_id == 2


async def test_030_completing_same_metadata_same_generation(kafka: Kafka) -> None:
    m1, m2 = await kafka.joined(2)
    follower = await m2.join()
    assert (follower.generation_id, follower.members) == (2, [])
    leader = await m1.join()
    assert leader.generation_id == 2
    assert len(leader.members) == 2
    assert (await kafka.describe()).group_state == "CompletingRebalance"


async def test_031_completing_changed_metadata_rebalances_and_ends_parked_syncs(kafka: Kafka) -> None:
    m1, m2, m3 = await kafka.joined(3)
    sync = m2.start_sync()
    await stays_parked(sync)
    m3.protocols = [("range", subscription("t1"))]
    parked = await m3.enter()
    answer = await sync
    assert answer.error_code == Err.REBALANCE_IN_PROGRESS
    assert answer.assignment == b""
    await stays_parked(parked)
    assert [a.generation_id for a in await rejoin_all([m1, m2])] == [3, 3]
    assert (await parked).generation_id == 3


async def test_031_new_member_in_completing_rebalances(kafka: Kafka) -> None:
    [m1] = await kafka.joined()
    m2 = await kafka.member("m2")
    parked = await m2.enter()
    await kafka.until("PreparingRebalance", members=2)
    assert (await m1.join()).generation_id == 2
    assert (await parked).generation_id == 2


async def test_032_known_id_on_an_empty_group(kafka: Kafka) -> None:
    [m1] = await kafka.stable()
    await m1.leave()
    answer = await m1.try_join()
    assert answer.error_code == Err.UNKNOWN_MEMBER_ID
    assert answer.member_id == m1.id


async def test_037_generation_grows_by_one_each_rebalance(kafka: Kafka) -> None:
    [m1] = await kafka.stable()
    for generation in (2, 3, 4):
        assert (await m1.join()).generation_id == generation
        await m1.sync({m1.id: b"x"})


async def test_037_generation_goes_on_after_the_group_emptied(kafka: Kafka) -> None:
    [m1] = await kafka.stable()
    await m1.leave()  # the empty group is generation 2
    m2 = await kafka.member("m2")
    assert (await m2.join()).generation_id == 3


async def test_038_protocol_that_all_support_wins(kafka: Kafka) -> None:
    [m1] = await kafka.joined(protocols=[("sticky", b"1s"), ("range", b"1r")])
    m2 = await kafka.member("m2", protocols=[("range", b"2r"), ("roundrobin", b"2o")])
    parked = await m2.enter()
    await kafka.until("PreparingRebalance", members=2)
    answer = await m1.join()
    assert answer.protocol_name == "range"
    assert {item.metadata for item in answer.members} == {b"1r", b"2r"}
    assert (await parked).protocol_name == "range"


async def test_038_most_first_votes_win(kafka: Kafka) -> None:
    a, b = ("a", b"a"), ("b", b"b")
    [m1] = await kafka.joined(protocols=[a, b])
    m2 = await kafka.member("m2", protocols=[b, a])
    m3 = await kafka.member("m3", protocols=[b, a])
    parked = [await m2.enter(), await m3.enter()]
    await kafka.until("PreparingRebalance", members=3)
    assert (await m1.join()).protocol_name == "b"
    assert [(await task).protocol_name for task in parked] == ["b", "b"]


async def test_038_vote_counts_only_protocols_of_all(kafka: Kafka) -> None:
    a, b, c = ("a", b""), ("b", b""), ("c", b"")
    [m1] = await kafka.joined(protocols=[c, a])
    m2 = await kafka.member("m2", protocols=[b, a])
    parked = await m2.enter()
    await kafka.until("PreparingRebalance", members=2)
    assert (await m1.join()).protocol_name == "a"
    assert (await parked).protocol_name == "a"


@pytest.mark.parametrize("turned", [False, True], ids=["as-listed", "turned"])
@pytest.mark.parametrize(
    ("names", "scala", "java"),
    [
        (["range", "sticky"], "range", "sticky"),
        (["range", "roundrobin"], "roundrobin", "range"),
        (["roundrobin", "cooperative-sticky"], "cooperative-sticky", "roundrobin"),
        (["range", "cooperative-sticky"], "cooperative-sticky", "range"),
        (["red", "green", "blue"], "blue", "red"),
    ],
    ids=["range-sticky", "range-roundrobin", "both-of-kip-429", "range-cooperative", "three"],
)
async def test_038_tie_of_the_vote_hangs_on_the_names_alone(
    kafka: Kafka, names: list[str], scala: str, java: str, turned: bool
) -> None:
    """Each member prefers another one; who came first does not matter."""
    lists = [[(name, b"") for name in names[n:] + names[:n]] for n in range(len(names))]
    if turned:
        lists.reverse()
    m1 = await kafka.member("m1", protocols=lists[0])
    await m1.join()
    parked = []
    for number, protocols in enumerate(lists[1:], 2):
        member = await kafka.member(f"m{number}", protocols=protocols)
        parked.append(await member.enter())
        await kafka.until("PreparingRebalance", members=number)
    assert (await m1.join()).protocol_name == kafka.pick(old=scala, new=java)
    for task in parked:
        await task


async def test_038_protocol_named_twice_is_counted_twice(kafka: Kafka) -> None:
    """One member, two supporters: not all members. The protocol that is named once wins."""
    member = await kafka.member(protocols=[("a", b"1"), ("a", b"2"), ("b", b"3")])
    answer = await member.join()
    assert (answer.protocol_name, [item.metadata for item in answer.members]) == ("b", [b"3"])


async def test_038_join_phase_without_a_protocol_of_all_never_ends(kafka: Kafka) -> None:
    member = await kafka.member(protocols=[("a", b"1"), ("a", b"2")], rebalance_ms=300)
    parked = await member.enter()
    await kafka.until("PreparingRebalance", members=1)
    await stays_parked(parked, ms=500)
    other = await kafka.member("other", protocols=[("a", b"1"), ("b", b"2")])
    assert (await other.try_join()).error_code == Err.INCONSISTENT_GROUP_PROTOCOL
    [shown] = (await kafka.state()).members
    member.id, beat = shown.member_id, await member.second_wire()
    assert await member.heartbeat(generation_id=0, wire=beat) == Err.ILLEGAL_GENERATION
    assert await member.heartbeat(generation_id=1, wire=beat) == Err.REBALANCE_IN_PROGRESS
    await member.leave(wire=beat)
    assert (await parked).error_code == Err.UNKNOWN_MEMBER_ID
    newcomer = await kafka.member("newcomer", protocols=[("a", b"1")], join_version=3)
    await stays_parked(await newcomer.enter(), ms=300)


@pytest.mark.parametrize("version", [6, 7])
async def test_s2_2_protocol_without_a_name(kafka: Kafka, version: int) -> None:
    member = await kafka.member(protocols=[("", b"1")], join_version=version)
    answer = await member.join()
    assert answer.protocol_name == ("" if version < 7 else kafka.pick(old="", new=None))
    assert (await member.sync(version=5)).protocol_name == ""


async def test_s2_2_protocol_without_a_name_and_a_rejoin_of_an_older_version(kafka: Kafka) -> None:
    _, m2 = await kafka.joined(2, instances=["i1", "i2"], protocols=[("", b"1")])
    answer = await m2.try_join(version=5)
    assert (answer.error_code, answer.protocol_name) == (Err.NONE, "")


async def test_s2_2_group_whose_members_have_all_left_while_an_id_is_outstanding_takes_any_protocol(
    kafka: Kafka,
) -> None:
    m1 = await kafka.member("m1", instance="i1")
    await m1.join()
    await m1.sync()
    pending = await kafka.member("pending")
    await pending.ask_id()
    parked = m1.start_join(protocols=[JoinGroupRequestProtocol("range", b"new")])
    await kafka.until("PreparingRebalance", members=1)
    await m1.leave(wire=await m1.second_wire())
    assert (await parked).error_code == Err.UNKNOWN_MEMBER_ID
    answer = await pending.try_join(protocols=[JoinGroupRequestProtocol("other", b"")])
    assert (answer.error_code, answer.generation_id, answer.protocol_name) == (Err.NONE, 2, "other")


async def test_041_each_empty_id_gets_a_new_one(kafka: Kafka) -> None:
    member = await kafka.member()
    first = await member.ask_id()
    second = await member.ask_id()
    assert first != second


async def test_052_parked_join_gets_exactly_one_answer(kafka: Kafka) -> None:
    m1, m2 = await kafka.stable(2)
    parked = await m1.enter()
    await kafka.until("PreparingRebalance")
    await m2.join()
    await parked
    await sync_all([m1, m2])
    assert await m1.heartbeat() == Err.NONE  # its connection is in step: one answer per request


async def test_s2_2_r12_second_join_takes_the_place_of_the_first(kafka: Kafka) -> None:
    """The parked JoinGroup of the first connection is never answered."""
    m1, m2 = await kafka.stable(2)
    first = await m2.enter(protocols=[JoinGroupRequestProtocol("range", b"one")])
    await kafka.until("PreparingRebalance")
    twin = await m2.second_wire()
    second = twin.start(m2.join_request(protocols=[JoinGroupRequestProtocol("range", b"two")]), 9)
    await stays_parked(first)
    answer = await m1.join()
    assert {item.member_id: item.metadata for item in answer.members}[m2.id] == b"two"
    assert (await second).generation_id == 3
    await stays_parked(first)
    first.cancel()


async def test_s2_2_rebalance_timeout_of_v0_is_the_session_timeout(kafka: Kafka) -> None:
    [m1] = await kafka.joined(join_version=0, session_ms=SHORT_MS)
    m2 = await kafka.member("m2", join_version=0, session_ms=SHORT_MS)
    parked = m2.start_join()
    answer = await parked  # m1 never rejoins: its session timeout ends the join phase
    assert answer.error_code == Err.NONE
    assert len(answer.members) == 1
    assert m1.id != answer.leader


@pytest.mark.profile("delay")
async def test_s1_leader_is_the_first_member_added(kafka: Kafka) -> None:
    m1 = await kafka.member("m1")
    m2 = await kafka.member("m2")
    await m2.ask_id()
    await m1.ask_id()
    parked = m1.start_join()
    await kafka.until("PreparingRebalance", members=1)
    assert (await m2.join()).leader == m1.id
    assert (await parked).leader == m1.id


async def test_156_subscription_that_lies_about_its_length_wedges_the_join_phase(kafka: Kafka) -> None:
    """Version 0, and an array that claims 2**31 - 1 topics: the broker fails while it completes the join phase."""
    [m1] = await kafka.stable()
    m2 = await kafka.member("m2", protocols=[("range", b"\0\0\x7f\xff\xff\xff")])
    parked = await m2.enter()
    await kafka.until("PreparingRebalance", members=2)
    assert (await m1.try_join()).error_code == Err.UNKNOWN_SERVER_ERROR
    await stays_parked(parked, ms=300)
    assert (await kafka.describe()).group_state == "PreparingRebalance"
