"""The bank: what its book notices, what its tellers live through, and the hole that version 1 of transactions has and version 2 has
not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from broker_sim.metadata.topics import TRANSACTION_TOPIC
from broker_sim.simulation import simulate
from broker_sim.simulation.faults.kinds import Fault
from broker_sim.simulation.faults.swarm import SWARM
from broker_sim.simulation.sweeps.trial import Case, run
from broker_sim.simulation.workloads.bank.book import (
    ACCOUNTS,
    AUDIT,
    HOLE,
    Attempt,
    Book,
    BookEntry,
    PaymentOrder,
    Reading,
)
from broker_sim.simulation.workloads.bank.logs import check_logs, log_transactions, orders_of
from broker_sim.simulation.workloads.bank.wire import committed_records
from broker_sim.simulation.workloads.bank.writer import AbortableError, TransactionalWriter
from broker_sim.simulation.workloads.catalogue import WORKLOADS
from broker_sim.simulation.workloads.raw import CONFIG, TOPIC, RawClient, RawContext, UncheckedAnswers
from kafka_wire.record_batch import ControlType, Record, control_batch, encode_batch

# --- the book


def book() -> tuple[Book, list[str]]:
    found: list[str] = []
    return Book(lambda error: found.append(error.name), lambda: 0.0), found


def test_what_is_paid_is_booked_twice_in_each_partition() -> None:
    made, _ = book()
    attempt = made.begin("c1", flow=2)
    rows = made.entries(attempt, [PaymentOrder(0, 5), PaymentOrder(1, 6), PaymentOrder(0, 7)], accounts=3, audits=1)
    assert len(rows[AUDIT, 0]) == 3
    for place, entries in rows.items():
        if place[0] == ACCOUNTS:
            assert sum(entry.amount for entry in entries) == 0
            assert any(entry.amount for entry in entries)
        assert [BookEntry.read(entry.to_bytes()) for entry in entries] == entries


def given(made: Book, *orders: PaymentOrder) -> tuple[Reading, list[BookEntry], Attempt]:
    attempt = made.begin("c1", flow=2)
    return Reading(made, (ACCOUNTS, 0)), made.entries(attempt, list(orders), accounts=1, audits=1)[ACCOUNTS, 0], attempt


def test_a_reader_sees_all_of_a_transaction_behind_its_marker() -> None:
    made, found = book()
    reading, entries, _ = given(made, PaymentOrder(0, 5))
    for offset, entry in enumerate(entries):
        reading.gave(offset, 7, entry)
    reading.ended(4, 7)
    assert not found
    reading, entries, _ = given(made, PaymentOrder(0, 6))
    reading.gave(5, 7, entries[0])
    reading.reached(6)  # a part of it stands before the last stable offset
    assert not found
    reading.ended(7, 7)
    assert found == ["accounts balance after each marker"]


def test_an_order_is_carried_out_once() -> None:
    made, found = book()
    reading, entries, _ = given(made, PaymentOrder(0, 5))
    again = made.entries(made.begin("c2", flow=2), [PaymentOrder(0, 5)], accounts=1, audits=1)[ACCOUNTS, 0]
    reading.gave(0, 7, entries[0])
    reading.gave(1, 8, again[0])
    assert found == ["an order is carried out once"]


def test_nothing_aborted_is_read_and_nothing_stable_unstable() -> None:
    made, found = book()
    reading, entries, attempt = given(made, PaymentOrder(0, 5))
    attempt.reported = False
    reading.gave(0, 7, entries[0])
    reading.reached(5)
    reading.reached(4)
    assert found == ["read_committed returns no aborted records", "the last stable offset never decreases"]


def test_version_1_is_excused_where_it_has_given_up_a_request_and_version_2_never() -> None:
    made, found = book()
    for flow in (1, 2):
        attempt = made.begin("c1", flow)
        made.breach("a rule", "is broken", [attempt.name])
        attempt.given_up = True
        made.breach("a rule", "is broken", [attempt.name])
    assert len(found) == 3
    assert made.found == {HOLE: 1}


def test_a_client_leaves_out_what_the_broker_says_is_aborted() -> None:
    def batch(first: int, producer: int) -> bytes:
        return encode_batch([Record(0, 0, None, b"x")], producer_id=producer, attributes=0x10, base_offset=first)

    class Aborted:
        producer_id, first_offset = 1, 0

    end = control_batch(ControlType.ABORT, 0, producer_id=1, producer_epoch=0, coordinator_epoch=0, base_offset=2)
    data = batch(0, 1) + batch(1, 2) + end + batch(3, 1)
    rows = list(committed_records(data, [Aborted]))
    assert [type(row.found).__name__ for row in rows] == ["NoneType", "Record", "ControlType", "Record"]


# --- the bank at work


@pytest.mark.slow
@pytest.mark.parametrize("workload", ["bank", "tellers"])
@pytest.mark.parametrize("version", ["3.4", "4.1"])
def test_the_same_seed_is_the_same_run_and_clean(workload: str, version: str) -> None:
    first, second = (run(Case(workload, 4, 6.0, as_version=version)) for _ in range(2))
    assert first.failure is None, first.text
    assert (first.journal_hash, first.schedule_hash) == (second.journal_hash, second.schedule_hash)


def test_faults_meet_transactions_too() -> None:
    targets = WORKLOADS["bank"].targets()
    assert f"{TRANSACTION_TOPIC}-2" in targets.coordinators
    assert not WORKLOADS["group"].targets().transactions
    assert {"clerk", "auditor"} <= set(targets.hosts)
    assert SWARM


# --- the hole of version 1


class Bench:
    """One producer on two partitions of accounts, and a Produce of it that comes when its transaction has been aborted."""

    def __init__(self, sim: Any, version: str, flow: int, careful: bool = False) -> None:
        self.sim = sim
        self.kafka = sim.cluster(1, {TOPIC: 1, ACCOUNTS: 2, AUDIT: 1}, as_version=version, journal=False, config=CONFIG)
        self.kafka.state.ensure_offsets_topic()
        self.kafka.state.ensure_internal_topic(TRANSACTION_TOPIC)
        self.told: list[str] = []
        self.book = Book(lambda error: self.told.append(error.name), lambda: sim.elapsed_s)
        unheard = UncheckedAnswers(self.kafka.state, lambda: sim.elapsed_s, lambda error: None)
        client = RawClient(RawContext(sim, self.kafka, unheard), "teller")
        self.writer = TransactionalWriter(client, "teller", flow, careful=careful, timeout_ms=60_000)

    async def write(self, attempt: Attempt, index: int = 0) -> None:
        entry = BookEntry(attempt.name, PaymentOrder(0, 0), "0", 0)
        attempt.entries.setdefault((ACCOUNTS, index), []).append(entry)
        await self.writer.write(attempt, ACCOUNTS, index, [entry.to_bytes()])

    async def give(self, *, commits: bool) -> None:
        attempt = self.book.begin("clerk", self.writer.flow)
        self.writer.opens(attempt)
        await self.writer.write(attempt, TOPIC, 0, [attempt.name.encode() + b"|"])
        await self.writer.end(attempt, commits=commits)

    async def live(self) -> None:
        writer = self.writer
        await writer.begin()
        await self.give(commits=True)
        old = self.book.begin("teller", writer.flow)
        writer.opens(old)
        self.kafka.faults.add("Produce", delay="6s", times=3)
        with pytest.raises(AbortableError):
            await self.write(old)
        await writer.end(old, commits=False)
        new = self.book.begin("teller", writer.flow)
        writer.opens(new)
        if writer.flow == 1:
            await writer._add(new, ACCOUNTS, 0)
        await self.write(new, 1)
        await asyncio.sleep(6)  # the late ones are there
        await self.write(new)
        await writer.end(new, commits=True)
        await asyncio.sleep(1)

    def check_logs(self) -> None:
        topics = self.kafka.state.topics
        check_logs(self.book, topics[TOPIC], topics[ACCOUNTS].partitions, {})


@pytest.fixture
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    with simulate(1, invariants=False) as sim:
        made = Bench(sim, *request.param)
        sim.run(made.live(), within=60)
        yield made


@pytest.mark.parametrize(
    ("bench", "attempts"),
    [
        (("3.4", 1), ["teller/2"]),
        (("4.1", 1), ["teller/2"]),
        (("3.4", 1, True), ["teller/2", "teller/3"]),
    ],
    indirect=["bench"],
    ids=str,
)
def test_a_late_write_of_version_1_is_committed_with_the_next_transaction(bench: Bench, attempts: list[str]) -> None:
    """If the sequence number is used again, the next transaction's write is taken for the late one and left out. 3.4 accepts the late
    write from a producer with a new epoch, too, which is unknown to the partition."""
    (one,) = log_transactions(bench.kafka.log(ACCOUNTS, 0).partition)
    assert list(one.attempts) == attempts
    assert one.commits
    bench.check_logs()
    assert not bench.told
    assert bench.book.found[HOLE] >= 1


@pytest.mark.parametrize("bench", [("4.1", 1, True), ("4.1", 2)], indirect=True, ids=str)
def test_an_epoch_of_its_own_keeps_a_late_write_out(bench: Bench) -> None:
    """As each transaction of version 2 has, and of version 1 the next of a producer that is careful."""
    (one,) = log_transactions(bench.kafka.log(ACCOUNTS, 0).partition)
    assert list(one.attempts) == ["teller/3"]
    bench.check_logs()
    assert not bench.told
    assert not bench.book.found


LATE = (Fault(1.0, "rule", {"api": "TxnOffsetCommit", "delay": 4.5, "probability": 0.3, "for_s": 9}),)


@pytest.mark.slow
@pytest.mark.parametrize(("version", "flow"), [("3.4", 1), ("4.1", 1), ("4.1", 2)])
def test_sweeps_find_the_hole_of_version_1_and_none_in_version_2(
    version: str, flow: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(WORKLOADS, "tellers", replace(WORKLOADS["tellers"], flow=flow))
    found = 0
    for seed in range(12):
        outcome = run(Case("tellers", seed, 12.0, as_version=version, plan=LATE))
        assert outcome.failure is None, outcome.text
        found += outcome.waived.get(HOLE, 0)
    assert (found > 0) == (flow == 1)


def test_orders_that_are_aborted_are_none() -> None:
    with simulate(1, invariants=False) as sim:
        bench = Bench(sim, "4.1", 2)

        async def give() -> None:
            await bench.writer.begin()
            for commits in (True, False):
                await bench.give(commits=commits)
            await asyncio.sleep(1)

        sim.run(give(), within=30)
        assert orders_of(bench.kafka.state.topics[TOPIC]) == [PaymentOrder(0, 0)]
        bench.check_logs()
        assert bench.told == ["every order is carried out"]
