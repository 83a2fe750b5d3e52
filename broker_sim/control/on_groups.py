"""Operations on consumer groups: look at them, wait for them, have them explained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker_sim.control.on_requests import TIMEOUT
from broker_sim.control.shapes import GROUP
from broker_sim.control.table import Parameter, operation
from broker_sim.words import UsageError

if TYPE_CHECKING:
    from broker_sim.cluster import Cluster

GROUP_ID = Parameter("group", "str", "the group id", required=True, example="billing")
STATES = ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead")
GENERATION = Parameter("generation", "int", "only this generation", least=0, example=7)

CONDITIONS = (
    Parameter("state", "str", "the group's state", choices=lambda: STATES, example="Stable"),
    Parameter("members", "int", "how many members", least=0, example=3),
    Parameter("generation", "int", "this generation or a later one", least=0),
    Parameter("committed", "map", "offsets that are committed, or later ones: {orders-0: 5}", items="int"),
    Parameter("lag_below", "int", "the sum of the lags of its partitions is below", least=1),
)


def _examine_wait(given: dict[str, Any]) -> None:
    if not any(one.name in given for one in CONDITIONS):
        raise UsageError("nothing to wait for; name one of " + ", ".join(one.name for one in CONDITIONS))


@operation("group.list", "GET /groups", answer={"groups": [GROUP]})
async def list_groups(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Every group that a coordinator knows."""
    raise NotImplementedError


@operation(
    "group.get",
    "GET /groups/{group}",
    GROUP_ID,
    Parameter("wait", "str", "wait for this state: stable, empty, ...", example="stable"),
    *CONDITIONS[1:],
    TIMEOUT,
    answer=GROUP,
    waits=True,
)
async def get_group(cluster: Cluster, given: dict[str, Any]) -> Any:
    """A group: state, generation, members with their assignments, offsets, lag; with a condition once that holds."""
    raise NotImplementedError


@operation(
    "group.wait",
    "GET /groups/{group}/wait",
    GROUP_ID,
    *CONDITIONS,
    TIMEOUT,
    answer=GROUP,
    waits=True,
    examine=_examine_wait,
)
async def wait_group(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Wait until all that is named holds for a group at once."""
    raise NotImplementedError


@operation(
    "group.explain", "GET /groups/{group}/explain", GROUP_ID, GENERATION, answer={"group": "string", "text": "string"}
)
async def explain_group(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Tell in words why a group rebalanced, who held it up, for how long, and how it ended."""
    raise NotImplementedError


@operation("group.timeline", "GET /groups/{group}/timeline", GROUP_ID, answer={"group": "string", "text": "string"})
async def draw_group(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Draw a group's history with letters; timeline.svg and timeline.html beside it are pictures."""
    raise NotImplementedError


@operation(
    "group.remove_member",
    "DELETE /groups/{group}/members/{member}",
    GROUP_ID,
    Parameter("member", "str", "its member id or instance id", required=True),
    answer=GROUP,
)
async def remove_member(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Remove a member from its group, as an operator does with a LeaveGroup."""
    raise NotImplementedError
