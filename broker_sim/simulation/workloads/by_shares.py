"""Members of a share group (KIP-932) that speak the protocol themselves: they fetch, accept, release, reject, renew, forget what they
have, leave and come back, and now and then ask what must be refused.

Each checks its responses, and `Acquisitions` that no record is acquired by two members at once.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from broker_sim.simulation.checks.answers import InvariantBroken
from broker_sim.simulation.checks.share_log import ShareLog, Unit
from broker_sim.simulation.workloads.raw import (
    GROUP,
    PATIENCE_S,
    TOPIC,
    VERSIONS,
    RawClient,
    RawConnection,
    RawContext,
)
from kafka_wire.errors import Err
from kafka_wire.messages.k76_share_group_heartbeat import ShareGroupHeartbeatRequest
from kafka_wire.messages.k78_share_fetch import AcknowledgementBatch, FetchPartition, FetchTopic, ShareFetchRequest
from kafka_wire.messages.k79_share_acknowledge import AcknowledgementBatch as SaidBatch
from kafka_wire.messages.k79_share_acknowledge import AcknowledgePartition, AcknowledgeTopic, ShareAcknowledgeRequest

if TYPE_CHECKING:
    from broker_sim.metadata.cluster_state import Partition

__all__ = ["ACCEPT", "GAP", "LIMIT", "LOCK_MS", "REJECT", "Acquisitions", "ShareMember"]

LOCK_MS, LIMIT = 1500, 3
_SLACK_S = 0.05
GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
_MOVED = {Err.NOT_COORDINATOR, Err.COORDINATOR_NOT_AVAILABLE, Err.COORDINATOR_LOAD_IN_PROGRESS}
_OF_RECORDS = (Err.NONE, Err.INVALID_RECORD_STATE, Err.INVALID_REQUEST)
"""Answers that only a leader gives that knows the group's records."""
_GONE = {Err.UNKNOWN_MEMBER_ID, Err.FENCED_MEMBER_EPOCH, Err.GROUP_ID_NOT_FOUND}

Record = tuple[Unit, int]
"""One record: its partition and offset."""


@dataclass(slots=True, eq=False)
class MemberSession:
    """A share session as its member sees it: with a leader, over one connection. ``doubts``: what can't be, if this session has not
    ended on the other side, of which its member hears later. ``forgotten``: what it has and will say no word of."""

    line: RawConnection
    epoch: int = 0
    fetched: set[Unit] = field(default_factory=set)
    has: dict[Record, AcquiredRecord] = field(default_factory=dict)
    forgotten: dict[Record, AcquiredRecord] = field(default_factory=dict)
    doubts: list[tuple[float, str]] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class AcquiredRecord:
    """A record that a member has, at least until ``until_s``, by the leader of that epoch; its response came at ``since_s``."""

    member: str
    session: MemberSession
    since_s: float
    until_s: float
    leader_epoch: int


@dataclass(slots=True)
class Acquisitions:
    """The records that members have acquired by their responses, and their acknowledgements. ``calm``: members stop sending unusual
    requests."""

    log: ShareLog
    context: RawContext
    calm: bool = False
    holds: dict[Record, AcquiredRecord] = field(default_factory=dict)
    done: set[Record] = field(default_factory=set)
    """The records that a member has accepted or rejected by an acknowledgement without an error."""
    said: dict[int, set[Record]] = field(default_factory=lambda: {ACCEPT: set(), REJECT: set(), GAP: set()})
    """Records that any member has acknowledged, by type, whether the broker has received that or not."""
    met: Counter[str] = field(default_factory=Counter)

    def fail(self, name: str, what: str) -> None:
        """Report a breach of the invariant ``name``."""
        self.context.answers.report(InvariantBroken(name, what))

    def partition(self, unit: Unit) -> Partition:
        """The cluster's state of a partition."""
        return self.context.kafka.state.topics_by_id[unit[0]].partitions[unit[1]]

    def drop(self, session: MemberSession) -> None:
        """Forget the records of a lost session: whether they were acknowledged is unknown."""
        for record, hold in (*session.has.items(), *session.forgotten.items()):
            if self.holds.get(record) is hold:
                del self.holds[record]
        session.has.clear()
        session.forgotten.clear()
        session.doubts.clear()


class ShareMember(RawClient):
    """One process after another: each has an id of its own."""

    SPANS: ClassVar[Mapping[Any, tuple[int, int]]] = {
        **VERSIONS,
        ShareGroupHeartbeatRequest: (1, 1),
        ShareFetchRequest: (1, 2),
        ShareAcknowledgeRequest: (1, 2),
    }

    def __init__(self, context: RawContext, hands: Acquisitions, name: str) -> None:
        super().__init__(context, name)
        self.hands = hands
        self.lives = self.epoch = self.beats = 0
        self.member = ""
        self.is_unsure = False
        """Whether its last heartbeat failed: the next one is a full one, to which the whole assignment is returned
        (AbstractHeartbeatRequestManager.onErrorResponse, onFailure)."""
        self.units: set[Unit] = set()
        self.sessions: dict[int, MemberSession] = {}
        self.version_of_shares = min(self._versions[ShareFetchRequest], self._versions[ShareAcknowledgeRequest])
        self._versions[ShareFetchRequest] = self._versions[ShareAcknowledgeRequest] = self.version_of_shares

    # --- its life

    async def run(self) -> None:
        """Be a member of the share group until the host is stopped."""
        self.begin()
        for session in self.sessions.values():
            self.hands.drop(session)
        self.sessions.clear()
        self._another_id()
        while True:
            with contextlib.suppress(OSError):
                await self._serve(await self.find())
            await asyncio.sleep(0.05)

    def _another_id(self) -> None:
        self.lives += 1
        self.member = base64.urlsafe_b64encode(self.rng.randbytes(16)).decode().rstrip("=")
        self.epoch, self.units = 0, set()

    def _now_s(self) -> float:
        return self.context.sim.elapsed_s

    async def _serve(self, broker: int) -> None:
        while True:
            await asyncio.sleep(self.rng.uniform(0.05, 0.2))
            if not self.hands.calm and self.epoch > 0 and self.rng.random() < 0.02:
                await self._leave(broker)
                continue
            request, self.is_unsure = self._heartbeat(), True
            answer = await self.ask(request, broker)
            error = Err(answer.error_code)
            if error in _MOVED:
                return
            if error in _GONE:
                self.epoch, self.units = 0, set()
            elif error is Err.NONE:
                self.beats += 1
                self.epoch, self.is_unsure = answer.member_epoch, False
                if answer.assignment is not None:
                    self._take(answer.assignment)
            await self._read()

    def _heartbeat(self) -> ShareGroupHeartbeatRequest:
        names = [TOPIC] if self.epoch == 0 or self.is_unsure else None
        return ShareGroupHeartbeatRequest(GROUP, self.member, self.epoch, subscribed_topic_names=names)

    def _take(self, assignment: Any) -> None:
        self.units = {(topic.topic_id, index) for topic in assignment.topic_partitions for index in topic.partitions}
        self.hands.log.catch_up()
        unknown = sorted(index for unit in self.units for index in [unit[1]] if unit not in self.hands.log.standings)
        if unknown:
            what = f"{self.name} is given partitions {unknown}, of which no state is stored"
            self.hands.fail("share state is initialized before records are acquired", what)

    async def _leave(self, broker: int) -> None:
        """Close some of the sessions, abandon the others with their connections, and leave the group; then start as another process."""
        for leader in list(self.sessions):
            if self.rng.random() < 0.5:
                await self._fetch(leader, set(), final=True)
            self._end(leader, hang_up=True)
        request = ShareGroupHeartbeatRequest(GROUP, self.member, -1)
        self._another_id()
        await self.ask(request, broker)
        await asyncio.sleep(self.rng.choice((0.1, 0.5, 1.0)))

    # --- sessions

    async def _read(self) -> None:
        by_leader: dict[int, set[Unit]] = {}
        for unit in sorted(self.units):
            leader = self.hands.partition(unit).leader
            if leader > 0:
                by_leader.setdefault(leader, set()).add(unit)
        for leader, units in by_leader.items():
            try:
                await self._fetch(leader, units)
                await self._work(leader)
            except (OSError, TimeoutError):
                self._end(leader, hang_up=True)

    def _end(self, leader: int, *, hang_up: bool = False) -> None:
        session = self.sessions.pop(leader, None)
        if session is not None:
            self.hands.drop(session)
            if hang_up:
                session.line.close()

    async def _sent(self, leader: int, session: MemberSession, request: Any) -> Any:
        """The answer, on the session's own connection. Raises OSError."""
        if session.line.lost:
            raise ConnectionResetError("its session has ended with it")
        return await asyncio.wait_for(session.line.start(request, self.version_of_shares), PATIENCE_S)

    async def _fetch(self, leader: int, units: set[Unit], *, final: bool = False) -> None:
        session = self.sessions.get(leader)
        if session is None:
            self.leave(leader, 1)
            session = self.sessions[leader] = MemberSession(await self.line(leader, 1))
        few = self.rng.random() < 0.4
        exactly = self.version_of_shares >= 2 and self.rng.random() < 0.2
        request = ShareFetchRequest(
            GROUP,
            self.member,
            -1 if final else session.epoch,
            max_wait_ms=0 if final else self.rng.choice((0, 100, 300)),
            min_bytes=1,
            max_records=2 if few else 500,
            batch_size=2 if few else 500,
            topics=[] if final else _topics(units - session.fetched),
            share_acquire_mode=int(exactly) if self.version_of_shares >= 2 else 0,
        )
        sent_s = self._now_s()
        before = {unit: self._moment(unit) for unit in units}
        done = set(self.hands.done)
        answer = await self._sent(leader, session, request)
        error = Err(answer.error_code)
        if error is not Err.NONE:
            self._refused(session, error)
            self._end(leader, hang_up=True)
            return
        if final:
            return
        self._goes_on(session, sent_s)
        session.epoch += 1
        session.fetched |= units
        for topic in answer.responses:
            for row in topic.partitions:
                unit = topic.topic_id, row.partition_index
                if row.error_code:
                    self._end(leader, hang_up=True)
                    return
                if row.acquired_records and unit in before:
                    self._acquired(session, unit, row, sent_s, before[unit], done, exactly=exactly)

    def _refused(self, session: MemberSession, error: Err) -> None:
        """A session that its member knows of is there, as long as its connection is, and counts as its member does."""
        if error in (Err.INVALID_SHARE_SESSION_EPOCH, Err.SHARE_SESSION_NOT_FOUND) and not session.line.lost:
            self.hands.fail("share sessions check their epoch", f"{self.name} gets {error.name} at {session.epoch}")

    def _goes_on(self, session: MemberSession, sent_s: float) -> None:
        """Record that a session still exists: doubts older than this request are breaches."""
        for at_s, what in session.doubts:
            if at_s < sent_s:
                self.hands.fail("a record is acquired by one member", what)
        session.doubts.clear()

    def _moment(self, unit: Unit) -> tuple[int, dict[int, int]]:
        """The leader epoch, and how often records have been delivered, by what is stored."""
        self.hands.log.catch_up()
        standing = self.hands.log.standings.get(unit)
        counts = {} if standing is None else {offset: record.deliveries for offset, record in standing.records.items()}
        return self.hands.partition(unit).leader_epoch, counts

    def _acquired(
        self,
        session: MemberSession,
        unit: Unit,
        row: Any,
        sent_s: float,
        before: tuple[int, dict[int, int]],
        done: set[Record],
        *,
        exactly: bool,
    ) -> None:
        hands, (leader_epoch, counts), now_s, lock_s = self.hands, before, self._now_s(), LOCK_MS / 1000
        same = hands.partition(unit).leader_epoch == leader_epoch
        fresh: list[int] = []
        for run in row.acquired_records:
            for offset in range(run.first_offset, run.last_offset + 1):
                record = unit, offset
                if run.delivery_count > LIMIT:
                    hands.fail(
                        "the delivery count stays within its limit", f"{offset}: {run.delivery_count} of {LIMIT}"
                    )
                if record in done:
                    hands.fail("completed records are never redelivered", f"{self.name} is given {offset} of {unit[1]}")
                stored = counts.get(offset, 0)
                if hands.log.counts_all and run.delivery_count <= stored:
                    what = f"{offset} is delivered for the {run.delivery_count}. time, {stored} are stored"
                    hands.fail("the delivery count never decreases", what)
                if run.delivery_count == 1 and offset not in counts:
                    fresh.append(offset)
                hold = hands.holds.get(record)
                if hold is not None and (hold.leader_epoch != leader_epoch or hold.until_s <= now_s):
                    hold = None
                if same and hold is not None and hold.since_s < sent_s + lock_s:
                    # else this response was under way for so long that its own lock may have ended before the other began
                    who = f"{self.name} is given {offset} of {unit[1]} at {now_s:.3f} s"
                    what = f"{who}, which {hold.member} has until {hold.until_s:.3f} s at least"
                    hold.session.doubts.append((now_s, what))
                if same:
                    mine = session.has[record] = AcquiredRecord(
                        self.name, session, now_s, sent_s + lock_s, leader_epoch
                    )
                    if hold is None or hold.until_s < mine.until_s:
                        hands.holds[record] = mine
        if fresh and not exactly and same and not self._is_whole(unit, max(fresh)):
            hands.fail("batches are acquired whole", f"{self.name} is given up to {max(fresh)} of partition {unit[1]}")
        hands.met["acquired"] += 1

    def _is_whole(self, unit: Unit, last: int) -> bool:
        """Whether a batch ends there: a request with a limit of records ends where the limit is reached."""
        if self.version_of_shares >= 2:
            return True
        log = self.hands.partition(unit).log
        return any(batch.header.next_offset == last + 1 for batch in log.batches(log.log_start_offset))

    # --- what it says of records

    async def _work(self, leader: int) -> None:
        session = self.sessions.get(leader)
        if session is None:
            return
        dice = 0.0 if self.hands.calm else self.rng.random()
        if dice > 0.9:  # it does not acknowledge them: they are delivered again when their lock ends
            session.forgotten.update(session.has)
            session.has.clear()
            return
        mine: dict[Unit, list[int]] = {}
        for (unit, offset), hold in list(session.has.items()):
            if self._now_s() < hold.until_s - 2 * _SLACK_S:
                mine.setdefault(unit, []).append(offset)
            else:
                self._forget(session, (unit, offset))
        for unit, offsets in sorted(mine.items()):
            runs = _runs(offsets)
            if dice > 0.8 and not self.hands.calm:
                await self._ask_in_vain(leader, session, unit, runs[0])
                if self.sessions.get(leader) is not session:
                    return
            for first, last in runs:
                kinds = self._kinds(last - first + 1)
                if not await self._say(leader, session, unit, first, last, kinds):
                    return

    def _kinds(self, size: int) -> list[int]:
        if self.hands.calm:
            return [ACCEPT]
        whole = self.rng.choices((ACCEPT, RELEASE, REJECT, GAP), (6, 3, 1, 0.3))
        if self.rng.random() < 0.5 or size == 1:
            return whole
        return self.rng.choices((ACCEPT, RELEASE, REJECT), (6, 3, 1), k=size)

    def _forget(self, session: MemberSession, record: Record) -> AcquiredRecord | None:
        hold = session.has.pop(record, None)
        if self.hands.holds.get(record) is hold and hold is not None:
            del self.hands.holds[record]
        return hold

    async def _say(
        self,
        leader: int,
        session: MemberSession,
        unit: Unit,
        first: int,
        last: int,
        kinds: list[int],
        wanted: Err = Err.NONE,
    ) -> bool:
        """Acknowledge; False where the session is over. What is said must be taken, if it can be."""
        records = [(unit, offset) for offset in range(first, last + 1)]
        holds = [self._forget(session, record) for record in records] if wanted is Err.NONE else []
        for at, record in enumerate(records):
            kind = kinds[at] if len(kinds) > 1 else kinds[0]
            if kind in self.hands.said and wanted is Err.NONE:
                self.hands.said[kind].add(record)
        sent_s = self._now_s()
        error, row_error = await self._acknowledge(leader, session, unit, first, last, kinds)
        if error is not Err.NONE:
            self._refused(session, error)
            self._end(leader, hang_up=True)
            return False
        self._goes_on(session, sent_s)
        session.epoch += 1
        epoch = self.hands.partition(unit).leader_epoch
        sure = all(h is not None and h.leader_epoch == epoch and self._now_s() < h.until_s for h in holds)
        if row_error is Err.NONE and wanted is Err.NONE:
            self.hands.done |= {
                record
                for at, record in enumerate(records)
                if (kinds[at] if len(kinds) > 1 else kinds[0]) in (ACCEPT, REJECT, GAP)
            }
        elif sure and row_error in (Err.INVALID_RECORD_STATE, Err.INVALID_REQUEST) and wanted is Err.NONE:
            what = f"{self.name} says {kinds} of {first} to {last}, which it has, and gets {row_error.name}"
            self.hands.fail("a member may acknowledge its acquired records", what)
        elif wanted is not Err.NONE and row_error is not wanted and row_error in _OF_RECORDS:
            what = f"{self.name} says {kinds} of {first} to {last} and gets {row_error.name}, not {wanted.name}"
            self.hands.fail("responses follow the coordinator's rules", what)
        return True

    async def _acknowledge(
        self,
        leader: int,
        session: MemberSession,
        unit: Unit,
        first: int,
        last: int,
        kinds: list[int],
        epoch: int | None = None,
    ) -> tuple[Err, Err]:
        """The error of the whole, and of the partition."""
        renews = RENEW in kinds
        topics = [AcknowledgeTopic(unit[0], [AcknowledgePartition(unit[1], [SaidBatch(first, last, kinds)])])]
        epoch = session.epoch if epoch is None else epoch
        request = ShareAcknowledgeRequest(GROUP, self.member, epoch, is_renew_ack=renews, topics=topics)
        answer = await self._sent(leader, session, request)
        rows = [row for topic in answer.responses for row in topic.partitions]
        return Err(answer.error_code), Err(rows[0].error_code) if rows else Err.NONE

    # --- what must be refused, or taken though nothing comes of it

    async def _ask_in_vain(self, leader: int, session: MemberSession, unit: Unit, run: tuple[int, int]) -> None:
        probe: Callable[..., Any] = self.rng.choice(
            (
                self._from_elsewhere,
                self._of_what_is_gone,
                self._of_another,
                self._in_part,
                self._malformed,
                self._renewed,
            )
        )
        self.hands.met[probe.__name__] += 1
        await probe(leader, session, unit, run)

    async def _from_elsewhere(self, leader: int, session: MemberSession, unit: Unit, run: tuple[int, int]) -> None:
        """Requests of another epoch than the session's, and of a session that there isn't: nothing comes of them."""
        first, last = run
        for epoch in (session.epoch + 3, 0):
            error, _ = await self._acknowledge(leader, session, unit, first, last, [ACCEPT], epoch)
            if error is not Err.INVALID_SHARE_SESSION_EPOCH:
                self.hands.fail(
                    "share sessions check their epoch", f"{epoch} in place of {session.epoch} gets {error.name}"
                )
        stranger = base64.urlsafe_b64encode(self.rng.randbytes(16)).decode().rstrip("=")
        request = ShareFetchRequest(
            GROUP, stranger, 4, min_bytes=1, max_records=1, batch_size=1, topics=_topics({unit})
        )
        answer = await self._sent(leader, session, request)
        if answer.error_code != Err.SHARE_SESSION_NOT_FOUND:
            self.hands.fail("share sessions check their epoch", f"a session that isn't: {Err(answer.error_code).name}")
        topics = _topics({unit})
        topics[0].partitions[0].acknowledgement_batches = [AcknowledgementBatch(first, last, [ACCEPT])]
        request = ShareFetchRequest(GROUP, stranger, 0, min_bytes=1, max_records=1, batch_size=1, topics=topics)
        answer = await self._sent(leader, session, request)
        if answer.error_code != Err.INVALID_REQUEST:
            self.hands.fail("share sessions check their epoch", f"said as it begins: {Err(answer.error_code).name}")

    async def _of_what_is_gone(self, leader: int, session: MemberSession, unit: Unit, run: tuple[int, int]) -> None:
        """Below the start offset all is done with: no error."""
        self.hands.log.catch_up()
        standing = self.hands.log.standings.get(unit)
        epoch = self.hands.partition(unit).leader_epoch
        if standing is None or standing.start <= 0:
            return
        error, row_error = await self._acknowledge(
            leader, session, unit, standing.start - 1, standing.start - 1, [ACCEPT]
        )
        if error is not Err.NONE:
            self._refused(session, error)
            self._end(leader, hang_up=True)
            return
        session.epoch += 1
        wrong = row_error in (Err.INVALID_RECORD_STATE, Err.INVALID_REQUEST)
        if wrong and epoch == self.hands.partition(unit).leader_epoch:
            self.hands.fail(
                "responses follow the coordinator's rules",
                f"{standing.start - 1} lies below the start: {row_error.name}",
            )

    async def _of_another(self, leader: int, session: MemberSession, unit: Unit, run: tuple[int, int]) -> None:
        """Acknowledge a record that another member has acquired, which must be refused."""
        epoch = self.hands.partition(unit).leader_epoch
        theirs = [
            (offset, hold)
            for (at, offset), hold in self.hands.holds.items()
            if at == unit and hold.session is not session and hold.leader_epoch == epoch
        ]
        if not theirs:
            return
        offset, hold = theirs[0]
        sent_s = self._now_s()
        error, row_error = await self._acknowledge(leader, session, unit, offset, offset, [RELEASE])
        if error is not Err.NONE:
            self._refused(session, error)
            self._end(leader, hang_up=True)
            return
        self._goes_on(session, sent_s)
        session.epoch += 1
        if row_error is Err.NONE and self._now_s() < hold.until_s and self.hands.holds.get((unit, offset)) is hold:
            hold.session.doubts.append((self._now_s(), f"{self.name} has released {offset}, which {hold.member} has"))

    async def _in_part(self, leader: int, session: MemberSession, unit: Unit, run: tuple[int, int]) -> None:
        """A range of which one record is done with is refused whole: the others are its own yet."""
        first, last = run
        if last - first < 2:
            return
        middle, hold = first + 1, session.has.get((unit, last))
        if not await self._say(leader, session, unit, middle, middle, [ACCEPT]) or hold is None:
            return
        if (unit, middle) not in self.hands.done or self._now_s() > hold.until_s - 4 * _SLACK_S:
            return
        if hold.leader_epoch != self.hands.partition(unit).leader_epoch:
            return
        if await self._say(leader, session, unit, first, last, [ACCEPT], Err.INVALID_RECORD_STATE):
            for offset in (first, *range(middle + 1, last + 1)):
                if not await self._say(leader, session, unit, offset, offset, [ACCEPT]):
                    return

    async def _malformed(self, leader: int, session: MemberSession, unit: Unit, run: tuple[int, int]) -> None:
        """A kind that isn't, of what it has."""
        await self._say(leader, session, unit, run[0], run[0], [9], Err.INVALID_REQUEST)

    async def _renewed(self, leader: int, session: MemberSession, unit: Unit, run: tuple[int, int]) -> None:
        """Renew the acquisition lock of a record and check that it lasts longer."""
        if self.version_of_shares < 2:
            return
        first, last = run
        sent_s = self._now_s()
        error, row_error = await self._acknowledge(leader, session, unit, first, last, [RENEW])
        if error is not Err.NONE:
            self._refused(session, error)
            self._end(leader, hang_up=True)
            return
        session.epoch += 1
        for offset in range(first, last + 1):
            hold = session.has.get((unit, offset))
            if hold is not None and row_error is Err.NONE:
                hold.until_s = max(hold.until_s, sent_s + LOCK_MS / 1000)


def _topics(units: set[Unit]) -> list[FetchTopic]:
    topics: dict[bytes, FetchTopic] = {}
    for topic_id, index in sorted(units):
        topics.setdefault(topic_id, FetchTopic(topic_id, [])).partitions.append(FetchPartition(index, []))
    return list(topics.values())


def _runs(offsets: list[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for offset in sorted(offsets):
        if runs and runs[-1][1] == offset - 1:
            runs[-1] = runs[-1][0], offset
        else:
            runs.append((offset, offset))
    return runs
