"""A journal that an earlier version wrote, with the former names of events, fields and values, is read as one of the present version;
where users write such a name it is accepted with a warning that has the present one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from broker_sim.api.handles.groups import MemberView
from broker_sim.common.clock import ManualClock
from broker_sim.explain import explain
from broker_sim.explain.terminal import timeline
from broker_sim.journal import Journal, groups_in, problems, read
from broker_sim.journal.files import plain
from broker_sim.pipeline.journal_events import LineSource, rows_of
from broker_sim.pipeline.transaction_logs import rows_of_journal
from broker_sim.scenario.clients import _report_in
from broker_sim.scenario.expectations import matcher_of
from broker_sim.scenario.files import loads
from tests.pipeline.support_journal import played

Event = dict[str, Any]

KINDS = {
    "pending_offsets": "staged",
    "last_stable_offset": "stable",
    "share_partition": "share",
    "data_loss": "lost",
}
ACTIONS = {
    ("pending_offsets", "pending"): "staged",
    ("pending_offsets", "superseded"): "passed over",
    ("last_stable_offset", "blocked"): "held",
    ("last_stable_offset", "unblocked"): "free",
    ("share_partition", "unloaded"): "dropped",
    ("delivery", "session closed"): "given back",
}
FIELDS = {
    ("delivery", "refused_action"): "said",
    ("client", "reports"): "says",
    ("transaction", "result"): "ends",
    ("marker", "result"): "ends",
}
MEMBER_FIELDS = {
    ("epochs", "pending_revocation"): "gives_up",
    ("epochs", "pending_assignment"): "lacks",
    ("epochs", "tasks_pending_revocation"): "tasks_given_up",
    ("epochs", "tasks_pending_assignment"): "tasks_lacking",
    ("group", "deferred"): "waits",
}
"""By the kind of event and the present name: the former one."""

SCENARIOS = (
    "committed-records-are-lost",
    "share-group-fetch-answer-is-lost",
    "streams-member-never-revokes-its-task",
    "transaction-hanging-3.4",
    "transaction-timeout-in-a-rebalance",
)
SHARED = {"log": "orders-0", "group": "shippers"}
RARE: list[Event] = [  # what none of these scenarios has
    {"event": "share_partition", **SHARED, "action": "unloaded", "leader_epoch": 1, "start_offset": 0},
    {
        "event": "delivery",
        **SHARED,
        "action": "refused",
        "member": "app",
        "first": 0,
        "last": 3,
        "deliveries": 1,
        "becomes": "acquired",
        "start_offset": 0,
        "refused_action": "session closed",
        "error": "FENCED_STATE_EPOCH",
    },
    {
        "event": "pending_offsets",
        "log": "__consumer_offsets-9",
        "group": "ledger",
        "action": "superseded",
        "producer_id": 1,
        "offsets": {"orders-0": 3},
    },
]


def as_written_before(event: Event, seen: set[object]) -> Event:
    """The event with its former names; ``seen``: is given those that it has."""
    kind = event["event"]

    def renamed(row: Any, names: Mapping[tuple[str, str], str]) -> Any:
        if not isinstance(row, dict):
            return row
        seen.update((kind, name) for name in row if (kind, name) in names)
        result = {names.get((kind, name), name): value for name, value in row.items()}
        if isinstance(result.get("members"), list):
            result["members"] = [renamed(member, MEMBER_FIELDS) for member in result["members"]]
        return result

    former = renamed(event, FIELDS)
    for name in ("before", "after") if kind == "group" else ():
        former[name] = renamed(former[name], {})
    for name in ("action", "said"):
        if (value := (kind, former.get(name))) in ACTIONS:
            seen.add(value)
            former[name] = ACTIONS[value]
    if kind in KINDS:
        seen.add(kind)
        former["event"] = KINDS[kind]
    return dict(former)


def written(events: Iterable[Event], directory: Path) -> tuple[Path, list[bytes]]:
    directory.mkdir()
    lines = [json.dumps(event, default=plain).encode() for event in events]
    (directory / "journal-000001.ndjson").write_bytes(b"".join(line + b"\n" for line in lines))
    return directory, lines


def rows_in(lines: list[bytes]) -> list[dict[str, Any]]:
    """The pipeline's rows of the lines, without the lines themselves."""
    where = LineSource("run", 1, "journal-000001.ndjson", body=False)
    return list(rows_of(((at, line, True) for at, line in enumerate(lines)), where))


def test_a_journal_with_all_former_names_reads_as_one_with_the_present_names(tmp_path: Path) -> None:
    seen: set[object] = set()
    for name in SCENARIOS:
        events = [dict(event) for event in played(name).events]
        last = events[-1]
        events += [{"seq": last["seq"] + at, "ts_ms": last["ts_ms"], **event} for at, event in enumerate(RARE, 1)]
        assert [problem for event in events for problem in problems(event)] == []
        former = [as_written_before(event, seen) for event in events]
        assert former != events
        before, lines_before = written(former, tmp_path / f"{name}-before")
        now, lines = written(events, tmp_path / name)

        assert list(read(before)) == list(read(now))
        for group in groups_in(read(now)):
            assert explain(read(before), group) == explain(read(now), group)
            assert timeline(read(before), group) == timeline(read(now), group)
        assert rows_of_journal(lines_before) == rows_of_journal(lines)
        rows_before, rows = rows_in(lines_before), rows_in(lines)
        assert rows_before == rows
        assert not any("unknown" in row for row in rows)
    assert seen == {*KINDS, *ACTIONS, *FIELDS, *MEMBER_FIELDS}, "a former name that no event had"


@pytest.mark.parametrize(
    ("matcher", "present"),
    [
        ("event: stable, action: held", "last_stable_offset: action blocked"),
        ("event: stable, action: free", "last_stable_offset: action unblocked"),
        ("event: share, action: dropped", "share_partition: action unloaded"),
        ("event: lost, part: tail", "data_loss: part tail"),
        ("event: delivery, action: given back", "delivery: action session closed"),
        ("event: delivery, said: given back", "delivery: refused_action session closed"),
        ("event: transaction, ends: timed out", "transaction: result timed out"),
        ("event: marker, ends: abort", "marker: result abort"),
        ("event: client, client: app, says: read", "client: client app, reports read"),
        ("client: app, says: read", "client app reports read"),
    ],
)
def test_a_scenario_may_have_former_names(matcher: str, present: str) -> None:
    with pytest.warns(FutureWarning, match=":2: .* is now called "):
        assert matcher_of(loads(f"name: x\nnever: {{{matcher}}}").table("never")).what == present


async def test_a_wait_for_an_event_may_have_former_names() -> None:
    journal = Journal(ManualClock(1_000))
    with pytest.warns(FutureWarning) as warned:
        wanted = journal.next(event="delivery", said="given back", action="refused")
    assert [str(one.message).rpartition("; ")[0] for one in warned] == [
        "the field of the journal event 'delivery', 'said' is now called 'refused_action'",
        "the action of the journal event 'delivery', 'given back' is now called 'session closed'",
    ]
    waiting = asyncio.ensure_future(wanted)
    await asyncio.sleep(0)
    journal.write(**RARE[1])
    assert (await waiting).refused_action == "session closed"
    journal.write("client", client="app", reports="read", text="", details={})
    with pytest.warns(FutureWarning, match="the field of journal events 'says' is now called 'reports'"):
        assert (await journal.next(says="read", since=0)).client == "app"


def test_a_program_may_report_with_the_former_key() -> None:
    with pytest.warns(FutureWarning, match="^client app: .*'says' is now called 'reports'"):
        assert _report_in('{"says": "read", "offset": 5}', "app") == ("read", {"offset": 5})
    assert _report_in('{"reports": "read", "offset": 5}', "app") == ("read", {"offset": 5})


def test_a_member_has_the_former_attribute() -> None:
    member = MemberView("id", "app", "/127.0.0.1", None, 45_000, 300_000, "JoinGroup", False, [], None)
    with pytest.warns(FutureWarning, match="'waits' is now called 'deferred'"):
        assert member.waits == "JoinGroup"
