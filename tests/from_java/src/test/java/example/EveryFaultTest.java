package example;

import static example.Consumers.GROUP;
import static example.Consumers.billing;
import static example.Consumers.someRecords;
import static java.time.Duration.ofMillis;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import brokersim.BrokerSim;
import brokersim.Kafka;
import brokersim.SimCluster;
import brokersim.SimCluster.SimError;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Whatever can be done to a request, or to the partition that a group lives in, by its own name. */
@ExtendWith(BrokerSim.class)
@Kafka(brokers = 2)
class EveryFaultTest {
    private static final Map<String, Object> VERDICTS = new LinkedHashMap<>(Map.of(
        "error", "NOT_COORDINATOR",
        "error_after", "COORDINATOR_NOT_AVAILABLE",
        "delay", "50ms",
        "reply_delay", "50ms",
        "hang", true,
        "drop", true,
        "drop_after", true,
        "truncate", 6,
        "split", 5,
        "throttle_ms", 50));

    /** What a commit comes to while the coordinator's log is in that state, for a moment. */
    private static final Map<String, Map<String, ?>> STATES = Map.of(
        "stuck", Map.of("for", "300ms"),
        "under_min_isr", Map.of("for", "300ms"),
        "slow", Map.of("for", "10s", "latency", "100ms", "jitter", "50ms"),
        "loading", Map.of("for", "300ms"),
        "no_leader", Map.of("for", "300ms"),
        "not_leader", Map.of("for", "300ms"),
        "storage_error", Map.of("for", "300ms"),
        "full", Map.of("for", "300ms", "free_bytes", 0),
        "readonly", Map.of("for", "300ms"));

    @Test
    void aCommitOutlivesEveryVerdict(SimCluster kafka) {
        kafka.topic("orders", 2, 20);
        try (KafkaConsumer<String, String> app = billing(kafka, "app")) {
            someRecords(app);
            VERDICTS.forEach((name, value) -> {
                try (var fault = kafka.fault("OffsetCommit").group(GROUP).with(name, value).once()) {
                    app.commitSync();
                    fault.awaitHits(1);
                }
            });
        }
    }

    @Test
    void aCommitOutlivesEveryStateThatPasses(SimCluster kafka) {
        kafka.topic("orders", 2, 20);
        try (KafkaConsumer<String, String> app = billing(kafka, "app")) {
            someRecords(app);
            STATES.forEach((kind, arguments) -> {
                try (var state = kafka.offsetsLog(GROUP).state(kind, arguments)) {
                    app.commitSync();
                }
            });
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"too_large", "fenced"})
    void aCommitFailsWhereTryingAgainIsInVain(String kind, SimCluster kafka) {
        kafka.topic("orders", 2, 20);
        try (KafkaConsumer<String, String> app = billing(kafka, "app")) {
            someRecords(app);
            try (var state = kafka.offsetsLog(GROUP).state(kind, Map.of())) {
                assertTrue(assertThrows(KafkaException.class, app::commitSync).getMessage().startsWith("Unexpected error in commit"));
            }
            app.commitSync();
        }
    }

    @Test
    void aGroupMayHaveAnyName(SimCluster kafka) {
        String group = "Käse/100 % \"fresh\" \\o/";
        kafka.topic("orders", 2, 20);
        try (KafkaConsumer<String, String> app = Consumers.in(group, kafka, "app")) {
            TopicPartition read = someRecords(app).partitions().iterator().next();
            kafka.group(group).awaitStable(1, ofMillis(10_000));
            try (var state = kafka.offsetsLog(group).state("slow", Map.of("latency", "1ms"));
                 var fault = kafka.fault("OffsetCommit").group(group).dropConnection().once()) {
                app.commitSync();
            }
            assertTrue(kafka.group(group).committed("orders", read.partition()) > 0);
            assertTrue(kafka.group(group).explain().contains(group), kafka.group(group).explain());
        }
    }

    @Test
    void wrongNamesAreTold(SimCluster kafka) {
        SimError wrong = assertThrows(SimError.class, () -> kafka.fault("OffsetComit").dropConnection().once());
        assertTrue(wrong.getMessage().startsWith("no API 'OffsetComit'; did you mean 'OffsetCommit'? expected one of "), wrong.getMessage());
        assertEquals(400, wrong.status);
    }

    @Test
    void aRuleThatNeverHitFailsItsTest(SimCluster kafka) {
        SimCluster.Fault unused = kafka.fault("OffsetCommit").group(GROUP).dropConnection().once();
        SimError told = assertThrows(SimError.class, unused::close);
        assertEquals("NeverHit", told.kind);
        assertTrue(told.getMessage().contains("OffsetCommit group=billing"), told.getMessage());
    }

    @Test
    void aWaitInVainTellsTheGroupsHistory(SimCluster kafka) {
        kafka.topic("orders", 2, 20);
        try (KafkaConsumer<String, String> app = billing(kafka, "app")) {
            someRecords(app);
            SimError told = assertThrows(SimError.class, () -> kafka.group(GROUP).awaitStable(2, ofMillis(50)));
            assertEquals("WaitTimeout", told.kind);
            assertTrue(told.getMessage().contains("app"), told.getMessage());
        }
    }
}
