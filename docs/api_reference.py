"""Writes docs/api.md, the reference of the Python API, out of signatures and docstrings."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from sync_types import FACES, INNER, Source

import broker_sim.simulation as simulation
from broker_sim.faults import rules

TARGET = Path(__file__).resolve().parent / "api.md"

HEAD = """\
# The Python API

Written by `make docs` (docs/api_reference.py) out of the code's signatures and docstrings; a test keeps it current.

For developers who write tests in Python. `from broker_sim import ...` has the names of this page; the last part is in
`broker_sim.simulation`. *await* marks coroutines. A [`ClusterThread`](#clusterthread) has the same methods without `await`, and
`with` in place of `async with`; its types have the same names in `broker_sim.sync`. All names are typed for `mypy --strict`; a
checkout installed with `pip install -e` also needs `MYPYPATH=CHECKOUT:CHECKOUT/protocol`.

- A **duration** is a text, `"40s"`, `"500ms"`, `"1m30s"`, `"7d"`, or a number of seconds.
- A **`timeout`** is real time, by default 10 s; then `WaitTimeout` is raised, with the condition, the present state and the recent
  events. All other durations (`for_`, `after`, `delay`, ...) count on the broker's clock: [time.md](time.md).
- Names ending in `_ms` are whole milliseconds; timestamps are milliseconds since 1970. A partition is its number, from 0.
- A state (`log.stuck()`) and a rule (`kafka.fault(...)`) begin with the call. A `with` or `async with` block ends them; otherwise
  they last until `heal()`, `remove()` or the end of the cluster. `kafka.broker(2).down()` must be awaited or entered.
- Invalid arguments raise `UsageError`; the message names the bad value and the closest valid one. A forgotten `await` fails the
  test, and so does a wait that is left in a task.
- A blocking call in an `async def` test (confluent's `flush(6)`, `time.sleep`, `requests`) also blocks the broker, which runs on
  the same loop. After three seconds (nine if it yields in between) a line on standard error and in the test's report names the
  call: use `kafka_server`, or `await asyncio.to_thread(...)`.
"""

FIXTURES = (
    "kafka",
    "kafka_server",
    "kafka_bootstrap",
    "kafka_session",
    "kafka_module",
    "kafka_factory",
    "scenario",
    "sim",
)

SHARED = """
### Shared clusters, and fixtures of your own

Tests that share a cluster, and fixtures that start one, keep what the fixture `kafka` gives: the section `Kafka groups` in the report
of a failed test, with the events of this test alone; the check for rules that never matched; the arguments of the mark.

```python
import pytest


@pytest.fixture(scope="session")
def orders_kafka(kafka_factory):
    with kafka_factory(topics={"orders": 6}) as kafka:  # a ClusterThread, started
        yield kafka


@pytest.fixture
async def mirrored(kafka_factory):  # two clusters for a test, on its event loop
    async with kafka_factory.cluster() as source, kafka_factory.cluster() as target:
        yield source, target
```

- What a test sets in a shared cluster ends with the test: rules, holds, states of partitions, brokers that are down. What a fixture of
  a wider scope sets while it is set up is kept; a rule of it that never matched is an error at the end of its cluster
  (`must_hit=False`: is none). Topics, groups and records stay, so each test takes names of its own; so does the time of a manual clock.
  `kafka.requests()` has earlier tests' requests as well: select them by a client id or a group of the test.
- In an asyncio test a shared cluster's handles block: `await asyncio.to_thread(kafka_session.group("billing").stable, members=1)`.
- Arguments are those of the ini file, then the factory's, then those of the marks of the test, class and module, the nearest last. A
  mark of a single test of several that share a cluster is an error.
- The ini options are `kafka_as_version`, `kafka_brokers`, `kafka_topics` (`orders:6 payments`) and `kafka_config` (lines of
  `name=value`), the defaults of all clusters of the fixtures; `pytest -o kafka_as_version=4.4` is for one run.
- For annotations: `from broker_sim.testing.shared_clusters import KafkaFactory`.

### pytest-xdist

`pytest -n 4` needs no setting. Each test with `kafka` has its own cluster on free ports, each worker its own `kafka_session`, and each
worker that runs tests of a module its own `kafka_module`; with `--dist loadscope` one worker runs all tests of a module. A port that
you give (`Cluster(port=9092)`) can be taken by one worker only. Reports, `--kafka-timeline` and `--sim-seed` work as without workers.

### asyncio, anyio and unittest

| test | `kafka` |
|---|---|
| `async def` with pytest-asyncio 0.24 or newer, in any mode and with any `loop_scope` | `Cluster` on the test's event loop |
| `async def` with anyio's mark, on its asyncio backend | `Cluster` on the test's event loop |
| `def`, also one that calls `asyncio.run` | `ClusterThread` |
| method of a `unittest.TestCase` or `unittest.IsolatedAsyncioTestCase`, run by pytest | `ClusterThread` |

With anyio; on the trio backend, where aiokafka does not run either, `kafka` is an error, and `kafka_server` works:

```python
import pytest
from aiokafka import AIOKafkaConsumer


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.mark.anyio
@pytest.mark.kafka(topics={"orders": 6})
async def test_a_group_becomes_stable(kafka):
    async with AIOKafkaConsumer("orders", bootstrap_servers=kafka.bootstrap, group_id="billing"):
        await kafka.group("billing").stable(members=1)
```

On an event loop other than the cluster's a wait needs a thread, or it blocks the clients there:

```python
import asyncio
import unittest

import pytest
from aiokafka import AIOKafkaConsumer


async def consume(kafka):
    async with AIOKafkaConsumer("orders", bootstrap_servers=kafka.bootstrap, group_id="billing"):
        await asyncio.to_thread(kafka.group("billing").stable, members=1)


@pytest.mark.kafka(topics={"orders": 6})
def test_with_a_loop_of_its_own(kafka):
    asyncio.run(consume(kafka))


@pytest.mark.kafka(topics={"orders": 6})
class TestBilling(unittest.IsolatedAsyncioTestCase):
    @pytest.fixture(autouse=True)
    def _kafka(self, kafka):
        self.kafka = kafka

    async def test_a_group_becomes_stable(self):
        await consume(self.kafka)
```

Without pytest (`python -m unittest`) there are no fixtures, and no checks of theirs; `GROUPS_AT_ONCE` are their two settings:

```python
import unittest

from aiokafka import AIOKafkaConsumer
from broker_sim import Cluster, ClusterThread

GROUPS_AT_ONCE = {"config": {"group.initial.rebalance.delay.ms": 0}, "internal_topics": "at-start"}


class TestOnItsLoop(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.kafka = await self.enterAsyncContext(Cluster(topics={"orders": 6}, **GROUPS_AT_ONCE))

    async def test_a_group_becomes_stable(self):
        async with AIOKafkaConsumer("orders", bootstrap_servers=self.kafka.bootstrap, group_id="billing"):
            await self.kafka.group("billing").stable(members=1)


class TestShared(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.kafka = cls.enterClassContext(ClusterThread(topics={"orders": 6}, **GROUPS_AT_ONCE))

    def test_a_topic_is_there(self):
        self.assertEqual(self.kafka.topic("orders").partitions, 6)
```
"""

EXAMPLES = {
    "Cluster": """\
async with Cluster(brokers=3, topics={"orders": 6}, clock="manual") as kafka:
    print(kafka.bootstrap)  # "127.0.0.1:40001,127.0.0.1:40002,127.0.0.1:40003"
    await kafka.restart(2)""",
    "ClusterThread": """\
with ClusterThread(topics=["orders", "payments:6"]) as server:
    server.group("billing").stable(members=3)
    with server.offsets_log("billing").stuck() as jam:
        jam.pending(1)""",
    "GroupHandle": """\
billing = await kafka.group("billing").stable(members=3)
await billing.committed_at_least("orders", 0, 100)
print(billing.explain())""",
    "ShareGroupHandle": """\
shippers = await kafka.share_group("shippers").stable(members=2)
await shippers.locked("orders", 0, 3)
await shippers.expire_locks()
print(shippers.explain())""",
    "TransactionHandle": """\
orders = await kafka.transaction("orders-app").ongoing()
await orders.state_is("CompleteCommit")
print(orders.explain())""",
    "LogHandle": """\
async with kafka.log("orders", 0).slow("200ms", jitter="50ms"):
    ...
kafka.log("orders", 0).move_to(3)""",
    "StateGuard": """\
async with kafka.offsets_log("billing").stuck() as jam:
    await jam.pending(1)
assert not jam.active""",
    "Pending": """\
(commit,) = await kafka.offsets_log("billing").pending(1)
assert (await commit.answer()).error is Err.REQUEST_TIMED_OUT""",
    "TopicHandle": """\
orders = kafka.topic("orders", partitions=6).fill(600)
await kafka.topic("payments").wait(records=1)  # what the code under test has sent
(payment,) = kafka.topic("payments").records()
assert (payment.key, payment.value) == (b"42", b"paid")
orders.grow_to(12)""",
    "RequestHistory": """\
commits = kafka.requests("OffsetCommit", client_id="app-1")  # what the code under test has sent
await commits.wait(2, answered=True)
assert [commit.error for commit in commits] == [Err.NONE, Err.NONE]
assert commits.all()[0].body["topics"][0]["name"] == "orders"  # the decoded request""",
    "BrokerHandle": """\
async with kafka.broker(2).down():
    ...
await kafka.broker(2).restart()""",
    "Down": """\
down = await kafka.broker(2).down(graceful=True)
await down.heal()""",
    "Fault": """\
async with kafka.fault("OffsetCommit", group="billing", error="NOT_COORDINATOR", times=2) as moved:
    await moved.wait(2)""",
    "Faults": """\
for fault in kafka.faults.list():
    print(fault.describe())""",
    "Order": """\
async with kafka.order.hold("JoinGroup", group="billing") as hold:
    await hold.arrived(3)
    await hold.step(client_id="app-3")""",
    "Hold": """\
hold = kafka.order.hold("SyncGroup")
await hold.arrived(1, timeout="5s")
hold.release("all")""",
    "Recording": """\
with kafka.order.record() as recording:
    ...
recording.save("order.ndjson")""",
    "Replay": """\
async with kafka.order.replay("order.ndjson") as replay:
    await replay.done()""",
    "TimeControl": """\
fired = await kafka.time.advance("46s", expire=["app-2"])
await kafka.time.advance("5m", wait=0)  # members that delay a rebalance are removed at once""",
    "Journal": """\
coming = kafka.journal.next("OffsetCommit", group="billing", answered=True)
assert (await coming).ok""",
}
"""Played by a type checker: ``kafka`` is a `Cluster`."""

SIMULATED = {
    "Simulation": """\
with simulate(seed=7, faults=Swarm(during="30s")) as sim:
    kafka = sim.cluster(brokers=3, topics={"orders": 6})
    sim.run_for(40)""",
    "Host": """\
app = sim.host("app-1")
app.spawn(bill, again="1s")""",
}

LEADS = {
    "Cluster": "broker_sim.api.cluster.Cluster",
    "ClusterThread": "broker_sim.api.cluster_thread.ClusterThread",
}

VALUES = {
    "MemberView": "broker_sim.api.handles.groups",
    "Lag": "broker_sim.api.handles.lag",
    "CommitProbe": "broker_sim.api.handles.groups",
    "Seen": "broker_sim.journal",
}
ERRORS = {
    "ClusterError": "broker_sim.api.cluster",
    "UsageError": "broker_sim.common.text",
    "WaitTimeout": "broker_sim.journal",
    "NeverHit": "broker_sim.faults.registry",
    "Diverged": "broker_sim.faults.recorded",
    "Livelock": "broker_sim.api.time_control",
}

DEFAULTS = {"TIMEOUT": "'10s'", "WAIT": "'10s'", "FREE": "('ApiVersions', 'Fetch', 'Heartbeat', 'Metadata')"}


def prose(node: ast.AsyncFunctionDef | ast.FunctionDef | ast.ClassDef | ast.Module, name: str) -> str:
    """A docstring as Markdown. Whatever is on this page has one."""
    text = ast.get_docstring(node)
    if not text:
        raise SystemExit(f"api.md: {name} has no docstring")
    return re.sub(r"``+", "`", text)


def one_line(text: str) -> str:
    """A docstring's paragraphs in one."""
    return " ".join(text.split())


def called(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """A function's call with its types, and what it gives."""
    arguments = node.args
    first = [each for each in arguments.args if each.arg not in ("self", "cls")]
    shown = ast.arguments(**{**vars(arguments), "args": first})
    text = re.sub(r"(?<=[\w\]])=", " = ", ast.unparse(shown))
    for name, value in DEFAULTS.items():
        text = text.replace(f"= {name}", f"= {value}")
    gives = "None" if node.returns is None else ast.unparse(node.returns)
    waits = isinstance(node, ast.AsyncFunctionDef) or gives.startswith("Coroutine[")
    gives = re.sub(r"^Coroutine\[Any, Any, (.*)\]$", r"\1", gives)
    return f"`{node.name}({text})" + (f" -> {gives}`" if gives != "None" else "`") + (" *await*" if waits else "")


def members(owner: str, body: list[ast.stmt]) -> Iterator[str]:
    """A line for each public member of a class."""
    for node in body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        hidden = INNER.get(owner, set()) - {"start", "stop", "bootstrap", "create_topic"}
        if node.name.startswith("_") or node.name in hidden:
            continue
        head = called(node)
        if any(ast.unparse(each) == "property" for each in node.decorator_list):
            head = f"`{node.name}: {ast.unparse(node.returns) if node.returns else 'Any'}`"
        yield f"- {head}: {one_line(prose(node, f'{owner}.{node.name}'))}"


def section(name: str, places: tuple[str, ...]) -> str:
    """A class."""
    lines = [f"### {name}", ""]
    rows: list[str] = []
    for place in reversed(places):  # what is the cluster's own comes first
        module, _, inner = place.rpartition(".")
        found = next(n for n in Source(module).tree.body if isinstance(n, ast.ClassDef) and n.name == inner)
        if place == LEADS.get(name, places[0]):
            lines += [prose(found, name), ""]
            init = next((n for n in found.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"), None)
            if name in LEADS and init is not None:
                lines += [called(init).replace("__init__", name), ""]
        rows += members(name, found.body)
    lines += ["```python", EXAMPLES[name], "```", "", *rows]
    return "\n".join(lines)


def values() -> Iterator[str]:
    """Yield the classes of values that the API returns, with their fields."""
    for name, module in VALUES.items():
        found = next(n for n in Source(module).tree.body if isinstance(n, ast.ClassDef) and n.name == name)
        yield f"### {name}\n\n{prose(found, name)}\n"
        for node in found.body:
            if isinstance(node, ast.AnnAssign):
                yield f"- `{ast.unparse(node.target)}: {ast.unparse(node.annotation)}`"
        yield from members(name, found.body)
        yield ""


def keys() -> Iterator[str]:
    """The keys of rules and of selectors."""
    for name, module in (("SelectorKeys", "broker_sim.faults.selectors"), ("RuleKeys", "broker_sim.faults.rules")):
        for node in Source(module).members(name):
            if isinstance(node, ast.AnnAssign):
                of = "rules, holds" if name == "SelectorKeys" else "rules"
                key = ast.unparse(node.target)
                assert isinstance(node.annotation, ast.Subscript)
                assert isinstance(node.annotation.slice, ast.Tuple)  # Annotated[type, field]
                written = ast.unparse(node.annotation.slice.elts[0]).replace(" | None", "")
                kind = re.sub(r"\w+Literal \| (?=str\b)", "", written).replace(
                    "|", "\\|"
                )  # names that editors complete
                yield f"| `{key}` | `{kind}` | {of} | {rules.FIELDS[key].doc} |"


def errors() -> Iterator[str]:
    """Yield the exceptions that the API may raise."""
    for name, module in ERRORS.items():
        found = next(n for n in Source(module).tree.body if isinstance(n, ast.ClassDef) and n.name == name)
        yield f"- `{name}`: {one_line(prose(found, name))}"


def simulated() -> Iterator[str]:
    """The public names of the simulation, a line each."""
    for name in simulation.__all__:
        text = (getattr(simulation, name).__doc__ or "").strip().split("\n\n")[0]
        if not text or text.startswith(("dict(", "str(")):
            raise SystemExit(f"api.md: broker_sim.simulation.{name} has no docstring")
        yield f"- `{name}`: {one_line(re.sub(r'``+', '`', text))}"
    for name, module in (("Simulation", "broker_sim.simulation.world"), ("Host", "broker_sim.simulation.hosts")):
        yield f"\n### {name}\n\n```python\n{SIMULATED[name]}\n```\n"
        yield from members(name, Source(module).members(name))


def fixtures() -> Iterator[str]:
    """The plugin's fixtures."""
    for node in Source("broker_sim.testing.pytest_plugin").tree.body:
        if isinstance(node, ast.FunctionDef) and node.name in FIXTURES:
            gives = re.sub(r"^Iterator\[(.*)\]$", r"\1", "" if node.returns is None else ast.unparse(node.returns))
            yield f"- `{node.name}: {gives}`: {one_line(prose(node, node.name))}"


def render() -> str:
    """The whole of api.md."""
    thread = {"ClusterThread": ("broker_sim.api.cluster_thread.ClusterThread",)}
    classes = {"Cluster": FACES["Cluster"], **thread, **FACES}
    parts = [
        HEAD,
        "## Fixtures\n",
        "`@pytest.mark.kafka(...)` takes the arguments of [`Cluster`](#cluster).\n",
        "\n".join(fixtures()),
        SHARED,
        "## Clusters and handles\n",
        "\n\n".join(section(name, places) for name, places in classes.items()),
        "\n## Keys of rules and holds\n",
        "What they mean: [faults.md](faults.md). `None` is not given.\n",
        "| key | type | of | what it means |\n| --- | --- | --- | --- |\n" + "\n".join(keys()),
        "\n## Values\n",
        "\n".join(values()),
        "## Errors\n",
        "\n".join(errors()),
        "\n## Simulation\n",
        "`from broker_sim.simulation import ...`; the tutorial is [simulation.md](simulation.md).\n",
        "\n".join(simulated()),
    ]
    return "\n".join(parts) + "\n"
