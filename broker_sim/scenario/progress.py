"""The progress of a scenario in lines, and its history: every state that each group went through.

+   0.668 s  billing: Reconciling, group epoch 2, target epoch 2, members: 2
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from broker_sim.journal import Event

__all__ = ["Progress"]

_LINES = {
    "group": "{state}, generation {generation}, members: {size}",
    "epochs": "{state}, group epoch {group_epoch}, target epoch {target_epoch}, members: {size}",
    "mark": "== {text}",
    "state": "{log}: {state}, {action}",
    "leader": "{log}: {reason}, led by broker {leader} in epoch {epoch}",
    "load": "{log}: load {action}",
    "broker": "broker {broker}: {action}",
    "fault_added": "fault {fault}: {rule}",
    "fault_removed": "fault {fault} is removed after {hits} hits",
}
"""The events that are progress, and their texts."""

_REPORTED = ("started", "exited", "left", "error", "commit_failed")
"""Kinds of clients' reports that are written as progress; equal lines are written once."""

_LONGEST = 300
"""Characters of a client's line."""


class Progress:
    """``write``: called with each line, which begins with the broker's time since the scenario's first event."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self.group_states: list[str] = []
        """The lines about groups, without their times: equal for runs that went alike."""
        self._write = write
        self._begun_ms: int | None = None
        self._reported: set[str] = set()
        self._epochs: dict[str, str] = {}
        """The last line about an epoch-based group, by its id: most of its events change a member alone."""

    def report(self, event: Event) -> None:
        """Write a line if the event is progress. All events are passed to it, in their order."""
        if self._begun_ms is None:
            self._begun_ms = event["ts_ms"]
        kind = event["event"]
        if kind in ("group", "epochs"):
            line = self._group(event) if kind == "group" else self._group_with_epochs(event)
            if line is not None:
                self.group_states.append(line)
                self.line(event, line)
        elif kind == "client":
            line = f"client {event['client']}: {event['reports']}" + (f", {event['text']}" if event["text"] else "")
            if event["reports"] in _REPORTED and line not in self._reported:
                self._reported.add(line)
                self.line(event, line[:_LONGEST])
        elif kind in _LINES:
            self.line(event, _LINES[kind].format(**event))

    def line(self, event: Event, text: str) -> None:
        """Write a line with the time of an event."""
        self._write(f"{self.at(event)}  {text}")

    def at(self, event: Event) -> str:
        """The broker's time since the start."""
        begun_ms = event["ts_ms"] if self._begun_ms is None else self._begun_ms
        return f"+{(event['ts_ms'] - begun_ms) / 1000:8.3f} s"

    def _group(self, event: Event) -> str | None:
        before, after = event["before"], event["after"]
        if not after:
            return f"{event['group']}: is deleted"
        if before and _progress_of(before) == _progress_of(after):
            return None
        return f"{event['group']}: {_LINES['group'].format(**after)}"

    def _group_with_epochs(self, event: Event) -> str | None:
        line = f"{event['group']}: {_LINES['epochs'].format(**event)}"
        if self._epochs.get(event["group"]) == line:
            return None
        self._epochs[event["group"]] = line
        return line


def _progress_of(snapshot: Mapping[str, Any]) -> tuple[Any, ...]:
    return snapshot["state"], snapshot["generation"], snapshot["size"]
