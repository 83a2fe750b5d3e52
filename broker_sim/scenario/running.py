"""A scenario on a cluster that runs already, whose clients are those of a test: the file's incident meets them.

    run = await start(kafka, parsed(text, "incident.yaml"))       # WrongFile: what of the file can't be here, with its line
    await run.wait(step="the log gets slow", timeout="30s")
    await run.wait(timeout="60s")                           # to the end; ScenarioFailed if an expectation failed
    await run.end()                                         # cancelled if it runs, and its faults are cleared

Rules:
1. The runner is that of ``broker-sim run``; what differs is whose the cluster, the clients and the clock are.
2. A client of the file is one that the test starts: ``clients`` defines its group and topics. Clients of the kinds that no library
   provides (``classic``, ``transactional`` ...) are part of the incident, and are started; with ``start_clients`` all are, but for
   those of the kind ``external``.
3. A step can't act on a client of the test, and no condition has its reports: such lines are refused, as are ``import``, settings that
   the cluster does not have, and ``advance`` with a clock that advances by itself.
4. A pause (``after``) and ``for`` last by the brokers' clock, a manual one of which the test advances; deadlines are real time.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import deque
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from broker_sim.common.text import UsageError, duration_ms, unknown
from broker_sim.config.settings import ConfigError, to_text
from broker_sim.control.on_scenarios import ScenarioFailed
from broker_sim.control.resolve import not_there
from broker_sim.journal import WaitTimeout
from broker_sim.scenario.clients import kind_or_command, processes
from broker_sim.scenario.expectations import ClientMatcher, EventMatcher, Matcher
from broker_sim.scenario.files import Table, WrongFile, loads
from broker_sim.scenario.model import Scenario, parse
from broker_sim.scenario.outcome import BROKEN, VERDICTS, ExpectationResult, ScenarioOptions, ScenarioOutcome
from broker_sim.scenario.runner import Stage

if TYPE_CHECKING:
    from broker_sim.api.cluster import Cluster
    from broker_sim.scenario.model import Action, ClientPlan

__all__ = ["ScenarioRun", "find", "parsed", "prepare", "runs", "scenario_of", "start"]

log = logging.getLogger("broker_sim.scenario")

MAX_RUNS = 100
"""Limit of the scenario runs of one cluster; a further one is refused."""
MAX_LINES = 1000
"""Limit of the lines of progress that a run keeps; the latest are kept."""
Commands = Mapping[str, str]
OF_THE_TEST: Commands = {"*": "external"}
"""Replacement for the file's clients: see `clients.kind_or_command`."""

_numbers = itertools.count(1)
_runs: WeakKeyDictionary[Cluster, dict[int, ScenarioRun]] = WeakKeyDictionary()


def parsed(text: str, name: str = "scenario") -> Scenario:
    """The scenario of a file's text; ``name``: the file's, for messages. Raises WrongFile."""
    return scenario_of(loads(text, name))


def scenario_of(table: Table) -> Scenario:
    """The scenario of a file. Raises WrongFile."""
    if "import" in table:  # it names files of the machine that the text came from
        raise table.error("import: a cluster that runs already can't load groups or logs; remove it", "import")
    return parse(table)


async def start(
    kafka: Cluster, scenario: Scenario, *, start_clients: bool = False, any_settings: bool = False
) -> ScenarioRun:
    """Begin it; its topics are there afterwards. ``start_clients``: with the clients of the file; ``any_settings``: although the
    cluster's settings are not those of the file. Raises WrongFile, UsageError."""
    commands = {} if start_clients else OF_THE_TEST
    errors = [*_foreign_clients(scenario, commands), *_time(kafka, scenario), *_cluster(kafka, scenario, any_settings)]
    if errors:
        raise WrongFile.of(errors)
    running = _runs.setdefault(kafka, {})
    if len(running) >= MAX_RUNS:
        raise UsageError(f"a cluster has at most {MAX_RUNS} scenarios; end one first")
    run = ScenarioRun(kafka, scenario, commands)
    running[run.id] = run
    await asyncio.sleep(0)  # up to its first wait
    if run.error:
        await run.end()
        raise UsageError(run.error)
    return run


def prepare(kafka: Cluster, scenario: Scenario) -> None:
    """Create the topics of the file, with their records. Raises UsageError."""
    _stage(kafka, scenario, ScenarioOptions(clients=OF_THE_TEST)).prepare()


def runs(kafka: Cluster) -> list[ScenarioRun]:
    """Scenario runs of a cluster that have not been ended, the oldest first."""
    return list(_runs.get(kafka, {}).values())


def find(kafka: Cluster, number: int) -> ScenarioRun:
    """Return a cluster's scenario run by its number. Raises NotThere."""
    running = _runs.get(kafka, {})
    if number not in running:
        raise not_there("scenario", number, list(map(str, running)))
    return running[number]


def _stage(kafka: Cluster, scenario: Scenario, options: ScenarioOptions) -> Stage:
    return Stage(scenario, options, kafka, processes, shared=True)


class ScenarioRun:
    """A scenario that has begun on ``kafka``; see `start`."""

    def __init__(self, kafka: Cluster, scenario: Scenario, commands: Commands) -> None:
        self.id = next(_numbers)
        self.name = scenario.name
        self.outcome: ScenarioOutcome | None = None
        self.error = ""
        """Error that ended the run; "" without one."""
        self.cancelled = False
        self.lines: deque[str] = deque(maxlen=MAX_LINES)
        """Lines of progress, the last MAX_LINES of them."""
        self._kafka, self._scenario = kafka, scenario
        self._raised = False
        self._changed = asyncio.Event()
        self._stage = _stage(kafka, scenario, ScenarioOptions(clients=commands, progress=self.lines.append))
        self._stage.stepped = self._changed.set  # type: ignore[method-assign]
        self._task = asyncio.ensure_future(self._play())
        self._task.add_done_callback(lambda task: self._changed.set())
        kafka.before_stop.append(self._cancel)

    async def _play(self) -> None:
        try:
            self.outcome = await self._stage.play()
        except UsageError as error:
            self.error = str(error)
        except Exception as error:
            log.exception("the scenario %s failed", self.name)
            self.error = f"internal error: {error!r}"

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return not self._task.done()

    @property
    def verdict(self) -> str | None:
        """None while it runs; ``held``, ``broken``, ``late`` (a condition of a step timed out), ``error`` (a step is impossible) or
        ``cancelled``."""
        if self.running:
            return None
        if self.error:
            return "error"
        return "cancelled" if self.outcome is None else VERDICTS[self.outcome.code]

    async def wait(self, step: str | None = None, timeout: object = "10s") -> None:
        """Wait until it has ended, or until ``step`` is done. Raises WaitTimeout after ``timeout`` of real time, ScenarioFailed if it
        ended otherwise than held, UsageError for a step that the file does not have."""
        timeout_ms = duration_ms(timeout, "timeout")
        names = [step.name for step in self._scenario.steps]
        if step is not None and step not in names:
            raise unknown("step", step, names)
        done = self._stage.done
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while self.running and step not in done:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            what = f"the end of the scenario {self.name}" if step is None else f"the step {step} of {self.name}"
            raise WaitTimeout(what, timeout_ms, self._stage.waiting, self._history()) from None
        if step not in done:
            self._raise(self._failure() or (f"the scenario {self.name} was cancelled" if self.cancelled else ""))

    def _history(self) -> str:
        return "\n".join([*self.lines][-20:])

    def check(self) -> None:
        """Raise ScenarioFailed if it has ended otherwise than held, or if what must never be was before it was cancelled; not again
        what `wait` has raised."""
        if not self._raised and not self.running:
            self._raise(self._failure())

    def _raise(self, failure: str) -> None:
        if failure:
            self._raised = True
            raise ScenarioFailed(failure)

    def _failure(self) -> str:
        if self.error:
            return f"the scenario {self.name} could not go on: {self.error}"
        outcome = self.outcome
        if outcome is None and self._violated():
            outcome = self._stage.outcome(BROKEN, self._violated())
        return outcome.report() if outcome is not None and outcome.code else ""

    def _violated(self) -> list[ExpectationResult]:
        """The expectations of the kind ``never`` that are broken, of a run without a verdict."""
        stage = self._stage
        return [
            ExpectationResult(False, f"never: {why}", stage.nevers[number][0].where)
            for number, why in stage.broken.items()
        ]

    async def end(self) -> None:
        """Cancel it if it runs, and clear the faults that its steps have set. Raises OSError where a broker's port is taken."""
        await self._cancel()
        _runs.get(self._kafka, {}).pop(self.id, None)
        if self._cancel in self._kafka.before_stop:
            self._kafka.before_stop.remove(self._cancel)
        await self._stage.undo.clear()

    async def _cancel(self) -> None:
        if self.running:
            self.cancelled = True
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def to_dict(self) -> dict[str, Any]:
        """For JSON: control/shapes.SCENARIO."""
        stage = self._stage
        results = self._violated() if self.outcome is None else self.outcome.results
        late = self.outcome.late if self.outcome is not None else ""
        return {
            "id": self.id,
            "name": self.name,
            "running": self.running,
            "verdict": self.verdict,
            "steps": [step.name for step in self._scenario.steps],
            "done": list(stage.done),
            "waiting": stage.waiting if self.running else None,
            "results": [{"held": result.held, "text": result.text, "where": result.where} for result in results],
            "error": self.error or late or None,
            "progress": list(self.lines),
        }


# --- what can't be here -----------------------------------------------------------------------------------------------


def _of_the_test(plan: ClientPlan, commands: Commands) -> bool:
    return kind_or_command(plan, commands) == "external"


def _foreign_clients(scenario: Scenario, commands: Commands) -> Iterable[WrongFile]:
    """The actions on clients of the test, and the conditions on their reports."""
    theirs = {plan.name for plan in scenario.clients if _of_the_test(plan, commands)}
    started = [plan.name for plan in scenario.clients if plan.name not in theirs]
    for step in scenario.steps:
        for action in step.actions:
            if action.verb == "client":
                for name in theirs.intersection(action.params["clients"]):
                    what = f"a scenario can't {action.name} it ({_STARTS})"
                    yield WrongFile(action.where, f"the client {name} is one that the test starts; {what}")
        for matcher in step.when or ():
            yield from _reports(matcher, step.where, started)
    for expectation in scenario.expect:
        for matcher in expectation.matchers:
            yield from _reports(matcher, expectation.where, started)


_STARTS = "start_clients has the scenario start it"


def _reports(matcher: Matcher, where: str, started: list[str]) -> Iterable[WrongFile]:
    if not isinstance(matcher, EventMatcher) or matcher.kind != "client":
        return
    pattern = str(matcher.fields.get("client", "*"))
    if not any(fnmatchcase(name, pattern) for name in started):
        who = f"the client {pattern}" if isinstance(matcher, ClientMatcher) else "a client"
        instead = f"expect its requests (api), or the state of its group ({_STARTS})"
        yield WrongFile(matcher.where or where, f"{who} is one that the test starts, and reports nothing; {instead}")


def _time(kafka: Cluster, scenario: Scenario) -> Iterable[WrongFile]:
    def moves(action: Action) -> bool:
        return action.verb == "advance" or action.name == "clock.advance"

    mode = kafka.time.mode
    for action in (action for step in scenario.steps for action in step.actions):
        if moves(action) and mode != "manual":
            yield WrongFile(action.where, f"advance needs a manual clock; this cluster's clock is {mode}")


def _cluster(kafka: Cluster, scenario: Scenario, any_settings: bool) -> Iterable[WrongFile]:
    """The settings and topics of the file that the cluster does not have."""
    places = scenario.places
    wanted, has = scenario.cluster["brokers"], len(kafka.brokers)
    if has < wanted:
        yield WrongFile(places.get("brokers", scenario.name), f"brokers: {wanted}, and this cluster has {has}")
    for plan in scenario.topics:
        topic = kafka.state.topics.get(plan.name)
        if topic is not None and len(topic.partitions) < plan.partitions:
            has = len(topic.partitions)
            yield WrongFile(plan.where, f"partitions: {plan.partitions}, and the topic {plan.name} has {has}")
    if any_settings:
        return
    for name, place in places.items():
        if name != "brokers" and (differs := _difference(kafka, scenario, name)):
            allows = "any_settings allows that"
            yield WrongFile(place, f"{name}: {differs} ({allows})")


def _difference(kafka: Cluster, scenario: Scenario, name: str) -> str:
    """Describe the values of a setting in the file and in the cluster where these differ; "" where they are equal."""
    if name in ("as_version", "security_protocol"):
        wanted, has = (
            scenario.cluster[name],
            kafka.config.as_version if name == "as_version" else kafka.security.protocol,
        )
        return "" if wanted == has else f"{wanted}, and this cluster has {has}"
    wanted = scenario.cluster["config"].get(name)
    try:
        same = kafka.config.setting(name).parse(wanted) == kafka.config[name]
        return "" if same else f"{wanted}, and this cluster has {to_text(kafka.config[name])}"
    except ConfigError as error:
        return str(error)
