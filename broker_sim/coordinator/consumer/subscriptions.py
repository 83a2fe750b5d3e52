"""Subscriptions by a regular expression: the matching topics are resolved outside of heartbeats, and recorded.

A member with a new expression is answered at once, without its topics; a timer then resolves the expression, and the next heartbeat
uses the result. It is resolved again when topics have changed, every ten seconds at most. Source:
GroupMetadataManager.maybeUpdateRegularExpressions and the task of its executor (4.x).
"""

from __future__ import annotations

from broker_sim.coordinator import regular_expressions
from broker_sim.coordinator.consumer.group import LAYOUT, ConsumerGroup, Matching
from broker_sim.coordinator.epochs.refused import Refused
from broker_sim.coordinator.epochs.writes import Changes, submit
from broker_sim.coordinator.outcome import TimerKey
from broker_sim.coordinator.regular_expressions import PatternError, compiling
from broker_sim.coordinator.state import ShardState
from kafka_wire import offsets_log as types
from kafka_wire.errors import Err
from kafka_wire.messages import offsets_log as log

_NOT_MORE_OFTEN_MS = 10_000
_NEXT_PIECE_MS = 1  # not at once: timers that are due now fire in one iteration of the event loop


def check(text: str | None) -> None:
    """Raises Refused for an invalid regular expression."""
    try:
        regular_expressions.check(text or "")
    except PatternError as error:
        words = str(error).partition(": `")[0]
        raise Refused(
            Err.INVALID_REGULAR_EXPRESSION, f"SubscribedTopicRegex `{text}` is not a valid regular expression: {words}."
        ) from None


def changed(changes: Changes, before: str | None, after: str | None) -> None:
    """A member subscribes with another expression than before: an expression without subscribers is dropped, and one that is resolved
    already increments the group epoch at once."""
    group = changes.group
    assert isinstance(group, ConsumerGroup)
    latest = group.latest
    if before and before in latest.matched and not latest.patterns[before]:
        key = log.ConsumerGroupRegularExpressionKey(group.group_id, before)
        changes.add(types.CONSUMER_GROUP_REGULAR_EXPRESSION, key, None)
    if after and after in latest.matched:
        changes.subscription_changed = True


def maybe_refresh(shard: ShardState, group: ConsumerGroup) -> None:
    """Arm the timer of ``refresh``, if the topics have changed and the last refresh is long enough ago."""
    latest = group.latest
    if not latest.patterns:
        return
    looked_ms = max([matched.timestamp for matched in latest.matched.values()], default=-_NOT_MORE_OFTEN_MS)
    unknown = any(text not in latest.matched for text in latest.patterns)
    stale = group.matched_version != shard.topics.version and shard.now_ms > looked_ms + _NOT_MORE_OFTEN_MS
    if unknown or stale:
        shard.arm(("patterns", group.group_id), 0)


def refresh(shard: ShardState, key: TimerKey) -> None:
    """Resolve a group's regular expressions, in pieces, one for each run of the timer; a difference increments the group epoch.

    One group of the shard after the other: what compiled expressions and their matchers take, some MB, is there once in a shard.
    """
    group_id = str(key[1])
    group, waiting = shard.groups.get(group_id), shard.resolving
    if isinstance(group, ConsumerGroup) and group.latest.patterns:
        waiting.setdefault(group_id)
        if group_id != next(iter(waiting)):
            return
        if not _resolved(shard, group):
            shard.arm(("patterns", group_id), _NEXT_PIECE_MS)
            return
    elif isinstance(group, ConsumerGroup):
        group.matching = None  # its last expression is not subscribed to any more
    waiting.pop(group_id, None)
    if waiting:
        shard.arm(("patterns", next(iter(waiting))), _NEXT_PIECE_MS)


def _resolved(shard: ShardState, group: ConsumerGroup) -> bool:
    """One piece of it; returns whether it was the last."""
    if group.matching is None:
        group.matched_version = shard.topics.version
        group.matching = _matching(list(group.latest.patterns), list(shard.topics.by_name))
    topics_by_pattern = next(group.matching)
    if topics_by_pattern is None:
        return False
    group.matching = None
    changes, latest = Changes(group), group.latest
    differs = False
    for text in latest.patterns:
        topics = topics_by_pattern.get(text)
        if topics is None:  # it came meanwhile: the next heartbeat looks again
            continue
        known = latest.matched.get(text)
        differs = differs or known is None or known.topics != topics
        changes.add(
            types.CONSUMER_GROUP_REGULAR_EXPRESSION,
            log.ConsumerGroupRegularExpressionKey(group.group_id, text),
            log.ConsumerGroupRegularExpressionValue(topics, group.matched_version, shard.now_ms),
        )
    if differs:
        value = log.ConsumerGroupMetadataValue(latest.group_epoch + 1, group.metadata_hash(shard.topics))
        changes.add(LAYOUT.group, log.ConsumerGroupMetadataKey(group.group_id), value)
    submit(shard, None, changes, None)
    return True


def _matching(texts: list[str], names: list[str]) -> Matching:
    topics_by_pattern: dict[str, list[str]] = {}
    for text in texts:
        matcher = (yield from compiling(text)).matcher()
        topics = topics_by_pattern[text] = []
        for name in names:  # internal ones, too, as at Kafka
            for is_match in matcher.matching(name):
                if is_match is None:
                    yield None
                elif is_match:
                    topics.append(name)
        topics.sort()
    yield topics_by_pattern
