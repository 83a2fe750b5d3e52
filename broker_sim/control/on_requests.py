"""Operations on requests: rules that break them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker_sim.control.resolve import not_there, strangers
from broker_sim.control.shapes import FAULT
from broker_sim.control.table import TIMEOUT, operation
from broker_sim.faults.rules import FIELDS, rule_from
from broker_sim.fields.field import Field
from broker_sim.fields.kinds import Count, Flag

if TYPE_CHECKING:
    from broker_sim.api.cluster import Cluster
    from broker_sim.faults.registry import Fault


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
