"""The assignor ``range``: each member gets consecutive partitions of each topic, in the order of the members' names, so that topics
with equal numbers of partitions are assigned alike. It does not keep former assignments: a member that joins moves the partitions of
those after it.

Static members come first, by their instance ids, so that a returning one gets its former partitions. Source: RangeAssignor (4.x).
"""

from __future__ import annotations

from collections.abc import Hashable

from broker_sim.coordinator.assignors.model import Assigned, Subscribed


def assign(subscribed: Subscribed) -> Assigned:
    """Assign the partitions of each topic in ranges (RangeAssignor.assign)."""
    assigned: dict[str, dict[Hashable, tuple[int, ...]]] = {}
    in_order = sorted(subscribed.members, key=lambda member_id: _rank(subscribed, member_id))
    # what the first one reads, and so do all the others; None where they differ
    reads = subscribed.members[in_order[0]] if in_order and subscribed.is_homogeneous else None
    for topic, partitions in subscribed.partitions.items():
        if reads is None:
            readers = [member_id for member_id in in_order if topic in subscribed.members[member_id]]
        else:
            readers = in_order if topic in reads else []
        if not readers:
            continue
        quota, extras = divmod(partitions, len(readers))
        at = 0
        for n, member_id in enumerate(readers):
            end = at + quota + (n < extras)
            if at < end:
                assigned.setdefault(member_id, {})[topic] = tuple(range(at, end))
            at = end
    return dict(assigned)


def _rank(subscribed: Subscribed, member_id: str) -> tuple[bool, str]:
    instance_id = subscribed.instances.get(member_id)
    return instance_id is None, member_id if instance_id is None else instance_id
