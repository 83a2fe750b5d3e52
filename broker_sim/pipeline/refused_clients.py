"""Findings about clients that brokers could not serve, and about fenced producers: from log lines of both sides, or the journal.

Rules:
1. Equal refusals of one client are one finding: with how often, from when to when, and the reason in the log's words.
2. The size of a request is its first four bytes. If these are the beginning of a TLS or an HTTP message, that is what was sent:
   the broker's log has only the number.
3. What is logged of one fenced producer - the error, what the application was thrown, their causes - is one finding.
4. Requests of one producer's process that were refused for one cause are one finding. The producer's epoch tells processes with one
   transactional.id from each other.
5. A broker's log and a client's log of one refusal name the client differently (its host, its client id): they are two findings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from broker_sim.common.text import duration_text
from broker_sim.explain.phrases import count
from broker_sim.pipeline.facts import ReportFacts, Row
from broker_sim.pipeline.finding import LONG_MS, Finding
from broker_sim.pipeline.phrases import named, short_member, when

__all__ = ["ABOUT_CLIENTS", "FENCED_ERRORS", "sent_instead"]

FENCED_ERRORS = ("PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_ID_MAPPING")
"""Errors of a producer whose transactional.id another one was initialized with later, or whose id is unknown."""

FEW = 3
"""Connections that ended early: fewer may be an accident."""
_SIZE = re.compile(r"size = (-?\d+)")
_HTTP = (b"GET ", b"POST", b"HEAD", b"PUT ", b"OPTI", b"CONN", b"DELE", b"PRI ")
_TLS = b"\x16\x03"

_CREDENTIALS = "Compare user, password and sasl.mechanism of the client with the users that the broker knows."
_TLS_ADVICE = (
    "Compare security.protocol of the client with the listener's, and its truststore (ssl.ca.location) with the authority that signed"
    " the broker's certificate; host names must be in the certificate."
)
_NO_SASL = "A client without SASL, or with another security.protocol, is connected to a SASL listener."
_FENCED = (
    "Another producer with this transactional.id was initialized, or the transaction had timed out (transaction.timeout.ms), which"
    " raises the epoch, too. Each producer that runs at the same time needs a transactional.id of its own; a fenced one must be closed."
)
_UNKNOWN_ID = (
    "The broker has no such producer id for this transactional.id: it expired (transactional.id.expiration.ms, seven days by default),"
    " or the log of __transaction_state was lost. The producer must be initialized again."
)

_MEMBER_LEFT = (
    "The consumer whose offsets were to be committed had left the group, or the group had rebalanced: the transaction must be aborted,"
    " and its records are processed again."
)
_TRANSACTION_ADVICE = {
    "INVALID_TXN_STATE": (
        "The coordinator's transaction was not open: its timeout had aborted it, or it was ended before. Call the producer's methods in"
        " their order, and from one thread.",
        "warn",
    ),
    "INVALID_TRANSACTION_TIMEOUT": (
        "transaction.timeout.ms of the producer must not be larger than transaction.max.timeout.ms of the brokers.",
        "warn",
    ),
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": ("The principal needs Write on this transactional id.", "warn"),
    "TOPIC_AUTHORIZATION_FAILED": ("The principal needs Write on the topic.", "warn"),
    "GROUP_AUTHORIZATION_FAILED": ("The principal needs Read on the group.", "warn"),
    "UNKNOWN_TOPIC_OR_PARTITION": ("The topic may be deleted, or not created yet.", "warn"),
    **dict.fromkeys(("UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "STALE_MEMBER_EPOCH"), (_MEMBER_LEFT, "note")),
    "FENCED_INSTANCE_ID": (_MEMBER_LEFT, "warn"),
}
"""Advice to the reader, and the severity, by error."""

_TWO_PROCESSES = (
    "Two processes run with one group.instance.id: the later one is not admitted. Each needs an id of its own."
)
_DEAD_HOLDER = (
    "The holder ended without a leaving heartbeat, so that its id was free when its session expired. A shutdown that closes the client,"
    " or a shorter session timeout of the group, avoids that."
)


def sent_instead(detail: str) -> str | None:
    """Name of the message that was sent in place of a request, from the size in ``Invalid receive (size = 1195725856 larger than ..)``;
    None for a size that no other protocol begins with."""
    match = _SIZE.search(detail)
    if match is None:
        return None
    size = int(match[1])
    first = size.to_bytes(4, "big", signed=True) if -(2**31) <= size < 2**31 else b""
    if first.startswith(_TLS):
        return "a TLS handshake at a port without TLS"
    return "an HTTP request" if first in _HTTP else None


def _merged(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Rows of one client, kind and reason together: TLS messages differ in the last byte of their size."""
    merged: dict[tuple[object, ...], dict[str, Any]] = {}
    for row in sorted(rows, key=lambda row: (row["from_ms"] is None, row["from_ms"] or 0)):
        reason = (row["detail"] or "for an unknown reason").rstrip(".")
        if row["what"] == "invalid receive":
            reason = sent_instead(reason) or reason
        key: tuple[object, ...] = (row["source"], row["what"], row["client_id"], row["member"])
        key += (
            (row.get("process"), _is_unknown(reason)) if row["what"] == "producer fenced" else (row["address"], reason)
        )
        key += (row.get("process"), row["address"]) if "apis" in row else ()
        known = merged.setdefault(key, {**row, "reason": reason, "times": 0, "answers": []})
        known["times"] += row["times"]
        if "apis" in row:
            known["answers"].append(f"{named(row['apis'], 5)} {_was(row['apis'])} answered {reason}")
        if row["to_ms"] is not None and known["to_ms"] is not None:
            known["to_ms"] = max(known["to_ms"], row["to_ms"])
    return list(merged.values())


def _is_unknown(reason: str) -> bool:
    """Whether it was no fenced producer, but an id that the broker does not know."""
    return re.search(r"PidMapping|ProducerIdMapping|ID_MAPPING|not currently assigned", reason) is not None


def _who(row: Row) -> str:
    """The client: ``app-1``, ``10.0.0.7``, ``10.0.0.7 (client app-1)``."""
    client, address = row["client_id"], row["address"]
    if row["source"] == "client":
        return client or "a client"
    return f"{address} (client {client})" if client and address else address or client or "a client"


def _span(row: Row) -> str:
    from_ms, to_ms, number = row["from_ms"], row["to_ms"], row["times"]
    often = "" if number == 1 else f"{count(number, 'time')} "
    if from_ms is None:
        return f" {often.strip()}" if often else ""
    if to_ms - from_ms < 1000:
        return f" {often}at {when(from_ms)}"
    return f" {often}from {when(from_ms)} on, for {duration_text(to_ms - from_ms)}"


_Rest = tuple[str, float, str, str, None, None, int | None, int | None, str, tuple[()], tuple[str, ...]]


def _rest(row: Row, words: str, advice: str, severity: str = "warn", sure: str = "certain") -> _Rest:
    """Fields that follow the kind in a Finding."""
    weight = (300 if severity == "warn" else 60) + min(row["times"], 99) / 100
    lines = () if row["line"] is None else (row["line"],)
    text = f"{words[0].upper()}{words[1:]}." if words.startswith(("a ", "the ")) else f"{words}."
    return severity, weight, text, advice, None, None, row["from_ms"], row["to_ms"], sure, (), lines


def _clients(facts: ReportFacts) -> Iterable[Finding]:
    for row in _named_ones(_merged(facts.refused_clients)):
        what, reason = row["what"] or _kind_of(row["reason"]), row["reason"]
        if what in ("authentication failed", "handshake failed"):
            yield _unauthenticated(row, what, reason)
        elif what == "producer fenced":
            yield _fenced(row, "; ".join(row["answers"]) or reason)
        elif what == "transaction refused":
            yield _refused(row, reason)
        elif what == "invalid receive":
            yield _invalid(row, reason)


def _instances(facts: ReportFacts) -> Iterable[Finding]:
    """Findings about a group.instance.id that clients were refused: its holder, and until when it had the id."""
    for row in facts.refused_instances:
        group, holder, client = row["group"], row["holder"], row["client_id"] or "a client"
        host = (row["client_host"] or "").lstrip("/")
        words = f"{client}{f' ({host})' if host else ''} was refused the group.instance.id {row['instance']} of {group}{_span(row)}"
        advice = _TWO_PROCESSES
        if holder is not None:
            at = (holder["client_host"] or "").lstrip("/")
            who = f"{holder['client_id'] or 'a client'}{f' ({at})' if at else ''}"
            same = (holder["client_id"], holder["client_host"]) == (row["client_id"], row["client_host"])
            who += f", as another process of the same client (member {short_member(holder['member'])})," if same else ""
            expired = holder["why"] == "session timeout"
            until = "" if holder["left_ms"] is None else f" until {when(holder['left_ms'])}"
            words += f": {who} held it{until}" + (", when its session expired" if expired else "")
            advice = _DEAD_HOLDER if expired else _TWO_PROCESSES
        lasted = row["to_ms"] - row["from_ms"]
        severity = "warn" if lasted >= LONG_MS else "note"
        weight = 105 + min(lasted / 10_000, 40) if severity == "warn" else 45
        yield Finding(
            "instance id in use", severity, weight, f"{words}.", advice, group, None, row["from_ms"], row["to_ms"]
        )


def _named_ones(rows: list[dict[str, Any]]) -> Iterable[dict[str, Any]]:
    """Without fenced producers that have no name, if their file names one: an exception in the application's own lines."""
    named = {_file(row) for row in rows if row["what"] == "producer fenced" and row["client_id"]}
    for row in rows:
        if row["what"] != "producer fenced" or row["client_id"] or _file(row) not in named:
            yield row


def _file(row: Row) -> str:
    return (row["line"] or "").rpartition(":")[0]


def _kind_of(reason: str) -> str | None:
    """The kind of line that a reason of the journal would be; None for what is no refusal of a client's fault."""
    if reason.startswith("TLS handshake"):
        return "handshake failed"
    if re.search(r"authenticat|SASL|session", reason, re.IGNORECASE):
        return "authentication failed"
    return "invalid receive"


def _unauthenticated(row: Row, what: str, reason: str) -> Finding:
    at = f" at {row['address']}" if row["source"] == "client" and row["address"] else ""
    did = "could not authenticate" if what == "authentication failed" else "did not complete its TLS handshake"
    cut_off = "terminated during authentication" in reason
    tls = what == "handshake failed" or "SSL" in reason
    advice = (
        _TLS_ADVICE
        if tls
        else _NO_SASL
        if "SASL missing" in reason or "Unexpected Kafka request" in reason
        else _CREDENTIALS
    )
    severity, sure = "warn", "certain"
    if cut_off:  # also what a broker that stops just then looks like
        reason = "the connection was closed before it was authenticated"
        severity, sure = ("note", "possible") if row["times"] < FEW else ("warn", "likely")
    words = f"{_who(row)} {did}{at}{_span(row)}: {reason}"
    return Finding("authentication", *_rest(row, words, advice, severity, sure))


def _fenced(row: Row, reason: str) -> Finding:
    epoch = "" if row.get("process") is None else f", epoch {row['process']}"
    its_id = f" (transactional.id {row['member']}{epoch})" if row["member"] else ""
    who = f"the producer {row['client_id']}" if row["client_id"] else "a producer"
    unknown = _is_unknown(reason)
    did = "was not known" if unknown else "was fenced"
    words = f"{who}{its_id} {did}{_span({**row, 'times': 1})}: {reason}{_event(row)}"  # that a line is repeated says nothing
    return Finding("producer fenced", *_rest(row, words, _UNKNOWN_ID if unknown else _FENCED))


def _event(row: Row) -> str:
    """The journal's event of the first refusal."""
    seq = row.get("seq")
    return "" if seq is None else f" ({'first in ' if row['times'] > 1 else ''}event {seq} of the journal)"


def _was(names: Sequence[str]) -> str:
    return "was" if len(names) == 1 else "were"


def _refused(row: Row, error: str) -> Finding:
    """Requests of a transaction that were refused for another reason than a newer producer's."""
    who = f"{row['client_id'] or 'a client'} (transactional.id {row['member']})"
    words = f"{named(row['apis'], 5)} of {who} {_was(row['apis'])} refused{_span(row)}: {error}{_event(row)}"
    advice, severity = _TRANSACTION_ADVICE.get(error, ("The application must abort this transaction.", "note"))
    return Finding("refused transaction", *_rest(row, words, advice, severity))


def _invalid(row: Row, reason: str) -> Finding:
    if "Unexpected Kafka request" in reason:
        return _unauthenticated(row, "authentication failed", reason)
    tls = "TLS handshake" in reason
    words, it = f"a connection of {_who(row)} was closed{_span(row)}: ", "it"
    if row["times"] > 1:
        several = count(row["times"], "connection")
        words, it = f"{several} of {_who(row)} were closed{_span({**row, 'times': 1})}: ", "they"
    said = f"{it} sent {reason}" if sent_instead(row["detail"] or "") == reason else reason
    advice = (
        "Set security.protocol of that client to the listener's, or connect it to the listener with TLS."
        if tls
        else "Something that is no Kafka client connects to the port: a health check, a browser, a scanner."
        if reason == "an HTTP request"
        else "The first four bytes are a request's size; socket.request.max.bytes limits it. Look at what runs at that address."
    )
    return Finding("invalid request", *_rest(row, words + said, advice, "warn" if tls else "note"))


ABOUT_CLIENTS: tuple[Callable[[ReportFacts], Iterable[Finding]], ...] = (_clients, _instances)
