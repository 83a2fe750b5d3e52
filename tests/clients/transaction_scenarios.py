"""Behaviours of every client's transactional producers with a broker, as in scenarios.py."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from tests.clients.driver import ClientError, eventually
from tests.clients.scenarios import SHORT_SESSION_MS, Lab, scenario


class Transactional:
    """A producer with a transactional id, through the client's own API."""

    def __init__(self, lab: Lab, transactional_id: str, timeout_ms: int = 60_000) -> None:
        self.lab, self.name = lab, lab.name("p")
        lab.driver.call("transactional", name=self.name, transactional_id=transactional_id, timeout_ms=timeout_ms)

    def run(self, topic: str, values: Iterable[str], end: str = "commit", **options: Any) -> list[str]:
        """One transaction, or a part of it: ``values`` go to partition 0 and 1 in turn; ``end``: commit, abort or open."""
        sent = list(values)
        records = [{"topic": topic, "partition": index % 2, "value": value} for index, value in enumerate(sent)]
        self.lab.driver.call("transaction", name=self.name, records=records, end=end, **options)
        return sent


@scenario("transactions")
def committed_transactions_are_read_and_aborted_ones_are_not(lab: Lab) -> None:
    topic, producer = lab.topic(2), Transactional(lab, lab.name("x"))
    kept = producer.run(topic, ["a1", "a2", "a3"])
    dropped = producer.run(topic, ["b1", "b2"], "abort")
    kept += producer.run(topic, ["c1", "c2"])
    kept += producer.run(topic, ["d1"])
    committed = lab.member(group=lab.group(), topics=[topic], isolation="read_committed")
    committed.reads(kept)
    lab.member(group=lab.group(), topics=[topic]).reads([*kept, *dropped])
    assert Counter(committed.values()) == Counter(kept)


@scenario("transactions")
def read_committed_waits_for_the_end_of_a_transaction(lab: Lab) -> None:
    topic, producer = lab.topic(2), Transactional(lab, lab.name("x"))
    sent = producer.run(topic, ["a1", "a2"], "open")
    early = lab.member(group=lab.group(), topics=[topic])
    late = lab.member(group=lab.group(), topics=[topic], isolation="read_committed")
    early.reads(sent)
    assert late.values() == []
    producer.run(topic, [], "commit")
    late.reads(sent)


@scenario("transactions", "transactional-offsets")
def offsets_of_a_transaction_count_when_it_commits(lab: Lab) -> None:
    topic, group, producer = lab.topic(2), lab.group(), Transactional(lab, lab.name("x"))
    at = [[topic, 0], [topic, 1]]

    def committed() -> list[int]:
        return [row[2] for row in lab.driver.call("group_offsets", group=group, partitions=at)]

    producer.run(topic, ["a1", "a2"], group=group, offsets=[[topic, 0, 5], [topic, 1, 6]])
    eventually("the offsets of the transaction are committed", committed, [5, 6].__eq__)
    producer.run(topic, ["b1"], "abort", group=group, offsets=[[topic, 0, 50]])
    producer.run(topic, ["c1"], group=group, offsets=[[topic, 1, 7]])
    eventually("those of the next one are, and not the aborted one's", committed, [5, 7].__eq__)


@scenario("transactions", "transform")
def what_is_transformed_is_there_once_although_the_first_is_killed(lab: Lab) -> None:
    source, sink, group = lab.topic(2), lab.topic(2), lab.group()
    values = lab.fill(source, 2, 30)
    options: dict[str, Any] = {
        "transactional_id": lab.name("x"),
        "timeout_ms": 60_000,
        "group": group,
        "source": source,
        "sink": sink,
        "session_timeout_ms": SHORT_SESSION_MS,
    }
    victim = lab.process()
    moved = victim.call("transform", **options, count=15, leave="open")
    victim.crash()
    moved += lab.driver.call("transform", **options, count=len(values) - moved, leave="nothing")
    assert moved == len(values)
    lab.member(group=lab.group(), topics=[sink], isolation="read_committed").reads(values)
    assert sum(lab.committed(group, source, 2).values()) == len(values)


@scenario("transactions")
def second_instance_fences_the_first(lab: Lab) -> None:
    topic, transactional_id = lab.topic(2), lab.name("x")
    first = Transactional(lab, transactional_id)
    first.run(topic, ["a1", "a2"], "open")
    second = Transactional(lab, transactional_id)
    with pytest.raises(ClientError, match=r"(?i)fenced|epoch"):
        first.run(topic, ["a3"])
    # kafka-python takes the first refusal for one that a new epoch helps against, and asks for one on its own: were that to come
    # while the second one's transaction is open, it would be aborted (Kafka looks at no epoch there). The next says that it gave up.
    with pytest.raises(ClientError):
        first.run(topic, ["a4"])
    kept = second.run(topic, ["b1", "b2"])
    lab.member(group=lab.group(), topics=[topic], isolation="read_committed").reads(kept)
