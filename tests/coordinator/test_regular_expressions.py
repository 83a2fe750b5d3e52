"""Regular expressions: what RE2 takes and refuses, as RE2J answers, and subscriptions by them."""

from __future__ import annotations

import random
import subprocess
import sys
import weakref
from array import array
from collections.abc import Generator
from itertools import combinations, islice
from pathlib import Path
from typing import Any

import pytest

from broker_sim.coordinator import regular_expressions
from broker_sim.coordinator.regular_expressions import ALPHABET, Matcher, PatternError, compiling
from broker_sim.coordinator.regular_expressions import pattern as compiled
from kafka_wire.errors import Err
from tests.coordinator.consumer.crowd import Crowd, name_of
from tests.support.real_kafka import java_command
from tests.support.sampling import sampled

EACH = pytest.mark.parametrize("release", [(4, 1), (4, 2), (4, 4)], ids=["4.1", "4.2", "4.4"])

NAMES = [
    "a",
    "b",
    "ab",
    "orders",
    "orders-eu.7",
    "Orders",
    "x_y",
    "aaaa",
    "abab",
    "1",
    "12",
    "a.b",
    "-",
    "A-b_C.9",
    "topic-12",
]
IDS = ["pay 1", "zahlung-ä", "Ä", "λ/1", "платёж", "支払", "a\tb", "a:b", "~", "é1", "Straße", "[x]"]
"""Transactional ids, most of them with characters that topic names may not have."""


def matcher_of(text: str, alphabet: frozenset[str] = ALPHABET) -> Matcher:
    return compiled(text, alphabet).matcher()


@pytest.mark.parametrize(
    ("text", "matched"),
    [
        ("orders-(eu|us)\\.[0-9]+", ["orders-eu.7"]),
        ("a", ["a"]),
        ("(?i)orders", ["orders", "Orders"]),
        ("a{2,3}|b", ["b"]),
        ("(ab){2}", ["abab"]),
        ("\\d+", ["1", "12"]),
        ("[[:alpha:]]_\\w", ["x_y"]),
        ("\\Qa.b\\E", ["a.b"]),
        ("^a$", ["a"]),
        ("\\bab\\b", ["ab"]),
        ("[^a-z]", ["1", "-"]),
        ("\\p{Greek}", []),
        ("topic-1\\B.", ["topic-12"]),
        ("", []),
    ],
)
def test_what_matches_a_whole_name(text: str, matched: list[str]) -> None:
    matcher = matcher_of(text)
    assert [name for name in NAMES if matcher.matches(name)] == matched


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[a", "missing closing ]"),
        ("(?<x>", "missing closing )"),
        ("(?!a)b", "invalid or unsupported Perl syntax"),
        ("(?<=a)b", "invalid named capture"),
        ("\\1", "invalid escape sequence"),
        ("a**", "invalid nested repetition operator"),
        ("a++", "invalid nested repetition operator"),
        ("*a", "missing argument to repetition operator"),
        ("a{1001}", "invalid repeat count"),
        ("a\\", "trailing backslash at end of expression"),
        ("[b-a]", "invalid character class range"),
        ("(" * 16_000 + ")" * 16_000, "expression nests too deeply"),
    ],
    ids=lambda text: text[:20],
)
def test_what_is_none_of_re2s(text: str, words: str) -> None:
    for compile_or_check in (compiled, regular_expressions.check):  # the second one remembers the first one's result
        with pytest.raises(PatternError) as refused:
            compile_or_check(text)
        assert str(refused.value).partition(": `")[0] == words


def test_an_alphabet_of_its_own() -> None:
    names = ["pay-1", "pay 1", "größe", "λ", "line\nline"]
    alphabet = frozenset("".join(names))

    def matched(text: str) -> list[str]:
        matcher = matcher_of(text, alphabet)
        return [name for name in names if matcher.matches(name)]

    assert matched("pay.1") == ["pay-1", "pay 1"]
    assert matched("pay[^-]1") == ["pay 1"]
    assert matched("(?i)GRÖßE") == ["größe"]
    assert matched("\\p{Greek}") == ["λ"]
    assert matched("\\pL+") == ["größe", "λ"]
    assert matched("line.line") == []
    assert matched("(?s)line.line") == ["line\nline"]
    assert matched("(?m)line$\\n^line") == ["line\nline"]
    assert matched("line$\\n^line") == []


def test_what_would_make_pythons_own_think_for_hours_takes_no_time() -> None:
    """Pytest's timeout is its limit."""
    assert not matcher_of("(a*)*(a|a)*(a?){50}b").matches("a" * 249)


def test_a_name_is_matched_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every step counts: a piece may be one step too long, and a state that is known already costs a look."""
    monkeypatch.setattr(regular_expressions, "_PIECE", 1000)
    wanted = matcher_of("n" + "0*" * 900 + "x")
    gone_through: list[int] = []
    reached = wanted._reached

    def counting(*given: Any) -> Generator[None, None, array[int]]:
        found = yield from reached(*given)
        gone_through.append(len(found))
        return found

    monkeypatch.setattr(wanted, "_reached", counting)
    said = list(wanted.matching("n" + "0" * 200))
    assert said[-1] is False
    assert set(said[:-1]) == {None}
    assert len(said) > sum(gone_through) // 4000 > 0
    gone_through.clear()
    assert [wanted.matches("n" + "0" * count) for count in range(200)] == [False] * 200
    assert len(gone_through) < 10  # each set of states is one object, whichever name came to it


def test_a_step_that_reaches_very_many_states_is_taken_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regular_expressions, "_PIECE", 100)
    for text in ("(.*)*" * 400, "n?" * 1000, "(n|0)*x|" * 300):
        wanted = matcher_of(text)
        said = list(wanted.matching("n"))
        assert len(said) > len(compiled(text).kinds) / 100
        assert set(said[:-1]) == {None}


@pytest.mark.parametrize("part", sampled(["0*", "(.*)*", "n0*1x|", "(?i)a", "a{"], 3))
def test_an_expression_is_compiled_in_pieces(part: str) -> None:
    def pieces(characters: int) -> int:
        return len(list(compiling(part * (characters // len(part)))))

    assert pieces(1000) == 0
    assert pieces(28_000) > pieces(14_000) > 2


def test_the_pieces_do_not_depend_on_what_was_matched_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else two equal simulations in one process would differ."""
    monkeypatch.setattr(regular_expressions, "_PIECE", 50)

    def pieces() -> list[bool | None]:
        matcher = matcher_of("n[0-9]*x")
        return [is_match for number in range(40) for is_match in matcher.matching(f"n{number}x")]

    first = pieces()
    assert None in first
    assert pieces() == first


def test_the_pieces_do_not_depend_on_what_was_compiled_before() -> None:
    text = "orders-[0-9]*|" * 1000
    assert list(compiling(text)) == list(compiling(text)) != []


def test_an_expression_that_was_compiled_lately_is_checked_without_being_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checked = regular_expressions.Checked()
    monkeypatch.setattr(regular_expressions, "_checked", checked)
    list(compiling("orders|" * 500))
    with pytest.raises(PatternError):
        compiled("a**")
    monkeypatch.setattr(regular_expressions, "compiling", None)
    checked.check("orders|" * 500)
    with pytest.raises(PatternError, match="nested repetition"):
        checked.check("a**")


def test_the_expressions_known_to_be_valid_or_not_are_bounded_in_characters() -> None:
    checked = regular_expressions.Checked()
    for number in range(100):
        checked.remember("x" * 30_000 + f"{number}", None)
        checked.remember(f"{number}", "its words: " + "x" * 30_000)
    assert 900_000 < checked.chars <= 1_000_000
    assert sum(len(text) + len(error or "") for text, error in checked._errors.items()) < checked.chars
    for number in range(20_000):
        checked.remember(f"n{number}", None)
    assert checked.chars <= 1_000_000


def test_a_pattern_of_32_kb_takes_less_than_a_megabyte() -> None:
    """The limit holds for all kinds of states: 16,000 points, or 5,300 classes that all differ and have most of the alphabet."""
    different = islice(combinations(sorted(ALPHABET - {"-"}), 3), 5300)
    classes = "".join(f"[^{''.join(three)}]" for three in different)
    for text in (".*" * 16_000, classes, "(a|b)" * 6500, "(.*)*|" * 5400, "(?i)" + "[a-c]?" * 5400):
        made = compiled(text)
        size = sum(map(sys.getsizeof, (made.kinds, made.to, made.others, made.chars)))
        size += sum(map(sys.getsizeof, {id(chars): chars for chars in made.chars}.values()))
        assert len(made.kinds) > 5000
        assert size < 1_000_000
        matcher = made.matcher()
        for name in ("x" * 249, "a.b-c_" * 40):
            matcher.matches(name)
        assert memory_of(matcher) < 4_000_000


def memory_of(matcher: Matcher) -> int:
    """Bytes of what it remembers."""
    sets = {id(states): states for step in matcher._steps.items() for states in (step[0][0], step[1])}
    return sum(map(sys.getsizeof, (matcher._steps, matcher._ends, *sets.values(), *matcher._steps)))


def test_what_an_expression_remembers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regular_expressions, "_KEPT", 5000)
    wanted = matcher_of("(a|b)*a(a|b){40}")
    rng = random.Random(1)
    for _ in range(50):
        name = "".join(rng.choice("ab") for _ in range(100))
        assert wanted.matches(name) == (name[-41] == "a")
        assert 50 * len(wanted._steps) + sum(len(states) // 4 for states in wanted._sets) <= wanted.kept <= 5000


def test_a_matcher_forgets_before_it_takes_megabytes() -> None:
    """Steps with few states: what they take is the step, not the states."""
    wanted = matcher_of("[a-z0-9]{1,249}")
    rng = random.Random(1)
    letters = "abcdefghijklmnopqrstuvwxyz0123456789"
    for _ in range(400):
        wanted.matches("".join(rng.choice(letters) for _ in range(249)))
    assert 1000 < len(wanted._steps) <= 10_000
    assert memory_of(wanted) < 4_000_000


def test_the_alphabet_of_a_pattern_may_have_very_many_characters() -> None:
    """Sets of characters are made once, however often the pattern names them, and not for nothing."""
    alphabet = frozenset(map(chr, range(0x4E00, 0x9000)))
    text = "[\u4e00-\u4eff]" * 300 + "(?i)" + "\\pL\\p{Han}\\p{Lu}[\u5000-\u5001]" * 200
    assert len(list(compiling(text, alphabet))) > len(list(compiling(text)))
    assert len({id(chars) for chars in compiled(text, alphabet).chars}) < 10


def test_the_groups_of_a_shard_are_resolved_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory of a pattern and its matcher is taken once, and released with the last one."""
    live: weakref.WeakSet[Matcher] = weakref.WeakSet()
    monkeypatch.setattr(regular_expressions, "_PIECE", 1)
    monkeypatch.setattr(regular_expressions.Pattern, "matcher", lambda made: _tracked(live, Matcher(made)))
    core = Crowd((4, 1), {"fa": 1, "fb": 1, "other": 1})
    groups = [f"g{number}" for number in range(5)]
    for number, group in enumerate(groups):
        core.told("A", 0, group=group, subscribed_topic_names=[], subscribed_topic_regex=f"f[ab]x{{0,{number}}}")
    assert list(core.shard.resolving) == []
    most = 0
    for _ in range(2000):
        core.advance(1)
        most = max(most, len(live))
    assert most == 1
    assert [record for record in core.written() if record.startswith("16")] == ["16 fa,fb"] * 5
    assert not live
    assert not core.shard.resolving


def _tracked(live: weakref.WeakSet[Matcher], matcher: Matcher) -> Matcher:
    live.add(matcher)
    return matcher


def test_a_group_that_ends_before_its_turn_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regular_expressions, "_PIECE", 1)
    core = Crowd((4, 1), {"fa": 1, "fb": 1, "other": 1})
    for group in ("first", "second", "third"):
        core.told("A", 0, group=group, subscribed_topic_names=[], subscribed_topic_regex="f[ab]")
    core.advance(0)
    assert core.consumer("first").matching is not None
    for group in ("first", "second"):
        core.told("A", -1, group=group)
    core.advance(100)
    assert core.told("A", 1, group="third")[0] == 2
    assert core.consumer("first").matching is None
    assert not core.shard.resolving


def test_members_subscribe_by_one_that_takes_many_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regular_expressions, "_PIECE", 1)
    core = Crowd((4, 1), {"fa": 1, "fb": 1, "other": 1}, session_timeout_ms=60_000)
    core.told("A", 0, subscribed_topic_names=[], subscribed_topic_regex="f[ab]*x?")
    core.advance(0)
    assert not any(record.startswith("16") for record in core.written())
    core.told("B", 0, subscribed_topic_names=[], subscribed_topic_regex="o.*r")
    core.advance(100)
    assert [record for record in core.written() if record.startswith("16")] == ["16 fa,fb"]
    core.told("B", 1)
    core.advance(10_001)
    assert "16 other" not in core.written()  # the one before is less than ten seconds ago
    core.told("B", 2)
    core.advance(100)
    assert "16 other" in core.written()


def test_members_subscribe_by_one() -> None:
    core = Crowd((4, 4), {"fa": 3, "fb": 2, "other": 1}, assignment_interval_ms=0)
    assert (
        core.refused("A", 0, subscribed_topic_names=None, subscribed_topic_regex="[a") is Err.INVALID_REGULAR_EXPRESSION
    )
    assert core.state() == "-"
    assert core.told("A", 0, subscribed_topic_names=None, subscribed_topic_regex="f[ab]") == (1, {})
    assert core.written() == ["5A", "8A 1<0 STABLE"]
    core.advance(0)
    assert core.written() == ["16 fa,fb", "3 e2"]
    assert core.told("A", 1) == (2, {"fa": [0, 1, 2], "fb": [0, 1]})
    core.written()
    assert core.refused("A", 2, subscribed_topic_regex="(?!a)b") is Err.INVALID_REGULAR_EXPRESSION
    assert core.told("A", 2, subscribed_topic_regex="", subscribed_topic_names=["fb"]) == (2, {"fb": [0, 1]})
    assert core.written() == ["5A fb", "16 gone", "3 e3", "7A fb01", "6 e3 timed", "8A 2<2 UNREVOKED fb01 -fa012"]


def test_a_new_topic_is_matched_after_ten_seconds_at_most() -> None:
    core = Crowd((4, 1), {"fa": 1})
    core.told("A", 0, subscribed_topic_names=[], subscribed_topic_regex="f.*")
    core.advance(0)
    assert core.told("A", 1) == (2, {"fa": [0]})
    core.topics({"fz": 1})
    core.told("A", 2)
    core.advance(9_000)
    assert core.told("A", 2) == (2, None)
    core.advance(1_001)
    core.told("A", 2)
    core.advance(0)
    assert core.told("A", 2) == (3, {"fa": [0], "fz": [0]})


@EACH
def test_one_that_matches_nothing_moves_no_group(release: tuple[int, int]) -> None:
    core = Crowd(release, {"fa": 1}, assignment_interval_ms=0, session_timeout_ms=60_000)
    core.told("A", 0, subscribed_topic_names=[], subscribed_topic_regex="x.*")
    core.advance(0)
    assert [record for record in core.written() if record[0] != "5"][-1] == "16 "
    epoch = core.consumer().latest.group_epoch
    assert core.told("A", 1) == (1, None)
    assert core.consumer().latest.group_epoch == epoch == 1
    core.topics({"xa": 1})
    core.advance(10_000)
    core.told("A", 1)
    core.advance(0)
    assert core.told("A", 1) == (1, None)  # not in the ten seconds behind the last look
    core.advance(1)
    core.told("A", 1)
    core.advance(0)
    assert core.told("A", 1) == (2, {"xa": [0]})


@EACH
def test_a_new_one_waits_until_ten_seconds_behind_the_last_look(release: tuple[int, int]) -> None:
    core = Crowd(release, {"fa": 1, "fb": 1}, assignment_interval_ms=0, session_timeout_ms=60_000)
    core.told("A", 0, subscribed_topic_names=[], subscribed_topic_regex="fa")
    core.advance(0)
    core.told("A", 1)
    core.told("B", 0, subscribed_topic_names=[], subscribed_topic_regex="fb")
    core.advance(10_000)
    assert core.told("B", 2) == (2, None)
    core.advance(1)
    assert core.told("B", 2) == (2, None)
    core.advance(0)
    assert core.told("B", 2) == (3, {"fb": [0]})


@EACH
def test_one_that_replaces_another_is_looked_at_at_the_next_heartbeat(release: tuple[int, int]) -> None:
    """The former one, which is resolved, still counts in the request that gives it up; and the topics of neither move the group."""
    core = Crowd(release, {"fa": 1, "zz": 1}, assignment_interval_ms=0)
    core.told("A", 0, subscribed_topic_names=[], subscribed_topic_regex="f.*")
    core.advance(0)
    assert core.told("A", 1) == (2, {"fa": [0]})
    assert core.told("A", 2, owned={"fa": [0]}) == (2, None)
    core.written()
    given_up = None if release == (4, 1) else {}  # since 4.2 at once, and kept until it says that it has given it up
    assert core.told("A", 2, subscribed_topic_regex="z.*") == (2, given_up)
    core.advance(0)
    assert core.written()[:2] == ["5A", "16 gone"]
    assert core.consumer().latest.group_epoch == 2
    core.told("A", 2)
    core.advance(0)
    assert core.written() == ["16 zz", "3 e3"]


@EACH
def test_one_that_is_given_up_moves_the_group_since_4_2(release: tuple[int, int]) -> None:
    core = Crowd(release, {"fa": 1, "fb": 1}, assignment_interval_ms=0)
    core.told("A", 0, subscribed_topic_names=[], subscribed_topic_regex="f.*")
    core.advance(0)
    assert core.told("A", 1) == (2, {"fa": [0], "fb": [0]})
    core.told("A", 2, owned={"fa": [0], "fb": [0]})
    assert core.told("A", 2, subscribed_topic_regex="")[0] == 2
    assert core.consumer().latest.group_epoch == (2 if release == (4, 1) else 3)
    core.topics({"other": 1})
    core.told("A", 2)
    assert core.consumer().latest.group_epoch == (2 if release == (4, 1) else 3)


def test_topics_that_change_meanwhile_are_compared_with_those_of_the_epoch() -> None:
    """4.1: the heartbeat that gave the expression up has not looked; a change of what the group reads has it look."""
    core = Crowd((4, 1), {"fa": 1, "fb": 1})
    core.told("A", 0, subscribed_topic_regex="f.*", subscribed_topic_names=["fa"])
    core.advance(0)
    core.told("A", 1)
    core.told("A", 2, subscribed_topic_regex="")
    assert core.consumer().latest.group_epoch == 2
    core.topics({"fa": 2})
    core.told("A", 2)
    assert core.consumer().latest.group_epoch == 3


def test_all_are_looked_at_again_after_the_refresh_interval() -> None:
    core = Crowd((4, 1), {"fa": 1}, regex_refresh_interval_ms=20_000)
    core.told("A", 0, subscribed_topic_names=[], subscribed_topic_regex="f.*")
    core.advance(0)
    core.told("A", 1)
    core.written()
    looks = []
    for second in range(1, 60):
        core.advance(1000)
        core.told("A", 2)
        core.advance(0)
        looks += [second] * core.written().count("16 fa")
    assert looks == [21, 42]


def targets(core: Crowd) -> dict[str, dict[str, tuple[int, ...]]]:
    given = core.consumer().latest.targets
    return {
        member: {name_of(topic): tuple(numbers) for topic, numbers in target.items()}
        for member, target in given.items()
    }


@EACH
def test_members_that_read_the_same_by_name_and_by_expression_are_unlike(release: tuple[int, int]) -> None:
    """`uniform` then deals topic by topic, where it would fill quotas else."""
    core = Crowd(release, {"fa": 3, "zz": 1}, assignment_interval_ms=0)
    core.told("A", 0, subscribed_topic_names=["fa"], subscribed_topic_regex="zz")
    core.advance(0)
    core.told("B", 0, subscribed_topic_names=["fa"])
    assert not core.consumer().latest.is_homogeneous
    assert targets(core) == {"A": {"fa": (0,), "zz": (0,)}, "B": {"fa": (1, 2)}}


def test_a_missing_topic_that_one_member_names_makes_them_unlike() -> None:
    core = Crowd((4, 1), {"fa": 3, "fb": 2})
    core.told("A", 0, subscribed_topic_names=["fa", "fb"])
    core.told("B", 0, subscribed_topic_names=["fa", "fb", "missing"])
    assert targets(core) == {"A": {"fa": (0,), "fb": (0, 1)}, "B": {"fa": (1, 2)}}


def test_internal_topics_are_matched_as_others_are() -> None:
    """As Kafka 4.1.0 does (franz-go's tests hold a client to it): a broker leaves out none."""
    core = Crowd((4, 1), {"fa": 1, "__consumer_offsets": 2})
    core.told("A", 0, subscribed_topic_names=[], subscribed_topic_regex=".*")
    core.advance(0)
    assert core.written()[-2:] == ["16 __consumer_offsets,fa", "3 e2"]


def test_the_last_that_subscribes_by_one_takes_it_along() -> None:
    core = Crowd((4, 1), {"fa": 1})
    for member in ("A", "B"):
        core.told(member, 0, subscribed_topic_names=[], subscribed_topic_regex="f.*")
        core.advance(0)
    core.told("A", -1)
    assert "16 gone" not in core.written()
    core.told("B", -1)
    assert "16 gone" in core.written()
    assert core.consumer().latest.matched == {}


@pytest.mark.real_kafka
def test_re2j_answers_alike() -> None:
    rng = random.Random(848)
    pieces = [
        *"ab()*+?|[]^$.-_1",
        "\\d",
        "\\w",
        "{2}",
        "{1,3}",
        "(?:",
        "(?i)",
        "\\b",
        "[a-c]",
        "\\.",
        "(?P<x>",
        "\\Q",
        "\\pL",
        "\\W",
        "\\s",
        "[^a-z]",
        "[[:punct:]]",
        "[[:^alpha:]]",
        "(?s)",
        "(?m)",
        "\\p{Greek}",
        "\\P{Latin}",
        "\\p{Lu}",
        *"ä/: λ",
        "[à-ö]",
        ".*",
    ]
    texts = ["".join(rng.choice(pieces) for _ in range(rng.randint(1, 8))) for _ in range(1500)]
    source = Path(__file__).parent / "java" / "Matches.java"
    question = "\n".join([*(f"N {name}" for name in (*NAMES, *IDS)), *(f"P {text}" for text in texts)]) + "\n"
    done = subprocess.run(
        java_command("4.1.0", str(source)), input=question.encode(), capture_output=True, timeout=300, check=False
    )
    answers = done.stdout.decode().splitlines()
    assert len(answers) == len(texts), done.stderr.decode(errors="replace")[-1000:]
    different = [
        (text, theirs, mine) for text, theirs in zip(texts, answers, strict=True) if theirs != (mine := ours(text))
    ]
    assert different == []


def ours(text: str) -> str:
    try:
        of_topics = matcher_of(text)
        of_any = matcher_of(text, frozenset("".join((*NAMES, *IDS))))
    except PatternError:
        return "no"
    assert [of_topics.matches(name) for name in NAMES] == [of_any.matches(name) for name in NAMES]
    return "".join("1" if of_any.matches(name) else "0" for name in (*NAMES, *IDS))


@pytest.mark.parametrize(("release", "previous"), [((4, 2), 1), ((4, 3), 2), ((4, 4), 2)], ids=["4.2", "4.3", "4.4"])
def test_a_member_whose_topics_go_with_its_expression(release: tuple[int, int], previous: int) -> None:
    """CurrentAssignmentBuilder.updateCurrentAssignment of 4.2.1, 4.3.0 and 4.4.0: without a new epoch, the previous one may change."""
    core = Crowd(release)
    epoch, _ = core.told("A", 0, subscribed_topic_names=[], subscribed_topic_regex="t")
    core.advance(1)
    core.told("A", epoch)
    core.written()
    core.told("A", 2, subscribed_topic_regex="u")
    assert core.written() == ["5A", "16 gone", f"8A 2<{previous} UNREVOKED -t012"]


@pytest.mark.parametrize(("release", "more"), [((4, 2), []), ((4, 3), ["8A 1<1 STABLE"])], ids=["4.2", "4.3"])
def test_a_member_without_topics_that_gets_an_expression(release: tuple[int, int], more: list[str]) -> None:
    core = Crowd(release)
    epoch, _ = core.told("A", 0, subscribed_topic_names=[])
    core.written()
    core.told("A", epoch, subscribed_topic_regex="u")
    assert core.written() == ["5A", *more]
    core.told("A", -1)
    epoch, _ = core.told("A", 0, subscribed_topic_names=["none"])
    core.written()
    core.told("A", epoch, subscribed_topic_regex="v")
    assert core.written() == ["5A none"], "a name is enough, be it of a topic or not"
