"""The usual turn of commits, without its events: every commit has passed before as it would now, and the log has them at once.

What these two functions do is what stepping a shard with ``CommitBlocks`` and then with ``Appended`` does in that case, sessions
excepted, which are the caller's: nothing is allocated for an answer that is known. Whatever is not that usual case takes the events.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker_sim.coordinator.blocks import Commit
from broker_sim.coordinator.state import ShardState


def pass_again(shard: ShardState, commits: Sequence[Commit]) -> bool:
    """Whether all of ``commits`` have passed the checks of their groups before, and nothing that these look at has changed; and no
    earlier write is on its way."""
    if shard.writes:
        return False
    groups = shard.groups
    for commit in commits:
        passed = commit[0].passed
        if passed is None:
            return False
        group, state, generation, member, _ = passed
        if (
            group.state is not state
            or group.generation != generation
            or groups.get(group.group_id) is not group
            or group.members.get(member.member_id) is not member
        ):
            return False
    return True


def publish(
    shard: ShardState, commits: Sequence[Commit], commit_ts_ms: int, last_offset: int, high_watermark: int
) -> None:
    """The log has them, up to ``last_offset``, and they are committed: OffsetFetch shows them from here on."""
    shard.last_written = last_offset
    if high_watermark > shard.high_watermark:
        shard.high_watermark = high_watermark
    for commit in commits:
        shard.store.replay_commit(commit[0], commit[1], commit_ts_ms)
