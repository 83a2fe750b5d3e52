"""Answers in a shape that can be compared from broker to broker, and who collects them."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

from kafka_wire.record_batch import batches, build_batch
from tests.support.wire import Wire

Release = tuple[int, int]

_TIMES = ("timestamp", "log_append_time_ms")
_HIDDEN = {"port", "cluster_id", "log_dir", "total_bytes", "usable_bytes", "node_endpoints", "documentation"}


def normal(value: Any, field: str = "") -> Any:
    """Nested tuples of what is left of an answer."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        shown = [(one.name, getattr(value, one.name)) for one in dataclasses.fields(value)]
        return (type(value).__name__, *((name, normal(v, name)) for name, v in shown if name not in _HIDDEN))
    if isinstance(value, list):
        items = [normal(one) for one in value]
        return sorted(items, key=repr)
    if isinstance(value, bytes):
        if field == "records":
            return tuple((header.base_offset, header.record_count) for _, header in batches(value))
        return "an id" if any(value) else "no id"
    if field in _TIMES and isinstance(value, int) and value > 0:
        return "a time"
    if field == "session_id" and value:
        return "a session"
    return int(value) if isinstance(value, int) else value


def shown(value: Any) -> str:
    """One line for a normalised answer, without the fields that say nothing."""
    if isinstance(value, tuple) and value and isinstance(value[0], str):
        return f"{value[0]}({', '.join(f'{name}={shown(v)}' for name, v in value[1:])})"
    if isinstance(value, list):
        return "[" + ", ".join(shown(one) for one in value) + "]"
    return repr(value)


class Talk:
    """Asks one broker and keeps the answers."""

    def __init__(self, wire: Wire, release: Release) -> None:
        self.wire = wire
        self.release = release
        self.start_ms = int(time.time()) * 1000
        self.answers: dict[str, str] = {}
        self.ids: dict[str, bytes] = {}

    async def ask(self, tag: str, request: Any, version: int) -> Any:
        """Put a request; its normalised answer is kept under its API's name and `tag`."""
        response = await self.wire.send(request, version)
        name = f"{type(request).__name__.removesuffix('Request')} v{version}: {tag}"
        assert name not in self.answers, name
        self.answers[name] = shown(normal(response))
        return response

    def batch(self, count: int = 2, *, at_ms: int | None = None, **options: int) -> bytes:
        """Records of now."""
        return build_batch([(b"k", b"v")] * count, self.start_ms if at_ms is None else at_ms, **options)
