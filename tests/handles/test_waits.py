"""The engine of every wait: looked at after each event, ended by a deadline of real time."""

from __future__ import annotations

import asyncio

import pytest

from broker_sim.api.wait import WaitTimeout, until
from broker_sim.common.clock import ManualClock
from broker_sim.common.text import UsageError
from broker_sim.journal import Journal


@pytest.fixture
def journal() -> Journal:
    return Journal(ManualClock())


async def test_what_holds_already_is_not_waited_for(journal: Journal) -> None:
    await until(lambda: True, journal, 0)
    assert not journal._listeners


async def test_a_condition_is_looked_at_after_each_event_and_not_otherwise(journal: Journal) -> None:
    looks: list[int] = []

    def condition() -> bool:
        looks.append(journal.seq)
        return journal.seq >= 3

    waiting = asyncio.create_task(until(condition, journal))
    for number in range(3):
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        journal.write("mark", text=str(number))
    await waiting
    assert looks == [0, 1, 2, 3]
    assert not journal._listeners


async def test_it_is_looked_at_when_the_step_is_over(journal: Journal) -> None:
    state = "before"
    waiting = asyncio.create_task(until(lambda: state == "after", journal))
    await asyncio.sleep(0)
    journal.write("mark", text="the state follows")
    state = "after"
    await waiting


async def test_what_lasts_for_a_moment_is_seen(journal: Journal) -> None:
    waiting = asyncio.create_task(until(lambda: False, journal, seen=lambda event: event["text"] == "now"))
    await asyncio.sleep(0)
    for text in ("before", "now", "after"):
        journal.write("mark", text=text)
    await waiting


async def test_the_error_tells_the_story(journal: Journal) -> None:
    journal.describe = lambda group: f"the story of {group}"
    with pytest.raises(WaitTimeout) as failure:
        await until(lambda: False, journal, "20ms", "the moon", now=lambda: "still here", group="billing")
    assert str(failure.value) == "the moon: not within 20 ms\nnow: still here\nthe story of billing"
    assert not journal._listeners


async def test_a_condition_that_fails_is_heard_of(journal: Journal) -> None:
    with pytest.raises(ZeroDivisionError):
        await until(lambda: 1 // 0, journal)
    assert not journal._listeners


async def test_a_deadline_that_is_none_is_refused(journal: Journal) -> None:
    with pytest.raises(UsageError, match="timeout: 'soon' is not a duration"):
        await until(lambda: True, journal, "soon")
