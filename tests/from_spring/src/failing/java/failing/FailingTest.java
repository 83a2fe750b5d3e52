package failing;

import static java.time.Duration.ofSeconds;
import static org.junit.jupiter.api.Assertions.fail;

import brokersim.Kafka;
import brokersim.SimCluster;
import example.Application;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.springframework.boot.test.context.SpringBootTest;

/** What must not pass in a test of Spring; tests/control/test_from_java.py has what each says. */
@SpringBootTest(classes = Application.class)
@Kafka(topics = {"orders", "bills"})
class FailingTest {
    @BeforeAll
    static void aRuleOfTheClass(SimCluster kafka) {
        kafka.fault("Heartbeat").group("of the class").hang().always();
    }

    @Test
    void aRuleThatNeverMatches(SimCluster kafka) {
        kafka.fault("OffsetCommit").group("of the test").dropConnection().once();
    }

    @Test
    void aFailureOfItsOwn(SimCluster kafka) {
        kafka.group("billing").awaitReading(1, ofSeconds(10));
        fail("the test's own");
    }

    @Test
    @Kafka(brokers = 3)
    void anotherClusterThanThatOfTheContext(SimCluster kafka) {}

    @Test
    void nothingIsWrongAndPasses(SimCluster kafka) {}
}
