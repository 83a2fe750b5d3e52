"""Data of a group's history. Times are ms of the broker's clock; members are named by their ids."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field

from broker_sim.explain.deliveries import ShareGroupReader as Deliveries
from broker_sim.explain.epoch_steps import Holding
from broker_sim.explain.events import Call, GroupSnapshot
from broker_sim.explain.rebalances import Cause, Phases
from broker_sim.explain.transaction_model import BlockedStableOffset, TransactionHistory, TransactionRequest

__all__ = [
    "Arrival",
    "Disconnected",
    "History",
    "Incident",
    "MemberInfo",
    "Rebalance",
    "RebalanceSeries",
    "Removal",
    "Replacement",
    "Span",
    "commits_of",
]


@dataclass(slots=True)
class MemberInfo:
    """A member as it was last seen."""

    member: str
    client_id: str = ""
    client_host: str = ""
    instance: str | None = None
    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None
    first_ms: int = 0
    last_ms: int | None = None  # when it ceased to be a member
    admitted: bool = True  # False: its requests were refused, and no step shows it as a member


@dataclass(slots=True)
class Arrival:
    """A member's JoinGroup in the join phase. ``prompted_ms``: when an answer first said REBALANCE_IN_PROGRESS, by ``prompted_by``."""

    member: str
    ts_ms: int
    call: Call | None = None
    prompted_ms: int | None = None
    prompted_by: str | None = None


@dataclass(slots=True)
class Removal:
    """Removal of a member. ``why``: session, left, rebalance_timeout, sync_timeout, max_size_reached, unknown. ``calls``: its requests
    while the group waited for its JoinGroup, the last one first; ``deleted``: topics that had been deleted by then, and when."""

    member: str
    ts_ms: int
    why: str
    calls: list[Call] = field(default_factory=list)
    deleted: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Replacement:
    """A static member rejoined with a new member id; ``rebalanced``: that began a rebalance. ``added``, ``lost``: topics that came
    to its subscription, and left it; ``unread``: those among the added ones to which no other member subscribes."""

    ts_ms: int
    instance: str
    old: str
    new: str
    rebalanced: bool = False
    order: int = 0
    added: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Rebalance(Phases):
    """The phases of a rebalance, with its requests, timers and appends."""

    expected: list[str] = field(default_factory=list)  # members when it began
    arrivals: dict[str, Arrival] = field(default_factory=dict)
    prompted: dict[str, tuple[int, str]] = field(default_factory=dict)
    cut_joins: list[Call] = field(default_factory=list)  # JoinGroups that got an error response in the join phase
    removals: list[Removal] = field(default_factory=list)
    silent_static: list[str] = field(default_factory=list)
    pending_from_ms: dict[str, int] = field(default_factory=dict)  # id -> since when everybody else was in
    pending_waits_ms: dict[str, int] = field(
        default_factory=dict
    )  # id -> how long it alone delayed the end of the join phase, ms
    timer_fired: int = 0
    closed_by: str = ""  # "timer", "joined", "departed"
    members: list[str] = field(default_factory=list)
    protocol: str | None = None
    leader_sync: Call | None = None
    syncs: dict[str, Call] = field(default_factory=dict)
    appended_ms: int | None = None
    append_error: str | None = None
    append_committed: bool = False
    delay_ms: int = 0  # Connect: how long the leader delays its next assignment
    order: int = 0  # of its first event in the journal
    conditions: list[Span] = field(default_factory=list)
    faults: list[Call] = field(default_factory=list)
    following: Rebalance | None = field(default=None, repr=False)

    @property
    def also(self) -> list[Cause]:
        """Other causes within the join phase, besides members that rejoined."""
        passed_over = ("unknown", "rejoined", "leader_rejoined", "appended", "rebalance_timer")
        return [cause for cause in self.within if cause.kind not in passed_over]

    @property
    def last_arrival(self) -> Arrival | None:
        return max(self.arrivals.values(), key=lambda arrival: arrival.ts_ms, default=None)

    @property
    def sync_error(self) -> str | None:
        """Error of the response to the leader's SyncGroup; None if it had none."""
        return None if self.leader_sync is None else self.leader_sync.error


@dataclass(slots=True)
class Span:
    """Something that lasts: ``kind`` state, fault, broker, loading. ``to_ms`` None: still on at the journal's end. ``hits``: of a rule,
    requests of the group; ``used_up``: its ``times``, if it has matched so many requests of any client: it ended then."""

    kind: str
    label: str
    from_ms: int
    to_ms: int | None = None
    hits: int = 0
    key: str = ""
    order: int = 0
    used_up: int | None = None


@dataclass(slots=True)
class Disconnected:
    """A member of a Stable classic group at the journal's end whose connection was closed. ``ends_ms``: when its session ends; None if
    that is unknown. ``partitions``: those that are assigned to it: ``orders-0``."""

    member: str
    closed_ms: int
    ends_ms: int | None
    partitions: list[str]


@dataclass(slots=True)
class Incident:
    """Something at a moment that is no rebalance: ``kind`` leader, loaded, load_failed, moved, deleted, clock, mark, order, grown,
    topic (that the group reads: created or deleted), broker, offsets (that moved otherwise than forward by reading), client (a message
    of a scenario's client ``client``), refused (clients that could not be served). ``request``: the number of the last request before
    it, of whatever client."""

    kind: str
    ts_ms: int
    text: str
    order: int = 0
    client: str = ""
    request: int = 0


@dataclass(slots=True)
class RebalanceSeries:
    """Rebalances one after the other of which none became Stable, or not for long. ``last``: the one after them, which ended the
    stretch at ``to_ms``, or goes on. ``stable_ms``: the longest time in between that the group was Stable, None if it never was."""

    rebalances: list[Rebalance]
    last: Rebalance | None
    from_ms: int
    to_ms: int | None
    stable_ms: int | None = None


@dataclass(slots=True)
class History:
    """The history of one group from the journal."""

    group: str
    log: str | None = None
    first_ms: int = 0
    last_ms: int = 0
    begins_in_the_middle: bool = False
    rebalances: list[Rebalance] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    incidents: list[Incident] = field(default_factory=list)
    nothing_to_read: list[str] = field(default_factory=list)
    """A sentence for each of its topics that was created by the way, and that no client has produced to."""
    spans: list[Span] = field(default_factory=list)
    replacements: list[Replacement] = field(default_factory=list)
    series: list[RebalanceSeries] = field(default_factory=list)
    states: list[tuple[int, str, int]] = field(default_factory=list)  # since when, state, generation
    epochs: list[tuple[int, str, int]] = field(default_factory=list)  # as a consumer group: since when, state, epoch
    holdings: dict[str, list[Holding]] = field(
        default_factory=dict
    )  # of an epoch-based group: what each member had when
    members: dict[str, MemberInfo] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    hosts: dict[str, str] = field(default_factory=dict)  # in a simulation: their names by address
    now: GroupSnapshot | None = None
    disconnected: list[Disconnected] = field(default_factory=list)
    existed: bool = False
    transactions: list[TransactionHistory] = field(default_factory=list)  # that commit for it, or that it waited for
    transaction_requests: list[TransactionRequest] = field(default_factory=list)
    """Requests of the same transactional ids outside of transactions: refused ones, and those that a rule matched."""
    deliveries: Deliveries | None = None  # of a share group: what became of its records
    blocked: list[BlockedStableOffset] = field(default_factory=list)  # last stable offsets at which its members waited

    def name(self, member: str) -> str:
        """The member's short name, else its id."""
        return self.names.get(member) or member or "?"

    @property
    def is_known(self) -> bool:
        """Whether the journal has anything of the group."""
        return self.existed or bool(self.calls) or bool(self.epochs)

    @property
    def commits(self) -> list[Call]:
        return commits_of(self.calls)

    def calls_between(self, from_ms: int, to_ms: int | None) -> list[Call]:
        """The calls that came then; ``to_ms`` None: up to the end, that included."""
        start = bisect_left(self.calls, from_ms, key=lambda call: call.ts_ms)
        end = len(self.calls) if to_ms is None else bisect_left(self.calls, to_ms, key=lambda call: call.ts_ms)
        return self.calls[start:end]


def commits_of(calls: Iterable[Call]) -> list[Call]:
    """The calls that commit offsets: OffsetCommit and TxnOffsetCommit."""
    return [call for call in calls if call.api in ("OffsetCommit", "TxnOffsetCommit")]
