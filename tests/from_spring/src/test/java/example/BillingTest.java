package example;

import static java.time.Duration.ofSeconds;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;

import brokersim.Kafka;
import brokersim.SimCluster;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.test.context.SpringBootTest;
import org.springframework.kafka.core.KafkaTemplate;

/** The application as a whole, with a cluster that starts and ends with its context. */
@SpringBootTest
@Kafka(topics = {"orders:3", "bills"})
class BillingTest {
    @Autowired
    private KafkaTemplate<String, String> template;

    @Autowired
    private SimCluster bean;

    @Test
    void everyOrderGetsABill(SimCluster kafka) throws Exception {
        int before = kafka.topic("bills").records().size();
        template.send("orders", "one").get(10, TimeUnit.SECONDS);
        var bills = kafka.topic("bills").awaitRecords(before + 1, ofSeconds(10));
        assertEquals("bill of one", bills.get(before).value());
    }

    @Test
    void aCommitWhoseConnectionIsLostIsSentAgain(SimCluster kafka) throws Exception {
        int before = kafka.topic("bills").records().size();
        try (var lost = kafka.fault("OffsetCommit").group("billing").dropConnection().once()) {
            template.send("orders", "two").get(10, TimeUnit.SECONDS);
            lost.awaitHits(1);
        }
        kafka.awaitAnswer("OffsetCommit", "billing", "NONE");
        kafka.topic("bills").awaitRecords(before + 1, ofSeconds(10));
    }

    @Test
    void theClusterIsABean(SimCluster kafka) {
        assertSame(bean, kafka);
    }

    @Nested
    class Inside {
        @Test
        void aNestedClassHasTheClusterOfTheContext(SimCluster kafka) {
            assertSame(bean, kafka);
            kafka.group("billing").awaitReading(1, ofSeconds(10));
        }
    }
}
