package failing;

import brokersim.BrokerSim;
import brokersim.Kafka;
import brokersim.SimCluster;
import java.util.Map;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Assertions;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;

/** What must not pass; tests/control/test_from_java.py has what each says. */
@ExtendWith(BrokerSim.class)
class FailingTest {
    @Test
    void aRuleWithoutTryThatNeverMatches(SimCluster kafka) {
        kafka.fault("OffsetCommit").group("billing").dropConnection().once();
    }

    @Test
    void aRuleByItsPathThatNeverMatches(SimCluster kafka) {
        kafka.call("POST", "/faults", Map.of("api", "Heartbeat", "error", "NOT_COORDINATOR"));
    }

    @Test
    void aFailureBesideARuleThatNeverMatches(SimCluster kafka) {
        kafka.fault("OffsetCommit").dropConnection().once();
        Assertions.fail("the test's own");
    }

    @Test
    void aFailureWithoutAClusterAnyMore(SimCluster kafka) {
        kafka.close();
        Assertions.fail("the cluster is gone");
    }

    @Test
    void aRuleThatNeedNotMatchPasses(SimCluster kafka) {
        kafka.fault("OffsetCommit").dropConnection().with("must_hit", false).once();
    }

    @Test
    void aScenarioWhoseExpectationsFail(SimCluster kafka) throws java.io.IOException {
        java.nio.file.Path file = java.nio.file.Files.createTempFile("nobody", ".yaml");
        java.nio.file.Files.writeString(file, """
            topics: [{name: orders}]
            clients: [{name: app, group: billing, topics: [orders]}]
            steps: [{name: nothing, do: {mark: nothing}}]
            expect: [{never: {event: mark, text: nothing}}]
            """);
        SimCluster.Scenario scenario = kafka.scenario(file.toString()).start();
        java.nio.file.Files.delete(file);
        scenario.awaitStep("nothing", java.time.Duration.ofSeconds(20));
    }

    @Test
    @Kafka(config = "num.partitions")
    void aSettingWithoutAValue(SimCluster kafka) {}

    @Test
    @Kafka(config = "=3")
    void aSettingWithoutAName(SimCluster kafka) {}

    @Test
    @Kafka(topics = "orders:many")
    void aTopicWithoutANumber(SimCluster kafka) {}

    @Test
    @Kafka(topics = {"orders:3", "audit"})
    void topicsAreThereAndPass(SimCluster kafka) {
        Assertions.assertEquals(3L, kafka.call("GET", "/topics/orders", Map.of()).get("partitions"));
        Assertions.assertEquals(1L, kafka.call("GET", "/topics/audit", Map.of()).get("partitions"));
    }

    /** A rule may be ended by a method behind the test. */
    @Nested
    class Behind {
        private SimCluster.Fault fault;

        @Test
        void aRuleEndedBehindTheTestPasses(SimCluster kafka) {
            fault = kafka.fault("OffsetCommit").dropConnection().with("must_hit", false).once();
        }

        @AfterEach
        void end() {
            fault.close();
        }
    }

    /** One cluster for all tests of a class: its rules may match in any of them. */
    @Nested
    class OneForAll {
        @BeforeAll
        static void rule(SimCluster kafka) {
            kafka.fault("OffsetCommit").group("for all").dropConnection().once();
        }

        @Test
        void aRuleOfTheClass(SimCluster kafka) {}
    }
}
