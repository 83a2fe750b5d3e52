"""Fetch (1), versions 4-18: record batches as they lie in the log, now or once there are enough of them.

v4 isolation level, last stable offset, and the aborted transactions that a read_committed reader passes over. v5 log
start offset. v7 incremental sessions (KIP-227). v9 leader epochs (KIP-320). v11 any in-sync replica answers consumers
(KIP-392); one in the consumer's rack is named where a selector is configured. v12 diverging epochs. v13 topic ids. v15
the replica id in a struct of its own. v16 the new leader's address beside NOT_LEADER_OR_FOLLOWER (KIP-951). v18 the
follower's high watermark.

A fetch is answered at once with min_bytes, an error or max_wait_ms 0; else it is pending: its partitions call it when
something has changed, one timer ends it, and in between nothing runs.
Source: KafkaApis.handleFetchRequest, ReplicaManager.fetchMessages, DelayedFetch, FetchSession.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import cast

from broker_sim.common.slices import Pace, at_once
from broker_sim.handlers.fetch_session import FINAL_EPOCH, INITIAL_EPOCH, FetchSessions, Key, Session
from broker_sim.metadata.cluster_state import Broker, ClusterState, Partition
from broker_sim.metadata.topics import NO_EPOCH, access_error
from broker_sim.requests.context import InterceptedContext, RequestContext
from broker_sim.requests.traits import ErrorRequest, ErrorTraits, SessionPartitions
from broker_sim.storage import StorageError
from kafka_wire.errors import Err
from kafka_wire.messages.k01_fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from kafka_wire.schema import ZERO_UUID

READ_UNCOMMITTED, READ_COMMITTED = 0, 1
_FUTURE_LOCAL_REPLICA = -3
"""Reads to the log's end, whatever the isolation level (FetchRequest.FUTURE_LOCAL_REPLICA_ID, FetchIsolation.of); of the other negative
ids each is a consumer's."""

_MISSING: dict[int, int] = {Err.UNKNOWN_TOPIC_ID: 1, Err.UNKNOWN_TOPIC_OR_PARTITION: 2}
"""Errors of partitions that did not exist when the fetch came; they come last, in this order."""

Requested = tuple[Key, FetchPartition]

_PIECE = 1000
"""Partitions that are read before others are served, when the request comes; when something has changed, all are read at once."""


def handle(ctx: RequestContext, request: FetchRequest) -> FetchResponse | None:
    response: FetchResponse | None = ctx.in_pieces(_fetch(ctx, request))
    return response


def _fetch(ctx: RequestContext, request: FetchRequest) -> Generator[None, None, FetchResponse | None]:
    by_id = ctx.api_version >= 13
    fetched = {
        (topic.topic, topic.topic_id, part.partition): part for topic in request.topics for part in topic.partitions
    }
    requested = list(fetched.items())
    if ctx.broker.state.config.release >= (3, 8) and not 0 <= _shard(request.session_id) < _SHARDS:
        return _refused(ctx, request)  # Kafka looks for that shard of its cache, and falls over it
    session: Session | None = None
    if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
        if request.session_id:
            sessions_of(ctx.broker).remove(request.session_id)
        if by_id and (
            (request.session_epoch == INITIAL_EPOCH and _nameless(ctx, request)) or not _nameless_last(ctx, requested)
        ):
            return _refused(ctx, request)
        incremental = False
    else:
        resumed = _resume(ctx, request, requested, by_id)
        if resumed is None:
            return _refused(ctx, request)
        if isinstance(resumed, Err):
            return FetchResponse(0, resumed, 0, [])
        session, requested = resumed
        if by_id and not _nameless_last(ctx, requested):
            return _refused(ctx, request)
        incremental = session is not None
    if request.isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED) and _any_is_there(ctx, requested):
        return _refused(ctx, request)
    return (yield from Fetch(ctx, request, requested, session, incremental).start())


_SHARDS = 8
"""Number of shards of the cache of sessions since 3.8 (FetchSessionCache, BrokerServer.NumFetchSessionCacheShards)."""


def _shard(session_id: int) -> int:
    """The index of a session's shard: Java's division cuts off towards 0, so that ids a little below 0 are in the first one."""
    return int(session_id / ((2**31 - 1) // _SHARDS))


def sessions_of(broker: Broker) -> FetchSessions:
    """The broker's sessions, made at the first call."""
    if broker.fetch_sessions is None:
        state = broker.state
        broker.fetch_sessions = FetchSessions(state.config.int("max.incremental.fetch.session.cache.slots"), state.rng)
    sessions: FetchSessions = broker.fetch_sessions
    return sessions


def _resume(
    ctx: RequestContext, request: FetchRequest, requested: list[Requested], by_id: bool
) -> tuple[Session | None, list[Requested]] | Err | None:
    """The session that the request continues, and all partitions that it fetches; a session without partitions ends. None: Kafka fails
    with an exception."""
    sessions = sessions_of(ctx.broker)
    session = sessions.resume(request.session_id, request.session_epoch, by_id, ctx.broker.state.clock.now_ms())
    if isinstance(session, Err):
        return session
    if by_id and _nameless(ctx, request):
        session.epoch = request.session_epoch
        return None
    forgotten = [
        (topic.topic, topic.topic_id, partition)
        for topic in request.forgotten_topics_data
        for partition in topic.partitions
    ]
    session.update(requested, forgotten)
    if not session.partitions:
        sessions.remove(session.session_id)
        return None, []
    return session, [(key, cached.requested) for key, cached in session.partitions.items()]


def _nameless(ctx: RequestContext, request: FetchRequest) -> bool:
    """Whether a topic has neither name nor id: Kafka falls over one that a session is to keep."""
    if ctx.broker.state.config.release >= (4, 2):  # which looks at it as at any id that it does not know
        return False
    return any(not topic.topic and topic.topic_id == ZERO_UUID and topic.partitions for topic in request.topics)


def _nameless_last(ctx: RequestContext, requested: list[Requested]) -> bool:
    """Whether no partition follows one without a topic name in the response: Kafka compares the topic of the next partition with
    it by name, and throws.
    """
    if all(topic_id != ZERO_UUID for (_, topic_id, _), _ in requested):
        return True
    located = [(key, _find(ctx.broker.state, key, True)) for key, _ in requested]
    absent = [key for error in _MISSING for key, what in located if what is error]
    return all(topic_id != ZERO_UUID for _, topic_id, _ in absent[:-1])


def _any_is_there(ctx: RequestContext, requested: list[Requested]) -> bool:
    """Whether any partition is readable; otherwise Kafka does not check the isolation level."""
    return any(not isinstance(_find(ctx.broker.state, key, ctx.api_version >= 13), Err) for key, _ in requested)


def _refused(ctx: RequestContext, request: FetchRequest) -> FetchResponse:
    """The response to a request that makes Kafka's broker throw: from v13 on only a top-level error."""
    error = Err.UNKNOWN_SERVER_ERROR
    records = b"" if ctx.broker.state.config.release >= (4, 0) else None
    topics = [
        FetchableTopicResponse(
            topic.topic,
            topic.topic_id,
            [PartitionData(part.partition, error, -1, -1, -1, records=records) for part in topic.partitions],
        )
        for topic in request.topics
    ]
    return FetchResponse(0, error, request.session_id, topics if ctx.api_version < 13 else [])


def _find(state: ClusterState, key: Key, by_id: bool) -> Partition | Err:
    name, topic_id, index = key
    if by_id:
        topic = state.topics_by_id.get(topic_id)
        if topic is None:
            return Err.UNKNOWN_TOPIC_ID
    else:
        topic = state.topics.get(name)
    if topic is None or not 0 <= index < len(topic.partitions):
        return Err.UNKNOWN_TOPIC_OR_PARTITION
    return topic.partitions[index]


class Fetch:
    """One fetch, from its reading to its answer."""

    __slots__ = (
        "absent",
        "ctx",
        "incremental",
        "known",
        "min_bytes",
        "read_bytes",
        "read_events",
        "request",
        "requested",
        "session",
        "timer",
        "waiting_bytes",
        "waiting_events",
        "waiting_partitions",
    )

    def __init__(
        self,
        ctx: RequestContext,
        request: FetchRequest,
        requested: list[Requested],
        session: Session | None,
        incremental: bool,
    ) -> None:
        self.ctx = ctx
        self.request = request
        self.requested = requested
        self.session = session
        self.incremental = incremental
        self.known: list[Partition] = []
        self.absent: dict[Key, int] = {}

    def start(self) -> Generator[None, None, FetchResponse | None]:
        """The response where it is due at once; else the fetch is pending."""
        request = self.request
        self.min_bytes = min(request.min_bytes, self._max_bytes())
        answers, size, due = yield from self._reading()
        if due:
            rows = zip(self.requested, answers, strict=True)
            self.absent = {key: _MISSING[row.error_code] for (key, _), row in rows if row.error_code in _MISSING}
        if due or request.max_wait_ms <= 0 or size >= self.min_bytes or not answers:
            return self._response(answers)
        state = self.ctx.broker.state
        clock = state.clock.wire  # a long poll runs in real time, also with a manual clock
        early = state.buggify is not None and state.buggify.fires("answers a Fetch early")
        self.waiting_bytes = self.read_bytes - size
        self.waiting_events = self.read_events
        self.timer = clock.call_at_ms(clock.now_ms() + (1 if early else request.max_wait_ms), self._answer)
        self.waiting_partitions = self.known
        for partition in self.waiting_partitions:
            partition.add_waiter(self._look)
        self.ctx.on_disconnect(self._stop)
        if len(self.requested) >= _PIECE:
            self._look()  # something may have come behind the reading
        return None

    def _max_bytes(self) -> int:
        return min(self.request.max_bytes, self.ctx.broker.state.config.int("fetch.max.bytes"))

    # -------------------------------------------------------------------------------------------- reading

    def _read(self) -> tuple[list[PartitionData], int, bool]:
        return at_once(self._reading())

    def _reading(self) -> Generator[None, None, tuple[list[PartitionData], int, bool]]:
        """Read every partition within the limits. Returns the rows, the bytes of all, and whether the request must be answered now."""
        state, version = self.ctx.broker.state, self.ctx.api_version
        left = self._max_bytes()
        if state.buggify is not None and state.buggify.fires("reads one batch"):
            left = 1
        first = True  # the first batch of all comes whole, whatever its size
        size = 0
        due = False
        answers: list[PartitionData] = []
        known: list[Partition] = []
        self.read_bytes = self.read_events = 0
        tapped = self.ctx if isinstance(self.ctx, InterceptedContext) else None
        reader_host = "" if tapped is None else tapped.client_host
        pace = Pace(_PIECE)
        for key, requested in self.requested:
            if pace.full():
                yield
            located = _find(state, key, version >= 13)
            if isinstance(located, Err):
                answers.append(_failed(requested.partition, located))
                due = True
                continue
            known.append(located)
            self.read_bytes += located.appended_bytes
            self.read_events += located.events
            answer = self._read_one(located, requested, min(left, requested.partition_max_bytes), first, version)
            if answer.error_code or answer.diverging_epoch.end_offset >= 0 or answer.preferred_read_replica >= 0:
                due = True
            elif answer.records:
                size += len(answer.records)
                first = False
            left = max(0, left - len(answer.records or b""))
            answers.append(answer)
            if tapped is not None and not answer.error_code:
                located.read_by(tapped.client_id, reader_host, tapped.request_id)
        self.known = known
        return answers, size, due

    def _read_one(
        self, partition: Partition, requested: FetchPartition, limit: int, first: bool, version: int
    ) -> PartitionData:
        # in the order of Partition.fetchRecords and readRecords: leader epoch, diverging epoch, offset range, records
        broker, request = self.ctx.broker, self.request
        epoch = max(requested.current_leader_epoch, NO_EPOCH)
        error = access_error(partition, broker.node_id, epoch, version >= 11)
        if request.replica_id >= 0 or request.replica_state.replica_id >= 0:
            error = Err.NOT_LEADER_OR_FOLLOWER  # all brokers share the log: there are no followers
        if error:
            answer = _unread(requested.partition, error)
            if version >= 16 and error in (Err.NOT_LEADER_OR_FOLLOWER, Err.FENCED_LEADER_EPOCH):
                answer.current_leader = LeaderIdAndEpoch(partition.leader, partition.leader_epoch)
            return answer
        if request.rack_id:
            preferred = _preferred_replica(broker, partition, request.rack_id, requested.fetch_offset)
            if preferred >= 0:
                return _elsewhere(partition, requested.partition, preferred)
        if requested.last_fetched_epoch >= 0:
            diverging = _diverging(partition, requested)
            if diverging is not None:
                return diverging
        log, offset = partition.log, requested.fetch_offset
        if not log.log_start_offset <= offset <= log.log_end_offset:
            return _unread(requested.partition, Err.OFFSET_OUT_OF_RANGE)
        high_watermark = stable = partition.high_watermark
        if log.producers.open or log.ended.uncommitted:  # as the property asks, which is not called for nothing
            stable = partition.last_stable_offset
        future = _FUTURE_LOCAL_REPLICA in (request.replica_id, request.replica_state.replica_id)
        committed = request.isolation_level == READ_COMMITTED and not future
        end = log.log_end_offset if future else stable if committed else high_watermark
        aborted: list[AbortedTransaction] | None = [] if committed else None
        records = b""
        if offset < end:
            if limit < 0:
                return _unread(requested.partition, Err.UNKNOWN_SERVER_ERROR)
            try:
                # who watches or breaks replies sees them whole; else they stay in the log until the client takes them
                read = log.read if isinstance(self.ctx, InterceptedContext) else log.read_slice
                records = cast(bytes, read(offset, limit, up_to_offset=end, min_one_batch=first))
                if committed and log.ended.aborted:
                    within = log.aborted_within(offset, len(records))
                    aborted = [
                        AbortedTransaction(transaction.producer_id, transaction.first_offset) for transaction in within
                    ]
            except StorageError as problem:
                return _unread(requested.partition, problem.error)
        return PartitionData(
            requested.partition,
            0,
            high_watermark,
            stable,
            log.log_start_offset,
            aborted_transactions=aborted,
            records=records,
        )

    # -------------------------------------------------------------------------------------------- waiting

    def _look(self) -> None:
        """Something has changed: answer if that is enough. The logs are read again only if it may be."""
        if self._appended() - self.waiting_bytes < self.min_bytes and self._events() == self.waiting_events:
            return
        answers, size, due = self._read()
        if due or size >= self.min_bytes:
            self._finish(answers)

    def _appended(self) -> int:
        return sum([partition.appended_bytes for partition in self.known])

    def _events(self) -> int:
        return sum([partition.events for partition in self.known])

    def _answer(self) -> None:
        """Answer with the present records, at the end of max_wait_ms."""
        self._finish(self._read()[0])

    def _finish(self, answers: list[PartitionData]) -> None:
        self._stop()
        self.ctx.reply(self._response(answers))

    def _stop(self) -> None:
        self.timer.cancel()
        for partition in self.waiting_partitions:  # also deleted ones: each of them calls its waiters
            partition.remove_waiter(self._look)

    # -------------------------------------------------------------------------------------------- answering

    def _response(self, answers: Iterable[PartitionData]) -> FetchResponse:
        """The answers by topic, those without news left out of an incremental one; a new session where one was asked
        for.
        """
        request, session = self.request, self.session
        topics: list[FetchableTopicResponse] = []
        session_id = 0
        rows = [(key, answer) for (key, _), answer in zip(self.requested, answers, strict=True)]
        if self.absent:
            rows.sort(key=lambda row: self.absent.get(row[0], 0))
        if session is not None:
            session_id = session.session_id
            rows = _news(session, rows)
        elif request.session_epoch == INITIAL_EPOCH and self.ctx.api_version >= 7:
            session_id = self._new_session(rows)
        name, topic_id = "", ZERO_UUID
        for key, answer in rows:
            if not topics or key[0] != name or key[1] != topic_id:
                name, topic_id, _ = key
                topics.append(FetchableTopicResponse(name, topic_id, []))
            topics[-1].partitions.append(answer)
        response = FetchResponse(0, Err.NONE, session_id, topics)
        if self.ctx.api_version >= 16:
            response.node_endpoints = self._endpoints(rows)
        return response

    def _new_session(self, rows: list[tuple[Key, PartitionData]]) -> int:
        broker = self.ctx.broker
        session = sessions_of(broker).create(self.requested, self.ctx.api_version >= 13, broker.state.clock.now_ms())
        if session is None:
            return 0
        for key, answer in rows:
            session.partitions[key].has_news(answer)
        return session.session_id

    def _endpoints(self, rows: list[tuple[Key, PartitionData]]) -> list[NodeEndpoint]:
        brokers, listener = self.ctx.broker.state.brokers, self.ctx.connection.listener
        leaders = dict.fromkeys(answer.current_leader.leader_id for _, answer in rows)
        nodes = (brokers.get(node) for node in leaders if node >= 0)
        return [NodeEndpoint(*node.endpoint(listener)) for node in nodes if node is not None]


def _news(session: Session, rows: list[tuple[Key, PartitionData]]) -> list[tuple[Key, PartitionData]]:
    changed: list[tuple[Key, PartitionData]] = []
    for key, answer in rows:
        cached = session.partitions.get(key)
        if cached is not None and cached.has_news(answer):
            changed.append((key, answer))
            if answer.records:
                session.to_end(key)
    return changed


def _diverging(partition: Partition, requested: FetchPartition) -> PartitionData | None:
    """The response for a reader whose log diverges from this one (KIP-595), as it has records of an epoch that ends earlier here; None
    if it does not."""
    epoch, end = partition.log.end_offset_for_epoch(requested.last_fetched_epoch)
    if end < 0:
        return _unread(requested.partition, Err.OFFSET_OUT_OF_RANGE)
    if epoch >= requested.last_fetched_epoch and end >= requested.fetch_offset:
        return None
    return PartitionData(
        requested.partition,
        0,
        partition.high_watermark,
        partition.last_stable_offset,
        partition.log_start_offset,
        EpochEndOffset(epoch, end),
        aborted_transactions=None,
        records=b"",
    )


def _preferred_replica(broker: Broker, partition: Partition, rack: str, offset: int) -> int:
    """The node id of an in-sync replica in the consumer's rack, from which it is to read (KIP-392); -1 if that is the leader, if this
    broker is not the leader, or if no selector is configured. Source: ReplicaManager.findPreferredReadReplica,
    RackAwareReplicaSelector."""
    state = broker.state
    if not rack or partition.leader != broker.node_id or not state.config["replica.selector.class"]:
        return -1
    if not partition.log.log_start_offset <= offset <= partition.log.log_end_offset:
        return -1  # no replica has it, as they share the log: the leader reports it
    nodes = [state.brokers[node] for node in partition.isr if node in state.brokers]
    near = [node.node_id for node in nodes if node.rack == rack and node.alive]
    if not near or partition.leader in near:
        return -1
    return max(near)  # all are caught up alike; then Kafka takes the highest id


def _elsewhere(partition: Partition, index: int, node_id: int) -> PartitionData:
    """Nothing but the replica from which to read (ReplicaManager.read skips the log)."""
    return PartitionData(
        index,
        0,
        partition.high_watermark,
        partition.last_stable_offset,
        partition.log_start_offset,
        aborted_transactions=None,
        preferred_read_replica=node_id,
        records=b"",
    )


def _failed(index: int, error: Err) -> PartitionData:
    """A partition that is not there."""
    return PartitionData(index, error, -1, -1, -1, records=b"")


def _unread(index: int, error: Err) -> PartitionData:
    """A partition that is there and can't be read so: as Kafka's, without a list of aborted transactions."""
    return PartitionData(index, error, -1, -1, -1, aborted_transactions=None, records=b"")


# --- on purpose --------------------------------------------------------------------------------------------------------

AT_PARTITIONS = frozenset(
    {
        Err.OFFSET_OUT_OF_RANGE,
        Err.CORRUPT_MESSAGE,
        Err.UNKNOWN_TOPIC_OR_PARTITION,
        Err.LEADER_NOT_AVAILABLE,
        Err.NOT_LEADER_OR_FOLLOWER,
        Err.REPLICA_NOT_AVAILABLE,
        Err.TOPIC_AUTHORIZATION_FAILED,
        Err.KAFKA_STORAGE_ERROR,
        Err.FENCED_LEADER_EPOCH,
        Err.UNKNOWN_LEADER_EPOCH,
        Err.UNSUPPORTED_COMPRESSION_TYPE,
        Err.OFFSET_NOT_AVAILABLE,
        Err.UNKNOWN_TOPIC_ID,
        Err.INCONSISTENT_TOPIC_ID,
    }
)
"""Errors that a Fetch meets at a partition; all others end the whole fetch."""


def _failure(error_request: ErrorRequest) -> FetchResponse:
    """A top-level error makes a client retry the same request. Errors of partitions (another leader, an offset out of range) are
    therefore returned as brokers return them: for each partition of the request and of its session, which ends (id 0)."""
    request: FetchRequest = error_request.request
    at_partitions = error_request.err in AT_PARTITIONS
    requested = [(topic.topic, topic.topic_id, part.partition) for topic in request.topics for part in topic.partitions]
    if at_partitions:
        requested = list(dict.fromkeys([*requested, *error_request.session_partitions]))
    topics: dict[tuple[str, bytes], list[PartitionData]] = {}
    if at_partitions or error_request.version < 13:
        for name, topic_id, index in requested:
            offsets = (
                error_request.healthy_row(name, topic_id, index)
                if error_request.healthy_row is not None and at_partitions
                else None
            )
            if offsets is None:
                row = PartitionData(index, error_request.err, high_watermark=-1)
            else:
                log_start, high_watermark = offsets
                row = PartitionData(index, Err.NONE, high_watermark, high_watermark, log_start)
            topics.setdefault((name, topic_id), []).append(row)
    return FetchResponse(
        error_code=Err.NONE if at_partitions else error_request.err,
        session_id=0 if at_partitions else request.session_id,
        responses=[FetchableTopicResponse(name, topic_id, rows) for (name, topic_id), rows in topics.items()],
    )


def _session_partitions(broker: Broker, request: FetchRequest) -> SessionPartitions:
    """The partitions in the session of an incremental fetch (KIP-227)."""
    if not request.session_id or request.session_epoch <= INITIAL_EPOCH:
        return ()
    sessions = (session for session in sessions_of(broker) if session.session_id == request.session_id)
    return next((list(session.partitions) for session in sessions), ())


TRAITS = ErrorTraits(failed=_failure, session_partitions=_session_partitions)
