"""Rules that are in force: which of them takes a request, how often each has hit, and how it ends.

    with kafka.fault("OffsetCommit", group="billing", times=2, error="NOT_COORDINATOR") as moved:
        ...
        await moved.wait(2)

``rules`` defines what a rule is; ``tap`` applies its action to a request. Rules of this module:

1. The first installed rule that takes a request has it; the later ones do not see it, nor count it.
2. A rule counts the requests that it hit. Leaving its ``with`` block without a hit raises NeverHit, unless ``must_hit=False`` or the
   block ends with an exception of its own. ``remove`` never raises.
3. A rule that ends leaves what it has begun as it is: requests that it delays come at their time, those that it hangs stay
   unanswered until their connection ends. ``release`` lets both go on at once.
4. Chance comes from the generator that is given; time from the clock. One draw for each request that fits.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterable, Mapping
from itertools import count
from types import TracebackType
from typing import Any, Protocol, Unpack

from broker_sim.common.chance import Chance
from broker_sim.common.clock import Clock
from broker_sim.common.text import duration_ms, unknown
from broker_sim.faults.rules import Rule, RuleKeys, rule_from
from broker_sim.faults.selectors import ApiName, Asked
from broker_sim.journal import WaitTimeout
from kafka_wire.api_keys import DEFAULT_VERSION

__all__ = ["Fault", "Faults", "NeverHit"]

_NEAR_MISSES = 5
"""So many of the last near misses of a rule are kept."""


class NeverHit(AssertionError):
    """A rule that had to match did not; the message has the rule and its near misses."""


class EventWriter(Protocol):
    """The part of `journal.Journal` that rules and orders use: writing events about themselves."""

    def write(self, event: str, **fields: Any) -> object: ...


class Fault:
    """An installed rule. It ends with its ``with`` (or ``async with``) block, or with `remove`."""

    def __init__(self, owner: Faults, number: int, rule: Rule, installed_ms: int) -> None:
        self.id = number
        self.rule = rule
        self.hits = 0
        """Number of requests that the rule has hit."""
        self.removed = False
        self._owner = owner
        self._from_ms = installed_ms + rule.after_ms
        self._until_ms = None if rule.during_ms is None else self._from_ms + rule.during_ms
        self._fitting = 0  # requests that the selector took, inside of the window
        self._outside = 0  # and outside of it
        self._apis: Counter[str] = Counter()  # requests that were looked at
        self._near: deque[tuple[Asked, str]] = deque(maxlen=_NEAR_MISSES)
        self._waits: list[tuple[int, asyncio.Future[None]]] = []
        self._held: dict[int, tuple[Asked, Callable[[], object]]] = {}

    # --- for its user -------------------------------------------------------------------------------------------------

    def wait(self, n: int = 1, timeout: object = "10s") -> Coroutine[Any, Any, None]:
        """Wait until it has matched ``n`` times in total. Raises WaitTimeout after ``timeout`` of real time."""
        return self._wait(n, duration_ms(timeout, "timeout"))

    async def _wait(self, n: int, timeout_ms: int) -> None:
        if self.hits >= n:
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        wait = (n, done)
        self._waits.append(wait)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await done
        except TimeoutError:
            what = f"{n} hit{'s' if n > 1 else ''} of fault {self.id} ({self.rule.text()})"
            raise WaitTimeout(what, timeout_ms, f"{self.hits} hits", self._near_misses()) from None
        finally:
            if wait in self._waits:
                self._waits.remove(wait)

    def remove(self) -> None:
        """End the rule; delayed and hanging requests continue."""
        self._owner.forget(self)

    heal = remove

    def release(self) -> int:
        """Pass its hanging and delayed requests to their handlers now. Returns their number."""
        held, self._held = list(self._held.values()), {}
        for _, go in held:
            go()
        return len(held)

    @property
    def waiting(self) -> list[str]:
        """The fault's hanging and delayed requests as text, the oldest first."""
        return [asked.text() for asked, _ in self._held.values()]

    @property
    def spent(self) -> bool:
        """Whether it can no longer match: ``times`` is used up, or ``during`` is over."""
        rule = self.rule
        last = None if rule.times is None else rule.times if not rule.nth else rule.nth + rule.times - 1
        counted = self._fitting if rule.nth else self.hits
        if last is not None and counted >= last:
            return True
        return self._until_ms is not None and self._owner.clock.now_ms() >= self._until_ms

    def check(self) -> None:
        """Raise NeverHit if it had to match and did not."""
        if self.rule.must_hit and not self.hits:
            raise NeverHit(f"fault {self.id} never hit: {self.rule.text()}\n{self._near_misses()}")

    def describe(self) -> str:
        """The rule, its matches, its waiting requests and its near misses; several lines."""
        state = "removed" if self.removed else "spent" if self.spent else "in force"
        lines = [f"fault {self.id}, {state}, {self.hits} hits: {self.rule.text()}"]
        lines += [f"  holds {text}" for text in self.waiting]
        return "\n".join([*lines, *self._near_misses().splitlines()] if not self.hits else lines)

    def to_dict(self) -> dict[str, Any]:
        """``{id, text, rule, hits, spent, removed, waiting}``, for JSON."""
        return {
            "id": self.id,
            "text": self.rule.text(),
            "rule": self.rule.to_dict(),
            "hits": self.hits,
            "spent": self.spent,
            "removed": self.removed,
            "waiting": self.waiting,
        }

    def __enter__(self) -> Fault:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()
        if kind is None:
            self.check()

    async def __aenter__(self) -> Fault:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)

    def __repr__(self) -> str:
        return f"<fault {self.id}: {self.rule.text()}; {self.hits} hits>"

    def _near_misses(self) -> str:
        """The requests that did not match, with the reason: why the rule did not hit, or not more often."""
        rule, lines = self.rule, []
        if self._outside:
            lines.append(f"  {self._outside} requests fit, outside of its time window")
        if self._fitting and not self.hits:
            why = f"the rule begins with match {rule.nth}" if rule.nth else "its probability excluded them"
            lines.append(f"  {self._fitting} requests fit, but {why}")
        lines += [f"  near miss: {asked.text()}: {why}" for asked, why in self._near]
        if not lines:
            came = ", ".join(f"{api} {number}" for api, number in self._apis.most_common(8))
            lines.append(
                f"  no request matched its API; requests that arrived: {came}"
                if came
                else "  no request arrived (rules do not apply to a commit_probe)"
            )
        return "\n".join(lines)

    # --- for Faults and the tap ---------------------------------------------------------------------------------------

    def takes(self, asked: Asked, now_ms: int, chance: Chance) -> bool:
        """Whether it hits this request; counts."""
        rule, selector = self.rule, self.rule.selector
        self._apis[asked.api] += 1
        if selector.apis is not None and asked.api_key not in selector.apis:
            return False
        misfit = selector.misfit(asked)
        if misfit is not None:
            if selector.apis is not None:
                self._near.append((asked, misfit))
            return False
        if now_ms < self._from_ms or (self._until_ms is not None and now_ms >= self._until_ms):
            self._outside += 1
            return False
        self._fitting += 1
        if rule.nth and self._fitting < rule.nth:
            return False
        if rule.times is not None:
            used = self._fitting - rule.nth if rule.nth else self.hits
            if used >= rule.times:
                return False
        if rule.probability is not None:
            place = f"{selector.text()} {rule.verdict.kind.value} {asked.client_id} {asked.api_key}"
            if chance.at(place).random() >= rule.probability:
                return False
        self.hits += 1
        for wanted, done in self._waits:
            if self.hits >= wanted and not done.done():
                done.set_result(None)
        return True

    def hold(self, request_id: int, asked: Asked, go: Callable[[], object]) -> None:
        """The tap has a request waiting; ``go()`` lets it go on."""
        self._held[request_id] = (asked, go)

    def let_go(self, request_id: int) -> None:
        """The request does not wait any longer: it continued, or its client disconnected."""
        self._held.pop(request_id, None)


class Faults:
    """The active rules of a cluster, in order of installation.

    ``chance``: of rules with a probability, by rule, client and API: which requests of a client a rule hits is the same whatever others
    ask for, and whatever other rules there are. ``brokers`` gives the node ids that there are, for the check of ``broker=``;
    ``as_version`` the APIs and their versions.
    """

    def __init__(
        self,
        clock: Clock,
        chance: Chance,
        journal: EventWriter | None = None,
        *,
        as_version: str = DEFAULT_VERSION,
        brokers: Callable[[], Iterable[int]] | None = None,
    ) -> None:
        self.clock, self.journal = clock, journal
        self._chance = chance
        self._as_version, self._brokers = as_version, brokers
        self._numbers = count(1)
        self._installed: dict[int, Fault] = {}

    def add(self, api: ApiName | None = None, **keys: Unpack[RuleKeys]) -> Fault:
        """Install a rule: an API by Kafka's name, and the keys of ``rules.RuleKeys``. Raises UsageError."""
        return self.add_from({"api": api, **keys})

    def add_from(self, values: Mapping[str, object]) -> Fault:
        """Install the rule of a mapping, as HTTP and scenario files have it. Raises UsageError."""
        brokers = None if self._brokers is None else self._brokers()
        return self.install(rule_from(values, as_version=self._as_version, brokers=brokers))

    def install(self, rule: Rule) -> Fault:
        """Put a rule in force, behind those that are."""
        fault = Fault(self, next(self._numbers), rule, self.clock.now_ms())
        self._installed[fault.id] = fault
        self._write_event("fault_added", fault)
        return fault

    def list(self) -> list[Fault]:
        """The active rules, in order."""
        return list(self._installed.values())

    def get(self, number: int) -> Fault:
        """The rule with that id. Raises UsageError."""
        fault = self._installed.get(number)
        if fault is None:
            raise unknown("fault", number, map(str, self._installed))
        return fault

    def remove(self, number: int) -> Fault:
        """End a rule by its id. Raises UsageError if it does not exist."""
        fault = self.get(number)
        fault.remove()
        return fault

    def clear(self) -> int:
        """End all rules without checking whether they matched. Returns their number."""
        faults = self.list()
        for fault in faults:
            fault.remove()
        return len(faults)

    def check(self) -> None:
        """Raise NeverHit for the first active rule that had to match and did not."""
        for fault in self._installed.values():
            fault.check()

    def forget(self, fault: Fault) -> None:
        """Remove a rule from the list of active ones; called by `Fault.remove`."""
        if not fault.removed:
            fault.removed = True
            self._installed.pop(fault.id, None)
            self._write_event("fault_removed", fault)

    def match(self, asked: Asked) -> Fault | None:
        """The rule that has this request, its hit counted; None if it has none. For the tap, once for each request."""
        if not self._installed:
            return None
        now_ms = self.clock.now_ms()
        return next((fault for fault in self._installed.values() if fault.takes(asked, now_ms, self._chance)), None)

    def _write_event(self, event: str, fault: Fault) -> None:
        if self.journal is not None:
            self.journal.write(event, fault=fault.id, rule=fault.rule.text(), hits=fault.hits)

    def __len__(self) -> int:
        return len(self._installed)
