"""The share coordinators of a cluster: `CoordinatorRuntime` over ``__share_group_state``; and `Persister`, the way to them.

Source: ShareCoordinatorService.java, DefaultStatePersister.java, PersisterStateManager.java (4.x).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from broker_sim.common.clock import Timer
from broker_sim.common.slices import Job, Pace, Slices, ended
from broker_sim.config.settings import BrokerConfig
from broker_sim.coordinator.outcome import TimerKey
from broker_sim.coordinator.share_state.commands import Command, Result, failed
from broker_sim.coordinator.share_state.shard import ShareStateLoader, ShareStateSettings, ShareStateShard
from broker_sim.coordinator.share_state.state import ShareKey
from broker_sim.metadata.cluster_state import ClusterState, KafkaError
from broker_sim.metadata.topics import SHARE_STATE_TOPIC
from broker_sim.runtime.coordinator_kind import CoordinatorKind
from broker_sim.runtime.coordinator_runtime import CoordinatorRuntime
from broker_sim.storage import partition_for
from kafka_wire.errors import Err
from kafka_wire.remembered import remembered
from kafka_wire.uuids import uuid_text

_partition_of = remembered(entries=16384)(partition_for)

_TRY_AGAIN = frozenset({Err.NOT_COORDINATOR, Err.COORDINATOR_NOT_AVAILABLE, Err.COORDINATOR_LOAD_IN_PROGRESS})
_ATTEMPTS = 5
_BACKOFF_MS = 1000
"""Doubled at each attempt (PersisterStateManager)."""
_PIECE = 200
"""Commands that are given before others are served: each may be a batch of its own in the log."""


@remembered(entries=16384, size=lambda key: len(key.group_id))
def coordinator_key(key: ShareKey) -> str:
    """By what the coordinator of a share group in a partition is found: ``group:topic id:partition``."""
    return f"{key.group_id}:{uuid_text(key.topic_id)}:{key.partition}"


class ShareStateCoordinator(CoordinatorRuntime[ShareStateShard]):
    """The share coordinators of a cluster's brokers."""

    def __init__(self, state: ClusterState) -> None:
        self.settings = settings_of(state.config)
        super().__init__(
            state,
            CoordinatorKind(
                topic=SHARE_STATE_TOPIC,
                partition_of=_partition_of,
                new_shard=lambda index: ShareStateShard(index, self.settings),
                new_loader=ShareStateLoader,
                load_error_disowns=True,
                appends_need_min_isr=False,
            ),
        )
        self.persister = Persister(self)

    def close(self) -> None:
        self.persister.close()
        super().close()

    def timer_text(self, index: int, key: TimerKey) -> str:
        """As in ``append timeout of __share_group_state-3``."""
        return f"append timeout of {SHARE_STATE_TOPIC}-{index}"

    def leading(self, key: ShareKey) -> ShareStateShard | Err:
        """The shard of a share partition, on whichever broker it is, or the error of ``locate``."""
        partition = self.partition_of(coordinator_key(key))
        return Err.COORDINATOR_NOT_AVAILABLE if partition is None else self.shard_of(partition)


@dataclass(slots=True)
class _Retried:
    """A command that is tried again by ``attempt``, when ``timer`` fires (None: now); ``behind``: the later ones of its share
    partition, each with its callback and its next attempt."""

    command: Command
    attempt: Callable[[], object]
    timer: Timer | None = None
    behind: list[tuple[Command, Callable[[Any], object], int]] = field(default_factory=list)

    def go_on(self) -> None:
        """Try again now, unless that is under way."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
            self.attempt()


class Persister:
    """Asks share coordinators, wherever they are, on behalf of brokers: again where one moves or is loaded. Much of it goes in pieces:
    a share group makes a state for each partition of a topic."""

    def __init__(self, coordinators: ShareStateCoordinator) -> None:
        self._coordinators, self._state = coordinators, coordinators.state
        self._slices = Slices()
        self._retried: dict[ShareKey, _Retried] = {}

    def ask(self, commands: Sequence[Command], answered: Callable[[list[Any]], object]) -> None:
        """Call ``answered`` with the answer to each command, in their order, when the last of them is there."""
        answers: list[Result | None] = [None] * len(commands)
        waiting = len(commands)
        if not commands:
            answered([])

        def done(at: int, answer: Result) -> None:
            nonlocal waiting
            answers[at] = answer
            waiting -= 1
            if not waiting:
                answered(answers)

        job = self._asking([(command, partial(done, at)) for at, command in enumerate(commands)])
        if self._slices.busy or not ended(job):
            self._slices.add(job, ended)

    def ask_one(self, command: Command, answered: Callable[[Any], object]) -> None:
        """As `ask`, of one command: ``answered`` is called with its answer."""
        if self._slices.busy:  # behind the commands that are being given
            self.ask([command], lambda answers: answered(answers[0]))
        else:
            self._begin(command, answered)

    def close(self) -> None:
        """Drop the commands that were not sent yet."""
        self._slices.clear()
        for retried in self._retried.values():
            if retried.timer is not None:
                retried.timer.cancel()
        self._retried.clear()

    def _asking(self, all_of_it: Sequence[tuple[Command, Callable[[Result], object]]]) -> Job:
        pace = Pace(_PIECE)
        for command, answered in all_of_it:
            if pace.full():
                yield
            self._begin(command, answered)

    def _begin(self, command: Command, answered: Callable[[Any], object], attempt: int = 1) -> None:
        """Send a command, or keep it behind an earlier one of its share partition that is tried again: an older state must not come
        after a newer one."""
        retried = self._retried.get(command.key)
        if retried is None:
            self._attempt(command, answered, attempt)
            return
        retried.behind.append((command, answered, attempt))
        if not isinstance(self._coordinators.leading(command.key), Err):
            retried.go_on()

    def _attempt(self, command: Command, answered: Callable[[Any], object], attempt: int) -> None:
        def on_reply(answer: Result) -> None:
            key, again = command.key, answer.error in _TRY_AGAIN and attempt < _ATTEMPTS
            retried = self._retried.get(key)
            if again and retried is not None and retried.command is not command:
                retried.behind.append((command, answered, attempt + 1))
            elif again:
                go_on = partial(self._attempt, command, answered, attempt + 1)
                if retried is None:
                    retried = self._retried[key] = _Retried(command, go_on)
                retried.attempt = go_on
                wire = self._state.clock.wire  # brokers communicate in real time, also with a manual clock
                retried.timer = wire.call_at_ms(wire.now_ms() + (_BACKOFF_MS << (attempt - 1)), retried.go_on)
            else:
                answered(answer)
                if retried is not None and retried.command is command:
                    del self._retried[key]
                    for each in retried.behind:
                        self._begin(*each)

        try:
            self._state.ensure_internal_topic(SHARE_STATE_TOPIC)
        except KafkaError as failure:
            on_reply(failed(command, Err.COORDINATOR_NOT_AVAILABLE, failure.message))
            return
        shard = self._coordinators.leading(command.key)
        if isinstance(shard, Err):
            on_reply(failed(command, shard))
        else:
            self._coordinators.command(shard, command, on_reply)


def settings_of(config: BrokerConfig) -> ShareStateSettings:
    """The coordinator's settings out of the broker's configs."""
    if config.release < (4, 1):
        return ShareStateSettings()
    return ShareStateSettings(
        updates_per_snapshot=config.int("share.coordinator.snapshot.update.records.per.snapshot"),
        write_timeout_ms=config.int("share.coordinator.write.timeout.ms"),
        counts_completed=config.release >= (4, 2),
        checks_epochs=config.release >= (4, 4),
    )
