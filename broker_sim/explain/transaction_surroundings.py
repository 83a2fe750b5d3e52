"""Settings and events of brokers around the transactions of transactional ids: rules, states of logs, leaders, loads, the clock."""

from __future__ import annotations

from collections.abc import Iterable

from broker_sim.explain.cluster_events import ClusterEvents
from broker_sim.explain.model import Incident, Span
from broker_sim.explain.phrases import Advance, advance_of, incident_words, span_words
from broker_sim.explain.transaction_model import WORTH_TELLING_MS, TransactionalId, TransactionHistory

__all__ = ["surroundings"]


def surroundings(
    around: ClusterEvents, ids: list[TransactionalId], chosen: Iterable[TransactionHistory], last_ms: int
) -> list[tuple[int, int, str]]:
    """Paragraphs, each with its time and order: the rules that hit requests of the ids, the states of their coordinators' logs and of
    the partitions of their transactions, what happened to the brokers after the first event of the ids."""
    past, first_ms = around.past, min((life.first_ms for life in ids), default=last_ms)
    for life in ids:
        for fault in life.hits:
            around.hit(fault)
    logs = {life.log for life in ids if life.log is not None}
    spans = [span for log in sorted(logs) for _, span in around.log_spans.get(log, ()) if _is_long(span, first_ms)]
    spans += [span for transaction in chosen for span in transaction.spans if _is_long(span, first_ms)]
    spans += [span for name, span in around.fault_spans.items() if name in around.relevant_faults]
    result = [
        (span.from_ms, span.order, _sentence(span_words(past, span, last_ms)))
        for span in {id(span): span for span in spans}.values()
    ]
    incidents = [incident for log, incident in around.log_incidents if log in logs]
    incidents = sorted([*incidents, *past.incidents], key=lambda incident: incident.order)
    result += _incidents(incidents, ids)
    return result


def _is_long(span: Span, first_ms: int) -> bool:
    """Whether a span is worth a paragraph: a state of a log always, a load if it takes long, both only during the life of the ids."""
    if span.to_ms is not None and span.to_ms < first_ms:
        return False
    return span.kind != "loading" or span.to_ms is None or span.to_ms - span.from_ms >= WORTH_TELLING_MS


def _incidents(incidents: list[Incident], ids: list[TransactionalId]) -> list[tuple[int, int, str]]:
    """Steps of the clock that follow each other are one paragraph."""
    result: list[tuple[int, int, str]] = []
    steps: list[Incident] = []
    first = min((life.order for life in ids), default=0)
    for incident in [*(incident for incident in incidents if incident.order >= first), None]:
        if incident is not None and incident.kind == "clock":
            steps.append(incident)
            continue
        if steps:
            result.append((steps[0].ts_ms, steps[0].order, _sentence(_steps(steps))))
            steps = []
        if incident is not None:
            result.append((incident.ts_ms, incident.order, _sentence(incident_words(incident))))
    return result


def _steps(steps: list[Incident]) -> str:
    if len(steps) == 1:
        return incident_words(steps[0])
    total = sum(advance.ms for step in steps if (advance := advance_of(step)) is not None)
    return Advance(total, times=len(steps)).words


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}." if words.startswith(("the ", "mark", "broker ")) else f"{words}."
