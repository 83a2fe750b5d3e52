"""The workload's members of a share group: which records they take for acquired by two members."""

from __future__ import annotations

import pytest

from broker_sim.simulation.checks.answers import InvariantBroken
from broker_sim.simulation.checks.share_log import ShareLog
from broker_sim.simulation.workloads.by_epochs import EpochAnswers
from broker_sim.simulation.workloads.by_shares import Acquisitions, MemberSession, ShareMember
from broker_sim.simulation.workloads.raw import GROUP, RawConnection, RawContext
from broker_sim.simulation.world import simulate
from kafka_wire.messages.k78_share_fetch import AcquiredRecords, PartitionData


@pytest.mark.parametrize(
    ("sent_s", "answered_s", "breach"),
    [
        (2.4, 2.6, True),
        (1.1, 2.6, True),
        (0.4, 2.6, False),  # seed 716364: it was handled at 0.4 s, its lock ended before the other member's began
        (2.4, 3.6, False),
    ],
    ids=["within the other's lock", "its own lock reached into it", "under way for long", "after the other's lock"],
)
def test_a_record_that_two_members_are_given(sent_s: float, answered_s: float, breach: bool) -> None:
    """Locks of 1.5 s; the first member asks at 2 s, and has its response at 2.1 s."""
    with simulate(1) as sim:
        kafka = sim.cluster(1, {"orders": 1}, as_version="4.1", journal=False)
        breaches: list[InvariantBroken] = []
        answers = EpochAnswers(kafka.state, lambda: sim.elapsed_s, breaches.append, waive=frozenset())
        context = RawContext(sim, kafka, answers)
        hands = Acquisitions(ShareLog(GROUP, kafka.state, answers.report, 5, counts_all=False), context)
        unit = kafka.state.topics["orders"].topic_id, 0
        row = PartitionData(0, acquired_records=[AcquiredRecords(0, 0, 1)])

        def given(member: str, sent_s: float, answered_s: float) -> MemberSession:
            sim.run_for(answered_s - sim.elapsed_s)
            session = MemberSession(RawConnection(answers, 1, member))
            ShareMember(context, hands, member)._acquired(session, unit, row, sent_s, (0, {}), set(), exactly=True)
            return session

        assert kafka.state.topics["orders"].partitions[0].leader_epoch == 0
        session = given("c1", 2.0, 2.1)
        given("c2", sent_s, answered_s)
        assert bool(session.doubts) == breach
