"""Output about groups of other tools than `kafka-consumer-groups`: rpk's and kcl's summaries, and tables that can't be imported.

Rules:
1. rpk and kcl print a group as lines of a name and a value (GROUP, COORDINATOR, STATE, BALANCER ..), and below them tables without a
   column GROUP. Sources: rpk's group/describe.go, kcl's commands/admin/group/describe.go.
2. A share group's offsets are states of `__share_group_state`, and a streams group's tasks are in its members' records: their tables
   lack what a coordinator would load. They are refused by name. One is read: `kafka-streams-groups --describe --verbose`, as the
   offsets are an ordinary group's. Sources: ShareGroupCommand.java, StreamsGroupCommand.java of 4.1 and later.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from broker_sim.common.text import UsageError
from broker_sim.migration.pasted_text import PastedLine

__all__ = ["NAMES", "PER_TOPIC", "Summary", "is_of_streams", "refused_message", "refused_table", "summary"]

NAMES = {"MEMBER-ID": "CONSUMER-ID", "INSTANCE-ID": "GROUP-INSTANCE-ID", "OFFSET-LAG": "LAG"}
"""Name of a column in rpk or kcl -> that in kafka-consumer-groups."""
PER_TOPIC = ["TOPIC", "LAG"]
"""The header of rpk's --print-lag-per-topic."""

_LINES = (
    "COORDINATOR-NODE",
    "COORDINATOR",
    "COORDINATOR-PARTITION",
    "STATE",
    "BALANCER",
    "MEMBERS",
    "TOTAL-LAG",
    "ERROR",
)
_FIRST = _LINES[:2]
_READ = "what is read: kafka-consumer-groups --describe, rpk group describe, kcl group describe"
_SHARE = (
    "it is the output of kafka-share-groups, which does not show deliveries; a share group is loaded from a copy of the broker's log"
    f" directory (--data DIR); {_READ}"
)
_STREAMS = (
    "it is the output of kafka-streams-groups, of which the offsets are read (--describe --verbose, without --members or --state);"
    f" members and tasks are loaded from a copy of the broker's log directory (--data DIR); {_READ}"
)
_MESSAGE = re.compile(
    r"(?:Error: )?(?P<kind>Share|Streams) group '.*' (?:has no active members|does not exist|has no offset)"
)
_OF_4 = re.compile(r"\S+:[0-9][0-9,]*(?:;\S+:[0-9,]*)*\s*$")


@dataclass(frozen=True)
class Summary:
    """Summary of rpk or kcl above a group's tables. ``says``: the kind and values of a row about a group that does not exist."""

    group: str
    lines: int
    """Number of lines of the text that the summary takes."""
    values: dict[str, str | None] = field(default_factory=dict)
    says: tuple[str, dict[str, str | None]] | None = None


def summary(lines: Sequence[PastedLine]) -> Summary | None:
    """The summary that begins with the first of these lines, None if none does. Raises UsageError for a group that the tool could
    not describe."""
    if len(lines) < 2 or not lines[1].words or lines[1].words[0] not in _FIRST or len(lines[1].words) != 2:
        return None
    group = lines[0].text.strip().removeprefix("GROUP").strip()
    values: dict[str, str] = {}
    taken = 1
    for line in lines[1:]:
        if not line.words or line.words[0] not in _LINES:
            break
        values[line.words[0]] = line.text.strip().removeprefix(line.words[0]).strip()
        taken += 1
    if "STATE" not in values:
        error = values.get("ERROR", "")
        if "GROUP_ID_NOT_FOUND" not in error:
            reason = f"the tool could not describe the group {group!r}: {error}" if error else f"no STATE of {group!r}"
            raise UsageError(f"line {lines[0].number}: {reason}")
        return Summary(group, taken, says=("says", {"GROUP": group, "SAYS": "does not exist"}))
    state = {"GROUP": group, "STATE": values["STATE"], "ASSIGNMENT-STRATEGY": values.get("BALANCER") or None}
    return Summary(group, taken, state)


def is_of_streams(names: Sequence[str]) -> bool:
    """Whether these are the columns of kafka-streams-groups' offsets."""
    return "OFFSET-LAG" in names


def refused_table(names: Sequence[str], below: Sequence[str]) -> str | None:
    """Reason why a table with these columns can't be imported; None if it may be. ``below``: its first rows."""
    if list(names) == PER_TOPIC:
        return f"the lag of a topic has no offsets (rpk group describe --print-lag-per-topic); {_READ}"
    if "START-OFFSET" in names:
        return _SHARE
    if ("OFFSET-LAG" in names and "CURRENT-OFFSET" not in names) or "MEMBER" in names:
        return _STREAMS
    if names[0] != "GROUP":
        return None
    if "#PARTITIONS" in names and "ASSIGNMENT" in names:
        # the consumer groups' table has assignments as `orders(0,1)` under that name, and no member epoch beside it
        of_share = "MEMBER-EPOCH" in names or any(_OF_4.search(row) for row in below)
        return _SHARE if of_share else None
    if "STATE" in names and "#MEMBERS" in names and "ASSIGNMENT-STRATEGY" not in names:
        return (
            "it is the output of kafka-share-groups or kafka-streams-groups with --state, which has no members and offsets;"
            f" {_READ}, or of kafka-streams-groups --describe --verbose"
        )
    return None


def refused_message(text: str) -> str | None:
    """Reason why a message of another tool can't be imported; None for other text."""
    match = _MESSAGE.match(text.strip())
    return None if match is None else _SHARE if match["kind"] == "Share" else _STREAMS
