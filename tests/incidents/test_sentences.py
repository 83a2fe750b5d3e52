"""The check of sentences can fail: on ledgers and findings that are made by hand."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.incidents.ledger import Act, Event, GroupFacts, Ledger
from tests.incidents.score import judge, sentence_table, told
from tests.incidents.sentences import Sentence, sentence
from tests.incidents.truth import Truth, Witness, witnesses
from tests.incidents.words import duration, moment, names_in

T0 = 1_700_000_000_000
"""2023-11-14 22:13:20 UTC."""


def clock(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%H:%M:%S.%f")[:-3]


def acts(*rows: tuple[int, str, str, dict[str, Any]]) -> list[Act]:
    """Seconds after T0, client, what, with what."""
    return [Act(T0 + seconds * 1000, client, did, detail) for seconds, client, did, detail in rows]


def started(seconds: int, client: str, *partitions: int, session_ms: int = 6000) -> list[Act]:
    return acts(
        (seconds, client, "started", {"session_ms": session_ms, "instance_id": None}),
        (seconds + 1, client, "assigned", {"partitions": list(partitions)}),
    )


def ledger(*rows: list[Act], events: tuple[Event, ...] = (), kind: str = "classic") -> Ledger:
    """billing in partition 3, with these acts, and audit in 5, of which nothing is known."""
    mine = sorted((act for row in rows for act in row), key=lambda act: act.at_ms)
    groups = {
        "billing": GroupFacts(3, kind, "orders.1", ["billing-1", "billing-2"], mine),
        "audit": GroupFacts(5, "classic", "audit.2"),
    }
    return Ledger("4.1.0", "membership", 7, 1, "stopped", T0 - 60_000, T0 + 120_000, {}, groups, list(events))


def event(
    kind: str, start: int, end: int, group: str | None = "billing", partitions: tuple[int, ...] = (3,), **detail: Any
) -> Event:
    return Event(kind, False, T0 + start * 1000, T0 + end * 1000, "something", group, list(partitions), detail)


def said(
    truth: Ledger, kind: str, text: str, at: int, to: int | None = None, lines: tuple[Witness, ...] = (), **more: Any
) -> Sentence:
    found = {"kind": kind, "severity": "warn", "certainty": "certain", "group": "billing", "log_partition": 3, "text": text,
             "at_ms": T0 + at * 1000, "to_ms": None if to is None else T0 + to * 1000, **more}  # fmt: skip
    return sentence(Truth(truth, list(lines)), found)


def at(seconds: float) -> str:
    return clock(T0 + round(seconds * 1000))


KILLED = acts((10, "billing-1", "killed", {}))
TWO = [started(0, "billing-1", 0, 1), started(0, "billing-2", 2, 3)]
WAITED = "; a member with the same client id, billing-1, had joined by then, and waited for that session"
EXPIRED = "The session of {} in billing expired {} {}, and the group rebalanced{}."


@pytest.mark.parametrize(
    ("who", "how", "when", "rest", "true"),
    [
        ("billing-1", "at", 16, "", True),
        ("billing-1", "at", 15, "", True),
        ("billing-2", "at", 16, "", False),
        ("billing-1 and billing-2", "at", 16, "", False),
        ("billing-1", "at", 21, "", False),
        ("billing-1", "by", 21, "", True),
        ("billing-1", "by", 9, "", False),
        ("billing-1", "at", 16, "; the group had no other member", False),
        ("billing-1", "at", 16, "; a member with the same client id joined later", False),
        ("billing-1", "by", 16, WAITED, False),
        ("billing-1", "at", 16, f". The same once more until {at(30)}: billing-2", False),
    ],
)  # fmt: skip
def test_an_expired_session_is_of_who_was_killed(who: str, how: str, when: int, rest: str, true: bool) -> None:
    text = EXPIRED.format(who, how, at(when), rest)
    assert said(ledger(*TWO, KILLED), "session expired", text, when).true is true, text


def test_a_client_that_is_back_is_known_by_its_process() -> None:
    back = ledger(*TWO, KILLED, started(12, "billing-1", 0, 1))

    assert said(back, "session expired", EXPIRED.format("billing-1", "by", at(16), WAITED), 16).true is True
    late = ledger(*TWO, KILLED, started(20, "billing-1", 0, 1))
    assert said(late, "session expired", EXPIRED.format("billing-1", "by", at(16), WAITED), 16).true is False
    later = "; a member with the same client id joined later"
    assert said(late, "session expired", EXPIRED.format("billing-1", "at", at(16), later), 16).true is True


def test_the_last_of_several_sessions_expired_by_the_time_that_is_said() -> None:
    """A rebalance that waits for a session begins before it expires."""
    truth = ledger(*TWO, KILLED, acts((20, "billing-2", "killed", {})))
    text = EXPIRED.format("billing-1", "at", at(16), ". The same once more until {}: billing-2")
    assert said(truth, "session expired", text.format(at(26)), 16, 26).true is True
    early = said(truth, "session expired", text.format(at(21)), 16, 21)
    assert [claim.says for claim in early.false] == [f"2 of them until {T0 + 21_000}"]
    more = text.replace("once more", "5 times more")
    assert said(truth, "session expired", more.format(at(26)), 16, 26).true is False


def test_what_a_broker_logged_is_true_of_processes_that_live() -> None:
    line = Witness(T0 + 16_000, "billing", "removed", name="billing-2-00000000-0000-0000-0000-000000000000")
    text = EXPIRED.format("billing-2", "at", at(16), "")
    assert said(ledger(*TWO), "session expired", text, 16, lines=(line,)).true is True
    assert said(ledger(*TWO), "session expired", text, 16).true is False
    stuck = event("stuck", 5, 20, None)
    assert said(ledger(*TWO, events=(stuck,)), "session expired", text, 16).true is None


def test_a_ledger_without_acts_knows_whom_a_crash_hit() -> None:
    old = ledger(events=(event("crash", 10, 18, client="billing-1"),))
    assert said(old, "session expired", EXPIRED.format("billing-1", "at", at(16), ""), 16).true is True
    assert said(old, "session expired", EXPIRED.format("billing-2", "at", at(16), ""), 16).true is False
    storm = ledger(events=(event("storm", 10, 18),))
    assert said(storm, "session expired", EXPIRED.format("billing-2", "at", at(16), ""), 16).true is None


def test_who_left_had_closed_and_did_not_return() -> None:
    closed = acts(
        (10, "billing-1", "close", {}), (11, "billing-1", "closed", {}), (11, "billing-1", "ended", {"code": 0})
    )
    words = "{} left billing{} by {}, and did not rejoin; {} stayed."
    truth = ledger(*TWO, closed)
    assert said(truth, "departed", words.format("billing-1", "", at(11), 1), 11).true is True
    assert said(truth, "departed", words.format("billing-2", "", at(11), 1), 11).true is False
    assert said(truth, "departed", words.format("billing-1", "", at(11), 2), 11).true is False
    again = ledger(*TWO, closed, started(13, "billing-1", 0, 1))
    assert said(again, "departed", words.format("billing-1", "", at(11), 1), 11).true is False
    dead = ledger(*TWO, KILLED)
    assert said(dead, "departed", words.format("billing-1", "", at(16), 1), 16).true is False
    assert said(dead, "departed", words.format("billing-1", ", or expired,", at(16), 1), 16).true is True


def test_who_was_removed_may_be_back_as_another_member_or_as_the_same_one() -> None:
    words = "billing-1 left billing, or expired, by {}; 2 stayed, billing-1 among them under another member id."
    again = ledger(*TWO, KILLED, started(12, "billing-1", 0, 1))
    assert said(again, "departed", words.format(at(16)), 16).true is True
    assert said(ledger(*TWO, KILLED), "departed", words.format(at(16)), 16).true is False
    words = "billing-1 left billing, or expired, by {}, and rejoined under the same member id at {}; 1 stayed."
    busy = ledger(*TWO, acts((10, "billing-1", "block", {"seconds": 22})))
    assert said(busy, "departed", words.format(at(24), at(33)), 24).true is True
    assert said(again, "departed", words.format(at(16), at(17)), 16).true is False


def test_a_client_joins_again_by_itself_where_its_coordinator_was_in_trouble() -> None:
    text = EXPIRED.format("billing-1", "by", at(16), WAITED)
    lost = event("unclean election", 5, 14, None)
    assert said(ledger(*TWO, KILLED, events=(lost,)), "session expired", text, 16).true is True
    assert said(ledger(*TWO, KILLED), "session expired", text, 16).true is False


def test_the_session_of_a_member_that_does_not_poll_may_expire_under_kip_848() -> None:
    """A member id is a UUID, so the broker's line does not show which client it was."""
    line = Witness(T0 + 28_000, "billing", "removed", name="Nu9zdEw8Tl68k5MfwnkUnA")
    late = event("poll expiry", 10, 40, client="billing-1", max_poll_ms=10_000)
    truth = ledger(*TWO, events=(late,), kind="consumer")
    text = EXPIRED.format("{}", "at", at(28), "")
    assert said(truth, "session expired", text.format("billing-1"), 28, lines=(line,)).true is True
    assert said(truth, "session expired", text.format("billing-2"), 28, lines=(line,)).true is False
    assert said(truth, "session expired", text.format("billing-1"), 28).true is False


def test_brokers_log_members_whose_sessions_expired(tmp_path: Path) -> None:
    """The lines of GroupCoordinator (3.4) and of GroupMetadataManager (4.1, 4.4)."""
    logs = tmp_path / "logs" / "brokers" / "node-1"
    logs.mkdir(parents=True)
    (logs / "server.log").write_text(
        "[2023-11-14 22:13:36,000] INFO [GroupCoordinator id=1 topic=__consumer_offsets partition=3] [GroupId billing] Member"
        " Nu9zdEw8Tl68k5MfwnkUnA fenced from the group because the member session expired."
        " (org.apache.kafka.coordinator.group.GroupMetadataManager)\n"
        "[2023-11-14 22:13:36,500] INFO [GroupCoordinator 1]: Member app-1-x in group billing has failed, removing it from the"
        " group (kafka.coordinator.group.GroupCoordinator)\n"
    )
    assert list(witnesses(tmp_path)) == [
        Witness(T0 + 16_000, "billing", "removed", name="Nu9zdEw8Tl68k5MfwnkUnA"),
        Witness(T0 + 16_500, "billing", "removed", name="app-1-x"),
    ]


def committed(client: str, *rows: tuple[float, int, int]) -> list[Act]:
    """(seconds, partition, offset)."""
    return [
        Act(T0 + round(sec * 1000), client, "committed", {"offsets": {str(part): offset}}) for sec, part, offset in rows
    ]


STAYED = "orders.1-{} of billing stayed at {} from {} until {} (20 s), up to 40 records behind{}."
FROZEN = committed("billing-1", (9, 0, 90), (10, 0, 100), (30, 0, 140), (12, 2, 50), (22, 2, 80), (28, 2, 90))


@pytest.mark.parametrize(
    ("partition", "offset", "rest", "true"),
    [
        (0, 100, "", True),
        (0, 90, "", True),
        (2, 50, "", False),
        (0, 100, ", while other partitions moved on", True),
        (0, 100, ", and none of its partitions moved", False),
        (0, 100, ", while the group began 3 generations, and 5 times the session of a member expired", False),
        (0, 100, ", while the group began 3 generations, and twice the session of a member expired", False),
    ],
)
def test_an_offset_stayed_where_nothing_else_was_committed(partition: int, offset: int, rest: str, true: bool) -> None:
    if offset == 90:  # committed a second before: windows are no sharper
        partition, offset = 0, 100
    text = STAYED.format(partition, offset, at(10), at(30), rest)
    assert said(ledger(*TWO, FROZEN), "stalled", text, 10, 30).true is true


def test_an_offset_that_decreased_was_committed_so() -> None:
    rows = committed("billing-1", (9, 0, 90), (10, 0, 60), (11, 0, 120))
    words = (
        "billing committed a lower offset within a generation on orders.1-{}: from {} to {} at {}; the next commit, 1 s later, was at"
        " {} again{}."
    )
    sought = acts((10, "billing-1", "seek", {"back": 30}))
    for given, true in (((0, 90, 60, at(10), 120, ""), True), ((0, 95, 60, at(10), 120, ""), False),
                        ((0, 90, 60, at(20), 120, ""), False), ((0, 90, 60, at(10), 130, ""), False),
                        ((0, 90, 60, at(10), 120, "; its client logged a seek of the application"), False),
                        ((0, 90, 60, at(10), 120, ". It did so 3 times (up to 90 records in all)"), False)):  # fmt: skip
        assert said(ledger(*TWO, rows), "regression", words.format(*given), 10, 10).true is true, given
    text = words.format(0, 90, 60, at(10), 120, "; its client logged a seek of the application")
    assert said(ledger(*TWO, rows, sought), "regression", text, 10, 10).true is True


def test_a_decrease_is_no_larger_than_what_was_sought() -> None:
    words = "billing committed a lower offset within a generation on orders.1-0: from {} to 60 at {}; up to 30 records are read again."
    truth = ledger(events=(event("rewind", 9, 10, back=30),))
    assert said(truth, "regression", words.format(90, at(10)), 10, 10).true is True
    assert said(truth, "regression", words.format(91, at(10)), 10, 10).true is False
    assert said(truth, "regression", words.format(90, at(40)), 40, 40).true is None


def test_offsets_are_set_by_a_tool() -> None:
    tool = event("reset", 20, 22, to="--shift-by -40")
    rows = committed("billing-1", (9, 0, 90))
    words = "Offsets of billing were set from outside at {}: 3 partitions, orders.1-0 from {} to {}; up to 120 records are read again."
    truth = ledger(*TWO, rows, events=(tool,))
    assert said(truth, "reset", words.format(at(21), 90, 50), 21).true is True
    assert said(truth, "reset", words.format(at(21), 90, 40), 21).true is False
    assert said(truth, "reset", words.format(at(21), 80, 40), 21).true is False
    assert said(ledger(*TWO, rows), "reset", words.format(at(21), 90, 50), 21).true is False


def test_deleted_offsets_have_the_cause_that_is_named() -> None:
    words = (
        "billing lost its committed offsets of 3 partitions, such as orders.1-0 at {}: {}, 12 s after the last commit."
    )
    rows = committed("billing-1", (9, 0, 90))
    deletion = ledger(*TWO, rows, events=(event("group deletion", 20, 22),))
    expired = "they expired (offsets.retention.minutes)"
    assert (
        said(deletion, "deleted offsets", words.format(at(21), "the group was deleted by a request"), 21).true is True
    )
    assert said(deletion, "deleted offsets", words.format(at(21), expired), 21).true is False
    assert (
        said(ledger(*TWO, rows), "deleted offsets", words.format(at(21), "the group was deleted by a request"), 21).true
        is False
    )


def test_a_stuck_partition_committed_nothing() -> None:
    words = (
        "billing could not commit between {} and {}: its offsets partition {} committed nothing; its leader logged it."
    )
    freeze = event("stuck", 10, 30, None, (3,))
    assert said(ledger(*TWO, events=(freeze,)), "stuck", words.format(at(10), at(29), 3), 10, 29).true is True
    assert said(ledger(*TWO, events=(freeze,)), "stuck", words.format(at(10), at(29), 5), 10, 29).true is False
    assert said(ledger(*TWO, events=(freeze,)), "stuck", words.format(at(10), at(60), 3), 10, 60).true is False
    later = words.replace(": its", " at the latest: its").format(at(10), at(34), 3)
    freeze = event("stuck", 10, 30, None, (3,), resumed_ms=T0 + 25_000)
    for seconds, true in ((26, True), (20, False)):
        truth = ledger(*TWO, committed("billing-1", (seconds, 0, 7)), events=(freeze,))
        assert said(truth, "stuck", later, 10, 34).true is true
        assert said(truth, "stuck", words.format(at(10), at(34), 3), 10, 34).true is False
    done = committed("billing-1", (20, 0, 7))
    assert said(ledger(*TWO, done, events=(freeze,)), "stuck", words.format(at(10), at(29), 3), 10, 29).true is False


def test_a_slow_rebalance_accuses_who_was_busy() -> None:
    words = "billing took 20 s to rebalance at {}, as {} joined: 19 s of it until {} rejoined last."
    busy = acts((10, "billing-1", "block", {"seconds": 22}))
    truth = ledger(*TWO, busy, started(12, "billing-3", 0), events=(event("slow member", 10, 35, client="billing-1"),))
    assert said(truth, "slow rebalance", words.format(at(13), "billing-3", "billing-1"), 13, 33).true is True
    assert said(truth, "slow rebalance", words.format(at(13), "billing-3", "billing-2"), 13, 33).true is False
    assert said(truth, "slow rebalance", words.format(at(13), "billing-9", "billing-1"), 13, 33).true is False
    moved = ledger(*TWO, events=(event("move", 80, 90, None),))
    late = words.format(at(85), "billing-2", "billing-1")
    assert said(moved, "slow rebalance", late, 85, 105).true is None
    assert said(ledger(*TWO), "slow rebalance", late, 85, 105).true is False


def test_a_poll_timeout_is_of_who_did_not_poll() -> None:
    words = "{} of billing reported that the poll timeout (max.poll.interval.ms) expired, and left at {}."
    truth = ledger(*TWO, events=(event("poll expiry", 10, 40, client="billing-1", max_poll_ms=10_000),))
    assert said(truth, "poll timeout", words.format("billing-1", at(20)), 20).true is True
    assert said(truth, "poll timeout", words.format("billing-2", at(20)), 20).true is False
    assert said(truth, "poll timeout", words.format("billing-1", at(35)), 35).true is False


def test_a_storm_counts_who_came() -> None:
    truth = ledger(
        *TWO, KILLED, started(12, "billing-1", 0), acts((20, "billing-1", "killed", {})), started(22, "billing-1", 0)
    )
    words = "billing had 5 generations within 23 s from {} on; joined: billing-1 {} and billing-2 once; left or expired: billing-1 {}."
    assert said(truth, "storm", words.format(at(0), "3 times", "twice"), 0, 23).true is True
    assert said(truth, "storm", words.format(at(0), "5 times", "twice"), 0, 23).true is False
    assert said(truth, "storm", words.format(at(0), "3 times", "4 times"), 0, 23).true is False
    lines = tuple(Witness(T0 + 1000 * number, "billing", "generation", number=number) for number in range(1, 18))
    assert said(truth, "storm", words.format(at(0), "3 times", "twice"), 0, 23, lines=lines).true is False


def test_a_transaction_has_its_timeout() -> None:
    words = (
        "The transaction of {} in orders.1-0, begun at {}, was aborted after 31 s, as its timeout had expired ({} s)."
    )
    truth = ledger(*TWO, events=(event("hanging transaction", 10, 60, transactional_id="tx-1", timeout_ms=30_000),))
    assert said(truth, "transaction", words.format("tx-1", at(11), 30), 11, 42).true is True
    assert said(truth, "transaction", words.format("tx-1", at(11), 40), 11, 42).true is False
    assert said(truth, "transaction", words.format("tx-1", at(40), 30), 40, 71).true is False
    assert said(truth, "transaction", words.format("tx-2", at(11), 30), 11, 42).true is None


def test_a_group_is_in_its_partition() -> None:
    assert said(ledger(*TWO), "hotspot", "something", 1, log_partition=4).true is False
    assert said(ledger(*TWO), "hotspot", "something", 1).true is None
    assert said(ledger(*TWO), "hotspot", "something", 1, group="nobody").true is False


def test_a_kind_that_names_another_cause_is_counted_apart() -> None:
    storm = ledger(*TWO, FROZEN, events=(event("storm", 5, 35),))
    text = STAYED.format(0, 100, at(10), at(30), "")
    other = said(storm, "poison", text, 10, 30)
    assert (other.true, other.named) == (True, False)
    assert said(ledger(*TWO, FROZEN, events=(event("poison", 5, 35),)), "poison", text, 10, 30).named is True
    assert said(storm, "poison", text, 10, 30, severity="note").named is None


def test_the_table_counts_by_certainty() -> None:
    truth = ledger(*TWO, KILLED, events=(event("crash", 10, 16, client="billing-1"),))
    good, bad = (
        {"kind": "session expired", "severity": "warn", "certainty": certainty, "group": "billing", "log_partition": 3,
         "at_ms": T0 + 16_000, "to_ms": None, "text": EXPIRED.format(who, "at", at(16), "")}
        for who, certainty in (("billing-1", "certain"), ("billing-2", "likely"))
    )  # fmt: skip
    score = judge("x", truth, [good, bad, {**bad, "severity": "note"}])
    written = sentence_table([score])
    assert "| certain | warn, bad | 1 | 0 | 0 |" in written
    assert "| likely | warn, bad | 0 | 1 | 0 |" in written
    assert "| likely | note | 0 | 1 | 0 |" in written
    assert "False sentences above a note: 1 (session expired 1)." in written
    assert [one.found for one in score.false] == [bad]
    assert any(
        line.startswith("  FALSE SENTENCE session expired warn, likely: The session of billing-2")
        for line in told(score)
    )


def test_brokers_lines_are_read(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "brokers" / "node-1" / "server.log"
    log.parent.mkdir(parents=True)
    log.write_text(
        "[2023-11-14 22:13:36,000] INFO [GroupCoordinator id=1] Member billing-1-u in group billing has failed, removing it from the"
        " group. (x)\n"
        "[2023-11-14 22:13:36,000] INFO [GroupCoordinator id=1] Stabilized group billing generation 4 with 3 members. (x)\n"
        "[2023-11-14 22:13:36,000] INFO [GroupCoordinator id=1] [GroupId audit] Bumped group epoch to 7 with metadata hash 1. (x)\n"
        "a line of something else\n"
    )
    at_ms = T0 + 16_000
    assert list(witnesses(tmp_path)) == [
        Witness(at_ms, "billing", "removed", name="billing-1-u"),
        Witness(at_ms, "billing", "generation", number=4),
        Witness(at_ms, "audit", "generation", number=7),
    ]


def test_words_are_read() -> None:
    assert [duration(text) for text in ("1 min 10 s", "24.5 s", "998 ms", "2 h", "1 h 5 min")] == [
        70_000, 24_500, 998, 7_200_000, 3_900_000]  # fmt: skip
    assert names_in("a, b and c") == ["a", "b", "c"]
    assert names_in("a, b and 2 more") == ["a", "b"]
    assert moment("22:13:20.349", T0) == T0 + 349
    assert moment("2023-11-15\u00a000:00:01", T0) == 1_700_006_401_000
