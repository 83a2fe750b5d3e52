"""The table `stuck_partitions`: periods without success, by hand, of scripts with exact times, of every scenario, of logs alone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from broker_sim.pipeline.tables.stuck_partitions import stuck_partitions
from tests.pipeline.journal_runs import JAM_S, Truth, a_jam
from tests.pipeline.offsets import Log
from tests.pipeline.offsets import frame as log_frame
from tests.pipeline.support_journal import LOG, Book, all_played, by_run, frame, mark_ms, picked, played, snapshot

pytestmark = [pytest.mark.spark]

VERSIONS = ["3.4", "4.1"]
T0 = 1_000_000


def known(book: Book, group: str = "billing", log: str = LOG) -> Book:
    """The journal says where the group lives."""
    book.step(None, snapshot("Empty", 0), group, log, api="JoinGroup")
    return book


def answer(book: Book, api: str, error: str | None, took_ms: int = 0, group: str = "billing") -> None:
    book.call(api, {"group_id": group}, {}, group=group, took_ms=took_ms, **({"error": error} if error else {}))


def by_hand() -> dict[str, Book]:
    waits = Book()  # one commit is taken, two wait, then the high watermark moves
    waits.append(0, 1)
    waits.later(1000)
    waits.append(1, 1)
    waits.later(2000)
    waits.append(2, 1, group="audit")
    waits.later(5000)
    waits.committed(3)
    waits.later(9000)
    waits.append(3, 4)

    refused = Book()  # the log refuses, and still does at the end
    refused.append(-1, 5, error="NOT_ENOUGH_REPLICAS")
    refused.later(4000)
    refused.append(-1, 5, error="KAFKA_STORAGE_ERROR")
    refused.later(500)
    refused.write("mark", text="the end")

    short = Book()  # a replica is slow, but in time
    for offset in range(5):
        short.append(offset, offset)
        short.later(600)
        short.committed(offset + 1)

    idle = known(Book())  # nobody tries
    idle.append(0, 1)
    idle.later(3_600_000)
    idle.append(1, 2)

    gone = known(Book())  # no coordinator; it is there again once it answers anything but a heartbeat
    gone.append(0, 1)
    gone.later(1000)
    answer(gone, "Heartbeat", "NOT_COORDINATOR")
    gone.later(3000)
    answer(gone, "FindCoordinator", "COORDINATOR_NOT_AVAILABLE")
    answer(gone, "Heartbeat", None)
    gone.later(1000)
    answer(gone, "OffsetFetch", None)

    told = known(Book())  # while a write waits an answer to something else ends nothing
    told.append(0, 1)
    told.later(100)
    told.append(1, 1)
    told.later(3000)
    answer(told, "OffsetFetch", None)
    answer(told, "OffsetCommit", "REQUEST_TIMED_OUT", took_ms=5000)
    told.later(2000)
    told.committed(2)
    return {
        "waits": waits,
        "refused": refused,
        "short": short,
        "idle": idle,
        "gone": gone,
        "told": told,
        "produce": produced(),
        "delayed": delayed(),
    }


def asked_of(partition: int) -> dict[str, Any]:
    """The body of a Produce with one record."""
    records = {"bytes": 1, "records": 1}
    return {"topic_data": [{"name": "orders", "partition_data": [{"index": partition, "records": records}]}]}


def answer_of(partition: int, error_code: int | None) -> dict[str, Any]:
    response = {"index": partition, "error_code": error_code, "base_offset": 7}
    return {"responses": [{"name": "orders", "partition_responses": [response]}]}


def delayed() -> Book:
    """A rule delays the answer of one Produce and keeps that of another one; without a rule one waits as long."""
    book = Book()

    def hit(number: int, verdict: str) -> None:
        book.write("fault", fault=1, rule=f"api Produce: {verdict}", request=number, verdict=verdict)

    late = book.request("Produce", asked_of(0), topics=["orders-0"])
    hit(late, "delay 4000 ms")
    lost = book.request("Produce", asked_of(1), topics=["orders-1"])
    hit(lost, "hang")
    slow = book.request("Produce", asked_of(2), topics=["orders-2"])
    book.later(4000)
    book.response(late, "Produce", answer_of(0, 0), 4000)
    book.response(slow, "Produce", answer_of(2, 0), 4000)
    return book


def produced() -> Book:
    """orders-0 takes a record, refuses one, lets one wait, and takes one again; orders-1 takes all."""
    book = Book()

    def produce(partition: int, error_code: int | None, took_ms: int = 0, **answered: Any) -> None:
        asked, told = asked_of(partition), answer_of(partition, error_code)
        book.call("Produce", asked, told, "p", topics=[f"orders-{partition}"], took_ms=took_ms, **answered)

    produce(0, 0)
    book.later(1000)
    produce(0, 6, error="NOT_LEADER_OR_FOLLOWER")
    produce(1, 0)
    book.later(1000)
    produce(0, 7, took_ms=30_000, error="REQUEST_TIMED_OUT")
    produce(1, 0)
    book.later(1000)
    produce(0, 0)
    return book


@pytest.fixture(scope="module")
def hand(spark: Any) -> dict[str, list[dict[str, Any]]]:
    events = frame(spark, **{name: book.events for name, book in by_hand().items()})
    return by_run(stuck_partitions(events), "log", "from_ms")


def test_appends_that_wait(hand: Any) -> None:
    assert [{name: value for name, value in row.items() if value is not None} for row in hand["waits"]] == [
        {
            "run_id": "waits",
            "log": LOG,
            "log_partition": 9,
            "from_ms": T0 + 1000,
            "to_ms": T0 + 8000,
            "last_success_ms": T0,
            "stuck_ms": 7000,
            "silence_ms": 8000,
            "attempts": 2,
            "commits": 0,
            "waiting": 2,
            "errors": [],
            "groups": ["audit", "billing"],
            "evidence": "appends",
            "certainty": "certain",
        }
    ]


NAMES = ("from_ms", "to_ms", "last_success_ms", "stuck_ms", "silence_ms", "attempts", "waiting", "errors", "evidence")


def test_appends_that_are_refused_until_the_end(hand: Any) -> None:
    errors = ["KAFKA_STORAGE_ERROR", "NOT_ENOUGH_REPLICAS"]
    assert picked(hand["refused"], *NAMES) == [(T0, None, None, 4500, None, 2, 0, errors, "appends")]


def test_late_commits_and_partitions_without_attempts_are_not_stuck(hand: Any) -> None:
    assert hand["short"] == []
    assert hand["idle"] == []


def test_an_unavailable_coordinator(hand: Any) -> None:
    errors = ["COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR"]
    assert picked(hand["gone"], *NAMES) == [(T0 + 1000, T0 + 5000, T0, 4000, 5000, 2, 0, errors, "answers")]
    assert hand["gone"][0]["groups"] == ["billing"]


def test_only_a_write_ends_a_period_that_a_write_began(hand: Any) -> None:
    assert picked(hand["told"], *NAMES) == [
        (T0 + 100, T0 + 10_100, T0, 10_000, 10_100, 2, 1, ["REQUEST_TIMED_OUT"], "appends")
    ]


def test_a_produce_that_a_rule_delays_waits_for_the_rule(hand: Any) -> None:
    assert picked(hand["delayed"], "log", "stuck_ms") == [("orders-2", 4000)]


def test_partitions_of_other_topics(hand: Any) -> None:
    errors = ["NOT_LEADER_OR_FOLLOWER", "REQUEST_TIMED_OUT"]
    assert picked(hand["produce"], "log", "log_partition", *NAMES) == [
        ("orders-0", None, T0 + 1000, T0 + 33_000, T0, 32_000, 33_000, 2, 1, errors, "produce")
    ]


# ------------------------------------------------------------------------------------------------ real runs


@pytest.fixture(scope="module")
def jams(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Truth, list[dict[str, Any]]]]:
    """version -> what the script did, and its table: the conditions' own events are taken away before."""
    truths = {version: asyncio.run(a_jam(tmp_path_factory.mktemp("jam"), version)) for version in VERSIONS}
    events = frame(spark, **{version: truth.events for version, truth in truths.items()})
    table = by_run(stuck_partitions(events.where("type not in ('state', 'fault', 'fault_added')")))
    return {version: (truth, table[version]) for version, truth in truths.items()}


@pytest.mark.parametrize("version", VERSIONS)
def test_forty_seconds_as_the_script_had_them(jams: Any, version: str) -> None:
    truth, table = jams[version]
    at = truth.at
    (row,) = table
    assert (row["log_partition"], row["groups"], row["evidence"]) == (truth.log_partition, ["billing"], "appends")
    assert (row["last_success_ms"], row["from_ms"], row["to_ms"]) == (
        at["last success"],
        at["first attempt"],
        at["heal"],
    )
    assert row["last_success_ms"] < at["jam"] <= row["from_ms"]
    assert row["to_ms"] - at["jam"] == JAM_S * 1000
    assert row["waiting"] == 7
    assert row["errors"] == (["REQUEST_TIMED_OUT"] if version == "3.4" else ["COORDINATOR_NOT_AVAILABLE"])


@pytest.fixture(scope="module")
def real(spark: Any) -> dict[str, list[dict[str, Any]]]:
    """Return the stuck periods of every scenario, found without the events that state them."""
    events = frame(spark, **all_played())
    return by_run(stuck_partitions(events.where("type not in ('state', 'fault', 'fault_added')")), "from_ms")


@pytest.mark.parametrize("name", ["stuck-offsets-partition-3.4", "stuck-offsets-partition-4.1"])
def test_the_founding_incident(real: Any, name: str) -> None:
    events = played(name).events
    log = next(event["log"] for event in events if event["event"] == "state")
    (row,) = real[name]
    assert (row["log"], row["groups"], row["evidence"]) == (log, ["billing"], "appends")
    assert row["last_success_ms"] <= mark_ms(events, "jam") <= row["from_ms"]
    healed = mark_ms(events, "heal")
    taken = [event["ts_ms"] for event in events if event["event"] in ("append", "committed") and event["log"] == log]
    assert row["to_ms"] == min(ts_ms for ts_ms in taken if ts_ms >= healed)


def test_stuck_offsets_partitions_of_scenarios(real: Any) -> None:
    """Every state of a partition that somebody met with for a second is found, by its borders, and nothing else is."""
    assert {name: picked(table, "evidence", "groups", "errors") for name, table in real.items() if table} == {
        "coordinator-loads-and-moves": [("answers", ["billing"], ["COORDINATOR_LOAD_IN_PROGRESS"])],
        "load-in-progress-reaches-the-application": [("answers", ["billing"], ["COORDINATOR_LOAD_IN_PROGRESS"])],
        "stuck-offsets-partition-3.4": [("appends", ["billing"], ["REQUEST_TIMED_OUT"])],
        "stuck-offsets-partition-4.1": [("appends", ["billing"], ["COORDINATOR_NOT_AVAILABLE"])],
        "stuck-while-commits-flow-4.1": [("appends", ["billing"], ["COORDINATOR_NOT_AVAILABLE"])],
    }
    for name, (row,) in ((name, table) for name, table in real.items() if table):
        begun, healed = (event["ts_ms"] for event in played(name).events if event["event"] == "state")
        assert (row["last_success_ms"] or begun) <= begun <= row["from_ms"], name
        assert healed <= row["to_ms"] <= healed + 100, name


# ------------------------------------------------------------------------------------------------ from the log


def test_a_silence_of_the_log_is_a_hint(spark: Any) -> None:
    def busy(partition: int, pause: range, run_id: str = "r1", hole: bool = False) -> Log:
        log = Log(partition, run_id)
        for number in range(100):
            if number not in pause:
                log.commit(number * 1000, number)
            elif hole:
                log._offsets.__next__()  # the cleaner took these
        return log

    def ended(partition: int, kind: str) -> Log:
        """Nobody was there, or nothing was to be said: what ends the pause is no commit."""
        log = Log(partition)
        for number in range(100):
            if number not in range(40, 70):
                log.commit(number * 1000, number)
            elif number == 69:
                log.add(kind, number * 1000, group="billing", topic="orders", partition=9, generation=2, members=[])
        return log

    never = range(0)
    logs = [
        ended(4, "commit_tombstone"),
        ended(5, "group"),
        busy(1, range(40, 70)),
        busy(2, never),
        busy(3, range(40, 70), hole=True),
        busy(1, range(40, 70), run_id="alone"),
        busy(1, range(40, 70), run_id="journal"),
        busy(2, never, run_id="journal"),
    ]
    rows = [row for log in logs for row in log.rows]
    book = Book()
    book.write("mark", text="there is a journal")
    first = logs[2].rows[0]["record_ts_ms"]
    found = by_run(stuck_partitions(frame(spark, journal=book.events), log_frame(spark, rows)))
    table = {run: [row for row in found[run] if row["evidence"] == "silence"] for run in ("r1", "alone", "journal")}
    assert picked(
        table["r1"], "log", "log_partition", "from_ms", "to_ms", "silence_ms", "evidence", "attempts", "groups"
    ) == [("__consumer_offsets-1", 1, first + 39_000, first + 70_000, 31_000, "silence", None, None)]
    assert table["r1"][0]["others"] == 32
    assert table["alone"] == []
    assert table["journal"] == []
