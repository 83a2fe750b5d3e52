"""Share groups on the epoch core: who joins, what is made before it is given, who leaves, and what a load finds."""

from __future__ import annotations

from typing import Any

import pytest

from broker_sim.common.slices import at_once
from broker_sim.coordinator import queries
from broker_sim.coordinator.loader import Loader
from broker_sim.coordinator.outcome import (
    Client,
    CommitOffsets,
    DeleteGroup,
    DeleteOffsets,
    Heartbeat,
    LeaveGroup,
    Leaver,
    Offset,
    Outcome,
    Request,
    StateAnswered,
    TopicsChanged,
)
from broker_sim.coordinator.policy import JAVA, JAVA_SINCE, Policy, ShareSettings
from broker_sim.coordinator.records import EpochRecord, decode
from broker_sim.coordinator.shard import Shard
from broker_sim.coordinator.share.describing import describe
from broker_sim.coordinator.share.group import ShareGroup
from broker_sim.coordinator.share.offsets import altering, forgetting
from broker_sim.coordinator.share_state.commands import Delete, Initialize, Result
from broker_sim.coordinator.topics import TopicImage
from kafka_wire.errors import Err
from kafka_wire.messages.k11_join_group import JoinGroupRequest
from kafka_wire.messages.k14_sync_group import SyncGroupRequest
from kafka_wire.messages.k76_share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from kafka_wire.messages.k91_alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from kafka_wire.messages.k92_delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from tests.coordinator.harness import Core

LATEST = JAVA_SINCE[0][1]
T = bytes(range(16))
CLIENT = Client("app", "/127.0.0.1", 1)
BOTH = pytest.mark.parametrize("policy", [JAVA, LATEST], ids=["4.1", "4.3"])


class Shared(Core):
    """With share coordinators that do as they are told, unless they ``fail``; topic ``t`` has three partitions."""

    def __init__(self, policy: Policy = LATEST, **settings: Any) -> None:
        self.asked: list[Any] = []
        self.fail = Err.NONE
        self.log_refuses_results = False
        super().__init__(policy=policy, share=ShareSettings(**settings))
        self.step(TopicsChanged({"t": TopicImage(T, 3)}))

    def perform(self, outcome: Outcome) -> None:
        super().perform(outcome)
        for ask in outcome.requests:
            self.asked += ask.commands
            self.log_error = Err.NOT_ENOUGH_REPLICAS if self.log_refuses_results else self.log_error
            self.step(StateAnswered(ask.ticket, [Result(self.fail) for _ in ask.commands]))
            self.log_error = Err.NONE if self.log_refuses_results else self.log_error

    def request(self, body: Any) -> Any:
        token = next(self.tokens)
        self.step(Request(token, CLIENT, body))
        return self.answers.get(token)

    def heartbeat(self, member: str, epoch: int, names: list[str] | None = None) -> ShareGroupHeartbeatResponse:
        answer = self.request(
            ShareGroupHeartbeatRequest(
                "g", member, epoch, subscribed_topic_names=["t"] if epoch == 0 and names is None else names
            )
        )
        assert isinstance(answer, ShareGroupHeartbeatResponse)
        return answer

    def join(self, member: str) -> int:
        """Join, and heartbeat until the partitions are there; the epoch."""
        epoch = self.heartbeat(member, 0).member_epoch
        self.now_ms += 5000
        return self.heartbeat(member, epoch).member_epoch

    def group(self) -> ShareGroup:
        group = self.shard.groups["g"]
        assert isinstance(group, ShareGroup)
        return group

    def written(self) -> list[tuple[int, Any]]:
        records = [decode(key, value, later=True, epochs=range(17)) for key, value in self.log]
        return [(one.type, one.value) for one in records if isinstance(one, EpochRecord)]


def numbers(answer: ShareGroupHeartbeatResponse) -> list[int] | None:
    if answer.assignment is None:
        return None
    return [number for topic in answer.assignment.topic_partitions for number in topic.partitions]


@BOTH
def test_state_is_made_before_anybody_is_given_a_partition(policy: Policy) -> None:
    core = Shared(policy)
    first = core.heartbeat("ann", 0)
    assert (first.member_epoch, numbers(first)) == (policy.first_epoch + 1, [])
    assert [kind for kind, _ in core.written()] == [10, 11, 13, 12, 14, 15, 15]
    assert [type(one) for one in core.asked] == [Initialize] * 3
    assert {one.state_epoch for one in core.asked} == {first.member_epoch}
    second = core.heartbeat("ann", first.member_epoch)
    assert (second.member_epoch, numbers(second)) == (first.member_epoch + 1, [0, 1, 2])
    assert numbers(core.heartbeat("ann", second.member_epoch)) is None


def test_within_the_assignment_interval_the_group_moves_once_and_nothing_is_given() -> None:
    core = Shared(assignment_interval_ms=1000)
    assert core.heartbeat("ann", 0).member_epoch == 2
    for _ in range(3):
        assert core.heartbeat("ann", 2).member_epoch == 2
    assert core.group().latest.group_epoch == 3
    core.now_ms += 1000
    assert numbers(core.heartbeat("ann", 2)) == [0, 1, 2]


@BOTH
def test_what_could_not_be_made_is_asked_for_at_the_next_heartbeat(policy: Policy) -> None:
    core = Shared(policy)
    core.fail = Err.COORDINATOR_NOT_AVAILABLE
    epoch = core.heartbeat("ann", 0).member_epoch
    assert core.group().stored.initialized == {}
    core.fail = Err.NONE
    core.heartbeat("ann", epoch)
    assert len(core.asked) == 6
    assert numbers(core.heartbeat("ann", epoch)) == [0, 1, 2]


def test_members_share_and_leave_without_a_handshake() -> None:
    core = Shared()
    core.join("ann")
    epoch = core.join("bob")
    assert core.group().state_name == "Stable"
    together = core.group().latest.targets
    assert sorted(number for target in together.values() for number in target[T]) == [0, 1, 2]
    left = core.request(ShareGroupHeartbeatRequest("g", "bob", -1))
    assert (left.error_code, left.member_epoch, left.heartbeat_interval_ms) == (0, -1, 0)
    assert [kind for kind, _ in core.written()][-4:] == [14, 13, 10, 11]
    assert epoch < core.group().latest.group_epoch


@BOTH
def test_the_last_one_leaves_an_empty_group(policy: Policy) -> None:
    core = Shared(policy)
    core.join("ann")
    core.request(ShareGroupHeartbeatRequest("g", "ann", -1))
    tail = [14, 13, 10, 11, 12] if policy.emptied_group_target_is_stored else [14, 13, 10, 11]
    assert [kind for kind, _ in core.written()][-len(tail) :] == tail
    assert core.group().state_name == "Empty"
    core.advance(30 * 24 * 3_600_000)
    assert "g" in core.shard.groups, "where it is stays"


def test_a_silent_member_goes() -> None:
    core = Shared(session_timeout_ms=45_000)
    core.join("ann")
    core.advance(44_999)
    assert not core.group().is_empty
    core.advance(1)
    assert core.group().is_empty


@BOTH
def test_epochs_fence(policy: Policy) -> None:
    core = Shared(policy)
    epoch = core.join("ann")
    assert core.heartbeat("ann", epoch + 1).error_code == Err.FENCED_MEMBER_EPOCH
    assert core.heartbeat("ann", epoch - 1).error_code == Err.NONE, "the answer that moved it may be lost"
    core.join("bob")
    epoch = core.heartbeat("ann", epoch).member_epoch
    old = core.heartbeat("ann", epoch - 2) if epoch > 3 else core.heartbeat("ann", 1)
    assert old.error_code == Err.FENCED_MEMBER_EPOCH
    assert "does not match the previous" in (old.error_message or "")
    again = core.heartbeat("ann", 0).error_code
    assert again == (Err.NONE if policy.share_members_may_join_again else Err.FENCED_MEMBER_EPOCH)


def test_who_is_not_there_is_told_so() -> None:
    core = Shared(max_size=2)
    assert core.heartbeat("ann", 5).error_code == Err.GROUP_ID_NOT_FOUND
    assert core.heartbeat("ann", -1).error_code == Err.GROUP_ID_NOT_FOUND
    core.join("ann")
    assert core.heartbeat("bob", 5).error_code == Err.UNKNOWN_MEMBER_ID
    assert core.heartbeat("bob", -1).error_code == Err.UNKNOWN_MEMBER_ID
    core.join("bob")
    assert core.heartbeat("cid", 0).error_code == Err.GROUP_MAX_SIZE_REACHED


def test_requests_of_other_kinds_of_groups() -> None:
    core = Shared()
    core.join("ann")
    assert (
        core.request(JoinGroupRequest("g", 6000, 6000, "", None, "consumer", [])).error_code
        == Err.INCONSISTENT_GROUP_PROTOCOL
    )
    assert core.request(SyncGroupRequest("g", 1, "ann")).error_code == Err.UNKNOWN_MEMBER_ID
    assert core.request(Heartbeat("g", 1, "ann", None)) is Err.UNKNOWN_MEMBER_ID
    assert core.request(LeaveGroup("g", [Leaver("ann", None)])) == (Err.NONE, [Err.UNKNOWN_MEMBER_ID])
    assert core.request(CommitOffsets("g", -1, "", None, [("t", 0, Offset(1, -1, "", 0))])) is Err.GROUP_ID_NOT_FOUND
    assert core.request(DeleteOffsets("g", [("t", 0)])) == (Err.GROUP_ID_NOT_FOUND, {})
    (listed,) = queries.listed(core.shard, (), {"share"})
    assert (listed.group_id, listed.protocol_type, listed.group_state, listed.group_type) == (
        "g",
        "share",
        "Stable",
        "share",
    )
    shown = describe(core.shard, "g")
    assert [(one.member_id, one.subscribed_topic_names) for one in shown.members] == [("ann", ["t"])]
    assert shown.members[0].assignment.topic_partitions[0].topic_name == "t"


def test_new_partitions_are_made_and_given() -> None:
    core = Shared()
    epoch = core.join("ann")
    core.step(TopicsChanged({"t": TopicImage(T, 5)}))
    epoch = core.heartbeat("ann", epoch).member_epoch
    assert numbers(core.heartbeat("ann", epoch)) == [0, 1, 2, 3, 4]


def test_a_deleted_topic_is_nothing_to_share() -> None:
    core = Shared()
    epoch = core.join("ann")
    core.step(TopicsChanged({"t": None}))
    assert not core.group().stored.has_partitions
    assert numbers(core.heartbeat("ann", epoch)) == []


@BOTH
def test_deleting_a_group_removes_its_state_first(policy: Policy) -> None:
    core = Shared(policy)
    core.join("ann")
    assert core.request(DeleteGroup("g")) is Err.NON_EMPTY_GROUP
    core.request(ShareGroupHeartbeatRequest("g", "ann", -1))
    before = len(core.log)
    assert core.request(DeleteGroup("g")) is Err.NONE
    assert [type(one) for one in core.asked[3:]] == [Delete] * 3
    assert [kind for kind, _ in core.written()][before:] == [15, 12, 15, 11]
    assert "g" not in core.shard.groups
    assert core.reload().shard.groups == {}


def test_an_empty_group_begins_elsewhere_and_forgets() -> None:
    core = Shared()
    wanted = AlterShareGroupOffsetsRequest(
        "g",
        [AlterShareGroupOffsetsRequestTopic("t", [AlterShareGroupOffsetsRequestPartition(at, 7) for at in (0, 9)])],
    )
    answer = core.request(at_once(altering(core.shard.topics, wanted)))
    assert [row.error_code for row in answer.responses[0].partitions] == [0, Err.UNKNOWN_TOPIC_OR_PARTITION]
    assert core.asked == [Initialize(core.asked[0].key, 1, 7)]
    core.join("ann")
    assert core.request(at_once(altering(core.shard.topics, wanted))).error_code == Err.NON_EMPTY_GROUP
    forget = DeleteShareGroupOffsetsRequest("g", [DeleteShareGroupOffsetsRequestTopic(name) for name in ("no", "t")])
    assert core.request(at_once(forgetting(core.shard, forget))).error_code == Err.NON_EMPTY_GROUP
    core.request(ShareGroupHeartbeatRequest("g", "ann", -1))
    rows = core.request(at_once(forgetting(core.shard, forget))).responses
    assert [(row.topic_name, row.error_code) for row in rows] == [("t", 0), ("no", Err.UNKNOWN_TOPIC_OR_PARTITION)]
    assert not core.group().stored.has_partitions
    again = core.request(at_once(forgetting(core.shard, forget)))
    assert again.responses[1].error_message == "There is no offset information to delete."


def _alter(core: Shared, *topics: tuple[str, list[int]]) -> Any:
    rows = [
        AlterShareGroupOffsetsRequestTopic(name, [AlterShareGroupOffsetsRequestPartition(at, 7) for at in partitions])
        for name, partitions in topics
    ]
    return core.request(at_once(altering(core.shard.topics, AlterShareGroupOffsetsRequest("g", rows))))


@pytest.mark.parametrize("topics", [(), (("no", [0]),)])
def test_altered_offsets_of_no_topic_that_exists_make_no_group(topics: tuple[tuple[str, list[int]], ...]) -> None:
    core = Shared()
    assert _alter(core, *topics).error_code == Err.NONE
    assert ("g" in core.shard.groups, core.log) == (False, [])


def test_altered_offsets_are_recorded_of_what_a_topic_is_named_with_last() -> None:
    core = Shared()
    answer = _alter(core, ("t", [1]), ("t", [2]))
    assert [row.partition_index for row in answer.responses[0].partitions] == [1, 2]
    (kind, begun), (_, made) = core.written()
    assert kind == 15
    assert [one.partitions for one in begun.initializing_topics] == [[2]]
    assert (made.initializing_topics, [one.partitions for one in made.initialized_topics]) == ([], [[1, 2]])


def test_a_partition_below_0_is_recorded_and_refused_by_the_persister() -> None:
    core = Shared()
    answer = _alter(core, ("t", [-2, 0, -1]))
    assert (answer.error_code, answer.responses, core.asked) == (Err.UNKNOWN_SERVER_ERROR, [], [])
    assert answer.error_message.startswith("Initialize share group parameters has invalid partitionId - g ")
    assert answer.error_message.endswith(" -1")
    ((_, value),) = core.written()
    assert [one.partitions for one in value.initializing_topics] == [[-2, -1, 0]]
    assert "g" in core.reload().shard.groups
    assert _alter(core, ("t", [1])).error_code == Err.NONE
    assert core.group().stored.initialized[T].partitions == (1,)


def test_what_has_changed_since_it_was_looked_up_is_looked_up_again() -> None:
    """Requests of a megabyte are looked up in pieces, between which others are served."""
    core = Shared()
    row = AlterShareGroupOffsetsRequestPartition(0, 7)
    wanted = AlterShareGroupOffsetsRequest("g", [AlterShareGroupOffsetsRequestTopic("t", [row])])
    early = at_once(altering(core.shard.topics, wanted))
    forget = DeleteShareGroupOffsetsRequest("g", [DeleteShareGroupOffsetsRequestTopic("t")])
    too_early = at_once(forgetting(core.shard, forget))
    core.request(early)
    assert [one.error_code for one in core.request(too_early).responses] == [0], (
        "there was no group when it was looked up"
    )
    core.step(TopicsChanged({"t": None}))
    (told,) = core.request(early).responses
    assert [one.error_code for one in told.partitions] == [Err.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_topic_that_is_named_twice_is_forgotten_once() -> None:
    core = Shared()
    row = AlterShareGroupOffsetsRequestPartition(0, 7)
    wanted = AlterShareGroupOffsetsRequest("g", [AlterShareGroupOffsetsRequestTopic("t", [row])])
    core.request(at_once(altering(core.shard.topics, wanted)))
    forget = DeleteShareGroupOffsetsRequest("g", [DeleteShareGroupOffsetsRequestTopic("t")] * 2)
    (told,) = core.request(at_once(forgetting(core.shard, forget))).responses
    assert (told.topic_name, told.error_code) == ("t", 0)


@BOTH
def test_a_loaded_group_is_the_one_that_was_and_its_members_go_on(policy: Policy) -> None:
    core = Shared(policy)
    epoch = core.join("ann")
    core.join("bob")
    other = core.reload()
    loaded = other.shard.groups["g"]
    assert isinstance(loaded, ShareGroup)
    assert loaded.stored == core.group().stored
    assert {key for key in other.timers if key[0] == "session"} == {("session", "g", "ann"), ("session", "g", "bob")}
    token = next(other.tokens)
    other.step(Request(token, CLIENT, ShareGroupHeartbeatRequest("g", "ann", epoch)))
    assert other.answers[token].error_code == Err.NONE


def test_a_coordinator_that_takes_over_goes_on_with_what_was_being_made() -> None:
    core = Shared()
    core.held = True
    assert core.request(ShareGroupHeartbeatRequest("g", "ann", 0, subscribed_topic_names=["t"])) is None
    assert core.asked == [], "nothing is asked before the log has it"
    core.heal()
    made = len(core.log) - 1
    assert [kind for kind, _ in core.written()][made] == 15
    core.log = core.log[:made]  # what was made is not known to be
    other = Shared.__new__(Shared)
    other.asked, other.fail, other.log_refuses_results = [], Err.NONE, False
    Core.__init__(other, policy=LATEST)
    other.log, other.high_watermark = list(core.log), made
    other.shard = Shard(0, other.settings, lambda: "id")
    other.shard.last_written, other.shard.high_watermark = made - 1, made
    other.perform(other.shard.start(other.feed(Loader(other.settings)).finish(), other.now_ms))
    assert [type(one) for one in other.asked] == [Initialize] * 3
    assert list(other.group().stored.initialized) == [T]


@pytest.mark.parametrize(
    ("policy", "after_ms"), [(JAVA, 10_000), (JAVA_SINCE[2][1], 30_000), (LATEST, 30_000)], ids=["4.1", "4.2", "4.4"]
)
def test_states_whose_result_the_log_refused_are_requested_again(policy: Policy, after_ms: int) -> None:
    core = Shared(policy)
    core.log_refuses_results = True
    epoch = core.heartbeat("ann", 0).member_epoch
    assert list(core.group().latest.initializing) == [T]
    core.log_refuses_results = False
    core.now_ms += after_ms - 1
    core.heartbeat("ann", epoch)
    assert len(core.asked) == 3
    core.now_ms += 1
    core.heartbeat("ann", epoch)
    assert len(core.asked) == 6
    assert numbers(core.heartbeat("ann", epoch)) == [0, 1, 2]


def test_what_the_log_refuses_has_not_happened() -> None:
    core = Shared()
    core.log_error = Err.NOT_ENOUGH_REPLICAS
    assert core.heartbeat("ann", 0).error_code == Err.COORDINATOR_NOT_AVAILABLE
    assert "g" not in core.shard.groups
    assert core.asked == []
