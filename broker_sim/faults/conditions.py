"""Lasting states of a log partition: what incidents are made of.

A state is set and later healed; in between everything that the partition's leader and its group coordinator do follows from it. The
states of one aspect exclude each other; states of different aspects go together.

``KINDS`` is the whole list. ``append_error`` is the log's error for an append during the state; the policy's tables map it to the
coordinator's error response. ``read_error`` is the error of Fetch and ListOffsets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from broker_sim.common.chance import Chance
from broker_sim.common.clock import Timer
from broker_sim.common.text import UsageError, duration_ms, duration_text, expected, unknown
from broker_sim.metadata import leader_election
from broker_sim.metadata.cluster_state import ClusterState, Partition
from broker_sim.metadata.topics import INTERNAL_TOPICS, AppendInterceptor
from broker_sim.storage.errors import StorageError
from kafka_wire.errors import Err

if TYPE_CHECKING:
    from broker_sim.journal import Journal
    from broker_sim.runtime.coordinator_runtime import CoordinatorRuntime

__all__ = ["KINDS", "CoordinatorsOf", "PartitionFault", "PartitionFaultKind", "PartitionFaults"]

CoordinatorsOf = Callable[[Partition], "CoordinatorRuntime[Any] | None"]
"""The coordinators that keep their state in a partition's topic; None for a topic of data."""

COMMIT, WRITE, LEAD = "commit", "write", "lead"


@dataclass(frozen=True, slots=True)
class PartitionFaultKind:
    """A kind of state. ``arguments`` are the names that it takes besides ``for``, all of them durations but ``free_bytes``."""

    name: str
    aspect: str
    description: str
    arguments: tuple[str, ...] = ()
    append_error: Err = Err.NONE
    read_error: Err = Err.NONE
    coordinators_only: bool = False


KINDS: dict[str, PartitionFaultKind] = {
    kind.name: kind
    for kind in (
        PartitionFaultKind(
            "stuck",
            COMMIT,
            "followers stop fetching but stay in the ISR: records are appended, the high watermark does not advance",
            ("isr_shrinks_after",),
        ),
        PartitionFaultKind(
            "under_min_isr",
            COMMIT,
            "the ISR is smaller than min.insync.replicas: acks=all is refused; as 4.x, the high watermark does not advance either",
        ),
        PartitionFaultKind(
            "slow",
            COMMIT,
            "every append is committed late, as with a slow disk or follower",
            ("latency", "jitter"),
        ),
        PartitionFaultKind(
            "storage_error",
            WRITE,
            "the log directory is offline: neither append nor read",
            append_error=Err.KAFKA_STORAGE_ERROR,
            read_error=Err.KAFKA_STORAGE_ERROR,
        ),
        PartitionFaultKind(
            "full",
            WRITE,
            "the disk is full after `free_bytes` more bytes; reads work",
            ("free_bytes",),
            Err.KAFKA_STORAGE_ERROR,
        ),
        PartitionFaultKind(
            "readonly",
            WRITE,
            "the file system is read-only: no append, no deletion; reads work",
            (),
            Err.KAFKA_STORAGE_ERROR,
        ),
        PartitionFaultKind(
            "too_large",
            WRITE,
            "every append exceeds max.message.bytes",
            append_error=Err.MESSAGE_TOO_LARGE,
        ),
        PartitionFaultKind(
            "not_leader",
            WRITE,
            "the leader in the metadata has lost the leadership, and metadata is not updated yet",
            append_error=Err.NOT_LEADER_OR_FOLLOWER,
            read_error=Err.NOT_LEADER_OR_FOLLOWER,
        ),
        PartitionFaultKind(
            "fenced",
            WRITE,
            "the leader's epoch is fenced: requests with a leader epoch get FENCED_LEADER_EPOCH, appends fail",
            append_error=Err.FENCED_LEADER_EPOCH,
            read_error=Err.FENCED_LEADER_EPOCH,
        ),
        PartitionFaultKind(
            "no_leader", LEAD, "no replica is alive: metadata has no leader, groups have no coordinator"
        ),
        PartitionFaultKind(
            "loading",
            LEAD,
            "the coordinator loads its log: COORDINATOR_LOAD_IN_PROGRESS until the state is cleared, then it loads",
            coordinators_only=True,
        ),
    )
}


@dataclass(eq=False, slots=True)
class PartitionFault:
    """A state that a partition is in, until :meth:`PartitionFaults.heal`."""

    number: int
    kind: PartitionFaultKind
    partition: Partition
    args: dict[str, Any]
    """As they were given: durations in ms."""
    active: bool = True
    undo: Callable[[], object] | None = None
    timers: list[Timer] = field(default_factory=list)

    @property
    def text(self) -> str:
        """``__consumer_offsets-12 is slow (latency 200 ms)``."""
        shown = ", ".join(
            f"{name} {value if name == 'free_bytes' else duration_text(value)}" for name, value in self.args.items()
        )
        return f"{self.partition.name} is {self.kind.name}" + (f" ({shown})" if shown else "")

    def to_dict(self) -> dict[str, Any]:
        """The state as an object that can be written as JSON."""
        return {
            "id": self.number,
            "log": self.partition.name,
            "state": self.kind.name,
            "args": dict(self.args),
            "active": self.active,
        }


class PartitionFaults:
    """The states of a cluster's partitions. ``chance`` gives the jitter, at each log its own."""

    def __init__(
        self,
        state: ClusterState,
        coordinators_of: CoordinatorsOf,
        chance: Chance,
        journal: Journal | None = None,
    ) -> None:
        self._state, self._coordinators_of, self._chance, self.journal = state, coordinators_of, chance, journal
        self._active: list[PartitionFault] = []
        self._number = 0

    def of(self, partition: Partition | None = None) -> list[PartitionFault]:
        """The states that last, of one partition or of all."""
        return [fault for fault in self._active if partition is None or fault.partition is partition]

    @property
    def last_number(self) -> int:
        """The number of the state that was set last, 0 before the first."""
        return self._number

    def get(self, number: int) -> PartitionFault:
        """A state that lasts, by its number. Raises UsageError."""
        for fault in self._active:
            if fault.number == number:
                return fault
        raise unknown("active state", number, [str(fault.number) for fault in self._active])

    def set(self, partition: Partition, name: str, *, replace: bool = False, **args: Any) -> PartitionFault:
        """Put a partition into a state. ``args``: the kind's own and ``for_``, a duration after which it heals by itself.

        Raises UsageError: no such state or argument, a state that only an offsets partition can have, another of the same aspect
        (which ``replace`` heals first).
        """
        kind = KINDS.get(name)
        if kind is None:
            raise unknown("state", name, KINDS)
        if kind.coordinators_only and not partition.topic.internal:
            internal = " or ".join(sorted(INTERNAL_TOPICS))
            raise UsageError(f"{partition.name} can't be {name}: only a partition of {internal} can")
        given = {key: value for key, value in args.items() if value is not None}
        for_ms = duration_ms(given.pop("for_"), "for") if "for_" in given else None
        checked = _checked(kind, given)
        for other in self.of(partition):
            if other.kind.aspect == kind.aspect:
                if not replace:
                    raise UsageError(f"{partition.name} is {other.kind.name} already, which excludes {name}")
                self.heal(other)
        self._number += 1
        fault = PartitionFault(self._number, kind, partition, checked if for_ms is None else {**checked, "for": for_ms})
        self._active.append(fault)
        self._write(fault, "set")
        _APPLY.get(name, _Apply.errors)(self, fault)
        self._touch()
        partition.wake()
        if for_ms is not None:
            self._later(fault, for_ms, lambda: self.heal(fault))
        return fault

    def heal(self, fault: PartitionFault) -> None:
        """End a state; nothing happens where it has ended."""
        if not fault.active:
            return
        fault.active = False
        self._active.remove(fault)
        for timer in fault.timers:
            timer.cancel()
        self._write(fault, "healed")
        if fault.undo is not None and not fault.partition.deleted:
            fault.undo()
        self._touch()
        fault.partition.wake()

    def heal_all(self) -> None:
        """End all states, the last one first."""
        for fault in reversed(self._active[:]):
            self.heal(fault)

    def forget(self) -> None:
        """The brokers are no more, and the states that their logs were in with them."""
        for fault in self._active:
            fault.active = False
            self._write(fault, "healed")
        self._active.clear()

    def _later(self, fault: PartitionFault, delay_ms: int, what: Callable[[], object]) -> None:
        clock = self._state.clock
        fault.timers.append(clock.call_at_ms(clock.now_ms() + delay_ms, what))

    def _write(self, fault: PartitionFault, action: str) -> None:
        if self.journal is not None:
            self.journal.write(
                "state", log=fault.partition.name, state=fault.kind.name, args=dict(fault.args), action=action
            )

    def _touch(self) -> None:
        """Invalidate answers and other results that depend on partitions' states."""
        self._state.version += 1
        self._state.answers.clear()


class _Apply:
    """Functions that begin each kind of state; they set ``undo`` to the function that ends it."""

    @staticmethod
    def stuck(faults: PartitionFaults, fault: PartitionFault) -> None:
        partition = fault.partition
        partition.high_watermark_frozen = True
        fault.undo = partition.unfreeze_high_watermark
        if "isr_shrinks_after" in fault.args:
            faults._later(fault, fault.args["isr_shrinks_after"], lambda: _Apply.under_min_isr(faults, fault))

    @staticmethod
    def under_min_isr(faults: PartitionFaults, fault: PartitionFault) -> None:
        partition, isr = fault.partition, fault.partition.isr

        def undo() -> None:
            partition.isr_too_small = False
            if partition.leader >= 0:  # without one they can't be in sync: they rejoin the ISR behind the next leader
                brokers, replicas, now = faults._state.brokers, partition.replicas, partition.isr
                back = [node for node in isr if node in replicas and brokers[node].alive]
                partition.isr = [*back, *(node for node in now if node not in back)]
            leader_election.catch_up(faults._state, partition)
            partition.unfreeze_high_watermark()

        fault.undo = undo
        partition.isr_too_small = True
        if partition.leader in isr:
            partition.isr = [partition.leader]
        faults._touch()
        if faults._state.config.release >= (4, 0):
            partition.high_watermark_frozen = True
        else:
            partition.unfreeze_high_watermark()  # 3.x moves the high watermark on without them

    @staticmethod
    def slow(faults: PartitionFaults, fault: PartitionFault) -> None:
        partition = fault.partition
        partition.high_watermark_frozen = True
        remove = _add_gate(partition, _SlowLog(faults, fault))

        def undo() -> None:
            remove()
            partition.unfreeze_high_watermark()

        fault.undo = undo

    @staticmethod
    def no_leader(faults: PartitionFaults, fault: PartitionFault) -> None:
        partition, leader, state = fault.partition, fault.partition.leader, faults._state
        fault.undo = lambda: leader_election.reopen(state, partition, leader)
        partition.barred = True
        state.set_leader(partition, -1)

    @staticmethod
    def loading(faults: PartitionFaults, fault: PartitionFault) -> None:
        partition, runtime = fault.partition, faults._coordinators_of(fault.partition)
        assert runtime is not None
        if partition.leader >= 0:  # who loads has become leader: in a new epoch
            faults._state.set_leader(partition, partition.leader, "its coordinator loads")
        fault.undo = lambda: runtime.end_loading(partition)
        runtime.reload(partition, keep_loading=True)

    @staticmethod
    def errors(faults: PartitionFaults, fault: PartitionFault) -> None:
        partition = fault.partition
        partition.read_error = fault.kind.read_error
        remove = _add_gate(partition, _Refusing(fault))

        def undo() -> None:
            remove()
            partition.read_error = Err.NONE

        fault.undo = undo


_APPLY: dict[str, Callable[[PartitionFaults, PartitionFault], None]] = {
    "stuck": _Apply.stuck,
    "under_min_isr": _Apply.under_min_isr,
    "slow": _Apply.slow,
    "no_leader": _Apply.no_leader,
    "loading": _Apply.loading,
}


class _Gates:
    """Several gates in a row: states of different aspects go together."""

    def __init__(self) -> None:
        self.all: list[AppendInterceptor] = []

    def before(self, size: int) -> None:
        """Call all interceptors before an append; each may raise the log's error."""
        for gate in self.all:
            gate.before(size)

    def after(self, end: int) -> None:
        """Notify all interceptors of a completed append."""
        for gate in self.all:
            gate.after(end)


def _add_gate(partition: Partition, gate: AppendInterceptor) -> Callable[[], None]:
    """Put a gate before a log; returns what takes it away."""
    gates = partition.append_interceptor if isinstance(partition.append_interceptor, _Gates) else _Gates()
    partition.append_interceptor = gates
    gates.all.append(gate)

    def remove() -> None:
        gates.all.remove(gate)
        if not gates.all:
            partition.append_interceptor = None

    return remove


class _SlowLog:
    """Commits each append after its latency, in order."""

    def __init__(self, faults: PartitionFaults, fault: PartitionFault) -> None:
        self._faults, self._fault, self._last_ms = faults, fault, 0

    def before(self, size: int) -> None: ...

    def after(self, end: int) -> None:
        """The high watermark follows later."""
        args, clock, partition = self._fault.args, self._faults._state.clock, self._fault.partition
        late = self._faults._chance.at(partition.name).random()
        due_ms = clock.now_ms() + args["latency"] + round(late * args.get("jitter", 0))
        self._last_ms = max(due_ms, self._last_ms)
        clock.call_at_ms(self._last_ms, self._commit, partition, end)

    def _commit(self, partition: Partition, end: int) -> None:
        if self._fault.active:
            partition.advance_high_watermark(end)


class RefusedAppend(StorageError):
    """An append that a state refuses, with the error of its kind."""

    def __init__(self, error: Err, text: str) -> None:
        super().__init__(text)
        self.error = error  # type: ignore[misc]


class _Refusing:
    """Refuses appends; a full disk takes what still fits."""

    def __init__(self, fault: PartitionFault) -> None:
        self._fault = fault
        self._free_bytes = fault.args.get("free_bytes", 0)

    def before(self, size: int) -> None:
        """Refuse it, unless it fits."""
        if size > self._free_bytes:
            raise RefusedAppend(self._fault.kind.append_error, self._fault.text)
        self._free_bytes -= size

    def after(self, end: int) -> None:
        """Do nothing after an append."""


def _checked(kind: PartitionFaultKind, given: dict[str, Any]) -> dict[str, Any]:
    checked: dict[str, Any] = {}
    for name, value in given.items():
        if name not in kind.arguments:
            raise UsageError(
                f"the state {kind.name!r} has no argument {name!r}; {expected(name, (*kind.arguments, 'for_'))}"
            )
        if name == "free_bytes":
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise UsageError(f"free_bytes: {value!r} is not a number of bytes (expected 0 or more)")
            checked[name] = value
        else:
            checked[name] = duration_ms(value, name)
    if kind.name == "slow" and not checked.get("latency"):
        raise UsageError("the state 'slow' needs a latency, as in latency=200ms")
    return checked
