"""Journals written by hand: a group's events in the journal's schema, a step a line, with times in seconds from "
"10:00:00."""

from __future__ import annotations

import copy
from typing import Any

START_MS = 1_730_628_000_000  # 2024-11-03 10:00:00 UTC
LOG = "__consumer_offsets-12"


def client_of(member: str) -> str:
    """``app-1`` of ``app-1~aaaa``, ``web`` of the static ``web!~1111``."""
    return member.partition("~")[0]


class Script:
    """Writes events; ``at(seconds)`` sets the time of what follows."""

    def __init__(self, group: str = "billing", log: str = LOG) -> None:
        self.group, self.log = group, log
        self.events: list[dict[str, Any]] = []
        self.ts_ms = START_MS
        self.snapshot: dict[str, Any] | None = None
        self.requests = 0

    def at(self, seconds: float) -> Script:
        self.ts_ms = START_MS + round(seconds * 1000)
        return self

    def event(self, event: str, **fields: Any) -> dict[str, Any]:
        one = {"seq": len(self.events) + 1, "ts_ms": self.ts_ms, "event": event, **fields}
        self.events.append(one)
        return one

    # requests

    def ask(self, api: str, member: str = "", **body: Any) -> int:
        """A request of a member; the client id is the member's name without its random part."""
        self.requests += 1
        client = client_of(member)
        self.event(
            "request",
            request=self.requests,
            broker=1,
            connection=sum(map(ord, client)),
            api=api,
            version=5,
            correlation_id=self.requests,
            client_id=body.pop("client_id", client),
            client_host="/127.0.0.1",
            group=body.pop("group", self.group),
            **({"member": member} if member else {}),
            **({"topics": body.pop("topics")} if "topics" in body else {}),
            body=body,
        )
        return self.requests

    def answer(self, request: int, error: str | None = None, **body: Any) -> None:
        asked = next(one for one in self.events if one.get("request") == request and one["event"] == "request")
        fields = {"error": error} if error else {}
        took_ms = self.ts_ms - asked["ts_ms"]
        self.event("response", request=request, api=asked["api"], took_ms=took_ms, body=body, **fields)

    def call(self, api: str, member: str = "", error: str | None = None, **body: Any) -> int:
        """A request that is answered at once."""
        request = self.ask(api, member, **body)
        self.answer(request, error)
        return request

    # steps

    def step(self, cause: dict[str, Any], **changes: Any) -> None:
        """A ``group`` event: ``changes`` of the snapshot; ``join=[ids]``, ``gone=[ids]``, ``deferred={id: api}`` of the "
        "members."""
        before = copy.deepcopy(self.snapshot)
        after = copy.deepcopy(self.snapshot) or {
            "state": "Empty",
            "generation": 0,
            "protocol": None,
            "leader": None,
            "members": [],
        }
        after.setdefault("pending", [])
        for member in changes.pop("join", []):
            after["members"].append(self.seat(member))
        gone = changes.pop("gone", [])
        after["members"] = [one for one in after["members"] if one["member"] not in gone]
        deferred = changes.pop("deferred", {})
        for one in after["members"]:
            one["deferred"] = deferred.get(one["member"], deferred.get("*", one["deferred"]))
        for member, fields in changes.pop("seats", {}).items():
            next(one for one in after["members"] if one["member"] == member).update(fields)
        after.update(changes)
        self.snapshot = None if changes.get("state") == "Dead" else after
        self.event(
            "group", log=self.log, group=self.group, cause=cause, before=before, after=copy.deepcopy(self.snapshot)
        )

    @staticmethod
    def seat(member: str) -> dict[str, Any]:
        client = client_of(member)
        return {
            "member": member,
            "client_id": client,
            "client_host": "/127.0.0.1",
            "instance": client.removesuffix("!") if client.endswith("!") else None,
            "deferred": None,
            "session_timeout_ms": 45_000,
            "rebalance_timeout_ms": 60_000,
            "topics": ["orders"],
            "assignment": None,
        }

    # longer pieces

    def joins(self, member: str, **changes: Any) -> int:
        """A JoinGroup that is parked."""
        request = self.ask("JoinGroup", member, member_id=member)
        known = self.snapshot is not None and any(one["member"] == member for one in self.snapshot["members"])
        cause = {"kind": "request", "request": request, "api": "JoinGroup", "member": member}
        self.step(cause, join=[] if known else [member], deferred={member: "JoinGroup"}, **changes)
        return request

    def closes(self, cause: dict[str, Any], generation: int, leader: str, joins: list[int], **changes: Any) -> None:
        """The window ends; ``joins`` are answered."""
        if cause.get("timer"):
            self.event("timer", log=self.log, timer=cause["timer"], group=self.group, due_ms=self.ts_ms)
        changes = {"deferred": {"*": None}, **changes}
        self.step(cause, state="CompletingRebalance", generation=generation, leader=leader, protocol="range", **changes)
        for request in joins:
            self.answer(request)

    def syncs(self, leader: str, followers: list[str], generation: int) -> list[int]:
        """Parked SyncGroups, the leader's first, and the append of the assignment."""
        requests = []
        for member in [leader, *followers]:
            request = self.ask("SyncGroup", member, member_id=member, generation_id=generation)
            cause = {"kind": "request", "request": request, "api": "SyncGroup", "member": member}
            self.step(cause, deferred={member: "SyncGroup"})
            requests.append(request)
        return requests

    def appends(self, *, committed: bool = True, error: str | None = None, kinds: tuple[str, ...] = ("group",)) -> None:
        fields = {"error": error} if error else {}
        self.event(
            "append",
            log=self.log,
            requests=[],
            kinds=list(kinds),
            groups=[self.group],
            records=1,
            base_offset=7,
            last_offset=7,
            high_watermark=8 if committed else 7,
            **fields,
        )

    def stable(self, syncs: list[int]) -> None:
        self.step({"kind": "append", "error": "NONE"}, state="Stable", deferred={"*": None})
        for request in syncs:
            self.answer(request)

    def formed(self, members: list[str], generation: int = 1) -> Script:
        """A group of ``members`` from nothing to Stable in 3 s, the first one leading."""
        start = (self.ts_ms - START_MS) / 1000
        joins = [self.joins(members[0], state="PreparingRebalance", leader=members[0])]
        for position, member in enumerate(members[1:], 1):
            self.at(start + 0.1 * position)
            joins.append(self.joins(member))
        self.at(start + 3)
        timer = {"kind": "timer", "timer": "rebalance", "group": self.group}
        self.closes(timer, generation, members[0], joins)
        self.at(start + 3.012)
        syncs = self.syncs(members[0], members[1:], generation)
        self.appends()
        self.stable(syncs)
        return self
