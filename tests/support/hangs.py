"""A pytest plugin: a test that hangs is named, with the stacks of all threads, and the others run.

pytest-timeout interrupts the test by a signal, which Python sees when the code that runs returns to it. Where that is a C function that
does not return, a watchdog that needs no Python writes all stacks to stderr `GRACE_S` later and ends the process. Side by side the
controller then names the test and starts another process for the others; ``-n 1`` does that, too.

Of a coroutine that hangs, the stack shows the loop alone: the report lists where each pending task waits.

pytest-timeout lets go of a test as soon as it has failed. What hangs in the teardown then would never end: there the time begins anew.
"""

from __future__ import annotations

import asyncio
import faulthandler
import os
import sys
from collections.abc import Generator
from typing import Any

import pytest

from tests.support.leftovers import pending_tasks

GRACE_S = 60
"""Seconds that pytest-timeout has after its limit, before the watchdog ends the process."""

_STDERR: pytest.StashKey[int] = pytest.StashKey()
_SETTINGS: pytest.StashKey[Any] = pytest.StashKey()
_ARMED: pytest.StashKey[bool] = pytest.StashKey()


def pytest_configure(config: pytest.Config) -> None:
    assert sys.__stderr__ is not None
    config.stash[_STDERR] = os.dup(sys.__stderr__.fileno())


def pytest_unconfigure(config: pytest.Config) -> None:
    faulthandler.cancel_dump_traceback_later()
    os.close(config.stash[_STDERR])


@pytest.hookimpl(tryfirst=True, optionalhook=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> None:
    item.stash[_SETTINGS], item.stash[_ARMED] = settings, True
    faulthandler.dump_traceback_later(settings.timeout + GRACE_S, exit=True, file=item.config.stash[_STDERR])


@pytest.hookimpl(tryfirst=True, optionalhook=True)
def pytest_timeout_cancel_timer(item: pytest.Item) -> None:
    item.stash[_ARMED] = False
    faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    if item.stash.get(_SETTINGS, None) is not None and not item.stash[_ARMED]:
        item.config.hook.pytest_timeout_set_timer(item=item, settings=item.stash[_SETTINGS])
    yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if call.excinfo is not None and "from pytest-timeout" in str(call.excinfo.value):
        tasks = pending_tasks()
        if tasks:
            report.sections.append(("Pending tasks", "\n".join(map(_where_it_waits, tasks))))
    return report


def _where_it_waits(task: asyncio.Task[Any]) -> str:
    """The task's name, and its lines from the first coroutine to the one that waits."""
    lines, waits = [task.get_name()], task.get_coro()
    while (frame := getattr(waits, "cr_frame", None)) is not None:
        lines.append(f'  File "{frame.f_code.co_filename}", line {frame.f_lineno}, in {frame.f_code.co_name}')
        waits = waits.cr_await
    return "\n".join(lines)
