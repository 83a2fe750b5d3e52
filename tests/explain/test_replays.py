"""Incidents of public reports, replayed in virtual time: what explain, a wait and the findings say to whom is on call."""

from __future__ import annotations

import re
from pathlib import Path

from broker_sim.explain import recent
from broker_sim.explain.transaction_text import explain_transactions
from tests.explain.replays import findings_of, paragraphs, replayed

HEAD = "name: a replay\ndescription: An incident.\ncluster: {as_version: '4.2'}\n"
ORDERS = "topics:\n  - {name: orders, partitions: 4, records: 40, rate: 5/s}\nclients:\n"
PAYMENTS = "topics:\n  - {name: payments, partitions: 2}\nclients:\n"
PRODUCER = "  - {{name: {name}, kind: transactional, topics: [payments], transactional_id: orders-app, work: 1s, interval: 2s{more}}}\n"
READER = "  - {name: reader, group: audit, topics: [payments], config: {isolation_level: read_committed}}\n"
READS = "expect:\n  - group: {audit: {state: Stable}}\n"


def test_static_members_that_restart_one_by_one_move_no_epoch(tmp_path: Path) -> None:
    clients = "".join(
        f"  - {{name: {age}-{n}, group: billing, topics: [orders], kind: consumer, instance_id: pod-{n}{more}}}\n"
        for age, more in (("old", ""), ("new", ", start: false"))
        for n in (1, 2)
    )
    steps = "steps:\n  - when: {group: billing, state: Stable, members: 2}\n"
    for n in (1, 2):
        steps += f"  - after: 10s\n    do: {{client: old-{n}, action: leave}}\n"
        steps += f"  - after: 5s\n    do: {{client: new-{n}, action: start}}\n"
    events = replayed(f"{HEAD}{ORDERS}{clients}{steps}  - after: 20s\n    do: {{mark: end}}\n{STABLE}", tmp_path)
    said = paragraphs(events)
    assert sum(one.startswith("epoch") for one in said) == 2
    assert (
        "pod-1 (old-1) left for a while, as static members do: its partitions stay assigned to it until its session expires"
        in said
    )
    assert any(one.startswith("new-1 at ") and "replaced old-1 at " in one for one in said)
    assert findings_of(tmp_path) == []


STABLE = "expect:\n  - group: {billing: {state: Stable}}\n"


def test_a_fenced_producer_is_no_stuck_partition(tmp_path: Path) -> None:
    steps = "steps:\n  - when: {client: p-1, reports: committed}\n    after: 4s\n    do: {client: p-2, action: start}\n"
    clients = PRODUCER.format(name="p-1", more="") + PRODUCER.format(name="p-2", more=", start: false") + READER
    events = replayed(f"{HEAD}{PAYMENTS}{clients}{steps}  - after: 20s\n    do: {{mark: end}}\n{READS}", tmp_path)
    said = " ".join(explain_transactions(events, "orders-app").split())
    assert re.search(
        r"p-2 initialized the id and got epoch 3 of producer \d+, which fenced the producer of p-1\.", said
    )
    assert "Produce of p-1 was answered INVALID_PRODUCER_EPOCH: p-2 had initialized the id at " in said
    assert not [one for one in findings_of(tmp_path) if one["kind"] == "stuck"]


def test_a_slow_transaction_that_its_producer_committed_did_not_hang(tmp_path: Path) -> None:
    steps = "steps:\n  - when: {client: p-1, reports: committed}\n    do: {log: payments-1, state: stuck}\n"
    steps += "  - after: 20s\n    do: {log: payments-1, state: online}\n  - after: 20s\n    do: {mark: end}\n"
    replayed(HEAD + PAYMENTS + PRODUCER.format(name="p-1", more="") + READER + steps + READS, tmp_path)
    (one,) = [one for one in findings_of(tmp_path) if one["kind"] == "transaction"]
    assert ", and was committed" in one["text"]
    assert "Its producer may hang" not in one["advice"]


def test_a_frozen_member_of_a_share_group_holds_records_and_no_rebalance(tmp_path: Path) -> None:
    clients = "".join(
        f"  - {{name: s-{n}, group: billing, topics: [orders], kind: share{more}}}\n"
        for n, more in ((1, ", work: 2s"), (2, ", start: false"))
    )
    steps = "steps:\n  - when: {group: billing, state: Stable, members: 1}\n"
    steps += "  - after: 5s\n    do: [{client: s-2, action: start}, {client: s-1, action: freeze}]\n"
    events = replayed(f"{HEAD}{ORDERS}{clients}{steps}  - after: 60s\n    do: {{mark: end}}\n{STABLE}", tmp_path)
    said = paragraphs(events)
    assert any("to s-1, whose acquisition lock expired after 30 s; to s-2, which accepted it" in one for one in said)
    assert any(
        ": s-1 was removed: its session expired (its last request was a ShareGroupHeartbeat at" in one for one in said
    )
    assert "ShareFetch" not in recent(events, "billing")  # the poll that the end of the run cut off
    kinds = {one["kind"] for one in findings_of(tmp_path)}
    assert "session expired" in kinds
    assert "slow rebalance" not in kinds


def test_a_wait_of_a_group_says_which_transaction_its_readers_wait_for(tmp_path: Path) -> None:
    steps = "steps:\n  - when: {client: p-1, reports: committed}\n    do: {fault: {api: EndTxn, hang: true, times: 1}, as: held}\n"
    steps += "  - after: 12s\n    do: {mark: waits}\n  - after: 30s\n    do: {mark: end}\n"
    producer = PRODUCER.format(name="p-1", more=", transaction_timeout: 20s, request_timeout: 60s")
    events = replayed(HEAD + PAYMENTS + producer + READER + steps + READS, tmp_path)
    at_ms = next(event["ts_ms"] for event in events if event.get("text") == "waits")
    waits = recent([event for event in events if event["ts_ms"] <= at_ms], "audit")
    assert re.search(r"  orders-app's transaction of .*never answer.*reader waited there for", waits)
    slow = [line for line in recent(events, "audit").splitlines() if "orders-app's transaction" in line]
    assert len(slow) == 1  # those that were committed, and for which it waited for a second, are none of its troubles


def test_a_killed_member_of_a_stable_classic_group_keeps_its_partitions_until_its_session_ends(tmp_path: Path) -> None:
    clients = "".join(
        f"  - {{name: app-{n}, group: billing, topics: [orders], session_timeout: 45s}}\n" for n in (1, 2)
    )
    steps = "steps:\n  - when: {group: billing, state: Stable, members: 2}\n"
    steps += "  - after: 10s\n    do: {client: app-1, action: crash}\n  - after: 20s\n    do: {mark: end}\n"
    expect = "expect:\n  - group: {billing: {members: 2}}\n"
    events = replayed(HEAD + ORDERS + clients + steps + expect, tmp_path)
    kept = r"he connection of app-1 was closed at \S+ without a LeaveGroup: orders-\d and orders-\d stay assigned to it until"
    assert re.search(kept, " ".join(paragraphs(events)))
    assert re.search(kept, recent(events, "billing"))
    assert "app-2 was closed" not in recent(events, "billing")
    (one,) = findings_of(tmp_path)
    assert one["kind"] == "stalled"
    assert re.search(
        r"; the connection of app-1 at \S+ was closed without a LeaveGroup, and it keeps its partitions until",
        one["text"],
    )
    assert "look at that member" not in one["advice"]


def test_a_refused_instance_id_names_its_holder_and_until_when(tmp_path: Path) -> None:
    clients = "".join(
        f"  - {{name: {name}, group: billing, topics: [orders], kind: consumer, instance_id: pod-1{more}}}\n"
        for name, more in (("east", ""), ("west", ", start: false"))
    )
    steps = "steps:\n  - when: {group: billing, state: Stable, members: 1}\n    do: {client: west, action: start}\n"
    steps += "  - after: 30s\n    do: {client: east, action: crash}\n  - after: 80s\n    do: {mark: end}\n"
    events = replayed(HEAD + ORDERS + clients + steps + STABLE, tmp_path)
    (one,) = [one for one in findings_of(tmp_path) if one["kind"] == "instance id in use"]
    assert re.fullmatch(
        r"west \([\d.]+\) was refused the group.instance.id pod-1 of billing \d+ times from [\d:.]+ on, for [^:]+: east "
        r"\([\d.]+\) held it until [\d:.]+, when its session expired\.",
        one["text"],
    )
    assert one["advice"].startswith("The holder ended without a leaving heartbeat")
    assert any("is held by east at" in each and "when its session expired" in each for each in paragraphs(events))


def test_two_processes_with_one_instance_id_are_advised_to_have_two(tmp_path: Path) -> None:
    clients = "".join(
        f"  - {{name: {name}, group: billing, topics: [orders], kind: consumer, instance_id: pod-1{more}}}\n"
        for name, more in (("east", ""), ("west", ", start: false"))
    )
    steps = "steps:\n  - when: {group: billing, state: Stable, members: 1}\n    do: {client: west, action: start}\n"
    replayed(f"{HEAD}{ORDERS}{clients}{steps}  - after: 30s\n    do: {{mark: end}}\n{STABLE}", tmp_path)
    (one,) = findings_of(tmp_path)
    assert one["text"].endswith(") held it.")
    assert one["advice"].startswith("Two processes run with one group.instance.id")


def test_a_share_group_at_the_limit_of_its_records_in_flight(tmp_path: Path) -> None:
    head = HEAD.replace("'4.2'", "'4.2', config: {group.share.partition.max.record.locks: 100}")
    topics = "topics:\n  - {name: orders, partitions: 1, rate: 50/s}\nclients:\n"
    clients = "".join(
        f"  - {{name: s-{n}, group: billing, topics: [orders], kind: share{more}}}\n"
        for n, more in ((1, ", commit: never"), (2, ""))
    )
    steps = "steps:\n  - when: {group: billing, state: Stable, members: 2}\n  - after: 25s\n    do: {mark: full}\n"
    events = replayed(f"{head}{topics}{clients}{steps}  - after: 20s\n    do: {{mark: end}}\n{STABLE}", tmp_path)
    at_ms = next(event["ts_ms"] for event in events if event.get("text") == "full")
    waits = recent([event for event in events if event["ts_ms"] <= at_ms], "billing")
    limit = "100 are in flight, as many as group.share.partition.max.record.locks allows; s-1 has 100"
    assert re.search(
        rf"no member is given more records of orders-0 since \S+ \(2\d[.\d]* s\): {limit}$", waits, re.MULTILINE
    )
    was = limit.replace("are in", "were in").replace("has", "had")
    assert re.search(
        rf"no member was given more records of orders-0 until \S+ \([\d.]+ s\): {was}", " ".join(paragraphs(events))
    )


def test_a_share_group_with_room_is_not_at_its_limit(tmp_path: Path) -> None:
    clients = "  - {name: s-1, group: billing, topics: [orders], kind: share, work: 50ms}\n"
    steps = "steps:\n  - when: {group: billing, state: Stable, members: 1}\n  - after: 10s\n    do: {mark: end}\n"
    assert "in flight" not in recent(replayed(HEAD + ORDERS + clients + steps + STABLE, tmp_path), "billing")
