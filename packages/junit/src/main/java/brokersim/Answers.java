package brokersim;

import java.util.List;
import java.util.Map;

/** The answers of the control server; a value that is absent or null there is null. Written by docs/generate.py from docs/openapi.json. */
public final class Answers {
    private Answers() {}

    /** A broker of the cluster. */
    public record Broker(
        long broker,
        String host,
        long port,
        String rack,
        boolean alive,
        long leads) {
        static Broker of(Map<String, Object> read) {
            return read == null ? null : new Broker(
                (Long) read.get("broker"),
                (String) read.get("host"),
                (Long) read.get("port"),
                (String) read.get("rack"),
                (Boolean) read.get("alive"),
                (Long) read.get("leads"));
        }
    }

    /** The time that the brokers live in; next_timer has due_ms and, in words, what it is for. */
    public record Clock(
        String mode,
        double rate,
        long nowMs,
        Map<String, Object> nextTimer) {
        static Clock of(Map<String, Object> read) {
            return read == null ? null : new Clock(
                (String) read.get("mode"),
                ((Number) read.get("rate")).doubleValue(),
                (Long) read.get("now_ms"),
                Json.object(read.get("next_timer")));
        }
    }

    /** A virtual cluster of this process; listeners: the bootstrap address of each by name; ca: the certificate authority that its clients trust, in PEM. */
    public record Cluster(
        String id,
        String bootstrap,
        Map<String, String> listeners,
        long brokers,
        String asVersion,
        String securityProtocol,
        String ca,
        String clock,
        List<String> topics) {
        static Cluster of(Map<String, Object> read) {
            return read == null ? null : new Cluster(
                (String) read.get("id"),
                (String) read.get("bootstrap"),
                Json.map(read.get("listeners"), one -> (String) one),
                (Long) read.get("brokers"),
                (String) read.get("as_version"),
                (String) read.get("security_protocol"),
                (String) read.get("ca"),
                (String) read.get("clock"),
                Json.list(read.get("topics"), one -> (String) one));
        }
    }

    /** One delivery of a record; end: accepted, released, rejected, gap, expired, session closed, ...; empty while the member has it. */
    public record Delivery(
        String member,
        long tsMs,
        long count,
        String end,
        Long endedMs,
        String becomes,
        long renewed,
        String letter) {
        static Delivery of(Map<String, Object> read) {
            return read == null ? null : new Delivery(
                (String) read.get("member"),
                (Long) read.get("ts_ms"),
                (Long) read.get("count"),
                (String) read.get("end"),
                (Long) read.get("ended_ms"),
                (String) read.get("becomes"),
                (Long) read.get("renewed"),
                (String) read.get("letter"));
        }
    }

    /** A request of a recorded order; members are called m1, m2, .. in the order in which they appear. */
    public record Entry(
        long n,
        String api,
        String clientId,
        String group,
        String member,
        List<String> topics) {
        static Entry of(Map<String, Object> read) {
            return read == null ? null : new Entry(
                (Long) read.get("n"),
                (String) read.get("api"),
                (String) read.get("client_id"),
                (String) read.get("group"),
                (String) read.get("member"),
                Json.list(read.get("topics"), one -> (String) one));
        }
    }

    /** A rule on requests: in words and as the parameters that make it, its hits, and the requests that it hangs or delays now. */
    public record Fault(
        long id,
        String text,
        Map<String, Object> rule,
        long hits,
        boolean spent,
        boolean removed,
        List<String> waiting) {
        static Fault of(Map<String, Object> read) {
            return read == null ? null : new Fault(
                (Long) read.get("id"),
                (String) read.get("text"),
                Json.object(read.get("rule")),
                (Long) read.get("hits"),
                (Boolean) read.get("spent"),
                (Boolean) read.get("removed"),
                Json.list(read.get("waiting"), one -> (String) one));
        }
    }

    /** A consumer group as its coordinator knows it; by partition, as in orders-0: committed offsets, lag (negative where one is beyond the log's end) and how much of it is deleted from the log; unassigned: subscribed, but assigned to no member. */
    public record Group(
        String group,
        String state,
        long generation,
        String leader,
        List<Member> members,
        Long coordinator,
        String log,
        Map<String, Long> offsets,
        Map<String, Long> lag,
        Map<String, Long> deleted,
        List<String> unassigned) {
        static Group of(Map<String, Object> read) {
            return read == null ? null : new Group(
                (String) read.get("group"),
                (String) read.get("state"),
                (Long) read.get("generation"),
                (String) read.get("leader"),
                Json.list(read.get("members"), one -> Member.of(Json.object(one))),
                (Long) read.get("coordinator"),
                (String) read.get("log"),
                Json.map(read.get("offsets"), one -> (Long) one),
                Json.map(read.get("lag"), one -> (Long) one),
                Json.map(read.get("deleted"), one -> (Long) one),
                Json.list(read.get("unassigned"), one -> (String) one));
        }
    }

    /** A transaction that is open in a partition and that no coordinator knows; last_ms: when its producer wrote last. */
    public record Hanging(
        String log,
        long producerId,
        long epoch,
        long firstOffset,
        long lastMs,
        long lastStableOffset,
        long highWatermark) {
        static Hanging of(Map<String, Object> read) {
            return read == null ? null : new Hanging(
                (String) read.get("log"),
                (Long) read.get("producer_id"),
                (Long) read.get("epoch"),
                (Long) read.get("first_offset"),
                (Long) read.get("last_ms"),
                (Long) read.get("last_stable_offset"),
                (Long) read.get("high_watermark"));
        }
    }

    /** What is held back at the brokers: which requests, and those that wait, in the order in which they came. */
    public record Hold(
        long id,
        String text,
        boolean ended,
        List<String> waiting) {
        static Hold of(Map<String, Object> read) {
            return read == null ? null : new Hold(
                (Long) read.get("id"),
                (String) read.get("text"),
                (Boolean) read.get("ended"),
                Json.list(read.get("waiting"), one -> (String) one));
        }
    }

    /** Records first to last of a partition that a share group's member has; until_ms: when the lock ends. */
    public record Lock(
        String log,
        long first,
        long last,
        String memberId,
        long deliveries,
        long untilMs) {
        static Lock of(Map<String, Object> read) {
            return read == null ? null : new Lock(
                (String) read.get("log"),
                (Long) read.get("first"),
                (Long) read.get("last"),
                (String) read.get("member_id"),
                (Long) read.get("deliveries"),
                (Long) read.get("until_ms"));
        }
    }

    /** The present state of a log partition. */
    public record Log(
        String log,
        long leader,
        long leaderEpoch,
        List<Long> replicas,
        List<Long> isr,
        long logStartOffset,
        long highWatermark,
        long logEndOffset,
        List<State> states) {
        static Log of(Map<String, Object> read) {
            return read == null ? null : new Log(
                (String) read.get("log"),
                (Long) read.get("leader"),
                (Long) read.get("leader_epoch"),
                Json.list(read.get("replicas"), one -> (Long) one),
                Json.list(read.get("isr"), one -> (Long) one),
                (Long) read.get("log_start_offset"),
                (Long) read.get("high_watermark"),
                (Long) read.get("log_end_offset"),
                Json.list(read.get("states"), one -> State.of(Json.object(one))));
        }
    }

    /** A member of a group; deferred: JoinGroup or SyncGroup if that request of it is deferred. */
    public record Member(
        String memberId,
        String clientId,
        String clientHost,
        String instanceId,
        long sessionTimeoutMs,
        long rebalanceTimeoutMs,
        String deferred,
        boolean leader,
        List<String> topics,
        Map<String, List<Long>> assignment,
        Map<String, Object> worker,
        Map<String, Object> tasks) {
        static Member of(Map<String, Object> read) {
            return read == null ? null : new Member(
                (String) read.get("member_id"),
                (String) read.get("client_id"),
                (String) read.get("client_host"),
                (String) read.get("instance_id"),
                (Long) read.get("session_timeout_ms"),
                (Long) read.get("rebalance_timeout_ms"),
                (String) read.get("deferred"),
                (Boolean) read.get("leader"),
                Json.list(read.get("topics"), one -> (String) one),
                Json.map(read.get("assignment"), one -> Json.list(one, ones -> (Long) ones)),
                Json.object(read.get("worker")),
                Json.object(read.get("tasks")));
        }
    }

    /** RecordHeaders. */
    public record RecordHeaders(
        String key,
        String value) {
        static RecordHeaders of(Map<String, Object> read) {
            return read == null ? null : new RecordHeaders(
                (String) read.get("key"),
                (String) read.get("value"));
        }
    }

    /** A record of a topic; producer_id: -1 without an idempotent producer. */
    public record Record(
        long partition,
        long offset,
        long timestampMs,
        String key,
        String value,
        List<RecordHeaders> headers,
        long producerId,
        boolean transactional) {
        static Record of(Map<String, Object> read) {
            return read == null ? null : new Record(
                (Long) read.get("partition"),
                (Long) read.get("offset"),
                (Long) read.get("timestamp_ms"),
                (String) read.get("key"),
                (String) read.get("value"),
                Json.list(read.get("headers"), one -> RecordHeaders.of(Json.object(one))),
                (Long) read.get("producer_id"),
                (Boolean) read.get("transactional"));
        }
    }

    /** How far a replay has come: the entries that have passed, the next one, the requests that wait; diverged: what came in its place. */
    public record Replay(
        long position,
        String expected,
        List<String> waiting,
        boolean ended,
        String diverged) {
        static Replay of(Map<String, Object> read) {
            return read == null ? null : new Replay(
                (Long) read.get("position"),
                (String) read.get("expected"),
                Json.list(read.get("waiting"), one -> (String) one),
                (Boolean) read.get("ended"),
                (String) read.get("diverged"));
        }
    }

    /** A request that a broker received; topics: partitions that it names; answered: whether a response was sent, or can't be any more; answer: the body of the response. */
    public record Request(
        long request,
        long tsMs,
        String api,
        long version,
        long broker,
        String clientId,
        String clientHost,
        String group,
        String member,
        String transactionalId,
        List<String> topics,
        Map<String, Object> body,
        boolean answered,
        String error,
        Long tookMs,
        Map<String, Object> answer) {
        static Request of(Map<String, Object> read) {
            return read == null ? null : new Request(
                (Long) read.get("request"),
                (Long) read.get("ts_ms"),
                (String) read.get("api"),
                (Long) read.get("version"),
                (Long) read.get("broker"),
                (String) read.get("client_id"),
                (String) read.get("client_host"),
                (String) read.get("group"),
                (String) read.get("member"),
                (String) read.get("transactional_id"),
                Json.list(read.get("topics"), one -> (String) one),
                Json.object(read.get("body")),
                (Boolean) read.get("answered"),
                (String) read.get("error"),
                (Long) read.get("took_ms"),
                Json.object(read.get("answer")));
        }
    }

    /** ScenarioResults. */
    public record ScenarioResults(
        boolean held,
        String text,
        String where) {
        static ScenarioResults of(Map<String, Object> read) {
            return read == null ? null : new ScenarioResults(
                (Boolean) read.get("held"),
                (String) read.get("text"),
                (String) read.get("where"));
        }
    }

    /** A scenario file that runs on the cluster; verdict: held, broken, late (the condition of a step timed out), error (a step can't be done), cancelled, null while it runs; done: the steps that are done; waiting: what it waits for. */
    public record Scenario(
        long id,
        String name,
        boolean running,
        String verdict,
        List<String> steps,
        List<String> done,
        String waiting,
        List<ScenarioResults> results,
        String error,
        List<String> progress) {
        static Scenario of(Map<String, Object> read) {
            return read == null ? null : new Scenario(
                (Long) read.get("id"),
                (String) read.get("name"),
                (Boolean) read.get("running"),
                (String) read.get("verdict"),
                Json.list(read.get("steps"), one -> (String) one),
                Json.list(read.get("done"), one -> (String) one),
                (String) read.get("waiting"),
                Json.list(read.get("results"), one -> ScenarioResults.of(Json.object(one))),
                (String) read.get("error"),
                Json.list(read.get("progress"), one -> (String) one));
        }
    }

    /** ShareGroupPartitions. */
    public record ShareGroupPartitions(
        long startOffset,
        long nextOffset,
        long inFlight,
        long locked,
        long backlog,
        boolean loaded) {
        static ShareGroupPartitions of(Map<String, Object> read) {
            return read == null ? null : new ShareGroupPartitions(
                (Long) read.get("start_offset"),
                (Long) read.get("next_offset"),
                (Long) read.get("in_flight"),
                (Long) read.get("locked"),
                (Long) read.get("backlog"),
                (Boolean) read.get("loaded"));
        }
    }

    /** A share group as the leaders of its partitions know it; start_offset -1: it has read nothing there. */
    public record ShareGroup(
        String group,
        String state,
        long epoch,
        Map<String, ShareGroupPartitions> partitions,
        List<Lock> locks) {
        static ShareGroup of(Map<String, Object> read) {
            return read == null ? null : new ShareGroup(
                (String) read.get("group"),
                (String) read.get("state"),
                (Long) read.get("epoch"),
                Json.map(read.get("partitions"), one -> ShareGroupPartitions.of(Json.object(one))),
                Json.list(read.get("locks"), one -> Lock.of(Json.object(one))));
        }
    }

    /** A lasting state of a log partition. */
    public record State(
        long id,
        String log,
        String state,
        Map<String, Object> args,
        boolean active) {
        static State of(Map<String, Object> read) {
            return read == null ? null : new State(
                (Long) read.get("id"),
                (String) read.get("log"),
                (String) read.get("state"),
                Json.object(read.get("args")),
                (Boolean) read.get("active"));
        }
    }

    /** A topic. */
    public record Topic(
        String topic,
        long partitions,
        long replicationFactor,
        long records,
        boolean internal) {
        static Topic of(Map<String, Object> read) {
            return read == null ? null : new Topic(
                (String) read.get("topic"),
                (Long) read.get("partitions"),
                (Long) read.get("replication_factor"),
                (Long) read.get("records"),
                (Boolean) read.get("internal"));
        }
    }

    /** A transactional id as its coordinator knows it; partitions: those of its transaction that have no marker yet, as in orders-0. */
    public record Transaction(
        String transactionalId,
        String state,
        long producerId,
        long epoch,
        List<String> partitions,
        Long timeoutMs,
        Long coordinator,
        String log) {
        static Transaction of(Map<String, Object> read) {
            return read == null ? null : new Transaction(
                (String) read.get("transactional_id"),
                (String) read.get("state"),
                (Long) read.get("producer_id"),
                (Long) read.get("epoch"),
                Json.list(read.get("partitions"), one -> (String) one),
                (Long) read.get("timeout_ms"),
                (Long) read.get("coordinator"),
                (String) read.get("log"));
        }
    }

    /** BrokerListAnswer. */
    public record BrokerListAnswer(
        List<Broker> brokers) {
        static BrokerListAnswer of(Map<String, Object> read) {
            return read == null ? null : new BrokerListAnswer(
                Json.list(read.get("brokers"), one -> Broker.of(Json.object(one))));
        }
    }

    /** BrokerRestartAllAnswer. */
    public record BrokerRestartAllAnswer(
        List<Broker> brokers) {
        static BrokerRestartAllAnswer of(Map<String, Object> read) {
            return read == null ? null : new BrokerRestartAllAnswer(
                Json.list(read.get("brokers"), one -> Broker.of(Json.object(one))));
        }
    }

    /** ClockAdvanceAnswer. */
    public record ClockAdvanceAnswer(
        long nowMs,
        List<String> fired) {
        static ClockAdvanceAnswer of(Map<String, Object> read) {
            return read == null ? null : new ClockAdvanceAnswer(
                (Long) read.get("now_ms"),
                Json.list(read.get("fired"), one -> (String) one));
        }
    }

    /** ClusterListAnswer. */
    public record ClusterListAnswer(
        List<Cluster> clusters) {
        static ClusterListAnswer of(Map<String, Object> read) {
            return read == null ? null : new ClusterListAnswer(
                Json.list(read.get("clusters"), one -> Cluster.of(Json.object(one))));
        }
    }

    /** ClusterDeleteAnswer. */
    public record ClusterDeleteAnswer(
        String deleted) {
        static ClusterDeleteAnswer of(Map<String, Object> read) {
            return read == null ? null : new ClusterDeleteAnswer(
                (String) read.get("deleted"));
        }
    }

    /** GroupListAnswer. */
    public record GroupListAnswer(
        List<Group> groups) {
        static GroupListAnswer of(Map<String, Object> read) {
            return read == null ? null : new GroupListAnswer(
                Json.list(read.get("groups"), one -> Group.of(Json.object(one))));
        }
    }

    /** GroupExplainAnswer. */
    public record GroupExplainAnswer(
        String group,
        String text) {
        static GroupExplainAnswer of(Map<String, Object> read) {
            return read == null ? null : new GroupExplainAnswer(
                (String) read.get("group"),
                (String) read.get("text"));
        }
    }

    /** GroupTimelineAnswer. */
    public record GroupTimelineAnswer(
        String group,
        String text,
        String svg,
        String html) {
        static GroupTimelineAnswer of(Map<String, Object> read) {
            return read == null ? null : new GroupTimelineAnswer(
                (String) read.get("group"),
                (String) read.get("text"),
                (String) read.get("svg"),
                (String) read.get("html"));
        }
    }

    /** GroupCommitAnswer. */
    public record GroupCommitAnswer(
        String group,
        long seq,
        Map<String, Long> offsets) {
        static GroupCommitAnswer of(Map<String, Object> read) {
            return read == null ? null : new GroupCommitAnswer(
                (String) read.get("group"),
                (Long) read.get("seq"),
                Json.map(read.get("offsets"), one -> (Long) one));
        }
    }

    /** GroupProbeAnswer. */
    public record GroupProbeAnswer(
        boolean ok,
        String error,
        String log) {
        static GroupProbeAnswer of(Map<String, Object> read) {
            return read == null ? null : new GroupProbeAnswer(
                (Boolean) read.get("ok"),
                (String) read.get("error"),
                (String) read.get("log"));
        }
    }

    /** ShareExpireAnswer. */
    public record ShareExpireAnswer(
        String group,
        List<Lock> ended) {
        static ShareExpireAnswer of(Map<String, Object> read) {
            return read == null ? null : new ShareExpireAnswer(
                (String) read.get("group"),
                Json.list(read.get("ended"), one -> Lock.of(Json.object(one))));
        }
    }

    /** ShareDeliveriesAnswer. */
    public record ShareDeliveriesAnswer(
        String group,
        String log,
        long offset,
        List<Delivery> deliveries) {
        static ShareDeliveriesAnswer of(Map<String, Object> read) {
            return read == null ? null : new ShareDeliveriesAnswer(
                (String) read.get("group"),
                (String) read.get("log"),
                (Long) read.get("offset"),
                Json.list(read.get("deliveries"), one -> Delivery.of(Json.object(one))));
        }
    }

    /** TransactionListAnswer. */
    public record TransactionListAnswer(
        List<Transaction> transactions) {
        static TransactionListAnswer of(Map<String, Object> read) {
            return read == null ? null : new TransactionListAnswer(
                Json.list(read.get("transactions"), one -> Transaction.of(Json.object(one))));
        }
    }

    /** TransactionExplainAnswer. */
    public record TransactionExplainAnswer(
        String transactionalId,
        String text) {
        static TransactionExplainAnswer of(Map<String, Object> read) {
            return read == null ? null : new TransactionExplainAnswer(
                (String) read.get("transactional_id"),
                (String) read.get("text"));
        }
    }

    /** TransactionHangingAnswer. */
    public record TransactionHangingAnswer(
        List<Hanging> hanging) {
        static TransactionHangingAnswer of(Map<String, Object> read) {
            return read == null ? null : new TransactionHangingAnswer(
                Json.list(read.get("hanging"), one -> Hanging.of(Json.object(one))));
        }
    }

    /** TransactionAbortHangingAnswer. */
    public record TransactionAbortHangingAnswer(
        String log,
        long lastStableOffset,
        long highWatermark) {
        static TransactionAbortHangingAnswer of(Map<String, Object> read) {
            return read == null ? null : new TransactionAbortHangingAnswer(
                (String) read.get("log"),
                (Long) read.get("last_stable_offset"),
                (Long) read.get("high_watermark"));
        }
    }

    /** JournalRecentAnswer. */
    public record JournalRecentAnswer(
        String text) {
        static JournalRecentAnswer of(Map<String, Object> read) {
            return read == null ? null : new JournalRecentAnswer(
                (String) read.get("text"));
        }
    }

    /** StateListAnswer. */
    public record StateListAnswer(
        List<State> states) {
        static StateListAnswer of(Map<String, Object> read) {
            return read == null ? null : new StateListAnswer(
                Json.list(read.get("states"), one -> State.of(Json.object(one))));
        }
    }

    /** LogWaitAnswer. */
    public record LogWaitAnswer(
        String log,
        List<Map<String, Object>> pending) {
        static LogWaitAnswer of(Map<String, Object> read) {
            return read == null ? null : new LogWaitAnswer(
                (String) read.get("log"),
                Json.list(read.get("pending"), one -> Json.object(one)));
        }
    }

    /** LeaderPreferAnswer. */
    public record LeaderPreferAnswer(
        long changed) {
        static LeaderPreferAnswer of(Map<String, Object> read) {
            return read == null ? null : new LeaderPreferAnswer(
                (Long) read.get("changed"));
        }
    }

    /** RequestListAnswer. */
    public record RequestListAnswer(
        List<Request> requests,
        long received) {
        static RequestListAnswer of(Map<String, Object> read) {
            return read == null ? null : new RequestListAnswer(
                Json.list(read.get("requests"), one -> Request.of(Json.object(one))),
                (Long) read.get("received"));
        }
    }

    /** RequestWaitAnswer. */
    public record RequestWaitAnswer(
        List<Request> requests,
        long received) {
        static RequestWaitAnswer of(Map<String, Object> read) {
            return read == null ? null : new RequestWaitAnswer(
                Json.list(read.get("requests"), one -> Request.of(Json.object(one))),
                (Long) read.get("received"));
        }
    }

    /** FaultAddAnswer. */
    public record FaultAddAnswer(
        long id,
        String text,
        Map<String, Object> rule,
        long hits,
        boolean spent,
        boolean removed,
        List<String> waiting,
        String note) {
        static FaultAddAnswer of(Map<String, Object> read) {
            return read == null ? null : new FaultAddAnswer(
                (Long) read.get("id"),
                (String) read.get("text"),
                Json.object(read.get("rule")),
                (Long) read.get("hits"),
                (Boolean) read.get("spent"),
                (Boolean) read.get("removed"),
                Json.list(read.get("waiting"), one -> (String) one),
                (String) read.get("note"));
        }
    }

    /** FaultListAnswer. */
    public record FaultListAnswer(
        List<Fault> faults) {
        static FaultListAnswer of(Map<String, Object> read) {
            return read == null ? null : new FaultListAnswer(
                Json.list(read.get("faults"), one -> Fault.of(Json.object(one))));
        }
    }

    /** FaultClearAnswer. */
    public record FaultClearAnswer(
        List<Fault> removed) {
        static FaultClearAnswer of(Map<String, Object> read) {
            return read == null ? null : new FaultClearAnswer(
                Json.list(read.get("removed"), one -> Fault.of(Json.object(one))));
        }
    }

    /** OrderHoldAnswer. */
    public record OrderHoldAnswer(
        long id,
        String text,
        boolean ended,
        List<String> waiting,
        String note) {
        static OrderHoldAnswer of(Map<String, Object> read) {
            return read == null ? null : new OrderHoldAnswer(
                (Long) read.get("id"),
                (String) read.get("text"),
                (Boolean) read.get("ended"),
                Json.list(read.get("waiting"), one -> (String) one),
                (String) read.get("note"));
        }
    }

    /** OrderListAnswer. */
    public record OrderListAnswer(
        List<Hold> holds) {
        static OrderListAnswer of(Map<String, Object> read) {
            return read == null ? null : new OrderListAnswer(
                Json.list(read.get("holds"), one -> Hold.of(Json.object(one))));
        }
    }

    /** OrderStepAnswer. */
    public record OrderStepAnswer(
        long id,
        String text,
        boolean ended,
        List<String> waiting,
        String stepped) {
        static OrderStepAnswer of(Map<String, Object> read) {
            return read == null ? null : new OrderStepAnswer(
                (Long) read.get("id"),
                (String) read.get("text"),
                (Boolean) read.get("ended"),
                Json.list(read.get("waiting"), one -> (String) one),
                (String) read.get("stepped"));
        }
    }

    /** OrderRecordAnswer. */
    public record OrderRecordAnswer(
        List<Entry> entries) {
        static OrderRecordAnswer of(Map<String, Object> read) {
            return read == null ? null : new OrderRecordAnswer(
                Json.list(read.get("entries"), one -> Entry.of(Json.object(one))));
        }
    }

    /** OrderRecordedAnswer. */
    public record OrderRecordedAnswer(
        List<Entry> entries) {
        static OrderRecordedAnswer of(Map<String, Object> read) {
            return read == null ? null : new OrderRecordedAnswer(
                Json.list(read.get("entries"), one -> Entry.of(Json.object(one))));
        }
    }

    /** OrderStopAnswer. */
    public record OrderStopAnswer(
        List<Entry> entries) {
        static OrderStopAnswer of(Map<String, Object> read) {
            return read == null ? null : new OrderStopAnswer(
                Json.list(read.get("entries"), one -> Entry.of(Json.object(one))));
        }
    }

    /** TopicListAnswer. */
    public record TopicListAnswer(
        List<Topic> topics) {
        static TopicListAnswer of(Map<String, Object> read) {
            return read == null ? null : new TopicListAnswer(
                Json.list(read.get("topics"), one -> Topic.of(Json.object(one))));
        }
    }

    /** TopicDeleteAnswer. */
    public record TopicDeleteAnswer(
        String deleted) {
        static TopicDeleteAnswer of(Map<String, Object> read) {
            return read == null ? null : new TopicDeleteAnswer(
                (String) read.get("deleted"));
        }
    }

    /** TopicRecordsAnswer. */
    public record TopicRecordsAnswer(
        List<Record> records,
        boolean more) {
        static TopicRecordsAnswer of(Map<String, Object> read) {
            return read == null ? null : new TopicRecordsAnswer(
                Json.list(read.get("records"), one -> Record.of(Json.object(one))),
                (Boolean) read.get("more"));
        }
    }

    /** ScenarioListAnswer. */
    public record ScenarioListAnswer(
        List<Scenario> scenarios) {
        static ScenarioListAnswer of(Map<String, Object> read) {
            return read == null ? null : new ScenarioListAnswer(
                Json.list(read.get("scenarios"), one -> Scenario.of(Json.object(one))));
        }
    }
}
