"""Data that a cluster keeps by what clients send is bounded in bytes."""

from __future__ import annotations

import sys

from broker_sim.common.refusals import Once
from broker_sim.metadata import answers
from broker_sim.metadata.answers import Answers


def test_worked_out_answers_are_bounded_in_bytes() -> None:
    kept = Answers()
    for number in range(200):
        kept.keep((9, "PLAINTEXT", f"{number}".encode()), bytes(1_000_000))
        assert sum(sys.getsizeof(answer) for answer in kept.values()) <= kept.size + 200 <= answers.MOST_BYTES + 200
    assert len(kept) >= 4
    for number in range(100_000):
        kept.keep((9, "PLAINTEXT", f"{number}".encode()), None)
    assert len(kept) < 60_000
    kept.clear()
    assert (len(kept), kept.size) == (0, 0)


def test_an_answer_that_would_take_most_of_it_is_not_remembered() -> None:
    kept = Answers()
    kept.keep((1,), b"small")
    kept.keep((2,), bytes(answers.MOST_BYTES // 4))
    assert list(kept) == [(1,)]


def test_a_warning_about_a_long_name_is_remembered_by_its_hash() -> None:
    once = Once()
    for number in range(100):
        assert once.first("client" * 5000, f"group-{number}" * 4000, "words")
        assert not once.first("client" * 5000, f"group-{number}" * 4000, "words")
    assert once.first(None, "group", "words")
    assert not once.first(None, "group", "words")
    assert sum(len(part or "") for key in once._logged for part in key) < 10_000
