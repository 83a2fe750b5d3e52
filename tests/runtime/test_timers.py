"""Keyed timers beside the plainest thing that could be right: a dict of deadlines."""

from __future__ import annotations

import random

from broker_sim.common.clock import ManualClock
from broker_sim.runtime.timers import KeyedTimers


def test_what_fires_and_when_is_what_a_dict_of_deadlines_says() -> None:
    rng, clock = random.Random(7), ManualClock()
    fired: list[tuple[int, int]] = []
    due: dict[int, int] = {}
    timers: KeyedTimers[int] = KeyedTimers(clock, lambda key: fired.append((clock.now_ms(), key)))
    for _ in range(5000):
        key, deadline_ms = rng.randrange(40), clock.now_ms() + rng.randint(1, 50)
        if rng.random() < 0.5:
            timers.set(key, deadline_ms)
            due[key] = deadline_ms
        elif rng.random() < 0.9:
            timers.cancel(key)
            due.pop(key, None)
        else:
            clock.advance(rng.randint(1, 10))
            expected = sorted((at_ms, key) for key, at_ms in due.items() if at_ms <= clock.now_ms())
            assert sorted(fired) == expected
            assert [at_ms for at_ms, _ in fired] == [at_ms for at_ms, _ in expected]
            for _, key in fired:
                del due[key]
            fired.clear()
        assert len(timers) == len(due)
    assert {key: at_ms for at_ms, key in timers} == due


def test_timers_of_the_same_instant_fire_in_the_order_in_which_they_were_armed() -> None:
    clock, fired = ManualClock(), []
    timers: KeyedTimers[str] = KeyedTimers(clock, fired.append)
    at_ms = clock.now_ms() + 10
    for key in ("a", "b", "c"):
        timers.set(key, at_ms)
    timers.cancel("a")
    timers.set("a", at_ms)
    clock.advance(10)
    assert fired == ["b", "c", "a"]


def test_what_is_cancelled_leaves_next_to_nothing_behind() -> None:
    clock = ManualClock()
    timers: KeyedTimers[int] = KeyedTimers(clock, lambda key: None)
    timers.set(-1, clock.now_ms() + 1)
    for key in range(10_000):
        timers.set(key, clock.now_ms() + 60_000)
        timers.set(key, clock.now_ms() + 30_000)
        timers.cancel(key)
    assert len(timers) == 1
    assert len(timers._order) < 200


def test_a_key_that_is_armed_while_another_fires_fires_too() -> None:
    clock, fired = ManualClock(), []
    start = clock.now_ms()

    def fire(key: str) -> None:
        fired.append((clock.now_ms() - start, key))
        if key == "first":
            timers.cancel("second")
            timers.set("third", clock.now_ms() + 5)
            timers.set("first", clock.now_ms() + 8)

    timers: KeyedTimers[str] = KeyedTimers(clock, fire)
    timers.set("first", start + 10)
    timers.set("second", start + 10)
    clock.advance(16)
    assert fired == [(10, "first"), (15, "third")]
    assert list(timers) == [(start + 18, "first")]


def test_a_key_that_arms_itself_for_the_past_lets_go_of_time_and_of_the_others() -> None:
    clock, fired = ManualClock(), []
    start = clock.now_ms()

    def fire(key: str) -> None:
        fired.append((clock.now_ms() - start, key))
        assert len(fired) < 20, "it fires on and on"
        if key == "again":
            timers.set("again", start - 1000)
        if key == "late":
            timers.set("other", start - 1000)

    timers: KeyedTimers[str] = KeyedTimers(clock, fire)
    timers.set("again", start + 10)
    timers.set("late", start + 12)
    clock.advance(13)
    assert fired == [(10, "again"), (11, "again"), (12, "late"), (12, "other"), (12, "again"), (13, "again")]
    assert list(timers) == [(start + 14, "again")]
