"""The share coordinator: states by snapshots and updates, epochs that shut others out, and what a load makes of the log."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from broker_sim.coordinator.outcome import (
    NO_CLIENT,
    Appended,
    Committed,
    Event,
    Outcome,
    Request,
    TimerFired,
    TopicsChanged,
)
from broker_sim.coordinator.share_state import commands
from broker_sim.coordinator.share_state.batches import StateBatch, combined
from broker_sim.coordinator.share_state.commands import Found, Result, Summary
from broker_sim.coordinator.share_state.shard import ShareStateLoader, ShareStateSettings, ShareStateShard
from broker_sim.coordinator.share_state.state import ShareKey, decode
from broker_sim.coordinator.topics import TopicImage
from kafka_wire.errors import Err
from kafka_wire.schema import ZERO_UUID
from kafka_wire.share_state_log import ShareSnapshotValue, ShareUpdateValue

TOPIC = bytes(range(16))
KEY = ShareKey("g", TOPIC, 0)
DONE = Result()


class Core:
    """A shard, its log and its timers; ``held`` keeps the high watermark where it is, ``log_error`` makes appends fail."""

    def __init__(self, **settings: Any) -> None:
        self.settings = ShareStateSettings(**{"counts_completed": True, **settings})
        self.shard = ShareStateShard(0, self.settings)
        self.log: list[tuple[bytes, bytes | None]] = []
        self.high_watermark, self.held, self.log_error = 0, False, Err.NONE
        self.now_ms = 1000
        self.answers: dict[int, Any] = {}
        self.timers: dict[Any, int] = {}
        self.tokens = itertools.count()
        self.events: list[tuple[int, Event]] = []
        self.after_step: Callable[[], object] = lambda: None
        self.step(TopicsChanged({"t": TopicImage(TOPIC, 2)}))

    def step(self, event: Event) -> None:
        self.events.append((self.now_ms, event))
        self.perform(self.shard.step(event, self.now_ms))
        self.after_step()

    def perform(self, outcome: Outcome) -> None:
        for key, deadline_ms in outcome.timers:
            if deadline_ms is None:
                self.timers.pop(key, None)
            else:
                self.timers[key] = deadline_ms
        for token, answer in outcome.replies:
            assert token not in self.answers
            self.answers[token] = answer
        for append in outcome.appends:
            if self.log_error is not Err.NONE:
                self.step(Appended(append.ticket, -1, self.log_error))
                continue
            self.log += append.records
            if not self.held:
                self.high_watermark = len(self.log)
            self.step(Appended(append.ticket, len(self.log) - 1, Err.NONE, self.high_watermark))

    def ask(self, command: commands.Command) -> int:
        token = next(self.tokens)
        self.step(Request(token, NO_CLIENT, command))
        return token

    def answer(self, command: commands.Command) -> Any:
        return self.answers[self.ask(command)]

    def heal(self) -> None:
        self.held, self.high_watermark = False, len(self.log)
        self.step(Committed(self.high_watermark))

    def records(self) -> list[Any]:
        return [decode(key, value).value for key, value in self.log]

    def loaded(self) -> dict[ShareKey, Any]:
        loader = ShareStateLoader()
        for offset, (key, value) in enumerate(self.log):
            loader.add(offset, key, value)
        return loader.finish()


def write(
    first: int, last: int, state: int, *, start: int = 0, leader: int = 0, epoch: int = 1, count: int = 0
) -> commands.Write:
    return commands.Write(KEY, epoch, leader, start, [StateBatch(first, last, state, 1)], count)


def test_a_state_begins_with_a_snapshot_and_goes_on_with_updates() -> None:
    core = Core()
    assert core.answer(commands.Initialize(KEY, 1)) == DONE
    assert core.answer(write(0, 1, 2, count=2)) == DONE
    made, update = core.records()
    assert made == ShareSnapshotValue(0, 1, 0, -1, -1, 1000, 1000, [])
    assert isinstance(update, ShareUpdateValue)
    assert (update.snapshot_epoch, update.start_offset, update.delivery_complete_count) == (0, 0, 2)
    assert core.answer(commands.Read(KEY, 0)) == Found(Err.NONE, None, 1, 0, (StateBatch(0, 1, 2, 1),))
    assert core.answer(commands.Summarize(KEY)) == Summary(Err.NONE, None, 1, 0, 0, 2)


def test_what_lies_below_the_start_is_forgotten() -> None:
    core = Core()
    core.ask(commands.Initialize(KEY, 1, 0))
    core.ask(write(0, 4, 2))
    core.ask(write(7, 7, 0, start=5))
    assert core.answer(commands.Read(KEY, 0)).batches == (StateBatch(7, 7, 0, 1),)


def test_after_many_updates_comes_a_snapshot_of_all() -> None:
    core = Core(updates_per_snapshot=2)
    core.ask(commands.Initialize(KEY, 1, 0))
    for at in range(3):
        core.ask(write(at, at, 2))
    last = core.records()[-1]
    assert isinstance(last, ShareSnapshotValue)
    assert (last.snapshot_epoch, [(b.first_offset, b.last_offset) for b in last.state_batches]) == (1, [(0, 2)])
    core.ask(write(3, 3, 2))
    assert isinstance(core.records()[-1], ShareUpdateValue)


def test_a_new_leader_shuts_the_one_before_out() -> None:
    core = Core()
    core.ask(commands.Initialize(KEY, 1, 0))
    assert core.answer(commands.Read(KEY, 3)).error is Err.NONE
    assert core.answer(write(0, 0, 2, leader=2)).error is Err.FENCED_LEADER_EPOCH
    assert core.answer(commands.Read(KEY, 2)).error is Err.FENCED_LEADER_EPOCH
    assert core.answer(write(0, 0, 2, leader=3)) == DONE


def test_a_state_made_anew_shuts_who_has_the_old_one_out() -> None:
    core = Core()
    core.ask(commands.Initialize(KEY, 1, 0))
    assert core.answer(commands.Initialize(KEY, 4, 7)) == DONE
    assert core.records()[-1] == ShareSnapshotValue(1, 4, 0, 7, 0, 1000, 1000, [])
    assert core.answer(write(0, 0, 2, epoch=1)).error is Err.FENCED_STATE_EPOCH
    assert core.answer(commands.Initialize(KEY, 3)).error is Err.FENCED_STATE_EPOCH


def test_nothing_is_read_or_written_that_was_not_made() -> None:
    core = Core()
    assert core.answer(commands.Read(KEY, 0)).error is Err.INVALID_REQUEST
    assert core.answer(write(0, 0, 2)).error is Err.INVALID_REQUEST
    assert core.answer(commands.Summarize(KEY)) == Summary(start_offset=-1)
    assert core.answer(commands.Delete(KEY)) == DONE
    assert core.log == []


def test_what_is_no_partition_is_refused() -> None:
    core = Core()
    for key, error in (
        (ShareKey("g", ZERO_UUID, 0), Err.UNKNOWN_TOPIC_OR_PARTITION),
        (ShareKey("g", TOPIC, -1), Err.INVALID_REQUEST),
        (ShareKey("g", TOPIC, 2), Err.UNKNOWN_TOPIC_OR_PARTITION),
        (ShareKey("g", b"another topic's.", 0), Err.UNKNOWN_TOPIC_OR_PARTITION),
    ):
        for command in (commands.Initialize(key, 1), commands.Delete(key), commands.Summarize(key)):
            assert core.answer(command).error is error, command


@pytest.mark.parametrize("checks_epochs", [False, True], ids=["4.3", "4.4"])
def test_epochs_below_0_are_refused_since_4_4(checks_epochs: bool) -> None:
    """Measured on 4.1.0, 4.2.0, 4.3.0 and 4.4.0."""
    core = Core(checks_epochs=checks_epochs)
    kept_out = {
        "leader": [commands.Read(KEY, -1), write(0, 0, 2, leader=-1, epoch=-1), write(0, 0, 2, leader=-1)],
        "state": [write(0, 0, 2, epoch=-1), commands.Initialize(KEY, -1)],
    }
    for epoch, refused in kept_out.items():
        for command in refused:
            answer = core.answer(command)
            assert (answer.words == f"The {epoch} epoch cannot be a negative number.") == checks_epochs
    assert core.answer(commands.Summarize(KEY)).error is Err.NONE


def test_a_state_is_not_made_anew_with_an_older_epoch() -> None:
    """The words measured on 4.4.0."""
    core = Core()
    assert core.answer(commands.Initialize(KEY, 5)) == DONE
    refused = core.answer(commands.Initialize(KEY, 4))
    assert (refused.error, refused.words) == (
        Err.FENCED_STATE_EPOCH,
        "The coordinator rejected the request because the state epoch did not match.",
    )


def test_a_deleted_state_is_gone_and_may_begin_anew() -> None:
    core = Core()
    core.ask(commands.Initialize(KEY, 1, 0))
    assert core.answer(commands.Delete(KEY)) == DONE
    assert core.log[-1][1] is None
    assert core.loaded() == core.shard.states == {}
    assert core.answer(commands.Initialize(KEY, 1, 5)) == DONE
    assert core.records()[-1].snapshot_epoch == 0


def test_a_topic_that_is_deleted_takes_its_states_along() -> None:
    core = Core()
    core.ask(commands.Initialize(KEY, 1, 0))
    core.step(TopicsChanged({"t": None}))
    assert core.log[-1][1] is None
    assert core.loaded() == core.shard.states == {}


def test_answers_wait_for_the_log_and_checks_don_t() -> None:
    core = Core()
    core.ask(commands.Initialize(KEY, 1, 0))
    core.held = True
    written, read = core.ask(write(0, 0, 2)), core.ask(commands.Read(KEY, 0))
    refused = core.ask(write(0, 0, 2, leader=-5, epoch=0))
    assert {written, read, refused}.isdisjoint(core.answers)
    assert core.answers[core.ask(commands.Summarize(KEY))].start_offset == 0
    core.heal()
    assert core.answers[written] == DONE
    assert core.answers[read].batches == (StateBatch(0, 0, 2, 1),)
    assert core.answers[refused].error is Err.FENCED_STATE_EPOCH


def test_what_the_log_refuses_has_not_happened() -> None:
    core = Core()
    core.ask(commands.Initialize(KEY, 1, 0))
    core.log_error = Err.NOT_ENOUGH_REPLICAS
    assert core.answer(write(0, 0, 2)).error is Err.COORDINATOR_NOT_AVAILABLE
    core.log_error = Err.NONE
    assert core.answer(commands.Read(KEY, 0)).batches == ()


def test_an_append_that_is_late_is_told_so_and_counts_when_it_comes() -> None:
    core = Core()
    core.ask(commands.Initialize(KEY, 1, 0))
    core.held = True
    token = core.ask(write(0, 0, 2))
    ((key, deadline_ms),) = core.timers.items()
    assert deadline_ms == core.now_ms + 5000
    core.step(TimerFired(key))
    assert core.answers[token].error is Err.COORDINATOR_NOT_AVAILABLE
    core.heal()
    assert core.answer(commands.Read(KEY, 0)).batches == (StateBatch(0, 0, 2, 1),)


def test_a_shard_that_goes_tells_who_waits() -> None:
    core = Core()
    core.ask(commands.Initialize(KEY, 1, 0))
    core.held = True
    token = core.ask(write(0, 0, 2))
    core.perform(core.shard.stop())
    assert core.answers[token].error is Err.NOT_COORDINATOR


def test_a_rebuilt_shard_is_equal_to_the_one_that_wrote() -> None:
    for seed in range(50):
        rng = Random(f"state {seed}")
        core = Core(updates_per_snapshot=rng.choice([0, 3, 500]), counts_completed=rng.random() < 0.5)
        start = 0
        for _ in range(60):
            key = ShareKey(rng.choice(["g", "h"]), TOPIC, rng.randrange(2))
            match rng.randrange(6):
                case 0:
                    core.ask(commands.Initialize(key, rng.randrange(4), rng.choice([-1, start])))
                case 1:
                    core.ask(commands.Delete(key))
                case 2:
                    core.ask(commands.Read(key, rng.randrange(3)))
                case _:
                    start += rng.randrange(2)
                    first = start + rng.randrange(5)
                    batch = StateBatch(first, first + rng.randrange(4), rng.choice([0, 2, 4]), rng.randrange(1, 4))
                    core.ask(
                        commands.Write(key, rng.randrange(4), rng.randrange(3), start, [batch], rng.randrange(-1, 3))
                    )
            core.held = rng.random() < 0.2
            if not core.held:
                core.heal()
        core.heal()
        assert core.loaded() == core.shard.states, seed
        assert core.shard.latest == {}


def test_runs_are_laid_over_one_another_as_offset_by_offset() -> None:
    for seed in range(200):
        rng = Random(f"runs {seed}")
        batches = []
        for _ in range(rng.randrange(1, 8)):
            first = rng.randrange(20)
            batches.append(StateBatch(first, first + rng.randrange(5), rng.choice([0, 2, 4]), rng.randrange(1, 4)))
        start = rng.choice([-1, 0, 5])
        expected: dict[int, tuple[int, int]] = {}
        for batch in batches:
            for offset in range(batch.first, batch.last + 1):
                if offset >= start:
                    expected[offset] = max(expected.get(offset, (0, 0)), (batch.deliveries, batch.state))
        got = combined(batches, start)
        assert {
            offset: (one.deliveries, one.state) for one in got for offset in range(one.first, one.last + 1)
        } == expected
        assert all(before.last + 1 < one.first or before[2:] != one[2:] for before, one in itertools.pairwise(got)), (
            "neighbours that say the same are one"
        )
