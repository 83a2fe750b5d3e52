"""Event loops and clients of these tests: where broker and test share a loop, stalls of the machine don't count in the loop's time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import pytest

from broker_sim import Cluster
from tests.handles.members import Member
from tests.support.unhurried import loops


@pytest.hookimpl(optionalhook=True)
def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return loops(item)


@pytest.fixture
async def app(kafka: Cluster) -> AsyncIterator[Member]:
    """The only member of the group billing; it subscribes to orders and is assigned orders-0 alone."""
    member = await Member.connect(kafka)
    await member.enter()
    yield member
    await member.close()
