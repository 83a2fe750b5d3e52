"""The workloads of sweeps: who is in them, what their ledger notices, what cooperative members share out, what a run reaches."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_sim.common.buggify import SITES
from broker_sim.simulation import simulate
from broker_sim.simulation.checks.answers import InvariantBroken
from broker_sim.simulation.checks.ledger import DeliveryLedger
from broker_sim.simulation.checks.replay import StoredGroup, differences, groups_in_log
from broker_sim.simulation.faults.kinds import Fault
from broker_sim.simulation.sweeps.coverage import EXPECTED
from broker_sim.simulation.sweeps.trial import Case, run, verdict_row
from broker_sim.simulation.workloads.catalogue import WORKLOADS
from broker_sim.simulation.workloads.cooperative import share
from broker_sim.simulation.workloads.raw import CONFIG, GROUP, commit_request
from tests.simulation.workload import begin


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=list(WORKLOADS))
def test_an_entry_says_who_can_be_hit(workload: object) -> None:
    from broker_sim.simulation.workloads.catalogue import Workload

    assert isinstance(workload, Workload)
    targets = workload.targets(2)
    assert set(targets.clients) <= set(targets.hosts)
    assert len(targets.hosts) == len(set(targets.hosts))
    assert len(targets.brokers) == workload.brokers
    assert sum(min(2, team.members) for team in workload.teams) == len(workload.clients(2))
    assert set(workload.produced) <= set(workload.topics)
    assert workload.description


# --- the ledger


def ledger() -> tuple[DeliveryLedger, list[str]]:
    found: list[str] = []
    made = DeliveryLedger(lambda error: found.append(error.name))
    made.reads("billing", "orders")
    return made, found


def test_records_may_come_twice_but_none_is_skipped() -> None:
    book, found = ledger()
    book.gave("billing", "orders", 0, [0, 1, 2], "c1")
    book.gave("billing", "orders", 0, [1, 2, 3], "c2")
    book.gave("billing", "orders", 1, [0], "c2")
    assert not found
    book.gave("billing", "orders", 0, [5], "c2")
    assert found == ["no record is skipped"]


def test_a_batch_with_a_hole() -> None:
    book, found = ledger()
    book.gave("billing", "orders", 0, [0, 2], "c1")
    assert found == ["no record is skipped"]


def test_what_is_committed_was_read_by_that_group() -> None:
    book, found = ledger()
    book.gave("billing", "orders", 0, [0, 1], "c1")
    book.gave("audit", "orders", 0, [0, 1, 2, 3], "c2")
    book.shows("billing", "orders-0", 2)
    book.shows("billing", "elsewhere-0", 99)
    assert not found
    book.shows("billing", "orders-0", 3)
    assert found == ["committed offsets have been read"]


# --- cooperative members


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 5), st.integers(1, 9), st.data())
def test_a_partition_changes_hands_through_nobodys(members: int, parts: int, data: st.DataObject) -> None:
    names = [f"m{number}" for number in range(members)]
    owner = data.draw(st.lists(st.sampled_from(["", *names]), min_size=parts, max_size=parts))
    owned = {name: (7, [i for i, one in enumerate(owner) if one == name]) for name in names}
    for _ in range(3):
        given_now = share(owned, parts)
        flat = [index for indexes in given_now.values() for index in indexes]
        assert len(flat) == len(set(flat))
        for name, indexes in given_now.items():
            for index in indexes:
                assert all(index not in parts_ for other, (_, parts_) in owned.items() if other != name)
        owned = {name: (8, indexes) for name, indexes in given_now.items()}
    sizes = [len(indexes) for _, indexes in owned.values()]
    assert sum(sizes) == parts
    assert max(sizes) - min(sizes) <= 1


def test_of_two_claims_the_later_generation_is_believed() -> None:
    assert share({"old": (3, [0, 1]), "new": (4, [0])}, 2) == {"new": [0], "old": [1]}


# --- what a log says


def test_the_second_reader_reads_what_the_coordinator_has() -> None:
    with simulate(1) as sim:
        group = begin(sim, every_s=0.2)
        sim.run_for(20)
        partition = group.kafka.offsets_log("billing").partition
        shard = group.kafka.runtime.shard(partition.index)
        assert shard is not None
        told = groups_in_log(partition, group_tombstone_ends_offsets=True)
        assert told["billing"].generation == 1
        assert len(told["billing"].members) == 3
        assert not differences(told, shard.groups, loaded=True)
        told["billing"].offsets["orders", 99] = 5
        ((name, what),) = differences(told, shard.groups, loaded=True)
        assert (name, what) == ("billing", "the log says orders-99 5, not None")
        assert differences({"billing": StoredGroup(generation=2)}, shard.groups, loaded=True)
        assert CONFIG
        assert commit_request("", None, -1, {0: 1}).group_id == GROUP


# --- what a run reaches, as a row


def test_a_run_says_what_it_reached_and_is_a_row() -> None:
    outcome = run(Case("group", 3, 10.0, journal=True, plan=()))
    assert outcome.reached["state Stable"] >= 1
    assert outcome.reached["JoinGroup MEMBER_ID_REQUIRED"] == 3
    assert outcome.reached["rebalance: JoinGroup"] >= 1
    row = verdict_row(outcome)
    assert (row["seed"], row["workload"], row["verdict"], row["invariant"]) == (3, "group", "clean", None)
    assert all(isinstance(value, str | int | float | bool | None) for value in row.values())
    assert row["schedule"] == "[]"


def test_names_of_what_is_to_be_reached_are_each_there_once() -> None:
    assert len(EXPECTED) == len(set(EXPECTED))


def test_a_waived_invariant_is_counted_and_the_others_go_on() -> None:
    with simulate(1, invariants=False) as sim:
        kafka = sim.cluster(1, {"orders": 2}, config=CONFIG)
        kafka.state.ensure_offsets_topic()
        found: list[InvariantBroken] = []
        from broker_sim.simulation.checks.invariants import Invariants

        watch = Invariants(kafka, found.append, waive=["a group is stored in the offsets partition of its hash"])
        cause = {"kind": "request", "request": 1, "api": "JoinGroup"}
        member = {
            "client_id": "one",
            "client_host": "/10.0.0.1",
            "instance": None,
            "topics": ["orders"],
            "deferred": None,
        }
        member |= {
            "member": "a",
            "session_timeout_ms": 2000,
            "rebalance_timeout_ms": 3000,
            "assignment": {"orders": [0]},
        }
        shown = {"state": "Stable", "generation": 1, "protocol": "range", "size": 1, "members": [member], "pending": []}
        log = "__consumer_offsets-0"
        kafka.journal.write("group", log=log, group=GROUP, cause=cause, before=None, after={**shown, "leader": "a"})
        assert watch.answers.waived == {"a group is stored in the offsets partition of its hash": 1}
        assert not found
        kafka.journal.write("group", log=log, group=GROUP, cause=cause, before=None, after={**shown, "leader": "b"})
        assert [error.name for error in found] == ["the leader is a member"]


def test_the_page_on_sweeps_names_all_workloads_and_sites() -> None:
    page = (Path(__file__).parents[2] / "docs" / "sweeps.md").read_text()
    rows = [line.split("`")[1] for line in page.splitlines() if line.startswith("| `")]
    of_workloads = page.partition("\n## Workloads\n")[2].partition("\n## ")[0]  # others may have names in common
    named = [line.split("`")[1] for line in of_workloads.splitlines() if line.startswith("| `")]
    assert [name for name in named if name in WORKLOADS] == list(WORKLOADS)
    assert [name for name in rows if name in SITES] == list(SITES)


@pytest.mark.parametrize("seed", [2, 5, 7])
def test_a_share_member_whose_heartbeat_failed_asks_for_its_whole_assignment(seed: int) -> None:
    """The response with the assignment is lost; the broker returns it again to a full heartbeat alone."""
    rule = {"api": "ShareGroupHeartbeat", "error_after": "COORDINATOR_NOT_AVAILABLE", "probability": 1.0}
    outcome = run(Case("share-groups", seed, 1.0, plan=(Fault(0.4, "rule", {**rule, "for_s": 0.2}),)))
    assert outcome.failure is None, outcome.text
