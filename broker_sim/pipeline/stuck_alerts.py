"""Stuck offsets partitions while they happen: a line as soon as the journal shows one, and a line when it commits appends again.

    alerts = StuckAlerts(report)
    alerts.add(batch)                  # each batch of events, in the journal's order
    alerts.older(1500)                 # and where nothing has come for 1500 ms

Rules:
1. What a jam is says the table `stuck_partitions`; a test holds this to it. Asking Spark for that table costs seconds after each batch,
   most of them to plan it. Here each batch costs one small query, and the periods are counted on as their signs come.
2. Signs are those of `__consumer_offsets` alone: appends, their commitment, and answers that say that there is no coordinator. What
   producers suffer, and responses to a group before the journal shows its partition, are left to the tables.
3. Nothing of this is kept on a disk. A restarted watch reads all events once, and reports what is stuck then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from broker_sim.common.text import clock, duration_text
from broker_sim.explain.phrases import count, joined
from broker_sim.pipeline.phrases import named
from broker_sim.pipeline.tables.stuck_partitions import APIS, ASKING, EXISTS, HOMES, UNAVAILABLE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["LEAST_MS", "StuckAlerts", "StuckPeriod"]

LEAST_MS = 1000
"""Shorter periods are not reported: an append that is committed a little later is no incident."""

_COLUMNS = (
    *("type", "journal", "seq", "ts_ms", "log", "error", "high_watermark", "last_offset", "groups"),
    *("group", "api", "request", "took_ms", "action", "errors"),
)

Row = Mapping[str, Any]


@dataclass(slots=True)
class StuckPeriod:
    """From the first attempt without success; ``to_ms`` None while it goes on. As a row of `stuck_partitions`."""

    log: str
    from_ms: int
    to_ms: int | None = None
    attempts: int = 0
    waiting: int = 0
    errors: set[str] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)
    reported: bool = False


@dataclass(slots=True)
class _Log:
    """``last_ms``: when a request or an append had success last; ``blocked``: a write was refused or waits, without a success since;
    ``refused``: the same of a request to the coordinator."""

    last_ms: int | None = None
    blocked: bool = False
    refused: bool = False
    period: StuckPeriod | None = None


class StuckAlerts:
    """``report(line)`` is called for each beginning and each end; ``ended`` for each period that is over, however short."""

    def __init__(
        self, report: Callable[[str], object], ended: Callable[[StuckPeriod], object] = lambda period: None
    ) -> None:
        self.report, self.ended = report, ended
        self.homes: dict[str, str] = {}
        """Group -> its offsets partition, as far as the journal has it."""
        self.now_ms = 0
        self._logs: dict[str, _Log] = {}
        self._asked: dict[tuple[int, int], str] = {}
        self._there: set[str] = set()
        """Partitions that the journal has shown to exist."""

    @property
    def open(self) -> list[StuckPeriod]:
        """Stuck periods that go on, the oldest first."""
        periods = [log.period for log in self._logs.values() if log.period is not None]
        return sorted(periods, key=lambda period: period.from_ms)

    def add(self, batch: DataFrame, *, past: bool = False) -> None:
        """A batch of events; with ``past`` all events before this watch, of which only periods that continue are reported."""
        wanted = (
            "(type in ('append', 'committed') and coordinator_partition is not null)"
            f" or (type in {(*HOMES, 'load')} and log is not null)"
            f" or (type in ('request', 'response') and api in {ASKING})"
        )
        rows = batch.where(wanted).select(*_COLUMNS).toArrow().to_pylist()
        last = batch.selectExpr("max(ts_ms) as last").first()
        self.now_ms = max(self.now_ms, (last.last if last is not None else None) or 0)
        self.add_rows(rows, past=past)

    def add_rows(self, rows: Iterable[Row], *, past: bool = False) -> None:
        """Events as rows, in any order within the batch."""
        for row in sorted(rows, key=lambda row: (row["journal"], row["seq"])):
            self.now_ms = max(self.now_ms, row["ts_ms"])
            self._add(row, past)
        self.older(0)

    def older(self, ms: float) -> None:
        """Note that the journal has no new events ``ms`` after the last batch: it may be stuck itself."""
        for period in self.open:
            if not period.reported and self.now_ms + ms - period.from_ms >= LEAST_MS:
                period.reported = True
                self.report(f"{clock(period.from_ms)}  {self._words(period, 'commits')}, since then")

    # --- signs ----------------------------------------------------------------------------------------------------------

    def _add(self, row: Row, past: bool) -> None:
        kind = row["type"]
        if kind in EXISTS:
            self._there.add(row["log"])
        if kind in HOMES:
            self.homes[row["group"]] = row["log"]
        elif kind == "request":
            if row["group"] is not None:
                self._asked[row["journal"], row["request"]] = row["group"]
        elif kind == "response":
            self._answered(row, past)
        elif kind in ("append", "committed"):
            taken = row["error"] is None and (row["high_watermark"] or 0) > (row["last_offset"] or 0)
            if kind == "committed" or taken:
                self._success(row["log"], row["ts_ms"], past, write=True)
            else:
                period = self._attempt(row["log"], row["ts_ms"], row["groups"] or (), row["error"])
                period.waiting += row["error"] is None
                self._logs[row["log"]].blocked = True

    def _answered(self, row: Row, past: bool) -> None:
        group = self._asked.pop((row["journal"], row["request"]), None)
        log = self.homes.get(group) if group is not None else None
        if log is None or group is None or row["action"] is not None:
            return
        error = next((name for name in row.get("errors") or () if name in UNAVAILABLE), None)
        lookup = row["api"] not in APIS
        if error is not None and (not lookup or log in self._there):
            self._attempt(log, row["ts_ms"] - (row["took_ms"] or 0), [group], error)
            self._logs[log].refused |= not lookup
        elif error is None and row["api"] in (*APIS, "FindCoordinator"):
            self._success(log, row["ts_ms"], past, write=False, lookup=lookup)

    def _attempt(self, name: str, since_ms: int, groups: Iterable[str], error: str | None) -> StuckPeriod:
        """One without success, which was made at ``since_ms``."""
        log = self._logs.setdefault(name, _Log())
        from_ms = since_ms if log.last_ms is None else max(since_ms, log.last_ms)
        if log.period is None:
            log.period = StuckPeriod(name, from_ms)
        period = log.period
        period.from_ms = min(period.from_ms, from_ms)
        period.attempts += 1
        period.groups.update(groups)
        period.errors.update([error] if error is not None else [])
        return period

    def _success(self, name: str, ts_ms: int, past: bool, *, write: bool, lookup: bool = False) -> None:
        """``write``: of an append. Answers don't end what a refused append began, nor a ``lookup`` what refused requests began."""
        log = self._logs.setdefault(name, _Log())
        if not write and (log.blocked or (lookup and log.refused)):
            return
        log.blocked = log.refused = False
        if not lookup:
            log.last_ms = ts_ms
        period, log.period = log.period, None
        if period is None:
            return
        period.to_ms = ts_ms
        self.ended(period)
        lasted = duration_text(ts_ms - period.from_ms)
        if period.reported:
            self.report(f"{clock(ts_ms)}  {name} commits appends again, after {lasted}")
        elif ts_ms - period.from_ms >= LEAST_MS and not past:
            self.report(f"{clock(period.from_ms)}  {self._words(period, 'committed')}, for {lasted}")

    def _words(self, period: StuckPeriod, verb: str) -> str:
        hit = sorted(period.groups)
        errors = f", answered {joined(sorted(period.errors))}" if period.errors else ""
        whose = f" of {named(hit)}" if hit else ""
        others = sorted(group for group, log in self.homes.items() if log == period.log and group not in period.groups)
        share = f" ({count(len(others), 'other group')} in it: {named(others)})" if others else ""
        return f"{period.log} {verb} no append{share}: {count(period.attempts, 'attempt')}{whose}{errors}"
