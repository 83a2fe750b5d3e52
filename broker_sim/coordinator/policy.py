"""Differences between Kafka's two group coordinators, as data: the Scala one (3.4-3.9) and the Java one (4.x).

Measured on 3.4.0, 3.9.1 and 4.1.0. The error tables map the error of an append to the offsets partition to the client's error
(GroupMetadataManager.scala: storeGroup and storeOffsets; CoordinatorOperationExceptionHelper.java).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kafka_wire.errors import Err

_GONE = {
    Err.UNKNOWN_TOPIC_OR_PARTITION: Err.COORDINATOR_NOT_AVAILABLE,
    Err.NOT_ENOUGH_REPLICAS: Err.COORDINATOR_NOT_AVAILABLE,
    Err.NOT_LEADER_OR_FOLLOWER: Err.NOT_COORDINATOR,
    Err.KAFKA_STORAGE_ERROR: Err.NOT_COORDINATOR,
}
_READ_DELETE_DESCRIBE = 1 << 3 | 1 << 6 | 1 << 8
_CONFIGS = 1 << 10 | 1 << 11  # DESCRIBE_CONFIGS and ALTER_CONFIGS, since groups have settings
_TOO_LARGE = (Err.MESSAGE_TOO_LARGE, Err.RECORD_LIST_TOO_LARGE, Err.INVALID_FETCH_SIZE)


@dataclass(frozen=True, slots=True)
class Policy:
    """One generation of the coordinator. A table maps an append's error to the client's; errors not in it pass unchanged."""

    name: str
    commit_errors: dict[Err, Err]
    """OffsetCommit, OffsetDelete and DeleteGroups (GroupMetadataManager.storeOffsets, CoordinatorOperationExceptionHelper)."""
    sync_errors: dict[Err, Err]
    """The leader's SyncGroup and a static member's rejoin, which store the group (GroupMetadataManager.storeGroup)."""
    commit_value_version: int
    """Version of the offset commit values written: GroupMetadataManager.offsetCommitValue writes 3, 4.1 writes 4, which has topic ids
    (KAFKA-19141). A commit with its own expiry has version 1 in both."""
    window_extends_for: str
    """The joiners that extend the initial rebalance delay: those of generation 0 ("first generation",
    GroupCoordinator.addMemberAndRebalance) or of any group that was empty ("was empty",
    GroupMetadataManager.addMemberThenRebalanceOrCompleteJoin)."""
    new_group_is_stored: bool
    """A JoinGroup that makes the group but changes nothing else appends an empty group record, so that the group survives a load
    (GroupMetadataManager.classicGroupJoinToClassicGroup; Scala creates it in memory alone)."""
    stable_sync_restarts_session: bool
    """A SyncGroup that a Stable group answers at once extends the session (GroupCoordinator.doSyncGroup;
    GroupMetadataManager.classicGroupSyncToClassicGroup does not)."""
    sync_while_loading: Err
    """The error of a SyncGroup while the partition loads: GroupCoordinator.handleSyncGroup has the member rejoin, as no generation is
    known yet."""
    absent_group_commit_v9: Err
    """OffsetCommit v9+ with a generation, for a group that doesn't exist; GROUP_ID_NOT_FOUND is an error of v9 (KIP-848), older clients
    get ILLEGAL_GENERATION (OffsetMetadataManager.validateOffsetCommit)."""
    late_append_is_published: bool
    """An append whose timeout was answered already is still published when the log commits it: CoordinatorRuntime has replayed its
    records. Else only at the next load: GroupMetadataManager.storeOffsets has failed the pending commit."""
    shares_batches: bool
    """Commits of several requests may share one record batch (group.coordinator.append.linger.ms, CoordinatorRuntime)."""
    assignment_shown_while_preparing: bool
    """DescribeGroups shows members' assignments during PreparingRebalance (GroupMetadata.summary: of a Stable group alone)."""
    leave_rebalances_once: bool
    """A LeaveGroup of several members (KIP-345) starts one rebalance after the last of them, not one at each
    (GroupMetadataManager.classicGroupLeaveToClassicGroup; GroupCoordinator.removeMemberAndUpdateGroup for each member)."""
    empty_group_tombstone_needs_generation: bool
    """Expiry writes a group's tombstone only if it has been through a generation: before, no record of it was written
    (GroupMetadataManager.cleanupGroupMetadata)."""
    states_filter_folds_case: bool
    """ListGroups compares state names without regard to case (GroupMetadataManager.listGroups; GroupCoordinator.handleListGroups since
    KAFKA-16095)."""
    states_filter_strips_blanks: bool
    """ListGroups ignores the blanks around a state's name (GroupMetadataManager.listGroups trims it)."""
    refused_commits_stay_pending: bool
    """A partition whose metadata is too long, in a commit with valid partitions, counts as having a pending commit until it is
    committed or deleted: OffsetFetch with require_stable refuses it all that time (KAFKA-16371, mended in 3.8)."""
    tombstones_are_awaited: bool
    """DeleteGroups and OffsetDelete answer when the log has committed, as all writes of CoordinatorRuntime do (else at once, whatever
    becomes of the append: GroupMetadataManager.cleanupGroupMetadata logs a failure)."""
    answers_partitions_once: bool
    """OffsetFetch is sorted into maps (KafkaApis.handleOffsetFetchRequest, GroupMetadataManager.getOffsets): a partition asked twice is
    answered once, a topic asked without partitions not at all."""
    commits_are_maps: bool
    """The same for OffsetCommit and OffsetDelete, which GroupCoordinator takes as maps by TopicPartition."""
    commit_map_keys: str
    """The class of the keys by whose hashes OffsetCommit and TxnOffsetCommit write the partitions of a request (`commit_order`): since
    3.5 they have a topic id, which is zero. "": in the order of the request."""
    small_commits_are_hashed: bool
    """OffsetCommit of up to four partitions writes them in hash order, too (GroupCoordinatorAdapter.commitOffsets, since 3.5)."""
    missing_are_maps: bool
    """The partitions of an OffsetCommit or OffsetDelete that do not exist are a map as well: KafkaApis keeps their errors in one until
    3.4. Since 3.5 it adds them to the response one by one."""
    clean_up_removes_group: bool
    """OffsetDelete and the deletion of a topic end an empty group that has lost its last offset
    (GroupMetadataManager.cleanupGroupMetadata, which both call; Java leaves it to the expiry,
    OffsetMetadataManager.cleanupExpiredOffsets)."""
    old_leave_returns_top_errors: bool
    """LeaveGroup v0-2 can return an error of the whole request. 3.4 returns UNSUPPORTED_VERSION: its LeaveGroupResponse takes the error
    of these versions from its only member, and an error of the whole has no member."""
    group_record_sequence: int
    """Base sequence of batches that contain anything but offset commits: GroupMetadataManager.storeGroup calls MemoryRecords.builder
    without one; CoordinatorRuntime's MemoryRecordsBuilder gets 0."""
    group_operations: int
    """Authorized operations of a group for all clients, as bits by AclOperation's codes; those of configs are added with the settings
    of groups (KAFKA-14510)."""
    revoking_step: int
    """By how much the epoch of a consumer group's member grows that has revoked partitions and must revoke more: 1 up to 4.1
    (CurrentAssignmentBuilder.build; that of streams groups adds 1 in all releases)."""
    dropped_regex_moves_group: bool
    """A member that gives up its regular expression increments the group epoch, and a classic member that takes its place has none
    (GroupMetadataManager.maybeUpdateRegularExpressions, classicGroupJoinToConsumerGroup since 4.2). Else its target stays until the
    epoch is next incremented, and the classic member keeps the expression."""
    members_join_again: bool
    """A member of a consumer, share or streams group may send epoch 0 again, as one that was fenced or has lost its response does
    (KAFKA-19233). Else it is fenced until it has left, or its session has expired."""
    revoked_partitions_are_free: bool
    """Partitions that a member of a consumer group reports as revoked may be assigned to it again by the same response (KAFKA-19449,
    CurrentAssignmentBuilder). Else by the next one."""
    unsubscribed_topics_are_revoked: bool
    """A heartbeat that changes the subscription of a member of a consumer group takes the partitions of other topics away at once, and
    a target assignment counts without topics that the member no longer subscribes to (CurrentAssignmentBuilder, measured with 4.2.1
    and 4.4). Else they stay until the next assignment, which 4.1 and before compute in the same heartbeat."""
    former_instance_ids_stay: bool
    """A member of a consumer group that joins again with another instance id still holds the former one, too, and if the member is
    removed, no member may have that id any more (ConsumerGroup.updateStaticMember, removeStaticMember; measured with 4.1.0, 4.2.1
    and 4.3.1)."""
    resubscribing_updates_epoch: bool
    """A member of a consumer group that subscribes to other topics, without a new epoch, has its epoch as the previous one, too, if it
    gives up a topic or names none at all (consumer.CurrentAssignmentBuilder.updateCurrentAssignment, since 4.3)."""
    other_assignor_moves_group: bool
    """A consumer group's epoch is incremented when another assignor than before has most votes (KAFKA-20434). Else the vote counts when
    the epoch is next incremented."""
    refused_join_completes: bool
    """Every JoinGroup, also a refused one, checks whether the join phase is complete (GroupCoordinator.handleJoinGroup:
    rebalancePurgatory.checkAndComplete). Else only one that adds a member does: after an id is refused for ``group.max.size``, which
    the phase no longer waits for, it still ends only at its timeout."""
    clean_up_counts_from_start: bool
    """Expired offsets are looked for every ``offsets.retention.check.interval.ms`` from the broker's start on
    (GroupMetadataManager.startup). Else each offsets partition has a timer of its own, which counts from its load
    (GroupCoordinatorService, GroupCoordinatorShard.scheduleGroupOffsetExpiration)."""
    load_error_disowns: bool
    """A log that can't be loaded leaves the partition without a coordinator (CoordinatorRuntime's state FAILED; else it is served as if
    it were empty: GroupMetadataManager.loadGroupsAndOffsets logs the error)."""
    group_tombstone_ends_offsets: bool
    """At load a group's tombstone removes the offsets before it as well: GroupMetadataManager.replay removes the group, and its offsets
    are not found without it. GroupMetadataManager.loadGroupsAndOffsets makes an empty group for them."""
    offset_read_makes_group: bool
    """At load a group exists from its first offset on, even if that was removed or its transaction aborted
    (OffsetMetadataManager.replay creates a simple group; loadGroupsAndOffsets does so for the offsets that remain)."""
    simple_group_exists_at_once: bool
    """A first commit without a generation makes the group before its append is committed (GroupCoordinator.handleCommitOffsets adds it
    to the cache; OffsetMetadataManager.replay creates it with the record)."""
    answers_wait_for_writes: bool
    """Every request that could write - Heartbeat, LeaveGroup, a deferred JoinGroup or SyncGroup, OffsetFetch with require_stable -
    ends when all that the partition was given before is committed, and fails after ``offsets.commit.timeout.ms``
    (CoordinatorRuntime.java)."""
    stable_fetch_errors: dict[Err, Err]
    """OffsetFetch with require_stable, if it waits for writes: its clients retry NOT_COORDINATOR, but older ones do not expect
    REQUEST_TIMED_OUT (GroupCoordinatorService.handleOffsetFetchException)."""
    appends_need_min_isr: bool
    """Appends to the offsets partition ask for acks=all (offsets.commit.required.acks): refused below min.insync.replicas. Else for
    acks=1 (CoordinatorPartitionWriter): they are appended, and wait for the high watermark."""
    nameless_protocol_is_null: bool
    """JoinGroup v7+ returns null for a protocol with an empty name (KafkaApis: a null name is what v7 added, KIP-559)."""
    votes_are_counted_in: str
    """The hash map whose order breaks ties of the protocol vote (GroupMetadata.selectProtocol, ClassicGroup.selectProtocol): of those
    with most votes its first one wins (``vote.ORDERS``)."""
    replaced_member_stays_new: bool
    """A static member that is replaced while it waits in its first JoinGroup remains a new member, and its session expires even while
    it waits: GroupMetadata.replaceStaticMember keeps MemberMetadata.isNew. Else the replacing member is an old one, whose session a
    deferred JoinGroup keeps alive (ClassicGroup.replaceStaticMember makes another ClassicGroupMember)."""
    deletion_begins_when_committed: bool
    """DeleteGroups does nothing before all that was written earlier is committed: GroupCoordinatorService.deleteGroups looks for share
    groups first, and that read waits (measured on 4.1.0)."""
    has_epoch_groups: bool
    """There are groups with member epochs (KIP-848), and their records are read."""
    first_epoch: int
    """The epoch of a new epoch-based group, which its first effective join increments. Since 4.3 an assignment may be computed later,
    so a member needs an epoch between 0 and that of the first assignment (KAFKA-20268)."""
    kept_partitions_commit_late: bool
    """A member's OffsetCommit with an older epoch is valid for the partitions that it has owned since: a commit may be sent before the
    response that brings the new epoch arrives (KIP-1251, ConsumerGroup.validateOffsetCommit)."""
    assignment_epochs_are_stored: bool
    """A member's record contains the epoch since which it owns each partition, which ``kept_partitions_commit_late`` compares
    (KIP-1251, ConsumerGroupCurrentMemberAssignmentValue.AssignmentEpochs)."""
    commits_by_name_store_topic_ids: bool
    """The record of a commit contains the topic's id even if the request has its name alone (OffsetCommitValue.TopicId, KAFKA-19141;
    measured on 4.4.0). Else only a commit by id stores it."""
    assignment_times_are_stored: bool
    """A group's target has the time of its computation, and is not computed again within the assignment interval (KIP-1263,
    KAFKA-20266)."""
    emptied_group_target_is_stored: bool
    """The target's epoch follows the group's at once when the last member of a consumer or share group leaves (KAFKA-20442)."""
    absent_group_commit_in_transaction: Err
    """TxnOffsetCommit with a generation, for a group that doesn't exist: GroupCoordinator.handleTxnCommitOffsets creates the group, in
    which the member is unknown; OffsetMetadataManager.validateTransactionalOffsetCommit finds no group."""
    tombstones_end_pending_txn_offsets: bool
    """The tombstone of an offset discards its pending offsets in open transactions: a deletion writes one also for an offset that is
    only pending, and expiry keeps such an offset (OffsetMetadataManager.replay, deleteAllOffsets). Else pending offsets are
    discarded without a record, and a load restores them (GroupMetadata.removeOffsets)."""
    revoked_partitions_are_described: bool
    """ConsumerGroupDescribe includes partitions that a member was asked to revoke and still owns (measured: 4.4.0 does, 4.1.0 does
    not)."""
    misdirected_join_names_member: bool
    """A JoinGroup for a group of another broker, or of one that is loaded, is answered with the member id of the request
    (GroupCoordinator.handleJoinGroup; GroupCoordinatorService.joinGroup sets the error alone)."""
    downgrade_rebalances: str
    """Condition for a rebalance at the beginning of the classic group that a consumer group becomes as a classic member takes the place
    of its last member of the consumer protocol: "never", as the member's target is computed first; "after another subscription"; or
    "on an older target" than the group's epoch (GroupMetadataManager.classicGroupJoinToConsumerGroup of 4.1, of 4.2, and since 4.3)."""
    classic_members_follow: str
    """The epoch that makes a classic member of a consumer group rejoin: the "group"'s, or the "target"'s, which may be computed later
    (GroupMetadataManager.throwIfRebalanceInProgress, classicGroupHeartbeatToConsumerGroup, since 4.3)."""
    has_share_records: bool
    """Share groups' records are read (KIP-932), whether there may be new ones or not."""
    has_streams_records: bool
    """Streams groups' records are read (KIP-1071)."""
    has_static_streams_members: bool
    """Members of streams groups may have an instance id (KAFKA-20169)."""
    has_task_offsets: bool
    """Members of streams groups report changelog offsets, which the assignor uses (KIP-1071: TaskOffsetIntervalMs of
    StreamsGroupHeartbeat is 0 before 4.4, which disables the reports)."""
    streams_roles_change_in_place: bool
    """A member of a streams group keeps a task that changes between active and standby (KAFKA-20665). Else it revokes it first."""
    emptied_streams_target_is_stored: bool
    """As ``emptied_group_target_is_stored``, of a streams group (KAFKA-20442; measured on 4.4.0)."""
    share_assignor: str
    """The assignor of share groups (``assignors.simple``): each release's own ``SimpleAssignor``, which 4.1 replaced
    (KAFKA-19362, KAFKA-19363)."""
    share_initialization_waits_for_target: bool
    """Partitions whose state was initialized increment a share group's epoch only if no target is to be computed; else each heartbeat
    would while the assignment interval delays that (KAFKA-20291)."""
    share_initialization_retry_ms: int | None
    """After so long the states of a share group's partitions are requested again if no result is recorded, though not before
    ``offsets.commit.timeout.ms``: ``group.share.initialize.retry.interval.ms``, since 4.2; None: after twice that timeout."""
    share_deletion_clears_state: bool
    """DeleteGroups writes a share group's record of its partitions once more, if there is one, even if none has a state
    (GroupMetadataManager.shareGroupBuildPartitionDeleteRequest, since 4.2)."""
    added_share_partitions_start_at_0: bool
    """A partition that a topic of a share group is given later begins with its first record, whatever share.auto.offset.reset says
    (GroupMetadataManager.maybeCreateInitializeShareGroupStateRequest, since 4.4)."""
    nameless_share_member_gets_text: bool
    """The error for a ShareGroupHeartbeat without a member id names the missing field (measured: 4.1.0 does, 4.4.0 sends no text)."""
    unreadable_subscription: Err
    """JoinGroup of a classic member into a consumer group, with metadata that is no subscription: before 4.4 an IllegalStateException
    (GroupMetadataManager.deserializeSubscription)."""
    disabled_migration_refuses_joins: bool
    """With group.consumer.migration.policy disabled no classic member joins a consumer group that has members (KAFKA-20640)."""
    share_offsets_may_be_altered: bool
    """AlterShareGroupOffsets alters offsets (measured: 4.1.0 alters none, and returns no topic that exists)."""
    missing_share_topics_come_first: bool
    """DescribeShareGroupOffsets returns missing topics before existing ones (measured: 4.1.0 does, 4.4.0 returns them last)."""

    share_members_may_join_again: bool
    """A share member may join again with epoch 0 whatever its epoch is (GroupMetadataManager.throwIfShareGroupMemberEpochIsInvalid,
    since 4.2). Else 0 has to be its previous epoch."""
    unread_share_topics_are_pending: bool
    """Initialized partitions of topics that no member reads any more count as not assigned: each heartbeat increments the group's
    epoch (GroupMetadataManager.initializedAssignmentPending, before 4.2)."""
    share_assignments_are_filtered: bool
    """A share member gets only topics of its target that it reads, at once when its subscription changes (ShareGroupAssignmentBuilder,
    since 4.2)."""
    unknown_topic_fails_share_fetch: bool
    """A ShareFetch whose response contains a partition of a missing topic gets UNKNOWN_SERVER_ERROR: the topic has no name for the
    broker's metrics (KafkaApis.processShareFetchResponse, before 4.4). Records are acquired and acknowledged all the same."""
    share_fetch_of_nothing_waits: bool
    """A ShareFetch of no records or no bytes waits as any other; of no bytes, readable partitions get UNKNOWN_SERVER_ERROR. Else it is
    answered at once (SharePartitionManager.processShareFetch, since 4.2)."""
    share_fetch_returns_messages: bool
    """ShareFetch returns the messages of refused acknowledgements, not only ShareAcknowledge (KafkaApis.handleShareFetchRequest, since
    4.2)."""


SCALA = Policy(
    name="scala",
    commit_errors={
        **_GONE,
        Err.NOT_ENOUGH_REPLICAS_AFTER_APPEND: Err.COORDINATOR_NOT_AVAILABLE,
        **dict.fromkeys(_TOO_LARGE, Err.INVALID_COMMIT_OFFSET_SIZE),
    },
    sync_errors={
        **_GONE,
        Err.NOT_ENOUGH_REPLICAS_AFTER_APPEND: Err.COORDINATOR_NOT_AVAILABLE,
        Err.REQUEST_TIMED_OUT: Err.REBALANCE_IN_PROGRESS,
        **dict.fromkeys(_TOO_LARGE, Err.UNKNOWN_SERVER_ERROR),
    },
    commit_value_version=3,
    window_extends_for="first generation",
    new_group_is_stored=False,
    stable_sync_restarts_session=True,
    sync_while_loading=Err.REBALANCE_IN_PROGRESS,
    absent_group_commit_v9=Err.ILLEGAL_GENERATION,
    late_append_is_published=False,
    shares_batches=False,
    assignment_shown_while_preparing=False,
    leave_rebalances_once=False,
    empty_group_tombstone_needs_generation=True,
    states_filter_folds_case=False,
    states_filter_strips_blanks=False,
    refused_commits_stay_pending=True,
    tombstones_are_awaited=False,
    answers_partitions_once=True,
    commits_are_maps=True,
    commit_map_keys="TopicPartition",
    small_commits_are_hashed=False,
    missing_are_maps=True,
    clean_up_removes_group=True,
    old_leave_returns_top_errors=False,
    group_record_sequence=-1,
    group_operations=_READ_DELETE_DESCRIBE,
    revoking_step=1,
    dropped_regex_moves_group=False,
    members_join_again=False,
    revoked_partitions_are_free=False,
    unsubscribed_topics_are_revoked=False,
    former_instance_ids_stay=False,
    other_assignor_moves_group=False,
    resubscribing_updates_epoch=False,
    refused_join_completes=True,
    clean_up_counts_from_start=True,
    load_error_disowns=False,
    group_tombstone_ends_offsets=False,
    offset_read_makes_group=False,
    simple_group_exists_at_once=True,
    answers_wait_for_writes=False,
    stable_fetch_errors={},
    appends_need_min_isr=True,
    nameless_protocol_is_null=False,
    votes_are_counted_in="Scala's immutable HashMap",
    replaced_member_stays_new=True,
    deletion_begins_when_committed=False,
    has_epoch_groups=False,
    first_epoch=0,
    kept_partitions_commit_late=False,
    assignment_epochs_are_stored=False,
    commits_by_name_store_topic_ids=False,
    assignment_times_are_stored=False,
    emptied_group_target_is_stored=False,
    absent_group_commit_in_transaction=Err.UNKNOWN_MEMBER_ID,
    tombstones_end_pending_txn_offsets=False,
    revoked_partitions_are_described=False,
    misdirected_join_names_member=True,
    downgrade_rebalances="never",
    classic_members_follow="group",
    has_share_records=False,
    has_streams_records=False,
    has_static_streams_members=False,
    has_task_offsets=False,
    streams_roles_change_in_place=False,
    emptied_streams_target_is_stored=False,
    share_assignor="simple",
    share_initialization_waits_for_target=False,
    share_initialization_retry_ms=None,
    share_deletion_clears_state=False,
    added_share_partitions_start_at_0=False,
    nameless_share_member_gets_text=True,
    unreadable_subscription=Err.UNKNOWN_SERVER_ERROR,
    disabled_migration_refuses_joins=False,
    share_offsets_may_be_altered=False,
    missing_share_topics_come_first=True,
    share_members_may_join_again=False,
    unread_share_topics_are_pending=True,
    share_assignments_are_filtered=False,
    unknown_topic_fails_share_fetch=True,
    share_fetch_of_nothing_waits=True,
    share_fetch_returns_messages=False,
)

_JAVA_ERRORS = {
    **_GONE,
    Err.REQUEST_TIMED_OUT: Err.COORDINATOR_NOT_AVAILABLE,
    **dict.fromkeys(_TOO_LARGE, Err.UNKNOWN_SERVER_ERROR),
}

_SCALA_3_5 = replace(SCALA, missing_are_maps=False, commit_map_keys="TopicIdPartition", small_commits_are_hashed=True)
_SCALA_3_7 = replace(_SCALA_3_5, nameless_protocol_is_null=True, old_leave_returns_top_errors=True)
_SCALA_3_8 = replace(_SCALA_3_7, states_filter_folds_case=True, refused_commits_stay_pending=False)
SCALA_SINCE = (((3, 8), _SCALA_3_8), ((3, 7), _SCALA_3_7), ((3, 5), _SCALA_3_5), ((3, 0), SCALA))
"""The Scala coordinator by the first release that has it so: requests come to it through the handlers of the Java one, which
took shape meanwhile."""


JAVA = Policy(
    name="java",
    commit_errors=_JAVA_ERRORS,
    sync_errors=_JAVA_ERRORS,
    commit_value_version=4,
    window_extends_for="was empty",
    new_group_is_stored=True,
    stable_sync_restarts_session=False,
    sync_while_loading=Err.COORDINATOR_LOAD_IN_PROGRESS,
    absent_group_commit_v9=Err.GROUP_ID_NOT_FOUND,
    late_append_is_published=True,
    shares_batches=True,
    assignment_shown_while_preparing=True,
    leave_rebalances_once=True,
    empty_group_tombstone_needs_generation=False,
    states_filter_folds_case=True,
    states_filter_strips_blanks=True,
    refused_commits_stay_pending=False,
    tombstones_are_awaited=True,
    answers_partitions_once=False,
    commits_are_maps=False,
    commit_map_keys="",
    small_commits_are_hashed=False,
    missing_are_maps=False,
    clean_up_removes_group=False,
    old_leave_returns_top_errors=True,
    group_record_sequence=0,
    group_operations=_READ_DELETE_DESCRIBE | _CONFIGS,
    revoking_step=1,
    dropped_regex_moves_group=False,
    members_join_again=False,
    revoked_partitions_are_free=False,
    unsubscribed_topics_are_revoked=False,
    former_instance_ids_stay=True,
    other_assignor_moves_group=False,
    resubscribing_updates_epoch=False,
    refused_join_completes=False,
    clean_up_counts_from_start=False,
    load_error_disowns=True,
    group_tombstone_ends_offsets=True,
    offset_read_makes_group=True,
    simple_group_exists_at_once=False,
    answers_wait_for_writes=True,
    stable_fetch_errors={**dict.fromkeys((*_GONE, Err.REQUEST_TIMED_OUT), Err.NOT_COORDINATOR)},
    appends_need_min_isr=False,
    nameless_protocol_is_null=True,
    votes_are_counted_in="java.util.HashMap",
    replaced_member_stays_new=False,
    deletion_begins_when_committed=True,
    has_epoch_groups=True,
    first_epoch=0,
    kept_partitions_commit_late=False,
    assignment_epochs_are_stored=False,
    commits_by_name_store_topic_ids=False,
    assignment_times_are_stored=False,
    emptied_group_target_is_stored=False,
    absent_group_commit_in_transaction=Err.ILLEGAL_GENERATION,
    tombstones_end_pending_txn_offsets=True,
    revoked_partitions_are_described=False,
    misdirected_join_names_member=False,
    downgrade_rebalances="never",
    classic_members_follow="group",
    has_share_records=True,
    has_streams_records=False,
    has_static_streams_members=False,
    has_task_offsets=False,
    emptied_streams_target_is_stored=False,
    streams_roles_change_in_place=False,
    share_assignor="simple until 4.1",
    share_initialization_waits_for_target=False,
    share_initialization_retry_ms=None,
    share_deletion_clears_state=False,
    added_share_partitions_start_at_0=False,
    nameless_share_member_gets_text=True,
    unreadable_subscription=Err.UNKNOWN_SERVER_ERROR,
    disabled_migration_refuses_joins=False,
    share_offsets_may_be_altered=False,
    missing_share_topics_come_first=True,
    share_members_may_join_again=False,
    unread_share_topics_are_pending=True,
    share_assignments_are_filtered=False,
    unknown_topic_fails_share_fetch=True,
    share_fetch_of_nothing_waits=True,
    share_fetch_returns_messages=False,
)

_JAVA_4_2 = replace(
    JAVA,
    revoking_step=0,
    downgrade_rebalances="after another subscription",
    dropped_regex_moves_group=True,
    members_join_again=True,
    revoked_partitions_are_free=True,
    unsubscribed_topics_are_revoked=True,
    has_streams_records=True,
    share_assignor="simple",
    share_initialization_retry_ms=30_000,
    nameless_share_member_gets_text=False,
    share_offsets_may_be_altered=True,
    missing_share_topics_come_first=False,
    share_members_may_join_again=True,
    unread_share_topics_are_pending=False,
    share_assignments_are_filtered=True,
    share_fetch_of_nothing_waits=False,
    share_fetch_returns_messages=True,
    share_deletion_clears_state=True,
)
_JAVA_4_3 = replace(
    _JAVA_4_2,
    first_epoch=1,
    downgrade_rebalances="on an older target",
    classic_members_follow="target",
    kept_partitions_commit_late=True,
    assignment_epochs_are_stored=True,
    commits_by_name_store_topic_ids=True,
    assignment_times_are_stored=True,
    emptied_group_target_is_stored=True,
    revoked_partitions_are_described=True,
    share_initialization_waits_for_target=True,
    resubscribing_updates_epoch=True,
)
_JAVA_4_4 = replace(
    _JAVA_4_3,
    former_instance_ids_stay=False,
    unreadable_subscription=Err.INCONSISTENT_GROUP_PROTOCOL,
    disabled_migration_refuses_joins=True,
    other_assignor_moves_group=True,
    has_static_streams_members=True,
    has_task_offsets=True,
    streams_roles_change_in_place=True,
    emptied_streams_target_is_stored=True,
    unknown_topic_fails_share_fetch=False,
    added_share_partitions_start_at_0=True,
)
_JAVA_4_0 = replace(JAVA, commit_value_version=3)
JAVA_SINCE = (
    ((4, 4), _JAVA_4_4),
    ((4, 3), _JAVA_4_3),
    ((4, 2), _JAVA_4_2),
    ((4, 1), JAVA),
    ((0, 0), _JAVA_4_0),
)
"""The Java coordinator by the first release that has it so (topic ids in commits with 4.1; KIP-1263 and what came with it in 4.3)."""


def policy_of(coordinator: str, release: tuple[int, int]) -> Policy:
    """The policy of a release whose coordinator is "scala" or "java"."""
    policies = JAVA_SINCE if coordinator == "java" else SCALA_SINCE
    return next(policy for since, policy in policies if release >= since)


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """The broker's ``group.consumer.*``; a group may have some of them of its own."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5000
    assignment_interval_ms: int = 0
    max_size: int = 2**31 - 1
    assignors: tuple[str, ...] = ("uniform", "range")
    regex_refresh_interval_ms: int | None = 600_000
    """Interval after which regular expressions are resolved again without another cause; None: never."""
    migration_policy: str = "bidirectional"


@dataclass(frozen=True, slots=True)
class ShareSettings:
    """The broker's ``group.share.*`` settings that the coordinator uses; a group may have some of its own."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5000
    assignment_interval_ms: int = 0
    max_size: int = 200


@dataclass(frozen=True, slots=True)
class StreamsSettings:
    """The broker's ``group.streams.*``; a group may have some of them of its own. ``rack_aware_tags``: the client tags that members
    should have."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5000
    assignment_interval_ms: int = 0
    initial_rebalance_delay_ms: int = 0
    standby_replicas: int = 0
    max_size: int = 2**31 - 1
    rack_aware_tags: tuple[str, ...] = ()
    task_offset_interval_ms: int = 60_000
    acceptable_recovery_lag: int = 10_000


@dataclass(frozen=True, slots=True)
class Settings:
    """The broker configs that the core uses; in ms if the name ends so."""

    policy: Policy = JAVA
    initial_rebalance_delay_ms: int = 3000
    min_session_timeout_ms: int = 6000
    max_session_timeout_ms: int = 1_800_000
    max_group_size: int = 2**31 - 1
    commit_timeout_ms: int = 5000
    offsets_retention_ms: int = 10080 * 60_000
    offsets_retention_check_interval_ms: int = 600_000
    started_ms: int | None = None
    """Time at which the broker started; None: the time of each load is used instead."""
    new_member_join_timeout_ms: int = 300_000
    open_transaction_timeout_ms: int = 60_000
    """Time for which transactions stay open that a loaded log left open: a producer's transaction.timeout.ms, not stored in the log."""
    consumer: ConsumerSettings = ConsumerSettings()
    share: ShareSettings = ShareSettings()
    streams: StreamsSettings = StreamsSettings()
    reads_later_records: bool = True
    """Whether flexible values are read and unknown records skipped at load (KIP-915, since 3.5)."""
