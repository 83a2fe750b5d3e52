"""Whether a scenario tried what it says: a verdict that held because nothing ran is no verdict.

Rules that must match and never did, holds that held no request, states of logs that no request met, and clients that sent no
request are reported with the expectations, and fail the scenario. ``must_hit: false`` of a rule, a hold or a state, and ``joins:
false`` of a client allow it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from broker_sim.faults.registry import Fault, NeverHit
from broker_sim.scenario.clients import APPS, kind_or_command
from broker_sim.scenario.references import client_ids
from broker_sim.scenario.sending import CLIENT_ID

if TYPE_CHECKING:
    from broker_sim.faults.order import Hold
    from broker_sim.scenario.model import ClientPlan, Scenario

__all__ = ["Lasting", "absent", "came_from_outside", "never_held", "never_hit", "never_met"]

Event = Mapping[str, Any]
Wrong = tuple[str, str]
"""A problem and its place in the file."""

_SHOWN = 5
_HANDS = ("started", "exited")
"""Events about a client that the client does not report itself."""


def never_hit(rules: Iterable[tuple[Fault, str, str]]) -> list[Wrong]:
    """The rules that must match and did not, with the near misses. ``rules``: (rule, its name in the file, its line in the file)."""
    problems: list[Wrong] = []
    for fault, name, where in rules:
        try:
            fault.check()
        except NeverHit as error:
            first, *near = (line.strip() for line in str(error).splitlines())
            text = first.replace(f"fault {fault.id}", f"fault {name}", 1) if name else first
            problems.append(("; ".join([text, *near]), where))
    return problems


def never_held(holds: Iterable[tuple[Hold, str]]) -> list[Wrong]:
    """The holds that held no request. ``holds``: (hold, its line in the file)."""
    return [
        (f"the hold of {hold.selector.text()} never held a request", where) for hold, where in holds if not hold.hits
    ]


@dataclass(frozen=True, slots=True)
class Lasting:
    """A state that the file put a log into, after the journal's event ``since``."""

    log: str
    state: str
    since: int
    where: str


def never_met(
    states: Iterable[Lasting],
    events: Iterable[Event],
    log_of: Callable[[str], str],
    log_of_transactions: Callable[[str], str],
) -> list[Wrong]:
    """The fault states during which their log was not used: no request named the log, or a group (``log_of``) or transactional id
    in it, no deferred request of it was answered, and neither a coordinator nor a marker appended to it."""
    events = list(events)
    logs_of: dict[int, set[str]] = {}
    for event in events:
        if event["event"] == "request":
            logs_of[event["request"]] = {
                *event.get("topics", ()),
                *([log_of(group)] if (group := event.get("group")) else []),
                *([log_of_transactions(owner)] if (owner := event.get("transactional_id")) else []),
            }
    unmet = [
        state for state in states if not any(_meets(event, state.log, logs_of) for event in _during(state, events))
    ]
    why = "no request named the partition, and nothing was appended"
    return [(f"no request met {state.log} while it was {state.state}: {why}", state.where) for state in unmet]


def _during(state: Lasting, events: Iterable[Event]) -> Iterable[Event]:
    for event in events:
        if event["seq"] <= state.since:
            continue
        if event["event"] == "state" and (event["log"], event["state"], event["action"]) == (
            state.log,
            state.state,
            "healed",
        ):
            return
        yield event


def _meets(event: Event, log: str, logs_of: Mapping[int, set[str]]) -> bool:
    kind = event["event"]
    return (
        (kind in ("request", "response") and log in logs_of.get(event["request"], ()))
        or (kind in ("append", "committed") and event["log"] == log)
        or (kind == "marker" and event["partition"] == log)
    )


def absent(
    scenario: Scenario, events: Iterable[Event], commands: Mapping[str, str], *, shared: bool = False
) -> list[Wrong]:
    """The clients that never asked for what they are there for: to join their group, or for records without one. ``commands``: see
    `clients.kind_or_command`; ``shared``: who uses the cluster starts external ones."""
    seen = _ClientActivity(scenario, events)
    missing: dict[tuple[str, str], list[ClientPlan]] = {}
    for plan in scenario.clients:
        program = kind_or_command(plan, commands) not in APPS and plan.kind != "external"
        if plan.joins and not seen.tried(plan, program=program):
            missing.setdefault((_what(plan), plan.where), []).append(plan)
    problems: list[Wrong] = []
    for (what, where), plans in missing.items():
        names = [plan.name for plan in plans]
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        who = f"the client{'s' if len(names) > 1 else ''} {', '.join(names[:_SHOWN])}{more}"
        external = kind_or_command(plans[0], commands) == "external"
        hint = (
            f"; it is a client of another program{'' if shared else ': start that with --attach'}" if external else ""
        )
        problems.append(
            (
                f"{who} never {what}, so the expectations prove nothing about {'them' if len(names) > 1 else 'it'}{hint}",
                where,
            )
        )
    return problems


def came_from_outside(scenario: Scenario, events: Iterable[Event]) -> bool:
    """Whether anybody asked for anything who is none of the file's own clients."""
    return bool(_ClientActivity(scenario, events).foreign)


def _what(plan: ClientPlan) -> str:
    group = plan.settings.get("group")
    return "asked for anything" if group is None or plan.settings.get("assign") else f"asked to join {group!r}"


class _ClientActivity:
    """The requests, joined groups and reports of each client, from the events of a run."""

    def __init__(self, scenario: Scenario, events: Iterable[Event]) -> None:
        self._asked: set[tuple[str | None, str]] = set()
        self._joined: set[tuple[str | None, str]] = set()
        self._said: set[str] = set()
        self.foreign: set[str | None] = set()
        own = {name for plan in scenario.clients if plan.kind != "external" for name in client_ids(plan)} | {CLIENT_ID}
        for event in events:
            if event["event"] == "request":
                client_id, api = event["client_id"], event["api"]
                self._asked.add((client_id, api))
                if api in ("JoinGroup", "ConsumerGroupHeartbeat", "ShareGroupHeartbeat", "StreamsGroupHeartbeat"):
                    self._joined.add((client_id, event.get("group") or ""))
                if client_id not in own:
                    self.foreign.add(client_id)
            elif event["event"] == "client" and event["reports"] not in _HANDS:
                self._said.add(event["client"])

    def tried(self, plan: ClientPlan, *, program: bool) -> bool:
        """``program``: it is none of our apps, and may call itself what it likes."""
        group, ids = plan.settings.get("group"), set(client_ids(plan))
        if program and plan.name in self._said:
            return True
        others = self.foreign if program or plan.kind == "external" else set()
        if group is None or plan.settings.get("assign"):
            return any(api != "ApiVersions" and (name in ids or name in others) for name, api in self._asked)
        return any(of == group and (name in ids or name in others) for name, of in self._joined)
