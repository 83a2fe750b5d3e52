"""Operations on log partitions: lasting states, and who leads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker_sim.conditions import KINDS
from broker_sim.control.names import examine_log, log_of
from broker_sim.control.shapes import LOG, STATE
from broker_sim.control.table import Parameter, operation
from broker_sim.words import UsageError

if TYPE_CHECKING:
    from broker_sim.cluster import Cluster

LOG_NAME = Parameter(
    "log",
    "str",
    "a log partition: orders-0, __consumer_offsets-12 or offsets(GROUP)",
    required=True,
    example="offsets(billing)",
)


def _examine_state(given: dict[str, Any]) -> None:
    examine_log(given["log"])
    if "state" not in given:
        return
    kind = KINDS[given["state"]]
    for name in ARGUMENTS:
        if name in given and name not in kind.arguments:
            takes = ", ".join((*kind.arguments, "for"))
            raise UsageError(f"state {kind.name} takes no {name}; it takes {takes}")


ARGUMENTS = (
    "isr_shrinks_after",
    "latency",
    "jitter",
    "free_bytes",
)
"""What kinds of states take, besides the time that they last."""


@operation(
    "state.set",
    "PUT /logs/{log}/state",
    LOG_NAME,
    Parameter("state", "str", "the kind of state", required=True, choices=lambda: KINDS, example="stuck"),
    Parameter("for", "duration", "heal by itself after that time on the broker's clock", example="40s"),
    Parameter("latency", "duration", "slow: how late each append is committed"),
    Parameter("jitter", "duration", "slow: up to that much more, by chance"),
    Parameter("isr_shrinks_after", "duration", "stuck: when the followers that don't fetch leave the ISR"),
    Parameter("free_bytes", "int", "full: how much room is left", least=0),
    answer=STATE,
    examine=_examine_state,
)
async def set_state(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Put a log partition into a lasting state; whoever uses it, its leader and its group coordinator behave accordingly."""
    raise NotImplementedError


@operation(
    "state.heal",
    "DELETE /logs/{log}/state",
    LOG_NAME,
    Parameter("state", "str", "only this kind of state (default: every state of the log)", choices=lambda: KINDS),
    answer={"healed": [STATE]},
    examine=_examine_state,
)
async def heal_state(cluster: Cluster, given: dict[str, Any]) -> Any:
    """End the states of a log partition."""
    raise NotImplementedError


@operation("state.list", "GET /states", answer={"states": [STATE]})
async def list_states(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Every state that lasts, of all logs."""
    raise NotImplementedError


@operation("log.get", "GET /logs/{log}", LOG_NAME, answer=LOG, examine=_examine_state)
async def get_log(cluster: Cluster, given: dict[str, Any]) -> Any:
    """A log partition: leader, replicas, offsets, states."""
    raise NotImplementedError


@operation(
    "leader.move",
    "POST /logs/{log}/leader",
    LOG_NAME,
    Parameter("broker", "int", "the node id of the new leader", required=True, least=0, example=2),
    answer=LOG,
    examine=_examine_state,
)
async def move_leader(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Let another broker lead a log partition; for an offsets partition that moves the coordinator of its groups."""
    handle = log_of(cluster, given["log"])
    raise NotImplementedError(handle)


@operation("leader.elect", "POST /logs/{log}/elect", LOG_NAME, answer=LOG, examine=_examine_state)
async def elect_leader(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Elect a leader among the replicas that are alive, the preferred one first."""
    raise NotImplementedError
