"""Fault plans drawn by a seed, as a swarm: the seed picks which kinds are on and how often they come, and only then their details.

Rules:
1. The seed draws first what share of the kinds is on: some runs are of one kind alone, and some of many.
2. The n-th fault of a kind is drawn from (seed, kind, n) and nothing else: taking one away, or a kind, leaves all others in place.
3. Whatever is drawn ends by itself before the end of the run, or is ended by the healing after it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from broker_sim.common.buggify import PROBABILITY, SITES
from broker_sim.faults.conditions import KINDS as STATES
from broker_sim.simulation.faults.disks import DRAWS, OFTEN
from broker_sim.simulation.faults.kinds import Fault, FaultPlan

__all__ = ["SWARM", "Targets", "draw", "habits"]

_SHARES = (0.02, 0.05, 0.1, 0.2, 0.5)
_MOST = 14
"""Faults of one run: more of them make one long outage of it."""

_NO_HABITS = 0.5
"""Share of the runs whose brokers do nothing that they seldom do."""

_TIMES = {"for_s", "hang_s", "noticed_after_s", "isr_shrinks_after", "latency", "jitter", "delay", "reply_delay"}
"""Arguments of faults that are seconds."""

_GROUP_APIS = ("JoinGroup", "SyncGroup", "Heartbeat", "OffsetCommit", "OffsetFetch", "LeaveGroup", "FindCoordinator")
_APIS = (*_GROUP_APIS, "Fetch", "Produce", "Metadata", "ListOffsets")
_ERRORS = {
    **dict.fromkeys(
        ("JoinGroup", "SyncGroup", "Heartbeat", "OffsetCommit", "OffsetFetch"), ("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE")
    ),
    "FindCoordinator": ("COORDINATOR_NOT_AVAILABLE",),
    "Fetch": ("NOT_LEADER_OR_FOLLOWER", "UNKNOWN_TOPIC_OR_PARTITION"),
    "Produce": ("NOT_LEADER_OR_FOLLOWER", "REQUEST_TIMED_OUT"),
    "ListOffsets": ("NOT_LEADER_OR_FOLLOWER",),
}  # fmt: skip
"""Errors that a broker answers in the normal course of things, so that a client must live with them at any time."""

_HEARTBEATS = 6
"""As many of the APIs that a request's fault is drawn from are a group's heartbeats, where it has its own."""

_ERRORS_OF_TRANSACTIONS = {
    "TxnOffsetCommit": ("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE"),
    **dict.fromkeys(
        ("InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn"),
        ("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "CONCURRENT_TRANSACTIONS"),
    ),
}
"""The same where there are transactions."""


@dataclass(frozen=True, slots=True)
class Targets:
    """Targets of faults. ``hosts``: of clients; ``clients``: those whose application can hang. ``pace``: how much faster than usual the
    workload is: faults last that much less, and there are more of them. ``disk``: "" where the brokers have none, "cached" if it caches
    acknowledged records, "synced" if it syncs them. ``transactions``: partitions of the log of transactions, where there are any.
    ``heartbeats``: the API by which members heartbeat, where it is to be hit more often than others."""

    groups: tuple[str, ...]
    logs: tuple[str, ...]
    brokers: tuple[str, ...]
    hosts: tuple[str, ...]
    clients: tuple[str, ...] = ()
    pace: float = 1.0
    disk: str = ""
    transactions: int = 0
    heartbeats: str = ""

    @property
    def coordinators(self) -> tuple[str, ...]:
        """The logs that coordinators live in, as faults name them."""
        logs = tuple(f"__transaction_state-{index}" for index in range(self.transactions))
        return (*(f"offsets({group})" for group in self.groups), *logs)


Draw = Callable[[random.Random, Targets], dict[str, Any] | None]
"""Arguments of a fault; None where there is nothing to hit."""


def _span(chance: random.Random, least: float, most: float) -> float:
    """Short ones are as frequent as long ones: uniform in its logarithm."""
    return round(math.exp(chance.uniform(math.log(least), math.log(most))), 3)


def _log(chance: random.Random, targets: Targets) -> str:
    """Mostly one that a coordinator lives in."""
    if targets.logs and chance.random() < 0.25:
        return chance.choice(targets.logs)
    return chance.choice(targets.coordinators)


def _state(name: str) -> Draw:
    def draw(chance: random.Random, targets: Targets) -> dict[str, Any]:
        log = chance.choice(targets.coordinators) if STATES[name].coordinators_only else _log(chance, targets)
        args: dict[str, Any] = {"log": log, "state": name, "for_s": _span(chance, 0.2, 20)}
        if name == "slow":
            args |= {"latency": _span(chance, 0.01, 3), "jitter": _span(chance, 0.01, 2)}
        if name == "full":
            args["free_bytes"] = chance.choice((0, 100, 1000, 10_000))
        if name == "stuck" and chance.random() < 0.3:
            args["isr_shrinks_after"] = _span(chance, 0.5, 10)
        return args

    return draw


def _rule(verdict: str) -> Draw:
    def draw(chance: random.Random, targets: Targets) -> dict[str, Any]:
        errors = {**_ERRORS, **_ERRORS_OF_TRANSACTIONS} if targets.transactions else dict(_ERRORS)
        if targets.heartbeats:
            errors[targets.heartbeats] = _ERRORS["Heartbeat"]
        apis = (
            tuple(errors) if verdict == "error" else _APIS if verdict != "error_after" else ("OffsetCommit", "Produce")
        )
        if targets.transactions and verdict != "error":
            apis = (*apis, *_ERRORS_OF_TRANSACTIONS, "TxnOffsetCommit", "Produce")
        if targets.heartbeats and verdict not in ("error", "error_after"):
            apis = (*apis, *[targets.heartbeats] * _HEARTBEATS)
        api = chance.choice(apis)
        args: dict[str, Any] = {
            "api": api,
            "for_s": _span(chance, 0.5, 15),
            "probability": chance.choice((0.1, 0.3, 0.7, 1.0)),
        }
        if verdict == "error":
            args["error"] = chance.choice(errors[api])
        elif verdict == "error_after":
            args["error_after"] = "REQUEST_TIMED_OUT"
        elif verdict in ("delay", "reply_delay"):
            args[verdict] = _span(chance, 0.01, 8)
        elif verdict in ("throttle_ms", "split"):
            args[verdict] = chance.randrange(1, 3000) if verdict == "throttle_ms" else chance.randrange(1, 40)
        else:
            args[verdict] = chance.randrange(0, 40) if verdict == "truncate" else True
        return args

    return draw


def _hosts(targets: Targets) -> tuple[str, ...]:
    return (*targets.brokers, *targets.hosts)


def _cut(both: bool) -> Draw:
    def draw(chance: random.Random, targets: Targets) -> dict[str, Any]:
        sender = chance.choice(_hosts(targets))
        receiver = chance.choice(("*", *(host for host in _hosts(targets) if host != sender)))
        if chance.random() < 0.5:
            sender, receiver = receiver, sender
        return {"sender": sender, "receiver": receiver, "both": both, "for_s": _span(chance, 0.1, 20)}

    return draw


def _link(field: str) -> Draw:
    def draw(chance: random.Random, targets: Targets) -> dict[str, Any]:
        value = {
            "latency_ms": _span(chance, 5, 2000),
            "jitter_ms": _span(chance, 5, 1000),
            "chunks": 1.0,
            "loss": _span(chance, 0.002, 0.1),
        }
        host = chance.choice(("*", *_hosts(targets)))
        return {"sender": host, "receiver": "*", field: value[field], "for_s": _span(chance, 0.5, 20)}

    return draw


def _move(chance: random.Random, targets: Targets) -> dict[str, Any] | None:
    return {"log": _log(chance, targets), "step": chance.randrange(8)} if len(targets.brokers) > 1 else None


def _elect(chance: random.Random, targets: Targets) -> dict[str, Any]:
    return {"log": _log(chance, targets)}


def _reset(chance: random.Random, targets: Targets) -> dict[str, Any]:
    return {"sender": chance.choice(_hosts(targets)), "receiver": "*"}


def _crash(of: str, reset: bool) -> Draw:
    def draw(chance: random.Random, targets: Targets) -> dict[str, Any] | None:
        names = getattr(targets, of)
        if not names:
            return None
        args: dict[str, Any] = {"host": chance.choice(names), "reset": reset, "for_s": _span(chance, 0.1, 20)}
        if of == "brokers":
            args["noticed_after_s"] = chance.choice((0, 1, 9))
        return args

    return draw


def _pause(of: str) -> Draw:
    def draw(chance: random.Random, targets: Targets) -> dict[str, Any] | None:
        names = getattr(targets, of)
        return {"host": chance.choice(names), "for_s": _span(chance, 0.1, 20)} if names else None

    return draw


def _restart(of: str) -> Draw:
    def draw(chance: random.Random, targets: Targets) -> dict[str, Any] | None:
        names = getattr(targets, of)
        return {"host": chance.choice(names)} if names else None

    return draw


def _hang(chance: random.Random, targets: Targets) -> dict[str, Any] | None:
    return {"client": chance.choice(targets.clients), "hang_s": _span(chance, 1, 40)} if targets.clients else None


SWARM: Mapping[str, tuple[str, Draw]] = {
    **{f"state.{name}": ("state", _state(name)) for name in STATES},
    **{
        f"rule.{name}": ("rule", _rule(name))
        for name in ("error", "error_after", "delay", "reply_delay", "hang", "drop", "drop_after", "truncate", "split", "throttle_ms")
    },
    "cut.one_way": ("cut", _cut(False)),
    "cut.both_ways": ("cut", _cut(True)),
    **{f"link.{name}": ("link", _link(name)) for name in ("latency_ms", "jitter_ms", "chunks", "loss")},
    "move": ("move", _move),
    "elect": ("elect", _elect),
    "reset": ("reset", _reset),
    "client.crash": ("crash", _crash("hosts", False)),
    "client.kill": ("crash", _crash("hosts", True)),
    "client.pause": ("pause", _pause("hosts")),
    "client.restart": ("restart", _restart("hosts")),
    "client.hang": ("hang", _hang),
    "broker.crash": ("crash", _crash("brokers", False)),
    "broker.kill": ("crash", _crash("brokers", True)),
    "broker.pause": ("pause", _pause("brokers")),
    "broker.restart": ("restart", _restart("brokers")),
    **DRAWS,
}  # fmt: skip
"""Faults that a seed can turn on: name -> kind of `faults.KINDS`, function that draws its arguments. Lost records are not among them:
no check of acknowledged records would hold, so they are injected by a user's plan alone."""


def _paced(args: dict[str, Any], pace: float) -> dict[str, Any]:
    """The same in a faster world."""
    if pace == 1.0:
        return args
    return {name: round(value / pace, 3) if name in _TIMES else value for name, value in args.items()}


def habits(seed: object) -> FaultPlan:
    """Draw the rare behaviours of a seed's brokers, from the beginning on: each site of ``buggify`` is on with its probability. Some
    runs have none."""
    if random.Random(f"{seed}/swarm/buggify").random() < _NO_HABITS:
        return []
    dice = {name: random.Random(f"{seed}/swarm/buggify/{name}") for name in SITES}
    return [
        Fault(0.0, "buggify", {"site": name}) for name, generator in dice.items() if generator.random() < PROBABILITY
    ]


def draw(
    seed: object, duration_s: float, targets: Targets, *, kinds: Collection[str] | None = None, most: int = _MOST
) -> FaultPlan:
    """The plan of a seed for a run of that length, ordered by time; may be empty. ``kinds``: of ``SWARM``; the fewer they are, the more
    often is each of them on. ``most``: faults of one run."""
    ranked: list[tuple[float, float, Fault]] = []
    share = random.Random(f"{seed}/swarm").choice(_SHARES)
    if kinds is not None:
        share *= len(SWARM) / len(kinds)
    for name, (kind, arguments) in SWARM.items():
        if kinds is not None and name not in kinds:
            continue
        dice = random.Random(f"{seed}/swarm/{name}")
        often = targets.disk and name in OFTEN
        if dice.random() >= (max(share, 0.9) if often else share):
            continue
        count = min(math.ceil(targets.pace * dice.expovariate(0.7)), max(1, round(targets.pace * duration_s / 4)))
        for number in range(count):
            chance = random.Random(f"{seed}/swarm/{name}/{number}")
            t_s, rank = round(chance.uniform(0, duration_s), 3), chance.random()
            args = arguments(chance, targets)
            if args is not None:
                ranked.append((rank, t_s, Fault(t_s, kind, _paced(args, targets.pace))))
    # which of too many stay is a matter of each one's own rank
    kept = sorted(ranked, key=lambda entry: entry[0])[: round(most * max(1, targets.pace / 2))]
    return [fault for _, _, fault in sorted(kept, key=lambda entry: (entry[1], entry[0]))]
