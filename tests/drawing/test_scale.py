"""Time on paper."""

from __future__ import annotations

import pytest

from broker_sim.drawing.scale import Scale

START_MS = 1_730_628_000_000


def test_idle_time_is_cut_and_the_rest_keeps_its_proportions() -> None:
    hour = 3_600_000
    scale = Scale(
        START_MS, START_MS + hour, 100, [(START_MS, START_MS + 4000), (START_MS + hour - 4000, START_MS + hour)]
    )
    assert [segment.cut for segment in scale.segments] == [False, True, False]
    assert scale.x(START_MS) == 0
    assert scale.x(START_MS + hour) == 100
    assert scale.x(START_MS + 4000) == pytest.approx(100 - scale.x(START_MS + hour - 4000))
    assert scale.x(START_MS + 4000) > 20


def test_nothing_is_cut_where_nothing_is_idle() -> None:
    scale = Scale(0, 10_000, 100, [(0, 10_000)])
    assert [scale.x(ts_ms) for ts_ms in (-5, 0, 2500, 10_000, 20_000)] == [0, 0, 25, 100, 100]
    assert scale.ticks(20, 20) == [
        (0.0, "00:00:00"),
        (20.0, "00:00:02"),
        (40.0, "00:00:04"),
        (60.0, "00:00:06"),
        (80.0, "00:00:08"),
    ]
