import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * A member of a share group that says what it was given, a line for each record: value, delivery count, and what it says of it.
 * Records that begin with "again" are released at their first delivery, those that begin with "bad" are rejected, those that begin
 * with "hold" are left without a word. Ends when so many records were accepted, and leaves.
 */
public class ShareMember {
    public static void main(String[] args) throws Exception {
        String bootstrap = args[0], group = args[1], topic = args[2];
        int wanted = Integer.parseInt(args[3]);
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", bootstrap);
        config.put("group.id", group);
        config.put("share.acknowledgement.mode", "explicit");
        try (KafkaShareConsumer<String, String> consumer =
                 new KafkaShareConsumer<>(config, new StringDeserializer(), new StringDeserializer())) {
            consumer.setAcknowledgementCommitCallback((offsets, error) -> {
                if (error != null) {
                    System.out.println("refused " + error.getClass().getSimpleName());
                }
            });
            consumer.subscribe(List.of(topic));
            System.out.println("subscribed");
            long end = System.nanoTime() + Duration.ofSeconds(60).toNanos();
            int accepted = 0;
            while (accepted < wanted && System.nanoTime() < end) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(500))) {
                    String value = record.value();
                    int count = record.deliveryCount().map(Short::intValue).orElse(0);
                    AcknowledgeType said = AcknowledgeType.ACCEPT;
                    if (value.startsWith("again") && count == 1) {
                        said = AcknowledgeType.RELEASE;
                    } else if (value.startsWith("bad")) {
                        said = AcknowledgeType.REJECT;
                    } else {
                        accepted++;
                    }
                    consumer.acknowledge(record, said);
                    System.out.println(value + " " + count + " " + said);
                }
                consumer.commitSync();
            }
            System.out.println("accepted " + accepted);
        }
        System.out.println("left");
    }
}
