"""Stretches in which a group could not become Stable, or not for long."""

from __future__ import annotations

from broker_sim.explain.model import Rebalance, RebalanceSeries

__all__ = ["rebalance_series"]

HARDLY_MS = 1000
"""A group that is Stable for less than that is not, for an operator."""


def rebalance_series(rebalances: list[Rebalance]) -> list[RebalanceSeries]:
    """Runs of at least two rebalances that failed, or three that did or whose Stable did not last, each with the one that ended it."""
    series: list[RebalanceSeries] = []
    run: list[Rebalance] = []
    for position, rebalance in enumerate(rebalances):
        following = rebalances[position + 1] if position + 1 < len(rebalances) else None
        stable_ms = None
        if following is not None and rebalance.end == "stable" and rebalance.ended_ms is not None:
            stable_ms = following.began_ms - rebalance.ended_ms
        if rebalance.end == "failed" or (stable_ms is not None and stable_ms < HARDLY_MS and not rebalance.from_empty):
            run.append(rebalance)
            if following is not None:
                continue
        if len(run) >= (2 if all(rebalance.end == "failed" for rebalance in run) else 3):
            last = rebalance if rebalance is not run[-1] else None
            series.append(_series(run, last))
        run = []
    return series


def _series(run: list[Rebalance], last: Rebalance | None) -> RebalanceSeries:
    ended = last is not None and last.end != ""
    stable = [
        following.began_ms - rebalance.ended_ms
        for rebalance, following in zip(run, [*run[1:], *([last] if last is not None else [])], strict=False)
        if rebalance.end == "stable" and rebalance.ended_ms is not None
    ]
    return RebalanceSeries(
        run,
        last,
        run[0].began_ms,
        last.ended_ms if last is not None and ended else None,
        max(stable, default=None),
    )
