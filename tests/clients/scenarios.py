"""Behaviours of every Kafka client with a broker: one function per behaviour, written once, run for each client.

A scenario gets a Lab: the client's driver process, topics and groups of its own, and members that are started through
the client's own API. `needs` names what the client must be able to do at all; clients.py says why one cannot.
Nothing here knows which client or which broker it runs against.
"""

from __future__ import annotations

import itertools
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.clients.clients import Client
from tests.clients.driver import ClientError, Driver, Member, Partition, eventually, partitions

SESSION_MS = 10_000
SHORT_SESSION_MS = 2_000


class Lab:
    """One scenario's world: unique topic and group names, the members and processes that it must clean up."""

    _serial = itertools.count(1)

    def __init__(self, client: Client, driver: Driver, new_process: Callable[[], Driver]) -> None:
        self.client = client
        self.driver = driver
        self.prefix = f"{client.name}-{next(self._serial)}-{time.time_ns() % 10**9}"
        self.members: list[Member] = []
        self.processes: list[Driver] = []
        self._new_process = new_process
        self._names = itertools.count(1)

    def name(self, kind: str) -> str:
        return f"{self.prefix}-{kind}{next(self._names)}"

    def topic(self, partitions: int = 1, name: str | None = None, **configs: str) -> str:
        topic = name or self.name("t")
        self.driver.call("create_topic", topic=topic, partitions=partitions, configs=configs)
        return topic

    def group(self) -> str:
        return self.name("g")

    def produce(self, topic: str, records: Iterable[dict[str, Any]], **options: Any) -> list[Any]:
        found: list[Any] = self.driver.call("produce", topic=topic, records=list(records), **options)
        return found

    def fill(self, topic: str, partitions: int, each: int, tag: str = "v") -> list[str]:
        """`each` records into each partition; their values, in partition and offset order."""
        rows = [(p, f"{tag}-{p}-{i}") for p in range(partitions) for i in range(each)]
        self.produce(topic, ({"partition": p, "value": value} for p, value in rows))
        return [value for _p, value in rows]

    def member(self, process: Driver | None = None, **options: Any) -> Member:
        member = self.unstarted(process, **options)
        self.members.append(member)
        return member.start()

    def unstarted(self, process: Driver | None = None, **options: Any) -> Member:
        """A member whose consumer is not there yet."""
        defaults: dict[str, Any] = {
            "group": None,
            "topics": [],
            "strategy": "range",
            "reset": "earliest",
            "isolation": "read_uncommitted",
            "auto_commit": False,
            "auto_commit_interval_ms": 200,
            "session_timeout_ms": SESSION_MS,
            "heartbeat_interval_ms": 300,
            "metadata_max_age_ms": 300_000,
            "max_poll_interval_ms": 300_000,
        }
        return Member(process or self.driver, self.name("m"), {**defaults, **options})

    def process(self) -> Driver:
        """Start a further process of the same client, one that may be killed."""
        driver = self._new_process()
        self.processes.append(driver)
        return driver

    def committed(self, group: str, topic: str, count: int) -> dict[int, int]:
        """The group's offsets of partitions 0..count-1 as the client's admin API reads them; -1 is none."""
        rows = self.driver.call("group_offsets", group=group, partitions=[(topic, p) for p in range(count)])
        return {row[1]: row[2] for row in rows}

    def close(self) -> None:
        for process in self.processes:
            process.crash()
        dead = set(map(id, self.processes))
        remaining = [member for member in self.members if not member.left and id(member.driver) not in dead]
        leaving = [member.driver.send("leave", member=member.name) for member in remaining]
        for future in leaving:
            future.exception(20)
        for process in self.processes:
            process.close()


@dataclass(frozen=True)
class Scenario:
    run: Callable[[Lab], None]
    needs: frozenset[str]

    @property
    def name(self) -> str:
        return self.run.__name__


SCENARIOS: list[Scenario] = []


def scenario(*needs: str) -> Callable[[Callable[[Lab], None]], Callable[[Lab], None]]:
    def register(run: Callable[[Lab], None]) -> Callable[[Lab], None]:
        SCENARIOS.append(Scenario(run, frozenset(needs)))
        return run

    return register


def of(topic: str, *indexes: int) -> set[Partition]:
    return {(topic, index) for index in indexes}


def share_out(members: list[Member], everything: set[Partition]) -> list[set[Partition]]:
    """Waits until every member owns something and together they own each partition once; gives who owns what."""

    def shared(owned: list[set[Partition]]) -> bool:
        return all(owned) and sum(map(len, owned)) == len(everything) and set().union(*owned) == everything

    owned: list[set[Partition]] = eventually(
        f"{len(members)} members share {sorted(everything)}", lambda: [m.assignment() for m in members], shared
    )
    return owned


# ---------------------------------------------------------------------------------------------------- producing


@scenario("assign")
def produced_records_come_back_by_assign(lab: Lab) -> None:
    topic = lab.topic(3)
    base = 1_700_000_000_000
    rows = [{"partition": i % 3, "key": f"k{i}", "value": f"v{i}", "timestamp": base + i} for i in range(30)]
    acked = lab.produce(topic, rows)
    reader = lab.member(assign=sorted(of(topic, 0, 1, 2)))
    reader.reads(f"v{i}" for i in range(30))
    got = {(r.partition, r.offset, r.key, r.value, r.timestamp_ms) for r in reader.records()}
    assert got == {(p, o, r["key"], r["value"], r["timestamp"]) for (p, o), r in zip(acked, rows, strict=True)}
    assert sorted(acked) == [[p, o] for p in range(3) for o in range(10)]


@scenario()
def every_compression_comes_back(lab: Lab) -> None:
    topic = lab.topic(1)
    reader = lab.member(group=lab.group(), topics=[topic])
    for codec in lab.client.compressions:
        lab.produce(topic, [{"value": f"{codec} {i} " + "x" * 200} for i in range(50)], compression=codec)
    reader.reads(f"{codec} {i} " + "x" * 200 for codec in lab.client.compressions for i in range(50))
    assert [record.offset for record in reader.records()] == list(range(50 * len(lab.client.compressions)))


@scenario()
def every_acks_comes_back(lab: Lab) -> None:
    topic = lab.topic(1)
    reader = lab.member(group=lab.group(), topics=[topic])
    for acks in ("all", "1", "0"):
        lab.produce(topic, [{"value": f"acks {acks}"}], acks=acks)
    reader.reads(["acks all", "acks 1", "acks 0"])


@scenario()
def idempotent_producer_keeps_order(lab: Lab) -> None:
    topic = lab.topic(1)
    values = [f"{i}" for i in range(300)]
    acked = lab.produce(topic, ({"partition": 0, "value": value} for value in values), idempotent=True)
    reader = lab.member(group=lab.group(), topics=[topic])
    assert [record.value for record in reader.reads(values)] == values
    assert lab.client.name == "kafkajs" or acked == [[0, i] for i in range(300)]  # kafkajs reports one row a batch


@scenario()
def producing_creates_the_topic(lab: Lab) -> None:
    topic = lab.name("auto")
    lab.produce(topic, [{"value": "first"}], may_create=True)
    lab.member(group=lab.group(), topics=[topic]).reads(["first"])


@scenario()
def large_records_come_back(lab: Lab) -> None:
    topic = lab.topic(2)
    values = [f"{i}:" + "ab" * 150_000 for i in range(8)]
    for value in values:
        lab.produce(topic, [{"partition": len(value) % 2, "value": value}])
    lab.member(group=lab.group(), topics=[topic]).reads(values)


@scenario()
def delete_records_moves_the_log_start(lab: Lab) -> None:
    topic = lab.topic(1)
    values = lab.fill(topic, 1, 10)
    lab.driver.call("delete_records", topic=topic, partition=0, before=6)
    records = lab.member(group=lab.group(), topics=[topic]).reads(values[6:])
    assert [record.offset for record in records] == [6, 7, 8, 9]


# ---------------------------------------------------------------------------------------------------- subscribing


@scenario()
def range_gives_one_member_everything(lab: Lab) -> None:
    topics = [lab.topic(3), lab.topic(2)]
    member = lab.member(group=lab.group(), topics=topics)
    member.owns(of(topics[0], 0, 1, 2) | of(topics[1], 0, 1))
    member.reads(lab.fill(topics[0], 3, 2, "a") + lab.fill(topics[1], 2, 2, "b"))


@scenario()
def range_splits_in_blocks_between_two_members(lab: Lab) -> None:
    topic, group = lab.topic(4), lab.group()
    first = lab.member(group=group, topics=[topic])
    first.owns(of(topic, 0, 1, 2, 3))
    second = lab.member(group=group, topics=[topic])
    owned = share_out([first, second], of(topic, 0, 1, 2, 3))
    assert sorted(map(sorted, owned)) == [sorted(of(topic, 0, 1)), sorted(of(topic, 2, 3))]
    lab.fill(topic, 4, 5)
    for member, mine in zip([first, second], owned, strict=True):
        records = member.reads(f"v-{p}-{i}" for _topic, p in mine for i in range(5))
        assert {(record.topic, record.partition) for record in records} == mine


@scenario()
def roundrobin_deals_partitions_out(lab: Lab) -> None:
    topic, group = lab.topic(4), lab.group()
    members = [lab.member(group=group, topics=[topic], strategy="roundrobin") for _ in range(2)]
    owned = share_out(members, of(topic, 0, 1, 2, 3))
    assert [len(mine) for mine in owned] == [2, 2]
    if lab.client.name != "kafkajs":  # it deals in the order in which the broker happens to list the partitions
        assert sorted(map(sorted, owned)) == [sorted(of(topic, 0, 2)), sorted(of(topic, 1, 3))]


@scenario("cooperative-sticky")
def cooperative_sticky_moves_only_what_must_move(lab: Lab) -> None:
    topic, group = lab.topic(4), lab.group()
    everything = of(topic, 0, 1, 2, 3)
    first = lab.member(group=group, topics=[topic], strategy="cooperative-sticky")
    first.owns(everything)
    second = lab.member(group=group, topics=[topic], strategy="cooperative-sticky")
    kept, moved = share_out([first, second], everything)
    assert len(kept) == len(moved) == 2
    revoked = [partitions(rows) for rows in first.state()["revoked"]]
    assert set().union(*revoked) == moved, "the first member gave up more than what moved"
    lab.fill(topic, 4, 3)
    first.reads(f"v-{p}-{i}" for _topic, p in kept for i in range(3))
    second.reads(f"v-{p}-{i}" for _topic, p in moved for i in range(3))


@scenario("pattern")
def pattern_finds_topics(lab: Lab) -> None:
    stem = lab.name("p")
    topics = [lab.topic(1, f"{stem}-{word}") for word in ("one", "two")]
    lab.topic(1, f"other-{stem}")
    member = lab.member(group=lab.group(), pattern=f"^{re.escape(stem)}-.*", metadata_max_age_ms=500)
    member.owns({(topic, 0) for topic in topics})
    if "pattern-follows" not in lab.client.cannot:
        topics.append(lab.topic(1, f"{stem}-three"))
        member.owns({(topic, 0) for topic in topics})
    for topic in topics:
        lab.produce(topic, [{"value": topic}])
    member.reads(topics)


@scenario("later-topic")
def topic_may_come_after_the_subscription(lab: Lab) -> None:
    topic = lab.name("later")
    member = lab.member(group=lab.group(), topics=[topic], metadata_max_age_ms=500)
    lab.produce(topic, [{"value": "first"}], may_create=True)
    member.reads(["first"])


@scenario()
def wide_topic_is_read_and_committed_whole(lab: Lab) -> None:
    topic, group, count = lab.topic(60), lab.group(), 60
    members = [lab.member(group=group, topics=[topic]) for _ in range(3)]
    share_out(members, of(topic, *range(count)))
    values = set(lab.fill(topic, count, 2))
    eventually("every record arrives", lambda: {v for m in members for v in m.values()}, values.__eq__)
    for member in members:
        member.commit("sync")
    assert lab.committed(group, topic, count) == dict.fromkeys(range(count), 2)


# ---------------------------------------------------------------------------------------------------- committing


def read_five_then_commit(lab: Lab, how: str) -> None:
    topic, group = lab.topic(2), lab.group()
    values = lab.fill(topic, 2, 5)
    member = lab.member(group=group, topics=[topic])
    member.reads(values)
    member.commit(how)
    assert lab.committed(group, topic, 2) == {0: 5, 1: 5}
    member.commit(how, [(topic, 0, 3, "a note")])
    assert lab.committed(group, topic, 2) == {0: 3, 1: 5}
    ((_topic, _partition, offset, note),) = member.call("committed", partitions=[(topic, 0)])
    assert offset == 3
    ((_topic, _partition, offset, note),) = lab.driver.call("group_offsets", group=group, partitions=[(topic, 0)])
    assert (offset, note) == (3, "a note")
    member.leave()
    heir = lab.member(group=group, topics=[topic])
    records = heir.reads(["v-0-3", "v-0-4", *lab.fill(topic, 2, 1, "w")])
    assert sorted((r.partition, r.offset) for r in records) == [(0, 3), (0, 4), (0, 5), (1, 5)]


@scenario()
def commit_sync_is_where_the_next_member_starts(lab: Lab) -> None:
    read_five_then_commit(lab, "sync")


@scenario()
def commit_async_is_where_the_next_member_starts(lab: Lab) -> None:
    read_five_then_commit(lab, "async")


@scenario()
def auto_commit_follows_reading(lab: Lab) -> None:
    topic, group = lab.topic(2), lab.group()
    member = lab.member(group=group, topics=[topic], auto_commit=True, auto_commit_interval_ms=200)
    member.reads(lab.fill(topic, 2, 5))
    eventually("the interval's commit", lambda: lab.committed(group, topic, 2), lambda c: c == {0: 5, 1: 5})
    member.reads(lab.fill(topic, 2, 2, "w"))
    member.leave()
    eventually("the commit at close", lambda: lab.committed(group, topic, 2), lambda c: c == {0: 7, 1: 7})


@scenario("assign")
def assigned_consumer_commits_without_joining(lab: Lab) -> None:
    topic, group = lab.topic(2), lab.group()
    values = lab.fill(topic, 2, 4)
    member = lab.member(group=group, assign=sorted(of(topic, 0, 1)))
    member.reads(values)
    member.commit("sync")
    assert lab.committed(group, topic, 2) == {0: 4, 1: 4}
    described = lab.driver.call("describe_group", group=group)
    assert (described["state"].lower(), described["members"]) == ("empty", [])
    member.leave()
    heir = lab.member(group=group, assign=sorted(of(topic, 0, 1)))
    assert {r.offset for r in heir.reads(lab.fill(topic, 2, 1, "w"))} == {4}


@scenario()
def committed_offset_beyond_the_log_is_reset(lab: Lab) -> None:
    topic, group = lab.topic(1), lab.group()
    values = lab.fill(topic, 1, 5)
    member = lab.member(group=group, topics=[topic])
    member.reads(values)
    member.commit("sync", [(topic, 0, 1000, "")])
    member.leave()
    heir = lab.member(group=group, topics=[topic], reset="earliest")
    assert heir.reads(values)[0].offset == 0


# ---------------------------------------------------------------------------------------------------- positions


@scenario()
def reset_earliest_starts_at_the_first_record(lab: Lab) -> None:
    topic = lab.topic(1)
    values = lab.fill(topic, 1, 5)
    member = lab.member(group=lab.group(), topics=[topic], reset="earliest")
    assert [record.value for record in member.reads(values)] == values
    if "position" not in lab.client.cannot:
        assert member.position((topic, 0)) == 5


@scenario()
def reset_latest_starts_after_the_last_record(lab: Lab) -> None:
    topic = lab.topic(1)
    lab.fill(topic, 1, 5, "early")
    member = lab.member(group=lab.group(), topics=[topic], reset="latest")
    member.owns(of(topic, 0))
    sent = itertools.count()

    def late_record_arrived() -> list[str]:
        lab.produce(topic, [{"value": f"late-{next(sent)}"}])
        return member.values()

    values = eventually("a record sent after the start arrives", late_record_arrived)
    assert all(value.startswith("late") for value in values)


@scenario()
def read_committed_reads_plain_records(lab: Lab) -> None:
    topic, group = lab.topic(2), lab.group()
    values = lab.fill(topic, 2, 5)
    member = lab.member(group=group, topics=[topic], isolation="read_committed")
    member.reads(values)
    member.commit("sync")
    member.leave()
    heir = lab.member(group=group, topics=[topic], isolation="read_committed", reset="latest")
    assert {record.offset for record in heir.reads(lab.fill(topic, 2, 1, "w"))} == {5}


@scenario("reset-none")
def reset_none_refuses_to_guess(lab: Lab) -> None:
    topic, group = lab.topic(1), lab.group()
    values = lab.fill(topic, 1, 5)
    refusing = lab.member(group=group, topics=[topic], reset="none")
    refusing.fails(re.compile(lab.client.no_offset_error).search)
    assert refusing.values() == []
    refusing.leave()
    deciding = lab.member(group=group, topics=[topic])
    deciding.owns(of(topic, 0))
    deciding.commit("sync", [(topic, 0, 2, "")])
    deciding.leave()
    knowing = lab.member(group=group, topics=[topic], reset="none")
    assert [record.value for record in knowing.reads(values[2:])] == values[2:]


@scenario()
def seek_by_timestamp(lab: Lab) -> None:
    topic = lab.topic(2)
    base = 1_700_000_000_000
    rows = [{"partition": i % 2, "value": f"v{i}", "timestamp": base + 1000 * i} for i in range(20)]
    lab.produce(topic, rows)
    options: dict[str, Any] = {"assign": sorted(of(topic, 0, 1))}
    if "assign" in lab.client.cannot:
        options = {"topics": [topic]}
    member = lab.member(group=lab.group(), **options)
    member.reads(str(row["value"]) for row in rows)
    found = member.call("seek_timestamp", partitions=sorted(of(topic, 0, 1)), timestamp_ms=base + 9_500)
    assert sorted(found) == [[topic, 0, 5], [topic, 1, 5]]
    expected = {f"v{i}": 1 + (i >= 10) for i in range(20)}
    eventually("what came after the timestamp is read again", lambda: Counter(member.values()), expected.__eq__)


# ---------------------------------------------------------------------------------------------------- rebalancing


@scenario()
def leaving_hands_the_partitions_over(lab: Lab) -> None:
    topic, group = lab.topic(4), lab.group()
    everything = of(topic, 0, 1, 2, 3)
    stays, leaves = (lab.member(group=group, topics=[topic]) for _ in range(2))
    share_out([stays, leaves], everything)
    began = time.monotonic()
    leaves.leave()
    stays.owns(everything)
    assert time.monotonic() - began < SESSION_MS / 1000, "the group waited for the session of a member that had left"
    stays.reads(lab.fill(topic, 4, 1))


@scenario()
def crashed_member_is_dropped_after_its_session(lab: Lab) -> None:
    topic, group = lab.topic(4), lab.group()
    everything = of(topic, 0, 1, 2, 3)
    victim = lab.process()
    options: dict[str, Any] = {"group": group, "topics": [topic], "session_timeout_ms": SHORT_SESSION_MS}
    survivor = lab.member(**options)
    survivor.owns(everything)
    share_out([survivor, lab.member(victim, **options)], everything)
    victim.crash()
    began = time.monotonic()
    survivor.owns(everything)
    waited = time.monotonic() - began
    assert waited > SHORT_SESSION_MS / 1000 * 0.5, f"the crash was noticed after {waited:.1f} s: who told the broker?"
    survivor.reads(lab.fill(topic, 4, 1))


@scenario()
def frozen_member_comes_back(lab: Lab) -> None:
    topic, group = lab.topic(4), lab.group()
    everything = of(topic, 0, 1, 2, 3)
    process = lab.process()
    options: dict[str, Any] = {"group": group, "topics": [topic], "session_timeout_ms": SHORT_SESSION_MS}
    survivor = lab.member(**options)
    survivor.owns(everything)
    frozen = lab.member(process, **options)
    share_out([survivor, frozen], everything)
    process.freeze()
    survivor.owns(everything)
    process.thaw()
    share_out([survivor, frozen], everything)


@scenario("max-poll-interval")
def stalled_member_leaves_and_comes_back(lab: Lab) -> None:
    topic, group = lab.topic(4), lab.group()
    everything = of(topic, 0, 1, 2, 3)
    options: dict[str, Any] = {"group": group, "topics": [topic], "session_timeout_ms": SHORT_SESSION_MS}
    survivor = lab.member(**options)
    survivor.owns(everything)
    stalled = lab.member(max_poll_interval_ms=SHORT_SESSION_MS, **options)
    share_out([survivor, stalled], everything)
    stalled.call("stall")
    survivor.owns(everything)
    stalled.call("resume")
    share_out([survivor, stalled], everything)


@scenario()
def new_partitions_are_shared_out(lab: Lab) -> None:
    topic, group = lab.topic(2), lab.group()
    members = [lab.member(group=group, topics=[topic], metadata_max_age_ms=500) for _ in range(2)]
    share_out(members, of(topic, 0, 1))
    lab.driver.call("create_partitions", topic=topic, total=4)
    share_out(members, of(topic, 0, 1, 2, 3))
    values = set(lab.fill(topic, 4, 2))
    eventually("all records of old and new partitions", lambda: {v for m in members for v in m.values()}, values.__eq__)


@scenario("static")
def static_member_restarts_without_a_rebalance(lab: Lab) -> None:
    topic, group = lab.topic(4), lab.group()
    everything = of(topic, 0, 1, 2, 3)
    options: dict[str, Any] = {"group": group, "topics": [topic]}
    first = lab.member(instance="one", **options)
    first.owns(everything)
    second = lab.member(instance="two", **options)
    owned = share_out([first, second], everything)
    rebalances = len(first.state()["assigned"])
    second.leave()
    again = lab.member(instance="two", **options)
    again.owns(owned[1])
    again.reads(value for value in lab.fill(topic, 4, 1) if (topic, int(value.split("-")[1])) in owned[1])
    assert first.assignment() == owned[0]
    assert len(first.state()["assigned"]) == rebalances, "a static member's restart rebalanced the group"


@scenario("static", "fencing")
def static_member_is_fenced_by_its_successor(lab: Lab) -> None:
    topic, group = lab.topic(2), lab.group()
    options: dict[str, Any] = {"group": group, "topics": [topic], "instance": "only"}
    first = lab.member(**options)
    first.owns(of(topic, 0, 1))
    second = lab.member(**options)
    second.owns(of(topic, 0, 1))
    with pytest.raises(ClientError, match=lab.client.fenced_error):
        first.commit("sync", [(topic, 0, 0, "")])


# ---------------------------------------------------------------------------------------------------- administration


@scenario()
def admin_lists_and_describes_groups(lab: Lab) -> None:
    topic, group = lab.topic(2), lab.group()
    members = [lab.member(group=group, topics=[topic]) for _ in range(2)]
    share_out(members, of(topic, 0, 1))
    assert group in lab.driver.call("list_groups")

    def describe() -> Any:
        return lab.driver.call("describe_group", group=group)

    described = eventually("the group is Stable", describe, lambda d: d["state"].lower() == "stable")
    assert sorted(member["client_id"] for member in described["members"]) == sorted(m.name for m in members)
    assert described["protocol"] == "range"
    for member in members:
        member.leave()
    described = eventually("the group is Empty", describe, lambda d: d["state"].lower() == "empty")
    assert described["members"] == []


@scenario("delete-group")
def admin_deletes_only_an_empty_group(lab: Lab) -> None:
    topic, group = lab.topic(1), lab.group()
    member = lab.member(group=group, topics=[topic])
    member.reads(lab.fill(topic, 1, 1))
    member.commit("sync")
    with pytest.raises(ClientError, match=r"(?i)non_?empty|not empty"):
        lab.driver.call("delete_group", group=group)
    member.leave()
    lab.driver.call("delete_group", group=group)
    assert group not in lab.driver.call("list_groups")
    assert lab.committed(group, topic, 1) == {0: -1}
