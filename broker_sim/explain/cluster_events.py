"""Events around a group: states of logs, leaders, loads, brokers, rules, the clock, notes, messages of a scenario's clients, and
clients that could not be served."""

from __future__ import annotations

import re
from collections import Counter

from broker_sim.common.text import duration_text
from broker_sim.explain.events import Event, names_in, number, table, text
from broker_sim.explain.model import History, Incident, Span
from broker_sim.explain.phrases import count, quoted
from broker_sim.explain.refused_clients import RefusedClients

__all__ = ["ClusterEvents"]

TROUBLES = {"error": "reported an error", "commit_failed": "could not commit", "lost": "lost its partitions"}
SHORT_LOAD_MS = 50
_TIMES = re.compile(r"\btimes=(\d+)\b|, (?:(once)|at most (\d+) times)[,:]")
"""Limit of a rule's matches, as rules write it."""


class ClusterEvents:
    """Collects spans and incidents; ``finish`` puts those that concern the group's log into its history."""

    def __init__(self, past: History) -> None:
        self.past = past
        self.ts_ms = 0
        self.order = 0
        self.log_spans: dict[str, list[tuple[str, Span]]] = {}  # until it is known which log is the group's
        self.log_incidents: list[tuple[str, Incident]] = []
        self.fault_spans: dict[str, Span] = {}
        self.fault_hits: Counter[str] = Counter()
        self.request = 0
        self.broker_spans: dict[int, Span] = {}
        self.relevant_faults: set[str] = set()
        self.just_loaded = False
        self.client_events: list[Incident] = []
        self.refused = RefusedClients()
        self.handlers = {
            "request": self._request,
            "fault": self._fault,
            "fault_added": self._fault_added,
            "fault_removed": self._fault_removed,
            "state": self._state,
            "leader": self._leader,
            "data_loss": self._data_loss,
            "load": self._load,
            "broker": self._broker,
            "clock": self._clock,
            "order": self._order,
            "mark": self._mark,
            "client": self._client,
            "connection": self._connection,
        }

    def take(self, event: Event, ts_ms: int, order: int) -> None:
        """An event of any kind; ``order``: its number in the journal."""
        self.ts_ms, self.order = ts_ms, order
        kind = str(event.get("event"))
        handler = self.handlers.get(kind)
        if handler is not None:
            handler(event)
        elif kind != "group":
            self.just_loaded = False

    def hit(self, fault: str) -> None:
        """A rule hit a request of the group."""
        self.relevant_faults.add(fault)
        span = self.fault_spans.get(fault)
        if span is not None:
            span.hits += 1

    def _fault_added(self, event: Event) -> None:
        name = str(event.get("fault"))
        self.fault_spans[name] = Span(
            "fault", text(event, "rule") or f"fault {name}", self.ts_ms, key=name, order=self.order
        )

    def _request(self, event: Event) -> None:
        self.request = number(event, "request") or self.request
        self.just_loaded = False

    def _fault(self, event: Event) -> None:
        """A rule matched a request of any client. One with ``times`` ends with the last of them."""
        name = str(event.get("fault"))
        self.just_loaded = False
        self.fault_hits[name] += 1
        span, written = self.fault_spans.get(name), _TIMES.search(text(event, "rule") or "")
        times = None if written is None else 1 if written[2] else int(written[1] or written[3])
        if span is not None and span.to_ms is None and times is not None and self.fault_hits[name] >= times:
            span.to_ms, span.used_up = self.ts_ms, times

    def _fault_removed(self, event: Event) -> None:
        span = self.fault_spans.get(str(event.get("fault")))
        if span is not None and span.to_ms is None:
            span.to_ms = self.ts_ms

    def _state(self, event: Event) -> None:
        log, state = text(event, "log"), text(event, "state")
        if log is None or state is None:
            return
        spans = self.log_spans.setdefault(log, [])
        if event.get("action") == "healed":
            for name, span in spans:
                if name == state and span.to_ms is None:
                    span.to_ms = self.ts_ms
                    return
            spans.append((state, Span("state", state, self.past.first_ms, self.ts_ms, key=log)))
            return
        arguments = table(event, "args")
        label = " ".join(
            [state, *(f"{key} {_argument(key, value)}" for key, value in arguments.items() if value is not None)]
        )
        spans.append((state, Span("state", label, self.ts_ms, key=log, order=self.order)))

    def _leader(self, event: Event) -> None:
        log, leader, reason = text(event, "log"), number(event, "leader"), text(event, "reason")
        if log is None:
            return
        what = "has no leader" if leader is None or leader < 0 else f"is led by broker {leader} now"
        epoch = number(event, "epoch")
        detail = ", ".join(([f"epoch {epoch}"] if epoch is not None else []) + ([reason] if reason else []))
        self._log_incident(log, "leader", f"{log} {what}" + (f" ({detail})" if detail else ""))

    def _data_loss(self, event: Event) -> None:
        log, first, last = text(event, "log"), number(event, "first"), number(event, "last")
        if log is not None and first is not None and last is not None:
            place = "its last" if event.get("part") == "tail" else "its first"
            what = f"{log} lost {place} records, which were committed: offsets {first} to {last}"
            self._log_incident(log, "data_loss", what)

    def _load(self, event: Event) -> None:
        log, action = text(event, "log"), event.get("action")
        if log is None:
            return
        spans = self.log_spans.setdefault(log, [])
        if action == "started":
            spans.append(("loading", Span("loading", "loading", self.ts_ms, key=log, order=self.order)))
            return
        for _, span in spans:
            if span.kind == "loading" and span.to_ms is None:
                span.to_ms = self.ts_ms
        if action == "finished":
            self.just_loaded = True
            counts = [
                count(total, key) for key in ("group", "record") if (total := number(event, f"{key}s")) is not None
            ]
            ids = number(event, "transactional_ids")
            counts = ([count(ids, "transactional id")] if ids is not None else []) + counts
            skipped = number(event, "skipped")
            counts += [f"{skipped} records skipped"] if skipped else []
            self._log_incident(
                log, "loaded", f"the coordinator of {log} was loaded" + (f": {', '.join(counts)}" if counts else "")
            )
        elif action == "failed":
            self._log_incident(log, "load_failed", f"loading {log} failed: {text(event, 'error') or 'unknown error'}")

    def _log_incident(self, log: str, kind: str, words: str) -> None:
        self.log_incidents.append((log, Incident(kind, self.ts_ms, words, self.order)))

    def _broker(self, event: Event) -> None:
        broker, action = number(event, "broker"), text(event, "action")
        if broker is None or action is None:
            return
        self._incident(
            "broker", f"broker {broker} {'went down' if action == 'down' else 'came up' if action == 'up' else action}"
        )
        span = self.broker_spans.pop(broker, None)
        if span is not None:
            span.to_ms = self.ts_ms
        if action == "down":
            self.broker_spans[broker] = Span("broker", f"broker {broker} down", self.ts_ms)
            self.past.spans.append(self.broker_spans[broker])

    def _clock(self, event: Event) -> None:
        ms = number(event, "ms")
        if event.get("action") == "advance" and ms is not None:
            expired = names_in(event, "expire")
            self._incident("clock", f"advance {ms}" + (f" expire {', '.join(expired)}" if expired else ""))

    def _order(self, event: Event) -> None:
        if event.get("action") == "diverged":
            self._incident("order", text(event, "text") or "the order of requests diverged from the recorded one")

    def _mark(self, event: Event) -> None:
        words = text(event, "text")
        if words is not None:
            self._incident("mark", words)

    def _client(self, event: Event) -> None:
        """Note a report of a scenario's client, only if something went wrong for the client."""
        client, report, words = text(event, "client"), text(event, "reports"), text(event, "text")
        code = number(table(event, "details"), "code")
        if client is None or not (report in TROUBLES or (report == "exited" and code)):
            return
        ending = TROUBLES.get(str(report), f"exited with code {code}") + (f": {quoted(words)}" if words else "")
        self.client_events.append(Incident("client", self.ts_ms, ending, self.order, client))

    def _connection(self, event: Event) -> None:
        self.refused.take(event, self.ts_ms, self.order)

    def _incident(self, kind: str, words: str) -> None:
        self.past.incidents.append(Incident(kind, self.ts_ms, words, self.order, request=self.request))

    def finish(self) -> None:
        """Add all spans and incidents that concern the group to its history, in order."""
        past = self.past
        for log, spans in self.log_spans.items():
            if log == past.log:
                past.spans += [span for _, span in spans if span.kind != "loading" or _length(span) >= SHORT_LOAD_MS]
        past.incidents += [incident for log, incident in self.log_incidents if log == past.log]
        past.spans += [span for name, span in self.fault_spans.items() if name in self.relevant_faults]
        past.spans.sort(key=lambda span: (span.from_ms, span.order))
        ours = {info.client_id for info in past.members.values()} | {info.instance for info in past.members.values()}
        past.incidents += _merged([incident for incident in self.client_events if incident.client in ours])
        past.incidents += self._refused()
        past.incidents.sort(key=lambda incident: (incident.ts_ms, incident.order))

    def _refused(self) -> list[Incident]:
        """The refused clients that have been clients of the group. Without any member now it may lack the only client that was refused,
        and a group of which nothing is known any of them."""
        past = self.past
        if not past.is_known:
            return self.refused.all()
        ours = {info.client_id for info in past.members.values()} | {call.client_id for call in past.calls}
        has_members = any(info.admitted and info.last_ms is None for info in past.members.values())
        return self.refused.of(ours) or ([] if has_members else self.refused.of_the_only_one())


def _merged(incidents: list[Incident]) -> list[Incident]:
    """Repeated messages of a client as one incident."""
    merged: list[Incident] = []
    last: dict[str, tuple[Incident, int, str]] = {}
    for incident in incidents:
        first, times, words = last.get(incident.client, (incident, 0, ""))
        if times and words == incident.text:
            first.text = f"{words} (×{times + 1})"
            last[incident.client] = (first, times + 1, words)
            continue
        merged.append(incident)
        last[incident.client] = (incident, 1, incident.text)
    return merged


def _length(span: Span) -> float:
    return float("inf") if span.to_ms is None else span.to_ms - span.from_ms


def _argument(key: str, value: object) -> str:
    """A state's argument: durations are in ms."""
    return (
        duration_text(value)
        if isinstance(value, int) and not isinstance(value, bool) and key != "free_bytes"
        else str(value)
    )
