/*
 * The scenarios' app on the Java client: App SETTINGS. One source for kafka-clients 3.4 and 4.x. It speaks the line protocol of
 * broker_sim/scenario/apps: one JSON object as its argument, one a line on stdout, commands on stdin. The client's log goes to stderr.
 */

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

public class App implements ConsumerRebalanceListener {
    static final ObjectMapper JSON = new ObjectMapper();
    static final Duration POLL = Duration.ofMillis(200);
    static final int MAX_TEXT = 500;
    static final Map<String, String> DURATIONS = Map.of(
        "session_timeout", "session.timeout.ms",
        "heartbeat_interval", "heartbeat.interval.ms",
        "max_poll_interval", "max.poll.interval.ms",
        "request_timeout", "request.timeout.ms",
        "auto_commit_interval", "auto.commit.interval.ms",
        "metadata_max_age", "metadata.max.age.ms");
    static final Map<String, String> ASSIGNORS = Map.of(
        "range", "org.apache.kafka.clients.consumer.RangeAssignor",
        "roundrobin", "org.apache.kafka.clients.consumer.RoundRobinAssignor",
        "sticky", "org.apache.kafka.clients.consumer.StickyAssignor",
        "cooperative-sticky", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");

    final JsonNode settings;
    final String commit;
    final KafkaConsumer<byte[], byte[]> consumer;
    final Map<TopicPartition, OffsetAndMetadata> next = new LinkedHashMap<>();
    volatile long hangMs;
    volatile boolean leaving;
    volatile boolean wantsCommit;

    App(JsonNode settings) {
        this.settings = settings;
        commit = settings.path("commit").asText("batch");
        Properties config = new Properties();
        config.put("bootstrap.servers", settings.get("bootstrap").asText());
        config.put("client.id", settings.get("client_id").asText());
        config.put("key.deserializer", ByteArrayDeserializer.class.getName());
        config.put("value.deserializer", ByteArrayDeserializer.class.getName());
        config.put("auto.offset.reset", settings.path("reset").asText("earliest"));
        config.put("enable.auto.commit", commit.equals("auto"));
        DURATIONS.forEach((name, key) -> {
            if (settings.hasNonNull(name)) {
                config.put(key, String.valueOf(Math.round(settings.get(name).asDouble() * 1000)));
            }
        });
        copy("group", "group.id", config);
        copy("instance_id", "group.instance.id", config);
        copy("max_poll_records", "max.poll.records", config);
        if (settings.hasNonNull("assignor")) {
            config.put("partition.assignment.strategy", ASSIGNORS.get(settings.get("assignor").asText()));
        }
        settings.path("config").fields().forEachRemaining(entry -> config.put(entry.getKey(), entry.getValue().asText()));
        consumer = new KafkaConsumer<>(config);
    }

    void copy(String name, String key, Properties config) {
        if (settings.hasNonNull(name)) {
            config.put(key, settings.get(name).asText());
        }
    }

    void run() throws InterruptedException {
        List<String> topics = new ArrayList<>();
        settings.get("topics").forEach(topic -> topics.add(topic.asText()));
        if (settings.path("assign").asBoolean()) {
            List<TopicPartition> found = new ArrayList<>();
            for (String topic : topics) {
                for (PartitionInfo partition : consumer.partitionsFor(topic)) {
                    found.add(new TopicPartition(topic, partition.partition()));
                }
            }
            consumer.assign(found);
            tell("assigned", Map.of("partitions", logs(found)));
        } else {
            consumer.subscribe(topics, this);
        }
        while (!leaving) {
            long hang = hangMs;
            if (hang > 0) {
                hangMs = 0;
                Thread.sleep(hang);
            }
            turn();
        }
        consumer.close();
        tell("left", Map.of());
    }

    /* One poll, its records and what was told meanwhile. */
    void turn() throws InterruptedException {
        try {
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(POLL)) {
                handle(record);
            }
        } catch (KafkaException error) {
            tell("error", text(error));
            Thread.sleep(POLL.toMillis());
            return;
        }
        if ((!next.isEmpty() && commit.equals("batch")) || wantsCommit) {
            wantsCommit = false;
            commit();
        }
    }

    void handle(ConsumerRecord<byte[], byte[]> record) throws InterruptedException {
        if (settings.hasNonNull("work")) {
            Thread.sleep(Math.round(settings.get("work").asDouble() * 1000));
        }
        TopicPartition partition = new TopicPartition(record.topic(), record.partition());
        next.put(partition, new OffsetAndMetadata(record.offset() + 1));
        tell("read", Map.of("log", partition.toString(), "offset", record.offset()));
        if (commit.equals("each")) {
            commit();
        }
    }

    /* Commits what was read. */
    void commit() {
        if (next.isEmpty()) {
            return;
        }
        try {
            consumer.commitSync(next);
        } catch (KafkaException error) {
            tell("commit_failed", text(error));
            return;
        }
        Map<String, Long> offsets = new LinkedHashMap<>();
        next.forEach((partition, at) -> offsets.put(partition.toString(), at.offset()));
        tell("committed", Map.of("offsets", offsets));
        next.clear();
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        tell("assigned", Map.of("partitions", logs(partitions)));
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        next.keySet().removeAll(partitions);
        tell("revoked", Map.of("partitions", logs(partitions)));
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        next.keySet().removeAll(partitions);
        tell("lost", Map.of("partitions", logs(partitions)));
    }

    static List<String> logs(Collection<TopicPartition> partitions) {
        return partitions.stream().map(TopicPartition::toString).sorted().collect(Collectors.toList());
    }

    static Map<String, Object> text(Exception error) {
        String words = error.getClass().getSimpleName() + ": " + error.getMessage();
        return Map.of("text", words.substring(0, Math.min(words.length(), MAX_TEXT)));
    }

    static void tell(String reports, Map<String, ?> details) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("reports", reports);
        line.putAll(details);
        try {
            String written = JSON.writeValueAsString(line);
            synchronized (JSON) {
                System.out.println(written);
                System.out.flush();
            }
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }

    /* Commands, one a line; the end of stdin ends the process. */
    void listen() {
        try (BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                String[] words = line.trim().split(" ", 2);
                switch (words[0]) {
                    case "hang": hangMs = Math.round(Double.parseDouble(words[1]) * 1000); break;
                    case "commit": wantsCommit = true; break;
                    case "leave": leaving = true; break;
                    default: break;
                }
            }
        } catch (IOException error) {
            error.printStackTrace();
        }
        Runtime.getRuntime().halt(0);
    }

    public static void main(String[] args) throws Exception {
        App app = new App(JSON.readTree(args[0]));
        Thread listener = new Thread(app::listen, "commands");
        listener.setDaemon(true);
        listener.start();
        app.run();
        System.exit(0);
    }
}
