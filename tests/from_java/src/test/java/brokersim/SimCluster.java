package brokersim;

import static brokersim.Control.encoded;

import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.extension.ExtensionContext;

/** A virtual cluster of the process, and what can be done to it: docs/control.md has all of it, this is what tests need most. */
public final class SimCluster implements ExtensionContext.Store.CloseableResource, AutoCloseable {
    private final Control control;
    private final String id;
    private final String bootstrap;
    /** JUnit's id of the test, or of the class, that it was made for. */
    final String owner;

    private SimCluster(Control control, Map<String, Object> created, String owner) {
        this.control = control;
        this.owner = owner;
        this.id = (String) created.get("id");
        this.bootstrap = (String) created.get("bootstrap");
    }

    static SimCluster create(Control control, Map<String, Object> options, String owner) {
        return new SimCluster(control, control.call("POST", "/clusters", options), owner);
    }

    /** Ends the rules that are still there; one that had to match and never did is a SimError. */
    void endRules() {
        for (Map<String, Object> rule : list(call("GET", "/faults", Map.of()), "faults")) {
            call("DELETE", "/faults/" + rule.get("id"), Map.of());
        }
    }

    /** bootstrap.servers */
    public String bootstrap() {
        return bootstrap;
    }

    /** Any operation of the control plane, on this cluster: {@code call("POST", "/brokers/2/down", Map.of())}. */
    public Map<String, Object> call(String method, String path, Map<String, ?> parameters) {
        return control.call(method, "/clusters/" + id + path, parameters);
    }

    @Override
    public void close() {
        control.call("DELETE", "/clusters/" + id, Map.of());
    }

    /** The recent history of every group, and the unanswered requests, as text. */
    public String recentHistory() {
        return (String) call("GET", "/journal/recent", Map.of()).get("text");
    }

    /** A new topic with that many records, spread over its partitions. */
    public void topic(String name, int partitions, int records) {
        call("POST", "/topics", Map.of("topic", name, "partitions", partitions));
        if (records > 0) {
            call("POST", "/topics/" + encoded(name) + "/records", Map.of("records", records));
        }
    }

    public Group group(String name) {
        return new Group(name);
    }

    public Log log(String topic, int partition) {
        return new Log(topic + "-" + partition);
    }

    /** The partition of __consumer_offsets in which a group lives. */
    public Log offsetsLog(String group) {
        return new Log("offsets(" + group + ")");
    }

    public Broker broker(int nodeId) {
        return new Broker(nodeId);
    }

    /** A rule on requests: {@code fault("OffsetCommit").group("billing").dropConnection().once()}. */
    public Rule fault(String api) {
        return new Rule(api);
    }

    public Clock clock() {
        return new Clock();
    }

    /** What an API's requests for a group were answered, the oldest first: an error, NONE, or dropped, truncated. */
    public List<String> answers(String api, String group) {
        String lines = control.text("GET", "/clusters/" + id + "/journal", Map.of("event", "response", "api", api, "group", group));
        return lines.lines().map(line -> (Map<?, ?>) Json.parse(line))
            .map(one -> (String) (one.get("action") != null ? one.get("action") : one.get("error")))
            .map(answer -> answer == null ? "NONE" : answer).toList();
    }

    /** Waits until a request of that API for that group was answered with that error (NONE: with none). */
    public void awaitAnswer(String api, String group, String error) {
        call("GET", "/journal/next", Map.of("api", api, "group", group, "error", error));
    }

    /**
     * The requests of an API that the brokers received, the oldest first: api, version, client_id, group, topics, body, answered, error,
     * answer. The selectors are those of a rule: {@code Map.of("client_id", "app-1")}.
     */
    public List<Map<String, Object>> requests(String api, Map<String, ?> selectors) {
        return received("/requests", api, selectors, Map.of());
    }

    /** Waits until there are so many of these requests that are answered; an error lists what was received instead. */
    public List<Map<String, Object>> awaitRequests(int count, String api, Map<String, ?> selectors, Duration timeout) {
        return received("/requests/wait", api, selectors, Map.of("count", count, "answered", true, "timeout", text(timeout)));
    }

    private List<Map<String, Object>> received(String path, String api, Map<String, ?> selectors, Map<String, ?> more) {
        Map<String, Object> parameters = new LinkedHashMap<>(selectors);
        parameters.putAll(more);
        parameters.put("api", api);
        parameters.put("limit", 10_000);
        return list(call("GET", path, parameters), "requests");
    }

    @SuppressWarnings("unchecked")
    static List<Map<String, Object>> list(Map<String, Object> answer, String name) {
        return (List<Map<String, Object>>) answer.get(name);
    }

    static String text(Duration duration) {
        return duration.toMillis() + "ms";
    }

    /** A consumer group. */
    public final class Group {
        private final String path;
        private final String name;

        private Group(String name) {
            this.name = name;
            this.path = "/groups/" + encoded(name);
        }

        /** Waits until it is stable with so many members; a deadline that passes tells the group's history. */
        public Group awaitStable(int members, Duration timeout) {
            call("GET", path + "/wait", Map.of("state", "Stable", "members", members, "timeout", text(timeout)));
            return this;
        }

        /** Waits as awaitStable, and until every assigned partition was fetched by its owner: what is sent then is delivered. */
        public Group awaitReading(int members, Duration timeout) {
            call("GET", path + "/wait", Map.of("state", "Stable", "members", members, "reading", true, "timeout", text(timeout)));
            return this;
        }

        public Group awaitGeneration(int generation, Duration timeout) {
            call("GET", path + "/wait", Map.of("state", "Stable", "generation", generation, "timeout", text(timeout)));
            return this;
        }

        public long generation() {
            return (Long) call("GET", path, Map.of()).get("generation");
        }

        /** The committed offset of a partition, null where there is none. */
        public Long committed(String topic, int partition) {
            return (Long) ((Map<?, ?>) call("GET", path, Map.of()).get("offsets")).get(topic + "-" + partition);
        }

        /** Why it rebalanced, who held it up, how it ended. */
        public String explain() {
            return (String) call("GET", path + "/explain", Map.of()).get("text");
        }

        /** What its coordinator lives in: {@code coordinator().moveTo(2)}. */
        public Log coordinator() {
            return offsetsLog(name);
        }
    }

    /** A log partition. */
    public final class Log {
        private final String path;

        private Log(String name) {
            this.path = "/logs/" + encoded(name);
        }

        /** The node id of the broker that leads it. */
        public int leader() {
            return ((Long) call("GET", path, Map.of()).get("leader")).intValue();
        }

        public void moveTo(int broker) {
            call("POST", path + "/leader", Map.of("broker", broker));
        }

        public State stuck() {
            return state("stuck", Map.of());
        }

        /** Any kind of state, with its arguments, until it is healed: {@code state("slow", Map.of("latency", "200ms"))}. */
        public State state(String kind, Map<String, ?> arguments) {
            Map<String, Object> parameters = new LinkedHashMap<>(arguments);
            parameters.put("state", kind);
            List<Map<String, Object>> states = list(call("PUT", path + "/state", parameters), "states");
            return new State(states.get(states.size() - 1).get("id"));
        }

        /** A state that lasts; ends with its try block. */
        public final class State implements AutoCloseable {
            private final Object number;

            private State(Object number) {
                this.number = number;
            }

            /** Waits until so many requests wait for the log. */
            public State awaitPending(int requests) {
                call("GET", path + "/pending", Map.of("pending", requests));
                return this;
            }

            /** Ends it; no harm where it has ended. */
            public void heal() {
                call("DELETE", path + "/state", Map.of("id", number));
            }

            @Override
            public void close() {
                heal();
            }
        }
    }

    /** A broker. */
    public final class Broker {
        private final String path;

        private Broker(int nodeId) {
            this.path = "/brokers/" + nodeId;
        }

        /** Its connections are reset, others lead what it led; it comes up again behind the try block, on its port. */
        public Down down() {
            call("POST", path + "/down", Map.of());
            return () -> call("POST", path + "/up", Map.of());
        }

        public void restart() {
            call("POST", path + "/restart", Map.of());
        }

        /** A broker that is down. */
        public interface Down extends AutoCloseable {
            @Override
            void close();
        }
    }

    /** A rule in the making: selectors, one verdict, and then how often. */
    public final class Rule {
        private final Map<String, Object> parameters = new LinkedHashMap<>();

        private Rule(String api) {
            parameters.put("api", api);
        }

        /** Any selector, budget or verdict by its own name. */
        public Rule with(String name, Object value) {
            parameters.put(name, value);
            return this;
        }

        public Rule group(String group) {
            return with("group", group);
        }

        public Rule clientId(String clientId) {
            return with("client_id", clientId);
        }

        public Rule error(String name) {
            return with("error", name);
        }

        public Rule delay(Duration duration) {
            return with("delay", text(duration));
        }

        public Rule hang() {
            return with("hang", true);
        }

        public Rule dropConnection() {
            return with("drop", true);
        }

        public Fault once() {
            return times(1);
        }

        public Fault times(int times) {
            return new Fault(call("POST", "/faults", with("times", times).parameters));
        }

        public Fault always() {
            return new Fault(call("POST", "/faults", parameters));
        }
    }

    /** A rule at work; ends with its try block, or with the test, which fails where it never hit. */
    public final class Fault implements AutoCloseable {
        private final String path;

        private Fault(Map<String, Object> added) {
            this.path = "/faults/" + added.get("id");
        }

        public Fault awaitHits(int hits) {
            call("GET", path + "/hits", Map.of("hits", hits));
            return this;
        }

        @Override
        public void close() {
            call("DELETE", path, Map.of());
        }
    }

    /** The brokers' time. */
    public final class Clock {
        /** Lets time pass on a manual clock, and says which timers fired; members not named in {@code expire} stay alive. */
        @SuppressWarnings("unchecked")
        public List<String> advance(Duration by, String... expire) {
            return (List<String>) call("POST", "/clock/advance", Map.of("by", text(by), "expire", List.of(expire))).get("fired");
        }

        public long nowMs() {
            return (Long) call("GET", "/clock", Map.of()).get("now_ms");
        }
    }

    /** What the control plane refused, or waited for in vain: an AssertionError, for that is what a test makes of it. */
    public static final class SimError extends AssertionError {
        public final int status;
        /** UsageError, NotThere, WaitTimeout, NeverHit, KafkaError, ... */
        public final String kind;

        SimError(int status, Map<?, ?> told) {
            super(told.get("error"));
            this.status = status;
            this.kind = String.valueOf(told.get("kind"));
        }
    }
}
