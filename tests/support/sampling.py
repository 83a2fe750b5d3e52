"""Long lists of like cases: `make test` runs a sample of them, CI all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def sampled(cases: Iterable[Any], every: int) -> list[Any]:
    """Parameters of which each ``every``-th, the first among them, has no mark, and the others are `slow`.

    The sample is the same in each run: a drawn one would make a run that fails another test than the one before it.
    """
    return [case if at % every == 0 else pytest.param(case, marks=pytest.mark.slow) for at, case in enumerate(cases)]
