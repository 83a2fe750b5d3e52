"""The hostile client and the run it is in: drawn from the seed alone, and rough indeed."""

from __future__ import annotations

import pytest

from broker_sim.simulation import simulate
from broker_sim.simulation.checks.answers import Answers, SentRequest
from broker_sim.simulation.workloads import hostile
from broker_sim.simulation.workloads.hostile import Hostile, run_hostile
from broker_sim.simulation.workloads.raw import (
    CONFIG,
    GROUP,
    Member,
    RawClient,
    RawContext,
    commit_request,
    fetch_request,
    join_request,
)
from kafka_wire.errors import Err


class Asked:
    """Every request of a run as its clients see it, with its answer."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.by: dict[Answers, list[SentRequest]] = {}
        sent = Answers.sent

        def noted(answers: Answers, *args: object) -> SentRequest:
            ask = sent(answers, *args)  # type: ignore[arg-type]
            self.by.setdefault(answers, []).append(ask)
            return ask

        patch.setattr(Answers, "sent", noted)

    @property
    def asks(self) -> list[SentRequest]:
        """Requests of all runs' clients; the journal's checker asks last."""
        clients = [asks for asks in self.by.values() if asks[0].api == "FindCoordinator"]
        return [each for asks in clients for each in asks]

    def lines(self) -> list[str]:
        return [str(each) for each in self.asks]


def test_a_run_is_drawn_from_its_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = []
    for seed in (7, 7, 8):
        with monkeypatch.context() as patch:
            asked = Asked(patch)
            run_hostile(seed, seconds=6)
            runs.append(asked.lines())
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def test_a_journal_changes_nothing_that_clients_see(monkeypatch: pytest.MonkeyPatch) -> None:
    """The short ways answer as the long ones do."""
    runs = []
    for journal in (False, True):
        with monkeypatch.context() as patch:
            asked = Asked(patch)
            run_hostile(3, journal=journal, seconds=8)
            runs.append([(each.api, each.version, each.error) for each in asked.asks])
    assert runs[0] == runs[1]


@pytest.mark.slow
def test_the_hostile_client_hears_every_refusal_and_the_members_live_on(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(monkeypatch)
    beats = sum(run_hostile(seed).beats for seed in (*range(8), 18))
    heard = {(each.api, each.error) for each in asked.asks}
    assert beats > 800
    for error in (Err.ILLEGAL_GENERATION, Err.UNKNOWN_MEMBER_ID, Err.NOT_COORDINATOR, Err.REBALANCE_IN_PROGRESS):
        assert any(told is error for _, told in heard), error.name
    assert ("OffsetCommit", Err.FENCED_INSTANCE_ID) in heard or ("Heartbeat", Err.FENCED_INSTANCE_ID) in heard
    assert ("JoinGroup", Err.MEMBER_ID_REQUIRED) in heard


@pytest.mark.slow
def test_every_deed_is_done_in_some_run(monkeypatch: pytest.MonkeyPatch) -> None:
    deeds = [name for name in dir(Hostile) if name.startswith("_do_")]
    done: set[str] = set()

    def counted(name: str) -> object:
        real = getattr(Hostile, name)

        async def deed(self: Hostile) -> None:
            done.add(name)
            await real(self)

        return deed

    for name in deeds:
        monkeypatch.setattr(Hostile, name, counted(name))
    for seed in range(40):
        if len(done) == len(deeds):
            break
        run_hostile(seed, seconds=5)
    assert sorted(done) == sorted(deeds)


def test_a_breach_ends_the_run_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(answers: Answers, ask: SentRequest, *args: object) -> None:
        if ask.sent_s > 3:
            answers.fail("nothing is ever committed", ask, "it was")

    monkeypatch.setitem(hostile.Invariants.__init__.__globals__["CHECKS"], "OffsetCommit", never)
    report = run_hostile(1)
    assert report.broken is not None
    assert report.broken.name == "nothing is ever committed"
    assert 3 < report.virtual_s < 4
    assert "OffsetCommit" in str(report.broken)
    assert len(str(report.broken).splitlines()) > 5


def test_pipelined_requests_are_matched_to_their_answers() -> None:
    with simulate(1) as sim:
        kafka = sim.cluster(1, {"orders": 6, "elsewhere": 2}, journal=False, config=CONFIG)
        kafka.state.ensure_offsets_topic()
        answers = Answers(kafka.state, lambda: sim.elapsed_s, lambda error: None)
        context = RawContext(sim, kafka, answers)
        client = RawClient(context, "one")

        async def program() -> list[object]:
            line = await client.line(1)
            first = line.start(join_request("nobody", None), 5)
            second = line.start(commit_request("", None, -1, {0: 5}), 8)
            third = line.start(fetch_request(1), 7)
            return [await first, await second, await third]

        join, commit, fetch = sim.run(program())
        assert join.error_code == Err.UNKNOWN_MEMBER_ID  # type: ignore[attr-defined]
        assert commit.topics[0].partitions[0].error_code == Err.NONE  # type: ignore[attr-defined]
        assert fetch.topics[0].partitions[0].committed_offset == 5  # type: ignore[attr-defined]
        assert not answers.open
        assert answers.broken is None


def test_a_member_that_behaves_joins_commits_and_reads() -> None:
    with simulate(2) as sim:
        kafka = sim.cluster(2, {"orders": 6, "elsewhere": 2}, journal=False, config=CONFIG)
        answers = Answers(kafka.state, lambda: sim.elapsed_s, lambda error: None)
        kafka.state.ensure_offsets_topic()
        context = RawContext(sim, kafka, answers)
        member = Member(context, "one")
        sim.host("one").spawn(member.run())
        sim.run_for(10)
        assert member.beats > 20
        assert member.generation == 1
        assert answers.broken is None
        assert kafka.group(GROUP).generation == 1
