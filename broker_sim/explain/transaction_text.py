"""One transaction, or all of a transactional id, in sentences; and the requests that were refused, with the reason."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

from broker_sim.common.text import clock, date, duration_text, nearest
from broker_sim.explain.events import Event
from broker_sim.explain.phrases import count, joined, shortened
from broker_sim.explain.transaction_model import EpochChange, TransactionalId
from broker_sim.explain.transaction_reasons import BY_HAND, HAND, takeovers
from broker_sim.explain.transaction_requests import (
    request_runs,
    request_text,
    run_text,
    since_begun,
    what_delayed_it,
)
from broker_sim.explain.transaction_surroundings import surroundings
from broker_sim.explain.transactions import (
    WORTH_TELLING_MS,
    BlockedStableOffset,
    JournalTransactions,
    TransactionHistory,
    TransactionRequest,
    transactions,
)

__all__ = ["explain_transactions", "is_trouble", "stable_offset_text", "text_of_transactions", "transaction_text"]

OFFSETS = "__consumer_offsets-"
SHOWN = 4


def explain_transactions(
    events: Iterable[Event], transactional_id: str | None = None, width: int = 100, until_ms: int = 0
) -> str:
    """The transactions of one transactional id, or of all, requests that were refused outside of a transaction, what was set or
    happened to the brokers meanwhile, and hanging transactions that no coordinator knows.

    Lines are not longer than ``width``. Times are UTC. ``until_ms``: as of `transactions`. An id that the journal doesn't hold is said
    so.
    """
    return text_of_transactions(transactions(events, until_ms), transactional_id, width)


def text_of_transactions(result: JournalTransactions, transactional_id: str | None = None, width: int = 100) -> str:
    """As `explain_transactions`, of a journal that has been read."""
    known = {**result.ids, **dict.fromkeys(result.states)}
    if transactional_id is not None and transactional_id not in known:
        return _fill([_unknown_id(sorted(known), transactional_id), *result.around.refused.lines()], width)
    chosen = result.transactions if transactional_id is None else result.of(transactional_id)
    lives = [life for name, life in result.ids.items() if transactional_id in (None, name)]
    ids = {transaction.producer_id for transaction in chosen}
    hanging = [span for span in result.hanging if transactional_id is None or span.producer_id in ids]
    paragraphs = [
        (transaction.begun_ms or result.first_ms, transaction.order, transaction_text(transaction, result.last_ms))
        for transaction in chosen
    ]
    paragraphs += [(span.from_ms, span.order, stable_offset_text(span, result.last_ms)) for span in hanging]
    paragraphs += _outside(lives, result.last_ms, named=transactional_id is None)
    paragraphs += surroundings(result.around, lives, chosen, result.last_ms)
    lines = [f"{clock(ts_ms)}  {words}" for ts_ms, _, words in sorted(paragraphs)]
    return _fill([_header(result, chosen, hanging, transactional_id), *lines], width)


def _outside(lives: Iterable[TransactionalId], until_ms: int, *, named: bool) -> Iterator[tuple[int, int, str]]:
    """Requests outside of transactions, and the ends of ids. ``named``: whether paragraphs begin with the id."""
    for life in lives:
        whose = f"{life.transactional_id}: " if named else ""
        for run in request_runs(life.requests):
            call = run[0].call
            yield call.answered_ms or call.ts_ms, run[0].order, f"{whose}{run_text(run, until_ms)}"
        for change, before in takeovers(life):
            yield change.ts_ms, change.order, f"{whose}{_taken_over(change, before)}"
        for ts_ms, order, words in life.ends:
            yield ts_ms, order, f"{whose}{words[:1].upper()}{words[1:]}."


def _taken_over(change: EpochChange, before: EpochChange) -> str:
    """A producer was fenced while none of its transactions was open."""
    got = f"epoch {change.epoch} of producer {change.producer_id}"
    whose = "the producer" if before.by is None or before.by.is_inside else f"the producer of {before.by.words}"
    if change.by is None or change.by.is_inside:
        return f"{BY_HAND[:1].upper()}{BY_HAND[1:]} fenced {whose}, with {got}."
    return f"{change.by.words} initialized the id and got {got}, which fenced {whose}."


def _fill(paragraphs: Iterable[str], width: int) -> str:
    wrapper = textwrap.TextWrapper(
        width=max(width, 20), subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(line for paragraph in paragraphs for line in wrapper.wrap(paragraph))


def _unknown_id(known: list[str], transactional_id: str) -> str:
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
    """A transaction in sentences: beginning, refused requests, decision, markers, readers that waited."""
    delayed, cause = what_delayed_it(transaction, until_ms)
    decided_ms = until_ms if transaction.decided_ms is None else transaction.decided_ms
    before: list[TransactionRequest] = []
    after: list[TransactionRequest] = []
    for request in transaction.requests:
        call = request.call
        if request is cause and (request.rules or not call.errors) and not request.is_fenced:
            continue  # the decision names it
        at = call.ts_ms if call.answered_ms is None else call.answered_ms
        (before if at <= decided_ms and not request.is_fenced else after).append(request)
    sentences = [_beginning(transaction, until_ms), *_requests(transaction, before, until_ms)]
    sentences += [*_decision(transaction, before, delayed), *_foreign(transaction), *_markers(transaction, until_ms)]
    sentences += _meanwhile(transaction, until_ms)
    sentences += [stable_offset_text(blocked, until_ms) for blocked in transaction.blocked if _worth(blocked, until_ms)]
    sentences += _requests(transaction, after, until_ms)
    return " ".join(sentence for sentence in sentences if sentence)


def _requests(transaction: TransactionHistory, some: list[TransactionRequest], until_ms: int) -> list[str]:
    return [request_text(run, until_ms, transaction) for run in request_runs(some)][:SHOWN]


def _foreign(transaction: TransactionHistory) -> list[str]:
    """Markers that a client wrote while the coordinator had the transaction open."""
    by: dict[tuple[str, int], list[str]] = {}
    for ts_ms, who, what in transaction.foreign_markers:
        by.setdefault((who.words, ts_ms), []).append(what)
    return [
        f"{_subject(who)} wrote {shortened(what)} {since_begun(transaction, ts_ms)} (WriteTxnMarkers, as kafka-transactions abort"
        f" does): that ended its records there, whatever its coordinator decides."
        for (who, ts_ms), what in by.items()
    ]


def _subject(who: str) -> str:
    return f"{who[:1].upper()}{who[1:]}" if who == HAND else who


def _meanwhile(transaction: TransactionHistory, until_ms: int) -> list[str]:
    """The states of its logs that lasted while it did."""
    began_ms, over_ms = transaction.begun_ms or 0, transaction.completed_ms or until_ms
    lasted = [
        (span, min(over_ms, over_ms if span.to_ms is None else span.to_ms) - max(began_ms, span.from_ms))
        for span in transaction.spans
    ]
    words = [f"{span.key} was {span.label} for {duration_text(ms)}" for span, ms in lasted if ms >= WORTH_TELLING_MS]
    return [f"Meanwhile {joined(words[:SHOWN])}."] if words else []


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


def _decision(transaction: TransactionHistory, before: list[TransactionRequest], delayed: str) -> list[str]:
    sentences = [
        f"The log refused {state} {since_begun(transaction, at)} ({error})."
        for at, state, error in transaction.refused[:SHOWN]
    ]
    if not transaction.result or transaction.decided_ms is None:
        return [*sentences, f"It is open: {delayed}." if delayed else "It is open."]
    by = "" if transaction.ended_by is None else f" by the {transaction.ended_by.api} of {transaction.ended_by.words}"
    timeout = duration_text(transaction.timeout_ms or 0)
    refused = [
        request for request in before if request.is_serious and request.call.failed and request.call.api != "EndTxn"
    ]
    why = ""
    if refused:
        last = refused[-1]
        why = f", after its {last.name} had been answered {last.call.outcome}," if last.call.errors else ""
        why = why or f", after its {last.name} had got no response,"
    words = {
        "commit": f"Committed{by}",
        "abort": f"Aborted{by}{why}",
        "fenced": _fenced_by(transaction),
        "timed out": f"Aborted by its coordinator, as it was open for longer than its timeout of {timeout},",
    }.get(transaction.result, f"Ended{by}")
    more = f": {delayed}" if delayed and transaction.result == "timed out" else ""
    return [*sentences, f"{words} {since_begun(transaction, transaction.decided_ms)}{more}."]


def _fenced_by(transaction: TransactionHistory) -> str:
    """Clause about the InitProducerId that aborted a transaction: by an operator, the producer's next process, or another one."""
    by = transaction.ended_by
    if by is None:
        return "Aborted, as a producer initialized the same id,"
    if by.is_inside:
        return f"Aborted from {HAND}, which fenced its producer,"
    words = f"Aborted by the InitProducerId of {by.words}"
    if transaction.began_by is not None and by.is_client_of(transaction.began_by):
        return f"{words}, as a producer with the same client id initialized the same id (its next process, or a second one),"
    if not transaction.reused:
        return (
            f"{words}, which initialized the same id and began no transaction with it (as Admin.fenceProducers does),"
        )
    return f"{words}, which initialized the same id as its next producer,"


def _markers(transaction: TransactionHistory, until_ms: int) -> list[str]:
    if transaction.decided_ms is None:
        return []
    sentences = [
        f"Another coordinator loaded its decision and continued with it {since_begun(transaction, at)}."
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
        or bool(transaction.refused or transaction.foreign_markers)
        or markers_ms >= WORTH_TELLING_MS
        or any(_worth(blocked, until_ms) and blocked.readers for blocked in transaction.blocked)
        or any(
            request.is_serious or request.waited_ms(until_ms) >= WORTH_TELLING_MS for request in transaction.requests
        )
    )


def _worth(blocked: BlockedStableOffset, until_ms: int) -> bool:
    return (blocked.to_ms or until_ms) - blocked.from_ms >= WORTH_TELLING_MS


def stable_offset_text(blocked: BlockedStableOffset, until_ms: int) -> str:
    """Sentences about readers that waited at a last stable offset, and how long; for a hanging transaction also its cause and end."""
    lasted = (blocked.to_ms or until_ms) - blocked.from_ms
    still = "" if blocked.to_ms is not None else ", and still does"
    readers = {name: (blocked.to_ms or until_ms) - since for name, since in blocked.readers.items()}
    waiting = [f"{name} waited there for {duration_text(ms)}" for name, ms in readers.items() if ms >= WORTH_TELLING_MS]
    whom = f": {shortened(waiting)}" if waiting else ""
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
