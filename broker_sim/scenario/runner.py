"""Runs a scenario: a fresh cluster, its clients, the steps in their order, and the verdict.

    outcome = await run(read(path), ScenarioOptions())
    outcome.code            # 0 held, 1 broken, 3 a step's matcher did not come in time
    print(outcome.report())

Rules:
1. Everything is listened to, nothing is polled: matchers are fed from the journal, to which the clients' words come too.
2. ``never`` is evaluated after every event; the first event that violates it is reported.
3. Whatever happens, clients are ended and the cluster is stopped.
4. A verdict that holds because nothing was tried is broken: see tried.py. So is one whose attached program failed, at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from broker_sim.api.handles.partitions import fill_partition, values
from broker_sim.common.text import UsageError, duration_ms, duration_text, unknown
from broker_sim.control.operations import find, perform
from broker_sim.journal import groups_in
from broker_sim.metadata.topics import KafkaError
from broker_sim.scenario.attached import ADDRESS, Attached
from broker_sim.scenario.clients import Access, Clients, OnReport, check_given, kind_or_command, processes
from broker_sim.scenario.expectations import Matcher
from broker_sim.scenario.model import ANY_ANSWER, Action, ClientPlan, Expectation, Scenario, ScenarioStep
from broker_sim.scenario.outcome import BROKEN, HELD, LATE, ExpectationResult, ScenarioOptions, ScenarioOutcome
from broker_sim.scenario.progress import Progress
from broker_sim.scenario.sending import commit_as, delete_as
from broker_sim.scenario.undo import Undo
from broker_sim.scenario.vacuity import Lasting, absent, came_from_outside, never_held, never_hit, never_met
from broker_sim.storage.errors import StorageError

if TYPE_CHECKING:
    from broker_sim.api.cluster import Cluster
    from broker_sim.faults.order import Hold
    from broker_sim.faults.registry import Fault
    from broker_sim.scenario.clients import ScenarioClient

__all__ = [
    "BROKEN",
    "HELD",
    "LATE",
    "SCRATCH",
    "ExpectationResult",
    "ScenarioOptions",
    "ScenarioOutcome",
    "Stage",
    "cluster_arguments",
    "play",
    "run",
]

FEED_S = 0.05
"""Interval at which the records that are due are written."""

SCRATCH = "broker-sim-"
"""Prefix of the names of temporary directories, which are removed when the scenario ends."""

Event = dict[str, Any]

MakeClients = Callable[[list[ClientPlan], Access, OnReport, Mapping[str, str]], Clients]
"""As ``clients.processes``: (plans, access, report, commands) -> the clients."""


class _StepTimeout(Exception):
    """A step's matcher did not come in time."""


class _Broken(Exception):
    """An answer was another one than the file says."""


class _ProgramFailed(Exception):
    """The user's program has failed: nothing more is to be expected of it."""


class Stage:
    """A running scenario: its cluster, clients, faults and expectations. ``virtual``: brokers and clients live in one time. ``shared``:
    other programs use the cluster, too, whose topics may exist, whose members may have joined, and whose clock is theirs."""

    def __init__(
        self,
        scenario: Scenario,
        options: ScenarioOptions,
        kafka: Cluster,
        make_clients: MakeClients,
        *,
        virtual: bool = False,
        shared: bool = False,
    ) -> None:
        self.scenario, self.options, self.kafka = scenario, options, kafka
        self.journal = kafka.observe()
        self.faults: dict[str, Any] = {}
        self.rules: list[tuple[Fault, str, str]] = []
        self.holds: list[tuple[Hold, str]] = []
        self.states: list[Lasting] = []
        """Every rule, its name and its place in the file."""
        self.events: list[Event] = []
        self.earlier: list[Event] = list(self.journal.events) if shared else []
        """Events before the scenario began: clients of other programs may have joined."""
        self.requests = {event["request"]: event for event in self.earlier if event["event"] == "request"}
        self.matchers: list[Matcher] = []
        self.changed = asyncio.Event()
        self.nevers: list[tuple[Expectation, list[Matcher]]] = []
        self.broken: dict[int, str] = {}
        self.began: dict[str, bool] = {}
        self.progress = Progress(options.progress)
        self.ended: dict[str, str] = {}
        self.access = Access.to(kafka)
        self.clients = make_clients(scenario.clients, self.access, self.on_report, options.clients)
        self.virtual, self.shared = virtual, shared
        self.done: list[str] = []
        """The names of the steps that are done."""
        self.waiting = ""
        """Text of the current wait; "" without one."""
        self.undo = Undo(kafka)
        self.program = Attached(options.attach)
        self.tasks: list[asyncio.Task[None]] = []
        self.started_s = _now_s()

    # listening

    def on_report(self, name: str, reports: str, /, **details: Any) -> None:
        """Write a client's report to the journal, as an event ``client``."""
        words = str(details.pop("text", ""))
        if reports == "exited" and words:
            self.ended[name] = f"ended with code {details.get('code')}; {words}"
        self.journal.write("client", client=name, reports=reports, text=words, details=details)

    def on_event(self, event: Event) -> None:
        """An event of the journal."""
        self.events.append(event)
        kind = event["event"]
        if kind == "request":
            self.requests[event["request"]] = event
        for matcher in self.matchers:
            matcher.seen(event, self)
        self._look_at_nevers(event)
        self.progress.report(event)
        self.changed.set()

    def program_ended(self) -> None:
        """The user's program has ended by itself."""
        if not self.program.code:  # else the verdict says it
            self.ended[_PROGRAM] = self.program.words
        self.progress.line(self.events[-1], f"{_PROGRAM} {self.program.words}")
        self.changed.set()

    def need_program(self, what: str) -> None:
        """Raise _ProgramFailed where it has."""
        if self.program.code:
            raise _ProgramFailed(f"{_PROGRAM} {self.program.words}; {what}")

    def hint(self) -> str:
        """Return a hint for a timeout where nothing came from the user's program, else ""."""
        if not self.options.attach or came_from_outside(self.scenario, self.events):
            return ""
        return f"; nothing came from {_PROGRAM}: {ADDRESS}"

    def request_of(self, event: Event) -> Event | None:
        """For matchers: the request that a response answers."""
        return self.requests.get(event.get("request", -1))

    def _look_at_nevers(self, event: Event) -> None:
        for number, (never, matchers) in enumerate(self.nevers):
            if number in self.broken or not self._is_on(never):
                continue
            for matcher in matchers:
                matcher.seen(event, self)
                if matcher.holds(self):
                    self.broken[number] = (
                        f"{matcher.now(self)} at {self.progress.at(event)} ({event['event']} {event['seq']})"
                    )

    def _is_on(self, never: Expectation) -> bool:
        return (never.begin is None or never.begin in self.began) and (never.end is None or never.end not in self.began)

    async def until(self, matchers: list[Matcher], within_s: float, what: str) -> None:
        """Wait until all matchers hold. Raises _Late, _ProgramFailed."""
        deadline_s = _now_s() + within_s
        self.waiting = f"{what} waits for {'; '.join(matcher.what for matcher in matchers)}"
        while not all(matcher.holds(self) for matcher in matchers):
            self.changed.clear()
            self.need_program(f"{what} waited for {'; '.join(matcher.what for matcher in matchers)}")
            try:
                async with asyncio.timeout_at(deadline_s):
                    await self.changed.wait()
            except TimeoutError:
                missing = [f"{matcher.what} ({matcher.now(self)})" for matcher in matchers if not matcher.holds(self)]
                waited = f"{what} waited {duration_text(within_s * 1000)} for {'; '.join(missing)}"
                raise _StepTimeout(waited + self.hint()) from None

    # doing

    async def steps(self, results: list[ExpectationResult]) -> None:
        """All steps. Raises _Late, _ProgramFailed; what a step finds broken is a result, and ends them."""
        try:
            for step in self.scenario.steps:
                await self.step(step)
                self.done.append(step.name)
                self.stepped()
        except _Broken as error:
            results.append(ExpectationResult(False, str(error), self.scenario.name))
        self.finished_s = _now_s()

    async def step(self, step: ScenarioStep) -> None:
        """Run one step: wait for its matcher and its pause, then perform its actions."""
        if step.when is not None:
            await self.until(step.when, step.within_s, f"{step.where}: {step.name}")
        if step.after_s:
            self.waiting = f"{step.where}: {step.name} waits {duration_text(step.after_s * 1000)} of the brokers' clock"
            await self.pass_time(step.after_s)
        self.waiting = f"{step.where}: {step.name}"
        self.began[step.name] = True
        place = self.scenario.steps.index(step) + 1
        for matcher in self.scenario.steps[place].when or () if place < len(self.scenario.steps) else ():
            matcher.begin()
        self.journal.write("mark", text=step.name)
        for action in step.actions:
            try:
                await self.act(action)
            except KafkaError as error:
                raise UsageError(f"{action.where}: {action.text}: {error.message or error.error.name}") from None
            except UsageError as error:
                raise UsageError(f"{action.where}: {error}") from None
            except AssertionError as error:  # an operation that waits
                raise _StepTimeout(f"{action.where}: {error}") from None

    def _with_ahead(self, action: Action) -> dict[str, Any]:
        """Return an action's parameters: a group of the file may be created later; that it is defined was checked before."""
        return {**action.params, "ahead": True} if "ahead" in find(action.name).parameters else action.params

    async def pass_time(self, seconds: float) -> None:
        """Time of the broker's clock; that of a shared cluster is advanced by its users."""
        clock = self.kafka.time
        if clock.mode == "manual" and not self.shared:
            await clock.advance(seconds)
            return
        done = asyncio.get_running_loop().create_future()
        state = self.kafka.state
        timer = state.clock.call_at_ms(state.clock.now_ms() + round(seconds * 1000), done.set_result, None)
        try:
            await done
        finally:
            timer.cancel()

    async def act(self, action: Action) -> None:
        """One action. Raises UsageError, _Broken."""
        params = action.params
        if action.name == "clock.advance" and self.virtual:
            await self.advance(duration_ms(params["by"], "by") / 1000, list(params.get("expire") or ()))
        elif action.verb == "op":
            answer = await perform(self.kafka, action.name, self._with_ahead(action))
            self.undo.note(action.name, params, answer)
            if action.name == "fault.add":
                self.rules.append((self.kafka.faults.get(answer["id"]), "", action.where))
            elif action.name == "order.hold" and action.must_hit:
                self.holds.append((self.kafka.order.holds[-1], action.where))
            elif action.name == "state.set" and action.must_hit and params["state"] != "online":
                self.states.append(Lasting(answer["log"], params["state"], self.journal.seq, action.where))
        elif action.verb == "fault":
            self.faults[action.name] = fault = self.kafka.fault(**params)
            self.undo.rules.append(fault)
            self.rules.append((fault, action.name, action.where))
        elif action.verb == "remove_fault":
            if action.name not in self.faults:
                raise UsageError(f"no fault has the name {action.name!r}")
            self.faults[action.name].remove()
        elif action.verb == "client":
            await self.clients.do(action.name, params["clients"], params["for_s"], self._thaw_later)
        elif action.verb == "advance":
            await self.advance(params["seconds"], params["expire"])
        elif action.verb == "send":
            given = {key: value for key, value in params.items() if key != "answer"}
            commit = action.name == "OffsetCommit"
            answer = await (commit_as(self.kafka, **given) if commit else delete_as(self.kafka, action.name, **given))
            if params["answer"] not in (answer.name, ANY_ANSWER):
                raise _Broken(f"{action.where}: {action.text}: the answer was {answer.name}, not {params['answer']}")
        else:
            raise NotImplementedError(action.verb)

    async def advance(self, seconds: float, expire: list[str]) -> None:
        """Move a manual clock. In virtual time everybody lives through it, and who is to expire is silent. Raises UsageError."""
        if not self.virtual:
            await self.kafka.time.advance(seconds, expire=expire)
            return
        named = {client.plan.settings.get("instance_id"): client for client in self.clients.all.values()}
        named.update(self.clients.all)
        for name in expire:
            if name not in named:
                raise UsageError(
                    f"expire: {unknown('client', name, self.clients.all)}; in virtual time clients can be silent"
                )
        silent = [named[name].plan.name for name in expire]
        await self.clients.do("freeze", silent, None, self._thaw_later)
        await self.pass_time(seconds)
        await self.clients.do("thaw", silent, None, self._thaw_later)

    def _thaw_later(self, seconds: float, client: ScenarioClient) -> None:
        async def thaw() -> None:
            await self.pass_time(seconds)
            if client.running:
                client.thaw()

        self.tasks.append(asyncio.ensure_future(thaw()))

    async def feed(self, topic: str, rate: float) -> None:
        """Records that come while the scenario runs, to the partitions in turn."""
        state = self.kafka.state
        clock, make = state.clock, values(topic, None, None)
        begun_ms, sent = clock.now_ms(), 0
        while True:
            await asyncio.sleep(FEED_S)
            now_ms = clock.now_ms()
            due = int((now_ms - begun_ms) / 1000 * rate)
            for number in range(sent, due):
                partitions = state.topics[topic].partitions
                partition = partitions[number % len(partitions)]
                with contextlib.suppress(KafkaError, StorageError):  # as a producer's records are lost
                    if partition.leader >= 0:
                        fill_partition(partition, 1, now_ms, first=number, value=make)
            sent = due

    # the verdict

    async def verdict(self) -> list[ExpectationResult]:
        """Every expectation, in the order of the file; then what was not tried. Raises _ProgramFailed."""
        self.need_program("the steps are done")
        results: list[ExpectationResult] = []
        numbers = {id(never): number for number, (never, _) in enumerate(self.nevers)}
        waiting = [expectation for expectation in self.scenario.expect if expectation.kind != "never"]
        late: dict[int, str] = {}
        for expected in sorted(waiting, key=lambda expectation: expectation.within_s):
            spent_s = _now_s() - self.finished_s
            try:
                await self.until(expected.matchers, max(0.0, expected.within_s - spent_s), expected.kind)
            except _StepTimeout as error:
                late[id(expected)] = str(error)
        for expected in self.scenario.expect:
            words = "; ".join(matcher.what for matcher in expected.matchers)
            if expected.kind == "never":
                why = self.broken.get(numbers[id(expected)], "")
                scope = f" from {expected.begin!r} on" if expected.begin and not expected.end else ""
                scope = f" between {expected.begin!r} and {expected.end!r}" if expected.end else scope
                results.append(
                    ExpectationResult(not why, f"never{scope}: {words}" + (f" - {why}" if why else ""), expected.where)
                )
            else:
                within = (
                    f"within {duration_text(expected.within_s * 1000)}: " if expected.kind == "within" else "happened: "
                )
                why = late.get(id(expected), "")
                now = (
                    "; ".join(matcher.now(self) for matcher in expected.matchers if not matcher.holds(self))
                    if why
                    else ""
                )
                results.append(
                    ExpectationResult(
                        not why, within + words + (f" - {now}{self.hint()}" if now else ""), expected.where
                    )
                )
        untried = [
            *never_hit(self.rules),
            *never_held(self.holds),
            *never_met(
                self.states,
                self.events,
                lambda group: self.kafka.group(group).offsets_log.name,
                lambda owner: self.kafka.transaction(owner).state_log.name,
            ),
            *absent(self.scenario, [*self.earlier, *self.events], self.options.clients, shared=self.shared),
        ]
        return results + [ExpectationResult(False, what, where) for what, where in untried]

    # the whole

    def stepped(self) -> None:
        """Called when a step is done."""

    async def play(self) -> ScenarioOutcome:
        """The steps in their order, and the verdict; its clients are ended. Raises UsageError."""
        for expectation in self.scenario.expect:
            if expectation.kind == "never":
                self.nevers.append((expectation, expectation.matchers))
            else:
                self.matchers += expectation.matchers
        for step in self.scenario.steps:
            self.matchers += step.when or []
        unsubscribe = self.journal.subscribe(self.on_event)
        self.journal.write("mark", text=f"scenario {self.scenario.name}")
        results: list[ExpectationResult] = []
        code, late = HELD, ""
        try:
            self.prepare()
            if self.options.attach:
                await self.program.start(self.access, self.program_ended)
            await self.clients.start()
            try:
                await self.steps(results)
                results += await self.verdict()
            except _StepTimeout as error:
                code, late = LATE, str(error)
            except _ProgramFailed as error:
                results.append(ExpectationResult(False, str(error), self.scenario.name))
            if not late:
                code = BROKEN if any(not result.held for result in results) else HELD
        finally:
            unsubscribe()
            for task in self.tasks:
                task.cancel()
            await asyncio.gather(*self.tasks, return_exceptions=True)
            await self.clients.stop_all(leave=self.shared)
            await self.program.stop()
        known = _known(self.scenario, self.options) if code else []
        return self.outcome(code, results, late, known)

    def outcome(
        self, code: int, results: list[ExpectationResult], late: str = "", known: Sequence[str] = ()
    ) -> ScenarioOutcome:
        """The result, with what happened up to now."""
        return ScenarioOutcome(
            self.scenario.name,
            code,
            results,
            late,
            _now_s() - self.started_s,
            self.events,
            groups_in(self.events),
            self.progress.group_states,
            self.ended,
            list(known),
        )

    def prepare(self) -> None:
        """Create the topics with their records, and load what is imported. Raises UsageError."""
        kafka = self.kafka
        for plan in self.scenario.topics:
            if plan.name not in kafka.state.topics:
                try:
                    kafka.create_topic(
                        plan.name, plan.partitions, replication_factor=plan.replication, configs=plan.configs
                    )
                except KafkaError as error:
                    raise UsageError(f"{plan.where}: topic {plan.name}: {error.message or error.error.name}") from None
            missing = plan.records - (_stored(kafka, plan.name) if self.shared else 0)
            if missing > 0:
                kafka.topic(plan.name).fill(missing)
            if plan.rate:
                self.tasks.append(asyncio.ensure_future(self.feed(plan.name, plan.rate)))
        if "describe" in self.scenario.imported:
            from broker_sim.migration.group_import import apply, read_describe

            path = Path(self.scenario.imported["describe"])
            try:
                apply(kafka.state, kafka.runtime, read_describe(path.read_text(encoding="utf-8")))
            except (OSError, ValueError) as error:
                raise UsageError(f"{path}: {error}") from None

    finished_s = 0.0


_PROGRAM = "the program of --attach"


def _now_s() -> float:
    return asyncio.get_running_loop().time()


async def run(scenario: Scenario, options: ScenarioOptions | None = None) -> ScenarioOutcome:
    """Run it once. Raises UsageError where the file asks for what can't be, ClusterError where the cluster can't start."""
    from broker_sim.api.cluster import Cluster

    options = options or ScenarioOptions()
    with tempfile.TemporaryDirectory(prefix=SCRATCH) as scratch:
        arguments = await asyncio.to_thread(cluster_arguments, scenario, options, scratch)
        async with Cluster(**arguments) as kafka:
            return await play(kafka, scenario, options, processes)


def cluster_arguments(scenario: Scenario, options: ScenarioOptions, scratch: str) -> dict[str, Any]:
    """`Cluster`'s. ``scratch``: a directory for what the scenario begins with. Raises UsageError."""
    arguments = dict(scenario.cluster)
    for name in ("clock", "as_version", "seed"):
        if getattr(options, name) is not None:
            arguments[name] = getattr(options, name)
    if options.journal is not None:
        arguments["journal"] = options.journal
    if options.data is not None:
        if options.data.exists() and any(options.data.iterdir()):
            raise UsageError(f"{options.data}: the directory is not empty; a scenario needs an empty one")
        arguments["data_dir"] = options.data
    if "data" in scenario.imported:  # a copy of it, so that the next run finds what this one found
        arguments["data_dir"] = _copied(scenario.imported["data"], scratch, options.data)
    return arguments


def _copied(data: str, scratch: str, target: Path | None = None) -> Path:
    """A copy of a log directory. Raises UsageError."""
    try:
        target = target or Path(scratch) / "data"
        return shutil.copytree(data, target, ignore=shutil.ignore_patterns(".lock"), dirs_exist_ok=True)
    except (OSError, shutil.Error) as error:
        raise UsageError(f"{data}: {error}") from None


async def play(
    kafka: Cluster, scenario: Scenario, options: ScenarioOptions, make_clients: MakeClients, *, virtual: bool = False
) -> ScenarioOutcome:
    """Play it on a cluster that has been started, with the clients that ``make_clients`` makes. ``virtual``: its brokers and clients
    live in one time. Raises UsageError."""
    check_given(scenario.clients, options.clients)
    return await Stage(scenario, options, kafka, make_clients, virtual=virtual).play()


def _known(scenario: Scenario, options: ScenarioOptions) -> list[str]:
    """Return the file's known reasons why the verdict is broken with the kinds of clients that take part."""
    kinds = dict.fromkeys(kind_or_command(plan, options.clients) for plan in scenario.clients)
    others = next(kind for kind in ("kafka-python", "confluent", "aiokafka") if kind not in scenario.known)
    remedy = f"the verdict is known to be broken with it, and with --client {others} it holds"
    return [f"{scenario.known[kind]}: {remedy}" for kind in kinds if kind in scenario.known]


def _stored(kafka: Cluster, topic: str) -> int:
    """Number of records in a topic."""
    return sum(one.high_watermark - one.log_start_offset for one in kafka.state.topics[topic].partitions)
