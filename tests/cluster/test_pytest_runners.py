"""The ways in which tests are run: pytest-asyncio's loops, anyio, unittest, asyncio.run, pytest-xdist; in projects played by pytester.

The examples are those of docs/api.md.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.cluster.test_pytest_shared import SCOPE, run
from tests.support import processes

API = (Path(__file__).resolve().parents[2] / "docs" / "api.md").read_text()


def example(part: str) -> str:
    """The example of docs/api.md that contains a text."""
    blocks = re.findall(r"^```python\n(.*?)^```$", API, re.MULTILINE | re.DOTALL)
    (found,) = (block for block in blocks if part in block)
    assert isinstance(found, str)
    return found


def passes(pytester: pytest.Pytester, code: str, passed: int, *arguments: str) -> None:
    pytester.makepyfile(code)
    options = ("-W", "error", "-p", "no:randomly", *SCOPE)
    pytester.runpytest_subprocess(*options, *arguments, timeout=300).assert_outcomes(passed=passed)


LOOPS = """
import asyncio
import pytest

def is_here(kafka):
    return kafka.servers[0].loop is asyncio.get_running_loop()

@pytest.mark.asyncio
async def test_default(kafka):
    assert is_here(kafka)

@pytest.mark.asyncio(loop_scope="session")
async def test_session(kafka):
    assert is_here(kafka)

@pytest.mark.asyncio(loop_scope="module")
class TestModule:
    async def test_it(self, kafka):
        assert is_here(kafka)
"""


@pytest.mark.parametrize("fixtures", ["function", "session"])
@pytest.mark.parametrize("tests", ["function", "session"])
def test_the_cluster_is_on_the_loop_of_the_test(pytester: pytest.Pytester, fixtures: str, tests: str) -> None:
    scopes = (f"asyncio_default_fixture_loop_scope={fixtures}", f"asyncio_default_test_loop_scope={tests}")
    passes(pytester, LOOPS, 3, *(word for scope in scopes for word in ("-o", scope)))


def test_anyio_as_documented(pytester: pytest.Pytester) -> None:
    passes(pytester, example("def anyio_backend"), 1)


def test_anyio_without_pytest_asyncio(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(example("def anyio_backend"))
    result = pytester.runpytest_subprocess("-W", "error", "-p", "no:randomly", "-p", "no:asyncio", timeout=300)
    result.assert_outcomes(passed=1)


ANYIO = """
pytestmark = pytest.mark.anyio

@pytest.fixture
def anyio_backend():
    return "asyncio"

@pytest.fixture
async def mirrored(kafka_factory):
    async with kafka_factory.cluster() as one, kafka_factory.cluster(topics=["orders"]) as other:
        yield one, other

async def test_fails(kafka):
    await commit_to(kafka.bootstrap, "billing")
    assert kafka is None

async def test_never_hit(mirrored):
    mirrored[1].fault("Heartbeat", error="NOT_COORDINATOR")

async def test_no_await(kafka):
    kafka.group("billing").stable()

@pytest.mark.kafka(as_version="3.9")
async def test_marked(kafka, mirrored):
    assert [each.state.as_version for each in (kafka, *mirrored)] == ["3.9"] * 3

class TestTrio:
    @pytest.fixture
    def anyio_backend(self):
        return "trio"

    async def test_it(self, kafka):
        pass
"""


def test_anyio_has_report_marks_and_checks(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nkafka_topics = orders")
    result = run(pytester, ANYIO, "-o", "asyncio_mode=strict")
    result.assert_outcomes(passed=1, failed=3, errors=1)
    result.stdout.fnmatch_lines_random(
        [
            "group billing: *",
            "NeverHit: fault 1 *Heartbeat*",
            "an await is missing:",
            "the fixture kafka runs on asyncio, and this test on anyio's backend 'trio': *",
        ]
    )


def test_a_loop_of_its_own_and_unittest_as_documented(pytester: pytest.Pytester) -> None:
    passes(pytester, example("asyncio.run(consume"), 2)


UNITTEST = """
import unittest

class Theirs(unittest.IsolatedAsyncioTestCase):
    @pytest.fixture(autouse=True)
    def _kafka(self, kafka):
        self.kafka = kafka

class TestAsync(Theirs):
    async def test_fails(self):
        await commit_to(self.kafka.bootstrap, "billing")
        self.assertIsNone(self.kafka)

    async def test_never_hit(self):
        self.kafka.fault("Heartbeat", error="NOT_COORDINATOR")

    @unittest.skip("not today")
    async def test_skipped(self):
        raise AssertionError

    async def test_skips_itself(self):
        self.kafka.fault("Heartbeat", error="NOT_COORDINATOR")
        self.skipTest("not now")

    async def test_waits_on_its_loop(self):
        self.kafka.group("shipping").stable(members=1, timeout="50ms")

@pytest.mark.kafka(as_version="3.9")
class TestMarked(Theirs):
    async def test_it(self):
        assert self.kafka.run(lambda kafka: kafka.state.as_version) == "3.9"

@pytest.fixture(scope="class")
def kafka_of_class(request, kafka_factory):
    request.cls.kafka = kafka_factory(topics={"orders": 1})

@pytest.mark.usefixtures("kafka_of_class")
class TestShared(unittest.TestCase):
    def test_one(self):
        self.kafka.fault("Heartbeat", error="NOT_COORDINATOR")

    def test_two(self):
        assert not self.kafka.run(lambda kafka: kafka.faults.list())
"""


def test_unittest_has_report_marks_and_checks(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nkafka_topics = orders")
    result = run(pytester, UNITTEST)
    result.assert_outcomes(passed=2, failed=4, skipped=2)
    result.stdout.fnmatch_lines(
        [
            "group billing: *",
            "NeverHit: fault 1 *Heartbeat*",
            '*self.kafka.group("shipping").stable(members=1, timeout="50ms")',
            "*group 'shipping': state Stable, members 1: not within 50 ms",
            "*this call blocked the event loop of its thread, and the clients there: await asyncio.to_thread(...) *",
            "NeverHit: fault 1 *Heartbeat*",
        ]
    )
    assert "blocking.py" not in result.stdout.str()


def test_unittest_without_pytest_as_documented(tmp_path: Path) -> None:
    (tmp_path / "test_billing.py").write_text(example("enterClassContext"))
    done = processes.run([sys.executable, "-W", "error", "-m", "unittest", "-v"], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Ran 2 tests" in done.stderr


WORKERS = """
import os
from pathlib import Path

def note(kind, kafka):
    worker = os.environ["PYTEST_XDIST_WORKER"]
    with Path("seen", worker).open("a") as file:
        file.write(f"{kind} {kafka.bootstrap}\\n")

@pytest.mark.parametrize("number", range(8))
def test_session(kafka_session, number):
    note("session", kafka_session)
    commit(kafka_session, f"billing-{number}")

@pytest.mark.parametrize("number", range(8))
async def test_own(kafka, number):
    note("own", kafka)
    await commit_to(kafka.bootstrap, f"shipping-{number}")
    assert kafka is None
"""


def test_four_workers_have_clusters_of_their_own(pytester: pytest.Pytester) -> None:
    seen = pytester.mkdir("seen")
    pytester.makeini("[pytest]\nkafka_topics = orders")
    result = run(pytester, WORKERS, "-n", "4", "--kafka-timeline", "pictures")
    result.assert_outcomes(passed=8, failed=8)
    result.stdout.fnmatch_lines_random([f"group shipping-{number}: *" for number in range(8)])
    assert len(list((pytester.path / "pictures").glob("*.html"))) == 8
    workers = [path.read_text().split("\n")[:-1] for path in seen.iterdir()]
    assert len(workers) == 4
    session = [{line for line in lines if line.startswith("session")} for lines in workers]
    assert [len(lines) for lines in session if lines] == [1] * sum(map(bool, session))
    assert sum(line.startswith("own") for lines in workers for line in lines) == 8


MODULES = """
from pathlib import Path

@pytest.mark.parametrize("number", range(4))
def test_module(kafka_module, number):
    with Path("seen", f"{Path(__file__).stem}").open("a") as file:
        file.write(f"{kafka_module.bootstrap}\\n")
"""


def test_one_worker_has_the_cluster_of_a_module(pytester: pytest.Pytester) -> None:
    seen = pytester.mkdir("seen")
    pytester.makepyfile(**{f"test_{name}": f"import pytest\n{MODULES}" for name in ("one", "other", "third", "last")})
    result = pytester.runpytest_subprocess("-p", "no:randomly", "-n", "4", "--dist", "loadscope", timeout=300)
    result.assert_outcomes(passed=16)
    assert [len(set(path.read_text().split())) for path in seen.iterdir()] == [1, 1, 1, 1]
