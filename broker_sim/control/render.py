"""The answers of operations for people: what the commands print without ``--json``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from broker_sim.common.text import duration_text, visible

__all__ = ["event_line", "group_line", "text"]

WIDTH = 160


def text(operation: str, answer: object) -> str:
    """The answer of an operation, as lines of text."""
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


def _state(condition: Mapping[str, Any]) -> str:
    args = ", ".join(
        f"{name} {value if name == 'free_bytes' else duration_text(value)}" for name, value in condition["args"].items()
    )
    return f"{condition['log']} is {condition['state']}" + (f" ({args})" if args else "")


def _states(answer: Mapping[str, Any]) -> str:
    return "\n".join(_state(state) for state in answer["states"]) or "every log is online"


def _log(log: Mapping[str, Any]) -> str:
    lines = [_state(state) for state in log["states"]] or [f"{log['log']} is online"]
    leader = f"leader {log['leader']}" if log["leader"] >= 0 else "no leader"
    offsets = f"offsets {log['log_start_offset']} to {log['log_end_offset']}, high watermark {log['high_watermark']}"
    return "\n".join(
        [*lines, f"{leader} (epoch {log['leader_epoch']}), replicas {log['replicas']}, isr {log['isr']}; {offsets}"]
    )


def _fault(fault: Mapping[str, Any]) -> str:
    state = ", removed" if fault["removed"] else ", spent" if fault["spent"] else ""
    hits = f"{fault['hits']} hit{'' if fault['hits'] == 1 else 's'}"
    return "\n".join(
        [
            f"fault {fault['id']}, {hits}{state}: {visible(fault['text'])}",
            *(f"  holds {visible(text)}" for text in fault["waiting"]),
            *_note(fault),
        ]
    )


def _note(answer: Mapping[str, Any]) -> list[str]:
    return [f"  note: {visible(answer['note'])}"] if "note" in answer else []


def _hold(hold: Mapping[str, Any]) -> str:
    return "\n".join(
        [
            f"hold {hold['id']}: {visible(hold['text'])}; {len(hold['waiting'])} waiting",
            *(f"  {visible(request)}" for request in hold["waiting"]),
            *_note(hold),
        ]
    )


def _entries(answer: Mapping[str, Any]) -> str:
    """The entries of a recorded order as JSON lines, the format of `recorded.load`."""
    return "\n".join(json.dumps(entry) for entry in answer["entries"])


def _each(name: str, form: Callable[[Mapping[str, Any]], str]) -> Callable[[Mapping[str, Any]], str]:
    return lambda answer: "\n".join(form(row) for row in answer[name]) or "none"


def _group_summary(group: Mapping[str, Any]) -> str:
    members = len(group["members"])
    committed = sum(group["lag"].values())
    parts = [group["state"], f"generation {group['generation']}", f"{members} member{'' if members == 1 else 's'}"]
    if group["offsets"]:
        parts.append(f"lag {committed}")
    return ", ".join(parts)


def group_line(ts_ms: int, group: Mapping[str, Any]) -> str:
    """A group in a line, as it was at a time of the brokers' clock."""
    return f"{clock(ts_ms)}  {visible(group['group'])}: {_group_summary(group)}"


def clock(ts_ms: int) -> str:
    """The time of day in UTC of ``ts_ms`` (ms since 1970): ``12:34:56.789``."""
    seconds, ms = divmod(ts_ms, 1000)
    return f"{seconds // 3600 % 24:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{ms:03}"


def _group(group: Mapping[str, Any]) -> str:
    coordinator = "none" if group["coordinator"] is None else group["coordinator"]
    where = f"{group['log'] or 'no offsets topic yet'}, coordinator {coordinator}"
    lines = [f"{visible(group['group'])}: {_group_summary(group)} ({where})"]
    if group["members"]:
        rows = [
            (
                member["member_id"],
                member["client_id"],
                member["client_host"],
                f"deferred {member['deferred']}" if member["deferred"] else "leader" if member["leader"] else "",
                _assignment(member),
            )
            for member in group["members"]
        ]
        lines.append(table(("MEMBER", "CLIENT", "HOST", "", "ASSIGNMENT"), rows))
    partitions = dict.fromkeys([*group["offsets"], *group["lag"]])
    if partitions:
        rows2 = [(name, group["offsets"].get(name, "-"), group["lag"].get(name, "-")) for name in sorted(partitions)]
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
            group["group"],
            group["state"],
            group["generation"],
            len(group["members"]),
            sum(group["lag"].values()),
            group["log"] or "-",
            _plain(group["coordinator"]),
        )
        for group in answer["groups"]
    ]
    return table(("GROUP", "STATE", "GENERATION", "MEMBERS", "LAG", "LOG", "COORDINATOR"), rows)


def _transactions(answer: Mapping[str, Any]) -> str:
    rows = [
        (
            transaction["transactional_id"],
            transaction["state"],
            transaction["producer_id"],
            transaction["epoch"],
            " ".join(transaction["partitions"]) or "-",
            transaction["log"] or "-",
            _plain(transaction["coordinator"]),
        )
        for transaction in answer["transactions"]
    ]
    return table(("TRANSACTIONAL ID", "STATE", "PRODUCER", "EPOCH", "WITHOUT A MARKER", "LOG", "COORDINATOR"), rows)


def _hanging(answer: Mapping[str, Any]) -> str:
    names = ("log", "producer_id", "epoch", "first_offset", "last_stable_offset", "high_watermark")
    rows = [
        (*(transaction[name] for name in names), clock(transaction["last_ms"])) for transaction in answer["hanging"]
    ]
    head = ("PARTITION", "PRODUCER", "EPOCH", "FIRST OFFSET", "LAST STABLE OFFSET", "HIGH WATERMARK", "WROTE LAST")
    return table(head, rows)


def _broker(broker: Mapping[str, Any]) -> str:
    state = "up" if broker["alive"] else "down"
    return (
        f"broker {broker['broker']} at {broker['host']}:{broker['port']} is {state}, leads {broker['leads']} partitions"
    )


def _topic(topic: Mapping[str, Any]) -> str:
    partitions = f"{topic['partitions']} partitions on {topic['replication_factor']} brokers each"
    return f"{topic['topic']}: {partitions}, {topic['records']} records"


def _records(answer: Mapping[str, Any]) -> str:
    def said(text: str | None) -> str:
        return "null" if text is None else visible(text)

    lines = []
    for record in answer["records"]:
        headers = "".join(f" {header['key']}={said(header['value'])}" for header in record["headers"])
        where = f"{record['partition']}@{record['offset']} {clock(record['timestamp_ms'])}"
        lines.append(f"{where} {said(record['key'])}: {said(record['value'])}{headers and f' [{headers[1:]}]'}")
    if answer["more"]:
        lines.append("... there are more: --limit N, --offset N")
    return "\n".join(lines) or "no records"


def _requests(answer: Mapping[str, Any]) -> str:
    lines = []
    for one in answer["requests"]:
        about = [f"{name} {visible(one[name])}" for name in ("group", "member", "transactional_id") if name in one]
        about += [visible(" ".join(one["topics"][:5]))] if one.get("topics") else []
        outcome = f"{one['error'] or 'answered'} after {one['took_ms']} ms" if one["answered"] else "not answered"
        what = f"{clock(one['ts_ms'])} {one['api']} v{one['version']} of {visible(str(one['client_id']))}"
        lines.append(f"{', '.join([what, *about])}: {outcome}"[:WIDTH])
    if answer["received"] > len(lines):
        lines.insert(0, f"... {answer['received'] - len(lines)} earlier ones: --limit N")
    return "\n".join(lines) or "no such request was received"


def _cluster(cluster: Mapping[str, Any]) -> str:
    topics = ", ".join(cluster["topics"]) or "none"
    protocol = "" if cluster["security_protocol"] == "PLAINTEXT" else f", {cluster['security_protocol']}"
    release = f"as {cluster['as_version']}, clock {cluster['clock']}"
    others = "".join(f", {name} at {at}" for name, at in list(cluster["listeners"].items())[1:])
    return f"{cluster['id']}: {cluster['bootstrap']}{others}{protocol}, {release}, topics {topics}"


def _pending(answer: Mapping[str, Any]) -> str:
    return "\n".join(
        [f"{len(answer['pending'])} wait for {answer['log']}", *(event_line(event) for event in answer["pending"])]
    )


def _scenario(scenario: Mapping[str, Any]) -> str:
    verdict = scenario["verdict"] or f"running; {scenario['waiting']}"
    steps = f"{len(scenario['done'])} of {len(scenario['steps'])} steps done"
    lines = [f"scenario {scenario['id']}, {scenario['name']}: {verdict}; {steps}"]
    lines += [f"  {'held  ' if one['held'] else 'BROKEN'}  {one['text']}" for one in scenario["results"]]
    return "\n".join([*lines, *([f"  {scenario['error']}"] if scenario["error"] else [])])


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
    "journal.recent": lambda answer: str(answer["text"]),
    **{f"broker.{verb}": _broker for verb in ("get", "down", "up", "restart", "advertise")},
    "broker.list": _each("brokers", _broker),
    "broker.restart_all": _each("brokers", _broker),
    **{f"topic.{verb}": _topic for verb in ("get", "create", "fill", "grow")},
    "topic.list": _each("topics", _topic),
    "topic.records": _records,
    "request.list": _requests,
    "request.wait": _requests,
    "topic.wait": _topic,
    **{f"scenario.{verb}": _scenario for verb in ("start", "get", "wait", "end")},
    "scenario.list": _each("scenarios", _scenario),
    **{f"cluster.{verb}": _cluster for verb in ("get", "create")},
    "cluster.list": _each("clusters", _cluster),
}
