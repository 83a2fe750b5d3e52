"""ShareFetch (78, KIP-932), versions 1 and 2: processes the member's acknowledgements, and acquires records for it.

A fetch is answered at once with min_bytes, an error of the log or max_wait_ms 0; else it is pending: its partitions call it when
records were appended or released, and one timer ends it. Errors of some partitions do not end the wait for the others. The partitions
of a session take turns in being the first. v2 may renew locks (KIP-1222), which fetches nothing, and may limit the number of records
strictly (KIP-1206).

Source: KafkaApis.handleShareFetchRequest, SharePartitionManager, DelayedShareFetch, ShareFetchUtils (4.x).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field

from broker_sim.common.slices import Job, Pace, at_once, chunked
from broker_sim.coordinator.share_partition.inflight import Acquired
from broker_sim.coordinator.share_partition.sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    SessionKey,
    ShareSession,
    TopicPartition,
)
from broker_sim.handlers.share_acknowledging import Acknowledging, member_of, parts_of
from broker_sim.handlers.share_groups import MISDIRECTED, are_off, current_leaders
from broker_sim.metadata.cluster_state import Broker
from broker_sim.requests.context import RequestContext
from broker_sim.runtime.share_partitions import LivePartition
from broker_sim.storage import StorageError
from broker_sim.storage.errors import OffsetOutOfRange
from broker_sim.storage.positions import bytes_between, is_in_active_segment
from broker_sim.storage.transactions import AbortedTransaction
from kafka_wire import record_batch
from kafka_wire.errors import Err
from kafka_wire.messages.k78_share_fetch import (
    AcquiredRecords,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)

_ABOUT, _EXACTLY = 0, 1
"""The acquire modes in which a fetch gets whole batches, and no more records than it asks for."""

Head = tuple[int, record_batch.BatchHeader]
"""A batch's position in what was read, and its header."""

_PIECE = 1000
"""Partitions that are looked at before others are served."""

_CHUNK, _NEW_CHUNK = 65_536, 16_384
"""Bytes of a log that are read first, and of new records: often one batch has as many as may be acquired, and goes out uncopied."""


def handle(ctx: RequestContext, request: ShareFetchRequest) -> ShareFetchResponse | None:
    """Whether there are share groups, the session; then acknowledgements and records."""
    response: ShareFetchResponse | None = ctx.in_pieces(_fetch(ctx, request))
    return response


def _fetch(ctx: RequestContext, request: ShareFetchRequest) -> Generator[None, None, ShareFetchResponse | None]:
    group_id = request.group_id or ""
    if are_off(ctx, group_id):
        return ShareFetchResponse(error_code=Err.UNSUPPORTED_VERSION)
    member = member_of(ctx, request.group_id, request.member_id)
    if not isinstance(member, str):
        return ShareFetchResponse(error_code=member)
    wants = (request.max_wait_ms, request.min_bytes, request.max_bytes, request.max_records)
    if request.is_renew_ack and any(wants):
        return ShareFetchResponse(error_code=Err.INVALID_REQUEST)
    parts = yield from parts_of(request.topics, Pace(_PIECE))
    if len(parts) >= _PIECE:
        yield
    session = _session(ctx, request, SessionKey(group_id, member), parts)
    if not isinstance(session, ShareSession):
        return ShareFetchResponse(error_code=session)
    if request.share_acquire_mode not in (_ABOUT, _EXACTLY) and _reads_any(ctx, request, session):
        return ShareFetchResponse(error_code=Err.UNKNOWN_SERVER_ERROR)  # ShareAcquireMode.forId knows no other
    shares = ctx.coordinators.shares
    acknowledging = Acknowledging(ctx, group_id, member, renews=request.is_renew_ack and shares.renews(group_id))
    if any(parts.values()):
        yield from acknowledging.adding(parts)
        if acknowledging.failed:
            acknowledging.store()
            return ShareFetchResponse(error_code=Err.UNKNOWN_SERVER_ERROR)
    if len(parts) >= _PIECE:
        yield
    fetch = ShareFetch(ctx, request, session, member, acknowledging)
    yield from fetch.start()
    acknowledging.then(fetch.acknowledged)
    return None


def _session(
    ctx: RequestContext, request: ShareFetchRequest, key: SessionKey, parts: Mapping[TopicPartition, Sequence[object]]
) -> ShareSession | Err:
    """The session of a request, a new one where it asks for that. ``parts``: the requested partitions."""
    sessions, epoch = ctx.coordinators.shares.sessions(ctx.broker), request.share_session_epoch
    known = ctx.broker.state.topics_by_id
    if epoch == INITIAL_EPOCH:
        if any(part.acknowledgement_batches for topic in request.topics for part in topic.partitions):
            return Err.INVALID_REQUEST
        if len(parts) < sum(len(topic.partitions) for topic in request.topics):
            sessions.drop(key)
            return Err.UNKNOWN_SERVER_ERROR  # Kafka's collection of them takes none twice
        session = sessions.open(key, ctx.connection)
        if isinstance(session, ShareSession):
            session.update(parts, (), (at for at in parts if at.topic_id not in known))
            session.partitions = dict.fromkeys(session.partitions, True)
        return session
    session = sessions.resume(key, epoch)
    if isinstance(session, ShareSession) and epoch != FINAL_EPOCH:
        forgotten = [
            TopicPartition(topic.topic_id, index)
            for topic in request.forgotten_topics_data
            for index in topic.partitions
        ]
        session.update(parts, forgotten, (at for at in parts if at.topic_id not in known))
    return session


def _reads_any(ctx: RequestContext, request: ShareFetchRequest, session: ShareSession) -> bool:
    """Whether a request reads a partition that exists."""
    if request.share_session_epoch == FINAL_EPOCH or request.is_renew_ack:
        return False
    topics = ctx.broker.state.topics_by_id
    return any(
        at not in session.nameless and at.topic_id in topics and 0 <= at.partition < len(topics[at.topic_id].partitions)
        for at in session.partitions
    )


@dataclass(slots=True)
class _Got:
    """The records, acquired ranges and error of one partition; ``read``: bytes that were read of its log."""

    error: Err = Err.NONE
    records: bytes = b""
    acquired: list[Acquired] = field(default_factory=list)
    read: int = 0


_NOTHING = _Got()


class ShareFetch:
    """One fetch, from the first look at its partitions to its response. It looks before its acknowledgements are stored, as these take
    a way over the network in Kafka: what they release is acquired if the fetch waits. Partitions are loaded after the first look."""

    __slots__ = (
        "acknowledging",
        "ctx",
        "errors",
        "got",
        "is_acknowledged",
        "lives",
        "member",
        "over",
        "policy",
        "request",
        "session",
        "timer",
    )

    def __init__(
        self,
        ctx: RequestContext,
        request: ShareFetchRequest,
        session: ShareSession,
        member: str,
        acknowledging: Acknowledging,
    ) -> None:
        self.ctx, self.request, self.session, self.member = ctx, request, session, member
        self.acknowledging = acknowledging
        self.policy = ctx.coordinators.groups.settings.policy
        self.errors: dict[TopicPartition, _Got] = {}
        self.lives: list[tuple[TopicPartition, LivePartition]] = []
        self.got: dict[TopicPartition, _Got] | None = None
        self.is_acknowledged = self.over = False

    def start(self) -> Job:
        """Acquire records, or wait for them. A final request gets none, and the errors of partitions that don't exist end no wait."""
        request = self.request
        if request.share_session_epoch == FINAL_EPOCH or request.is_renew_ack:
            self.got = {}
            return
        existing = yield from self._existing()
        wants_nothing = request.max_records == 0 or request.max_bytes == 0
        if not existing or (wants_nothing and not self.policy.share_fetch_of_nothing_waits):
            self.got = self.errors
            return
        shares, broker, group_id = self.ctx.coordinators.shares, self.ctx.broker, self.session.key.group_id
        failed = 0
        for number, chunk in enumerate(chunked(existing, _PIECE)):
            if number:
                yield
            for at, live in zip(chunk, shares.all_of(broker, group_id, chunk), strict=True):
                if isinstance(live, LivePartition):
                    self.lives.append((at, live))
                else:
                    failed += 1
                    self.errors[at] = _Got(live)
        if failed == len(existing):
            self.got = self.errors
            return
        self.got = yield from self._acquiring(last=request.max_wait_ms <= 0)
        if self.got is None:
            yield from self._waiting()
        new = [live for _, live in self.lives if not live.is_loading]
        for number, lives in enumerate(chunked(new, _PIECE)):
            if number:
                yield
            for live in lives:
                shares.load(live)

    def _existing(self) -> Generator[None, None, list[TopicPartition]]:
        """The session's partitions that exist, each request beginning with another one. The others are in ``errors``."""
        session, topics = self.session, self.ctx.broker.state.topics_by_id
        listed: list[TopicPartition] = []
        for number, chunk in enumerate(chunked(session.partitions, _PIECE)):
            if number:
                yield
            for at in chunk:
                topic = topics.get(at.topic_id)
                if at in session.nameless:
                    self.errors[at] = _Got(Err.UNKNOWN_TOPIC_ID)
                elif topic is None or not 0 <= at.partition < len(topic.partitions):
                    self.errors[at] = _Got(Err.UNKNOWN_TOPIC_OR_PARTITION)
                else:
                    listed.append(at)
        if not listed:
            return listed
        turn = max(self.request.share_session_epoch, 0) % len(listed)
        return listed[turn:] + listed[:turn]

    def acknowledged(self) -> None:
        """The acknowledgements are answered: respond, unless the fetch still waits."""
        self.is_acknowledged = True
        if self.got is not None:
            self._reply(self.got)

    # acquiring

    def _acquire(self, *, expired: bool) -> dict[TopicPartition, _Got] | None:
        return at_once(self._acquiring(last=expired, expired=expired))

    def _acquiring(
        self, *, last: bool, expired: bool = False
    ) -> Generator[None, None, dict[TopicPartition, _Got] | None]:
        """Acquire records of the partitions, up to the limits. Returns None if they have fewer than min_bytes and no log fails, unless
        this is the ``last`` attempt. A partition that is being loaded, has reached its limit of records in flight, or is led by another
        broker by now, has no row. ``expired``: the time is up, and no log was examined now."""
        request, node_id = self.request, self.ctx.broker.node_id
        results: dict[TopicPartition, _Got] = {}
        ready: list[tuple[TopicPartition, LivePartition]] = []
        for number, chunk in enumerate(chunked(self.lives, _PIECE)):
            if number:
                yield
            for at, live in chunk:
                if live.error:
                    if live.share is None:
                        self.errors[at] = _Got(live.error)
                elif live.partition.read_error:
                    results[at] = _Got(live.partition.read_error)
                elif live.share is not None and live.is_led_by(node_id) and live.share.may_acquire:
                    ready.append((at, live))
        if ready and request.max_bytes <= 0:
            return {**self.errors, **dict.fromkeys((at for at, _ in ready), _Got(Err.UNKNOWN_SERVER_ERROR))}
        reads = (ready,) if expired else _known_and_unread(ready)
        if not results and (expired or not (ready and self._has_min_bytes(ready))):
            if not last:
                return None
            reads = (ready,)
        left, bytes_each = request.max_records, self._bytes_each(ready)
        for read in reads:
            bytes_left = request.max_bytes
            for at, live in read:
                got = _NOTHING
                if left > 0:
                    is_first = bytes_left == request.max_bytes
                    got = self._acquire_of(live, min(bytes_each, bytes_left), left, is_first=is_first)
                results[at] = got
                bytes_left = max(0, bytes_left - got.read)
                left -= sum(part.last - part.first + 1 for part in got.acquired)
        return {**self.errors, **results}

    def _bytes_each(self, ready: Sequence[object]) -> int:
        """The bytes that each partition may give (PartitionMaxBytesStrategy.UNIFORM)."""
        return max(1, self.request.max_bytes // max(1, len(ready)))

    def _has_min_bytes(self, ready: Sequence[tuple[TopicPartition, LivePartition]]) -> bool:
        """Whether the logs have min_bytes from the fetch offsets on, however few records are acquired. True also if a fetch offset is
        in an earlier segment than the end, or is not in the log; not if compaction has removed all records from there on
        (DelayedShareFetch.isMinBytesSatisfied, LocalLog.read)."""
        wanted, size = min(self.request.min_bytes, self.request.max_bytes), 0
        if wanted <= 0:
            return True
        bytes_each = self._bytes_each(ready)
        for _, live in ready:
            log, share = live.partition.log, live.share
            assert share is not None
            offset, end = share.fetch_offset(), _end(live)
            if not log.log_start_offset <= offset <= end:
                return True
            if offset < end:
                try:
                    found = 1 if wanted == 1 and is_in_active_segment(log, offset) else bytes_between(log, offset, end)
                except StorageError:
                    return True  # the read returns the error
                if found is None:
                    return True
                size += min(found, bytes_each)
                if size >= wanted:
                    return True
        return False

    def _read(self, live: LivePartition, offset: int, limit: int) -> tuple[bytes, list[Head]]:
        """The log's bytes from ``offset`` on, up to ``limit``, and the position and header of each batch. Headers of new records
        are parsed only until there are as many records as may be acquired; of records that are delivered again all are, as some may be
        another member's. (Kafka reads everything, without a copy.)"""
        partition, share = live.partition, live.share
        assert share is not None
        end, heads = _end(live), list[Head]()
        if offset >= end:
            return b"", heads
        is_new, enough = offset >= share.next_offset, offset + self.request.max_records - 1
        size = min(limit, _NEW_CHUNK if is_new else _CHUNK)
        while True:
            data = partition.log.read(offset, size, up_to_offset=end)
            heads.clear()
            last = offset
            for head in record_batch.batches(data):
                heads.append(head)
                last = head[1].last_offset
                if is_new and last >= enough:
                    return data, heads
            if size >= limit or last + 1 >= end or last >= enough:
                return data, heads
            size = min(limit, 4 * size)

    def _acquire_of(self, live: LivePartition, limit: int, left: int, *, is_first: bool) -> _Got:
        """Up to ``limit`` bytes; of the first partition of a read that has any, at least one batch (ReplicaManager.readFromLog)."""
        shares, share, request = self.ctx.coordinators.shares, live.share, self.request
        assert share is not None
        share.limits = shares.limits(live.key.group_id)
        offset = share.fetch_offset()
        try:
            data, heads = self._read(live, offset, limit)
        except OffsetOutOfRange:
            shares.write(live, share.starts_at(live.partition.log_start_offset))
            return _Got()
        except StorageError as problem:
            return _Got(problem.error)
        if not heads or (not is_first and heads[0][1].size > limit):
            return _Got()
        read = max(heads[0][1].size, min(limit, len(data)))
        first = heads[0][1].base_offset
        if offset < first and offset < share.next_offset:
            shares.write(live, share.without_records_below(first))
        acquired = shares.acquire(
            live,
            self.member,
            [(header.base_offset, header.last_offset) for _, header in heads],
            batch_size=request.batch_size,
            max_records=left,
            exactly=request.share_acquire_mode == _EXACTLY,
            request=self.ctx.request_id,
        )
        if live.read_committed and acquired:
            acquired = self._without_aborted(live, acquired, heads, offset, len(data))
        if not acquired:
            return _Got(read=read)
        first, last = acquired[0].first, acquired[-1].last
        begins = next(at for at, header in heads if header.last_offset >= first)
        ends = next(at + header.size for at, header in reversed(heads) if header.base_offset <= last)
        return _Got(Err.NONE, data[begins:ends], acquired, read)

    def _without_aborted(
        self,
        live: LivePartition,
        acquired: list[Acquired],
        heads: Sequence[Head],
        offset: int,
        size: int,
    ) -> list[Acquired]:
        """Remove the records of aborted transactions, which no member acquires."""
        aborted: dict[int, list[AbortedTransaction]] = {}
        for transaction in live.partition.log.aborted_within(offset, size):
            aborted.setdefault(transaction.producer_id, []).append(transaction)
        ranges = [
            (header.base_offset, header.last_offset)
            for _, header in heads
            if header.is_transactional
            and not header.is_control
            and _has_offset(aborted.get(header.producer_id, ()), header.base_offset)
        ]
        if not ranges:
            return acquired
        share = live.share
        assert share is not None
        self.ctx.coordinators.shares.write(live, share.archive(ranges))
        return [part for item in acquired for part in _outside(item, ranges)]

    # waiting

    def _waiting(self) -> Job:
        clock = self.ctx.broker.state.clock.wire  # a long poll runs in real time, also with a manual clock
        self.timer = clock.call_at_ms(clock.now_ms() + self.request.max_wait_ms, self._time_is_up)
        self.ctx.on_disconnect(self._stop)
        for number, chunk in enumerate(chunked(self.lives, _PIECE)):
            if number:
                yield
            if self.over:
                return
            for _, live in chunk:
                live.waiters[self._look] = None
                live.partition.add_waiter(self._look)
        if len(self.lives) > _PIECE:
            self._look()  # a partition may have changed before it was waited for

    def _look(self) -> None:
        """Something has changed: respond if that is enough."""
        got = None if self.over else self._acquire(expired=False)
        if got is not None:
            self._finish(got)

    def _time_is_up(self) -> None:
        self._finish(self._acquire(expired=True) or {})

    def _finish(self, got: dict[TopicPartition, _Got]) -> None:
        self._stop()
        self.got = got
        if self.is_acknowledged:
            self._reply(got)

    def _stop(self) -> None:
        self.over = True
        self.timer.cancel()
        for _, live in self.lives:
            live.waiters.pop(self._look, None)
            live.partition.remove_waiter(self._look)

    # responding

    def _reply(self, got: dict[TopicPartition, _Got]) -> None:
        if self.request.share_session_epoch == FINAL_EPOCH:
            self.ctx.coordinators.shares.end_session(self.ctx.broker, self.session)
        self.ctx.reply_made(self._response(got))

    def _response(self, got: dict[TopicPartition, _Got]) -> Generator[None, None, ShareFetchResponse]:
        """Partitions that were looked at, if the session needs them, which a new one does; and those with acknowledgements.
        Source: KafkaApis.processShareFetchResponse."""
        pace = Pace(_PIECE)
        session, known = self.session, self.ctx.broker.state.topics_by_id
        is_new = self.request.share_session_epoch == INITIAL_EPOCH
        topics: dict[bytes, ShareFetchableTopicResponse] = {}
        rows: dict[TopicPartition, PartitionData] = {}
        fails, any_misdirected = False, False
        for at, part in got.items():
            if pace.full():
                yield
            if not is_new and not session.responded(at, failed=part.error != 0, has_records=len(part.records) > 0):
                continue
            acquired = [AcquiredRecords(*run) for run in part.acquired]
            row = rows[at] = PartitionData(at.partition, part.error, records=part.records, acquired_records=acquired)
            _add_row(topics, at, row)
            fails = fails or at.topic_id not in known
            any_misdirected = any_misdirected or part.error in MISDIRECTED
        if fails and self.policy.unknown_topic_fails_share_fetch:
            return ShareFetchResponse(error_code=Err.UNKNOWN_SERVER_ERROR)
        for at, answer in self.acknowledging.answers.items():
            if pace.full():
                yield
            acknowledged = rows.get(at)
            if acknowledged is None:
                acknowledged = rows[at] = PartitionData(at.partition)
                _add_row(topics, at, acknowledged)
            acknowledged.acknowledge_error_code = answer.error
            if self.policy.share_fetch_returns_messages:
                acknowledged.acknowledge_error_message = answer.words
        nodes: list[Broker] = []
        if any_misdirected:
            misdirected = (at for at, row in rows.items() if row.error_code in MISDIRECTED)
            for number, chunk in enumerate(chunked(misdirected, _PIECE)):
                if number:
                    yield
                leaders, leading = current_leaders(self.ctx, chunk)
                nodes += [node for node in leading if node not in nodes]
                for at, leader in leaders.items():
                    rows[at].current_leader = LeaderIdAndEpoch(leader.leader, leader.leader_epoch)
        return ShareFetchResponse(
            acquisition_lock_timeout_ms=self.ctx.coordinators.shares.lock_ms(session.key.group_id),
            responses=list(topics.values()),
            node_endpoints=[NodeEndpoint(*node.endpoint(self.ctx.connection.listener)) for node in nodes],
        )


_Ready = list[tuple[TopicPartition, LivePartition]]


def _known_and_unread(ready: _Ready) -> tuple[_Ready, _Ready]:
    """Partitions whose log a fetch has looked at from the same fetch offset come before the others: Kafka knows their position, and
    reads them, by themselves, only when the fetch completes (DelayedShareFetch.combineLogReadResponse)."""
    known: list[tuple[TopicPartition, LivePartition]] = []
    unread: list[tuple[TopicPartition, LivePartition]] = []
    for at, live in ready:
        assert live.share is not None
        offset = live.share.fetch_offset()
        (known if live.looked_at == offset else unread).append((at, live))
        live.looked_at = offset
    return known, unread


def _add_row(topics: dict[bytes, ShareFetchableTopicResponse], at: TopicPartition, row: PartitionData) -> None:
    topic = topics.get(at.topic_id)
    if topic is None:
        topic = topics[at.topic_id] = ShareFetchableTopicResponse(at.topic_id)
    topic.partitions.append(row)


def _end(live: LivePartition) -> int:
    """Up to where the group reads, exclusive."""
    partition = live.partition
    return partition.last_stable_offset if live.read_committed else partition.high_watermark


def _has_offset(transactions: Sequence[AbortedTransaction], offset: int) -> bool:
    """Whether an offset is in one of a producer's transactions, which are in order."""
    at = bisect_right(transactions, offset, key=lambda one: one.first_offset) - 1
    return at >= 0 and offset <= transactions[at].last_offset


def _outside(acquired: Acquired, ranges: Sequence[tuple[int, int]]) -> list[Acquired]:
    """Parts of a range of acquired records that lie in none of ``ranges``, which are in order."""
    left: list[Acquired] = []
    begin = acquired.first
    for first, last in ranges:
        if last < begin or first > acquired.last:
            continue
        if first > begin:
            left.append(Acquired(begin, first - 1, acquired.deliveries))
        begin = last + 1
    if begin <= acquired.last:
        left.append(Acquired(begin, acquired.last, acquired.deliveries))
    return left
