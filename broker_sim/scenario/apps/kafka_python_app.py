"""The app on kafka-python: ``python -m broker_sim.scenario.apps.kafka_python_app SETTINGS``; see the package."""

from __future__ import annotations

import time
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from broker_sim.scenario.apps.common import AppSettings, Orders, ScenarioPipe, program


def _logs(partitions: Any) -> list[str]:
    return sorted(f"{partition.topic}-{partition.partition}" for partition in partitions)


class KafkaPythonApp(Orders, ConsumerRebalanceListener):  # type: ignore[misc]
    """A consumer that reads, works and commits."""

    def __init__(self, settings: AppSettings, line: ScenarioPipe) -> None:
        super().__init__()
        self.settings, self.report = settings, line.report
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
        self.consumer = KafkaConsumer(
            bootstrap_servers=settings.bootstrap.split(","),
            client_id=settings.client_id,
            group_id=settings.group,
            auto_offset_reset=settings.reset,
            enable_auto_commit=settings.commit in ("auto", "poll"),
            **settings.python_security,
            ssl_cafile=settings.security.get("ssl.ca.location"),
            **{name: value for name, value in options.items() if value is not None},
            **settings.config,
        )

    def run(self) -> None:
        """Poll and commit until the command ``leave``."""
        consumer, settings = self.consumer, self.settings
        if settings.assign:
            partitions = [TopicPartition(t, p) for t in settings.topics for p in consumer.partitions_for_topic(t) or ()]
            consumer.assign(partitions)
            self.report("assigned", partitions=_logs(partitions))
        else:
            consumer.subscribe(settings.topics, pattern=settings.anchored, listener=self)
        while not self.leaving:
            if self.hang_s:
                hang, self.hang_s = self.hang_s, 0.0
                time.sleep(hang)
            self.turn()
        consumer.close()
        self.report("left")

    def turn(self) -> None:
        """One poll: process its records, then carry out the commands that have arrived meanwhile."""
        try:
            batches = self.consumer.poll(timeout_ms=200)
        except KafkaError as error:
            self.report("error", text=f"{type(error).__name__}: {error}")
            return
        for partition, records in batches.items():
            for record in records:
                if self.settings.work_s:
                    time.sleep(self.settings.work_s)
                self.report("read", log=f"{partition.topic}-{partition.partition}", offset=record.offset)
                if self.settings.commit == "each":
                    self.commit()
        if (batches and self.settings.commit == "batch") or self.wants_commit:
            self.wants_commit = False
            self.commit()

    def commit(self) -> None:
        """Commit the consumer's positions of all assigned partitions."""
        offsets = {
            partition: OffsetAndMetadata(self.consumer.position(partition), "", -1)
            for partition in self.consumer.assignment()
        }
        try:
            self.consumer.commit(offsets)
        except KafkaError as error:
            self.report("commit_failed", text=f"{type(error).__name__}: {error}")
        else:
            self.report(
                "committed",
                offsets={f"{partition.topic}-{partition.partition}": at.offset for partition, at in offsets.items()},
            )

    def on_partitions_revoked(self, revoked: object) -> None:
        """Called by kafka-python at the start of a rebalance: report the revoked partitions."""
        self.report("revoked", partitions=_logs(revoked))

    def on_partitions_assigned(self, assigned: object) -> None:
        """Called by kafka-python at the end of a rebalance: report the assigned partitions."""
        self.report("assigned", partitions=_logs(assigned))


def live(settings: AppSettings, line: ScenarioPipe) -> int:
    """The whole program; its exit code."""
    app = KafkaPythonApp(settings, line)
    line.listen(app.obey)
    app.run()
    return 0


if __name__ == "__main__":
    program(live)
