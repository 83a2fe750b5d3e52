"""The app on aiokafka: ``python -m broker_sim.scenario.apps.aiokafka_app SETTINGS``; see the package."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import InvalidProducerEpoch, KafkaError, ProducerFenced

from broker_sim.scenario.apps.common import AppSettings, Orders, ScenarioPipe, program

_ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


def _log(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"


def _security(settings: AppSettings) -> dict[str, Any]:
    authority = settings.security.get("ssl.ca.location")
    context = {} if authority is None else {"ssl_context": ssl.create_default_context(cafile=authority)}
    return {**settings.python_security, **context}


_FENCED = (ProducerFenced, InvalidProducerEpoch)


class AiokafkaApp(Orders, ConsumerRebalanceListener):  # type: ignore[misc]
    """A consumer that reads, works and commits."""

    def __init__(self, settings: AppSettings, line: ScenarioPipe) -> None:
        super().__init__()
        self.settings, self.report = settings, line.report
        self.committed_s = 0.0
        options: dict[str, Any] = {
            "session_timeout_ms": settings.ms("session_timeout"),
            "heartbeat_interval_ms": settings.ms("heartbeat_interval"),
            "max_poll_interval_ms": settings.ms("max_poll_interval"),
            "request_timeout_ms": settings.ms("request_timeout"),
            "auto_commit_interval_ms": settings.ms("auto_commit_interval"),
            "metadata_max_age_ms": settings.ms("metadata_max_age"),
            "max_poll_records": settings.max_poll_records,
            "group_instance_id": settings.instance_id,
        }
        if settings.assignor:
            options["partition_assignment_strategy"] = (_ASSIGNORS[settings.assignor],)
        security = _security(settings)
        self.consumer = AIOKafkaConsumer(
            bootstrap_servers=settings.bootstrap,
            client_id=settings.client_id,
            group_id=settings.group,
            auto_offset_reset=settings.reset,
            enable_auto_commit=settings.commit == "auto",
            retry_backoff_ms=50,
            **security,
            **{name: value for name, value in options.items() if value is not None},
            **settings.config,
        )
        self.producer: AIOKafkaProducer | None = None
        if settings.transactional_id is not None:
            self.producer = AIOKafkaProducer(
                bootstrap_servers=settings.bootstrap,
                client_id=settings.client_id,
                transactional_id=settings.transactional_id,
                transaction_timeout_ms=settings.ms("transaction_timeout") or 60_000,
                retry_backoff_ms=50,
                **security,
            )

    async def run(self) -> None:
        """Poll and commit until the command ``leave``."""
        consumer, settings = self.consumer, self.settings
        await consumer.start()
        try:
            if self.producer is not None:
                await self.producer.start()
            if settings.assign:
                partitions = await self.partitions()
                consumer.assign(partitions)
                self.report("assigned", partitions=[_log(partition) for partition in partitions])
            else:
                consumer.subscribe(settings.topics, pattern=settings.anchored, listener=self)
            while not self.leaving:
                await self.turn()
        finally:
            try:
                await consumer.stop()
            finally:
                if self.producer is not None:
                    await self.producer.stop()
            self.report("left")

    async def partitions(self) -> list[TopicPartition]:
        """All partitions of the topics; the consumer itself knows none before it is assigned one."""
        admin = AIOKafkaAdminClient(
            bootstrap_servers=self.settings.bootstrap, client_id=self.settings.client_id, **_security(self.settings)
        )
        await admin.start()
        try:
            topics = await admin.describe_topics(self.settings.topics)
        finally:
            await admin.close()
        return [
            TopicPartition(topic["topic"], partition["partition"])
            for topic in topics
            for partition in topic["partitions"]
        ]

    async def turn(self) -> None:
        """One poll: process its records, then carry out the commands that have arrived meanwhile."""
        if self.hang_s:
            hang, self.hang_s = self.hang_s, 0.0
            await asyncio.sleep(hang)
        try:
            batches = await self.consumer.getmany(timeout_ms=200)
        except KafkaError as error:
            self.report("error", text=f"{type(error).__name__}: {error}")
            return
        if self.producer is not None:
            if batches:
                await self.transaction(batches)
            return
        for partition, records in batches.items():
            for record in records:
                if self.settings.work_s:
                    await asyncio.sleep(self.settings.work_s)
                self.report("read", log=_log(partition), offset=record.offset)
                if self.settings.commit == "each":
                    await self.commit()
        if (batches and self.settings.commit == "batch") or self.wants_commit or self.is_due():
            self.wants_commit = False
            await self.commit()

    async def transaction(self, batches: dict[TopicPartition, list[Any]]) -> None:
        """Write records to the topic ``to`` and commit their offsets in one transaction. Raises the KafkaError of a fenced producer."""
        producer, settings = self.producer, self.settings
        assert producer is not None
        offsets = {partition: records[-1].offset + 1 for partition, records in batches.items()}
        try:
            await producer.begin_transaction()
            for partition, records in batches.items():
                for record in records:
                    await producer.send_and_wait(settings.to, record.value, key=record.key)
                    self.report("read", log=_log(partition), offset=record.offset)
            await producer.send_offsets_to_transaction(offsets, settings.group)
            self.report("begun")
            if self.hang_s:
                hang, self.hang_s = self.hang_s, 0.0
                await asyncio.sleep(hang)
            if settings.work_s:
                await asyncio.sleep(settings.work_s)
            await producer.commit_transaction()
        except _FENCED:
            raise
        except KafkaError as error:
            self.report("commit_failed", text=f"{type(error).__name__}: {error}")
            await producer.abort_transaction()
            self.report("aborted")
            await self._back()
        else:
            self.report("committed", offsets={_log(partition): offset for partition, offset in offsets.items()})

    async def _back(self) -> None:
        """Seek to the committed offsets, after a failed transaction."""
        for partition in self.consumer.assignment():
            committed = await self.consumer.committed(partition)
            if committed is None:
                await self.consumer.seek_to_beginning(partition)
            else:
                self.consumer.seek(partition, committed)

    def is_due(self) -> bool:
        """Whether it commits at polls, and the interval has passed."""
        if self.settings.commit != "poll":
            return False
        now_s = asyncio.get_running_loop().time()
        due = now_s - self.committed_s >= (self.settings.ms("auto_commit_interval") or 5000) / 1000
        if due:
            self.committed_s = now_s
        return due

    async def commit(self) -> None:
        """Commit the consumer's positions of all assigned partitions."""
        offsets = {partition: await self.consumer.position(partition) for partition in self.consumer.assignment()}
        if not offsets:
            return
        try:
            await self.consumer.commit(offsets)
        except KafkaError as error:
            self.report("commit_failed", text=f"{type(error).__name__}: {error}")
        else:
            self.report("committed", offsets={_log(partition): offset for partition, offset in offsets.items()})

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        """Called by aiokafka at the start of a rebalance: report the revoked partitions."""
        if self.settings.commit == "poll" and revoked:
            await self.commit()
        self.report("revoked", partitions=sorted(map(_log, revoked)))

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        """Called by aiokafka at the end of a rebalance: report the assigned partitions."""
        self.report("assigned", partitions=sorted(map(_log, assigned)))


async def live(settings: AppSettings, line: ScenarioPipe) -> int:
    """The whole program; its exit code."""
    app = AiokafkaApp(settings, line)
    line.listen(app.obey)
    try:
        await app.run()
    except _FENCED as error:
        line.report("fenced", text=f"{type(error).__name__}: {error}")
        await app.left.wait()  # its consumer has left the group: there is nothing more to be done
    except KafkaError as error:
        line.report("error", text=f"{type(error).__name__}: {error}")
        return 1
    return 0


if __name__ == "__main__":
    program(live)
