"""Offsets that a transaction stages for a group: who asks for stable ones waits, and of two records the later one wins."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from broker_sim.simulation.checks.answers import OFFSETS, offsets_partition
from broker_sim.simulation.workloads.probing.groups import Unsure
from broker_sim.simulation.workloads.probing.prober import standing
from kafka_wire.errors import Err
from kafka_wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafka_wire.messages.k09_offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from kafka_wire.messages.k25_add_offsets_to_txn import AddOffsetsToTxnRequest
from kafka_wire.messages.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

if TYPE_CHECKING:
    from typing import Any

    from broker_sim.simulation.workloads.probing.transactions import Life

__all__ = ["PendingOffsetsTransaction"]

_STABLE = 7
"""The version of OffsetFetch that knows what is stable."""
_STAGES, _ADDS, _ABORTABLE = 3, 5, 4
"""TxnOffsetCommit: a version that needs AddOffsetsToTxn, and one that does not."""
_MARKED_S = 1.5


class PendingOffsetsTransaction:
    """One transaction that commits an offset of a group, which has the life's name. Each step raises Unsure, OSError."""

    def __init__(self, life: Life) -> None:
        self.life, self.prober, self.rng = life, life.prober, life.rng

    def _snapshot(self) -> tuple[object, ...]:
        topic = self.prober.state.topics.get(OFFSETS)
        log = None if topic is None else topic.partitions[offsets_partition(self.life.name, len(topic.partitions))]
        state = standing(log)
        loaded = log is not None and (
            log.log_end_offset == 0 or self.prober.context.kafka.runtime.shard(log.index) is not None
        )
        if state is None or not loaded:
            raise Unsure
        return state

    async def _ask(self, request: Any, version: int) -> Any:
        """Send a request to the group's coordinator. Raises Unsure if the coordinator changed meanwhile."""
        before = self._snapshot()
        log = self.prober.state.topics[OFFSETS]
        leader = log.partitions[offsets_partition(self.life.name, len(log.partitions))].leader
        answer = await self.life.ask(request, version, leader)
        if before != self._snapshot():
            raise Unsure
        return answer

    async def _shown(self, *, stable: bool) -> tuple[Err, int]:
        """OffsetFetch of the partition; returns its error and its offset. ``stable``: the request's require_stable."""
        asked = [OffsetFetchRequestTopic(self.life.name, [0])]
        answer = await self._ask(OffsetFetchRequest(self.life.name, asked, require_stable=stable), _STABLE)
        row = answer.topics[0].partitions[0]
        return Err(answer.error_code or row.error_code), row.committed_offset

    async def _stage(self, offset: int, version: int) -> Err:
        life = self.life
        rows = [TxnOffsetCommitRequestTopic(life.name, partitions=[TxnOffsetCommitRequestPartition(0, offset, -1, "")])]
        request = TxnOffsetCommitRequest(life.name, life.name, life.producer, life.epoch, topics=rows)
        answer = await self._ask(request, version)
        return Err(answer.topics[0].partitions[0].error_code)

    async def _commit(self, offset: int) -> None:
        """A plain commit, which needs no transaction."""
        rows = [OffsetCommitRequestTopic(self.life.name, partitions=[OffsetCommitRequestPartition(0, offset)])]
        answer = await self._ask(OffsetCommitRequest(self.life.name, topics=rows), 7)
        error = Err(answer.topics[0].partitions[0].error_code)
        self.life.expect("TxnOffsetCommit follows the coordinator's rules", "OffsetCommit", error, Err.NONE)

    async def transaction(self) -> None:
        """From its beginning to its end."""
        rule = "TxnOffsetCommit follows the coordinator's rules"
        life = self.life
        error, before = await self._shown(stable=True)
        life.expect(rule, "OffsetFetch of what is stable", error, Err.NONE)
        mine, plain = (self.rng.randrange(1000) for _ in range(2))
        version = (
            _ADDS if life.flow == 2 else self.rng.choice((_STAGES, _ABORTABLE)) if life.release >= (4, 0) else _STAGES
        )
        if life.flow == 1:
            if life.release >= (4, 0):
                wanted = Err.TRANSACTION_ABORTABLE if version >= _ABORTABLE else Err.INVALID_TXN_STATE
                life.expect(
                    rule, "TxnOffsetCommit of a group that is not in it", await self._stage(mine, version), wanted
                )
            request = AddOffsetsToTxnRequest(life.name, life.producer, life.epoch, life.name)
            answer = await life.ask(request, life.upto(AddOffsetsToTxnRequest, 4), life.coordinator)
            if answer.error_code == Err.CONCURRENT_TRANSACTIONS:
                raise Unsure
            life.expect(rule, "AddOffsetsToTxn", Err(answer.error_code), Err.NONE)
        order = self.rng.choice(("staged", "plain staged", "staged plain"))
        for word in order.split():
            if word == "plain":
                await self._commit(plain)
                before = plain
            else:
                life.expect(rule, "TxnOffsetCommit", await self._stage(mine, version), Err.NONE)
                life.expect(rule, "what is stable", await self._shown(stable=True), (Err.UNSTABLE_OFFSET_COMMIT, -1))
            there = (Err.NONE, before)
            life.expect(rule, "what is committed", await self._shown(stable=False), there)
        commits = self.rng.random() < 0.6
        await life.ends(commits)
        begun_s = self.prober.calm.now_s()
        while (shown := await self._shown(stable=True))[0] is Err.UNSTABLE_OFFSET_COMMIT:
            await asyncio.sleep(0.05)
            if self.prober.calm.now_s() - begun_s > _MARKED_S:
                self.prober.breach("an ended transaction gets its markers", f"{life.name}: its offsets are not")
                raise Unsure
        wins = mine if commits and not order.endswith("plain") else before
        life.expect("the later record of an offset wins", "what is committed", shown, (Err.NONE, wins))
