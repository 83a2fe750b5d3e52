"""Incidents of consumer groups (KIP-848) and streams groups (KIP-1071): the verdict of each file holds in virtual time, and is broken
where the member that it is about behaves otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_sim.scenario.commands import picture, shipped
from broker_sim.scenario.files import loads
from broker_sim.scenario.model import parse, read
from broker_sim.scenario.runner import ScenarioOptions
from broker_sim.scenario.virtual import play

OTHERWISE = {
    "consumer-group-member-never-revokes": ("config: {revokes: false}", "config: {revokes: true}"),
    "consumer-group-heartbeat-answer-is-lost": (
        "{name: app-1, kind: consumer, group: billing, topics: [orders], heartbeat_interval: 300ms, max_poll_interval: 15s}",
        "{name: app-1, kind: consumer, group: billing, topics: [orders], heartbeat_interval: 300ms, max_poll_interval: 15s, "
        "config: {repeats: false}}",
    ),
    "consumer-group-member-is-fenced": ("session.timeout.ms: 3000}", "session.timeout.ms: 60000}"),
    "upgrade-to-consumer-protocol-with-one-old-member": (
        "group.consumer.session.timeout.ms: 30000",
        "group.consumer.session.timeout.ms: 30000, group.consumer.migration.policy: disabled",
    ),
    "consumer-group-regex-matches-a-new-topic": ('pattern: "orders-.*"', 'pattern: "orders-eu"'),
    "consumer-group-assignors-disagree": (
        "topics: [orders, bills], assignor: uniform",
        "topics: [orders, bills], assignor: range",
    ),
    "streams-application-with-a-changed-topology": (
        "config: {topology_epoch: 1, changelog: counts-store-changelog}",
        "config: {topology_epoch: 0}",
    ),
    "streams-member-never-revokes-its-task": ("config: {revokes: false}", "config: {revokes: true}"),
}
"""File -> what is changed of it, so that its story comes out otherwise."""


@pytest.mark.parametrize("name", OTHERWISE)
def test_the_verdict_holds(name: str) -> None:
    outcome = play(read(shipped() / f"{name}.yaml"), ScenarioOptions(seed=5))
    assert outcome.code == 0, outcome.report()


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERWISE)
def test_it_is_broken_if_the_cause_differs(name: str, tmp_path: Path) -> None:
    told = (shipped() / f"{name}.yaml").read_text()
    as_it_is, otherwise = OTHERWISE[name]
    assert as_it_is in told
    path = tmp_path / f"{name}.yaml"
    path.write_text(told.replace(as_it_is, otherwise))
    outcome = play(read(path), ScenarioOptions(seed=5))
    assert outcome.code in (1, 3), outcome.report()  # broken, or what it waits for never comes


def test_an_upgrade_does_not_depend_on_how_soon_the_old_member_hears_of_it() -> None:
    """Until its next heartbeat the group is not Stable, and what it has not read becomes more."""
    told = (shipped() / "upgrade-to-consumer-protocol-with-one-old-member.yaml").read_text()
    before = "{name: old-2, group: billing, topics: [orders], session_timeout: 30s, heartbeat_interval: 300ms}"
    assert before in told
    slow = told.replace(before, before.replace("300ms", "9s"))
    outcome = play(parse(loads(slow)), ScenarioOptions(seed=5))
    assert outcome.code == 0, outcome.report()


def test_a_run_reports_the_epochs_of_its_groups(tmp_path: Path) -> None:
    """In its progress and its history, where a classic group's generations are, and in a timeline."""
    lines: list[str] = []
    options = ScenarioOptions(seed=5, progress=lines.append)
    outcome = play(read(shipped() / "consumer-group-member-never-revokes.yaml"), options)
    assert outcome.groups == ["billing"]
    assert "billing: Reconciling, group epoch 2, target epoch 2, members: 2" in outcome.group_states
    assert len(outcome.group_states) == len(set(outcome.group_states)), "a change of a member alone is no line"
    assert any(line.endswith("  billing: Reconciling, group epoch 2, target epoch 2, members: 2") for line in lines)
    picture(outcome, tmp_path / "billing.svg")
    assert "<svg" in (tmp_path / "billing.svg").read_text()
