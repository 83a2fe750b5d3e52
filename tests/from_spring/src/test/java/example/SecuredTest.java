package example;

import static java.time.Duration.ofSeconds;
import static org.junit.jupiter.api.Assertions.assertEquals;

import brokersim.Kafka;
import brokersim.SimCluster;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.test.context.SpringBootTest;
import org.springframework.kafka.core.KafkaTemplate;

/** The same application against brokers that require SASL and TLS: another annotation is another context. */
@SpringBootTest
@Kafka(topics = {"orders", "bills"}, securityProtocol = "SASL_SSL", users = "alice:secret")
class SecuredTest {
    @Test
    void theSettingsForItAreSet(@Autowired KafkaTemplate<String, String> template, SimCluster kafka) throws Exception {
        template.send("orders", "one").get(10, TimeUnit.SECONDS);
        assertEquals("bill of one", kafka.topic("bills").awaitRecords(1, ofSeconds(10)).get(0).value());
    }
}
