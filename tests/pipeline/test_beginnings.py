"""Groups that begin to read at a log's end, as with auto.offset.reset=latest: the table offset_skips, and its findings."""

from __future__ import annotations

import pytest

from broker_sim.explain import history
from broker_sim.pipeline.duck.session import DuckSession
from broker_sim.pipeline.findings import findings
from broker_sim.pipeline.tables.offset_skips import offset_skips
from tests.pipeline.facts import facts
from tests.pipeline.support_journal import LOG, Book, arrow, member, picked, played_text, rows, snapshot


@pytest.fixture(scope="module")
def duck() -> DuckSession:
    return DuckSession()


def member_of(book: Book) -> None:
    app = member("m-1", "orders-0", client="app")
    book.request("JoinGroup", {}, "app", group="billing", member="m-1")
    book.step(None, snapshot("Stable", 1, app), api="JoinGroup", member="m-1")


def partitions_told(book: Book, size: int) -> None:
    parts = [{"error_code": 0, "partition_index": index} for index in range(size)]
    book.call("Metadata", {"topics": []}, {"topics": [{"error_code": 0, "name": "orders", "partitions": parts}]})


def end_asked(book: Book, end: int, partition: int = 0, timestamp: int = -1, client: str = "app") -> None:
    asked = {"topics": [{"name": "orders", "partitions": [{"partition_index": partition, "timestamp": timestamp}]}]}
    told = {"partition_index": partition, "error_code": 0, "timestamp": -1, "offset": end}
    book.call("ListOffsets", asked, {"topics": [{"name": "orders", "partitions": [told]}]}, client)


def at_the_end() -> Book:
    """A group begins at the end of two partitions that were there before it, then of one that the topic got, and of one that another
    owner had begun."""
    book = Book()
    partitions_told(book, 2)
    member_of(book)
    for partition in (0, 1):
        end_asked(book, 10, partition)
        book.fetch("app", 10, 0, partition)
    partitions_told(book, 3)
    book.later(10_000)
    end_asked(book, 25, 2)
    book.fetch("app", 25, 3, 2)
    other = member("m-2", "orders-0", client="other")
    book.request("JoinGroup", {}, "other", group="billing", member="m-2")
    book.step(snapshot("Stable", 1), snapshot("Stable", 2, other), api="JoinGroup", member="m-2")
    end_asked(book, 14, 1, client="other")
    book.fetch("other", 14, 0, 1)
    book.write("offsets", log=LOG, group="billing", offsets={"orders-0": 10, "orders-1": 14, "orders-2": 28})
    end_asked(book, 99)
    end_asked(book, 10, 1, client="stranger")
    book.fetch("app", 10, 5)
    return book


def test_a_new_partition_begun_at_its_end_skips_records_and_a_groups_first_start_does_not(duck: DuckSession) -> None:
    found = rows(offset_skips(duck.of_arrow(arrow(at_the_end().events))), "partition", "from_offset")
    names = ("group", "client_id", "partition", "from_offset", "to_offset", "by", "committed", "began")
    assert picked(found, *names) == [
        ("billing", "app", 0, 0, 10, 10, False, "first"),
        ("billing", "app", 1, 0, 10, 10, False, "first"),
        ("billing", "other", 1, 10, 14, 4, False, "reached"),
        ("billing", "app", 2, 0, 25, 25, False, "grown"),
    ]
    lost, chosen = findings(facts(skips=found))
    assert (lost.kind, lost.severity, chosen.kind, chosen.severity) == (
        "skipped records",
        "bad",
        "started at latest",
        "note",
    )
    assert (
        "not at 0, the beginning of a partition that the topic got while the group was reading it: up to 25 records were not delivered"
        " to it; the group had no committed offset there, and the log ended there" in lost.text
    )
    assert lost.text.endswith("; so twice in all.")
    assert "billing began to read 2 partitions at the log's end, as orders-0 at 10 at " in chosen.text
    assert ": up to 20 records before that are not read;" in chosen.text


def test_explain_and_the_table_have_one_reader(duck: DuckSession) -> None:
    """Sentences of explain and rows of the table agree."""
    events = at_the_end().events
    told = [one.text for one in history(events, "billing").incidents if "begins to read" in one.text]
    found = rows(offset_skips(duck.of_arrow(arrow(events))), "at_ms")
    assert len(told) == 3  # the first start's two partitions in one
    for one in found:
        assert any(f"{one['topic']}-{one['partition']} from {one['to_offset']}" in words for words in told)


@pytest.mark.parametrize(("reason", "expected"), [("expired", [(10, "reached")]), ("requested", [(0, "first")])])
def test_an_offset_that_expired_is_where_the_group_had_got_to(
    duck: DuckSession, reason: str, expected: list[tuple[int, str]]
) -> None:
    book = Book()
    partitions_told(book, 2)
    member_of(book)
    book.fetch("app", 0, 10)
    book.write("offsets", log=LOG, group="billing", offsets={"orders-0": 10})
    book.write("offsets_deleted", log=LOG, group="billing", reason=reason, partitions=["orders-0"])
    end_asked(book, 30, timestamp=-2)
    end_asked(book, 30)
    book.fetch("app", 30, 0)
    found = rows(offset_skips(duck.of_arrow(arrow(book.events))))
    assert picked(found, "from_offset", "began") == expected


def test_members_of_a_group_by_epochs_begin_at_the_end_too(duck: DuckSession) -> None:
    book = Book()
    partitions_told(book, 1)
    about = {
        "session_timeout_ms": 45_000,
        "rebalance_timeout_ms": 45_000,
        "topics": ["orders"],
        "pending_revocation": {},
        "pending_assignment": {},
    }
    who = {"member": "m-1", "client_id": "app", "client_host": "/127.0.0.1", "instance": None, "protocol": "consumer"}
    holder = {**who, **about, "epoch": 1, "assignment": {"orders": [0]}}
    book.request("ConsumerGroupHeartbeat", {}, "app", group="billing", member="m-1")
    about = {
        "state": "Stable",
        "group_epoch": 1,
        "target_epoch": 1,
        "assignor": "uniform",
        "size": 1,
        "members": [holder],
    }
    book.write("epochs", log=LOG, group="billing", cause={"kind": "request", "api": "ConsumerGroupHeartbeat"}, **about)
    end_asked(book, 4)
    book.fetch("app", 4, 0)
    partitions_told(book, 2)
    end_asked(book, 6, 1)
    book.fetch("app", 6, 0, 1)
    found = rows(offset_skips(duck.of_arrow(arrow(book.events))), "partition")
    assert picked(found, "partition", "to_offset", "began") == [(0, 4, "first"), (1, 6, "grown")]


GROWS = """
name: new partitions are begun at their end
topics: [{name: orders, partitions: 2, records: 20}]
clients:
  - {name: app, group: billing, topics: [orders], heartbeat_interval: 300ms, metadata_max_age: 2s, reset: latest}
steps:
  - name: it has begun
    when: {group: billing, state: Stable, members: 1}
  - name: records come before it knows of the partitions
    after: 2s
    do:
      - {topic: orders, grow_to: 4}
      - {topic: orders, fill: 40}
  - name: and afterwards
    after: 10s
    do: {topic: orders, fill: 40}
expect:
  - within: 60s
    group: {billing: {state: Stable, committed: {orders-2: 20, orders-3: 20}}}
"""


def test_a_clients_library_that_learns_late_of_new_partitions(duck: DuckSession) -> None:
    outcome = played_text(GROWS)
    assert outcome.code == 0, outcome.report()
    found = rows(offset_skips(duck.of_arrow(arrow(outcome.events))), "partition")
    assert picked(found, "client_id", "partition", "from_offset", "to_offset", "began") == [
        ("app", 0, 0, 10, "first"),
        ("app", 1, 0, 10, "first"),
        ("app", 2, 0, 10, "grown"),
        ("app", 3, 0, 10, "grown"),
    ]
    told = [one.text for one in history(outcome.events, "billing").incidents if "begins to read" in one.text]
    assert ["up to 20 records before that are not read" in words for words in told] == [True, False]
    assert "were delivered to no member; the topic got these partitions" in told[1]
