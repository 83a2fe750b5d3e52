"""Lines of consumers: Java's (2.x to 4.4, classic and KIP-848), librdkafka's, aiokafka's, kafka-python's, kafkajs' (as its default
logger writes them, JSON, which `reading` makes plain); and of applications that log
what a client's call raised, where they name the error as librdkafka's bindings and the Python clients do. Of any client, also
franz-go's: that it could not authenticate, that its TLS handshake failed, that its transactional producer was fenced.

Sources: ConsumerCoordinator.java, AbstractCoordinator.java, CommitRequestManager.java, AbstractHeartbeatRequestManager.java,
SubscriptionState.java, NetworkClient.java, TransactionManager.java; rdkafka_cgrp.c, rdkafka_request.c, rdkafka_broker.c,
rdkafka_idempotence.c; aiokafka's group_coordinator.py, fetcher.py and client.py; franz-go's broker.go; kafkajs' runner.js,
consumerGroup.js, consumer/index.js, connection.js, and lines of it beside Kafka 4.1.
"""

from __future__ import annotations

from broker_sim.pipeline.lines.line_patterns import LinePatterns, form

__all__ = ["CLIENT", "JAVA", "KAFKAJS", "KINDS", "OF_NO_GROUP", "RDKAFKA"]

JAVA = (
    r"\[(?:Consumer|Producer|AdminClient) (?:instanceId=(?P<instance>[^,\]]+), )?clientId=(?P<client_id>[^,\]]*)(?:,"
    r" groupId=(?P<group>[^\]]*))?(?:, transactionalId=(?P<member>[^\]]*))?\]"
)
"""Pattern of the client that wrote the line, in the format of Java's clients."""
RDKAFKA = r"\|(?P<client_id>[^|#]*)#(?:consumer|producer)-\d+\|"
"""Pattern of the client that wrote the line, in the format of librdkafka."""

KAFKAJS = (
    r"\[kafkajs (?:clientId=(?P<client_id>.*?)(?:, |(?=\])))?(?:groupId=(?P<group>.*?)(?:, |(?=\])))?"
    r"(?:memberId=(?P<member>.*?)(?:, |(?=\])))?(?:broker=|topic=|partition=|\])"
)
"""Pattern of the client that wrote the line, in the format of kafkajs."""

_TP = r"(?P<topic>[A-Za-z0-9._-]+)-(?P<partition>\d+)"

KINDS = {
    "commit failed": "a commit was answered with an error, or not at all",
    "coordinator lost": "the coordinator did not answer, or said that it is none",
    "coordinator found": "a coordinator was found",
    "poll timeout": "the client's poll timeout (max.poll.interval.ms) expired, and it leaves the group; `number`: so many ms ago",
    "session lost": "the coordinator does not know the member any more, or did not answer for the session's time",
    "fenced instance": "another client came with the same group.instance.id",
    "rejoins": "the client joins again, and why",
    "leaves": "the client leaves, and why",
    "synced": "it has its assignment of a generation",
    "seek": "the application sets its position",
    "reset": "the position is set by auto.offset.reset, as no committed offset stands or it is out of range",
    "out of range": "the position is outside of the log",
    "truncated": "the log was truncated below the position",
    "no offset": "no committed offset was found",
    "unstable": "a committed offset waits for a transaction, or for replication",
    "authentication failed": "the client did not authenticate; `address` is the broker's",
    "handshake failed": "its TLS handshake failed",
    "producer fenced": "a transactional producer was fenced, or its producer id is unknown; `member` is its transactional id",
    "crashed": "the consumer stopped with an error (kafkajs)",
    "restarts": "it will be started again after that, in `number` ms (kafkajs)",
}
"""Each kind of client's line, and its meaning."""

_LIBRDKAFKA_AT = r"(?P<address>(?:[a-z_]+://)?[^\s/]+)/\w+: "
_AFTER = r"(?: \(after \d+ms in state \w+.*)?$"
_FENCED = ("ProducerFenced", "InvalidProducerEpoch", "InvalidPidMapping", "InvalidProducerIdMapping")
_FENCED_CODES = ("PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_ID_MAPPING")


def _answered(detail: str, apis: str = r"\w+") -> str:
    """kafkajs: an answer to one of these APIs with that error."""
    return rf"\[Connection\] Response (?:{apis})\(key: \d+, version: \d+\) error=(?P<detail>{detail})"


_KAFKAJS_CONNECTIONS = [
    form(
        "authentication failed",
        r"broker=(?P<address>[^,\]]+)\] " + _answered(".*$", "SaslHandshake|SaslAuthenticate"),
        "[Connection] Response Sasl",
    ),
    form(
        "handshake failed",
        r"broker=(?P<address>[^,\]]+)\] \[Connection\] Connection error: (?P<detail>.*(?:certificate|SSL|TLS|EPROTO).*)$",
        "[Connection] Connection error: ",
    ),
    form(
        "producer fenced",
        _answered(
            "(?:Producer attempted an operation with an old epoch"
            "|The producer attempted to use a producer id which is not currently assigned).*$"
        ),
        "[Connection] Response ",
        "roducer attempted ",
    ),
]
_KAFKAJS_GROUPS = [
    form(
        "session lost",
        r"\[Runner\] (?P<detail>The coordinator is not aware of this member), re-joining",
        "The coordinator is not aware of this member, re-joining",
    ),
    form(
        "rejoins",
        r"\[Runner\] The group is rebalancing, re-joining(?: error=(?P<detail>.*))?$",
        "[Runner] The group is rebalancing, re-joining",
    ),
    form("synced", r"\[ConsumerGroup\] Consumer has joined the group", "[ConsumerGroup] Consumer has joined the group"),
    form(
        "coordinator lost",
        _answered("This is not the correct coordinator for this group"),
        "[Connection] Response ",
        "This is not the correct coordinator",
    ),
    form(
        "commit failed",
        _answered(".*$", "OffsetCommit|TxnOffsetCommit"),
        "[Connection] Response ",
        "OffsetCommit",
    ),
    form(
        "out of range",
        r"topic=(?P<topic>[^,\]]+), partition=(?P<partition>\d+)\] \[\w+\] (?P<detail>Offset out of range), resetting to default",
        "Offset out of range, resetting to default offset",
    ),
    form("crashed", r"\[Consumer\] Crash: (?P<detail>.*)$", "[Consumer] Crash: "),
    form(
        "restarts",
        r"\[Consumer\] Restarting the consumer in (?P<number>\d+)ms",
        "[Consumer] Restarting the consumer in ",
    ),
]

_OF_ANY_CLIENT = [
    *_KAFKAJS_CONNECTIONS,
    form(
        "handshake failed",
        r"Connection to node (?P<node>-?\d+) \((?:[^)/]*/)?(?P<address>[^)]*)\) failed authentication due to: (?P<detail>SSL"
        r" handshake failed.*?)(?: \([\w.$]+\))?$",
        "failed authentication due to: SSL",
    ),
    form(
        "authentication failed",
        r"Connection to node (?P<node>-?\d+) \((?:[^)/]*/)?(?P<address>[^)]*)\) failed authentication due to: (?P<detail>.*?)"
        r"(?: \([\w.$]+\))?$",
        "failed authentication due to",
    ),
    form(
        "handshake failed",
        r"Connection to node (?P<node>-?\d+) \((?:[^)/]*/)?(?P<address>[^)]*)\) (?P<detail>terminated during authentication)",
        "terminated during authentication",
    ),
    form(
        "handshake failed", rf"{_LIBRDKAFKA_AT}(?P<detail>SSL handshake failed: .*?){_AFTER}", "SSL handshake failed: "
    ),
    form(
        "authentication failed",
        rf"{_LIBRDKAFKA_AT}(?:SASL authentication error: |Failed to initialize SASL authentication: |(?=SASL handshake failed))"
        rf"(?P<detail>.*?){_AFTER}",
        "SASL",
        "in state AUTH",
    ),
    form(
        "authentication failed",
        r"Unable connect to \"?(?:node with id )?(?P<address>[^\"\s]+?)\"?: (?:\[Error \d+\] )?(?P<detail>(?:Sasl|Unsupported"
        r"Sasl|IllegalSasl|Authentication)\w*: .*)$",
        "Unable connect to ",
    ),
    form(
        "handshake failed",
        r"Unable connect to \"?(?:node with id )?(?P<address>[^\"\s]+?)\"?: .*?(?P<detail>\[SSL.*)$",
        "Unable connect to ",
        "[SSL",
    ),
    form(
        "authentication failed",
        r"successful responses \((?P<detail>is SASL missing\?)\)(?:.*?\baddr\W+(?P<address>[\w.-]+:\d+))?",
        "is SASL missing?",
    ),
    form("authentication failed", r"(?P<detail>SASL_AUTHENTICATION_FAILED: .*?)[\"'}]*$", "SASL_AUTHENTICATION_FAILED"),
    form("handshake failed", r"(?P<detail>\bx509: .*?)[\"'}]*$", "x509: "),
    form(
        "handshake failed",
        r"(?P<detail>\btls: (?:first record|bad|failed|handshake|unknown|certificate|protocol|no |unsupported|expired|oversized)"
        r".*?)[\"'}]*$",
        "tls: ",
    ),
    form(
        "producer fenced",
        r"(?:\[thrd:[^\]]*\]: )?(?:Fatal transaction error: |Fatal error: )?(?P<detail>(?:(?!\[thrd)[^|])*?(?:fenced by newer producer"
        r" instance|fenced by a newer instance|not currently assigned to its transactional id).*)$",
        "transactional",
        "producer",
        "nstance",
    ),
    form("producer fenced", r"Fatal transaction error: (?P<detail>.*\(_FENCED\).*)$", "(_FENCED)"),
    *(
        form("producer fenced", rf"(?:^|[\s.(\"'=:])(?P<detail>{name}(?:Exception|Error)?\b.*)$", name)
        for name in _FENCED
    ),
    *(form("producer fenced", rf"(?P<detail>\b{code}\b.*?)[\"'}}]*$", code) for code in _FENCED_CODES),
]
"""Patterns of lines of any client, also of producers and administrators: nothing in these lines belongs to a group."""
OF_NO_GROUP = frozenset(form.what for form in _OF_ANY_CLIENT)

CLIENT = LinePatterns(
    [
        *_OF_ANY_CLIENT,
        *_KAFKAJS_GROUPS,
        form(
            "commit failed",
            rf"Offset commit failed on partition {_TP} at offset (?P<offset>\d+): (?P<detail>.*?)(?: \([\w.$]+\))?$",
            "Offset commit failed on partition",
        ),
        form(
            "commit failed",
            r"Synchronous auto-commit of offsets .* failed: (?P<detail>.*)$",
            "ynchronous auto-commit of offsets",
            "failed",
        ),
        form(
            "commit failed",
            r"Auto-commit of offsets .* (?P<detail>timed out) before completion",
            "Auto-commit of offsets ",
        ),
        form(
            "commit failed",
            r"(?:Asynchronous auto-commit|Offset commit with offsets) .*failed:? ?(?P<detail>.*)$",
            "Asynchronous auto-commit",
            "failed",
        ),
        form("commit failed", r"Offset commit with offsets .* failed(?P<detail>.*)$", "Offset commit with offsets"),
        form(
            "commit failed",
            r"Timeout of \d+ms expired before (?P<detail>successfully committing offsets)",
            "expired before successfully committing",
        ),
        form(
            "commit failed",
            r"OffsetCommit failed for (?P<topic>\S+) \[(?P<partition>\d+)\] at offset (?P<offset>\d+) in join-state \S+:"
            r" (?P<detail>.*)$",
            "OffsetCommit failed for ",
            "join-state",
        ),
        form(
            "commit failed",
            r"Offset commit \(.*?\) failed for \d+/\d+ partition\(s\) in join-state \S+: (?P<detail>.*)$",
            "Offset commit (",
        ),
        form(
            "commit failed",
            r"OffsetCommit failed for group (?P<group>.+?) (?:on partition \S+ )?(?:with offset \S+: |due to |because group is |- )"
            r"(?P<detail>.*?)(?:, will .*)?$",
            "OffsetCommit failed for group",
        ),
        form("commit failed", r"OffsetCommit failed(?: with [^:]*)?: ?(?P<detail>.*)$", "OffsetCommit failed"),
        form("commit failed", r"Auto offset commit failed: (?P<detail>.*)$", "Auto offset commit failed"),
        form(
            "commit failed",
            r"Group (?P<group>.+?) failed to commit partition .*?topic='(?P<topic>[^']+)', partition=(?P<partition>\d+).*? at offset"
            r" .*?: (?P<detail>\w+)",
            "failed to commit partition",
        ),
        form(
            "commit failed",
            r"OffsetCommit for group (?P<group>.+?) failed(?: due to)?:? (?P<detail>.*)$",
            "OffsetCommit for group",
            "failed",
        ),
        form("commit failed", r"Offset commit failed: (?P<detail>.*)$", "Offset commit failed"),
        form(
            "commit failed",
            r"[Cc]ommit.*(?:KafkaError\{code=(?P<detail>\w+)|(?P<detail2>KafkaTimeoutError|RequestTimedOutError|NotEnoughReplicas\w*Error|\w*CoordinatorNotAvailableError))",
            "ommit",
            "Error",
        ),
        form(
            "coordinator lost",
            r"Group coordinator .*? is unavailable or invalid due to cause: (?P<detail>.*?)(?:\.\s*isDisconnected.*|\."
            r" Rediscovery.*)?$",
            "Group coordinator ",
            "is unavailable or invalid",
        ),
        form(
            "coordinator lost",
            r"Marking the coordinator dead \(node \S+?\) ?for group (?P<group>[^:]+?)(?:: (?P<detail>.*?))?\.?$",
            "Marking the coordinator dead",
        ),
        form(
            "coordinator lost",
            r"(?P<detail>has been disconnected from the group coordinator) for",
            "disconnected from the group coordinator",
        ),
        form(
            "coordinator found",
            r"Discovered (?:group )?coordinator \S+(?:.* for group (?P<group>.+))?",
            "Discovered ",
            "oordinator",
        ),
        form(
            "poll timeout",
            r"(?P<detail>[Cc]onsumer poll timeout has expired|longer than the configured max\.poll\.interval\.ms)"
            r"(?:, exceeded approximately by (?P<number>\d+) ms)?",
            "poll",
            "max.poll.interval.ms",
        ),
        form("poll timeout", r"(?P<detail>[Cc]onsumer poll timeout has expired)", "onsumer poll timeout has expired"),
        form(
            "poll timeout",
            r"(?P<detail>Application maximum poll interval \(\d+ms\) exceeded by (?P<number>\d+)ms)",
            "Application maximum poll interval",
        ),
        form("session lost", r"(?P<detail>session timed out.*?)(?:: revoking.*)?$", "session timed out"),
        form(
            "session lost",
            r"Attempt to heartbeat with .* failed due to (?P<detail>\w+), resetting generation",
            "Attempt to heartbeat with",
        ),
        form("session lost", r"Resetting generation .*due to: (?P<detail>.*)$", "Resetting generation "),
        form(
            "session lost",
            r"(?P<detail>Heartbeat failed.*(?:generation id is not|member_id was not recognized).*)$",
            "Heartbeat failed",
        ),
        form("session lost", r"(?P<detail>Heartbeat session expired)", "Heartbeat session expired"),
        form("fenced instance", r"group\.?[ _]?instance[. _]id \S+ (?P<detail>.*fenced.*)$", "instance", "fenced"),
        form(
            "leaves",
            r"Member (?P<member>\S+) sending LeaveGroup request to coordinator .*? due to (?P<detail>.*?)(?: \([\w.$]+\))?$",
            "sending LeaveGroup request",
        ),
        form("leaves", r"(?P<detail>LeaveGroup request succeeded)", "LeaveGroup request succeeded"),
        form(
            "rejoins",
            r"Request joining group due to: (?P<detail>.*?)(?: \([\w.$]+\))?$",
            "Request joining group due to",
        ),
        form(
            "synced",
            r"Successfully synced group in generation Generation\{generationId=(?P<generation>-?\d+), memberId='(?P<member>[^']*)'",
            "Successfully synced group in generation",
        ),
        form(
            "synced",
            r"Successfully synced group (?P<group>.+) with generation (?P<generation>\d+)",
            "Successfully synced group",
        ),
        form("seek", rf"Seeking to offset (?P<offset>\d+) for partition {_TP}", "Seeking to offset"),
        form(
            "seek",
            rf"Seeking to (?P<detail>earliest|latest|EARLIEST|LATEST|beginning|end) offset of partition {_TP}",
            "Seeking to ",
        ),
        form(
            "reset",
            rf"Resetting offset for partition {_TP} to position FetchPosition\{{offset=(?P<offset>\d+)",
            "Resetting offset for partition",
        ),
        form(
            "out of range",
            rf"[Ff]etch (?:position|offset).*?(?:offset=)?(?P<offset>\d+)?.* is out of range for partition .*?{_TP}",
            "is out of range for partition",
        ),
        form(
            "out of range",
            r"(?P<topic>\S+) \[(?P<partition>\d+)\]: offset reset \(at offset (?P<offset>\d+).*(?P<detail>out of range)",
            "out of range",
        ),
        form(
            "truncated",
            rf"Truncation detected for partition {_TP} at offset .*?(?:offset=)?(?P<offset>\d+)",
            "Truncation detected for partition",
        ),
        form("no offset", rf"Found no committed offset for partition {_TP}", "Found no committed offset"),
        form("unstable", r"still have unstable offsets(?P<detail>)", "still have unstable offsets"),
    ]
)
