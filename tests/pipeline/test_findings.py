"""Findings: each kind from rows made by hand, in the words of an operator, and nothing that the rows don't show."""

from __future__ import annotations

from typing import Any

import pytest

from broker_sim.pipeline.compaction import compaction
from broker_sim.pipeline.facts import ReportFacts
from broker_sim.pipeline.findings import MOST_ALIKE, findings, text
from broker_sim.pipeline.tables.duplicate_windows import DUPLICATE_WINDOWS
from broker_sim.pipeline.tables.stuck_partitions import STUCK_PARTITIONS
from tests.pipeline.facts import Row, churned, facts, hotspot, rebalance, regression, row, window
from tests.pipeline.offsets import T0


def stuck(from_: int, to: int | None, **columns: Any) -> Row:
    """__consumer_offsets-12 took nothing between these ms after T0."""
    lasted = (600_000 if to is None else to) - from_
    known = {
        "log": "__consumer_offsets-12",
        "log_partition": 12,
        "from_ms": T0 + from_,
        "to_ms": None if to is None else T0 + to,
        "stuck_ms": lasted,
        "silence_ms": lasted,
        "attempts": 23,
        "waiting": 0,
        "errors": ["REQUEST_TIMED_OUT"],
        "groups": ["billing"],
        "evidence": "appends",
    }
    return row(STUCK_PARTITIONS.names, **{**known, **columns})


def duplicate(first: int, behind: int, **columns: Any) -> Row:
    known = {
        "group": "billing",
        "topic": "orders",
        "partition": 0,
        "from_offset": first,
        "to_offset": behind,
        "records": behind - first,
        "evidence": "delivered",
        "from_generation": 1,
        "to_generation": 2,
        "from_client": "app-1",
        "to_client": "app-2",
        "at_ms": T0 + 1000,
    }
    return row(DUPLICATE_WINDOWS.names, **{**known, **columns})


def only(known: ReportFacts) -> str:
    """The one finding's sentence."""
    (found,) = findings(known)
    return found.text


def test_nothing_unusual_is_reported_with_the_input() -> None:
    known = facts(counts={"rebalances": 3})
    assert only(known) == "Nothing unusual was found in 2 groups, 100 committed offsets and 3 rebalances."
    assert findings(known)[0].severity == "good"


def test_a_log_alone_is_reported_with_what_it_cannot_show() -> None:
    log = {"log_partition": 12, "records": 100, "first_offset": 9_000, "last_offset": 9_999}
    known = facts(counts={"rebalances": 3}, journal=None, partitions=[log])
    assert only(known) == (
        "Nothing unusual was found in 2 groups, 100 committed offsets and 3 rebalances. A log alone shows only some stuck"
        " partitions, and no records that were delivered twice. 99% of the log's records were deleted by compaction or"
        " retention; their contents are unknown."
    )
    whole = facts(counts={"rebalances": 3}, journal=None, partitions=[{**log, "records": 10_000, "first_offset": 0}])
    assert only(whole).endswith("and no records that were delivered twice.")
    whole.lines = ["server.log"]
    assert only(whole).endswith("3 rebalances. Logs do not show records that were delivered twice.")


def test_a_note_alone_does_not_hide_that_nothing_is_wrong() -> None:
    found = findings(facts(lag={"billing": [window(0, 500), window(10_000, 0)]}))
    assert [one.kind for one in found] == ["nothing", "lag"]
    assert found[0].text.startswith("Only a note was found in 2 groups, ")


# ------------------------------------------------------------------------------------------------ stuck


def test_a_stuck_partition_is_reported_with_its_groups() -> None:
    known = facts(
        stuck=[stuck(98_000, 139_000)],
        rebalances=[
            rebalance(98_500, 5000, end="failed", cause="sync failed"),
            rebalance(103_500, 5000, end="failed", cause="sync failed"),
            rebalance(138_500, 900),
        ],
        neighbours={12: ["audit", "billing", *(f"g{n}" for n in range(6))]},
    )
    assert only(known) == (
        "billing never became Stable between 22:14:58.500 and 22:15:39: its offsets partition 12 accepted no append (23 attempts, "
        "answered REQUEST_TIMED_OUT); 7 other groups share it: audit, g0, g1 and 4 more."
    )


def test_a_group_is_unstable_from_its_rebalance_on_and_not_from_the_first_failure() -> None:
    known = facts(stuck=[stuck(98_000, 139_000)], rebalances=[rebalance(110_000, 29_500)])
    assert "never became Stable between 22:15:10 and 22:15:39, nor committed anything from 22:14:58 on" in only(known)


def test_a_group_that_became_stable_meanwhile_only_could_not_commit() -> None:
    known = facts(stuck=[stuck(98_000, 139_000)], rebalances=[rebalance(100_000, 2000)])
    assert only(known).startswith(
        "billing could not commit between 22:14:58 and 22:15:39: its offsets partition 12 accepted no append"
    )


def test_groups_are_named_together_and_a_period_without_an_end_is_open() -> None:
    known = facts(stuck=[stuck(98_000, None, groups=["audit", "billing"], errors=[], attempts=2, waiting=2)])
    assert only(known) == (
        "audit and billing could not commit since 22:14:58: their offsets partition 12 committed no append (2"
        " attempts); it still is at the end of the input."
    )


def test_a_data_partition_and_a_missing_coordinator_have_words_of_their_own() -> None:
    produced = stuck(
        0, 5000, log="orders-0", log_partition=None, groups=[], evidence="produce", errors=["NOT_ENOUGH_REPLICAS"]
    )
    assert only(facts(stuck=[produced])).startswith(
        "orders-0 accepted no record (23 attempts, answered NOT_ENOUGH_REPLICAS) between"
    )
    gone = stuck(0, 5000, evidence="answers", errors=["NOT_COORDINATOR"])
    assert "its offsets partition 12 had no coordinator that answered (23 attempts, answered NOT_COORDINATOR)" in only(
        facts(stuck=[gone])
    )


def test_a_silence_of_a_log_without_a_journal_is_a_hint() -> None:
    found = findings(
        facts(silences=[stuck(0, 40_000, evidence="silence", attempts=None, errors=None, groups=None, others=900)])
    )
    assert [(one.kind, one.severity) for one in found] == [("nothing", "good"), ("no records", "note")]
    assert found[1].text == (
        "Nothing was written to __consumer_offsets-12 between 22:13:20 and 22:14:00 (40 s), while others got 900 records; it was busy"
        " before and after. Whether any client tried to write is not in the log."
    )


def test_rebalances_of_a_stuck_partition_are_no_findings_of_their_own() -> None:
    known = facts(
        stuck=[stuck(0, 100_000)],
        rebalances=[rebalance(at * 12_000, 11_000, end="failed", cause="sync failed") for at in range(8)],
    )
    assert [one.kind for one in findings(known)] == ["stuck"]


# ------------------------------------------------------------------------------------------------ rebalances


def test_frequent_rebalances_are_reported_with_the_most_frequent_cause() -> None:
    rows = [rebalance(at * 20_000, 2000, cause="session timeout") for at in range(4)]
    rows += [rebalance(90_000, 2000, cause="join")]
    assert only(facts(rebalances=rows)) == (
        "billing rebalanced 5 times within 1 min 32 s from 22:13:20 on; 4 times because of session timeouts (as when the session of "
        "app-1 expired)."
    )


def test_few_rebalances_or_far_apart_are_not_worth_a_word() -> None:
    few = [rebalance(at * 1000, 500) for at in range(4)]
    far = [rebalance(at * 100_000, 500, group="audit") for at in range(6)]
    assert findings(facts(rebalances=few + far))[0].kind == "nothing"


def test_failed_ones_weigh_more() -> None:
    rows = [rebalance(at * 10_000, 2000, end="failed") for at in range(6)]
    (found,) = findings(facts(rebalances=rows))
    assert found.severity == "bad"
    assert "6 of them restarted before they were Stable" in found.text


def test_the_longest_rebalance_is_reported_with_what_it_waited_for() -> None:
    slow = rebalance(60_000, 45_000, preparing_ms=44_000, timed_out=["app-3"], cause="join")
    assert only(facts(rebalances=[rebalance(0, 12_000, preparing_ms=11_000), slow])) == (
        "billing took 45 s to rebalance at 22:14:20, as app-1 joined: 44 s of it until the rebalance timeout"
        " expired, without a JoinGroup of app-3. 1"
        " other also took long."
    )


def test_a_member_that_did_not_rejoin_is_reported_however_short_the_wait() -> None:
    waited = rebalance(0, 4000, preparing_ms=3900, timed_out=["app-3-5f0c2f7e-8d3b-4f4e-9d2a-1c2b3d4e5f60"])
    assert "3.9 s of it until the rebalance timeout expired, without a JoinGroup of app-3." in only(
        facts(rebalances=[waited])
    )


def test_an_expired_session_is_reported_with_member_and_time() -> None:
    rows = [
        rebalance(0, 500, cause="session timeout"),
        rebalance(200_000, 500, cause="session timeout", who_clients=["app-2"]),
    ]
    (found,) = findings(facts(rebalances=rows))
    assert (found.kind, found.severity, found.certainty) == ("session expired", "warn", "certain")
    assert found.text == (
        "The session of app-1 in billing expired at 22:13:20, and the group rebalanced. The same once more until 22:16:40: app-2."
    )
    assert "A static member (group.instance.id) whose max.poll.interval.ms passed sends none either" in found.advice


def test_sessions_that_a_rebalance_waited_for_expired_later_than_it_began() -> None:
    lost = "app-3-5f0c2f7e-8d3b-4f4e-9d2a-1c2b3d4e5f60"
    waited = {"held_by": "session", "held_ms": 4500, "held_who": [lost]}
    rows = [
        rebalance(0, 500, cause="session timeout"),
        rebalance(200_000, 5000, cause="join", **waited),
    ]
    found = next(one for one in findings(facts(rebalances=rows)) if one.kind == "session expired")
    assert found.text.endswith(" The same once more until 22:16:44.500: app-3.")
    assert found.to_ms == T0 + 204_500


def test_members_that_come_one_by_one_are_a_deployment_and_no_alarm() -> None:
    found = findings(facts(rebalances=[rebalance(at * 2000, 500) for at in range(6)]))
    assert [(one.kind, one.severity) for one in found] == [("nothing", "good"), ("frequent rebalances", "note")]


def test_a_member_that_expires_and_rejoins_gets_no_advice_about_a_common_start() -> None:
    """Nothing is heard of it within its session, as where the heartbeats' interval is longer. (node-rdkafka #898)"""
    run = [rebalance(at * 7000, 500, cause="session timeout" if at % 2 else "join") for at in range(11)]
    found = next(one for one in findings(facts(rebalances=run)) if one.kind == "frequent rebalances")
    assert "; 5 times because of session timeouts (as when the session of app-1 expired)." in found.text
    assert found.severity == "warn"
    assert "start them together" not in found.advice


def test_a_group_by_epochs_is_not_advised_to_wait_for_its_members() -> None:
    """group.initial.rebalance.delay.ms is a classic group's."""
    run = [rebalance(at * 2000, 500, kind="consumer") for at in range(6)]
    found = next(one for one in findings(facts(rebalances=run)) if one.kind == "frequent rebalances")
    assert "group epoch" in found.advice
    assert "initial.rebalance.delay" not in found.advice


def test_changed_metadata_is_reported_if_known() -> None:
    changes = ["orders: 2 to 6 partitions"]
    run = [rebalance(at * 2000, 500, cause="metadata change", cause_changes=changes) for at in range(6)]
    found = next(one for one in findings(facts(rebalances=run)) if one.kind == "frequent rebalances")
    assert "(as when metadata changed (orders: 2 to 6 partitions))" in found.text


def test_log_lines_of_a_rebalance_name_its_group() -> None:
    """As those of two groups may be in one file."""
    slow = rebalance(0, 20_000, source="log", evidence_lines=["server.log:12", "server.log:15"])
    (found,) = [one for one in findings(facts(rebalances=[slow])) if one.kind == "slow rebalance"]
    assert found.lines == ("server.log:12 (billing)", "server.log:15 (billing)")
    assert [one["group"] for one in found.to_dict()["evidence"]] == ["billing", "billing"]


def test_a_late_assignment_is_another_finding() -> None:
    slow = rebalance(0, 30_000, preparing_ms=1000, completing_ms=29_000)
    assert "most of it until the assignment was stored" in only(facts(rebalances=[slow]))


def test_members_that_fall_silent_are_counted() -> None:
    known = facts(churn=[churned(joins=6, expirations=4, leaves=0), churned("audit", joins=90, expirations=3)])
    assert only(known) == "billing lost 4 members to session timeouts; 6 joined."


def test_static_members_that_fall_silent_are_not_advised_to_become_static() -> None:
    known = facts(churn=[churned(joins=6, expirations=4, static_expirations=4, leaves=0)])
    (one,) = findings(known)
    assert one.text == "billing lost 4 members to session timeouts, all of them static; 6 joined."
    assert "Static members send no LeaveGroup" in one.advice
    mixed = facts(churn=[churned(joins=6, expirations=4, static_expirations=1, leaves=0)])
    assert only(mixed) == "billing lost 4 members to session timeouts, 1 of them static; 6 joined."


# ------------------------------------------------------------------------------------------------ offsets


@pytest.mark.parametrize(
    ("how", "severity", "words"),
    [
        (
            "rebalance",
            "bad",
            "billing committed a lower offset after a rebalance on orders-0: from 1,200 to 950 at 22:13:21, as"
            " generation 2 followed 1;",
        ),
        (
            "rewind",
            "warn",
            "billing committed a lower offset within a generation on orders-0: from 1,200 to 950 at 22:13:21;",
        ),
        ("reset", "note", "billing was reset from outside on orders-0: from 1,200 to 950 at 22:13:21;"),
        (
            "deleted",
            "warn",
            "billing started again after its offset had been deleted on orders-0: from 1,200 to 950 at 22:13:21;",
        ),
        (None, "warn", "billing committed a lower offset on orders-0: from 1,200 to 950 at 22:13:21;"),
    ],
)
def test_each_way_back_has_its_words(how: str | None, severity: str, words: str) -> None:
    found = next(
        one for one in findings(facts(regressions=[regression(1000, 1200, 950, how)])) if one.kind == "regression"
    )
    assert (found.severity, found.text) == (severity, f"{words} up to 250 records are read again.")


def test_many_falls_of_a_group_are_one_finding() -> None:
    rows = [regression(at, 100 + at, 99 + at) for at in range(5)] + [regression(9, 500, 400, partition=3)]
    assert only(facts(regressions=rows)).endswith(
        "on orders-3: from 500 to 400 at 22:13:20.009, as generation 2 followed 1; up to 100 records are read again. It did so 6 times "
        "(up to 105 records in all)."
    )


def test_duplicates_are_reported_with_their_members() -> None:
    known = facts(duplicates=[duplicate(90, 120), duplicate(5, 7, partition=1)])
    assert only(known) == (
        "billing got 32 records twice: offsets 90 to 119 of orders-0 in generation 1 and again in 2 (to app-1, then to app-2), "
        "and 1 window more like it."
    )


def test_records_only_sent_twice_are_a_note() -> None:
    found = findings(facts(duplicates=[duplicate(90, 91, evidence="fetched")]))
    assert [one.severity for one in found] == ["good", "note"]
    assert found[1].text.startswith(
        "billing got 1 record twice in Fetch responses: offset 90 of orders-0 in generation 1"
    )


def test_a_group_that_stopped_committing_while_its_logs_grew() -> None:
    rows = [window(0, 5, 10), window(10_000, 3, 10), *(window(at * 10_000, at * 400, 0) for at in range(2, 10))]
    assert only(facts(lag={"billing": rows})) == (
        "billing committed for the last time at 22:13:30, while its logs grew: from a lag of 3 to 3,600 at the end."
    )


def test_a_group_that_falls_behind_and_one_that_caught_up() -> None:
    behind = [window(at * 10_000, 100 + at * 400, 5) for at in range(9)]
    assert only(facts(lag={"billing": behind})) == "billing falls behind: its lag grew from 100 to 3,300."
    caught_up = [window(0, 5, 5), window(10_000, 900, 5), window(20_000, 0, 5)]
    assert findings(facts(lag={"billing": caught_up}))[1].text == (
        "billing was up to 900 records behind at 22:13:30, and is 0 behind at the end."
    )


def test_a_group_with_deleted_offsets_has_not_caught_up() -> None:
    rows = [window(0, 5, 5), window(10_000, 900, 5), window(20_000, None, 0, deleted=3)]
    found = findings(facts(lag={"billing": rows}))
    assert found[1].text == (
        "billing was up to 900 records behind at 22:13:30, and 900 when its last committed offsets were deleted; its lag since then"
        " is unknown."
    )
    rows = [window(0, 5, 5), window(10_000, 900, 5), window(20_000, 10, 0, deleted=2)]
    assert findings(facts(lag={"billing": rows}))[1].text == (
        "billing was up to 900 records behind at 22:13:30, and is 10 behind at the end (without 2 partitions whose offsets are"
        " deleted)."
    )


def deletion(**columns: Any) -> Row:
    known = {
        "group": "billing",
        "log_partition": 12,
        "at_ms": T0 + 5000,
        "offsets": 6,
        "idle_ms": 7 * 86_400_000 + 90_000,
    }
    known |= {"example": {"topic": "orders", "partition": 0}, "group_ended": True, "how": "expired", "returned": 0}
    return {**known, **columns}


def test_offsets_that_expired_with_their_group_are_reported_as_expired() -> None:
    found = findings(facts(deletions=[deletion()]))
    assert [(one.kind, one.severity) for one in found] == [("nothing", "good"), ("deleted offsets", "note")]
    assert found[1].text == (
        "billing lost its committed offsets of 6 partitions, such as orders-0 at 22:13:25: nothing was committed for 7 d 1 min 30 s,"
        " and by default offsets expire after 7 days; the group itself was deleted with them."
    )


def test_an_offset_that_was_deleted_and_begun_anew_is_a_warning() -> None:
    row = deletion(offsets=1, idle_ms=60_000, how="deleted", group_ended=False, returned=1)
    (found,) = findings(facts(deletions=[row, deletion(at_ms=T0 + 9000, offsets=2)]))
    assert (found.kind, found.severity) == ("deleted offsets", "warn")
    assert found.text == (
        "billing lost its committed offset of orders-0 at 22:13:25, 1 min after the last commit: deleted"
        " with their topic or by a request,"
        " or retained for less than 7 days here; 1 offset was committed again later. At other times it lost 2 offsets more."
    )


def mark(what: str, at: int, **columns: Any) -> Row:
    known = {"what": what, "ts_ms": T0 + at, "partition": None, "group": None, "detail": None, "file": "server.log"}
    return {**known, "line": at, **columns}


BY_REQUEST = mark("deleted", 5000, detail="mail, billing")
OF_ITS_OFFSETS = mark("offsets deleted", 5100, group="billing")


@pytest.mark.parametrize(
    ("marks", "says"),
    [
        ([mark("expired", 4990, partition=12)], "the broker logged that they expired"),
        ([mark("expired", 3000, partition=12)], "by default offsets expire"),  # those of another group
        ([mark("expired", 4990, partition=11)], "by default offsets expire"),
        (
            [mark("expired", 4990, partition=12, number=1)],
            "by default offsets expire",
        ),  # the group's record, without offsets
        ([mark("expired", 4990, partition=12, number=8)], "the broker logged that they expired"),
        ([mark("expired", 4990, partition=12), BY_REQUEST], "the group was deleted by a request"),
        ([mark("expired", 4990, partition=12), OF_ITS_OFFSETS], "they were deleted by a request"),
        ([mark("deleted", 5000, detail="mail, billing-2")], "by default offsets expire"),
    ],
)
def test_a_line_that_names_the_group_says_why_offsets_are_deleted(marks: list[Row], says: str) -> None:
    found = next(one for one in findings(facts(deletions=[deletion()], marks=marks)) if one.kind == "deleted offsets")
    assert says in found.text


def test_a_date_is_printed_if_the_day_differs_from_the_findings() -> None:
    day = 86_400_000
    found = findings(facts(stuck=[stuck(0, day)]))[0]
    assert "between 22:13:20 and 2023-11-15 22:13:20" in found.text
    assert text([found]).startswith("2023-11-14 22:13:20.000  ")


def test_a_group_without_own_records_is_known_by_its_other_records() -> None:
    def advice(**partition: int) -> str:
        fallen = regression(0, 9, 5, None, from_generation=None, to_generation=None)
        return findings(facts(regressions=[fallen], partitions=[{"log_partition": 12, **partition}]))[0].advice

    assert "the log is whole" in advice(records=10, first_offset=0, last_offset=9)
    assert "has been cleaned" in advice(records=8, first_offset=0, last_offset=9)
    assert "has been cleaned" in advice(records=10, first_offset=5, last_offset=14)


def test_an_unknown_or_small_lag_is_no_finding() -> None:
    rows = {"billing": [window(0, None, 5)], "audit": [window(0, 0, 1), window(10_000, 40, 0)]}
    assert findings(facts(lag=rows))[0].kind == "nothing"


# ------------------------------------------------------------------------------------------------ partitions, input


def test_a_hotspot_is_reported_with_its_busiest_group() -> None:
    rows = [hotspot(12, 8000, 0.8, groups=3, busiest_group="billing", busiest_records=7000), hotspot(3, 2000, 0.2)]
    found = findings(facts(hotspots=rows))[1]
    assert found.text == "__consumer_offsets-12 holds 80% of all records, of 3 groups; billing alone wrote 70% of all."


def test_few_records_make_no_hot_partition() -> None:
    assert findings(facts(hotspots=[hotspot(12, 30, 1.0)]))[-1].kind == "nothing"


def test_another_number_of_partitions_and_misplaced_groups_are_reported() -> None:
    found = findings(facts(hotspots=[hotspot(3, 10, 0.5, partitions=12), hotspot(4, 10, 0.5, partitions=12)]))
    assert found[1].text == "The groups are placed as if __consumer_offsets had 12 partitions, not Kafka's usual 50."
    odd = only(facts(hotspots=[hotspot(3, 10, 1.0, partitions=None, misplaced=1, groups=3)]))
    assert odd == "1 group is in another offsets partition than the hash selects (3), with any number of partitions."


def test_one_or_two_groups_do_not_show_the_number_of_partitions() -> None:
    few = findings(facts(hotspots=[hotspot(at, 10, 0.5, partitions=None, misplaced=1) for at in (0, 1)]))[-1]
    assert few.severity == "note"
    assert few.text == (
        "2 groups are in other partitions (0 and 1) than with Kafka's default of 50 partitions of"
        " __consumer_offsets; so few groups do not show how"
        " many there are."
    )


def test_unreadable_input_is_reported_with_its_position() -> None:
    skipped = {"file": "x.log", "position": 4711, "bytes": 9, "reason": "the CRC is wrong"}
    assert only(facts(skipped=[skipped, skipped], left_out={"skipped": 3})) == (
        "5 pieces of the input could not be read: x.log at 4,711: the CRC is wrong, and 4 more."
    )


# ------------------------------------------------------------------------------------------------ all together


def test_the_weightiest_come_first() -> None:
    known = facts(
        stuck=[stuck(98_000, 139_000)],
        regressions=[regression(1000, 1200, 950), regression(2000, 50, 40, "reset", group="audit")],
        skipped=[{"file": "x", "position": None, "bytes": None, "reason": "not a log"}],
        rebalances=[rebalance(300_000, 45_000)],
    )
    assert [one.kind for one in findings(known)] == [
        "stuck",
        "regression",
        "unreadable input",
        "slow rebalance",
        "regression",
    ]


def test_many_of_a_kind_are_cut_short_and_the_rest_is_named() -> None:
    rows = [rebalance(0, 20_000 + n, group=f"g{n}") for n in range(MOST_ALIKE + 6)]
    found = findings(facts(rebalances=rows))
    assert len(found) == MOST_ALIKE
    assert found[-1].text.endswith("To a lesser extent also: g5, g4, g3, g2, g1 and g0.")


def test_the_text_has_times_and_advice() -> None:
    told = text(findings(facts(regressions=[regression(1000, 1200, 950)])))
    assert told.startswith("2023-11-14 22:13:21.000  billing committed a lower offset")
    assert "\n    The new owner continued from an older offset" in told


def test_compaction_is_known_from_missing_records() -> None:
    def log(partition: int, records: int, first: int, last: int) -> Row:
        return {"log_partition": partition, "records": records, "first_offset": first, "last_offset": last}

    whole = compaction(facts(partitions=[log(3, 100, 0, 99)]))
    assert whole == [
        "No record is missing between the first and the last one of any partition: the log cleaner has deleted none."
    ]
    cleaned = compaction(facts(partitions=[log(3, 100, 0, 99), log(12, 100, 50, 949)], journal=None))
    assert cleaned[0].startswith(
        "800 of 1,000 records (80%) between the first and the last of their partitions are missing"
    )
    assert cleaned[1] == "1 partition does not begin at offset 0: earlier records were deleted."
    assert cleaned[2] == "Up to the last record of each partition 850 of 1,050 (81%) are missing in all."
    assert cleaned[-1].startswith("There is no journal")


@pytest.mark.parametrize(("took", "severity"), [(9550, "note"), (4000, None), (10_000, "warn")])
@pytest.mark.parametrize("source", ["journal", "log"])
def test_a_rebalance_that_takes_longer_than_a_heartbeat_interval_is_a_note(
    source: str, took: int, severity: str | None
) -> None:
    known: dict[str, Any] = {"waited_ms": took, "waited_for": ["app-2"], "started_ms": None} if source == "log" else {}
    given = facts(rebalances=[rebalance(60_000, took, source=source, **known)])
    assert [one.severity for one in findings(given) if one.kind == "slow rebalance"] == ([severity] if severity else [])
