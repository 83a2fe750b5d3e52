import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** What member.py is, with Java's consumer: the same options (one JSON object), commands and words. */
public final class Member {
    private static final Logger LOG = LoggerFactory.getLogger("service");
    private static final String PACKAGE = "org.apache.kafka.clients.consumer.";
    private static final Queue<String> COMMANDS = new ConcurrentLinkedQueue<>();

    private final String options;
    private final KafkaConsumer<String, String> consumer;
    private final Map<TopicPartition, Long> read = new HashMap<>();
    private final Map<TopicPartition, Long> committed = new HashMap<>();
    private Set<TopicPartition> said = null;
    private boolean muted = false;
    private boolean again = false;

    private Member(String options) {
        this.options = options;
        Properties settings = new Properties();
        settings.put("bootstrap.servers", text(options, "bootstrap"));
        settings.put("group.id", text(options, "group"));
        settings.put("client.id", text(options, "client_id"));
        settings.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        settings.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        settings.put("max.poll.interval.ms", number(options, "max_poll_ms"));
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", text(options, "reset"));
        settings.put("metadata.max.age.ms", number(options, "metadata_ms"));
        if (text(options, "instance_id") != null) {
            settings.put("group.instance.id", text(options, "instance_id"));
        }
        if ("consumer".equals(text(options, "protocol"))) {
            settings.put("group.protocol", "consumer");
        } else {
            settings.put("session.timeout.ms", number(options, "session_ms"));
            settings.put("heartbeat.interval.ms", number(options, "heartbeat_ms"));
            settings.put("partition.assignment.strategy", switch (text(options, "assignor")) {
                case "cooperative" -> PACKAGE + "CooperativeStickyAssignor";
                case "both" -> PACKAGE + "CooperativeStickyAssignor," + PACKAGE + "RangeAssignor";
                default -> PACKAGE + "RangeAssignor";
            });
        }
        consumer = new KafkaConsumer<>(settings);
        consumer.subscribe(List.of(text(options, "topic")));
    }

    private void run() throws InterruptedException {
        long every = Long.parseLong(number(options, "commit_ms"));
        long due = System.nanoTime();
        String poison = text(options, "dies_on");
        for (String command = ""; !"close".equals(text(command, "do")); command = next()) {
            obey(command);
            for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                if (record.value().equals(poison)) {
                    Runtime.getRuntime().halt(137);
                }
                read.put(new TopicPartition(record.topic(), record.partition()), record.offset() + 1);
            }
            tell();
            if (System.nanoTime() >= due) {
                commit(false);
                due = System.nanoTime() + every * 1_000_000;
            }
        }
        commit(true);
        consumer.close();
        say("\"event\": \"closed\"");
    }

    private void obey(String command) throws InterruptedException {
        String verb = text(command, "do");
        if (verb == null) {
            return;
        }
        if (verb.equals("block")) {
            Thread.sleep((long) (Double.parseDouble(number(command, "seconds")) * 1000));
        } else if (verb.equals("seek") || verb.equals("old")) {
            long back = Long.parseLong(number(command, "back"));
            Map<TopicPartition, Long> old = new HashMap<>();
            for (TopicPartition at : consumer.assignment()) {
                if (read.containsKey(at)) {
                    old.put(at, Math.max(0, read.get(at) - back));
                }
            }
            if (verb.equals("seek")) {
                read.putAll(old);
                old.forEach(consumer::seek);
            }
            send(old);
        } else if (verb.equals("mute")) {
            muted = command.contains("true");
        } else if (verb.equals("again")) {
            again = command.contains("true");
        }
        say("\"event\": \"did\", \"did\": \"" + verb + "\"");
    }

    private void tell() {
        Set<TopicPartition> has = new HashSet<>(consumer.assignment());
        if (has.equals(said)) {
            return;
        }
        said = has;
        read.keySet().retainAll(has);
        committed.keySet().retainAll(has);
        String parts = has.stream().map(at -> String.valueOf(at.partition())).sorted().collect(Collectors.joining(", "));
        say("\"event\": \"assigned\", \"partitions\": [" + parts + "]");
    }

    private void commit(boolean last) {
        if (muted && !last) {
            return;
        }
        Map<TopicPartition, Long> fresh = new HashMap<>(read);
        fresh.keySet().retainAll(consumer.assignment());
        if (!again) {
            fresh.entrySet().removeIf(one -> one.getValue().equals(committed.get(one.getKey())));
        }
        send(fresh);
    }

    private void send(Map<TopicPartition, Long> offsets) {
        if (offsets.isEmpty()) {
            return;
        }
        try {
            Map<TopicPartition, OffsetAndMetadata> asked = new HashMap<>();
            offsets.forEach((at, offset) -> asked.put(at, new OffsetAndMetadata(offset)));
            consumer.commitSync(asked, Duration.ofSeconds(30));
            committed.putAll(offsets);
            say("\"event\": \"committed\", \"offsets\": {" + offsets.entrySet().stream()
                .map(one -> "\"" + one.getKey().partition() + "\": " + one.getValue()).collect(Collectors.joining(", ")) + "}");
        } catch (KafkaException error) { // as services do: it is logged, and tried again with what is read then
            LOG.warn("commit failed: {}", error.toString());
        }
    }

    private static String next() {
        String command = COMMANDS.poll();
        return command == null ? "" : command;
    }

    private static void say(String what) {
        System.out.println("{\"at_ms\": " + System.currentTimeMillis() + ", " + what + "}");
    }

    private static String text(String json, String name) {
        Matcher found = Pattern.compile("\"" + name + "\": \"([^\"]*)\"").matcher(json);
        return found.find() ? found.group(1) : null;
    }

    private static String number(String json, String name) {
        Matcher found = Pattern.compile("\"" + name + "\": ([0-9.]+)").matcher(json);
        return found.find() ? found.group(1) : "0";
    }

    public static void main(String[] args) throws InterruptedException {
        Thread listener = new Thread(() -> {
            new BufferedReader(new InputStreamReader(System.in)).lines().forEach(COMMANDS::add);
            COMMANDS.add("{\"do\": \"close\"}");
        });
        listener.setDaemon(true);
        listener.start();
        new Member(args[0]).run();
    }
}
