"""Records of share groups in explanations: equal deliveries whose durations differ a little are one entry."""

from __future__ import annotations

from typing import Any

from broker_sim.explain.delivery_text import summary

T0 = 1_700_000_000_000


def delivery(at: int, action: str, offset: int, becomes: str = "available", deliveries: int = 1) -> dict[str, Any]:
    return {
        "event": "delivery", "ts_ms": T0 + at, "log": "orders-0", "group": "jobs", "action": action, "member": "ann",
        "first": offset, "last": offset, "deliveries": deliveries, "becomes": becomes, "start_offset": 0,
    }  # fmt: skip


def entries(*events: dict[str, Any]) -> list[str]:
    told = summary(sorted(events, key=lambda event: event["ts_ms"]), "jobs")
    assert told is not None
    return [words for _, words in told[1]]


def story(offset: int, released: int, accepted: int) -> list[dict[str, Any]]:
    """A record that ann releases, gets again and accepts."""
    return [
        delivery(0, "acquired", offset, "acquired"),
        delivery(released, "released", offset),
        delivery(3000, "acquired", offset, "acquired", 2),
        delivery(3000 + accepted, "accepted", offset, "acknowledged", 2),
    ]


def test_durations_that_differ_by_some_ms_are_a_range_of_one_entry() -> None:
    events = [event for offset, ms in enumerate((4, 9, 7)) for event in story(offset, ms, 100)]
    assert entries(*events) == [
        "records 0 to 2 of orders-0 were delivered twice: to ann, which released it after 4 ms to 9 ms; to ann, which accepted it"
        " after 100 ms"
    ]


def test_durations_that_differ_by_a_second_or_another_end_are_entries_of_their_own() -> None:
    assert len(entries(*story(0, 4, 100), *story(1, 1004, 100), *story(2, 1010, 100))) == 2
    rejected = [*story(1, 4, 100)[:3], delivery(3100, "rejected", 1, "archived", 2)]
    assert len(entries(*story(0, 4, 100), *rejected)) == 2


def test_the_time_until_the_delivery_limit_is_a_range_too() -> None:
    ends = [(0, 3000), (1, 3004)]
    events = [delivery(0, "acquired", offset, "acquired") for offset, _ in ends]
    events += [delivery(at, "expired", offset, "archived") for offset, at in ends]
    (words,) = entries(*events)
    assert words.endswith(
        "whose acquisition lock expired after 3 s. That was the group's delivery limit: archived after 3 s"
    )
    (words,) = entries(*events, delivery(0, "acquired", 2, "acquired"), delivery(3700, "expired", 2, "archived"))
    assert words.startswith("records 0 to 2 of orders-0")
    assert words.endswith(
        "expired after 3 s to 3.7 s. That was the group's delivery limit: archived after 3 s to 3.7 s"
    )
