"""The face of a cluster for code without an event loop: whatever is asked of it is done on the cluster's thread, and waited for.

    with ClusterThread(topics={"orders": 6}) as kafka:
        kafka.group("billing").stable(members=3)
        with kafka.offsets_log("billing").stuck() as jam:
            jam.pending(1)

Rules:
1. A `Blocking` is a proxy of an object of the cluster. Its attributes are read, its methods called and their coroutines awaited on the
   cluster's thread. What comes back is a plain value, or again a `Blocking`.
2. Plain are: None, numbers, texts, bytes, enums, exceptions, frozen dataclasses, journal events, and lists, tuples, sets and dicts
   (copied over there).
3. ``with`` enters and leaves what can be entered, asynchronous or not. An exception comes through as it is.
4. A handle's `Blocking` is of a class that has the handle's name: those of `FACES`, whose types stand in sync.pyi.
5. On the cluster's own thread, as in a listener of the journal, a call would wait for itself: that is a RuntimeError.
"""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import functools
import inspect
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from types import TracebackType
from typing import Any, Protocol

from broker_sim.journal import WaitTimeout

__all__ = ["FACES", "Blocking", "LoopThread", "plain"]

_ATOMS = (type(None), bool, int, float, complex, str, bytes, enum.Enum, BaseException, type)


class LoopThread(Protocol):
    """An object that runs a coroutine on the cluster's thread and returns its result."""

    def _await(self, work: Coroutine[Any, Any, Any]) -> Any: ...


class Blocking:
    """``target`` of the cluster on ``thread``; see the rules above."""

    __slots__ = ("_target", "_thread")

    def __init__(self, thread: LoopThread, target: object) -> None:
        object.__setattr__(self, "_thread", thread)
        object.__setattr__(self, "_target", target)

    def __getattr__(self, name: str) -> Any:
        target = self._target
        attribute = inspect.getattr_static(target, name, None)
        if inspect.isfunction(attribute) or isinstance(attribute, classmethod | staticmethod):
            return self._method(getattr(target, name))
        return self._do(lambda: getattr(target, name))

    def __setattr__(self, name: str, value: object) -> None:
        target = self._target
        self._do(lambda: setattr(target, name, value))

    def __enter__(self) -> Any:
        target = self._target
        return self._do(target.__aenter__ if hasattr(target, "__aenter__") else target.__enter__)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Any:
        target = self._target
        leave = target.__aexit__ if hasattr(target, "__aexit__") else target.__exit__
        return self._do(lambda: leave(kind, error, trace))

    def __len__(self) -> int:
        target = self._target
        return int(self._do(lambda: len(target)))

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[Any]:
        target = self._target
        return iter(self._do(lambda: list(target)))

    def __getitem__(self, key: object) -> Any:
        target = self._target
        return self._do(lambda: target[key])

    def __setitem__(self, key: object, value: object) -> None:
        target = self._target
        self._do(lambda: target.__setitem__(key, value))

    def __delitem__(self, key: object) -> None:
        target = self._target
        self._do(lambda: target.__delitem__(key))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Blocking) and self._target is other._target

    def __hash__(self) -> int:
        return id(self._target)

    def __repr__(self) -> str:
        return str(self._do(self._target.__repr__))

    def __dir__(self) -> list[str]:
        return dir(self._target)

    def _method(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def call(*arguments: Any, **named: Any) -> Any:
            given = [_unwrapped(argument) for argument in arguments]
            given_named = {name: _unwrapped(value) for name, value in named.items()}
            return self._do(lambda: method(*given, **given_named))

        return call

    def _do(self, function: Callable[[], Any]) -> Any:
        """Call ``function`` over there, await what it returns if need be, and bring the result over."""

        async def call() -> Any:
            result = function()
            if inspect.isawaitable(result) and not isinstance(result, asyncio.Future):
                result = await result
            return _carried(result, self._thread)

        here = _running_loop()
        if here is getattr(self._thread, "_loop", self):
            raise RuntimeError("this is the cluster's own thread, where a call would wait for itself")
        try:
            return _brought(self._thread._await(call()), self)
        except WaitTimeout as error:
            if here is not None:
                error.add_note(_BLOCKS)
            raise


FACES = {
    name: type(name, (Blocking,), {"__slots__": (), "__module__": "broker_sim.sync"})
    for name in (
        *(
            "Cluster",
            "GroupHandle",
            "ShareGroupHandle",
            "TransactionHandle",
            "LogHandle",
            "StateGuard",
            "Pending",
            "TopicHandle",
        ),
        *("BrokerHandle", "Down", "RequestHistory"),
        *("Fault", "Faults", "Order", "Hold", "Recording", "Replay", "TimeControl", "Journal"),
    )
}
"""The blocking class, by the name of the class that it wraps."""


_BLOCKS = "this call blocked the event loop of its thread, and the clients there: await asyncio.to_thread(...) lets them run meanwhile"
"""For a wait that timed out. A group whose members are on that loop can't become Stable before it ends."""


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def plain(value: object) -> bool:
    """Whether a value may be used outside of the cluster's thread as it is."""
    if isinstance(value, _ATOMS):
        return True
    frozen = getattr(getattr(type(value), "__dataclass_params__", None), "frozen", False)
    return dataclasses.is_dataclass(value) and bool(frozen)


def _carried(value: object, thread: LoopThread) -> Any:
    """Return a value for use outside of the cluster's thread, on which this runs: copies of containers, a `Blocking` for objects that
    must stay on that thread."""
    if plain(value) or isinstance(value, Blocking):
        return value
    if isinstance(value, dict):
        copied = {key: _carried(item, thread) for key, item in value.items()}
        if type(value).__init__ is not dict.__init__:
            return copied
        made = type(value)(copied)  # a subclass that is made as a dict is
        for name, attribute in getattr(value, "__dict__", {}).items():
            setattr(made, name, _carried(attribute, thread))
        return made
    if isinstance(value, tuple):
        items = [_carried(item, thread) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if isinstance(value, list | set | frozenset | deque):
        kind = type(value) if isinstance(value, set | frozenset) else list
        return kind(_carried(item, thread) for item in value)
    kind = next((FACES[base.__name__] for base in type(value).__mro__ if base.__name__ in FACES), Blocking)
    return kind(thread, value)


def _brought(value: object, owner: Blocking) -> Any:
    """A function that was returned is called over there, too."""
    if isinstance(value, Blocking) and inspect.isroutine(value._target):
        return owner._method(value._target)
    return value


def _unwrapped(value: object) -> Any:
    return value._target if isinstance(value, Blocking) else value
