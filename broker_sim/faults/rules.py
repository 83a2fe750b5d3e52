"""Rules for requests, as data: which ones, how often, and what happens to them.

A rule is a selector (``selectors``), a budget and exactly one verdict. The same keys make it in Python, over HTTP, on the command
line and in scenario files; ``rule_from`` is the only door, so that all of them refuse the same things with the same words.

Budget, counted over the requests that the selector takes, inside the time window:

* ``nth=3``: only the third; with ``times`` too: from the third on, that many.
* ``times=2``: the first two, then never again.
* ``probability=0.1``: each with that chance, from the cluster's seed.
* ``after="2s"``, ``during="10s"``: the window begins that long after the installation, and is that long.

Verdicts:

=================  =============================================================================================================
error              not handled; answered with that error, as Kafka answers when a whole request fails
error_after        handled, with all its effects; then that error in place of the answer
delay              handled that much later
reply_delay        handled now, answered that much later
hang               received, never handled, never answered
drop               the connection is reset, the request not handled
drop_after         handled, then the connection is reset in place of the answer
truncate           handled; the first N bytes of the response (its size field counts) are sent, then the connection is closed
split              handled; the response comes in two parts, the first N bytes long, ``gap`` apart (100 ms)
throttle_ms        handled; the response says throttle_time_ms=N, and the connection is muted that long after it (KIP-219)
=================  =============================================================================================================

An error of a rule that names a topic is that of the topic's partitions alone, the request's others are handled - where brokers answer
so: a group's error (NOT_COORDINATOR) is always that of the whole request.

Durations are those of ``words.duration_ms`` and pass on the broker's clock.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from broker_sim.faults.selectors import KEYS as SELECTOR_KEYS
from broker_sim.faults.selectors import Selector, SelectorKeys, selector_from
from broker_sim.words import UsageError, duration_ms, duration_text, unknown
from kafka_wire.api_keys import DEFAULT_VERSION
from kafka_wire.errors import Err

__all__ = ["RULE_KEYS", "VERDICTS", "Kind", "Rule", "RuleKeys", "Verdict", "error_from", "rule_from"]

DEFAULT_GAP_MS = 100
LARGEST = 2**31 - 1


class Kind(enum.Enum):
    """What a rule does to a request; the value is its key in mappings."""

    ERROR = "error"
    ERROR_AFTER = "error_after"
    DELAY = "delay"
    REPLY_DELAY = "reply_delay"
    HANG = "hang"
    DROP = "drop"
    DROP_AFTER = "drop_after"
    TRUNCATE = "truncate"
    SPLIT = "split"
    THROTTLE = "throttle_ms"

    @property
    def handles(self) -> bool:
        """Whether the request gets to its handler as if nothing were the matter, and something happens to its answer."""
        return self in _AFTER


_AFTER = {Kind.ERROR_AFTER, Kind.REPLY_DELAY, Kind.DROP_AFTER, Kind.TRUNCATE, Kind.SPLIT, Kind.THROTTLE}
_DURATIONS = {Kind.DELAY, Kind.REPLY_DELAY}
_FLAGS = {Kind.HANG, Kind.DROP, Kind.DROP_AFTER}
_ERRORS = {Kind.ERROR, Kind.ERROR_AFTER}

VERDICTS = tuple(kind.value for kind in Kind)


class RuleKeys(SelectorKeys, total=False):
    """Every key of a rule but ``api``: which requests, how often, what happens; see the module's text. What is None is not given."""

    nth: int | None
    times: int | None
    probability: float | None
    after: float | str | None
    during: float | str | None
    error: str | int | Err | None
    error_after: str | int | Err | None
    delay: float | str | None
    reply_delay: float | str | None
    hang: bool | None
    drop: bool | None
    drop_after: bool | None
    truncate: int | None
    split: int | None
    throttle_ms: int | None
    gap: float | str | None
    must_hit: bool | None


RULE_KEYS = ("api", *RuleKeys.__annotations__)
"""Every key of a rule."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What happens. ``number``: ms of the delays and of the throttling, bytes of truncate and split."""

    kind: Kind
    error: Err = Err.NONE
    number: int = 0
    gap_ms: int = 0

    def text(self) -> str:
        """For people: ``error NOT_COORDINATOR``, ``delay 2 s``, ``drop the connection``."""
        kind, number = self.kind, self.number
        if kind in _ERRORS:
            return f"answer {self.error.name}" + (" after it was applied" if kind is Kind.ERROR_AFTER else "")
        if kind in _DURATIONS:
            return f"{'handle' if kind is Kind.DELAY else 'answer'} it {duration_text(number)} late"
        return {
            Kind.HANG: "never answer",
            Kind.DROP: "drop the connection",
            Kind.DROP_AFTER: "drop the connection after it was applied",
            Kind.TRUNCATE: f"send {number} bytes of the response and close",
            Kind.SPLIT: f"send {number} bytes of the response, the rest {duration_text(self.gap_ms)} later",
            Kind.THROTTLE: f"throttle for {duration_text(number)}",
        }[kind]

    def to_dict(self) -> dict[str, Any]:
        """The keys that make it."""
        kind = self.kind
        if kind in _ERRORS:
            return {kind.value: self.error.name}
        if kind in _DURATIONS:
            return {kind.value: f"{self.number}ms"}
        if kind in _FLAGS:
            return {kind.value: True}
        return {kind.value: self.number, **({"gap": f"{self.gap_ms}ms"} if kind is Kind.SPLIT else {})}


@dataclass(frozen=True, slots=True)
class Rule:
    """Which requests, how often, what happens; see the module's text. ``times`` None is always, ``nth`` 0 is any."""

    selector: Selector
    verdict: Verdict
    nth: int = 0
    times: int | None = None
    probability: float | None = None
    after_ms: int = 0
    during_ms: int | None = None
    must_hit: bool = True

    def text(self) -> str:
        """One line for people: ``OffsetCommit group=billing, at most 3 times: answer NOT_COORDINATOR``."""
        parts = [self.selector.text()]
        if self.nth:
            parts.append(
                f"{_ordinal(self.nth)} match" + (" and after" if self.times is not None and self.times > 1 else "")
            )
        if self.times is not None and not (self.nth and self.times == 1):
            parts.append("once" if self.times == 1 else f"at most {self.times} times")
        if self.probability is not None:
            parts.append(f"with probability {self.probability:g}")
        if self.after_ms:
            parts.append(f"after {duration_text(self.after_ms)}")
        if self.during_ms is not None:
            parts.append(f"during {duration_text(self.during_ms)}")
        return f"{', '.join(parts)}: {self.verdict.text()}"

    def to_dict(self) -> dict[str, Any]:
        """The mapping that :func:`rule_from` makes the same rule of; JSON can hold it."""
        out = self.selector.to_dict()
        if self.nth:
            out["nth"] = self.nth
        if self.times is not None and not (self.nth and self.times == 1):
            out["times"] = self.times
        if self.probability is not None:
            out["probability"] = self.probability
        if self.after_ms:
            out["after"] = f"{self.after_ms}ms"
        if self.during_ms is not None:
            out["during"] = f"{self.during_ms}ms"
        out.update(self.verdict.to_dict())
        if self.must_hit is (self.probability is not None):
            out["must_hit"] = self.must_hit
        return out


def rule_from(
    values: Mapping[str, object], *, as_version: str = DEFAULT_VERSION, brokers: Iterable[int] | None = None
) -> Rule:
    """The rule of these ``RULE_KEYS``; a value of None is a key that isn't there. Raises UsageError, in one line, for whatever can't
    be meant.

    ``must_hit`` is true unless given, but for a rule with a probability: chance owes nothing.
    """
    given = {key: value for key, value in values.items() if value is not None}
    for key in given:
        if key not in RULE_KEYS:
            raise unknown("key of a rule", key, RULE_KEYS)
    selector = selector_from(
        {key: given[key] for key in SELECTOR_KEYS if key in given}, as_version=as_version, brokers=brokers
    )
    verdict = _verdict(given)
    nth = _count("nth", given.get("nth"), 1) or 0
    times = _count("times", given.get("times"), 1)
    if nth and times is None:
        times = 1
    probability = _probability(given.get("probability"))
    must_hit = _flag("must_hit", given.get("must_hit", probability is None))
    after_ms = duration_ms(given.get("after", 0), "after")
    during_ms = duration_ms(given["during"], "during") if "during" in given else None
    if during_ms == 0:
        raise UsageError("during: a window of 0 ms takes no request")
    return Rule(selector, verdict, nth, times, probability, after_ms, during_ms, must_hit)


def _verdict(given: Mapping[str, object]) -> Verdict:
    named = [key for key in VERDICTS if key in given and given[key] is not False]
    if not named:
        raise UsageError(f"a rule needs a verdict, one of {', '.join(VERDICTS)}")
    if len(named) > 1:
        raise UsageError(f"a rule has one verdict, not {' and '.join(named)}")
    kind, value = Kind(named[0]), given[named[0]]
    if "gap" in given and kind is not Kind.SPLIT:
        raise UsageError(f"gap belongs to split, not to {kind.value}")
    if kind in _ERRORS:
        return Verdict(kind, error_from(value, kind.value))
    if kind in _DURATIONS:
        return Verdict(kind, number=duration_ms(value, kind.value))
    if kind in _FLAGS:
        _flag(kind.value, value)
        return Verdict(kind)
    number = _count(kind.value, value, 0 if kind is Kind.TRUNCATE else 1)
    assert number is not None
    gap_ms = duration_ms(given.get("gap", DEFAULT_GAP_MS / 1000), "gap") if kind is Kind.SPLIT else 0
    return Verdict(kind, number=number, gap_ms=gap_ms)


def error_from(value: object, what: str = "error") -> Err:
    """An error by Kafka's name in any case, by its code, or as Err. Raises UsageError with the nearest."""
    if isinstance(value, str) and not value.lstrip("-").isdigit():
        found = Err.__members__.get(value.strip().upper().replace("-", "_"))
        if found is None:
            raise unknown("error", value, Err.__members__)
    elif isinstance(value, bool) or not isinstance(value, int | str):
        raise UsageError(f"{what}: {value!r} is neither the name of an error nor its code")
    else:
        try:
            found = Err(int(value))
        except ValueError:
            raise UsageError(f"{what}: Kafka has no error with the code {value}") from None
    if found is Err.NONE:
        raise UsageError(f"{what}: NONE is no error")
    return found


def _count(key: str, value: object, least: int) -> int | None:
    if value is None:
        return None
    number = int(value) if isinstance(value, str) and value.isdigit() and len(value) < 11 else value
    if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= LARGEST:
        raise UsageError(f"{key}: {value!r} is not a whole number from {least}")
    return number


def _probability(value: object) -> float | None:
    if value is None:
        return None
    try:
        number = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else -1.0
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise UsageError(f"probability: {value!r} is not a number from 0 to 1")
    return number


_WORDS = {"true": True, "yes": True, "false": False, "no": False}


def _flag(key: str, value: object) -> bool:
    flag = _WORDS.get(value.lower()) if isinstance(value, str) else value
    if not isinstance(flag, bool):
        raise UsageError(f"{key}: {value!r} is neither true nor false")
    return flag


def _ordinal(number: int) -> str:
    suffix = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"
