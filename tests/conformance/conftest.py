"""Each test of this package runs as [generation-target]: 3.4 and 4.1, on the simulator (sim) and a real broker (kafka).

    pytest tests/conformance                       # all four; without a JVM the kafka ones skip
    pytest tests/conformance -k sim                # the simulator alone
    pytest tests/conformance -m real_kafka --record-truth      # what the real brokers answer becomes the truth (make conformance)

Before a change lands the simulator is held against what is recorded, and of the real brokers' cases one in SAMPLE is played: the others
are marked `recorded`.

`@pytest.mark.profile("small")` chooses the broker settings (targets.PROFILES). Every response is compared, field by
field, with the recorded answer of the real broker of that generation (truth/*.json): a difference fails the test unless
known_differences.py explains it.
"""

from __future__ import annotations

import asyncio
import datetime
import importlib.util
import json
import re
import zlib
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.conformance.driver import Kafka
from tests.conformance.known_differences import ASSERTION, explained
from tests.conformance.recording import differences
from tests.conformance.targets import GENERATIONS, PROFILES, RELEASES, RealTargets, simulator
from tests.conformance.truth import Truth
from tests.support.unhurried import UnhurriedLoop

TARGETS = ("sim", "kafka")
SAMPLE = 48
"""Number of recorded cases of which one is run on a live broker before a change lands: two dozen in all."""

_truth = pytest.StashKey[Truth]()
_outcomes = pytest.StashKey[list[dict[str, str]]]()
_differs = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("conformance")
    group.addoption("--record-truth", action="store_true", help="store what the real brokers answer in truth/*.json")
    group.addoption("--fidelity-out", metavar="FILE", help="write the outcome of every behaviour to FILE (JSON)")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "profile(name): the broker settings of a conformance test")
    config.addinivalue_line("markers", "generations(name, ...): the releases that a conformance test is about")
    config.stash[_outcomes] = []
    config.stash[_truth] = Truth(recording=bool(config.getoption("--record-truth")))


@pytest.hookimpl(optionalhook=True)
def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The simulator lives in the test's own loop: no stall of the machine ends a session there."""
    return {"unhurried": UnhurriedLoop}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "kafka" in metafunc.fixturenames:
        params = [
            pytest.param(
                (generation, target),
                id=f"{generation}-{target}",
                marks=[pytest.mark.real_kafka] if target == "kafka" else [],
            )
            for generation in _generations(metafunc.definition)
            for target in TARGETS
        ]
        metafunc.parametrize("kafka", params, indirect=True)


def _generations(item: pytest.Item) -> Iterable[str]:
    """The releases that a test is about: those of its own mark, else of its module's, else the two generations."""
    marker = item.get_closest_marker("generations")
    return GENERATIONS if marker is None else marker.args


def pytest_itemcollected(item: pytest.Item) -> None:
    """On real brokers one case in SAMPLE is run with all other tests, the same ones each time; the rest are `recorded`."""
    if item.get_closest_marker("real_kafka") is not None and zlib.crc32(item.nodeid.encode()) % SAMPLE:
        item.add_marker(pytest.mark.recorded)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Real brokers last, one (generation, profile) after the other: one cluster at a time. Else the order stays."""
    for item in items:
        callspec = getattr(item, "callspec", None)
        if callspec is None or callspec.params.get("kafka", ("", ""))[1] != "sim":
            continue
        known = explained(case_name(item), callspec.params["kafka"][0], ASSERTION)
        if known is not None:
            item.add_marker(pytest.mark.xfail(reason=known.reason, strict=True))
    items.sort(key=_cluster_of)


def _cluster_of(item: pytest.Item) -> str:
    callspec = getattr(item, "callspec", None)
    if callspec is None or "kafka" not in callspec.params or item.get_closest_marker("real_kafka") is None:
        return ""
    return f"{callspec.params['kafka'][0]} {profile_of(item)}"


def profile_of(item: pytest.Item) -> str:
    marker = item.get_closest_marker("profile")
    return marker.args[0] if marker is not None else "fast"


@pytest.fixture(scope="session")
def real_targets() -> Iterator[RealTargets]:
    targets = RealTargets()
    yield targets
    targets.close()


@pytest.fixture
async def kafka(request: pytest.FixtureRequest, real_targets: RealTargets) -> AsyncIterator[Kafka]:
    """The target of this test."""
    generation, target = request.param
    profile = profile_of(request.node)
    assert profile in PROFILES
    name = case_name(request.node)
    if target == "kafka":
        loop = asyncio.get_running_loop()
        assert isinstance(loop, UnhurriedLoop)
        loop.hurried = True
        real = await real_targets.get(generation, profile)
        brokers = {node.node_id: f"127.0.0.1:{node.sasl_port or node.port}" for node in real.nodes.values()}
        handle = Kafka(generation, target, brokers, name)
        handle.cluster = real
        yield handle
        await handle.close()
        return
    if importlib.util.find_spec("broker_sim.api.cluster") is None:
        pytest.skip("broker_sim.api.cluster is not there yet")
    async with simulator(generation, profile) as cluster:
        addresses = cluster.bootstrap.split(",")
        handle = Kafka(generation, target, dict(enumerate(addresses, 1)), name)
        handle.cluster = cluster
        yield handle
        await handle.close()


def case_name(item: pytest.Item) -> str:
    """The test's name without its target; also the name of its group (and legal as a topic's)."""
    parameters = re.sub(r"^\d\.\d-(sim|kafka)-?", "", item.callspec.id)  # type: ignore[attr-defined]
    base = item.originalname.removeprefix("test_")  # type: ignore[attr-defined]
    return base + (re.sub(r"[^A-Za-z0-9._-]", "_", f".{parameters}") if parameters else "")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Behind a test that passed: its answers are held against the truth, or become it."""
    yield
    kafka = getattr(item, "funcargs", {}).get("kafka")
    if isinstance(kafka, Kafka):
        item.stash[_differs] = _hold_against_truth(kafka, case_name(item), item.config.stash[_truth])


def _hold_against_truth(kafka: Kafka, name: str, truth: Truth) -> bool:
    """Whether there are differences, all of them known; fails for others."""
    rendered = kafka.recording.render()
    if kafka.kind == "kafka" and truth.recording:
        if truth.store(kafka.generation, name, rendered):
            truth.changed.append(f"{kafka.generation} {name}")
        return False
    expected = truth.get(kafka.generation, name)
    if expected is None:
        pytest.fail(f"truth/{kafka.generation}.json does not know {name}: run with --record-truth", pytrace=False)
    found = differences(expected, rendered)
    unexplained = [line for line in found if kafka.kind == "kafka" or not explained(name, kafka.generation, line)]
    if unexplained:
        text = "\n".join(unexplained)
        pytest.fail(f"answers differ from the real broker's (truth != {kafka.kind}):\n{text}", pytrace=False)
    return bool(found)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Gathers the outcome of every case for docs/fidelity.md."""
    report = yield
    callspec = getattr(item, "callspec", None)
    if callspec is not None and "kafka" in callspec.params and (report.when == "call" or not report.passed):
        generation, target = callspec.params["kafka"]
        outcome = {"passed": "equal", "skipped": "not run", "failed": "failing"}[report.outcome]
        if hasattr(report, "wasxfail") or item.stash.get(_differs, False):
            outcome = "different" if report.outcome != "failed" else "failing"
        item.config.stash[_outcomes].append(
            {
                "module": item.path.stem,
                "behaviour": item.originalname,  # type: ignore[attr-defined]
                "case": case_name(item),
                "generation": generation,
                "target": target,
                "outcome": outcome,
            }
        )
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    truth = session.config.stash.get(_truth, None)
    if truth is not None and truth.recording:
        truth.save(RELEASES, datetime.date.today())
    out = session.config.getoption("--fidelity-out")
    if out:
        Path(out).write_text(json.dumps(session.config.stash[_outcomes], indent=1))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Report the cases that a real broker has answered otherwise than before: no error, but something to look at."""
    changed = config.stash[_truth].changed
    if changed:
        terminalreporter.section("recorded anew with other answers: see git diff")
        terminalreporter.write_line("\n".join(changed))
