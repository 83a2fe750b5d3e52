"""A verdict that holds because nothing was tried is broken; a program of the user's own that fails ends the run at once."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from broker_sim.common.text import UsageError
from broker_sim.scenario.attached import Attached
from tests.scenarios.test_runner import BROKEN, HELD, ONE_MEMBER, STABLE, cli, play

# --- a verdict that nothing was tried on -------------------------------------------------------------------------------


async def test_a_rule_that_never_hit_breaks_the_scenario_and_lists_near_misses() -> None:
    text = (
        ONE_MEMBER
        + """\
  - {name: it beats, when: {api: Heartbeat}}
  - {name: broken, do: {fault: {api: LeaveGroup, error: UNKNOWN_MEMBER_ID, times: 1}, as: lost}}
expect:
  - {group: billing, state: Stable}
"""
    )
    outcome = await play(text)
    assert (outcome.code, [one.held for one in outcome.results]) == (1, [True, False]), outcome.report()
    assert outcome.results[1].text.startswith(
        "fault lost never hit: LeaveGroup, once: answer UNKNOWN_MEMBER_ID; no request"
    )
    assert outcome.results[1].where == "scenario:9"
    outcome = await play(text.replace("times: 1}", "times: 1, must_hit: false}"))
    assert outcome.code == 0, outcome.report()
    by_operation = text.replace("{fault: {api", "{op: fault.add, api").replace("times: 1}, as: lost}", "times: 1}")
    outcome = await play(by_operation)
    assert "fault 1 never hit: LeaveGroup" in outcome.results[1].text


UNMET = [
    (
        "log: orders-0, state: slow, latency: 10ms, for: 0ms",
        "no request met orders-0 while it was slow: no request named the partition",
    ),
    ("log: offsets(another), state: stuck", "no request met __consumer_offsets-"),
    ("op: order.hold, api: LeaveGroup", "the hold of LeaveGroup never held a request"),
]


@pytest.mark.parametrize(("what", "said"), UNMET)
async def test_a_state_or_a_hold_without_a_request_breaks_the_scenario(what: str, said: str) -> None:
    text = (
        ONE_MEMBER.replace("steps:", "external: {groups: [another]}\nsteps:")
        + f"""\
  - {{name: it beats, when: {{api: Heartbeat}}}}
  - {{name: broken, do: {{{what}}}}}
  - {{name: later, after: 50ms}}
expect:
  - {{group: billing, state: Stable}}
"""
    )
    outcome = await play(text)
    assert (outcome.code, [one.held for one in outcome.results]) == (1, [True, False]), outcome.report()
    assert outcome.results[1].text.startswith(said)
    assert outcome.results[1].where == "scenario:10"
    outcome = await play(text.replace(what, f"{what}, must_hit: false"))
    assert outcome.code == 0, outcome.report()


async def test_a_state_that_a_request_ran_into_is_met() -> None:
    text = (
        ONE_MEMBER
        + """\
  - {name: broken, when: {group: billing, state: Stable}, do: {log: offsets(billing), state: stuck}}
  - {name: it beats, when: {api: Heartbeat}, do: {op: order.hold, api: Heartbeat}}
  - {name: again, when: {api: Heartbeat}}
expect:
  - {group: billing, state: Stable}
"""
    )
    outcome = await play(text)
    assert outcome.code == 0, outcome.report()


async def test_known_failures_of_a_client_are_reported_if_the_scenario_is_broken() -> None:
    known = 'known: {classic: "such a member never stops", confluent: "something else"}\n'
    outcome = await play(known + BROKEN)
    assert outcome.code == 1
    line = "  KNOWN   such a member never stops: the verdict is known to be broken with it, and with --client kafka-python it holds\n"
    assert line in outcome.report()
    assert "something else" not in outcome.report()
    assert (await play(known + HELD)).known == []


SILENT = f"""{sys.executable} -c 'import sys; sys.stdin.read()'"""


async def test_a_client_that_never_joined_breaks_a_vacuous_scenario() -> None:
    text = (
        ONE_MEMBER.replace(f"when: {STABLE}, within: 150s", "after: 50ms")
        + "expect:\n  - never: {group: billing, committed: decreased}\n"
    )
    outcome = await play(text, clients={"app": SILENT})
    assert [(one.held, one.text) for one in outcome.results] == [
        (True, "never: a committed offset of billing decreased"),
        (False, "the client app never asked to join 'billing', so the expectations prove nothing about it"),
    ]
    assert outcome.code == 1
    outcome = await play(text.replace("kind: classic,", "kind: classic, joins: false,"), clients={"app": SILENT})
    assert outcome.code == 0, outcome.report()


async def test_a_program_for_a_missing_client_is_refused() -> None:
    for given, told in (
        ({"ap": "confluent"}, "no client or kind of client 'ap'; did you mean 'app'? expected one of app, classic"),
        (
            {"app": "confluentt"},
            "'confluentt' is neither a kind of client nor a program; did you mean 'confluent'? expected one of confluent, ",
        ),
    ):
        with pytest.raises(UsageError) as error:
            await play(HELD, clients=given)
        assert str(error.value).startswith(told)


# --- a program of --attach ----------------------------------------------------------------------------------------------

THEIRS = """\
topics: [{name: orders}]
clients: [{name: theirs, kind: external, group: mine, topics: [orders]}]
steps:
  - {name: it came, when: {group: mine, state: Stable}, within: 300s}
expect:
  - {group: mine, state: Stable}
"""


@pytest.mark.slow
def test_options_after_the_dashes_belong_to_the_program(tmp_path: Path) -> None:
    path = tmp_path / "story.yaml"
    path.write_text(HELD)
    for arguments, told in (
        (
            ("--attach",),
            "argument --attach: the program is missing (expected e.g. --attach -- ./start-consumers.sh {bootstrap})",
        ),
        (("--attach", "--"), "argument --attach: the program is missing"),
        (
            ("--attach", "true", "--quiet"),
            "--quiet may belong to the program or to broker-sim: write --attach -- true --quiet for the"
            " program's; options of broker-sim",
        ),
    ):
        done = cli(str(path), *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert told in done.stderr
    wanted = 'import sys, os; open(sys.argv[1], "w").write(" ".join(sys.argv[2:]) + " " + os.environ["BOOTSTRAP"])'
    theirs = (sys.executable, "-c", wanted, str(tmp_path / "got"), "{bootstrap}", "--quiet", "--", "--json")
    done = cli(str(path), "--quiet", "--attach", "--", *theirs)
    assert done.returncode == 0, done.stdout
    address, *rest, environment = (tmp_path / "got").read_text().split()
    assert rest == ["--quiet", "--", "--json"]
    assert address == environment
    assert re.fullmatch(r"127\.0\.0\.1:\d+", address)


async def test_a_program_that_fails_ends_the_run_at_once_with_its_exit_code() -> None:
    told: list[str] = []
    outcome = await play(THEIRS, attach=["sh", "-c", "exit 3"], progress=told.append)
    assert (outcome.code, outcome.late) == (1, ""), "the step's deadline has not passed"
    (result,) = outcome.results
    assert re.fullmatch(
        r"the program of --attach ended with code 3 after [\d.]+ m?s; scenario:4: it came waited for group mine: state Stable",
        result.text,
    )
    assert any("the program of --attach ended with code 3" in line for line in told)
    outcome = await play(THEIRS, attach=["sh", "-c", "kill -9 $$"])
    assert "ended with signal SIGKILL" in outcome.results[0].text


async def test_a_program_that_ends_is_reported_and_one_without_requests_with_how_it_gets_the_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start = Attached.start

    async def to_its_end(self: Attached, *given: Any) -> None:
        await start(self, *given)
        assert self._watching is not None
        await self._watching

    monkeypatch.setattr(Attached, "start", to_its_end)
    outcome = await play(THEIRS.replace("within: 300s", "within: 300ms"), attach=["true"])
    assert outcome.code == 3
    assert outcome.late.endswith(
        "nothing came from the program of --attach: the brokers' address is in its environment as BOOTSTRAP, and "
        "{bootstrap} in its arguments stands for it"
    )
    assert outcome.ended["the program of --attach"].startswith("ended with code 0 after ")


def test_an_external_client_that_is_not_started_proves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "story.yaml"
    path.write_text(
        THEIRS.replace("when: {group: mine, state: Stable}, within: 300s", "after: 10ms").replace(
            "{group: mine, state: Stable}", "{never: {group: mine, members: '>3'}}"
        )
    )
    done = cli(str(path), "--quiet")
    assert done.returncode == 1
    assert (
        "the client theirs never asked to join 'mine', so the expectations prove nothing about it; it is a"
        " client of another program: start that with --attach" in done.stdout
    )
