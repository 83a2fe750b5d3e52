"""The timeline in a terminal: members as lanes, generations as bands, a letter for what happened, and why in a line each beneath."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from itertools import groupby

from broker_sim.common.text import clock, date, duration_text
from broker_sim.drawing.scale import Scale
from broker_sim.explain.events import Event
from broker_sim.explain.explanation import Paragraph, group_paragraphs, standing
from broker_sim.explain.history import history
from broker_sim.explain.model import History, Rebalance
from broker_sim.explain.phrases import because, incident_words, outcome_of
from broker_sim.explain.rebalances import EMPTY, STABLE
from broker_sim.explain.timeline_layout import Band, Lane, TimelineLayout, timeline_layout
from broker_sim.explain.transaction_text import is_trouble, transaction_text

__all__ = ["timeline"]

Cell = tuple[str, str]
"""A character and its ANSI colour."""

BLANK: Cell = (" ", "")
CUT: Cell = (":", "90")
NARROWEST = 40
MOST_LANES = 24
MOST_NOTES = 20

# mark: (letter, colour, meaning); a later one hides an earlier one in the same column
MARKS = {
    "present": ("─", "90", ""),
    "owned_waits": ("═", "34", "has partitions or tasks"),
    "owned": ("═", "34", ""),
    "awaiting_waits": ("~", "35", "waits for some that another member has"),
    "awaiting": ("~", "35", ""),
    "revoking_waits": ("v", "33", "is to give up some"),
    "revoking": ("v", "33", ""),
    "commit": ("c", "32", "commit"),
    "slow": ("w", "33", "waited for a response"),
    "lock_waits": ("▪", "36", "has records"),
    "open_waits": ("=", "36", "transaction open"),
    "marking_waits": ("%", "33", "its markers are pending"),
    "redelivered_waits": ("▫", "33", "has records that were delivered before"),
    "lock": ("A", "36", "acquired records"),
    "redelivered": ("a", "33", "acquired records again"),
    "unlocked": ("r", "33", "released or rejected some"),
    "open": ("T", "36", "transaction began"),
    "marking": ("M", "33", "its end was decided"),
    "heartbeat": ("h", "33", "heartbeat: REBALANCE_IN_PROGRESS"),
    "join_waits": ("░", "34", "JoinGroup deferred"),
    "sync_waits": ("▒", "36", "SyncGroup deferred"),
    "sync": ("S", "36", "SyncGroup"),
    "join": ("J", "34", "JoinGroup"),
    "replaced": ("R", "35", "rejoined with a new member id"),
    "trouble": ("!", "31", "error"),
    "unanswered": ("?", "31", "commit without a response"),
    "failed": ("C", "31", "commit failed"),
    "expired": ("E", "31", "lock or share session ended"),
    "archived": ("D", "31", "archived: no member gets them again"),
    "client_error": ("m", "35", "the client reported an error"),
    "fault": ("F", "35", "fault"),
    "left": ("L", "33", "left"),
    "removed": ("X", "31", "removed"),
}
_RANK = {kind: rank for rank, kind in enumerate(MARKS)}
PHASES = {"prepare": ("░", "34", "preparing"), "complete": ("▒", "36", "completing"), STABLE: ("━", "32", "Stable")}
EPOCH_PHASES = {"prepare": "assigning", "complete": "reconciling"}
"""Names of the phases in groups whose coordinator assigns."""
PHASES |= {EMPTY: ("·", "90", "Empty"), "again": ("x", "31", "began again")}


def timeline(events: Iterable[Event], group: str, width: int = 80, color: bool = False) -> str:
    """The drawing, no line longer than ``width`` (40 at least). ``color``: with ANSI colours."""
    width = max(width, NARROWEST)
    events = list(events)
    past = history(events, group)
    if not past.is_known:
        refused = [incident for incident in past.incidents if incident.kind == "refused"]
        notes = [f"{clock(incident.ts_ms)}  {incident_words(incident)}" for incident in refused]
        return "\n".join([f"No events of group {group!r} in the journal.", *(_cut(note, width) for note in notes)])
    what = timeline_layout(past, MOST_LANES)
    steps = (
        [part for part in group_paragraphs(events, past) if part.kind in ("rebalance", "trouble")]
        if what.by_epochs
        else []
    )
    return "\n".join(line.rstrip() for line in _Drawing(what, width, color, steps).lines())


class _Drawing:
    def __init__(self, what: TimelineLayout, width: int, color: bool, steps: list[Paragraph]) -> None:
        self.layout, self.width, self.color, self.steps = what, width, color, steps
        names = [lane.name for lane in what.lanes]
        self.gutter = min(max([len("generation"), *(len(name) + 2 for name in names)]), width // 3, 24)
        self.columns = width - self.gutter - 1
        self.scale: Scale = what.scale(self.columns - 1)
        self.used: set[str] = set()
        cuts = [segment for segment in self.scale.segments if segment.cut]
        self.cuts = {min(int((cut.start + cut.end) / 2), self.columns - 1) for cut in cuts}

    def lines(self) -> list[str]:
        past = self.layout.past
        where = f" on {past.log}" if past.log else ""
        lasted = duration_text(self.layout.to_ms - self.layout.from_ms)
        head = f"{past.group}{where}: {standing(past)}"
        span = f"{date(self.layout.from_ms)} {clock(self.layout.from_ms)} to {clock(self.layout.to_ms)} UTC, {lasted}"
        cuts = [segment for segment in self.scale.segments if segment.cut]
        span += f"; a column is {duration_text(1 / self.scale.px_per_ms)}"
        if cuts:
            span += f", : is idle time ({duration_text(sum(cut.to_ms - cut.from_ms for cut in cuts))})"
        lines = [*self._wrapped(head), *self._wrapped(span), "", self._axis(), self._generations(), self._states()]
        lines += self._log_lines()
        lines += [self._lane(lane) for lane in self.layout.lanes]
        lines += ["", *self._legend(), *self._notes()]
        return lines

    # rows

    def _row(self, name: str, cells: list[Cell], *, bold: bool = False) -> str:
        """A label and its cells; neighbours of one colour are painted together."""
        short = name if len(name) <= self.gutter else name[: self.gutter - 1] + "…"
        label = self._paint(short.ljust(self.gutter), "1" if bold else "")
        runs = (
            ("".join(letter for letter, _ in run), colour) for colour, run in groupby(cells, key=lambda cell: cell[1])
        )
        return f"{label} {''.join(self._paint(words, colour) for words, colour in runs)}"

    def _column(self, ts_ms: int) -> int:
        return min(int(self.scale.x(ts_ms)), self.columns - 1)

    def _blank(self) -> list[Cell]:
        """Empty cells, with a colon where idle time was cut."""
        cells = [BLANK] * self.columns
        for column in self.cuts:
            cells[column] = CUT
        return cells

    def _axis(self) -> str:
        cells = [BLANK] * self.columns
        for at, label in self.scale.ticks(14, 8):
            start = min(int(at), self.columns - len(label))
            if start >= 0 and all(cell == BLANK for cell in cells[max(start - 1, 0) : start + len(label)]):
                cells[start : start + len(label)] = [(letter, "90") for letter in label]
        return self._row("", cells)

    def _generations(self) -> str:
        """Numbers where the bands begin, as far as there is room."""
        cells = self._blank()
        end = -1
        for band in self.layout.bands:
            start = self._column(band.from_ms)
            if not band.label or start <= end or start + len(band.label) > self.columns:
                continue
            cells[start : start + len(band.label)] = [(letter, "1") for letter in band.label]
            end = start + len(band.label)
        return self._row("epoch" if self.layout.by_epochs else "generation", cells, bold=True)

    def _states(self) -> str:
        cells = self._blank()
        for band in self.layout.bands:
            for kind, start, end in _phases(band):
                letter, colour, _ = PHASES[kind]
                self.used.add(kind)
                first, last = self._column(start), self._column(end)
                cells[first : last + 1] = [(letter, colour)] * (last - first + 1)
        for column in self.cuts:
            cells[column] = CUT
        for band in self.layout.bands:
            if band.rest == "failed":
                letter, colour, _ = PHASES["again"]
                self.used.add("again")
                cells[max(self._column(band.ended_ms) - 1, self._column(band.from_ms))] = (letter, colour)
        return self._row("state", cells)

    def _log_lines(self) -> list[str]:
        lines = []
        for span in [*self.layout.log_spans, *self.layout.fault_spans][:8]:
            cells = self._blank()
            first = self._column(span.from_ms)
            last = self._column(self.layout.to_ms if span.to_ms is None else span.to_ms)
            fill = "▓" * (last - first + 1)
            text = f" {span.label} "
            inside = len(text) + 2 <= len(fill)
            if inside:
                fill = f"▓{text}{fill[len(text) + 1 :]}"
            cells[first : last + 1] = [(letter, "31") for letter in fill]
            if not inside and last + 1 + len(text) <= self.columns:
                cells[last + 1 : last + 1 + len(text)] = [(letter, "31") for letter in text]
            elif not inside and len(text) <= first:
                cells[first - len(text) : first] = [(letter, "31") for letter in text]
            name = "fault" if span.kind == "fault" else span.key.removeprefix("__consumer_")
            lines.append(self._row(name or span.kind, cells))
        return lines

    def _lane(self, lane: Lane) -> str:
        cells = self._blank()
        shown: list[tuple[int, str]] = [(-1, "")] * self.columns

        def put(kind: str, column: int) -> None:
            if _RANK[kind] > shown[column][0]:
                shown[column] = (_RANK[kind], kind)

        for start, end in lane.present:
            for column in range(self._column(start), self._column(end) + 1):
                put("present", column)
        for ts_ms in lane.commits:
            put("commit", self._column(ts_ms))
        for bar in lane.bars:
            first, last = self._column(bar.ts_ms), self._column(bar.ts_ms if bar.to_ms is None else bar.to_ms)
            for column in range(first, last + 1):
                put(f"{bar.kind}_waits", column)
            put(bar.kind, first)
            if bar.kind == "sync" and first < self.columns - 1 and shown[first][1] == "join":
                put("sync", first + 1)
        for mark in lane.marks:
            put(mark.kind, self._column(mark.ts_ms))
        for column, (_, kind) in enumerate(shown):
            if kind and not (kind == "present" and column in self.cuts):
                letter, colour, _ = MARKS[kind]
                cells[column] = (letter, colour)
                self.used.add(kind)
        return self._row(("* " if lane.leads else "  ") + lane.name, cells)

    # beneath

    def _legend(self) -> list[str]:
        of_epochs = EPOCH_PHASES if self.layout.by_epochs else {}
        parts = [
            f"{letter} {of_epochs.get(kind, text)}" for kind, (letter, _, text) in PHASES.items() if kind in self.used
        ]
        parts += [
            f"{letter} {text}"
            for kind, (letter, _, text) in MARKS.items()
            if kind in self.used and text and kind not in ("join_waits", "sync_waits")
        ]
        if any(lane.leads for lane in self.layout.lanes):
            parts.append("* leader")
        lines = [""]
        for part in parts:
            joined = f"{lines[-1]}   {part}" if lines[-1] else part
            if len(joined) > self.width:
                lines.append(part)
            else:
                lines[-1] = joined
        return [self._paint(line, "90") for line in lines]

    def _notes(self) -> list[str]:
        past = self.layout.past
        notes = [(rebalance.began_ms, _note(past, rebalance)) for rebalance in past.rebalances]
        notes += [(step.ts_ms, step.text) for step in self.steps]
        notes += [(incident.ts_ms, incident_words(incident)) for incident in self.layout.incidents]
        notes += [
            (transaction.begun_ms or past.first_ms, transaction_text(transaction, past.last_ms))
            for transaction in past.transactions
            if is_trouble(transaction, past.last_ms)
        ]
        notes.sort(key=lambda note: note[0])
        lines = []
        if len(notes) > MOST_NOTES:
            lines.append(f"... {len(notes) - MOST_NOTES} earlier")
            notes = notes[-MOST_NOTES:]
        for ts_ms, words in notes:
            lines.append(_cut(f"{clock(ts_ms)}  {words}", self.width))
        return lines

    def _wrapped(self, words: str) -> list[str]:
        return textwrap.wrap(words, self.width, subsequent_indent="  ", break_on_hyphens=False)

    def _paint(self, words: str, colour: str) -> str:
        return f"\x1b[{colour}m{words}\x1b[0m" if self.color and colour and words.strip() else words


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else line[: width - 1] + "…"


def _phases(band: Band) -> list[tuple[str, int, int]]:
    """(kind, from, to), what is drawn later hides what was drawn before in the same column."""
    parts = []
    if band.rest in (STABLE, EMPTY) and band.to_ms > band.ended_ms:
        parts.append((band.rest, band.ended_ms, band.to_ms))
    if band.ended_ms > band.closed_ms:
        parts.append(("complete", band.closed_ms, band.ended_ms))
    if band.closed_ms > band.from_ms:
        parts.append(("prepare", band.from_ms, band.closed_ms))
    return parts


def _note(past: History, rebalance: Rebalance) -> str:
    number = (
        f"generation {rebalance.generation}"
        if rebalance.generation is not None
        else f"after generation {rebalance.generation_before}"
    )
    lasted = "" if rebalance.ended_ms is None else f" after {duration_text(rebalance.ended_ms - rebalance.began_ms)}"
    why = (
        because(past, rebalance.cause, generation=rebalance.generation_before, brief=True)
        if rebalance.whole
        else "it began before the journal"
    )
    return f"{number} {outcome_of(rebalance)}{lasted}" + (f": {why}" if why else "")
