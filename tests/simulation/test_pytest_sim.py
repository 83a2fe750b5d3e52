"""@pytest.mark.sim in users' projects, which pytester plays in processes of their own."""

from __future__ import annotations

import os
import re
import sys

import pytest

from broker_sim.common.text import UsageError
from broker_sim.simulation.virtual.hashseed import SEED
from broker_sim.testing.pytest_simulation import parse_seeds
from tests.support import processes

HEAD = """
import asyncio, os, sys
import pytest
from broker_sim.simulation import Fault, Swarm
"""

WORKER = """
def worker(sim, done):
    async def work():
        while True:
            await asyncio.sleep(1)
            done.append(sim.elapsed_s)
    return work
"""

CRASHES = """
@pytest.mark.sim(seeds=range(30), faults=Swarm(during="20s", kinds=["client.*", "broker.*"]))
def test_work_is_done(sim):
    print("a run of seed", sim.seed)
    sim.cluster()
    done = []
    sim.host("worker").spawn(worker(sim, done))
    sim.run_for(30)
    assert len(done) > 25, "too little is done"
"""

GROUP = """
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

@pytest.mark.sim(seeds=range(40), faults=Swarm(during="20s", kinds=["client.*", "link.*"]), order="tasks")
def test_every_order_is_billed(sim):
    kafka = sim.cluster(topics={"orders": 4})
    billed = set()

    async def bill():
        async with AIOKafkaConsumer("orders", bootstrap_servers=kafka.bootstrap, group_id="billing",
                                    enable_auto_commit=False, auto_offset_reset="earliest") as consumer:
            async for order in consumer:
                await consumer.commit()  # before it is billed: the bug
                await asyncio.sleep(0.2)
                billed.add(order.value)

    async def sell():
        async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap) as producer:
            for number in range(40):
                await producer.send_and_wait("orders", b"%d" % number)
                await asyncio.sleep(0.5)

    for name in ("b1", "b2"):
        sim.host(name).spawn(bill)
    sim.host("shop").spawn(sell())
    sim.run_for(25)
    sim.check(groups={"billing": 2})
    assert len(billed) == 40
"""


def play(pytester: pytest.Pytester, code: str, *arguments: str, timeout: float = 150) -> pytest.RunResult:
    pytester.makepyfile(HEAD + WORKER + code)
    options = ("-p", "no:randomly", "-p", "no:cacheprovider", "-o", "asyncio_default_fixture_loop_scope=function")
    options += ("-o", "faulthandler_timeout=140")  # a test that hangs there is shown where it does
    return pytester.runpytest_subprocess(*options, *arguments, timeout=timeout)


@pytest.fixture(autouse=True)
def pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process that was started again, which costs as much as the test: where that is the subject, tests are ``unpinned``."""
    monkeypatch.setenv("PYTHONHASHSEED", SEED)


@pytest.fixture
def unpinned(pinned: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a user's shell."""
    monkeypatch.delenv("PYTHONHASHSEED")


# --- clean and failing -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.usefixtures("unpinned")
def test_every_seed_is_a_world_of_its_own_and_the_hash_seed_is_pinned(pytester: pytest.Pytester) -> None:
    code = """
seen = []

@pytest.mark.sim(seeds=range(5), repeat=0)
def test_seeds(sim):
    assert sim.pinned and os.environ["PYTHONHASHSEED"] == "0"
    assert sim.elapsed_s == 0 and not sim.hosts
    sim.host("x")
    sim.run_for("1h")
    seen.append(sim.seed)
    if sim.seed == 4:
        assert seen == [0, 1, 2, 3, 4]

def test_without_it_is_seed_0_alone(sim):
    assert sim.seed == 0

@pytest.mark.sim(seeds=3)
def test_a_number_of_seeds(sim):
    assert sim.seed in (0, 1, 2)
"""
    result = play(pytester, code)
    result.assert_outcomes(passed=3)
    assert result.ret == 0
    text = result.stdout.str()
    assert text.count("test session starts") == 1, text
    assert text.count("collected 3 items") == 1
    result.stdout.fnmatch_lines(["simulation: 11 runs in 3 tests, 5 h of virtual time"])
    assert result.stderr.str() == ""


@pytest.mark.slow
@pytest.mark.usefixtures("unpinned")
def test_a_failure_tells_how_to_see_it_again_and_what_it_takes(pytester: pytest.Pytester) -> None:
    result = play(pytester, CRASHES)
    result.assert_outcomes(failed=1)
    assert result.ret == 1
    text = result.stdout.str()
    seed, clean = re.search(r"seed (\d+) failed \((\d+) before it passed\): AssertionError at ", text).groups()  # type: ignore[union-attr]
    assert seed == clean
    assert int(clean) > 0
    result.stdout.fnmatch_lines(
        [
            "*AssertionError: too little is done",
            f"again: pytest test_a_failure_tells_how_to_see_it_again_and_what_it_takes.py::test_work_is_done --sim-seed {seed}",
            "needed: 1 of the * faults that occurred (* runs); the test with these alone:",
            f"    @pytest.mark.sim(seeds=[[]{seed}[]]*, faults=[[]",
            '        [[]*, "*", {"host": "worker"*}],',
            "    ])",
        ]
    )
    shown = text[text.index("Captured stdout call") : text.index("- Simulation -")]
    assert shown.count("a run of seed") == 1, "the output of one run alone"

    again = play(pytester, CRASHES, "--sim-seed", seed)
    again.assert_outcomes(failed=1)
    again.stdout.fnmatch_lines([f"seed {seed} failed (the first one): *"])

    marker = text[text.index("    @pytest.mark.sim(seeds=[") : text.index("    ])") + 6]
    _, _, body = CRASHES.partition(")\ndef")
    pasted = play(pytester, "\n" + re.sub(r"^    ", "", marker, flags=re.MULTILINE) + "\ndef" + body)
    pasted.assert_outcomes(failed=1)


@pytest.mark.slow
def test_a_planted_bug_of_a_consumer_is_found_made_small_and_drawn(pytester: pytest.Pytester) -> None:
    result = play(pytester, GROUP, "--kafka-timeline", "pictures")
    result.assert_outcomes(failed=1)
    text = result.stdout.str()
    told = text[text.index("- Simulation -") :]
    assert re.search(r"needed: 1 of the \d+ faults that occurred", told), told
    faults = re.findall(r'^ {8}\[[\d.]+, "(\w+)", \{"(?:host|sender)": "(\w+)"', told, re.MULTILINE)
    assert {kind for kind, _ in faults} <= {"crash", "restart", "pause", "link"}
    assert "generation" in told
    assert "billing on __consumer_offsets" in told
    (picture,) = (pytester.path / "pictures").iterdir()
    assert "billing" in picture.read_text()
    assert f"timeline of billing: pictures{os.sep}{picture.name}" in told


@pytest.mark.slow
def test_an_error_of_the_test_itself_is_a_failure_without_faults(pytester: pytest.Pytester) -> None:
    code = """
@pytest.mark.sim(seeds=range(50), faults=Swarm())
def test_wrong(sim):
    sim.cluster()
    sim.run_for("soon")

@pytest.mark.sim(faults=[[1, "pause", {"host": "x"}]])
def test_fails_anyhow(sim):
    sim.cluster()
    sim.host("x")
    sim.run_for(2)
    raise KeyError("mine")
"""
    result = play(pytester, code)
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        [
            "*UsageError: run_for: 'soon' is not a duration*",
            "no fault had occurred when it failed",
            "it fails without any of its 1 faults*",
        ]
    )


@pytest.mark.slow
def test_plans_that_the_test_injects_are_made_small_too(pytester: pytest.Pytester) -> None:
    code = """
@pytest.mark.sim(seeds=[5], faults=[[1, "pause", {"host": "x", "for_s": 1}]], order="tasks")
def test_it(sim):
    sim.cluster()
    x, y = sim.host("x"), sim.host("y")
    sim.run_for(5)
    sim.inject([[1, "pause", {"host": "x"}], [2, "pause", {"host": "y", "for_s": 8}], [3, "elect", {"log": "offsets(a)"}]])
    sim.run_for(4)
    assert y.state == "up"
"""
    result = play(pytester, code)
    result.stdout.fnmatch_lines(
        [
            "needed: 1 of the 4 faults that occurred (* runs); the test with these alone:",
            "    sim.inject([[]  # the plan number 2; with @pytest.mark.sim(seeds=[[]5], order='fifo', noisy=())",
            '        [[]2, "pause", {"host": "y", "for_s": *}],',
        ]
    )


# --- which seeds -----------------------------------------------------------------------------------------------------------

PRINTS = """
@pytest.mark.sim(seeds=range(100), repeat=0)
def test_prints(sim):
    sys.__stdout__.write(f"<{sim.seed}>")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "seeds"),
    [(("--sim-seed=-3..-1",), [-3, -2]), (("--sim-seeds", "2"), [0, 1])],
)
def test_seeds_can_be_chosen(pytester: pytest.Pytester, arguments: tuple[str, ...], seeds: list[int]) -> None:
    result = play(pytester, PRINTS, "-s", *arguments)
    result.assert_outcomes(passed=1)
    assert [int(seed) for seed in re.findall(r"<(-?\d+)>", result.stdout.str())] == seeds


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x", "--sim-seed x: not a seed or a range of seeds"),
        ("9..3", "is an empty range of seeds"),
        ("", "not a seed or a range of seeds"),
    ],
)
def test_wrong_seeds_are_told(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_seeds(text)


WRONG = {
    "@pytest.mark.sim(seed=range(3))\ndef test_0(sim): ...": "no argument 'seed' of @pytest.mark.sim; did you mean 'seeds'?",
    "@pytest.mark.sim(range(3))\ndef test_1(sim): ...": "takes keyword arguments only",
    "@pytest.mark.sim(seeds=[])\ndef test_2(sim): ...": "seeds= is empty; expected one seed or more",
    "@pytest.mark.sim(seeds='abc')\ndef test_3(sim): ...": "seeds= takes numbers",
    "@pytest.mark.sim(faults=[[1, 'crsh', {}]])\ndef test_4(sim): ...": "no kind of fault 'crsh'; did you mean 'crash'?",
    "@pytest.mark.sim(order='any')\ndef test_5(sim): ...": "no order of tasks 'any'",
    "@pytest.mark.sim(seeds=range(3))\ndef test_6(): ...": "the test has no argument sim",
    "@pytest.mark.sim(seeds=range(3))\nasync def test_7(sim): ...": "a test with sim is a plain function",
    "@pytest.fixture\ndef k(sim): return sim.cluster()\ndef test_8(sim, k): ...": "a fixture can't use sim",
    "def test_9(sim): return 5": "a test returns nothing, not 5",
}


@pytest.mark.slow
def test_what_the_marker_cannot_mean_is_told_in_a_line(pytester: pytest.Pytester) -> None:
    result = play(pytester, "\n".join(WRONG), "-o", "asyncio_mode=auto")
    assert result.ret == 1
    text = result.stdout.str()
    assert {message: message in text for message in WRONG.values()} == dict.fromkeys(WRONG.values(), True)
    outcomes = result.parseoutcomes()
    assert outcomes.get("failed", 0) + outcomes.get("errors", 0) == len(WRONG)


# --- runs that can't be repeated -------------------------------------------------------------------------------------------

SAYS = """
def say(sim, what):
    sim.note(str(what))
"""


NOT_THE_SAME = """
kept = []

@pytest.mark.sim(seeds=range(3))
def test_addresses(sim):
    sim.cluster()
    kept.append(object())  # so that the next run's have other addresses
    say(sim, id(kept[-1]))

@pytest.mark.sim(seeds=range(3))
def test_leftovers(sim):
    kept.append(1)
    sim.cluster()
    say(sim, len(kept))

@pytest.mark.sim(seeds=range(3))
def test_clocks(sim):
    sim.cluster()
    with open("stamp", "w") as file:
        say(sim, os.fstat(file.fileno()).st_mtime_ns)  # a clock that no simulation has in its hands
"""


@pytest.mark.slow
def test_tests_that_are_not_deterministic_are_told_so(pytester: pytest.Pytester) -> None:
    result = play(pytester, SAYS + NOT_THE_SAME)
    result.assert_outcomes(failed=3)
    told = ["*not deterministic: seed 0 was run twice; event * is another one*", "*first *mark*", "*second *mark*"]
    result.stdout.fnmatch_lines([*told, "*globals, caches, counters*"] * 3)


def test_a_failure_that_does_not_come_again_is_told_so(pytester: pytest.Pytester) -> None:
    code = """
runs = []
@pytest.mark.sim(seeds=range(3), repeat=0)
def test_it(sim):
    sim.cluster()
    runs.append(sim.seed)
    assert runs.count(1) != 1
"""
    result = play(pytester, code)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*not deterministic: seed 1 was run twice; the first time: AssertionError at *; then: clean*"]
    )


# --- beside other plugins --------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.usefixtures("unpinned")
def test_with_xdist_the_workers_are_pinned(pytester: pytest.Pytester) -> None:
    code = """
@pytest.mark.sim(seeds=2)
def test_pinned(sim):
    assert sim.pinned

def test_other(): ...
"""
    result = play(pytester, code, "-n", "2")
    result.assert_outcomes(passed=2)


@pytest.mark.slow
@pytest.mark.usefixtures("unpinned")
def test_a_random_order_is_the_one_that_was_announced(pytester: pytest.Pytester) -> None:
    tests = "\n".join(f"def test_{n}(sim): print('SEED', random.random())" for n in range(5))
    pytester.makepyfile(HEAD + "import random\n" + tests)
    result = pytester.runpytest_subprocess("-v", "-o", "asyncio_default_fixture_loop_scope=function")
    result.assert_outcomes(passed=5)
    (seed,) = re.findall(r"--randomly-seed=(\d+)", result.stdout.str())
    order = re.findall(r"::(test_\d) PASSED", result.stdout.str())
    again = pytester.runpytest_subprocess(
        "-v", f"--randomly-seed={seed}", "-o", "asyncio_default_fixture_loop_scope=function"
    )
    assert re.findall(r"::(test_\d) PASSED", again.stdout.str()) == order


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [("-p", "no:asyncio", "-s"), ("-o", "asyncio_mode=auto", "-q"), ("-p", "no:terminal")]
)
@pytest.mark.usefixtures("unpinned")
def test_with_and_without_others(pytester: pytest.Pytester, options: tuple[str, ...]) -> None:
    code = "@pytest.mark.sim(seeds=2)\ndef test_passes(sim): assert sim.pinned\ndef test_fails(sim): assert 0"
    result = play(pytester, code, "--junitxml", "told.xml", *options)
    assert result.ret == 1
    assert 'errors="0" failures="1" skipped="0" tests="2"' in (pytester.path / "told.xml").read_text()


@pytest.mark.slow
@pytest.mark.usefixtures("unpinned")
def test_python_m_pytest_and_a_debugger(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        HEAD + "@pytest.mark.sim(seeds=2)\ndef test_it(sim):\n    breakpoint()\n    assert sim.pinned\n"
    )
    command = [sys.executable, "-m", "pytest", "-p", "no:randomly", "-o", "asyncio_default_fixture_loop_scope=function"]
    done = processes.run(command, cwd=pytester.path, input="p 6 * 7\nc\nc\nc\n")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "(Pdb) 42" in done.stdout
    assert done.stdout.count("test session starts") == 1


@pytest.mark.slow
@pytest.mark.usefixtures("unpinned")
def test_nothing_starts_again_where_nothing_with_sim_is_run(pytester: pytest.Pytester) -> None:
    code = """
def test_other():
    assert "PYTHONHASHSEED" not in os.environ
    assert not any(name.startswith("broker_sim.simulation.sweeps.seeds") for name in sys.modules)

def test_sim(sim): ...
"""
    result = play(pytester, code, "-k", "other")
    result.assert_outcomes(passed=1, deselected=1)
    result = play(pytester, code, "--collect-only", "-q")
    assert "2 tests collected" in result.stdout.str()
    result = play(pytester, code + "\nimport nowhere\n")
    assert result.ret == 2
    assert result.stdout.str().count("collected 0 items / 1 error") == 1


@pytest.mark.usefixtures("unpinned")
def test_a_program_that_calls_pytest_is_not_replaced(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(HEAD + "def test_it(sim): assert not sim.pinned; assert 0")
    options = "['-p', 'no:randomly', '-o', 'asyncio_default_fixture_loop_scope=function']"
    code = f"import pytest; code = pytest.main({options}); print('still here', int(code))"
    done = processes.run([sys.executable, "-c", code], cwd=pytester.path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("still here 1\n")
    assert (
        "Another process may run otherwise: PYTHONHASHSEED is not pinned. Start it with PYTHONHASHSEED=0."
        in done.stdout
    )


@pytest.mark.slow
def test_a_hash_seed_of_the_users_own_stays_and_is_told(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "42")
    result = play(pytester, "def test_it(sim): assert os.environ['PYTHONHASHSEED'] == '42'; assert 0")
    result.stdout.fnmatch_lines(["again: PYTHONHASHSEED=42 pytest *::test_it --sim-seed 0"])


@pytest.mark.slow
@pytest.mark.usefixtures("unpinned")
def test_a_users_own_fixture_of_that_name_is_theirs(pytester: pytest.Pytester) -> None:
    code = """
@pytest.fixture
def sim():
    return "theirs"

@pytest.mark.sim
def test_it(sim):
    assert sim == "theirs"
    assert "PYTHONHASHSEED" not in os.environ
"""
    play(pytester, code).assert_outcomes(passed=1)


@pytest.mark.slow
def test_skips_and_expected_failures_are_what_they_are(pytester: pytest.Pytester) -> None:
    code = """
@pytest.mark.sim(seeds=3)
def test_skips(sim):
    pytest.skip("not today")

@pytest.mark.xfail(strict=True)
@pytest.mark.sim(seeds=3)
def test_fails(sim):
    assert 0

@pytest.mark.sim(seeds=3)
def test_fails_by_word(sim):
    pytest.fail("so it is")
"""
    result = play(pytester, code)
    result.assert_outcomes(skipped=1, xfailed=1, failed=1)
    result.stdout.fnmatch_lines(["*Failed: so it is*", "again: pytest *::test_fails_by_word --sim-seed 0"])


@pytest.mark.slow
def test_a_timeout_names_the_seed_and_is_not_shrunk(pytester: pytest.Pytester) -> None:
    code = """
import signal

@pytest.mark.timeout(100)
@pytest.mark.sim(seeds=range(10**9), repeat=0)
def test_long(sim):
    sim.cluster()
    if sim.seed == 3:
        signal.setitimer(signal.ITIMER_REAL, 0.05)  # the time is up: pytest-timeout's own alarm rings, wherever that is
    sim.run_for(10)
"""
    result = play(pytester, code)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*Timeout (>100.0s) from pytest-timeout*", "*seed * was running*"])


@pytest.mark.slow
def test_other_fixtures_parameters_and_classes(pytester: pytest.Pytester) -> None:
    code = """
@pytest.mark.sim(seeds=3, order="tasks")
class TestIt:
    @pytest.mark.parametrize("brokers", [1, 3])
    @pytest.mark.sim(seeds=2)
    def test_it(self, sim, brokers, tmp_path):
        assert sim.loop.order == "tasks" and sim.seed < 2
        assert len(sim.cluster(brokers=brokers).brokers) == brokers
        (tmp_path / str(sim.seed)).touch()
"""
    play(pytester, code).assert_outcomes(passed=2)
