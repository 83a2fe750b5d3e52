package example;

import static example.Consumers.GROUP;
import static example.Consumers.billing;
import static example.Consumers.someRecords;
import static java.time.Duration.ofSeconds;
import static java.util.concurrent.TimeUnit.SECONDS;
import static org.junit.jupiter.api.Assertions.assertEquals;

import brokersim.BrokerSim;
import brokersim.Kafka;
import brokersim.SimCluster;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CyclicBarrier;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;

/** Two tests at the same time, with the same names of everything: each has its own brokers, its own time, its own incident. */
@ExtendWith(BrokerSim.class)
@Execution(ExecutionMode.CONCURRENT)
class TwoClustersTest {
    private static final CyclicBarrier BOTH = new CyclicBarrier(2);

    @Test
    @Kafka(asVersion = "3.9", clock = "manual")
    void oneIsStuckAndItsTimePasses(SimCluster kafka) throws Exception {
        kafka.topic("orders", 6, 600);
        long before = kafka.clock().nowMs();
        try (KafkaConsumer<String, String> app = billing(kafka, "app")) {
            someRecords(app);
            CompletableFuture<Void> commit;
            try (var jam = kafka.offsetsLog(GROUP).stuck()) {
                commit = CompletableFuture.runAsync(app::commitSync);
                jam.awaitPending(1);
                kafka.clock().advance(ofSeconds(3600));
                kafka.awaitAnswer("OffsetCommit", GROUP, "REQUEST_TIMED_OUT");
                BOTH.await(20, SECONDS);  // now the other one commits
                BOTH.await(20, SECONDS);
            }
            commit.get(10, SECONDS);
        }
        assertEquals(3_600_000, kafka.clock().nowMs() - before);
    }

    @Test
    @Kafka(asVersion = "4.1", clock = "manual")
    void theOtherNoticesNothing(SimCluster kafka) throws Exception {
        kafka.topic("orders", 2, 20);
        long before = kafka.clock().nowMs();
        try (KafkaConsumer<String, String> app = billing(kafka, "app")) {
            someRecords(app);
            BOTH.await(20, SECONDS);  // now the other one is stuck
            app.commitSync();
            assertEquals(List.of("NONE"), kafka.answers("OffsetCommit", GROUP));
            var commits = kafka.requests("OffsetCommit").clientId("app").awaitCount(1, ofSeconds(10));
            assertEquals(GROUP, commits.get(0).group());
            assertEquals(List.of(), kafka.requests("OffsetCommit").clientId("other").list());
            assertEquals(before, kafka.clock().nowMs());
            BOTH.await(20, SECONDS);
        }
    }
}
