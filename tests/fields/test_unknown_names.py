"""Errors about unknown names: the valid names are listed, the most similar one first."""

from __future__ import annotations

import pytest

from broker_sim.common.text import expected, nearest, unknown

STATES = ["slow", "stuck", "full"]
MANY = [f"topic-{number}" for number in range(200)]


@pytest.mark.parametrize(
    ("word", "known", "text"),
    [
        ("stuk", STATES, "did you mean 'stuck'? expected one of stuck, slow, full"),
        ("STUCK", STATES, "did you mean 'stuck'? expected one of stuck, slow, full"),
        ("x", STATES, "expected one of slow, stuck, full"),
        (7, ["1", "2"], "expected one of 1, 2"),
        (7, ["1"], "expected 1"),
        ("biling", ["billing"], "did you mean 'billing'?"),
        ("x", [], "none exists"),
    ],
)
def test_valid_names_are_listed_the_most_similar_one_first(word: object, known: list[str], text: str) -> None:
    assert expected(word, known) == text
    assert str(unknown("state", word, known)) == f"no state {word!r}; {text}"


def test_of_many_names_some_are_listed_and_all_are_counted() -> None:
    assert expected("x", MANY) == f"expected one of {', '.join(MANY[:12])}, .. (200 in all)"
    similar = expected("topik-7", MANY)
    assert similar.startswith("did you mean 'topic-7'? expected one of topic-7, ")
    assert similar.endswith(", .. (200 in all)")
    assert similar.count(", ") <= 5


def test_the_error_has_the_nearest_name() -> None:
    assert unknown("state", "stuk", STATES).nearest == nearest("stuk", STATES) == "stuck"
    error = unknown("key", "speed", ["rate", "records"], meant="rate")
    assert (error.nearest, str(error)) == ("rate", "no key 'speed'; did you mean 'rate'? expected one of rate, records")
