"""Target of a body of tests/stuck: a Kafka whose offsets partitions stop being replicated when the body calls for it.

    @cell()
    async def test_a_commit_times_out(kafka: Stuck) -> None:
        await kafka.freeze()                                     # from here on nothing of its partitions is committed
        answer = kafka.late(await kafka.ask(*commit(kafka.name("g"), 2)))     # it took offsets.commit.timeout.ms
        await kafka.heal()                                       # and now it is

Rules:
1. A body owns one offsets partition (or two), and every group name it makes is in it: it runs beside all others.
2. `freeze`, `choke`, `heal` and `move` are the steps of the world. On a real cluster all bodies share them (the last
   to come makes the step); in the simulator a body has a world of its own, and its time is virtual.
3. A request has its connection for itself until it is answered: nothing queues behind a parked one.
4. Times are checked by `at_once`, `late` and `after`: to the millisecond in the simulator, in a window on a real broker.
"""

from __future__ import annotations

import abc
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from broker_sim.storage import partition_for
from kafka_wire.errors import Err

OFFSETS_TOPIC = "__consumer_offsets"
TOPIC = "t0"
INITIAL_DELAY_MS = 300
MAX_MESSAGE_BYTES = 10_000
CONFIG: dict[str, object] = {
    "group.initial.rebalance.delay.ms": INITIAL_DELAY_MS,
    "group.min.session.timeout.ms": 100,
    "auto.create.topics.enable": "false",
    "min.insync.replicas": 2,
}
POLL_MS = 50


@dataclass(frozen=True)
class Answer:
    """A response, how long it took, and when it came (on the target's clock)."""

    response: Any
    took_ms: float
    at_ms: float


class Asked(abc.ABC):
    """A request on its way."""

    @property
    @abc.abstractmethod
    def answered(self) -> bool:
        """Whether the response is there."""

    @abc.abstractmethod
    async def answer(self) -> Answer:
        """Waits for the response. Raises TimeoutError when it does not come at all."""


@dataclass
class Exchange:
    """A line of a body's record: what was asked when, and what came."""

    asked: str
    at_ms: float
    answer: str = "no answer"
    took_ms: float | None = None

    def __str__(self) -> str:
        after = "" if self.took_ms is None else f" after {self.took_ms:.0f} ms"
        return f"{self.at_ms:8.0f} ms  {self.asked} -> {self.answer}{after}"


@dataclass
class Stuck(abc.ABC):
    """A target as one body sees it. `old`: 3.4's coordinator, else 4.1's. `phase` A: the follower stays in the ISR; B: it
    is out of it when `freeze` returns, and the ISR is smaller than min.insync.replicas.
    """

    old: bool
    phase: str
    partitions: tuple[int, ...]
    count: int
    timeout_ms: int
    record: list[Exchange] = field(default_factory=list)

    # ---- what is expected

    def name(self, base: str, *, other: bool = False) -> str:
        """A group id of the body's first (`other`: second) partition; the same one for the same `base`."""
        for number in range(100_000):
            name = f"{base}.{number}"
            if partition_for(name, self.count) == self.partitions[other]:
                return name
        raise AssertionError("no name falls into the partition")

    def pick(self, *, old: Any, new: Any) -> Any:
        """Return the value that is expected of this generation."""
        return old if self.old else new

    def pick3(self, *, old_a: Any, old_b: Any, new: Any) -> Any:
        """The three columns of the table: 3.4 in phase A, 3.4 in phase B, 4.1 in both."""
        return new if not self.old else old_a if self.phase == "A" else old_b

    # ---- the world

    @abc.abstractmethod
    def start(self, request: Any, version: int, *, broker: int = 1, client_id: str = "c") -> Asked:
        """Sends the request now."""

    async def ask(self, request: Any, version: int, *, broker: int = 1, client_id: str = "c") -> Answer:
        """Sends the request and waits for its answer."""
        return await self.start(request, version, broker=broker, client_id=client_id).answer()

    @abc.abstractmethod
    async def sleep(self, ms: int) -> None:
        """Lets time pass: for what is to happen, or not to happen, by then."""

    @abc.abstractmethod
    async def freeze(self, *, briefly: bool = False, shrinks: bool = False) -> None:
        """The follower stops. `briefly`: a freeze before the others', healed while requests wait (phase A only);
        `shrinks`: the body will see the follower fall out of the ISR (`shrinking`).
        """

    @abc.abstractmethod
    async def choke(self) -> None:
        """In place of `freeze`: from here on every record is larger than max.message.bytes, until `heal`."""

    @abc.abstractmethod
    async def freeze_and_hand_over(self, waiting: Callable[[], Awaitable[None]]) -> None:
        """In place of `freeze`: the follower stops, `waiting` sends what it likes, then the follower is elected leader
        all the same (phase A only). It leads once it runs again (`heal`).
        """

    @abc.abstractmethod
    def shrinking(self, every_ms: int) -> AsyncIterator[None]:
        """Turns of `every_ms` each, until the frozen follower is out of the ISR: at least three."""

    @abc.abstractmethod
    async def heal(self) -> None:
        """The follower goes on; returns when everything is replicated."""

    @abc.abstractmethod
    async def move(self) -> None:
        """The other broker (2) becomes leader of the body's partitions, and has loaded them."""

    async def until(self, what: str, seen: Callable[[], Awaitable[bool]], *, deadline_ms: int = 20_000) -> None:
        """Polls `seen` until it is true."""
        for _ in range(deadline_ms // POLL_MS):
            if await seen():
                return
            await self.sleep(POLL_MS)
        raise TimeoutError(f"waited {deadline_ms} ms for {what}")

    # ---- times

    @abc.abstractmethod
    def after(self, ms: int, answer: Answer) -> Answer:
        """Asserts that the answer came `ms` after its request."""

    @abc.abstractmethod
    def together(self, *answers: Answer) -> None:
        """Asserts that the answers came at one instant."""

    def at_once(self, answer: Answer) -> Answer:
        """Asserts that the answer waited for nothing."""
        return self.after(0, answer)

    def late(self, answer: Answer) -> Answer:
        """Asserts that the answer came when offsets.commit.timeout.ms had passed."""
        return self.after(self.timeout_ms, answer)

    def due(self, answer: Answer, *, old_a: bool, old_b: bool, new: bool) -> Answer:
        """`late` where the column of the table says so, else `at_once`."""
        return (self.late if self.pick3(old_a=old_a, old_b=old_b, new=new) else self.at_once)(answer)


# ------------------------------------------------------------------------------------------------ the record

_TOLD = ("member_id", "generation_id", "committed_offset", "group_state", "leader")
_SUBJECT = ("group_id", "groups_names", "groups", "member_id", "generation_id", "require_stable")


def title(request: Any) -> str:
    """A request in a few words."""
    shown = [f"{name}={getattr(request, name)}" for name in _SUBJECT if getattr(request, name, None)]
    return " ".join([type(request).__name__.removesuffix("Request"), *shown])


def told(response: Any) -> str:
    """The errors of a response, and what else tells one answer from another, in a line."""
    words: list[str] = []
    if not hasattr(type(response), "__slots__"):
        return ""
    for name in type(response).__slots__:
        value: Any = getattr(response, name)
        if name == "error_code":
            words.append(Err(value).name)
        elif name in _TOLD and value not in ("", -1):
            words.append(f"{name}={value}")
        elif isinstance(value, list):
            words += [told(item) for item in value]
    return " ".join(filter(None, words))
