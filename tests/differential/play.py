"""One sequence against two peers in lockstep: each step goes to both, and the next one not before both have done the same.

After a step the play waits until the same requests are answered on both sides, and the step's own among them unless it
may be parked. A request counts as parked when a question to the same coordinator that was asked after it has come back,
on both sides, and it has not. What is answered later, by another step or by a timer, is compared when it comes. A play
ends at its first difference: what comes behind one is noise.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kafka_wire.codec import DecodeError, EncodeError, decode_from
from kafka_wire.frame import response_is_tagged
from kafka_wire.messages.k15_describe_groups import DescribeGroupsRequest
from kafka_wire.messages.k18_api_versions import ApiVersionsRequest
from tests.conformance.driver import clock_s
from tests.differential import barriers, deferred, frames, settling, worlds
from tests.differential.catalogue import apis, by_key
from tests.differential.difference import Difference
from tests.differential.line import Line
from tests.differential.normal import Reader, differences
from tests.differential.sequence import Sequence, Step
from tests.differential.symbols import Scope
from tests.differential.tolerances import tolerated

PATIENCE_S = 8.0
"""Seconds that one side may take longer than the other: a machine in use stops for seconds."""
QUIET_S = 0.02
UNIT_S = 2.0
"""A unit of a timed sequence's timers; its bursts of requests last less than BURST_UNITS of it."""
BURST_UNITS = 0.19
MAY_PARK = ("JoinGroup", "SyncGroup", "Fetch", "Produce")


@dataclass(frozen=True)
class Peer:
    """A cluster to play against: `brokers` maps node id -> (host, port); `world` moves what is in it."""

    name: str
    version: str
    brokers: Mapping[int, tuple[str, int]]
    world: worlds.World | None = None

    @property
    def ports(self) -> dict[int, int]:
        """port -> node id."""
        return {port: node for node, (_, port) in self.brokers.items()}


@dataclass
class Outcome:
    """Outcome of a play."""

    difference: Difference | None = None
    untimely: bool = False
    compared: list[tuple[str, int, tuple[int, ...]]] = field(default_factory=list)
    """(API, version, error codes) of each answer that both sides gave."""
    bent: list[str] = field(default_factory=list)
    """Fields with a boundary value in the requests of these."""
    tolerated: list[str] = field(default_factory=list)
    log_records: int = 0


class Side:
    """One peer in one play."""

    def __init__(self, peer: Peer, scope: Scope, changed: asyncio.Event) -> None:
        self.peer = peer
        self.scope = scope
        self.reader = Reader(scope, peer.ports, peer.version)
        self.answers: dict[int, bytes | None] = {}
        self.steps: list[Step] = []
        """Steps of the play."""
        self.starts: dict[int, int] = {}
        """Offsets partition -> where its log ended before the play."""
        self.share_fetched: set[tuple[str, bytes, int]] = set()
        """Group, topic id and partition of share partitions that were fetched."""
        self.deleted: set[bytes] = set()
        """Ids of topics that were deleted."""
        self._changed = changed
        self._lines: dict[tuple[str, int], list[Line]] = {}
        self._watching: dict[int, list[Line]] = {}
        self._held: dict[tuple[str, int], list[tuple[Step, int, bytes]]] = {}

    @property
    def world(self) -> worlds.World:
        assert self.peer.world is not None, f"nobody can move anything at {self.peer.name}"
        return self.peer.world

    @property
    def several(self) -> bool:
        return len(self.peer.brokers) > 1

    @property
    def alive(self) -> set[int]:
        """The brokers that are up."""
        return set(self.peer.brokers) if self.peer.world is None else self.peer.world.alive

    async def line(self, step: Step) -> Line:
        """The connection for a step: the client's first that has no answer due, or the first of all."""
        broker = self.scope.broker(step.broker)
        lines = self._lines.setdefault((step.by, broker), [])
        lines[:] = [line for line in lines if not line.is_closed]
        if step.pipelined and lines:
            return lines[0]
        for line in lines:
            if not line.busy:
                return line
        lines.append(await Line.connect(*self.peer.brokers[broker], self._take))
        return lines[-1]

    async def send(self, number: int, step: Step) -> bool:
        """False where no bytes say what the step wants, or the broker is down."""
        if self.scope.broker(step.broker) not in self.alive:
            return False
        try:
            frame = frames.frame(step, self.scope, number, step.by)
        except (EncodeError, ValueError, TypeError, KeyError):
            return False
        held = self._held.setdefault((step.by, self.scope.broker(step.broker)), [])
        held.append((step, number, frame))
        if step.held or step.silent:
            return True
        line = await self.line(step)
        line.expect(number for one, number, _ in held if not one.silent)
        data = b"".join(frame for _, _, frame in held)
        held.clear()
        for size in step.wire.get("split", []):
            line.write(data[:size])
            data = data[size:]
            await self.ask(ApiVersionsRequest(), 0)  # by then the broker has seen the piece
        line.write(data)
        return True

    def _take(self, number: int, payload: bytes | None) -> None:
        self.answers[number] = payload
        self._changed.set()

    async def ask(self, request: Any, version: int, broker: int = 1) -> Any:
        """A request of the play itself, on a connection of its own, that is not compared."""
        return await barriers.ask(self.peer.brokers[broker], self._watching.setdefault(broker, []), request, version)

    async def ask_versions(self) -> dict[str, tuple[int, int]]:
        """API name -> the versions that the peer shows."""
        shown = await self.ask(ApiVersionsRequest(), 0)
        return {
            by_key()[row.api_key].name: (row.min_version, row.max_version)
            for row in shown.api_keys
            if row.api_key in by_key()
        }

    def close(self) -> None:
        for lines in (*self._watching.values(), *self._lines.values()):
            for line in lines:
                line.close()


class Play:
    """Plays one sequence once; `prefix` is that of its names, no other play's."""

    def __init__(self, sequence: Sequence, real: Peer, simulated: Peer, prefix: str, now_ms: int | None = None) -> None:
        self.sequence = sequence
        now_ms = int(time.time() * 1000) if now_ms is None else now_ms
        self._changed = asyncio.Event()
        self.sides = [Side(peer, Scope(prefix, now_ms), self._changed) for peer in (real, simulated)]
        for side in self.sides:
            side.steps = sequence.steps
            sharers = {step.body.get("member_id") for step in sequence.steps if step.api == "ShareGroupHeartbeat"}
            side.reader.divides = len(sharers) > 1
        self.outcome = Outcome()
        self._compared: set[int] = set()
        self._skipped: set[int] = set()
        self._sent: set[int] = set()
        self.still = asyncio.Lock()
        """See worlds.Ground."""

    async def run(self) -> Outcome:
        began = burst = clock_s()
        for number, step in enumerate(self.sequence.steps):
            if step.world or step.api == "ListGroups":
                async with self.still:
                    found = await (self._world(number, step) if step.world else self._step(number, step))
            elif step.until is None:
                found = await self._step(number, step)
            else:
                self._burst_ends(burst)
                await self._let_pass(began + step.until * UNIT_S)
                burst = clock_s()
                found = await self._settled(number)
            if found is not None or self.outcome.untimely:
                self.outcome.difference = found
                break
        self._burst_ends(burst)
        return self.outcome

    def _burst_ends(self, began: float) -> None:
        if self.sequence.timed and clock_s() - began > BURST_UNITS * UNIT_S:
            self.outcome.untimely = True

    def close(self) -> None:
        for side in self.sides:
            side.close()

    async def _let_pass(self, until: float) -> None:
        while (left := until - clock_s()) > 0:
            await asyncio.sleep(left)

    async def _step(self, number: int, step: Step) -> Difference | None:
        ready = await deferred.before(self.sides, step)
        sent = [ready and await side.send(number, step) for side in self.sides]
        if sent == [False, False]:
            self._skipped.add(number)
            return None
        if not all(sent):
            return Difference(number, step.api, step.version, (("the request itself", sent[0], sent[1]),))
        self._sent.add(number)
        if step.held or step.silent:
            return None
        found = await self._settled(number)
        if found is None and number in self._compared and not step.damage:
            answer = self.message(0, number)
            await barriers.after(self.sides, step, answer)
            if answer is not None:
                await deferred.after(self.sides, step, answer)
        return found

    async def _world(self, number: int, step: Step) -> Difference | None:
        await worlds.perform(self.sides, step.world)
        return await self._settled(number)

    # ---- waiting

    async def _settled(self, number: int) -> Difference | None:
        """Waits until both sides have answered the same, and compares it."""
        step = self.sequence.steps[number]
        patience = clock_s() + PATIENCE_S
        quiet = clock_s() + QUIET_S
        asked = nothing = step.until is not None or bool(step.world)
        while True:
            if self._agree():
                done = number in self.sides[0].answers or nothing
                if done or (asked and clock_s() > quiet):
                    break
                if self._may_park(step) and clock_s() > quiet:
                    await self._sentinel(step)
                    quiet, asked = clock_s() + QUIET_S / 4, True
                    continue
            left = min(patience, patience if asked and not self._agree() else quiet) - clock_s()
            if clock_s() > patience:
                break
            self._changed.clear()
            try:
                await asyncio.wait_for(self._changed.wait(), max(left, 0.001) if self._may_park(step) else 0.5)
            except TimeoutError:
                continue
        await self._late_joins()
        return self._compare_new()

    async def _late_joins(self) -> None:
        """A rebalance that ends answers several JoinGroups: a moment for the others, so that everybody's id is named by
        its own answer and not by a list in which two members of one client look alike.
        """
        joins = {number for number, step in enumerate(self.sequence.steps) if step.api == "JoinGroup"}
        give_up = clock_s() + QUIET_S
        while clock_s() < give_up and (self.sides[0].answers.keys() - self._compared) & joins:
            if not self._sent & joins - self.sides[0].answers.keys() and self._agree():
                return
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), max(give_up - clock_s(), 0.001))
        give_up = clock_s() + PATIENCE_S
        while not self._agree() and clock_s() < give_up:
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), 0.1)

    def _agree(self) -> bool:
        return self.sides[0].answers.keys() == self.sides[1].answers.keys()

    def _may_park(self, step: Step) -> bool:
        return step.api in MAY_PARK or bool(step.damage) or step.pipelined

    async def _sentinel(self, step: Step) -> None:
        """A question behind the step: when it has come back, the step has been looked at."""
        questions = [
            side.ask(DescribeGroupsRequest([side.scope.text("{p}g")]), 4, side.scope.broker(step.broker))
            for side in self.sides
        ]
        await asyncio.gather(*questions)
        if self.sides[0].several:
            await asyncio.gather(*(settling.committed(side, side.scope.text("{p}g")) for side in self.sides))

    # ---- comparing

    def _compare_new(self) -> Difference | None:
        numbers = sorted((self.sides[0].answers.keys() | self.sides[1].answers.keys()) - self._compared)
        for number in numbers:  # one's own id is named before lists of members, in which two of one client look alike
            for index, side in enumerate(self.sides):
                joined = (
                    self.message(index, number)
                    if number >= 0 and self.sequence.steps[number].api == "JoinGroup"
                    else None
                )
                if joined is not None:
                    side.reader.met(joined.member_id)
        for number in numbers:
            self._compared.add(number)
            found = self._compare(number)
            if found is not None:
                return found
        return None

    def _compare(self, number: int) -> Difference | None:
        step = self.sequence.steps[number] if number >= 0 else Step(api="nothing")
        plain = [self.plain(side, number, step) for side in self.sides]
        where = f"{step.api} v{step.version}"
        rows = []
        for path, real, simulated in differences(plain[0], plain[1]):
            rule = tolerated(f"{where}{path}", real, simulated)
            if rule is None:
                rows.append((f"{where}{path}", real, simulated))
            else:
                self.outcome.tolerated.append(rule)
        if rows:
            return Difference(number, step.api, step.version, tuple(rows))
        name = f"{step.api} (damaged)" if step.damage else step.api
        self.outcome.bent.extend(step.bent)
        self.outcome.compared.append((name, step.version, tuple(sorted(set(_codes(plain[0]))))))
        return None

    def plain(self, side: Side, number: int, step: Step) -> Any:
        if number not in side.answers:
            return "not answered"
        payload = side.answers[number]
        if payload is None:
            return "closed"
        message = self.message(self.sides.index(side), number)
        if message is None:
            return {"bytes": payload[4:].hex()}
        side.scope.learn(step.by, step.api, message)
        return side.reader.message(step.api, message, self._version(step))

    def _version(self, step: Step) -> int:
        """ApiVersions of a version that the broker does not know is answered in version 0."""
        other = any(what[0] == "version" for what in step.damage)
        return 0 if step.api == "ApiVersions" and other else step.version

    def message(self, side: int, number: int) -> Any:
        step = self.sequence.steps[number]
        payload = self.sides[side].answers.get(number)
        if payload is None:
            return None
        api, version = apis()[step.api], self._version(step)
        try:
            start = 5 if response_is_tagged(api.key, version) else 4
            message, end = decode_from(api.response, version, payload, start)
        except DecodeError:
            return None
        return message if end == len(payload) else None


def _codes(plain: Any) -> Iterator[int]:
    if isinstance(plain, dict):
        for name, value in plain.items():
            if name == "error_code":
                yield value
            elif isinstance(value, dict | list):
                yield from _codes(value)
    elif isinstance(plain, list):
        for value in plain:
            yield from _codes(value)
