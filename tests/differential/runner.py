"""Many sequences side by side against two peers, until time or number is up; what differs is played again and shrunk."""

from __future__ import annotations

import asyncio
import itertools
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from kafka_wire.errors import Err
from kafka_wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafka_wire.messages.k10_find_coordinator import FindCoordinatorRequest
from kafka_wire.messages.k18_api_versions import ApiVersionsRequest
from kafka_wire.messages.k19_create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kafka_wire.messages.k20_delete_topics import DeleteTopicsRequest
from kafka_wire.messages.k22_init_producer_id import InitProducerIdRequest
from kafka_wire.messages.k42_delete_groups import DeleteGroupsRequest
from tests.conformance.driver import clock_s
from tests.differential import barriers, generators, known, offsets, peers, settling, worlds
from tests.differential.difference import Difference
from tests.differential.generators.draw import Versions
from tests.differential.normal import SHARED_TOPICS
from tests.differential.offsets import API
from tests.differential.play import Outcome, Peer, Play, Side
from tests.differential.sequence import Sequence
from tests.differential.shrink import shrink
from tests.differential.symbols import OFFSETS

REPLAYS, REPLAYS_OF_IDS = 3, 40
"""Number of replays in which a difference must come back; many more if it may depend on member ids (a leader that goes is
followed by one out of a map by them, and who leads shows in everything later)."""
REPLAYS_AT_A_TIME = 4
SHRINK_S = 45.0
FLOORS = {"Produce": 3, "OffsetCommit": 1, "OffsetFetch": 1, "Fetch": 4}
"""Below these versions nothing is played: 4.x shows Produce v0-2 and refuses them (KAFKA-18659), 3.x serves them and
Fetch v0-3, which the simulator does not; OffsetCommit and OffsetFetch v0 meant ZooKeeper (docs/fidelity.md)."""


@dataclass
class Finding:
    """A difference that came back: the smallest sequence that shows it."""

    sequence: Sequence
    difference: Difference
    known: known.Known | None = None
    times: int = 1
    file: Path | None = None


@dataclass
class Tally:
    """Results of a run."""

    sequences: int = 0
    answers: int = 0
    log_records: int = 0
    untimely: int = 0
    broken: int = 0
    once: int = 0
    """Differences that did not come back: the machine, not the broker."""
    coverage: dict[tuple[str, int], Counter[int]] = field(default_factory=dict)
    counts: Counter[tuple[str, int]] = field(default_factory=Counter)
    bent: Counter[str] = field(default_factory=Counter)
    """Answers that were equal, by the field that had a boundary value in their requests."""
    tolerated: Counter[str] = field(default_factory=Counter)
    findings: dict[str, Finding] = field(default_factory=dict)

    def add(self, outcome: Outcome) -> None:
        for api, version, codes in outcome.compared:
            self.answers += 1
            self.counts[api, version] += 1
            self.coverage.setdefault((api, version), Counter()).update(codes)
        self.log_records += outcome.log_records
        self.bent.update(outcome.bent)
        self.tolerated.update(outcome.tolerated)

    @property
    def unknown(self) -> list[Finding]:
        return [finding for finding in self.findings.values() if finding.known is None]


class Runner:
    """Plays against `real` and `simulated`; `say` is told what happens, findings are written into `directory`. `without`
    names APIs that random sequences leave alone."""

    def __init__(
        self,
        version: str,
        real: Peer,
        simulated: Peer,
        say: Callable[[str], None],
        directory: Path,
        without: Collection[str] = (),
    ) -> None:
        self.version = version
        self.without = without
        self.real, self.simulated = real, simulated
        self.say = say
        self.directory = directory
        self.tally = Tally()
        self.versions: Versions = {}
        self.brokers = len(real.brokers)
        self.ground = worlds.Ground(list(real.brokers), peers.offsets_partitions(self.brokers))
        tag = f"d{os.getpid() % 36**3:x}x"
        self._prefixes = filter(self.ground.fits, (f"{tag}{number}-" for number in itertools.count(1)))
        self._looked_at: Counter[str] = Counter()
        self._shared_ids: list[dict[str, bytes]] = []
        """By side: known from the start, or a list by ids would name them in the order that the ids happen to have."""

    # ---- before

    async def prepare(self) -> None:
        """Makes the shared topics and the offsets log on both sides, and learns which versions both speak."""
        play = Play(Sequence(0, "none", []), self.real, self.simulated, "none")
        shown = []
        try:
            for side in play.sides:
                await side.ask(CreateTopicsRequest(self._shared_topics(), 30_000), 5)
                for name in SHARED_TOPICS:
                    await barriers._topic_known(side, name, 3)
                give_up = clock_s() + 60
                while (await side.ask(FindCoordinatorRequest("any"), 1)).error_code and clock_s() < give_up:
                    await asyncio.sleep(0.1)
                for broker in sorted(side.alive):
                    await settling.has_producer_ids(side, broker)
                if self.brokers == 1:
                    await _coordinators_of_transactions(side)
                    await _share_coordinator(side)
                await barriers._topic_known(side, OFFSETS, peers.offsets_partitions(self.brokers))
                self._shared_ids.append({name: side.scope.topic_ids[name] for name in SHARED_TOPICS})
                if self.brokers == 1:
                    await _make_nameless_group(side)
                shown.append(await side.ask_versions())
        finally:
            play.close()
        self.versions = {
            name: (max(low, shown[0][name][0], FLOORS.get(name, 0)), min(high, shown[0][name][1]))
            for name, (low, high) in shown[1].items()
            if name in shown[0] and name not in self.without
        }

    def _shared_topics(self) -> list[CreatableTopic]:
        """Shared topics; with several brokers all of them have every partition, and the leader of each is prescribed."""
        nodes = sorted(self.real.brokers)
        if len(nodes) == 1:
            return [CreatableTopic(name, 3, 1) for name in SHARED_TOPICS]
        counts = dict.fromkeys(SHARED_TOPICS, 3) | {OFFSETS: peers.offsets_partitions(len(nodes))}
        turns = [nodes[at:] + nodes[:at] for at in range(len(nodes))]
        return [
            CreatableTopic(
                name,
                -1,
                -1,
                [CreatableReplicaAssignment(index, turns[index % len(nodes)]) for index in range(count)],
                [CreatableTopicConfig("cleanup.policy", "compact")] if name == OFFSETS else [],
            )
            for name, count in counts.items()
        ]

    # ---- playing

    async def run(
        self, sequences: Iterator[Sequence], *, side_by_side: int, seconds: float, number: int = 10**9
    ) -> None:
        """Plays sequences until the time or the number is up."""
        end = clock_s() + seconds
        feed = itertools.islice(sequences, number)
        turns = generators.in_blocks(self.versions)

        def block(one: Sequence) -> tuple[int, bool]:
            return (one.seed // generators.BLOCK if turns else 0), one.alone

        for (_, alone), some in itertools.groupby(feed, key=block):
            await self._play_all(some, 1 if alone else side_by_side, end)
            if clock_s() > end:
                break
        for signature, finding in self.tally.findings.items():
            finding.times = self._looked_at[signature]

    async def _play_all(self, feed: Iterator[Sequence], side_by_side: int, end: float) -> None:

        async def worker() -> None:
            for sequence in feed:
                try:
                    await self.one(sequence)
                except (
                    Exception
                ) as error:  # the tester's own mistake in one sequence, or a broker that is gone, is no end of the run
                    self.tally.broken += 1
                    if self.tally.broken > 50:
                        raise
                    self.say(f"seed {sequence.seed} could not be played: {type(error).__name__}: {error}")
                if clock_s() > end:
                    return

        await asyncio.gather(*(worker() for _ in range(side_by_side)))

    async def one(self, sequence: Sequence) -> None:
        """Plays a sequence; where it differs, makes sure and shrinks it."""
        outcome = await self.play(sequence)
        self.tally.sequences += 1
        self.tally.add(outcome)
        if outcome.untimely:
            self.tally.untimely += 1
        elif outcome.difference is not None:
            await self._differs(sequence, outcome.difference)

    async def play(self, sequence: Sequence) -> Outcome:
        """Plays once, the offsets log included, and takes away what was made."""
        prefix = next(self._prefixes)
        if self.brokers == 1:
            return await self._play(sequence, prefix)
        async with self.ground.held(prefix):
            return await self._play(sequence, prefix)

    async def _play(self, sequence: Sequence, prefix: str) -> Outcome:
        play = Play(sequence, self.real, self.simulated, prefix)
        for side, ids in zip(play.sides, self._shared_ids, strict=False):
            side.scope.topic_ids.update(ids)
        indexes = list(range(peers.offsets_partitions(self.brokers)))
        try:
            if self.brokers > 1:
                play.still, indexes = self.ground.still, self.ground.indexes(prefix)
                await self.ground.enter(play.sides, prefix)
            starts = [await offsets.ends(side, indexes) for side in play.sides]
            for side, start in zip(play.sides, starts, strict=True):
                side.starts = start
            try:
                outcome = await play.run()
            finally:
                if sequence.alone:
                    await self.ground.restore(play.sides)
            if outcome.difference is None and not outcome.untimely:
                if self.brokers > 1:
                    await asyncio.gather(*(settling.replicated(side) for side in play.sides))
                outcome.difference = await offsets.compare(play, starts)
            await self._clean(play)
        finally:
            play.close()
        return outcome

    async def _clean(self, play: Play) -> None:
        for side in play.sides:
            names = [name for name in side.scope.topic_ids if name.startswith(side.scope.prefix)]
            if names:
                await side.ask(DeleteTopicsRequest(topic_names=names, timeout_ms=10_000), 4)
            groups = [side.scope.prefix + name for name in "gh"]
            for broker in sorted(side.alive):
                await side.ask(DeleteGroupsRequest(groups), 1, broker)

    # ---- differences

    async def _differs(self, sequence: Sequence, difference: Difference) -> None:
        signature = difference.signature
        self._looked_at[signature] += 1
        if self._looked_at[signature] > 1:
            return
        why = known.explained(self.version, difference)
        if why is not None:  # nothing to find out: the smallest sequence that shows it is a case
            self._tell(signature, Finding(sequence, difference, why))
            return
        hangs_on_ids = re.search(r"leader$|member", difference.rows[0][0]) or _loses_members(sequence)
        if not await self._comes_back(sequence, signature, REPLAYS_OF_IDS if hangs_on_ids else REPLAYS):
            self._looked_at[signature] = 0
            self.tally.once += 1
            self.say(
                f"seed {sequence.seed}: once and not again: {difference.rows[0]}\n    {_last(sequence, difference)}"
            )
            return

        give_up = clock_s() + SHRINK_S

        async def shows(smaller: Sequence) -> bool:
            if clock_s() > give_up:
                return False
            found = (await self.play(smaller)).difference
            return found is not None and found.signature == signature

        small = await shrink(sequence, difference.number, shows, 40 if sequence.timed else 120)
        last = (await self.play(small)).difference or difference
        self._tell(signature, Finding(small, last, known.explained(self.version, last)))

    async def _comes_back(self, sequence: Sequence, signature: str, times: int) -> bool:
        """Whether a difference is there each time that its sequence is played again; as many at a time as do not disturb the others."""
        at_a_time = 1 if sequence.alone else REPLAYS_AT_A_TIME
        while times > 0:
            outcomes = await asyncio.gather(*(self.play(sequence) for _ in range(min(times, at_a_time))))
            found = [outcome.difference for outcome in outcomes]
            if any(one is None or one.signature != signature for one in found):
                return False
            times -= len(found)
        return True

    def _tell(self, signature: str, finding: Finding) -> None:
        self.tally.findings[signature] = finding
        name = f"{self.version}-{finding.sequence.seed}-{len(self.tally.findings)}.json"
        self.directory.mkdir(parents=True, exist_ok=True)
        finding.file = self.directory / name
        rows = [
            f"# {self.version} {where}: Kafka {real!r}, the simulator {ours!r}"
            for where, real, ours in finding.difference.rows
        ]
        finding.file.write_text("\n".join([*rows, finding.sequence.dumps()]))
        title = "known difference" if finding.known else "DIFFERENCE"
        self.say(f"{title} (seed {finding.sequence.seed}, {finding.sequence.kind}); again: --replay {finding.file}")
        for where, real, ours in finding.difference.rows[:6]:
            self.say(f"  {where}\n    Kafka:     {str(real)[:400]}\n    simulator: {str(ours)[:400]}")
        for step in finding.sequence.steps:
            self.say(f"    {step}")
        if finding.known:
            self.say(f"  known: {finding.known.reason}")


SHARE_STATES = "__share_group_state"
_NOT_YET = (Err.COORDINATOR_LOAD_IN_PROGRESS, Err.COORDINATOR_NOT_AVAILABLE, Err.NOT_COORDINATOR)


async def _make_nameless_group(side: Side) -> None:
    """The group without a name, which no sequence has for itself, is there from the start: on both sides, or all that meet it differ.
    A broker may load its coordinator yet; one that takes no commits at all takes none of the sequences either. Raises TimeoutError with
    its last answer."""
    there = [OffsetCommitRequestTopic("t0", partitions=[OffsetCommitRequestPartition(0, 7)])]
    give_up = clock_s() + 60
    while True:
        error = (await side.ask(OffsetCommitRequest(topics=there), 7)).topics[0].partitions[0].error_code
        if error not in _NOT_YET:
            return
        if clock_s() > give_up:
            raise TimeoutError(f"the group without a name can't be made in 60 s: {Err(error).name}")
        await asyncio.sleep(0.1)


async def _coordinators_of_transactions(side: Side) -> None:
    """Wait until transaction coordinators are there and have loaded every partition: so many ids find each of the few."""
    give_up = clock_s() + 60
    for name in (f"warm{number}" for number in range(32)):
        while True:
            await side.ask(FindCoordinatorRequest(name, 1), 1)
            error = (await side.ask(InitProducerIdRequest(name, 60_000), 1)).error_code
            if error not in (*_NOT_YET, Err.CONCURRENT_TRANSACTIONS):
                break  # a broker that grants none at all grants the sequences none either
            if clock_s() > give_up:
                raise TimeoutError(f"no transactional id in 60 s: {Err(error).name}")
            await asyncio.sleep(0.1)


async def _share_coordinator(side: Side) -> None:
    """The log of share groups' states is there, where the broker has share groups."""
    shown = await side.ask(ApiVersionsRequest("differential", "1"), 3)
    if not any(row.name == "share.version" and row.max_version_level for row in shown.finalized_features):
        return
    give_up = clock_s() + 60
    request = FindCoordinatorRequest(key_type=2, coordinator_keys=["warm:AAAAAAAAAAAAAAAAAAAAAQ:0"])
    while (error := (await side.ask(request, 6)).coordinators[0].error_code) and clock_s() < give_up:
        await asyncio.sleep(0.1)
    if error:
        raise TimeoutError(f"no share coordinator in 60 s: {Err(error).name}")
    await barriers._topic_known(side, SHARE_STATES, 4)


def _last(sequence: Sequence, difference: Difference) -> str:
    """The step that was answered otherwise."""
    return (
        f"step {difference.number}: {sequence.steps[difference.number]}"
        if difference.number < len(sequence.steps)
        else API
    )


def _loses_members(sequence: Sequence) -> bool:
    return sequence.timed or any(step.api == "LeaveGroup" for step in sequence.steps)
