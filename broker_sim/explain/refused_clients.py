"""Clients that the brokers could not serve: a wrong password, TLS at a port without it, an expired session, a frame that is too large.

Such a client sends no request of a group, so its events name none; `RefusedClients` decides which of them concern a group.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from broker_sim.common.text import clock
from broker_sim.explain.events import Event, number, text
from broker_sim.explain.model import Incident
from broker_sim.explain.phrases import count

__all__ = ["MOST", "RefusedClients", "refused_lines"]

MOST = 5
"""Kinds of refusals that are named, those of the most connections."""
_SECOND_MS = 1000

_Key = tuple[str, str | None, str]  # address or host, client id, reason


@dataclass(slots=True)
class _Refusals:
    """Equal ones: of one client for one reason."""

    who: str
    reason: str
    first_ms: int
    last_ms: int
    order: int
    number: int = 0

    @property
    def words(self) -> str:
        """``3 connections of 127.0.0.1 (client orders) were closed: authentication failed: wrong password of user 'alice'``."""
        until = f" until {clock(self.last_ms)}" if self.last_ms - self.first_ms >= _SECOND_MS else ""
        was = "was" if self.number == 1 else "were"
        return f"{count(self.number, 'connection')} of {self.who} {was} closed{until}: {self.reason}"


class RefusedClients:
    """Refused clients of a journal, in its order."""

    def __init__(self) -> None:
        self._found: dict[_Key, _Refusals] = {}

    def take(self, event: Event, ts_ms: int, order: int) -> None:
        """A ``connection`` event."""
        if event.get("action") != "refused":
            return
        client_id, reason = text(event, "client_id"), _reason(event)
        place = text(event, "host") or (text(event, "peer") or "").removeprefix("/") or "an unknown address"
        who = place if client_id is None else f"{place} (client {client_id or 'without a name'})"
        found = self._found.setdefault((place, client_id, reason), _Refusals(who, reason, ts_ms, ts_ms, order))
        found.number += 1
        found.last_ms = ts_ms

    def of(self, clients: Collection[str]) -> list[Incident]:
        """Refusals of the clients with these ids."""
        return _incidents(found for (_, client_id, _), found in self._found.items() if client_id in clients)

    def all(self) -> list[Incident]:
        """Refusals of all clients."""
        return _incidents(self._found.values())

    def lines(self) -> list[str]:
        """Refusals of all clients, a line each."""
        return [f"{clock(incident.ts_ms)}  {incident.text}" for incident in self.all()]

    def of_the_only_one(self) -> list[Incident]:
        """Refusals of the only client that was refused; [] if there were several."""
        clients = {(place, client_id) for place, client_id, _ in self._found}
        return self.all() if len(clients) == 1 else []


def refused_lines(events: Iterable[Event]) -> list[str]:
    """The refused clients of a journal, a line each."""
    clients = RefusedClients()
    for order, event in enumerate(events):
        if event.get("event") == "connection":
            clients.take(event, number(event, "ts_ms") or 0, order)
    return clients.lines()


def _reason(event: Event) -> str:
    """With the user, unless the reason names it."""
    reason, user = text(event, "reason") or "for an unknown reason", text(event, "user")
    return reason if not user or repr(user) in reason else f"{reason} (user {user!r})"


def _incidents(found: Iterable[_Refusals]) -> list[Incident]:
    """The most frequent ones, and in one more the number of the others."""
    ranked = sorted(found, key=lambda one: -one.number)
    shown, rest = sorted(ranked[:MOST], key=lambda one: one.order), ranked[MOST:]
    incidents = [Incident("refused", one.first_ms, one.words, one.order) for one in shown]
    if rest:
        last = max(rest, key=lambda one: one.order)
        total = sum(one.number for one in rest)
        words = f"{count(total, 'more connection')} {'was' if total == 1 else 'were'} closed for other reasons or of other clients"
        incidents.append(Incident("refused", last.first_ms, words, last.order))
    return incidents
