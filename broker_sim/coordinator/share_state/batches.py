"""Runs of offsets with one delivery state, and their combination with later runs.

Source: PersisterStateBatchCombiner.java (4.x), by its results: of overlapping runs the one with more deliveries counts, with equal
counts the one with the later state; equal neighbours are joined.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple


class StateBatch(NamedTuple):
    """Records ``first`` to ``last``, both included: how often they were delivered, and the state they are in (`DeliveryState`)."""

    first: int
    last: int
    state: int
    deliveries: int


def combined(batches: Iterable[StateBatch], start_offset: int) -> tuple[StateBatch, ...]:
    """Disjoint runs in the order of offsets from runs in any order; offsets below ``start_offset`` (-1: none) are dropped."""
    live = sorted(
        batch if batch.first >= start_offset else batch._replace(first=start_offset)
        for batch in batches
        if batch.last >= start_offset
    )
    if len(live) < 2:
        return tuple(live)
    if any(batch.first <= before.last for before, batch in itertools.pairwise(live)):
        live = _flattened(live)
    return tuple(_joined(live))


def _flattened(live: Sequence[StateBatch]) -> list[StateBatch]:
    edges = sorted({edge for batch in live for edge in (batch.first, batch.last + 1)})
    flat: list[StateBatch] = []
    for begin, end in itertools.pairwise(edges):
        over = [batch for batch in live if batch.first <= begin and end - 1 <= batch.last]
        if over:
            most = max(over, key=lambda batch: (batch.deliveries, batch.state))
            flat.append(StateBatch(begin, end - 1, most.state, most.deliveries))
    return flat


def _joined(disjoint: Sequence[StateBatch]) -> list[StateBatch]:
    joined: list[StateBatch] = []
    for batch in disjoint:
        if joined:
            before = joined[-1]
            if before.last + 1 == batch.first and before[2:] == batch[2:]:
                joined[-1] = before._replace(last=batch.last)
                continue
        joined.append(batch)
    return joined
