"""Fault plans as users give them: a list, or a `Swarm` that the seed draws from; what of them came true.

    simulate(7, faults=[[12.5, "crash", {"host": "worker-2", "for_s": 15}]])
    simulate(7, faults=[{"at": "12.5s", "kind": "crash", "host": "worker-2", "for": "15s"}])
    simulate(7, faults=Swarm(during="30s", groups=["billing"], kinds=["state.*", "client.crash"]))

Rules:
1. A plan's time begins when time first runs (``run_for``, ``run_until``, ``run``) with a cluster there: until then a test puts up its
   world, and a swarm finds its targets in it.
2. Invalid faults are refused before the run; an unknown name ends the run, at the latest when its fault occurs.
3. What can't be at its moment (a crash of a host that is down) is left out: ``skipped``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any
from zlib import crc32

from broker_sim.common.text import UsageError, duration_ms, unknown
from broker_sim.simulation.faults.kinds import Fault, FaultPlan, Injection, Seconds, checked
from broker_sim.simulation.faults.swarm import SWARM, Targets, draw, habits

if TYPE_CHECKING:
    from broker_sim.metadata.cluster_state import Partition
    from broker_sim.simulation.cluster import SimCluster
    from broker_sim.simulation.protocols import FaultTargets

__all__ = ["Faults", "Plan", "Swarm", "UserInjection", "plan_from"]

ANY = "*"
"""As a group: one of those that there are at the fault's moment."""


@dataclass(frozen=True)
class Swarm:
    """Faults that the seed draws, between ``after`` and ``after + during`` of the plan's time.

    ``groups``: whose coordinators are hit; None: those that there are when it happens. ``hosts``, ``logs`` (``"orders-0"``) and
    ``brokers``: None: all that exist when the run begins; of hosts those whose programs are functions, so
    that they can be restarted.
    ``kinds``: names of `swarm.SWARM`, in which ``*`` matches anything; None: all. ``without``: kinds that are not to come.
    ``habits``: brokers do, too, what they seldom do (`buggify`). ``most``: so many faults at most.
    """

    during: object = "30s"
    after: object = 0
    groups: Sequence[str] | None = None
    hosts: Sequence[str] | None = None
    brokers: Sequence[str] | None = None
    logs: Sequence[str] | None = None
    kinds: Sequence[str] | None = None
    without: Sequence[str] = ()
    habits: bool = True
    most: int = 14

    def __post_init__(self) -> None:
        if duration_ms(self.during, "Swarm: during") == 0:
            raise UsageError("Swarm: during is 0 (expected a duration above 0)")
        duration_ms(self.after, "Swarm: after")
        for name in ("groups", "hosts", "brokers", "logs", "kinds", "without"):
            value = getattr(self, name)
            if isinstance(value, str) or (value is not None and not all(isinstance(name, str) for name in value)):
                raise UsageError(f"Swarm: {name} must be a list of names, not {value!r}")
        if not self.names():
            raise UsageError("Swarm: all kinds of faults are excluded")

    def names(self) -> list[str]:
        """The names of the kinds that may be drawn. Raises UsageError for an unknown kind."""
        wanted, without = (_kinds(which) for which in (("*",) if self.kinds is None else self.kinds, self.without))
        return [name for name in wanted if name not in without]

    def drawn(self, sim: FaultTargets, kafka: SimCluster, number: int) -> FaultPlan:
        """The plan of the simulation's seed."""
        targets = self._targets(sim, kafka)
        seed = sim.seed if number == 0 else f"{sim.seed}/{number}"
        after_s, during_s = (duration_ms(value) / 1000 for value in (self.after, self.during))
        every = None if self.kinds is None and not self.without else self.names()
        plan = draw(seed, during_s, targets, kinds=every, most=self.most)
        if self.habits and every is None:
            plan = habits(seed) + plan
        return [Fault(round(after_s + fault.t_s, 3), fault.kind, fault.args) for fault in plan]

    def _targets(self, sim: FaultTargets, kafka: SimCluster) -> Targets:
        for name in (*(self.hosts or ()), *(self.brokers or ())):
            if name not in sim.hosts:
                raise unknown("host", name, sim.hosts)
        there = [name for name, host in sim.hosts.items() if host.restarts]
        logs = [log.name for topic in kafka.state.topics.values() if not topic.internal for log in topic.partitions]
        hosts = tuple(there if self.hosts is None else self.hosts)
        brokers = tuple(kafka.hosts if self.brokers is None else self.brokers)
        if not hosts and not brokers:
            raise UsageError("Swarm: no host and no broker to hit")
        return Targets(
            groups=tuple(self.groups or (ANY,)),
            logs=tuple(logs if self.logs is None else self.logs),
            brokers=brokers,
            hosts=hosts,
            clients=tuple(name for name in sim.hangs if name in hosts),
            disk=kafka.kind_of_disk,
        )


def _kinds(patterns: Iterable[str]) -> list[str]:
    kinds: dict[str, None] = {}
    for pattern in patterns:
        fitting = [name for name in SWARM if fnmatchcase(name, pattern)]
        if not fitting:
            raise unknown("kind", pattern, SWARM, of="Swarm")
        kinds.update(dict.fromkeys(fitting))
    return list(kinds)


Plan = Swarm | Iterable[object] | None
"""Argument ``faults=``: a swarm, or a list whose entries are `Fault`, ``[seconds, kind, arguments]`` or mappings."""


def plan_from(value: Plan) -> Swarm | FaultPlan:
    """The plan that a user meant. Raises UsageError, in one line."""
    if isinstance(value, Swarm):
        return value
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise UsageError(f"faults= takes a list of faults or a Swarm, not {value!r}")
    return checked([_fault(entry) for entry in value])


def _fault(entry: object) -> Fault:
    if isinstance(entry, Fault):
        return entry
    if isinstance(entry, Mapping):
        return _from_mapping(entry)
    if isinstance(entry, list | tuple) and len(entry) in (2, 3):
        t_s, kind, args = entry if len(entry) == 3 else (*entry, {})
        if isinstance(kind, str) and isinstance(args, Mapping):
            return Fault(_seconds(t_s), kind, _plain(args))
    raise UsageError(f"a fault is [seconds, kind, arguments], not {entry!r}")


def _from_mapping(entry: Mapping[str, Any]) -> Fault:
    rest = dict(entry)
    times = [rest.pop(name) for name in ("t_s", "at") if name in rest]
    kind = rest.pop("kind", None)
    if len(times) != 1 or not isinstance(kind, str):
        raise UsageError(f"a fault has a time 'at' and a 'kind': {entry!r}")
    args = rest.pop("args", {})
    return Fault(_seconds(times[0]), kind, _plain({**args, **rest}))


def _seconds(value: object) -> float:
    return Seconds().read(value, "a fault's time")


def _plain(args: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments with ``for_s`` in place of ``for``, which is no name in Python."""
    return {"for_s" if name == "for" else name: value for name, value in args.items()}


class UserInjection(Injection):
    """A plan at work in a user's simulation."""

    _now: Fault

    def _begin(self, number: int, fault: Fault) -> None:
        """A name that nothing has ends the run."""
        try:
            self._look_at_names(fault)
        except UsageError as error:
            self.sim.fail(UsageError(f"the fault {fault.text}: {error}"))
            return
        self._now = fault
        super()._begin(number, fault)

    def _look_at_names(self, fault: Fault) -> None:
        args = fault.args
        given = [args[key] for key in ("host", "sender", "receiver") if key in args]
        for name in (name for item in given for name in ([item] if isinstance(item, str) else item)):
            if name != "*" and name not in self.sim.network.machines:
                raise unknown("host", name, self.sim.hosts)
        if "client" in args and args["client"] not in self.sim.hangs:
            raise unknown("client that can hang (sim.hangs)", args["client"], self.sim.hangs)
        log = args.get("log")
        if isinstance(log, str) and not log.startswith("offsets("):
            topic = log.rpartition("-")[0]
            logs = self.kafka.state.topics
            if topic not in logs:
                raise unknown("log", log, [partition.name for log in logs.values() for partition in log.partitions])

    def partition(self, name: str) -> Partition:
        """As `Injection.partition`; ``offsets(*)`` is that of a group that there is."""
        if name == f"offsets({ANY})":
            groups = sorted({group for _, shard in self.kafka.runtime.loaded() for group in shard.groups})
            if not groups:
                raise UsageError("no group is there yet")
            name = f"offsets({groups[crc32(self._now.text.encode()) % len(groups)]})"
        return super().partition(name)


class Faults:
    """Faults of a simulation's plans, as they went: ``sim.faults``."""

    def __init__(self) -> None:
        self.injections: list[UserInjection] = []
        self.plans: list[FaultPlan] = []
        """All plans of faults, in their order."""

    @property
    def plan(self) -> FaultPlan:
        """All faults that were to come."""
        return [fault for plan in self.plans for fault in plan]

    @property
    def begun(self) -> FaultPlan:
        """Faults that were injected, in their order."""
        return [fault for injection in self.injections for fault in injection.begun]

    @property
    def skipped(self) -> list[tuple[Fault, str]]:
        """Faults that could not be injected at their time, with the reasons."""
        return [skipped for injection in self.injections for skipped in injection.skipped]

    def __str__(self) -> str:
        lines = [fault.text for fault in self.begun]
        lines += [f"{fault.text} (left out: {why})" for fault, why in self.skipped]
        return "\n".join(lines) or "no fault"
