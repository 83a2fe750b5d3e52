"""pytest fixtures: a fresh simulated cluster for each test, in a few milliseconds.

    async def test_my_consumer(kafka):                       # for asyncio code (pytest-asyncio or anyio runs it)
        consumer = AIOKafkaConsumer("orders", bootstrap_servers=kafka.bootstrap)

    def test_my_sync_consumer(kafka_bootstrap):              # for everything else; the cluster has a thread of its own
        consumer = KafkaConsumer("orders", bootstrap_servers=kafka_bootstrap)

    @pytest.mark.kafka(brokers=3, topics={"orders": 6}, as_version="3.9", config={"num.partitions": 4})
    def test_with_options(kafka_server): ...

* ``kafka``: a started `broker_sim.Cluster` on the event loop of your async fixtures, whatever mode pytest-asyncio is in.
  A synchronous test that asks for it gets ``kafka_server``.
* ``kafka_server``: a started `broker_sim.ClusterThread`; ``kafka_bootstrap``: its address.
* The marker takes `Cluster`'s arguments: ``clock="manual"``, ``seed=7``, ``as_version="3.9"``, ... Two defaults differ.
  group.initial.rebalance.delay.ms is 0 and not 3000, so that groups form at once; ``config={"group.initial.rebalance.delay.ms":
  3000}`` has it back. And the cluster keeps a journal from its start; ``journal=False`` is without.
* When a test fails, its report has a section "Kafka groups": what happened to each group lately, and who still waits for an answer.
  ``--kafka-timeline DIR`` draws each of these groups into a file of its own and names it there.
* A rule (``kafka.fault``) that is in force at the end of a test that passed, and has not hit, fails it, unless it says
  ``must_hit=False``.

Loading this costs nothing: the simulator is imported by the first test that asks for it.
"""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from broker_sim.cluster import Cluster, ClusterThread

MARKER = "kafka"

SECTION = "Kafka groups"
"""The heading in the report of a test that failed."""

_CLUSTERS: pytest.StashKey[list[Cluster | ClusterThread]] = pytest.StashKey()
"""The clusters of a test."""

_ON_ASYNCIO, _ON_ANYIO = "_kafka_on_asyncio", "_kafka_on_anyio"
"""The fixtures behind ``kafka`` in an async test, by the plugin that runs it."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("kafka", "broker-sim").addoption(
        "--kafka-timeline",
        metavar="DIR",
        help="draw the groups of each failed test that used a simulated cluster into DIR, a file for each",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"{MARKER}(brokers=1, topics=None, as_version='4.1', config=None, ...): the arguments of broker_sim.Cluster"
        " for the fixtures kafka, kafka_server and kafka_bootstrap",
    )
    fixtures: Any = types.ModuleType("broker_sim_async_fixtures")
    if config.pluginmanager.has_plugin("asyncio"):
        import pytest_asyncio

        setattr(fixtures, _ON_ASYNCIO, pytest_asyncio.fixture(_running_cluster()))
    if config.pluginmanager.has_plugin("anyio"):
        setattr(fixtures, _ON_ANYIO, pytest.fixture(_running_cluster()))
    config.pluginmanager.register(fixtures, "broker_sim_async_fixtures")


def _running_cluster() -> Callable[[pytest.FixtureRequest], AsyncIterator[Cluster]]:
    """A fixture function; a new one for each plugin, as they leave their marks on it."""

    async def running_cluster(request: pytest.FixtureRequest) -> AsyncIterator[Cluster]:
        from broker_sim.cluster import Cluster

        async with Cluster(**_options(request)) as kafka:
            request.node.stash.setdefault(_CLUSTERS, []).append(kafka)
            yield kafka

    return running_cluster


@pytest.fixture
def kafka(request: pytest.FixtureRequest) -> Cluster | ClusterThread:
    """A fresh simulated cluster for this test."""
    node: pytest.Item = request.node
    test = getattr(node, "obj", None)
    test = getattr(getattr(test, "hypothesis", None), "inner_test", test)
    if not inspect.iscoroutinefunction(test):
        name = "kafka_server"
    elif node.get_closest_marker("anyio") and not node.get_closest_marker("asyncio"):
        name = _ON_ANYIO
    elif request.config.pluginmanager.has_plugin("asyncio"):
        name = _ON_ASYNCIO
    else:
        raise pytest.UsageError("the fixture kafka needs pytest-asyncio or anyio in an async test")
    return request.getfixturevalue(name)  # type: ignore[no-any-return]


def _options(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The cluster's arguments: those of the nearest marker win, one by one; settings are put together."""
    options: dict[str, Any] = {"journal": True}
    config: dict[str, object] = {"group.initial.rebalance.delay.ms": 0}
    for marker in reversed(list(request.node.iter_markers(MARKER))):
        if marker.args:
            raise pytest.UsageError(f"@pytest.mark.{MARKER} takes keyword arguments only")
        options.update(marker.kwargs)
        config.update(marker.kwargs.get("config") or {})
    return {**options, "config": config}


@pytest.fixture
def kafka_server(request: pytest.FixtureRequest) -> Iterator[ClusterThread]:
    """A cluster on a thread of its own, for code without an event loop."""
    from broker_sim.cluster import ClusterThread

    with ClusterThread(**_options(request)) as kafka:
        request.node.stash.setdefault(_CLUSTERS, []).append(kafka)
        yield kafka


@pytest.fixture
def kafka_bootstrap(kafka_server: ClusterThread) -> str:
    """The address of ``kafka_server``."""
    return kafka_server.bootstrap


# --- what a test leaves behind ---------------------------------------------------------------------------------------


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """A test that passed fails if a rule of it that had to hit did not."""
    result = yield
    for cluster in item.stash.get(_CLUSTERS, ()):
        _on(cluster, lambda kafka: kafka.faults.check())
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that failed shows what became of its groups."""
    report = yield
    clusters = item.stash.get(_CLUSTERS, ())
    if call.when != "teardown" and report.failed and clusters:
        directory = item.config.getoption("--kafka-timeline")
        pictures = None if directory is None else Path(directory)
        try:
            texts = [_on(cluster, lambda kafka: _story(kafka, item.nodeid, pictures)) for cluster in clusters]
        except Exception as error:
            texts = [f"could not be told: {error!r}"]
        text = "\n".join(text for text in texts if text)
        if text:
            report.sections.append((SECTION, text))
    return report


def _on(cluster: Cluster | ClusterThread, function: Callable[[Cluster], Any]) -> Any:
    """``function(cluster)`` where the cluster lives; None if it has no journal or was stopped."""
    from broker_sim.cluster import Cluster, ClusterError

    def call(kafka: Cluster) -> Any:
        return function(kafka) if kafka.observed else None

    try:
        return call(cluster) if isinstance(cluster, Cluster) else cluster.run(call)
    except ClusterError:
        return None


def _story(kafka: Cluster, test: str, pictures: Path | None) -> str:
    """What happened to each group lately, the requests that wait, and where the pictures are."""
    from broker_sim.explain import recent
    from broker_sim.journal import request_text

    journal = kafka.journal
    lines = []
    for number, group in enumerate(dict.fromkeys(e["group"] for e in journal.events if e.get("group"))):
        lines.append(recent(journal.events, group))
        if pictures is not None:
            lines.append(f"  timeline: {_draw(kafka, group, pictures, f'{test}-{number + 1}-{group}')}")
    waiting = [request_text(request) for request in journal.open_requests.values() if request["api"] != "Fetch"]
    if waiting:
        lines.append(f"unanswered: {', '.join(waiting)}")
    return "\n".join(lines)


def _draw(kafka: Cluster, group: str, directory: Path, name: str) -> Path:
    from broker_sim.explain.picture import html

    directory.mkdir(parents=True, exist_ok=True)
    path = directory / (re.sub(r"[^\w.-]+", "-", name).strip("-.") + ".html")
    path.write_text(html(kafka.journal.events, group), encoding="utf-8")
    return path
