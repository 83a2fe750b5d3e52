"""Findings from a log alone: offsets that stand still, groups whose coordinator assigns, transactions; and their sentences."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from broker_sim.pipeline.account_findings import ABOUT_ACCOUNTS
from broker_sim.pipeline.facts import ReportFacts
from broker_sim.pipeline.finding import Finding
from broker_sim.pipeline.findings import findings, text
from broker_sim.pipeline.log_stalls import stalls_of
from broker_sim.pipeline.modern_groups import ModernGroup
from broker_sim.pipeline.tables.coordinator_moves import COORDINATOR_MOVES
from broker_sim.pipeline.tables.groups import GROUPS
from broker_sim.pipeline.tables.offset_resets import OFFSET_RESETS
from broker_sim.pipeline.tables.offset_stalls import OFFSET_STALLS
from broker_sim.pipeline.tables.stuck_partitions import STUCK_PARTITIONS
from broker_sim.pipeline.tables.transactions import TRANSACTIONS
from broker_sim.pipeline.transaction_logs import rows_of_data, rows_of_state
from kafka_wire.messages.transaction_log import PartitionsSchema, TransactionLogValue
from kafka_wire.record_batch import ControlType, Record, control_batch, encode_batch
from kafka_wire.transaction_log import encode_key, encode_value
from tests.pipeline.facts import facts, rebalance, row, window
from tests.pipeline.offsets import T0

# ------------------------------------------------------------------------------------------------ stalls


def windows(*offsets: int, partition: int = 0, end: int | None = 0, ahead: int = 0) -> list[dict[str, Any]]:
    """A second each; ``end``: None where no ends are known; ``ahead``: records that nobody has read yet."""
    return [
        {
            **window(at * 1000, None, 1, window_ms=1000),
            "topic": "orders",
            "partition": partition,
            "committed": offset,
            "end": None if end is None else max(offsets[: at + 1]) + ahead,
            "log_offset": at,
        }
        for at, offset in enumerate(offsets)
    ]


STANDS = [*range(0, 100, 10), *[100] * 20, *range(400, 500, 10)]
GOES_ON = list(range(0, 400, 10))
STATE = [{"at_ms": T0 - 1, "members": 2, "generation": 1}]


def stalls(*rows: list[dict[str, Any]], states: list[dict[str, Any]] = STATE) -> list[dict[str, Any]]:
    return list(stalls_of([one for each in rows for one in each], states, T0 + 40_000))


def test_a_partition_with_records_to_read_whose_offset_does_not_advance_while_others_do_stalls() -> None:
    (found,) = stalls(windows(*STANDS, ahead=50), windows(*GOES_ON, partition=1))
    assert (found["partition"], found["offset"], found["stalled_ms"], found["moved"]) == (0, 100, 20_000, 1)
    assert (found["pending"], found["commits"], found["members"], found["generations"]) == (50, 19, True, 0)


@pytest.mark.parametrize(("members", "known"), [(None, None), (0, False), (1, True)])
def test_a_log_that_lacks_the_members_of_a_group_does_not_show_whether_it_had_any(
    members: int | None, known: bool | None
) -> None:
    state = {"at_ms": T0 + 15_000, "members": members, "generation": None}
    found = stalls(windows(*STANDS, ahead=50), windows(*GOES_ON, partition=1), states=[*STATE, state])
    assert [one["members"] for one in found] == [known]


def test_an_offset_at_the_log_end_that_does_not_advance_is_no_stall() -> None:
    assert stalls(windows(*range(0, 100, 10), *[100] * 20), windows(*GOES_ON, partition=1)) == []


def test_without_ends_a_jump_afterwards_shows_that_there_was_more() -> None:
    (found,) = stalls(windows(*STANDS, end=None), windows(*GOES_ON, partition=1, end=None))
    assert found["pending"] == 320
    in_hand = [*range(0, 100, 10), *[100] * 20, 110, *range(400, 500, 10)]
    assert [one["pending"] for one in stalls(windows(*in_hand, end=None))] == [310], "first what it had in hand"
    gently = [*range(0, 100, 10), *[100] * 20, *range(110, 210, 10)]
    assert stalls(windows(*gently, end=None)) == []


def test_without_log_ends_three_generations_at_one_offset_are_a_stall() -> None:
    restarts = [*STATE, *({"at_ms": T0 + at * 1000, "members": 2, "generation": at} for at in (12, 16, 20))]
    (found,) = stalls(windows(*range(0, 100, 10), *[100] * 30, end=None), states=restarts)
    assert (found["pending"], found["generations"]) == (None, 3)


# ------------------------------------------------------------------------------------------------ KIP-848


class Modern:
    """Records of a consumer group; seconds after T0."""

    def __init__(self) -> None:
        self.reader = ModernGroup()
        self.place = 0

    def record(
        self,
        what: str,
        at: float,
        member: str | None = None,
        detail: dict[str, Any] | None = None,
        epoch: int | None = None,
    ) -> Modern:
        self.place += 1
        self.reader.take(
            {
                "what": f"ConsumerGroup{what}",
                "ts_ms": int(T0 + at * 1000),
                "place": self.place,
                "cause_members": member,
                "detail": None if detail is None else json.dumps(detail),
                "generation": epoch,
            }
        )
        return self

    def joins(self, at: float, member: str, epoch: int, instance: str | None = None) -> Modern:
        self.record("MemberMetadata", at, member, {"clientId": f"c-{member}", "instanceId": instance})
        return self.record("Metadata", at, epoch=epoch)

    def reaches(self, at: float, member: str, epoch: int, state: int = 0) -> Modern:
        return self.record("CurrentMemberAssignment", at, member, {"memberEpoch": epoch, "state": state})


def test_an_epoch_is_a_rebalance_until_the_last_member_has_reached_it() -> None:
    group = Modern().joins(0, "a", 1).reaches(0, "a", 1).joins(10, "b", 2).reaches(10, "b", 2)
    group.reaches(11, "a", 1, state=1).reaches(35, "a", 2)
    first, second = group.reader.rows()
    assert (first["generation"], first["end"], first["cause"], first["who_clients"]) == (1, "stable", "join", ["c-a"])
    assert (second["started_ms"], second["ended_ms"], second["waited_for"]) == (T0 + 10_000, T0 + 35_000, ["c-a"])
    assert (second["kind"], second["size_before"], second["size_after"], second["log_offset"]) == ("consumer", 1, 2, 5)


def test_a_departed_member_left_or_expired_and_the_last_one_leaves_the_group_empty() -> None:
    group = Modern().joins(0, "a", 1).reaches(0, "a", 1)
    group.record("CurrentMemberAssignment", 50, "a").record("MemberMetadata", 50, "a").record("Metadata", 50, epoch=2)
    last = list(group.reader.rows())[-1]
    assert (last["cause"], last["end"], last["size_after"], last["cause_certainty"]) == ("departed", "empty", 0, None)


@pytest.mark.parametrize(("between", "cause"), [(0, "join"), (1, "join"), (5, None)])
def test_an_epoch_2_far_behind_its_only_member_is_not_the_first(between: int, cause: str | None) -> None:
    """Since 4.2 a group begins with epoch 2. Compaction leaves the last epoch of a group, and its member's first record."""
    group = Modern().record("MemberMetadata", 0, "a", {"clientId": "c-a"})
    group.place += between
    group.record("Metadata", 0, epoch=2)
    (row,) = group.reader.rows()
    assert (row["cause"], row["whole"]) == (cause, cause is not None)


def test_a_static_member_that_left_temporarily_delays_no_member() -> None:
    group = Modern().joins(0, "a", 1, "i").reaches(0, "a", 1).reaches(5, "a", -2).joins(10, "b", 2).reaches(11, "b", 2)
    assert list(group.reader.rows())[-1]["end"] == "stable"


def test_a_superseded_epoch_failed() -> None:
    group = Modern().joins(0, "a", 1).joins(1, "b", 2).reaches(2, "a", 2).reaches(2, "b", 2)
    assert [one["end"] for one in group.reader.rows()] == ["failed", "stable"]


def test_a_streams_group_s_member_that_has_a_task_to_give_back_holds_up_the_others() -> None:
    """As 4.4.0 writes it where a second member comes: its members' states count from 1 (STABLE) to 3 (UNRELEASED)."""
    reader = ModernGroup()
    a, b = ({"clientId": f"app-{name}"} for name in "ab")
    records: list[tuple[int, str, str | None, dict[str, Any], int | None]] = [
        (0, "MemberMetadata", "A", a, None),
        (0, "Metadata", None, {"epoch": 2}, 2),
        (0, "CurrentMemberAssignment", "A", {"memberEpoch": 2, "state": 1}, None),
        (9, "MemberMetadata", "B", b, None),
        (9, "Metadata", None, {"epoch": 3}, 3),
        (9, "CurrentMemberAssignment", "B", {"memberEpoch": 3, "state": 3}, None),
        (10, "CurrentMemberAssignment", "A", {"memberEpoch": 2, "state": 2}, None),
        (31, "CurrentMemberAssignment", "A", {"memberEpoch": 3, "state": 1}, None),
        (33, "CurrentMemberAssignment", "B", {"memberEpoch": 3, "state": 1}, None),
    ]
    for place, (at, what, member, detail, epoch) in enumerate(records):
        reader.take(
            {
                "what": f"StreamsGroup{what}", "ts_ms": T0 + at * 1000, "place": place, "cause_members": member,
                "detail": json.dumps(detail), "generation": epoch,
            }
        )  # fmt: skip
    first, second = reader.rows()
    assert (first["kind"], first["end"], first["ended_ms"]) == ("streams", "stable", T0)
    assert (second["end"], second["ended_ms"], second["waited_for"]) == ("stable", T0 + 33_000, ["app-b"])


# ------------------------------------------------------------------------------------------------ transactions


def state_log(folder: Path, *records: tuple[float, int, int]) -> str:
    """`__transaction_state-0` with records of one id: (second, status, begun at)."""
    where = folder / "__transaction_state-0"
    where.mkdir()
    rows = []
    for offset, (at, status, began) in enumerate(records):
        value = TransactionLogValue(
            producer_id=7,
            transaction_timeout_ms=60_000,
            transaction_status=status,
            transaction_partitions=[PartitionsSchema("orders", [0])] if status in (1, 2, 3) else [],
            transaction_start_timestamp_ms=int(T0 + began * 1000),
        )
        rows.append(Record(offset, int(T0 + at * 1000), encode_key("tx-1"), encode_value(1, value)))
    (where / f"{0:020}.log").write_bytes(encode_batch(rows))
    return str(where)


def test_transactions_of_the_coordinators_log(tmp_path: Path) -> None:
    folder = state_log(
        tmp_path, (1, 1, 1), (2, 2, 1), (2.1, 4, 1), (10, 1, 10), (41, 3, 10), (41.2, 5, 10), (50, 1, 50)
    )
    found = [(row["from_ms"] - T0, row["to_ms"] and row["to_ms"] - T0, row["end"]) for row in rows_of_state([folder])]
    assert found == [(1000, 2100, "committed"), (10_000, 41_200, "aborted"), (50_000, None, None)]


def test_an_open_transaction_of_a_data_partition(tmp_path: Path) -> None:
    where = tmp_path / "orders-0"
    where.mkdir()
    batch = encode_batch(
        [Record(5, T0, b"k", b"v")], producer_id=7, producer_epoch=0, base_sequence=0, attributes=0x10, base_offset=5
    )
    done = encode_batch(
        [Record(0, T0, b"k", b"v")], producer_id=8, producer_epoch=0, base_sequence=0, attributes=0x10, base_offset=0
    )
    marker = control_batch(ControlType.COMMIT, T0, producer_id=8, producer_epoch=0, base_offset=1)
    (where / f"{0:020}.log").write_bytes(done + marker + batch + b"torn")
    over, found = rows_of_data([("orders", 0, str(where))])
    assert (over["producer_id"], over["end"], over["late"], over["first_offset"]) == (8, "committed", False, 0)
    assert (found["producer_id"], found["from_ms"], found["partitions"], found["first_offset"]) == (
        7,
        T0,
        ["orders-0"],
        5,
    )


# ------------------------------------------------------------------------------------------------ sentences


def only(known: ReportFacts) -> Finding:
    found = [one for tell in ABOUT_ACCOUNTS for one in tell(known)]
    assert len(found) == 1, [one.text for one in found]
    return found[0]


def state(**columns: Any) -> dict[str, dict[str, Any]]:
    known = {
        "group": "billing",
        "log_partition": 12,
        "state": "empty",
        "state_since_ms": T0 + 5000,
        "state_offset": 77,
        "members": 0,
    }
    return {"billing": row(GROUPS.names, **{**known, **columns})}


BEHIND = {"billing": [window(0, 0, 5), window(10_000, 900)]}


def test_a_group_that_ended_in_order_is_no_alarm_while_producers_go_on() -> None:
    (found,) = (one for one in findings(facts(journal=None, lag=BEHIND, states=state())) if one.kind == "lag")
    assert (found.severity, found.at_ms, found.records) == ("note", T0 + 5000, ((12, 77),))
    assert "has no members since" in found.text
    assert "900 records" in found.text
    (alarm,) = findings(facts(journal=None, lag=BEHIND))
    assert (alarm.kind, alarm.severity) == ("lag", "bad"), "of a group of which nothing else is known it is one"


def test_a_crash_of_the_last_member_is_reported_with_the_lag() -> None:
    crashed = rebalance(5000, 10, cause="session timeout", size_after=0, source="log")
    found = findings(facts(journal=None, lag=BEHIND, states=state(), rebalances=[crashed]))
    assert {one.kind: one.severity for one in found} == {"session expired": "warn", "lag": "bad"}


def test_offsets_that_were_reset_to_later_ones_are_reported_as_skipped() -> None:
    reset = row(
        OFFSET_RESETS.names, group="billing", log_partition=12, log_offset=3, at_ms=T0, partitions=2, back=0, skipped=500,
        topic="orders", partition=0, from_offset=10, to_offset=400,
    )  # fmt: skip
    found = only(facts(resets=[reset]))
    assert found.text.replace("\N{NO-BREAK SPACE}", " ").endswith(
        "orders-0 from 10 to 400; up to 500 records are skipped."
    )
    assert (found.severity, found.certainty, found.records) == ("warn", "certain", ((12, 3),))


def stall(**columns: Any) -> dict[str, Any]:
    known = {
        "group": "billing",
        "topic": "orders",
        "partition": 2,
        "log_partition": 12,
        "log_offset": 40,
        "offset": 57,
        "from_ms": T0,
        "to_ms": T0 + 60_000,
        "stalled_ms": 60_000,
        "commits": 0,
        "generations": 0,
        "pending": 90,
        "moved": 2,
        "members": True,
    }
    return row(OFFSET_STALLS.names, **{**known, **columns})


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({}, ("stalled", "warn", "certain")),
        ({"moved": 0}, ("stalled", "warn", "certain")),  # that it stayed there; why is advice
        ({"generations": 4}, ("poison", "bad", "likely")),
        (
            {"generations": 4, "pending": None},
            ("poison", "note", "possible"),
        ),  # somebody restarts it, and nobody writes there
    ],
)
def test_causes_of_a_stall(columns: dict[str, Any], told: tuple[str, str, str]) -> None:
    found = only(facts(stalls=[stall(**columns)]))
    assert (found.kind, found.severity, found.certainty) == told


@pytest.mark.parametrize(
    ("others", "told"),
    [
        ([(500, 40_000)], ("bad", "likely")),  # held up while the record is there
        ([(0, None)], ("note", "possible")),  # longer than the record was there
        ([(-9000, 20_000)], ("note", "possible")),  # now one, now another: members are killed at any moment
        ([(10_000, 40_000), (61_000, 75_000)], ("note", "possible")),
    ],
)
def test_a_record_that_kills_consumers_holds_up_the_other_partitions(
    others: list[tuple[int, int | None]], told: tuple[str, str]
) -> None:
    more = [
        stall(
            partition=number, generations=4, pending=10, from_ms=T0 + begin, to_ms=None if end is None else T0 + end,
            stalled_ms=(60_000 if end is None else end) - begin,
        )
        for number, (begin, end) in enumerate(others, 3)
    ]  # fmt: skip
    found = next(one for one in findings(facts(stalls=[stall(generations=4), *more])) if one.kind == "poison")
    assert (found.severity, found.certainty) == told


def test_a_group_without_records_to_read_is_not_held_up_by_one() -> None:
    """A rollout in which members are killed and come back, while nothing is produced to the group's topic."""
    dead = [rebalance(1000 * at, 10, cause="session timeout", generation=at) for at in range(1, 5)]
    given = facts(stalls=[stall(generations=4, pending=None, moved=0)], rebalances=dead)
    found = next(one for one in findings(given) if one.kind == "poison")
    assert (found.severity, found.certainty) == ("note", "possible")
    assert "while the group began 4 generations, and 4 times the session of a member expired." in found.text


@pytest.mark.parametrize(("missing", "said"), [(0, True), (3, False)])
def test_a_group_with_missing_generations_may_have_rebalanced(missing: int, said: bool) -> None:
    """Compaction leaves the last generation alone, and generations that never became Stable have no record."""
    later = rebalance(90_000, 10, source="log", started_ms=None, missing_before=missing)
    found = only(facts(stalls=[stall()], rebalances=[later], journal=None))
    assert ("did not rebalance" in found.text) is said


SLOWED = row(
    STUCK_PARTITIONS.names, log="__consumer_offsets-12", log_partition=12, from_ms=T0 + 1000, to_ms=T0 + 50_000, groups=["billing"],
    evidence="rhythm", certainty="possible",
)  # fmt: skip


@pytest.mark.parametrize(
    "signs", [{"silences": [SLOWED]}, {"failed_commits": [{"group": "billing", "ts_ms": T0 + 5000}]}]
)
def test_commits_that_may_have_failed_are_said_with_a_stall(signs: dict[str, Any]) -> None:
    def told(generations: int) -> Finding:
        given = facts(stalls=[stall(generations=generations)], journal=None, **signs)
        (found,) = (one for one in findings(given) if one.kind in ("poison", "stalled"))
        return found

    poison, stalled = told(4), told(0)
    assert (poison.severity, poison.certainty) == ("note", "possible")
    assert "Its commits may also have failed" in poison.advice
    assert "Its commits may also have failed" in stalled.advice
    assert "Its commits" not in only(facts(stalls=[stall()], journal=None)).advice


def test_members_that_left_and_rejoined_once_in_a_stall_did_not_crash_on_a_record() -> None:
    """A release: all are closed, and started again. Whoever dies of a record comes back more often than that."""
    names = [f"app-{number}-5f0c2f7e-8d3b-4f4e-9d2a-1c2b3d4e5f6{number}" for number in (1, 2)]
    moves = [(names, names[:1]), (names[:1], []), ([], names[:1]), (names[:1], names)]

    def restarts(times: int) -> list[dict[str, Any]]:
        return [
            rebalance(
                1000 * at, 10, source="log", cause="unknown", who=[], who_clients=[], generation=at, members_before=old,
                members_after=new, size_before=len(old), size_after=len(new),
            )
            for at, (old, new) in enumerate(moves * times)
        ]  # fmt: skip

    def told(times: int) -> list[str]:
        given = facts(stalls=[stall(generations=4 * times)], rebalances=restarts(times))
        return [one.severity for tell in ABOUT_ACCOUNTS for one in tell(given) if one.kind == "poison"]

    assert told(1) == ["note"]
    assert told(4) == ["bad"]


@pytest.mark.parametrize("columns", [{"members": False}, {"members": None}])
def test_a_stall_without_members_is_reported_as_lag_alone(columns: dict[str, Any]) -> None:
    assert not [one for tell in ABOUT_ACCOUNTS for one in tell(facts(stalls=[stall(**columns)]))]


def test_a_stall_caused_by_a_stuck_partition_is_no_finding_of_its_own() -> None:
    stuck = row(STUCK_PARTITIONS.names, log_partition=12, from_ms=T0, to_ms=T0 + 50_000, groups=["billing"])
    assert not [one for tell in ABOUT_ACCOUNTS for one in tell(facts(stalls=[stall()], stuck=[stuck]))]


def test_a_group_whose_partitions_all_stopped_one_soon_after_the_other_did_not_move_on() -> None:
    """Members stop when they learn of a rebalance: with their next heartbeat."""
    rebalanced = rebalance(0, source="log", started_ms=None, closed_ms=T0 + 59_900, ended_ms=T0 + 59_950, generation=2)
    rows = [stall(partition=at, from_ms=T0 + 1300 * at, stalled_ms=60_000 - 1300 * at, moved=1) for at in range(3)]

    def told(partitions: int, *stalls: dict[str, Any]) -> str:
        given = facts(stalls=list(stalls), rebalances=[rebalanced], states=state(partitions=partitions), journal=None)
        (found,) = (one for tell in ABOUT_ACCOUNTS for one in tell(given) if one.kind == "stalled")
        return found.text

    assert "so did 2 other partitions, and none of its partitions moved; then generation 2 was stored" in told(3, *rows)
    assert "so did 2 other partitions, while other partitions moved on" in told(4, *rows)
    assert "while other partitions moved on" in told(3, *rows[:2], stall(partition=2, from_ms=T0 + 9000))
    early = stall(partition=2, to_ms=T0 + 58_000, stalled_ms=58_000, moved=1)
    assert "while other partitions moved on" in told(3, *rows[:2], early)


@pytest.mark.parametrize(
    ("bounce", "explained"),
    [
        ({}, True),
        ({"away_ms": 30_000}, False),
        ({"at_ms": T0 + 40_000}, False),
        ({"away_ms": None}, False),
        ({"removed": True}, False),
    ],
)
def test_partitions_of_a_static_member_that_was_away_are_no_stall(bounce: dict[str, Any], explained: bool) -> None:
    known = {"instance": "i2", "client": "app-2", "former": "app-2-x", "member": "app-2-y", "at_ms": T0 + 60_500,
             "away_ms": 60_000, "removed": False, "log_offset": 7}  # fmt: skip
    back = rebalance(60_500, 10, source="log", cause="join", generation=4, bounces=[{**known, **bounce}])
    given = facts(stalls=[stall()], rebalances=[back])
    assert ("stalled" not in {one.kind for tell in ABOUT_ACCOUNTS for one in tell(given)}) is explained


def test_a_partition_with_an_open_transaction_does_not_wait_for_its_member() -> None:
    stood = stall()
    at = f"{stood['topic']}-{stood['partition']} at {stood['offset']}"
    known = {
        "producer_id": 7,
        "from_ms": stood["from_ms"] - 1000,
        "open_ms": 60_000,
        "source": "journal",
        "partitions": [],
    }
    for whose, told in (({"transactional_id": "tx"}, "tx"), ({}, "producer 7")):
        held = row(TRANSACTIONS.names, **known, **whose, blocked=[at], blocked_ms=60_000)
        found = next(one for one in findings(facts(stalls=[stood], transactions=[held])) if one.kind == "stalled")
        assert found.text.endswith(f"; a transaction of {told} held its last stable offset there.")
        assert "look at its producer" in found.advice
    elsewhere = row(TRANSACTIONS.names, **known, blocked=["orders-77 at 1"], blocked_ms=60_000)
    found = next(one for one in findings(facts(stalls=[stood], transactions=[elsewhere])) if one.kind == "stalled")
    assert "look at that member" in found.advice


def test_moves_at_one_time_are_one_finding_and_a_note_unless_records_are_lost() -> None:
    moves = [
        row(
            COORDINATOR_MOVES.names,
            log_partition=at,
            at_ms=T0 + at,
            to_epoch=2,
            node=3,
            unclean=False,
            evidence_lines=["a.log:1"],
        )
        for at in (0, 3)
    ]
    found = only(facts(moves=moves))
    assert (found.severity, found.lines) == ("note", ("a.log:1", "a.log:1"))
    assert found.text.startswith("__consumer_offsets-0 and __consumer_offsets-3 went to other leaders")
    again = [moves[0], {**moves[1], "from_node": 3}]
    went, stayed = (one for one in findings(facts(moves=again)) if one.kind in ("coordinator moved", "leader epoch"))
    assert went.text.startswith("__consumer_offsets-0 went to another leader")
    assert (stayed.kind, stayed.severity, stayed.log_partition) == ("leader epoch", "note", 3)
    assert "broker 3 is still the leader" in stayed.text
    mark = {"what": "unclean", "topic": "__consumer_offsets", "partition": 3, "ts_ms": T0, "file": "a.log", "line": 7}
    lost = only(facts(marks=[mark], moves=[{**moves[1], "unclean": True}]))
    assert (lost.kind, lost.severity, lost.log_partition, lost.lines) == ("unclean election", "bad", 3, ("a.log:7",))


@pytest.mark.parametrize(
    ("evidence", "latest"),
    [("broker log", False), ("client log", False), ("together", True), ("repeated", True), ("rhythm", True)],
)
def test_where_no_line_shows_the_end_of_a_stuck_period_the_next_commit_is_the_latest(
    evidence: str, latest: bool
) -> None:
    period = {**SLOWED, "evidence": evidence, "certainty": "likely"}
    (found,) = (one for one in findings(facts(stuck=[period], journal=None)) if one.kind == "stuck")
    assert (" and 22:14:10 at the latest: its offsets partition 12 " in found.text) is latest
    (still,) = (one for one in findings(facts(stuck=[{**period, "to_ms": None}], journal=None)) if one.kind == "stuck")
    assert "at the latest" not in still.text


def moves(*rows: tuple[int, float, float | None]) -> list[str]:
    """Return the findings about moves: partition, time (s), and time of the last record before, where no broker logged the move."""
    given = [
        row(
            COORDINATOR_MOVES.names, log_partition=at, at_ms=T0 + round(now * 1000), to_epoch=1, unclean=False,
            after_ms=None if last is None else T0 + round(last * 1000), evidence_lines=["a.log:1"] if last is None else None,
        )
        for at, now, last in rows
    ]  # fmt: skip
    return [one.text.partition(" went")[0] for one in findings(facts(moves=given)) if one.kind == "coordinator moved"]


def test_moves_that_follow_each_other_soon_are_a_finding_each() -> None:
    there, other, back = [(0, 10.0, None), (3, 10.2, None)], [(2, 16.0, None)], [(0, 19.5, None), (3, 19.6, None)]
    both = "__consumer_offsets-0 and __consumer_offsets-3"
    assert moves(*there, *other, *back) == [both, "__consumer_offsets-2", both]
    assert moves((0, 10.0, 9.0), (3, 15.0, 7.0), (2, 18.0, 17.5)) == [both, "__consumer_offsets-2"]
    assert moves((0, 10.0, 9.0), (0, 12.0, 10.0)) == ["__consumer_offsets-0", "__consumer_offsets-0"]


def test_an_open_transaction_beyond_its_timeout_hangs() -> None:
    hanging = row(
        TRANSACTIONS.names, transactional_id="tx-1", producer_id=7, from_ms=T0, open_ms=120_000, timeout_ms=60_000,
        partitions=["orders-0"], groups=["billing"], log_partition=12, log_offset=9,
    )  # fmt: skip
    found = only(facts(transactions=[hanging]))
    assert (found.severity, found.group, found.records) == ("bad", "billing", ((12, 9),))
    assert "although its timeout of 1 min has expired" in found.text
    ended = {**hanging, "end": "aborted", "to_ms": T0 + 120_000}
    assert only(facts(transactions=[ended])).severity == "warn"


def test_certainty_and_evidence_stand_in_the_text_and_in_json() -> None:
    found = only(facts(stalls=[stall(generations=4)]))
    assert "(likely)" in text([found])
    assert "(certain)" in text([only(facts(stalls=[stall()]))])
    assert "Shown by 40 of __consumer_offsets-12." in text([found])
    assert found.to_dict()["evidence"] == [{"log": "__consumer_offsets-12", "offset": 40}]
    lines = Finding("coordinator moved", "note", 1, "x", lines=("/var/log/kafka/server.log:88",)).to_dict()["evidence"]
    assert lines == [{"file": "/var/log/kafka/server.log", "line": 88}]
