"""Reading what kafka-consumer-groups printed (tables/: recorded from the tools of 3.4.0 and 4.1.0), and the JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from broker_sim.common.text import UsageError
from broker_sim.migration.group_import import Imported, ImportedGroup, read_describe, read_files

TABLES = Path(__file__).parent / "tables"
HEADER = "GROUP  TOPIC  PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG  CONSUMER-ID  HOST  CLIENT-ID"
VERSIONS = ("3.4", "4.1")


def tables(version: str, *kinds: str) -> Imported:
    return read_files(TABLES / f"{version}-{kind}.txt" for kind in kinds)


def offsets(group: ImportedGroup) -> dict[tuple[str, int], tuple[int | None, int | None]]:
    return {key: (entry.offset, entry.end) for key, entry in group.offsets.items()}


def assignments(group: ImportedGroup) -> dict[str, dict[str, list[int]]]:
    """By client id."""
    return {
        member.client_id: {topic: sorted(partitions) for topic, partitions in member.assignment.items()}
        for member in group.members.values()
    }


@pytest.mark.parametrize("kind", ["offsets", "offsets-verbose"])
@pytest.mark.parametrize("version", VERSIONS)
def test_offsets_with_their_members(version: str, kind: str) -> None:
    groups = tables(version, kind).groups
    assert list(groups)[:2] == ["billing", "gone"]
    assert offsets(groups["billing"]) == {
        **{("orders", p): (10, 10) for p in range(4)},
        **{("audit-log", p): (0, 0) for p in range(2)},
    }
    assert assignments(groups["billing"]) == {
        "worker-a": {"audit-log": [0, 1], "orders": [1, 3]},
        "worker b": {"orders": [0, 2]},
    }
    assert {member.client_host for member in groups["billing"].members.values()} == {"/127.0.0.1"}
    assert offsets(groups["simple"]) == {("orders", 0): (7, 10)}
    assert {entry.offset for entry in groups["idle"].offsets.values()} == {None}
    assert [groups[name].state for name in ("gone", "simple", "billing")] == ["Empty", "Empty", None]


@pytest.mark.parametrize("kind", ["members", "members-verbose"])
@pytest.mark.parametrize("version", VERSIONS)
def test_members_without_partitions_and_static_ones(version: str, kind: str) -> None:
    groups = tables(version, kind).groups
    assert sorted(member.client_id for member in groups["idle"].members.values()) == ["i0", "i1", "i2", "i3"]
    instances = {member.client_id: member.instance_id for member in groups["billing"].members.values()}
    assert instances == {"worker-a": None, "worker b": "inst-1"}
    if kind == "members-verbose":
        assert assignments(groups["billing"]) == {
            "worker-a": {"audit-log": [0, 1], "orders": [1, 3]},
            "worker b": {"orders": [0, 2]},
        }
        assert assignments(groups["idle"])["i3"] == {}


@pytest.mark.parametrize("kind", ["state", "state-verbose"])
@pytest.mark.parametrize("version", VERSIONS)
def test_states(version: str, kind: str) -> None:
    groups = tables(version, kind).groups
    found = {name: (group.state, group.protocol) for name, group in groups.items()}
    expected = {"billing": ("Stable", "roundrobin"), "idle": ("Stable", "roundrobin")}
    expected |= {"gone": ("Empty", None), "simple": ("Empty", None)}
    if version == "4.1":
        expected["newer"] = ("Stable", "uniform")
    assert found == expected


@pytest.mark.parametrize("version", VERSIONS)
def test_all_tables_in_one_file(version: str) -> None:
    kinds = ("state", "offsets", "members-verbose")
    text = "\n".join((TABLES / f"{version}-{kind}.txt").read_text() for kind in kinds)
    assert read_describe(text) == tables(version, *kinds)
    group = read_describe(text).groups["billing"]
    assert (group.state, group.protocol, len(group.members), len(group.offsets)) == ("Stable", "roundrobin", 2, 6)


def test_a_group_of_the_newer_protocol_is_noticed() -> None:
    groups = tables("4.1", "offsets-verbose", "state-verbose", "members-verbose").groups
    assert {name: group.newer_protocol for name, group in groups.items() if group.newer_protocol} == {"newer": True}
    assert groups["newer"].generation == 1
    assert groups["newer"].offsets["orders", 0].leader_epoch == 0


def test_what_shells_and_loggers_add_is_passed_over() -> None:
    text = (TABLES / "3.4-offsets.txt").read_text()
    around = "$ bin/kafka-consumer-groups.sh --describe --all-groups\n[2026-01-01 10:00:00,000] WARN something\n"
    assert read_describe(f"```\n{around}{text}```\n") == read_describe(text)


def test_blanks_that_a_chat_has_squeezed() -> None:
    lines = (TABLES / "3.4-offsets.txt").read_text().replace("worker b", "worker-b").splitlines()
    squeezed = "\n".join(" ".join(line.split()) for line in lines)
    assert read_describe(squeezed) == read_describe("\n".join(lines))
    state = (TABLES / "4.1-state.txt").read_text()
    squeezed = "\n".join(" ".join(line.split()) for line in state.splitlines())
    assert read_describe(squeezed) == read_describe(state)
    members = (TABLES / "3.4-members-verbose.txt").read_text().split("\n\n")[1]
    squeezed = "\n".join(" ".join(line.split()) for line in members.splitlines())
    assert read_describe(squeezed) == read_describe(members)


def test_indented_and_with_tabs() -> None:
    text = (TABLES / "4.1-offsets.txt").read_text()
    assert read_describe("\n".join("    " + line for line in text.splitlines())) == read_describe(text)
    tabs = f"{HEADER}\nbilling  orders  1  5  9  4  -  -  -".replace("  ", "\t")
    assert offsets(read_describe(tabs).groups["billing"]) == {("orders", 1): (5, 9)}


def test_values_wider_than_their_columns_push_the_rest() -> None:
    text = (
        "GROUP   TOPIC   PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG             CONSUMER-ID HOST            CLIENT-ID\n"
        "billing-of-the-east orders-of-the-east 0          1234567890123456 123456789012    0               c-1         "
        "/ip-10-0-12-34.example c one\n"
    )
    [group] = read_describe(text).groups.values()
    assert group.group_id == "billing-of-the-east"
    assert offsets(group) == {("orders-of-the-east", 0): (1234567890123456, 123456789012)}
    assert (group.members["c-1"].client_host, group.members["c-1"].client_id) == ("/ip-10-0-12-34.example", "c one")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no group found"),
        ("what is this\n", "line 1: 'what is this' without a table after it"),
        (
            f"{HEADER}\nbilling orders\n",
            "line 2: 'billing orders' has 2 values where 9 columns are expected: GROUP TOPIC",
        ),
        (
            f"\n{HEADER}\nbilling  orders  x  5  9  4  -  -  -\n",
            "line 3: PARTITION is 'x', which is not a number from 0",
        ),
        (f"{HEADER}\nb      orders  1          -               -9              4    -            -     -\n", "LOG-END"),
        (f"{HEADER}\nb      or/ders 1          5               9               4    -            -     -\n", "line 2"),
        (f"{HEADER}\nb      -      -          -               -               -    -            -     -\n", "neither"),
        (f"{HEADER}\nb      __consumer_offsets 1 5 9 4 - - -\n".replace("  ", " "), "can't be a topic of an import"),
        (HEADER.replace("GROUP  ", ""), "line 1: a table without the column GROUP"),
        (HEADER.replace("LAG", "LAGG"), "line 1: no column of --offsets 'LAGG'; did you mean 'LAG'?"),
        ("GROUP  PARTITION  MEMBERS\n", "line 1: a table without CURRENT-OFFSET or #PARTITIONS or #MEMBERS"),
        (
            "GROUP COORDINATOR (ID) ASSIGNMENT-STRATEGY STATE #MEMBERS\nb h:1 (1) range Stabel 1",
            "did you mean 'Stable'",
        ),
        (
            "GROUP CONSUMER-ID HOST CLIENT-ID #PARTITIONS ASSIGNMENT\nb c h i 1 orders[0]",
            "invalid assignment 'orders[0]' (expected orders",
        ),
        ("Error: Executing consumer group command failed due to no broker", "line 1: it is an error of the tool"),
    ],
)
def test_what_cannot_be_read_names_its_line(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_describe(text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("?")
    (tmp_path / "b.txt").write_bytes(b"\xff\xfe")
    for name, message in (("a.txt", "a.txt: line 1"), ("b.txt", "b.txt: not text"), ("c.txt", "c.txt: No such file")):
        with pytest.raises(UsageError, match=message):
            read_files([tmp_path / name])


def test_one_group_alone() -> None:
    imported = tables("3.4", "offsets")
    assert list(imported.only("idle").groups) == ["idle"]
    with pytest.raises(UsageError, match="no group 'bilings'; did you mean 'billing'"):
        imported.only("bilings")


# --- JSON -------------------------------------------------------------------------------------------------------------------

MEMBER = {"member": "c-1", "client_id": "c", "client_host": "/h", "instance": "i", "assignment": {"orders": [0, 1]}}
OFFSET = {"topic": "orders", "partition": 0, "offset": 5, "end": 12, "leader_epoch": 3, "metadata": "m"}
GROUP = {
    "group": "billing",
    "state": "Stable",
    "generation": 7,
    "protocol_type": "consumer",
    "protocol": "range",
    "leader": "c-1",
    "members": [MEMBER],
    "offsets": [OFFSET],
}


def test_the_json_that_the_documentation_shows() -> None:
    text = (Path(__file__).parents[2] / "docs" / "import.md").read_text(encoding="utf-8")
    [example] = re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    assert read_describe(example).groups["billing"].offsets["orders", 0].end == 12


@pytest.mark.parametrize("data", [GROUP, [GROUP], {"groups": [GROUP]}], ids=["one", "list", "object"])
def test_json_of_a_group(data: Any) -> None:
    group = read_describe(json.dumps(data)).groups["billing"]
    assert (group.state, group.generation, group.protocol, group.leader) == ("Stable", 7, "range", "c-1")
    member = group.members["c-1"]
    assert (member.client_id, member.client_host, member.instance_id) == ("c", "/h", "i")
    assert (member.assignment, member.session_timeout_ms, member.topics) == ({"orders": [0, 1]}, 45_000, None)
    entry = group.offsets["orders", 0]
    assert (entry.offset, entry.end, entry.leader_epoch, entry.metadata) == (5, 12, 3, "m")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("{", "line 1, column 2: not JSON"),
        ("[" * 100_000, "nested too deeply"),
        ('{"group": "g", "generation": ' + "9" * 5000 + "}", "not valid JSON"),
        ('{"group": "g", "generation": 1, "generation": 2}', "an object has the key 'generation' twice"),
        ({"groups": []}, "groups is not a group or a list of groups"),
        ([1], r"[0] is not an object"),
        ({"group": "g", "generaton": 1}, "[0]: no key 'generaton'; did you mean 'generation'?"),
        ({"groups": [{"state": "Stable"}]}, "groups[0] has no 'group'"),
        ({"group": 5}, "[0].group is 5 (expected a string"),
        ({"group": "g", "generation": True}, "is True (expected a whole number"),
        ({"group": "g", "generation": -1}, "[0].generation is -1 (expected 0 to"),
        ({"group": "g", "state": "stable"}, "did you mean 'Stable'"),
        ({"group": "g", "leader": "x"}, "[0].leader: no member 'x'"),
        ([{"group": "g"}, {"group": "g"}], "[1]: the group 'g' occurs twice"),
        ({"group": "g", "members": [MEMBER, MEMBER]}, "[0].members[1]: the member 'c-1' occurs twice"),
        ({"group": "g", "members": [{"member": "a", "assignment": {"o": [-1]}}]}, "[0].members[0].assignment.o is not"),
        ({"group": "g", "members": [{"member": "a", "assignment": {"o o": [1]}}]}, "Topic name is invalid"),
        ({"group": "g", "members": [{"member": "a", "topics": [1]}]}, "[0].members[0].topics: 1 is not a string"),
        ({"group": "g", "offsets": [{"topic": "o"}]}, "[0].offsets[0] has no 'partition'"),
        ({"group": "g", "offsets": [{"topic": "o", "partition": 10_000}]}, "(expected 0 to 9999)"),
        ({"group": "g", "offsets": [{"topic": "o", "partition": 0, "offset": 2**63}]}, "offset is 9223372036854775808"),
    ],
)
def test_json_that_cannot_be_read_names_its_place(data: Any, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_describe(data if isinstance(data, str) else json.dumps(data))
    assert message in str(caught.value)
