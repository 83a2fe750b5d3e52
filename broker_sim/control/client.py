"""A small blocking client of the control server, of the standard library alone, which the command line uses.

control = ControlClient("http://127.0.0.1:9099")
control.perform("state.set", log="offsets(billing)", state="stuck", **{"for": "40s"})
for event in control.journal(group="billing", follow=True): ...
"""

from __future__ import annotations

import http.client
import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlencode

from broker_sim.common.text import UsageError
from broker_sim.control.clusters import DEFAULT
from broker_sim.control.operations import find
from broker_sim.control.routes import FORMS, PREFIX
from broker_sim.fields.kinds import Text

__all__ = ["ControlClient", "ControlFailed", "Unreachable"]

REPLY_S = 700.0
"""Longer than any operation may take; it ends a wait for a server that has stopped answering."""


class ControlFailed(Exception):
    """An operation that the control server refused. ``status``: of the HTTP response; ``body``: its JSON object."""

    def __init__(self, status: int, answer: Mapping[str, Any]) -> None:
        super().__init__(str(answer.get("error", f"status {status}")))
        self.status, self.body = status, dict(answer)


class Unreachable(Exception):
    """No server responds at the address, or one that is not a control server; the message is one line."""


class ControlClient:
    """``url``: ``http://HOST:PORT``, also without the scheme, or a port of this machine alone. ``cluster``: which virtual cluster."""

    def __init__(self, url: str = "http://127.0.0.1:9099", token: str | None = None, cluster: str = DEFAULT) -> None:
        if url.isdigit():
            url = f"127.0.0.1:{url}"
        self.url = (url if "://" in url else f"http://{url}").rstrip("/")
        if not re.fullmatch(r"https?://[^/\s\ud800-\udfff]+", self.url):
            raise UsageError(
                f"control server {url!r} is not an address (expected http://HOST:PORT, HOST:PORT or a port)"
            )
        self.cluster = cluster
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def perform(self, operation: str, **params: Any) -> Any:
        """Do an operation by its name; returns its answer. Raises ControlFailed, Unreachable, UsageError for no such
        operation and for a text that UTF-8 can't encode."""
        with self._open(operation, params) as reply:
            return _json(reply.read(), self.url)

    def picture(self, operation: str, form: str, **params: Any) -> str:
        """The answer in another form: ``picture("group.timeline", "svg", group="billing")``."""
        if form not in FORMS.get(operation, {}):
            raise ValueError(f"{operation} has no form {form!r}")
        with self._open(operation, params, f".{form}") as reply:
            text: str = reply.read().decode()
            return text

    def journal(self, **params: Any) -> Iterator[dict[str, Any]]:
        """The events of journal.read as they come; with ``follow=True`` without end."""
        with self._open("journal.read", params) as reply:
            try:
                for line in reply:
                    event = _json(line, self.url)
                    if "kind" in event and "error" in event and "event" not in event:
                        raise ControlFailed(409, event)
                    yield event
            except (OSError, http.client.HTTPException) as error:
                raise Unreachable(f"the connection to {self.url} was lost: {error or type(error).__name__}") from None

    def _why(self, reason: object) -> str:
        if not isinstance(reason, ConnectionRefusedError):
            return str(reason)
        port = self.url.rpartition(":")[2]
        return (
            f"`broker-sim serve --control {port}` starts one, and --control URL (or BROKER_SIM_CONTROL) names another"
        )

    def _open(self, name: str, params: Mapping[str, Any], ending: str = "") -> Any:
        operation = find(name)
        given = {key: value for key, value in params.items() if value is not None}
        for key, value in {"cluster": self.cluster, **given}.items():
            if isinstance(value, str):
                Text(0).read(value, key)  # a path and a query can't have what the server would refuse
        path = operation.path
        for key in [part[1:-1] for part in path.split("/") if part.startswith("{")]:
            path = path.replace(f"{{{key}}}", quote(str(given.pop(key, "")), safe=""))
        place = f"/{PREFIX}" if operation.on == "clusters" else f"/{PREFIX}/clusters/{quote(self.cluster, safe='')}"
        url, body = f"{self.url}{place}{path}{ending}", None
        headers = dict(self._headers)
        if operation.method in ("GET", "DELETE"):
            url += f"?{urlencode(_query(given), doseq=True)}" if given else ""
        else:
            body = json.dumps(given).encode()
            headers["Content-Type"] = "application/json"
        try:
            request = urllib.request.Request(url, body, headers, method=operation.method)
            return self._opener.open(request, timeout=REPLY_S)
        except urllib.error.HTTPError as error:
            with error:
                raise ControlFailed(error.code, _json(error.read(), self.url)) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            raise Unreachable(f"no control server answers at {self.url}: {self._why(reason)}") from None


def _query(given: Mapping[str, Any]) -> dict[str, Any]:
    def text(value: object) -> Any:
        return json.dumps(value) if isinstance(value, bool | Mapping) else value

    return {key: text(value) for key, value in given.items()}


def _json(body: bytes, url: str) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        raise Unreachable(
            f"{url} is not a control server (expected the address that broker-sim serve --control printed)"
        ) from None
