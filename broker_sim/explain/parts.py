"""A part of a journal that can be read by itself, as the events of one test where many share a cluster."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["events_after"]


def events_after(events: Iterable[dict[str, Any]], seq: int) -> list[dict[str, Any]]:
    """The events after number ``seq``, behind those that say how it was then, as at the beginning of a journal: the state of each group
    that existed, and the states of partitions that lasted."""
    events = list(events)
    if not seq:
        return events
    groups: dict[Any, dict[str, Any]] = {}
    states: dict[Any, dict[str, Any]] = {}
    part: list[dict[str, Any]] = []
    for event in events:
        if event["seq"] > seq:
            part.append(event)
        elif event["event"] in ("group", "epochs"):
            groups[event.get("event"), event.get("group")] = event
        elif event["event"] == "state":
            states[event.get("log"), event.get("state")] = event
    if not part:
        return []
    now = {"ts_ms": part[0]["ts_ms"]}
    before = [{**event, **now} for event in states.values() if event.get("action") == "set"]
    for (kind, _), event in groups.items():
        if kind == "epochs" and event.get("state") != "Dead":
            before.append({**event, **now, "cause": {"kind": "load"}})
        elif kind == "group" and event.get("after") is not None:
            before.append({**event, **now, "before": None, "cause": {"kind": "load"}})
    return [*before, *part]
