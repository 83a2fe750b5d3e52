"""Static members that come back under another member id, from a group's records."""

from __future__ import annotations

import json
from typing import Any

from broker_sim.explain.generations import StoredMember
from broker_sim.pipeline.findings import findings
from broker_sim.pipeline.modern_groups import ModernGroup
from broker_sim.pipeline.rebalance_rows import rebalances_of
from broker_sim.pipeline.static_members import StaticMembers
from broker_sim.pipeline.tables.rebalances import REBALANCES
from tests.pipeline.facts import facts
from tests.pipeline.offsets import T0


def static(member: str, instance: str | None = "i1", *assigned: str) -> StoredMember:
    return StoredMember(member, "app-1", instance, assigned=assigned)


def test_another_member_id_is_a_bounce_since_the_last_commit() -> None:
    members = StaticMembers()
    assert members.take(1000, 3, [static("a", "i1", "orders-0", "orders-1"), static("d", None)], {}) == []
    committed = {"orders-0": [1500, 4000, 3, 7], "orders-1": [1500, 4200, 3, 7], "orders-2": [1500, 6000, 3, 7]}
    (bounce,) = members.take(6500, 9, [static("b", "i1", "orders-0"), static("e", None)], committed)
    assert (bounce.former, bounce.member, bounce.at_ms, bounce.away_ms) == ("a", "b", 6500, 2300)
    assert (bounce.removed, bounce.log_offset) == (False, 9)


def test_without_a_commit_since_it_joined_the_duration_is_not_known() -> None:
    members = StaticMembers()
    members.take(1000, 3, [static("a", "i1", "orders-0")], {})
    (bounce,) = members.take(6500, 9, [static("b")], {"orders-0": [500, 900, 3, 7]})
    assert bounce.away_ms is None


def test_a_member_that_was_removed_in_between_did_not_bounce() -> None:
    members = StaticMembers()
    members.take(1000, 3, [static("a"), static("c", "i2")], {})
    members.take(2000, 4, [static("c", "i2")], {})
    (returned,) = members.take(3000, 5, [static("b"), static("c", "i2")], {})
    assert returned.removed
    members.forget()
    assert members.take(4000, 6, [static("x")], {}) == []


def log_of(*members: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Records of a classic group, ten seconds apart: each a generation, or the same one where the size does not change."""
    rows, generation, size = [], 0, 0
    for at, some in enumerate(members):
        generation += len(some) != size
        size = len(some)
        ms = T0 + at * 10_000
        record = {"run_id": "r1", "group": "billing", "of_log": True, "ts_ms": ms, "state_ms": ms, "place": at}
        rows.append(
            {**record, "generation": generation, "members_after": json.dumps(some), "coordinator_partition": 12}
        )
    return rows


def told(*members: list[dict[str, Any]]) -> list[tuple[str, str]]:
    rows = [{**dict.fromkeys(REBALANCES.names), **row} for row in rebalances_of(log_of(*members))]
    return [(one.kind, one.text) for one in findings(facts(journal=None, rebalances=rows)) if one.severity != "good"]


def one(member: str, client: str, instance: str | None = None) -> dict[str, Any]:
    return {"member": member, "client_id": client, "instance": instance}


def test_a_bounce_is_a_note_and_no_departure() -> None:
    ((kind, text),) = told(
        [one("a", "app-1", "i1"), one("c", "app-2", "i2")], [one("b", "app-1", "i1"), one("c", "app-2", "i2")]
    )
    assert kind == "static bounce"
    assert text == "1 static member of billing came back under another member id at 22:13:30: i1."


def test_a_static_member_that_returns_as_another_client_did_rejoin() -> None:
    """The static member's session had expired, and the group rebalanced without it."""
    whole = [one("a", "old-host", "i1"), one("c", "app-2", "i2")]
    assert told(whole, [one("c", "app-2", "i2")], [one("b", "new-host", "i1"), one("c", "app-2", "i2")]) == []
    assert [kind for kind, _ in told(whole, [one("c", "app-2", "i2")])] == ["departed"]


def modern(what: str, ts_ms: int, member: str | None = None, epoch: int | None = None, **detail: Any) -> dict[str, Any]:
    place = {"place": ts_ms, "ts_ms": ts_ms, "coordinator_partition": 12, "run_id": "r1", "group": "billing"}
    text = json.dumps(detail) if detail else None
    return {**place, "what": f"ConsumerGroup{what}", "cause_members": member, "generation": epoch, "detail": text}


def test_a_consumer_group_s_static_member_that_left_for_a_while() -> None:
    group = ModernGroup()
    for row in (
        modern("MemberMetadata", 1, "a", instanceId="i1", clientId="app-1"),
        modern("Metadata", 2, epoch=1, epoch_=1),
        modern("CurrentMemberAssignment", 3, "a", 1, memberEpoch=1, state=0),
        modern("CurrentMemberAssignment", 1000, "a", -2, memberEpoch=-2, state=0),
        modern("CurrentMemberAssignment", 3500, "a"),
        modern("MemberMetadata", 3500, "a"),
        modern("MemberMetadata", 3500, "b", instanceId="i1", clientId="app-1"),
        modern("CurrentMemberAssignment", 3500, "b", 1, memberEpoch=1, state=0),
    ):
        group.take(row)
    ((bounce,),) = [row["bounces"] for row in group.rows()]
    assert [bounce[name] for name in ("former", "member", "at_ms", "away_ms", "removed")] == [
        "a",
        "b",
        3500,
        2500,
        False,
    ]
