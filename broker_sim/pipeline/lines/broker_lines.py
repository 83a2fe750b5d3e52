"""Lines of brokers and controllers, Kafka 3.4 to 4.4, at INFO and above.

The classic coordinator's words hardly changed when it was rewritten in Java (3.4: GroupCoordinator.scala, GroupMetadataManager.scala;
4.x: GroupMetadataManager.java, GroupCoordinatorShard.java, CoordinatorRuntime.java); what did is its prefix: ``[GroupCoordinator 1]:``
became ``[GroupCoordinator id=1 topic=__consumer_offsets partition=7]``. ISR: Partition.scala, AlterPartitionManager.scala; refused
appends: ReplicaManager.scala; connections: Selector.java, NetworkReceive.java; the controller: ReplicationControlManager.java,
BrokerHeartbeatManager.java.
"""

from __future__ import annotations

from broker_sim.pipeline.lines.line_patterns import LinePatterns, form

__all__ = ["BROKER", "KINDS", "NODE", "PLACE"]

NODE = r"(?:broker|brokerId|nodeId|id)=(?P<node>\d+)|\[(?:GroupCoordinator|Controller) (?P<node2>\d+)\]"
"""Pattern of the id of the broker that wrote the line."""
PLACE = r"\[GroupCoordinator id=\d+ topic=(?P<topic>\S+) partition=(?P<partition>\d+)\]"
"""The coordinator's partition, as the lines of 4.x begin."""

_GROUP = r"(?P<group>.+?)"
_MEMBER = r"(?P<member>\S+)"
_LOG = r"(?P<topic>[A-Za-z0-9._-]+)-(?P<partition>\d+)"
_PEER = r"(?:\S*/)?(?P<address>[^\s/;]+)(?: \(channelId=[^)]*\))?"
"""A client as Selector.java names it: ``host/10.0.0.7 (channelId=..)``."""
_END = r"(?: \([\w.$]+\))?(?: \[[^\]]*\])?$"
"""A logger's class, and the thread, which some layouts have behind it."""

KINDS = {
    "preparing": "a rebalance of a classic group began",
    "closed": "its members were in: the leader's assignment is awaited",
    "assigned": "the leader's assignment came",
    "empty": "a classic group has no members any more",
    "dead": "a group ceased to exist",
    "no rejoin": "a rebalance could not be completed, as no member rejoined",
    "session timeout": "a member's session expired",
    "left": "a member said that it leaves",
    "not rejoined": "members were removed that did not rejoin in time",
    "not synced": "members were removed that did not ask for the assignment in time",
    "replaced": "a static member rejoined with another member id",
    "not stored": "a group's record, or an offset, could not be stored",
    "fenced": "a member of a KIP-848, share or streams group was removed",
    "modern joined": "a member joined such a group",
    "modern left": "a member left such a group",
    "epoch": "such a group's epoch rose",
    "converted": "a group was converted to the other protocol: `detail` is `classic` or `consumer`, what it was before",
    "deleted": "groups were deleted on demand",
    "offsets deleted": "a group's offsets were deleted on demand",
    "expired": "offsets expired, or those of deleted topics were removed",
    "elected": "a broker became coordinator of an offsets partition",
    "resigned": "a broker ceased to be its coordinator",
    "loading": "its records are to be read",
    "loaded": "its records are read",
    "load failed": "its records could not be read",
    "leads": "a broker leads a partition",
    "follows": "a broker follows a partition",
    "ISR shrinks": "a leader takes a replica out of a partition's in-sync replicas",
    "ISR grows": "a replica is in sync again",
    "ISR": "the in-sync replicas that the controller confirmed",
    "refused": "an append was refused",
    "broker fenced": "the controller has lost a broker",
    "broker stops": "a broker shuts down in order",
    "broker starts": "a broker has started",
    "release": "the release of Kafka that a broker runs",
    "unclean": "a leader was elected outside of the in-sync replicas: records are lost",
    "transaction timeout": "a transaction was aborted by its timeout",
    "authentication failed": "a client did not authenticate; `address` is the client's",
    "handshake failed": "a client's TLS handshake failed",
    "invalid receive": "a connection was closed for what was received on it: `detail`",
}
"""Each kind of broker's line, and its meaning."""

BROKER = LinePatterns(
    [
        form(
            "preparing",
            rf"Preparing to rebalance group {_GROUP} in state (?P<state>\w+) with old generation (?P<generation>-?\d+)"
            rf"(?: \({_LOG}\))? \(reason: (?P<detail>.*?)\)\.?(?: \([\w.$]+\))?$",
            "Preparing to rebalance group ",
        ),
        form(
            "closed",
            rf"Stabilized group {_GROUP} generation (?P<generation>\d+) (?:\({_LOG}\) )?with (?P<number>\d+) members",
            "Stabilized group ",
        ),
        form(
            "assigned",
            rf"Assignment received from leader (?P<member>.+?) for group {_GROUP} for generation (?P<generation>\d+)\."
            r" The group has (?P<number>\d+) members",
            "Assignment received from leader ",
        ),
        form("empty", rf"Group {_GROUP} with generation (?P<generation>\d+) is now empty", " is now empty"),
        form(
            "dead", rf"Group {_GROUP} transitioned to Dead in generation (?P<generation>\d+)", " transitioned to Dead"
        ),
        form("no rejoin", rf"Group {_GROUP} could not complete rebalance because", "could not complete rebalance"),
        form(
            "session timeout", rf"Member {_MEMBER} in group {_GROUP} has failed, removing it", "has failed, removing it"
        ),
        form(
            "session timeout",
            rf"Pending member {_MEMBER} in group {_GROUP} has been removed after session timeout",
            "has been removed after session timeout",
        ),
        form(
            "left",
            rf"\[Group(?:Id)? {_GROUP}\] (?:Dynamic |Static |Pending )?[Mm]ember {_MEMBER}(?: with instance id \S+)? has left group"
            r" through explicit `LeaveGroup`(?: request)?; client reason: (?P<detail>.*?)(?: \([\w.$]+\))?$",
            "through explicit `LeaveGroup`",
            "[Group",
            "client reason",
        ),
        form(
            "left",
            rf"[Mm]ember (?:MemberMetadata\()?(?:memberId=)?(?P<member>[^\s,(]+).*? has left group {_GROUP} through explicit"
            r" `LeaveGroup`(?: request)?; client reason: (?P<detail>.*?)(?: \([\w.$]+\))?$",
            "through explicit `LeaveGroup`",
            "has left group ",
        ),
        form(
            "not rejoined",
            rf"Group {_GROUP} removed dynamic members who haven't joined: (?P<detail>.*?)(?: \([\w.$]+\))?$",
            "removed dynamic members",
        ),
        form(
            "not synced",
            rf"Group {_GROUP} removed members who haven't sent their sync requests?: (?P<detail>.*?)(?: \([\w.$]+\))?$",
            "removed members who haven't",
        ),
        form(
            "replaced",
            rf"Static member with groupInstanceId=(?P<instance>\S+) and unknown member id joins group {_GROUP} in (?P<state>\w+)"
            rf" state\."
            rf" Replacing previously mapped member {_MEMBER} with this groupInstanceId",
            "Replacing previously mapped member",
        ),
        form(
            "not stored",
            rf"Failed to persist metadata for group {_GROUP}(?: static member {_MEMBER} .*?due to)?:? (?P<detail>.*)$",
            "Failed to persist metadata for group",
        ),
        form(
            "not stored",
            rf"Failed to write empty metadata for group {_GROUP}: (?P<detail>.*)$",
            "Failed to write empty metadata",
        ),
        form(
            "not stored",
            rf"Metadata from group {_GROUP} with generation (?P<generation>\d+) failed when appending to log due to (?P<detail>.*)$",
            "failed when appending to log due to",
            "Metadata from group",
        ),
        form(
            "fenced",
            rf"\[GroupId {_GROUP}\](?:\[MemberId \S+\])? (?:Streams )?[Mm]ember {_MEMBER} fenced from the group because"
            r" (?P<detail>.*?)\.?(?: \([\w.$]+\))?$",
            "fenced from the group because",
        ),
        form(
            "modern joined",
            rf"\[GroupId {_GROUP}\](?:\[MemberId (?P<id>\S+)\])? (?:Static )?[Mm]ember(?: {_MEMBER})?(?: with instance id"
            r" (?P<instance>\S+))? (?:re-)?joins the (?P<detail>consumer|share|streams) group",
            "joins the ",
            "[GroupId ",
        ),
        form(
            "modern left",
            rf"\[GroupId {_GROUP}\](?:\[MemberId \S+\])? (?:Static )?[Mm]ember {_MEMBER}(?: with instance id (?P<instance>\S+))?"
            r" (?P<detail>(?:temporarily )?left) the (?:consumer|share|streams) group",
            "left the ",
            "[GroupId ",
        ),
        form(
            "epoch",
            rf"\[GroupId {_GROUP}\](?:\[MemberId \S+\])? Bumped (?:streams )?group epoch to (?P<generation>\d+)",
            "group epoch to ",
            "Bumped",
        ),
        form(
            "converted",
            rf"\[GroupId {_GROUP}\](?:\[MemberId \S+\])? Converted the (?P<detail>classic|consumer) group to a"
            r" (?:consumer|classic) group",
            "Converted the ",
            "[GroupId ",
        ),
        form(
            "deleted",
            r"The following groups were deleted: (?P<detail>.*?)\. A total of (?P<number>\d+) offsets were removed",
            "The following groups were deleted",
        ),
        form(
            "offsets deleted",
            rf"The following offsets of the group {_GROUP} were deleted: (?P<detail>.*?)\.? A total of (?P<number>\d+) offsets",
            "The following offsets of the group",
        ),
        form("expired", r"Removed (?P<number>[1-9]\d*) expired offsets in", " expired offsets in"),
        form(
            "expired",
            r"Generated (?P<number>[1-9]\d*) tombstone records (?:in \d+ milliseconds )?while (?P<detail>cleaning up group"
            r" metadata|deleting"
            r" offsets for (?:partitions|topics))",
            "tombstone records",
            "Generated ",
        ),
        form(
            "elected",
            r"Elected as the group coordinator for partition (?P<partition>\d+) in epoch (?P<epoch>\d+)",
            "Elected as the group coordinator",
        ),
        form(
            "resigned",
            r"Resigned as the group coordinator for partition (?P<partition>\d+)(?: in epoch (?:Some\()?(?P<epoch>\d+))?",
            "Resigned as the group coordinator",
        ),
        form(
            "loaded",
            rf"Finished loading (?:of metadata|offsets and group metadata) from {_LOG} (?:with epoch (?P<epoch>\d+) )?in"
            r" (?P<number>\d+) ?m",
            "Finished loading ",
        ),
        form(
            "load failed",
            rf"(?:Failed to load metadata|Error loading offsets) from {_LOG}(?: with epoch (?P<epoch>\d+))?(?P<detail>.*)$",
            " from ",
            "load",
            "__consumer_offsets",
        ),
        form(
            "loading",
            rf"Scheduling loading of (?:metadata|offsets and group metadata) from {_LOG} (?:for|with) epoch (?P<epoch>\d+)",
            "Scheduling loading of ",
        ),
        form(
            "resigned",
            rf"Scheduling unloading of (?:metadata|offsets and group metadata) (?:for|from) {_LOG}(?: with epoch"
            r" (?:OptionalInt\[)?(?P<epoch>\d+))?",
            "Scheduling unloading of ",
        ),
        form(
            "leads",
            rf"Leader {_LOG} with topic id .* starts at leader epoch (?P<epoch>\d+) from offset (?P<offset>\d+)",
            "starts at leader epoch",
            "Leader ",
        ),
        form(
            "follows",
            rf"Follower {_LOG} starts at leader epoch (?P<epoch>\d+) from offset (?P<offset>\d+)",
            "starts at leader epoch",
            "Follower ",
        ),
        form(
            "ISR shrinks",
            rf"\[Partition {_LOG} broker=(?P<node>\d+)\] Shrinking ISR from (?P<detail>[\d,]+ to [\d,]*)\. Leader: \(highWatermark:"
            r" (?P<offset>\d+), endOffset: (?P<number>\d+)",
            "Shrinking ISR from ",
        ),
        form(
            "ISR grows",
            rf"\[Partition {_LOG} broker=(?P<node>\d+)\] Expanding ISR from (?P<detail>[\d,]* to [\d,]+)",
            "Expanding ISR from ",
        ),
        form(
            "ISR",
            rf"\[Partition {_LOG} broker=(?P<node>\d+)\] ISR updated to (?P<detail>[\d,]+ *(?:\(under-min-isr\))?).*?and version"
            rf" updated to"
            r" \[?(?P<epoch>\d+)",
            "ISR updated to ",
        ),
        form("refused", rf"Error processing append operation on partition {_LOG}", "Error processing append operation"),
        form(
            "refused",
            rf"Writing records to {_LOG} failed due to: (?P<detail>.*?)(?: \([\w.$]+\))?$",
            "Writing records to ",
            "failed due to",
        ),
        form(
            "broker fenced",
            r"Fencing broker (?P<number>\d+) (?:at epoch \d+ )?because its session has timed out",
            "Fencing broker ",
        ),
        form(
            "broker stops",
            r"\[BrokerLifecycleManager id=(?P<node>\d+)\] Beginning controlled shutdown",
            "Beginning controlled shutdown",
        ),
        form("broker starts", r"Kafka (?:Raft )?Server started", " Server started"),
        form("release", r"Kafka version: (?P<detail>\d+\.\d+\S*)", "Kafka version: "),
        form(
            "unclean",
            r"UNCLEAN partition change for (?P<topic>[A-Za-z0-9._-]+)-(?P<partition>\d+)(?: with topic ID \S+)?: (?P<detail>.*)$",
            "UNCLEAN partition change",
        ),
        form(
            "unclean",
            rf"The topic partition {_LOG} was marked as (?P<detail>RECOVERING)",  # KIP-704: after an unclean election alone
            "was marked as RECOVERING",
        ),
        form(
            "unclean",
            r"[Uu]nclean leader election.*?(?P<topic>[A-Za-z0-9._-]+)-(?P<partition>\d+)(?P<detail>.*)$",
            "nclean leader election",
        ),
        form(
            "transaction timeout",
            r"Completed rollback of ongoing transaction for transactionalId (?P<member>.+?) due to timeout",
            "Completed rollback of ongoing transaction",
        ),
        form(
            "handshake failed",
            rf"Failed authentication with {_PEER} \((?P<detail>SSL handshake failed.*?)\){_END}",
            "Failed authentication with",
            "SSL handshake failed",
        ),
        form(
            "authentication failed",
            rf"Failed authentication with {_PEER} \((?P<detail>.*?)\){_END}",
            "Failed authentication with",
        ),
        form("invalid receive", rf"Unexpected error from {_PEER}; closing connection", "Unexpected error from "),
    ]
)
