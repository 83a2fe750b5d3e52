"""Recorded orders of requests, and their replay: see ``order`` for the rules."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from broker_sim.common.text import UsageError, duration_ms, duration_text
from broker_sim.faults.selectors import Asked, api_key_of
from broker_sim.journal import WaitTimeout

__all__ = ["DeferredRequest", "Diverged", "Entry", "Guard", "Recording", "Replay", "entry_from", "load"]


class Diverged(AssertionError):
    """The requests did not arrive in the recorded order; the message has the expected request, the actual one and the position."""


@dataclass(eq=False, slots=True)
class DeferredRequest:
    """A request that waits; ``resume`` hands it on."""

    request_id: int
    asked: Asked
    resume: Callable[[], object]
    is_disconnected: bool = False
    """Whether the client has disappeared."""
    handed_on: asyncio.Future[None] | None = None
    """For ``step``: done once the handler has had it."""


class Guard:
    """A context manager whose effect ends with its block."""

    def end(self) -> None:
        raise NotImplementedError

    def check(self) -> None:
        """Called at the end of the block; may raise."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
        if kind is None:
            self.check()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)


class GuardOwner(Protocol):
    """Methods of an Order for its guards."""

    def resume_later(self, deferred: DeferredRequest, *, replayed: bool = False) -> None:
        """Let it go on from the loop."""

    def write_event(self, action: str, deferred: DeferredRequest, text: str | None = None) -> None:
        """Write it into the journal."""

    def forget(self, guard: Guard) -> None:
        """Remove a recording or replay that has ended from the cluster's order."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One request of a record. ``member`` is a name like m1."""

    n: int
    api: str
    client_id: str | None = None
    group: str | None = None
    member: str | None = None
    topics: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        out: dict[str, Any] = {"n": self.n, "api": self.api, "client_id": self.client_id}
        return {**out, "group": self.group, "member": self.member, "topics": list(self.topics)}

    def text(self) -> str:
        parts = [f"{self.api} of {self.client_id!r}"]
        parts += [f"group {self.group!r}"] if self.group is not None else []
        parts += [f"member {self.member}"] if self.member else []
        parts += [" ".join(self.topics)] if self.topics else []
        return ", ".join(parts)


@dataclass(slots=True)
class _Members:
    """The names of member ids."""

    names: dict[str, str] = field(default_factory=dict)

    def name(self, member: str | None) -> str | None:
        """The name of a member id, given at its first appearance; None for None."""
        return None if member is None else self.names.setdefault(member, f"m{len(self.names) + 1}")

    def fits(self, name: str | None, member: str | None) -> bool:
        """Whether this id may stand in the place of that name."""
        if name is None or member is None:
            return name is member
        known = self.names.get(member)
        return known == name if known is not None else name not in self.names.values()

    def bind(self, name: str | None, member: str | None) -> None:
        if name is not None and member is not None:
            self.names.setdefault(member, name)


def _entry(n: int, asked: Asked, member: str | None) -> Entry:
    facts = asked.facts
    return Entry(n, asked.api, asked.client_id, facts.group, member, _topic_names(asked))


def _topic_names(asked: Asked) -> tuple[str, ...]:
    return tuple(sorted({topic for topic, _ in asked.facts.topics}))


class Recording(Guard):
    """The order in which requests reached their handlers, as ``entries``."""

    def __init__(self, owner: GuardOwner) -> None:
        self.entries: list[Entry] = []
        self._owner = owner
        self._members = _Members()

    def note(self, asked: Asked) -> None:
        """Append a request that has arrived; called by Order."""
        member = self._members.name(asked.facts.member or asked.facts.instance)
        self.entries.append(_entry(len(self.entries) + 1, asked, member))

    def end(self) -> None:
        """Stop recording; its entries remain readable."""
        self._owner.forget(self)

    remove = heal = end

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the entries, one JSON object per line."""
        lines = (json.dumps(entry.to_dict(), ensure_ascii=False) + "\n" for entry in self.entries)
        Path(path).write_text("".join(lines), encoding="utf-8")

    def __enter__(self) -> Recording:
        return self

    async def __aenter__(self) -> Recording:
        return self


def load(path: str | os.PathLike[str]) -> list[Entry]:
    """The entries of a saved recording. Raises UsageError naming the line for what is none."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {getattr(error, 'strerror', None) or 'not UTF-8'}") from None
    entries = []
    for number, line in enumerate(lines, 1):
        try:
            values = json.loads(line)
        except ValueError:
            raise UsageError(f"{path}, line {number}: not JSON") from None
        entries.append(entry_from(values, f"{path}, line {number}"))
    return entries


def entry_from(values: object, where: str) -> Entry:
    if not isinstance(values, Mapping) or not isinstance(values.get("api"), str):
        raise UsageError(f"{where}: not an entry of a recorded order, {{n, api, client_id, group, member, topics}}")
    texts = [values.get(key) for key in ("client_id", "group", "member")]
    topics = values.get("topics") or ()
    n = values.get("n")
    if not isinstance(n, int) or any(text is not None and not isinstance(text, str) for text in texts):
        raise UsageError(f"{where}: n is a number, client_id, group and member are strings or null")
    if not isinstance(topics, list | tuple) or not all(isinstance(topic, str) for topic in topics):
        raise UsageError(f"{where}: topics is a list of names")
    api = api_key_of(values["api"]).kafka_name
    return Entry(n, api, texts[0], texts[1], texts[2], tuple(sorted(topics)))


class Replay(Guard):
    """Admits requests in a recorded order only; a request that arrives early waits."""

    def __init__(self, owner: GuardOwner, entries: list[Entry], free: frozenset[int], deadline_ms: int) -> None:
        self.diverged: Diverged | None = None
        self.ended = False
        self._owner = owner
        self._free = free
        self._entries = [entry for entry in entries if api_key_of(entry.api) not in free]
        self._at = 0
        self._members = _Members()
        self._waiting: list[DeferredRequest] = []
        self._deadline_ms = deadline_ms
        self._timer: asyncio.TimerHandle | None = None
        self._over: asyncio.Future[None] | None = None

    @property
    def position(self) -> int:
        """The number of admitted entries, without those of free APIs."""
        return self._at

    @property
    def expected(self) -> str | None:
        """The next expected entry as text; None at the end of the recording."""
        return self._entries[self._at].text() if self._at < len(self._entries) else None

    @property
    def waiting(self) -> list[str]:
        """The waiting requests as text."""
        return [deferred.asked.text() for deferred in self._waiting]

    def done(self, timeout: object = "30s") -> Coroutine[Any, Any, None]:
        """Wait until the whole recording is replayed. Raises Diverged, or WaitTimeout after ``timeout`` of real time."""
        return self._done(duration_ms(timeout, "timeout"))

    async def _done(self, timeout_ms: int) -> None:
        self.check()
        if self.expected is None:
            return
        if self._over is None:
            self._over = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await asyncio.shield(self._over)
        except TimeoutError:
            now = f"{self._at} of {len(self._entries)} have passed, next is {self.expected}"
            raise WaitTimeout("the end of the recorded order", timeout_ms, now) from None
        self.check()

    def check(self) -> None:
        """Raise Diverged if the order has diverged."""
        if self.diverged is not None:
            raise self.diverged

    def end(self) -> None:
        """End the replay; waiting requests continue."""
        if not self.ended:
            self.ended = True
            self._owner.forget(self)
            self._pass_all()

    remove = heal = end

    def __enter__(self) -> Replay:
        return self

    async def __aenter__(self) -> Replay:
        return self

    def must_wait(self, deferred: DeferredRequest) -> bool:
        """For Order: whether the request must wait."""
        if self.diverged is not None or self.expected is None or deferred.asked.api_key in self._free:
            return False
        if self._is_next(deferred.asked):
            self._passed(deferred.asked)
            return False
        self._waiting.append(deferred)
        self._owner.write_event("held", deferred)
        self._arm()
        return True

    def drop(self, request_id: int) -> None:
        """Forget a waiting request whose client has disconnected; called by `Order`."""
        self._waiting = [deferred for deferred in self._waiting if deferred.request_id != request_id]
        if not self._waiting:
            self._disarm()

    def _is_next(self, asked: Asked) -> bool:
        entry, facts = self._entries[self._at], asked.facts
        return (
            (entry.api, entry.client_id, entry.group) == (asked.api, asked.client_id, facts.group)
            and entry.topics == _topic_names(asked)
            and self._members.fits(entry.member, facts.member or facts.instance)
        )

    def _passed(self, asked: Asked) -> None:
        """The expected one has come: the next may pass, and may be waiting already."""
        self._disarm()
        while True:
            self._members.bind(self._entries[self._at].member, asked.facts.member or asked.facts.instance)
            self._at += 1
            if self.expected is None:
                self._pass_all()
                return
            following = next((deferred for deferred in self._waiting if self._is_next(deferred.asked)), None)
            if following is None:
                break
            self._waiting.remove(following)
            self._owner.write_event("released", following)
            self._owner.resume_later(following, replayed=True)
            asked = following.asked
        if self._waiting:
            self._arm()

    def _pass_all(self) -> None:
        self._disarm()
        waiting, self._waiting = self._waiting, []
        for deferred in waiting:
            self._owner.write_event("released", deferred)
            self._owner.resume_later(deferred, replayed=True)
        if self._over is not None and not self._over.done():
            self._over.set_result(None)

    def _arm(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._deadline_ms / 1000, self._diverge)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _diverge(self) -> None:
        self._timer = None
        lines = [
            f"the recorded order is broken at entry {self._entries[self._at].n} "
            f"({self._at + 1} of {len(self._entries)} that are not free):",
            f"  expected: {self.expected}",
            f"  within {duration_text(self._deadline_ms)} came:",
            *(f"    {text}" for text in self.waiting),
        ]
        if self._at:
            lines.append("  before it passed:")
            lines += [f"    {entry.n}: {entry.text()}" for entry in self._entries[max(0, self._at - 3) : self._at]]
        self.diverged = Diverged("\n".join(lines))
        self._owner.write_event(
            "diverged", self._waiting[0], f"expected {self.expected}, came {'; '.join(self.waiting)}"
        )
        self._pass_all()
