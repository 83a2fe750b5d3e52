"""The requests of a transactional id that did not go well, in sentences; and what kept a producer from ending its transaction."""

from __future__ import annotations

from collections.abc import Iterable

from broker_sim.common.text import clock, duration_text
from broker_sim.explain.phrases import Advance, joined, quoted, shortened
from broker_sim.explain.transaction_model import WORTH_TELLING_MS, TransactionHistory, TransactionRequest

__all__ = ["request_runs", "request_text", "run_text", "since_begun", "what_delayed_it"]

Run = list[TransactionRequest]


def since_begun(transaction: TransactionHistory, ts_ms: int) -> str:
    """Time since the beginning of a transaction, in words: ``after 3 s``; the time of day if the beginning is unknown."""
    return (
        f"at {clock(ts_ms)}" if transaction.begun_ms is None else f"after {duration_text(ts_ms - transaction.begun_ms)}"
    )


def request_runs(requests: Iterable[TransactionRequest]) -> list[Run]:
    """Requests of one client that got the same response for the same reason, by their first ones."""
    runs: dict[tuple[object, ...], Run] = {}
    for request in requests:
        call, sender = request.call, request.sender
        key = (
            *(request.name, sender.client_id, sender.client_host, call.outcome, request.reason, tuple(request.rules)),
            call.answered_ms is None,
            (call.took_ms or 0) // WORTH_TELLING_MS,
        )
        runs.setdefault(key, []).append(request)
    return list(runs.values())


def run_text(run: Run, until_ms: int) -> str:
    """A run outside of a transaction, as a sentence: ``EndTxn (commit) of a was answered PRODUCER_FENCED: b had initialized ...``."""
    waited = _waited(run[0], until_ms)
    return _sentence(run, until_ms, run[0].words, f" after {waited}" if waited else "")


def request_text(run: Run, until_ms: int, transaction: TransactionHistory) -> str:
    """A run of requests in a transaction, as a sentence."""
    call, waited = run[0].call, _waited(run[0], until_ms)
    subject = f"The {run[0].words}"
    if call.answered_ms is None:
        return _sentence(run, until_ms, f"{subject}, sent {since_begun(transaction, call.ts_ms)},", f" after {waited}")
    when = since_begun(transaction, call.answered_ms)
    return _sentence(run, until_ms, subject, f" {when}" + (f", {waited} after it had arrived" if waited else ""))


def _waited(request: TransactionRequest, until_ms: int) -> str:
    ms = request.waited_ms(until_ms)
    return duration_text(ms) if ms >= WORTH_TELLING_MS or request.call.answered_ms is None else ""


def _sentence(run: Run, until_ms: int, subject: str, when: str) -> str:
    first, last = run[0], run[-1]
    call, last_ms = first.call, last.call.answered_ms or last.call.ts_ms
    if call.answered_ms is None:
        what = "has no response"
    elif call.action == "not answered":
        what = "had no response when its connection was closed"
    elif call.action is not None:
        what = f"got no response ({call.action})"
    else:
        what = f"was answered {call.outcome}" if call.errors else "was answered"
    times = f" (×{len(run)}, until {clock(last_ms)})" if len(run) > 1 else ""
    why = _why(first, until_ms)
    return f"{subject} {what}{when}{times}{': ' if why else ''}{'; '.join(why)}."


def _why(request: TransactionRequest, until_ms: int) -> list[str]:
    """The rule that hit it, the reason of its coordinator, the states of the logs that it waited for."""
    call = request.call
    why = [f"the fault {quoted(rule)} hit it" for rule in dict.fromkeys(request.rules)]
    by_rule = any(error in verdict for error in call.errors for verdict in call.faults)
    if request.reason and not by_rule:
        why.append(request.reason)
    is_slow = request.waited_ms(until_ms) >= WORTH_TELLING_MS
    spans = [span for span in request.spans if is_slow or (call.errors and span.kind == "state")]
    if spans:
        states = [f"{span.key} was {span.label}" for span in spans]
        why.append(joined(states) if len(states) <= 3 else shortened(states, 3))
    return why


def what_delayed_it(transaction: TransactionHistory, until_ms: int) -> tuple[str, TransactionRequest | None]:
    """Reason why a producer did not end its transaction that timed out, or is open, as a clause, and the request concerned.

    A rule that matched a request of the transaction comes first, then an EndTxn that failed, then the last request of its producer; the
    steps of the clock are added. "" if the transaction is open and no rule matched its requests.
    """
    if transaction.result not in ("", "timed out"):
        return "", None
    decided_ms = until_ms if transaction.decided_ms is None else transaction.decided_ms
    hit = [request for request in transaction.requests if request.call.ts_ms <= decided_ms]
    by_rule = [request for request in hit if request.rules and not request.is_fenced]
    ends = [request for request in hit if request.call.api == "EndTxn" and not request.is_fenced]
    cause = max(by_rule or ends, key=lambda request: _weight(request, decided_ms), default=None)
    clauses = []
    if cause is not None:
        clauses.append(_hindered(transaction, cause, decided_ms))
    elif transaction.result:
        clauses += _last_request(transaction)
    if transaction.advanced_ms and (transaction.result or cause is not None):
        advance = Advance(sum(transaction.advanced_ms), times=len(transaction.advanced_ms))
        clauses.append(f"{advance.words} meanwhile")
    return "; ".join(clauses), cause


def _weight(request: TransactionRequest, decided_ms: int) -> tuple[bool, bool, int]:
    """Sort key of requests by their likelihood of being the cause: no response until the decision, an EndTxn, the later one."""
    call = request.call
    open_ = call.answered_ms is None or call.answered_ms >= decided_ms or call.action is not None
    return open_, call.api == "EndTxn", call.ts_ms


def _hindered(transaction: TransactionHistory, cause: TransactionRequest, decided_ms: int) -> str:
    call = cause.call
    late = call.answered_ms is None or call.answered_ms >= decided_ms
    sent = f"the {cause.name} that {cause.sender.words} had sent {since_begun(transaction, call.ts_ms)}"
    if cause.rules:
        rule = quoted(cause.rules[-1])
        if call.action not in (None, "not answered"):
            return f"the fault {rule} dropped {sent}"
        if late:
            return f"the fault {rule} held back {sent}"
        return (
            f"the fault {rule} answered {sent} with {call.outcome}"
            if call.errors
            else f"the fault {rule} delayed {sent}"
        )
    if late:
        return f"{sent} had no response by then"
    return f"{sent} was answered {call.outcome}"


def _last_request(transaction: TransactionHistory) -> list[str]:
    last = transaction.last_request
    if last is None:
        return []
    words = f"the last request of {last.sender.words} was {_a(last.name)} {since_begun(transaction, last.call.ts_ms)}"
    if transaction.closed_ms is not None:
        return [
            f"{words}, and it closed its connections {since_begun(transaction, transaction.closed_ms)} without an EndTxn"
        ]
    return [f"{words}; it stayed connected and sent no EndTxn"]


def _a(name: str) -> str:
    return f"an {name}" if name[:1] in "AEIOU" else f"a {name}"
