"""Truth that findings are checked against: the lives of a ledger's processes, their commits, and the brokers' log lines.

A process lives from its start until it is killed, dies or has closed. What a client commits is known when it has the answer, a little
after the record's time. Brokers' lines are a second witness: of members that they removed, and of generations.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

from tests.incidents.ledger import Act, Event, Ledger

__all__ = ["Life", "Truth", "Witness", "drops", "witnesses"]

HEARTBEAT_MS = 1500
"""Heartbeat interval of all members: a session may end so much earlier than a process' death and its session timeout say."""
SLACK_MS = 3000
"""So far may the clocks of a process, of its death and of a broker's timer be apart."""
LATE_MS = 20_000
LOST = ("stuck", "move", "unclean election")
"""Events of partitions, in which a broker may remove members whose processes live."""


@dataclass
class Life:
    """One process. ``assigned_ms``: when it first had partitions; ``closing_ms``: when it was told to close; ``died_ms``: when it
    ended without that."""

    client: str
    start_ms: int
    session_ms: int
    assigned_ms: int | None = None
    closing_ms: int | None = None
    closed_ms: int | None = None
    died_ms: int | None = None
    over: bool = False
    """Whether the end of the process was seen, which is some time after a kill."""

    @property
    def end_ms(self) -> int | None:
        return self.died_ms if self.died_ms is not None else self.closed_ms

    def lives(self, at_ms: float) -> bool:
        return self.start_ms <= at_ms and (self.end_ms is None or at_ms < self.end_ms)


@dataclass(frozen=True)
class Witness:
    """A broker's line. ``what``: removed (``name``: a member id) or generation (``number``)."""

    at_ms: int
    group: str
    what: str
    name: str = ""
    number: int = 0


_STAMP = re.compile(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\] ")
_REMOVED = (
    re.compile(r"[Mm]ember (?P<name>\S+) in group (?P<group>\S+) has failed, removing it"),
    re.compile(
        r"\[GroupId (?P<group>\S+)\] Member (?P<name>\S+) fenced from the group because the member session expired"
    ),
)
_GENERATION = (
    re.compile(r"Stabilized group (?P<group>\S+) generation (?P<number>\d+)"),
    re.compile(r"\[GroupId (?P<group>\S+)\] Bumped group epoch to (?P<number>\d+)"),
    re.compile(r"Preparing to rebalance group (?P<group>\S+) in state \S+ with old generation (?P<number>\d+)"),
)


def witnesses(folder: Path) -> Iterator[Witness]:
    """Yield the brokers' log lines in a folder about members and generations. Lines are UTC, as the brokers' JVMs were told."""
    for log in sorted((folder / "logs" / "brokers").glob("*/server.log")):
        for line in log.read_text(errors="replace").splitlines():
            stamp = _STAMP.match(line)
            if stamp is None:
                continue
            at_ms = int(
                datetime.strptime(stamp[1], "%Y-%m-%d %H:%M:%S,%f").replace(tzinfo=UTC).timestamp() * 1000 + 0.5
            )
            for pattern in _REMOVED:
                if found := pattern.search(line):
                    yield Witness(at_ms, found["group"], "removed", name=found["name"])
            for pattern in _GENERATION:
                if found := pattern.search(line):
                    yield Witness(at_ms, found["group"], "generation", number=int(found["number"]))


@dataclass
class Truth:
    ledger: Ledger
    lines: list[Witness] = field(default_factory=list)

    # ---- events

    def events(self, group: str | None, at_ms: float, *kinds: str, late_ms: int = LATE_MS) -> list[Event]:
        """Return events of these kinds (of any, for none) that happened to a group about then; healthy ones, too."""
        return [
            event
            for event in self.ledger.events
            if (not kinds or event.kind in kinds)
            and (group is None or group in self.ledger.concerned(event))
            and event.start_ms - 5000 <= at_ms <= event.end_ms + late_ms
        ]

    def troubled(self, group: str, at_ms: float) -> bool:
        """Whether its coordinator was in trouble: what became of its members is then not in the ledger."""
        return bool(self.events(group, at_ms, *LOST, late_ms=3 * LATE_MS))

    # ---- processes

    def knows(self, group: str) -> bool:
        """Whether the ledger has acts of a group's processes."""
        return group in self.ledger.groups and bool(self.ledger.groups[group].acts)

    def acts(self, group: str, *did: str) -> list[Act]:
        return [act for act in self.ledger.groups[group].acts if not did or act.did in did]

    def lives(self, group: str, client: str | None = None) -> list[Life]:
        """Return the lives of one client id, or of all of a group's, in the order of their starts."""
        by_client: dict[str, list[Life]] = defaultdict(list)
        for act in self.acts(group):
            mine = by_client[act.client]
            if act.did == "started":
                mine.append(Life(act.client, act.at_ms, self._session(group, act)))
            elif mine:
                _live(mine, act)
        return [life for name, lives in by_client.items() if client in (None, name) for life in lives]

    def _session(self, group: str, started: Act) -> int:
        kind = self.ledger.groups[group].type
        setting = self.ledger.settings.get(f"group.{kind}.session.timeout.ms")
        return int(setting) if setting is not None else int(started.detail.get("session_ms", 0))

    def deaths(self, group: str, client: str | None = None) -> list[Life]:
        return [life for life in self.lives(group, client) if life.died_ms is not None]

    def expired(self, group: str, client: str, at_ms: int, *, exact: bool) -> tuple[bool | None, str]:
        """Whether the session of a client ended then (``exact``), or not long before."""
        early_ms, late_ms = HEARTBEAT_MS + SLACK_MS, SLACK_MS if exact else LATE_MS
        removed = [line for line in self.lines if line.what == "removed" and line.group == group
                   and at_ms - late_ms <= line.at_ms <= at_ms + SLACK_MS]  # fmt: skip
        if any(self._names(line.name, group, client) for line in removed):
            return True, "its broker logged it"
        # member ids of KIP-848 are UUIDs; librdkafka sends such a coordinator no heartbeat once max.poll.interval.ms has passed
        late = {event.detail.get("client") for event in self.events(group, at_ms, "poll expiry")}
        if removed and self.ledger.groups[group].type == "consumer" and late == {client}:
            return True, "its broker logged that the session of a member expired, and it did not poll"
        if not self.knows(group):
            return self._expired_by_events(group, client, at_ms)
        ends = [life.died_ms + life.session_ms for life in self.deaths(group, client) if life.died_ms is not None]
        if any(end_ms - early_ms <= at_ms <= end_ms + late_ms for end_ms in ends):
            return True, "its process had ended without closing"
        if self.troubled(group, at_ms):
            return None, "its coordinator was in trouble"
        return (
            False,
            f"processes of {client} ended without closing at {ends or 'no time'} (with the session timeout), not {at_ms}",
        )

    def _expired_by_events(self, group: str, client: str, at_ms: int) -> tuple[bool | None, str]:
        mine = [event for event in self.events(group, at_ms) if not event.healthy]
        if any(client == event.detail.get("client") and event.kind == "crash" for event in mine):
            return True, "the ledger has its crash"
        if any("client" not in event.detail for event in mine):
            return None, "the ledger does not say to which client it happened"
        return False, "nothing happened to it then"

    def _names(self, member: str, group: str, client: str) -> bool:
        """Whether a member id is that of a client: client id or group.instance.id, and a UUID."""
        prefix = member[:-37] if len(member) > 37 else member
        instances = {act.detail.get("instance_id") for act in self.acts(group, "started") if act.client == client} - {
            None
        }
        return prefix == client or prefix in instances

    # ---- offsets, generations

    def commits(self, group: str, partition: int) -> list[tuple[int, int, str]]:
        """(at_ms, offset, client) of each commit of that partition of its topic."""
        return [
            (act.at_ms, act.detail["offsets"][str(partition)], act.client)
            for act in self.acts(group, "committed")
            if str(partition) in act.detail["offsets"]
        ]

    def partitions(self, group: str) -> set[int]:
        return {int(name) for act in self.acts(group, "committed") for name in act.detail["offsets"]}

    def generations(self, group: str, from_ms: float, to_ms: float) -> set[int]:
        return {
            line.number
            for line in self.lines
            if line.what == "generation" and line.group == group and from_ms <= line.at_ms <= to_ms
        }


def _live(mine: list[Life], act: Act) -> None:
    """Apply an act to the lives of a client."""
    last = mine[-1]
    if act.did == "assigned" and act.detail["partitions"] and last.assigned_ms is None:
        last.assigned_ms = act.at_ms
    elif act.did == "close":
        last.closing_ms = act.at_ms
    elif act.did == "closed":
        last.closed_ms = act.at_ms
    elif act.did == "killed" and last.end_ms is None:
        last.died_ms = act.at_ms
    elif act.did == "ended":  # of the oldest one: a process that takes its place may have been started before
        life = next((one for one in mine if not one.over), last)
        life.over = True
        if life.end_ms is None and (act.detail["code"] != 0 or life.closing_ms is None):
            life.died_ms = act.at_ms
        elif life.end_ms is None:
            life.closed_ms = act.at_ms


def drops(commits: Iterable[tuple[int, int, str]]) -> list[tuple[tuple[int, int, str], tuple[int, int, str]]]:
    """Pairs of commits of one partition of which the later one is lower."""
    rows = list(commits)
    return [(before, row) for before, row in pairwise(rows) if row[1] < before[1]]
