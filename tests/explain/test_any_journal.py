"""Journals that are cut, torn, of another version or of nonsense: everything is told and drawn, nothing raises."""

from __future__ import annotations

import copy
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_sim.explain import explain, history, recent
from broker_sim.explain.picture import html, svg
from broker_sim.explain.terminal import timeline
from broker_sim.journal import EVENTS, problems
from tests.explain.journals import LOG, Script
from tests.explain.test_pictures import evil
from tests.explain.test_words import A, B, crashed, hung, stuck

JOURNALS = [crashed().events, stuck().events, hung(told=True).events, evil().events]


def everything(events: list[Any], group: str = "billing") -> None:
    """Make every text and picture of the group: the pictures parse, lines fit."""
    past = history(events, group)
    assert past.first_ms <= past.last_ms
    for generation in (None, 1, 2):
        explain(events, group, generation)
    assert all(len(line) <= 60 for line in timeline(events, group, width=60).splitlines())
    recent(events, group)
    ElementTree.fromstring(svg(events, group).encode())
    html(events, group)


def test_the_journals_of_these_tests_keep_to_the_vocabulary() -> None:
    allowed = ("snapshot: size is missing",)  # journals of an earlier form
    found = [p for events in JOURNALS[:3] for event in events for p in problems(event)]
    assert [problem for problem in found if not problem.endswith(allowed)] == []


@settings(max_examples=60)
@given(st.data())
def test_any_slice(data: st.DataObject) -> None:
    events = data.draw(st.sampled_from(JOURNALS))
    start = data.draw(st.integers(0, len(events)))
    everything(events[start : data.draw(st.integers(start, len(events)))], events[-1].get("group") or "billing")


@pytest.mark.slow
@settings(max_examples=60)
@given(st.data())
def test_any_events_missing(data: st.DataObject) -> None:
    events = data.draw(st.sampled_from(JOURNALS[:3]))
    gone = data.draw(st.sets(st.integers(0, len(events) - 1), max_size=len(events)))
    everything([event for position, event in enumerate(events) if position not in gone])


JUNK = st.sampled_from([None, True, -1, 3.5, float("nan"), 10**30, "", "x", [], ["x", 1, None], {}, {"x": 1}, "Stable"])


@pytest.mark.slow
@settings(max_examples=80)
@given(st.data())
def test_any_fields_missing_or_of_another_type(data: st.DataObject) -> None:
    events: list[Any] = copy.deepcopy(data.draw(st.sampled_from(JOURNALS[:3])))
    for _ in range(data.draw(st.integers(1, 12))):
        value: Any = events[data.draw(st.integers(0, len(events) - 1))]
        for _ in range(4):
            keys = (
                list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
            )
            if not keys:
                break
            key = data.draw(st.sampled_from(keys))
            if data.draw(st.booleans()):
                value[key] = data.draw(JUNK)
                break
            value = value[key]
    everything(events)


@settings(max_examples=100)
@given(
    st.lists(
        st.one_of(
            JUNK, st.fixed_dictionaries({"event": st.sampled_from([*EVENTS, "new"]), "group": st.just("billing")})
        )
    )
)
def test_nonsense(events: list[Any]) -> None:
    everything(events)


def test_kinds_of_events_that_are_not_known_are_passed_over() -> None:
    events = crashed().events
    more = [
        one
        for event in events
        for one in ({"seq": 0, "ts_ms": event["ts_ms"], "event": "telepathy", "group": "billing"}, event)
    ]
    assert explain(more, "billing", 2) == explain(events, "billing", 2)


def test_other_groups_do_not_matter() -> None:
    other = Script(group="audit").formed([A, B]).events
    mixed = sorted([*crashed().events, *other], key=lambda event: event["ts_ms"])
    for number, event in enumerate(mixed):
        mixed[number] = (
            {**event, "request": event["request"] + 1000} if event in other and "request" in event else event
        )
    assert explain(mixed, "billing", 2) == explain(crashed().events, "billing", 2)


@pytest.mark.slow
def test_large_groups_are_written_by_their_changes_and_read_whole() -> None:
    members = [f"app-{number}~{number:04x}" for number in range(100)]
    script = Script().formed(members)
    whole = explain(script.events, "billing", 1)
    for event in script.events:
        if event["event"] == "group":
            _only_changes(event)
    assert explain(script.events, "billing", 1) == whole
    past = history(script.events, "billing")
    assert past.now is not None
    assert list(past.now.members) == members


def _only_changes(event: dict[str, Any]) -> None:
    """As the journal shows a group of more than 64 members."""
    sides = [event["before"], event["after"]]
    known = [{one["member"]: one for one in side["members"]} if side else {} for side in sides]
    for side, mine, others in zip(sides, known, reversed(known), strict=True):
        if side is not None:
            side["size"] = len(mine)
            if len(mine) > 64:
                side["members"] = [one for name, one in mine.items() if others.get(name) != one]


def test_a_log_is_known_by_what_happens_on_it() -> None:
    script = Script().formed([A])
    script.event("state", log="__consumer_offsets-7", state="stuck", args={}, action="set")
    past = history(script.events, "billing")
    assert past.log == LOG
    assert past.spans == []
