"""The commits of a group in sentences: answered, failed with which error, of whom, after how long, stored nevertheless."""

from __future__ import annotations

from collections import Counter

from broker_sim.common.answers import about_one, places
from broker_sim.common.text import duration_text
from broker_sim.explain.events import Call
from broker_sim.explain.model import History, commits_of
from broker_sim.explain.phrases import after, caller, count, fault_words, joined, listed

__all__ = ["commit_words", "commits_between"]

_FEW = 3
"""So many kinds of errors are described."""


def commits_between(past: History, from_ms: int, to_ms: int | None) -> list[str]:
    """The commits that failed or waited meanwhile."""
    failed = [c for c in commits_of(past.calls_between(from_ms, to_ms)) if c.failed or c.answered_ms is None]
    return [f"Meanwhile {words}" for words in commit_words(past, failed)]


def commit_words(past: History, commits: list[Call]) -> list[str]:
    """Answered, failed with what, after how long, stored nevertheless."""
    outside = [call for call in commits if call.is_outsiders]
    commits = [call for call in commits if not call.is_outsiders]
    if not commits:
        return _outsiders(outside)
    good = [call for call in commits if call.answered_ms is not None and not call.failed]
    in_part = [call for call in commits if call.in_part]
    failed = [call for call in commits if call.failed and not call.in_part]
    waiting = [call for call in commits if call.answered_ms is None and not call.failed]
    sentences = []
    if good:
        slowest = max(call.took_ms or 0 for call in good)
        slow = f" (the slowest {after(slowest)})" if slowest >= 100 else ""
        sentences.append(f"{count(len(good), 'commit')} answered{slow}.")
    if failed:
        kinds = Counter((_errors(call), fault_words(call)) for call in failed)
        parts = []
        for (errors, fault), number in kinds.most_common(_FEW):
            some = [call for call in failed if _errors(call) == errors and fault_words(call) == fault]
            whole = f"{_for_whom(past, some, errors)} {_spread(some)}{fault}"
            parts.append(f"{number} {whole}" if len(kinds) > 1 else whole)
        sentences.append(f"{count(len(failed), 'commit')} failed: {joined(parts)}.")
    if in_part:
        sentences += _failed_in_part(past, in_part)
    stored = sum(_stored_all_the_same(call) for call in (*failed, *in_part))
    if stored:
        sentences.append(f"{stored} of the failed commits {'was' if stored == 1 else 'were'} stored nevertheless.")
    if waiting:
        sentences.append(f"{count(len(waiting), 'commit')} not answered yet.")
    return sentences + _outsiders(outside)


def _outsiders(calls: list[Call]) -> list[str]:
    """Commits of clients that are no members, a sentence for each client and outcome."""
    kinds = Counter((caller(call.client_id, call.client_host), call.outcome, fault_words(call)) for call in calls)
    sentences = []
    for (who, outcome, fault), number in kinds.most_common(_FEW):
        did = {"NONE": "answered", "unanswered": "not answered yet"}.get(outcome, f"refused: {outcome}")
        was = "" if outcome in ("NONE", "unanswered") else "was " if number == 1 else "were "
        sentences.append(f"{count(number, 'commit')} of {who}, no member of the group, {was}{did}{fault}.")
    return sentences


def _spread(calls: list[Call]) -> str:
    """After how long they were answered."""
    took = sorted(call.took_ms or 0 for call in calls)
    if took[-1] - took[0] < 100:
        return after(took[0])
    return f"after {duration_text(took[0])} to {duration_text(took[-1])}"


def _errors(call: Call) -> tuple[str, ...]:
    """Distinct errors of a commit's response and of its partitions; the call's outcome if there is no error."""
    return (
        tuple(dict.fromkeys([call.error, *(row.error for row in call.rows if row.error)]))
        if call.error
        else (call.outcome,)
    )


def _for_whom(past: History, calls: list[Call], errors: tuple[str, ...]) -> str:
    """Errors, with the topics that they are of and the members that met them; a single error without a topic has no addition."""
    rows = [row for call in calls for row in call.rows]
    if not rows or (len(errors) == 1 and not about_one(errors[0])):
        return errors[0]
    parts = [f"{error} for {places(some)}" for error in errors if (some := [row for row in rows if row.error == error])]
    members = [call.member for call in calls if call.member]
    return joined(parts) + (f", of {listed(past, members)}," if members else "")


def _failed_in_part(past: History, calls: list[Call]) -> list[str]:
    """Commits that were refused for some partitions and accepted for others: which, of which members, and the outcome of the rest."""
    errors = Counter(error for call in calls for error in call.errors)
    parts = []
    for error, number in errors.most_common(_FEW):
        some = [call for call in calls if error in call.errors]
        where = places(row for call in some for row in call.rows if row.error == error)
        parts.append(f"{error} for {where}" + (f" ({number} of them)" if number < len(calls) else ""))
    members = [call.member for call in calls if call.member]
    whose = f" of {listed(past, members)}" if members else ""
    good = [(call, row) for call in calls for row in call.rows if not row.error]
    stored = [row for call, row in good if row.what in call.stored]
    words = f"{count(len(calls), 'commit')}{whose} failed in part {_spread(calls)}: {joined(parts)};"
    if len(stored) == len(good):
        return [f"{words} the rest, for {places(row for _, row in good)}, was stored."]
    rest = f"{words} the rest, for {places(row for _, row in good)}, was answered NONE"
    if any(call.api == "TxnOffsetCommit" for call in calls):
        return [f"{rest}, and is in the transaction."]
    return [
        f"{rest}; of {count(len(good), 'offset')} {len(stored)} {'is' if len(stored) == 1 else 'are'} seen to be stored."
    ]


def _stored_all_the_same(call: Call) -> bool:
    """Whether offsets were published that its answer had refused."""
    if not call.rows:
        return call.stored_ms is not None
    return any(row.error and row.what in call.stored for row in call.rows)
