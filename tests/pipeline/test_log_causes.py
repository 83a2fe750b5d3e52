"""Causes of rebalances without a journal: from brokers' log lines, and from commits before members were gone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from broker_sim.pipeline.log_causes import cause_of_reason
from broker_sim.pipeline.rebalance_rows import rebalances_of
from tests.pipeline.offsets import T0

SESSION_MS, POLL_MS = 10_000, 60_000
UUID = "5f0c2f7e-8d3b-4f4e-9d2a-1c2b3d4e5f0"


def member(client: str, *assigned: int, life: int = 0) -> dict[str, Any]:
    return {
        "member": f"{client}-{UUID}{life}",
        "client_id": client,
        "topics": ["orders"],
        "assigned": [{"topic": "orders", "partitions": list(assigned)}],
        "session_ms": SESSION_MS,
        "rebalance_ms": POLL_MS,
    }


class Log:
    """A group's records with what was committed between them; times in seconds after T0."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.generation = 0

    def stands(
        self,
        at: float,
        *members: dict[str, Any],
        committed: dict[int, tuple[float, float, int]] | None = None,
        in_transactions: bool = False,
    ) -> Log:
        """The next generation; ``committed``: partition -> (first, last, commits) since the one before."""
        self.generation += 1
        seen = [
            {"name": f"orders-{partition}", "seen": [*(int(T0 + at * 1000) for at in (first, last)), times, 100, plain]}
            for partition, (first, last, times) in (committed or {}).items()
            for plain in (None if in_transactions else int(T0 + last * 1000),)
        ]
        ms = int(T0 + at * 1000)
        self._row(
            ts_ms=ms + 10,
            state_ms=ms,
            generation=self.generation,
            members_after=json.dumps(members),
            progress=json.dumps(seen),
        )
        return self

    def line(self, what: str, at: float, **columns: Any) -> Log:
        """A broker's line, which stands before all records."""
        self._row(what=what, ts_ms=int(T0 + at * 1000), at=f"server.log:{len(self.rows) + 1}", **columns)
        return self

    def _row(self, **columns: Any) -> None:
        names = (
            "coordinator_partition",
            "state_ms",
            "generation",
            "members_after",
            "progress",
            "what",
            "at",
            "cause_members",
        )
        place = {
            "place": len(self.rows),
            "run_id": "r1",
            "group": "billing",
            "of_log": True,
            "detail": None,
            "size_after": None,
        }
        self.rows.append({**dict.fromkeys(names), **place, **columns})

    def told(self) -> list[dict[str, Any]]:
        lines = [row for row in self.rows if row["at"] is not None]
        return list(rebalances_of([*lines, *(row for row in self.rows if row["at"] is None)]))

    def last(self) -> tuple[Any, ...]:
        row = self.told()[-1]
        return row["cause"], row.get("cause_certainty"), row["who_clients"]


def two(last: float, closed: float) -> Log:
    """app-2, which committed each second until ``last``, is gone when a window closes."""
    log = Log().stands(0, member("app-1", 0), member("app-2", 1))
    return log.stands(closed, member("app-1", 0, 1), committed={0: (1, closed, 50), 1: (1, last, int(last))})


@pytest.mark.parametrize(
    ("last", "closed", "told"),
    [
        (100, 109.9, ("leave", "certain", ["app-2"])),  # within a session of its last commit it can't have run out
        (100, 101, ("leave", "certain", ["app-2"])),
        (100, 111, ("session timeout", "likely", ["app-2"])),
        (100, 160.5, ("poll timeout", "likely", ["app-2"])),
        (100, 140, ("departed", None, ["app-2"])),  # neither a session nor a poll: it may have had nothing to commit
        (100, 1000, ("departed", None, ["app-2"])),
    ],
)
def test_the_cause_of_a_departure_is_derived_from_the_last_commit(
    last: float, closed: float, told: tuple[Any, ...]
) -> None:
    assert two(last, closed).last() == told


@pytest.mark.parametrize(
    ("closed", "told"),
    [(105, ("departed", None, ["app-2"])), (111, ("session timeout", "likely", ["app-2"]))],
)
def test_a_commit_in_a_transaction_restarts_no_session(closed: float, told: tuple[Any, ...]) -> None:
    """A member that is killed just after one is removed less than a session later."""
    log = Log().stands(0, member("app-1", 0), member("app-2", 1))
    seen = {0: (1, closed, 50), 1: (1, 100, 100)}
    assert log.stands(closed, member("app-1", 0, 1), committed=seen, in_transactions=True).last() == told


def test_a_member_that_seldom_commits_shows_nothing_by_its_silence() -> None:
    log = Log().stands(0, member("app-1", 0), member("app-2", 1))
    log.stands(111, member("app-1", 0, 1), committed={0: (1, 110, 100), 1: (1, 100, 5)})
    assert log.last() == ("departed", None, ["app-2"])


def test_a_crashed_member_whose_client_rejoined_is_reported_as_crashed() -> None:
    log = Log().stands(0, member("app-1", 0), member("app-2", 1))
    log.stands(111, member("app-1", 0), member("app-2", 1, life=1), committed={0: (1, 110, 100), 1: (1, 100, 99)})
    assert log.last() == ("session timeout", "likely", ["app-2"])


def test_a_member_that_crashes_before_its_first_commit_is_known_by_its_generation() -> None:
    """As in a loop over a record that kills its consumer: the generation lasts a session."""
    log = Log().stands(0, member("app-1", 0), member("app-2", 1))
    log.stands(10.6, member("app-1", 0), member("app-2", 1, life=1), committed={0: (1, 10, 10)})
    assert log.last() == ("session timeout", "likely", ["app-2"])


def test_a_static_member_that_rejoined_has_not_departed() -> None:
    first, again = (member("app-2", 1, life=life) | {"instance": "i-2"} for life in (0, 1))
    log = Log().stands(0, member("app-1", 0), first)
    log.stands(130, member("app-1", 0), again, committed={0: (1, 110, 100), 1: (1, 100, 99)})
    assert log.last()[0] == "join"


def test_the_group_waits_for_the_member_that_committed_last() -> None:
    log = Log().stands(0, member("app-1", 0), member("app-2", 1))
    log.stands(
        130, member("app-1", 0), member("app-2", 1), member("app-3"), committed={0: (1, 100, 100), 1: (1, 129.5, 129)}
    )
    row = log.told()[-1]
    assert row["waited_for"] == ["app-2"]
    assert 28_000 <= row["waited_ms"] <= 30_000


def test_a_rebalance_without_delay_shows_no_waiting() -> None:
    log = Log().stands(0, member("app-1", 0), member("app-2", 1))
    log.stands(130, member("app-1", 0), member("app-2", 1), committed={0: (1, 129.4, 129), 1: (1, 129.5, 129)})
    assert log.told()[-1].get("waited_ms") is None


# ------------------------------------------------------------------------------------------------ brokers' lines


@pytest.mark.parametrize(
    ("reason", "cause", "who", "error"),
    [
        ("Adding new member a-1 with group instance id None; client reason: not provided", "join", ["a-1"], None),
        ("removing member a-1 on heartbeat expiration", "session timeout", ["a-1"], None),
        ("Removing member a-1 on LeaveGroup; client reason: the consumer is being closed", "leave", ["a-1"], None),
        ("Removing member a-1 on LeaveGroup; client reason: consumer poll timeout has expired.", "poll timeout", ["a-1"], None),
        ("explicit `LeaveGroup` request for (a-1) members.", "leave", ["a-1"], None),
        ("Removing a-1 on pending sync request expiration", "sync failed", ["a-1"], None),
        ("Error COORDINATOR_NOT_AVAILABLE when storing group assignmentduring SyncGroup (member: a-1).", "sync failed", ["a-1"],
         "COORDINATOR_NOT_AVAILABLE"),
        ("Updating metadata for member a-1 during Stable; client reason: need to revoke partitions", "rejoin", ["a-1"], None),
        ("Leader a-1 re-joining group during Stable; client reason: cached metadata has changed", "metadata change", ["a-1"], None),
        ("Freshly-loaded group x (size 3) is over capacity 2. Rebalancing in order", "load", [], None),
        ("Downgrade group billing from consumer to classic.", "downgrade", [], None),
        ("Downgrade group billing from consumer to classic for member leaving.", "downgrade", [], None),
        ("something that no Kafka has said yet", "unknown", [], None),
    ],
)  # fmt: skip
def test_the_reasons_in_brokers_lines(reason: str, cause: str, who: list[str], error: str | None) -> None:
    assert cause_of_reason(reason) == (cause, who, error)


def test_a_line_has_the_beginning_and_the_cause_whatever_the_records_show() -> None:
    log = Log().line("preparing", 100.5, generation=1, detail=f"removing member app-2-{UUID}0 on heartbeat expiration")
    log.line("closed", 103, generation=2)
    log.stands(0, member("app-1", 0), member("app-2", 1)).stands(103, member("app-1", 0, 1))
    row = log.told()[-1]
    assert (row["started_ms"], row["preparing_ms"]) == (T0 + 100_500, 2500)
    assert (row["cause"], row["cause_certainty"], row["who_clients"]) == ("session timeout", "certain", ["app-2"])
    assert row["evidence_lines"] == ["server.log:1", "server.log:2"]


def test_the_reason_of_a_member_in_a_line_of_its_own_counts() -> None:
    """Kafka 4 gives the client's reason before it prepares, 3.4 within its own reason or just behind."""
    left = {"cause_members": f"app-2-{UUID}0", "detail": "consumer poll timeout has expired."}
    log = Log().line("left", 100.4, **left)
    log.line("preparing", 100.4, generation=1, detail=f"explicit `LeaveGroup` request for (app-2-{UUID}0) members.")
    log.stands(0, member("app-1", 0), member("app-2", 1)).stands(103, member("app-1", 0, 1))
    assert log.last() == ("poll timeout", "certain", ["app-2"])


def test_a_clients_own_word_turns_a_leave_into_a_late_poll() -> None:
    log = Log().line(
        "preparing", 100.4, generation=1, detail=f"explicit `LeaveGroup` request for (app-2-{UUID}0) members."
    )
    log.line("poll timeout", 100.3, detail="app-2")
    log.stands(0, member("app-1", 0), member("app-2", 1)).stands(103, member("app-1", 0, 1))
    assert log.last() == ("poll timeout", "certain", ["app-2"])


def test_a_line_of_an_application_that_polls_again_later_belongs_to_its_leave() -> None:
    """The consumer of KIP-848 leaves at its poll timeout, and logs with the next poll() by how much that was too late."""
    log = Log().line(
        "preparing", 100.4, generation=1, detail=f"explicit `LeaveGroup` request for (app-2-{UUID}0) members."
    )
    log.line("poll timeout", 120, detail="app-2", size_after=19_600)
    log.stands(0, member("app-1", 0), member("app-2", 1)).stands(103, member("app-1", 0, 1))
    assert log.last() == ("poll timeout", "certain", ["app-2"])


def test_a_member_whose_session_expired_while_others_waited_is_reported() -> None:
    log = Log().line(
        "preparing", 100, generation=1, detail=f"Adding new member app-2-{UUID}1 with group instance id None"
    )
    log.line("session timeout", 106, cause_members=f"app-2-{UUID}0").line("closed", 106, generation=2)
    log.stands(0, member("app-1", 0), member("app-2", 1)).stands(106, member("app-1", 0), member("app-2", 1, life=1))
    row = log.told()[-1]
    assert (row["cause"], row["timed_out"], row["preparing_ms"]) == ("join", [], 6000)
    assert (row["held_by"], row["held_who"], row["held_ms"]) == ("session", [f"app-2-{UUID}0"], 6000)


def test_rebalances_without_a_record_come_from_lines_and_failed_if_the_next_began() -> None:
    reason = f"Adding new member app-1-{UUID}0 with group instance id None"
    log = Log().line("preparing", 10, generation=0, detail=reason).line("closed", 11, generation=1)
    log.line("preparing", 20, generation=1, detail=reason).line("closed", 21, generation=2).line(
        "assigned", 22, generation=2
    )
    log.generation = 1
    log.stands(21, member("app-1", 0))
    first, second = sorted(log.told(), key=lambda row: row["started_ms"])
    assert (first["source"], first["generation"], first["end"], first["ended_ms"]) == (
        "broker log",
        1,
        "failed",
        T0 + 20_000,
    )
    assert (second["source"], second["generation"], second["started_ms"]) == ("log", 2, T0 + 20_000)


@pytest.mark.parametrize(
    ("what", "detail", "cause"),
    [
        ("fenced", "the member session expired", "session timeout"),
        ("fenced", "it failed to transition from epoch 3 within 60000ms", "rebalance timeout"),
        ("modern left", "left", "leave"),
    ],
)
def test_a_brokers_line_has_the_cause_of_a_departure_from_a_consumer_group(what: str, detail: str, cause: str) -> None:
    log = Log().line(what, 50, cause_members="b", detail=detail)
    records = [
        ("MemberMetadata", 0, "a"),
        ("MemberMetadata", 0, "b"),
        ("Metadata", 0, None),
        ("MemberMetadata", 50, "b"),
        ("Metadata", 50, None),
    ]
    for place, (name, at, who) in enumerate(records):
        told = None if at or who is None else json.dumps({"clientId": f"c-{who}", "instanceId": None})
        epoch = (2 if at else 1) if name == "Metadata" else None
        log._row(
            what=f"ConsumerGroup{name}",
            ts_ms=T0 + at * 1000,
            cause_members=who,
            detail=told,
            generation=epoch,
            place=place,
        )
    assert log.last() == (cause, "certain", ["c-b"])
