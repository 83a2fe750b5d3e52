"""Caches whose keys come from clients take no more memory than their entries times the longest argument."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from broker_sim.coordinator.classic.vote import string_hash
from broker_sim.coordinator.share_state.state import ShareKey, _encoded_key
from broker_sim.requests.context import _client
from broker_sim.runtime import group_coordinator, journal_observer, share_state_coordinator, transaction_coordinator
from broker_sim.storage import java_hash
from kafka_wire.remembered import remembered
from kafka_wire.transaction_log import encode_key

LONG = 32_000
"""Characters of a string in a request: 32,767 at most."""

REMEMBERED: dict[str, tuple[Callable[..., Any], Callable[[str], tuple[Any, ...]]]] = {
    "hash of a group id": (java_hash, lambda text: (text,)),
    "partition of a group id": (group_coordinator.partition_of, lambda text: (text, 50)),
    "partition of a transactional id": (transaction_coordinator._partition_of, lambda text: (text, 50)),
    "partition of a share group's state": (share_state_coordinator._partition_of, lambda text: (text, 50)),
    "coordinator key of a share group": (
        share_state_coordinator.coordinator_key,
        lambda text: (ShareKey(text, bytes(16), 0),),
    ),
    "record key of a share group": (_encoded_key, lambda text: (ShareKey(text, bytes(16), 0), False)),
    "hash of a protocol's name": (string_hash, lambda text: (text,)),
    "client": (_client, lambda text: (text, "/127.0.0.1", 3)),
    "record key of a transactional id": (encode_key, lambda text: (text,)),
    "subscription": (journal_observer._topics, lambda text: (text.encode(),)),
    "assignment": (journal_observer._partitions, lambda text: (text.encode(),)),
}


@pytest.mark.parametrize("what", REMEMBERED)
def test_a_long_argument_is_not_remembered(what: str) -> None:
    function, arguments = REMEMBERED[what]
    before = function.cache_info()  # type: ignore[attr-defined]
    for number in range(3):
        function(*arguments(f"{number}" + "x" * LONG))
    assert function.cache_info() == before  # type: ignore[attr-defined]
    assert before.maxsize <= 16384


@pytest.mark.parametrize("what", REMEMBERED)
def test_a_short_one_is(what: str) -> None:
    function, arguments = REMEMBERED[what]
    first = function(*arguments(what))
    hits = function.cache_info().hits  # type: ignore[attr-defined]
    assert function(*arguments(what)) == first
    assert function.cache_info().hits == hits + 1  # type: ignore[attr-defined]


def test_what_has_another_size() -> None:
    calls: list[tuple[int, str]] = []

    @remembered(entries=2, longest=10, size=abs)
    def described(number: int, word: str) -> str:
        """Return the number and the word as one string."""
        calls.append((number, word))
        return f"{number} {word}"

    for _ in range(2):
        assert described(-10, "a") == "-10 a"
        assert described(-11, "a") == "-11 a"
    assert calls == [(-10, "a"), (-11, "a"), (-11, "a")]
    assert described.__doc__ == "Return the number and the word as one string."
