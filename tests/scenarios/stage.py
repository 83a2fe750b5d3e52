"""Plays the scenarios that tests ask for, several at a time, since they mostly wait: on a loop of their own, in the tests' order.

    with Stage() as stage:
        stage.book(("crash-without-leave", "aiokafka"), ...)
        outcome = stage.outcome("crash-without-leave", "aiokafka")

Programs of the JVM are heavy: of their scenarios fewer run at once.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from types import TracebackType
from typing import Any

from broker_sim.scenario.commands import shipped
from broker_sim.scenario.model import Scenario, read
from broker_sim.scenario.runner import ScenarioOptions, ScenarioOutcome, run
from tests.scenarios.apps import APPS

AT_ONCE, JAVA_AT_ONCE = 4, 2

Part = tuple[str, str]
"""(name of a shipped scenario, name of a client)."""


class Stage:
    """A thread with a loop on which scenarios run."""

    def __init__(self, scenario: Callable[[str], Scenario] | None = None) -> None:
        self._read = scenario or (lambda name: read(shipped() / f"{name}.yaml"))
        self._outcomes: dict[Part, Future[ScenarioOutcome]] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="scenarios", daemon=True)
        self._all, self._java = asyncio.Semaphore(AT_ONCE), asyncio.Semaphore(JAVA_AT_ONCE)
        self._tasks: list[asyncio.Task[Any]] = []

    def __enter__(self) -> Stage:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def book(self, parts: Iterable[tuple[Part, str]]) -> None:
        """Play these, each with the client's command, as far as they are not booked already."""
        for part, command in parts:
            if part not in self._outcomes:
                self._outcomes[part] = Future()
                self._loop.call_soon_threadsafe(self._start, part, command)

    def book_all(self, parts: Iterable[Part]) -> None:
        """As ``book``, with the clients' own commands."""
        self.book([(part, APPS[part[1]]()) for part in parts])

    def _start(self, part: Part, command: str) -> None:
        self._tasks.append(self._loop.create_task(self._play(part, command)))

    async def _play(self, part: Part, command: str) -> None:
        outcome = self._outcomes[part]
        name, client = part
        heavy = self._java if client.startswith("java") else asyncio.Semaphore(1)
        try:
            async with heavy, self._all:
                outcome.set_result(await run(self._read(name), ScenarioOptions(clients={"*": command})))
        except BaseException as error:
            outcome.set_exception(error)
            raise

    def outcome(self, name: str, client: str) -> ScenarioOutcome:
        """Return the outcome of a scenario with a client; waits for it."""
        self.book_all([(name, client)])
        return self._outcomes[name, client].result()
