"""One shard: the share groups' states of one ``__share_group_state`` partition, stepped by events.

Rules, in addition to those of ``coordinator.outcome``: ``states`` are the committed states, which a summary returns; requests are
checked against ``latest``, which includes pending records (Kafka keeps both in one structure with snapshots). If an append fails
``latest`` is computed again from the other records.

Source: ShareCoordinatorShard.java, ShareCoordinatorService.java (4.x).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from broker_sim.coordinator.outcome import (
    Append,
    Appended,
    Committed,
    Event,
    Outcome,
    Request,
    TimerFired,
    TopicsChanged,
)
from broker_sim.coordinator.pending import LogShard, PendingWrite
from broker_sim.coordinator.policy import JAVA
from broker_sim.coordinator.shard_loader import ShardLoader
from broker_sim.coordinator.share_state import commands
from broker_sim.coordinator.share_state.batches import combined
from broker_sim.coordinator.share_state.commands import Command, Found, Result, Summary
from broker_sim.coordinator.share_state.state import (
    NOWHERE,
    UNCOUNTED,
    ShareKey,
    ShareRecord,
    ShareState,
    applied,
    decode,
    encode,
    listed,
    snapshot,
)
from broker_sim.coordinator.topics import Topics
from kafka_wire import share_state_log as log
from kafka_wire.errors import Err

States = dict[ShareKey, ShareState]


@dataclass(frozen=True, slots=True)
class ShareStateSettings:
    """The broker's ``share.coordinator.*``. ``counts_completed``: writers send the number of completed records (KIP-1226, 4.2);
    ``checks_epochs``: leader epochs of reads and writes, and state epochs of writes and initializations, must not be below 0 (4.4)."""

    updates_per_snapshot: int = 500
    write_timeout_ms: int = 5000
    counts_completed: bool = False
    checks_epochs: bool = False


_DONE = Result()

_OTHER_STATE_EPOCH = "The coordinator rejected the request because the state epoch did not match."


class StateWrite(PendingWrite["ShareStateShard"]):
    """A pending record of a share partition, or (``record`` None) an answer that waits for earlier records."""

    __slots__ = ("answer", "command", "record")

    def __init__(self, token: int | None, command: Command, record: ShareRecord | None, answer: Result) -> None:
        super().__init__(token)
        self.command, self.record, self.answer = command, record, answer

    def done(self, shard: ShareStateShard) -> None:
        self.publish(shard)
        shard.reply(self.token, self.answer)

    def publish(self, shard: ShareStateShard) -> None:
        if self.record is not None:
            shard.publish(self.record)

    def failed(self, shard: ShareStateShard, error: Err) -> None:
        shard.reply(self.token, commands.failed(self.command, JAVA.commit_errors.get(error, error)))

    def revert(self, shard: ShareStateShard) -> None:
        if self.record is not None:
            shard.rewind(self.record.key)

    def counts_in_log(self, shard: ShareStateShard) -> bool:
        return self.record is not None


@dataclass(slots=True, eq=False)
class ShareStateShard(LogShard[StateWrite]):
    """The share coordinator of one partition of ``__share_group_state``."""

    partition: int
    settings: ShareStateSettings
    states: States = field(default_factory=dict)  # what the log has committed
    latest: dict[ShareKey, ShareState | None] = field(default_factory=dict)  # of those with pending records
    topics: Topics = field(default_factory=Topics)

    @property
    def append_timeout_ms(self) -> int:
        return self.settings.write_timeout_ms

    def start(self, states: States, now_ms: int) -> Outcome:
        """Take over what the log has made."""
        self.now_ms, self.states = now_ms, states
        return Outcome()

    def stop(self) -> Outcome:
        """Unload the shard: pending requests are answered NOT_COORDINATOR."""
        out = self.out = Outcome()
        self.fail_pending()
        self.states, self.latest = {}, {}
        return out

    def step(self, event: Event, now_ms: int) -> Outcome:
        """Apply one event. Returns timers, appends and replies."""
        self.now_ms = now_ms
        out = self.out = Outcome()
        if type(event) is Request:
            self._request(event.token, event.body)
        elif type(event) is Appended:
            self.appended(event)
        elif type(event) is Committed:
            self.committed(event.high_watermark, event.error)
        elif type(event) is TopicsChanged:
            deleted = [image.topic_id for name in event.topics if (image := self.topics.by_name.get(name)) is not None]
            self.topics.change(event.topics)
            self._forget([topic_id for topic_id in deleted if topic_id not in self.topics.names])
        elif type(event) is TimerFired:
            self.append_timed_out(event.key)
        return out

    # requests

    def _request(self, token: int, body: object) -> None:
        match body:
            case commands.Write():
                self.write(token, body)
            case commands.Read():
                self.read(token, body)
            case commands.Summarize():
                self.summarize(token, body)
            case commands.Initialize():
                self.initialize(token, body)
            case commands.Delete():
                self.delete(token, body)
            case _:
                raise TypeError(f"no request of the share coordinator: {body!r}")

    def known(self, key: ShareKey) -> ShareState | None:
        """The state of a share partition, with pending records."""
        return self.latest[key] if key in self.latest else self.states.get(key)

    def initialize(self, token: int, command: commands.Initialize) -> None:
        """Initialize or reset a state."""
        state = self.known(command.key)
        error = self._malformed(command)
        if error is None and state is not None and -1 < command.state_epoch < state.state_epoch:
            error = Result(Err.FENCED_STATE_EPOCH, _OTHER_STATE_EPOCH)
        if error is None and not self._exists(command.key):
            error = _plain(Err.UNKNOWN_TOPIC_OR_PARTITION)
        if error is not None:
            self._answer(token, command, error)
            return
        begins = command.start_offset != NOWHERE and self.settings.counts_completed
        made = ShareState(
            0 if state is None else state.snapshot_epoch + 1,
            command.state_epoch,
            0,
            command.start_offset,
            0 if begins else UNCOUNTED,
            created_ms=self.now_ms,
            written_ms=self.now_ms,
        )
        self._write(token, command, snapshot(made), _DONE)

    def read(self, token: int, command: commands.Read) -> None:
        """Return the state to a partition's leader; one with a new epoch fences earlier leaders."""
        key, error = command.key, self._malformed(command)
        state = self.known(key)
        if error is None and state is None:
            error = Result(Err.INVALID_REQUEST, "Read operation on uninitialized share partition not allowed.")
        elif error is None and state is not None and state.leader_epoch > command.leader_epoch:
            error = _plain(Err.FENCED_LEADER_EPOCH)
        if error is None and not self._exists(key):
            error = _plain(Err.UNKNOWN_TOPIC_OR_PARTITION)
        if error is not None or state is None:
            self._answer(token, command, error or _DONE)
            return
        result = Found(Err.NONE, None, state.state_epoch, state.start_offset, state.batches)
        if command.leader_epoch in (-1, state.leader_epoch):
            self._answer(token, command, result)
            return
        again = commands.Write(key, state.state_epoch, command.leader_epoch, state.start_offset, (), UNCOUNTED)
        self._write(token, command, self._record(state, again), result)

    def write(self, token: int, command: commands.Write) -> None:
        """Store changes of records in an update, or in a snapshot after many updates."""
        key = command.key
        error, state = self._malformed(command), self.known(key)
        if error is None:
            if state is None:
                error = Result(Err.INVALID_REQUEST, "Write operation on uninitialized share partition not allowed.")
            elif -1 < command.leader_epoch < state.leader_epoch:
                error = _plain(Err.FENCED_LEADER_EPOCH)
            elif -1 < command.state_epoch < state.state_epoch:
                error = _plain(Err.FENCED_STATE_EPOCH)
            elif not self._exists(key):
                error = _plain(Err.UNKNOWN_TOPIC_OR_PARTITION)
        if error is not None or state is None:
            self._answer(token, command, error or _DONE)
        else:
            self._write(token, command, self._record(state, command), _DONE)

    def delete(self, token: int, command: commands.Delete) -> None:
        """Delete a state; deleting a missing state succeeds."""
        error = self._malformed(command)
        if error is None and not self._exists(command.key):
            error = _plain(Err.UNKNOWN_TOPIC_OR_PARTITION)
        if error is not None:
            self._answer(token, command, error)
        elif self.known(command.key) is None:
            self._answer(token, command, _DONE)
        else:
            self._write(token, command, None, _DONE)

    def summarize(self, token: int, command: commands.Summarize) -> None:
        """Answer a Summarize with the group's position in the partition, as far as it is committed."""
        error = self._malformed(command)
        if error is None and not self._exists(command.key):
            error = _plain(Err.UNKNOWN_TOPIC_OR_PARTITION)
        state = self.states.get(command.key)
        if error is not None:
            answer: Result = commands.failed(command, error.error, error.words)
        elif state is None:
            answer = Summary(start_offset=NOWHERE)
        else:
            answer = Summary(
                Err.NONE, None, state.state_epoch, state.leader_epoch, state.start_offset, state.complete_count
            )
        self.out.replies.append((token, answer))

    def _forget(self, topic_ids: list[bytes]) -> None:
        """Delete the states of deleted topics."""
        for key in [key for key in self.states if key.topic_id in topic_ids]:
            self._write(None, commands.Delete(key), None, _DONE)

    def _malformed(self, command: Command) -> Result | None:
        if command.key.partition < 0:
            return Result(Err.INVALID_REQUEST, "The partition id cannot be a negative number.")
        if not self.settings.checks_epochs:
            return None
        if isinstance(command, (commands.Write, commands.Read)) and command.leader_epoch < 0:
            return Result(Err.INVALID_REQUEST, "The leader epoch cannot be a negative number.")
        if isinstance(command, (commands.Write, commands.Initialize)) and command.state_epoch < 0:
            return Result(Err.INVALID_REQUEST, "The state epoch cannot be a negative number.")
        return None

    def _exists(self, key: ShareKey) -> bool:
        name = self.topics.names.get(key.topic_id)
        return name is not None and key.partition < self.topics.by_name[name].partitions

    def _record(self, state: ShareState, command: commands.Write) -> log.Value:
        limit = self.settings.updates_per_snapshot
        if state.updates < limit and command.state_epoch <= state.state_epoch:
            return log.ShareUpdateValue(
                snapshot_epoch=state.snapshot_epoch,
                leader_epoch=command.leader_epoch,
                start_offset=command.start_offset,
                delivery_complete_count=command.complete_count,
                state_batches=listed(combined(command.batches, command.start_offset)),
            )
        start_offset = state.start_offset if command.start_offset == NOWHERE else command.start_offset
        whole = ShareState(
            state.snapshot_epoch + 1,
            state.state_epoch if command.state_epoch == -1 else command.state_epoch,
            state.leader_epoch if command.leader_epoch == -1 else command.leader_epoch,
            start_offset,
            command.complete_count,
            combined([*state.batches, *command.batches], start_offset),
            self.now_ms,
            self.now_ms,
        )
        return snapshot(whole)

    # the log

    def _write(self, token: int | None, command: Command, value: log.Value | None, answer: Result) -> None:
        key = command.key
        record = ShareRecord(key, value)
        self.latest[key] = applied(self.known(key), value)
        ticket = self.ticket()
        self.writes[ticket] = StateWrite(token, command, record, answer)
        self.out.appends.append(Append(ticket, [encode(record)]))

    def _answer(self, token: int, command: Command, answer: Result) -> None:
        """Answer a command that writes nothing: when all that was written before is committed."""
        if answer.error is not Err.NONE:
            answer = commands.failed(command, answer.error, answer.words)
        if self.is_behind:
            self.defer(StateWrite(token, command, None, answer))
        else:
            self.reply(token, answer)

    def publish(self, record: ShareRecord) -> None:
        """Apply a committed record: if it was the only one of its share partition, the latest state is the committed one."""
        key = record.key
        if self.writes or key not in self.latest:
            replay(self.states, record)
            self.rewind(key)
            return
        state = self.latest.pop(key)
        if state is None:
            self.states.pop(key, None)
        else:
            self.states[key] = state

    def rewind(self, key: ShareKey) -> None:
        """Compute the latest state of a share partition again from the committed one and the pending records."""
        state, any_pending = self.states.get(key), False
        for write in self.writes.values():
            if write.record is not None and write.record.key == key:
                state, any_pending = applied(state, write.record.value), True
        if any_pending:
            self.latest[key] = state
        else:
            self.latest.pop(key, None)


def _plain(error: Err) -> Result:
    """An error in the words that Kafka has for it anyway."""
    return Result(error, error.text)


def replay(states: States, record: ShareRecord) -> None:
    """Apply a record of the log to the states, live and at a load."""
    state = applied(states.get(record.key), record.value)
    if state is None:
        states.pop(record.key, None)
    else:
        states[record.key] = state


class ShareStateLoader(ShardLoader[ShareStateShard]):
    """Loads a shard from its partition of ``__share_group_state``."""

    def __init__(self) -> None:
        super().__init__()
        self.states: States = {}

    def read(self, log_offset: int, key: bytes | None, value: bytes | None, producer_id: int) -> None:
        replay(self.states, decode(key, value))

    def finish(self) -> States:
        """The states, after the last record."""
        return self.states

    def start(self, shard: ShareStateShard, now_ms: int) -> Outcome:
        return shard.start(self.finish(), now_ms)

    def found(self) -> str:
        return f"{len(self.states)} share partitions"
