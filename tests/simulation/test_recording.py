"""A run that is not the same when it is run again is told where it parts ways with the first."""

from __future__ import annotations

import itertools

import pytest

from broker_sim.simulation import Simulation, simulate
from broker_sim.simulation.repeating import check_repeatable
from broker_sim.simulation.virtual.recording import NotRepeatable, RunRecording
from tests.simulation.workload import begin


def test_a_run_that_is_repeatable_passes() -> None:
    def story(sim: Simulation) -> None:
        begin(sim)
        sim.run_for(8)
        sim.crash("c1")
        sim.run_for(8)

    check_repeatable(story, 3)
    check_repeatable(story, 3, order="tasks", trace=True)


def test_the_run_stops_at_the_first_different_event_and_shows_it() -> None:
    runs = itertools.count()

    def story(sim: Simulation) -> None:
        begin(sim)
        sim.run_for(8)
        if next(runs):
            sim.note("not there before")
        sim.run_for(60)

    with pytest.raises(NotRepeatable) as caught:
        check_repeatable(story, 3)
    text = str(caught.value)
    assert text.startswith("seed 3, 8.0")
    (second,) = (line for line in text.splitlines() if line.startswith("  second "))
    assert "not there before" in second
    assert "can be repeated if" in text
    assert text.count("  both   ") == 3


def test_a_run_that_ends_early_is_a_difference() -> None:
    first, second = RunRecording(), RunRecording()
    for number in range(3):
        first.note(0, {"seq": number})
    second = RunRecording(first)
    second.note(0, {"seq": 0})
    second.end()
    assert second.difference is not None
    assert "event 2" in second.difference
    assert second.difference.endswith("(nothing)")


def test_what_was_done_to_the_network_and_to_hosts_is_in_the_journal() -> None:
    with simulate(1) as sim:
        begin(sim)
        sim.run_for(10)
        with sim.network.partition("c1", "broker-1"):
            sim.run_for(1)
        sim.network.reset("c2")
        sim.pause("c3")
        sim.resume("c3")
        sim.crash("p")
        sim.restart("p")
        told = [event["text"] for event in sim.journal.events if event["event"] == "mark"]
    assert told == [
        "cut c1 -> broker-1, broker-1 -> c1",
        "heal c1 -> broker-1, broker-1 -> c1",
        "reset c2 *",
        "pause c3",
        "resume c3",
        "crash p silent",
        "restart p",
    ]


def test_a_cluster_that_stops_and_starts_goes_on_in_the_hash() -> None:
    def run(marks: int) -> str:
        with simulate(1) as sim:
            kafka = sim.cluster()
            sim.run(kafka.stop())
            sim.run(kafka.start())
            for _ in range(marks):
                kafka.journal.write("mark", text="again")
            return sim.journal_hash

    assert run(1) == run(1) != run(2)
