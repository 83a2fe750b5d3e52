"""Rules for requests, as data: which ones, how often, and what happens to them.

A rule is a selector (``selectors``), a budget and exactly one verdict. The same keys make it in Python, over HTTP, on the command
line and in scenario files; ``RuleKeys`` declares them once, for type checkers and for parsing;
``rule_from`` validates all of them, so the same mistake has the same error everywhere.

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

Durations are those of ``text.duration_ms`` and pass on the broker's clock.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from broker_sim.common.text import UsageError, duration_text
from broker_sim.faults.selectors import FIELDS as SELECTOR
from broker_sim.faults.selectors import Selector, SelectorKeys, selector_of
from broker_sim.fields.field import about, fields_of, read
from broker_sim.fields.kafka import ErrorCode
from broker_sim.fields.kinds import Count, Duration, Flag, Number
from broker_sim.fields.names import ErrorLiteral
from broker_sim.fields.problems import Problems
from kafka_wire.api_keys import DEFAULT_VERSION
from kafka_wire.errors import Err

__all__ = ["FIELDS", "RULE_KEYS", "VERDICTS", "ActionKind", "Rule", "RuleKeys", "Verdict", "rule_from"]

DEFAULT_GAP_S = 0.1
LARGEST = 2**31 - 1


class ActionKind(enum.Enum):
    """Kinds of actions of a rule on a request; the value is the key in mappings."""

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


_AFTER = {
    ActionKind.ERROR_AFTER,
    ActionKind.REPLY_DELAY,
    ActionKind.DROP_AFTER,
    ActionKind.TRUNCATE,
    ActionKind.SPLIT,
    ActionKind.THROTTLE,
}
_DURATIONS = {ActionKind.DELAY, ActionKind.REPLY_DELAY}
_FLAGS = {ActionKind.HANG, ActionKind.DROP, ActionKind.DROP_AFTER}
_ERRORS = {ActionKind.ERROR, ActionKind.ERROR_AFTER}

VERDICTS = tuple(kind.value for kind in ActionKind)


class RuleKeys(SelectorKeys, total=False):
    """Every key of a rule but ``api``: which requests, how often, what happens; see the module's text. What is None is not given."""

    nth: Annotated[int | None, about(Count(1, LARGEST), "only the n-th match, from 1")]
    times: Annotated[int | None, about(Count(1, LARGEST), "maximum number of matches (default: unlimited)", example=3)]
    probability: Annotated[float | None, about(Number(0, 1), "probability of a match, from the cluster's seed")]
    after: Annotated[float | str | None, about(Duration(), "start this long after the rule was added")]
    during: Annotated[float | str | None, about(Duration(), "end this long after it began (default: with its removal)")]
    error: Annotated[
        ErrorLiteral | str | int | Err | None,
        about(ErrorCode(), "respond with this error; the request is not applied", example="NOT_COORDINATOR"),
    ]
    error_after: Annotated[
        ErrorLiteral | str | int | Err | None,
        about(ErrorCode(), "apply the request, then respond with this error", example="REQUEST_TIMED_OUT"),
    ]
    delay: Annotated[float | str | None, about(Duration(), "handle the request after this delay", example="2s")]
    reply_delay: Annotated[float | str | None, about(Duration(), "handle the request, respond after this delay")]
    hang: Annotated[bool | None, about(Flag(), "never handle or answer the request")]
    drop: Annotated[bool | None, about(Flag(), "reset the connection; the request is not applied")]
    drop_after: Annotated[bool | None, about(Flag(), "apply the request, then reset the connection")]
    truncate: Annotated[
        int | None, about(Count(0, LARGEST), "send this many bytes of the response, then close the connection")
    ]
    split: Annotated[
        int | None, about(Count(1, LARGEST), "send the response in two parts, the first with this many bytes")
    ]
    throttle_ms: Annotated[
        int | None,
        about(Count(1, LARGEST), "throttle_time_ms of the response; the connection is muted for that time"),
    ]
    gap: Annotated[float | str | None, about(Duration(), "split: delay between the two parts")]
    must_hit: Annotated[
        bool | None,
        about(Flag(), "removing the rule before it matched is an error (default: true, except with a probability)"),
    ]


FIELDS = {"api": SELECTOR["api"], **fields_of(RuleKeys)}
"""The fields of a rule, by their names."""

RULE_KEYS = tuple(FIELDS)
"""Every key of a rule."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Action of a rule. ``number``: ms of the delays and of the throttling, bytes of truncate and split."""

    kind: ActionKind
    error: Err = Err.NONE
    number: int = 0
    gap_ms: int = 0

    def text(self) -> str:
        """For people: ``error NOT_COORDINATOR``, ``delay 2 s``, ``drop the connection``."""
        kind, number = self.kind, self.number
        if kind in _ERRORS:
            return f"answer {self.error.name}" + (" after it was applied" if kind is ActionKind.ERROR_AFTER else "")
        if kind in _DURATIONS:
            return f"{'handle' if kind is ActionKind.DELAY else 'answer'} it {duration_text(number)} late"
        return {
            ActionKind.HANG: "never answer",
            ActionKind.DROP: "drop the connection",
            ActionKind.DROP_AFTER: "drop the connection after it was applied",
            ActionKind.TRUNCATE: f"send {number} bytes of the response and close",
            ActionKind.SPLIT: f"send {number} bytes of the response, the rest {duration_text(self.gap_ms)} later",
            ActionKind.THROTTLE: f"throttle for {duration_text(number)}",
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
        return {kind.value: self.number, **({"gap": f"{self.gap_ms}ms"} if kind is ActionKind.SPLIT else {})}


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: its requests, how often it acts, its action; see the module's text. ``times`` None is always, ``nth`` 0 is any."""

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
    given = read(FIELDS, values, "a rule", "key", of="a rule")
    problems = Problems()
    with problems.at():
        selector = selector_of(given, as_version=as_version, brokers=brokers)
    with problems.at():
        verdict = _verdict(given)
    during_ms = _ms(given["during"]) if "during" in given else None
    if during_ms == 0:
        problems.add(UsageError("during: a window of 0 ms matches no request (expected a duration above 0)"), "during")
    problems.check()
    nth, probability = given.get("nth", 0), given.get("probability")
    times = given.get("times", 1 if nth else None)
    must_hit = given.get("must_hit", probability is None)
    return Rule(selector, verdict, nth, times, probability, _ms(given.get("after", 0)), during_ms, must_hit)


def _verdict(given: Mapping[str, Any]) -> Verdict:
    named = [key for key in VERDICTS if key in given and given[key] is not False]
    if not named:
        raise UsageError(f"a rule needs an action; expected one of {', '.join(VERDICTS)}")
    if len(named) > 1:
        raise UsageError(f"a rule has one action, not {' and '.join(named)}; install a rule for each")
    kind, value = ActionKind(named[0]), given[named[0]]
    if "gap" in given and kind is not ActionKind.SPLIT:
        raise UsageError(f"gap is for the action split, not for {kind.value}")
    if kind in _ERRORS:
        return Verdict(kind, value)
    if kind in _DURATIONS:
        return Verdict(kind, number=_ms(value))
    if kind in _FLAGS:
        return Verdict(kind)
    return Verdict(kind, number=value, gap_ms=_ms(given.get("gap", DEFAULT_GAP_S)) if kind is ActionKind.SPLIT else 0)


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


def _ordinal(number: int) -> str:
    suffix = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"
