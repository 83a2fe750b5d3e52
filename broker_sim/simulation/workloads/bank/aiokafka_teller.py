"""A teller that works with aiokafka, as in its documentation: transactions of version 1, and a transactional id for each
partition of the orders. aiokafka's producers don't send the group's generation (KIP-447), so it is the next owner's producer that
fences the last one's: it begins before the position is asked for."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

from broker_sim.simulation.workloads.bank.book import ACCOUNTS, AUDIT, Attempt, Book, PaymentOrder
from broker_sim.simulation.workloads.raw import GROUP, TOPIC

if TYPE_CHECKING:
    from broker_sim.simulation.cluster import SimCluster
    from broker_sim.simulation.hosts import Host
    from broker_sim.simulation.protocols import RunControl

__all__ = ["AiokafkaTeller"]

_AGAIN_S, _STOP_S, _BEGIN_S = 1.0, 20.0, 30.0
_TIMEOUT_MS = 8000
"""Timeout of transactions."""
_SECOND_THOUGHTS = 0.12
"""The share of transactions that are aborted for no reason."""
_MOST = 6
"""Orders that are carried out in one transaction."""


@dataclass(slots=True)
class AiokafkaTeller:
    """A member of the group. ``options``: of its consumer; ``hang_s``: set it, and its next transaction takes that long."""

    sim: RunControl
    host: Host
    kafka: SimCluster
    book: Book
    options: dict[str, Any]
    hang_s: float = 0.0
    failures: list[str] = field(default_factory=list)
    _producers: dict[int, _Producing] = field(default_factory=dict)
    _assigned: list[Any] = field(default_factory=list)
    _rebalances: int = 0
    _opened: int = 0
    _rng: Random = field(default_factory=Random)

    async def run(self) -> None:
        """For ever: when anything fails it starts its clients anew."""
        from aiokafka.errors import IllegalOperation, KafkaError

        # IllegalOperation: a request of the transaction has failed behind the program's back, and it sends another record
        self._rng = Random(f"{self.sim.seed}/{self.host.name}")
        while True:
            self._producers.clear()
            self._assigned, self._rebalances, self._opened = [], 0, 0
            try:
                await self._live()
            except (KafkaError, IllegalOperation, OSError, TimeoutError) as error:
                self.failures.append(f"{self.sim.elapsed_s:.3f} {error!r}")
            await asyncio.sleep(_AGAIN_S)

    async def _live(self) -> None:
        from aiokafka import AIOKafkaConsumer

        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.kafka.bootstrap, group_id=GROUP, client_id=self.host.name, enable_auto_commit=False,
            auto_offset_reset="earliest", isolation_level="read_committed", max_poll_records=_MOST, **self.options,
        )  # fmt: skip
        _raise_errors_of_offset_fetch(consumer)
        consumer.subscribe([TOPIC], listener=self._listener())
        try:
            await consumer.start()
            while True:
                await self._turn(consumer)
        finally:
            producers = [producer.producer for producer in self._producers.values()]
            await asyncio.gather(*(_stop(client.stop) for client in (consumer, *producers)))

    def _listener(self) -> Any:
        from aiokafka import ConsumerRebalanceListener

        teller = self

        class TellerListener(ConsumerRebalanceListener):  # type: ignore[misc]
            async def on_partitions_revoked(self, revoked: object) -> None:
                teller._rebalances += 1
                teller._assigned = []

            async def on_partitions_assigned(self, assigned: Any) -> None:
                teller._rebalances += 1
                teller._assigned = sorted(assigned)

        return TellerListener()

    async def _turn(self, consumer: Any) -> None:
        from aiokafka.errors import IllegalStateError

        if self._opened != self._rebalances:
            rebalances = self._rebalances
            with contextlib.suppress(IllegalStateError):  # a partition was taken away meanwhile
                await self._open(consumer, list(self._assigned))
                self._opened = rebalances
            await asyncio.sleep(0.05)
            return
        batches = await consumer.getmany(timeout_ms=500, max_records=_MOST)
        for partition, records in batches.items():
            if self._opened != self._rebalances:
                return  # where the new owner begins is none of its business
            with contextlib.suppress(IllegalStateError):
                await self._carry_out(consumer, partition, records)

    async def _open(self, consumer: Any, assigned: list[Any]) -> None:
        """Fence the previous owners of the partitions (InitProducerId) before fetching their committed offsets."""
        from aiokafka import AIOKafkaProducer

        old, self._producers = self._producers, {}
        await asyncio.gather(*(_stop(producing.producer.stop) for producing in old.values()))
        for partition in assigned:
            producer = AIOKafkaProducer(
                bootstrap_servers=self.kafka.bootstrap, client_id=f"{self.host.name}-{partition.partition}", acks="all",
                transactional_id=f"teller-{partition.partition}", transaction_timeout_ms=_TIMEOUT_MS,
                **{name: self.options[name] for name in ("request_timeout_ms", "metadata_max_age_ms")},
            )  # fmt: skip
            new = self._producers[partition.partition] = _Producing(producer)
            await asyncio.wait_for(producer.start(), _BEGIN_S)
            new.listen()
        for partition in assigned:
            consumer.seek(partition, await consumer.committed(partition) or 0)

    async def _carry_out(self, consumer: Any, partition: Any, records: list[Any]) -> None:
        """One transaction. Raises what its clients raise."""
        from aiokafka.structs import OffsetAndMetadata

        orders = [PaymentOrder(partition.partition, record.offset) for record in records]
        producing = self._producers[partition.partition]
        producer, topics = producing.producer, self.kafka.state.topics
        attempt = producing.attempt = self.book.begin(self.host.name, flow=1)
        attempt.given_up = producing.gave_up
        rows = self.book.entries(attempt, orders, len(topics[ACCOUNTS].partitions), len(topics[AUDIT].partitions))
        await producer.begin_transaction()
        sent = []
        for (topic, index), entries in rows.items():
            for entry in entries:
                attempt.unanswered += 1
                sent.append(((topic, index), await producer.send(topic, entry.to_bytes(), partition=index)))
        for place, future in sent:
            await future
            attempt.unanswered -= 1
            attempt.acked[place] = None
        hang_s, self.hang_s = self.hang_s, 0.0
        if hang_s:
            await asyncio.sleep(hang_s)
        after = orders[-1].offset + 1
        await producer.send_offsets_to_transaction({partition: OffsetAndMetadata(after, attempt.name)}, GROUP)
        attempt.offsets[partition.partition] = after
        commits = self._rng.random() >= _SECOND_THOUGHTS
        await (producer.commit_transaction() if commits else producer.abort_transaction())
        attempt.reported = commits
        if not commits:
            consumer.seek(partition, orders[0].offset)


@dataclass(slots=True)
class _Producing:
    """A producer and what is known of it. ``gave_up``: it has sent a request again that may come yet, as one of the next
    transaction."""

    producer: Any
    attempt: Attempt | None = None
    gave_up: bool = False

    def listen(self) -> None:
        """Note requests of aiokafka's sender that got no response: the library does not report them."""
        from aiokafka.errors import KafkaError

        real = self.producer.client.send

        async def send(*args: Any, **options: Any) -> Any:
            try:
                return await real(*args, **options)
            except KafkaError:
                self.gave_up = True
                if self.attempt is not None:
                    self.attempt.given_up = True
                raise

        self.producer.client.send = send


def _raise_errors_of_offset_fetch(consumer: Any) -> None:
    """Raise the error of a whole OffsetFetch response (version 2 and up) in the client's ``send``, where the library finds the
    coordinator again and retries. aiokafka 0.14 reads the errors of partitions alone, so that ``committed()`` returns None while
    a coordinator moves: the teller would begin at offset 0 and carry out orders for a second time."""
    from aiokafka.errors import for_code
    from aiokafka.protocol.commit import OffsetFetchResponse_v2, OffsetFetchResponse_v3

    real = consumer._client.send

    async def send(*args: Any, **options: Any) -> Any:
        response = await real(*args, **options)
        if isinstance(response, (OffsetFetchResponse_v2, OffsetFetchResponse_v3)) and response.error_code:
            raise for_code(response.error_code)()
        return response

    consumer._client.send = send


async def _stop(stop: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """A client's stop(), which may try for ever what it has not finished."""
    from aiokafka.errors import KafkaError

    with contextlib.suppress(KafkaError, OSError, TimeoutError):
        async with asyncio.timeout(_STOP_S):
            await stop()
