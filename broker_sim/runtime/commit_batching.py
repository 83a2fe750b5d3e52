"""OffsetCommits that repeat a layout and wait for the end of the turn: what the handler hands over, and what becomes of it.

A part of the runtime, apart from it for its size alone. The usual case - all of a turn's commits for an offsets partition pass as they
did before, and the log has them at once - goes straight through (``coordinator.turns``); the rest is the shard's, event by event.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

from broker_sim.coordinator.blocks import CommitBlocks, CommitShape
from broker_sim.coordinator.outcome import NO_CLIENT, Request
from broker_sim.coordinator.turns import pass_again, publish
from broker_sim.storage.errors import StorageError
from kafka_wire.errors import Err
from kafka_wire.record_batch import RecordBatchError

if TYPE_CHECKING:
    from broker_sim.handlers.context import ConnectionLike
    from broker_sim.runtime.group_coordinator import GroupCoordinator, GroupSlot

__all__ = ["LateAnswer", "LateCommit", "commit_turn"]


class LateAnswer(Protocol):
    """Who knows the replies to the commits of a shape."""

    @property
    def good(self) -> tuple[bytes, bytes]:
        """The frame of the reply where there is no error: the part before and the one behind the correlation id."""

    def answer(self, connection: ConnectionLike, reply: list[bytes], correlation_id: bytes, error: Err) -> None:
        """Fill in ``reply``, which has its place on the connection (``ConnectionLike.late``)."""


LateCommit = tuple[CommitShape, Sequence[bytes], list[bytes], bytes, LateAnswer, "ConnectionLike"]
"""One of them: its shape and chunks (``coordinator.blocks``); its reply and correlation id; who answers it, and where."""


def commit_turn(runtime: GroupCoordinator, slot: GroupSlot, now_ms: int) -> None:
    """Append the commits that were collected for a shard, and answer them."""
    commits, slot.turn, slot.turn_bytes = slot.turn, [], 0
    partition, shard, buggify = slot.partition, slot.shard, runtime.state.buggify
    if (
        partition.held
        or partition.gate is not None
        or partition.isr_too_small
        or partition.deleted
        or runtime.watch is not None
        or (buggify is not None and buggify.fires("commits by events"))
        or not pass_again(shard, commits)
    ):
        _by_events(runtime, slot, commits, now_ms, None)
        return
    if len(commits) == 1:
        shape = commits[0][0]
        bodies, count = shape.alone(commits[0][1], now_ms), shape.count
    else:
        bodies, count = CommitBlocks(commits, now_ms).bodies()
    error, last_offset = Err.NONE, -1
    try:
        last_offset = partition.append_records(bodies, count, now_ms=now_ms)
    except (StorageError, RecordBatchError) as failure:
        error = runtime.append_failed(partition, failure)
    high_watermark = partition.high_watermark
    if error is not Err.NONE or last_offset >= high_watermark:
        _by_events(runtime, slot, commits, now_ms, (error, last_offset))
        return
    publish(shard, commits, now_ms, last_offset, high_watermark)
    for shape, _, reply, correlation_id, answer, connection in commits:
        _restart_session(runtime, slot, shape, now_ms)
        before, behind = answer.good
        reply += (before, correlation_id, behind)
        connection.replied()


def _restart_session(runtime: GroupCoordinator, slot: GroupSlot, shape: CommitShape, now_ms: int) -> None:
    """As the timer of its outcome would."""
    assert shape.passed is not None
    member, session = shape.passed[3:]
    deadline_ms, armed = now_ms + member.session_timeout_ms, shape.armed
    if armed is not None and armed.alive and armed.deadline_ms <= deadline_ms:
        armed.deadline_ms = deadline_ms
    else:
        key = (slot.shard.partition, session)
        runtime.timers.set(key, deadline_ms)
        shape.armed = runtime.timers.armed(key)


def _by_events(
    runtime: GroupCoordinator, slot: GroupSlot, commits: list[LateCommit], now_ms: int, taken: tuple[Err, int] | None
) -> None:
    """Step the shard with the turn's commits. ``taken``: the log's answer, where it has been given them (they pass, then)."""
    tokens = [
        runtime.token(partial(answer.answer, connection, reply, correlation_id))
        for _, _, reply, correlation_id, answer, connection in commits
    ]
    outcome = runtime._stepped(slot, Request(tokens[0], NO_CLIENT, CommitBlocks(commits, now_ms)), now_ms)
    if taken is not None:
        appends, outcome.appends = outcome.appends, []
        runtime._perform(slot, outcome)
        outcome = runtime._logged(slot, appends, *taken, now_ms)
    runtime._perform(slot, outcome)
