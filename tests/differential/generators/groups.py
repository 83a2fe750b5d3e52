"""Classic groups: members that join, sync, beat, commit, leave and err, in all states; offsets without members; admin."""

from __future__ import annotations

from typing import Any

from tests.differential.generators.draw import Draw

GROUP = "{p}g"
TOPICS = ("t0", "t1")
UNKNOWN_TOPICS = ("nowhere", "{p}none")
PROTOCOLS = ("range", "roundrobin", "sticky", "cooperative-sticky", "p1", "assignor-x", "")
LONG_MS, UNIT_MS = 30_000, 2_000


class Client:
    """One client of a group: what stays the same in its requests."""

    def __init__(self, draw: Draw, name: str, group: str, session_ms: int, rebalance_ms: int) -> None:
        self.name = name
        self.group = group
        self.session_ms = session_ms
        self.rebalance_ms = rebalance_ms
        self.instance = draw.mostly(None, "{p}i1", "{p}i2", odds=0.7)
        self.type = draw.mostly("consumer", "connect", "x", odds=0.93)
        self.protocols = protocols(draw)
        self.join_version = draw.version("JoinGroup", 5 if self.instance is not None else 0)

    @property
    def me(self) -> dict[str, Any]:
        return {"group_id": self.group, "member_id": f"$member:{self.name}", "group_instance_id": self.instance}


def sequence(draw: Draw) -> None:
    """Members with long timeouts, so that nothing but requests moves the group."""
    clients = _clients(draw, GROUP, [LONG_MS], [LONG_MS])
    for _ in range(draw.rng.randint(2, 5)):
        if draw.often(0.5):
            _round(draw, clients)
        for _ in range(draw.rng.randint(1, 7)):
            _request(draw, draw.one(clients), clients)
    _look(draw)


def timed(draw: Draw) -> None:
    """Members whose timers run out: bursts of requests at moments at which no timer of an earlier burst can fire."""
    clients = _clients(draw, GROUP, [UNIT_MS, 2 * UNIT_MS, LONG_MS], [UNIT_MS, 2 * UNIT_MS, LONG_MS])
    at = 0.0
    for phase in (0.5, 0.25, 0.75, None):
        if draw.often(0.6):
            _round(draw, clients[:3])
        for _ in range(draw.rng.randint(0, 4)):
            _request(draw, draw.one(clients), clients)
        draw.step("DescribeGroups", "look", groups=[GROUP])
        if phase is None:
            break
        at = int(at) + draw.one((1, 1, 2)) + phase
        draw.until(at)
    _look(draw)


def offsets(draw: Draw) -> None:
    """Commits, fetches and deletions of offsets, mostly of groups without members."""
    client = Client(draw, "a", GROUP, LONG_MS, LONG_MS)
    if draw.often(0.3):
        _round(draw, [client])
    for _ in range(draw.rng.randint(6, 22)):
        draw.rng.choices(
            [_commit, _fetch, _offset_delete, _admin, _simple_commit, _request_of_one],
            [3, 4, 3, 2, 5, 1],
        )[0](draw, client)
    _look(draw)


def protocols(draw: Draw) -> list[dict[str, Any]]:
    names = ["range"] if draw.often(0.55) else draw.some(PROTOCOLS, 0 if draw.often(0.1) else 1, 4)
    # one that is named twice Kafka may never answer (docs/fidelity.md)
    return [{"name": name, "metadata": _metadata(draw)} for name in dict.fromkeys(names)]


def _metadata(draw: Draw) -> Any:
    """A subscription, a broken one at times; but none that lies about its length or has no list of topics: these make
    Kafka's decoder throw what nobody catches, and the join phase never ends (docs/fidelity.md).
    """
    if draw.often(0.12):
        return draw.one(["hex:", "hex:00", "hex:ffff", "hex:00000000000000000000"])
    given: dict[str, Any] = {"topics": draw.some([*TOPICS, "nowhere"], 0, 2), "version": draw.rng.randint(0, 3)}
    if draw.often(0.08):
        given["claim"] = draw.one([0, 1, 3, 9, -1])
    if draw.often(0.05):
        given["cut"] = draw.rng.randint(1, 4)
    if draw.often(0.05):
        given["extra"] = "00ff"
    return {"subscription": given}


def _clients(draw: Draw, group: str, sessions: list[int], rebalances: list[int]) -> list[Client]:
    names = "abcd"[: draw.rng.choices([1, 2, 3, 4], [2, 4, 4, 1])[0]]
    kind = draw.one(["consumer", "consumer", "consumer", "connect"])
    common = protocols(draw)
    clients = [Client(draw, name, group, draw.one(sessions), draw.one(rebalances)) for name in names]
    for client in clients:
        if draw.often(0.9):
            client.type = kind
        if draw.often(0.6):
            client.protocols = common
    return clients


# ---- what members do


def _round(draw: Draw, clients: list[Client]) -> None:
    """Everybody joins, the leader hands out, everybody syncs: the usual life, with gaps."""
    order = [client for client in clients if draw.often(0.92)]
    draw.rng.shuffle(order)
    for client in order:
        _join(draw, client, usual=True)
    if draw.often(0.5):  # those who were in already join again, else the join phase stays open
        for client in order[:-1]:
            _join(draw, client, usual=True, again=True)
    for client in draw.rng.sample(order, len(order)):
        if draw.often(0.9):
            _sync(draw, client, usual=True)


def _join(draw: Draw, client: Client, *, usual: bool = False, again: bool = False) -> None:
    version = client.join_version if usual or draw.often(0.6) else draw.version("JoinGroup")
    body = {
        **client.me,
        "session_timeout_ms": client.session_ms,
        "rebalance_timeout_ms": client.rebalance_ms,
        "protocol_type": client.type,
        "protocols": client.protocols,
    }
    if draw.often(0.4):
        body["reason"] = draw.one([None, "", "because"])
    if not usual:
        if draw.often(0.15):
            client.protocols = body["protocols"] = protocols(draw)
        _bend(draw, body, client)
        if draw.often(0.06):
            body["session_timeout_ms"] = draw.one([-1, 0, 99, 100, 60_000, 60_001, 2**31 - 1])
        if draw.often(0.05) and client.session_ms == LONG_MS:
            body["rebalance_timeout_ms"] = draw.one([-1, 2**31 - 1])
        if draw.often(0.04):
            body["protocol_type"] = draw.one(["", "consumer", "connect"])
    if usual and not again and draw.often(0.15):
        body["member_id"] = ""
    draw.step("JoinGroup", client.name, version, **body)
    if version >= 4 and client.instance is None and usual and not again:
        draw.step("JoinGroup", client.name, version, **{**body, "member_id": f"$member:{client.name}"})


def _sync(draw: Draw, client: Client, *, usual: bool = False) -> None:
    body = {
        **client.me,
        "generation_id": f"$generation:{client.name}",
        "protocol_type": f"$type:{client.name}",
        "protocol_name": f"$protocol:{client.name}",
        "assignments": f"$assign:{client.name}",
    }
    version = draw.version("SyncGroup", 5 if draw.often(0.3) else 0)
    if not usual:
        _bend(draw, body, client)
        if draw.often(0.15):
            body["protocol_type"] = draw.one([None, "", "consumer", "connect"])
        if draw.often(0.15):
            body["protocol_name"] = draw.one([None, "", "range", "nothing"])
        if draw.often(0.2):
            to = draw.some(["$member:a", "$member:b", "stranger", ""], 0, 3)
            body["assignments"] = [{"member_id": who, "assignment": draw.one(["hex:", "hex:0102"])} for who in to]
    draw.step("SyncGroup", client.name, version, **body)


def _heartbeat(draw: Draw, client: Client) -> None:
    body = {**client.me, "generation_id": f"$generation:{client.name}"}
    _bend(draw, body, client)
    draw.step("Heartbeat", client.name, None, **body)


def _leave(draw: Draw, client: Client) -> None:
    version = draw.version("LeaveGroup")
    who = ["$member:a", "$member:b", "$member:c", "nobody", ""]
    members = [{"member_id": f"$member:{client.name}", "group_instance_id": client.instance}]
    if draw.often(0.4):
        members = [
            {
                "member_id": draw.one(who),
                "group_instance_id": draw.one([None, None, None, "{p}i1", "{p}i2", "{p}i9", ""]),
            }
            for _ in range(draw.rng.randint(0, 3))
        ]
    for member in members:
        if draw.often(0.3):
            member["reason"] = draw.one([None, "", "done"])
    body: dict[str, Any] = {"group_id": client.group, "member_id": f"$member:{client.name}", "members": members}
    if draw.often(0.1):
        body["member_id"] = draw.one(who)
    draw.step("LeaveGroup", client.name, version, **body)


def _bend(draw: Draw, body: dict[str, Any], client: Client) -> None:
    """One field otherwise than it should be, in a third of the cases."""
    if draw.often(0.66):
        return
    bent = draw.one(["member_id", "generation_id", "group_instance_id", "group_id"])
    other = draw.one("abcd")
    if bent == "member_id":
        body[bent] = draw.one(["", "nobody", f"$member:{other}", f"$leader:{client.name}"])
    elif bent in body and bent == "generation_id":
        body[bent] = draw.one([f"$generation:{client.name}:{shift}" for shift in (1, -1)] + [-1, 0, -2, 2**31 - 1])
    elif bent == "group_instance_id":
        body[bent] = draw.one([None, "", "{p}i1", "{p}i2", "{p}i9"])
    elif bent == "group_id" and draw.often(0.4):
        body[bent] = draw.one(["{p}h", "{p}h", ""])


# ---- offsets


def _partitions(draw: Draw, committing: bool) -> list[dict[str, Any]]:
    topics = []
    for name in draw.some([*TOPICS, *TOPICS, *TOPICS, *UNKNOWN_TOPICS], 0 if draw.often(0.06) else 1, 2):
        rows: list[Any] = draw.some([0, 1, 2, 0, 1, 2, 3, -1], 0 if draw.often(0.05) else 1, 3)
        if committing:
            rows = [
                {
                    "partition_index": index,
                    "committed_offset": draw.one([0, 1, 5, 77, -1, -2, 2**63 - 1, -(2**63)]),
                    "committed_leader_epoch": draw.mostly(-1, 0, 5, -7),
                    "committed_metadata": draw.mostly(
                        "", None, "note", "n" * 100, "n" * 101, "é" * 60, "\U0001f600" * 51, odds=0.5
                    ),
                }
                for index in rows
            ]
        topics.append({"name": name, "rows": rows})
    return topics


def _commit_topics(draw: Draw) -> list[dict[str, Any]]:
    return [{"name": topic["name"], "partitions": topic["rows"]} for topic in _partitions(draw, True)]


def _fetch_topics(draw: Draw) -> list[dict[str, Any]]:
    return [{"name": topic["name"], "partition_indexes": topic["rows"]} for topic in _partitions(draw, False)]


def _commit(draw: Draw, client: Client) -> None:
    body = {**client.me, "generation_id": f"$generation:{client.name}"}
    _bend(draw, body, client)
    if body["group_id"] == "":
        body["group_id"] = "{p}h"  # the group with the empty name is everybody's
    body["generation_id_or_member_epoch"] = body.pop("generation_id")
    draw.step(
        "OffsetCommit", client.name, None, **body, topics=_commit_topics(draw), retention_time_ms=_retention(draw)
    )


def _simple_commit(draw: Draw, client: Client) -> None:
    body: dict[str, Any] = {
        "group_id": client.group,
        "generation_id_or_member_epoch": -1,
        "topics": _commit_topics(draw),
    }
    if draw.often(0.2):
        body["generation_id_or_member_epoch"] = draw.one([0, 1, -2])
    if draw.often(0.2):
        body["member_id"] = draw.one(["", "somebody"])
    if draw.often(0.1):
        body["group_instance_id"] = draw.one(["", "{p}i1"])
    draw.step("OffsetCommit", client.name, None, **body, retention_time_ms=_retention(draw))


def _retention(draw: Draw) -> int:
    return draw.mostly(-1, 3_600_000, 2**40, odds=0.85)


def _fetch(draw: Draw, client: Client) -> None:
    version = draw.version("OffsetFetch")
    stable = draw.often(0.3)
    if version < 8:
        topics = None if version >= 2 and draw.often(0.25) else _fetch_topics(draw)
        group = draw.mostly(client.group, "{p}h", "")
        draw.step("OffsetFetch", client.name, version, group_id=group, topics=topics, require_stable=stable)
        return
    groups = []
    names = draw.some(
        [client.group, client.group, "{p}h", ""], 0 if draw.often(0.05) else 1, 3 if draw.often(0.3) else 1
    )
    if not draw.has("OffsetFetch", 9):
        names = list(dict.fromkeys(names))  # 3.4 falls over a group that is asked for in two ways
    for name in names:
        one: dict[str, Any] = {"group_id": name, "topics": None if draw.often(0.3) else _fetch_topics(draw)}
        if draw.often(0.2):
            one["member_id"] = draw.one([None, "", "$member:a", "nobody"])
            one["member_epoch"] = draw.one([-1, 0, 1, "$generation:a"])
        groups.append(one)
    draw.step("OffsetFetch", client.name, version, groups=groups, require_stable=stable)


def _offset_delete(draw: Draw, client: Client) -> None:
    topics = [
        {"name": topic["name"], "partitions": [{"partition_index": index} for index in topic["rows"]]}
        for topic in _partitions(draw, False)
    ]
    draw.step("OffsetDelete", client.name, None, group_id=draw.mostly(client.group, "{p}h", ""), topics=topics)


# ---- admin


def _admin(draw: Draw, client: Client) -> None:
    kind = draw.rng.choices(["describe", "list", "delete", "find"], [5, 3, 2, 1])[0]
    groups = draw.some(
        [client.group, client.group, client.group, "{p}h", "{p}nobody", ""], 0 if draw.often(0.05) else 1, 2
    )
    if kind == "describe":
        draw.step("DescribeGroups", "look", None, groups=groups, include_authorized_operations=draw.often(0.3))
    elif kind == "list":
        states = [
            "Stable",
            "Empty",
            "PreparingRebalance",
            "CompletingRebalance",
            "Dead",
            "stable",
            " Empty",
            "None",
            "",
        ]
        types = ["classic", "consumer", "Classic", "share", "x", ""]
        draw.step(
            "ListGroups",
            "look",
            None,
            states_filter=[] if draw.often(0.5) else draw.some(states, 1, 2),
            types_filter=[] if draw.often(0.6) else draw.some(types, 1, 2),
        )
    elif kind == "delete":
        named = [name for name in groups if name]
        draw.step("DeleteGroups", "look", None, groups_names=named)
    else:
        version = draw.version("FindCoordinator")
        key_type = draw.mostly(0, 2, 3, -1, odds=0.85)
        draw.step("FindCoordinator", "look", version, key=client.group, key_type=key_type, coordinator_keys=groups)


def any_request(draw: Draw, client: Client) -> None:
    """Something that a client asks for itself, alone in its group."""
    draw.rng.choices([_request_of_one, _commit, _fetch, _simple_commit], [5, 1, 1, 2])[0](draw, client)


def _request_of_one(draw: Draw, client: Client) -> None:
    _request(draw, client, [client])


def _request(draw: Draw, client: Client, clients: list[Client]) -> None:
    """Any request of a group's life."""
    before = len(draw.steps)
    draw.rng.choices(
        [_join, _sync, _heartbeat, _leave, _commit, _fetch, _offset_delete, _admin, _simple_commit],
        [8, 6, 4, 3, 4, 2, 1, 3, 1],
    )[0](draw, client)
    if draw.often(0.04) and len(draw.steps) > before:
        draw.steps[-1].pipelined = True


def _look(draw: Draw) -> None:
    """Draw requests for the final state of the groups and their offsets."""
    draw.step("DescribeGroups", "look", draw.version("DescribeGroups"), groups=[GROUP, "{p}h"])
    draw.step("ListGroups", "look", None)
    for group in (GROUP, "{p}h"):
        draw.step("OffsetFetch", "look", 7, group_id=group, topics=None)


# ---- the group without a name


def nameless(draw: Draw) -> None:
    """Offsets of the group whose name is empty: all plays share it, so each has topics of its own there."""
    own = "{p}n"
    draw.step("CreateTopics", "look", None, topics=[{"name": own, "num_partitions": 3, "replication_factor": 1}])
    client = Client(draw, "a", "", LONG_MS, LONG_MS)
    for _ in range(draw.rng.randint(5, 16)):
        topics = [
            {"name": draw.mostly(own, "{p}none"), "rows": draw.some([0, 1, 2, 3, -1], 0 if draw.often(0.05) else 1, 3)}
            for _ in range(draw.mostly(1, 2, 0, odds=0.85))
        ]
        draw.rng.choices([_nameless_commit, _nameless_fetch, _nameless_other], [5, 4, 2])[0](draw, client, topics)
    draw.step("OffsetFetch", "look", 7, group_id="", topics=None)


def _nameless_commit(draw: Draw, client: Client, topics: list[dict[str, Any]]) -> None:
    rows = [{"name": one["name"], "partitions": [_committed(draw, index) for index in one["rows"]]} for one in topics]
    body: dict[str, Any] = {"group_id": "", "generation_id_or_member_epoch": draw.mostly(-1, 0, 1, -2), "topics": rows}
    if draw.often(0.2):
        body["member_id"] = "somebody"
    if draw.often(0.1):
        body["group_instance_id"] = draw.one(["", "{p}i1"])
    draw.step("OffsetCommit", "a", None, **body, retention_time_ms=_retention(draw))


def _nameless_fetch(draw: Draw, client: Client, topics: list[dict[str, Any]]) -> None:
    version = draw.version("OffsetFetch")
    rows = [{"name": one["name"], "partition_indexes": one["rows"]} for one in topics]
    asked = None if version >= 2 and draw.often(0.25) else rows
    stable = draw.often(0.3)
    if version < 8:
        draw.step("OffsetFetch", "a", version, group_id="", topics=asked, require_stable=stable)
        return
    groups = [{"group_id": name, "topics": asked} for name in dict.fromkeys(draw.some(["", "", "{p}g"], 1, 2))]
    draw.step("OffsetFetch", "a", version, groups=groups, require_stable=stable)


def _nameless_other(draw: Draw, client: Client, topics: list[dict[str, Any]]) -> None:
    """Most others refuse the name; DeleteGroups would take it from all plays."""
    if draw.often(0.4):
        draw.step("DescribeGroups", "a", None, groups=["{p}g", ""])
    elif draw.often(0.5):
        rows = [{"name": one["name"], "partitions": [{"partition_index": p} for p in one["rows"]]} for one in topics]
        draw.step("OffsetDelete", "a", None, group_id="", topics=rows)
    else:
        draw.one([_join, _sync, _heartbeat, _leave])(draw, client)


# ---- offsets and groups that expire


def expiring(draw: Draw) -> None:
    """Offsets with an end of their own, and groups that stay empty. Brokers look for what has expired so often that it is gone within a
    burst's time, and an empty group without offsets is gone at once: what leaves one is a burst's last request.
    """
    client = Client(draw, "a", GROUP, LONG_MS, LONG_MS)
    client.join_version = draw.version("JoinGroup", 5) if client.instance else draw.version("JoinGroup", 0, 3)
    at = 0.0
    for phase in (0.5, 0.25, 0.75, None):
        _look(draw)
        for _ in range(draw.rng.randint(0, 3)):
            draw.rng.choices([_expiring_commit, _arrive, _heartbeat, _fetch], [6, 2, 1, 1])[0](draw, client)
        if phase is None:
            break
        if draw.often(0.4):
            draw.one([_leave, _offset_delete, _knock, _commit_for_no_time])(draw, client)
        at = int(at) + draw.one((1, 1, 2, 31)) + phase
        draw.until(at)


def _committed(draw: Draw, index: int) -> dict[str, Any]:
    return {
        "partition_index": index,
        "committed_offset": draw.one([0, 5, 77]),
        "committed_metadata": draw.one(["", "note"]),
    }


def _expiring_commit(draw: Draw, client: Client, retention_ms: tuple[int, ...] = (-1, 2000, 4000, 60_000)) -> None:
    topics = [
        {"name": name, "partitions": [_committed(draw, index) for index in draw.some([0, 1, 2], 1, 2)]}
        for name in draw.some(TOPICS, 1, 2)
    ]
    body = {**client.me, "generation_id_or_member_epoch": f"$generation:{client.name}"}
    if draw.often(0.4):
        body = {"group_id": client.group, "generation_id_or_member_epoch": -1}
    version = draw.version("OffsetCommit", 2, 4 if draw.often(0.7) else 99)
    draw.step("OffsetCommit", client.name, version, **body, topics=topics, retention_time_ms=draw.one(retention_ms))


def _commit_for_no_time(draw: Draw, client: Client) -> None:
    _expiring_commit(draw, client, (0, 1, 2**40))


def _arrive(draw: Draw, client: Client) -> None:
    _join(draw, client, usual=True, again=True)
    _sync(draw, client, usual=True)


def _knock(draw: Draw, client: Client) -> None:
    """A new member that does not come back with the id that it is told: the group is there, and is empty."""
    _join(draw, Client(draw, "b", client.group, LONG_MS, LONG_MS), usual=True, again=True)
