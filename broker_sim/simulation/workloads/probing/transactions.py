"""A prober of transactions: it writes to a topic of its own in transactions that it commits or aborts, in both versions (KIP-890), and
knows at every moment what may be read at which isolation, where the last stable offset is, which records are of aborted transactions,
what epoch a marker has, and which error a fenced producer gets. It also writes pending offsets of a group of its own (`staged`).

Whatever is not answered while all is calm ends the life of this transactional id and of the topic; another one begins.
"""

from __future__ import annotations

import asyncio
from typing import Any

from broker_sim.simulation.checks.answers import offsets_partition
from broker_sim.simulation.workloads.probing.groups import Unsure
from broker_sim.simulation.workloads.probing.pending_offsets import PendingOffsetsTransaction
from broker_sim.simulation.workloads.probing.prober import Prober, standing
from kafka_wire.api_keys import release
from kafka_wire.control_records import ControlType, control_type
from kafka_wire.errors import Err
from kafka_wire.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_wire.messages.k02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafka_wire.messages.k10_find_coordinator import FindCoordinatorRequest
from kafka_wire.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest
from kafka_wire.messages.k22_init_producer_id import InitProducerIdRequest
from kafka_wire.messages.k24_add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kafka_wire.messages.k26_end_txn import EndTxnRequest
from kafka_wire.messages.k65_describe_transactions import DescribeTransactionsRequest
from kafka_wire.messages.k66_list_transactions import ListTransactionsRequest
from kafka_wire.record_batch import TRANSACTIONAL_BIT, Record, batches, encode_batch, records

__all__ = ["TransactionProber"]

_LOG = "__transaction_state"
_TRANSACTION = 1
_CLIENTS_ADD, _CLIENTS_END, _CLIENTS_PRODUCE = 3, 4, 11
"""Versions up to which clients add partitions, end without a new epoch, and write to what was added."""
_ENDS_EPOCH, _ADDS = 5, 12
"""Versions from which EndTxn gives the next epoch, and Produce adds its partition."""
_KNOWS_FENCED, _INIT_KNOWS_FENCED = 2, 4
_ABORTABLE = 11
_MARKED_S = 1.5
_LONG_MS, _SHORT_MS = 60_000, 700
"""Transaction timeouts: one that nothing reaches, and one that is waited for."""
_NO_PARTITION = 7


class TransactionProber(Prober):
    """Runs transactions of its own and checks what each isolation level, marker and error must be."""

    PAUSE_S = 0.1

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._lives = 0

    async def _do_live(self) -> None:
        life = await self._begin()
        if life is not None:
            for _ in range(self.rng.randint(1, 5)):
                await life.transaction()
            await life.fence()

    async def _do_time_out(self) -> None:
        life = await self._begin(_SHORT_MS)
        if life is not None:
            await life.time_out()

    async def _do_stage(self) -> None:
        life = await self._begin()
        if life is not None:
            for _ in range(self.rng.randint(1, 3)):
                await PendingOffsetsTransaction(life).transaction()

    async def _begin(self, timeout_ms: int = _LONG_MS) -> Life | None:
        if not self.calm.for_s(0.3) or not all(
            self.supports(kind) for kind in (AddPartitionsToTxnRequest, EndTxnRequest)
        ):
            return None
        self._lives += 1
        life = Life(self, f"{self.name}-tx-{self._lives}", timeout_ms)
        await life.begin()
        return life


class Life:
    """One transactional id and one partition. Each step raises Unsure, OSError. ``flow``: 1 or 2, the version of its transactions."""

    def __init__(self, prober: TransactionProber, name: str, timeout_ms: int = _LONG_MS) -> None:
        self.prober, self.name, self.rng, self.timeout_ms = prober, name, prober.rng, timeout_ms
        self.release = release(prober.context.kafka.state.as_version)
        self.flow = prober.rng.choice((1, 2)) if self.release >= (4, 0) else 1
        self.producer, self.epoch, self.sequence = -1, -1, 0
        self.rows: list[tuple[int, bytes, bool]] = []
        """Offset, value, whether it is committed."""
        self.aborted: list[tuple[int, int]] = []
        """First and last offset of aborted transactions, and of their markers."""
        self.markers: list[tuple[int, bool, int]] = []
        """Offset, whether it commits, its producer's epoch."""
        self.end, self.open_since = 0, -1

    # --- asking

    def _snapshot(self) -> tuple[object, ...]:
        """Both the transaction's coordinator and the partition. Raises Unsure."""
        state = self.prober.state
        log = state.topics.get(_LOG)
        mine = state.topics.get(self.name)
        stored = None if log is None else standing(log.partitions[offsets_partition(self.name, len(log.partitions))])
        there = () if mine is None else standing(mine.partitions[0])
        if stored is None or there is None:
            raise Unsure
        return *stored, *there

    async def ask(self, request: Any, version: int, broker: int) -> Any:
        """Return the response. Raises Unsure where anything has happened meanwhile, OSError."""
        before, begun_s = self._snapshot(), self.prober.calm.now_s()
        answer = await self.prober.request_once(request, version, broker)
        if before != self._snapshot() or not self.prober.calm.since(begun_s):
            raise Unsure
        return answer

    @property
    def coordinator(self) -> int:
        """The broker that leads the id's partition."""
        log = self.prober.state.topics[_LOG]
        return log.partitions[offsets_partition(self.name, len(log.partitions))].leader

    @property
    def leader(self) -> int:
        """The broker that leads the partition."""
        return self.prober.state.topics[self.name].partitions[0].leader

    def upto(self, kind: Any, most: int, least: int = 0) -> int:
        """A version of a request."""
        return min(self.prober.pick(kind, least), most)

    def expect(self, rule: str, what: str, got: object, wanted: object) -> None:
        """Breach where they differ. Raises Unsure then."""
        if not self.prober.expect(rule, f"{self.name}: {what}", got, wanted):
            raise Unsure

    # --- steps

    async def begin(self) -> None:
        """A coordinator, a topic, a producer id."""
        prober = self.prober
        for _ in range(20):
            version = prober.pick(FindCoordinatorRequest, 1)
            request = FindCoordinatorRequest(self.name, _TRANSACTION, [self.name])
            answer = await prober.request_once(request, version, prober.broker())
            row = answer.coordinators[0] if version >= 4 else answer
            if row.error_code == 0:
                break
            await asyncio.sleep(0.1)
        else:
            raise Unsure
        self._snapshot()
        if prober.calm.for_s(0.2):
            self.expect(
                "a coordinator is found by the transactional id's hash", "its broker", row.node_id, self.coordinator
            )
        made = CreateTopicsRequest([CreatableTopic(self.name, 1, 1)], 1000)
        answer = await prober.request_once(made, prober.pick(CreateTopicsRequest, 2), prober.broker())
        if answer.topics[0].error_code:
            raise Unsure
        await self.new_epoch(0)

    async def new_epoch(self, wanted: int) -> None:
        """As a producer that starts: what an earlier one has not ended is aborted."""
        answer, _ = await self.init()
        self.expect("InitProducerId increments the producer epoch", "InitProducerId", Err(answer.error_code), Err.NONE)
        if self.producer >= 0:
            self.expect("InitProducerId increments the producer epoch", "its id", answer.producer_id, self.producer)
        self.expect("InitProducerId increments the producer epoch", "its epoch", answer.producer_epoch, wanted)
        self.producer, self.epoch, self.sequence = answer.producer_id, answer.producer_epoch, 0

    async def init(self, *mine: int) -> tuple[Any, int]:
        """The answer to InitProducerId, and its version; with the producer id and epoch that it has where they are given."""
        request = InitProducerIdRequest(self.name, self.timeout_ms, *mine)
        for _ in range(20):
            version = self.upto(InitProducerIdRequest, 5, 3 if mine else 0)
            answer = await self.ask(request, version, self.coordinator)
            if Err(answer.error_code) not in (Err.CONCURRENT_TRANSACTIONS, Err.COORDINATOR_LOAD_IN_PROGRESS):
                break
            await asyncio.sleep(0.1)
        return answer, version

    async def add(self, epoch: int, *more: int) -> list[tuple[int, Err, int]]:
        """Announce the partition, and others of the topic: partition, error, and the version in which it was asked."""
        topics = [AddPartitionsToTxnTopic(self.name, [0, *more])]
        request = AddPartitionsToTxnRequest([], self.name, self.producer, epoch, topics)
        for _ in range(20):
            version = self.upto(AddPartitionsToTxnRequest, _CLIENTS_ADD)
            answer = await self.ask(request, version, self.coordinator)
            rows = answer.results_by_topic_v3_and_below[0].results_by_partition
            results = [(row.partition_index, Err(row.partition_error_code), version) for row in rows]
            if results[0][1] is not Err.CONCURRENT_TRANSACTIONS:
                break
            await asyncio.sleep(0.05)
        return results

    async def joins(self) -> None:
        """Add the partitions that must be added before the first write of a transaction."""
        rule = "partitions are added by the rules"
        if self.flow == 2:
            return
        if self.release >= (3, 5) and self.rng.random() < 0.3:
            version = self.upto(ProduceRequest, _CLIENTS_PRODUCE, 3)
            wanted = Err.TRANSACTION_ABORTABLE if version >= _ABORTABLE else Err.INVALID_TXN_STATE
            await self.write(self.epoch, wanted, version)
        if self.rng.random() < 0.3:
            rows = [row[:2] for row in await self.add(self.epoch, _NO_PARTITION)]
            wanted_rows = [(0, Err.OPERATION_NOT_ATTEMPTED), (_NO_PARTITION, Err.UNKNOWN_TOPIC_OR_PARTITION)]
            self.expect(rule, "AddPartitionsToTxn with a partition that there isn't", sorted(rows), wanted_rows)
        ((_, error, _),) = await self.add(self.epoch)
        self.expect(rule, "AddPartitionsToTxn", error, Err.NONE)

    async def write(self, epoch: int, wanted: Err, version: int = -1) -> None:
        """Some records, in one batch."""
        values = [self.prober.value() for _ in range(self.rng.randint(1, 3))]
        now_ms = self.prober.state.clock.now_ms()
        data = encode_batch(
            [Record(number, now_ms, b"k", value) for number, value in enumerate(values)],
            producer_id=self.producer, producer_epoch=epoch, base_sequence=self.sequence, attributes=TRANSACTIONAL_BIT,
        )  # fmt: skip
        if version < 0:
            version = _ADDS if self.flow == 2 else self.upto(ProduceRequest, _CLIENTS_PRODUCE, 3)
        rows = [TopicProduceData(self.name, partition_data=[PartitionProduceData(0, data)])]
        answer = await self.ask(ProduceRequest(self.name, -1, 1500, rows), version, self.leader)
        row = answer.responses[0].partition_responses[0]
        self.expect(
            "transactional Produce follows the broker's rules", f"Produce v{version}", Err(row.error_code), wanted
        )
        if wanted is Err.NONE:
            self.expect(
                "transactional Produce follows the broker's rules", "the batch's offset", row.base_offset, self.end
            )
            if self.open_since < 0:
                self.open_since = self.end
            self.rows += [(offset, value, True) for offset, value in enumerate(values, self.end)]
            self.end += len(values)
            self.sequence += len(values)

    async def transaction(self) -> None:
        """From its beginning to its end, read at both isolations before and after."""
        await self.joins()
        for _ in range(self.rng.randint(1, 3)):
            await asyncio.sleep(self.rng.expovariate(10))
            await self.write(self.epoch, Err.NONE)
            await self.read()
        await self.shown("Ongoing")
        commits = self.rng.random() < 0.5
        old = self.epoch
        await self.ends(commits)
        await self.ended(commits, self.epoch)
        await self.read()
        await asyncio.sleep(0.05)  # its coordinator writes that it is complete when the marker is there
        await self.shown("CompleteCommit" if commits else "CompleteAbort")
        if self.rng.random() < 0.5:
            await self.repeated(old, commits)

    async def ends(self, commits: bool) -> None:
        """EndTxn: in version 2 the next transaction has the next epoch."""
        error, _, *goes_on = await self.end_txn(self.epoch, commits)
        wanted = [Err.NONE, self.producer, self.epoch + 1] if self.flow == 2 else [Err.NONE, -1, -1]
        self.expect(
            "EndTxn follows the coordinator's rules", "EndTxn: error, producer id, epoch", [error, *goes_on], wanted
        )
        if self.flow == 2:
            self.epoch, self.sequence = self.epoch + 1, 0

    async def end_txn(self, epoch: int, commits: bool) -> tuple[Err, int, int, int]:
        """Error, the version that it was asked in, producer id, epoch."""
        version = _ENDS_EPOCH if self.flow == 2 else self.upto(EndTxnRequest, _CLIENTS_END)
        answer = await self.ask(EndTxnRequest(self.name, self.producer, epoch, commits), version, self.coordinator)
        return Err(answer.error_code), version, answer.producer_id, answer.producer_epoch

    async def repeated(self, old: int, commits: bool) -> None:
        """The answer to an EndTxn may be lost: sent once more it is answered as the first time; the other end is refused."""
        rule = "an EndTxn may be sent once more"
        error, _, *goes_on = await self.end_txn(old, commits)
        wanted = [Err.NONE, self.producer, self.epoch] if self.flow == 2 else [Err.NONE, -1, -1]
        self.expect(rule, "the same again: error, producer id, epoch", [error, *goes_on], wanted)
        error, *_ = await self.end_txn(old, not commits)
        self.expect(rule, "the other end", error, Err.INVALID_TXN_STATE)

    async def ended(self, commits: bool, epoch: int, within_s: float = _MARKED_S) -> None:
        """The marker comes, of that epoch, and with it all of the transaction is stable."""
        begun_s, first = self.prober.calm.now_s(), self.open_since
        while self.prober.state.topics[self.name].partitions[0].last_stable_offset <= self.end:
            await asyncio.sleep(0.05)
            self._snapshot()
            if not self.prober.calm.since(begun_s):
                raise Unsure
            if self.prober.calm.now_s() - begun_s > within_s:
                self.prober.breach("an ended transaction gets its markers", f"{self.name}: not after {within_s} s")
                raise Unsure
        if not commits:
            self.rows = [(offset, value, good and offset < first) for offset, value, good in self.rows]
            self.aborted.append((first, self.end))
        self.markers.append((self.end, commits, epoch))
        self.end += 1
        self.open_since = -1

    async def fence(self) -> None:
        """Start another producer with the transactional id during a transaction: expect that requests of the old one are refused,
        and that its transaction is aborted with an epoch that no producer gets."""
        old = self.epoch
        await self.joins()
        await self.write(old, Err.NONE)
        await self.new_epoch(old + 2)
        await self.ended(False, old + 1)
        await self.read()
        ((_, error, version),) = await self.add(old)
        self._fenced("AddPartitionsToTxn", error, version >= _KNOWS_FENCED)
        error, version, *_ = await self.end_txn(old, True)
        self._fenced("EndTxn", error, version >= _KNOWS_FENCED)
        answer, version = await self.init(self.producer, old)
        self._fenced("InitProducerId", Err(answer.error_code), version >= _INIT_KNOWS_FENCED)
        await self.write(old, Err.INVALID_PRODUCER_EPOCH)

    def _fenced(self, api: str, error: Err, knows: bool) -> None:
        wanted = Err.PRODUCER_FENCED if knows else Err.INVALID_PRODUCER_EPOCH
        self.expect("old producer epochs are fenced", f"{api} of the old one", error, wanted)

    async def time_out(self) -> None:
        """Let a transaction time out: it is aborted, and its producer fenced, which may come back from version 2 of transactions on."""
        rule = "a transaction ends with its time"
        old = self.epoch
        await self.joins()
        await self.write(old, Err.NONE)
        await self.ended(False, old + 1, within_s=_SHORT_MS / 1000 + _MARKED_S)
        await self.read()
        await self.write(old, Err.INVALID_PRODUCER_EPOCH)
        error, version, *_ = await self.end_txn(old, True)
        if self.flow == 2:
            self.expect(rule, "EndTxn", error, Err.INVALID_TXN_STATE)
        else:
            self._fenced("EndTxn", error, version >= _KNOWS_FENCED)
        answer, version = await self.init(self.producer, old)
        if self.release >= (4, 0):
            actual = Err(answer.error_code), answer.producer_id, answer.producer_epoch
            self.expect(rule, "InitProducerId of its producer", actual, (Err.NONE, self.producer, old + 1))
        else:
            self._fenced("InitProducerId", Err(answer.error_code), version >= _INIT_KNOWS_FENCED)

    async def shown(self, wanted: str) -> None:
        """As DescribeTransactions and ListTransactions return it (KIP-664)."""
        rule = "transactions are shown as they are"
        if not self.prober.supports(DescribeTransactionsRequest) or self.prober.calm.odd:
            return
        now_ms = self.prober.state.clock.now_ms()
        count = len(self.prober.state.topics[_LOG].partitions)
        names = (f"nobody-{number}" for number in range(10_000))
        mine = offsets_partition(self.name, count)
        nobody = next(name for name in names if offsets_partition(name, count) == mine)
        version = self.prober.pick(DescribeTransactionsRequest)
        answer = await self.ask(DescribeTransactionsRequest([self.name, nobody]), version, self.coordinator)
        row, other = answer.transaction_states
        is_open = wanted == "Ongoing"
        actual = (
            Err(row.error_code), row.transactional_id, row.transaction_state, row.transaction_timeout_ms, row.producer_id,
            row.producer_epoch, [(topic.topic, topic.partitions) for topic in row.topics],
        )  # fmt: skip
        partitions = [(self.name, [0])] if is_open else []
        self.expect(
            rule, "DescribeTransactions", actual,
            (Err.NONE, self.name, wanted, self.timeout_ms, self.producer, self.epoch, partitions),
        )  # fmt: skip
        if not now_ms - _LONG_MS < row.transaction_start_time_ms <= now_ms:
            self.prober.breach(rule, f"{self.name}: began at {row.transaction_start_time_ms}, it is {now_ms}")
        self.expect(rule, "one that nobody has", Err(other.error_code), Err.TRANSACTIONAL_ID_NOT_FOUND)
        await self._listed(rule, wanted)

    async def _listed(self, rule: str, wanted: str) -> None:
        version = self.prober.pick(ListTransactionsRequest)
        request, passes = ListTransactionsRequest(), True
        if self.rng.random() < 0.5:
            request.state_filters = self.rng.sample(("Empty", "Ongoing", "CompleteCommit", "CompleteAbort", "odd"), 2)
            passes = wanted in request.state_filters
        if self.rng.random() < 0.5:
            request.producer_id_filters = [self.producer + self.rng.choice((0, 0, 1_000_000))]
            passes = passes and request.producer_id_filters == [self.producer]
        if version >= 1 and self.rng.random() < 0.5:
            request.duration_filter = self.rng.choice((0, _LONG_MS))
            passes = passes and request.duration_filter == 0
        if version >= 2 and self.rng.random() < 0.5:
            request.transactional_id_pattern = self.rng.choice((f"{self.name[:-1]}.*", f"{self.name}.+"))
            passes = passes and request.transactional_id_pattern.endswith(".*")
        answer = await self.ask(request, version, self.coordinator)
        mine = [
            (state.producer_id, state.transaction_state)
            for state in answer.transaction_states
            if state.transactional_id == self.name
        ]
        self.expect(rule, f"ListTransactions v{version} {request}", mine, [(self.producer, wanted)] if passes else [])
        unknown = [name for name in request.state_filters if name == "odd"]
        self.expect(rule, "states that there are not", answer.unknown_state_filters, unknown)

    # --- reading

    async def read(self) -> None:
        """Read the whole partition at both isolation levels."""
        rule = "what may be read follows from the isolation"
        stable = self.end if self.open_since < 0 else self.open_since
        for isolation in (0, 1):
            version = self.upto(FetchRequest, 12, 5)
            asked = [FetchTopic(self.name, partitions=[FetchPartition(0, -1, 0, partition_max_bytes=1 << 20)])]
            request = FetchRequest(max_wait_ms=0, min_bytes=1, isolation_level=isolation, topics=asked)
            row = (await self.ask(request, version, self.leader)).responses[0].partitions[0]
            marks = Err(row.error_code), row.high_watermark, row.last_stable_offset
            self.expect(rule, "Fetch: error, high watermark, last stable offset", marks, (Err.NONE, self.end, stable))
            if self.prober.calm.odd:
                continue  # brokers that give one batch at a time
            data = bytes(row.records or b"")
            actual = [
                (record.offset, record.value)
                for pos, header in batches(data)
                if not header.is_control
                for record in records(data, pos, header)
            ]
            limit = stable if isolation else self.end
            ends = [
                (header.base_offset, control_type(record.key) == ControlType.COMMIT, header.producer_epoch)
                for pos, header in batches(data)
                if header.is_control
                for record in records(data, pos, header)
            ]
            self.expect(
                "markers carry their producer epoch",
                f"those at {isolation}",
                ends,
                [m for m in self.markers if m[0] < limit],
            )
            self.expect(rule, f"records at {isolation}", actual, [(o, value) for o, value, _ in self.rows if o < limit])
            aborted = [
                (transaction.producer_id, transaction.first_offset) for transaction in row.aborted_transactions or ()
            ]
            wanted = [(self.producer, first) for first, _ in self.aborted] if isolation else []
            self.expect(rule, f"aborted transactions at {isolation}", aborted, wanted)
            rows = [ListOffsetsTopic(self.name, [ListOffsetsPartition(0, -1, -1)])]
            latest = await self.ask(
                ListOffsetsRequest(-1, isolation, rows), self.upto(ListOffsetsRequest, 7, 2), self.leader
            )
            self.expect(rule, f"the latest offset at {isolation}", latest.topics[0].partitions[0].offset, limit)
