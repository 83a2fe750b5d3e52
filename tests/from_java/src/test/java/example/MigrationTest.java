package example;

import static example.Consumers.billing;
import static example.Consumers.someRecords;
import static java.time.Duration.ofSeconds;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import brokersim.Kafka;
import brokersim.SimCluster;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.Test;

/** The lines "after" of docs/migration.md. */
class MigrationTest {
    @Test
    @Kafka(topics = "orders:6")
    void anOrderIsSent(SimCluster kafka) {
        var settings = Map.<String, Object>of("bootstrap.servers", kafka.bootstrap());
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            producer.send(new ProducerRecord<>("orders", "42"));
        }
        assertEquals("42", kafka.topic("orders").awaitRecords(1, ofSeconds(10)).get(0).value());
    }

    @Test
    @Kafka(topics = "orders:6")
    void aCommitDuringARebalanceFails(SimCluster kafka) {
        kafka.topic("orders").fill(6);
        try (KafkaConsumer<String, String> consumer = billing(kafka, "app-1")) {
            someRecords(consumer);
            kafka.fault("OffsetCommit").group("billing").error("REBALANCE_IN_PROGRESS").once();
            assertThrows(RebalanceInProgressException.class, consumer::commitSync);
        }
    }
}
