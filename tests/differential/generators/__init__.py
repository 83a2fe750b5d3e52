"""Generators of random sequences. `sequence(seed, versions)` is the whole of it: a function of its arguments alone."""

from __future__ import annotations

import random

from tests.differential.generators import (
    admin,
    cluster,
    connections,
    consumers,
    data,
    edges,
    groups,
    shares,
    streams,
    transactions,
    wild,
)
from tests.differential.generators.draw import Draw, Versions
from tests.differential.sequence import Sequence

KINDS = {
    "group": (groups.sequence, 8),
    "timed": (groups.timed, 3),
    "offsets": (groups.offsets, 3),
    "data": (data.sequence, 6),
    "admin": (admin.sequence, 3),
    "transactions": (transactions.sequence, 5),
    "consumers": (consumers.sequence, 4),
    "streams": (streams.sequence, 4),
    "shares": (shares.sequence, 4),
    "wild": (wild.sequence, 2),
    "group wires": (connections.of_groups, 2),
    "wires": (connections.of_data, 2),
    "nameless": (groups.nameless, 1),
    "expiring": (groups.expiring, 0),
}
"""Name -> generator, and how often it is drawn. What expires is asked for by name alone: its brokers sweep all the time."""
NEEDED = {"consumers": (consumers.API, 0), "streams": (streams.API, 0), "shares": (shares.API, 2)}
"""The API, and its version, without which a kind is drawn only if it is asked for: 4.1 has share groups only then (peers.py)."""
UNBENT = ("expiring",)
"""Without boundary values, as those for several brokers are: there much hangs on what is asked of whom, and when."""
CLUSTER_KINDS = {
    "led": (cluster.led, 20),
    "coordinated": (cluster.coordinated, 20),
    "outage": (cluster.outage, 1),
}
"""Generators for several brokers, and how often each is drawn."""

_ALL = {**KINDS, **CLUSTER_KINDS}
GROUP_KINDS = ("group", "timed", "offsets", "consumers", "streams", "shares", "group wires", "coordinated")
BLOCK = 250
"""So many sequences in a row are of one sort beside 3.x, where each deletion of a topic takes all empty groups along."""


def in_blocks(versions: Versions) -> bool:
    """Whether sequences of groups and others have to take turns."""
    return versions["Produce"][1] < 12


def kinds(versions: Versions, brokers: int = 1) -> list[str]:
    """Return the kinds of sequences that brokers with these versions can play."""
    names = KINDS if brokers == 1 else CLUSTER_KINDS
    return [
        name for name in names if name not in NEEDED or versions.get(NEEDED[name][0], (0, -1))[1] >= NEEDED[name][1]
    ]


def sequence(seed: int, versions: Versions, only: str = "", brokers: int = 1) -> Sequence:
    """The sequence of a seed, for brokers with these versions; `only` names the one generator to draw from."""
    rng = random.Random(seed)
    names = kinds(versions, brokers)
    if in_blocks(versions):
        names = [name for name in names if (name in GROUP_KINDS) == (seed // BLOCK % 2 == 0)]
    kind = rng.choices(names, [_ALL[name][1] for name in names])[0]
    kind = only or kind
    draw = Draw(rng, versions, brokers)
    _ALL[kind][0](draw)
    if kind in KINDS and kind not in UNBENT:
        edges.bend(seed, draw.steps)
    return Sequence(seed, kind, draw.steps, timed=kind in ("timed", "expiring"), brokers=brokers)
