"""One consumer of the demo, a program of its own: ``python -m broker_sim.demo.consumer NAME BOOTSTRAP``.

It reads with aiokafka as an application would, and commits after every COMMIT_EVERY records and before it gives partitions away.
What it does goes to stdout, a JSON object a line, *before* it does the next thing:

    {"event": "assigned", "positions": {"0": 40}}     # the committed offset of each partition, where it goes on
    {"event": "read", "partition": 0, "offset": 40}
    {"event": "committed", "offsets": {"0": 50}}      # the broker has acknowledged
    {"event": "revoked"}  {"event": "left"}

stdin takes ``fast`` (no more pauses between records) and ``leave``; its end means that the demo ended, and ends the process.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import CommitFailedError, IllegalStateError, KafkaError

TOPIC = "orders"
GROUP = "billing"
COMMIT_EVERY = 10
WORK_MS = 20
"""Milliseconds of work on one record, until the command ``fast``."""
SESSION_MS = 2000
HEARTBEAT_MS = 250


def report(event: str, **details: Any) -> None:
    """One line for the demo."""
    sys.stdout.write(json.dumps({"event": event, **details}) + "\n")
    sys.stdout.flush()


class Application(ConsumerRebalanceListener):  # type: ignore[misc]
    """The consumer with what it has read and not committed. ``lock`` keeps records, commits and rebalances apart."""

    def __init__(self, name: str, bootstrap: str) -> None:
        self.lock = asyncio.Lock()
        self.next: dict[int, int] = {}
        self.uncommitted = 0
        self.work_ms = WORK_MS
        self.consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=GROUP,
            client_id=name,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            max_partition_fetch_bytes=1,  # one batch at a time: partitions are read side by side
        )

    async def run(self) -> None:
        """Read records until the task is cancelled. The lock keeps a rebalance from interrupting a record's handling."""
        self.consumer.subscribe([TOPIC], listener=self)
        await self.consumer.start()
        try:
            while True:
                record = await self.consumer.getone()
                async with self.lock:
                    await self.handle(record.partition, record.offset)
        except asyncio.CancelledError:
            async with self.lock:
                await self.commit()
        finally:
            await self.consumer.stop()
            report("left")

    async def handle(self, partition: int, offset: int) -> None:
        """Work on one record, unless it was fetched before a rebalance that took its partition away."""
        if partition not in self.next or offset > self.next[partition]:
            return
        self.next[partition] = offset + 1
        self.uncommitted += 1
        report("read", partition=partition, offset=offset)
        if self.work_ms:
            await asyncio.sleep(self.work_ms / 1000)
        if self.uncommitted >= COMMIT_EVERY:
            await self.commit()

    async def commit(self) -> None:
        """Commit the offsets of the records read. Fails if the group has rebalanced meanwhile: the partition's new owner then reads
        these records again."""
        if not self.uncommitted:
            return
        offsets = dict(self.next)
        try:
            await self.consumer.commit({TopicPartition(TOPIC, p): offset for p, offset in offsets.items()})
        except (CommitFailedError, IllegalStateError, KafkaError) as error:
            print(f"commit failed: {error!r}", file=sys.stderr)
            return
        self.uncommitted = 0
        report("committed", offsets=offsets)

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        """Report that a rebalance begins."""
        async with self.lock:
            if self.next:
                await self.commit()
                report("revoked")
            self.next, self.uncommitted = {}, 0

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        """A rebalance is over: go on at the committed offsets."""
        async with self.lock:
            for partition in sorted(assigned):
                self.next[partition.partition] = await self.consumer.committed(partition) or 0
            report("assigned", positions=self.next)


async def _main(name: str, bootstrap: str) -> None:
    application = Application(name, bootstrap)
    loop = asyncio.get_running_loop()
    reading = asyncio.ensure_future(application.run())
    commands = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)

    async def obey() -> None:
        while line := await commands.readline():
            if line.strip() == b"fast":
                application.work_ms = 0
            elif line.strip() == b"leave":
                reading.cancel()
        os._exit(0)

    obeying = asyncio.ensure_future(obey())
    await reading
    obeying.cancel()


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], sys.argv[2]))
