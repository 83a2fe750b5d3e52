"""The app on librdkafka: ``python -m broker_sim.scenario.apps.confluent_app SETTINGS``; see the package."""

from __future__ import annotations

import sys
import time
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from broker_sim.scenario.apps.common import AppSettings, Orders, listen, report


def _logs(partitions: list[TopicPartition]) -> list[str]:
    return sorted(f"{partition.topic}-{partition.partition}" for partition in partitions)


class ConfluentApp(Orders):
    """A consumer that reads, works and commits."""

    def __init__(self, settings: AppSettings) -> None:
        super().__init__()
        self.settings = settings
        options: dict[str, Any] = {
            "session.timeout.ms": settings.ms("session_timeout"),
            "heartbeat.interval.ms": settings.ms("heartbeat_interval"),
            "max.poll.interval.ms": settings.ms("max_poll_interval"),
            "socket.timeout.ms": settings.ms("request_timeout"),
            "auto.commit.interval.ms": settings.ms("auto_commit_interval"),
            "topic.metadata.refresh.interval.ms": settings.ms("metadata_max_age"),
            "metadata.max.age.ms": settings.ms("metadata_max_age"),
            "group.instance.id": settings.instance_id,
            "partition.assignment.strategy": settings.assignor,
        }
        session_ms = options["session.timeout.ms"]
        if session_ms is not None and options["max.poll.interval.ms"] is None and session_ms > 300_000:
            options["max.poll.interval.ms"] = session_ms  # librdkafka wants it no shorter
        self.consumer = Consumer(
            {
                "bootstrap.servers": settings.bootstrap,
                "client.id": settings.client_id,
                "group.id": settings.group or "none",
                "auto.offset.reset": settings.reset,
                "enable.auto.commit": settings.commit in ("auto", "poll"),
                "error_cb": lambda error: report("error", text=f"{error.name()}: {error.str()}"),
                **{name: value for name, value in options.items() if value is not None},
                **settings.security,
                **settings.config,
            }
        )
        self.next: dict[tuple[str, int], int] = {}

    def run(self) -> None:
        """Poll and commit until the command ``leave``."""
        consumer, settings = self.consumer, self.settings
        if settings.assign:
            topics = consumer.list_topics(timeout=30).topics
            partitions = [TopicPartition(t, p) for t in settings.topics for p in topics[t].partitions]
            consumer.assign(partitions)
            report("assigned", partitions=_logs(partitions))
        else:
            wanted = settings.topics if settings.anchored is None else [settings.anchored]
            consumer.subscribe(wanted, on_assign=self.assigned, on_revoke=self.revoked, on_lost=self.lost)
        while not self.leaving:
            if self.hang_s:
                hang, self.hang_s = self.hang_s, 0.0
                time.sleep(hang)
            self.turn()
        consumer.close()
        report("left")

    def turn(self) -> None:
        """One poll: process its records, then carry out the commands that have arrived meanwhile."""
        records = self.consumer.consume(self.settings.max_poll_records or 500, timeout=0.2)
        for record in records:
            error = record.error()
            if error is not None:
                if error.code() != KafkaError._PARTITION_EOF:
                    report("error", text=f"{error.name()}: {error.str()}")
                continue
            self.handle(record)
        if (self.next and self.settings.commit == "batch") or self.wants_commit:
            self.wants_commit = False
            self.commit()

    def handle(self, record: Message) -> None:
        """Process one record for the time ``work``, and report it."""
        topic, partition, offset = record.topic(), record.partition(), record.offset()
        assert topic is not None
        assert partition is not None
        assert offset is not None
        if self.settings.work_s:
            time.sleep(self.settings.work_s)
        self.next[topic, partition] = offset + 1
        report("read", log=f"{topic}-{partition}", offset=offset)
        if self.settings.commit == "each":
            self.commit()

    def commit(self) -> None:
        """Commit the offsets after the records read, and report the result."""
        offsets = [TopicPartition(topic, index, offset) for (topic, index), offset in self.next.items()]
        if not offsets:
            return
        try:
            done = self.consumer.commit(offsets=offsets, asynchronous=False) or []
            failed = next((partition.error for partition in done if partition.error is not None), None)
            if failed is not None:
                raise KafkaException(failed)
        except KafkaException as error:
            report("commit_failed", text=f"{error.args[0].name()}: {error.args[0].str()}")
        else:
            report(
                "committed",
                offsets={f"{partition.topic}-{partition.partition}": partition.offset for partition in offsets},
            )
            self.next = {}

    def assigned(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        """Called by librdkafka at the end of a rebalance: report the assigned partitions."""
        report("assigned", partitions=_logs(partitions))

    def revoked(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        """Called by librdkafka at the start of a rebalance: report the revoked partitions."""
        self.next = {}
        report("revoked", partitions=_logs(partitions))

    def lost(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        """The partitions belong to another member already."""
        self.next = {}
        report("lost", partitions=_logs(partitions))


def main() -> None:
    """Run the app until the command ``leave``, or the end of stdin."""
    app = ConfluentApp(AppSettings(sys.argv[1]))
    listen(app.obey)
    app.run()


if __name__ == "__main__":
    main()
