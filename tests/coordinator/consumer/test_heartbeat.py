"""ConsumerGroupHeartbeat in the core, against what 4.1.0 and 4.4.0 answered and wrote."""

from __future__ import annotations

import pytest

from broker_sim.coordinator.consumer.requests import Refused, check
from broker_sim.coordinator.outcome import DeleteGroup, DeleteOffsets, GroupConfigured
from kafka_wire.errors import Err
from kafka_wire.messages.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from tests.coordinator.consumer.crowd import Crowd

BOTH = pytest.mark.parametrize("release", [(4, 1), (4, 4)], ids=["4.1", "4.4"])


@pytest.mark.parametrize(("release", "grows"), [((4, 1), 1), ((4, 2), 0), ((4, 4), 0)])
def test_the_epoch_of_a_member_that_must_revoke_more_grew_up_to_4_1(release: tuple[int, int], grows: int) -> None:
    """CurrentAssignmentBuilder.build of 4.1.0, 4.2.0 and 4.4.0."""
    core = Crowd(release, {"t": 6}, assignment_interval_ms=0)
    first, _ = core.told("A", 0)
    core.told("B", 0)
    assert core.told("A", first) == (first, {"t": [0, 1, 2]})
    core.told("C", 0)
    assert core.told("A", first, {"t": [0, 1, 2]}) == (first + grows, {"t": [0, 1]})
    assert core.told("A", first + grows, {"t": [0, 1]}) == (first + 2, None)


def test_two_members_share_a_topic_as_in_4_1() -> None:
    core = Crowd((4, 1))
    assert core.told("A", 0) == (1, {"t": [0, 1, 2]})
    assert core.written() == ["5A t", "3 e1", "7A t012", "6 e1", "8A 1<0 STABLE t012"]
    assert core.told("A", 0) == (1, {"t": [0, 1, 2]})
    assert core.told("A", 1) == (1, None)
    assert core.told("A", 1, {"t": [0, 1, 2]}) == (1, None)
    assert core.written() == []
    assert core.told("B", 0) == (2, {})
    assert core.written() == ["5B t", "3 e2", "7A t01", "7B t2", "6 e2", "8B 2<0 UNRELEASED"]
    assert core.told("B", 2) == (2, None)
    assert core.told("A", 1) == (1, {"t": [0, 1]})
    assert core.written() == ["8B 2<2 UNRELEASED", "8A 1<1 UNREVOKED t01 -t2"]
    assert core.told("A", 1) == (1, None)
    assert core.told("B", 2) == (2, None)
    assert core.told("A", 1, {"t": [0, 1]}) == (2, None)
    assert core.written() == ["8A 2<1 STABLE t01"]
    assert core.told("B", 2) == (2, {"t": [2]})
    assert core.written() == ["8B 2<2 STABLE t2"]
    assert core.state() == "Stable"
    assert core.told("A", 1, {"t": [0, 1]}) == (2, None)
    assert core.refused("A", 1, {"t": [0, 1, 2]}) is Err.FENCED_MEMBER_EPOCH
    assert core.refused("A", 1) is Err.FENCED_MEMBER_EPOCH
    assert core.told("B", -1) == (-1, None)
    assert core.written() == ["8B gone", "7B gone", "5B gone", "3 e3"]
    assert core.told("A", -1) == (-1, None)
    assert core.written() == ["8A gone", "7A gone", "5A gone", "3 e4 nothing"]
    assert core.state() == "Empty"


def test_a_second_member_waits_for_the_assignment_interval_as_in_4_4() -> None:
    core = Crowd((4, 4))
    assert core.told("A", 0) == (2, {"t": [0, 1, 2]})
    assert core.written() == ["5A t", "3 e2", "7A t012", "6 e2 timed", "8A 2<0 STABLE t012"]
    assert core.told("B", 0) == (2, {})
    assert core.written() == ["5B t", "3 e3", "8B 2<0 STABLE"]
    assert core.state() == "Assigning"
    core.advance(999)
    assert core.told("A", 2) == (2, None)
    core.advance(1)
    assert core.told("B", 2) == (3, None)
    assert core.written() == ["7A t01", "7B t2", "6 e3 timed", "8B 3<2 UNRELEASED"]
    assert core.told("B", 2, {}) == (3, None), "the epoch before, with nothing it hasn't got"
    core.told("B", -1)
    core.written()
    core.told("A", -1)
    assert core.written()[-2:] == ["3 e5 nothing", "6 e5"]
    assert core.told("C", 0) == (6, {"t": [0, 1, 2]}), "a group that was empty waits for nothing"


def test_a_group_may_have_an_interval_of_its_own() -> None:
    core = Crowd((4, 4))
    core.step(GroupConfigured("g", {"assignment_interval_ms": 0}))
    core.told("A", 0)
    assert core.told("B", 0) == (3, {})


@BOTH
def test_a_member_that_reads_nothing_joins(release: tuple[int, int]) -> None:
    core = Crowd(release)
    assert core.told("A", 0, subscribed_topic_names=[]) == (1, {})
    everything = ["5A", "3 e1 nothing", "7A", "6 e1", "8A 1<0 STABLE"]
    assert [one.strip() for one in core.written()] == (everything if release == (4, 1) else ["5A", "8A 1<0 STABLE"])
    assert core.state() == "Stable"


@BOTH
def test_who_is_no_member(release: tuple[int, int]) -> None:
    core = Crowd(release)
    for epoch in (5, -1):
        assert core.refused("A", epoch) is Err.GROUP_ID_NOT_FOUND
    assert core.refused("A", -2, instance_id="i") is Err.GROUP_ID_NOT_FOUND
    epoch, _ = core.told("A", 0)
    assert core.refused("B", epoch) is Err.UNKNOWN_MEMBER_ID
    assert core.refused("B", -1) is Err.UNKNOWN_MEMBER_ID
    assert core.refused("A", epoch + 5) is Err.FENCED_MEMBER_EPOCH
    core.commit(1, group="classic")
    assert core.refused("A", 3, group="classic") is Err.GROUP_ID_NOT_FOUND


def test_a_member_id_that_nobody_has_used_keeps_no_group_classic() -> None:
    core = Crowd()
    core.commit(1, group="classic")
    core.new_member_id(group="classic")
    assert core.told("A", 0, group="classic") == (1, {"t": [0, 1, 2]})


def test_a_full_group_takes_nobody_but_its_own() -> None:
    core = Crowd(max_size=1)
    core.told("A", 0)
    assert core.refused("B", 0) is Err.GROUP_MAX_SIZE_REACHED
    assert core.told("A", 0)[0] == 1


def test_other_names_move_the_group_and_another_order_does_not() -> None:
    core = Crowd(topics={"t": 3, "u": 2})
    core.told("A", 0)
    core.written()
    assert core.told("A", 1, subscribed_topic_names=["t", "u"]) == (2, {"t": [0, 1, 2], "u": [0, 1]})
    assert core.written() == ["5A t,u", "3 e2", "7A t012 u01", "6 e2", "8A 2<1 STABLE t012 u01"]
    assert core.told("A", 2, subscribed_topic_names=["u", "t"]) == (2, None)
    assert core.written() == []
    assert core.told("A", 2, subscribed_topic_names=["nowhere"]) == (2, {})
    assert core.told("A", 2, {}) == (3, None)
    assert core.written()[1:] == ["3 e3 nothing", "7A", "6 e3", "8A 2<2 UNREVOKED -t012 -u01", "8A 3<2 STABLE"]


def test_what_becomes_of_topics_is_seen_at_the_next_heartbeat() -> None:
    core = Crowd(topics={"t": 3})
    core.told("A", 0, subscribed_topic_names=["t", "u"])
    core.topics({"u": 2})
    assert core.told("A", 1) == (2, {"t": [0, 1, 2], "u": [0, 1]})
    core.topics({"u": 3})
    assert core.told("A", 2) == (3, {"t": [0, 1, 2], "u": [0, 1, 2]})
    core.topics({"u": None})
    core.written()
    assert core.told("A", 3) == (3, {"t": [0, 1, 2]}), "what is gone has to be given up, too"
    assert core.written() == ["3 e4", "7A t012", "6 e4", "8A 3<3 UNREVOKED t012 -u012"]
    core.topics({"elsewhere": 1})
    core.told("A", 3, {"t": [0, 1, 2]})
    core.written()
    assert core.told("A", 4) == (4, None)
    assert core.written() == []


def test_an_assignor_alone_moves_nothing_and_counts_next_time() -> None:
    core = Crowd()
    core.told("A", 0)
    core.written()
    assert core.told("A", 1, server_assignor="range") == (1, None)
    assert core.written() == ["5A t"]
    assert core.consumer().preferred_assignor("uniform") == "range"
    core.told("B", 0, server_assignor="uniform")
    assert core.consumer().assignor == "uniform", "of as many votes the one that is alone in asking for it"
    core.told("A", 1, subscribed_topic_names=["u"])
    assert core.consumer().assignor == "range", "and so it is with each request"


def test_another_assignor_moves_the_group_since_4_4() -> None:
    core = Crowd((4, 4), {"t": 3}, assignment_interval_ms=0)
    core.told("A", 0)
    epoch = core.consumer().latest.group_epoch
    core.told("A", epoch, server_assignor="uniform")
    assert core.consumer().latest.group_epoch == epoch, "that is the default"
    core.told("A", epoch, server_assignor="range")
    assert (core.consumer().latest.group_epoch, core.consumer().assignor) == (epoch + 1, "range")
    core.told("A", epoch + 1, server_assignor="range")
    assert core.consumer().latest.group_epoch == epoch + 1
    b_epoch, _ = core.told("B", 0, server_assignor="uniform")
    assert (core.consumer().latest.group_epoch, core.consumer().assignor) == (epoch + 2, "uniform")
    core.told("B", b_epoch)
    assert core.consumer().latest.group_epoch == epoch + 2
    for n in (3, 4):  # of as many votes uniform is told; A's request makes it range, and so does the next one
        core.told("A", epoch + 1)
        assert (core.consumer().latest.group_epoch, core.consumer().assignor) == (epoch + n, "range")


@BOTH
def test_a_session_ends(release: tuple[int, int]) -> None:
    core = Crowd(release)
    epoch, _ = core.told("A", 0)
    core.advance(9_999)
    assert core.told("A", epoch)[0] == epoch
    core.advance(9_999)
    assert core.state() == "Stable"
    core.written()
    core.advance(1)
    assert core.state() == "Empty"
    assert core.written()[:4] == ["8A gone", "7A gone", "5A gone", f"3 e{epoch + 1} nothing"]
    assert core.refused("A", epoch) is Err.UNKNOWN_MEMBER_ID
    assert not [key for key in core.timers if key[0] in ("session", "revocation")]


def test_who_does_not_give_up_in_time_is_out_though_it_heartbeats() -> None:
    core = Crowd()
    core.told("A", 0, rebalance_timeout_ms=1500)
    core.told("B", 0)
    assert core.told("A", 1) == (1, {"t": [0, 1]})
    for _ in range(5):
        core.advance(299)
        assert core.told("A", 1) == (1, None)
    core.advance(5)
    assert core.refused("A", 1) is Err.UNKNOWN_MEMBER_ID
    assert core.told("B", 2) == (3, {"t": [0, 1, 2]})


def test_who_gives_up_in_time_stays() -> None:
    core = Crowd()
    core.told("A", 0, rebalance_timeout_ms=1500)
    core.told("B", 0)
    core.told("A", 1)
    core.advance(1400)
    assert core.told("A", 1, {"t": [0, 1]}) == (2, None)
    core.advance(1400)
    assert core.told("A", 2) == (2, None)


@BOTH
def test_a_member_that_joins_again_with_another_instance_id_gets_nothing_until_the_next_assignment(
    release: tuple[int, int],
) -> None:
    core = Crowd(release)
    core.step(GroupConfigured("g", {"assignment_interval_ms": 0}))
    core.told("A", 0)
    epoch, _ = core.told("B", 0, instance_id="i")
    core.written()
    assert core.told("B", 0, instance_id="j") == (epoch, {})
    assert core.written() == ["5B t", f"8B {epoch}<{epoch} STABLE"], "nothing is left to wait for"
    core.told("A", epoch - 1)
    assert core.told("A", epoch - 1, {"t": [0, 1]}) == (epoch, None)
    assert core.told("B", epoch) == (epoch, None)
    core.told("C", 0)
    assert core.told("B", epoch) == (epoch + 1, {"t": [2]})


@pytest.mark.parametrize("release", [(4, 1), (4, 2), (4, 3)], ids=["4.1", "4.2", "4.3"])
def test_until_4_3_a_member_that_has_taken_another_instance_id_holds_the_former_one_too(
    release: tuple[int, int],
) -> None:
    core = Crowd(release)
    core.told("A", 0)
    epoch, _ = core.told("B", 0, instance_id="i")
    core.told("B", 0, instance_id="j")
    assert core.refused("C", 0, instance_id="i") is Err.UNRELEASED_INSTANCE_ID
    assert core.refused("C", epoch, instance_id="i") is Err.FENCED_INSTANCE_ID
    core.told("B", -1, instance_id="j")
    assert core.refused("C", 0, instance_id="i") is Err.UNKNOWN_MEMBER_ID, "no member may have it any more"
    core.told("C", 0, instance_id="j")


def test_from_4_4_on_a_former_instance_id_is_free() -> None:
    core = Crowd((4, 4))
    core.told("A", 0)
    epoch, _ = core.told("B", 0, instance_id="i")
    core.told("B", 0, instance_id="j")
    assert core.refused("B", epoch, instance_id="i") is Err.UNKNOWN_MEMBER_ID
    core.told("C", 0, instance_id="i")


@BOTH
def test_a_static_member_leaves_for_now_and_another_takes_its_place(release: tuple[int, int]) -> None:
    core = Crowd(release)
    epoch, _ = core.told("A", 0, instance_id="i")
    assert core.refused("B", 0, instance_id="i") is Err.UNRELEASED_INSTANCE_ID
    core.written()
    assert core.told("A", -2, instance_id="i") == (-2, None)
    assert core.written() == ["8A -2<0 STABLE t012"]
    assert core.state() == "Reconciling"
    assert core.refused("A", epoch, instance_id="i") is Err.FENCED_MEMBER_EPOCH
    assert core.told("B", 0, instance_id="i") == (epoch, {"t": [0, 1, 2]})
    assert core.written() == [
        *["8A gone", "7A gone", "5A gone", "5B t", "7B t012", "8B 0<0 STABLE t012", f"8B {epoch}<0 STABLE t012"]
    ]
    assert core.refused("A", epoch, instance_id="i") is Err.FENCED_INSTANCE_ID
    assert core.refused("B", epoch, instance_id="j") is Err.UNKNOWN_MEMBER_ID
    assert core.told("B", epoch) == (epoch, None)
    assert core.refused("X", -2, instance_id="i") is Err.FENCED_INSTANCE_ID
    assert core.refused("X", -2, instance_id="q") is Err.UNKNOWN_MEMBER_ID
    core.told("B", -2, instance_id="i")
    core.advance(10_000)
    assert core.state() == "Empty", "nobody came back"


@pytest.mark.parametrize("release", [(4, 1), (4, 4)])
def test_who_may_commit_and_fetch(release: tuple[int, int]) -> None:
    core = Crowd(release)
    core.step(GroupConfigured("g", {"assignment_interval_ms": 0}))
    first, _ = core.told("A", 0)

    def commit(member: str, epoch: int, partition: int = 0, *, v9: bool = True) -> object:
        answer = core.answers[core.commit(1, member, epoch, partition=partition, v9=v9)]
        return answer.get(("t", partition), Err.NONE) if isinstance(answer, dict) else answer

    assert commit("A", first) is Err.NONE
    assert commit("A", first, 99) is Err.NONE, "whether it has the partition is not asked"
    assert commit("A", first + 1) is Err.STALE_MEMBER_EPOCH
    assert commit("A", first - 1) is Err.STALE_MEMBER_EPOCH
    assert commit("Z", first) is Err.UNKNOWN_MEMBER_ID
    assert commit("", -1) is Err.UNKNOWN_MEMBER_ID
    assert commit("A", first, v9=False) is Err.UNSUPPORTED_VERSION
    core.told("B", 0)
    core.told("A", first)
    core.told("A", first, {"t": [0, 1]})
    core.told("B", first + 1)
    late = Err.NONE if release == (4, 4) else Err.STALE_MEMBER_EPOCH
    assert commit("A", first) is late, "it has had the partition since then"
    assert commit("A", first, 2) is Err.STALE_MEMBER_EPOCH, "which it has lost"
    assert commit("B", first, 2) is Err.STALE_MEMBER_EPOCH, "which it has got later"
    group = core.consumer()
    assert group.validate_fetch("A", first + 1) is Err.NONE
    assert group.validate_fetch("A", first) is Err.STALE_MEMBER_EPOCH
    assert group.validate_fetch("Z", first) is Err.UNKNOWN_MEMBER_ID


def test_offsets_of_what_is_read_stay() -> None:
    core = Crowd(offsets_retention_ms=1000, topics={"t": 3, "u": 1})
    core.told("A", 0)
    core.commit(5, "A", 1, v9=True)
    core.commit(6, "A", 1, topic="u", v9=True)
    token = core.request(DeleteOffsets("g", [("t", 0)]))
    assert core.answers[token] == (Err.NONE, {("t", 0): Err.GROUP_SUBSCRIBED_TO_TOPIC})
    core.told("A", 1)
    for _ in range(100):
        core.advance(9000)
        core.told("A", 1)
    assert (core.offset(), core.offset("u")) == (5, -1)


def test_an_empty_group_is_deleted_with_its_offsets() -> None:
    core = Crowd()
    core.told("A", 0)
    core.commit(5, "A", 1, v9=True)
    assert core.answers[core.request(DeleteGroup("g"))] is Err.NON_EMPTY_GROUP
    core.told("A", -1)
    core.written()
    assert core.answers[core.request(DeleteGroup("g"))] is Err.NONE
    assert core.written() == ["1 gone", "6 gone", "4 gone", "3 gone"]
    assert core.state() == "-"
    assert core.reload().state() == "-"


def test_a_group_that_had_offsets_alone_keeps_them() -> None:
    core = Crowd()
    core.commit(5)
    core.written()
    assert core.told("A", 0)[0] == 1
    assert core.written()[:2] == ["2 gone", "5A t"]
    assert core.offset() == 5
    assert core.reload().offset() == 5


def test_a_refused_append_takes_everything_back() -> None:
    core = Crowd()
    core.log_error = Err.NOT_ENOUGH_REPLICAS
    assert core.refused("A", 0) is Err.COORDINATOR_NOT_AVAILABLE
    assert core.state() == "-"
    core.log_error = Err.NONE
    core.commit(5)
    core.log_error = Err.NOT_ENOUGH_REPLICAS
    assert core.refused("A", 0) is Err.COORDINATOR_NOT_AVAILABLE
    assert core.offset() == 5
    core.log_error = Err.NONE
    core.told("A", 0)
    core.log_error = Err.NOT_ENOUGH_REPLICAS
    assert core.refused("B", 0) is Err.COORDINATOR_NOT_AVAILABLE
    assert list(core.consumer().latest.members) == ["A"]
    core.log_error = Err.NONE
    assert core.told("A", 1) == (1, None)


def test_readers_see_what_is_committed_and_requests_what_is_on_its_way() -> None:
    core = Crowd()
    core.told("A", 0)
    core.held = True
    token = core.request(
        ConsumerGroupHeartbeatRequest(
            group_id="g", member_id="B", rebalance_timeout_ms=1, subscribed_topic_names=["t"], topic_partitions=[]
        ),
        version=1,
    )
    assert token not in core.answers
    group = core.consumer()
    assert (list(group.stored.members), list(group.latest.members)) == (["A"], ["A", "B"])
    core.heal()
    assert core.answers[token].member_epoch == 2
    assert group.stored == group.latest


JOIN = {"rebalance_timeout_ms": 1, "subscribed_topic_names": ["t"], "topic_partitions": []}


@pytest.mark.parametrize(
    ("said", "version", "error"),
    [
        ({"group_id": ""}, 1, Err.INVALID_REQUEST),
        ({"member_id": ""}, 1, Err.INVALID_REQUEST),
        ({"member_id": ""}, 0, None),
        ({"member_epoch": -3}, 1, Err.INVALID_REQUEST),
        ({"rebalance_timeout_ms": -1}, 1, Err.INVALID_REQUEST),
        ({"rebalance_timeout_ms": 0}, 1, None),
        ({"topic_partitions": None}, 1, Err.INVALID_REQUEST),
        ({"topic_partitions": [TopicPartitions(bytes(16), [0])]}, 1, Err.INVALID_REQUEST),
        ({"subscribed_topic_names": None}, 1, Err.INVALID_REQUEST),
        ({"subscribed_topic_names": []}, 1, None),
        ({"instance_id": ""}, 1, Err.INVALID_REQUEST),
        ({"rack_id": ""}, 1, Err.INVALID_REQUEST),
        ({"server_assignor": "foo"}, 1, Err.UNSUPPORTED_ASSIGNOR),
        ({"server_assignor": ""}, 1, Err.UNSUPPORTED_ASSIGNOR),
        ({"member_epoch": -2}, 1, Err.INVALID_REQUEST),
        ({"member_epoch": -2, "instance_id": "i"}, 1, None),
    ],
)
def test_what_no_group_would_take(said: dict[str, object], version: int, error: Err | None) -> None:
    request = ConsumerGroupHeartbeatRequest(**{"group_id": "g", "member_id": "m", **JOIN, **said})  # type: ignore[arg-type]
    settings = Crowd().settings
    if error is None:
        check(request, version, settings)
    else:
        with pytest.raises(Refused) as refused:
            check(request, version, settings)
        assert refused.value.error is error


def test_a_changed_subscription_takes_other_topics_away_before_the_next_assignment() -> None:
    """4.4, whose assignment interval has not passed; the partitions stay the member's until it reports that it has revoked them."""
    core = Crowd((4, 4), {"t": 2, "u": 2})
    core.advance(1)
    assert core.told("A", 0, subscribed_topic_names=["t", "u"]) == (2, {"t": [0, 1], "u": [0, 1]})
    assert core.told("B", 0, subscribed_topic_names=["t"]) == (2, {})
    core.written()
    assert core.told("A", 2, subscribed_topic_names=["u"]) == (2, {"u": [0, 1]})
    assert [record for record in core.written() if record[0] in "78"] == ["8A 2<2 UNREVOKED u01 -t01"]
    core.advance(1001)
    assert core.told("B", 2) == (4, None), "the target assignment gives it t, which A still has"
    assert core.told("A", 2, {"u": [0, 1]}) == (4, None)
    assert core.told("B", 4) == (4, {"t": [0, 1]})


def test_a_changed_subscription_takes_revoked_topics_away_at_once() -> None:
    core = Crowd((4, 4), {"t": 2, "u": 2})
    core.advance(1)
    core.told("A", 0, subscribed_topic_names=["t", "u"])
    core.told("B", 0, subscribed_topic_names=["t"])
    core.written()
    assert core.told("A", 2, {"u": [0, 1]}, subscribed_topic_names=["u"]) == (2, {"u": [0, 1]})
    assert [record for record in core.written() if record[0] in "78"] == ["8A 2<2 STABLE u01"]


def test_a_target_assignment_counts_without_topics_that_a_member_no_longer_subscribes_to() -> None:
    core = Crowd((4, 4), {"t": 2, "u": 2})
    core.advance(1)
    core.told("A", 0, subscribed_topic_names=["t", "u"])
    core.told("B", 0, subscribed_topic_names=["u"])
    core.advance(1001)
    assert core.told("B", 2) == (3, None), "A is to keep t and has to give up u"
    assert core.told("A", 2, subscribed_topic_names=["u"]) == (2, {})


def test_a_changed_subscription_waits_for_the_assignment_before_4_3() -> None:
    core = Crowd((4, 1), {"t": 2, "u": 2})
    assert core.told("A", 0, subscribed_topic_names=["t", "u"]) == (1, {"t": [0, 1], "u": [0, 1]})
    assert core.told("A", 1, subscribed_topic_names=["u"]) == (1, {"u": [0, 1]})
    assert core.told("A", 1, {"u": [0, 1]}) == (2, None)
