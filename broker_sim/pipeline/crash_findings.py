"""Consumers that stopped with an error, as kafkajs logs it, and the rebalances that began with that.

Rules:
1. kafkajs logs `Crash:` with the error, leaves its group, and logs `Restarting the consumer in ..ms` if it starts again: where that
   line is missing, the process runs on without a consumer. Equal crashes of one client are one finding.
2. A rebalance of the group belongs to a crash if it is the first one after it that began as that client left, or as its session
   expired.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import groupby

from broker_sim.common.text import duration_text
from broker_sim.explain.phrases import times
from broker_sim.pipeline.facts import ReportFacts, Row
from broker_sim.pipeline.finding import OFTEN, Finding
from broker_sim.pipeline.phrases import at_of, lines_of, records_of, when

__all__ = ["ABOUT_CRASHES"]

RESTARTS_MS = 5000
"""The line of a restart follows the crash once the consumer has left its group."""
CLOCKS_MS = 1000
"""A client's clock and a broker's may differ by so much."""
LATEST_MS = 120_000
"""A member that sent no LeaveGroup is removed so much later, at the latest: session timeouts are shorter as a rule."""
_GONE = ("leave", "departed", "session timeout", "poll timeout", "rebalance timeout")

_ADVICE = {
    True: "kafkajs restarts a consumer after errors that may pass; each restart is another member, and costs two rebalances.",
    False: "kafkajs does not restart a consumer after an error that it takes for permanent: the process goes on without it. Look at the"
    " error, and let the process end, or restart the consumer, at the event consumer.crash.",
}


def _crashes(facts: ReportFacts) -> Iterable[Finding]:
    restarts = [row for row in facts.crashes if row["what"] == "restarts"]
    crashed = sorted((row for row in facts.crashes if row["what"] == "crashed"), key=_key)
    for _, some in groupby(crashed, key=_key):
        rows = sorted(some, key=lambda row: row["ts_ms"])
        first, last = rows[0], rows[-1]
        group, client = first["group"], first["client_id"] or "a consumer"
        back = [_restart(row, restarts) for row in rows]
        again = back[-1] is not None
        often = (
            f" {times(len(rows))} from {when(first['ts_ms'])} on" if len(rows) > 1 else f" at {when(first['ts_ms'])}"
        )
        words = f"{client} of {group} stopped with an error{often}: {(first['detail'] or 'unknown').rstrip('.')}"
        if again:
            words += f"; it {'each time ' if len(rows) > 1 and all(back) else ''}starts again"
            wait_ms = max(one["number"] or 0 for one in back if one is not None)
            words += f" after {duration_text(wait_ms)}" if len(rows) == 1 and wait_ms else ""
        else:
            words += "; no line says that it starts again"
        caused = [row for row in (_caused(facts, row) for row in rows) if row is not None]
        if caused:
            row = caused[0]
            what = "epoch" if row.get("kind") in ("consumer", "share", "streams") else "generation"
            words += f". {group} rebalanced for it at {when(at_of(row) or 0)}"
            words += "" if row["generation"] is None else f" ({what} {row['generation']})"
        yield Finding(
            "crashed",
            "note" if again and len(rows) < OFTEN else "warn",
            (60 if again else 120) + min(len(rows), 30),
            f"{words}.",
            _ADVICE[again],
            group,
            caused[0]["coordinator_partition"] if caused else None,
            first["ts_ms"],
            last["ts_ms"],
            "likely" if caused else "certain",
            records_of(caused),
            (*(f"{row['file']}:{row['line']} ({group})" for row in rows), *lines_of(caused)),
        )


def _key(row: Row) -> tuple[str, str, str]:
    return row["group"], row["client_id"] or "", row["detail"] or ""


def _restart(crash: Row, restarts: Iterable[Row]) -> Row | None:
    """The line of the restart after a crash."""
    return next(
        (
            row
            for row in sorted(restarts, key=lambda row: row["ts_ms"])
            if (row["group"], row["file"]) == (crash["group"], crash["file"])
            and (row["client_id"] or crash["client_id"]) == crash["client_id"]
            and 0 <= row["ts_ms"] - crash["ts_ms"] <= RESTARTS_MS
        ),
        None,
    )


def _caused(facts: ReportFacts, crash: Row) -> Row | None:
    """The rebalance that began with a crash."""
    if crash["client_id"] is None:
        return None
    found = [
        (at_ms, row)
        for row in facts.of_group(facts.rebalances, crash["group"])
        if row["cause"] in _GONE
        and crash["client_id"] in (row["who_clients"] or ())
        and (at_ms := at_of(row)) is not None
        and -CLOCKS_MS <= at_ms - crash["ts_ms"] <= LATEST_MS
    ]
    return min(found, key=lambda pair: pair[0])[1] if found else None


ABOUT_CRASHES: tuple[Callable[[ReportFacts], Iterable[Finding]], ...] = (_crashes,)
"""Findings about crashes of clients, of log lines."""
