"""Offsets partitions that were stuck, as logs show it: signs made by hand, after what real clusters wrote."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest

from broker_sim.pipeline.condensing import GROUP, NEEDED, condensed
from broker_sim.pipeline.log_stuck import Pace, periods_of
from broker_sim.pipeline.schemas import OFFSET_LOG
from tests.pipeline.offsets import T0

Row = dict[str, Any]


def sign(what: str, at: float, partition: int = 3, **columns: Any) -> Row:
    names = ("offset", "waits_ms", "number", "detail", "group")
    place = {"log_partition": partition, "what": what, "ts_ms": int(T0 + at * 1000), "at": f"server.log:{int(at * 10)}"}
    return {**dict.fromkeys(names), **place, **columns}


def commits(
    *times: float, step: int = 10, jump_at: float | None = None, jump: int = 0
) -> list[tuple[int, int, str, int]]:
    """A group's commits of one partition, by seconds after T0."""
    rows, offset = [], 0
    for place, at in enumerate(times):
        offset += jump if at == jump_at else step
        rows.append((place, int(T0 + at * 1000), "orders-0", offset))
    return rows


def paced(group: str, partition: int, rows: Iterable[tuple[int, int | None, str | None, int | None]]) -> list[Row]:
    """The signs of a group's commits (place, ms, partition, offset) and records (place, ms, None, None), in blocks of 16."""
    import pyarrow

    records = [
        {
            **dict.fromkeys(NEEDED),
            "run_id": "r1",
            "log_partition": partition,
            "log_offset": place,
            "record_ts_ms": ms,
            "group": group,
            **({"kind": "group"} if name is None else {"kind": "commit", "topic": name, "partition": 0}),
            "committed_offset": offset,
        }
        for place, ms, name, offset in rows
    ]
    batch = pyarrow.RecordBatch.from_pylist(records, OFFSET_LOG.only(NEEDED).arrow())
    pace = Pace()
    for made in condensed([batch], window_ms=1000, silence_ms=10_000, outside={}, block=16):
        for row in made.to_pylist():
            if row["kind"] == GROUP:
                pace.add(json.loads(row["detail"]))
    return [{"log_partition": partition, "group": group, **one} for one in pace.signs()]


def told(signs: list[Row], *of_groups: list[Row]) -> list[Row]:
    found = [row for rows in of_groups for row in rows]
    return list(
        periods_of(signs, [row for row in found if row["sort"] == 1], [row for row in found if row["sort"] == 2])
    )


def seconds(row: Row) -> tuple[float, float | None]:
    return (row["from_ms"] - T0) / 1000, None if row["to_ms"] is None else (row["to_ms"] - T0) / 1000


STEADY = [float(at) for at in range(100)]
HELD = [at for at in STEADY if not 40 < at < 65]


def hit(group: str, partition: int = 3, shift: float = 0) -> list[Row]:
    """Return the rows of a group that could not commit for 25 s, and read on meanwhile."""
    return paced(group, partition, commits(*(at + shift for at in HELD), jump_at=65 + shift, jump=250))


# ------------------------------------------------------------------------------------------------ lines


def test_refused_appends_are_a_period_from_the_first_waiting_record_to_the_complete_isr() -> None:
    """3.4: the ISR shrinks below min.insync.replicas, the leader refuses until the follower is back."""
    why = "NotEnoughReplicasException: The size of the current ISR Set(1) is insufficient"
    signs = [
        sign("ISR shrinks", 50, offset=120, number=133, waits_ms=T0 + 41_000),
        *(sign("refused", 51 + at, detail=why, number=2) for at in range(4)),
        sign("ISR grows", 70, detail="1 to 1,2"),
    ]
    (row,) = told(signs)
    assert (seconds(row), row["attempts"], row["certainty"], row["evidence"]) == ((41, 70), 4, "certain", "broker log")
    assert row["evidence_offsets"] == [120]


def test_a_follower_that_had_all_shrinks_the_isr_and_nothing_is_stuck() -> None:
    assert told([sign("ISR shrinks", 50, offset=133, number=133, waits_ms=None)]) == []


def test_a_former_leader_that_refuses_is_no_stuck_partition() -> None:
    assert (
        told([sign("refused", 50, detail="NotLeaderOrFollowerException: For requests intended only for the leader")])
        == []
    )


def test_under_min_isr_a_period_lasts_until_a_line_ends_it() -> None:
    """4.x takes appends all the time: the ISR's own line says that they are not committed."""
    signs = [
        sign("ISR shrinks", 50, offset=120, number=133, waits_ms=T0 + 41_000),
        sign("ISR", 50.1, detail="1 (under-min-isr)"),
        sign("ISR", 140, detail="1,2"),
    ]
    (row,) = told(signs)
    assert seconds(row) == (41, 140)


def test_a_period_from_timed_out_commits_began_a_timeout_before() -> None:
    fail = "The request timed out."
    signs = [
        sign("commit failed", at, detail=fail, group=group) for at in (45, 50, 55) for group in ("billing", "mail")
    ]
    (row,) = told(
        [*signs, sign("coordinator found", 45.2, group="billing"), sign("coordinator found", 58, group="billing")]
    )
    assert (seconds(row), row["groups"], row["certainty"]) == ((40, 58), ["billing", "mail"], "certain")


def test_one_groups_clients_alone_are_likely_for_their_network_may_be_at_fault() -> None:
    (row,) = told([sign("commit failed", at, detail="REQUEST_TIMED_OUT", group="billing") for at in (45, 50)])
    assert (row["certainty"], row["evidence"]) == ("likely", "client log")


def test_one_failed_commit_is_a_hiccup() -> None:
    assert told([sign("commit failed", 45, detail="REQUEST_TIMED_OUT", group="billing")]) == []


def test_failures_around_a_move_are_the_move() -> None:
    failed = [sign("commit failed", at, detail="The coordinator is not available.", group="billing") for at in (45, 46)]
    assert told([*failed, sign("epoch", 47)]) == []


def test_failures_that_are_far_apart_are_two_periods() -> None:
    failed = [sign("commit failed", at, detail="REQUEST_TIMED_OUT", group="billing") for at in (45, 50, 245, 250)]
    assert [seconds(row)[0] for row in told(failed)] == [40, 240]


def test_two_freezes_with_the_usual_pace_in_between_are_two_periods() -> None:
    """As a follower that hangs for 25 s and, 20 s later, for 30 s: its clients' lines are less than 30 s apart."""
    times = [at for at in STEADY if not (20 < at < 45 or 65 < at < 95)]
    slow = paced("billing", 3, commits(*times, *(100.0 + at for at in range(20)), jump_at=45, jump=250))
    fail = "REQUEST_TIMED_OUT"
    signs = [
        sign("commit failed", at, detail=fail, group="billing") for at in (25, 30, 35, 40, 45.5, 71, 76, 81, 86, 91)
    ]
    first, second = told(signs, slow)
    assert (seconds(first), first["attempts"]) == ((20, 45), 5)
    assert (seconds(second)[0], second["attempts"]) == (66, 5)


def test_an_error_ends_between_two_words_and_lines_have_their_group() -> None:
    words = "Offset commit failed for " + "a partition " * 20
    (row,) = told([sign("commit failed", at, detail=words, group="billing") for at in (45, 50)])
    assert row["errors"] == [
        "Offset commit failed for a partition a partition a partition a partition a partition a partition a partition a ..."
    ]
    assert row["evidence_lines"] == ["server.log:450 (billing)", "server.log:500 (billing)"]


# ------------------------------------------------------------------------------------------------ rhythm


def test_groups_that_slow_down_together_and_jump_are_likely_stuck() -> None:
    (row,) = told([], hit("billing"), hit("mail", shift=0.3), paced("audit", 5, commits(*STEADY)))
    assert (row["groups"], row["certainty"], row["evidence"]) == (["billing", "mail"], "likely", "rhythm")
    assert seconds(row) == (40, 65.3)


def test_tries_at_the_pace_of_the_timeout_are_one_stretch() -> None:
    """The same offset again and again, five seconds apart, and then all at once: appends go on, commits fail."""
    times = [*(float(at) for at in range(41)), 45.0, 50.0, 55.0, *(56.0 + at for at in range(40))]
    rows, offset = [], 0
    for place, at in enumerate(times):
        offset += 0 if 41 < at < 55 else 150 if at == 55 else 10
        rows.append((place, int(T0 + at * 1000), "orders-0", offset))
    (row,) = told([], paced("billing", 3, rows), hit("mail"), paced("audit", 5, commits(*STEADY)))
    assert row["groups"] == ["billing", "mail"]


def repeating(jump: int, pause: float = 5.1) -> list[tuple[int, int, str, int]]:
    """A group that commits each second, the same offset again at 40 s + ``pause``, and goes on at 65 s by ``jump`` records."""
    times = [at for at in STEADY if not 40 < at < 65] + [40 + pause]
    rows, offset = [], 0
    for place, at in enumerate(sorted(times)):
        offset += 0 if at == 40 + pause else jump if at == 65 else 10
        rows.append((place, int(T0 + at * 1000), "orders-0", offset))
    return rows


def test_the_only_group_of_a_partition_that_repeated_a_commit_and_had_read_on_is_likely_stuck() -> None:
    """As groups of 3.4 and 4.1 did: a commit, the same one after 5 s, and 20 s later all that was read meanwhile."""
    (row,) = told([], paced("billing", 3, repeating(250)), paced("audit", 5, commits(*STEADY)))
    assert (row["groups"], row["certainty"], row["evidence"]) == (["billing"], "likely", "repeated")
    assert seconds(row) == (40, 65)


@pytest.mark.parametrize(
    ("rows", "signs"),
    [
        pytest.param(repeating(10), [], id="it had nothing to commit, and goes on with its usual step"),
        pytest.param(repeating(5000), [], id="a backlog came at once"),
        pytest.param(repeating(250, pause=8.0), [], id="it repeated the commit after another time"),
        pytest.param(repeating(250), [sign("epoch", 43)], id="another leader got the repeated commit"),
        pytest.param(
            [*repeating(250)[:41], (1000, int(T0 + 42_000), None, None), *repeating(250)[41:]], [], id="it rebalanced"
        ),
    ],
)
def test_a_single_group_that_was_slow_for_another_reason_is_a_hint_at_most(rows: list[Any], signs: list[Row]) -> None:
    found = told(signs, paced("billing", 3, rows), paced("audit", 5, commits(*STEADY)))
    assert [row["certainty"] for row in found] in ([], ["possible"])


def test_a_group_of_several_that_repeated_a_commit_alone_is_a_hint() -> None:
    others = paced("mail", 3, commits(*STEADY)), paced("audit", 5, commits(*STEADY))
    assert [row["certainty"] for row in told([], paced("billing", 3, repeating(250)), *others)] == ["possible"]


def test_one_group_is_a_hint_and_no_more() -> None:
    (row,) = told([], hit("billing"), paced("audit", 5, commits(*STEADY)))
    assert row["certainty"] == "possible"


def test_a_group_without_records_resumes_with_its_usual_step() -> None:
    quiet = [paced(group, 3, commits(*HELD)) for group in ("billing", "mail")]
    assert told([], *quiet, paced("audit", 5, commits(*STEADY))) == []


def test_where_everybody_stops_it_is_no_partition() -> None:
    assert told([], hit("billing"), hit("mail"), hit("audit", 5)) == []


def test_most_groups_of_a_partition_have_to_be_hit() -> None:
    others = [paced(name, 3, commits(*STEADY)) for name in ("a", "b", "c", "d")]
    assert told([], hit("billing"), *others, paced("audit", 5, commits(*STEADY))) == []


def test_a_pause_in_which_a_group_rebalanced_shows_nothing_by_itself() -> None:
    marked = commits(*HELD, jump_at=65, jump=250)
    rows = [*marked[:41], (1000, int(T0 + 50_000), None, None), *marked[41:]]
    assert told([], paced("billing", 3, rows), hit("mail"), paced("audit", 5, commits(*STEADY)))[0]["groups"] == [
        "mail"
    ]


def test_a_partition_that_paused_with_one_that_has_lines_is_part_of_its_period() -> None:
    signs = [sign("commit failed", at, detail="REQUEST_TIMED_OUT", group="billing") for at in (45.1, 50, 55, 60)]
    found = told(signs, hit("billing"), hit("audit", 6), paced("mail", 5, commits(*STEADY)))
    assert [(row["log_partition"], row["evidence"], row["certainty"]) for row in found] == [
        (6, "together", "likely"),
        (3, "client log", "likely"),
    ]


def test_a_group_without_members_did_not_stop_with_another_partition() -> None:
    signs = [sign("commit failed", at, detail="REQUEST_TIMED_OUT", group="billing") for at in (45.1, 50, 55, 60)]
    held = commits(*HELD, jump_at=65, jump=250)
    away = paced("audit", 6, [*held[:41], (1000, int(T0 + 50_000), None, None), *held[41:]])
    found = told(signs, hit("billing"), away, paced("mail", 5, commits(*STEADY)))
    assert [(row["log_partition"], row["evidence"]) for row in found] == [(3, "client log")]


def test_a_group_without_records_did_not_stop_with_another_partition() -> None:
    """A group whose producers paused at about that time goes on from its last offset."""
    signs = [sign("commit failed", at, detail="REQUEST_TIMED_OUT", group="billing") for at in (45.1, 50, 55, 60)]
    idle = paced("audit", 6, commits(*HELD))
    found = told(signs, hit("billing"), idle, paced("mail", 5, commits(*STEADY)))
    assert [(row["log_partition"], row["evidence"]) for row in found] == [(3, "client log")]


def test_a_pace_needs_commits_enough() -> None:
    assert paced("billing", 3, commits(1, 2, 3)) == []
