"""The timeline as a picture: one self-contained SVG or HTML file, for light and dark, with the explanation beneath.

No network, no fonts and no scripts from elsewhere. The SVG has none at all; the page has a few lines for hovering and zooming.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

from markupsafe import Markup

from broker_sim.common.text import clock, date, duration_text
from broker_sim.drawing.canvas import Canvas
from broker_sim.drawing.colours import FONT, HUES, picture_css
from broker_sim.drawing.pages import page
from broker_sim.drawing.sheet import Sheet
from broker_sim.explain.events import Event
from broker_sim.explain.explanation import Paragraph, group_paragraphs, standing
from broker_sim.explain.history import history
from broker_sim.explain.lanes import draw_lane
from broker_sim.explain.model import Incident, Span
from broker_sim.explain.phrases import count, incident_words, span_words
from broker_sim.explain.rebalance_text import rebalance_text
from broker_sim.explain.rebalances import DEAD, EMPTY, STABLE
from broker_sim.explain.timeline_layout import Band, TimelineLayout, timeline_layout

__all__ = ["html", "svg"]

WIDTH = 1200
LEFT, RIGHT = 176, 28
RIBBON_Y, RIBBON_HEIGHT = 112, 26
ROW = 24
LANE = 34
MOST_LANES = 40
MOST_ROWS = 12
MOST_WORDS = 12
PX = 6.4
"""The width of a character, about."""
WORDS_A_LINE = 168
LEGEND = {
    "prepare": "preparing: JoinGroups are awaited",
    "complete": "completing: the assignment is awaited",
    "stable": "Stable, a colour for each generation",
    "join": "JoinGroup deferred",
    "sync": "SyncGroup deferred",
    "owned": "has partitions or tasks",
    "revoking": "is to give up some",
    "awaiting": "waits for some that another member has",
    "lock": "has acquired records",
    "redelivered": "records that were delivered before",
    "unlocked": "released or rejected some",
    "expired": "its lock or share session ended",
    "archived": "archived: no member gets them again",
    "open": "transaction open",
    "marking": "its markers are pending; read_committed consumers wait",
    "commit": "commit",
    "slow": "slow response",
    "failed": "commit failed",
    "heartbeat": "heartbeat: REBALANCE_IN_PROGRESS",
    "trouble": "error",
    "left": "left",
    "removed": "removed",
    "replaced": "rejoined with a new member id",
    "fault": "fault",
    "client_error": "the client reported an error",
}

EPOCH_LEGEND = {
    "prepare": "assigning: the target assignment is awaited",
    "complete": "reconciling: members give up and take over",
    "stable": "Stable, a colour for each epoch",
}
"""Legend of the phases of groups whose coordinator assigns."""


def svg(events: Iterable[Event], group: str) -> str:
    """An SVG document of its own: the timeline, and what ``explain`` says beneath it."""
    events = list(events)
    past = history(events, group)
    picture = _Picture(timeline_layout(past, MOST_LANES))
    picture.draw()
    picture.words(group_paragraphs(events, past))
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{picture.document()}\n'


def html(events: Iterable[Event], group: str, title: str | None = None) -> str:
    """A page of its own: the timeline with tooltips and zoom, and what ``explain`` says."""
    events = list(events)
    past = history(events, group)
    picture = _Picture(timeline_layout(past, MOST_LANES))
    picture.draw()
    lead, *paragraphs = group_paragraphs(events, past)
    return page(
        "explain/timeline.html",
        styles=[_style()],
        title=title or f"{group}: rebalances",
        font=Markup(FONT),
        picture=Markup(picture.document()),
        lead=lead.text,
        paragraphs=_anchored(paragraphs),
    )


def _anchored(paragraphs: Iterable[Paragraph]) -> Iterator[dict[str, str]]:
    """Paragraphs for the page. The first one of a moment that is no note has an anchor: a click on a generation leads to it."""
    seen: set[int] = set()
    for paragraph in paragraphs:
        anchor = "" if paragraph.ts_ms in seen or paragraph.kind == "note" else f"at{paragraph.ts_ms}"
        if anchor:
            seen.add(paragraph.ts_ms)
        yield {"kind": paragraph.kind, "anchor": anchor, "clock": clock(paragraph.ts_ms), "text": paragraph.text}


def _style() -> str:
    """The style sheet of a picture."""
    return picture_css() + _CUT


class _Picture:
    def __init__(self, what: TimelineLayout) -> None:
        self.layout = what
        self.sheet = Sheet(WIDTH, left=LEFT, right=RIGHT, span=(what.from_ms, what.to_ms, what.active))
        self.canvas, self.x = self.sheet.canvas, self.sheet.x
        self.rows = self._rows([*what.log_spans, *what.fault_spans])
        self.lanes_y = RIBBON_Y + RIBBON_HEIGHT + 10
        self.notes = bool(what.incidents)
        self.lanes_y += ROW * (len(self.rows) + self.notes) + (8 if self.rows or self.notes else 0)
        self.bottom = self.lanes_y + sum(_height(lane.folded) for lane in what.lanes) + 6
        self.height = self.bottom + 60.0

    def _rows(self, spans: list[Span]) -> list[list[Span]]:
        """Spans that don't overlap share a row with their labels, those of one log and faults apart."""
        rows: list[list[Span]] = []
        for span in spans:
            x = self.x(span.from_ms)
            for row in rows:
                last = row[-1]
                alike = (last.kind == "fault") == (span.kind == "fault") and (
                    last.kind == "fault" or last.key == span.key
                )
                label_end = self.x(last.from_ms) + min(16 + 6.6 * len(last.label), 300)
                if alike and last.to_ms is not None and last.to_ms <= span.from_ms and label_end <= x:
                    row.append(span)
                    break
            else:
                rows.append([span])
        return rows[:MOST_ROWS]

    def document(self) -> str:
        says = f"Timeline of group {self.layout.past.group}"
        return self.sheet.document(self.height, "timeline", says, alone=_style())

    def draw(self) -> None:
        self._header()
        self._bands()
        self._axis()
        self._separators()
        self._spans()
        self._incidents()
        y = float(self.lanes_y)
        for lane in self.layout.lanes:
            draw_lane(self.canvas, lane, y, _height(lane.folded), LEFT, self.sheet.scale)
            y += _height(lane.folded)
        self.sheet.cuts(RIBBON_Y - 4, self.bottom, "edge cut", labels=self.bottom + 14)
        self._legend()

    # --- around ---------------------------------------------------------------------------------------------------------

    def _header(self) -> None:
        past, canvas = self.layout.past, self.canvas
        canvas.text(24, 40, past.group, "ink h1", room=700)
        log = f"{past.log} · " if past.log else ""
        failed = sum(call.failed for call in past.commits)
        commits = (
            f" · {count(len(past.commits), 'commit')}" + (f", {failed} failed" if failed else "")
            if past.commits
            else ""
        )
        lasted = duration_text(self.layout.to_ms - self.layout.from_ms)
        epochs = len({epoch for _, _, epoch in past.epochs if epoch > 0})
        steps = count(epochs, "epoch") if self.layout.by_epochs else count(len(past.rebalances), "rebalance")
        facts = f"{log}{steps}{commits} · {lasted}"
        canvas.text(24, 62, f"{standing(past)}", "muted h2", room=WIDTH - 48)
        canvas.text(WIDTH - RIGHT, 40, facts, "muted h2 end")

    def _separators(self) -> None:
        top = self.lanes_y
        for lane in self.layout.lanes:
            self.canvas.line(24, top, WIDTH - RIGHT, top, "grid")
            top += _height(lane.folded)
        self.canvas.line(24, top, WIDTH - RIGHT, top, "grid")

    def _axis(self) -> None:
        above, below = (RIBBON_Y - 18, RIBBON_Y - 3), (RIBBON_Y + RIBBON_HEIGHT + 3, self.bottom)
        self.sheet.times(RIBBON_Y - 10, above, below, apart=96, room=62)
        day = date(self.layout.from_ms)
        self.canvas.text(24, RIBBON_Y - 10, f"{day} UTC", "muted small")
        self.canvas.text(24, RIBBON_Y + 17, "epoch" if self.layout.by_epochs else "generation", "muted h2")

    # --- generations ----------------------------------------------------------------------------------------------------

    def _bands(self) -> None:
        drawn = -1.0
        for band in self.layout.bands:
            x, end = self.x(band.from_ms), self.x(band.to_ms)
            if end - x < 2 and x - drawn < 2:
                continue  # thousands of them on one pixel
            drawn = x
            self._band(band, x, max(end, x + 1))

    def _band(self, band: Band, x: float, end: float) -> None:
        past, canvas = self.layout.past, self.canvas
        hue = band.number % len(HUES)
        top, height = RIBBON_Y + RIBBON_HEIGHT, self.bottom - RIBBON_Y - RIBBON_HEIGHT
        closed, ended = self.x(band.closed_ms), self.x(band.ended_ms)
        words = (
            rebalance_text(past, band.rebalance)
            if band.rebalance is not None
            else band.words or f"Generation {band.label} had begun before the journal."
        )
        canvas.group(words, f'data-at="{band.from_ms}"')
        if band.rest not in (EMPTY, DEAD):
            canvas.rect(ended, top, end - ended, height, f"t{hue}")
        canvas.rect(x, top, closed - x, height, "prepare faint")
        canvas.rect(closed, top, ended - closed, height, "complete faint")
        if band.rest == STABLE:
            canvas.rect(ended, RIBBON_Y, end - ended, RIBBON_HEIGHT, f"g{hue}", radius=5)
        elif band.rest in (EMPTY, DEAD):
            canvas.rect(ended, RIBBON_Y, end - ended, RIBBON_HEIGHT, "track veil", radius=5)
            if end - ended > 40:
                canvas.text((ended + end) / 2, RIBBON_Y + 17, band.rest, "muted small mid")
        if closed > x:
            canvas.rect(x, RIBBON_Y, max(closed - x, 1.5), RIBBON_HEIGHT, "prepare", radius=3)
        if ended > closed:
            canvas.rect(closed, RIBBON_Y, max(ended - closed, 1.5), RIBBON_HEIGHT, "complete", radius=3)
        self._band_label(band, x, end, closed, ended)
        if band.rest == "failed" and end - x > 6:
            again = f"{clock(band.ended_ms)}  it began again before it was Stable"
            canvas.rect(ended - 3, RIBBON_Y, 3, RIBBON_HEIGHT, "bad", again)
        canvas.end_group()

    def _band_label(self, band: Band, x: float, end: float, closed: float, ended: float) -> None:
        if not band.label:
            return
        parts = [(ended, end)] if band.rest == STABLE else []
        parts += [(closed, ended), (x, closed)]
        for start, stop in parts:
            if stop - start >= 9 + 7 * len(band.label):
                middle = (start + stop) / 2
                self.canvas.text(min(middle, start + 6 + 4 * len(band.label)), RIBBON_Y + 17.5, band.label, "on mid")
                return

    # --- the log, faults, incidents -------------------------------------------------------------------------------------

    def _spans(self) -> None:
        y = RIBBON_Y + RIBBON_HEIGHT + 8
        names: set[str] = set()
        for row in self.rows:
            for position, span in enumerate(row):
                x = self.x(span.from_ms)
                end = self.x(self.layout.to_ms if span.to_ms is None else span.to_ms)
                words = span_words(self.layout.past, span, self.layout.to_ms)
                style = {"fault": "faulty", "loading": "warn", "blocked": "marking"}.get(span.kind, "bad")
                self.canvas.rect(x, y + 3, max(end - x, 2), ROW - 7, f"{style} veil", words, radius=4)
                self.canvas.rect(x, y + 3, 2.5, ROW - 7, style, words)
                following = self.x(row[position + 1].from_ms) if position + 1 < len(row) else WIDTH - RIGHT
                self.canvas.text(x + 8, y + 16, span.label, "ink small", words, room=max(end, following) - x - 10)
            name = "faults" if row[0].kind == "fault" else row[0].key.removeprefix("__consumer_") or "brokers"
            if name not in names:
                self.canvas.text(24, y + 16, name, "muted h2", row[0].key, room=LEFT - 34)
            names.add(name)
            y += ROW

    def _incidents(self) -> None:
        if not self.notes:
            return
        y = RIBBON_Y + RIBBON_HEIGHT + 8 + ROW * len(self.rows)
        self.canvas.text(24, y + 16, "events", "muted h2")
        places: list[tuple[float, list[Incident]]] = []
        for incident in self.layout.incidents:  # those of one moment share a place
            x = self.x(incident.ts_ms)
            if places and x - places[-1][0] < 2:
                places[-1][1].append(incident)
            else:
                places.append((x, [incident]))
        free = float(LEFT)
        for position, (x, together) in enumerate(places):
            words = "\n".join(
                f"{clock(incident.ts_ms)}  {incident_words(incident)}" for incident in together[:MOST_WORDS]
            )
            label = " · ".join(
                incident.text if incident.kind == "mark" else incident_words(incident)
                for incident in together[:MOST_WORDS]
            )
            self.canvas.line(x, y + 12, x, self.bottom, "noteline")
            self.canvas.diamond(x, y + 12, 4.5, "note", words)
            following = places[position + 1][0] if position + 1 < len(places) else WIDTH - 8
            room, needed = following - x - 16, PX * len(label)
            if room < needed and x - free - 16 > max(room, needed):
                self.canvas.text(x - 9, y + 16, label, "ink small end", words)
                free = x + 9
            else:
                self.canvas.text(x + 9, y + 16, label, "ink small", words, room=room)
                free = x + 9 + max(min(room, needed), 0)

    # --- beneath --------------------------------------------------------------------------------------------------------

    def _legend(self) -> None:
        canvas, y = self.canvas, self.bottom + 34.0
        x = 24.0
        for kind, words in self._legend_entries():
            if x + 30 + 6 * len(words) > WIDTH - RIGHT:
                x, y = 24.0, y + 19
            _symbol(canvas, kind, x, y)
            canvas.text(x + 22, y, words, "muted small")
            x += 40 + 5.7 * len(words)
        self.height = y + 26

    def _legend_entries(self) -> list[tuple[str, str]]:
        kinds = {mark.kind for lane in self.layout.lanes for mark in lane.marks}
        kinds |= {bar.kind for lane in self.layout.lanes for bar in lane.bars}
        kinds |= {"commit" for lane in self.layout.lanes if lane.commits}
        if self.layout.by_epochs:
            legend = LEGEND | EPOCH_LEGEND
            kinds |= set(EPOCH_LEGEND)
        else:
            legend = LEGEND
            kinds |= {"prepare", "complete", "stable", "join", "sync"}
        return [(kind, words) for kind, words in legend.items() if kind in kinds]

    def words(self, paragraphs: list[Paragraph]) -> None:
        """The explanation, as lines of text."""
        y = self.height + 8
        self.canvas.line(24, y - 14, WIDTH - RIGHT, y - 14, "grid")
        for paragraph in paragraphs:
            y += 8
            indent = 24 if paragraph.kind == "lead" else 112
            if indent > 24:
                self.canvas.text(24, y + 10, clock(paragraph.ts_ms), "muted small")
            for line in textwrap.wrap(paragraph.text, WORDS_A_LINE - (indent - 24) // 6, break_on_hyphens=False):
                y += 17
                self.canvas.text(indent, y - 7, line, "ink")
        self.height = y + 24


_CUT = ".cut{fill:none;stroke-width:3}"


def _symbol(canvas: Canvas, kind: str, x: float, y: float) -> None:
    middle = x + 8
    if kind in ("prepare", "complete"):
        canvas.rect(x, y - 9, 16, 11, kind, radius=3)
    elif kind == "stable":
        for hue in range(3):
            canvas.rect(x + 5.5 * hue, y - 9, 5, 11, f"g{hue}", radius=1)
    elif kind in ("join", "sync", "slow", "open", "marking", "lock", "redelivered", "owned", "revoking", "awaiting"):
        canvas.rect(x, y - 7, 16, 6, kind, radius=3)
    elif kind == "commit":
        canvas.line(middle, y - 8, middle, y, "commit")
    elif kind == "heartbeat":
        canvas.triangle(middle, y - 4, 3.6, "warn")
    elif kind in ("removed", "expired"):
        canvas.cross(middle, y - 4, 3.6, "badline")
    elif kind in ("left", "unlocked"):
        canvas.door(x + 3, y - 4, "warnline")
    elif kind in ("replaced", "archived"):
        canvas.diamond(middle, y - 4, 4.5, "note" if kind == "replaced" else "bad")
    elif kind == "client_error":
        canvas.bubble(middle, y - 4, "faulty")
    elif kind == "fault":
        canvas.bolt(middle, y - 4, "faulty")
    else:
        canvas.circle(middle, y - 4, 3.6, "bad")


def _height(folded: int) -> int:
    return LANE * 2 if folded else LANE
