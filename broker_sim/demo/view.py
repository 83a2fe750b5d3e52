"""Output of the demo: lines with a time and an actor, and at the end a picture of what happened to whom when."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator

COLOURS = {"broker": "33", "group": "36", "check": "32", "PROBLEM": "31;1"}
LEGEND = (
    "#  has partitions     ~  rebalancing, has none     =  broker runs",
    "X  killed     .  dead, but still a member     !  removed        >  left",
)
AFTER = {"X": ".", "!": " ", ">": " "}
"""Signs for a moment: how the lane goes on behind them."""

Mark = tuple[float, str]
"""Seconds since the beginning, and what holds from then on."""


class View:
    """Prints to stdout; colours only on a terminal (and not where NO_COLOR is set)."""

    def __init__(self) -> None:
        self.colours = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        self.start_s = time.monotonic()
        self.lanes: dict[str, list[Mark]] = {}
        self.generations: list[Mark] = []

    def now_s(self) -> float:
        """Seconds since the demo began."""
        return time.monotonic() - self.start_s

    def title(self, text: str) -> None:
        """Print the title of the next act."""
        print(f"\n{self._paint(text, '1')}", flush=True)

    def say(self, actor: str, text: str) -> None:
        """Print a line with the time."""
        print(f"{self.now_s():7.2f} s  {self._paint(f'{actor:<7}', COLOURS.get(actor, '35'))}  {text}", flush=True)

    def mark(self, lane: str, sign: str) -> None:
        """Draw ``lane`` with the character ``sign`` from now on, which represents its state."""
        self.lanes.setdefault(lane, []).append((self.now_s(), sign))

    def generation(self, text: str) -> None:
        """A generation begins, or with "~" a rebalance."""
        self.generations.append((self.now_s(), text))

    def picture(self) -> str:
        """Members as lanes, generations as bands, time from left to right."""
        width = max(60, min(shutil.get_terminal_size().columns - 15, 100))
        step_s = self.now_s() / width
        rows = [f"  {line}" for line in LEGEND]
        rows += ["", f"  {'generation':<11}{_band(self.generations, step_s, width)}".rstrip()]
        for lane in [*sorted(name for name in self.lanes if name != "broker"), "broker"]:
            rows.append(f"  {lane:<11}{_lane(self.lanes.get(lane, []), step_s, width)}".rstrip())
        rows.append(f"  {'seconds':<11}{_ruler(step_s, width)}")
        return "\n".join(rows)

    def _paint(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.colours else text


def _columns(marks: list[Mark], step_s: float, width: int) -> Iterator[tuple[int, int, str]]:
    """First column, column behind the last, text; each mark lasts until the next one, and for a column at least."""
    for number, (at_s, text) in enumerate(marks):
        first = min(int(at_s / step_s), width - 1)
        last = int(marks[number + 1][0] / step_s) if number + 1 < len(marks) else width
        yield first, max(last, first + 1), text


def _band(marks: list[Mark], step_s: float, width: int) -> str:
    row = [" "] * width
    for first, last, text in _columns(marks, step_s, width):
        row[first:last] = "~" * (last - first) if text == "~" else f"|{text}".ljust(last - first, "-")[: last - first]
    return "".join(row)


def _lane(marks: list[Mark], step_s: float, width: int) -> str:
    row = [" "] * width
    moments: dict[int, str] = {}  # never hidden by what follows in the same column
    for first, last, sign in _columns(marks, step_s, width):
        if sign in AFTER or sign == "~":
            moments[first] = sign
        row[first:last] = AFTER.get(sign, sign) * (last - first)
    for column, sign in moments.items():
        row[column] = sign
    return "".join(row)


def _ruler(step_s: float, width: int) -> str:
    row = ""
    for second in range(0, int(width * step_s) + 1, 2):
        row = row.ljust(int(second / step_s)) + str(second)
    return row
