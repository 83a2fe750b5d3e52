"""The driver side of the line protocol, for the Python clients.

One JSON object a line. Request: {"id": n, "op": "...", "member": "...", ...arguments}. Reply, in any order:
{"id": n, "ok": value} or {"id": n, "error": {"type": "...", "message": "..."}}. stdout carries replies only, stderr
the client's own log. The process ends when stdin ends.

Rules:
1. A member polls by itself from `start` to `leave`; its calls run between two polls, in order (a consumer belongs
   to one thread), except `state`, which reads a snapshot and so answers also while a rebalance is under way.
2. A record is [topic, partition, offset, key, value, timestamp_ms]; a partition is [topic, partition]; an offset with
   metadata is [topic, partition, offset, metadata]; no committed offset is -1.
3. `transactional` makes a producer with a transactional id, by a name of the test's; `transaction` begins one unless one is open, sends
   `records` (each with its topic), commits `offsets` of `group` in it, and ends it: "commit", "abort" or "open".
4. `transform` moves `count` records or more from `source` to `sink`, a few in each transaction, with the offsets of its member of
   `group`; every third transaction is aborted and done again. `leave` "open" begins one more and leaves it and all else as it is.
5. `connect` sets where and as whom what is made from then on connects: `bootstrap`, `protocol` (Kafka's security.protocol),
   `mechanism`, `user`, `password`, and the PEM files `ca` and `certificate` (with its private key). OAUTHBEARER has an unsecured
   JWT of `user`.
6. An exception of the client is an answer, not a crash: it goes into `errors` (while polling) or into the reply.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

POLL_S = 0.05

Request = dict[str, Any]
_stdout_lock = threading.Lock()


def renamed(request: Request, names: dict[str, str]) -> dict[str, Any]:
    """Return the fields that a request has, by a client's own names; ``names``: a client's name -> the request's."""
    return {name: request[field] for name, field in names.items() if request.get(field)}


def log_to_stderr() -> None:
    level = os.environ.get("DRIVER_LOG_LEVEL", "WARNING")
    logging.basicConfig(stream=sys.stderr, level=level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")


def describe(error: BaseException) -> dict[str, str]:
    return {"type": type(error).__name__, "message": str(error)}


def answer(request: Request, value: Any = None, error: BaseException | None = None) -> None:
    reply = {"id": request["id"], "ok": value} if error is None else {"id": request["id"], "error": describe(error)}
    with _stdout_lock:
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()


def text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


PYTHON_SETTINGS = {
    "bootstrap_servers": "bootstrap",
    "security_protocol": "protocol",
    "sasl_mechanism": "mechanism",
    "sasl_plain_username": "user",
    "sasl_plain_password": "password",
}
"""A setting of aiokafka and of kafka-python -> the field of ``connect`` that has its value."""


def unsecured_token(user: str) -> str:
    """A JWT without signature, valid for an hour."""
    parts = ({"alg": "none"}, {"sub": user, "iat": int(time.time()), "exp": int(time.time()) + 3600})
    header, claims = (base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)
    return f"{header}.{claims}."


def octets(value: str | None) -> bytes | None:
    return None if value is None else value.encode()


class Snapshot:
    """Assignments, records and errors that a member has seen so far."""

    def __init__(self) -> None:
        self.assignment: list[list[Any]] = []
        self.records: list[list[Any]] = []
        self.assigned: list[list[list[Any]]] = []  # one entry per assignment callback
        self.revoked: list[list[list[Any]]] = []
        self.errors: list[dict[str, str]] = []

    def failed(self, error: BaseException | dict[str, str]) -> None:
        entry = error if isinstance(error, dict) else describe(error)
        if not self.errors or self.errors[-1] != entry:  # a fatal error comes back at every poll
            self.errors.append(entry)

    def view(self) -> dict[str, Any]:
        return {
            "assignment": self.assignment,
            "records": list(self.records),
            "assigned": list(self.assigned),
            "revoked": list(self.revoked),
            "errors": list(self.errors),
        }


class ThreadedMember(threading.Thread):
    """A blocking consumer in its own thread. Subclasses implement `open`, `poll`, `close` and one method per op."""

    def __init__(self, options: Request) -> None:
        super().__init__(daemon=True)
        self.options = options
        self.seen = Snapshot()
        self.calls: queue.SimpleQueue[tuple[Request, Callable[[Request], Any]]] = queue.SimpleQueue()
        self.finished = False

    def open(self) -> None:
        raise NotImplementedError

    def poll(self) -> None:
        """Waits at most POLL_S for records, puts them into `seen.records` and refreshes `seen.assignment`."""
        raise NotImplementedError

    def run(self) -> None:
        try:
            self.open()
        except Exception as error:
            answer(self.options, error=error)
            return
        answer(self.options)
        pace = 0.0
        while not self.finished:
            self.serve_calls(pace)
            if self.finished:
                return
            try:
                self.poll()
                pace = 0.0
            except Exception as error:
                self.seen.failed(error)
                pace = POLL_S

    def stall(self, request: Request) -> Any:
        """Stops polling, as an application does that takes long over its records, until `resume`."""
        answer(request)
        while True:
            request, call = self.calls.get()
            if request["op"] == "resume":
                return call(request)

    def resume(self, request: Request) -> Any:
        answer(request)
        return LATER

    def serve_calls(self, wait_s: float) -> None:
        while not self.finished:
            try:
                request, call = self.calls.get(timeout=wait_s) if wait_s else self.calls.get_nowait()
            except queue.Empty:
                return
            wait_s = 0.0
            try:
                value = call(request)
            except Exception as error:
                answer(request, error=error)
                continue
            if value is not LATER:
                answer(request, value)


LATER = object()
"""Returned by an op that answers by itself, from a callback."""


def serve_threaded(operations: dict[str, Callable[[Request], Any]], new_member: Callable[[Request], Any]) -> None:
    """Reads requests until stdin ends: `operations` run here, a member's ops in the member's thread."""
    log_to_stderr()
    members: dict[str, Any] = {}
    for line in sys.stdin:
        request = json.loads(line)
        op = request["op"]
        try:
            if op in operations:
                answer(request, operations[op](request))
            elif op == "start":
                members[request["member"]] = member = new_member(request)
                member.start()
            elif op == "state":
                answer(request, members[request["member"]].seen.view())
            else:
                member = members[request["member"]]
                member.calls.put((request, getattr(member, op)))
        except Exception as error:
            answer(request, error=error)
