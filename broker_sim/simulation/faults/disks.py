"""Faults of brokers that have a disk, for ``faults.KINDS`` and ``swarm.SWARM``: their process dies, their machines lose power, the disk
stalls, fills up, fails, takes nothing.

Each is whole in itself: what dies starts again when the fault is over, and where the disk does not let it, as soon as it does.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from broker_sim.api.cluster import ClusterError
from broker_sim.fields.field import Field
from broker_sim.fields.kinds import Choice, Count, ListOf, Text
from broker_sim.simulation.virtual.disk_model import CALLS, DISK_FAULTS
from broker_sim.simulation.virtual.process import context_of

if TYPE_CHECKING:
    from broker_sim.simulation.cluster import SimCluster
    from broker_sim.simulation.faults.kinds import Injection
    from broker_sim.simulation.faults.swarm import Targets
    from broker_sim.simulation.protocols import FaultTargets

__all__ = ["DRAWS", "FAULTS", "OFTEN", "is_of_the_disk", "revive"]

_AGAIN_S = 1.0
"""Pause between two starts of brokers whose disk does not let them."""

DYING = (
    Field("at_call", Count(1), "the call that changes the disk, from 1, in whose midst they die"),
    Field("start_at_call", Count(1), "and once more in that call of their start"),
)


# --- what they do ---------------------------------------------------------------------------------------------------------


def kill(on: Injection, args: dict[str, Any]) -> Callable[[], object]:
    """The process of all brokers dies."""
    return _dies(on, args, on.kafka.kill)


def power(on: Injection, args: dict[str, Any]) -> Callable[[], object]:
    """End the brokers' processes and discard what was not synced, as on a loss of power."""
    return _dies(on, args, on.kafka.power_loss)


def _dies(on: Injection, args: dict[str, Any], die: Callable[..., None]) -> Callable[[], object]:
    kafka = on.kafka
    number = kafka.process.number
    die(at_call=args.get("at_call"))

    def end() -> None:
        if kafka.process.number != number:
            return
        if not kafka.dead:  # nothing has changed the disk meanwhile
            die()
        if "start_at_call" in args:
            _start(kafka, on.sim, lambda: kafka.start_again(at_call=args["start_at_call"]))
        revive(kafka, on.sim)

    return end


def revive(kafka: SimCluster, sim: FaultTargets) -> None:
    """Start a dead cluster again as soon as its disk works. A start that fails without a disk fault ends the run."""
    if kafka.dead:
        _start(kafka, sim, kafka.start_again)


def _start(kafka: SimCluster, sim: FaultTargets, start: Callable[[], object]) -> None:
    try:
        start()
    except ClusterError as error:
        if kafka.disk.faults:
            sim.loop.call_later(_AGAIN_S, revive, kafka, sim, context=context_of(None))
        else:
            sim.fail(error)


def disk(on: Injection, args: dict[str, Any]) -> Callable[[], object]:
    """Something is wrong with the disk."""
    until_s = None if on.lasts_s is None else on.sim.loop.time() + on.lasts_s
    return on.kafka.disk.fault(args.pop("what"), until_s=until_s, **args).heal


FAULTS: tuple[tuple[str, str, Callable[..., Any], tuple[Field, ...]], ...] = (
    (
        "kill",
        "the process of all brokers dies and starts again from its disk; ``at_call``: during the n-th following call that "
        "changes the disk; ``start_at_call``: again during the n-th such call of the start",
        kill,
        DYING,
    ),
    ("power", "the brokers' machines lose power: unsynced data may be lost; arguments as of ``kill``", power, DYING),
    (
        "disk",
        "a fault of the brokers' disk: ``what`` is full (after ``free_bytes``), fails (``calls`` of write, read, sync), readonly or "
        "stalls; ``paths``: only files that match this pattern",
        disk,
        (
            Field("what", Choice(DISK_FAULTS, "fault of a disk"), "what is wrong", required=True),
            Field("paths", Text(), "the files that fit that pattern"),
            Field("free_bytes", Count(0), "full: remaining space in bytes"),
            Field("calls", ListOf(Choice(CALLS, "call of a disk")), "fails: the calls that do"),
        ),
    ),
)
"""Name, description, how it begins, what it takes: see ``faults.FaultKind``."""


def is_of_the_disk(record: logging.LogRecord) -> bool:
    """Whether a broker's complaint is of a call that its disk has refused."""
    causes = [*(record.args if isinstance(record.args, tuple) else ()), record.exc_info[1] if record.exc_info else None]
    return any(isinstance(cause, OSError) or isinstance(getattr(cause, "__cause__", None), OSError) for cause in causes)


# --- how a seed draws them --------------------------------------------------------------------------------------------------

Draw = Callable[[random.Random, "Targets"], dict[str, Any] | None]


def _span(chance: random.Random, least: float, most: float) -> float:
    return round(float(least * (most / least) ** chance.random()), 3)


def _death(needs: str) -> Draw:
    def draw(chance: random.Random, targets: Targets) -> dict[str, Any] | None:
        args: dict[str, Any] = {"for_s": _span(chance, 0.05, 8)}
        if chance.random() < 0.6:
            args["at_call"] = int(_span(chance, 1, 60))
        if chance.random() < 0.2:
            args["start_at_call"] = int(_span(chance, 1, 200))
        return args if targets.disk and needs in ("", targets.disk) else None

    return draw


_PATHS = ("*", "*", "*/orders-*", "*/__consumer_offsets-*", "*/cluster.json*", "*.log", "*index")


def _broken(what: str) -> Draw:
    def draw(chance: random.Random, targets: Targets) -> dict[str, Any] | None:
        args: dict[str, Any] = {"what": what, "paths": chance.choice(_PATHS), "for_s": _span(chance, 0.1, 10)}
        if what == "full":
            args["free_bytes"] = int(_span(chance, 1, 5000))
        if what == "fails":
            args["calls"] = chance.choice((["write"], ["sync"], ["write", "sync"]))
        return args if targets.disk else None

    return draw


DRAWS: dict[str, tuple[str, Draw]] = {
    "cluster.kill": ("kill", _death("")),
    "cluster.power": ("power", _death("synced")),
    **{f"disk.{what}": ("disk", _broken(what)) for what in DISK_FAULTS},
}
"""For ``swarm.SWARM``. A loss of power is drawn where all that is acknowledged is synced."""

OFTEN = ("cluster.kill", "cluster.power")
"""Faults that are on in most runs of brokers with a disk."""
