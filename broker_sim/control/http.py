"""HTTP/JSON over the vocabulary: what a test in any language, or an operator, drives the brokers with.

    server = ControlServer(kafka, "127.0.0.1", 9099)
    await server.start()                       # server.url; ControlError where that can't be
    await server.stop()

Rules:
1. Nothing is decided here: a request becomes the name and the parameters of an operation (routes.py), what that raises
   becomes a status. Every answer is JSON but the pictures, the journal (one object a line) and the page at ``/``.
2. Who may ask: on a loopback address everybody on this machine, but no web page: a Host that isn't this machine's (DNS rebinding) and a
   foreign Origin are refused. On any other address, and wherever a token is set, who sends it as ``Authorization: Bearer TOKEN``.
3. What comes in is bounded: 1 MiB of body, 30 s to send it, parameters as their fields bound them, waits of 10 minutes. A
   client that goes away ends what waits for it; what changes something is always finished.
4. No parameter is a path of the file system.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl
from weakref import WeakKeyDictionary

from broker_sim.common.refusals import Refusals, host_of
from broker_sim.common.text import UsageError, installing
from broker_sim.control.clusters import DEFAULT, Clusters
from broker_sim.control.on_journal import lines
from broker_sim.control.operations import perform
from broker_sim.control.routes import CREATES, FORMS, MethodNotAllowed, OperationRoute, problem, route
from broker_sim.control.table import LONGEST_WAIT_S
from broker_sim.control.token import is_loopback
from broker_sim.fields.kinds import ListOf
from broker_sim.network.server import bind_error

try:
    from aiohttp import web
    from aiohttp.http import HttpProcessingError
except ImportError as missing:  # pragma: no cover - the tests have it
    raise ImportError(f"the control server needs aiohttp: {installing('aiohttp')}") from missing

if TYPE_CHECKING:
    from broker_sim.api.cluster import Cluster
    from broker_sim.metrics.exposition import Metrics

__all__ = ["ControlError", "ControlServer"]

log = logging.getLogger("broker_sim.control")

MAX_BODY = 1 << 20
MAX_FIELDS = 100
BODY_S = 30.0
OPERATION_S = LONGEST_WAIT_S + 30.0
"""Maximum duration of any operation; only a clock that is moved by years of timers comes near."""


class ControlError(UsageError):
    """A control server that can't start as asked; the text is one line for people."""


class _EarlyResponse(Exception):
    """An answer that is decided before there is an operation."""

    def __init__(self, status: int, text: str, **headers: str) -> None:
        super().__init__(text)
        self.status, self.headers = status, headers


class _ConnectionLog(logging.LoggerAdapter[logging.Logger]):
    """The log of aiohttp's connections: one line for a request that is not valid HTTP, where aiohttp has a traceback; in a flood a
    line from time to time."""

    def __init__(self, logger: logging.Logger, now_ms: Callable[[], int]) -> None:
        super().__init__(logger)
        self._refusals = Refusals(logger, now_ms)

    def exception(self, msg: object, *args: Any, exc_info: Any = True, **options: Any) -> None:
        if isinstance(exc_info, HttpProcessingError | web.RequestPayloadError):
            host = (str(args[0]), 0) if args else None
            self._refusals.log(host_of(host), None, f"invalid HTTP: {_in_a_line(exc_info)}")
        else:
            super().exception(msg, *args, exc_info=exc_info, **options)


def _in_a_line(error: Exception) -> str:
    """The cause in an error message of aiohttp, which begins with the status and ends with the bytes below the cause."""
    message = str(error).removeprefix("400, message:").lstrip()
    return " ".join(message.partition("\n\n")[0].split()).rstrip(":")


class ControlServer:
    """Serves ``cluster`` as ``default``, and those created later. ``port`` 0 takes a free one. ``data_root``: see `Clusters`."""

    def __init__(
        self,
        cluster: Cluster,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        token: str | None = None,
        data_root: Path | None = None,
    ) -> None:
        if token is None and not is_loopback(host):
            raise ControlError(f"a control server on {host or 'every address'} needs a token")
        self.host, self.port = host, port
        self._token = token
        self.clusters = Clusters(cluster, host=cluster.host, data_root=data_root)
        self._metrics: WeakKeyDictionary[Cluster, Metrics] = WeakKeyDictionary()
        self._runner: web.AppRunner | None = None
        self._changes: set[asyncio.Task[Any]] = set()
        self._stopping = asyncio.Event()

    @property
    def url(self) -> str:
        """``http://HOST:PORT`` of the running server; an IPv6 address is in brackets."""
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    async def start(self) -> None:
        """Listen, and watch the cluster from now on. Raises ControlError where the port can't be had."""
        app = web.Application(client_max_size=MAX_BODY)
        app.router.add_route("*", r"/{path:[\s\S]*}", self._answer)  # a group id may hold a newline
        default = self.clusters.get(DEFAULT)
        connections = _ConnectionLog(log, default.state.clock.wire.now_ms)
        runner = web.AppRunner(
            app, access_log=None, logger=connections, handler_cancellation=True, shutdown_timeout=1.0
        )
        await runner.setup()
        try:
            await web.TCPSite(runner, self.host or None, self.port).start()
        except OSError as error:
            await runner.cleanup()
            raise ControlError(f"the control server: {bind_error(self.host, self.port, error)}") from None
        default.observe()
        self._runner = runner
        self.port = runner.addresses[0][1]

    async def stop(self) -> None:
        """End every request and the clusters that were created here."""
        self._stopping.set()
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()
        if self._changes:
            await asyncio.wait(self._changes, timeout=5)
        await self.clusters.stop()

    # --- one request --------------------------------------------------------------------------------------------------

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        try:
            self._admit(request)
            return await self._admitted(request)
        except _EarlyResponse as refused:
            return _json({"error": str(refused), "kind": "Refused"}, refused.status, refused.headers)
        except web.HTTPRequestEntityTooLarge:
            return _json({"error": f"a body has at most {MAX_BODY} bytes", "kind": "Refused"}, 413)
        except TimeoutError:
            return _json({"error": f"not done within {OPERATION_S:g} s", "kind": "Timeout"}, 408)
        except Exception as error:
            refusal = problem(error)
            if refusal is None:
                log.exception("%s %s failed", request.method, request.path)
                return _json({"error": f"internal error: {error!r}", "kind": "InternalError"}, 500)
            status, body = refusal
            headers = {"Allow": ", ".join(error.allowed)} if isinstance(error, MethodNotAllowed) else {}
            return _json(body, status, headers)

    def _admit(self, request: web.Request) -> None:
        """Refuse who may not ask; see rule 2."""
        if self._token is not None:
            scheme, _, sent = request.headers.get("Authorization", "").partition(" ")
            if scheme.lower() != "bearer" or not _same(sent.strip(), self._token):
                raise _EarlyResponse(
                    401,
                    "this control server wants its token: Authorization: Bearer TOKEN",
                    **{"WWW-Authenticate": "Bearer"},
                )
        host = request.headers.get("Host", "")
        if self._token is None and not is_loopback(_without_port(host)):
            raise _EarlyResponse(403, f"Host {host[:100]!r} is not this machine; ask for {self.url}")
        origin = request.headers.get("Origin")
        if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
            raise _EarlyResponse(403, f"a page of {origin[:100]!r} may not control brokers")

    async def _admitted(self, request: web.Request) -> web.StreamResponse:
        path = request.rel_url.raw_path
        if path in ("/", "/openapi.json", "/metrics"):
            if request.method not in ("GET", "HEAD"):
                raise MethodNotAllowed(f"{path} takes GET, not {request.method}", ["GET"])
            if path == "/metrics":
                return await self._scraped(request)
            return self._page() if path == "/" else self._description()
        asked = route(request.method, path)
        target: Any = self.clusters if asked.operation.on == "clusters" else self.clusters.get(asked.cluster)
        given = await self._parameters(request, asked)
        if asked.operation.name == "journal.read":
            return await self._journal(request, target, given)
        answer = await self._performed(target, asked, given)
        if asked.form:
            return _picture(answer[asked.form], FORMS[asked.operation.name][asked.form])
        return _json(answer, 201 if asked.operation.name in CREATES else 200)

    async def _performed(self, target: object, asked: OperationRoute, given: dict[str, Any]) -> Any:
        name = asked.operation.name
        if asked.form:
            given = {**given, "form": asked.form}
        work = perform(target, name, given)
        async with asyncio.timeout(OPERATION_S):
            if asked.operation.method == "GET":
                return await work
            task = asyncio.ensure_future(work)  # finished even if who asked goes away
            self._changes.add(task)
            task.add_done_callback(self._changed)
            return await asyncio.shield(task)

    def _changed(self, task: asyncio.Task[Any]) -> None:
        self._changes.discard(task)
        if not task.cancelled():
            task.exception()  # its client may have disconnected; it gets the error

    async def _parameters(self, request: web.Request, asked: OperationRoute) -> dict[str, Any]:
        """Parameters of the path, and those of the query (GET, DELETE) or of the body. Raises UsageError, _Refused."""
        given = _query(request, asked)
        if request.method in ("GET", "DELETE"):
            if request.can_read_body and await self._read(request):
                raise UsageError(f"{request.method} takes its parameters in the query, not in a body")
        elif given:
            raise UsageError(f"{request.method} takes its parameters in the body, as JSON, not in the query")
        else:
            given = _parsed(await self._read(request), request)
        for name, value in asked.given.items():
            if name in given and str(given[name]) != value:
                raise UsageError(f"{name}: {given[name]!r} in the parameters, {value!r} in the path")
        return {**given, **asked.given}

    async def _read(self, request: web.Request) -> bytes:
        try:
            async with asyncio.timeout(BODY_S):
                return await request.read()
        except TimeoutError:
            raise _EarlyResponse(408, f"the body did not come within {BODY_S:g} s") from None
        except web.RequestPayloadError as error:
            raise _EarlyResponse(400, f"the body can't be read: {_in_a_line(error)}") from None

    # --- other forms --------------------------------------------------------------------------------------------------

    async def _journal(self, request: web.Request, cluster: Cluster, given: dict[str, Any]) -> web.StreamResponse:
        stream = lines(cluster, given, until=self._stopping)  # what is wrong with the parameters is raised here
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson", "Cache-Control": "no-store"})
        async with contextlib.aclosing(stream):
            first = await anext(stream, b"")
            with contextlib.suppress(ConnectionError):  # the client disconnected, which ends following
                await response.prepare(request)
                await response.write(first)
                async for chunk in stream:
                    await response.write(chunk)
                await response.write_eof()
        return response

    async def _scraped(self, request: web.Request) -> web.Response:
        """``/metrics?cluster=ID&broker=N``: of the default cluster, and of all its brokers, without them."""
        from broker_sim.metrics.exposition import CONTENT_TYPE, Metrics

        unknown_names = sorted(set(request.query) - {"cluster", "broker"})
        if unknown_names:
            raise UsageError(f"unknown parameter of /metrics: {unknown_names[0]!r} (expected cluster, broker)")
        node = request.query.get("broker")
        if node is not None and not (node.isascii() and node.isdecimal() and len(node) < 10):
            raise UsageError(f"broker: {node!r} is not a node id")
        cluster = self.clusters.get(request.query.get("cluster", DEFAULT))
        metrics = self._metrics.get(cluster)
        if metrics is None:
            metrics = self._metrics[cluster] = Metrics(cluster)
        text = await metrics.scrape(broker=None if node is None else int(node))
        return web.Response(body=text.encode(), headers={**_SAFE, "Content-Type": CONTENT_TYPE})

    def _description(self) -> web.Response:
        from broker_sim.control.openapi import document

        return _json(document(self.url))

    def _page(self) -> web.Response:
        from broker_sim.control.openapi import page

        return web.Response(text=page(self.clusters.items()), content_type="text/html", headers=_SAFE)


_SAFE = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
    "X-Content-Type-Options": "nosniff",
}


def _same(sent: str, token: str) -> bool:
    """Whether a header's text, in which aiohttp has bytes that are no UTF-8 as halves of surrogate pairs, is the token."""
    return hmac.compare_digest(sent.encode("utf-8", "surrogateescape"), token.encode())


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _json(body: object, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    text = json.dumps(body, ensure_ascii=True, indent=2) + "\n"
    return web.Response(text=text, status=status, content_type="application/json", headers={**_SAFE, **(headers or {})})


def _picture(text: str, kind: str) -> web.Response:
    return web.Response(text=text, content_type=kind, headers=_SAFE)


def _query(request: web.Request, asked: OperationRoute) -> dict[str, Any]:
    given: dict[str, Any] = {}
    try:
        pairs = parse_qsl(request.rel_url.raw_query_string, keep_blank_values=True, max_num_fields=MAX_FIELDS)
    except ValueError:
        raise UsageError(f"a query has at most {MAX_FIELDS} parameters") from None
    for name, value in pairs:
        parameter = asked.operation.parameters.get(name)
        if parameter is not None and isinstance(parameter.kind, ListOf):
            given.setdefault(name, []).extend(part for part in value.split(",") if part)
        elif name in given:
            raise UsageError(f"{name} is given twice")
        else:
            given[name] = value
    return given


def _parsed(body: bytes, request: web.Request) -> dict[str, Any]:
    if not body:
        return {}
    if request.content_type != "application/json":
        raise _EarlyResponse(415, f"a body is application/json, not {request.content_type}")

    def refuse(name: str) -> None:
        raise ValueError(f"{name} is not JSON")

    try:
        value = json.loads(body, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the body is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise UsageError("the body is not a JSON object of parameters")
    return value
