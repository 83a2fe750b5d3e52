"""The phrases that explanations are made of: moments, lists of members, causes. English, for an operator."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from broker_sim.common.text import clock, duration_text
from broker_sim.explain.events import Call
from broker_sim.explain.model import History, Incident, Rebalance, Span
from broker_sim.explain.rebalances import Cause

__all__ = [
    *(
        "Advance",
        "advance_of",
        "after",
        "an",
        "because",
        "caller",
        "count",
        "fault_words",
        "incident_words",
        "is_other",
        "late_to_rejoin",
        "listed",
        "member",
        "quoted",
        "span_words",
        "shortened",
        "times",
        "with_advances_joined",
    ),
]

LISTED = 4
LONGEST_QUOTE = 160


def after(ms: int | None) -> str:
    """``after 4.2 s``, or ``at once`` where it took less than a client would notice."""
    return "at once" if ms is None or ms < 3 else f"after {duration_text(ms)}"


def count(number: int, what: str, plural: str | None = None) -> str:
    return f"{number} {what if number == 1 else plural or what + 's'}"


def times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number} times")


def late_to_rejoin(*, retries: bool = False, whose: str = "its", protocol_type: str = "") -> str:
    """Reasons that may keep a client that heartbeats from rejoining, as a clause. ``retries``: whether its commits were refused."""
    if is_other(protocol_type):
        return f"{whose} process may have been busy with what it had to stop first (a broker does not see with what)"
    may = [
        *([f"{whose} client may have retried those commits before it would rejoin"] if retries else []),
        f"{'its' if retries else whose} application may not have polled",
        "a rebalance callback of it may have taken long",
    ]
    return f"{', '.join(may[:-1])}, or {may[-1]} (a broker does not see which)"


def fault_words(call: Call) -> str:
    """Effect of a fault's rule on a call, else "": equal responses of rules and of brokers differ in nothing else."""
    return f" [fault: {call.faults[-1]}]" if call.faults else ""


def caller(client_id: str, host: str = "") -> str:
    """A client that is no member, by its client id."""
    return quoted(client_id) if client_id else f"a client at {host}" if host else "a client"


def quoted(words: str) -> str:
    """A client's text in quotes, on one line, shortened to LONGEST_QUOTE characters."""
    line = " ".join(words.replace("\\n", " ").split())
    return f'"{line if len(line) <= LONGEST_QUOTE else line[: LONGEST_QUOTE - 1] + "…"}"'


def joined(words: Sequence[str]) -> str:
    """Names as a list in a sentence: ``a, b and c``."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else "no member"


def shortened(names: Iterable[str], most: int = LISTED) -> str:
    """``app-1, app-2 and 7 more``: each name once; one more than ``most`` is named, too, as it takes no more words."""
    unique = list(dict.fromkeys(names))
    if len(unique) > most + 1:
        unique = [*unique[:most], f"{len(unique) - most} more"]
    return joined(unique)


def listed(past: History, members: Iterable[str], most: int = LISTED) -> str:
    """Members by their names, `shortened`."""
    return shortened((past.name(member_id) for member_id in members), most)


def member(past: History, name: str) -> str:
    """``app-2 (consumer-1 at /127.0.0.1)``: a member with its client id and host."""
    info = past.members.get(name)
    short = past.name(name)
    if info is None:
        return short
    client = info.client_id if not short.startswith(info.client_id) else ""
    if client and info.client_host:
        return f"{short} ({client} at {info.client_host})"
    return f"{short} ({client})" if client else f"{short} at {info.client_host}" if info.client_host else short


def because(past: History, cause: Cause, *, generation: int | None = None, brief: bool = False) -> str:
    """The clause after "because"; "" if the journal does not have the cause. ``brief``: names without hosts, and no details."""
    if len(cause.members) <= 3:
        whom = joined([past.name(member_id) if brief else member(past, member_id) for member_id in cause.members])
    else:
        whom = listed(past, cause.members)
    reason = f" (reason: {quoted(cause.reason)})" if cause.reason else ""
    kind = cause.kind
    if kind == "first_member":
        return f"{whom} joined the empty group{reason}"
    if kind == "joined":
        return f"{whom} joined{reason}"
    if kind == "left" and cause.by:
        return f"{whom} {'was' if len(cause.members) == 1 else 'were'} removed by {cause.by}{reason}"
    if kind == "left":
        return f"{whom} left{reason}" if cause.members else f"a member left{reason}"
    if kind == "session_expired":
        return _expired(past, cause, whom, brief)
    if kind == "metadata_changed":
        return f"{whom} joined again {_changes(cause)}{_refused(cause)}{reason}"
    if kind == "leader_rejoined":
        grown = f", as topics had more partitions: {joined(cause.grown_topics)}" if cause.grown_topics else ""
        changed = f" {cause.metadata}" if cause.metadata else ""
        return f"the leader {whom} joined again{changed}{grown}{_refused(cause)}{reason}"
    if kind == "replaced":
        return f"the static member {whom} rejoined with a new member id{reason}"
    if kind == "sync_timeout":
        was = "was" if len(cause.members) == 1 else "were"
        return f"{whom} sent no SyncGroup within the rebalance timeout and {was} removed"
    if kind == "append_failed":
        which = f" of generation {generation}" if generation is not None else ""
        return f"the assignment{which} could not be stored" + (f" ({cause.error})" if cause.error else "")
    if kind == "converted":
        removed = f", as {whom} {'was' if len(cause.members) == 1 else 'were'} removed" if cause.members else ""
        return f"the group was downgraded to the classic protocol{removed}"
    if kind == "over_capacity":
        return "the group, just loaded, has more members than group.max.size allows"
    return ""


def _refused(cause: Cause) -> str:
    return "" if cause.after is None else f", after its {cause.after.api} got {cause.after.outcome}"


def _expired(past: History, cause: Cause, whom: str, brief: bool) -> str:
    info = past.members.get(cause.members[0]) if cause.members else None
    session = (
        "" if info is None or info.session_timeout_ms is None else f" after {duration_text(info.session_timeout_ms)}"
    )
    words = f"the session{'s' if len(cause.members) > 1 else ''} of {whom} expired{session}"
    details = []
    if brief:
        return words
    if cause.last_call is not None:
        details.append(f"its last request was {an(cause.last_call.api)} at {clock(cause.last_call.ts_ms)}")
    if cause.closed_ms is not None:
        details.append(f"its connection was closed at {clock(cause.closed_ms)} without a LeaveGroup")
    elif info is not None and info.instance and not is_other(cause.protocol_type):
        details.append(
            "a static member that does not poll in time stops sending heartbeats as well, without a LeaveGroup"
        )
    return words + (f" ({'; '.join(details)})" if details else "")


def an(api: str) -> str:
    """An API with its article: ``an OffsetCommit``."""
    return f"an {api}" if api[:1] in "AEIOU" else f"a {api}"


def _changes(cause: Cause) -> str:
    changes = []
    if cause.added_topics:
        changes.append(f"with {listed_topics(cause.added_topics)} added to its subscription")
    if cause.lost_topics:
        changes.append(f"without {listed_topics(cause.lost_topics)} in its subscription")
    if changes:
        return joined(changes)
    if cause.metadata:
        return cause.metadata
    return "with other metadata" + ("" if is_other(cause.protocol_type) else " for the same topics")


def is_other(protocol_type: str | None) -> bool:
    """Whether the members of a group are known to be no consumers: Connect's workers, schema registries, other protocols."""
    return protocol_type not in ("", None, "consumer")


def listed_topics(topics: Sequence[str]) -> str:
    return shortened(topics)


def span_title(span: Span) -> str:
    """A span's subject and state: ``__consumer_offsets-12 stuck``."""
    if span.kind in ("state", "loading"):
        return f"{span.key} {span.label}"
    return f"fault {span.label}" if span.kind == "fault" else span.label


def span_words(past: History, span: Span, last_ms: int) -> str:
    """``__consumer_offsets-12 was stuck from 10:03:11.250 to 10:03:51.250``."""
    to_ms = span.to_ms
    if to_ms is None:
        when = f"since {clock(span.from_ms)}"
        is_was = "is"
    else:
        when = f"from {clock(span.from_ms)} to {clock(to_ms)} ({duration_text(to_ms - span.from_ms)})"
        is_was = "was"
    if span.kind in ("state", "loading"):
        return f"{span.key} {is_was} {span.label} {when}"
    if span.kind == "blocked":
        return f"{span.key}: {span.label} {when}"
    if span.kind == "fault":
        hits = f", {count(span.hits, 'hit')}" if span.hits else ""
        if span.used_up is not None:
            others = "" if span.hits == span.used_up else f" of {span.used_up}"
            hits = f", {count(span.hits, 'hit')}{others}: its times were used up then"
        return f"the fault {quoted(span.label)} {'has been' if to_ms is None else 'was'} active {when}{hits}"
    return f"{span.label} {when}"


@dataclass(frozen=True, slots=True)
class Advance:
    """The clock was advanced in ``times`` steps, by ``ms`` in all. ``expire``: members whose sessions were not kept alive."""

    ms: int
    expire: str = ""
    times: int = 1

    @property
    def words(self) -> str:
        by = f"by {duration_text(self.ms)}"
        by = by if self.times == 1 else f"{by} in {self.times} steps"
        return f"the clock was advanced {by}" + (f", with {self.expire} to expire" if self.expire else "")


def advance_of(incident: Incident) -> Advance | None:
    """The advance of the clock that an incident is, if it is one."""
    if incident.kind != "clock":
        return None
    ms, _, rest = incident.text.removeprefix("advance ").partition(" expire ")
    return Advance(int(ms), rest)


class _Dated(Protocol):
    """An entry of a history: a dataclass."""

    @property
    def text(self) -> str: ...

    @property
    def advance(self) -> Advance | None: ...


E = TypeVar("E", bound=_Dated)


def with_advances_joined(entries: Iterable[E]) -> list[E]:
    """Entries in order; advances of the clock with nothing in between share the first one's entry."""
    result: list[E] = []
    for entry in entries:
        last = result[-1].advance if result else None
        if entry.advance is None or last is None or last.expire != entry.advance.expire:
            result.append(entry)
            continue
        both = Advance(last.ms + entry.advance.ms, last.expire, last.times + entry.advance.times)
        text = result[-1].text.replace(last.words[1:], both.words[1:])
        result[-1] = replace(result[-1], text=text, advance=both)  # type: ignore[type-var]
    return result


def incident_words(incident: Incident) -> str:
    """An incident as a sentence without its full stop."""
    if (advance := advance_of(incident)) is not None:
        return advance.words
    if incident.kind == "client":
        return f"{incident.client} {incident.text}"
    if incident.kind == "mark":
        return f"mark: {quoted(incident.text)}"
    return incident.text


def call_words(past: History, call: Call) -> str:
    """``OffsetCommit of app-1 was answered REQUEST_TIMED_OUT after 5 s``."""
    whose = f" of {past.name(call.member)}" if call.member else f" of {call.client_id}" if call.client_id else ""
    if call.action is not None:
        return f"{call.api}{whose} was {call.action} {after(call.took_ms)}"
    if call.answered_ms is None:
        return f"{call.api}{whose} is not answered yet"
    return f"{call.api}{whose} was answered {call.outcome} {after(call.took_ms)}"


def outcome_of(rebalance: Rebalance) -> str:
    """One word or two for a rebalance's end."""
    return {
        "stable": "Stable",
        "failed": "began again",
        "empty": "Empty",
        "dead": "Dead",
        "moved": "coordinator unloaded",
    }.get(rebalance.end, "in progress")
