"""Spelling of the operations as commands: the nouns, their verbs, the parameters without a name, examples."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["TEXTS", "VERBS", "Verb"]


@dataclass(frozen=True, slots=True)
class Verb:
    """Spelling of an operation as a command: the parameters without a name, in their order, and examples of its use."""

    operation: str
    bare: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()


VERBS: dict[str, dict[str, Verb]] = {
    "state": {
        "list": Verb("state.list", (), ("state", "state list --json")),
        "get": Verb("log.get", ("log",), ("state 'offsets(billing)'",)),
        "set": Verb(
            "state.set",
            ("log", "state"),
            (
                "state set 'offsets(billing)' stuck --for 40s",
                "state 'offsets(billing)' stuck",
                "state orders-0 slow --latency 200ms --jitter 50ms",
                "state orders-0 online",
            ),
        ),
        "heal": Verb("state.heal", ("log", "state"), ("state heal 'offsets(billing)'", "state heal orders-0 slow")),
    },
    "fault": {
        "list": Verb("fault.list", (), ("fault", "fault list --json")),
        "add": Verb(
            "fault.add",
            ("api",),
            (
                "fault add OffsetCommit group=billing error=NOT_COORDINATOR times=3",
                "fault add Heartbeat --client-id 'app-*' --hang",
                "fault add Fetch topic=orders partition=0 delay=2s during=30s",
            ),
        ),
        "get": Verb("fault.get", ("fault",), ("fault get 1",)),
        "wait": Verb("fault.wait", ("fault",), ("fault wait 1 --hits 3 --timeout 30s",)),
        "release": Verb("fault.release", ("fault",), ("fault release 1",)),
        "remove": Verb("fault.remove", ("fault",), ("fault remove 1", "fault remove 1 --no-must-hit")),
        "clear": Verb("fault.clear", (), ("fault clear",)),
    },
    "request": {
        "list": Verb(
            "request.list",
            ("api",),
            ("request list OffsetCommit", "request list Produce --client-id app-1 --topic orders --json"),
        ),
        "wait": Verb(
            "request.wait", ("api",), ("request wait OffsetCommit --client-id app-1 --count 3 --timeout 30s",)
        ),
    },
    "clock": {
        "get": Verb("clock.get", (), ("clock",)),
        "advance": Verb("clock.advance", ("by",), ("clock advance 45s", "clock advance 45s --expire consumer-2")),
    },
    "group": {
        "list": Verb("group.list", (), ("group", "group list --json")),
        "get": Verb(
            "group.get",
            ("group",),
            ("group billing", "group billing --wait stable --members 3 --timeout 30s", "group billing --watch"),
        ),
        "wait": Verb(
            "group.wait",
            ("group",),
            ("group wait billing state=Stable members=3 reading=true", "group wait billing lag_below=100"),
        ),
        "commit": Verb("group.commit", ("group",), ("group commit billing --timeout 30s",)),
        "probe": Verb("group.probe", ("group",), ("group probe billing",)),
        "remove-member": Verb("group.remove_member", ("group", "member"), ("group remove-member billing consumer-2",)),
    },
    "share": {
        "get": Verb("share.get", ("group",), ("share shippers", "share get shippers --json")),
        "expire": Verb(
            "share.expire", ("group",), ("share expire shippers", "share expire shippers topic=orders --member app-2")
        ),
        "locked": Verb(
            "share.wait_locked",
            ("group", "topic", "partition", "offset"),
            ("share locked shippers orders 0 5 --timeout 30s",),
        ),
        "unlocked": Verb("share.wait_unlocked", ("group",), ("share unlocked shippers",)),
        "delivered": Verb(
            "share.wait_delivered",
            ("group", "topic", "partition", "offset"),
            ("share delivered shippers orders 0 5 --times 2",),
        ),
        "deliveries": Verb(
            "share.deliveries", ("group", "topic", "partition", "offset"), ("share deliveries shippers orders 0 5",)
        ),
    },
    "transaction": {
        "list": Verb("transaction.list", (), ("transaction", "transaction list --json")),
        "get": Verb("transaction.get", ("transactional_id",), ("transaction orders-app",)),
        "wait": Verb("transaction.wait", ("transactional_id",), ("transaction wait orders-app state=CompleteCommit",)),
        "explain": Verb(
            "transaction.explain",
            ("transactional_id",),
            ("transaction explain orders-app", "transaction explain orders-app --journal DIR"),
        ),
        "abort": Verb("transaction.abort", ("transactional_id",), ("transaction abort orders-app",)),
        "hanging": Verb("transaction.hanging", (), ("transaction hanging",)),
        "abort-hanging": Verb(
            "transaction.abort_hanging", ("log", "producer_id"), ("transaction abort-hanging payments-0 1000",)
        ),
    },
    "explain": {"": Verb("group.explain", ("group",), ("explain billing", "explain billing --generation 7"))},
    "timeline": {"": Verb("group.timeline", ("group",), ("timeline billing", "timeline billing --html billing.html"))},
    "journal": {
        "read": Verb(
            "journal.read",
            (),
            ("journal --group billing", "journal --api OffsetCommit --follow --json", "journal --event group"),
        ),
        "next": Verb("journal.next", (), ("journal next --api OffsetCommit --error NOT_COORDINATOR --timeout 30s",)),
        "recent": Verb("journal.recent", (), ("journal recent",)),
        "mark": Verb("journal.mark", ("text",), ("journal mark 'deploy began'",)),
    },
    "broker": {
        "list": Verb("broker.list", (), ("broker",)),
        "get": Verb("broker.get", ("broker",), ("broker get 2",)),
        "down": Verb("broker.down", ("broker",), ("broker down 2", "broker down 2 --graceful")),
        "up": Verb("broker.up", ("broker",), ("broker up 2",)),
        "restart": Verb("broker.restart", ("broker",), ("broker restart 1",)),
        "advertise": Verb(
            "broker.advertise", ("broker", "listener"), ("broker advertise 1 EXTERNAL://localhost:32768",)
        ),
        "restart-all": Verb("broker.restart_all", (), ("broker restart-all",)),
    },
    "leader": {
        "move": Verb("leader.move", ("log", "broker"), ("leader move 'offsets(billing)' 2", "leader move orders-0 3")),
        "elect": Verb("leader.elect", ("log", "broker"), ("leader elect orders-0",)),
        "prefer": Verb("leader.prefer", (), ("leader prefer",)),
    },
    "log": {
        "get": Verb("log.get", ("log",), ("log 'offsets(billing)'",)),
        "wait": Verb("log.wait", ("log",), ("log wait 'offsets(billing)' --pending 1",)),
        "fill": Verb("log.fill", ("log", "records"), ("log fill orders-0 100",)),
        "lose-tail": Verb(
            "log.lose_tail",
            ("log", "records"),
            ("log lose-tail orders-0 50", "log lose-tail 'offsets(billing)' --to 100"),
        ),
        "lose-head": Verb("log.lose_head", ("log", "records"), ("log lose-head orders-0 --to 100",)),
    },
    "topic": {
        "list": Verb("topic.list", (), ("topic", "topic list --json")),
        "get": Verb("topic.get", ("topic",), ("topic orders",)),
        "create": Verb("topic.create", ("topic", "partitions"), ("topic create orders 6",)),
        "fill": Verb("topic.fill", ("topic", "records"), ("topic fill orders 600",)),
        "records": Verb(
            "topic.records",
            ("topic",),
            ("topic records orders", "topic records orders --partition 0 --offset 100 --encoding base64"),
        ),
        "wait": Verb("topic.wait", ("topic", "records"), ("topic wait orders 3 --timeout 30s",)),
        "grow": Verb("topic.grow", ("topic", "partitions"), ("topic grow orders 12",)),
        "delete": Verb("topic.delete", ("topic",), ("topic delete orders",)),
    },
    "order": {
        "list": Verb("order.list", (), ("order",)),
        "hold": Verb("order.hold", ("api",), ("order hold OffsetCommit group=billing",)),
        "wait": Verb("order.wait", ("hold",), ("order wait 1 --waiting 3",)),
        "release": Verb("order.release", ("hold",), ("order release 1", "order release 1 --count 2")),
        "step": Verb("order.step", ("hold",), ("order step 1",)),
        "remove": Verb("order.remove", ("hold",), ("order remove 1",)),
        "record": Verb("order.record", (), ("order record",)),
        "recorded": Verb("order.recorded", (), ("order recorded",)),
        "stop": Verb("order.stop", (), ("order stop > order.ndjson",)),
        "replay": Verb("order.replay", ("entries",), ("order replay order.ndjson",)),
        "replayed": Verb("order.replayed", (), ("order replayed --done --timeout 30s",)),
        "unreplay": Verb("order.unreplay", (), ("order unreplay",)),
    },
    "scenario": {
        "start": Verb("scenario.start", ("name",), ("scenario start incident.yaml", "scenario start leader-changes")),
        "running": Verb("scenario.list", (), ("scenario running",)),
        "get": Verb("scenario.get", ("scenario",), ("scenario get 1",)),
        "wait": Verb(
            "scenario.wait",
            ("scenario",),
            ("scenario wait 1 --timeout 60s", "scenario wait 1 --step 'the log recovers' --timeout 60s"),
        ),
        "end": Verb("scenario.end", ("scenario",), ("scenario end 1",)),
    },
    "cluster": {
        "list": Verb("cluster.list", (), ("cluster",)),
        "get": Verb("cluster.get", ("cluster",), ("cluster get default",)),
        "create": Verb("cluster.create", ("id",), ("cluster create test-1 brokers=3 topics=orders:6 clock=manual",)),
        "delete": Verb("cluster.delete", ("cluster",), ("cluster delete test-1",)),
    },
}

TEXTS = {
    "state": "Lasting states of log partitions: stuck, slow, loading, ... A log is orders-0, or offsets(GROUP): where a group lives.",
    "fault": "Rules that break requests: error, delay, hang, drop, truncate, split, throttle.",
    "request": "Requests that the brokers received.",
    "clock": "The brokers' time. advance is for --clock manual.",
    "group": "Consumer groups, as their coordinators see them.",
    "share": "Share groups, as the leaders of their partitions know them: records in flight, locks, deliveries.",
    "transaction": "Transactional ids, as their coordinators know them, and transactions that hang.",
    "journal": "Recorded events: requests, responses, groups, transactions, timers, appends, faults.",
    "broker": "Brokers, down and up.",
    "leader": "Who leads a log partition; for an offsets partition that is its groups' coordinator.",
    "log": "A log partition, the requests that wait for it, and records for it.",
    "topic": "Topics.",
    "order": "Requests held back at the brokers.",
    "cluster": "Virtual clusters of a running process, each with ports, logs and a clock of its own.",
}
