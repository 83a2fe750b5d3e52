"""`@cell()` makes a body of tests/stuck one test for each column of the table, each in the simulator and on real brokers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

import pytest

from tests.stuck.target import Stuck

Body = Callable[[Stuck], Awaitable[None]]
VERSIONS = ("3.4", "4.1")
PHASES = ("A", "B")
TARGETS = ("sim", "kafka")


@dataclass(frozen=True)
class Cell:
    """A body in one column: the version ("3.4", "4.1"), the phase ("A", "B"), and how many partitions it needs."""

    name: str
    body: Body
    version: str
    phase: str
    partitions: int


class Run(Protocol):
    """The fixture `run`: runs a cell's body, or gives the outcome of a run that many bodies shared."""

    def __call__(self, cell: Cell) -> None: ...


def cell(
    *, phases: tuple[str, ...] = PHASES, partitions: int = 1, versions: tuple[str, ...] = VERSIONS
) -> Callable[[Body], Callable[[Run, Cell], None]]:
    """Decorates the body; see the module."""

    def decorate(body: Body) -> Callable[[Run, Cell], None]:
        name = body.__name__.removeprefix("test_")
        params = []
        for version in versions:
            for phase in phases:
                column = Cell(name, body, version, phase, partitions)
                params.append(pytest.param("sim", column, id=f"{version}-{phase}-sim"))
                params.append(
                    pytest.param(
                        "kafka",
                        column,
                        id=f"{version}-{phase}-kafka",
                        marks=[pytest.mark.real_kafka],
                    )
                )

        def test(run: Run, column: Cell) -> None:
            run(column)

        test.__name__, test.__qualname__ = body.__name__, body.__qualname__
        test.__doc__, test.__module__ = body.__doc__, body.__module__
        marked: Callable[[Run, Cell], None] = pytest.mark.parametrize(("run", "column"), params, indirect=["run"])(test)
        return marked

    return decorate
