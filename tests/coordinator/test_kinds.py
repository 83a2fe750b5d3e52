"""A kind of group is its subclass of `Group` and its entries in the shard: an invented one, whose members are named in its commits."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import pytest

from broker_sim.coordinator import kinds, queries, shard
from broker_sim.coordinator.group import Group
from broker_sim.coordinator.outcome import CommitOffsets, DeleteGroup, DeleteOffsets, Offset, TimerFired, TimerKey
from broker_sim.coordinator.policy import JAVA, Policy
from broker_sim.coordinator.records import GroupRecord, Record
from broker_sim.coordinator.shard import GroupKind, Shard
from kafka_wire.errors import Err
from kafka_wire.messages.k15_describe_groups import DescribedGroup
from tests.coordinator.harness import Core

RETENTION_MS = 1000


@dataclass(slots=True, eq=False)
class Club(Group):
    """Group whose listed members may commit, in whatever generation."""

    kind: ClassVar[str] = "club"

    on_the_list: dict[str, int] = field(default_factory=dict)  # member id -> session timeout ms
    begun: bool = False
    ended: bool = False

    @property
    def state_name(self) -> str:
        return "Open" if self.on_the_list else "Closed"

    @property
    def listed_protocol_type(self) -> str:
        return "club"

    @property
    def is_dead(self) -> bool:
        return self.ended

    @property
    def is_empty(self) -> bool:
        return not self.on_the_list

    @property
    def is_idle(self) -> bool:
        return self.is_empty

    @property
    def reads_topics(self) -> bool:
        return True

    def validate_commit(self, request: CommitOffsets) -> Err:
        return Err.NONE if request.member_id in self.on_the_list else Err.UNKNOWN_MEMBER_ID

    def validate_fetch(self, member_id: str, member_epoch: int) -> Err:
        return Err.NONE if member_id in self.on_the_list else Err.STALE_MEMBER_EPOCH

    def session_of(self, member_id: str) -> tuple[TimerKey, int] | None:
        timeout_ms = self.on_the_list.get(member_id)
        return None if timeout_ms is None else (("club", self.group_id, member_id), timeout_ms)

    def subscribed(self, topic: str) -> bool:
        return topic == "t"

    def retention_begins_ms(self, topic: str, offset: Offset) -> int | None:
        return offset.commit_ts_ms if self.is_empty else None

    def tombstones(self, policy: Policy) -> list[Record]:
        return [GroupRecord(self.group_id, None)]

    def described(self, policy: Policy) -> DescribedGroup:
        return DescribedGroup(group_id=self.group_id, group_state=self.state_name)

    def resume(self) -> bool:
        return False

    def end(self) -> None:
        self.ended = True
        self.version += 1


@pytest.fixture
def core(monkeypatch: pytest.MonkeyPatch) -> Core:
    """A shard that has such a group, ``club``, and whose timers know its sessions."""

    def begin(shard: object, group: Club) -> None:
        group.begun = True

    monkeypatch.setitem(
        shard._KINDS, Club, GroupKind(begin, lambda shard, group: group.end(), lambda shard, group, member_id: None)
    )
    monkeypatch.setitem(shard._TIMERS, "club", lambda shard, key: club_of(shard).on_the_list.pop(str(key[2])))
    core = Core(policy=JAVA, offsets_retention_ms=RETENTION_MS)
    core.shard.groups["club"] = Club("club", on_the_list={"ann": 5000})
    return core


def club_of(shard: Shard) -> Club:
    group = shard.groups["club"]
    assert isinstance(group, Club)
    return group


def club(core: Core) -> Club:
    return club_of(core.shard)


def test_it_says_who_may_commit_and_whose_session_begins_anew(core: Core) -> None:
    assert core.answers[core.commit(7, "bob", 1, group="club")] is Err.UNKNOWN_MEMBER_ID
    assert core.answers[core.commit(7, "ann", 1, group="club")] is Err.NONE
    assert core.offset(group="club") == 7
    assert core.timers["club", "club", "ann"] == core.now_ms + 5000


def test_it_says_who_may_fetch_for_a_member(core: Core) -> None:
    assert queries.fetch_refusal(core.shard, "club", "bob", 3) is Err.STALE_MEMBER_EPOCH
    assert queries.fetch_refusal(core.shard, "club", "ann", 3) is Err.NONE
    assert queries.fetch_refusal(core.shard, "club", None, -1) is Err.NONE
    assert queries.fetch_refusal(core.shard, "nobody", "bob", 3) is Err.NONE


def test_classic_members_are_no_members_of_it(core: Core) -> None:
    assert core.heartbeat("ann", 1, group="club") is Err.UNKNOWN_MEMBER_ID
    assert core.answers[core.join("", group="club")].error_code == Err.INCONSISTENT_GROUP_PROTOCOL
    assert core.shard.classic("club") is None


def test_it_is_listed_and_described_as_what_it_is(core: Core) -> None:
    listed = queries.listed(core.shard, [], [])
    assert [(group.group_id, group.protocol_type, group.group_state, group.group_type) for group in listed] == [
        ("club", "club", "Open", "club")
    ]
    assert queries.listed(core.shard, [], ["classic"]) == []
    described = queries.describe(core.shard, "club")
    assert described is not None
    assert described.group_state == "Open"


def test_it_is_deleted_and_its_offsets_are_when_it_is_empty(core: Core) -> None:
    core.commit(7, "ann", 1, group="club")
    group = club(core)
    token = core.request(DeleteOffsets("club", [("t", 0)]))
    assert core.answers[token] == (Err.NONE, {("t", 0): Err.GROUP_SUBSCRIBED_TO_TOPIC})
    assert core.answers[core.request(DeleteGroup("club"))] is Err.NON_EMPTY_GROUP
    group.on_the_list.clear()
    assert core.answers[core.request(DeleteGroup("club"))] is Err.NONE
    assert "club" not in core.shard.groups
    assert group.ended


def test_its_offsets_expire_when_it_says_so(core: Core) -> None:
    core.commit(7, "ann", 1, group="club")
    core.advance(RETENTION_MS + 1)
    core.step(TimerFired(("expire",)))
    assert core.offset(group="club") == 7
    core.advance(5000)
    assert club(core).is_empty, "its member's session has ended"
    core.step(TimerFired(("expire",)))
    assert "club" not in core.shard.groups


@pytest.mark.parametrize("kind", kinds.EPOCH_KINDS, ids=lambda kind: kind.kind)
def test_a_kind_is_known_in_three_places_beside_its_handlers(kind: type[Group]) -> None:
    """The list of kinds, the shard's table of handlers, and the journal."""
    package = kind.__module__.rpartition(".")[0]
    root = Path(kinds.__file__).parents[1]
    knowing = {
        path.relative_to(root).with_suffix("").as_posix()
        for room in ("coordinator", "runtime", "network", "requests", "metadata")
        for path in (root / room).rglob("*.py")
        if f"from {package}." in path.read_text()
        and not path.is_relative_to(root / package.partition(".")[2].replace(".", "/"))
    }
    assert knowing == {"coordinator/kinds", "coordinator/shard", "runtime/epoch_snapshot"}


def test_it_is_told_when_its_shard_begins_and_goes(core: Core) -> None:
    group = club(core)
    core.shard.start(core.shard.store, core.now_ms)
    assert group.begun
    core.shard.stop()
    assert group.ended
