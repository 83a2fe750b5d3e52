"""Wrong files: told with the line, the key and what was meant, before anything runs; whatever stands in them."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_sim.coordinator import shard
from broker_sim.coordinator.transaction import shard as transaction_shard
from broker_sim.scenario.apps import COMMITS, SETTINGS
from broker_sim.scenario.commands import shipped
from broker_sim.scenario.files import MAX_BYTES, MAX_VALUES, WrongFile, count, loads
from broker_sim.scenario.model import BROKER_ACTIONS, CLIENT_ACTIONS, KINDS, parse, read

RIGHT = """\
name: right
cluster: {brokers: 2, as_version: "3.9"}
topics:
  - {name: orders, partitions: 2, records: 10}
clients:
  - {name: app-1, group: billing, topics: [orders], session_timeout: 6s}
steps:
  - name: it works
    when: {group: billing, state: Stable, members: 1}
    within: 10s
  - name: jam
    do: {log: offsets(billing), state: stuck, for: 2s}
  - name: refused
    do:
      - {fault: {api: OffsetCommit, error: NOT_COORDINATOR, times: 2}, as: lost}
      - {client: app-1, action: freeze, for: 1s}
  - name: hit
    when: {api: OffsetCommit, error: NOT_COORDINATOR, count: ">=2"}
expect:
  - within: 20s
    group: {billing: {state: Stable, members: 1}}
  - happened: {fault: lost, hits: 2}
  - never: {group: billing, committed: decreased}
    between: [it works, hit]
"""


def test_the_right_one_is_right() -> None:
    scenario = parse(loads(RIGHT))
    assert [step.name for step in scenario.steps] == ["it works", "jam", "refused", "hit"]


@pytest.mark.parametrize(
    ("right", "wrong", "line", "told"),
    [
        ("brokers: 2", "broker: 2", 2, "cluster has no key 'broker'; did you mean 'brokers'?"),
        ("brokers: 2", "brokers: two", 2, "brokers: 'two' is not a whole number"),
        ("brokers: 2", "brokers: 0", 2, "brokers: 0 is not a whole number from 1 to 100"),
        ('"3.9"', '"2.8"', 2, "2.8"),
        ("brokers: 2", "clock: manuel", 2, "clock: no clock 'manuel'; did you mean 'manual'?"),
        ("brokers: 2", "config: {num.partition: 3}", 2, "num.partitions"),
        ("partitions: 2", "partition: 2", 4, "a topic has no key 'partition'; did you mean 'partitions'?"),
        ("records: 10", "records: true", 4, "records: True is not a whole number"),
        ("records: 10", "rate: fast", 4, "rate: 'fast' is not a rate (expected e.g. 200/s"),
        ("session_timeout", "session_timout", 6, "did you mean 'session_timeout'?"),
        ("topics: [orders]", "topics: []", 6, "the client app-1 needs topics, or a pattern"),
        (
            "topics: [orders]",
            'pattern: "ord(ers"',
            6,
            "pattern: 'ord(ers' is not a regular expression: missing ), unter",
        ),
        ("topics: [orders]", 'pattern: "order"', 6, "the pattern 'order' matches no topic (topics: orders)"),
        ("topics: [orders]", 'topics: [orders], pattern: "ord.*"', 6, "has both topics and pattern; remove one"),
        ("topics: [orders]", 'assign: true, pattern: "ord.*"', 6, "has both assign and pattern; remove one"),
        (
            "topics: [orders]",
            'kind: classic, pattern: "ord.*"',
            6,
            "a client of the kind classic takes topics; a pattern is for",
        ),
        ("topics: [orders]", "kind: classic", 6, "the client app-1 needs topics"),
        (
            "{client: app-1, action: freeze, for: 1s}",
            "{topic: orders, delete: true, fill: 3}",
            16,
            "one of grow_to, fill",
        ),
        ("{client: app-1, action: freeze, for: 1s}", "{topic: orders, delete: false}", 16, "one of grow_to, fill"),
        ("{client: app-1, action: freeze, for: 1s}", "{topic: ordres, delete: true}", 16, "did you mean 'orders'?"),
        (
            "topics: [orders]",
            "topics: [orders], kind: aiokafkaa",
            6,
            "kind of client 'aiokafkaa'; did you mean 'aiokafka'?",
        ),
        ("topics: [orders]", "topics: [orders], commit: always", 6, "way to commit 'always'"),
        (
            "topics: [orders]",
            "topics: [orders], count: 100000",
            6,
            "count: 100000 is not a whole number from 1 to 1000",
        ),
        (
            "state: Stable, members: 1}\n    within",
            "state: Stabel, members: 1}\n    within",
            9,
            "did you mean 'Stable'?",
        ),
        ("members: 1}\n    within", "member: 1}\n    within", 9, "did you mean 'members'?"),
        ("members: 1}\n    within", "members: some}\n    within", 9, "is not a count (expected e.g. 3, '>=3', '<3')"),
        ("within: 10s", "within: 10 seconds", 10, "within: '10 seconds' is not a duration"),
        ("within: 10s", "whitin: 10s", 10, "a step has no key 'whitin'; did you mean 'within'?"),
        ("state: stuck", "state: stuk", 12, "did you mean 'stuck'?"),
        ("for: 2s", "fro: 2s", 12, "for"),
        ("offsets(billing)", "orders", 12, "orders"),
        (
            "api: OffsetCommit, error: NOT_COORDINATOR, times",
            "api: OffsetComit, error: NOT_COORDINATOR, times",
            15,
            "OffsetCommit",
        ),
        ("error: NOT_COORDINATOR, times", "error: NOT_COORDINATR, times", 15, "did you mean 'NOT_COORDINATOR'?"),
        ("times: 2", "time: 2", 15, "did you mean 'times'?"),
        ("client: app-1", "client: app-2", 16, "no client 'app-2'; did you mean 'app-1'?"),
        ("action: freeze", "action: freze", 16, "did you mean 'freeze'?"),
        (
            "when: {api: OffsetCommit",
            "when: {api: OffsetComit",
            18,
            "no API 'OffsetComit'; did you mean 'OffsetCommit'?",
        ),
        ("error: NOT_COORDINATOR, count", "error: NOT_A_COORDINATOR, count", 18, "did you mean 'NOT_COORDINATOR'?"),
        ('count: ">=2"', 'cuont: ">=2"', 18, "did you mean 'count'?"),
        ("fault: lost", "fault: lots", 22, "fault: no fault 'lots'; did you mean 'lost'?"),
        ("between: [it works, hit]", "between: [it works, hitt]", 24, "no step 'hitt'; did you mean 'hit'?"),
        ("between: [it works, hit]", "between: it works", 24, "between: 'it works' is not a list"),
        ("between: [it works, hit]", "between: [hit]", 24, "between: expected two steps, [FIRST, LAST]"),
        ("- happened:", "- hapened:", 22, "did you mean 'happened'?"),
        ("committed: decreased", "comitted: decreased", 23, "did you mean 'committed'?"),
        ("steps:", "stages:", 7, "the file has no key 'stages'; did you mean 'steps'?"),
        ("name: right", "name: right\nname: again", 2, "the key 'name' occurs twice in one map"),
        ("name: right", "name: right\nimport: {describe: nowhere.txt}", 2, "nowhere.txt: no such file"),
        ("name: right", "name: 2001-02-30", 1, "invalid value '2001-02-30': "),
        ("name: right", "name: !!python/object:os.system right", 1, "invalid YAML"),
        ("name: right", "[a, b]: right", 1, "a key must be a word, not a list or a map"),
        ("name: right", "name: [right", 2, "invalid YAML"),
    ],
)
def test_an_error_has_its_line_and_the_nearest_valid_name(
    tmp_path: Path, right: str, wrong: str, line: int, told: str
) -> None:
    assert RIGHT.count(right) >= 1
    path = tmp_path / "wrong.yaml"
    path.write_text(RIGHT.replace(right, wrong, 1))
    with pytest.raises(WrongFile) as error:
        read(path)
    text = str(error.value)
    assert text.startswith(f"{path}:{line}: "), text
    assert told in text
    assert "\n" not in text


def test_a_scenario_that_expects_nothing_proves_nothing() -> None:
    with pytest.raises(WrongFile, match="needs the key 'expect'"):
        parse(loads("steps: [{after: 1s}]"))


def test_an_expectation_has_a_condition_besides_its_time() -> None:
    with pytest.raises(WrongFile, match="no condition for billing; expected one of state, members"):
        parse(loads("external: {groups: billing}\nexpect: [{within: 5s, group: billing}]"))
    text = "external: {groups: billing}\nexpect: [{within: 5s, api: JoinGroup, group: billing}]"
    (matcher,) = parse(loads(text)).expect[0].matchers
    assert matcher.what == "request: api JoinGroup, group billing"


MANY = """\
name: wrong in many ways
cluster: {brokers: two, clock: manuel}
topics:
  - {name: orders, partitons: 6}
  - {name: payments, records: many}
clients:
  - {name: app-1, group: billing, topics: [order], kind: aiokafkaa, session_timeout: long}
  - {group: billing, topics: [orders]}
steps:
  - name: jam
    do:
      - {log: offsets(biling), state: stuck}
      - {log: offsets(billing), state: stuk}
      - {fault: {api: OffsetComit, error: NOT_COORDINATOR}, as: lost}
  - name: jam
    when: {group: billing, state: Stabel}
    within: soon
expect:
  - never: {client: app-7, reports: commited}
  - happened: {fault: lost}
  - {group: biling, members: 1}
"""


def test_all_errors_are_reported_together_each_with_its_line() -> None:
    with pytest.raises(WrongFile) as error:
        parse(loads(MANY))
    told = str(error.value).splitlines()
    places = [int(line.split(":")[1]) for line in told]
    assert places == sorted(places)
    wanted = {
        2: ["brokers: 'two'", "did you mean 'manual'?"],
        4: ["did you mean 'partitions'?"],
        5: ["records: 'many'"],
        7: ["did you mean 'aiokafka'?", "session_timeout: 'long'"],
        8: ["a client needs the key 'name'"],
        13: ["did you mean 'stuck'?"],
        14: ["did you mean 'OffsetCommit'?"],
        15: ["two steps have the name 'jam', the first one in line 10"],
        16: ["did you mean 'Stable'?"],
        17: ["within: 'soon'"],
        19: ["did you mean 'committed'?"],
    }
    for line, texts in wanted.items():
        here = [one for one, place in zip(told, places, strict=True) if place == line]
        assert len(here) == len(texts), here
        for text in texts:
            assert any(text in one for one in here), here
    assert set(places) == set(wanted), "what could not be read is no reason to complain of who names it"


@pytest.mark.parametrize(
    ("right", "wrong", "line", "told"),
    [
        ("topics: [orders]", "topics: [order]", 6, "the client app-1: no topic 'order'; did you mean 'orders'?"),
        ("offsets(billing)", "offsets(biling)", 12, "no group 'biling'; did you mean 'billing'?"),
        ("offsets(billing)", "orders-2", 12, "no partition 2 of topic 'orders'; expected 0 to 1"),
        ("offsets(billing)", "ordres-0", 12, "no topic 'ordres'; did you mean 'orders'?"),
        ("offsets(billing)", "__consumer_offsets-50", 12, "expected 0 to 49"),
        ("api: OffsetCommit, error", "api: OffsetCommit, group: biling, error", 15, "did you mean 'billing'?"),
        ("api: OffsetCommit, error", "api: OffsetCommit, client_id: ap-1, error", 15, "did you mean 'app-1'?"),
        ("api: OffsetCommit, error", "api: OffsetCommit, client_id: 'pp-*', error", 15, "no client id 'pp-*'"),
        ("api: OffsetCommit, error", "api: OffsetCommit, member: app-2, error", 15, "no member 'app-2'"),
        ("api: OffsetCommit, error", "api: Fetch, topic: order, error", 15, "did you mean 'orders'?"),
        ("api: OffsetCommit, error", "api: Fetch, topic: orders, partition: 2, error", 15, "no partition 2"),
        ("api: OffsetCommit, error", "broker: 3, error", 15, "no broker 3; expected 1 to 2"),
        (
            "when: {api: OffsetCommit, error",
            "when: {api: OffsetCommit, group: biling, error",
            18,
            "did you mean 'billing'?",
        ),
        (
            "when: {api: OffsetCommit, error",
            "when: {api: OffsetCommit, client_id: ap-1, error",
            18,
            "did you mean 'app-1'?",
        ),
        (
            "when: {api: OffsetCommit, error",
            "when: {api: OffsetCommit, topics: order-0, error",
            18,
            "did you mean 'orders'?",
        ),
        ("group: {billing:", "group: {biling:", 21, "did you mean 'billing'?"),
        ("members: 1}}", "leader: ap-1}}", 21, "leader: no member 'ap-1'; did you mean 'app-1'?"),
        ("members: 1}}", "committed: {orders-7: 1}}}", 21, "no partition 7"),
        (
            "never: {group: billing, committed: decreased}",
            "never: {group: biling, committed: decreased}",
            23,
            "billing",
        ),
        (
            "never: {group: billing, committed: decreased}",
            "never: {client: ap-1, reports: lost}",
            23,
            "did you mean 'app-1'?",
        ),
        (
            "never: {group: billing, committed: decreased}",
            "never: {event: append, log: offsets(billing)}",
            23,
            "events name a log by its partition; write __consumer_offsets-",
        ),
        (
            "never: {group: billing, committed: decreased}",
            "never: {event: broker, action: dwon}",
            23,
            "no action 'dwon'; did you mean 'down'?",
        ),
        (
            "never: {group: billing, committed: decreased}",
            "never: {event: mark, text: jamm}",
            23,
            "did you mean 'jam'?",
        ),
        ("between: [it works, hit]", "between: [hit, it works]", 24, "the step 'it works' is not after 'hit'"),
        ("between: [it works, hit]", "between: [hit, hit]", 24, "is not after"),
        ("between: [it works, hit]", "within: 5s", 24, "never applies to the whole time"),
        ("session_timeout: 6s", "start: false", 6, "the client app-1 has start: false, and no step starts it"),
        ("name: jam", "name: it works", 11, "two steps have the name 'it works', the first one in line 8"),
        (
            "client: app-1, action: freeze, for: 1s",
            "client: app-1, action: crash, for: 1s",
            16,
            "only freeze and hang have a duration, not crash",
        ),
        ("client: app-1, action: freeze, for: 1s", "op: cluster.delete, cluster: a", 16, "cluster.delete"),
    ],
)
def test_an_undefined_name_is_an_error(right: str, wrong: str, line: int, told: str) -> None:
    assert right in RIGHT
    with pytest.raises(WrongFile) as error:
        parse(loads(RIGHT.replace(right, wrong, 1)))
    (text,) = str(error.value).splitlines()
    assert text.startswith(f"scenario:{line}: "), text
    assert told in text


def test_names_of_other_programs_are_declared_as_external() -> None:
    theirs = RIGHT.replace("[orders]", "[orders, refunds]").replace(
        "offsets(billing), state: stuck", "offsets(audit), state: stuck"
    )
    theirs = theirs.replace("{api: LeaveGroup}", "").replace(
        "{api: OffsetCommit, error: NOT_COORDINATOR, count",
        "{api: OffsetCommit, client_id: theirs-1, error: NOT_COORDINATOR, count",
    )
    with pytest.raises(WrongFile) as error:
        parse(loads(theirs))
    assert str(error.value).count("\n") == 2
    assert str(error.value).count("external: {") == 3
    external = "external: {topics: [refunds], groups: [audit], client_ids: ['theirs-*']}\n"
    assert parse(loads(external + theirs)).external["groups"] == ["audit"]


def test_names_defined_by_steps_and_imports_are_known(tmp_path: Path) -> None:
    (tmp_path / "groups.txt").write_text(
        "GROUP    TOPIC   PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG  CONSUMER-ID  HOST  CLIENT-ID\n"
        "billing  orders  1          5               9               4    -            -     -\n"
    )
    text = """\
import: {describe: groups.txt}
steps:
  - do: [{op: topic.create, topic: late, partitions: 2}, {topic: late, grow_to: 4}, {log: late-3, state: stuck}]
  - do: [{log: offsets(billing), state: stuck}, {log: orders-1, state: stuck}]
  - do: {send: OffsetCommit, group: made, offsets: {orders-0: 1}}
expect:
  - {group: made, committed: {orders-0: 1}}
"""
    assert len(parse(loads(text), tmp_path / "a.yaml").steps) == 3
    with pytest.raises(WrongFile, match="no partition 2 of topic 'orders'; expected 0 to 1"):
        parse(loads(text.replace("log: orders-1", "log: orders-2")), tmp_path / "a.yaml")


def test_two_clients_of_one_name() -> None:
    client = "{name: app, topics: [orders]}"
    with pytest.raises(WrongFile, match="two clients have the name 'app'"):
        parse(
            loads(f"topics: [{{name: orders}}]\nclients: [{client}, {client}]\nexpect: [{{happened: {{api: Fetch}}}}]")
        )


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "a scenario is a map"),
        (b"- a\n- b\n", "a scenario is a map"),
        (b"name: \xff\xfe", "not UTF-8"),
        (b"name: a\x00b", "invalid YAML"),
        (b"a: 1\n---\nb: 2\n", "invalid YAML"),
        (b"a: *nobody\n", "invalid YAML"),
        (b"a: " + b"[" * 20_000, "nested too deeply"),
        (b"#" * (MAX_BYTES + 1), "larger than"),
    ],
)
def test_files_that_are_no_scenarios(tmp_path: Path, content: bytes, told: str) -> None:
    path = tmp_path / "other.yaml"
    path.write_bytes(content)
    with pytest.raises(WrongFile, match=told):
        read(path)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(WrongFile, match=r"none\.yaml: No such file"):
        read(tmp_path / "none.yaml")
    with pytest.raises(WrongFile, match="Is a directory"):
        read(tmp_path)


def test_aliases_that_multiply_are_stopped() -> None:
    lines = ["a0: &a0 [1, 2, 3, 4, 5, 6, 7, 8, 9]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    with pytest.raises(WrongFile, match=f"more than {MAX_VALUES} values"):
        loads("\n".join(lines))
    with pytest.raises(WrongFile, match="nested too deeply"):
        loads("a: &a [*a]")


@given(st.text(st.characters(codec="utf-8")) | st.text("abc:-[]{}&*!|>'\"#%@`, \n\t~0129.e", max_size=60))
def test_any_text_is_a_table_or_a_wrong_file(text: str) -> None:
    with pytest.raises(WrongFile) as error:
        parse(loads(text))
    assert all(line.startswith("scenario") for line in str(error.value).split("\n"))


VALUES = [
    *("", "~", "0", "-1", "1e400", "true", "[]", "{}", "[[]]", "{a: b}", "'*'", "40s", "1_0", "0x1f", ".nan"),
    *("2001-01-01", "!!binary aGk=", "x", "!!set {a}", "&a [*a]"),
]


@given(st.randoms(use_true_random=False))
def test_files_that_were_damaged_are_right_or_wrong_and_nothing_else(chance: random.Random) -> None:
    text = chance.choice([RIGHT, *(path.read_text() for path in sorted(shipped().glob("*.yaml")))])
    for _ in range(chance.randint(1, 4)):
        lines = text.split("\n")
        number = chance.randrange(len(lines))
        kind = chance.randrange(4)
        if kind == 0:
            del lines[number]
        elif kind == 1:
            lines.insert(number, chance.choice(lines))
        elif ": " in lines[number]:
            parts = lines[number].split(": ")
            at = chance.randrange(1, len(parts))
            ending = parts[at][parts[at].find(",") :] if "," in parts[at] else ""
            parts[at] = chance.choice(VALUES) + (ending if kind == 2 else "")
            lines[number] = ": ".join(parts)
        text = "\n".join(lines)
    told: list[str] = []
    try:
        parse(loads(text))
    except WrongFile as error:
        told = str(error).split("\n")
    assert all(line.startswith("scenario") for line in told)


@pytest.mark.parametrize(
    ("spelled", "holds", "fails"),
    [(3, 3, 4), ("3", 3, 2), ("=3", 3, 2), (">=3", 3, 2), (">= 3", 4, 2), ("<=3", 3, 4), (">3", 4, 3), ("<3", 2, 3)],
)
def test_counts(spelled: Any, holds: int, fails: int) -> None:
    assert count(spelled)(holds)
    assert not count(spelled)(fails)


DOCUMENT = (Path(__file__).parents[2] / "docs" / "scenarios.md").read_text()


def test_the_example_of_the_document_is_right() -> None:
    example, attached, _external = re.findall(r"```yaml\n(.*?)```", DOCUMENT, re.DOTALL)
    scenario = parse(loads(example))
    assert [client.name for client in scenario.clients] == ["app-1", "app-2"]
    assert [client.kind for client in parse(loads(attached)).clients] == ["external"]


STAGE = """\
cluster: {brokers: 3}
topics: [{name: orders, partitions: 6}]
clients: [{name: app-1, group: billing, topics: [orders]}, {name: audit-1, group: audit, topics: [orders]}]
"""
"""Cluster, topics and clients that the examples of single actions and conditions refer to."""

ACTIONS = r"`(\{(?:log|fault|client|broker|topic|advance|send|mark|op|remove_fault): .*?\})`"


@pytest.mark.parametrize("action", re.findall(ACTIONS, DOCUMENT.partition("## steps")[2].partition("## Conditions")[0]))
def test_the_actions_of_the_document_are_right(action: str) -> None:
    named = "" if "as: lost" in action else "{fault: {api: Fetch, drop: true}, as: lost}, "
    text = f"{STAGE}steps: [{{do: [{named}{action}]}}]\nexpect: [{{event: mark}}]"
    assert parse(loads(text)).steps[0].actions


@pytest.mark.parametrize(
    "condition",
    re.findall(r"^\| `(\{.*?\})` \| ", DOCUMENT.partition("## Conditions")[2].partition("## expect")[0], re.MULTILINE),
)
def test_the_conditions_of_the_document_are_right(condition: str) -> None:
    named = "{fault: {api: Fetch, drop: true}, as: lost}"
    text = f"{STAGE}steps: [{{do: {named}, when: {condition}}}]\nexpect: [{{event: mark}}]"
    assert parse(loads(text.replace("{...}", "{state: Stable}"))).steps[0].when


@pytest.mark.parametrize(
    "expectation", re.findall(r"^\| `(\{.*?\})` \| ", DOCUMENT.partition("## expect")[2], re.MULTILINE)
)
def test_the_expectations_of_the_document_are_right(expectation: str) -> None:
    assert parse(
        loads(f"{STAGE}steps: [{{name: jam, after: 1s}}, {{name: heal, after: 1s}}]\nexpect: [{expectation}]")
    ).expect


@pytest.mark.parametrize("timer", sorted({*shard._TIMERS, *transaction_shard._TIMERS}))
def test_every_timer_of_the_coordinators_can_be_expected(timer: str) -> None:
    condition = f"{{event: timer, timer: {timer}, log: __consumer_offsets-0}}"
    assert parse(loads(f"{STAGE}steps: [{{when: {condition}}}]\nexpect: [{{event: mark}}]")).steps[0].when


def test_every_key_of_scenario_files_is_documented() -> None:
    words = [*SETTINGS, *KINDS, *CLIENT_ACTIONS, *BROKER_ACTIONS, *COMMITS]
    assert [word for word in words if not re.search(rf"`[^`]*\b{re.escape(word)}\b[^`]*`", DOCUMENT)] == []
