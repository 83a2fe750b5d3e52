"""One transaction, or all of a transactional id, in sentences."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from broker_sim.common.text import clock, date, duration_text, nearest
from broker_sim.explain.events import Event
from broker_sim.explain.phrases import count, joined, shortened
from broker_sim.explain.transactions import (
    WORTH_TELLING_MS,
    BlockedStableOffset,
    JournalTransactions,
    TransactionHistory,
    transactions,
)

__all__ = ["explain_transactions", "is_trouble", "stable_offset_text", "transaction_text"]

OFFSETS = "__consumer_offsets-"
SHOWN = 4


def explain_transactions(events: Iterable[Event], transactional_id: str | None = None, width: int = 100) -> str:
    """The transactions of one transactional id, or of all, and hanging transactions that no coordinator knows.

    Lines are not longer than ``width``. Times are UTC. An id that the journal doesn't hold is said so.
    """
    result = transactions(events)
    if transactional_id is not None and transactional_id not in result.states and not result.of(transactional_id):
        return _fill([_unknown_id(result, transactional_id)], width)
    chosen = result.transactions if transactional_id is None else result.of(transactional_id)
    ids = {transaction.producer_id for transaction in chosen}
    hanging = [span for span in result.hanging if transactional_id is None or span.producer_id in ids]
    paragraphs = [
        (transaction.begun_ms or result.first_ms, transaction.order, transaction_text(transaction, result.last_ms))
        for transaction in chosen
    ]
    paragraphs += [(span.from_ms, span.order, stable_offset_text(span, result.last_ms)) for span in hanging]
    lines = [f"{clock(ts_ms)}  {words}" for ts_ms, _, words in sorted(paragraphs)]
    return _fill([_header(result, chosen, hanging, transactional_id), *lines], width)


def _fill(paragraphs: Iterable[str], width: int) -> str:
    wrapper = textwrap.TextWrapper(
        width=max(width, 20), subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(line for paragraph in paragraphs for line in wrapper.wrap(paragraph))


def _unknown_id(result: JournalTransactions, transactional_id: str) -> str:
    known = sorted(result.states)
    meant = nearest(transactional_id, known)
    hint = (
        f" Did you mean {meant!r}?"
        if meant
        else f" Transactional ids in the journal: {joined(known[:10])}."
        if known
        else ""
    )
    return f"No events of the transactional id {transactional_id!r} in the journal.{hint}"


def _header(
    result: JournalTransactions,
    chosen: list[TransactionHistory],
    hanging: list[BlockedStableOffset],
    transactional_id: str | None,
) -> str:
    span = f"{date(result.first_ms)} {clock(result.first_ms)} to {clock(result.last_ms)} UTC"
    ends = {"commit": "committed", "abort": "aborted", "fenced": "fenced", "timed out": "timed out", "": "open"}
    how = [
        f"{number} {words}"
        for end, words in ends.items()
        if (number := sum(transaction.result == end for transaction in chosen)) > 0
    ]
    many = f"{count(len(chosen), 'transaction')} in the journal, {span}"
    many += f": {joined(how)}." if how else "."
    if hanging:
        many += f" {count(len(hanging), 'transaction')} unknown to the coordinators blocked read_committed consumers."
    if transactional_id is None:
        return many
    state = result.states.get(transactional_id, "")
    where = f" on {chosen[-1].log}" if chosen and chosen[-1].log else ""
    producer = result.producers.get(transactional_id)
    epoch = f", epoch {producer[1]} of producer {producer[0]}" if chosen and producer is not None else ""
    return f"Transactional id {transactional_id}{where}: {state}{epoch}. {many}"


def transaction_text(transaction: TransactionHistory, until_ms: int) -> str:
    """A transaction in sentences: beginning, decision, markers, readers that waited."""
    sentences = [_beginning(transaction, until_ms), *_decision(transaction), *_markers(transaction, until_ms)]
    sentences += [stable_offset_text(blocked, until_ms) for blocked in transaction.blocked if _worth(blocked, until_ms)]
    sentences += _fenced(transaction)
    return " ".join(sentence for sentence in sentences if sentence)


def _beginning(transaction: TransactionHistory, until_ms: int) -> str:
    lasted = transaction.lasted_ms(until_ms)
    took = f" of {duration_text(lasted)}" if lasted is not None else ""
    logs = [name for name in transaction.partitions if not name.startswith(OFFSETS)]
    where = f" in {shortened(logs)}" if logs else ""
    groups = [
        f"{shortened([f'{log} {at}' for log, at in offsets.items()])} for {group}"
        for group, offsets in transaction.pending_offsets.items()
    ]
    commits = f", with the offsets {joined(groups)}" if groups else ""
    if transaction.begun_ms is None:
        return f"{transaction.transactional_id}'s transaction{where}{commits} had begun before the journal."
    by = f" by {transaction.began_by.words}" if transaction.began_by is not None else ""
    return (
        f"{transaction.transactional_id}'s transaction{took}{where}{commits}: begun{by} in epoch {transaction.epoch}."
    )


def _decision(transaction: TransactionHistory) -> list[str]:
    sentences = [
        f"The log refused {state} {_after(transaction, at)} ({error})."
        for at, state, error in transaction.refused[:SHOWN]
    ]
    if not transaction.result or transaction.decided_ms is None:
        return [*sentences, "It is open."]
    by = "" if transaction.ended_by is None else f" by the {transaction.ended_by.api} of {transaction.ended_by.words}"
    timeout = duration_text(transaction.timeout_ms or 0)
    words = {
        "commit": f"Committed{by}",
        "abort": f"Aborted{by}",
        "fenced": f"Aborted{by}, as another producer initialized the same id,",
        "timed out": f"Aborted by its coordinator, as it was open for longer than its timeout of {timeout},",
    }[transaction.result]
    return [*sentences, f"{words} {_after(transaction, transaction.decided_ms)}."]


def _after(transaction: TransactionHistory, ts_ms: int) -> str:
    return (
        f"at {clock(ts_ms)}" if transaction.begun_ms is None else f"after {duration_text(ts_ms - transaction.begun_ms)}"
    )


def _markers(transaction: TransactionHistory, until_ms: int) -> list[str]:
    if transaction.decided_ms is None:
        return []
    sentences = [
        f"Another coordinator loaded its decision and continued with it {_after(transaction, at)}."
        for at in transaction.found_ms
        if at > transaction.decided_ms
    ]
    for marker in transaction.markers.values():
        waited = (marker.written_ms or until_ms) - marker.sent_ms
        if waited < WORTH_TELLING_MS:
            continue
        tried = f", tried {marker.tries} times" if marker.tries > 1 else ""
        why = f" ({marker.error}{tried})" if marker.error else ""
        if marker.written_ms is None:
            sentences.append(f"Its marker for {marker.partition} is not written after {duration_text(waited)}{why}.")
        else:
            sentences.append(f"Its marker for {marker.partition} was written after {duration_text(waited)}{why}.")
    if transaction.completed_ms is None:
        return [*sentences, f"Its markers have been pending for {duration_text(until_ms - transaction.decided_ms)}."]
    if transaction.completed_ms - transaction.decided_ms >= WORTH_TELLING_MS:
        sentences.append(
            f"It was complete {duration_text(transaction.completed_ms - transaction.decided_ms)} after its end was decided."
        )
    return sentences


def is_trouble(transaction: TransactionHistory, until_ms: int) -> bool:
    """Whether it gets a paragraph: it did not end as its producer meant, or not at once."""
    markers_ms = (
        0 if transaction.decided_ms is None else (transaction.completed_ms or until_ms) - transaction.decided_ms
    )
    return (
        transaction.result in ("fenced", "timed out")
        or bool(transaction.refused)
        or markers_ms >= WORTH_TELLING_MS
        or any(_worth(blocked, until_ms) and blocked.readers for blocked in transaction.blocked)
    )


def _worth(blocked: BlockedStableOffset, until_ms: int) -> bool:
    return (blocked.to_ms or until_ms) - blocked.from_ms >= WORTH_TELLING_MS


def stable_offset_text(blocked: BlockedStableOffset, until_ms: int) -> str:
    """Which readers waited at a last stable offset, and for how long; of a hanging transaction also its cause and its end."""
    lasted = (blocked.to_ms or until_ms) - blocked.from_ms
    still = "" if blocked.to_ms is not None else ", and still does"
    readers = {name: (blocked.to_ms or until_ms) - since for name, since in blocked.readers.items()}
    waiting = [f"{name} for {duration_text(ms)}" for name, ms in readers.items() if ms >= WORTH_TELLING_MS]
    whom = f": {shortened(waiting)} waited there" if waiting else ""
    words = (
        f"It held the last stable offset of {blocked.log} at {blocked.offset} for {duration_text(lasted)}{still}{whom}."
    )
    if not blocked.hangs:
        return words
    words = (
        f"Producer {blocked.producer_id} wrote to {blocked.log} at offset {blocked.offset} in a transaction that no coordinator "
        f"knows: it hangs, and read_committed consumers get no later records. {words}"
    )
    if blocked.lost_abort and isinstance(blocked.ended_by, TransactionHistory):
        return (
            f"{words} It was committed with the next transaction of {blocked.ended_by.transactional_id}: a record that "
            f"arrived after the end of its own transaction became part of the next one (KIP-890)."
        )
    if isinstance(blocked.ended_by, TransactionHistory):
        return f"{words} The marker of the next transaction of {blocked.ended_by.transactional_id} ended it."
    return f"{words} A marker of {blocked.ended_by} ended it." if blocked.ended_by else words


def _fenced(transaction: TransactionHistory) -> list[str]:
    if not transaction.fenced:
        return []
    at, who, error = transaction.fenced[0]
    return [f"The {who.api} of {who.words} was answered {error} {_after(transaction, at)}: it had been fenced."]
