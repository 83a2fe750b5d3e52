"""The part of an input that is read: a time, and groups. ``--since``, ``--until`` and ``--group``, for both engines.

Rules:
1. Until a moment: later records are ignored; what is in progress then is open, as at the end of any log.
2. From a moment on: what ended before it is left out. What began before has its own beginning if records of the `CONTEXT_MS` before
   show it; of older records only the last one of each group, and of each partition of it, is read. A finding that begins there has a
   note (`edge`).
3. Of some groups: the records of the others are not read. So there is no finding that needs them: that an offsets partition had no
   records, that its groups slowed down together, or that one has most of the records.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from broker_sim.common.text import UsageError, clock, date, visible
from broker_sim.pipeline.engine import functions as f
from broker_sim.pipeline.engine import on_its_engine
from broker_sim.pipeline.finding import Finding
from broker_sim.pipeline.segments import OFFSETS_TOPIC

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["ALL", "CONTEXT_MS", "Scope", "literally", "pattern_of"]

CONTEXT_MS = 900_000
"""So much of what is before the window is read, too: rhythms, sessions and rebalances that reach into it."""

ENDS = {
    "offset_regressions": ("at_ms",),
    "offset_deletions": ("at_ms",),
    "offset_resets": ("at_ms",),
    "coordinator_moves": ("at_ms",),
    "duplicate_windows": ("at_ms",),
    "commit_refusals": ("last_ms",),
    "offset_skips": ("at_ms",),
    "data_losses": ("at_ms",),
    "transactions": ("to_ms",),
    "share_deliveries": ("last_ms",),
    "rebalances": ("ended_ms",),
    "stuck_partitions": ("to_ms",),
    "offset_stalls": ("to_ms",),
}
"""Table -> columns with the end of a row; null: it is in progress."""
OF_OTHERS = ("silence", "rhythm", "together")
"""Evidence of `stuck_partitions` that only the other groups' records give."""
OF_OTHERS_KINDS = ("hotspot", "no records", "misplaced groups")
_CLASS = re.compile(r"\[!?\]?[^\]]*\]")


def pattern_of(glob: str) -> str:
    """A regular expression, of Java's and of RE2's language, that fits the whole of what a pattern with `*`, `?` and `[..]` does."""
    parts, at = [], 0
    while at < len(glob):
        letter, some = glob[at], _CLASS.match(glob, at)
        if some is not None and some[0] not in ("[]", "[!]"):
            inner = some[0][1:-1]
            negated, inner = inner.startswith("!"), inner.removeprefix("!")
            escaped = re.sub(r"[\\\[\]&^~]", lambda match: "\\" + match[0], inner)
            parts.append(f"[{'^' if negated else ''}{escaped}]")
            at = some.end()
            continue
        parts.append({"*": ".*", "?": "."}.get(letter) or (letter if letter.isalnum() else re.escape(letter)))
        at += 1
    return rf"(?s)\A(?:{''.join(parts)})\z"


def literally(name: str) -> str:
    """A pattern that fits this name alone."""
    return re.sub(r"[*?\[]", lambda match: f"[{match[0]}]", name)


@dataclass(frozen=True)
class Scope:
    """``since_ms``, ``until_ms``: ms since 1970, both inclusive; ``groups``: ids, or patterns of them. Raises UsageError."""

    since_ms: int | None = None
    until_ms: int | None = None
    groups: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.since_ms is not None and self.until_ms is not None and self.since_ms >= self.until_ms:
            raise UsageError(
                f"nothing lies between --since {_moment(self.since_ms)} and --until {_moment(self.until_ms)}"
            )

    def __bool__(self) -> bool:
        return self != ALL

    def text(self) -> str:
        """In words; "" where it is all."""
        parts = []
        if self.groups:
            parts.append(f"groups {', '.join(visible(group) for group in self.groups)}")
        if self.since_ms is not None:
            parts.append(f"from {_moment(self.since_ms)}")
        if self.until_ms is not None:
            parts.append(f"until {_moment(self.until_ms)}")
        return " ".join(parts)

    # --- what is read ---------------------------------------------------------------------------------------------------

    @on_its_engine
    def log(self, log: DataFrame) -> DataFrame:
        """An offset_log, of this alone."""
        if self.groups:
            log = log.where(f.col("group").isNull() | self._ours())
        if self.until_ms is not None:
            log = log.where(f.col("record_ts_ms").isNull() | (f.col("record_ts_ms") <= self.until_ms))
        if self.since_ms is None:
            return log
        early = f.coalesce(f.col("record_ts_ms") < self.since_ms - CONTEXT_MS, f.lit(False))
        log = log.persist()
        last = _last_records(log.where(early))
        before = log.where(early).join(last, ["run_id", "log_partition", "log_offset"], "left_semi")
        return log.where(~early).unionByName(before)

    @on_its_engine
    def events(self, events: DataFrame) -> DataFrame:
        """A journal's events. Earlier ones are kept: the cause of a rebalance may be before its beginning."""
        if self.until_ms is not None:
            events = events.where(f.col("ts_ms") <= self.until_ms)
        return events.where(f.col("group").isNull() | self._ours()) if self.groups else events

    @on_its_engine
    def lines(self, lines: DataFrame, log: DataFrame) -> DataFrame:
        """Lines of brokers and clients: of these groups, of their offsets partitions, and of neither."""
        if self.until_ms is not None:
            lines = lines.where(f.col("ts_ms").isNull() | (f.col("ts_ms") <= self.until_ms))
        if self.since_ms is not None:
            lines = lines.where(f.col("ts_ms").isNull() | (f.col("ts_ms") >= self.since_ms - CONTEXT_MS))
        if not self.groups:
            return lines
        lines = lines.where(f.col("group").isNull() | self._ours())
        homes = log.where(f.col("group").isNotNull()).select("run_id", f.col("log_partition").alias("partition"))
        of_homes = f.coalesce(f.col("topic") == OFFSETS_TOPIC, f.lit(False)) & f.col("partition").isNotNull()
        theirs = lines.where(of_homes).join(homes.distinct(), ["run_id", "partition"], "left_semi")
        return lines.where(~of_homes).unionByName(theirs.select(*lines.columns))

    @on_its_engine
    def ends(self, ends: DataFrame) -> DataFrame:
        """Ends of data topics' logs: of a lag in the window the older ones are needed, too."""
        return ends if self.until_ms is None else ends.where(f.col("at_ms") <= self.until_ms)

    def seen(self, rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        """Transactions of the journal, of `__transaction_state` and of the data topics."""
        until = self.until_ms
        if until is None:
            return list(rows)
        begun = (row for row in rows if row["from_ms"] is None or row["from_ms"] <= until)
        open_ = {"to_ms": None, "end": None, "result": None, "decided_ms": None, "lost_abort": None, "until_ms": until}
        return [row | open_ if (row.get("to_ms") or 0) > until else row for row in begun]

    def shared(self, rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        """Share groups' deliveries: of these groups, and what had begun by then; an outcome that came later is none."""
        until, ours = self.until_ms, [re.compile(pattern_of(glob).replace(r"\z", r"\Z")) for glob in self.groups]
        kept = [row for row in rows if not ours or any(pattern.search(row["group"]) for pattern in ours)]
        if until is None:
            return kept
        begun = [row for row in kept if row["first_ms"] <= until]
        return [row | {"outcome": None, "last_ms": row["first_ms"]} if row["last_ms"] > until else row for row in begun]

    def _ours(self) -> Column:
        ours: Column = f.col("group").rlike("|".join(f"(?:{pattern_of(glob)})" for glob in self.groups))
        return ours

    # --- findings ------------------------------------------------------------------------------------------------------

    @on_its_engine
    def filtered(self, name: str, rows: DataFrame) -> DataFrame:
        """A table that was made, without what was over before, and without what only other groups could show."""
        if self.groups and name == "stuck_partitions":
            rows = rows.where(~f.col("evidence").isin(*OF_OTHERS))
        if self.since_ms is None:
            return rows
        if name == "lag":
            return _lag_from(rows, self.since_ms)
        if name not in ENDS:
            return rows
        over = f.coalesce(*ENDS[name], f.lit(self.since_ms))
        return rows.where(over >= self.since_ms)

    def edge(self, findings: Iterable[Finding]) -> list[Finding]:
        """Findings, those that reach back to the window's beginning with a word of it."""
        kept = [finding for finding in findings if not (self.groups and finding.kind in OF_OTHERS_KINDS)]
        if self.since_ms is None:
            return kept
        # lines are read from a little before on
        kept = [
            finding for finding in kept if finding.kind != "unclean election" or (finding.at_ms or 0) >= self.since_ms
        ]
        words = f" It began before the window that was asked for ({_moment(self.since_ms)}), perhaps earlier than this."
        return [
            replace(finding, text=f"{finding.text}{words}")
            if finding.at_ms is not None and finding.at_ms < self.since_ms
            else finding
            for finding in kept
        ]


ALL = Scope()


def _moment(at_ms: int) -> str:
    return f"{date(at_ms)} {clock(at_ms)}"


def _last_records(early: DataFrame) -> DataFrame:
    """Places of the last record of each group, of each partition of it, and of each other key, and of all commits and markers of
    transactions, since later ones decide which of them count."""
    kind, pending = f.col("kind"), f.col("is_txn") | f.col("kind").isin("txn_commit", "txn_abort")
    what = (
        f.when(f.coalesce(pending, f.lit(False)), f.concat(f.lit("txn "), f.col("log_offset").cast("string")))
        .when(kind.isin("commit", "commit_tombstone"), f.lit("commit"))
        .when(kind.isin("group", "group_tombstone"), f.lit("group"))
        .otherwise(f.lit("other"))
    )
    key = ["run_id", "log_partition", "group", "topic", "partition", "raw_key"]
    keyed = early.select(*key, "log_offset", what.alias("what"))
    return (
        keyed.groupBy(*key, "what")
        .agg(f.max("log_offset").alias("log_offset"))
        .select("run_id", "log_partition", "log_offset")
    )


_KEY = ["run_id", "group", "topic", "partition"]


def _lag_from(lag: DataFrame, since_ms: int) -> DataFrame:
    """Lag's windows from a moment on. The first of them contains the state before."""
    first = f.lit(since_ms) - f.pmod(f.lit(since_ms), f.col("window_ms"))
    later = lag.where(f.col("window_start_ms") >= first)
    there = later.where(f.col("window_start_ms") == first).select(*_KEY)
    before = lag.where(f.col("window_start_ms") < first)
    last = before.groupBy(*_KEY).agg(f.max("window_start_ms").alias("window_start_ms"))
    stood = before.join(last, [*_KEY, "window_start_ms"], "left_semi").join(there, _KEY, "left_anti")
    moved = (
        stood.withColumn("window_start_ms", first)
        .withColumn("window_start", f.timestamp_millis("window_start_ms"))
        .withColumn("commits", f.lit(0).cast("bigint"))
    )
    return later.unionByName(moved.select(*later.columns))
