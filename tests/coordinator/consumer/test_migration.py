"""Classic and consumer protocol in one group, against what 4.1.0 and 4.4.0 wrote and answered."""

from __future__ import annotations

import pytest

from broker_sim.coordinator.classic.group import ClassicGroup
from broker_sim.coordinator.consumer.group import ConsumerGroup
from broker_sim.coordinator.outcome import Committed, Heartbeat, LeaveGroup, Leaver
from broker_sim.coordinator.queries import committed
from kafka_wire.codec import encode
from kafka_wire.consumer_protocol import assigned_partitions, assignment_of
from kafka_wire.errors import Err
from kafka_wire.messages.consumer_protocol import (
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)
from kafka_wire.messages.k11_join_group import JoinGroupResponse
from kafka_wire.messages.k14_sync_group import SyncGroupResponse
from tests.coordinator.consumer.crowd import Crowd, topic_id

BOTH = pytest.mark.parametrize("release", [(4, 1), (4, 4)], ids=["4.1", "4.4"])


def subscription(owned: list[int] | None = None, version: int = 3) -> bytes:
    held = [] if owned is None else [ConsumerProtocolSubscriptionTopicPartition("t", owned)]
    said = ConsumerProtocolSubscription(["t"], None, held)
    return version.to_bytes(2, "big") + encode(said, version)


class Mixed(Crowd):
    """Members of both kinds, in a group whose topic ``t`` has four partitions."""

    def __init__(self, release: tuple[int, int] = (4, 1), **settings: object) -> None:
        super().__init__(release, {"t": 4}, **{"assignment_interval_ms": 0, **settings})

    def classic(self, member: str = "", owned: list[int] | None = None, version: int = 3) -> JoinGroupResponse:
        """A JoinGroup's answer, which is there at once."""
        token = self.join(member, protocols=(("range", subscription(owned, version)),), rebalance_ms=5000)
        self.advance(0)
        answer = self.answers[token]
        assert isinstance(answer, JoinGroupResponse)
        return answer

    def join_classic(self, rebalance_ms: int, member: str = "") -> JoinGroupResponse:
        """As `classic`, with its rebalance timeout, and with the id that it is given first."""
        for _ in range(1 if member else 2):
            token = self.join(member, protocols=(("range", subscription([])),), rebalance_ms=rebalance_ms)
            answer = self.answers[token]
            assert isinstance(answer, JoinGroupResponse)
            member = answer.member_id
        return answer

    def joined_classic(self, owned: list[int] | None = None, version: int = 3) -> JoinGroupResponse:
        """With the id that it is given first."""
        named = self.classic(owned=owned, version=version)
        assert named.error_code == Err.MEMBER_ID_REQUIRED
        return self.classic(named.member_id, owned, version)

    def synced(
        self, member: str, generation: int, given: dict[str, list[int]] | None = None
    ) -> tuple[Err, dict[str, list[int]]]:
        assignments = {} if given is None else {member: assignment_of(given, as_in=b"\0\0")}
        answer = self.answers[self.sync(member, generation, assignments)]
        assert isinstance(answer, SyncGroupResponse)
        return Err(answer.error_code), assigned_partitions(answer.assignment) or {}

    def stable_classic(self) -> str:
        """A Stable classic group of one member that has everything."""
        joined = self.joined_classic()
        assert self.synced(joined.member_id, 1, {"t": [0, 1, 2, 3]})[0] is Err.NONE
        assert self.state() == "Stable"
        self.written()
        return str(joined.member_id)

    def names(self, member: str) -> list[str]:
        return [line.replace(member, "C") for line in self.written()]


@BOTH
def test_a_classic_group_becomes_a_consumer_group_and_a_classic_one_again(release: tuple[int, int]) -> None:
    core = Mixed(release)
    c = core.stable_classic()
    core.commit(7, c, 1)
    core.written()
    timed = " timed" if release == (4, 4) else ""
    assert core.told("N", 0) == (2, {})
    assert core.names(c) == [
        *["2 gone", "5C t", "3 e1", "7C t0123", "6 e1", "8C 1<1 STABLE t0123"],
        *["5N t", "3 e2", "7C t01", "7N t23", f"6 e2{timed}", "8N 2<0 UNRELEASED"],
    ]
    assert core.offset() == 7
    assert core.heartbeat(c, 1) is Err.REBALANCE_IN_PROGRESS
    answer = core.classic(c, [0, 1, 2, 3])
    assert (answer.generation_id, answer.protocol_name, answer.leader, answer.members) == (1, "range", "", [])
    assert core.names(c) == ["5C t", "8C 1<1 UNREVOKED t01 -t23"]
    assert core.synced(c, 1) == (Err.NONE, {"t": [0, 1]})
    assert core.heartbeat(c, 1) is Err.REBALANCE_IN_PROGRESS
    assert core.told("N", 2) == (2, None)
    assert core.names(c) == ["8N 2<2 UNRELEASED"]
    assert core.classic(c, [0, 1]).generation_id == 2
    assert core.names(c) == ["5C t", "8C 2<1 STABLE t01"]
    assert core.synced(c, 2) == (Err.NONE, {"t": [0, 1]})
    assert core.heartbeat(c, 2) is Err.NONE
    assert core.told("N", 2) == (2, {"t": [2, 3]})
    assert core.reload().offset() == 7
    core.written()
    assert core.told("N", -1) == (-1, None)
    assert core.names(c) == [
        *["8N gone", "8C gone", "7N gone", "7C gone", "6 gone", "5N gone", "5C gone", "4 gone", "3 gone", "2 ..."],
    ]
    assert core.state() == "PreparingRebalance"
    assert core.heartbeat(c, 2) is Err.REBALANCE_IN_PROGRESS
    again = core.reload()
    assert (again.offset(), again.state()) == (7, "Stable")
    rejoined = core.classic(c)
    assert (rejoined.generation_id, rejoined.leader) == (3, c)
    assert core.synced(c, 3, {"t": [0, 1, 2, 3]})[0] is Err.NONE
    assert core.offset() == 7


@BOTH
def test_a_classic_member_joins_a_consumer_group(release: tuple[int, int]) -> None:
    core = Mixed(release)
    epoch, _ = core.told("A", 0)
    core.written()
    answer = core.joined_classic(version=0)
    c = answer.member_id
    assert (answer.error_code, answer.generation_id, answer.protocol_name) == (Err.NONE, epoch + 1, "range")
    assert [line.split(" ")[0] for line in core.names(c)] == ["5C", "3", "7A", "7C", "6", "8C"]
    assert core.synced(c, epoch + 1) == (Err.NONE, {})
    assert core.heartbeat(c, epoch + 1) is Err.NONE, "all that it lacks is with A still"
    assert core.heartbeat("A", epoch) is Err.UNKNOWN_MEMBER_ID
    _, left = core.told("A", epoch)
    assert left is not None
    core.told("A", epoch, left)
    assert core.heartbeat(c, epoch + 1) is Err.REBALANCE_IN_PROGRESS, "there is something to take"
    core.classic(c, [])
    _, mine = core.synced(c, epoch + 1)
    assert sorted([*left["t"], *mine["t"]]) == [0, 1, 2, 3]
    assert core.told(c, epoch + 1) == (epoch + 1, None), "it may go over to the new protocol by a heartbeat"
    assert core.heartbeat(c, epoch + 1) is Err.UNKNOWN_MEMBER_ID
    assert core.leave((c, None), ("nobody", None), ("A", None)) == (
        Err.NONE,
        [Err.NONE, Err.UNKNOWN_MEMBER_ID, Err.NONE],
    )
    assert core.state() == "Empty"


@pytest.mark.parametrize(
    ("release", "error"),
    [
        ((4, 1), Err.UNKNOWN_SERVER_ERROR),
        ((4, 3), Err.UNKNOWN_SERVER_ERROR),
        ((4, 4), Err.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_metadata_that_is_no_subscription_gets_what_each_release_throws(release: tuple[int, int], error: Err) -> None:
    """GroupMetadataManager.deserializeSubscription of 4.1.0 and 4.4.0."""
    core = Mixed(release)
    core.told("A", 0)
    member = core.answers[core.join("", protocols=(("range", b"?"),), rebalance_ms=5000)].member_id
    answer = core.answers[core.join(member, protocols=(("range", b"?"),), rebalance_ms=5000)]
    assert answer.error_code == error


def test_what_cannot_become_a_consumer_group() -> None:
    core = Mixed()
    core.join(
        core.new_member_id(protocol_type="connect", protocols=(("x", b""),)),
        protocol_type="connect",
        protocols=(("x", b""),),
    )
    core.advance(0)
    assert "does not use the consumer embedded protocol" in str(core.hb("N", 0).error_message)
    malformed = Mixed()
    member = malformed.new_member_id(protocols=(("foo", b"\0"),))
    malformed.join(member, protocols=(("foo", b"\0"),))
    malformed.advance(0)
    assert "the embedded consumer protocol is malformed" in str(malformed.hb("N", 0).error_message)
    assert malformed.shard.groups["g"].kind == "classic"
    closed = Mixed(migration_policy="disabled")
    closed.stable_classic()
    assert closed.refused("N", 0) is Err.GROUP_ID_NOT_FOUND


def test_a_sync_that_waits_when_the_group_is_taken_over_is_told_so() -> None:
    core = Mixed()
    joined = core.joined_classic()
    second = core.classic().member_id
    token = core.join(second, protocols=(("range", subscription()),))
    assert token not in core.answers
    core.told("N", 0)
    assert core.answers[token].error_code == Err.REBALANCE_IN_PROGRESS
    assert core.synced(joined.member_id, 1)[0] is Err.REBALANCE_IN_PROGRESS


def test_an_empty_consumer_group_is_a_classic_one_when_a_classic_member_joins() -> None:
    core = Mixed()
    core.told("A", 0)
    core.commit(7, "A", 1, v9=True)
    core.told("A", -1)
    core.written()
    joined = core.joined_classic()
    assert joined.generation_id == 1
    assert core.written()[:4] == ["6 gone", "4 gone", "3 gone", "2 ..."]
    assert isinstance(core.shard.groups["g"], ClassicGroup)
    assert core.offset() == 7
    assert core.reload().offset() == 7


@pytest.mark.parametrize("more", ["N heartbeats", "N2 joins", "C joins"])
def test_offsets_are_readable_while_a_conversion_and_later_writes_become_committed(more: str) -> None:
    core = Mixed()
    c = core.stable_classic()
    core.commit(7, c, 1)
    core.held = True
    before = len(core.log)
    core.start("N", 0)
    converted = len(core.log)
    assert converted > before
    if more == "C joins":
        core.join(c, protocols=(("range", subscription([0, 1, 2, 3])),), rebalance_ms=5000)
    else:
        core.start(*{"N heartbeats": ("N", 2), "N2 joins": ("N2", 0)}[more], {"t": []})
    assert len(core.log) > converted
    for high_watermark in range(before + 1, len(core.log) + 1):
        core.high_watermark = high_watermark
        core.step(Committed(high_watermark))
        assert committed(core.shard, "g")["t"][0].offset == 7, high_watermark
    assert isinstance(core.shard.groups["g"], ConsumerGroup)


def test_refused_appends_take_conversions_back() -> None:
    core = Mixed()
    c = core.stable_classic()
    core.log_error = Err.NOT_ENOUGH_REPLICAS
    assert core.refused("N", 0) is Err.COORDINATOR_NOT_AVAILABLE
    assert core.heartbeat(c, 1) is Err.NONE
    core.log_error = Err.NONE
    core.told("N", 0)
    core.classic(c, [0, 1, 2, 3])
    core.classic(c, [0, 1])
    core.log_error = Err.NOT_ENOUGH_REPLICAS
    assert core.refused("N", -1) is Err.COORDINATOR_NOT_AVAILABLE
    core.log_error = Err.NONE
    assert core.told("N", 2) == (2, {"t": [2, 3]})
    assert core.heartbeat(c, 2) is Err.NONE


def test_a_classic_member_that_does_not_join_again_in_time_is_out() -> None:
    core = Mixed()
    c = core.stable_classic()
    core.told("N", 0)
    for _ in range(12):
        assert core.heartbeat(c, 1) is Err.REBALANCE_IN_PROGRESS
        core.told("N", 2)
        core.advance(410)
    core.advance(200)
    assert core.answers[core.request(Heartbeat("g", 1, c, None))] is Err.UNKNOWN_MEMBER_ID
    assert core.told("N", 2) == (3, {"t": [0, 1, 2, 3]})


@BOTH
@pytest.mark.parametrize(
    ("before", "after", "error"),
    [
        (("range",), ("range",), Err.NONE),
        (("range", "sticky"), ("sticky",), Err.NONE),
        (("range",), ("sticky", "range"), Err.NONE),
        (("range",), ("sticky",), Err.INCONSISTENT_GROUP_PROTOCOL),  # its own list counts as it was
        (("range", "range"), ("range",), Err.INCONSISTENT_GROUP_PROTOCOL),  # two are not one member
        (("range", "range", "sticky"), ("sticky",), Err.NONE),
    ],
)
def test_names_of_protocols_are_counted_as_kafka_counts_them(
    release: tuple[int, int], before: tuple[str, ...], after: tuple[str, ...], error: Err
) -> None:
    core = Mixed(release)
    core.told("A", 0)

    def join(member: str, *names: str) -> JoinGroupResponse:
        token = core.join(member, protocols=tuple((name, subscription([])) for name in names), rebalance_ms=5000)
        core.advance(0)
        answer = core.answers[token]
        assert isinstance(answer, JoinGroupResponse)
        return answer

    joined = join(join("", *before).member_id, *before)
    assert joined.error_code == Err.NONE
    assert join(joined.member_id, *after).error_code == error


@BOTH
@pytest.mark.parametrize("timeout_ms", [-1, 0, 1500])
def test_a_classic_member_that_asks_for_no_assignment_is_removed(release: tuple[int, int], timeout_ms: int) -> None:
    core = Mixed(release)
    core.told("A", 0)
    joined = core.join_classic(timeout_ms)
    epoch = core.consumer().latest.group_epoch
    if timeout_ms > 0:
        core.advance(timeout_ms - 1)
        assert joined.member_id in core.consumer().latest.members
    core.advance(1)
    assert list(core.consumer().latest.members) == ["A"]
    assert core.consumer().latest.group_epoch == epoch + 1


@BOTH
def test_one_that_asked_for_it_stays(release: tuple[int, int]) -> None:
    core = Mixed(release)
    core.told("A", 0)
    joined = core.join_classic(1500)
    assert core.synced(joined.member_id, joined.generation_id)[0] is Err.NONE
    core.advance(1501)
    assert joined.member_id in core.consumer().latest.members
    assert core.join_classic(-1, joined.member_id).error_code == Err.NONE
    assert core.consumer().latest.members[joined.member_id].rebalance_timeout_ms == 1500
    core.advance(0)
    assert list(core.consumer().latest.members) == ["A"]


@BOTH
def test_a_member_that_leaves_three_times_in_one_request_has_left(release: tuple[int, int]) -> None:
    core = Mixed(release)
    core.told("A", 0)
    member = core.joined_classic().member_id
    token = core.request(LeaveGroup("g", [Leaver(member, None)] * 3))
    assert core.answers[token] == (Err.NONE, [Err.NONE] * 3)
    assert core.consumer().latest.group_epoch == core.written().count(f"5{member} gone") + 2 + (release == (4, 4))


@BOTH
def test_an_instance_id_without_characters_is_one(release: tuple[int, int]) -> None:
    core = Mixed(release)
    core.told("A", 0)
    token = core.join("", protocols=(("range", subscription([])),), rebalance_ms=5000, instance="")
    core.advance(0)
    member = core.answers[token].member_id
    assert core.consumer().latest.members[member].instance_id == ""
    assert core.consumer().latest.static_members == {"": member}


@BOTH
def test_a_classic_member_takes_the_place_of_one_with_a_regular_expression(release: tuple[int, int]) -> None:
    """4.1 keeps the expression beside the names that the classic member brings."""
    core = Mixed(release)
    core.topics({"zz": 1})
    core.told("B", 0)
    core.told("A", 0, subscribed_topic_names=[], subscribed_topic_regex="zz", instance_id="i")
    core.advance(0)
    core.told("B", 1 if release == (4, 1) else 2)
    token = core.join("", protocols=(("range", subscription([])),), rebalance_ms=5000, instance="i")
    core.advance(0)
    member = core.answers[token].member_id
    assert core.consumer().latest.members[member].subscribed_topic_regex == ("zz" if release == (4, 1) else "")
    assert sorted(core.consumer().latest.topics()) == (["t", "zz"] if release == (4, 1) else ["t"])
    assert core.consumer().latest.target(member).keys() >= {topic_id("t")}
