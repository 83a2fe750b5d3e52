"""Long work on the event loop, one piece in each iteration, so that other requests wait for one piece at most.

Rules:
1. A job is a generator: it yields where others may be served, after some milliseconds, and returns its result. How much
   it does at once is counted in records, bytes or names, never in time: under virtual time every run is the same.
2. One job at a time, in order of arrival: many long requests don't delay other requests more than one does, and their
   memory is used one after the other. The first piece is done at once, and most jobs have only one.

Threads would share the interpreter with the loop all the same, make handlers unsafe and simulated runs differ.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

__all__ = [
    "Job",
    "Pace",
    "Slices",
    "at_once",
    "chunked",
    "counted",
    "distinct",
    "ended",
    "first_piece",
    "in_order",
    "listed",
]

Job = Generator[None, None, Any]
T = TypeVar("T")
H = TypeVar("H", bound=Hashable)
R = TypeVar("R")
Later = Callable[[Callable[[], object]], object]


class Pace:
    """Counts the work of a job since its last yield: ``if pace.full(): yield`` after each element, of inner lists, too."""

    __slots__ = ("_done", "_piece")

    def __init__(self, piece: int) -> None:
        self._piece, self._done = piece, 0

    def full(self, done: int = 1) -> bool:
        """Count the work; returns whether the piece is complete."""
        self._done += done
        if self._done < self._piece:
            return False
        self._done = 0
        return True


def at_once(job: Generator[None, None, R]) -> R:
    """Run a job to its end, without pauses, and return its result."""
    while True:
        try:
            next(job)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]


def first_piece(job: Generator[None, None, R]) -> R | None:
    """The result of a job that has one piece; None of one that has more, which is given up."""
    try:
        next(job)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    job.close()
    return None


def ended(job: Job) -> bool:
    """Run one piece of a job without a result; returns whether it was the last."""
    return next(job, True) is True


_CHUNK = 4000
"""Elements that are listed, counted or sorted before others are served: a few milliseconds."""


_PART, _SAMPLED = 2 * _CHUNK, 32
"""Elements of sorted runs that are merged at once, which is what sorting a chunk takes; one in how many is in the sample for that."""


def chunked(elements: Iterable[T], at_a_time: int = _CHUNK) -> Iterator[list[T]]:
    """Lists of ``at_a_time`` elements; the last may be shorter."""
    left = iter(elements)
    while chunk := list(islice(left, at_a_time)):
        yield chunk


def listed(elements: Iterable[T], at_a_time: int = _CHUNK) -> Generator[None, None, list[T]]:
    """All elements as a list, in pieces; each is taken from ``elements`` as its turn comes."""
    result: list[T] = []
    for chunk in chunked(elements, at_a_time):
        result += chunk
        if len(chunk) == at_a_time:
            yield
    return result


def counted(elements: Iterable[H]) -> Generator[None, None, Counter[H]]:
    """Number of times that each element occurs, in the order of first occurrence."""
    count: Counter[H] = Counter()
    for chunk in chunked(elements):
        count.update(chunk)
        if len(chunk) == _CHUNK:
            yield
    return count


def distinct(elements: Iterable[H]) -> Generator[None, None, dict[H, None]]:
    """Each once, in the order in which they came first."""
    result: dict[H, None] = {}
    for chunk in chunked(elements):
        result.update(dict.fromkeys(chunk))
        if len(chunk) == _CHUNK:
            yield
    return result


def in_order(elements: Iterable[str]) -> Generator[None, None, list[str]]:
    """All elements, sorted: in runs, which are then merged part by part. A sample of the runs determines where a part ends, so that
    each has some `_PART` elements, and fewer than as many again for the runs that it cuts."""
    left = iter(elements)
    runs = [sorted(islice(left, _CHUNK))]
    while len(runs[-1]) == _CHUNK:
        yield
        runs.append(sorted(islice(left, _CHUNK)))
    if len(runs) == 1:
        return runs[0]
    sample = sorted(name for run in runs for name in run[::_SAMPLED])
    result: list[str] = []
    begins = [0] * len(runs)
    for last in [*sample[_PART // _SAMPLED :: _PART // _SAMPLED], None]:
        ends = [len(run) if last is None else bisect_right(run, last) for run in runs]
        part = [name for run, begin, end in zip(runs, begins, ends, strict=True) for name in run[begin:end]]
        part.sort()
        result += part
        begins = ends
        if last is not None:
            yield
    return result


class Slices:
    """The jobs of one cluster that took more than a piece. ``later`` calls in the next turn: the running loop's call_soon."""

    def __init__(self, later: Later | None = None) -> None:
        self._jobs: deque[tuple[Job, Callable[[Job], bool]]] = deque()
        self._later: Later = later or (lambda turn: asyncio.get_running_loop().call_soon(turn))

    @property
    def busy(self) -> bool:
        """Whether a job is on."""
        return bool(self._jobs)

    def add(self, job: Job, step: Callable[[Job], bool]) -> None:
        """Call ``step(job)`` once in a turn of the loop until it is true."""
        self._jobs.append((job, step))
        if len(self._jobs) == 1:
            self._later(self._turn)

    def _turn(self) -> None:
        if not self._jobs:
            return
        job, step = self._jobs[0]
        done = True
        try:
            done = step(job)
        finally:
            if done and self._jobs:
                self._jobs.popleft()
            if self._jobs:
                self._later(self._turn)

    def clear(self) -> None:
        """Forget all jobs, as the cluster ends."""
        for job, _ in self._jobs:
            job.close()
        self._jobs.clear()
