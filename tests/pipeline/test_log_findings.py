"""Findings about rebalances with a log and without a journal: facts in the records, and no alarm about healthy groups."""

from __future__ import annotations

import json
from typing import Any

import pytest

from broker_sim.explain.generations import Generations, GroupMetadataRecord, StoredMember
from broker_sim.pipeline.finding import Finding
from broker_sim.pipeline.findings import findings
from broker_sim.pipeline.log_findings import is_orderly
from broker_sim.pipeline.rebalance_rows import rebalances_of
from tests.pipeline.facts import facts, rebalance
from tests.pipeline.offsets import T0

UUIDS = "5f0c2f7e-8d3b-4f4e-9d2a-1c2b3d4e5f"


class Log:
    """A group's records, written one after the other; ``now``: seconds after T0."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.generation = 0
        self.lives: dict[str, int] = {}

    def stands(self, now: float, *clients: str, stored_s: float = 0.1, skipped: int = 0) -> None:
        """The next generation, with these clients, of which "app-1'" is app-1 with another member id."""
        self.generation += 1 + skipped
        members = [self.member(client) for client in clients]
        self.rows.append(
            {
                "run_id": "r1",
                "group": "billing",
                "of_log": True,
                "ts_ms": int(T0 + (now + stored_s) * 1000),
                "state_ms": int(T0 + now * 1000),
                "generation": self.generation,
                "members_after": [{"member": name, "client_id": client} for client, name in members],
                "coordinator_partition": 12,
            }
        )

    def member(self, client: str) -> tuple[str, str]:
        name = client.rstrip("'")
        return name, f"{name}-{UUIDS}{self.lives.setdefault(client, len(self.lives)):02d}"

    def told(self, *kinds: str) -> list[Finding]:
        """Return the findings in the log, of these kinds or of all."""
        rows = list(rebalances_of(self._json()))
        columns = ("started_ms", "timed_out", "preparing_ms", "error", "cause_detail", "closed_ms", "missing_before")
        known = [{**dict.fromkeys(columns), **row} for row in rows]
        return [one for one in findings(facts(journal=None, rebalances=known)) if not kinds or one.kind in kinds]

    def _json(self) -> list[dict[str, Any]]:
        return [{**row, "members_after": json.dumps(row["members_after"])} for row in self.rows]


def storm() -> Log:
    """app-2 comes and goes every ten seconds."""
    log = Log()
    log.stands(0, "app-1")
    for at in range(6):
        log.stands(10 + 20 * at, "app-1", "app-2" + "'" * at)
        log.stands(20 + 20 * at, "app-1")
    return log


def test_a_member_that_joins_and_leaves_is_a_storm_and_no_deployment() -> None:
    (found,) = storm().told("storm")
    assert (found.severity, found.group) == ("warn", "billing")
    assert found.text == (
        "billing had 13 generations within 2 min from 22:13:20 on; joined: app-2 6 times and app-1 once; left or expired: app-2 6"
        " times."
    )
    assert "does not show why" in found.advice


def test_generations_that_left_no_record_are_counted_and_weigh_more() -> None:
    log = Log()
    for at in range(4):
        log.stands(at * 30, "app-1", "app-2", skipped=3 if at else 0)
    (found,) = log.told("storm")
    assert found.severity == "bad"
    assert "had 13 generations within 1 min 30 s" in found.text
    assert "9 of them without a record: restarted before they were Stable, or removed by compaction" in found.text


def test_a_rolling_restart_is_no_alarm() -> None:
    log = Log()
    names = [f"app-{number}" for number in range(4)]
    log.stands(0, *names)
    for at, name in enumerate(names):
        log.stands(20 + at * 20, *(one for one in names if one != name))
        names[at] = f"{name}'"
        log.stands(30 + at * 20, *names)
    assert [(one.kind, one.severity) for one in log.told()] == [("nothing", "good"), ("storm", "note")]


def test_a_deployment_of_members_without_names_of_their_own_is_no_alarm_either() -> None:
    log = Log()
    for at in range(6):
        log.stands(at * 5, *("app" + "'" * one for one in range(at + 1)))
    assert [(one.kind, one.severity) for one in log.told()] == [("nothing", "good"), ("storm", "note")]


@pytest.mark.parametrize("apart_s", [70, 3600])
def test_generations_far_apart_are_no_storm(apart_s: int) -> None:
    log = Log()
    for at in range(8):
        log.stands(at * apart_s, *(f"app-{number}" for number in range(at % 2 + 1)))
    assert bool(log.told("storm")) is (apart_s < 75)


def test_a_late_assignment_is_reported_with_its_known_duration() -> None:
    log = Log()
    log.stands(0, "app-1", "app-2")
    log.stands(60, "app-1", "app-2", "app-3", stored_s=14)
    (found,) = log.told("slow rebalance")
    assert (found.severity, found.at_ms) == ("warn", T0 + 60_000)
    assert found.text == (
        "billing took at least 14 s to rebalance at 22:14:20: the time from the end of the join phase until generation 2 was"
        " stored."
    )


def test_a_member_that_does_not_rejoin_is_a_note_with_what_is_unknown() -> None:
    log = Log()
    log.stands(0, "app-1", "app-2", "app-3")
    log.stands(40, "app-1", "app-3")
    (found,) = log.told("departed")
    assert found.severity == "note"
    assert found.text == "app-2 left billing, or expired, by 22:14:00, and did not rejoin; 2 stayed."
    log.stands(80, "app-1", "app-3", "app-2'")
    assert log.told("departed") == []


def by_epochs(kind: str, *steps: tuple[int, str, str, str]) -> list[Finding]:
    """Return findings of departed members in a group of that type whose members come (+) and go (-): s, sign, client id, member id."""
    rows, present = [], []
    for epoch, (now, sign, client, member) in enumerate(steps, 1):
        before, cause = list(present), "join" if sign == "+" else "departed"
        present = [*present, member] if sign == "+" else [one for one in present if one != member]
        rows.append(
            rebalance(
                now * 1000, 0, cause=cause, who=[member], who_clients=[client], generation=epoch, generation_before=epoch - 1,
                members_before=before, members_after=list(present), size_before=len(before), size_after=len(present), kind=kind,
                source="log", coordinator_partition=12, log_offset=epoch,
            )
        )  # fmt: skip
    return [one for one in findings(facts(journal=None, rebalances=rows)) if one.kind == "departed"]


@pytest.mark.parametrize("kind", ["consumer", "share"])
def test_a_client_that_had_joined_as_another_member_before_did_rejoin(kind: str) -> None:
    """A process that is killed and started again: the broker removes its former member as its session expires."""
    steps = [(0, "+", "app-1", "k1"), (5, "+", "app-2", "k2"), (200, "+", "app-1", "k3"), (206, "-", "app-1", "k1")]
    (found,) = by_epochs(kind, *steps)
    assert found.text == (
        "app-1 left billing, or expired, by 22:16:46; 2 stayed, app-1 among them under another member id."
    )
    quick = [(now // 5, *what) for now, *what in steps] + [(50, "+", "app-3", "k4")]
    assert [one.text.partition("; ")[2] for one in by_epochs(kind, *quick)] == [found.text.partition("; ")[2]]


def test_a_member_that_rejoins_under_its_member_id_was_not_started_again() -> None:
    steps = [(0, "+", "app-1", "k1"), (5, "+", "app-2", "k2"), (60, "-", "app-1", "k1"), (75, "+", "app-1", "k1")]
    (found,) = by_epochs("consumer", *steps)
    assert (found.severity, found.at_ms) == ("note", T0 + 60_000)
    assert found.text == (
        "app-1 left billing, or expired, by 22:14:20, and rejoined under the same member id at 22:14:35; 1 stayed."
    )
    assert "max.poll.interval.ms" in found.advice
    assert by_epochs("consumer", *steps[:3], (75, "+", "app-1", "k3")) == []  # a restart


def test_one_member_that_is_gone_is_a_note_beside_a_start_of_many_generations() -> None:
    """But not each of those that a deployment replaces by others with new names."""
    start = [(at * 8, "+", f"app-{at}", f"k{at}") for at in range(1, 7)]
    (found,) = by_epochs("consumer", *start, (60, "-", "app-2", "k2"))
    assert found.text == "app-2 left billing, or expired, by 22:14:20, and did not rejoin; 5 stayed."
    assert by_epochs("consumer", *start, (60, "-", "app-2", "k2"), (64, "-", "app-3", "k3")) == []


def test_a_group_whose_members_all_left_has_no_departed_member() -> None:
    log = Log()
    log.stands(0, "app-1")
    log.stands(40)
    assert [one.kind for one in log.told()] == ["nothing"]


def test_findings_of_the_journal_are_not_repeated_from_the_log() -> None:
    rows = [{**row, "source": "journal"} for row in rebalances_of(storm()._json())]
    columns = ("started_ms", "timed_out", "preparing_ms", "error", "cause_detail", "closed_ms", "missing_before")
    known = [{**dict.fromkeys(columns), **row} for row in rows]
    assert [one.kind for one in findings(facts(rebalances=known))] == ["nothing"]


def test_records_and_rows_mean_the_same() -> None:
    """The rows above are made as the pipeline makes them: by the reader of generations."""
    reader = Generations()
    for row in storm().rows:
        members = tuple(StoredMember(one["member"], one["client_id"]) for one in row["members_after"])
        reader.take(GroupMetadataRecord(row["ts_ms"], row["state_ms"], row["generation"], members))
    assert [one.generation for one in reader.generations] == list(range(1, 14))


@pytest.mark.parametrize(
    ("kind", "lost", "orderly"),
    [
        ("classic", "No LeaveGroup arrived", "looks: start members together, or give them group.instance.id."),
        ("consumer", "No leaving heartbeat arrived", "looks; group.instance.id spares a restart both epochs."),
        ("share", "No leaving heartbeat arrived", "one by one looks."),
    ],
)
def test_the_advice_fits_the_type_of_group(kind: str, lost: str, orderly: str) -> None:
    about = {"kind": kind, "source": "log", "cause_certainty": "certain", "coordinator_partition": 12, "log_offset": 1}
    steps = [("join", name, 0) for name in ("a", "b", "c")] + [("session timeout", name, 1) for name in ("a", "b", "c")]
    rows = [
        rebalance(at * 8000, 10, cause=cause, who=[name], who_clients=[name], generation=at + 1, generation_before=at,
                  size_before=3, size_after=2 if gone else 4, **about)
        for at, (cause, name, gone) in enumerate(steps)
    ]  # fmt: skip
    found = {one.kind: one for one in findings(facts(journal=None, rebalances=rows))}
    assert found["session expired"].advice.startswith(lost)
    assert ("max.poll.interval.ms" in found["session expired"].advice) is (kind == "classic")
    assert found["storm"].advice.endswith(orderly)


@pytest.mark.parametrize(("bounces", "orderly"), [(1, True), (2, True), (3, False)])
def test_a_group_that_is_started_and_deployed_twice_is_orderly(bounces: int, orderly: bool) -> None:
    """As for a change of its assignor: each client joins three times, and returns twice."""
    present: list[str] = []
    rows = []
    for life in range(bounces + 1):
        for name in ("app-1", "app-2"):
            stayed = [member for member in present if not member.startswith(name)]
            for after in ([stayed] if life else []) + [[*stayed, f"{name}-{UUIDS}{life:02}"]]:
                moved = {"members_before": present, "members_after": after, "size_after": len(after)}
                rows.append(rebalance(2000 * len(rows), 10, source="log", who=[], who_clients=[], **moved))
                present = after
    assert is_orderly(rows) is orderly
