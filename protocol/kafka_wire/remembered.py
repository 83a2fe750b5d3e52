"""Results that are remembered by what clients send, bounded in bytes.

``functools.lru_cache`` counts entries. Where a client chooses the argument an entry may have 32 KB, which is how long a string of the
protocol may be, or the megabyte of a request, and 65,536 of them take gigabytes. `remembered` keeps results for short arguments alone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, TypeVar, cast

__all__ = ["remembered"]

F = TypeVar("F", bound=Callable[..., Any])


def remembered(entries: int, longest: int = 128, size: Callable[[Any], int] = len) -> Callable[[F], F]:
    """Decorate a pure function: the results for the last ``entries`` arguments are kept. A call whose first argument has a ``size``
    over ``longest`` is computed each time. All arguments are positional and hashable."""

    def decorate(function: F) -> F:
        known = lru_cache(maxsize=entries)(function)

        @wraps(function)
        def call(first: Any, *others: Any) -> Any:
            return (known if size(first) <= longest else function)(first, *others)

        call.cache_info = known.cache_info  # type: ignore[attr-defined]
        return cast("F", call)

    return decorate
