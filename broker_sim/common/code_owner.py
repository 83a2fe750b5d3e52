"""Owner of code that runs: the user, this package, or Python and installed packages."""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path
from types import CodeType

__all__ = ["is_ours", "is_users"]

_OURS = str(Path(__file__).parents[1]) + os.sep
_PATHS = sysconfig.get_paths()
_NOT_THE_USERS = ("<", _OURS, *{_PATHS[name] + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")})


def is_ours(code: CodeType) -> bool:
    """Whether the code is this package's."""
    return code.co_filename.startswith(_OURS)


def is_users(code: CodeType) -> bool:
    """Whether the code is the user's: not this package's, nor Python's, nor an installed package's, nor made of a string."""
    return not code.co_filename.startswith(_NOT_THE_USERS)
