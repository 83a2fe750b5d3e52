"""Python's hash seed, which orders sets of strings: it is fixed when a process starts, and no simulation can pin it from inside."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

__all__ = ["SEED", "can_pin", "is_pinned", "pin", "pinned_environment"]

SEED = "0"


def is_pinned() -> bool:
    """Whether strings have the same hashes in the next process as in this one."""
    if sys.flags.ignore_environment or not sys.flags.hash_randomization:
        return not sys.flags.hash_randomization
    return os.environ.get("PYTHONHASHSEED", "random") != "random"


def can_pin() -> bool:
    """Whether another process of this kind can have it pinned: not under ``python -E`` and ``-I``, which look into no environment."""
    return not sys.flags.ignore_environment


def pinned_environment() -> dict[str, str]:
    """Environment of this process with the hash seed pinned: for processes that are started."""
    return {**os.environ, "PYTHONHASHSEED": os.environ.get("PYTHONHASHSEED", SEED) if is_pinned() else SEED}


def pin(arguments: Sequence[str] | None = None) -> None:
    """Start this program again with the hash seed pinned, unless it is. ``arguments``: what follows the interpreter (default: as now).
    Does not return where it was not pinned, and can be."""
    if not is_pinned() and can_pin():
        rest = list(sys.orig_argv[1:] if arguments is None else arguments)
        os.execve(sys.executable, [sys.executable, *rest], pinned_environment())
