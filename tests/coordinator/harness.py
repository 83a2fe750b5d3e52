"""A shard under glass: events by hand, a log that answers as the test says, timers that fire when the test moves time.

Nothing here knows the broker around the core: no loop, no sockets, no files.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from broker_sim.coordinator.loader import Loader
from broker_sim.coordinator.outcome import (
    NO_PRODUCER,
    Append,
    Appended,
    Client,
    CommitOffsets,
    Committed,
    Event,
    Heartbeat,
    LeaveGroup,
    Leaver,
    Offset,
    Outcome,
    Request,
    TimerFired,
    TimerKey,
    TransactionEnded,
)
from broker_sim.coordinator.policy import Settings
from broker_sim.coordinator.shard import Shard
from kafka_wire.errors import Err
from kafka_wire.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kafka_wire.messages.k14_sync_group import SyncGroupRequest, SyncGroupRequestAssignment

START_MS = 1_000_000


def counter_ids() -> Callable[[], str]:
    """Member ids that can be foretold: 0000, 0001, ..."""
    numbers = itertools.count()
    return lambda: f"{next(numbers):04d}"


class Core:
    """One shard, its log and its timers. ``log_error`` makes appends fail; ``held`` keeps the high watermark where it is."""

    def __init__(self, **settings: Any) -> None:
        self.settings = Settings(**{"initial_rebalance_delay_ms": 0, "min_session_timeout_ms": 1, **settings})
        self.now_ms = START_MS
        self.log: list[tuple[bytes, bytes | None]] = []
        self.producers: dict[int, int] = {}  # of records in a transaction, by offset
        self.markers: dict[int, tuple[int, bool]] = {}  # producer id and whether it commits, by offset
        self.high_watermark = 0
        self.log_error = Err.NONE
        self.held = False
        self.timers: dict[TimerKey, int] = {}
        self.answers: dict[int, Any] = {}
        self.events: list[tuple[int, Event]] = []  # the journal: (now_ms, event)
        self.after_step: Callable[[], object] = lambda: None
        self.tokens = itertools.count()
        self.shard = Shard(0, self.settings, counter_ids())
        self.perform(self.shard.start(Loader(self.settings).finish(), self.now_ms))

    # the world

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
            assert token not in self.answers, f"request {token} was answered twice"
            self.answers[token] = answer
        for append in outcome.appends:
            self.append(append)

    def append(self, append: Append) -> None:
        if self.log_error is not Err.NONE:
            self.step(Appended(append.ticket, -1, self.log_error))
            return
        if append.producer is not NO_PRODUCER:
            self.producers.update(
                dict.fromkeys(range(len(self.log), len(self.log) + len(append.records)), append.producer.producer_id)
            )
        self.log += append.records
        if not self.held:
            self.high_watermark = len(self.log)
        self.step(Appended(append.ticket, len(self.log) - 1, Err.NONE, self.high_watermark))

    def mark(self, producer_id: int, *, commit: bool) -> None:
        """A transaction's coordinator ends it."""
        offset = len(self.log)
        self.markers[offset] = (producer_id, commit)
        self.log.append((b"", None))
        if not self.held:
            self.high_watermark = len(self.log)
        self.step(TransactionEnded(producer_id, commit, offset, self.high_watermark))

    def feed(self, loader: Loader, end: int | None = None) -> Loader:
        """Give it the log, up to offset ``end``."""
        for offset, (key, value) in enumerate(self.log[:end]):
            if offset in self.markers:
                producer_id, committed = self.markers[offset]
                loader.end_transaction(producer_id, committed=committed)
            else:
                loader.add(offset, key, value, self.producers.get(offset, -1))
        return loader

    def heal(self) -> None:
        """The high watermark catches up with the log."""
        self.held = False
        self.high_watermark = len(self.log)
        self.step(Committed(self.high_watermark))

    def advance(self, ms: int) -> None:
        """Let time pass: due timers fire one by one, each at its own instant."""
        target = self.now_ms + ms
        while self.timers:
            key = min(self.timers, key=lambda k: self.timers[k])
            if self.timers[key] > target:
                break
            self.now_ms = max(self.now_ms, self.timers.pop(key))
            self.step(TimerFired(key))
        self.now_ms = target

    def reload(self) -> Core:
        """Return a new coordinator that has loaded this one's log."""
        loader = self.feed(Loader(self.settings))
        other = Core()
        other.producers, other.markers = dict(self.producers), dict(self.markers)
        other.settings, other.now_ms, other.log, other.high_watermark = (
            self.settings,
            self.now_ms,
            list(self.log),
            len(self.log),
        )
        other.shard = Shard(0, self.settings, counter_ids())
        other.timers = {}
        other.perform(other.shard.start(loader.finish(), self.now_ms))
        return other

    # requests; each returns its token, under which ``answers`` holds the reply

    def request(self, body: Any, version: int = 9, client_id: str = "c") -> int:
        token = next(self.tokens)
        self.step(Request(token, Client(client_id, "/127.0.0.1", version), body))
        return token

    def join(
        self,
        member_id: str = "",
        *,
        group: str = "g",
        instance: str | None = None,
        protocols: tuple[tuple[str, bytes], ...] = (("range", b"m"),),
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        version: int = 9,
        protocol_type: str = "consumer",
    ) -> int:
        named = [JoinGroupRequestProtocol(name, metadata) for name, metadata in protocols]
        body = JoinGroupRequest(group, session_ms, rebalance_ms, member_id, instance, protocol_type, named)
        return self.request(body, version)

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        group: str = "g",
        **more: Any,
    ) -> int:
        given = [SyncGroupRequestAssignment(*pair) for pair in (assignments or {}).items()]
        body = SyncGroupRequest(group, generation, member_id, assignments=given, **more)
        return self.request(body, 5)

    def heartbeat(self, member_id: str, generation: int, *, group: str = "g", instance: str | None = None) -> Err:
        answer = self.answers[self.request(Heartbeat(group, generation, member_id, instance))]
        assert isinstance(answer, Err)
        return answer

    def leave(self, *leavers: tuple[str, str | None], group: str = "g") -> tuple[Err, list[Err]]:
        body = LeaveGroup(group, [Leaver(member_id, instance) for member_id, instance in leavers])
        answer: tuple[Err, list[Err]] = self.answers[self.request(body)]
        return answer

    def commit(
        self,
        offset: int,
        member_id: str = "",
        generation: int = -1,
        *,
        topic: str = "t",
        partition: int = 0,
        group: str = "g",
        instance: str | None = None,
        expire_ts_ms: int = -1,
        v9: bool = False,
    ) -> int:
        value = Offset(offset, -1, "", self.now_ms, expire_ts_ms)
        return self.request(CommitOffsets(group, generation, member_id, instance, [(topic, partition, value)], v9))

    # what groups of tests start from

    def state(self, group: str = "g") -> str:
        found = self.shard.groups.get(group)
        return "-" if found is None else found.state.value

    def offset(self, topic: str = "t", partition: int = 0, group: str = "g") -> int:
        found = self.shard.groups.get(group)
        value = None if found is None else found.offset(topic, partition)
        return -1 if value is None else value.offset

    def joined(self, token: int) -> JoinGroupResponse:
        answer = self.answers[token]
        assert isinstance(answer, JoinGroupResponse)
        assert answer.error_code == Err.NONE, Err(answer.error_code)
        return answer

    def new_member_id(self, **more: Any) -> str:
        """The id that a dynamic member is told to come back with (KIP-394)."""
        answer = self.answers[self.join(**more)]
        assert answer.error_code == Err.MEMBER_ID_REQUIRED
        member_id: str = answer.member_id
        return member_id

    def stable(self, members: int = 1, **more: Any) -> list[str]:
        """A Stable group of dynamic members, the leader first; each is assigned its own id as bytes."""
        ids = [self.new_member_id(**more) for _ in range(members)]
        tokens = [self.join(member_id, **more) for member_id in ids]
        self.advance(0)
        leader = self.joined(tokens[0])
        assert leader.leader == ids[0]
        group = more.get("group", "g")
        for member_id in [*ids[1:], ids[0]]:
            given = {m: m.encode() for m in ids} if member_id == ids[0] else {}
            self.sync(member_id, leader.generation_id, given, group=group)
        assert self.state(group) == "Stable"
        return ids
