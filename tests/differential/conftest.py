"""Simulators that are compared with each other live in the test's own loop, whose time no stall can reach; beside a real broker it is
the machine's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest

from tests.support.unhurried import UnhurriedLoop


@pytest.hookimpl(optionalhook=True)
def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    real = item.get_closest_marker("real_kafka") is not None
    return {"asyncio" if real else "unhurried": asyncio.new_event_loop if real else UnhurriedLoop}
