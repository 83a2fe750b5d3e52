"""Operations on requests: those that were received, and rules that break them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from broker_sim.control.resolve import not_there, strangers
from broker_sim.control.shapes import FAULT, REQUEST
from broker_sim.control.table import TIMEOUT, operation
from broker_sim.faults.rules import FIELDS, rule_from
from broker_sim.faults.selectors import FIELDS as SELECTOR
from broker_sim.faults.selectors import selector_of
from broker_sim.fields.field import Field
from broker_sim.fields.kinds import Count, Flag
from broker_sim.journal.files import plain

if TYPE_CHECKING:
    from broker_sim.api.cluster import Cluster
    from broker_sim.api.handles.requests import RequestHistory
    from broker_sim.faults.registry import Fault
    from broker_sim.journal import Seen

_SHOWN = (
    *(
        "request",
        "ts_ms",
        "api",
        "version",
        "broker",
        "client_id",
        "client_host",
        "group",
        "member",
        "transactional_id",
    ),
    *("topics", "body"),
)


def _examine_selector(given: dict[str, Any]) -> None:
    selector_of(given)


def _received(cluster: Cluster, given: dict[str, Any]) -> RequestHistory:
    return cluster.requests(**{name: given[name] for name in SELECTOR if name in given})


def _shown_request(seen: Seen) -> dict[str, Any]:
    """A received request as JSON; see shapes.REQUEST."""
    shown = {name: seen[name] for name in _SHOWN if name in seen}
    shown |= {"answered": "answer" in seen, **{name: seen.get(name) for name in ("error", "took_ms", "answer")}}
    answer: dict[str, Any] = json.loads(json.dumps(shown, default=plain))
    return answer


LIMIT = Field("limit", Count(1, 10_000), "at most so many, the latest", default=100)


@operation(
    "request.list",
    "GET /requests",
    *SELECTOR.values(),
    LIMIT,
    answer={"requests": [REQUEST], "received": "integer"},
    examine=_examine_selector,
)
async def list_requests(cluster: Cluster, given: dict[str, Any]) -> Any:
    """List the requests that the brokers received, the latest ones, oldest first; received: the number of all that fit."""
    found = _received(cluster, given).all()
    return {"requests": [_shown_request(seen) for seen in found[-given["limit"] :]], "received": len(found)}


@operation(
    "request.wait",
    "GET /requests/wait",
    Field("count", Count(1), "number of requests", default=1),
    *SELECTOR.values(),
    Field("answered", Flag(), "only requests with a response"),
    LIMIT,
    TIMEOUT,
    answer={"requests": [REQUEST], "received": "integer"},
    waits=True,
    examine=_examine_selector,
)
async def wait_for_requests(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Wait until the brokers have received so many requests, earlier ones included; answers as request.list."""
    history = _received(cluster, given)
    await history.wait(given["count"], answered=given.get("answered", False), timeout=given["timeout"])
    return await list_requests(cluster, given)


def _examine_rule(given: dict[str, Any]) -> None:
    rule_from(given)


def _fault(cluster: Cluster, given: dict[str, Any]) -> Fault:
    there = {fault.id: fault for fault in cluster.faults.list()}
    found_fault = there.get(given["fault"])
    if found_fault is None:
        raise not_there("fault", given["fault"], list(map(str, there)))
    return found_fault


RULE_ID = Field("fault", Count(1), "id of the rule, from the response of fault.add", required=True, example=1)


@operation(
    "fault.add",
    "POST /faults",
    *FIELDS.values(),
    answer={**FAULT.fields, "note?": "string"},
    examine=_examine_rule,
)
async def add_fault(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Add a request rule: selectors (all must match), how often it applies, and one action."""
    note = strangers(cluster, given)
    return {**cluster.fault(**given).to_dict(), **({"note": note} if note else {})}


@operation("fault.list", "GET /faults", answer={"faults": [FAULT]})
async def list_faults(cluster: Cluster, given: dict[str, Any]) -> Any:
    """List the request rules, oldest first."""
    return {"faults": [fault.to_dict() for fault in cluster.faults.list()]}


@operation(
    "fault.get",
    "GET /faults/{fault}",
    RULE_ID,
    Field("wait_hits", Count(1), "wait until it has matched this often"),
    TIMEOUT,
    answer=FAULT,
    waits=True,
)
async def get_fault(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Show a rule and how often it matched; with wait_hits, once it has matched that often."""
    fault = _fault(cluster, given)
    if "wait_hits" in given:
        await fault.wait(given["wait_hits"], timeout=given["timeout"])
    return fault.to_dict()


@operation(
    "fault.wait",
    "GET /faults/{fault}/hits",
    RULE_ID,
    Field("hits", Count(1), "how many", default=1),
    TIMEOUT,
    answer=FAULT,
    waits=True,
)
async def wait_fault(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Wait until a rule has matched that often."""
    fault = _fault(cluster, given)
    await fault.wait(given["hits"], timeout=given["timeout"])
    return fault.to_dict()


@operation("fault.release", "POST /faults/{fault}/release", RULE_ID, answer=FAULT)
async def release_fault(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Release the requests that a rule delays or leaves unanswered; the rule stays."""
    fault = _fault(cluster, given)
    fault.release()
    return fault.to_dict()


@operation(
    "fault.remove",
    "DELETE /faults/{fault}",
    RULE_ID,
    Field("must_hit", Flag(), "false: no error if it never matched (default: as added)"),
    answer=FAULT,
)
async def remove_fault(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Remove a rule. If it was required to match and never did, it is removed and an error is returned."""
    fault = _fault(cluster, given)
    fault.remove()
    if given.get("must_hit", True):
        fault.check()
    return fault.to_dict()


@operation("fault.clear", "DELETE /faults", answer={"removed": [FAULT]})
async def clear_faults(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Remove all rules, matched or not."""
    faults = cluster.faults.list()
    cluster.faults.clear()
    return {"removed": [fault.to_dict() for fault in faults]}
