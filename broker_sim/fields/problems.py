"""Errors in an input: all of them at once, each with its place.

    problems = Problems()
    with problems.at("times"):
        times = Count(1).read(value, "times")      # what it raises is noted
    problems.check()                               # raises WrongInput with all that was noted

A place is a path of keys and positions into the input. ``Problem.pointer`` is the path as a JSON pointer; readers of files map its
first key to a line.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from broker_sim.common.text import UsageError

__all__ = ["Problem", "Problems", "WrongInput"]


class Problem(NamedTuple):
    """One thing that is wrong: a line for people, which names it, and the way to it."""

    text: str
    path: tuple[str | int, ...] = ()
    nearest: str | None = None

    @property
    def pointer(self) -> str:
        """As a JSON pointer (RFC 6901): ``/config/num.partitions``; "" is the whole input."""
        return "".join("/" + str(key).replace("~", "~0").replace("/", "~1") for key in self.path)


class WrongInput(UsageError):
    """An invalid input. The message has a line for each error; ``problems`` has them with their places."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__("\n".join(dict.fromkeys(problem.text for problem in problems)))
        self.problems = problems
        self.nearest = problems[0].nearest


class Problems:
    """Errors found up to now."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def add(self, error: UsageError, *path: str | int) -> None:
        """Note what was raised of the value at ``path``."""
        if isinstance(error, WrongInput):
            self.problems += [
                Problem(problem.text, (*path, *problem.path), problem.nearest) for problem in error.problems
            ]
        else:
            self.problems.append(Problem(str(error), path, error.nearest))

    @contextmanager
    def at(self, *path: str | int) -> Iterator[None]:
        """Note an error that the block raises; the block is left."""
        try:
            yield
        except UsageError as error:
            self.add(error, *path)

    def check(self) -> None:
        """Raise what was noted: the one UsageError, or a WrongInput of several."""
        if self.problems:
            raise WrongInput(*self.problems) from None
