"""Recording of a target's answers, in a form that can be compared: every response of a test, field by field.

Only what must differ between two runs is normalised: member ids (`m1-<uuid>` -> `m1-#1`), topic ids, ports (-> the node
they belong to) and points in time near now, or a day from it. Lists whose order is a hash order are sorted (`members` everywhere; what
OffsetCommit and OffsetFetch list, where the target is of the old generation). Fields at their schema's default, empty
lists and fields that the test ignores are left out.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from dataclasses import dataclass, field, is_dataclass
from typing import Any

_UUID = re.compile(r"([A-Za-z0-9_.]*-)?[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_HASHED = ("results_by_topic_v3_and_below", "results_by_partition", "topic_results", "transaction_states")
NEAR_NOW_MS = 3_600_000
DAY_MS = 86_400_000
UNANSWERED = "no answer"


@dataclass(slots=True)
class Exchange:
    """One request that was sent, and where its response will be."""

    sender: str
    request: Any
    version: int
    answer: asyncio.Future[Any]


@dataclass
class Recording:
    """The exchanges of one test on one target, in the order in which the requests were sent."""

    old: bool = False
    prefix: str = ""
    ports: dict[int, int] = field(default_factory=dict)
    exchanges: list[Exchange | tuple[str, Any]] = field(default_factory=list)
    ignored: dict[str, str] = field(default_factory=dict)
    named: dict[str, str] = field(default_factory=dict)
    """Drawn ids that no pattern finds, and what is shown for them."""
    _ids: dict[str, str] = field(default_factory=dict)
    _count: dict[str, int] = field(default_factory=dict)

    def add(self, sender: str, request: Any, version: int, answer: asyncio.Future[Any]) -> None:
        self.exchanges.append(Exchange(sender, request, version, answer))

    def note(self, label: str, value: Any) -> None:
        """Something else that a test has read (plain data), to be compared like an answer."""
        self.exchanges.append((label, value))

    def owns(self, name: str) -> bool:
        """Whether a group belongs to this test: its prefix, or one with a suffix behind a dash."""
        return name == self.prefix or name.startswith(self.prefix + "-")

    def render(self) -> list[list[Any]]:
        """[[label, response as plain data], ...]; label = sender, API and version."""
        return [self._render_one(exchange) for exchange in self.exchanges]

    def _render_one(self, exchange: Exchange | tuple[str, Any]) -> list[Any]:
        if isinstance(exchange, tuple):
            return [exchange[0], self._plain(exchange[1], 0, "")]
        label = f"{exchange.sender}: {type(exchange.request).__name__.removesuffix('Request')} v{exchange.version}"
        answer = exchange.answer
        if not answer.done() or answer.cancelled():
            return [label, UNANSWERED]
        error = answer.exception()
        if error is not None:
            return [label, type(error).__name__]
        return [label, self._plain(answer.result(), exchange.version, "")]

    def _plain(self, value: Any, version: int, name: str) -> Any:
        if is_dataclass(value):
            return self._plain_message(value, version)
        if isinstance(value, dict):
            return {key: self._plain(item, version, key) for key, item in value.items()}
        if isinstance(value, list):
            return self._plain_list(value, version, name)
        if isinstance(value, bytes):
            if len(value) == 16 and name.endswith("_id"):
                return self._placeholder("topic-", value.hex())
            return self._without_ids(value.decode("latin-1"))
        if isinstance(value, str):
            return self._without_ids(value)
        if isinstance(value, int) and not isinstance(value, bool):
            if name == "producer_id" and value > 0:  # 0 is the default of many answers
                return self._placeholder("producer ", str(value))
            if name == "port" and value in self.ports:
                return f"port of node {self.ports[value]}"
            days = round((value - time.time() * 1000) / DAY_MS)
            if abs(days) <= 1 and abs(value - time.time() * 1000 - days * DAY_MS) < NEAR_NOW_MS:
                return "now" if days == 0 else f"now {days:+} day"
        return value

    def _plain_message(self, value: Any, version: int) -> dict[str, Any]:
        fresh = type(value)()
        out: dict[str, Any] = {}
        for name, spec in type(value).__fields__:
            present = getattr(value, name)
            if version not in spec.versions or name in self.ignored or present == getattr(fresh, name):
                continue
            plain = self._plain(present, version, name)
            if plain != []:
                out[name] = plain
        return out

    def _plain_list(self, value: list[Any], version: int, name: str) -> list[Any]:
        if name == "groups" and value and hasattr(value[0], "group_state") and not hasattr(value[0], "members"):
            value = [group for group in value if self.owns(group.group_id)]  # ListGroups shows all tests'
            return sorted((self._plain(item, version, name) for item in value), key=_text)
        if name == "transaction_states" and value and not hasattr(value[0], "error_code"):
            value = [one for one in value if self.owns(one.transactional_id)]  # ListTransactions, likewise
        plain = [self._plain(item, version, name) for item in value]
        hashed = name in _HASHED or (
            self.old and value and type(value[0]).__name__.startswith(("OffsetFetch", "OffsetCommit"))
        )
        return sorted(plain, key=_text) if name == "members" or hashed else plain

    def without_names(self, text: str) -> str:
        """With what stands in ``named`` replaced."""
        for whole, name in self.named.items():
            text = text.replace(whole, name)
        return text

    def _without_ids(self, text: str) -> str:
        return _UUID.sub(lambda found: self._placeholder(found[1] or "", found[0]), self.without_names(text))

    def _placeholder(self, prefix: str, whole: str) -> str:
        known = self._ids.get(whole)
        if known is None:
            self._count[prefix] = self._count.get(prefix, 0) + 1
            known = self._ids[whole] = f"{prefix}#{self._count[prefix]}"
        return known


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def differences(truth: list[list[Any]], seen: list[list[Any]]) -> list[str]:
    """One line for each place where two renderings differ: `3 m1: JoinGroup v9 .members[0].metadata: 'a' != 'b'`."""
    out = []
    for number, (expected, actual) in enumerate(zip(truth, seen, strict=False), 1):
        if expected[0] != actual[0]:
            return [*out, f"{number} request: {expected[0]!r} != {actual[0]!r}"]
        out += [f"{number} {expected[0]} {line}" for line in _compare(expected[1], actual[1], "")]
    if len(truth) != len(seen):
        out.append(f"{len(truth)} requests != {len(seen)} requests")
    return out


def _compare(expected: Any, actual: Any, path: str) -> list[str]:
    if isinstance(expected, dict) and isinstance(actual, dict):
        out = []
        for key in sorted(expected.keys() | actual.keys()):
            out += _compare(expected.get(key, "default"), actual.get(key, "default"), f"{path}.{key}")
        return out
    if isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        return [
            line
            for index, pair in enumerate(zip(expected, actual, strict=True))
            for line in _compare(pair[0], pair[1], f"{path}[{index}]")
        ]
    return [] if expected == actual else [f"{path}: {expected!r} != {actual!r}"]
