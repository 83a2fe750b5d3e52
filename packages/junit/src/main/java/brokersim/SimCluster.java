package brokersim;

import static brokersim.Control.encoded;

import java.time.Duration;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.extension.ExtensionContext;

/**
 * A virtual cluster of the control server: what tests need most. {@link #api} has every operation, with all of its parameters.
 *
 * <p>Operations throw {@link SimError} when they are refused or when a wait's deadline passes.
 */
@SuppressWarnings("deprecation")  // before 5.13 JUnit closes nothing else
public final class SimCluster implements ExtensionContext.Store.CloseableResource, AutoCloseable {
    private final Control control;
    private final Answers.Cluster created;
    private final Operations api;
    private final Map.Entry<?, ?> user;
    /** JUnit's id of the test, or of the class, that it was made for. */
    final String owner;
    /** The scenario file of the annotation, "" without one. */
    private final String scenarioFile;
    private Scenario scenario;
    /** Runs when the cluster has stopped. */
    Runnable whenClosed = () -> {};

    private SimCluster(Control control, Answers.Cluster created, Map.Entry<?, ?> user, String owner, String scenarioFile) {
        this.user = user;
        this.scenarioFile = scenarioFile;
        this.control = control;
        this.owner = owner;
        this.created = created;
        this.api = new Operations(control, created.id());
    }

    static SimCluster create(Control control, Map<String, Object> options, String owner) {
        Map<?, ?> users = (Map<?, ?>) options.getOrDefault("users", Map.of());
        Map.Entry<?, ?> user = users.entrySet().stream().findFirst().orElse(null);
        String file = options.getOrDefault("scenario", "").toString();
        return new SimCluster(control, Answers.Cluster.of(control.call("POST", "/clusters", options)), user, owner, file);
    }

    /** Starts the scenario of the annotation, if it has one. */
    SimCluster startScenario() {
        if (!scenarioFile.isEmpty()) {
            scenario = scenario(scenarioFile).anySettings().start();
        }
        return this;
    }

    /** The numbers of the scenarios that were not ended. */
    List<Long> scenarios() {
        return api.scenarioList().call().scenarios().stream().map(Answers.Scenario::id).toList();
    }

    /** Ends the scenarios but for {@code earlier} ones; one whose expectations failed is a SimError. */
    void endScenarios(Collection<?> earlier, boolean mustHold) {
        for (long number : scenarios()) {
            if (!earlier.contains(number)) {
                Operations.ScenarioEnd end = api.scenarioEnd(number);
                (mustHold ? end : end.mustHold(false)).call();
            }
        }
    }

    /** The numbers of the rules that are still there. */
    List<Long> rules() {
        return api.faultList().call().faults().stream().map(Answers.Fault::id).toList();
    }

    /** Removes the rules that are still there, but for {@code earlier} ones; a required one that never matched is a SimError. */
    void endRules(Collection<?> earlier, boolean mustHit) {
        for (long rule : rules()) {
            if (!earlier.contains(rule)) {
                Operations.FaultRemove remove = api.faultRemove(rule);
                (mustHit ? remove : remove.mustHit(false)).call();
            }
        }
    }

    /**
     * The address for clients.
     *
     * @return bootstrap.servers
     */
    public String bootstrap() {
        return created.bootstrap();
    }

    /**
     * The certificate authority that clients must trust.
     *
     * @return PEM, or null without TLS
     */
    public String ca() {
        return created.ca();
    }

    /**
     * The settings with which a Java client connects: bootstrap.servers, and for TLS and SASL what {@link Kafka#securityProtocol} needs,
     * with the first of {@link Kafka#users}.
     *
     * @return values by Kafka's names
     */
    public Map<String, Object> clientProperties() {
        Map<String, Object> properties = new LinkedHashMap<>(Map.of("bootstrap.servers", bootstrap()));
        String protocol = created.securityProtocol();
        if (!protocol.equals("PLAINTEXT")) {
            properties.put("security.protocol", protocol);
        }
        if (protocol.endsWith("SSL")) {
            properties.put("ssl.truststore.type", "PEM");
            properties.put("ssl.truststore.certificates", ca());
        }
        if (protocol.startsWith("SASL") && user != null) {
            properties.put("sasl.mechanism", "SCRAM-SHA-256");
            properties.put("sasl.jaas.config", "org.apache.kafka.common.security.scram.ScramLoginModule required"
                + " username=" + quoted(user.getKey()) + " password=" + quoted(user.getValue()) + ";");
        }
        return properties;
    }

    private static String quoted(Object text) {
        return '"' + text.toString().replace("\\", "\\\\").replace("\"", "\\\"") + '"';
    }

    /**
     * Every operation of the control server on this cluster, with all of its parameters.
     *
     * @return what {@code api().groupWait("billing").state("Stable").members(3).call()} is called on
     */
    public Operations api() {
        return api;
    }

    /**
     * Makes any call on this cluster by its path: {@code call("POST", "/brokers/2/down", Map.of())}.
     *
     * @param method GET, POST, PUT or DELETE
     * @param path below the cluster's
     * @param parameters by their names
     * @return the JSON object of the answer
     */
    public Map<String, Object> call(String method, String path, Map<String, ?> parameters) {
        return control.call(method, "/clusters/" + encoded(created.id()) + path, parameters);
    }

    /** Stops the cluster. The extension does it behind the test, and Spring with the context. */
    @Override
    public void close() {
        try {
            api.clusterDelete(created.id()).call();
        } finally {
            whenClosed.run();
        }
    }

    /**
     * The recent history of every group, and the unanswered requests.
     *
     * @return text for people; blank if nothing happened
     */
    public String recentHistory() {
        return api.journalRecent().call().text();
    }

    /**
     * Creates a topic with records that are spread over its partitions.
     *
     * @param name its name
     * @param partitions their number
     * @param records their number
     * @return the topic
     */
    public Topic topic(String name, int partitions, int records) {
        api.topicCreate(name).partitions(partitions).call();
        return records > 0 ? topic(name).fill(records) : topic(name);
    }

    /**
     * A topic.
     *
     * @param name its name
     * @return the topic, which need not exist yet
     */
    public Topic topic(String name) {
        return new Topic(name);
    }

    /**
     * A consumer group, which need not exist yet.
     *
     * @param name the group id
     * @return the group
     */
    public Group group(String name) {
        return new Group(name);
    }

    /**
     * A log partition.
     *
     * @param topic its topic
     * @param partition its number
     * @return the partition
     */
    public Log log(String topic, int partition) {
        return new Log(topic + "-" + partition);
    }

    /**
     * The partition of __consumer_offsets in which a group's offsets are.
     *
     * @param group the group id
     * @return the partition
     */
    public Log offsetsLog(String group) {
        return new Log("offsets(" + group + ")");
    }

    /**
     * A broker.
     *
     * @param nodeId its node id, from 1
     * @return the broker
     */
    public Broker broker(int nodeId) {
        return new Broker(nodeId);
    }

    /**
     * A rule on requests: {@code fault("OffsetCommit").group("billing").dropConnection().once()}.
     *
     * @param api Kafka's name of the API
     * @return the rule, which is not active yet
     */
    public Rule fault(String api) {
        return new Rule(api);
    }

    /**
     * The scenario of {@link Kafka#scenario}.
     *
     * @return the scenario, which runs since the start of the test
     */
    public Scenario scenario() {
        if (scenario == null) {
            throw new IllegalStateException("no @Kafka(scenario = ...) above the test or its class");
        }
        return scenario;
    }

    /**
     * A scenario file, whose incident happens to the clients of the test: {@code scenario("incidents/stuck.yaml").start()}.
     *
     * @param file a path, a resource of the class path, or the name of an included scenario
     * @return the file, which does not run yet
     */
    public ScenarioStart scenario(String file) {
        return new ScenarioStart(file);
    }

    /**
     * The brokers' clock.
     *
     * @return the clock
     */
    public Clock clock() {
        return new Clock();
    }

    /**
     * How an API's requests for a group were answered.
     *
     * @param api Kafka's name of the API
     * @param group the group id
     * @return the oldest first: an error, NONE, or dropped, truncated
     */
    public List<String> answers(String api, String group) {
        return this.api.journalRead().event("response").api(api).group(group).call().stream()
            .map(one -> (String) (one.get("action") != null ? one.get("action") : one.get("error")))
            .map(answer -> answer == null ? "NONE" : answer).toList();
    }

    /**
     * Waits until a request for a group was answered with an error; earlier answers count.
     *
     * @param api Kafka's name of the API
     * @param group the group id
     * @param error Kafka's name of the error; NONE: without one
     */
    public void awaitAnswer(String api, String group, String error) {
        this.api.journalNext().api(api).group(group).error(error).call();
    }

    /**
     * The requests that the brokers received.
     *
     * @param api Kafka's name of the API, as in OffsetCommit
     * @return a selection, for {@code requests("OffsetCommit").clientId("app-1").awaitCount(3, ofSeconds(10))}
     */
    public Requests requests(String api) {
        return new Requests(api);
    }

    /** A selection of the requests that the brokers received. */
    public final class Requests {
        private final Map<String, Object> selectors = new LinkedHashMap<>();

        private Requests(String api) {
            selectors.put("api", api);
            selectors.put("limit", 10_000);
        }

        /**
         * Selects by any selector of a rule.
         *
         * @param selector its name: version, member, transactional_id, topic, partition, broker, ...
         * @param value what must match
         * @return this
         */
        public Requests with(String selector, Object value) {
            selectors.put(selector, value);
            return this;
        }

        /**
         * Selects by client id.
         *
         * @param clientId an id, or a pattern with asterisks
         * @return this
         */
        public Requests clientId(String clientId) {
            return with("client_id", clientId);
        }

        /**
         * Selects by the group id in the request.
         *
         * @param group an id, or a pattern with asterisks
         * @return this
         */
        public Requests group(String group) {
            return with("group", group);
        }

        /**
         * Those that were received up to now, the latest 10,000.
         *
         * @return the oldest first
         */
        public List<Answers.Request> list() {
            return Answers.RequestListAnswer.of(call("GET", "/requests", selectors)).requests();
        }

        /**
         * Waits until so many were received and answered, earlier ones included; the error lists what was received instead.
         *
         * @param count at least 1
         * @param timeout in real time
         * @return the oldest first
         */
        public List<Answers.Request> awaitCount(int count, Duration timeout) {
            Map<String, Object> all = new LinkedHashMap<>(selectors);
            all.putAll(Map.of("count", count, "answered", true, "timeout", timeout));
            return Answers.RequestWaitAnswer.of(call("GET", "/requests/wait", all)).requests();
        }
    }

    /** A topic. */
    public final class Topic {
        private final String name;

        private Topic(String name) {
            this.name = name;
        }

        /**
         * Appends records, as a producer does, spread over the partitions.
         *
         * @param records their number
         * @return this
         */
        public Topic fill(int records) {
            api.topicFill(name, records).call();
            return this;
        }

        /**
         * The records of all partitions, as a consumer gets them, up to 10,000.
         *
         * @return by partition and offset, keys and values as text
         */
        public List<Answers.Record> records() {
            return api.topicRecords(name).limit(10_000).call().records();
        }

        /**
         * Waits until there are so many records.
         *
         * @param count their number
         * @param timeout in real time
         * @return the records, as {@link #records}
         */
        public List<Answers.Record> awaitRecords(int count, Duration timeout) {
            api.topicWait(name, count).timeout(timeout).call();
            return records();
        }
    }

    static String text(Duration duration) {
        return duration.toMillis() + "ms";
    }

    /** A consumer group. */
    public final class Group {
        private final String name;

        private Group(String name) {
            this.name = name;
        }

        /**
         * Waits until the group is stable with so many members; the error of a deadline that passes has the group's history.
         *
         * @param members their number
         * @param timeout in real time
         * @return this
         */
        public Group awaitStable(int members, Duration timeout) {
            api.groupWait(name).state("Stable").members(members).timeout(timeout).call();
            return this;
        }

        /**
         * Waits as {@link #awaitStable}, and until every assigned partition was fetched by its owner: records that are produced then are
         * delivered.
         *
         * @param members their number
         * @param timeout in real time
         * @return this
         */
        public Group awaitReading(int members, Duration timeout) {
            api.groupWait(name).state("Stable").members(members).reading(true).timeout(timeout).call();
            return this;
        }

        /**
         * Waits until the group is stable in this generation or a later one.
         *
         * @param generation a number
         * @param timeout in real time
         * @return this
         */
        public Group awaitGeneration(int generation, Duration timeout) {
            api.groupWait(name).state("Stable").generation(generation).timeout(timeout).call();
            return this;
        }

        /**
         * Everything that the coordinator knows of the group: state, members, offsets, lag.
         *
         * @return its present state
         */
        public Answers.Group describe() {
            return api.groupGet(name).call();
        }

        /**
         * The generation.
         *
         * @return its number
         */
        public long generation() {
            return describe().generation();
        }

        /**
         * The committed offset of a partition.
         *
         * @param topic its topic
         * @param partition its number
         * @return null without one
         */
        public Long committed(String topic, int partition) {
            return describe().offsets().get(topic + "-" + partition);
        }

        /**
         * Why the group rebalanced, who delayed it, how it ended.
         *
         * @return sentences
         */
        public String explain() {
            return api.groupExplain(name).call().text();
        }

        /**
         * The log partition of the group's coordinator: {@code coordinator().moveTo(2)}.
         *
         * @return a partition of __consumer_offsets
         */
        public Log coordinator() {
            return offsetsLog(name);
        }
    }

    /** A log partition. */
    public final class Log {
        private final String name;

        private Log(String name) {
            this.name = name;
        }

        /**
         * The node id of the broker that leads it.
         *
         * @return a node id
         */
        public int leader() {
            return (int) api.logGet(name).call().leader();
        }

        /**
         * Moves its leader; that of an offsets partition is the coordinator of its groups.
         *
         * @param broker a node id
         */
        public void moveTo(int broker) {
            api.leaderMove(name).broker(broker).call();
        }

        /**
         * Stops appends from being committed, until the state is healed.
         *
         * @return the state
         */
        public State stuck() {
            return state("stuck", Map.of());
        }

        /**
         * Sets a fault state, until it is healed: {@code state("slow", Map.of("latency", "200ms"))}.
         *
         * @param kind its name
         * @param arguments by name
         * @return the state
         */
        public State state(String kind, Map<String, ?> arguments) {
            Map<String, Object> parameters = new LinkedHashMap<>(arguments);
            parameters.put("state", kind);
            List<Answers.State> states = Answers.Log.of(SimCluster.this.call("PUT", "/logs/" + encoded(name) + "/state", parameters)).states();
            return new State(states.get(states.size() - 1).id());
        }

        /** A fault state of the partition; ends with its try block. */
        public final class State implements AutoCloseable {
            private final long number;

            private State(long number) {
                this.number = number;
            }

            /**
             * Waits until so many requests wait for the log.
             *
             * @param requests their number
             * @return this
             */
            public State awaitPending(int requests) {
                api.logWait(name).pending(requests).call();
                return this;
            }

            /** Clears it; no error where it has ended. */
            public void heal() {
                api.stateHeal(name).id(number).call();
            }

            @Override
            public void close() {
                heal();
            }
        }
    }

    /** A broker. */
    public final class Broker {
        private final int nodeId;

        private Broker(int nodeId) {
            this.nodeId = nodeId;
        }

        /**
         * Stops it: its connections are reset, and other replicas lead; it starts again behind the try block, on its port.
         *
         * @return what ends that
         */
        public Down down() {
            api.brokerDown(nodeId).call();
            return () -> api.brokerUp(nodeId).call();
        }

        /** Restarts it; its coordinators load from their logs. */
        public void restart() {
            api.brokerRestart(nodeId).call();
        }

        /** A broker that is down. */
        public interface Down extends AutoCloseable {
            @Override
            void close();
        }
    }

    /** A rule on requests that is not active yet: selectors, one action, and then how often. */
    public final class Rule {
        private final Map<String, Object> parameters = new LinkedHashMap<>();

        private Rule(String api) {
            parameters.put("api", api);
        }

        /**
         * Sets any selector or action by its name.
         *
         * @param name a parameter of {@link Operations#faultAdd}, in snake_case
         * @param value its value
         * @return this
         */
        public Rule with(String name, Object value) {
            parameters.put(name, value);
            return this;
        }

        /**
         * Selects by the group id in the request.
         *
         * @param group an id, or a pattern with asterisks
         * @return this
         */
        public Rule group(String group) {
            return with("group", group);
        }

        /**
         * Selects by client id.
         *
         * @param clientId an id, or a pattern with asterisks
         * @return this
         */
        public Rule clientId(String clientId) {
            return with("client_id", clientId);
        }

        /**
         * Responds with an error; the request is not applied.
         *
         * @param name Kafka's name of the error
         * @return this
         */
        public Rule error(String name) {
            return with("error", name);
        }

        /**
         * Handles the request after a delay.
         *
         * @param duration the delay
         * @return this
         */
        public Rule delay(Duration duration) {
            return with("delay", duration);
        }

        /**
         * Never handles nor answers the request.
         *
         * @return this
         */
        public Rule hang() {
            return with("hang", true);
        }

        /**
         * Resets the connection; the request is not applied.
         *
         * @return this
         */
        public Rule dropConnection() {
            return with("drop", true);
        }

        /**
         * Activates the rule for one request.
         *
         * @return the active rule
         */
        public Fault once() {
            return times(1);
        }

        /**
         * Activates the rule for so many requests.
         *
         * @param times their number
         * @return the active rule
         */
        public Fault times(int times) {
            return with("times", times).always();
        }

        /**
         * Activates the rule until it ends.
         *
         * @return the active rule
         */
        public Fault always() {
            return new Fault(Answers.FaultAddAnswer.of(call("POST", "/faults", parameters)).id());
        }
    }

    /** An active rule; ends with its try block, or with the test, which fails where it never matched. */
    public final class Fault implements AutoCloseable {
        private final long number;

        private Fault(long number) {
            this.number = number;
        }

        /**
         * Waits until it has matched that often.
         *
         * @param hits a number
         * @return this
         */
        public Fault awaitHits(int hits) {
            api.faultWait(number).hits(hits).call();
            return this;
        }

        @Override
        public void close() {
            api.faultRemove(number).call();
        }
    }

    /** A scenario file that does not run yet. */
    public final class ScenarioStart {
        private final Operations.ScenarioStart call = api.scenarioStart();

        private ScenarioStart(String file) {
            ScenarioFile.parameters(file, "name", "file").forEach(call::set);
        }

        /**
         * Starts the clients of the file, too; by default the test's clients take their places.
         *
         * @return this
         */
        public ScenarioStart withClients() {
            call.startClients(true);
            return this;
        }

        /**
         * Runs it although the cluster's release or settings are not those of the file.
         *
         * @return this
         */
        public ScenarioStart anySettings() {
            call.anySettings(true);
            return this;
        }

        /**
         * Starts it.
         *
         * @return the running scenario
         */
        public Scenario start() {
            return new Scenario(call.call().id());
        }
    }

    /** A scenario that runs; ends with its try block, or with the test, which fails where an expectation of the file failed. */
    public final class Scenario implements AutoCloseable {
        private final long number;

        private Scenario(long number) {
            this.number = number;
        }

        /**
         * Waits until a step is done.
         *
         * @param step its name
         * @param timeout in real time
         * @return this
         */
        public Scenario awaitStep(String step, Duration timeout) {
            api.scenarioWait(number).step(step).timeout(timeout).call();
            return this;
        }

        /**
         * Waits until all steps are done and all expectations held; one that failed is a {@link SimError} with the report.
         *
         * @param timeout in real time
         * @return the end
         */
        public Answers.Scenario awaitEnd(Duration timeout) {
            return api.scenarioWait(number).timeout(timeout).call();
        }

        /**
         * The steps that are done, what it waits for, its progress and its verdict.
         *
         * @return its present state
         */
        public Answers.Scenario describe() {
            return api.scenarioGet(number).call();
        }

        /**
         * Cancels it if it runs, and clears the faults that its steps have set; it is a {@link SimError} if an expectation failed, unless
         * {@link #awaitEnd} has thrown that, and no error where it has ended.
         */
        @Override
        public void close() {
            if (scenarios().contains(number)) {
                api.scenarioEnd(number).call();
            }
        }
    }

    /** The brokers' clock. */
    public final class Clock {
        private Clock() {}

        /**
         * Advances a manual clock; members that are not named in {@code expire} stay alive.
         *
         * @param by how far
         * @param expire member ids, instance ids or client ids
         * @return the timers that fired
         */
        public List<String> advance(Duration by, String... expire) {
            return api.clockAdvance(by).expire(expire).call().fired();
        }

        /**
         * The brokers' time.
         *
         * @return ms since 1970
         */
        public long nowMs() {
            return api.clockGet().call().nowMs();
        }
    }

    /** A request to the control server that was refused, or a wait whose deadline passed: a failed assertion. */
    public static final class SimError extends AssertionError {
        private static final long serialVersionUID = 1;
        /** The status of HTTP. */
        public final int status;
        /** UsageError, NotThere, WaitTimeout, NeverHit, KafkaError, ... */
        public final String kind;

        SimError(int status, Map<?, ?> answer) {
            super(answer.get("error"));
            this.status = status;
            this.kind = String.valueOf(answer.get("kind"));
        }
    }
}
