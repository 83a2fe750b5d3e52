package example;

import org.springframework.kafka.annotation.KafkaListener;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.stereotype.Component;

/** Writes a bill for each order. */
@Component
public class Billing {
    private final KafkaTemplate<String, String> kafka;

    Billing(KafkaTemplate<String, String> kafka) {
        this.kafka = kafka;
    }

    @KafkaListener(topics = "orders", groupId = "billing")
    void order(String order) {
        kafka.send("bills", order, "bill of " + order);
    }
}
