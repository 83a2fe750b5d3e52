"""Python's hash seed, which orders sets of strings: it is fixed when a process starts, and no simulation can pin it from inside."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

__all__ = ["is_pinned", "pin", "pinned_environment"]

SEED = "0"


def is_pinned() -> bool:
    """Whether strings have the same hashes in the next process as in this one."""
    return not sys.flags.hash_randomization or os.environ.get("PYTHONHASHSEED", "random") != "random"


def pinned_environment() -> dict[str, str]:
    """This process's environment with the hash seed pinned: for processes that are started."""
    return {**os.environ, "PYTHONHASHSEED": os.environ["PYTHONHASHSEED"] if is_pinned() else SEED}


def pin(arguments: Sequence[str] | None = None) -> None:
    """Start this program again with the hash seed pinned, unless it is. ``arguments``: what follows the interpreter (default: as now).
    Does not return where it was not pinned."""
    if not is_pinned():
        rest = list(sys.orig_argv[1:] if arguments is None else arguments)
        os.execve(sys.executable, [sys.executable, *rest], pinned_environment())
