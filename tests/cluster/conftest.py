"""Event loops for tests that share one with the broker: no stall of the machine gets into its time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest

from tests.support.unhurried import loops


@pytest.hookimpl(optionalhook=True)
def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return loops(item, hurried=("test_blocked_loop.py", "test_brokers_as_real.py", "test_cli.py"))
