"""Synchronous programs for tests."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import threading
import traceback
from collections.abc import Callable, Coroutine, Iterator
from types import CoroutineType
from typing import Any

from broker_sim.simulation import simulate


def result_of(function: Callable[[], Any], within: object = "1h", **options: Any) -> Any:
    """Return the result of a function that runs on a host of a fresh simulation."""
    with simulate(1, **options) as sim:
        task = sim.host("sync").spawn_sync(function)
        sim.run_until(task.done, within=within)
        return task.result()


def ends(thread: threading.Thread) -> None:
    """Wait for the end of a thread. One that hangs is shown where it does."""
    thread.join(150)
    frame = sys._current_frames().get(thread.ident or 0)
    assert not thread.is_alive(), "".join([f"{thread} hangs\n", *traceback.format_stack(frame)])


@contextlib.contextmanager
def no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        if "patience" not in thread.name:
            ends(thread)


def suspended(package: str) -> list[Coroutine[Any, Any, Any]]:
    """Coroutines of this installed package that wait for something, garbage among them."""
    path = f"{os.sep}site-packages{os.sep}{package}{os.sep}"
    return [
        one
        for one in gc.get_objects()
        if type(one) is CoroutineType and (frame := one.cr_frame) is not None and path in frame.f_code.co_filename
    ]


@contextlib.contextmanager
def leaves_nothing_suspended(package: str) -> Iterator[None]:
    """Assert that the block suspends no coroutine of the package for good: its code would run at a collection, in another test."""
    before = suspended(package)
    yield
    assert [one for one in suspended(package) if one not in before] == []


def together(*functions: Callable[[], Any]) -> list[Any]:
    """Each on a thread of its own; their results."""
    results: list[Any] = [None] * len(functions)

    def run(number: int) -> None:
        results[number] = functions[number]()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(functions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
        assert not thread.is_alive()
    return results
