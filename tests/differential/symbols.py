"""Values that one side has sent to its clients in one play, and the symbols that stand for them in steps.

$member:a  $leader:a                    text of a's last JoinGroup answer
$generation:a  $generation:a:-1         its number, and a number beside it
$protocol:a  $type:a                    protocol name and type that the answer chose
$assign:a                               where a leads: an assignment for every member it was told of; else none
$pid:a  $pepoch:a                       producer id and epoch of a's last InitProducerId, or EndTxn that began another epoch
$cepoch:a  $cparts:a                    member epoch of a's last ConsumerGroupHeartbeat answer, and the assignment that it was told last
$tepoch:a  $tasks:a/active              the same of a's last StreamsGroupHeartbeat answer: the tasks of a role
$hepoch:a  $hsession:a                  member epoch of a's last ShareGroupHeartbeat answer; the share session epoch that comes next
$acquired:a/1/NAME/0                    acknowledgements of that type of the ranges of a partition that a acquired last
$session:a  $sepoch:a                   fetch session of a's last Fetch answer, and the epoch that comes next
$topic:NAME                             topic id
{p}{to 249}                             a text of so many bytes (the rest of it is ASCII)
$epoch:NAME/0  $epoch:NAME/0:-1         leader epoch of a partition when it was last looked at, and one beside it

Whom a step goes to: $leader:NAME/0, $coordinator:GROUP (broker 1 where there is none).
"""

from __future__ import annotations

import re
from typing import Any

from broker_sim.storage.partition_for import partition_for
from kafka_wire.schema import ZERO_UUID, FieldSpec
from tests.differential import payloads

_FILL = re.compile(r"\{to (\d+)\}")
OFFSETS = "__consumer_offsets"
UNKNOWN_TOPIC_ID = bytes.fromhex("0123456789abcdef0123456789abcdef")


class Scope:
    """One side's knowledge in one play. `prefix` stands for {p}, `now_ms` for the time in record batches."""

    def __init__(self, prefix: str, now_ms: int) -> None:
        self.prefix = prefix
        self.now_ms = now_ms
        self.joined: dict[str, Any] = {}
        self.producers: dict[str, tuple[int, int]] = {}
        self.consumers: dict[str, tuple[int, list[dict[str, Any]]]] = {}
        """Client -> member epoch and assignment of its consumer group."""
        self.threads: dict[str, tuple[int, dict[str, list[dict[str, Any]]]]] = {}
        """Client -> member epoch and tasks, by role, of its streams group."""
        self.sharers: dict[str, int] = {}
        """Client -> member epoch of its share group."""
        self.share_sessions: dict[str, int] = {}
        self.acquired: dict[tuple[str, bytes, int], list[tuple[int, int]]] = {}
        """(client, topic id, partition) -> the ranges of offsets that it acquired last."""
        self.sessions: dict[str, tuple[int, int]] = {}
        self.topic_ids: dict[str, bytes] = {}
        self.leaders: dict[str, dict[int, int]] = {}
        """Topic -> partition -> node id of its leader, -1 for none: as the broker showed it last."""
        self.epochs: dict[tuple[str, int], int] = {}
        self.replicas: dict[tuple[str, int], list[int]] = {}

    # ---- filling in

    def fill(self, value: Any, spec: FieldSpec) -> Any:
        """The value to send for what stands in a step."""
        if isinstance(value, dict):
            return payloads.build(value, self)
        if not isinstance(value, str):
            return value
        if spec.kind == "string":
            return self.text(value)
        if value.startswith("$"):
            return self.symbol(value)
        if value.startswith("hex:"):
            return bytes.fromhex(value[4:])
        return value

    def text(self, value: str) -> str:
        if value.startswith("$"):
            return str(self.symbol(value))
        value = value.replace("{p}", self.prefix)
        return (
            _FILL.sub(lambda found: "x" * (int(found[1]) - len(value) + len(found[0])), value)
            if "{to " in value
            else value
        )

    def number(self, value: int | str) -> int:
        return self.symbol(value) if isinstance(value, str) else value

    def symbol(self, value: str) -> Any:
        name, _, of = value[1:].partition(":")
        of, _, shift = of.partition(":")
        found = getattr(self, f"_{name}")(of)
        return found + int(shift) if shift and isinstance(found, int) else found

    def _member(self, of: str) -> str:
        joined = self.joined.get(of)
        return joined.member_id if joined is not None else ""

    def _leader(self, of: str) -> str:
        joined = self.joined.get(of)
        return joined.leader if joined is not None else ""

    def _generation(self, of: str) -> int:
        joined = self.joined.get(of)
        return joined.generation_id if joined is not None else -1

    def _protocol(self, of: str) -> str:
        joined = self.joined.get(of)
        return (joined.protocol_name or "") if joined is not None else ""

    def _type(self, of: str) -> str:
        joined = self.joined.get(of)
        return (joined.protocol_type or "consumer") if joined is not None else "consumer"

    def _assign(self, of: str) -> list[dict[str, Any]]:
        joined = self.joined.get(of)
        if joined is None or joined.leader != joined.member_id:
            return []
        # by what does not differ between the sides: the order of the list at Kafka hangs on the members' ids
        members = sorted(joined.members, key=lambda member: (member.member_id[:-36], member.group_instance_id or ""))
        return [
            {"member_id": member.member_id, "assignment": b"to-" + member.member_id[:-36].encode()}
            for member in members
        ]

    def _pid(self, of: str) -> int:
        return self.producers.get(of, (-1, -1))[0]

    def _pepoch(self, of: str) -> int:
        return self.producers.get(of, (-1, -1))[1]

    def _cepoch(self, of: str) -> int:
        return self.consumers.get(of, (0, []))[0]

    def _cparts(self, of: str) -> list[dict[str, Any]]:
        return self.consumers.get(of, (0, []))[1]

    def _tepoch(self, of: str) -> int:
        return self.threads.get(of, (0, {}))[0]

    def _tasks(self, of: str) -> list[dict[str, Any]]:
        by, _, role = of.partition("/")
        return self.threads.get(by, (0, {}))[1].get(role, [])

    def _hepoch(self, of: str) -> int:
        return self.sharers.get(of, 0)

    def _hsession(self, of: str) -> int:
        return self.share_sessions.get(of, 0)

    def _acquired(self, of: str) -> list[dict[str, Any]]:
        by, kind, name, index = of.split("/")
        ranges = self.acquired.get((by, self._topic(name), int(index)), [])
        return [
            {"first_offset": first, "last_offset": last, "acknowledge_types": [int(kind)]} for first, last in ranges
        ]

    def _session(self, of: str) -> int:
        return self.sessions.get(of, (0, 0))[0]

    def _sepoch(self, of: str) -> int:
        return self.sessions.get(of, (0, 0))[1]

    def _topic(self, of: str) -> bytes:
        return self.topic_ids.get(self.text(of), UNKNOWN_TOPIC_ID)

    def _epoch(self, of: str) -> int:
        topic, _, index = self.text(of).rpartition("/")
        return self.epochs.get((topic, int(index)), -1)

    def broker(self, of: int | str) -> int:
        """The node id that a step's `broker` means now."""
        if isinstance(of, int):
            return of
        kind, _, name = of[1:].partition(":")
        topic, _, index = self.text(name).rpartition("/")
        if kind == "coordinator":
            topic, index = OFFSETS, partition_for(self.text(name), max(len(self.leaders.get(OFFSETS, {})), 1))
        return max(self.leaders.get(topic, {}).get(int(index), 1), 1)

    # ---- learning

    def learn_leaders(self, topic: Any) -> None:
        """Takes a topic of a Metadata answer to the play itself."""
        self.leaders[topic.name] = {row.partition_index: row.leader_id for row in topic.partitions}
        for row in topic.partitions:
            self.epochs[topic.name, row.partition_index] = row.leader_epoch
            self.replicas[topic.name, row.partition_index] = row.replica_nodes

    def known_topics(self) -> list[str]:
        """Topics whose leaders are known."""
        return list(self.leaders)

    def forget_topic(self, name: str) -> None:
        self.leaders.pop(name, None)

    def learn(self, by: str, api: str, answer: Any) -> None:
        """Takes from an answer what later steps may name."""
        learner = getattr(self, f"_learn_{api}", None)
        if learner is not None and answer is not None:
            learner(by, answer)

    def _learn_JoinGroup(self, by: str, answer: Any) -> None:
        if answer.member_id and answer.error_code in (0, 79):  # NONE, MEMBER_ID_REQUIRED
            self.joined[by] = answer

    def _learn_InitProducerId(self, by: str, answer: Any) -> None:
        if answer.error_code == 0:
            self.producers[by] = (answer.producer_id, answer.producer_epoch)

    def _learn_EndTxn(self, by: str, answer: Any) -> None:
        if answer.error_code == 0 and answer.producer_id >= 0:
            self.producers[by] = (answer.producer_id, answer.producer_epoch)

    def _learn_ConsumerGroupHeartbeat(self, by: str, answer: Any) -> None:
        if answer.error_code:
            return
        given = self._cparts(by) if answer.member_epoch > 0 else []
        if answer.assignment is not None:
            rows = answer.assignment.topic_partitions
            given = [{"topic_id": row.topic_id, "partitions": list(row.partitions)} for row in rows]
        self.consumers[by] = (max(answer.member_epoch, 0), given)

    def _learn_StreamsGroupHeartbeat(self, by: str, answer: Any) -> None:
        if answer.error_code:
            return
        given = self.threads.get(by, (0, {}))[1] if answer.member_epoch > 0 else {}
        if answer.active_tasks is not None:
            roles = {"active": answer.active_tasks, "standby": answer.standby_tasks, "warmup": answer.warmup_tasks}
            given = {role: [_task_ids(row) for row in rows or ()] for role, rows in roles.items()}
        self.threads[by] = (max(answer.member_epoch, 0), given)

    def _learn_ShareGroupHeartbeat(self, by: str, answer: Any) -> None:
        if answer.error_code == 0:
            self.sharers[by] = max(answer.member_epoch, 0)

    def _learn_ShareFetch(self, by: str, answer: Any) -> None:
        if answer.error_code == 0:
            self.share_sessions[by] = self._hsession(by) + 1
        for topic in answer.responses:
            for row in topic.partitions:
                if row.acquired_records:
                    ranges = [(one.first_offset, one.last_offset) for one in row.acquired_records]
                    self.acquired[by, topic.topic_id, row.partition_index] = ranges

    def _learn_ShareAcknowledge(self, by: str, answer: Any) -> None:
        if answer.error_code == 0:
            self.share_sessions[by] = self._hsession(by) + 1

    def _learn_Fetch(self, by: str, answer: Any) -> None:
        if answer.session_id:
            known = self.sessions.get(by)
            again = known is not None and known[0] == answer.session_id
            self.sessions[by] = (answer.session_id, known[1] + 1 if again and known else 1)
        elif answer.error_code:
            self.sessions.pop(by, None)

    def _learn_CreateTopics(self, by: str, answer: Any) -> None:
        for topic in answer.topics:
            if topic.error_code == 0:
                self._learn_topic(topic.name, topic.topic_id)

    def _learn_Metadata(self, by: str, answer: Any) -> None:
        for topic in answer.topics:
            if topic.error_code == 0:
                self._learn_topic(topic.name, topic.topic_id)

    def _learn_topic(self, name: str | None, topic_id: bytes) -> None:
        if name is not None and topic_id != ZERO_UUID:
            self.topic_ids[name] = topic_id


def _task_ids(row: Any) -> dict[str, Any]:
    return {"subtopology_id": row.subtopology_id, "partitions": list(row.partitions)}
