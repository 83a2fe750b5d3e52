"""Invariants of every run, whatever fails: checked as responses come and events happen, up to the first breach.

    answers = Answers(kafka.state, time_s, broken)          # from the clients' side: needs no journal, so the broker's short ways run
    ask = answers.sent("Heartbeat", request, version, broker); answers.answered(ask, response)
    watch = Invariants(kafka, broken)                       # from the journal, event by event; `watch.finish()` compares with the log

Rules:
1. Checks use only what a client can know: if B was *sent* after the *response* to A, B is after A. Concurrent requests may take
   effect in either order, and a request without a response, or with an error that leaves it open, may have taken effect or not.
2. A coordinator that moves forgets what it had not written: memberships and generations are compared within one leader epoch alone.
   Committed offsets are compared across all.
3. Which offsets partition a group belongs to is computed here, not asked of the broker.
4. ``broken(error)`` is called once, at the first breach; nothing is checked after it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, NamedTuple

from broker_sim.simulation.checks.answers import (
    CHECKS,
    HISTORY,
    OFFSETS,
    Answers,
    Broken,
    InvariantBroken,
    offsets_partition,
)
from broker_sim.simulation.checks.replay import StoredGroup, differences, groups_in_log
from broker_sim.simulation.checks.rules import (
    COMPLETING,
    DEAD,
    EMPTY,
    PREPARING,
    RULED,
    STABLE,
    answer_of,
    at_once,
    step_error,
    waits_in_vain,
)
from broker_sim.simulation.checks.sent import SentRequest
from kafka_wire.errors import Err

if TYPE_CHECKING:
    from broker_sim.api.cluster import Cluster
    from broker_sim.coordinator.shard import Shard
    from broker_sim.metadata.cluster_state import Partition
    from broker_sim.simulation.checks.ledger import DeliveryLedger

__all__ = ["Answers", "InvariantBroken", "Invariants", "offsets_partition"]

# --- from the journal ---------------------------------------------------------------------------------------------------


class _Step(NamedTuple):
    """For the text of an error, if there comes one."""

    now_ms: int
    cause: dict[str, Any]
    before: dict[str, Any] | None
    after: dict[str, Any] | None

    def __str__(self) -> str:
        return f"{self.now_ms} {self.cause} {_short(self.before)} -> {_short(self.after)}"


class Invariants:
    """Checks the events of the journal of a cluster that is observed. ``answers`` checks its requests and responses; ``waive``:
    invariants that are not checked; ``ledger`` gets the committed offsets."""

    def __init__(
        self, kafka: Cluster, broken: Broken, *, waive: Collection[str] = (), ledger: DeliveryLedger | None = None
    ) -> None:
        self.kafka, self._report, self.ledger = kafka, broken, ledger
        self.now_ms = 0
        self.answers = Answers(
            kafka.state, lambda: self.now_ms / 1000, self._on_breach, waive=waive, hears_removals=True
        )
        self.broken: InvariantBroken | None = None
        self._asks: dict[int, SentRequest] = {}
        self._groups: dict[str, dict[str, Any]] = {}
        self._since_ms: dict[str, int] = {}  # when the group entered its state
        self._by_epochs: dict[str, None] = {}  # groups that are none of classic members alone
        self._gone: dict[tuple[str, str], int] = {}  # who was a member -> answers that had been given until then
        self._marks: dict[str, int] = {}  # log -> high watermark
        self._lasts: dict[str, int] = {}  # log -> last offset of its last append
        self._placed: dict[int, int] = {}  # request -> the last offset of its records
        self._shows: set[tuple[str, str, int]] = set()  # group, partition, offset: has been published
        self._loads = 0  # answers that had been given when a log was loaded last
        self._was_empty: dict[str, bool] = {}  # before the state that it is in, or it may wait for another reason
        self._causes = 0  # requests and timers
        self._before: dict[
            int, tuple[int, dict[str, Any] | None]
        ] = {}  # request -> their number, its group when it came
        self._expired: tuple[str, str] | None = None
        self._looked_ms = 0
        self._history: dict[str, deque[_Step]] = {}
        self._stop = kafka.journal.subscribe(self.event)

    def _on_breach(self, error: InvariantBroken) -> None:
        if self.broken is None:
            self.broken = error
            self._stop()
            self._report(error)

    def _fail(self, name: str, group: str, what: str) -> None:
        text = f"{self.now_ms} ms, group {group}: {what}"
        self.answers.report(InvariantBroken(name, text, self._history.get(group, ())))

    def event(self, event: dict[str, Any]) -> None:
        """Check an event of the journal."""
        self.now_ms = event["ts_ms"]
        if event["event"] in ("request", "timer"):
            self._causes += 1
        handle = _EVENTS.get(event["event"])
        expired = self._expired
        if handle is not None:
            handle(self, event)
        if expired is not None and event["event"] != "timer":
            self._expired = None
            self._check_expired(*expired)
        if self.now_ms - self._looked_ms >= 1000:
            self._looked_ms = self.now_ms
            self._look()

    def _request(self, event: dict[str, Any]) -> None:
        if event["api"] in CHECKS:
            ask = self.answers.sent(event["api"], event["body"], event["version"], event["broker"])
            self._asks[event["request"]] = ask
            if ask.led and not self._loads_now(ask.group):
                self._before[event["request"]] = self._causes, self._groups.get(ask.group)

    def _loads_now(self, group: str) -> bool:
        partition = self.answers.partition(group)
        return partition is None or self.kafka.runtime.shard(partition.index) is None

    def _check_rule(self, ask: SentRequest, shown: dict[str, Any] | None, body: dict[str, Any]) -> None:
        """An answer that was given at once is the one that the rules name."""
        if ask.error not in RULED:
            return
        rightly = answer_of(ask, shown)
        if rightly is not None and ask.error not in rightly:
            state = "not there" if shown is None else f"{shown['state']} in {shown['generation']}"
            what = f"{ask}; the group is {state}, the rules say {' or '.join(error.name for error in rightly)}"
            self._fail("responses follow the coordinator's rules", ask.group, what)
        wrong = at_once(ask, shown, body) if shown is not None and ask.error is Err.NONE else None
        if wrong is not None:
            self._fail("responses follow the coordinator's rules", ask.group, f"{ask}: {wrong}")

    def _response(self, event: dict[str, Any]) -> None:
        ask = self._asks.pop(event["request"], None)
        if ask is None:
            return
        causes, shown = self._before.pop(event["request"], (-1, None))
        unheard = event.get("body") is None or event.get("action") == "not answered"
        if unheard or ask.group in self._by_epochs:
            self.answers.lost(ask)
        else:
            self.answers.answered(ask, event["body"])
            if causes == self._causes:  # nothing else has happened since
                self._check_rule(ask, shown, event["body"])
            if ask.api == "OffsetFetch":
                self._check_shown(ask, event["body"])
            gone = self._gone.get((ask.group, ask.member))
            taken = ask.error is Err.NONE or (ask.error is Err.REBALANCE_IN_PROGRESS and ask.api == "Heartbeat")
            if gone is not None and gone < ask.sent and taken and ask.generation >= 0:
                self._fail(
                    "removed members get UNKNOWN_MEMBER_ID",
                    ask.group,
                    f"taken from {ask.member}, which was no member any more: {ask}",
                )

    def _epochs(self, event: dict[str, Any]) -> None:
        """Handle an ``epochs`` event: the group is a consumer group (KIP-848) now. Until an event shows it as a classic group
        again, its members have their own epochs, and `checks.epochs` checks it instead of the rules here."""
        self._by_epochs[event["group"]] = None

    def _fault(self, event: dict[str, Any]) -> None:
        """Leave a request out of the checks that a rule answers, or has the broker handle otherwise."""
        self._before.pop(event.get("request", -1), None)

    def _check_shown(self, ask: SentRequest, body: dict[str, Any]) -> None:
        """A committed offset of this coordinator's term is visible once it was published, and no earlier."""
        for topic in body.get("topics") or ():
            for partition in topic["partitions"]:
                key, value = (ask.group, topic["name"], partition["partition_index"]), partition["committed_offset"]
                shown = (ask.group, f"{topic['name']}-{partition['partition_index']}", value)
                writes = [write for write in self.answers.writes.get(key, ()) if write.value == value]
                fresh = bool(writes) and all(write.begun > self._loads for write in writes)
                if value >= 0 and fresh and shown not in self._shows:
                    self._fail("uncommitted offsets are not visible", ask.group, f"{shown[1]} is {value}: {ask}")

    def _group(self, event: dict[str, Any]) -> None:
        group, before, after = event["group"], event["before"], event["after"]
        kind = event["cause"]["kind"]
        if after is not None:
            self._by_epochs.pop(group, None)
        history = self._history.setdefault(group, deque(maxlen=HISTORY))
        history.append(_Step(self.now_ms, event["cause"], before, after))
        if kind == "request" and self._before:  # a rule may have delayed it: those that came meanwhile see what it did
            mine = event["cause"]["request"]
            self._before = {number: seen for number, seen in self._before.items() if number == mine}
        partitions = len(self.kafka.state.topics[OFFSETS].partitions)
        if event["log"] != f"{OFFSETS}-{offsets_partition(group, partitions)}":
            self._fail("a group is stored in the offsets partition of its hash", group, f"it is in {event['log']}")
        if kind in ("load", "unload") or after is None:
            self._gone = {key: then for key, then in self._gone.items() if key[0] != group}
            before = None
        if after is None:
            self._groups.pop(group, None)
            if kind != "unload":
                self.answers.removed(group)
            return
        self._groups[group] = after
        if before is None or before["state"] != after["state"] or before["generation"] != after["generation"]:
            self._since_ms[group] = self.now_ms
        if before is None or before["state"] != after["state"]:
            self._was_empty[group] = before is None or before["state"] == EMPTY
        refused = event["cause"].get("api") == "JoinGroup" and before is not None and after["size"] < before["size"]
        if refused and not self.kafka.runtime.settings.policy.refused_join_completes:
            self._was_empty[group] = (
                True  # 4.x lets the others wait for the timeout when a full group has refused a member
            )
        if waits_in_vain(after) and not self._was_empty.get(group, True):
            self._fail(
                "the join phase ends when all members have joined", group, f"{after['size']} members have joined"
            )
        self._check_members(group, before, after)
        if before is not None:
            self._check_step(group, before, after)

    def _check_members(self, group: str, before: dict[str, Any] | None, after: dict[str, Any]) -> None:
        members = {member["member"]: member for member in after["members"]}
        if after["size"] != len(members):
            return  # shown in part
        if members and after["leader"] not in members:
            self._fail("the leader is a member", group, f"{after['leader']} leads {list(members)}")
        for member in members:
            self.answers.members[group, member] = None
            if (group, member) in self._gone:
                self._fail("member ids are never reused", group, f"{member} is back")
        for earlier in before["members"] if before is not None else ():
            # a static member's replacement that can't be stored is undone
            if earlier["member"] not in members and earlier["instance"] is None:
                self._gone[group, earlier["member"]] = self.answers.tick
        owners: dict[tuple[str, int], str] = {}
        for owner in members.values() if after["state"] == STABLE else ():
            for topic, indexes in (owner["assignment"] or {}).items():
                for index in indexes:
                    if owners.setdefault((topic, index), owner["member"]) != owner["member"]:
                        self._fail("a partition has one owner", group, f"{topic}-{index} in {after['generation']}")

    def _check_step(self, group: str, before: dict[str, Any], after: dict[str, Any]) -> None:
        old, new = before["generation"], after["generation"]
        if new < old:
            self._fail("generations never decrease", group, f"from {old} to {new}")
        if before["state"] == PREPARING and after["state"] not in (PREPARING, DEAD) and new == old:
            self._fail("a rebalance begins a new generation", group, f"{old} is {after['state']} again")
        wrong = step_error(before, after)
        if wrong is not None:
            self._fail("group state transitions are legal", group, wrong)

    def _timer(self, event: dict[str, Any]) -> None:
        if event["timer"] != "session":
            return
        group, member = event["group"], event["member"]
        partition = self.answers.partition(group)
        live = self._live(group, member)
        self._expired = (group, member) if live is not None and not live.has_deferred_request else None
        life = None if partition is None else self.answers.life(group, partition.leader_epoch)
        beat = None if life is None else life.beat.get(member)
        shown = self._shown(group, member)
        goes = (
            live is not None and not live.has_deferred_request
        )  # who waits in a JoinGroup stays, with the session that it names there
        if (
            goes
            and beat is not None
            and shown is not None
            and self.now_ms < beat[0] * 1000 + shown["session_timeout_ms"] - 1
        ):
            self._fail(
                "live members are not evicted",
                group,
                f"the session of {member} expires, its last request was at {beat[0]} s",
            )

    def _check_expired(self, group: str, member: str) -> None:
        live = self._live(group, member)
        if live is not None and not live.has_deferred_request:
            self._fail(
                "members expire after their session timeout", group, f"{member} is still there after its session"
            )

    def _live(self, group: str, member: str) -> Any:
        partition = self.answers.partition(group)
        shard = None if partition is None else self.kafka.runtime.shard(partition.index)
        live = None if shard is None else shard.classic(group)
        return None if live is None else live.members.get(member)

    def _shown(self, group: str, member: str) -> dict[str, Any] | None:
        members = self._groups[group]["members"] if group in self._groups else ()
        return next((row for row in members if row["member"] == member), None)

    def _append(self, event: dict[str, Any]) -> None:
        log, mark = event["log"], event["high_watermark"]
        mark_before = self._marks.get(log, 0)
        if mark < mark_before:
            self._fail("the high watermark never decreases", "-", f"that of {log} is {mark}, it was {mark_before}")
        self._marks[log] = mark
        if "error" not in event:
            base = event["base_offset"]
            if base <= self._lasts.get(log, -1) and base < mark_before:
                self._fail(
                    "offsets below the high watermark are never written again",
                    "-",
                    f"{base} of {log}, committed up to {mark_before}",
                )
            self._lasts[log] = event["last_offset"]
            for number in event["requests"]:
                self._placed[number] = event["last_offset"]

    def _committed(self, event: dict[str, Any]) -> None:
        self._marks[event["log"]] = event["high_watermark"]

    def _offsets(self, event: dict[str, Any]) -> None:
        self._shows.update((event["group"], name, offset) for name, offset in event["offsets"].items())
        if self.ledger is not None:
            for name, offset in event["offsets"].items():
                self.ledger.shows(event["group"], name, offset)
        number = event.get("request")
        if number is not None and not self._placed.get(number, math.inf) < self._marks.get(event["log"], -1):
            self._fail("uncommitted offsets are not visible", event["group"], f"request {number} is not")

    def _load(self, event: dict[str, Any]) -> None:
        self._loads = self.answers.tick
        if event["action"] == "finished":
            self._check_load(event["log"])

    def _cluster(self, event: dict[str, Any]) -> None:
        """All brokers have died, or are there again and know what their disk has kept."""
        self._expired = None
        if event["action"] == "power lost" and not event["synced"]:
            self.answers.power_lost()
            self._marks.clear()
            self._lasts.clear()
        if event["action"] == "started":
            self.answers.state = self.kafka.state
            self.answers.started()
            self._loads = self.answers.tick

    def _look(self) -> None:
        """Check for requests without a response and rebalances that last longer than their timeouts."""
        self.answers.overdue()
        for group, shown in self._groups.items():
            longest_ms = (
                max((member["rebalance_timeout_ms"] for member in shown["members"]), default=0)
                + self.answers.slack_s * 1000
            )
            lasts_ms = self.now_ms - self._since_ms.get(group, self.now_ms)
            if shown["state"] == COMPLETING and lasts_ms > longest_ms:
                self._fail("members without a SyncGroup are removed", group, f"{COMPLETING} for {lasts_ms} ms")

    def finish(self) -> None:
        """The log of every offsets partition, read again, gives what the coordinators have."""
        for partition in self.kafka.state.topics[OFFSETS].partitions if OFFSETS in self.kafka.state.topics else ():
            shard = self.kafka.runtime.shard(partition.index)
            if shard is None or shard.writes or partition.log_end_offset != partition.high_watermark:
                continue
            for group, what in self._compare(partition, shard, loaded=False):
                self._fail("the log matches the coordinator's state", group, f"{partition.name}: {what}")

    def _compare(self, partition: Partition, shard: Shard, *, loaded: bool) -> list[tuple[str, str]]:
        policy = self.kafka.runtime.settings.policy
        stored = groups_in_log(partition, group_tombstone_ends_offsets=policy.group_tombstone_ends_offsets)
        if not loaded and not policy.tombstones_are_awaited:  # what 3.x has deleted may have come to nothing in its log
            for group, says in stored.items():
                live = shard.groups[group].offsets if group in shard.groups else {}
                gone = [k for k in says.offsets if k[1] not in live.get(k[0], {}) and self.answers.deletes(group, *k)]
                for key in gone:
                    del says.offsets[key]
        if not loaded and not policy.late_append_is_published:
            self._leave_out_late_ones(stored, shard)
        return differences(stored, shard.groups, loaded=loaded)

    def _leave_out_late_ones(self, stored: dict[str, StoredGroup], shard: Shard) -> None:
        """Leave out commits that 3.x gave up and that its log committed afterwards: the coordinator has them from its next load on."""
        for group, says in stored.items():
            live = shard.groups[group].offsets if group in shard.groups else {}
            for (topic, index), value in list(says.offsets.items()):
                has = live.get(topic, {}).get(index)
                if (has is None or has.offset != value) and self.answers.is_unacked(group, topic, index, value):
                    del says.offsets[topic, index]
                    if has is not None:
                        says.offsets[topic, index] = has.offset

    def _offsets_deleted(self, event: dict[str, Any]) -> None:
        """With their topic: no client has asked for it."""
        if event["reason"] == "topic deleted":
            named = (name.rpartition("-") for name in event["partitions"])
            self.answers.deleted_with_topic(event["group"], [(topic, int(index)) for topic, _, index in named])

    def _check_load(self, log: str) -> None:
        """A coordinator that has read its log has what the log says, and that is what was acknowledged."""
        partition = self.kafka.state.topics[OFFSETS].partitions[int(log.rpartition("-")[2])]
        shard = self.kafka.runtime.shard(partition.index)
        if shard is None:
            return
        for group, what in self._compare(partition, shard, loaded=True):
            self._fail("a loaded coordinator matches its log", group, f"{log}: {what}")
        self.answers.loaded(partition.index, {name: group.offsets for name, group in shard.groups.items()})


_EVENTS: dict[str, Callable[[Invariants, dict[str, Any]], None]] = {
    "request": Invariants._request,
    "fault": Invariants._fault,
    "response": Invariants._response,
    "group": Invariants._group,
    "epochs": Invariants._epochs,
    "timer": Invariants._timer,
    "append": Invariants._append,
    "committed": Invariants._committed,
    "offsets": Invariants._offsets,
    "offsets_deleted": Invariants._offsets_deleted,
    "load": Invariants._load,
    "cluster": Invariants._cluster,
}


def _short(shown: dict[str, Any] | None) -> str:
    return "-" if shown is None else f"{shown['state']} {shown['generation']} ({shown['size']})"
