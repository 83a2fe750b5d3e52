"""Operations on requests: rules that break them, and their order."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from broker_sim.control.names import not_there
from broker_sim.control.shapes import FAULT, HOLD
from broker_sim.control.table import TIMEOUT, Parameter, operation

if TYPE_CHECKING:
    from broker_sim.cluster import Cluster
    from broker_sim.faults import Fault
    from broker_sim.order import Hold

SELECTORS = (
    Parameter(
        "api", "str", "the API's name, as in OffsetCommit; * stands for anything (default: all)", example="OffsetCommit"
    ),
    Parameter("version", "name_or_number", "API versions: 8 or 2-4"),
    Parameter("client_id", "str", "the client's id; * stands for anything"),
    Parameter("group", "str", "the group id in the request; * stands for anything", example="billing"),
    Parameter("member", "str", "the member id or instance id in the request; * stands for anything"),
    Parameter("topic", "str", "a topic in the request; * stands for anything"),
    Parameter("partition", "int", "a partition of that topic", least=0),
    Parameter("broker", "int", "only at the broker with this node id", least=0),
)
BUDGET = (
    Parameter("nth", "int", "only the n-th match, counted from 1", least=1),
    Parameter("times", "int", "at most that often (default: always)", least=1, example=3),
    Parameter("probability", "float", "hit by chance, drawn from the cluster's seed", least=0, most=1),
    Parameter("after", "duration", "begin that long after it was added"),
    Parameter("during", "duration", "for that long"),
)
VERDICTS = (
    Parameter(
        "error", "name_or_number", "answer with this error; the request is not applied", example="NOT_COORDINATOR"
    ),
    Parameter(
        "error_after", "name_or_number", "apply the request, then answer with this error", example="REQUEST_TIMED_OUT"
    ),
    Parameter("delay", "duration", "handle the request that much later", example="2s"),
    Parameter("reply_delay", "duration", "handle the request, answer that much later"),
    Parameter("hang", "bool", "neither handle nor answer the request"),
    Parameter("drop", "bool", "reset the connection; the request is not applied"),
    Parameter("drop_after", "bool", "apply the request, then reset the connection"),
    Parameter("truncate", "int", "send that many bytes of the response, then close the connection", least=0),
    Parameter("split", "int", "send the response in two parts, the first of that many bytes", least=1),
    Parameter("throttle_ms", "int", "throttle_time_ms in the response; the connection is muted for so long", least=0),
)
REFINEMENTS = (
    Parameter("gap", "duration", "split: the time between the two parts"),
    Parameter(
        "must_hit", "bool", "removing the rule without a hit is an error (default: true, but for a rule of chance)"
    ),
)


def _examine_rule(given: dict[str, Any]) -> None:
    from broker_sim.rules import rule_from

    rule_from(given)


def _fault(cluster: Cluster, given: dict[str, Any]) -> Fault:
    there = {fault.id: fault for fault in cluster.faults.list()}
    found = there.get(given["fault"])
    if found is None:
        raise not_there("fault", given["fault"], list(map(str, there)))
    return found


RULE_ID = Parameter(
    "fault", "int", "the fault's id, as it was told when it was added", required=True, least=1, example=1
)


@operation(
    "fault.add", "POST /faults", *SELECTORS, *BUDGET, *VERDICTS, *REFINEMENTS, answer=FAULT, examine=_examine_rule
)
async def add_fault(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Add a rule that breaks requests: which ones (all selectors must match), how often, and one verdict."""
    return cluster.fault(**given).to_dict()


@operation("fault.list", "GET /faults", answer={"faults": [FAULT]})
async def list_faults(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Every rule that is installed, in the order they were added."""
    return {"faults": [fault.to_dict() for fault in cluster.faults.list()]}


@operation(
    "fault.get",
    "GET /faults/{fault}",
    RULE_ID,
    Parameter("wait_hits", "int", "wait until it has hit that often", least=1),
    TIMEOUT,
    answer=FAULT,
    waits=True,
)
async def get_fault(cluster: Cluster, given: dict[str, Any]) -> Any:
    """A rule and its hits; with wait_hits once it has hit that often."""
    fault = _fault(cluster, given)
    if "wait_hits" in given:
        await fault.hit(given["wait_hits"], timeout=given["timeout"])
    return fault.to_dict()


@operation(
    "fault.wait",
    "GET /faults/{fault}/hits",
    RULE_ID,
    Parameter("hits", "int", "how many", default=1, least=1),
    TIMEOUT,
    answer=FAULT,
    waits=True,
)
async def wait_fault(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Wait until a rule has hit that often."""
    fault = _fault(cluster, given)
    await fault.hit(given["hits"], timeout=given["timeout"])
    return fault.to_dict()


@operation("fault.release", "POST /faults/{fault}/release", RULE_ID, answer=FAULT)
async def release_fault(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Let the requests that a rule hangs or delays go on at once; the rule stays."""
    fault = _fault(cluster, given)
    fault.release()
    return fault.to_dict()


@operation(
    "fault.remove",
    "DELETE /faults/{fault}",
    RULE_ID,
    Parameter("must_hit", "bool", "false: it is no error that it never hit (default: as it was added)"),
    answer=FAULT,
)
async def remove_fault(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Remove a rule. One that had to hit and never did is removed, and that is an error."""
    fault = _fault(cluster, given)
    fault.remove()
    if given.get("must_hit", True):
        fault.check()
    return fault.to_dict()


@operation("fault.clear", "DELETE /faults", answer={"removed": [FAULT]})
async def clear_faults(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Remove every rule, whether it has hit or not."""
    faults = cluster.faults.list()
    cluster.faults.clear()
    return {"removed": [fault.to_dict() for fault in faults]}


def _examine_hold(given: dict[str, Any]) -> None:
    from broker_sim.selectors import selector_from

    selector_from(given)


_numbers = itertools.count(1)
_holds: WeakKeyDictionary[Hold, int] = WeakKeyDictionary()


def _number(hold: Hold) -> int:
    """What a hold is called from outside."""
    if hold not in _holds:
        _holds[hold] = next(_numbers)
    return _holds[hold]


def _shown(hold: Hold) -> dict[str, Any]:
    """A hold as JSON; see shapes.HOLD."""
    return {"id": _number(hold), "text": hold.selector.text(), "ended": hold.ended, "waiting": hold.waiting}


def _hold(cluster: Cluster, given: dict[str, Any]) -> Hold:
    there = {_number(hold): hold for hold in cluster.order.holds}
    found = there.get(given["hold"])
    if found is None:
        raise not_there("hold", given["hold"], list(map(str, there)))
    return found


HOLD_ID = Parameter("hold", "int", "the hold's id, as it was told when it was made", required=True, least=1, example=1)


@operation("order.hold", "POST /order", *SELECTORS, answer=HOLD, examine=_examine_hold)
async def hold(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Hold back every request that matches, in the order in which they come, until it is released."""
    return _shown(cluster.order.hold(**given))


@operation("order.list", "GET /order", answer={"holds": [HOLD]})
async def list_holds(cluster: Cluster, given: dict[str, Any]) -> Any:
    """What is held back."""
    return {"holds": [_shown(one) for one in cluster.order.holds]}


@operation(
    "order.wait",
    "GET /order/{hold}",
    HOLD_ID,
    Parameter("waiting", "int", "wait until so many requests are held (0: don't wait)", default=0, least=0),
    TIMEOUT,
    answer=HOLD,
    waits=True,
)
async def wait_hold(cluster: Cluster, given: dict[str, Any]) -> Any:
    """What a hold holds; with waiting once it holds that many."""
    found = _hold(cluster, given)
    if given["waiting"]:
        await found.arrived(given["waiting"], timeout=given["timeout"])
    return _shown(found)


@operation(
    "order.release",
    "POST /order/{hold}/release",
    HOLD_ID,
    Parameter("count", "int", "how many of the requests, oldest first (default: all)", least=1),
    answer=HOLD,
)
async def release(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Let requests that are held go on, oldest first; the hold goes on for later ones."""
    found = _hold(cluster, given)
    found.release(given.get("count", "all"))
    return _shown(found)


@operation(
    "order.step",
    "POST /order/{hold}/step",
    HOLD_ID,
    TIMEOUT,
    answer={**HOLD.fields, "stepped": "string"},
    waits=True,
)
async def step(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Let the oldest request that is held go to its handler, waiting for one if need be, and tell which it was."""
    found = _hold(cluster, given)
    stepped = await found.step(timeout=given["timeout"])
    return {**_shown(found), "stepped": stepped}


@operation("order.remove", "DELETE /order/{hold}", HOLD_ID, answer=HOLD)
async def remove_hold(cluster: Cluster, given: dict[str, Any]) -> Any:
    """End a hold; what it holds goes on, oldest first."""
    found = _hold(cluster, given)
    found.end()
    return _shown(found)
