"""Two runs that are the same at first: where they part.

    parting(failing.events, passing.events, "without the crash of app-3", EPOCH_MS)

Marks, which say what a plan did, and the numbers of events are left out: a fault that one run has and the other hasn't is known. The
result is the first different action of a client, broker or group; connections are ignored, since they follow from requests.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

from kafka_wire.errors import Err

__all__ = ["event_text", "names_of", "parting"]

Event = Mapping[str, Any]
_BEFORE, _AFTER = 2, 4
_LONG = 150
_CODES = {int(error) for error in Err}


def _compared(events: Sequence[Event]) -> list[Event]:
    return [event for event in events if event["event"] not in ("mark", "fault_added", "fault_removed", "connection")]


def _same(event: Event | None, other: Event | None) -> bool:
    return event is not None and other is not None and {**event, "seq": 0} == {**other, "seq": 0}


def parting(failing: Sequence[Event], passing: Sequence[Event], what: str, begun_ms: int) -> list[str]:
    """Lines about where two runs begin to differ; none where the events are the same to the end. ``what``: how the second run differs
    from the first; ``begun_ms``: the wall time of their beginning."""
    mine, others = _compared(failing), _compared(passing)
    at = next((at for at, (event, other) in enumerate(zip_longest(mine, others)) if not _same(event, other)), None)
    if at is None or not failing:
        return []
    elapsed_ms = (mine[at] if at < len(mine) else others[at])["ts_ms"] - begun_ms
    names = (names_of(failing), names_of(passing))
    lines = [f"the nearest run that passes is {what}; the runs differ from {elapsed_ms / 1000:.3f} s on:"]
    lines += [f"  both     {event_text(event, begun_ms, names[0])}" for event in mine[max(0, at - _BEFORE) : at]]
    for name, events, known in (("fails", mine, names[0]), ("passes", others, names[1])):
        shown = [event_text(event, begun_ms, known) for event in events[at : at + _AFTER]]
        lines += [f"  {name:8} {text}" for text in shown or ["(nothing more)"]]
    return lines


Names = Mapping[tuple[str, int], str]
"""Texts that stand for requests and connections, by their numbers."""


def names_of(events: Sequence[Event]) -> Names:
    """Hosts of connections, and requests as "Fetch 17 of app-1"."""
    names: dict[tuple[str, int], str] = {}
    for event in events:
        if event["event"] == "connection":
            names["connection", event["connection"]] = event.get("host") or event["peer"]
        elif event["event"] == "request":
            who = names.get(("connection", event["connection"]), event["client_id"])
            names["request", event["request"]] = f"{event['api']} {event['request']} of {who}"
    return names


def event_text(event: Event, begun_ms: int, names: Names) -> str:
    """An event in a line, with the virtual seconds since the beginning."""
    kind = event["event"]
    if kind == "request":
        group = f", group {event['group']}" if "group" in event else ""
        text = f"{names['request', event['request']]} at broker {event['broker']}{group}"
    elif kind == "response":
        errors = sorted(
            {Err(code).name if code in _CODES else str(code) for code in _errors(event.get("body")) if code}
        )
        what = names.get(("request", event["request"]), f"{event['api']} {event['request']}")
        text = f"{what}: {event.get('action') or ', '.join(errors) or 'answered'}"
    elif kind == "group":
        text = f"group {event['group']}: {_state(event['before'])} -> {_state(event['after'])}"
    elif kind == "offsets":
        shown = ", ".join(f"{log} {offset}" for log, offset in event["offsets"].items())
        text = f"group {event['group']} has committed {shown}"
    elif kind == "mark":
        text = str(event["text"])
    else:
        rest = {name: value for name, value in event.items() if name not in ("seq", "ts_ms", "event")}
        text = f"{kind} {json.dumps(rest, default=str)}"
    line = f"{(event['ts_ms'] - begun_ms) / 1000:.3f} s  {text}"
    return line if len(line) <= _LONG else line[: _LONG - 4] + " ..."


def _state(group: Mapping[str, Any] | None) -> str:
    return (
        "nothing" if group is None else f"{group['state']} (generation {group['generation']}, {group['size']} members)"
    )


def _errors(body: object) -> list[int]:
    """All error codes in a body."""
    if isinstance(body, Mapping):
        own = [body["error_code"]] if isinstance(body.get("error_code"), int) else []
        return own + [code for value in body.values() for code in _errors(value)]
    if isinstance(body, list | tuple):
        return [code for value in body for code in _errors(value)]
    return []
