"""The answers of operations for people: what the commands print without ``--json``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from broker_sim.common.text import duration_text, visible

__all__ = ["event_line", "group_line", "text"]

WIDTH = 160


def text(operation: str, answer: object) -> str:
    """What an operation answered, in lines."""
    shown = _FORMS.get(operation)
    return shown(answer) if shown is not None else _fields(answer)


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Columns, as wide as need be; a line of its own where there are no rows."""
    cells = [[visible(str(cell)) for cell in row] for row in rows]
    if not cells:
        return "none"
    lines = [list(head), *cells]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def _plain(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return visible(value) if isinstance(value, str) else json.dumps(value)


def _fields(answer: object) -> str:
    if not isinstance(answer, Mapping):
        return _plain(answer)
    width = max(map(len, answer), default=0)
    return "\n".join(f"{name:<{width}}  {_plain(value)}" for name, value in answer.items())


def _state(one: Mapping[str, Any]) -> str:
    args = ", ".join(
        f"{name} {value if name == 'free_bytes' else duration_text(value)}" for name, value in one["args"].items()
    )
    return f"{one['log']} is {one['state']}" + (f" ({args})" if args else "")


def _states(answer: Mapping[str, Any]) -> str:
    return "\n".join(_state(one) for one in answer["states"]) or "every log is online"


def _log(one: Mapping[str, Any]) -> str:
    lines = [_state(each) for each in one["states"]] or [f"{one['log']} is online"]
    leader = f"leader {one['leader']}" if one["leader"] >= 0 else "no leader"
    offsets = f"offsets {one['log_start_offset']} to {one['log_end_offset']}, high watermark {one['high_watermark']}"
    return "\n".join(
        [*lines, f"{leader} (epoch {one['leader_epoch']}), replicas {one['replicas']}, isr {one['isr']}; {offsets}"]
    )


def _fault(one: Mapping[str, Any]) -> str:
    state = ", removed" if one["removed"] else ", spent" if one["spent"] else ""
    hits = f"{one['hits']} hit{'' if one['hits'] == 1 else 's'}"
    return "\n".join(
        [
            f"fault {one['id']}, {hits}{state}: {visible(one['text'])}",
            *(f"  holds {visible(text)}" for text in one["waiting"]),
            *_note(one),
        ]
    )


def _note(one: Mapping[str, Any]) -> list[str]:
    return [f"  note: {visible(one['note'])}"] if "note" in one else []


def _hold(one: Mapping[str, Any]) -> str:
    return "\n".join(
        [
            f"hold {one['id']}: {visible(one['text'])}; {len(one['waiting'])} waiting",
            *(f"  {visible(each)}" for each in one["waiting"]),
            *_note(one),
        ]
    )


def _entries(answer: Mapping[str, Any]) -> str:
    """The entries of a recorded order as JSON lines, the format of `recorded.load`."""
    return "\n".join(json.dumps(entry) for entry in answer["entries"])


def _each(name: str, form: Callable[[Mapping[str, Any]], str]) -> Callable[[Mapping[str, Any]], str]:
    return lambda answer: "\n".join(form(one) for one in answer[name]) or "none"


def _group_summary(one: Mapping[str, Any]) -> str:
    members = len(one["members"])
    committed = sum(one["lag"].values())
    parts = [one["state"], f"generation {one['generation']}", f"{members} member{'' if members == 1 else 's'}"]
    if one["offsets"]:
        parts.append(f"lag {committed}")
    return ", ".join(parts)


def group_line(ts_ms: int, group: Mapping[str, Any]) -> str:
    """A group in a line, as it was at a time of the brokers' clock."""
    return f"{clock(ts_ms)}  {visible(group['group'])}: {_group_summary(group)}"


def clock(ts_ms: int) -> str:
    """``12:34:56.789``, UTC."""
    seconds, ms = divmod(ts_ms, 1000)
    return f"{seconds // 3600 % 24:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{ms:03}"


def _group(one: Mapping[str, Any]) -> str:
    where = f"{one['log'] or 'no offsets topic yet'}, coordinator {one['coordinator'] if one['coordinator'] is not None else 'none'}"
    lines = [f"{visible(one['group'])}: {_group_summary(one)} ({where})"]
    if one["members"]:
        rows = [
            (
                one["member_id"],
                one["client_id"],
                one["client_host"],
                f"waits in {one['waits']}" if one["waits"] else "leader" if one["leader"] else "",
                _assignment(one),
            )
            for one in one["members"]
        ]
        lines.append(table(("MEMBER", "CLIENT", "HOST", "", "ASSIGNMENT"), rows))
    partitions = dict.fromkeys([*one["offsets"], *one["lag"]])
    if partitions:
        rows2 = [(name, one["offsets"].get(name, "-"), one["lag"].get(name, "-")) for name in sorted(partitions)]
        lines.append(table(("PARTITION", "COMMITTED", "LAG"), rows2))
    return "\n".join(lines)


def _assignment(member: Mapping[str, Any]) -> str:
    """A consumer's partitions, by topic; of a worker of Connect its connectors and tasks; of a member of a streams group its tasks."""
    worker = member.get("worker") or {}
    connectors: dict[str, Any] = dict.fromkeys(worker.get("connectors", ()), ())
    given = connectors | worker.get("tasks", {}) or member.get("tasks") or member["assignment"] or {}
    return " ".join(f"{name}:{','.join(map(str, parts))}".rstrip(":") for name, parts in given.items()) or "-"


def _groups(answer: Mapping[str, Any]) -> str:
    rows = [
        (
            one["group"],
            one["state"],
            one["generation"],
            len(one["members"]),
            sum(one["lag"].values()),
            one["log"] or "-",
            _plain(one["coordinator"]),
        )
        for one in answer["groups"]
    ]
    return table(("GROUP", "STATE", "GENERATION", "MEMBERS", "LAG", "LOG", "COORDINATOR"), rows)


def _transactions(answer: Mapping[str, Any]) -> str:
    rows = [
        (
            one["transactional_id"],
            one["state"],
            one["producer_id"],
            one["epoch"],
            " ".join(one["partitions"]) or "-",
            one["log"] or "-",
            _plain(one["coordinator"]),
        )
        for one in answer["transactions"]
    ]
    return table(("TRANSACTIONAL ID", "STATE", "PRODUCER", "EPOCH", "WITHOUT A MARKER", "LOG", "COORDINATOR"), rows)


def _hanging(answer: Mapping[str, Any]) -> str:
    names = ("log", "producer_id", "epoch", "first_offset", "last_stable_offset", "high_watermark")
    rows = [(*(one[name] for name in names), clock(one["last_ms"])) for one in answer["hanging"]]
    head = ("PARTITION", "PRODUCER", "EPOCH", "FIRST OFFSET", "LAST STABLE OFFSET", "HIGH WATERMARK", "WROTE LAST")
    return table(head, rows)


def _broker(one: Mapping[str, Any]) -> str:
    state = "up" if one["alive"] else "down"
    return f"broker {one['broker']} at {one['host']}:{one['port']} is {state}, leads {one['leads']} partitions"


def _topic(one: Mapping[str, Any]) -> str:
    return f"{one['topic']}: {one['partitions']} partitions on {one['replication_factor']} brokers each, {one['records']} records"


def _cluster(one: Mapping[str, Any]) -> str:
    return f"{one['id']}: {one['bootstrap']}, as {one['as_version']}, clock {one['clock']}, topics {', '.join(one['topics']) or 'none'}"


def _pending(answer: Mapping[str, Any]) -> str:
    return "\n".join(
        [f"{len(answer['pending'])} wait for {answer['log']}", *(event_line(one) for one in answer["pending"])]
    )


def event_line(event: Mapping[str, Any]) -> str:
    """An event of the journal in a line, cut at a wide screen's width."""
    rest = {name: value for name, value in event.items() if name not in ("seq", "ts_ms", "event", "body")}
    if event["event"] == "group":
        rest |= {name: _short(event.get(name)) for name in ("before", "after")}
    fields = " ".join(f"{name}={_plain(value)}" for name, value in rest.items() if value is not None)
    line = f"{event['seq']:>6} {clock(event['ts_ms'])} {event['event']:<10} {fields}"
    return line if len(line) <= WIDTH else line[: WIDTH - 3] + "..."


def _short(snapshot: object) -> Any:
    if not isinstance(snapshot, Mapping):
        return snapshot
    return f"{snapshot.get('state')}/{snapshot.get('generation')}/{len(snapshot.get('members', ()))}"


_FORMS: dict[str, Callable[[Any], str]] = {
    "state.list": _states,
    "state.set": _log,
    "state.heal": _log,
    "log.get": _log,
    "log.wait": _pending,
    "leader.move": _log,
    "leader.elect": _log,
    **{f"fault.{verb}": _fault for verb in ("add", "get", "wait", "release", "remove")},
    "fault.list": _each("faults", _fault),
    "fault.clear": _each("removed", _fault),
    **{f"order.{verb}": _hold for verb in ("hold", "release", "step", "remove", "wait")},
    **{f"order.{verb}": _entries for verb in ("record", "recorded", "stop")},
    "order.list": _each("holds", _hold),
    **{f"group.{verb}": _group for verb in ("get", "wait", "remove_member")},
    "group.list": _groups,
    "group.explain": lambda answer: str(answer["text"]),
    "transaction.explain": lambda answer: str(answer["text"]),
    "transaction.list": _transactions,
    "transaction.hanging": _hanging,
    "group.timeline": lambda answer: str(answer["text"]),
    "journal.mark": event_line,
    "journal.next": event_line,
    "journal.story": lambda answer: str(answer["text"]),
    **{f"broker.{verb}": _broker for verb in ("get", "down", "up", "restart")},
    "broker.list": _each("brokers", _broker),
    "broker.restart_all": _each("brokers", _broker),
    **{f"topic.{verb}": _topic for verb in ("get", "create", "fill", "grow")},
    "topic.list": _each("topics", _topic),
    **{f"cluster.{verb}": _cluster for verb in ("get", "create")},
    "cluster.list": _each("clusters", _cluster),
}
