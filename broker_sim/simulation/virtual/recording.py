"""Is a run the same when it is run again? The events of one are compared with those of the next as they happen.

A run that is not repeatable has something in it that simulation does not pin: a set of plain objects, whose hashes are their addresses;
a clock or a generator that C code reads; something left over from an earlier run in this process.
"""

from __future__ import annotations

import json
import marshal
from typing import Any

from broker_sim.journal.files import plain
from broker_sim.simulation.errors import SimError

__all__ = ["CAUSES", "NotRepeatable", "RunRecording", "encoded", "hashed"]

CAUSES = """\
A run can be repeated if nothing in it depends on anything but its seed. What does, most often:
- the order of a set of plain objects, or id() and hash() of them: their hashes are addresses. Sort it, or use a dict;
- what an earlier run left behind: module globals, caches, counters, files. Make it anew in the test;
- a clock or generator that C code has for itself (numpy.datetime64('now'), torch's): take time.time and random;
- a thread, a C client with sockets of its own (librdkafka): it lives in real time."""
"""Advice for runs that differ."""

_BEFORE = 3
"""Events that an error shows before the first different one."""

_encode = json.JSONEncoder(default=plain, separators=(",", ":")).encode


def encoded(entry: tuple[int, dict[str, Any]]) -> str:
    """An event and the number of its cluster, as they are compared."""
    return _encode(entry)


def hashed(entry: tuple[int, dict[str, Any]]) -> bytes:
    """An event and the number of its cluster, for a hash of them all: marshal writes equal values equally in its second format, which
    has no references, and takes a quarter of JSON's time."""
    try:
        return marshal.dumps(entry, 2)
    except ValueError:  # something that only the JSON encoder can write
        return encoded(entry).encode()


class NotRepeatable(SimError):
    """Two runs with the same seed were not the same."""


class RunRecording:
    """The events of a run, as text. With ``expected``, those of an earlier one, the first difference is kept."""

    def __init__(self, expected: RunRecording | None = None) -> None:
        self.lines: list[str] = []
        self.difference: str | None = None
        """The first difference in words, with what came before it."""
        self._expected = None if expected is None else expected.lines

    def note(self, number: int, event: dict[str, Any]) -> None:
        """An event of the cluster with that number."""
        line = encoded((number, event))
        self.lines.append(line)
        expected = self._expected
        if expected is None or self.difference is not None:
            return
        at = len(self.lines) - 1
        if at >= len(expected) or expected[at] != line:
            self._differ(at)

    def end(self) -> None:
        """The run is over: it may have been shorter."""
        if self._expected is not None and self.difference is None and len(self.lines) < len(self._expected):
            self._differ(len(self.lines))

    def _differ(self, at: int) -> None:
        assert self._expected is not None
        same = [f"  both   {line}" for line in self.lines[max(0, at - _BEFORE) : at]]
        two = [lines[at] if at < len(lines) else "(nothing)" for lines in (self._expected, self.lines)]
        self.difference = "\n".join(
            [f"event {at + 1} is another one", *same, f"  first  {two[0]}", f"  second {two[1]}"]
        )
