"""The names of a scenario file: each one that it uses is defined, or declared as external.

A client that reads a topic without records, a state of the partition of a group without members, a ``never`` about an undefined
client would run and hold vacuously. So a name that is not defined in the file is an error, reported with its line and the nearest
defined name. Names of other programs (``--attach``) and of topics that a client lets the brokers create are declared under
``external``:

    external: {topics: [refunds], groups: [audit-*], client_ids: [consumer-*]}

Rules:
1. Definitions are collected from the whole file first; their order does not matter, except that of steps.
2. If the definitions of a kind of name are invalid, references of that kind are not checked: one mistake is one error.
3. A member id is drawn by the brokers and begins with the client's or the instance's id: a pattern of it fits a specimen.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from broker_sim.common.text import UsageError, unknown
from broker_sim.control.resolve import OFFSETS_TOPIC, TRANSACTION_TOPIC, examine_log
from broker_sim.faults.conditions import KINDS
from broker_sim.faults.selectors import fits
from broker_sim.fields.kafka import TransactionalIdLog
from broker_sim.journal import EVENTS
from broker_sim.scenario.expectations import (
    ClientMatcher,
    EventMatcher,
    FaultMatcher,
    GroupMatcher,
    Matcher,
    OffsetRegression,
)
from broker_sim.scenario.files import WrongFile
from broker_sim.storage.checkpoints import partition_of_dir
from broker_sim.storage.partition_for import partition_for

if TYPE_CHECKING:
    from broker_sim.scenario.model import Action, ClientPlan, Scenario

__all__ = ["client_ids", "examine"]

_SPECIMEN = "-00000000-0000-0000-0000-000000000000"
_OFFSETS_PARTITIONS, _TRANSACTION_PARTITIONS = "offsets.topic.num.partitions", "transaction.state.log.num.partitions"

_CHOICES = {
    (kind, "action"): tuple(re.findall(r"`([^`]+)`", fields[name]))
    for kind, fields in EVENTS.items()
    for name in ("action", "action?")
    if name in fields
}
"""(kind of event, field) -> the values that it can have, as far as they are known beforehand."""
_CHOICES["state", "state"] = tuple(KINDS)


def examine(scenario: Scenario, unread: Iterable[str]) -> list[WrongFile]:
    """Return the errors in the names to which a file refers. ``unread``: the sections of which not everything could be read."""
    names = _Names(scenario, frozenset(unread))
    names.clients()
    for step in scenario.steps:
        for action in step.actions:
            names.action(action)
        for matcher in step.when or ():
            names.matcher(matcher, step.where)
    for expectation in scenario.expect:
        for matcher in expectation.matchers:
            names.matcher(matcher, expectation.where)
    return names.errors


def client_ids(plan: ClientPlan) -> list[str]:
    """The client ids of a client; of the kind ``classic`` one for each of its members."""
    if plan.kind == "classic":
        return [f"{plan.name}-{number}" for number in range(1, plan.settings.get("members", 1) + 1)]
    return [plan.name]


class _Names:
    """Names that a file defines, and the errors in its references to names."""

    def __init__(self, scenario: Scenario, unread: frozenset[str]) -> None:
        self.errors: list[WrongFile] = []
        self._scenario, self._external = scenario, scenario.external
        self._brokers = scenario.cluster["brokers"]
        config = scenario.cluster["config"]
        self._offsets_partitions = int(config.get(_OFFSETS_PARTITIONS, "50"))
        self._transaction_partitions = int(config.get(_TRANSACTION_PARTITIONS, "50"))
        actions = [action for step in scenario.steps for action in step.actions]
        plans = scenario.clients
        self._groups = {plan.settings["group"]: None for plan in plans if "group" in plan.settings}
        self._groups |= {action.params["group"]: None for action in actions if _makes_group(action)}
        self._ids = [plan.settings["transactional_id"] for plan in plans if "transactional_id" in plan.settings]
        self._topics: dict[str, int] = {}
        for topic in scenario.topics:
            self._topic(topic.name, topic.partitions)
        for act in actions:
            if act.name == "topic.create":
                self._topic(act.params["topic"], act.params.get("partitions", -1))
        instances = [plan.settings["instance_id"] for plan in plans if "instance_id" in plan.settings]
        self._client_ids = [name for plan in plans for name in client_ids(plan)]
        self._members = [*self._client_ids, *instances]
        self._import()
        for act in actions:
            if act.name == "topic.grow" and act.params["topic"] in self._topics:
                self._topic(act.params["topic"], act.params["partitions"])
        self._faults = [action.name for action in actions if action.verb == "fault" and action.name]
        self._marks = [f"scenario {scenario.name}", *(step.name for step in scenario.steps)]
        self._marks += [action.params["text"] for action in actions if action.name == "journal.mark"]
        self._untold = _untold(unread)
        if "data" in scenario.imported:
            self._untold |= {"group", "partition"}  # they stand in its log, which is read when the cluster starts

    def _topic(self, name: str, partitions: int) -> None:
        """A topic that is made; of one that is made with any number every partition may be there."""
        many = partitions if partitions > 0 else 1 << 31
        self._topics[name] = max(many, self._topics.get(name, 0))

    def _import(self) -> None:
        imported = self._scenario.imported
        if "data" in imported:
            for directory in Path(imported["data"]).iterdir():
                if directory.is_dir() and (named := partition_of_dir(directory.name)) is not None:
                    self._topic(named[0], named[1] + 1)
        if "describe" in imported:
            from broker_sim.migration.group_import import read_describe

            try:
                described = read_describe(Path(imported["describe"]).read_text(encoding="utf-8"))
            except (OSError, ValueError) as error:
                self.errors.append(WrongFile(imported["describe"], str(error)))
                return
            self._groups |= dict.fromkeys(described.groups)
            for group in described.groups.values():
                for topic, partition in group.partitions():
                    self._topic(topic, partition + 1)
                self._client_ids += [member.client_id for member in group.members.values()]
                self._members += [
                    name for member in group.members.values() for name in (member.member_id, member.client_id)
                ]

    # --- what is looked at --------------------------------------------------------------------------------------------

    def clients(self) -> None:
        """Check that the topics that clients read exist, and that each client is started."""
        started = {
            name
            for step in self._scenario.steps
            for action in step.actions
            if action.verb == "client" and action.name == "start"
            for name in action.params["clients"]
        }
        for plan in self._scenario.clients:
            for topic in plan.settings.get("topics", ()):
                self._look("topic", topic, plan.where, f"the client {plan.name}")
            if "pattern" in plan.settings:
                self._subscribed(plan, plan.settings["pattern"])
            if not plan.start and plan.name not in started and "step" not in self._untold and plan.kind != "external":
                self._wrong(plan.where, f"the client {plan.name} has start: false, and no step starts it")

    def _subscribed(self, plan: ClientPlan, pattern: str) -> None:
        """A pattern matches a topic, unless topics come from outside."""
        if "topic" in self._untold or self._external.get("topics"):
            return
        if not any(re.fullmatch(pattern, name) for name in self._topics):
            topics = ", ".join(self._topics) or "none"
            self._wrong(
                plan.where, f"the client {plan.name}: the pattern {pattern!r} matches no topic (topics: {topics})"
            )

    def action(self, action: Action) -> None:
        """Check that everything to which an action refers exists."""
        where, params = action.where, action.params
        if action.verb == "remove_fault":
            self._look("fault", action.name, where, "remove_fault")
        elif action.verb == "fault" or action.name == "order.hold":
            self._rule(params, where)
        elif action.verb == "send":
            if not _makes_group(action):
                self._look("group", params["group"], where, "send")
            if params["answer"] != "UNKNOWN_TOPIC_OR_PARTITION":
                for log in params.get("offsets", ()):
                    self._partition(log, where, "offsets")
        elif action.verb == "advance" or action.name == "clock.advance":
            for name in params.get("expire", ()):
                self._member(name, where, "expire", fits)
        elif action.verb == "op" and action.name == "fault.add":
            self._rule(params, where)
        elif action.verb == "op" and action.name != "topic.create":
            self._operation(action)

    def _operation(self, action: Action) -> None:
        where, params = action.where, action.params
        if "group" in params and not action.name.startswith("journal."):
            self._look("group", params["group"], where, action.name)
        elif "group" in params:
            self._fitting("group", params["group"], where, action.name, fits)
        if "transactional_id" in params:
            self._look("transactional_id", params["transactional_id"], where, action.name)
        if "topic" in params:
            self._look("topic", params["topic"], where, action.name)
        if "log" in params:
            self._log(params["log"], where)
        if "broker" in params:
            self._broker(params["broker"], where)
        for log in params.get("committed", ()):
            self._partition(log, where, "committed")
        for key in ("member", "member_gone"):
            if key in params:
                self._member(params[key], where, key, fits)

    def _rule(self, params: Mapping[str, Any], where: str) -> None:
        """The selectors of a rule on requests, or of a hold."""
        for key in ("group", "client_id", "transactional_id"):
            if key in params:
                self._fitting(key, params[key], where, "", fits)
        if "topic" in params:
            self._fitting("topic", params["topic"], where, "", fits)
            if "partition" in params and "*" not in params["topic"]:
                self._partition(f"{params['topic']}-{params['partition']}", where, "")
        if "member" in params:
            self._member(params["member"], where, "member", fits)
        if "broker" in params:
            self._broker(params["broker"], where)

    def matcher(self, matcher: Matcher, where: str) -> None:
        """Check that everything to which a matcher refers exists."""
        where = matcher.where or where
        if isinstance(matcher, FaultMatcher):
            self._look("fault", matcher.name, where, "fault")
        elif isinstance(matcher, ClientMatcher):
            self._fitting("client", matcher.client, where, "client", fnmatchcase_of)
        elif isinstance(matcher, GroupMatcher | OffsetRegression):
            self._look("group", matcher.group, where, "")
            if isinstance(matcher, GroupMatcher):
                for log in matcher.committed or ():
                    self._partition(log, where, "committed")
                if matcher.leader is not None:
                    self._member(matcher.leader, where, "leader", fnmatchcase_of)
        elif isinstance(matcher, EventMatcher):
            self._event(matcher, where)

    def _event(self, matcher: EventMatcher, where: str) -> None:
        for key, value in matcher.fields.items():
            if (matcher.kind, key) in _CHOICES and isinstance(value, str):
                self._one_of(key, value, _CHOICES[matcher.kind, key], where)
            elif key in ("group", "client_id", "client", "transactional_id") and isinstance(value, str):
                self._fitting(key, value, where, "", fnmatchcase_of)
            elif key == "groups" and isinstance(value, str):
                self._fitting("group", value, where, "groups", fnmatchcase_of)
            elif key == "member" and isinstance(value, str):
                self._member(value, where, key, fnmatchcase_of)
            elif key in ("log", "topics") and isinstance(value, str):
                self._log_of_event(value, where, key)
            elif key == "broker" and isinstance(value, int):
                self._broker(value, where)
            elif matcher.kind == "mark" and key == "text" and isinstance(value, str):
                self._fitting("mark", value, where, "", fnmatchcase_of)

    # --- kinds of names -----------------------------------------------------------------------------------------------

    def _known(self, kind: str) -> list[str]:
        return {
            "group": [*self._groups],
            "topic": [*self._topics, OFFSETS_TOPIC, TRANSACTION_TOPIC],
            "client": [plan.name for plan in self._scenario.clients],
            "client_id": self._client_ids,
            "transactional_id": self._ids,
            "fault": self._faults,
            "mark": self._marks,
        }[kind]

    def _elsewhere(self, kind: str, name: str, match: Callable[[str, str], bool] = fits) -> bool:
        """Whether the file declares such a name as external, or its definitions could not be read."""
        if kind in self._untold:
            return True
        patterns = self._external.get(f"{kind}s", ())
        return any(fits(pattern, name) or match(name, pattern) for pattern in patterns)

    def _look(self, kind: str, name: str, where: str, what: str) -> None:
        """Note an error unless the file defines that name, or declares it under ``external``. ``what``: the key that refers to it."""
        known = self._known(kind)
        if name not in known and not self._elsewhere(kind, name):
            self._unknown(kind, name, known, where, what)

    def _fitting(self, kind: str, pattern: str, where: str, what: str, match: Callable[[str, str], bool]) -> None:
        """The same for a pattern that fits none of the names."""
        known = self._known(kind)
        if not any(match(pattern, name) for name in known) and not self._elsewhere(kind, pattern, match):
            self._unknown(kind, pattern, known, where, what)

    def _member(self, pattern: str, where: str, what: str, match: Callable[[str, str], bool]) -> None:
        """A member by its client id, instance id or, as far as that is known beforehand, member id."""
        known = [*dict.fromkeys([*self._members, *self._known("client")])]
        specimens = [*known, *(name + _SPECIMEN for name in self._members)]
        if any(match(pattern, name) or pattern.startswith(f"{name}-") for name in specimens):
            return
        if "client_id" not in self._untold and not self._elsewhere("client_id", pattern, match):
            self._unknown("member", pattern, known, where, what)

    def _broker(self, number: int, where: str) -> None:
        if not 1 <= number <= self._brokers and "broker" not in self._untold:
            there = "expected 1" if self._brokers == 1 else f"expected 1 to {self._brokers}"
            self._wrong(where, f"no broker {number}; {there}")

    def _log(self, text: str, where: str) -> None:
        """Check that a log's name (``offsets(billing)``, ``transactions(orders-app)``, ``orders-0``) refers to something that the
        scenario defines."""
        try:
            named = examine_log(text)
        except UsageError as error:
            self._wrong(where, str(error))
            return
        if isinstance(named, str):
            self._look("group", named, where, f"log: {text}")
        elif isinstance(named, TransactionalIdLog):
            self._look("transactional_id", named.transactional_id, where, f"log: {text}")
        else:
            self._partition(f"{named[0]}-{named[1]}", where, "log")

    def _partition(self, name: str, where: str, what: str) -> None:
        named = partition_of_dir(name)
        if named is None:
            self._wrong(where, f"{what}: {name!r} is not a partition (expected e.g. orders-0)")
            return
        topic, index = named
        if topic not in self._topics and topic not in (OFFSETS_TOPIC, TRANSACTION_TOPIC):
            self._look("topic", topic, where, what)
            return
        internal = {OFFSETS_TOPIC: self._offsets_partitions, TRANSACTION_TOPIC: self._transaction_partitions}
        many = internal.get(topic) or self._topics[topic]
        if index >= many and not {"topic", "partition"} & self._untold:
            self._wrong(where, f"no partition {index} of topic {topic!r}; expected 0 to {many - 1}")

    def _log_of_event(self, value: str, where: str, key: str) -> None:
        """Events name a partition as in orders-0, requests also a whole topic."""
        if value.startswith("offsets(") and value.endswith(")"):
            place = f"{OFFSETS_TOPIC}-{partition_for(value[8:-1], self._offsets_partitions)}"
            self._wrong(where, f"{key}: events name a log by its partition; write {place} for {value}")
        elif any(letter in value for letter in "*?["):
            topics = self._known("topic")
            close = [name for name in topics if fnmatchcase(name, value) or fnmatchcase(f"{name}-0", value)]
            if not close and not any(value.startswith(f"{name}-") for name in topics):
                self._fitting("topic", value, where, key, fnmatchcase_of)
        elif value not in self._topics:
            self._partition(value, where, key)

    def _one_of(self, key: str, value: str, known: tuple[str, ...], where: str) -> None:
        if not any(fnmatchcase(name, value) for name in known):
            self._wrong(where, f"{key}: {unknown(key, value, known)}")

    # --- errors -------------------------------------------------------------------------------------------------------

    def _unknown(self, kind: str, name: str, known: list[str], where: str, what: str) -> None:
        shown = [name for name in known if name not in (OFFSETS_TOPIC, TRANSACTION_TOPIC)]
        error = unknown(kind.replace("_", " "), name, shown)
        hint = _ELSEWHERE.get(kind, "")
        self._wrong(where, f"{what}: {error}{hint}" if what else f"{error}{hint}")

    def _wrong(self, where: str, text: str) -> None:
        self.errors.append(WrongFile(where, text))


_ELSEWHERE = {
    "group": " (declare a group of another program: external: {groups: [...]})",
    "topic": " (declare a topic of another program: external: {topics: [...]})",
    "client_id": " (declare client ids of other programs: external: {client_ids: [...]})",
    "transactional_id": " (declare transactional ids of other programs: external: {transactional_ids: [...]})",
    "member": " (declare client ids of other programs: external: {client_ids: [...]})",
}


def fnmatchcase_of(pattern: str, name: str) -> bool:
    """As `selectors.fits`, of a matcher's pattern."""
    return fnmatchcase(name, pattern)


def _makes_group(action: Action) -> bool:
    """Whether an action creates a group: a raw OffsetCommit without a member does."""
    return action.verb == "send" and not action.params.get("member") and action.params.get("generation", 0) == -1


def _untold(unread: frozenset[str]) -> set[str]:
    """The kinds of names whose makers stand in these sections."""
    kinds: set[str] = set()
    if "clients" in unread:
        kinds |= {"client", "client_id", "group", "transactional_id"}
    if "topics" in unread:
        kinds |= {"topic", "partition"}
    if "steps" in unread:
        kinds |= {"step", "fault", "mark", "group", "topic", "partition"}
    if "cluster" in unread:
        kinds |= {"broker", "partition"}
    return kinds
