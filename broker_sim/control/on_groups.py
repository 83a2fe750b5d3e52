"""Operations on consumer groups: look at them, wait for them, have them explained."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from broker_sim.common.text import UsageError
from broker_sim.control.resolve import AHEAD, group_of, has_events_of, not_there
from broker_sim.control.shapes import GROUP, Map
from broker_sim.control.table import TIMEOUT, operation
from broker_sim.fields.field import Field
from broker_sim.fields.kafka import GROUP_STATE
from broker_sim.fields.kinds import Choice, Count, Flag, MapOf, Text
from broker_sim.journal import groups_in
from kafka_wire.group_states import GroupState

if TYPE_CHECKING:
    from broker_sim.api.cluster import Cluster
    from broker_sim.api.handles import GroupHandle

GROUP_ID = Field("group", Text(), "the group id", required=True, example="billing")
GENERATION = Field("generation", Count(0), "only this generation", example=7)

STATE = Field("state", GROUP_STATE, "the group's state", example="Stable")
MEMBER_GONE = Field("member_gone", Text(), "no member has that member id, instance id or client id")
CONDITIONS = (
    Field("members", Count(0), "number of members", example=3),
    Field("generation", Count(0), "this generation or a later one"),
    Field("committed", MapOf(Count()), "committed offsets, these or later ones: orders-0=5,orders-1=7"),
    Field(
        "lag_below",
        Count(1),
        "upper bound of the total lag (exclusive); also requires records, an owner for every partition, no negative lag",
    ),
    Field(
        "reading",
        Flag(),
        "every assigned partition was fetched by its owner, so that records produced now are delivered",
    ),
)


def _offsets(given: dict[str, Any]) -> dict[tuple[str, int], int] | None:
    if "committed" not in given:
        return None
    from broker_sim.storage.checkpoints import partition_of_dir

    offsets = {}
    for name, offset in given["committed"].items():
        named = partition_of_dir(name)
        if named is None or len(name.rpartition("-")[2]) > 9:
            raise UsageError(f"committed: {name!r} is not a partition (expected e.g. orders-0)")
        offsets[named] = offset
    return offsets


def _examine_wait(given: dict[str, Any]) -> None:
    names = [STATE.name, *(condition.name for condition in CONDITIONS)]
    named = [name for name in names if name in given]
    if not named and MEMBER_GONE.name not in given:
        raise UsageError(f"no condition to wait for; expected one of {', '.join([*names, MEMBER_GONE.name])}")
    if named and MEMBER_GONE.name in given:
        raise UsageError(
            f"{MEMBER_GONE.name} can't be combined with {', '.join(named)}; wait for them one after the other"
        )
    _offsets(given)


def _examine_get(given: dict[str, Any]) -> None:
    _offsets(given)


def shown(group: GroupHandle) -> dict[str, Any]:
    """A group as JSON; see shapes.GROUP."""
    members = group.members
    log = group.cluster.runtime.partition_of(group.group_id)
    lag = group.lag()
    return {
        "group": group.group_id,
        "state": group.state,
        "generation": group.generation,
        "leader": next((member.member_id for member in members if member.leader), None),
        "members": [dataclasses.asdict(member) for member in members],
        "coordinator": group.coordinator,
        "log": None if log is None else log.name,
        "offsets": {f"{topic}-{index}": offset for (topic, index), offset in group.committed().items()},
        "lag": {f"{topic}-{index}": records for (topic, index), records in lag.items()},
        "deleted": {f"{topic}-{index}": records for (topic, index), records in lag.deleted.items()},
        "unassigned": [f"{topic}-{index}" for topic, index in lag.unassigned],
    }


def require_in_journal(events: Iterable[dict[str, Any]], group: str) -> None:
    """Raises NotThere if a journal does not have a group."""
    events = list(events)
    if not has_events_of(events, group):
        raise not_there("group", group, sorted(groups_in(events)))


@operation("group.list", "GET /groups", answer={"groups": [GROUP]})
async def list_groups(cluster: Cluster, given: dict[str, Any]) -> Any:
    """List all groups with their states and members."""
    return {"groups": [shown(cluster.group(name)) for name in cluster.groups()]}


@operation(
    "group.get",
    "GET /groups/{group}",
    GROUP_ID,
    Field("wait", GROUP_STATE, "wait for this state", example="stable"),
    *CONDITIONS,
    TIMEOUT,
    answer=GROUP,
    waits=True,
    examine=_examine_get,
)
async def get_group(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Show a group: state, generation, members with assignments, offsets, lag; with a condition, once it holds."""
    group = cluster.group(given["group"])
    conditions = [STATE.name, "wait", *(condition.name for condition in CONDITIONS)]
    if any(name in given for name in conditions):
        return await _waited(group, {**given, "state": given.get("wait")})
    if group.state == GroupState.DEAD.value:
        raise not_there("group", given["group"], cluster.groups())
    return shown(group)


@operation(
    "group.wait",
    "GET /groups/{group}/wait",
    GROUP_ID,
    STATE,
    *CONDITIONS,
    MEMBER_GONE,
    TIMEOUT,
    answer=GROUP,
    waits=True,
    examine=_examine_wait,
)
async def wait_group(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Wait until all conditions hold for a group at the same time; the group may not exist yet."""
    group = cluster.group(given["group"])
    if MEMBER_GONE.name in given:
        await group.member_gone(given[MEMBER_GONE.name], timeout=given["timeout"])
        return shown(group)
    return await _waited(group, given)


async def _waited(group: GroupHandle, given: dict[str, Any]) -> dict[str, Any]:
    await group.wait(
        state=given.get("state"),
        members=given.get("members"),
        generation=given.get("generation"),
        committed=_offsets(given),
        lag_below=given.get("lag_below"),
        reading=given.get("reading", False),
        timeout=given["timeout"],
    )
    return shown(group)


@operation(
    "group.explain",
    "GET /groups/{group}/explain",
    GROUP_ID,
    GENERATION,
    answer={"group": "string", "text": "string"},
)
async def explain_group(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Explain in words why a group rebalanced, who delayed it, for how long, and how it ended."""
    require_in_journal(cluster.observe().events, given["group"])
    return {"group": given["group"], "text": cluster.group(given["group"]).explain(given.get("generation"))}


@operation(
    "group.timeline",
    "GET /groups/{group}/timeline",
    GROUP_ID,
    Field("form", Choice(("text", "svg", "html")), "text, or a picture", default="text"),
    Field("width", Count(40, 400), "width of the text, in characters", default=100),
    answer={"group": "string", "text?": "string", "svg?": "string", "html?": "string"},
)
async def draw_group(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Draw a group's history: members as lanes, generations as bands, faults as marks."""
    require_in_journal(cluster.observe().events, given["group"])
    return {"group": given["group"], given["form"]: drawn(cluster.observe().events, **given)}


def drawn(events: Iterable[dict[str, Any]], group: str, form: str, width: int) -> str:
    """A group's history as a picture of that form; ``width`` in characters, of the text alone."""
    from broker_sim.explain.picture import html, svg
    from broker_sim.explain.terminal import timeline

    return (
        timeline(events, group, width)
        if form == "text"
        else svg(events, group)
        if form == "svg"
        else html(events, group)
    )


@operation(
    "group.commit",
    "GET /groups/{group}/commit",
    GROUP_ID,
    Field("since", Count(0), "accept a commit after this journal sequence number (default: the next commit)"),
    TIMEOUT,
    answer={"group": "string", "seq": "integer", "offsets": Map("integer?")},
    waits=True,
)
async def wait_commit(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Wait for the next successful commit of a group; returns its offsets."""
    journal = cluster.observe()
    group, since = given["group"], given.get("since")
    seen = await journal.next(event="offsets", group=group, since=since, timeout=given["timeout"])
    return {"group": given["group"], "seq": seen["seq"], "offsets": seen["offsets"]}


@operation(
    "group.probe",
    "POST /groups/{group}/probe",
    GROUP_ID,
    AHEAD,
    TIMEOUT,
    answer={"ok": "boolean", "error": "string", "log": "string"},
    waits=True,
)
async def probe(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Check whether the group's coordinator accepts commits now, without affecting the group."""
    group = group_of(cluster, given["group"], ahead=given.get("ahead", False))
    result = await group.commit_probe(timeout=given["timeout"])
    return {"ok": result.ok, "error": result.error.name, "log": result.log}


@operation(
    "group.remove_member",
    "DELETE /groups/{group}/members/{member}",
    GROUP_ID,
    Field("member", Text(), "its member id, instance id or client id", required=True),
    TIMEOUT,
    answer=GROUP,
)
async def remove_member(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Remove a member from its group with LeaveGroup, as an admin client does."""
    group = cluster.group(given["group"])
    named = {
        name for member in group.members for name in (member.member_id, member.instance_id, member.client_id) if name
    }
    if given["member"] not in named:
        raise not_there("member", given["member"], sorted(named), of=f"group {given['group']!r}")
    await group.remove(given["member"], timeout=given["timeout"])
    return shown(group)
