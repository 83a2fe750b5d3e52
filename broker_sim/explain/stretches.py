"""Stretches in which a group could not become Stable, or not for long."""

from __future__ import annotations

from broker_sim.explain.model import Rebalance, Stretch

__all__ = ["stretches"]

HARDLY_MS = 1000
"""A group that is Stable for less than that is not, for an operator."""


def stretches(rebalances: list[Rebalance]) -> list[Stretch]:
    """Runs of at least two rebalances that failed, or three that did or whose Stable did not last, each with the one that ended it."""
    found: list[Stretch] = []
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
        if len(run) >= (2 if all(one.end == "failed" for one in run) else 3):
            last = rebalance if rebalance is not run[-1] else None
            found.append(_stretch(run, last))
        run = []
    return found


def _stretch(run: list[Rebalance], last: Rebalance | None) -> Stretch:
    ended = last is not None and last.end != ""
    stable = [
        following.began_ms - one.ended_ms
        for one, following in zip(run, [*run[1:], *([last] if last is not None else [])], strict=False)
        if one.end == "stable" and one.ended_ms is not None
    ]
    return Stretch(
        run,
        last,
        run[0].began_ms,
        last.ended_ms if last is not None and ended else None,
        max(stable, default=None),
    )
