"""The traceback of a wait that timed out, or of an invalid argument, ends at the line of the test's own code.

The frames between that line and the error, of this package and of asyncio or concurrent.futures below it, are the same for every such
error, and pytest shows sixty lines of them before the message. ``__tracebackhide__`` would hide this package's frames alone, and would
have to be set in each of its modules. ``--full-trace`` shows all of them, as it does for other hidden frames.
"""

from __future__ import annotations

from broker_sim.common.code_owner import is_users

__all__ = ["cut_library_frames"]


def cut_library_frames(error: BaseException) -> bool:
    """Drop the frames behind the last one of the user's code; for other errors, do nothing. Returns whether frames were dropped."""
    from broker_sim.common.text import UsageError
    from broker_sim.journal import WaitTimeout

    if not isinstance(error, WaitTimeout | UsageError):
        return False
    last, entry = None, error.__traceback__
    while entry is not None:
        if is_users(entry.tb_frame.f_code):
            last = entry
        entry = entry.tb_next
    if last is None or last.tb_next is None:
        return False
    last.tb_next = None
    return True
