"""Counts of the events in a cluster's journal."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from broker_sim.journal import Journal
from kafka_wire.errors import Err

if TYPE_CHECKING:
    from broker_sim.metadata.cluster_state import Partition

__all__ = ["Counts"]

SAMPLE = 1028
"""Durations that quantiles are taken of, the newest ones: the size of Kafka's reservoirs (Yammer's ExponentiallyDecayingSample)."""

Event = Mapping[str, Any]


class Counts:
    """The counts since the first event that the journal still has. ``partition_of``: a partition by the name of its log, None where
    it is gone; ``kind_of``: the type of a group, by its id."""

    def __init__(
        self, journal: Journal, partition_of: Callable[[str], Partition | None], kind_of: Callable[[str], str]
    ) -> None:
        self._partition_of, self._kind_of = partition_of, kind_of
        self.requests: Counter[tuple[int, str, int]] = Counter()
        """By broker, API and version."""
        self.errors: Counter[tuple[int, str, str]] = Counter()
        """Error codes in responses, NONE among them, by broker, API and error (AbstractResponse.errorCounts)."""
        self.took_ms: dict[tuple[int, str], deque[int]] = {}
        """The newest durations, from the request to its response, by broker and API."""
        self.answered: Counter[tuple[int, str]] = Counter()
        self.topics: Counter[tuple[int, str, str]] = Counter()
        """By broker, topic and what: ``messagesin``, ``bytesin``, ``bytesout``, ``totalproducerequests``, .. (BrokerTopicMetrics)."""
        self.groups: Counter[tuple[int, str]] = Counter()
        """By broker and what: ``group_completed_rebalance``, ``offset_commit``, .. (GroupCoordinatorMetrics)."""
        self._open: dict[int, Event] = {}
        self._epochs: dict[str, int] = {}
        for event in journal.events:
            self._count(event)
        self.close = journal.subscribe(self._count)
        """Stop counting."""

    def _count(self, event: Event) -> None:
        handle = _EVENTS.get(event["event"])
        if handle is not None:
            handle(self, event)

    def _request(self, event: Event) -> None:
        self._open[event["request"]] = event
        for api in _names_of(event):
            self.requests[event["broker"], api, event["version"]] += 1

    def _response(self, event: Event) -> None:
        request = self._open.pop(event["request"], None)
        if request is None or event.get("action") == "not answered":
            return
        broker, body = request["broker"], event["body"]
        errors = Counter(_error_codes(body))
        for api in _names_of(request):
            self.answered[broker, api] += 1
            self.took_ms.setdefault((broker, api), deque(maxlen=SAMPLE)).append(event["took_ms"])
        for code, count in errors.items():
            self.errors[broker, request["api"], Err(code).name if code in _KNOWN else "UNKNOWN_SERVER_ERROR"] += count
        if request["api"] == "Produce":
            self._produced(broker, request["body"], body)
        elif request["api"] == "Fetch":
            self._fetched(broker, body)

    def _produced(self, broker: int, request: Any, response: Any) -> None:
        failed = {
            (topic.get("name"), row["index"])
            for topic in (response or {}).get("responses", ())
            for row in topic["partition_responses"]
            if row["error_code"]
        }
        for topic in request.get("topic_data", ()):
            name = topic.get("name") or ""
            for row in topic["partition_data"]:
                records = row["records"] or {}
                if (topic.get("name"), row["index"]) in failed:
                    self.topics[broker, name, "failedproducerequests"] += 1
                else:
                    self.topics[broker, name, "messagesin"] += records.get("records", 0)
                    self.topics[broker, name, "bytesin"] += records.get("bytes", 0)
                self.topics[broker, name, "totalproducerequests"] += 1

    def _fetched(self, broker: int, response: Any) -> None:
        for topic in (response or {}).get("responses", ()):
            name = topic.get("topic") or topic.get("name") or ""
            for row in topic["partitions"]:
                self.topics[broker, name, "totalfetchrequests"] += 1
                if row["error_code"]:
                    self.topics[broker, name, "failedfetchrequests"] += 1
                self.topics[broker, name, "bytesout"] += (row["records"] or {}).get("bytes", 0)

    def _append(self, event: Event) -> None:
        """A coordinator's write, which counts as a Produce of its broker; -1: nothing was written."""
        partition = self._partition_of(event["log"])
        if partition is None or event["base_offset"] < 0:
            return
        first, last = event["base_offset"], event["last_offset"]
        batches = () if first < partition.log_start_offset else partition.log.batches(first)
        written = takewhile(lambda batch: batch.header.base_offset <= last, batches)
        of = partition.leader, partition.topic.name
        self.topics[*of, "messagesin"] += event["records"]
        self.topics[*of, "bytesin"] += sum(batch.header.size for batch in written)
        self.topics[*of, "totalproducerequests"] += 1

    def _leader_of(self, log: str) -> int:
        partition = self._partition_of(log)
        return -1 if partition is None else partition.leader

    def _group(self, event: Event) -> None:
        """A classic group: its rebalance is completed by the leader's SyncGroup."""
        before, after = event["before"], event["after"]
        if before and after and (before["state"], after["state"]) == ("CompletingRebalance", "Stable"):
            self.groups[self._leader_of(event["log"]), "group_completed_rebalance"] += 1

    def _epoch(self, event: Event) -> None:
        """An epoch-based group: each new group epoch is a rebalance."""
        group, epoch = event["group"], event["group_epoch"]
        if event["cause"]["kind"] not in ("load", "unload", "topics") and epoch > self._epochs.get(group, 0):
            self.groups[self._leader_of(event["log"]), f"{self._kind_of(group)}_group_rebalance"] += 1
        self._epochs[group] = epoch

    def _offsets(self, event: Event) -> None:
        self.groups[self._leader_of(event["log"]), "offset_commit"] += len(event["offsets"])

    def _offsets_deleted(self, event: Event) -> None:
        kind = {"expired": "offset_expiration", "requested": "offset_deletion"}.get(event["reason"])
        if kind is not None:
            self.groups[self._leader_of(event["log"]), kind] += len(event["partitions"])


_KNOWN = {int(error) for error in Err}

_EVENTS: dict[str, Callable[[Counts, Event], None]] = {
    "request": Counts._request,
    "response": Counts._response,
    "append": Counts._append,
    "group": Counts._group,
    "epochs": Counts._epoch,
    "offsets": Counts._offsets,
    "offsets_deleted": Counts._offsets_deleted,
}


def _names_of(request: Event) -> tuple[str, ...]:
    """The names that a request is counted under: a consumer's Fetch under both of Kafka's."""
    return ("Fetch", "FetchConsumer") if request["api"] == "Fetch" else (request["api"],)


def _error_codes(body: object) -> Iterator[int]:
    """The error codes of a response, of the whole and of each part."""
    if isinstance(body, Mapping):
        for name, value in body.items():
            if name == "error_code":
                yield value
            elif isinstance(value, list | Mapping):
                yield from _error_codes(value)
    elif isinstance(body, list):
        for part in body:
            yield from _error_codes(part)
