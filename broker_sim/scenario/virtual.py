"""A scenario in virtual time: the production cluster and the scenario's apps in one simulation, each client on a host of its own.

    outcome = play(read(path), ScenarioOptions(seed=7))          # the same runner, matchers and verdict; no processes, no waiting
    outcome.journal_hash                                 # equal for equal seeds, in any process

Rules:
1. The runner is that of real time; what differs is which cluster it plays on and where its clients run.
2. A client is the app of its kind, as it is, on a simulated host. A crash ends the host's process and its kernel closes the
   connections; a freeze pauses it.
3. The clock is the simulation's: a file's ``clock`` is not looked at. ``advance`` lets that time pass for brokers and clients alike,
   and who is to ``expire`` is frozen meanwhile.
4. Only apps in pure Python can live here. Another client is refused by its name before anything runs.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import logging
import random
import tempfile
import traceback
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from broker_sim.common.text import UsageError
from broker_sim.scenario.apps.common import AppSettings, Live, Obey, ScenarioPipe, encoded_event
from broker_sim.scenario.clients import (
    Access,
    Clients,
    OnReport,
    ScenarioClient,
    check_given,
    check_program,
    kind_or_command,
    need,
    settings_of,
)
from broker_sim.scenario.model import ClientPlan, Scenario
from broker_sim.scenario.runner import SCRATCH, ScenarioOptions, ScenarioOutcome, cluster_arguments
from broker_sim.scenario.runner import play as play_on
from broker_sim.simulation.sync.programs import in_thread
from broker_sim.simulation.virtual.process import DEAD, PROCESS, context_of
from broker_sim.simulation.world import simulate

if TYPE_CHECKING:
    from broker_sim.simulation.hosts import Host
    from broker_sim.simulation.virtual.loop import SimTask
    from broker_sim.simulation.world import Simulation

__all__ = ["APPS", "check", "play"]

APPS = {
    "aiokafka": "aiokafka_app",
    "kafka-python": "kafka_python_app",
    "classic": "classic_app",
    "consumer": "consumer_app",
    "share": "share_app",
    "streams": "streams_app",
    "transactional": "transactional_app",
}
"""Kind -> the module of ``apps`` with its ``live(settings, line)``."""

_PATIENCE = "10m"
"""Real time without a step: the reader of the progress may be slow."""

_LONGEST = "3650d"
"""No scenario is longer; each of its waits has a limit of its own."""


def play(
    scenario: Scenario, options: ScenarioOptions | None = None, *, consumer: Live | None = None, **simulation: Any
) -> ScenarioOutcome:
    """As `runner.run`, in virtual time. ``consumer``: what lives in place of each client, whatever its kind: a coroutine function of
    (settings, line), or a function that runs on a thread (`apps/common.py`). ``simulation``: `simulate`'s arguments (``order``,
    ``link``, ``recording`` ...); the seed is the scenario's, and invariants are watched on demand alone: a file says itself what is
    never to be. Raises UsageError, ClusterError; SimError where the simulation itself can't go on."""
    options = options or ScenarioOptions()
    simulation = {"invariants": False, "patience": _PATIENCE, **simulation}
    if consumer is None:
        check(scenario, options)
    with tempfile.TemporaryDirectory(prefix=SCRATCH) as scratch:
        arguments = cluster_arguments(scenario, options, scratch)
        del arguments["clock"]
        seed = arguments.pop("seed")
        if seed is not None:
            arguments["seed"] = seed
        with _logs() as logs, simulate(seed or 0, **simulation) as sim:
            kafka = sim.cluster(arguments.pop("brokers"), **arguments)

            def clients(
                plans: list[ClientPlan], access: Access, report: OnReport, commands: Mapping[str, str]
            ) -> Clients:
                lives = {plan.name: consumer or _app(kind_or_command(plan, commands)) for plan in plans}
                made = [HostClient(plan, sim, lives[plan.name], access, report) for plan in plans]
                logs.clients = {client.host.name: client for client in made}
                return Clients(made)

            outcome = sim.run(play_on(kafka, scenario, options, clients, virtual=True), within=_LONGEST)
            outcome.journal_hash, outcome.schedule_hash = sim.journal_hash, sim.schedule_hash
            return outcome


def check(scenario: Scenario, options: ScenarioOptions) -> None:
    """Raise UsageError for what can't be in virtual time."""
    if options.attach:
        raise UsageError(
            f"{options.attach[0]} is a separate program, which can't run in virtual time; remove --virtual"
        )
    if options.clock is not None:
        raise UsageError(f"--clock {options.clock} and --virtual exclude each other; remove one")
    check_given(scenario.clients, options.clients)
    for plan in scenario.clients:
        kind = kind_or_command(plan, options.clients)
        if kind not in APPS:
            check_program(kind)
            what = "one of another program" if kind == "external" else f"{kind}, a separate process"
            raise UsageError(
                f"the client {plan.name} is {what}, which can't run in virtual time; expected one of {', '.join(APPS)}"
            )
        need(kind)
        _app(kind)  # now, so that its library takes nothing for good that is virtual


def _app(kind: str) -> Live:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python's own
        module = importlib.import_module(f"broker_sim.scenario.apps.{APPS[kind]}")
    live: Live = module.live
    return live


class HostClient(ScenarioClient):
    """A client on a simulated host."""

    def __init__(self, plan: ClientPlan, sim: Simulation, live: Live, access: Access, report: OnReport) -> None:
        super().__init__(plan, report)
        self.host = _host(sim, plan.name)
        self._live = live
        self._settings = settings_of(plan, access)
        self._line = _HostLine(self)
        self._task: SimTask | None = None
        self._used = False

    @property
    def running(self) -> bool:
        return self._task is not None and not self._task.done() and self.host.process.state != DEAD

    async def start(self) -> None:
        if self.running:
            return
        if self._used:
            self.host.begin()
        self._used, self._end_requested = True, False
        self.errors.clear()
        self._line = _HostLine(self)
        self._report(self.plan.name, "started")
        self._task = self.host.spawn(self._lives(self._line), self.plan.name)
        self._task.add_done_callback(self._over, context=context_of(None))

    async def _lives(self, line: _HostLine) -> int:
        task = asyncio.current_task()
        await asyncio.sleep(random.uniform(*_STARTS_S))
        try:
            live = partial(self._live, AppSettings(self._settings), line)
            status = await (live() if inspect.iscoroutinefunction(self._live) else in_thread(live, self.plan.name))
            return int(status)
        except (Exception, asyncio.CancelledError):
            if task is not None and task.cancelling():
                raise
            self.errors += traceback.format_exc().splitlines()
            return 1

    def _over(self, task: asyncio.Task[Any]) -> None:
        if task is self._task and not task.cancelled():
            self._ended(task.result())

    def _ended(self, code: int) -> None:
        """Note that the client's process has ended."""
        self._task = None
        self._line.close()
        self.host.exit()
        self._exited(code)

    async def crash(self) -> None:
        self._need_running()
        self._end_requested = True
        self._ended(_KILLED)

    def freeze(self) -> None:
        self._need_running()
        self.host.pause()

    def thaw(self) -> None:
        self._need_running()
        self.host.resume()

    def command_line(self, text: str) -> None:
        self._need_running()
        self._end_requested |= text == "leave"
        command, _, argument = text.partition(" ")
        self.host.sim.loop.call_soon(self._line.obey, command, argument, context=context_of(self.host.process))

    async def stop(self, *, leave: bool = False) -> None:
        self._line.close()
        if self.running and not self.host.sim.ending:  # which ends everything itself
            self._end_requested = True
            self._ended(0)


_STARTS_S = 0.2, 0.4
"""So long a process takes to start, as the seed draws."""

_KILLED = -9
"""The exit code of a process that SIGKILL has ended."""


class _HostLine(ScenarioPipe):
    """The commands and reports of an app that runs on a simulated host in this process, in place of stdin and stdout."""

    def __init__(self, client: HostClient) -> None:
        self._client = client
        self._unheard: list[tuple[str, str]] = []
        self._obey: Obey | None = None

    def report(self, reports: str, **details: Any) -> None:
        report = json.loads(encoded_event(reports, details))  # as it would come through a pipe
        self._client._report(self._client.plan.name, report.pop("reports"), **report)

    def listen(self, obey: Obey) -> None:
        self._obey = obey
        for command, argument in self._unheard:
            obey(command, argument)
        self._unheard.clear()

    def close(self) -> None:
        """Forget the app: what it leaves is garbage when the simulation ends."""
        self._obey = None

    def obey(self, command: str, argument: str) -> None:
        """A command of the scenario; it waits for the app to listen."""
        if self._obey is None:
            self._unheard.append((command, argument))
        else:
            self._obey(command, argument)


def _host(sim: Simulation, name: str) -> Host:
    """A host for a client, called like it where hosts can be called so."""
    spelled = "".join(letter if letter.isalnum() or letter in "-._" else "-" for letter in name) or "client"
    taken = (*sim.network.machines, "localhost", "127.0.0.1")
    return sim.host(
        next(
            candidate
            for candidate in (spelled, *(f"{spelled}.{n}" for n in range(2, len(taken) + 3)))
            if candidate not in taken
        )
    )


class _Logs(logging.Handler):
    """Logging handler that appends the warnings of a client's library to that client's stderr."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.setFormatter(logging.Formatter(logging.BASIC_FORMAT))
        self.clients: dict[str, HostClient] = {}

    def emit(self, record: logging.LogRecord) -> None:
        process = PROCESS.get()
        client = None if process is None else self.clients.get(process.host)
        if client is None:
            logging.getLogger().handle(record)
        else:
            client.errors += self.format(record).splitlines()


@contextmanager
def _logs() -> Iterator[_Logs]:
    """While it is played the library's log goes to the clients."""
    loggers, handler = [logging.getLogger(name) for name in ("aiokafka", "kafka")], _Logs()
    propagated = [logger.propagate for logger in loggers]
    for logger in loggers:
        logger.propagate = False
        logger.addHandler(handler)
    try:
        yield handler
    finally:
        for logger, propagates in zip(loggers, propagated, strict=True):
            logger.removeHandler(handler)
            logger.propagate = propagates
