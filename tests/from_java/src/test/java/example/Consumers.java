package example;

import static java.time.Duration.ofMillis;
import static java.time.Duration.ofSeconds;

import brokersim.SimCluster;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;

/** The application under test, here a bare consumer of topic orders in group billing; yours would be your own class. */
final class Consumers {
    static final String GROUP = "billing";

    private Consumers() {}

    static KafkaConsumer<String, String> billing(SimCluster kafka, String clientId) {
        return in(GROUP, kafka, clientId);
    }

    static KafkaConsumer<String, String> in(String group, SimCluster kafka, String clientId) {
        KafkaConsumer<String, String> consumer = new KafkaConsumer<>(Map.of(
            ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, kafka.bootstrap(),
            ConsumerConfig.GROUP_ID_CONFIG, group,
            ConsumerConfig.CLIENT_ID_CONFIG, clientId,
            ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest",
            ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, false,
            ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG, 200,
            ConsumerConfig.REQUEST_TIMEOUT_MS_CONFIG, 2_000,
            ConsumerConfig.KEY_DESERIALIZER_CLASS_CONFIG, StringDeserializer.class,
            ConsumerConfig.VALUE_DESERIALIZER_CLASS_CONFIG, StringDeserializer.class));
        consumer.subscribe(List.of("orders"));
        return consumer;
    }

    /** Polls until there are records: the consumer has joined its group then. */
    static ConsumerRecords<String, String> someRecords(KafkaConsumer<String, String> consumer) {
        long deadline = System.nanoTime() + ofSeconds(20).toNanos();
        while (System.nanoTime() < deadline) {
            ConsumerRecords<String, String> records = consumer.poll(ofMillis(100));
            if (!records.isEmpty()) {
                return records;
            }
        }
        throw new AssertionError("waited 20 s for records of orders");
    }
}
