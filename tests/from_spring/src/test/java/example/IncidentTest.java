package example;

import static java.time.Duration.ofSeconds;
import static org.junit.jupiter.api.Assertions.assertEquals;

import brokersim.Kafka;
import brokersim.SimCluster;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.RepeatedTest;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.test.context.SpringBootTest;
import org.springframework.kafka.core.KafkaTemplate;

/** The incident of a scenario file happens to the application, in each test again; the cluster is that of the context. */
@SpringBootTest
@Kafka(scenario = "incidents/loading.yaml")
class IncidentTest {
    @Autowired
    private KafkaTemplate<String, String> template;

    @RepeatedTest(2)
    void everyOrderGetsABillThoughTheCoordinatorLoads(SimCluster kafka) throws Exception {
        int before = kafka.topic("bills").records().size();
        kafka.scenario().awaitStep("loading", ofSeconds(20));
        template.send("orders", "one").get(10, TimeUnit.SECONDS);
        assertEquals("held", kafka.scenario().awaitEnd(ofSeconds(40)).verdict());
        kafka.topic("bills").awaitRecords(before + 1, ofSeconds(10));
    }
}
