"""Hard state has one way in: a shard that is rebuilt from its log is equal to the one that wrote it, and nothing else writes it."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

import broker_sim.coordinator
from broker_sim.coordinator.loader import Loader
from broker_sim.coordinator.outcome import (
    BatchProducer,
    CommitOffsets,
    DeleteGroup,
    DeleteOffsets,
    Offset,
    TopicsChanged,
)
from broker_sim.coordinator.policy import JAVA, SCALA, Policy
from broker_sim.coordinator.shard import Shard
from broker_sim.coordinator.store import GroupStore
from kafka_wire.errors import Err
from tests.coordinator.harness import Core
from tests.coordinator.test_histories import GROUPS, History

COMMITS, GENERATIONS = 20, 20
"""Number of each that histories must exceed over all seeds, so that they test anything."""


def hard(store: GroupStore) -> dict[str, Any]:
    """All hard state of the groups that have any."""
    return {
        group.group_id: (group.stored, group.offsets, group.pending_txn_offsets)
        for group in [*store.groups.values(), *(each for buried in store.pending_deletion.values() for each in buried)]
        if group.stored is not None or group.offsets or group.pending_txn_offsets
    }


def rebuilt(core: Core) -> GroupStore:
    """Return the store that a new shard loads from the log."""
    return core.feed(Loader(core.settings), core.high_watermark).finish()


class Deleting(History):
    """A history in which offsets, groups and topics are deleted, too, and expire."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        if (
            self.core.settings.policy is SCALA
        ):  # what it deletes is gone before the log has it, and whether or not it gets it
            self.faults = 0.0

    def commit(self) -> None:
        super().commit()
        kind = self.rng.randrange(12)
        group = self.rng.choice(GROUPS)
        if kind == 0:
            self.core.request(DeleteGroup(group))
        elif kind == 1:
            self.core.request(DeleteOffsets(group, [("t", self.rng.randrange(2))]))
        elif kind == 2:
            self.core.step(TopicsChanged({"t": None}))
        elif kind == 3:
            self.core.advance(self.core.settings.offsets_retention_check_interval_ms)


class InTransactions(History):
    """A history in which producers commit for the same groups, and end their transactions."""

    def commit(self) -> None:
        super().commit()
        rng, core = self.rng, self.core
        producer = rng.choice((7, 8))
        if rng.random() < 0.5:
            offsets = [("t", rng.randrange(2), Offset(rng.randrange(1000), -1, "", core.now_ms))]
            core.request(CommitOffsets(rng.choice(GROUPS), -1, "", None, offsets, producer=BatchProducer(producer, 0)))
        elif rng.random() < 0.6:
            core.mark(producer, commit=rng.random() < 0.6)


class DeletingInTransactions(InTransactions, Deleting):
    """And everything is deleted now and then: 3.x strikes off what is staged without a record, so that a load finds it again."""


KINDS = [
    (SCALA, History), (SCALA, Deleting), (SCALA, InTransactions),
    (JAVA, History), (JAVA, Deleting), (JAVA, InTransactions), (JAVA, DeletingInTransactions),
]  # fmt: skip


@pytest.mark.parametrize(("policy", "kind"), KINDS)
def test_a_shard_that_is_rebuilt_from_its_log_is_equal(policy: Policy, kind: type[History]) -> None:
    commits = generations = 0
    for seed in range(80):
        history = kind(seed)
        if history.core.settings.policy is not policy:
            continue
        history.faults = 0.0 if policy is SCALA else history.faults
        for _ in range(15):
            history.run(10)  # it ends healed: nothing is on its way
            live, again = hard(history.core.shard.store), hard(rebuilt(history.core))
            assert live == again, f"seed {seed}"
            commits += sum(len(parts) for _, offsets, _ in live.values() for parts in offsets.values())
            generations += sum(stored is not None and stored.generation > 1 for stored, _, _ in live.values())
    assert commits > COMMITS
    assert generations > GENERATIONS


def test_a_group_begun_anew_behind_its_tombstone_is_not_ended_by_it() -> None:
    """DeleteGroups of 4.x waits for the log; whoever joins meanwhile is in a new group of the same name."""
    core = Core(policy=JAVA)
    core.commit(5)
    core.held = True
    deletion = core.request(DeleteGroup("g"))
    member = core.new_member_id()
    token = core.join(member)
    core.heal()
    core.advance(0)
    assert core.answers[deletion] is Err.NONE
    assert core.joined(token).member_id == member
    assert core.offset() == -1
    assert hard(core.shard.store) == hard(rebuilt(core))


def test_who_reads_what_is_committed_sees_an_expired_group_until_its_tombstone_is() -> None:
    core = Core(policy=JAVA, offsets_retention_ms=1000)
    core.commit(5)
    core.held = True
    core.advance(core.settings.offsets_retention_check_interval_ms)
    assert core.state() == "-"
    assert list(core.shard.store.pending_deletion) == ["g"]
    core.heal()
    assert (core.state(), core.shard.store.pending_deletion) == ("-", {})


def test_a_group_is_back_where_the_log_refuses_its_tombstone() -> None:
    core = Core(policy=JAVA, offsets_retention_ms=1000)
    core.commit(5)
    core.log_error = Err.NOT_ENOUGH_REPLICAS
    core.advance(core.settings.offsets_retention_check_interval_ms)
    assert core.offset() == 5


WRITERS = {"stored", "pending_txn_offsets", "_offsets", "_repeated", "by_producer", "committed_at"}
"""The fields that hold hard state."""
WAYS = {"put_offset", "remove_offset", "clear_offsets", "take", "store"}
"""The methods of a group that write them."""
CHANGES = {"pop", "popitem", "clear", "update", "setdefault", "append"}
"""The methods of what they hold that change it."""


def writes(node: ast.AST) -> str | None:
    """Return the name of the hard state that a node of code writes; None if it writes none."""
    if isinstance(node, ast.Attribute) and node.attr in WRITERS and isinstance(node.ctx, ast.Store | ast.Del):
        return node.attr
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
        inside = node.value
        return inside.attr if isinstance(inside, ast.Attribute) and inside.attr in WRITERS else None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in WAYS:
            return node.func.attr
        inside = node.func.value
        if node.func.attr in CHANGES and isinstance(inside, ast.Attribute) and inside.attr in WRITERS:
            return inside.attr
    return None


def test_nothing_but_the_store_writes_hard_state() -> None:
    found = []
    for path in sorted(Path(broker_sim.coordinator.__file__).parent.rglob("*.py")):
        if path.name in ("store.py", "group.py"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            written = writes(node)
            if written is not None:
                found.append(f"{path.name}:{node.lineno} writes {written}")  # type: ignore[attr-defined]
    assert found == []


@pytest.mark.parametrize(
    "code",
    [
        "a.stored = 1",
        "del a.pending_txn_offsets[k]",
        "a.pending_txn_offsets.pop(k)",
        "a.b.put_offset(1)",
        "a.pending_txn_offsets[k] = 1",
    ],
)
def test_such_a_writer_would_be_seen(code: str) -> None:
    assert any(writes(node) for node in ast.walk(ast.parse(code)))


def test_step_is_the_only_way_to_a_shards_groups() -> None:
    assert {name for name in vars(Shard) if not name.startswith("_")} == {"start", "step", "stop"}
