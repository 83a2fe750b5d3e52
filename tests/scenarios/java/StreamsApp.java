/*
 * The scenarios' app on Kafka Streams with group.protocol=streams: StreamsApp SETTINGS. It speaks the line protocol of
 * broker_sim/scenario/apps. Its topology reads its topics; with `config: {changelog: NAME}` it keeps the last value of each key in a
 * store, which has a changelog. The log of the library goes to stderr.
 */

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.KeyValueStore;

public class StreamsApp {
    static final ObjectMapper JSON = new ObjectMapper();
    static final long LOOK_MS = 100;

    public static void main(String[] args) throws Exception {
        JsonNode settings = JSON.readTree(args[0]);
        Properties config = new Properties();
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, settings.get("bootstrap").asText());
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, settings.get("group").asText());
        config.put(StreamsConfig.CLIENT_ID_CONFIG, settings.get("client_id").asText());
        config.put(StreamsConfig.STATE_DIR_CONFIG, Files.createTempDirectory("streams-app").toString());
        config.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.BytesSerde.class);
        config.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.BytesSerde.class);
        config.put("group.protocol", "streams");

        KafkaStreams streams = new KafkaStreams(topology(settings), config);
        streams.setUncaughtExceptionHandler(error -> {
            tell("error", Map.of("text", String.valueOf(root(error).getMessage())));
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        Thread looking = new Thread(() -> look(streams));
        looking.setDaemon(true);
        streams.start();
        looking.start();
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String command = commands.readLine();
        while (command != null && !command.equals("leave")) {
            command = commands.readLine();
        }
        streams.close(java.time.Duration.ofSeconds(20));
        tell("left", Map.of());
    }

    static org.apache.kafka.streams.Topology topology(JsonNode settings) {
        List<String> topics = new ArrayList<>();
        settings.get("topics").forEach(topic -> topics.add(topic.asText()));
        StreamsBuilder builder = new StreamsBuilder();
        KStream<Bytes, Bytes> read = builder.stream(topics);
        if (settings.path("config").hasNonNull("changelog")) {
            read.toTable(Materialized.<Bytes, Bytes, KeyValueStore<Bytes, byte[]>>as("counts-store"));
        } else {
            read.foreach((key, value) -> { });
        }
        return builder.build();
    }

    /* Tells of tasks that it has and had not before, and of those that it has no more. */
    static void look(KafkaStreams streams) {
        TreeSet<String> has = new TreeSet<>();
        while (true) {
            TreeSet<String> now = new TreeSet<>();
            if (streams.state() == KafkaStreams.State.RUNNING || streams.state() == KafkaStreams.State.REBALANCING) {
                streams.metadataForLocalThreads().forEach(thread ->
                    thread.activeTasks().forEach(task -> now.add(task.taskId().toString())));
            }
            if (!now.containsAll(has)) {
                TreeSet<String> gone = new TreeSet<>(has);
                gone.removeAll(now);
                tell("revoked", Map.of("tasks", gone));
            }
            if (!has.containsAll(now)) {
                tell("assigned", Map.of("tasks", now));
            }
            has = now;
            try {
                TimeUnit.MILLISECONDS.sleep(LOOK_MS);
            } catch (InterruptedException error) {
                return;
            }
        }
    }

    static Throwable root(Throwable error) {
        return error.getCause() == null ? error : root(error.getCause());
    }

    static synchronized void tell(String reports, Map<String, ?> details) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("reports", reports);
        line.putAll(details);
        try {
            System.out.println(JSON.writeValueAsString(line));
            System.out.flush();
        } catch (java.io.IOException error) {
            throw new IllegalStateException(error);
        }
    }
}
