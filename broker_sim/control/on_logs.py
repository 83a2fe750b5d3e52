"""Operations on log partitions: lasting states, who waits for them, and who leads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from broker_sim.common.text import UsageError, expected
from broker_sim.control.on_topics import RECORDS, VALUE_BYTES, examine_fill
from broker_sim.control.resolve import AHEAD, check_broker, log_of, not_there
from broker_sim.control.shapes import EVENT, LOG, STATE
from broker_sim.control.table import TIMEOUT, operation
from broker_sim.fields.field import Field
from broker_sim.fields.kafka import LogName
from broker_sim.fields.kinds import Choice, Count, Duration, Flag

if TYPE_CHECKING:
    from broker_sim.api.cluster import Cluster
    from broker_sim.api.handles import LogHandle

ONLINE = "online"
"""The state of a log that is in none; to set it is to heal."""

LOG_NAME = Field(
    "log",
    LogName(),
    "a log partition: orders-0, __consumer_offsets-12, offsets(GROUP) or transactions(ID)",
    required=True,
    example="offsets(billing)",
)


def _log(cluster: Cluster, given: dict[str, Any]) -> LogHandle:
    return log_of(cluster, given["log"], ahead=given.get("ahead", False))


def _broken_log(cluster: Cluster, given: dict[str, Any]) -> LogHandle:
    """The same; who broke the partition of a group ahead of it need not say so again."""
    log = log_of(cluster, given["log"], ahead=True)
    return log if cluster.conditions.of(log.partition) else _log(cluster, given)


def _kinds() -> Iterable[str]:
    from broker_sim.faults.conditions import KINDS

    return [*KINDS, ONLINE]


ARGUMENTS = ("latency", "jitter", "isr_shrinks_after", "free_bytes")
"""Parameters of the kinds of states, besides their duration."""


def _examine_state(given: dict[str, Any]) -> None:
    from broker_sim.faults.conditions import KINDS

    kind = KINDS.get(given["state"])
    takes = () if kind is None else (*kind.arguments, "for", "replace")
    for name in (*ARGUMENTS, "for"):
        if name in given and name not in takes:
            raise UsageError(f"state {given['state']!r} has no argument {name!r}; {expected(name, takes)}")
    if given["state"] == "slow" and "latency" not in given:
        raise UsageError("the state 'slow' needs a latency, as in 200ms")


def shown(log: LogHandle) -> dict[str, Any]:
    """A log as JSON; see shapes.LOG."""
    partition = log.partition
    return {
        "log": log.name,
        "leader": partition.leader,
        "leader_epoch": partition.leader_epoch,
        "replicas": list(partition.replicas),
        "isr": list(partition.isr),
        "log_start_offset": partition.log_start_offset,
        "high_watermark": partition.high_watermark,
        "log_end_offset": partition.log_end_offset,
        "states": [condition.to_dict() for condition in log.cluster.conditions.of(partition)],
    }


@operation(
    "state.set",
    "PUT /logs/{log}/state",
    LOG_NAME,
    Field("state", Choice(_kinds), "the fault state; online clears all", example="stuck", required=True),
    Field("for", Duration(), "clear the state after this time on the broker's clock", example="40s"),
    Field("latency", Duration(), "slow: delay of each append until it is committed"),
    Field("jitter", Duration(), "slow: maximum random additional delay"),
    Field("isr_shrinks_after", Duration(), "stuck: when the non-fetching followers leave the ISR"),
    Field("free_bytes", Count(0), "full: remaining space in bytes"),
    Field("replace", Flag(), "clear a state that excludes this one"),
    AHEAD,
    answer=LOG,
    examine=_examine_state,
)
async def set_state(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Set a fault state of a log partition; its leader and its group coordinator behave accordingly until it is cleared."""
    log = _log(cluster, given)
    if given["state"] == ONLINE:
        log.heal()
    else:
        arguments = {name: given[name] for name in ARGUMENTS if name in given}
        log.set(given["state"], for_=given.get("for"), replace=given.get("replace", False), **arguments)
    return shown(log)


@operation(
    "state.heal",
    "DELETE /logs/{log}/state",
    LOG_NAME,
    Field("state", Choice(_kinds), "only this state (default: all states of the log)"),
    Field("id", Count(1), "only the state with this id; no error if it has already ended"),
    AHEAD,
    answer=LOG,
)
async def heal_state(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Clear the fault states of a log partition; pending requests continue."""
    log = _broken_log(cluster, given)
    kind = given.get("state", ONLINE)
    if "id" in given:
        _heal_one(log, given["id"])
    elif kind == ONLINE:
        log.heal()
    else:
        lasting = [condition for condition in cluster.conditions.of(log.partition) if condition.kind.name == kind]
        if not lasting:
            raise UsageError(f"{log.name} is not {kind}; it is {' and '.join(log.states) or ONLINE}")
        for fault in lasting:
            cluster.conditions.heal(fault)
    return shown(log)


def _heal_one(log: LogHandle, number: int) -> None:
    """Heal what was set under that id. Raises NotThere, UsageError for a state of another log."""
    conditions = log.cluster.conditions
    if number > conditions.last_number:
        raise not_there("state", number, [str(condition.number) for condition in conditions.of()])
    for state in conditions.of():
        if state.number == number:
            if state.partition is not log.partition:
                raise UsageError(f"state {number} is not one of {log.name}: {state.text}")
            conditions.heal(state)


@operation("state.list", "GET /states", answer={"states": [STATE]})
async def list_states(cluster: Cluster, given: dict[str, Any]) -> Any:
    """List the active fault states of all log partitions."""
    return {"states": [condition.to_dict() for condition in cluster.conditions.of()]}


@operation("log.get", "GET /logs/{log}", LOG_NAME, AHEAD, answer=LOG)
async def get_log(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Show a log partition: leader, replicas, offsets, fault states."""
    return shown(_broken_log(cluster, given))


@operation(
    "log.fill",
    "POST /logs/{log}/records",
    LOG_NAME,
    RECORDS._replace(doc="how many", example=100),
    VALUE_BYTES,
    answer=LOG,
    examine=examine_fill,
)
async def fill_log(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Append records to a partition, as a producer does."""
    log = _log(cluster, given)
    return shown(log.fill(given["records"], value_bytes=given.get("value_bytes")))


@operation(
    "log.wait",
    "GET /logs/{log}/pending",
    LOG_NAME,
    Field("pending", Count(1), "number of pending requests", default=1),
    AHEAD,
    TIMEOUT,
    answer={"log": "string", "pending": [EVENT]},
    waits=True,
)
async def wait_log(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Wait until this many requests have an append in a log that is not committed yet."""
    log = _broken_log(cluster, given)
    waiting = await log.pending(given["pending"], timeout=given["timeout"])
    return {"log": log.name, "pending": [event.request for event in waiting]}


_LOSS = (
    LOG_NAME,
    Field("records", Count(1), "how many records", example=50),
    Field("to", Count(0), "instead of records: the new end or start offset of the log", example=100),
    Field("leader", Count(0), "node id of the new leader (default: another replica that is up)"),
    AHEAD,
)


def _examine_loss(given: dict[str, Any]) -> None:
    if ("records" in given) == ("to" in given):
        raise UsageError("the amount to lose is missing; expected one of records, to (an offset)")


@operation("log.lose_tail", "POST /logs/{log}/tail/loss", *_LOSS, answer=LOG, examine=_examine_loss)
async def lose_tail(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Delete committed records at the end of a log, as an unclean leader election or a restored disk does."""
    log = _log(cluster, given)
    return shown(log.lose_tail(given.get("records"), to=given.get("to"), leader=given.get("leader")))


@operation("log.lose_head", "POST /logs/{log}/head/loss", *_LOSS, answer=LOG, examine=_examine_loss)
async def lose_head(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Delete the first records of a log, as a leader whose log starts later does."""
    log = _log(cluster, given)
    return shown(log.lose_head(given.get("records"), to=given.get("to"), leader=given.get("leader")))


@operation(
    "leader.move",
    "POST /logs/{log}/leader",
    LOG_NAME,
    Field("broker", Count(0), "node id of the new leader (default: the next broker that is up)", example=2),
    AHEAD,
    answer=LOG,
)
async def move_leader(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Move the leader of a log partition; for an offsets partition this moves the coordinator of its groups."""
    log = _log(cluster, given)
    if "broker" in given:
        check_broker(cluster, given["broker"])
    log.move_to(given.get("broker"))
    return shown(log)


@operation(
    "leader.elect",
    "POST /logs/{log}/elect",
    LOG_NAME,
    Field("broker", Count(0), "an in-sync replica (default: the current leader)"),
    AHEAD,
    answer=LOG,
)
async def elect_leader(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Increment the leader epoch; requests with the old one get FENCED_LEADER_EPOCH."""
    log = _log(cluster, given)
    if "broker" in given:
        check_broker(cluster, given["broker"])
    log.elect(given.get("broker"))
    return shown(log)


@operation("leader.prefer", "POST /leaders/preferred", answer={"changed": "integer"})
async def elect_preferred(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Elect the preferred leader of every partition whose first replica is alive and in sync."""
    return {"changed": cluster.elect_preferred()}
