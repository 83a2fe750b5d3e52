"""Output of other tools on groups: rpk's and kcl's are read, share and streams groups are recognized by their columns
(tables/share-*, streams-*: recorded from the tools of 4.1.0; rpk, kcl: as their sources print)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from broker_sim.common.text import UsageError
from broker_sim.migration.group_import import ImportedGroup, read_describe

TABLES = Path(__file__).parent / "tables"

RPK = """\
GROUP                  billing
COORDINATOR-NODE       2
COORDINATOR-PARTITION  __consumer_offsets/7
STATE                  Stable
BALANCER               cooperative-sticky
MEMBERS                2
TOTAL-LAG              12

TOPIC   PARTITION  CURRENT-OFFSET  LOG-START-OFFSET  LOG-END-OFFSET  LAG   MEMBER-ID  INSTANCE-ID  CLIENT-ID  HOST
audit   0          -               0                 0               -                                        \n\
orders  0          5               0                 12              7     app-1-x    pod-1        app 1      10.0.0.1
orders  1          5               0                 10              5     app-2-y                 app-2      10.0.0.2
"""

KCL = """\
GROUP        billing
COORDINATOR  2
STATE        Stable
BALANCER     range
MEMBERS      2
TOTAL-LAG    7
TOPIC   PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG   MEMBER-ID  CLIENT-ID  HOST
audit   0          -               -1              -                           \n\
orders  0          5               12              7     app-1-x    app 1      10.0.0.1
MEMBER-ID  CLIENT-ID  HOST                       ASSIGNMENT
app-1-x    app 1      10.0.0.1 (instance=pod-1)  orders:0,1 audit:0
app-2-y    app-2      10.0.0.2                   \n\

GROUP        gone
COORDINATOR  1
ERROR        GROUP_ID_NOT_FOUND: The group id does not exist.
"""

KCL_848 = """\
GROUP        newer
COORDINATOR  1
STATE        Reconciling
BALANCER     uniform
MEMBERS      1
MEMBER-ID  CLIENT-ID  HOST      MEMBER-EPOCH  SUBSCRIBED-TOPICS  ASSIGNMENT  TARGET-ASSIGNMENT
m-1        app        10.0.0.1  3             audit,orders       orders:0    orders:0,1
"""


def offsets(group: ImportedGroup) -> dict[tuple[str, int], tuple[int | None, int | None]]:
    return {key: (entry.offset, entry.end) for key, entry in group.offsets.items()}


def members(group: ImportedGroup) -> dict[str, tuple[str, str | None, dict[str, list[int]]]]:
    return {m.client_id: (m.client_host, m.instance_id, m.assignment) for m in group.members.values()}


@pytest.mark.parametrize(
    "command", ["", "$ rpk group describe billing -i\n", "[redpanda@node ~]$ rpk group describe -r '.*'\n"]
)
def test_rpk(command: str) -> None:
    group = read_describe(command + RPK).groups["billing"]
    assert (group.state, group.protocol) == ("Stable", "cooperative-sticky")
    assert offsets(group) == {("audit", 0): (None, 0), ("orders", 0): (5, 12), ("orders", 1): (5, 10)}
    assert members(group) == {
        "app 1": ("10.0.0.1", "pod-1", {"orders": [0]}),
        "app-2": ("10.0.0.2", None, {"orders": [1]}),
    }


def test_rpk_s_commits_alone_belong_to_the_group_of_the_command() -> None:
    commits = RPK.partition("\n\n")[2]
    for command in ("$ rpk group describe billing -c", "$ rpk group describe -c -i billing"):
        assert offsets(read_describe(f"{command}\n{commits}").groups["billing"])["orders", 1] == (5, 10)
    with pytest.raises(
        UsageError, match=r"line 1: a table without the column GROUP .* rpk and kcl name the group above"
    ):
        read_describe(commits)


def test_an_older_rpk_and_its_summary_alone() -> None:
    older = RPK.replace("COORDINATOR-NODE     ", "COORDINATOR          ").replace(
        "COORDINATOR-PARTITION  __consumer_offsets/7\n", ""
    )
    assert read_describe(older).groups == read_describe(RPK).groups
    group = read_describe(RPK.partition("\n\n")[0]).groups["billing"]
    assert (group.state, group.members, group.offsets) == ("Stable", {}, {})


def test_a_partition_whose_end_rpk_could_not_list_has_none() -> None:
    text = RPK.replace("HOST\n", "HOST      ERROR\n").replace("10.0.0.1\n", "10.0.0.1  LEADER_NOT_AVAILABLE: none\n")
    assert offsets(read_describe(text).groups["billing"])["orders", 0] == (5, None)


def test_kcl() -> None:
    groups = read_describe(KCL).groups
    assert {name: group.state for name, group in groups.items()} == {"billing": "Stable", "gone": "Dead"}
    assert offsets(groups["billing"]) == {("audit", 0): (None, None), ("orders", 0): (5, 12)}
    assert members(groups["billing"]) == {
        "app 1": ("10.0.0.1", "pod-1", {"orders": [0, 1], "audit": [0]}),
        "app-2": ("10.0.0.2", None, {}),
    }


def test_kcl_s_consumer_groups() -> None:
    group = read_describe(KCL_848).groups["newer"]
    assert (group.state, group.newer_protocol, group.protocol) == ("Reconciling", True, "uniform")
    member = group.members["m-1"]
    assert (member.topics, member.assignment) == (["audit", "orders"], {"orders": [0]})


def test_kcl_s_json() -> None:
    row = {"topic": "orders", "partition": 0, "current_offset": 5, "log_end_offset": 12, "lag": 7, "member_id": "m-1"}
    member = {"member_id": "m-1", "client_id": "app", "host": "10.0.0.1", "instance_id": "pod-1"}
    described: dict[str, Any] = {
        "group": "billing",
        "coordinator": 2,
        "state": "Stable",
        "balancer": "range",
        "error": "",
    }
    described |= {"members": [member], "total_lag": 7, "lag": [row, {**row, "partition": 1, "current_offset": -1}]}
    text = json.dumps({"_command": "group.describe", "_version": 1, "groups": [described]})
    group = read_describe(text).groups["billing"]
    assert offsets(group) == {("orders", 0): (5, 12), ("orders", 1): (None, 12)}
    assert members(group) == {"app": ("10.0.0.1", "pod-1", {"orders": [0, 1]})}
    with pytest.raises(UsageError, match=r"groups\[0\].lag\[0\].partition is 'x' \(expected a whole number\)"):
        read_describe(text.replace('"partition": 0', '"partition": "x"'))
    with pytest.raises(UsageError, match=r"the output of kcl's topic.list; expected that of kcl group describe"):
        read_describe(json.dumps({"_command": "topic.list", "topics": []}))


def test_a_group_that_the_tool_could_not_describe() -> None:
    text = "GROUP        billing\nCOORDINATOR  1\nERROR        COORDINATOR_NOT_AVAILABLE: not now\n"
    with pytest.raises(
        UsageError, match=r"line 1: the tool could not describe the group 'billing': COORDINATOR_NOT_AVAIL"
    ):
        read_describe(text)


@pytest.mark.parametrize("kind", ["offsets", "offsets-verbose", "members", "members-verbose"])
def test_a_share_group_is_refused_by_its_name(kind: str) -> None:
    with pytest.raises(UsageError, match=r"line 2: it is the output of kafka-share-groups, .*--data DIR"):
        read_describe((TABLES / f"share-4.1-{kind}.txt").read_text())


@pytest.mark.parametrize("kind", ["offsets", "members", "members-verbose"])
def test_a_streams_group_is_refused_by_its_name(kind: str) -> None:
    with pytest.raises(UsageError, match=r"line 1: it is the output of kafka-streams-groups, .*--describe --verbose"):
        read_describe((TABLES / f"streams-4.1-{kind}.txt").read_text())


@pytest.mark.parametrize("tool", ["share", "streams"])
@pytest.mark.parametrize("kind", ["state", "state-verbose"])
def test_a_state_without_an_assignor_is_a_share_or_streams_group_s(tool: str, kind: str) -> None:
    with pytest.raises(UsageError, match="the output of kafka-share-groups or kafka-streams-groups with --state"):
        read_describe((TABLES / f"{tool}-4.1-{kind}.txt").read_text())


def test_the_offsets_of_a_streams_group_are_read() -> None:
    text = (TABLES / "streams-4.1-offsets-verbose.txt").read_text()
    group = read_describe(
        text.replace("0          -               -               0 ", "0          4               -               9 ")
    ).groups["g"]
    assert offsets(group) == {("orders", 0): (4, 9), **{("orders", p): (None, 0) for p in (1, 2, 3)}}
    assert (group.is_streams, group.members) == (True, {})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Share group 'g' has no active members.", "line 1: it is the output of kafka-share-groups"),
        ("\nError: Streams group 'g' does not exist.", "line 2: it is the output of kafka-streams-groups"),
        ("TOPIC   LAG\norders  7\n", "line 1: the lag of a topic has no offsets"),
        # 4.2 has a column more
        ("GROUP TOPIC PARTITION START-OFFSET LAG\ng orders 0 5 1\n", "line 1: it is the output of kafka-share-groups"),
    ],
)
def test_other_output_is_refused_by_its_name(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_describe(text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
