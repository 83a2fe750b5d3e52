"""Subscriptions by a regular expression: the matching topics are resolved outside of heartbeats, and recorded.

A member with a new expression is answered at once, without its topics; a timer then resolves all expressions of the group, and the next
heartbeat uses the result. They are resolved again when topics were created, every ten seconds at most: a new expression, too, waits so
long. Source: GroupMetadataManager.maybeUpdateRegularExpressions and the task of its executor, handleRegularExpressionsResult (4.x).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

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


class Resolved(NamedTuple):
    """Regular expressions that a group had resolved before a request. ``at_ms``: time of the last resolution, None for never;
    ``version``: the version of the topics then, -1 for never."""

    expressions: int
    at_ms: int | None
    version: int
    subscribed: frozenset[str]


_NOTHING = Resolved(0, None, -1, frozenset())


def resolved(group: ConsumerGroup) -> Resolved:
    """For `maybe_refresh`, before a request changes anything: Kafka decides by the state from before the request's records."""
    latest = group.latest
    if not latest.patterns and not latest.matched:
        return _NOTHING
    at_ms, version = max(
        ((matched.timestamp, matched.version) for matched in latest.matched.values()), default=(None, -1)
    )
    return Resolved(len(latest.matched), at_ms, version, frozenset(latest.patterns))


def changed(shard: ShardState, changes: Changes, before: str | None, after: str | None) -> None:
    """A member subscribes with another expression than before: an expression without subscribers is dropped, and one that is resolved
    already increments the group epoch at once, as giving one up does in later releases."""
    group = changes.group
    assert isinstance(group, ConsumerGroup)
    latest = group.latest
    if before and not latest.patterns[before]:
        drop(changes, before)
    if after in latest.matched if after else shard.settings.policy.dropped_regex_moves_group:
        changes.subscription_changed = True


def drop(changes: Changes, text: str) -> None:
    """The tombstone of an expression without subscribers, resolved or not."""
    key = log.ConsumerGroupRegularExpressionKey(changes.group.group_id, text)
    changes.add(types.CONSUMER_GROUP_REGULAR_EXPRESSION, key, None)


def maybe_refresh(shard: ShardState, group: ConsumerGroup, before: Resolved, text: str | None) -> None:
    """Arm the timer of `refresh` after a request of a member with the expression ``text``, where that is new, any is not resolved,
    topics were created, or the last refresh is very long ago; in the ten seconds behind a refresh nothing is."""
    patterns = group.latest.patterns
    is_new = bool(text) and text not in before.subscribed
    if not patterns or not (is_new or before.subscribed) or group.to_resolve:
        return
    wait_ms, now_ms, at_ms = shard.settings.consumer.regex_refresh_interval_ms, shard.now_ms, before.at_ms
    if at_ms is not None and now_ms <= at_ms + _NOT_MORE_OFTEN_MS:
        return
    is_old = at_ms is None or (wait_ms is not None and now_ms > at_ms + wait_ms)
    # A refresh whose append failed is repeated: the group's records are not those of its last refresh. Versions alone don't show it,
    # as each coordinator counts its own.
    is_known = (at_ms, before.version) == (
        group.matched_ms,
        group.matched_version,
    ) and before.version >= shard.topics.created
    if is_new or is_old or len(patterns) != before.expressions or not is_known:
        group.to_resolve = tuple(patterns)
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
        group.matching, group.to_resolve = None, ()  # its last expression is not subscribed to any more
    waiting.pop(group_id, None)
    if waiting:
        shard.arm(("patterns", next(iter(waiting))), _NEXT_PIECE_MS)


def _resolved(shard: ShardState, group: ConsumerGroup) -> bool:
    """One piece of it; returns whether it was the last."""
    if group.matching is None:
        group.matched_version = shard.topics.version
        group.matching = _matching(group.to_resolve, list(shard.topics.by_name))
    topics_by_pattern = next(group.matching)
    if topics_by_pattern is None:
        return False
    group.matching, group.to_resolve, group.matched_ms = None, (), shard.now_ms
    changes, latest = Changes(group), group.latest
    differs = False
    for text, topics in topics_by_pattern.items():
        if text not in latest.patterns:
            continue
        known = latest.matched.get(text)
        differs = differs or topics != ([] if known is None else known.topics)
        changes.add(
            types.CONSUMER_GROUP_REGULAR_EXPRESSION,
            log.ConsumerGroupRegularExpressionKey(group.group_id, text),
            log.ConsumerGroupRegularExpressionValue(topics, group.matched_version, shard.now_ms),
        )
    metadata_hash = group.metadata_hash(shard.topics)
    if differs or metadata_hash != latest.metadata_hash:
        value = log.ConsumerGroupMetadataValue(latest.group_epoch + 1, metadata_hash)
        changes.add(LAYOUT.group, log.ConsumerGroupMetadataKey(group.group_id), value)
    group.note_topics(shard.topics)
    submit(shard, None, changes, None)
    return True


def _matching(texts: Iterable[str], names: list[str]) -> Matching:
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
