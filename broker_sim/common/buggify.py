"""Places in the brokers where a simulation can force rare but legal behaviour (FoundationDB's BUGGIFY).

    buggify = self.state.buggify
    if buggify is not None and buggify.fires("loads slowly"):
        ...

Rules:
1. Outside of simulations whose fault plan asks for it ``ClusterState.buggify`` is None: a check of one attribute.
2. Two levels: a site is on for a run or is not, and one that is on fires with its probability. So a run has a few of the behaviours,
   not all.
3. The behaviour of a site is legal: a client may see it at a production broker. So every invariant holds with all sites on.
4. Each site has its own random generator, from the seed and its name: without one site the others fire as before.
5. ``SITES`` is the whole list. A test compares the code with it.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from broker_sim.common.text import unknown

__all__ = ["PROBABILITY", "SITES", "Buggify", "Site"]

PROBABILITY = 0.25
"""Probability with which a site fires that is on."""


class Site(NamedTuple):
    """A place in the code that `Buggify` may alter. ``where``: the function, as ``module.function``; ``what``: its effect."""

    name: str
    where: str
    what: str


SITES: dict[str, Site] = {
    site.name: site
    for site in (
        Site("reads byte by byte", "network.connection.data_received", "bytes that came together are taken one by one"),
        Site(
            "takes no short way",
            "network.connection._handle_frames",
            "requests go the general way, not the one for repeated ones",
        ),
        Site(
            "commits by events",
            "runtime.commit_batching.flush_commits",
            "repeated commits are stepped through the shard, one event for all",
        ),
        Site(
            "lingers",
            "runtime.coordinator_runtime.flush_batches",
            "the commits of a turn wait for those of later ones (append.linger.ms)",
        ),
        Site(
            "appends alone",
            "runtime.coordinator_runtime._perform",
            "a commit is appended at once, in a batch of its own",
        ),
        Site(
            "answers a turn later",
            "runtime.coordinator_runtime._reply",
            "the coordinator's answer leaves after other work was done",
        ),
        Site(
            "fires late",
            "runtime.coordinator_runtime._fire",
            "a session's or rebalance's timer fires up to 50 ms after its instant",
        ),
        Site(
            "loads slowly",
            "runtime.coordinator_runtime._load_on",
            "a coordinator reads its log record by record, with pauses",
        ),
        Site(
            "rolls and cleans",
            "runtime.coordinator_runtime._append",
            "the offsets log begins a segment and is compacted, between two appends",
        ),
        Site(
            "has no coordinator yet",
            "handlers.k10_find_coordinator._find",
            "COORDINATOR_NOT_AVAILABLE, as a broker without metadata",
        ),
        Site("answers a Fetch early", "handlers.k01_fetch.start", "a long poll ends after a millisecond"),
        Site("reads one batch", "handlers.k01_fetch._read", "a Fetch gives one batch, whatever there is"),
        Site("forgets what it encoded", "handlers.k03_metadata._kept", "kept answers lapse"),
    )
}
"""By name."""


class Buggify:
    """The sites of one cluster; none is on at first. ``fired``: how often each has."""

    def __init__(self, seed: object) -> None:
        self._seed = seed
        self._on: dict[str, tuple[random.Random, float]] = {}
        self.fired: Counter[str] = Counter()

    def on(self, name: str, probability: float = PROBABILITY) -> None:
        """Let the site fire with this probability from now on. Raises UsageError for an unknown name."""
        if name not in SITES:
            raise unknown("site", name, SITES)
        self._on[name] = random.Random(f"{self._seed}/buggify/{name}"), probability

    def off(self, name: str) -> None:
        """The opposite; nothing happens where it is not on."""
        self._on.pop(name, None)

    def is_on(self, name: str) -> bool:
        """Whether the site may fire."""
        return name in self._on

    def fires(self, name: str) -> bool:
        """Whether the site does its deed now."""
        setting = self._on.get(name)
        if setting is None or setting[0].random() >= setting[1]:
            return False
        self.fired[name] += 1
        return True

    def splits(self, data: bytes, take: Callable[[bytes], object]) -> bool:
        """The site "reads byte by byte": whether each byte has been handed on by itself."""
        if len(data) < 2 or not self.fires("reads byte by byte"):
            return False
        for at in range(len(data)):
            take(data[at : at + 1])
        return True

    def number(self, name: str, most: int) -> int:
        """A number from 1 to ``most``, for the deed of a site that is on."""
        return self._on[name][0].randint(1, most)
