"""What is told of those who send nonsense: no character of theirs reaches a terminal, and a flood of them is counted."""

from __future__ import annotations

import logging

import pytest

from broker_sim.common.refusals import AT_ONCE, PERIOD_MS, Refusals
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
    assert caplog.messages[-2] == f"{1_000 - AT_ONCE} more connections were closed for the same reason"
    assert len(caplog.messages[-1]) < 600
    for number in range(AT_ONCE + 5):
        refusals.log("/127.0.0.1", None, f"again, {number}")
    refusals.end()
    assert caplog.messages[-1] == "6 more connections were closed for the same reason"


def test_a_client_that_comes_again_with_the_same_mistake_has_its_line_once(caplog: pytest.LogCaptureFixture) -> None:
    now_ms = 1_000
    refusals = Refusals(logging.getLogger("broker_sim.test"), lambda: now_ms)
    for _ in range(18):
        refusals.log("/127.0.0.1", None, "it begins as TLS does")
        now_ms += 1_000
    refusals.log("/127.0.0.1", "app", "it begins as TLS does")
    assert [line for line in caplog.messages if "TLS" in line] == [
        "closing the connection of /127.0.0.1 (client id none): it begins as TLS does",
        "closing the connection of /127.0.0.1 (client id app): it begins as TLS does",
    ]
    refusals.end()
    assert sum(int(line.split()[0]) for line in caplog.messages if "more connections" in line) == 17
