"""The topic settings that a log acts on, under Kafka's names with dots as underscores; defaults are Kafka's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

NO_LIMIT = -1


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Settings of one log; a log's `config` may be replaced at any time (source: LogConfig.java).

    `producer_id_expiration_ms` is the broker's producer.id.expiration.ms, `compression_max_bytes` the bound on what
    one compressed batch may unpack to where the broker has to look inside. `release` is the Kafka as which the log looks at
    what clients send.
    """

    cleanup_policy: frozenset[str] = frozenset({"delete"})
    delete_retention_ms: int = 86_400_000
    index_interval_bytes: int = 4096
    max_compaction_lag_ms: int = 2**63 - 1
    max_message_bytes: int = 1_048_588
    message_timestamp_after_max_ms: int = 2**63 - 1
    message_timestamp_before_max_ms: int = 2**63 - 1
    message_timestamp_type: str = "CreateTime"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    retention_bytes: int = NO_LIMIT
    retention_ms: int = 604_800_000
    segment_bytes: int = 1_073_741_824
    segment_index_bytes: int = 10_485_760
    segment_ms: int = 604_800_000
    producer_id_expiration_ms: int = 86_400_000
    compression_max_bytes: int = 64 * 1024 * 1024
    release: tuple[int, int] = (4, 1)
    is_log_append_time: bool = field(init=False, repr=False, compare=False)
    """Not a setting, but part of one: each append looks at it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_log_append_time", self.message_timestamp_type == "LogAppendTime")

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> LogConfig:
        """From Kafka's names to values (typed, or text as in a request); names that no log acts on are passed over.

        Raises ValueError for a value that cannot be read as its type.
        """
        return cls().with_settings(settings)

    def with_settings(self, settings: Mapping[str, Any]) -> LogConfig:
        """Return the settings with others that override them, as `of`."""
        known = {each.name.replace("_", "."): each for each in fields(self)}
        changes: dict[str, Any] = {}
        for name, value in settings.items():
            setting = known.get(name)
            if setting is not None and value is not None:
                changes[setting.name] = _parse(getattr(self, setting.name), value)
        return replace(self, **changes)

    @property
    def compacts(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        return "delete" in self.cleanup_policy


def _parse(like: Any, value: Any) -> Any:
    if isinstance(like, frozenset):
        items = value.split(",") if isinstance(value, str) else value
        return frozenset(item.strip() for item in items if item.strip())
    if isinstance(like, bool) and isinstance(value, str):
        return value.strip().lower() == "true"
    return type(like)(value)
