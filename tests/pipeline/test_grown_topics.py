"""Topics that have more partitions than before, from the assignments in a log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from broker_sim.pipeline.findings import findings
from broker_sim.pipeline.grown_topics import GrownTopics
from broker_sim.pipeline.modern_groups import ModernGroup
from broker_sim.pipeline.tables.rebalances import REBALANCES
from broker_sim.scenario.commands import shipped
from broker_sim.scenario.model import read
from broker_sim.scenario.runner import ScenarioOptions
from broker_sim.scenario.virtual import play
from tests.pipeline.facts import facts, rebalance
from tests.pipeline.test_cut_logs import run


def orders(*numbers: int) -> list[str]:
    return [f"orders-{number}" for number in numbers]


def test_a_later_assignment_with_a_higher_partition_shows_growth() -> None:
    topics = GrownTopics()
    assert topics.classic(orders(0, 1, 2), 1) == []
    assert topics.classic(orders(0, 1), 2) == []  # a cooperative assignor: 2 is being revoked
    assert topics.classic(orders(0, 1, 2), 3) == []
    assert topics.classic([*orders(0, 1, 2, 3, 4), "bills-0"], 4) == ["orders: 3 to 5 partitions"]
    assert topics.classic([*orders(0, 1, 2, 3, 4), "bills-0", "bills-1"], 5) == []


def test_a_log_that_lacks_the_beginning_shows_growth_after_two_assignments_alike() -> None:
    topics = GrownTopics()
    assert topics.classic(orders(0, 1), 7) == []  # perhaps 2 is being revoked
    assert topics.classic(orders(0, 1, 2), 8) == []
    assert topics.classic(orders(0, 1, 2), 9) == []
    assert topics.classic(orders(0, 1, 2, 3), 10) == ["orders: 3 to 4 partitions"]
    topics.forget()
    assert topics.classic(orders(0, 1, 2, 3, 4, 5), 1) == []


@pytest.mark.parametrize("kind", ["Consumer", "Share"])
@pytest.mark.parametrize("topics", [["orders"], ["orders", "bills"]])
def test_members_of_a_group_by_epochs_get_new_partitions(kind: str, topics: list[str]) -> None:
    group = ModernGroup()

    def record(what: str, ms: int, member: str | None = None, epoch: int | None = None, **detail: Any) -> None:
        text = json.dumps(detail) if detail else None
        place = {"place": ms, "ts_ms": ms, "coordinator_partition": 12, "run_id": "r1", "group": "billing"}
        group.take(
            {**place, "what": f"{kind}Group{what}", "cause_members": member, "generation": epoch, "detail": text}
        )

    def has(ms: int, member: str, epoch: int, *numbers: int) -> None:
        assigned = [{"topicId": "T1", "partitions": list(numbers)}]
        record("CurrentMemberAssignment", ms, member, epoch, memberEpoch=epoch, state=0, assignedPartitions=assigned)

    record("MemberMetadata", 1, "a", clientId="app-1", subscribedTopicNames=topics)
    record("Metadata", 2, epoch=1, metadataHash=1)
    has(3, "a", 1, 0, 1, 2)
    record("MemberMetadata", 10, "b", clientId="app-2", subscribedTopicNames=topics)
    record("Metadata", 11, epoch=2, metadataHash=1)
    has(12, "a", 2, 0, 1)
    has(13, "b", 2, 2)
    record("Metadata", 20, epoch=3, metadataHash=2)
    has(21, "a", 3, 0, 1, 3)
    has(22, "b", 3, 2, 4)
    name = "orders" if len(topics) == 1 else "topic T1"
    assert [row["cause_changes"] for row in group.rows()] == [None, None, [f"{name}: 3 to 5 partitions"]]


def test_it_is_a_note_of_a_log_alone() -> None:
    grown = {"cause": "metadata change", "cause_changes": ["orders: 3 to 6 partitions"], "generation": 4}
    (found,) = findings(facts(journal=None, rebalances=[rebalance(0, 50, source="log", **grown)]))[1:]
    assert (found.kind, found.severity, found.certainty) == ("grown topic", "note", "likely")
    assert found.text.startswith("orders grew from 3 to 6 partitions while billing was reading it: generation 4 at")
    of_journal = findings(facts(rebalances=[rebalance(0, 50, **grown)]))
    assert [one.kind for one in of_journal] == ["nothing"]
    assert "cause_changes" in REBALANCES.names


def test_the_log_of_a_scenario_in_which_a_topic_grows(tmp_path: Path) -> None:
    play(read(shipped() / "partition-count-grows.yaml"), ScenarioOptions(data=tmp_path / "data"))
    outcome, _ = run(tmp_path / "data", tmp_path / "out")
    told = [one for one in outcome.findings if one.kind == "grown topic"]
    assert told
    assert {one.severity for one in told} == {"note"}
