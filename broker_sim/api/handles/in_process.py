"""Requests from inside of the process: through the same handlers as a client's, without a socket, and past the tap."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from broker_sim.common.text import duration_ms
from broker_sim.journal import INSIDE, WaitTimeout
from broker_sim.requests.context import RequestContext
from broker_sim.requests.routes import Routes
from broker_sim.runtime.asking import DEFERRED

if TYPE_CHECKING:
    from broker_sim.api.cluster import Cluster
    from broker_sim.metadata.cluster_state import Broker
    from broker_sim.requests.routes import Route
    from broker_sim.runtime.coordinators import Coordinators
    from kafka_wire.api_keys import ApiKey

__all__ = ["CLIENT_ID", "ask"]

CLIENT_ID = INSIDE
"""The client id of such requests."""


class _Inside:
    """Connection of requests from inside of the process, as handlers use it."""

    client_host = "/127.0.0.1"
    scratch = None

    def __init__(self, broker: Broker, coordinators: Coordinators) -> None:
        self.broker, self.coordinators, self.client_id = broker, coordinators, CLIENT_ID

    def replied(self, context: RequestContext | None = None) -> None:
        """Nothing is to be written."""


class _Context(RequestContext):
    """The context of an in-process request: keeps the response for the caller instead of sending it."""

    __slots__ = ("answer",)

    def __init__(self, broker: Broker, coordinators: Coordinators, route: Route) -> None:
        super().__init__(_Inside(broker, coordinators), route, 0)  # type: ignore[arg-type]
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def reply(self, response: object) -> None:
        if self._open() and not self.answer.done():
            self.frames = []
            self.answer.set_result(response)


async def ask(
    cluster: Cluster, broker: Broker, api_key: ApiKey, version: int, request: object, *, timeout: object, what: str
) -> Any:
    """Send a request to ``broker``'s handler within the process; returns the response. Raises WaitTimeout without a response after
    ``timeout`` of real time: the request waits for a log or for other members."""
    timeout_ms = duration_ms(timeout, "timeout")
    context = _Context(broker, cluster.coordinators, Routes(cluster.state.as_version)[(api_key << 16) + version])
    response = context.route.handle(context, request)
    if response is DEFERRED:
        asyncio.get_running_loop().call_soon(cluster.runtime.flush_batches)
    elif response is not None:
        return response
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            return await context.answer
    except TimeoutError:
        raise WaitTimeout(what, timeout_ms, "the request is not answered", cluster.observe().describe(None)) from None
    finally:
        if not context.answer.done() or context.answer.cancelled():
            context.disconnected()
