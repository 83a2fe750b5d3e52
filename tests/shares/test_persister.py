"""Share coordinators are asked in pieces, in the order in which the askers came."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

from broker_sim.coordinator.share_state.commands import Result
from broker_sim.runtime.share_state_coordinator import _PIECE, Persister
from kafka_wire.errors import Err


class Coordinators:
    """Take down what they are asked, and answer at once."""

    def __init__(self) -> None:
        self.state = SimpleNamespace(ensure_internal_topic=lambda topic: None)
        self.asked: list[int] = []

    def leading(self, key: int) -> str:
        return "shard"

    def command(self, shard: str, command: Any, answered: Any) -> None:
        self.asked.append(command.key)
        answered(SimpleNamespace(error=Err.NONE, key=command.key))


def commands(keys: range) -> list[Any]:
    return [SimpleNamespace(key=key) for key in keys]


async def test_others_are_served_between_the_pieces_and_nobody_overtakes() -> None:
    coordinators = Coordinators()
    persister = Persister(cast(Any, coordinators))
    answered: list[list[Result]] = []
    many = 5 * _PIECE
    persister.ask(commands(range(many)), answered.append)
    persister.ask(commands(range(many, many + 1)), answered.append)
    sizes = []
    while len(answered) < 2:
        sizes.append(len(coordinators.asked))
        await asyncio.sleep(0)
    assert max(after - before for before, after in pairwise(sizes)) <= _PIECE
    assert coordinators.asked == list(range(many + 1))
    assert [[cast(Any, one).key for one in answers] for answers in answered] == [list(range(many)), [many]]


async def test_what_was_not_asked_when_the_cluster_ends_never_is() -> None:
    coordinators = Coordinators()
    persister = Persister(cast(Any, coordinators))
    persister.ask(commands(range(2 * _PIECE)), lambda _: None)
    persister.close()
    for _ in range(5):
        await asyncio.sleep(0)
    assert len(coordinators.asked) < _PIECE + 1
