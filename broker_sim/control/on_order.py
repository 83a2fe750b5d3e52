"""Operations on the order of requests: hold them back and let them go, record an order and play it again."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from broker_sim.common.text import UsageError
from broker_sim.control.resolve import not_there, strangers
from broker_sim.control.shapes import ENTRY, HOLD, REPLAY
from broker_sim.control.table import TIMEOUT, NotThere, operation
from broker_sim.faults.selectors import FIELDS as SELECTOR
from broker_sim.faults.selectors import selector_of
from broker_sim.fields.field import Field
from broker_sim.fields.kafka import ApiName
from broker_sim.fields.kinds import Count, Duration, Flag, ListOf, Objects

if TYPE_CHECKING:
    from broker_sim.api.cluster import Cluster
    from broker_sim.faults.order import Hold, Recording, Replay


def _examine_hold(given: dict[str, Any]) -> None:
    selector_of(given)


_numbers = itertools.count(1)
_holds: WeakKeyDictionary[Hold, int] = WeakKeyDictionary()


def _number(hold: Hold) -> int:
    """Number of a hold in the control API."""
    if hold not in _holds:
        _holds[hold] = next(_numbers)
    return _holds[hold]


def _shown(hold: Hold) -> dict[str, Any]:
    """A hold as JSON; see shapes.HOLD."""
    return {"id": _number(hold), "text": hold.selector.text(), "ended": hold.ended, "waiting": hold.waiting}


def _hold(cluster: Cluster, given: dict[str, Any]) -> Hold:
    there = {_number(hold): hold for hold in cluster.order.holds}
    found_hold = there.get(given["hold"])
    if found_hold is None:
        raise not_there("hold", given["hold"], list(map(str, there)))
    return found_hold


HOLD_ID = Field("hold", Count(1), "id of the hold, from the response of order.hold", required=True, example=1)


@operation(
    "order.hold", "POST /order", *SELECTOR.values(), answer={**HOLD.fields, "note?": "string"}, examine=_examine_hold
)
async def hold(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Hold matching requests, in arrival order, until they are released."""
    note = strangers(cluster, given)
    return {**_shown(cluster.order.hold(**given)), **({"note": note} if note else {})}


@operation("order.list", "GET /order", answer={"holds": [HOLD]})
async def list_holds(cluster: Cluster, given: dict[str, Any]) -> Any:
    """List the holds and the requests that wait in them."""
    return {"holds": [_shown(hold) for hold in cluster.order.holds]}


@operation(
    "order.wait",
    "GET /order/{hold}",
    HOLD_ID,
    Field("waiting", Count(0), "wait until this many requests are held (0: don't wait)", default=0),
    TIMEOUT,
    answer=HOLD,
    waits=True,
)
async def wait_hold(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Show the held requests of a hold; with waiting, once it holds that many."""
    hold = _hold(cluster, given)
    if given["waiting"]:
        await hold.arrived(given["waiting"], timeout=given["timeout"])
    return _shown(hold)


@operation(
    "order.release",
    "POST /order/{hold}/release",
    HOLD_ID,
    Field("count", Count(1), "number of requests, oldest first (default: all)"),
    answer=HOLD,
)
async def release(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Release held requests, oldest first; the hold stays active."""
    hold = _hold(cluster, given)
    hold.release(given.get("count", "all"))
    return _shown(hold)


@operation(
    "order.step",
    "POST /order/{hold}/step",
    HOLD_ID,
    TIMEOUT,
    answer={**HOLD.fields, "stepped": "string"},
    waits=True,
)
async def step(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Release the oldest held request, waiting for one if necessary, and return it."""
    hold = _hold(cluster, given)
    stepped = await hold.step(timeout=given["timeout"])
    return {**_shown(hold), "stepped": stepped}


@operation("order.remove", "DELETE /order/{hold}", HOLD_ID, answer=HOLD)
async def remove_hold(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Remove a hold and release its requests, oldest first."""
    hold = _hold(cluster, given)
    hold.end()
    return _shown(hold)


# --- record and replay ------------------------------------------------------------------------------------------------


def _recorded(recording: Recording) -> dict[str, Any]:
    return {"entries": [entry.to_dict() for entry in recording.entries]}


def _recording(cluster: Cluster) -> Recording:
    if not cluster.order.recordings:
        raise NotThere("no order is being recorded; start with order.record")
    return cluster.order.recordings[-1]


@operation("order.record", "POST /order/recording", answer={"entries": [ENTRY]})
async def record(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Record the order of all requests from now on."""
    if cluster.order.recordings:
        raise UsageError("an order is being recorded already; stop it first with order.stop")
    return _recorded(cluster.order.record())


@operation("order.recorded", "GET /order/recording", answer={"entries": [ENTRY]})
async def show_recording(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Show the requests of the recorded order."""
    return _recorded(_recording(cluster))


@operation("order.stop", "DELETE /order/recording", answer={"entries": [ENTRY]})
async def stop_recording(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Stop the recording and return it."""
    recording = _recording(cluster)
    recording.end()
    return _recorded(recording)


def _replayed(replay: Replay) -> dict[str, Any]:
    return {
        "position": replay.position,
        "expected": replay.expected,
        "waiting": replay.waiting,
        "ended": replay.ended,
        "diverged": None if replay.diverged is None else str(replay.diverged),
    }


def _replay(cluster: Cluster) -> Replay:
    replay = cluster.order.replaying
    if replay is None:
        raise NotThere("no order is being replayed; start with order.replay")
    return replay


@operation(
    "order.replay",
    "POST /order/replay",
    Field("entries", Objects(), "the recorded order: the response of order.stop", required=True),
    Field(
        "free",
        ListOf(ApiName(pattern=False)),
        "APIs that are not held back (default: ApiVersions, Fetch, Heartbeat, Metadata)",
    ),
    Field(
        "deadline", Duration(), "how long to wait for the next request while others are held, in real time", default=5.0
    ),
    answer=REPLAY,
)
async def replay(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Release requests in a recorded order; early ones wait. If an expected request never arrives, the replay has diverged."""
    options = {name: given[name] for name in ("free", "deadline") if name in given}
    return _replayed(cluster.order.replay(given["entries"], **options))


@operation(
    "order.replayed",
    "GET /order/replay",
    Field("done", Flag(), "wait until the whole recording was replayed"),
    TIMEOUT,
    answer=REPLAY,
    waits=True,
    errors=(409,),
)
async def show_replay(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Show the progress of the replay; with done, once it is complete. A diverged replay is an error then."""
    replay = _replay(cluster)
    if given.get("done"):
        await replay.done(timeout=given["timeout"])
    return _replayed(replay)


@operation("order.unreplay", "DELETE /order/replay", answer=REPLAY)
async def end_replay(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Stop the replay and release the waiting requests."""
    replay = _replay(cluster)
    replay.end()
    return _replayed(replay)
