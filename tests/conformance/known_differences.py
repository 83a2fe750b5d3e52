"""Known differences between the answers of the simulator and the real broker, and parts that no test here covers; each with its reason.

docs/fidelity.md lists both. A difference that an assertion sees makes that test an expected failure of the simulator
(strict: it fails when the difference is gone); one in a field that no assertion looks at is let through.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

ASSERTION = "(assertion)"


@dataclass(frozen=True)
class Known:
    """In `case` (a regular expression over whole case names), on `generations`, lines that match `line` may differ.

    `line` ASSERTION: the test itself can't pass on the simulator.
    """

    case: str
    line: str
    reason: str
    generations: tuple[str, ...] = ("3.4", "4.1")


KNOWN: tuple[Known, ...] = (
    Known(
        "s2_6_v0_and_v1_of_3_4|s2_7_v0_of_3_4",
        ASSERTION,
        "OffsetCommit and OffsetFetch v0 meant ZooKeeper: a KRaft broker of 3.4 refuses them. The simulator keeps these"
        " offsets in a store of their own, as a ZooKeeper cluster did.",
        ("3.4",),
    ),
    Known(
        "156_subscription_that_lies_about_its_length_wedges_the_join_phase",
        ASSERTION,
        "In Kafka an array that claims more elements than the subscription has bytes makes the generated decoder throw an"
        " exception that its caller does not catch; the join phase of the group then never completes. The simulator treats"
        " the subscription as unparsable, and the join phase completes.",
    ),
)


UNTESTED: tuple[tuple[str, str], ...] = (
    (
        "4.4",
        "Kafka never answers a DescribeShareGroupOffsets that asks for a partition whose start offset is beyond the end of its log. The"
        " simulator answers it, with a start offset of -1.",
    ),
    (
        "4.4",
        "Kafka has no limit to the tasks of a streams group's topology. The simulator refuses more than 10,000 with"
        " STREAMS_INVALID_TOPOLOGY, as it assigns them in one step.",
    ),
    (
        "4.4",
        "In StreamsGroupHeartbeat, which of several subtopologies' topics an endpoint lists first is random in each JVM. The"
        " simulator has one order.",
    ),
)
"""Differences on a release that no test shows: a test would wait in vain, or see what is drawn."""


def explained(case: str, generation: str, line: str) -> Known | None:
    """The entry that explains this difference, if there is one."""
    for known in KNOWN:
        if generation not in known.generations or not re.fullmatch(known.case, case):
            continue
        if line == known.line or (known.line != ASSERTION and re.search(known.line, line)):
            return known
    return None


_DEAD = "Dead is an intermediate state: no request can find a group in it."
_APPEND = "Appends to __consumer_offsets fail only under faults that a client can't cause."
_LOADING = "A load completes before a client can send two requests; a test needs a slow log."
_TRANSACTIONS = "Transactions have their own cases, in test_transactions."
_KIP_848 = "KIP-848 has its own cases, in test_consumer_groups."

NOT_COVERED: dict[int, str] = {
    6: _DEAD,
    20: "The constant of five minutes is too long for a test against a real broker.",
    47: _APPEND,
    50: _APPEND,
    51: "State transitions are internal; the tests of the transition table cover them.",
    61: _APPEND,
    65: _LOADING,
    75: _LOADING,
    87: _DEAD,
    92: _DEAD,
    99: _APPEND,
    107: _DEAD,
    **dict.fromkeys(range(113, 121), _TRANSACTIONS),
    126: _TRANSACTIONS,
    142: "A pending commit can be observed only while the log is stuck.",
    145: _TRANSACTIONS,
    149: _TRANSACTIONS,
    150: "Empty control batches are left by transactions and compaction.",
    157: "Repeated leader moves need the control API.",
    158: "A coordinator move with deferred requests needs the control API.",
    **dict.fromkeys(range(160, 172), _KIP_848),
    172: "A broker in shutdown closes its connections; no test can reach the moment in which it still responds.",
}
