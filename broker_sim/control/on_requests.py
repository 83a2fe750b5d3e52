"""Operations on requests: rules that break them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker_sim.control.names import not_there, strangers
from broker_sim.control.shapes import FAULT
from broker_sim.control.table import TIMEOUT, Parameter, operation

if TYPE_CHECKING:
    from broker_sim.cluster import Cluster
    from broker_sim.faults.registry import Fault

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
    from broker_sim.faults.rules import rule_from

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
    "fault.add",
    "POST /faults",
    *SELECTORS,
    *BUDGET,
    *VERDICTS,
    *REFINEMENTS,
    answer={**FAULT.fields, "note?": "string"},
    examine=_examine_rule,
)
async def add_fault(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Add a rule that breaks requests: which ones (all selectors must match), how often, and one verdict."""
    note = strangers(cluster, given)
    return {**cluster.fault(**given).to_dict(), **({"note": note} if note else {})}


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
        await fault.wait(given["wait_hits"], timeout=given["timeout"])
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
    await fault.wait(given["hits"], timeout=given["timeout"])
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
