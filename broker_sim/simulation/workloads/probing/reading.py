"""A prober of records that reads: Fetch, with and without sessions, ListOffsets, OffsetForLeaderEpoch, DeleteRecords."""

from __future__ import annotations

from typing import Any

from broker_sim.simulation.checks.log_model import Head, LogModel, SentRecord
from broker_sim.simulation.workloads.probing.logs import LogProber, OwnTopic
from broker_sim.simulation.workloads.probing.prober import standing
from kafka_wire.errors import Err
from kafka_wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from kafka_wire.messages.k02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafka_wire.messages.k21_delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kafka_wire.messages.k23_offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kafka_wire.record_batch import CorruptRecord, batches, check_crc, records

__all__ = ["INITIAL_DELAY", "INITIAL_DELAY_MS", "INITIAL_DELAY_SINCE", "ReadingProber"]

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
_TELLS_EPOCHS = 12
"""From that version on a Fetch says which epoch's record it read last."""
_TAKEN_LATE_MS = 4000
"""Records that are past their retention by so much are deleted: the log is checked every second, and segments are rolled first."""
INITIAL_DELAY, INITIAL_DELAY_MS, INITIAL_DELAY_SINCE = "log.initial.task.delay.ms", 30_000, (3, 8)
"""So long after its start a broker first checks its logs (LogManager.startup); before that release this is a constant."""


class Answered:
    """Response of a Fetch for one partition, with its decoded batches and records."""

    __slots__ = ("batches", "end", "row", "rows", "size")

    def __init__(self, row: Any, append_time: bool) -> None:
        self.row = row
        data = bytes(row.records or b"")
        self.size = len(data)
        self.rows: list[tuple[int, SentRecord]] = []
        self.batches: list[tuple[int, int, Head, int, int]] = []
        self.end = -1
        for pos, header in batches(data):
            check_crc(data, pos, header)
            for record in records(data, pos, header):
                time = -2 if append_time else record.timestamp
                self.rows.append((record.offset, SentRecord(time, record.key, record.value, tuple(record.headers))))
            head = Head(header.producer_id, header.producer_epoch, header.base_sequence, int(header.codec))
            size = header.size
            self.batches.append((header.base_offset, header.last_offset, head, header.leader_epoch, size))
            self.end = header.last_offset + 1


class ReadingProber(LogProber):
    """A `LogProber` that reads: Fetch with and without sessions, ListOffsets, OffsetForLeaderEpoch, DeleteRecords."""

    def fetch_request(
        self, asked: list[tuple[OwnTopic, int, int]], version: int, *, epoch: int = -1, **options: Any
    ) -> FetchRequest:
        """Create a Fetch of (topic, partition, offset), each with the leader epoch ``epoch``."""
        limit = options.pop("partition_max_bytes", 1 << 20)
        topics: dict[str, FetchTopic] = {}
        for topic, index, offset in asked:
            fetched = topics.setdefault(topic.name, FetchTopic(topic.name, topic.topic_id, []))
            fetched.partitions.append(FetchPartition(index, epoch, offset, partition_max_bytes=limit))
        return FetchRequest(topics=list(topics.values()), **{"max_wait_ms": 0, "min_bytes": 1, **options})

    async def _do_read(self) -> None:
        """From some leader, some of its partitions, from anywhere."""
        chosen = self.own()
        if chosen is None:
            return
        first = self.partition(*chosen)
        if first is None or first.leader < 0:
            return
        leader, asked = first.leader, []
        for topic in self.topics:
            for index, log in enumerate(topic.logs):
                partition = self.partition(topic, index)
                if partition is not None and partition.leader == leader:
                    low = log.start if log.deletes else 0
                    offset = self.rng.choice((low, log.end, self.rng.randint(min(low, log.end), log.end)))
                    asked.append((topic, index, max(offset, log.start)))
        self.rng.shuffle(asked)
        asked = asked[: self.rng.randint(1, 4)]
        if not asked:
            return
        head = asked[0][0]
        asked.sort(key=lambda entry: entry[0] is not head)  # a request has a topic once
        options: dict[str, Any] = {}
        if self.rng.random() < 0.3:
            options["max_bytes"] = self.rng.choice((1, 100, 1000))
        if self.rng.random() < 0.3:
            options["partition_max_bytes"] = self.rng.choice((1, 100, 1000))
        if self.rng.random() < 0.3:
            options |= {"max_wait_ms": self.rng.choice((20, 200)), "min_bytes": self.rng.choice((1, 1, 5000))}
        options["isolation_level"] = self.rng.choice((0, 1))
        await self.read(asked, leader, options)

    async def read(self, asked: list[tuple[OwnTopic, int, int]], leader: int, options: dict[str, Any]) -> None:
        """Fetch, and hold every partition against its model."""
        version = self.pick(FetchRequest, 4)
        begun_s = self.calm.now_s()
        before = [standing(self.partition(topic, index)) for topic, index, _ in asked]
        least = [log.sure_end for log in (topic.logs[index] for topic, index, _ in asked)]
        request = self.fetch_request(asked, version, **options)
        answer = await self.request_once(request, version, leader)
        calm, took_s = self.calm.since(begun_s), self.calm.now_s() - begun_s
        rows = {
            (topic.topic_id if version >= 13 else topic.topic, partition.partition_index): partition
            for topic in answer.responses
            for partition in topic.partitions
        }
        if calm:
            self.expect("responses match their requests", "Fetch: partitions", len(rows), len(asked))
        results = []
        for (topic, index, offset), stood, sure in zip(asked, before, least, strict=True):
            row = rows.get((topic.topic_id if version >= 13 else topic.name, index))
            if row is not None:
                steady = calm and stood is not None and stood == standing(self.partition(topic, index))
                got = self._read_one(topic, index, offset, row, version=version, steady=steady, least=sure)
                if got is not None and steady:
                    results.append((offset, got))
        if calm and len(results) == len(asked) and not self.calm.odd:
            self._check_sizes(results, request)
            self._check_wait(results, request, took_s)

    def _read_one(
        self, topic: OwnTopic, index: int, offset: int, row: Any, *, version: int, steady: bool, least: int
    ) -> Answered | None:
        log, error = topic.logs[index], Err(row.error_code)
        if error is Err.OFFSET_OUT_OF_RANGE and (log.deletes or not log.exact):
            return None  # it may have been taken meanwhile, or cut off
        if steady:
            self.expect("records within the log can be fetched", f"Fetch of {log.name} from {offset}", error, Err.NONE)
        if error is not Err.NONE:
            if row.records:
                self.breach(
                    "a Fetch error carries no records", f"{log.name}: {error.name} and {len(row.records)} bytes"
                )
            return None
        try:
            got = Answered(row, topic.append_time)
        except CorruptRecord as problem:
            self.breach("fetched batches are valid", f"{log.name} from {offset}: {problem}")
            return None
        self._check_marks(topic, log, row, got, version=version, steady=steady, least=least)
        low = max(offset, row.log_start_offset) if version >= 5 else offset
        wrong = log.read(low, got.rows, got.end)
        if wrong is not None:
            self.breach("acknowledged records never change", wrong)
            return None
        log.committed(max(got.end, 0))
        self._check_heads(log, got, offset)
        return got

    def _check_marks(
        self, topic: OwnTopic, log: LogModel, row: Any, got: Answered, *, version: int, steady: bool, least: int
    ) -> None:
        mark = row.high_watermark
        if got.end > mark:
            self.breach("no Fetch reads above the high watermark", f"{log.name}: to {got.end}, it is {mark}")
        if mark < least:
            self.breach("the high watermark never decreases", f"{log.name}: {mark}, it had passed {least}")
        if steady and log.exact:
            self.expect("the high watermark is the log's end", f"{log.name}: high watermark", mark, log.end)
        if version >= 4:
            self.expect(
                "without transactions the last stable offset is the high watermark",
                f"{log.name}",
                row.last_stable_offset,
                mark,
            )
        if version >= 5:
            self.check_start(topic, log, row.log_start_offset, steady=steady)

    def _check_heads(self, log: LogModel, got: Answered, offset: int) -> None:
        if got.batches and got.batches[0][1] < offset:
            self.breach(
                "a Fetch returns records from its fetch offset on",
                f"{log.name}: {offset}, the first is {got.batches[0][:2]}",
            )
        for base, last, head, epoch, _ in got.batches:
            known = log.heads.get(base)
            if known is not None and not log.compacts:
                actual = (last, head, epoch if known[2] >= 0 else -1)
                self.expect("a batch is stored as it was sent", f"{log.name}: batch {base}", actual, known)

    def check_start(self, topic: OwnTopic, log: LogModel, start: int, *, steady: bool) -> None:
        """The log start: deleted records were allowed to be deleted, and those that must be are."""
        now_ms = self.state.clock.now_ms()
        if start < log.start:
            self.breach("the log start offset never decreases", f"{log.name}: {start}, it was {log.start}")
        keeps_ms = topic.retention_ms(log)
        if keeps_ms is None:
            self.expect(
                "records are deleted only by retention or DeleteRecords", f"{log.name}: log start", start, log.start
            )
            return
        taken = [offset for offset in log.rows if max(log.start, log.may_go) <= offset < start]
        for offset in taken:
            written_ms = log.rows[offset].timestamp
            if written_ms >= 0 and written_ms + keeps_ms >= now_ms:
                self.breach(
                    "retention deletes expired segments only",
                    f"{log.name}: offset {offset} of {written_ms}, it is {now_ms}",
                )
        log.began(start)
        config = self.state.config
        delay_ms = config.int(INITIAL_DELAY) if INITIAL_DELAY in config.settings else INITIAL_DELAY_MS
        within_s = (delay_ms + keeps_ms + _TAKEN_LATE_MS) / 1000
        if not steady or not log.exact or self.calm.now_s() < within_s or not self.calm.for_s(within_s):
            return
        old = log.latest_time() + keeps_ms + _TAKEN_LATE_MS < now_ms and not topic.append_time
        if old and start != log.end and any(offset >= start for offset in log.rows):
            self.breach(
                "retention deletes expired segments only",
                f"{log.name}: begins at {start}, all to {log.end} is old at {now_ms}",
            )

    def _check_sizes(self, results: list[tuple[int, Answered]], request: FetchRequest) -> None:
        """The first batch of all comes whole, everything else within the limits."""
        per, total = request.topics[0].partitions[0].partition_max_bytes, sum(got.size for _, got in results)
        first = True
        for offset, got in results:
            if first and offset < got.row.high_watermark and not got.size:
                self.breach("a Fetch returns at least one batch", f"nothing from {offset} on: {got.row}")
            if got.size > per and not (first and len(got.batches) == 1):
                self.breach("a Fetch respects its max bytes", f"{got.size} bytes of a partition, {per} were asked for")
            first = first and not got.size
        if total > request.max_bytes and sum(len(got.batches) for _, got in results) > 1:
            self.breach("a Fetch respects its max bytes", f"{total} bytes, {request.max_bytes} were asked for")

    def _check_wait(self, results: list[tuple[int, Answered]], request: FetchRequest, took_s: float) -> None:
        least, wait_s = min(request.min_bytes, request.max_bytes), request.max_wait_ms / 1000
        size = sum(got.size for _, got in results)
        if size < least and took_s < wait_s:
            self.breach("a Fetch waits for its min bytes", f"{size} of {least} after {took_s:.3f} s of {wait_s:g}")
        if took_s > wait_s + 0.5:
            self.breach("a Fetch is answered within its max wait", f"after {took_s:.3f} s of {wait_s:g}")

    async def _do_read_out_of_range(self) -> None:
        chosen = self.own()
        partition = None if chosen is None else self.partition(*chosen)
        if chosen is None or partition is None:
            return
        topic, index = chosen
        log, version = topic.logs[index], self.pick(FetchRequest, 4)
        before, begun_s = standing(partition), self.calm.now_s()
        if before is None or not log.exact:
            return
        epoch, wanted, offset = -1, Err.OFFSET_OUT_OF_RANGE, log.end + self.rng.randint(1, 3)
        if version >= 9 and self.rng.random() < 0.5:
            offset, epoch = log.end, partition.leader_epoch + self.rng.choice((-1, 0, 1))
            wanted = (
                Err.NONE if epoch == partition.leader_epoch or epoch < 0
                else Err.FENCED_LEADER_EPOCH if epoch < partition.leader_epoch else Err.UNKNOWN_LEADER_EPOCH
            )  # fmt: skip
        request = self.fetch_request([(topic, index, offset)], version, epoch=epoch)
        broker = partition.leader
        if len(self.state.brokers) > 1 and self.rng.random() < 0.3:
            broker = self.rng.choice([node for node in self.state.brokers if node != partition.leader])
            follows = version >= 11 and broker in partition.replicas  # KIP-392
            if epoch >= 0 and not follows:
                return
            wanted = wanted if follows else Err.NOT_LEADER_OR_FOLLOWER
        answer = await self.request_once(request, version, broker)
        if before == standing(self.partition(topic, index)) and self.calm.since(begun_s):
            row = answer.responses[0].partitions[0]
            what = f"Fetch of {log.name} from {offset} in epoch {epoch} at {broker}"
            self.expect("invalid fetches are refused", what, Err(row.error_code), wanted)
            if version >= 16 and wanted in (Err.NOT_LEADER_OR_FOLLOWER, Err.FENCED_LEADER_EPOCH):
                actual = row.current_leader.leader_id, row.current_leader.leader_epoch
                self.expect(
                    "errors name the current leader",
                    "Fetch: leader",
                    actual,
                    (partition.leader, partition.leader_epoch),
                )
                ends = [(endpoint.node_id, endpoint.host) for endpoint in answer.node_endpoints]
                host = self.context.kafka.hosts[partition.leader - 1]
                self.expect("errors name the current leader", "Fetch: where it is", ends, [(partition.leader, host)])

    async def _do_read_behind_an_epoch(self) -> None:
        """Fetch with the leader epoch of the last record read: expect the diverging epoch if the log has fewer records of that
        epoch (KIP-595)."""
        chosen = self.own()
        partition = None if chosen is None else self.partition(*chosen)
        version = self.pick(FetchRequest, _TELLS_EPOCHS)
        if chosen is None or partition is None or version < _TELLS_EPOCHS:
            return
        topic, index = chosen
        log = topic.logs[index]
        before, begun_s = standing(partition), self.calm.now_s()
        if before is None or not log.exact or log.deletes or not log.epochs:
            return
        latest = partition.leader_epoch
        asked = self.rng.choice((latest, latest + 1, self.rng.randint(log.epochs[0][0], latest), log.epochs[0][0]))
        ends = (latest, log.end) if asked >= latest else log.end_of_epoch(asked)
        assert ends is not None
        offset = self.rng.choice((ends[1], max(ends[1] - 1, 0), min(ends[1] + 1, log.end), log.end))
        request = self.fetch_request([(topic, index, offset)], version)
        request.topics[0].partitions[0].last_fetched_epoch = asked
        answer = await self.request_once(request, version, partition.leader)
        if before != standing(self.partition(topic, index)) or not self.calm.since(begun_s) or not log.exact:
            return
        row = answer.responses[0].partitions[0]
        parts = asked <= latest and (ends[0] < asked or ends[1] < offset)
        wanted = (Err.OFFSET_OUT_OF_RANGE if asked > latest else Err.NONE, ends if parts else (-1, -1))
        actual = Err(row.error_code), (row.diverging_epoch.epoch, row.diverging_epoch.end_offset)
        what = f"Fetch of {log.name} from {offset} behind epoch {asked} of {log.epochs}: error, where it parts"
        if self.expect("a Fetch returns the diverging epoch", what, actual, wanted) and not parts and not actual[0]:
            self._read_one(topic, index, offset, row, version=version, steady=True, least=log.sure_end)
        elif row.records:
            self.breach("a Fetch returns the diverging epoch", f"{what}, and {len(row.records)} bytes")

    async def _do_read_what_is_gone(self) -> None:
        """Fetch from a topic that was deleted: the response does not wait."""
        if not self.deleted:
            return
        old, version = self.rng.choice(self.deleted), self.pick(FetchRequest, 4)
        begun_s = self.calm.now_s()
        request = self.fetch_request([(old, 0, 0)], version, max_wait_ms=1000)
        answer = await self.request_once(request, version, self.broker())
        if not self.calm.since(begun_s) or (version < 13 and old.name in self.state.topics):
            return
        wanted = Err.UNKNOWN_TOPIC_ID if version >= 13 else Err.UNKNOWN_TOPIC_OR_PARTITION
        error = Err(answer.responses[0].partitions[0].error_code)
        self.expect("deleted topics are removed", f"Fetch v{version} of {old.name}", error, wanted)
        if self.calm.now_s() - begun_s > 0.5:
            self.breach(
                "deleted topics are removed", f"a Fetch of {old.name} waited {self.calm.now_s() - begun_s:.3f} s"
            )

    # --- offsets

    async def list_offset(self, topic: OwnTopic, index: int, timestamp: int) -> Any:
        """ListOffsets of one partition by its leader; returns its part of the response, None without a leader. Raises OSError."""
        partition = self.partition(topic, index)
        if partition is None or partition.leader < 0:
            return None
        version = self.pick(ListOffsetsRequest, 7 if timestamp == MAX_TIMESTAMP else 1)
        rows = [ListOffsetsPartition(index, -1, timestamp)]
        request = ListOffsetsRequest(-1, self.rng.choice((0, 1)), [ListOffsetsTopic(topic.name, rows)])
        answer = await self.request_once(request, version, partition.leader)
        row = answer.topics[0].partitions[0]
        self.expect("responses match their requests", "ListOffsets: partition", row.partition_index, index)
        return row

    async def _do_list_offsets(self) -> None:
        chosen = self.own()
        partition = None if chosen is None else self.partition(*chosen)
        if chosen is None or partition is None:
            return
        topic, index = chosen
        log = topic.logs[index]
        before, begun_s = standing(partition), self.calm.now_s()
        times = [row.timestamp for row in log.rows.values() if row.timestamp >= 0]
        timestamp = self.rng.choice(
            (LATEST, EARLIEST, EARLIEST, MAX_TIMESTAMP, *(self.rng.sample(times, 1) if times else ()))
        )
        if timestamp >= 0:
            timestamp += self.rng.choice((-1, 0, 1))
        answer = await self.list_offset(topic, index, timestamp)
        steady = before is not None and before == standing(self.partition(topic, index)) and self.calm.since(begun_s)
        if answer is None or not steady:
            return
        if not self.expect(
            "ListOffsets returns the log's offsets", f"ListOffsets of {log.name}", Err(answer.error_code), Err.NONE
        ):
            return
        if timestamp == EARLIEST:
            self.check_start(topic, log, answer.offset, steady=True)
        elif log.exact and timestamp == LATEST:
            self.expect("ListOffsets returns the log's offsets", f"{log.name}: the latest", answer.offset, log.end)
        elif log.exact and not log.compacts and not log.deletes and not topic.append_time:
            stored = log.at_time(log.latest_time() if timestamp == MAX_TIMESTAMP else timestamp)
            if timestamp == MAX_TIMESTAMP:  # of several with that time it may be any
                there = log.rows.get(answer.offset)
                stored = None if not log.rows else stored
                shallow = self.state.config.release < (3, 9)  # such brokers return any offset of the batch
                if there is not None and (shallow or there.timestamp == log.latest_time()):
                    stored = answer.offset, log.latest_time()
            wanted = (-1, -1) if stored is None else stored
            what = f"{log.name}: the first at {timestamp} or later"
            self.expect("ListOffsets finds offsets by timestamp", what, (answer.offset, answer.timestamp), wanted)

    async def _do_ask_for_an_epoch(self) -> None:
        chosen = self.own()
        partition = None if chosen is None else self.partition(*chosen)
        if chosen is None or partition is None:
            return
        topic, index = chosen
        log = topic.logs[index]
        before, begun_s = standing(partition), self.calm.now_s()
        if before is None or not log.exact or log.deletes:
            return
        epoch, end = partition.leader_epoch, (partition.leader_epoch, log.end)
        if self.rng.random() < 0.3:
            epoch, end = epoch + 1, (-1, -1)
        elif log.epochs and self.rng.random() < 0.5:
            epoch = self.rng.randint(log.epochs[0][0], partition.leader_epoch)
            stored = log.end_of_epoch(epoch)
            if epoch < partition.leader_epoch and stored is not None:
                end = stored
            else:
                epoch = partition.leader_epoch
        rows = [OffsetForLeaderPartition(index, -1, epoch)]
        version = self.pick(OffsetForLeaderEpochRequest, 2)
        asked = OffsetForLeaderEpochRequest(-1, [OffsetForLeaderTopic(topic.name, rows)])
        answer = (await self.request_once(asked, version, partition.leader)).topics[0].partitions[0]
        if before == standing(self.partition(topic, index)) and self.calm.since(begun_s) and log.exact:
            actual = Err(answer.error_code), (answer.leader_epoch, answer.end_offset)
            self.expect(
                "OffsetForLeaderEpoch returns the epoch's end",
                f"{log.name}: epoch {epoch} of {log.epochs}",
                actual,
                (Err.NONE, end),
            )

    async def _do_delete_records(self) -> None:
        chosen = self.own()
        partition = None if chosen is None else self.partition(*chosen)
        if chosen is None or partition is None or self.rng.random() < 0.6:
            return
        topic, index = chosen
        log = topic.logs[index]
        before, begun_s = standing(partition), self.calm.now_s()
        if before is None or not log.exact:
            return
        offset = self.rng.choice((-1, log.end + 1, log.start, self.rng.randint(log.start, log.end)))
        rows = [DeleteRecordsPartition(index, offset)]
        asked = DeleteRecordsRequest([DeleteRecordsTopic(topic.name, rows)], 1000)
        goes_to = log.end if offset == -1 else offset
        may = not log.compacts and log.start <= goes_to <= log.end
        kept, log.deletes = log.deletes, True
        log.may_go = max(log.may_go, min(goes_to, log.end))
        topic.settings.setdefault("retention.ms", str(10**12))
        answer = await self.request_once(asked, self.pick(DeleteRecordsRequest), partition.leader)
        row = answer.topics[0].partitions[0]
        steady = before == standing(self.partition(topic, index)) and self.calm.since(begun_s) and log.exact
        if steady:
            wanted = Err.NONE if may else Err.POLICY_VIOLATION if log.compacts else Err.OFFSET_OUT_OF_RANGE
            self.expect(
                "DeleteRecords returns the new log start offset", f"{log.name} to {offset}", Err(row.error_code), wanted
            )
        if row.error_code == 0:
            if row.low_watermark < min(goes_to, log.end) or (steady and not kept and row.low_watermark > goes_to):
                self.breach(
                    "DeleteRecords returns the new log start offset", f"{log.name} to {goes_to}: {row.low_watermark}"
                )
            log.began(row.low_watermark)

    # --- sessions

    async def _do_hold_a_session(self) -> None:
        """The whole of a session's life, while nothing is wrong."""
        chosen = self.own()
        first = None if chosen is None else self.partition(*chosen)
        if first is None or not self.calm.for_s(0.1) or self.calm.odd:
            return
        mine = [
            (topic, index, topic.logs[index].end)
            for topic in self.topics
            for index in range(len(topic.logs))
            if (there := self.partition(topic, index)) is not None
            and there.leader == first.leader and standing(there) is not None
            and topic.logs[index].exact and not topic.logs[index].deletes
        ]  # fmt: skip
        if not mine:
            return
        await _FetchSession(self, mine, first.leader, self.pick(FetchRequest, 7)).live()

    # --- doubt

    async def _do_resolve(self) -> None:
        """Read logs that are in doubt: all requests under way have come by now, or never will."""
        for topic in self.topics:
            for index, log in enumerate(topic.logs):
                if not log.exact and index not in topic.pending and self.calm.for_s(4):
                    await self._settle(topic, index)

    async def _settle(self, topic: OwnTopic, index: int) -> None:
        log = topic.logs[index]
        before, begun_s = standing(self.partition(topic, index)), self.calm.now_s() - 4
        at, mark = log.start, -1
        for _ in range(200):
            partition = self.partition(topic, index)
            if before is None or before != standing(partition) or partition is None:
                return
            version = self.pick(FetchRequest, 5)
            answer = await self.request_once(
                self.fetch_request([(topic, index, at)], version), version, partition.leader
            )
            row = answer.responses[0].partitions[0]
            if row.error_code:
                return
            got = self._read_one(topic, index, at, row, version=version, steady=False, least=log.sure_end)
            mark = row.high_watermark
            if got is None or got.end <= at:
                break
            at = got.end
        if before == standing(self.partition(topic, index)) and self.calm.since(begun_s) and at >= mark >= 0:
            log.settle(mark)


class _FetchSession:
    """One fetch session, step by step (KIP-227)."""

    def __init__(self, prober: ReadingProber, mine: list[tuple[OwnTopic, int, int]], broker: int, version: int) -> None:
        self.prober, self.mine, self.broker, self.version = prober, mine, broker, version
        self.session, self.epoch = 0, 0
        self.begun_s = prober.calm.now_s()
        self.stood = self._standing()

    def _standing(self) -> list[object]:
        return [standing(self.prober.partition(topic, index)) for topic, index, _ in self.mine]

    async def _ask(
        self, what: str, asked: list[tuple[OwnTopic, int, int]], expected: list[tuple[OwnTopic, int, int]] | None,
        forgotten: list[tuple[OwnTopic, int, int]] = (),  # type: ignore[assignment]
    ) -> bool:  # fmt: skip
        """Send a Fetch of the session; returns whether the session can continue. ``expected``: the partitions that the response must
        contain, and no others; None: any."""
        prober = self.prober
        request = prober.fetch_request(asked, self.version, session_id=self.session, session_epoch=self.epoch)
        request.forgotten_topics_data = [
            ForgottenTopic(topic.name, topic.topic_id, [index]) for topic, index, _ in forgotten
        ]
        answer = await prober.request_once(request, self.version, self.broker)
        if not (prober.calm.since(self.begun_s) and self.stood == self._standing()):
            return False
        name = "a fetch session tells what is new"
        if not prober.expect(name, f"{what}: error", Err(answer.error_code), Err.NONE):
            return False
        self.session = answer.session_id or self.session
        self.epoch += 1
        if self.epoch > 1:
            prober.expect(name, f"{what}: session", answer.session_id, self.session)
        by_id = self.version >= 13
        got = {
            (t.topic_id if by_id else t.topic, partition.partition_index): partition
            for t in answer.responses
            for partition in t.partitions
        }
        if expected is not None:
            wanted = {(topic.topic_id if by_id else topic.name, index) for topic, index, _ in expected}
            prober.expect(name, f"{what}: partitions", sorted(map(repr, got)), sorted(map(repr, wanted)))
        for topic, index, offset in expected or ():
            row = got.get((topic.topic_id if by_id else topic.name, index))
            if row is not None and offset < topic.logs[index].end and not row.records:
                prober.breach(name, f"{what}: {topic.name}-{index} has news and no records from {offset} on")
        return True

    async def live(self) -> None:
        """From its beginning to its end."""
        prober, mine = self.prober, self.mine
        if not await self._ask("a new session", mine, mine) or self.session == 0:
            return
        if not await self._ask("nothing new", [], []):
            return
        topic, index, end = mine[prober.rng.randrange(len(mine))]
        if not prober._has_enough(topic, -1) or index in topic.pending:
            return
        batch = await prober._batch(topic, index)
        topic.logs[index].sent(batch.rows)
        await prober.write(topic, index, batch, -1)
        partitions = [(topic, index, end)]
        if not topic.logs[index].exact or not await self._ask("news of one", [], partitions):
            return
        now = (topic, index, topic.logs[index].end)
        if len(mine) == 1:  # a session without partitions is none any more
            await self._end()
            return
        if not await self._ask("read on", [now], []) or not await self._ask("forgotten", [], [], [now]):
            return
        batch = await prober._batch(topic, index)
        topic.logs[index].sent(batch.rows)
        await prober.write(topic, index, batch, -1)
        if topic.logs[index].exact and await self._ask("news of what is forgotten", [], []):
            await self._refused("another epoch", self.session, self.epoch + 1, Err.INVALID_FETCH_SESSION_EPOCH)
            await self._refused("another session", self.session ^ 1, 5, Err.FETCH_SESSION_ID_NOT_FOUND)
            await self._end()

    async def _refused(self, what: str, session: int, epoch: int, wanted: Err) -> None:
        prober = self.prober
        request = prober.fetch_request([], self.version, session_id=session, session_epoch=epoch)
        answer = await prober.request_once(request, self.version, self.broker)
        if prober.calm.since(self.begun_s):
            prober.expect("fetch sessions check their epoch", what, Err(answer.error_code), wanted)

    async def _end(self) -> None:
        prober = self.prober
        request = prober.fetch_request([], self.version, session_id=self.session, session_epoch=-1)
        answer = await prober.request_once(request, self.version, self.broker)
        if prober.calm.since(self.begun_s):
            prober.expect("fetch sessions check their epoch", "the end", (answer.error_code, answer.session_id), (0, 0))
            await self._refused("after its end", self.session, self.epoch, Err.FETCH_SESSION_ID_NOT_FOUND)
