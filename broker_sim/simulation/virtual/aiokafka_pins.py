"""Changes to aiokafka that make its runs repeatable. `LibraryMoved`: a place has changed."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from zlib import crc32

from broker_sim.simulation.errors import LibraryMoved
from broker_sim.simulation.virtual.process import PROCESS

if TYPE_CHECKING:
    from broker_sim.simulation.virtual.patches import Patches

__all__ = ["PINS"]


def _record_times(p: Patches) -> None:
    """Records have virtual timestamps: without one aiokafka's builder would read the clock in C."""
    from aiokafka.producer import message_accumulator

    real = message_accumulator.BatchBuilder.append
    parameters = inspect.signature(real).parameters
    if list(parameters) != ["self", "timestamp", "key", "value", "headers"]:
        raise LibraryMoved(f"aiokafka's BatchBuilder.append takes {', '.join(parameters)}")
    wall = p.loop.wall

    def append(self: Any, *, timestamp: Any, key: Any, value: Any, headers: Any = None) -> Any:
        if timestamp is None:
            timestamp = int(wall() * 1000)
        return real(self, timestamp=timestamp, key=key, value=value, headers=headers)

    p.patch(message_accumulator.BatchBuilder, "append", append)


def _partition_hashes(p: Patches) -> None:
    """Sets of TopicPartition are iterated in the same order whatever Python's hash seed is."""
    from aiokafka.structs import TopicPartition

    if TopicPartition._fields != ("topic", "partition"):
        raise LibraryMoved(f"aiokafka's TopicPartition has the fields {', '.join(TopicPartition._fields)}")

    class Names(dict[str, int]):
        def __missing__(self, name: str) -> int:
            self[name] = crc = crc32(name.encode()) * 31
            return crc

    names = Names()

    def partition_hash(self: Any) -> int:
        return names[self[0]] + self[1]  # type: ignore[no-any-return]

    p.put(TopicPartition, "__hash__", partition_hash)


def _broker_hashes(p: Patches) -> None:
    """Sets of BrokerMetadata are iterated in the same order: it contains None, whose hash was its address before Python 3.12."""
    from aiokafka.structs import BrokerMetadata

    if BrokerMetadata._fields != ("nodeId", "host", "port", "rack"):
        raise LibraryMoved(f"aiokafka's BrokerMetadata has the fields {', '.join(BrokerMetadata._fields)}")

    def broker_hash(self: Any) -> int:
        return hash((crc32(f"{self[0]} {self[1]}".encode()), self[2]))

    p.put(BrokerMetadata, "__hash__", broker_hash)


def _producer_names(p: Patches) -> None:
    """The generated client ids of producers count from 1 in each simulation."""
    from aiokafka import AIOKafkaProducer

    name = "_PRODUCER_CLIENT_ID_SEQUENCE"
    if not isinstance(vars(AIOKafkaProducer).get(name), int):
        raise LibraryMoved(f"aiokafka's AIOKafkaProducer has no {name}")
    p.put(AIOKafkaProducer, name, 0)


def _sticky_memory(p: Patches) -> None:
    """The sticky assignor keeps its last assignment in its class; here each simulated process has its own."""
    from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

    kept: dict[tuple[Any, Any, str], Any] = {}
    names = ("member_assignment", "generation")
    missing = [name for name in names if name not in vars(StickyPartitionAssignor)]
    if missing:
        raise LibraryMoved(f"aiokafka's StickyPartitionAssignor has no {' and no '.join(missing)}")
    first = {name: vars(StickyPartitionAssignor)[name] for name in names}

    def of_process(name: str) -> property:
        def read(cls: Any) -> Any:
            return kept.get((cls, PROCESS.get(), name), first[name])

        def write(cls: Any, value: Any) -> None:
            kept[cls, PROCESS.get(), name] = value

        return property(read, write)

    usual: Any = type(StickyPartitionAssignor)
    meta = type("PerProcess", (usual,), {name: of_process(name) for name in names})
    kinds = [StickyPartitionAssignor]
    for kind in kinds:
        kinds += kind.__subclasses__()
        kind.__class__ = meta

    def as_before() -> None:
        for kind in kinds:
            kind.__class__ = usual

    p.then(as_before)


def _unclosed_clients(p: Patches) -> None:
    """Clients of simulated processes count as closed at the end; otherwise aiokafka would warn about them in a later test."""
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    made: weakref.WeakSet[Any] = weakref.WeakSet()

    def noted(kind: Any) -> None:
        if not {"_closed", "__del__"} <= vars(kind).keys():
            raise LibraryMoved(f"aiokafka's {kind.__name__} has no _closed, which its __del__ asks")
        real = kind.__init__

        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            if PROCESS.get() is not None:
                made.add(self)
            real(self, *args, **kwargs)

        p.patch(kind, "__init__", init)

    def close() -> None:
        for client in made:
            client._closed = True

    for kind in (AIOKafkaProducer, AIOKafkaConsumer):
        noted(kind)
    p.then(close)


PINS: dict[str, Callable[[Patches], None]] = {
    "aiokafka's record times": _record_times,
    "aiokafka's partitions": _partition_hashes,
    "aiokafka's brokers": _broker_hashes,
    "aiokafka's producer names": _producer_names,
    "aiokafka's sticky memory": _sticky_memory,
    "aiokafka's unclosed clients": _unclosed_clients,
}
