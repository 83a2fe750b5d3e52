"""Verdicts and orders on every event loop that `broker-sim serve` may run on; asyncio's own keeps the stalls of the machine out of
its time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest

from tests.support.unhurried import loops


@pytest.hookimpl(optionalhook=True)
def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return loops(item, uvloop=("test_verdicts.py", "test_leaks.py", "test_order.py"))
