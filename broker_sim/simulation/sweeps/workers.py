"""Processes that run seeds, and how a sweep waits for them.

Rules:
1. Every worker has its hash seed pinned.
2. Workers end with the process that started them, killed or not.
3. Ctrl-C and SIGTERM end a sweep between two steps of its own. A KeyboardInterrupt in the middle of the pool's code would leave a lock
   taken, and the pool's shutdown would wait for it without end.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any, Protocol, TypeVar

from broker_sim.simulation.virtual.hashseed import SEED

__all__ = ["Pool", "WorkQueue", "pool"]

T = TypeVar("T")

_RUNS_A_WORKER = 400
"""After so many runs for each of them all workers are replaced: what the runs have left behind ends with them."""


class Pool(Protocol):
    def submit(self, work: Callable[..., T], /, *args: Any) -> Future[T]: ...


class _Workers:
    """Processes, replaced after `_RUNS_A_WORKER` runs for each of them. (With ProcessPoolExecutor's ``max_tasks_per_child`` a pool can
    be left without workers: it takes one that has ended for one that is idle.)"""

    def __init__(self, jobs: int) -> None:
        self._jobs, self._given = jobs, 0
        self._executor = self._start()

    def _start(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(self._jobs, multiprocessing.get_context("spawn"), _begin_worker)

    def submit(self, work: Callable[..., T], /, *args: Any) -> Future[T]:
        if self._given == self._jobs * _RUNS_A_WORKER:
            self._executor.shutdown()
            self._executor, self._given = self._start(), 0
        self._given += 1
        return self._executor.submit(work, *args)

    def close(self) -> None:
        self._executor.shutdown(cancel_futures=True)


@contextmanager
def pool(jobs: int) -> Iterator[Pool]:
    """Workers with a pinned hash seed. When the block ends, runs that have not begun are cancelled."""
    before = os.environ.get("PYTHONHASHSEED")
    if before in (None, "random"):  # whatever this process has: its workers have what the environment says
        os.environ["PYTHONHASHSEED"] = SEED
    workers = _Workers(jobs)
    try:
        yield workers
    finally:
        workers.close()
        if before is None:
            os.environ.pop("PYTHONHASHSEED", None)
        else:
            os.environ["PYTHONHASHSEED"] = before


class WorkQueue:
    """Jobs submitted to a pool. In the block the first SIGINT or SIGTERM that would raise KeyboardInterrupt is noted: `check`, `done`
    and `results` raise it. The second one is raised at once."""

    def __init__(self, workers: Pool) -> None:
        self._workers = workers
        self._ended: SimpleQueue[Future[Any] | None] = SimpleQueue()
        self._interrupted = False
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> WorkQueue:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                if signal.getsignal(number) is signal.default_int_handler:
                    self._handlers[number] = signal.signal(number, self._interrupt)
        return self

    def __exit__(self, *error: object) -> None:
        while self._handlers:
            signal.signal(*self._handlers.popitem())

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if self._interrupted:
            raise KeyboardInterrupt
        self._interrupted = True
        self._ended.put(None)  # may be called while `get` waits, or in the middle of another `put`

    def submit(self, work: Callable[..., T], /, *args: Any) -> Future[T]:
        future = self._workers.submit(work, *args)
        future.add_done_callback(self._ended.put)
        return future

    def check(self) -> None:
        """Raise KeyboardInterrupt if a signal has arrived since the block began."""
        if self._interrupted:
            raise KeyboardInterrupt

    def done(self) -> set[Future[Any]]:
        """Waits for one; returns those that have ended since the last call. Raises KeyboardInterrupt."""
        ended = [self._ended.get()]
        with suppress(Empty):
            while True:
                ended.append(self._ended.get_nowait())
        self.check()
        return {future for future in ended if future is not None}

    def results(self, futures: Iterable[Future[Any]]) -> list[Any]:
        """Waits for all of these; what else ends meanwhile is dropped. Raises KeyboardInterrupt, and what the work raised."""
        wanted = list(futures)
        missing = set(wanted)
        while missing:
            missing -= self.done()
        return [future.result() for future in wanted]


# --- in the workers ------------------------------------------------------------------------------------------------------


def _begin_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the sweep ends its workers
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this worker when the sweep's process dies, so that a killed sweep leaves no processes."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
