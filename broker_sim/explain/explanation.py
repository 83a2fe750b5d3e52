"""Explanation of a group's history, in words: ``explain`` for an operator, ``recent`` for a wait or a test that failed.

Both are functions of a list of journal events. They never raise for what the events hold, or lack.
"""

from __future__ import annotations

import re
import textwrap
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from broker_sim.common.text import clock, date, duration_text, nearest, visible
from broker_sim.explain import delivery_text, epochs
from broker_sim.explain.commit_text import commit_words
from broker_sim.explain.events import Event, names_in, text
from broker_sim.explain.history import history
from broker_sim.explain.last_requests import HEARTBEATS
from broker_sim.explain.model import History
from broker_sim.explain.moments import Moment, disconnected_words, failures, moments, single_moments
from broker_sim.explain.phrases import (
    Advance,
    advance_of,
    count,
    incident_words,
    joined,
    listed,
    span_words,
    with_advances_joined,
)
from broker_sim.explain.rebalance_text import life_of, rebalance_text, series_text, unstable
from broker_sim.explain.rebalances import DEAD
from broker_sim.explain.replacements import replacement_notes
from broker_sim.explain.transaction_requests import request_runs, run_text
from broker_sim.explain.transaction_text import is_trouble, stable_offset_text
from broker_sim.explain.transaction_text import transaction_text as text_of_transaction

__all__ = ["explain", "group_paragraphs", "recent"]

MOST_PARAGRAPHS = 40
FIRST_PARAGRAPHS = 5
_EPOCH = re.compile(r"epoch (\d+): ")
"""The beginning of the entry of an epoch."""


def explain(events: Iterable[Event], group: str, generation: int | None = None, width: int = 100) -> str:
    """Explain why the group rebalanced, who held it up, for how long and how it ended; of one ``generation`` or of all.

    Lines are not longer than ``width``. Times are UTC. Names a group or generation that the journal does not have.
    """
    events = list(events)
    past = history(events, group)
    parts: list[Paragraph] = []
    if generation is not None and (past.existed or past.calls):
        by_epochs = epochs.summary(events, group, _statics(past))
        if past.existed or by_epochs is None:
            return _fill(_generation_paragraphs(past, generation), width)
        parts = _epoch_paragraphs(past, by_epochs[1], generation)
    parts = parts or group_paragraphs(events, past)
    return _fill((part.text if part.kind == "lead" else f"{clock(part.ts_ms)}  {part.text}" for part in parts), width)


def group_paragraphs(events: list[Event], past: History) -> list[Paragraph]:
    """The history of a group of any kind; paragraphs of kind ``lead`` describe its state, the others what happened."""
    group = past.group
    shared = delivery_text.summary(events, group)
    if shared is not None:
        lead = " ".join([shared[0], *_journal_by_epochs(past)])
        return [Paragraph(past.first_ms, "lead", lead), *_dated(_shared_entries(events, past, shared[1]))]
    by_epochs = epochs.summary(events, group, _statics(past))
    parts: list[Paragraph] = []
    if past.existed or (past.calls and by_epochs is None):
        parts += [Paragraph(past.first_ms, "lead", header(past)), *paragraphs(past)]
        if not past.existed:
            parts += [Paragraph(failure.ts_ms, "trouble", failure.text) for failure in failures(past)]
    if by_epochs is not None:
        lead = " ".join([by_epochs[0], *_journal_by_epochs(past), *_commits_by_epochs(past)])
        parts += [Paragraph(past.first_ms, "lead", lead), *_dated(_entries(past, by_epochs[1]))]
    return parts or [Paragraph(past.first_ms, "lead", _unknown_group(events, group)), *_refused(past)]


def _refused(past: History) -> list[Paragraph]:
    """Clients that could not be served: what may keep a group of which nothing is known from its beginning."""
    return [
        Paragraph(incident.ts_ms, "trouble", f"{incident_words(incident)}.", incident.order)
        for incident in past.incidents
        if incident.kind == "refused"
    ]


def _statics(past: History) -> dict[str, str]:
    """The names of members with a group.instance.id."""
    return {name: past.name(name) for name, info in past.members.items() if info.instance}


def _dated(entries: Iterable[epochs.TimelineEntry]) -> list[Paragraph]:
    return [Paragraph(entry.ts_ms, entry.kind, entry.text) for entry in entries]


def _shared_entries(events: list[Event], past: History, things: list[tuple[int, str]]) -> list[epochs.TimelineEntry]:
    """Entries about a share group: changes of its epoch, and deliveries of its records."""
    by_epochs = epochs.summary(events, past.group, _statics(past))
    moved = [] if by_epochs is None else by_epochs[1]
    return _entries(past, [*moved, *(epochs.TimelineEntry(ts_ms, words) for ts_ms, words in things)])


def _journal_by_epochs(past: History) -> list[str]:
    """Since when it is in its state, and the period of the journal, if the header of a classic group doesn't have them."""
    if past.existed or not past.epochs or past.epochs[-1][1] == DEAD:
        return []
    states = [state for _, state, _ in past.epochs]
    since = max((place for place, state in enumerate(states) if state != states[-1]), default=-1) + 1
    begins = ", begins in the middle" if past.begins_in_the_middle else ""
    span = f"{date(past.first_ms)} {clock(past.first_ms)} to {clock(past.last_ms)} UTC"
    return [f"It is {states[-1]} since {clock(past.epochs[since][0])}; the journal is of {span}{begins}."]


def _commits_by_epochs(past: History) -> list[str]:
    """Sentences about the group's commits, unless the header of a classic group has them."""
    return [] if past.existed else commit_words(past, past.commits)


def _entries(
    past: History, own: Iterable[epochs.TimelineEntry], since_ms: int = 0, until_ms: float = float("inf")
) -> list[epochs.TimelineEntry]:
    """Entries of an epoch-based group: its own steps, and those of any group between two moments: refused requests, states of logs,
    offsets and transactions. If it was also a classic group, only the refusals are added here."""
    if past.existed:
        since = [ts_ms for ts_ms, _, _ in past.epochs]
        states = [state for _, state, _ in past.epochs]
        entries = [
            epochs.TimelineEntry(failure.ts_ms, failure.text, failure.request, "trouble")
            for failure in failures(past)
            if (at := bisect_right(since, failure.ts_ms)) and states[at - 1] != DEAD
        ]
    else:
        entries = [
            epochs.TimelineEntry(moment.ts_ms, moment.text, moment.request, "note", moment.advance)
            for moment in single_moments(past)
        ]
        entries += [epochs.TimelineEntry(part.ts_ms, part.text, kind=part.kind) for part in _transactions(past)]
    entries = [entry for entry in entries if since_ms <= entry.ts_ms < until_ms]
    return with_advances_joined(sorted([*own, *entries], key=lambda entry: (entry.ts_ms, entry.request)))


def _transactions(past: History, *, committed: bool = True) -> Iterator[Paragraph]:
    """Paragraphs about transactions that did not end as meant, or blocked readers, and about requests of their producers that were
    refused outside of them. ``committed``: also about those that were committed, and so only slow."""
    for transaction in past.transactions:
        if is_trouble(transaction, past.last_ms) and (committed or transaction.result != "committed"):
            yield Paragraph(
                transaction.begun_ms or past.first_ms,
                "trouble",
                text_of_transaction(transaction, past.last_ms),
                transaction.order,
            )
    for run in request_runs(past.transaction_requests):
        call, whose = run[0].call, run[0].transactional_id
        words = f"{whose}: {run_text(run, past.last_ms)}"
        yield Paragraph(call.answered_ms or call.ts_ms, "trouble", words, run[0].order)
    for blocked in past.blocked:
        if blocked.hangs:
            yield Paragraph(blocked.from_ms, "trouble", stable_offset_text(blocked, past.last_ms), blocked.order)


def _fill(paragraphs: Iterable[str], width: int) -> str:
    wrapper = textwrap.TextWrapper(
        width=max(width, 20), subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(line for paragraph in paragraphs for line in wrapper.wrap(paragraph))


def _unknown_group(events: list[Event], group: str) -> str:
    known = {name for event in events if isinstance(event, dict) and (name := text(event, "group"))}
    known |= {name for event in events if isinstance(event, dict) for name in names_in(event, "groups")}
    if not events:
        return f"The journal is empty: nothing is known of group {group!r}."
    meant = nearest(group, sorted(known))
    hint = (
        f" Did you mean {meant!r}?"
        if meant
        else f" Groups in the journal: {joined(sorted(known)[:10])}."
        if known
        else ""
    )
    return f"No events of group {group!r} in the journal.{hint}"


def header(past: History) -> str:
    where = f" on {past.log}" if past.log else ""
    begins = ", begins in the middle" if past.begins_in_the_middle else ""
    words = [f"Group {past.group}{where}: {standing(past)}."]
    words.append(
        f"{count(len(past.rebalances), 'rebalance')} in the journal, {date(past.first_ms)} {clock(past.first_ms)} to "
        f"{clock(past.last_ms)} UTC{begins}."
    )
    return " ".join(words + commit_words(past, past.commits))


def standing(past: History) -> str:
    """State of the group at the journal's end: ``Stable in generation 7, 3 members: app-1 (leader), app-2 and app-3``."""
    now = past.now
    if now is None and past.epochs:
        _, state, epoch = past.epochs[-1]
        return f"{state} in epoch {epoch}"
    if now is None:
        if past.existed:
            return "Dead"
        joins = [call for call in past.calls if call.api in (*HEARTBEATS, "JoinGroup")]
        if joins and all(call.failed for call in joins):
            return f"it does not exist, as {count(len(joins), 'request')} to join it {'was' if len(joins) == 1 else 'were'} refused"
        return "never seen in a step of the coordinator"
    words = f"{now.state} in generation {now.generation}, {count(now.size, 'member')}"
    names = [past.name(member) + (" (leader)" if member == now.leader else "") for member in now.members]
    if names:
        words += ": " + (joined(names) if len(names) <= 6 else joined([*names[:5], f"{now.size - 5} more"]))
    deferred = [
        f"deferred {api} of {listed(past, some)}" for api in ("JoinGroup", "SyncGroup") if (some := now.waiting(api))
    ]
    if deferred:
        words += f"; {' and '.join(deferred)}"
    return words


def _generation_paragraphs(past: History, generation: int) -> list[str]:
    matches = [rebalance for rebalance in past.rebalances if rebalance.generation == generation]
    if not matches:
        known = sorted({rebalance.generation for rebalance in past.rebalances if rebalance.generation is not None})
        has = (
            f"it holds generation{'s'[: len(known) != 1]} {_ranges(known)}"
            if known
            else "it holds no rebalance of the group"
        )
        return [f"No rebalance to generation {generation} of group {past.group} in the journal; {has}."]
    paragraphs = []
    for rebalance in matches:
        words = [rebalance_text(past, rebalance), life_of(past, rebalance)]
        words += [
            f"It was one of {len(stretch.rebalances)} rebalances from {clock(stretch.from_ms)} on {unstable(stretch)}."
            for stretch in past.series
            if any(other is rebalance for other in stretch.rebalances)
        ]
        paragraphs.append(" ".join(word for word in words if word))
    return paragraphs


def _epoch_paragraphs(past: History, entries: list[epochs.TimelineEntry], epoch: int) -> list[Paragraph]:
    """Paragraphs about one epoch of an epoch-based group: from its entry on until the next epoch's."""
    known = {int(match[1]): place for place, entry in enumerate(entries) if (match := _EPOCH.match(entry.text))}
    if epoch not in known:
        has = (
            f"it holds epoch{'s'[: len(known) != 1]} {_ranges(sorted(known))}"
            if known
            else "it holds no epoch of the group"
        )
        return [Paragraph(past.first_ms, "lead", f"No epoch {epoch} of group {past.group} in the journal; {has}.")]
    until_ms = min(
        (entries[place].ts_ms for number, place in known.items() if number > epoch), default=past.last_ms + 1
    )
    since = entries[known[epoch]]
    own = [entry for entry in entries if since.ts_ms <= entry.ts_ms < until_ms or entry is since]
    own = [entry for entry in own if entry is since or not _EPOCH.match(entry.text)]
    return list(_dated(_entries(past, own, since.ts_ms, until_ms)))


def _ranges(numbers: list[int]) -> str:
    """Numbers as ranges: ``1-4, 7``."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][-1] == number - 1:
            parts[-1][1:] = [number]
        else:
            parts.append([number])
    return ", ".join("-".join(map(str, part)) for part in parts)


@dataclass(frozen=True, slots=True)
class Paragraph:
    """``kind``: lead, rebalance, trouble (a stretch without becoming Stable), note (what was on, moves, marks)."""

    ts_ms: int
    kind: str
    text: str
    order: int = 0
    advance: Advance | None = None


def paragraphs(past: History) -> list[Paragraph]:
    """The paragraphs in order: at one moment states of logs first, then series of rebalances, then single rebalances."""
    in_stretch = {
        id(rebalance)
        for stretch in past.series
        for rebalance in stretch.rebalances
        if stretch.stable_ms is None or not any(removal.why == "rebalance_timeout" for removal in rebalance.removals)
    }
    result = [
        Paragraph(
            incident.ts_ms, "note", f"{_capital(incident_words(incident))}.", incident.order, advance_of(incident)
        )
        for incident in past.incidents
    ]
    result += [
        Paragraph(span.from_ms, "note", f"{_capital(span_words(past, span, past.last_ms))}.", span.order)
        for span in past.spans
    ]
    result += [
        Paragraph(
            replacement.ts_ms,
            "trouble" if replacement.contested else "note",
            f"{_capital(replacement.text)}.",
            replacement.order,
        )
        for replacement in replacement_notes(past)
    ]
    result += _transactions(past)
    result += [Paragraph(past.last_ms, "trouble", f"{_capital(words)}.", 1 << 62) for words in disconnected_words(past)]
    result += [
        Paragraph(stretch.from_ms, "trouble", series_text(past, stretch), stretch.rebalances[0].order)
        for stretch in past.series
    ]
    for rebalance in past.rebalances:
        if id(rebalance) not in in_stretch:
            words = (rebalance_text(past, rebalance, dated=False), life_of(past, rebalance))
            result.append(
                Paragraph(rebalance.began_ms, "rebalance", " ".join(word for word in words if word), rebalance.order)
            )
    result = with_advances_joined(sorted(result, key=lambda paragraph: (paragraph.ts_ms, paragraph.order)))
    if len(result) > MOST_PARAGRAPHS:
        kept = MOST_PARAGRAPHS - FIRST_PARAGRAPHS
        left_out = Paragraph(result[FIRST_PARAGRAPHS].ts_ms, "note", f"... {len(result) - MOST_PARAGRAPHS} more ...")
        result = [*result[:FIRST_PARAGRAPHS], left_out, *result[-kept:]]
    return result


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:] if words.startswith(("the ", "mark", "broker ", "topic ")) else words


def recent(events: Iterable[Event], group: str, limit: int = 15) -> str:
    """The group's state and its last ``limit`` events, a line each; repeated events share a line."""
    events = list(events)
    past = history(events, group)
    shared = delivery_text.summary(events, group)
    if shared is not None:
        lines = epochs.lines(_shared_entries(events, past, shared[1]))
        return "\n".join([shared[0], *(f"  {line}" for line in lines[-max(limit, 1) :])])
    by_epochs = epochs.summary(events, group, _statics(past))
    if by_epochs is not None and not past.existed:
        lines = epochs.lines(_entries(past, by_epochs[1]))
        return "\n".join([by_epochs[0], *(f"  {line}" for line in lines[-max(limit, 1) :])])
    if not past.existed and not past.calls:
        refused = [f"  {clock(part.ts_ms)}  {part.text.removesuffix('.')}" for part in _refused(past)]
        return "\n".join([f"group {visible(group)}: no events in the journal", *refused])
    lines = [f"group {past.group}: {standing(past)}"]
    on = [span_words(past, span, past.last_ms) for span in past.spans if span.to_ms is None]
    lines += [f"  now: {words}" for words in on]
    shown = moments(past)
    of_transactions = (Moment(part.ts_ms, part.text.removesuffix(".")) for part in _transactions(past, committed=False))
    shown = sorted([*shown, *of_transactions], key=lambda moment: moment.ts_ms)
    left_out = len(shown) - max(limit, 0)
    if left_out > 0:
        lines.append(f"  ... {left_out} earlier")
        shown = shown[left_out:]
    lines[1:1] = [f"  now: {words}" for words in past.nothing_to_read if words not in [moment.text for moment in shown]]
    lines += [f"  {clock(moment.ts_ms)}  {moment.text}" for moment in shown]
    last = shown[-1].ts_ms if shown else past.first_ms
    if past.last_ms - last >= 1000:
        lines.append(f"  {clock(past.last_ms)}  (nothing more for {duration_text(past.last_ms - last)})")
    return "\n".join(lines)
