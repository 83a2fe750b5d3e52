"""Long lists of like cases: `make test` runs a sample of them, CI all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def sampled(cases: Iterable[Any], every: int) -> list[Any]:
    """Parameters of which each ``every``-th, the first among them, has no mark, and the others are `slow`. A case that is a tuple has
    the values of several arguments.

    The sample is the same in each run: a drawn one would make a run that fails another test than the one before it.
    """
    values = ((at, case if isinstance(case, tuple) else (case,)) for at, case in enumerate(cases))
    return [pytest.param(*case, marks=[pytest.mark.slow] if at % every else []) for at, case in values]
