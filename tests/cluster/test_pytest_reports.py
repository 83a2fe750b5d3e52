"""Reports of the pytest plugin on tests that failed, and tests that it fails itself; in projects played by pytester."""

from __future__ import annotations

import pytest

MEMBER = """
import asyncio, pytest
from aiokafka import AIOKafkaConsumer

def consumer(kafka):
    return AIOKafkaConsumer("orders", bootstrap_servers=kafka.bootstrap, group_id="billing", client_id="app",
                            auto_offset_reset="earliest", enable_auto_commit=False)
"""

OPTIONS = ("-W", "error", "-p", "no:randomly", "-o", "asyncio_mode=auto")
SCOPE = ("-o", "asyncio_default_fixture_loop_scope=function")


def run(pytester: pytest.Pytester, code: str, *arguments: str) -> pytest.RunResult:
    pytester.makepyfile(MEMBER + code)
    return pytester.runpytest_subprocess(*OPTIONS, *SCOPE, *arguments, timeout=300)


@pytest.mark.slow
def test_a_test_that_failed_shows_what_became_of_its_groups(pytester: pytest.Pytester) -> None:
    code = """
@pytest.mark.kafka(topics={"orders": 1}, as_version="3.9", clock="manual")
async def test_failing(kafka):
    kafka.topic("orders").fill(3)
    async with consumer(kafka) as app:
        await app.getone()
        billing = await kafka.group("billing").stable(members=1)
        with billing.offsets_log.stuck() as jam:
            commit = asyncio.ensure_future(app.commit())
            await jam.pending()
            await kafka.time.advance(5)
            await kafka.journal.next("OffsetCommit", group="billing", since=0)
            commit.cancel()
            wrong = "the application's mistake"
            assert not wrong
"""
    result = run(pytester, code, "--kafka-timeline", "pictures")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*Kafka groups*",
            "group billing: Empty in generation 2, 0 members",
            "*OffsetCommit of app: REQUEST_TIMED_OUT after 5 s*",
            "timeline of billing: pictures/*test_failing-1-billing.html",
        ]
    )
    (picture,) = (pytester.path / "pictures").iterdir()
    assert "<svg" in picture.read_text()


@pytest.mark.slow
def test_a_synchronous_test_shows_it_too(pytester: pytest.Pytester) -> None:
    code = """
@pytest.mark.kafka(topics={"orders": 1})
def test_failing(kafka_server):
    async def commit():
        async with consumer(kafka_server) as app:
            kafka_server.topic("orders").fill(3)
            await app.getone()
            kafka_server.group("billing").stable(members=1)
            with kafka_server.group("billing").offsets_log.stuck() as jam:
                commit = asyncio.ensure_future(app.commit())
                await asyncio.to_thread(jam.pending)
                try:
                    assert kafka_server.group("billing").state == "Empty"
                finally:
                    commit.cancel()
    asyncio.run(commit())
"""
    result = run(pytester, code)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*Kafka groups*", "group billing: *", "*stuck: on*", "*app left*"])


@pytest.mark.slow
def test_requests_without_an_answer_are_named(pytester: pytest.Pytester) -> None:
    code = """
from kafka_wire.codec import encode
from kafka_wire.frame import encode_request_header, frame
from kafka_wire.messages.k03_metadata import MetadataRequest

@pytest.fixture
async def question(kafka):
    host, port = kafka.bootstrap.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))

    async def ask():
        writer.write(frame(encode_request_header(3, 9, 1, "app") + encode(MetadataRequest(topics=None), 9)))
        await reader.readexactly(4)

    yield ask
    writer.close()
    await writer.wait_closed()

async def test_waiting(kafka, question):
    with kafka.fault("Metadata", hang=True) as hang:
        asking = asyncio.ensure_future(question())
        await hang.wait()
        await asyncio.wait_for(asking, 0.01)
"""
    result = run(pytester, code)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*Kafka groups*", "unanswered: request 1, Metadata v9 of 'app'"])


def test_nothing_is_said_where_there_is_nothing_to_say(pytester: pytest.Pytester) -> None:
    code = """
async def test_no_group(kafka):
    assert not kafka.bootstrap

@pytest.mark.kafka(journal=False)
async def test_no_journal(kafka):
    assert kafka.observed

async def test_stopped(kafka):
    await kafka.stop()
    assert False

async def test_passing(kafka):
    assert kafka.observed
"""
    result = run(pytester, code)
    result.assert_outcomes(failed=3, passed=1)
    result.stdout.no_fnmatch_line("*Kafka groups*")


@pytest.mark.slow
def test_a_fixture_that_failed_shows_it_too(pytester: pytest.Pytester) -> None:
    code = """
@pytest.fixture
async def billing(kafka):
    return await kafka.group("billing").stable(members=1, timeout="10ms")

@pytest.mark.kafka(topics={"orders": 1})
async def test_failing(kafka, billing): pass

@pytest.fixture
async def app(kafka):
    kafka.topic("orders").fill(1)
    async with consumer(kafka) as app:
        await app.getone()
        yield await kafka.group("billing").stable(members=2, timeout="10ms")

@pytest.mark.kafka(topics={"orders": 1})
async def test_failing_with_a_member(kafka, app): pass
"""
    result = run(pytester, code)
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(["*WaitTimeout: group 'billing': state Stable, members 1: not within 10 ms"])
    result.stdout.fnmatch_lines(["*WaitTimeout: group 'billing': state Stable, members 2: not within 10 ms"])
    result.stdout.fnmatch_lines(["*Kafka groups*", "group billing: *"])


@pytest.mark.slow
def test_a_rule_that_never_hit_fails_a_test_that_passed(pytester: pytest.Pytester) -> None:
    code = """
async def test_left_over(kafka):
    kafka.fault("OffsetCommit", group="biling", error="NOT_COORDINATOR")

def test_left_over_on_a_thread(kafka_server):
    kafka_server.fault("Heartbeat", hang=True)

async def test_may_miss(kafka):
    kafka.fault("OffsetCommit", error="NOT_COORDINATOR", must_hit=False)

async def test_failing_by_itself(kafka):
    kafka.fault("OffsetCommit", error="NOT_COORDINATOR")
    assert False, "the first mistake"

async def test_removed(kafka):
    kafka.fault("OffsetCommit", error="NOT_COORDINATOR").remove()
"""
    result = run(pytester, code)
    result.assert_outcomes(failed=3, passed=2)
    result.stdout.fnmatch_lines(["*NeverHit: fault 1 never hit: *OffsetCommit*biling*"])
    result.stdout.fnmatch_lines(["*NeverHit: fault 1 never hit: *Heartbeat*"])
    result.stdout.fnmatch_lines(["*the first mistake*"])


WAITING = """
async def test_waits(kafka):
    await kafka.group("billing").stable(members=2, timeout="10ms")

def test_waits_on_a_thread(kafka_server):
    kafka_server.group("billing").stable(members=2, timeout="10ms")

async def test_misnames_a_state(kafka):
    own_line = kafka.group("billing").wait(state="Stabel")
    await own_line
"""


def test_the_traceback_of_a_wait_ends_at_the_tests_own_line(pytester: pytest.Pytester) -> None:
    result = run(pytester, WAITING)
    result.assert_outcomes(failed=3)
    assert not [line for line in result.outlines if "broker_sim/api" in line or "concurrent" in line]
    result.stdout.fnmatch_lines_random(
        [
            '>   *await kafka.group("billing").stable(members=2, timeout="10ms")',
            '>   *kafka_server.group("billing").stable(members=2, timeout="10ms")',
            ">   *await own_line",
            "E   *did you mean 'Stable'?*",
        ]
    )


def test_all_frames_are_there_when_asked_for(pytester: pytest.Pytester) -> None:
    result = run(pytester, WAITING, "--full-trace", "-k", "on_a_thread")
    result.stdout.fnmatch_lines(["*broker_sim/api/handles/groups.py:*", "*broker_sim/api/wait.py:*: WaitTimeout"])


def test_the_traceback_of_another_error_has_the_librarys_frames(pytester: pytest.Pytester) -> None:
    code = """
async def test_fails(kafka, monkeypatch):
    monkeypatch.setattr("broker_sim.api.wait.duration_ms", None)
    await kafka.group("billing").stable(members=2, timeout="10ms")
"""
    result = run(pytester, code)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*broker_sim/api/handles/groups.py:*: in stable", "*broker_sim/api/wait.py:*: TypeError"]
    )
