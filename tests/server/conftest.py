"""The tests on real sockets run on every event loop that `broker-sim serve` may run on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest


@pytest.hookimpl(optionalhook=True)
def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]] | None:
    factories: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"asyncio": asyncio.new_event_loop}
    if item.path.name in ("test_tcp.py", "test_large_replies.py"):
        try:
            import uvloop
        except ImportError:  # an optional extra
            pass
        else:
            factories["uvloop"] = uvloop.new_event_loop
    return factories
