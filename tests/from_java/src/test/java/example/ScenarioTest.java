package example;

import static example.Consumers.billing;
import static example.Consumers.someRecords;
import static java.time.Duration.ofSeconds;
import static java.util.concurrent.TimeUnit.SECONDS;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import brokersim.Answers;
import brokersim.BrokerSim;
import brokersim.Kafka;
import brokersim.SimCluster;
import java.util.concurrent.CompletableFuture;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;

/** Incidents of scenario files happen to a KafkaConsumer. */
@ExtendWith(BrokerSim.class)
class ScenarioTest {
    @Test
    @Kafka(scenario = "incidents/stuck.yaml", clock = "manual")
    void aCommitSurvivesAStuckOffsetsPartition(SimCluster kafka) throws Exception {
        SimCluster.Scenario incident = kafka.scenario();
        try (KafkaConsumer<String, String> app = billing(kafka, "app")) {
            someRecords(app);
            incident.awaitStep("stuck", ofSeconds(20));
            CompletableFuture<Void> commit = CompletableFuture.runAsync(app::commitSync);
            kafka.api().logWait("offsets(billing)").pending(1).timeout(ofSeconds(20)).call();
            kafka.clock().advance(ofSeconds(5));                            // offsets.commit.timeout.ms of the broker
            incident.awaitStep("a commit fails", ofSeconds(20));
            assertTrue(incident.describe().running());
            kafka.clock().advance(ofSeconds(35));                           // the 40 s are over
            commit.get(20, SECONDS);
            Answers.Scenario end = incident.awaitEnd(ofSeconds(20));
            assertEquals("held", end.verdict());
            assertEquals(2, end.results().size());
        }
    }

    @Test
    @Kafka(brokers = 3)
    void whatAFileHasBrokenIsMended(SimCluster kafka) {
        SimCluster.Scenario incident = kafka.scenario("incidents/broker-dies.yaml").start();
        try (incident; KafkaConsumer<String, String> app = billing(kafka, "app")) {
            someRecords(app);
            incident.awaitStep("the broker is down", ofSeconds(20));
            assertEquals(2, kafka.api().brokerList().call().brokers().stream().filter(Answers.Broker::alive).count());
            incident.awaitEnd(ofSeconds(40));
        }
        assertEquals(3, kafka.api().brokerList().call().brokers().stream().filter(Answers.Broker::alive).count());
        assertEquals(0, kafka.api().scenarioList().call().scenarios().size());
    }

    @Test
    void aLineThatCanNotBeIsNamed(SimCluster kafka) {
        var start = kafka.scenario("incidents/crash.yaml");
        SimCluster.SimError refused = assertThrows(SimCluster.SimError.class, start::start);
        assertTrue(refused.getMessage().startsWith("incidents/crash.yaml:4: the client app is one that the test starts"), refused.getMessage());
        assertThrows(IllegalArgumentException.class, () -> kafka.scenario("incidents/nowhere.yaml"));
        assertThrows(IllegalStateException.class, kafka::scenario);
    }

    @Test
    @Kafka(scenario = "partition-count-grows")
    void anIncludedScenarioByItsName(SimCluster kafka) {
        assertEquals(2, kafka.api().topicGet("orders").call().partitions());
        assertTrue(kafka.scenario().describe().running(), "until two members have joined");
    }
}
