"""The order of requests at the brokers, scripted: held back, let through one by one, recorded, and played again.

    async with kafka.order.hold("JoinGroup", group="billing") as hold:     # they wait, in the order in which they came
        await hold.arrived(3)
        await hold.step()                       # the first goes to its handler
        hold.release(client_id="app-3")         # then this one
    # the rest went on when the block ended

    with kafka.order.record() as recording: ...
    recording.save("order.ndjson")
    async with kafka.order.replay("order.ndjson") as replay:
        await replay.done()                     # raises Diverged where the same requests do not come in the same order

Rules:

1. The first hold that takes a request has it; once let go it comes to the replay, if there is one, and then to the handlers.
2. A connection has one request at a time: what follows a held one on its connection waits unread.
3. A record is an ndjson file of ``{n, api, client_id, group, member, topics}``. Members are called m1, m2, .. in the order in which
   they appear, so that a record fits the member ids of another run: a name is bound to the first id that comes in its place.
4. A replay lets the APIs in ``free`` pass at any time, all others in the recorded order alone. An early request waits.
   If requests wait for ``deadline`` of real time and the expected one does not arrive, the replay has diverged: all requests pass, and
   ``done()`` and the end of its block raise Diverged.
5. Requests go on from a fresh turn of the event loop, never from inside the handling of another request.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Unpack

from broker_sim.common.text import UsageError, duration_ms
from broker_sim.faults.recorded import DeferredRequest, Diverged, Entry, Guard, Recording, Replay, entry_from, load
from broker_sim.faults.registry import EventWriter
from broker_sim.faults.selectors import ApiName, Asked, Selector, SelectorKeys, api_key_of, selector_from
from broker_sim.journal import WaitTimeout
from kafka_wire.api_keys import DEFAULT_VERSION

__all__ = ["FREE", "Diverged", "Hold", "Order", "Recording", "Replay", "load"]

FREE = ("ApiVersions", "Fetch", "Heartbeat", "Metadata")
"""APIs whose place in the order says little: they come by the client's own clock."""


# --- hold -------------------------------------------------------------------------------------------------------------


class Hold(Guard):
    """Requests that match its selectors wait, in order of arrival, until they are released."""

    def __init__(self, owner: Order, selector: Selector) -> None:
        self.selector = selector
        self.ended = False
        self._owner = owner
        self.hits = 0
        """Number of requests that were held."""
        self._waiting: list[DeferredRequest] = []
        self._watchers: list[tuple[int, asyncio.Future[None]]] = []

    @property
    def waiting(self) -> list[str]:
        """The waiting requests as text, in order of arrival."""
        return [deferred.asked.text() for deferred in self._waiting]

    def __len__(self) -> int:
        return len(self._waiting)

    def arrived(self, n: int = 1, timeout: object = "10s") -> Coroutine[Any, Any, None]:
        """Wait until at least ``n`` requests are held. Raises WaitTimeout after ``timeout`` of real time."""
        return self._arrived(n, duration_ms(timeout, "timeout"))

    async def _arrived(self, n: int, timeout_ms: int) -> None:
        if len(self._waiting) >= n:
            return
        watcher = (n, asyncio.get_running_loop().create_future())
        self._watchers.append(watcher)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await watcher[1]
        except TimeoutError:
            what = f"{n} request{'s' if n > 1 else ''} held by {self.selector.text()}"
            now = "; ".join(self.waiting) or "none"
            raise WaitTimeout(what, timeout_ms, f"{len(self._waiting)} waiting: {now}") from None
        finally:
            self._watchers.remove(watcher)

    def release(
        self, n: int | str = 1, match: Mapping[str, object] | None = None, **selectors: Unpack[SelectorKeys]
    ) -> int:
        """Release the first ``n`` (or ``"all"``) held requests, or of those that match the selectors. Returns their number."""
        if n != "all" and (isinstance(n, bool) or not isinstance(n, int) or n < 0):
            raise UsageError(f"release: {n!r} is invalid (expected a number of requests, or 'all')")
        selector = self._owner.selector({**(match or {}), **selectors})
        fitting = [deferred for deferred in self._waiting if selector.matches(deferred.asked)]
        chosen = fitting if isinstance(n, str) else fitting[:n]
        for deferred in chosen:
            self._release(deferred)
        return len(chosen)

    def step(self, timeout: object = "10s", **selectors: Unpack[SelectorKeys]) -> Coroutine[Any, Any, str]:
        """Release the oldest held request, or the next to arrive, and wait until it is handled: answered or deferred. Returns the
        request as text. Raises WaitTimeout after ``timeout`` of real time."""
        return self._step(self._owner.selector(selectors), duration_ms(timeout, "timeout"))

    async def _step(self, selector: Selector, timeout_ms: int) -> str:
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout_ms / 1000
        while not (fitting := [deferred for deferred in self._waiting if selector.matches(deferred.asked)]):
            left_ms = max(0, round((until - loop.time()) * 1000))
            await self._arrived(len(self._waiting) + 1, left_ms)
        deferred = fitting[0]
        deferred.handed_on = loop.create_future()
        self._release(deferred)
        await deferred.handed_on
        return deferred.asked.text()

    def end(self) -> None:
        """End the hold and release its requests. A second call has no effect."""
        if not self.ended:
            self.ended = True
            self._owner.forget(self)
            self.release("all")

    remove = heal = end

    def __enter__(self) -> Hold:
        return self

    async def __aenter__(self) -> Hold:
        return self

    def __repr__(self) -> str:
        return f"<hold of {self.selector.text()}: {len(self._waiting)} waiting>"

    def _release(self, deferred: DeferredRequest) -> None:
        self._waiting.remove(deferred)
        self._owner.write_event("released", deferred)
        self._owner.resume_later(deferred)

    def add(self, deferred: DeferredRequest) -> None:
        """Add a request that has to wait; called by `Order`."""
        self.hits += 1
        self._waiting.append(deferred)
        self._owner.write_event("held", deferred)
        for wanted, done in self._watchers:
            if len(self._waiting) >= wanted and not done.done():
                done.set_result(None)

    def drop(self, request_id: int) -> None:
        """Forget a waiting request whose client has disconnected; called by `Order`."""
        self._waiting = [deferred for deferred in self._waiting if deferred.request_id != request_id]


# --- all of it --------------------------------------------------------------------------------------------------------


class Order:
    """The holds, recordings and the replay of a cluster.

    A client call that needs a held response, such as the start of a consumer while JoinGroup is held, returns only after the
    release: make it in a task.
    """

    def __init__(
        self,
        journal: EventWriter | None = None,
        *,
        as_version: str = DEFAULT_VERSION,
        brokers: Callable[[], Iterable[int]] | None = None,
    ) -> None:
        self.journal = journal
        self.holds: list[Hold] = []
        self.recordings: list[Recording] = []
        self.replaying: Replay | None = None
        self._as_version, self._brokers = as_version, brokers
        self._deferred: dict[int, DeferredRequest] = {}

    def hold(self, api: ApiName | None = None, **selectors: Unpack[SelectorKeys]) -> Hold:
        """Requests that fit wait from now on; ``selectors`` are those of rules. Raises UsageError."""
        hold = Hold(self, self.selector({"api": api, **selectors}))
        self.holds.append(hold)
        return hold

    def record(self) -> Recording:
        """Record the order of all requests from now on."""
        recording = Recording(self)
        self.recordings.append(recording)
        return recording

    def replay(
        self,
        recorded: str | os.PathLike[str] | Recording | Iterable[Entry | Mapping[str, Any]],
        *,
        free: Iterable[str] = FREE,
        deadline: object = "5s",
    ) -> Replay:
        """Admit requests in a recorded order, one at a time: from a file, a recording, or entries. Raises UsageError."""
        if self.replaying is not None:
            raise UsageError("an order is being replayed already; stop that first")
        if isinstance(recorded, str | os.PathLike):
            entries = load(recorded)
        elif isinstance(recorded, Recording):
            entries = list(recorded.entries)
        else:
            entries = [
                event if isinstance(event, Entry) else entry_from(event, f"entry {number}")
                for number, event in enumerate(recorded, 1)
            ]
        keys = frozenset(api_key_of(name) for name in free)
        self.replaying = Replay(self, entries, keys, duration_ms(deadline, "deadline"))
        return self.replaying

    def clear(self) -> None:
        """End every hold, recording and replay; waiting requests continue."""
        for hold in list(self.holds):
            hold.end()
        if self.replaying is not None:
            self.replaying.end()
        self.recordings.clear()

    @property
    def waiting(self) -> list[str]:
        """All waiting requests as text, in order of arrival."""
        return [deferred.asked.text() for deferred in self._deferred.values()]

    def selector(self, values: Mapping[str, object]) -> Selector:
        """The selector of the requests that a hold takes."""
        given = {key: value for key, value in values.items() if value is not None}
        brokers = None if self._brokers is None else self._brokers()
        return selector_from(given, as_version=self._as_version, brokers=brokers)

    # --- for the tap --------------------------------------------------------------------------------------------------

    def must_wait(self, request_id: int, asked: Asked, resume: Callable[[], object]) -> bool:
        """Whether the request must wait; ``go()`` is called once it may go on, in a turn of its own."""
        deferred = DeferredRequest(request_id, asked, resume)
        for hold in self.holds:
            if hold.selector.matches(asked):
                self._deferred[request_id] = deferred
                hold.add(deferred)
                return True
        return not self._passes_replay(deferred)

    def client_disconnected(self, request_id: int) -> None:
        """The client of a request disappeared, whether it waits here or not."""
        deferred = self._deferred.pop(request_id, None)
        if deferred is None:
            return
        deferred.is_disconnected = True
        for hold in self.holds:
            hold.drop(request_id)
        if self.replaying is not None:
            self.replaying.drop(request_id)
        self._finish_step(deferred)

    def _passes_replay(self, deferred: DeferredRequest) -> bool:
        """Past the holds: whether it goes on now, or waits for its turn in the replay."""
        if self.replaying is not None and self.replaying.must_wait(deferred):
            self._deferred[deferred.request_id] = deferred
            return False
        for recording in self.recordings:
            recording.note(deferred.asked)
        return True

    # --- for holds and replays ----------------------------------------------------------------------------------------

    def resume_later(self, deferred: DeferredRequest, *, replayed: bool = False) -> None:
        """Let it go on from the loop."""
        asyncio.get_running_loop().call_soon(self._resume, deferred, replayed)

    def _resume(self, deferred: DeferredRequest, replayed: bool) -> None:
        if not deferred.is_disconnected:
            if replayed:
                for recording in self.recordings:
                    recording.note(deferred.asked)
            elif not self._passes_replay(deferred):
                self._finish_step(deferred)
                return
            self._deferred.pop(deferred.request_id, None)
            deferred.resume()
        self._finish_step(deferred)

    def _finish_step(self, deferred: DeferredRequest) -> None:
        if deferred.handed_on is not None and not deferred.handed_on.done():
            deferred.handed_on.set_result(None)

    def forget(self, guard: Guard) -> None:
        """A hold, a recording or the replay has ended."""
        if guard is self.replaying:
            self.replaying = None
        self.holds = [hold for hold in self.holds if hold is not guard]
        self.recordings = [recording for recording in self.recordings if recording is not guard]

    def write_event(self, action: str, deferred: DeferredRequest, text: str | None = None) -> None:
        if self.journal is not None:
            self.journal.write("order", action=action, request=deferred.request_id, text=text or deferred.asked.text())
