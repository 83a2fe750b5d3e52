"""Arrow's record batches on their way: many small ones as fewer large ones, as each costs its own way to where it goes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

__all__ = ["gathered"]


def gathered(batches: Iterable[Any], most: int) -> Iterator[Any]:
    """The rows of record batches, in their order, as tables of at most ``most`` rows."""
    import pyarrow

    waiting: list[Any] = []
    rows = 0
    for batch in batches:
        for at in range(0, batch.num_rows, most):
            piece = batch.slice(at, most)
            if rows + piece.num_rows > most:
                yield pyarrow.Table.from_batches(waiting)
                waiting, rows = [], 0
            waiting.append(piece)
            rows += piece.num_rows
    if waiting:
        yield pyarrow.Table.from_batches(waiting)
