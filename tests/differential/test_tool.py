"""The tester itself: seeds, what is normalised, shrinking; a planted difference is found; a simulator equals itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kafka_wire.api_keys import advertised
from kafka_wire.messages.k11_join_group import JoinGroupResponse, JoinGroupResponseMember
from kafka_wire.messages.k16_list_groups import ListedGroup, ListGroupsResponse
from tests.differential import cases, generators, known, peers, tolerances
from tests.differential.catalogue import by_key
from tests.differential.difference import Difference
from tests.differential.frames import frame
from tests.differential.normal import Reader, differences
from tests.differential.play import Peer
from tests.differential.runner import Runner
from tests.differential.sequence import Sequence, Step
from tests.differential.shrink import shrink
from tests.differential.symbols import Scope
from tests.differential.worlds import ClusterWorld
from tests.support import real_settings

VERSIONS = {by_key()[key].name: bounds for key, bounds in advertised("4.4").items()}
ONE, TWO = (f"a-{digit * 8}-89ab-cdef-0123-456789abcdef" for digit in "01")


@asynccontextmanager
async def simulator(
    version: str = "4.1", brokers: int = 1, world: type[ClusterWorld] = ClusterWorld, **more: object
) -> AsyncIterator[Peer]:
    config = {**peers.settings(version, brokers), **more}
    async with real_settings.cluster(brokers=brokers, config=config, as_version=version) as cluster:
        addresses = [address.rpartition(":") for address in cluster.bootstrap.split(",")]
        known = {node: (host, int(port)) for node, (host, _, port) in enumerate(addresses, 1)}
        yield Peer("a simulator", version, known, world(cluster) if brokers > 1 else None)


# ---- sequences


@pytest.mark.parametrize("kind", [*generators.KINDS, *generators.CLUSTER_KINDS])
def test_a_sequence_is_a_function_of_its_seed_and_comes_back_from_its_file(kind: str) -> None:
    for seed in range(20):
        brokers = 3 if kind in generators.CLUSTER_KINDS else 1
        made = generators.sequence(seed, VERSIONS, kind, brokers)
        assert made.steps
        assert made == generators.sequence(seed, VERSIONS, kind, brokers)
        assert Sequence.loads("# a comment\n" + made.dumps()) == made


@pytest.mark.slow
def test_every_version_of_every_api_is_drawn() -> None:
    drawn = {(step.api, step.version) for seed in range(4000) for step in generators.sequence(seed, VERSIONS).steps}
    wanted = {(api, version) for api, (low, high) in VERSIONS.items() for version in range(low, high + 1)}
    assert wanted - drawn == set()


def test_symbols_are_filled_in_from_the_answers_of_the_side() -> None:
    scope = Scope("p1-", 1000)
    scope.learn(
        "a",
        "JoinGroup",
        JoinGroupResponse(generation_id=7, member_id=ONE, leader=ONE, members=[JoinGroupResponseMember(TWO)]),
    )
    assert [scope.text("{p}x"), scope.text("$member:a"), scope.text("$member:b")] == ["p1-x", ONE, ""]
    assert [scope.number("$generation:a"), scope.number("$generation:a:-1"), scope.number("$generation:b")] == [
        7,
        6,
        -1,
    ]
    assert scope.symbol("$assign:a") == [{"member_id": TWO, "assignment": b"to-a-"}]


def test_damage_is_done_behind_the_header() -> None:
    step = Step(api="Heartbeat", version=0, body={"group_id": "~null~"})
    whole = frame(step, Scope("p", 0), 5, "a")
    assert whole[4:15] == bytes.fromhex("000c 0000 00000005 0001 61")
    assert whole[15:17] == b"\xff\xff"
    for damage, expected in [
        (["cut", 2], whole[4:-2]),
        (["more", "00ff"], whole[4:] + b"\x00\xff"),
        (["set", 0, 7], whole[4:15] + b"\x07" + whole[16:]),
        (["key", 300], b"\x01\x2c" + whole[6:]),
    ]:
        assert frame(Step(**{**step.plain(), "damage": [damage]}), Scope("p", 0), 5, "a")[4:] == expected


def test_what_stands_around_a_message_is_as_the_step_says() -> None:
    plain = bytes.fromhex("000b 0006 00000005 0001 61 00")  # JoinGroup v6

    def sent(**wire: object) -> bytes:
        return frame(Step(api="JoinGroup", version=6, wire=wire), Scope("p", 0), 5, "a")[4:]

    body = sent()[len(plain) :]
    assert sent() == plain + body
    assert sent(client=None) == plain[:8] + bytes.fromhex("ffff 00") + body
    assert sent(client="") == plain[:8] + bytes.fromhex("0000 00") + body
    assert sent(client_hex="ff") == plain[:10] + bytes.fromhex("ff 00") + body
    assert sent(client_size=7) == plain[:8] + bytes.fromhex("0007 61 00") + body
    assert sent(head="short") == plain[:-1] + body
    assert sent(head_tags=[[9, ""], [300, "abcd"]]) == plain[:-1] + bytes.fromhex("02 09 00 ac02 02 abcd") + body
    assert sent(tags=[[9, "ab"]]) == plain + body[:-1] + bytes.fromhex("01 09 01 ab")


# ---- comparing


def test_ids_are_named_by_the_order_in_which_they_are_met() -> None:
    scopes = [Scope("x1-", 0), Scope("x2-", 0)]
    answers = [
        JoinGroupResponse(member_id=ONE, leader=TWO, protocol_name="x1-p"),
        JoinGroupResponse(member_id=TWO, leader=ONE, protocol_name="x2-p"),
    ]
    real, ours = (
        Reader(scope, {}, "4.1").message("JoinGroup", one, 9) for scope, one in zip(scopes, answers, strict=True)
    )
    assert real == ours
    assert (real["leader"], real["member_id"], real["protocol_name"]) == ("a-#1", "a-#2", "{p}p")


def test_what_other_plays_made_is_left_out() -> None:
    answer = ListGroupsResponse(groups=[ListedGroup("x2-g"), ListedGroup("x1-g"), ListedGroup("")])
    plain = Reader(Scope("x1-", 0), {}, "4.1").message("ListGroups", answer, 0)
    assert [group["group_id"] for group in plain["groups"]] == ["{p}g"]


def test_differences_name_the_place() -> None:
    assert differences({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]}) == [(".a[1].b", 2, 3)]
    assert differences({"a": [1]}, {"a": [1, 2]}) == [(".a.length", "1: [1]", "2: [1, 2]")]
    assert differences(True, 1) == [("", True, 1)]


def test_every_tolerance_has_a_reason_and_no_two_a_name() -> None:
    assert all(len(rule.reason) > 10 for rule in (*tolerances.UNORDERED, *tolerances.TOLERATED))
    assert len({rule.name for rule in tolerances.TOLERATED}) == len(tolerances.TOLERATED)


def test_a_difference_is_known_if_every_row_of_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = known.Known(r"Fetch v\d+\.error_code", "70", "-1", "a reason", ("4.1",))
    monkeypatch.setattr(known, "KNOWN", (entry,))
    row = ("Fetch v15.error_code", 70, -1)
    assert known.explained("4.1", Difference(0, "Fetch", 15, (row,))) is entry
    assert known.explained("3.4", Difference(0, "Fetch", 15, (row,))) is None
    assert known.explained("4.1", Difference(0, "Fetch", 15, (row, ("Fetch v15.session_id", 0, 1)))) is None


# ---- shrinking


async def test_shrinking_keeps_what_is_needed_and_nothing_else() -> None:
    steps = [Step(by="a", api="Heartbeat", body={"n": number, "rows": [1, 2, {"x": 3}]}) for number in range(40)]

    async def shows(smaller: Sequence) -> bool:
        bodies = [step.body for step in smaller.steps]
        return any(body.get("n") == 7 for body in bodies) and any(
            body.get("n") == 21 and 2 in body.get("rows", []) for body in bodies
        )

    small = await shrink(Sequence(0, "group", steps), 30, shows)
    assert [step.body for step in small.steps] == [{"n": 7}, {"n": 21, "rows": [2]}]


async def test_shrinking_asks_no_more_often_than_it_may() -> None:
    asked = 0

    async def shows(smaller: Sequence) -> bool:
        nonlocal asked
        asked += 1
        return False

    await shrink(Sequence(0, "group", [Step() for _ in range(500)]), 499, shows, tries=5)
    assert asked == 5


# ---- whole runs


async def test_a_simulator_equals_itself(tmp_path: Path) -> None:
    told: list[str] = []
    async with simulator() as one, simulator() as other:
        runner = Runner("4.1", one, other, told.append, tmp_path)
        await runner.prepare()
        kinds = [kind for kind in generators.kinds(runner.versions) if kind != "timed"]
        played = iter([generators.sequence(seed, runner.versions, kinds[seed % len(kinds)]) for seed in range(15)])
        await runner.run(played, side_by_side=15, seconds=30)
    assert told == []
    assert (runner.tally.sequences, runner.tally.findings, runner.tally.broken) == (15, {}, 0)
    assert runner.tally.answers > 100
    assert runner.tally.log_records > 0


@pytest.mark.slow
async def test_a_cluster_equals_itself_while_leaders_and_brokers_go_and_come(tmp_path: Path) -> None:
    told: list[str] = []
    async with simulator(brokers=3) as one, simulator(brokers=3) as other:
        runner = Runner("4.1", one, other, told.append, tmp_path)
        await runner.prepare()
        kinds = [kind for kind in generators.CLUSTER_KINDS for _ in range(4)]
        played = [generators.sequence(seed, runner.versions, kind, 3) for seed, kind in enumerate(kinds)]
        await runner.run(iter(played), side_by_side=4, seconds=30)
        moved = {step.world[0] for one in played for step in one.steps if step.world}
    assert told == []
    assert (runner.tally.sequences, runner.tally.findings, runner.tally.broken) == (12, {}, 0)
    assert moved == {"lead", "coordinate", "down", "up", "prefer"}


async def test_a_leader_that_moves_otherwise_is_a_difference(tmp_path: Path) -> None:
    class Restless(ClusterWorld):
        async def lead(self, topic: str, index: int, node: int) -> None:
            await super().lead(topic, index, node)
            await super().lead(topic, index, 3 - node)
            await super().lead(topic, index, node)

    topic = {"name": "{p}x", "num_partitions": -1, "replication_factor": -1}
    places = [{"partition_index": 0, "broker_ids": [1, 2]}]
    steps = [
        Step(api="CreateTopics", version=5, body={"topics": [{**topic, "assignments": places}]}),
        Step(world=["lead", "{p}x", 0, 2]),
        Step(api="Metadata", version=9, body={"topics": [{"name": "{p}x"}]}, broker="$leader:{p}x/0"),
    ]
    async with simulator(brokers=2) as one, simulator(brokers=2, world=Restless) as other:
        runner = Runner("4.1", one, other, lambda text: None, tmp_path)
        await runner.prepare()
        outcome = await runner.play(Sequence(1, "led", steps, brokers=2))
    assert outcome.difference is not None
    assert outcome.difference.rows == (("Metadata v9.topics[0].partitions[0].leader_epoch", 1, 3),)


async def test_a_planted_difference_is_found_and_shrunk_and_can_be_played_again(tmp_path: Path) -> None:
    commit = {"group_id": "{p}g", "topics": [{"name": "t0", "partitions": [{"committed_metadata": "n" * 30}]}]}
    steps = [
        Step(api="ListGroups"),
        Step(api="OffsetFetch", version=7, body={"group_id": "{p}g", "topics": None}),
        Step(api="OffsetCommit", version=5, body=commit),
        Step(api="DescribeGroups", body={"groups": ["{p}g"]}),
    ]
    told: list[str] = []
    async with simulator() as one, simulator(**{"offset.metadata.max.bytes": 20}) as other:
        runner = Runner("4.1", one, other, told.append, tmp_path)
        await runner.prepare()
        await runner.run(iter([Sequence(1, "group", steps)]), side_by_side=1, seconds=30)
        [finding] = runner.tally.unknown
        assert [step.api for step in finding.sequence.steps] == ["OffsetCommit"]
        assert finding.difference.rows == (("OffsetCommit v5.topics[0].partitions[0].error_code", 0, 12),)
        assert finding.file is not None
        again = await runner.play(Sequence.load(finding.file))
        assert again.difference == finding.difference


async def test_requests_in_a_row_in_pieces_and_without_an_answer_are_compared(tmp_path: Path) -> None:
    batch = {"batch": {"records": [{"value": "v"}]}}
    produce = {"topic_data": [{"name": "{p}made", "partition_data": [{"records": batch}]}]}
    look = {"topics": [{"name": "{p}made", "partitions": [{"timestamp": -1}]}]}
    steps = [
        Step(
            api="CreateTopics",
            version=4,
            body={"topics": [{"name": "{p}made", "num_partitions": 1, "replication_factor": 1}]},
        ),
        Step(api="Produce", version=8, body={"acks": 1, **produce}, held=True),
        Step(api="Produce", version=8, body={"acks": 0, **produce}),
        Step(api="ListOffsets", version=4, body=look, wire={"split": [2, 9]}),
    ]
    async with simulator() as one, simulator() as same, simulator(**{"message.max.bytes": 30}) as other:
        runner = Runner("4.1", one, same, print, tmp_path)
        await runner.prepare()
        outcome = await runner.play(Sequence(1, "wires", steps))
        assert outcome.difference is None
        assert [api for api, _, _ in outcome.compared] == ["CreateTopics", "Produce", "ListOffsets"]
        runner = Runner("4.1", one, other, print, tmp_path)
        await runner.prepare()
        found = (await runner.play(Sequence(1, "wires", steps))).difference
        assert found is not None
        assert (found.number, found.api) == (1, "Produce")
        found = (await runner.play(Sequence(1, "wires", [steps[0], *steps[2:]]))).difference
        assert found is not None
        assert (found.number, found.rows[0][2]) == (2, "closed")


async def test_an_answer_that_one_side_alone_gives_is_a_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.differential.play.PATIENCE_S", 0.3)
    join = {
        "group_id": "{p}g",
        "session_timeout_ms": 30_000,
        "rebalance_timeout_ms": 30_000,
        "protocol_type": "consumer",
        "protocols": [{"name": "range"}],
    }
    async with simulator() as one, simulator(**{"group.initial.rebalance.delay.ms": 20_000}) as other:
        runner = Runner("4.1", one, other, lambda text: None, tmp_path)
        await runner.prepare()
        outcome = await asyncio.wait_for(
            runner.play(Sequence(1, "group", [Step(api="JoinGroup", version=2, body=join)])), 20
        )
    assert outcome.difference is not None
    assert outcome.difference.rows[0][2] == "not answered"


# ---- what it has found


@pytest.mark.parametrize("brokers", cases.SIZES)
@pytest.mark.parametrize("version", cases.VERSIONS)
async def test_what_was_a_difference_is_answered_as_the_real_broker_did(
    version: str, brokers: int, tmp_path: Path
) -> None:
    truth, played = cases.recorded(version, brokers), cases.cases(brokers)
    assert sorted(truth) == [case.stem for case in played], "python -m tests.differential.cases --record"
    different = {}
    async with simulator(version, brokers) as one:
        await Runner(version, one, one, print, tmp_path).prepare()
        for case in played:
            different[case.stem] = cases.against(truth[case.stem], await cases.answers(one, case), case)
    assert {name: rows for name, rows in different.items() if rows} == {}
