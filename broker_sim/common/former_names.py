"""Names that were renamed: the former ones are accepted for one release, with a warning that has the present name."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

__all__ = ["current"]


def current(name: str, former: Mapping[str, str], what: str, place: str = "", stacklevel: int = 3) -> str:
    """The present name of ``name``, which is ``name`` itself unless it is a key of ``former`` (former name -> present name).

    Warns (FutureWarning) of a former name. ``what``: the kind of the name, as in "the invariant"; ``place``: ``file:line`` of the name
    in a user's file.
    """
    now = former.get(name)
    if now is None:
        return name
    where = f"{place}: " if place else ""
    warnings.warn(
        f"{where}{what} {name!r} is now called {now!r}; the former name is removed in the next release",
        FutureWarning,
        stacklevel=stacklevel,
    )
    return now
