"""The table `duplicate_windows`: by hand, of scenarios whose clients say what they read, of simulated consumers that keep a ledger."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from broker_sim.pipeline.tables.duplicate_windows import DUPLICATE_WINDOWS, duplicate_windows
from broker_sim.simulation import simulate
from tests.pipeline.support_journal import Book, all_played, by_run, frame, member, picked, played, snapshot
from tests.simulation.workload import GROUP, begin

pytestmark = [pytest.mark.spark]

NAMES = (
    "from_offset",
    "to_offset",
    "records",
    "evidence",
    "delivered_to",
    "fetched_to",
    "from_generation",
    "to_generation",
)


def owns(book: Book, generation: int, *members: Any, group: str = "billing") -> None:
    """The group is Stable with these members."""
    bare = [{**one, "assignment": None} for one in members]
    book.step(snapshot("CompletingRebalance", generation, *bare), snapshot("Stable", generation, *members), group)
    book.later(10)


def by_hand() -> dict[str, Book]:
    found = {}

    def book(name: str) -> Book:
        found[name] = Book()
        return found[name]

    one, two = member("one", "orders-0"), member("two", "orders-0")
    crash = book("crash")  # one came to 30 and committed 20; two goes on from there
    owns(crash, 1, one)
    crash.fetch("one", 0, 20)
    crash.fetch("one", 20, 10)
    crash.commit("one", 1, {"orders-0": 20})
    crash.fetch("one", 30, 5)
    owns(crash, 2, two)
    crash.fetch("two", 20, 100)
    crash.fetch("two", 120, 0)

    short = book("short")  # two comes to 25 alone, the next one to 50: no offset is told twice in one window
    owns(short, 1, one)
    short.fetch("one", 0, 40)
    short.fetch("one", 40, 0)
    owns(short, 2, two)
    short.fetch("two", 20, 5)
    short.fetch("two", 25, 0)
    owns(short, 3, member("three", "orders-0"))
    short.fetch("three", 20, 30)
    short.fetch("three", 50, 0)

    sent = book("sent")  # what one was sent last nobody knows to be handed out
    owns(sent, 1, one)
    sent.fetch("one", 0, 10)
    owns(sent, 2, one)
    sent.fetch("one", 0, 10)
    sent.fetch("one", 10, 0)

    failed = book("failed")  # a commit that is refused tells how far its member was
    owns(failed, 1, one)
    failed.fetch("one", 0, 50)
    owns(failed, 2, two)
    failed.commit("one", 1, {"orders-0": 50}, error="ILLEGAL_GENERATION")
    failed.fetch("two", 0, 50)
    failed.commit("two", 2, {"orders-0": 50})

    clean = book("clean")
    owns(clean, 1, one)
    clean.fetch("one", 0, 30)
    clean.fetch("one", 30, 0)
    owns(clean, 2, two)
    clean.fetch("two", 30, 30)
    clean.fetch("two", 60, 0)
    return {**found, "zombie": a_zombie(), "shared": two_groups()}


def a_zombie() -> Book:
    """Return a journal in which member ``one`` is no longer in the group and reads on: its reads belong to its old generation."""
    zombie = Book()
    one, two = member("one", "orders-0"), member("two", "orders-0")
    owns(zombie, 1, one)
    zombie.fetch("one", 0, 10)
    zombie.fetch("one", 10, 0)
    owns(zombie, 2, two)
    zombie.fetch("one", 30, 0)
    zombie.fetch("two", 10, 30)
    zombie.fetch("two", 40, 0)
    owns(zombie, 3, member("three", "orders-0"))
    zombie.fetch("three", 20, 10)
    zombie.fetch("three", 30, 0)
    return zombie


def two_groups() -> Book:
    """Return a journal of two groups with one client id: Fetch requests do not show the group, commits would."""
    shared = Book()
    for group in ("billing", "audit"):
        owns(shared, 1, member(f"{group}-1", "orders-0", client="app"), group=group)
    shared.fetch("app", 0, 100)
    shared.fetch("app", 100, 0)
    for group in ("billing", "audit"):
        owns(shared, 2, member(f"{group}-2", "orders-0", client="app"), group=group)
    shared.fetch("app", 0, 100)
    shared.fetch("app", 100, 0)
    return shared


@pytest.fixture(scope="module")
def hand(spark: Any) -> dict[str, list[dict[str, Any]]]:
    events = frame(spark, **{name: book.events for name, book in by_hand().items()})
    return by_run(duplicate_windows(events), "at_ms")


def test_the_next_owner_begins_before_where_the_last_one_was(hand: Any) -> None:
    (row,) = hand["crash"]
    assert row == {
        "run_id": "crash",
        "group": "billing",
        "topic": "orders",
        "partition": 0,
        "from_offset": 20,
        "to_offset": 30,
        "records": 10,
        "evidence": "reached",
        "delivered_to": None,
        "fetched_to": 35,
        "from_generation": 1,
        "to_generation": 2,
        "from_member": "one",
        "to_member": "two",
        "from_client": "one",
        "to_client": "two",
        "at_ms": row["at_ms"],
    }
    assert list(row) == [name for name in DUPLICATE_WINDOWS.names if name != "at"]


def test_a_third_delivery_is_a_window_of_its_own(hand: Any) -> None:
    assert picked(hand["short"], *NAMES) == [
        (20, 25, 5, "reached", None, 25, 1, 2),
        (20, 40, 20, "reached", None, 40, 1, 3),
    ]


def test_records_that_were_only_sent_are_reported_as_sent(hand: Any) -> None:
    assert picked(hand["sent"], *NAMES) == [(0, 10, 10, "fetched", None, 10, 1, 2)]


def test_a_refused_commit_is_evidence(hand: Any) -> None:
    assert picked(hand["failed"], *NAMES) == [(0, 50, 50, "delivered", 50, 50, 1, 2)]


def test_an_owner_that_continues_at_the_last_position_has_no_duplicates(hand: Any) -> None:
    assert hand["clean"] == []


def test_a_member_that_reads_on_after_it_is_out(hand: Any) -> None:
    assert picked(
        hand["zombie"], "from_offset", "to_offset", "from_generation", "to_generation", "from_member", "to_member"
    ) == [
        (10, 30, 1, 2, "one", "two"),
        (20, 30, 2, 3, "two", "three"),
    ]


def test_clients_that_cannot_be_distinguished(hand: Any) -> None:
    assert hand["shared"] == []


# ------------------------------------------------------------------------------------------------ real runs


def test_scenarios_whose_clients_report_what_they_read(spark: Any) -> None:
    """Every record that members of a group were given more than once, partition by partition, and no other."""
    table = by_run(duplicate_windows(frame(spark, **all_played())))
    for name, events in all_played().items():
        if not any(event["event"] == "group" and event["after"] and event["after"]["members"] for event in events):
            continue  # clients that assign themselves have no generations
        if any(event["event"] == "data_loss" for event in events):
            assert table[name] == []  # its reader goes back in its own tenure, and over other records
            continue
        given = Counter[tuple[str, str, int]]()
        for event in events:
            if event["event"] == "client" and event["reports"] == "read":
                given[event["client"].split("-")[0], event["details"]["log"], event["details"]["offset"]] += 1
        again = Counter({(log, offset): count - 1 for (_, log, offset), count in given.items() if count > 1})
        assert covered(table[name], "to_offset") == again, name
    assert picked(table["commit-fails-in-a-rebalance"], "evidence") == [("delivered",)] * 3
    assert played("commit-fails-in-a-rebalance").code == 0


def covered(table: list[dict[str, Any]], end: str) -> Counter[tuple[str, int]]:
    """Return the number of windows that contain each offset."""
    return Counter(
        (f"{row['topic']}-{row['partition']}", at) for row in table for at in range(row["from_offset"], row[end] or 0)
    )


def a_hard_life(seed: int) -> tuple[list[dict[str, Any]], Counter[tuple[str, int]]]:
    """Slow consumers through a crash, a restart, a stuck offsets partition and one that hangs: the journal, and what they were given
    again."""
    with simulate(seed) as sim:
        group = begin(sim, members=3, every_s=0.05)
        for consumer in group.consumers:
            consumer.work_s = 1.5
        sim.run_for(20)
        sim.crash("c2")
        sim.run_for(60)
        sim.restart("c2")
        sim.run_for(30)
        with group.kafka.offsets_log(GROUP).stuck():
            sim.run_for(12)
        sim.run_for(20)
        group.consumers[0].hang_s = 400
        sim.run_for(440)
        given = Counter(
            (f"{one.topic}-{one.partition}", one.offset) for consumer in group.consumers for one in consumer.delivered
        )
        return [dict(event) for event in group.kafka.journal.events], Counter(
            {key: n - 1 for key, n in given.items() if n > 1}
        )


def test_consumers_that_keep_a_ledger(spark: Any) -> None:
    """Windows with evidence other than fetches equal the ledger, offset by offset; windows by fetches are an upper bound."""
    runs = {f"seed-{seed}": a_hard_life(seed) for seed in (1,)}
    table = by_run(duplicate_windows(frame(spark, **{name: events for name, (events, _) in runs.items()})), "at_ms")
    for name, (_, again) in runs.items():
        assert again.total() > 50
        assert covered([row for row in table[name] if row["evidence"] != "fetched"], "to_offset") == again, name
        assert again <= covered(table[name], "fetched_to"), name
