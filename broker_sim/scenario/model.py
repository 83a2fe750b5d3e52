"""A scenario: the content of a file, validated as a whole before anything runs.

    cluster:  {brokers: 3, as_version: "3.9", clock: real, seed: 7, offsets_partitions: 50, initial_rebalance_delay: 3s, config: {...},
               security_protocol: SASL_PLAINTEXT, users: {alice: secret}}
    import:   {describe: groups.txt}
    topics:   [{name: orders, partitions: 6, records: 100, rate: 20/s}]
    known:    {aiokafka: text}                                        why this scenario is broken with these kinds of clients
    external: {topics: [...], groups: [...], client_ids: [...], transactional_ids: [...]}     names of other programs: see references.py
    clients:  [{name: app-1, group: billing, topics: [orders], kind: aiokafka, ...}]     or pattern: "orders-.*" in place of topics
    steps:    [{name: jam, when: SIGN, within: 30s, after: 5s, do: ACTION or [ACTION, ...]}]
    expect:   [{within: 30s, ...SIGN}, {happened: SIGN}, {never: SIGN, between: [jam, heal]}]

A step begins when the one before is done, its ``when`` holds (a deadline: ``within``) and ``after`` has passed. Events that its matcher
counts are those since the step before began to act. Matchers: see matchers.py.
An action is an operation of the control plane (``op: leader.move``, with its parameters), or one of these short forms:

    {log: offsets(billing), state: stuck, for: 40s}      {log: offsets(billing), state: online}
    {fault: {api: OffsetCommit, error: NOT_COORDINATOR, times: 3}, as: lost}      {remove_fault: lost}
    {client: app-1, action: start|leave|crash|freeze|thaw|hang|commit, for: 10s}      a list of clients, or "all"
    {broker: 2, action: down|up|restart}
    {topic: orders, grow_to: 12}      {topic: orders, fill: 100}      {topic: orders, delete: true}
    {advance: 45s, expire: [app-1]}      {mark: text}
    {send: OffsetCommit, group: billing, member: app-1, generation: old, offsets: {orders-0: 5}, answer: ILLEGAL_GENERATION}
    {send: OffsetDelete, group: billing, partitions: [orders-0]}      {send: DeleteGroups, group: billing}

All errors of a file are reported together, a line each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from broker_sim.authentication.security import Security
from broker_sim.common.text import UsageError, unknown
from broker_sim.config.effects import startup
from broker_sim.config.settings import SECURITY_PROTOCOLS, BrokerConfig, ConfigError
from broker_sim.fields.kafka import ErrorCode
from broker_sim.fields.kinds import Choice, Count, MapOf, NameOrNumber, Password, SettingValue
from broker_sim.fields.problems import WrongInput
from broker_sim.scenario.expectations import Matcher, matchers_of
from broker_sim.scenario.files import (
    Table,
    WrongFile,
    duration,
    flag,
    listed,
    load,
    number,
    table_of,
    text,
    texts,
)
from kafka_wire.errors import Err

T = TypeVar("T")

__all__ = ["Action", "ClientPlan", "Expectation", "Scenario", "ScenarioStep", "TopicPlan", "parse", "read"]

SETTINGS_OF = MapOf(SettingValue())
KINDS = (
    *("aiokafka", "confluent", "kafka-python"),
    *("classic", "consumer", "share", "streams", "transactional", "external"),
)
SUBSCRIBE_BY_PATTERN = ("aiokafka", "confluent", "kafka-python", "consumer", "external")
CLIENT_ACTIONS = ("start", "leave", "crash", "freeze", "thaw", "hang", "commit")
SENDS = ("OffsetCommit", "OffsetDelete", "DeleteGroups")
ANY_ANSWER = "*"
BROKER_ACTIONS = ("down", "up", "restart")
MAX_CLIENTS, MAX_BROKERS, MAX_PARTITIONS, MAX_RECORDS, MAX_STEPS = 1000, 100, 10_000, 1_000_000, 100_000
WITHIN_S = 30.0
"""Default timeout of a step for its matcher, and of an expectation."""


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
    """A client. ``settings`` are the app's own: see apps/__init__.py. Kind ``external``: a client of another program, which the
    scenario only waits for."""

    name: str
    kind: str
    settings: dict[str, Any]
    start: bool = True
    joins: bool = True
    """Whether the verdict is broken if it sends no request."""
    where: str = ""


@dataclass(slots=True)
class Action:
    """Something to do. ``verb`` is "op" (``params`` for the operation ``name``), "client", "send", "advance" or "fault".
    ``must_hit``: of a log's state and of a hold: whether a request must meet it."""

    verb: str
    name: str
    params: dict[str, Any]
    where: str
    text: str
    must_hit: bool = True


@dataclass(slots=True)
class ScenarioStep:
    """One step. ``when`` None: at once; ``after_s`` counts from the moment that it held."""

    name: str
    where: str
    actions: list[Action]
    when: list[Matcher] | None
    within_s: float
    after_s: float


@dataclass(slots=True)
class Expectation:
    """Part of the verdict. ``kind``: "within" (holds at some moment within ``within_s`` of the last step), "happened" (has come true by
    then), "never" (at no moment ``after`` one step or ``between`` two; the whole run without them)."""

    kind: str
    matchers: list[Matcher]
    where: str
    within_s: float = WITHIN_S
    begin: str | None = None
    end: str | None = None


@dataclass(slots=True)
class Scenario:
    """A whole file. ``cluster``: the arguments of Cluster."""

    name: str
    description: str
    path: Path | None
    cluster: dict[str, Any]
    imported: dict[str, str]
    topics: list[TopicPlan]
    clients: list[ClientPlan]
    steps: list[ScenarioStep]
    expect: list[Expectation]
    external: dict[str, list[str]] = field(default_factory=dict)
    """Patterns of the names of other programs: topics, groups, client_ids, transactional_ids."""
    places: dict[str, str] = field(default_factory=dict)
    """Setting of ``cluster`` -> ``file:line``, of those that the file sets."""
    known: dict[str, str] = field(default_factory=dict)
    """Kind of client -> what it does that breaks the verdict, as is known."""

    @property
    def summary(self) -> str:
        """The first sentence of the description, on one line; the name if there is no description."""
        words = " ".join(self.description.split("\n\n")[0].split())
        sentence = re.match(r".*?[.!?](?=\s|$)", words)
        return sentence[0] if sentence else words or self.name


def read(path: Path) -> Scenario:
    """The scenario of a file. Raises WrongFile."""
    return parse(load(path), path)


def parse(table: Table, path: Path | None = None) -> Scenario:
    """The scenario of a table. Raises WrongFile with all that is wrong with it."""
    from broker_sim.scenario.references import examine

    table.only("name", "description", "known", "cluster", "import", "topics", "external", "clients", "steps", "expect")
    sections = ["cluster", "topics", "clients", "steps"]
    unread = sections if table.errors else []  # one of them may be misspelled

    def section(name: str, read: Callable[[], T], otherwise: T) -> T:
        """A part of the file; what can't be made of it is noted, and remembered as not read."""
        before = len(table.errors)
        try:
            return read()
        except WrongFile as error:
            table.errors.append(error)
            return otherwise
        finally:
            if len(table.errors) > before:
                unread.append(name)

    no_clients: list[ClientPlan] = []
    scenario = Scenario(
        name=table.take("name", text, path.stem if path else "scenario"),
        description=table.take("description", text, "").strip(),
        path=path,
        known=_known(table.table("known")),
        cluster=section("cluster", lambda: _cluster(table.table("cluster")), {"brokers": MAX_BROKERS, "config": {}}),
        imported=section("topics", lambda: _imported(table.table("import"), path), {}),
        external=section("topics", lambda: _external(table.table("external")), {}),
        topics=section("topics", lambda: table.each("topics", "a topic", _topic), []),
        clients=section("clients", lambda: sum(table.each("clients", "a client", _clients), no_clients), no_clients),
        steps=[],
        expect=[],
    )
    scenario.places = _places(table.table("cluster"))
    _twice(table, "clients", [(client.name, client.where) for client in scenario.clients])
    declared = _Declared(scenario.clients, "clients" not in unread)
    places = iter(range(1, MAX_STEPS))
    scenario.steps = section(
        "steps", lambda: table.each("steps", "a step", lambda item: _step(item, next(places), declared)), []
    )
    _twice(table, "steps", [(step.name, step.where) for step in scenario.steps])
    _twice(table, "faults", declared.faults)
    steps = None if "steps" in unread else [step.name for step in scenario.steps]
    scenario.expect = table.each("expect", "an expectation", lambda item: _expectation(item, steps))
    table.errors += examine(scenario, unread)
    if "expect" not in table or not (scenario.expect or table.errors):
        table.errors.append(table.error("a scenario needs the key 'expect', with one expectation or more"))
    table.check()
    return scenario


@dataclass(slots=True)
class _Declared:
    """The names that steps and expectations may refer to: clients, rules, steps."""

    clients: list[ClientPlan]
    complete: bool
    """Whether these are all; else what isn't among them may be one that could not be read."""
    faults: list[tuple[str, str]] = field(default_factory=list)
    """Names and places, those of rules that are wrong, too."""


def _twice(table: Table, what: str, named: list[tuple[str, str]]) -> None:
    """Note the names that are given a second time."""
    seen: dict[str, str] = {}
    for name, where in named:
        if name in seen:
            first = seen[name].rpartition(":")[2]
            table.errors.append(
                WrongFile(where, f"two {what} have the name {name!r}, the first one in line {first}; rename one")
            )
        seen.setdefault(name, where)


_SETTINGS = (
    ("offsets_partitions", "offsets.topic.num.partitions", 1),
    ("initial_rebalance_delay", "group.initial.rebalance.delay.ms", 1000),
    ("commit_timeout", "offsets.commit.timeout.ms", 1000),
    ("min_session_timeout", "group.min.session.timeout.ms", 1000),
)
"""Short key, Kafka's name of the setting, and the factor between their values."""


def _places(table: Table) -> dict[str, str]:
    """Map each setting that ``cluster`` sets to its place in the file."""
    places = {name: table.where(name) for name in ("brokers", "as_version", "security_protocol") if name in table}
    places |= {setting: table.where(key) for key, setting, _ in _SETTINGS if key in table}
    config = table.peek("config")
    return places | ({name: config.where(name) for name in config.names()} if isinstance(config, Table) else {})


def _cluster(table: Table) -> dict[str, Any]:
    nothing: dict[str, str] = {}
    config = dict(table.take("config", SETTINGS_OF, nothing))
    for key, setting, factor in _SETTINGS:
        value = table.take(key, duration if factor == 1000 else number, None)
        if value is not None:
            config[setting] = str(round(value * factor))
    config.setdefault("group.initial.rebalance.delay.ms", "0")
    options: dict[str, Any] = {
        "brokers": table.take("brokers", Count(1, MAX_BROKERS), 1),
        "as_version": table.take("as_version", text, "4.1"),
        "clock": table.take("clock", _clock, "real"),
        "seed": table.take("seed", NameOrNumber(), None),
        "config": config,
    }
    protocol = table.take("security_protocol", Choice(SECURITY_PROTOCOLS), SECURITY_PROTOCOLS[0])
    users = table.take("users", MapOf(Password()), nothing)
    options |= {"security_protocol": protocol, "users": users} if protocol != SECURITY_PROTOCOLS[0] or users else {}
    table.done()
    try:
        given = startup(config, options["as_version"])
        if given.refused:
            raise ConfigError("\n".join(given.refused))
        settings = BrokerConfig(given.values, options["as_version"])
    except ConfigError as error:
        table.errors += [table.error(line, "config" if "config" in table else None) for line in str(error).split("\n")]
        config.clear()
    else:
        _check_security(table, protocol, users, settings)
    return options


def _check_security(table: Table, protocol: str, users: Mapping[str, str], settings: BrokerConfig) -> None:
    try:
        if Security(protocol, users, None, settings).has_sasl and not users:
            raise UsageError("users: a scenario's clients need one")
    except UsageError as error:
        table.errors.append(table.error(str(error), "security_protocol" if "security_protocol" in table else "users"))


def _imported(table: Table, path: Path | None) -> dict[str, str]:
    paths = {key: table.take(key, text, "") for key in ("describe", "data")}
    table.done()
    base = path.parent if path else Path()
    for key, value in paths.items():
        if value and path and not (base / value).exists():
            table.errors.append(table.error(f"{key}: {base / value}: no such file", key))
            paths[key] = ""
    return {key: str(base / value) for key, value in paths.items() if value}


def _known(table: Table) -> dict[str, str]:
    table.only(*KINDS)
    return {kind: table.take(kind, text, "") for kind in KINDS if kind in table}


def _external(table: Table) -> dict[str, list[str]]:
    empty: list[str] = []
    names = {key: table.take(key, texts, empty) for key in ("topics", "groups", "client_ids", "transactional_ids")}
    table.done()
    return names


def _topic(table: Table) -> TopicPlan:
    plan = TopicPlan(
        table.take("name", text),
        table.take("partitions", Count(1, MAX_PARTITIONS), 1),
        table.take("records", Count(0, MAX_RECORDS), 0),
        table.take("rate", _rate, 0.0),
        table.take("replication", number, -1),
        table.take("configs", SETTINGS_OF, {}),
        table.place,
    )
    table.done()
    return plan


def _clock(value: object) -> str:
    from broker_sim.common.clock import clock_of

    clock_of(text(value))
    return text(value)


def _rate(value: object) -> float:
    spelled = text(value).replace(" ", "")
    digits = spelled[:-2] if spelled.endswith("/s") else spelled
    try:
        rate = float(digits)
    except ValueError:
        rate = -1.0
    if not 0 <= rate <= 10_000:
        raise UsageError(f"{value!r} is not a rate (expected e.g. 200/s, at most 10000/s)")
    return rate


def _clients(table: Table) -> list[ClientPlan]:
    """One client, or with ``count`` as many, called NAME-1 and so on."""
    from broker_sim.scenario.apps import SETTINGS

    name, many = table.take("name", text), table.take("count", Count(1, MAX_CLIENTS), 1)
    kind, start = table.take("kind", Choice(KINDS, "kind of client"), "aiokafka"), table.take("start", flag, True)
    joins = table.take("joins", flag, True)
    settings = {key: table.take(key, reader, None) for key, reader in SETTINGS.items()}
    settings = {key: value for key, value in settings.items() if value is not None}
    _check_subscription(table, name, kind, settings)
    table.done()
    where = next((table.where(key) for key in ("topics", "pattern") if key in table), table.place)
    if many == 1:
        return [ClientPlan(name, kind, settings, start, joins, where)]
    names = [f"{name}-{number}" for number in range(1, many + 1)]
    return [ClientPlan(name, kind, dict(settings), start, joins, where) for name in names]


def _check_subscription(table: Table, name: str, kind: str, settings: dict[str, Any]) -> None:
    """Note what is wrong with the topics that a client names, or the pattern."""
    if not settings.get("topics") and "pattern" not in table:
        need = "topics, or a pattern" if kind in SUBSCRIBE_BY_PATTERN else "topics"
        table.errors.append(table.error(f"the client {name} needs {need}"))
    if "pattern" not in settings:
        return
    if kind not in SUBSCRIBE_BY_PATTERN:
        who = f"a client of the kind {kind} takes topics"
        table.errors.append(table.error(f"{who}; a pattern is for {', '.join(SUBSCRIBE_BY_PATTERN)}", "pattern"))
    for other in ("topics", "assign"):
        if settings.get(other):
            table.errors.append(table.error(f"the client {name} has both {other} and pattern; remove one", "pattern"))


def _step(table: Table, place: int, declared: _Declared) -> ScenarioStep:
    before = len(table.errors)
    step = ScenarioStep(
        table.take("name", text, f"step {place}"),
        table.place,
        _actions(table, declared),
        table.take("when", lambda value: matchers_of(table_of(value, "when")), None),
        table.take("within", duration, WITHIN_S),
        table.take("after", duration, 0.0),
    )
    table.done()
    idle = not step.actions and step.when is None and not step.after_s
    if idle and len(table.errors) == before:
        raise table.error(f"the step {step.name!r} is empty; expected one or more of when, after, do")
    return step


def _actions(table: Table, declared: _Declared) -> list[Action]:
    """Read the actions of ``do``: one action, or a list of them."""
    if isinstance(table.peek("do"), list):
        return table.each("do", "do", lambda item: _action(item, declared))
    return table.take("do", lambda value: [_action(table_of(value, "do"), declared)], [])


# A chain of conditions and no table: the first key names the form, and most forms are one line, the operation that they stand for.
def _action(table: Table, declared: _Declared) -> Action:
    words = ", ".join(f"{key} {value}" for key, value in table.plain().items())
    place = table.place

    def op(name: str, params: dict[str, Any], stands: Table = table) -> Action:
        from broker_sim.control.operations import check, find

        try:
            if find(name).on != "cluster" or name.startswith("scenario."):
                raise UsageError("not available in scenarios: a scenario has one cluster and one file")
            checked = check(name, params)
        except WrongInput as error:
            raise stands.errors_of(error, f"{name}: ") from None
        except UsageError as error:
            raise table.error(f"{name}: {error}") from None
        return Action("op", name, {key: checked[key] for key in params if key in checked}, place, words, must_hit)

    must_hit = True
    if "log" in table or table.peek("op") in ("state.set", "order.hold"):
        must_hit = table.take("must_hit", flag, True)
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
        name = table.take("as", text, "")
        if name:
            declared.faults.append((name, table.where("as")))
        rule = table.take("fault", lambda value: table_of(value, "fault"))
        params = op("fault.add", rule.plain(), rule).params
        table.done()
        return Action("fault", name, params, place, words)
    if "remove_fault" in table:
        return _simple(table, Action("remove_fault", table.take("remove_fault", text), {}, place, words))
    if "client" in table:
        return _client_action(table, declared, place, words)
    if "broker" in table:
        broker = table.take("broker", number)
        action = table.take("action", Choice(BROKER_ACTIONS, "action of a broker"))
        return op(f"broker.{action}", {"broker": broker, **table.rest()})
    if "topic" in table:
        topic = table.take("topic", text)
        grow, fill = table.take("grow_to", number, None), table.take("fill", number, None)
        delete = table.take("delete", flag, False)
        table.done()
        if (grow is not None) + (fill is not None) + delete != 1:
            raise table.error("expected exactly one of grow_to, fill, delete: true")
        if delete:
            return op("topic.delete", {"topic": topic})
        return (
            op("topic.fill", {"topic": topic, "records": fill})
            if grow is None
            else op("topic.grow", {"topic": topic, "partitions": grow})
        )
    if "advance" in table:
        empty: list[str] = []
        params = {"seconds": table.take("advance", duration), "expire": table.take("expire", texts, empty)}
        return _simple(table, Action("advance", "advance", params, place, words))
    if "mark" in table:
        marked = op("journal.mark", {"text": table.take("mark", text)})
        return _simple(table, marked)
    if "send" in table:
        return _send(table, place, words)
    forms = "op, log, fault, remove_fault, client, broker, topic, advance, mark, send"
    raise table.error(f"no action; expected one of {forms}")


def _simple(table: Table, action: Action) -> Action:
    table.done()
    return action


def _client_action(table: Table, declared: _Declared, place: str, words: str) -> Action:
    names = table.take("client", texts)
    action = table.take("action", Choice(CLIENT_ACTIONS, "action of a client"))
    seconds: float | None = table.take("for", duration, None)
    ours = [plan.name for plan in declared.clients if plan.kind != "external"]
    params = {"clients": ours if names == ["all"] else names, "for_s": seconds}
    for name in names if names != ["all"] else ():
        if any(plan.name == name and plan.kind == "external" for plan in declared.clients):
            raise table.error(f"the client {name} belongs to another program; a scenario can't {action} it", "client")
        if name not in ours and declared.complete:
            raise table.error(str(unknown("client", name, [*ours, "all"])), "client")
    if seconds is not None and action not in ("freeze", "hang"):
        raise table.error(f"for: only freeze and hang have a duration, not {action}", "for")
    return _simple(table, Action("client", action, params, place, words))


def _send(table: Table, place: str, words: str) -> Action:
    api = table.take("send", Choice(SENDS, "request to send"))
    if api != "OffsetCommit":
        return _send_deletion(table, api, place, words)
    params: dict[str, Any] = {
        "group": table.take("group", text),
        "member": table.take("member", text, ""),
        "generation": table.take("generation", lambda value: value if value in ("old", "now") else number(value), -1),
        "offsets": table.take("offsets", MapOf(Count(0)), dict[str, int]()),
        "answer": _answer(table),
    }
    if not params["offsets"]:
        raise table.error("offsets: a map of partitions to offsets, as in {orders-0: 5}", "offsets")
    return _simple(table, Action("send", "OffsetCommit", params, place, words))


def _answer(table: Table) -> str:
    """The error that a request must get; ANY_ANSWER: any, or none."""
    if table.peek("answer") == ANY_ANSWER:
        return table.take("answer", text)
    return str(table.take("answer", ErrorCode(none=True), Err.NONE).name)


def _send_deletion(table: Table, api: str, place: str, words: str) -> Action:
    """Read an admin client's deletion: of a group, or of its offsets of some partitions."""
    empty: list[str] = []
    params: dict[str, Any] = {"group": table.take("group", text)}
    if api == "OffsetDelete":
        params["offsets"] = dict.fromkeys(table.take("partitions", texts, empty), 0)
        if not params["offsets"]:
            raise table.error("partitions is missing: the partitions whose offsets are deleted, as in [orders-0]")
    params["answer"] = _answer(table)
    return _simple(table, Action("send", api, params, place, words))


def _expectation(table: Table, steps: list[str] | None) -> Expectation:
    """``steps``: the names of all steps in their order, None where they could not be read."""
    place = table.place
    kinds = [kind for kind in ("never", "happened") if kind in table]
    if len(kinds) > 1:
        raise table.error("never and happened are two expectations; write an entry for each")
    if not kinds:
        within = table.take("within", duration, WITHIN_S)
        return Expectation("within", matchers_of(table), place, within)
    expectation = Expectation(kinds[0], matchers_of(table.table(kinds[0])), place)
    begin, end = _between(table, steps)
    if end is not None and "after" in table:
        raise table.error("after and between exclude each other; remove one", "after")
    expectation.begin, expectation.end = table.take("after", text, begin), end
    if expectation.kind == "happened" and expectation.begin is not None:
        raise table.error("happened applies to the whole run; remove after and between")
    if expectation.kind == "never" and "within" in table:
        raise table.error("never applies to the whole time; remove within", "within")
    expectation.within_s = table.take("within", duration, WITHIN_S)
    table.done()
    if steps is not None and "after" in table and expectation.begin not in steps:
        raise table.error(str(unknown("step", expectation.begin, steps)), "after")
    return expectation


def _between(table: Table, steps: list[str] | None) -> tuple[str | None, str | None]:
    """The names of the two steps of ``between``, (None, None) without the key. ``steps``: the names in order. Raises WrongFile for
    unknown steps, and if the second is not after the first."""
    between = table.take("between", listed, None)
    if between is None:
        return None, None
    if len(between) != 2:
        raise table.error("between: expected two steps, [FIRST, LAST]", "between")
    begin, end = text(between[0]), text(between[1])
    if steps is not None:
        for step in (begin, end):
            if step not in steps:
                raise table.error(str(unknown("step", step, steps)), "between")
        if steps.index(end) <= steps.index(begin):
            raise table.error(f"between: the step {end!r} is not after {begin!r}", "between")
    return begin, end
