// Written by docs/generate.py from docs/openapi.json.

/** `40s`, `500ms`, `1m30s`, or a number of seconds. */
export type Duration = string | number

/** A broker of the cluster. */
export interface Broker {
  broker: number
  host: string
  port: number
  rack: string | null
  alive: boolean
  leads: number
}

/** The time that the brokers live in; next_timer has due_ms and, in words, what it is for. */
export interface Clock {
  mode: string
  rate: number
  now_ms: number
  next_timer: Record<string, any> | null
}

/**
 * A virtual cluster of this process; listeners: the bootstrap address of each by name; ca: the certificate authority
 * that its clients trust, in PEM.
 */
export interface Cluster {
  id: string
  bootstrap: string
  listeners: Record<string, string>
  brokers: number
  as_version: string
  security_protocol: string
  ca: string | null
  clock: string
  topics: string[]
}

/**
 * One delivery of a record; end: accepted, released, rejected, gap, expired, session closed, ...; empty while the
 * member has it.
 */
export interface Delivery {
  member: string
  ts_ms: number
  count: number
  end: string
  ended_ms: number | null
  becomes: string
  renewed: number
  letter: string
}

/** A request of a recorded order; members are called m1, m2, .. in the order in which they appear. */
export interface Entry {
  n: number
  api: string
  client_id: string | null
  group: string | null
  member: string | null
  topics: string[]
}

/**
 * A rule on requests: in words and as the parameters that make it, its hits, and the requests that it hangs or delays
 * now.
 */
export interface Fault {
  id: number
  text: string
  rule: Record<string, any>
  hits: number
  spent: boolean
  removed: boolean
  waiting: string[]
}

/**
 * A consumer group as its coordinator knows it; by partition, as in orders-0: committed offsets, lag (negative where
 * one is beyond the log's end) and how much of it is deleted from the log; unassigned: subscribed, but assigned to no
 * member.
 */
export interface Group {
  group: string
  state: string
  generation: number
  leader: string | null
  members: Member[]
  coordinator: number | null
  log: string | null
  offsets: Record<string, number>
  lag: Record<string, number>
  deleted: Record<string, number>
  unassigned: string[]
}

/** A transaction that is open in a partition and that no coordinator knows; last_ms: when its producer wrote last. */
export interface Hanging {
  log: string
  producer_id: number
  epoch: number
  first_offset: number
  last_ms: number
  last_stable_offset: number
  high_watermark: number
}

/** What is held back at the brokers: which requests, and those that wait, in the order in which they came. */
export interface Hold {
  id: number
  text: string
  ended: boolean
  waiting: string[]
}

/** Records first to last of a partition that a share group's member has; until_ms: when the lock ends. */
export interface Lock {
  log: string
  first: number
  last: number
  member_id: string
  deliveries: number
  until_ms: number
}

/** The present state of a log partition. */
export interface Log {
  log: string
  leader: number
  leader_epoch: number
  replicas: number[]
  isr: number[]
  log_start_offset: number
  high_watermark: number
  log_end_offset: number
  states: State[]
}

/** A member of a group; deferred: JoinGroup or SyncGroup if that request of it is deferred. */
export interface Member {
  member_id: string
  client_id: string
  client_host: string
  instance_id: string | null
  session_timeout_ms: number
  rebalance_timeout_ms: number
  deferred: string | null
  leader: boolean
  topics: string[] | null
  assignment: Record<string, number[]> | null
  worker: Record<string, any> | null
  tasks: Record<string, any> | null
}

/** RecordHeaders. */
export interface RecordHeaders {
  key: string
  value: string | null
}

/** A record of a topic; producer_id: -1 without an idempotent producer. */
export interface TopicRecord {
  partition: number
  offset: number
  timestamp_ms: number
  key: string | null
  value: string | null
  headers: RecordHeaders[]
  producer_id: number
  transactional: boolean
}

/**
 * How far a replay has come: the entries that have passed, the next one, the requests that wait; diverged: what came
 * in its place.
 */
export interface Replay {
  position: number
  expected: string | null
  waiting: string[]
  ended: boolean
  diverged: string | null
}

/**
 * A request that a broker received; topics: partitions that it names; answered: whether a response was sent, or can't
 * be any more; answer: the body of the response.
 */
export interface ReceivedRequest {
  request: number
  ts_ms: number
  api: string
  version: number
  broker: number
  client_id: string | null
  client_host: string
  group?: string
  member?: string
  transactional_id?: string
  topics?: string[]
  body: Record<string, any> | null
  answered: boolean
  error: string | null
  took_ms: number | null
  answer: Record<string, any> | null
}

/** ScenarioResults. */
export interface ScenarioResults {
  held: boolean
  text: string
  where: string
}

/**
 * A scenario file that runs on the cluster; verdict: held, broken, late (the condition of a step timed out), error (a
 * step can't be done), cancelled, null while it runs; done: the steps that are done; waiting: what it waits for.
 */
export interface Scenario {
  id: number
  name: string
  running: boolean
  verdict: string | null
  steps: string[]
  done: string[]
  waiting: string | null
  results: ScenarioResults[]
  error: string | null
  progress: string[]
}

/** ShareGroupPartitions. */
export interface ShareGroupPartitions {
  start_offset: number
  next_offset: number
  in_flight: number
  locked: number
  backlog: number
  loaded: boolean
}

/** A share group as the leaders of its partitions know it; start_offset -1: it has read nothing there. */
export interface ShareGroup {
  group: string
  state: string
  epoch: number
  partitions: Record<string, ShareGroupPartitions>
  locks: Lock[]
}

/** A lasting state of a log partition. */
export interface State {
  id: number
  log: string
  state: string
  args: Record<string, any>
  active: boolean
}

/** A topic. */
export interface Topic {
  topic: string
  partitions: number
  replication_factor: number
  records: number
  internal: boolean
}

/**
 * A transactional id as its coordinator knows it; partitions: those of its transaction that have no marker yet, as in
 * orders-0.
 */
export interface Transaction {
  transactional_id: string
  state: string
  producer_id: number
  epoch: number
  partitions: string[]
  timeout_ms: number | null
  coordinator: number | null
  log: string | null
}

/** BrokerListAnswer. */
export interface BrokerListAnswer {
  brokers: Broker[]
}

/** BrokerRestartAllAnswer. */
export interface BrokerRestartAllAnswer {
  brokers: Broker[]
}

/** ClockAdvanceAnswer. */
export interface ClockAdvanceAnswer {
  now_ms: number
  fired: string[]
}

/** ClusterListAnswer. */
export interface ClusterListAnswer {
  clusters: Cluster[]
}

/** ClusterDeleteAnswer. */
export interface ClusterDeleteAnswer {
  deleted: string
}

/** GroupListAnswer. */
export interface GroupListAnswer {
  groups: Group[]
}

/** GroupExplainAnswer. */
export interface GroupExplainAnswer {
  group: string
  text: string
}

/** GroupTimelineAnswer. */
export interface GroupTimelineAnswer {
  group: string
  text?: string
  svg?: string
  html?: string
}

/** GroupCommitAnswer. */
export interface GroupCommitAnswer {
  group: string
  seq: number
  offsets: Record<string, number | null>
}

/** GroupProbeAnswer. */
export interface GroupProbeAnswer {
  ok: boolean
  error: string
  log: string
}

/** ShareExpireAnswer. */
export interface ShareExpireAnswer {
  group: string
  ended: Lock[]
}

/** ShareDeliveriesAnswer. */
export interface ShareDeliveriesAnswer {
  group: string
  log: string
  offset: number
  deliveries: Delivery[]
}

/** TransactionListAnswer. */
export interface TransactionListAnswer {
  transactions: Transaction[]
}

/** TransactionExplainAnswer. */
export interface TransactionExplainAnswer {
  transactional_id: string
  text: string
}

/** TransactionHangingAnswer. */
export interface TransactionHangingAnswer {
  hanging: Hanging[]
}

/** TransactionAbortHangingAnswer. */
export interface TransactionAbortHangingAnswer {
  log: string
  last_stable_offset: number
  high_watermark: number
}

/** JournalRecentAnswer. */
export interface JournalRecentAnswer {
  text: string
}

/** StateListAnswer. */
export interface StateListAnswer {
  states: State[]
}

/** LogWaitAnswer. */
export interface LogWaitAnswer {
  log: string
  pending: Record<string, any>[]
}

/** LeaderPreferAnswer. */
export interface LeaderPreferAnswer {
  changed: number
}

/** RequestListAnswer. */
export interface RequestListAnswer {
  requests: ReceivedRequest[]
  received: number
}

/** RequestWaitAnswer. */
export interface RequestWaitAnswer {
  requests: ReceivedRequest[]
  received: number
}

/** FaultAddAnswer. */
export interface FaultAddAnswer {
  id: number
  text: string
  rule: Record<string, any>
  hits: number
  spent: boolean
  removed: boolean
  waiting: string[]
  note?: string
}

/** FaultListAnswer. */
export interface FaultListAnswer {
  faults: Fault[]
}

/** FaultClearAnswer. */
export interface FaultClearAnswer {
  removed: Fault[]
}

/** OrderHoldAnswer. */
export interface OrderHoldAnswer {
  id: number
  text: string
  ended: boolean
  waiting: string[]
  note?: string
}

/** OrderListAnswer. */
export interface OrderListAnswer {
  holds: Hold[]
}

/** OrderStepAnswer. */
export interface OrderStepAnswer {
  id: number
  text: string
  ended: boolean
  waiting: string[]
  stepped: string
}

/** OrderRecordAnswer. */
export interface OrderRecordAnswer {
  entries: Entry[]
}

/** OrderRecordedAnswer. */
export interface OrderRecordedAnswer {
  entries: Entry[]
}

/** OrderStopAnswer. */
export interface OrderStopAnswer {
  entries: Entry[]
}

/** TopicListAnswer. */
export interface TopicListAnswer {
  topics: Topic[]
}

/** TopicDeleteAnswer. */
export interface TopicDeleteAnswer {
  deleted: string
}

/** TopicRecordsAnswer. */
export interface TopicRecordsAnswer {
  records: TopicRecord[]
  more: boolean
}

/** ScenarioListAnswer. */
export interface ScenarioListAnswer {
  scenarios: Scenario[]
}

export interface BrokerDownParams {
  /** Controlled shutdown: leaders move away first (default: only for a restart). */
  graceful?: boolean
  /** How long Metadata still lists the broker; Kafka: about 9 s (default: 0). */
  noticed_after?: Duration
}

export interface BrokerUpParams {
  /** Preferred: elect the first replica of every partition afterwards. */
  elect?: 'preferred'
}

export interface BrokerRestartParams {
  /** Controlled shutdown: leaders move away first (default: only for a restart). */
  graceful?: boolean
}

export interface BrokerRestartAllParams {
  /** Send pending responses before the connections are closed. */
  graceful?: boolean
}

export interface ClockAdvanceParams {
  /** Members that send no heartbeats meanwhile, by member id, instance id or client id. */
  expire?: string | string[]
  /** Real time for the others to rejoin before a rebalance timeout passes (default: 10s). */
  wait?: Duration
}

export interface ClusterCreateParams {
  /** Id of the cluster (default: generated); letters, digits, dots, dashes. */
  id?: string
  /** Number of brokers. */
  brokers?: number
  /** Topic name: partitions (-1: num.partitions), or a map with partitions and settings. */
  topics?: Record<string, any>
  /** The Kafka release to behave as. */
  as_version?: string
  /** Settings by Kafka's names. */
  config?: Record<string, any>
  /** What clients must do. */
  security_protocol?: 'PLAINTEXT' | 'SSL' | 'SASL_PLAINTEXT' | 'SASL_SSL'
  /** Passwords by user name, for SASL. */
  users?: Record<string, string>
  /** When __consumer_offsets and the other internal topics are created. */
  internal_topics?: 'on-demand' | 'at-start'
  /** Real, scaled:N or manual. */
  clock?: string
  /** Seed of the random numbers. */
  seed?: string
  /** An included scenario whose cluster and topics it has; with scenario_file: the file's name. */
  scenario?: string
  /** The text of a scenario file, whose cluster and topics it has. */
  scenario_file?: string
  /** Name of its directory within the data directory (default: in memory). */
  data?: string
}

export interface GroupGetParams {
  /** Wait for this state. */
  wait?: 'Empty' | 'PreparingRebalance' | 'CompletingRebalance' | 'Stable' | 'Dead' | 'Assigning' | 'Reconciling'
  /** Number of members. */
  members?: number
  /** This generation or a later one. */
  generation?: number
  /** Committed offsets, these or later ones: orders-0=5,orders-1=7. */
  committed?: Record<string, number>
  /** Upper bound of the total lag (exclusive); also requires records, an owner for every partition, no negative lag. */
  lag_below?: number
  /** Every assigned partition was fetched by its owner, so that records produced now are delivered. */
  reading?: boolean
  /** Timeout, in real time. */
  timeout?: Duration
}

export interface GroupWaitParams {
  /** The group's state. */
  state?: 'Empty' | 'PreparingRebalance' | 'CompletingRebalance' | 'Stable' | 'Dead' | 'Assigning' | 'Reconciling'
  /** Number of members. */
  members?: number
  /** This generation or a later one. */
  generation?: number
  /** Committed offsets, these or later ones: orders-0=5,orders-1=7. */
  committed?: Record<string, number>
  /** Upper bound of the total lag (exclusive); also requires records, an owner for every partition, no negative lag. */
  lag_below?: number
  /** Every assigned partition was fetched by its owner, so that records produced now are delivered. */
  reading?: boolean
  /** No member has that member id, instance id or client id. */
  member_gone?: string
  /** Timeout, in real time. */
  timeout?: Duration
}

export interface GroupExplainParams {
  /** Only this generation. */
  generation?: number
}

export interface GroupTimelineParams {
  /** Text, or a picture. */
  form?: 'text' | 'svg' | 'html'
  /** Width of the text, in characters. */
  width?: number
}

export interface GroupTimelineSvgParams {
  /** Text, or a picture. */
  form?: 'text' | 'svg' | 'html'
  /** Width of the text, in characters. */
  width?: number
}

export interface GroupTimelineHtmlParams {
  /** Text, or a picture. */
  form?: 'text' | 'svg' | 'html'
  /** Width of the text, in characters. */
  width?: number
}

export interface GroupCommitParams {
  /** Accept a commit after this journal sequence number (default: the next commit). */
  since?: number
  /** Timeout, in real time. */
  timeout?: Duration
}

export interface GroupProbeParams {
  /** Allow a group or transactional id that does not exist yet. */
  ahead?: boolean
  /** Timeout, in real time. */
  timeout?: Duration
}

export interface GroupRemoveMemberParams {
  /** Timeout, in real time. */
  timeout?: Duration
}

export interface ShareExpireParams {
  /** The topic. */
  topic?: string
  /** The partition, from 0. */
  partition?: number
  /** Its member id or client id. */
  member?: string
}

export interface ShareWaitLockedParams {
  /** Its member id or client id. */
  member?: string
  /** Timeout, in real time. */
  timeout?: Duration
}

export interface ShareWaitUnlockedParams {
  /** Timeout, in real time. */
  timeout?: Duration
}

export interface ShareWaitDeliveredParams {
  /** Number of times. */
  times?: number
  /** Timeout, in real time. */
  timeout?: Duration
}

export interface TransactionWaitParams {
  /** Its state. */
  state?: 'Empty' | 'Ongoing' | 'PrepareCommit' | 'PrepareAbort' | 'CompleteCommit' | 'CompleteAbort' | 'Dead'
  /** This producer epoch or a later one. */
  epoch?: number
  /** Timeout, in real time. */
  timeout?: Duration
}

export interface TransactionAbortParams {
  /** Timeout, in real time. */
  timeout?: Duration
}

export interface TransactionAbortHangingParams {
  /** Timeout, in real time. */
  timeout?: Duration
}

export interface JournalReadParams {
  /** Only events after this sequence number. */
  since?: number
  /** Maximum number of events; the latest are returned. */
  limit?: number
  /** Only this kind of event. */
  event?: 'connection' | 'request' | 'response' | 'fault_added' | 'fault' | 'fault_removed' | 'group' | 'epochs' | 'timer' | 'append' | 'committed' | 'offsets' | 'offsets_deleted' | 'pending_offsets' | 'transaction' | 'marker' | 'last_stable_offset' | 'share_partition' | 'delivery' | 'topic' | 'state' | 'leader' | 'data_loss' | 'broker' | 'cluster' | 'load' | 'clock' | 'order' | 'client' | 'mark'
  /** Only events of requests of this API; * matches anything. */
  api?: string
  /** Only events of this group; * matches anything. */
  group?: string
  /** Only events of this request. */
  request?: number
}

export interface JournalNextParams {
  /** This kind of event (default: response). */
  event?: 'connection' | 'request' | 'response' | 'fault_added' | 'fault' | 'fault_removed' | 'group' | 'epochs' | 'timer' | 'append' | 'committed' | 'offsets' | 'offsets_deleted' | 'pending_offsets' | 'transaction' | 'marker' | 'last_stable_offset' | 'share_partition' | 'delivery' | 'topic' | 'state' | 'leader' | 'data_loss' | 'broker' | 'cluster' | 'load' | 'clock' | 'order' | 'client' | 'mark'
  /** A request of this API, or its response. */
  api?: string
  /** It is about this group. */
  group?: string
  /** The response has this error; NONE: success. */
  error?: string
  /** Only events after this sequence number (default: all). */
  since?: number
  /** Timeout, in real time. */
  timeout?: Duration
}

export interface StateSetParams {
  /** Clear the state after this time on the broker's clock. */
  for?: Duration
  /** Slow: delay of each append until it is committed. */
  latency?: Duration
  /** Slow: maximum random additional delay. */
  jitter?: Duration
  /** Stuck: when the non-fetching followers leave the ISR. */
  isr_shrinks_after?: Duration
  /** Full: remaining space in bytes. */
  free_bytes?: number
  /** Clear a state that excludes this one. */
  replace?: boolean
  /** Allow a group or transactional id that does not exist yet. */
  ahead?: boolean
}

export interface StateHealParams {
  /** Only this state (default: all states of the log). */
  state?: 'stuck' | 'under_min_isr' | 'slow' | 'storage_error' | 'full' | 'readonly' | 'too_large' | 'not_leader' | 'fenced' | 'no_leader' | 'loading' | 'online'
  /** Only the state with this id; no error if it has already ended. */
  id?: number
  /** Allow a group or transactional id that does not exist yet. */
  ahead?: boolean
}

export interface LogGetParams {
  /** Allow a group or transactional id that does not exist yet. */
  ahead?: boolean
}

export interface LogFillParams {
  /** Size of each value in bytes (default: a short text). */
  value_bytes?: number
}

export interface LogWaitParams {
  /** Number of pending requests. */
  pending?: number
  /** Allow a group or transactional id that does not exist yet. */
  ahead?: boolean
  /** Timeout, in real time. */
  timeout?: Duration
}

export interface LogLoseTailParams {
  /** How many records. */
  records?: number
  /** Instead of records: the new end or start offset of the log. */
  to?: number
  /** Node id of the new leader (default: another replica that is up). */
  leader?: number
  /** Allow a group or transactional id that does not exist yet. */
  ahead?: boolean
}

export interface LogLoseHeadParams {
  /** How many records. */
  records?: number
  /** Instead of records: the new end or start offset of the log. */
  to?: number
  /** Node id of the new leader (default: another replica that is up). */
  leader?: number
  /** Allow a group or transactional id that does not exist yet. */
  ahead?: boolean
}

export interface LeaderMoveParams {
  /** Node id of the new leader (default: the next broker that is up). */
  broker?: number
  /** Allow a group or transactional id that does not exist yet. */
  ahead?: boolean
}

export interface LeaderElectParams {
  /** An in-sync replica (default: the current leader). */
  broker?: number
  /** Allow a group or transactional id that does not exist yet. */
  ahead?: boolean
}

export interface RequestListParams {
  /** API name, for example OffsetCommit, or a list; * matches anything (default: all). */
  api?: string | string[]
  /** API versions: 8 or 2-4. */
  version?: string
  /** Client id; * matches anything. */
  client_id?: string
  /** Group id in the request; * matches anything. */
  group?: string
  /** Member id or instance id in the request; * matches anything. */
  member?: string
  /** Transactional id in the request; * matches anything. */
  transactional_id?: string
  /** Topic in the request; * matches anything. */
  topic?: string
  /** A partition of that topic. */
  partition?: number
  /** Only at the broker with this node id. */
  broker?: number
  /** At most so many, the latest. */
  limit?: number
}

export interface RequestWaitParams {
  /** Number of requests. */
  count?: number
  /** API name, for example OffsetCommit, or a list; * matches anything (default: all). */
  api?: string | string[]
  /** API versions: 8 or 2-4. */
  version?: string
  /** Client id; * matches anything. */
  client_id?: string
  /** Group id in the request; * matches anything. */
  group?: string
  /** Member id or instance id in the request; * matches anything. */
  member?: string
  /** Transactional id in the request; * matches anything. */
  transactional_id?: string
  /** Topic in the request; * matches anything. */
  topic?: string
  /** A partition of that topic. */
  partition?: number
  /** Only at the broker with this node id. */
  broker?: number
  /** Only requests with a response. */
  answered?: boolean
  /** At most so many, the latest. */
  limit?: number
  /** Timeout, in real time. */
  timeout?: Duration
}

export interface FaultAddParams {
  /** API name, for example OffsetCommit, or a list; * matches anything (default: all). */
  api?: string | string[]
  /** API versions: 8 or 2-4. */
  version?: string
  /** Client id; * matches anything. */
  client_id?: string
  /** Group id in the request; * matches anything. */
  group?: string
  /** Member id or instance id in the request; * matches anything. */
  member?: string
  /** Transactional id in the request; * matches anything. */
  transactional_id?: string
  /** Topic in the request; * matches anything. */
  topic?: string
  /** A partition of that topic. */
  partition?: number
  /** Only at the broker with this node id. */
  broker?: number
  /** Only the n-th match, from 1. */
  nth?: number
  /** Maximum number of matches (default: unlimited). */
  times?: number
  /** Probability of a match, from the cluster's seed. */
  probability?: number
  /** Start this long after the rule was added. */
  after?: Duration
  /** End this long after it began (default: with its removal). */
  during?: Duration
  /** Respond with this error; the request is not applied. */
  error?: string
  /** Apply the request, then respond with this error. */
  error_after?: string
  /** Handle the request after this delay. */
  delay?: Duration
  /** Handle the request, respond after this delay. */
  reply_delay?: Duration
  /** Never handle or answer the request. */
  hang?: boolean
  /** Reset the connection; the request is not applied. */
  drop?: boolean
  /** Apply the request, then reset the connection. */
  drop_after?: boolean
  /** Send this many bytes of the response, then close the connection. */
  truncate?: number
  /** Send the response in two parts, the first with this many bytes. */
  split?: number
  /** Throttle_time_ms of the response; the connection is muted for that time. */
  throttle_ms?: number
  /** Split: delay between the two parts. */
  gap?: Duration
  /** Removing the rule before it matched is an error (default: true, except with a probability). */
  must_hit?: boolean
}

export interface FaultGetParams {
  /** Wait until it has matched this often. */
  wait_hits?: number
  /** Timeout, in real time. */
  timeout?: Duration
}

export interface FaultRemoveParams {
  /** False: no error if it never matched (default: as added). */
  must_hit?: boolean
}

export interface FaultWaitParams {
  /** How many. */
  hits?: number
  /** Timeout, in real time. */
  timeout?: Duration
}

export interface OrderHoldParams {
  /** API name, for example OffsetCommit, or a list; * matches anything (default: all). */
  api?: string | string[]
  /** API versions: 8 or 2-4. */
  version?: string
  /** Client id; * matches anything. */
  client_id?: string
  /** Group id in the request; * matches anything. */
  group?: string
  /** Member id or instance id in the request; * matches anything. */
  member?: string
  /** Transactional id in the request; * matches anything. */
  transactional_id?: string
  /** Topic in the request; * matches anything. */
  topic?: string
  /** A partition of that topic. */
  partition?: number
  /** Only at the broker with this node id. */
  broker?: number
}

export interface OrderWaitParams {
  /** Wait until this many requests are held (0: don't wait). */
  waiting?: number
  /** Timeout, in real time. */
  timeout?: Duration
}

export interface OrderReleaseParams {
  /** Number of requests, oldest first (default: all). */
  count?: number
}

export interface OrderStepParams {
  /** Timeout, in real time. */
  timeout?: Duration
}

export interface OrderReplayParams {
  /** APIs that are not held back (default: ApiVersions, Fetch, Heartbeat, Metadata). */
  free?: string | string[]
  /** How long to wait for the next request while others are held, in real time. */
  deadline?: Duration
}

export interface OrderReplayedParams {
  /** Wait until the whole recording was replayed. */
  done?: boolean
  /** Timeout, in real time. */
  timeout?: Duration
}

export interface TopicCreateParams {
  /** Number of partitions (default: num.partitions). */
  partitions?: number
  /** Number of replicas (default: default.replication.factor). */
  replication_factor?: number
  /** Topic settings by Kafka's names. */
  configs?: Record<string, any>
}

export interface TopicFillParams {
  /** Size of each value in bytes (default: a short text). */
  value_bytes?: number
}

export interface TopicRecordsParams {
  /** Of this partition alone. */
  partition?: number
  /** From this offset on (default: from the first record on). */
  offset?: number
  /** At most so many records. */
  limit?: number
  /** A consumer's isolation.level: with or without records of open and aborted transactions. */
  isolation?: 'read_committed' | 'read_uncommitted'
  /** Of keys and values; in a text, bytes that are no UTF-8 are \xNN. */
  encoding?: 'text' | 'base64'
}

export interface TopicWaitParams {
  /** A consumer's isolation.level: with or without records of open and aborted transactions. */
  isolation?: 'read_committed' | 'read_uncommitted'
  /** Timeout, in real time. */
  timeout?: Duration
}

export interface ScenarioStartParams {
  /** Name of an included scenario; with file: name of the file in messages. */
  name?: string
  /** The text of a scenario file. */
  file?: string
  /** Start the file's clients, too, in place of waiting for those of the test. */
  start_clients?: boolean
  /** Run it although the cluster's release or settings are not those of the file. */
  any_settings?: boolean
}

export interface ScenarioEndParams {
  /** False: no error if its expectations failed (default: an error, once). */
  must_hold?: boolean
}

export interface ScenarioWaitParams {
  /** Wait until this step is done (default: until the scenario has ended). */
  step?: string
  /** Timeout, in real time. */
  timeout?: Duration
}

/** Every operation of the control server on a cluster. */
export declare class Operations {
  /** List all brokers: address, rack, whether they are alive, number of led partitions. */
  brokerList(): Promise<BrokerListAnswer>
  /** Show a broker: address, rack, whether it is alive, number of led partitions. */
  brokerGet(broker: number): Promise<Broker>
  /** Stop a broker: connections are reset, other replicas become leaders; it keeps its port. */
  brokerDown(broker: number, params?: BrokerDownParams): Promise<Broker>
  /** Start a stopped broker on the same port. */
  brokerUp(broker: number, params?: BrokerUpParams): Promise<Broker>
  /** Restart a broker; its coordinators load from their logs. */
  brokerRestart(broker: number, params?: BrokerRestartParams): Promise<Broker>
  /** Advertise another address of a broker, as Kafka's advertised.listeners, from the next response on. */
  brokerAdvertise(broker: number, listener: string): Promise<Broker>
  /** Restart all brokers at the same time; every coordinator loads from its log. */
  brokerRestartAll(params?: BrokerRestartAllParams): Promise<BrokerRestartAllAnswer>
  /** Show the brokers' clock: mode, rate, time, next timer. */
  clockGet(): Promise<Clock>
  /** Advance a manual clock: each timer fires at its deadline; connected members not named in expire stay alive. */
  clockAdvance(by: Duration, params?: ClockAdvanceParams): Promise<ClockAdvanceAnswer>
  /** List the virtual clusters of the process. */
  clusterList(): Promise<ClusterListAnswer>
  /** Start a virtual cluster on its own ports; of a scenario, parameters that are not their defaults replace the file's. */
  clusterCreate(params?: ClusterCreateParams): Promise<Cluster>
  /** Show a virtual cluster: bootstrap address, release, clock, topics. */
  clusterGet(cluster: string): Promise<Cluster>
  /** Stop a virtual cluster; the cluster that the process was started for can't be stopped. */
  clusterDelete(cluster: string): Promise<ClusterDeleteAnswer>
  /** List all groups with their states and members. */
  groupList(): Promise<GroupListAnswer>
  /** Show a group: state, generation, members with assignments, offsets, lag; with a condition, once it holds. */
  groupGet(group: string, params?: GroupGetParams): Promise<Group>
  /** Wait until all conditions hold for a group at the same time; the group may not exist yet. */
  groupWait(group: string, params?: GroupWaitParams): Promise<Group>
  /** Explain in words why a group rebalanced, who delayed it, for how long, and how it ended. */
  groupExplain(group: string, params?: GroupExplainParams): Promise<GroupExplainAnswer>
  /** Draw a group's history: members as lanes, generations as bands, faults as marks. */
  groupTimeline(group: string, params?: GroupTimelineParams): Promise<GroupTimelineAnswer>
  /** Draw a group's history: members as lanes, generations as bands, faults as marks. */
  groupTimelineSvg(group: string, params?: GroupTimelineSvgParams): Promise<string>
  /** Draw a group's history: members as lanes, generations as bands, faults as marks. */
  groupTimelineHtml(group: string, params?: GroupTimelineHtmlParams): Promise<string>
  /** Wait for the next successful commit of a group; returns its offsets. */
  groupCommit(group: string, params?: GroupCommitParams): Promise<GroupCommitAnswer>
  /** Check whether the group's coordinator accepts commits now, without affecting the group. */
  groupProbe(group: string, params?: GroupProbeParams): Promise<GroupProbeAnswer>
  /** Remove a member from its group with LeaveGroup, as an admin client does. */
  groupRemoveMember(group: string, member: string, params?: GroupRemoveMemberParams): Promise<Group>
  /** Show a share group: position in each partition, records left, and acquired records with their members. */
  shareGet(group: string): Promise<ShareGroup>
  /** Expire acquisition locks of a share group now: all, or those of a topic, a partition or a member. */
  shareExpire(group: string, params?: ShareExpireParams): Promise<ShareExpireAnswer>
  /** Wait until a member of a share group has acquired a record; the group may not exist yet. */
  shareWaitLocked(group: string, topic: string, partition: number, offset: number, params?: ShareWaitLockedParams): Promise<ShareGroup>
  /** Wait until no member of a share group has an acquired record. */
  shareWaitUnlocked(group: string, params?: ShareWaitUnlockedParams): Promise<ShareGroup>
  /** Wait until a record was delivered this often to a share group; the group may not exist yet. */
  shareWaitDelivered(group: string, topic: string, partition: number, offset: number, params?: ShareWaitDeliveredParams): Promise<ShareGroup>
  /** List the recorded deliveries of a record: to which member, and how each ended. */
  shareDeliveries(group: string, topic: string, partition: number, offset: number): Promise<ShareDeliveriesAnswer>
  /** List all transactional ids with their states, producer ids and epochs. */
  transactionList(): Promise<TransactionListAnswer>
  /** Show a transactional id: state, producer id, epoch, and the partitions that have no marker yet. */
  transactionGet(transactionalId: string): Promise<Transaction>
  /** Wait until all conditions hold for a transactional id at the same time; it may not exist yet. */
  transactionWait(transactionalId: string, params?: TransactionWaitParams): Promise<Transaction>
  /** Explain in words how the transactions of an id ended, by whom, how long each took, and what it delayed. */
  transactionExplain(transactionalId: string): Promise<TransactionExplainAnswer>
  /** Fence the producer of a transactional id, and abort its transaction, as Admin.fenceProducers does. */
  transactionAbort(transactionalId: string, params?: TransactionAbortParams): Promise<Transaction>
  /** List hanging transactions of a partition: open, and unknown to the transaction coordinator. */
  transactionHanging(): Promise<TransactionHangingAnswer>
  /** Write an abort marker for a producer's open transaction in a partition, as kafka-transactions abort does. */
  transactionAbortHanging(log: string, producerId: number, params?: TransactionAbortHangingParams): Promise<TransactionAbortHangingAnswer>
  /** List events, oldest first; over HTTP one JSON object per line. */
  journalRead(params?: JournalReadParams): Promise<Record<string, any>[]>
  /** Wait for the first matching event and return it; the event of an answered request contains the response. */
  journalNext(params?: JournalNextParams): Promise<Record<string, any>>
  /** Describe the recent history of every group, refused clients and unanswered requests: for a failed test's report. */
  journalRecent(): Promise<JournalRecentAnswer>
  /** Write a note into the journal; timelines show it. */
  journalMark(text: string): Promise<Record<string, any>>
  /** Set a fault state of a log partition; its leader and its group coordinator behave accordingly until it is cleared. */
  stateSet(log: string, state: 'stuck' | 'under_min_isr' | 'slow' | 'storage_error' | 'full' | 'readonly' | 'too_large' | 'not_leader' | 'fenced' | 'no_leader' | 'loading' | 'online', params?: StateSetParams): Promise<Log>
  /** Clear the fault states of a log partition; pending requests continue. */
  stateHeal(log: string, params?: StateHealParams): Promise<Log>
  /** List the active fault states of all log partitions. */
  stateList(): Promise<StateListAnswer>
  /** Show a log partition: leader, replicas, offsets, fault states. */
  logGet(log: string, params?: LogGetParams): Promise<Log>
  /** Append records to a partition, as a producer does. */
  logFill(log: string, records: number, params?: LogFillParams): Promise<Log>
  /** Wait until this many requests have an append in a log that is not committed yet. */
  logWait(log: string, params?: LogWaitParams): Promise<LogWaitAnswer>
  /** Delete committed records at the end of a log, as an unclean leader election or a restored disk does. */
  logLoseTail(log: string, params?: LogLoseTailParams): Promise<Log>
  /** Delete the first records of a log, as a leader whose log starts later does. */
  logLoseHead(log: string, params?: LogLoseHeadParams): Promise<Log>
  /** Move the leader of a log partition; for an offsets partition this moves the coordinator of its groups. */
  leaderMove(log: string, params?: LeaderMoveParams): Promise<Log>
  /** Increment the leader epoch; requests with the old one get FENCED_LEADER_EPOCH. */
  leaderElect(log: string, params?: LeaderElectParams): Promise<Log>
  /** Elect the preferred leader of every partition whose first replica is alive and in sync. */
  leaderPrefer(): Promise<LeaderPreferAnswer>
  /** List the requests that the brokers received, the latest ones, oldest first; received: the number of all that fit. */
  requestList(params?: RequestListParams): Promise<RequestListAnswer>
  /** Wait until the brokers have received so many requests, earlier ones included; answers as request.list. */
  requestWait(params?: RequestWaitParams): Promise<RequestWaitAnswer>
  /** Add a request rule: selectors (all must match), how often it applies, and one action. */
  faultAdd(params?: FaultAddParams): Promise<FaultAddAnswer>
  /** List the request rules, oldest first. */
  faultList(): Promise<FaultListAnswer>
  /** Remove all rules, matched or not. */
  faultClear(): Promise<FaultClearAnswer>
  /** Show a rule and how often it matched; with wait_hits, once it has matched that often. */
  faultGet(fault: number, params?: FaultGetParams): Promise<Fault>
  /** Remove a rule. If it was required to match and never did, it is removed and an error is returned. */
  faultRemove(fault: number, params?: FaultRemoveParams): Promise<Fault>
  /** Wait until a rule has matched that often. */
  faultWait(fault: number, params?: FaultWaitParams): Promise<Fault>
  /** Release the requests that a rule delays or leaves unanswered; the rule stays. */
  faultRelease(fault: number): Promise<Fault>
  /** Hold matching requests, in arrival order, until they are released. */
  orderHold(params?: OrderHoldParams): Promise<OrderHoldAnswer>
  /** List the holds and the requests that wait in them. */
  orderList(): Promise<OrderListAnswer>
  /** Show the held requests of a hold; with waiting, once it holds that many. */
  orderWait(hold: number, params?: OrderWaitParams): Promise<Hold>
  /** Remove a hold and release its requests, oldest first. */
  orderRemove(hold: number): Promise<Hold>
  /** Release held requests, oldest first; the hold stays active. */
  orderRelease(hold: number, params?: OrderReleaseParams): Promise<Hold>
  /** Release the oldest held request, waiting for one if necessary, and return it. */
  orderStep(hold: number, params?: OrderStepParams): Promise<OrderStepAnswer>
  /** Record the order of all requests from now on. */
  orderRecord(): Promise<OrderRecordAnswer>
  /** Show the requests of the recorded order. */
  orderRecorded(): Promise<OrderRecordedAnswer>
  /** Stop the recording and return it. */
  orderStop(): Promise<OrderStopAnswer>
  /**
   * Release requests in a recorded order; early ones wait. If an expected request never arrives, the replay has
   * diverged.
   */
  orderReplay(entries: Record<string, any>[], params?: OrderReplayParams): Promise<Replay>
  /** Show the progress of the replay; with done, once it is complete. A diverged replay is an error then. */
  orderReplayed(params?: OrderReplayedParams): Promise<Replay>
  /** Stop the replay and release the waiting requests. */
  orderUnreplay(): Promise<Replay>
  /** List all topics, internal ones included. */
  topicList(): Promise<TopicListAnswer>
  /** Create a topic; without a number of partitions it gets the broker's default. */
  topicCreate(topic: string, params?: TopicCreateParams): Promise<Topic>
  /** Show a topic: partitions, replication factor, number of records. */
  topicGet(topic: string): Promise<Topic>
  /** Delete a topic with all its records. */
  topicDelete(topic: string): Promise<TopicDeleteAnswer>
  /** Append records to a topic, as a producer does. */
  topicFill(topic: string, records: number, params?: TopicFillParams): Promise<Topic>
  /** Show a topic's records, as a consumer gets them; more: there are others behind them. */
  topicRecords(topic: string, params?: TopicRecordsParams): Promise<TopicRecordsAnswer>
  /** Wait until a topic has so many records. */
  topicWait(topic: string, records: number, params?: TopicWaitParams): Promise<Topic>
  /** Add partitions to a topic; clients see them when they refresh their metadata. */
  topicGrow(topic: string, partitions: number): Promise<Topic>
  /** Run the steps of a scenario file on these brokers, with the clients that use them, until scenario.end. */
  scenarioStart(params?: ScenarioStartParams): Promise<Scenario>
  /** List the scenarios of scenario.start that were not ended, oldest first. */
  scenarioList(): Promise<ScenarioListAnswer>
  /** Show a scenario: the steps that are done, what it waits for, its progress, verdict and expectations. */
  scenarioGet(scenario: number): Promise<Scenario>
  /** End a scenario: cancel it if it runs, and clear the states, rules, holds and stopped brokers that its steps left. */
  scenarioEnd(scenario: number, params?: ScenarioEndParams): Promise<Scenario>
  /** Wait until a scenario has ended, or until a step is done. A scenario whose expectations failed is an error then. */
  scenarioWait(scenario: number, params?: ScenarioWaitParams): Promise<Scenario>
}
