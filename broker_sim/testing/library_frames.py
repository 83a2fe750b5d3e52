"""The traceback of a wait that timed out, or of an invalid argument, ends at the line of the test's own code.

The frames between that line and the error, of this package and of asyncio or concurrent.futures below it, are the same for every such
error, and pytest shows sixty lines of them before the message. ``__tracebackhide__`` would hide this package's frames alone, and would
have to be set in each of its modules. ``--full-trace`` shows all of them, as it does for other hidden frames.
"""

from __future__ import annotations

import os
from types import TracebackType

import broker_sim

__all__ = ["cut_library_frames"]

_LIBRARY = (os.path.dirname(broker_sim.__file__) + os.sep, os.path.dirname(os.__file__) + os.sep)
_INSTALLED = f"{os.sep}site-packages{os.sep}"
"""The site-packages directory is in the one of the standard library, and what a test has installed is not this package's."""


def cut_library_frames(error: BaseException) -> None:
    """Drop the frames behind the last one outside of this package and the standard library; for other errors, do nothing."""
    from broker_sim.common.text import UsageError
    from broker_sim.journal import WaitTimeout

    if not isinstance(error, WaitTimeout | UsageError):
        return
    last, entry = None, error.__traceback__
    while entry is not None:
        if not _is_library(entry):
            last = entry
        entry = entry.tb_next
    if last is not None:
        last.tb_next = None


def _is_library(entry: TracebackType) -> bool:
    file = entry.tb_frame.f_code.co_filename
    if file.startswith(_LIBRARY[0]):
        return True
    return file.startswith(_LIBRARY[1]) and _INSTALLED not in file
