package example;

import static example.Consumers.GROUP;
import static example.Consumers.billing;
import static example.Consumers.someRecords;
import static java.time.Duration.ofSeconds;
import static java.util.concurrent.TimeUnit.SECONDS;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import brokersim.BrokerSim;
import brokersim.Kafka;
import brokersim.SimCluster;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;

/** Incidents of the group coordinator, and what a KafkaConsumer makes of them. */
@ExtendWith(BrokerSim.class)
class StuckPartitionTest {
    @BeforeEach
    void orders(SimCluster kafka) {
        kafka.topic("orders", 6, 600);
    }

    @Test
    @Kafka(brokers = 3, asVersion = "3.9", clock = "manual")
    void aCommitWaitsOutAStuckOffsetsPartitionOfKafka39(SimCluster kafka) throws Exception {
        commitWaitsItOut(kafka, "REQUEST_TIMED_OUT");
    }

    @Test
    @Kafka(brokers = 3, asVersion = "4.1", clock = "manual")
    void aCommitWaitsOutAStuckOffsetsPartitionOfKafka41(SimCluster kafka) throws Exception {
        commitWaitsItOut(kafka, "COORDINATOR_NOT_AVAILABLE");
    }

    private static void commitWaitsItOut(SimCluster kafka, String told) throws Exception {
        try (KafkaConsumer<String, String> app = billing(kafka, "app")) {
            someRecords(app);
            CompletableFuture<Void> commit;
            try (var jam = kafka.offsetsLog(GROUP).stuck()) {
                commit = CompletableFuture.runAsync(app::commitSync);
                jam.awaitPending(1);                                       // appended, not committed, not answered
                kafka.clock().advance(ofSeconds(5));                       // offsets.commit.timeout.ms of the broker
                kafka.awaitAnswer("OffsetCommit", GROUP, told);
                assertFalse(commit.isDone(), "the client tries again by itself");
            }
            commit.get(10, SECONDS);                                       // healed: it went through
            assertEquals(1, kafka.group(GROUP).generation(), "and nobody had to rebalance");
        }
    }

    @Test
    @Kafka(brokers = 3)
    void aCommitFollowsACoordinatorThatMoves(SimCluster kafka) throws Exception {
        try (KafkaConsumer<String, String> app = billing(kafka, "app")) {
            someRecords(app);
            SimCluster.Log coordinator = kafka.group(GROUP).coordinator();
            int next = coordinator.leader() % 3 + 1;
            CompletableFuture<Void> commit;
            try (var jam = coordinator.stuck()) {
                commit = CompletableFuture.runAsync(app::commitSync);
                jam.awaitPending(1);
                coordinator.moveTo(next);
                kafka.awaitAnswer("OffsetCommit", GROUP, "NOT_COORDINATOR");
            }
            commit.get(10, SECONDS);
            assertEquals(next, coordinator.leader());
            assertEquals(1, kafka.group(GROUP).generation());
        }
    }

    @Test
    @Kafka(brokers = 3)
    void aCommitOutlivesTheBrokerOfItsCoordinator(SimCluster kafka) {
        try (KafkaConsumer<String, String> app = billing(kafka, "app")) {
            someRecords(app);
            int first = kafka.group(GROUP).coordinator().leader();
            try (var down = kafka.broker(first).down()) {
                app.commitSync();
                assertNotEquals(first, kafka.group(GROUP).coordinator().leader());
            }
            kafka.broker(first).restart();
            app.commitSync();
            assertEquals(1, kafka.group(GROUP).generation());
        }
    }

    @Test
    @Kafka(clock = "manual")
    void aMemberThatCrashedIsGoneAfterItsSession(SimCluster kafka) throws Exception {
        try (Poller survivor = new Poller(billing(kafka, "survivor"))) {
            KafkaConsumer<String, String> victim = billing(kafka, "victim");
            try (Poller polling = new Poller(victim)) {
                kafka.group(GROUP).awaitReading(2, ofSeconds(10));
                polling.crash();
            }
            long before = kafka.group(GROUP).generation();

            kafka.clock().advance(ofSeconds(44), "victim");
            assertEquals(before, kafka.group(GROUP).generation(), "its session lasts 45 s");
            List<String> fired = kafka.clock().advance(ofSeconds(2), "victim");

            assertTrue(fired.stream().anyMatch(timer -> timer.contains("session")), fired.toString());
            kafka.group(GROUP).awaitStable(1, ofSeconds(10));
            assertEquals(before + 1, kafka.group(GROUP).generation());
            assertTrue(kafka.group(GROUP).explain().contains("victim"), kafka.group(GROUP).explain());
        }
    }

    @Test
    void aCommitWhoseConnectionIsLostIsSentAgain(SimCluster kafka) {
        try (KafkaConsumer<String, String> app = billing(kafka, "app")) {
            someRecords(app);
            try (var lost = kafka.fault("OffsetCommit").group(GROUP).dropConnection().once()) {
                app.commitSync();
                lost.awaitHits(1);
            }
            assertEquals(List.of("dropped", "NONE"), kafka.answers("OffsetCommit", GROUP));
        }
    }
}
