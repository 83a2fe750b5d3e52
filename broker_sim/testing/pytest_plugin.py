"""pytest fixtures: a fresh simulated cluster for each test, in a few milliseconds.

    async def test_my_consumer(kafka):                       # for asyncio code (pytest-asyncio or anyio runs it)
        consumer = AIOKafkaConsumer("orders", bootstrap_servers=kafka.bootstrap)

    def test_my_sync_consumer(kafka_bootstrap):              # for everything else; the cluster has a thread of its own
        consumer = KafkaConsumer("orders", bootstrap_servers=kafka_bootstrap)

    @pytest.mark.kafka(brokers=3, topics={"orders": 6}, as_version="3.9", config={"num.partitions": 4})
    def test_with_options(kafka_server): ...

* ``kafka``: a started `broker_sim.Cluster` on the event loop of the test, whatever mode and loop scope pytest-asyncio has.
  A synchronous test that asks for it gets ``kafka_server``, and so does a method of a unittest.TestCase, which runs its own loop.
* ``kafka_server``: a started `broker_sim.ClusterThread`; ``kafka_bootstrap``: its address.
* ``kafka_session`` and ``kafka_module``: a `ClusterThread` that all tests share, or those of a module. ``kafka_factory`` starts
  clusters for fixtures of your own. Their tests have the same checks and reports, of what is theirs alone; what a test sets there
  ends with it (``shared_clusters``).
* The marker takes `Cluster`'s arguments: ``clock="manual"``, ``seed=7``, ``as_version="3.9"``, ... Three defaults differ.
  group.initial.rebalance.delay.ms is 0 and not 3000, so that groups form at once; ``config={"group.initial.rebalance.delay.ms":
  3000}`` has it back. The internal topics are there from the start; with ``internal_topics="on-demand"`` the first client that needs
  one gets COORDINATOR_NOT_AVAILABLE, as from Kafka. And the cluster keeps a journal from its start; ``journal=False`` is without.
* Defaults of all clusters are in the ini file: ``kafka_as_version``, ``kafka_brokers``, ``kafka_topics``, ``kafka_config``; for one run
  ``pytest -o kafka_as_version=4.4``.
* When a test fails, its report has a section "Kafka groups": what happened to each group lately, and who still waits for an answer.
  ``--kafka-timeline DIR`` draws each of these groups into a file of its own and names it there.
* Scenario files are tests, too: those that are named on the command line (``pytest incidents/2024-11-03.yaml``) or match the ini option
  ``kafka_scenarios`` (``kafka_scenarios = incidents/*.yaml``). ``@pytest.mark.scenario("stuck-offsets-partition-3.4")`` plays one, by
  its path or by the name of one that comes with broker-sim, before a test of yours, which fails if its verdict is broken; the fixture
  ``scenario`` is what came of it. The marker takes ``clients``, ``as_version``, ``clock``, ``seed`` and ``virtual=True``, as
  ``broker-sim run`` does; with the ini option ``kafka_scenarios_virtual = true`` all scenario files that are tests run in virtual time.
* ``sim`` is a simulated world (docs/simulation.md): ``@pytest.mark.sim(seeds=range(200), faults=Swarm(during="30s"))`` runs a test
  with each of these seeds; ``--sim-seed 17`` with that one. See ``pytest_simulation``.
* A forgotten ``await`` of anything of the cluster fails a test that passed, and names the line (``forgotten_awaits``); so does a wait
  that is left in a task, of the fixture ``kafka``.
* A rule (``kafka.fault``) that is in force at the end of a test that passed, and has not hit, fails it, unless it says
  ``must_hit=False``.

Loading this costs nothing: the simulator is imported by the first test that asks for it.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import re
import sys
import types
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import pytest

from broker_sim.testing.shared_clusters import (
    INI,
    MARKER,
    KafkaFactory,
    SharedClusters,
    ShownCluster,
    in_one_line,
    on,
    options_for,
)

if TYPE_CHECKING:
    import asyncio

    from _pytest._code.code import ExceptionInfo, TerminalRepr

    from broker_sim.api.cluster import Cluster
    from broker_sim.api.cluster_thread import ClusterThread
    from broker_sim.scenario.runner import ScenarioOutcome
    from broker_sim.simulation import Simulation
    from broker_sim.testing.forgotten_awaits import Unawaited

SCENARIO = "scenario"

SECTION = "Kafka groups"
"""The heading in the report of a test that failed."""

_CLUSTERS: pytest.StashKey[list[ShownCluster]] = pytest.StashKey()
"""The clusters that are a test's own."""

_SHARED: pytest.StashKey[SharedClusters] = pytest.StashKey()

AWAITS = "Forgotten awaits"
"""The heading of what a test that failed did not await, which may be why."""

BLOCKED = "Blocked event loop"
"""The heading of what blocked the loop that the broker ran on."""

_BLOCKED: pytest.StashKey[str] = pytest.StashKey()

_STDERR: pytest.StashKey[IO[str]] = pytest.StashKey()
"""Stream that people read while a test runs."""

_UNAWAITED: pytest.StashKey[Unawaited] = pytest.StashKey()
_LOOP: pytest.StashKey[asyncio.AbstractEventLoop] = pytest.StashKey()
"""Event loop on which the cluster of the fixture ``kafka`` runs."""

_OUTCOME: pytest.StashKey[ScenarioOutcome] = pytest.StashKey()
"""Outcome of a test's scenario."""

_ON_ASYNCIO, _ON_ANYIO = "_kafka_on_asyncio", "_kafka_on_anyio"
"""The fixtures behind ``kafka`` in an async test, by the plugin that runs it; of pytest-asyncio one for each scope of a loop."""

_ASYNC_FIXTURES = "broker_sim_async_fixtures"
"""The plugin that has these fixtures."""

_LOOP_SCOPES = ("function", "class", "module", "package", "session")


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    if "BROKER_SIM_PYTEST_AGAIN" in os.environ:
        from broker_sim.testing.pytest_simulation import SecondPlugin, is_second

        if is_second():
            pluginmanager.register(SecondPlugin(), "broker_sim_second")
    parser.getgroup("kafka", "broker-sim").addoption(
        "--kafka-timeline",
        metavar="DIR",
        help="draw the groups of each failed test that used a simulated cluster into DIR, a file for each",
    )
    parser.getgroup("kafka").addoption(
        "--sim-seed",
        metavar="N|A..B",
        help="run the tests that have the fixture sim with this seed, or these, and no others",
    )
    parser.getgroup("kafka").addoption(
        "--sim-seeds", metavar="N", type=int, help="run them with N of their seeds at most: for a quick look"
    )
    for name, kind, text in INI.values():
        parser.addini(name, text, type=kind)  # type: ignore[arg-type]
    parser.addini("kafka_scenarios", "scenario files that are tests: patterns of paths below the root", type="args")
    parser.addini(
        "kafka_scenarios_virtual", "scenario files that are tests run in virtual time", type="bool", default=False
    )


def pytest_unconfigure(config: pytest.Config) -> None:
    stream = config.stash.get(_STDERR, None)
    if stream is not None:
        stream.close()


def pytest_configure(config: pytest.Config) -> None:
    with contextlib.suppress(OSError, AttributeError, ValueError):  # a process without one
        config.stash[_STDERR] = os.fdopen(os.dup(sys.stderr.fileno()), "w", encoding="utf-8", errors="replace")
    config.stash[_SHARED] = SharedClusters()
    config.addinivalue_line(
        "markers",
        f"{MARKER}(brokers=1, topics=None, as_version='4.1', config=None, ...): the arguments of broker_sim.Cluster"
        " for the fixtures kafka, kafka_server, kafka_bootstrap, kafka_module and those that kafka_factory starts",
    )
    config.addinivalue_line(
        "markers",
        f"{SCENARIO}(file, clients=None, as_version=None, clock=None, seed=None, virtual=False): play a scenario before"
        " the test",
    )
    config.addinivalue_line(
        "markers",
        "sim(seeds=range(20), faults=None, order='fifo', waive=(), invariants=True, link=None, repeat=0.05, budget=100, "
        "budget_s=30): run the test in a simulated world for each seed (fixture sim)",
    )
    fixtures: Any = types.ModuleType(_ASYNC_FIXTURES)
    if config.pluginmanager.has_plugin("asyncio"):
        import pytest_asyncio

        fixture: Any = pytest_asyncio.fixture
        takes_scope = "loop_scope" in inspect.signature(fixture).parameters  # since 0.24
        for scope in _LOOP_SCOPES if takes_scope else ():
            setattr(fixtures, f"{_ON_ASYNCIO}_{scope}", fixture(loop_scope=scope)(_running_cluster()))
    if config.pluginmanager.has_plugin("anyio"):
        setattr(fixtures, _ON_ANYIO, pytest.fixture(_running_cluster()))
    config.pluginmanager.register(fixtures, _ASYNC_FIXTURES)


def _running_cluster() -> Callable[[pytest.FixtureRequest], AsyncIterator[Cluster]]:
    """A fixture function; a new one for each plugin, as they leave their marks on it."""

    async def running_cluster(request: pytest.FixtureRequest) -> AsyncIterator[Cluster]:
        import asyncio

        from broker_sim.api.cluster import Cluster

        with in_one_line():
            kafka = await Cluster(**options_for(request.node)).start()
        kafka.watch_loop(lambda text: _blocked(request.node, text))
        try:
            request.node.stash.setdefault(_CLUSTERS, []).append(ShownCluster(kafka))
            request.node.stash[_LOOP] = asyncio.get_running_loop()
            yield kafka
        finally:
            await kafka.stop()

    return running_cluster


@pytest.fixture
def kafka(request: pytest.FixtureRequest) -> Cluster | ClusterThread:
    """A new cluster for this test: in an async test a started `Cluster` on its event loop, in a synchronous test the `ClusterThread`
    of ``kafka_server``."""
    node: pytest.Item = request.node
    test = getattr(node, "obj", None)
    test = getattr(getattr(test, "hypothesis", None), "inner_test", test)
    if not inspect.iscoroutinefunction(test) or _is_of_unittest(node):
        name = "kafka_server"
    elif "anyio_backend" in request.fixturenames and not node.get_closest_marker("asyncio"):
        name = _ON_ANYIO
        backend = request.getfixturevalue("anyio_backend_name")
        if backend != "asyncio":
            pytest.fail(
                f"the fixture kafka runs on asyncio, and this test on anyio's backend {backend!r}: define the fixture anyio_backend "
                "to return 'asyncio', or use kafka_server, which has a thread of its own",
                pytrace=False,
            )
    else:
        name = f"{_ON_ASYNCIO}_{_loop_scope(node)}"
        if not hasattr(request.config.pluginmanager.get_plugin(_ASYNC_FIXTURES), name):
            needs = "pytest-asyncio or anyio in an async test (pytest-asyncio 0.24 or newer)"
            raise pytest.UsageError(f"the fixture kafka needs {needs}")
    _watch_awaits(node)
    return request.getfixturevalue(name)  # type: ignore[no-any-return]


def _is_of_unittest(item: pytest.Item) -> bool:
    """Whether a test is a method of a unittest.TestCase, which brings its own event loop."""
    unittest, of = sys.modules.get("unittest"), getattr(item, "cls", None)
    return unittest is not None and of is not None and issubclass(of, unittest.TestCase)


def _loop_scope(item: pytest.Item) -> str:
    """The scope of the event loop on which pytest-asyncio runs a test. A cluster on another loop would stand still meanwhile."""
    marker = item.get_closest_marker("asyncio")
    given = {} if marker is None else marker.kwargs
    default = "function"
    with contextlib.suppress(ValueError):  # it has no such option before 0.26
        default = item.config.getini("asyncio_default_test_loop_scope")
    return str(given.get("loop_scope") or given.get("scope") or default)


def _blocked(item: pytest.Item, text: str) -> None:
    """A test blocks the loop that its broker runs on. It may hang for long, and what it prints is captured: so this goes past that."""
    item.stash[_BLOCKED] = text
    stream = item.config.stash.get(_STDERR, None)
    if stream is not None:
        stream.write(f"\nbroker-sim: {item.nodeid}: {text}\n")
        stream.flush()


@pytest.fixture
def kafka_server(request: pytest.FixtureRequest) -> Iterator[ClusterThread]:
    """A new cluster for this test on its own thread, for blocking code."""
    from broker_sim.api.cluster_thread import ClusterThread

    with in_one_line():
        kafka = ClusterThread(**options_for(request.node)).start()
    try:
        request.node.stash.setdefault(_CLUSTERS, []).append(ShownCluster(kafka))
        yield kafka
    finally:
        kafka.stop()


@pytest.fixture
def kafka_bootstrap(kafka_server: ClusterThread) -> str:
    """The address of ``kafka_server``: ``"127.0.0.1:40001"``, with commas between several brokers."""
    return kafka_server.bootstrap


@pytest.fixture(scope="session")
def kafka_factory(request: pytest.FixtureRequest) -> KafkaFactory:
    """Starts clusters for fixtures of your own, of any scope: ``kafka_factory(topics={"orders": 6})`` is a started `ClusterThread`,
    with the arguments of `Cluster`. It is stopped with the fixture that calls this. ``kafka_factory.cluster(...)`` is a `Cluster`, for
    ``async with`` in an asyncio fixture. Tests that use the fixture have the checks and the report of those with ``kafka``."""
    return request.config.stash[_SHARED].factory


@pytest.fixture(scope="session")
def kafka_session(kafka_factory: KafkaFactory) -> ClusterThread:
    """A cluster for all tests that ask for it, on its own thread. Its topics, groups and records stay; rules, holds and states that a
    test sets end with the test. Its arguments are those of the ini file."""
    return kafka_factory()


@pytest.fixture(scope="module")
def kafka_module(kafka_factory: KafkaFactory) -> ClusterThread:
    """As ``kafka_session``, for the tests of a module. Its arguments are those of the ini file and of the module's
    ``pytestmark = pytest.mark.kafka(...)``."""
    return kafka_factory()


# --- what a test leaves behind ---------------------------------------------------------------------------------------


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    """The cluster that a fixture starts is the fixture's."""
    with request.config.stash[_SHARED].setting_up(request):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    shared = item.config.stash[_SHARED]
    shared.begin(item)
    result = yield
    if _CLUSTERS not in item.stash and (text := shared.late_marks(item)):
        pytest.fail(text, pytrace=False)
    return result


def _clusters(item: pytest.Item) -> list[ShownCluster]:
    """The clusters that a test uses."""
    return [*item.stash.get(_CLUSTERS, ()), *item.config.stash[_SHARED].of(item)]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """A test that passed fails if a rule of it that had to hit did not, if the verdict of its scenario is broken, or if it forgot an
    await."""
    if "broker_sim.api.cluster" in sys.modules:
        _watch_awaits(item)
    result = yield
    if getattr(
        item, "_excinfo", None
    ):  # a method of a unittest.TestCase that failed, or was skipped, which pytest reports later
        return result
    unawaited = item.stash.get(_UNAWAITED, None)
    if unawaited is not None and unawaited.lines:
        text = unawaited.text()
        unawaited.lines.clear()
        pytest.fail(text, pytrace=False)
    if _LOOP in item.stash:
        from broker_sim.testing.forgotten_awaits import left_in_tasks

        left = left_in_tasks(item.stash[_LOOP])
        if left:
            pytest.fail("\n".join(["a wait is left at the end of the test:", *left]), pytrace=False)
    for cluster in _clusters(item):
        never_hit = cluster.never_hit()
        if never_hit is not None:
            pytest.fail(f"NeverHit: {never_hit}", pytrace=False)
    outcome = item.stash.get(_OUTCOME, None)
    if outcome is not None and outcome.code:
        pytest.fail(outcome.report(), pytrace=False)
    return result


def _watch_awaits(item: pytest.Item) -> None:
    """From now on to the test's end."""
    from broker_sim.testing.forgotten_awaits import Unawaited

    if _UNAWAITED not in item.stash:
        item.stash[_UNAWAITED] = Unawaited()


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    if _UNAWAITED in item.stash:
        item.stash[_UNAWAITED].stop()
        del item.stash[_UNAWAITED]
    try:
        return (yield)
    finally:
        item.config.stash[_SHARED].end(item)


@pytest.hookimpl(specname="pytest_runtest_makereport")
def pytest_makereport_without_library_frames(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Called between pytest's own hooks: unittest's has put the error of a TestCase in ``call``, and the report is not made yet."""
    if (
        call.excinfo is not None
        and "broker_sim.journal" in sys.modules
        and not item.config.getoption("fulltrace", False)
    ):
        from broker_sim.testing.library_frames import cut_library_frames

        if cut_library_frames(call.excinfo.value):
            call.excinfo = pytest.ExceptionInfo.from_exception(call.excinfo.value)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that failed shows what became of its groups."""
    report = yield
    unawaited = item.stash.get(_UNAWAITED, None)
    if call.when == "call" and report.failed and unawaited is not None and unawaited.lines:
        report.sections.append((AWAITS, unawaited.text()))
    if call.when == "call" and report.failed and _BLOCKED in item.stash:
        report.sections.append((BLOCKED, item.stash[_BLOCKED]))
    if call.when != "teardown" and report.failed:
        directory = item.config.getoption("--kafka-timeline")
        pictures = None if directory is None else Path(directory)
        try:
            texts = [
                on(shown.cluster, partial(_histories, test=item.nodeid, pictures=pictures, since=shown.since))
                for shown in _clusters(item)
            ]
            outcome = item.stash.get(_OUTCOME, None)
            if outcome is not None and pictures is not None:
                texts += timelines(outcome.events, outcome.groups, pictures, item.nodeid)
        except Exception as error:
            texts = [f"could not be described: {error!r}"]
        text = "\n".join(text for text in texts if text)
        if text:
            report.sections.append((SECTION, text))
    return report


def _histories(kafka: Cluster, test: str, pictures: Path | None, since: int) -> str:
    """The recent history of each group, the unanswered requests, and the files of the timelines; of events after ``since``."""
    from broker_sim.control.on_journal import recent_histories
    from broker_sim.explain.parts import events_after
    from broker_sim.journal import groups_in

    journal = kafka.journal
    lines = [recent_histories(journal, since)]
    if pictures is not None:
        lines += timelines(events_after(journal.events, since), groups_in(journal.since(since)), pictures, test)
    return "\n".join(lines).strip("\n")


def timelines(events: Iterable[dict[str, Any]], groups: list[str], directory: Path, test: str) -> list[str]:
    """Draw each group into a file of its own; a line that names it."""
    from broker_sim.explain.picture import html

    directory.mkdir(parents=True, exist_ok=True)
    lines = []
    for number, group in enumerate(groups, 1):
        path = directory / (re.sub(r"[^\w.-]+", "-", f"{test}-{number}-{group}").strip("-.") + ".html")
        path.write_text(html(events, group), encoding="utf-8")
        lines.append(f"timeline of {group}: {path}")
    return lines


# --- scenarios -------------------------------------------------------------------------------------------------------

_TOP_KEYS = re.compile(r"^(cluster|clients|steps|expect):", re.MULTILINE)
"""Top-level keys that distinguish a scenario file on the command line from files of other tools."""


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> ScenarioFile | None:
    if file_path.suffix not in (".yaml", ".yml"):
        return None
    config = parent.config
    patterns: list[str] = config.getini("kafka_scenarios")
    if file_path.is_relative_to(config.rootpath):
        below = file_path.relative_to(config.rootpath)
        if any(below.match(pattern) for pattern in patterns):
            return ScenarioFile.from_parent(parent, path=file_path)
    if parent.session.isinitpath(file_path) and _TOP_KEYS.search(
        file_path.read_text(encoding="utf-8", errors="replace")
    ):
        return ScenarioFile.from_parent(parent, path=file_path)
    return None


class ScenarioFile(pytest.File):
    """A scenario file: one test."""

    def collect(self) -> Iterator[pytest.Item]:
        yield ScenarioItem.from_parent(self, name=self.path.stem)


class ScenarioItem(pytest.Item):
    """Plays the file; passes if its verdict holds."""

    def runtest(self) -> None:
        options = {"virtual": self.config.getini("kafka_scenarios_virtual")}
        self.stash[_OUTCOME] = _play(self.path, options)  # its verdict is looked at by pytest_runtest_call

    def repr_failure(self, excinfo: ExceptionInfo[BaseException]) -> str | TerminalRepr:  # type: ignore[override]
        from broker_sim.common.text import UsageError

        if isinstance(excinfo.value, UsageError):
            return str(excinfo.value)
        return super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, f"scenario {self.name}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A test with the marker plays its scenario whether or not it asks for the fixture. What tests with ``sim`` need is loaded."""
    wants = any(
        "sim" in getattr(item, "fixturenames", ()) or item.get_closest_marker("sim") or _is_virtual(item)
        for item in items
    )
    if wants and not config.pluginmanager.has_plugin("broker_sim_sim"):
        from broker_sim.testing.pytest_simulation import SimPlugin

        config.pluginmanager.register(SimPlugin(sim, timelines, _is_virtual), "broker_sim_sim")
    for item in items:
        if (
            isinstance(item, pytest.Function)
            and item.get_closest_marker(SCENARIO)
            and SCENARIO not in item.fixturenames
        ):
            item.fixturenames.insert(0, SCENARIO)


def _is_virtual(item: pytest.Item) -> bool:
    """Whether a test plays a scenario in virtual time."""
    if isinstance(item, ScenarioItem):
        return bool(item.config.getini("kafka_scenarios_virtual"))
    marker = item.get_closest_marker(SCENARIO)
    return marker is not None and bool(marker.kwargs.get("virtual"))


@pytest.fixture
def sim() -> Simulation:
    """A simulated world: brokers, hosts and clients on virtual time, from one seed. A test that asks for it is run once for each seed
    of ``@pytest.mark.sim``, without it with seed 0."""
    from broker_sim.testing.pytest_simulation import SimOfFixture

    return SimOfFixture()  # type: ignore[return-value]  # each run of the test has its own


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> Generator[None, object, object]:
    """A session that has to have its hash seed pinned starts again when it has ended."""
    code = yield
    if config.pluginmanager.has_plugin("broker_sim_sim"):
        from broker_sim.testing.pytest_simulation import PENDING

        again = config.stash.get(PENDING, None)
        if again is not None:
            return again()
    return code


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    from broker_sim.testing.pytest_simulation import pin_workers

    pin_workers(config)


@pytest.fixture
def scenario(request: pytest.FixtureRequest) -> ScenarioOutcome:
    """The outcome of the marker's scenario: ``.code`` (0: all expectations held), ``.results``, ``.events``, ``.report()``."""
    from broker_sim.scenario.commands import find

    marker = request.node.get_closest_marker(SCENARIO)
    if marker is None or len(marker.args) != 1:
        raise pytest.UsageError(f"@pytest.mark.{SCENARIO} needs a file, or the name of an included scenario")
    name = str(marker.args[0])
    here = [folder / name for folder in (request.node.path.parent, request.config.rootpath)]
    path = next((path_here for path_here in here if path_here.is_file()), None) or find(name)
    outcome = request.node.stash[_OUTCOME] = _play(path, marker.kwargs)
    return outcome


def _play(path: Path, options: dict[str, Any]) -> ScenarioOutcome:
    """Run a scenario on a loop and a thread of its own, whatever loop the test is on. Raises UsageError."""
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    from broker_sim.common.text import unknown
    from broker_sim.scenario.model import read
    from broker_sim.scenario.runner import ScenarioOptions, run

    known = ("clients", "as_version", "clock", "seed", "virtual")
    for option in options:
        if option not in known:
            raise unknown("argument", option, known, of=f"@pytest.mark.{SCENARIO}")
    clients = options.get("clients") or {}
    given = {name: value for name, value in options.items() if name != "virtual"}
    settings = ScenarioOptions(**{**given, "clients": {"*": clients} if isinstance(clients, str) else clients})

    def play() -> ScenarioOutcome:
        if not options.get("virtual"):
            return asyncio.run(run(read(path), settings))
        from broker_sim.scenario import virtual

        return virtual.play(read(path), settings)

    with ThreadPoolExecutor(1, thread_name_prefix="broker-sim scenario") as thread:
        return thread.submit(play).result()
