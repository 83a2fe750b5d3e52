"""ShareFetch (78, KIP-932), versions 1 and 2: processes the member's acknowledgements, then acquires records for it.

A fetch is answered at once with min_bytes, an error or max_wait_ms 0; else it is pending: its partitions call it when records were
appended or released, and one timer ends it. The partitions of a session take turns in being the first. v2 may renew locks (KIP-1222),
which fetches nothing, and may limit the number of records strictly (KIP-1206).

Source: KafkaApis.handleShareFetchRequest, SharePartitionManager, DelayedShareFetch, ShareFetchUtils (4.x).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from broker_sim.common.slices import Job, Pace, at_once, chunked, distinct, ended
from broker_sim.coordinator.share_partition.partition import Acquired
from broker_sim.coordinator.share_partition.sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    SessionKey,
    ShareSession,
    TopicPartition,
)
from broker_sim.handlers.context import RequestContext
from broker_sim.handlers.share_acknowledging import Acknowledging, member_of
from broker_sim.handlers.share_groups import are_off, current_leaders
from broker_sim.metadata.cluster_state import Broker, Partition
from broker_sim.runtime.share_partitions import LivePartition
from broker_sim.storage import StorageError
from broker_sim.storage.errors import OffsetOutOfRange
from broker_sim.storage.positions import bytes_between, is_in_active_segment
from broker_sim.storage.transactions import AbortedTransaction
from kafka_wire import record_batch
from kafka_wire.errors import Err
from kafka_wire.messages.k78_share_fetch import (
    AcknowledgementBatch,
    AcquiredRecords,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)

_EXACTLY = 1
"""The acquire mode in which a fetch gets no more records than it asks for."""

Part = tuple[TopicPartition, Sequence[AcknowledgementBatch]]
"""A requested partition, and what is acknowledged of it."""

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
    parts: list[Part] = []
    pace = Pace(_PIECE)
    for topic in request.topics:
        for part in topic.partitions:
            if pace.full():
                yield
            parts.append((TopicPartition(topic.topic_id, part.partition_index), part.acknowledgement_batches))
    requested = yield from distinct(at for at, _ in parts)
    if len(requested) >= _PIECE:
        yield
    session = _session(ctx, request, SessionKey(group_id, member), parts, requested)
    if not isinstance(session, ShareSession):
        return ShareFetchResponse(error_code=session)
    shares = ctx.broker.shares
    acknowledging = Acknowledging(ctx, group_id, member, renews=request.is_renew_ack and shares.renews(group_id))
    for at, batches in parts:
        if batches:
            yield from acknowledging.add(at, batches)
    if len(requested) >= _PIECE:
        yield
    fetch = ShareFetch(ctx, request, session, member, acknowledging)
    acknowledging.then(fetch.start)
    return None


def _session(
    ctx: RequestContext,
    request: ShareFetchRequest,
    key: SessionKey,
    parts: Sequence[Part],
    requested: Mapping[TopicPartition, None],
) -> ShareSession | Err:
    """The session of a request, a new one where it asks for that. ``requested``: each of the partitions once."""
    sessions, epoch = ctx.broker.shares.sessions(ctx.broker), request.share_session_epoch
    if epoch == INITIAL_EPOCH:
        if any(batches for _, batches in parts):
            return Err.INVALID_REQUEST
        session = sessions.open(key, ctx.connection)
        if isinstance(session, ShareSession):
            session.update(requested, ())
            if any(topic.topic_id not in ctx.broker.state.topics_by_id for topic in request.topics if topic.partitions):
                return Err.UNKNOWN_SERVER_ERROR  # Kafka falls over a topic without a name
        return session
    session = sessions.resume(key, epoch)
    if isinstance(session, ShareSession) and epoch != FINAL_EPOCH:
        forgotten = [
            TopicPartition(topic.topic_id, index)
            for topic in request.forgotten_topics_data
            for index in topic.partitions
        ]
        session.update(requested, forgotten)
    return session


@dataclass(slots=True)
class _Got:
    """The records, acquired ranges and error of one partition."""

    error: Err = Err.NONE
    records: bytes = b""
    acquired: list[Acquired] = field(default_factory=list)


_NOTHING = _Got()


class ShareFetch:
    """One fetch, from its acknowledgements to its answer."""

    __slots__ = ("acknowledging", "ctx", "member", "over", "request", "requested", "session", "timer", "waiting")

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
        self.waiting: list[tuple[LivePartition, Partition]] = []
        self.over = False
        self.requested = self._in_turn()

    def _in_turn(self) -> list[TopicPartition]:
        """The session's partitions, each request beginning with another."""
        listed = list(self.session.partitions)
        if not listed:
            return listed
        turn = max(self.request.share_session_epoch, 0) % len(listed)
        return listed[turn:] + listed[:turn]

    def start(self) -> None:
        """The acknowledgements are answered: acquire records and answer, or wait."""
        request = self.request
        if request.share_session_epoch == FINAL_EPOCH:
            self.ctx.broker.shares.end_session(self.ctx.broker, self.session)
            self._reply(dict.fromkeys(self.requested, _NOTHING))
            return
        if request.is_renew_ack or request.max_records <= 0 or request.max_bytes <= 0:
            self._reply({})
            return
        job = self._starting()
        if not ended(job):
            self.ctx.broker.state.slices.add(job, ended)

    def _starting(self) -> Job:
        request = self.request
        got = yield from self._acquiring(last=request.max_wait_ms <= 0)
        if got is not None:
            self._reply(got)
            return
        clock = self.ctx.broker.state.clock.wire  # a long poll runs in real time, also with a manual clock
        self.timer = clock.call_at_ms(clock.now_ms() + request.max_wait_ms, self._time_is_up)
        self.ctx.on_disconnect(self._stop)
        for number, chunk in enumerate(chunked(self.requested, _PIECE)):
            if number:
                yield
            if self.over:
                return
            self._wait(chunk)
        if len(self.requested) > _PIECE:
            self._look()  # a partition may have changed before it was waited for

    # acquiring

    def _acquire(self, *, last: bool) -> dict[TopicPartition, _Got] | None:
        return at_once(self._acquiring(last=last))

    def _acquiring(self, *, last: bool) -> Generator[None, None, dict[TopicPartition, _Got] | None]:
        """What the partitions give; None if they have fewer than min_bytes and no error, and this isn't the ``last`` look."""
        shares, broker, request = self.ctx.broker.shares, self.ctx.broker, self.request
        results: dict[TopicPartition, _Got] = {}
        ready: list[tuple[TopicPartition, LivePartition]] = []
        failed: dict[Err, _Got] = {}
        for number, chunk in enumerate(chunked(self.requested, _PIECE)):
            if number:
                yield
            for at, live in zip(chunk, shares.all_of(broker, self.session.key.group_id, chunk), strict=True):
                error = live.error if isinstance(live, LivePartition) else live
                if error:
                    results[at] = failed.setdefault(error, _Got(error))
                elif isinstance(live, LivePartition) and live.share is not None and live.share.may_acquire:
                    ready.append((at, live))
        if not last and not results and not (ready and self._has_min_bytes(ready)):
            return None
        left = request.max_records
        bytes_each = self._bytes_each(ready)
        for at, live in ready:
            if left <= 0:
                break
            got = self._acquire_of(live, bytes_each, left)
            if got.acquired or got.error:
                results[at] = got
                for part in got.acquired:
                    left -= part.last - part.first + 1
        return results

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

    def _acquire_of(self, live: LivePartition, limit: int, left: int) -> _Got:
        shares, share, request = self.ctx.broker.shares, live.share, self.request
        assert share is not None
        share.limits = shares.limits(live.key.group_id)
        offset = share.fetch_offset()
        try:
            data, heads = self._read(live, offset, limit)
        except OffsetOutOfRange:
            shares.write(live, share.without_records_below(live.partition.log_start_offset))
            return _Got()
        except StorageError as problem:
            return _Got(problem.error)
        if not heads:
            return _Got()
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
            request=getattr(self.ctx, "request_id", 0),
        )
        if live.read_committed and acquired:
            acquired = self._without_aborted(live, acquired, heads, offset, len(data))
        if not acquired:
            return _Got()
        first, last = acquired[0].first, acquired[-1].last
        begins = next(at for at, header in heads if header.last_offset >= first)
        ends = next(at + header.size for at, header in reversed(heads) if header.base_offset <= last)
        return _Got(Err.NONE, data[begins:ends], acquired)

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
        self.ctx.broker.shares.write(live, share.archive(ranges))
        return [part for item in acquired for part in _outside(item, ranges)]

    # waiting

    def _wait(self, partitions: Sequence[TopicPartition]) -> None:
        for at in partitions:
            live = self.ctx.broker.shares.of(self.ctx.broker, self.session.key.group_id, at)
            if isinstance(live, LivePartition):
                live.waiters[self._look] = None
                live.partition.add_waiter(self._look)
                self.waiting.append((live, live.partition))

    def _look(self) -> None:
        """Something has changed: answer if that is enough."""
        got = self._acquire(last=False)
        if got is not None:
            self._finish(got)
        elif any(live.error is not Err.NONE for live, _ in self.waiting):
            self._stop_waiting()
            self._wait(self.requested)  # it was dropped and loaded again

    def _time_is_up(self) -> None:
        self._finish(self._acquire(last=True) or {})

    def _finish(self, got: dict[TopicPartition, _Got]) -> None:
        self._stop()
        self._reply(got)

    def _stop_waiting(self) -> None:
        waiting, self.waiting = self.waiting, []
        for live, partition in waiting:
            live.waiters.pop(self._look, None)
            partition.remove_waiter(self._look)

    def _stop(self) -> None:
        self.over = True
        self.timer.cancel()
        self._stop_waiting()

    # answering

    def _reply(self, got: dict[TopicPartition, _Got]) -> None:
        self.ctx.reply_made(self._response(got))

    def _response(self, got: dict[TopicPartition, _Got]) -> Generator[None, None, ShareFetchResponse]:
        """Partitions with records or errors, those of which something was acknowledged, and those that were in no answer yet."""
        pace = Pace(_PIECE)
        session, answers = self.session, self.acknowledging.answers
        asked, any_error = session.partitions, False
        topics: dict[bytes, ShareFetchableTopicResponse] = {}
        rows: dict[TopicPartition, PartitionData] = {}
        for at in chain(self.requested, (at for at in answers if at not in asked)):
            if pace.full():
                yield
            if asked.get(at) and at not in got and at not in answers:
                continue
            part, answer = got.get(at, _NOTHING), answers.get(at)
            if at in asked:
                asked[at] = True
            acquired = [AcquiredRecords(*run) for run in part.acquired]
            row = rows[at] = PartitionData(at.partition, part.error, records=part.records, acquired_records=acquired)
            if answer is not None:
                row.acknowledge_error_code, row.acknowledge_error_message = answer.error, answer.words
            if part.error:
                any_error = True
            topic = topics.get(at.topic_id)
            if topic is None:
                topic = topics[at.topic_id] = ShareFetchableTopicResponse(at.topic_id)
            topic.partitions.append(row)
        nodes: list[Broker] = []
        if any_error:
            for number, chunk in enumerate(chunked((at for at, row in rows.items() if row.error_code), _PIECE)):
                if number:
                    yield
                leaders, leading = current_leaders(self.ctx, chunk)
                nodes += [node for node in leading if node not in nodes]
                for at, leader in leaders.items():
                    rows[at].current_leader = LeaderIdAndEpoch(leader.leader, leader.leader_epoch)
        return ShareFetchResponse(
            acquisition_lock_timeout_ms=self.ctx.broker.shares.lock_ms(session.key.group_id),
            responses=list(topics.values()),
            node_endpoints=[NodeEndpoint(*node.endpoint(self.ctx.connection.listener)) for node in nodes],
        )


def _end(live: LivePartition) -> int:
    """Up to where the group reads, exclusive."""
    partition = live.partition
    return partition.last_stable_offset if live.read_committed else partition.high_watermark


def _has_offset(transactions: Sequence[AbortedTransaction], offset: int) -> bool:
    """Whether an offset is in one of a producer's transactions, which are in order."""
    at = bisect_right(transactions, offset, key=lambda one: one.first_offset) - 1
    return at >= 0 and offset <= transactions[at].last_offset


def _outside(acquired: Acquired, ranges: Sequence[tuple[int, int]]) -> list[Acquired]:
    """What of acquired records lies in none of the ranges, which are in order."""
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
