"""The tables of a run, each with the function that makes it of what was read, or of other tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from broker_sim.pipeline.schemas import TableSchema
from broker_sim.pipeline.tables.coordinator_hotspots import COORDINATOR_HOTSPOTS, coordinator_hotspots
from broker_sim.pipeline.tables.lag import LAG, lag

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from broker_sim.pipeline.tables.condensed import Condensed

__all__ = ["derived", "tables_of_tables"]


def derived(
    events: DataFrame,
    log: DataFrame,
    ends: DataFrame,
    window_ms: int,
    *,
    logged: bool = True,
    journaled: bool = True,
    sizes: DataFrame | None = None,
    lines: DataFrame | None = None,
    seen: DataFrame | None = None,
    shares: DataFrame | None = None,
    short: Condensed | None = None,
) -> dict[TableSchema, Callable[[], DataFrame]]:
    """The tables that are made of EVENTS, OFFSET_LOG, LOG_ENDS and LOG_LINES. ``logged``: whether ``log`` is one; else it is a
    `journal_log`. ``journaled``: whether ``events`` are those of a journal; else tables that come from a journal alone are empty and
    not computed, which takes Spark as long as any other. ``sizes``: LOG_SIZES; ``seen``: SEEN, transactions; ``shares``: SEEN of
    share_deliveries; ``short``: the log, condensed with that ``window_ms``: tables are made of it where it is given.

    The modules are imported here, since they import an engine; the tables are functions, so that only requested ones are planned."""
    from broker_sim.pipeline.tables.commit_refusals import COMMIT_REFUSALS, commit_refusals
    from broker_sim.pipeline.tables.coordinator_moves import COORDINATOR_MOVES, coordinator_moves
    from broker_sim.pipeline.tables.data_losses import DATA_LOSSES, data_losses
    from broker_sim.pipeline.tables.duplicate_windows import DUPLICATE_WINDOWS, duplicate_windows
    from broker_sim.pipeline.tables.groups import GROUPS, groups
    from broker_sim.pipeline.tables.log_lines import LOG_LINES
    from broker_sim.pipeline.tables.member_churn import MEMBER_CHURN, member_churn
    from broker_sim.pipeline.tables.offset_deletions import OFFSET_DELETIONS, offset_deletions
    from broker_sim.pipeline.tables.offset_regressions import OFFSET_REGRESSIONS, offset_regressions
    from broker_sim.pipeline.tables.offset_resets import OFFSET_RESETS, offset_resets
    from broker_sim.pipeline.tables.offset_skips import OFFSET_SKIPS, offset_skips
    from broker_sim.pipeline.tables.rebalances import REBALANCES, rebalances
    from broker_sim.pipeline.tables.share_deliveries import SEEN as SHARES_SEEN
    from broker_sim.pipeline.tables.share_deliveries import SHARE_DELIVERIES, share_deliveries
    from broker_sim.pipeline.tables.stuck_partitions import STUCK_PARTITIONS, stuck_partitions
    from broker_sim.pipeline.tables.transactions import SEEN, TRANSACTIONS, transactions

    whole = log
    log = log if short is None else short.rows
    real, source = (log, "log") if logged else (None, "journal")

    def line_rows() -> DataFrame:
        return LOG_LINES.none_like(log) if lines is None else lines

    def begun() -> DataFrame:
        return SEEN.none_like(log) if seen is None else seen

    def from_journal(table: TableSchema, make: Callable[[DataFrame], DataFrame]) -> Callable[[], DataFrame]:
        return lambda: make(events) if journaled else table.none_like(log)

    return {
        GROUPS: lambda: groups(log),
        LAG: lambda: lag(log, ends, window_ms),
        OFFSET_REGRESSIONS: lambda: offset_regressions(log, source),
        OFFSET_DELETIONS: lambda: offset_deletions(log, source, events),
        COORDINATOR_HOTSPOTS: lambda: coordinator_hotspots(log, source, sizes),
        OFFSET_RESETS: lambda: offset_resets(log),
        TRANSACTIONS: lambda: transactions(whole, begun(), line_rows()),
        SHARE_DELIVERIES: lambda: share_deliveries(SHARES_SEEN.none_like(log) if shares is None else shares),
        COORDINATOR_MOVES: lambda: coordinator_moves(log, line_rows()),
        REBALANCES: lambda: rebalances(events, real, lines),
        MEMBER_CHURN: lambda: member_churn(events, real),
        DUPLICATE_WINDOWS: from_journal(DUPLICATE_WINDOWS, duplicate_windows),
        OFFSET_SKIPS: from_journal(OFFSET_SKIPS, offset_skips),
        COMMIT_REFUSALS: from_journal(COMMIT_REFUSALS, commit_refusals),
        DATA_LOSSES: lambda: data_losses(events, whole),
        STUCK_PARTITIONS: lambda: stuck_partitions(events, whole if logged else None, lines, short),
    }


def tables_of_tables(log: DataFrame, tables: Mapping[str, DataFrame]) -> dict[TableSchema, Callable[[], DataFrame]]:
    """The tables that are made of others, which are written by then: ``tables``, by their names."""
    from broker_sim.pipeline.tables.offset_stalls import OFFSET_STALLS, offset_stalls

    return {OFFSET_STALLS: lambda: offset_stalls(log, tables["lag"])}
