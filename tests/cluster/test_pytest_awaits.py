"""A forgotten await fails its test and is named by its line; in projects played by pytester."""

from __future__ import annotations

import pytest

FORGETS = """
import asyncio, pytest

async def test_wait(kafka):
    kafka.group("billing").stable()

async def test_time(kafka):
    waiting = kafka.time.advance("5s")

async def test_journal(kafka):
    kafka.journal.next("JoinGroup")

async def test_rule(kafka):
    with kafka.fault("OffsetCommit", error="NOT_COORDINATOR", must_hit=False) as rule:
        rule.wait()

async def test_broker(kafka):
    kafka.broker(1).down()

@pytest.fixture
async def group(kafka):
    kafka.group("billing").empty()

async def test_in_a_fixture(group):
    pass

async def test_own_cluster():
    from broker_sim import Cluster
    async with Cluster() as kafka:
        kafka.restart(1)
"""

LINES = {
    "test_wait": (4, "stable", 'kafka.group("billing").stable()'),
    "test_time": (7, "advance", 'waiting = kafka.time.advance("5s")'),
    "test_journal": (10, "next", 'kafka.journal.next("JoinGroup")'),
    "test_rule": (14, "wait", "rule.wait()"),
    "test_broker": (17, "down", "kafka.broker(1).down()"),
    "test_in_a_fixture": (21, "empty", 'kafka.group("billing").empty()'),
    "test_own_cluster": (29, "restart", "kafka.restart(1)"),
}

OPTIONS = ("-p", "no:randomly", "-o", "asyncio_default_fixture_loop_scope=function")


def test_what_was_not_awaited_fails_the_test_with_its_line(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(FORGETS)
    result = pytester.runpytest_subprocess(*OPTIONS, "-o", "asyncio_mode=auto", "-W", "error", timeout=300)
    result.assert_outcomes(failed=len(LINES))
    said = result.stdout.str()
    assert "Forgotten awaits" not in said  # once is enough
    for line, called, source in LINES.values():
        assert f".py:{line}: {called}() was not awaited, so it did nothing: {source}" in said


def test_there_is_no_false_alarm(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
import asyncio, pytest

async def test_cancelled_before_it_began(kafka):
    task = asyncio.create_task(kafka.group("billing").stable())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

async def test_closed(kafka):
    kafka.group("billing").stable().close()

async def test_out_of_time(kafka):
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await kafka.group("billing").stable()

async def test_in_vain(kafka):
    with pytest.raises(AssertionError):
        await kafka.group("billing").stable(timeout=0)

async def test_left_and_cancelled(kafka):
    tasks = [asyncio.create_task(kafka.group("billing").stable()) for _ in range(2)]
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()

async def test_of_the_users_own(kafka):
    async def watch():
        await kafka.group("billing").stable()
    asyncio.create_task(watch())

async def test_somebody_elses(kafka):
    async def other(): pass
    with pytest.warns(RuntimeWarning, match="other.*was never awaited"):
        other()

async def test_down_and_up(kafka):
    async with kafka.broker(1).down():
        pass
    down = await kafka.broker(1).down()
    await down.heal()

def test_nothing_to_await(kafka_server):
    kafka_server.group("billing").state
    with kafka_server.broker(1).down():
        pass
""")
    result = pytester.runpytest_subprocess(*OPTIONS, "-o", "asyncio_mode=auto", timeout=300)
    result.assert_outcomes(passed=9)


def test_a_wait_that_is_left_in_a_task_fails_the_test_with_its_line(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
import asyncio

async def test_not_begun(kafka):
    asyncio.create_task(kafka.group("billing").stable())

async def test_begun(kafka):
    waiting = asyncio.ensure_future(kafka.group("billing").wait(members=3))
    await asyncio.sleep(0)

async def test_commit(kafka):
    waiting = asyncio.create_task(kafka.group("billing").commit())
    await asyncio.sleep(0)

async def test_awaited(kafka):
    waiting = asyncio.create_task(kafka.group("billing").state_is("Dead"))
    await waiting
""")
    result = pytester.runpytest_subprocess(*OPTIONS, "-o", "asyncio_mode=auto", timeout=300)
    result.assert_outcomes(failed=3, passed=1)
    said = result.stdout.str()
    assert (
        '.py:4: stable() runs in a task that is never awaited: asyncio.create_task(kafka.group("billing").stable())'
        in said
    )
    assert ".py:7: wait() runs in a task" in said
    assert ".py:11: " in said


def test_a_test_that_fails_for_another_reason_keeps_it(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
async def test_wrong(kafka):
    kafka.group("billing").stable()
    assert kafka.group("billing").members, "nobody there"
""")
    result = pytester.runpytest_subprocess(*OPTIONS, "-o", "asyncio_mode=auto", timeout=300)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*AssertionError: nobody there*", "*Forgotten awaits*", "*stable() was not awaited*"])
