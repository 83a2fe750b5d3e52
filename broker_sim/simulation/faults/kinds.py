"""Faults as data: what goes wrong in a simulated run and when, as a list that JSON can hold, and what brings it about.

    plan = [
        Fault(12.5, "state", {"log": "offsets(billing)", "state": "stuck", "for_s": 8}),
        Fault(20, "crash", {"host": "c2", "for_s": 15}),
    ]
    faults = inject(sim, plan)
    sim.run_for(30)
    faults.heal()

Rules:
1. A fault is whole in itself: it names its time, and how long it lasts (``for_s``; without it until `Injection.heal`). Taking one away
   leaves the others as they were.
2. What can't be at its moment - a crash of a host that is down, a second state of one aspect - is left out, and ``skipped`` tells
   it. So any part of a plan is a plan.
3. ``KINDS`` is the whole list; ``check`` refuses invalid arguments before the run. Arguments are fields (``broker_sim.fields``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from broker_sim.api.cluster import ClusterError
from broker_sim.common.buggify import PROBABILITY, SITES, Buggify
from broker_sim.common.text import UsageError, duration_text, unknown
from broker_sim.faults.conditions import KINDS as STATES
from broker_sim.faults.rules import FIELDS as RULE
from broker_sim.faults.rules import rule_from
from broker_sim.fields.field import Field, read
from broker_sim.fields.kafka import LogName, TransactionalIdLog, log_named
from broker_sim.fields.kinds import Choice, Count, Duration, Flag, Number, OneOrMore, Text, refusal
from broker_sim.fields.problems import Problems
from broker_sim.metadata.data_loss import lose_head, lose_tail
from broker_sim.simulation.faults.disks import FAULTS, revive
from broker_sim.simulation.virtual.disk import ProcessKilled
from broker_sim.simulation.virtual.network import Link
from broker_sim.simulation.virtual.process import context_of
from broker_sim.storage.errors import StorageError
from kafka_wire.api_keys import KAFKA_VERSIONS

if TYPE_CHECKING:
    from asyncio import TimerHandle

    from broker_sim.faults.registry import Fault as Rule
    from broker_sim.metadata.cluster_state import Partition
    from broker_sim.simulation.cluster import SimCluster
    from broker_sim.simulation.protocols import FaultTargets, Target, TargetBroker

__all__ = ["KINDS", "Fault", "FaultPlan", "Injection", "Seconds", "check", "checked", "from_json", "inject", "to_json"]


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault. ``t_s``: virtual seconds after the injection; ``args``: see ``KINDS``, plain JSON values."""

    t_s: float
    kind: str
    args: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """One line for people: ``12.5 s: state offsets(billing) stuck, for 8 s``."""
        shown = ", ".join(f"{key} {value}" for key, value in self.args.items() if key != "for_s")
        lasting = f", for {duration_text(self.args['for_s'] * 1000)}" if "for_s" in self.args else ""
        return f"{self.t_s:g} s: {self.kind} {shown}{lasting}"


FaultPlan = list[Fault]
"""In any order; `inject` goes by the times, and where they are equal by the order of the list."""


def to_json(plan: Iterable[Fault]) -> list[list[Any]]:
    """A plan as JSON values, one list per fault: ``[[12.5, "state", {...}], ...]``, times in virtual seconds."""
    return [[fault.t_s, fault.kind, dict(fault.args)] for fault in plan]


def from_json(value: object) -> FaultPlan:
    """The plan of `to_json`, or of its text. Raises UsageError for anything else."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError as error:
            raise UsageError(f"a fault plan must be JSON: {error}") from None
    if not isinstance(value, list):
        raise UsageError("a fault plan must be a list of [seconds, kind, arguments]")
    plan = []
    for entry in value:
        if isinstance(entry, list) and len(entry) == 2:
            entry = [*entry, {}]
        if not (isinstance(entry, list) and len(entry) == 3 and isinstance(entry[2], dict)):
            raise UsageError(f"a fault is [seconds, kind, arguments], not {json.dumps(entry)[:80]}")
        plan.append(Fault(entry[0], entry[1], entry[2]))
    return checked(plan)


# --- what there is -------------------------------------------------------------------------------------------------------


LONGEST_S = 1e8


@dataclass(frozen=True)
class FaultKind:
    """A kind of fault. ``begin`` returns what ends it, None where it is over at once; ``takes`` are its arguments but ``for_s``."""

    name: str
    description: str
    begin: Callable[[Injection, dict[str, Any]], Callable[[], object] | None]
    takes: tuple[Field, ...]

    @cached_property
    def fields(self) -> dict[str, Field]:
        """All its arguments by their names."""
        lasts = Field("for_s", Seconds(), "how long it lasts")
        return {field.name: field for field in (*self.takes, lasts)}


class Seconds(Duration):
    """A duration in seconds. A number is not rounded to ms: virtual time has fractions of a ms, and faults are printed as given."""

    def read(self, value: object, what: str = "") -> float:
        exact = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= LONGEST_S
        return cast(float, value) if exact else super().read(value, what)


def _state(on: Injection, args: dict[str, Any]) -> Callable[[], object]:
    partition = on.partition(args.pop("log"))
    conditions = on.kafka.conditions
    condition = conditions.set(partition, args.pop("state"), **args)
    return lambda: conditions.heal(condition)


def _move(on: Injection, args: dict[str, Any]) -> None:
    partition = on.partition(args["log"])
    others = [
        broker.node_id
        for broker in on.kafka.state.brokers.values()
        if broker.alive and broker.node_id != partition.leader
    ]
    if "broker" not in args and not others:
        raise UsageError("no other broker is up")
    on.kafka.move_leader(partition, args["broker"] if "broker" in args else others[args.get("step", 0) % len(others)])


def _elect(on: Injection, args: dict[str, Any]) -> None:
    on.kafka.elect(on.partition(args["log"]))


def _lose(on: Injection, args: dict[str, Any]) -> None:
    partition = on.partition(args["log"])
    start, end = partition.log_start_offset, partition.high_watermark
    records = min(args["records"], end - start)
    if records <= 0:
        raise UsageError(f"{partition.name} has no committed record to lose")
    try:
        if args["part"] == "tail":
            lose_tail(on.kafka.state, partition, end - records)
        else:
            lose_head(on.kafka.state, partition, start + records)
    except StorageError as error:
        raise UsageError(str(error)) from None


def _rule(on: Injection, args: dict[str, Any]) -> Callable[[], object]:
    rule = on.kafka.faults.add_from({"must_hit": False, **args})
    on.rules.append(rule)
    return rule.remove


def _link(on: Injection, args: dict[str, Any]) -> Callable[[], object]:
    ways = on.ways(args.pop("sender"), args.pop("receiver", "*"), args.pop("both", True))
    entry = (ways, args)
    on.links.append(entry)
    on.set_links(ways)

    def end() -> None:
        on.links.remove(entry)
        on.set_links(ways)

    return end


def _cut(on: Injection, args: dict[str, Any]) -> Callable[[], object]:
    network = on.sim.network
    way = network.partition if args.get("both", False) else network.cut
    cut = way(args["sender"], args.get("receiver", "*"))
    return cut.heal


def _reset(on: Injection, args: dict[str, Any]) -> None:
    if not on.sim.network.reset(args["sender"], args.get("receiver", "*")):
        raise UsageError("no connection to lose")


def _crash(on: Injection, args: dict[str, Any]) -> Callable[[], object]:
    host = on.host(args["host"])
    if host.state == "crashed":
        raise UsageError(f"host {host.name} is down")
    if "noticed_after_s" in args:
        if not on.is_broker(host.name):
            raise UsageError("noticed_after_s is for brokers")
        broker = cast("TargetBroker", host)
        broker.crash(reset=bool(args.get("reset", False)), noticed_after=args["noticed_after_s"])
    else:
        host.crash(reset=bool(args.get("reset", False)))
    number = host.process.number

    def end() -> None:
        if host.state == "crashed" and host.process.number == number and not on.kafka.dead:
            host.restart()

    return end


def _pause(on: Injection, args: dict[str, Any]) -> Callable[[], object]:
    host = on.host(args["host"])
    if host.state != "up":
        raise UsageError(f"host {host.name} is {host.state}")
    host.pause()
    resume: Callable[[], object] = host.resume
    return resume


def _restart(on: Injection, args: dict[str, Any]) -> None:
    on.host(args["host"]).restart()


def _buggify(on: Injection, args: dict[str, Any]) -> Callable[[], object]:
    state, site = on.kafka.state, args["site"]
    buggify = on.buggify = on.buggify or Buggify(on.sim.seed)
    state.buggify = buggify
    buggify.on(site, args.get("probability", PROBABILITY))
    return lambda: buggify.off(site)


def _hang(on: Injection, args: dict[str, Any]) -> None:
    hang = on.hangs.get(args["client"])
    if hang is None:
        raise UsageError(f"no client {args['client']} that can hang")
    hang(args["hang_s"])


LOG = Field("log", LogName(), "a log partition", required=True)
HOST = Field("host", Text(), "a host, also of a broker", required=True)
SENDER = Field("sender", OneOrMore(), "hosts that send; *: all", required=True)
RECEIVER = Field("receiver", OneOrMore(), "hosts that receive; * or none: all others")
BOTH = Field("both", Flag(), "also in the opposite direction")

_ALL = (
    FaultKind(
        "state",
        "a log is in a state of conditions.KINDS; ``log``: orders-0, or offsets(GROUP)",
        _state,
        (
            LOG,
            Field("state", Choice(STATES), "the kind of state", required=True),
            *(Field(name, Seconds(), "as the state's own") for name in ("isr_shrinks_after", "latency", "jitter")),
            Field("free_bytes", Count(0), "full: remaining space in bytes"),
        ),
    ),
    FaultKind(
        "move",
        "another broker becomes the leader of a log: ``broker``, or the ``step``-th of the live ones",
        _move,
        (
            LOG,
            Field("broker", Count(0), "the node id of the new leader"),
            Field("step", Count(0), "which of those that are up"),
        ),
    ),
    FaultKind("elect", "the leader of a log is elected again, in a new leader epoch", _elect, (LOG,)),
    FaultKind(
        "lose",
        "a log loses committed records, as in an unclean election or after a restored backup",
        _lose,
        (
            LOG,
            Field("part", Choice(("tail", "head")), "which end of it", required=True),
            Field("records", Count(1), "how many, at most all that it has", required=True),
        ),
    ),
    FaultKind("rule", "a request rule, with the keys of faults.rules", _rule, tuple(RULE.values())),
    FaultKind(
        "link",
        "the link from one host to another gets this latency, jitter, share of split writes (``chunks``) or of resets (``loss``)",
        _link,
        (
            *(SENDER, RECEIVER, BOTH),
            Field("latency_ms", Number(0, 3_600_000), "how late what is sent arrives"),
            Field("jitter_ms", Number(0, 3_600_000), "up to so much later, by chance"),
            Field("chunks", Number(0, 1), "the share of writes that arrive in two parts"),
            Field("loss", Number(0, 1), "the share of writes at which the connection is lost"),
        ),
    ),
    FaultKind(
        "cut",
        "nothing sent by ``sender`` arrives at ``receiver``; with ``both`` in neither direction",
        _cut,
        (SENDER, RECEIVER, BOTH),
    ),
    FaultKind("reset", "all connections between two hosts are reset", _reset, (SENDER, RECEIVER)),
    FaultKind(
        "crash",
        "a host (a client's or a broker's) fails without closing its connections; with ``reset`` only its process dies",
        _crash,
        (
            HOST,
            Field("reset", Flag(), "its process alone dies: its connections are reset"),
            Field("noticed_after_s", Seconds(), "of a broker: time until the other brokers notice it"),
        ),
    ),
    FaultKind("pause", "the processes of a host are stopped (SIGSTOP)", _pause, (HOST,)),
    FaultKind("restart", "the process of a host dies and is started again at once", _restart, (HOST,)),
    FaultKind(
        "buggify",
        "brokers take a rare but legal path: the site of ``broker_sim.common.buggify`` is enabled",
        _buggify,
        (
            Field("site", Choice(SITES), "the site", required=True),
            Field("probability", Number(0, 1), "how often it does it"),
        ),
    ),
    FaultKind(
        "hang",
        "the application of a client processes its next batch for ``hang_s`` seconds",
        _hang,
        (
            Field("client", Text(), "the client", required=True),
            Field("hang_s", Seconds(), "for how long", required=True),
        ),
    ),
    *(FaultKind(*definition) for definition in FAULTS),
)

_LAST = KAFKA_VERSIONS[-1]

KINDS: dict[str, FaultKind] = {kind.name: kind for kind in _ALL}
"""All kinds of faults, by name; each takes ``for_s`` too."""


def check(fault: Fault, as_version: str = _LAST) -> dict[str, Any]:
    """The arguments of a fault, converted to their types. Raises UsageError with all errors, for a rule also an API that the
    release does not have. Names of hosts and logs are checked when the fault occurs."""
    if fault.kind not in KINDS:
        raise unknown("kind of fault", fault.kind, KINDS)
    kind, problems, args = KINDS[fault.kind], Problems(), dict(fault.args)
    with problems.at("t_s"):
        Seconds().read(fault.t_s, f"{fault.kind}: t_s")
    with problems.at():
        args = read(kind.fields, fault.args, fault.kind, "argument", of=f"the fault {fault.kind!r}")
        if fault.kind == "rule":
            rule_from({name: value for name, value in args.items() if name != "for_s"}, as_version=as_version)
    problems.check()
    return args


def checked(plan: Iterable[Fault], as_version: str = _LAST) -> FaultPlan:
    """The plan with its times as numbers of seconds, and everything else unchanged. Raises UsageError with all errors under
    ``as_version``, by default the latest release."""
    faults: FaultPlan = []
    problems = Problems()
    for place, fault in enumerate(plan):
        with problems.at(place):
            times = {name: value for name, value in check(fault, as_version).items() if name.endswith("_s")}
            faults.append(replace(fault, t_s=Seconds().read(fault.t_s), args={**fault.args, **times}))
    problems.check()
    return faults


# --- what brings it about ------------------------------------------------------------------------------------------------


class Injection:
    """A plan at work. ``hangs``: client -> what lets its application hang for that many seconds."""

    def __init__(
        self,
        sim: FaultTargets,
        kafka: SimCluster,
        plan: Iterable[Fault],
        hangs: Mapping[str, Callable[[float], object]],
    ) -> None:
        self.sim, self.kafka, self.hangs = sim, kafka, hangs
        self.begun: list[Fault] = []
        self.lasts_s: float | None = None
        """Duration of the fault that begins, in s; None: until it is healed."""
        self.skipped: list[tuple[Fault, str]] = []
        """Faults that were impossible at their time, with the reason."""
        self.rules: list[Rule] = []
        self.links: list[tuple[list[tuple[str, str]], dict[str, Any]]] = []
        self._usual: dict[tuple[str, str], Link] = {}
        self._ends: dict[int, Callable[[], object]] = {}
        self.lasting: dict[int, Fault] = {}
        """Faults that have begun and not ended."""
        self._to_come: list[TimerHandle] = []
        self._number = 0
        self._timers: list[TimerHandle] = []
        self.buggify: Buggify | None = None
        """The sites that are on."""
        self._context = context_of(None)
        self._began_s = sim.loop.time()
        self._come(plan)

    def _come(self, plan: Iterable[Fault]) -> None:
        past_s = self.sim.loop.time() - self._began_s
        for fault in sorted(checked(plan, self.kafka.state.as_version), key=lambda fault: fault.t_s):
            number, self._number = self._number, self._number + 1
            self._later(max(0.0, fault.t_s - past_s), lambda number=number, fault=fault: self._begin(number, fault))  # type: ignore[misc]
            self._to_come.append(self._timers[-1])

    def instead(self, plan: Iterable[Fault]) -> None:
        """Replace the faults that have not begun by another plan, whose times count from the beginning of the first one, too."""
        for timer in self._to_come:
            timer.cancel()
        self._to_come.clear()
        self._come(plan)

    def _later(self, seconds: float, what: Callable[[], object]) -> None:
        self._timers.append(self.sim.loop.call_later(seconds, what, context=self._context))

    def _begin(self, number: int, fault: Fault) -> None:
        args = check(fault)
        for_s = self.lasts_s = args.pop("for_s", None)
        try:
            end = KINDS[fault.kind].begin(self, args)
        except (UsageError, ClusterError, ProcessKilled) as error:
            self.skipped.append((fault, str(error)))
            return
        self.begun.append(fault)
        if end is not None:
            self._ends[number], self.lasting[number] = end, fault
            if for_s is not None:
                self._later(for_s, lambda: self._end(number))

    def _end(self, number: int) -> None:
        end = self._ends.pop(number, None)
        self.lasting.pop(number, None)
        if end is not None:
            with suppress(ProcessKilled):
                end()

    def end(self) -> None:
        """End the plan: what has not come will not, states and rules end, hung requests are handled. Twice does nothing more."""
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        for number in sorted(self._ends, reverse=True):
            self._end(number)
        revive(self.kafka, self.sim)
        rules, self.rules = self.rules, []
        for rule in rules:
            rule.release()

    def heal(self) -> None:
        """End all faults, also those injected by the test: states of logs, rules, network faults, paused and crashed hosts."""
        self.end()
        self.kafka.state.buggify = None
        self.kafka.conditions.heal_all()
        if self.kafka.observed:
            self.kafka.faults.clear()
        self.sim.heal()

    # --- what faults name

    def partition(self, name: str) -> Partition:
        """``orders-0``, ``offsets(GROUP)``, or ``transactions(ID)``. Raises UsageError."""
        named = log_named(name)
        if named is None:
            raise refusal("log", name, LogName.meant)
        if isinstance(named, TransactionalIdLog):
            return self.kafka.transaction(named.transactional_id).state_log.partition
        return (self.kafka.offsets_log(named) if isinstance(named, str) else self.kafka.log(*named)).partition

    def host(self, name: str) -> Target:
        """A host that there is. Raises UsageError."""
        if name not in self.sim.hosts:
            raise unknown("host", name, self.sim.hosts)
        return self.sim.hosts[name]

    def is_broker(self, name: str) -> bool:
        """Whether a broker is on that host."""
        return name in self.kafka.hosts

    def ways(self, sender: str | list[str], receiver: str | list[str], both: bool) -> list[tuple[str, str]]:
        """The ways from one to the other; ``"*"`` is any."""
        network = self.sim.network

        def names(hosts: str | list[str]) -> list[str]:
            named = [hosts] if isinstance(hosts, str) else hosts
            return list(network.machines) if "*" in named else [network.known(name).name for name in named]

        senders, other = names(sender), names(receiver)
        ways = [(a, b) for a in senders for b in other if a != b]
        return list(dict.fromkeys([*ways, *((b, a) for a, b in ways)] if both else ways))

    def set_links(self, ways: Iterable[tuple[str, str]]) -> None:
        """Each way is as usual but for what the faults that last change, the last one's word counting."""
        network = self.sim.network
        for way in ways:
            usual = self._usual.setdefault(way, network.link_of(*way))
            fields = {name: getattr(usual, name) for name in Link.__dataclass_fields__}
            for on, changes in self.links:
                if way in on:
                    fields.update(changes)
            network.set_link(*way, **fields)


def inject(
    sim: FaultTargets, plan: Iterable[Fault], *, kafka: SimCluster | None = None,
    hangs: Mapping[str, Callable[[float], object]] | None = None,
) -> Injection:  # fmt: skip
    """Schedule the faults of a plan from now on, on ``kafka`` (default: the first cluster). Raises UsageError for an invalid fault."""
    if kafka is None:
        if not sim.clusters:
            raise UsageError("no cluster to break")
        kafka = sim.clusters[0]
    return Injection(sim, kafka, plan, hangs or {})
