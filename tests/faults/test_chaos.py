"""Any mix of rules, holds and clients that come and go: every client hears what it may hear, and nothing is left."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_sim.faults.selectors import Asked, Selector, fits
from broker_sim.requests.facts import RequestFacts
from kafka_wire.api_keys import ApiKey
from kafka_wire.errors import Err
from tests.faults.rig import Rig, commit, heartbeat, until
from tests.support.wire import Wire, WireClosedError

VERDICTS: list[dict[str, Any]] = [
    {"error": "NOT_COORDINATOR"},
    {"error_after": "REBALANCE_IN_PROGRESS"},
    {"delay": "3s"},
    {"reply_delay": "3s"},
    {"hang": True},
    {"drop": True},
    {"drop_after": True},
    {"truncate": 6},
    {"split": 5, "gap": "2s"},
    {"throttle_ms": 4000},
]
POSSIBLE = {Err.NONE, Err.NOT_COORDINATOR, Err.REBALANCE_IN_PROGRESS, Err.UNKNOWN_MEMBER_ID}


@pytest.mark.parametrize("seed", range(25))
async def test_whatever_is_broken_every_request_ends_once(seed: int) -> None:
    rng = random.Random(seed)
    async with Rig() as rig:
        chaos = _Chaos(rig, rng)
        for _ in range(400):
            await rng.choice(chaos.moves)()
        await chaos.end()
        numbers = [event["request"] for event in rig.told("request")]
        assert numbers == list(range(1, len(numbers) + 1))
        assert sorted(event["request"] for event in rig.told("response")) == numbers
        assert len(numbers) > 20
        assert rig.told("fault")
        held = [event for event in rig.told("order") if event["action"] == "held"]
        assert len(held) >= sum(event["action"] == "released" for event in rig.told("order"))


class _Chaos:
    """A few clients, and somebody who breaks things."""

    def __init__(self, rig: Rig, rng: random.Random) -> None:
        self.rig, self.rng = rig, rng
        self.wires: list[Wire] = []
        self.answers: list[asyncio.Future[Any]] = []
        self.faults: list[Any] = []
        self.holds: list[Any] = []
        self.moves = [
            self.connect,
            self.ask,
            self.ask,
            self.ask,
            self.abort,
            self.break_,
            self.mend,
            self.hold,
            self.release,
        ]
        self.moves += [self.pass_time, self.turn, self.mend, self.connect]

    async def connect(self) -> None:
        if len(self.wires) < 6:
            self.wires.append(await self.rig.connect(f"app-{self.rng.randrange(3)}"))

    async def ask(self) -> None:
        if self.wires:
            wire = self.rng.choice(self.wires)
            for _ in range(self.rng.randrange(1, 4)):
                request, version = self.rng.choice([(commit(), 8), (heartbeat(), 4), (commit("audit"), 8)])
                self.answers.append(wire.start(request, version))

    async def abort(self) -> None:
        if self.wires and self.rng.random() < 0.5:
            self.wires.pop(self.rng.randrange(len(self.wires))).abort()

    async def break_(self) -> None:
        selector = self.rng.choice(
            [{}, {"api": "OffsetCommit"}, {"client_id": "app-1"}, {"api": "OffsetCommit", "group": "b*"}]
        )
        budget = self.rng.choice([{}, {"times": 2}, {"nth": 2}, {"probability": 0.5}, {"after": "1s", "during": "5s"}])
        self.faults.append(self.rig.faults.add(**selector, **budget, **self.rng.choice(VERDICTS)))

    async def mend(self) -> None:
        if self.faults:
            fault = self.faults.pop(self.rng.randrange(len(self.faults)))
            fault.remove()
            fault.release()

    async def hold(self) -> None:
        if len(self.holds) < 2:
            self.holds.append(self.rig.order.hold(self.rng.choice(["Heartbeat", "OffsetCommit", None])))

    async def release(self) -> None:
        for hold in self.holds:
            hold.release(self.rng.choice([1, 2, "all"]))
        if self.holds and self.rng.random() < 0.5:
            self.holds.pop().end()

    async def pass_time(self) -> None:
        self.rig.clock.advance(self.rng.choice([0, 500, 2500]))

    async def turn(self) -> None:
        for _ in range(self.rng.randrange(1, 20)):
            await asyncio.sleep(0)

    async def end(self) -> None:
        """Everything mended: who still has a connection is answered."""
        self.rig.faults.clear()
        self.rig.order.clear()

        def settled() -> bool:
            for fault in self.faults:
                fault.release()
            self.rig.clock.advance(10)
            return all(answer.done() for answer in self.answers)

        await until(settled, "every answer, or the end of its connection")
        for answer in self.answers:
            if isinstance(answer.exception(), WireClosedError):
                continue
            response = answer.result()
            code = (
                response.error_code if hasattr(response, "error_code") else response.topics[0].partitions[0].error_code
            )
            assert Err(code) in POSSIBLE


# --- selectors ------------------------------------------------------------------------------------------------------------

WORD = st.text("ab*", min_size=1, max_size=3)
PLAIN = st.text("ab", min_size=1, max_size=3)
ASKED = st.builds(
    Asked,
    st.sampled_from([int(ApiKey.OFFSET_COMMIT), int(ApiKey.HEARTBEAT)]),
    st.integers(0, 9),
    st.none() | PLAIN,
    st.integers(1, 2),
    st.builds(
        RequestFacts,
        st.lists(PLAIN, max_size=2).map(tuple),
        st.lists(PLAIN, max_size=2).map(tuple),
        st.lists(PLAIN, max_size=1).map(tuple),
        st.lists(st.tuples(PLAIN, st.integers(0, 2)), max_size=3).map(tuple),
        st.booleans(),
    ),
)
SELECTOR = st.builds(
    Selector,
    st.none() | st.frozensets(st.sampled_from([int(ApiKey.OFFSET_COMMIT), int(ApiKey.HEARTBEAT)]), min_size=1),
    st.none() | st.tuples(st.integers(0, 5), st.integers(5, 9)),
    st.none() | WORD,
    st.none() | WORD,
    st.none() | WORD,
    st.none() | WORD,
    st.none(),
    st.none() | st.integers(1, 2),
)


@given(SELECTOR, ASKED, st.none() | st.integers(0, 2))
def test_a_selector_is_the_and_of_its_keys(selector: Selector, asked: Asked, partition: int | None) -> None:
    if selector.topic is not None:
        selector = Selector(*(getattr(selector, name) for name in Selector.__slots__[:6]), partition, selector.broker)
    facts = asked.facts
    each = [
        selector.apis is None or asked.api_key in selector.apis,
        selector.versions is None or selector.versions[0] <= asked.version <= selector.versions[1],
        selector.client_id is None or fits(selector.client_id, asked.client_id),
        selector.group is None or any(fits(selector.group, one) for one in facts.groups),
        selector.member is None or any(fits(selector.member, one) for one in facts.members + facts.instances),
        selector.topic is None
        or facts.every_topic
        or any(fits(selector.topic, name) and selector.partition in (None, index) for name, index in facts.topics),
        selector.broker is None or selector.broker == asked.broker,
    ]
    assert selector.matches(asked) is all(each)
    assert (selector.misfit(asked) is None) is all(each[1:])
