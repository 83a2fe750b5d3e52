"""Common part of all probers: they send one request after the other, and find out from the plan when no fault is on.

Rules:
1. What a prober works on is its own: no other client touches its topics, its groups, its producer ids.
2. Whether something is wrong with the cluster follows from the fault plan (`Calm`), not from what the brokers say.
3. While all is calm an answer is what the model says, to the last field. While it is not, what was acknowledged stays.
4. A prober that has not been answered does not know: what it asked for may come yet.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from broker_sim.simulation.checks.answers import InvariantBroken
from broker_sim.simulation.workloads.raw import RawClient
from kafka_wire.api_keys import advertised
from kafka_wire.errors import Err

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker_sim.metadata.cluster_state import ClusterState, Partition
    from broker_sim.simulation.faults.kinds import Fault
    from broker_sim.simulation.workloads.raw import RawContext

__all__ = ["AllBrokersDown", "Calm", "Prober", "standing"]

_BEFORE_S, _AFTER_S = 0.2, 2.5
"""A fault is felt so long before its moment (what is under way then meets it) and after its end."""

_PATIENCE_S = 4.0

_AT_ONCE = ("elect", "move", "reset", "restart")
_QUIET = ("buggify",)


class AllBrokersDown(OSError):
    """All brokers are down: the outcome of the request is unknown."""


class Calm:
    """Periods without a fault, by the plan. ``now_s``: virtual seconds since the plan began."""

    def __init__(self, plan: Iterable[Fault], now_s: Callable[[], float]) -> None:
        self.now_s = now_s
        self._healed_s = math.inf
        self._windows: list[tuple[float, float, bool]] = []
        self.odd = False
        """Whether brokers do what they seldom do: they may answer early, and with less."""
        self.plan(plan)

    def plan(self, plan: Iterable[Fault]) -> None:
        """From now on these are the faults, those of the past among them."""
        faults = tuple(plan)
        self._windows = sorted((*_window(fault), _outlasts(fault)) for fault in faults if fault.kind not in _QUIET)
        self.odd = any(fault.kind in _QUIET for fault in faults)

    def healed(self) -> None:
        """Note that all faults have ended."""
        self._healed_s = self.now_s()

    def since(self, begun_s: float) -> bool:
        """Whether nothing was wrong from then until now."""
        now_s, healed_s = self.now_s(), self._healed_s + _AFTER_S
        return not any(
            begin < now_s and (end if outlasts else min(end, healed_s)) > begun_s
            for begin, end, outlasts in self._windows
        )

    def for_s(self, seconds: float) -> bool:
        """Whether nothing has been wrong for so long."""
        return self.since(self.now_s() - seconds)


def _window(fault: Fault) -> tuple[float, float]:
    args = fault.args
    lasts_s = 0.0 if fault.kind in _AT_ONCE else args.get("for_s", math.inf)
    later_s = args.get("delay", 0.0) + args.get("reply_delay", 0.0) + args.get("noticed_after_s", 0.0)
    later_s += args.get("latency", 0.0) + args.get("jitter", 0.0) + args.get("throttle_ms", 0) / 1000
    later_s += args.get("latency_ms", 0) / 500 + args.get("jitter_ms", 0) / 500
    if args.get("hang") or "host" in args:  # who was away comes back in its own time
        lasts_s = math.inf if args.get("hang") else lasts_s + 3
    return fault.t_s - _BEFORE_S, fault.t_s + lasts_s + later_s + _AFTER_S


def _outlasts(fault: Fault) -> bool:
    """Whether its end is its own, though all faults are healed before: a process that a stalled disk has stopped stays so."""
    return fault.kind == "disk" and fault.args.get("what") == "stalls"


def standing(partition: Partition | None) -> tuple[object, ...] | None:
    """A snapshot of a partition (leader, epochs, ISR): if it is equal before and after a request, nothing happened to the partition
    meanwhile. None if no request can succeed."""
    if partition is None or partition.deleted or partition.leader < 0:
        return None
    if (
        partition.high_watermark_frozen
        or partition.append_interceptor is not None
        or partition.isr_too_small
        or partition.read_error is not Err.NONE
    ):
        return None
    return id(partition), partition.leader, partition.leader_epoch, partition.partition_epoch, tuple(partition.isr)


class Prober(RawClient):
    """See the module. Its deeds are its methods that begin with ``_do_``."""

    SPANS: ClassVar[Mapping[Any, tuple[int, int]]] = {}
    PAUSE_S = 0.03

    def __init__(self, context: RawContext, name: str, calm: Calm, broken: Callable[[InvariantBroken], object]) -> None:
        super().__init__(context, name)
        self.calm, self._broken = calm, broken
        self.over = False
        self.checked = 0
        """Answers that were held against the model."""
        self._spoken = advertised(context.kafka.state.as_version)
        self._values = 0
        self.doing = ""

    @property
    def state(self) -> ClusterState:
        """State of the cluster, to see whether it has changed; expected responses are known from elsewhere. Raises AllBrokersDown."""
        if self.context.kafka.dead:
            raise AllBrokersDown
        return self.context.kafka.state

    async def run(self) -> None:
        """Send requests and check their responses until the workload ends."""
        self.begin()
        deeds = [getattr(self, name) for name in sorted(dir(self)) if name.startswith("_do_")]
        book = self.context.deeds
        book.life(self.name, self.rng)
        weights = [
            0.15 + self.rng.random() ** 2 for _ in deeds
        ]  # swarm: each has its favourites, and leaves nothing out
        while not self.over:
            number = book.begin(self.name, self.rng)
            await asyncio.sleep(self.rng.expovariate(1 / self.PAUSE_S))
            if not self.ready():
                await asyncio.sleep(0.2)
                continue
            deed = self.rng.choices(deeds, weights)[0]
            if not book.does(self.name, number):
                continue
            self.doing = deed.__name__
            with contextlib.suppress(OSError):
                await deed()

    def ready(self) -> bool:
        """Whether there is a cluster to work with."""
        return not self.context.kafka.dead

    def value(self) -> bytes:
        """Unique value for a record, of any length."""
        self._values += 1
        return b"%s-%d-" % (self.name.encode(), self._values) + b"x" * self.rng.choice((0, 1, 7, 40, 300))

    def supports(self, kind: Any) -> bool:
        """Whether these brokers know that API at all."""
        return kind.__spec__.api_key in self._spoken

    def pick(self, kind: Any, least: int = 0) -> int:
        """A version of a request's class that the brokers speak."""
        low, high = self._spoken[kind.__spec__.api_key]
        return self.rng.randint(max(low, min(least, high)), high)

    async def request_once(self, request: Any, version: int, broker: int, number: int = 0) -> Any:
        """Send and wait for the response; hang up where none comes. Raises OSError."""
        line = await self.line(broker, number)
        try:
            return await asyncio.wait_for(line.start(request, version), _PATIENCE_S)
        except TimeoutError:
            line.close()
            raise

    def broker(self) -> int:
        """The node id of a random broker."""
        return self.rng.randint(1, len(self.context.kafka.hosts))

    def breach(self, name: str, what: str) -> None:
        """An answer is none that may be."""
        self._broken(InvariantBroken(name, f"{self.calm.now_s():.3f} s, {self.name}, {self.doing}: {what}"))

    def expect(self, name: str, what: str, got: object, wanted: object) -> bool:
        """Report a breach if the actual and the expected value differ; returns whether they are equal."""
        self.checked += 1
        if got != wanted:
            self.breach(name, f"{what} is {got!r}, must be {wanted!r}")
            return False
        return True
