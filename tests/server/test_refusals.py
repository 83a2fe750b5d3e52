"""Log lines about invalid requests: no character of a client reaches a terminal, and a flood of them is counted."""

from __future__ import annotations

import logging

import pytest

from broker_sim.common.refusals import AT_ONCE, COUNTED, PERIOD_MS, Refusals
from broker_sim.common.text import short, visible, visible_lines

NASTY = "app\x1b[2J\x07\r\n\u202etxt\x9b\ud800\u2028"


def test_nothing_invisible_is_left_of_a_name() -> None:
    assert visible(NASTY) == "app\\x1b[2J\\x07\\r\\n\\u202etxt\\x9b\\ud800\\u2028"
    assert visible("größe 1 \N{SNOWMAN}") == "größe 1 \N{SNOWMAN}"
    assert visible_lines("one\ntwo\x1b") == "one\ntwo\\x1b"
    assert short(NASTY * 10_000) == short(NASTY * 20_000)
    assert len(short(NASTY * 10_000)) == len(short("x" * 50_000)) == 100
    assert short("x" * 100) == "x" * 100


def test_of_a_flood_a_line_is_told_now_and_then_with_a_count(caplog: pytest.LogCaptureFixture) -> None:
    now_ms = 1_000
    refusals = Refusals(logging.getLogger("broker_sim.test"), lambda: now_ms)
    for number in range(1_000):
        refusals.log("/127.0.0.1", NASTY, f"a frame of nonsense, {number}")
    assert len(caplog.messages) == AT_ONCE
    assert (
        caplog.messages[0]
        == f"closing the connection of /127.0.0.1 (client id {visible(NASTY)}): a frame of nonsense, 0"
    )
    last = caplog.messages[0].removesuffix("0") + str(AT_ONCE - 1)
    assert caplog.messages[-1] == f"{last}; more within 10 s are counted, not logged"
    now_ms += PERIOD_MS
    refusals.log("/127.0.0.1", None, "x" * 100_000)
    assert caplog.messages[-2] == (
        "980 more connections were closed: 1 x a frame of nonsense, 20; 1 x a frame of nonsense, 21; "
        "1 x a frame of nonsense, 22; 977 x other reasons"
    )
    assert len(caplog.messages[-1]) < 600
    for number in range(AT_ONCE + 5):
        refusals.log("/127.0.0.1", None, f"again, {number}")
    refusals.end()
    assert caplog.messages[-1].startswith("6 more connections were closed: 1 x again, 19; 1 x again, 20; ")


def test_the_most_frequent_reasons_are_named_with_their_counts(caplog: pytest.LogCaptureFixture) -> None:
    refusals = Refusals(logging.getLogger("broker_sim.test"), lambda: 1_000)
    for number in range(1, 6):
        for _ in range(number + 1):
            refusals.log("/127.0.0.1", None, f"reason {number}")
    refusals.end()
    assert caplog.messages[-1] == (
        "15 more connections were closed: 5 x reason 5; 4 x reason 4; 3 x reason 3; 3 x other reasons"
    )
    refusals.end()
    assert len(caplog.messages) == 6, "nothing is counted twice"
    refusals.log("/127.0.0.1", None, "reason 5")
    refusals.end()
    assert caplog.messages[-1] == "1 more connections were closed: 1 x reason 5"


def test_a_flood_with_ever_new_reasons_takes_no_memory(caplog: pytest.LogCaptureFixture) -> None:
    refusals = Refusals(logging.getLogger("broker_sim.test"), lambda: 1_000)
    for number in range(100_000):
        refusals.log("/127.0.0.1", None, f"{number} {'x' * 400}")
    assert len(vars(refusals)["_unlogged"]) <= COUNTED + 1
    refusals.end()
    assert caplog.messages[-1].startswith(f"{100_000 - AT_ONCE} more connections were closed: 1 x ")
    assert len(caplog.messages[-1]) < 1_600


def test_a_client_that_comes_again_with_the_same_mistake_has_its_line_once(caplog: pytest.LogCaptureFixture) -> None:
    now_ms = 1_000
    refusals = Refusals(logging.getLogger("broker_sim.test"), lambda: now_ms)
    for _ in range(18):
        refusals.log("/127.0.0.1", None, "it begins as TLS does")
        now_ms += 1_000
    refusals.log("/127.0.0.1", "app", "it begins as TLS does")
    assert [line for line in caplog.messages if "client id" in line] == [
        "closing the connection of /127.0.0.1 (client id none): it begins as TLS does",
        "closing the connection of /127.0.0.1 (client id app): it begins as TLS does",
    ]
    refusals.end()
    assert sum(int(line.split()[0]) for line in caplog.messages if "more connections" in line) == 17
