"""One transaction, or all of a transactional id, told in sentences."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from broker_sim.common.text import clock, date, duration_text, nearest
from broker_sim.explain.events import Event
from broker_sim.explain.phrases import count, joined, shortened
from broker_sim.explain.transactions import WORTH_TELLING_MS, Found, Held, Transaction, transactions

__all__ = ["explain_transactions", "is_trouble", "tell", "tell_held"]

OFFSETS = "__consumer_offsets-"
SHOWN = 4


def explain_transactions(events: Iterable[Event], transactional_id: str | None = None, width: int = 100) -> str:
    """What became of the transactions of one transactional id, or of all; and what hangs of a transaction that no coordinator knows.

    Lines are not longer than ``width``. Times are UTC. An id that the journal doesn't hold is said so.
    """
    found = transactions(events)
    if transactional_id is not None and transactional_id not in found.states and not found.of(transactional_id):
        return _fill([_not_there(found, transactional_id)], width)
    chosen = found.transactions if transactional_id is None else found.of(transactional_id)
    ids = {one.producer_id for one in chosen}
    hanging = [one for one in found.hanging if transactional_id is None or one.producer_id in ids]
    told = [(one.begun_ms or found.first_ms, one.order, tell(one, found.last_ms)) for one in chosen]
    told += [(one.from_ms, one.order, tell_held(one, found.last_ms)) for one in hanging]
    lines = [f"{clock(ts_ms)}  {words}" for ts_ms, _, words in sorted(told)]
    return _fill([_header(found, chosen, hanging, transactional_id), *lines], width)


def _fill(paragraphs: Iterable[str], width: int) -> str:
    wrapper = textwrap.TextWrapper(
        width=max(width, 20), subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(line for paragraph in paragraphs for line in wrapper.wrap(paragraph))


def _not_there(found: Found, transactional_id: str) -> str:
    known = sorted(found.states)
    meant = nearest(transactional_id, known)
    hint = f" Did you mean {meant!r}?" if meant else f" It knows {joined(known[:10])}." if known else ""
    return f"The journal holds nothing of the transactional id {transactional_id!r}.{hint}"


def _header(found: Found, chosen: list[Transaction], hanging: list[Held], transactional_id: str | None) -> str:
    span = f"{date(found.first_ms)} {clock(found.first_ms)} to {clock(found.last_ms)} UTC"
    ends = {"commit": "committed", "abort": "aborted", "fenced": "fenced", "timed out": "timed out", "": "open"}
    how = [f"{number} {words}" for end, words in ends.items() if (number := sum(one.ends == end for one in chosen)) > 0]
    many = f"{count(len(chosen), 'transaction')} in the journal, {span}"
    many += f": {joined(how)}." if how else "."
    if hanging:
        many += f" {count(len(hanging), 'transaction')} of which no coordinator knew held up readers."
    if transactional_id is None:
        return many
    state = found.states.get(transactional_id, "")
    where = f" on {chosen[-1].log}" if chosen and chosen[-1].log else ""
    epoch = f", epoch {chosen[-1].epoch} of producer {chosen[-1].producer_id}" if chosen else ""
    return f"Transactional id {transactional_id}{where}: {state}{epoch}. {many}"


def tell(one: Transaction, until_ms: int) -> str:
    """A transaction in words."""
    sentences = [_beginning(one, until_ms), *_decision(one), *_markers(one, until_ms)]
    sentences += [tell_held(held, until_ms) for held in one.held if _worth(held, until_ms)]
    sentences += _fenced(one)
    return " ".join(sentence for sentence in sentences if sentence)


def _beginning(one: Transaction, until_ms: int) -> str:
    lasted = one.lasted_ms(until_ms)
    took = f" of {duration_text(lasted)}" if lasted is not None else ""
    logs = [name for name in one.partitions if not name.startswith(OFFSETS)]
    where = f" in {shortened(logs)}" if logs else ""
    groups = [
        f"{shortened([f'{log} {at}' for log, at in offsets.items()])} for {group}"
        for group, offsets in one.staged.items()
    ]
    commits = f", with the offsets {joined(groups)}" if groups else ""
    if one.begun_ms is None:
        return f"{one.transactional_id}'s transaction{where}{commits} had begun before the journal."
    by = f" by {one.began_by.words}" if one.began_by is not None else ""
    return f"{one.transactional_id}'s transaction{took}{where}{commits}: begun{by} in epoch {one.epoch}."


def _decision(one: Transaction) -> list[str]:
    told = [f"The log did not take {state} {_after(one, at)} ({error})." for at, state, error in one.refused[:SHOWN]]
    if not one.ends or one.decided_ms is None:
        return [*told, "It is open."]
    by = "" if one.ended_by is None else f" by the {one.ended_by.api} of {one.ended_by.words}"
    words = {
        "commit": f"Committed{by}",
        "abort": f"Aborted{by}",
        "fenced": f"Aborted{by}, as a producer came with the same id,",
        "timed out": f"Aborted by its coordinator, as it was open for longer than its timeout of {duration_text(one.timeout_ms or 0)},",
    }[one.ends]
    return [*told, f"{words} {_after(one, one.decided_ms)}."]


def _after(one: Transaction, ts_ms: int) -> str:
    return f"at {clock(ts_ms)}" if one.begun_ms is None else f"after {duration_text(ts_ms - one.begun_ms)}"


def _markers(one: Transaction, until_ms: int) -> list[str]:
    if one.decided_ms is None:
        return []
    told = [
        f"Another coordinator found it decided and went on with it {_after(one, at)}."
        for at in one.found_ms
        if at > one.decided_ms
    ]
    for marker in one.markers.values():
        waited = (marker.written_ms or until_ms) - marker.sent_ms
        if waited < WORTH_TELLING_MS:
            continue
        tried = f", tried {marker.tries} times" if marker.tries > 1 else ""
        why = f" ({marker.error}{tried})" if marker.error else ""
        if marker.written_ms is None:
            told.append(f"Its marker for {marker.partition} is not written after {duration_text(waited)}{why}.")
        else:
            told.append(f"Its marker for {marker.partition} was written after {duration_text(waited)}{why}.")
    if one.completed_ms is None:
        return [*told, f"Its markers are on their way since {duration_text(until_ms - one.decided_ms)}."]
    if one.completed_ms - one.decided_ms >= WORTH_TELLING_MS:
        told.append(f"It was complete {duration_text(one.completed_ms - one.decided_ms)} after its end was decided.")
    return told


def is_trouble(one: Transaction, until_ms: int) -> bool:
    """Whether it is worth a paragraph where others are told of: it did not end as its producer meant, or not at once."""
    markers_ms = 0 if one.decided_ms is None else (one.completed_ms or until_ms) - one.decided_ms
    return (
        one.ends in ("fenced", "timed out")
        or bool(one.refused)
        or markers_ms >= WORTH_TELLING_MS
        or any(_worth(held, until_ms) and held.readers for held in one.held)
    )


def _worth(held: Held, until_ms: int) -> bool:
    return (held.to_ms or until_ms) - held.from_ms >= WORTH_TELLING_MS


def tell_held(held: Held, until_ms: int) -> str:
    """Who waited at a last stable offset, for how long; and of one that hangs why it hangs, and what ended it."""
    lasted = (held.to_ms or until_ms) - held.from_ms
    still = "" if held.to_ms is not None else ", and still does"
    readers = {name: (held.to_ms or until_ms) - since for name, since in held.readers.items()}
    waiting = [f"{name} for {duration_text(ms)}" for name, ms in readers.items() if ms >= WORTH_TELLING_MS]
    whom = f": {shortened(waiting)} waited there" if waiting else ""
    words = f"It held {held.log} at offset {held.offset} for {duration_text(lasted)}{still}{whom}."
    if not held.hangs:
        return words
    words = (
        f"Producer {held.producer_id} wrote to {held.log} at offset {held.offset} in a transaction of which no coordinator "
        f"knew: it hangs, and read_committed readers get nothing behind it. {words}"
    )
    if held.lost_abort and isinstance(held.ended_by, Transaction):
        return (
            f"{words} It was committed with the next transaction of {held.ended_by.transactional_id}: what had come too late "
            f"for its own, which was over, counts (KIP-890)."
        )
    if isinstance(held.ended_by, Transaction):
        return f"{words} The marker of the next transaction of {held.ended_by.transactional_id} ended it."
    return f"{words} A marker of {held.ended_by} ended it." if held.ended_by else words


def _fenced(one: Transaction) -> list[str]:
    if not one.fenced:
        return []
    at, who, error = one.fenced[0]
    return [f"The {who.api} of {who.words} was answered {error} {_after(one, at)}: it had been fenced."]
