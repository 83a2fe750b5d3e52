"""Sentence by sentence: what findings say, against what really happened.

A finding's sentence makes claims: that a session expired at a time, that an offset stayed, who left. Each is true, false, or not to
be checked with a ledger. The sentence is false if one of them is, true if one is true and none false.

Beside the sentence, a kind may name a cause (a poison record, a stuck partition): that it was another one is counted apart (``named``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from tests.incidents import about_members, about_offsets, about_partitions
from tests.incidents.truth import LATE_MS, Truth
from tests.incidents.words import Claim, Found

__all__ = ["Sentence", "sentence"]

NAMING: Mapping[str, frozenset[str]] = {
    "poison": frozenset({"poison"}),
    "poll timeout": frozenset({"poll expiry"}),
    "stuck": frozenset({"stuck"}),
    "unclean election": frozenset({"unclean election"}),
    "reset": frozenset({"reset"}),
    "archived": frozenset({"given up"}),
    "deleted offsets": frozenset({"expiry", "group deletion", "offset deletion"}),
    "storm": frozenset({"storm", "poison", "killed rollout"}),
}
"""Kinds that name what happened, and the kinds of events that this is; above a note alone."""


@dataclass
class Sentence:
    found: Found
    claims: list[Claim] = field(default_factory=list)
    named: bool | None = None
    """Whether its kind is what happened; None where it names no cause."""

    @property
    def true(self) -> bool | None:
        verdicts = {claim.true for claim in self.claims}
        return False if False in verdicts else True if True in verdicts else None

    @property
    def false(self) -> list[Claim]:
        return [claim for claim in self.claims if claim.true is False]

    @property
    def unchecked(self) -> list[Claim]:
        return [claim for claim in self.claims if claim.true is None]


def sentence(truth: Truth, found: Found) -> Sentence:
    """All claims of one finding."""
    made = Sentence(found)
    group, partition = found.get("group"), found.get("log_partition")
    facts = truth.ledger.groups.get(group) if group is not None else None
    if group is not None and facts is None:
        made.claims.append(Claim(f"there is a group {group}", False, "there is none"))
        return made
    if facts is not None and partition not in (None, facts.log_partition):
        made.claims.append(Claim(f"{group} is in partition {partition}", False, f"in {facts.log_partition}"))
    made.claims += CHECKS.get(found["kind"], _nothing)(truth, found)
    if not made.claims:
        made.claims.append(Claim(found["text"], None, "no check for this kind"))
    if found["kind"] in NAMING and found["severity"] in ("warn", "bad"):
        made.named = _named(truth, found)
    return made


def _nothing(truth: Truth, found: Found) -> Iterator[Claim]:
    yield from ()


def _named(truth: Truth, found: Found) -> bool:
    """Whether an event of such a kind happened then, to its group or partition."""
    at_ms, to_ms = found.get("at_ms"), found.get("to_ms")
    for event in truth.ledger.events:
        mine = found.get("group") in truth.ledger.concerned(event) or (
            event.group is None and found.get("log_partition") in event.log_partitions
        )
        late = at_ms is not None and at_ms > event.end_ms + LATE_MS
        early = at_ms is not None and (to_ms or at_ms) < event.start_ms - 5000
        if mine and event.kind in NAMING[found["kind"]] and not late and not early:
            return True
    return False


CHECKS: Mapping[str, Callable[[Truth, Found], Iterator[Claim]]] = {
    "session expired": about_members.session_expired,
    "departed": about_members.departed,
    "storm": about_members.storm,
    "poll timeout": about_members.poll_timeout,
    "slow rebalance": about_members.slow_rebalance,
    "stalled": about_offsets.stayed,
    "poison": about_offsets.stayed,
    "regression": about_offsets.regression,
    "reset": about_offsets.reset,
    "deleted offsets": about_offsets.deleted,
    "lag": about_offsets.lag,
    "stuck": about_partitions.stuck,
    "coordinator moved": about_partitions.moved,
    "unclean election": about_partitions.unclean,
    "transaction": about_partitions.transaction,
    "archived": about_partitions.archived,
    "redelivered": about_partitions.redelivered,
}
