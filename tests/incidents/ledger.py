"""The truth about one incident's folder: what was done to which group, when, and what was healthy.

    folder/ledger.json                        this module's `Ledger`
    folder/data/__consumer_offsets-N/         and __transaction_state-N, other topics: copies from the brokers
    folder/logs/brokers/node-1/server.log     controller.log, state-change.log: as Kafka's shipped configuration writes them
    folder/logs/clients/NAME.log              one for each consumer's process, in its library's layout

Times are ms since 1970 by the machine's clock, which brokers and clients share.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Act", "Event", "GroupFacts", "Ledger"]

FILE = "ledger.json"


@dataclass
class Event:
    """Something that was done. ``healthy``: nothing that deserves more than a note; ``group`` None: all of ``log_partitions``.

    ``end_ms`` is when its last direct effect was over: a crash ends as its session does.
    """

    kind: str
    healthy: bool
    start_ms: int
    end_ms: int
    did: str
    group: str | None = None
    log_partitions: list[int] = field(default_factory=list)
    detail: dict[str, Any] = field(default_factory=dict)


@dataclass
class Act:
    """Act of or on one consumer's process. ``did``: started (``detail``: session_ms, instance_id), a command of
    `member`, killed, ended (code, a negative signal), assigned (partitions), committed (offsets: partition -> offset), closed."""

    at_ms: int
    client: str
    did: str
    detail: dict[str, Any] = field(default_factory=dict)


@dataclass
class GroupFacts:
    """A group as it was set up. ``type``: classic, consumer, or assigned (it commits without joining); ``acts``: in order, empty in
    ledgers that were written before there were any."""

    log_partition: int
    type: str
    topic: str
    clients: list[str] = field(default_factory=list)
    acts: list[Act] = field(default_factory=list)


@dataclass
class Ledger:
    kafka: str
    play: str
    seed: int
    nodes: int
    copied: str
    from_ms: int
    to_ms: int
    settings: dict[str, Any]
    groups: dict[str, GroupFacts]
    events: list[Event]

    def concerned(self, event: Event) -> set[str]:
        """The groups whom an event happens to."""
        if event.group is not None:
            return {event.group}
        return {name for name, facts in self.groups.items() if facts.log_partition in event.log_partitions}

    def healthy_groups(self) -> set[str]:
        """Groups to whom nothing happened but what is healthy."""
        hit = [self.concerned(event) for event in self.events if not event.healthy]
        return set(self.groups).difference(*hit)

    def write(self, folder: Path) -> None:
        (folder / FILE).write_text(json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def read(cls, folder: Path) -> Ledger:
        raw = json.loads((folder / FILE).read_text())
        raw["groups"] = {name: GroupFacts(**facts) for name, facts in raw["groups"].items()}
        for facts in raw["groups"].values():
            facts.acts = [Act(**act) for act in facts.acts]
        raw["events"] = [Event(**event) for event in raw["events"]]
        return cls(**raw)
