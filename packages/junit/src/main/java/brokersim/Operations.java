package brokersim;

import static brokersim.Control.encoded;

import java.time.Duration;
import java.util.List;
import java.util.Map;

/**
 * Every operation of the control server on a cluster, as in {@code groupWait("billing").state("Stable").members(3).call()}: required
 * parameters are arguments, optional ones are set before {@code call()}, which throws {@link SimCluster.SimError}. Written by docs/generate.py from docs/openapi.json.
 */
public final class Operations {
    private final Control control;
    private final String cluster;

    Operations(Control control, String id) {
        this.control = control;
        this.cluster = "/clusters/" + encoded(id);
    }

    /** List all brokers: address, rack, whether they are alive, number of led partitions. */
    public BrokerList brokerList() {
        return new BrokerList(control, cluster);
    }

    /** Show a broker: address, rack, whether it is alive, number of led partitions. */
    public BrokerGet brokerGet(long broker) {
        return new BrokerGet(control, cluster, broker);
    }

    /** Stop a broker: connections are reset, other replicas become leaders; it keeps its port. */
    public BrokerDown brokerDown(long broker) {
        return new BrokerDown(control, cluster, broker);
    }

    /** Start a stopped broker on the same port. */
    public BrokerUp brokerUp(long broker) {
        return new BrokerUp(control, cluster, broker);
    }

    /** Restart a broker; its coordinators load from their logs. */
    public BrokerRestart brokerRestart(long broker) {
        return new BrokerRestart(control, cluster, broker);
    }

    /** Advertise another address of a broker, as Kafka's advertised.listeners, from the next response on. */
    public BrokerAdvertise brokerAdvertise(long broker, String listener) {
        return new BrokerAdvertise(control, cluster, broker, listener);
    }

    /** Restart all brokers at the same time; every coordinator loads from its log. */
    public BrokerRestartAll brokerRestartAll() {
        return new BrokerRestartAll(control, cluster);
    }

    /** Show the brokers' clock: mode, rate, time, next timer. */
    public ClockGet clockGet() {
        return new ClockGet(control, cluster);
    }

    /** Advance a manual clock: each timer fires at its deadline; connected members not named in expire stay alive. */
    public ClockAdvance clockAdvance(Duration by) {
        return new ClockAdvance(control, cluster, by);
    }

    /** List the virtual clusters of the process. */
    public ClusterList clusterList() {
        return new ClusterList(control);
    }

    /** Start a virtual cluster on its own ports; of a scenario, parameters that are not their defaults replace the file's. */
    public ClusterCreate clusterCreate() {
        return new ClusterCreate(control);
    }

    /** Show a virtual cluster: bootstrap address, release, clock, topics. */
    public ClusterGet clusterGet(String cluster) {
        return new ClusterGet(control, cluster);
    }

    /** Stop a virtual cluster; the cluster that the process was started for can't be stopped. */
    public ClusterDelete clusterDelete(String cluster) {
        return new ClusterDelete(control, cluster);
    }

    /** List all groups with their states and members. */
    public GroupList groupList() {
        return new GroupList(control, cluster);
    }

    /** Show a group: state, generation, members with assignments, offsets, lag; with a condition, once it holds. */
    public GroupGet groupGet(String group) {
        return new GroupGet(control, cluster, group);
    }

    /** Wait until all conditions hold for a group at the same time; the group may not exist yet. */
    public GroupWait groupWait(String group) {
        return new GroupWait(control, cluster, group);
    }

    /** Explain in words why a group rebalanced, who delayed it, for how long, and how it ended. */
    public GroupExplain groupExplain(String group) {
        return new GroupExplain(control, cluster, group);
    }

    /** Draw a group's history: members as lanes, generations as bands, faults as marks. */
    public GroupTimeline groupTimeline(String group) {
        return new GroupTimeline(control, cluster, group);
    }

    /** Draw a group's history: members as lanes, generations as bands, faults as marks. */
    public GroupTimelineSvg groupTimelineSvg(String group) {
        return new GroupTimelineSvg(control, cluster, group);
    }

    /** Draw a group's history: members as lanes, generations as bands, faults as marks. */
    public GroupTimelineHtml groupTimelineHtml(String group) {
        return new GroupTimelineHtml(control, cluster, group);
    }

    /** Wait for the next successful commit of a group; returns its offsets. */
    public GroupCommit groupCommit(String group) {
        return new GroupCommit(control, cluster, group);
    }

    /** Check whether the group's coordinator accepts commits now, without affecting the group. */
    public GroupProbe groupProbe(String group) {
        return new GroupProbe(control, cluster, group);
    }

    /** Remove a member from its group with LeaveGroup, as an admin client does. */
    public GroupRemoveMember groupRemoveMember(String group, String member) {
        return new GroupRemoveMember(control, cluster, group, member);
    }

    /** Show a share group: position in each partition, records left, and acquired records with their members. */
    public ShareGet shareGet(String group) {
        return new ShareGet(control, cluster, group);
    }

    /** Expire acquisition locks of a share group now: all, or those of a topic, a partition or a member. */
    public ShareExpire shareExpire(String group) {
        return new ShareExpire(control, cluster, group);
    }

    /** Wait until a member of a share group has acquired a record; the group may not exist yet. */
    public ShareWaitLocked shareWaitLocked(String group, String topic, long partition, long offset) {
        return new ShareWaitLocked(control, cluster, group, topic, partition, offset);
    }

    /** Wait until no member of a share group has an acquired record. */
    public ShareWaitUnlocked shareWaitUnlocked(String group) {
        return new ShareWaitUnlocked(control, cluster, group);
    }

    /** Wait until a record was delivered this often to a share group; the group may not exist yet. */
    public ShareWaitDelivered shareWaitDelivered(String group, String topic, long partition, long offset) {
        return new ShareWaitDelivered(control, cluster, group, topic, partition, offset);
    }

    /** List the recorded deliveries of a record: to which member, and how each ended. */
    public ShareDeliveries shareDeliveries(String group, String topic, long partition, long offset) {
        return new ShareDeliveries(control, cluster, group, topic, partition, offset);
    }

    /** List all transactional ids with their states, producer ids and epochs. */
    public TransactionList transactionList() {
        return new TransactionList(control, cluster);
    }

    /** Show a transactional id: state, producer id, epoch, and the partitions that have no marker yet. */
    public TransactionGet transactionGet(String transactionalId) {
        return new TransactionGet(control, cluster, transactionalId);
    }

    /** Wait until all conditions hold for a transactional id at the same time; it may not exist yet. */
    public TransactionWait transactionWait(String transactionalId) {
        return new TransactionWait(control, cluster, transactionalId);
    }

    /** Explain in words how the transactions of an id ended, by whom, how long each took, and what it delayed. */
    public TransactionExplain transactionExplain(String transactionalId) {
        return new TransactionExplain(control, cluster, transactionalId);
    }

    /** Fence the producer of a transactional id, and abort its transaction, as Admin.fenceProducers does. */
    public TransactionAbort transactionAbort(String transactionalId) {
        return new TransactionAbort(control, cluster, transactionalId);
    }

    /** List hanging transactions of a partition: open, and unknown to the transaction coordinator. */
    public TransactionHanging transactionHanging() {
        return new TransactionHanging(control, cluster);
    }

    /** Write an abort marker for a producer's open transaction in a partition, as kafka-transactions abort does. */
    public TransactionAbortHanging transactionAbortHanging(String log, long producerId) {
        return new TransactionAbortHanging(control, cluster, log, producerId);
    }

    /** List events, oldest first; over HTTP one JSON object per line. */
    public JournalRead journalRead() {
        return new JournalRead(control, cluster);
    }

    /** Wait for the first matching event and return it; the event of an answered request contains the response. */
    public JournalNext journalNext() {
        return new JournalNext(control, cluster);
    }

    /** Describe the recent history of every group, refused clients and unanswered requests: for a failed test's report. */
    public JournalRecent journalRecent() {
        return new JournalRecent(control, cluster);
    }

    /** Write a note into the journal; timelines show it. */
    public JournalMark journalMark(String text) {
        return new JournalMark(control, cluster, text);
    }

    /** Set a fault state of a log partition; its leader and its group coordinator behave accordingly until it is cleared. */
    public StateSet stateSet(String log, String state) {
        return new StateSet(control, cluster, log, state);
    }

    /** Clear the fault states of a log partition; pending requests continue. */
    public StateHeal stateHeal(String log) {
        return new StateHeal(control, cluster, log);
    }

    /** List the active fault states of all log partitions. */
    public StateList stateList() {
        return new StateList(control, cluster);
    }

    /** Show a log partition: leader, replicas, offsets, fault states. */
    public LogGet logGet(String log) {
        return new LogGet(control, cluster, log);
    }

    /** Append records to a partition, as a producer does. */
    public LogFill logFill(String log, long records) {
        return new LogFill(control, cluster, log, records);
    }

    /** Wait until this many requests have an append in a log that is not committed yet. */
    public LogWait logWait(String log) {
        return new LogWait(control, cluster, log);
    }

    /** Delete committed records at the end of a log, as an unclean leader election or a restored disk does. */
    public LogLoseTail logLoseTail(String log) {
        return new LogLoseTail(control, cluster, log);
    }

    /** Delete the first records of a log, as a leader whose log starts later does. */
    public LogLoseHead logLoseHead(String log) {
        return new LogLoseHead(control, cluster, log);
    }

    /** Move the leader of a log partition; for an offsets partition this moves the coordinator of its groups. */
    public LeaderMove leaderMove(String log) {
        return new LeaderMove(control, cluster, log);
    }

    /** Increment the leader epoch; requests with the old one get FENCED_LEADER_EPOCH. */
    public LeaderElect leaderElect(String log) {
        return new LeaderElect(control, cluster, log);
    }

    /** Elect the preferred leader of every partition whose first replica is alive and in sync. */
    public LeaderPrefer leaderPrefer() {
        return new LeaderPrefer(control, cluster);
    }

    /** List the requests that the brokers received, the latest ones, oldest first; received: the number of all that fit. */
    public RequestList requestList() {
        return new RequestList(control, cluster);
    }

    /** Wait until the brokers have received so many requests, earlier ones included; answers as request.list. */
    public RequestWait requestWait() {
        return new RequestWait(control, cluster);
    }

    /** Add a request rule: selectors (all must match), how often it applies, and one action. */
    public FaultAdd faultAdd() {
        return new FaultAdd(control, cluster);
    }

    /** List the request rules, oldest first. */
    public FaultList faultList() {
        return new FaultList(control, cluster);
    }

    /** Remove all rules, matched or not. */
    public FaultClear faultClear() {
        return new FaultClear(control, cluster);
    }

    /** Show a rule and how often it matched; with wait_hits, once it has matched that often. */
    public FaultGet faultGet(long fault) {
        return new FaultGet(control, cluster, fault);
    }

    /** Remove a rule. If it was required to match and never did, it is removed and an error is returned. */
    public FaultRemove faultRemove(long fault) {
        return new FaultRemove(control, cluster, fault);
    }

    /** Wait until a rule has matched that often. */
    public FaultWait faultWait(long fault) {
        return new FaultWait(control, cluster, fault);
    }

    /** Release the requests that a rule delays or leaves unanswered; the rule stays. */
    public FaultRelease faultRelease(long fault) {
        return new FaultRelease(control, cluster, fault);
    }

    /** Hold matching requests, in arrival order, until they are released. */
    public OrderHold orderHold() {
        return new OrderHold(control, cluster);
    }

    /** List the holds and the requests that wait in them. */
    public OrderList orderList() {
        return new OrderList(control, cluster);
    }

    /** Show the held requests of a hold; with waiting, once it holds that many. */
    public OrderWait orderWait(long hold) {
        return new OrderWait(control, cluster, hold);
    }

    /** Remove a hold and release its requests, oldest first. */
    public OrderRemove orderRemove(long hold) {
        return new OrderRemove(control, cluster, hold);
    }

    /** Release held requests, oldest first; the hold stays active. */
    public OrderRelease orderRelease(long hold) {
        return new OrderRelease(control, cluster, hold);
    }

    /** Release the oldest held request, waiting for one if necessary, and return it. */
    public OrderStep orderStep(long hold) {
        return new OrderStep(control, cluster, hold);
    }

    /** Record the order of all requests from now on. */
    public OrderRecord orderRecord() {
        return new OrderRecord(control, cluster);
    }

    /** Show the requests of the recorded order. */
    public OrderRecorded orderRecorded() {
        return new OrderRecorded(control, cluster);
    }

    /** Stop the recording and return it. */
    public OrderStop orderStop() {
        return new OrderStop(control, cluster);
    }

    /** Release requests in a recorded order; early ones wait. If an expected request never arrives, the replay has diverged. */
    public OrderReplay orderReplay(List<Map<String, Object>> entries) {
        return new OrderReplay(control, cluster, entries);
    }

    /** Show the progress of the replay; with done, once it is complete. A diverged replay is an error then. */
    public OrderReplayed orderReplayed() {
        return new OrderReplayed(control, cluster);
    }

    /** Stop the replay and release the waiting requests. */
    public OrderUnreplay orderUnreplay() {
        return new OrderUnreplay(control, cluster);
    }

    /** List all topics, internal ones included. */
    public TopicList topicList() {
        return new TopicList(control, cluster);
    }

    /** Create a topic; without a number of partitions it gets the broker's default. */
    public TopicCreate topicCreate(String topic) {
        return new TopicCreate(control, cluster, topic);
    }

    /** Show a topic: partitions, replication factor, number of records. */
    public TopicGet topicGet(String topic) {
        return new TopicGet(control, cluster, topic);
    }

    /** Delete a topic with all its records. */
    public TopicDelete topicDelete(String topic) {
        return new TopicDelete(control, cluster, topic);
    }

    /** Append records to a topic, as a producer does. */
    public TopicFill topicFill(String topic, long records) {
        return new TopicFill(control, cluster, topic, records);
    }

    /** Show a topic's records, as a consumer gets them; more: there are others behind them. */
    public TopicRecords topicRecords(String topic) {
        return new TopicRecords(control, cluster, topic);
    }

    /** Wait until a topic has so many records. */
    public TopicWait topicWait(String topic, long records) {
        return new TopicWait(control, cluster, topic, records);
    }

    /** Add partitions to a topic; clients see them when they refresh their metadata. */
    public TopicGrow topicGrow(String topic, long partitions) {
        return new TopicGrow(control, cluster, topic, partitions);
    }

    /** Run the steps of a scenario file on these brokers, with the clients that use them, until scenario.end. */
    public ScenarioStart scenarioStart() {
        return new ScenarioStart(control, cluster);
    }

    /** List the scenarios of scenario.start that were not ended, oldest first. */
    public ScenarioList scenarioList() {
        return new ScenarioList(control, cluster);
    }

    /** Show a scenario: the steps that are done, what it waits for, its progress, verdict and expectations. */
    public ScenarioGet scenarioGet(long scenario) {
        return new ScenarioGet(control, cluster, scenario);
    }

    /** End a scenario: cancel it if it runs, and clear the states, rules, holds and stopped brokers that its steps left. */
    public ScenarioEnd scenarioEnd(long scenario) {
        return new ScenarioEnd(control, cluster, scenario);
    }

    /** Wait until a scenario has ended, or until a step is done. A scenario whose expectations failed is an error then. */
    public ScenarioWait scenarioWait(long scenario) {
        return new ScenarioWait(control, cluster, scenario);
    }

    /** Broker.list: List all brokers: address, rack, whether they are alive, number of led partitions. */
    public static final class BrokerList extends Call<Answers.BrokerListAnswer> {
        private BrokerList(Control control, String cluster) {
            super(control, "GET", cluster + "/brokers", answer -> Answers.BrokerListAnswer.of(Json.object(Json.parse(answer))));
        }
    }

    /** Broker.get: Show a broker: address, rack, whether it is alive, number of led partitions. */
    public static final class BrokerGet extends Call<Answers.Broker> {
        private BrokerGet(Control control, String cluster, long broker) {
            super(control, "GET", cluster + "/brokers/" + encoded(broker), answer -> Answers.Broker.of(Json.object(Json.parse(answer))));
        }
    }

    /** Broker.down: Stop a broker: connections are reset, other replicas become leaders; it keeps its port. */
    public static final class BrokerDown extends Call<Answers.Broker> {
        private BrokerDown(Control control, String cluster, long broker) {
            super(control, "POST", cluster + "/brokers/" + encoded(broker) + "/down", answer -> Answers.Broker.of(Json.object(Json.parse(answer))));
        }

        /** Controlled shutdown: leaders move away first (default: only for a restart). */
        public BrokerDown graceful(boolean graceful) {
            set("graceful", graceful);
            return this;
        }

        /** How long Metadata still lists the broker; Kafka: about 9 s (default: 0). */
        public BrokerDown noticedAfter(Duration noticedAfter) {
            set("noticed_after", noticedAfter);
            return this;
        }
    }

    /** Broker.up: Start a stopped broker on the same port. */
    public static final class BrokerUp extends Call<Answers.Broker> {
        private BrokerUp(Control control, String cluster, long broker) {
            super(control, "POST", cluster + "/brokers/" + encoded(broker) + "/up", answer -> Answers.Broker.of(Json.object(Json.parse(answer))));
        }

        /** Preferred: elect the first replica of every partition afterwards; one of preferred. */
        public BrokerUp elect(String elect) {
            set("elect", elect);
            return this;
        }
    }

    /** Broker.restart: Restart a broker; its coordinators load from their logs. */
    public static final class BrokerRestart extends Call<Answers.Broker> {
        private BrokerRestart(Control control, String cluster, long broker) {
            super(control, "POST", cluster + "/brokers/" + encoded(broker) + "/restart", answer -> Answers.Broker.of(Json.object(Json.parse(answer))));
        }

        /** Controlled shutdown: leaders move away first (default: only for a restart). */
        public BrokerRestart graceful(boolean graceful) {
            set("graceful", graceful);
            return this;
        }
    }

    /** Broker.advertise: Advertise another address of a broker, as Kafka's advertised.listeners, from the next response on. */
    public static final class BrokerAdvertise extends Call<Answers.Broker> {
        private BrokerAdvertise(Control control, String cluster, long broker, String listener) {
            super(control, "POST", cluster + "/brokers/" + encoded(broker) + "/advertise", answer -> Answers.Broker.of(Json.object(Json.parse(answer))));
            set("listener", listener);
        }
    }

    /** Broker.restart_all: Restart all brokers at the same time; every coordinator loads from its log. */
    public static final class BrokerRestartAll extends Call<Answers.BrokerRestartAllAnswer> {
        private BrokerRestartAll(Control control, String cluster) {
            super(control, "POST", cluster + "/brokers/restart", answer -> Answers.BrokerRestartAllAnswer.of(Json.object(Json.parse(answer))));
        }

        /** Send pending responses before the connections are closed. */
        public BrokerRestartAll graceful(boolean graceful) {
            set("graceful", graceful);
            return this;
        }
    }

    /** Clock.get: Show the brokers' clock: mode, rate, time, next timer. */
    public static final class ClockGet extends Call<Answers.Clock> {
        private ClockGet(Control control, String cluster) {
            super(control, "GET", cluster + "/clock", answer -> Answers.Clock.of(Json.object(Json.parse(answer))));
        }
    }

    /** Clock.advance: Advance a manual clock: each timer fires at its deadline; connected members not named in expire stay alive. */
    public static final class ClockAdvance extends Call<Answers.ClockAdvanceAnswer> {
        private ClockAdvance(Control control, String cluster, Duration by) {
            super(control, "POST", cluster + "/clock/advance", answer -> Answers.ClockAdvanceAnswer.of(Json.object(Json.parse(answer))));
            set("by", by);
        }

        /** Members that send no heartbeats meanwhile, by member id, instance id or client id. */
        public ClockAdvance expire(String... expire) {
            set("expire", List.of(expire));
            return this;
        }

        /** Real time for the others to rejoin before a rebalance timeout passes (default: 10s). */
        public ClockAdvance wait(Duration wait) {
            set("wait", wait);
            return this;
        }
    }

    /** Cluster.list: List the virtual clusters of the process. */
    public static final class ClusterList extends Call<Answers.ClusterListAnswer> {
        private ClusterList(Control control) {
            super(control, "GET", "/clusters", answer -> Answers.ClusterListAnswer.of(Json.object(Json.parse(answer))));
        }
    }

    /** Cluster.create: Start a virtual cluster on its own ports; of a scenario, parameters that are not their defaults replace the file's. */
    public static final class ClusterCreate extends Call<Answers.Cluster> {
        private ClusterCreate(Control control) {
            super(control, "POST", "/clusters", answer -> Answers.Cluster.of(Json.object(Json.parse(answer))));
        }

        /** Id of the cluster (default: generated); letters, digits, dots, dashes. */
        public ClusterCreate id(String id) {
            set("id", id);
            return this;
        }

        /** Number of brokers. */
        public ClusterCreate brokers(long brokers) {
            set("brokers", brokers);
            return this;
        }

        /** Topic name: partitions (-1: num.partitions), or a map with partitions and settings. */
        public ClusterCreate topics(Map<String, ?> topics) {
            set("topics", topics);
            return this;
        }

        /** The Kafka release to behave as. */
        public ClusterCreate asVersion(String asVersion) {
            set("as_version", asVersion);
            return this;
        }

        /** Settings by Kafka's names. */
        public ClusterCreate config(Map<String, ?> config) {
            set("config", config);
            return this;
        }

        /** What clients must do; one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL. */
        public ClusterCreate securityProtocol(String securityProtocol) {
            set("security_protocol", securityProtocol);
            return this;
        }

        /** Passwords by user name, for SASL. */
        public ClusterCreate users(Map<String, String> users) {
            set("users", users);
            return this;
        }

        /** When __consumer_offsets and the other internal topics are created; one of on-demand, at-start. */
        public ClusterCreate internalTopics(String internalTopics) {
            set("internal_topics", internalTopics);
            return this;
        }

        /** Real, scaled:N or manual. */
        public ClusterCreate clock(String clock) {
            set("clock", clock);
            return this;
        }

        /** Seed of the random numbers. */
        public ClusterCreate seed(String seed) {
            set("seed", seed);
            return this;
        }

        /** An included scenario whose cluster and topics it has; with scenario_file: the file's name. */
        public ClusterCreate scenario(String scenario) {
            set("scenario", scenario);
            return this;
        }

        /** The text of a scenario file, whose cluster and topics it has. */
        public ClusterCreate scenarioFile(String scenarioFile) {
            set("scenario_file", scenarioFile);
            return this;
        }

        /** Name of its directory within the data directory (default: in memory). */
        public ClusterCreate data(String data) {
            set("data", data);
            return this;
        }
    }

    /** Cluster.get: Show a virtual cluster: bootstrap address, release, clock, topics. */
    public static final class ClusterGet extends Call<Answers.Cluster> {
        private ClusterGet(Control control, String cluster) {
            super(control, "GET", "/clusters/" + encoded(cluster), answer -> Answers.Cluster.of(Json.object(Json.parse(answer))));
        }
    }

    /** Cluster.delete: Stop a virtual cluster; the cluster that the process was started for can't be stopped. */
    public static final class ClusterDelete extends Call<Answers.ClusterDeleteAnswer> {
        private ClusterDelete(Control control, String cluster) {
            super(control, "DELETE", "/clusters/" + encoded(cluster), answer -> Answers.ClusterDeleteAnswer.of(Json.object(Json.parse(answer))));
        }
    }

    /** Group.list: List all groups with their states and members. */
    public static final class GroupList extends Call<Answers.GroupListAnswer> {
        private GroupList(Control control, String cluster) {
            super(control, "GET", cluster + "/groups", answer -> Answers.GroupListAnswer.of(Json.object(Json.parse(answer))));
        }
    }

    /** Group.get: Show a group: state, generation, members with assignments, offsets, lag; with a condition, once it holds. */
    public static final class GroupGet extends Call<Answers.Group> {
        private GroupGet(Control control, String cluster, String group) {
            super(control, "GET", cluster + "/groups/" + encoded(group), answer -> Answers.Group.of(Json.object(Json.parse(answer))));
        }

        /** Wait for this state; one of Empty, PreparingRebalance, CompletingRebalance, Stable, Dead, Assigning, Reconciling. */
        public GroupGet wait(String wait) {
            set("wait", wait);
            return this;
        }

        /** Number of members. */
        public GroupGet members(long members) {
            set("members", members);
            return this;
        }

        /** This generation or a later one. */
        public GroupGet generation(long generation) {
            set("generation", generation);
            return this;
        }

        /** Committed offsets, these or later ones: orders-0=5,orders-1=7. */
        public GroupGet committed(Map<String, Long> committed) {
            set("committed", committed);
            return this;
        }

        /** Upper bound of the total lag (exclusive); also requires records, an owner for every partition, no negative lag. */
        public GroupGet lagBelow(long lagBelow) {
            set("lag_below", lagBelow);
            return this;
        }

        /** Every assigned partition was fetched by its owner, so that records produced now are delivered. */
        public GroupGet reading(boolean reading) {
            set("reading", reading);
            return this;
        }

        /** Timeout, in real time. */
        public GroupGet timeout(Duration timeout) {
            set("timeout", timeout);
            return this;
        }
    }

    /** Group.wait: Wait until all conditions hold for a group at the same time; the group may not exist yet. */
    public static final class GroupWait extends Call<Answers.Group> {
        private GroupWait(Control control, String cluster, String group) {
            super(control, "GET", cluster + "/groups/" + encoded(group) + "/wait", answer -> Answers.Group.of(Json.object(Json.parse(answer))));
        }

        /** The group's state; one of Empty, PreparingRebalance, CompletingRebalance, Stable, Dead, Assigning, Reconciling. */
        public GroupWait state(String state) {
            set("state", state);
            return this;
        }

        /** Number of members. */
        public GroupWait members(long members) {
            set("members", members);
            return this;
        }

        /** This generation or a later one. */
        public GroupWait generation(long generation) {
            set("generation", generation);
            return this;
        }

        /** Committed offsets, these or later ones: orders-0=5,orders-1=7. */
        public GroupWait committed(Map<String, Long> committed) {
            set("committed", committed);
            return this;
        }

        /** Upper bound of the total lag (exclusive); also requires records, an owner for every partition, no negative lag. */
        public GroupWait lagBelow(long lagBelow) {
            set("lag_below", lagBelow);
            return this;
        }

        /** Every assigned partition was fetched by its owner, so that records produced now are delivered. */
        public GroupWait reading(boolean reading) {
            set("reading", reading);
            return this;
        }

        /** No member has that member id, instance id or client id. */
        public GroupWait memberGone(String memberGone) {
            set("member_gone", memberGone);
            return this;
        }

        /** Timeout, in real time. */
        public GroupWait timeout(Duration timeout) {
            set("timeout", timeout);
            return this;
        }
    }

    /** Group.explain: Explain in words why a group rebalanced, who delayed it, for how long, and how it ended. */
    public static final class GroupExplain extends Call<Answers.GroupExplainAnswer> {
        private GroupExplain(Control control, String cluster, String group) {
            super(control, "GET", cluster + "/groups/" + encoded(group) + "/explain", answer -> Answers.GroupExplainAnswer.of(Json.object(Json.parse(answer))));
        }

        /** Only this generation. */
        public GroupExplain generation(long generation) {
            set("generation", generation);
            return this;
        }
    }

    /** Group.timeline: Draw a group's history: members as lanes, generations as bands, faults as marks. */
    public static final class GroupTimeline extends Call<Answers.GroupTimelineAnswer> {
        private GroupTimeline(Control control, String cluster, String group) {
            super(control, "GET", cluster + "/groups/" + encoded(group) + "/timeline", answer -> Answers.GroupTimelineAnswer.of(Json.object(Json.parse(answer))));
        }

        /** Text, or a picture; one of text, svg, html. */
        public GroupTimeline form(String form) {
            set("form", form);
            return this;
        }

        /** Width of the text, in characters. */
        public GroupTimeline width(long width) {
            set("width", width);
            return this;
        }
    }

    /** Group.timeline: Draw a group's history: members as lanes, generations as bands, faults as marks. */
    public static final class GroupTimelineSvg extends Call<String> {
        private GroupTimelineSvg(Control control, String cluster, String group) {
            super(control, "GET", cluster + "/groups/" + encoded(group) + "/timeline.svg", answer -> answer);
        }

        /** Text, or a picture; one of text, svg, html. */
        public GroupTimelineSvg form(String form) {
            set("form", form);
            return this;
        }

        /** Width of the text, in characters. */
        public GroupTimelineSvg width(long width) {
            set("width", width);
            return this;
        }
    }

    /** Group.timeline: Draw a group's history: members as lanes, generations as bands, faults as marks. */
    public static final class GroupTimelineHtml extends Call<String> {
        private GroupTimelineHtml(Control control, String cluster, String group) {
            super(control, "GET", cluster + "/groups/" + encoded(group) + "/timeline.html", answer -> answer);
        }

        /** Text, or a picture; one of text, svg, html. */
        public GroupTimelineHtml form(String form) {
            set("form", form);
            return this;
        }

        /** Width of the text, in characters. */
        public GroupTimelineHtml width(long width) {
            set("width", width);
            return this;
        }
    }

    /** Group.commit: Wait for the next successful commit of a group; returns its offsets. */
    public static final class GroupCommit extends Call<Answers.GroupCommitAnswer> {
        private GroupCommit(Control control, String cluster, String group) {
            super(control, "GET", cluster + "/groups/" + encoded(group) + "/commit", answer -> Answers.GroupCommitAnswer.of(Json.object(Json.parse(answer))));
        }

        /** Accept a commit after this journal sequence number (default: the next commit). */
        public GroupCommit since(long since) {
            set("since", since);
            return this;
        }

        /** Timeout, in real time. */
        public GroupCommit timeout(Duration timeout) {
            set("timeout", timeout);
            return this;
        }
    }

    /** Group.probe: Check whether the group's coordinator accepts commits now, without affecting the group. */
    public static final class GroupProbe extends Call<Answers.GroupProbeAnswer> {
        private GroupProbe(Control control, String cluster, String group) {
            super(control, "POST", cluster + "/groups/" + encoded(group) + "/probe", answer -> Answers.GroupProbeAnswer.of(Json.object(Json.parse(answer))));
        }

        /** Allow a group or transactional id that does not exist yet. */
        public GroupProbe ahead(boolean ahead) {
            set("ahead", ahead);
            return this;
        }

        /** Timeout, in real time. */
        public GroupProbe timeout(Duration timeout) {
            set("timeout", timeout);
            return this;
        }
    }

    /** Group.remove_member: Remove a member from its group with LeaveGroup, as an admin client does. */
    public static final class GroupRemoveMember extends Call<Answers.Group> {
        private GroupRemoveMember(Control control, String cluster, String group, String member) {
            super(control, "DELETE", cluster + "/groups/" + encoded(group) + "/members/" + encoded(member), answer -> Answers.Group.of(Json.object(Json.parse(answer))));
        }

        /** Timeout, in real time. */
        public GroupRemoveMember timeout(Duration timeout) {
            set("timeout", timeout);
            return this;
        }
    }

    /** Share.get: Show a share group: position in each partition, records left, and acquired records with their members. */
    public static final class ShareGet extends Call<Answers.ShareGroup> {
        private ShareGet(Control control, String cluster, String group) {
            super(control, "GET", cluster + "/share-groups/" + encoded(group), answer -> Answers.ShareGroup.of(Json.object(Json.parse(answer))));
        }
    }

    /** Share.expire: Expire acquisition locks of a share group now: all, or those of a topic, a partition or a member. */
    public static final class ShareExpire extends Call<Answers.ShareExpireAnswer> {
        private ShareExpire(Control control, String cluster, String group) {
            super(control, "POST", cluster + "/share-groups/" + encoded(group) + "/expire", answer -> Answers.ShareExpireAnswer.of(Json.object(Json.parse(answer))));
        }

        /** The topic. */
        public ShareExpire topic(String topic) {
            set("topic", topic);
            return this;
        }

        /** The partition, from 0. */
        public ShareExpire partition(long partition) {
            set("partition", partition);
            return this;
        }

        /** Its member id or client id. */
        public ShareExpire member(String member) {
            set("member", member);
            return this;
        }
    }

    /** Share.wait_locked: Wait until a member of a share group has acquired a record; the group may not exist yet. */
    public static final class ShareWaitLocked extends Call<Answers.ShareGroup> {
        private ShareWaitLocked(Control control, String cluster, String group, String topic, long partition, long offset) {
            super(control, "GET", cluster + "/share-groups/" + encoded(group) + "/locked", answer -> Answers.ShareGroup.of(Json.object(Json.parse(answer))));
            set("topic", topic);
            set("partition", partition);
            set("offset", offset);
        }

        /** Its member id or client id. */
        public ShareWaitLocked member(String member) {
            set("member", member);
            return this;
        }

        /** Timeout, in real time. */
        public ShareWaitLocked timeout(Duration timeout) {
            set("timeout", timeout);
            return this;
        }
    }

    /** Share.wait_unlocked: Wait until no member of a share group has an acquired record. */
    public static final class ShareWaitUnlocked extends Call<Answers.ShareGroup> {
        private ShareWaitUnlocked(Control control, String cluster, String group) {
            super(control, "GET", cluster + "/share-groups/" + encoded(group) + "/unlocked", answer -> Answers.ShareGroup.of(Json.object(Json.parse(answer))));
        }

        /** Timeout, in real time. */
        public ShareWaitUnlocked timeout(Duration timeout) {
            set("timeout", timeout);
            return this;
        }
    }

    /** Share.wait_delivered: Wait until a record was delivered this often to a share group; the group may not exist yet. */
    public static final class ShareWaitDelivered extends Call<Answers.ShareGroup> {
        private ShareWaitDelivered(Control control, String cluster, String group, String topic, long partition, long offset) {
            super(control, "GET", cluster + "/share-groups/" + encoded(group) + "/delivered", answer -> Answers.ShareGroup.of(Json.object(Json.parse(answer))));
            set("topic", topic);
            set("partition", partition);
            set("offset", offset);
        }

        /** Number of times. */
        public ShareWaitDelivered times(long times) {
            set("times", times);
            return this;
        }

        /** Timeout, in real time. */
        public ShareWaitDelivered timeout(Duration timeout) {
            set("timeout", timeout);
            return this;
        }
    }

    /** Share.deliveries: List the recorded deliveries of a record: to which member, and how each ended. */
    public static final class ShareDeliveries extends Call<Answers.ShareDeliveriesAnswer> {
        private ShareDeliveries(Control control, String cluster, String group, String topic, long partition, long offset) {
            super(control, "GET", cluster + "/share-groups/" + encoded(group) + "/deliveries", answer -> Answers.ShareDeliveriesAnswer.of(Json.object(Json.parse(answer))));
            set("topic", topic);
            set("partition", partition);
            set("offset", offset);
        }
    }

    /** Transaction.list: List all transactional ids with their states, producer ids and epochs. */
    public static final class TransactionList extends Call<Answers.TransactionListAnswer> {
        private TransactionList(Control control, String cluster) {
            super(control, "GET", cluster + "/transactions", answer -> Answers.TransactionListAnswer.of(Json.object(Json.parse(answer))));
        }
    }

    /** Transaction.get: Show a transactional id: state, producer id, epoch, and the partitions that have no marker yet. */
    public static final class TransactionGet extends Call<Answers.Transaction> {
        private TransactionGet(Control control, String cluster, String transactionalId) {
            super(control, "GET", cluster + "/transactions/" + encoded(transactionalId), answer -> Answers.Transaction.of(Json.object(Json.parse(answer))));
        }
    }

    /** Transaction.wait: Wait until all conditions hold for a transactional id at the same time; it may not exist yet. */
    public static final class TransactionWait extends Call<Answers.Transaction> {
        private TransactionWait(Control control, String cluster, String transactionalId) {
            super(control, "GET", cluster + "/transactions/" + encoded(transactionalId) + "/wait", answer -> Answers.Transaction.of(Json.object(Json.parse(answer))));
        }

        /** Its state; one of Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort, Dead. */
        public TransactionWait state(String state) {
            set("state", state);
            return this;
        }

        /** This producer epoch or a later one. */
        public TransactionWait epoch(long epoch) {
            set("epoch", epoch);
            return this;
        }

        /** Timeout, in real time. */
        public TransactionWait timeout(Duration timeout) {
            set("timeout", timeout);
            return this;
        }
    }

    /** Transaction.explain: Explain in words how the transactions of an id ended, by whom, how long each took, and what it delayed. */
    public static final class TransactionExplain extends Call<Answers.TransactionExplainAnswer> {
        private TransactionExplain(Control control, String cluster, String transactionalId) {
            super(control, "GET", cluster + "/transactions/" + encoded(transactionalId) + "/explain", answer -> Answers.TransactionExplainAnswer.of(Json.object(Json.parse(answer))));
        }
    }

    /** Transaction.abort: Fence the producer of a transactional id, and abort its transaction, as Admin.fenceProducers does. */
    public static final class TransactionAbort extends Call<Answers.Transaction> {
        private TransactionAbort(Control control, String cluster, String transactionalId) {
            super(control, "POST", cluster + "/transactions/" + encoded(transactionalId) + "/abort", answer -> Answers.Transaction.of(Json.object(Json.parse(answer))));
        }

        /** Timeout, in real time. */
        public TransactionAbort timeout(Duration timeout) {
            set("timeout", timeout);
            return this;
        }
    }

    /** Transaction.hanging: List hanging transactions of a partition: open, and unknown to the transaction coordinator. */
    public static final class TransactionHanging extends Call<Answers.TransactionHangingAnswer> {
        private TransactionHanging(Control control, String cluster) {
            super(control, "GET", cluster + "/hanging-transactions", answer -> Answers.TransactionHangingAnswer.of(Json.object(Json.parse(answer))));
        }
    }

    /** Transaction.abort_hanging: Write an abort marker for a producer's open transaction in a partition, as kafka-transactions abort does. */
    public static final class TransactionAbortHanging extends Call<Answers.TransactionAbortHangingAnswer> {
        private TransactionAbortHanging(Control control, String cluster, String log, long producerId) {
            super(control, "POST", cluster + "/logs/" + encoded(log) + "/transactions/" + encoded(producerId) + "/abort", answer -> Answers.TransactionAbortHangingAnswer.of(Json.object(Json.parse(answer))));
        }

        /** Timeout, in real time. */
        public TransactionAbortHanging timeout(Duration timeout) {
            set("timeout", timeout);
            return this;
        }
    }

    /** Journal.read: List events, oldest first; over HTTP one JSON object per line. */
    public static final class JournalRead extends Call<List<Map<String, Object>>> {
        private JournalRead(Control control, String cluster) {
            super(control, "GET", cluster + "/journal", answer -> answer.lines().map(line -> Json.object(Json.parse(line))).toList());
        }

        /** Only events after this sequence number. */
        public JournalRead since(long since) {
            set("since", since);
            return this;
        }

        /** Maximum number of events; the latest are returned. */
        public JournalRead limit(long limit) {
            set("limit", limit);
            return this;
        }

        /** Only this kind of event; one of connection, request, response, fault_added, fault, fault_removed, group, epochs, timer, append, committed, offsets, offsets_deleted, pending_offsets, transaction, marker, last_stable_offset, share_partition, delivery, topic, state, leader, data_loss, broker, cluster, load, clock, order, client, mark. */
        public JournalRead event(String event) {
            set("event", event);
            return this;
        }

        /** Only events of requests of this API; * matches anything. */
        public JournalRead api(String api) {
            set("api", api);
            return this;
        }

        /** Only events of this group; * matches anything. */
        public JournalRead group(String group) {
            set("group", group);
            return this;
        }

        /** Only events of this request. */
        public JournalRead request(long request) {
            set("request", request);
            return this;
        }
    }

    /** Journal.next: Wait for the first matching event and return it; the event of an answered request contains the response. */
    public static final class JournalNext extends Call<Map<String, Object>> {
        private JournalNext(Control control, String cluster) {
            super(control, "GET", cluster + "/journal/next", answer -> Json.object(Json.parse(answer)));
        }

        /** This kind of event (default: response); one of connection, request, response, fault_added, fault, fault_removed, group, epochs, timer, append, committed, offsets, offsets_deleted, pending_offsets, transaction, marker, last_stable_offset, share_partition, delivery, topic, state, leader, data_loss, broker, cluster, load, clock, order, client, mark. */
        public JournalNext event(String event) {
            set("event", event);
            return this;
        }

        /** A request of this API, or its response. */
        public JournalNext api(String api) {
            set("api", api);
            return this;
        }

        /** It is about this group. */
        public JournalNext group(String group) {
            set("group", group);
            return this;
        }

        /** The response has this error; NONE: success. */
        public JournalNext error(String error) {
            set("error", error);
            return this;
        }

        /** Only events after this sequence number (default: all). */
        public JournalNext since(long since) {
            set("since", since);
            return this;
        }

        /** Timeout, in real time. */
        public JournalNext timeout(Duration timeout) {
            set("timeout", timeout);
            return this;
        }
    }

    /** Journal.recent: Describe the recent history of every group, refused clients and unanswered requests: for a failed test's report. */
    public static final class JournalRecent extends Call<Answers.JournalRecentAnswer> {
        private JournalRecent(Control control, String cluster) {
            super(control, "GET", cluster + "/journal/recent", answer -> Answers.JournalRecentAnswer.of(Json.object(Json.parse(answer))));
        }
    }

    /** Journal.mark: Write a note into the journal; timelines show it. */
    public static final class JournalMark extends Call<Map<String, Object>> {
        private JournalMark(Control control, String cluster, String text) {
            super(control, "POST", cluster + "/journal/marks", answer -> Json.object(Json.parse(answer)));
            set("text", text);
        }
    }

    /** State.set: Set a fault state of a log partition; its leader and its group coordinator behave accordingly until it is cleared. */
    public static final class StateSet extends Call<Answers.Log> {
        private StateSet(Control control, String cluster, String log, String state) {
            super(control, "PUT", cluster + "/logs/" + encoded(log) + "/state", answer -> Answers.Log.of(Json.object(Json.parse(answer))));
            set("state", state);
        }

        /** Clear the state after this time on the broker's clock. */
        public StateSet for_(Duration for_) {
            set("for", for_);
            return this;
        }

        /** Slow: delay of each append until it is committed. */
        public StateSet latency(Duration latency) {
            set("latency", latency);
            return this;
        }

        /** Slow: maximum random additional delay. */
        public StateSet jitter(Duration jitter) {
            set("jitter", jitter);
            return this;
        }

        /** Stuck: when the non-fetching followers leave the ISR. */
        public StateSet isrShrinksAfter(Duration isrShrinksAfter) {
            set("isr_shrinks_after", isrShrinksAfter);
            return this;
        }

        /** Full: remaining space in bytes. */
        public StateSet freeBytes(long freeBytes) {
            set("free_bytes", freeBytes);
            return this;
        }

        /** Clear a state that excludes this one. */
        public StateSet replace(boolean replace) {
            set("replace", replace);
            return this;
        }

        /** Allow a group or transactional id that does not exist yet. */
        public StateSet ahead(boolean ahead) {
            set("ahead", ahead);
            return this;
        }
    }

    /** State.heal: Clear the fault states of a log partition; pending requests continue. */
    public static final class StateHeal extends Call<Answers.Log> {
        private StateHeal(Control control, String cluster, String log) {
            super(control, "DELETE", cluster + "/logs/" + encoded(log) + "/state", answer -> Answers.Log.of(Json.object(Json.parse(answer))));
        }

        /** Only this state (default: all states of the log); one of stuck, under_min_isr, slow, storage_error, full, readonly, too_large, not_leader, fenced, no_leader, loading, online. */
        public StateHeal state(String state) {
            set("state", state);
            return this;
        }

        /** Only the state with this id; no error if it has already ended. */
        public StateHeal id(long id) {
            set("id", id);
            return this;
        }

        /** Allow a group or transactional id that does not exist yet. */
        public StateHeal ahead(boolean ahead) {
            set("ahead", ahead);
            return this;
        }
    }

    /** State.list: List the active fault states of all log partitions. */
    public static final class StateList extends Call<Answers.StateListAnswer> {
        private StateList(Control control, String cluster) {
            super(control, "GET", cluster + "/states", answer -> Answers.StateListAnswer.of(Json.object(Json.parse(answer))));
        }
    }

    /** Log.get: Show a log partition: leader, replicas, offsets, fault states. */
    public static final class LogGet extends Call<Answers.Log> {
        private LogGet(Control control, String cluster, String log) {
            super(control, "GET", cluster + "/logs/" + encoded(log), answer -> Answers.Log.of(Json.object(Json.parse(answer))));
        }

        /** Allow a group or transactional id that does not exist yet. */
        public LogGet ahead(boolean ahead) {
            set("ahead", ahead);
            return this;
        }
    }

    /** Log.fill: Append records to a partition, as a producer does. */
    public static final class LogFill extends Call<Answers.Log> {
        private LogFill(Control control, String cluster, String log, long records) {
            super(control, "POST", cluster + "/logs/" + encoded(log) + "/records", answer -> Answers.Log.of(Json.object(Json.parse(answer))));
            set("records", records);
        }

        /** Size of each value in bytes (default: a short text). */
        public LogFill valueBytes(long valueBytes) {
            set("value_bytes", valueBytes);
            return this;
        }
    }

    /** Log.wait: Wait until this many requests have an append in a log that is not committed yet. */
    public static final class LogWait extends Call<Answers.LogWaitAnswer> {
        private LogWait(Control control, String cluster, String log) {
            super(control, "GET", cluster + "/logs/" + encoded(log) + "/pending", answer -> Answers.LogWaitAnswer.of(Json.object(Json.parse(answer))));
        }

        /** Number of pending requests. */
        public LogWait pending(long pending) {
            set("pending", pending);
            return this;
        }

        /** Allow a group or transactional id that does not exist yet. */
        public LogWait ahead(boolean ahead) {
            set("ahead", ahead);
            return this;
        }

        /** Timeout, in real time. */
        public LogWait timeout(Duration timeout) {
            set("timeout", timeout);
            return this;
        }
    }

    /** Log.lose_tail: Delete committed records at the end of a log, as an unclean leader election or a restored disk does. */
    public static final class LogLoseTail extends Call<Answers.Log> {
        private LogLoseTail(Control control, String cluster, String log) {
            super(control, "POST", cluster + "/logs/" + encoded(log) + "/tail/loss", answer -> Answers.Log.of(Json.object(Json.parse(answer))));
        }

        /** How many records. */
        public LogLoseTail records(long records) {
            set("records", records);
            return this;
        }

        /** Instead of records: the new end or start offset of the log. */
        public LogLoseTail to(long to) {
            set("to", to);
            return this;
        }

        /** Node id of the new leader (default: another replica that is up). */
        public LogLoseTail leader(long leader) {
            set("leader", leader);
            return this;
        }

        /** Allow a group or transactional id that does not exist yet. */
        public LogLoseTail ahead(boolean ahead) {
            set("ahead", ahead);
            return this;
        }
    }

    /** Log.lose_head: Delete the first records of a log, as a leader whose log starts later does. */
    public static final class LogLoseHead extends Call<Answers.Log> {
        private LogLoseHead(Control control, String cluster, String log) {
            super(control, "POST", cluster + "/logs/" + encoded(log) + "/head/loss", answer -> Answers.Log.of(Json.object(Json.parse(answer))));
        }

        /** How many records. */
        public LogLoseHead records(long records) {
            set("records", records);
            return this;
        }

        /** Instead of records: the new end or start offset of the log. */
        public LogLoseHead to(long to) {
            set("to", to);
            return this;
        }

        /** Node id of the new leader (default: another replica that is up). */
        public LogLoseHead leader(long leader) {
            set("leader", leader);
            return this;
        }

        /** Allow a group or transactional id that does not exist yet. */
        public LogLoseHead ahead(boolean ahead) {
            set("ahead", ahead);
            return this;
        }
    }

    /** Leader.move: Move the leader of a log partition; for an offsets partition this moves the coordinator of its groups. */
    public static final class LeaderMove extends Call<Answers.Log> {
        private LeaderMove(Control control, String cluster, String log) {
            super(control, "POST", cluster + "/logs/" + encoded(log) + "/leader", answer -> Answers.Log.of(Json.object(Json.parse(answer))));
        }

        /** Node id of the new leader (default: the next broker that is up). */
        public LeaderMove broker(long broker) {
            set("broker", broker);
            return this;
        }

        /** Allow a group or transactional id that does not exist yet. */
        public LeaderMove ahead(boolean ahead) {
            set("ahead", ahead);
            return this;
        }
    }

    /** Leader.elect: Increment the leader epoch; requests with the old one get FENCED_LEADER_EPOCH. */
    public static final class LeaderElect extends Call<Answers.Log> {
        private LeaderElect(Control control, String cluster, String log) {
            super(control, "POST", cluster + "/logs/" + encoded(log) + "/elect", answer -> Answers.Log.of(Json.object(Json.parse(answer))));
        }

        /** An in-sync replica (default: the current leader). */
        public LeaderElect broker(long broker) {
            set("broker", broker);
            return this;
        }

        /** Allow a group or transactional id that does not exist yet. */
        public LeaderElect ahead(boolean ahead) {
            set("ahead", ahead);
            return this;
        }
    }

    /** Leader.prefer: Elect the preferred leader of every partition whose first replica is alive and in sync. */
    public static final class LeaderPrefer extends Call<Answers.LeaderPreferAnswer> {
        private LeaderPrefer(Control control, String cluster) {
            super(control, "POST", cluster + "/leaders/preferred", answer -> Answers.LeaderPreferAnswer.of(Json.object(Json.parse(answer))));
        }
    }

    /** Request.list: List the requests that the brokers received, the latest ones, oldest first; received: the number of all that fit. */
    public static final class RequestList extends Call<Answers.RequestListAnswer> {
        private RequestList(Control control, String cluster) {
            super(control, "GET", cluster + "/requests", answer -> Answers.RequestListAnswer.of(Json.object(Json.parse(answer))));
        }

        /** API name, for example OffsetCommit, or a list; * matches anything (default: all). */
        public RequestList api(String... api) {
            set("api", List.of(api));
            return this;
        }

        /** API versions: 8 or 2-4. */
        public RequestList version(String version) {
            set("version", version);
            return this;
        }

        /** Client id; * matches anything. */
        public RequestList clientId(String clientId) {
            set("client_id", clientId);
            return this;
        }

        /** Group id in the request; * matches anything. */
        public RequestList group(String group) {
            set("group", group);
            return this;
        }

        /** Member id or instance id in the request; * matches anything. */
        public RequestList member(String member) {
            set("member", member);
            return this;
        }

        /** Transactional id in the request; * matches anything. */
        public RequestList transactionalId(String transactionalId) {
            set("transactional_id", transactionalId);
            return this;
        }

        /** Topic in the request; * matches anything. */
        public RequestList topic(String topic) {
            set("topic", topic);
            return this;
        }

        /** A partition of that topic. */
        public RequestList partition(long partition) {
            set("partition", partition);
            return this;
        }

        /** Only at the broker with this node id. */
        public RequestList broker(long broker) {
            set("broker", broker);
            return this;
        }

        /** At most so many, the latest. */
        public RequestList limit(long limit) {
            set("limit", limit);
            return this;
        }
    }

    /** Request.wait: Wait until the brokers have received so many requests, earlier ones included; answers as request.list. */
    public static final class RequestWait extends Call<Answers.RequestWaitAnswer> {
        private RequestWait(Control control, String cluster) {
            super(control, "GET", cluster + "/requests/wait", answer -> Answers.RequestWaitAnswer.of(Json.object(Json.parse(answer))));
        }

        /** Number of requests. */
        public RequestWait count(long count) {
            set("count", count);
            return this;
        }

        /** API name, for example OffsetCommit, or a list; * matches anything (default: all). */
        public RequestWait api(String... api) {
            set("api", List.of(api));
            return this;
        }

        /** API versions: 8 or 2-4. */
        public RequestWait version(String version) {
            set("version", version);
            return this;
        }

        /** Client id; * matches anything. */
        public RequestWait clientId(String clientId) {
            set("client_id", clientId);
            return this;
        }

        /** Group id in the request; * matches anything. */
        public RequestWait group(String group) {
            set("group", group);
            return this;
        }

        /** Member id or instance id in the request; * matches anything. */
        public RequestWait member(String member) {
            set("member", member);
            return this;
        }

        /** Transactional id in the request; * matches anything. */
        public RequestWait transactionalId(String transactionalId) {
            set("transactional_id", transactionalId);
            return this;
        }

        /** Topic in the request; * matches anything. */
        public RequestWait topic(String topic) {
            set("topic", topic);
            return this;
        }

        /** A partition of that topic. */
        public RequestWait partition(long partition) {
            set("partition", partition);
            return this;
        }

        /** Only at the broker with this node id. */
        public RequestWait broker(long broker) {
            set("broker", broker);
            return this;
        }

        /** Only requests with a response. */
        public RequestWait answered(boolean answered) {
            set("answered", answered);
            return this;
        }

        /** At most so many, the latest. */
        public RequestWait limit(long limit) {
            set("limit", limit);
            return this;
        }

        /** Timeout, in real time. */
        public RequestWait timeout(Duration timeout) {
            set("timeout", timeout);
            return this;
        }
    }

    /** Fault.add: Add a request rule: selectors (all must match), how often it applies, and one action. */
    public static final class FaultAdd extends Call<Answers.FaultAddAnswer> {
        private FaultAdd(Control control, String cluster) {
            super(control, "POST", cluster + "/faults", answer -> Answers.FaultAddAnswer.of(Json.object(Json.parse(answer))));
        }

        /** API name, for example OffsetCommit, or a list; * matches anything (default: all). */
        public FaultAdd api(String... api) {
            set("api", List.of(api));
            return this;
        }

        /** API versions: 8 or 2-4. */
        public FaultAdd version(String version) {
            set("version", version);
            return this;
        }

        /** Client id; * matches anything. */
        public FaultAdd clientId(String clientId) {
            set("client_id", clientId);
            return this;
        }

        /** Group id in the request; * matches anything. */
        public FaultAdd group(String group) {
            set("group", group);
            return this;
        }

        /** Member id or instance id in the request; * matches anything. */
        public FaultAdd member(String member) {
            set("member", member);
            return this;
        }

        /** Transactional id in the request; * matches anything. */
        public FaultAdd transactionalId(String transactionalId) {
            set("transactional_id", transactionalId);
            return this;
        }

        /** Topic in the request; * matches anything. */
        public FaultAdd topic(String topic) {
            set("topic", topic);
            return this;
        }

        /** A partition of that topic. */
        public FaultAdd partition(long partition) {
            set("partition", partition);
            return this;
        }

        /** Only at the broker with this node id. */
        public FaultAdd broker(long broker) {
            set("broker", broker);
            return this;
        }

        /** Only the n-th match, from 1. */
        public FaultAdd nth(long nth) {
            set("nth", nth);
            return this;
        }

        /** Maximum number of matches (default: unlimited). */
        public FaultAdd times(long times) {
            set("times", times);
            return this;
        }

        /** Probability of a match, from the cluster's seed. */
        public FaultAdd probability(double probability) {
            set("probability", probability);
            return this;
        }

        /** Start this long after the rule was added. */
        public FaultAdd after(Duration after) {
            set("after", after);
            return this;
        }

        /** End this long after it began (default: with its removal). */
        public FaultAdd during(Duration during) {
            set("during", during);
            return this;
        }

        /** Respond with this error; the request is not applied. */
        public FaultAdd error(String error) {
            set("error", error);
            return this;
        }

        /** Apply the request, then respond with this error. */
        public FaultAdd errorAfter(String errorAfter) {
            set("error_after", errorAfter);
            return this;
        }

        /** Handle the request after this delay. */
        public FaultAdd delay(Duration delay) {
            set("delay", delay);
            return this;
        }

        /** Handle the request, respond after this delay. */
        public FaultAdd replyDelay(Duration replyDelay) {
            set("reply_delay", replyDelay);
            return this;
        }

        /** Never handle or answer the request. */
        public FaultAdd hang(boolean hang) {
            set("hang", hang);
            return this;
        }

        /** Reset the connection; the request is not applied. */
        public FaultAdd drop(boolean drop) {
            set("drop", drop);
            return this;
        }

        /** Apply the request, then reset the connection. */
        public FaultAdd dropAfter(boolean dropAfter) {
            set("drop_after", dropAfter);
            return this;
        }

        /** Send this many bytes of the response, then close the connection. */
        public FaultAdd truncate(long truncate) {
            set("truncate", truncate);
            return this;
        }

        /** Send the response in two parts, the first with this many bytes. */
        public FaultAdd split(long split) {
            set("split", split);
            return this;
        }

        /** Throttle_time_ms of the response; the connection is muted for that time. */
        public FaultAdd throttleMs(long throttleMs) {
            set("throttle_ms", throttleMs);
            return this;
        }

        /** Split: delay between the two parts. */
        public FaultAdd gap(Duration gap) {
            set("gap", gap);
            return this;
        }

        /** Removing the rule before it matched is an error (default: true, except with a probability). */
        public FaultAdd mustHit(boolean mustHit) {
            set("must_hit", mustHit);
            return this;
        }
    }

    /** Fault.list: List the request rules, oldest first. */
    public static final class FaultList extends Call<Answers.FaultListAnswer> {
        private FaultList(Control control, String cluster) {
            super(control, "GET", cluster + "/faults", answer -> Answers.FaultListAnswer.of(Json.object(Json.parse(answer))));
        }
    }

    /** Fault.clear: Remove all rules, matched or not. */
    public static final class FaultClear extends Call<Answers.FaultClearAnswer> {
        private FaultClear(Control control, String cluster) {
            super(control, "DELETE", cluster + "/faults", answer -> Answers.FaultClearAnswer.of(Json.object(Json.parse(answer))));
        }
    }

    /** Fault.get: Show a rule and how often it matched; with wait_hits, once it has matched that often. */
    public static final class FaultGet extends Call<Answers.Fault> {
        private FaultGet(Control control, String cluster, long fault) {
            super(control, "GET", cluster + "/faults/" + encoded(fault), answer -> Answers.Fault.of(Json.object(Json.parse(answer))));
        }

        /** Wait until it has matched this often. */
        public FaultGet waitHits(long waitHits) {
            set("wait_hits", waitHits);
            return this;
        }

        /** Timeout, in real time. */
        public FaultGet timeout(Duration timeout) {
            set("timeout", timeout);
            return this;
        }
    }

    /** Fault.remove: Remove a rule. If it was required to match and never did, it is removed and an error is returned. */
    public static final class FaultRemove extends Call<Answers.Fault> {
        private FaultRemove(Control control, String cluster, long fault) {
            super(control, "DELETE", cluster + "/faults/" + encoded(fault), answer -> Answers.Fault.of(Json.object(Json.parse(answer))));
        }

        /** False: no error if it never matched (default: as added). */
        public FaultRemove mustHit(boolean mustHit) {
            set("must_hit", mustHit);
            return this;
        }
    }

    /** Fault.wait: Wait until a rule has matched that often. */
    public static final class FaultWait extends Call<Answers.Fault> {
        private FaultWait(Control control, String cluster, long fault) {
            super(control, "GET", cluster + "/faults/" + encoded(fault) + "/hits", answer -> Answers.Fault.of(Json.object(Json.parse(answer))));
        }

        /** How many. */
        public FaultWait hits(long hits) {
            set("hits", hits);
            return this;
        }

        /** Timeout, in real time. */
        public FaultWait timeout(Duration timeout) {
            set("timeout", timeout);
            return this;
        }
    }

    /** Fault.release: Release the requests that a rule delays or leaves unanswered; the rule stays. */
    public static final class FaultRelease extends Call<Answers.Fault> {
        private FaultRelease(Control control, String cluster, long fault) {
            super(control, "POST", cluster + "/faults/" + encoded(fault) + "/release", answer -> Answers.Fault.of(Json.object(Json.parse(answer))));
        }
    }

    /** Order.hold: Hold matching requests, in arrival order, until they are released. */
    public static final class OrderHold extends Call<Answers.OrderHoldAnswer> {
        private OrderHold(Control control, String cluster) {
            super(control, "POST", cluster + "/order", answer -> Answers.OrderHoldAnswer.of(Json.object(Json.parse(answer))));
        }

        /** API name, for example OffsetCommit, or a list; * matches anything (default: all). */
        public OrderHold api(String... api) {
            set("api", List.of(api));
            return this;
        }

        /** API versions: 8 or 2-4. */
        public OrderHold version(String version) {
            set("version", version);
            return this;
        }

        /** Client id; * matches anything. */
        public OrderHold clientId(String clientId) {
            set("client_id", clientId);
            return this;
        }

        /** Group id in the request; * matches anything. */
        public OrderHold group(String group) {
            set("group", group);
            return this;
        }

        /** Member id or instance id in the request; * matches anything. */
        public OrderHold member(String member) {
            set("member", member);
            return this;
        }

        /** Transactional id in the request; * matches anything. */
        public OrderHold transactionalId(String transactionalId) {
            set("transactional_id", transactionalId);
            return this;
        }

        /** Topic in the request; * matches anything. */
        public OrderHold topic(String topic) {
            set("topic", topic);
            return this;
        }

        /** A partition of that topic. */
        public OrderHold partition(long partition) {
            set("partition", partition);
            return this;
        }

        /** Only at the broker with this node id. */
        public OrderHold broker(long broker) {
            set("broker", broker);
            return this;
        }
    }

    /** Order.list: List the holds and the requests that wait in them. */
    public static final class OrderList extends Call<Answers.OrderListAnswer> {
        private OrderList(Control control, String cluster) {
            super(control, "GET", cluster + "/order", answer -> Answers.OrderListAnswer.of(Json.object(Json.parse(answer))));
        }
    }

    /** Order.wait: Show the held requests of a hold; with waiting, once it holds that many. */
    public static final class OrderWait extends Call<Answers.Hold> {
        private OrderWait(Control control, String cluster, long hold) {
            super(control, "GET", cluster + "/order/" + encoded(hold), answer -> Answers.Hold.of(Json.object(Json.parse(answer))));
        }

        /** Wait until this many requests are held (0: don't wait). */
        public OrderWait waiting(long waiting) {
            set("waiting", waiting);
            return this;
        }

        /** Timeout, in real time. */
        public OrderWait timeout(Duration timeout) {
            set("timeout", timeout);
            return this;
        }
    }

    /** Order.remove: Remove a hold and release its requests, oldest first. */
    public static final class OrderRemove extends Call<Answers.Hold> {
        private OrderRemove(Control control, String cluster, long hold) {
            super(control, "DELETE", cluster + "/order/" + encoded(hold), answer -> Answers.Hold.of(Json.object(Json.parse(answer))));
        }
    }

    /** Order.release: Release held requests, oldest first; the hold stays active. */
    public static final class OrderRelease extends Call<Answers.Hold> {
        private OrderRelease(Control control, String cluster, long hold) {
            super(control, "POST", cluster + "/order/" + encoded(hold) + "/release", answer -> Answers.Hold.of(Json.object(Json.parse(answer))));
        }

        /** Number of requests, oldest first (default: all). */
        public OrderRelease count(long count) {
            set("count", count);
            return this;
        }
    }

    /** Order.step: Release the oldest held request, waiting for one if necessary, and return it. */
    public static final class OrderStep extends Call<Answers.OrderStepAnswer> {
        private OrderStep(Control control, String cluster, long hold) {
            super(control, "POST", cluster + "/order/" + encoded(hold) + "/step", answer -> Answers.OrderStepAnswer.of(Json.object(Json.parse(answer))));
        }

        /** Timeout, in real time. */
        public OrderStep timeout(Duration timeout) {
            set("timeout", timeout);
            return this;
        }
    }

    /** Order.record: Record the order of all requests from now on. */
    public static final class OrderRecord extends Call<Answers.OrderRecordAnswer> {
        private OrderRecord(Control control, String cluster) {
            super(control, "POST", cluster + "/order/recording", answer -> Answers.OrderRecordAnswer.of(Json.object(Json.parse(answer))));
        }
    }

    /** Order.recorded: Show the requests of the recorded order. */
    public static final class OrderRecorded extends Call<Answers.OrderRecordedAnswer> {
        private OrderRecorded(Control control, String cluster) {
            super(control, "GET", cluster + "/order/recording", answer -> Answers.OrderRecordedAnswer.of(Json.object(Json.parse(answer))));
        }
    }

    /** Order.stop: Stop the recording and return it. */
    public static final class OrderStop extends Call<Answers.OrderStopAnswer> {
        private OrderStop(Control control, String cluster) {
            super(control, "DELETE", cluster + "/order/recording", answer -> Answers.OrderStopAnswer.of(Json.object(Json.parse(answer))));
        }
    }

    /** Order.replay: Release requests in a recorded order; early ones wait. If an expected request never arrives, the replay has diverged. */
    public static final class OrderReplay extends Call<Answers.Replay> {
        private OrderReplay(Control control, String cluster, List<Map<String, Object>> entries) {
            super(control, "POST", cluster + "/order/replay", answer -> Answers.Replay.of(Json.object(Json.parse(answer))));
            set("entries", entries);
        }

        /** APIs that are not held back (default: ApiVersions, Fetch, Heartbeat, Metadata). */
        public OrderReplay free(String... free) {
            set("free", List.of(free));
            return this;
        }

        /** How long to wait for the next request while others are held, in real time. */
        public OrderReplay deadline(Duration deadline) {
            set("deadline", deadline);
            return this;
        }
    }

    /** Order.replayed: Show the progress of the replay; with done, once it is complete. A diverged replay is an error then. */
    public static final class OrderReplayed extends Call<Answers.Replay> {
        private OrderReplayed(Control control, String cluster) {
            super(control, "GET", cluster + "/order/replay", answer -> Answers.Replay.of(Json.object(Json.parse(answer))));
        }

        /** Wait until the whole recording was replayed. */
        public OrderReplayed done(boolean done) {
            set("done", done);
            return this;
        }

        /** Timeout, in real time. */
        public OrderReplayed timeout(Duration timeout) {
            set("timeout", timeout);
            return this;
        }
    }

    /** Order.unreplay: Stop the replay and release the waiting requests. */
    public static final class OrderUnreplay extends Call<Answers.Replay> {
        private OrderUnreplay(Control control, String cluster) {
            super(control, "DELETE", cluster + "/order/replay", answer -> Answers.Replay.of(Json.object(Json.parse(answer))));
        }
    }

    /** Topic.list: List all topics, internal ones included. */
    public static final class TopicList extends Call<Answers.TopicListAnswer> {
        private TopicList(Control control, String cluster) {
            super(control, "GET", cluster + "/topics", answer -> Answers.TopicListAnswer.of(Json.object(Json.parse(answer))));
        }
    }

    /** Topic.create: Create a topic; without a number of partitions it gets the broker's default. */
    public static final class TopicCreate extends Call<Answers.Topic> {
        private TopicCreate(Control control, String cluster, String topic) {
            super(control, "POST", cluster + "/topics", answer -> Answers.Topic.of(Json.object(Json.parse(answer))));
            set("topic", topic);
        }

        /** Number of partitions (default: num.partitions). */
        public TopicCreate partitions(long partitions) {
            set("partitions", partitions);
            return this;
        }

        /** Number of replicas (default: default.replication.factor). */
        public TopicCreate replicationFactor(long replicationFactor) {
            set("replication_factor", replicationFactor);
            return this;
        }

        /** Topic settings by Kafka's names. */
        public TopicCreate configs(Map<String, ?> configs) {
            set("configs", configs);
            return this;
        }
    }

    /** Topic.get: Show a topic: partitions, replication factor, number of records. */
    public static final class TopicGet extends Call<Answers.Topic> {
        private TopicGet(Control control, String cluster, String topic) {
            super(control, "GET", cluster + "/topics/" + encoded(topic), answer -> Answers.Topic.of(Json.object(Json.parse(answer))));
        }
    }

    /** Topic.delete: Delete a topic with all its records. */
    public static final class TopicDelete extends Call<Answers.TopicDeleteAnswer> {
        private TopicDelete(Control control, String cluster, String topic) {
            super(control, "DELETE", cluster + "/topics/" + encoded(topic), answer -> Answers.TopicDeleteAnswer.of(Json.object(Json.parse(answer))));
        }
    }

    /** Topic.fill: Append records to a topic, as a producer does. */
    public static final class TopicFill extends Call<Answers.Topic> {
        private TopicFill(Control control, String cluster, String topic, long records) {
            super(control, "POST", cluster + "/topics/" + encoded(topic) + "/records", answer -> Answers.Topic.of(Json.object(Json.parse(answer))));
            set("records", records);
        }

        /** Size of each value in bytes (default: a short text). */
        public TopicFill valueBytes(long valueBytes) {
            set("value_bytes", valueBytes);
            return this;
        }
    }

    /** Topic.records: Show a topic's records, as a consumer gets them; more: there are others behind them. */
    public static final class TopicRecords extends Call<Answers.TopicRecordsAnswer> {
        private TopicRecords(Control control, String cluster, String topic) {
            super(control, "GET", cluster + "/topics/" + encoded(topic) + "/records", answer -> Answers.TopicRecordsAnswer.of(Json.object(Json.parse(answer))));
        }

        /** Of this partition alone. */
        public TopicRecords partition(long partition) {
            set("partition", partition);
            return this;
        }

        /** From this offset on (default: from the first record on). */
        public TopicRecords offset(long offset) {
            set("offset", offset);
            return this;
        }

        /** At most so many records. */
        public TopicRecords limit(long limit) {
            set("limit", limit);
            return this;
        }

        /** A consumer's isolation.level: with or without records of open and aborted transactions; one of read_committed, read_uncommitted. */
        public TopicRecords isolation(String isolation) {
            set("isolation", isolation);
            return this;
        }

        /** Of keys and values; in a text, bytes that are no UTF-8 are \xNN; one of text, base64. */
        public TopicRecords encoding(String encoding) {
            set("encoding", encoding);
            return this;
        }
    }

    /** Topic.wait: Wait until a topic has so many records. */
    public static final class TopicWait extends Call<Answers.Topic> {
        private TopicWait(Control control, String cluster, String topic, long records) {
            super(control, "GET", cluster + "/topics/" + encoded(topic) + "/wait", answer -> Answers.Topic.of(Json.object(Json.parse(answer))));
            set("records", records);
        }

        /** A consumer's isolation.level: with or without records of open and aborted transactions; one of read_committed, read_uncommitted. */
        public TopicWait isolation(String isolation) {
            set("isolation", isolation);
            return this;
        }

        /** Timeout, in real time. */
        public TopicWait timeout(Duration timeout) {
            set("timeout", timeout);
            return this;
        }
    }

    /** Topic.grow: Add partitions to a topic; clients see them when they refresh their metadata. */
    public static final class TopicGrow extends Call<Answers.Topic> {
        private TopicGrow(Control control, String cluster, String topic, long partitions) {
            super(control, "POST", cluster + "/topics/" + encoded(topic) + "/partitions", answer -> Answers.Topic.of(Json.object(Json.parse(answer))));
            set("partitions", partitions);
        }
    }

    /** Scenario.start: Run the steps of a scenario file on these brokers, with the clients that use them, until scenario.end. */
    public static final class ScenarioStart extends Call<Answers.Scenario> {
        private ScenarioStart(Control control, String cluster) {
            super(control, "POST", cluster + "/scenarios", answer -> Answers.Scenario.of(Json.object(Json.parse(answer))));
        }

        /** Name of an included scenario; with file: name of the file in messages. */
        public ScenarioStart name(String name) {
            set("name", name);
            return this;
        }

        /** The text of a scenario file. */
        public ScenarioStart file(String file) {
            set("file", file);
            return this;
        }

        /** Start the file's clients, too, in place of waiting for those of the test. */
        public ScenarioStart startClients(boolean startClients) {
            set("start_clients", startClients);
            return this;
        }

        /** Run it although the cluster's release or settings are not those of the file. */
        public ScenarioStart anySettings(boolean anySettings) {
            set("any_settings", anySettings);
            return this;
        }
    }

    /** Scenario.list: List the scenarios of scenario.start that were not ended, oldest first. */
    public static final class ScenarioList extends Call<Answers.ScenarioListAnswer> {
        private ScenarioList(Control control, String cluster) {
            super(control, "GET", cluster + "/scenarios", answer -> Answers.ScenarioListAnswer.of(Json.object(Json.parse(answer))));
        }
    }

    /** Scenario.get: Show a scenario: the steps that are done, what it waits for, its progress, verdict and expectations. */
    public static final class ScenarioGet extends Call<Answers.Scenario> {
        private ScenarioGet(Control control, String cluster, long scenario) {
            super(control, "GET", cluster + "/scenarios/" + encoded(scenario), answer -> Answers.Scenario.of(Json.object(Json.parse(answer))));
        }
    }

    /** Scenario.end: End a scenario: cancel it if it runs, and clear the states, rules, holds and stopped brokers that its steps left. */
    public static final class ScenarioEnd extends Call<Answers.Scenario> {
        private ScenarioEnd(Control control, String cluster, long scenario) {
            super(control, "DELETE", cluster + "/scenarios/" + encoded(scenario), answer -> Answers.Scenario.of(Json.object(Json.parse(answer))));
        }

        /** False: no error if its expectations failed (default: an error, once). */
        public ScenarioEnd mustHold(boolean mustHold) {
            set("must_hold", mustHold);
            return this;
        }
    }

    /** Scenario.wait: Wait until a scenario has ended, or until a step is done. A scenario whose expectations failed is an error then. */
    public static final class ScenarioWait extends Call<Answers.Scenario> {
        private ScenarioWait(Control control, String cluster, long scenario) {
            super(control, "GET", cluster + "/scenarios/" + encoded(scenario) + "/wait", answer -> Answers.Scenario.of(Json.object(Json.parse(answer))));
        }

        /** Wait until this step is done (default: until the scenario has ended). */
        public ScenarioWait step(String step) {
            set("step", step);
            return this;
        }

        /** Timeout, in real time. */
        public ScenarioWait timeout(Duration timeout) {
            set("timeout", timeout);
            return this;
        }
    }
}
