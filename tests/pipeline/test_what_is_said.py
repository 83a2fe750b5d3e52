"""Statements of the pipeline about a group are true: tables and findings of journals made by hand, on DuckDB."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from broker_sim.pipeline.duck.session import DuckSession
from broker_sim.pipeline.findings import findings
from broker_sim.pipeline.log_ends import log_ends_rows
from broker_sim.pipeline.stuck_alerts import StuckAlerts
from broker_sim.pipeline.tables.commit_refusals import COMMIT_REFUSALS, commit_refusals
from broker_sim.pipeline.tables.data_losses import data_losses
from broker_sim.pipeline.tables.lag import LOG_ENDS, journal_ends, lag
from broker_sim.pipeline.tables.offset_deletions import offset_deletions
from broker_sim.pipeline.tables.offset_log import OFFSET_LOG, journal_log
from broker_sim.pipeline.tables.offset_regressions import offset_regressions
from broker_sim.pipeline.tables.offset_resets import offset_resets
from broker_sim.pipeline.tables.offset_skips import offset_skips
from broker_sim.pipeline.tables.stuck_partitions import stuck_partitions
from kafka_wire.record_batch import build_batch
from tests.pipeline.facts import Row, facts, rebalance, row
from tests.pipeline.offsets import T0, Log
from tests.pipeline.support_journal import LOG, Book, arrow, picked, rows, snapshot

UNKNOWN_TOPIC, NOT_AVAILABLE, REFUSED = 3, 15, 19


@pytest.fixture(scope="module")
def duck() -> DuckSession:
    return DuckSession()


def answered(book: Book, member_id: str, told: Mapping[str, int], first: str | None, **fields: Any) -> None:
    """A commit for each of ``told``: partition -> error code; ``first``: the answer's first error."""
    by_topic: dict[str, list[tuple[int, int]]] = {}
    for name, code in told.items():
        topic, _, index = name.rpartition("-")
        by_topic.setdefault(topic, []).append((int(index), code))
    asked = [
        {"name": topic, "partitions": [{"partition_index": index, "committed_offset": 5} for index, _ in parts]}
        for topic, parts in by_topic.items()
    ]
    said = [
        {"name": topic, "partitions": [{"partition_index": index, "error_code": code} for index, code in parts]}
        for topic, parts in by_topic.items()
    ]
    about = {"group": "billing", "member": member_id, "topics": list(told)}
    error = {} if first is None else {"error": first}
    book.call("OffsetCommit", {"group_id": "billing", "topics": asked}, {"topics": said}, member_id, **about, **error)


# ------------------------------------------------------------------------------------------------ errors per partition


def in_part() -> Book:
    book = Book()
    for _ in range(5):
        answered(book, "one", {"ord.a-0": UNKNOWN_TOPIC, "ord.b-0": 0, "ord.b-1": 0}, "UNKNOWN_TOPIC_OR_PARTITION")
        book.later(1000)
    answered(book, "two", {"ord.a-1": UNKNOWN_TOPIC}, "UNKNOWN_TOPIC_OR_PARTITION")
    answered(book, "two", {"ord.b-2": 0}, None)
    return book


def test_commits_that_were_refused_for_one_topic_and_taken_for_another(duck: DuckSession) -> None:
    found = rows(commit_refusals(duck.of_arrow(arrow(in_part().events))), "client_id")
    names = ("client_id", "member", "topic", "error", "commits", "in_part", "taken_topics", "first_ms", "last_ms")
    assert picked(found, *names) == [
        ("one", "one", "ord.a", "UNKNOWN_TOPIC_OR_PARTITION", 5, 5, ["ord.b"], 1_000_000, 1_004_000),
        ("two", "two", "ord.a", "UNKNOWN_TOPIC_OR_PARTITION", 1, 0, None, 1_005_000, 1_005_000),
    ]


def refusal(**columns: Any) -> Row:
    known = {
        "group": "billing",
        "client_id": "app-2",
        "member": "app-2-1",
        "topic": "ord.a",
        "error": "UNKNOWN_TOPIC_OR_PARTITION",
        "commits": 84,
        "in_part": 75,
        "taken_topics": ["ord.b"],
        "first_ms": T0,
        "last_ms": T0 + 60_000,
    }
    return row(COMMIT_REFUSALS.names, **{**known, **columns})


def test_the_finding_names_topic_client_and_the_rest() -> None:
    (found,) = findings(facts(refusals=[refusal()]))
    assert found.text == (
        "84 commits of app-2 in billing for ord.a between 22:13:20 and 22:14:20 were answered UNKNOWN_TOPIC_OR_PARTITION; what 75 of "
        "them committed for ord.b was accepted."
    )
    assert " may " in found.advice


def test_commits_of_one_client_as_member_and_as_non_member_are_one_finding() -> None:
    later = refusal(member=None, commits=16, in_part=0, taken_topics=None, last_ms=T0 + 90_000)
    (found,) = findings(facts(refusals=[refusal(), later]))
    assert found.text.startswith(
        "100 commits of app-2 in billing for ord.a between 22:13:20 and 22:14:50 were answered"
    )
    assert "what 75 of them committed for ord.b was accepted" in found.text


def test_a_rebalance_that_timed_out_names_the_commits_refused_meanwhile() -> None:
    waited = rebalance(
        0, 60_000, held_by="rebalance timeout", held_ms=59_000, held_who=["app-2-1"], held_clients=["app-2"]
    )
    found = next(
        one for one in findings(facts(refusals=[refusal()], rebalances=[waited])) if one.kind == "slow rebalance"
    )
    assert (
        "59 s of it until the rebalance timeout expired, without a JoinGroup of app-2; commits of app-2 were refused then, for ord.a"
        in found.text
    )
    assert " may " in found.advice


def test_an_error_of_the_whole_group_is_no_finding_of_a_topic() -> None:
    told = refusal(error="REBALANCE_IN_PROGRESS", in_part=0, taken_topics=None)
    assert [one.kind for one in findings(facts(refusals=[told]))] == ["nothing"]


def unavailable_second() -> Book:
    book = Book()
    book.step(None, snapshot("Empty", 0), "billing", LOG, api="JoinGroup")
    answered(book, "one", {"orders-0": 0}, None)
    for _ in range(3):
        book.later(2000)
        told = {"ord.a-0": UNKNOWN_TOPIC, "orders-0": NOT_AVAILABLE}
        answered(book, "one", told, "UNKNOWN_TOPIC_OR_PARTITION")
    book.later(2000)
    answered(book, "one", {"ord.a-0": UNKNOWN_TOPIC, "orders-0": 0}, "UNKNOWN_TOPIC_OR_PARTITION")
    return book


def test_the_second_error_of_an_answer_shows_that_there_is_no_coordinator(duck: DuckSession) -> None:
    (found,) = rows(stuck_partitions(duck.of_arrow(arrow(unavailable_second().events))))
    assert (found["log"], found["attempts"], found["errors"]) == (LOG, 3, ["COORDINATOR_NOT_AVAILABLE"])
    assert found["to_ms"] == 1_008_000
    told: list[str] = []
    StuckAlerts(told.append).add_rows(arrow(unavailable_second().events).to_pylist())
    assert "COORDINATOR_NOT_AVAILABLE" in " ".join(told)
    assert "UNKNOWN_TOPIC" not in " ".join(told)


def test_a_produce_that_is_refused_for_two_partitions_with_two_errors(duck: DuckSession) -> None:
    book = Book()
    for _ in range(3):
        asked = {"topic_data": [{"name": "orders", "partition_data": [{"index": at} for at in (0, 1)]}]}
        codes = {0: UNKNOWN_TOPIC, 1: REFUSED}
        parts = [{"index": at, "error_code": code, "base_offset": -1} for at, code in codes.items()]
        told = {"responses": [{"name": "orders", "partition_responses": parts}]}
        book.call("Produce", asked, told, error="UNKNOWN_TOPIC_OR_PARTITION", topics=["orders-0", "orders-1"])
        book.later(3000)
    found = rows(stuck_partitions(duck.of_arrow(arrow(book.events))), "log")
    assert picked(found, "log", "errors") == [
        ("orders-0", ["UNKNOWN_TOPIC_OR_PARTITION"]),
        ("orders-1", ["NOT_ENOUGH_REPLICAS"]),
    ]


# ------------------------------------------------------------------------------------------------ offsets


def lags(duck: DuckSession, log: Log, *ends: tuple[int, int]) -> list[tuple[Any, ...]]:
    told = [
        {"run_id": "r1", "source": "log", "topic": "orders", "partition": 0, "at_ms": T0 + at, "end": end}
        for at, end in ends
    ]
    table = lag(OFFSET_LOG.frame(duck, log.rows), LOG_ENDS.frame(duck, told), 1000)
    return picked(rows(table, "window_start_ms"), "committed", "end", "lag")


def test_an_offset_beyond_a_known_log_end_is_reported(duck: DuckSession) -> None:
    log = Log()
    log.commit(0, 100)
    log.commit(5000, 95)
    assert lags(duck, log, (0, 90), (2000, 92), (6000, 120)) == [
        (100, 90, None),  # the end may just be older than the commit
        (100, 92, -8),  # the log ended there afterwards
        (95, 92, None),
        (95, 120, 25),
    ]


def test_the_finding_of_an_offset_beyond_the_end() -> None:
    beyond = {"group": "billing", "topic": "orders", "partition": 0, "lag": -8, "window_start_ms": T0}
    (found,) = findings(facts(beyond=[{**beyond, "committed": 100, "end": 92}]))
    assert found.text == "billing is committed at 100 of orders-0 at 22:13:20, beyond the log's end 92."
    assert " may have " in found.advice


def below(duck: DuckSession, log: Log, *starts: tuple[int, int, int | None]) -> list[tuple[Any, ...]]:
    told = [
        {
            "run_id": "r1",
            "source": "log",
            "topic": "orders",
            "partition": 0,
            "at_ms": T0 + at,
            "end": end,
            "start": start,
        }
        for at, end, start in starts
    ]
    table = lag(OFFSET_LOG.frame(duck, log.rows), LOG_ENDS.frame(duck, told), 1000)
    return picked(rows(table, "window_start_ms"), "committed", "start", "below_start")


def test_an_offset_below_the_log_start_is_reported_from_when_it_is_known(duck: DuckSession) -> None:
    log = Log()
    log.commit(0, 10)
    log.commit(5000, 70)
    assert below(duck, log, (0, 90, None), (2000, 92, 50), (6000, 120, None)) == [
        (10, None, None),
        (10, 50, 40),
        (70, 50, 0),
        (70, None, None),
    ]


def test_the_finding_of_an_offset_before_the_logs_start() -> None:
    row = {"group": "billing", "topic": "orders", "partition": 0, "below_start": 40, "window_start_ms": T0}
    (found,) = findings(facts(below=[{**row, "committed": 10, "start": 50}]))
    assert found.text == (
        "billing is committed at 10 of orders-0 at 22:13:20, before the log's start 50: up to 40 records that it had not committed"
        " are deleted."
    )
    assert "is unknown" in found.advice


def test_the_log_start_is_known_from_fetch_responses(duck: DuckSession) -> None:
    book = Book()
    commit_of(book, 3)
    asked = {"topics": [{"topic": "orders", "partitions": [{"partition": 0, "fetch_offset": 8}]}]}
    answer = {"partition_index": 0, "error_code": 0, "high_watermark": 20, "log_start_offset": 8, "records": None}
    book.call("Fetch", asked, {"responses": [{"topic": "orders", "partitions": [answer]}]}, "app", topics=["orders-0"])
    events = duck.of_arrow(arrow(book.events))
    table = lag(journal_log(events), journal_ends(events), 1000)
    assert picked(rows(table, "window_start_ms"), "committed", "end", "start", "below_start") == [(3, 20, 8, 5)]


def test_the_log_start_is_known_from_the_first_segment_or_the_checkpoint(tmp_path: Path) -> None:
    for partition, bases in ((0, (40,)), (1, (0, 30))):
        folder = tmp_path / f"orders-{partition}"
        folder.mkdir()
        for base in bases:
            batch = build_batch([(b"k", b"v")] * 10, T0, base_offset=base)
            (folder / f"{base:020d}.log").write_bytes(batch)
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n2\norders 1 7\nbills 0 99\n")
    found = log_ends_rows(str(tmp_path), "r1")
    last = {row["partition"]: (row["end"], row.get("start")) for row in found}
    assert last == {0: (50, 40), 1: (40, 7)}
    (tmp_path / "log-start-offset-checkpoint").write_text("no checkpoint at all\n\n1 2\n")
    assert {row.get("start") for row in log_ends_rows(str(tmp_path), "r1")} == {40, 0}


def lost(book: Book, part: str, first: int, last: int) -> None:
    book.write("data_loss", log="orders-0", part=part, first=first, last=last)


def test_records_that_a_log_lost_and_the_groups_that_had_committed_there(duck: DuckSession) -> None:
    book = Book()
    commit_of(book, 90)
    book.write("offsets", log=LOG, group="audit", offsets={"orders-0": 20, "bills-0": 5})
    book.later(1000)
    lost(book, "tail", 60, 99)
    book.later(1000)
    commit_of(book, 61)
    lost(book, "head", 0, 29)
    events = duck.of_arrow(arrow(book.events))
    found = rows(data_losses(events, journal_log(events)), "at_ms", "group")
    names = ("topic", "partition", "part", "first_offset", "last_offset", "offsets", "group", "committed", "outside")
    assert picked(found, *names) == [
        ("orders", 0, "tail", 60, 99, 40, "audit", 20, 0),
        ("orders", 0, "tail", 60, 99, 40, "billing", 90, 30),
        ("orders", 0, "head", 0, 29, 30, "audit", 20, 10),
        ("orders", 0, "head", 0, 29, 30, "billing", 61, 0),
    ]
    tail, head = (one for one in findings(facts(losses=found)) if one.kind == "data loss")
    assert "orders-0 lost its last records at" in tail.text
    assert "offsets 60 to 99; billing is committed at 90, 30 beyond the new end." in tail.text
    assert head.text.endswith("offsets 0 to 29; audit is committed at 20, 10 before the new start.")
    assert (tail.group, head.group) == ("billing", "audit")


def test_an_offset_that_decreased_to_the_truncated_log_end_reads_no_record_again(duck: DuckSession) -> None:
    book = Book()
    commit_of(book, 100)
    book.later(1000)
    lost(book, "tail", 60, 99)
    commit_of(book, 60)
    events = duck.of_arrow(arrow(book.events))
    log = journal_log(events)
    regressions = rows(offset_regressions(log, "journal"))
    given = facts(losses=rows(data_losses(events, log)), regressions=regressions)
    found = next(one for one in findings(given) if one.kind == "regression")
    assert "committed a lower offset after the topic's log was truncated on orders-0: from 100 to 60 at" in found.text
    assert found.text.endswith("; up to 40 records are lost.")
    for other in ({"first_offset": 61}, {"at_ms": 999_000}, {"partition": 1}, {"part": "head"}):
        elsewhere = facts(losses=[{**one, **other} for one in given.losses], regressions=regressions)
        found = next(one for one in findings(elsewhere) if one.kind == "regression")
        assert found.text.endswith("up to 40 records are read again.")


def test_a_loss_that_affects_no_group_is_reported_too(duck: DuckSession) -> None:
    book = Book()
    lost(book, "tail", 60, 99)
    events = duck.of_arrow(arrow(book.events))
    (found,) = rows(data_losses(events, journal_log(events)))
    assert picked([found], "group", "committed", "outside", "offsets") == [(None, None, None, 40)]
    (finding,) = findings(facts(losses=[found]))
    assert finding.text.endswith("which were committed: offsets 60 to 99.")


def test_a_reset_without_an_earlier_offset_in_the_log_is_unknown_and_not_zero(duck: DuckSession) -> None:
    log = Log()
    log.generation(0, 1)
    log.commit(10, 50, partition=1)
    log.generation(20, 2, ())
    log.commit(30, 7)
    log.commit(30, 60, partition=1)
    (found,) = rows(offset_resets(OFFSET_LOG.frame(duck, log.rows)))
    assert (found["partitions"], found["back"], found["skipped"], found["unknown"]) == (2, 0, 10, 1)
    (told,) = findings(facts(resets=[found]))
    assert told.text.endswith(
        "; up to 10 records are skipped and the earlier offsets of 1 partition are not in the log."
    )


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("topic deleted", "their topic was deleted"),
        ("requested", "they were deleted by a request"),
        ("expired", "they expired"),
    ],
)
def test_why_offsets_ceased_to_exist_is_the_journals_word(duck: DuckSession, reason: str, words: str) -> None:
    book = Book()
    book.write("offsets", log=LOG, group="billing", offsets={"orders-0": 5})
    book.later(1000)
    book.write("offsets_deleted", log=LOG, group="billing", reason=reason, partitions=["orders-0"])
    (found,) = rows(offset_deletions(journal_log(duck.of_arrow(arrow(book.events))), "journal"))
    assert (found["reason"], found["last_offset"]) == (reason, 5)
    deletion = {"group": "billing", "log_partition": 9, "at_ms": T0, "group_ended": False, "offsets": 1, "returned": 0}
    deletion |= {"example": {"topic": "orders", "partition": 0}, "idle_ms": 1000, "how": "deleted", "reason": reason}
    told = next(one for one in findings(facts(deletions=[deletion])) if one.kind == "deleted offsets")
    assert f": {words}" in told.text
    assert told.text.endswith("1 s after the last commit.")


def commit_of(book: Book, offset: int) -> None:
    book.commit("app", 1, {"orders-0": offset})
    book.write("offsets", log=LOG, group="billing", offsets={"orders-0": offset})


def read_over() -> Book:
    """A member whose offset is out of range goes on behind it."""
    book = Book()
    commit_of(book, 3)
    refused = {"partition_index": 0, "error_code": 1, "high_watermark": 10, "records": None}
    body = {"topics": [{"topic": "orders", "partitions": [{"partition": 0, "fetch_offset": 3}]}]}
    told = {"responses": [{"topic": "orders", "partitions": [refused]}]}
    book.call("Fetch", body, told, "app", topics=["orders-0"], error="OFFSET_OUT_OF_RANGE")
    book.later(1000)
    book.fetch("app", 8, 2)
    book.fetch("app", 10, 5)
    return book


def test_records_that_a_member_read_over(duck: DuckSession) -> None:
    (found,) = rows(offset_skips(duck.of_arrow(arrow(read_over().events))))
    names = ("group", "client_id", "topic", "partition", "from_offset", "to_offset", "by", "committed", "out_of_range")
    assert picked([found], *names) == [("billing", "app", "orders", 0, 3, 8, 5, True, True)]
    (finding,) = findings(facts(skips=[found]))
    assert "continued to read orders-0 at 8 at" in finding.text
    assert (
        "not at the committed offset 3: up to 5 records were not delivered to it; its last Fetch before got"
        in finding.text
    )


def looked_up(book: Book, code: int, error: str | None) -> None:
    told = {"groups": [{"group_id": "billing", "topics": [], "error_code": code}]}
    asked = {"groups": [{"group_id": "billing", "topics": [{"name": "orders", "partition_indexes": [0]}]}]}
    about = {} if error is None else {"error": error}
    book.call("OffsetFetch", asked, told, "app", group="billing", member="m-1", topics=["orders-0"], **about)


def test_a_refused_offset_fetch_is_part_of_the_finding_about_skipped_records(duck: DuckSession) -> None:
    """A client that goes where its fallback says, as its committed offset was not told to it."""
    book = Book()
    commit_of(book, 3)
    looked_up(book, 113, "STALE_MEMBER_EPOCH")
    book.fetch("app", 8, 2)
    book.fetch("app", 12, 0)
    looked_up(book, 0, None)
    book.fetch("app", 20, 0)
    found = rows(offset_skips(duck.of_arrow(arrow(book.events))), "to_offset")
    assert picked(found, "from_offset", "to_offset", "lookup_error") == [
        (3, 8, "STALE_MEMBER_EPOCH"),
        (12, 20, None),
    ]
    (finding,) = findings(facts(skips=found[:1]))
    assert finding.text.endswith("not delivered to it; its last OffsetFetch before got STALE_MEMBER_EPOCH.")
    book = Book()
    commit_of(book, 3)
    looked_up(book, 113, "STALE_MEMBER_EPOCH")
    looked_up(book, 0, None)
    book.fetch("app", 8, 2)
    assert picked(rows(offset_skips(duck.of_arrow(arrow(book.events)))), "lookup_error") == [(None,)]


def test_a_journal_without_a_log_has_lost_no_records(duck: DuckSession) -> None:
    held = {"log_partition": 3, "records": 1, "first_offset": 40, "last_offset": 40, "commits": 1}
    (found,) = findings(facts(partitions=[held], logged=False))
    assert "are not there any more" not in found.text
    assert found.text.endswith("There is no log of offsets: committed offsets are those of the journal.")


def test_reading_on_committing_and_seeking_beyond_the_end_skip_nothing(duck: DuckSession) -> None:
    book = Book()
    book.fetch("app", 0, 10)
    commit_of(book, 10)
    book.fetch("app", 10, 0)
    book.fetch("app", 10, 6)
    commit_of(book, 16)
    refused = {"partition_index": 0, "error_code": 1, "high_watermark": 16, "records": None}
    body = {"topics": [{"topic": "orders", "partitions": [{"partition": 0, "fetch_offset": 40}]}]}
    told = {"responses": [{"topic": "orders", "partitions": [refused]}]}
    book.call("Fetch", body, told, "app", topics=["orders-0"], error="OFFSET_OUT_OF_RANGE")
    book.fetch("app", 16, 3)
    book.fetch("stranger", 99, 1)
    assert rows(offset_skips(duck.of_arrow(arrow(book.events)))) == []


def test_a_seek_forward_is_reported_with_the_last_position(duck: DuckSession) -> None:
    book = Book()
    commit_of(book, 0)
    book.fetch("app", 4, 0)
    book.fetch("app", 6, 0)
    found = rows(offset_skips(duck.of_arrow(arrow(book.events))), "to_offset")
    assert picked(found, "from_offset", "to_offset", "committed") == [(0, 4, True), (4, 6, False)]


def test_a_group_record_in_between_is_no_rewind(duck: DuckSession) -> None:
    log = Log()
    log.generation(0, 1)
    log.commit(10, 100)
    log.generation(20, 1, ("m-2",))  # a static member rejoined with another member id
    log.commit(30, 60)
    log.commit(40, 50)
    found = rows(offset_regressions(OFFSET_LOG.frame(duck, log.rows)), "log_offset")
    assert picked(found, "from_offset", "to_offset", "how") == [(100, 60, "regrouped"), (60, 50, "rewind")]
    texts = [one.text for one in findings(facts(regressions=found))]
    assert any("after another group record of the same generation" in text for text in texts)


def test_a_member_that_rejoined_has_not_changed_its_subscription() -> None:
    """With a cooperative assignor it has given something up; the table has no more than that it joined with other metadata."""
    rows_ = [rebalance(at, 1000, cause="metadata change", generation=at) for at in range(0, 20_000, 2000)]
    found = next(one for one in findings(facts(rebalances=rows_)) if one.kind == "frequent rebalances")
    assert (
        "members that joined with other metadata, or topics that changed (as when app-1 joined with other metadata"
        in found.text
    )
    assert " may be the cause" in found.advice
    assert "cooperative" in found.advice
