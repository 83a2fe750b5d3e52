"""Clusters that several tests share, or that fixtures of the tests' own start: ``kafka_factory``, ``kafka_session``, ``kafka_module``.

Rules:
1. A cluster belongs to the fixture that made it, `SharedClusters.fixtures` knows which. It is the cluster of each test that uses this
   fixture, and is stopped with it.
2. What a test sets ends with the test: rules, holds, states of partitions; brokers that it took down are started. What a fixture of a
   wider scope sets while it is set up is kept. So one test's failure is not the next one's. A rule of it that had to match and did not
   is an error at the end of its cluster.
3. A test's report, and the text of its waits, has its own events, behind one event for each group that says how it was when the test
   began.
4. Options: the ini file's, then the factory's arguments, then those of the marks, the nearest last. A mark that is too late, as the
   cluster was started for other tests as well, is an error: a test would run on other options than it names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Unpack

import pytest

if TYPE_CHECKING:
    from broker_sim.api.cluster import Cluster
    from broker_sim.api.cluster_options import Options, Topics
    from broker_sim.api.cluster_thread import ClusterThread

__all__ = ["INI", "MARKER", "KafkaFactory", "SharedClusters", "ShownCluster", "in_one_line", "on", "options_for"]

MARKER = "kafka"

INI = {
    "as_version": ("kafka_as_version", "string", "the Kafka release that clusters of the fixtures behave as"),
    "brokers": ("kafka_brokers", "string", "the number of brokers of each cluster of the fixtures"),
    "topics": ("kafka_topics", "args", "topics of each cluster of the fixtures: orders:6 payments"),
    "config": ("kafka_config", "linelist", "settings of each cluster of the fixtures, name=value, one a line"),
}
"""The ini options, by the argument of `Cluster` that they are the default of: name, type, help."""


def options_for(node: pytest.Item | pytest.Collector, given: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The arguments of a cluster for ``node``, a test or what it is in: those of the ini file, ``given``, and of the marks, the nearest
    of which wins, one by one; settings are put together. What is wrong fails the test, in one line."""
    options: dict[str, Any] = {"journal": True, "internal_topics": "at-start"}
    config: dict[str, object] = {"group.initial.rebalance.delay.ms": 0}
    marks = list(node.iter_markers(MARKER))
    for more in (_of_ini(node.config), given or {}, *(mark.kwargs for mark in reversed(marks))):
        options.update(more)
        settings = more.get("config")
        if settings is not None and not isinstance(settings, Mapping):
            break  # with these options, which are not right
        config.update(settings or {})
        options["config"] = config
    source = f"@pytest.mark.{MARKER}"
    if not marks or (given and _problem(given)):
        source = "kafka_factory"
    problem = (
        "it takes keyword arguments only, as in brokers=3" if any(mark.args for mark in marks) else _problem(options)
    )
    if problem:
        pytest.fail("\n".join(f"{source}: {line}" for line in problem.split("\n")), pytrace=False)
    return options


def _problem(options: Mapping[str, Any]) -> str:
    """Error in the arguments, as text; "" without one."""
    from broker_sim.api.cluster_options import read_options
    from broker_sim.common.text import UsageError

    try:
        read_options(options, warns=False)
    except UsageError as error:
        return str(error)
    return ""


def _of_ini(config: pytest.Config) -> dict[str, Any]:
    """The arguments that the ini file has. What is wrong fails the test, and names the option."""
    options: dict[str, Any] = {}
    for argument, (name, _, _) in INI.items():
        value: Any = config.getini(name)
        if not value:
            continue
        if argument == "brokers":
            value = int(value) if value.strip().isdecimal() else value
        elif argument == "config":
            odd = next((line for line in value if "=" not in line), None)
            if odd is not None:
                pytest.fail(f"ini option {name}: {odd!r} is no setting (expected name=value)", pytrace=False)
            value = {key.strip(): text.strip() for key, _, text in (line.partition("=") for line in value)}
        options[argument] = value
        problem = _problem(options)
        if problem:
            pytest.fail("\n".join(f"ini option {name}: {line}" for line in problem.split("\n")), pytrace=False)
    return options


@contextmanager
def in_one_line() -> Iterator[None]:
    """Report a cluster that can't start in one line, without a traceback."""
    from broker_sim.api.cluster import ClusterError

    try:
        yield
    except ClusterError as error:
        pytest.fail(f"the cluster can't start: {error}", pytrace=False)


def on(cluster: Cluster | ClusterThread, function: Callable[[Cluster], Any]) -> Any:
    """``function(cluster)`` where the cluster lives; None if it has no journal or was stopped."""
    from broker_sim.api.cluster import Cluster, ClusterError

    def call(kafka: Cluster) -> Any:
        return function(kafka) if kafka.observed else None

    try:
        return call(cluster) if isinstance(cluster, Cluster) else cluster.run(call)
    except ClusterError:
        return None


@dataclass
class ShownCluster:
    """A cluster, and what of it is a test's: ``since``: the events of its journal after this number; ``kept``: what is in force there
    that is not the test's."""

    cluster: Cluster | ClusterThread
    since: int = 0
    kept: list[object] = field(default_factory=list)

    def never_hit(self) -> str | None:
        """The first rule of the test that had to match and did not, as text."""
        from broker_sim.faults.registry import NeverHit

        def check(kafka: Cluster) -> None:
            for fault in kafka.faults.list():
                if fault not in self.kept:
                    fault.check()

        try:
            on(self.cluster, check)
        except NeverHit as error:
            return str(error)
        return None


@dataclass
class _Shared(ShownCluster):
    """``fixture``: the name of the fixture that made it; None: a test. ``node``: what that fixture is made for."""

    fixture: str | None = None
    node: Any = None


class SharedClusters:
    """Clusters of a session's fixtures."""

    def __init__(self) -> None:
        self.item: pytest.Item | None = None
        """The test that runs."""
        self.fixtures: list[pytest.FixtureRequest] = []
        """The fixtures that are set up just now, the innermost last."""
        self.factory = KafkaFactory(self)
        self._shared: list[_Shared] = []

    @property
    def node(self) -> Any:
        """For what a cluster is made that is made now: a test, or a module, a session ..."""
        return self.fixtures[-1].node if self.fixtures else self.item

    def add(self, cluster: Cluster | ClusterThread) -> None:
        """A cluster that was made now."""
        made_by = self.fixtures[-1].fixturename if self.fixtures else None
        self._shared.append(_Shared(cluster, fixture=made_by, node=self.node))

    def remove(self, cluster: Cluster | ClusterThread) -> None:
        """A cluster that was stopped."""
        self._shared = [shared for shared in self._shared if shared.cluster is not cluster]

    def over(self, cluster: Cluster | ClusterThread) -> None:
        """A cluster is over. Fails if a rule that a fixture of a wider scope has set, and not removed, had to match and did not."""
        from broker_sim.faults.registry import Fault, NeverHit

        kept = [what for shared in self._shared if shared.cluster is cluster for what in shared.kept]
        self.remove(cluster)
        try:
            for fault in kept:
                if isinstance(fault, Fault) and not fault.removed:
                    fault.check()
        except NeverHit as error:
            pytest.fail(f"NeverHit: {error}", pytrace=False)

    def when_over(self, function: Callable[[], object]) -> None:
        """Call ``function`` at the end of the fixture that is set up now, or of the test that runs."""
        if self.fixtures:
            self.fixtures[-1].addfinalizer(function)
        elif self.item is not None:
            self.item.addfinalizer(function)

    def of(self, item: pytest.Item) -> list[_Shared]:
        """The clusters that the test uses."""
        if not self._shared:
            return []
        names = set(
            getattr(getattr(item, "_request", item), "fixturenames", ())
        )  # with those asked for by getfixturevalue
        chain = item.listchain()
        return [
            shared
            for shared in self._shared
            if shared.node in chain and (shared.fixture is None or shared.fixture in names)
        ]

    def begin(self, item: pytest.Item) -> None:
        """A test begins: what is in the journals is not its own."""
        self.item = item
        for shared in self._shared:
            shared.since = on(shared.cluster, _begin_part) or 0

    def end(self, item: pytest.Item) -> None:
        """A test has ended, and its own fixtures have: end what it left in force in clusters that others use."""
        self.item = None
        for shared in self.of(item):
            _end_all_but(shared)

    def late_marks(self, item: pytest.Item) -> str:
        """Message about marks of a test that come too late for its clusters; "" if there are none."""
        for shared in self.of(item):
            reached = shared.node.listchain()
            for node, mark in item.iter_markers_with_node(MARKER):
                if node not in reached:
                    given = ", ".join(f"{name}={value!r}" for name, value in mark.kwargs.items())
                    what = f"{shared.node.__class__.__name__.lower()} {shared.node.name}".strip()
                    return (
                        f"@pytest.mark.{MARKER}({given}) has no effect on the cluster of the fixture {shared.fixture}, which is "
                        f"shared by the tests of the {what}; the fixture {MARKER} is a cluster for this test alone"
                    )
        return ""

    @contextmanager
    def setting_up(self, request: pytest.FixtureRequest) -> Iterator[None]:
        """While a fixture is set up."""
        wide = request.scope != "function"
        before = [_in_force(shared.cluster) for shared in self._shared] if wide else []
        self.fixtures.append(request)
        try:
            yield
        finally:
            self.fixtures.pop()
            if wide:
                for place, shared in enumerate(self._shared):
                    had = before[place] if place < len(before) else []
                    shared.kept += [
                        what for what in _in_force(shared.cluster) if what not in had and what not in shared.kept
                    ]


def _begin_part(kafka: Cluster) -> int:
    """From now on waits describe what happens from now on. Returns the number of the last event before."""
    kafka.journal.described_since = kafka.journal.seq
    return kafka.journal.seq


def _in_force(cluster: Cluster | ClusterThread) -> list[object]:
    """The rules, holds, states of partitions, and brokers that are down."""

    def look(kafka: Cluster) -> list[object]:
        down = [server.broker.node_id for server in kafka.servers if not server.listening]
        return [*kafka.faults.list(), *kafka.order.holds, *kafka.conditions.of(), *down]

    return on(cluster, look) or []


def _end_all_but(shared: ShownCluster) -> None:
    from broker_sim.api.cluster import Cluster

    def end(kafka: Cluster) -> list[int]:
        for fault in kafka.faults.list():
            if fault not in shared.kept:
                fault.remove()
                fault.release()
        for hold in list(kafka.order.holds):
            if hold not in shared.kept:
                hold.end()
        if kafka.order.replaying is not None:
            kafka.order.replaying.end()
        for state in reversed(kafka.conditions.of()):
            if state not in shared.kept:
                kafka.conditions.heal(state)
        return [server.broker.node_id for server in kafka.servers if not server.listening]

    cluster = shared.cluster
    for node_id in on(cluster, end) or ():
        if node_id in shared.kept:
            continue
        if not isinstance(cluster, Cluster):
            cluster.broker_up(node_id)
        elif not (loop := cluster.servers[0].loop).is_running() and not loop.is_closed():
            loop.run_until_complete(cluster.broker_up(node_id))


class KafkaFactory:
    """Starts clusters for fixtures of your own: for a session, a module, a class, or with more than one cluster a test."""

    def __init__(self, clusters: SharedClusters) -> None:
        self._clusters = clusters

    def __call__(
        self, brokers: int | None = None, topics: Topics | None = None, **options: Unpack[Options]
    ) -> ClusterThread:
        """A started cluster on a thread of its own. It is stopped with the fixture (or test) that calls this, or at the end of a
        ``with`` block of it."""
        from broker_sim.api.cluster_thread import ClusterThread

        clusters = self._clusters
        kafka = ClusterThread(**self._options(brokers, topics, options))
        with in_one_line():
            kafka.start()
        clusters.add(kafka)

        def stop() -> None:
            kafka.stop()
            clusters.over(kafka)

        clusters.when_over(stop)
        return kafka

    def cluster(self, brokers: int | None = None, topics: Topics | None = None, **options: Unpack[Options]) -> Cluster:
        """A cluster for an asyncio fixture, to be started on its event loop by ``async with kafka_factory.cluster() as kafka:``."""
        from broker_sim.api.cluster import Cluster

        clusters = self._clusters
        with in_one_line():
            kafka = Cluster(**self._options(brokers, topics, options))
        clusters.add(kafka)
        clusters.when_over(lambda: clusters.over(kafka))
        return kafka

    def _options(self, brokers: int | None, topics: Topics | None, options: Mapping[str, Any]) -> dict[str, Any]:
        node = self._clusters.node
        if node is None:
            raise pytest.UsageError("kafka_factory starts clusters in fixtures and tests only")
        first = {"brokers": brokers, "topics": topics}
        return options_for(node, {**{name: value for name, value in first.items() if value is not None}, **options})
