"""Operations on share groups (KIP-932): which records are in whose hands, locks that end now, what became of each record."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from broker_sim.common.text import UsageError
from broker_sim.control.on_groups import GROUP_ID
from broker_sim.control.resolve import group_of, not_there
from broker_sim.control.shapes import DELIVERY, LOCK, SHARE
from broker_sim.control.table import TIMEOUT, operation
from broker_sim.fields.field import Field
from broker_sim.fields.kinds import Count, Text

if TYPE_CHECKING:
    from broker_sim.api.cluster import Cluster
    from broker_sim.api.handles import Lock, ShareGroupHandle

TOPIC = Field("topic", Text(), "the topic", example="orders")
PARTITION = Field("partition", Count(0), "the partition, from 0", example=0)
MEMBER = Field("member", Text(), "its member id or client id")
OFFSET = Field("offset", Count(0), "the record's offset", example=5)
_OF = (
    TOPIC._replace(required=True),
    PARTITION._replace(required=True),
    OFFSET._replace(required=True),
)


def _group(cluster: Cluster, given: dict[str, Any]) -> ShareGroupHandle:
    """The share group that the parameter ``group`` names. Raises NotThere if it never existed."""
    group_of(cluster, given["group"], ahead=None)
    return cluster.share_group(given["group"])


def _lock(lock: Lock) -> dict[str, Any]:
    shown = dataclasses.asdict(lock)
    return {"log": f"{shown.pop('topic')}-{shown.pop('partition')}", **shown}


def _shown(group: ShareGroupHandle) -> dict[str, Any]:
    return {
        "group": group.group_id,
        "state": group.state,
        "epoch": group.generation,
        "partitions": {f"{t}-{p}": dataclasses.asdict(partition) for (t, p), partition in group.partitions.items()},
        "locks": [_lock(lock) for lock in group.locks],
    }


def _examine_expire(given: dict[str, Any]) -> None:
    if PARTITION.name in given and TOPIC.name not in given:
        raise UsageError("partition: name its topic, too")


@operation("share.get", "GET /share-groups/{group}", GROUP_ID, answer=SHARE)
async def get_share(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Show a share group: position in each partition, records left, and acquired records with their members."""
    return _shown(_group(cluster, given))


@operation(
    "share.expire",
    "POST /share-groups/{group}/expire",
    GROUP_ID,
    TOPIC,
    PARTITION,
    MEMBER,
    answer={"group": "string", "ended": [LOCK]},
    examine=_examine_expire,
)
async def expire_locks(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Expire acquisition locks of a share group now: all, or those of a topic, a partition or a member."""
    group = _group(cluster, given)
    ended = await group.expire_locks(given.get("topic"), given.get("partition"), given.get("member"))
    return {"group": group.group_id, "ended": [_lock(lock) for lock in ended]}


@operation(
    "share.wait_locked",
    "GET /share-groups/{group}/locked",
    GROUP_ID,
    *_OF,
    MEMBER,
    TIMEOUT,
    answer=SHARE,
    waits=True,
)
async def wait_locked(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Wait until a member of a share group has acquired a record; the group may not exist yet."""
    group = cluster.share_group(given["group"])
    await group.locked(
        given["topic"], given["partition"], given["offset"], given.get("member"), timeout=given["timeout"]
    )
    return _shown(group)


@operation("share.wait_unlocked", "GET /share-groups/{group}/unlocked", GROUP_ID, TIMEOUT, answer=SHARE, waits=True)
async def wait_unlocked(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Wait until no member of a share group has an acquired record."""
    return _shown(await _group(cluster, given).no_locks(timeout=given["timeout"]))


@operation(
    "share.wait_delivered",
    "GET /share-groups/{group}/delivered",
    GROUP_ID,
    *_OF,
    Field("times", Count(1), "number of times", default=1, example=2),
    TIMEOUT,
    answer=SHARE,
    waits=True,
)
async def wait_delivered(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Wait until a record was delivered this often to a share group; the group may not exist yet."""
    group = cluster.share_group(given["group"])
    where = (given["topic"], given["partition"], given["offset"])
    return _shown(await group.delivered(*where, given["times"], timeout=given["timeout"]))


@operation(
    "share.deliveries",
    "GET /share-groups/{group}/deliveries",
    GROUP_ID,
    *_OF,
    answer={"group": "string", "log": "string", "offset": "integer", "deliveries": [DELIVERY]},
)
async def list_deliveries(cluster: Cluster, given: dict[str, Any]) -> Any:
    """List the recorded deliveries of a record: to which member, and how each ended."""
    group = _group(cluster, given)
    log, offset = f"{given['topic']}-{given['partition']}", given["offset"]
    delivered = group.deliveries(given["topic"], given["partition"])
    if offset not in delivered:
        raise not_there("delivered record", str(offset), [str(number) for number in sorted(delivered)], of=str(log))
    return {
        "group": group.group_id,
        "log": log,
        "offset": offset,
        "deliveries": [dataclasses.asdict(delivery) for delivery in delivered[offset]],
    }
