"""The bank as a workload of sweeps: its cluster, its clients, the invariants during faults and the checks after healing.

After the healing every committed order is carried out, no transaction is open, and the logs are read: see `logs.check_logs`. If a
transaction of version 1 is open that its coordinator does not know (`book.HOLE`), it is aborted as an operator would
(``kafka-transactions --abort``), and the bank goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from broker_sim.coordinator.transaction.transaction import CLOSED
from broker_sim.metadata.topics import TRANSACTION_TOPIC
from broker_sim.simulation.checks.liveness import NotAlive, bound_s
from broker_sim.simulation.workloads.aiokafka_workload import consumer_options, through
from broker_sim.simulation.workloads.bank.aiokafka_teller import AiokafkaTeller
from broker_sim.simulation.workloads.bank.book import ACCOUNTS, AUDIT, Book
from broker_sim.simulation.workloads.bank.logs import LogTransaction, check_logs, log_transactions, orders_of
from broker_sim.simulation.workloads.bank.wire import Auditor, Clerk, Teller
from broker_sim.simulation.workloads.catalogue import REBALANCE_S, REQUEST_S, SESSION_S
from broker_sim.simulation.workloads.raw import CONFIG, GROUP, TOPIC, RawClient, RawContext, UncheckedAnswers
from kafka_wire.api_keys import release
from kafka_wire.messages.k27_write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from kafka_wire.messages.k61_describe_producers import DescribeProducersRequest, TopicRequest

if TYPE_CHECKING:
    from broker_sim.simulation.cluster import SimCluster
    from broker_sim.simulation.faults.kinds import Fault, Injection
    from broker_sim.simulation.sweeps.trial import Case
    from broker_sim.simulation.workloads.aiokafka_workload import InvariantWatch
    from broker_sim.simulation.workloads.catalogue import Workload
    from broker_sim.simulation.workloads.deeds import Deed
    from broker_sim.simulation.world import Simulation

__all__ = ["Bank"]

_LOOK_S, _QUIET_S = 0.5, 2.0
_WIRE_WITHIN_S = 45.0
_HANGS_S = 6.0
"""A transaction that is open for so long after the healing, and that no coordinator knows, hangs: longer than any timeout of one."""


class Bank:
    """The bank's cluster and clients in a sweep; the bank itself is `book`."""

    def __init__(self, sim: Simulation, case: Case, workload: Workload, watch: InvariantWatch) -> None:
        self.sim, self.watch, self.workload = sim, watch, workload
        on_wire = workload.bank == "wire"
        factor = min(3, workload.brokers)
        replication = {"default.replication.factor": factor, "offsets.topic.replication.factor": factor}
        self.kafka: SimCluster = sim.cluster(
            workload.brokers, dict(workload.topics), journal=case.journal is not False, as_version=case.release,
            config={**(CONFIG if on_wire else {}), **replication, **workload.config},
            disk=bool(workload.disk), sync=workload.disk == "synced",
        )  # fmt: skip
        self.kafka.on_loss = watch.breach
        state = self.kafka.state
        state.ensure_offsets_topic()
        state.ensure_internal_topic(TRANSACTION_TOPIC)
        self.book = Book(watch.breach, lambda: sim.elapsed_s)
        dice = random.Random(f"{case.seed}/bank")
        newest = 2 if release(case.as_version or "4.1") >= (4, 0) else 1
        self.flow = workload.flow or (newest if dice.random() < 0.7 else 1)
        self.careful = dice.random() < 0.7
        unheard = UncheckedAnswers(state, lambda: sim.elapsed_s, lambda error: None)
        self.context = RawContext(sim, self.kafka, unheard, workload.topics[TOPIC], only=case.deeds)
        self.clerk = Clerk(self.context, "clerk", self.book, newest, True, workload.topics[TOPIC], workload.every_s)
        self.auditor = Auditor(
            self.context, "auditor", self.book, {name: workload.topics[name] for name in (ACCOUNTS, AUDIT)}
        )
        team = workload.teams[0]
        names = workload.clients(case.members)
        self.tellers: list[Teller | AiokafkaTeller] = []
        for name in names:
            host = sim.host(name)
            if name in case.absent:
                continue
            if on_wire:
                self.tellers.append(Teller(self.context, name, self.book, self.flow, self.careful))
                host.spawn(self.tellers[-1].run)
            else:
                teller = AiokafkaTeller(sim, host, self.kafka, self.book, consumer_options(team, name))
                self.tellers.append(teller)
                host.spawn(through(teller.run))
        for other in (self.clerk, self.auditor):
            host = sim.host(other.name)
            if other.name not in case.absent:
                host.spawn(other.run)
        self._audits = self.auditor.name not in case.absent

    @property
    def waived(self) -> Counter[str]:
        """Breaches that were found and are known."""
        return self.book.found

    @property
    def done(self) -> list[Deed]:
        """The deeds of clients that draw them."""
        return self.context.deeds.done

    def turns(self, plan: tuple[Fault, ...]) -> None:
        """No invariant of a bank is waived for a fault: the watch knows all."""

    def hangs(self) -> Mapping[str, Callable[[float], object]]:
        """Function for each host that lets its application hang in the midst of its transaction."""

        def hang(teller: AiokafkaTeller) -> Callable[[float], object]:
            return lambda hang_s: setattr(teller, "hang_s", hang_s)

        return {teller.host.name: hang(teller) for teller in self.tellers if isinstance(teller, AiokafkaTeller)}

    def finish(self) -> None:
        self.clerk.over = True

    # --- the second phase

    def settle(self, injection: Injection) -> float:
        """Wait until every order is carried out and every transaction over; then read the logs. Returns the virtual seconds that the
        first took. Raises NotAlive, InvariantBroken."""
        sim, began_s = self.sim, self.sim.elapsed_s
        within_s = _WIRE_WITHIN_S
        if self.workload.bank != "wire":
            within_s = bound_s(session_s=SESSION_S, rebalance_s=REBALANCE_S, request_s=REQUEST_S)
            within_s += max((f.args["hang_s"] for f in injection.begun if f.kind == "hang"), default=0.0)
        until_s, quiet_s = began_s + within_s, sim.elapsed_s
        hanging_since: dict[tuple[str, int, int], float] = {}
        while sim.elapsed_s - quiet_s < _QUIET_S:
            sim.run_for(_LOOK_S)
            self.watch.check()
            lacking = self._lacking()
            if not lacking:
                continue
            quiet_s = sim.elapsed_s
            hanging = {
                (
                    open_transaction.partition.name,
                    open_transaction.producer_id,
                    open_transaction.first_offset,
                ): open_transaction
                for open_transaction in self._hanging()
            }
            hanging_since = {key: hanging_since.get(key, sim.elapsed_s) for key in hanging}
            for key, transaction in hanging.items():
                if sim.elapsed_s - hanging_since[key] >= _HANGS_S:
                    self.book.breach(
                        "no transaction hangs",
                        f"{transaction.partition.name} from {transaction.first_offset} on",
                        transaction.attempts,
                    )
                    self.watch.check()
                    sim.run(self._abort(transaction), within=30)
                    until_s = sim.elapsed_s + within_s
            if sim.elapsed_s > until_s:
                raise self._not_alive(lacking, within_s)
        self.watch.stops = False
        state = self.kafka.state
        written = [partition for name in (ACCOUNTS, AUDIT) for partition in state.topics[name].partitions]
        written.append(self.kafka.offsets_log(GROUP).partition)
        committed = {
            index: offset for (topic, index), offset in self.kafka.group(GROUP).committed().items() if topic == TOPIC
        }
        check_logs(self.book, state.topics[TOPIC], written, committed)
        self.watch.check()
        return quiet_s - began_s

    def _lacking(self) -> list[tuple[str, str]]:
        """Return each thing that is not yet as it should be, as a short name and as a sentence."""
        state = self.kafka.state
        unmet = [
            (
                "open transaction",
                f"{transaction.partition.name} has one of {transaction.producer_id} from {transaction.first_offset} on",
            )
            for transaction in self._open()
        ]
        unmet += [("transaction", f"{name} is {where} in {log}") for log, name, where in self._undecided()]
        for (topic, index), position in self.auditor.positions.items() if self._audits else ():
            partition = state.topics[topic].partitions[index]
            if position < partition.high_watermark or partition.high_watermark < partition.log_end_offset:
                unmet.append(("reader", f"{partition.name} is read up to {position} of {partition.log_end_offset}"))
        done = self.kafka.group(GROUP).committed()
        waiting = [
            order for order in orders_of(state.topics[TOPIC]) if order.offset >= done.get((TOPIC, order.partition), 0)
        ]
        if waiting:
            unmet.append(("orders", f"{len(waiting)} orders are not carried out, the first {waiting[0]}"))
        return unmet

    def _open(self) -> Iterator[LogTransaction]:
        topics = self.kafka.state.topics
        for name in (TOPIC, ACCOUNTS, AUDIT):
            for partition in topics[name].partitions:
                if partition.last_stable_offset < partition.log_end_offset:
                    yield from (
                        transaction for transaction in log_transactions(partition) if transaction.commits is None
                    )
        yield from (
            transaction
            for transaction in log_transactions(self.kafka.offsets_log(GROUP).partition)
            if transaction.commits is None
        )

    def _undecided(self) -> Iterator[tuple[str, str, str]]:
        for partition in self.kafka.state.topics[TRANSACTION_TOPIC].partitions:
            shard = self.kafka.transactions.shard(partition.index)
            for name, transaction in () if shard is None else shard.transactions.items():
                if transaction.stored.state not in CLOSED:
                    yield partition.name, name, transaction.stored.state.kafka_name

    def _hanging(self) -> list[LogTransaction]:
        """Open ones that no coordinator will end."""
        known: set[tuple[int, str, int]] = set()
        for partition in self.kafka.state.topics[TRANSACTION_TOPIC].partitions:
            shard = self.kafka.transactions.shard(partition.index)
            if shard is None:
                return []
            for transaction in shard.transactions.values():
                if transaction.stored.state not in CLOSED:
                    known |= {(transaction.stored.producer_id, *at) for at in transaction.stored.partitions}
        return [
            transaction for transaction in self._open()
            if (transaction.producer_id, transaction.partition.topic.name, transaction.partition.index) not in known
        ]  # fmt: skip

    async def _abort(self, transaction: LogTransaction) -> None:
        """As ``kafka-transactions --abort`` does: what the partition's leader says of the producer goes into a marker."""
        partition, operator = transaction.partition, RawClient(self.context, "auditor")
        topic, index = partition.topic.name, partition.index
        while True:
            with contextlib.suppress(OSError):
                line = await operator.line(partition.leader)
                described = await line.start(DescribeProducersRequest([TopicRequest(topic, [index])]), 0)
                rows = [
                    row
                    for row in described.topics[0].partitions[0].active_producers
                    if row.producer_id == transaction.producer_id
                ]
                if not rows or rows[0].current_txn_start_offset < 0:
                    break
                marker = WritableTxnMarker(
                    transaction.producer_id, rows[0].producer_epoch, False, [WritableTxnMarkerTopic(topic, [index])],
                    max(0, rows[0].coordinator_epoch),
                )  # fmt: skip
                await line.start(WriteTxnMarkersRequest([marker]), 1)
            await asyncio.sleep(0.1)
        operator.close()

    def _not_alive(self, lacking: list[tuple[str, str]], within_s: float) -> NotAlive:
        lines: list[Any] = [f"{within_s:g} s after everything was healed:", *(f"  {text}" for _, text in lacking[:12])]
        for teller in self.tellers:
            if isinstance(teller, AiokafkaTeller):
                lines.append(f"  {teller.host.name}: {teller.failures[-2:]}")
            else:
                lines.append(
                    f"  {teller.name} {teller.member or '-'}, generation {teller.generation}, {teller.beats} Heartbeats"
                )
        error = NotAlive("\n".join(map(str, lines)))
        error.lacking = lacking[0][0]
        return error
