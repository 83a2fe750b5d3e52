"""A scenario: what stands in the file, checked as a whole before anything runs.

    cluster:  {brokers: 3, as_version: "3.9", clock: real, seed: 7, offsets_partitions: 50, initial_rebalance_delay: 3s, config: {...}}
    import:   {describe: groups.txt}
    topics:   [{name: orders, partitions: 6, records: 100, rate: 20/s}]
    clients:  [{name: app-1, group: billing, topics: [orders], kind: aiokafka, ...}]
    steps:    [{name: jam, when: SIGN, within: 30s, after: 5s, do: ACTION or [ACTION, ...]}]
    expect:   [{within: 30s, ...SIGN}, {happened: SIGN}, {never: SIGN, between: [jam, heal]}]

A step begins when the one before is done, its ``when`` holds (a deadline: ``within``) and ``after`` has passed. Events that its sign
counts are those since the step before began to act. Signs: see signs.py.
An action is an operation of the control plane (``op: leader.move``, with its parameters), or one of these short forms:

    {log: offsets(billing), state: stuck, for: 40s}      {log: offsets(billing), state: online}
    {fault: {api: OffsetCommit, error: NOT_COORDINATOR, times: 3}, as: lost}      {remove_fault: lost}
    {client: app-1, action: start|leave|crash|freeze|thaw|hang|commit, for: 10s}      a list of clients, or "all"
    {broker: 2, action: down|up|restart}      {topic: orders, grow_to: 12}      {topic: orders, fill: 100}
    {advance: 45s, expire: [app-1]}      {mark: text}
    {send: OffsetCommit, group: billing, member: app-1, generation: old, offsets: {orders-0: 5}, answer: ILLEGAL_GENERATION}
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from broker_sim.scenario.files import (
    Table,
    WrongFile,
    duration,
    flag,
    listed,
    load,
    number,
    plain,
    table_of,
    text,
    texts,
    within,
)
from broker_sim.scenario.signs import ClientSign, FaultSign, Sign, signs_of
from broker_sim.words import UsageError, unknown
from kafka_wire.errors import Err

__all__ = ["Action", "ClientPlan", "Expectation", "Scenario", "Step", "TopicPlan", "parse", "read"]

KINDS = ("aiokafka", "confluent", "kafka-python", "crowd", "outside")
CLIENT_ACTIONS = ("start", "leave", "crash", "freeze", "thaw", "hang", "commit")
BROKER_ACTIONS = ("down", "up", "restart")
MAX_CLIENTS, MAX_BROKERS, MAX_PARTITIONS, MAX_RECORDS = 1000, 100, 10_000, 1_000_000
WITHIN_S = 30.0
"""How long a step waits for its sign, unless it says otherwise; an expectation, too."""


@dataclass(slots=True)
class TopicPlan:
    """A topic. ``records``: what it holds at the start; ``rate``: records a second that come while the scenario runs."""

    name: str
    partitions: int
    records: int = 0
    rate: float = 0.0
    replication: int = -1
    configs: dict[str, str] = field(default_factory=dict)
    where: str = ""


@dataclass(slots=True)
class ClientPlan:
    """A client. ``settings`` are the app's own: see apps/__init__.py. ``outside``: somebody else's,
    whom the scenario only waits for."""

    name: str
    kind: str
    settings: dict[str, Any]
    start: bool = True


@dataclass(slots=True)
class Action:
    """Something to do. ``verb`` is "op" (``params`` for the operation ``name``), "client", "send", "advance" or "fault"."""

    verb: str
    name: str
    params: dict[str, Any]
    where: str
    text: str


@dataclass(slots=True)
class Step:
    """One step. ``when`` None: at once; ``after_s`` counts from the moment that it held."""

    name: str
    where: str
    actions: list[Action]
    when: list[Sign] | None
    within_s: float
    after_s: float


@dataclass(slots=True)
class Expectation:
    """Part of the verdict. ``kind``: "within" (holds at some moment within ``within_s`` of the last step), "happened" (has come true by
    then), "never" (at no moment ``after`` one step or ``between`` two; the whole run without them)."""

    kind: str
    signs: list[Sign]
    where: str
    within_s: float = WITHIN_S
    begin: str | None = None
    end: str | None = None


@dataclass(slots=True)
class Scenario:
    """A whole file. ``cluster``: the arguments of Cluster."""

    name: str
    story: str
    path: Path | None
    cluster: dict[str, Any]
    imported: dict[str, str]
    topics: list[TopicPlan]
    clients: list[ClientPlan]
    steps: list[Step]
    expect: list[Expectation]

    @property
    def summary(self) -> str:
        """The story's first sentence, on one line; the name where there is no story."""
        words = " ".join(self.story.split("\n\n")[0].split())
        found = re.match(r".*?[.!?](?=\s|$)", words)
        return found[0] if found else words or self.name


def read(path: Path) -> Scenario:
    """The scenario of a file. Raises WrongFile."""
    return parse(load(path), path)


def parse(table: Table, path: Path | None = None) -> Scenario:
    """The scenario of a table. Raises WrongFile."""
    table.only("name", "story", "cluster", "import", "topics", "clients", "steps", "expect")
    name = table.take("name", text, path.stem if path else "scenario")
    scenario = Scenario(
        name=name,
        story=table.take("story", text, "").strip(),
        path=path,
        cluster=_cluster(table.table("cluster")),
        imported=_imported(table.table("import"), path),
        topics=_topics(table),
        clients=[client for one in table.tables("clients", "a client") for client in _clients(one)],
        steps=[],
        expect=[],
    )
    names = [client.name for client in scenario.clients]
    for twice in {one for one in names if names.count(one) > 1}:
        raise table.error(f"two clients are called {twice!r}", "clients")
    scenario.steps = [_step(one, number, names) for number, one in enumerate(table.tables("steps", "a step"), 1)]
    steps = [step.name for step in scenario.steps]
    scenario.expect = [_expectation(one, steps) for one in table.tables("expect", "an expectation")]
    _check_names(scenario, names)
    if not scenario.expect:
        raise table.error("a scenario without 'expect' proves nothing")
    return scenario


def _check_names(scenario: Scenario, clients: list[str]) -> None:
    """What signs and actions name is there. Raises WrongFile."""
    actions = [action for step in scenario.steps for action in step.actions]
    faults = [action.name for action in actions if action.verb == "fault"]
    for action in actions:
        if action.verb == "remove_fault" and action.name not in faults:
            raise WrongFile(action.where, f"remove_fault: {unknown('fault', action.name, faults)}")
    waited = [(step.where, sign) for step in scenario.steps for sign in step.when or ()]
    for where, sign in [*waited, *((one.where, sign) for one in scenario.expect for sign in one.signs)]:
        if isinstance(sign, FaultSign) and sign.name not in faults:
            raise WrongFile(sign.where or where, f"fault: {unknown('fault', sign.name, faults)}")
        if isinstance(sign, ClientSign) and not any(fnmatchcase(name, sign.client) for name in clients):
            raise WrongFile(sign.where or where, f"client: {unknown('client', sign.client, clients)}")


def _cluster(table: Table) -> dict[str, Any]:
    from broker_sim.config import BrokerConfig, ConfigError

    config = {key: str(plain(value)) for key, value in table.table("config", "config").rest().items()}
    for key, setting, factor in (
        ("offsets_partitions", "offsets.topic.num.partitions", 1),
        ("initial_rebalance_delay", "group.initial.rebalance.delay.ms", 1000),
        ("commit_timeout", "offsets.commit.timeout.ms", 1000),
        ("min_session_timeout", "group.min.session.timeout.ms", 1000),
    ):
        value = table.take(key, duration if factor == 1000 else number, None)
        if value is not None:
            config[setting] = str(round(value * factor))
    config.setdefault("group.initial.rebalance.delay.ms", "0")
    found: dict[str, Any] = {
        "brokers": table.take("brokers", within(1, MAX_BROKERS), 1),
        "as_version": table.take("as_version", text, "4.1"),
        "clock": table.take("clock", _clock, "real"),
        "seed": table.take("seed", number, None),
        "config": config,
    }
    table.done()
    try:
        BrokerConfig(config, found["as_version"])
    except ConfigError as error:
        raise table.error(str(error), "config" if "config" in table else None) from None
    return found


def _imported(table: Table, path: Path | None) -> dict[str, str]:
    found = {key: table.take(key, text, "") for key in ("describe", "data")}
    table.done()
    base = path.parent if path else Path()
    for key, value in found.items():
        if value and path and not (base / value).exists():
            raise table.error(f"{key}: {base / value}: no such file", key)
    return {key: str(base / value) for key, value in found.items() if value}


def _topics(table: Table) -> list[TopicPlan]:
    def one(each: Table) -> TopicPlan:
        plan = TopicPlan(
            each.take("name", text),
            each.take("partitions", within(1, MAX_PARTITIONS), 1),
            each.take("records", within(0, MAX_RECORDS), 0),
            each.take("rate", _rate, 0.0),
            each.take("replication", number, -1),
            {key: str(plain(value)) for key, value in each.table("configs", "configs").rest().items()},
            each.place,
        )
        each.done()
        return plan

    return [one(each) for each in table.tables("topics", "a topic")]


def _clock(value: Any) -> str:
    from broker_sim.clock import clock_of

    clock_of(text(value))
    return text(value)


def _rate(value: Any) -> float:
    spelled = text(value).replace(" ", "")
    digits = spelled[:-2] if spelled.endswith("/s") else spelled
    try:
        rate = float(digits)
    except ValueError:
        rate = -1.0
    if not 0 <= rate <= 10_000:
        raise UsageError(f"{value!r} is not a rate, as in 200/s (at most 10000/s)")
    return rate


def _clients(table: Table) -> list[ClientPlan]:
    """One client, or with ``count`` as many, called NAME-1 and so on."""
    from broker_sim.scenario.apps import SETTINGS

    name, many = table.take("name", text), table.take("count", within(1, MAX_CLIENTS), 1)
    kind, start = table.take("kind", text, "aiokafka"), table.take("start", flag, True)
    if kind not in KINDS:
        raise table.error(str(unknown("kind of client", kind, KINDS)), "kind")
    settings = {key: table.take(key, reader, None) for key, reader in SETTINGS.items()}
    settings = {key: value for key, value in settings.items() if value is not None}
    if not settings.get("topics"):
        raise table.error(f"the client {name} needs topics")
    table.done()
    if many == 1:
        return [ClientPlan(name, kind, settings, start)]
    return [ClientPlan(f"{name}-{each}", kind, dict(settings), start) for each in range(1, many + 1)]


def _step(table: Table, place: int, clients: list[str]) -> Step:
    name = table.take("name", text, f"step {place}")
    when = table.take("when", lambda value: signs_of(table_of(value, "when")), None)
    step = Step(
        name,
        table.place,
        table.take("do", lambda value: [_action(one, clients) for one in _many(value)], []),
        when,
        table.take("within", duration, WITHIN_S),
        table.take("after", duration, 0.0),
    )
    table.done()
    if not step.actions and when is None and not step.after_s:
        raise table.error(f"the step {name!r} neither waits nor does anything: it takes when, after, do")
    return step


def _many(value: Any) -> list[Table]:
    return [table_of(one, "do") for one in (value if isinstance(value, list) else [value])]


def _action(table: Table, clients: list[str]) -> Action:
    words = ", ".join(f"{key} {value}" for key, value in table.plain().items())
    place = table.place

    def op(name: str, params: dict[str, Any]) -> Action:
        from broker_sim.control.operations import check

        try:
            check(name, params)
        except UsageError as error:
            raise table.error(f"{name}: {error}") from None
        return Action("op", name, params, place, words)

    if "op" in table:
        return op(table.take("op", text), table.rest())
    if "log" in table:
        log, state = table.take("log", text), table.take("state", text)
        return (
            op("state.heal", {"log": log})
            if state == "online"
            else op("state.set", {"log": log, "state": state, **table.rest()})
        )
    if "fault" in table:
        rule = plain(table.take("fault", lambda value: table_of(value, "fault")))
        params = op("fault.add", rule).params
        name = table.take("as", text, "")
        table.done()
        return Action("fault", name, params, place, words)
    if "remove_fault" in table:
        return _simple(table, Action("remove_fault", table.take("remove_fault", text), {}, place, words))
    if "client" in table:
        return _client_action(table, clients, place, words)
    if "broker" in table:
        broker, action = table.take("broker", number), table.take("action", text)
        if action not in BROKER_ACTIONS:
            raise table.error(str(unknown("action of a broker", action, BROKER_ACTIONS)), "action")
        return op(f"broker.{action}", {"broker": broker, **table.rest()})
    if "topic" in table:
        topic = table.take("topic", text)
        grow, fill = table.take("grow_to", number, None), table.take("fill", number, None)
        table.done()
        if (grow is None) == (fill is None):
            raise table.error("a topic takes grow_to or fill")
        return (
            op("topic.grow", {"topic": topic, "partitions": grow})
            if grow
            else op("topic.fill", {"topic": topic, "records": fill})
        )
    if "advance" in table:
        nobody: list[str] = []
        params = {"seconds": table.take("advance", duration), "expire": table.take("expire", texts, nobody)}
        return _simple(table, Action("advance", "advance", params, place, words))
    if "mark" in table:
        return op("journal.mark", {"text": table.take("mark", text)})
    if "send" in table:
        return _send(table, place, words)
    forms = "op, log, fault, remove_fault, client, broker, topic, advance, mark, send"
    raise table.error(f"nothing to do: an action has one of {forms}")


def _simple(table: Table, action: Action) -> Action:
    table.done()
    return action


def _client_action(table: Table, clients: list[str], place: str, words: str) -> Action:
    names, action = table.take("client", texts), table.take("action", text)
    seconds: float | None = table.take("for", duration, None)
    params = {"clients": clients if names == ["all"] else names, "for_s": seconds}
    for name in names if names != ["all"] else ():
        if name not in clients:
            raise table.error(str(unknown("client", name, [*clients, "all"])), "client")
    if action not in CLIENT_ACTIONS:
        raise table.error(str(unknown("action of a client", action, CLIENT_ACTIONS)), "action")
    return _simple(table, Action("client", action, params, place, words))


def _send(table: Table, place: str, words: str) -> Action:
    if table.take("send", text) != "OffsetCommit":
        raise table.error("send: only OffsetCommit can be sent", "send")
    params: dict[str, Any] = {
        "group": table.take("group", text),
        "member": table.take("member", text, ""),
        "generation": table.take("generation", lambda value: value if value in ("old", "now") else number(value), -1),
        "offsets": table.table("offsets", "offsets").rest(),
        "answer": table.take("answer", _error, "NONE"),
    }
    if not params["offsets"] or not all(isinstance(one, int) for one in params["offsets"].values()):
        raise table.error("offsets: a map of partitions to offsets, as in {orders-0: 5}", "offsets")
    return _simple(table, Action("send", "OffsetCommit", params, place, words))


def _error(value: Any) -> str:
    if value not in Err.__members__:
        raise unknown("error", value, Err.__members__)
    return str(value)


def _expectation(table: Table, steps: list[str]) -> Expectation:
    place = table.place
    for kind in ("never", "happened"):
        if kind in table:
            found = Expectation(kind, signs_of(table.table(kind)), place)
            between = table.take("between", listed, None)
            if between is not None and len(between) != 2:
                raise table.error("between: two steps, the first and the last", "between")
            found.begin = table.take("after", text, between[0] if between else None)
            found.end = between[1] if between else None
            found.within_s = table.take("within", duration, WITHIN_S)
            table.done()
            for step in (found.begin, found.end):
                if step is not None and step not in steps:
                    raise table.error(str(unknown("step", step, steps)), "after" if "after" in table else "between")
            return found
    within = table.take("within", duration, WITHIN_S)
    return Expectation("within", signs_of(table), place, within)
