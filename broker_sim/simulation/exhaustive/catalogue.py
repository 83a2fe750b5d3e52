"""Catalogue of small worlds, and a random exploration for a seed: `WORLDS`, `drawn`.

explore(WORLDS["classic 4.1"], depth=7)
explored = drawn(seed=7, steps=2000)        # a world, a walk into it, and everything that may happen from there
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial

from broker_sim.coordinator.policy import ConsumerSettings, Settings, policy_of
from broker_sim.coordinator.transaction.policy import TransactionSettings
from broker_sim.coordinator.transaction.policy import policy_of as transaction_policy_of
from broker_sim.simulation.exhaustive.classic import SESSION_MS, ClassicWorld
from broker_sim.simulation.exhaustive.consumer import ConsumerWorld
from broker_sim.simulation.exhaustive.explorer import Action, Broken, Explored, ModelState, explore
from broker_sim.simulation.exhaustive.mixed import MixedWorld
from broker_sim.simulation.exhaustive.transactions import TransactionWorld

__all__ = ["DESCRIPTIONS", "WORLDS", "drawn"]

DESCRIPTIONS = {
    "classic": "a classic group of two clients",
    "static": "one with a static member",
    "window": "one with the initial rebalance delay",
    "calm": "a classic group of three clients, whose log has no faults",
    "consumer": "a consumer group (KIP-848) of two members, whose topic grows",
    "consumer-static": "one with a static member",
    "mixed": "one with a member of either protocol, which goes over and back",
    "transaction": "a transactional id that two producers believe to be theirs",
    "transaction-mixed": "one of whose producers has an epoch for each transaction (KIP-890), and one has not",
}
"""By the first word of a world's name."""

Make = Callable[[], ModelState]


def _groups(release: str, coordinator: str) -> Iterator[tuple[str, Make]]:
    policy = policy_of(coordinator, _parts(release))
    plain = Settings(policy=policy, initial_rebalance_delay_ms=0)
    window = Settings(policy=policy, initial_rebalance_delay_ms=3000)
    yield f"classic {release}", partial(ClassicWorld, plain)
    yield f"static {release}", partial(ClassicWorld, plain, ("S", "A"))
    yield f"window {release}", partial(ClassicWorld, window)
    yield f"calm {release}", partial(ClassicWorld, plain, ("A", "B", "S"), faults=False)


def _consumers(release: str, interval_ms: int) -> Iterator[tuple[str, Make]]:
    settings = Settings(
        policy=policy_of("java", _parts(release)),
        consumer=ConsumerSettings(session_timeout_ms=SESSION_MS, assignment_interval_ms=interval_ms),
    )
    yield f"consumer {release}", partial(ConsumerWorld, settings)
    yield f"mixed {release}", partial(MixedWorld, settings)
    yield f"consumer-static {release}", partial(ConsumerWorld, settings, ("S", "A"))


def _transactions(release: str, flows: dict[str, tuple[int, int]]) -> Iterator[tuple[str, Make]]:
    settings = TransactionSettings(policy=transaction_policy_of(_parts(release)))
    for name, flow in flows.items():
        yield f"transaction{name} {release}", partial(TransactionWorld, settings, flow)


def _parts(release: str) -> tuple[int, int]:
    major, minor = release.split(".")
    return int(major), int(minor)


WORLDS: dict[str, Make] = dict(
    [
        *_groups("3.4", "scala"),
        *_groups("4.1", "java"),
        *_consumers("4.1", 0),
        *_consumers("4.4", 1000),
        *_transactions("3.4", {"": (0, 0)}),
        *_transactions("4.1", {"": (2, 2), "-mixed": (0, 2)}),
    ]
)
"""By name: what it is, and the release that it is as."""


def drawn(seed: int, *, steps: int, longest_walk: int = 16) -> Explored:
    """Explore one of the worlds in turn: take a walk of drawn actions into it, and from there all actions, up to ``steps``."""
    names = list(WORLDS)
    make, dice = WORLDS[names[seed % len(names)]], random.Random(f"{seed}/small world")
    world, walk = make(), []
    for _ in range(dice.randrange(longest_walk)):
        action: Action = dice.choice(list(world.actions()))
        walk.append(action)
        try:
            world.take(action)
        except Broken as broken:
            broken.path = tuple(walk)
            return Explored(broken=broken)
    return explore(make, depth=99, steps=steps, begin=walk)
