"""One consumer's process: `python -m tests.incidents.member OPTIONS` (JSON, `Options`), told what to do by lines on stdin.

It polls, "works", and commits what it has read, as a plain service does. It says on stdout, a JSON object a line, what it has
(`assigned`) and what it has committed (`committed`), and logs where it is told to, in its library's own layout. Commands, a JSON
object a line:

    {"do": "close"}                    leaves the group as its library does, and ends
    {"do": "block", "seconds": 30}     works so long on one record: no poll meanwhile
    {"do": "seek", "back": 50}         goes back so many records on each partition, and reads on from there
    {"do": "old", "back": 50}          commits so many records less than it has read, once, and reads on
    {"do": "mute", "on": true}         commits nothing (until told again)
    {"do": "again", "on": true}        commits what it has read each time, be it new or not
    {"do": "hang"}                     begins a transaction with its offsets, and stands still for ever
    {"do": "restart"}                  closes its consumer and makes a new one

The end of stdin is a `close`. A record whose value is `dies_on` kills it (SIGKILL, as a segmentation fault or the OOM killer would).
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import queue
import signal
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

POLL_MS = 200
LAYOUTS = (
    "%(asctime)s %(levelname)-8s %(name)s: %(message)s",
    "%(asctime)s - %(name)s - %(levelname)s - %(message)s",
    "[%(asctime)s] %(levelname)s [%(name)s:%(lineno)d] %(message)s",
)
"""As Python services lay out their lines."""


@dataclass
class Options:
    client: str  # aiokafka, kafka-python, confluent
    bootstrap: str
    group: str
    topic: str
    client_id: str
    log: str
    layout: int = 0
    instance_id: str | None = None
    protocol: str = "classic"
    assignor: str = "range"  # range, cooperative, both (of the first of two bounces from one to the other; Java alone)
    session_ms: int = 6000
    heartbeat_ms: int = 1500
    max_poll_ms: int = 60_000
    commit_ms: int = 1000
    work_ms: int = 0
    dies_on: str | None = None
    join: bool = True
    """False: assign() of all `partitions` of the topic, and commits all the same."""
    partitions: int = 0
    reset: str = "earliest"
    metadata_ms: int = 300_000
    """Interval in ms at which the client looks for new partitions (metadata.max.age.ms)."""
    transaction: dict[str, Any] = field(default_factory=dict)
    """With an `id` (and `timeout_ms`, `abort_every`) commits are transactions of a producer; confluent alone."""


Place = tuple[str, int]


class Client(Protocol):
    """Common interface of the three libraries."""

    def poll(self) -> list[tuple[Place, int, bytes]]: ...
    def assignment(self) -> list[Place]: ...
    def commit(self, offsets: dict[Place, int]) -> None: ...
    def seek(self, place: Place, offset: int) -> None: ...
    def close(self) -> None: ...


class Aiokafka:
    """Consumer of aiokafka. Its loop runs in a thread of its own, so that heartbeats go on whatever this thread does."""

    def __init__(self, options: Options) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._run(self._start(options))

    async def _start(self, options: Options) -> None:
        from aiokafka import AIOKafkaConsumer, TopicPartition
        from aiokafka.coordinator.assignors.range import RangePartitionAssignor

        self._place = TopicPartition
        self._consumer = AIOKafkaConsumer(
            bootstrap_servers=options.bootstrap,
            group_id=options.group,
            client_id=options.client_id,
            group_instance_id=options.instance_id,
            session_timeout_ms=options.session_ms,
            heartbeat_interval_ms=options.heartbeat_ms,
            max_poll_interval_ms=options.max_poll_ms,
            rebalance_timeout_ms=options.max_poll_ms,
            enable_auto_commit=False,
            auto_offset_reset=options.reset,
            metadata_max_age_ms=options.metadata_ms,
            partition_assignment_strategy=[RangePartitionAssignor],
        )
        if options.join:
            self._consumer.subscribe([options.topic])
        await self._consumer.start()
        if not options.join:
            self._consumer.assign([TopicPartition(options.topic, part) for part in range(options.partitions)])

    def _run(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def poll(self) -> list[tuple[Place, int, bytes]]:
        found = self._run(self._consumer.getmany(timeout_ms=POLL_MS, max_records=50))
        return [((at.topic, at.partition), one.offset, one.value) for at, some in found.items() for one in some]

    def assignment(self) -> list[Place]:
        return sorted((at.topic, at.partition) for at in self._consumer.assignment())

    def commit(self, offsets: dict[Place, int]) -> None:
        self._run(self._consumer.commit({self._place(*at): offset for at, offset in offsets.items()}))

    def seek(self, place: Place, offset: int) -> None:
        self._loop.call_soon_threadsafe(self._consumer.seek, self._place(*place), offset)

    def close(self) -> None:
        self._run(self._consumer.stop())


class KafkaPython:
    def __init__(self, options: Options) -> None:
        from kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition
        from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
        from kafka.coordinator.assignors.range import RangePartitionAssignor

        self._place, self._metadata = TopicPartition, OffsetAndMetadata
        self._consumer = KafkaConsumer(
            bootstrap_servers=options.bootstrap.split(","),
            group_id=options.group,
            client_id=options.client_id,
            group_instance_id=options.instance_id,
            session_timeout_ms=options.session_ms,
            heartbeat_interval_ms=options.heartbeat_ms,
            max_poll_interval_ms=options.max_poll_ms,
            enable_auto_commit=False,
            auto_offset_reset=options.reset,
            metadata_max_age_ms=options.metadata_ms,
            partition_assignment_strategy=[
                CooperativeStickyAssignor if options.assignor == "cooperative" else RangePartitionAssignor
            ],
        )
        if options.join:
            self._consumer.subscribe([options.topic])
        else:
            self._consumer.assign([TopicPartition(options.topic, part) for part in range(options.partitions)])

    def poll(self) -> list[tuple[Place, int, bytes]]:
        found = self._consumer.poll(timeout_ms=POLL_MS, max_records=50)
        return [((at.topic, at.partition), one.offset, one.value) for at, some in found.items() for one in some]

    def assignment(self) -> list[Place]:
        return sorted((at.topic, at.partition) for at in self._consumer.assignment())

    def commit(self, offsets: dict[Place, int]) -> None:
        self._consumer.commit({self._place(*at): self._metadata(offset, "", -1) for at, offset in offsets.items()})

    def seek(self, place: Place, offset: int) -> None:
        self._consumer.seek(self._place(*place), offset)

    def close(self) -> None:
        self._consumer.close()


class Confluent:
    """librdkafka logs to stderr, which is the log file here."""

    def __init__(self, options: Options) -> None:
        from confluent_kafka import Consumer, TopicPartition

        self._place = TopicPartition
        settings: dict[str, Any] = {
            "bootstrap.servers": options.bootstrap,
            "group.id": options.group,
            "client.id": options.client_id,
            "max.poll.interval.ms": options.max_poll_ms,
            "enable.auto.commit": False,
            "auto.offset.reset": options.reset,
            "topic.metadata.refresh.interval.ms": options.metadata_ms,
        }
        if options.instance_id:
            settings["group.instance.id"] = options.instance_id
        if options.protocol == "consumer":
            settings["group.protocol"] = "consumer"
        else:
            settings |= {
                "session.timeout.ms": options.session_ms,
                "heartbeat.interval.ms": options.heartbeat_ms,
                "partition.assignment.strategy": "cooperative-sticky" if options.assignor == "cooperative" else "range",
            }
        self._consumer = Consumer(settings)
        if options.join:
            self._consumer.subscribe([options.topic])
        else:
            self._consumer.assign([TopicPartition(options.topic, part) for part in range(options.partitions)])

    def poll(self) -> list[tuple[Place, int, bytes]]:
        found = []
        for one in self._consumer.consume(50, POLL_MS / 1000):
            if one.error():
                print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} consume: {one.error()}", file=sys.stderr, flush=True)
            else:
                found.append(((one.topic(), one.partition()), one.offset(), one.value()))
        return found

    def assignment(self) -> list[Place]:
        return sorted((at.topic, at.partition) for at in self._consumer.assignment())

    def commit(self, offsets: dict[Place, int]) -> None:
        places = [self._place(topic, part, offset) for (topic, part), offset in offsets.items()]
        for one in self._consumer.commit(offsets=places, asynchronous=False):
            if one.error:
                raise RuntimeError(str(one.error))

    def seek(self, place: Place, offset: int) -> None:
        self._consumer.seek(self._place(*place, offset))

    def close(self) -> None:
        self._consumer.close()


class Transactional(Confluent):
    """Consumes, produces, and commits both in one transaction; each `abort_every`th is aborted and done again with the next."""

    def __init__(self, options: Options) -> None:
        from confluent_kafka import Producer

        super().__init__(options)
        self._abort_every, self._number = options.transaction.get("abort_every", 0), 0
        self._producer = Producer(
            {
                "bootstrap.servers": options.bootstrap,
                "client.id": f"{options.client_id}-producer",
                "transactional.id": options.transaction["id"],
                "transaction.timeout.ms": options.transaction["timeout_ms"],
            }
        )
        self._producer.init_transactions(60)
        self._out = f"{options.topic}.out"

    def begin(self, offsets: dict[Place, int]) -> None:
        self._producer.begin_transaction()
        self._producer.produce(self._out, b"done")
        places = [self._place(topic, part, offset) for (topic, part), offset in offsets.items()]
        self._producer.send_offsets_to_transaction(places, self._consumer.consumer_group_metadata(), 30)

    def commit(self, offsets: dict[Place, int]) -> None:
        try:
            self.begin(offsets)
            self._number += 1
            if self._abort_every and self._number % self._abort_every == 0:
                raise RuntimeError("the application gave it up")
            self._producer.commit_transaction(30)
        except Exception:
            self._producer.abort_transaction(30)
            raise


CLIENTS: dict[str, Any] = {"aiokafka": Aiokafka, "kafka-python": KafkaPython, "confluent": Confluent}


class Service:
    """The loop of a plain consumer: poll, work, commit."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._commands: queue.Queue[dict[str, Any]] = queue.Queue()
        self._read: dict[Place, int] = {}
        self._committed: dict[Place, int] = {}
        self._said: list[Place] | None = None
        self._muted = self._again = False
        self._log = logging.getLogger("service")

    def run(self) -> None:
        threading.Thread(target=self._listen, daemon=True).start()
        client = self._make()
        due = time.monotonic()
        while True:
            command = self._command()
            if command["do"] == "close":
                break
            if command["do"] == "restart":
                self._commit(client, final=True)
                client.close()
                client = self._make()
            self._obey(client, command)
            for place, offset, value in client.poll():
                if self._options.dies_on is not None and value.decode() == self._options.dies_on:
                    os.kill(os.getpid(), signal.SIGKILL)
                self._read[place] = offset + 1
                if self._options.work_ms:
                    time.sleep(self._options.work_ms / 1000)
            self._tell(client)
            if time.monotonic() >= due:
                self._commit(client)
                due = time.monotonic() + self._options.commit_ms / 1000
        self._commit(client, final=True)
        client.close()
        self._say(event="closed")

    def _make(self) -> Client:
        self._said = None
        make = Transactional if self._options.transaction else CLIENTS[self._options.client]
        client: Client = make(self._options)
        return client

    def _listen(self) -> None:
        for line in sys.stdin:
            self._commands.put(json.loads(line))
        self._commands.put({"do": "close"})

    def _command(self) -> dict[str, Any]:
        try:
            return self._commands.get_nowait()
        except queue.Empty:
            return {"do": "nothing"}

    def _obey(self, client: Client, command: dict[str, Any]) -> None:
        do = command["do"]
        if do == "block":
            time.sleep(command["seconds"])
        elif do == "seek":
            for place in client.assignment():
                if place in self._read:
                    self._read[place] = max(0, self._read[place] - command["back"])
                    client.seek(place, self._read[place])
            self._commit(client)
        elif do == "old":
            old = {at: max(0, self._read[at] - command["back"]) for at in client.assignment() if at in self._read}
            self._send(client, old)
        elif do == "hang":
            client.begin({at: offset for at, offset in self._read.items() if at in client.assignment()})  # type: ignore[attr-defined]
            self._say(event="did", did=do)
            threading.Event().wait()
        elif do in ("mute", "again"):
            setattr(self, f"_{'muted' if do == 'mute' else do}", command["on"])
        if do != "nothing":
            self._say(event="did", did=do)

    def _tell(self, client: Client) -> None:
        has = client.assignment()
        if has != self._said:
            self._said = has
            self._read = {at: offset for at, offset in self._read.items() if at in has}
            self._committed = {at: offset for at, offset in self._committed.items() if at in has}
            self._say(event="assigned", partitions=[at[1] for at in has])

    def _commit(self, client: Client, *, final: bool = False) -> None:
        if self._muted and not final:
            return
        has = set(client.assignment())
        new = {at: offset for at, offset in self._read.items() if at in has}
        if not self._again:
            new = {at: offset for at, offset in new.items() if self._committed.get(at) != offset}
        self._send(client, new)

    def _send(self, client: Client, offsets: dict[Place, int]) -> None:
        if not offsets:
            return
        try:
            client.commit(offsets)
            self._committed.update(offsets)
            self._say(event="committed", offsets={str(at[1]): offset for at, offset in offsets.items()})
        except Exception as error:  # as services do: it is logged, and tried again with what is read then
            self._log.warning("commit failed: %s: %s", type(error).__name__, error)

    def _say(self, **what: Any) -> None:
        print(json.dumps({"at_ms": time.time_ns() // 1_000_000, **what}), flush=True)


def main() -> None:
    options = Options(**json.loads(sys.argv[1]))
    log = os.open(Path(options.log), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 2)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format=LAYOUTS[options.layout])
    Service(options).run()


if __name__ == "__main__":
    main()
